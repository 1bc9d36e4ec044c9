/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker/device.h"
#include "agent/worker/hire.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "platform/base/until.h"
#include "platform/run/child.h"
#include "platform/run/dev.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A driver that compiles its first kernel may take seconds. */
static int64_t describe_ns = 30 * NS_PER_S;

void device_patience(int64_t ns)
{
	describe_ns = ns;
}

/* Looks now and then whether this thread's time is over. */
static int read_byte(const struct child *c, char *out, int64_t end_ns)
{
	for (;;) {
		int64_t soon_ns = clock_now(&clock_real) + 50 * NS_PER_MS;
		int rc = fd_read_full(c->out, out, 1, &clock_real, soon_ns < end_ns ? soon_ns : end_ns);
		if (rc != E_TIMEOUT)
			return rc;
		if (soon_ns >= end_ns)
			return fail(E_BUSY, "no answer");
		rc = until_check();
		if (rc < 0)
			return rc;
	}
}

/* Reads the worker's line. What it says in words goes to stderr. */
static int read_line(const struct child *c, char *line, size_t room)
{
	int64_t end_ns = clock_now(&clock_real) + describe_ns;
	for (size_t n = 0; n + 1 < room; n++) {
		int rc = read_byte(c, line + n, end_ns);
		if (rc < 0)
			return rc;
		if (line[n] == '\n') {
			line[n] = 0;
			return E_OK;
		}
	}
	return fail(E_CORRUPT, "the worker's line is too long");
}

/* The worker's words, which may hold those of a driver. */
static int not_usable(const char *name, char *why)
{
	size_t n = strlen(name);
	bool named = !strncmp(why, name, n) && !strncmp(why + n, ": ", 2);
	log_one_line(why);
	return fail(E_CHILD, "%s: %.1000s; `hone devices` lists the devices", name,
		    named ? why + n + 2 : why);
}

static int ask(const char *name, const char *worker, bool measure, struct target *t)
{
	char line[4096], device[DEV_NAME_MAX];
	struct hire h;
	struct child c;
	int rc = hire_find(&h, worker);
	if (rc < 0)
		return rc;
	snprintf(device, sizeof device, "%s", name);
	char *argv[6] = {h.path, "--describe", device};
	int n = 3;
	if (measure)
		argv[n++] = "--measure";
	if (log_level() == LOG_VERBOSE)
		argv[n++] = "--verbose";
	rc = child_start(&c, argv, NULL);
	if (rc < 0)
		return rc;
	rc = read_line(&c, line, sizeof line);
	(void)child_stop(&c, 100 * NS_PER_MS);
	if (rc == E_BUSY)
		return fail(E_CHILD, "%s: its driver did not answer in %g s", name,
			    (double)describe_ns / NS_PER_S);
	if (rc == E_TIMEOUT || rc == E_STOPPED)
		return fail_in(rc, "%s: its driver does not answer", name);
	if (rc >= 0 && *line == '!')
		return not_usable(name, line + 1);
	if (rc < 0)
		return fail(
		    E_CHILD,
		    "%s: its driver ended the process that asked it; `hone devices` lists the devices", name);
	return target_parse(line, t);
}

static bool kept_in(const char *name, const char *dir, char path[PATH_MAX])
{
	return *dir && snprintf(path, PATH_MAX, "%s/target-%s", dir, name) < PATH_MAX;
}

bool device_read_peaks(const char *path, struct target *t)
{
	static const char textures[] = "+textures"; /* the first feature */
	struct target former = *t;
	size_t n = strlen(textures);
	char *f = former.features;
	if (target_read_peaks(path, t))
		return true;
	if (strncmp(f, textures, n))
		return false;
	n += f[n] == ',';
	memmove(f, f + n, strlen(f + n) + 1);
	if (!target_read_peaks(path, &former))
		return false;
	strcpy(former.features, t->features);
	*t = former;
	return true;
}

int device_target(const char *name, const char *worker, const char *dir, struct target *t)
{
	char path[PATH_MAX];
	int rc = ask(name, worker, false, t);
	if (rc >= 0 && kept_in(name, dir, path))
		(void)device_read_peaks(path, t);
	return rc;
}

bool device_is_fresh(const char *name, const char *dir)
{
	char path[PATH_MAX];
	return kept_in(name, dir, path) && target_peaks_are_fresh(path);
}

/* Reads per second of the largest measured set that is not larger than the bytes. */
static double fastest_gbs(const struct target *t, double bytes)
{
	return t->bw_gbs[bytes >= 2 << 20 ? 2 : bytes >= 256 << 10 ? 1 : 0];
}

bool device_is_outpaced(const struct target *t, const struct device_pace *k)
{
	const double least = 1.5;
	if (k->share <= 0 || k->ns <= 0)
		return false;
	return k->memory_bound ? k->bytes / k->ns > least * fastest_gbs(t, k->bytes) : k->share > least;
}

/* Behind the target's text, which is all that other readers of the file look at. */
#define DOUBT "\ndoubtful\n"

void device_doubt(const char *name, const char *dir)
{
	char path[PATH_MAX];
	const size_t n = strlen(DOUBT + 1);
	if (!kept_in(name, dir, path) || device_is_doubted(name, dir))
		return;
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd < 0 || write(fd, DOUBT + 1, n) != (ssize_t)n)
		log_more("cannot mark %s (%s): its peaks count as good and are not measured again", path,
			 strerror(errno));
	if (fd >= 0)
		close(fd);
}

bool device_is_doubted(const char *name, const char *dir)
{
	char path[PATH_MAX];
	struct arena a = {0};
	struct blob b;
	bool is = kept_in(name, dir, path) && file_read(&a, path, 65536, &b) >= 0 &&
		  memmem(b.p, b.n, DOUBT, strlen(DOUBT));
	arena_free(&a);
	return is;
}

int device_measure(const char *name, const char *worker, const char *dir, struct target *t)
{
	char path[PATH_MAX];
	struct target now;
	int rc = ask(name, worker, true, &now);
	if (rc < 0)
		return rc;
	target_raise(t, &now);
	if (kept_in(name, dir, path))
		target_write_peaks(dir, path, t);
	return E_OK;
}

static int describe(const char *name, bool measure)
{
	struct buf text = {0};
	struct target t;
	struct dev_unit *u;
	const struct dev *d = dev_find(name);
	if (!d)
		return E_NOTFOUND;
	if (!d->own)
		return fail(E_USAGE, "device %s is described by `hone devices`", name);
	int rc = d->own->open(dev_number(name), &u);
	if (rc < 0)
		return rc;
	d->own->target(u, &t);
	if (measure)
		rc = d->own->measure(u, &t);
	d->own->close(u);
	target_text(&t, &text);
	if (rc >= 0)
		printf("%s\n", buf_str(&text));
	buf_free(&text);
	return rc;
}

int device_describe(const char *name, bool measure)
{
	char why[1024];
	int rc = describe(name, measure);
	if (rc < 0) {
		snprintf(why, sizeof why, "%s", err_text());
		log_one_line(why);
		printf("!%s\n", why);
	}
	return rc;
}
