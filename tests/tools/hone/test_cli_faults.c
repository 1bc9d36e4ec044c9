/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes on a device some of whose candidates answer wrong, hang, crash the driver or lose the device, in
 * their first run or later: the right ones are kept, with their times, and each other one is recorded as what
 * it is. The driver (tests/lib/fake_opencl.c) tells them by their source. SEEDS=n: more boxes. */
#include "agent/cache/trials.h"
#include "tests/lib/byte_net.h"
#include "tests/lib/fake_driver.h"
#include "tests/lib/fake_opencl.h"
#include "tests/lib/kept_kernels.h"

#include <limits.h>

enum { FLOATS = 2048 };

static const char *model(void)
{
	static char path[256];
	if (!path[0])
		snprintf(path, sizeof path, "%s", one_node("relu.onnx", "Relu", "1 8 16 16"));
	return path;
}

static void open_fake(void)
{
	fake_driver_open(fake_opencl());
	guard_patience(2 * NS_PER_S);
	fake_lie("");
}

/* A folder with the device's peaks, so that no box measures them. */
static const char *new_cache(const char *name, struct target *t)
{
	static char path[256];
	snprintf(path, sizeof path, "%s", in_dir(name));
	CHECK(mkdir(path, 0755) == 0);
	fake_lie("");
	CHECK_OK(device_target("opencl:0", NULL, path, t));
	CHECK_OK(device_measure("opencl:0", NULL, path, t));
	return path;
}

/* The hash by which the driver knows a candidate. */
static uint32_t hash_of(const char *task, const char *cand, const struct target *t)
{
	struct arena a = {0};
	struct task *parsed = ARENA_NEW(&a, struct task);
	struct manifest *m = ARENA_NEW(&a, struct manifest);
	struct loops *l;
	struct blob object = {0};
	int rc = task_parse(task, parsed);
	if (rc >= 0)
		rc = lower(parsed, cand, t, &a, &l, m);
	if (rc >= 0)
		rc = emit_find("opencl")->emit(l, t, &a, &object);
	CHECK_OK(rc);
	const char *source = rc < 0 ? NULL : memchr(object.p, '\n', object.n);
	uint32_t hash =
	    source ? fake_hash(source + 1, object.n - (size_t)(source + 1 - (const char *)object.p)) : 0;
	arena_free(&a);
	return hash;
}

/* The task's log of the boxes so far. */
struct seen {
	struct trials log;
	char text[4096];
	int logs, marks, ended; /* marks of candidates; of them those whose run a box ended */
};

static int take_log(void *ctx, const struct trials *l)
{
	struct seen *s = ctx;
	struct buf text = {0};
	trials_text(l, &text);
	if (!s->logs++)
		CHECK_OK(trials_parse(buf_str(&text), &s->log));
	snprintf(s->text, sizeof s->text, "%s", s->log.task_text ? s->log.task_text : "");
	buf_free(&text);
	return E_OK;
}

static void look(const char *cache, struct seen *s)
{
	struct cache *c;
	struct arena a = {0};
	struct key *k;
	struct blob b;
	*s = (struct seen){.logs = 0};
	REQUIRE_OK(cache_open(&c, cache, true, 0));
	CHECK_OK(trials_each(c, take_log, s));
	s->marks = cache_keys(c, CACHE_RISK, &a, &k);
	for (int i = 0; i < s->marks; i++) {
		CHECK_OK(cache_get(c, CACHE_RISK, k[i], &a, &b));
		s->ended += memmem(b.p, b.n, "\nended ", 7) != NULL;
	}
	cache_close(c);
	arena_free(&a);
}

static void tune(const char *cache, const char *budget, double most_s)
{
	double start_s = test_now_s();
	CHECK_RUN(0, "tune %s --device opencl:0 --builders 0 --budget %s --cache %s", model(), budget, cache);
	CHECK(test_now_s() - start_s < most_s + 3);
}

/* The text of the task and its default, from a box whose kernels are all right. */
static uint32_t default_hash(const struct target *t, const char *cache, char text[4096])
{
	struct seen s;
	char lie[80];
	uint32_t hash = 0;
	snprintf(lie, sizeof lie, FAKE_JUDGES, FLOATS, 0, 0, FAKE_WRONG);
	fake_lie(lie);
	CHECK_RUN(0, "tune %s --device opencl:0 --builders 0 --rigor estimate --budget 60s --cache %s",
		  model(), cache);
	look(cache, &s);
	if (s.logs == 1 && s.log.n > 0) {
		snprintf(text, 4096, "%s", s.text);
		hash = hash_of(text, s.log.entry[0].t.cand, t);
	}
	CHECK(s.logs == 1 && hash);
	trials_free(&s.log);
	return hash;
}

/* What a driver's compiler says of good kernels is of no use to people; what it says before it ends the
 * worker is. */
TEST(words_of_drivers_are_kept_aside)
{
	struct target t;
	open_fake();
	const char *cache = new_cache("words", &t);
	setenv("FAKE_OPENCL_TALKS", "1", 1);
	for (int verbose = 0; verbose < 2; verbose++) {
		CHECK_RUN(0, "tune %s %s --device opencl:0 --builders 0 --budget 1s --cache %s", model(),
			  verbose ? "-v" : "-q", cache);
		CHECK(verbose == (strstr(cli_err, "8 warnings generated.\n") != NULL));
	}
	fake_lie("build-abort");
	(void)hone("tune %s --device opencl:0 --builders 0 --budget 1s --cache %s", model(), cache);
	CHECK_SAYS(cli_err, "fake: out of registers\n");
	unsetenv("FAKE_OPENCL_TALKS");
}

/* The result that a candidate of this class has. */
static bool is_result(enum fake_class c, enum meas_status s)
{
	static const enum meas_status want[FAKE_CLASSES] = {
	    [FAKE_WRONG] = MEAS_WRONG,         [FAKE_CRASH] = MEAS_CRASH,
	    [FAKE_STUCK_LATER] = MEAS_TIMEOUT, [FAKE_LOST_LATER] = MEAS_CRASH,
	    [FAKE_CRASH_LATER] = MEAS_CRASH,   [FAKE_RIGHT] = MEAS_OK,
	    [FAKE_STUCK] = MEAS_TIMEOUT};
	return s == want[c] || (c == FAKE_RIGHT && s == MEAS_ABORTED);
}

/* Compares the log with what the driver did; *best_us: the fastest right candidate that was tried. */
static void check_log(const struct seen *s, const struct target *t, unsigned salt, int count[FAKE_CLASSES],
		      int *best_us)
{
	int dead = 0;
	for (int i = 0; i < s->log.n; i++) {
		const struct tried *k = &s->log.entry[i].t;
		uint32_t hash = hash_of(s->text, k->cand, t);
		enum fake_class c = fake_class(hash, salt);
		int us = fake_us(hash, salt);
		count[c]++;
		CHECK(is_result(c, k->status));
		if (k->status == MEAS_OK) {
			CHECK(k->ns > us * 500 && k->ns < us * 2000 + 1000000);
			*best_us = us < *best_us ? us : *best_us;
		}
		dead += c > FAKE_WRONG && c < FAKE_RIGHT;
		if (test_bad)
			printf("salt %u, class %d, %d us: %s, %g us: %s\n", salt, c, us,
			       meas_status_name(k->status), (double)k->ns / 1e3, k->cand);
	}
	CHECK(s->marks - s->ended == dead && s->ended <= 1);
	if (test_bad)
		printf("%d marks, %d of them ended, %d dead\n", s->marks, s->ended, dead);
}

/* Checks the record's candidate. */
static void check_best(const char *cache, const struct seen *s, const struct target *t, unsigned salt,
		       int best_us)
{
	CHECK_RUN(0, "show --json --cache %s", cache);
	json_t *j = parse_out(), *r;
	size_t i;
	json_array_foreach(json_object_get(j, "record_list"), i, r)
	{
		const char *cand = json_string_value(json_object_get(r, "cand"));
		uint32_t hash = cand ? hash_of(s->text, cand, t) : 0;
		CHECK(cand && fake_class(hash, salt) == FAKE_RIGHT);
		const char *kind = json_string_value(json_object_get(r, "record_kind"));
		if (kind && !strcmp(kind, "best"))
			CHECK(fake_us(hash, salt) <= best_us + best_us / 4 + 200);
		if (test_bad)
			printf("%s: %s, %d us of %d us\n", kind, cand, fake_us(hash, salt), best_us);
	}
	CHECK(json_array_size(json_object_get(j, "record_list")) >= 1);
	json_decref(j);
}

TEST(right_candidates_beside_bad_ones)
{
	const char *seeds = getenv("SEEDS");
	int boxes = seeds ? atoi(seeds) : 2, all[FAKE_CLASSES] = {0};
	struct target t;
	char text[4096], lie[80], name[32];
	open_fake();
	uint32_t hash = default_hash(&t, new_cache("default", &t), text);
	unsigned salt = 1;
	for (int box = 0; box < boxes && !test_bad; box++, salt++) {
		/* In every second box the default is bad, in its timed runs, too. */
		enum fake_class want = box % 2 ? FAKE_STUCK_LATER : FAKE_RIGHT;
		while (fake_class(hash, salt) != want)
			salt++;
		struct seen s;
		int count[FAKE_CLASSES] = {0}, best_us = INT32_MAX;
		snprintf(name, sizeof name, "bad%d", box);
		const char *cache = new_cache(name, &t);
		snprintf(lie, sizeof lie, FAKE_JUDGES, FLOATS, salt, 0, FAKE_WRONG);
		fake_lie(lie);
		tune(cache, "6s", 6);
		look(cache, &s);
		CHECK(s.logs == 1);
		check_log(&s, &t, salt, count, &best_us);
		check_best(cache, &s, &t, salt, best_us);
		CHECK(count[FAKE_RIGHT] >= 3);
		if (test_bad)
			printf("box %d: %s%s\n", box, cli_out, cli_err);
		for (int c = 0; c < FAKE_CLASSES; c++)
			all[c] += count[c];
		trials_free(&s.log);
	}
	int bad = 0;
	for (int c = 0; c < FAKE_RIGHT; c++)
		bad += all[c];
	CHECK(bad >= 3 * boxes && (boxes < 2 || all[FAKE_STUCK_LATER] > 0));
	for (int c = 0; c < FAKE_STUCK; c++)
		printf("%d%s", all[c], c + 1 < FAKE_STUCK ? ", " : " candidates of the classes\n");
}

/* The result that the log has of the candidate with this hash. */
static enum meas_status result_of(const struct seen *s, const struct target *t, uint32_t hash)
{
	for (int i = 0; i < s->log.n; i++)
		if (hash_of(s->text, s->log.entry[i].t.cand, t) == hash)
			return s->log.entry[i].t.status;
	return MEAS_STATUSES;
}

/* The default hangs in its first run until the box ends: it is launched in two boxes, and not in the next. A
 * busy machine may end a box before the hang counts. */
TEST(hangs_at_the_end_of_a_box)
{
	struct target t;
	char text[4096], lie[80];
	int boxes = 0, right = 0;
	open_fake();
	uint32_t hash = default_hash(&t, new_cache("default2", &t), text);
	const char *cache = new_cache("end", &t);
	snprintf(lie, sizeof lie, FAKE_JUDGES, FLOATS, 1, hash, FAKE_STUCK);
	for (enum meas_status known = MEAS_STATUSES; known == MEAS_STATUSES && boxes < 8 && !test_bad;
	     boxes++) {
		struct seen s;
		fake_lie(lie);
		(void)hone("tune %s --device opencl:0 --builders 0 --budget 2200ms --cache %s", model(),
			   cache);
		look(cache, &s);
		known = result_of(&s, &t, hash);
		right = s.log.count[MEAS_OK];
		CHECK(s.marks - s.ended >= (known != MEAS_STATUSES) || s.ended > 0);
		CHECK(known == MEAS_STATUSES || known == MEAS_TIMEOUT);
		if (known == MEAS_STATUSES)
			CHECK(s.ended == 1 && s.log.n == 0);
		trials_free(&s.log);
	}
	CHECK(boxes >= 3 && boxes < 8 && right > 0);
	if (test_bad)
		printf("%d boxes, %d right: %s%s\n", boxes, right, cli_out, cli_err);
}

/* It hangs in a timed run: then its mark is there, too, though it was right before. */
TEST(hangs_in_a_timed_run_at_the_end_of_a_box)
{
	struct target t;
	char text[4096], lie[80];
	struct seen s = {.logs = 0};
	open_fake();
	uint32_t hash = default_hash(&t, new_cache("default3", &t), text);
	const char *cache = new_cache("timed", &t);
	snprintf(lie, sizeof lie, FAKE_JUDGES, FLOATS, 1, hash, FAKE_STUCK_LATER);
	for (int i = 0; i < 4 && s.marks == 0; i++) {
		fake_lie(lie);
		(void)hone("tune %s --device opencl:0 --builders 0 --budget 1500ms --cache %s", model(),
			   cache);
		look(cache, &s);
		trials_free(&s.log);
	}
	CHECK(s.marks == 1 && s.ended == 1);
}

/* ---- programs ---- */

/* The network's output for seeded inputs. */
static size_t answer(const char *path, const char *options, const char *cache, char *to, size_t cap)
{
	char folder[256], file[300];
	struct arena a = {0};
	struct blob b = {0};
	snprintf(folder, sizeof folder, "%s", in_dir("answer"));
	CHECK_RUN(0, "run %s --random --json %s --cache %s -o %s", path, options, cache, folder);
	snprintf(file, sizeof file, "%s/%s.npy", folder, path == model() ? "y" : "out");
	CHECK_OK(file_read(&a, file, cap, &b));
	if (b.n)
		memcpy(to, b.p, b.n);
	size_t n = b.n;
	arena_free(&a);
	return n;
}

/* Lines of the file of counts that are the word; empties it if `clear`. */
static int programs(const char *file, const char *word, bool clear)
{
	static char text[1 << 16];
	int n = 0;
	slurp(file, text, sizeof text);
	for (char *save = NULL, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		n += !strcmp(line, word);
	if (clear)
		unlink(file);
	return n;
}

/* After a box, no command builds a source again, until the device changes; the answer is right either way. */
TEST(kept_programs_are_not_built_again)
{
	static char want[1 << 16], got[1 << 16];
	char text[4096], lie[80], file[256], cache[256];
	struct target t;
	open_fake();
	snprintf(cache, sizeof cache, "%s", new_cache("kept", &t));
	uint32_t hash = default_hash(&t, new_cache("default4", &t), text);
	snprintf(file, sizeof file, "%s", in_dir("counts"));
	size_t n = answer(model(), "", cache, want, sizeof want);
	snprintf(lie, sizeof lie, FAKE_JUDGES, FLOATS, 1, hash, FAKE_RIGHT);
	fake_lie(lie);
	setenv("FAKE_OPENCL_COUNTS", file, 1);
	CHECK_RUN(0, "tune %s --device opencl:0 --builders 0 --rigor estimate --budget 60s --cache %s",
		  model(), cache);
	CHECK(programs(file, "source", true) >= 1);
	for (int changed = 0; changed < 2; changed++) {
		if (changed)
			setenv("FAKE_OPENCL_VERSION", "OpenCL 1.2 other", 1);
		size_t m = answer(model(), "--device opencl:0 --require-cache", cache, got, sizeof got);
		CHECK(n > 0 && m == n && !memcmp(want, got, n));
		CHECK(programs(file, "source", false) == changed);
		CHECK(programs(file, "binary", true) == !changed);
	}
	unsetenv("FAKE_OPENCL_COUNTS");
	unsetenv("FAKE_OPENCL_VERSION");
}

/* A network of signed bytes between floats. */
static const char *byte_model(void)
{
	static char path[256];
	struct byte_net m;
	struct blob b = byte_net(&m, 1, &(struct byte_net_size){8, 20, 9});
	snprintf(path, sizeof path, "%s", in_dir("bytes.onnx"));
	CHECK_OK(file_write(path, b.p, b.n));
	arena_free(&m.k.a);
	return path;
}

/* The driver once built kernels of bytes with its dot products, and does not any more: the processor's
 * operators on bytes take their place, with the same numbers, and the report says why. */
TEST(dot_products_that_are_not_built)
{
	static const struct {
		const char *lie, *why;
		bool whole; /* the whole network falls back */
	} cases[] = {
	    {"fail clBuildProgram", "its driver built no kernel: clBuildProgram: CL_BUILD_PROGRAM_FAILURE",
	     true},
	    {"null clCreateKernel", "its driver built no kernel: clCreateKernel: it gave NULL", true},
	    {"no-dots", "the device's driver does not build its kernel", false}};
	static char want[1 << 16], got[1 << 16];
	struct target t;
	char path[256], cache[256];
	int dots = 0;
	open_fake();
	setenv("FAKE_OPENCL_EXTENSIONS", "cl_arm_integer_dot_product_int8", 1);
	snprintf(path, sizeof path, "%s", byte_model());
	snprintf(cache, sizeof cache, "%s", new_cache("bytes", &t));
	size_t n = answer(path, "", cache, want, sizeof want);
	CHECK(target_has(&t, "+cl_arm_integer_dot_product_int8"));
	struct keep kernels = {
	    .path = cache, .model = path, .target = &t, .bytes = true, .most = INT_MAX, .word = "arm_dot("};
	int kept = keep_kernels(&kernels);
	dots = kernels.has_word;
	CHECK(kept > dots && dots >= 1);
	if (test_bad)
		printf("%d of %d kernels call dot products\n", dots, kept);
	fake_lie("");
	CHECK_RUN(0, "bench %s --json --runs 1 --device opencl:0 --cache %s", path, cache);
	CHECK(cli_kernels_there() > dots);
	for (size_t i = 0; i < sizeof cases / sizeof *cases && !test_bad; i++) {
		fake_lie(cases[i].lie);
		size_t m = answer(path, "--device opencl:0", cache, got, sizeof got);
		json_t *j = parse_out(), *there = json_object_get(j, "device_use"), *row;
		int left = 0;
		size_t at;
		CHECK(n > 0 && m == n);
		CHECK(!cases[i].whole || !memcmp(want, got, n)); /* else the device's kernels do nothing */
		json_array_foreach(json_object_get(there, "on_processor"), at, row)
		{
			const char *why = json_string_value(json_object_get(row, "why"));
			bool same = why && strstr(why, cases[i].why);
			left += same ? (int)json_integer_value(json_object_get(row, "count")) : 0;
		}
		const char *fell = json_string_value(json_object_get(json_object_get(j, "fallback"), "why"));
		if (cases[i].whole)
			CHECK_SAYS(fell ? fell : "nothing", cases[i].why);
		else
			CHECK(!fell && left == dots);
		if (test_bad)
			printf("%s: %s%s\n", cases[i].lie, cli_out, cli_err);
		json_decref(j);
	}
}

/* Nor can a box tune them there: its log says that no candidate is built, and the network keeps its numbers.
 */
TEST(dot_products_that_no_box_builds)
{
	static char want[1 << 16], got[1 << 16];
	char path[256], cache[256];
	struct seen s;
	struct target t;
	open_fake();
	setenv("FAKE_OPENCL_EXTENSIONS", "cl_arm_integer_dot_product_int8", 1);
	snprintf(path, sizeof path, "%s", byte_model());
	snprintf(cache, sizeof cache, "%s", new_cache("unbuilt", &t));
	size_t n = answer(path, "", cache, want, sizeof want);
	fake_lie("no-dots");
	CHECK_RUN(0, "tune %s --device opencl:0 --builders 0 --budget 3s --cache %s", path, cache);
	look(cache, &s);
	CHECK(s.logs >= 1 && s.log.count[MEAS_OK] == 0);
	trials_free(&s.log);
	size_t m = answer(path, "--device opencl:0", cache, got, sizeof got);
	CHECK(n > 0 && m == n && !memcmp(want, got, n));
	if (test_bad)
		printf("%s%s\n", cli_out, cli_err);
	unsetenv("FAKE_OPENCL_EXTENSIONS");
}

TEST_MAIN
