/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises tasks that libraries may compute: one stage that is a convolution or a product of matrices, with
 * a bias, an addend and limits behind it, in 32-bit floats. */
#ifndef KERNELS_PIECE_H
#define KERNELS_PIECE_H

#include "kernels/library/hone_backend.h"
#include "kernels/task/task.h"

/* A task as a piece, and which of its operands are the piece's. -1: it has none. Offsets of first elements in
 * floats from the beginning of the operand's memory, in which halos lie. */
struct task_piece {
	struct hone_piece p;
	int x, w, bias, add, y;
	int64_t x_at, w_at, bias_at, add_at, y_at;
};

/* E_UNSUPPORTED: the task is none. */
int piece_of_task(const struct task *t, struct task_piece *out) MUST_CHECK;
/* In how many parts, at most n, a piece can be divided. */
int piece_parts(const struct task_piece *whole, int n);
/* Part i of n (as piece_parts says). Parts write different elements. */
void piece_part(const struct task_piece *whole, int n, int i, struct task_piece *out);
/* One line of numbers, and back. E_CORRUPT: it is none that piece_text writes, or its sizes are out of
 * range. */
void piece_text(const struct task_piece *p, struct buf *out);
int piece_parse(const char *text, struct task_piece *out) MUST_CHECK;

#endif
