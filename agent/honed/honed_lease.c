/* SPDX-License-Identifier: Apache-2.0 */
/* Leases. A compute lease is shared; a measure lease excludes all others on the same processors and on the
 * same device. A quiet lease of a job of the processor excludes all others; one of a job of another device
 * excludes those, and all measurements (control.h says why). The policy chooses which of the jobs that wait
 * for an exclusive lease is next. A job that can be stopped is stopped while an exclusive lease of another
 * job excludes it, so nobody waits for its compiler. A job that cannot be stopped is waited for: meanwhile
 * compute leases that would be in the way are granted only to jobs that have waited for LONG_NS. Because each
 * such wait leaves the machine idle, a job that had all of it may have it again first for LINGER_NS: a race
 * is several calls. */
#include "agent/honed/honed_parts.h"

#include <stdio.h>
#include <string.h>

#define LINGER_NS (2 * NS_PER_MS)
#define LONG_NS (300 * NS_PER_MS)

struct claim { /* what a job holds or wants of the machine */
	enum lease kind;
	uint64_t cpus;
	const char *device;
};

static struct claim claim_of(const struct honed_job *j, enum lease kind)
{
	return (struct claim){kind, j->cpus, j->device};
}

static bool exclusive(enum lease kind)
{
	return kind == LEASE_MEASURE || kind == LEASE_QUIET;
}

static bool is_cpu(struct claim c)
{
	return device_is_processor(c.device);
}

/* Whether b would change what a measures. */
static bool disturbs(struct claim a, struct claim b)
{
	if (a.kind == LEASE_QUIET && (is_cpu(a) || exclusive(b.kind)))
		return true;
	bool same = !is_cpu(a) && !strcmp(a.device, b.device);
	return exclusive(a.kind) && ((a.cpus & b.cpus) || same);
}

static bool conflict(struct claim a, struct claim b)
{
	return a.kind && b.kind && (disturbs(a, b) || disturbs(b, a));
}

static struct claim wanted(const struct honed_job *j)
{
	return claim_of(j, j->lease.wants);
}

static bool can_hush(const struct honed_job *j)
{
	return j->hushed.can && j->ours && j->state == JOB_RUNNING && !j->ending.killed;
}

static bool held_against(const struct honed *h, const struct honed_job *j)
{
	for (int i = 0; i < HONED_JOBS; i++) {
		const struct honed_job *o = &h->job[i];
		if (o == j || !o->state || (o->lease.held == LEASE_COMPUTE && can_hush(o)))
			continue;
		if (conflict(wanted(j), claim_of(o, o->lease.held)))
			return true;
	}
	return false;
}

static bool waits(const struct honed_job *j)
{
	return j->state == JOB_RUNNING && j->lease.wants && !j->resting.state && !j->ending.kill_ns &&
	       !j->lease.release.is;
}

/* Whether an exclusive lease of another job excludes it, with or without a lease of its own: a job without a
 * lease uses processors, too. */
static bool excluded(const struct honed *h, const struct honed_job *j)
{
	for (int i = 0; i < HONED_JOBS; i++) {
		const struct honed_job *o = &h->job[i];
		if (o != j && o->state && exclusive(o->lease.held) &&
		    conflict(claim_of(j, LEASE_COMPUTE), claim_of(o, o->lease.held)))
			return true;
	}
	return false;
}

static void hush(struct honed *h)
{
	for (int i = 0; i < HONED_JOBS; i++) {
		struct honed_job *j = &h->job[i];
		if (!j->state || (!j->hushed.is && !can_hush(j)))
			continue;
		bool was = j->hushed.is;
		j->hushed.is = can_hush(j) && excluded(h, j);
		if (was && !j->hushed.is) {
			j->hushed.total_ns += h->now_ns - j->hushed.at_ns;
			j->heard_ns = h->now_ns;
		}
		if (was != j->hushed.is)
			j->hushed.at_ns = h->now_ns;
		job_settle(h, j);
	}
}

static void grant(struct honed *h, struct honed_job *j)
{
	j->lease.held = j->lease.wants;
	j->lease.wants = LEASE_NONE;
	j->lease.held_ns = j->heard_ns = h->now_ns;
	j->lease.pass = j->lease.taken = false;
	j->lease.taint[0] = 0;
	j->lease.before = h->look.glance;
	h->counts.grants[j->lease.held]++;
	j->lease.grants++;
	if (exclusive(j->lease.held))
		hush(h); /* stop the others before this job hears of its lease */
	client_good(h, j->client, &j->lease.ask, NULL);
	j->lease.ask.is = false;
}

static int slot_of(const struct honed *h, const struct honed_job *j)
{
	return (int)(j - h->job);
}

int lease_want(struct honed *h, struct honed_job *j, const struct request *r, const struct ask *ask)
{
	if (j->lease.ask.is || (j->lease.held && !j->lease.taken))
		return fail(E_BUSY, "lease: this job has a lease or waits for one; release it first");
	j->lease.wants = r->lease;
	j->hushed.can = r->stops;
	j->lease.wants_ns = h->now_ns;
	j->lease.ask = *ask;
	j->lease.pass = j->lease.taken = false;
	if (h->lingerer == slot_of(h, j))
		h->linger_ns = LONG_AGO;
	return E_OK;
}

/* Whether the machine is kept for the job that had all of it, because it may want it again at once. */
static bool lingers(const struct honed *h)
{
	return h->now_ns < h->linger_ns;
}

int64_t lease_next(const struct honed *h)
{
	return lingers(h) ? h->linger_ns : NEVER;
}

/* Frees the lease. Jobs that waited for compute for long because of an exclusive one go before the next
 * one. */
static void free_it(struct honed *h, struct honed_job *j)
{
	struct claim was = claim_of(j, j->lease.held);
	j->lease.held = LEASE_NONE;
	if (!exclusive(was.kind))
		return;
	j->lease.measured_ns += h->now_ns - j->lease.held_ns;
	j->lease.measures++;
	for (int i = 0; i < HONED_JOBS; i++) {
		struct honed_job *o = &h->job[i];
		if (waits(o) && o->lease.wants == LEASE_COMPUTE && conflict(wanted(o), was))
			o->lease.pass = h->now_ns - o->lease.wants_ns >= LONG_NS;
	}
	if (was.kind == LEASE_QUIET) {
		h->lingerer = slot_of(h, j);
		h->linger_ns = h->now_ns + LINGER_NS;
	}
}

static void answer(struct honed *h, struct honed_job *j)
{
	struct buf b = {0};
	buf_puts(&b, "\"tainted\":");
	if (j->lease.taint[0])
		control_text(&b, j->lease.taint);
	else
		buf_puts(&b, "false");
	h->counts.tainted += j->lease.taint[0] != 0;
	client_good(h, j->client, &j->lease.release, buf_str(&b));
	buf_free(&b);
	j->lease.release.is = j->lease.taken = false;
	j->lease.taint[0] = 0;
	j->heard_ns = h->now_ns;
	free_it(h, j);
}

void lease_release(struct honed *h, struct honed_job *j, const struct ask *ask)
{
	j->lease.release = *ask;
	if (j->lease.taken || !exclusive(j->lease.held) || j->lease.taint[0]) {
		answer(h, j);
		return;
	}
	if (!h->look.glancing)
		honed_act(h, &(struct honed_action){.kind = HA_GLANCE});
	h->look.glancing = true;
}

void lease_taint(struct honed_job *j, const char *why)
{
	if (j->lease.held && !j->lease.taint[0])
		snprintf(j->lease.taint, sizeof j->lease.taint, "%s", why);
}

void lease_drop(struct honed *h, struct honed_job *j, const char *why)
{
	if (why)
		lease_taint(j, why);
	j->lease.taken = j->lease.taken || j->lease.held;
	if (j->lease.held)
		free_it(h, j);
	if (j->lease.release.is)
		answer(h, j);
	if (!why)
		j->lease.wants = LEASE_NONE;
}

/* A stopped job that goes on uses its processors before it hears that its lease was taken: it needs a compute
 * lease again. */
bool lease_regain(struct honed *h, struct honed_job *j)
{
	if (!j->lease.taken)
		return true;
	enum lease wants = j->lease.wants;
	j->lease.wants = LEASE_COMPUTE;
	bool can = !held_against(h, j);
	j->lease.wants = wants;
	if (!can)
		return false;
	j->lease.held = LEASE_COMPUTE;
	j->lease.held_ns = h->now_ns;
	j->lease.grants++;
	j->lease.taken = false;
	return true;
}

/* Takes the vitals as they are now: a change since an exclusive lease was granted taints that lease. */
void lease_seen(struct honed *h, const struct vitals *v)
{
	h->look.glance = *v;
	h->look.glancing = false;
	for (int i = 0; i < HONED_JOBS; i++) {
		struct honed_job *j = &h->job[i];
		if (!j->state || !exclusive(j->lease.held))
			continue;
		const char *why =
		    j->lease.taint[0] || !j->lease.before.has ? NULL : vitals_taint(&j->lease.before, v);
		if (why)
			snprintf(j->lease.taint, sizeof j->lease.taint, "%s", why);
		if (j->lease.release.is)
			answer(h, j);
	}
}

static struct contender row_of(const struct honed *h, int slot)
{
	const struct honed_job *j = &h->job[slot];
	const struct kept_model *m = j->model >= 0 ? &h->models.list[j->model] : NULL;
	return (struct contender){
	    .id = slot,
	    .priority = m ? m->conf->priority : 0,
	    .order = m ? j->model : HONED_MODELS + j->number % 1000000,
	    .waits_ns = h->now_ns - j->lease.wants_ns,
	    .had_ns = j->lease.measured_ns,
	    .wants_ns = j->lease.measures ? j->lease.measured_ns / j->lease.measures : 0,
	    .ms = j->progress.now_ms > 0 ? j->progress.now_ms
		  : m                    ? m->now_ms
					 : 0,
	    .promise = m ? m->promise : -1,
	    .bare = m && m->bare,
	};
}

/* Grants exclusive leases in the policy's order. A job that cannot have its lease yet is added to `next`, so
 * that no other lease gets in its way. */
static void serve_exclusive(struct honed *h, struct claim *next, int *nnext)
{
	struct contender row[HONED_JOBS];
	int n = 0;
	for (int i = 0; i < HONED_JOBS; i++)
		if (waits(&h->job[i]) && exclusive(h->job[i].lease.wants) &&
		    (!lingers(h) || h->job[i].lease.wants == LEASE_QUIET))
			row[n++] = row_of(h, i);
	while (n) {
		int k = h->policy->lease(row, n);
		struct honed_job *j = &h->job[row[k].id];
		bool in_way = held_against(h, j);
		for (int i = 0; i < *nnext; i++)
			in_way = in_way || conflict(wanted(j), next[i]);
		if (in_way)
			next[(*nnext)++] = wanted(j);
		else
			grant(h, j);
		row[k] = row[--n];
	}
}

/* Whether the machine is kept for a quiet lease that excludes the one that j wants. */
static bool is_kept_from(const struct honed *h, const struct honed_job *j)
{
	const struct honed_job *o = &h->job[h->lingerer];
	return lingers(h) && (!o->state || conflict(wanted(j), claim_of(o, LEASE_QUIET)));
}

static void serve_compute(struct honed *h, bool pass, const struct claim *next, int nnext)
{
	for (int i = 0; i < HONED_JOBS; i++) {
		struct honed_job *j = &h->job[i];
		if (!waits(j) || j->lease.wants != LEASE_COMPUTE || j->lease.pass != pass)
			continue;
		bool in_way = held_against(h, j) || (!pass && !can_hush(j) && is_kept_from(h, j));
		for (int k = 0; k < nnext && !can_hush(j); k++)
			in_way = in_way || conflict(wanted(j), next[k]);
		if (!in_way)
			grant(h, j);
	}
}

void lease_tick(struct honed *h)
{
	struct claim next[HONED_JOBS] = {0};
	int n = 0;
	serve_compute(h, true, next, 0);
	/* Jobs that were passed over and still cannot start go before the next exclusive lease, too. */
	for (int i = 0; i < HONED_JOBS; i++)
		if (waits(&h->job[i]) && h->job[i].lease.pass)
			next[n++] = wanted(&h->job[i]);
	serve_exclusive(h, next, &n);
	serve_compute(h, false, next, n);
	hush(h);
}
