/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/sched.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sched_init(const struct task *t, struct sched *s)
{
	memset(s, 0, sizeof *s);
	s->nstages = t->nstages;
	for (int i = 0; i < t->nstages; i++) {
		struct sstage *st = &s->st[i];
		st->lane = st->split_axis = st->ring_axis = st->share_axis = st->down_axis = -1;
		st->lanes = st->chains = st->boxes = st->blocks = st->down = 1;
		st->hoist = true;
		for (int a = 0; a < MAX_AXES; a++) {
			st->tile[a] = st->unroll[a] = st->threads[a] = st->warp[a] = 1;
			st->order[a] = (uint8_t)a;
		}
	}
}

/* ---- text ---- */

struct writer {
	char *p;
	size_t n;
	bool full;
};

static void put(struct writer *w, const char *s)
{
	size_t k = strlen(s);
	if (w->n + k + 1 > CAND_MAX) {
		w->full = true;
		return;
	}
	memcpy(w->p + w->n, s, k + 1);
	w->n += k;
}

static void put_int(struct writer *w, int64_t v)
{
	char b[24];
	snprintf(b, sizeof b, "%lld", (long long)v);
	put(w, b);
}

static void put_key(struct writer *w, const char *key)
{
	if (w->n && w->p[w->n - 1] != ' ')
		put(w, " ");
	put(w, key);
	put(w, "=");
}

/* "key=x:14,k:2": entries of axes [from, to) that differ from `none`. */
static void put_sizes(struct writer *w, const char *key, const struct stage *st, int from, int to,
		      const int *v)
{
	bool any = false;
	for (int a = from; a < to; a++) {
		if (v[a] == 1)
			continue;
		if (any)
			put(w, ",");
		else
			put_key(w, key);
		any = true;
		put(w, st->axis[a].name);
		put(w, ":");
		put_int(w, v[a]);
	}
}

static void put_order(struct writer *w, const struct stage *st, const struct sstage *s)
{
	bool natural = true;
	for (int i = 0; i < st->naxes; i++)
		natural &= s->order[i] == i;
	if (natural)
		return;
	put_key(w, "order");
	for (int i = 0; i < st->naxes; i++) {
		put(w, i ? "," : "");
		put(w, st->axis[s->order[i]].name);
	}
}

static void put_outer(struct writer *w, const struct stage *st, const struct sstage *s)
{
	bool any = false;
	for (int a = 0; a < st->naxes; a++) {
		if (!s->outer[a])
			continue;
		if (any)
			put(w, ",");
		else
			put_key(w, "outer");
		any = true;
		put(w, st->axis[a].name);
	}
}

static void put_block(struct writer *w, const struct stage *st, const struct sstage *s)
{
	bool any = false;
	for (int a = 0; a < st->naxes; a++) {
		if ((!s->outer[a] && a != s->ring_axis) || !s->block[a])
			continue;
		put(w, any ? "," : " | block=");
		any = true;
		put(w, st->axis[a].name);
		put(w, ":");
		put_int(w, s->block[a]);
	}
}

/* "key=x:14" */
static void put_pair(struct writer *w, const char *key, const struct stage *st, int axis, int64_t v)
{
	put_key(w, key);
	put(w, st->axis[axis].name);
	put(w, ":");
	put_int(w, v);
}

static void put_split(struct writer *w, const struct stage *st, const struct sstage *s)
{
	if (s->split_axis >= 0)
		put_pair(w, "split", st, s->split_axis, s->split);
}

static void put_gemm(struct writer *w, const struct stage *st, const struct sstage *s)
{
	(void)st;
	if (!s->wino.m)
		return;
	put_key(w, "gemm");
	put_int(w, s->wino.px);
	put(w, "x");
	put_int(w, s->wino.kv);
}

static void put_prefetch(struct writer *w, const struct stage *st, const struct sstage *s)
{
	int v = s->wino.m ? s->wino.prefetch : s->prefetch;
	(void)st;
	if (!v)
		return;
	put_key(w, "prefetch");
	put_int(w, v);
}

static void put_share(struct writer *w, const struct stage *st, const struct sstage *s)
{
	if (s->share_axis < 0)
		return;
	put_pair(w, "share", st, s->share_axis, s->share);
	if (s->boxes == 1)
		return;
	put(w, "x");
	put_int(w, s->boxes);
}

struct parser {
	const char *p;
	const struct stage *st;
};

static int word(struct parser *ps, char out[16])
{
	int n = 0;
	while (n < 15 && (isalnum((unsigned char)*ps->p) || *ps->p == '_'))
		out[n++] = *ps->p++;
	out[n] = 0;
	return n ? E_OK : fail(E_CORRUPT, "schedule: expected a name at \"%.12s\"", ps->p);
}

static int number(struct parser *ps, int64_t max, int64_t *out)
{
	if (!isdigit((unsigned char)*ps->p))
		return fail(E_CORRUPT, "schedule: expected a number at \"%.12s\"", ps->p);
	int64_t v = 0;
	while (isdigit((unsigned char)*ps->p) && v <= max)
		v = v * 10 + (*ps->p++ - '0');
	*out = v;
	return v <= max ? E_OK : fail(E_CORRUPT, "schedule: number over %lld", (long long)max);
}

static int axis_name(struct parser *ps, int *axis)
{
	char name[16];
	int rc = word(ps, name);
	if (rc < 0)
		return rc;
	for (*axis = 0; *axis < ps->st->naxes; ++*axis)
		if (!strcmp(ps->st->axis[*axis].name, name))
			return E_OK;
	return fail(E_CORRUPT, "schedule: the task has no axis \"%s\"", name);
}

/* axis:number */
static int pair(struct parser *ps, int64_t max, int *axis, int64_t *v)
{
	int rc = axis_name(ps, axis);
	if (rc < 0)
		return rc;
	if (*ps->p++ != ':')
		return fail(E_CORRUPT, "schedule: ':' expected after axis %s", ps->st->axis[*axis].name);
	return number(ps, max, v);
}

static int sizes(struct parser *ps, int from, int to, int *dst)
{
	do {
		int a;
		int64_t v;
		int rc = pair(ps, 4096, &a, &v);
		if (rc < 0)
			return rc;
		if (a < from || a >= to || v < 2)
			return fail(E_CORRUPT, "schedule: axis %s:%lld does not belong here",
				    ps->st->axis[a].name, (long long)v);
		dst[a] = (int)v;
	} while (*ps->p == ',' && ps->p++);
	return E_OK;
}

static int key_order(struct parser *ps, struct sstage *s)
{
	for (int i = 0; i < ps->st->naxes; i++) {
		int a, rc;
		if (i && *ps->p++ != ',')
			return fail(E_CORRUPT, "schedule: order names %d of %d axes", i, ps->st->naxes);
		if ((rc = axis_name(ps, &a)) < 0)
			return rc;
		s->order[i] = (uint8_t)a;
	}
	return E_OK;
}

static int key_outer(struct parser *ps, struct sstage *s)
{
	do {
		int a, rc = axis_name(ps, &a);
		if (rc < 0)
			return rc;
		s->outer[a] = true;
	} while (*ps->p == ',' && ps->p++);
	return E_OK;
}

static int key_split(struct parser *ps, struct sstage *s)
{
	return pair(ps, 1 << 30, &s->split_axis, &s->split);
}

static int whole(struct parser *ps, int lo, int hi, int *out)
{
	int64_t v;
	int rc = number(ps, hi, &v);
	*out = (int)v;
	return rc < 0 || v >= lo ? rc : fail(E_CORRUPT, "schedule: number under %d", lo);
}

static int key_gemm(struct parser *ps, struct sstage *s)
{
	s->wino.parts = 1; /* unless its key follows */
	int rc = whole(ps, 1, SCHED_TILE, &s->wino.px);
	if (rc >= 0 && *ps->p++ != 'x')
		return fail(E_CORRUPT, "schedule: gemm is not of the form TILESxVECTORS");
	return rc < 0 ? rc : whole(ps, 1, SCHED_TILE, &s->wino.kv);
}

static int key_prefetch(struct parser *ps, struct sstage *s)
{
	return s->wino.m ? whole(ps, 0, 64, &s->wino.prefetch) : whole(ps, 1, 2, &s->prefetch);
}

static int key_share(struct parser *ps, struct sstage *s)
{
	int64_t v = 0;
	int rc = pair(ps, 1 << 20, &s->share_axis, &v);
	s->share = (int)v;
	if (rc < 0 || *ps->p != 'x')
		return rc;
	ps->p++;
	return whole(ps, 2, SCHED_BOXES, &s->boxes);
}

static int key_block(struct parser *ps, struct sstage *s)
{
	do {
		int a;
		int64_t v;
		int rc = pair(ps, 1 << 30, &a, &v);
		if (rc < 0)
			return rc;
		if ((!s->outer[a] && a != s->ring_axis) || v < 1)
			return fail(E_CORRUPT, "schedule: block of axis %s, which has no outer loop",
				    ps->st->axis[a].name);
		s->block[a] = v;
	} while (*ps->p == ',' && ps->p++);
	return E_OK;
}

/* The kinds of values that keys of a schedule have. */
enum {
	KEY_NUMBER,
	KEY_PAIR,
	KEY_SIZES,
	KEY_ORDER,
	KEY_OUTER,
	KEY_SPLIT,
	KEY_GEMM,
	KEY_PREFETCH,
	KEY_SHARE,
	KEY_BLOCK
};
enum { SPATIAL = 1, REDUCTION = 2 };
static const struct {
	void (*put)(struct writer *w, const struct stage *st, const struct sstage *s);
	int (*parse)(struct parser *ps, struct sstage *s);
} own[] = {[KEY_ORDER] = {put_order, key_order},
	   [KEY_OUTER] = {put_outer, key_outer},
	   [KEY_SPLIT] = {put_split, key_split},
	   [KEY_GEMM] = {put_gemm, key_gemm},
	   [KEY_PREFETCH] = {put_prefetch, key_prefetch},
	   [KEY_SHARE] = {put_share, key_share},
	   [KEY_BLOCK] = {NULL, key_block}};

#define NUMBER(field, no, up_to) .at = offsetof(struct sstage, field), .none = no, .most = up_to
#define PAIR(axis, field, up_to)                                                                             \
	.own = KEY_PAIR, .axis_at = offsetof(struct sstage, axis), .at = offsetof(struct sstage, field),     \
	.most = up_to
#define SIZES(field, axes) .own = KEY_SIZES, .at = offsetof(struct sstage, field), .most = axes
#define FLAG(field, no) .at = offsetof(struct sstage, field), .none = no, .flag = true

/* All keys in their order. A number or a flag is a field of struct sstage: it is left out where it is `none`,
 * and else above that, up to `most`; a flag is the other one of 0 and 1. A pair is an axis, -1: none, and a
 * number. Sizes are numbers of the axes in the set `most`. */
static const struct sched_key {
	char name[9];
	uint8_t own; /* of the list above; KEY_NUMBER: a number or a flag; KEY_PAIR */
	bool flag;
	uint8_t none;
	uint16_t at, axis_at;
	int most;
} keys[] = {{"lane", PAIR(lane, lanes, 16)},
	    {"tile", SIZES(tile, SPATIAL)},
	    {"unroll", SIZES(unroll, REDUCTION)},
	    {"order", .own = KEY_ORDER},
	    {"par", NUMBER(par, 0, 2 * MAX_AXES)},
	    {"outer", .own = KEY_OUTER},
	    {"split", .own = KEY_SPLIT},
	    {"spread", FLAG(spread, 0)},
	    {"chains", NUMBER(chains, 1, 64)},
	    {"hoist", FLAG(hoist, 1)},
	    {"ring", PAIR(ring_axis, ring, SCHED_TILE)},
	    {"winograd", NUMBER(wino.m, 0, 16)},
	    {"tiles", NUMBER(wino.tiles, 0, 1 << 20)},
	    {"gemm", .own = KEY_GEMM},
	    {"chunk", NUMBER(wino.chunk, 0, 1 << 20)},
	    {"raw", NUMBER(wino.raw, 0, 1 << 20)},
	    {"parts", NUMBER(wino.parts, 1, 4096)},
	    {"pixels", NUMBER(wino.pixels, 0, 1)},
	    {"prefetch", .own = KEY_PREFETCH},
	    {"feed", FLAG(feed, 0)},
	    {"quads", FLAG(quads, 0)},
	    {"mmla", FLAG(mmla, 0)},
	    {"w16", FLAG(w16, 0)},
	    {"texture", FLAG(texture, 0)},
	    {"down", PAIR(down_axis, down, SCHED_DOWN)},
	    {"group", NUMBER(group, 0, TARGET_MOST_GROUP)},
	    {"blocks", NUMBER(blocks, 1, SCHED_BLOCKS)},
	    {"threads", SIZES(threads, SPATIAL | REDUCTION)},
	    {"warp", SIZES(warp, SPATIAL)},
	    {"share", .own = KEY_SHARE},
	    {"fragrows", NUMBER(frags.rows, 0, 16)},
	    {"fragcols", NUMBER(frags.cols, 0, 16)},
	    {"warprows", NUMBER(frags.warp_rows, 0, 16)},
	    {"warpcols", NUMBER(frags.warp_cols, 0, 16)},
	    {"fragk", NUMBER(frags.depth, 0, 16)},
	    {"fragring", NUMBER(frags.ring, 0, SCHED_BOXES)},
	    {"block", .own = KEY_BLOCK}};

enum { NKEYS = sizeof keys / sizeof keys[0], BLOCK_AT = NKEYS - 1 };

/* The axes that sizes have: from the first to before the last. */
static int first_axis(const struct sched_key *k, const struct stage *st)
{
	return k->most & SPATIAL ? 0 : stage_spatial(st);
}

static int last_axis(const struct sched_key *k, const struct stage *st)
{
	return k->most & REDUCTION ? st->naxes : stage_spatial(st);
}

/* Keys of Winograd's schedule say nothing without `winograd`. */
static bool is_idle(const struct sched_key *k, const struct sstage *s)
{
	return !s->wino.m && k->at >= offsetof(struct sstage, wino) &&
	       k->at < offsetof(struct sstage, wino) + sizeof s->wino;
}

static void put_stage(struct writer *w, const struct stage *st, const struct sstage *s)
{
	for (const struct sched_key *k = keys; k < keys + BLOCK_AT; k++) {
		const char *field = (const char *)s + k->at;
		if (k->own == KEY_SIZES) {
			put_sizes(w, k->name, st, first_axis(k, st), last_axis(k, st), (const int *)field);
			continue;
		}
		if (k->own == KEY_PAIR) {
			int axis = *(const int *)((const char *)s + k->axis_at);
			if (axis >= 0)
				put_pair(w, k->name, st, axis, *(const int *)field);
			continue;
		}
		if (k->own) {
			own[k->own].put(w, st, s);
			continue;
		}
		int v = k->flag ? *(const bool *)field : *(const int *)field;
		if (!is_idle(k, s) && (k->flag ? v != k->none : v > k->none)) {
			put_key(w, k->name);
			put_int(w, v);
		}
	}
}

int sched_text(const struct task *t, const struct sched *s, char out[CAND_MAX])
{
	struct writer w = {.p = out};
	out[0] = 0;
	put(&w, pairs_text(t->pairs));
	for (int i = 0; i < t->nstages; i++) {
		if (i)
			put(&w, "; ");
		put_stage(&w, &t->stage[i], &s->st[i]);
	}
	put_block(&w, &t->stage[t->nstages - 1], &s->st[t->nstages - 1]);
	return w.full ? fail(E_INFEASIBLE, "schedule text over %d bytes", CAND_MAX - 1) : E_OK;
}

static int parse_key(struct parser *ps, const struct sched_key *k, struct sstage *s)
{
	char *field = (char *)s + k->at;
	int v = 0, other = !k->none;
	if (k->own == KEY_SIZES)
		return sizes(ps, first_axis(k, ps->st), last_axis(k, ps->st), (int *)field);
	if (k->own == KEY_PAIR) {
		int64_t n = 0;
		int rc = pair(ps, k->most, (int *)((char *)s + k->axis_at), &n);
		*(int *)field = (int)n;
		return rc;
	}
	if (k->own)
		return own[k->own].parse(ps, s);
	if (!k->flag)
		return whole(ps, 1, k->most, (int *)field);
	int rc = whole(ps, other, other, &v);
	*(bool *)field = v;
	return rc;
}

/* One stage's keys, in order; stops at ';', " | " or the end. */
static int parse_keys(struct parser *ps, struct sstage *s, int from, int to)
{
	while (*ps->p && *ps->p != ';' && *ps->p != '|') {
		char name[16];
		int rc = word(ps, name);
		if (rc < 0)
			return rc;
		while (from < to && strcmp(keys[from].name, name) != 0)
			from++;
		if (from == to || *ps->p++ != '=')
			return fail(E_CORRUPT, "schedule: \"%s\" is unknown or out of order", name);
		if ((rc = parse_key(ps, &keys[from++], s)) < 0)
			return rc;
		while (*ps->p == ' ')
			ps->p++;
	}
	return E_OK;
}

int sched_parse(const struct task *t, const char *text, struct sched *out)
{
	struct parser ps = {.p = text};
	char again[CAND_MAX];
	sched_init(t, out);
	if (strnlen(text, CAND_MAX) >= CAND_MAX)
		return fail(E_CORRUPT, "schedule: text over %d bytes", CAND_MAX - 1);
	size_t n = strlen(pairs_text(t->pairs));
	if (strncmp(ps.p, pairs_text(t->pairs), n) != 0)
		return fail(E_CORRUPT, "schedule: no pairs of %s", pairs_name(t->pairs));
	ps.p += n;
	for (int i = 0; i < t->nstages; i++) {
		ps.st = &t->stage[i];
		if (i && (*ps.p++ != ';' || *ps.p++ != ' '))
			return fail(E_CORRUPT, "schedule: %d of %d stages", i, t->nstages);
		int rc = parse_keys(&ps, &out->st[i], 0, BLOCK_AT);
		if (rc < 0)
			return rc;
	}
	if (ps.p[0] == '|' && ps.p[1] == ' ') {
		ps.p += 2;
		int rc = parse_keys(&ps, &out->st[t->nstages - 1], BLOCK_AT, NKEYS);
		if (rc < 0)
			return rc;
	}
	if (*ps.p)
		return fail(E_CORRUPT, "schedule: rest \"%.16s\" does not parse", ps.p);
	if (sched_text(t, out, again) < 0 || strcmp(again, text) != 0)
		return fail(E_CORRUPT, "schedule: not canonical; the canonical text is \"%.80s\"", again);
	return E_OK;
}
