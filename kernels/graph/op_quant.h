/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions that pass_quant.c, op_quant.c and agent/quantize share.
 *
 * Rows of op_quant.c that no file has. pass_quant.c makes QLinearConv and QLinearMatMul with attributes "low"
 * and "high", limits of the output's integers, and, for the product too, an s32 bias per column as input 8;
 * and QLinearAdd of two tensors of one shape: a, its scale and zero point, b and its, scale and zero point of
 * the output. pass_dynamic.c makes QuantizeLinear with attribute "pads": of one scale, with begins and ends
 * of all dims, as many bytes of the zero point around the others. pass_integer.c makes ConvInteger and
 * MatMulInteger with two more inputs, s32, whose product they add: input 4 has the output's shape, but one
 * element for each group of filters or for all columns; input 5 has one for each filter or column. Their
 * opset is above every opset that the importer accepts, so that no file can ask for them. */
#ifndef KERNELS_OP_QUANT_H
#define KERNELS_OP_QUANT_H

#include "kernels/graph/graph.h"

enum { QUANT_OPSET = 1000 };

/* Whether pass_quant makes the node work on bytes between a DequantizeLinear and a QuantizeLinear of equal
 * parameters, because it only moves elements: of its first input, or of all if it is a Concat. */
bool pass_quant_moves(const struct graph *g, const struct node *n);

#endif
