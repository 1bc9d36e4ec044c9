/* SPDX-License-Identifier: Apache-2.0 */
/* Structured forms: a node as a task on plain layouts. structure_task finds the builder by the operator's
 * name; families put it into their .task slot. A builder returns E_UNSUPPORTED for cases that stay with eval:
 * other dtypes, scalars, empty tensors.
 *
 * Every element of an output is written once, and its index is affine in the axes, so that groups can add an
 * epilogue. */
#ifndef KERNELS_STRUCTURE_H
#define KERNELS_STRUCTURE_H

#include "kernels/graph/op.h"
#include "kernels/task/task.h"

typedef int structure_fn(const struct opctx *c, struct task *out);

bool structure_is_map(
    const struct node *n); /* elementwise with broadcasting: may become part of another group */
int structure_task(const struct opctx *c, struct task *out) MUST_CHECK;
/* The node computes with integers: it reads or writes u8 or i8, or is one whose forms work on i32. */
bool structure_is_bytes(const struct opctx *c);

structure_fn structure_conv, structure_deconv, structure_pool, structure_matmul, structure_gemm;
structure_fn structure_map, structure_cast, structure_clip, structure_chain, structure_norm_map,
    structure_power;
structure_fn structure_reduce, structure_softmax, structure_normalize, structure_group, structure_lrn;
structure_fn structure_move, structure_pad, structure_depth, structure_resize;
structure_fn structure_quant_conv, structure_quant_matmul, structure_quant_add, structure_quantise,
    structure_dequantise, structure_integer_conv, structure_integer_matmul;

/* Helpers that builders share. An operand of kind 'i', 'o' or 'm' is the node's tensor K; *index is its
 * operand number. */
int structure_operand(struct task *t, const struct opctx *c, char kind, int k, int *index) MUST_CHECK;
int structure_tmp(struct task *t, const char *name, const struct shape *dims); /* operand number */
struct stage *structure_stage(struct task *t);
int structure_axis(struct stage *s, const char *name, enum axis_kind kind, int64_t extent); /* axis number */
struct read *structure_read(struct stage *s, int operand);
/* Adds axes d0, d1, ... of the shape; and adds a read that broadcasts over them, aligned at the last dim. */
void structure_axes(struct stage *s, const struct shape *dims);
struct read *structure_broadcast(struct task *t, struct stage *s, int operand, int rank);
void structure_out(struct task *t, struct stage *s, int operand); /* writes dim d by axis d */
void prog_add(struct prog *p, enum prog_op op);
void prog_imm(struct prog *p, float v);
void prog_read(struct prog *p, int read);
/* Appends postfix text: "r0 0 max"; "{alpha=0.01}" is the node's float attribute with its default. */
void prog_text(struct prog *p, const struct node *n, const char *text);

#endif
