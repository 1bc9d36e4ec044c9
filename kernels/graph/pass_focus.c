/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces a convolution of an image's phases (every second row and column, from each of four starts, side by
 * side as channels: Slice, Slice and Concat) by a strided convolution of the image itself: the same products
 * without a copy of the image. */
#include "kernels/graph/pass.h"

#include <string.h>

enum { MAX_STEP = 4, MAX_DEPTH = 4 };

/* Row begin[0] + step[0] y and column begin[1] + step[1] x of value `of`. */
struct phase {
	int of;
	int64_t begin[2], step[2];
};

static int64_t element(const struct graph *g, const struct node *n, int input, int i)
{
	return tensor_get_i64(&g->value[n->in[input]].t, i);
}

/* Number of elements of a Slice's input; 0: absent; -1: unknown. */
static int64_t given(const struct graph *g, const struct node *n, int input)
{
	if (n->nin <= input || n->in[input] < 0)
		return 0;
	const struct tensor *t = &g->value[n->in[input]].t;
	return t->data && (t->dtype == DT_I64 || t->dtype == DT_I32) ? shape_count(&t->shape) : -1;
}

/* Composes phase p with a preceding Slice (opset 10 or later) into a phase of the Slice's input. */
static bool before_slice(const struct graph *g, const struct node *n, struct phase *phase)
{
	struct phase now = *phase, *p = &now;
	int64_t count = given(g, n, 1), axes = given(g, n, 3), steps = given(g, n, 4);
	const struct shape *s = &g->value[n->in[0]].t.shape;
	if (count < 1 || axes != count || (steps && steps != count) || s->rank != 4)
		return false;
	for (int i = 0; i < (int)count; i++) {
		int64_t axis = element(g, n, 3, i), begin = element(g, n, 1, i),
			step = steps ? element(g, n, 4, i) : 1;
		axis += axis < 0 ? s->rank : 0;
		if (axis < 2 || axis > 3 || step < 1 || step > MAX_STEP || begin >= s->d[axis] ||
		    begin < -s->d[axis])
			return false;
		begin += begin < 0 ? s->d[axis] : 0;
		p->begin[axis - 2] = begin + step * p->begin[axis - 2];
		p->step[axis - 2] *= step;
	}
	p->of = n->in[0];
	*phase = now;
	return true;
}

/* Whether value v is a whole phase of another value. */
static bool read_phase(const struct graph *g, int v, struct phase *p)
{
	*p = (struct phase){v, {0, 0}, {1, 1}};
	for (int depth = 0; depth < MAX_DEPTH && g->value[p->of].producer >= 0; depth++) {
		const struct node *n = &g->node[g->value[p->of].producer];
		if (strcmp(node_type(n), "Slice") != 0 || n->opset < 10 || !before_slice(g, n, p))
			break;
	}
	const struct shape *all = &g->value[p->of].t.shape, *s = &g->value[v].t.shape;
	bool whole = all->rank == 4 && s->rank == 4 && g->value[p->of].t.dtype == DT_F32;
	for (int d = 0; d < 2 && whole; d++)
		whole = p->step[d] <= MAX_STEP && p->begin[d] < p->step[d] &&
			s->d[2 + d] * p->step[d] == all->d[2 + d];
	return whole;
}

/* Reads the phases of one value, each of which must occur once; returns their number. */
static int read_phases(const struct graph *g, const struct node *concat, struct phase *p)
{
	unsigned seen = 0;
	int n = concat->nin;
	if (strcmp(node_type(concat), "Concat") != 0 ||
	    (node_int(concat, "axis", 1) != 1 && node_int(concat, "axis", 1) != -3) || n < 2 ||
	    n > MAX_STEP * MAX_STEP)
		return 0;
	for (int i = 0; i < n; i++) {
		if (!read_phase(g, concat->in[i], &p[i]) || p[i].of != p[0].of ||
		    memcmp(p[i].step, p[0].step, sizeof p->step) != 0)
			return 0;
		seen |= 1u << (p[i].begin[0] * p[i].step[1] + p[i].begin[1]);
	}
	return p[0].step[0] * p[0].step[1] == n && seen == (1u << n) - 1 ? n : 0;
}

struct window {
	int64_t kernel[2], strides[2], pads[4];
};

static bool read_window(const struct graph *g, const struct node *conv, struct window *w)
{
	static const int64_t one[4] = {1, 1}, none[4] = {0};
	const struct attr *s = node_attr(conv, "strides"), *p = node_attr(conv, "pads"),
			  *d = node_attr(conv, "dilations");
	if (strcmp(node_type(conv), "Conv") != 0 || node_int(conv, "group", 1) != 1 ||
	    !pass_is_f32_constant(g, conv->in[1]) || g->value[conv->in[1]].t.shape.rank != 4 ||
	    strcmp(node_str(conv, "auto_pad", "NOTSET"), "NOTSET") != 0 || (s && s->n != 2) ||
	    (p && p->n != 4) || (d && (d->n != 2 || d->ints[0] != 1 || d->ints[1] != 1)))
		return false;
	memcpy(w->kernel, g->value[conv->in[1]].t.shape.d + 2, sizeof w->kernel);
	memcpy(w->strides, s ? s->ints : one, sizeof w->strides);
	memcpy(w->pads, p ? p->ints : none, sizeof w->pads);
	return true;
}

/* Makes weights in which element (k, phase, c, r, q) becomes (k, c, step r + begin, step q + begin). */
static int spread_weights(struct graph *g, int from, const struct phase *p, int n)
{
	struct shape s = g->value[from].t.shape;
	int64_t channels = s.d[1] / n, rows = s.d[2], columns = s.d[3], i = 0;
	float *to;
	s.d[1] = channels;
	s.d[2] *= p->step[0];
	s.d[3] *= p->step[1];
	int v = pass_constant(g, g->value[from].name, &s, &to);
	if (v < 0)
		return v;
	const float *w = g->value[from].t.data;
	for (int64_t k = 0; k < s.d[0]; k++)
		for (int64_t c = 0; c < channels * n; c++)
			for (int64_t r = 0; r < rows; r++)
				for (int64_t q = 0; q < columns; q++) {
					const struct phase *x = &p[c / channels];
					int64_t row = r * x->step[0] + x->begin[0],
						column = q * x->step[1] + x->begin[1];
					to[((k * channels + c % channels) * s.d[2] + row) * s.d[3] + column] =
					    w[i++];
				}
	return v;
}

/* Gives the convolution the window over the image. */
static int widen(struct graph *g, struct node *conv, const struct window *w, const int64_t *step)
{
	struct window *to = arena_try(&g->arena, 1, sizeof *to);
	struct attr *a = arena_try(&g->arena, 3, sizeof *a);
	if (!to || !a)
		return E_NOMEM;
	for (int d = 0; d < 2; d++) {
		to->kernel[d] = w->kernel[d] * step[d];
		to->strides[d] = w->strides[d] * step[d];
		to->pads[d] = w->pads[d] * step[d];
		to->pads[2 + d] = w->pads[2 + d] * step[d];
	}
	a[0] = (struct attr){.name = "kernel_shape", .kind = ATTR_INTS, .n = 2, .ints = to->kernel};
	a[1] = (struct attr){.name = "strides", .kind = ATTR_INTS, .n = 2, .ints = to->strides};
	a[2] = (struct attr){.name = "pads", .kind = ATTR_INTS, .n = 4, .ints = to->pads};
	conv->attr = a;
	conv->nattr = 3;
	return E_OK;
}

int pass_focus(struct graph *g, struct arena *scratch)
{
	int *uses = pass_uses(g, scratch), found = 0, count = g->nnodes;
	for (int i = 0; i < count; i++) {
		struct phase p[MAX_STEP * MAX_STEP];
		struct window w;
		int n = g->node[i].dead ? 0 : read_phases(g, &g->node[i], p),
		    reader = n ? pass_reader(g, uses, g->node[i].out[0]) : -1;
		struct node *conv = reader < 0 ? NULL : &g->node[reader];
		if (!conv || conv->in[0] != g->node[i].out[0] || !read_window(g, conv, &w))
			continue;
		int v = spread_weights(g, conv->in[1], p, n), rc = v < 0 ? v : widen(g, conv, &w, p->step);
		if (rc < 0)
			return rc;
		conv->in[0] = p->of;
		conv->in[1] = v;
		g->node[i].dead = true;
		found++;
	}
	return found;
}
