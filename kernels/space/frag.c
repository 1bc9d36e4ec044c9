/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/frag.h"
#include "kernels/space/resident.h"
#include "kernels/space/share.h"
#include "kernels/task/fragment.h"

#include <stdio.h>
#include <string.h>

enum {
	PAIR = 2,
	VECTOR = 4,
	BYTES = 16,
	SPARE = 8 /* registers: the emitter refuses what does not fit after all */
};

/* Registers of a thread, fitted to what ptxas 12.4 gave 3668 random schedules on five architectures, of which
 * 97 % have within 16 of the estimate, and 654 of large layers, of which 96 % have (make bench-ptxas prints
 * the shares of others). The epilogue needs fewer than the loop. The parts of a divided reduction need none
 * of their own, and neither do asynchronous copies: a loop makes them, one after the other, with one address.
 */
enum {
	REGISTERS_BASE = 24,    /* addresses, counters and the thread's place */
	REGISTERS_WMMA = 8,     /* the same of fragments that no ldmatrix loads */
	REGISTERS_DEEPER = 8,   /* loaded early of the next fragments along k: for each doubling up to 4 */
	REGISTERS_AHEAD = 4,    /* addresses of a step whose loads are under way */
	REGISTERS_GUARD = 2,    /* of such a load: whether its row is inside: no predicate is left for it */
	REGISTERS_PLACE = 1,    /* of such a load: its place, where rows are points of several axes */
	REGISTERS_ONE_STEP = 12 /* not needed by a loop that runs once */
};

static const struct frags *frags_of(const struct task *t, const struct sched *s)
{
	return &s->st[t->nstages - 1].frags;
}

bool sched_frags(const struct task *t, const struct sched *s)
{
	for (int i = 0; i < t->nstages; i++) {
		const struct frags *f = &s->st[i].frags;
		if (f->rows || f->cols || f->warp_rows || f->warp_cols || f->depth || f->ring)
			return true;
	}
	return false;
}

double frag_rate(const struct target *tg, enum dtype type)
{
	int sm = 0;
	sscanf(tg->cpu, "sm_%d", &sm);
	bool server = sm == 80 || sm >= 90;
	double f16 = server ? 16 : sm == 86 || sm == 89 ? 4 : 8;
	return type == DT_F32 ? f16 / 2 : dtype_is_byte(type) ? 2 * f16 : f16;
}

/* Whether the first stage only copies an input, of floats, for the last one. */
static bool copies(const struct task *t, struct frag_plan *p)
{
	if (t->nstages != 2 || t->stage[0].comb != COMB_NONE || t->stage[0].nreads != 1)
		return false;
	int to = t->stage[0].out.operand, image = stage_image(t, &t->stage[1]);
	p->of[0].operand = t->stage[0].read[0].operand;
	p->of[0].read = image;
	return image >= 0 && t->stage[1].read[image].operand == to && to == t->noperands - 1 &&
	       t->operand[p->of[0].operand].role == ROLE_IN && t->operand[p->of[0].operand].dtype == DT_F32 &&
	       t->operand[t->stage[1].out.operand].dtype == DT_F32;
}

/* Whether the stage's factors at[i] and at[1 - i] are an input of bytes, and a packed constant of groups or
 * another input of bytes; or, of a task of task_inputs(), its inputs. */
static bool sums_inputs(const struct task *t, int i, struct frag_plan *p)
{
	const struct stage *st = &t->stage[0];
	if (t->nstages != 1)
		return false;
	p->of[0].read = st->body.at[i].arg;
	p->of[0].operand = st->read[p->of[0].read].operand;
	if (t->pairs)
		return t->operand[st->out.operand].dtype == DT_F32;
	if (st->comb != COMB_SUM || st->body.n != 3 || st->body.at[0].op != P_READ ||
	    st->body.at[1].op != P_READ || st->body.at[2].op != P_MUL || !stage_whole(t, st))
		return false;
	int other = st->read[st->body.at[1 - i].arg].operand;
	const struct operand *a = &t->operand[p->of[0].operand], *b = &t->operand[other];
	bool groups = stage_sum(t, st) == SUM_DOT && operand_packs(t, other) && b->group,
	     inputs = !a->group && !b->group && b->role == ROLE_IN && other != p->of[0].operand;
	return a->role == ROLE_IN && dtype_is_byte(a->dtype) && dtype_is_byte(b->dtype) && (groups || inputs);
}

/* Finds the factors and their types, at[i] as the image of bytes. */
static bool factors(const struct task *t, int i, struct frag_plan *p)
{
	const struct stage *st = &t->stage[t->nstages - 1];
	*p = (struct frag_plan){.sums = t->pairs ? DT_F32 : DT_I32};
	if (t->pairs && t->nstages > 1 ? !copies(t, p) : !sums_inputs(t, i, p))
		return false;
	p->of[1].read = st->body.at[st->body.at[0].arg == p->of[0].read].arg;
	p->of[1].operand = st->read[p->of[1].read].operand;
	p->of[1].packed = operand_packs(t, p->of[1].operand);
	p->group = t->operand[p->of[1].operand].group;
	p->group = p->of[1].packed && p->group ? p->group : 1;
	for (int c = 0; c < 2; c++)
		p->of[c].type = t->pairs ? t->pairs : t->operand[p->of[c].operand].dtype;
	return true;
}

/* The dim of a factor that the axis indexes; -1: none. */
static int dim_of(const struct task *t, const struct stage *st, const struct frag_factor *f, int axis)
{
	for (int d = 0; d < t->operand[f->operand].dims.rank; d++)
		if (st->read[f->read].dim[d].coef[axis])
			return d;
	return -1;
}

/* Whether n neighbours along the dim, or as many groups, lie side by side in memory, from a multiple on. */
static bool side_by_side(const struct stage *st, const struct operand *o, const struct index *x, int d,
			 int axis, int n)
{
	const struct layout *l = &o->layout;
	int last = l->n - 1;
	bool good = o->dims.d[d] % n == 0 && !l->lo[d] && !l->hi[d] && x->off % n == 0 && x->div <= 1 &&
		    x->mod <= 1 && x->table < 0;
	for (int a = 0; a < st->naxes; a++)
		good &= a == axis || x->coef[a] % n == 0;
	if (last < 0)
		return good && d == o->dims.rank - 1;
	if (n == 1) /* of groups: they are not apart */
		return good;
	good &= l->ax[last].dim == d && l->ax[last].div == 1;
	for (int j = 0; j < last; j++)
		good &= l->ax[j].dim != d || l->ax[j].div % n == 0;
	return good;
}

static bool guarded(const struct task *t, const struct stage *st, const struct frag_factor *f)
{
	bool any = false;
	for (int d = 0; d < t->operand[f->operand].dims.rank; d++)
		any |= index_guarded(t, st, &st->read[f->read], d);
	return any;
}

/* The last spatial axis of the rows or of the columns. */
static int side_axis(const struct task *t, const struct stage *st, const struct frag_plan *p, bool cols)
{
	unsigned image = read_axes(t, st, &st->read[p->of[0].read]);
	int last = p->col_axis;
	for (int a = 0; a < stage_spatial(st) && !cols; a++)
		last = (image & ~p->both) >> a & 1 ? a : last;
	return last;
}

/* Whether n neighbours along the axis lie side by side in a factor of single elements. */
static bool neighbours(const struct task *t, const struct stage *st, const struct frag_factor *f, int axis,
		       int n)
{
	int d = dim_of(t, st, f, axis);
	return d >= 0 && st->read[f->read].dim[d].coef[axis] == 1 && st->axis[axis].extent % n == 0 &&
	       side_by_side(st, &t->operand[f->operand], &st->read[f->read].dim[d], d, axis, n);
}

/* Whether elements go from memory into the tile as they are, and zeros take the place of others. */
static bool moves(const struct task *t, const struct stage *st, const struct frag_factor *f)
{
	const struct operand *o = &t->operand[f->operand];
	return f->type == o->dtype && (o->fill == 0 || !guarded(t, st, f));
}

/* Finds how the threads move one of two inputs. */
static void move_input(const struct task *t, const struct stage *st, struct frag_plan *p, bool cols)
{
	struct frag_factor *f = &p->of[cols];
	int side = side_axis(t, st, p, cols);
	f->along_k = true;
	f->wide = 1;
	for (int n = p->sums == DT_I32 ? BYTES : VECTOR; n >= VECTOR && f->wide == 1; n /= VECTOR) {
		bool k = neighbours(t, st, f, p->k_axis, n);
		if (!k && !neighbours(t, st, f, side, n))
			continue;
		f->along_k = k;
		f->wide = n;
	}
	f->moves = f->wide > 1 && moves(t, st, f);
}

/* Finds how the threads move the factors. E_INFEASIBLE: the image's channels do not lie side by side. */
static int moving(const struct task *t, const struct stage *st, struct frag_plan *p)
{
	struct frag_factor *f = &p->of[0];
	const struct operand *o = &t->operand[f->operand];
	if (!p->of[1].packed) {
		move_input(t, st, p, false);
		move_input(t, st, p, true);
		return E_OK;
	}
	int d = dim_of(t, st, f, p->k_axis), per = o->group ? o->group : 1;
	const struct index *x = &st->read[f->read].dim[d < 0 ? 0 : d];
	int64_t block = axis_block(t, st, p->k_axis);
	if (d < 0 || !side_by_side(st, o, x, d, p->k_axis, VECTOR / per) || (block > 1 && block % VECTOR))
		return fail(E_INFEASIBLE, "fragments: the image's channels are not side by side in fours");
	bool bytes = p->sums == DT_I32;
	f->wide = bytes && side_by_side(st, o, x, d, p->k_axis, BYTES / per) ? BYTES : VECTOR;
	f->moves = moves(t, st, f);
	p->of[1].wide = BYTES / (int)dtype_bytes(p->of[1].type);
	f->along_k = p->of[1].along_k = p->of[1].moves = true;
	return E_OK;
}

/* Whether the axis can be that of k, of an image and a packed constant: its groups lie along it, or of f32
 * the image's elements do. */
static bool along(const struct task *t, const struct stage *st, const struct frag_plan *p, int axis)
{
	const struct operand *w = &t->operand[p->of[1].operand];
	int d = dim_of(t, st, &p->of[0], axis);
	if (w->group)
		return st->read[p->of[1].read].dim[w->group_dim].coef[axis] != 0;
	return neighbours(t, st, &p->of[0], axis, VECTOR) &&
	       !index_guarded(t, st, &st->read[p->of[0].read], d);
}

/* Finds the axis of k. */
static bool find_k(const struct task *t, const struct stage *st, struct frag_plan *p)
{
	int ns = stage_spatial(st);
	p->k_axis = -1;
	for (int a = ns; a < st->naxes && p->of[1].packed; a++)
		if (along(t, st, p, a))
			p->k_axis = p->k_axis < 0 ? a : st->naxes;
	if (!p->of[1].packed && st->naxes == ns + 1)
		p->k_axis = ns;
	if (p->k_axis < 0 || p->k_axis == st->naxes)
		return false;
	p->depth = st->axis[p->k_axis].extent * p->group;
	return true;
}

/* Finds the axes of columns and of k, and the number of rows, columns and products. */
static bool axes(const struct task *t, const struct stage *st, struct frag_plan *p)
{
	unsigned image = read_axes(t, st, &st->read[p->of[0].read]),
		 other = read_axes(t, st, &st->read[p->of[1].read]);
	int ns = stage_spatial(st);
	int64_t taps = 1, all = 1;
	p->col_axis = -1;
	p->rows = p->products = 1;
	for (int a = 0; a < st->naxes; a++) { /* no product overflows */
		int64_t *n = a < ns ? &all : &taps;
		if (st->axis[a].extent > INT32_MAX || (*n *= st->axis[a].extent) > INT32_MAX)
			return false;
	}
	for (int a = 0; a < ns; a++) {
		if (other & image & 1u << a) {
			p->both |= 1u << a;
			p->products *= st->axis[a].extent;
		} else if (other >> a & 1) {
			if (p->col_axis >= 0)
				return false;
			p->col_axis = a;
		} else {
			p->rows *= st->axis[a].extent;
			p->row_axes += st->axis[a].extent > 1;
		}
	}
	if (p->col_axis < 0 || !find_k(t, st, p))
		return false;
	p->cols = st->axis[p->col_axis].extent;
	return true;
}

/* Elements of a factor's tile. */
int64_t frag_tile_elems(const struct frag_plan *p, bool cols)
{
	return p->of[cols].pitch * (p->of[cols].along_k ? p->of[cols].tile : p->k);
}

static int64_t shared_bytes(const struct frags *f, const struct frag_plan *p)
{
	int64_t elems = frag_tile_elems(p, false) + frag_tile_elems(p, true);
	return elems * (int64_t)dtype_bytes(p->of[0].type) * p->ring +
	       FRAG_SIZE * f->warp_rows * p->sum_pitch * 4;
}

/* Registers of what a thread loads of a factor for a later step. */
static int registers_ahead(const struct frag_plan *p, bool cols)
{
	const struct frag_factor *x = &p->of[cols];
	int64_t all = cols ? p->cols : p->rows;
	bool guarded = all > x->tile && all % x->tile, placed = !cols && p->row_axes > 1;
	int vector = p->sums == DT_I32 ? (x->wide + 3) / 4 : x->wide;
	return x->copies * (vector + guarded * REGISTERS_GUARD + placed * REGISTERS_PLACE);
}

/* Registers of a thread: sums, half of the fragments of a step's products, what is loaded ahead, the rest. */
static int registers(const struct target *tg, const struct frags *f, const struct frag_plan *p)
{
	bool narrow = target_loads_matrices(tg), ahead = false;
	int words = narrow && p->of[0].type != DT_F32 ? FRAG_LANES / 2 : FRAG_LANES;
	if (p->sums == DT_I32)
		words = FRAG_LANES / 4;
	int n = REGISTERS_BASE + FRAG_LANES * f->rows * f->cols + words * (f->rows + f->cols) / 2;
	n += narrow ? 0 : REGISTERS_WMMA;
	n += f->depth > 2 ? 2 * REGISTERS_DEEPER : f->depth > 1 ? REGISTERS_DEEPER : 0;
	n -= p->steps == 1 ? REGISTERS_ONE_STEP : 0;
	for (int c = 0; c < 2; c++)
		if (p->ring > 1 && !p->of[c].moves) {
			n += registers_ahead(p, c);
			ahead = true;
		}
	return ahead ? n + REGISTERS_AHEAD : n;
}

/* Whether a thread loads no more ahead than it has variables for. */
static bool loads_ahead(const struct frag_plan *p)
{
	return (p->of[0].moves || p->of[0].copies <= FRAG_COPIES) &&
	       (p->of[1].moves || p->of[1].copies <= FRAG_COPIES);
}

/* Whether zeros can fill the last step. */
static bool fills_up(const struct task *t, const struct frag_plan *p)
{
	return !p->of[1].packed && t->operand[p->of[0].operand].fill == 0 &&
	       t->operand[p->of[1].operand].fill == 0;
}

static int tiles(const struct task *t, const struct target *tg, const struct frags *f, struct frag_plan *p,
		 int64_t taps)
{
	if (f->rows < 1 || f->cols < 1 || f->warp_rows < 1 || f->warp_cols < 1 || f->depth < 1 ||
	    f->rows * f->cols > FRAG_SUMS || f->warp_rows * f->warp_cols > FRAG_WARPS)
		return fail(E_INFEASIBLE, "fragments: not 1 to %d of each of 1 to %d warps", (int)FRAG_SUMS,
			    (int)FRAG_WARPS);
	p->threads = WARP * f->warp_rows * f->warp_cols;
	p->of[0].tile = FRAG_SIZE * f->rows * f->warp_rows;
	p->of[1].tile = FRAG_SIZE * f->cols * f->warp_cols;
	p->k = FRAG_SIZE * f->depth;
	p->sum_pitch = p->of[1].tile + frag_step(DT_F32, false);
	p->parts = 1;
	p->part = ceil_div(p->depth, p->group);
	p->steps = ceil_div(p->depth, p->k) * taps;
	p->ring = f->ring ? f->ring : 1;
	for (int c = 0; c < 2; c++) {
		struct frag_factor *x = &p->of[c];
		/* Of f32 across k, threads load single elements: 8 neighbours of each of 4 points of k. */
		bool narrow = target_loads_matrices(tg) && (x->type != DT_F32 || x->along_k);
		x->pitch = frag_pitch(x->type, narrow, x->along_k ? p->k : x->tile);
		x->copies = (int)ceil_div(x->tile * p->k / x->wide, p->threads);
	}
	if (p->depth % p->k && (p->depth < FRAG_SIZE || !fills_up(t, p)))
		return fail(E_INFEASIBLE, "fragments: %lld products in steps of %lld", (long long)p->depth,
			    (long long)p->k);
	if (f->ring && (f->ring < 2 || f->ring > SCHED_BOXES || f->ring > p->steps || !loads_ahead(p)))
		return fail(E_INFEASIBLE, "fragments: a ring of %d steps, of %lld with %d and %d copies each",
			    f->ring, (long long)p->steps, p->of[0].copies, p->of[1].copies);
	p->registers = registers(tg, f, p);
	p->shared = shared_bytes(f, p) + FRAG_ALIGNED;
	if (p->registers - SPARE > resident_registers(p->threads, 1))
		return fail(E_INFEASIBLE, "fragments: %d threads with %d registers each", p->threads,
			    p->registers);
	if (p->threads > tg->group || p->shared > share_most(tg))
		return fail(E_INFEASIBLE, "fragments: a block of %d threads and %lld bytes of shared buffers",
			    p->threads, (long long)p->shared);
	return p->of[0].tile >= 2 * p->rows + FRAG_SIZE || p->of[1].tile >= 2 * p->cols + FRAG_SIZE
		   ? fail(E_INFEASIBLE, "fragments: most of a tile is outside")
		   : E_OK;
}

int64_t frag_plan_k_blocks(const struct frag_plan *p)
{
	return ceil_div(p->depth, p->k);
}

int frag_plan_divide(struct frag_plan *p, int64_t parts)
{
	int64_t blocks = frag_plan_k_blocks(p),
		sums = p->products * p->rows * ceil_div(p->cols, VECTOR) * VECTOR;
	if (parts < 2 || parts > SPREAD_PARTS || blocks % parts)
		return fail(E_INFEASIBLE,
			    "fragments: %lld parts of %lld blocks of channels, which are not "
			    "2 to %d equal ones",
			    (long long)parts, (long long)blocks, (int)SPREAD_PARTS);
	if (sums > SPREAD_BYTES / 4 / parts)
		return fail(E_INFEASIBLE, "fragments: over %d MB of sums of %lld parts", SPREAD_BYTES >> 20,
			    (long long)parts);
	if (p->ring > 1 && p->ring > p->steps / parts)
		return fail(E_INFEASIBLE, "fragments: a ring of %d steps, of %lld of a part", p->ring,
			    (long long)(p->steps / parts));
	p->parts = parts;
	p->part = blocks / parts * p->k / p->group;
	p->registers -= p->steps == parts ? REGISTERS_ONE_STEP : 0;
	p->steps /= parts;
	return E_OK;
}

/* Divides the reduction as the schedule says. */
static int divide(const struct stage *st, const struct sstage *s, struct frag_plan *p)
{
	if (s->split_axis < 0)
		return s->spread ? fail(E_INFEASIBLE, "fragments: spread without split") : E_OK;
	if (s->split_axis != p->k_axis || !s->spread || s->split < 1)
		return fail(E_INFEASIBLE, "fragments: split is of the axis %s, with spread=1",
			    st->axis[p->k_axis].name);
	int rc = frag_plan_divide(p, stage_parts(st, s));
	if (rc >= 0 && p->part != s->split)
		return fail(E_INFEASIBLE, "fragments: split of %lld points, not %lld", (long long)s->split,
			    (long long)p->part);
	return rc;
}

int frag_plan_resident(const struct target *tg, int blocks, const struct frag_plan *p)
{
	int most = resident_registers(p->threads, blocks);
	return resident_blocks(tg, p->threads, p->registers < most ? p->registers : most, p->shared);
}

/* Refuses more blocks than a unit has room for. */
static int check_blocks(const struct target *tg, int blocks, const struct frag_plan *p)
{
	bool fit = blocks * p->threads <= SCHED_RESIDENT &&
		   p->registers - SPARE <= resident_registers(p->threads, blocks) &&
		   (!gpu_unit(tg) || frag_plan_resident(tg, blocks, p) >= blocks);
	return blocks == 1 || fit ? E_OK
				  : fail(E_INFEASIBLE,
					 "fragments: a unit has no room for %d blocks of %d threads with %d "
					 "registers and %lld bytes of shared buffers",
					 blocks, p->threads, p->registers, (long long)p->shared);
}

/* Whether the schedule says nothing else. */
static bool alone(const struct task *t, const struct sched *s)
{
	struct sched bare;
	char all[CAND_MAX], own[CAND_MAX];
	const struct sstage *from = &s->st[t->nstages - 1];
	sched_init(t, &bare);
	struct sstage *to = &bare.st[t->nstages - 1];
	to->frags = from->frags;
	to->blocks = from->blocks;
	to->split_axis = from->split_axis;
	to->split = from->split;
	to->spread = from->spread;
	return sched_text(t, s, all) >= 0 && sched_text(t, &bare, own) >= 0 && !strcmp(all, own);
}

int frag_plan_make(const struct task *t, const struct target *tg, const struct sched *s, struct frag_plan *p)
{
	const struct stage *st = &t->stage[t->nstages - 1];
	bool found = false;
	for (int i = 0; i < 2 && !found;
	     i++) /* columns are neighbours in the output, if it has both orders */
		found = factors(t, i, p) && axes(t, st, p) &&
			(p->of[1].packed || p->col_axis == stage_spatial(st) - 1);
	for (int i = 0; i < 2 && !found; i++)
		found = factors(t, i, p) && axes(t, st, p);
	if (!found)
		return fail(E_INFEASIBLE, "fragments: the task is no product of an input and a constant, or "
					  "of two inputs");
	for (int c = 0; c < 2; c++)
		if (!target_multiplies_fragments(tg, dtype_name(p->of[c].type)))
			return fail(E_INFEASIBLE, "fragments: %s multiplies none of %s", tg->cpu,
				    t->pairs ? pairs_name(t->pairs) : dtype_name(p->of[c].type));
	int rc = moving(t, st, p);
	if (rc < 0)
		return rc;
	if (!alone(t, s))
		return fail(E_INFEASIBLE, "fragments: with other keys");
	int64_t taps = 1;
	for (int a = stage_spatial(st); a < st->naxes; a++)
		taps *= a == p->k_axis ? 1 : st->axis[a].extent;
	rc = tiles(t, tg, frags_of(t, s), p, taps);
	if (rc >= 0)
		rc = divide(st, &s->st[t->nstages - 1], p);
	return rc < 0 ? rc : check_blocks(tg, s->st[t->nstages - 1].blocks, p);
}

const struct task *frag_task(struct arena *a, const struct task *t, const struct frag_plan *p)
{
	if (t->nstages == 1)
		return t;
	struct task *one = task_dup(a, t);
	one->stage[0] = one->stage[1];
	one->stage[0].read[p->of[0].read].operand = p->of[0].operand;
	one->nstages = 1;
	one->noperands--; /* the copy, which is the last */
	one->shared = 0;
	return one;
}
