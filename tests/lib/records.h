/* SPDX-License-Identifier: Apache-2.0 */
/* Records as lines of agent/cache/exchange.h, for tests of what boards exchange. */
#ifndef TESTS_RECORDS_H
#define TESTS_RECORDS_H

#include "agent/cache/chosen_rec.h"
#include "agent/cache/exchange.h"
#include "agent/cache/recipe.h"
#include "agent/cache/trials.h"
#include "platform/base/mix.h"
#include "search/job.h"
#include "tests/lib/tasks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Text of a task: another matrix product for each i. */
static inline const char *record_task(struct arena *a, int i)
{
	return arena_strdup(a, task_product(14 + i));
}

static inline struct rec record(struct arena *a, int i, struct key cls, int64_t ns)
{
	struct rec r = {
	    .kind = REC_BEST,
	    .target = "soc x86-64-v3 8",
	    .target_key = cls,
	    .device = "cpu",
	    .threads = 2,
	    .emitter = "llvm-19/1",
	    .cand = "lane=n:8",
	    .meas = {.runs = 9, .min_ns = ns, .median_ns = ns, .spread_ns = ns / 100, .threads = 2},
	    .task_text = record_task(a, i),
	    .label = "matmul"};
	r.task = hash_text(r.task_text);
	return r;
}

static inline const char *record_as_line(struct arena *a, enum cache_type t, struct key k, const char *text)
{
	char key[33];
	key_text(k, key);
	json_t *o = json_pack("{ss ss ss}", "type", exchange_name(t), "key", key, "text", text);
	char *line = o ? json_dumps(o, JSON_COMPACT) : NULL;
	if (!line)
		abort();
	const char *kept = arena_strdup(a, line);
	json_decref(o);
	free(line);
	return kept;
}

/* Choices of a model for boards of a class, as a record's text. */
static inline const char *record_choices(struct arena *a, struct key model, struct key cls,
					 const char *choices, struct key *k)
{
	const struct chosen_rec r = {
	    .model = model, .target_key = cls, .device = "cpu", .threads = 2, .choices = choices};
	struct buf b = {0};
	chosen_rec_text(&r, &b);
	const char *text = arena_strdup(a, buf_str(&b));
	buf_free(&b);
	*k = chosen_rec_key(&r);
	return text;
}

static inline const char *record_choices_line(struct arena *a, struct key model, struct key cls,
					      const char *choices)
{
	struct key k;
	const char *text = record_choices(a, model, cls, choices, &k);
	return record_as_line(a, CACHE_CHOICES, k, text);
}

static inline const char *record_text(struct arena *a, const struct rec *r)
{
	struct buf b = {0};
	rec_text(r, &b);
	const char *text = arena_strdup(a, buf_str(&b));
	buf_free(&b);
	return text;
}

static inline const char *record_line(struct arena *a, const struct rec *r)
{
	return record_as_line(a, CACHE_REC, rec_key(r), record_text(a, r));
}

/* The same record as a board of the former version sends it, with another hash for its task and key. */
static inline const char *record_former_line(struct arena *a, const struct rec *r)
{
	struct rec was = *r;
	struct buf b = {0};
	was.task = mix_text(r->task_text);
	rec_text(&was, &b);
	char *version = strstr(b.p, "hone-rec 2\n");
	if (!version)
		abort();
	version[9] = '1';
	const char *line = record_as_line(a, CACHE_REC, mix_text(b.p), buf_str(&b));
	buf_free(&b);
	return line;
}

/* Choices of about `bytes` bytes, different for each i. */
static inline const char *record_big_choices(struct arena *a, struct key model, struct key cls, int i,
					     int bytes)
{
	enum { NAME = 1000 };
	struct buf text = {0};
	char name[NAME + 1];
	memset(name, 'a', NAME);
	buf_puts(&text, "hone-choices 1\n");
	for (int at = 0; at < bytes; at += NAME) {
		snprintf(name + NAME - 16, 17, "%08u%08u", (unsigned)at % 100000000u,
			 (unsigned)i % 100000000u);
		buf_printf(&text, "join 1 %s\n", name);
	}
	const char *line = record_choices_line(a, model, cls, buf_str(&text));
	buf_free(&text);
	return line;
}

/* A recipe of a model with two layers. */
static inline const char *record_recipe(struct arena *a, struct key model)
{
	char key[33];
	key_text(model, key);
	return arena_printf(a,
			    "hone-recipe 2\nmodel %s\nvalues 3\nlayers 2\nquantized 1\nexamples 9\n"
			    "held_out 2\nerror 1000000000\nheld_out_error 2000000000\nmost 0\n"
			    "v 0 3c23d70a 128\nv 2 3d4ccccd 0\nl 1 3 0 -7 12\n",
			    key);
}

static inline const char *record_recipe_line(struct arena *a, struct key model)
{
	return record_as_line(a, CACHE_RECIPE, model, record_recipe(a, model));
}

/* Trials of r's task with its candidate. */
static inline const char *record_trials_line(struct arena *a, const struct rec *r)
{
	struct trials *l = ARENA_NEW(a, struct trials);
	const struct tried t = {.cand = r->cand, .ns = r->meas.median_ns};
	struct buf b = {0};
	trials_start(l, r->task, r->task_text, r->label);
	snprintf(l->device, sizeof l->device, "%s", r->device);
	l->target_key = r->target_key;
	l->threads = r->threads;
	l->boxes = 1;
	trials_add(l, &t, 1);
	trials_text(l, &b);
	const char *line = record_as_line(a, CACHE_TRIALS, trials_key(l), buf_str(&b));
	buf_free(&b);
	trials_free(l);
	return line;
}

#endif
