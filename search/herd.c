/* SPDX-License-Identifier: Apache-2.0 */
#include "search/herd.h"

#include "platform/base/mix.h"

#include <math.h>
#include <string.h>

/* Share of bred candidates that are mutations; the others are crossed. */
#define MUTATE 0.7

void herd_open(struct herd *h, struct arena *a, const struct guide *g, uint64_t seed, int cap)
{
	*h = (struct herd){.guide = g, .arena = a, .cap = cap};
	rng_seed(&h->rng, seed);
}

/* ---- members ---- */

static void set_text(struct herd *h, struct member *m, const char *cand)
{
	int n = (int)strlen(cand) + 1;
	if (n > m->room) {
		m->room = (n + 63) & ~63;
		m->cand = arena_alloc(h->arena, (size_t)m->room);
	}
	memcpy(m->cand, cand, (size_t)n);
}

void member_think(const struct herd *h, struct member *m)
{
	m->guess = h->guide->cost->guess(m->f);
	m->log_ns = log(m->guess.ns);
}

void member_set(struct herd *h, struct member *m, const char *cand)
{
	char unit[CAND_MAX];
	space_structure(cand, unit);
	set_text(h, m, cand);
	m->key = hash_text(cand).lo;
	m->unit = mix_text(unit).lo;
	space_features(h->guide->space, cand, m->f);
	member_think(h, m);
}

void member_copy(struct herd *h, struct member *to, const struct member *from)
{
	struct member old = *to;
	*to = *from;
	to->cand = old.cand;
	to->room = old.room;
	set_text(h, to, from->cand);
}

/* ---- measured candidates ---- */

bool herd_knows(const struct herd *h, const char *cand)
{
	return keys_has(&h->known, hash_text(cand).lo);
}

static void drop(struct herd *h, int i)
{
	struct member gone = h->pool[i];
	h->pool[i] = h->pool[--h->npool];
	h->pool[h->npool] = gone; /* its text buffer is used again */
}

static void drop_key(struct herd *h, uint64_t key)
{
	for (int i = 0; i < h->npool; i++)
		if (h->pool[i].key == key) {
			drop(h, i);
			return;
		}
}

static void drop_unit(struct herd *h, uint64_t unit)
{
	for (int i = h->npool - 1; i >= 0; i--)
		if (h->pool[i].unit == unit)
			drop(h, i);
}

/* Makes room for a time among the measured, which are sorted. Returns its index; -1: too slow to be kept. */
static int make_place(struct herd *h, double log_ns)
{
	if (!h->told)
		h->told = ARENA_ARRAY(h->arena, struct member, HERD_TOLD);
	int i = h->ntold < HERD_TOLD ? h->ntold++ : HERD_TOLD - 1;
	if (h->told[i].cand && i == HERD_TOLD - 1 && h->told[i].log_ns <= log_ns)
		return -1;
	struct member slot = h->told[i];
	for (; i > 0 && h->told[i - 1].log_ns > log_ns; i--)
		h->told[i] = h->told[i - 1];
	h->told[i] = slot;
	return i;
}

bool herd_timed(const struct meas *m)
{
	return m->status == MEAS_OK && m->runs > 0 && m->min_ns > 0;
}

void herd_tell(struct herd *h, const char *cand, const struct meas *m)
{
	char text[CAND_MAX];
	space_structure(cand, text);
	uint64_t unit = mix_text(text).lo, key = hash_text(cand).lo;
	keys_add(h->arena, &h->known, key);
	drop_key(h, key);
	if (m->status == MEAS_OK || m->status == MEAS_ABORTED) {
		keys_add(h->arena, &h->built, unit);
	} else if (!keys_has(&h->built, unit)) {
		keys_add(h->arena, &h->failed, unit);
		drop_unit(h, unit);
	}
	double log_ns = herd_timed(m) ? log((double)m->min_ns) : 0;
	int i = herd_timed(m) ? make_place(h, log_ns) : -1;
	if (i < 0)
		return;
	member_set(h, &h->told[i], cand);
	h->told[i].log_ns = log_ns;
}

/* ---- the pool ---- */

static int slowest(const struct herd *h)
{
	int worst = 0;
	for (int i = 1; i < h->npool; i++)
		if (h->pool[i].log_ns > h->pool[worst].log_ns)
			worst = i;
	return worst;
}

bool herd_add(struct herd *h, const struct member *m)
{
	if (keys_has(&h->known, m->key) || keys_has(&h->failed, m->unit) ||
	    !portion_has(&h->guide->portion, m->unit))
		return false;
	for (int i = 0; i < h->npool; i++)
		if (h->pool[i].key == m->key)
			return false;
	if (h->npool == h->cap) {
		int worst = slowest(h);
		if (h->pool[worst].log_ns <= m->log_ns)
			return true;
		drop(h, worst);
	}
	if (!h->pool)
		h->pool = ARENA_ARRAY(h->arena, struct member, h->cap);
	member_copy(h, &h->pool[h->npool++], m);
	return true;
}

static bool others(const struct herd *h, const char *cand)
{
	char unit[CAND_MAX];
	if (h->guide->portion.parts < 2)
		return false;
	space_structure(cand, unit);
	return !portion_has(&h->guide->portion, mix_text(unit).lo);
}

int herd_fill(struct herd *h, int want, int (*breed)(void *ctx, char cand[CAND_MAX]), void *ctx)
{
	struct member *m = &h->spare;
	for (int added = 0, idle = 0, not_ours = 0;
	     added < want && idle < HERD_TIRED && not_ours < HERD_OTHERS; idle++) {
		char cand[CAND_MAX];
		if (breed(ctx, cand) < 0)
			continue;
		if (others(h, cand)) {
			not_ours++;
			idle--;
			continue;
		}
		if (herd_knows(h, cand))
			continue;
		member_set(h, m, cand);
		if (!herd_add(h, m))
			continue;
		added++;
		idle = 0;
	}
	return h->npool;
}

const struct member *herd_parent(struct herd *h)
{
	if (!h->ntold)
		return NULL;
	uint32_t n = (uint32_t)h->ntold, i = rng_below(&h->rng, n), j = rng_below(&h->rng, n);
	return &h->told[i < j ? i : j];
}

int herd_breed(struct herd *h, double fresh, char cand[CAND_MAX])
{
	const struct space *s = h->guide->space;
	if (!h->ntold || rng_unit(&h->rng) < fresh)
		return space_random(s, &h->rng, cand);
	if (h->ntold < 2 || rng_unit(&h->rng) < MUTATE)
		return space_mutate(s, &h->rng, herd_parent(h)->cand, cand);
	return space_cross(s, &h->rng, herd_parent(h)->cand, herd_parent(h)->cand, cand);
}

/* ---- proposals ---- */

void herd_round(struct herd *h)
{
	h->nround = 0;
	for (int i = 0; i < h->npool; i++)
		member_think(h, &h->pool[i]);
}

bool herd_in_round(const struct herd *h, uint64_t unit)
{
	for (int i = 0; i < h->nround; i++)
		if (h->round[i] == unit)
			return true;
	return false;
}

int herd_best(struct herd *h, double blind)
{
	int best = -1;
	bool best_again = false;
	if (h->npool && rng_unit(&h->rng) < blind)
		return (int)rng_below(&h->rng, (uint32_t)h->npool);
	for (int i = 0; i < h->npool; i++) {
		bool again = herd_in_round(h, h->pool[i].unit);
		if (best < 0 || again < best_again ||
		    (again == best_again && h->pool[i].log_ns < h->pool[best].log_ns)) {
			best = i;
			best_again = again;
		}
	}
	return best;
}

int herd_propose(struct herd *h, int i, char cand[CAND_MAX])
{
	if (i < 0)
		return fail(E_NOTFOUND, "nothing new is left to propose");
	const struct member *m = &h->pool[i];
	strcpy(cand, m->cand);
	keys_add(h->arena, &h->known, m->key);
	if (h->nround < HERD_ROUND)
		h->round[h->nround++] = m->unit;
	drop(h, i);
	return E_OK;
}
