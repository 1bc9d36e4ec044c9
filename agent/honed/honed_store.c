/* SPDX-License-Identifier: Apache-2.0 */
/* Commits of what jobs put into the cache, and the limit of bytes written in a day. */
#include "agent/honed/honed_parts.h"

#include <inttypes.h>
#include <stdio.h>

#define GATHER_NS NS_PER_S        /* from a put to a commit that nobody asked for */
#define PREPARE_NS (8 * NS_PER_S) /* until then the speed of the flash should be known */
enum { SYNCS = 2 /* of a commit: code first, then records */ };
/* pause between such commits, in multiples of the last one's time, because the flash is the robot's */
enum { RESIDENT_REST = 9 };

/* Begins a commit for everybody who waits for the next one. */
static void begin(struct honed *h)
{
	h->committing = true;
	h->writes = h->unsaved;
	h->unsaved = false;
	h->commit_since_ns = h->now_ns;
	h->ticket++;
	for (int i = 0; i < HONED_JOBS; i++) {
		struct honed_job *j = &h->job[i];
		j->writes = j->puts;
		j->puts = false;
		if (j->commit.is && !j->ticket)
			j->ticket = h->ticket;
	}
	h->sync.writes = h->sync.puts;
	h->sync.puts = false;
	if (h->sync.ask.is && !h->sync.ticket)
		h->sync.ticket = h->ticket;
	honed_act(h, &(struct honed_action){.kind = HA_COMMIT, .ticket = h->ticket});
}

static bool somebody_searches(const struct honed *h)
{
	for (int i = 0; i < HONED_JOBS; i++)
		if (h->job[i].ours && job_lives(&h->job[i]) && !h->job[i].commit.is && !h->job[i].done)
			return true;
	return false;
}

/* The jobs of a box ask for their last commits shortly one after the other, and there is time for only one:
 * it waits for the other jobs, as long as the time reserved for it allows (boot_tell_ns). */
static int64_t last_commit_ns(const struct honed *h)
{
	bool gathers = h->o.mode == HONED_BOX && h->leaving && somebody_searches(h);
	return gathers ? h->leave_ns + h->commit_ns / 8 : h->now_ns;
}

void store_commit(struct honed *h, struct honed_job *j)
{
	if (j)
		j->ticket = 0;
	if (!h->committing && last_commit_ns(h) <= h->now_ns)
		begin(h);
}

void store_unsaved(struct honed *h, struct honed_job *j)
{
	*(j ? &j->puts : &h->sync.puts) = true;
	if (!h->unsaved && h->commit_at_ns < h->now_ns + GATHER_NS)
		h->commit_at_ns = h->now_ns + GATHER_NS;
	h->unsaved = true;
}

/* When to commit unasked; NEVER: with the next commit that somebody asks for. */
static int64_t own_commit_ns(const struct honed *h)
{
	if (!h->unsaved || h->committing || h->leaving || h->store_error[0])
		return NEVER;
	int64_t at = h->commit_at_ns > h->now_ns ? h->commit_at_ns : h->now_ns;
	if (h->prepare_ns && at < h->prepare_ns + PREPARE_NS)
		at = h->prepare_ns + PREPARE_NS;
	return h->o.mode == HONED_BOX && at + h->commit_ns > boot_tell_ns(h) ? NEVER : at;
}

int64_t store_today(const struct honed *h)
{
	return h->written_bytes - h->day_bytes;
}

static bool over_limit(const struct honed *h)
{
	return h->conf->writes_bytes > 0 && store_today(h) >= h->conf->writes_bytes;
}

bool store_lets_start(const struct honed *h, const char **why)
{
	*why = over_limit(h) ? "what may be written to flash in a day is written; tuning goes on tomorrow"
	       : h->store_error[0] ? h->store_error
				   : NULL;
	return !over_limit(h) && (!h->store_error[0] || h->store_until_ns <= h->now_ns);
}

/* Starts no jobs for a while, because what they found could not be kept. */
static void failed(struct honed *h, const char *text)
{
	bool known = h->store_error[0] && h->now_ns < h->store_until_ns;
	h->unsaved = true;
	snprintf(h->store_error, sizeof h->store_error, "%s", text);
	if (known) /* this pause has begun already: another commit was under way */
		return;
	h->store_step_ns = h->store_step_ns ? 2 * h->store_step_ns : STORE_PAUSE_NS;
	if (h->store_step_ns > PAUSE_MOST_NS)
		h->store_step_ns = PAUSE_MOST_NS;
	h->store_until_ns = h->now_ns + h->store_step_ns;
	honed_log(h, 0, "the cache cannot be written: %s; again in %lld s", text,
		  (long long)(h->store_step_ns / NS_PER_S));
}

/* Marks those whose records were in the lost commit: they could not know it from a later commit's answer. */
static void lose(struct honed *h)
{
	for (int i = 0; i < HONED_JOBS; i++)
		h->job[i].lost |= h->job[i].writes;
	h->sync.lost |= h->sync.writes;
}

static void answer(struct honed *h, int client, struct ask *commit, bool lost, const struct honed_event *e,
		   const char *text)
{
	char more[48];
	snprintf(more, sizeof more, "\"generation\":%" PRIu64, e->generation);
	if (e->rc < 0)
		client_bad(h, client, commit, e->rc, text);
	else if (lost)
		client_bad(h, client, commit, E_IO,
			   "commit: not all that was put could be kept; the log of honed says why");
	else
		client_good(h, client, commit, more);
	commit->is = false;
}

static void answer_all(struct honed *h, const struct honed_event *e, const char *text)
{
	for (int i = 0; i < HONED_JOBS; i++) {
		struct honed_job *j = &h->job[i];
		if (!j->commit.is || j->ticket != e->ticket)
			continue;
		answer(h, j->client, &j->commit, j->lost, e, text);
		j->heard_ns = h->now_ns;
		if (j->kill_ns && !j->killed && j->kill_ns < h->now_ns + STOP_NS)
			j->kill_ns = h->now_ns + STOP_NS;
	}
	if (h->sync.ask.is && h->sync.ticket == e->ticket)
		answer(h, h->sync.client, &h->sync.ask, h->sync.lost, e, text);
}

/* The estimate falls by a quarter at most after a fast commit, because flash stalls now and then. */
static void ended(struct honed *h)
{
	int64_t took_ns = h->now_ns - h->commit_since_ns, rest = h->o.mode == HONED_BOX ? 1 : RESIDENT_REST;
	h->committing = false;
	if (h->writes)
		h->commit_ns = took_ns > h->commit_ns * 3 / 4 ? took_ns : h->commit_ns * 3 / 4;
	h->commit_at_ns = h->now_ns + (rest * took_ns > GATHER_NS ? rest * took_ns : GATHER_NS);
}

static bool is_waited_for(const struct honed *h)
{
	for (int i = 0; i < HONED_JOBS; i++)
		if (h->job[i].commit.is && !h->job[i].ticket)
			return true;
	return h->sync.ask.is && !h->sync.ticket;
}

void store_event(struct honed *h, const struct honed_event *e)
{
	const char *text = e->text ? e->text : "the cache gave no reason";
	if (!e->ticket) { /* the answer to HA_PREPARE */
		h->prepare_ns = 0;
		h->commit_ns = h->commit_ns ? h->commit_ns : SYNCS * e->sync_ns;
		return;
	}
	ended(h);
	if (e->written_bytes > h->written_bytes)
		h->written_bytes = e->written_bytes;
	if (e->rc < 0) {
		failed(h, text);
		if (e->lost)
			lose(h);
	} else {
		h->generation = e->generation;
		h->store_error[0] = 0;
		h->store_step_ns = 0;
	}
	answer_all(h, e, text);
	honed_changed(h);
}

void store_tick(struct honed *h)
{
	if (h->now_ns / DAY_NS != h->day) {
		h->day = h->now_ns / DAY_NS;
		h->day_bytes = h->written_bytes;
	}
	bool again = h->store_error[0] && h->store_until_ns <= h->now_ns && !h->committing && !h->leaving;
	if (again || own_commit_ns(h) <= h->now_ns || is_waited_for(h))
		store_commit(h, NULL);
}

int64_t store_next(const struct honed *h)
{
	int64_t at = over_limit(h) ? (h->day + 1) * DAY_NS : NEVER;
	if (h->store_error[0] && !h->committing && !h->leaving)
		sooner(&at, h->store_until_ns);
	sooner(&at, own_commit_ns(h));
	if (is_waited_for(h) && !h->committing)
		sooner(&at, last_commit_ns(h));
	return at;
}
