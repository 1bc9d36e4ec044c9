/* SPDX-License-Identifier: Apache-2.0 */
/* What a newcomer reads when a command line is not quite right, or when two commands speak of one model. */
#include "tests/lib/cli_quantize.h"

/* y = [x, Softmax(x)]: the cache can hold a kernel for one of them, the Concat is portable C. */
static const char *partly_portable(void)
{
	struct onnx_maker k;
	mk_start(&k, 17, 4);
	mk_input(&k, "x", F32, "1 64 32 32");
	mk_node(&k, "Softmax", "x", "a");
	mk_attr_int(&k, mk_node(&k, "Concat", "x a", "y"), "axis", 1);
	mk_output(&k, "y");
	return write_model(&k, "partly.onnx");
}

/* The number of kernels in all, from "N of M kernel"; 0: the text has no such words. */
static int counted(const char *text)
{
	int n, all, end = 0;
	for (const char *p = text; (p = strstr(p, " of ")); p++) {
		const char *from = p;
		while (from > text && strchr("0123456789", from[-1]))
			from--;
		if (sscanf(from, "%d of %d kernel%n", &n, &all, &end) == 2 && end)
			return all;
	}
	return 0;
}

TEST(all_lines_count_the_same_kernels)
{
	char model[256], cache[256];
	snprintf(model, sizeof model, "%s", partly_portable());
	snprintf(cache, sizeof cache, "%s", in_dir("cache"));
	CHECK_RUN(1, "tune %s --rigor cached --threads 1 --cache %s", model, cache);
	CHECK(counted(cli_out) == 1 && counted(cli_err) == 1);
	CHECK_SAYS(cli_out, "not counted: 1 operator that runs in portable C");
	CHECK_RUN(1, "bench %s --require-cache --threads 1 --cache %s", model, cache);
	CHECK(counted(cli_err) == 1);
	CHECK_RUN(1, "tune %s --rigor cached --threads 1 --cache %s", steering(), cache);
	CHECK(counted(cli_out) == 10 && !strstr(cli_out, "not counted"));
}

/* The page of a model that was never tuned shows built-in kernels: the command says so and what to do. */
TEST(a_report_before_the_first_tune_says_so)
{
	static char page[1 << 17];
	char file[256], cache[256], model[256];
	snprintf(cache, sizeof cache, "%s", in_dir("cache"));
	snprintf(file, sizeof file, "%s", in_dir("report.html"));
	CHECK_RUN(0, "report %s -o %s --threads 1 --cache %s", steering(), file, cache);
	CHECK_SAYS(cli_out, "no kernel of the cache is tuned for this network and number of threads");
	CHECK_SAYS(cli_err, "Next: hone tune ");
	CHECK_SAYS(cli_err, "steering.onnx --budget 20s --threads 1 --cache ");
	slurp(file, page, sizeof page);
	CHECK_SAYS(page, "<b>Not tuned yet:</b> no kernel of the cache is tuned");
	CHECK_RUN(0, "report %s -o %s --threads 1 --cache %s --json", steering(), file, cache);
	json_t *j = parse_out();
	CHECK(json_is_true(json_object_get(j, "untuned")));
	json_decref(j);
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(cache, sizeof cache, "%s", in_dir("kernels"));
	snprintf(model, sizeof model, "%s", one_node("soft.onnx", "Softmax", "1 64 32 32"));
	CHECK_RUN(0, KERNELS_ONCE, model, "", cache);
	CHECK_RUN(0, "report %s -o %s --threads 1 --cache %s", model, file, cache);
	CHECK(!strstr(cli_out, "no kernel of") && !strstr(cli_err, "Next: "));
	slurp(file, page, sizeof page);
	CHECK(!strstr(page, "Not tuned yet"));
}

/* Makes the peak of arithmetic that the cache keeps `gflops`. */
static void set_peak(const char *cache, const char *gflops)
{
	char path[300], text[4096], made[4200];
	snprintf(path, sizeof path, "%s/target", cache);
	slurp(path, text, sizeof text);
	const char *at = strstr(text, " fma="), *end = at ? strchr(at + 1, ' ') : NULL;
	REQUIRE(end);
	int n = snprintf(made, sizeof made, "%.*s fma=%s%s", (int)(at - text), text, gflops, end);
	REQUIRE_OK(file_write(path, made, (size_t)n));
}

/* Where the table says that a peak was measured too low, JSON does, too. */
TEST(json_marks_doubtful_peaks)
{
	static const char *const peaks[] = {"1", "1000000"};
	char cache[256];
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(cache, sizeof cache, "%s", in_dir("peaks"));
	CHECK_RUN(0, KERNELS_ONCE, steering(), "-q", cache);
	for (int i = 0; i < 2; i++) {
		size_t at, low = 0;
		json_t *k;
		set_peak(cache, peaks[i]);
		CHECK_RUN(0, "bench %s --runs 2 --threads 1 --cache %s", steering(), cache);
		CHECK(!i ==
		      (strstr(cli_out, "of peak: above 100 %, where the peak was measured too low") != NULL));
		CHECK_RUN(0, "bench %s --runs 2 --threads 1 --cache %s --json", steering(), cache);
		json_t *j = parse_out();
		CHECK(json_is_boolean(json_object_get(j, "peaks_low")));
		CHECK(json_is_true(json_object_get(j, "peaks_low")) == !i);
		json_array_foreach(json_object_get(j, "kernels"), at, k)
		{
			const json_t *note = json_object_get(k, "peak_note");
			bool above = json_number_value(json_object_get(k, "peak_pct")) > 105;
			CHECK(note && json_is_string(note) == above);
			low += above;
		}
		CHECK(!i == (low > 0));
		json_decref(j);
	}
}

TEST_MAIN
