/* SPDX-License-Identifier: Apache-2.0 */
/* Finds NaN and infinities in a model's weights. With NaN, answers differ between correct kernels: what Relu,
 * Max or Clip make of NaN is not defined (kernels/loops/loops.h), so a wrong kernel would be blamed for a
 * broken model. With an infinity, sums of products are infinite or NaN: a kernel that multiplies padding, or
 * takes differences as Winograd's does, makes NaN where another one does not. */
#ifndef KERNELS_WEIGHTS_H
#define KERNELS_WEIGHTS_H

#include "kernels/graph/graph.h"

/* Looks at the constants of a graph as it was imported, whose names are the model's. Returns the text "weight
 * 'NAME' holds NaN at index I of N (and M more weights hold NaN)" in the arena, I counted from 0; NULL: none
 * holds NaN. Names of hostile models are cut at 200 bytes. */
const char *weights_nan(const struct graph *g, struct arena *a);
/* The same, "holds an infinity", of the weights of convolutions, matrix products and recurrent layers. Masks
 * of other operators may hold infinities. */
const char *weights_infinite(const struct graph *g, struct arena *a);
/* weights_nan, else weights_infinite. */
const char *weights_odd(const struct graph *g, struct arena *a);

#endif
