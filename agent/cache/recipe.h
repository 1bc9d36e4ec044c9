/* SPDX-License-Identifier: Apache-2.0 */
/* A recipe: what the level int8 does to a model of floats. It says which values and layers are quantised, and
 * with which parameters (kernels/qdq/qdq.h), as they were found on examples of inputs (agent/quantize). With
 * it, a model's file is quantised anew wherever it is read, so nothing but the recipe is kept: some KiB.
 *
 * It is stored as CACHE_RECIPE under recipe_key. Text (hostile text gives E_CORRUPT): "hone-recipe 2", the
 * lines of the table in recipe_check.c (the first is that key), then for each quantised value a line "v INDEX
 * SCALE ZERO" (SCALE: the float's bits in hexadecimal), and for each quantised layer a line "l INDEX N" and
 * the corrections of its N biases in their steps. Indexes ascend.
 *
 * A recipe decides which numbers a model answers, so no stranger's recipe is used. It travels by its owner's
 * hand alone: in a pack that lies in a seed layer which others cannot write, and by `hone merge` and
 * `hone import --recipes`. A fleet neither takes nor gives recipes (agent/sync/batch.h, agent/sync/taken.h),
 * hone-sync may not bring them (agent/cache/hint.h), and those of a folder that others may write are misses
 * (agent/cache/cache.h). */
#ifndef AGENT_RECIPE_H
#define AGENT_RECIPE_H

#include "agent/cache/cache.h"
#include "kernels/qdq/qdq.h"
#include "kernels/task/level.h"

enum { RECIPE_BYTES = 16 << 20 /* of a text from outside, at most */ };

/* Errors are relative, as in agent/quantize/quantize.h. */
struct recipe {
	struct key model;   /* recipe_key of its graph */
	int values, layers; /* that the model has */
	int quantised;      /* of the layers */
	int examples, held_out;
	double error, held_out_error; /* of the outputs; 0 of held_out_error: no example was held out */
	double most;                  /* the limit that was asked for; 0: none */
};

/* The key of a graph, as it was imported: unlike graph_key, it depends on all weights. */
struct key recipe_key(const struct graph *g);
/* Checks a text without its model: E_CORRUPT if it is no recipe, longer than RECIPE_BYTES, or names another
 * key than k. */
int recipe_check(const char *text, struct key k) MUST_CHECK;
/* Reads what the first lines of a text say, which is not checked further. E_CORRUPT: they are no recipe's. */
int recipe_summary(const char *text, struct recipe *out) MUST_CHECK;
/* s: what is quantised. Layers of s have weights, and a shift of whole steps. */
void recipe_text(const struct recipe *r, const struct qdq *q, const struct qselection *s, struct buf *out);
/* Quantises g, which is as it was imported. E_CORRUPT: the text is no recipe of this graph, which is then as
 * before, but for folding, and r is all 0. Else r gets what the recipe says. */
int recipe_apply(const char *text, struct graph *g, struct recipe *r) MUST_CHECK;

/* For each reader of a model: quantises g, as it was imported, if the level asks for that and g has floats
 * alone, by the recipe of the first of n caches that has a good one. A graph without layers that can be
 * quantised needs none. E_NOTFOUND: no cache has one. r (may be NULL) gets what the recipe says; r->layers 0:
 * g stays as it is. */
int recipe_use(struct cache *const *c, int n, enum level level, struct graph *g, struct recipe *r) MUST_CHECK;

#endif
