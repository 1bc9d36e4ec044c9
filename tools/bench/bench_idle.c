/* SPDX-License-Identifier: Apache-2.0 */
/* Cost of an idle honed: bench_idle [SECONDS, default 600]. It has a cache of 1,000 records, a model whose
 * search is exhausted, and a watchdog as in honed.service. It is observed for SECONDS, beginning a minute
 * after its start. Exit status 1: honed has more than 1 MB of its own memory, wakes more than twice a minute,
 * writes a byte, or has a heavy library mapped. */
#include "agent/cache/cache.h"
#include "agent/cache/kept_code.h"
#include "platform/base/clock.h"
#include "platform/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDS = 1000, SETTLE_S = 60, MOST_KB = 1024, MOST_WAKES = 2, WATCHDOG_S = 120 };

struct sample {
	long wakes;      /* voluntary context switches of all threads */
	long long bytes; /* bytes that it wrote */
	long read_calls;
	time_t newest; /* last change of any of its files */
};

static char dir[64];
static pid_t honed;

static void text_of(const char *path, char *out, size_t n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, out, n - 1);
	if (fd >= 0)
		close(fd);
	out[got > 0 ? got : 0] = 0;
}

static long long number(const char *text, const char *name)
{
	const char *p = strstr(text, name);
	return p ? strtoll(p + strlen(name), NULL, 10) : 0;
}

static int put_record(struct cache *c, int i)
{
	static const char code[300] = "code";
	char text[64];
	snprintf(text, sizeof text, "task syms=0\nstage m:%d\n", i);
	struct rec r = {.task = hash_text(text),
			.kind = 1,
			.target = "soc x86-64-v3 8",
			.device = "cpu",
			.threads = 1,
			.emitter = "llvm-19/1",
			.cand = "lane=k:16 | block=y:8",
			.meas = {.runs = 9, .min_ns = 1000 + i, .median_ns = 1100},
			.task_text = text,
			.label = "conv"};
	int rc = cache_put_rec(c, &r);
	return rc < 0 ? rc : kept_code_put(c, &r, (struct blob){code, sizeof code});
}

static int make_cache(void)
{
	char path[128];
	struct cache *c;
	snprintf(path, sizeof path, "%s/state/cache", dir);
	int rc = file_mkdirs(path, 0755);
	if (rc >= 0)
		rc = cache_open(&c, path, false, 0);
	for (int i = 0; i < RECORDS && rc >= 0; i++)
		rc = put_record(c, i);
	if (rc >= 0)
		cache_close(c);
	return rc;
}

static int put_file(const char *name, const char *text, mode_t mode)
{
	char path[128];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	int rc = file_write(path, text, strlen(text));
	return rc < 0 || chmod(path, mode) == 0 ? rc : fail(E_IO, "%s: %s", path, strerror(errno));
}

static int make_files(void)
{
	char conf[512];
	snprintf(conf, sizeof conf,
		 "[idle]\nsettle = 1s\nload = 100%%\npressure = 100%%\nmemory = 1M\n"
		 "[model net]\npath = %s/net.onnx\nthreads = 1\n",
		 dir);
	int rc = make_cache();
	if (rc >= 0)
		rc = put_file("honed.conf", conf, 0644);
	if (rc >= 0)
		rc = put_file("net.onnx", "x", 0644);
	return rc < 0 ? rc
		      : put_file("hone",
				 "#!/bin/sh\necho '{\"op\":\"done\",\"trials\":5,\"before_ms\":2,"
				 "\"after_ms\":1,\"promise\":0}' >&3\n",
				 0755);
}

/* Opens the socket of a service manager that receives messages and never answers; honed would wait if nobody
 * listened. */
static int manager(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char usec[32];
	snprintf(at.sun_path, sizeof at.sun_path, "%s/manager", dir);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0)
		return fail(E_IO, "cannot make a socket: %s", strerror(errno));
	setenv("NOTIFY_SOCKET", at.sun_path, 1);
	snprintf(usec, sizeof usec, "%d000000", WATCHDOG_S);
	setenv("WATCHDOG_USEC", usec, 1);
	return fd;
}

static void hear(int fd, int seconds)
{
	char text[1024];
	for (int s = 0; s < seconds; s++) {
		sleep(1);
		while (recv(fd, text, sizeof text, MSG_DONTWAIT) > 0)
			;
	}
}

static void become_honed(void)
{
	char self[PATH_MAX] = "", program[PATH_MAX + 16], name[4][128];
	static const char *const names[] = {"honed.conf", "run", "state", "hone"};
	if (file_self_dir(self, sizeof self) < 0)
		_exit(127);
	snprintf(program, sizeof program, "%s/../honed", self);
	for (int i = 0; i < 4; i++)
		snprintf(name[i], sizeof name[i], "%s/%s", dir, names[i]);
	setenv("HONE_SEEDS", "", 1);
	execl(program, "honed", "--config", name[0], "--run", name[1], "--state", name[2], "--hone", name[3],
	      (char *)NULL);
	_exit(127);
}

/* The last change of any file in the run and state folders. */
static time_t newest(const char *folder)
{
	char path[NAME_MAX + 192];
	struct stat st;
	time_t last = 0;
	DIR *d = opendir(folder);
	for (struct dirent *e; d && (e = readdir(d));) {
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		if (lstat(path, &st) < 0 || !strcmp(e->d_name, ".."))
			continue;
		time_t t = S_ISDIR(st.st_mode) && e->d_name[0] != '.' ? newest(path) : st.st_mtime;
		last = t > last ? t : last;
	}
	if (d)
		closedir(d);
	return last;
}

static void look(struct sample *s)
{
	char path[NAME_MAX + 64], text[8192];
	*s = (struct sample){0};
	snprintf(path, sizeof path, "/proc/%d/task", (int)honed);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.') /* "." and "..": ../status is that of the first thread again */
			continue;
		snprintf(path, sizeof path, "/proc/%d/task/%s/status", (int)honed, e->d_name);
		text_of(path, text, sizeof text);
		s->wakes += (long)number(text, "\nvoluntary_ctxt_switches:");
	}
	if (d)
		closedir(d);
	snprintf(path, sizeof path, "/proc/%d/io", (int)honed);
	text_of(path, text, sizeof text);
	s->bytes = number(text, "\nwrite_bytes:");
	s->read_calls = (long)number(text, "syscr:");
	s->newest = newest(dir);
}

static long kb_of(const char *name)
{
	char path[64], text[4096];
	snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)honed);
	text_of(path, text, sizeof text);
	return (long)number(text, name);
}

static int heavy(void)
{
	static const char *const names[] = {"llvm",    "hwloc",  "libssl", "gnutls", "mbedtls", "libcrypto",
					    "libcuda", "opencl", "libdrm", "curl",   "systemd"};
	char path[64], line[1024];
	int n = 0;
	snprintf(path, sizeof path, "/proc/%d/maps", (int)honed);
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		for (size_t i = 0; i < sizeof names / sizeof *names; i++)
			if (strcasestr(line, names[i])) {
				printf("mapped: %s", line);
				n++;
			}
	if (f)
		fclose(f);
	return n;
}

static int report(const struct sample *a, const struct sample *b, int seconds)
{
	long uss = kb_of("Private_Clean:") + kb_of("Private_Dirty:");
	double wakes = 60.0 * (double)(b->wakes - a->wakes) / seconds;
	bool touched = b->newest != a->newest;
	int nheavy = heavy();
	printf("honed idle for %d s at %d records:\n", seconds, RECORDS);
	printf("  unshared %ld KB (dirty %ld), PSS %ld KB, RSS %ld KB\n", uss, kb_of("Private_Dirty:"),
	       kb_of("Pss:"), kb_of("Rss:"));
	printf("  wake-ups %.2f a minute, read calls %ld\n", wakes, b->read_calls - a->read_calls);
	printf("  wrote %lld bytes; files %s\n", b->bytes - a->bytes, touched ? "changed" : "untouched");
	printf("  mappings of LLVM, hwloc, TLS or GPU libraries: %d\n", nheavy);
	/* A context switch is counted when it begins, so one may belong to the time before. */
	bool good = uss > 0 && uss <= MOST_KB && b->wakes - a->wakes <= MOST_WAKES * seconds / 60 + 1 &&
		    b->bytes == a->bytes && !touched && !nheavy;
	printf("%s\n", good ? "within the limits" : "OVER THE LIMITS");
	return good ? E_OK : fail(E_WRONG, "an idle honed exceeds its limits");
}

static int run(int seconds)
{
	struct sample a, b;
	int fd = manager();
	if (fd < 0)
		return fd;
	honed = fork();
	if (honed == 0)
		become_honed();
	hear(fd, SETTLE_S);
	look(&a);
	hear(fd, seconds);
	look(&b);
	int rc = waitpid(honed, NULL, WNOHANG) == 0 ? report(&a, &b, seconds)
						    : fail(E_CHILD, "honed ended too early");
	kill(honed, SIGTERM);
	waitpid(honed, NULL, 0);
	close(fd);
	return rc;
}

int main(int argc, char **argv)
{
	char cmd[128];
	int seconds = argc > 1 ? atoi(argv[1]) : 600;
	snprintf(dir, sizeof dir, "%s/hone-idle-XXXXXX", argc > 2 ? argv[2] : "/tmp");
	if (seconds < 1 || !mkdtemp(dir)) {
		log_error("usage: bench_idle [SECONDS [FOLDER]]");
		return 2;
	}
	int rc = make_files();
	if (rc >= 0)
		rc = run(seconds);
	if (rc < 0)
		log_error("%s", err_text());
	snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
	return system(cmd) != 0 || rc < 0;
}
