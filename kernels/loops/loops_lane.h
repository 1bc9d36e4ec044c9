/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter's arithmetic on one lane, and how a lane is loaded and stored. Subnormals are flushed in
 * software on exact results, whatever mode the calling thread's FPU is in. The checker and the emitters use
 * lane_fill, lane_store and lane_load to learn which bits an element holds for a fill: elements are
 * little-endian, and a fill that loops_check accepted is in the elements' range. */
#ifndef KERNELS_LOOPS_LANE_H
#define KERNELS_LOOPS_LANE_H

#include "kernels/loops/loops.h"

/* One lane of a vector variable. */
union lane {
	float f;
	int32_t s;
	uint32_t u;
};

/* How a lane lies in memory: its type, the elements' type, and how many elements a lane has. */
struct lane_type {
	enum lv_type type;
	enum dtype elem;
	int group;
};

/* Element `at` of p (and those after it, in a group) as a lane. */
union lane lane_load(struct lane_type t, const void *p, int64_t at);
void lane_store(struct lane_type t, void *p, int64_t at, union lane v);
/* The lane that a load with a guard of 0 gives. */
union lane lane_fill(struct lane_type t, float fill);
/* op of the operands in[], for a result of this type; imm: the statement's. Sets *overflow where an s32
 * result is not exact, or an operand is outside of the operation's range. */
union lane lane_op(enum vop op, enum lv_type type, const union lane *in, bool fma, int imm, bool *overflow);

#endif
