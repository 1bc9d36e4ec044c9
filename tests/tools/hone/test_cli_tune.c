/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: tune and its results; the worker. */
#include "agent/cache/kept_code.h"
#include "agent/worker/marked.h"
#include "agent/cache/lookup.h"
#include "agent/cache/stale.h"
#include "agent/cache/trials.h"
#include "kernels/space/space.h"
#include "platform/base/rng.h"
#include "platform/base/sanitized.h"
#include "search/cost.h"
#include "search/job.h"
#include "tests/lib/cli_model.h"

#include <sys/utsname.h>

static void check_show_and_explain(const char *cache)
{
	CHECK_RUN(0, "show --json --cache %s", cache);
	json_t *j = parse_out();
	json_t *r = json_array_get(json_object_get(j, "record_list"), 0);
	check_keys(r, "task_key label task_text record_kind target device cand status median_ms");
	CHECK_SAYS(json_string_value(json_object_get(r, "task_text")), "task syms=");
	CHECK(strlen(json_string_value(json_object_get(r, "target"))) > 4);
	CHECK_SAYS(json_string_value(json_object_get(r, "cand")), "lane=");
	json_decref(j);
	CHECK_RUN(0, "show --lines --cache %s", cache);
	CHECK(cli_out[0] == '{');
	CHECK_RUN(0, "show nonesuch --cache %s", cache);
	CHECK_SAYS(cli_out, "contains 'nonesuch'");
	CHECK_RUN(0, "explain %s --json --threads 1 --cache %s", steering(), cache);
	j = parse_out();
	check_keys(json_array_get(json_object_get(j, "tasks"), 0),
		   "task_key task_text cand default_cand roofline_ms kernel_kind");
	CHECK(json_is_array(json_object_get(j, "graph_choices")));
	json_decref(j);
}

TEST(tune_then_show_and_explain)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("tuned"));
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", cache);
	json_t *j = parse_out();
	check_keys(j, "model task_count trials kept budget_s elapsed_s before_ms default_ms after_ms "
		      "interleaved reverted "
		      "speedup strategy cache spent");
	CHECK(json_integer_value(json_object_get(j, "trials")) >= 1);
	CHECK(json_integer_value(json_object_get(j, "kept")) >= 1);
	CHECK(json_is_false(json_object_get(j, "interleaved")));
	json_decref(j);
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", cache); /* again: all kernels exist, and are measured in
							    * turns */
	j = parse_out();
	CHECK(json_is_true(json_object_get(j, "interleaved")));
	CHECK(json_number_value(json_object_get(j, "after_ms")) > 0);
	CHECK(json_number_value(json_object_get(j, "before_ms")) > 0);
	json_decref(j);
	check_show_and_explain(cache);
	CHECK_RUN(1, "explain %s nonesuch --threads 1 --cache %s", steering(), cache);
	CHECK_SAYS(cli_err, "no task or node");
	CHECK_RUN(0, "verify %s --json --threads 1 --cache %s", steering(), cache);
}

/* The log of trials: a box resumes from the one before, and explain shows what was tried. */
TEST(the_next_box_goes_on)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("logged"));
	static const char tune[] = "tune %s --json --budget 1s --threads 1 --cache %s %s";
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", cache);
	json_t *j = parse_out();
	check_keys(j, "rigor known_candidates");
	int trials = (int)json_integer_value(json_object_get(j, "trials"));
	CHECK(json_integer_value(json_object_get(j, "known_candidates")) == 0);
	json_decref(j);
	CHECK_RUN(0, tune, steering(), cache, "--resume");
	j = parse_out();
	int known = (int)json_integer_value(json_object_get(j, "known_candidates"));
	CHECK(known > 0 && known <= trials); /* a default that crashed counts twice */
	CHECK(!strcmp(json_string_value(json_object_get(j, "rigor")), "patient"));
	json_decref(j);
	CHECK_RUN(0, tune, steering(), cache, "--fresh");
	CHECK(out_number("known_candidates") == 0);
	check_show_and_explain(cache); /* records that a search found */
	CHECK_RUN(2, "tune %s --resume --fresh", steering());
	CHECK_RUN(0, "explain %s --json --threads 1 --cache %s", steering(), cache);
	j = parse_out();
	check_keys(json_object_get(j, "payback"),
		   "spent_s saved_ms inferences inferences_on_fallback paired while_disturbed");
	CHECK(json_number_value(json_object_get(json_object_get(j, "payback"), "spent_s")) > 0);
	json_t *log = json_object_get(json_array_get(json_object_get(j, "tasks"), 0), "log");
	check_keys(log, "emitter boxes tried failed statuses best improvements draft_rank model_rank "
			"draft_error_pct model_error_pct payback");
	CHECK(json_integer_value(json_object_get(log, "boxes")) >= 1);
	CHECK(json_integer_value(json_object_get(log, "tried")) >= 1);
	check_keys(json_array_get(json_object_get(log, "best"), 0),
		   "cand by box at_s us time_ratio draft_us model_us model_sd lost");
	json_decref(j);
	CHECK_RUN(0, "explain %s Conv_2 --threads 1 --cache %s", steering(), cache);
	CHECK_SAYS(cli_out, " boxes with llvm");
	CHECK_SAYS(cli_out, "tuning took");
	CHECK_RUN(0, "explain %s --json --threads 2 --cache %s", steering(), cache); /* nothing is known for
										      * two threads */
	j = parse_out();
	CHECK(json_is_null(json_object_get(json_array_get(json_object_get(j, "tasks"), 0), "log")));
	json_decref(j);
}

static struct cache_state state_of(const char *folder)
{
	struct cache *c;
	struct cache_state s = {0};
	if (cache_open(&c, folder, true, 0) < 0)
		return s;
	cache_state(c, &s);
	cache_close(c);
	return s;
}

/* A careful box marks each candidate on flash before it runs; only the candidate that was cut by the end of
 * the box may stay marked. */
TEST(a_careful_box_marks_what_it_launches)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("careful"));
	CHECK_RUN(0, "tune %s --json --budget 3s --threads 1 --careful --cache %s", steering(), cache);
	json_t *j = parse_out();
	int trials = (int)json_integer_value(json_object_get(j, "trials"));
	json_decref(j);
	struct cache_state s = state_of(cache);
	CHECK(trials > 0 && s.count[CACHE_REC] > 0);
	CHECK(s.generation > (uint64_t)trials / 2); /* some candidates are built twice but marked once */
	CHECK(s.count[CACHE_RISK] <= 1);
	CHECK_RUN(0, "forget --all --cache %s", cache);
	CHECK(state_of(cache).count[CACHE_RISK] == 0);
}

/* A candidate in a log that takes the machine down when it is launched. */
struct gone {
	struct cache *cache; /* the cache that keeps its mark */
	struct key task;
	char cand[512];
};

static int never_returns(struct runner *r, const char *task, const char *cand, int64_t deadline_ns,
			 int *handle, struct meas *m)
{
	(void)r, (void)task, (void)cand, (void)deadline_ns, (void)handle, (void)m;
	return fail(E_CHILD, "gone");
}

static void close_nothing(struct runner *r)
{
	(void)r;
}

static int launch_first(void *ctx, const struct trials *l)
{
	static const struct runner_ops ops = {.build = never_returns, .close = close_nothing};
	struct gone *g = ctx;
	struct target t;
	struct runner inner = {.ops = &ops, .clock = &clock_real, .target = &t, .threads = 1}, *r;
	struct meas m;
	int h;
	if (g->cand[0] || !l->n || target_host(&t) < 0)
		return 0;
	g->task = l->task;
	snprintf(g->cand, sizeof g->cand, "%s", l->entry[0].t.cand);
	snprintf(inner.emitter, sizeof inner.emitter, "%s", l->emitter);
	if (runner_marked(&inner, g->cache, "cpu", &r) < 0)
		return -1;
	CHECK(r->ops->build(r, l->task_text, g->cand, INT64_MAX, &h, &m) == E_CHILD);
	r->ops->close(r);
	return 0;
}

/* Counts how often the candidate is in the logs as a crash. */
static int count_crash(void *ctx, const struct trials *l)
{
	struct gone *g = ctx;
	for (int i = 0; i < l->n && key_equal(l->task, g->task); i++)
		if (!strcmp(l->entry[i].t.cand, g->cand) && l->entry[i].t.status == MEAS_CRASH)
			g->cand[0] = 0;
	return 0;
}

static bool logged_as_crash(const char *folder, struct gone g)
{
	if (cache_open(&g.cache, folder, true, 0) < 0)
		return false;
	bool good = trials_each(g.cache, count_crash, &g) > 0 && !g.cand[0];
	cache_close(g.cache);
	return good;
}

TEST(candidates_that_never_came_back_are_not_launched)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char first[256], second[256];
	struct gone g = {0};
	struct cache *c;
	snprintf(first, sizeof first, "%s", in_dir("came"));
	snprintf(second, sizeof second, "%s", in_dir("went"));
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", first);
	REQUIRE_OK(cache_open(&c, first, true, 0));
	REQUIRE_OK(cache_open(&g.cache, second, false, 0));
	CHECK(trials_each(c, launch_first, &g) > 0 && g.cand[0]);
	cache_close(g.cache);
	cache_close(c);
	CHECK(state_of(second).count[CACHE_RISK] == 1);
	CHECK_RUN(0, KERNELS_ONCE, steering(), "--careful", second);
	CHECK(logged_as_crash(second, g) && state_of(second).count[CACHE_RISK] == 1);
	CHECK_RUN(0, "forget --all --cache %s", second);
	CHECK_RUN(0, KERNELS_ONCE, steering(), "--careful", second);
	CHECK(!logged_as_crash(second, g) && state_of(second).count[CACHE_RISK] == 0);
}

/* Counts the workers that a box starts, by a script in front of the worker. Builders are not counted. */
static int count_workers(const char *folder)
{
	char log[256], script[256], text[1 << 14] = "";
	const char *real = worker();
	snprintf(log, sizeof log, "%s", in_dir("started"));
	snprintf(script, sizeof script, "%s", in_dir("counting-worker"));
	FILE *f = fopen(script, "w");
	if (!f || !real)
		abort();
	fprintf(f, "#!/bin/sh\necho x >>%s\nexec %s \"$@\"\n", log, real);
	fclose(f);
	char *keep = strdup(real);
	(void)unlink(log);
	if (chmod(script, 0700) < 0 || setenv("HONE_WORKER", script, 1) < 0)
		abort();
	CHECK_RUN(0, "tune %s --json --rigor quick --budget 60s --threads 1 --builders 0 --cache %s",
		  steering(), folder);
	setenv("HONE_WORKER", keep, 1);
	free(keep);
	slurp(log, text, sizeof text);
	return (int)strlen(text) / 2;
}

/* The candidate of a task's record of a kind in hone show's output; NULL: none. */
static const char *shown_cand(const json_t *shown, const char *task, const char *kind)
{
	size_t i;
	const json_t *r;
	json_array_foreach(json_object_get(shown, "record_list"), i,
			   r) if (!strcmp(json_string_value(json_object_get(r, "task_key")), task) &&
				  !strcmp(json_string_value(json_object_get(r, "record_kind")),
					  kind)) return json_string_value(json_object_get(r, "cand"));
	return NULL;
}

/* Checks the origins of the best records: a hint where the candidate is what `from` found and is not the
 * default, else this board's search. Returns the number of hints. */
static int check_origins(const char *cache, const char *from)
{
	int hints = 0;
	size_t i;
	CHECK_RUN(0, "show --json --cache %s", from);
	json_t *theirs = parse_out(), *r;
	CHECK_RUN(0, "show --json --cache %s", cache);
	json_t *ours = parse_out();
	json_array_foreach(json_object_get(ours, "record_list"), i, r)
	{
		const char *task = json_string_value(json_object_get(r, "task_key"));
		const char *cand = json_string_value(json_object_get(r, "cand"));
		const char *found = shown_cand(theirs, task, "best"),
			   *standard = shown_cand(ours, task, "default");
		if (strcmp(json_string_value(json_object_get(r, "record_kind")), "best"))
			continue;
		bool hint = found && !strcmp(found, cand) && (!standard || strcmp(standard, cand));
		CHECK(!strcmp(json_string_value(json_object_get(r, "origin")), hint ? "hint" : "search"));
		hints += hint;
	}
	json_decref(ours);
	json_decref(theirs);
	return hints;
}

/* A candidate that another board found is tried here in a worker of its own, once; a box without such
 * candidates has one worker. */
TEST(strangers_candidates_have_workers_of_their_own)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char first[256], second[256], lines[256];
	snprintf(first, sizeof first, "%s", in_dir("found-it"));
	snprintf(second, sizeof second, "%s", in_dir("was-told"));
	snprintf(lines, sizeof lines, "%s", in_dir("found.jsonl"));
	CHECK(count_workers(first) == 1);
	CHECK_RUN(0, "export --cache %s", first);
	FILE *f = fopen(lines, "w");
	if (!f)
		abort();
	fputs(cli_out, f);
	fclose(f);
	CHECK_RUN(0, "import %s --cache %s", lines, second);
	int apart = count_workers(second);
	printf("%d workers\n", apart);
	CHECK(apart > 1);
	CHECK(count_workers(second) == 1); /* by now they are this board's own results */
	/* A box without a search keeps the hints that beat the default, and so does the next one. */
	snprintf(second, sizeof second, "%s", in_dir("was-told-only"));
	CHECK_RUN(0, "import %s --cache %s", lines, second);
	for (int box = 0; box < 2; box++) {
		CHECK_RUN(0, "tune %s -q --rigor estimate --budget 60s --threads 1 --cache %s", steering(),
			  second);
		printf("%d of the best candidates came from hints\n", check_origins(second, first));
	}
}

/* Rewrites a log as if another version of the emitter had made it. */
static int age(void *ctx, const struct trials *l)
{
	static struct trials copy;
	copy = *l;
	snprintf(copy.emitter, sizeof copy.emitter, "llvm-1/1");
	return trials_put(ctx, &copy);
}

static int spoil(void *ctx, const struct trials *l)
{
	return cache_put(ctx, CACHE_TRIALS, trials_key(l), "hone-trials 2\ntask 0\n", 21);
}

/* A log of another emitter and a damaged log are no errors, and are not used. */
TEST(logs_of_others_are_not_gone_on_with)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	static int (*const harm[])(void *ctx, const struct trials *l) = {age, spoil};
	char dir_name[256];
	snprintf(dir_name, sizeof dir_name, "%s", in_dir("aged"));
	static const char tune[] = "tune %s --json --rigor %s --budget %s --threads 1 --cache %s";
	CHECK_RUN(0, tune, steering(), "estimate", "60s", dir_name);
	for (int i = 0; i < 2; i++) {
		struct cache *c;
		REQUIRE_OK(cache_open(&c, dir_name, false, 0));
		CHECK(trials_each(c, harm[i], c) == 10);
		cache_close(c);
		CHECK_RUN(0, "explain %s --json --threads 1 --cache %s", steering(), dir_name);
		json_t *j = parse_out();
		json_t *log = json_object_get(json_array_get(json_object_get(j, "tasks"), 0), "log");
		CHECK(i ? json_is_null(log)
			: !strcmp(json_string_value(json_object_get(log, "emitter")), "llvm-1/1"));
		json_decref(j);
		CHECK_RUN(0, tune, steering(), "patient", "1s", dir_name);
		CHECK(out_number("known_candidates") == 0);
	}
}

/* Rewrites a log as if the machine had been half as fast when the search tried its candidates. */
static int slow_down(void *ctx, const struct trials *l)
{
	static struct trials copy;
	copy = *l;
	for (int i = 0; i < copy.n; i++)
		copy.entry[i].t.ns *= 2;
	return trials_put(ctx, &copy);
}

/* A candidate has two fastest runs, that of its record and that of the log's table: a line says why. */
TEST(explain_says_why_two_times_differ)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char dir_name[256];
	struct cache *c;
	snprintf(dir_name, sizeof dir_name, "%s", in_dir("moments"));
	CHECK_RUN(0, "tune %s --json --rigor estimate --budget 60s --threads 1 --cache %s", steering(),
		  dir_name);
	REQUIRE_OK(cache_open(&c, dir_name, false, 0));
	CHECK(trials_each(c, slow_down, c) == 10);
	cache_close(c);
	for (int i = 1; i <= 10; i++) {
		CHECK_RUN(0, "explain %s %d --threads 1 --cache %s", steering(), i, dir_name);
		CHECK(test_count(cli_out, "when the search tried it, its fastest run took ") == 1);
	}
}

TEST(rigor_from_nothing_to_all)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("rigor"));
	REQUIRE(mkdir(cache, 0755) == 0);
	static const char tune[] = "tune %s --json --rigor %s --budget 60s --threads 1 --cache %s";
	CHECK_RUN(1, tune, steering(), "cached", cache); /* nothing is in the cache, and nothing is
							  * compiled */
	CHECK_SAYS(cli_err, "10 of 10 kernels are not in the cache: Conv_2 (conv 5x5/2 3->24");
	CHECK_SAYS(cli_err, "and 2 more; `hone tune");
	CHECK(strstr(cli_err, " --rigor estimate --budget 60s --threads 1 --cache") &&
	      !strstr(cli_err, "--rigor cached"));
	json_t *j = parse_out();
	CHECK(json_integer_value(json_object_get(j, "trials")) == 0);
	CHECK(json_array_size(json_object_get(j, "kernels")) == 10);
	CHECK(json_is_null(json_object_get(j, "before_ms")));
	json_decref(j);
	CHECK(rmdir(cache) == 0 && mkdir(cache, 0755) == 0); /* it is empty */
	CHECK_RUN(1, "run %s --random --require-cache --output %s --threads 1 --cache %s", steering(),
		  in_dir("pinned"), cache);
	CHECK_SAYS(cli_err, "--rigor estimate --threads 1 --cache");
	CHECK(!file_exists(in_dir("pinned")));
	CHECK_RUN(1, "bench %s --runs 1 --require-cache --threads 1 --cache %s", steering(), cache);
	CHECK_SAYS(cli_err, "not in the cache");
	CHECK_RUN(0, tune, steering(), "estimate", cache);
	j = parse_out();
	int tasks = (int)json_integer_value(json_object_get(j, "task_count"));
	CHECK(json_integer_value(json_object_get(j, "trials")) >= tasks && tasks == 10);
	json_decref(j);
	CHECK_RUN(0, tune, steering(), "estimate", cache); /* everything is in the cache */
	CHECK(out_number("trials") == 0);
	CHECK_RUN(0, tune, steering(), "cached", cache);
	CHECK_RUN(0, "run %s --random --require-cache --output %s --threads 1 --cache %s", steering(),
		  in_dir("pinned"), cache);
	CHECK_RUN(0, "bench %s --runs 1 --require-cache --threads 1 --cache %s", steering(), cache);
	CHECK_RUN(2, "bench %s --runs 1 --require-cache --kernels default --cache %s", steering(), cache);
	CHECK_SAYS(cli_err, "--require-cache goes with --kernels best");
	CHECK_RUN(0, "tune %s --json --rigor quick --budget 1s --threads 1 --cache %s", steering(), cache);
	j = parse_out();
	CHECK(!strcmp(json_string_value(json_object_get(j, "rigor")), "quick"));
	json_decref(j);
}

static void move_records(const char *from, const char *to)
{
	char lines[256];
	snprintf(lines, sizeof lines, "%s", in_dir("moved.json"));
	char words[600];
	snprintf(words, sizeof words, "export -q --cache %s", from);
	CHECK(hone_to(lines, words) == 0);
	CHECK_RUN(0, "import %s -q --cache %s", lines, to);
}

/* The slowest of some schedules of a task, by the draft. */
static void slow_schedule(const char *text, char out[CAND_MAX])
{
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct target host;
	struct space *s;
	struct rng r;
	double most = 0;
	char cand[CAND_MAX];
	rng_seed(&r, 9);
	REQUIRE_OK(target_host(&host));
	REQUIRE_OK(task_parse(text, t));
	const struct space_want want = {.threads = 1};
	REQUIRE_OK(space_make(&a, t, &host, &want, &s));
	for (int i = 0; i < 100; i++)
		if (space_random(s, &r, cand) >= 0 && space_draft(s, cand) > most) {
			most = space_draft(s, cand);
			snprintf(out, CAND_MAX, "%s", cand);
		}
	arena_free(&a);
}

/* Replaces every best record by one that names such a slow schedule and claims 1 ns, as an imported lie.
 * *records: number of records; with few registers some task's default spills and has no record. */
static void lie(const char *path, int *records)
{
	struct cache *c;
	struct arena a = {0};
	struct key *k;
	int best = 0;
	REQUIRE_OK(cache_open(&c, path, false, 0));
	int n = cache_keys(c, CACHE_REC, &a, &k);

	for (int i = 0; i < n; i++) {
		struct rec r;
		REQUIRE_OK(cache_get_rec(c, k[i], &a, &r));
		CHECK_OK(cache_forget(c, CACHE_CODE, code_key(&r)));
		if (r.kind != REC_BEST)
			continue;
		best++;
		slow_schedule(r.task_text, r.cand);
		r.meas.min_ns = r.meas.median_ns = 1;
		CHECK_OK(cache_put_rec(c, &r));
	}
	cache_close(c);
	arena_free(&a);
	CHECK(best == 10 && n > 15);
	*records = n;
}

/* Checks that all best records have a plausible time, and code; at least `least` of them name their
 * default. */
static void check_best(const char *path, int least)
{
	struct cache *c;
	struct arena a = {0};
	struct key *k;
	int same = 0;
	REQUIRE_OK(cache_open(&c, path, true, 0));
	int n = cache_keys(c, CACHE_REC, &a, &k);
	for (int i = 0; i < n; i++) {
		struct rec r, def;
		REQUIRE_OK(cache_get_rec(c, k[i], &a, &r));
		CHECK(r.kind == REC_HINT || cache_has_code(c, NULL, &r));
		def = r;
		def.kind = REC_DEFAULT;
		if (r.kind != REC_BEST || cache_get_rec(c, rec_key(&def), &a, &def) < 0)
			continue;
		same += !strcmp(r.cand, def.cand);
		CHECK(r.meas.median_ns > 10);
	}
	CHECK(same >= least);
	cache_close(c);
	arena_free(&a);
}

/* Records without code, as after an import or an upgrade: the command that --require-cache suggests compiles
 * them. False records are replaced by defaults, unless another schedule is truly faster. */
TEST(known_schedules_are_recompiled)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	static const char estimate[] = "tune %s --json --rigor estimate --budget 60s --threads 1 --cache %s";
	char from[256], to[256];
	snprintf(from, sizeof from, "%s", in_dir("at-home"));
	snprintf(to, sizeof to, "%s", in_dir("away"));
	CHECK_RUN(0, estimate, steering(), from);
	int n = 0;
	lie(from, &n);
	move_records(from, to);
	CHECK_RUN(0, "show --cache %s", to);
	CHECK_SAYS(cli_out, "untried"); /* default records are not taken */
	CHECK_SAYS(cli_out, "10 records");
	CHECK_RUN(1, "bench %s --runs 1 --require-cache --threads 1 --cache %s", steering(), to);
	CHECK_RUN(0, estimate, steering(), to);
	CHECK(out_number("hints") == 10 && out_number("stale_count") == 0 && out_number("kept") >= n);
	check_best(to, 8);
	CHECK_RUN(0, "bench %s --runs 1 --require-cache --threads 1 --cache %s", steering(), to);
	CHECK_RUN(0, "run %s --random --require-cache --output %s --threads 1 --cache %s", steering(),
		  in_dir("out"), to);
	CHECK_RUN(0, "show --cache %s", to);
	CHECK(!strstr(cli_out, "stale: "));
	CHECK_RUN(0, estimate, steering(), to);
	CHECK(out_number("stale_count") == 0 && out_number("trials") == 0);
}

/* The kernels of a network that wakes no thread are timed as they run in it, and still count as tuned for the
 * threads that were given. */
TEST(a_network_of_little_work_is_tuned_on_one_thread)
{
	static float weights[16 * 8 * 9];
	char model[256], cache[256];
	struct onnx_maker k;
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	for (int i = 0; i < 16 * 8 * 9; i++)
		weights[i] = (float)(i % 7 - 3) / 64;
	snprintf(model, sizeof model, "%s", in_dir("little.onnx"));
	snprintf(cache, sizeof cache, "%s", in_dir("little"));
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 8 16 16");
	mk_init(&k, "w", 1, "16 8 3 3", weights, sizeof weights);
	mk_node(&k, "Conv", "x w", "y");
	mk_output(&k, "y");
	struct blob b = mk_bytes(&k);
	CHECK_OK(file_write(model, b.p, b.n));
	arena_free(&k.a);
	CHECK_RUN(0, "tune %s -v --budget 1500ms --threads 2 --cache %s", model, cache);
	CHECK_SAYS(cli_err, "too little work for 2 threads");
	CHECK_RUN(0, "explain %s --threads 2 --cache %s", model, cache);
	CHECK(!strstr(cli_out, "another number of threads") && !strstr(cli_err, "another number of threads"));
	CHECK_RUN(0, "bench %s --runs 1 --threads 2 --require-cache --cache %s", model, cache);
	CHECK_RUN(0, "tune %s -v --budget 500ms --threads 1 --cache %s", model, cache);
	CHECK(!strstr(cli_err, "too little work"));
	/* 1: the box only had time to measure the network */
	CHECK(box_passed(hone("tune %s -v --budget 500ms --threads 2 --cache %s", steering(), cache)));
	CHECK(!strstr(cli_err, "too little work"));
}

/* Records as if another emitter had made all of them. */
TEST(records_of_another_emitter)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char cache[256];
	struct cache *c;
	struct arena a = {0};
	struct key *k;
	snprintf(cache, sizeof cache, "%s", in_dir("upgraded"));
	CHECK_RUN(0, "tune %s -q --rigor estimate --budget 60s --threads 1 --cache %s", steering(), cache);
	REQUIRE_OK(cache_open(&c, cache, false, 0));
	int n = cache_keys(c, CACHE_REC, &a, &k);
	for (int i = 0; i < n; i++) {
		struct rec r;
		struct blob code;
		REQUIRE_OK(cache_get_rec(c, k[i], &a, &r));
		REQUIRE_OK(kept_code_get(c, &r, &a, &code));
		CHECK_OK(cache_forget(c, CACHE_CODE, code_key(&r)));
		snprintf(r.emitter, sizeof r.emitter, "llvm-1/" CODE_REVISION);
		CHECK_OK(kept_code_put(c, &r, code)); /* it is used until it is replaced */
		CHECK_OK(cache_put_rec(c, &r));
	}
	cache_close(c);
	arena_free(&a);
	CHECK_RUN(0, "bench %s --runs 1 --require-cache --threads 1 --cache %s", steering(), cache);
	CHECK_RUN(0, "explain %s Conv_2 --threads 1 --cache %s", steering(), cache);
	CHECK_SAYS(cli_out, "another version of the emitter");
	CHECK_RUN(0, "tune %s --json --rigor estimate --budget 60s --threads 1 --cache %s", steering(),
		  cache);
	CHECK(out_number("stale_count") == 10);
	CHECK_RUN(0, "show --cache %s", cache);
	CHECK(!strstr(cli_out, "stale: "));
	CHECK_RUN(0, "bench %s --runs 1 --require-cache --threads 1 --cache %s", steering(), cache);
}

TEST(tune_refuses_what_it_cannot_do)
{
	CHECK_RUN(2, "tune %s --rigor mortis", steering());
	CHECK_SAYS(cli_err, "cached, estimate, quick or patient");
	CHECK_RUN(2, "tune %s --device toaster", steering());
	CHECK_SAYS(cli_err, "use cpu, cpu:CLUSTER, opencl:N or cuda:N as `hone devices` lists it");
	CHECK_RUN(2, "tune %s --device replay:", steering());
	CHECK_RUN(2, "tune %s --record=", steering());
	CHECK_SAYS(cli_err, "--record");
	CHECK_RUN(2, "tune %s --device replay:x --record y", steering());
	CHECK_RUN(2, "tune %s --device replay:x --rigor cached", steering());
	CHECK_RUN(2, "tune %s --strategy luck", steering());
	CHECK_SAYS(cli_err, " evolve");
	CHECK_RUN(2, "tune %s --cost luck", steering());
	CHECK_SAYS(cli_err, " draft");
	CHECK_RUN(2, "tune %s --seed -1", steering());
	CHECK_SAYS(cli_err, "--seed -1 is not possible; it takes 0 or more");
	CHECK_RUN(2, "zoo steering --seed -1 -o /nowhere/x.onnx");
	CHECK_RUN(2, "tune %s --cache=", steering());
	CHECK_SAYS(cli_err, "--cache");
	CHECK_RUN(2, "tune %s --budget 20x", steering());
	CHECK_SAYS(cli_err, "write 20s, 500ms, 2m or 1m30s");
}

TEST(recordings_are_replayed)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char land[256], cache[256], other[256], empty[256];
	static char first[sizeof cli_out];
	static const char replay[] = "tune %s --json --budget 2s --device replay:%s";
	snprintf(land, sizeof land, "%s", in_dir("land"));
	snprintf(cache, sizeof cache, "%s", in_dir("replayed"));
	snprintf(empty, sizeof empty, "%s", in_dir("empty"));
	char record[300];
	snprintf(record, sizeof record, "--record %s", land);
	CHECK_RUN(0, KERNELS_ONCE, steering(), record, in_dir("recorded")); /* at least one point per task */
	CHECK_RUN(0, "tune -q %s --budget 3s --threads 1 %s --cache %s", steering(), record, in_dir("again"));
	CHECK_RUN(0, replay, steering(), land);
	memcpy(first, cli_out, sizeof first);
	CHECK_RUN(0, replay, steering(), land);
	CHECK(!strcmp(first, cli_out));
	json_t *j = parse_out();
	check_keys(j, "model task_count trials kept budget_s elapsed_s before_ms default_ms after_ms speedup "
		      "strategy cache");
	CHECK(json_integer_value(json_object_get(j, "kept")) == 0);
	CHECK(json_integer_value(json_object_get(j, "trials")) > 0);
	CHECK(json_number_value(json_object_get(j, "elapsed_s")) <= 2);
	json_decref(j);
	CHECK_RUN(0, "tune %s --budget 2s --device replay:%s --cache %s", steering(), land, cache);
	CHECK_SAYS(cli_out, "a replay of");
	CHECK_RUN(0, "show --json --cache %s", cache);
	j = parse_out();
	CHECK(json_array_size(json_object_get(j, "record_list")) > 0);
	json_decref(j);
	CHECK_RUN(1, replay, steering(), empty);
	CHECK_SAYS(cli_err, empty);
	snprintf(other, sizeof other, "%s", in_dir("other.onnx"));
	CHECK_RUN(0, "zoo -q squeezenet1_1 --output=%s", other);
	CHECK_RUN(1, replay, other, land);
	CHECK_SAYS(cli_err, "--record DIR records them");
}

/* Checks that a box, whose JSON is given, ended long before its budget and says why; the text does, too. */
static void check_early(const char *tune, const char *model, const char *rest, const char *why)
{
	CHECK_RUN(0, "%s %s %s --json", tune, model, rest);
	json_t *j = parse_out();
	const char *early = json_string_value(json_object_get(j, "early"));
	CHECK(json_number_value(json_object_get(j, "elapsed_s")) <
	      json_number_value(json_object_get(j, "budget_s")) / 2);
	CHECK(early && strstr(early, why));
	json_decref(j);
	CHECK_RUN(0, "%s %s %s", tune, model, rest);
	CHECK_SAYS(cli_out, "\nthe search ended before the box: 1 task ");
	CHECK_SAYS(cli_out, why);
}

/* A search that has nothing left to try ends before its box, and says so; each box says which trials of the
 * boxes before it knows. */
TEST(a_box_that_ends_early_says_why)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char rest[700], land[256], cache[256], model[256], edit[700];
	int trials = 0;
	snprintf(model, sizeof model, "%s", one_node("tiny.onnx", "Relu", "4"));
	snprintf(land, sizeof land, "%s", in_dir("early-land"));
	snprintf(cache, sizeof cache, "%s", in_dir("early"));
	snprintf(rest, sizeof rest, "--budget 20s --threads 1 --record %s --cache %s", land, cache);
	for (int i = 0; i < 3; i++) {
		CHECK_RUN(0, "tune %s %s --json", model, rest);
		CHECK(out_number("earlier_trials") == trials && out_number("known_candidates") <= trials);
		CHECK((out_number("known_candidates") > 0) == (i > 0));
		trials += (int)out_number("trials");
	}
	check_early("tune", model, rest, "1 task ");
	CHECK_SAYS(cli_out, " known from ");
	CHECK_RUN(0, KERNELS_ONCE, model, "", in_dir("early-once")); /* it was not to search */
	CHECK_SAYS(cli_out, "\"early\":null");
	CHECK_RUN(0, "tune %s --budget 1500ms --threads 1 --cache %s --json", steering(), in_dir("early-no"));
	CHECK_SAYS(cli_out, "\"early\":null");
	/* on a replayed machine so slow that every time is below the roofline */
	snprintf(edit, sizeof edit,
		 "sed -i '/^machine/s/ fma=[^ ]*/ fma=0.001/;/^machine/s/ bw=[^ ]*/ "
		 "bw=0.001,0.001,0.001,0.001/' %s/*",
		 land);
	CHECK(system(edit) == 0);
	snprintf(rest, sizeof rest, "--budget 20s --device replay:%s", land);
	check_early("tune", model, rest, "came within 3 % of its roofline when timed alone");
	CHECK_RUN(0, "help tune");
	CHECK_SAYS(cli_out, "roofline");
}

/* A box that is too short for all tasks says how many it did not come to. */
TEST(tasks_without_a_turn)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	static const char box[] = "tune %s %s --threads 1 --builders 0 --budget 1s --cache %s";
	static const char promise[] = "; the next box begins with them";
	char cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("turns"));
	CHECK_RUN(0, box, steering(), "--json", cache);
	json_t *j = parse_out();
	int tasks = (int)json_integer_value(json_object_get(j, "task_count"));
	int no_turn = (int)json_integer_value(json_object_get(j, "no_turn"));
	int untried = (int)json_integer_value(json_object_get(j, "untried"));
	CHECK(0 <= untried && untried <= no_turn && 0 < no_turn && no_turn <= tasks);
	json_decref(j);
	CHECK_RUN(0, box, steering(), "", cache);
	bool all_had =
	    !strstr(cli_out, " tasks had a turn") && !strstr(cli_out, "before any kernel was tried");
	CHECK(!strstr(cli_out, " tasks had a turn") == !strstr(cli_out, promise));
	for (int i = 0; i < 20 && no_turn > 0; i++) { /* each box that has the time for one takes the next */
		CHECK_RUN(0, "tune %s --json --threads 1 --builders 0 --budget 3s --cache %s", steering(),
			  cache);
		CHECK((int)out_number("no_turn") <= (all_had ? 0 : no_turn));
		no_turn = (int)out_number("no_turn");
	}
	CHECK(no_turn == 0);
	CHECK_RUN(0, box, steering(), "--fresh --no-cache", in_dir("turns-unkept"));
	CHECK(!strstr(cli_out, promise));
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", cache);
	CHECK(out_number("no_turn") == 0 && out_number("untried") == 0);
}

TEST(a_cache_that_cannot_be_written)
{
	REQUIRE_OK(file_write(in_dir("file"), "x", 1));
	CHECK_RUN(2, "show --cache %s/cache", in_dir("file"));
	CHECK_SAYS(cli_err, "/file/cache is not a folder");
	CHECK_RUN(1, "tune %s --json --budget 1s --threads 1 --cache %s/cache", steering(), in_dir("file"));
	CHECK_SAYS(cli_err, "/file: Not a directory");
	json_t *j = parse_out();
	CHECK_SAYS(json_string_value(json_object_get(j, "error")), "/file: Not a directory");
	json_decref(j);
}

TEST(stopped_at_once_it_promises_nothing)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	stop_with = SIGTERM;
	CHECK_RUN(143, "tune %s --budget 20s --threads 1 --cache %s", steering(), in_dir("stopped"));
	stop_with = 0;
	CHECK(strstr(cli_out, "(stopped)") || strstr(cli_out, ": stopped after "));
	CHECK_SAYS(cli_err, "no new kernel was kept\nNext: hone tune ");
	CHECK(!strstr(cli_out, "hone bench") && !strstr(cli_out, "too little time"));
}

TEST(the_worker_says_how_it_is_used)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char cmd[512], path[256];
	snprintf(path, sizeof path, "%s", in_dir("usage"));
	snprintf(cmd, sizeof cmd, "'%s' --help >'%s'", worker(), path);
	CHECK(system(cmd) == 0);
	slurp(path, cli_out, sizeof cli_out);
	CHECK_SAYS(cli_out, "--bench-compile");
	CHECK(!strstr(cli_out, "honed"));
}

/* The board's file gives the box where the user does not, and a limit of memory, which an error names. */
TEST(the_usual_box_and_memory_of_a_board)
{
	static const char board[] = "name = B\nmachine = x86_64 aarch64\n[limits]\nbox = 3s\nmemory = 64M\n";
	const char *tune = "tune %s --no-cache --rigor quick --json %s";
	struct utsname u;
	if (uname(&u) != 0 || !strstr(board, u.machine) || SANITIZED_ADDRESS)
		SKIP("the board's file is of another machine, or memory is not limited under a sanitizer");
	REQUIRE_OK(file_mkdirs(in_dir("boards"), 0755));
	REQUIRE_OK(file_write(in_dir("boards/b.conf"), board, strlen(board)));
	setenv("HONE_BOARDS", in_dir("boards"), 1);
	CHECK_RUN(1, tune, steering(), "");
	CHECK_SAYS(cli_err, "its limit is 64 MiB: [limits] memory of honed or of the board's file");
	const size_t n = strlen(board) - strlen("memory = 64M\n");
	REQUIRE_OK(file_write(in_dir("boards/b.conf"), board, n));
	for (int given = 0; given < 2; given++) {
		CHECK_RUN(0, tune, steering(), given ? "--budget 2s" : "");
		json_t *j = parse_out();
		CHECK(json_number_value(json_object_get(j, "budget_s")) == (given ? 2 : 3));
		json_decref(j);
	}
	unsetenv("HONE_BOARDS");
}

TEST_MAIN
