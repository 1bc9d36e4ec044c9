/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at the board, the gate's verdicts, and the inhibits that keep it closed. */
#include "agent/honed/honed_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_LEAST_NS (20 * NS_PER_MS)
#define AGAIN_LEAST_NS (100 * NS_PER_MS)
#define AGAIN_MOST_NS (60 * NS_PER_S)

static struct gate_limits limits_of(const struct honed *h, enum view_kind v)
{
	struct gate_limits l = h->conf->gate;
	if (v == VIEW_HARD) {
		l.load_pct = l.pressure_pct = 100;
		l.from_minute = l.to_minute = 0;
		l.settle_ns = -1;
	}
	return l;
}

/* Sets new limits, and keeps what the gate has seen. */
void gate_reset(struct honed *h)
{
	for (enum view_kind v = VIEW_ALL; v < VIEWS; v++) {
		struct gate fresh = {0};
		struct gate_limits l = limits_of(h, v);
		gate_init(&fresh, &l);
		if (h->look.gate[v].looked)
			h->look.gate[v].limits = fresh.limits;
		else
			h->look.gate[v] = fresh;
	}
}

const char *gate_inhibited(const struct honed *h)
{
	return h->inhibits.n ? h->inhibits.list[0]->why : h->inhibits.file;
}

void gate_vitals(struct honed *h, const struct honed_event *e)
{
	if (!e->vitals)
		return;
	struct gate_look look = {e->vitals, e->own_ns, gate_inhibited(h), e->minute};
	bool was[VIEWS] = {h->look.verdict[VIEW_ALL].open, h->look.verdict[VIEW_HARD].open};
	h->look.vitals = *e->vitals;
	h->look.own_ns = e->own_ns;
	h->look.minute = e->minute;
	if (h->now_ns - h->look.seen_ns > GAP_NS)
		h->look.steady_ns = h->now_ns;
	h->look.seen_ns = h->now_ns;
	if (h->look.asked_ns < h->now_ns - LOOK_NS / 2)
		h->look.asked_ns = h->now_ns;
	for (enum view_kind v = VIEW_ALL; v < VIEWS; v++) {
		enum gate_why why = h->look.verdict[v].why;
		gate_look(&h->look.gate[v], h->now_ns, &look, &h->look.verdict[v]);
		if (was[v] != h->look.verdict[v].open || why != h->look.verdict[v].why)
			honed_changed(h);
	}
	lease_seen(h, e->vitals);
	jobs_rests(h);
}

void gate_glance(struct honed *h, const struct honed_event *e)
{
	if (e->vitals)
		lease_seen(h, e->vitals);
}

/* An inhibit was added or removed: the gate is updated without a look at the board. */
static void heed(struct honed *h)
{
	const char *who = gate_inhibited(h);
	for (enum view_kind v = VIEW_ALL; v < VIEWS; v++) {
		struct gate_verdict *it = &h->look.verdict[v];
		if (who) {
			gate_shut(&h->look.gate[v], h->now_ns);
			it->why = GATE_INHIBITED;
			it->open = it->free_memory = false;
			it->again_ns = AGAIN_MOST_NS;
			snprintf(it->text, sizeof it->text, "inhibited: %.180s", who);
		} else if (it->why == GATE_INHIBITED) {
			it->why = GATE_SETTLING;
			it->again_ns = 0;
			snprintf(it->text, sizeof it->text, "the last inhibit was lifted");
		}
	}
	h->look.asked_ns = who ? h->look.asked_ns : LONG_AGO;
	honed_changed(h);
	jobs_rests(h);
}

void gate_file_inhibit(struct honed *h, const struct honed_event *e)
{
	h->inhibits.file_ns = h->inhibits.file ? h->inhibits.file_ns : h->now_ns;
	free(h->inhibits.file);
	h->inhibits.file = e->text ? strndup(e->text, sizeof h->inhibits.list[0]->why - 1) : NULL;
	heed(h);
}

static int of_user(const struct honed *h, uid_t uid)
{
	int n = 0;
	for (int i = 0; i < h->inhibits.n; i++)
		n += h->inhibits.list[i]->uid == uid;
	return n;
}

/* The last INHIBITS_OF_USER places are for root and our own user, so that the robot's own services can
 * inhibit however many inhibits others have made. */
static struct inhibit *inhibit_new(struct honed *h, uid_t uid, int64_t until_ns)
{
	int most = INHIBITS - (uid != 0 && uid != h->o.uid) * INHIBITS_OF_USER;
	struct inhibit *i = h->inhibits.n < most ? calloc(1, sizeof *i) : NULL;
	if (!i)
		return NULL;
	i->uid = uid;
	i->until_ns = until_ns;
	h->inhibits.list[h->inhibits.n++] = i;
	return i;
}

int inhibit_add(struct honed *h, uid_t uid, const char *why, int64_t ms, const char **name)
{
	if (of_user(h, uid) >= INHIBITS_OF_USER)
		return fail(E_BUSY, "inhibit: user %u already has %d inhibits; hone resume lifts one",
			    (unsigned)uid, INHIBITS_OF_USER);
	int64_t until_ns = ms > 0 ? h->now_ns + ms * NS_PER_MS : NEVER;
	struct inhibit *i = inhibit_new(h, uid, until_ns);
	if (!i)
		return fail(E_BUSY, "inhibit: there are %d inhibits already; hone resume lifts one",
			    h->inhibits.n);
	i->since_ns = h->now_ns;
	snprintf(i->name, sizeof i->name, "%u-%u-%lld", (unsigned)uid, ++h->inhibits.number,
		 until_ns == NEVER ? 0LL : (long long)until_ns);
	snprintf(i->why, sizeof i->why, "%.200s (user %u)", why, (unsigned)uid);
	log_one_line(i->why);
	honed_act(h, &(struct honed_action){.kind = HA_INHIBIT, .name = i->name, .text = i->why});
	honed_log(h, 1, "inhibited: %s", i->why);
	*name = i->name;
	heed(h);
	return E_OK;
}

static void drop(struct honed *h, int k)
{
	struct inhibit *i = h->inhibits.list[k];
	honed_act(h, &(struct honed_action){.kind = HA_INHIBIT, .name = i->name});
	honed_log(h, 1, "an inhibit was lifted: %s", i->why);
	free(i);
	for (h->inhibits.n--; k < h->inhibits.n; k++)
		h->inhibits.list[k] = h->inhibits.list[k + 1];
}

int inhibits_remove(struct honed *h, uid_t uid, bool all, const char *name)
{
	int n = 0;
	for (int k = h->inhibits.n - 1; k >= 0; k--) {
		struct inhibit *i = h->inhibits.list[k];
		if ((!all && i->uid != uid) || (*name && strcmp(i->name, name)))
			continue;
		drop(h, k);
		n++;
	}
	if (n)
		heed(h);
	return n;
}

/* An inhibit file of an earlier honed: its name holds the user and the end. The end is on the same clock,
 * because /run does not outlive a boot. */
void gate_kept(struct honed *h, const struct honed_event *e)
{
	unsigned uid, number;
	long long until;
	char again[64];
	if (!e->name || sscanf(e->name, "%10u-%9u-%18lld", &uid, &number, &until) != 3 || until < 0)
		return;
	snprintf(again, sizeof again, "%u-%u-%lld", uid, number, until);
	if (strcmp(again, e->name) || of_user(h, (uid_t)uid) >= INHIBITS_OF_USER)
		return;
	struct inhibit *i = inhibit_new(h, (uid_t)uid, until ? until : NEVER);
	if (!i)
		return;
	snprintf(i->name, sizeof i->name, "%s", again);
	snprintf(i->why, sizeof i->why, "%.200s", e->text ? e->text : "no reason given");
	log_one_line(i->why);
	if (number > h->inhibits.number)
		h->inhibits.number = number;
	heed(h);
}

/* Load is measured since the look before; after a long gap it says nothing about now. */
bool gate_lets_start(const struct honed *h, enum view_kind v)
{
	if (v == VIEW_ALL && h->look.seen_ns - h->look.steady_ns < STEADY_NS)
		return false;
	return h->look.verdict[v].open && h->now_ns - h->look.seen_ns <= FRESH_NS;
}

static int64_t clamp(int64_t ns, int64_t least_ns, int64_t most_ns)
{
	return ns < least_ns ? least_ns : ns > most_ns ? most_ns : ns;
}

/* Time between two looks; NEVER: none is needed. */
static int64_t look_every(const struct honed *h)
{
	int64_t every = NEVER;
	enum view_kind v;
	if (!h->started || h->leaving)
		return NEVER;
	for (int i = 0; i < HONED_JOBS; i++) {
		const struct honed_job *j = &h->job[i];
		if (job_lives(j) && !j->ending.killed)
			sooner(&every,
			       j->resting.state
				   ? clamp(h->look.verdict[j->view].again_ns, AGAIN_LEAST_NS, NS_PER_S)
				   : clamp(h->look.verdict[j->view].again_ns, LOOK_LEAST_NS, LOOK_NS));
	}
	if (jobs_can_start(h, &v))
		sooner(&every, clamp(h->look.verdict[v].again_ns, AGAIN_LEAST_NS, AGAIN_MOST_NS));
	return every;
}

static void expire(struct honed *h)
{
	int n = h->inhibits.n;
	for (int k = n - 1; k >= 0; k--)
		if (h->inhibits.list[k]->until_ns <= h->now_ns)
			drop(h, k);
	if (n != h->inhibits.n)
		heed(h);
}

void gate_tick(struct honed *h)
{
	expire(h);
	int64_t every = look_every(h);
	if (every == NEVER || h->now_ns - h->look.asked_ns < every)
		return;
	h->look.asked_ns = h->now_ns;
	honed_act(h, &(struct honed_action){.kind = HA_LOOK});
}

int64_t gate_next(const struct honed *h)
{
	int64_t every = look_every(h), at = every == NEVER ? NEVER : h->look.asked_ns + every;
	for (int k = 0; k < h->inhibits.n; k++)
		sooner(&at, h->inhibits.list[k]->until_ns);
	return at;
}

void gate_free(struct honed *h)
{
	for (int k = 0; k < h->inhibits.n; k++)
		free(h->inhibits.list[k]);
	free(h->inhibits.file);
}
