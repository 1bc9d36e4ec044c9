/* SPDX-License-Identifier: Apache-2.0 */
/* Time to quality: the figures of searches, and their report. */
#include "tools/hone/quality.h"
#include "tests/lib/test.h"
#include "tools/hone/search_report.h"
#include <math.h>
#include <unistd.h>

static struct course course(const char *network, const char *strategy, uint64_t seed, double final)
{
	return (struct course){
	    .network = network,
	    .strategy = strategy,
	    .seed = seed,
	    .trials = 100,
	    .elapsed_s = 59.9,
	    .own_pct = NAN,
	    .state_bytes = NAN,
	    .n = 4,
	    .moment = {{.at_s = 2, .quality = 0.5, .fallback = 30},
		       {.at_s = 5, .quality = 0.96, .tuned = 10, .standard = 5, .fallback = 15},
		       {.at_s = 20, .quality = 0.94, .tuned = 30},
		       {.at_s = 60, .quality = final, .least = 0.9, .tuned = 30, .portable = 1}}};
}

TEST(the_last_moment_counts)
{
	struct course c = course("net", "evolve", 1, 0.99);
	CHECK(quality_at(&c, 1.9) == 0);
	CHECK(quality_at(&c, 2) == 0.5 && quality_at(&c, 4.9) == 0.5);
	CHECK(quality_at(&c, 59) == 0.94 && quality_at(&c, 1e9) == 0.99);
}

/* A level that is lost again does not count as reached. */
TEST(seconds_to_a_level)
{
	struct course c = course("net", "evolve", 1, 0.99);
	CHECK(quality_seconds(&c, 0.4) == 2);
	CHECK(quality_seconds(&c, 0.94) == 5);
	CHECK(quality_seconds(&c, 0.95) == 60);
	CHECK(isnan(quality_seconds(&c, 0.995)));
	c.n = 0;
	CHECK(isnan(quality_seconds(&c, 0)) && quality_at(&c, 60) == 0);
}

TEST(geometric_means_and_worst)
{
	const struct course c[] = {course("a", "evolve", 1, 0.9), course("a", "evolve", 2, 0.4),
				   course("b", "evolve", 1, 0.6), course("a", "random", 1, 0.1)};
	struct quality_sum s = quality_sum(c, 4, "a", "evolve", 60);
	CHECK(s.n == 2 && fabs(s.mean - 0.6) < 1e-12 && s.worst == 0.4);
	s = quality_sum(c, 4, NULL, "evolve", 60);
	CHECK(s.n == 3 && fabs(s.mean - 0.6) < 1e-12);
	s = quality_sum(c, 4, "b", "random", 60);
	CHECK(s.n == 0 && isnan(s.mean) && isnan(s.worst));
	CHECK(quality_sum(c, 4, NULL, "evolve", 1).mean == 0);
}

static void keys(const json_t *j, const char *names)
{
	char copy[256];
	snprintf(copy, sizeof copy, "%s", names);
	for (char *k = strtok(copy, " "); k; k = strtok(NULL, " "))
		if (!json_object_get(j, k)) {
			printf("key %s is missing\n", k);
			test_bad = 1;
		}
}

static const struct search_net nets[] = {
    {"a", "a.onnx", "best/a", "evolve, seed 1, 600 s", 3.2, 3.4, 0.97, 0.3},
    {"b<&>", "b.onnx", "best/b", "an earlier search", 1, 1, NAN, 0},
};

static struct search_report report(const struct course *c, int n)
{
	return (struct search_report){.target = {.soc = "board", .isa = "x86-64-v3"},
				      .openings = 3,
				      .rounds = 15,
				      .date = "2026-11-21",
				      .nnets = 2,
				      .net = nets,
				      .n = n,
				      .course = c};
}

TEST(one_json_object)
{
	const struct course c[] = {course("a", "evolve", 1, 0.9), course("b<&>", "random", 2, 0.4)};
	struct search_report r = report(c, 2);
	json_t *j = search_json(&r);
	REQUIRE(j);
	keys(j, "machine rounds date boxes networks courses sums");
	CHECK(json_integer_value(json_object_get(j, "rounds")) == 45);
	keys(json_array_get(json_object_get(j, "networks"), 1),
	     "network model best best_from best_ms best_median_ms default_quality fallback_quality");
	const json_t *first = json_array_get(json_object_get(j, "courses"), 0);
	keys(first, "network strategy seed trials elapsed_s own_pct state_bytes seconds_to_95 moments");
	CHECK(json_is_null(json_object_get(first, "own_pct")));
	const json_t *m = json_array_get(json_object_get(first, "moments"), 1);
	keys(m, "at_s ms quality quality_least quality_most quality_median kernels");
	keys(json_object_get(m, "kernels"), "tuned default fallback portable");
	/* For every strategy: one sum per network and one over all. */
	CHECK(json_array_size(json_object_get(j, "sums")) == 6);
	char *text = json_dumps(j, 0);
	CHECK(text && !strstr(text, "nan"));
	free(text);
	json_decref(j);
}

/* What the report prints. */
static const char *printed(const struct search_report *r)
{
	static char text[1 << 14];
	char path[] = "/tmp/hone-report-XXXXXX";
	int fd = mkstemp(path), out = dup(1);
	fflush(stdout);
	CHECK(fd >= 0 && out >= 0 && dup2(fd, 1) == 1);
	search_print(r, false);
	fflush(stdout);
	dup2(out, 1);
	ssize_t n = pread(fd, text, sizeof text - 1, 0);
	text[n > 0 ? n : 0] = 0;
	close(fd);
	close(out);
	unlink(path);
	return text;
}

/* Without a long box the best search is its own reference, which has to be said; a busy machine gives no
 * verdict. */
TEST(names_its_reference)
{
	const struct course c[] = {course("a", "evolve", 1, 0.9)};
	struct search_report r = report(c, 1);
	r.best = "build/search/best";
	r.machine = (struct disturbance){100, 0, ""};
	const char *text = printed(&r);
	CHECK(strstr(text, "reference: ") && strstr(text, "build/search/best") &&
	      strstr(text, "no long box was run"));
	CHECK(strstr(text, "mean of") && !strstr(text, "no verdict"));
	r.reference_s = 600;
	CHECK(strstr(printed(&r), "among them a box of 600 s"));
	r.machine.others_pct = 90;
	text = printed(&r);
	CHECK(!strstr(text, "mean of") && strstr(text, "no verdict: the machine was busy"));
	CHECK(strstr(text, "others used 90 % of a processor"));
}

TEST(one_picture)
{
	const struct course c[] = {course("a", "evolve", 1, 0.9), course("a", "evolve", 2, 0.95),
				   course("b<&>", "random", 2, 0.4)};
	struct search_report r = report(c, 3);
	struct buf out = {0};
	search_svg(&r, &out);
	CHECK(test_count(buf_str(&out), "<svg") == 1 && test_count(buf_str(&out), "</svg>") == 1);
	/* A faint line for each search, and one for each strategy in each of the three panels in which it has
	 * any. */
	CHECK(test_count(buf_str(&out), "opacity") == 3 &&
	      test_count(buf_str(&out), "<path class=\"k") == 3 + 4);
	CHECK(!strstr(buf_str(&out), "b<&") && !strstr(buf_str(&out), "nan") &&
	      !strstr(buf_str(&out), "inf"));
	buf_clear(&out);
	r = report(c, 0);
	search_svg(&r, &out);
	CHECK(test_count(buf_str(&out), "</svg>") == 1 && !strstr(buf_str(&out), "<path class=\"k"));
	buf_free(&out);
}

TEST_MAIN
