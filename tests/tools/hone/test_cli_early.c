/* SPDX-License-Identifier: Apache-2.0 */
/* What hone tune says of a search that ends before its box does, and of the trials of earlier boxes. Replays
 * run on a virtual clock, so that they end alike on every machine. */
#include "platform/base/rng.h"
#include "tests/lib/cli_model.h"

/* The counts of the reasons, as in "1 task came ..., 9 tasks no longer ...". */
static int count_tasks(const char *words)
{
	int sum = 0, n, used;
	for (const char *p = words; p; p = strstr(p, ", ")) {
		p += *p == ',' ? 2 : 0;
		if (sscanf(p, "%d task%n", &n, &used) != 1)
			return -1;
		sum += n;
	}
	return sum;
}

static const char *text_of(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));
	return s ? s : "";
}

static double number_of(const json_t *j, const char *key)
{
	return json_number_value(json_object_get(j, key));
}

TEST(replays_that_end_early)
{
	static const struct {
		const char *rigor, *budget;
		bool early;
	} cases[] = {{"quick", "60s", true},
		     {"patient", "1s", false},
		     {"patient", "5s", false},
		     {"quick", "500ms", false},   /* the box ends before gains dry up */
		     {"estimate", "20s", false}}; /* it searches nothing */
	char land[256];
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(land, sizeof land, "%s", in_dir("land"));
	CHECK_RUN(0, "tune %s -q --record %s --budget 2s --threads 1 --no-cache", steering(), land);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char words[400];
		CHECK_RUN(0, "tune %s --threads 1 --device replay:%s --rigor %s --budget %s --json",
			  steering(), land, cases[i].rigor, cases[i].budget);
		json_t *j = parse_out();
		CHECK(json_is_string(json_object_get(j, "early")) == cases[i].early);
		CHECK(number_of(j, "elapsed_s") <= number_of(j, "budget_s"));
		snprintf(words, sizeof words, "%s", text_of(j, "early"));
		if (cases[i].early) {
			CHECK(count_tasks(words) == (int)number_of(j, "task_count"));
			CHECK(number_of(j, "elapsed_s") < number_of(j, "budget_s") - 0.3);
			CHECK_SAYS(words, " no longer gain");
		}
		json_decref(j);
		CHECK_RUN(0, "tune %s --threads 1 --device replay:%s --rigor %s --budget %s", steering(),
			  land, cases[i].rigor, cases[i].budget);
		CHECK(!strstr(cli_out, "\nthe search ended before the box: ") == !cases[i].early);
		CHECK_SAYS(cli_out, words);
		if (test_bad)
			printf("%s, %s: %s\n", cases[i].rigor, cases[i].budget, words);
	}
}

/* A task of a few numbers has few schedules, or comes to its roofline. */
static const char *tiny(void)
{
	struct onnx_maker k;
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 4");
	mk_node(&k, "Relu", "x", "y");
	mk_output(&k, "y");
	return write_model(&k, "tiny.onnx");
}

/* Boxes on this machine: one that has nothing left to try ends early; one whose trials are known counts them.
 */
TEST(boxes_that_end_early)
{
	char model[256], cache[256];
	int trials[2] = {0};
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(model, sizeof model, "%s", tiny());
	snprintf(cache, sizeof cache, "%s", in_dir("boxes"));
	for (int box = 0; box < 2; box++) {
		CHECK_RUN(0, "tune %s --budget 30s --threads 1 --json --cache %s", model, cache);
		json_t *j = parse_out();
		CHECK(count_tasks(text_of(j, "early")) == 1);
		CHECK(number_of(j, "elapsed_s") < 25);
		CHECK((int)number_of(j, "earlier_trials") == trials[0]);
		CHECK((number_of(j, "known_candidates") > 0) == (box > 0));
		CHECK(number_of(j, "known_candidates") <= number_of(j, "earlier_trials"));
		trials[box] = (int)number_of(j, "trials");
		json_decref(j);
	}
	CHECK(trials[0] > 0);
	CHECK_RUN(0, "tune %s --budget 30s --threads 1 --fresh --json --cache %s", model, cache);
	CHECK(out_number("earlier_trials") == trials[0] + trials[1] && out_number("known_candidates") == 0);
	CHECK_RUN(0, "tune %s --rigor estimate --budget 30s --threads 1 --json --cache %s", model, cache);
	json_t *j = parse_out();
	CHECK(json_is_null(json_object_get(j, "early")));
	json_decref(j);
}

/* That, and convolutions that a short box does not end. */
static const char *large(void)
{
	enum { W = 64 * 64 * 9 };
	static float weights[W];
	struct onnx_maker k;
	struct rng r;
	int64_t pads[] = {1, 1, 1, 1};
	rng_seed(&r, 2);
	rng_fill(&r, weights, W);
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 4");
	mk_input(&k, "z", 1, "1 64 28 28");
	mk_init(&k, "W", 1, "64 64 3 3", weights, sizeof weights);
	mk_node(&k, "Relu", "x", "y");
	mk_attr_ints(&k, mk_node(&k, "Conv", "z W", "c"), "pads", 4, pads);
	mk_output(&k, "y");
	mk_output(&k, "c");
	return write_model(&k, "large.onnx");
}

/* At the end of a box no task can be built any more, which is no reason: the box was used. */
TEST(a_box_that_is_used_up)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	CHECK_RUN(0, "tune %s --budget 4s --threads 1 --json --no-cache", large());
	json_t *j = parse_out();
	const char *early = text_of(j, "early");
	CHECK(number_of(j, "task_count") == 2);
	CHECK(!*early || (count_tasks(early) == 2 && number_of(j, "elapsed_s") < 3.7));
	if (test_bad)
		printf("%s\n", cli_out);
	json_decref(j);
}

TEST_MAIN
