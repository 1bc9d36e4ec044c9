/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes of --shape in what a look at a model's file found (kernels/onnx/look.h), where there is no import
 * that would tell them. */
#ifndef TOOLS_GIVEN_SIZES_H
#define TOOLS_GIVEN_SIZES_H

#include "kernels/onnx/import.h"
#include "kernels/onnx/look.h"

/* Gives inputs the shapes of the binds, and free dimensions of inputs and outputs the sizes of their names:
 * of a bind, or in common with an input that has a shape. */
void given_sizes(struct onnx_look *l, const struct import_bind *bind, int n);

#endif
