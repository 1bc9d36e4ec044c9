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
	CHECK_SAYS(page, "<p>Measured for this page, round by round: ");
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

/* A name that begins with a dash is taken for an option: the error says how to write the file. */
TEST(a_file_like_an_option_is_explained)
{
	char here[1024];
	REQUIRE(getcwd(here, sizeof here) && in_dir("x") && chdir(dir) == 0);
	CHECK_RUN(2, "inspect -x.onnx");
	CHECK_SAYS(cli_err, "unknown option -x.onnx; if that is a file, write ./-x.onnx");
	CHECK_RUN(2, "tune --x.onnx");
	CHECK_SAYS(cli_err, "unknown option --x.onnx; if that is a file, write ./--x.onnx");
	CHECK_OK(file_write("-x.pb", "x", 1));
	CHECK_RUN(2, "bench -x.pb"); /* it is there */
	CHECK_SAYS(cli_err, "write ./-x.pb");
	CHECK_RUN(2, "bench -y.pb");
	CHECK(!strstr(cli_err, "./-y.pb"));
	CHECK_RUN(2, "bench --threadz=2");
	CHECK_SAYS(cli_err, "did you mean --threads?");
	CHECK_RUN(0, "zoo -q steering --output=-m.onnx");
	CHECK_RUN(0, "inspect ./-m.onnx");
	CHECK_RUN(0, "inspect -- -m.onnx");
	CHECK(chdir(here) == 0);
}

/* Several sizes in one --shape: names may have any letter, so the word is not split, but the error says how.
 */
TEST(several_sizes_in_one_shape_are_explained)
{
	static const struct {
		const char *word, *says;
	} cases[] = {
	    {"h=32,w=32", "give each name an option of its own: --shape h=32 --shape w=32"},
	    {"h=32;w=1x2", "--shape h=32 --shape w=1x2"},
	    {"h=1,w=2,x=1x3x1x2", "--shape h=1 --shape w=2 --shape x=1x3x1x2"},
	    {"h=1,w=2,", "--shape h=1 --shape w=2"},
	    {"h,w=2", NULL},
	    {"a=b,w=2", NULL},
	};
	char model[256], odd[256];
	struct onnx_maker k;
	snprintf(model, sizeof model, "%s", one_node("free.onnx", "Relu", "1 3 h w"));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		CHECK_RUN(2, "tasks %s --shape %s", model, cases[i].word);
		CHECK(cases[i].says || !strstr(cli_err, "each --shape"));
		CHECK_SAYS(cli_err, cases[i].says ? cases[i].says : "no input or symbolic dimension");
	}
	CHECK_RUN(0, "tasks %s --shape h=32 --shape w=32", model);
	mk_start(&k, 17, 2);
	mk_input(&k, "a=1,b", F32, "1 n");
	mk_node(&k, "Relu", "a=1,b", "y");
	mk_output(&k, "y");
	snprintf(odd, sizeof odd, "%s", write_model(&k, "odd.onnx"));
	CHECK_RUN(0, "tasks %s --shape a=1,b=1x4", odd); /* such a name is one */
}

TEST(a_prefix_that_is_no_c_name_is_explained)
{
	CHECK_RUN(0, "compile %s --c --name bad-name -o %s --threads 1", steering(), in_dir("c"));
	CHECK_SAYS(
	    cli_err,
	    "--name 'bad-name': C names begin with bad_name instead: they have letters, digits and '_'");
	CHECK(file_exists(in_dir("c/bad_name.h")));
	CHECK_RUN(0, "compile %s --c --name good_1 -o %s --threads 1", steering(), in_dir("c"));
	CHECK(!strstr(cli_err, "--name"));
	/* Names of files that are none of C, and one that would hide a header. */
	static const char *const files[][2] = {
	    {"-dash", "net_dash"}, {"2.fast", "net_2_fast"}, {"string", "net_string"}, {"x.$v2", "x_v2"}};
	char model[1200], out[300];
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		snprintf(model, sizeof model, "%s/%s.onnx", dir, files[i][0]);
		CHECK(symlink(steering(), model) == 0);
		snprintf(out, sizeof out, "%s/c%zu", dir, i);
		CHECK_RUN(0, "compile %s --c -o %s --threads 1", model, out);
		snprintf(model, sizeof model, "C names begin with %s, ", files[i][1]);
		CHECK_SAYS(cli_err, model);
		snprintf(model, sizeof model, "cc -std=c99 -Wall -Werror -I %s -c %s/%s.c -o %s/x.o", out,
			 out, files[i][1], out);
		CHECK(system(model) == 0);
	}
}

TEST(empty_names_are_explained)
{
	static const char *const command[] = {"tune", "bench", "run", "inspect", "explain", "verify", "import"};
	for (size_t i = 0; i < sizeof command / sizeof *command; i++) {
		CHECK_RUN(2, "%s ''", command[i]);
		CHECK_SAYS(cli_err, "an argument is empty; usage: hone ");
	}
	CHECK_RUN(2, "devices --board rpi4");
	CHECK_SAYS(cli_err, "takes no name, but 'rpi4': with --board it says which file");
}

/* Writes a tensor of two floats whose data lie in a file beside it. */
static void outside(struct onnx_maker *k, const char *path, const char *location)
{
	Onnx__TensorProto *t = mk_tensor(k, "x", 1, "2", NULL, 0);
	mk_entry(k, t, "location", location);
	size_t n = onnx__tensor_proto__get_packed_size(t);
	uint8_t *p = arena_alloc(&k->a, n + 1);
	CHECK_OK(file_write(path, p, onnx__tensor_proto__pack(t, p)));
}

/* A case whose data are missing has not passed, and is not skipped as one of an unsupported operator is. */
TEST(onnx_test_fails_without_its_data)
{
	static const float two[] = {1, 2};
	struct onnx_maker k;
	char set[300];
	snprintf(set, sizeof set, "%s", folder("data-outside/test_data_set_0"));
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "2");
	mk_node(&k, "Relu", "x", "y");
	mk_output(&k, "y");
	struct blob b = mk_bytes(&k);
	CHECK_OK(file_write(in_dir("data-outside/model.onnx"), b.p, b.n));
	outside(&k, in_dir("data-outside/test_data_set_0/input_0.pb"), "in.bin");
	outside(&k, in_dir("data-outside/test_data_set_0/output_0.pb"), "out.bin");
	arena_free(&k.a);
	CHECK_OK(file_write(in_dir("data-outside/test_data_set_0/in.bin"), two, sizeof two));
	CHECK_RUN(1, "onnx-test %s", in_dir("data-outside"));
	CHECK_SAYS(cli_out, "external data 'out.bin'");
	CHECK_SAYS(cli_out, "0 passed, 1 failed, 0 skipped");
	CHECK_OK(file_write(in_dir("data-outside/test_data_set_0/out.bin"), two, sizeof two));
	CHECK_RUN(0, "onnx-test %s", in_dir("data-outside"));
	CHECK_SAYS(cli_out, "1 passed, 0 failed, 0 skipped");
	CHECK(unlink(in_dir("data-outside/test_data_set_0/in.bin")) == 0);
	CHECK_RUN(1, "onnx-test %s --reference", in_dir("data-outside"));
	CHECK_SAYS(cli_out, "external data 'in.bin'");
	CHECK_OK(file_write(in_dir("data-outside/test_data_set_0/in.bin"), two, sizeof two));
	CHECK(unlink(in_dir("data-outside/test_data_set_0/output_0.pb")) == 0);
	CHECK_RUN(1, "onnx-test %s", in_dir("data-outside"));
	CHECK_SAYS(cli_out, "no output_0.pb, so there is nothing to compare");
}

/* An error of a command with several models names the model that it is about. */
TEST(errors_name_the_model)
{
	char odd[256], good[256];
	struct onnx_maker k;
	mk_start(&k, 17, 2);
	mk_input(&k, "x", F32, "1 3");
	mk_input(&k, "i", 7, "64"); /* numbers at random are 0 and 1, and 1 is beyond the axis */
	mk_attr_int(&k, mk_node(&k, "Gather", "x i", "y"), "axis", 0);
	mk_output(&k, "y");
	snprintf(odd, sizeof odd, "%s", write_model(&k, "odd.onnx"));
	snprintf(good, sizeof good, "%s", one_node("good.onnx", "Relu", "1 4"));
	CHECK_RUN(1, "bench %s %s --runs 2 --threads 1 --kernels fallback --cache %s", good, odd,
		  in_dir("cache"));
	const char *at = strstr(cli_err, "/odd.onnx: ");
	CHECK(at && strstr(at, "Gather"));
	CHECK(!strstr(at ? at + 1 : cli_err, "/odd.onnx: ")); /* once */
}

/* Writes one branch of an If: a Relu of "x". */
static void relu_branch(struct onnx_maker *k, Onnx__NodeProto *n, const char *attr, const char *to)
{
	Onnx__GraphProto around = mk_sub(k, 4);
	mk_node(k, "Relu", "x", to);
	mk_output(k, to);
	mk_sub_end(k, &around, n, attr);
}

/* y = If(rate == 2) of "x", next to the state, of which only a batch size is free. */
static const char *with_rate(void)
{
	enum { I64 = 7 };
	static const int64_t two = 2;
	struct onnx_maker k;
	mk_start(&k, 17, 8);
	mk_input(&k, "x", F32, "-1 w");
	mk_input(&k, "state", F32, "2 -1 16");
	mk_input(&k, "sr", I64, "");
	mk_init(&k, "two", I64, "", &two, sizeof two);
	mk_node(&k, "Equal", "sr two", "is");
	Onnx__NodeProto *n = mk_node(&k, "If", "is", "y");
	relu_branch(&k, n, "then_branch", "a");
	relu_branch(&k, n, "else_branch", "b");
	mk_node(&k, "Relu", "state", "next");
	mk_output(&k, "y");
	mk_output(&k, "next");
	return write_model(&k, "rate.onnx");
}

/* The options that inspect proposes can be pasted, in one go: they give all that is free, the value of a
 * scalar too. With a part of them, it shows what is known, and what is still free. */
TEST(inspect_proposes_all_that_is_free)
{
	char model[256], words[200];
	snprintf(model, sizeof model, "%s", with_rate());
	CHECK_RUN(0, "inspect %s", model);
	CHECK_SAYS(cli_out, "for example --shape x=1x128 --shape state=2x1x16 --shape sr=16000\n");
	const char *at = strstr(cli_out, "--shape ");
	snprintf(words, sizeof words, "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
	CHECK_RUN(0, "inspect %s %s", model, words);
	CHECK_SAYS(cli_out, "[2, 1, 16]");
	CHECK_RUN(0, "inspect %s --shape w=40", model);
	CHECK_SAYS(cli_out, "[?, 40]");
	CHECK_SAYS(cli_out, "Sizes are needed: the model leaves sizes free: input 'state' is [2, ?, 16]");
	CHECK_SAYS(cli_out, " --shape state=2x1x16 --shape x=1x40 --shape sr=16000\n");
	CHECK_RUN(0, "inspect %s --shape x=3x40 --json", model);
	json_t *j = parse_out(), *left = json_object_get(j, "free");
	CHECK(json_array_size(left) == 1);
	CHECK(!strcmp(json_string_value(json_object_get(json_array_get(left, 0), "input")), "state"));
	json_decref(j);
	CHECK_RUN(1, "inspect %s --shape x=3x40 --shape state=2x1x16", model);
	CHECK_SAYS(cli_out,
		   "give the scalar input 'sr' a value, as in --shape NAME=VALUE, here --shape sr=16000\n");
	CHECK_RUN(2, "inspect %s --shape z=40", model); /* that is no size of the model */
	CHECK_SAYS(cli_err, "no input or symbolic dimension 'z'");
}

TEST_MAIN
