/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/trajectory.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"
#include "platform/base/hash.h"
#include "platform/base/log.h"
#include "tools/bench/snap.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROGRAM_MAX = 1 << 30 };
#define LATE_S 2.0 /* a tuner that runs so long after its box is killed */
#define LOOK_NS (5 * NS_PER_MS)

struct watch {
	pid_t pid;
	int64_t start_ns;
	int status;
	bool ended;
};

void trajectory_folder(const struct trajectory *t, int moment, char *out, size_t n)
{
	snprintf(out, n, "%s/%gs", t->dir, t->at_s[moment]);
}

/* In the child: nothing between fork and exec may allocate. */
static void become(const struct trajectory *t, char *const argv[], const char *out)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((unsigned)t->cpu, &set);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd >= 0 && dup2(fd, 1) >= 0 && sched_setaffinity(0, sizeof set, &set) == 0)
		execv(t->hone, argv);
	_exit(127);
}

static int start(const struct trajectory *t, double budget_s, const char *cache, struct watch *w)
{
	char budget[32], seed[32], out[PATH_MAX];
	snprintf(budget, sizeof budget, "%.0fms", budget_s * 1e3);
	snprintf(seed, sizeof seed, "%llu", (unsigned long long)t->seed);
	snprintf(out, sizeof out, "%s/tune.json", t->dir);
	const char *argv[20] = {t->hone, "tune",    t->model, "--json",    "-q", "--budget", budget, "--seed",
				seed,    "--cache", cache,    "--threads", "1",  "--device", "cpu"};
	int n = 15;
	if (t->strategy) {
		argv[n++] = "--strategy";
		argv[n++] = t->strategy;
	}
	if (t->level != LEVEL_FP32) {
		argv[n++] = "--level";
		argv[n++] = level_name((int)t->level);
	}
	*w = (struct watch){.start_ns = clock_now(&clock_real)};
	w->pid = fork();
	if (w->pid < 0)
		return fail(E_CHILD, "cannot start %s: %s", t->hone, strerror(errno));
	if (w->pid == 0)
		become(t, (char *const *)argv, out);
	return E_OK;
}

static bool reap(struct watch *w)
{
	w->ended = w->ended || waitpid(w->pid, &w->status, WNOHANG) == w->pid;
	return w->ended;
}

/* Waits until at_s after the start, or until the child ends. */
static void wait_until(struct watch *w, double at_s)
{
	int64_t at_ns = w->start_ns + (int64_t)(at_s * 1e9);
	while (!reap(w)) {
		int64_t left_ns = at_ns - clock_now(&clock_real);
		if (left_ns <= 0)
			return;
		clock_real.sleep(&clock_real, left_ns < LOOK_NS ? left_ns : LOOK_NS);
	}
}

static int finish(const struct trajectory *t, struct watch *w, double budget_s)
{
	wait_until(w, budget_s + LATE_S);
	bool late = !w->ended;
	if (late) {
		kill(w->pid, SIGKILL);
		waitpid(w->pid, &w->status, 0);
		w->ended = true;
	}
	if (late)
		return fail(E_TIMEOUT, "hone tune %s did not end within %g s of its box of %g s", t->model,
			    LATE_S, budget_s);
	if (!WIFEXITED(w->status) || WEXITSTATUS(w->status))
		return fail(E_CHILD, "hone tune %s failed (status %d); run it alone to see why", t->model,
			    w->status);
	return E_OK;
}

static void done_path(const struct trajectory *t, char out[PATH_MAX])
{
	snprintf(out, PATH_MAX, "%s/done", t->dir);
}

static int forget_done(const struct trajectory *t)
{
	char path[PATH_MAX];
	done_path(t, path);
	return unlink(path) == 0 || errno == ENOENT ? E_OK : fail(E_IO, "%s: %s", path, strerror(errno));
}

static void done_text(const struct trajectory *t, char *out, size_t n)
{
	snprintf(out, n, "%s budget=%g level=%s", t->stamp ? t->stamp : "-", t->budget_s,
		 level_name((int)t->level));
}

static int note_done(const struct trajectory *t)
{
	char path[PATH_MAX];
	char text[128];
	done_path(t, path);
	done_text(t, text, sizeof text);
	return file_write(path, text, strlen(text));
}

static bool is_done(const struct trajectory *t, struct arena *a)
{
	char path[PATH_MAX];
	char want[128];
	struct blob text;
	done_path(t, path);
	done_text(t, want, sizeof want);
	if (!file_exists(path) || file_read(a, path, 4096, &text) < 0)
		return false;
	return !t->stamp || (text.n == strlen(want) && !memcmp(text.p, want, text.n));
}

static int begin(const struct trajectory *t, char cache[PATH_MAX])
{
	if (strlen(t->dir) + 32 > PATH_MAX)
		return fail(E_USAGE, "the path %.80s... is too long", t->dir);
	snprintf(cache, PATH_MAX, "%s/cache", t->dir);
	int rc = file_mkdirs(t->dir, 0755);
	if (rc >= 0)
		rc = forget_done(t);
	if (rc >= 0)
		rc = t->from ? snap_copy(t->from, cache) : snap_remove(cache);
	return rc;
}

static int snapshot(const struct trajectory *t, int moment, const char *cache)
{
	char to[PATH_MAX];
	trajectory_folder(t, moment, to, sizeof to);
	return snap_copy(cache, to);
}

/* Takes the snapshots of a box. The last moment is after the end of the box, with what the tuner writes
 * last. */
static int watched(const struct trajectory *t, struct watch *w, const char *cache)
{
	int rc = E_OK, i = 0;
	for (; rc >= 0 && i < t->n && t->at_s[i] < t->budget_s; i++) {
		wait_until(w, t->at_s[i]);
		rc = snapshot(t, i, cache);
	}
	int end = finish(t, w, t->budget_s);
	rc = rc < 0 ? rc : end;
	for (; rc >= 0 && i < t->n; i++)
		rc = snapshot(t, i, cache);
	return rc < 0 ? rc : note_done(t);
}

int trajectory_run(const struct trajectory *t)
{
	char cache[PATH_MAX];
	struct watch w;
	int rc = begin(t, cache);
	if (rc >= 0)
		rc = start(t, t->budget_s, cache, &w);
	return rc < 0 ? rc : watched(t, &w, cache);
}

int trajectory_boxes(const struct trajectory *t)
{
	char cache[PATH_MAX];
	struct watch w;
	int rc = E_OK;
	for (int i = 0; rc >= 0 && i < t->n; i++) {
		rc = begin(t, cache);
		if (rc >= 0)
			rc = start(t, t->at_s[i], cache, &w);
		if (rc >= 0)
			rc = finish(t, &w, t->at_s[i]);
		if (rc >= 0)
			rc = snapshot(t, i, cache);
	}
	return rc < 0 ? rc : note_done(t);
}

int trajectory_stamp(const char *hone, const char *worker, struct arena *a, const char **out)
{
	const char *const path[] = {hone, worker};
	struct key k = {0};
	char text[33];
	for (int i = 0; i < 2; i++) {
		struct arena scratch = {0};
		struct blob bytes;
		int rc = file_read(&scratch, path[i], PROGRAM_MAX, &bytes);
		if (rc >= 0)
			k = hash_join(k, hash_bytes(bytes.p, bytes.n));
		arena_free(&scratch);
		if (rc < 0)
			return rc;
	}
	key_text(k, text);
	*out = arena_strdup(a, text);
	return E_OK;
}

static double number(const json_t *j, const char *key)
{
	const json_t *v = json_object_get(j, key);
	return json_is_number(v) ? json_number_value(v) : NAN;
}

int trajectory_read(const struct trajectory *t, struct arena *a, struct course *out)
{
	char path[PATH_MAX];
	struct blob text;
	json_error_t e = {0};
	if (!is_done(t, a))
		return fail(E_NOTFOUND, "%s: no such search", t->dir);
	for (int i = 0; i < t->n; i++) {
		trajectory_folder(t, i, path, sizeof path);
		if (!file_is_dir(path))
			return fail(E_NOTFOUND, "%s: no such snapshot", path);
	}
	snprintf(path, sizeof path, "%s/tune.json", t->dir);
	int rc = file_read(a, path, 16 << 20, &text);
	if (rc < 0)
		return rc;
	json_t *j = json_loadb(text.p, text.n, 0, &e);
	const char *strategy = json_string_value(json_object_get(j, "strategy"));
	const json_t *spent = json_object_get(j, "spent");
	double trials = number(j, "trials"), elapsed_s = number(j, "elapsed_s");
	if (!strategy || !(trials >= 0 && trials < INT_MAX)) {
		json_decref(j);
		return fail(E_CORRUPT, "%s is not output of hone tune --json (%s)", path, e.text);
	}
	*out = (struct course){.strategy = arena_strdup(a, strategy),
			       .seed = t->seed,
			       .trials = (int)trials,
			       .elapsed_s = elapsed_s,
			       .own_pct = number(spent, "own_ms") / elapsed_s / 10,
			       .state_bytes = number(spent, "state_bytes"),
			       .n = t->n};
	for (int i = 0; i < t->n; i++)
		out->moment[i].at_s = t->at_s[i];
	json_decref(j);
	return E_OK;
}
