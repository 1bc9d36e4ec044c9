/* SPDX-License-Identifier: Apache-2.0 */
#include "search/boundary.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const int cells_of[BOUNDARY_AXES + 1] = {0, 512, 64, 24, 11};
#define FALSE_YES 2e-5 /* largest share of wrong decisions that a point is tolerated, */
#define FALSE_NO 2e-3  /* and that it is not */
#define NOWHERE 1.25   /* where, in all errors, nothing is expected to be tolerated; of the largest ones */
#define SHARP 2.0      /* how steeply the likelihood falls from one side to the other */
#define MIX 0.15       /* weight of the distances in the likelihood, against that of the volumes */

struct point {
	int corner[BOUNDARY_AXES]; /* 1 to cells */
	enum boundary_state state;
};

struct boundary {
	struct boundary_opts o;
	int side, cells, answers, npoints;
	int yes_needed, no_needed; /* more answers of one kind than of the other */
	int corner[BOUNDARY_AXES]; /* of the point that is asked */
	int net, asked;            /* answers for it: yes minus no; all */
	bool open;                 /* it was given out, and is undecided */
	double likely;
	struct point *point;  /* decided */
	uint8_t *state;       /* per cell */
	float *below, *above; /* per cell, of its upper corner: distances to what is known */
	int *low, *high;      /* undecided cells up to a cell, and from it on, in all directions */
};

static int stride(const struct boundary *b, int axis)
{
	int n = 1;
	for (int i = 0; i < axis; i++)
		n *= b->side;
	return n;
}

static void cell_at(const struct boundary *b, int cell, int *k)
{
	for (int i = 0; i < b->o.axes; i++, cell /= b->side)
		k[i] = cell % b->side;
}

/* The largest difference by which `to` is beyond `from`, of whole sides. */
static double beyond(const struct boundary *b, const double *from, const double *to)
{
	double most = 0;
	for (int i = 0; i < b->o.axes; i++)
		most = fmax(most, to[i] - from[i]);
	return most;
}

/* Updates the distances of all cells' upper corners for a point that was decided. */
static void near(struct boundary *b, const double *at, bool tolerated)
{
	int k[BOUNDARY_AXES];
	for (int c = 0; c < b->cells; c++) {
		double x[BOUNDARY_AXES];
		cell_at(b, c, k);
		for (int i = 0; i < b->o.axes; i++)
			x[i] = (k[i] + 1) / (double)b->side;
		if (tolerated)
			b->below[c] = (float)fmin(b->below[c], beyond(b, at, x));
		else
			b->above[c] = (float)fmin(b->above[c], beyond(b, x, at));
	}
}

/* Marks the cells that a decided point decides. */
static void mark(struct boundary *b, const int *corner, bool tolerated)
{
	int k[BOUNDARY_AXES];
	for (int c = 0; c < b->cells; c++) {
		bool in = b->state[c] == BOUNDARY_OPEN;
		cell_at(b, c, k);
		for (int i = 0; i < b->o.axes; i++)
			in &= tolerated ? k[i] < corner[i] : k[i] >= corner[i];
		if (in)
			b->state[c] = tolerated ? BOUNDARY_TOLERATED : BOUNDARY_NOT_TOLERATED;
	}
}

static void decide(struct boundary *b, bool tolerated)
{
	double at[BOUNDARY_AXES];
	struct point *p = &b->point[b->npoints++];
	memset(p, 0, sizeof *p);
	memcpy(p->corner, b->corner, sizeof p->corner);
	p->state = tolerated ? BOUNDARY_TOLERATED : BOUNDARY_NOT_TOLERATED;
	for (int i = 0; i < b->o.axes; i++)
		at[i] = b->corner[i] / (double)b->side;
	near(b, at, tolerated);
	mark(b, b->corner, tolerated);
}

/* Sums of undecided cells up to each cell, and from each on, one axis after the other. */
static void count_open(struct boundary *b)
{
	for (int c = 0; c < b->cells; c++)
		b->low[c] = b->high[c] = b->state[c] == BOUNDARY_OPEN;
	for (int i = 0; i < b->o.axes; i++) {
		int s = stride(b, i);
		for (int c = 0; c < b->cells; c++)
			b->low[c] += c / s % b->side ? b->low[c - s] : 0;
		for (int c = b->cells - 1; c >= 0; c--)
			b->high[c] += c / s % b->side < b->side - 1 ? b->high[c + s] : 0;
	}
}

/* Undecided cells from the upper corner of cell c on. */
static int open_beyond(const struct boundary *b, int c)
{
	int at = c;
	for (int i = 0; i < b->o.axes; i++) {
		int s = stride(b, i);
		if (c / s % b->side == b->side - 1)
			return 0;
		at += s;
	}
	return b->high[at];
}

/* How likely the upper corner of cell c is tolerated. */
static double likely(const struct boundary *b, int c)
{
	double d = b->below[c] + b->above[c], near = d > 0 ? b->above[c] / d : .5, e = 1. / b->o.axes;
	double low = pow(b->low[c], e), high = pow(open_beyond(b, c), e);
	double q = low + high > 0 ? MIX * near + (1 - MIX) * high / (low + high) : near;
	double y = pow(q, SHARP), n = pow(1 - q, SHARP);
	return y + n > 0 ? y / (y + n) : q;
}

static bool choose(struct boundary *b)
{
	double best = 0;
	int at = -1;
	count_open(b);
	for (int c = 0; c < b->cells; c++) {
		double q = likely(b, c), gain = q * b->low[c] + (1 - q) * open_beyond(b, c);
		if (b->state[c] != BOUNDARY_NOT_TOLERATED && b->low[c] && gain > best) {
			best = gain;
			at = c;
		}
	}
	if (at < 0)
		return false;
	cell_at(b, at, b->corner);
	for (int i = 0; i < b->o.axes; i++)
		b->corner[i]++;
	b->likely = likely(b, at);
	b->net = b->asked = 0;
	b->open = true;
	return true;
}

/* The error of network i at corner k of the grid. */
static double error_at(const struct boundary *b, int i, int k)
{
	return b->o.most[i] * k / b->side;
}

static int cell_of_corner(const struct boundary *b)
{
	int c = 0;
	for (int i = 0; i < b->o.axes; i++)
		c += (b->corner[i] - 1) * stride(b, i);
	return c;
}

int boundary_new(struct arena *a, const struct boundary_opts *o, struct boundary **out)
{
	if (o->axes < 1 || o->axes > BOUNDARY_AXES)
		return fail(E_USAGE, "%d networks; 1 to %d are possible", o->axes, BOUNDARY_AXES);
	if (o->evals < 1 || o->evals > BOUNDARY_EVALS)
		return fail(E_USAGE, "%d evaluations; 1 to %d are possible", o->evals, BOUNDARY_EVALS);
	if (!(o->wrong >= 0 && o->wrong <= BOUNDARY_WRONG))
		return fail(E_USAGE, "a share of wrong answers of %g; 0 to %g is possible", o->wrong,
			    BOUNDARY_WRONG);
	for (int i = 0; i < o->axes; i++)
		if (!(o->most[i] > 0 && isfinite(o->most[i])))
			return fail(E_USAGE, "the largest error of a network is %g; it is above 0",
				    o->most[i]);
	struct boundary *b = ARENA_NEW(a, struct boundary);
	*b = (struct boundary){
	    .o = *o, .side = cells_of[o->axes], .cells = 1, .yes_needed = 1, .no_needed = 1};
	for (int i = 0; i < o->axes; i++)
		b->cells *= b->side;
	if (o->wrong > 0) {
		double each = log((1 - o->wrong) / o->wrong);
		b->yes_needed = (int)fmax(1, ceil(log(1 / FALSE_YES) / each));
		b->no_needed = (int)fmax(1, ceil(log(1 / FALSE_NO) / each));
	}
	b->point = ARENA_ARRAY(a, struct point, o->evals);
	b->state = ARENA_ARRAY(a, uint8_t, b->cells);
	b->below = ARENA_ARRAY(a, float, b->cells);
	b->above = ARENA_ARRAY(a, float, b->cells);
	b->low = ARENA_ARRAY(a, int, b->cells);
	b->high = ARENA_ARRAY(a, int, b->cells);
	memset(b->state, BOUNDARY_OPEN, (size_t)b->cells);
	for (int c = 0; c < b->cells; c++)
		b->below[c] = b->above[c] = 2;
	const double none[BOUNDARY_AXES] = {0}, far[BOUNDARY_AXES] = {NOWHERE, NOWHERE, NOWHERE, NOWHERE};
	near(b, none, true);
	near(b, far, false);
	*out = b;
	return E_OK;
}

bool boundary_next(struct boundary *b, struct boundary_ask *out)
{
	*out = (struct boundary_ask){.again = 0};
	if (b->answers >= b->o.evals || (!b->open && !choose(b)))
		return false;
	int c = cell_of_corner(b);
	for (int i = 0; i < b->o.axes; i++)
		out->error[i] = error_at(b, i, b->corner[i]);
	out->again = b->asked;
	out->below = b->low[c] / (double)b->cells;
	out->beyond = open_beyond(b, c) / (double)b->cells;
	out->likely = b->likely;
	return true;
}

void boundary_answer(struct boundary *b, bool tolerated)
{
	if (!b->open)
		return;
	b->answers++;
	b->asked++;
	b->net += tolerated ? 1 : -1;
	if (b->net >= b->yes_needed || -b->net >= b->no_needed) {
		b->open = false;
		decide(b, b->net > 0);
	}
}

int boundary_decided(const struct boundary *b, int yes, int no)
{
	return yes - no >= b->yes_needed ? 1 : no - yes >= b->no_needed ? 0 : -1;
}

int boundary_left(const struct boundary *b)
{
	return b->o.evals - b->answers;
}

struct boundary_area boundary_area(const struct boundary *b)
{
	count_open((struct boundary *)b);
	struct boundary_area a = {0, 0, 0};
	for (int c = 0; c < b->cells; c++) {
		a.tolerated += b->state[c] == BOUNDARY_TOLERATED;
		a.not_tolerated += b->state[c] == BOUNDARY_NOT_TOLERATED;
		a.guess += b->state[c] == BOUNDARY_TOLERATED ? 1
			   : b->state[c] == BOUNDARY_OPEN    ? likely(b, c)
							     : 0;
	}
	return (struct boundary_area){a.tolerated / b->cells, a.not_tolerated / b->cells, a.guess / b->cells};
}

enum boundary_state boundary_state(const struct boundary *b, const double *error)
{
	bool zero = true;
	for (int i = 0; i < b->o.axes; i++)
		zero &= error[i] == 0;
	for (int n = 0; n < b->npoints; n++) {
		const struct point *p = &b->point[n];
		bool in = true;
		for (int i = 0; i < b->o.axes; i++)
			in &= p->state == BOUNDARY_TOLERATED ? error[i] <= error_at(b, i, p->corner[i])
							     : error[i] >= error_at(b, i, p->corner[i]);
		if (in)
			return p->state;
	}
	return zero ? BOUNDARY_TOLERATED : BOUNDARY_OPEN;
}

static bool is_behind(const struct boundary *b, const struct point *p, const struct point *q)
{
	bool behind = p != q && q->state == BOUNDARY_TOLERATED;
	for (int i = 0; i < b->o.axes; i++)
		behind &= p->corner[i] <= q->corner[i];
	return behind;
}

bool boundary_point(const struct boundary *b, int i, double *error)
{
	for (int n = 0; n < b->npoints; n++) {
		const struct point *p = &b->point[n];
		bool most = p->state == BOUNDARY_TOLERATED;
		for (int k = 0; k < b->npoints && most; k++)
			most = !is_behind(b, p, &b->point[k]);
		if (most && i-- == 0) {
			for (int k = 0; k < b->o.axes; k++)
				error[k] = error_at(b, k, p->corner[k]);
			return true;
		}
	}
	return false;
}
