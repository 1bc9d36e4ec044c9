/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/opencl_list.h"
#include "agent/cache/json.h"
#include "platform/base/buf.h"
#include "platform/base/clock.h"
#include "platform/base/log.h"
#include "platform/run/child.h"
#include "platform/run/driver_text.h"
#include "platform/run/opencl.h"
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

#define DRIVER "the OpenCL driver of your GPU (for a processor: apt-get install pocl-opencl-icd)"

/* What the child sends: the head, and then the devices. */
struct head {
	int ndevices;
	char note[600];
};
struct list {
	struct head head;
	struct opencl_info *device; /* malloc'd */
};

static int send_list(int fd, const struct opencl *o, int rc, int64_t end_ns)
{
	struct head h = {.ndevices = rc < 0 ? 0 : opencl_count(o)};
	if (rc == E_NOTFOUND)
		snprintf(h.note, sizeof h.note,
			 "no OpenCL loader: apt-get install ocl-icd-libopencl1, and install " DRIVER);
	else if (rc < 0)
		snprintf(h.note, sizeof h.note, "%.500s", err_text());
	else if (!h.ndevices)
		snprintf(h.note, sizeof h.note, "no device: install " DRIVER "%s%.400s",
			 opencl_note(o)[0] ? "; " : "", opencl_note(o));
	else
		snprintf(h.note, sizeof h.note, "%s", opencl_note(o));
	rc = fd_write_full(fd, &h, sizeof h, &clock_real, end_ns);
	for (int i = 0; i < h.ndevices && rc >= 0; i++)
		rc = fd_write_full(fd, opencl_info(o, i), sizeof(struct opencl_info), &clock_real, end_ns);
	return rc;
}

/* Drivers may print; that goes to standard error. */
static void child(int fd, int64_t end_ns)
{
	struct opencl *o = NULL;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	int rc = opencl_open(NULL, &o);
	_exit(send_list(fd, o, rc, end_ns) < 0);
}

/* A driver may have written anything into the child's memory, and into the pipe. */
static int take_list(int fd, struct list *l, int64_t end_ns)
{
	int rc = fd_read_full(fd, &l->head, sizeof l->head, &clock_real, end_ns);
	if (rc >= 0 && (l->head.ndevices < 0 || l->head.ndevices > OPENCL_MAX_DEVICES))
		rc = fail(E_CORRUPT, "%d devices", l->head.ndevices);
	if (rc < 0)
		return rc;
	driver_text_clean(l->head.note, sizeof l->head.note);
	l->device = calloc((size_t)l->head.ndevices + 1, sizeof *l->device);
	if (!l->device)
		return fail(E_NOMEM, "no memory for %d devices", l->head.ndevices);
	for (int i = 0; i < l->head.ndevices && rc >= 0; i++) {
		rc = fd_read_full(fd, &l->device[i], sizeof *l->device, &clock_real, end_ns);
		opencl_info_clean(&l->device[i]);
	}
	return rc;
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
	int rc = take_list(fd, l, clock_now(&clock_real) + wait_ns), status = end_child(pid);
	char *note = l->head.note;
	const size_t room = sizeof l->head.note;
	if (rc >= 0)
		return;
	l->head.ndevices = 0;
	if (rc == E_TIMEOUT)
		snprintf(note, room, "an OpenCL driver did not answer in %g s", (double)wait_ns / NS_PER_S);
	else if (rc != E_CHILD)
		snprintf(note, room, "an OpenCL driver broke the process that asked it: %.200s", err_text());
	else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		snprintf(note, room, "an OpenCL driver crashed with signal %d", WTERMSIG(status));
	else
		snprintf(note, room, "an OpenCL driver ended its process");
}

static struct list get_list(int64_t wait_ns)
{
	struct list l = {.head.ndevices = 0};
	int end[2];
	pid_t pid = -1;
	fflush(NULL);
	if (pipe2(end, O_CLOEXEC) == 0) {
		pid = fork();
		if (pid == 0)
			child(end[1], clock_now(&clock_real) + wait_ns);
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
static bool find_peaks(const char *dir, int number, const struct opencl_info *i, struct target *t)
{
	char path[PATH_MAX];
	opencl_target(i, t);
	return *dir && snprintf(path, sizeof path, "%s/target-opencl:%d", dir, number) < (int)sizeof path &&
	       target_read_peaks(path, t);
}

static json_t *device_json(const char *dir, int number, const struct opencl_info *i)
{
	struct target t;
	const char *why = opencl_usable(i) < 0 ? err_text() : "";
	json_t *j = json_pack("{so so so so so so so so sb so}", "name", json_text(i->name), "platform",
			      json_text(i->platform), "vendor", json_text(i->vendor), "version",
			      json_text(i->version), "c_version", json_text(i->c_version), "driver",
			      json_text(i->driver), "extensions", json_text(i->extensions), "kind",
			      json_text(i->kind), "usable", !*why, "why", json_text(why));
	json_t *limits = json_pack(
	    "{sI sI sI sI sI sI sb sb sb sb sb sb}", "units", (json_int_t)i->units, "clock_mhz",
	    (json_int_t)i->clock_mhz, "group_items", (json_int_t)i->group_items, "local_bytes",
	    (json_int_t)i->local_bytes, "global_bytes", (json_int_t)i->global_bytes, "buffer_bytes",
	    (json_int_t)i->alloc_bytes, "local_is_memory", i->local_is_memory, "unified", i->unified, "fp16",
	    i->fp16, "fp64", i->fp64, "fma", i->fma, "exact_divide", i->exact_divide);
	json_t *peaks = find_peaks(dir, number, i, &t)
			    ? json_pack("{so s[oooo] so}", "gflops", json_num(t.fma_gflops), "read_gbs",
					json_num(t.bw_gbs[0]), json_num(t.bw_gbs[1]), json_num(t.bw_gbs[2]),
					json_num(t.bw_gbs[3]), "copy_gbs", json_num(t.copy_gbs))
			    : json_null();
	if (j) {
		json_object_set_new(j, "device", json_sprintf("opencl:%d", number));
		json_object_update(j, limits);
	}
	json_object_set_new(j, "peaks", peaks);
	json_decref(limits);
	return j;
}

json_t *opencl_list_json(const char *dir, int64_t wait_ns)
{
	struct list l = get_list(wait_ns);
	json_t *devices = json_array();
	for (int i = 0; i < l.head.ndevices; i++)
		json_array_append_new(devices, device_json(dir, i, &l.device[i]));
	free(l.device);
	return json_pack("{so so}", "devices", devices, "note", json_text(l.head.note));
}

void opencl_list_names(int64_t wait_ns, struct buf *out, struct buf *note)
{
	struct list l = get_list(wait_ns);
	for (int i = 0; i < l.head.ndevices; i++)
		if (opencl_usable(&l.device[i]) >= 0)
			buf_printf(out, "opencl:%d\n", i);
	if (note)
		buf_puts(note, l.head.note);
	free(l.device);
}

/* Prints a line behind `lead`; where it needs more lines, they begin in column `indent`. Words that are wider
 * than a line, as a driver's names may be, are cut. */
__attribute__((format(printf, 3, 4))) static void say(const char *lead, int indent, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	table_words(lead, indent, text);
}

static void device_print(const char *dir, int number, const struct opencl_info *i)
{
	char lead[24];
	struct target t;
	int indent = snprintf(lead, sizeof lead, "opencl:%d: ", number);
	say(lead, indent, "%s, %s, %s, %lld unit%s at %lld MHz, groups of up to %lld", i->name, i->kind,
	    i->version, (long long)i->units, plural_s(i->units), (long long)i->clock_mhz,
	    (long long)i->group_items);
	say("", 2, "memory: %lld MiB%s, buffers of up to %lld MiB, %lld KiB local%s",
	    (long long)i->global_bytes >> 20, i->unified ? " shared with the processor" : "",
	    (long long)i->alloc_bytes >> 20, (long long)i->local_bytes >> 10,
	    i->local_is_memory ? " (in memory)" : "");
	say("", 2, "platform %s, driver %s%s%s%s%s%s", i->platform, i->driver,
	    i->fp16 || i->fp64 || i->fma || i->exact_divide ? ";" : "", i->fp16 ? " fp16" : "",
	    i->fp64 ? " fp64" : "", i->fma ? " fma" : "", i->exact_divide ? " exact division" : "");
	if (opencl_usable(i) < 0)
		say("", 2, "%s", err_text());
	else if (find_peaks(dir, number, i, &t))
		say("", 2,
		    "%.0f GFLOP/s; reads %.0f, %.0f, %.0f, %.1f GB/s (of 8 KiB, 256 KiB, 2 MiB, memory); "
		    "copies %.1f GB/s",
		    t.fma_gflops, t.bw_gbs[0], t.bw_gbs[1], t.bw_gbs[2], t.bw_gbs[3], t.copy_gbs);
	else
		say("", 2, "its peaks are not known: hone tune --device opencl:%d measures them", number);
}

void opencl_list_print(const char *dir, int64_t wait_ns)
{
	struct list l = get_list(wait_ns);
	for (int i = 0; i < l.head.ndevices; i++)
		device_print(dir, i, &l.device[i]);
	if (l.head.note[0])
		say("opencl: ", 8, "%s", l.head.note);
	free(l.device);
}
