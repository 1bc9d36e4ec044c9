/* SPDX-License-Identifier: Apache-2.0 */
/* The division of a graph into steps: it turns operators into tasks.
 *
 * graph_steps chooses groups (anchor + bias, activation, residual add, elementwise chain) and a layout for
 * every value, inserts conversions, and makes one task per group and one per block of groups that one kernel
 * may do, in the order of least memory (kernels/group/order.h). Choices made by cost come in as `choices`
 * (NULL or an absent choice: the rules decide). */
#ifndef KERNELS_GROUP_H
#define KERNELS_GROUP_H

#include "kernels/group/choices.h"
#include "kernels/graph/graph.h"
#include "kernels/task/task.h"
#include "platform/machine/target.h"

enum step_kind {
	STEP_TASK,  /* a kernel */
	STEP_HOST,  /* a node without structured form: its eval runs on plain layouts */
	STEP_ALIAS, /* the output is the input with another shape (Reshape, Squeeze, ...): no work */
};

struct step {
	enum step_kind kind;
	const char *name;        /* the anchor node's name, or "convert VALUE" */
	int anchor;              /* node index; -1: conversion */
	int joined;              /* number of nodes after the anchor in the group */
	struct task *task;       /* STEP_TASK; equal steps share one task, which is never changed */
	int value[MAX_OPERANDS]; /* STEP_TASK: step value per operand; -1: tmp. STEP_ALIAS: [0] in, [1] out */
	int block; /* STEP_TASK: number of groups from this one on that one kernel could do, or, for a
		    * fused step, does */
	bool fused;   /* STEP_TASK: an alternative to several steps, whose work it does */
	int fused_by; /* the fused step that replaces this one if it has code; -1: none */
	int node;     /* STEP_HOST */
	const int
	    *host_in; /* STEP_HOST: step value per input of the node; -1: absent. Outputs are the node's */
};

/* Whether the plan runs this host node on buffers of any layout (Concat and Split of f32). All others get
 * plain buffers. */
bool step_any_layout(const struct graph *g, int node);

/* A graph value as steps see it. Conversions make extra values (index >= graph.nvalues), which are copies of
 * `of`. */
struct step_value {
	int of;             /* graph value */
	struct operand buf; /* dims, layout, fill: its layout in memory (HOST values may have any dtype) */
	bool constant;      /* the data is known: it is packed when the plan is built */
};

struct steps {
	int nsteps, nvalues;
	struct step *step;
	struct step_value *value;
	double flops;
	int64_t peak_bytes;       /* bytes of values that live at once, in this order */
	int64_t given_peak_bytes; /* the same in the model's order */
};

/* The k-th value that a step reads or writes. -1: none at this index; STEP_END: k is past the last. */
enum { STEP_END = -2 };
int step_read(const struct graph *g, const struct step *s, int k);
int step_write(const struct graph *g, const struct step *s, int k);

int graph_steps(struct graph *g, const struct target *t, const struct choices *c, struct arena *a,
		struct steps **out) MUST_CHECK;
/* Checks that each step has a sound task and reads only what is computed before it, and that all outputs of
 * the graph are computed. E_CORRUPT names the step. */
int steps_check(const struct graph *g, const struct steps *s) MUST_CHECK;
/* Whether f16 holds all weights of a step's task that a schedule may store so (task_stores of
 * kernels/space/sched.h). */
bool step_holds_f16(const struct graph *g, const struct steps *s, const struct step *st);
/* The unique tasks in order of first use, with text and number of uses. A block counts as its fused task. */
struct step_task {
	const struct task *task;
	const char *text;
	struct key key;
	int uses;
};
/* returns the count */
int steps_tasks(const struct steps *s, struct arena *a, struct step_task **out) MUST_CHECK;

#endif
