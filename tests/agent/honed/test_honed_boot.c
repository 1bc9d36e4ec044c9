/* SPDX-License-Identifier: Apache-2.0 */
/* The boot box end to end: the real honed, jobs and workers, on a board in a folder. */
#include "tests/lib/boot.h"
#include "agent/honed/marks.h"

#define NEED_PROGRAMS                                                                                        \
	do {                                                                                                 \
		if (!boot_can())                                                                             \
			SKIP("no honed, hone and hone-worker (HONE_WORKER)");                                \
	} while (0)

static struct cache_state cache_of(const struct boot *b)
{
	struct cache *c;
	struct cache_state s = {0};
	if (cache_open(&c, boot_path(b, "state/cache"), true, 0) >= 0) {
		cache_state(c, &s);
		cache_close(c);
	}
	return s;
}

static struct marks marks_of(const struct boot *b)
{
	struct marks m = {0};
	CHECK_OK(marks_read(boot_path(b, "state/marks"), marks_day(), &m));
	return m;
}

static void show_log(const struct boot *b)
{
	struct arena a = {0};
	struct blob log;
	if (test_bad && file_read(&a, boot_path(b, "log"), 0, &log) >= 0)
		printf("%s\nsaid: %s\n", (const char *)log.p, buf_str(&b->said));
	arena_free(&a);
}

/* Runs a whole box; returns its length in s. */
static double box(struct boot *b)
{
	double start_s = test_now_s();
	boot_start(b, "--boot");
	CHECK(boot_wait(b, 60) == 0);
	show_log(b);
	return test_now_s() - start_s;
}

TEST(a_box_tunes_its_models_and_the_next_has_nothing_to_do)
{
	struct boot b;
	NEED_PROGRAMS;
	boot_open(&b, 2, "budget = 6s\n");
	printf("first box: %.2f s\n", box(&b));
	CHECK(strstr(buf_str(&b.said), "STATUS="));
	CHECK(strstr(buf_str(&b.said), " left"));
	CHECK(strstr(buf_str(&b.said), "EXTEND_TIMEOUT_USEC=16000000"));
	struct marks m = marks_of(&b);
	CHECK(m.unclean == 0 && m.n == 2 && m.model[0].boxed && m.model[1].boxed);
	struct cache_state first = cache_of(&b);
	CHECK(first.count[CACHE_REC] >= 4 && first.count[CACHE_CODE] >= 4);
	printf("second box: %.3f s\n", box(&b));
	CHECK(strstr(buf_str(&b.said), "every model has its kernels"));
	struct cache_state second = cache_of(&b);
	CHECK(second.generation == first.generation && second.count[CACHE_REC] == first.count[CACHE_REC]);
	boot_close(&b);
}

TEST(the_kernel_command_line_has_the_last_word)
{
	struct boot b;
	NEED_PROGRAMS;
	boot_open(&b, 1, "budget = 1h\n");
	/* A file of /proc, which does not tell its size, as the real one. */
	char name[16], comm[32];
	snprintf(comm, sizeof comm, "/proc/%d/comm", (int)getpid());
	CHECK(prctl(PR_GET_NAME, name) == 0 && prctl(PR_SET_NAME, "hone.budget=0s") == 0);
	CHECK(symlink(comm, boot_path(&b, "sys/proc/cmdline")) == 0);
	box(&b);
	CHECK(cache_of(&b).count[CACHE_REC] == 0);
	CHECK(prctl(PR_SET_NAME, name) == 0 && unlink(boot_path(&b, "sys/proc/cmdline")) == 0);
	boot_write(&b, "sys/proc/cmdline", "quiet hone.budget=3s\n");
	box(&b);
	CHECK(cache_of(&b).count[CACHE_REC] > 0);
	boot_close(&b);
}

/* A library that makes each sync take $SLOW_MS longer. */
static const char slow_flash[] =
    "#include <stdlib.h>\n"
    "#include <sys/syscall.h>\n"
    "#include <unistd.h>\n"
    "static int slow(long rc) { usleep(1000u * (unsigned)atoi(getenv(\"SLOW_MS\")));"
    " return (int)rc; }\n"
    "int fsync(int fd) { return slow(syscall(SYS_fsync, fd)); }\n"
    "int fdatasync(int fd) { return slow(syscall(SYS_fdatasync, fd)); }\n";

static bool can_slow_down(const struct boot *b)
{
	struct buf cmd = {0};
	boot_write(b, "slow.c", "%s", slow_flash);
	buf_printf(&cmd, "cc -D_GNU_SOURCE -shared -fPIC -o %s/slow.so ", b->top);
	buf_printf(&cmd, "%s/slow.c 2> %s/slow.log", b->top, b->top);
	bool can = system(buf_str(&cmd)) == 0;
	buf_free(&cmd);
	return can;
}

static struct boot *slow_box(const char *ms, const char *boot)
{
	struct boot *b = calloc(1, sizeof *b);
	boot_open(b, 1, boot);
	if (!can_slow_down(b)) {
		boot_close(b);
		free(b);
		return NULL;
	}
	setenv("LD_PRELOAD", boot_path(b, "slow.so"), 1);
	setenv("SLOW_MS", ms, 1);
	boot_start(b, "--boot");
	unsetenv("LD_PRELOAD");
	return b;
}

static void check_slow_box(struct boot *b, double wait_s)
{
	CHECK(boot_wait(b, wait_s) == 0);
	struct cache_state s = cache_of(b);
	struct marks m = marks_of(b);
	CHECK(s.count[CACHE_REC] >= 2 && s.count[CACHE_CODE] >= 2);
	CHECK(m.unclean == 0 && m.n == 1);
	show_log(b);
	boot_close(b);
	free(b);
}

/* As with SD cards: the box ends in time, and its results are in the cache. */
TEST(slow_flash_costs_a_box_little)
{
	NEED_PROGRAMS;
	if (BOOT_PLAIN_JOBS)
		SKIP("a sanitizer must be the first library that is loaded");
	struct boot *fast = slow_box("300", "budget = 4s\n");
	if (!fast)
		SKIP("no cc");
	struct boot *slow = slow_box("1000", "budget = 7s\n"), *slowest = slow_box("2000", "budget = 12s\n");
	check_slow_box(fast, 14);
	check_slow_box(slow, 17);
	check_slow_box(slowest, 22);
}

/* An image's seed under an empty cache: the first boot has kernels before any tuning. */
TEST(seeds_serve_the_first_boot)
{
	struct boot b, fresh;
	struct cache *c;
	struct cache_state s = {0};
	NEED_PROGRAMS;
	boot_open(&b, 1, "budget = 4s\n");
	box(&b);
	setenv("HONE_SEEDS", boot_path(&b, "state/cache"), 1);
	boot_open(&fresh, 1, "budget = 4s\n");
	box(&fresh);
	REQUIRE_OK(cache_open(&c, boot_path(&fresh, "state/cache"), true, 0));
	cache_state(c, &s);
	cache_close(c);
	CHECK(s.count[CACHE_CODE] >= 2);
	CHECK(marks_of(&fresh).model[0].boxed);
	setenv("HONE_SEEDS", "", 1);
	boot_close(&fresh);
	boot_close(&b);
}

static void kill_all(struct boot *b)
{
	struct process p[64];
	int n = boot_below(b->pid, p, 64);
	kill(b->pid, SIGKILL);
	for (int i = 0; i < n; i++)
		kill(p[i].pid, SIGKILL);
}

TEST(after_three_boxes_that_were_cut_off_none_is_started)
{
	struct boot b;
	NEED_PROGRAMS;
	boot_open(&b, 1, "budget = 30s\n");
	for (int i = 0; i < 3; i++) {
		boot_start(&b, "--boot");
		CHECK(boot_find_within(b.pid, "hone", 20));
		kill_all(&b);
		CHECK(boot_wait(&b, 10) == 1000 + SIGKILL);
		CHECK(marks_of(&b).unclean == i + 1);
	}
	box(&b);
	CHECK(strstr(buf_str(&b.said), "STATUS=the last 3 boot boxes were interrupted"));
	CHECK(boot_log_says(&b, "this one is skipped"));
	CHECK(marks_of(&b).unclean == 3);
	boot_model(&b, 1); /* another file: it gets a box */
	CHECK(rename(boot_path(&b, "m1.onnx"), boot_path(&b, "m0.onnx")) == 0);
	boot_write(&b, "sys/proc/cmdline", "hone.budget=3s\n");
	box(&b);
	CHECK(marks_of(&b).unclean == 0);
	CHECK(cache_of(&b).count[CACHE_REC] > 0);
	boot_close(&b);
}

TEST(an_inhibit_file_holds_the_box_up)
{
	struct boot b;
	NEED_PROGRAMS;
	boot_open(&b, 1, "budget = 8s\n");
	boot_write(&b, "honed.conf.d/busy.conf", "[inhibit]\nfile = %s/moving\n", b.top);
	boot_write(&b, "moving", "the arm moves\n");
	boot_start(&b, "--boot");
	CHECK(!boot_find_within(b.pid, "hone", 1.5));
	CHECK(cache_of(&b).count[CACHE_REC] == 0);
	CHECK(unlink(boot_path(&b, "moving")) == 0);
	CHECK(boot_find_within(b.pid, "hone", 5));
	CHECK(boot_wait(&b, 60) == 0);
	CHECK(strstr(buf_str(&b.said), "moving"));
	CHECK(cache_of(&b).count[CACHE_REC] > 0);
	show_log(&b);
	boot_close(&b);
}

TEST(told_to_end_it_keeps_what_it_has)
{
	struct boot b;
	NEED_PROGRAMS;
	boot_open(&b, 2, "budget = 1h\n");
	boot_start(&b, "--boot");
	CHECK(boot_find_within(b.pid, "hone-worker", 30));
	for (double until_s = test_now_s() + 60; !cache_of(&b).count[CACHE_REC] && test_now_s() < until_s;)
		usleep(20000);
	kill(b.pid, SIGTERM);
	CHECK(boot_wait(&b, 20) == 0);
	CHECK(cache_of(&b).count[CACHE_REC] > 0);
	CHECK(marks_of(&b).unclean == 0);
	show_log(&b);
	boot_close(&b);
}

TEST(a_configuration_with_a_mistake_is_said_and_nothing_is_tuned)
{
	struct boot b;
	NEED_PROGRAMS;
	boot_open(&b, 1, "budget = soon\n");
	boot_start(&b, "--boot");
	CHECK(boot_wait(&b, 30) > 0);
	CHECK(boot_log_says(&b, "honed.conf:6: [boot] budget = soon"));
	CHECK(cache_of(&b).count[CACHE_REC] == 0);
	boot_close(&b);
}

TEST_MAIN
