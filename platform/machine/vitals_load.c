/* SPDX-License-Identifier: Apache-2.0 */
/* Load, pressure and memory, from /proc. */
#include "platform/base/clock.h"
#include "platform/machine/vitals_parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS (NS_PER_S / 100) /* of /proc/stat, whatever the kernel's own */

void load_open(struct load *l, const char *root)
{
	static const char *const pressure[] = {"/proc/pressure/cpu", "/proc/pressure/io",
					       "/proc/pressure/memory"};
	l->stat = sysfile_open(root, "/proc/stat");
	l->meminfo = sysfile_open(root, "/proc/meminfo");
	for (int i = 0; i < 3; i++)
		l->pressure[i] = sysfile_open(root, pressure[i]);
}

/* A number that fits nanoseconds; -1: none. */
static int64_t take_number(const char **at)
{
	int64_t v = 0;
	const char *p = *at + strspn(*at, " \t");
	if (!isdigit((unsigned char)*p))
		return -1;
	for (; isdigit((unsigned char)*p); p++)
		if ((v = v * 10 + (*p - '0')) > INT64_MAX / TICK_NS / 16)
			return -1;
	*at = p;
	return v;
}

/* user nice system idle iowait irq softirq steal; what follows (guest) is in user and nice already. */
static bool read_cpu_line(const char *at, struct vitals *v)
{
	enum { COLUMNS = 8, IDLE = 3, IOWAIT = 4 };
	int64_t total = 0, idle = 0;
	for (int i = 0; i < COLUMNS; i++) {
		int64_t n = take_number(&at);
		if (n < 0 && i <= IDLE)
			return false;
		total += n > 0 ? n : 0;
		idle += n > 0 && (i == IDLE || i == IOWAIT) ? n : 0;
	}
	v->total_ns = total * TICK_NS;
	v->busy_ns = (total - idle) * TICK_NS;
	return true;
}

static void read_stat(struct load *l, struct vitals *v)
{
	if (sysfile_read(l->stat, l->text, sizeof l->text) <= 0 || strncmp(l->text, "cpu ", 4) ||
	    !read_cpu_line(l->text + 4, v))
		return;
	v->has |= VITAL_LOAD;
	for (const char *at = l->text; (at = strstr(at, "\ncpu")); at += 4)
		v->cpus += isdigit((unsigned char)at[4]) != 0;
	v->cpus += !v->cpus;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345\n", in us. */
static void read_pressure(const struct load *l, struct vitals *v)
{
	static const char some[] = "some ";
	char text[256];
	int told = 0;
	for (int i = 0; i < 3; i++) {
		if (sysfile_read(l->pressure[i], text, sizeof text) <= 0 ||
		    strncmp(text, some, sizeof some - 1))
			continue;
		text[strcspn(text, "\n")] = 0;
		const char *at = strstr(text, "total=");
		int64_t us = at ? (at += 6, take_number(&at)) : -1;
		v->stalled_ns[i] = us > 0 ? us * NS_PER_US : 0;
		told += us >= 0;
	}
	if (told == 3)
		v->has |= VITAL_PRESSURE;
}

/* "MemAvailable:   123 kB" */
static int64_t memory_line(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	if (!at)
		return -1;
	at += strlen(name);
	int64_t kb = take_number(&at);
	return kb < 0 ? -1 : kb << 10;
}

static void read_memory(const struct load *l, struct vitals *v)
{
	char text[512];
	if (sysfile_read(l->meminfo, text, sizeof text) <= 0)
		return;
	int64_t all = memory_line(text, "MemTotal:"), available = memory_line(text, "MemAvailable:");
	if (all <= 0 || available < 0)
		return;
	v->memory_bytes = all;
	v->memory_free_bytes = available < all ? available : all;
	v->has |= VITAL_MEMORY;
}

void load_read(struct load *l, struct vitals *v)
{
	read_stat(l, v);
	read_pressure(l, v);
	read_memory(l, v);
}
