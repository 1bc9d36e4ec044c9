/* SPDX-License-Identifier: Apache-2.0 */
/* A task: one fused operator group as a chain of structured operators with shapes, layouts and epilogue.
 *
 * The text is canonical: task_parse(task_text(t)) gives t again, and task_key is the hash of the text. It is
 * all that a worker needs: no operator names, no model. One stage reads, in einsum style:
 *
 *   axes n:1 k:64 y:56 x:56 | c:64 r:3 s:3            spatial | reduction, extents
 *   X f32[1,64,58,58] c/16 in  [n,c,y+r,x+s]          operand: logical dims, layout, role, index per dim
 *   W f32[64,64,3,3] const [k,c,r,s]
 *   B f32[64] const [k]
 *   body X W mul; sum; post acc B add relu             scalar programs in postfix
 *   Y f32[1,64,56,56] c/16 out [n,k,y,x]
 *
 * (the exact grammar is in task_text.c's first comment.) Operand order is the kernel's buffer order.
 *
 * Semantics: for each point of the spatial axes, acc = combine over the reduction axes of body(reads); out =
 * post(acc, reads indexed by spatial axes only). No reduction axes: acc = body. A read whose index leaves [0,
 * dim) gives the operand's fill value, without touching memory (this is how padding is said when the buffer
 * has no halo). Sum order is free. Stages chain: an operand with role `tmp` is written by one stage and read
 * by later ones; it never leaves the kernel.
 *
 * Types. An operand is f32, u8, i8 or i32; a tmp is not i32. A plain i32 vector that no stage writes may be
 * a table. The value of a u8, i8 or i32 element is its number; its fill must be one that the type has, so the
 * padding of a quantized image reads the zero point.
 *   - Whole values: reads of u8, i8 and i32, and the acc of a stage that sums bytes or products of two of
 *     them (stage_whole). Sums, and `add` and `mul` of two whole values, are exact. It is the maker's fault
 *     if one leaves s32. Every other operator takes whole values rounded to f32, to nearest even.
 *   - Exact stages: those that write u8, i8 or i32. Their programs are evaluated in binary32, one operator
 *     after the other, each result rounded (no fma), with the flushes and the rules for min, max and NaN of
 *     kernels/loops/loops.h. A result v for u8 or i8 is stored as rint(min(max(v, least), greatest)) of the
 *     type, and NaN as the least; one for i32 must be a whole value (stage_gives_whole). So every schedule on
 *     every target gives the same integers, and task_check only allows what makes that possible: operators
 *     with one defined result (no exp, pow and the like), no reduction, a max, a min or a whole sum, and no
 *     f32 intermediates. ONNX Runtime's formula for quantized convolutions is: body X W mul; sum; post acc B
 *     add S mul rint 3 add, with B i32, S[k] = sx * sw[k] / sy and the output's zero point 3; relu is part of
 *     the clamp. Products whose input has a zero point Z, u8, that is known only at run time are: body X W
 *     mul; sum; post acc T Z mul add, with T[k] = -(the sum of column k).
 *
 * Sizes are constants, or symbols SYM(i) in a shape-generic task, bound by run-time parameters. task_abstract
 * turns a task into its generic form plus the parameter values: two tasks that differ in sizes only have the
 * same generic text. */
#ifndef KERNELS_TASK_H
#define KERNELS_TASK_H

#include "kernels/task/tensor.h"
#include "platform/base/buf.h"
#include "platform/base/hash.h"

enum {
	MAX_AXES = 12,
	MAX_OPERANDS = 20,
	MAX_READS = 12,
	MAX_STAGES = 8,
	MAX_SPLITS = 10,
	MAX_PROG = 64,
	MAX_SYMS = 96
};

#define SYM_BASE (INT64_MIN / 2)
#define SYM(i) (SYM_BASE + (i))
#define IS_SYM(v) ((v) >= SYM_BASE && (v) < SYM_BASE + MAX_SYMS)
#define SYM_INDEX(v) ((int)((v)-SYM_BASE))

enum axis_kind { AXIS_SPATIAL, AXIS_REDUCTION };

struct axis {
	char name[8];
	enum axis_kind kind;
	int64_t extent; /* or SYM */
};

/* Layout of a buffer: the physical axes, outermost first. Physical index j = ((i[dim] + lo[dim]) / div) %
 * extent_j; the outermost axis of a dim has no remainder. Plain row-major: one axis per dim with div 1.
 * nchw16c with a halo of one: {n,1} {c,16} {h,1} {w,1} {c,1} with lo[h]=lo[w]=1, hi[h]=hi[w]=1. Halo elements
 * exist in memory: in an input they hold the operand's fill value; a kernel never writes those of its output
 * (the plan fills them). Padding lanes of a split dim (dims[c]=24 under c/16 occupies 32) hold finite but
 * meaningless values: a kernel may write them, and a kernel that reduces over such a dim multiplies them by
 * zero constants or masks them. A split dim has no halo. */
struct layout {
	int n; /* 0: plain */
	struct {
		uint8_t dim;
		int32_t div; /* 1, or the block; a dim appears once (div 1) or twice (div b, then div 1) */
	} ax[MAX_SPLITS];
	int64_t lo[MAX_RANK], hi[MAX_RANK]; /* halo before and after, per logical dim; or SYM */
};

enum role { ROLE_IN, ROLE_OUT, ROLE_CONST, ROLE_TMP };

/* Index of one dim: off + sum coef[a] * axis a, then floor-divided by div and taken modulo mod where they are
 * > 1. */
struct index {
	int64_t coef[MAX_AXES]; /* or SYM */
	int64_t off;            /* or SYM */
	int64_t div, mod;       /* constants; 0 or 1: none */
	int table;              /* operand (i32, rank 1) through which the index is looked up; -1: none */
	bool guard; /* generic tasks only: the index may leave [-lo, dim + hi). false guarantees that it
		     * does not; task_check refuses false if no values of the symbols allow it */
};

struct operand {
	char name[8];
	enum role role;
	enum dtype dtype;  /* DT_F32, DT_U8, DT_I8, DT_I32 */
	struct shape dims; /* logical; entries may be SYM */
	struct layout layout;
	float fill; /* value outside [0, dim) and in halos: 0, or -FLT_MAX for a maximum */
	/* Set by task_groups, not part of the text. 4: an element is four bytes that are neighbours along
	 * group_dim; else 0. */
	int group, group_dim;
	int past; /* set by task_groups: elements past the end that its last group has; kernels read them */
};

/* Scalar programs in postfix over f32 and whole values. */
enum prog_op {
	P_READ, /* push read i of the stage */
	P_ACC,  /* push the reduced value (post only) */
	P_IMM,  /* push imm */
	P_ADD,
	P_SUB,
	P_MUL,
	P_DIV,
	P_MIN,
	P_MAX,
	P_POW,
	P_NEG,
	P_ABS,
	P_SQRT,
	P_RECIP,
	P_EXP,
	P_LOG,
	P_TANH,
	P_SIGMOID,
	P_ERF,
	P_FLOOR,
	P_CEIL,
	P_RINT,
	P_SIGN,
	P_LT,
	P_LE,
	P_EQ,     /* a b -> 1 or 0 */
	P_SELECT, /* c a b -> c != 0 ? a : b */
	P_SQUARE,
	P_SILU, /* x sigmoid(x) */
	P_GELU, /* x (1 + erf(x / sqrt 2)) / 2 */
	P_OPS
};

const char *prog_op_name(enum prog_op op); /* "add" */
int prog_op_arity(enum prog_op op);        /* values taken from the stack; each operator pushes one */

struct prog {
	int n;
	struct {
		uint8_t op;  /* enum prog_op */
		uint8_t arg; /* P_READ: read index */
		float imm;
	} at[MAX_PROG];
};

enum combiner { COMB_NONE, COMB_SUM, COMB_MAX, COMB_MIN, COMB_PROD };

struct read {
	int operand; /* index in task.operand */
	struct index dim[MAX_RANK];
};

struct stage {
	int naxes, nreads;
	struct axis axis[MAX_AXES]; /* spatial first, outermost first; then reduction */
	struct read read[MAX_READS];
	struct prog body;
	enum combiner comb;
	struct prog post; /* n == 0: acc as it is */
	struct read out;  /* indexed by spatial axes; injective */
};

struct task {
	int noperands, nstages, nsyms;
	int shared; /* in a copy by task_keep: 1 + task_shared(); 0: not computed */
	enum dtype pairs; /* set by task_pairs and task_inputs; DT_NONE: by neither. Not part of the text */
	struct operand operand[MAX_OPERANDS];
	struct stage stage[MAX_STAGES];
};

/* Copies only the used parts of a task's 120 KB, so a copy in an arena touches no other pages and takes no
 * more memory. */
void task_copy(struct task *to, const struct task *from);
struct task *task_dup(struct arena *a, const struct task *t);
/* Makes a read-only copy without room for more stages. It must not be copied by value. */
const struct task *task_keep(struct arena *a, const struct task *t);
void task_text(const struct task *t, struct buf *out);
int task_parse(const char *text, struct task *out) MUST_CHECK; /* untrusted text: E_CORRUPT, never a crash */
/* Checks every invariant above; that symbols 0 to nsyms - 1 are all used; and that writes, table look-ups and
 * unguarded reads stay inside, unless this depends on symbols (task_check.c has the details). The contents of
 * tables are not checked here. */
int task_check(const struct task *t) MUST_CHECK;
struct key task_key(const struct task *t);
double task_flops(
    const struct task *t); /* multiplications and additions of all stages, including those inside of exp
			    * and similar */
double task_bytes(const struct task *t,
		  bool constants); /* bytes read and written; constants: const operands count too */
void task_label(const struct task *t,
		char out[96]); /* for people: "conv 3x3 64->64 56x56 relu" style, derived from structure */
int64_t
operand_elems(const struct operand *o); /* physical elements, halo and block padding included (no SYM) */
/* Physical element offset of logical index i[] (may lie in the halo: -lo <= i < dim + hi). */
int64_t operand_offset(const struct operand *o, const int64_t *i);
/* Element of `whole` at which a part along dim d begins that starts at index `at`, if the part has the same
 * layout there as on its own; -1: it has not. */
int64_t operand_inside(const struct operand *part, const struct operand *whole, int d, int64_t at);
void layout_blocked(struct layout *l, int rank, int dim, int block); /* e.g. nchw16c: (4, 1, 16) */
bool layout_equal(const struct layout *a, const struct layout *b);
/* The physical axes of a buffer, plain ones included, with extent and stride in elements. Returns their
 * number. */
struct phys_axis {
	int dim;
	int64_t div, mod; /* j = ((i + lo) / div) % mod; mod 0: no remainder */
	int64_t extent, stride;
};
int operand_axes(const struct operand *o, struct phys_axis ax[MAX_SPLITS]);
/* Whether the stage sums over indexes from a table, as a resized image does. */
bool stage_resamples(const struct task *t, const struct stage *s);
/* Range of an index over all points of its stage (constant sizes, before a table look-up). */
void index_range(const struct stage *s, const struct index *x, int64_t *lo, int64_t *hi);
/* The value of an index at a point of the stage, including the look-up in the table bufs[operand]. */
int64_t index_value(const struct stage *s, const struct index *x, void *const *bufs, const int64_t *at);
/* The axis that alone forms the index; -1: none. */
int index_axis(const struct stage *s, const struct index *x);
/* Whether the index can leave [-lo, dim + hi) of dim d, so that lowering needs a guard. Generic tasks:
 * index.guard. */
bool index_guarded(const struct task *t, const struct stage *s, const struct read *r, int d);

/* Whether the output may share the memory of input i: each element is read only at the point that writes it.
 * (Not valid for a schedule that keeps partial sums in the output.) */
bool task_overwrites(const struct task *t, int i);

/* Generic form: sizes become symbols; params[i] is the value of SYM(i). Layout blocks, unit coefficients,
 * zero offsets, div/mod and programs stay. Returns the number of symbols. */
int task_abstract(const struct task *t, struct task *generic, int64_t params[MAX_SYMS]) MUST_CHECK;

/* The reference in double precision (exact stages in binary32), straight from the definition above. bufs[i]:
 * operand i in its physical layout (tmp: NULL; its elements are recomputed at each read). For many points use
 * kernels/task/reference.h. */
double task_point(const struct task *t, void *const *bufs, const int64_t *spatial /* of the last stage */);
/* Computes the whole task with every stage; tmp operands are computed internally. Sums have their addresses
 * in tables, as in kernels/task/reference.h. Slow. */
int task_reference(const struct task *t, void *const *bufs, struct arena *scratch) MUST_CHECK;
/* Copies between plain row-major and the operand's physical layout, elements of the operand's type; halos and
 * padding get `fill`. Both end early if the thread's limit does (platform/base/until.h). */
void operand_pack(const struct operand *o, const void *plain, void *physical);
void operand_unpack(const struct operand *o, const void *physical, void *plain);

#endif
