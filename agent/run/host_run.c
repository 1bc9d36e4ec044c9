/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/host_math.h"
#include "agent/run/host_parts.h"

#include <string.h>

enum { STACK = 20 };

_Static_assert(HOST_BLOCK % HOST_LANES == 0, "host_apply rounds up");

struct scratch {
	float stack[STACK][HOST_BLOCK];
	float acc[HOST_BLOCK];
	int64_t at[ROWS][MAX_AXES];
	int64_t first[MAX_OPERANDS][ROWS]; /* offset of each row of each view */
	int64_t guard[MAX_OPERANDS][GUARDS][ROWS];
};

size_t host_scratch_bytes(void)
{
	return sizeof(struct scratch) > flat_scratch_bytes() ? sizeof(struct scratch) : flat_scratch_bytes();
}

static int64_t view_offset(const struct view *v, int d, int64_t i)
{
	return host_offset(v->ax, v->naxes, v->o, d, i);
}

static bool inside(const struct operand *o, int d, int64_t i)
{
	return i >= -o->layout.lo[d] && i < o->dims.d[d] + o->layout.hi[d];
}

/* Rows begin + j: their axes, and each fast view's offsets at reduction point 0. */
static void start_rows(const struct hstage *h, void *const *bufs, int64_t begin, int n, struct scratch *w)
{
	for (int j = 0; j < n; j++) {
		int64_t left = begin + j;
		memset(w->at[j], 0, sizeof w->at[j]);
		for (int a = h->nspatial - 1; a >= 0; a--) {
			int64_t e = h->s->axis[a].extent, size = a == h->axis ? (e + h->run - 1) / h->run : e;
			w->at[j][a] = left % size * (a == h->axis ? h->run : 1);
			left /= size;
		}
		for (int i = 0; i < h->s->nreads; i++) {
			const struct view *v = &h->view[i];
			w->first[i][j] = 0;
			int g = 0;
			for (int d = 0; v->fast && d < v->o->dims.rank; d++) {
				int64_t x = index_value(h->s, &v->r->dim[d], bufs, w->at[j]);
				if (g < v->nguards && v->guard_dim[g] == d) {
					w->guard[i][g++][j] = x;
					int64_t one = view_offset(v, d, 1) - view_offset(v, d, 0);
					w->first[i][j] +=
					    host_is_split(v->o, d)
						? (inside(v->o, d, x) ? view_offset(v, d, x) : 0)
						: view_offset(v, d, 0) + x * one;
					continue;
				}
				w->first[i][j] += view_offset(v, d, x);
			}
		}
	}
}

static int64_t run_length(const struct hstage *h, const struct scratch *w, int j)
{
	if (h->axis < 0)
		return 1;
	int64_t left = h->s->axis[h->axis].extent - w->at[j][h->axis];
	return left < h->run ? left : h->run;
}

static bool guards_hold(const struct view *v, const struct scratch *w, int i, int j, int64_t p)
{
	for (int g = 0; g < v->nguards; g++)
		if (!inside(v->o, v->guard_dim[g], w->guard[i][g][j] + (v->delta ? v->guard_delta[g][p] : 0)))
			return false;
	return true;
}

static void load_slow(const struct hstage *h, int i, void *const *bufs, int64_t p, struct scratch *w, int j,
		      float *out)
{
	const struct view *v = &h->view[i];
	const float *src = bufs[v->r->operand];
	int64_t at[MAX_AXES], n = run_length(h, w, j);
	memcpy(at, w->at[j], sizeof at);
	for (int a = h->s->naxes - 1; a >= h->nspatial; a--) {
		at[a] = p % h->s->axis[a].extent;
		p /= h->s->axis[a].extent;
	}
	for (int64_t x = 0; x < n; x++) {
		int64_t off = 0;
		bool good = true;
		for (int d = 0; d < v->o->dims.rank && good; d++) {
			int64_t idx = index_value(h->s, &v->r->dim[d], bufs, at);
			good = inside(v->o, d, idx);
			off += good ? view_offset(v, d, idx) : 0;
		}
		out[x] = good ? src[off] : v->o->fill;
		if (h->axis >= 0)
			at[h->axis]++;
	}
}

/* Read i of n rows at reduction point p into out[row * RUN ..]. */
static void load(const struct hstage *h, int i, void *const *bufs, int64_t p, struct scratch *w, int n,
		 float *out)
{
	const struct view *v = &h->view[i];
	for (int j = 0; j < n; j++, out += RUN) {
		if (!v->fast) {
			load_slow(h, i, bufs, p, w, j, out);
			continue;
		}
		int64_t len = run_length(h, w, j), step = v->step;
		bool good = !v->nguards || guards_hold(v, w, i, j, p);
		const float *src = (const float *)bufs[v->r->operand] +
				   (good ? w->first[i][j] + (v->delta ? v->delta[p] : 0) : 0);
		if (!good)
			for (int64_t x = 0; x < len; x++)
				out[x] = v->o->fill;
		else if (step == 1)
			memcpy(out, src, sizeof *out * (size_t)len);
		else
			for (int64_t x = 0; x < len; x++)
				out[x] = src[x * step];
	}
}

/* Interprets a program over n rows; the result is stack[0]. */
static void run_prog(const struct hstage *h, const struct prog *q, void *const *bufs, int64_t p,
		     struct scratch *w, int n)
{
	int top = 0, count = n * RUN;
	for (int i = 0; i < q->n; i++) {
		enum prog_op op = q->at[i].op;
		top -= prog_op_arity(op);
		float *a = w->stack[top];
		if (op == P_READ)
			load(h, q->at[i].arg, bufs, p, w, n, a);
		else if (op == P_ACC)
			memcpy(a, w->acc, sizeof *a * (size_t)count);
		else if (op == P_IMM)
			for (int k = 0; k < count; k++)
				a[k] = q->at[i].imm;
		else
			host_apply(op, a, w->stack[top + 1], w->stack[top + 2], count);
		top++;
	}
}

typedef float v4 __attribute__((vector_size(16), aligned(4)));

/* acc[x] += s * b[x] */
static inline void axpy(float *acc, float s, const float *b, int64_t n)
{
	int64_t x = 0;
	for (; x + 4 <= n; x += 4)
		*(v4 *)(acc + x) += *(const v4 *)(b + x) * s;
	for (; x < n; x++)
		acc[x] += s * b[x];
}

static inline void multiply(float *acc, const float *a, int64_t sa, const float *b, int64_t sb, int64_t n)
{
	if (sa == 0 && sb == 1) {
		axpy(acc, *a, b, n);
	} else if (sa == 1 && sb == 0) {
		axpy(acc, *b, a, n);
	} else if (sa == 1 && sb == 1) {
		int64_t x = 0;
		for (; x + 4 <= n; x += 4)
			*(v4 *)(acc + x) += *(const v4 *)(a + x) * *(const v4 *)(b + x);
		for (; x < n; x++)
			acc[x] += a[x] * b[x];
	} else {
		for (int64_t x = 0; x < n; x++)
			acc[x] += a[x * sa] * b[x * sb];
	}
}

typedef float v16 __attribute__((vector_size(64), aligned(4)));

/* Two rows of 16: acc0 += s0[ds[p]] * b[db[p] ..], acc1 likewise from s1; accumulators stay in registers. */
static void two_rows(const float *s0, const float *s1, const int64_t *ds, const float *b, const int64_t *db,
		     int64_t points, float *acc0, float *acc1)
{
	v16 x0 = {0}, x1 = {0};
	for (int64_t p = 0; p < points; p++) {
		v16 v = *(const v16 *)(b + db[p]);
		x0 += v * s0[ds[p]];
		x1 += v * s1[ds[p]];
	}
	*(v16 *)acc0 = x0;
	*(v16 *)acc1 = x1;
}

/* Rows j and j + 1 where one factor is a scalar per row and the other is shared by both. */
static bool run_pair(const struct hstage *h, void *const *bufs, struct scratch *w, int j, int64_t len)
{
	for (int scalar = 0; scalar < 2; scalar++) {
		const struct view *s = &h->view[scalar], *b = &h->view[!scalar];
		const int64_t *sf = w->first[scalar], *bf = w->first[!scalar];
		if (s->step != 0 || b->step != 1 || bf[j] != bf[j + 1] || len % 16)
			continue;
		const float *sp = bufs[s->r->operand], *bp = bufs[b->r->operand];
		for (int64_t x = 0; x < len; x += 16)
			two_rows(sp + sf[j], sp + sf[j + 1], s->delta, bp + bf[j] + x, b->delta, h->points,
				 w->acc + j * RUN + x, w->acc + (j + 1) * RUN + x);
		return true;
	}
	return false;
}

static void run_row(const struct hstage *h, void *const *bufs, struct scratch *w, int j, int64_t len)
{
	const struct view *va = &h->view[0], *vb = &h->view[1];
	const float *a = bufs[va->r->operand], *b = bufs[vb->r->operand];
	float *acc = w->acc + j * RUN, fa = va->o->fill, fb = vb->o->fill;
	memset(acc, 0, sizeof *acc * RUN);
	for (int64_t p = 0; p < h->points; p++) {
		bool ga = !va->nguards || guards_hold(va, w, 0, j, p),
		     gb = !vb->nguards || guards_hold(vb, w, 1, j, p);
		multiply(acc, ga ? a + w->first[0][j] + va->delta[p] : &fa, ga ? va->step : 0,
			 gb ? b + w->first[1][j] + vb->delta[p] : &fb, gb ? vb->step : 0, len);
	}
}

/* Sum of products over all reduction points, straight into the accumulators. */
static void run_product(const struct hstage *h, void *const *bufs, struct scratch *w, int n)
{
	bool free = !h->view[0].nguards && !h->view[1].nguards;
	for (int j = 0; j < n; j++) {
		int64_t len = run_length(h, w, j);
		if (free && j + 1 < n && run_length(h, w, j + 1) == len && run_pair(h, bufs, w, j, len))
			j++;
		else
			run_row(h, bufs, w, j, len);
	}
}

static void combine(enum combiner c, float *acc, const float *v, int n)
{
	switch (c) {
	case COMB_SUM:
		for (int k = 0; k < n; k++)
			acc[k] += v[k];
		break;
	case COMB_MAX:
		for (int k = 0; k < n; k++)
			acc[k] = acc[k] > v[k] ? acc[k] : v[k];
		break;
	case COMB_MIN:
		for (int k = 0; k < n; k++)
			acc[k] = acc[k] < v[k] ? acc[k] : v[k];
		break;
	case COMB_PROD:
		for (int k = 0; k < n; k++)
			acc[k] *= v[k];
		break;
	default:
		memcpy(acc, v, sizeof *acc * (size_t)n);
	}
}

static void store(const struct hstage *h, void *const *bufs, struct scratch *w, int n, const float *v)
{
	float *out = bufs[h->s->out.operand];
	for (int j = 0; j < n; j++, v += RUN) {
		int64_t off = 0, len = run_length(h, w, j);
		for (int d = 0; d < h->out->dims.rank; d++)
			off += view_offset(&h->to, d, index_value(h->s, &h->s->out.dim[d], bufs, w->at[j]));
		if (h->out_step == 1)
			memcpy(out + off, v, sizeof *v * (size_t)len);
		else
			for (int64_t x = 0; x < len; x++)
				out[off + x * h->out_step] = v[x];
	}
}

void host_run(const struct host_task *h, int entry, void *const *bufs, int64_t begin, int64_t end,
	      void *scratch)
{
	const struct hstage *s = &h->stage[entry];
	struct scratch *w = scratch;
	if (s->flat) {
		flat_run(s->flat, bufs, begin, end, scratch);
		return;
	}
	for (; begin < end; begin += ROWS) {
		int n = end - begin < ROWS ? (int)(end - begin) : ROWS;
		start_rows(s, bufs, begin, n, w);
		if (s->product) {
			run_product(s, bufs, w, n);
		} else {
			for (int64_t p = 0; p < s->points; p++) {
				run_prog(s, &s->s->body, bufs, p, w, n);
				combine(p ? s->s->comb : COMB_NONE, w->acc, w->stack[0], n * RUN);
			}
		}
		if (s->s->post.n)
			run_prog(s, &s->s->post, bufs, 0, w, n);
		store(s, bufs, w, n, s->s->post.n ? w->stack[0] : w->acc);
	}
}
