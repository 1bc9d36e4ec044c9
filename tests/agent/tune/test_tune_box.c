/* SPDX-License-Identifier: Apache-2.0 */
/* How boxes end: too short for their model, with a network that no memory or no time is enough for, stopped
 * in the search, and with a job that hangs. */
#include "agent/tune/tune_net.h"
#include "agent/tune/tune_parts.h"
#include "platform/base/disk.h"
#include "platform/base/rng.h"
#include "platform/base/quantity.h"
#include "tests/lib/cli.h"
#include "tests/lib/onnx_make.h"
#include "tests/lib/sysroot.h"

/* Writes y = x * w, with w in a file of zeros that takes no place on the disk, but seconds to read. */
static const char *large_model(void)
{
	static char path[256];
	struct onnx_maker k;
	mkdir(in_dir("large"), 0700);
	snprintf(path, sizeof path, "%s/model.onnx", in_dir("large"));
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 400000");
	mk_entry(&k, mk_init(&k, "w", 1, "400000 1000", NULL, 0), "location", "w.bin");
	mk_node(&k, "MatMul", "x w", "y");
	mk_output(&k, "y");
	struct blob b = mk_bytes(&k);
	CHECK_OK(file_write(path, b.p, b.n));
	CHECK_OK(file_write(in_dir("large/w.bin"), "", 0));
	CHECK(truncate(in_dir("large/w.bin"), 1600000000) == 0);
	arena_free(&k.a);
	return path;
}

/* y = relu(x), of any height. */
static const char *tall_model(void)
{
	static char path[256];
	struct onnx_maker k;
	snprintf(path, sizeof path, "%s", in_dir("tall.onnx"));
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 1 height 64");
	mk_node(&k, "Relu", "x", "y");
	mk_output(&k, "y");
	struct blob b = mk_bytes(&k);
	CHECK_OK(file_write(path, b.p, b.n));
	arena_free(&k.a);
	return path;
}

/* Names, sizes, times and sums of all files of a folder. */
static void list_files(const char *folder, char *to, size_t n)
{
	char cmd[1024], path[256];
	snprintf(path, sizeof path, "%s", in_dir("list"));
	snprintf(cmd, sizeof cmd,
		 "cd '%s' && find . -printf '%%p %%s %%T@\\n' | sort >'%s' && cat $(find . -type f) | cksum "
		 ">>'%s'",
		 folder, path, path);
	CHECK(system(cmd) == 0);
	slurp(path, to, n);
}

static void check_too_short(const char *cache)
{
	CHECK_RUN(1, "tune %s --budget 100ms --threads 1 --cache %s", large_model(), cache);
	CHECK_SAYS(cli_err, "the box of 100 ms ended while the model was read (");
	CHECK_SAYS(cli_err, " of 1600.0 MB)");
	CHECK_SAYS(cli_err, "nothing was changed. Give --budget ");
	CHECK(test_count(cli_err, "\n") == 1 && !cli_out[0]);
}

TEST(too_short_to_read_the_model)
{
	static char before[1 << 16], after[1 << 16];
	char cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("none"));
	check_too_short(cache);
	CHECK(!file_exists(cache));
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(cache, sizeof cache, "%s", in_dir("some"));
	CHECK_RUN(0, "tune -q %s --rigor estimate --budget 60s --threads 1 --cache %s", steering(), cache);
	list_files(cache, before, sizeof before);
	check_too_short(cache);
	list_files(cache, after, sizeof after);
	CHECK(before[0] && !strcmp(before, after));
}

TEST(gigantic_shapes)
{
	struct sysroot b;
	char cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("gigantic"));
	sysroot_begin(&b);
	setenv("HONE_SYSROOT", b.root, 1);
	static const char tune[] = "tune %s --budget 300ms --threads 1 --cache %s --shape height=%s";
	CHECK_RUN(2, tune, tall_model(), cache, "99999999");
	CHECK_SAYS(cli_err, "elements");
	sysroot_memory(&b, 4000, 1000);
	CHECK_RUN(1, tune, tall_model(), cache, "7000000");
	CHECK_SAYS(cli_err, "GB of memory, and 1.0 GB are free; give smaller sizes with --shape");
	sysroot_memory(&b, 400000, 100000);
	CHECK_RUN(1, tune, tall_model(), cache, "7000000"); /* no kernel was tried */
	CHECK_SAYS(cli_out, "not measured: too little time was left");
	unsetenv("HONE_SYSROOT");
	sysroot_end(&b);
}

static struct box_times reserved(const struct box_costs *c)
{
	struct box_times t = {.end_ns = 1000 * NS_PER_S};
	tune_reserve(&t, c);
	return t;
}

/* Whenever a run of the network alone fits into half of what is left, the search leaves time for it, and so
 * do kernels that are missing. */
TEST(measuring_at_the_end_is_reserved)
{
	struct rng r;
	rng_seed(&r, 1);
	for (int i = 0; i < 100000 && !test_bad; i++) {
		struct box_costs c = {.budget_ns = (100 + rng_below(&r, 30000)) * NS_PER_MS,
				      .build_ns = rng_below(&r, 1000) * NS_PER_MS,
				      .run_ns = rng_below(&r, 500) * NS_PER_MS,
				      .closing_ns = (15 + rng_below(&r, 200)) * NS_PER_MS};
		c.left_ns = c.budget_ns * (int64_t)(1 + rng_below(&r, 100)) / 100;
		c.again_ns = rng_below(&r, 2) ? c.run_ns : 0;
		struct box_times t = reserved(&c);
		bool fits = c.build_ns + c.build_ns / 4 + 2 * c.run_ns + c.closing_ns <= c.left_ns / 2;
		int64_t need_ns = fits ? c.build_ns + 2 * c.run_ns + c.closing_ns : c.closing_ns;
		CHECK(t.reserve_ns > need_ns && t.end_ns - t.missing_by_ns > need_ns);
		CHECK(!fits || t.alone_ns >= need_ns);
	}
}

/* A network of a few microseconds: a search that ends late by a 50th of the box, or by 0.4 s, as on a busy
 * machine, still leaves time for building and comparing three plans. */
TEST(a_late_search_leaves_time_for_a_tiny_network)
{
	struct rng r;
	rng_seed(&r, 2);
	for (int i = 0; i < 10000 && !test_bad; i++) {
		struct box_costs c = {.budget_ns = (2000 + rng_below(&r, 60000)) * NS_PER_MS,
				      .build_ns = (1 + rng_below(&r, 5)) * NS_PER_MS,
				      .run_ns = 1000 + rng_below(&r, 50000),
				      .closing_ns = (60 + rng_below(&r, 20)) * NS_PER_MS};
		c.left_ns = c.budget_ns * 9 / 10;
		c.again_ns = rng_below(&r, 2) ? c.run_ns : 0;
		struct box_times t = reserved(&c);
		int64_t late_ns = c.budget_ns / 50 < 400 * NS_PER_MS ? c.budget_ns / 50 : 400 * NS_PER_MS;
		int64_t room_ns = t.reserve_ns - c.closing_ns - 3 * c.build_ns - t.race_ns - t.round_ns;
		bool full = t.reserve_ns >= c.budget_ns / 8; /* which is the most that is taken */
		CHECK(full || room_ns >= late_ns + 100 * NS_PER_MS);
		CHECK(t.reserve_ns <= c.budget_ns / 8 && t.reserve_ns < 800 * NS_PER_MS);
	}
}

/* ResNet-50 on a core of which other work takes half: its runs were never repeated. */
TEST(a_large_network_in_a_short_box)
{
	const struct box_costs c = {.budget_ns = 20 * NS_PER_S,
				    .left_ns = 18 * NS_PER_S,
				    .build_ns = 700 * NS_PER_MS,
				    .run_ns = 260 * NS_PER_MS,
				    .again_ns = 400 * NS_PER_MS,
				    .closing_ns = 200 * NS_PER_MS};
	struct box_times t = reserved(&c);
	CHECK(t.reserve_ns > t.alone_ns && t.alone_ns > c.build_ns + 2 * c.run_ns + c.closing_ns);
	CHECK(t.reserve_ns <= c.left_ns / 5);
}

/* Samples are of all moments of a series, not of its end, and those of two networks stay in pairs. */
TEST(samples_of_all_moments)
{
	static struct net n, other;
	static double ns[NET_SAMPLES], others[NET_SAMPLES];
	net_add(&other, 1000);
	for (int all = 1; all <= 20000 && !test_bad; all++) {
		net_add(&n, 1000 + all - 1);
		int apart = net_apart(&n, &other), count = net_samples(&n, apart, ns);
		int pairs = net_samples(&other, apart, others);
		CHECK(pairs > 0 && pairs <= count && count >= (all < NET_SAMPLES ? all : NET_SAMPLES / 2));
		for (int i = 0; i < count; i++)
			CHECK(ns[i] == 1000 + i * apart && (i >= pairs || others[i] == ns[i]));
		net_add(&other, 1000 + all); /* it is a round ahead */
	}
	net_forget(&n);
	CHECK(net_samples(&n, 1, ns) == 0 && net_median_ns(&n) == 0);
}

/* Random series of runs: most take about the true time, and others made the rest longer by any factor. Two of
 * them agree as soon as two were not disturbed; slow runs that differ from each other do not agree. */
TEST(runs_agree_on_the_true_time)
{
	struct rng r;
	rng_seed(&r, 3);
	for (int i = 0; i < 5000 && !test_bad; i++) {
		static struct net n;
		int64_t true_ns = 1000 + rng_below(&r, 1000000), slow_ns = 2 * true_ns;
		int clean = 0, want = (int)rng_below(&r, 4);
		net_forget(&n);
		CHECK(!net_agrees(&n));
		for (int k = 0; k < 12; k++) {
			bool quiet = clean < want && rng_below(&r, 2);
			clean += quiet;
			slow_ns += slow_ns / 2; /* half as slow again as the last slow one */
			net_add(&n, quiet ? true_ns + rng_below(&r, (uint32_t)true_ns / 5) : slow_ns);
			CHECK(net_agrees(&n) == (clean > 1));
		}
	}
}

static volatile sig_atomic_t stop;
static void (*then)(void);

/* Once all tasks have a time. */
static void at_progress(void *ctx, const struct job_progress *p)
{
	(void)ctx;
	if (p->measured == p->ntasks)
		then();
}

static void answer(void *ctx, int rc, const struct tune_report *r)
{
	int searched = 0;
	(void)ctx;
	for (int i = 0; i < r->nkernels; i++)
		searched += !r->kernel[i].after_ns && r->kernel[i].alone_ns > 0;
	_exit(rc == E_OK && r->late && r->trials > 0 && searched > 0 && r->before_ms > 0 && !r->after_ms
		  ? 42
		  : 43);
}

/* From then on, commands that this process runs take its start for theirs. */
static struct tune_options box_of(const char *cache, const char *budget)
{
	struct tune_options o = {.model = steering(),
				 .threads = 1,
				 .builders = 0,
				 .cache = cache,
				 .seed = 1,
				 .stop = &stop,
				 .progress = at_progress,
				 .late = answer};
	CHECK_OK(duration_parse(budget, &o.budget_ns));
	o.budget_ns += clock_since_start(&clock_real);
	return o;
}

static void stop_now(void)
{
	stop = 1;
}

/* A box that is over before its model was opened: the advice must not count the time since the board started. */
TEST(over_before_it_reads)
{
	int advised_s = 0;
	const struct tune_options o = {.model = "m.onnx", .budget_ns = NS_PER_S};
	const struct session s = {.o = &o, .clock = &clock_real, .times.end_ns = clock_now(&clock_real)};
	CHECK(tune_too_short(&s) == E_TIMEOUT);
	const char *advice = strstr(err_text(), "Give --budget ");
	CHECK(advice && sscanf(advice, "Give --budget %ds", &advised_s) == 1);
	CHECK(advised_s >= 2 && advised_s <= 60);
}

TEST(rows_of_the_search)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	struct arena a = {0};
	struct tune_report r;
	const struct tune_options o = box_of(in_dir("stopped"), "60s");
	then = stop_now;
	REQUIRE_OK(tune_model(&o, &a, &r));
	CHECK(r.stopped && !r.after_ms && !r.late && r.nkernels > 0);
	int searched = 0;
	for (int i = 0; i < r.nkernels; i++)
		searched += !r.kernel[i].after_ns && r.kernel[i].alone_ns > 0 && r.kernel[i].roofline > 0;
	CHECK(searched >= r.tasks);
	stop = 0;
	arena_free(&a);
}

static void hang(void)
{
	for (;;)
		pause();
}

TEST(a_job_that_hangs)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	struct arena a = {0};
	struct tune_report r;
	const struct tune_options o = box_of(in_dir("hangs"), "8s");
	int status = 0;
	then = hang;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		_exit(tune_model(&o, &a, &r) >= 0 ? 1 : 2);
	waitpid(pid, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

static bool gain_written;

static int note_gain(int fd, const void *p, size_t n, int64_t at)
{
	gain_written |= memmem(p, n, "hone-gain 1\n", 12) != NULL;
	return disk_system.write(fd, p, n, at);
}

static int hang_after_gain(int fd)
{
	if (gain_written)
		hang();
	return disk_system.sync(fd);
}

static void answer_with_gain(void *ctx, int rc, const struct tune_report *r)
{
	(void)ctx;
	_exit(rc == E_OK && r->late && r->after_ms > 0 && r->gain.faster.rounds > 0 ? 42 : 43);
}

/* The flash is still busy with the gain when the box ends: readers of the cache see that gain already, and
 * the answer tells it too. */
TEST(a_flash_that_is_busy_at_the_end)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	struct arena a = {0};
	struct tune_report r;
	struct tune_options o = box_of(in_dir("busy"), "6s");
	int status = 0;
	o.progress = NULL;
	o.late = answer_with_gain;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		struct disk slow = disk_system;
		slow.write = note_gain;
		slow.sync = hang_after_gain;
		disk = &slow;
		int rc = tune_model(&o, &a, &r);
		_exit(rc == E_OK && r.at_defaults ? 41 : 1);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 41)
		SKIP("no schedule was better than the default, so there was no gain to write");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

static int sync_slowly(int fd)
{
	usleep(150000);
	return disk_system.sync(fd);
}

static void answer_early(void *ctx, int rc, const struct tune_report *r)
{
	(void)ctx;
	_exit(rc == E_OK && r->late ? 43 : 44);
}

/* On slow flash the search ends earlier, so that the networks are still compared. */
TEST(a_box_on_slow_flash_compares_its_networks)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	struct arena a = {0};
	struct tune_report r;
	struct tune_options o = box_of(in_dir("slow"), "8s");
	int status = 0;
	o.progress = NULL;
	o.late = answer_early;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		struct disk slow = disk_system;
		slow.sync = sync_slowly;
		disk = &slow;
		int rc = tune_model(&o, &a, &r);
		_exit(rc == E_OK && r.after_ms > 0 && r.default_ms > 0 ? 42 : 1);
	}
	waitpid(pid, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

TEST_MAIN
