/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_figures.h"
#include "tools/fleet/fleet_round.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct fleet_kept {
	pthread_mutex_t mutex;
	bool have;
	int64_t at_ns;
	struct figures figures;
};

const char *const figures_bars[FIGURES_BARS] = {"&lt;1", "1", "1.2", "1.5", "2",  "3",
						"4",     "6", "8",   "12",  "16+"};
static const int64_t bar_from[FIGURES_BARS] = {0, 100, 120, 150, 200, 300, 400, 600, 800, 1200, 1600};

int figures_open(struct fleet_kept **out)
{
	*out = calloc(1, sizeof **out);
	if (!*out)
		return fail(E_NOMEM, "no memory");
	pthread_mutex_init(&(*out)->mutex, NULL);
	return E_OK;
}

void figures_close(struct fleet_kept *k)
{
	if (k)
		pthread_mutex_destroy(&k->mutex);
	free(k);
}

void fleet_figures_stale(struct fleet *f)
{
	pthread_mutex_lock(&f->kept->mutex);
	f->kept->have = false;
	pthread_mutex_unlock(&f->kept->mutex);
}

static int on_boards(void *ctx, const struct db_value *col, int n)
{
	struct figures *g = ctx;
	int64_t *const out[] = {&g->boards, &g->silent, &g->revoked, &g->struck, &g->classes, &g->start_s};
	(void)n;
	for (size_t i = 0; i < sizeof out / sizeof *out; i++)
		*out[i] = col[i].i;
	return E_OK;
}

static int count_boards(struct db_conn *c, struct figures *g)
{
	return store_exec(
	    c,
	    "SELECT COUNT(*), COUNT(CASE WHEN batches = 0 THEN 1 END), COUNT(CASE WHEN revoked_s <> 0 THEN 1 "
	    "END), COUNT(CASE WHEN struck <> 0 THEN 1 END), COUNT(DISTINCT CASE WHEN class <> '' THEN class "
	    "END), COALESCE(MIN(enrolled_s), 0) FROM boards",
	    NULL, 0, on_boards, g);
}

static int on_today(void *ctx, const struct db_value *col, int n)
{
	struct figures *g = ctx;
	(void)n;
	g->day_bytes = col[0].i;
	g->over = col[1].i;
	g->left_out = col[2].i;
	return E_OK;
}

static int count_today(struct db_conn *c, struct figures *g, int64_t now_s)
{
	return store_exec(
	    c,
	    "SELECT CAST(COALESCE(SUM(CASE WHEN day = $1 THEN sent_bytes END), 0) AS BIGINT), "
	    "COUNT(CASE WHEN over_day = $1 THEN 1 END), CAST((SELECT COALESCE(SUM(n), 0) FROM left_out) AS "
	    "BIGINT) FROM boards",
	    DB_PARAMS(DB_I(now_s / 86400)), on_today, g);
}

static int on_kernels(void *ctx, const struct db_value *col, int n)
{
	struct figures *g = ctx;
	(void)n;
	g->kernels = col[0].i;
	g->records_revoked = col[1].i;
	g->waiting = col[2].i;
	return E_OK;
}

static int on_channel(void *ctx, const struct db_value *col, int n)
{
	struct figures *g = ctx;
	(void)n;
	if (col[0].i < 0 || col[0].i >= CHANNELS)
		return E_OK;
	g->on[col[0].i] = col[1].i;
	if (col[1].i > 0 && col[0].i > (int64_t)g->widest)
		g->widest = (enum channel)col[0].i;
	return E_OK;
}

static int count_kernels(struct db_conn *c, struct figures *g)
{
	int rc = store_exec(
	    c,
	    "SELECT (SELECT COUNT(*) FROM kernels WHERE type = 1), (SELECT COUNT(*) FROM revoked), (SELECT "
	    "COUNT(*) FROM batches WHERE taken = 0)",
	    NULL, 0, on_kernels, g);
	return rc < 0
		   ? rc
		   : store_exec(
			 c, "SELECT channel, COUNT(*) FROM shown WHERE type = 1 AND now = 1 GROUP BY channel",
			 NULL, 0, on_channel, g);
}

static int on_count(void *ctx, const struct db_value *col, int n)
{
	struct figures *g = ctx;
	(void)n;
	for (int i = 0; i < STORE_COUNTS; i++)
		if (col[0].type == DB_TEXT && !strcmp(col[0].p, store_counts[i]))
			g->taken[i] = col[1].i;
	return E_OK;
}

/* Growth. */

static int64_t *point(int64_t *y, int64_t at)
{
	return &y[at < 0 ? 0 : at < CHART_POINTS ? at : CHART_POINTS - 1];
}

static int on_joined(void *ctx, const struct db_value *col, int n)
{
	struct figures *g = ctx;
	(void)n;
	*point(g->joined, col[0].i) += col[1].i;
	return E_OK;
}

static int on_came(void *ctx, const struct db_value *col, int n)
{
	struct figures *g = ctx;
	(void)n;
	if (col[0].i >= 0 && col[0].i < CHANNELS)
		*point(g->came[col[0].i], col[1].i) += col[2].i;
	return E_OK;
}

static void add_up(int64_t *y)
{
	for (int i = 1; i < CHART_POINTS; i++)
		y[i] += y[i - 1];
}

static int grow(struct db_conn *c, struct figures *g, int64_t now_s)
{
	int64_t first = g->start_s > 0 && g->start_s < now_s ? g->start_s : now_s - 3600;
	g->step_s = (now_s - first) / (CHART_POINTS - 1) + 1;
	g->start_s = now_s - g->step_s * (CHART_POINTS - 1);
	int rc = store_exec(c, "SELECT (enrolled_s - $1 + $2 - 1) / $2, COUNT(*) FROM boards GROUP BY 1",
			    DB_PARAMS(DB_I(g->start_s), DB_I(g->step_s)), on_joined, g);
	if (rc >= 0)
		rc = store_exec(
		    c,
		    "SELECT channel, (since_s - $1 + $2 - 1) / $2, COUNT(*) FROM shown WHERE type = "
		    "1 AND now = 1 GROUP BY 1, 2",
		    DB_PARAMS(DB_I(g->start_s), DB_I(g->step_s)), on_came, g);
	add_up(g->joined);
	for (int i = 0; i < CHANNELS; i++)
		add_up(g->came[i]);
	return rc;
}

/* Speed-ups. */

static int on_speedup(void *ctx, const struct db_value *col, int n)
{
	struct figures *g = ctx;
	int i = FIGURES_BARS - 1;
	(void)n;
	if (col[0].i <= 0 || col[1].i <= 0)
		return E_OK;
	const double ratio = (double)col[0].i / (double)col[1].i;
	while (i > 0 && ratio * 100 < (double)bar_from[i])
		i--;
	g->speedups[i]++;
	g->sped++;
	g->mean += log(ratio);
	return E_OK;
}

#define SPEEDUPS                                                                                             \
	"SELECT k.before_ns, s.median_ns FROM shown s JOIN kernels k ON k.class = s.class AND k.type = "     \
	"s.type AND k.key = s.key WHERE s.type = 1 AND s.now = 1 AND k.before_ns > 0 AND s.channel = $1"

static int read_speedups(struct db_conn *c, const char *cls, struct figures *g)
{
	const struct db_value param[] = {DB_I(g->widest), DB_T(cls ? cls : "")};
	int rc = cls ? store_exec(c, SPEEDUPS " AND s.class = $2", param, 2, on_speedup, g)
		     : store_exec(c, SPEEDUPS, param, 1, on_speedup, g);
	g->mean = g->sped ? exp(g->mean / (double)g->sped) : 0;
	return rc;
}

static int read_all(struct db_conn *c, int64_t now_s, struct figures *g)
{
	*g = (struct figures){0};
	int rc = count_boards(c, g);
	if (rc >= 0)
		rc = count_today(c, g, now_s);
	if (rc >= 0)
		rc = count_kernels(c, g);
	if (rc >= 0)
		rc = store_exec(c, "SELECT name, n FROM counts", NULL, 0, on_count, g);
	if (rc >= 0)
		rc = grow(c, g, now_s);
	if (rc >= 0)
		rc = read_speedups(c, NULL, g);
	if (rc >= 0)
		rc = rollout_stopped(c);
	g->stopped = rc > 0;
	return rc;
}

int fleet_figures(struct fleet *f, struct db_conn *c, struct figures *out)
{
	struct fleet_kept *k = f->kept;
	int rc = E_OK;
	pthread_mutex_lock(&k->mutex);
	int64_t now_ns = clock_now(f->clock);
	if (!k->have || now_ns - k->at_ns >= FIGURES_NS) {
		rc = read_all(c, f->date_s(), &k->figures);
		k->have = rc >= 0;
		k->at_ns = clock_now(f->clock);
	}
	*out = k->figures;
	pthread_mutex_unlock(&k->mutex);
	return rc;
}

static int on_number(void *ctx, const struct db_value *col, int n)
{
	(void)n;
	*(int64_t *)ctx = col[0].i;
	return E_OK;
}

int class_figures(struct db_conn *c, const char *cls, struct figures *g)
{
	*g = (struct figures){0};
	int rc = store_exec(c, "SELECT COUNT(*) FROM kernels WHERE class = $1 AND type = 1",
			    DB_PARAMS(DB_T(cls)), on_number, &g->kernels);
	if (rc >= 0)
		rc = store_exec(
		    c,
		    "SELECT channel, COUNT(*) FROM shown WHERE class = $1 AND type = 1 AND now = 1 "
		    "GROUP BY channel",
		    DB_PARAMS(DB_T(cls)), on_channel, g);
	return rc < 0 ? rc : read_speedups(c, cls, g);
}

/* JSON. */

static json_t *series(const int64_t *y, int n)
{
	json_t *list = json_array();
	for (int i = 0; i < n; i++)
		if (json_array_append_new(list, json_integer(y[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static json_t *counts_json(const struct figures *g, int from, int to)
{
	json_t *o = json_object();
	for (int i = from; i < to; i++)
		(void)json_object_set_new(o, store_counts[i], json_integer(g->taken[i]));
	return o;
}

static json_t *channels_json(const struct figures *g)
{
	json_t *o = json_object();
	for (int i = 0; i < CHANNELS; i++)
		(void)json_object_set_new(o, channel_names[i], json_integer(g->on[i]));
	return o;
}

static json_t *growth_json(const struct figures *g)
{
	json_t *o = json_pack("{s:I,s:I,s:o}", "start_s", (json_int_t)g->start_s, "step_s",
			      (json_int_t)g->step_s, "boards", series(g->joined, CHART_POINTS));
	for (int i = 0; o && i < CHANNELS; i++)
		(void)json_object_set_new(o, channel_names[i], series(g->came[i], CHART_POINTS));
	return o;
}

static json_t *speedups_json(const struct figures *g)
{
	json_t *from = json_array();
	for (int i = 0; i < FIGURES_BARS; i++)
		(void)json_array_append_new(from, json_real((double)bar_from[i] / 100));
	return json_pack("{s:s,s:I,s:f,s:o,s:o}", "channel", channel_names[g->widest], "kernels",
			 (json_int_t)g->sped, "geometric_mean", g->mean, "from", from, "n",
			 series(g->speedups, FIGURES_BARS));
}

json_t *figures_json(const struct figures *g)
{
	return json_pack("{s:b,s:{s:I,s:I},s:I,s:{s:I,s:I,s:I,s:I},s:I,s:I,s:I,s:I,s:o,s:o,s:o,s:o,s:o}",
			 "stopped", g->stopped, "today", "bytes", (json_int_t)g->day_bytes, "boards_over",
			 (json_int_t)g->over, "left_out", (json_int_t)g->left_out, "boards", "all",
			 (json_int_t)g->boards, "silent", (json_int_t)g->silent, "revoked",
			 (json_int_t)g->revoked, "struck_out", (json_int_t)g->struck, "classes",
			 (json_int_t)g->classes, "kernels", (json_int_t)g->kernels, "records_revoked",
			 (json_int_t)g->records_revoked, "waiting_batches", (json_int_t)g->waiting,
			 "on_channel", channels_json(g), "refused", counts_json(g, 0, COUNT_REFUSALS),
			 "taken", counts_json(g, COUNT_REFUSALS, STORE_COUNTS), "growth", growth_json(g),
			 "speedups", speedups_json(g));
}
