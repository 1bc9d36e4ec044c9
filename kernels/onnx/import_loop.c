/* SPDX-License-Identifier: Apache-2.0 */
/* Loop and Scan, unrolled: each iteration is a copy of the body. A Loop goes on as soon as the condition that
 * its last iteration computed is known. A Loop without a condition input ends like ONNX Runtime's when its
 * body's condition is false. */
#include "kernels/onnx/import_parts.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct import_loop {
	struct import_body *body;
	struct import_scope *constants; /* the body's */
	int64_t trips, done;            /* trips -1: as long as the condition is true */
	int head_in, head_out;          /* inputs and outputs of the body before the carried values */
	int ncarried, nscans, nslices;  /* slices: inputs of a Scan's body */
	int *carried;                   /* values */
	int *in;                        /* values of the body's inputs */
	int **scan;                     /* [nscans]: value of each iteration */
	int64_t cap;                    /* of each list */
	int condition;                  /* what the last iteration computed; -1: none */
	/* of a Scan, per slice and per scan */
	int64_t *in_axis, *in_back, *out_axis, *out_back;
};

static int alloc_lists(struct importer *im, struct import_loop *l)
{
	struct arena *a = &im->scratch;
	size_t ints[] = {(size_t)l->nslices, (size_t)l->nslices, (size_t)l->nscans, (size_t)l->nscans};
	int64_t **at[] = {&l->in_axis, &l->in_back, &l->out_axis, &l->out_back};
	l->carried = arena_try(a, (size_t)l->ncarried + 1, sizeof *l->carried);
	l->in = arena_try(a, (size_t)(l->head_in + l->ncarried + l->nslices) + 1, sizeof *l->in);
	l->scan = arena_try(a, (size_t)l->nscans + 1, sizeof *l->scan);
	bool all = l->carried && l->in && l->scan;
	for (int i = 0; i < 4; i++)
		all &= (*at[i] = arena_try(a, ints[i] + 1, sizeof **at[i])) != NULL;
	return all ? E_OK : E_NOMEM;
}

/* Checks the numbers of the body's inputs and outputs against the node's. */
static int open_loop(struct importer *im, struct import_flow *f, struct import_loop *l)
{
	int rc = flow_body(im, f, "body", 0, &l->body);
	if (rc < 0)
		return rc;
	const Onnx__GraphProto *p = l->body->p;
	size_t in = (size_t)(l->head_in + l->ncarried + l->nslices);
	size_t out = (size_t)(l->head_out + l->ncarried);
	if (p->n_input != in || p->n_output < out || p->n_output > INT32_MAX / 2)
		return fail(E_CORRUPT,
			    "its body has %zu inputs and %zu outputs; %zu and at least %zu fit the node",
			    p->n_input, p->n_output, in, out);
	l->nscans = (int)(p->n_output - out);
	if (f->p->n_output > p->n_output - (size_t)l->head_out)
		return fail(E_CORRUPT, "it has %zu outputs, but its body gives %zu", f->p->n_output,
			    p->n_output - (size_t)l->head_out);
	l->constants = flow_scope(im, f->scope, 1);
	if (!l->constants || alloc_lists(im, l) < 0)
		return E_NOMEM;
	l->constants->repeated = true;
	f->loop = l;
	return flow_constants(im, l->body, l->constants);
}

static int carry(const struct import_flow *f, struct import_loop *l, int first)
{
	for (int k = 0; k < l->ncarried; k++)
		if ((l->carried[k] = f->in[first + k]) < 0)
			return fail(E_CORRUPT, "input %d is absent", first + k);
	return E_OK;
}

static int keep_scan(struct importer *im, struct import_loop *l, int k, int v)
{
	if (l->done >= l->cap) {
		l->cap = l->cap ? 2 * l->cap : 16;
		for (int i = 0; i < l->nscans; i++) {
			int *old = l->scan[i];
			if (!(l->scan[i] = arena_try(&im->scratch, (size_t)l->cap, sizeof **l->scan)))
				return E_NOMEM;
			if (old)
				memcpy(l->scan[i], old, (size_t)l->done * sizeof *old);
		}
	}
	l->scan[k][l->done] = v;
	return E_OK;
}

/* One more copy of the body on l->in. */
static int iterate(struct importer *im, struct import_loop *l)
{
	const Onnx__GraphProto *p = l->body->p;
	struct import_scope *s = flow_scope(im, l->constants, 0);
	if (!s)
		return E_NOMEM;
	im->scope = s;
	for (size_t i = 0; i < p->n_input; i++) {
		const char *name = p->input[i]->name;
		int rc = name && *name ? import_alias(im, name, l->in[i])
				       : fail(E_CORRUPT, "input %zu of its body has no name", i);
		if (rc < 0)
			return rc;
	}
	int rc = flow_copy(im, l->body, s, (int64_t)l->nscans + l->nslices);
	if (rc == E_UNSUPPORTED && l->trips >= 0)
		return fail_in(rc, "%" PRId64 " iterations of %zu nodes", l->trips, p->n_node);
	if (rc == E_UNSUPPORTED)
		return fail_in(rc, "no trip count, and %" PRId64 " iterations of %zu nodes so far", l->done,
			       p->n_node);
	for (int k = 0; rc >= 0 && k < l->head_out + l->ncarried + l->nscans; k++) {
		int v = rc = flow_output(im, l->body, s, (size_t)k), at = k - l->head_out;
		if (v < 0)
			break;
		if (at < 0)
			l->condition = v;
		else if (at < l->ncarried)
			l->carried[at] = v;
		else
			rc = keep_scan(im, l, at - l->ncarried, v);
	}
	l->done++;
	return rc;
}

/* A new axis before `axis`. */
static int unsqueeze(struct importer *im, const char *name, int v, int64_t axis, int out)
{
	int in[2] = {v, -1}, nin = 1;
	struct attr a = {.name = "axes", .kind = ATTR_INTS, .n = 1, .ints = &axis};
	if (im->opset >= 13) {
		if ((in[1] = flow_ints(im, name, 1, &axis)) < 0)
			return in[1];
		nin = 2;
	}
	return flow_node(im, "Unsqueeze", name, nin, in, out, nin == 1, &a);
}

static int new_value(struct importer *im, const char *name)
{
	char unique[256];
	snprintf(unique, sizeof unique, "%.200s.%d", name, ++im->last_id);
	return graph_add_value(im->g, unique);
}

/* The output of no iterations: no elements, of the shape that the body declares. */
static int stack_none(struct importer *im, const struct import_loop *l, int k, int out)
{
	const Onnx__ValueInfoProto *p = l->body->p->output[l->head_out + l->ncarried + k];
	const Onnx__TensorTypeProto *t = p->type ? p->type->tensor_type : NULL;
	if (!t || !t->shape || t->shape->n_dim >= MAX_RANK || pb_dtype(t->elem_type) == DT_NONE)
		return fail(E_UNSUPPORTED,
			    "it has no iterations, and its body does not say the shape of output %d",
			    l->ncarried + k);
	struct shape s = {.rank = (int)t->shape->n_dim + 1};
	int64_t axis = l->out_axis[k] < 0 ? l->out_axis[k] + s.rank : l->out_axis[k];
	if (axis < 0 || axis >= s.rank)
		return fail(E_CORRUPT, "axis %" PRId64 " of rank %d", l->out_axis[k], s.rank);
	for (int i = 0, from = 0; i < s.rank; i++) {
		const Onnx__DimProto *d = i == axis ? NULL : t->shape->dim[from++];
		s.d[i] = d && d->has_dim_value ? d->dim_value : 0;
	}
	enum dtype type = pb_dtype(t->elem_type);
	int rc = shape_check(&s, PB_MAX_ELEMS);
	return rc < 0 ? rc
		      : tensor_alloc(&im->g->arena, type == DT_F16 || type == DT_BF16 ? DT_F32 : type, &s,
				     &im->g->value[out].t);
}

static int stack(struct importer *im, const struct import_flow *f, struct import_loop *l, int k, int out)
{
	if (l->done == 0)
		return stack_none(im, l, k, out);
	if (l->done == 1)
		return unsqueeze(im, f->name, l->scan[k][0], l->out_axis[k], out);
	int *part = arena_try(&im->scratch, (size_t)l->done, sizeof *part);
	if (!part)
		return E_NOMEM;
	for (int64_t i = 0; i < l->done; i++) {
		int64_t from = l->out_back[k] ? l->done - 1 - i : i;
		int rc = part[i] = new_value(im, f->name);
		if (rc >= 0)
			rc = unsqueeze(im, f->name, l->scan[k][from], l->out_axis[k], part[i]);
		if (rc < 0)
			return rc;
	}
	struct attr axis = {.name = "axis", .kind = ATTR_INT, .i = l->out_axis[k]};
	return flow_node(im, "Concat", f->name, (int)l->done, part, out, 1, &axis);
}

static int close_loop(struct importer *im, struct import_flow *f, struct import_loop *l)
{
	for (int k = 0; k < f->nout; k++) {
		int rc = E_OK;
		if (f->out[k] >= 0 && k < l->ncarried)
			rc = flow_node(im, "Identity", f->name, 1, &l->carried[k], f->out[k], 0, NULL);
		else if (f->out[k] >= 0)
			rc = stack(im, f, l, k - l->ncarried, f->out[k]);
		if (rc < 0)
			return rc;
	}
	return FLOW_DONE;
}

/* ---- Loop ---- */

static int start_loop(struct importer *im, struct import_flow *f)
{
	struct import_loop *l = arena_try(&im->scratch, 1, sizeof *l);
	if (!l)
		return E_NOMEM;
	*l = (struct import_loop){.trips = -1, .head_in = 2, .head_out = 1, .condition = -1};
	l->ncarried = f->nin > 2 ? f->nin - 2 : 0;
	int rc = E_OK;
	if (f->nin > 0 && f->in[0] >= 0) {
		rc = flow_scalar(im, f->in[0], DT_I64, "trip count", &l->trips);
		if (rc >= 0 && l->trips < 0)
			rc = fail(E_CORRUPT, "its trip count is %" PRId64, l->trips);
	}
	if (rc >= 0)
		rc = open_loop(im, f, l);
	if (rc >= 0 && f->nin > 1)
		l->condition = f->in[1];
	return rc >= 0 ? carry(f, l, 2) : rc;
}

static int step_loop(struct importer *im, struct import_flow *f, int *wait)
{
	int64_t go = 1;
	int rc = f->loop ? E_OK : start_loop(im, f);
	if (rc < 0)
		return rc;
	struct import_loop *l = f->loop;
	if (l->condition >= 0)
		rc = flow_scalar(im, l->condition, DT_BOOL, "condition", &go);
	if (rc < 0)
		return rc;
	if (!go || l->done == l->trips)
		return close_loop(im, f, l);
	l->in[0] = flow_ints(im, f->name, 0, &l->done);
	l->in[1] = l->in[0] < 0 ? l->in[0] : flow_bool(im, f->name, true);
	if (l->in[1] < 0)
		return l->in[1];
	memcpy(l->in + 2, l->carried, (size_t)l->ncarried * sizeof *l->in);
	rc = iterate(im, l);
	*wait = l->condition;
	return rc < 0 ? rc : FLOW_WAITS;
}

const struct flow_kind flow_loop = {"Loop", 1, "body", step_loop};

/* ---- Scan ---- */

/* n integers of an attribute, 0 if it is absent. */
static int read_ints(const struct import_flow *f, const char *name, int n, int64_t lo, int64_t hi,
		     int64_t *out)
{
	const Onnx__AttributeProto *p = flow_attr(f, name);
	if (p && p->n_ints != (size_t)n)
		return fail(E_CORRUPT, "attribute %s has %zu integers instead of %d", name, p->n_ints, n);
	for (int i = 0; i < n; i++) {
		out[i] = p ? p->ints[i] : 0;
		if (out[i] < lo || out[i] > hi)
			return fail(E_CORRUPT, "attribute %s: %" PRId64 " is outside %" PRId64 "..%" PRId64,
				    name, out[i], lo, hi);
	}
	return E_OK;
}

/* Every scan input has the same number of slices. */
static int count_trips(const struct importer *im, const struct import_flow *f, struct import_loop *l)
{
	for (int i = 0; i < l->nslices; i++) {
		int v = f->in[l->ncarried + i];
		if (v < 0)
			return fail(E_CORRUPT, "input %d is absent", l->ncarried + i);
		const struct shape *s = &im->g->value[v].t.shape;
		if (l->in_axis[i] < -s->rank || l->in_axis[i] >= s->rank)
			return fail(E_CORRUPT, "axis %" PRId64 " of rank %d", l->in_axis[i], s->rank);
		l->in_axis[i] += l->in_axis[i] < 0 ? s->rank : 0;
		int64_t n = s->d[l->in_axis[i]];
		if (i && n != l->trips)
			return fail(E_CORRUPT, "scan inputs of %" PRId64 " and %" PRId64 " slices", l->trips,
				    n);
		l->trips = n;
	}
	return E_OK;
}

static int start_scan(struct importer *im, struct import_flow *f)
{
	const Onnx__AttributeProto *n = flow_attr(f, "num_scan_inputs");
	if (!n || !n->has_i)
		return fail(E_CORRUPT, "attribute num_scan_inputs is missing");
	if (n->i < 1 || n->i > f->nin)
		return fail(E_CORRUPT, "%" PRId64 " scan inputs of %d inputs", n->i, f->nin);
	struct import_loop *l = arena_try(&im->scratch, 1, sizeof *l);
	if (!l)
		return E_NOMEM;
	*l = (struct import_loop){.nslices = (int)n->i, .ncarried = f->nin - (int)n->i, .condition = -1};
	int rc = open_loop(im, f, l);
	if (rc >= 0)
		rc = read_ints(f, "scan_input_axes", l->nslices, -MAX_RANK, MAX_RANK - 1, l->in_axis);
	if (rc >= 0)
		rc = read_ints(f, "scan_input_directions", l->nslices, 0, 1, l->in_back);
	if (rc >= 0)
		rc = read_ints(f, "scan_output_axes", l->nscans, -MAX_RANK, MAX_RANK - 1, l->out_axis);
	if (rc >= 0)
		rc = read_ints(f, "scan_output_directions", l->nscans, 0, 1, l->out_back);
	if (rc >= 0)
		rc = count_trips(im, f, l);
	return rc >= 0 ? carry(f, l, 0) : rc;
}

static int slice(struct importer *im, const struct import_flow *f, const struct import_loop *l, int i)
{
	int64_t at = l->in_back[i] ? l->trips - 1 - l->done : l->done;
	int in[2] = {f->in[l->ncarried + i], flow_ints(im, f->name, 0, &at)};
	int out = in[1] < 0 ? in[1] : new_value(im, f->name);
	struct attr axis = {.name = "axis", .kind = ATTR_INT, .i = l->in_axis[i]};
	int rc = out < 0 ? out : flow_node(im, "Gather", f->name, 2, in, out, 1, &axis);
	return rc < 0 ? rc : out;
}

static int step_scan(struct importer *im, struct import_flow *f, int *wait)
{
	(void)wait;
	int rc = f->loop ? E_OK : start_scan(im, f);
	if (rc < 0)
		return rc;
	struct import_loop *l = f->loop;
	if (l->done == l->trips)
		return close_loop(im, f, l);
	memcpy(l->in, l->carried, (size_t)l->ncarried * sizeof *l->in);
	for (int i = 0; i < l->nslices; i++)
		if ((rc = l->in[l->ncarried + i] = slice(im, f, l, i)) < 0)
			return rc;
	rc = iterate(im, l);
	return rc < 0 ? rc : FLOW_WAITS;
}

const struct flow_kind flow_scan = {
    "Scan", 9,
    "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes scan_output_directions",
    step_scan};
