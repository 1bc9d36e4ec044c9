/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs and outputs of the graph: their values, and the shapes that the caller binds. */
#include "kernels/onnx/import_parts.h"
#include <inttypes.h>
#include <string.h>

/* Returns the bind of that name, or NULL, and marks it as used. */
static const char *bound(struct importer *im, const char *name)
{
	for (int i = 0; i < im->o->nbinds; i++)
		if (name && !im->o->binds[i].weak && !strcmp(im->o->binds[i].name, name)) {
			im->bind_used[i] = true;
			return im->o->binds[i].value;
		}
	return NULL;
}

/* Returns the bind of the input's file; < 0: there is none. */
static int file_bind(const struct importer *im, const char *name)
{
	for (int i = 0; IMPORT_FILES && i < im->o->nbinds; i++) {
		const struct import_bind *b = &im->o->binds[i];
		if (b->weak && (!strcmp(b->name, name) || (!*b->name && im->only_input)))
			return i;
	}
	return -1;
}

/* Gives the free dimensions the sizes of the input's file, if that has the same rank. */
static void take_file(struct importer *im, int bind, struct shape *s)
{
	struct shape given;
	if (bind < 0 || shape_parse(im->o->binds[bind].value, &given) < 0 || given.rank != s->rank)
		return;
	for (int i = 0; i < s->rank; i++)
		if (s->d[i] < 0) {
			s->d[i] = given.d[i];
			im->bind_used[bind] = true;
		}
}

/* Parses a shape that the caller gave. */
static int parse_given(const char *text, struct shape *s)
{
	int rc = shape_parse(text, s);
	for (int i = 0; rc >= 0 && i < s->rank; i++)
		if (s->d[i] < 1)
			return fail(E_USAGE,
				    "the given shape %.100s has a size of %" PRId64 ": a size is at least 1",
				    text, s->d[i]);
	return rc;
}

/* *out is -1 for a free dimension that is not bound. */
static int bind_dim(struct importer *im, const Onnx__DimProto *d, int64_t *out)
{
	*out = -1;
	const char *text = d->has_dim_value ? NULL : bound(im, d->dim_param);
	const int *same = d->has_dim_value || !d->dim_param ? NULL : names_find(&im->sizes, d->dim_param);
	if (text) {
		struct shape s;
		int rc = shape_parse(text, &s);
		if (rc < 0 || s.rank != 1 || s.d[0] < 1)
			return fail(E_USAGE, "size %s=%.40s: write a number from 1 to %d", d->dim_param, text,
				    INT32_MAX);
		*out = s.d[0];
	} else if (same) {
		*out = *same;
	} else if (d->has_dim_value && d->dim_value != -1) { /* some exporters write -1 for unknown */
		if (d->dim_value < 0)
			return fail(E_CORRUPT, "a dimension is %" PRId64, d->dim_value);
		*out = d->dim_value;
	}
	return E_OK;
}

/* Reads the shape in the file, its symbolic dimensions bound. */
static int declared_shape(struct importer *im, const Onnx__ShapeProto *dims, struct free_shape *f)
{
	if (dims->n_dim > MAX_RANK)
		return fail(E_UNSUPPORTED, "rank %zu exceeds %d", dims->n_dim, MAX_RANK);
	*f = (struct free_shape){.s.rank = (int)dims->n_dim};
	for (int i = 0; i < f->s.rank; i++) {
		f->name[i] = dims->dim[i]->dim_param;
		int rc = bind_dim(im, dims->dim[i], &f->s.d[i]);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

static int no_shape(const struct importer *im, const char *input)
{
	struct buf give = {0};
	import_shape_for(im, input, &give);
	int rc =
	    fail(E_UNSUPPORTED, "its shape is not in the file: give it, as in %s1x3x224x224", buf_str(&give));
	buf_free(&give);
	return rc;
}

/* Whether a size that the file states is another one in the given shape of the same rank. Makes f what the
 * file states. */
static bool replaces_fixed(const Onnx__ShapeProto *dims, const struct shape *given, struct free_shape *f)
{
	bool any = false;
	for (int i = 0; i < given->rank; i++) {
		if (!dims->dim[i]->has_dim_value)
			f->s.d[i] = -1; /* shown by its name, though other inputs' shapes may bind it */
		any |= f->s.d[i] >= 0 && f->s.d[i] != given->d[i];
	}
	return any;
}

static int bind_shape(struct importer *im, const Onnx__ValueInfoProto *p, struct shape *s)
{
	const Onnx__ShapeProto *dims = p->type->tensor_type->shape;
	const char *text = bound(im, p->name);
	const int file = file_bind(im, p->name);
	struct free_shape f = {0};
	struct shape given;
	if (!text && !dims && file >= 0) {
		text = im->o->binds[file].value;
		im->bind_used[file] = true;
	}
	if (!text && !dims)
		return no_shape(im, p->name);
	int rc = dims ? declared_shape(im, dims, &f) : E_OK;
	if (rc < 0)
		return rc;
	rc = text ? parse_given(text, &given) : E_OK;
	if (rc < 0)
		return rc;
	if (text && dims && given.rank != f.s.rank)
		return fail(E_USAGE, "the given shape %.100s has rank %d, the model's has %d", text,
			    given.rank, f.s.rank);
	if (text && dims && replaces_fixed(dims, &given, &f))
		import_replace(im, p->name, &f, &given);
	if (text)
		f.s = given;
	else
		take_file(im, file, &f.s);
	import_free(im, p->name, &f);
	*s = f.s;
	return import_replace_explain(im, shape_check(s, PB_MAX_ELEMS));
}

static int read_type(struct importer *im, const Onnx__ValueInfoProto *p, struct tensor *t)
{
	if (!p->type || !p->type->tensor_type)
		return fail(E_UNSUPPORTED, "it is not a tensor");
	t->dtype = pb_dtype(p->type->tensor_type->elem_type);
	if (t->dtype == DT_NONE)
		return fail(E_UNSUPPORTED, "type %s is not supported",
			    pb_type_name(p->type->tensor_type->elem_type));
	if (t->dtype == DT_F16 || t->dtype == DT_BF16)
		t->dtype = DT_F32;
	return bind_shape(im, p, &t->shape);
}

static const struct tensor *fixed(const struct importer *im, const char *name)
{
	for (int i = 0; i < im->o->nfixed; i++)
		if (!strcmp(im->o->fixed[i].name, name))
			return &im->o->fixed[i].t;
	return NULL;
}

static int fix(struct importer *im, struct value *v, const struct tensor *t)
{
	int rc = tensor_alloc(&im->g->arena, t->dtype, &t->shape, &v->t);
	if (rc < 0)
		return rc;
	memcpy(v->t.data, t->data, (size_t)shape_count(&t->shape) * dtype_bytes(t->dtype));
	return E_OK;
}

/* The shape that the caller gives for an input also gives the symbolic dimensions that other inputs have in
 * common with it. */
static int learn_sizes(struct importer *im, const Onnx__ValueInfoProto *p)
{
	const Onnx__ShapeProto *dims = p->type && p->type->tensor_type ? p->type->tensor_type->shape : NULL;
	const char *text = bound(im, p->name);
	const int file = text ? -1 : file_bind(im, p->name);
	struct shape s;
	text = file >= 0 ? im->o->binds[file].value : text;
	if (!text || !dims || shape_parse(text, &s) < 0 || (size_t)s.rank != dims->n_dim)
		return E_OK;
	for (int i = 0; i < s.rank; i++) {
		const Onnx__DimProto *d = dims->dim[i];
		const char *name = d->has_dim_value || !d->dim_param ? "" : d->dim_param;
		if (!*name || !strcmp(name, "?") || names_find(&im->sizes, name)) /* "?" names no size */
			continue;
		int rc = names_add(&im->sizes, name, (int)s.d[i]);
		if (rc < 0)
			return rc;
		if (file >= 0)
			im->bind_used[file] = true;
	}
	return E_OK;
}

/* A scalar has no shape to bind: a number that is bound to an integer one is its value. */
static int bind_value(struct importer *im, const Onnx__ValueInfoProto *p, struct value *v, bool *known)
{
	const Onnx__ShapeProto *dims = p->type && p->type->tensor_type ? p->type->tensor_type->shape : NULL;
	enum dtype t = dims ? pb_dtype(p->type->tensor_type->elem_type) : DT_NONE;
	bool integer = t == DT_I64 || t == DT_I32 || t == DT_BOOL;
	const char *text = dims && !dims->n_dim && integer ? bound(im, p->name) : NULL;
	struct shape s, scalar = {0};
	*known = text && strcmp(text, "scalar") != 0;
	if (!*known)
		return E_OK;
	int rc = shape_parse(text, &s);
	if (rc < 0 || s.rank != 1 || (t == DT_I32 && s.d[0] > INT32_MAX) || (t == DT_BOOL && s.d[0] > 1))
		return fail(E_USAGE, "input '%.200s' is a scalar of type %s: '%.40s' is not its value",
			    p->name, dtype_name(t), text);
	rc = tensor_alloc(&im->g->arena, t, &scalar, &v->t);
	if (rc >= 0)
		tensor_set_i64(&v->t, 0, s.d[0]);
	return rc;
}

static int add_input(struct importer *im, const Onnx__ValueInfoProto *p)
{
	struct graph *g = im->g;
	const struct tensor *known = fixed(im, p->name);
	int v = import_value(im, p->name);
	if (v < 0)
		return v;
	if (known)
		return fix(im, &g->value[v], known);
	bool constant;
	int rc = bind_value(im, p, &g->value[v], &constant);
	if (rc < 0 || constant)
		return rc;
	rc = read_type(im, p, &g->value[v].t);
	if (rc == E_UNSUPPORTED) {
		import_complain(im, p->name, "");
		return E_OK;
	}
	if (rc < 0)
		return fail_in(rc, "input '%.200s'", p->name);
	g->value[v].is_input = true;
	g->input[g->ninputs++] = v;
	return E_OK;
}

/* The number of inputs that are not constants. */
static size_t count_inputs(const struct importer *im, const Onnx__GraphProto *p)
{
	size_t n = 0;
	for (size_t i = 0; i < p->n_input; i++)
		n += p->input[i]->name && !names_find(&im->root.names, p->input[i]->name);
	return n;
}

int import_inputs(struct importer *im, const Onnx__GraphProto *p)
{
	im->g->input = arena_try(&im->g->arena, p->n_input + 1, sizeof *im->g->input);
	if (!im->g->input)
		return E_NOMEM;
	im->only_input = count_inputs(im, p) == 1;
	for (size_t i = 0; i < p->n_input; i++) {
		const char *name = p->input[i]->name;
		int rc = name && !names_find(&im->root.names, name) ? learn_sizes(im, p->input[i]) : E_OK;
		if (rc < 0)
			return rc;
	}
	for (size_t i = 0; i < p->n_input; i++) {
		const char *name = p->input[i]->name;
		if (!name || !*name)
			return fail(E_CORRUPT, "input %zu has no name", i);
		int known = import_find(im, name);
		if (known >= 0 && im->g->value[known].is_input)
			return fail(E_CORRUPT, "two inputs are called '%.200s'", name);
		if (known >= 0) /* an initializer that is also listed as an input is still a constant */
			continue;
		int rc = add_input(im, p->input[i]);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

int import_outputs(struct importer *im, const Onnx__GraphProto *p)
{
	struct graph *g = im->g;
	g->output = arena_try(&g->arena, p->n_output + 1, sizeof *g->output);
	if (!g->output)
		return E_NOMEM;
	if (!p->n_output)
		return fail(E_CORRUPT, "the graph has no outputs");
	for (size_t i = 0; i < p->n_output; i++) {
		const char *name = p->output[i]->name;
		int v = name ? import_find(im, name) : -1;
		if (v < 0)
			return fail(E_CORRUPT, "output '%.200s' is made by no node", name ? name : "");
		g->value[v].is_output = true;
		g->output[g->noutputs++] = v;
	}
	return E_OK;
}
