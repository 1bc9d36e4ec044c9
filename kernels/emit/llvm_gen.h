/* SPDX-License-Identifier: Apache-2.0 */
/* Private to emit_llvm and emit_ptx: builds LLVM IR from loops. Only these and kernels/emit/llvm_*.c use
 * LLVM.
 *
 * No IR pass runs, so optimisations that the code generator does not do are done here. The block that starts
 * a loop has its phis, then the integer values and addresses that depend only on that loop and outer ones,
 * computed once (scope.bucket), then the body. An address is built loop level by loop level, so that outer
 * parts are shared; its constant part is left to the load's displacement. Source compatible with LLVM 14
 * (typed pointers: every pointer is i8* until used) to 19.
 *
 * A GPU (ARCH_PTX) has entries, memory accesses and operations of groups of its own (llvm_gpu*.c). Integers
 * that fit 32 bits are i32 there, because registers have 32 bits. */
#ifndef KERNELS_LLVM_GEN_H
#define KERNELS_LLVM_GEN_H

#include "kernels/loops/loops.h"
#include "platform/machine/target.h"
#include <llvm-c/Core.h>

enum llvm_intrinsic {
	IN_FMA,
	IN_SQRT,
	IN_FLOOR,
	IN_CEIL,
	IN_RINT,
	IN_FABS,
	IN_COPYSIGN,
	IN_MASKED_LOAD,
	IN_MASKED_STORE,
	IN_PREFETCH,
	INTRINSICS
};

enum { MEMO_BUCKETS = 64, LANE_KINDS = 5 /* 1, 2, 4, 8, 16 */ };

/* The LLVM type of one lane, in memory or in a register. */
enum unit { UNIT_F32, UNIT_I32, UNIT_I16, UNIT_I8, UNITS };

/* A value known in a scope: an integer expression, the address of buf's element (n terms), or a lane mask. */
struct memo {
	struct memo *next;
	uint32_t hash;
	int kind; /* enum memo_kind */
	int buf;  /* or lanes */
	const struct ix *x;
	int n;
	const int64_t *coef;
	const struct ix *const *atom;
	LLVMValueRef v;
};

/* Values that do not change in one iteration of the loop of this depth; depth 0: in one call. */
struct llvm_scope {
	LLVMValueRef end; /* a placeholder before which values are inserted; erased when the scope closes */
	struct memo *bucket[MEMO_BUCKETS];
};

enum llvm_arch { ARCH_X86, ARCH_A64, ARCH_A32, ARCH_PTX, ARCHS };

struct gen {
	const struct loops *l;
	enum llvm_arch arch;
	char missing[48]; /* an intrinsic that was needed and that this LLVM does not have; "": none */
	bool long_address; /* an address has more terms than emitters can hold */
	const struct target *t;
	struct arena *a; /* temporary */
	struct loops_flow flow;
	bool round_libcalls; /* the target has no instruction for floor, ceil, rint */
	bool masks;          /* the target has mask registers, so lane masks are kept */
	bool scopes;         /* the code generator uses alias scopes */
	LLVMContextRef ctx;
	LLVMModuleRef mod;
	LLVMBuilderRef b;
	bool again; /* the present load must not be joined with an equal one */
	bool piped; /* the function may have a loop of gen_pipe */
	struct pipe_const {
		LLVMBasicBlockRef block;
		uint32_t bits;
		int lanes;
		LLVMValueRef v;
	} pipe_const;  /* the last one that was made, which its block may use again */
	bool in_order; /* an AArch64 processor that issues in order */
	bool evenly;   /* and that takes as long for each vector of a load: the cortex-a55 */
	bool half;     /* the target converts between f16 and f32 */
	bool narrow;   /* integers that fit 32 bits are i32 */
	LLVMTypeRef f32, i1, i8, i16, i32, i64, ptr, vec[UNITS][LANE_KINDS];
	struct {
		LLVMTypeRef type;
		LLVMValueRef fn;
	} intrinsic[INTRINSICS][UNITS][LANE_KINDS];
	LLVMValueRef fn;
	LLVMValueRef *cur; /* per vector variable: its current value; NULL: not set */
	LLVMValueRef *iv;  /* per loop variable */
	LLVMValueRef alias[LOOPS_MAX_BUFS], noalias[LOOPS_MAX_BUFS];
	unsigned alias_kind, noalias_kind;
	int64_t *step;     /* per loop variable: between its values */
	LLVMValueRef item; /* of a GPU: the index less `begin`, i32 */
	LLVMValueRef shared[LOOPS_MAX_BUFS];
	int sm, ptx; /* of a GPU: 87, 74 */
	int thread;  /* loop variable of the entry's threads */
	int *reads;  /* per vector variable: statements that read it; NULL: not counted */
	int depth;
	int place;                /* the builder is at scope[place].end, or PLACE_BODY: where statements
				   * are added */
	LLVMBasicBlockRef body;   /* the block to return to while the builder is elsewhere */
	struct llvm_scope *scope; /* entries [0, depth] are open */
};

enum { PLACE_BODY = -1 };

/* llvm_ix.c: integer values and addresses. */
LLVMTypeRef gen_ix_type(struct gen *g, const struct ix *x); /* i64, or i32 where integers are narrow */
LLVMValueRef gen_ix(struct gen *g, const struct ix *x);     /* of that type */
LLVMValueRef gen_bool(struct gen *g, const struct ix *x);   /* i1: x != 0 */
LLVMValueRef gen_i64(struct gen *g, int64_t v);
LLVMValueRef gen_int(struct gen *g, LLVMValueRef like, int64_t v); /* a constant of the type of `like` */
/* v as a signed integer of the other type. */
LLVMValueRef gen_as(struct gen *g, LLVMValueRef v, LLVMTypeRef t);
/* p as a pointer to t. */
LLVMValueRef gen_typed(LLVMBuilderRef b, LLVMValueRef p, LLVMTypeRef t);
LLVMValueRef gen_offset(struct gen *g, LLVMValueRef p, LLVMValueRef bytes);
/* Address of element x of the buffer, i8*. guard: an i1 or NULL; if it is false, table reads in x may be out
 * of bounds. */
LLVMValueRef gen_address(struct gen *g, const struct mem *m, LLVMValueRef guard);
/* <lanes x i1>: lane < n */
LLVMValueRef gen_mask(struct gen *g, const struct ix *n, int lanes);

/* llvm_ops.c: vector statements. */
LLVMTypeRef gen_type(struct gen *g, enum unit u, int lanes); /* the unit itself if lanes is 1 */
void gen_set(struct gen *g, const struct stmt *s);
LLVMValueRef gen_call(struct gen *g, enum llvm_intrinsic in, enum unit u, int lanes, LLVMValueRef *args,
		      unsigned n);
LLVMValueRef gen_splat(struct gen *g, LLVMValueRef scalar, int lanes);
LLVMValueRef gen_const(struct gen *g, float v, int lanes);
LLVMValueRef gen_s32_const(struct gen *g, uint32_t v, int lanes);             /* i32 in all lanes */
LLVMValueRef gen_bits(struct gen *g, LLVMValueRef v, enum unit u, int lanes); /* the same bits */
/* Lanes first, first + step, ... of v, n of them. */
LLVMValueRef gen_lanes(struct gen *g, LLVMValueRef v, int first, int step, int n);

/* llvm_types.c: operations of groups, and conversions between lanes and memory. */
LLVMValueRef gen_group_op(struct gen *g, const struct stmt *s, const LLVMValueRef *in, int lanes);
/* The unit in which a lane of this type lies in such elements, g to a lane. */
enum unit gen_unit(enum lv_type type, enum dtype elem, int group);
LLVMValueRef gen_widen(struct gen *g, LLVMValueRef v, enum lv_type type, enum dtype elem, int group,
		       int lanes);
LLVMValueRef gen_narrow(struct gen *g, LLVMValueRef v, enum lv_type type, enum dtype elem, int group,
			int lanes);
/* The bits of a unit that holds the fill. */
uint32_t gen_fill_bits(enum lv_type type, enum dtype elem, int group, float fill);

/* llvm_mem.c: loads, stores, prefetches. */
LLVMValueRef gen_load(struct gen *g, const struct mem *m, enum lv_type type, int lanes);
void gen_store(struct gen *g, const struct stmt *s);
void gen_prefetch(struct gen *g, const struct stmt *s);

/* The same bits as a call of a target's intrinsic has them: its operands and its result are cast. An
 * intrinsic that this LLVM lacks is named in g->missing, and the module is not compiled. over: its overloaded
 * types. */
LLVMValueRef gen_target_call(struct gen *g, const char *name, LLVMTypeRef as, LLVMValueRef *args, unsigned n,
			     LLVMTypeRef *over, size_t nover);

/* llvm_gen.c: functions. Fills g->mod with one function per entry. The caller makes mod, ctx and b. */
void gen_module(struct gen *g);
/* Opens and closes a depth; the builder is where values of that depth may be computed. */
void gen_open_scope(struct gen *g);
void gen_close_scope(struct gen *g);
void gen_body(struct gen *g, const struct stmt *s);
/* Whether the loop has one iteration only. */
bool gen_is_single(const struct gen *g, const struct stmt *s);
void gen_attribute(struct gen *g, const char *name,
		   const char *value); /* of the function; value may be NULL */
LLVMValueRef gen_phi(struct gen *g, LLVMValueRef a, LLVMBasicBlockRef from_a, LLVMValueRef b,
		     LLVMBasicBlockRef from_b);
LLVMBasicBlockRef gen_block(struct gen *g,
			    const char *name); /* appended to the function; the builder does not move */

/* llvm_pipe.c: makes the loop in assembly, ordered for processors that issue in order. false: the target is
 * another one, or the loop is no sum of products of the form that has such code; nothing was made. */
bool gen_pipe(struct gen *g, const struct stmt *s);
/* Whether a list of statements may have such a loop in it. */
bool gen_may_pipe(const struct gen *g, const struct stmt *s);
/* A constant in a function that may have such a loop, which takes all vector registers: LLVM does not move
 * this one out of loops, where it would be spilled. */
LLVMValueRef gen_pipe_const(struct gen *g, float c, int lanes);

/* llvm_gpu.c: entries, and statements of threads. emit_ptx.c says how an entry is called. */
void gpu_module(struct gen *g); /* before all entries */
void gpu_entry(struct gen *g, const struct entry *e);
int gpu_group(const struct gen *g, const struct entry *e); /* items of a block */
int64_t gpu_shared_bytes(const struct gen *g, const struct entry *e);
enum { GPU_STATIC = 48 << 10 /* bytes of shared memory: of more a launch must ask for all */ };
LLVMValueRef gpu_base(struct gen *g, int buf);
LLVMValueRef gpu_param(struct gen *g, int id);     /* i64 */
void gpu_loop(struct gen *g, LLVMValueRef branch); /* marks a loop's branch back */
void gpu_statement(struct gen *g, const struct stmt *s);
/* The block's threads exchange a lane, an i32, with those of the number ^ mask. */
LLVMValueRef gpu_shuffle(struct gen *g, LLVMValueRef v, int mask);
/* Inline assembly of operands with these constraints. Without a result (`type` is void) it has effects that
 * LLVM does not see, and stays in its place. */
LLVMValueRef gpu_asm(struct gen *g, const char *text, const char *constraints, LLVMTypeRef type,
		     LLVMValueRef *args, unsigned n);
/* llvm_gpu_mem.c */
LLVMValueRef gpu_load(struct gen *g, const struct mem *m, enum lv_type type, int lanes);
void gpu_store(struct gen *g, const struct stmt *s);
void gpu_copy(struct gen *g, const struct stmt *s);
/* Bytes, a power of two up to 16, that divide the address of an access. */
unsigned gpu_alignment(struct gen *g, const struct mem *m);
/* llvm_gpu_ops.c */
LLVMValueRef gpu_group_op(struct gen *g, const struct stmt *s, const LLVMValueRef *in, int lanes);
LLVMValueRef gpu_widen_pairs(struct gen *g, LLVMValueRef v, bool is_signed, int lanes);
/* llvm_gpu_frag.c */
LLVMValueRef gpu_fragment_op(struct gen *g, const struct stmt *s,
			     const LLVMValueRef *in); /* FRAG_LOAD, FRAG_MMA */
void gpu_fragment_store(struct gen *g, const struct stmt *s);
/* llvm_gpu_mma.c: the same, where the target loads matrices. */
LLVMValueRef gpu_mma_load(struct gen *g, const struct mem *m, const struct fragment *f);
LLVMValueRef gpu_mma_multiply(struct gen *g, const struct stmt *s, const LLVMValueRef *in);
void gpu_mma_store(struct gen *g, const struct stmt *s);

#endif
