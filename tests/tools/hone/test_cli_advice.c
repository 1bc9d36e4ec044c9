/* SPDX-License-Identifier: Apache-2.0 */
/* Errors and advice that a new user reads in the first hour: errors say what is meant, and advice fits the
 * state of the cache. */
#include "tests/lib/cli_model.h"

static int times(const char *text, const char *part)
{
	int n = 0;
	for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
		n++;
	return n;
}

/* A name without a common letter is not what was meant: the names that there are do help. */
TEST(a_shape_of_an_unknown_name_lists_the_names)
{
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("free.onnx", "Relu", "1 3 h w"));
	CHECK_RUN(2, "tune %s --shape N=4 --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_err, "dimension 'N'; it has 'x' 'h' 'w'");
	CHECK(!strstr(cli_err, "did you mean"));
	CHECK_RUN(2, "tasks %s --shape H=4 --shape w1=4", model);
	CHECK_SAYS(cli_err, "did you mean 'h'?");
}

TEST(bench_explains_the_roofline_once)
{
	CHECK_RUN(0, "bench %s --kernels fallback --kernels best --runs 2 --threads 1 --cache %s", steering(),
		  in_dir("cache"));
	CHECK(times(cli_out, "of roofline  ") == 2); /* two tables */
	CHECK(times(cli_out, "of roofline: share of the speed") == 1);
	CHECK(times(cli_out, "us: time of the kernel") == 1);
	CHECK_RUN(0, "bench %s --kernels fallback --runs 2 --threads 1 --cache %s", steering(),
		  in_dir("cache"));
	CHECK(times(cli_out, "of roofline: share of the speed") == 1);
}

/* One line says what the file is. */
static void check_no_log(const char *bytes, size_t n, const char *what)
{
	char file[256];
	snprintf(file, sizeof file, "%s", in_dir("no-log"));
	REQUIRE_OK(file_write(file, bytes, n));
	CHECK_RUN(1, "import %s --cache %s", file, in_dir("cache"));
	CHECK(!cli_out[0] && times(cli_err, "\n") == 1);
	CHECK_SAYS(cli_err, what);
	CHECK_SAYS(cli_err, "lines of JSON that hone export made");
	CHECK_RUN(1, "import %s --json --cache %s", file, in_dir("cache"));
	json_t *j = parse_out();
	CHECK_SAYS(json_string_value(json_object_get(j, "error")), what);
	json_decref(j);
}

TEST(import_says_what_a_file_without_records_is)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *what;
	} files[] = {
	    {"\x1f\x8b\x08\0\0\n\n", 7, "it is compressed with gzip; "},
	    {"\x1c\0\0\0TFL3\n\n", 10, "it is a TensorFlow Lite model; "},
	    {"PK\3\4\n\n\n", 7, "it is a zip archive; "},
	    {"\x89PNG\r\n\x1a\n", 8, "it is a PNG image; "},
	    {"HSEG\1\0\0\0", 8, "the name of a pack ends with .seg"},
	};
	static char bytes[100000];
	struct arena a = {0};
	struct blob model;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		check_no_log(files[i].bytes, files[i].n, files[i].what);
	CHECK_SAYS(cli_err, "it is a pack or a file of a cache");
	REQUIRE_OK(file_read(&a, steering(), 0, &model));
	check_no_log(model.p, model.n, "it is an ONNX model; ");
	arena_free(&a);
	unsigned seed = 11;
	for (int round = 0; round < 8; round++) {
		size_t n = 10 + (size_t)rand_r(&seed) % (sizeof bytes - 10);
		for (size_t i = 0; i < n; i++)
			bytes[i] = (char)rand_r(&seed);
		memcpy(bytes, "data\0\n\n\n\n", 9); /* no known format */
		for (size_t i = 9; i < n; i++)
			bytes[i] = bytes[i] == '{' ? 0 : bytes[i];
		check_no_log(bytes, n, "it is a binary file; ");
	}
}

/* A model that was tuned needs no tuning: not in the default cache, nor in one that is given. */
TEST(tasks_of_a_tuned_model_are_next_timed)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char cache[256];
	setenv("XDG_CACHE_HOME", in_dir("home"), 1);
	snprintf(cache, sizeof cache, "%s", in_dir("home/hone"));
	CHECK_RUN(0, "tasks %s", steering());
	CHECK_SAYS(cli_err, "Next: hone tune ");
	CHECK(!file_exists(cache));
	REQUIRE_OK(file_mkdirs(cache, 0755));
	CHECK_RUN(0, "tasks %s", steering()); /* the cache is empty */
	CHECK_SAYS(cli_err, "Next: hone tune ");
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", cache);
	static const char *const words[] = {"", " --unsupported", " --device cpu", " --level exact"};
	for (int i = 0; i < 4; i++) {
		CHECK_RUN(0, "tasks %s%s", steering(), words[i]);
		CHECK_SAYS(cli_err, i < 3 ? "Next: hone bench " : "Next: hone tune ");
		CHECK_RUN(0, "tasks %s%s --cache %s", steering(), words[i], cache);
		CHECK_SAYS(cli_err, i < 3 ? "Next: hone bench " : "Next: hone tune ");
		CHECK_SAYS(cli_err, " --cache ");
		CHECK_RUN(0, "tasks %s%s -q", steering(), words[i]);
		CHECK(!cli_err[0]);
	}
	unsetenv("XDG_CACHE_HOME");
}

/* No command advises to tune it; the last one of the line, bench, ends the advice. */
TEST(a_model_that_cannot_be_tuned_gets_no_advice_to_tune)
{
	static const char *const types[] = {"Hardmax", "Identity"};
	static const char *const commands[] = {"bench %s --runs 2",      "inspect %s", "tasks %s",
					       "tasks %s --unsupported", "verify %s",  "run %s --random",
					       "tune %s --budget 2s"};
	for (int i = 0; i < 2; i++) {
		char model[256], words[400];
		snprintf(model, sizeof model, "%s", one_node("untunable.onnx", types[i], "4 4"));
		for (int k = 0; k < (worker() ? 7 : 6); k++) {
			snprintf(words, sizeof words, commands[k], model);
			CHECK_RUN(0, k == 1 ? "%s" : "%s --cache %s", words, in_dir("cache"));
			CHECK(!strstr(cli_err, "hone tune"));
			if (k < 4)
				CHECK_SAYS(k == 1 ? cli_out : cli_err,
					   "othing of this model can be tuned: none of ");
			CHECK((strstr(cli_err, "Next: ") != NULL) == (k > 0));
		}
	}
}

/* inspect names an operator exactly if compile --c refuses it. */
TEST(inspect_says_which_operators_have_no_form_in_c)
{
	static const char *const types[] = {"Hardmax",         "ArgMax", "Identity", "Transpose",
					    "LpNormalization", "Trilu",  "Relu"};
	int without = 0, with = 0;
	for (int i = 0; i < (worker() ? 7 : 5); i++) { /* kernels are made for the last one */
		char model[256];
		snprintf(model, sizeof model, "%s", one_node("form.onnx", types[i], "4 4"));
		if (hone("inspect %s --json", model) != 0)
			continue;
		json_t *j = parse_out(), *list = json_object_get(j, "no_c_form");
		bool none = json_array_size(list) == 1;
		if (none)
			CHECK(!strcmp(json_string_value(json_object_get(json_array_get(list, 0), "op_type")),
				      types[i]));
		json_decref(j);
		CHECK_RUN(0, "inspect %s", model);
		CHECK((strstr(cli_out, "hone compile --c refuses the model, because it cannot write: ") != NULL) == none);
		CHECK_RUN(none, "compile %s --c -o %s --threads 1 --cache %s", model, in_dir("c"),
			  in_dir("cache"));
		CHECK((strstr(cli_err, "no form in C") != NULL) == none);
		without += none;
		with += !none;
	}
	CHECK(without >= 1 && with >= 3);
}

TEST_MAIN
