/* SPDX-License-Identifier: Apache-2.0 */
/* Time to quality: how good a search's kernels are after 2, 5, 10, 20 and 60 seconds, on one core.
 *
 *	make bench-search                       five networks, the default strategy, one seed: a quarter hour
 *	make bench-search FULL=1                all strategies, five seeds, a reference of ten minutes: about
 *	                                        five hours; it can be stopped, and resumes when called again
 *	make bench-search ARGS="--strategy evolve --strategy random --seeds 2 model.onnx"
 *	make bench-search ARGS="--reference 600s"   first a long box for each network, from the best so far
 *	make bench-search ARGS=--keep           no search: times what earlier ones left
 *
 * A network's figure is its time with the best kernels ever found (by any strategy and box on this machine;
 * kept in the folder --best, replaced by kernels that beat them in an interleaved heat) over its time with
 * the kernels that the search had by then. Writes WORK/search.json and WORK/search.svg. */
#include "platform/base/log.h"
#include "search/strategy.h"
#include "tools/bench/contest.h"
#include "tools/bench/snap.h"
#include "tools/bench/trajectory.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_SEEDS = 100 };
#define SCORE_S 15 /* estimated seconds for the scores of one search */

static const double all_s[] = {1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 60};
static const double box_s[] = {2, 5, 10, 20, 60};

struct bench {
	const struct args *args;
	struct arena arena;
	const char *work, *best, *hone;
	struct contest contest;
	double budget_s;
	bool boxes, full;
	enum level level;
	const char *stamp;    /* hash of the programs */
	int64_t reference_ns; /* 0: no reference */
	int ntodo;            /* searches that are still to be run */
	int nmoments;
	double at_s[MOMENTS_MAX];
	int nstrategies, nseeds, first_seed;
	const char *const *strategy; /* an entry NULL: the tuner's default */
	struct search_net *net;
	struct trajectory *search;
	struct course *course;
	struct search_report report;
};

static void choose_moments(struct bench *b)
{
	const double *from = b->boxes ? box_s : all_s;
	int n = b->boxes ? sizeof box_s / sizeof *box_s : sizeof all_s / sizeof *all_s;
	for (int i = 0; i < n; i++)
		if (from[i] < b->budget_s)
			b->at_s[b->nmoments++] = from[i];
	b->at_s[b->nmoments++] = b->budget_s;
}

static void choose_strategies(struct bench *b)
{
	static const char *const standard[] = {NULL};
	b->nstrategies = arg_list(b->args, "strategy", &b->strategy);
	if (b->nstrategies)
		return;
	b->nstrategies = 1;
	b->strategy = standard;
	if (!b->full)
		return;
	int n = 0;
	while (strategy_table[n])
		n++;
	const char **names = ARENA_ARRAY(&b->arena, const char *, n);
	for (int i = 0; i < n; i++)
		names[i] = strategy_table[i]->name;
	b->nstrategies = n;
	b->strategy = names;
}

static int choose_numbers(struct bench *b)
{
	const struct args *a = b->args;
	int64_t seeds = arg_int(a, "seeds", b->full ? 5 : 1), first = arg_int(a, "seed", 1);
	if (seeds < 1 || seeds > MAX_SEEDS || first < 0 || first > INT_MAX - MAX_SEEDS)
		return fail(E_USAGE, "--seeds: 1 to %d; --seed: 0 or more", MAX_SEEDS);
	b->nseeds = (int)seeds;
	b->first_seed = (int)first;
	b->budget_s = (double)arg_duration(a, "budget", 60 * NS_PER_S) / 1e9;
	if (b->budget_s < 0.1 || b->budget_s > 3600)
		return fail(E_USAGE, "--budget: 100ms to 60m");
	b->boxes = arg_flag(a, "boxes");
	b->reference_ns = arg_duration(a, "reference", b->full ? 600 * NS_PER_S : 0);
	return model_level(a, &b->level);
}

static int find_programs(struct bench *b)
{
	char self[PATH_MAX];
	int rc = file_self_dir(self, sizeof self);
	if (rc < 0)
		return rc;
	b->hone = arena_printf(&b->arena, "%s/../hone", self);
	return setenv("HONE_WORKER", arena_printf(&b->arena, "%s/../hone-worker", self), 0) == 0
		   ? 0
		   : fail(E_NOMEM, "no memory for the environment");
}

/* Writes a network of the zoo, unless the file exists. */
static int zoo_model(struct bench *b, const char *name, const char **path)
{
	*path = arena_printf(&b->arena, "%s/%s.onnx", b->work, name);
	if (file_exists(*path))
		return 0;
	const char *cmd = arena_printf(&b->arena, "'%s' -q zoo %s -o '%s'", b->hone, name, *path);
	return system(cmd) == 0 ? 0 : fail(E_CHILD, "cannot write %s", *path);
}

static void add_net(struct bench *b, const char *path)
{
	const char *name = model_name(path, &b->arena);
	struct search_net *n = &b->net[b->report.nnets++];
	*n = (struct search_net){
	    .name = name, .path = path, .best = arena_printf(&b->arena, "%s/%s", b->best, name)};
}

static int standard_nets(struct bench *b)
{
	static const char *const zoo[] = {"resnet18", "mobilenet_v2", "squeezenet1_1", "vit_tiny"};
	b->net = ARENA_ARRAY(&b->arena, struct search_net, 5);
	for (size_t i = 0; i < sizeof zoo / sizeof *zoo; i++) {
		const char *path;
		int rc = zoo_model(b, zoo[i], &path);
		if (rc < 0)
			return rc;
		add_net(b, path);
	}
	const char *data = getenv("HONE_DATA");
	const char *yunet =
	    arena_printf(&b->arena, "%s/models/yunet_n_320/model.onnx", data ? data : "../shared");
	if (file_exists(yunet))
		add_net(b, yunet);
	else
		log_info("%s is missing (optional data folder, HONE_DATA): YuNet is left out", yunet);
	return 0;
}

static int choose_nets(struct bench *b)
{
	if (!b->args->npos)
		return standard_nets(b);
	b->net = ARENA_ARRAY(&b->arena, struct search_net, b->args->npos);
	for (int i = 0; i < b->args->npos; i++)
		add_net(b, b->args->pos[i]);
	return 0;
}

/* Lays the searches out: by network, then strategy, then seed. */
static void lay_out(struct bench *b)
{
	int each = b->nstrategies * b->nseeds, n = b->report.nnets * each;
	b->search = ARENA_ARRAY(&b->arena, struct trajectory, n + 1);
	b->course = ARENA_ARRAY(&b->arena, struct course, n + 1);
	for (int i = 0; i < n; i++) {
		struct search_net *net = &b->net[i / each];
		const char *strategy = b->strategy[i % each / b->nseeds];
		int seed = b->first_seed + i % b->nseeds;
		struct trajectory *t = &b->search[i];
		*t = (struct trajectory){.hone = b->hone,
					 .model = net->path,
					 .dir = arena_printf(&b->arena, "%s/%s/%s-%d%s", b->work, net->name,
							     strategy ? strategy : "standard", seed,
							     b->boxes ? "-boxes" : ""),
					 .strategy = strategy,
					 .stamp = b->stamp,
					 .seed = (uint64_t)seed,
					 .level = b->level,
					 .budget_s = b->budget_s,
					 .cpu = b->report.cpu,
					 .n = b->nmoments};
		memcpy(t->at_s, b->at_s, sizeof t->at_s);
	}
	b->report.n = n;
	b->report.net = b->net;
	b->report.course = b->course;
}

static bool resumes(const struct bench *b)
{
	return b->full || arg_flag(b->args, "resume");
}

/* Reads an earlier search; with --keep, one by any version of the programs. */
static int read_before(struct bench *b, const struct trajectory *t, struct course *c)
{
	struct trajectory any = *t;
	bool keep = arg_flag(b->args, "keep");
	any.stamp = keep ? NULL : t->stamp;
	return keep || resumes(b) ? trajectory_read(&any, &b->arena, c) : E_NOTFOUND;
}

static const char *duration(struct bench *b, double s)
{
	return s < 2 * 3600 ? arena_printf(&b->arena, "%.0f min", ceil(s / 60))
			    : arena_printf(&b->arena, "%.1f h", s / 3600);
}

static double search_s(const struct bench *b)
{
	double sum = 0;
	for (int i = 0; i < b->nmoments; i++)
		sum += b->at_s[i];
	return b->boxes ? sum : b->budget_s;
}

/* Estimated duration of the searches still to be run and of all scores. */
static const char *left(struct bench *b)
{
	return duration(b, b->ntodo * search_s(b) + b->report.n * SCORE_S);
}

static int search(struct bench *b, int i)
{
	const struct trajectory *t = &b->search[i];
	int rc = read_before(b, t, &b->course[i]);
	if (rc != E_NOTFOUND)
		return rc;
	log_info("search %d of %d: %s, %s, seed %llu; about %s left", i + 1, b->report.n, t->model,
		 t->strategy ? t->strategy : "the default strategy", (unsigned long long)t->seed, left(b));
	b->ntodo--;
	rc = b->boxes ? trajectory_boxes(t) : trajectory_run(t);
	return rc < 0 ? rc : trajectory_read(t, &b->arena, &b->course[i]);
}

static const char *last_folder(struct bench *b, const struct trajectory *t)
{
	char path[PATH_MAX];
	trajectory_folder(t, t->n - 1, path, sizeof path);
	return arena_strdup(&b->arena, path);
}

/* The final cache of each search competes with the best ever found. */
static int contest_all(struct bench *b, struct search_net *net, int first, int n)
{
	struct claim *c = ARENA_ARRAY(&b->arena, struct claim, n + 1);
	for (int i = 0; i < n; i++) {
		const struct trajectory *t = &b->search[first + i];
		c[i] =
		    (struct claim){last_folder(b, t), arena_printf(&b->arena, "%s, seed %llu, %g s",
								   b->course[first + i].strategy,
								   (unsigned long long)t->seed, t->budget_s)};
	}
	return contest_run(&b->contest, net, c, n);
}

/* Runs a long box of the tuner's own strategy, beginning with the best so far. */
static int refer(struct bench *b, struct search_net *net)
{
	double seconds = (double)b->reference_ns / 1e9;
	struct course done;
	struct trajectory t = {.hone = b->hone,
			       .model = net->path,
			       .dir = arena_printf(&b->arena, "%s/%s/reference", b->work, net->name),
			       .from = file_is_dir(net->best) ? net->best : NULL,
			       .stamp = b->stamp,
			       .seed = (uint64_t)b->first_seed,
			       .level = b->level,
			       .budget_s = seconds,
			       .cpu = b->report.cpu,
			       .n = 1,
			       .at_s = {seconds}};
	int rc = resumes(b) ? trajectory_read(&t, &b->arena, &done) : E_NOTFOUND;
	if (rc == E_NOTFOUND) {
		log_info("%s: a reference box of %g s", net->name, seconds);
		rc = trajectory_run(&t);
	}
	const struct claim c = {last_folder(b, &t), arena_printf(&b->arena, "a box of %g s", seconds)};
	return rc < 0 ? rc : contest_run(&b->contest, net, &c, 1);
}

static void take_score(struct moment *m, const struct net_score *s)
{
	m->ms = s->low_ns / 1e6;
	m->quality = s->quality;
	m->least = s->least;
	m->most = s->most;
	m->median = s->gain.median;
	m->tuned = s->count[FROM_CACHE];
	m->standard = s->count[FROM_DEFAULT];
	m->fallback = s->count[FROM_FALLBACK];
	m->portable = s->count[FROM_HOST];
}

/* Scores all moments of one search against the best. Moments between which nothing new was found share a
 * score. */
static int score_course(struct bench *b, struct search_net *net, const struct trajectory *t, struct course *c)
{
	char path[PATH_MAX];
	struct net_score s[MOMENTS_MAX + 1] = {{.cache = net->best}};
	int of[MOMENTS_MAX], n = 1;
	uint64_t before = UINT64_MAX;
	_Static_assert(MOMENTS_MAX + 1 <= SCORE_MAX, "a search and the best run in one heat");
	for (int i = 0; i < t->n; i++) {
		trajectory_folder(t, i, path, sizeof path);
		uint64_t generation = snap_generation(path);
		if (generation != before || b->boxes)
			s[n++].cache = arena_strdup(&b->arena, path);
		before = generation;
		of[i] = n - 1;
	}
	c->network = net->name;
	int rc = contest_heat(&b->contest, net->path, n, s);
	for (int i = 0; i < t->n && rc >= 0; i++)
		take_score(&c->moment[i], &s[of[i]]);
	return rc;
}

/* Scores the kernels that exist without any search: default schedules and fallback kernels. */
static int score_floor(struct bench *b, struct search_net *net)
{
	struct net_score s[] = {{.cache = net->best},
				{.cache = net->best, .kernels = KERNELS_DEFAULT},
				{.cache = net->best, .kernels = KERNELS_FALLBACK}};
	int rc = contest_heat(&b->contest, net->path, 3, s);
	net->ms = s[0].low_ns / 1e6;
	net->median_ms = s[0].median_ns / 1e6;
	net->standard = s[1].quality;
	net->fallback = s[2].quality;
	return rc;
}

static int score_net(struct bench *b, struct search_net *net, int first, int n)
{
	int rc = contest_all(b, net, first, n);
	if (rc >= 0)
		rc = contest_origin(&b->contest, net);
	if (rc >= 0)
		rc = score_floor(b, net);
	for (int i = first; i < first + n && rc >= 0; i++) {
		rc = score_course(b, net, &b->search[i], &b->course[i]);
		if (rc >= 0)
			log_info("%s, %s, seed %llu: %.1f %% after %g s", net->name, b->course[i].strategy,
				 (unsigned long long)b->search[i].seed,
				 100 * quality_at(&b->course[i], b->budget_s), b->budget_s);
	}
	return rc;
}

/* Runs all searches before any score, so that stopping it loses the scores at most. */
static int run_all(struct bench *b)
{
	int each = b->nstrategies * b->nseeds, nnets = b->report.nnets, rc = 0;
	struct course there;
	for (int i = 0; i < b->report.n; i++)
		b->ntodo += read_before(b, &b->search[i], &there) < 0;
	log_info("%d searches of %g s, %d of them done already: about %s%s", b->report.n, search_s(b),
		 b->report.n - b->ntodo, left(b),
		 b->reference_ns ? arena_printf(&b->arena, ", and %s for references",
						duration(b, nnets * (double)b->reference_ns / 1e9))
				 : "");
	for (int k = 0; k < nnets && rc >= 0; k++) {
		if (b->reference_ns > 0)
			rc = refer(b, &b->net[k]);
		for (int i = 0; i < each && rc >= 0; i++)
			rc = search(b, k * each + i);
	}
	for (int k = 0; k < nnets && rc >= 0; k++)
		rc = score_net(b, &b->net[k], k * each, each);
	return rc;
}

static const char *now(struct arena *a)
{
	char text[32];
	time_t t = time(NULL);
	struct tm tm;
	strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", gmtime_r(&t, &tm));
	return arena_strdup(a, text);
}

static int prepare(struct bench *b)
{
	const struct args *a = b->args;
	b->work = arg_str(a, "work", "build/search");
	b->best = arg_str(a, "best", arena_printf(&b->arena, "%s/best", b->work));
	b->report.openings = CONTEST_OPENINGS;
	b->report.rounds = CONTEST_ROUNDS;
	b->report.date = now(&b->arena);
	b->full = arg_flag(a, "full");
	int rc = choose_numbers(b);
	if (rc >= 0)
		rc = contest_open(&b->contest, a, &b->arena, b->work);
	if (rc >= 0)
		rc = find_programs(b);
	if (rc >= 0)
		rc = file_mkdirs(b->work, 0755);
	if (rc >= 0)
		rc = choose_nets(b);
	if (rc >= 0)
		rc = trajectory_stamp(b->hone, getenv("HONE_WORKER"), &b->arena, &b->stamp);
	if (rc < 0)
		return rc;
	b->report.boxes = b->boxes;
	b->report.reference_s = (double)b->reference_ns / 1e9;
	b->report.best = b->best;
	b->report.cpu = b->contest.cpu;
	choose_moments(b);
	choose_strategies(b);
	lay_out(b);
	return 0;
}

static int bench(struct bench *b)
{
	int rc = prepare(b);
	if (rc >= 0)
		rc = run_all(b);
	if (rc >= 0)
		b->report.target = b->contest.target;
	b->report.machine = b->contest.machine;
	if (rc >= 0)
		rc = search_write(&b->report, b->work);
	if (rc < 0)
		return rc;
	if (b->args->json)
		return json_out(search_json(&b->report));
	search_print(&b->report, b->args->color);
	printf("wrote %s/search.json and %s/search.svg\n", b->work, b->work);
	return 0;
}

static int run_search(const struct args *a)
{
	struct bench *b = calloc(1, sizeof *b);
	if (!b)
		return fail(E_NOMEM, "no memory for the benchmark");
	b->args = a;
	int rc = bench(b);
	arena_free(&b->arena);
	free(b);
	return rc;
}

static const struct opt opts[] = {
    {"strategy", OPT_LIST, "NAME", "strategies (default: the tuner's own; --full: all)"},
    {"seeds", OPT_INT, "N", "searches for each network and strategy (default 1; --full: 5)"},
    {"seed", OPT_INT, "N", "the first seed (default 1)"},
    {"budget", OPT_DURATION, "60s", "length of the box of a search (default 60s)"},
    {"boxes", OPT_FLAG, NULL, "run a separate box for each time, instead of taking snapshots of one search"},
    {"reference", OPT_DURATION, "600s",
     "first run a long box for each network, starting from the best found so far"},
    {"resume", OPT_FLAG, NULL,
     "do not repeat searches that these programs have completed (--full repeats them)"},
    {"keep", OPT_FLAG, NULL, "nor searches that other programs have completed"},
    {"full", OPT_FLAG, NULL, "all strategies, five seeds, a reference of 600s"},
    {"cpu", OPT_INT, "N", "processor to search and measure on (default: the last)"},
    {"work", OPT_STR, "DIR", "folder for models, snapshots and results (default build/search)"},
    {"best", OPT_STR, "DIR", "folder of the best caches ever found (default WORK/best)"},
    OPT_LEVEL,
    OPT_SHAPE,
    {NULL},
};

static const struct cmd search_cmd = {
    .usage = "[MODEL...] [--strategy NAME]... [--seeds N] [--full] [--reference 600s] [--resume]",
    .summary = "measure how good a search's kernels are after 2, 5, 10, 20 and 60 seconds",
    .details = "",
    .max_pos = -1,
    .opts = opts,
    .run = run_search,
    .name = "bench-search",
};

int main(int argc, char **argv)
{
	return cmd_main(&search_cmd, argc, argv);
}
