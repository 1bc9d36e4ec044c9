/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/sched.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sched_init(const struct task *t, struct sched *s)
{
	memset(s, 0, sizeof *s);
	s->nstages = t->nstages;
	for (int i = 0; i < t->nstages; i++) {
		struct sstage *st = &s->st[i];
		st->lane = st->split_axis = st->ring_axis = st->share_axis = -1;
		st->lanes = st->chains = st->boxes = 1;
		st->hoist = true;
		for (int a = 0; a < MAX_AXES; a++) {
			st->tile[a] = st->unroll[a] = st->threads[a] = 1;
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

static void put_number(struct writer *w, const char *key, int v, int none)
{
	if (v == none)
		return;
	put_key(w, key);
	put_int(w, v);
}

static void put_winograd(struct writer *w, const struct winograd *g)
{
	if (!g->m)
		return;
	put_number(w, "winograd", g->m, 0);
	put_number(w, "tiles", g->tiles, 0);
	put_key(w, "gemm");
	put_int(w, g->px);
	put(w, "x");
	put_int(w, g->kv);
	put_number(w, "chunk", g->chunk, 0);
	put_number(w, "raw", g->raw, 0);
	put_number(w, "parts", g->parts, 1);
	put_number(w, "pixels", g->pixels, 0);
	put_number(w, "prefetch", g->prefetch, 0);
}

static void put_stage(struct writer *w, const struct stage *st, const struct sstage *s)
{
	int ns = stage_spatial(st);
	if (s->lane >= 0) {
		put_key(w, "lane");
		put(w, st->axis[s->lane].name);
		put(w, ":");
		put_int(w, s->lanes);
	}
	put_sizes(w, "tile", st, 0, ns, s->tile);
	put_sizes(w, "unroll", st, ns, st->naxes, s->unroll);
	put_order(w, st, s);
	if (s->par) {
		put_key(w, "par");
		put_int(w, s->par);
	}
	put_outer(w, st, s);
	if (s->split_axis >= 0) {
		put_key(w, "split");
		put(w, st->axis[s->split_axis].name);
		put(w, ":");
		put_int(w, s->split);
	}
	put_number(w, "spread", s->spread, 0);
	if (s->chains > 1) {
		put_key(w, "chains");
		put_int(w, s->chains);
	}
	if (!s->hoist) {
		put_key(w, "hoist");
		put(w, "0");
	}
	if (s->ring_axis >= 0) {
		put_key(w, "ring");
		put(w, st->axis[s->ring_axis].name);
		put(w, ":");
		put_int(w, s->ring);
	}
	put_winograd(w, &s->wino);
	put_number(w, "prefetch", s->prefetch, 0);
	put_number(w, "feed", s->feed, 0);
	put_number(w, "quads", s->quads, 0);
	put_number(w, "mmla", s->mmla, 0);
	put_number(w, "w16", s->w16, 0);
	put_number(w, "group", s->group, 0);
	put_sizes(w, "threads", st, 0, ns, s->threads);
	if (s->share_axis >= 0) {
		put_key(w, "share");
		put(w, st->axis[s->share_axis].name);
		put(w, ":");
		put_int(w, s->share);
		if (s->boxes > 1) {
			put(w, "x");
			put_int(w, s->boxes);
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

static int key_lane(struct parser *ps, struct sstage *s)
{
	int64_t v;
	int rc = pair(ps, 16, &s->lane, &v);
	s->lanes = (int)v;
	return rc;
}

static int key_tile(struct parser *ps, struct sstage *s)
{
	return sizes(ps, 0, stage_spatial(ps->st), s->tile);
}

static int key_unroll(struct parser *ps, struct sstage *s)
{
	return sizes(ps, stage_spatial(ps->st), ps->st->naxes, s->unroll);
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

static int key_par(struct parser *ps, struct sstage *s)
{
	int64_t v;
	int rc = number(ps, 2 * MAX_AXES, &v);
	s->par = (int)v;
	return rc;
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

static int key_spread(struct parser *ps, struct sstage *s)
{
	int one;
	s->spread = true;
	return whole(ps, 1, 1, &one);
}

static int key_chains(struct parser *ps, struct sstage *s)
{
	int64_t v;
	int rc = number(ps, 64, &v);
	s->chains = (int)v;
	return rc;
}

static int key_hoist(struct parser *ps, struct sstage *s)
{
	int64_t v;
	int rc = number(ps, 1, &v);
	s->hoist = v != 0;
	return rc;
}

static int key_winograd(struct parser *ps, struct sstage *s)
{
	s->wino.parts = 1;
	return whole(ps, 1, 16, &s->wino.m);
}

static int key_tiles(struct parser *ps, struct sstage *s)
{
	return whole(ps, 1, 1 << 20, &s->wino.tiles);
}

static int key_gemm(struct parser *ps, struct sstage *s)
{
	int rc = whole(ps, 1, SCHED_TILE, &s->wino.px);
	if (rc >= 0 && *ps->p++ != 'x')
		return fail(E_CORRUPT, "schedule: gemm is not of the form TILESxVECTORS");
	return rc < 0 ? rc : whole(ps, 1, SCHED_TILE, &s->wino.kv);
}

static int key_chunk(struct parser *ps, struct sstage *s)
{
	return whole(ps, 1, 1 << 20, &s->wino.chunk);
}

static int key_raw(struct parser *ps, struct sstage *s)
{
	return whole(ps, 1, 1 << 20, &s->wino.raw);
}

static int key_parts(struct parser *ps, struct sstage *s)
{
	return whole(ps, 1, 4096, &s->wino.parts);
}

static int key_pixels(struct parser *ps, struct sstage *s)
{
	return whole(ps, 1, 1, &s->wino.pixels);
}

static int key_prefetch(struct parser *ps, struct sstage *s)
{
	return s->wino.m ? whole(ps, 0, 64, &s->wino.prefetch) : whole(ps, 1, 2, &s->prefetch);
}

static int key_feed(struct parser *ps, struct sstage *s)
{
	int one;
	s->feed = true;
	return whole(ps, 1, 1, &one);
}

static int key_quads(struct parser *ps, struct sstage *s)
{
	int one;
	s->quads = true;
	return whole(ps, 1, 1, &one);
}

static int key_mmla(struct parser *ps, struct sstage *s)
{
	int one;
	s->mmla = true;
	return whole(ps, 1, 1, &one);
}

static int key_w16(struct parser *ps, struct sstage *s)
{
	int one;
	s->w16 = true;
	return whole(ps, 1, 1, &one);
}

static int key_group(struct parser *ps, struct sstage *s)
{
	return whole(ps, 1, TARGET_MOST_GROUP, &s->group);
}

static int key_threads(struct parser *ps, struct sstage *s)
{
	return sizes(ps, 0, stage_spatial(ps->st), s->threads);
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

static int key_ring(struct parser *ps, struct sstage *s)
{
	int64_t v;
	int rc = pair(ps, SCHED_TILE, &s->ring_axis, &v);
	s->ring = (int)v;
	return rc;
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

static const struct {
	const char *name;
	int (*parse)(struct parser *ps, struct sstage *s);
} keys[] = {
    {"lane", key_lane},       {"tile", key_tile},     {"unroll", key_unroll},     {"order", key_order},
    {"par", key_par},         {"outer", key_outer},   {"split", key_split},       {"spread", key_spread},
    {"chains", key_chains},   {"hoist", key_hoist},   {"ring", key_ring},         {"winograd", key_winograd},
    {"tiles", key_tiles},     {"gemm", key_gemm},     {"chunk", key_chunk},       {"raw", key_raw},
    {"parts", key_parts},     {"pixels", key_pixels}, {"prefetch", key_prefetch}, {"feed", key_feed},
    {"quads", key_quads},     {"mmla", key_mmla},     {"w16", key_w16},           {"group", key_group},
    {"threads", key_threads}, {"share", key_share},   {"block", key_block}};

enum { NKEYS = sizeof keys / sizeof keys[0], KEY_BLOCK = NKEYS - 1 };

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
		if ((rc = keys[from++].parse(ps, s)) < 0)
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
		return fail(E_CORRUPT, "schedule: no pairs of %s", dtype_name(t->pairs));
	ps.p += n;
	for (int i = 0; i < t->nstages; i++) {
		ps.st = &t->stage[i];
		if (i && (*ps.p++ != ';' || *ps.p++ != ' '))
			return fail(E_CORRUPT, "schedule: %d of %d stages", i, t->nstages);
		int rc = parse_keys(&ps, &out->st[i], 0, KEY_BLOCK);
		if (rc < 0)
			return rc;
	}
	if (ps.p[0] == '|' && ps.p[1] == ' ') {
		ps.p += 2;
		int rc = parse_keys(&ps, &out->st[t->nstages - 1], KEY_BLOCK, NKEYS);
		if (rc < 0)
			return rc;
	}
	if (*ps.p)
		return fail(E_CORRUPT, "schedule: rest \"%.16s\" does not parse", ps.p);
	if (sched_text(t, out, again) < 0 || strcmp(again, text) != 0)
		return fail(E_CORRUPT, "schedule: not canonical; the canonical text is \"%.80s\"", again);
	return E_OK;
}
