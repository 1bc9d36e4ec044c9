/* SPDX-License-Identifier: Apache-2.0 */
/* hone tune --library: a library's kernels win where they are faster, and nowhere else; one that crashes,
 * hangs or answers wrong is data; one that has gone or changed is replaced by hone's kernel. */
#include "platform/base/rng.h"
#include "tests/lib/cli_model.h"

enum { ROWS = 64, K = 256, N = 320 };

/* Compiles tests/lib/backend_shim.c to a file of this folder. Returns its path. */
static const char *shim(const char *file, int way, const char *version)
{
	static char path[256], cmd[1024];
	snprintf(path, sizeof path, "%s", in_dir(file));
	snprintf(cmd, sizeof cmd,
		 "%s -O2 -shared -fPIC -Wl,--build-id -I. -DWAY=%d -DVERSION='\"%s\"' "
		 "tests/lib/backend_shim.c -o %s -lm",
		 getenv("CC") ? getenv("CC") : "cc", way, version, path);
	if (system(cmd) != 0)
		abort();
	return path;
}

/* A product of ROWS x K values with constant K x N ones, plus a bias, then relu. Returns its path. */
static const char *product(void)
{
	static char path[256];
	static float w[K * N], bias[N];
	struct onnx_maker k;
	struct rng r;
	if (path[0])
		return path;
	rng_seed(&r, 3);
	rng_fill(&r, w, K * N);
	rng_fill(&r, bias, N);
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "64 256");
	mk_init(&k, "W", 1, "256 320", w, sizeof w);
	mk_init(&k, "B", 1, "320", bias, sizeof bias);
	mk_node(&k, "MatMul", "x W", "p");
	mk_node(&k, "Add", "p B", "s");
	mk_node(&k, "Relu", "s", "y");
	mk_output(&k, "y");
	snprintf(path, sizeof path, "%s", write_model(&k, "product.onnx"));
	return path;
}

#define BOX "tune %s --budget 6s --rigor quick --threads 1 --json --library %s --cache %s"

/* The back end that runs the model's only task, by hone explain --placement. */
static const char *winner(const char *cache)
{
	static char name[32];
	CHECK_RUN(0, "explain %s --placement --json --threads 1 --cache %s", product(), cache);
	json_t *report = parse_out(), *all = json_object_get(report, "placement");
	const char *who = json_string_value(json_object_get(json_array_get(all, 0), "winner"));
	snprintf(name, sizeof name, "%s", who ? who : "");
	json_decref(report);
	return name;
}

/* What happened to the shim's candidate in the box; "": it was not tried. */
static const char *status_of_shim(const char *cache)
{
	static char status[32];
	status[0] = 0;
	CHECK_RUN(0, "explain %s --placement --json --threads 1 --cache %s", product(), cache);
	json_t *report = parse_out(), *all = json_object_get(report, "placement"), *a;
	size_t i;
	json_array_foreach(json_object_get(json_array_get(all, 0), "alternatives"), i,
			   a) if (!strcmp(json_string_value(json_object_get(a, "backend")), "shim"))
	    snprintf(status, sizeof status, "%s", json_string_value(json_object_get(a, "status")));
	json_decref(report);
	return status;
}

/* The schedule of the cache's record of this kind. */
static void schedule_of(const char *cache, const char *kind, char out[512])
{
	CHECK_RUN(0, "show --json --cache %s", cache);
	json_t *report = parse_out(), *r;
	size_t i;
	out[0] = 0;
	json_array_foreach(json_object_get(report, "record_list"), i, r)
	{
		const char *is = json_string_value(json_object_get(r, "record_kind")),
			   *cand = json_string_value(json_object_get(r, "cand"));
		if (is && cand && !strcmp(is, kind))
			snprintf(out, 512, "%s", cand);
	}
	json_decref(report);
}

/* Whether hone's own best schedule, which is kept beside the library's kernel, is the default one. */
static bool own_is_default(const char *cache)
{
	char own[512], standard[512];
	schedule_of(cache, "own", own);
	schedule_of(cache, "default", standard);
	CHECK(own[0] && strncmp(own, "library=", 8) != 0);
	return !strcmp(own, standard);
}

static bool kernel_is_shim(const char *cache)
{
	CHECK_RUN(0, "bench %s --json --runs 3 --threads 1 --cache %s", product(), cache);
	return strstr(cli_out, "shim/") != NULL;
}

TEST(a_library_that_is_faster_runs_the_layer)
{
	char cache[256], so[256];
	snprintf(cache, sizeof cache, "%s", in_dir("c1"));
	snprintf(so, sizeof so, "%s", shim("good.so", 0, "1.0"));
	CHECK_RUN(0, BOX, product(), so, cache);
	CHECK(!strcmp(winner(cache), "shim"));
	CHECK(kernel_is_shim(cache));
	CHECK_RUN(0, "verify %s --threads 1 --cache %s", product(), cache);
	/* another build of the same version at the same place is another library */
	(void)shim("good.so", 1, "1.0");
	CHECK(!kernel_is_shim(cache));
	CHECK_SAYS(cli_err, "hone's own kernel runs instead");
	CHECK_SAYS(cli_err, "shim/1.0@");
	CHECK_RUN(0, "verify %s --threads 1 --cache %s", product(), cache);
	CHECK(unlink(so) == 0);
	CHECK(!kernel_is_shim(cache));
	CHECK_SAYS(cli_err, "good.so");
	CHECK_RUN(0, "verify %s --threads 1 --cache %s", product(), cache);
	/* back again: it runs the layer, with nothing tuned */
	(void)shim("good.so", 0, "1.0");
	CHECK(kernel_is_shim(cache));
	/* a box without it loses nothing */
	CHECK_RUN(0, "tune %s --budget 4s --rigor quick --threads 1 --json --cache %s", product(), cache);
	CHECK(!strcmp(winner(cache), "shim"));
	/* what is compiled for processes without libraries has hone's kernel */
	bool plain = own_is_default(cache);
	CHECK_RUN(0, "compile %s -o %s --threads 1 --cache %s", product(), in_dir("compiled"), cache);
	CHECK_RUN(0, "bench %s --json --runs 3 --threads 1", in_dir("compiled"));
	CHECK(!strstr(cli_out, "shim/"));
	CHECK_SAYS(cli_out, plain ? "\"kernel_kind\":\"default\"" : "\"kernel_kind\":\"tuned\"");
}

TEST(a_library_that_fails_is_never_chosen)
{
	static const struct {
		int way;
		const char *status;
	} ways[] = {{1, "wrong"}, {2, "crash"}, {3, "timeout"}, {4, "crash"}, {5, "crash"}};
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		char cache[256], so[256], name[32];
		snprintf(name, sizeof name, "bad%d.so", ways[i].way);
		snprintf(so, sizeof so, "%s", shim(name, ways[i].way, "1.0"));
		snprintf(name, sizeof name, "cb%d", ways[i].way);
		snprintf(cache, sizeof cache, "%s", in_dir(name));
		CHECK_RUN(0, BOX, product(), so, cache);
		CHECK(!strcmp(winner(cache), "hone"));
		CHECK_SAYS(status_of_shim(cache), ways[i].status);
		CHECK(!kernel_is_shim(cache));
		CHECK_RUN(0, "verify %s --threads 1 --cache %s", product(), cache);
	}
}

TEST(libraries_that_cannot_be_opened)
{
	char cache[256], text[256];
	snprintf(cache, sizeof cache, "%s", in_dir("cn"));
	CHECK_RUN(2, BOX, product(), "mkl", cache);
	CHECK_SAYS(cli_err, "there is no library 'mkl': give ");
	CHECK_SAYS(cli_err, "openblas");
	CHECK_RUN(1, BOX, product(), "/no/such/library.so", cache);
	CHECK_SAYS(cli_err, "/no/such/library.so");
	snprintf(text, sizeof text, "%s", in_dir("text.so"));
	CHECK_OK(file_write(text, "words", 5));
	CHECK_RUN(1, BOX, product(), text, cache);
	CHECK_SAYS(cli_err, "cannot be opened");
	CHECK_RUN(1, BOX, product(), shim("early.so", 6, "1.0"), cache);
	CHECK_SAYS(cli_err, "cannot be opened");
	CHECK_RUN(1, BOX, product(), shim("odd.so", 0, "a version with spaces"), cache);
	CHECK_SAYS(cli_err, "lacks a name, a version or a function");
	CHECK_RUN(2, "tune %s --library openblas --device opencl:0 --cache %s", product(), cache);
	CHECK_SAYS(cli_err, "--library");
}

/* How often a part stands in a text. */
static int count(const char *text, const char *part)
{
	int n = 0;
	while ((text = strstr(text, part)))
		n++, text++;
	return n;
}

/* The answers stay right, and one line says what has failed. */
TEST(a_library_that_fails_later)
{
	static const struct {
		int way;
		const char *says;
	} ways[] = {{7, "failed (run returned 9)"}, {8, "failed (make returned 7)"}};
	for (int i = 0; i < 2; i++) {
		char cache[256], name[32];
		snprintf(name, sizeof name, "cl%d", i);
		snprintf(cache, sizeof cache, "%s", in_dir(name));
		snprintf(name, sizeof name, "later%d.so", i);
		CHECK_RUN(0, BOX, product(), shim(name, ways[i].way, "1.0"), cache);
		CHECK(!strcmp(winner(cache), "shim"));
		setenv("SHIM_FAILS", "1", 1);
		CHECK_RUN(0, "verify %s --threads 1 --cache %s", product(), cache);
		CHECK(count(cli_err, ways[i].says) == 1);
		setenv("SHIM_FAILS", "3", 1); /* in the third run */
		CHECK(kernel_is_shim(cache) == (ways[i].way == 7));
		CHECK(count(cli_err, ways[i].says) == 1 &&
		      count(cli_err, "MatMul_0: library shim/1.0@") == 1);
		unsetenv("SHIM_FAILS");
		CHECK_RUN(0, "verify %s --threads 1 --cache %s", product(), cache);
		CHECK(kernel_is_shim(cache) && !strstr(cli_err, "failed"));
	}
}

/* The next box after the library has gone begins with hone's own best kernel, and other boards get that one.
 */
TEST(hones_own_best_kernel_stays_beside_a_librarys)
{
	char cache[256], so[256], own[512], best[512];
	snprintf(cache, sizeof cache, "%s", in_dir("co"));
	snprintf(so, sizeof so, "%s", shim("gone.so", 0, "1.0"));
	CHECK_RUN(0, BOX, product(), so, cache);
	CHECK(!strcmp(winner(cache), "shim"));
	schedule_of(cache, "own", own);
	schedule_of(cache, "best", best);
	CHECK(own[0] && !strncmp(best, "library=shim/1.0@", 17));
	CHECK(unlink(so) == 0);
	CHECK_RUN(0, "explain %s 1 --threads 1 --cache %s", product(), cache);
	char line[600];
	snprintf(line, sizeof line, "  own      %.40s", own);
	CHECK_SAYS(cli_out, line);
	CHECK_RUN(0, "export -o %s --cache %s", in_dir("records"), cache);
	CHECK_RUN(0, "import %s --cache %s", in_dir("records"), in_dir("ci"));
	CHECK(!strstr(cli_err, "refused"));
	schedule_of(in_dir("ci"), "hint", best);
	CHECK(!strcmp(best, own));
	CHECK_RUN(0, "tune %s -v --budget 3s --rigor quick --threads 1 --cache %s", product(), cache);
	CHECK(!strstr(cli_err, "the incumbent failed"));
	CHECK(!kernel_is_shim(cache));
	CHECK_RUN(0, "forget --model %s --cache %s", product(), cache);
	CHECK_RUN(0, "show --json --cache %s", cache);
	CHECK(!strstr(cli_out, "\"cand\""));
}

/* Compiles configs/examples/classify.c with the libhone of the build folder. False: there is none. */
static bool make_application(void)
{
	char cmd[2048], build[512];
	snprintf(build, sizeof build, "%s", getenv("HONE_WORKER") ? getenv("HONE_WORKER") : "");
	if (!strrchr(build, '/'))
		return false;
	*strrchr(build, '/') = 0;
	snprintf(cmd, sizeof cmd,
		 "%s -O1 -Iagent/run configs/examples/classify.c %s/libhone.so -Wl,-rpath,%s -o %s -lm",
		 getenv("CC") ? getenv("CC") : "cc", build, build, in_dir("app"));
	return system(cmd) == 0;
}

/* Runs it on zeros with the cache XDG/hone. Its outputs are in cli_out, its words in cli_err. */
static void run_application(const char *xdg)
{
	char cmd[1024];
	snprintf(cmd, sizeof cmd, "SHIM_SAYS=1 XDG_CACHE_HOME=%s HONE_DAEMON_CACHE= %s %s >%s 2>%s",
		 in_dir(xdg), in_dir("app"), product(), in_dir("stdout"), in_dir("stderr"));
	CHECK(system(cmd) == 0);
	slurp(in_dir("stdout"), cli_out, sizeof cli_out);
	slurp(in_dir("stderr"), cli_err, sizeof cli_err);
}

TEST(an_application_opens_the_library_that_its_plan_needs)
{
	char cache[256], so[256], first[16];
	if (!make_application())
		SKIP("libhone.so is not in the folder of $HONE_WORKER");
	snprintf(cache, sizeof cache, "%s", in_dir("xdg/hone"));
	snprintf(so, sizeof so, "%s", shim("app.so", 0, "1.0"));
	CHECK(mkdir(in_dir("xdg"), 0755) == 0);
	CHECK_RUN(0, BOX, product(), so, cache);
	CHECK(!strcmp(winner(cache), "shim"));
	run_application("xdg");
	CHECK_SAYS(cli_err, "the shim runs");
	snprintf(first, sizeof first, "%.15s", cli_out);
	const char *words = own_is_default(cache) ? " 1 default," : "1 kernels tuned,";
	(void)shim("app.so", 1, "1.0");
	run_application("xdg");
	CHECK(!strstr(cli_err, "the shim runs"));
	CHECK_SAYS(cli_err, words);
	CHECK(!strncmp(first, cli_out, strcspn(first, " ")));
	CHECK(unlink(so) == 0);
	run_application("xdg");
	CHECK_SAYS(cli_err, words);
}

TEST(an_application_whose_library_fails_gets_the_right_answer)
{
	char right[16];
	if (!make_application())
		SKIP("libhone.so is not in the folder of $HONE_WORKER");
	CHECK(mkdir(in_dir("xdf"), 0755) == 0);
	CHECK_RUN(0, BOX, product(), shim("appf.so", 7, "1.0"), in_dir("xdf/hone"));
	CHECK(!strcmp(winner(in_dir("xdf/hone")), "shim"));
	run_application("xdf");
	CHECK(!strstr(cli_err, "failed"));
	snprintf(right, sizeof right, "%.15s", cli_out);
	setenv("SHIM_FAILS", "1", 1);
	run_application("xdf");
	unsetenv("SHIM_FAILS");
	CHECK(count(cli_err, "the shim runs") == 1 && !strstr(cli_err, "library shim/1.0@"));
	CHECK(!strncmp(right, cli_out, strcspn(right, " ")));
}

TEST_MAIN
