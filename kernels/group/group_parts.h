/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the group module: group.c finds groups, group_views.c takes out copies, group_fuse.c,
 * group_attention.c and group_chain.c blocks of them, group_decide.c guesses which values are blocked,
 * layout_graph.c weighs that, group_ingest.c finds inputs that need no copy, group_layout.c lays them out and
 * makes steps, group_collapse.c simplifies the tasks, group_order.c orders the steps. */
#ifndef KERNELS_GROUP_PARTS_H
#define KERNELS_GROUP_PARTS_H

#include "kernels/group/group.h"

struct group {
	enum step_kind kind;
	int anchor;              /* node */
	int joined;              /* nodes after the anchor */
	int at;                  /* position in the order: that of its last node */
	struct task *task;       /* STEP_TASK: on plain layouts */
	int value[MAX_OPERANDS]; /* graph value per operand; -1: tmp */
	int out;                 /* STEP_TASK: graph value that it makes */
	int prev, next;          /* groups of the same block, one kernel where there is code for it; -1 */
	int block;               /* groups from this one on that could be one; 1: alone, or not worth a try */
};

struct groups {
	struct arena *work; /* tasks are made here; those that differ are copied by graph_steps */
	int n;
	struct group *group; /* in running order */
};

int groups_find(struct graph *g, const struct choices *c, struct arena *a, struct groups *out) MUST_CHECK;
/* Reads and writes through groups that only move elements, which then go. */
int groups_view(const struct graph *g, struct arena *a, struct groups *out) MUST_CHECK;
bool group_copies(const struct group *p); /* a task that only moves elements */
enum { BLOCK_GROUPS = 6 };
/* The groups of the attention whose scores group i makes, 0: none; by: per value the group that alone reads
 * it. */
int group_attention(const struct groups *gr, const int *by, int i, int block[BLOCK_GROUPS]);
/* The groups of the longest chain of products with vectors that begins with group i, whose weights the L2
 * holds; 0: there are not two products. pays: whatever the threads. */
int group_chain(const struct groups *gr, const struct target *t, const int *by, int i,
		int block[BLOCK_GROUPS], bool *pays);
/* Sets prev and next of every group: blocks whose intermediates are more than the L2
 * holds and three times their weights, attention, short chains of products with vectors, or chosen. */
int groups_fuse(const struct graph *g, const struct target *t, const struct choices *c, struct arena *a,
		struct groups *gr) MUST_CHECK;
/* What an operand needs, and how much halo. */
enum need { NEED_ANY, NEED_HALO, NEED_EXACT };
enum need operand_overhang(const struct task *t, int operand, int64_t *lo, int64_t *hi);
/* The native form of a value. */
struct form {
	int block;  /* channels of a block; 1: plain */
	bool exact; /* plain, without halo */
};

/* form: per value of g; want: per group and operand, the block that its task reads or writes. */
void groups_decide(const struct graph *g, const struct groups *gr, int lanes, const struct choices *c,
		   struct form *form, int (*want)[MAX_OPERANDS]);
/* The same by cost, where the rules' answer is the first guess, and blocks have t->lanes channels. What was
 * measured of the target does not matter. Costs are kept in g. */
int groups_weigh(struct graph *g, const struct groups *gr, const struct target *t, const struct choices *c,
		 struct form *form, int (*want)[MAX_OPERANDS]) MUST_CHECK;
/* The group whose kernel may read value v, an input of the model, as the caller has it, and its operand; -1:
 * none. */
int group_ingests(const struct graph *g, const struct groups *gr, int v, int *operand);
bool value_wide(const struct shape *s, int lanes); /* its channels may lie in blocks */
int channel_axis(const struct task *t, int operand);
int groups_lay_out(struct graph *g, const struct groups *gr, const struct target *t, const struct choices *c,
		   struct arena *a, struct steps *out) MUST_CHECK;
/* Puts the steps into the order of least memory (group_order.c). */
int steps_order(const struct graph *g, struct steps *s) MUST_CHECK;
/* A block's task, made of its groups' laid-out ones in turn. */
struct block {
	struct task *task;
	int value[MAX_OPERANDS]; /* step value per operand, -1: tmp */
	int made[MAX_OPERANDS];  /* step value that the operand, a tmp, was */
};
bool block_add(struct block *b, const struct task *m, const int *value,
	       bool last); /* false: it does not fit */
/* A legal task that runs in a ring of rows, of an image or of apart ones, or makes vectors. */
bool block_runs(const struct task *t);
/* Drops reduction axes of extent 1, merges axes that are adjacent in memory in every operand, names the
 * operands. */
void task_simplify(struct task *t);

#endif
