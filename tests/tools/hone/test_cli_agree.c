/* SPDX-License-Identifier: Apache-2.0 */
/* tune, bench, explain, report and status agree with one another on random small networks: on the ratio, its
 * interval and verdict, on what the tuning saves, and on the kernels that run. */
#include "agent/run/plan.h"
#include "kernels/graph/eval.h"
#include "kernels/onnx/import.h"
#include "tests/lib/cli.h"
#include "tools/hone/zoo.h"
#include <math.h>

enum { NETWORKS = 3 };

/* One to four layers on an input of 3 to 8 channels, then the mean of each channel. */
static struct graph *random_net(uint64_t seed)
{
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	g->name = arena_strdup(&a, "random");
	g->arena = a;
	struct zoo z = {.g = g, .opset = 17};
	rng_seed(&z.rng, seed);
	int64_t size = 8 + rng_below(&z.rng, 17);
	struct fmap x = zoo_input(&z, "in", 3 + rng_below(&z.rng, 6), size, size);
	for (int n = 1 + (int)rng_below(&z.rng, 4); n > 0; n--) {
		bool deep = rng_below(&z.rng, 4) == 0, wide = rng_below(&z.rng, 2);
		const struct zoo_conv c = {.k = deep ? x.c : 4 + 4 * rng_below(&z.rng, 8),
					   .r = wide ? 3 : 1,
					   .stride = 1,
					   .pad = wide,
					   .groups = deep ? x.c : 0,
					   .act = (enum act)rng_below(&z.rng, 3)};
		x = zoo_conv(&z, x, c);
		if (rng_below(&z.rng, 3) == 0)
			x = zoo_max_pool(&z, x, 2, 2, 0, false);
	}
	zoo_output(&z, zoo_mean(&z, x).value, "out");
	CHECK_OK(z.rc);
	CHECK_OK(graph_infer(g));
	return g;
}

static const char *random_model(uint64_t seed)
{
	static char path[256];
	struct graph *g = random_net(seed);
	snprintf(path, sizeof path, "%s", in_dir("random.onnx"));
	CHECK_OK(export_file(g, path));
	graph_free(g);
	return path;
}

static double number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

/* Without a gain every kernel is the default one. */
static double factor(const json_t *gain)
{
	return json_is_null(gain) ? 1 : number(gain, "ratio");
}

/* Whether the rounds are too few or differ too much for a ratio (agent/cache/gain.h). */
static bool unclear(const json_t *gain)
{
	return json_is_true(json_object_get(gain, "few_rounds")) ||
	       number(gain, "high") > 3 * number(gain, "low");
}

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-4 * fmax(fabs(a), fabs(b));
}

/* The same ratio, interval, number of rounds, verdict and disturbance. */
static void check_same_gain(const char *who, const json_t *tune, const json_t *other)
{
	bool none = json_is_null(tune) && json_is_null(other); /* every kernel is the default one */
	bool same = json_is_object(tune) && json_is_object(other) &&
		    json_equal(json_object_get(tune, "significant"), json_object_get(other, "significant")) &&
		    json_equal(json_object_get(tune, "disturbed"), json_object_get(other, "disturbed")) &&
		    json_equal(json_object_get(tune, "rounds"), json_object_get(other, "rounds"));
	for (int i = 0; i < 3 && same && !none; i++) {
		const char *key = ((const char *const[]){"ratio", "low", "high"})[i];
		same = near(number(tune, key), number(other, key));
	}
	if (!same && !none) {
		char *words = json_dumps(tune, JSON_ENCODE_ANY);
		printf("%s tells another gain than tune, %s: %s\n", who, words ? words : "none", cli_out);
		free(words);
		test_bad = 1;
	}
}

/* A verdict, and the figures it follows from. */
static void check_verdict(const json_t *gain)
{
	double low = number(gain, "low"), high = number(gain, "high"), ratio = number(gain, "ratio");
	bool outside = low > 1 || high < 1, sure = json_is_true(json_object_get(gain, "significant"));
	CHECK(low <= ratio && ratio <= high && (!sure || outside) && !(sure && high > 3 * low));
}

/* No object calls a kernel tuned for which tuning found no better schedule than the default one. Returns the
 * number of kernels. */
static int check_kinds(const json_t *j)
{
	static const char *const kinds[][2] = {{"kernel_kind", "at_default"}, {"after", "at_default"}};
	int n = 0;
	const char *key;
	json_t *v;
	size_t at;
	for (int i = 0; i < 2; i++) {
		const char *kind = json_string_value(json_object_get(j, kinds[i][0]));
		const json_t *flag = json_object_get(j, kinds[i][1]);
		if (!kind || !json_is_boolean(flag))
			continue;
		CHECK(!json_is_true(flag) || !strcmp(kind, "default"));
		n++;
	}
	json_object_foreach((json_t *)(uintptr_t)j, key, v) n += check_kinds(v);
	json_array_foreach(j, at, v) n += check_kinds(v);
	return n;
}

static json_t *ask(const char *command, const char *model, const char *cache, const char *more)
{
	CHECK_RUN(0, "%s %s --json --threads 1 --cache %s%s", command, model, cache, more);
	return parse_out();
}

/* Tunes a model, and once more for longer if the first box ended before it compared the networks, as it may
 * on slow flash. Returns the answer of the last box. */
static json_t *tune_and_compare(const char *model, const char *cache)
{
	json_t *tuned = ask("tune", model, cache, " --budget 3s --seed 3");
	if (number(tuned, "after_ms") > 0)
		return tuned;
	json_decref(tuned);
	return ask("tune", model, cache, " --budget 15s --seed 3");
}

/* Checks that explain's verdict on a task, the order of its times and its saving have one direction. */
static void check_task(const json_t *t)
{
	const json_t *gain = json_object_get(t, "gain"), *log = json_object_get(t, "log");
	double ms = number(t, "ms"), default_ms = number(t, "default_ms");
	bool is_default = !strcmp(json_string_value(json_object_get(t, "cand")),
				  json_string_value(json_object_get(t, "default_cand")));
	CHECK_SAYS(is_default ? "default" : "tuned", json_string_value(json_object_get(t, "kernel_kind")));
	CHECK(ms > 0 && default_ms > 0);
	CHECK(is_default == json_is_null(gain) && (!is_default || near(ms, default_ms)));
	if (json_is_true(json_object_get(t, "raced"))) /* times of records may be of different moments */
		CHECK(ms <= default_ms * 1.001);
	bool wins = false;
	if (!is_default) {
		check_verdict(gain);
		CHECK(near(number(gain, "ratio"), default_ms / ms));
		wins = json_is_true(json_object_get(gain, "significant")) && number(gain, "ratio") > 1;
	}
	const json_t *payback = json_object_get(log, "payback");
	CHECK(wins == (number(payback, "saved_ms") > 0));
	CHECK(wins != json_is_null(json_object_get(payback, "inferences")));
}

static void check_explain(const char *model, const char *cache, const json_t *tuned)
{
	json_t *j = ask("explain", model, cache, ""), *t;
	const json_t *gain = json_object_get(tuned, "gain"), *payback = json_object_get(j, "payback");
	size_t i;
	check_same_gain("explain", gain, json_object_get(j, "gain"));
	json_array_foreach(json_object_get(j, "tasks"), i, t) check_task(t);
	double ratio = number(gain, "ratio"), saved_ms = number(payback, "saved_ms");
	bool wins = json_is_true(json_object_get(gain, "significant")) && ratio > 1;
	double want_ms = wins ? number(tuned, "default_ms") * (1 - 1 / ratio) : 0;
	CHECK(fabs(saved_ms - want_ms) <=
	      1e-3 * number(tuned, "default_ms")); /* JSON's figures are rounded */
	CHECK(wins != json_is_null(json_object_get(payback, "inferences")));
	json_decref(j);
}

/* bench and report run what tune said that would run. */
static void check_bench(const char *model, const char *cache, const json_t *tuned)
{
	json_t *j = ask("bench", model, cache, " --runs 20"), *k;
	const json_t *rows = json_object_get(tuned, "kernels"), *own = json_object_get(j, "kernels");
	size_t i;
	check_same_gain("bench", json_object_get(tuned, "gain"), json_object_get(j, "gain"));
	CHECK(json_array_size(rows) == json_array_size(own));
	CHECK(check_kinds(tuned) == (int)json_array_size(rows) &&
	      check_kinds(j) == (int)json_array_size(own));
	json_array_foreach(own, i, k)
	{
		const json_t *row = json_array_get(rows, i);
		CHECK(json_equal(json_object_get(k, "kernel_kind"), json_object_get(row, "after")));
		CHECK(json_equal(json_object_get(k, "label"), json_object_get(row, "label")));
	}
	json_decref(j);
}

/* tune's network of default schedules and bench's have the same kernels. */
static void check_default_network(const char *model, const char *cache)
{
	json_t *j = ask("bench", model, cache, " --runs 2 --kernels default"), *k;
	size_t i;
	json_array_foreach(json_object_get(j, "kernels"), i, k)
	    CHECK(strcmp(json_string_value(json_object_get(k, "kernel_kind")), "fallback"));
	CHECK(!strstr(cli_err, "fallback"));
	json_decref(j);
}

static void check_stored(const char *model, const char *cache, const json_t *gain)
{
	char more[300];
	snprintf(more, sizeof more, " -o %s", in_dir("agree.html"));
	json_t *j = ask("report", model, cache, more);
	check_same_gain("report", gain, json_object_get(j, "gain"));
	json_decref(j);
	CHECK_RUN(0, "status --json --cache %s", cache);
	j = parse_out();
	CHECK(json_array_size(json_object_get(j, "gains")) == !json_is_null(gain));
	if (!json_is_null(gain))
		check_same_gain("status", gain, json_array_get(json_object_get(j, "gains"), 0));
	json_decref(j);
	CHECK_RUN(0, "tune %s --rigor cached --json --threads 1 --cache %s", model, cache);
	json_t *cached = parse_out(), *k;
	size_t i;
	CHECK(check_kinds(cached) > 0);
	json_array_foreach(json_object_get(cached, "kernels"), i, k)
	    CHECK(json_equal(json_object_get(k, "before"), json_object_get(k, "after")));
	json_decref(cached);
	j = parse_out();
	CHECK(near(number(j, "speedup"), factor(gain)));
	json_decref(j);
}

TEST(random_networks_are_told_alike)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	for (uint64_t seed = 1; seed <= NETWORKS; seed++) {
		char cache[256], name[32];
		snprintf(name, sizeof name, "agree%d", (int)seed);
		snprintf(cache, sizeof cache, "%s", in_dir(name));
		const char *model = random_model(seed);
		json_t *tuned = tune_and_compare(model, cache);
		const json_t *gain = json_object_get(tuned, "gain");
		check_verdict(gain);
		double medians = number(tuned, "default_ms") / number(tuned, "after_ms");
		CHECK(near(number(tuned, "speedup"), unclear(gain) ? medians : factor(gain)));
		check_explain(model, cache, tuned);
		check_bench(model, cache, tuned);
		check_default_network(model, cache);
		check_stored(model, cache, gain);
		if (test_bad)
			printf("network of seed %d\n", (int)seed);
		json_decref(tuned);
	}
}

/* After Ctrl-C, a kernel that was not timed in the network has no factor, which would divide a time in the
 * network by a time of the kernel alone; and it is called what bench calls it. */
TEST(an_interrupted_box_compares_only_like_with_like)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("cut"));
	const char *model = random_model(2);
	stop_with = SIGINT;
	stop_once = "all default schedules are measured";
	CHECK_RUN(130, "tune %s -v --budget 60s --threads 1 --cache %s", model, in_dir("cut_words"));
	CHECK_SAYS(cli_out, "~: of the kernel alone, as the search timed it");
	CHECK_RUN(130, "tune %s -v --json --budget 60s --threads 1 --cache %s", model, cache);
	stop_with = 0;
	stop_once = NULL;
	json_t *tuned = parse_out(), *k, *bench;
	size_t i;
	CHECK(json_is_true(json_object_get(tuned, "stopped")) &&
	      json_is_null(json_object_get(tuned, "gain")));
	int alone = 0;
	bench = ask("bench", model, cache, " --runs 2");
	json_array_foreach(json_object_get(tuned, "kernels"), i, k)
	{
		const json_t *runs = json_array_get(json_object_get(bench, "kernels"), i);
		CHECK(json_is_null(json_object_get(k, "after_us")));
		if (!json_is_number(json_object_get(k, "alone_us")))
			continue;
		alone++;
		CHECK(json_equal(json_object_get(k, "after"), json_object_get(runs, "kernel_kind")));
	}
	CHECK(alone > 0);
	json_decref(bench);
	json_decref(tuned);
}

/* Kernels that were tuned for one thread serve two, and every command says so. */
TEST(kernels_of_another_number_of_threads_are_named)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	static const char *const commands[] = {"bench %s --runs 2", "explain %s", "tune %s --rigor cached"};
	char cache[256], words[300];
	snprintf(cache, sizeof cache, "%s", in_dir("one-thread"));
	const char *model = random_model(3);
	CHECK_RUN(0, "tune %s --rigor estimate --budget 60s --threads 1 --cache %s", model, cache);
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		for (int threads = 1; threads <= 2; threads++) {
			snprintf(words, sizeof words, commands[i], model);
			CHECK_RUN(0, "%s --threads %d --cache %s", words, threads, cache);
			CHECK((strstr(cli_out, "for another number of threads") != NULL) == (threads == 2));
		}
}

/* A layer that is worth two threads, and a small one that is not. */
static const char *mixed_model(void)
{
	static char path[256];
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	g->name = arena_strdup(&a, "mixed");
	g->arena = a;
	struct zoo z = {.g = g, .opset = 17};
	rng_seed(&z.rng, 7);
	struct fmap x = zoo_input(&z, "in", 16, 32, 32);
	x = zoo_conv(&z, x, (struct zoo_conv){.k = 64, .r = 3, .stride = 1, .pad = 1});
	x = zoo_conv(&z, zoo_max_pool(&z, x, 16, 16, 0, false), (struct zoo_conv){.k = 4, .r = 1, .stride = 1});
	x = zoo_mean(&z, x);
	zoo_output(&z, zoo_dense(&z, x.value, 4, 1, 0), "out"); /* one number, so nothing to divide */
	CHECK_OK(z.rc);
	CHECK_OK(graph_infer(g));
	snprintf(path, sizeof path, "%s", in_dir("mixed.onnx"));
	CHECK_OK(export_file(g, path));
	graph_free(g);
	return path;
}

enum { KERNELS_MOST = 16 };

/* Of each kernel, its share of the roofline times its time: what its roofline takes. Returns how many. */
static int rooflines(json_t *j, const char *time, double out[KERNELS_MOST])
{
	const json_t *list = json_object_get(j, "kernels"), *k;
	size_t i;
	json_array_foreach(list, i, k) if (i < KERNELS_MOST)
		out[i] = number(k, "roofline_pct") * number(k, time);
	int n = (int)json_array_size(list);
	json_decref(j);
	CHECK(n > 0 && n <= KERNELS_MOST);
	return n < KERNELS_MOST ? n : KERNELS_MOST;
}

static int bench_rooflines(const char *model, const char *home, int threads, double out[KERNELS_MOST])
{
	CHECK_RUN(0, "bench %s --json --runs 20 --threads %d --cache %s", model, threads, home);
	return rooflines(parse_out(), "us", out);
}

/* hone explain divides the roofline by the cores on which a plan runs the kernel, as bench does. */
static void check_explained(const char *model, const char *home, bool network_alone)
{
	CHECK_RUN(0, "explain %s --json --threads 2 --cache %s", model, home);
	json_t *j = parse_out();
	const json_t *tasks = json_object_get(j, "tasks"), *t;
	size_t i;
	json_array_foreach(tasks, i, t)
	{
		double roof_ms = number(t, "roofline_ms"), ms = json_number_value(json_object_get(t, "ms"));
		ms = ms > 0 ? ms : json_number_value(json_object_get(t, "default_ms"));
		if (ms <= 0)
			continue;
		CHECK_RUN(0, "explain %s %s --threads 2 --cache %s", model,
			  json_string_value(json_object_get(t, "task_key")), home);
		const char *reached = strstr(cli_out, " % of it reached");
		REQUIRE(reached);
		while (reached > cli_out && reached[-1] != ' ')
			reached--;
		bool alone = network_alone || roof_ms * 1e6 < PLAN_ALONE_NS;
		double pct = 100 * roof_ms / (alone ? 1 : 2) / ms;
		if (fabs(strtod(reached, NULL) - pct) > .02 * pct + 1)
			printf("%s: %s, wanted %.1f\n", model, reached, pct);
		CHECK(fabs(strtod(reached, NULL) - pct) <= .02 * pct + 1);
	}
	json_decref(j);
}

/* A kernel that the plan runs on one thread is compared with one thread's peak, whatever --threads says, and
 * tune and bench say the same of it. */
TEST(a_kernel_of_one_thread_has_its_roofline)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char mixed[256], home[256];
	double one[KERNELS_MOST], two[KERNELS_MOST], tuned[KERNELS_MOST];
	snprintf(mixed, sizeof mixed, "%s", mixed_model());
	snprintf(home, sizeof home, "%s", in_dir("rooflines"));
	const char *const model[] = {mixed, steering()};
	for (int m = 0; m < 2; m++) {
		int shared = 0, alone = 0;
		CHECK_RUN(0, "tune %s --rigor estimate --budget 60s --threads 2 --cache %s", model[m], home);
		int n = bench_rooflines(model[m], home, 1, one);
		CHECK(bench_rooflines(model[m], home, 2, two) == n);
		for (int i = 0; i < n; i++) {
			double ratio = one[i] / two[i];
			alone += fabs(ratio - 1) < .02;
			shared += fabs(ratio - 2) < .04;
		}
		CHECK(alone > 0);
		CHECK(shared + alone == n);
		check_explained(model[m], home, !shared);
		/* Peaks that a kernel passes are measured again, so tune's may be others than bench's. */
		CHECK_RUN(0, "tune %s --json --rigor estimate --budget 60s --threads 2 --cache %s", model[m],
			  home);
		CHECK(rooflines(parse_out(), "after_us", tuned) == n);
		double again[KERNELS_MOST];
		CHECK(bench_rooflines(model[m], home, 2, again) == n);
		for (int i = 0; i < n; i++)
			CHECK(fabs(again[i] / two[i] - 1) > .02 || fabs(tuned[i] / two[i] - 1) < .02);
	}
}

TEST_MAIN
