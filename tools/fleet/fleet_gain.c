/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_gain.h"
#include "agent/cache/history.h"
#include "kernels/task/task.h"
#include "search/job.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gain {
	enum cache_type type;
	char key[33], device[16];
	int threads;
	int64_t before_ns, after_ns;
	const char *task; /* text of the task; NULL: a model */
};

/* Makes the label from the task, since a label from a stranger may say anything. */
static void label_of(const char *text, char out[96])
{
	struct task *t = calloc(1, sizeof *t);
	snprintf(out, 96, "kernel");
	if (t && text && task_parse(text, t) >= 0)
		task_label(t, out);
	free(t);
}

/* Reads a kernel's gain. 1: keep it; 0: not a record. */
static int of_rec(const struct exchange_line *l, struct arena *a, struct gain *g)
{
	struct rec r;
	if (rec_parse(l->text, a, &r) < 0)
		return 0;
	if (r.kind == REC_DEFAULT && r.meas.status == MEAS_OK)
		g->before_ns = r.meas.median_ns;
	r.kind = REC_BEST;
	key_text(rec_key(&r), g->key);
	g->task = r.task_text;
	snprintf(g->device, sizeof g->device, "%s", r.device);
	g->threads = r.threads;
	return 1;
}

static int of_history(const struct exchange_line *l, struct arena *a, struct gain *g)
{
	struct history *h = arena_try(a, 1, sizeof *h);
	if (!h || history_parse(l->text, strlen(l->text), h) < 0 || h->n < 1)
		return 0;
	g->before_ns = (int64_t)(h->point[0].total_ms * 1e6);
	g->after_ns = (int64_t)(h->point[h->n - 1].total_ms * 1e6);
	key_text(l->key, g->key);
	return g->before_ns > 0 && g->after_ns > 0;
}

static int keep_kernel(struct db_conn *c, const char *cls, const struct gain *g, int64_t now_s)
{
	char label[96] = "";
	int rc = db_exec(c, "SELECT boards FROM kernels WHERE class = $1 AND type = $2 AND key = $3",
			 DB_PARAMS(DB_T(cls), DB_I(g->type), DB_T(g->key)), NULL, NULL);
	if (rc != 0)
		return rc;
	if (g->task)
		label_of(g->task, label);
	return db_exec(
	    c,
	    "INSERT INTO kernels (class, type, key, label, device, threads, since_s) VALUES ($1, $2, $3, $4, "
	    "$5, $6, $7) ON CONFLICT (class, type, key) DO NOTHING",
	    DB_PARAMS(DB_T(cls), DB_I(g->type), DB_T(g->key), DB_T(label), DB_T(g->device), DB_I(g->threads),
		      DB_I(now_s)),
	    NULL, NULL);
}

/* A board that is known for this kernel may change its figures; a new one is taken while there is room. 1:
 * taken. */
static int keep_word(struct db_conn *c, const char *cls, const char *board, const struct gain *g)
{
	int rc = db_exec(
	    c,
	    "UPDATE gains SET before_ns = $5, after_ns = $6 WHERE class = $1 AND type = $2 AND key = $3 AND "
	    "board = $4",
	    DB_PARAMS(DB_T(cls), DB_I(g->type), DB_T(g->key), DB_T(board), DB_I(g->before_ns),
		      DB_I(g->after_ns)),
	    NULL, NULL);
	if (rc != 0)
		return rc;
	return db_exec(
	    c,
	    "INSERT INTO gains (class, type, key, board, before_ns, after_ns) SELECT k.class, k.type, k.key, "
	    "$4, $5, $6 FROM kernels k WHERE k.class = $1 AND k.type = $2 AND k.key = $3 AND k.boards < $7 "
	    "AND (SELECT COUNT(*) FROM gains o WHERE o.board = $4) < $8",
	    DB_PARAMS(DB_T(cls), DB_I(g->type), DB_T(g->key), DB_T(board), DB_I(g->before_ns),
		      DB_I(g->after_ns), DB_I(GAIN_BOARDS), DB_I(GAIN_MOST)),
	    NULL, NULL);
}

struct medians {
	int n;
	int64_t before[GAIN_BOARDS], after[GAIN_BOARDS];
};

static void insert(int64_t *list, int n, int64_t v)
{
	int i = n;
	for (; i > 0 && list[i - 1] > v; i--)
		list[i] = list[i - 1];
	list[i] = v;
}

static int on_word(void *ctx, const struct db_value *col, int n)
{
	struct medians *m = ctx;
	(void)n;
	if (m->n == GAIN_BOARDS)
		return E_OK;
	insert(m->before, m->n, col[0].i);
	insert(m->after, m->n++, col[1].i);
	return E_OK;
}

static int sum_up(struct db_conn *c, const char *cls, const struct gain *g)
{
	struct medians m = {0};
	int rc =
	    db_exec(c, "SELECT before_ns, after_ns FROM gains WHERE class = $1 AND type = $2 AND key = $3",
		    DB_PARAMS(DB_T(cls), DB_I(g->type), DB_T(g->key)), on_word, &m);
	if (rc <= 0)
		return rc;
	return db_exec(
	    c,
	    "UPDATE kernels SET before_ns = $4, after_ns = $5, boards = $6 WHERE class = $1 AND type = $2 "
	    "AND key = $3",
	    DB_PARAMS(DB_T(cls), DB_I(g->type), DB_T(g->key), DB_I(m.before[(m.n - 1) / 2]),
		      DB_I(m.after[(m.n - 1) / 2]), DB_I(m.n)),
	    NULL, NULL);
}

int gain_add(struct db_conn *c, const char *cls, const char *board, const struct exchange_line *l,
	     struct arena *a, int64_t now_s)
{
	struct gain g = {.type = l->type};
	int rc = l->type == CACHE_REC       ? of_rec(l, a, &g)
		 : l->type == CACHE_HISTORY ? of_history(l, a, &g)
					    : 0;
	if (rc > 0)
		rc = keep_kernel(c, cls, &g, now_s);
	if (rc < 0 || g.before_ns <= 0)
		return rc;
	rc = keep_word(c, cls, board, &g);
	return rc > 0 ? sum_up(c, cls, &g) : rc;
}
