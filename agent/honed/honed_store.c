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

/* Calls fn for what each job, and the connection that syncs, waits to be committed. */
static void each_saving(struct honed *h, void (*fn)(struct honed *h, struct saving *s))
{
	for (int i = 0; i < HONED_JOBS; i++)
		fn(h, &h->job[i].saving);
	fn(h, &h->commits.sync);
}

static void saving_begin(struct honed *h, struct saving *s)
{
	s->writes = s->puts;
	s->puts = s->wins = false;
	if (s->ask.is && !s->ticket)
		s->ticket = h->commits.ticket;
}

/* Begins a commit for all that wait for the next one. */
static void begin(struct honed *h)
{
	h->commits.under_way = true;
	h->commits.writes = h->commits.unsaved;
	h->commits.unsaved = false;
	h->commits.since_ns = h->now_ns;
	h->commits.ticket++;
	for (int i = 0; i < HONED_JOBS; i++)
		if (h->job[i].saving.wins && job_serves(h, &h->job[i]))
			model_opened(h, h->job[i].model);
	each_saving(h, saving_begin);
	honed_act(h, &(struct honed_action){.kind = HA_COMMIT, .ticket = h->commits.ticket});
}

static bool somebody_searches(const struct honed *h)
{
	for (int i = 0; i < HONED_JOBS; i++)
		if (h->job[i].ours && job_lives(&h->job[i]) && !h->job[i].saving.ask.is &&
		    !h->job[i].progress.done)
			return true;
	return false;
}

/* The jobs of a box ask for their last commits shortly one after the other, and there is time for only one:
 * it waits for the other jobs, as long as the time reserved for it allows (boot_tell_ns). */
static int64_t last_commit_ns(const struct honed *h)
{
	bool gathers = h->o.mode == HONED_BOX && h->leaving && somebody_searches(h);
	return gathers ? h->leave_ns + h->commits.takes_ns / 8 : h->now_ns;
}

void store_commit(struct honed *h, struct saving *s)
{
	if (s)
		s->ticket = 0;
	if (!h->commits.under_way && last_commit_ns(h) <= h->now_ns)
		begin(h);
}

void store_unsaved(struct honed *h, struct saving *s)
{
	s->puts = true;
	if (!h->commits.unsaved && h->commits.at_ns < h->now_ns + GATHER_NS)
		h->commits.at_ns = h->now_ns + GATHER_NS;
	h->commits.unsaved = true;
}

/* When to commit unasked; NEVER: with the next commit that somebody asks for. */
static int64_t own_commit_ns(const struct honed *h)
{
	if (!h->commits.unsaved || h->commits.under_way || h->leaving || h->commits.error[0])
		return NEVER;
	int64_t at = h->commits.at_ns > h->now_ns ? h->commits.at_ns : h->now_ns;
	if (h->commits.prepare_ns && at < h->commits.prepare_ns + PREPARE_NS)
		at = h->commits.prepare_ns + PREPARE_NS;
	return h->o.mode == HONED_BOX && at + h->commits.takes_ns > boot_tell_ns(h) ? NEVER : at;
}

int64_t store_written(const struct honed *h)
{
	return h->commits.written_bytes + h->commits.marks_bytes;
}

int64_t store_today(const struct honed *h)
{
	return store_written(h) - h->commits.day_bytes;
}

static bool over_limit(const struct honed *h)
{
	return h->conf->writes_bytes > 0 && store_today(h) >= h->conf->writes_bytes;
}

bool store_lets_start(const struct honed *h, const char **why)
{
	*why = over_limit(h)
		   ? "what may be written to flash in a day is written; tuning goes on within 24 hours"
	       : h->commits.error[0] ? h->commits.error
				     : NULL;
	return !*why;
}

/* Takes what the cache has now; if records are gone, says which. */
static void hold(struct honed *h, const struct honed_event *e)
{
	char what[80] = "nothing that can be read";
	if (e->lacks && inventory_is_known(e->holds))
		inventory_say(&h->models.marks.cache, e->holds, what, sizeof what);
	marks_hold(h, e->holds);
	if (!e->lacks)
		return;
	honed_log(h, 1, CACHE_LACKS, h->o.cache ? h->o.cache : "in memory", what);
	models_lack(h, e->ticket);
}

/* Starts no jobs for a while, because what they found could not be kept. A box hardly ever has the time to
 * try again. */
static void failed(struct honed *h, const char *text)
{
	bool known = h->commits.error[0] && h->now_ns < h->commits.until_ns;
	h->commits.unsaved = true;
	snprintf(h->commits.error, sizeof h->commits.error, "%s", text);
	if (known) /* this pause has begun already: another commit was under way */
		return;
	h->commits.step_ns = h->commits.step_ns ? 2 * h->commits.step_ns : STORE_PAUSE_NS;
	if (h->commits.step_ns > PAUSE_MOST_NS)
		h->commits.step_ns = PAUSE_MOST_NS;
	h->commits.until_ns = h->now_ns + h->commits.step_ns;
	if (h->o.mode == HONED_BOX)
		honed_log(h, 0, "cannot write the cache: %s", text);
	else
		honed_log(h, 0, "cannot write the cache: %s; honed tries again in %lld s", text,
			  (long long)(h->commits.step_ns / NS_PER_S));
}

/* Marks those whose records were in the lost commit: they could not know it from a later commit's answer. */
static void saving_lose(struct honed *h, struct saving *s)
{
	(void)h;
	s->lost |= s->writes;
}

/* True: this commit is the one that s waits for. */
static bool answer(struct honed *h, int client, struct saving *s, const struct honed_event *e,
		   const char *text)
{
	if (!s->ask.is || s->ticket != e->ticket)
		return false;
	char more[48];
	snprintf(more, sizeof more, "\"generation\":%" PRIu64, e->generation);
	if (e->rc < 0)
		client_bad(h, client, &s->ask, e->rc, text);
	else if (s->lost)
		client_bad(h, client, &s->ask, E_IO,
			   "commit: some records could not be kept; the log of honed says why");
	else
		client_good(h, client, &s->ask, more);
	s->ask.is = false;
	return true;
}

static void answer_all(struct honed *h, const struct honed_event *e, const char *text)
{
	for (int i = 0; i < HONED_JOBS; i++) {
		struct honed_job *j = &h->job[i];
		if (!answer(h, j->client, &j->saving, e, text))
			continue;
		j->heard_ns = h->now_ns;
		if (j->ending.kill_ns && !j->ending.killed && j->ending.kill_ns < h->now_ns + STOP_NS)
			j->ending.kill_ns = h->now_ns + STOP_NS;
	}
	answer(h, h->commits.sync_client, &h->commits.sync, e, text);
}

/* The estimate falls by a quarter at most after a fast commit, because flash stalls now and then. */
static void ended(struct honed *h)
{
	int64_t took_ns = h->now_ns - h->commits.since_ns, rest = h->o.mode == HONED_BOX ? 1 : RESIDENT_REST;
	h->commits.under_way = false;
	if (h->commits.writes)
		h->commits.takes_ns =
		    took_ns > h->commits.takes_ns * 3 / 4 ? took_ns : h->commits.takes_ns * 3 / 4;
	h->commits.at_ns = h->now_ns + (rest * took_ns > GATHER_NS ? rest * took_ns : GATHER_NS);
}

static bool is_waited_for(const struct honed *h)
{
	for (int i = 0; i < HONED_JOBS; i++)
		if (h->job[i].saving.ask.is && !h->job[i].saving.ticket)
			return true;
	return h->commits.sync.ask.is && !h->commits.sync.ticket;
}

void store_retry(struct honed *h)
{
	h->commits.step_ns = 0;
	h->commits.until_ns = h->now_ns;
}

void store_event(struct honed *h, const struct honed_event *e)
{
	const char *text = e->text ? e->text : "the cache gave no reason";
	if (e->holds)
		hold(h, e);
	if (!e->ticket) { /* the answer to HA_PREPARE, or the driver looked */
		h->commits.prepare_ns = 0;
		h->commits.takes_ns = h->commits.takes_ns ? h->commits.takes_ns : SYNCS * e->sync_ns;
		if (e->rc < 0)
			failed(h, text);
		return;
	}
	ended(h);
	if (e->written_bytes > h->commits.written_bytes)
		h->commits.written_bytes = e->written_bytes;
	if (e->rc < 0) {
		failed(h, text);
		if (e->lost)
			each_saving(h, saving_lose);
	} else {
		h->commits.generation = e->generation;
		h->commits.error[0] = 0;
		h->commits.step_ns = 0;
	}
	answer_all(h, e, text);
	honed_changed(h);
}

void store_tick(struct honed *h)
{
	if (h->now_ns / DAY_NS != h->commits.day) {
		h->commits.day = h->now_ns / DAY_NS;
		h->commits.day_bytes = store_written(h);
	}
	bool again =
	    h->commits.error[0] && h->commits.until_ns <= h->now_ns && !h->commits.under_way && !h->leaving;
	if (again || own_commit_ns(h) <= h->now_ns || is_waited_for(h))
		store_commit(h, NULL);
}

int64_t store_next(const struct honed *h)
{
	int64_t at = over_limit(h) ? (h->commits.day + 1) * DAY_NS : NEVER;
	if (h->commits.error[0] && !h->commits.under_way && !h->leaving)
		sooner(&at, h->commits.until_ns);
	sooner(&at, own_commit_ns(h));
	if (is_waited_for(h) && !h->commits.under_way)
		sooner(&at, last_commit_ns(h));
	return at;
}
