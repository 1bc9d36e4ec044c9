/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/gate.h"
#include "platform/base/clock.h"
#include "tests/lib/sysroot.h"

#define MS NS_PER_MS
#define S NS_PER_S

/* A board in numbers and a gate that looks at it. */
static struct gate g;
static struct vitals v;
static struct gate_look at;
static struct gate_verdict said;
static int64_t now;

static void begin(const struct gate_limits *limits)
{
	static const struct gate_limits defaults;
	gate_init(&g, limits ? limits : &defaults);
	now = 1000 * S;
	v = (struct vitals){.has = VITAL_LOAD | VITAL_PRESSURE | VITAL_HEAT | VITAL_THROTTLE | VITAL_CLOCK |
				   VITAL_MEMORY,
			    .cpus = 4,
			    .busy_ns = 5 * S,
			    .total_ns = 4000 * S,
			    .headroom_mc = 40000,
			    .temp_mc = 45000,
			    .zone = "cpu-thermal",
			    .memory_free_bytes = INT64_C(2) << 30,
			    .memory_bytes = INT64_C(4) << 30};
	at = (struct gate_look){.v = &v, .minute = 12 * 60};
}

/* Lets ns pass, in which others use `others` and honed's children `own`, over all processors; the kernel
 * counts in ticks. */
static void pass(int64_t ns, int64_t others, int64_t own)
{
	static int64_t rest;
	now += ns;
	v.at_ns = now;
	v.total_ns += ns * v.cpus;
	rest += others + own;
	v.busy_ns += rest / (10 * MS) * (10 * MS);
	rest %= 10 * MS;
	at.own_ns += own;
}

static enum gate_why look(void)
{
	gate_look(&g, now, &at, &said);
	CHECK(said.open == (said.why == GATE_OPEN) && said.text[0]);
	CHECK(said.again_ns > 0 && said.again_ns <= 60 * S);
	return said.why;
}

static enum gate_why later(int64_t ns)
{
	pass(ns, 0, 0);
	return look();
}

/* Looks at the requested times until the gate is open; returns how long that took. */
static int64_t until_open(void)
{
	int64_t from = now;
	while (look() != GATE_OPEN && now - from < 300 * S)
		pass(said.again_ns, 0, 0);
	return now - from;
}

static void begin_open(const struct gate_limits *limits)
{
	begin(limits);
	until_open();
	later(50 * MS);
	later(50 * MS);
	later(50 * MS);
	CHECK(said.open);
}

TEST(opens_once_settled)
{
	begin(NULL);
	CHECK(look() == GATE_SETTLING && said.load_pct < 0 && said.again_ns == S);
	CHECK(strstr(said.text, "tuning may go on in 10 s, if nothing speaks against") && strstr(said.text, "40.0 C below"));
	CHECK(later(9 * S) == GATE_SETTLING && said.load_pct == 0);
	CHECK(later(999 * MS) == GATE_SETTLING && said.again_ns == MS);
	CHECK(later(MS) == GATE_OPEN && said.again_ns == 25 * MS);
	begin(NULL);
	CHECK(until_open() == 10 * S);
}

TEST(settles_anew_after_each_closing)
{
	begin_open(NULL);
	at.inhibited = "hone inhibit by uid 1000: docking";
	CHECK(later(50 * MS) == GATE_INHIBITED && strstr(said.text, "docking"));
	at.inhibited = NULL;
	CHECK(until_open() == 10 * S);
	at.inhibited = "a";
	look();
	at.inhibited = NULL;
	CHECK(later(S) == GATE_SETTLING && later(5 * S) == GATE_SETTLING);
	at.inhibited = "b";
	CHECK(later(S) == GATE_INHIBITED);
	at.inhibited = NULL;
	CHECK(later(S) == GATE_SETTLING && later(9 * S) == GATE_SETTLING && later(S) == GATE_OPEN);
}

TEST(shut_and_lifted_between_two_looks)
{
	begin_open(NULL);
	gate_shut(&g, now);
	CHECK(later(10 * MS) == GATE_SETTLING);
	CHECK(until_open() == 10 * S);
}

TEST(without_settling)
{
	begin(&(struct gate_limits){.settle_ns = -1, .load_pct = 100, .pressure_pct = 100});
	CHECK(look() == GATE_OPEN); /* a box checks everything but load and pressure, from the first look
				       on */
	for (int i = 0; i < 60; i++) {
		pass(50 * MS, 200 * MS, 0);
		for (int k = 0; k < 3; k++)
			v.stalled_ns[k] += 50 * MS;
		CHECK(look() == GATE_OPEN);
	}
	v.headroom_mc = 14000;
	CHECK(later(50 * MS) == GATE_HOT);
	v.headroom_mc = 18000;
	CHECK(later(50 * MS) == GATE_OPEN);
}

/* ---- load */

TEST(one_tick_does_not_close)
{
	for (int cpus = 1; cpus <= 8; cpus *= 2) {
		begin_open(NULL);
		v.cpus = cpus;
		pass(150 * MS, 0, 0);
		look();
		for (int i = 0; i < 200; i++) { /* one every 125 ms */
			pass(25 * MS, i % 5 == 0 ? 10 * MS : 0, 0);
			CHECK(look() == GATE_OPEN);
		}
	}
}

/* A process that takes one of four processors for 100 ms closes the gate, whenever the looks come, even if a
 * tick is lost. */
TEST(a_processor_for_100_ms_closes)
{
	for (int64_t phase = 0; phase <= 50; phase += 5) {
		begin_open(NULL);
		int64_t start = now + phase * MS, end = start + 100 * MS, closed = 0;
		while (!closed && now < end + 200 * MS) {
			int64_t from = now, to = now + said.again_ns;
			int64_t a = from > start ? from : start, b = to < end ? to : end;
			pass(to - from, b > a ? b - a : 0, 0);
			if (look() == GATE_LOAD)
				closed = now;
		}
		CHECK(closed && closed <= end + 25 * MS);
		CHECK(strstr(said.text, "of 4 processors, the limit is "));
	}
}

TEST(a_lasting_load_closes_within_100_ms)
{
	for (int cpus = 1; cpus <= 4; cpus *= 2) {
		begin_open(NULL);
		v.cpus = cpus;
		pass(150 * MS, 0, 0);
		look();
		int64_t from = now;
		while (said.open && now - from < S) {
			pass(said.again_ns, said.again_ns, 0);
			look();
		}
		CHECK(now - from <= 100 * MS && said.why == GATE_LOAD);
	}
}

TEST(a_steady_small_load_does_not)
{
	begin_open(NULL);
	for (int i = 0; i < 2000; i++) {
		pass(50 * MS, i % 2 ? 10 * MS : 20 * MS, 0); /* 7.5 % of 4 */
		CHECK(look() == GATE_OPEN);
	}
	CHECK(said.load_pct > 5 && said.load_pct < 10);
}

TEST(our_own_load_does_not_count)
{
	begin_open(NULL);
	for (int i = 0; i < 100; i++) {
		pass(50 * MS, 0, 197 * MS);
		CHECK(look() == GATE_OPEN && said.load_pct < 8);
	}
	for (int i = 0; i < 2; i++) {
		pass(50 * MS, 100 * MS, 100 * MS);
		look();
	}
	CHECK(said.why == GATE_LOAD);
	begin_open(NULL);
	at.own_ns += 100 * S; /* more than the kernel has counted yet */
	CHECK(later(100 * MS) == GATE_OPEN && said.load_pct == 0);
}

TEST(many_looks_at_once_are_one)
{
	begin_open(NULL);
	for (int i = 0; i < 1000; i++) {
		pass(MS, MS / 10, 0);
		CHECK(look() == GATE_OPEN);
	}
	for (int i = 0; i < 110; i++) {
		pass(MS, MS, 0);
		look();
	}
	CHECK(said.why == GATE_LOAD);
}

TEST(load_opens_below_four_fifths)
{
	begin_open(NULL);
	pass(S, 2 * S, 0);
	CHECK(look() == GATE_LOAD && said.load_pct > 40);
	for (int i = 0; i < 60; i++) {
		pass(S, 840 * MS, 0); /* 21 % */
		CHECK(look() == GATE_LOAD);
	}
	for (int i = 0; i < 12; i++) {
		pass(S, 760 * MS, 0); /* 19 % */
		look();
	}
	CHECK(said.why == GATE_OPEN);
}

TEST(a_load_that_is_not_told_closes_nothing)
{
	begin(NULL);
	v.has = 0;
	CHECK(until_open() == 10 * S && said.load_pct < 0 && strstr(said.text, "not known"));
	begin(NULL);
	for (int i = 0; i < 12; i++) { /* files that do not change */
		now += S;
		look();
	}
	CHECK(said.why == GATE_OPEN && said.load_pct < 0);
	begin_open(NULL);
	v.busy_ns = v.total_ns = 0; /* counters that fall */
	now += 100 * MS;
	CHECK(look() == GATE_OPEN);
}

/* ---- pressure */

static void wait_for(int which, int64_t ns, int64_t stalled)
{
	v.stalled_ns[which] += stalled;
	later(ns);
}

TEST(memory_pressure_closes_and_asks_for_memory)
{
	begin_open(NULL);
	for (int i = 0; i < 100 && said.open; i++)
		wait_for(2, 50 * MS, 8 * MS); /* 16 % */
	CHECK(said.why == GATE_PRESSURE && strstr(said.text, "wait for memory") && !said.free_memory);
	begin_open(NULL);
	int64_t from = now;
	for (int i = 0; i < 100 && !said.free_memory; i++)
		wait_for(2, 50 * MS, 50 * MS);
	CHECK(said.free_memory && !said.open && now - from <= 500 * MS);
	for (int i = 0; i < 10; i++)
		later(S);
	CHECK(!said.free_memory && said.why == GATE_SETTLING);
}

TEST(io_of_our_own_commits_is_let_be)
{
	begin_open(NULL);
	for (int i = 0; i < 100; i++)
		wait_for(1, 50 * MS, i % 40 == 0 ? 50 * MS : i % 10 == 0 ? 40 * MS : 0);
	CHECK(said.open);
	for (int i = 0; i < 100; i++)
		wait_for(1, 50 * MS, 25 * MS);
	CHECK(said.why == GATE_PRESSURE && strstr(said.text, "wait for io"));
}

TEST(processor_pressure_counts_while_we_rest)
{
	begin_open(NULL);
	for (int i = 0; i < 100; i++) {
		v.stalled_ns[0] += 50 * MS;
		pass(50 * MS, 0, 50 * MS);
		CHECK(look() == GATE_OPEN);
	}
	at.inhibited = "x";
	later(S);
	at.inhibited = NULL;
	for (int i = 0; i < 10; i++)
		wait_for(0, S, 150 * MS);
	CHECK(said.why == GATE_PRESSURE && strstr(said.text, "a processor"));
	for (int i = 0; i < 14; i++)
		wait_for(0, S, 50 * MS);
	CHECK(said.open);
}

TEST(pressure_that_ceases_to_be_told)
{
	begin_open(NULL);
	for (int i = 0; i < 100; i++)
		wait_for(2, 50 * MS, 50 * MS);
	CHECK(said.why == GATE_PRESSURE);
	v.has &= ~(unsigned)VITAL_PRESSURE;
	CHECK(until_open() == 10 * S);
}

/* ---- heat, throttling, battery, memory */

TEST(heat)
{
	begin_open(NULL);
	v.headroom_mc = 15000;
	CHECK(later(50 * MS) == GATE_OPEN);
	v.headroom_mc = 14999;
	v.temp_mc = 70001;
	CHECK(later(50 * MS) == GATE_HOT);
	CHECK(strstr(said.text,
		     "zone cpu-thermal is at 70.0 C, 15.0 C below its limit; tuning goes on at 18 C"));
	v.headroom_mc = 17999;
	CHECK(later(20 * S) == GATE_HOT && later(20 * S) == GATE_HOT);
	v.headroom_mc = 18000;
	CHECK(until_open() == 10 * S);
	v.headroom_mc = -2500;
	v.trip_assumed = true;
	CHECK(later(50 * MS) == GATE_HOT &&
	      strstr(said.text, "2.5 C above its limit (85 C: the board reports none)"));
	begin_open(&(struct gate_limits){.headroom_mc = 5000});
	v.headroom_mc = 6000;
	CHECK(later(50 * MS) == GATE_OPEN);
}

TEST(throttling)
{
	begin_open(NULL);
	v.throttle = THROTTLE_VOLTAGE | THROTTLE_SLOWED;
	v.throttled = 2;
	CHECK(later(50 * MS) == GATE_THROTTLED && strstr(said.text, "under-voltage, slowed down"));
	v.throttle = 0;
	CHECK(until_open() == 10 * S);
	v.throttled++; /* between two looks */
	CHECK(later(50 * MS) == GATE_THROTTLED && strstr(said.text, "since the last look"));
	CHECK(later(S) == GATE_SETTLING);
	begin(NULL);
	v.throttled = 99; /* counted before the gate began */
	CHECK(until_open() == 10 * S);
}

TEST(battery)
{
	begin_open(NULL);
	v.has |= VITAL_BATTERY;
	v.battery_pct = 29;
	CHECK(later(50 * MS) == GATE_OPEN); /* it charges */
	v.discharging = true;
	CHECK(later(50 * MS) == GATE_BATTERY && strstr(said.text, "29 %"));
	v.battery_pct = 34;
	CHECK(later(60 * S) == GATE_BATTERY);
	v.battery_pct = 35;
	CHECK(until_open() == 10 * S);
	v.battery_pct = 3;
	later(50 * MS);
	v.discharging = false;
	CHECK(until_open() == 10 * S);
	begin(&(struct gate_limits){.battery_pct = 98});
	v.has |= VITAL_BATTERY;
	v.battery_pct = 100;
	v.discharging = true;
	CHECK(until_open() == 10 * S);
}

TEST(memory)
{
	begin_open(NULL);
	v.memory_free_bytes = INT64_C(127) << 20;
	CHECK(later(50 * MS) == GATE_MEMORY && !said.free_memory && strstr(said.text, "127 MiB"));
	v.memory_free_bytes = INT64_C(63) << 20;
	CHECK(later(S) == GATE_MEMORY && said.free_memory);
	v.memory_free_bytes = INT64_C(159) << 20;
	CHECK(later(S) == GATE_MEMORY && !said.free_memory);
	v.memory_free_bytes = INT64_C(160) << 20;
	CHECK(until_open() == 10 * S);
}

/* ---- hours */

static bool open_at(int from, int to, int minute)
{
	begin(&(struct gate_limits){.from_minute = from, .to_minute = to, .settle_ns = -1});
	at.minute = minute;
	look();
	CHECK(said.open || said.why == GATE_HOURS);
	return said.open;
}

TEST(hours)
{
	CHECK(open_at(0, 0, 0) && open_at(720, 720, 719) && open_at(300, 300, -1));
	CHECK(!open_at(480, 1080, 479) && open_at(480, 1080, 480) && open_at(480, 1080, 1079) &&
	      !open_at(480, 1080, 1080));
	CHECK(open_at(1320, 360, 1320) && open_at(1320, 360, 1439) && open_at(1320, 360, 0) &&
	      open_at(1320, 360, 359) && !open_at(1320, 360, 360) && !open_at(1320, 360, 1319));
	CHECK(strstr(said.text, "allowed from 22:00 to 06:00; it is 21:59"));
	CHECK(!open_at(480, 1080, -1) && strstr(said.text, "not known"));
}

/* ---- how soon to look again */

TEST(looks_less_often_the_longer_it_lasts)
{
	begin_open(NULL);
	v.headroom_mc = 0;
	int looks = 0;
	for (int64_t end = now + 3600 * S; now < end; looks++) {
		later(said.again_ns);
		CHECK(said.again_ns >= S);
	}
	CHECK(looks > 60 && looks < 90 && said.again_ns == 60 * S);
	at.inhibited = "x"; /* another reason */
	CHECK(later(50 * MS) == GATE_INHIBITED && said.again_ns == S);
	for (int i = 0; i < 1000; i++) /* frequent looks do not lengthen the interval */
		later(MS);
	CHECK(said.again_ns == S);
}

TEST(looks_seldom_at_what_comes_and_goes)
{
	begin_open(NULL);
	int looks = 0;
	for (int64_t from = now; now - from < 3600 * S; looks++) {
		v.headroom_mc = (now - from) / (3 * S) % 2 ? 40000 : 0;
		CHECK(later(said.again_ns) != GATE_OPEN);
	}
	printf("%d looks in an hour\n", looks);
	CHECK(looks < 600);
	v.headroom_mc = 40000;
	CHECK(until_open() <= 70 * S);
}

TEST(the_first_of_two_reasons_is_shown)
{
	begin_open(NULL);
	v.headroom_mc = 0;
	v.memory_free_bytes = 0;
	at.inhibited = "x";
	CHECK(later(50 * MS) == GATE_INHIBITED && said.free_memory);
	at.inhibited = NULL;
	CHECK(later(50 * MS) == GATE_HOT);
}

TEST(a_clock_that_jumps)
{
	begin_open(NULL);
	now -= 100 * S;
	CHECK(look() == GATE_OPEN);
	v.headroom_mc = 0;
	look();
	v.headroom_mc = 40000;
	CHECK(later(S) == GATE_SETTLING);
	now -= 500 * S;
	CHECK(until_open() == 10 * S);
	CHECK(later(INT64_C(1) << 50) == GATE_OPEN);
}

TEST(long_words)
{
	char why[1000];
	memset(why, 'x', sizeof why - 1);
	why[sizeof why - 1] = 0;
	begin(NULL);
	at.inhibited = why;
	CHECK(look() == GATE_INHIBITED && strlen(said.text) < sizeof said.text);
	at.inhibited = NULL;
	v.throttle = 63;
	CHECK(look() == GATE_THROTTLED && strstr(said.text, "over-current"));
}

TEST(words)
{
	CHECK(!strcmp(gate_word(GATE_OPEN), "open") && !strcmp(gate_word(GATE_HOT), "hot") &&
	      !strcmp(gate_word(GATE_PRESSURE), "pressure") && !strcmp(gate_word(GATE_WHYS), "unknown"));
	for (int i = 0; i < GATE_WHYS; i++)
		CHECK(gate_word(i)[0]);
}

/* ---- staged boards: files in, verdict out */

static enum gate_why of_board(struct vitals_reader *r, int64_t ns)
{
	now += ns;
	vitals_read(r, now, &v);
	return look();
}

TEST(boards)
{
	static void (*const make[])(struct sysroot *) = {sysroot_pi4,  sysroot_pi4_psi, sysroot_xavier_nx,
							 sysroot_orin, sysroot_laptop,  sysroot_vm};
	for (int i = 0; i < 6; i++) {
		struct sysroot b;
		struct vitals_reader *r;
		make[i](&b);
		begin(NULL);
		REQUIRE_OK(vitals_open(b.root, &r));
		CHECK(of_board(r, 0) == GATE_SETTLING);
		sysroot_load(&b, 4, 20050, 2000000);
		CHECK(of_board(r, 11 * S) == GATE_OPEN);
		sysroot_memory(&b, 1000, 10);
		CHECK(of_board(r, 50 * MS) == GATE_MEMORY && said.free_memory);
		vitals_close(r);
		sysroot_end(&b);
	}
}

TEST(a_raspberry_pi_in_the_sun)
{
	struct sysroot b;
	struct vitals_reader *r;
	sysroot_pi4(&b);
	begin(NULL);
	REQUIRE_OK(vitals_open(b.root, &r));
	of_board(r, 0);
	CHECK(of_board(r, 11 * S) == GATE_OPEN);
	sysroot_temp(&b, 0, 71100);
	CHECK(of_board(r, 50 * MS) == GATE_HOT);
	sysroot_temp(&b, 0, 80100);
	sysroot_set(&b, PI_THROTTLED, "80008\n");
	CHECK(of_board(r, 50 * MS) == GATE_THROTTLED && strstr(said.text, "soft temperature limit"));
	sysroot_temp(&b, 0, 60000);
	sysroot_set(&b, PI_THROTTLED, "80000\n");
	CHECK(of_board(r, 50 * MS) == GATE_SETTLING);
	sysroot_load(&b, 4, 10000 + 450, 990000 + 550); /* 45 % for 2.5 s */
	CHECK(of_board(r, 2500 * MS) == GATE_LOAD);
	vitals_close(r);
	sysroot_end(&b);
}

TEST_MAIN
