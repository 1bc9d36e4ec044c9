/* SPDX-License-Identifier: Apache-2.0 */
/* Cost of the boot box: first one box over networks of the zoo with an empty state folder, then boots that
 * have nothing to do, from the start of honed to its end.
 *
 *	make bench-boot                           steering and mobilenet_v2, a box of 20 s
 *	make bench-boot ARGS="steering --budget 5s --runs 50" */
#include "kernels/onnx/import.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"
#include "tools/hone/cmd.h"
#include "agent/cache/json.h"
#include "tools/hone/zoo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct bench {
	char top[64], honed[4096 + 16];
	struct arena a;
};

static const char *in(struct bench *b, const char *name)
{
	return arena_printf(&b->a, "%s/%s", b->top, name);
}

static int add_model(struct bench *b, const char *name, struct buf *conf)
{
	struct graph *g;
	const char *path = arena_printf(&b->a, "%s/%s.onnx", b->top, name);
	int rc = zoo_make(name, 1, &g);
	if (rc < 0)
		return rc;
	rc = export_file(g, path);
	graph_free(g);
	buf_printf(conf, "[model %s]\npath = %s\n", name, path);
	return rc;
}

static int prepare(struct bench *b, const struct args *a)
{
	static const char *const usual[] = {"steering", "mobilenet_v2"};
	struct buf conf = {0};
	int n = a->npos ? a->npos : 2, rc = file_self_dir(b->honed, sizeof b->honed - 16);
	strcat(b->honed, "/../honed");
	if (rc >= 0 && access(b->honed, X_OK) < 0)
		rc = fail(E_NOTFOUND, "%s is missing; `make` builds it", b->honed);
	if (rc >= 0)
		rc = file_mkdirs(in(b, "sys/proc"), 0755);
	buf_printf(&conf,
		   "[honed]\ncache = %s/state/cache\nsocket = %s/run/honed.sock\n[boot]\nbudget = %lldms\n",
		   b->top, b->top, (long long)(arg_duration(a, "budget", 20 * NS_PER_S) / NS_PER_MS));
	for (int i = 0; i < n && rc >= 0; i++)
		rc = add_model(b, a->npos ? a->pos[i] : usual[i], &conf);
	if (rc >= 0)
		rc = file_write(in(b, "honed.conf"), buf_str(&conf), conf.n);
	buf_free(&conf);
	return rc;
}

static void child(struct bench *b)
{
	int log = open(in(b, "log"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (log >= 0 && dup2(log, 1) >= 0 && dup2(log, 2) >= 0)
		execl(b->honed, "honed", "--boot", "--config", in(b, "honed.conf"), "--state", in(b, "state"),
		      "--run", in(b, "run"), "--sysroot", in(b, "sys"), NULL);
	_exit(126);
}

/* Runs honed once; *ms: milliseconds from its start to its end. */
static int boot(struct bench *b, double *ms)
{
	int status;
	int64_t start_ns = clock_now(&clock_real);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		child(b);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return fail(E_CHILD, "cannot start %s: %s", b->honed, strerror(errno));
	*ms = (double)(clock_now(&clock_real) - start_ns) / 1e6;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return fail(E_CHILD, "%s --boot ended with wait status %#x; see %s/log", b->honed,
			    (unsigned)status, b->top);
	return 0;
}

static int by_size(const void *x, const void *y)
{
	const double *a = x, *b = y;
	return (*a > *b) - (*a < *b);
}

static int measure(struct bench *b, const struct args *a)
{
	int runs = (int)arg_int(a, "runs", 20);
	double first_ms, *ms = ARENA_ARRAY(&b->a, double, runs < 1 ? 1 : runs);
	int rc = boot(b, &first_ms);
	for (int i = 0; i < runs && rc >= 0; i++)
		rc = boot(b, &ms[i]);
	if (rc < 0)
		return rc;
	qsort(ms, (size_t)runs, sizeof *ms, by_size);
	printf("first boot %.0f ms\n%d more boots: minimum %.1f ms, median %.1f ms, maximum %.1f ms\n",
	       first_ms, runs, ms[0], ms[runs / 2], ms[runs - 1]);
	return 0;
}

static int run(const struct args *a)
{
	struct bench b = {.top = "/tmp/bench-boot-XXXXXX"};
	char cmd[96];
	if (!mkdtemp(b.top))
		return fail(E_IO, "cannot make a folder in /tmp: %s; free some space", strerror(errno));
	int rc = prepare(&b, a);
	if (rc >= 0)
		rc = measure(&b, a);
	snprintf(cmd, sizeof cmd, "rm -rf %s", b.top);
	if (rc >= 0 && system(cmd) != 0)
		rc = fail(E_IO, "%s stays", b.top);
	arena_free(&b.a);
	return rc;
}

static const struct opt opts[] = {
    {"budget", OPT_DURATION, "TIME", "length of the first box (default: 20s)"},
    {"runs", OPT_INT, "N", "number of boots with nothing to do (default: 20)"},
    {NULL},
};

int main(int argc, char **argv)
{
	static const struct cmd cmd = {.usage = "[NET...]",
				       .summary = "measure the boot box, and boots with nothing to do",
				       .details = "",
				       .max_pos = 16,
				       .opts = opts,
				       .run = run,
				       .name = "bench-boot"};
	return cmd_main(&cmd, argc, argv);
}
