/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the group module: group.c finds groups, group_views.c removes copies, group_fuse.c,
 * group_attention.c and group_chain.c find blocks of groups, group_guess.c guesses by rule which values are
 * blocked by channels, layout_graph.c chooses that by cost, group_ingest.c finds inputs that need no copy,
 * group_layout.c makes the steps with these layouts, group_collapse.c simplifies the tasks, group_order.c
 * orders the steps.
 *
 * A `block` is a number of groups that one kernel could do. A value that is blocked has its channels in
 * blocks of `lanes`, which is not the same. */
#ifndef KERNELS_GROUP_PARTS_H
#define KERNELS_GROUP_PARTS_H

#include "kernels/group/group.h"

struct group {
	enum step_kind kind;
	int anchor;              /* node */
	int joined;              /* number of nodes after the anchor */
	int at;                  /* position in the order: that of the group's last node */
	struct task *task;       /* STEP_TASK: on plain layouts */
	int value[MAX_OPERANDS]; /* graph value per operand; -1: tmp */
	int out;                 /* STEP_TASK: the graph value that it makes */
	int prev, next;          /* neighbours in the same block, which is one kernel if there is code for
				  * it; -1 */
	int block;               /* number of groups from this one on that could be one kernel; 1: none, or
				  * not worth trying */
};

struct groups {
	struct arena *work; /* tasks are made here; graph_steps copies each different one */
	int n;
	struct group *group; /* in running order */
};

int groups_find(struct graph *g, const struct choices *c, struct arena *a, struct groups *out) MUST_CHECK;
/* Lets groups read and write through groups that only move elements, and removes those groups. */
int groups_view(const struct graph *g, struct arena *a, struct groups *out) MUST_CHECK;
bool group_copies(const struct group *p); /* the task only moves elements */
/* The anchor is a convolution; a product of matrices. */
bool group_convolves(const struct graph *g, const struct group *p);
bool group_multiplies(const struct graph *g, const struct group *p);
enum { BLOCK_GROUPS = 6 };
/* Finds the groups of the attention whose scores group i makes; 0: none. by: for each value, its only reader,
 * a group. */
int group_attention(const struct groups *gr, const int *by, int i, int block[BLOCK_GROUPS]);
/* Finds the longest chain of products with vectors that begins with group i and whose weights fit in the L2.
 * 0: fewer than two products. pays: worth fusing for any number of threads. */
int group_chain(const struct groups *gr, const struct target *t, const int *by, int i,
		int block[BLOCK_GROUPS], bool *pays);
/* Sets prev and next of every group. Blocks are fused if their intermediates exceed the L2 and are three
 * times as large as their weights, if they are attention or short chains of products with vectors, or if they
 * are chosen. */
int groups_fuse(const struct graph *g, const struct target *t, const struct choices *c, struct arena *a,
		struct groups *gr) MUST_CHECK;
/* How exact an operand's layout must be, and how much halo it needs. */
enum need { NEED_ANY, NEED_HALO, NEED_EXACT };
enum need operand_overhang(const struct task *t, int operand, int64_t *lo, int64_t *hi);
/* The native form of a value. */
struct form {
	int lanes;  /* channels that lie together in memory; 1: plain */
	bool exact; /* plain, without halo */
};

/* Guesses the forms by rule. form: per value of g; want: per group and operand, the lanes of the form that
 * its task reads or writes. */
void groups_guess_layout(const struct graph *g, const struct groups *gr, int lanes, const struct choices *c,
			 struct form *form, int (*want)[MAX_OPERANDS]);
/* Chooses the forms by cost. form and want hold the guess, and then the result; forms that are not plain have
 * t->lanes. Measured properties of the target are ignored. Costs are kept in g. */
int groups_choose_layout(struct graph *g, const struct groups *gr, const struct target *t,
			 const struct choices *c, struct form *form, int (*want)[MAX_OPERANDS]) MUST_CHECK;
/* Returns the group whose kernel may read v, an input of the model, directly from the caller's tensor, and
 * the group's operand; -1: none. */
int group_ingests(const struct graph *g, const struct groups *gr, int v, int *operand);
bool value_wide(const struct shape *s, int lanes); /* its channels may be blocked */
bool value_type(const struct tensor *x);           /* kernels work on it: f32, u8, i8 */
int channel_axis(const struct task *t, int operand);
int groups_lay_out(struct graph *g, const struct groups *gr, const struct target *t, const struct choices *c,
		   struct arena *a, struct steps *out) MUST_CHECK;
/* Puts the steps into the order of least memory (group_order.c). */
int steps_order(const struct graph *g, struct steps *s) MUST_CHECK;
/* The task of a block, made by appending the laid-out tasks of its groups. */
struct block {
	struct task *task;
	int value[MAX_OPERANDS]; /* step value per operand, -1: tmp */
	int made[MAX_OPERANDS];  /* the step value that the operand was before it became a tmp */
};
bool block_add(struct block *b, const struct task *m, const int *value,
	       bool last); /* false: it does not fit */
/* Whether the task is legal and runs in a ring of rows, of an image or of independent rows, or makes
 * vectors. */
bool block_runs(const struct task *t);
/* Removes reduction axes of extent 1, merges axes that are adjacent in memory in every operand, and names the
 * operands. */
void task_simplify(struct task *t);

#endif
