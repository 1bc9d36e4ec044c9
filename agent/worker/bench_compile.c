/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker/bench_compile.h"
#include "kernels/loops/lower.h"
#include "kernels/space/sched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CANDIDATES = 200, MOST_STEPS = 200, BUILDS = 2000, TRIES = 100000 };

struct bench {
	const struct dev *d;
	const struct emit *e;
	const struct target *t;
	struct arena arena; /* of one candidate */
	struct task task;
	char cand[CANDIDATES][CAND_MAX];
	int n;
	int64_t lower_ns; /* spent so far */
};

/* Highest product of register tile points and unrolled steps over all stages. */
static int64_t steps(const struct task *t, const char *cand)
{
	struct sched s;
	struct arena scratch = {0};
	int64_t most = 0;
	t = task_view(&scratch, t, cand);
	if (sched_parse(t, cand, &s) < 0)
		most = INT64_MAX;
	for (int k = 0; k < s.nstages && most < INT64_MAX; k++) {
		int64_t n = 1;
		for (int a = 0; a < t->stage[k].naxes; a++)
			n *= (int64_t)s.st[k].tile[a] * s.st[k].unroll[a];
		n *= s.st[k].wino.m ? (int64_t)s.st[k].wino.px * s.st[k].wino.kv : 1;
		most = n > most ? n : most;
	}
	arena_free(&scratch);
	return most;
}

static bool known(const struct bench *b, const char *structure)
{
	for (int i = 0; i < b->n; i++)
		if (strcmp(b->cand[i], structure) == 0)
			return true;
	return false;
}

/* Picks candidates of different structure; a candidate that differs only in numbers is not compiled again. */
static int pick(struct bench *b, const struct space *s)
{
	struct rng r;
	rng_seed(&r, 1);
	for (int i = 0; i < TRIES && b->n < CANDIDATES; i++) {
		char cand[CAND_MAX], structure[CAND_MAX];
		int rc = space_random(s, &r, cand);
		if (rc < 0)
			return rc;
		space_structure(cand, structure);
		if (steps(&b->task, structure) <= MOST_STEPS && space_legal(s, structure) >= 0 &&
		    !known(b, structure))
			memcpy(b->cand[b->n++], structure, CAND_MAX);
	}
	return b->n ? E_OK : fail(E_INFEASIBLE, "the task has no candidate of at most %d steps", MOST_STEPS);
}

/* Processor time of this process: the cost of a build on a busy machine, too. */
static int64_t cpu_ns(void)
{
	struct rusage u;
	if (getrusage(RUSAGE_SELF, &u) < 0)
		return 0;
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * NS_PER_S +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * NS_PER_US;
}

/* Builds from text to a loaded object. Returns 1, or 0 for a candidate that spills or cannot be made. */
static int build(struct bench *b, const char *text, const char *cand)
{
	struct task *t = ARENA_NEW(&b->arena, struct task);
	struct manifest *m = ARENA_NEW(&b->arena, struct manifest);
	struct loops *l;
	struct blob object;
	struct dev_code *code;
	int rc = task_parse(text, t);
	int64_t start = clock_now(b->d->clock());
	if (rc >= 0)
		rc = lower(t, cand, b->t, &b->arena, &l, m);
	b->lower_ns += clock_now(b->d->clock()) - start;
	if (rc >= 0)
		rc = b->e->emit(l, b->t, &b->arena, &object);
	if (rc >= 0 && (rc = b->d->load(object.p, object.n, &code)) >= 0)
		b->d->unload(code);
	arena_reset(&b->arena);
	return rc == E_INFEASIBLE || rc == E_SPILL ? 0 : rc < 0 ? rc : 1;
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static int time_all(struct bench *b, const char *text, struct clock *clock)
{
	int64_t ns[CANDIDATES], cpu[CANDIDATES], sum = 0, lower_ns = b->lower_ns;
	int good = 0, rc = build(b, text, b->cand[0]); /* the emitter initializes itself */
	for (int i = 0; i < b->n && rc >= 0; i++) {
		int64_t start = clock_now(clock), cpu_start = cpu_ns();
		rc = build(b, text, b->cand[i]);
		ns[i] = clock_now(clock) - start;
		cpu[i] = cpu_ns() - cpu_start;
		sum += ns[i];
		good += rc > 0;
	}
	if (rc < 0)
		return rc;
	qsort(ns, (size_t)b->n, sizeof ns[0], ascending);
	qsort(cpu, (size_t)b->n, sizeof cpu[0], ascending);
	printf("%d structural candidates of at most %d steps, %d without spill\n", b->n, MOST_STEPS, good);
	printf("median %.2f ms, 90th percentile %.2f ms, %.0f a second on one core\n",
	       (double)ns[b->n / 2] / 1e6, (double)ns[b->n * 9 / 10] / 1e6, b->n / ((double)sum / 1e9));
	printf("processor time: median %.2f ms, 90th percentile %.2f ms; lowering takes %.0f %% of a build\n",
	       (double)cpu[b->n / 2] / 1e6, (double)cpu[b->n * 9 / 10] / 1e6,
	       100.0 * (double)(b->lower_ns - lower_ns) / (double)(sum > 0 ? sum : 1));
	fflush(stdout);
	return E_OK;
}

static double resident_mib(void)
{
	long all = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f)
		return 0;
	if (fscanf(f, "%ld %ld", &all, &resident) != 2)
		resident = 0;
	fclose(f);
	return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

static int grow(struct bench *b, const char *text)
{
	double before = resident_mib();
	int rc = E_OK;
	for (int i = 0; i < BUILDS && rc >= 0; i++)
		rc = build(b, text, b->cand[i % b->n]);
	if (rc >= 0)
		printf("resident memory: %.1f MiB, after %d more builds %.1f MiB\n", before, BUILDS,
		       resident_mib());
	return rc;
}

int bench_compile(const char *path, const struct dev *d, const struct emit *e, const struct target *t)
{
	struct arena a = {0};
	struct blob text;
	struct space *s;
	/* Winograd's tiles are not bounded by tile x unroll */
	const struct space_want direct = {.level = LEVEL_EXACT};
	struct bench *b = ARENA_NEW(&a, struct bench);
	b->d = d;
	b->e = e;
	b->t = t;
	int rc = file_read(&a, path, 1 << 20, &text);
	if (rc >= 0)
		rc = task_parse(text.p, &b->task);
	if (rc >= 0)
		rc = space_make(&a, &b->task, t, &direct, &s);
	if (rc >= 0)
		rc = pick(b, s);
	if (rc >= 0)
		rc = time_all(b, text.p, d->clock());
	if (rc >= 0)
		rc = grow(b, text.p);
	arena_free(&b->arena);
	arena_free(&a);
	return rc;
}
