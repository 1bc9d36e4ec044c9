/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/stale.h"

#include "agent/cache/lookup.h"
#include "agent/cache/trials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NS (24 * 3600 * NS_PER_S)

static const struct {
	const char *name, *words;
} reason[STALES] = {
    [STALE_NOT] = {"", ""},
    [STALE_MACHINE] = {"machine", "measured on another machine"},
    [STALE_NUMBERS] = {"numbers", "no measurement, or one with impossible numbers"},
    [STALE_EMITTER] = {"emitter", "made by another version of the emitter"},
    [STALE_CODE] = {"code", "its code is missing"},
    [STALE_CLOCK] = {"clock", "measured at another clock frequency"},
    [STALE_THROTTLED] = {"throttled", "timed while the device began or ceased to throttle"},
    [STALE_AGE] = {"age", "not timed again for many boxes"},
};

const char *stale_name(enum stale s)
{
	return (unsigned)s < STALES ? reason[s].name : "";
}

const char *stale_words(enum stale s)
{
	return (unsigned)s < STALES ? reason[s].words : "";
}

bool stale_plausible(const struct rec *r)
{
	const struct meas *m = &r->meas;
	bool timed = m->runs > 0 && m->median_ns <= MOST_NS && m->min_ns > 0 && m->median_ns >= m->min_ns &&
		     m->max_rel_err <= 1 && (m->threads <= 1 || m->threads == r->threads);
	return r->threads > 0 && r->threads <= STALE_MOST_THREADS && (m->status != MEAS_OK || timed);
}

/* An unknown frequency (0) differs from none. */
static bool differ(int64_t mhz, int64_t other)
{
	return mhz > 0 && other > 0 && llabs(mhz - other) * 100 >= STALE_CLOCK_PCT * mhz;
}

static bool other_clock(struct cache *c, const struct rec *r, struct arena *a)
{
	struct rec key = *r, def;
	key.kind = REC_DEFAULT;
	return differ(r->meas.mhz_before, r->meas.mhz_after) ||
	       (r->kind != REC_DEFAULT && cache_get_rec(c, rec_key(&key), a, &def) >= 0 &&
		differ(r->meas.mhz_before, def.meas.mhz_before));
}

/* Boxes since the record's candidate was timed; 0: not known. */
static int age(struct cache *c, const struct rec *r, struct arena *a)
{
	struct trials *l = ARENA_NEW(a, struct trials);
	int boxes = 0;
	*l = (struct trials){
	    .task = r->task, .target_key = r->target_key, .threads = r->threads, .level = r->level};
	memcpy(l->device, r->device, sizeof l->device);
	if (trials_get(c, trials_key(l), l) < 0)
		return 0;
	for (int i = 0; i < l->n; i++)
		if (!strcmp(l->entry[i].t.cand, r->cand))
			boxes = l->boxes - l->entry[i].box;
	trials_free(l);
	return boxes;
}

enum stale stale_rec(struct cache *c, const struct rec *r, const struct target *t, const char *emitter)
{
	struct arena scratch = {0};
	enum stale s = STALE_NOT;
	if (!key_equal(r->target_key, target_key(t)))
		s = STALE_MACHINE;
	else if (r->meas.status != MEAS_OK || !stale_plausible(r))
		s = STALE_NUMBERS;
	else if (*emitter && strcmp(r->emitter, emitter))
		s = STALE_EMITTER;
	else if (!cache_has_code(c, t, r))
		s = STALE_CODE;
	else if (other_clock(c, r, &scratch))
		s = STALE_CLOCK;
	else if (r->origin == ORIGIN_THROTTLED)
		s = STALE_THROTTLED;
	else if (age(c, r, &scratch) >= STALE_BOXES)
		s = STALE_AGE;
	arena_free(&scratch);
	return s;
}
