/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic programming over the operators in their order.
 *
 * Each step covers the first operator that is not covered, by a piece that begins there; so each set of
 * pieces is built in one way only. A state is a set of covered operators, the pieces among them that still
 * wait for operators that are not covered (most states have none; a set whose pieces wait for each other
 * keeps them to its end, and is dropped there), and the values that are still needed with their formats.
 * States are kept by their first uncovered operator, which rises with each step.
 *
 * A state is dropped if its cost with a lower bound of the rest is more than the caller's limit. The bound is
 * the sum over the uncovered operators of the least share of a piece, its time divided by its operators. */
#include "search/placement_parts.h"

#include <math.h>
#include <string.h>

enum { WAITING = 8 /* pieces of a state; more: the state is dropped */, LATE_BEAM = 4 };

/* What is equal in equal states comes first in `key`: words of covered operators, from the first uncovered
 * one; waiting pieces; values, as value << 40 | format as written << 32 | formats that it is moved to. */
struct state {
	double ns, rest_ns;
	int parent, piece; /* trace that it was made from, by adding this piece */
	int nwaiting, nkey;
	uint32_t hash, born; /* born: the order in which states were made */
	uint64_t key[];
};

struct trace {
	int parent, piece;
};

struct bucket {
	struct arena a;
	struct state **state, **slot; /* slot: hash table of nslots, a power of two */
	int n, nslots;
};

struct dp {
	const struct place_net *net;
	const struct place_dp *how;
	struct arena a;
	struct bucket *bucket; /* per operator and the end */
	struct trace *trace;
	int ntraces, room;
	double *share;   /* per operator */
	int *first_left; /* scratch: pieces of a state */
	uint64_t *covered, *key;
	bool exact;
	uint32_t born;
};

static double price(const struct dp *d, int piece)
{
	return d->net->piece[piece].ns + (d->how->surcharge_ns ? d->how->surcharge_ns[piece] : 0);
}

static void share_out(struct dp *d)
{
	const struct placement_problem *p = d->net->p;
	for (int op = 0; op < p->nops; op++)
		d->share[op] = INFINITY;
	for (int i = 0; i < p->npieces; i++) {
		const struct placement_piece *x = &p->piece[i];
		double ns = price(d, i) / x->nops;
		for (int k = 0; k < x->nops && d->net->piece[i].usable; k++)
			if (ns < d->share[x->op[k]])
				d->share[x->op[k]] = ns;
	}
}

/* ---- the state in work: covered operators relative to operator `at`, waiting pieces, values ---- */

struct work {
	const struct place_net *net;
	int at, nwaiting, nlive;
	uint64_t *covered;
	int waiting[WAITING + 1];
	uint64_t *live; /* sorted */
	double ns;
};

static bool is_covered(const struct work *w, int op)
{
	int k = op - w->at;
	return k < 0 || (k < 64 * w->net->words && w->covered[k / 64] >> k % 64 & 1);
}

static bool is_done(const struct work *w, int op)
{
	if (!is_covered(w, op))
		return false;
	for (int i = 0; i < w->nwaiting; i++) {
		const struct place_piece *x = &w->net->piece[w->waiting[i]];
		if (op - x->first < 64 * w->net->words && place_covers(x, op))
			return false;
	}
	return true;
}

static bool is_ready(const struct work *w, int piece)
{
	const struct placement_piece *x = w->net->piece[piece].is;
	for (int k = 0; k < x->nreads; k++) {
		int writer = w->net->value[x->read[k].value].writer;
		if (writer >= 0 && !is_done(w, writer))
			return false;
	}
	return true;
}

/* Adds a piece to those that wait, and takes away all that need not. */
static void settle(struct work *w, int piece)
{
	w->waiting[w->nwaiting++] = piece;
	for (int i = w->nwaiting - 1; i >= 0;) {
		if (is_ready(w, w->waiting[i])) {
			w->nwaiting--;
			memmove(w->waiting + i, w->waiting + i + 1, sizeof(int) * (size_t)(w->nwaiting - i));
			i = w->nwaiting - 1;
		} else {
			i--;
		}
	}
}

static int live_format(uint64_t x)
{
	return (int)(x >> 32 & 255);
}

/* Where a value is in the list, or belongs. */
static int live_at(const struct work *w, int value, bool *there)
{
	int i = 0;
	while (i < w->nlive && (int)(w->live[i] >> 40) < value)
		i++;
	*there = i < w->nlive && (int)(w->live[i] >> 40) == value;
	return i;
}

static void live_remove(struct work *w, int i)
{
	w->nlive--;
	memmove(w->live + i, w->live + i + 1, sizeof *w->live * (size_t)(w->nlive - i));
}

static uint64_t *live_insert(struct work *w, int i, int value, int format)
{
	memmove(w->live + i + 1, w->live + i, sizeof *w->live * (size_t)(w->nlive - i));
	w->nlive++;
	w->live[i] = (uint64_t)value << 40 | (uint64_t)format << 32;
	return &w->live[i];
}

static bool is_needed(const struct work *w, const struct place_value *v)
{
	for (int r = v->nreaders - 1; r >= 0; r--)
		if (!is_covered(w, v->reader[r]))
			return true;
	return false;
}

/* The moves that the piece's reads need; values that no operator needs any more are forgotten. */
static void read_values(struct work *w, const struct placement_piece *x)
{
	for (int k = 0; k < x->nreads; k++) {
		int value = x->read[k].value, to = x->read[k].format;
		const struct place_value *v = &w->net->value[value];
		bool there;
		int i = live_at(w, value, &there);
		if (!there)
			live_insert(w, i, value, PLACE_NONE);
		int from = live_format(w->live[i]);
		if (from == PLACE_NONE) {
			w->live[i] |= 1u << to;
		} else if (from != to && !(w->live[i] >> to & 1)) {
			w->live[i] |= 1u << to;
			w->ns += place_move(v, from, to);
		}
		if (from != PLACE_NONE && !is_needed(w, v))
			live_remove(w, i);
	}
}

static void write_values(struct work *w, const struct placement_piece *x)
{
	for (int k = 0; k < x->nwrites; k++) {
		int value = x->write[k].value, from = x->write[k].format;
		const struct place_value *v = &w->net->value[value];
		bool there, needed = is_needed(w, v);
		int i = live_at(w, value, &there);
		uint32_t to = v->want | (there ? (uint32_t)w->live[i] : 0);
		for (uint32_t left = to & ~(1u << from); left; left &= left - 1)
			w->ns += place_move(v, from, __builtin_ctz(left));
		if (there)
			live_remove(w, i);
		if (needed)
			*live_insert(w, i, value, from) |= to & ~(1u << from);
	}
}

/* Moves `at` to the first uncovered operator. */
static void advance(struct work *w, int nops)
{
	int words = w->net->words, skip = 0;
	while (skip < words && w->covered[skip] == UINT64_MAX)
		skip++;
	int shift = skip < words ? __builtin_ctzll(~w->covered[skip]) : 0;
	for (int i = 0; i < words; i++) {
		uint64_t low = i + skip < words ? w->covered[i + skip] : 0;
		uint64_t high = i + skip + 1 < words ? w->covered[i + skip + 1] : 0;
		w->covered[i] = shift ? low >> shift | high << (64 - shift) : low;
	}
	w->at += 64 * skip + shift;
	if (w->at > nops)
		w->at = nops;
}

/* ---- buckets ---- */

static uint32_t hash_key(const uint64_t *key, int n)
{
	uint64_t h = (uint64_t)n;
	for (int i = 0; i < n; i++) {
		h = (h ^ key[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return (uint32_t)(h >> 16);
}

static struct state **find_slot(const struct bucket *b, const uint64_t *key, int nkey, int nwaiting,
				uint32_t hash)
{
	uint32_t mask = (uint32_t)b->nslots - 1, i = hash & mask;
	while (b->slot[i]) {
		const struct state *s = b->slot[i];
		if (s->hash == hash && s->nkey == nkey && s->nwaiting == nwaiting &&
		    !memcmp(s->key, key, sizeof *key * (size_t)nkey))
			break;
		i = (i + 1) & mask;
	}
	return &b->slot[i];
}

static int grow(struct bucket *b)
{
	int nslots = b->nslots ? 2 * b->nslots : 64;
	struct state **slot = arena_try(&b->a, (size_t)nslots, sizeof(struct state *)),
		     **list = arena_try(&b->a, (size_t)nslots / 2, sizeof(struct state *));
	if (!slot || !list)
		return E_NOMEM;
	if (b->n)
		memcpy(list, b->state, sizeof *list * (size_t)b->n);
	b->slot = slot;
	b->state = list;
	b->nslots = nslots;
	for (int i = 0; i < b->n; i++) {
		const struct state *s = list[i];
		*find_slot(b, s->key, s->nkey, s->nwaiting, s->hash) = list[i];
	}
	return E_OK;
}

static int keep_state(struct dp *d, const struct work *w, double rest_ns, int parent, int piece)
{
	struct bucket *b = &d->bucket[w->at];
	if (2 * b->n >= b->nslots && grow(b) < 0)
		return E_NOMEM;
	int words = w->net->words, nkey = words + w->nwaiting + w->nlive;
	memcpy(d->key, w->covered, sizeof *d->key * (size_t)words);
	for (int i = 0; i < w->nwaiting; i++)
		d->key[words + i] = (uint64_t)w->waiting[i];
	memcpy(d->key + words + w->nwaiting, w->live, sizeof *d->key * (size_t)w->nlive);
	uint32_t hash = hash_key(d->key, nkey);
	struct state **slot = find_slot(b, d->key, nkey, w->nwaiting, hash), *s = *slot;
	if (s && s->ns <= w->ns)
		return E_OK;
	if (!s) {
		s = arena_try(&b->a, 1, sizeof *s + sizeof *d->key * (size_t)nkey);
		if (!s)
			return E_NOMEM;
		memcpy(s->key, d->key, sizeof *d->key * (size_t)nkey);
		s->nkey = nkey;
		s->nwaiting = w->nwaiting;
		s->hash = hash;
		s->born = d->born++;
		*slot = b->state[b->n++] = s;
	}
	s->ns = w->ns;
	s->rest_ns = rest_ns;
	s->parent = parent;
	s->piece = piece;
	return E_OK;
}

static bool before(const struct state *a, const struct state *b)
{
	double x = a->ns + a->rest_ns, y = b->ns + b->rest_ns;
	return x < y || (x == y && a->born < b->born);
}

/* Moves the k states that come first to the front (Hoare's selection). */
static void select_best(struct state **s, int n, int k)
{
	for (int low = 0, high = n - 1; low < high;) {
		const struct state *pivot = s[low + (high - low) / 2];
		int i = low, j = high;
		while (i <= j) {
			while (before(s[i], pivot))
				i++;
			while (before(pivot, s[j]))
				j--;
			if (i <= j) {
				struct state *swap = s[i];
				s[i++] = s[j];
				s[j--] = swap;
			}
		}
		if (k <= j)
			high = j;
		else if (k >= i)
			low = i;
		else
			return;
	}
}

/* ---- the steps ---- */

static int add_trace(struct dp *d, const struct state *s)
{
	if (d->ntraces == d->room) {
		int room = 2 * d->room + 256;
		struct trace *t = arena_try(&d->a, (size_t)room, sizeof *t);
		if (!t)
			return E_NOMEM;
		if (d->ntraces)
			memcpy(t, d->trace, sizeof *t * (size_t)d->ntraces);
		d->trace = t;
		d->room = room;
	}
	d->trace[d->ntraces] = (struct trace){s->parent, s->piece};
	return d->ntraces++;
}

static void begin_work(const struct dp *d, const struct state *s, int at, struct work *w)
{
	int words = d->net->words;
	w->at = at;
	w->ns = s->ns;
	w->nwaiting = s->nwaiting;
	w->nlive = s->nkey - words - s->nwaiting;
	memcpy(w->covered, s->key, sizeof *s->key * (size_t)words);
	for (int i = 0; i < s->nwaiting; i++)
		w->waiting[i] = (int)s->key[words + i];
	memcpy(w->live, s->key + words + s->nwaiting, sizeof *s->key * (size_t)w->nlive);
}

static bool fits(const struct dp *d, const struct state *s, const struct place_piece *x)
{
	for (int i = 0; i < d->net->words; i++)
		if (s->key[i] & x->mask[i])
			return false;
	return true;
}

/* Adds a piece that begins at the first uncovered operator. */
static int extend(struct dp *d, struct work *w, const struct state *s, int at, int trace, int piece)
{
	const struct place_piece *x = &d->net->piece[piece];
	double ns = price(d, piece), rest_ns = s->rest_ns;
	for (int k = 0; k < x->is->nops; k++)
		rest_ns -= d->share[x->is->op[k]];
	if (isinf(ns) || !fits(d, s, x))
		return E_OK;
	begin_work(d, s, at, w);
	for (int i = 0; i < d->net->words; i++)
		w->covered[i] |= x->mask[i];
	w->ns += ns;
	read_values(w, x->is);
	write_values(w, x->is);
	/* The bound is a difference of sums: allow for its rounding. */
	if (isinf(w->ns) || w->ns + rest_ns > d->how->most_ns * (1 + 1e-9) + 1e-6)
		return E_OK;
	settle(w, piece);
	if (w->nwaiting > WAITING) {
		d->exact = false;
		return E_OK;
	}
	advance(w, d->net->p->nops);
	return keep_state(d, w, rest_ns, trace, piece);
}

static int expand(struct dp *d, struct work *w, int at)
{
	struct bucket *b = &d->bucket[at];
	const struct place_net *net = d->net;
	int beam = place_late(d->how->s) ? LATE_BEAM : d->how->beam, n = b->n, rc = E_OK;
	if (n > beam) {
		select_best(b->state, n, beam);
		d->exact = false;
		n = beam;
	}
	for (int i = 0; i < n && rc >= 0; i++) {
		int trace = add_trace(d, b->state[i]);
		rc = trace;
		for (int k = net->begin_at[at]; k < net->begin_at[at + 1] && rc >= 0; k++)
			rc = extend(d, w, b->state[i], at, trace, net->begins[k]);
	}
	arena_free(&b->a);
	return rc;
}

static int begin(struct dp *d, struct work *w)
{
	const struct placement_problem *p = d->net->p;
	size_t words = (size_t)d->net->words, live = (size_t)p->nvalues + 1;
	d->bucket = arena_try(&d->a, (size_t)p->nops + 1, sizeof *d->bucket);
	d->share = arena_try(&d->a, (size_t)p->nops, sizeof *d->share);
	d->key = arena_try(&d->a, words + WAITING + live, sizeof *d->key);
	w->covered = arena_try(&d->a, words, sizeof *w->covered);
	w->live = arena_try(&d->a, live, sizeof *w->live);
	if (!d->bucket || !d->share || !d->key || !w->covered || !w->live)
		return E_NOMEM;
	share_out(d);
	double rest_ns = 0;
	for (int op = 0; op < p->nops; op++)
		rest_ns += d->share[op];
	for (int value = 0; value < p->nvalues; value++) {
		const struct place_value *v = &d->net->value[value];
		uint32_t to = v->want & ~(v->writer < 0 ? 1u << v->format : ~0u);
		if (v->writer >= 0 || v->format == PLACE_NONE)
			continue;
		for (uint32_t left = to; left; left &= left - 1)
			w->ns += place_move(v, v->format, __builtin_ctz(left));
		if (v->nreaders)
			*live_insert(w, w->nlive, value, v->format) |= to;
	}
	return isfinite(w->ns + rest_ns) ? keep_state(d, w, rest_ns, -1, -1) : E_OK;
}

/* The pieces of the best state at the end that has none waiting. */
static int read_back(const struct dp *d, int *piece, int *n)
{
	const struct bucket *b = &d->bucket[d->net->p->nops];
	const struct state *best = NULL;
	for (int i = 0; i < b->n; i++)
		if (!b->state[i]->nwaiting && (!best || before(b->state[i], best)))
			best = b->state[i];
	if (!best)
		return 0;
	*n = 0;
	piece[(*n)++] = best->piece;
	for (int t = best->parent; t >= 0 && d->trace[t].piece >= 0; t = d->trace[t].parent)
		piece[(*n)++] = d->trace[t].piece;
	return 1;
}

int place_dp(const struct place_net *net, const struct place_dp *how, int *piece, int *n, bool *exact)
{
	struct dp d = {.net = net, .how = how, .exact = true};
	struct work w = {.net = net};
	int rc = begin(&d, &w);
	for (int at = 0; at < net->p->nops && rc >= 0; at++)
		rc = expand(&d, &w, at);
	if (rc >= 0)
		rc = read_back(&d, piece, n);
	*exact = d.exact;
	for (int at = 0; at <= net->p->nops && d.bucket; at++)
		arena_free(&d.bucket[at].a);
	arena_free(&d.a);
	return rc;
}
