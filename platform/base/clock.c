/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t read_clock(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static int64_t real_now(struct clock *c)
{
	(void)c;
	return read_clock(CLOCK_MONOTONIC);
}

static void real_sleep(struct clock *c, int64_t ns)
{
	(void)c;
	if (ns <= 0)
		return;
	struct timespec t = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
		;
}

struct clock clock_real = {.now = real_now, .sleep = real_sleep};

static int64_t virtual_now(struct clock *c)
{
	return c->virtual_ns;
}

static void virtual_sleep(struct clock *c, int64_t ns)
{
	if (ns > 0)
		c->virtual_ns += ns;
}

struct clock clock_virtual(int64_t start_ns)
{
	return (struct clock){.now = virtual_now, .sleep = virtual_sleep, .virtual_ns = start_ns};
}

void clock_advance(struct clock *virtual_clock, int64_t ns)
{
	virtual_clock->virtual_ns += ns;
}

/* Field 22 of /proc/self/stat, ticks since boot; the name in field 2 may hold anything, so count from the
 * last ')'. */
static int64_t started_ticks(void)
{
	char line[1024];
	FILE *f = fopen("/proc/self/stat", "r");
	if (!f)
		return -1;
	size_t n = fread(line, 1, sizeof line - 1, f);
	fclose(f);
	line[n] = 0;
	char *at = strrchr(line, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	long long ticks = -1;
	if (!at || sscanf(at, "%lld", &ticks) != 1)
		return -1;
	return ticks;
}

/* The start of the process on CLOCK_MONOTONIC. */
static int64_t started_ns(void)
{
	int64_t now = read_clock(CLOCK_MONOTONIC), ticks = started_ticks();
	long hz = sysconf(_SC_CLK_TCK);
	if (ticks < 0 || hz <= 0)
		return now;
	int64_t age = read_clock(CLOCK_BOOTTIME) - ticks * (NS_PER_S / hz);
	return age > 0 ? now - age : now;
}

/* A virtual clock does not know when the process started: it returns 0. */
int64_t clock_since_start(struct clock *c)
{
	static _Atomic int64_t start;
	if (c->now != real_now)
		return 0;
	int64_t known = atomic_load(&start);
	if (!known) {
		int64_t s = started_ns();
		if (atomic_compare_exchange_strong(&start, &known, s))
			known = s;
	}
	return clock_now(c) - known;
}
