/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of ptx.h among its files: ptx_text.c and ptx_parse.c read text and declarations, ptx_decode.c
 * makes instructions, ptx_int.c, ptx_float.c and ptx_cvt.c compute them for the 32 lanes of a warp,
 * ptx_matrix.c and ptx_mma.c for all at once, ptx_mem.c reads and writes memory, ptx_run.c schedules.
 *
 * Registers: a register is an array of 32 lanes of 2, 4 or 8 bytes, or for predicates one word with a bit for
 * each lane. All registers of a warp lie in one block of memory, `off` bytes from its start; constants and
 * special registers
 * (%tid.x) lie there too, so that every operand is the address of 32 lanes. */
#ifndef TESTS_PTX_PARTS_H
#define TESTS_PTX_PARTS_H

#include "tests/lib/ptx.h"
#include "platform/base/arena.h"
#include "platform/base/rng.h"

enum { LANES = 32, MOST_VECTOR = 4, MOST_WARPS = 32, MOST_PARAMS = 256 };
#define ALL_LANES 0xffffffffu

enum ptx_type {
	T_NONE,
	T_PRED,
	T_B8,
	T_B16,
	T_B32,
	T_B64,
	T_U8,
	T_U16,
	T_U32,
	T_U64,
	T_S8,
	T_S16,
	T_S32,
	T_S64,
	T_F16,
	T_F16X2,
	T_BF16,
	T_BF16X2,
	T_TF32,
	T_F32,
	T_F64,
	T_TYPES,
};
enum ptx_space { S_GENERIC, S_GLOBAL, S_SHARED, S_CONST, S_PARAM, S_LOCAL };
/* Generic addresses of shared and local memory; all others are the host's. */
#define SHARED_WINDOW ((uint64_t)1 << 60)
#define LOCAL_WINDOW ((uint64_t)1 << 61)
#define WINDOW_BYTES ((uint64_t)1 << 32)
/* Address of the .extern .shared array; the other variables lie below. */
#define DYNAMIC_SHARED (1 << 20)

enum ptx_round { R_NONE, R_RN, R_RZ, R_RM, R_RP, R_RNI, R_RZI, R_RMI, R_RPI, R_RNA };

enum ptx_kind {
	K_LANES, /* fn computes d[0] from s[0..ns) */
	K_MOVE,  /* also from and to vectors */
	K_SETP,  /* cmp gives d[0], d[1] from s[0], s[1], and with bop from the predicate s[2] */
	K_LOGIC, /* of predicates: bop */
	K_CONVERT,
	K_LOAD,
	K_STORE,
	K_ATOMIC,
	K_COPY,        /* cp.async */
	K_COPY_COMMIT, /* a group ends */
	K_COPY_WAIT,   /* imm: groups that may still be under way; -1: wait for all */
	K_BRANCH,      /* to instruction imm */
	K_EXIT,
	K_BARRIER,   /* s[0]: id; s[1]: number of threads, if ns is 2; sub: arrives only */
	K_WARP_SYNC, /* s[0]: lanes */
	K_SHUFFLE,
	K_MATRIX, /* of a warp. wmma: sub 'l' loads, 'm' multiplies, 's' stores; ldmatrix: 'x'; mma: 'p' */
	K_VOTE,
	K_ACTIVE, /* activemask */
	K_NOTHING,
};

struct ptx_opnd {
	uint32_t off;  /* of lane 0 in the warp's registers, bytes */
	uint32_t reg;  /* index among all registers; SINK: none */
	uint8_t bytes; /* of a lane; 0: a predicate */
	bool negated;  /* of a predicate */
};
#define SINK UINT32_MAX

struct ptx_ins;
/* Computes all lanes; whoever calls keeps those that are active. */
typedef void ptx_lanes_fn(void *restrict d, const void *const *s, const struct ptx_ins *in);
typedef uint32_t ptx_cmp_fn(const void *a, const void *b, uint32_t *second);

struct ptx_ins {
	ptx_lanes_fn *fn;
	ptx_cmp_fn *cmp;
	struct ptx_opnd pred; /* reg is SINK: always */
	struct ptx_opnd d[MOST_VECTOR], s[MOST_VECTOR + 1];
	int64_t imm;
	uint32_t text; /* where it begins in the module's text */
	uint32_t line;
	uint8_t kind, type, stype, space, space2, round, nd, ns, vector, sub;
	const struct ptx_opnd *regs; /* of K_MATRIX: the fragment's; of 'm' and 'p' d, a, b and c */
	uint8_t nregs, matrix;       /* matrix: 'a', 'b', 'c': the part that a load or store has; of 'p' rows,
				      * and vector elements along k */
	uint8_t stype2;              /* of 'p': b's; stype: a's */
	bool columns[2];             /* of that one, or of a and b; of 'x': transposed */
	uint8_t bop;                 /* of setp, logic: 'a', 'o', 'x'; 0: none */
	bool ftz, sat, slow;         /* slow: flush, round or clamp around fn */
	bool relu, uniform, divides;
	bool aligned; /* a barrier that whole warps must reach together */
};

struct ptx_const { /* a value that all lanes of a register hold */
	uint32_t off;
	uint8_t bytes;
	uint64_t value;
};
struct ptx_special {
	uint32_t off;
	uint8_t what; /* index of ptx_special_names */
};
struct ptx_var { /* a .shared, .global, .const, .local or .param variable */
	const char *name;
	uint8_t space;
	size_t bytes, align;
	uint64_t address; /* for shared, local and param an offset */
};

struct ptx_kernel {
	struct ptx_entry e;
	size_t param_bytes[MOST_PARAMS], param_at[MOST_PARAMS], params_bytes;
	struct ptx_ins *code;
	uint32_t n;
	uint32_t nregs;
	uint32_t regs_bytes;
	struct ptx_const *consts;
	uint32_t nconsts;
	struct ptx_special *specials;
	uint32_t nspecials;
	uint32_t granule_shift,
	    global_shift; /* every access of shared (global) memory covers whole granules of 2^this bytes */
	bool copies;      /* it has cp.async */
};

struct ptx {
	struct arena mem;
	char *text;
	size_t n;
	char target[16];
	struct ptx_kernel *kernel;
	int nkernels;
	struct ptx_var *vars;
	int nvars;
	uint8_t *store;     /* of the .global and .const variables */
	size_t store_bytes; /* in use */
};

/* ---- decoding ---- */

/* What a parser gives the decoder of one instruction. */
enum { MOST_OPERANDS = 8 };
enum ptx_arg_kind { A_REG, A_INT, A_F32, A_F64, A_SYMBOL, A_SPECIAL, A_SINK, A_VECTOR, A_ADDRESS, A_LABEL };
struct ptx_arg {
	enum ptx_arg_kind kind;
	struct ptx_opnd reg;
	uint8_t type;   /* of the register */
	uint64_t value; /* int, floats' bits; a symbol's or special's number; an address's offset */
	bool negated;
	struct ptx_arg *part; /* of a vector; of an address: its base, NULL if value is all */
	int nparts;
	struct ptx_arg *second; /* d|p */
	const char *name;       /* of a label or symbol */
	int n;
};
struct ptx_line {           /* an instruction as text */
	const char *module; /* the whole text */
	const char *word;   /* mnemonic with suffixes */
	int n;
	struct ptx_arg arg[MOST_OPERANDS];
	int nargs;
	int number;
};

struct ptx_parser;
/* Fills `in` but for its predicate, text and line. */
int ptx_decode(struct ptx_parser *p, const struct ptx_line *l, struct ptx_ins *in);
/* A register that holds value in all lanes. */
struct ptx_opnd ptx_constant(struct ptx_parser *p, uint64_t value, unsigned bytes);
struct ptx_opnd *ptx_operands(struct ptx_parser *p, int n); /* zeros, which last as long as the module */
struct ptx_opnd ptx_special(struct ptx_parser *p, int what);
const struct ptx_var *ptx_variable(struct ptx_parser *p, const char *name, int n);
int ptx_bad(struct ptx_parser *p, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
struct ptx_kernel *ptx_parsing(struct ptx_parser *p);
extern const char *const ptx_special_names[];
const char *ptx_type_name(int t);
int ptx_type_of(const char *s, int n); /* "s32"; T_NONE if none */
unsigned ptx_type_bytes(int t);
static inline bool ptx_signed(int t)
{
	return t >= T_S8 && t <= T_S64;
}
static inline bool ptx_floats(int t)
{
	return t >= T_F16;
}

/* A row for each operation and type: name "mul.lo.s32" without rounding and other modifiers. */
struct ptx_row {
	const char *name;
	ptx_lanes_fn *fn;
	uint8_t d;    /* type of the result */
	uint8_t s[4]; /* types of the sources; T_NONE ends */
};
extern const struct ptx_row ptx_int_rows[], ptx_float_rows[], ptx_half_rows[];
struct ptx_cmp_row {
	const char *name; /* "lt" */
	uint8_t type;
	ptx_cmp_fn *fn;
};
extern const struct ptx_cmp_row ptx_int_cmps[], ptx_float_cmps[];
/* Rounds, flushes and clamps around in->fn. */
void ptx_slow_lanes(void *restrict d, const void *const *s, const struct ptx_ins *in);
void ptx_convert(void *restrict d, const void *const *s, const struct ptx_ins *in);
ptx_lanes_fn *ptx_fastest(ptx_lanes_fn *fn); /* the same operation for this processor */
void ptx_flush_lanes(void *lanes, int type);
void ptx_clamp_lanes(void *lanes, int type, bool relu);
void ptx_set_round(int round); /* of the processor; R_RN restores */

int ptx_matrix_registers(int type); /* of a fragment of such elements */
float ptx_f16_to_f32(uint16_t h);
float ptx_bf16_to_f32(uint16_t h);
/* The value of v rounded, where v is exact or was rounded to odd. */
uint16_t ptx_to_f16(double v, int round);
uint16_t ptx_to_bf16(double v, int round);

#endif
