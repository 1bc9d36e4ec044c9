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
/* Why a program is wrong: LANE_OVERFLOW: the exact result is no s32; LANE_NOT_NARROW: an operand of a dot
 * product has other bytes than promised; LANE_NOT_S32: an operand of CVT is no s32 when rounded. */
enum lane_fault { LANE_GOOD, LANE_OVERFLOW, LANE_NOT_NARROW, LANE_NOT_S32 };
/* Statement s of one lane's operands in[], for a result of this type; *out is defined if it is LANE_GOOD. */
enum lane_fault lane_op(const struct stmt *s, enum lv_type type, const union lane *in, bool fma,
			union lane *out);
/* Lane i of MMLAU or MMLAS, of the four lanes each of a, b and c that its block has. */
enum lane_fault lane_mmla(enum vop op, const union lane *a, const union lane *b, const union lane *c, int i,
			  union lane *out);

#endif
