/* SPDX-License-Identifier: Apache-2.0 */
/* The command line in a user's first hour: what commands say of kernels, times, levels and folders agrees and
 * cannot be misread. */
#include "agent/cache/gain.h"
#include "platform/base/rng.h"
#include "tests/lib/cli_quantize.h"
#include "tests/lib/cli_terminal.h"

static char cache[256];

/* A cache with a kernel for each task of the steering network: the default ones. False: no worker. */
static bool filled(void)
{
	if (!worker())
		return false;
	if (!cache[0]) {
		snprintf(cache, sizeof cache, "%s", in_dir("defaults"));
		CHECK_RUN(0, KERNELS_ONCE, steering(), "", cache);
	}
	return true;
}

/* Kernels whose default schedule was kept are called default, whichever command shows them. */
TEST(default_schedules_are_called_so)
{
	static const char *const commands[] = {"tune %s --rigor estimate --budget 60s",
					       "tune %s --rigor cached", "bench %s --runs 2"};
	char words[400];
	if (!filled())
		SKIP("no hone-worker (HONE_WORKER)");
	for (int i = 0; i < 3; i++) {
		snprintf(words, sizeof words, commands[i], steering());
		CHECK_RUN(0, "%s --threads 1 --cache %s", words, cache);
		CHECK_SAYS(cli_out, "default  ");
		CHECK(!strstr(cli_out, "tuned  "));
		CHECK((strstr(cli_out, "before us") != NULL) == !i); /* nothing is measured */
		CHECK(hone_on_terminal(80, ON_OUT, "%s --threads 1 --cache %s", words, cache) == 0);
		CHECK_SAYS(cli_screen, "default  ");
	}
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", cache);
	json_t *j = parse_out(), *k;
	size_t i;
	json_array_foreach(json_object_get(j, "kernels"), i, k)
	    CHECK(json_is_true(json_object_get(k, "at_default")));
	CHECK(i > 5);
	json_decref(j);
}

/* A search leaves kernels of both kinds; a row says what explain says of its task. */
TEST(tuned_kernels_are_told_apart)
{
	char found[256];
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(found, sizeof found, "%s", in_dir("tuned"));
	CHECK_RUN(0, "tune %s --budget 3s --threads 1 --json --cache %s", steering(), found);
	json_t *tuned = parse_out(), *k;
	CHECK_RUN(0, "explain %s --threads 1 --json --cache %s", steering(), found);
	json_t *explained = parse_out(), *t;
	size_t i, at;
	int compared = 0;
	json_array_foreach(json_object_get(tuned, "kernels"), i, k)
	    json_array_foreach(json_object_get(explained, "tasks"), at, t)
	{
		const char *label = json_string_value(json_object_get(t, "label"));
		if (strcmp(label, json_string_value(json_object_get(k, "label"))))
			continue;
		compared++;
		CHECK(json_is_true(json_object_get(k, "at_default")) ==
		      json_equal(json_object_get(t, "cand"), json_object_get(t, "default_cand")));
	}
	CHECK(compared > 5);
	json_decref(tuned);
	json_decref(explained);
}

/* bench times kernels in the network, explain alone, and each says so. */
TEST(times_say_of_what_they_are)
{
	CHECK_RUN(0, "bench %s --runs 2 --threads 1 --kernels fallback", steering());
	CHECK_SAYS(cli_out,
		   "us: time of the kernel in the network; hone explain shows times of kernels alone\n");
	CHECK_RUN(0, "bench --help");
	CHECK_SAYS(cli_out, "hone explain shows");
	CHECK_RUN(0, "explain --help");
	CHECK_SAYS(cli_out, "hone bench times kernels in the");
	if (!filled())
		SKIP("no hone-worker (HONE_WORKER)");
	CHECK_RUN(0, "explain %s --threads 1 --cache %s", steering(), cache);
	CHECK_SAYS(cli_out, "Times are of each kernel alone");
}

static int times_said(const char *part)
{
	int n = 0;
	for (const char *at = cli_out; (at = strstr(at, part)); at += strlen(part))
		n++;
	return n;
}

/* A best record with the default schedule shares its row with the default record; levels have a column where
 * there are several. */
TEST(show_has_a_row_for_each_schedule)
{
	char own[256];
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(own, sizeof own, "%s", in_dir("rows"));
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", own);
	for (int levels = 1; levels < 3; levels++) {
		CHECK_RUN(0, "show --json --cache %s", own);
		json_t *j = parse_out();
		int n = (int)json_array_size(json_object_get(j, "record_list"));
		json_decref(j);
		CHECK_RUN(0, "show --cache %s", own);
		int rows = times_said("  best = default  ");
		CHECK(rows > 5 && 2 * rows == n);
		CHECK(times_said("  default  ") == 0 && times_said("  best  ") == 0);
		CHECK(times_said("  level  ") == levels - 1);
		CHECK(times_said("  exact  ") == (levels - 1) * rows / 2);
		CHECK(hone_on_terminal(60, ON_OUT, "show --cache %s", own) == 0);
		CHECK(!strstr(cli_screen, "\"level\"") || levels == 2);
		if (levels == 1)
			CHECK_RUN(0, KERNELS_ONCE, steering(), "--level exact", own);
	}
}

/* Several tasks in full: what holds of all is said once. */
TEST(explain_says_once_what_holds_of_all)
{
	if (!filled())
		SKIP("no hone-worker (HONE_WORKER)");
	CHECK_RUN(0, "explain %s conv --threads 1 --cache %s", steering(), cache);
	CHECK(times_said("  chosen   ") > 1);
	CHECK(times_said("Times are of each kernel alone") == 1);
	CHECK(times_said("* less than the roofline's time") == (times_said("* ") > 0));
}

/* A first box compares with built-in kernels, even if every kernel is then the default one; the next does not. */
TEST(gains_over_built_in_kernels_are_called_so)
{
	static const char tune[] = "tune %s --rigor estimate --budget 60s --threads 1 --cache %s";
	char fresh[256];
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(fresh, sizeof fresh, "%s", in_dir("fresh-gains"));
	CHECK_RUN(0, tune, steering(), fresh);
	CHECK(times_said("gain: over the built-in kernels that ran before this box") == 1);
	CHECK_RUN(0, tune, steering(), fresh);
	CHECK(times_said("gain: over the built-in") == 0);
}

TEST(verify_says_the_levels_of_its_kernels)
{
	CHECK_RUN(0, "verify %s --kernels fallback --threads 1", steering());
	CHECK_SAYS(cli_out, " fp32\nPASS");
	CHECK(!strstr(cli_out, "the quantised network"));
	CHECK_RUN(0, "verify %s --kernels fallback --level exact --threads 1", steering());
	CHECK_SAYS(cli_out, " exact\nPASS");
	CHECK(!strstr(cli_out, "fp32"));
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char model[256], bytes[256];
	snprintf(model, sizeof model, "%s", small_model("small.onnx", false));
	snprintf(bytes, sizeof bytes, "%s", in_dir("bytes"));
	CHECK_RUN(0, "tune %s --level int8 --data %s --rigor estimate --budget 60s --threads 1 --cache %s", model,
		  examples("data", 4), bytes);
	CHECK_RUN(0, "verify %s --level int8 --threads 1 --cache %s", model, bytes);
	CHECK_SAYS(cli_out, "levels of the kernels: ");
	CHECK_SAYS(cli_out, " int8; the reference is the quantised network, not one of floats\n");
	CHECK_RUN(0, "verify %s --level int8 --threads 1 --cache %s --json", model, bytes);
	json_t *j = parse_out(), *levels = json_object_get(j, "levels"), *n;
	CHECK(json_is_true(json_object_get(j, "quantized_reference")));
	CHECK(json_count(levels, "level", "int8") > 0);
	size_t i;
	json_int_t sum = 0;
	json_array_foreach(levels, i, n) sum += json_integer_value(json_object_get(n, "count"));
	CHECK(sum == json_integer_value(json_object_get(j, "kernel_count")));
	json_decref(j);
}

/* A model with layers of integers, and its number. */
static const char *integers(int *layers)
{
	static char path[256];
	char model[256];
	snprintf(model, sizeof model, "%s", small_model("floats.onnx", false));
	snprintf(path, sizeof path, "%s", in_dir("integers.onnx"));
	CHECK_RUN(0, "quantize %s --data %s -o %s --json", model, examples("data-q", 4), path);
	json_t *j = parse_out(), *l;
	size_t i;
	*layers = 0;
	json_array_foreach(json_object_get(j, "layers"), i, l) (*layers)++;
	json_decref(j);
	return path;
}

static json_int_t whole(const char *key)
{
	json_t *j = parse_out();
	json_int_t n = json_integer_value(json_object_get(j, key));
	json_decref(j);
	return n;
}

/* verify compares the kernels that bench runs, and counts what only the outputs check. */
TEST(verify_compares_what_bench_runs)
{
	static const char *const kinds[] = {"default", "fallback", "best"};
	char model[256], none[256];
	int layers;
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(model, sizeof model, "%s", integers(&layers));
	snprintf(none, sizeof none, "%s", in_dir("cache"));
	for (int i = 0; i < 3; i++) {
		CHECK_RUN(0, "bench %s --runs 2 --threads 1 --kernels %s --cache %s --json", model, kinds[i], none);
		json_t *j = parse_out();
		json_int_t runs = (json_int_t)json_array_size(json_object_get(j, "kernels"));
		json_decref(j);
		CHECK_RUN(0, "verify %s --threads 1 --kernels %s --cache %s --json", model, kinds[i], none);
		j = parse_out();
		json_int_t of_bytes = json_count(json_object_get(j, "levels"), "level", "int8");
		CHECK(json_integer_value(json_object_get(j, "kernel_count")) +
			  json_integer_value(json_object_get(j, "portable")) ==
		      runs);
		CHECK((of_bytes > 0) == !i);
		json_decref(j);
		CHECK_RUN(0, "verify %s --threads 1 --kernels %s --cache %s", model, kinds[i], none);
		CHECK((strstr(cli_out, " in portable C: only the outputs check ") != NULL) == (i > 0));
	}
}

/* If default kernels cannot be made, bench says which kernels run instead, and why. */
TEST(bench_says_what_runs_instead_of_default_kernels)
{
	char model[256], was[512] = "";
	int layers;
	snprintf(model, sizeof model, "%s", integers(&layers));
	snprintf(was, sizeof was, "%s", worker() ? worker() : "");
	setenv("HONE_WORKER", "/nowhere/hone-worker", 1);
	CHECK_RUN(0, "bench %s --runs 2 --threads 1 --kernels default --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_out, "no default kernel here and run");
	CHECK_SAYS(cli_out, ": no hone-worker at /nowhere/hone-worker");
	CHECK_RUN(0, "bench %s -q --runs 2 --threads 1 --kernels default --cache %s --json", model,
		  in_dir("cache"));
	CHECK(whole("not_default") > 2);
	CHECK_SAYS(cli_out, "\"not_default_why\":\"no hone-worker at /nowhere/hone-worker");
	CHECK_RUN(0, "bench %s --runs 2 --threads 1 --kernels fallback --json", model);
	CHECK(!strstr(cli_out, "not_default"));
	unsetenv("HONE_WORKER");
	if (*was)
		setenv("HONE_WORKER", was, 1);
	if (!worker())
		return;
	CHECK_RUN(0, "bench %s --runs 2 --threads 1 --kernels default --cache %s --json", model, in_dir("cache"));
	CHECK(whole("not_default") == 0);
	CHECK_SAYS(cli_out, "\"not_default_why\":null");
}

/* Times of kernels and of the network are of different moments, and explain says of which. */
TEST(explain_says_when_the_network_was_measured)
{
	char searched[256];
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(searched, sizeof searched, "%s", in_dir("moments"));
	CHECK_RUN(0, "tune %s --budget 3s --threads 1 --json --cache %s", steering(), searched);
	json_t *j = parse_out();
	bool compared = json_is_object(json_object_get(j, "gain"));
	json_decref(j);
	CHECK_RUN(0, "explain %s --threads 1 --cache %s", steering(), searched);
	/* a box that had little time leaves kernels without a time, and then there is no sum */
	bool summed = strstr(cli_out, "these kernels alone add up to ") != NULL;
	CHECK(!summed || compared);
	CHECK(summed == (strstr(cli_out, " ms, measured 20") != NULL));
}

/* After a check at a level at which nothing was tuned, the next step is to tune at it. */
TEST(verify_names_no_level_that_was_not_tuned)
{
	if (!filled())
		SKIP("no hone-worker (HONE_WORKER)");
	CHECK_RUN(0, "verify %s --threads 1 --level w16 --cache %s", steering(), cache);
	CHECK_SAYS(cli_err, "Next: hone tune ");
	CHECK_SAYS(cli_err, " --level w16 ");
	CHECK_RUN(0, "verify %s --threads 1 --cache %s", steering(), cache);
	CHECK_SAYS(cli_err, "Next: hone bench ");
	CHECK_RUN(0, KERNELS_ONCE, steering(), "--level w16", in_dir("of-w16"));
	CHECK_RUN(0, "verify %s --threads 1 --level w16 --cache %s", steering(), in_dir("of-w16"));
	CHECK_SAYS(cli_err, "Next: hone bench ");
}

/* Runs a box of `ms`, of which an error may say that it was too short for the model. Returns whether it tried
 * nothing; its exit status is 1 if it tried nothing and its cache was empty, whatever it measured. */
static bool tries_nothing(int ms, const char *folder, bool empty)
{
	int status = hone("tune %s --budget %dms --threads 1 --cache %s", steering(), ms, folder);
	if (!cli_out[0])
		return false;
	bool none = strstr(cli_out, ", 0 trials in ") || strstr(cli_out, "ended before any kernel was tried");
	if (none)
		CHECK_SAYS(cli_out, " ended before any kernel was tried");
	empty |= strstr(cli_out, "before the cache was searched") != NULL;
	if (status != (none && empty) || (strstr(cli_out, "; no kernel was kept") != NULL) != (none && empty)) {
		printf("box of %d ms, exit %d: %s", ms, status, cli_out);
		test_bad = 1;
	}
	return none;
}

/* The network may have been measured or not: both count alike. */
TEST(a_box_that_tried_nothing_says_so)
{
	int none = 0, none_there = 0;
	if (!filled())
		SKIP("no hone-worker (HONE_WORKER)");
	for (int ms = 100; ms < 420; ms += 20) {
		char fresh[32];
		snprintf(fresh, sizeof fresh, "tried%d", ms);
		none += tries_nothing(ms, in_dir(fresh), true);
		none_there += tries_nothing(ms, cache, false);
	}
	CHECK_RUN(0, "tune --help");
	CHECK_SAYS(cli_out, "ended before it tried any kernel");
	if (!none || !none_there)
		SKIP("every box tried a kernel");
}

/* The error names the option whose value is missing, for random pairs of options. */
TEST(an_option_is_no_value)
{
	static const char *const takes[] = {"budget", "level", "cache", "seed", "device", "threads"};
	static const char *const any[] = {"json", "quiet", "level", "no-cache", "wait", "builders"};
	struct rng r;
	rng_seed(&r, 5);
	for (int i = 0; i < 40; i++) {
		char says[96];
		const char *one = takes[rng_below(&r, 6)], *next = any[rng_below(&r, 6)];
		snprintf(says, sizeof says, "--%s needs a value, as in --%s", one, one);
		CHECK_RUN(2, "tune m.onnx --%s --%s", one, next);
		CHECK_SAYS(cli_err, says);
	}
}

TEST(compile_takes_a_folder_of_its_own)
{
	char to[256];
	snprintf(to, sizeof to, "%s", in_dir("project"));
	CHECK_OK(file_mkdirs(in_dir("project/src"), 0755));
	CHECK_OK(file_mkdirs(in_dir("sources"), 0755));
	CHECK_RUN(2, "compile %s -o %s --threads 1", steering(), to);
	CHECK_SAYS(cli_err,
		   "project has other files, such as src: name a new or empty folder, or one that hone "
		   "compile wrote");
	CHECK(rmdir(in_dir("project/src")) == 0);
	CHECK_OK(file_write(in_dir("project/notes.txt"), "mine", 4));
	CHECK_RUN(2, "compile %s -o %s --threads 1", steering(), to);
	CHECK_SAYS(cli_err, "such as notes.txt");
	CHECK(!file_exists(in_dir("project/plan.hone")));
	CHECK(unlink(in_dir("project/notes.txt")) == 0);
	CHECK_OK(file_write(in_dir("project/net.h"), "/* net: mine */", 15));
	CHECK_RUN(2, "compile %s -o %s --threads 1", steering(), to);
	CHECK_SAYS(cli_err, "such as net.h");
	CHECK(unlink(in_dir("project/net.h")) == 0);
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	CHECK_RUN(0, "compile %s -o %s --threads 1", steering(), to); /* it is empty */
	CHECK_RUN(0, "compile %s -o %s --threads 1", steering(), to); /* all of it is hone's */
	CHECK_OK(file_write(in_dir("project/notes.txt"), "mine", 4));
	CHECK_RUN(2, "compile %s -o %s --threads 1", steering(), to);
	CHECK_OK(file_write(in_dir("sources/notes.txt"), "mine", 4)); /* a program's sources */
	CHECK_RUN(0, "compile %s --c --name net -o %s --threads 1", steering(), in_dir("sources"));
}

/* A folder is called one, and a compiled model is. */
TEST(folders_and_compiled_models)
{
	static const char *const commands[] = {"tune %s --budget 1s",
					       "inspect %s",
					       "tasks %s",
					       "verify %s",
					       "run %s --random",
					       "bench %s",
					       "bench %s --kernels fallback",
					       "report %s -o x.html"};
	char folder[256], words[300];
	snprintf(folder, sizeof folder, "%s", in_dir("plain"));
	CHECK_OK(file_mkdirs(folder, 0755));
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		snprintf(words, sizeof words, commands[i], folder);
		CHECK(hone("%s", words) > 0);
		CHECK_SAYS(cli_err, "a folder");
		CHECK(!strstr(cli_err, "is a compiled") && !strstr(cli_err, "is compiled"));
	}
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char image[300];
	CHECK_RUN(0, "compile %s -o %s --threads 1", steering(), folder);
	snprintf(image, sizeof image, "%s/plan.hone", folder);
	CHECK_RUN(2, "tune %s --budget 1s", folder);
	CHECK_SAYS(cli_err,
		   "plain is a compiled model (a folder that hone compile wrote); name the model file");
	CHECK_RUN(2, "tune %s --budget 1s", image);
	CHECK_SAYS(cli_err, "plan.hone is a compiled model; name the model file that it was compiled from");
}

/* No Next: line begins with words that a shell does not know, or names a file that does not exist. */
TEST(next_names_what_exists)
{
	char *home = getenv("XDG_CACHE_HOME") ? strdup(getenv("XDG_CACHE_HOME")) : NULL;
	setenv("XDG_CACHE_HOME", in_dir("bare-home"), 1);
	CHECK_RUN(0, "devices");
	CHECK_SAYS(cli_err, "Next: hone zoo mobilenet_v2 -o mobilenet_v2.onnx && hone tune mobilenet_v2.onnx ");
	if (home)
		setenv("XDG_CACHE_HOME", home, 1);
	else
		unsetenv("XDG_CACHE_HOME");
	free(home);
	CHECK_RUN(0, "devices --cache %s", in_dir("cache"));
	CHECK_SAYS(cli_err, "`hone tune MODEL --budget 20s --cache ");
	CHECK(!strstr(cli_err, "Next: "));
	CHECK_RUN(0, "report %s -o %s --threads 1 --cache %s", steering(), in_dir("page.html"),
		  in_dir("cache"));
	CHECK_SAYS(cli_err, "page.html in a browser\nNext: hone tune "); /* it was not tuned */
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	CHECK(filled());
	CHECK_RUN(0, "export -o %s --cache %s", in_dir("some.json"), cache);
	CHECK_SAYS(cli_err, "on another board, hone import takes these lines\nNext: hone import ");
	CHECK_RUN(0, "compile %s --beside --threads 1", steering());
	CHECK_SAYS(cli_err, "libhone takes what was written beside ");
	CHECK(!strstr(cli_err, "Next: "));
}

/* The words of the last Next: line, after "hone". */
static const char *next_words_of(void)
{
	static char words[1024];
	const char *next = strstr(cli_err, "Next: hone ");
	snprintf(words, sizeof words, "%.*s", next ? (int)strcspn(next + 11, "\n") : 0, next ? next + 11 : "");
	return words;
}

/* Stores a gain as a box does that had the time to measure the network. */
static void put_gain_of(const char *model, const char *date, const char *in)
{
	struct gain g = {.threads = 1, .level = LEVEL_EXACT, .default_ms = 2, .now_ms = 1,
			 .shapes = "camera=1x3x66x200",
			 .faster = {2, 1.9, 2.1, 25}};
	struct cache *c;
	snprintf(g.date, sizeof g.date, "%s", date);
	snprintf(g.model, sizeof g.model, "%.159s", model);
	REQUIRE_OK(cache_open(&c, in, false, 0));
	CHECK_OK(gain_put(c, hash_text(model), &g));
	cache_close(c);
}

/* Commands that are given no model name one that the cache knows and that is still there, else one of the zoo. */
TEST(next_names_a_model_that_is_known)
{
	static const char *const commands[] = {"show --cache K", "import D/nothing --cache K", "devices --cache K",
					       "show --cache D/cache"};
	char known[256], model[256], words[1024];
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(known, sizeof known, "%s", in_dir("known"));
	snprintf(model, sizeof model, "%s", in_dir("known.onnx"));
	CHECK_RUN(0, "zoo -q steering --seed 2 -o %s", model);
	CHECK_RUN(0, KERNELS_ONCE, model, "", known);
	put_gain_of(model, "2026-01-02 03:04 UTC", known);
	put_gain_of("README.md", "2026-01-05 03:04 UTC", known); /* a file, from here alone */
	put_gain_of(in_dir(""), "2026-01-04 03:04 UTC", known);
	put_gain_of(in_dir("never.onnx"), "2026-01-03 03:04 UTC", known);
	CHECK_RUN(0, "export -q -o %s --cache %s", in_dir("nothing"), known);
	for (int gone = 0; gone < 2; gone++) {
		for (int i = 0; i < 4; i++) {
			fill_words(commands[i], "KD", (const char *const[]){known, dir}, words);
			CHECK_RUN(0, "%s", words);
			if (gone && i == 1) { /* no model of the zoo for imported records */
				CHECK(!strncmp(next_words_of(), "show", 4));
				CHECK_SAYS(cli_err, "` tunes a model of your own\n");
				continue;
			}
			if (gone || i == 3) { /* the records are of other models than the zoo's */
				CHECK(!strstr(cli_err, "Next: "));
				CHECK_SAYS(cli_err, i == 3 ? "` tunes a model of your own\n"
							   : "` runs a model with the kernels of this cache");
				continue;
			}
			CHECK_SAYS(next_words_of(), model);
			CHECK_SAYS(next_words_of(), " --level exact ");
			CHECK_SAYS(next_words_of(), " --shape camera=1x3x66x200 ");
			CHECK(!strncmp(next_words_of(), i == 1 ? "tune " : "bench ", i == 1 ? 5 : 6));
			snprintf(words, sizeof words, "%s", next_words_of());
			if (!i)
				CHECK_RUN(0, "%s --runs 2", words);
		}
		CHECK(gone || unlink(model) == 0);
	}
	CHECK_RUN(0, "show -q --cache %s", known);
	CHECK(!*cli_err);
	CHECK_RUN(0, "merge %s --cache %s", known, in_dir("merged")); /* its models are gone */
	CHECK(!strncmp(next_words_of(), "show --cache ", 13));
	CHECK_RUN(0, "zoo -q steering --seed 2 -o %s", model);
	CHECK_RUN(0, "merge %s --cache %s", known, in_dir("merged"));
	CHECK_SAYS(next_words_of(), model);
	CHECK_SAYS(next_words_of(), in_dir("merged"));
	CHECK_RUN(0, "forget --model %s --cache %s", model, in_dir("merged"));
	CHECK(!strncmp(next_words_of(), "tune ", 5));
	CHECK_SAYS(next_words_of(), model);
	/* Of several models none is better than another. */
	put_gain_of(steering(), "2026-01-06 03:04 UTC", known);
	CHECK_RUN(0, "merge %s --cache %s", known, in_dir("several"));
	CHECK(!strncmp(next_words_of(), "show --cache ", 13));
	CHECK(!strstr(cli_err, "hone tune MODEL"));
	CHECK_RUN(0, "forget --all --cache %s", in_dir("merged"));
	CHECK(!strstr(cli_err, "Next: ")); /* an empty cache has nothing to show */
	CHECK_SAYS(cli_err, "` tunes a model of your own\n");
	/* In the folder of this environment, the line names no cache. */
	char *former = getenv("XDG_CACHE_HOME") ? strdup(getenv("XDG_CACHE_HOME")) : NULL;
	char own[300];
	snprintf(own, sizeof own, "%s/hone", in_dir("xdg"));
	CHECK_OK(file_mkdirs(own, 0755));
	setenv("XDG_CACHE_HOME", in_dir("xdg"), 1);
	put_gain_of(steering(), "2026-01-02 03:04 UTC", own);
	CHECK_RUN(0, "devices");
	CHECK_SAYS(next_words_of(), "bench ");
	CHECK(!strstr(next_words_of(), "--cache"));
	CHECK_RUN(0, "show");
	CHECK_SAYS(next_words_of(), "tune ");
	CHECK(!strstr(cli_err, "--cache"));
	if (former)
		setenv("XDG_CACHE_HOME", former, 1);
	else
		unsetenv("XDG_CACHE_HOME");
	free(former);
	CHECK_RUN(0, "export --cache %s", known); /* no file that could be imported */
	CHECK(!strstr(cli_err, "Next: "));
}

/* Both streams go to one place, as in a shell with 2>&1: what was imported comes before the error. */
TEST(import_says_what_it_took_before_the_error)
{
	char lines[256], to[256], text[4096];
	if (!filled())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(lines, sizeof lines, "%s", in_dir("lines.json"));
	snprintf(to, sizeof to, "%s", in_dir("imported"));
	CHECK_RUN(0, "export -q -o %s --cache %s", lines, cache);
	CHECK_RUN(1, "import %s %s --cache %s", lines, in_dir("gone.json"), to);
	CHECK_SAYS(cli_out, " imported into ");
	CHECK(!strstr(cli_err, "Next:"));
	CHECK_SAYS(cli_err, "gone.json: No such file");
	CHECK_OK(file_write(in_dir("prose.txt"), "hello\n", 6));
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		char *argv[] = {"hone", "import", (char *)in_dir("prose.txt"), "--cache", to, NULL};
		redirect(1, in_dir("both"));
		dup2(1, 2);
		setvbuf(stdout, NULL, _IOFBF, 1 << 16); /* tests print line by line */
		_exit(hone_main(5, argv));
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1);
	slurp(in_dir("both"), text, sizeof text);
	const char *sum = strstr(text, "0 records imported"), *error = strstr(text, "error: ");
	CHECK(sum && error && sum < error);
}

TEST_MAIN
