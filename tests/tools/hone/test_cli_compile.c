/* SPDX-License-Identifier: Apache-2.0 */
/* hone compile: its output runs by its name alone, in the command and in libhone. */
#include "agent/cache/kept_code.h"
#include "agent/run/hone.h"
#include "platform/base/log.h"
#include "tests/lib/cands.h"
#include "tests/lib/cli.h"

#include <math.h>
#include <sys/stat.h>

/* A cache with every kernel of the steering network, made on first use; NULL: no worker. */
static const char *tuned(void)
{
	static char path[256];
	if (worker() && !path[0]) {
		snprintf(path, sizeof path, "%s", in_dir("filled"));
		CHECK_RUN(0, "tune %s --rigor estimate --budget 60s --threads 1 --cache %s", steering(),
			  path);
	}
	return worker() ? path : NULL;
}

static void shell(const char *cmd)
{
	CHECK(system(cmd) == 0);
}

/* Reads the output that a run with seeded inputs writes. */
static void run(const char *words, char *to, size_t cap)
{
	char out[256], file[300];
	snprintf(out, sizeof out, "%s", in_dir("out"));
	CHECK_RUN(0, "run %s --random --threads 1 -o %s", words, out);
	snprintf(file, sizeof file, "%s/angle.npy", out);
	memset(to, 0, cap);
	slurp(file, to, cap);
}

static int64_t count(const json_t *report, const char *kind)
{
	return json_count(json_object_get(report, "kernels_by_kind"), "kernel_kind", kind);
}

static int origins_of(const struct hone_model *m, const char *name)
{
	int count = 0;
	for (int i = 0; i < hone_kernels(m); i++) {
		struct hone_kernel_info k;
		HONE_INIT(k);
		CHECK_OK(hone_kernel(m, i, &k));
		count += !strcmp(hone_origin_name(k.origin), name);
	}
	return count;
}

static struct hone_model *load_with(const char *cache, const char *path, unsigned flags, const char *shape,
				    int *rc)
{
	struct hone_options o;
	struct hone_load_options l;
	struct hone_handle *h = NULL;
	struct hone_model *m = NULL;
	HONE_INIT(o);
	HONE_INIT(l);
	o.caches = &cache;
	o.ncaches = *cache != 0;
	o.flags = flags;
	o.threads = 1;
	l.shapes = &shape;
	l.nshapes = shape != NULL;
	CHECK_OK(hone_open(&o, &h));
	*rc = hone_load(h, path, &l, &m);
	hone_close(h);
	return m;
}

static struct hone_model *load(const char *path, unsigned flags, const char *shape, int *rc)
{
	return load_with("", path, flags, shape, rc);
}

/* An application that loads the folder would run another network. */
TEST(another_models_bundle_is_not_replaced)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char dir_a[256], other[256], cmd[600];
	snprintf(dir_a, sizeof dir_a, "%s", in_dir("kept"));
	snprintf(other, sizeof other, "%s", in_dir("other.onnx"));
	snprintf(cmd, sizeof cmd, "cp '%s' '%s'", steering(), other);
	shell(cmd);
	CHECK_RUN(0, "compile %s -o %s --threads 1 --cache %s", steering(), dir_a, tuned());
	CHECK_RUN(2, "compile %s -o %s --threads 1 --cache %s", other, dir_a, tuned());
	CHECK_SAYS(cli_err, "holds the bundle of model 'steering'");
	CHECK_RUN(0, "compile %s -o %s --threads 1 --cache %s", steering(), dir_a, tuned());
	/* the description cuts a long name */
	snprintf(other, sizeof other, "%s",
		 in_dir("a_model_of_a_name_that_is_much_longer_than_those_which_a_bundle_has_room_for.onnx"));
	snprintf(cmd, sizeof cmd, "cp '%s' '%s'", steering(), other);
	shell(cmd);
	for (int i = 0; i < 2; i++)
		CHECK_RUN(0, "compile %s -o %s --threads 1 --cache %s", other, in_dir("long"), tuned());
}

/* The bundle runs after it was moved to another folder, without any other file. */
TEST(a_bundle_runs_anywhere)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char dir_a[256], dir_b[256], cmd[1200], words[700], want[4096], got[4096];
	snprintf(dir_a, sizeof dir_a, "%s", in_dir("bundle"));
	snprintf(dir_b, sizeof dir_b, "%s", in_dir("moved"));
	CHECK_RUN(0, "compile %s -o %s --threads 1 --cache %s --json", steering(), dir_a, tuned());
	json_t *j = parse_out();
	check_keys(j, "model output isa threads kernels_by_kind files");
	CHECK(count(j, "default") > 3 && !count(j, "tuned") && !count(j, "fallback") &&
	      !count(j, "portable"));
	CHECK(json_array_size(json_object_get(j, "files")) == 2);
	json_decref(j);
	snprintf(words, sizeof words, "%s --cache %s", steering(), tuned());
	run(words, want, sizeof want);
	snprintf(cmd, sizeof cmd, "mv '%s' '%s' && mv '%s' '%s.away' && mv '%s' '%s.away'", dir_a, dir_b,
		 steering(), steering(), tuned(), tuned());
	shell(cmd);
	run(dir_b, got, sizeof got);
	CHECK(!memcmp(want, got, sizeof got));
	CHECK_RUN(0, "bench %s --runs 2 --threads 2 --json", dir_b);
	j = parse_out();
	check_keys(j, "model median_ms load_ms kernels memory");
	json_decref(j);
	int rc;
	struct hone_model *m = load(dir_b, 0, NULL, &rc);
	REQUIRE(m != NULL);
	struct hone_model_info s;
	HONE_INIT(s);
	CHECK_OK(hone_summary(m, &s));
	CHECK(s.from_image && s.kernels[HONE_TUNED] + s.kernels[HONE_DEFAULT] > 3 &&
	      !s.kernels[HONE_FALLBACK]);
	CHECK(!s.remedy[0]);
	CHECK_OK(hone_run(m));
	CHECK(hone_refresh(m) == 0);
	hone_model_close(m);
	snprintf(cmd, sizeof cmd, "mv '%s.away' '%s' && mv '%s.away' '%s'", steering(), steering(), tuned(),
		 tuned());
	shell(cmd);
}

/* Copies a cache in which every kernel has the default schedule. In the copy, another schedule is the best
 * for the tasks with this label, as if a search had found it. */
static void copy_with_winner(const char *from, const char *label, const char *to)
{
	char cmd[600];
	struct arena a = {0};
	struct cache *c;
	struct key *k;
	struct blob code;
	snprintf(cmd, sizeof cmd, "cp -r '%s' '%s'", from, to);
	shell(cmd);
	REQUIRE_OK(cache_open(&c, to, false, 0));
	int n = cache_keys(c, CACHE_REC, &a, &k), won = 0;
	for (int i = 0; i < n; i++) {
		struct rec r;
		if (cache_get_rec(c, k[i], &a, &r) < 0 || r.kind != REC_BEST || strcmp(r.label, label) != 0)
			continue;
		REQUIRE_OK(kept_code_get(c, &r, &a, &code));
		cand_of(r.task_text, ++won, r.cand);
		CHECK_OK(kept_code_put(c, &r, code));
		CHECK_OK(cache_put_rec(c, &r));
	}
	CHECK(won > 0);
	cache_close(c);
	arena_free(&a);
}

/* Kernels of the cache that kept the default schedule are called default ones, as by hone bench; the
 * command, its description of the bundle, bench and libhone agree, from the cache and from the image. */
TEST(default_schedules_are_counted_apart)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char bundle[256], found[256], searched[256], winner[96] = "";
	int won = 0; /* kernels of the tasks with label `winner` */
	snprintf(bundle, sizeof bundle, "%s", in_dir("counted"));
	snprintf(found, sizeof found, "%s", tuned());
	snprintf(searched, sizeof searched, "%s", in_dir("searched"));
	for (int i = 0; i < 2; i++) {
		if (i)
			copy_with_winner(found, winner, searched);
		const char *cache = i ? searched : found;
		CHECK_RUN(0, "compile %s -o %s --threads 1 --json --cache %s", steering(), bundle, cache);
		json_t *j = parse_out(), *k;
		int at_default = (int)json_integer_value(json_object_get(j, "at_default_count")),
		    of_cache = (int)count(j, "tuned") + at_default;
		CHECK((int)count(j, "default") == at_default);
		CHECK(of_cache > 3 && at_default == of_cache - won);
		json_decref(j);
		CHECK_RUN(0, "compile %s -o %s --threads 1 --cache %s", steering(), bundle, cache);
		char words[64];
		snprintf(words, sizeof words, "%d default kernel", at_default);
		CHECK_SAYS(cli_out, words);
		snprintf(words, sizeof words, "%d tuned kernel", of_cache - at_default);
		CHECK(!strstr(cli_out, words) == (of_cache == at_default));
		char file[300];
		snprintf(file, sizeof file, "%s/bundle.json", bundle);
		j = json_load_file(file, 0, NULL);
		int listed = 0, shown = 0;
		size_t at;
		json_array_foreach(json_object_get(j, "kernels"), at, k)
		{
			const char *label = json_string_value(json_object_get(k, "label"));
			bool kept = json_is_true(json_object_get(k, "at_default"));
			if (!i && !at)
				snprintf(winner, sizeof winner, "%s", label);
			won += !i && !strcmp(label, winner);
			listed += kept;
			CHECK(kept == (!i || strcmp(label, winner) != 0));
		}
		json_decref(j);
		CHECK(listed == at_default && won > 0 && won < of_cache);
		CHECK_RUN(0, "bench %s --runs 2 --threads 1 --cache %s", steering(), cache);
		for (const char *p = cli_out; (p = strstr(p, "  default  ")) != NULL; p++)
			shown++;
		CHECK(shown == at_default);
		/* A copy has no arithmetic, and so no speed. */
		CHECK(!strstr(cli_out, "  copy 1x64x18  ") || strstr(cli_out, " -        -  "));
		CHECK_RUN(0, "bench %s --runs 2 --threads 1 --json --cache %s", steering(), cache);
		j = parse_out();
		shown = 0;
		json_array_foreach(json_object_get(j, "kernels"), at, k) shown +=
		    json_is_true(json_object_get(k, "at_default"));
		json_decref(j);
		CHECK(shown == at_default);
		CHECK_RUN(0, "report %s -o %s --threads 1 --cache %s", steering(), in_dir("page.html"),
			  cache);
		static char page[1 << 20];
		slurp(in_dir("page.html"), page, sizeof page);
		shown = 0;
		for (const char *p = page; (p = strstr(p, "\"kernels\">default<")) != NULL; p++)
			shown++;
		CHECK(shown == at_default);
		for (int image = 0; image < 2; image++) {
			int rc;
			struct hone_model_info s;
			struct hone_model *m =
			    load_with(image ? "" : cache, image ? bundle : steering(), 0, NULL, &rc);
			REQUIRE(m != NULL);
			HONE_INIT(s);
			CHECK_OK(hone_summary(m, &s));
			CHECK(s.from_image == image && s.kernels[HONE_TUNED] == of_cache - at_default);
			CHECK(s.at_default == at_default && s.kernels[HONE_DEFAULT] == at_default);
			CHECK(origins_of(m, "tuned") == of_cache - at_default);
			CHECK(origins_of(m, "default") == at_default);
			hone_model_close(m);
		}
	}
}

static void make_old(const char *folder)
{
	char cmd[400];
	snprintf(cmd, sizeof cmd, "find '%s' -exec touch -h -d '1 hour ago' '{}' +", folder);
	shell(cmd);
}

/* A compile that is killed leaves its unfinished files, which are no files of others; the next one removes
 * them. Files that only look alike stay, and still block. */
TEST(what_a_killed_compile_left)
{
	static const char *const left[] = {"plan.hone.0badcafe", "plan.hone.00000001", "bundle.json.12345678",
					   ".net.a1B2c3/net.c.01234567", ".net.a1B2c3/net_weights.o"};
	static const char *const others[] = {"plan.hone.backup00", "plan.hone.0badcafe",
					     ".net.a1B2c3/notes.txt", ".net.a1B2/net.c",
					     "bundle.json.1234567"};
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char bundle[256], path[400], cmd[1400];
	snprintf(bundle, sizeof bundle, "%s", in_dir("killed"));
	for (size_t i = 0; i < 5; i++) {
		const char *bytes = i == 0   ? "HIM7 and more"
				    : i == 2 ? "{\n \"made_by\": \"hone compile\","
					     : "";
		snprintf(path, sizeof path, "%s/%s", bundle, left[i]);
		CHECK_OK(file_mkdirs(bundle, 0755));
		snprintf(cmd, sizeof cmd, "umask 077; mkdir -p \"$(dirname '%s')\"", path);
		shell(cmd);
		CHECK_OK(file_write(path, bytes, strlen(bytes)));
	}
	make_old(bundle);
	CHECK_RUN(0, "compile %s -o %s --threads 1 --cache %s", steering(), bundle, tuned());
	for (size_t i = 0; i < 5; i++) {
		snprintf(path, sizeof path, "%s/%s", bundle, left[i]);
		CHECK(!file_exists(path));
	}
	snprintf(path, sizeof path, "%s/.net.a1B2c3", bundle);
	CHECK(!file_exists(path));
	for (size_t i = 0; i < 5; i++) {
		snprintf(path, sizeof path, "%s/%s", bundle, others[i]);
		snprintf(cmd, sizeof cmd, "mkdir -p \"$(dirname '%s')\" && echo mine >'%s'", path, path);
		shell(cmd);
		CHECK_RUN(2, "compile %s -o %s --threads 1 --cache %s", steering(), bundle, tuned());
		CHECK_SAYS(cli_err, "has other files, such as ");
		CHECK(file_exists(path));
		snprintf(cmd, sizeof cmd, "rm '%s'; rm -rf '%s'/.net*", path, bundle);
		shell(cmd);
	}
	CHECK_RUN(0, "compile %s -o %s --threads 1 --cache %s", steering(), bundle, tuned());
}

/* Beside a program's own files, a folder goes only if all of it is what a killed compile of this name left.
 */
TEST(c_leaves_the_folders_of_others)
{
	static const struct {
		const char *make;  /* in the folder, with umask 077 */
		const char *stays; /* NULL: it goes */
		bool fresh;
	} cases[] = {
	    {"mkdir .net.a1B2c3 && : >.net.a1B2c3/net.c", NULL, false},
	    {"mkdir .net.a1B2c3", NULL, false},
	    {"mkdir .net.a1B2c3 && cp net.c net.h .net.a1B2c3", NULL, false},
	    {"mkdir .net.a1B2c3 && cp net.c net.h .net.a1B2c3", ".net.a1B2c3/net.h", true},
	    {"mkdir .net.a1B2c3", ".net.a1B2c3", true},
	    {"mkdir .net.a1B2c3 && chmod 755 .net.a1B2c3", ".net.a1B2c3", false},
	    {"mkdir .net.a1B2c3 && echo mine >.net.a1B2c3/net.c", ".net.a1B2c3/net.c", false},
	    {"mkdir .net.a1B2c3 && : >.net.a1B2c3/net.c && echo mine >.net.a1B2c3/net_weights.o",
	     ".net.a1B2c3/net.c", false},
	    {"mkdir .net.a1B2c3 && : >.net.a1B2c3/net.c && : >.net.a1B2c3/notes", ".net.a1B2c3/net.c", false},
	    {"mkdir .net.a1B2c3 && cp net.c .net.a1B2c3/net.c.old && : >.net.a1B2c3/net.h",
	     ".net.a1B2c3/net.h", false},
	    {"mkdir .net.a1B2c3 && ln -s ../net.c .net.a1B2c3/net.c", ".net.a1B2c3/net.c", false},
	    {"mkdir .net.a1B2c3 .net.a1B2c3/net.c", ".net.a1B2c3/net.c", false},
	    {"mkdir away && cp net.c away && ln -s away .net.a1B2c3", "away/net.c", false},
	    {"mkdir away && ln -s away .net.a1B2c3", ".net.a1B2c3", false},
	    {"mkdir .other.a1B2c3 && : >.other.a1B2c3/other.c", ".other.a1B2c3/other.c", false},
	    {"mkdir .net.backup && cp net.c net.h .net.backup", ".net.backup/net.c", false},
	    {": >plan.hone.01234567", "plan.hone.01234567", false},
	};
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char program[256], path[400], cmd[1000];
	snprintf(program, sizeof program, "%s", in_dir("program"));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(cmd, sizeof cmd,
			 "umask 077; rm -rf '%s' && mkdir '%s' && cd '%s' && "
			 "echo '/* net: a neural network, made by hone */' >net.h && "
			 "echo '/* Made by hone; net.h says what it is. */' >net.c && %s",
			 program, program, program, cases[i].make);
		shell(cmd);
		if (!cases[i].fresh)
			make_old(program);
		CHECK_RUN(0, "compile %s --c --name net -o %s --threads 1 --cache %s", steering(), program,
			  tuned());
		snprintf(path, sizeof path, "%s/%s", program,
			 cases[i].stays ? cases[i].stays : ".net.a1B2c3");
		struct stat st;
		bool there = lstat(path, &st) == 0, good = there == (cases[i].stays != NULL);
		if (!good)
			fprintf(stderr, "%s: %s\n", cases[i].make, there ? "stays" : "is gone");
		CHECK(good);
	}
}

/* Killed at any moment, it blocks no later one. */
TEST(a_killed_compile_blocks_nothing)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char bundle[256];
	snprintf(bundle, sizeof bundle, "%s", in_dir("often-killed"));
	for (int ms = 1; ms < 400; ms += 1 + ms / 4) {
		fflush(NULL);
		pid_t pid = fork();
		if (pid == 0) {
			char *argv[] = {"hone", "compile", (char *)steering(), "-o", bundle, "--threads",
					"1",    "--cache", (char *)tuned(),    NULL};
			redirect(1, in_dir("killed-out"));
			redirect(2, in_dir("killed-err"));
			_exit(hone_main(9, argv));
		}
		usleep((useconds_t)ms * 1000);
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, NULL, 0) == pid);
	}
	CHECK_RUN(0, "compile %s -o %s --threads 1 --cache %s", steering(), bundle, tuned());
}

TEST(options_that_bundles_refuse)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	int rc;
	char b[256], file[300], cmd[700];
	snprintf(b, sizeof b, "%s", in_dir("refused"));
	snprintf(file, sizeof file, "%s/plan.hone", b);
	CHECK_RUN(2, "compile %s", steering());
	CHECK_SAYS(cli_err, "missing option -o DIR or --beside");
	CHECK_RUN(0, "compile %s -o %s --threads 1 --cache %s", steering(), b, tuned());
	CHECK_RUN(2, "run %s --random -o %s --shape camera=1x3x66x200", b, in_dir("no"));
	CHECK_SAYS(cli_err, "compiled");
	CHECK_RUN(2, "bench %s --kernels fallback", b);
	CHECK_SAYS(cli_err, "compiled");
	CHECK_RUN(2, "bench %s --exact", b);
	CHECK_SAYS(cli_err, "not compiled with --level exact");
	CHECK_RUN(2, "bench %s --require-cache", b);
	CHECK_RUN(2, "inspect %s", b);
	CHECK_SAYS(cli_err, "is a compiled model (a folder that hone compile wrote); name the model file");
	CHECK_RUN(1, "report %s -o %s", b, in_dir("none.html"));
	CHECK_SAYS(cli_err, "give the ONNX model that it was compiled from; `hone bench ");
	CHECK(!strstr(cli_err, "--kernels") && !file_exists(in_dir("none.html")));
	for (int i = 0; i < 2; i++) {
		static const char *const rigor[] = {"estimate", "cached"};
		CHECK_RUN(2, "tune %s --rigor %s --threads 1 --cache %s", b, rigor[i], tuned());
		CHECK_SAYS(cli_err, "compiled");
	}
	CHECK_RUN(2, "tasks %s", b);
	CHECK_SAYS(cli_err, "compiled");
	CHECK(!load(b, 0, "camera=1x3x66x200", &rc) && rc == HONE_USAGE);
	CHECK(!load(b, HONE_EXACT, NULL, &rc) && rc == HONE_USAGE && strstr(hone_error(), "--level exact"));
	snprintf(cmd, sizeof cmd, "chmod o+w '%s'", file);
	shell(cmd);
	CHECK(!load(b, 0, NULL, &rc) && rc == HONE_USAGE && strstr(hone_error(), "chmod"));
	CHECK_RUN(2, "run %s --random -o %s", b, in_dir("no"));
	CHECK_SAYS(cli_err, "chmod");
	snprintf(cmd, sizeof cmd, "chmod o-w '%s' && truncate -s 100000 '%s'", file, file);
	shell(cmd);
	CHECK(!load(b, 0, NULL, &rc) && rc == HONE_CORRUPT && strstr(hone_error(), "again"));
	CHECK_RUN(1, "run %s --random -o %s", b, in_dir("no"));
	CHECK(unlink(file) == 0);
	CHECK(!load(b, 0, NULL, &rc) && rc == HONE_NOTFOUND && strstr(hone_error(), "hone compile"));
	CHECK_RUN(1, "run %s --random -o %s", b, in_dir("no"));
	CHECK_SAYS(cli_err, "hone compile");
}

/* Without a cache the default schedules are compiled; for imported records, which have no code, the known
 * schedules are. */
TEST(missing_kernels_are_made)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char log[256], b[256], cache[256];
	snprintf(log, sizeof log, "%s", in_dir("log"));
	snprintf(b, sizeof b, "%s", in_dir("made"));
	snprintf(cache, sizeof cache, "%s", in_dir("cache"));
	CHECK_RUN(0, "compile %s -o %s --threads 1 --exact --cache %s --json", steering(), b, cache);
	json_t *j = parse_out();
	CHECK(count(j, "default") > 3 && !count(j, "tuned") && !count(j, "fallback"));
	json_decref(j);
	int rc;
	struct hone_model *m = load(b, HONE_EXACT, NULL, &rc);
	CHECK(m != NULL);
	hone_model_close(m);
	char words[400];
	CHECK_RUN(0, "run %s --random --threads 1 --exact -o %s", b, in_dir("exact"));
	snprintf(words, sizeof words, "export --cache %s", tuned());
	CHECK(hone_to(log, words) == 0);
	snprintf(cache, sizeof cache, "%s", in_dir("imported"));
	CHECK_RUN(0, "import %s --cache %s", log, cache);
	CHECK_RUN(0, "compile %s -o %s --threads 1 --cache %s --json", steering(), b, cache);
	j = parse_out();
	CHECK(count(j, "default") > 3 && !count(j, "tuned") && !count(j, "fallback")); /* imported records
											* were not timed
											* here */
	json_decref(j);
}

/* libhone loads the image instead of the model as long as the model is unchanged. */
TEST(beside_the_model)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	int rc;
	char model[256], cmd[700];
	snprintf(model, sizeof model, "%s", in_dir("beside.onnx"));
	snprintf(cmd, sizeof cmd, "cp '%s' '%s'", steering(), model);
	shell(cmd);
	CHECK_RUN(0, "compile %s --beside --threads 1 --cache %s", model, tuned());
	for (int i = 0; i < 3; i++) {
		static const char *const change[] = {"true", "touch", "printf x >>"};
		struct hone_model_info s;
		snprintf(cmd, sizeof cmd, "%s '%s'", change[i], model);
		shell(cmd);
		struct hone_model *m = load(model, 0, NULL, &rc);
		if (i == 2) { /* the model's file is gone */
			CHECK(!m);
			break;
		}
		REQUIRE(m != NULL);
		HONE_INIT(s);
		CHECK_OK(hone_summary(m, &s));
		CHECK(s.from_image && s.kernels[HONE_TUNED] + s.kernels[HONE_DEFAULT] > 3);
		CHECK_OK(hone_run(m));
		hone_model_close(m);
	}
}

/* An image in a folder that others can write is not loaded; hone compile warns about that. */
TEST(a_folder_of_others)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char b[256];
	snprintf(b, sizeof b, "%s", in_dir("shared"));
	log_level_set(LOG_NORMAL); /* libhone in the cases before lowers it */
	REQUIRE(mkdir(b, 0700) == 0 && chmod(b, 0775) == 0);
	CHECK_RUN(0, "compile %s -o %s --threads 1 --cache %s", steering(), b, tuned());
	CHECK_SAYS(cli_err, "cannot be loaded as it is");
	CHECK_SAYS(cli_err, "chmod go-w");
	REQUIRE(chmod(b, 0755) == 0);
	CHECK_RUN(0, "compile %s -o %s --threads 1 --cache %s", steering(), b, tuned());
	CHECK(!strstr(cli_err, "cannot be loaded as it is"));
}

/* The model's file changes during the compilation, when the worker starts. */
TEST(a_model_that_changes)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char model[256], script[256], beside[300], text[1200], real[600];
	snprintf(model, sizeof model, "%s", in_dir("changes.onnx"));
	snprintf(script, sizeof script, "%s", in_dir("worker.sh"));
	snprintf(beside, sizeof beside, "%s.hone", model);
	snprintf(real, sizeof real, "%s", worker());
	snprintf(text, sizeof text, "cp '%s' '%s'", steering(), model);
	shell(text);
	snprintf(text, sizeof text, "#!/bin/sh\ntouch '%s'\nexec '%s' \"$@\"\n", model, real);
	CHECK_OK(file_write(script, text, strlen(text)));
	REQUIRE(chmod(script, 0755) == 0 && setenv("HONE_WORKER", script, 1) == 0);
	CHECK_RUN(1, "compile %s --beside --threads 1 --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_err, "changed while it was compiled");
	CHECK(!file_exists(beside));
	REQUIRE(setenv("HONE_WORKER", real, 1) == 0);
	CHECK_RUN(0, "compile %s --beside --threads 1 --cache %s", model, in_dir("cache"));
	CHECK(file_exists(beside));
}

/* A compiled image is kept when the cache gets kernels for something else. */
TEST(refreshing_keeps_what_is_better)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char model[256], cache[256], other[256], cmd[900];
	struct hone_handle *h = NULL;
	struct hone_options o;
	struct hone_kernel_want w;
	snprintf(model, sizeof model, "%s", in_dir("kept.onnx"));
	snprintf(cache, sizeof cache, "%s", in_dir("news"));
	snprintf(other, sizeof other, "%s", in_dir("other.onnx"));
	snprintf(cmd, sizeof cmd, "cp '%s' '%s'", steering(), model);
	shell(cmd);
	const char *caches = cache;
	HONE_INIT(o);
	HONE_INIT(w);
	o.caches = &caches;
	o.ncaches = 1;
	o.threads = 1;
	o.flags = HONE_KEEP_IMAGES;
	w.op = HONE_GEMM;
	w.m = w.n = w.k = 16;
	CHECK_OK(hone_kernel_write(&w, other));
	CHECK_RUN(0, "tune %s --rigor estimate --budget 5s --threads 1 --cache %s", other, cache);
	REQUIRE(hone_open(&o, &h) == 0);
	struct hone_model *m = NULL;
	struct hone_model_info s;
	HONE_INIT(s);
	CHECK_OK(hone_load(h, model, NULL, &m)); /* writes an image with the fallback kernels */
	hone_model_close(m);
	CHECK_RUN(0, "compile %s --beside --threads 1 --cache %s", model, tuned());
	CHECK_OK(hone_load(h, model, NULL, &m));
	REQUIRE(m != NULL);
	CHECK_OK(hone_summary(m, &s));
	CHECK(s.from_image && s.kernels[HONE_TUNED] + s.kernels[HONE_DEFAULT] > 3);
	w.m = 32;
	CHECK_OK(hone_kernel_write(&w, other));
	CHECK_RUN(0, "tune %s --rigor estimate --budget 5s --threads 1 --cache %s", other, cache);
	CHECK(hone_refresh(m) == 0);
	CHECK_OK(hone_summary(m, &s));
	CHECK(s.kernels[HONE_TUNED] + s.kernels[HONE_DEFAULT] > 3);
	hone_model_close(m);
	CHECK_OK(hone_load(h, model, NULL, &m));
	REQUIRE(m != NULL);
	CHECK_OK(hone_summary(m, &s));
	CHECK(s.kernels[HONE_TUNED] + s.kernels[HONE_DEFAULT] > 3);
	/* Kernels from the cache that it was compiled from keep the image. Other kernels are taken. */
	snprintf(cmd, sizeof cmd, "rm -rf '%s' && cp -R '%s' '%s'", cache, tuned(), cache);
	hone_model_close(m);
	hone_close(h);
	shell(cmd);
	REQUIRE(hone_open(&o, &h) == 0);
	CHECK_OK(hone_load(h, model, NULL, &m));
	REQUIRE(m != NULL);
	CHECK_RUN(0, "tune %s --rigor estimate --budget 5s --threads 1 --cache %s", other, cache);
	CHECK(hone_refresh(m) == 0);
	hone_model_close(m);
	hone_close(h);
}

TEST_MAIN
