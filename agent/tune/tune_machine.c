/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that a box tunes for: the processor, or a device and the processor beside it. */
#include "agent/tune/tune_parts.h"

#include "agent/cache/share_kept.h"
#include "agent/run/plan_device.h"
#include "agent/worker/device.h"
#include "agent/worker/hire.h"
#include "platform/machine/board.h"
#include "platform/run/device_name.h"

/* from this length of a box on, a quarter of a second for measuring the peaks is well spent */
#define PEAKS_AGAIN_NS (10 * NS_PER_S)
#define DEVICE_AGAIN_NS (60 * NS_PER_S)  /* the same for a device, which takes two seconds */
#define PEAKS_FROM_NS (1200 * NS_PER_MS) /* with less time left, rough peaks must do, */
#define QUICK_FROM_NS (200 * NS_PER_MS)  /* or none at all */

/* Measures the machine's peaks, as well as the time allows. */
static int measure_target(struct session *s, bool known, bool quiet)
{
	bool fresh = target_is_fresh(s->store.dir); /* another job has just measured the peaks */
	int64_t left_ns = tune_left_ns(s);
	if (s->o->unkept && left_ns >= PEAKS_FROM_NS)
		return known ? E_OK : target_measure(&s->target, s->clock); /* no file keeps them */
	if (left_ns < PEAKS_FROM_NS)
		return known || left_ns < QUICK_FROM_NS ? E_OK : target_quick(&s->target, s->clock);
	int rc = target_kept(s->store.dir, s->clock, &s->target);
	if (rc >= 0 && quiet && s->o->budget_ns >= PEAKS_AGAIN_NS && !fresh)
		rc = target_measure_again(s->store.dir, s->clock, &s->target);
	return rc;
}

/* Measures the machine's peaks if they are not known, while no other job measures. */
static int measure_leased(struct session *s)
{
	const char *taint;
	bool known = target_recall(s->store.dir, &s->target);
	if (known && s->o->budget_ns < PEAKS_AGAIN_NS)
		return E_OK;
	int leased = leash_lease(s->store.leash, LEASE_QUIET, s->until.end_ns);
	int rc = measure_target(s, known, leased >= 0);
	return leased < 0 || rc < 0 ? rc : leash_release(s->store.leash, &taint);
}

/* Speeds are measured of the caches that are known. */
static int know_target(struct session *s)
{
	board_fill_host(&s->target);
	return measure_leased(s);
}

/* The same for a device, whose target is known. */
static int know_device(struct session *s)
{
	const char *taint, *dir = s->o->unkept ? "" : s->store.dir;
	bool known = s->target.fma_gflops > 0;
	bool doubted = device_is_doubted(s->o->device, dir) && s->o->budget_ns >= PEAKS_AGAIN_NS;
	if (known && !doubted &&
	    (!*dir || s->o->budget_ns < DEVICE_AGAIN_NS || device_is_fresh(s->o->device, dir)))
		return E_OK;
	int leased = leash_lease(s->store.leash, LEASE_QUIET, s->until.end_ns);
	int rc = leased < 0 ? leased : device_measure(s->o->device, s->o->worker, dir, &s->target);
	if (known && rc == E_CHILD)
		rc = E_OK; /* its known peaks serve */
	return leased < 0 || rc < 0 ? rc : leash_release(s->store.leash, &taint);
}

int tune_machine_name(struct session *s)
{
	int rc = target_host(&s->target);
	if (rc >= 0)
		rc = tune_leash_open(s);
	if (rc >= 0 && s->o->device)
		rc = device_target(s->o->device, s->o->worker, s->o->unkept ? "" : s->store.dir, &s->target);
	s->report->leashed = rc >= 0 && leash_held(s->store.leash);
	s->report->cache = arena_strdup(s->a, s->store.dir);
	s->report->target =
	    arena_printf(s->a, "%s %s, %d lanes", s->target.soc, s->target.isa, s->target.lanes);
	return rc;
}

/* No cache folder is made for what no worker could find. Where there is one, its kernels may be all that a
 * box needs. */
static int find_worker(const struct session *s)
{
	struct hire h;
	return s->o->unkept || file_is_dir(s->store.dir) ? E_OK : hire_find(&h, s->o->worker);
}

int tune_device_open(struct session *s)
{
	if (!s->o->device || s->device)
		return E_OK;
	int64_t start_ns = clock_now(s->clock);
	s->sole = device_is_sole(s->o->device);
	int rc = plan_device_open(s->o->device, &s->device);
	int64_t took_ns = clock_now(s->clock) - start_ns;
	s->device_ns = took_ns > s->device_ns ? took_ns : s->device_ns;
	return rc;
}

void tune_device_leave(struct session *s)
{
	if (!s->sole)
		return;
	plan_device_close(s->device);
	s->device = NULL;
}

int tune_machine_open(struct session *s)
{
	tune_publish(s, 0);
	int rc = find_worker(s);
	if (rc >= 0)
		rc = tune_cache_open(s);
	s->report->cache = arena_strdup(s->a, s->store.dir);
	tune_publish(s, 0);
	if (rc >= 0)
		rc = s->o->device ? know_device(s) : know_target(s);
	if (rc >= 0)
		rc = tune_device_open(s);
	if (rc >= 0)
		share_kept_get(s->store.dir, target_key(&s->target), s->a, &s->share);
	if (rc >= 0)
		rc = pool_open(&s->pool, s->o->host_threads ? s->o->host_threads : s->o->threads, s->o->cpus);
	return rc < 0 ? rc : until_check();
}
