/* SPDX-License-Identifier: Apache-2.0 */
/* Code: an object and its manifest; a plan needs nothing else from the schedule.
 *
 * Bytes (little endian): "HCO1", u32 manifest length, u32 object length, manifest text, object. The manifest
 * is lines "key value" in the order of the struct below; code_parse checks every range: hostile bytes give
 * E_CORRUPT. */
#ifndef KERNELS_CODE_H
#define KERNELS_CODE_H

#include "kernels/loops/loops.h"
#include "kernels/task/pack.h"
#include "kernels/task/task.h"
#include "platform/base/file.h"

enum { CODE_MAX_BUFS = LOOPS_MAX_BUFS };

/* Size that may depend on parameters: postfix text over constants and p0, p1, ... ("p0 16 * p1 +"). */
struct code_buf {
	char name[8];
	enum buf_role role;
	int operand;   /* operand of the task; -1: scratch */
	int64_t elems; /* declared padded elements; 0 in generic code: the operand's own layout gives the
		        * size */
	bool packed;   /* a constant that must first be packed by `packing` */
	struct packing packing;
	bool texture; /* of a packed constant of f32 or f16 (struct lbuf): of a task's f32 operand */
};

/* End of the version of every emitter whose code is kept, as in "llvm-19.1.7/5". It is incremented when the
 * same input gives other code, or when code is called in another way. Kept code of another revision counts as
 * a miss, because the code that was checked and timed is no longer the code that would be made. */
#define CODE_REVISION "14"

struct manifest {
	char emitter[16]; /* "llvm" */
	char version[32]; /* of the emitter; code is only valid for this version */
	char isa[24];     /* target.isa that the code needs */
	char features[1024]; /* and target_extras: "+dotprod,+i8mm" */
	int lanes;
	int nentries, nbufs, nparams;
	char entry[LOOPS_MAX_ENTRIES][16];
	/* Parallel extent per entry: > 0 constant, else computed from params by `extent_expr`. */
	char extent_expr[LOOPS_MAX_ENTRIES][256]; /* postfix over integers, p<i>, + * / % min max */
	int64_t param[LOOPS_MAX_PARAMS]; /* values; in generic code the plan binds the first nsyms */
	int nsyms;                       /* symbols of the generic task; 0: not generic */
	int64_t scratch_bytes;           /* per thread; on a device of work items, per item */
	bool shares_scratch; /* all indices have the scratch in common, and it lasts from entry to entry */
	int winograd;                    /* m of F(m x m, 3x3); 0: another algorithm */
	enum dtype sums; /* DT_F16: products of f16 are summed in f16 (SUM_HALF), or by fragments; DT_BF16,
			  * DT_F32: of inputs that fragments round to bf16 or TF32; DT_NONE: others */
	struct code_buf buf[CODE_MAX_BUFS]; /* in ABI order, scratch last */
	int alias_out, alias_in;            /* the output may share the memory of this input; -1: none */
};

struct code {
	struct manifest m;
	struct blob object;
	bool own;        /* set by who looks for code: it wants none of a library (platform/run/foreign.h) */
	bool at_default; /* its record's schedule is the task's default one; not part of the bytes */
};

bool code_is_current(const struct manifest *m);
void code_bytes(const struct code *c, struct buf *out);
int code_parse(const void *p, size_t n, struct arena *a,
	       struct code *out) MUST_CHECK;                                     /* object points into p */
/* The type of the pairs that it multiplies, f16 or bf16; DT_F32: TF32; DT_NONE: none. */
enum dtype code_pairs(const struct manifest *m);
/* How many of `indices` work items run at a time, so that their scratch is not larger than room_bytes (but
 * one always does); *bytes: of their scratch. */
int64_t code_at_once(const struct manifest *m, int64_t indices, int64_t room_bytes, int64_t *bytes);
int64_t code_extent(const struct manifest *m, int entry, const int64_t *params); /* < 0: enum err */

#endif
