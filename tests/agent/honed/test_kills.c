/* SPDX-License-Identifier: Apache-2.0 */
/* KILLS random moments of boot boxes, at each of which something dies: honed, a job, a worker, or all; mostly
 * by SIGKILL. No record that a reader of the cache saw before may be missing or older afterwards. The next
 * start follows at once, ends well, and leaves no process running. `make torture` uses KILLS=1000; KILLS_SEED
 * makes another run. */
#include "agent/honed/marks.h"
#include "platform/base/rng.h"
#include "agent/cache/lookup.h"
#include "tests/lib/boot.h"

enum { STREAMS = 4, MODELS = 2, MOST_RECS = 256, CLEAN_BOXES = 5 };
#define BUDGET_S 1.2

struct seen {
	struct key key;
	char cand[512];
	int64_t ns;
	bool code;
};

struct view {
	uint64_t generation;
	int n;
	struct seen rec[MOST_RECS];
};

struct stream {
	struct boot b;
	struct rng rng;
	struct view before, after, best; /* best: the least time that was recorded at any moment */
	int kills[2][4], runs, ended;    /* [SIGKILL, SIGTERM][victim] */
	double worst;                    /* highest ratio of a record's time to the best */
};

enum victim { HONED, JOB, WORKER, ALL };

struct collect {
	struct cache *c;
	struct view *v;
};

static int collect_rec(void *ctx, const struct rec *r)
{
	struct collect *to = ctx;
	struct view *v = to->v;
	struct key k = rec_key(r);
	int i = 0;
	while (i < v->n && !key_equal(v->rec[i].key, k))
		i++;
	if (r->kind != REC_BEST || i == MOST_RECS)
		return 0;
	v->n += i == v->n;
	v->rec[i] = (struct seen){.key = k, .ns = r->meas.min_ns, .code = cache_has_code(to->c, NULL, r)};
	snprintf(v->rec[i].cand, sizeof v->rec[i].cand, "%s", r->cand);
	return 0;
}

static void look(const struct boot *b, struct view *v)
{
	struct arena a = {0};
	struct cache *c;
	*v = (struct view){0};
	if (cache_open(&c, boot_path(b, "state/cache"), true, 0) < 0)
		return;
	v->generation = cache_generation(c);
	CHECK(cache_each_rec(c, &a, collect_rec, &(struct collect){c, v}) >= 0);
	cache_close(c);
	arena_free(&a);
}

static struct seen *find(struct view *v, struct key k)
{
	for (int i = 0; i < v->n; i++)
		if (key_equal(v->rec[i].key, k))
			return &v->rec[i];
	return NULL;
}

static void remember(struct stream *s, const struct seen *r)
{
	struct seen *best = find(&s->best, r->key);
	if (!best && s->best.n < MOST_RECS) {
		best = &s->best.rec[s->best.n++];
		*best = *r;
	}
	if (best && r->ns < best->ns)
		best->ns = r->ns;
	if (best && best->ns > 0 && (double)r->ns / (double)best->ns > s->worst)
		s->worst = (double)r->ns / (double)best->ns;
}

/* Checks that nothing that could be read before is missing, and that without a later commit nothing has
 * changed. */
static void compare(struct stream *s)
{
	struct view *was = &s->before, *is = &s->after;
	CHECK(is->generation >= was->generation);
	for (int i = 0; i < was->n; i++) {
		const struct seen *old = &was->rec[i], *now = find(is, old->key);
		CHECK(now && (now->code || !old->code));
		if (now && is->generation == was->generation)
			CHECK(now->ns == old->ns && !strcmp(now->cand, old->cand));
	}
	for (int i = 0; i < is->n; i++)
		remember(s, &is->rec[i]);
}

static void check_marks(const struct boot *b)
{
	struct marks m;
	int rc = marks_read(boot_path(b, "state/marks"), marks_day(), &m);
	CHECK(rc >= 0 || rc == E_NOTFOUND);
	CHECK(rc < 0 || (m.unclean >= 0 && m.unclean <= 100 && m.n <= HONED_MODELS));
}

/* Changes a model's file, so that for the marks it has no kernels. */
static void touch(struct stream *s)
{
	char name[32];
	snprintf(name, sizeof name, "m%d.onnx", (int)rng_below(&s->rng, MODELS));
	CHECK(utimensat(AT_FDCWD, boot_path(&s->b, name), NULL, 0) == 0);
}

static void reap(void)
{
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static bool nothing_runs(double wait_s)
{
	struct process p[4];
	for (double until_s = test_now_s() + wait_s; test_now_s() < until_s; usleep(20000)) {
		reap();
		if (boot_below(getpid(), p, 4) == 0)
			return true;
	}
	for (int i = 0; i < boot_below(getpid(), p, 4); i++)
		printf("still running: %s %d\n", p[i].name, (int)p[i].pid);
	return false;
}

/* Chooses what dies, among the processes that exist. */
static enum victim choose(struct stream *s, pid_t *pid)
{
	static const char *const names[] = {[JOB] = "hone", [WORKER] = "hone-worker"};
	enum victim v = (enum victim)rng_below(&s->rng, 4);
	*pid = v == JOB || v == WORKER ? boot_find(s->b.pid, names[v]) : s->b.pid;
	if (*pid)
		return v;
	*pid = s->b.pid;
	return HONED;
}

static void kill_all(const struct boot *b)
{
	struct process p[64];
	kill(b->pid, SIGSTOP); /* stopped first, so that it starts no new process */
	int n = boot_below(b->pid, p, 64);
	for (int i = 0; i < n; i++)
		kill(p[i].pid, SIGKILL);
	kill(b->pid, SIGKILL);
}

/* Checks that it ends as it should after that. */
static void kill_one(struct stream *s)
{
	pid_t pid;
	bool hard = rng_below(&s->rng, 100) < 85;
	enum victim v = hard ? choose(s, &pid) : (pid = s->b.pid, HONED);
	s->kills[!hard][v]++;
	if (v == ALL)
		kill_all(&s->b);
	else
		kill(pid, hard ? SIGKILL : SIGTERM);
	int rc = boot_wait(&s->b, BUDGET_S + 20);
	bool dead = hard && (v == HONED || v == ALL);
	/* A SIGTERM that arrives before honed handles it ends the process directly. */
	CHECK(rc == 0 || (dead && rc == 1000 + SIGKILL) || (!hard && rc == 1000 + SIGTERM));
	if (test_bad)
		printf("after %s to victim %d: exit status %d\n", hard ? "SIGKILL" : "SIGTERM", (int)v, rc);
}

/* A box that ends by itself before the moment comes does not count as a kill. */
static void one_life(struct stream *s)
{
	if (rng_below(&s->rng, 100) < 90)
		touch(s);
	/* A quarter of the moments fall into the time when marks, lock and socket are made. */
	uint32_t most_us = rng_below(&s->rng, 4) ? (uint32_t)(1.1e6 * BUDGET_S) : 60000;
	uint32_t delay_us = rng_below(&s->rng, most_us);
	boot_start(&s->b, "--boot");
	s->runs++;
	double until_s = test_now_s() + 1e-6 * delay_us;
	siginfo_t ended = {0};
	while (test_now_s() < until_s && !ended.si_pid) {
		waitid(P_PID, (id_t)s->b.pid, &ended, WEXITED | WNOHANG | WNOWAIT);
		usleep(1000);
	}
	if (ended.si_pid) {
		s->ended++;
		CHECK(boot_wait(&s->b, 5) == 0);
		look(&s->b, &s->before);
		return;
	}
	look(&s->b, &s->before);
	kill_one(s);
	look(&s->b, &s->after);
	compare(s);
	check_marks(&s->b);
	if (rng_below(&s->rng, 2))
		CHECK(nothing_runs(20));
}

/* One undisturbed box. */
static void clean_box(struct stream *s)
{
	struct marks m;
	CHECK(nothing_runs(20));
	s->before = s->after;
	boot_start(&s->b, "--boot");
	CHECK(boot_wait(&s->b, 60) == 0);
	look(&s->b, &s->after);
	compare(s);
	CHECK_OK(marks_read(boot_path(&s->b, "state/marks"), marks_day(), &m));
	CHECK(m.unclean == 0);
}

/* After an undisturbed box all models have their kernels, and none is slower than before. On a machine that
 * others use so much that one box is too short, the next boxes must make what is missing. */
static void last_boxes(struct stream *s)
{
	int64_t now_ns = 0, best_ns = 0;
	boot_write(&s->b, "sys/proc/cmdline", "hone.budget=9s\n");
	clean_box(s);
	for (int i = 1; i < CLEAN_BOXES && s->after.n < 2 * MODELS; i++)
		clean_box(s);
	for (int i = 0; i < s->after.n; i++) {
		now_ns += s->after.rec[i].ns;
		best_ns += find(&s->best, s->after.rec[i].key)->ns;
		CHECK(s->after.rec[i].code);
	}
	CHECK(s->after.n >= 2 * MODELS);
	CHECK(now_ns <= 2 * best_ns);
	CHECK(nothing_runs(20));
	printf(
	    "%d boxes, %d ended by themselves; SIGKILL of honed %d, job %d, worker %d, all %d; SIGTERM %d; "
	    "kernels take %.2f of the least recorded, at worst %.2f\n",
	    s->runs, s->ended, s->kills[0][HONED], s->kills[0][JOB], s->kills[0][WORKER], s->kills[0][ALL],
	    s->kills[1][HONED], (double)now_ns / (double)best_ns, s->worst);
}

static int done(const struct stream *s)
{
	int n = 0;
	for (int i = 0; i < 8; i++)
		n += s->kills[i / 4][i % 4];
	return n;
}

static void run_stream(uint64_t seed, int kills)
{
	static struct stream s;
	char boot[64];
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	rng_seed(&s.rng, seed);
	snprintf(boot, sizeof boot, "budget = %dms\nunclean = 100\n", (int)(1000 * BUDGET_S));
	boot_open(&s.b, MODELS, boot);
	while (done(&s) < kills && s.runs < 4 * kills + 20 && !test_bad)
		one_life(&s);
	CHECK(done(&s) >= kills);
	if (!test_bad)
		last_boxes(&s);
	if (test_bad)
		printf("seed %llu, box %d: see %s/log\n", (unsigned long long)seed, s.runs, s.b.top);
	else
		boot_close(&s.b);
	fflush(NULL);
	_exit(test_bad);
}

static int from_env(const char *name, int fallback)
{
	return getenv(name) ? atoi(getenv(name)) : fallback;
}

TEST(whatever_dies_the_next_box_is_clean)
{
	int kills = from_env("KILLS", 20), bad = 0, status;
	pid_t pid[STREAMS];
	if (!boot_can())
		SKIP("no honed, hone and hone-worker (HONE_WORKER)");
	for (int i = 0; i < STREAMS; i++) {
		fflush(NULL);
		pid[i] = fork();
		if (pid[i] == 0)
			run_stream((uint64_t)(from_env("KILLS_SEED", 1) * STREAMS + i),
				   (kills + STREAMS - 1) / STREAMS);
	}
	for (int i = 0; i < STREAMS; i++)
		bad += waitpid(pid[i], &status, 0) != pid[i] || status != 0;
	CHECK(bad == 0);
}

TEST_MAIN
