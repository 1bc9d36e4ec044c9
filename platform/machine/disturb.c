/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/machine/disturb.h"
#include "platform/base/clock.h"
#include "platform/machine/sysfile.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define LEAST_NS (200 * NS_PER_MS) /* /proc/stat counts in steps of 10 ms */

/* Processor time of this process. */
static int64_t own_ns(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * NS_PER_S +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * NS_PER_US;
}

/* Sums over this process's threads how long they ran and how long they waited; -1: not reported. */
static void read_threads(const char *root, int64_t *ran_ns, int64_t *waited_ns)
{
	char path[512], text[96];
	struct dirent *e;
	snprintf(path, sizeof path, "%s/proc/self/task", root);
	DIR *dir = opendir(path);
	*ran_ns = *waited_ns = dir ? 0 : -1;
	while (dir && (e = readdir(dir))) {
		int64_t ran, waited;
		snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", e->d_name);
		if (*e->d_name == '.' || !sysfile_line(root, path, text, sizeof text) ||
		    sscanf(text, "%" SCNd64 " %" SCNd64, &ran, &waited) != 2)
			continue;
		*ran_ns += ran;
		*waited_ns += waited;
	}
	if (dir)
		closedir(dir);
}

void disturb_begin(struct disturb *d, const char *root)
{
	const char *set = root ? root : getenv("HONE_SYSROOT");
	*d = (struct disturb){.root = set ? set : ""};
	if (vitals_open(d->root, &d->reader) < 0)
		d->reader = NULL;
	d->at_ns = clock_now(&clock_real);
	if (d->reader)
		vitals_read(d->reader, d->at_ns, &d->before);
	d->own_ns = own_ns();
	read_threads(d->root, &d->ran_ns, &d->waited_ns);
}

/* Threads that ended meanwhile take their times with them. */
static int share_pct(const struct disturb *d)
{
	int64_t ran, waited;
	read_threads(d->root, &ran, &waited);
	ran -= d->ran_ns;
	waited = waited > d->waited_ns ? waited - d->waited_ns : 0;
	return d->ran_ns < 0 || ran <= 0 ? -1 : (int)(100 * (double)ran / (double)(ran + waited) + 0.5);
}

static int others_pct(const struct disturb *d, const struct vitals *after)
{
	int64_t wall_ns = after->at_ns - d->at_ns;
	int64_t others_ns = after->busy_ns - d->before.busy_ns - (own_ns() - d->own_ns);
	if (!(d->before.has & after->has & VITAL_LOAD) || wall_ns < LEAST_NS)
		return -1;
	return others_ns > 0 ? (int)(100 * (double)others_ns / (double)wall_ns + 0.5) : 0;
}

void disturb_end(struct disturb *d, struct disturbance *out)
{
	struct vitals after = {0};
	*out = (struct disturbance){share_pct(d), -1, ""};
	if (!d->reader)
		return;
	vitals_read(d->reader, clock_now(&clock_real), &after);
	out->others_pct = others_pct(d, &after);
	const char *taint = vitals_taint(&d->before, &after);
	snprintf(out->clock, sizeof out->clock, "%s", taint ? taint : "");
	vitals_close(d->reader);
	d->reader = NULL;
}

static bool short_of_time(const struct disturbance *d)
{
	return d->share_pct >= 0 && d->share_pct < DISTURB_SHARE_PCT;
}

bool disturbed(const struct disturbance *d)
{
	return short_of_time(d) || d->others_pct > DISTURB_OTHERS_PCT || *d->clock;
}

void disturbance_add(struct disturbance *worst, const struct disturbance *d)
{
	if (d->share_pct >= 0 && (worst->share_pct < 0 || d->share_pct < worst->share_pct))
		worst->share_pct = d->share_pct;
	worst->others_pct = d->others_pct > worst->others_pct ? d->others_pct : worst->others_pct;
	if (*d->clock)
		memcpy(worst->clock, d->clock, sizeof worst->clock);
}

void disturbance_words(const struct disturbance *d, struct buf *out)
{
	const char *before = "";
	if (short_of_time(d)) {
		buf_printf(out, "this process got %d %% of the processor time that it wanted", d->share_pct);
		before = "; ";
	}
	if (d->others_pct > DISTURB_OTHERS_PCT) {
		buf_printf(out, "%sothers used %d %% of a processor", before, d->others_pct);
		before = "; ";
	}
	if (*d->clock)
		buf_printf(out, "%s%s", before, d->clock);
}
