/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/lifetimes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
	ALIGN = 64,
	TRIES = 64, /* more maps per order; before each, the buffer that ends the last map moves forward */
	MOST_WORK = 1 << 24, /* pairs compared in all of them: 50 ms */
};

struct item {
	struct lifetime *l;
	int64_t bytes; /* in whole lines */
	int64_t crowd; /* most bytes alive at once during its life */
	int64_t at, best_at;
};

struct map {
	int n;
	struct item *item, **order, **near;
	int64_t total, best, least;
};

static int order_by(int64_t x, int64_t y, const struct item *a, const struct item *b)
{
	return x != y ? x < y ? -1 : 1 : a < b ? -1 : a > b;
}

static int larger_first(const void *p, const void *q)
{
	const struct item *a = *(struct item *const *)p, *b = *(struct item *const *)q;
	return order_by(-a->bytes, -b->bytes, a, b);
}

static int crowded_first(const void *p, const void *q)
{
	const struct item *a = *(struct item *const *)p, *b = *(struct item *const *)q;
	return a->crowd != b->crowd ? order_by(-a->crowd, -b->crowd, a, b) : larger_first(p, q);
}

static int earlier_first(const void *p, const void *q)
{
	const struct item *a = *(struct item *const *)p, *b = *(struct item *const *)q;
	return a->l->from != b->l->from ? order_by(a->l->from, b->l->from, a, b) : larger_first(p, q);
}

static int lower_first(const void *p, const void *q)
{
	const struct item *a = *(struct item *const *)p, *b = *(struct item *const *)q;
	return order_by(a->at, b->at, a, b);
}

static bool together(const struct lifetime *a, const struct lifetime *b)
{
	return a->from <= b->to && b->from <= a->to;
}

static bool lives_at(const struct lifetime *l, int step)
{
	return l->from <= step && step <= l->to;
}

/* The step at which a place was last freed before `step`; INT32_MIN: never used. */
static int freed(const struct map *m, int placed, int64_t at, int64_t bytes, int step)
{
	int last = INT32_MIN;
	for (int i = 0; i < placed; i++) {
		const struct item *x = m->order[i];
		if (x->l->to < step && x->l->to > last && x->at < at + bytes && at < x->at + x->bytes)
			last = x->l->to;
	}
	return last;
}

/* Smallest gap between the placed ones that live together with order[k]; the end where none fits. */
static int64_t best_gap(const struct map *m, int k, int n)
{
	const struct item *x = m->order[k];
	int64_t top = 0, best = -1, best_room = INT64_MAX;
	qsort(m->near, (size_t)n, sizeof *m->near, lower_first);
	for (int i = 0; i < n; i++) {
		int64_t room = m->near[i]->at - top, end = m->near[i]->at + m->near[i]->bytes;
		if (room >= x->bytes && (room < best_room || (room == best_room &&
							      freed(m, k, top, x->bytes, x->l->from) >
								  freed(m, k, best, x->bytes, x->l->from)))) {
			best = top;
			best_room = room;
		}
		top = end > top ? end : top;
	}
	return best >= 0 ? best : top;
}

/* In the order of m; keeps the map if it is the smallest so far. */
static void place(struct map *m)
{
	m->total = 0;
	for (int i = 0; i < m->n; i++) {
		int count = 0;
		struct item *x = m->order[i];
		for (int j = 0; j < i; j++)
			if (together(m->order[j]->l, x->l))
				m->near[count++] = m->order[j];
		x->at = best_gap(m, i, count);
		m->total = x->at + x->bytes > m->total ? x->at + x->bytes : m->total;
	}
	if (m->total >= m->best)
		return;
	m->best = m->total;
	for (int i = 0; i < m->n; i++)
		m->item[i].best_at = m->item[i].at;
}

/* Moves the buffer that ends the map halfway to the front. Returns false if it is there already. */
static bool move_forward(struct map *m)
{
	int at = 0;
	while (m->order[at]->at + m->order[at]->bytes != m->total)
		at++;
	struct item *top = m->order[at];
	memmove(&m->order[at / 2 + 1], &m->order[at / 2], sizeof *m->order * (size_t)(at - at / 2));
	m->order[at / 2] = top;
	return at > 0;
}

static void crowds(struct map *m)
{
	m->least = 0;
	for (int i = 0; i < m->n; i++) { /* most live at a step where one begins */
		int64_t live = 0;
		for (int j = 0; j < m->n; j++)
			live += lives_at(m->item[j].l, m->item[i].l->from) ? m->item[j].bytes : 0;
		m->least = live > m->least ? live : m->least;
		for (int j = 0; j < m->n; j++)
			if (lives_at(m->item[j].l, m->item[i].l->from) && m->item[j].crowd < live)
				m->item[j].crowd = live;
	}
}

static bool good_enough(const struct map *m)
{
	return m->best <= m->least + m->least / 20;
}

static void try_orders(struct map *m)
{
	static int (*const orders[])(const void *, const void *) = {larger_first, crowded_first,
								    earlier_first};
	int64_t work = 0, each = (int64_t)m->n * m->n;
	for (int k = 0; k < 3 && m->best > m->least; k++) {
		qsort(m->order, (size_t)m->n, sizeof *m->order, orders[k]);
		place(m);
		for (int i = 0; i < TRIES && !good_enough(m) && (work += each) < MOST_WORK; i++) {
			if (!move_forward(m))
				break;
			place(m);
		}
	}
}

static int begin(struct map *m, struct lifetime *l, int n)
{
	*m = (struct map){.n = n, .best = INT64_MAX};
	m->item = calloc((size_t)n + 1, sizeof *m->item);
	m->order = calloc((size_t)n + 1, sizeof *m->order);
	m->near = calloc((size_t)n + 1, sizeof *m->near);
	if (!m->item || !m->order || !m->near)
		return fail(E_NOMEM, "no memory for a map of %d buffers", n);
	for (int i = 0; i < n; i++) {
		m->item[i] = (struct item){.l = &l[i], .bytes = (l[i].bytes + ALIGN - 1) / ALIGN * ALIGN};
		m->order[i] = &m->item[i];
	}
	crowds(m);
	return E_OK;
}

static void end(struct map *m)
{
	free(m->item);
	free(m->order);
	free(m->near);
}

int64_t lifetimes_place(struct lifetime *l, int n)
{
	struct map m;
	int64_t rc = begin(&m, l, n);
	if (rc >= 0 && n > 0) {
		try_orders(&m);
		rc = m.best;
	}
	for (int i = 0; i < n && rc >= 0; i++)
		l[i].at = m.item[i].best_at;
	end(&m);
	return rc;
}

int64_t lifetimes_least(const struct lifetime *l, int n)
{
	int64_t least = 0;
	for (int i = 0; i < n; i++) {
		int64_t live = 0;
		for (int j = 0; j < n; j++)
			if (lives_at(&l[j], l[i].from))
				live += (l[j].bytes + ALIGN - 1) / ALIGN * ALIGN;
		least = live > least ? live : least;
	}
	return least;
}
