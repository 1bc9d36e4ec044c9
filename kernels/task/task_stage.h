/* SPDX-License-Identifier: Apache-2.0 */
/* The structure of a task's stages that schedules and rules depend on: which axes a read depends on, the
 * distance in memory between neighbours along an axis, which axes the stages of a chain share. */
#ifndef KERNELS_TASK_STAGE_H
#define KERNELS_TASK_STAGE_H

#include "kernels/task/task.h"

/* Structure of a stage, used by rules, checks and lowering. */
int task_reads(const struct task *t, int operand); /* number of reads of it, in all stages */
int stage_spatial(const struct stage *st);         /* number of spatial axes */
unsigned read_axes(const struct task *t, const struct stage *st,
		   const struct read *r); /* mask of axes it depends on */
/* The largest block of the layouts that axis `a` indexes directly; 1: none. */
int64_t axis_block(const struct task *t, const struct stage *st, int a);
/* Elements between neighbours along axis `a`; 0: all are the same element. E_INFEASIBLE: `lanes` neighbours
 * are not evenly spaced. *pads: reading a vector past the axis' end stays inside of the operand. */
int read_stride(const struct task *t, const struct stage *st, const struct read *r, int a, int lanes,
		int64_t *stride, bool *pads);
bool dtype_is_byte(enum dtype t);  /* u8 or i8 */
bool dtype_is_whole(enum dtype t); /* u8, i8 or i32: its values are whole (task.h) */
/* Whether all values that the task reads and writes are f32; tables are no values. */
bool task_floats(const struct task *t);
/* Whether the stage sums bytes or products of two of them: its acc is a whole number. */
bool stage_whole(const struct task *t, const struct stage *st);
/* Whether every value that such a sum passes through is a whole number that f32 holds exactly, so that fused
 * and unfused f32 arithmetic give it. */
bool stage_short(const struct task *t, const struct stage *st);
/* How the sums of a stage are computed. */
enum sum_kind {
	SUM_FLOAT, /* not whole, or no sum */
	SUM_SHORT, /* whole and short: in f32 */
	SUM_WHOLE, /* in s32 */
	SUM_DOT,   /* in s32, four products at a time */
	SUM_PAIR,  /* in f32, two products of bf16 at a time */
	SUM_HALF   /* in f16, two sums of products of f16 that are added in f32 from time to time */
};
enum sum_kind stage_sum(const struct task *t, const struct stage *st);
/* The task as schedules and lowering see it. Where a stage sums products of bytes and constants along an axis
 * whose bytes lie side by side in both operands (channels innermost, in blocks of a multiple of 4), four
 * steps along it become one: the axis, the dims and their layouts count groups of four bytes, and
 * operand.group is set. So rules, drafts and lowering treat such a stage like one of f32 with a quarter of
 * the steps. A last group may reach past the axis' end: these bytes of the input are multiplied by zero, as
 * the packed constant is 0 there. A tmp's bytes are written one by one, so it and its dims stay as they are:
 * the stage's index counts by four (stage_image). So it does for an input whose rows do not begin at
 * multiples of four bytes; the last group of its last row may reach past its end (operand.past). Returns t
 * itself if there is nothing to group. */
const struct task *task_groups(struct arena *a, const struct task *t);
/* Elements past an operand's end that kernels of the task may read, at most 3, and multiply by zero. A kernel
 * that does declares them (code_buf.elems). */
int task_past(const struct task *t, int operand);
/* How the text of a schedule that multiplies pairs of f16 or bf16 begins: "bf16; "; "tf32; " for DT_F32, ""
 * for DT_NONE. And which of them a text begins with. */
const char *pairs_text(enum dtype pairs);
static inline const char *pairs_name(enum dtype pairs)
{
	return pairs == DT_F32 ? "tf32" : dtype_name(pairs);
}
enum dtype cand_pairs(const char *cand);
/* The task as schedules whose text begins with pairs_text(type) see it. Where a stage sums products of floats
 * and constants along an axis whose floats lie side by side in the image, two steps along it become one, and
 * both operands are rounded to f16 or bf16: the constant's elements are pairs (operand.group), and the image
 * is a tmp of that type, which the stage's index counts by two. An image that is an input is copied into a
 * new tmp, the last operand, by a stage of its own. NULL: no stage can do so. */
const struct task *task_pairs(struct arena *a, const struct task *t, enum dtype type);
/* The same of a task of one stage that sums products of two inputs of floats, which are both rounded to f16
 * or bf16, or as DT_F32 to TF32; of TF32, one of them may be a packed constant. Only `pairs` of the copy is
 * set: the operands stay f32 in memory. Its schedules have fragments (kernels/space/frag.h). NULL: it is no
 * such task. */
const struct task *task_inputs(struct arena *a, const struct task *t, enum dtype type);
/* The task as a schedule with this text sees it: task_pairs or task_inputs, else task_groups. */
const struct task *task_view(struct arena *a, const struct task *t, const char *cand);
/* The read of a stage that is multiplied in pairs or groups but whose index counts elements, of which a step
 * has 2 or 4: a tmp, or an input whose groups begin at any byte. -1: the stage has none. */
int stage_image(const struct task *t, const struct stage *st);
bool stage_exact(const struct task *t, const struct stage *st); /* it writes u8, i8 or i32 */
/* Whether the stage's result is a whole value: its program only adds and multiplies whole ones. */
bool stage_gives_whole(const struct task *t, const struct stage *st);
/* Least and greatest value of u8 or i8. */
float byte_least(enum dtype t);
float byte_greatest(enum dtype t);
/* Whether the operand is a constant that lowering packs in the order of use. */
bool operand_packs(const struct task *t, int operand);
/* Whether axis i runs over an image that does not depend on it, like a convolution's output channels: a loop
 * over it around the pixel loops, or a ring along it, would read the image again for each of its points. */
bool stage_over_image(const struct task *t, const struct stage *st, int i);
/* Whether every stage makes a vector: one spatial axis has all of its points. */
bool task_vectors(const struct task *t);
/* Leading spatial axes that all stages of a chain share (computed per iteration); 0 for one stage. */
int task_shared(const struct task *t);
/* Approximate number of vector operations of a program. */
int prog_weight(const struct prog *p);
/* Whether the program has exp or similar: it needs many temporaries, so it is not unrolled for every point of
 * a tile. */
bool stage_long_post(const struct stage *st);
bool stage_long_body(const struct stage *st);
/* Elements in scratch of a tmp's innermost axis: `extent` of dim d with its halo. Rows that hold the whole
 * dim end at the end of a vector, so that no access needs a mask. (A masked store is not forwarded to a
 * following load.) */
enum { TMP_ROW = 16 };
int64_t tmp_row(const struct operand *o, int d, int64_t extent);

#endif
