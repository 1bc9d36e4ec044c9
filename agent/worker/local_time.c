/* SPDX-License-Identifier: Apache-2.0 */
/* Interleaved timing: in each round every kernel runs once, in shuffled order, so that a slow moment of the
 * machine affects all alike. A run shorter than 5 us is repeated until it takes that long: the clock ticks
 * every 20 ns and costs 25 ns. */
#include "agent/worker/local.h"
#include "platform/base/log.h"
#include "platform/machine/evict.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHORTEST_NS = 5000, MOST_REPEATS = 1000 };
/* A device with memory of its own runs ahead of this process: a wait costs some 10 us, which a run in a
 * network does not, so that many runs share one. */
enum { OWN_SHORTEST_NS = 300000 };
static const size_t most_sweep_bytes = (size_t)256 << 20;

struct timing {
	struct local *l;
	struct pool *pool;
	bool cold, part;
	int64_t deadline_ns;
	int rc; /* sticky: the error of the device, */
	int at; /* and the number of the kernel that ran then */
	int n, rounds;
	int *order;
	int *repeats; /* per kernel */
	int64_t *ns;  /* [kernel][round], per run */
	struct local_built **b;
	struct meas *m;
};

/* ns per run of `repeats` runs of kernel k on a device with memory of its own. */
static int64_t run_own(struct timing *t, int k, int repeats)
{
	int64_t ns = 0;
	if (t->rc < 0)
		return 0;
	t->at = k;
	int rc = own_run(t->b[k], k, repeats, t->l->base.clock, t->deadline_ns, &ns);
	if (rc == E_NOMEM || rc == E_INFEASIBLE)
		t->m[k].status = MEAS_INFEASIBLE; /* the others are timed on */
	else
		t->rc = rc;
	return ns / repeats;
}

static int64_t run_once(struct timing *t, int k)
{
	struct clock *clock = t->l->base.clock;
	struct local_built *b = t->b[k];
	if (b->own)
		return run_own(t, k, 1);
	if (t->cold) {
		if (!built_chill(b))
			evict_by_reading(t->l->sweep.p, t->l->sweep.bytes);
		built_touch_inputs(b, t->pool);
	}
	double whole = 1;
	int64_t start = clock_now(clock);
	if (t->part)
		whole = built_run_part(b, t->l->dev);
	else
		built_run(b, t->l->dev, t->pool);
	return (int64_t)((double)(clock_now(clock) - start) * whole);
}

/* ns per run over the repeats of kernel k. Cold runs are timed one by one: constants are flushed in between.
 */
static int64_t run_repeated(struct timing *t, int k)
{
	struct clock *clock = t->l->base.clock;
	struct local_built *b = t->b[k];
	int64_t sum = 0;
	int repeats = t->repeats[k];
	if (b->own)
		return run_own(t, k, repeats);
	if (t->cold || t->part || repeats == 1) {
		for (int i = 0; i < repeats; i++)
			sum += run_once(t, k);
		return sum / repeats;
	}
	int64_t start = clock_now(clock);
	for (int i = 0; i < repeats; i++)
		built_run(b, t->l->dev, t->pool);
	return (clock_now(clock) - start) / repeats;
}

static bool over(const struct timing *t)
{
	return t->rc < 0 || clock_now(t->l->base.clock) >= t->deadline_ns;
}

static int repeats_of(int64_t shortest_ns, int64_t ns)
{
	int64_t n = ns <= 0 ? 1 : (shortest_ns + ns - 1) / ns;
	return (int)(n < MOST_REPEATS ? n : MOST_REPEATS);
}

/* Does the first runs: aborts slow kernels, and finds how often short ones are repeated. A first run is
 * slower than later ones (cold code, new pages), so a slow one gets a second chance unless it is hopeless.
 * On a device with memory of its own, one run is mostly the wait for it, so that short ones are repeated.
 * None is aborted for less than SHORTEST_NS: one run of so short a kernel shows the clock, and repeating it
 * costs no more than timing a faster one. */
static void first_run(struct timing *t, int k, int64_t abort_ns)
{
	int64_t ns = run_once(t, k);
	if (abort_ns > 0 && abort_ns < SHORTEST_NS)
		abort_ns = SHORTEST_NS;
	if (t->b[k]->own && ns < OWN_SHORTEST_NS && t->m[k].status == MEAS_OK && !over(t)) {
		int64_t many = run_own(t, k, repeats_of(OWN_SHORTEST_NS, ns)); /* without the wait */
		ns = t->m[k].status == MEAS_OK ? many : ns;
	}
	if (abort_ns > 0 && ns > abort_ns && ns < 20 * abort_ns && !over(t) && t->m[k].status == MEAS_OK) {
		int64_t again = run_once(t, k);
		ns = again < ns ? again : ns;
	}
	if (t->m[k].status != MEAS_OK)
		return;
	t->repeats[k] = repeats_of(t->b[k]->own ? OWN_SHORTEST_NS : SHORTEST_NS, ns);
	t->m[k].min_ns = t->m[k].median_ns = ns;
	t->m[k].runs = 1;
	if (abort_ns > 0 && ns > abort_ns)
		t->m[k].status = MEAS_ABORTED;
}

static void shuffle(struct timing *t)
{
	for (int i = t->n - 1; i > 0; i--) {
		int j = (int)rng_below(&t->l->rng, (uint32_t)i + 1), keep = t->order[i];
		t->order[i] = t->order[j];
		t->order[j] = keep;
	}
}

/* A first run that something delayed looks long, so it would never be repeated: a later one corrects that.
 * Only for devices: there a single run is mostly the wait for the device. */
static void repeat_more(struct timing *t, int k, int64_t ns)
{
	int n = t->b[k]->own && t->m[k].status == MEAS_OK ? repeats_of(OWN_SHORTEST_NS, ns) : 0;
	if (n > t->repeats[k])
		t->repeats[k] = n;
}

/* Returns the number of whole rounds that the deadline allowed. */
static int run_rounds(struct timing *t)
{
	for (int round = 0; round < t->rounds; round++) {
		shuffle(t);
		for (int i = 0; i < t->n; i++) {
			int k = t->order[i];
			if (t->m[k].status != MEAS_OK)
				continue;
			if (over(t))
				return round;
			int64_t ns = run_repeated(t, k);
			t->ns[(int64_t)k * t->rounds + round] = ns;
			repeat_more(t, k, ns);
		}
	}
	return t->rounds;
}

/* Makes a buffer of twice the last cache, which is read if lines cannot be flushed one by one. */
static int open_sweep(struct local *l)
{
	size_t last = (size_t)(l->target.l3_bytes ? l->target.l3_bytes : l->target.l2_bytes);
	if (l->sweep.p)
		return E_OK;
	int rc =
	    pages_open(&l->sweep, 2 * last < most_sweep_bytes ? 2 * last : most_sweep_bytes, PAGES_PLAIN);
	if (rc >= 0)
		memset(l->sweep.p, 1, l->sweep.bytes);
	return rc;
}

static int make_cold(struct timing *t)
{
	for (int k = 0; k < t->n; k++)
		if (!built_chill(t->b[k]))
			return open_sweep(t->l);
	return E_OK;
}

void sensors_open(struct sensors *s)
{
	char path[96];
	for (int cpu = 0; cpu < SENSED_CPUS; cpu++) {
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu);
		s->mhz[cpu] = open(path, O_RDONLY | O_CLOEXEC);
	}
	s->mc = open("/sys/class/thermal/thermal_zone0/temp", O_RDONLY | O_CLOEXEC);
}

void sensors_close(struct sensors *s)
{
	for (int cpu = 0; cpu < SENSED_CPUS; cpu++)
		if (s->mhz[cpu] >= 0)
			close(s->mhz[cpu]);
	if (s->mc >= 0)
		close(s->mc);
}

static int32_t read_number(int fd)
{
	char text[32] = "";
	return fd >= 0 && pread(fd, text, sizeof text - 1, 0) > 0 ? (int32_t)strtol(text, NULL, 10) : 0;
}

/* Reads clock frequency and temperature, if the system reports them. */
static void read_state(const struct local *l, int32_t *mhz, int32_t *mc)
{
	int cpu = sched_getcpu();
	*mhz = *mc = 0;
	if (l->base.clock != &clock_real)
		return;
	if (cpu >= 0 && cpu < SENSED_CPUS)
		*mhz = read_number(l->sensors.mhz[cpu]) / 1000;
	*mc = read_number(l->sensors.mc);
}

static int measure(struct timing *t, int64_t abort_ns)
{
	for (int k = 0; k < t->n; k++) {
		t->order[k] = k;
		if (over(t))
			return fail(E_TIMEOUT, "the deadline came before %d kernels had run once", t->n);
		first_run(t, k, abort_ns);
		if (t->rc < 0)
			return t->rc;
	}
	int done = run_rounds(t);
	if (t->rc < 0)
		return t->rc;
	if (done == 0 && t->rounds > 0)
		return fail(E_TIMEOUT, "the deadline came before the first round of %d kernels was over",
			    t->n);
	for (int k = 0; k < t->n; k++)
		if (t->m[k].status == MEAS_INFEASIBLE) /* whose first run, if there was one, says nothing */
			t->m[k] = (struct meas){.status = MEAS_INFEASIBLE, .threads = t->m[k].threads};
		else if (t->m[k].status == MEAS_OK && done)
			meas_summarize(t->ns + (int64_t)k * t->rounds, done, &t->m[k]);
	return E_OK;
}

enum { MEASURED_MOST = 3 };

/* Measures once more if the device began or ceased to throttle meanwhile, and there is time; marks the times
 * of the last try if it did so then, too. */
static int measure_steadily(struct timing *t, int64_t abort_ns)
{
	struct gpu_state before = GPU_STATE_NONE, after = GPU_STATE_NONE;
	struct gpu_watch *gpu = t->l->gpu;
	for (int i = 1;; i++) {
		int64_t start_ns = clock_now(t->l->base.clock);
		for (int k = 0; k < t->n; k++)
			t->m[k] = (struct meas){.status = MEAS_OK, .threads = t->l->base.threads};
		if (gpu)
			gpu_watch_read(gpu, &before);
		int rc = measure(t, abort_ns);
		if (gpu)
			gpu_watch_read(gpu, &after);
		const char *taint = gpu_state_taint(&before, &after);
		int64_t now_ns = clock_now(t->l->base.clock);
		bool last = i == MEASURED_MOST || now_ns - start_ns > (t->deadline_ns - now_ns) / 2;
		if (rc < 0 || !taint)
			return rc;
		log_more("kernels %s: %s", last ? "keep times that are not comparable" : "are timed again",
			 taint);
		for (int k = 0; k < t->n && last; k++)
			t->m[k].throttled = t->m[k].status == MEAS_OK;
		if (last)
			return rc;
	}
}

/* Keeps the calling thread on one cpu while timing: the pool's first, or the present one. */
static bool hold_cpu(const struct local *l, cpu_set_t *old)
{
	cpu_set_t one;
	int cpu = l->cpu >= 0 ? l->cpu : sched_getcpu();
	if (l->base.clock != &clock_real || cpu < 0 || cpu >= CPU_SETSIZE ||
	    sched_getaffinity(0, sizeof *old, old) < 0)
		return false;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	return sched_setaffinity(0, sizeof one, &one) == 0;
}

static int with_machine_ready(struct timing *t, int64_t abort_ns)
{
	int32_t mhz, mc, mhz_after, mc_after;
	cpu_set_t old;
	int rc = t->cold ? make_cold(t) : E_OK;
	if (rc >= 0) {
		bool held = hold_cpu(t->l, &old);
		unsigned fpu = fpu_flush();
		read_state(t->l, &mhz, &mc);
		if (t->pool)
			pool_begin(t->pool);
		rc = measure_steadily(t, abort_ns);
		if (t->pool)
			pool_end(t->pool);
		read_state(t->l, &mhz_after, &mc_after);
		fpu_restore(fpu);
		if (held)
			(void)sched_setaffinity(0, sizeof old, &old);
		for (int k = 0; k < t->n; k++) {
			t->m[k].mhz_before = mhz;
			t->m[k].mhz_after = mhz_after;
			t->m[k].mc_before = mc;
			t->m[k].mc_after = mc_after;
		}
	}
	return rc;
}

int local_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns, unsigned how,
	       int64_t deadline_ns, struct meas *m)
{
	struct local *l = (struct local *)r;
	if (n < 0 || n > 4096 || rounds < 0 || rounds > 1000000)
		return fail(E_USAGE, "%d kernels in %d rounds cannot be timed", n, rounds);
	arena_reset(&l->arena);
	struct timing t = {.l = l,
			   .pool = l->pool,
			   .cold = how & TIME_COLD && !l->unit,
			   .part = how & TIME_PART && !l->pool && !l->unit,
			   .deadline_ns = deadline_ns,
			   .n = n,
			   .rounds = rounds,
			   .at = -1};
	t.m = m;
	t.order = ARENA_ARRAY(&l->arena, int, n);
	t.repeats = ARENA_ARRAY(&l->arena, int, n);
	t.b = ARENA_ARRAY(&l->arena, struct local_built *, n);
	t.ns = arena_try(&l->arena, (size_t)n * (size_t)rounds, sizeof *t.ns);
	if (!t.ns)
		return E_NOMEM;
	for (int k = 0; k < n; k++) {
		if (handles[k] < 0 || handles[k] >= l->cap || !l->built[handles[k]])
			return fail(E_USAGE, "handle %d is not a built candidate", handles[k]);
		t.b[k] = l->built[handles[k]];
		m[k] = (struct meas){.status = MEAS_OK, .threads = r->threads};
	}
	int rc = with_machine_ready(&t, abort_ns);
	if (rc == E_CHILD)
		meas_blame(m, n, t.at, MEAS_CRASH);
	return rc;
}
