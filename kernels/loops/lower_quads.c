/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise sums of bytes by dot products of four neighbouring pixels (kernels/space/quads.h): each row of
 * the image that the tile reads is loaded and turned once, for all of the points whose windows it lies in. */
#include "kernels/loops/lower_parts.h"

#include <string.h>

/* Registers for quads and the program's constants, which LLVM keeps around all loops. */
enum { SPARE = 12 };

/* A row of the tile's image, and the points and taps that read it: at[] without those along the row. */
struct window {
	int at[MAX_AXES];
	int64_t row; /* rows that follow one another in memory have rising numbers */
};

/* Distance of the row from that of the tile's first point and tap. */
static int64_t row_of(const struct nest *k, const int *at)
{
	struct phys_axis ax[MAX_SPLITS];
	const struct read *r = &k->st->read[k->quads.image];
	int n = operand_axes(&k->w->t->operand[r->operand], ax);
	int64_t row = 0;
	for (int j = 0; j < n; j++)
		for (int a = 0; a < k->st->naxes; a++)
			row += r->dim[ax[j].dim].coef[a] * at[a] * (a == k->s->lane ? k->s->lanes : 1) /
			       ax[j].div * ax[j].stride * !ax[j].mod;
	return row;
}

/* Advances at[] over all axes but those along the row. */
static bool next_window(const struct nest *k, int *at)
{
	for (int a = 0; a < k->st->naxes; a++) {
		if (a == k->quads.pixel || a == k->quads.tap)
			continue;
		if (++at[a] < k->n[a])
			return true;
		at[a] = 0;
	}
	return false;
}

/* Lists the windows of the tile, row by row. Returns their number. */
static int list_windows(const struct nest *k, struct window **out)
{
	int at[MAX_AXES] = {0}, n = 0, all = 1;
	for (int a = 0; a < k->st->naxes; a++)
		all *= a == k->quads.pixel || a == k->quads.tap ? 1 : k->n[a];
	*out = ARENA_ARRAY(k->w->l->arena, struct window, all);
	do {
		struct window w = {.row = row_of(k, at)};
		int i = n++;
		memcpy(w.at, at, sizeof at);
		for (; i > 0 && (*out)[i - 1].row > w.row; i--)
			(*out)[i] = (*out)[i - 1];
		(*out)[i] = w;
	} while (next_window(k, at));
	return n;
}

static int points_of(const struct nest *k)
{
	return k->quads.pixel < 0 ? 1 : k->n[k->quads.pixel];
}

/* Pixels of a row that the tile needs. */
static int64_t pixels_of(const struct nest *k)
{
	return (points_of(k) - 1) * k->quads.stride + k->quads.taps;
}

/* The quads of the pixels from the first + `pixel` on, in the row of the window. */
static int quad_of(struct nest *k, const int *at, int64_t pixel)
{
	struct loops *l = k->w->l;
	int place[MAX_AXES], lanes = k->s->lanes, raw;
	int64_t left = pixels_of(k) - pixel;
	struct mem m = nest_mem(k, k->quads.image, at, lanes);
	memcpy(place, at, sizeof place);
	place[k->quads.tap] = (int)pixel;
	m.at = ix_add(l, m.at, ix_c(l, pixel * lanes));
	m.group = QUAD;
	m.stride = QUAD;
	m.valid = left < QUAD ? ix_c(l, left * lanes / QUAD) : NULL;
	struct known e = nest_entry(k, k->quads.image, place, m);
	if ((e.var = nest_find(k, &e)) >= 0)
		return e.var;
	lv_load(l, raw = lv_new_s32(l, lanes), m);
	lv_set(l, e.var = lv_new_s32(l, lanes), V_BTURN, raw, -1, -1, -1);
	return nest_know(k, e);
}

/* The weights of quad `i` of a chain whose taps begin `phase` pixels after its first one. */
static int weights_of(struct nest *k, const int *at, int i, int phase)
{
	struct loops *l = k->w->l;
	int place[MAX_AXES], lanes = k->s->lanes, set = i * k->quads.phases + phase;
	struct mem m = nest_mem(k, k->quads.weights, at, lanes);
	memcpy(place, at, sizeof place);
	place[k->quads.tap] = set;
	m.at = ix_add(l, m.at, ix_c(l, (int64_t)set * lanes * QUAD));
	m.group = QUAD;
	m.stride = QUAD;
	m.valid = NULL;
	struct known e = nest_entry(k, k->quads.weights, place, m);
	if ((e.var = nest_find(k, &e)) >= 0)
		return e.var;
	lv_load(l, e.var = lv_new_s32(l, lanes), m);
	return nest_know(k, e);
}

/* Adds the products of quad `i` of the chain from `first` on. The first operand of the instruction may be
 * unsigned, the second is signed. */
static void add_quad(struct nest *k, const int *at, int acc, int64_t first, int i, int phase)
{
	const enum dtype image = k->w->t->operand[k->st->read[k->quads.image].operand].dtype,
			 weights = k->w->t->operand[k->st->read[k->quads.weights].operand].dtype;
	int x = quad_of(k, at, first + QUAD * i), w = weights_of(k, at, i, phase);
	bool swaps = weights == DT_U8;
	lv_dot4(k->w->l, acc, image == DT_I8 && !swaps ? V_DOT4S : V_DOT4U, swaps ? w : x, swaps ? x : w, acc,
		false);
}

void nest_quads(struct nest *k)
{
	struct window *w;
	int n = list_windows(k, &w);
	for (int j = 0; j < n; j++) {
		int64_t chain = -1;
		for (int p = 0; p < points_of(k); p++) {
			int at[MAX_AXES], first = p * (int)k->quads.stride;
			memcpy(at, w[j].at, sizeof at);
			chain = quads_chain(&k->quads, first, chain, pixels_of(k));
			if (k->quads.pixel >= 0)
				at[k->quads.pixel] = p;
			int acc = k->acc[nest_point(k, at)];
			for (int i = 0; i < k->quads.n; i++)
				add_quad(k, w[j].at, acc, chain, i, first - (int)chain);
		}
	}
}

/* Number of vectors of weights that no further loop changes; 0: some loop does. */
static int fixed_weights(const struct nest *k)
{
	int n = k->quads.n * k->quads.phases;
	for (int a = 0; a < k->st->naxes; a++) {
		if (!(k->axes[k->quads.weights] >> a & 1) || a == k->quads.tap)
			continue;
		if (!(k->bound >> a & 1))
			return 0;
		n *= k->n[a];
	}
	return n;
}

void nest_quads_hoist(struct nest *k)
{
	int n = k->s->hoist ? fixed_weights(k) : 0, points = 1, before = k->nknown, at[MAX_AXES] = {0};
	for (int a = 0; a < k->ns; a++)
		points *= k->s->tile[a];
	if (!n || n > target_vectors(k->w->tg, k->s->lanes) - SPARE - k->w->hoisted - points)
		return;
	do {
		bool wanted = true;
		for (int a = 0; a < k->st->naxes; a++)
			wanted &= !at[a] || (k->axes[k->quads.weights] >> a & 1);
		for (int i = 0; i < k->quads.n && wanted; i++)
			for (int p = 0; p < k->quads.phases; p++)
				weights_of(k, at, i, p);
	} while (next_window(k, at));
	k->w->hoisted += k->nknown - before;
}

/* Stores four points along the row, whose results are in acc[], as one vector. */
static void store_quad(struct nest *k, const int *at)
{
	struct loops *l = k->w->l;
	int v[QUAD], point[MAX_AXES], lanes = k->s->lanes, quad = lv_new_s32(l, lanes),
				      rows = lv_new_s32(l, lanes);
	bool is_signed = k->w->t->operand[k->st->out.operand].dtype == DT_I8;
	memcpy(point, at, sizeof point);
	for (int i = 0; i < QUAD; i++, point[k->quads.pixel]++)
		v[i] = nest_bytes(k, nest_post(k, point, k->acc[nest_point(k, point)]));
	struct mem m = nest_mem(k, k->st->nreads, at, lanes);
	m.group = QUAD;
	m.stride = QUAD;
	lv_set(l, quad, is_signed ? V_QUADS : V_QUADU, v[0], v[1], v[2], v[3]);
	lv_set(l, rows, V_BBACK, quad, -1, -1, -1);
	lv_store(l, rows, m);
}

bool nest_quads_finish(struct nest *k)
{
	int at[MAX_AXES] = {0}, x = k->quads.pixel;
	if (!quads_store(k->w->t, k->st, k->s, &k->quads) || (k->last_masked && k->masks[k->st->nreads]))
		return false;
	do {
		if (at[x] % QUAD)
			continue;
		if (at[x] + QUAD <= k->n[x]) {
			store_quad(k, at);
			continue;
		}
		int end = k->n[x], from = at[x];
		for (; at[x] < end; at[x]++)
			nest_store(k, nest_post(k, at, k->acc[nest_point(k, at)]),
				   nest_mem(k, k->st->nreads, at, k->s->lanes));
		at[x] = from;
	} while (nest_next(k, 0, k->ns, at));
	return true;
}
