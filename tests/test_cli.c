/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: every case runs hone_main in a child of its own and looks at what a script sees. */
#include "kernels/eval.h"
#include "platform/arena.h"
#include "platform/file.h"
#include "tests/onnx_make.h"
#include "tools/cmd.h"
#include "tools/help.h"
#include "tools/model.h"
#include "tools/zoo.h"
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char out[1 << 20], err[1 << 16]; /* of the last run */
static pid_t last_child;                /* of the last run */
static char dir[128];                   /* a folder of this process, made on first use */

static const char *in_dir(const char *name)
{
	static char path[8][256];
	static int next;
	if (!dir[0]) {
		snprintf(dir, sizeof dir, "/tmp/hone-test-cli-XXXXXX");
		if (!mkdtemp(dir))
			abort();
	}
	char *p = path[next++ % 8];
	snprintf(p, sizeof path[0], "%s/%s", dir, name);
	return p;
}

__attribute__((destructor)) static void remove_dir(void)
{
	char cmd[160];
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
	if (dir[0] && system(cmd) != 0)
		fprintf(stderr, "%s stays\n", dir);
}

static void slurp(const char *path, char *to, size_t cap)
{
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(to, 1, cap - 1, f) : 0;
	to[n] = 0;
	if (f)
		fclose(f);
}

static void redirect(int fd, const char *path)
{
	int to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (to < 0 || dup2(to, fd) < 0)
		_exit(120);
}

static bool homeless; /* the child knows no cache folder */
static int stop_with; /* a signal that comes once tuning catches it; 0: none */

/* Sends it once the child is no longer killed by it. */
static void stop_child(pid_t pid)
{
	char path[64], text[4096] = "";
	unsigned long long caught = 0;
	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	for (int i = 0; i < 20000 && !(caught >> (stop_with - 1) & 1); i++) {
		slurp(path, text, sizeof text);
		const char *at = strstr(text, "SigCgt:");
		caught = at ? strtoull(at + 7, NULL, 16) : 0;
		usleep(500);
	}
	kill(pid, stop_with);
}

/* Runs `hone WORDS...` (split at spaces) and returns its exit status, 128 + n for signal n. */
static int hone_to(const char *stdout_path, const char *words)
{
	char copy[1200], *argv[32] = {"hone"};
	int argc = 1;
	snprintf(copy, sizeof copy, "%s", words);
	for (char *w = strtok(copy, " "); w && argc < 31; w = strtok(NULL, " "))
		argv[argc++] = w;
	char err_path[256];
	snprintf(err_path, sizeof err_path, "%s", in_dir("stderr"));
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		if (homeless && (unsetenv("HOME") < 0 || unsetenv("XDG_CACHE_HOME") < 0))
			_exit(121);
		redirect(1, stdout_path);
		redirect(2, err_path);
		_exit(hone_main(argc, argv));
	}
	int status = 0;
	last_child = pid;
	if (stop_with)
		stop_child(pid);
	waitpid(pid, &status, 0);
	slurp(err_path, err, sizeof err);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int hone(const char *words)
{
	char path[256];
	snprintf(path, sizeof path, "%s", in_dir("stdout"));
	int status = hone_to(path, words);
	slurp(path, out, sizeof out);
	return status;
}

#define CHECK_RUN(words, status)                                                                             \
	do {                                                                                                 \
		int got_ = hone(words);                                                                      \
		if (got_ != (status)) {                                                                      \
			printf("%s:%d: hone %s: exit %d, wanted %d: %s\n", __FILE__, __LINE__, words, got_,  \
			       status, err);                                                                 \
			test_bad = 1;                                                                        \
		}                                                                                            \
	} while (0)
#define CHECK_SAYS(text, part)                                                                               \
	do {                                                                                                 \
		if (!strstr(text, part)) {                                                                   \
			printf("%s:%d: no \"%s\" in: %s\n", __FILE__, __LINE__, part, text);                 \
			test_bad = 1;                                                                        \
		}                                                                                            \
	} while (0)

TEST(without_words_it_lists_the_commands)
{
	CHECK_RUN("", 0);
	for (int i = 0; cmd_table[i]; i++)
		CHECK_SAYS(out, cmd_table[i]->name);
	CHECK(!err[0]);
	CHECK_RUN("--help", 0);
	CHECK_RUN("--version", 0);
	CHECK_SAYS(out, "hone " HONE_VERSION "\n");
}

TEST(wrong_words_are_usage_errors_with_a_remedy)
{
	CHECK_RUN("zooo", 2);
	CHECK_SAYS(err, "hone: error: unknown command 'zooo'; did you mean 'zoo'?");
	CHECK_RUN("qwertyuiop", 2);
	CHECK_SAYS(err, "`hone` lists the commands");
	CHECK_RUN("zoo --sead 3", 2);
	CHECK_SAYS(err, "unknown option --sead; did you mean --seed?");
	CHECK_RUN("zoo --seed", 2);
	CHECK_SAYS(err, "--seed needs a value");
	CHECK_RUN("zoo --seed three", 2);
	CHECK_SAYS(err, "'three' is not a whole number");
	CHECK_RUN("zoo --json=yes", 2);
	CHECK_SAYS(err, "--json takes no value");
	CHECK_RUN("zoo -x", 2);
	CHECK_SAYS(err, "unknown option -x");
	CHECK_RUN("zoo a b", 2);
	CHECK_SAYS(err, "'b' is one word too many");
	CHECK_RUN("--json", 2);
	CHECK_SAYS(err, "which command?");
	CHECK(!out[0]);
}

TEST(durations)
{
	static const struct {
		const char *text;
		int64_t ns;
	} good[] = {{"20s", 20000000000}, {"500ms", 500000000}, {"2m", 120000000000},
		    {"1.5s", 1500000000}, {"250us", 250000},    {"0s", 0},
		    {"1h", 3600000000000}};
	static const char *const bad[] = {"20",     "",     "s",     "-1s",         "1e3s",
					  "1.2.3s", "20 s", "20sec", "99999999999h"};
	int64_t ns;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		CHECK_OK(duration_parse(good[i].text, &ns));
		CHECK(ns == good[i].ns);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(duration_parse(bad[i], &ns), E_USAGE, bad[i]);
}

TEST(every_command_has_help_a_manual_page_and_completion)
{
	struct buf complete = {0};
	help_completion(&complete);
	for (int i = 0; cmd_table[i]; i++) {
		const struct cmd *c = cmd_table[i];
		char words[64], line[96];
		snprintf(words, sizeof words, "%s --help", c->name);
		CHECK_RUN(words, 0);
		CHECK_SAYS(out, c->summary);
		CHECK(strlen(c->summary) > 10 && strlen(c->summary) <= 80);
		struct buf man = {0};
		help_man(c, &man);
		CHECK_SAYS(buf_str(&man), ".TH HONE-");
		for (const struct opt *o = c->opts; o && o->name; o++) {
			CHECK_SAYS(out, o->help);
			CHECK(o->kind == OPT_FLAG || o->arg);
			snprintf(line, sizeof line, " --%s", o->name);
			CHECK_SAYS(buf_str(&complete), line);
		}
		snprintf(line, sizeof line, "\t%s) opts=", c->name);
		CHECK_SAYS(buf_str(&complete), line);
		CHECK(strlen(strstr(buf_str(&man), ".SH OPTIONS")) > 100);
		buf_free(&man);
	}
	buf_free(&complete);
	CHECK_RUN("--man tune", 0);
	CHECK_SAYS(out, ".SH NAME\nhone\\-tune");
	CHECK_RUN("--man nothing", 2);
}

TEST(completion_is_valid_bash)
{
	if (system("command -v bash >/dev/null") != 0)
		SKIP("no bash");
	CHECK_RUN("--bash-completion", 0);
	char path[256], cmd[1024];
	snprintf(path, sizeof path, "%s", in_dir("stdout"));
	snprintf(cmd, sizeof cmd,
		 "bash -c '. %s; COMP_WORDS=(hone zoo --se); COMP_CWORD=2; _hone; [ \"${COMPREPLY[*]}\" = "
		 "--seed ]'",
		 path);
	CHECK(system(cmd) == 0);
}

static json_t *parse_out(void)
{
	json_error_t e;
	json_t *j = json_loads(out, JSON_REJECT_DUPLICATES, &e);
	if (!json_is_object(j)) {
		printf("not one JSON object (%s): %s\n", e.text, out);
		test_bad = 1;
	}
	return j;
}

static void check_keys(const json_t *j, const char *keys)
{
	char copy[512];
	snprintf(copy, sizeof copy, "%s", keys);
	for (char *k = strtok(copy, " "); k; k = strtok(NULL, " "))
		if (!json_object_get(j, k)) {
			printf("key %s is missing: %s\n", k, out);
			test_bad = 1;
		}
}

TEST(zoo_lists_as_json)
{
	CHECK_RUN("zoo --json", 0);
	json_t *j = parse_out();
	CHECK(json_array_size(json_object_get(j, "models")) == 8);
	json_decref(j);
}

TEST(zoo_needs_a_place_and_a_name)
{
	char words[512];
	CHECK_RUN("zoo steering", 2);
	CHECK_SAYS(err, "hone zoo steering -o steering.onnx");
	snprintf(words, sizeof words, "zoo lenet -o %s", in_dir("x.onnx"));
	CHECK_RUN(words, 1);
	CHECK_SAYS(err, "hone: error: the zoo has no 'lenet'; it has");
	CHECK_RUN("zoo steering -o /nowhere/x.onnx", 1);
	CHECK_SAYS(err, "/nowhere/x.onnx");
	CHECK_SAYS(err, "No such file");
}

static const char *steering(void)
{
	static char path[256];
	if (!path[0]) {
		char words[512];
		snprintf(path, sizeof path, "%s", in_dir("steering.onnx"));
		snprintf(words, sizeof words, "zoo -q steering --output=%s", path);
		CHECK_RUN(words, 0);
		CHECK(!err[0]);
	}
	return path;
}

TEST(quiet_is_quiet)
{
	steering();
	CHECK(file_exists(in_dir("steering.onnx")));
}

TEST(bad_models_are_named)
{
	static const char *const with_model[] = {"tune", "bench", "run --output /tmp", "verify", "explain"};
	for (size_t i = 0; i <= sizeof with_model / sizeof *with_model; i++) {
		char words[512];
		if (i < sizeof with_model / sizeof *with_model)
			snprintf(words, sizeof words, "%s /nowhere/m.onnx --cache %s", with_model[i],
				 in_dir("cache"));
		else
			snprintf(words, sizeof words, "tasks /nowhere/m.onnx");
		CHECK_RUN(words, 1);
		CHECK_SAYS(err, "hone: error: ");
		CHECK_SAYS(err, "/nowhere/m.onnx");
		CHECK_SAYS(err, "No such file");
		CHECK(!out[0]);
		CHECK(strchr(err, '\n') == err + strlen(err) - 1);
	}
}

TEST(rubbish_is_not_a_model)
{
	char words[512];
	const char *path = in_dir("rubbish.onnx");
	REQUIRE_OK(file_write(path, "this is not a model", 19));
	snprintf(words, sizeof words, "tasks %s", path);
	CHECK_RUN(words, 1);
	CHECK_SAYS(err, "rubbish.onnx");
}

TEST(tasks_as_json)
{
	char words[512];
	snprintf(words, sizeof words, "tasks --json %s", steering());
	CHECK_RUN(words, 0);
	json_t *j = parse_out(), *tasks = json_object_get(j, "tasks");
	CHECK(json_array_size(tasks) >= 5);
	for (size_t i = 0; i < json_array_size(tasks); i++)
		check_keys(json_array_get(tasks, i), "key text uses gflop");
	json_decref(j);
}

TEST(a_full_disk_is_an_error)
{
	CHECK(hone_to("/dev/full", "zoo") == 1);
	CHECK_SAYS(err, "standard output");
}

TEST(a_shape_that_is_none_is_a_usage_error)
{
	char words[512];
	snprintf(words, sizeof words, "tasks %s --shape camera", steering());
	CHECK_RUN(words, 2);
	CHECK_SAYS(err, "--shape camera");
	CHECK_SAYS(err, "1x3x320x320");
}

TEST(run_gives_what_the_reference_gives)
{
	char words[1024];
	struct arena a = {0};
	struct graph *g;
	struct tensor *in, *t, got;
	REQUIRE_OK(zoo_make("steering", 1, &g));
	REQUIRE_OK(model_inputs(g, 5, &a, &in));
	t = ARENA_ARRAY(&a, struct tensor, g->nvalues);
	REQUIRE_OK(eval_graph(g, in, t, &a));
	REQUIRE_OK(tensor_write(in_dir("in.npy"), in, "camera"));
	snprintf(words, sizeof words, "run %s --json --threads 2 --cache %s --input camera=%s --output %s",
		 steering(), in_dir("cache"), in_dir("in.npy"), in_dir("outputs/new"));
	CHECK_RUN(words, 0);
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

/* Names that differ only in what a file name cannot hold. */
TEST(outputs_get_files_of_their_own)
{
	char words[1024], model[256], file[3][64];
	for (int clash = 0; clash < 2; clash++) {
		struct maker k;
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
		snprintf(words, sizeof words, "run %s --json --random --output %s --cache %s", model,
			 in_dir(clash ? "none" : "three"), in_dir("cache"));
		CHECK_RUN(words, clash);
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
	CHECK_SAYS(err, "outputs 'a_b-2' and 'a:b'");
	CHECK(!file_exists(in_dir("none"))); /* nothing was written */
}

TEST(run_says_what_is_wrong_with_inputs)
{
	char words[1024];
	float four[4] = {0};
	struct tensor t = {DT_F32, {1, {4}}, four};
	REQUIRE_OK(tensor_write(in_dir("four.npy"), &t, "camera"));
	snprintf(words, sizeof words, "run %s --output %s", steering(), in_dir("o"));
	CHECK_RUN(words, 2);
	CHECK_SAYS(err, "no file for input 'camera'");
	CHECK_SAYS(err, "camera f32 1x3x66x200");
	snprintf(words, sizeof words, "run %s --output %s --input lidar=%s", steering(), in_dir("o"),
		 in_dir("four.npy"));
	CHECK_RUN(words, 2);
	CHECK_SAYS(err, "the model's inputs are: camera");
	snprintf(words, sizeof words, "run %s --output %s --input %s", steering(), in_dir("o"),
		 in_dir("four.npy"));
	CHECK_RUN(words, 2);
	CHECK_SAYS(err, "is f32 4; input 'camera' is f32 1x3x66x200");
	snprintf(words, sizeof words, "run %s --input camera=x.npy", steering());
	CHECK_RUN(words, 2);
	CHECK_SAYS(err, "--output DIR");
}

TEST(verify_as_json)
{
	char words[512];
	snprintf(words, sizeof words, "verify %s --json --kernels fallback --cache %s", steering(),
		 in_dir("cache"));
	CHECK_RUN(words, 0);
	json_t *j = parse_out();
	check_keys(j, "kernels ok failed max_rel_err");
	CHECK(json_integer_value(json_object_get(j, "kernels")) >= 5);
	CHECK(json_integer_value(json_object_get(j, "failed")) == 0);
	CHECK(json_number_value(json_object_get(j, "max_rel_err")) < 1e-4);
	json_decref(j);
	snprintf(words, sizeof words, "verify %s --against /nowhere --cache %s", steering(), in_dir("cache"));
	CHECK_RUN(words, 1);
	CHECK_SAYS(err, "/nowhere");
}

TEST(bench_writes_a_trace_of_every_kernel)
{
	char words[1100], trace[256], cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("trace-cache"));
	snprintf(trace, sizeof trace, "%s", in_dir("trace.json"));
	snprintf(words, sizeof words,
		 "bench %s --json --runs 2 --kernels fallback --threads 2 --cache %s --trace %s", steering(),
		 cache, trace);
	CHECK_RUN(words, 0);
	json_t *o = json_loads(out, 0, NULL), *t = json_load_file(trace, 0, NULL), *e, *k;
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
		CHECK(seen >= 5); /* once a run, at least */
	}
	json_decref(o);
	json_decref(t);
	snprintf(words, sizeof words, "bench %s --runs 1 --kernels fallback --cache %s --trace /nowhere/t",
		 steering(), cache);
	CHECK_RUN(words, 1);
	CHECK_SAYS(err, "/nowhere");
	snprintf(words, sizeof words, "bench %s %s --runs 1 --kernels fallback --cache %s --trace %s",
		 steering(), steering(), cache, trace);
	CHECK_RUN(words, 2);
	CHECK_SAYS(err, "--trace");
}

TEST(report_is_one_page)
{
	static char page[1 << 17];
	char words[1100], file[256], cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("report-cache"));
	snprintf(file, sizeof file, "%s", in_dir("report.html"));
	snprintf(words, sizeof words, "report %s -o %s --threads 1 --json --cache %s", steering(), file,
		 cache);
	CHECK_RUN(words, 0);
	json_t *o = json_loads(out, 0, NULL);
	CHECK(json_number_value(json_object_get(o, "after_ms")) > 0);
	CHECK(json_integer_value(json_object_get(o, "kernels")) >= 9); /* its layers */
	json_decref(o);
	slurp(file, page, sizeof page);
	CHECK_SAYS(page, "<svg");
	CHECK_SAYS(page, "conv 5x5/2 3-&#62;24");
	CHECK_SAYS(page, "run hone tune");
	CHECK_SAYS(page, "</html>");
	CHECK(!strstr(page, "http") && !strstr(page, "<script"));
	snprintf(words, sizeof words, "report %s", steering());
	CHECK_RUN(words, 2);
	CHECK_SAYS(err, "-o FILE.html");
	snprintf(words, sizeof words, "report %s -o /nowhere/r.html --cache %s", steering(), cache);
	CHECK_RUN(words, 1);
	CHECK_SAYS(err, "/nowhere");
}

TEST(bench_names_kernels_for_perf)
{
	char words[700], map[64], text[1 << 14];
	snprintf(words, sizeof words,
		 "bench %s --runs 1 --kernels fallback --threads 1 --cache %s --perf-map", steering(),
		 in_dir("map-cache"));
	CHECK_RUN(words, 0);
	snprintf(map, sizeof map, "/tmp/perf-%ld.map", (long)last_child);
	slurp(map, text, sizeof text);
	CHECK_SAYS(text, " hone:Conv_2 [conv 5x5/2 3->24");
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		unsigned long at = 0, bytes = 0;
		CHECK(sscanf(line, "%lx %lx hone:", &at, &bytes) == 2 && at && bytes);
	}
	CHECK(unlink(map) == 0);
}

TEST(bench_as_json)
{
	char words[1024];
	const char *cache = in_dir("cache");
	snprintf(words, sizeof words, "bench %s --json --runs 3 --kernels fallback --threads 1 --cache %s",
		 steering(), cache);
	CHECK_RUN(words, 0);
	json_t *j = parse_out(), *k = json_object_get(j, "kernels");
	check_keys(j, "model threads runs median_ms p90_ms p99_ms min_ms load_ms cpu_pct kernels");
	CHECK(json_integer_value(json_object_get(j, "runs")) == 3);
	CHECK(json_number_value(json_object_get(j, "min_ms")) <=
	      json_number_value(json_object_get(j, "median_ms")));
	CHECK(json_array_size(k) >= 5);
	check_keys(json_array_get(k, 0), "name us gflops peak_pct roofline_pct kind");
	json_decref(j);
	snprintf(words, sizeof words, "bench %s %s --json --runs 7 --kernels fallback --cache %s", steering(),
		 steering(), cache);
	CHECK_RUN(words, 0);
	j = parse_out();
	CHECK(json_array_size(json_object_get(j, "models")) == 2);
	check_keys(json_array_get(json_object_get(j, "ratios"), 0), "ratio low high");
	json_decref(j);
	snprintf(words, sizeof words, "bench %s --kernels quick --cache %s", steering(), cache);
	CHECK_RUN(words, 2);
	CHECK_SAYS(err, "best, default or fallback");
	snprintf(words, sizeof words, "bench %s --runs 0 --kernels fallback --cache %s", steering(), cache);
	CHECK_RUN(words, 2);
	snprintf(words, sizeof words, "bench %s --rate 0 --kernels fallback --cache %s", steering(), cache);
	CHECK_RUN(words, 2);
	CHECK_SAYS(err, "--rate 0: 1 to");
	snprintf(words, sizeof words, "bench %s --threads 65 --cache %s", steering(), cache);
	CHECK_RUN(words, 2);
}

TEST(tune_then_show_and_explain)
{
	const char *worker = getenv("HONE_WORKER");
	if (!worker || !file_exists(worker))
		SKIP("no hone-worker (HONE_WORKER)");
	char words[1024], cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("tuned"));
	snprintf(words, sizeof words, "tune %s --json --budget 3s --threads 1 --seed 3 --cache %s",
		 steering(), cache);
	CHECK_RUN(words, 0);
	json_t *j = parse_out();
	check_keys(
	    j, "model tasks trials budget_s elapsed_s before_ms default_ms after_ms speedup strategy cache");
	CHECK(json_integer_value(json_object_get(j, "trials")) >= 1);
	CHECK(json_integer_value(json_object_get(j, "kept")) >= 1);
	CHECK(json_is_false(json_object_get(j, "interleaved")));
	json_decref(j);
	CHECK_RUN(words, 0); /* again: what is there is measured beside what comes */
	j = parse_out();
	CHECK(json_is_true(json_object_get(j, "interleaved")) ||
	      json_is_null(json_object_get(j, "after_ms")));
	CHECK(json_number_value(json_object_get(j, "before_ms")) > 0);
	json_decref(j);
	snprintf(words, sizeof words, "show --json --cache %s", cache);
	CHECK_RUN(words, 0);
	j = parse_out();
	json_t *r = json_array_get(json_object_get(j, "records"), 0);
	check_keys(r, "task label text kind target device cand status median_ms");
	CHECK_SAYS(json_string_value(json_object_get(r, "text")), "task syms=");
	CHECK(strlen(json_string_value(json_object_get(r, "target"))) > 4);
	CHECK_SAYS(json_string_value(json_object_get(r, "cand")), "lane=");
	json_decref(j);
	snprintf(words, sizeof words, "show --lines --cache %s", cache);
	CHECK_RUN(words, 0);
	CHECK(out[0] == '{');
	snprintf(words, sizeof words, "show nonesuch --cache %s", cache);
	CHECK_RUN(words, 0);
	CHECK_SAYS(out, "contains 'nonesuch'");
	snprintf(words, sizeof words, "explain %s --json --threads 1 --cache %s", steering(), cache);
	CHECK_RUN(words, 0);
	j = parse_out();
	check_keys(json_array_get(json_object_get(j, "tasks"), 0),
		   "key text cand default_cand roofline_ms tuned");
	CHECK(json_is_array(json_object_get(j, "choices")));
	json_decref(j);
	snprintf(words, sizeof words, "explain %s nonesuch --threads 1 --cache %s", steering(), cache);
	CHECK_RUN(words, 1);
	CHECK_SAYS(err, "no task or node");
	snprintf(words, sizeof words, "verify %s --json --threads 1 --cache %s", steering(), cache);
	CHECK_RUN(words, 0);
}

TEST(tune_refuses_what_it_cannot_do)
{
	char words[512];
	snprintf(words, sizeof words, "tune %s --device toaster", steering());
	CHECK_RUN(words, 2);
	CHECK_SAYS(err, "only cpu");
	snprintf(words, sizeof words, "tune %s --strategy luck", steering());
	CHECK_RUN(words, 2);
	CHECK_SAYS(err, "there is evolve random");
	snprintf(words, sizeof words, "tune %s --seed -1", steering());
	CHECK_RUN(words, 2);
	CHECK_SAYS(err, "--seed -1: 0 or more");
	CHECK_RUN("zoo steering --seed -1 -o /nowhere/x.onnx", 2);
	snprintf(words, sizeof words, "tune %s --cache=", steering());
	CHECK_RUN(words, 2);
	CHECK_SAYS(err, "--cache");
	snprintf(words, sizeof words, "tune %s --budget 20", steering());
	CHECK_RUN(words, 2);
	CHECK_SAYS(err, "write 20s, 500ms or 2m");
}

static int count_of(const char *text, const char *part)
{
	int n = 0;
	for (const char *p = text; (p = strstr(p, part)); p++)
		n++;
	return n;
}

/* A folder that nobody can write: tuning goes on in memory and says so; reading finds nothing in it. */
TEST(a_cache_that_cannot_be_written)
{
	const char *worker = getenv("HONE_WORKER");
	char words[512];
	REQUIRE_OK(file_write(in_dir("file"), "x", 1));
	snprintf(words, sizeof words, "show --cache %s/cache", in_dir("file"));
	CHECK_RUN(words, hone(words));
	CHECK(strstr(out, "0 records") || strstr(err, "/file/cache"));
	if (!worker || !file_exists(worker))
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(words, sizeof words, "tune %s --json --budget 2s --threads 1 --cache %s/cache", steering(),
		 in_dir("file"));
	CHECK_RUN(words, 0);
	json_t *j = parse_out();
	CHECK(json_is_string(json_object_get(j, "warning")));
	CHECK_SAYS(err, "/file/cache");
	json_decref(j);
	snprintf(words, sizeof words, "tune %s --budget 1s --threads 1 --cache %s/cache", steering(),
		 in_dir("file"));
	CHECK_RUN(words, 0);
	CHECK(count_of(err, "in memory only") == 1 && count_of(out, "in memory only") == 0);
	CHECK(!strstr(out, "hone bench"));
	CHECK_SAYS(out, "--cache");
	snprintf(words, sizeof words, "tune %s --json --budget 1s --threads 1 --cache /proc/nope",
		 steering());
	CHECK_RUN(words, 0);
	CHECK(count_of(err, "in memory only") == 1);
}

/* A signal before anything was found: nothing is promised. */
TEST(stopped_at_once_it_promises_nothing)
{
	const char *worker = getenv("HONE_WORKER");
	char words[512];
	if (!worker || !file_exists(worker))
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(words, sizeof words, "tune %s --budget 20s --threads 1 --cache %s", steering(),
		 in_dir("stopped"));
	stop_with = SIGTERM;
	CHECK_RUN(words, 0);
	stop_with = 0;
	CHECK_SAYS(out, "(stopped)");
	CHECK_SAYS(out, "Nothing new was kept. Next: tune again");
	CHECK(!strstr(out, "hone bench") && !strstr(out, "too little time"));
}

/* Built-in kernels and those made on the spot need no folder. */
TEST(without_a_cache_folder)
{
	char words[512];
	steering();
	homeless = true;
	snprintf(words, sizeof words, "bench %s --json --runs 2 --threads 1", steering());
	CHECK_RUN(words, 0);
	CHECK_SAYS(err, "neither XDG_CACHE_HOME nor HOME is set");
	json_t *j = parse_out();
	CHECK(json_is_null(json_object_get(j, "cache")));
	json_decref(j);
	snprintf(words, sizeof words, "verify %s --kernels default --threads 1", steering());
	CHECK_RUN(words, 0);
	snprintf(words, sizeof words, "run %s --random --output %s", steering(), in_dir("homeless"));
	CHECK_RUN(words, 0);
	CHECK_RUN("show", 1);
	CHECK_SAYS(err, "--cache");
	homeless = false;
}

/* The worker's own words name what exists. */
TEST(the_worker_says_how_it_is_used)
{
	const char *worker = getenv("HONE_WORKER");
	if (!worker || !file_exists(worker))
		SKIP("no hone-worker (HONE_WORKER)");
	char cmd[512], path[256];
	snprintf(path, sizeof path, "%s", in_dir("usage"));
	snprintf(cmd, sizeof cmd, "'%s' --help >'%s'", worker, path);
	CHECK(system(cmd) == 0);
	slurp(path, out, sizeof out);
	CHECK_SAYS(out, "--bench-compile");
	CHECK(!strstr(out, "honed"));
}

TEST(devices_as_json)
{
	char words[512];
	snprintf(words, sizeof words, "devices --json --cache %s", in_dir("cache"));
	CHECK_RUN(words, 0);
	json_t *j = parse_out();
	check_keys(json_array_get(json_object_get(j, "devices"), 0), "name usable");
	json_decref(j);
}

TEST_MAIN
