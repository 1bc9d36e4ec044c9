/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/host_math.h"
#include "agent/run/host_parts.h"
#include "kernels/task/task_stage.h"

#include <string.h>

int host_entries(const struct host_task *h)
{
	return h->t->nstages;
}

int64_t host_extent(const struct host_task *h, int entry)
{
	return h->stage[entry].extent;
}

/* Whether neighbours in a plain output read elements that lie two or more apart, of each of the first n reads
 * that is no constant: fallback kernels load these one by one, tiles by vectors. */
static bool strided_rows(const struct stage *s, const struct task *t, int n)
{
	enum { LONG = 8 };
	const struct operand *out = &t->operand[s->out.operand];
	int d = out->dims.rank - 1, a = d < 0 ? -1 : index_axis(s, &s->out.dim[d]);
	if (out->layout.n || a < 0 || s->axis[a].extent < LONG)
		return false;
	for (int i = 0; i < n; i++) {
		const struct operand *o = &t->operand[s->read[i].operand];
		int last = o->dims.rank - 1;
		if (o->role != ROLE_CONST && (o->layout.n || last < 0 || s->read[i].dim[last].coef[a] < 2))
			return false;
	}
	return true;
}

/* Points of a row of the output if the innermost dim of a factor that is no constant is a window (it steps
 * with a spatial axis and with one that is summed over); 0: none is. */
static int64_t window_row(const struct stage *s, const struct task *t)
{
	for (int i = 0; i < 2; i++) {
		const struct operand *o = &t->operand[s->read[i].operand];
		int64_t row = 1, taps = 1;
		for (int a = 0; a < s->naxes && o->dims.rank; a++)
			if (s->read[i].dim[o->dims.rank - 1].coef[a])
				*(s->axis[a].kind == AXIS_SPATIAL ? &row : &taps) *= s->axis[a].extent;
		if (o->role != ROLE_CONST && row > 1 && taps > 1)
			return row;
	}
	return 0;
}

/* The least reduction points from which tiles are better than fallback kernels for a product whose constants
 * have `lanes` outputs of each point. With AVX-512, in convolutions and products of six networks: as fast
 * from 144 points on, 1.3 times as fast from 1,024, 1.8 times from 2,048. Fallback kernels compute whole
 * vectors of output channels: for fewer channels tiles are up to 7 times as fast. With AVX2, in nine
 * networks: windows 1.1 to 1.4 times as fast from 128 points on, and from 64 points on where a row's length
 * is no multiple of 8 (in the geometric mean of 60 random convolutions); products without a window never (0.6
 * to 0.9 times): INT64_MAX. */
static int64_t least_points(const struct stage *s, const struct task *t, int64_t lanes)
{
	enum { MANY = 512, SOME = 128, NARROW = 96, WINDOW = 64, AVX2_LANES = 8 };
	int64_t row = window_row(s, t);
	if (tile_lanes() >= TILE_LANES)
		return lanes >= TILE_LANES ? MANY : NARROW;
	if (row % AVX2_LANES)
		return WINDOW;
	if (!row && tile_lanes() == AVX2_LANES && lanes >= AVX2_LANES)
		return INT64_MAX; /* tiles are never better */
	return lanes >= TILE_LANES ? SOME : NARROW;
}

bool host_is_exact(const struct host_task *h)
{
	return h->exact;
}

enum host_fit host_fit(const struct task *t)
{
	enum { AS_WELL = 144, SHARE = 4 };
	const struct hstage h = {.t = t, .operand = t->operand, .s = &t->stage[0], .axis = -1};
	int64_t points = 1, lanes[2] = {1, 1}, all = 1;
	int factors = t->nstages == 1 && task_floats(t) ? host_factors(&h) : 0;
	if (factors == 1 && strided_rows(h.s, t, 1))
		return FITS_BETTER;
	if (factors != 2)
		return FITS_NOT;
	for (int a = 0; a < h.s->naxes; a++) {
		int64_t n = h.s->axis[a].extent;
		if (h.s->axis[a].kind == AXIS_REDUCTION) {
			points *= n;
			continue;
		}
		all *= n;
		for (int i = 0; i < 2; i++)
			lanes[i] *=
			    host_read_uses(&h, &h.s->read[i], &t->operand[h.s->read[i].operand], a) ? n : 1;
	}
	if (strided_rows(h.s, t, 2))
		return FITS_BETTER;
	for (int i = 0; i < 2; i++) {
		bool product = t->operand[h.s->read[i].operand].role == ROLE_CONST &&
			       all / lanes[i] >= SHARE && lanes[!i] * lanes[i] == all;
		if (product && points >= least_points(h.s, t, lanes[i]))
			return FITS_BETTER;
		if (product && points >= AS_WELL)
			return FITS_AS_WELL;
	}
	return FITS_NOT;
}

/* Chooses the run of a phase whose stage is set; `alone`: constants may be packed as it wants them. */
static void choose_part(struct host_task *h, struct hstage *s, bool alone)
{
	s->t = h->t;
	s->operand = h->operand;
	s->lanes = h->lanes;
	s->out = &h->operand[s->s->out.operand];
	s->points = 1;
	for (int x = 0; x < s->s->naxes; x++) {
		s->nspatial += s->s->axis[x].kind == AXIS_SPATIAL;
		s->points *= s->s->axis[x].kind == AXIS_REDUCTION ? s->s->axis[x].extent : 1;
	}
	host_choose_run(s, h->use);
	s->extent = 1;
	for (int x = 0; x < s->nspatial; x++)
		s->extent *= x == s->axis ? (s->size[x] + s->run - 1) / s->run : s->size[x];
	for (int i = 0; i < s->s->nreads && alone; i++)
		host_choose_packing(s, h->use, &s->s->read[i], &h->operand[s->s->read[i].operand]);
}

/* Reads that are one value of each row are applied as scalars, if rows are whole blocks of the operators. */
static int make_programs(struct hstage *s, struct arena *a)
{
	bool row[MAX_OPERANDS] = {false}, point[MAX_OPERANDS] = {false};
	for (int i = 0; i < s->s->nreads; i++) {
		const struct view *v = &s->view[i];
		row[i] = v->fast && !v->gather && !v->block && !v->nguards && v->step == 0 &&
			 s->pitch >= 2 * HOST_LANES && s->pitch % HOST_LANES == 0;
		point[i] = s->how == BY_POINTS ? v->point_step == 0 : row[i] && s->points == 1;
	}
	int rc = host_prog_make(&s->s->body, point, a, &s->body);
	return rc < 0 ? rc : host_prog_make(&s->s->post, row, a, &s->post);
}

/* Makes a phase ready, when the constants of all are packed. */
static int make_part(struct host_task *h, struct hstage *s, struct arena *a)
{
	s->known = h->known; /* not before: how constants are packed must not depend on it */
	int rc = host_view_out(s, a);
	for (int i = 0; i < s->s->nreads && rc >= 0; i++) {
		const struct read *r = &s->s->read[i];
		rc = host_view_make(s, &s->view[i], r, &h->operand[r->operand], a);
	}
	if (rc < 0)
		return rc;
	host_choose_how(s);
	s->line = -1;
	for (int k = 0; k < s->nspatial; k++)
		if (s->size[s->order[k]] > (s->order[k] == s->axis ? s->run : 1))
			s->line = s->order[k];
	rc = make_programs(s, a);
	for (int i = 0; i < s->s->nreads; i++)
		s->slow |= !s->view[i].fast;
	return rc;
}

static int make_stage(struct host_task *h, int k, struct arena *a)
{
	const struct stage *s;
	struct flat *flat;
	struct phases *to = &h->stage[k];
	int rc = flat_make(h->t, k, h->operand, h->t->nstages == 1, a, &flat);
	to->n = rc < 0 || flat ? 1 : host_phases(h->t, k, a, &s);
	if (rc < 0 || to->n < 0)
		return rc < 0 ? rc : to->n;
	to->part = arena_try(a, (size_t)to->n, sizeof *to->part);
	if (!to->part)
		return E_NOMEM;
	if (flat) {
		*to->part = (struct hstage){.s = &h->t->stage[k], .flat = flat};
		to->extent = to->part->extent = flat_extent(flat);
		return E_OK;
	}
	for (int i = 0; i < to->n; i++) {
		to->part[i].s = &s[i];
		choose_part(h, &to->part[i], h->t->nstages == 1);
	}
	for (int i = 0; i < to->n && rc >= 0; i++) {
		rc = make_part(h, &to->part[i], a);
		to->extent += to->part[i].extent;
	}
	return rc;
}

/* Intermediates are floats in memory. */
static int make_exact(struct host_task *h, struct arena *a)
{
	h->exact = true;
	for (int k = 0; k < h->t->nstages; k++)
		h->stage[k].extent = ref_stage_points(h->t, k);
	for (int i = 0; i < h->t->noperands; i++)
		if (h->operand[i].role == ROLE_TMP)
			h->operand[i].dtype = DT_F32;
	return ref_stages_make(h->t, a, h->sum);
}

int host_make(const struct task *t, enum host_use use, int lanes, const int32_t *const *table,
	      struct arena *a, struct operand packed[MAX_OPERANDS], struct host_task **out)
{
	struct host_task *h = arena_try(a, 1, sizeof *h);
	if (!h)
		return E_NOMEM;
	h->t = t;
	h->use = use;
	h->lanes = lanes;
	for (int i = 0; i < t->noperands && table; i++)
		if (table[i])
			memcpy(&h->known[i], &table[i], sizeof h->known[i]); /* nothing writes there */
	memcpy(h->operand, t->operand, sizeof h->operand);
	int rc = task_floats(t) ? E_OK : make_exact(h, a);
	for (int k = 0; k < t->nstages && rc >= 0 && !h->exact; k++)
		rc = make_stage(h, k, a);
	memcpy(packed, h->operand, sizeof h->operand);
	*out = h;
	return rc;
}
