/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of reads, and loads that are made only once. */
#include "kernels/loops/lower_parts.h"

#include <string.h>

/* Limits of what a tile prefetches: rows (more channels than this are not an image's), and lines, as each is
 * a statement. */
enum { MOST_ROWS = 16, MOST_LINES = 1024 };

/* The value of an axis at step `at` of its tile; on the lane axis that of the first lane. */
const struct ix *axis_value(const struct nest *k, int axis, int at)
{
	int unit = axis == k->s->lane ? k->s->lanes : 1;
	if (!k->base[axis])
		return ix_c(k->w->l, 0);
	return ix_add(k->w->l, k->base[axis], ix_c(k->w->l, (int64_t)at * unit));
}

static const struct ix *size_ix(struct lower *w, int64_t v)
{
	return IS_SYM(v) ? ix_param(w->l, SYM_INDEX(v)) : ix_c(w->l, v);
}

static const struct ix *dim_index(const struct nest *k, const struct index *x, const int *at)
{
	struct loops *l = k->w->l;
	const struct ix *v = size_ix(k->w, x->off);
	for (int a = 0; a < k->st->naxes; a++)
		if (x->coef[a])
			v = ix_add(l, v, ix_mul(l, axis_value(k, a, at[a]), size_ix(k->w, x->coef[a])));
	if (x->div > 1)
		v = ix_div(l, v, ix_c(l, x->div));
	if (x->mod > 1)
		v = ix_mod(l, v, ix_c(l, x->mod));
	return x->table >= 0 ? ix_table(l, k->w->at[x->table].buf, v) : v;
}

/* Adds to sum the share of digit d in the address, in units of `unit` elements. */
static const struct ix *add_digit(const struct nest *k, const struct ix *sum, const struct digit *d, int at,
				  int64_t unit)
{
	struct loops *l = k->w->l;
	const struct ix *v = axis_value(k, d->axis, at);
	if (d->div > 1)
		v = ix_div(l, v, ix_c(l, d->div));
	if (d->mod)
		v = ix_mod(l, v, ix_c(l, d->mod));
	return ix_add(l, sum, ix_mul(l, v, ix_c(l, d->stride / unit)));
}

static const struct ix *digits_address(const struct nest *k, const struct lower_place *p, const int *at)
{
	const struct ix *sum = ix_c(k->w->l, 0);
	for (int j = 0; j < p->ndigits; j++)
		sum = add_digit(k, sum, &p->digit[j], at[p->digit[j].axis], 1);
	return sum;
}

static const struct ix *dims_address(const struct nest *k, const struct lower_place *p,
				     const struct ix *const *index)
{
	struct loops *l = k->w->l;
	const struct ix *sum = p->base;
	for (int j = 0; j < p->n; j++) {
		int d = p->ax[j].dim;
		const struct ix *v = ix_add(l, index[d], p->lo[d]);
		if (p->ax[j].div > 1)
			v = ix_div(l, v, ix_c(l, p->ax[j].div));
		if (p->ax[j].mod)
			v = ix_mod(l, v, ix_c(l, p->ax[j].mod));
		sum = ix_add(l, sum, ix_mul(l, v, p->ax[j].stride));
	}
	return sum;
}

/* -lo <= index < size + hi */
static const struct ix *inside(struct loops *l, const struct lower_place *p, int d, const struct ix *low,
			       const struct ix *high)
{
	const struct ix *below = ix_lt(l, ix_sub(l, ix_c(l, -1), p->lo[d]), low);
	const struct ix *above = ix_lt(l, high, ix_add(l, p->size[d], p->hi[d]));
	return ix_mul(l, below, above);
}

const struct ix *nest_inside(const struct nest *k, int read, const int *at)
{
	struct loops *l = k->w->l;
	const struct read *r = &k->st->read[read];
	const struct ix *all = ix_c(l, 1);
	for (int d = 0; d < k->w->t->operand[r->operand].dims.rank; d++) {
		const struct ix *i = dim_index(k, &r->dim[d], at);
		all = ix_mul(l, all, inside(l, &k->w->at[r->operand], d, i, i));
	}
	return all;
}

static const struct ix *valid_lanes(const struct nest *k, const int *at)
{
	int lane = k->s->lane;
	if (!k->last_masked || at[lane] != k->n[lane] - 1)
		return NULL;
	return ix_sub(k->w->l, k->extent[lane], axis_value(k, lane, at[lane]));
}

struct mem nest_scratch(const struct operand *o, struct mem m)
{
	m.as = o->role == ROLE_TMP && o->dtype != DT_F32 ? o->dtype : DT_NONE;
	return m;
}

/* Turns an access to groups into one to their bytes. */
static struct mem in_group(struct loops *l, const struct operand *o, struct mem m)
{
	if (o->group) {
		m.group = o->group;
		m.at = ix_mul(l, m.at, ix_c(l, o->group));
		m.stride *= o->group;
	}
	return m;
}

struct mem nest_element(struct nest *k, int read, const struct ix *const *index)
{
	struct loops *l = k->w->l;
	const struct read *r = &k->st->read[read];
	const struct lower_place *p = &k->w->at[r->operand];
	const struct operand *o = &k->w->t->operand[r->operand];
	struct mem m = {.buf = p->buf, .stride = 1, .fill = o->fill};
	const struct ix *base[MAX_AXES], *guard = NULL;
	const int none[MAX_AXES] = {0};
	int64_t one;
	memcpy(base, k->base, sizeof base);
	for (int d = 0; d < o->dims.rank; d++) {
		for (int a = 0; a < k->st->naxes && p->packed; a++)
			k->base[a] = r->dim[d].coef[a] ? index[d] : k->base[a];
		if (!p->packed && index_guarded(k->w->t, k->st, r, d)) {
			const struct ix *in = inside(l, p, d, index[d], index[d]);
			guard = guard ? ix_mul(l, guard, in) : in;
		}
	}
	m.at = p->packed ? digits_address(k, p, none) : dims_address(k, p, index);
	m.guard = guard && ix_is_const(guard, &one) && one ? NULL : guard;
	memcpy(k->base, base, sizeof base);
	return m;
}

/* The place of a read's element in its shared buffer. */
static struct mem shared_mem(const struct nest *k, int read, const int *at, int lanes)
{
	struct loops *l = k->w->l;
	const struct read *r = &k->st->read[read];
	const struct shared_read *b = &k->share[read];
	struct mem m = {.buf = k->share_buf[read], .at = share_box(k, read), .stride = lanes > 1 ? 0 : 1};
	for (int d = 0; d < k->w->t->operand[r->operand].dims.rank; d++) {
		const struct ix *i = ix_sub(l, dim_index(k, &r->dim[d], at), share_low(k, read, d));
		m.at = ix_add(l, m.at, ix_mul(l, i, ix_c(l, b->stride[d])));
		if (lanes > 1 && k->s->lane >= 0)
			m.stride += r->dim[d].coef[k->s->lane] * b->stride[d];
	}
	return m;
}

/* The lanes of a result that are stored: none of a point that the block before has, too. NULL: all. */
static const struct ix *new_lanes(const struct nest *k, const int *at, int lanes)
{
	struct loops *l = k->w->l;
	const struct ix *n = NULL;
	for (int a = 0; a < k->ns; a++)
		if (k->new_at[a]) {
			const struct ix *before = ix_sub(l, k->new_at[a], ix_c(l, 1)),
					*is = ix_lt(l, before, axis_value(k, a, at[a]));
			n = ix_mul(l, n ? n : ix_c(l, lanes), is);
		}
	return n;
}

struct mem nest_mem(const struct nest *k, int read, const int *at, int lanes)
{
	struct loops *l = k->w->l;
	if (k->thread && read < k->st->nreads && k->share[read].on)
		return shared_mem(k, read, at, lanes);
	const struct read *r = read == k->st->nreads ? &k->st->out : &k->st->read[read];
	const struct lower_place *p = &k->w->at[r->operand];
	const struct operand *o = &k->w->t->operand[r->operand];
	const struct ix *index[MAX_RANK] = {NULL}, *guard = NULL;
	bool vector = lanes > 1 && k->s->lane >= 0 && (k->axes[read] >> k->s->lane & 1);
	struct mem m = {.buf = p->buf,
			.stride = vector      ? k->stride[read]
				  : lanes > 1 ? 0
					      : 1,
			.fill = o->fill};
	if (vector && k->masks[read])
		m.valid = valid_lanes(k, at);
	if (read == k->st->nreads && k->thread)
		m.valid = new_lanes(k, at, lanes);
	if (p->packed) {
		m.at = digits_address(k, p, at);
		return in_group(l, o, m);
	}
	for (int d = 0; d < o->dims.rank; d++) {
		index[d] = dim_index(k, &r->dim[d], at);
		if (!k->unguard && read < k->st->nreads && index_guarded(k->w->t, k->st, r, d)) {
			const struct ix *in = inside(l, p, d, index[d], index[d]);
			guard = guard ? ix_mul(l, guard, in) : in;
		}
	}
	int64_t one;
	m.at = dims_address(k, p, index);
	m.guard = guard && ix_is_const(guard, &one) && one ? NULL : guard;
	m = nest_scratch(o, m);
	if (read < k->st->nreads && read == stage_image(k->w->t, k->st))
		m.group = k->sum == SUM_PAIR || k->sum == SUM_HALF ? 2 : 4;
	return in_group(l, o, m);
}

static bool same_mem(const struct mem *a, const struct mem *b)
{
	return a->buf == b->buf && a->as == b->as && a->group == b->group && a->stride == b->stride &&
	       ix_same(a->at, b->at) && !a->valid == !b->valid &&
	       (!a->valid || ix_same(a->valid, b->valid)) && !a->guard == !b->guard &&
	       (!a->guard || (ix_same(a->guard, b->guard) && a->fill == b->fill));
}

int nest_know(struct nest *k, struct known e)
{
	if (k->nknown == KNOWN_MAX) /* not remembered, so it is loaded again */
		k->known[KNOWN_MAX - 1] = e;
	else
		k->known[k->nknown++] = e;
	return e.var;
}

static struct known entry_of(const struct nest *k, int read, const int *at, int lanes)
{
	struct known e = {.read = read, .lanes = lanes};
	for (int a = 0; a < k->st->naxes; a++)
		e.at[a] = k->axes[read] >> a & 1 ? (int16_t)at[a] : 0;
	return e;
}

struct known nest_entry(const struct nest *k, int read, const int *at, struct mem m)
{
	struct known e = entry_of(k, read, at, k->s->lanes);
	e.mem = m;
	return e;
}

/* Whether a read's values are s32 in this stage: i32, groups, and bytes that are summed in s32. */
static bool whole_value(const struct nest *k, int read)
{
	const struct operand *o = &k->w->t->operand[k->st->read[read].operand];
	return o->dtype == DT_I32 || o->group || read == stage_image(k->w->t, k->st) || k->keeps_bytes ||
	       (dtype_is_byte(o->dtype) && k->sum == SUM_WHOLE && stage_in_body(k->st, read));
}

int nest_like(struct loops *l, int v, int lanes)
{
	return l->type[v] == LV_S32 ? lv_new_s32(l, lanes) : lv_new(l, lanes);
}

int nest_float(struct nest *k, int v)
{
	struct loops *l = k->w->l;
	if (l->type[v] == LV_F32)
		return v;
	int f = lv_new(l, l->lanes[v]);
	lv_set(l, f, V_CVT, v, -1, -1, -1);
	return f;
}

/* Loads the values of a read: whole numbers are s32, or converted. */
static int load(struct nest *k, int read, struct mem m, int lanes)
{
	struct loops *l = k->w->l;
	enum dtype t = mem_type(l, &m);
	bool real = t == DT_F32 || (t == DT_F16 && mem_group(&m) == 1);
	int v = real ? lv_new(l, lanes) : lv_new_s32(l, lanes);
	lv_load(l, v, m);
	return whole_value(k, read) ? v : nest_float(k, v);
}

/* Loads the vector along axis `b`, starting at at[], that belongs to lane `row`; `count` of its elements are
 * needed. */
static int load_row(struct nest *k, int read, const int *at, int row, int count)
{
	struct loops *l = k->w->l;
	int lane = k->s->lane, lanes = k->s->lanes;
	const struct ix *base = k->base[lane];
	k->base[lane] = ix_add(l, base ? base : ix_c(l, 0), ix_c(l, row));
	struct mem m = nest_mem(k, read, at, lanes);
	m.stride = 1;
	if (m.valid) /* valid counts lanes: rows beyond it do not exist */
		m.valid = ix_mul(l, m.valid, ix_c(l, lanes));
	if (count < lanes)
		m.valid = m.valid ? ix_min(l, m.valid, ix_c(l, count)) : ix_c(l, count);
	k->base[lane] = base;
	return load(k, read, m, lanes);
}

void nest_transpose(struct loops *l, int *row, int n)
{
	for (int s = 1; s < n; s *= 2)
		for (int i = 0; i < n; i++) {
			int even = row[i], odd = row[i | s];
			if (i & s)
				continue;
			lv_trn(l, row[i] = nest_like(l, even, n), V_TRN0, even, odd, s);
			lv_trn(l, row[i | s] = nest_like(l, even, n), V_TRN1, even, odd, s);
		}
}

/* Loads all vectors of the group of `lanes` points along `b` that contains at[], and transposes them in
 * registers. */
static void load_crossed(struct nest *k, int read, const int *at, int b)
{
	int n = k->s->lanes, row[16], first[MAX_AXES];
	memcpy(first, at, sizeof first);
	first[b] -= at[b] % n;
	int count = k->n[b] - first[b] < n ? k->n[b] - first[b] : n;
	for (int i = 0; i < n; i++)
		row[i] = load_row(k, read, first, i, count);
	nest_transpose(k->w->l, row, n);
	for (int i = 0; i < count; i++) {
		struct known e;
		first[b] += i > 0;
		e = entry_of(k, read, first, n);
		e.mem = nest_mem(k, read, first, n);
		e.var = row[i];
		nest_know(k, e);
	}
}

static bool worth_crossing(const struct nest *k, int read, const int *at, int lanes)
{
	int b = k->cross[read];
	return b >= 0 && lanes == k->s->lanes && k->nknown + lanes <= KNOWN_MAX &&
	       k->n[b] - (at[b] - at[b] % lanes) >= 3;
}

/* The variable of a load of the same read at the same point; -1: none. */
static int find_point(const struct nest *k, const struct known *e)
{
	for (int i = k->nknown - 1; i >= k->floor; i--)
		if (k->known[i].read == e->read && k->known[i].lanes == e->lanes &&
		    !memcmp(k->known[i].at, e->at, sizeof e->at))
			return k->known[i].var;
	return -1;
}

static int find_mem(const struct nest *k, const struct known *e)
{
	for (int i = k->nknown - 1; i >= k->floor; i--)
		if (k->known[i].read >= 0 && k->known[i].lanes == e->lanes &&
		    whole_value(k, k->known[i].read) == whole_value(k, e->read) &&
		    same_mem(&k->known[i].mem, &e->mem))
			return k->known[i].var;
	return -1;
}

int nest_find(const struct nest *k, const struct known *e)
{
	int v = find_point(k, e);
	return v >= 0 ? v : find_mem(k, e);
}

int nest_load(struct nest *k, int read, const int *at, int lanes)
{
	struct known e = entry_of(k, read, at, lanes);
	if ((e.var = find_point(k, &e)) >= 0)
		return e.var;
	if (worth_crossing(k, read, at, lanes)) {
		load_crossed(k, read, at, k->cross[read]);
		return nest_load(k, read, at, lanes);
	}
	e.mem = nest_mem(k, read, at, lanes);
	if ((e.var = find_mem(k, &e)) < 0)
		e.var = load(k, read, e.mem, lanes);
	return nest_know(k, e);
}

int nest_const(struct nest *k, float imm, int lanes)
{
	for (int i = k->nknown - 1; i >= k->floor; i--)
		if (k->known[i].read < 0 && k->known[i].lanes == lanes &&
		    !memcmp(&k->known[i].imm, &imm, sizeof imm))
			return k->known[i].var;
	struct known e = {.read = -1, .lanes = lanes, .imm = imm, .var = lv_new(k->w->l, lanes)};
	lv_const(k->w->l, e.var, imm);
	return nest_know(k, e);
}

/* Steps of the reduction before this body. An axis without a loop counts as inside of all loops, wherever its
 * digit is. */
static const struct ix *steps_done(const struct nest *k, const struct lower_place *p)
{
	struct loops *l = k->w->l;
	const struct ix *sum = ix_c(l, 0);
	int64_t inside = 1;
	for (int j = 0; j < p->ndigits; j++) {
		const struct digit *d = &p->digit[j];
		bool whole = k->s->unroll[d->axis] == k->st->axis[d->axis].extent;
		if (d->axis < k->ns)
			continue;
		if (whole)
			inside *= k->st->axis[d->axis].extent;
		else
			sum =
			    ix_add(l, sum,
				   ix_mul(l, add_digit(k, ix_c(l, 0), d, 0, k->ahead.step), ix_c(l, inside)));
	}
	return sum;
}

/* Number of tiles that have used the panel before this one. */
static const struct ix *tiles_done(const struct nest *k)
{
	struct loops *l = k->w->l;
	const struct ix *sum = ix_c(l, 0);
	for (int i = 0; i < k->ns; i++) {
		int a = k->s->order[i];
		int64_t extent, tile = k->s->tile[a];
		if (k->ahead.axes >> a & 1 || !ix_is_const(k->extent[a], &extent))
			continue;
		sum = ix_mul(l, sum, ix_c(l, (extent + tile - 1) / tile));
		sum = ix_add(l, sum, ix_div(l, axis_value(k, a, 0), ix_c(l, tile)));
	}
	return sum;
}

void nest_fetch(struct nest *k, int step, int steps)
{
	const struct panel_ahead *h = &k->ahead;
	struct loops *l = k->w->l;
	if (!k->s->prefetch || k->edge)
		return;
	const struct lower_place *p = &k->w->at[k->st->read[h->read].operand];
	int64_t rate = INT64_C(1) << h->shift, lines = (steps * h->lines + rate - 1) / rate;
	const struct ix *done = steps_done(k, p), *next = ix_c(l, h->part * h->step), *at, *tiles;
	if (k->part) {
		const struct ix *part = ix_mul(l, k->part, ix_c(l, h->part));
		done = ix_sub(l, done, part);
		next = ix_min(l, ix_add(l, part, ix_c(l, h->part)), ix_c(l, h->steps));
		next = ix_mul(l, next, ix_c(l, h->step));
	}
	at = h->tiles > 1 ? next : ix_c(l, AHEAD);
	for (int j = 0; j < p->ndigits; j++)
		if (p->digit[j].axis < k->ns && !p->digit[j].mod)
			at = add_digit(k, at, &p->digit[j], 0, 1);
	/* The page past the end may be unmapped: each fetch from it would walk the page tables. */
	int group = k->w->t->operand[k->st->read[h->read].operand].group;
	int64_t each = (h->part * h->lines + rate - 1) / rate, line = stage_line(k->s),
		last = pack_elems(&p->packing) / (group ? group : 1) - h->tiles * each * line;
	if (h->tiles > 1)
		at = ix_min(l, at, ix_c(l, last < 0 ? 0 : last));
	tiles = ix_mul(l, tiles_done(k), ix_c(l, each));
	done = ix_add(l, tiles, ix_div(l, ix_mul(l, done, ix_c(l, h->lines)), ix_c(l, rate)));
	at = ix_add(l, at, ix_mul(l, done, ix_c(l, line)));
	for (int64_t i = step * lines / steps; i < (step + 1) * lines / steps; i++)
		lv_prefetch(l, p->buf,
			    ix_mul(l, ix_add(l, at, ix_c(l, i * line)), ix_c(l, group ? group : 1)),
			    k->s->prefetch);
}

/* The spatial axis in dim d's index; -1: none. */
static int point_axis(const struct nest *k, const struct index *x)
{
	for (int a = 0; a < k->ns; a++)
		if (x->coef[a])
			return a;
	return -1;
}

/* Elements of a row, along dim `last`, that the tile reads. */
static int64_t row_elems(const struct nest *k, int last)
{
	const struct index *x = &k->st->read[k->next_rows].dim[last];
	int a = point_axis(k, x);
	if (a < 0)
		return k->w->t->operand[k->w->t->stage[0].read[0].operand].dims.d[last];
	return (int64_t)k->n[a] * (a == k->s->lane ? k->s->lanes : 1) * x->coef[a];
}

/* Prefetches the lines of one row at the current values of the dims before the last. */
static void fetch_row(struct nest *k, const struct lower_place *p, const struct ix **index, int last)
{
	struct loops *l = k->w->l;
	const struct index *x = &k->st->read[k->next_rows].dim[last];
	int a = point_axis(k, x);
	int64_t elems = row_elems(k, last);
	const struct ix *first = a < 0 ? ix_c(l, 0) : ix_mul(l, axis_value(k, a, 0), ix_c(l, x->coef[a]));
	for (int64_t i = 0; i < elems; i += LINE_ELEMS) {
		index[last] = ix_add(l, first, ix_c(l, i));
		lv_prefetch(l, p->buf, dims_address(k, p, index), k->w->s.st[0].prefetch);
	}
}

/* The row that is `back` rows before the last one that the next step's tile at this place reads. */
static const struct ix *row_ahead(const struct nest *k, int row, int64_t back)
{
	struct loops *l = k->w->l;
	struct index x = k->st->read[k->next_rows].dim[row];
	int a = k->w->ring.st[1].axis;
	int64_t coef = x.coef[a], lo, hi;
	x.coef[a] = 0;
	index_range(k->st, &x, &lo, &hi);
	hi += k->w->ring.rows * k->w->ring.st[0].step - back;
	return ix_add(l, ix_mul(l, axis_value(k, a, 0), ix_c(l, coef)), ix_c(l, hi));
}

void nest_fetch_rows(struct nest *k)
{
	struct loops *l = k->w->l;
	const struct read *r = &k->st->read[k->next_rows];
	const struct operand *o = &k->w->t->operand[k->w->t->stage[0].read[0].operand];
	const struct lower_place *p = &k->w->at[k->w->t->stage[0].read[0].operand];
	int rank = o->dims.rank, row = k->w->ring.dim[r->operand], others = 0;
	int64_t rows = r->dim[row].coef[k->w->ring.st[1].axis], channels = 1;
	const struct ix *index[MAX_RANK], *begins = ix_c(l, 1);
	for (int d = 0; d < rank - 1; d++) {
		int a = point_axis(k, &r->dim[d]);
		index[d] = a < 0 ? ix_c(l, 0) : axis_value(k, a, 0);
		if (a < 0 && d != row) {
			others++;
			channels = o->dims.d[d];
		}
	}
	if (others > 1 || row == rank - 1 || rows * channels > MOST_ROWS ||
	    rows * channels * ceil_div(row_elems(k, rank - 1), LINE_ELEMS) > MOST_LINES)
		return;
	for (int a = 0; a < k->ns; a++) /* of the tiles that read the same rows, only the first one fetches */
		if (!(k->axes[k->next_rows] >> a & 1))
			begins = ix_mul(l, begins, ix_eq(l, axis_value(k, a, 0), ix_c(l, 0)));
	struct stmt *s = if_begin(l, begins);
	for (int64_t c = 0; c < channels; c++)
		for (int64_t j = 0; j < rows; j++) {
			for (int d = 0; d < rank - 1; d++)
				if (point_axis(k, &r->dim[d]) < 0)
					index[d] = ix_c(l, c);
			index[row] = row_ahead(k, row, j);
			fetch_row(k, p, index, rank - 1);
		}
	if_end(l, s);
}

/* Smallest (sign -1) or largest index of dim d over the tile and the whole reduction. Symbolic factors are
 * positive. */
static const struct ix *reach(const struct nest *k, const struct index *x, int sign)
{
	struct loops *l = k->w->l;
	const struct ix *v = size_ix(k->w, x->off);
	for (int a = 0; a < k->st->naxes; a++) {
		if (!x->coef[a])
			continue;
		const struct ix *first = ix_c(l, 0), *last = ix_sub(l, k->extent[a], ix_c(l, 1));
		if (a < k->ns) {
			first = axis_value(k, a, 0);
			last = axis_value(k, a, k->n[a] - 1);
		}
		const struct ix *c = size_ix(k->w, x->coef[a]);
		first = ix_mul(l, first, c);
		last = ix_mul(l, last, c);
		v = ix_add(l, v, sign > 0 ? ix_max(l, first, last) : ix_min(l, first, last));
	}
	return x->div > 1 ? ix_div(l, v, ix_c(l, x->div)) : v;
}

const struct ix *nest_interior(const struct nest *k)
{
	struct loops *l = k->w->l;
	const struct ix *all = ix_c(l, 1);
	for (int i = 0; i < k->st->nreads; i++) {
		const struct read *r = &k->st->read[i];
		const struct lower_place *p = &k->w->at[r->operand];
		if (p->packed)
			continue;
		for (int d = 0; d < k->w->t->operand[r->operand].dims.rank; d++)
			if (index_guarded(k->w->t, k->st, r, d))
				all = ix_mul(
				    l, all,
				    inside(l, p, d, reach(k, &r->dim[d], -1), reach(k, &r->dim[d], 1)));
	}
	return all;
}

/* Number of different loads of a read in the tile; 0: it still changes. */
static int invariant(const struct nest *k, int read)
{
	int count = 1;
	for (int a = 0; a < k->st->naxes; a++) {
		if (!(k->axes[read] >> a & 1))
			continue;
		if (!(k->bound >> a & 1))
			return 0;
		count *= k->n[a];
	}
	return count;
}

void nest_hoist(struct nest *k)
{
	if (k->s->quads) {
		nest_quads_hoist(k);
		return;
	}
	if (k->s->mmla || (k->thread && !k->share_at)) /* shared buffers are not filled */
		return;
	int room = target_vectors(k->w->tg, k->s->lanes) - 4 - k->w->hoisted;
	for (int a = 0, points = k->s->chains; a < k->ns; a++) {
		points *= k->s->tile[a];
		if (a == k->ns - 1)
			room -= points;
	}
	for (int i = 0; i < k->st->nreads && k->s->hoist; i++) {
		int n = stage_in_body(k->st, i) ? invariant(k, i) : 0, before = k->nknown;
		bool moves = k->s->down_axis >= 0 && k->axes[i] >> k->s->down_axis & 1; /* row by row */
		if (!n || n > room || moves)
			continue;
		int at[MAX_AXES] = {0};
		unsigned axes = k->axes[i];
		do {
			bool wanted = true;
			for (int a = 0; a < k->st->naxes; a++)
				wanted &= !at[a] || (axes >> a & 1);
			if (wanted)
				nest_load(k, i, at, k->s->lanes);
		} while (nest_next(k, 0, k->st->naxes, at));
		k->w->hoisted += k->nknown - before;
		room -= k->nknown - before;
	}
}
