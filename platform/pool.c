/* SPDX-License-Identifier: Apache-2.0 */
/* One job at a time: the caller publishes (fn, ctx, extent) and raises `epoch`; threads claim parts of the
 * range, run them and lower `left`; the caller waits for left == 0. A thread claims the parts of its own
 * share first, so that it meets the same data again in the next kernel, then those that nobody has begun: a
 * worker that lost its core to somebody else holds up one part, not the whole run.
 *
 * A part is claimed in epoch e by moving its counter from e - 1 to e. Before e is published every counter
 * stands at e - 1, but for parts this job has no use for, which stand at e already; a worker that is late
 * with an older epoch finds counters above what it expects and claims nothing. The job is read after a claim
 * only: it cannot change until that part is done.
 *
 * Sleeping: a worker raises `sleepers` and then looks at epoch and active once more, all under the lock;
 * whoever raises epoch or active looks at `sleepers` afterwards. Both sides are sequentially consistent, so
 * no wake-up is lost. */
#include "platform/pool.h"
#include "platform/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
	EAGER_NS =
	    3000, /* at first the core does nothing but look: the next kernel usually comes within this */
	SPIN_NS =
	    50000, /* then it pauses between looks; after this it sleeps, or yields while an inference runs */
	LOOKS = 32, /* looks between two readings of the clock */
	PARTS = 4,  /* of a thread's share */
};

/* The parts of one thread's share: the epoch each was last claimed in. */
struct share {
	_Alignas(64) atomic_uint claimed[PARTS];
};

struct worker {
	struct pool *pool;
	pthread_t id;
	int thread;
	int cpu; /* -1: not pinned */
};

struct pool {
	_Alignas(64) atomic_uint epoch;
	atomic_bool active, stop;
	pool_fn *fn;
	void *ctx;
	int64_t extent;
	int parts;
	_Alignas(64) atomic_int left; /* parts that are not done */
	_Alignas(64) atomic_int sleepers;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	int threads;
	int started;  /* workers that run */
	bool crowded; /* fewer cpus than threads: waiting gives the cpu away */
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

/* One step of waiting. */
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

/* How many parts belong to a thread's share, and the number of its first. */
static int share_parts(const struct pool *p, int thread, int64_t *first)
{
	int each = p->parts / p->threads, extra = p->parts % p->threads;
	*first = (int64_t)thread * each + (thread < extra ? thread : extra);
	return each + (thread < extra);
}

static bool claim(struct pool *p, int thread, int part, unsigned epoch)
{
	unsigned before = epoch - 1;
	atomic_uint *c = &p->share[thread].claimed[part];
	return atomic_load_explicit(c, memory_order_relaxed) == before &&
	       atomic_compare_exchange_strong(c, &before, epoch);
}

/* Part i of the extent: the first extent % parts of them are longer by one. */
static void run_part(struct pool *p, int thread, int64_t i)
{
	int64_t size = p->extent / p->parts, extra = p->extent % p->parts;
	int64_t begin = i * size + (i < extra ? i : extra);
	p->fn(p->ctx, thread, begin, begin + size + (i < extra));
	atomic_fetch_sub(&p->left, 1);
}

static void run_parts(struct pool *p, int thread, unsigned epoch)
{
	for (int k = 0; k < p->threads; k++) {
		int owner = (thread + k) % p->threads;
		for (int part = 0; part < PARTS; part++) {
			int64_t first;
			if (!claim(p, owner, part, epoch))
				continue;
			(void)share_parts(p, owner, &first);
			run_part(p, thread, first + part);
		}
	}
}

static bool idle(struct pool *p, unsigned seen)
{
	return atomic_load(&p->epoch) == seen && !atomic_load(&p->stop);
}

static void sleep_until_wanted(struct pool *p, unsigned seen)
{
	pthread_mutex_lock(&p->lock);
	atomic_fetch_add(&p->sleepers, 1);
	while (idle(p, seen) && !atomic_load(&p->active))
		pthread_cond_wait(&p->wake, &p->lock);
	atomic_fetch_sub(&p->sleepers, 1);
	pthread_mutex_unlock(&p->lock);
}

/* Waits for the next job; returns false at the end of the pool. */
static bool next_job(struct pool *p, unsigned *seen)
{
	struct spin s = {0};
	while (idle(p, *seen)) {
		spin_once(&s, p->crowded);
		if (s.waited_ns > SPIN_NS && !atomic_load(&p->active)) {
			sleep_until_wanted(p, *seen);
			s = (struct spin){0};
		}
	}
	if (atomic_load(&p->stop))
		return false;
	*seen = atomic_load(&p->epoch);
	return true;
}

static void pin(int cpu)
{
	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned seen = 0;
	pin(w->cpu);
	(void)fpu_flush(); /* for good: this thread runs nothing but kernels */
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

int pool_open(struct pool **out, int threads, const int *cpus)
{
	if (threads < 1 || threads > 1024)
		return fail(E_USAGE, "%d threads: 1 to 1024 are possible", threads);
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
	*p = (struct pool){.threads = threads, .worker = w, .share = share, .crowded = is_crowded(threads)};
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
	if (p->threads == 1)
		return;
	atomic_store(&p->active, true);
	wake_sleepers(p);
}

void pool_end(struct pool *p)
{
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
	p->fn = fn;
	p->ctx = ctx;
	p->extent = extent;
	p->parts = extent < p->threads * PARTS ? (int)extent : p->threads * PARTS;
	unsigned epoch = atomic_load(&p->epoch) + 1;
	for (int t = 0; t < p->threads; t++) {
		int64_t first;
		for (int part = share_parts(p, t, &first); part < PARTS; part++)
			atomic_store_explicit(&p->share[t].claimed[part], epoch, memory_order_relaxed);
	}
	atomic_store(&p->left, p->parts);
	atomic_store(&p->epoch, epoch);
	wake_sleepers(p);
	run_parts(p, 0, epoch);
	for (struct spin s = {0}; atomic_load(&p->left);)
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
