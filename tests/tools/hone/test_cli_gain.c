/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: all commands print the same gain of tuning, from the record in the cache. */
#include "agent/cache/gain.h"
#include "tests/lib/cli.h"

/* Stores a gain made by hand for the only network that was tuned in a cache. */
static void put_gain(const char *cache, const struct gain *g)
{
	struct arena a = {0};
	struct cache *c;
	struct key *k;
	REQUIRE_OK(cache_open(&c, cache, false, 0));
	CHECK(cache_keys(c, CACHE_HISTORY, &a, &k) == 1);
	CHECK_OK(gain_put(c, k[0], g));
	CHECK_OK(cache_commit(c));
	cache_close(c);
	arena_free(&a);
}

/* All commands that tell what tuning gained say `words`. */
static void check_all_say(const char *cache, const char *words)
{
	char page[256], html[1 << 16];
	snprintf(page, sizeof page, "%s", in_dir("gain.html"));
	CHECK_RUN(0, "tune %s --rigor cached --threads 1 --cache %s", steering(), cache);
	CHECK_SAYS(cli_out, words);
	CHECK_RUN(0, "bench %s --runs 2 --threads 1 --cache %s", steering(), cache);
	CHECK_SAYS(cli_out, words);
	CHECK_RUN(0, "report %s --threads 1 -o %s --cache %s", steering(), page, cache);
	CHECK_SAYS(cli_out, words);
	CHECK_SAYS(cli_out, ": median times ");
	CHECK_SAYS(cli_out, "measured now, round by round: ");
	slurp(page, html, sizeof html);
	CHECK_SAYS(html, words);
	CHECK_RUN(0, "explain %s --threads 1 --cache %s", steering(), cache);
	CHECK_SAYS(cli_out, words);
	CHECK_RUN(0, "status --cache %s", cache);
	CHECK_SAYS(cli_out, words);
}

/* Checks how many gains status lists. */
static void check_gains(const char *cache, size_t want)
{
	CHECK_RUN(0, "status --json --cache %s", cache);
	json_t *j = parse_out();
	CHECK(json_array_size(json_object_get(j, "gains")) == want);
	json_decref(j);
}

static double payback(const char *cache)
{
	CHECK_RUN(0, "explain %s --json --threads 1 --cache %s", steering(), cache);
	json_t *j = parse_out(), *p = json_object_get(j, "payback"), *g = json_object_get(j, "gain");
	check_keys(g, "model threads ratio low high rounds significant disturbed default_ms now_ms date words");
	CHECK(json_number_value(json_object_get(g, "low")) <= json_number_value(json_object_get(g, "ratio")));
	double saved_ms = json_number_value(json_object_get(p, "saved_ms"));
	json_decref(j);
	return saved_ms;
}

/* tune, bench, report, explain and status tell the same figure, with its uncertainty and disturbances. */
TEST(all_commands_tell_the_same_gain)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("gains"));
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", cache);
	json_t *j = parse_out();
	CHECK(json_is_null(json_object_get(j, "gain"))); /* one trial for each task: all are at their defaults */
	CHECK(json_number_value(json_object_get(j, "speedup")) == 1);
	json_decref(j);
	check_gains(cache, 0);
	struct gain g = {.model = "net.onnx",
			 .date = "2026-01-02 03:04 UTC",
			 .threads = 1,
			 .default_ms = 2.64,
			 .now_ms = 1,
			 .faster = {2.64, 2.6, 2.68, 25},
			 .machine = {100, 0, ""}};
	put_gain(cache, &g);
	check_gains(cache, 1);
	check_all_say(
	    cache, "2.64x faster than default schedules (95 % CI 2.60 to 2.68x, 25 rounds); measured 2026");
	double saved_ms = payback(cache);
	CHECK(saved_ms > 1.639 && saved_ms < 1.641);
	g.faster = (struct faster){1.01, .98, 1.04, 12};
	g.machine.share_pct = 70;
	put_gain(cache, &g);
	check_all_say(cache,
		      "no significant difference to default schedules (1.01x as fast, 95 % CI 0.98 to 1.04x, "
		      "12 rounds); disturbed: this process got 70 % of the processor time that it wanted");
	CHECK(payback(cache) == 0);
	CHECK_RUN(0, "explain %s --threads 1 --cache %s", steering(), cache);
	CHECK_SAYS(cli_out, "against default schedules this is not paid back so far: there is no significant");
	g.faster = (struct faster){.8, .7, .9, 12};
	put_gain(cache, &g);
	strcpy(g.shapes, "image=1x3x320x320 n=2");
	put_gain(cache, &g);
	CHECK_RUN(0, "status --cache %s", cache);
	CHECK_SAYS(cli_out, "net.onnx, shapes image=1x3x320x320 n=2, 1 thread: ");
	CHECK_RUN(0, "status --json --cache %s", cache);
	CHECK_SAYS(cli_out, "\"shapes\":\"image=1x3x320x320 n=2\"");
	check_all_say(cache, "1.25x slower than default schedules");
	CHECK(payback(cache) == 0);
	CHECK_RUN(0, "explain %s --threads 1 --cache %s", steering(), cache);
	CHECK_SAYS(cli_out, "against default schedules this is never paid back: the tuned kernels are slower");
	CHECK_RUN(0, "forget --model %s --cache %s", steering(), cache);
	check_gains(cache, 0);
}

/* The stored gain of the only network of a cache. */
static struct gain stored(const char *cache)
{
	struct arena a = {0};
	struct cache *c;
	struct gain *all, g = {0};
	if (cache_open(&c, cache, true, 0) < 0)
		return g;
	if (gain_all(c, &a, &all) == 1)
		g = all[0];
	cache_close(c);
	arena_free(&a);
	return g;
}

/* A rough measurement of the same kernels does not replace a good one, but other kernels' gain does. */
TEST(a_short_box_leaves_a_better_gain)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("long-box"));
	CHECK_RUN(0, "tune %s --budget 6s --threads 1 --cache %s", steering(), cache);
	struct gain g, now;
	int tries = 0;
	do { /* a box may choose others of the kernels that are equally fast: then the gain is of those */
		g = stored(cache);
		REQUIRE(g.faster.rounds > 0);
		snprintf(g.date, sizeof g.date, "2026-01-02 03:04 UTC");
		g.faster = (struct faster){2.5, 2.4999, 2.5001, 400};
		g.machine = (struct disturbance){100, 0, ""};
		put_gain(cache, &g);
		CHECK_RUN(0, KERNELS_ONCE, steering(), "", cache);
		now = stored(cache);
	} while (!key_equal(now.made_of, g.made_of) && ++tries < 5);
	CHECK(now.faster.rounds == 400 && !strcmp(now.date, g.date));
	g.made_of.lo++;
	put_gain(cache, &g);
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", cache);
	CHECK(stored(cache).faster.rounds != 400);
}

/* Runs bench and report; whether both say that the median is of another moment than tuning's. */
static bool says_moments(const char *cache)
{
	static const char words[] = "each is of its own moment";
	CHECK_RUN(0, "report %s --threads 1 -o %s --cache %s", steering(), in_dir("moment.html"), cache);
	bool report = strstr(cli_out, words);
	CHECK_RUN(0, "bench %s --runs 20 --threads 1 --cache %s", steering(), cache);
	return report && strstr(cli_out, words);
}

/* Tuning and bench show medians of two moments: where these differ, a note says why. */
TEST(medians_of_two_moments_are_explained)
{
	struct gain g = {.date = "2026-11-02 10:00 UTC",
			 .threads = 1,
			 .default_ms = 2e6,
			 .now_ms = 1e6,
			 .faster = {2, 1.9, 2.1, 25, false}};
	char cache[256];
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(cache, sizeof cache, "%s", in_dir("moments"));
	CHECK_RUN(0, KERNELS_ONCE, steering(), "-q", cache);
	put_gain(cache, &g);
	CHECK(says_moments(cache));
	CHECK_SAYS(cli_out, "its median was 1000000");
	bool silent = false;
	for (int i = 0; i < 10 && !silent; i++) { /* other load may make one of two runs slower */
		CHECK_RUN(0, "bench %s --json --threads 1 --cache %s", steering(), cache);
		json_t *j = parse_out();
		g.now_ms = json_number_value(json_object_get(j, "median_ms"));
		g.default_ms = 2 * g.now_ms;
		json_decref(j);
		put_gain(cache, &g);
		CHECK_RUN(0, "bench %s --threads 1 --cache %s", steering(), cache);
		silent = !strstr(cli_out, "own moment");
	}
	CHECK(silent);
}

TEST_MAIN
