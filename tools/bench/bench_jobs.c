/* SPDX-License-Identifier: Apache-2.0 */
/* Several models at once: what honed's leases and policies gain on a board.
 *
 *	make bench-jobs ARGS=--sim        policies in simulation (tools/bench/jobs_sim.h), deterministic
 *	make bench-jobs                   four networks of the zoo, for real
 *	make bench-jobs ARGS="--alone 20s --ahead 16s --together 44s a.onnx b.onnx"
 *
 * Columns of the simulation: time until all jobs have ended, and until each has reached 99 % of its gain,
 * both over the time of one job after another; Jain's index of the jobs' slowdowns; slowdown of a job of
 * priority 3 over that of the others; shares of the time: one job alone on the machine, processors idle while
 * a job of theirs waits, nobody measures while somebody waits to. The second table has one job at a time in
 * slices: time until each network is good, and how much slower the networks were until then than at their
 * ends, on average.
 *
 * For real: each model in a box of its own, one after another, (a) without overlap and (b) with the tuner's
 * own builders, then (c) all of them in one box of honed. Afterwards the networks of the three caches run
 * interleaved (hone bench), and kernels that a and c recorded are timed again, one at a time, with nothing
 * else running. Their deviation from the records is the disturbance during tuning plus the machine's own
 * noise, which a shows alone. Each kernel is timed twice, right after the tuning and at the end, and both
 * count: the difference of the two is the machine's noise in any such comparison. */
#include "agent/cache/chosen.h"
#include "agent/cache/history.h"
#include "agent/control/policy.h"
#include "agent/worker/wire.h"
#include "kernels/onnx/import.h"
#include "search/job.h"
#include "platform/base/rng.h"
#include "tools/hone/cmd.h"
#include "tools/bench/jobs_sim.h"
#include "agent/cache/json.h"
#include "platform/base/stats.h"
#include "tools/hone/table.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MODELS = 8, RETIMED = 40, ROUNDS = 15, PASSES = 3, TURNS = 2, WORDS = 24 };
enum way { ALONE, AHEAD, TOGETHER, WAYS };
static const char *const ways[WAYS] = {"alone", "ahead", "together"};
static const char *const zoo[] = {"mobilenet_v2", "squeezenet1_1", "resnet18", "steering"};

struct course { /* result of one model in one way */
	struct history history;
	double ms, ratio; /* network's time afterwards; that over the time of ALONE */
};

struct records;

struct bench {
	const struct args *args;
	const char *dir, *hone, *honed, *worker;
	int64_t box_ns[WAYS];
	int seed, nmodels;
	int cpu;     /* the last processor, for programs that run on one */
	int at_once; /* most jobs at once in honed's box */
	char cache[WAYS][PATH_MAX], model[MODELS][PATH_MAX];
	struct course course[WAYS][MODELS];
	struct records *records[WAYS];
};

/* ---- simulation ---- */

static void put_share(struct table *t, json_t *row, const char *name, double share)
{
	table_cell(t, "%.1f %%", 100 * share);
	json_object_set_new(row, name, json_num(share));
}

static void put_number(struct table *t, json_t *row, const char *name, double x)
{
	table_cell(t, "%.3f", x);
	json_object_set_new(row, name, json_num(x));
}

static int simulate_one(const struct sim_want *w, struct table *t, json_t *rows)
{
	struct sim_told x;
	struct sim_want favours = *w;
	favours.priority = 3;
	int rc = jobs_sim(&favours, &x);
	double first = x.first;
	if (rc >= 0)
		rc = jobs_sim(w, &x);
	if (rc < 0)
		return rc;
	json_t *row = json_pack("{ss ss si si}", "policy", w->policy, "others",
				w->drains ? "waited for" : "stopped", "cores", w->cores, "jobs", w->jobs);
	table_cell(t, "%s", w->policy);
	table_cell(t, "%s", w->drains ? "waited for" : "stopped");
	table_cell(t, "%d", w->cores);
	put_number(t, row, "of_alone", x.together_s / x.alone_s);
	put_number(t, row, "good_of_alone", x.good_s / x.alone_good_s);
	put_number(t, row, "fairness", x.fairness);
	put_number(t, row, "favoured", first);
	put_share(t, row, "quiet", x.quiet);
	put_share(t, row, "idle", x.idle);
	put_share(t, row, "draining", x.draining);
	put_number(t, row, "wait_s", x.wait_ms / 1e3);
	json_array_append_new(rows, row);
	return E_OK;
}

/* One job at a time: the policy decides which model gets the next slice. */
static int simulate_slices(struct table *t, json_t *rows)
{
	static const char *const head[] = {"policy", "slice s", "each good s", "behind till then"};
	t->align = "lrrr";
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		table_cell(t, "%s", head[i]);
	for (int slice_s = 5; slice_s <= 15; slice_s += 10)
		for (int i = 0; policy_table[i]; i++) {
			struct sim_want w = {.policy = policy_table[i]->name,
					     .cores = 4,
					     .jobs = 4,
					     .seed = 1,
					     .slice_ns = slice_s * NS_PER_S};
			struct sim_told x;
			int rc = jobs_sim(&w, &x);
			if (rc < 0)
				return rc;
			json_t *row = json_pack("{ss si}", "policy", w.policy, "slice_s", slice_s);
			table_cell(t, "%s", w.policy);
			table_cell(t, "%d", slice_s);
			put_number(t, row, "good_s", x.good_s);
			put_share(t, row, "behind", x.behind);
			json_array_append_new(rows, row);
		}
	return E_OK;
}

/* The given number of jobs at once, sharing the cores; 0: as many as honed chooses. */
static int simulate_shares(struct table *t, json_t *rows)
{
	static const char *const head[] = {"cores", "jobs", "at once", "of alone", "of ahead", "quiet"};
	static const struct {
		int cores, jobs, at_once[5];
	} rows_of[] = {{2, 4, {0, 1, 2, 4}}, {3, 4, {0, 1, 2, 3, 4}}, {4, 4, {0, 1, 2, 4}},
		       {4, 2, {0, 1, 2}},    {6, 4, {0, 1, 2, 3, 4}}, {8, 8, {0, 2, 4, 8}}};
	t->align = "rrrrrr";
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		table_cell(t, "%s", head[i]);
	for (size_t k = 0; k < sizeof rows_of / sizeof *rows_of; k++)
		for (int i = 0; i < 5 && (!i || rows_of[k].at_once[i]); i++) {
			const struct sim_want w = {.policy = POLICY_DEFAULT,
						   .cores = rows_of[k].cores,
						   .jobs = rows_of[k].jobs,
						   .at_once = rows_of[k].at_once[i],
						   .seed = 1};
			struct sim_told x;
			int rc = jobs_sim(&w, &x);
			if (rc < 0)
				return rc;
			json_t *row =
			    json_pack("{si si si}", "cores", w.cores, "jobs", w.jobs, "at_once", w.at_once);
			table_cell(t, "%d", w.cores);
			table_cell(t, "%d", w.jobs);
			table_cell(t, w.at_once ? "%d" : "honed's", w.at_once);
			put_number(t, row, "of_alone", x.together_s / x.alone_s);
			put_number(t, row, "of_ahead", x.together_s / x.ahead_s);
			put_share(t, row, "quiet", x.quiet);
			json_array_append_new(rows, row);
		}
	return E_OK;
}

/* While a job measures alone, jobs that compute are stopped or, if their workers are behind a socket, waited
 * for. */
static int simulate(const struct args *a)
{
	static const char *const head[] = {"policy",         "others",   "cores",         "of alone",
					   "good: of alone", "fair",     "favoured",      "quiet",
					   "idle",           "draining", "longest wait s"};
	struct table t = {.align = "llrrrrrrrrr"};
	json_t *rows = json_array();
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		table_cell(&t, "%s", head[i]);
	for (int k = 0; k < 6; k++)
		for (int i = 0; policy_table[i]; i++) {
			const struct sim_want w = {.policy = policy_table[i]->name,
						   .cores = 4 >> k % 3,
						   .jobs = 4,
						   .at_once = 4,
						   .seed = 1,
						   .drains = k >= 3};
			int rc = simulate_one(&w, &t, rows);
			if (rc < 0)
				return rc;
		}
	struct table shares = {0}, slices = {0};
	json_t *share_rows = json_array(), *slice_rows = json_array();
	int rc = simulate_shares(&shares, share_rows);
	if (rc >= 0)
		rc = simulate_slices(&slices, slice_rows);
	if (rc < 0)
		return rc;
	if (a->json)
		return json_out(
		    json_pack("{so so so}", "rows", rows, "shares", share_rows, "slices", slice_rows));
	json_decref(rows);
	json_decref(share_rows);
	json_decref(slice_rows);
	table_print(&t, a->color);
	table_print(&shares, a->color);
	table_print(&slices, a->color);
	return 0;
}

/* ---- records ---- */

struct records { /* records of one way; some are timed again */
	struct runner *runner;
	struct target target;
	int n;
	struct rec rec[1000];
	double ns[RETIMED][TURNS]; /* 0: not measured */
	struct arena a;
};

static int keep_best(void *ctx, const struct rec *r)
{
	struct records *x = ctx;
	if (r->kind != REC_BEST || r->meas.status != MEAS_OK || x->n == 1000)
		return 0;
	struct rec *to = &x->rec[x->n++];
	*to = *r;
	to->task_text = arena_strdup(&x->a, r->task_text);
	return 0;
}

static void draw_some(struct records *x)
{
	struct rng rng;
	rng_seed(&rng, 1);
	for (int i = 0; i < x->n && i < RETIMED; i++) {
		int k = i + (int)rng_below(&rng, (uint32_t)(x->n - i));
		struct rec r = x->rec[i];
		x->rec[i] = x->rec[k];
		x->rec[k] = r;
	}
	x->n = x->n < RETIMED ? x->n : RETIMED;
}

static int open_records(struct bench *b, enum way way)
{
	struct cache *c;
	struct arena scratch = {0};
	struct records *x = b->records[way] = calloc(1, sizeof *x);
	if (!x)
		return fail(E_NOMEM, "no memory for records");
	int rc = cache_open(&c, b->cache[way], true, 0);
	if (rc < 0)
		return rc;
	rc = cache_each_rec(c, &scratch, keep_best, x);
	cache_close(c);
	arena_free(&scratch);
	draw_some(x);
	if (rc >= 0)
		rc = target_host(&x->target);
	if (rc >= 0)
		rc = target_kept(b->cache[way], &clock_real, &x->target);
	return rc < 0 ? rc : runner_worker(b->worker, "cpu", &x->target, 1, &x->runner);
}

/* The record's kernel timed now: median of several times; 0: not measured. */
static double time_again(const struct records *x, const struct rec *r)
{
	struct meas m;
	double ns[PASSES];
	int handle, n = 0;
	struct runner *w = x->runner;
	int rc = w->ops->build(w, r->task_text, r->cand, INT64_MAX, &handle, &m);
	if (rc < 0 || handle < 0)
		return 0;
	for (int i = 0; i < PASSES && rc >= 0; i++) {
		rc = w->ops->time(w, &handle, 1, ROUNDS, 0, TIME_QUIET | TIME_COLD, INT64_MAX, &m);
		ns[n] = (double)m.median_ns;
		n += rc >= 0 && m.median_ns > 0;
	}
	w->ops->drop(w, handle, INT64_MAX);
	return n ? stats_median(ns, n) : 0;
}

/* Prints recorded times over undisturbed ones: the median of the ratio and the median of its deviation from
 * 1, and the same for the ratio of the two turns. */
static int tell_records(const char *name, const struct records *x)
{
	double ratio[RETIMED], off[RETIMED], noise[RETIMED];
	int n = 0;
	for (int i = 0; i < x->n; i++) {
		const double *ns = x->ns[i];
		if (ns[0] <= 0 || ns[1] <= 0)
			continue;
		ratio[n] = 2 * (double)x->rec[i].meas.median_ns / (ns[0] + ns[1]);
		off[n] = fabs(ratio[n] - 1);
		noise[n++] = fabs(ns[0] / ns[1] - 1);
	}
	if (!n)
		return fail(E_NOTFOUND, "none of the records could be timed again");
	printf("%s: %d records, %.4f of their undisturbed times, difference %.2f %% (two undisturbed times "
	       "differ by %.2f %%)\n",
	       name, n, stats_median(ratio, n), 100 * stats_median(off, n), 100 * stats_median(noise, n));
	return E_OK;
}

static void time_records(struct records *x, int turn)
{
	for (int i = 0; i < x->n; i++)
		x->ns[i][turn] = time_again(x, &x->rec[i]);
}

static void close_records(struct records *x)
{
	if (x->runner)
		x->runner->ops->close(x->runner);
	arena_free(&x->a);
	free(x);
}

/* ---- the three ways ---- */

static int run_program(char *const argv[], int cpu)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(cpu < 0 ? 0 : cpu, &set);
		if (cpu >= 0)
			(void)sched_setaffinity(0, sizeof set, &set);
		unsetenv("HONE_SOCKET");
		if (!freopen("/dev/null", "w", stdout))
			_exit(127);
		execv(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return fail(E_CHILD, "cannot start %s", argv[0]);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return fail(E_CHILD, "%s %s ended with status %d", argv[0], argv[1], status);
	return E_OK;
}

static int tune_one(struct bench *b, enum way way, int model)
{
	char box[32], seed[16];
	snprintf(box, sizeof box, "%lldms", (long long)(b->box_ns[way] / NS_PER_MS));
	snprintf(seed, sizeof seed, "%d", b->seed);
	char *const argv[WORDS] = {(char *)b->hone,
				   "-q",
				   "tune",
				   b->model[model],
				   "--budget",
				   box,
				   "--seed",
				   seed,
				   "--threads",
				   "1",
				   "--cache",
				   b->cache[way],
				   way == ALONE ? "--builders" : NULL,
				   "0"};
	return run_program(argv, way == ALONE ? b->cpu : -1);
}

static int write_conf(const struct bench *b, const char *path)
{
	struct buf text = {0};
	buf_printf(&text,
		   "[honed]\npolicy = %s\ncache = %s\nsocket = %s/socket\nlog = verbose\n[limits]\nmemory = "
		   "2G\n[boot]\n"
		   "budget = %lldms\njobs = %d\n",
		   arg_str(b->args, "policy", POLICY_DEFAULT), b->cache[TOGETHER], b->dir,
		   (long long)(b->box_ns[TOGETHER] / NS_PER_MS), (int)arg_int(b->args, "jobs", 0));
	for (int i = 0; i < b->nmodels; i++)
		buf_printf(&text, "[model m%d]\npath = %s\nthreads = 1\n", i, b->model[i]);
	int rc = buf_ok(&text) ? file_write(path, text.p, text.n) : fail(E_NOMEM, "no memory");
	buf_free(&text);
	return rc;
}

/* Counts how many jobs ran at once, from honed's messages as they start and end. */
static void count_jobs(struct bench *b, FILE *f)
{
	char line[512];
	int at_once = 0;
	while (fgets(line, sizeof line, f)) {
		int number, said = 0;
		const char *start = strstr(line, "job ");
		(void)!(start ? sscanf(start, "job %d: m%*d, %*d ms%n", &number, &said) : 0);
		at_once += said > 0;
		at_once -= strstr(line, " trials, promise ") != NULL;
		b->at_once = at_once > b->at_once ? at_once : b->at_once;
	}
}

static int tune_together(struct bench *b)
{
	char conf[PATH_MAX], cmd[5 * PATH_MAX];
	snprintf(conf, sizeof conf, "%s/honed.conf", b->dir);
	int rc = write_conf(b, conf);
	if (rc < 0)
		return rc;
	snprintf(cmd, sizeof cmd, "%s --boot --config %s --run %s --state %s --hone %s 2>&1", b->honed, conf,
		 b->dir, b->dir, b->hone);
	unsetenv("HONE_SOCKET");
	FILE *f = popen(cmd, "r");
	if (f)
		count_jobs(b, f);
	int status = f ? pclose(f) : -1;
	return status ? fail(E_CHILD, "%s ended with status %d", cmd, status) : E_OK;
}

static int run_way(struct bench *b, enum way way)
{
	int rc = way == TOGETHER ? tune_together(b) : E_OK;
	for (int i = 0; i < b->nmodels && way != TOGETHER && rc >= 0; i++)
		rc = tune_one(b, way, i);
	if (rc >= 0)
		rc = open_records(b, way);
	if (rc >= 0)
		time_records(b->records[way], 0);
	return rc;
}

/* ---- what came of them ---- */

static int read_history(struct bench *b, enum way way, int model)
{
	struct arena a = {0};
	struct target t;
	struct cache *c;
	struct graph *g = NULL;
	struct choices choices;
	struct steps *steps;
	struct blob text;
	const struct import_opts io = {0};
	int rc = cache_open(&c, b->cache[way], true, 0);
	if (rc < 0)
		return rc;
	rc = target_host(&t);
	if (rc >= 0)
		rc = target_kept(b->cache[way], &clock_real, &t);
	if (rc >= 0)
		rc = import_file(b->model[model], &io, &g);
	const struct chosen_for f = {c, &t, 1, false};
	if (rc >= 0)
		rc = chosen_steps(&f, g, &a, &choices, &steps);
	if (rc >= 0)
		rc = cache_get(c, CACHE_HISTORY, history_key(g, &t, 1, false), &a, &text);
	if (rc >= 0)
		rc = history_parse(text.p, text.n, &b->course[way][model].history);
	if (g)
		graph_free(g);
	cache_close(c);
	arena_free(&a);
	return fail_in(rc, "%s in %s", b->model[model], b->cache[way]);
}

/* Runs the networks of the three caches in turns. */
static int race_networks(struct bench *b, int model)
{
	char cmd[5 * PATH_MAX];
	snprintf(cmd, sizeof cmd,
		 "taskset -c %d %s -q bench %s --threads 1 --json --cache %s --cache %s --cache %s", b->cpu,
		 b->hone, b->model[model], b->cache[ALONE], b->cache[AHEAD], b->cache[TOGETHER]);
	FILE *f = popen(cmd, "r");
	json_t *all = f ? json_loadf(f, 0, NULL) : NULL;
	int status = f ? pclose(f) : -1;
	for (size_t way = 0; way < WAYS; way++) {
		struct course *c = &b->course[way][model];
		json_t *m = json_array_get(json_object_get(all, "models"), way);
		json_t *r = way ? json_array_get(json_object_get(all, "ratios"), way - 1) : NULL;
		c->ms = json_number_value(json_object_get(m, "median_ms"));
		c->ratio = way ? json_number_value(json_object_get(r, "time_ratio")) : 1;
	}
	json_decref(all);
	return status ? fail(E_CHILD, "%s ended with status %d", cmd, status) : E_OK;
}

/* Seconds until the search had done as many trials as the one that ran alone; NAN: never. */
static double as_far_s(const struct bench *b, enum way way, int model)
{
	const struct history *h = &b->course[way][model].history, *alone = &b->course[ALONE][model].history;
	int enough = alone->n ? alone->point[alone->n - 1].trials : 0;
	for (int i = 0; i < h->n; i++)
		if (h->point[i].trials >= enough)
			return h->point[i].at_ms / 1e3;
	return NAN;
}

/* ---- for real ---- */

/* The last folder and the name of a path. */
static const char *short_name(const char *path)
{
	const char *s = path + strlen(path);
	for (int slashes = 0; s > path; s--)
		if (s[-1] == '/' && ++slashes == 2)
			break;
	return s;
}

static void tell_models(struct bench *b)
{
	static const char *const head[] = {"model",      "trials",   "alone s",  "ahead s",
					   "together s", "alone ms", "ahead ms", "together ms"};
	struct table t = {.align = "lrrrrrrr"};
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		table_cell(&t, "%s", head[i]);
	for (int i = 0; i < b->nmodels; i++) {
		const struct history *h = &b->course[ALONE][i].history;
		table_cell(&t, "%s", short_name(b->model[i]));
		table_cell(&t, "%d", h->n ? h->point[h->n - 1].trials : 0);
		for (int way = 0; way < WAYS; way++)
			table_cell(&t, "%.1f", as_far_s(b, (enum way)way, i));
		table_cell(&t, "%.3f", b->course[ALONE][i].ms);
		for (int way = AHEAD; way < WAYS; way++)
			table_cell(&t, "%.3f (%.3f)", b->course[way][i].ms, b->course[way][i].ratio);
	}
	table_print(&t, b->args->color);
}

/* Times of a model count from the start of its own job. */
static void tell_sums(const struct bench *b)
{
	double sum[WAYS] = {0}, last = 0, better[WAYS] = {0};
	for (int way = 0; way < WAYS; way++)
		for (int i = 0; i < b->nmodels; i++) {
			double s = as_far_s(b, (enum way)way, i);
			sum[way] += s;
			last = way == TOGETHER ? fmax(last, isnan(s) ? INFINITY : s) : last;
			better[way] += log(b->course[way][i].ratio) / b->nmodels;
		}
	if (b->at_once == 1)
		last = sum[TOGETHER];
	double box_s[WAYS];
	for (int way = 0; way < WAYS; way++)
		box_s[way] = (double)b->box_ns[way] / 1e9 * (way == TOGETHER ? 1 : b->nmodels);
	printf("%d jobs at the same time\n", b->at_once);
	printf("boxes: alone %.1f s, ahead %.1f s, together %.1f s: %.3f of alone, %.3f of ahead\n",
	       box_s[ALONE], box_s[AHEAD], box_s[TOGETHER], box_s[TOGETHER] / box_s[ALONE],
	       box_s[TOGETHER] / box_s[AHEAD]);
	printf("run times of the networks at the end, relative to alone: ahead %.4f, together %.4f\n",
	       exp(better[AHEAD]), exp(better[TOGETHER]));
	printf("time to as many trials as alone: %.1f s alone, %.1f s ahead, %.1f s together: %.3f of alone, "
	       "%.3f of ahead\n",
	       sum[ALONE], sum[AHEAD], last, last / sum[ALONE], last / sum[AHEAD]);
}

static int for_real(struct bench *b)
{
	int rc = E_OK;
	for (int way = 0; way < WAYS && rc >= 0; way++)
		rc = run_way(b, (enum way)way);
	for (int way = 0; way < WAYS; way++)
		for (int i = 0; i < b->nmodels && rc >= 0; i++)
			rc = read_history(b, (enum way)way, i);
	for (int i = 0; i < b->nmodels && rc >= 0; i++)
		rc = race_networks(b, i);
	if (rc < 0)
		return rc;
	tell_models(b);
	tell_sums(b);
	for (int way = 0; way < WAYS && rc >= 0; way++) {
		time_records(b->records[way], 1);
		rc = tell_records(ways[way], b->records[way]);
	}
	return rc < 0 ? rc : 0;
}

static int find_models(struct bench *b)
{
	int given = b->args->npos, rc = E_OK;
	b->nmodels = given ? given : (int)(sizeof zoo / sizeof *zoo);
	if (b->nmodels > MODELS)
		return fail(E_USAGE, "at most %d models are possible", MODELS);
	for (int i = 0; i < b->nmodels && rc >= 0; i++) {
		if (given) {
			if (!realpath(b->args->pos[i], b->model[i]))
				return fail(E_NOTFOUND, "%s: no such file", b->args->pos[i]);
			continue;
		}
		snprintf(b->model[i], PATH_MAX, "%s/%s.onnx", b->dir, zoo[i]);
		char *const argv[] = {(char *)b->hone, "-q", "zoo", (char *)zoo[i], "-o", b->model[i], NULL};
		rc = run_program(argv, -1);
	}
	return rc;
}

static int last_cpu(void)
{
	cpu_set_t set;
	int last = 0;
	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof set, &set) < 0)
		return 0;
	for (int i = 0; i < CPU_SETSIZE; i++)
		last = CPU_ISSET(i, &set) ? i : last;
	return last;
}

static int bench_real(const struct args *a)
{
	char dir[] = "/tmp/hone-jobs-XXXXXX", self[PATH_MAX - 64], hone[PATH_MAX], honed[PATH_MAX],
	     worker[PATH_MAX], cmd[64];
	struct bench *b = calloc(1, sizeof *b);
	if (!b || !mkdtemp(dir))
		return fail(E_IO, "cannot make a folder in /tmp");
	int rc = file_self_dir(self, sizeof self);
	snprintf(hone, sizeof hone, "%s/../hone", self);
	snprintf(honed, sizeof honed, "%s/../honed", self);
	snprintf(worker, sizeof worker, "%s/../hone-worker", self);
	*b = (struct bench){.args = a,
			    .dir = dir,
			    .hone = arg_str(a, "hone", hone),
			    .honed = honed,
			    .worker = worker,
			    .seed = (int)arg_int(a, "seed", 1),
			    .cpu = last_cpu()};
	b->box_ns[ALONE] = arg_duration(a, "alone", 20 * NS_PER_S);
	b->box_ns[AHEAD] = arg_duration(a, "ahead", 16 * NS_PER_S);
	b->box_ns[TOGETHER] = arg_duration(a, "together", 42 * NS_PER_S);
	for (int way = 0; way < WAYS; way++)
		snprintf(b->cache[way], PATH_MAX, "%s/%s", dir, ways[way]);
	if (rc >= 0)
		rc = find_models(b);
	if (rc >= 0)
		rc = for_real(b);
	for (int way = 0; way < WAYS; way++)
		if (b->records[way])
			close_records(b->records[way]);
	snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
	if (!arg_flag(a, "keep") && system(cmd) != 0)
		fprintf(stderr, "cannot remove %s\n", dir);
	free(b);
	return rc;
}

static int run_jobs(const struct args *a)
{
	return arg_flag(a, "sim") ? simulate(a) : bench_real(a);
}

static const struct opt opts[] = {
    {"sim", OPT_FLAG, NULL, "simulate the policies instead of running jobs"},
    {"alone", OPT_DURATION, "20s", "box of each model alone, without builders (20s)"},
    {"ahead", OPT_DURATION, "16s", "box of each model alone, with builders (16s)"},
    {"together", OPT_DURATION, "42s", "box of all of them (42s)"},
    {"jobs", OPT_INT, "N", "jobs at the same time (0: as honed chooses)"},
    {"hone", OPT_STR, "FILE", "program that tunes (hone of the build)"},
    {"policy", OPT_STR, "NAME", "of honed, for real (" POLICY_DEFAULT ")"},
    {"seed", OPT_INT, "N", "seed of the searches (1)"},
    {"keep", OPT_FLAG, NULL, "keep the folder of caches"},
    {NULL},
};

static const struct cmd jobs = {
    .usage = "[--sim] [--alone 20s] [--ahead 16s] [--together 42s] [--seed N] [MODEL]...",
    .summary = "compare tuning several models at the same time with tuning them one after another",
    .details = "",
    .max_pos = -1,
    .opts = opts,
    .run = run_jobs,
    .name = "jobs",
};

int main(int argc, char **argv)
{
	return cmd_main(&jobs, argc, argv);
}
