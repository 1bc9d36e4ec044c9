/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/drivers.h"
#include "agent/cache/json.h"
#include "agent/worker/device.h"
#include "platform/base/buf.h"
#include "platform/base/clock.h"
#include "platform/base/log.h"
#include "platform/machine/topo.h"
#include "platform/run/child.h"
#include "platform/run/driver_text.h"
#include "tools/hone/drivers_parts.h"
#include "tools/hone/table.h"

#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATES_WAIT_NS (3 * NS_PER_S)

static const struct driver *const kinds[DRIVERS] = {&driver_opencl, &driver_cuda};

const char *drivers_name(enum drivers d)
{
	return kinds[d]->name;
}

/* What the child sends: the head, and then the devices. */
struct head {
	int ndevices;
	char note[600];
};
enum { DEVICES_MOST = 64 };
struct list {
	const struct driver *kind;
	struct head head;
	char *device; /* malloc'd; kind->bytes for each */
	struct gpu_state state[DEVICES_MOST];
};

static const void *device_of(const struct list *l, int i)
{
	return l->device + l->kind->bytes * (size_t)i;
}

static int send_list(const struct driver *d, int fd, const void *list, int rc, int64_t end_ns)
{
	struct head h = {.ndevices = rc < 0 ? 0 : d->count(list)};
	if (rc == E_NOTFOUND)
		snprintf(h.note, sizeof h.note, "%s", d->no_library);
	else if (rc < 0)
		snprintf(h.note, sizeof h.note, "%.500s", err_text());
	else if (!h.ndevices)
		snprintf(h.note, sizeof h.note, "no device: %.150s%s%.400s", d->no_device,
			 d->note(list)[0] ? "; " : "", d->note(list));
	else
		snprintf(h.note, sizeof h.note, "%s", d->note(list));
	rc = fd_write_full(fd, &h, sizeof h, &clock_real, end_ns);
	for (int i = 0; i < h.ndevices && rc >= 0; i++)
		rc = fd_write_full(fd, d->info(list, i), d->bytes, &clock_real, end_ns);
	for (int i = 0; i < h.ndevices && i < DEVICES_MOST && rc >= 0 && d->state; i++) {
		struct gpu_state s = GPU_STATE_NONE;
		d->state(list, i, &s);
		rc = fd_write_full(fd, &s, sizeof s, &clock_real, end_ns);
	}
	return rc;
}

/* Drivers may print; that goes to standard error. */
static void child(const struct driver *d, int fd, int64_t end_ns)
{
	void *list = NULL;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	int rc = d->open(&list);
	_exit(send_list(d, fd, list, rc, end_ns) < 0);
}

/* A driver may have written anything into the child's memory, and into the pipe. */
static int take_list(int fd, struct list *l, int64_t end_ns)
{
	int rc = fd_read_full(fd, &l->head, sizeof l->head, &clock_real, end_ns);
	if (rc >= 0 && (l->head.ndevices < 0 || l->head.ndevices > l->kind->most))
		rc = fail(E_CORRUPT, "%d devices", l->head.ndevices);
	if (rc < 0)
		return rc;
	driver_text_clean(l->head.note, sizeof l->head.note);
	l->device = calloc((size_t)l->head.ndevices + 1, l->kind->bytes);
	if (!l->device)
		return fail(E_NOMEM, "no memory for %d devices", l->head.ndevices);
	for (int i = 0; i < l->head.ndevices && rc >= 0; i++) {
		char *at = l->device + l->kind->bytes * (size_t)i;
		rc = fd_read_full(fd, at, l->kind->bytes, &clock_real, end_ns);
		l->kind->clean(at);
	}
	return rc;
}

/* Of a device behind one that does not tell its state, nothing is told. */
static void take_states(int fd, struct list *l, int64_t end_ns)
{
	int64_t soon_ns = clock_now(&clock_real) + STATES_WAIT_NS;
	int rc = l->kind->state ? E_OK : E_UNSUPPORTED;
	for (int i = 0; i < DEVICES_MOST; i++) {
		struct gpu_state *s = &l->state[i];
		*s = GPU_STATE_NONE;
		if (rc >= 0 && i < l->head.ndevices)
			rc = fd_read_full(fd, s, sizeof *s, &clock_real, soon_ns < end_ns ? soon_ns : end_ns);
		if (rc < 0)
			*s = GPU_STATE_NONE;
		gpu_state_clean(s);
	}
}

/* Kills the child, which changes nothing if it has ended, and waits for that; but not for long, because a
 * kernel's driver may hold it. Returns its wait status. */
static int end_child(pid_t pid)
{
	int status = 0;
	kill(pid, SIGKILL);
	for (int ms = 0; ms < 2000; ms++) {
		pid_t got = waitpid(pid, &status, WNOHANG);
		if (got == pid || (got < 0 && errno != EINTR))
			break;
		usleep(1000);
	}
	return status;
}

static void read_list(int fd, pid_t pid, struct list *l, int64_t wait_ns)
{
	int64_t end_ns = clock_now(&clock_real) + wait_ns;
	int rc = take_list(fd, l, end_ns);
	if (rc >= 0)
		take_states(fd, l, end_ns);
	int status = end_child(pid);
	char *note = l->head.note;
	const size_t room = sizeof l->head.note;
	if (rc >= 0)
		return;
	l->head.ndevices = 0;
	if (rc == E_TIMEOUT)
		snprintf(note, room, "%s did not answer in %g s", l->kind->says, (double)wait_ns / NS_PER_S);
	else if (rc != E_CHILD)
		snprintf(note, room, "%s broke the process that asked it: %.200s", l->kind->says, err_text());
	else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		snprintf(note, room, "%s crashed with signal %d", l->kind->says, WTERMSIG(status));
	else
		snprintf(note, room, "%s ended its process", l->kind->says);
}

static struct list get_list(enum drivers d, int64_t wait_ns)
{
	struct list l = {.kind = kinds[d]};
	int end[2];
	pid_t pid = -1;
	fflush(NULL);
	if (pipe2(end, O_CLOEXEC) == 0) {
		pid = fork();
		if (pid == 0)
			child(l.kind, end[1], clock_now(&clock_real) + wait_ns);
		if (pid < 0)
			snprintf(l.head.note, sizeof l.head.note, "cannot start a process: %s",
				 strerror(errno));
		close(end[1]);
		if (pid > 0)
			read_list(end[0], pid, &l, wait_ns);
		close(end[0]);
	} else {
		snprintf(l.head.note, sizeof l.head.note, "cannot make a pipe: %s", strerror(errno));
	}
	return l;
}

/* The peaks that a worker measured (agent/worker/device.h) and kept in the cache folder. */
static bool find_peaks(const struct list *l, int i, const char *dir, struct target *t)
{
	char path[PATH_MAX];
	l->kind->target(device_of(l, i), t);
	return *dir &&
	       snprintf(path, sizeof path, "%s/target-%s:%d", dir, l->kind->name, i) < (int)sizeof path &&
	       device_read_peaks(path, t);
}

/* null: not measured, or there are no graphs. */
static json_t *launch_json(double ns)
{
	return ns > 0 ? json_num(ns / 1e3) : json_null();
}

static void set_number(json_t *j, const char *key, int64_t v, double scale)
{
	json_object_set_new(j, key, v >= 0 ? json_num((double)v / scale) : json_null());
}

/* null: nothing is told. */
static json_t *state_json(const struct gpu_state *s)
{
	char text[200];
	gpu_state_text(s, text, sizeof text);
	if (!*text)
		return json_null();
	json_t *j = json_pack("{ss sb}", "words", text, "slowed", s->slowed != 0);
	set_number(j, "clock_now_mhz", s->clock_mhz, 1);
	set_number(j, "clock_most_mhz", s->clock_most_mhz, 1);
	set_number(j, "memory_now_mhz", s->memory_mhz, 1);
	set_number(j, "temp_c", s->temp_mc, 1e3);
	set_number(j, "power_w", s->power_mw, 1e3);
	set_number(j, "busy_pct", s->load_pct, 1);
	return j;
}

static json_t *device_json(const struct list *l, int i, const char *dir)
{
	struct target t;
	const char *why = l->kind->usable(device_of(l, i)) < 0 ? err_text() : "";
	json_t *text = json_text(why), *j = l->kind->json(device_of(l, i));
	json_t *peaks =
	    find_peaks(l, i, dir, &t)
		? json_pack("{so s[oooo] so so so}", "gflops", json_num(t.fma_gflops), "read_gbs",
			    json_num(t.bw_gbs[0]), json_num(t.bw_gbs[1]), json_num(t.bw_gbs[2]),
			    json_num(t.bw_gbs[3]), "copy_gbs", json_num(t.copy_gbs), "launch_us",
			    launch_json(t.launch_ns[0]), "graph_launch_us", launch_json(t.launch_ns[1]))
		: json_null();
	json_object_set_new(j, "usable", json_boolean(!*why));
	json_object_set_new(j, "why", text);
	json_object_set_new(j, "device", json_sprintf("%s:%d", l->kind->name, i));
	json_object_set_new(j, "peaks", peaks);
	json_object_set_new(j, "vitals", state_json(&l->state[i]));
	return j;
}

json_t *drivers_json(enum drivers d, const char *dir, int64_t wait_ns)
{
	struct list l = get_list(d, wait_ns);
	json_t *devices = json_array();
	for (int i = 0; i < l.head.ndevices; i++)
		json_array_append_new(devices, device_json(&l, i, dir));
	free(l.device);
	return json_pack("{so so}", "devices", devices, "note", json_text(l.head.note));
}

void drivers_names(enum drivers d, int64_t wait_ns, struct buf *out, struct buf *note)
{
	struct list l = get_list(d, wait_ns);
	for (int i = 0; i < l.head.ndevices; i++)
		if (l.kind->usable(device_of(&l, i)) >= 0)
			buf_printf(out, "%s:%d\n", l.kind->name, i);
	if (note)
		buf_puts(note, l.head.note);
	free(l.device);
}

void drivers_say(const char *lead, int indent, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	table_words(lead, indent, text);
}

/* A speed as a word; digits as it needs, so that a low one is not "0". */
static const char *speed(double x, char out[16])
{
	snprintf(out, 16, x >= 10 ? "%.0f" : x >= .05 ? "%.1f" : "?", x);
	return out;
}

/* The peaks, or that some are not known. */
static void peaks_print(const char *kind, int number, const struct target *t)
{
	char g[16], c[16], r[4][16];
	double least = t->fma_gflops < t->copy_gbs ? t->fma_gflops : t->copy_gbs;
	for (int i = 0; i < 4; i++) {
		speed(t->bw_gbs[i], r[i]);
		least = t->bw_gbs[i] < least ? t->bw_gbs[i] : least;
	}
	drivers_say(
	    "", 2, "%s GFLOP/s; reads %s, %s, %s, %s GB/s (of 8 KiB, 256 KiB, 2 MiB, memory); copies %s GB/s",
	    speed(t->fma_gflops, g), r[0], r[1], r[2], r[3], speed(t->copy_gbs, c));
	if (t->launch_ns[0] > 0 && t->launch_ns[1] > 0)
		drivers_say("", 2, "an empty kernel takes %.1f us, in a graph of launches %.1f us",
			    t->launch_ns[0] / 1e3, t->launch_ns[1] / 1e3);
	else if (t->launch_ns[0] > 0)
		drivers_say("", 2, "an empty kernel takes %.1f us", t->launch_ns[0] / 1e3);
	if (least < .05)
		drivers_say("", 2, "?: not measured; hone tune --device %s:%d --budget 60s measures again",
			    kind, number);
}

static void device_print(const struct list *l, int i, const char *dir)
{
	char lead[32];
	struct target t;
	int indent = snprintf(lead, sizeof lead, "%s:%d: ", l->kind->name, i);
	char now[200];
	l->kind->print(device_of(l, i), lead, indent);
	gpu_state_text(&l->state[i], now, sizeof now);
	if (*now)
		drivers_say("", 2, "now: %s", now);
	if (l->kind->usable(device_of(l, i)) < 0)
		drivers_say("", 2, "%s", err_text());
	else if (find_peaks(l, i, dir, &t))
		peaks_print(l->kind->name, i, &t);
	else
		drivers_say("", 2, "its peaks are not known: hone tune --device %s:%d measures them",
			    l->kind->name, i);
}

void drivers_print(enum drivers d, const char *dir, int64_t wait_ns)
{
	struct list l = get_list(d, wait_ns);
	char lead[32];
	int indent = snprintf(lead, sizeof lead, "%s: ", l.kind->name);
	for (int i = 0; i < l.head.ndevices; i++)
		device_print(&l, i, dir);
	if (l.head.note[0])
		drivers_say(lead, indent, "%s", l.head.note);
	free(l.device);
}

/* The names, with commas between them. */
static void usable_names(struct buf *out)
{
	cpu_set_t may;
	struct clusters c;
	topo_allowed(&may);
	topo_clusters("", &may, &c);
	buf_puts(out, "cpu");
	for (int i = 0; c.n > 1 && i < c.n; i++)
		buf_printf(out, ", cpu:%s", c.of[i].name);
	for (enum drivers d = 0; d < DRIVERS; d++) {
		struct buf names = {0};
		drivers_names(d, STATES_WAIT_NS, &names, NULL);
		for (const char *p = buf_str(&names); *p; p += strcspn(p, "\n"), p += *p == '\n')
			buf_printf(out, ", %.*s", (int)strcspn(p, "\n"), p);
		buf_free(&names);
	}
}

int drivers_refuse(const char *device)
{
	struct buf names = {0};
	usable_names(&names);
	int rc =
	    fail(E_USAGE,
		 "--device %s is not supported; use cpu, cpu:CLUSTER, opencl:N or cuda:N as `hone devices` "
		 "lists it; this machine has %s",
		 device, buf_str(&names));
	buf_free(&names);
	return rc;
}
