/* SPDX-License-Identifier: Apache-2.0 */
/* The loop IR: a loop nest after the schedule, below vectorisation. One IR for every emitter; printable,
 * checkable, interpretable. The interpreter (loops_run) is its executable definition, bit for bit.
 *
 * A `loops` has buffers, run-time parameters, vector variables and one or more entries (a barrier lies
 * between two entries). An entry runs [begin, end) of its parallel extent: the body runs once per index,
 * which it sees as the loop variable entry.var (depth 1; ix_var gives the expression). Nothing is carried
 * from one index to the next.
 *
 * Threads. An entry may be of several threads (entry.threads, a constant): then each index is a block, as of
 * CUDA (OpenCL: a work group), whose threads all run the body side by side. Each sees its number as the loop
 * variable entry.thread and has vector variables of its own. The block has shared buffers (BUF_SHARED), which
 * are no arguments of the kernel: their elements are unset when a block begins. A BARRIER makes what threads
 * did before it visible to the block. COPY copies 4, 8 or 16 bytes of an input or constant into a shared
 * buffer, of which the first `valid` elements (all elements if NULL) come from memory and the others are 0;
 * both places are multiples of that size. The copy ends, for the thread that made it, at a WAIT: COMMIT
 * makes a group of the thread's copies since its last COMMIT, and WAIT n waits until at most the n newest
 * groups have not ended. Until then its elements must not be read or written, by any thread. SHUF(a) of a
 * mask below 32 is a of the thread whose number differs by exclusive or with the mask; the threads are then a
 * multiple of 32. BARRIER, COMMIT, WAIT and SHUF stand where all threads meet: in loops and branches whose
 * bounds and conditions do not depend on the thread. Between two barriers a thread must not read or write a
 * shared element that another one writes; no element of an output, or of scratch that all indices have in
 * common, is stored by two threads. The interpreter runs threads in a random order and finds what breaks
 * these rules (E_CORRUPT). Other scratch is not for threads.
 *
 * Fragments. A warp is 32 threads of a block whose numbers follow one another, the first one's a multiple of
 * 32; the threads of an entry with fragments are a multiple of 32. A fragment is a matrix of 16 x 16 that a
 * warp owns: a variable (lv_fragment) of 8 lanes in each thread of the warp, which together hold the elements
 * in an order that only the emitter knows. A is m x k, B is k x n, both of f16, bf16, f32, s8 or u8; C is
 * m x n, of f32 or s32. FRAG_LOAD takes element (i, j) of a fragment from element at + i * stride + j of a
 * shared buffer of its type, or, if its fragment lies by columns, from at + j * stride + i; it rounds the
 * elements of an A or B of f32 to TF32 (tf32_of). FRAG_STORE puts that of a C there. FRAG_MMA(a, b, c) = c +
 * the matrix product of a and b: of bytes, each of them s8 or u8, into s32, where it is exact (an overflow is
 * refused as above); of two f16, two bf16 or two f32 into f32, where each product is exact, but the order and
 * the rounding of the sums are not defined: the interpreter adds one product after the other, along k, and
 * rounds each sum to the nearest. CONST, COPY, ADD, SUB, MUL, MIN and
 * MAX of fragments C take each element alone; no other operation takes a fragment. Statements that set or
 * store a fragment stand where all threads meet, with the same place for all threads of a warp: `at` depends
 * on the thread only through a division by a multiple of 32. `at` and the stride are multiples of frag_step()
 * elements (kernels/task/fragment.h), of those for narrow rows if loops.narrow is true. Between two barriers
 * no thread writes an element that a FRAG_LOAD reads, and none uses an element that a FRAG_STORE writes,
 * even in the same warp.
 *
 * Values. Integer expressions (struct ix) are 64-bit, made of constants, loop variables, parameters, + *
 * floor-div, mod, min, max, comparisons and table reads; they are simplified when made. Vector variables (lv)
 * are f32 or s32 x lanes (1, 2, 4, 8, 16), mutable, assigned by three-address operations; they may be carried
 * through any nesting of loops (the emitter makes phis). A variable is defined before use on every path (the
 * checker proves it).
 *
 * Types. vop_info says which types an operation takes. An s32 lane is an integer, or a group: four bytes, or
 * two 16-bit values, the first in the lowest bits. Only memory accesses (mem.group), the products DOT4, DOT2,
 * BDOT2, FMA2 and MMLA, and SUM2, QUAD, BTURN, BBACK see a group's parts. ADD, SUB and MUL of s32, HADD and
 * HMUL of s32, and the dot products are exact: a program whose s32 result overflows is wrong, and the
 * interpreter refuses it (E_CORRUPT). MIN, MAX, HMIN and HMAX of s32 compare signed.
 *
 * DOT4U(a,b,c) = c + sum of a's unsigned bytes times b's signed bytes, DOT4S the same with a's bytes signed;
 * imm 7 promises that b's bytes lie in [-64, 64], which the interpreter verifies and targets with 16-bit sums
 * of pairs use. DOT2(a,b,c) = c + a0 b0 + a1 b1 of signed 16-bit parts. BDOT2(a,b,c), c and the result f32, a
 * and b pairs of bf16: fma(a0, b0, fma(a1, b1, c)), each fma with its flushes (below); it exists only where
 * loops.fma is true. FMA2(a,b,c) of pairs of f16 is the pair a0 b0 + c0, a1 b1 + c1, each rounded once to
 * IEEE binary16, to nearest even: subnormals are kept, and what rounds to more than 65504 is infinite.
 * SUM2(a,c) = c + (a0 + a1), a a pair of f16, c and the result f32, each sum with the flushes of ADD. Both
 * exist only where loops.f16 is true. MMLAU(a,b,c) takes each four lanes of a as a matrix of 2 rows of 8
 * unsigned bytes, those of b as one of 2 columns of 8 signed bytes, and adds their product to those of c, a 2
 * x 2 block: lane 2 i + j = c's + the sum of row i of a (lanes 2 i and 2 i + 1) times column j of b (lanes 2
 * j and 2 j + 1), exact; MMLAS is the same with a's bytes signed. Vectors have 4, 8 or 16 lanes, and both
 * exist only where loops.blocks is true. CVT converts between s32 and f32, to the nearest, ties to even; f32
 * outside of [-2^31, 2^31 - 128], NaN too, is the caller's fault, and an f32 subnormal is 0. QUADU(a,b,c,d)
 * makes a group of the four values, each clamped to [0, 255], QUADS to [-128, 127]. BTURN(a) takes the
 * bytes of a as a matrix of 4 rows of `lanes` bytes and transposes it: byte p of lane i is a's byte p * lanes
 * + i. BBACK is the inverse.
 *
 * Arithmetic. IEEE binary32, round to nearest even. The runtime sets FTZ and DAZ; the interpreter does the
 * same in software, as x86 does it (found by experiment, tests/kernels/emit/test_llvm_emit.c): a subnormal
 * operand of ADD SUB MUL DIV FMA SQRT FLOOR CEIL RINT MIN MAX HADD HMUL HMIN HMAX and of the comparison of
 * SEL_x counts as a zero of its sign; a result that is tiny after rounding to 24 bits with unbounded exponent
 * becomes a zero of its sign. COPY, LANE, NEG, ABS, the selected operand of SEL_x, loads and stores move bits
 * and never flush. (AArch64 differs in two corners that no test there touches: it finds tininess before
 * rounding, and its MIN and MAX do not flush the operand that they return.) FMA is fused where loops.fma,
 * else a multiplication rounded, then an addition. MIN(a,b) = a < b ? a : b and MAX(a,b) = a > b ? a : b (so
 * the second operand on NaN or equality); SEL_x(a,b,c,d) = a x b ? c : d, false on NaN. Which NaN an
 * operation makes is not defined: NaNs compare as one class. HADD and friends combine lanes in a fixed tree:
 * lanes i and i + n/2, n halved until one is left (one lane: a copy). RINT is to nearest even. POW2(a) is the
 * number whose bits are a's shifted left by 23: for a = 1.5 2^23 + 127 + k, integral k in [-127, 127], 2^k,
 * and 0 for k = -127 (a outside is the caller's fault). GETEXP(a) = floor(log2 a) as float and GETMANT(a) = a
 * / 2^GETEXP(a), in [1, 2), for a > 0 normal; both look at the bits only: other values give the exponent
 * field minus 127 and the fraction with exponent 0.
 *
 * TRN0(a,b)[j] = j & s ? b[j-s] : a[j] and TRN1(a,b)[j] = j & s ? b[j] : a[j+s], s = imm a power of two below
 * the lanes: a step of transposing. LACE(a,b)[j] = i % n == m ? b[i / n] : a[j], i = k * lanes + j, m < n, k
 * < n, 2 <= n <= lanes, imm = lace_imm(n, k, m), interleaves n vectors: their elements go into memory in turn
 * (the first of each, then the second of each, ...), which fills n vectors of memory, and LACE puts the
 * elements of the m-th vector, b, into the k-th of those. TRN0, TRN1 and LACE move bits.
 *
 * Memory. Buffers hold f32, f16, bf16, s8, u8, s16 or s32; addresses are element indexes. A load into f32
 * widens f16 and bf16, a load into s32 widens s8, u8 and s16, exactly; a store narrows: f32 to f16 or bf16 to
 * nearest even (bf16: subnormals become zeros of their sign), s32 to s8, u8 and s16 by clamping. With
 * mem.group 2 (s16, f16, bf16) or 4 (s8, u8) each lane of an s32 vector is that many consecutive elements,
 * moved as they are; s8 and u8 with group 2 are loaded as pairs of s16. Stride counts elements between lanes
 * then too: group is contiguous, 0 broadcasts one group. Every access must lie inside the buffer's declared
 * padded elements. A load with `valid` reads min(max(valid,0), lanes) lanes and gives 0 in the others,
 * touching no memory for them; a store writes only valid lanes (`valid` as a load's). A `guard` (0 or 1) that
 * is 0 makes a load give `fill` without touching memory; fill wins over valid. The elements must be able to
 * hold the fill: into f32, a number that the buffer's type has, or NaN; into s32, an integer in the range of
 * the buffer's type, in a group one for each part (f16, bf16: only 0). Stride 1 contiguous, 0 broadcast
 * (load: one element in all lanes; a store of more than one lane may not), else lane i at index + i * stride.
 * Contiguous accesses assume element alignment only. An access to scratch, which holds f32, may see f16, bf16
 * or bytes there (mem.as), two or four in the place of one f32. Buffers do not overlap, except where a
 * manifest lets an output alias an input: then every element is read before it is written by the same
 * statement order.
 *
 * A texture is a constant of f32 or f16 that a device reads through its texture cache (OpenCL: an image). It
 * is only loaded, into f32 vectors of 4, 8 or 16 lanes that lie side by side and begin at a multiple of 4,
 * without `valid`. Everywhere else it is a buffer like others.
 *
 * All nodes live in loops.arena. Building functions never fail: an overflow of limits makes loops.failed
 * (sticky). Bounds that one iteration is known to satisfy (hi - lo in [1, step]) make for_begin's variable
 * the expression lo itself. */
#ifndef KERNELS_LOOPS_H
#define KERNELS_LOOPS_H

#include "kernels/task/fragment.h"
#include "kernels/task/tensor.h"
#include "platform/base/buf.h"

enum ix_op {
	IX_CONST,
	IX_VAR,
	IX_PARAM,
	IX_ADD,
	IX_MUL,
	IX_DIV,
	IX_MOD,
	IX_MIN,
	IX_MAX,
	IX_LT,
	IX_EQ,
	IX_TABLE
};

struct ix {
	enum ix_op op;
	int id;        /* IX_VAR: loop variable; IX_PARAM: parameter; IX_TABLE: buffer (i32), a = element */
	uint32_t hash; /* hash of the structure */
	int height;    /* height of the tree; limited to IX_MAX_HEIGHT, which bounds recursion */
	int64_t c;     /* IX_CONST */
	const struct ix *a, *b;
	int64_t lo, hi; /* inclusive range where known; INT64_MIN / INT64_MAX otherwise */
	int depth;      /* 1 + depth of the deepest loop variable in it; 0: only constants and parameters */
};

enum { IX_MAX_TERMS = 48, IX_MAX_HEIGHT = 160 };

enum vop {
	V_CONST, /* imm, all lanes */
	V_COPY,  /* a */
	V_LOAD,  /* mem */
	V_LANE,  /* lane `imm` (integer) of a, splat to the result's lanes */
	V_ADD,
	V_SUB,
	V_MUL,
	V_DIV,
	V_MIN,
	V_MAX,
	V_FMA, /* a * b + c */
	V_NEG,
	V_ABS,
	V_SQRT,
	V_FLOOR,
	V_CEIL,
	V_RINT,
	V_SEL_LT,
	V_SEL_LE,
	V_SEL_EQ, /* a ? b : c : d */
	V_POW2,
	V_GETEXP,
	V_GETMANT,
	V_TRN0,
	V_TRN1, /* blocks of `imm` (integer) lanes: the even ones of a and b, the odd ones (below) */
	V_LACE, /* a, with lanes of b between its own (below) */
	V_HADD,
	V_HMIN,
	V_HMAX,
	V_HMUL,    /* a (any lanes) -> one value splat to the result's lanes */
	V_F32_OPS, /* operations before this one accept f32 for the result and every operand */
	V_DOT4U = V_F32_OPS,
	V_DOT4S, /* c + the products of four bytes of a and b; imm 0, or DOT_NARROW */
	V_DOT2,  /* c + the products of two 16-bit parts of a and b */
	V_BDOT2, /* c (f32) + the products of two bf16 of a and b; needs loops.fma */
	V_FMA2,  /* the parts of a and b multiplied, and those of c added, in f16; needs loops.f16 */
	V_SUM2,  /* b (f32) + the sum of the two f16 of a; needs loops.f16 */
	V_CVT,   /* a: f32 to s32, or s32 to f32 */
	V_QUADU,
	V_QUADS, /* a, b, c, d clamped to a byte each */
	V_BTURN,
	V_BBACK, /* a: 4 x lanes bytes become lanes x 4, and the inverse */
	V_MMLAU,
	V_MMLAS,     /* c + the products of 2 x 8 and 8 x 2 bytes of a and b; needs loops.blocks */
	V_SHUF,      /* a of the thread with number ^ imm */
	V_FRAG_LOAD, /* mem: buf, at, stride */
	V_FRAG_MMA,  /* a, b and c: fragments A, B and C */
	V_OPS
};

enum { DOT_NARROW = 7 }; /* imm of a DOT4: bits of b's bytes */

enum lv_type { LV_F32, LV_S32 };

/* By enum vop: the name ("fma"), the number of variable operands, and the types of the result and of the
 * operands: f f32, s s32, x any but the same in all places, y the other one than x. */
extern const struct vop_info {
	const char *name;
	int args;
	const char *types;
} vop_info[V_OPS];
/* Whether op makes one value of all lanes of its operand. */
bool vop_across(enum vop op);

struct mem {
	int buf;
	const struct ix *at;    /* element index */
	int64_t stride;         /* between lanes, in elements: 0, 1 or other */
	const struct ix *valid; /* number of valid lanes; NULL: all */
	const struct ix *guard; /* NULL: always (loads only) */
	float fill;             /* value if guard is 0, which the elements can hold (above) */
	int group;              /* elements of one lane: 2 or 4; 0 and 1: one */
	enum dtype as;          /* type of the elements here, which `at` counts; DT_NONE: the buffer's */
};

/* Elements that one lane has: at least 1. It is also the stride of a contiguous vector. */
int mem_group(const struct mem *m);
struct loops;
enum dtype mem_type(const struct loops *l, const struct mem *m); /* of the elements that the access sees */

enum st_op {
	ST_SET,
	ST_STORE,
	ST_PREFETCH,
	ST_FOR,
	ST_IF,
	ST_BARRIER,
	ST_COPY,
	ST_COMMIT,
	ST_WAIT,
	ST_FRAG_STORE /* a; mem: buf, at, stride */
};

struct stmt {
	enum st_op op;
	struct stmt *next;
	/* ST_SET: dst = vop(a, b, c, d) */
	enum vop vop;
	int dst, a, b, c, d; /* variable ids; ST_STORE: a */
	float imm;
	int32_t s32;    /* V_CONST of s32; ST_COPY: elements; ST_WAIT: groups */
	struct mem mem; /* V_LOAD, ST_STORE, ST_PREFETCH (uses `at`; level 1 or 2 in imm); ST_COPY: from */
	int to;         /* ST_COPY: shared buffer, and the first element there */
	const struct ix *to_at;
	/* ST_FOR: for (var = lo; var < hi; var += step) body. ST_IF: if (lo) body else other */
	int var;
	const struct ix *lo, *hi;
	int64_t step;       /* > 0, constant */
	bool at_least_once; /* the caller guarantees lo < hi (checked by the interpreter), so no zero-trip
			     * test is emitted */
	struct stmt *body, *other;
};

enum buf_role { BUF_IN, BUF_OUT, BUF_CONST, BUF_SCRATCH, BUF_SHARED };

struct lbuf {
	char name[8];
	enum buf_role role;
	enum dtype dtype;       /* of an element; DT_I32: s32, and tables */
	const struct ix *elems; /* declared padded elements: constants and parameters only */
	bool common;            /* scratch: all indices have it in common, and it lasts from entry to entry */
	bool texture;           /* a constant (above) */
	int64_t lo, hi;         /* i32: range of the values, guaranteed by the caller (loops_table_range) */
};

struct entry {
	char name[16];           /* symbol: "k0", "k1", ... */
	const struct ix *extent; /* parallel extent: constants and parameters only */
	int group;   /* indices that start together on a device of work items, a power of two; 0: not
		      * given */
	int blocks;  /* that a unit of a GPU runs side by side, at least: of `threads` threads each, or of
		      * `group`  indices; 0: not given */
	int var;     /* loop variable that runs over [begin, end) */
	int threads; /* that run each index; 1: no SHUF, shared buffer or ST_BARRIER to ST_WAIT. Else group
		      * is 0 */
	int thread;  /* loop variable of their numbers, 0 to threads - 1; -1 if threads is 1 */
	struct stmt *body;
};

enum {
	LOOPS_MAX_BUFS = 24, /* a task's operands and scratch */
	LOOPS_MAX_PARAMS = 128,
	LOOPS_MAX_ENTRIES = 4,
	LOOPS_MAX_DEPTH = 32,  /* nested for and if statements */
	LOOPS_MAX_VARS = 4096, /* vector variables, and loop variables */
	LOOPS_MAX_STATEMENTS = 65536,
	LOOPS_MAX_THREADS = 1024,
	LOOPS_MAX_SHARED = 227 << 10 /* bytes of all shared buffers: the most of known devices */
};

struct loopvar {
	const struct ix *lo, *hi; /* hi exclusive */
	const struct ix *x;       /* the variable as an expression; its range holds inside the body */
	int depth;                /* 1: an entry's index */
};

enum frag_part { FRAG_NONE, FRAG_A, FRAG_B, FRAG_C };

/* The matrix that a fragment variable holds. */
struct fragment {
	enum frag_part part;
	enum dtype dtype; /* of an element */
	bool columns;     /* A and B: columns lie side by side in memory, not rows */
};

struct loops {
	struct arena *arena;
	bool fma;
	bool f16;    /* the target multiplies and adds in f16; false at first, set by the builder's caller */
	bool blocks; /* the target multiplies matrices of bytes; likewise */
	bool narrow; /* rows of fragments may be at any multiple of 16 bytes; likewise */
	bool failed; /* sticky: a limit was exceeded during building */
	int nbufs, nparams, nvars, nloopvars, nentries;
	struct lbuf buf[LOOPS_MAX_BUFS]; /* scratch, if any, is the last argument; shared ones follow */
	struct {
		char name[12];
		int64_t lo, hi;
	} param[LOOPS_MAX_PARAMS]; /* range guaranteed by the caller */
	uint8_t *lanes, *type;     /* per vector variable; type: enum lv_type */
	struct fragment *fragment; /* per vector variable */
	struct loopvar *loopvar;   /* per loop variable */
	struct entry entry[LOOPS_MAX_ENTRIES];
	int cap_vars, cap_loopvars;
	int depth;          /* builder: current loop depth */
	int nest;           /* builder: open for and if statements */
	int nstmts;         /* builder: statements made */
	struct stmt **tail; /* builder: where the next statement goes */
};

/* Building. */
void loops_init(struct loops *l, struct arena *a, bool fma);
int loops_param(struct loops *l, const char *name, int64_t lo, int64_t hi);
int loops_buf(struct loops *l, const char *name, enum buf_role role, enum dtype t, const struct ix *elems);
void loops_table_range(struct loops *l, int buf, int64_t lo, int64_t hi);
int loops_entry(struct loops *l, const struct ix *extent); /* opens an entry; statements go into its body
							    * until loops_entry_end */
/* The same for blocks of threads, 2 to LOOPS_MAX_THREADS. *thread is the thread's number. */
int loops_entry_threads(struct loops *l, const struct ix *extent, int threads, const struct ix **thread);
void loops_entry_end(struct loops *l);
/* Whether an entry has threads: then emitters of processors refuse the program. */
bool loops_has_threads(const struct loops *l);
/* Checks that textures are accessed as they may be. E_INFEASIBLE. */
int loops_check_textures(const struct loops *l) MUST_CHECK;
int loops_arguments(const struct loops *l); /* buffers that are not shared, which come first */
/* Statements of threads. from.valid: elements that are copied; from has no guard, and its stride is 1. */
void lv_barrier(struct loops *l);
void lv_copy(struct loops *l, int to, const struct ix *to_at, struct mem from, int elems);
void lv_commit(struct loops *l);
void lv_wait(struct loops *l, int groups);
void lv_shuffle(struct loops *l, int dst, int a, int mask);
/* A variable that is a fragment; lv_const and lv_const_s32 set a C to zeros. */
int lv_fragment(struct loops *l, struct fragment f);
/* stride: from row to row, or from column to column. */
void lv_frag_load(struct loops *l, int dst, int buf, const struct ix *at, int64_t stride);
void lv_frag_store(struct loops *l, int src, int buf, const struct ix *at, int64_t stride);
void lv_frag_mma(struct loops *l, int c, int a, int b); /* c += a b */
bool loops_has_fragments(const struct loops *l);
int lv_new(struct loops *l, int lanes); /* a vector variable of f32 */
int lv_new_s32(struct loops *l, int lanes);
void lv_set(struct loops *l, int dst, enum vop op, int a, int b, int c, int d);
void lv_const(struct loops *l, int dst, float imm);
void lv_const_s32(struct loops *l, int dst, int32_t value);
/* DOT4U or DOT4S; narrow: b's bytes lie in [-64, 64]. */
void lv_dot4(struct loops *l, int dst, enum vop op, int a, int b, int c, bool narrow);
bool dot_narrow(const struct stmt *s);
void lv_lane(struct loops *l, int dst, int a, int lane);
void lv_trn(struct loops *l, int dst, enum vop op, int a, int b, int step);
void lv_lace(struct loops *l, int dst, int a, int b, int n, int k, int m);
/* Packs n, k and m of a LACE into one number, and unpacks them. */
int lace_imm(int n, int k, int m);
struct lace {
	int n, k, m;
};
struct lace lace_of(int imm);
bool lace_good(struct lace x, int lanes);
/* The lane of b that lane j of the result takes; -1: it keeps a's. */
int lace_lane(struct lace x, int j, int lanes);
void lv_load(struct loops *l, int dst, struct mem m);
void lv_store(struct loops *l, int src, struct mem m);
void lv_prefetch(struct loops *l, int buf, const struct ix *at, int level);
/* Merges n runs of SET and STORE statements into one run that takes one statement of each in turn. Run i
 * reaches from mark[i] (loops_mark at its start) to the next mark, the last one to the end. Each variable is
 * set once; a run may read what an earlier run sets. */
struct stmt **loops_mark(const struct loops *l);
void loops_interleave(struct loops *l, struct stmt **const *mark, int n);
/* for_begin returns the statement that for_end needs; *var is the loop variable as an expression. */
struct stmt *for_begin(struct loops *l, const struct ix *lo, const struct ix *hi, int64_t step,
		       bool at_least_once, const struct ix **var);
void for_end(struct loops *l, struct stmt *f);
struct stmt *if_begin(struct loops *l, const struct ix *cond);
void if_else(struct loops *l, struct stmt *s);
void if_end(struct loops *l, struct stmt *s);

/* Integer expressions; simplified: constants fold, sums are kept as sum of coef * atom, (16*q + r)/16 = q
 * where 0 <= r < 16 is known from ranges, and so on. */
const struct ix *ix_c(struct loops *l, int64_t c);
const struct ix *ix_param(struct loops *l, int param);
const struct ix *ix_var(struct loops *l, int loopvar);
const struct ix *ix_add(struct loops *l, const struct ix *a, const struct ix *b);
const struct ix *ix_sub(struct loops *l, const struct ix *a, const struct ix *b);
const struct ix *ix_mul(struct loops *l, const struct ix *a, const struct ix *b);
const struct ix *ix_div(struct loops *l, const struct ix *a, const struct ix *b); /* floor; b > 0 */
const struct ix *ix_mod(struct loops *l, const struct ix *a, const struct ix *b); /* 0 <= result < b */
const struct ix *ix_min(struct loops *l, const struct ix *a, const struct ix *b);
const struct ix *ix_max(struct loops *l, const struct ix *a, const struct ix *b);
const struct ix *ix_lt(struct loops *l, const struct ix *a, const struct ix *b);
const struct ix *ix_eq(struct loops *l, const struct ix *a, const struct ix *b);
const struct ix *ix_table(struct loops *l, int buf, const struct ix *at);
/* Makes x one atom that sums and products do not take apart: it becomes min(x, x). */
const struct ix *ix_atom(struct loops *l, const struct ix *x);
bool ix_is_const(const struct ix *x, int64_t *c);
/* Splits x into const + sum coef[i] * atom[i] (an atom is not a sum; it may be a product with a parameter).
 * Returns n, or -1 if there are more than max terms. Atoms are sorted by depth, outermost first, so that an
 * emitter can build addresses loop level by loop level. */
int ix_terms(const struct ix *x, int64_t *c, int max, int64_t *coef, const struct ix **atom);
bool ix_same(const struct ix *a, const struct ix *b); /* equal structure */
/* Wraps on overflow; x / 0 and x mod 0 give 0. Table reads are not bounds-checked here (the interpreter's
 * are). */
int64_t ix_eval(const struct ix *x, const int64_t *params, const int64_t *vars, void *const *bufs);
/* The same, but every table read is checked against elems[buffer]: a read out of range sets `bad` and gives
 * 0. */
struct ix_env {
	const int64_t *params, *vars;
	void *const *bufs;
	const int64_t *elems; /* NULL: not checked */
	bool bad;
};
int64_t ix_eval_env(const struct ix *x, struct ix_env *e);
void ix_print(const struct loops *l, const struct ix *x, struct buf *out);

void loops_print(const struct loops *l, struct buf *out);
/* Checks definitions before uses, scopes of loop variables, lanes, roles, steps, limits, and addresses
 * against buffers where every end of their range is reached. E_INFEASIBLE: a limit was exceeded during
 * building, or loops_check_textures; else E_CORRUPT. The error text names the place ("entry k0, statement
 * 12"). */
int loops_check(const struct loops *l) MUST_CHECK;
/* Interprets [begin, end) of one entry. bufs are in the order of the kernel ABI. E_CORRUPT: an access outside
 * of a buffer, or an unset variable. */
int loops_run(const struct loops *l, int entry, void *const *bufs, const int64_t *params, int64_t begin,
	      int64_t end) MUST_CHECK;
/* Largest number of vector variables live at once (scalars too), an upper bound of register need. */
int loops_pressure(const struct loops *l);
/* Sets of vector variables per loop variable (bit v % 64 of word v / 64). `assigned`: variables that the
 * loop's body assigns. `exposed`: variables that the body may read before assigning them, or may leave
 * unchanged for later reads. A variable in both sets is carried by the loop. NULL for an entry's index. Lives
 * in `a`. */
struct loops_flow {
	int words;
	uint64_t **assigned, **exposed;
};
struct loops_flow loops_flow(const struct loops *l, struct arena *a);

#endif
