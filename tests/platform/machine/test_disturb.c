/* SPDX-License-Identifier: Apache-2.0 */
/* Disturbances of a measurement, on boards that are folders. */
#include "platform/machine/disturb.h"
#include "platform/base/clock.h"
#include "tests/lib/sysroot.h"

#define THREAD "/proc/self/task/%d/schedstat"

static void set_thread(const struct sysroot *b, int thread, int64_t ran_ms, int64_t waited_ms)
{
	char path[64];
	snprintf(path, sizeof path, THREAD, thread);
	sysroot_set(b, path, "%lld000000 %lld000000 7\n", (long long)ran_ms, (long long)waited_ms);
}

/* What a measurement of at least 200 ms sees if `change` happens during it. */
static struct disturbance seen(struct sysroot *b, void (*change)(const struct sysroot *b))
{
	struct disturb d;
	struct disturbance out;
	sysroot_pi4(b);
	set_thread(b, 10, 500, 20);
	set_thread(b, 11, 400, 0);
	sysroot_load(b, 4, 1000, 100000);
	disturb_begin(&d, b->root);
	clock_real.sleep(&clock_real, 210 * NS_PER_MS);
	change(b);
	disturb_end(&d, &out);
	sysroot_end(b);
	return out;
}

static const char *words(const struct disturbance *d)
{
	static char text[256];
	struct buf b = {0};
	disturbance_words(d, &b);
	snprintf(text, sizeof text, "%s", buf_str(&b));
	buf_free(&b);
	return text;
}

static void run_both(const struct sysroot *b)
{
	set_thread(b, 10, 600, 25);
	set_thread(b, 11, 500, 5);
	sysroot_load(b, 4, 1001, 100080);
}

TEST(a_calm_machine)
{
	struct sysroot b;
	struct disturbance d = seen(&b, run_both);
	CHECK(d.share_pct == 95 && d.others_pct >= 0 && d.others_pct <= 5 && !*d.clock);
	CHECK(!disturbed(&d) && !*words(&d));
}

static void run_late(const struct sysroot *b)
{
	set_thread(b, 10, 600, 60);
}

/* 100 ms ran, 40 waited: 71 %. */
TEST(a_thread_waits_for_a_processor)
{
	struct sysroot b;
	struct disturbance d = seen(&b, run_late);
	CHECK(d.share_pct == 71 && disturbed(&d));
	CHECK(!strcmp(words(&d), "this process got 71 % of the processor time that it wanted"));
}

static void load_others(const struct sysroot *b)
{
	set_thread(b, 10, 600, 20);
	sysroot_load(b, 4, 1030, 100050);
}

/* 300 ms of processor time in some 210 ms. */
TEST(others_use_processors)
{
	struct sysroot b;
	struct disturbance d = seen(&b, load_others);
	CHECK(d.share_pct == 100 && d.others_pct > 25 && d.others_pct < 150 && disturbed(&d));
	CHECK(strstr(words(&d), "others used ") == words(&d));
}

static void throttle(const struct sysroot *b)
{
	run_late(b);
	sysroot_set(b, PI_THROTTLED, "50005\n");
}

TEST(the_board_throttles)
{
	struct sysroot b;
	struct disturbance d = seen(&b, throttle);
	CHECK(*d.clock && disturbed(&d));
	CHECK(strstr(words(&d), "wanted; the board throttled meanwhile"));
}

static void vanish(const struct sysroot *b)
{
	sysroot_gone(b, "/proc/self/task/10/schedstat");
	sysroot_gone(b, "/proc/self/task/11/schedstat");
	sysroot_gone(b, "/proc/stat");
}

/* What is not reported disturbs nothing. */
TEST(a_machine_that_says_nothing)
{
	struct disturb d;
	struct disturbance out;
	struct sysroot b;
	disturb_begin(&d, "/nowhere");
	disturb_end(&d, &out);
	CHECK(out.share_pct == -1 && out.others_pct == -1 && !disturbed(&out));
	out = seen(&b, vanish);
	CHECK(out.share_pct == -1 && !disturbed(&out));
}

/* The real machine reports a share, and this process is not disturbed by itself. */
TEST(the_real_machine)
{
	struct disturb d;
	struct disturbance out;
	disturb_begin(&d, "");
	for (int64_t end = clock_now(&clock_real) + 20 * NS_PER_MS; clock_now(&clock_real) < end;)
		;
	disturb_end(&d, &out);
	CHECK(out.share_pct >= -1 && out.share_pct <= 100 && out.others_pct == -1);
}

TEST(the_worst_of_several)
{
	struct disturbance worst = DISTURBANCE_NONE;
	CHECK(!disturbed(&worst));
	disturbance_add(&worst, &(struct disturbance){95, 3, ""});
	disturbance_add(&worst, &(struct disturbance){-1, -1, "it throttled"});
	disturbance_add(&worst, &(struct disturbance){99, 40, ""});
	CHECK(worst.share_pct == 95 && worst.others_pct == 40 && !strcmp(worst.clock, "it throttled"));
}

TEST_MAIN
