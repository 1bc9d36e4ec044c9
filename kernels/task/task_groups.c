/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products of bytes as sums of dot products of four, and of floats as those of two f16 or bf16. */
#include "kernels/task/task_stage.h"

#include <string.h>

enum { GROUP = 4, PAIR = 2 };

/* Outputs that an element of an image must serve: to copy it in 16 bits costs about three products, and they
 * are the lanes where those cannot lie along the image. */
enum { LEAST_OUTPUTS = 8 };

/* An axis of a stage that can be summed in groups. */
struct grouped {
	int axis;
	int image, weights;         /* reads of the stage */
	int image_dim, weights_dim; /* dims that the axis indexes */
	bool bytes;                 /* the image's groups begin at any byte */
};

/* The only dim of a read that the axis indexes, with coefficient 1; -1: another form. */
static int dim_of(const struct task *t, const struct read *r, int axis)
{
	int found = -1;
	for (int d = 0; d < t->operand[r->operand].dims.rank; d++) {
		if (!r->dim[d].coef[axis])
			continue;
		if (found >= 0 || r->dim[d].coef[axis] != 1)
			return -1;
		found = d;
	}
	return found;
}

/* Whether the index is the axis alone and covers the dim, so that what follows the axis' end is outside. */
static bool covers(const struct task *t, const struct stage *st, const struct read *r, int d, int axis)
{
	return index_axis(st, &r->dim[d]) == axis &&
	       st->axis[axis].extent == t->operand[r->operand].dims.d[d];
}

/* Whether n neighbours along the dim, from a multiple of n on, lie side by side in memory, even if the dim
 * ends among them. */
static bool side_by_side(const struct operand *o, int d, int n)
{
	const struct layout *l = &o->layout;
	int last = l->n - 1;
	if (l->lo[d] || l->hi[d])
		return false;
	if (!l->n)
		return d == o->dims.rank - 1 && o->dims.d[d] % n == 0;
	if (l->ax[last].dim != d)
		return false;
	for (int j = 0; j < last; j++)
		if (l->ax[j].dim == d)
			return l->ax[j].div % n == 0;
	return o->dims.d[d] % n == 0;
}

/* Whether neighbours along the dim lie side by side in memory. */
static bool in_rows(const struct operand *o, int d)
{
	int last = o->layout.n - 1;
	for (int j = 0; j < last; j++)
		if (o->layout.ax[j].dim == d)
			return false;
	return last < 0 ? d == o->dims.rank - 1 : o->layout.ax[last].dim == d;
}

/* Whether groups begin at multiples of n of the dim's index. */
static bool aligned(const struct stage *st, const struct index *x, int axis, int n)
{
	if (x->div > 1 || x->mod > 1 || x->table >= 0 || x->off % n)
		return false;
	for (int a = 0; a < st->naxes; a++)
		if (a != axis && x->coef[a] % n)
			return false;
	return true;
}

/* Points of the stage that use one element of the image. */
static int64_t outputs(const struct task *t, const struct stage *st, const struct read *image)
{
	unsigned axes = read_axes(t, st, image);
	int64_t n = 1;
	for (int a = 0; a < stage_spatial(st); a++)
		n *= axes >> a & 1 ? 1 : st->axis[a].extent;
	return n;
}

/* Whether groups may begin at any byte of the dim. Lanes cannot lie along such an image. */
static bool any_byte(const struct task *t, const struct stage *st, const struct read *r, int d)
{
	const struct index *x = &r->dim[d];
	const struct operand *o = &t->operand[r->operand];
	return dtype_is_byte(o->dtype) && o->role == ROLE_IN && in_rows(o, d) && x->div <= 1 && x->mod <= 1 &&
	       x->table < 0 && outputs(t, st, r) >= LEAST_OUTPUTS;
}

static bool find_axis(const struct task *t, const struct stage *st, int n, struct grouped *g)
{
	const struct read *x = &st->read[g->image], *w = &st->read[g->weights];
	const struct operand *o = &t->operand[x->operand];
	for (int a = stage_spatial(st); a < st->naxes; a++) {
		int d = dim_of(t, x, a), e = dim_of(t, w, a);
		if (d < 0 || e < 0 || !covers(t, st, w, e, a) || index_guarded(t, st, x, d))
			continue;
		bool whole = side_by_side(o, d, n) && aligned(st, &x->dim[d], a, n);
		if (!whole && !any_byte(t, st, x, d))
			continue;
		*g = (struct grouped){a, g->image, g->weights, d, e, !whole};
		return true;
	}
	return false;
}

/* Whether no group reaches past the end of the axis or the image's dim. */
static bool whole_groups(const struct stage *st, const struct operand *image, const struct grouped *g, int n)
{
	return image->dims.d[g->image_dim] % n == 0 && st->axis[g->axis].extent % n == 0;
}

static bool find_group(const struct task *t, const struct stage *st, struct grouped *g)
{
	if (t->nsyms || !stage_whole(t, st) || st->body.n != 3)
		return false;
	for (int i = 0; i < 2; i++) {
		int x = st->body.at[i].arg, w = st->body.at[1 - i].arg;
		const struct operand *image = &t->operand[st->read[x].operand],
				     *weights = &t->operand[st->read[w].operand];
		bool bytes = image->dtype == DT_I8 || weights->dtype == DT_I8;
		*g = (struct grouped){.image = x, .weights = w};
		if (x != w && bytes && operand_packs(t, st->read[w].operand) &&
		    !operand_packs(t, st->read[x].operand) && task_reads(t, st->read[x].operand) == 1 &&
		    find_axis(t, st, GROUP, g) &&
		    (image->role != ROLE_TMP || whole_groups(st, image, g, GROUP)))
			return true;
	}
	return false;
}

static void group_operand(struct operand *o, int d)
{
	struct layout *l = &o->layout;
	o->group = GROUP;
	o->group_dim = d;
	o->dims.d[d] = (o->dims.d[d] + GROUP - 1) / GROUP;
	for (int j = 0; j < l->n; j++) {
		if (l->ax[j].dim != d || l->ax[j].div == 1)
			continue;
		l->ax[j].div /= GROUP;
		l->n -= l->ax[j].div == 1; /* the inner axis, which is the last, has one group */
	}
}

static void group_stage(struct task *t, struct stage *st, const struct grouped *g)
{
	struct operand *image = &t->operand[st->read[g->image].operand];
	struct index *x = &st->read[g->image].dim[g->image_dim];
	if (g->bytes)
		image->past = (int)(-st->axis[g->axis].extent & (GROUP - 1));
	st->axis[g->axis].extent = (st->axis[g->axis].extent + GROUP - 1) / GROUP;
	group_operand(&t->operand[st->read[g->weights].operand], g->weights_dim);
	if (image->role == ROLE_TMP || g->bytes) { /* a tmp's bytes are written one by one */
		x->coef[g->axis] = GROUP;
		return;
	}
	for (int a = 0; a < st->naxes; a++)
		x->coef[a] /= a == g->axis ? 1 : GROUP;
	x->off /= GROUP;
	group_operand(image, g->image_dim);
}

const struct task *task_groups(struct arena *a, const struct task *t)
{
	struct task *copy = NULL;
	struct grouped g;
	for (int k = 0; k < t->nstages; k++) {
		if (!find_group(t, &t->stage[k], &g))
			continue;
		copy = copy ? copy : task_dup(a, t);
		group_stage(copy, &copy->stage[k], &g);
	}
	return copy ? copy : t;
}

/* ---- pairs of 16 bits ---- */

/* Whether a copy in scratch, whose halo is 0, can take the place of the image. */
static bool can_copy(const struct task *t, const struct stage *st, const struct read *r)
{
	const struct operand *o = &t->operand[r->operand];
	bool good = o->role == ROLE_IN && t->nstages < MAX_STAGES && t->noperands < MAX_OPERANDS &&
		    outputs(t, st, r) >= LEAST_OUTPUTS;
	for (int d = 0; d < o->dims.rank && good; d++)
		good = r->dim[d].div <= 1 && r->dim[d].mod <= 1 && r->dim[d].table < 0;
	return good;
}

static bool is_float(const struct operand *o)
{
	return o->dtype == DT_F32 && !o->group;
}

static bool find_pair(const struct task *t, const struct stage *st, struct grouped *g)
{
	const struct prog *p = &st->body;
	if (t->nsyms || st->comb != COMB_SUM || p->n != 3 || p->at[0].op != P_READ || p->at[1].op != P_READ ||
	    p->at[2].op != P_MUL || stage_exact(t, st))
		return false;
	for (int i = 0; i < 2; i++) {
		const struct read *x = &st->read[p->at[i].arg], *w = &st->read[p->at[1 - i].arg];
		const struct operand *image = &t->operand[x->operand];
		bool alone = image->role == ROLE_TMP ? task_reads(t, x->operand) == 1 : can_copy(t, st, x);
		*g = (struct grouped){.image = p->at[i].arg, .weights = p->at[1 - i].arg};
		if (alone && image->fill == 0 && is_float(image) && is_float(&t->operand[w->operand]) &&
		    operand_packs(t, w->operand) && task_reads(t, w->operand) == 1 &&
		    find_axis(t, st, PAIR, g) && whole_groups(st, image, g, PAIR))
			return true;
	}
	return false;
}

/* Sets the halo of a copy to what the read of a stage reaches. */
static void reach(const struct stage *st, const struct read *r, struct operand *o)
{
	for (int d = 0; d < o->dims.rank; d++) {
		int64_t lo, hi;
		index_range(st, &r->dim[d], &lo, &hi);
		o->layout.lo[d] = lo < 0 ? -lo : 0;
		o->layout.hi[d] = hi >= o->dims.d[d] ? hi - o->dims.d[d] + 1 : 0;
	}
}

/* Inserts a stage before stage k that copies the image into scratch, and lets stage k read the copy. */
static void insert_copy(struct task *t, int k, int image)
{
	int from = t->stage[k].read[image].operand, to = t->noperands++;
	struct operand *o = &t->operand[to];
	*o = t->operand[from];
	memcpy(o->name, (char[]){'h', (char)('a' + to), 0}, 3); /* at most MAX_OPERANDS, 20 */
	o->role = ROLE_TMP;
	reach(&t->stage[k], &t->stage[k].read[image], o);
	memmove(&t->stage[k + 1], &t->stage[k], (size_t)(t->nstages++ - k) * sizeof t->stage[0]);
	struct stage *st = &t->stage[k];
	*st = (struct stage){.naxes = o->dims.rank, .nreads = 1, .comb = COMB_NONE};
	st->read[0].operand = from;
	st->out.operand = to;
	st->body.n = 1;
	st->body.at[0].op = P_READ;
	for (int d = 0; d < MAX_RANK; d++)
		st->read[0].dim[d].table = st->out.dim[d].table = -1;
	for (int d = 0; d < o->dims.rank; d++) {
		st->axis[d] = (struct axis){.kind = AXIS_SPATIAL, .extent = o->dims.d[d]};
		memcpy(st->axis[d].name, (char[]){'d', (char)('0' + d), 0}, 3);
		st->read[0].dim[d].coef[d] = st->out.dim[d].coef[d] = 1;
	}
	t->stage[k + 1].read[image].operand = to;
}

static void pair_stage(struct task *t, struct stage *st, const struct grouped *g)
{
	struct operand *w = &t->operand[st->read[g->weights].operand];
	st->axis[g->axis].extent /= PAIR;
	st->read[g->image].dim[g->image_dim].coef[g->axis] = PAIR;
	t->operand[st->read[g->image].operand].dtype = t->pairs;
	w->group = PAIR;
	w->group_dim = g->weights_dim;
	w->dims.d[g->weights_dim] /= PAIR;
}

int task_past(const struct task *t, int operand)
{
	struct arena a = {0};
	int past = task_groups(&a, t)->operand[operand].past;
	arena_free(&a);
	return past;
}

const struct task *task_pairs(struct arena *a, const struct task *t, enum dtype type)
{
	struct task *copy = NULL;
	struct grouped g;
	for (int k = 0; k < (copy ? copy : t)->nstages; k++) {
		const struct task *now = copy ? copy : t;
		if (!find_pair(now, &now->stage[k], &g))
			continue;
		copy = copy ? copy : task_dup(a, t);
		copy->pairs = type;
		if (copy->operand[copy->stage[k].read[g.image].operand].role != ROLE_TMP)
			insert_copy(copy, k++, g.image);
		pair_stage(copy, &copy->stage[k], &g);
	}
	return copy;
}

/* 0: the program knows default schedules only, which multiply no inputs in 16 bits (libhone). */
#ifndef TASK_INPUTS
#define TASK_INPUTS 1
#endif

const struct task *task_inputs(struct arena *a, const struct task *t, enum dtype type)
{
	const struct stage *st = &t->stage[0];
	const struct prog *p = &st->body;
	bool tf32 = type == DT_F32;
	if (t->nsyms || t->nstages != 1 || (type != DT_F16 && type != DT_BF16 && !tf32) ||
	    st->comb != COMB_SUM || p->n != 3 || p->at[0].op != P_READ || p->at[1].op != P_READ ||
	    p->at[2].op != P_MUL || stage_exact(t, st) ||
	    st->read[p->at[0].arg].operand == st->read[p->at[1].arg].operand)
		return NULL;
	for (int i = 0, constants = 0; i < 2; i++) {
		int operand = st->read[p->at[i].arg].operand;
		const struct operand *o = &t->operand[operand];
		constants += o->role != ROLE_IN && tf32 && operand_packs(t, operand);
		if (!is_float(o) || (o->role != ROLE_IN && constants != 1))
			return NULL;
	}
	struct task *copy = task_dup(a, t);
	copy->pairs = type;
	return copy;
}

static const char *const begins[DTYPES] = {[DT_F16] = "f16; ", [DT_BF16] = "bf16; ", [DT_F32] = "tf32; "};

const char *pairs_text(enum dtype pairs)
{
	return begins[pairs] ? begins[pairs] : "";
}

enum dtype cand_pairs(const char *cand)
{
	for (int t = 0; t < DTYPES; t++)
		if (begins[t] && !strncmp(cand, begins[t], strlen(begins[t])))
			return (enum dtype)t;
	return DT_NONE;
}

const struct task *task_view(struct arena *a, const struct task *t, const char *cand)
{
	enum dtype type = cand_pairs(cand);
	const struct task *pairs = type && type != DT_F32 ? task_pairs(a, t, type) : NULL;
	if (TASK_INPUTS && type && !pairs)
		pairs = task_inputs(a, t, type);
	return pairs ? pairs : task_groups(a, t);
}

/* Whether one of the two factors of a stage's sum is a constant of groups. */
static bool multiplies_groups(const struct task *t, const struct stage *st)
{
	bool groups = false;
	for (int i = 0; i < 2 && st->comb == COMB_SUM && st->body.n == 3; i++)
		groups |= t->operand[st->read[st->body.at[i].arg].operand].group != 0;
	return groups;
}

int stage_image(const struct task *t, const struct stage *st)
{
	for (int i = 0; i < 2 && multiplies_groups(t, st); i++)
		if (!t->operand[st->read[st->body.at[i].arg].operand].group)
			return st->body.at[i].arg;
	return -1;
}

enum sum_kind stage_sum(const struct task *t, const struct stage *st)
{
	int image = stage_image(t, st);
	enum dtype type = image < 0 ? DT_NONE : t->operand[st->read[image].operand].dtype;
	if (dtype_is_half(type))
		return type == DT_F16 ? SUM_HALF : SUM_PAIR;
	if (!stage_whole(t, st))
		return SUM_FLOAT;
	if (multiplies_groups(t, st))
		return SUM_DOT;
	return stage_short(t, st) ? SUM_SHORT : SUM_WHOLE;
}
