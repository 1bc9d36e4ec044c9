/* SPDX-License-Identifier: Apache-2.0 */
/* The division of a graph into steps: the bridge from operators to tasks.
 *
 * graph_steps: chooses groups (anchor + bias, activation, residual add,
 * elementwise chain), a layout for every value, inserts conversions, and makes one task per group and one per
 * block of groups that a kernel may do at once, in the order of least memory (kernels/group/order.h). Costs
 * come in as `choices` (NULL or an absent one: the rules decide). */
#ifndef KERNELS_GROUP_H
#define KERNELS_GROUP_H

#include "kernels/group/choices.h"
#include "kernels/graph/graph.h"
#include "kernels/task/task.h"
#include "platform/machine/target.h"

enum step_kind {
	STEP_TASK,  /* a kernel */
	STEP_HOST,  /* a node without structured form: its eval, on plain layouts */
	STEP_ALIAS, /* out is in, seen with another shape (Reshape, Squeeze, ...): no work */
};

struct step {
	enum step_kind kind;
	const char *name;        /* of the anchor node, or "convert VALUE" */
	int anchor;              /* node index; -1: conversion */
	int joined;              /* nodes after the anchor that the group took */
	struct task *task;       /* STEP_TASK; steps that are alike share one, which nobody changes */
	int value[MAX_OPERANDS]; /* STEP_TASK: step value per operand; -1: tmp. STEP_ALIAS: [0] in, [1] out */
	int block; /* STEP_TASK: groups from this one on that one kernel could do, and of a fused step that it
		      does */
	bool fused;   /* STEP_TASK: does the work of several steps, of which it is the alternative: */
	int fused_by; /* the fused step that does this one's work where there is code for it; -1 */
	int node;     /* STEP_HOST */
	const int
	    *host_in; /* STEP_HOST: step value per input of the node; -1: absent. Outputs are the node's */
};

/* True for the host nodes that the plan runs on buffers of any layout (Concat and Split of f32); all others
 * get plain ones. */
bool step_any_layout(const struct graph *g, int node);

/* A graph value as steps see it. Conversions make extra values (index >= graph.nvalues) that are copies of
 * `of`. */
struct step_value {
	int of;             /* graph value */
	struct operand buf; /* dims, layout, fill: how it lies in memory (dtype may be any for HOST values) */
	bool constant;      /* data known: packed when the plan is built */
};

struct steps {
	int nsteps, nvalues;
	struct step *step;
	struct step_value *value;
	double flops;
	int64_t peak_bytes;       /* of values that live at once, in this order */
	int64_t given_peak_bytes; /* in the order that the model gives */
};

/* The k-th value that a step reads, or writes: -1 none in this place, STEP_END behind the last. */
enum { STEP_END = -2 };
int step_read(const struct graph *g, const struct step *s, int k);
int step_write(const struct graph *g, const struct step *s, int k);

int graph_steps(struct graph *g, const struct target *t, const struct choices *c, struct arena *a,
		struct steps **out) MUST_CHECK;
/* The unique tasks in order of first use: text, uses. Of a block the fused one. */
struct step_task {
	const struct task *task;
	const char *text;
	struct key key;
	int uses;
};
int steps_tasks(const struct steps *s, struct arena *a, struct step_task **out) MUST_CHECK; /* count */

#endif
