/* SPDX-License-Identifier: Apache-2.0 */
/* Files of --input give sizes that the model leaves free: a tensor has the shape of its input, a picture has
 * a height and a width, after --resize. */
#ifndef TOOLS_FEED_SHAPE_H
#define TOOLS_FEED_SHAPE_H

#include "kernels/onnx/import.h"
#include "tools/hone/cmd.h"

/* The most binds that feed_shape_binds adds. */
int feed_shape_most(const struct args *a);
/* Adds weak binds for the files of --input (tools/hone/feed.h) behind the n binds of --shape; a command
 * without --input has none. Returns how many were added. A file of an input whose sizes are all known is not
 * checked: feed_inputs does that. E_USAGE: nothing says where the height and the width of a picture belong; a
 * file has another number of dimensions than its input, which leaves sizes free; or the model, which leaves
 * some free, has no such input. Any other error: such an input's file cannot be read. */
int feed_shape_binds(const struct args *a, struct arena *arena, struct import_bind *bind, int n) MUST_CHECK;

#endif
