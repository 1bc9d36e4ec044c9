/* SPDX-License-Identifier: Apache-2.0 */
/* The packer. Text: "E0,E1,... < S0,S1,... fill=F | OFF c0,c1,... | OFF ..." with one "| ..." per source dim;
 * before these come " f16", and a Winograd transform: " winograd=M,DIM,DIM,LOOP,LOOP". */
#include "kernels/task/pack.h"
#include "platform/base/until.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ELEMS (INT64_C(1) << 34)

#define F16_MOST 65504.f
#define BF16_MOST 0x1.fep127f
/* Smallest magnitude that a constant's largest element must have to be stored as f16: elements 2^-6 times as
 * large still have all digits. */
#define F16_LEAST 0x1p-8f
/* By which F(2,3) may enlarge filters: 1.5 in each direction. F(4,3) never does. */
#define GROWTH 2.25f

int64_t pack_elems(const struct packing *p)
{
	int64_t n = 1;
	for (int j = 0; j < p->n; j++)
		n *= p->extent[j];
	return n;
}

static int check_winograd(const struct packing *p)
{
	int m = p->winograd.m;
	const int *dim = p->winograd.dim, *loop = p->winograd.loop;
	if (!m)
		return E_OK;
	if ((m != 2 && m != 4) || dim[0] == dim[1] || loop[0] == loop[1])
		return fail(E_CORRUPT, "packing: winograd of %d", m);
	for (int i = 0; i < 2; i++) {
		if (dim[i] < 0 || dim[i] >= p->src.rank || p->src.d[dim[i]] != 3)
			return fail(E_CORRUPT, "packing: winograd of dim %d", dim[i]);
		if (loop[i] < 0 || loop[i] >= p->n - 1 || p->extent[loop[i]] != m + 2)
			return fail(E_CORRUPT, "packing: winograd along loop %d", loop[i]);
		for (int d = 0; d < p->src.rank; d++)
			if (p->coef[d][loop[i]])
				return fail(E_CORRUPT, "packing: winograd along loop %d, which moves",
					    loop[i]);
	}
	return E_OK;
}

bool pack_same(const struct packing *a, const struct packing *b)
{
	if (a->n != b->n || !shape_equal(&a->src, &b->src) || a->fill != b->fill || a->f16 != b->f16 ||
	    a->bf16 != b->bf16 || memcmp(&a->winograd, &b->winograd, sizeof a->winograd))
		return false;
	for (int j = 0; j < a->n; j++)
		if (a->extent[j] != b->extent[j])
			return false;
	for (int d = 0; d < a->src.rank; d++) {
		if (a->off[d] != b->off[d])
			return false;
		for (int j = 0; j < a->n; j++)
			if (a->coef[d][j] != b->coef[d][j])
				return false;
	}
	return true;
}

int pack_check(const struct packing *p)
{
	if (p->n < 0 || p->n > PACK_MAX || p->src.rank < 0 || p->src.rank > MAX_RANK || !isfinite(p->fill))
		return fail(E_CORRUPT, "packing: %d loops over rank %d", p->n, p->src.rank);
	int64_t elems = 1, src = 1;
	for (int j = 0; j < p->n; j++) {
		if (p->extent[j] < 1 || p->extent[j] > MAX_ELEMS / elems)
			return fail(E_CORRUPT, "packing: extent %d is out of range", j);
		elems *= p->extent[j];
	}
	for (int d = 0; d < p->src.rank; d++) {
		if (p->src.d[d] < 1 || p->src.d[d] > MAX_ELEMS / src)
			return fail(E_CORRUPT, "packing: source dim %d is out of range", d);
		src *= p->src.d[d];
		if (p->off[d] < -INT32_MAX || p->off[d] > INT32_MAX)
			return fail(E_CORRUPT, "packing: offset %d is out of range", d);
	}
	if (p->f16 && p->bf16)
		return fail(E_CORRUPT, "packing: both f16 and bf16");
	if (p->f16 && fabsf(p->fill) > F16_MOST)
		return fail(E_CORRUPT, "packing: f16 does not hold the fill value");
	return check_winograd(p);
}

enum dtype pack_type(const struct packing *p, enum dtype t)
{
	return p->f16 ? DT_F16 : p->bf16 ? DT_BF16 : t;
}

float pack_largest(const float *v, int64_t n)
{
	float most = 0;
	bool finite = true;
	for (int64_t i = 0; i < n; i++) {
		finite &= isfinite(v[i]) != 0;
		most = fabsf(v[i]) > most ? fabsf(v[i]) : most;
	}
	return finite ? most : INFINITY;
}

/* F(4,3): the factor 9 turns the sums into multiples of 1/64 of sums a b k of at most 49 times 25. F(2,3):
 * they are multiples of 9/4, of at most 9 times 25. Both have at most 11 digits. */
float pack_exact(float v)
{
	float k = rintf(v * 25);
	return (k != 0 ? k : 1) * (9.f / 256);
}

static bool holds(float largest, float growth)
{
	return largest == 0 || (largest >= F16_LEAST && largest <= F16_MOST / growth);
}

bool pack_holds(const struct packing *p, float largest)
{
	return p->bf16 ? largest <= BF16_MOST : holds(largest, p->winograd.m == 2 ? GROWTH : 1);
}

bool pack_holds_any(float largest)
{
	return holds(largest, GROWTH);
}

/* The source as it is walked when no index is ever outside of it: plain offsets, without bounds. */
struct walk {
	int64_t begin;          /* offset of the first element */
	int64_t step[PACK_MAX]; /* that an index of loop j moves */
};

/* Row-major strides of the source's dims. */
static void source_strides(const struct packing *p, int64_t *stride)
{
	for (int d = p->src.rank - 1; d >= 0; d--)
		stride[d] = d == p->src.rank - 1 ? 1 : stride[d + 1] * p->src.d[d + 1];
}

/* Returns whether every index lies inside of the source, a filter's taps included: most packings have no
 * padding, and the tests of each index cost several times what the copy does. */
static bool walks_inside(const struct packing *p, struct walk *w)
{
	int64_t stride[MAX_RANK];
	source_strides(p, stride);
	*w = (struct walk){0};
	for (int d = 0; d < p->src.rank; d++) {
		int64_t lo = p->off[d], hi = p->off[d];
		for (int j = 0; j < p->n; j++) {
			int64_t span = p->coef[d][j] * (p->extent[j] - 1);
			lo += span < 0 ? span : 0;
			hi += span > 0 ? span : 0;
		}
		if (p->winograd.m && (d == p->winograd.dim[0] || d == p->winograd.dim[1]))
			hi += 2;
		if (lo < 0 || hi >= p->src.d[d])
			return false;
		w->begin += p->off[d] * stride[d];
		for (int j = 0; j < p->n; j++)
			w->step[j] += p->coef[d][j] * stride[d];
	}
	return true;
}

/* Elements are floats or bytes; the other pointer is NULL. Floats may become 16-bit ones. */
struct source {
	const float *f;
	const uint8_t *b;
};

struct dest {
	float *f;
	uint8_t *b;
	uint16_t *h;
	uint16_t (*round)(float f); /* makes an element of h */
};

static void fill(struct dest dst, int64_t from, int64_t to, float v)
{
	for (int64_t i = from; i < to && dst.f; i++)
		dst.f[i] = v;
	for (int64_t i = from; i < to && dst.b; i++)
		dst.b[i] = v > -129 && v < 256 ? (uint8_t)(int)v : 0;
	for (int64_t i = from; i < to && dst.h; i++)
		dst.h[i] = dst.round(v);
}

static struct dest advance(struct dest d, int64_t n)
{
	return (struct dest){d.f ? d.f + n : NULL, d.b ? d.b + n : NULL, d.h ? d.h + n : NULL, d.round};
}

/* One innermost run: source element i is src[at + i * step] for lo <= i < hi, else fill. Bounds of every
 * source dim are intersected, so the loop has no tests. */
static void run_inner(const struct packing *p, const int64_t *index, const int64_t *stride, struct source src,
		      struct dest dst, int64_t n)
{
	int64_t lo = 0, hi = n;
	uint64_t at = 0, step = 0; /* modulo 2^64: an index outside of the source may be far away */
	for (int d = 0; d < p->src.rank; d++) {
		int64_t c = p->n ? p->coef[d][p->n - 1] : 0, size = p->src.d[d], v = index[d];
		at += (uint64_t)v * (uint64_t)stride[d];
		step += (uint64_t)c * (uint64_t)stride[d];
		if (c < 0) { /* mirror the dim: v' = size - 1 - v ascends */
			c = -c;
			v = size - 1 - v;
		}
		int64_t first = v >= 0 ? 0
				: c    ? (-v + c - 1) / c
				       : n,
			end = v >= size ? 0
			      : c       ? (size - 1 - v) / c + 1
					: n;
		lo = first > lo ? first : lo;
		hi = end < hi ? end : hi;
	}
	hi = hi < lo ? lo : hi;
	fill(dst, 0, lo < n ? lo : n, p->fill);
	for (int64_t i = lo; i < hi && dst.f; i++)
		dst.f[i] = src.f[at + (uint64_t)i * step];
	for (int64_t i = lo; i < hi && dst.b; i++)
		dst.b[i] = src.b[at + (uint64_t)i * step];
	for (int64_t i = lo; i < hi && dst.h; i++)
		dst.h[i] = dst.round(src.f[at + (uint64_t)i * step]);
	fill(dst, hi, n, p->fill);
}

/* Rows of G: points 0, 1, -1, (2, -2,) infinity. */
static const double filter2[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
static const double filter4[6][3] = {{1. / 4, 0, 0},
				     {-1. / 6, -1. / 6, -1. / 6},
				     {-1. / 6, 1. / 6, -1. / 6},
				     {1. / 24, 1. / 12, 1. / 6},
				     {1. / 24, -1. / 12, 1. / 6},
				     {0, 0, 1}};

enum {
	FILTERS = 16, /* filters transformed together, so that the compiler can vectorise */
	HELD = 64
};

/* Filters on their way to the destination, in the order of it. Its 16 or 36 points lie far apart, often by a
 * multiple of a cache way's size: a line that is written in several parts would be evicted in between. */
struct held {
	int n;             /* filters */
	struct dest dst;   /* of the whole packing: floats of 32 or 16 bits */
	int64_t to;        /* the element that gets the first point of the first one */
	double g[9][HELD]; /* their taps */
	float v[36][HELD]; /* transformed */
};

/* Transforms filters at to at + FILTERS - 1. */
static void transform(int m, struct held *h, int at)
{
	const double(*G)[3] = m == 2 ? filter2 : filter4;
	for (int i = 0; i < m + 2; i++) {
		double row[3][FILTERS];
		for (int s = 0; s < 3; s++)
			for (int f = 0; f < FILTERS; f++)
				row[s][f] = G[i][0] * h->g[s][at + f] + G[i][1] * h->g[3 + s][at + f] +
					    G[i][2] * h->g[6 + s][at + f];
		for (int j = 0; j < m + 2; j++)
			for (int f = 0; f < FILTERS; f++)
				h->v[i * (m + 2) + j][at + f] =
				    (float)(G[j][0] * row[0][f] + G[j][1] * row[1][f] + G[j][2] * row[2][f]);
	}
}

/* Writes one point of all filters to elements from `to` on. */
static void put_point(const struct held *h, const float *v, int64_t to)
{
	if (h->dst.f)
		memcpy(h->dst.f + to, v, (size_t)h->n * sizeof *v);
	for (int i = 0; i < h->n && h->dst.h; i++)
		h->dst.h[to + i] = h->dst.round(v[i]);
}

/* Transforms the filters and writes point (i, j) of them to to + i * step[0] + j * step[1]. */
static void flush_held(struct held *h, int m, const int64_t *step)
{
	for (int at = 0; at < h->n; at += FILTERS)
		transform(m, h, at);
	for (int i = 0; i < m + 2 && h->n; i++)
		for (int j = 0; j < m + 2; j++)
			put_point(h, h->v[i * (m + 2) + j], h->to + i * step[0] + j * step[1]);
	h->n = 0;
}

/* Reads, tap by tap, the filters at index[] + i * coef[.][last]; outside of the source: fill. */
static void read_filters(const struct packing *p, const int64_t *index, const int64_t *stride,
			 const float *src, struct held *h, int64_t n)
{
	int last = p->n - 1;
	for (int64_t f = 0; f < n; f++) {
		int64_t v[MAX_RANK];
		for (int d = 0; d < p->src.rank; d++)
			v[d] = index[d] + p->coef[d][last] * f;
		for (int tap = 0; tap < 9; tap++) {
			int64_t at = 0;
			bool in = true;
			for (int d = 0; d < p->src.rank; d++) {
				int64_t i = v[d] + (d == p->winograd.dim[0]   ? tap / 3
						    : d == p->winograd.dim[1] ? tap % 3
									      : 0);
				in &= i >= 0 && i < p->src.d[d];
				at += in ? i * stride[d] : 0;
			}
			h->g[tap][h->n + f] = (double)(in ? src[at] : p->fill);
		}
	}
}

/* The same where all filters lie inside: filter f begins at src[f * step]. */
static void read_inside(const float *src, int64_t step, const int64_t *tap, struct held *h, int64_t n)
{
	for (int64_t f = 0; f < n; f++)
		for (int k = 0; k < 9; k++)
			h->g[k][h->n + f] = (double)src[f * step + tap[k]];
}

/* Makes room for n filters whose first point goes to element `to`. */
static void make_room(struct held *h, int m, const int64_t *step, int64_t to, int64_t n)
{
	if (h->n + n > HELD || (h->n && h->to + h->n != to))
		flush_held(h, m, step);
	if (!h->n)
		h->to = to;
}

static void run_winograd(const struct packing *p, const float *src, struct dest dst)
{
	int64_t at[PACK_MAX] = {0}, stride[MAX_RANK], to[PACK_MAX] = {0}, extent[PACK_MAX], index[MAX_RANK];
	int64_t inner = p->extent[p->n - 1], rounds = 1;
	source_strides(p, stride);
	for (int j = p->n - 1; j >= 0; j--) {
		to[j] = j == p->n - 1 ? 1 : to[j + 1] * p->extent[j + 1];
		extent[j] = j == p->winograd.loop[0] || j == p->winograd.loop[1] ? 1 : p->extent[j];
		rounds *= j == p->n - 1 ? 1 : extent[j];
	}
	const int64_t step[2] = {to[p->winograd.loop[0]], to[p->winograd.loop[1]]};
	struct walk walk;
	struct held h = {.dst = dst};
	bool inside = walks_inside(p, &walk);
	int64_t tap[9];
	for (int k = 0; k < 9; k++)
		tap[k] = k / 3 * stride[p->winograd.dim[0]] + k % 3 * stride[p->winograd.dim[1]];
	for (int64_t done = 0, next = 0; done < rounds && !until_over_at(done * inner * 9, &next); done++) {
		int64_t out = 0, from = walk.begin;
		for (int j = 0; j < p->n - 1; j++) {
			out += to[j] * at[j];
			from += walk.step[j] * at[j];
		}
		for (int64_t f = 0; f < inner; f += FILTERS) {
			int64_t n = inner - f < FILTERS ? inner - f : FILTERS;
			make_room(&h, p->winograd.m, step, out + f, n);
			for (int d = 0; d < p->src.rank && !inside; d++) {
				index[d] = p->off[d] + p->coef[d][p->n - 1] * f;
				for (int j = 0; j < p->n - 1; j++)
					index[d] += p->coef[d][j] * at[j];
			}
			if (inside)
				read_inside(src + from + walk.step[p->n - 1] * f, walk.step[p->n - 1], tap,
					    &h, n);
			else
				read_filters(p, index, stride, src, &h, n);
			h.n += (int)n;
		}
		for (int j = p->n - 2; j >= 0 && ++at[j] == extent[j]; j--)
			at[j] = 0;
	}
	flush_held(&h, p->winograd.m, step);
}

static void run_inside(const struct packing *p, const struct walk *w, struct source src, struct dest dst)
{
	int64_t at[PACK_MAX] = {0}, from = w->begin;
	int64_t inner = p->n ? p->extent[p->n - 1] : 1, step = p->n ? w->step[p->n - 1] : 0;
	int64_t total = pack_elems(p);
	for (int64_t next = 0, done = 0; done < total && !until_over_at(done, &next);
	     done += inner, dst = advance(dst, inner)) {
		for (int64_t i = 0; i < inner && dst.f; i++)
			dst.f[i] = src.f[from + i * step];
		for (int64_t i = 0; i < inner && dst.b; i++)
			dst.b[i] = src.b[from + i * step];
		for (int64_t i = 0; i < inner && dst.h; i++)
			dst.h[i] = dst.round(src.f[from + i * step]);
		for (int j = p->n - 2; j >= 0; j--) {
			from += w->step[j];
			if (++at[j] < p->extent[j])
				break;
			from -= w->step[j] * p->extent[j];
			at[j] = 0;
		}
	}
}

static void run_bounded(const struct packing *p, struct source src, struct dest dst)
{
	int64_t at[PACK_MAX] = {0}, stride[MAX_RANK], index[MAX_RANK];
	int64_t inner = p->n ? p->extent[p->n - 1] : 1, total = pack_elems(p);
	source_strides(p, stride);
	for (int64_t next = 0, done = 0; done < total && !until_over_at(done, &next);
	     done += inner, dst = advance(dst, inner)) {
		for (int d = 0; d < p->src.rank; d++) {
			index[d] = p->off[d];
			for (int j = 0; j < p->n - 1; j++)
				index[d] += p->coef[d][j] * at[j];
		}
		run_inner(p, index, stride, src, dst, inner);
		for (int j = p->n - 2; j >= 0 && ++at[j] == p->extent[j]; j--)
			at[j] = 0;
	}
}

static void run_copy(const struct packing *p, struct source src, struct dest dst)
{
	struct walk walk;
	if (walks_inside(p, &walk))
		run_inside(p, &walk, src, dst);
	else
		run_bounded(p, src, dst);
}

void pack_run(const struct packing *p, const float *src, void *dst)
{
	bool half = p->f16 || p->bf16;
	const struct dest to = {
	    .f = half ? NULL : dst, .h = half ? dst : NULL, .round = p->f16 ? f32_to_f16 : f32_to_bf16};
	if (p->winograd.m)
		run_winograd(p, src, to);
	else
		run_copy(p, (struct source){.f = src}, to);
}

void pack_run_bytes(const struct packing *p, const uint8_t *src, uint8_t *dst)
{
	run_copy(p, (struct source){.b = src}, (struct dest){.b = dst});
}

void pack_run_type(const struct packing *p, enum dtype t, const void *src, void *dst)
{
	if (dtype_bytes(t) == 1)
		pack_run_bytes(p, src, dst);
	else
		pack_run(p, src, dst);
}

static void put_list(struct buf *out, const int64_t *v, int n)
{
	for (int i = 0; i < n; i++)
		buf_printf(out, i ? ",%lld" : "%lld", (long long)v[i]);
}

void pack_text(const struct packing *p, struct buf *out)
{
	put_list(out, p->extent, p->n);
	buf_puts(out, " < ");
	put_list(out, p->src.d, p->src.rank);
	buf_printf(out, " fill=%.9g", (double)p->fill);
	if (p->f16)
		buf_puts(out, " f16");
	if (p->bf16)
		buf_puts(out, " bf16");
	if (p->winograd.m)
		buf_printf(out, " winograd=%d,%d,%d,%d,%d", p->winograd.m, p->winograd.dim[0],
			   p->winograd.dim[1], p->winograd.loop[0], p->winograd.loop[1]);
	for (int d = 0; d < p->src.rank; d++) {
		int64_t c[PACK_MAX];
		for (int j = 0; j < p->n; j++)
			c[j] = p->coef[d][j];
		buf_printf(out, " | %lld ", (long long)p->off[d]);
		put_list(out, c, p->n);
	}
}

/* Reads a list of at most max integers, which may be empty; < 0: malformed. */
static int get_list(const char **s, int64_t *v, int max)
{
	int n = 0;
	char *end;
	while (**s == '-' || (**s >= '0' && **s <= '9')) {
		if (n == max)
			return -1;
		v[n++] = strtoll(*s, &end, 10);
		if (end == *s)
			return -1;
		*s = end;
		if (**s != ',')
			break;
		(*s)++;
	}
	return n;
}

static bool eat(const char **s, const char *word)
{
	size_t n = strlen(word);
	if (strncmp(*s, word, n))
		return false;
	*s += n;
	return true;
}

static int get_winograd(const char **s, struct packing *out)
{
	int64_t v[5];
	if (!eat(s, " winograd="))
		return E_OK;
	if (get_list(s, v, 5) != 5)
		return fail(E_CORRUPT, "packing: winograd");
	for (int i = 0; i < 5; i++)
		if (v[i] < 0 || v[i] > PACK_MAX)
			return fail(E_CORRUPT, "packing: winograd of %lld", (long long)v[i]);
	out->winograd.m = (int)v[0];
	for (int i = 0; i < 2; i++) {
		out->winograd.dim[i] = (int)v[1 + i];
		out->winograd.loop[i] = (int)v[3 + i];
	}
	return out->winograd.m ? E_OK : fail(E_CORRUPT, "packing: winograd of 0");
}

int pack_parse(const char *text, struct packing *out)
{
	const char *s = text;
	char *end;
	memset(out, 0, sizeof *out);
	out->n = get_list(&s, out->extent, PACK_MAX);
	if (out->n < 0 || !eat(&s, " < "))
		return fail(E_CORRUPT, "packing: extents");
	out->src.rank = get_list(&s, out->src.d, MAX_RANK);
	if (out->src.rank < 0 || !eat(&s, " fill="))
		return fail(E_CORRUPT, "packing: source dims");
	out->fill = strtof(s, &end);
	if (end == s)
		return fail(E_CORRUPT, "packing: fill");
	s = end;
	out->f16 = eat(&s, " f16");
	out->bf16 = eat(&s, " bf16");
	int rc = get_winograd(&s, out);
	if (rc < 0)
		return rc;
	for (int d = 0; d < out->src.rank; d++) {
		int64_t c[PACK_MAX];
		if (!eat(&s, " | ") || get_list(&s, &out->off[d], 1) != 1 || !eat(&s, " ") ||
		    get_list(&s, c, PACK_MAX) != out->n)
			return fail(E_CORRUPT, "packing: source index %d", d);
		for (int j = 0; j < out->n; j++) {
			if (c[j] < -(1 << 24) || c[j] > 1 << 24)
				return fail(E_CORRUPT, "packing: coefficient of source index %d", d);
			out->coef[d][j] = (int32_t)c[j];
		}
	}
	return *s ? fail(E_CORRUPT, "packing: text after the end") : pack_check(out);
}
