/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/yield_board.h"
#include "platform/base/clock.h"
#include "platform/base/err.h"
#include "platform/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TICK_NS (10 * NS_PER_MS)
#define STEP_NS (2 * NS_PER_MS)
enum { MOST_CPUS = 4 };

static const char throttled[] = "/sys/devices/platform/soc/soc:firmware/get_throttled";
#define ZONE "/sys/class/thermal/thermal_zone0/"

struct ticker {
	struct yield_board *b;
	int64_t (*used)(void *ctx);
	void *ctx;
};

/* Changes an existing file in place: honed keeps it open. */
static int set(const struct yield_board *b, const char *path, const char *text)
{
	char at[256], dir[256];
	snprintf(at, sizeof at, "%s%s", b->root, path);
	snprintf(dir, sizeof dir, "%s", at);
	*strrchr(dir, '/') = 0;
	int rc = file_mkdirs(dir, 0755), fd = rc < 0 ? -1 : open(at, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	bool good = fd >= 0 && pwrite(fd, text, strlen(text), 0) == (ssize_t)strlen(text) &&
		    ftruncate(fd, (off_t)strlen(text)) == 0;
	if (fd >= 0)
		close(fd);
	return rc < 0 || good ? rc : fail(E_IO, "%s: %s", at, strerror(errno));
}

void board_heat(const struct yield_board *b, bool on)
{
	(void)set(b, ZONE "temp", on ? "95000\n" : "45000\n");
}

void board_throttle(const struct yield_board *b, bool on)
{
	(void)set(b, throttled, on ? "50005\n" : "0\n");
}

void board_memory(const struct yield_board *b, bool on)
{
	(void)set(b, "/proc/meminfo",
		  on ? "MemTotal:  4000000 kB\nMemFree:    50000 kB\nMemAvailable:  100000 kB\n"
		     : "MemTotal:  4000000 kB\nMemFree:  3000000 kB\nMemAvailable: 3000000 kB\n");
}

/* All lines have a fixed length, so that a reader never sees a part of an old one. */
static int put_stat(const struct yield_board *b, int64_t busy_ns, int64_t total_ns)
{
	char text[512];
	long long busy = busy_ns / TICK_NS, idle = (total_ns - busy_ns) / TICK_NS;
	int n =
	    snprintf(text, sizeof text, "cpu  %12lld 0 0 %12lld 0 0 0 0 0 0\n", busy, idle > 0 ? idle : 0);
	for (int i = 0; i < MOST_CPUS && i < b->cpus; i++)
		n += snprintf(text + n, sizeof text - (size_t)n, "cpu%d 1 0 0 1 0 0 0 0 0 0\n", i);
	n += snprintf(text + n, sizeof text - (size_t)n, "intr 1\n");
	return pwrite(b->stat, text, (size_t)n, 0) == n && ftruncate(b->stat, n) == 0 ? E_OK : E_IO;
}

int board_open(struct yield_board *b, const char *root)
{
	char path[160];
	snprintf(b->root, sizeof b->root, "%s", root);
	b->cpus = 1;
	int rc = set(b, ZONE "type", "cpu-thermal\n");
	if (rc >= 0)
		rc = set(b, ZONE "trip_point_0_type", "passive\n");
	if (rc >= 0)
		rc = set(b, ZONE "trip_point_0_temp", "100000\n");
	if (rc >= 0)
		rc = set(b, "/proc/stat", "cpu  0 0 0 1 0 0 0 0 0 0\n");
	if (rc < 0)
		return rc;
	board_heat(b, false);
	board_throttle(b, false);
	board_memory(b, false);
	snprintf(path, sizeof path, "%s/proc/stat", root);
	b->stat = open(path, O_WRONLY | O_CLOEXEC);
	return b->stat < 0 ? fail(E_IO, "%s: %s", path, strerror(errno)) : E_OK;
}

static void *tick(void *ctx)
{
	struct ticker t = *(struct ticker *)ctx;
	struct yield_board *b = t.b;
	int64_t used_ns = t.used(t.ctx);
	b->over = false;
	b->at_ns = clock_now(&clock_real);
	while (!b->over) {
		clock_real.sleep(&clock_real, STEP_NS);
		int64_t now_ns = clock_now(&clock_real), own_ns = t.used(t.ctx),
			passed_ns = now_ns - b->at_ns;
		/* a new job's processes begin at another sum */
		b->busy_ns += b->busy * passed_ns + (own_ns > used_ns ? own_ns - used_ns : 0);
		b->total_ns += b->cpus * passed_ns;
		b->at_ns = now_ns;
		used_ns = own_ns;
		(void)put_stat(b, b->busy_ns, b->total_ns);
	}
	return NULL;
}

int board_start(struct yield_board *b, int64_t (*used)(void *ctx), void *ctx)
{
	static struct ticker t;
	t = (struct ticker){b, used, ctx};
	b->over = true;
	if (pthread_create(&b->thread, NULL, tick, &t) != 0)
		return fail(E_IO, "no thread: %s", strerror(errno));
	while (b->over)
		clock_real.sleep(&clock_real, NS_PER_MS);
	return E_OK;
}

void board_end(struct yield_board *b)
{
	if (!b->over) {
		b->over = true;
		pthread_join(b->thread, NULL);
	}
	if (b->stat > 0)
		close(b->stat);
}
