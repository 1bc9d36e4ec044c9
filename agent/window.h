/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between tensors of any layout: how a caller's plain tensors and the parts of a Concat or Split come
 * into and out of the buffers that kernels use. */
#ifndef AGENT_WINDOW_H
#define AGENT_WINDOW_H

#include "kernels/task.h"

/* Copies the whole of `from` into `to` at position at[] of its logical dims, whatever the two layouts. Parts
 * of one whole are copied in ascending order of at[]: padding lanes after a part may be written. */
void window_in(const struct operand *from, const float *src, const struct operand *to, float *dst,
	       const int64_t *at);
/* The other way round: the window of `from` at at[] into the whole of `to`. */
void window_out(const struct operand *from, const float *src, const int64_t *at, const struct operand *to,
		float *dst);

#endif
