/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of op_quant.c that only pass_quant.c makes: QLinearConv and QLinearMatMul with attributes "low" and
 * "high", limits of the output's integers, and, for the product too, an s32 bias per column as input 8. Their
 * opset is above every opset that the importer accepts, so that no file can ask for them. */
#ifndef KERNELS_OP_QUANT_H
#define KERNELS_OP_QUANT_H

enum { QUANT_OPSET = 1000 };

#endif
