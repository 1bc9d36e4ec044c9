/* SPDX-License-Identifier: Apache-2.0 */
/* One job at a time: the caller writes fn, ctx and extent and publishes them by `job`, which holds the number
 * of the epoch and how the extent falls into parts; threads claim parts, run them and count them; the caller
 * waits until the counts of all threads have grown by the number of parts. Everything a thread writes while
 * it works lies in a cache line of its own, and what it waits for in one line: to start and to end a range
 * take one transfer each between every worker's core and the caller's.
 *
 * A thread claims the parts of its own share first, so that it meets the same data again in the next kernel,
 * then those that nobody has begun: a slower core runs fewer of them, and a worker that lost its core to
 * somebody else holds up one part, not the whole run.
 *
 * A share's word holds the epoch of its last claim and how many parts were claimed in that. A worker that is
 * late with an older epoch claims nothing: that epoch is over, so every share that had parts in it is at that
 * epoch with all of them claimed, or further. The job is read after a claim only: it cannot change until that
 * part is done.
 *
 * Sleeping: a worker raises `sleepers` and then looks at job and active once more, all under the lock;
 * whoever raises job or active looks at `sleepers` afterwards. Both sides are sequentially consistent, so no
 * wake-up is lost. */
#include "platform/run/pool.h"
#include "platform/base/clock.h"
#include "platform/machine/topo.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
	EAGER_NS =
	    3000, /* at first the core does nothing but look: the next kernel usually comes within this */
	SPIN_NS = 50000,   /* then it pauses between looks; after this it yields while an inference runs */
	LINGER = 20,       /* behind an inference it waits a 20th of its time, */
	LINGER_NS = 20000, /* at most this long, then sleeps: a caller of many inferences is back by then */
	LOOKS = 32,        /* looks between two readings of the clock */
	PARTS = 4,         /* of a thread's share */
	EPOCH_SHIFT = 16,  /* below it a number of parts: at most 1024 threads' */
};

/* The counters of one thread. */
struct share {
	_Alignas(64) _Atomic uint64_t taken; /* epoch << EPOCH_SHIFT | parts claimed in it, by any thread */
	_Alignas(64) atomic_uint done;       /* parts that this thread has run since the pool was opened */
};

struct worker {
	struct pool *pool;
	pthread_t id;
	int thread;
	int cpu; /* -1: not pinned */
};

struct pool {
	_Alignas(64) _Atomic uint64_t job; /* epoch << EPOCH_SHIFT | parts of the extent */
	atomic_bool active, stop;
	atomic_int linger_ns;
	pool_fn *fn;
	void *ctx;
	int64_t extent;
	_Alignas(64) atomic_int sleepers;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	int threads;
	int64_t begin_ns; /* of the inference */
	int cpu;          /* of the caller where workers are pinned, else -1 */
	int started;      /* workers that were started */
	bool settled;     /* all threads are pinned to one cluster of a board that has several: `home` */
	cpu_set_t home;
	unsigned want; /* sum of all threads' `done` when the last job is over */
	bool crowded;  /* fewer cpus than threads: waiting gives the cpu away */
	struct worker *worker;
	struct share *share;
};

#if defined(__x86_64__)
static inline void pause_cpu(void)
{
	__builtin_ia32_pause();
}
#elif defined(__aarch64__)
static inline void pause_cpu(void)
{
	__asm__ volatile("isb" ::: "memory");
}
#else
static inline void pause_cpu(void)
{
	__asm__ volatile("" ::: "memory");
}
#endif

struct spin {
	int looks;
	int64_t since_ns, waited_ns;
};

/* One step of spinning. */
static void spin_once(struct spin *s, bool crowded)
{
	if (++s->looks % LOOKS == 0) {
		int64_t now = clock_now(&clock_real);
		if (!s->since_ns)
			s->since_ns = now;
		s->waited_ns = now - s->since_ns;
	}
	if (crowded || s->waited_ns > SPIN_NS)
		sched_yield();
	else if (s->waited_ns > EAGER_NS)
		pause_cpu();
}

/* Begin of part i of n equal ones; the first parts may be longer by one. */
static int64_t part_begin(int64_t size, int64_t n, int64_t i)
{
	int64_t longer = size % n;
	return size / n * i + (i < longer ? i : longer);
}

static int parts_of(const struct pool *p, int64_t extent)
{
	return extent < p->threads * PARTS ? (int)extent : p->threads * PARTS;
}

/* Claims the next part of a share and returns its number; -1: none is left in this job. */
static int claim(struct pool *p, int owner, uint64_t job)
{
	_Atomic uint64_t *word = &p->share[owner].taken;
	uint64_t first = job >> EPOCH_SHIFT << EPOCH_SHIFT, old = atomic_load(word);
	int parts = (int)(job - first), n = parts / p->threads + (owner < parts % p->threads);
	for (;;) {
		uint64_t next = old < first ? first : old;
		if (next >= first + (uint64_t)n)
			return -1;
		if (atomic_compare_exchange_weak(word, &old, next + 1))
			return (int)(next - first);
	}
}

static void run_part(struct pool *p, int thread, int owner, int part)
{
	int64_t begin = part_begin(p->extent, p->threads, owner),
		size = part_begin(p->extent, p->threads, owner + 1) - begin;
	int64_t n = size < PARTS ? size : PARTS;
	p->fn(p->ctx, thread, begin + part_begin(size, n, part), begin + part_begin(size, n, part + 1));
}

static void run_share(struct pool *p, int thread, int owner, uint64_t job)
{
	unsigned n = 0;
	for (int part; (part = claim(p, owner, job)) >= 0; n++)
		run_part(p, thread, owner, part);
	if (n)
		atomic_fetch_add_explicit(&p->share[thread].done, n, memory_order_release);
}

/* Only the caller asks this. */
static bool all_done(struct pool *p)
{
	unsigned done = 0;
	for (int t = 0; t < p->threads; t++)
		done += atomic_load_explicit(&p->share[t].done, memory_order_acquire);
	return done == p->want;
}

static void run_parts(struct pool *p, int thread, uint64_t job)
{
	run_share(p, thread, thread, job);
	for (int k = 1; k < p->threads && (thread || !all_done(p)); k++)
		run_share(p, thread, (thread + k) % p->threads, job);
}

static bool idle(struct pool *p, uint64_t seen)
{
	return atomic_load(&p->job) == seen && !atomic_load(&p->stop);
}

static void sleep_until_wanted(struct pool *p, uint64_t seen)
{
	pthread_mutex_lock(&p->lock);
	atomic_fetch_add(&p->sleepers, 1);
	while (idle(p, seen) && !atomic_load(&p->active))
		pthread_cond_wait(&p->wake, &p->lock);
	atomic_fetch_sub(&p->sleepers, 1);
	pthread_mutex_unlock(&p->lock);
}

/* Waits for the next job; returns false at the end of the pool. */
static bool next_job(struct pool *p, uint64_t *seen)
{
	struct spin s = {0};
	while (idle(p, *seen)) {
		spin_once(&s, p->crowded);
		if (!atomic_load(&p->active) && s.waited_ns > atomic_load(&p->linger_ns)) {
			sleep_until_wanted(p, *seen);
			s = (struct spin){0};
		}
	}
	if (atomic_load(&p->stop))
		return false;
	*seen = atomic_load(&p->job);
	return true;
}

static void pin(int cpu)
{
	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)sched_setaffinity(0, sizeof set, &set); /* this thread */
}

/* If the system put the caller on a worker's cpu, both would share it until the next balancing, milliseconds
 * later; and on a core of another cluster, the workers would wait for it. So the caller moves to the cpu that
 * was left for it, without being bound to it. */
static void go_home(const struct pool *p)
{
	int here = sched_getcpu(), at = 0;
	cpu_set_t may;
	while (at < p->started && p->worker[at].cpu != here)
		at++;
	bool away = p->settled && here >= 0 && here < CPU_SETSIZE && !CPU_ISSET(here, &p->home);
	if (here < 0 || p->cpu < 0 || (at == p->started && !away) ||
	    pthread_getaffinity_np(pthread_self(), sizeof may, &may) != 0 || !CPU_ISSET(p->cpu, &may))
		return;
	pin(p->cpu);
	(void)pthread_setaffinity_np(pthread_self(), sizeof may, &may);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t seen = 0;
	pin(w->cpu);
	(void)fpu_flush(); /* for the thread's lifetime: it runs only kernels */
	while (next_job(w->pool, &seen))
		run_parts(w->pool, w->thread, seen);
	return NULL;
}

static void wake_sleepers(struct pool *p)
{
	if (!atomic_load(&p->sleepers))
		return;
	pthread_mutex_lock(&p->lock);
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
}

static bool is_crowded(int threads)
{
	cpu_set_t set;
	return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) < threads;
}

static int start_worker(struct pool *p, int thread, const int *cpus)
{
	struct worker *w = &p->worker[thread - 1];
	*w = (struct worker){.pool = p, .thread = thread, .cpu = cpus ? cpus[thread] : -1};
	int err = pthread_create(&w->id, NULL, work, w);
	if (err)
		return fail(E_NOMEM, "cannot start thread %d of %d (error %d); use fewer threads", thread,
			    p->threads, err);
	p->started++;
	return E_OK;
}

static void find_home(struct pool *p, const int *cpus)
{
	struct clusters c;
	topo_clusters("", NULL, &c);
	for (int i = 0; i < c.n && c.n > 1; i++) {
		int n = 0;
		while (n < p->threads && cpus[n] >= 0 && cpus[n] < CPU_SETSIZE &&
		       CPU_ISSET(cpus[n], &c.of[i].cpus))
			n++;
		if (n == p->threads) {
			p->settled = true;
			p->home = c.of[i].cpus;
		}
	}
}

int pool_open(struct pool **out, int threads, const int *cpus)
{
	if (threads < 1 || threads > 1024)
		return fail(E_USAGE, "%d threads are not possible; 1 to 1024 are", threads);
	struct pool *p = aligned_alloc(64, (sizeof *p + 63) & ~(size_t)63);
	struct worker *w = calloc((size_t)threads, sizeof *w);
	struct share *share = aligned_alloc(64, sizeof *share * (size_t)threads);
	if (!p || !w || !share) {
		free(p);
		free(w);
		free(share);
		return fail(E_NOMEM, "no memory for a pool of %d threads", threads);
	}
	memset(share, 0, sizeof *share * (size_t)threads);
	*p = (struct pool){.threads = threads,
			   .worker = w,
			   .share = share,
			   .crowded = is_crowded(threads),
			   .cpu = cpus ? cpus[0] : -1};
	if (cpus)
		find_home(p, cpus);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	for (int i = 1; i < threads; i++) {
		int rc = start_worker(p, i, cpus);
		if (rc < 0) {
			pool_close(p);
			return rc;
		}
	}
	*out = p;
	return E_OK;
}

int pool_threads(const struct pool *p)
{
	return p->threads;
}

void pool_begin(struct pool *p)
{
	if (p->threads > 1 || p->settled)
		go_home(p);
	if (p->threads == 1)
		return;
	p->begin_ns = clock_now(&clock_real);
	atomic_store(&p->active, true);
	wake_sleepers(p);
}

void pool_end(struct pool *p)
{
	if (p->threads == 1)
		return;
	int64_t ns = (clock_now(&clock_real) - p->begin_ns) / LINGER;
	atomic_store(&p->linger_ns, (int)(ns < EAGER_NS ? EAGER_NS : ns < LINGER_NS ? ns : LINGER_NS));
	atomic_store(&p->active, false);
}

void pool_run(struct pool *p, pool_fn *fn, void *ctx, int64_t extent)
{
	if (extent <= 0)
		return;
	if (extent == 1 || p->threads == 1) {
		fn(ctx, 0, 0, extent);
		return;
	}
	unsigned parts = (unsigned)parts_of(p, extent);
	uint64_t epoch = (atomic_load_explicit(&p->job, memory_order_relaxed) >> EPOCH_SHIFT) + 1,
		 job = epoch << EPOCH_SHIFT | parts;
	p->want += parts;
	p->fn = fn;
	p->ctx = ctx;
	p->extent = extent;
	atomic_store(&p->job, job);
	wake_sleepers(p);
	run_parts(p, 0, job);
	for (struct spin s = {0}; !all_done(p);)
		spin_once(&s, p->crowded);
}

void pool_close(struct pool *p)
{
	if (!p)
		return;
	atomic_store(&p->stop, true);
	wake_sleepers(p);
	for (int i = 0; i < p->started; i++)
		pthread_join(p->worker[i].id, NULL);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	free(p->worker);
	free(p->share);
	free(p);
}
