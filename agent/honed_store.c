/* SPDX-License-Identifier: Apache-2.0 */
/* What jobs put into the cache: when it is durable, and how much of it a day may have. */
#include "agent/honed_parts.h"

#include <inttypes.h>
#include <stdio.h>

void store_commit(struct honed *h, struct job *j)
{
	if (!h->commits)
		h->commit_since_ns = h->now_ns;
	h->ticket++;
	h->commits++;
	h->unsaved = false;
	if (j)
		j->ticket = h->ticket;
	honed_act(h, &(struct honed_action){.kind = HA_COMMIT, .ticket = h->ticket});
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

/* Nothing is started for a while: what it would find could not be kept. */
static void failed(struct honed *h, const char *text)
{
	bool known = h->store_error[0] && h->now_ns < h->store_until_ns;
	h->unsaved = true;
	snprintf(h->store_error, sizeof h->store_error, "%s", text);
	if (known) /* another one that was under way */
		return;
	h->store_step_ns = h->store_step_ns ? 2 * h->store_step_ns : STORE_PAUSE_NS;
	if (h->store_step_ns > PAUSE_MOST_NS)
		h->store_step_ns = PAUSE_MOST_NS;
	h->store_until_ns = h->now_ns + h->store_step_ns;
	honed_log(h, 0, "the cache cannot be written: %s; again in %lld s", text,
		  (long long)(h->store_step_ns / NS_PER_S));
}

static void answer(struct honed *h, struct job *j, const struct honed_event *e, const char *text)
{
	char more[48];
	snprintf(more, sizeof more, "\"generation\":%" PRIu64, e->generation);
	if (e->rc < 0)
		client_bad(h, j->client, &j->commit, e->rc, text);
	else
		client_good(h, j->client, &j->commit, more);
	j->commit.is = false;
	j->heard_ns = h->now_ns;
}

void store_event(struct honed *h, const struct honed_event *e)
{
	const char *text = e->text ? e->text : "the cache gave no reason";
	if (h->commits)
		h->commits--;
	h->commit_ns = h->now_ns - h->commit_since_ns;
	h->commit_since_ns = h->now_ns; /* of the next under way */
	if (e->written_bytes > h->written_bytes)
		h->written_bytes = e->written_bytes;
	if (e->rc < 0) {
		failed(h, text);
	} else {
		h->generation = e->generation;
		h->store_error[0] = 0;
		h->store_step_ns = 0;
	}
	for (int i = 0; i < HONED_JOBS; i++)
		if (h->job[i].commit.is && h->job[i].ticket == e->ticket)
			answer(h, &h->job[i], e, text);
	honed_changed(h);
}

void store_tick(struct honed *h)
{
	if (h->now_ns / DAY_NS != h->day) {
		h->day = h->now_ns / DAY_NS;
		h->day_bytes = h->written_bytes;
	}
	if (h->store_error[0] && h->store_until_ns <= h->now_ns && !h->commits && !h->leaving)
		store_commit(h, NULL);
}

int64_t store_next(const struct honed *h)
{
	int64_t at = over_limit(h) ? (h->day + 1) * DAY_NS : NEVER;
	if (h->store_error[0] && !h->commits && !h->leaving)
		sooner(&at, h->store_until_ns);
	return at;
}
