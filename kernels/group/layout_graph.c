/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts of a graph as a problem for kernels/group/min_sum.h. A value that may be blocked is a variable:
 * its native form, and whether a copy in the other form is made too. A group is a variable whose states are
 * the combinations of forms that its kernel could read and write, with their expected costs. Pair costs
 * ensure that the forms that a group reads exist, and count what Concat and Split copy. */
#include "kernels/group/group_parts.h"
#include "kernels/group/min_sum.h"
#include "kernels/group/layout_cost.h"

#include <math.h>
#include <string.h>

enum {
	BLOCKED = 1, /* bits of a value's state: its native form is blocked */
	COPIED = 2,  /* the other form exists too */
	VALUE_STATES = 4,
	MAX_CLASSES = 2,                    /* classes of operands that may differ in form */
	MAX_MODES = (1 << MAX_CLASSES) + 1, /* the combinations of these, and the rules' forms */
};

/* Bytes a cycle that the C code of Concat and Split copies: contiguous runs; single elements. */
static const double RUNS = 4, SINGLE = 1;
/* Sums over c channels with lanes along pixels take (1 + c PLAIN) times the draft: 1.0 with 24 to 64
 * channels, 1.2 with 96 and 240, 1.5 with 336 and 480, measured on PP-OCR and FastestDet. */
static const double PLAIN = 1e-3;
/* Factor for stores of every second element of a row one by one, as ConvTranspose does from blocks: 2.7 ms
 * where 0.8 were drafted. */
static const double SCATTERED = 3;
/* Cost of a choice that may be impossible: larger than any real cost, and small enough to keep the digits of
 * those. */
static const double UNWANTED = 1e12;
/* A kernel keeps the rules' forms unless other forms promise to gain more than this share. Without it, errors
 * of the draft decide where nothing can be gained: UltraFace lost 2 %, YuNet and YOLO-Fastest 1 %. */
static const double MARGIN = .1;

struct weigher {
	struct graph *g;
	const struct groups *gr;
	const struct choices *choices;
	int lanes;
	struct form *form;
	int (*want)[MAX_OPERANDS];
	struct arena a, scratch;
	int *value, *group;                       /* variable numbers; -1: the form is fixed */
	unsigned (*mode)[MAX_MODES];              /* per group: masks of the blocked operands */
	int64_t (*lo)[MAX_RANK], (*hi)[MAX_RANK]; /* halos */
	double *convert;                          /* cycles to copy a value into its other form */
	int nvars, npairs;
	int *states, *state;
	double (*cost)[MIN_SUM_STATES];
	struct min_sum_pair *pair;
};

static bool is_type(const struct weigher *w, const struct group *p, const char *type)
{
	return !strcmp(node_type(&w->g->node[p->anchor]), type);
}

static bool joins(const struct weigher *w, const struct group *p)
{
	return p->kind == STEP_HOST && step_any_layout(w->g, p->anchor);
}

static bool native(int state)
{
	return state & BLOCKED;
}

static bool has(int state, bool blocked)
{
	return native(state) == blocked || state & COPIED;
}

/* ---- costs ---- */

static void lay(const struct weigher *w, int v, bool blocked, struct operand *o)
{
	memset(&o->layout, 0, sizeof o->layout);
	if (blocked)
		layout_blocked(&o->layout, o->dims.rank, 1, w->lanes);
	memcpy(o->layout.lo, w->lo[v], sizeof *w->lo);
	memcpy(o->layout.hi, w->hi[v], sizeof *w->hi);
}

/* Channels that a product sums over, which lie in separate images. */
static int64_t images(const struct group *p)
{
	const struct stage *s = &p->task->stage[0];
	int axis = channel_axis(p->task, s->read[0].operand);
	bool sums = p->task->nstages == 1 && s->nreads > 1 && axis >= 0;
	return sums && s->axis[axis].kind == AXIS_REDUCTION ? s->axis[axis].extent : 0;
}

static double mode_cycles(struct weigher *w, const struct group *p, unsigned blocked)
{
	struct task *t = task_dup(&w->scratch, p->task);
	for (int i = 0; i < t->noperands; i++)
		if (p->value[i] >= 0)
			lay(w, p->value[i], blocked >> i & 1, &t->operand[i]);
	double cycles = layout_cycles(w->g->costs, &w->g->arena, &w->scratch, t);
	arena_reset(&w->scratch);
	if (blocked >> p->task->stage[p->task->nstages - 1].out.operand & 1)
		return cycles;
	bool scatters = blocked && is_type(w, p, "ConvTranspose");
	return cycles * (1 + PLAIN * (double)images(p)) * (scatters ? SCATTERED : 1);
}

static double convert_cycles(struct weigher *w, int v)
{
	const struct shape *s = &w->g->value[v].t.shape;
	struct task *t = ARENA_NEW(&w->scratch, struct task);
	struct stage *st = &t->stage[0];
	t->noperands = 2;
	t->nstages = st->nreads = st->body.n = 1;
	for (int i = 0; i < 2; i++) {
		t->operand[i].role = i ? ROLE_OUT : ROLE_IN;
		t->operand[i].dtype = w->g->value[v].t.dtype;
		t->operand[i].dims = *s;
		lay(w, v, i, &t->operand[i]);
	}
	st->naxes = s->rank;
	st->out.operand = 1;
	for (int d = 0; d < MAX_RANK; d++) {
		st->read[0].dim[d].table = st->out.dim[d].table = -1;
		if (d >= s->rank)
			continue;
		st->axis[d].name[0] = (char)('a' + d);
		st->axis[d].extent = s->d[d];
		st->read[0].dim[d].coef[d] = st->out.dim[d].coef[d] = 1;
	}
	double cycles = layout_cycles(w->g->costs, &w->g->arena, &w->scratch, t);
	arena_reset(&w->scratch);
	return cycles;
}

/* ---- variables ---- */

static bool may_block(const struct weigher *w, int v)
{
	const struct tensor *x = &w->g->value[v].t;
	return !x->data && value_type(x) && value_wide(&x->shape, w->lanes);
}

static bool frees(const struct weigher *w, const struct group *p, int i)
{
	return p->value[i] >= 0 && w->value[p->value[i]] >= 0 && channel_axis(p->task, i) >= 0;
}

/* Whether operand i may be read in any form, whatever forms the others have. */
static bool reads_any(const struct weigher *w, const struct group *p, int i)
{
	const struct stage *s = &p->task->stage[0];
	bool conv = group_convolves(w->g, p),
	     first = (conv || stage_resamples(p->task, s)) && i == s->read[0].operand;
	return frees(w, p, i) &&
	       (s->axis[channel_axis(p->task, i)].kind != AXIS_REDUCTION || (conv && first));
}

/* Finds the modes of a task: operands whose channels are the output's are blocked together. Returns their
 * number. */
static int find_modes(const struct weigher *w, const struct group *p, unsigned *mode)
{
	unsigned class[MAX_CLASSES] = {0};
	const struct task *t = p->task;
	int out = t->stage[t->nstages - 1].out.operand, n = 1, modes = 0;
	bool fixed = t->nstages != 1 || group_multiplies(w->g, p);
	bool blocks = !fixed && frees(w, p, out);
	int axis = channel_axis(t, out);
	class[0] = blocks ? 1u << out : 0;
	for (int i = 0; i < t->noperands && !fixed; i++) {
		if (t->operand[i].role != ROLE_IN || !frees(w, p, i))
			continue;
		if (blocks && channel_axis(t, i) == axis)
			class[0] |= 1u << i;
		else if (reads_any(w, p, i) && n < MAX_CLASSES)
			class[n++] = 1u << i;
	}
	for (unsigned k = 0; k < 1u << n; k++) {
		unsigned blocked = 0;
		for (int i = 0; i < n; i++)
			blocked |= k >> i & 1 ? class[i] : 0;
		if (!(k & 1) || class[0])
			mode[modes++] = blocked;
	}
	return modes;
}

static unsigned rule_mode(const struct weigher *w, int group)
{
	const struct group *p = &w->gr->group[group];
	unsigned blocked = 0;
	for (int i = 0; i < p->task->noperands; i++)
		blocked |= (unsigned)(w->want[group][i] > 1) << i;
	return blocked;
}

static bool touches(const struct weigher *w, const struct group *p)
{
	bool any = false;
	for (int i = 0; i < p->task->noperands; i++)
		any |= p->value[i] >= 0 && w->value[p->value[i]] >= 0;
	return any;
}

static void add_group(struct weigher *w, int group)
{
	const struct group *p = &w->gr->group[group];
	unsigned *mode = w->mode[group];
	if (!touches(w, p))
		return;
	int v = w->group[group] = w->nvars++, n = find_modes(w, p, mode), rule = -1;
	unsigned blocked = rule_mode(w, group);
	for (int i = 0; i < n; i++)
		rule = mode[i] == blocked ? i : rule;
	if (rule < 0)
		mode[rule = n++] = blocked;
	w->states[v] = n;
	w->state[v] = rule;
	for (int i = 0; i < n; i++)
		w->cost[v][i] = n == 1 ? 0 : mode_cycles(w, p, mode[i]) * (i == rule ? 1 : 1 + MARGIN);
}

/* ---- pairs ---- */

static double *add_pair(struct weigher *w, int a, int b)
{
	double *cost = arena_try(&w->a, (size_t)w->states[a] * (size_t)w->states[b], sizeof *cost);
	if (cost)
		w->pair[w->npairs++] = (struct min_sum_pair){a, b, cost};
	return cost;
}

/* Cost of a value's state for a group that reads or writes the value. */
static double asks(const struct weigher *w, const struct group *p, int v, int state, unsigned blocked)
{
	double cost = 0;
	for (int i = 0; i < p->task->noperands; i++) {
		if (p->value[i] != v)
			continue;
		bool want = blocked >> i & 1, out = p->task->operand[i].role == ROLE_OUT;
		if (out ? native(state) != want : !has(state, want))
			return INFINITY;
		if (!out && native(state) != want && p->prev >= 0 && w->gr->group[p->prev].out == v)
			cost += w->convert[v]; /* the block cannot be fused */
	}
	return cost;
}

static int pair_group(struct weigher *w, int group)
{
	const struct group *p = &w->gr->group[group];
	for (int i = 0; i < p->task->noperands; i++) {
		int v = p->value[i];
		if (v < 0 || w->value[v] < 0)
			continue;
		bool seen = false;
		for (int k = 0; k < i; k++)
			seen |= p->value[k] == v;
		if (seen)
			continue;
		double *cost = add_pair(w, w->value[v], w->group[group]);
		int n = w->states[w->group[group]];
		if (!cost)
			return E_NOMEM;
		for (int s = 0; s < VALUE_STATES; s++)
			for (int m = 0; m < n; m++)
				cost[s * n + m] = asks(w, p, v, s, w->mode[group][m]);
	}
	return E_OK;
}

/* Cycles to copy a part of a whole, from channel `at` on. None if both have the same layout and the part
 * begins and ends at blocks. */
static double part_cycles(const struct weigher *w, int part, int whole, bool channels, int64_t at, bool from,
			  bool to, bool converted)
{
	const struct shape *s = &w->g->value[part].t.shape;
	double bytes = 8 * (double)shape_count(s);
	int lanes = w->lanes;
	bool fits =
	    !channels || !to ||
	    (at % lanes == 0 && (s->d[1] % lanes == 0 || at + s->d[1] == w->g->value[whole].t.shape.d[1]));
	if (fits && (from == to || converted))
		return 0;
	return bytes / (from == to && !to ? RUNS : SINGLE);
}

/* Adds the pair for Concat's input or Split's output `part` of `whole`. */
static int pair_part(struct weigher *w, int part, int whole, bool channels, int64_t at, bool join)
{
	int a = part < 0 ? -1 : w->value[part], b = w->value[whole];
	if (part < 0 || (a < 0 && b < 0) || w->g->value[part].t.data)
		return E_OK;
	double one[VALUE_STATES], *cost = a >= 0 && b >= 0 ? add_pair(w, a, b) : one;
	if (!cost)
		return E_NOMEM;
	for (int x = 0; x < (a < 0 ? 1 : VALUE_STATES); x++)
		for (int y = 0; y < (b < 0 ? 1 : VALUE_STATES); y++) {
			double c = part_cycles(w, part, whole, channels, at, native(x), native(y),
					       join && a >= 0 && x & COPIED);
			if (a >= 0 && b >= 0)
				cost[x * VALUE_STATES + y] = c;
			else
				w->cost[a >= 0 ? a : b][a >= 0 ? x : y] += c;
		}
	return E_OK;
}

static int pair_parts(struct weigher *w, const struct group *p)
{
	const struct node *n = &w->g->node[p->anchor];
	bool join = is_type(w, p, "Concat");
	int whole = join ? n->out[0] : n->in[0], rc = E_OK;
	int64_t axis = node_int(n, "axis", join ? 1 : 0), at = 0;
	axis += axis < 0 ? w->g->value[whole].t.shape.rank : 0;
	for (int i = 0; i < (join ? n->nin : n->nout) && rc >= 0; i++) {
		int part = join ? n->in[i] : n->out[i];
		rc = pair_part(w, part, whole, axis == 1, at, join);
		at += part < 0 || axis != 1 ? 0 : w->g->value[part].t.shape.d[1];
	}
	return rc;
}

/* Other nodes read plain values: marks that. */
static void read_plain(struct weigher *w, const struct group *p)
{
	const struct node *n = &w->g->node[p->anchor];
	for (int i = 0; i < n->nin; i++)
		if (n->in[i] >= 0 && w->value[n->in[i]] >= 0)
			w->cost[w->value[n->in[i]]][BLOCKED] = INFINITY;
}

/* ---- the whole ---- */

static void find_halo(struct weigher *w, const struct group *p)
{
	int64_t lo[MAX_RANK], hi[MAX_RANK];
	for (int i = 0; i < p->task->noperands; i++) {
		int v = p->value[i];
		if (v < 0 || operand_overhang(p->task, i, lo, hi) != NEED_HALO)
			continue;
		for (int d = 0; d < MAX_RANK; d++) {
			w->lo[v][d] = lo[d] > w->lo[v][d] ? lo[d] : w->lo[v][d];
			w->hi[v][d] = hi[d] > w->hi[v][d] ? hi[d] : w->hi[v][d];
		}
	}
}

static int begin(struct weigher *w, const struct target *t)
{
	size_t nv = (size_t)w->g->nvalues + 1, ng = (size_t)w->gr->n + 1, uses = 1, all = nv + ng;
	for (int i = 0; i < w->gr->n; i++) {
		const struct group *p = &w->gr->group[i];
		const struct node *n = &w->g->node[p->anchor];
		uses += p->kind == STEP_TASK ? (size_t)p->task->noperands : (size_t)(n->nin + n->nout);
	}
	w->value = arena_try(&w->a, nv, sizeof *w->value);
	w->group = arena_try(&w->a, ng, sizeof *w->group);
	w->mode = arena_try(&w->a, ng, sizeof *w->mode);
	w->lo = arena_try(&w->a, nv, sizeof *w->lo);
	w->hi = arena_try(&w->a, nv, sizeof *w->hi);
	w->convert = arena_try(&w->a, nv, sizeof *w->convert);
	w->states = arena_try(&w->a, all, sizeof *w->states);
	w->state = arena_try(&w->a, all, sizeof *w->state);
	w->cost = arena_try(&w->a, all, sizeof *w->cost);
	w->pair = arena_try(&w->a, uses, sizeof *w->pair);
	if (!w->value || !w->group || !w->mode || !w->lo || !w->hi || !w->convert || !w->states ||
	    !w->state || !w->cost || !w->pair)
		return E_NOMEM;
	return layout_costs_begin(&w->g->arena, t, &w->g->costs);
}

/* Adds a value's variable; the rules' form of it is the first guess. */
static void add_value(struct weigher *w, int v)
{
	const struct value *x = &w->g->value[v];
	const struct form *f = &w->form[v];
	int n = w->nvars++;
	double c = w->convert[v] = convert_cycles(w, v);
	int chosen = choices_get(w->choices, CHOICE_LANES, x->name, 0);
	w->value[v] = n;
	w->states[n] = VALUE_STATES;
	w->state[n] = f->lanes > 1 ? BLOCKED : 0;
	for (int s = 0; s < VALUE_STATES; s++) {
		bool unwanted = chosen > 0 && native(s) != (chosen > 1);
		w->cost[n][s] = (unwanted ? UNWANTED : 0) + (s & COPIED ? c : 0) +
				(native(s) ? c * (x->is_input + x->is_output) : 0);
		if (f->exact && native(s))
			w->cost[n][s] = INFINITY;
	}
}

/* Adds the copies that the rules' answer needs. */
static void copy_as_asked(struct weigher *w)
{
	for (int i = 0; i < w->gr->n; i++) {
		const struct group *p = &w->gr->group[i];
		const struct node *n = &w->g->node[p->anchor];
		for (int k = 0; p->kind == STEP_TASK && w->group[i] >= 0 && k < p->task->noperands; k++) {
			int v = p->value[k] < 0 ? -1 : w->value[p->value[k]];
			bool want = w->mode[i][w->state[w->group[i]]] >> k & 1;
			if (v >= 0 && native(w->state[v]) != want)
				w->state[v] |= COPIED;
		}
		for (int k = 0; p->kind != STEP_TASK && !joins(w, p) && k < n->nin; k++) {
			int v = n->in[k] < 0 ? -1 : w->value[n->in[k]];
			if (v >= 0 && native(w->state[v]))
				w->state[v] |= COPIED;
		}
	}
}

static int make(struct weigher *w)
{
	int rc = E_OK;
	for (int i = 0; i < w->gr->n; i++)
		if (w->gr->group[i].kind == STEP_TASK)
			find_halo(w, &w->gr->group[i]);
	for (int v = 0; v < w->g->nvalues; v++) {
		w->value[v] = -1;
		if (may_block(w, v))
			add_value(w, v);
	}
	for (int i = 0; i < w->gr->n && rc >= 0; i++) {
		const struct group *p = &w->gr->group[i];
		w->group[i] = -1;
		if (p->kind == STEP_TASK)
			add_group(w, i);
		if (w->group[i] >= 0)
			rc = pair_group(w, i);
		else if (joins(w, p))
			rc = pair_parts(w, p);
		else if (p->kind != STEP_TASK)
			read_plain(w, p);
	}
	copy_as_asked(w);
	return rc;
}

static void take(const struct weigher *w)
{
	for (int v = 0; v < w->g->nvalues; v++)
		if (w->value[v] >= 0)
			w->form[v].lanes = native(w->state[w->value[v]]) ? w->lanes : 1;
	for (int i = 0; i < w->gr->n; i++) {
		const struct group *p = &w->gr->group[i];
		for (int k = 0; w->group[i] >= 0 && k < p->task->noperands; k++)
			w->want[i][k] = w->mode[i][w->state[w->group[i]]] >> k & 1 ? w->lanes : 1;
	}
}

int groups_choose_layout(struct graph *g, const struct groups *gr, const struct target *t,
			 const struct choices *c, struct form *form, int (*want)[MAX_OPERANDS])
{
	struct weigher w = {.g = g, .gr = gr, .choices = c, .lanes = t->lanes, .form = form, .want = want};
	int rc = begin(&w, t);
	if (rc >= 0)
		rc = make(&w);
	struct min_sum_problem p = {w.nvars, w.npairs, w.states, w.cost, w.pair};
	if (rc >= 0)
		rc = min_sum_solve(&p, w.state);
	if (rc >= 0)
		take(&w);
	arena_free(&w.scratch);
	arena_free(&w.a);
	return rc;
}
