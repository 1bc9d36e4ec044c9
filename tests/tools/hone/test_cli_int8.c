/* SPDX-License-Identifier: Apache-2.0 */
/* --level int8 and --error: a model of floats is quantised by a recipe, which all commands and libhone use.
 */
#include "agent/cache/gain.h"
#include "agent/run/hone.h"
#include "platform/base/log.h"
#include "tests/lib/cli_quantize.h"
#include "tests/lib/plan_c.h"
#include "tests/lib/scratch.h"

#include <math.h>

enum { OUT = 4 * (SIDE - 2) * (SIDE - 2) };

static char model[256], data[256], cache[256];

static bool begin(const char *name)
{
	snprintf(model, sizeof model, "%s", small_model("small.onnx", false));
	snprintf(data, sizeof data, "%s", examples("data", 10));
	snprintf(cache, sizeof cache, "%s", in_dir(name));
	log_level_set(LOG_NORMAL); /* libhone in the cases before lowers it */
	return worker() != NULL;
}

#define TUNE "tune %s --level int8 --data %s --budget 3s --threads 1 --cache %s"

/* Runs the first example and reads the output. */
static void run_floats(const char *options, float *out)
{
	struct arena a = {0};
	struct tensor t;
	CHECK_RUN(0, "run %s --input x=%s/0.npy --threads 1 -o %s %s", model, data, in_dir("out"), options);
	CHECK_OK(tensor_read(&a, in_dir("out/y.npy"), &t, NULL));
	CHECK(shape_count(&t.shape) == OUT);
	memcpy(out, t.data, sizeof *out * OUT);
	arena_free(&a);
}

static double distance(const float *x, const float *y)
{
	double diff = 0, most = 0;
	for (int i = 0; i < OUT; i++) {
		diff += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
		most += (double)y[i] * (double)y[i];
	}
	return sqrt(diff / most);
}

/* libhone with these flags on the same input. */
static void run_libhone(unsigned flags, float *out)
{
	const char *const caches[] = {cache};
	struct hone_options o = {
	    .size = sizeof o, .caches = caches, .ncaches = 1, .threads = 1, .flags = flags};
	struct hone_handle *h;
	struct hone_model *m;
	struct arena a = {0};
	struct tensor t;
	char path[300];
	snprintf(path, sizeof path, "%s/0.npy", data);
	CHECK_OK(tensor_read(&a, path, &t, NULL));
	REQUIRE_OK(hone_open(&o, &h));
	REQUIRE_OK(hone_load(h, model, NULL, &m));
	CHECK_OK(hone_bind_input(m, 0, t.data, sizeof(float) * 3 * SIDE * SIDE));
	CHECK_OK(hone_bind_output(m, 0, out, sizeof *out * OUT));
	CHECK_OK(hone_run(m));
	hone_model_close(m);
	hone_close(h);
	arena_free(&a);
}

/* The model at int8 as C on the same input. */
static void run_as_c(float *out)
{
	struct arena a = {0};
	struct tensor t;
	char path[300], options[400];
	snprintf(path, sizeof path, "%s/0.npy", data);
	snprintf(options, sizeof options, "--level int8 --cache %s", cache);
	CHECK_OK(tensor_read(&a, path, &t, NULL));
	CHECK(run_c(model, options, &t, out, sizeof *out * OUT) == sizeof *out * OUT);
	arena_free(&a);
}

/* Without a recipe, HONE_NEEDS_RECIPE makes the command's error of the load, also where an image of the floats
 * was kept. */
static void check_needs_recipe(void)
{
	struct hone_options o = {
	    .size = sizeof o, .threads = 1, .caches = (const char *const[]){cache}, .ncaches = 1};
	for (int strict = 0; strict < 2; strict++)
		for (int i = 0; i < 2; i++) {
			struct hone_handle *h;
			struct hone_model *m = NULL;
			o.flags = HONE_INT8 | HONE_KEEP_IMAGES | (strict ? HONE_NEEDS_RECIPE : 0);
			REQUIRE_OK(hone_open(&o, &h));
			int rc = hone_load(h, model, NULL, &m);
			if (strict)
				CHECK_FAILS(rc, HONE_NOTFOUND, "hone tune MODEL --level int8 --data DIR");
			else
				CHECK_OK(rc);
			CHECK(strict == !m);
			hone_model_close(m);
			hone_close(h);
		}
}

static void check_report(const json_t *j)
{
	const json_t *q = json_object_get(j, "recipe");
	check_keys(q, "layer_count quantized_layers examples held_out measured_error held_out_error limit");
	CHECK(json_integer_value(json_object_get(q, "layer_count")) == 2);
	CHECK(json_integer_value(json_object_get(q, "quantized_layers")) == 2);
	CHECK(json_integer_value(json_object_get(q, "held_out")) == 2);
	CHECK(json_number_value(json_object_get(q, "measured_error")) <= .05);
	CHECK(json_number_value(json_object_get(q, "held_out_error")) <= .05);
	CHECK(json_number_value(json_object_get(q, "limit")) == .05);
}

/* Gains at level int8 that the status shows of the cache. */
static int gains_at_int8(void)
{
	json_t *g;
	size_t i;
	int n = 0;
	CHECK_RUN(0, "status --json --cache %s", cache);
	json_t *j = parse_out();
	json_array_foreach(json_object_get(j, "gains"), i, g)
		n += !strcmp(json_string_value(json_object_get(g, "level")), "int8");
	json_decref(j);
	return n;
}

/* All layers run on the device. */
TEST(a_device_runs_the_recipe)
{
	static float here[OUT], there[OUT];
	char options[400];
	if (!begin("there"))
		SKIP("no hone-worker (HONE_WORKER)");
	setenv("POCL_CACHE_DIR", scratch_folder(), 0);
	CHECK_RUN(0, "devices --cache %s", cache);
	if (!strstr(cli_out, "opencl:0: "))
		SKIP("no OpenCL device: apt-get install pocl-opencl-icd");
	/* Before that, the advice is to tune for the device, which helps. */
	CHECK_RUN(0, TUNE, model, data, in_dir("here-alone"));
	CHECK_RUN(0, "bench %s --level int8 --runs 2 --threads 1 --device opencl:0 --cache %s", model,
		  in_dir("here-alone"));
	CHECK_SAYS(cli_out, "(8-bit integers run there only in tuned kernels)");
	CHECK_SAYS(cli_err, "Next: hone tune ");
	CHECK(strstr(cli_err, " --level int8 ") && strstr(cli_err, " --device opencl:0"));
	CHECK_RUN(0,
		  "tune %s --level int8 --data %s --rigor estimate --budget 60s --threads 1 --device opencl:0 "
		  "--cache %s",
		  model, data, cache);
	snprintf(options, sizeof options, "--cache %s --level int8", cache);
	run_floats(options, here);
	strcat(options, " --device opencl:0");
	CHECK_RUN(0, "verify %s --threads 1 %s", model, options);
	strcat(options, " --require-cache");
	run_floats(options, there);
	CHECK(!memcmp(here, there, sizeof here));
	CHECK_RUN(0, "bench %s --json --runs 2 --threads 1 %s", model, options);
	CHECK(cli_kernels_there() >= 3);
}

/* A folder with the model, the first example and the answer in floats. Returns its path. */
static const char *onnx_folder(void)
{
	struct arena a = {0};
	struct tensor t;
	char path[400];
	snprintf(path, sizeof path, "%s", folder("case/test_data_set_0"));
	CHECK_RUN(0, "run %s --input x=%s/0.npy --threads 1 --pb -o %s", model, data, path);
	CHECK(rename(in_dir("case/test_data_set_0/y.pb"), in_dir("case/test_data_set_0/output_0.pb")) == 0);
	snprintf(path, sizeof path, "%s/0.npy", data);
	CHECK_OK(tensor_read(&a, path, &t, NULL));
	CHECK_OK(tensor_write(in_dir("case/test_data_set_0/input_0.pb"), &t, "x"));
	arena_free(&a);
	CHECK(symlink(model, in_dir("case/model.onnx")) == 0);
	return in_dir("case");
}

/* onnx-test runs the recipe of the cache, and allows the error of bytes. */
static void check_onnx_test(void)
{
	char folder[400];
	snprintf(folder, sizeof folder, "%s", onnx_folder());
	setenv("XDG_CACHE_HOME", in_dir("none"), 1);
	CHECK_RUN(1, "onnx-test %s --level int8 --threads 1", folder);
	unsetenv("XDG_CACHE_HOME");
	CHECK_SAYS(cli_out, "needs examples of inputs, which were not given yet");
	for (int i = 0; i < 3; i++) {
		static const char *const kinds[] = {"fallback", "default", "best"};
		CHECK_RUN(0, "onnx-test %s --level int8 --kernels %s --threads 1 --cache %s", folder,
			  kinds[i], cache);
		CHECK_SAYS(cli_out, "1 passed, 0 failed");
	}
}

TEST(every_command_runs_the_recipe)
{
	static float exact[OUT], bytes[OUT], lib[OUT];
	char options[400];
	if (!begin("all"))
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(options, sizeof options, "--cache %s", cache);
	CHECK_RUN(0, TUNE " --error .05 --json", model, data, cache);
	json_t *j = parse_out();
	check_report(j);
	CHECK(json_is_false(json_object_get(j, "recipe_replaced")));
	CHECK(gains_at_int8() == json_is_object(json_object_get(j, "gain")));
	CHECK(json_number_value(json_object_get(j, "quantize_s")) > 0);
	CHECK(json_number_value(json_object_get(j, "elapsed_s")) < 3.5); /* the box, without that */
	json_decref(j);
	CHECK_RUN(0, TUNE, model, data, in_dir("quantised"));
	CHECK_SAYS(cli_out, "int8: quantising took ");
	CHECK_SAYS(cli_out, " s before the box, which does not count them\n");
	CHECK_RUN(0, "tune %s --level int8 --budget 1s --threads 1 --cache %s", model, in_dir("quantised"));
	CHECK(!strstr(cli_out, "quantising took"));
	REQUIRE(mkdir(in_dir("xdg"), 0755) == 0 && symlink(cache, in_dir("xdg/hone")) == 0);
	setenv("XDG_CACHE_HOME", in_dir("xdg"), 1);
	CHECK_RUN(0, "tasks %s --level int8", model); /* the default cache has the recipe */
	CHECK_SAYS(cli_out, " u8");
	unsetenv("XDG_CACHE_HOME");
	run_floats("", exact);
	strcat(options, " --level int8 --require-cache");
	run_floats(options, bytes);
	double error = distance(bytes, exact);
	CHECK(error > 1e-5 && error < .05);
	CHECK_RUN(0, "explain %s --level int8 --threads 1 --cache %s --json", model, cache);
	j = parse_out();
	check_report(j);
	json_decref(j);
	CHECK_RUN(0, "explain %s --level int8 --threads 1 --cache %s", model, cache);
	CHECK_SAYS(cli_out, "int8: 2 of 2 layers quantised; error of the outputs ");
	CHECK_SAYS(cli_out, "; at most 5.00e-02 was asked for");
	CHECK_RUN(0, "explain %s --threads 1 --cache %s --json", model, cache);
	CHECK_SAYS(cli_out, "\"recipe\":null");
	CHECK_RUN(0, "bench %s --level int8 --runs 2 --threads 1 --cache %s", model, cache);
	CHECK_RUN(0, "verify %s --level int8 --threads 1 --cache %s", model, cache);
	CHECK_RUN(0, "bench %s --level int8 --kernels default --runs 2 --threads 1 --cache %s", model, cache);
	CHECK_RUN(0, "bench %s --level int8 --kernels fallback --runs 2 --threads 1 --cache %s", model,
		  cache);
	CHECK_RUN(0, "verify %s --level int8 --kernels fallback --threads 1 --cache %s", model, cache);
	check_onnx_test();
	CHECK_RUN(0, "compile %s --level int8 --threads 1 --cache %s -o %s", model, cache, in_dir("bundle"));
	run_libhone(HONE_INT8, lib);
	CHECK(!memcmp(lib, bytes, sizeof lib));
	run_as_c(lib);
	CHECK(!memcmp(lib, bytes, sizeof lib));
	run_libhone(0, lib);
	CHECK(distance(lib, exact) < 1e-5);
	CHECK_RUN(0, "tune %s --level int8 --budget 1s --threads 1 --cache %s", model,
		  cache); /* no examples */
	CHECK(!strstr(cli_out, "takes the place"));
	CHECK_RUN(0,
		  "tune %s --level int8 --data random --rigor estimate --budget 60s --threads 1 --cache %s",
		  model, cache);
	CHECK_SAYS(cli_out, "int8: this recipe takes the place of another one");
	CHECK(gains_at_int8() <= 1);
	CHECK_RUN(0, "forget --model %s --cache %s", model, cache);
	CHECK_SAYS(cli_out, ", and its recipe of level int8, which needs examples");
	CHECK_RUN(1, "bench %s --level int8 --runs 2 --threads 1 --cache %s", model, cache);
	run_libhone(HONE_INT8, lib); /* floats stay floats */
	check_needs_recipe();
	CHECK(distance(lib, exact) < 1e-2 && memcmp(lib, bytes, sizeof lib));
}

/* The recorded tasks of the model at int8 are replayed by a recipe that is given, or that a cache has. */
TEST(recordings_are_replayed)
{
	static char first[sizeof cli_out];
	char from[256], land[256], lines[256], recipes[256];
	if (!begin("recorded"))
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(from, sizeof from, "%s", cache);
	snprintf(land, sizeof land, "%s", in_dir("land"));
	snprintf(lines, sizeof lines, "%s", in_dir("recorded.jsonl"));
	snprintf(recipes, sizeof recipes, "%s", in_dir("recipes"));
	CHECK_RUN(0, TUNE " --record %s", model, data, from, land);
	for (int i = 0; i < 2; i++) {
		CHECK_RUN(0, "tune %s --level int8 --data %s --budget 2s --device replay:%s --json", model, data, land);
		json_t *j = parse_out(), *kernels = json_object_get(j, "kernels");
		CHECK(json_integer_value(json_object_get(json_object_get(j, "recipe"), "quantized_layers")) ==
		      2);
		CHECK(json_array_size(kernels) >= 3 && strstr(cli_out, "conv 3x3 3->8") &&
		      strstr(cli_out, " u8\""));
		json_decref(j);
		if (i)
			CHECK(!strcmp(first, cli_out));
		memcpy(first, cli_out, sizeof first);
	}
	CHECK_RUN(1, "tune %s --level int8 --budget 2s --device replay:%s --cache %s", model, land, recipes);
	CHECK_SAYS(cli_err, "level int8 needs examples of inputs");
	CHECK_RUN(0, "export -o %s --cache %s", lines, from);
	CHECK_RUN(0, "import %s --recipes --cache %s", lines, recipes);
	CHECK_RUN(0, "tune %s --level int8 --budget 2s --device replay:%s --cache %s", model, land, recipes);
	CHECK_SAYS(cli_out, "int8: 2 of 2 layers quantised");
	CHECK_SAYS(cli_out, "a replay of");
}

/* Runs the model at int8 with the recipe of a cache, and returns its outputs. false: the cache has none. */
static bool answers(const char *of, float *out)
{
	char options[400];
	snprintf(options, sizeof options, "--level int8 --cache %s", of);
	if (hone("run %s --input x=%s/0.npy --threads 1 %s", model, data, options)) {
		CHECK_SAYS(cli_err, "level int8 needs examples of inputs");
		return false;
	}
	run_floats(options, out);
	return true;
}

/* Another recipe for the model, of examples that are smaller. */
static const char *other_recipe(void)
{
	char path[400];
	snprintf(cache, sizeof cache, "%s", in_dir("other"));
	for (int i = 0; i < 10; i++) {
		snprintf(path, sizeof path, "%s/%d.npy", folder("less"), i);
		write_tensor(path, "x", 1, 3, .1f);
	}
	CHECK_RUN(0, TUNE, model, in_dir("less"), cache);
	return in_dir("other");
}

static bool same(const float *x, const float *y)
{
	return !memcmp(x, y, sizeof *x * OUT);
}

/* A recipe goes from cache to cache by the order of its owner. */
TEST(recipes_travel)
{
	static float own[OUT], other[OUT], got[OUT];
	char from[256], to[256], lines[256], more[256], another[256];
	if (!begin("from"))
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(from, sizeof from, "%s", cache);
	snprintf(to, sizeof to, "%s", in_dir("to"));
	snprintf(lines, sizeof lines, "%s", in_dir("lines"));
	snprintf(more, sizeof more, "%s", in_dir("more"));
	CHECK_RUN(0, TUNE, model, data, from);
	snprintf(another, sizeof another, "%s", other_recipe());
	CHECK(answers(from, own) && answers(another, other) && !same(own, other));
	CHECK_RUN(0, "export -o %s --cache %s", lines, from);
	CHECK_RUN(0, "export -o %s --cache %s", more, another);
	CHECK_RUN(0, "import %s --cache %s", lines, to);
	CHECK_SAYS(cli_err, "1 recipe of level int8 passed over: --recipes takes");
	CHECK(!answers(to, got));
	CHECK_RUN(0, "import %s --recipes --json --cache %s", lines, to);
	CHECK(out_number("recipes") == 1);
	CHECK(answers(to, got) && same(got, own));
	CHECK_RUN(0, "import %s --recipes --json --cache %s", more, to);
	CHECK(out_number("recipes") == 0);
	CHECK_SAYS(cli_err, "1 recipe of this cache differs from the imported and stays: --replace");
	CHECK(answers(to, got) && same(got, own));
	CHECK_RUN(0, "merge %s --cache %s", another, to);
	CHECK(answers(to, got) && same(got, own));
	CHECK_RUN(2, "import %s --replace --cache %s", more, to);
	CHECK_RUN(0, "import %s --recipes --replace --json --cache %s", more, to);
	CHECK(out_number("recipes") == 1);
	CHECK(answers(to, got) && same(got, other));
	CHECK_RUN(0, "merge %s --cache %s", from, in_dir("merged"));
	CHECK(answers(in_dir("merged"), got) && same(got, own));
}

/* Packs: as a seed that only root and this user may write, the recipe serves; with its kernels nothing is
 * missing, and boxes need no examples. As a folder that others may write it does not serve. */
TEST(a_pack_brings_a_recipe)
{
	static float own[OUT], got[OUT];
	char from[256], seed[256], robot[256], pack[300];
	if (!begin("packed"))
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(from, sizeof from, "%s", cache);
	snprintf(seed, sizeof seed, "%s", folder("seed"));
	snprintf(robot, sizeof robot, "%s", in_dir("robot"));
	snprintf(pack, sizeof pack, "%s/models.seg", seed);
	CHECK_RUN(0, TUNE, model, data, from);
	CHECK(answers(from, own));
	CHECK_RUN(0, "pack -o %s --cache %s", pack, from);
	CHECK_RUN(0, "import %s --unsigned --cache %s", pack, robot);
	CHECK_SAYS(cli_err, "--recipes takes");
	CHECK(!answers(robot, got));
	CHECK_RUN(0, "import %s --unsigned --recipes --json --cache %s", pack, in_dir("importer"));
	CHECK(out_number("recipes") == 1);
	CHECK(answers(in_dir("importer"), got) && same(got, own));
	setenv("HONE_SEEDS", seed, 1);
	CHECK(answers(robot, got) && same(got, own));
	CHECK_RUN(0, "bench %s --level int8 --require-cache --runs 2 --threads 1 --cache %s", model, robot);
	CHECK_RUN(0, "tune %s --level int8 --budget 1s --threads 1 --cache %s --json", model, robot);
	json_t *j = parse_out();
	CHECK(json_integer_value(json_object_get(json_object_get(j, "recipe"), "quantized_layers")) == 2);
	json_decref(j);
	CHECK_RUN(0, "pack -o %s --no-code --cache %s", pack, from);
	CHECK(answers(robot, got) && same(got, own));
	CHECK(chmod(pack, 0666) == 0);
	CHECK(!answers(folder("fresh"), got));
	CHECK_RUN(1, "tune %s --level int8 --budget 1s --threads 1 --cache %s", model, in_dir("fresh"));
	setenv("HONE_SEEDS", "", 1);
}

/* Commands that run a model say where the level leaves it as it is, once. */
static void check_says_floats(const char *path, const char *why)
{
	static const char *const command[] = {"bench %s --runs 2 --threads 1 --cache %s%s%s",
					      "run %s --random --threads 1 --cache %s%s%s",
					      "verify %s --threads 1 --cache %s%s%s"};
	char line[300];
	snprintf(line, sizeof line, "which runs as floats: %s\n", why);
	for (int i = 0; i < 3; i++) {
		CHECK_RUN(0, command[i], path, cache, " --level int8", "");
		const char *first = strstr(cli_err, line);
		CHECK(first && !strstr(first + 1, line));
		CHECK_RUN(0, command[i], path, cache, " --level int8", " --json");
		json_t *j = parse_out();
		const json_t *of = i ? j : json_array_get(json_object_get(j, "models"), 0);
		const char *said = json_string_value(json_object_get(of ? of : j, "not_quantized"));
		CHECK(said && !strcmp(said, why));
		json_decref(j);
		CHECK_RUN(0, command[i], path, cache, "", " --json");
		CHECK(!strstr(cli_err, "runs as floats") && strstr(cli_out, "\"not_quantized\":null"));
	}
}

TEST(a_limit_that_no_layer_keeps)
{
	if (!begin("none"))
		SKIP("no hone-worker (HONE_WORKER)");
	CHECK_RUN(0, TUNE " --error 1e-6", model, data, cache);
	CHECK_SAYS(cli_out, "int8: no layer is quantised: none keeps the error within 1.00e-06; its kernels are "
			    "those of floats, which commands find with --level int8 alone: tune it without");
	CHECK_SAYS(cli_err, " --level int8");
	CHECK_RUN(1, "tune %s --rigor cached --threads 1 --cache %s", model, cache);
	CHECK_SAYS(cli_out,
		   " of this model are in the cache for --level int8 alone: give --level int8 to run them");
	CHECK_RUN(0, "bench %s --runs 2 --threads 1 --cache %s", model, cache);
	CHECK_SAYS(cli_out, " of this model are in the cache for --level int8 alone");
	CHECK_RUN(0, "bench %s --level int8 --runs 2 --threads 1 --cache %s", model, cache);
	CHECK(!strstr(cli_out, "for --level int8 alone"));
	check_says_floats(model, "its recipe keeps all 2 layers as floats");
}

/* Half of them vanish within the steps that the others need. */
static const char *uneven_examples(void)
{
	char path[400];
	for (int i = 0; i < 10; i++) {
		snprintf(path, sizeof path, "%s/%d.npy", folder("uneven"), i);
		write_tensor(path, "x", 1, 3, i % 2 ? 1 : 1e-4F);
	}
	return in_dir("uneven");
}

/* Adds a line to the cache's recipe that is neither a value nor a layer. Returns whether there was one. */
static bool damage_recipe(void)
{
	struct cache *c;
	struct arena a = {0};
	struct blob old;
	struct key *k;
	if (cache_open(&c, cache, false, 0) < 0)
		return false;
	int n = cache_keys(c, CACHE_RECIPE, &a, &k);
	bool there = n == 1 && cache_get(c, CACHE_RECIPE, k[0], &a, &old) >= 0;
	const char *text = there ? arena_printf(&a, "%.*sx\n", (int)old.n, (const char *)old.p) : "";
	there = there && cache_put(c, CACHE_RECIPE, k[0], text, strlen(text)) >= 0;
	cache_close(c);
	arena_free(&a);
	return there;
}

/* A limit that was asked for holds, and the report says what it cost; examples that are no use cost nothing. */
TEST(a_recipe_without_layers_replaces_a_good_one_only_if_asked)
{
	static const char once[] = "tune %s --level int8 --data %s --rigor estimate --budget 60s --threads 1 --cache %s %s";
	static float good[OUT], now[OUT];
	char uneven[256];
	if (!begin("fewer"))
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(uneven, sizeof uneven, "%s", uneven_examples());
	CHECK_RUN(0, once, model, data, cache, "--error .05");
	REQUIRE(answers(cache, good));
	CHECK_RUN(0, once, model, uneven, cache, "");
	CHECK_SAYS(cli_out, "int8: these examples leave no layer to quantise, so the cache's recipe stays (2 of 2 layers "
			    "quantised, error ");
	CHECK(answers(cache, now) && same(good, now));
	CHECK_RUN(0, once, model, uneven, cache, "--json");
	json_t *j = parse_out(), *former = json_object_get(j, "recipe_former");
	CHECK(json_is_true(json_object_get(j, "recipe_stays")) && json_is_false(json_object_get(j, "recipe_replaced")));
	CHECK(json_integer_value(json_object_get(former, "quantized_layers")) == 2);
	json_decref(j);
	CHECK_RUN(0, once, model, data, cache, "--error 1e-6");
	CHECK_SAYS(cli_out, "int8: this recipe, which quantises fewer layers, takes the place of another one that the cache "
			    "had (2 of 2 layers quantised, error ");
	CHECK_SAYS(cli_out, "; to have that one again, with DIR of its examples: hone tune ");
	CHECK_SAYS(cli_out, " --level int8 --data DIR --error 0.05 --budget 60s ");
	CHECK(answers(cache, now) && !same(good, now));
	CHECK_RUN(0, once, model, data, cache, "--error .05 --json");
	j = parse_out();
	CHECK(json_is_true(json_object_get(j, "recipe_replaced")));
	json_decref(j);
	CHECK(answers(cache, now) && same(good, now));
	/* A damaged one does not stay, though its first lines are good. */
	REQUIRE(damage_recipe());
	CHECK_RUN(0, once, model, uneven, cache, "--json");
	j = parse_out();
	CHECK(json_is_false(json_object_get(j, "recipe_stays")) && json_is_true(json_object_get(j, "recipe_replaced")));
	json_decref(j);
}

/* Lets the gain of floats that the cache has say another time. Returns whether there was one. */
static bool floats_took(double ms)
{
	struct cache *c;
	struct arena a = {0};
	struct gain g;
	struct key *k;
	bool there = false;
	if (cache_open(&c, cache, false, 0) < 0)
		return false;
	for (int i = 0, n = cache_keys(c, CACHE_GAIN, &a, &k); i < n; i++) {
		if (!gain_get(c, k[i], &g) || g.level != LEVEL_FP32)
			continue;
		g.now_ms = ms;
		CHECK_OK(gain_put(c, k[i], &g));
		there = true;
	}
	cache_close(c);
	arena_free(&a);
	return there;
}

/* A box at int8 says that the same model was faster as floats. */
TEST(integers_that_are_slower_than_floats)
{
	static const double took_ms[] = {1e-6, 1e6};
	if (!begin("slower"))
		SKIP("no hone-worker (HONE_WORKER)");
	CHECK_RUN(0, TUNE " --json", model, data, cache);
	CHECK_SAYS(cli_out, "\"slower_than_fp32\":null");
	CHECK_RUN(0, "tune %s --budget 3s --threads 1 --cache %s", model, cache);
	if (!floats_took(1))
		SKIP("no box had time to compare the floats");
	for (int i = 0; i < 2; i++) {
		CHECK(floats_took(took_ms[i]));
		CHECK_RUN(0, TUNE, model, data, cache);
		CHECK((strstr(cli_out, ", slower than level fp32, which took ") != NULL) == !i);
		CHECK_RUN(0, TUNE " --json", model, data, cache);
		json_t *j = parse_out(), *slower = json_object_get(j, "slower_than_fp32");
		CHECK(i ? json_is_false(slower) : json_is_true(slower));
		CHECK(json_is_number(json_object_get(j, "fp32_ms")));
		json_decref(j);
	}
}

/* There is nothing to quantise, so nothing is missing. */
TEST(a_model_without_layers)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(model, sizeof model, "%s", one_node("relu.onnx", "Relu", "1 4 9 9"));
	snprintf(cache, sizeof cache, "%s", in_dir("layers"));
	CHECK_RUN(0, "tune %s --level int8 --budget 1s --threads 1 --cache %s", model, cache);
	check_says_floats(model, "it has no layer that can be quantised");
}

TEST(what_is_refused)
{
	begin("refused");
	CHECK_RUN(2, "tune %s --error 1e-2 --cache %s", model, cache);
	CHECK_SAYS(cli_err, "--error needs examples of inputs: --data DIR");
	static const char *const pictures[] = {"examples 3",  "resize 3x3",  "mean 1",
					       "scale 1/255", "layout nhwc", "channels bgr"};
	for (int i = 0; i < 12; i++) { /* also with the level, they say how a folder is read that is not there */
		char says[64];
		CHECK_RUN(2, "tune %s --%s %s --cache %s", model, pictures[i / 2],
			  i % 2 ? "--level int8" : "", cache);
		snprintf(says, sizeof says, "--%.*s needs examples of inputs: --data DIR",
			 (int)strcspn(pictures[i / 2], " "), pictures[i / 2]);
		CHECK_SAYS(cli_err, says);
	}
	CHECK_RUN(2, "tune %s --data %s --cache %s", model, data, cache);
	CHECK_SAYS(cli_err, "--data goes with --level int8");
	CHECK_RUN(2, "tune %s --data %s --level fp32 --cache %s", model, data, cache);
	CHECK_SAYS(cli_err, "--data is for --level int8, not for fp32");
	CHECK_RUN(2, "tune %s --data %s --exact --cache %s", model, data, cache);
	CHECK_RUN(2, "tune %s --level int8 --data %s --rigor cached --cache %s", model, data, cache);
	CHECK_RUN(2, "tune %s --level int8 --data %s --error none --cache %s", model, data, cache);
	CHECK_SAYS(cli_err, "--error none: a number above 0");
	CHECK_RUN(1, "tune %s --level int8 --data %s --cache %s", model, in_dir("no-such-folder"), cache);
	CHECK_RUN(2, "tune %s --level int8 --data %s --background", model, data);
	CHECK_RUN(1, "tune %s --level int8 --budget 1s --cache %s", model, cache);
	CHECK_SAYS(cli_err, "level int8 needs examples of inputs");
	CHECK_SAYS(cli_err, "--level int8 --data DIR");
}

/* Without a recipe in the cache, the next box needs the examples again. */
TEST(the_next_box_has_the_examples)
{
	char again[700];
	if (!begin("next"))
		SKIP("no hone-worker (HONE_WORKER)");
	CHECK_RUN(0, TUNE " --error .05 --examples 8 --no-cache", model, data, in_dir("next-cache"));
	snprintf(again, sizeof again, "hone tune %s --data %s --examples 8 --error .05 --budget 3s", model,
		 data);
	CHECK_SAYS(cli_err, again);
	stop_with = SIGINT;
	CHECK_RUN(130, TUNE " --scale 1/255", model, data, in_dir("stopped"));
	stop_with = 0;
	const char *next = strstr(cli_err, "Next: hone tune");
	CHECK(next != NULL);
	CHECK(!next || strstr(next, " --data ") ||
	      hone("explain %s --level int8 --threads 1 --cache %s", model, in_dir("stopped")) == 0);
	CHECK_RUN(0, TUNE, model, data, in_dir("next-cache"));
	CHECK(!strstr(cli_err, "--data"));
}

TEST_MAIN
