/* SPDX-License-Identifier: Apache-2.0 */
/* The boot box, and how honed ends.
 *
 * marks.unclean counts the boxes in a row that did not reach their end; it is written before the first job of
 * a box starts. Once it reaches conf's `unclean`, boxes do nothing until one of these happens: there is a
 * model whose key no box has met (the model or its options changed), the resident honed serves a model, or
 * somebody runs `hone resume`. */
#include "agent/honed/honed_parts.h"

#include <stdio.h>
#include <string.h>

#define LEAD_NS (600 * NS_PER_MS)  /* a job's own budget ends this long before the box */
#define TELL_NS (400 * NS_PER_MS)  /* jobs are told to stop this long before the end */
#define LEAST_NS NS_PER_S          /* less time than that is not worth a start */
#define VAIN_NS (5 * NS_PER_S)     /* the box ends when nothing could run for so long */
#define LATEST_NS (15 * NS_PER_MS) /* this long after the end, honed leaves even if jobs still live */
#define STORING_NS (10 * NS_PER_S) /* a resident honed that leaves waits so long for its cache */

static int64_t at_most(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t boot_length(const struct honed *h)
{
	return h->o.box_ns - h->opened_ns;
}

/* Time to reserve at the end for the last commit: 9/8 of what commits took, at most 3/8 of the box. */
static int64_t slow_ns(const struct honed *h, int64_t commit_ns)
{
	return at_most(commit_ns / 8 * 9, boot_length(h) * 3 / 8);
}

/* Returns when to tell the jobs to stop, so that the last commit can end in the box. While a commit of
 * unknown length is under way, the last one is given as long as this one can take, and an eighth more. If
 * this one may end too late for that, the jobs are told at once, so that the last commit follows it
 * directly. */
int64_t boot_tell_ns(const struct honed *h)
{
	int64_t end_ns = h->o.box_ns - at_most(TELL_NS, boot_length(h) / 8), least_ns = h->commits.takes_ns;
	if (!h->commits.under_way)
		return end_ns - slow_ns(h, least_ns);
	int64_t may_ns = (end_ns - h->commits.since_ns) / 17 * 8;
	int64_t at = end_ns - slow_ns(h, may_ns > least_ns ? may_ns : least_ns);
	return h->commits.since_ns + least_ns > at ? h->commits.since_ns : at;
}

int64_t boot_left_ns(const struct honed *h)
{
	return h->o.box_ns - h->now_ns - at_most(LEAD_NS, boot_length(h) / 4) -
	       slow_ns(h, h->commits.takes_ns);
}

static int in_need(const struct honed *h)
{
	int n = 0;
	for (int i = 0; i < h->models.n; i++)
		n += h->models.list[i].box && !h->models.list[i].boxed;
	return n;
}

/* As status says it: a model that is served may lack kernels all the same, if they cannot be made now. */
static int without_kernels(const struct honed *h)
{
	int n = 0;
	for (int i = 0; i < h->models.n; i++) {
		const struct kept_model *m = &h->models.list[i];
		n += !m->refused[0] && ((m->box && !m->boxed) || m->missing > 0);
	}
	return n;
}

static const char *refused(const struct honed *h, char *words, size_t n)
{
	int many = 0;
	for (int i = 0; i < h->models.n; i++)
		many += h->models.list[i].refused[0] != 0;
	snprintf(words, n, many ? "; models that cannot be used: %d" : "", many);
	return words;
}

static void left(struct honed *h, int rc)
{
	h->leaving = LEAVE_LEFT;
	honed_act(h, &(struct honed_action){.kind = HA_LEAVE, .rc = rc});
}

static bool anything_new(const struct honed *h)
{
	for (int i = 0; i < h->models.n; i++)
		if (h->models.list[i].box && !h->models.list[i].trying)
			return true;
	return false;
}

static void say(struct honed *h, const char *text)
{
	honed_act(h, &(struct honed_action){.kind = HA_STATUS, .text = text});
}

static void skip(struct honed *h)
{
	char text[200];
	snprintf(text, sizeof text,
		 "the last %d boot boxes were interrupted, so this one is skipped; hone resume makes the "
		 "next one run",
		 h->models.marks.unclean);
	h->models.skips = true;
	honed_log(h, 0, "%s", text);
	say(h, text);
	left(h, E_OK);
}

/* Says why no model needs a box. */
static void say_no_need(const struct honed *h, char *text, size_t n)
{
	int missing = 0, refused = models_count(h, model_is_refused), all = models_count(h, NULL);
	for (int i = 0; i < h->models.n; i++)
		missing += h->models.list[i].missing;
	snprintf(text, n,
		 refused == all && refused ? "no model can be used"
		 : refused                 ? "every other model has %s; %d of %d cannot be used"
					   : "every model has %s",
		 missing ? "the kernels that could be made" : "its kernels", refused, all);
}

void boot_start(struct honed *h)
{
	int all = models_count(h, NULL);
	for (int i = 0; i < h->models.n; i++) {
		struct kept_model *m = &h->models.list[i];
		m->box = m->known && !m->refused[0] && !m->boxed;
	}
	if (!in_need(h)) {
		char text[128];
		say_no_need(h, text, sizeof text);
		honed_log(h, 1, "no box is needed: %s", text);
		say(h, text);
		left(h, E_OK);
	} else if (h->conf->boot_unclean > 0 && h->models.marks.unclean >= h->conf->boot_unclean &&
		   !anything_new(h)) {
		skip(h);
	} else {
		honed_log(h, 1, "a box of %.1f s begins for %d of %d model%s",
			  (double)boot_length(h) / (double)NS_PER_S, all - models_count(h, model_is_served),
			  all, plural_s(all));
	}
}

/* Counts the models that wait for a place on the device: those that need kernels; if there are none, those
 * that promise a gain. */
static int waiting_models(const struct honed *h, const char *device)
{
	int needy = 0, all = 0;
	for (int i = 0; i < h->models.n; i++) {
		bool may =
		    model_may(h, i) && !strcmp(conf_device_name(h->models.list[i].conf->device), device);
		all += may;
		needy += may && h->models.list[i].box && !h->models.list[i].boxed;
	}
	return needy ? needy : all;
}

bool boot_has_time(const struct honed *h)
{
	return !h->leaving && boot_left_ns(h) >= at_most(LEAST_NS, boot_length(h) / 4);
}

int64_t boot_budget(const struct honed *h, const char *device)
{
	int64_t left_ns = boot_left_ns(h);
	int most, places = jobs_places(h, device, &most);
	int waiting = waiting_models(h, device);
	if (waiting > places)
		left_ns = left_ns * most / (waiting + most - places);
	return left_ns;
}

void leave(struct honed *h, const char *why)
{
	char words[48];
	if (h->leaving)
		return;
	h->leaving = LEAVE_ENDING;
	h->leave_ns = h->now_ns;
	h->leave_by_ns = h->now_ns + STOP_NS + STORING_NS;
	if (h->o.mode == HONED_BOX)
		h->leave_by_ns = at_most(h->leave_by_ns, h->o.box_ns + LATEST_NS);
	if (h->o.mode == HONED_BOX)
		honed_log(h, 1, "honed stops: %s; models that still lack kernels: %d%s", why,
			  without_kernels(h), refused(h, words, sizeof words));
	else
		honed_log(h, 1, "honed stops: %s", why);
	for (int i = 0; i < HONED_JOBS; i++) {
		struct honed_job *j = &h->job[i];
		if (j->state && (j->ours || h->o.mode == HONED_BOX)) /* another's goes on without honed */
			job_stop(h, j, END_LEAVING);
	}
	honed_changed(h);
}

static void boxed(struct honed *h)
{
	if (h->o.mode == HONED_BOX && h->models.boxing) {
		h->models.marks.unclean = 0;
		h->models.marks_changed = true;
		for (int i = 0; i < h->models.n; i++)
			h->models.list[i].open = false;
	}
	h->models.marks_changed |= store_today(h) != h->models.marks.day_bytes;
	marks_save(h);
}

/* Waits for the jobs first, then commits what they put, then writes the marks. */
static void leave_on(struct honed *h)
{
	bool late = h->now_ns >= h->leave_by_ns;
	if (h->leaving == LEAVE_ENDING && (!jobs_ours(h) || late)) {
		h->leaving = LEAVE_STORING;
		h->commits.last_due = h->commits.unsaved;
	}
	if (h->leaving == LEAVE_STORING && h->commits.last_due && !h->commits.under_way && !late) {
		h->commits.last_due = false;
		store_commit(h, NULL);
	}
	if (h->leaving == LEAVE_STORING && (!h->commits.under_way || late)) {
		honed_act(h, &(struct honed_action){.kind = HA_METRICS});
		boxed(h);
		left(h, E_OK);
	}
}

/* Whether no job could run for VAIN_NS: the robot does not wait for a board that does not cool down. */
static bool in_vain(struct honed *h)
{
	for (int i = 0; i < HONED_JOBS; i++)
		if (job_lives(&h->job[i]) && !h->job[i].resting.state)
			h->worked_ns = h->now_ns;
	return h->now_ns - h->worked_ns >= VAIN_NS;
}

/* Whether what jobs find cannot be kept before the end of the box. */
static bool has_no_cache(const struct honed *h)
{
	return h->commits.error[0] && h->commits.until_ns >= h->o.box_ns;
}

static bool boot_over(const struct honed *h)
{
	if (h->now_ns >= boot_tell_ns(h))
		return true;
	if (jobs_ours(h))
		return false;
	if (has_no_cache(h))
		return true;
	for (int i = 0; i < h->models.n; i++)
		if (model_when(h, i) < h->o.box_ns)
			return !boot_has_time(h);
	return true;
}

static const char *why_boot_is_over(const struct honed *h)
{
	if (h->now_ns >= boot_tell_ns(h))
		return "the time box is over";
	if (has_no_cache(h))
		return "the cache cannot be written";
	for (int i = 0; i < h->models.n; i++)
		if (model_wants(&h->models.list[i]))
			return "what is left of the time box is too short for another job";
	return "no model needs more of the time box";
}

void boot_tick(struct honed *h)
{
	bool box = h->o.mode == HONED_BOX && h->started && !h->leaving;
	if (box && boot_over(h))
		leave(h, why_boot_is_over(h));
	else if (box && in_vain(h))
		leave(h, h->look.verdict[VIEW_HARD].open ? "no model can be tuned now"
							 : h->look.verdict[VIEW_HARD].text);
	for (int i = 0; h->o.mode == HONED_BOX && h->now_ns >= h->o.box_ns && i < HONED_JOBS; i++)
		if (h->job[i].state)
			job_kill(h, &h->job[i], END_LEAVING);
	if (h->leaving)
		leave_on(h);
}

int64_t boot_next(const struct honed *h)
{
	int64_t at = h->leaving ? h->leave_by_ns : NEVER;
	if (h->o.mode != HONED_BOX || !h->started)
		return at;
	if (h->now_ns < h->o.box_ns)
		sooner(&at, h->o.box_ns);
	if (!h->leaving)
		sooner(&at, h->worked_ns + VAIN_NS);
	if (!h->leaving)
		sooner(&at, boot_tell_ns(h));
	return at;
}
