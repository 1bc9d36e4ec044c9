/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX operators. A family of operators is one file op_NAME.c that defines `const struct op op_NAME`; the
 * Makefile writes op_table[]. To add an operator, add a row to its family, or a new file with rows, infer,
 * eval and, if the operator has a structured form, task. A new structured form also needs a row in forms[]
 * of kernels/graph/structure.c, or in the table of structure_map.c if it maps element by element; nothing
 * else changes.
 *
 * infer: sets out[i].dtype and .shape from in[] (in[i].data != NULL: constant). It checks everything that it
 * relies on, and fails with a text that starts with the problem ("axis 7 of rank 4"); the caller adds node
 * and model in front.
 * eval: fills out[i].data, which the caller has allocated (zeroed, row-major) with the shape that infer gave;
 * NULL: the output is absent. Portable C. It is the reference: f32 sums are accumulated in double. It is used
 * for constant folding, for verification, and to run operators without a structured form. ctx->arena is
 * scratch.
 * task: describes the node as a structured operator on plain layouts (kernels/task/task.h); NULL: it has no
 * structured form. It may return E_UNSUPPORTED for a case (dtype, data-dependent shape) that stays with eval.
 * Operands are named after the node's tensors: i0 is input 0, o0 output 0; an additional constant (a table,
 * 1/count) goes to made[K] and is named m<K>, with its data in ctx->arena. structure_task
 * (kernels/graph/structure.h) has the forms of all rows that it knows. */
#ifndef KERNELS_OP_H
#define KERNELS_OP_H

#include "kernels/graph/graph.h"

struct task;

/* No pointers but one: in a library each costs 32 bytes on arm64, with its relocation. */
struct op_row {
	char type[22];         /* ONNX operator name, with its 0 */
	int16_t since, until;  /* supported opset versions of the default domain, inclusive; 0: no bound */
	int8_t min_in, max_in; /* max_in -1: variadic */
	int8_t min_out, max_out;
	int8_t code;       /* defined by the family */
	const char *attrs; /* known attribute names, space-separated; a node with another one is unsupported,
			    * never ignored. NULL: none */
};

struct opctx {
	const struct node *node;
	int code; /* of the row */
	int opset;
	struct arena *arena; /* scratch for this call; infer: also for results that must be kept (none) */
	int nin, nout;
	struct tensor *in;   /* nin of them; dtype DT_NONE: absent */
	struct tensor *out;  /* nout of them */
	struct tensor *made; /* task: OP_MADE of them, zeroed */
};

enum { OP_MADE = 6 };

struct op {
	const struct op_row *rows; /* the last one has type "" */
	int (*infer)(struct opctx *c);
	int (*eval)(struct opctx *c);
	int (*task)(const struct opctx *c, struct task *out);
};

extern const struct op *const op_table[];
/* Finds family and row by ONNX type and opset (0: any row of that type); *row is set. NULL: unknown. */
const struct op *op_find(const char *type, int opset, int *row);

#endif
