/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at the board, and at our own share of its load: processor time of our unit's control group, else of
 * the jobs' processes and of all children that ended; and of workers behind a socket (their unit's). */
#include "agent/honed/honed_loop.h"
#include "platform/base/log.h"
#include "platform/machine/sysfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define TREE_NS (500 * NS_PER_MS) /* between searches for new processes */
/* between looks at model files, some of which may lie in folders that cannot be watched */
#define MODELS_NS (60 * NS_PER_S)
#define WORKERS "/sys/fs/cgroup/system.slice/system-hone\\x2dworker.slice/cpu.stat"

static bool read_text(const char *path, char *out, size_t n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, out, n - 1);
	if (fd >= 0)
		close(fd);
	out[got > 0 ? got : 0] = 0;
	return got > 0;
}

/* Adds the children of each thread, as far as there is room. */
static void add_children(struct loop_pids *t, pid_t pid)
{
	char path[80], text[1024];
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "/proc/%d/task/%.12s/children", (int)pid, e->d_name);
		if (!read_text(path, text, sizeof text))
			continue;
		for (char *p = text, *end; t->n < (int)(sizeof t->pid / sizeof *t->pid); p = end) {
			long child = strtol(p, &end, 10);
			if (end == p || child <= 0)
				break;
			t->pid[t->n++] = (pid_t)child;
		}
	}
	if (d)
		closedir(d);
}

static void find_tree(struct loop *l)
{
	l->tree.n = 0;
	for (int i = 0; i < HONED_JOBS; i++)
		if (l->job[i].number && l->job[i].pid > 0)
			l->tree.pid[l->tree.n++] = l->job[i].pid;
	for (int i = 0; i < l->tree.n; i++)
		add_children(&l->tree, l->tree.pid[i]);
}

/* Processor time of all its threads, and of children that it has reaped. The process's own clock is exact,
 * while utime and stime are rounded to ticks. The name in the stat file may hold anything, so reading starts
 * after the last ')'. */
static int64_t used_ns(pid_t pid)
{
	char path[32], text[1024];
	unsigned long long reaped[2];
	struct timespec t;
	clockid_t clock;
	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
		return 0;
	int64_t ns = t.tv_sec * NS_PER_S + t.tv_nsec;
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	const char *p = read_text(path, text, sizeof text) ? strrchr(text, ')') : NULL;
	if (p && sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %llu %llu", &reaped[0],
			&reaped[1]) == 2)
		ns += (int64_t)(reaped[0] + reaped[1]) * (NS_PER_S / sysconf(_SC_CLK_TCK));
	return ns;
}

/* A control group counts time whether its controllers are on or not, and includes processes that have
 * ended. */
static int64_t group_ns(int fd)
{
	char text[512];
	int64_t us;
	const char *p = sysfile_read(fd, text, sizeof text) > 0 ? strstr(text, "usage_usec ") : NULL;
	return p && sscanf(p, "usage_usec %" SCNd64, &us) == 1 && us > 0 && us < INT64_MAX / 2000 ? us * 1000
												  : -1;
}

/* Only if the control group is a unit of ours: that of a shell holds other programs, too. */
static int open_unit(void)
{
	static const char *const at[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	char text[2048], path[2100];
	int fd = -1, own = sysfile_open("", "/proc/self/cgroup");
	sysfile_read(own, text, sizeof text);
	if (own >= 0)
		close(own);
	char *group = strncmp(text, "0::", 3) ? strstr(text, "\n0::") : text;
	group = group ? strchr(group, '/') : NULL;
	if (!group)
		return -1;
	group[strcspn(group, "\n")] = 0;
	const char *name = strrchr(group, '/') + 1;
	if (strcmp(name, "honed.service") && strcmp(name, "hone-boot.service"))
		return -1;
	for (int i = 0; i < 2 && fd < 0; i++) {
		snprintf(path, sizeof path, "%s%s/cpu.stat", at[i], group);
		fd = sysfile_open("", path);
	}
	return fd;
}

static int64_t workers_ns(const struct loop *l)
{
	int fd = sysfile_open(l->o.sysroot, WORKERS);
	int64_t ns = group_ns(fd);
	if (fd >= 0)
		close(fd);
	return ns > 0 ? ns : 0;
}

static int64_t tree_used_ns(const struct loop *l)
{
	struct rusage u;
	int64_t ns = 0;
	for (int i = 0; i < l->tree.n; i++)
		ns += used_ns(l->tree.pid[i]);
	getrusage(RUSAGE_CHILDREN, &u);
	return ns + (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * NS_PER_S +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * NS_PER_US;
}

/* Searches for new processes every TREE_NS, and when an eighth or more of all processor time was used by
 * processes that we do not know: a worker that has just started must not be counted as the robot. */
static int64_t processes_ns(struct loop *l, int64_t now_ns, const struct vitals *v)
{
	int64_t ns = tree_used_ns(l), unknown = v->busy_ns - l->busy_ns - (ns - l->processes_ns);
	if (now_ns - l->tree_ns >= TREE_NS || unknown > (v->total_ns - l->total_ns) / 8) {
		find_tree(l);
		l->tree_ns = now_ns;
		ns = tree_used_ns(l);
	}
	l->processes_ns = ns;
	l->busy_ns = v->busy_ns;
	l->total_ns = v->total_ns;
	return ns;
}

/* Never falls: time that vanishes with a control group or between two looks still counts. */
static int64_t own_ns(struct loop *l, int64_t now_ns, const struct vitals *v)
{
	if (!l->unit_looked)
		l->unit = open_unit();
	l->unit_looked = true;
	int64_t ns = group_ns(l->unit);
	ns = workers_ns(l) + (ns >= 0 ? ns : processes_ns(l, now_ns, v));
	if (ns < l->own_last_ns)
		l->own_lost_ns += l->own_last_ns - ns;
	l->own_last_ns = ns;
	return ns + l->own_lost_ns;
}

static int minute_of_day(const struct loop *l)
{
	struct tm tm;
	time_t t = time(NULL);
	if (l->conf->gate.from_minute == l->conf->gate.to_minute || !localtime_r(&t, &tm))
		return -1;
	return tm.tm_hour * 60 + tm.tm_min;
}

static bool have_reader(struct loop *l)
{
	if (!l->vitals && vitals_open(l->o.sysroot, &l->vitals) < 0) {
		log_error("%s", err_text());
		l->vitals = NULL;
	}
	return l->vitals;
}

void loop_look(struct loop *l)
{
	struct vitals v = {0};
	int64_t now = loop_now();
	if (have_reader(l))
		vitals_read(l->vitals, now, &v);
	loop_tell(l, &(struct honed_event){.kind = HE_VITALS,
					   .vitals = &v,
					   .own_ns = own_ns(l, now, &v),
					   .minute = minute_of_day(l)});
	if (now - l->looked_models_ns > MODELS_NS && l->models_ns == INT64_MAX)
		l->models_ns = now;
}

void loop_glance(struct loop *l)
{
	struct vitals v = {0};
	if (have_reader(l))
		vitals_glance(l->vitals, loop_now(), &v);
	loop_tell(l, &(struct honed_event){.kind = HE_GLANCE, .vitals = &v});
}

struct trigger {
	uv_poll_t poll;
	int fd;
};

static const struct {
	const char *path, *text;
} triggers[] = {{"/proc/pressure/io", "some 200000 2000000"},
		{"/proc/pressure/memory", "some 100000 2000000"}};
enum { TRIGGERS = sizeof triggers / sizeof *triggers };

static void on_trigger_closed(uv_handle_t *h)
{
	struct trigger *t = h->data;
	close(t->fd);
	free(t);
}

static void close_trigger(struct loop *l, int i)
{
	if (l->trigger[i])
		uv_close((uv_handle_t *)&l->trigger[i]->poll, on_trigger_closed);
	l->trigger[i] = NULL;
}

static void on_pressure(uv_poll_t *p, int status, int events)
{
	struct loop *l = p->loop->data;
	if (status < 0 || !(events & UV_PRIORITIZED))
		uv_poll_stop(p);
	else if (!l->over)
		loop_look(l);
}

/* There is no trigger for the processor: jobs that wait at idle priority are pressure, too. If the kernel has
 * no triggers, or refuses one, HA_LOOK sees the same later. */
static void open_trigger(struct loop *l, int i)
{
	int fd = *l->o.sysroot ? -1 : open(triggers[i].path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	struct trigger *t = fd < 0 ? NULL : malloc(sizeof *t);
	if (!t || write(fd, triggers[i].text, strlen(triggers[i].text) + 1) < 0 ||
	    uv_poll_init(&l->uv, &t->poll, fd) < 0) {
		if (fd >= 0)
			close(fd);
		free(t);
		return;
	}
	t->fd = fd;
	t->poll.data = t;
	l->trigger[i] = t;
	uv_poll_start(&t->poll, UV_PRIORITIZED, on_pressure);
}

void loop_pressure(struct loop *l, bool on)
{
	for (int i = 0; i < TRIGGERS; i++)
		if (on && !l->trigger[i])
			open_trigger(l, i);
		else if (!on)
			close_trigger(l, i);
}

void loop_look_close(struct loop *l)
{
	vitals_close(l->vitals);
	if (l->unit_looked && l->unit >= 0)
		close(l->unit);
}
