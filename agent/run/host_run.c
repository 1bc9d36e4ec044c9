/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the parts of a stage, row by row. Past 800 lines because every way to compute rows begins and ends
 * with the same loads, programs and stores, and all work in one struct scratch; the loops themselves are in
 * host_tile.c. */
#include "agent/run/host_math.h"
#include "agent/run/host_parts.h"
#include "agent/run/vec4.h"

#include <math.h>
#include <string.h>

_Static_assert(HOST_BLOCK % HOST_LANES == 0, "host_apply rounds up");
_Static_assert(RUN % TILE_LANES == 0 && RUN <= (int)HOST_BLOCK, "a row is whole vectors, and fits a block");

struct scratch {
	float slot[PROG_PLACES][HOST_BLOCK]; /* PROG_ACC: what is reduced */
	int64_t at[ROWS][MAX_AXES];          /* only the first row's, unless a view is slow */
	int64_t len[ROWS];                   /* elements of each row */
	int64_t start[ROWS];                 /* where each row begins along the run's axis */
	int64_t first[MAX_OPERANDS][ROWS];   /* offset of each row of each view */
	int64_t guard[MAX_OPERANDS][GUARDS][ROWS];
	float sum[SEGMENT + HOST_LANES]; /* accumulators of a segment, row by row */
	float panel[CHUNK * RUN];        /* packed vectors that rows share */
	float own[CHUNK * TILE_ROWS];    /* packed scalars of rows */
	int64_t panel_at[CHUNK], own_at[CHUNK];
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

/* The axes of a row. */
static void row_axes(const struct hstage *h, int64_t row, int64_t at[MAX_AXES])
{
	memset(at, 0, sizeof *at * MAX_AXES);
	for (int k = h->nspatial - 1; k >= 0; k--) {
		int a = h->order[k];
		int64_t e = h->size[a], size = a == h->axis ? (e + h->run - 1) / h->run : e;
		at[a] = row % size * (a == h->axis ? h->run : 1);
		row /= size;
	}
}

static void next_row(const struct hstage *h, int64_t at[MAX_AXES])
{
	for (int k = h->nspatial - 1; k >= 0; k--) {
		int a = h->order[k];
		at[a] += a == h->axis ? h->run : 1;
		if (at[a] < h->size[a])
			return;
		at[a] = 0;
	}
}

static int64_t by_tables(const struct hstage *h, int64_t base, int64_t *const table[MAX_AXES],
			 const int64_t at[MAX_AXES])
{
	for (int a = 0; a < h->nspatial; a++)
		base += table[a] ? table[a][at[a]] : 0;
	return base;
}

/* Offset of a row at reduction point 0. guard: gets the guarded dims' indexes. */
static int64_t row_offset(const struct hstage *h, const struct view *v, void *const *bufs,
			  const int64_t at[MAX_AXES], int64_t guard[GUARDS])
{
	int64_t off = 0;
	if (v->tabled) {
		for (int g = 0; g < v->nguards; g++)
			guard[g] = by_tables(h, v->guard_base[g], v->guard_table[g], at);
		return by_tables(h, v->base, v->table, at);
	}
	for (int d = 0, g = 0; d < v->o->dims.rank; d++) {
		int64_t x = host_index(h, &v->r->dim[d], bufs, at);
		if (g == v->nguards || v->guard_dim[g] != d) {
			off += view_offset(v, d, x);
			continue;
		}
		guard[g++] = x;
		int64_t one = view_offset(v, d, 1) - view_offset(v, d, 0);
		off += host_is_split(v->o, d) ? (inside(v->o, d, x) ? view_offset(v, d, x) : 0)
					      : view_offset(v, d, 0) + x * one;
	}
	return off;
}

static int64_t length_at(const struct hstage *h, const int64_t at[MAX_AXES])
{
	if (h->axis < 0)
		return 1;
	int64_t left = h->size[h->axis] - at[h->axis];
	return left < h->run ? left : h->run;
}

/* Returns how many of n rows from `at` on follow each other along h->line, and moves `at` behind them. */
static int line_rows(const struct hstage *h, int64_t at[MAX_AXES], int n)
{
	int a = h->line;
	if (a < 0)
		return 1;
	int64_t by = a == h->axis ? h->run : 1, left = (h->size[a] - at[a] + by - 1) / by;
	int k = left < n ? (int)left : n;
	at[a] += by * (k - 1);
	next_row(h, at);
	return k;
}

/* Returns how many of n rows from `at` on have the length of the first one, and moves `at` behind them. If
 * runs are whole lines, all rows have. */
static int equal_rows(const struct hstage *h, int64_t at[MAX_AXES], int n)
{
	int k = 0;
	if (h->axis >= 0 && h->size[h->axis] > h->run) {
		int64_t whole = (h->size[h->axis] - at[h->axis]) / h->run;
		return line_rows(h, at, h->line == h->axis && n > whole ? (whole < 1 ? 1 : (int)whole) : n);
	}
	while (k < n)
		k += line_rows(h, at, n - k);
	return n;
}

/* Computes to[1] .. to[n - 1] from to[0]: `table` has what each value of an axis adds. Row 0 of the line is
 * at value i of that axis, and rows are `by` values apart. */
static void add_steps(const int64_t *table, int64_t i, int64_t by, int n, int64_t *to)
{
	for (int k = 1; k < n; k++)
		to[k] = to[0] + (table ? table[i + k * by] - table[i] : 0);
}

/* Offsets of n rows from `at` on, and the indexes of guarded dims: guard[g * stride + row]. */
static void row_offsets(const struct hstage *h, const struct view *v, void *const *bufs,
			const int64_t first[MAX_AXES], int n, int64_t *off, int64_t *guard, int stride)
{
	int64_t at[MAX_AXES], now[GUARDS];
	int a = v->tabled ? h->line : -1;
	int64_t by = a == h->axis ? h->run : 1;
	memcpy(at, first, sizeof at);
	for (int j = 0, k = 1; j < n; j += k) {
		int64_t i = a < 0 ? 0 : at[a];
		off[j] = row_offset(h, v, bufs, at, now);
		for (int g = 0; g < v->nguards; g++)
			guard[g * stride + j] = now[g];
		if (a < 0) {
			next_row(h, at);
			continue;
		}
		k = line_rows(h, at, n - j);
		add_steps(v->table[a], i, by, k, off + j);
		for (int g = 0; g < v->nguards; g++)
			add_steps(v->guard_table[g][a], i, by, k, guard + g * stride + j);
	}
}

/* n rows from `at` on, which moves behind them: their lengths, the offsets at reduction point 0 of each fast
 * view of `reads`, and, for slow views, their axes. */
static void start_rows(const struct hstage *h, void *const *bufs, int64_t at[MAX_AXES], int n, uint32_t reads,
		       struct scratch *w)
{
	memcpy(w->at[0], at, sizeof w->at[0]);
	for (int j = 0, k = 1; j < n; j += k) {
		int64_t len = length_at(h, at), start = h->axis < 0 ? 0 : at[h->axis];
		int64_t by = h->axis >= 0 && h->line == h->axis ? h->run : 0;
		if (h->slow) {
			memcpy(w->at[j], at, sizeof w->at[j]);
			next_row(h, at);
		} else {
			k = equal_rows(h, at, n - j);
		}
		for (int i = 0; i < k; i++) {
			w->len[j + i] = len;
			w->start[j + i] = start + i * by;
		}
	}
	for (int i = 0; i < h->s->nreads; i++)
		if (h->view[i].fast && reads >> i & 1)
			row_offsets(h, &h->view[i], bufs, w->at[0], n, w->first[i], w->guard[i][0], ROWS);
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
	int64_t at[MAX_AXES], n = w->len[j];
	memcpy(at, w->at[j], sizeof at);
	for (int a = h->s->naxes - 1; a >= h->nspatial; a--) {
		at[a] = p % h->s->axis[a].extent;
		p /= h->s->axis[a].extent;
	}
	for (int64_t x = 0; x < n; x++) {
		int64_t off = 0;
		bool good = true;
		for (int d = 0; d < v->o->dims.rank && good; d++) {
			int64_t idx = host_index(h, &v->r->dim[d], bufs, at);
			good = inside(v->o, d, idx);
			off += good ? view_offset(v, d, idx) : 0;
		}
		out[x] = good ? src[off] : v->o->fill;
		if (h->axis >= 0)
			at[h->axis]++;
	}
}

static void load_steps(const float *src, const int64_t *at, int64_t len, float *out)
{
	for (int64_t x = 0; x < len; x++)
		out[x] = src[at[x] - at[0]];
}

/* Finds the elements *begin .. *end of a row of `len` whose guarded dims are inside at reduction point p,
 * where the view's indexes grow evenly along the run. guard: as load_edge has it. */
static void part_inside(const struct view *v, const int64_t *guard, int stride, int64_t p, int64_t len,
			int64_t *begin, int64_t *end)
{
	*begin = 0;
	*end = len;
	for (int g = 0; g < v->nguards; g++) {
		int d = v->guard_dim[g];
		int64_t at = guard[g * stride] + (v->delta ? v->guard_delta[g][p] : 0), by = v->guard_step[g];
		int64_t low = -v->o->layout.lo[d] - at, high = v->o->dims.d[d] + v->o->layout.hi[d] - at;
		if (by == 0) {
			*end = low <= 0 && high > 0 ? *end : 0;
			continue;
		}
		int64_t first = low > 0 ? (low + by - 1) / by : 0,
			after = high > 0 ? (high + by - 1) / by : 0;
		*begin = first > *begin ? first : *begin;
		*end = after < *end ? after : *end;
	}
	*end = *end < 0 ? 0 : *end;
	*begin = *begin > *end ? *end : *begin;
}

/* As load_steps at reduction point p; elements outside of the operand are its fill value. guard: of the run's
 * first element, which is at `start` of the run's axis. */
static void load_edge(const struct hstage *h, const struct view *v, const float *src, const int64_t *guard,
		      int stride, int64_t p, int64_t start, int64_t len, float *out)
{
	const int64_t *at = v->table[h->axis] + start;
	int64_t begin, end;
	if (v->even) {
		part_inside(v, guard, stride, p, len, &begin, &end);
		host_fill(out, v->o->fill, begin);
		if (begin < end && v->step != 1)
			vec4_gather(out + begin, src + begin * v->step, v->step, end - begin);
		if (v->step == 1 && begin < end)
			vec4_copy(out + begin, src + begin, end - begin);
		host_fill(out + end, v->o->fill, len - end);
		return;
	}
	for (int64_t x = 0; x < len; x++) {
		bool good = true;
		for (int g = 0; g < v->nguards; g++) {
			const int64_t *move = v->guard_table[g][h->axis];
			good &= inside(v->o, v->guard_dim[g],
				       guard[g * stride] + (move ? move[start + x] - move[start] : 0) +
					   (v->delta ? v->guard_delta[g][p] : 0));
		}
		out[x] = good ? src[at[x] - at[0]] : v->o->fill;
	}
}

/* Read i of n rows at reduction point p into out[row * pitch ..]. */
static void load(const struct hstage *h, int i, void *const *bufs, int64_t p, struct scratch *w, int n,
		 float *out)
{
	const struct view *v = &h->view[i];
	for (int j = 0; j < n; j++, out += h->pitch) {
		if (!v->fast) {
			load_slow(h, i, bufs, p, w, j, out);
			continue;
		}
		int64_t len = w->len[j], step = v->step;
		if (v->edge) {
			const float *from = (const float *)bufs[v->r->operand] + w->first[i][j] +
					    (v->delta ? v->delta[p] : 0);
			load_edge(h, v, from, &w->guard[i][0][j], ROWS, p, w->start[j], len, out);
			continue;
		}
		bool good = !v->nguards || guards_hold(v, w, i, j, p);
		const float *src = (const float *)bufs[v->r->operand] +
				   (good ? w->first[i][j] + (v->delta ? v->delta[p] : 0) : 0);
		if (!good || (step == 0 && !v->gather && !v->block))
			host_fill(out, good ? *src : v->o->fill, h->pitch);
		else if (v->gather)
			load_steps(src, v->table[h->axis] + w->start[j], len, out);
		else if (step == 1 && !v->block)
			vec4_copy(out, src, len);
		else if (v->block)
			for (int64_t x = 0; x < len; x += v->block)
				memcpy(out + x, src + x / v->block * v->block_step,
				       sizeof *out * (size_t)(len - x < v->block ? len - x : v->block));
		else
			vec4_gather(out, src, step, len);
	}
}

/* Applies read i, one value of each row, to n rows. */
static void apply_rows(const struct hstage *h, const struct host_ins *ins, void *const *bufs,
		       const struct scratch *w, int n, float *to, const float *a)
{
	const struct view *v = &h->view[ins->read];
	const float *from = bufs[v->r->operand];
	for (int j = 0; j < n; j++, to += h->pitch, a += h->pitch)
		host_apply_value(ins->op, to, a, from[w->first[ins->read][j] + (v->delta ? v->delta[0] : 0)],
				 h->pitch);
}

static const float *place(const struct scratch *w, const float *acc, int slot)
{
	return slot == PROG_ACC ? acc : w->slot[slot];
}

/* Runs a program over n rows at reduction point p; acc: what was reduced. Returns where the result is. */
static const float *run_prog(const struct hstage *h, const struct host_prog *q, void *const *bufs, int64_t p,
			     const float *acc, struct scratch *w, int n)
{
	int count = n * h->pitch;
	for (int i = 0; i < q->n; i++) {
		const struct host_ins *ins = &q->ins[i];
		float *to = w->slot[ins->to];
		const float *a = place(w, acc, ins->a);
		if (ins->op == P_READ)
			load(h, ins->read, bufs, p, w, n, to);
		else if (ins->op == P_IMM)
			host_fill(to, ins->imm, count);
		else if (ins->by_imm)
			host_apply_value(ins->op, to, a, ins->imm, count);
		else if (ins->by_row)
			apply_rows(h, ins, bufs, w, n, to, a);
		else
			host_apply(ins->op, to, a, place(w, acc, ins->b), place(w, acc, ins->c), count);
	}
	return place(w, acc, q->result);
}

/* ---- reductions by tiles ---- */

/* Where a read finds a row, and the indexes of its guarded dims there. */
struct row {
	const float *p; /* at reduction point 0 */
	int64_t guard[GUARDS];
};

static struct row row_of(const struct hstage *h, int i, void *const *bufs, const int64_t at[MAX_AXES])
{
	struct row r = {0};
	const struct view *v = &h->view[i];
	r.p = (const float *)bufs[v->r->operand] + row_offset(h, v, bufs, at, r.guard);
	return r;
}

static bool point_holds(const struct view *v, const struct row *r, int64_t p)
{
	for (int g = 0; g < v->nguards; g++)
		if (!inside(v->o, v->guard_dim[g], r->guard[g] + v->guard_delta[g][p]))
			return false;
	return true;
}

/* The value of read i at a point that is given by all axes. */
static float value_at(const struct hstage *h, int i, void *const *bufs, const int64_t at[MAX_AXES])
{
	const struct view *v = &h->view[i];
	int64_t off = 0;
	for (int d = 0; d < v->o->dims.rank; d++) {
		int64_t x = host_index(h, &v->r->dim[d], bufs, at);
		if (!inside(v->o, d, x))
			return v->o->fill;
		off += view_offset(v, d, x);
	}
	return ((const float *)bufs[v->r->operand])[off];
}

/* Sets the reduction axes of `at` to point p. */
static void point_axes(const struct hstage *h, int64_t p, int64_t at[MAX_AXES])
{
	for (int a = h->s->naxes - 1; a >= h->nspatial; a--) {
		at[a] = p % h->s->axis[a].extent;
		p /= h->s->axis[a].extent;
	}
}

/* Packs read i along the run of the row at `at`, at points p0 .. p0 + n, into to[point * pitch], padded with
 * zeros. */
static void pack_vectors(const struct hstage *h, int i, void *const *bufs, const int64_t row[MAX_AXES],
			 int64_t p0, int64_t n, float *to)
{
	const struct view *v = &h->view[i];
	int64_t len = length_at(h, row), at[MAX_AXES];
	struct row r = {0};
	memcpy(at, row, sizeof at);
	if (v->fast)
		r = row_of(h, i, bufs, at);
	for (int64_t p = p0; p < p0 + n; p++, to += h->pitch) {
		if (!v->fast) {
			point_axes(h, p, at);
			for (int64_t x = 0; x < len; x++, at[h->axis]++)
				to[x] = value_at(h, i, bufs, at);
			at[h->axis] -= len;
		} else if (v->edge) {
			load_edge(h, v, r.p + v->delta[p], r.guard, 1, p, row[h->axis], len, to);
		} else if (!point_holds(v, &r, p)) {
			host_fill(to, v->o->fill, len);
		} else {
			const float *from = r.p + v->delta[p];
			if (v->gather)
				load_steps(from, v->table[h->axis] + row[h->axis], len, to);
			else if (!v->block)
				vec4_gather(to, from, v->step, len);
			for (int64_t x = 0, b = 0; x < len && !v->gather && v->block; x++) {
				to[x] = from[x * v->step + b];
				if ((x + 1) % v->block == 0)
					b += v->block_step - v->block * v->step;
			}
		}
		for (int64_t x = len; x < h->pitch; x++)
			to[x] = 0;
	}
}

/* Packs read i of a row at points p0 .. p0 + n into to[point * TILE_ROWS]. */
static void pack_scalars(const struct hstage *h, int i, void *const *bufs, const int64_t row[MAX_AXES],
			 int64_t p0, int64_t n, float *to)
{
	const struct view *v = &h->view[i];
	int64_t at[MAX_AXES];
	struct row r = {0};
	memcpy(at, row, sizeof at);
	if (v->fast)
		r = row_of(h, i, bufs, at);
	for (int64_t p = p0; p < p0 + n; p++, to += TILE_ROWS) {
		if (v->fast) {
			*to = point_holds(v, &r, p) ? r.p[v->delta[p]] : v->o->fill;
			continue;
		}
		point_axes(h, p, at);
		*to = value_at(h, i, bufs, at);
	}
}

/* Floats of a padded row of len that tiles compute: whole vectors, of which the last may be half as long. */
static int padded_width(const struct hstage *h, int64_t len)
{
	int unit = h->lanes < TILE_LANES ? h->lanes : TILE_LANES / 2;
	return ((int)len + unit - 1) / unit * unit;
}

/* Points p0 .. p0 + n of `rows` rows that share a vector; `at`: the first row's axes. */
static void outer_chunk(const struct hstage *h, void *const *bufs, const int64_t at[MAX_AXES], int rows,
			int64_t p0, int64_t n, const int64_t row[], struct scratch *w)
{
	const struct view *shared = &h->view[h->shared], *own = &h->view[h->own];
	struct tile t = {.acc = w->sum,
			 .rows = rows,
			 .pitch = h->pitch,
			 .width = h->pitch,
			 .lanes = h->lanes,
			 .points = n};
	const float *v = w->panel;
	const int64_t *dv = w->panel_at;
	int64_t axes[MAX_AXES], of_row[TILE_ROWS];
	if (shared->fast && !shared->nguards && !shared->gather && shared->step == 1 && !shared->block) {
		t.width = shared->padded ? padded_width(h, length_at(h, at)) : (int)length_at(h, at);
		v = row_of(h, h->shared, bufs, at).p;
		dv = shared->delta + p0;
	} else {
		pack_vectors(h, h->shared, bufs, at, p0, n, w->panel);
	}
	if (own->fast && !own->nguards) {
		tile_outer(&t, bufs[own->r->operand], row, own->delta + p0, v, dv);
		return;
	}
	memcpy(axes, at, sizeof axes);
	for (int j = 0; j < rows; j += t.rows, t.acc += t.rows * h->pitch) {
		t.rows = rows - j < TILE_ROWS ? rows - j : TILE_ROWS;
		for (int r = 0; r < t.rows; r++, next_row(h, axes)) {
			pack_scalars(h, h->own, bufs, axes, p0, n, w->own + r);
			of_row[r] = r;
		}
		tile_outer(&t, w->own, of_row, w->own_at, v, dv);
	}
}

static void run_outer(const struct hstage *h, void *const *bufs, const int64_t at[MAX_AXES], int rows,
		      struct scratch *w)
{
	int64_t row[SEGMENT / TILE_LEAST];
	const struct view *own = &h->view[h->own];
	memset(w->sum, 0, sizeof *w->sum * (size_t)(rows * h->pitch));
	if (own->fast && !own->nguards)
		row_offsets(h, own, bufs, at, rows, row, NULL, 0);
	for (int64_t p = 0; p < h->points; p += CHUNK) {
		int64_t n = h->points - p < CHUNK ? h->points - p : CHUNK;
		outer_chunk(h, bufs, at, rows, p, n, row, w);
	}
}

/* As run_outer, where few rows share a vector: groups of them are worked on together. */
static void run_groups(const struct hstage *h, void *const *bufs, const int64_t at[MAX_AXES], int rows,
		       struct scratch *w)
{
	enum { MOST = SEGMENT / TILE_LEAST };
	const struct view *shared = &h->view[h->shared], *own = &h->view[h->own];
	int64_t row[MOST], of_vector[MOST];
	const float *v[MOST];
	struct tile t = {.acc = w->sum,
			 .rows = (int)h->inner,
			 .pitch = h->pitch,
			 .width = (int)length_at(h, at),
			 .lanes = h->lanes,
			 .points = h->points};
	memset(w->sum, 0, sizeof *w->sum * (size_t)(rows * h->pitch));
	row_offsets(h, own, bufs, at, t.rows, row, NULL, 0);
	row_offsets(h, shared, bufs, at, rows, of_vector, NULL, 0);
	for (int g = 0; g < rows / t.rows; g++)
		v[g] = (const float *)bufs[shared->r->operand] + of_vector[g * t.rows];
	tile_groups(&t, rows / t.rows, bufs[own->r->operand], row, own->delta, v, shared->delta);
}

static float folded(enum combiner c, float a, float b)
{
	return c == COMB_MAX    ? (a > b ? a : b)
	       : c == COMB_MIN  ? (a < b ? a : b)
	       : c == COMB_PROD ? a * b
				: a + b;
}

/* Points p0 .. p1 of rows that have all of them, with `len` lanes. */
static void run_points(const struct hstage *h, const struct row own[], int rows, const float *shared,
		       int64_t len, int64_t p0, int64_t p1, float *acc)
{
	const struct view *v = &h->view[h->own], *s = &h->view[h->shared];
	const float *p[TILE_ROWS];
	struct tile t = {.acc = acc,
			 .rows = rows,
			 .pitch = h->pitch,
			 .width = (int)len,
			 .lanes = h->lanes,
			 .points = p1 - p0};
	for (int j = 0; j < rows; j++)
		p[j] = own[j].p;
	if (shared)
		tile_rows(&t, p, v->delta + p0, v->step, shared, s->delta + p0, s->step == 1);
	else
		tile_fold(&t, h->s->comb, p, v->delta + p0, v->step);
}

/* The points of a row that lie inside of the operand, as bits; there are at most 64 points. */
static uint64_t points_inside(const struct hstage *h, const struct row *own)
{
	uint64_t in = 0;
	for (int64_t p = 0; p < h->points; p++)
		in |= (uint64_t)point_holds(&h->view[h->own], own, p) << p;
	return in;
}

/* Rows that have the same points inside of the operand as the first, from it on, of n. */
static int rows_inside_alike(const struct hstage *h, const struct row own[], int n)
{
	int same = 1;
	if (h->points > 64)
		return 1;
	for (uint64_t in = points_inside(h, own); same < n && points_inside(h, own + same) == in;)
		same++;
	return same;
}

/* Rows that have the same points inside of the operand; the others count with its fill value. */
static void run_guarded(const struct hstage *h, const struct row own[], int rows, const float *shared,
			int64_t len, float *acc)
{
	const struct view *v = &h->view[h->own], *s = &h->view[h->shared];
	for (int64_t p = 0, q; p < h->points; p = q) {
		bool in = point_holds(v, own, p);
		for (q = p + 1; q < h->points && point_holds(v, own, q) == in; q++)
			;
		if (in)
			run_points(h, own, rows, shared, len, p, q, acc);
		if (in || (shared && v->o->fill == 0))
			continue;
		for (float *a = acc; a < acc + rows * h->pitch; a += h->pitch)
			for (int64_t x = 0; x < len; x++)
				for (int64_t k = p; k < q; k++)
					a[x] = shared ? a[x] + v->o->fill * shared[s->delta[k] + x * s->step]
						      : folded(h->s->comb, a[x], v->o->fill);
	}
}

static float neutral_of(enum combiner c)
{
	return c == COMB_MAX ? -INFINITY : c == COMB_MIN ? INFINITY : c == COMB_PROD ? 1 : 0;
}

/* By rows, or by folding: rows whose first is at `at`. */
static void run_rows(const struct hstage *h, void *const *bufs, const int64_t at[MAX_AXES], int rows,
		     struct scratch *w)
{
	const float *shared = h->how == BY_ROWS ? row_of(h, h->shared, bufs, at).p : NULL;
	float first = h->how == BY_FOLD ? neutral_of(h->s->comb) : 0;
	const struct view *v = &h->view[h->own];
	struct row own[TILE_ROWS];
	int64_t axes[MAX_AXES];
	host_fill(w->sum, first, rows * h->pitch);
	memcpy(axes, at, sizeof axes);
	for (int j = 0, n; j < rows; j += n) {
		int64_t len = length_at(h, axes), off[TILE_ROWS], guard[GUARDS * TILE_ROWS],
			first_of[MAX_AXES];
		memcpy(first_of, axes, sizeof axes);
		n = rows - j < TILE_ROWS ? rows - j : TILE_ROWS;
		n = equal_rows(h, axes, n);
		row_offsets(h, v, bufs, first_of, n, off, guard, TILE_ROWS);
		for (int k = 0; k < n; k++) {
			own[k].p = (const float *)bufs[v->r->operand] + off[k];
			for (int g = 0; g < v->nguards; g++)
				own[k].guard[g] = guard[g * TILE_ROWS + k];
		}
		float *acc = w->sum + j * h->pitch;
		if (!v->nguards)
			run_points(h, own, n, shared, len, 0, h->points, acc);
		for (int k = 0, same; k < n && v->nguards; k += same) {
			same = rows_inside_alike(h, own + k, n - k);
			run_guarded(h, own + k, same, shared, len, acc + k * h->pitch);
		}
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

/* ---- reductions by points ---- */

static float folded_block(enum combiner c, float start, const float *v, int n)
{
	float part[HOST_LANES];
	int k = 0;
	for (int x = 0; x < HOST_LANES; x++)
		part[x] = start;
	for (; k + HOST_LANES <= n; k += HOST_LANES)
		combine(c, part, v + k, HOST_LANES);
	for (int x = 1; x < HOST_LANES; x++)
		part[0] = folded(c, part[0], part[x]);
	for (; k < n; k++)
		part[0] = folded(c, part[0], v[k]);
	return part[0];
}

/* The body at n points in sequence; at[i]: where read i is at the first. Returns where the result is. */
static const float *run_body(const struct hstage *h, const float *const at[MAX_OPERANDS], int n,
			     struct scratch *w)
{
	const struct host_prog *q = &h->body;
	for (int i = 0; i < q->n; i++) {
		const struct host_ins *ins = &q->ins[i];
		float *to = w->slot[ins->to];
		const float *a = w->slot[ins->a];
		if (ins->op == P_READ && h->view[ins->read].point_step)
			memcpy(to, at[ins->read], sizeof *to * (size_t)n);
		else if (ins->op == P_READ || ins->op == P_IMM)
			host_fill(to, ins->op == P_READ ? *at[ins->read] : ins->imm, n);
		else if (ins->by_imm || ins->by_row)
			host_apply_value(ins->op, to, a, ins->by_row ? *at[ins->read] : ins->imm, n);
		else
			host_apply(ins->op, to, a, w->slot[ins->b], w->slot[ins->c], n);
	}
	return w->slot[q->result];
}

/* One output: element x of row j of those that start_rows started. */
static float run_output(const struct hstage *h, void *const *bufs, int j, int64_t x, struct scratch *w)
{
	int64_t inner = h->s->axis[h->s->naxes - 1].extent;
	float neutral = neutral_of(h->s->comb), all = neutral;
	const float *at[MAX_OPERANDS] = {0};
	for (int64_t p = 0; p < h->points; p += inner)
		for (int64_t c = 0; c < inner; c += HOST_BLOCK) {
			int n = (int)(inner - c < HOST_BLOCK ? inner - c : HOST_BLOCK);
			for (int i = 0; i < h->s->nreads; i++) {
				const struct view *v = &h->view[i];
				if (v->fast && v->delta)
					at[i] = (const float *)bufs[v->r->operand] + w->first[i][j] +
						x * v->step + v->delta[p + c];
			}
			const float *v = run_body(h, at, n, w);
			all = folded(h->s->comb, all, folded_block(h->s->comb, neutral, v, n));
		}
	return all;
}

static void run_by_points(const struct hstage *h, void *const *bufs, const int64_t first[MAX_AXES], int n,
			  struct scratch *w)
{
	int64_t at[MAX_AXES];
	memcpy(at, first, sizeof at);
	start_rows(h, bufs, at, n, h->body.reads, w);
	for (int j = 0; j < n; j++)
		for (int64_t x = 0; x < h->pitch; x++)
			w->sum[j * h->pitch + x] = x < w->len[j] ? run_output(h, bufs, j, x, w) : 0;
}

static void store_steps(const int64_t *at, const float *v, int64_t len, float *to)
{
	for (int64_t x = 0; x < len; x++)
		to[at[x] - at[0]] = v[x];
}

static void store(const struct hstage *h, void *const *bufs, struct scratch *w, int n, const float *v)
{
	float *out = bufs[h->s->out.operand];
	int64_t off[ROWS];
	row_offsets(h, &h->to, bufs, w->at[0], n, off, NULL, 0);
	for (int j = 0; j < n; j++, v += h->pitch) {
		int64_t len = w->len[j];
		float *to = out + off[j];
		if (h->to.gather)
			store_steps(h->to.table[h->axis] + w->start[j], v, len, to);
		else if (h->to.step == 1 && !h->to.block)
			vec4_copy(to, v, len);
		else if (h->to.block)
			for (int64_t x = 0; x < len; x += h->to.block)
				memcpy(to + x / h->to.block * h->to.block_step, v + x,
				       sizeof *v * (size_t)(len - x < h->to.block ? len - x : h->to.block));
		else
			for (int64_t x = 0; x < len; x++)
				to[x * h->to.step] = v[x];
	}
}

/* Rows that a program runs on at once. */
static int block_rows(const struct hstage *h)
{
	int n = HOST_BLOCK / h->pitch;
	return n < ROWS ? n : ROWS;
}

static void run_programs(const struct hstage *h, void *const *bufs, int64_t at[MAX_AXES], int n,
			 struct scratch *w)
{
	float *acc = w->slot[PROG_ACC];
	const float *v = acc;
	start_rows(h, bufs, at, n, h->body.reads | h->post.reads, w);
	for (int64_t p = 0; p < h->points; p++) {
		v = run_prog(h, &h->body, bufs, p, acc, w, n);
		if (h->points > 1 || h->post.n)
			combine(p ? h->s->comb : COMB_NONE, acc, v, n * h->pitch);
	}
	if (h->post.n)
		v = run_prog(h, &h->post, bufs, 0, acc, w, n);
	else if (h->points > 1)
		v = acc;
	store(h, bufs, w, n, v);
}

/* The epilogue of `rows` rows from `at` on, which moves behind them; their sums are ready. */
static void finish(const struct hstage *h, void *const *bufs, int64_t at[MAX_AXES], int rows,
		   struct scratch *w)
{
	int most = block_rows(h);
	for (int j = 0; j < rows; j += most) {
		int n = rows - j < most ? rows - j : most;
		const float *sum = w->sum + j * h->pitch;
		start_rows(h, bufs, at, n, h->post.reads, w);
		if (h->post.n)
			sum = run_prog(h, &h->post, bufs, 0, sum, w, n);
		store(h, bufs, w, n, sum);
	}
}

static void run_part(const struct hstage *s, void *const *bufs, int64_t begin, int64_t end, struct scratch *w)
{
	for (int k = 0; k < CHUNK && s->how == BY_OUTER; k++) {
		w->panel_at[k] = (int64_t)k * s->pitch;
		w->own_at[k] = (int64_t)k * TILE_ROWS;
	}
	bool blocks = s->how == BY_PROGRAM || s->how == BY_POINTS;
	int64_t most = blocks ? block_rows(s) : SEGMENT / s->pitch;
	int64_t at[MAX_AXES];
	row_axes(s, begin, at);
	while (begin < end) {
		int64_t n = end - begin, together = s->inner - begin % s->inner;
		n = n < most ? n : most;
		if (s->how == BY_PROGRAM) {
			run_programs(s, bufs, at, (int)n, w);
			begin += n;
			continue;
		}
		bool groups = s->alike && together == s->inner && n >= 2 * together;
		int64_t alike = groups ? s->inner * (s->alike - begin / s->inner % s->alike) : 0;
		if (groups)
			n = n < alike ? n - n % together : alike;
		else
			n = n < together ? n : together;
		if (groups)
			run_groups(s, bufs, at, (int)n, w);
		else if (s->how == BY_POINTS)
			run_by_points(s, bufs, at, (int)n, w);
		else if (s->how == BY_OUTER)
			run_outer(s, bufs, at, (int)n, w);
		else
			run_rows(s, bufs, at, (int)n, w);
		finish(s, bufs, at, (int)n, w);
		begin += n;
	}
}

void host_run(const struct host_task *h, int entry, void *const *bufs, int64_t begin, int64_t end,
	      void *scratch)
{
	const struct phases *all = &h->stage[entry];
	if (h->exact) {
		ref_stage_run(h->t, h->sum, entry, bufs, begin, end);
		return;
	}
	if (all->part->flat) {
		flat_run(all->part->flat, bufs, begin, end, scratch);
		return;
	}
	for (int i = 0; i < all->n; i++) {
		int64_t n = all->part[i].extent;
		if (begin < n && end > 0)
			run_part(&all->part[i], bufs, begin > 0 ? begin : 0, end < n ? end : n, scratch);
		begin -= n;
		end -= n;
	}
}
