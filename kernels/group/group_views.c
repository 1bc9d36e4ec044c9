/* SPDX-License-Identifier: Apache-2.0 */
/* Views: a matrix product, a chain, a copy or a map of vectors reads the parts of a transposed tensor in
 * place (query, key and value inside of one projection) instead of copies, as long as contiguous reads stay
 * contiguous. A product writes transposed if its only reader would just transpose. A map reads the input of a
 * Resize instead of the repeated pixels. Copies that are no longer read are removed. */
#include "kernels/group/compose.h"
#include "kernels/group/group_parts.h"

#include <string.h>

enum { WIDE = 16 /* channels, twice as many as blocked layouts require */ };

struct viewer {
	const struct graph *g;
	struct groups *gr;
	int *maker;   /* per value: the group that makes it; -1: none */
	int *readers; /* per value: number of readers; an output of the graph has one more */
	struct task *trial;
};

/* A value as a rearrangement of the elements of another value. */
struct view {
	struct stage map; /* the copy from `from`; not set if only the shape differs */
	int from;         /* value */
	bool moves;
	float fill; /* what the copy reads outside of `from` (Pad) */
};

static bool is_type(const struct viewer *w, const struct group *p, const char *type)
{
	return !strcmp(node_type(&w->g->node[p->anchor]), type);
}

static bool is_product(const struct viewer *w, const struct group *p)
{
	return p->kind == STEP_TASK && group_multiplies(w->g, p);
}

bool group_copies(const struct group *p)
{
	if (p->kind != STEP_TASK || p->task->nstages != 1)
		return false;
	const struct stage *s = &p->task->stage[0];
	return stage_maps(p->task, s) && s->nreads == 1 && s->body.n == 1 && s->body.at[0].op == P_READ &&
	       p->task->operand[s->read[0].operand].role == ROLE_IN;
}

static bool is_split(const struct viewer *w, const struct group *p)
{
	return p->kind == STEP_HOST && step_any_layout(w->g, p->anchor) && is_type(w, p, "Split");
}

static const struct shape *shape_of(const struct viewer *w, int v)
{
	return &w->g->value[v].t.shape;
}

static void begin_map(struct stage *m, int rank)
{
	memset(m, 0, sizeof *m);
	m->naxes = rank;
	for (int d = 0; d < MAX_RANK; d++)
		m->read[0].dim[d].table = -1;
	m->nreads = 1;
}

static bool view_split(const struct viewer *w, const struct node *n, int v, struct view *out)
{
	int rank = shape_of(w, v)->rank;
	int64_t axis = node_int(n, "axis", 0), at = 0;
	axis += axis < 0 ? rank : 0;
	begin_map(&out->map, rank);
	for (int k = 0; k < n->nout && n->out[k] != v; k++)
		at += n->out[k] < 0 ? 0 : shape_of(w, n->out[k])->d[axis];
	for (int k = 0; k < n->nout; k++)
		if (n->out[k] < 0)
			return false;
	for (int d = 0; d < rank; d++)
		out->map.read[0].dim[d].coef[d] = 1;
	out->map.read[0].dim[axis].off = at;
	return true;
}

static bool view_of(const struct viewer *w, int v, struct view *out)
{
	const struct group *p = w->maker[v] < 0 ? NULL : &w->gr->group[w->maker[v]];
	if (!p || !value_type(&w->g->value[v].t))
		return false;
	out->from = w->g->node[p->anchor].in[0];
	out->moves = p->kind != STEP_ALIAS;
	out->fill = 0;
	if (p->kind == STEP_ALIAS)
		return true;
	if (is_split(w, p))
		return view_split(w, &w->g->node[p->anchor], v, out);
	if (!group_copies(p))
		return false;
	out->map = p->task->stage[0];
	out->from = p->value[out->map.read[0].operand];
	out->fill = p->task->operand[out->map.read[0].operand].fill;
	return true;
}

/* Elements between neighbours along an axis, on plain layouts. */
static int64_t apart(const struct read *r, const struct shape *dims, int axis)
{
	int64_t stride = 1, sum = 0;
	for (int d = dims->rank - 1; d >= 0; d--) {
		sum += r->dim[d].coef[axis] * stride;
		stride *= dims->d[d];
	}
	return sum;
}

/* Whether contiguous elements stay contiguous and nothing is read backwards. Operands that a product reads in
 * vectors, as a whole for each tile, must have rows that are no further apart than before: 117 us, against
 * 152 us where they were. */
static bool contiguous(const struct stage *s, const struct read *was, const struct shape *before,
		       const struct read *is, const struct shape *after)
{
	bool vectors = false, spread = false;
	for (int a = 0; a < s->naxes; a++) {
		int64_t x = apart(was, before, a), y = apart(is, after, a);
		bool reduced = s->axis[a].kind == AXIS_REDUCTION;
		if (s->axis[a].extent > 1 && (y < 0 || (x == 1) != (y == 1)))
			return false;
		vectors |= x == 1 && !reduced;
		spread |= reduced && x != y;
	}
	return !vectors || !spread;
}

/* Rewrites all reads of operand i of t to read through a view. */
static bool look_through(const struct viewer *w, struct task *t, int i, const struct view *v)
{
	struct operand *o = &t->operand[i];
	const struct shape before = o->dims, *after = shape_of(w, v->from);
	for (int k = 0; k < t->nstages; k++) {
		struct stage *s = &t->stage[k];
		for (int j = 0; j < s->nreads; j++) {
			struct read *r = &s->read[j], through;
			if (r->operand != i)
				continue;
			for (int d = 0; d < before.rank; d++)
				if (index_guarded(t, s, r, d))
					return false;
			bool found = v->moves ? read_through(&v->map, &v->map.read[0], r, &through)
					      : read_reshaped(s, r, &before, after, &through);
			if (!found || !contiguous(s, r, &before, &through, after))
				return false;
			through.operand = i;
			*r = through;
		}
	}
	o->dims = *after;
	o->fill = v->fill; /* no read of t was outside before, so none needs another */
	for (int d = after->rank; d < MAX_RANK; d++)
		o->dims.d[d] = 0;
	return true;
}

/* Whether the value may be made in blocks of channels: a plain reader would then need a conversion. */
static bool may_be_blocked(const struct viewer *w, int v)
{
	const struct group *p = w->maker[v] < 0 ? NULL : &w->gr->group[w->maker[v]];
	return p && shape_of(w, v)->rank >= 3 && p->kind != STEP_ALIAS && !is_product(w, p) &&
	       !group_copies(p) && !(p->kind == STEP_TASK && p->task->nstages > 1);
}

/* Merges operand i with another operand that reads the same value, unless they differ outside of it. */
static void unite(struct group *p, int i)
{
	for (int k = 0; k < p->task->noperands; k++) {
		const struct operand *o = p->task->operand;
		if (k == i || p->value[k] != p->value[i] || o[k].role != ROLE_IN || o[k].fill != o[i].fill)
			continue;
		for (int s = 0; s < p->task->nstages; s++)
			for (int r = 0; r < p->task->stage[s].nreads; r++)
				if (p->task->stage[s].read[r].operand == i)
					p->task->stage[s].read[r].operand = k;
		task_drop_operand(p->task, i);
		memmove(&p->value[i], &p->value[i + 1], sizeof *p->value * (size_t)(MAX_OPERANDS - 1 - i));
		return;
	}
}

/* Makes a group read operand i from the earliest value that it can. */
static void look_back(struct viewer *w, struct group *p, int i)
{
	struct view view;
	int v = p->value[i];
	bool found = false;
	*w->trial = *p->task;
	while (view_of(w, v, &view) && look_through(w, w->trial, i, &view)) {
		v = view.from;
		if ((!view.moves && !found) || (!group_copies(p) && may_be_blocked(w, v)) ||
		    task_check(w->trial) < 0)
			continue;
		*p->task = *w->trial;
		p->value[i] = v;
		found = true;
	}
	if (found)
		unite(p, i);
}

/* Whether the group is a map of values that are no images, which are always plain. */
static bool is_flat_map(const struct group *p)
{
	return p->kind == STEP_TASK && p->task->nstages == 1 && stage_maps(p->task, &p->task->stage[0]) &&
	       p->task->operand[p->task->stage[0].out.operand].dims.rank <= 2;
}

static void look_back_all(struct viewer *w)
{
	for (int k = 0; k < w->gr->n; k++) {
		struct group *p = &w->gr->group[k];
		bool several = p->kind == STEP_TASK && p->task->nstages > 1;
		if (!is_product(w, p) && !group_copies(p) && !several && !is_flat_map(p))
			continue;
		for (int i = p->task->noperands - 1; i >= 0; i--)
			if (p->task->operand[i].role == ROLE_IN && i < p->task->noperands)
				look_back(w, p, i);
	}
}

/* Makes the product p write what the copy q, its only reader, would: every dim of p's output is one axis of
 * q. */
static bool write_as(struct group *p, const struct group *q)
{
	const struct stage *m = &q->task->stage[0];
	struct stage *s = &p->task->stage[0];
	struct operand *o = &p->task->operand[s->out.operand];
	struct read out = {.operand = s->out.operand};
	const struct shape *after = &q->task->operand[m->out.operand].dims;
	int used[MAX_RANK] = {0};
	for (int d = 0; d < MAX_RANK; d++)
		out.dim[d].table = -1;
	for (int d = 0; d < o->dims.rank; d++) {
		const struct index *x = &m->read[0].dim[d];
		int axis = -1;
		for (int a = 0; a < m->naxes; a++)
			if (x->coef[a])
				axis = axis < 0 && x->coef[a] == 1 ? a : MAX_AXES;
		if (axis < 0 && o->dims.d[d] == 1)
			continue;
		if (axis < 0 || axis >= MAX_RANK || x->off || x->div > 1 || x->mod > 1 || x->table >= 0 ||
		    after->d[axis] != o->dims.d[d] || used[axis]++)
			return false;
		out.dim[axis] = s->out.dim[d];
	}
	if (shape_count(after) != shape_count(&o->dims) || !contiguous(s, &s->out, &o->dims, &out, after))
		return false;
	s->out = out;
	o->dims = *after;
	return true;
}

static void write_through(struct viewer *w)
{
	for (int k = 0; k < w->gr->n; k++) {
		const struct group *q = &w->gr->group[k];
		if (!group_copies(q))
			continue;
		int from = q->value[q->task->stage[0].read[0].operand];
		struct group *p = w->maker[from] < 0 ? NULL : &w->gr->group[w->maker[from]];
		if (!p || !is_product(w, p) || w->readers[from] != 1 || !write_as(p, q))
			continue;
		p->value[p->task->stage[0].out.operand] = p->out = q->out;
		w->maker[q->out] = (int)(p - w->gr->group);
		w->readers[from] = 0;
	}
}

/* Whether a copy that writes blocks has, for each dim of its output, an index of one axis, or of one axis
 * times a number plus the next axis (as a nearest Resize repeats pixels). */
static bool copies_blocks(const struct group *p)
{
	if (p->kind != STEP_TASK || p->task->nstages != 1)
		return false;
	const struct stage *s = &p->task->stage[0];
	bool moves = s->comb == COMB_NONE && !s->post.n && s->nreads == 1 && s->body.n == 1 &&
		     s->body.at[0].op == P_READ && p->task->operand[s->read[0].operand].role == ROLE_IN;
	return moves && !stage_maps(p->task, s);
}

/* Rewrites index x, whose dims are themselves indexed by other axes, to those axes. */
static void spread_index(struct index *x, int dims, const struct read *made)
{
	const struct index was = *x;
	memset(x->coef, 0, sizeof x->coef);
	for (int d = 0; d < dims; d++) {
		x->off += was.coef[d] * made->dim[d].off;
		for (int a = 0; a < MAX_AXES; a++)
			x->coef[a] += was.coef[d] * made->dim[d].coef[a];
	}
}

/* Rewrites map p to the axes of q, which makes its operand i, so that p reads what q reads. Not for reads
 * through a table, which is an operand of q. */
static bool spread(struct viewer *w, struct group *p, int i, const struct group *q)
{
	struct task *t = w->trial;
	const struct stage *from = &q->task->stage[0];
	*t = *p->task;
	struct stage *s = &t->stage[0];
	int dims = s->naxes;
	if (q->task->noperands != 2)
		return false;
	for (int k = 0; k <= s->nreads; k++) {
		struct read *r = k < s->nreads ? &s->read[k] : &s->out;
		for (int d = 0; d < t->operand[r->operand].dims.rank; d++) {
			if (r->operand == i && index_axis(s, &r->dim[d]) != d)
				return false;
			spread_index(&r->dim[d], dims, &from->out);
		}
		if (r->operand == i) {
			*r = from->read[0];
			r->operand = i;
		}
	}
	memcpy(s->axis, from->axis, sizeof s->axis);
	s->naxes = from->naxes;
	t->operand[i].dims = q->task->operand[from->read[0].operand].dims;
	if (task_check(t) < 0)
		return false;
	*p->task = *t;
	p->value[i] = q->value[from->read[0].operand];
	return true;
}

/* Lets maps of images with lanes over channels read the input of a Resize in place. */
static void read_blocks(struct viewer *w)
{
	for (int k = 0; k < w->gr->n; k++) {
		struct group *p = &w->gr->group[k];
		for (int i = 0; p->kind == STEP_TASK && i < p->task->noperands; i++) {
			int v = p->value[i];
			const struct group *q = v < 0 || w->maker[v] < 0 ? NULL : &w->gr->group[w->maker[v]];
			if (!q || q == p || w->readers[v] != 1 || p->task->nstages != 1 ||
			    !copies_blocks(q) || !stage_maps(p->task, &p->task->stage[0]) ||
			    p->task->stage[0].nreads < 2 || !value_wide(shape_of(w, v), WIDE) ||
			    !spread(w, p, i, q))
				continue;
			w->readers[v] = 0;
			w->readers[p->value[i]]++;
			break;
		}
	}
}

static void count_reads(struct viewer *w)
{
	memset(w->readers, 0, sizeof *w->readers * (size_t)w->g->nvalues);
	for (int v = 0; v < w->g->nvalues; v++)
		w->readers[v] = w->g->value[v].is_output;
	for (int k = 0; k < w->gr->n; k++) {
		const struct group *p = &w->gr->group[k];
		const struct node *n = &w->g->node[p->anchor];
		bool task = p->kind == STEP_TASK;
		for (int i = 0; i < (task ? p->task->noperands : n->nin); i++) {
			int v = task ? p->value[i] : n->in[i];
			if (v >= 0 && !(task && p->task->operand[i].role == ROLE_OUT))
				w->readers[v]++;
		}
	}
}

/* Removes groups that only move elements and whose values are not read, last ones first. */
static void drop_unread(struct viewer *w)
{
	int kept = 0;
	for (int k = w->gr->n - 1; k >= 0; k--) {
		struct group *p = &w->gr->group[k];
		const struct node *n = &w->g->node[p->anchor];
		bool copy = group_copies(p) || copies_blocks(p),
		     used = !copy && p->kind != STEP_ALIAS && !is_split(w, p);
		/* another group may make the value by now; a task's value is that of its last node */
		const int *made = copy ? &p->out : n->out;
		for (int i = 0; i < (copy ? 1 : n->nout); i++)
			used |= made[i] >= 0 && w->readers[made[i]] && w->maker[made[i]] == k;
		if (used)
			continue;
		int from = copy ? p->value[p->task->stage[0].read[0].operand] : n->in[0];
		if (w->readers[from] > 0)
			w->readers[from]--;
		p->anchor = -1;
	}
	for (int k = 0; k < w->gr->n; k++)
		if (w->gr->group[k].anchor >= 0)
			w->gr->group[kept++] = w->gr->group[k];
	w->gr->n = kept;
}

int groups_view(const struct graph *g, struct arena *a, struct groups *gr)
{
	struct viewer w = {.g = g, .gr = gr, .trial = ARENA_NEW(a, struct task)};
	w.maker = arena_try(a, (size_t)g->nvalues + 1, sizeof *w.maker);
	w.readers = arena_try(a, (size_t)g->nvalues + 1, sizeof *w.readers);
	if (!w.maker || !w.readers)
		return E_NOMEM;
	for (int v = 0; v < g->nvalues; v++)
		w.maker[v] = -1;
	for (int k = 0; k < gr->n; k++) {
		const struct node *n = &g->node[gr->group[k].anchor];
		for (int i = 0; i < n->nout && gr->group[k].kind != STEP_TASK; i++)
			if (n->out[i] >= 0)
				w.maker[n->out[i]] = k;
		if (gr->group[k].kind == STEP_TASK)
			w.maker[gr->group[k].out] = k;
	}
	look_back_all(&w);
	count_reads(&w);
	write_through(&w);
	read_blocks(&w);
	drop_unread(&w);
	return E_OK;
}
