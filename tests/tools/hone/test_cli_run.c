/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: run, verify, bench, report. */
#include "kernels/graph/eval.h"
#include "platform/base/arena.h"
#include "tests/lib/cli_model.h"
#include "tools/hone/model.h"
#include "tools/hone/zoo.h"

TEST(run_gives_what_the_reference_gives)
{
	struct arena a = {0};
	struct graph *g;
	struct tensor *in, *t, got;
	REQUIRE_OK(zoo_make("steering", 1, &g));
	REQUIRE_OK(model_inputs(g, 5, &a, &in));
	t = ARENA_ARRAY(&a, struct tensor, g->nvalues);
	REQUIRE_OK(eval_graph(g, in, t, &a));
	REQUIRE_OK(tensor_write(in_dir("in.npy"), in, "camera"));
	CHECK_RUN(0, "run %s --json --threads 2 --cache %s --input camera=%s --output %s", steering(),
		  in_dir("cache"), in_dir("in.npy"), in_dir("outputs/new"));
	json_t *j = parse_out(), *o = json_array_get(json_object_get(j, "outputs"), 0);
	check_keys(o, "name shape file");
	REQUIRE(json_is_string(json_object_get(o, "file")));
	REQUIRE_OK(tensor_read(&a, json_string_value(json_object_get(o, "file")), &got, NULL));
	double diff = 1, most = 0;
	CHECK_OK(tensor_compare(&got, &t[g->output[0]], &diff, &most));
	CHECK(most > 0 && diff <= 1e-4 * most);
	json_decref(j);
	graph_free(g);
	arena_free(&a);
}

TEST(outputs_get_files_of_their_own)
{
	char model[256], file[3][64];
	for (int clash = 0; clash < 2; clash++) {
		struct onnx_maker k;
		mk_start(&k, 13, 4);
		mk_input(&k, "x", 1, "3");
		mk_node(&k, "Relu", "x", "a/b");
		mk_node(&k, "Neg", "x", clash ? "a_b-2" : "a_b");
		mk_node(&k, "Abs", "x", "a:b");
		mk_output(&k, "a/b");
		mk_output(&k, clash ? "a_b-2" : "a_b");
		mk_output(&k, "a:b");
		struct blob b = mk_bytes(&k);
		snprintf(model, sizeof model, "%s", in_dir("three.onnx"));
		REQUIRE_OK(file_write(model, b.p, b.n));
		arena_free(&k.a);
		CHECK_RUN(clash, "run %s --json --random --output %s --cache %s", model,
			  in_dir(clash ? "none" : "three"), in_dir("cache"));
		if (clash)
			break;
		json_t *j = parse_out(), *list = json_object_get(j, "outputs");
		REQUIRE(json_array_size(list) == 3);
		for (size_t i = 0; i < 3; i++) {
			const char *path =
			    json_string_value(json_object_get(json_array_get(list, i), "file"));
			CHECK(file_exists(path));
			snprintf(file[i], sizeof file[i], "%s", strrchr(path, '/') + 1);
		}
		CHECK(!strcmp(file[0], "a_b.npy") && !strcmp(file[1], "a_b-1.npy") &&
		      !strcmp(file[2], "a_b-2.npy"));
		json_decref(j);
	}
	CHECK_SAYS(cli_err, "outputs 'a_b-2' and 'a:b'");
	CHECK(!file_exists(in_dir("none"))); /* nothing was written */
}

TEST(run_says_what_is_wrong_with_inputs)
{
	float four[4] = {0};
	struct tensor t = {DT_F32, {1, {4}}, four};
	REQUIRE_OK(tensor_write(in_dir("four.npy"), &t, "camera"));
	CHECK_RUN(2, "run %s --output %s", steering(), in_dir("o"));
	CHECK_SAYS(cli_err, "no file for input 'camera'");
	CHECK_SAYS(cli_err, "camera f32 1x3x66x200");
	CHECK_RUN(2, "run %s --output %s --input lidar=%s", steering(), in_dir("o"), in_dir("four.npy"));
	CHECK_SAYS(cli_err, "no input 'lidar'; its inputs are: camera");
	CHECK_RUN(2, "run %s --input camera=", steering());
	CHECK_SAYS(cli_err, "no file is named for input 'camera'");
	CHECK_RUN(2, "run %s --output %s --input %s", steering(), in_dir("o"), in_dir("four.npy"));
	CHECK_SAYS(cli_err, "is f32 4; input 'camera' is f32 1x3x66x200");
	static uint8_t bytes[3 * 66 * 200];
	static float image[3 * 66 * 200];
	static const struct {
		struct tensor t;
		const char *says;
	} wrong[] = {{{DT_U8, {4, {1, 3, 66, 200}}, bytes}, "array.astype(\"float32\")"},
		     {{DT_F32, {3, {3, 66, 200}}, image}, "array[None] in numpy adds the batch axis"},
		     {{DT_F32, {4, {1, 66, 200, 3}}, image}, "array.transpose(...)"}};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		REQUIRE_OK(tensor_write(in_dir("wrong.npy"), &wrong[i].t, "camera"));
		CHECK_RUN(2, "run %s --input %s", steering(), in_dir("wrong.npy"));
		CHECK_SAYS(cli_err, wrong[i].says);
	}
	CHECK_RUN(1, "run %s --input camera=x.npy", steering());
	CHECK_SAYS(cli_err, "x.npy: No such file");
}

TEST(verify_as_json)
{
	CHECK_RUN(0, "verify %s --json --kernels fallback --cache %s", steering(), in_dir("cache"));
	json_t *j = parse_out();
	check_keys(j, "kernel_count passed failed max_rel_err");
	CHECK(json_integer_value(json_object_get(j, "kernel_count")) >= 5);
	CHECK(json_integer_value(json_object_get(j, "failed")) == 0);
	CHECK(json_number_value(json_object_get(j, "max_rel_err")) < 1e-4);
	json_decref(j);
	CHECK_RUN(1, "verify %s --against /nowhere --cache %s", steering(), in_dir("cache"));
	CHECK_SAYS(cli_err, "/nowhere");
}

TEST(bench_writes_a_trace_of_every_kernel)
{
	char trace[256], cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("cache"));
	snprintf(trace, sizeof trace, "%s", in_dir("trace.json"));
	CHECK_RUN(0, "bench %s --json --runs 2 --kernels fallback --threads 2 --cache %s --trace %s",
		  steering(), cache, trace);
	json_t *o = json_loads(cli_out, 0, NULL), *t = json_load_file(trace, 0, NULL), *e, *k;
	size_t i, n;
	REQUIRE(o && t);
	json_array_foreach(json_object_get(o, "kernels"), n, k)
	{
		int seen = 0;
		json_array_foreach(json_object_get(t, "traceEvents"), i, e)
		{
			seen += json_equal(json_object_get(e, "name"), json_object_get(k, "name"));
			CHECK(json_number_value(json_object_get(e, "dur")) >= 0);
		}
		CHECK(seen >= 5); /* once per run, at least */
	}
	json_decref(o);
	json_decref(t);
	CHECK_RUN(1, "bench %s --runs 1 --kernels fallback --cache %s --trace /nowhere/t", steering(), cache);
	CHECK_SAYS(cli_err, "/nowhere");
	CHECK_RUN(2, "bench %s %s --runs 1 --kernels fallback --cache %s --trace %s", steering(), steering(),
		  cache, trace);
	CHECK_SAYS(cli_err, "--trace");
}

TEST(report_is_one_page)
{
	static char page[1 << 17];
	char file[256], cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("cache"));
	snprintf(file, sizeof file, "%s", in_dir("report.html"));
	CHECK_RUN(0, "report %s -o %s --threads 1 --json --cache %s", steering(), file, cache);
	json_t *o = json_loads(cli_out, 0, NULL);
	CHECK(json_number_value(json_object_get(o, "after_ms")) > 0);
	CHECK(json_integer_value(json_object_get(o, "kernel_count")) >= 9); /* the layers of the network */
	json_decref(o);
	slurp(file, page, sizeof page);
	CHECK_SAYS(page, "<svg");
	CHECK_SAYS(page, "conv 5x5/2 3-&#62;24");
	CHECK_SAYS(page, "run hone tune");
	CHECK_SAYS(page, "</html>");
	CHECK(!strstr(page, "http") && !strstr(page, "<script"));
	CHECK_RUN(2, "report %s", steering());
	CHECK_SAYS(cli_err, "-o FILE.html");
	CHECK_RUN(1, "report %s -o /nowhere/r.html --cache %s", steering(), cache);
	CHECK_SAYS(cli_err, "/nowhere");
}

TEST(bench_names_kernels_for_perf)
{
	char map[64], text[1 << 14];
	CHECK_RUN(0, "bench %s --runs 1 --kernels fallback --threads 1 --cache %s --perf-map", steering(),
		  in_dir("cache"));
	snprintf(map, sizeof map, "/tmp/perf-%ld.map", (long)last_child);
	slurp(map, text, sizeof text);
	CHECK_SAYS(text, " hone:Gemm_31 [matmul 1x10 k50");
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		unsigned long at = 0, bytes = 0;
		CHECK(sscanf(line, "%lx %lx hone:", &at, &bytes) == 2 && at && bytes);
	}
	CHECK(unlink(map) == 0);
}

TEST(bench_as_json)
{
	char cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("cache"));
	CHECK_RUN(0, "bench %s --json --runs 3 --kernels fallback --threads 1 --cache %s", steering(), cache);
	json_t *j = parse_out(), *k = json_object_get(j, "kernels");
	check_keys(j, "model threads runs median_ms p90_ms p99_ms min_ms load_ms cpu_pct kernels");
	CHECK(json_integer_value(json_object_get(j, "runs")) == 3);
	CHECK(json_number_value(json_object_get(j, "min_ms")) <=
	      json_number_value(json_object_get(j, "median_ms")));
	CHECK(json_array_size(k) >= 5);
	check_keys(json_array_get(k, 0), "name us min_us gflops peak_pct roofline_pct kernel_kind");
	json_decref(j);
	CHECK_RUN(0, "bench %s %s --json --runs 7 --kernels fallback --cache %s", steering(), steering(),
		  cache);
	j = parse_out();
	CHECK(json_array_size(json_object_get(j, "models")) == 2);
	check_keys(json_array_get(json_object_get(j, "ratios"), 0), "time_ratio time_low time_high");
	json_decref(j);
	CHECK_RUN(2, "bench %s --kernels quick --cache %s", steering(), cache);
	CHECK_SAYS(cli_err, "--kernels quick is not possible; it takes best, default or fallback");
	CHECK_RUN(2, "bench %s --runs 0 --kernels fallback --cache %s", steering(), cache);
	CHECK_SAYS(cli_err, "--runs 0 is not possible; it takes 1 to");
	CHECK_RUN(2, "bench %s --rate 0 --kernels fallback --cache %s", steering(), cache);
	CHECK_SAYS(cli_err, "--rate 0 is not possible; it takes 1 to");
	CHECK_RUN(2, "bench %s --threads 65 --cache %s", steering(), cache);
	CHECK_SAYS(cli_err, "--threads 65 is not possible; it takes 1 to 64 (this machine has ");
}

TEST(without_a_cache_folder)
{
	steering();
	homeless = true;
	CHECK_RUN(0, "bench %s --json --runs 2 --threads 1", steering());
	CHECK_SAYS(cli_err, "neither XDG_CACHE_HOME nor HOME is set");
	json_t *j = parse_out();
	CHECK(json_is_null(json_object_get(j, "cache")));
	json_decref(j);
	CHECK_RUN(0, "verify %s --kernels default --threads 1", steering());
	CHECK_RUN(0, "run %s --random --output %s", steering(), in_dir("homeless"));
	CHECK_RUN(1, "show");
	CHECK_SAYS(cli_err, "--cache");
	homeless = false;
}

/* The outputs of a run, as bytes of out/y.npy. */
static size_t answer_of(char *out, size_t cap)
{
	FILE *f = fopen(in_dir("out/y.npy"), "rb");
	size_t n = f ? fread(out, 1, cap, f) : 0;
	if (f)
		fclose(f);
	return n;
}

/* A folder with input_0.pb, as ONNX's tests have it, gives all inputs, by the names in the files and, where
 * these have none, by their numbers; also free sizes. */
TEST(a_folder_of_onnx_tests_gives_the_inputs)
{
	static char want[4096], got[4096];
	char model[256], set[256], one[300], two[300], bare[256];
	struct onnx_maker k;
	mk_start(&k, 17, 2);
	mk_input(&k, "a", 1, "n 3");
	mk_input(&k, "b", 1, "n 3");
	mk_node(&k, "Sub", "a b", "y");
	mk_output(&k, "y");
	snprintf(model, sizeof model, "%s", write_model(&k, "two.onnx"));
	snprintf(set, sizeof set, "%s", in_dir("set"));
	snprintf(bare, sizeof bare, "%s", in_dir("bare"));
	REQUIRE(mkdir(set, 0755) == 0 && mkdir(bare, 0755) == 0);
	snprintf(one, sizeof one, "%s/input_0.pb", set);
	snprintf(two, sizeof two, "%s/input_1.pb", set);
	for (int named = 0; named < 2; named++) {
		struct arena arena = {0};
		struct tensor t;
		CHECK_OK(tensor_alloc(&arena, DT_F32, &(struct shape){2, {4, 3}}, &t));
		for (int i = 0; i < 12; i++)
			((float *)t.data)[i] = (float)(i * i);
		CHECK_OK(tensor_write(one, &t, named ? "b" : "")); /* the names turn the order */
		for (int i = 0; i < 12; i++)
			((float *)t.data)[i] = 1;
		CHECK_OK(tensor_write(two, &t, named ? "a" : ""));
		arena_free(&arena);
		CHECK_RUN(0, "run %s --input %s=%s --input %s=%s --shape n=4 -o %s", model, named ? "b" : "a",
			  one, named ? "a" : "b", two, in_dir("out"));
		size_t n = answer_of(want, sizeof want);
		CHECK_RUN(0, "run %s --input %s%s -o %s", model, set, named ? "" : " --shape n=4",
			  in_dir("out"));
		CHECK(n > 48 && answer_of(got, sizeof got) == n && !memcmp(want, got, n));
	}
	CHECK_RUN(0, "run %s --input %s -o %s", model, set, in_dir("out"));
	size_t all = answer_of(want, sizeof want);
	char npy[256];
	snprintf(npy, sizeof npy, "%s", in_dir("set-npy"));
	REQUIRE(mkdir(npy, 0755) == 0);
	for (int i = 0; i < 2; i++) { /* input_0.npy is for a, and input_1.npy for b: here i names both */
		struct arena arena = {0};
		struct tensor t;
		char path[300];
		REQUIRE_OK(tensor_read(&arena, i ? one : two, &t, NULL));
		snprintf(path, sizeof path, "%s/input_%d.npy", npy, i);
		CHECK_OK(tensor_write(path, &t, ""));
		arena_free(&arena);
	}
	CHECK_RUN(0, "run %s --input %s --shape n=4 -o %s", model, npy, in_dir("out"));
	CHECK(all > 48 && answer_of(got, sizeof got) == all && !memcmp(want, got, all));
	CHECK_RUN(2, "run %s --input %s --input a=%s", model, set, one);
	CHECK_SAYS(cli_err, "--input gives 'a' twice");
	CHECK_RUN(2, "run %s --input a=%s --shape n=4", model, set);
	CHECK_SAYS(cli_err, "/set is a folder: name a file for input 'a' (.npy, .pb, .png or .jpg), as ");
	CHECK_SAYS(cli_err, "/set/input_0.pb, or, without a name, a folder with input_0.pb");
	CHECK_RUN(2, "run %s --input a=%s --shape n=4", model, bare);
	CHECK_SAYS(cli_err, "/bare is a folder: name a file for input 'a' (.npy, .pb, .png or .jpg), or");
	CHECK_RUN(2, "run %s --input %s", steering(), bare);
	CHECK_SAYS(cli_err, "/bare is a folder: name a file for input 'camera'");
	CHECK_RUN(2, "run %s --input %s", steering(), set);
	CHECK_SAYS(cli_err, "/set/input_0.pb is f32 4x3");
}

TEST_MAIN
