/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to relax*.c. */
#ifndef KERNELS_RELAX_PARTS_H
#define KERNELS_RELAX_PARTS_H

#include "kernels/space/draft_parts.h"
#include "kernels/space/relax.h"
#include "kernels/space/space_rules.h"
#include "kernels/space/tape.h"

enum relax_kind {
	RELAX_TILE,
	RELAX_UNROLL,
	RELAX_CHAINS,
	RELAX_BLOCK,
	RELAX_SPLIT,
	RELAX_RING,
	RELAX_GROUP,
	RELAX_DOWN,
	RELAX_WINO_TILES,
	RELAX_WINO_PX,
	RELAX_WINO_KV,
	RELAX_WINO_CHUNK,
	RELAX_WINO_PARTS,
	RELAX_KINDS
};

/* Most points times steps of a body: in larger ones LLVM hoists too many loads and spills (measured). */
enum { RELAX_BODY = 200 };

struct relax_var {
	enum relax_kind kind;
	int stage, axis;
	int64_t low, top; /* bounds of the number */
};

struct relax {
	const struct space *space;
	struct sched sketch;
	struct tile_cost draft[MAX_STAGES]; /* the parts that do not depend on its numbers */
	int n;
	struct relax_var var[RELAX_MAX];
	struct tape tape; /* tape of the last point that was evaluated */
};

/* The numbers of a schedule on the tape. Numbers of the sketch that do not vary are constants. */
struct relaxed_stage {
	struct num tile[MAX_AXES]; /* unrolled steps on reduction axes */
	struct num block[MAX_AXES], split, chains, rows, group, down;
};

struct relaxed_winograd {
	struct num tiles, px, kv, chunk, parts;
};

struct relaxed {
	const struct relax *r;
	struct tape *p;
	struct relaxed_stage st[MAX_STAGES];
	struct relaxed_winograd wino;
};

/* Adds a variable, if it can vary and there is room for it. */
void relax_add(struct relax *r, enum relax_kind kind, int stage, int axis, int64_t low, int64_t top);
void relax_winograd_vars(struct relax *r);
int *relax_winograd_number(struct winograd *w, enum relax_kind kind);
void relax_set(struct sched *c, const struct relax_var *v, int64_t to);

/* Cycles of a stage for `rows` points of `axis` (-1: all). */
struct num relax_stage_cost(const struct relaxed *v, int stage, int axis, struct num rows);
struct num relax_winograd_cost(const struct relaxed *v);
/* Sum of squares of the violated constraints of a stage. */
struct num relax_stage_penalty(const struct relaxed *v, int stage);
struct num relax_winograd_penalty(const struct relaxed *v);
/* sum + max(0, log(left / right))^2 */
struct num relax_excess(struct tape *p, struct num sum, struct num left, double right);

#endif
