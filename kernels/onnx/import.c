/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/onnx/import.h"
#include "kernels/graph/eval.h"
#include "kernels/onnx/foreign.h"
#include "kernels/onnx/import_parts.h"
#include "platform/base/near.h"
#include "platform/base/until.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { OPSET_MIN = 7, OPSET_MAX = 28, MAX_LINES = 64 };

static const int64_t default_max_bytes = INT64_C(4) << 30;

void import_complain(struct importer *im, const char *where, const char *remedy)
{
	if (im->nlines++ < MAX_LINES)
		buf_printf(&im->lines, "%s%.200s: %s%s%s", im->lines.n ? "\n" : "", where, err_text(),
			   *remedy ? "; " : "", remedy);
}

int import_find(const struct importer *im, const char *name)
{
	for (const struct import_scope *s = im->scope; s; s = s->outer) {
		const int *v = names_find(&s->names, name);
		if (v)
			return *v;
	}
	return -1;
}

int import_alias(struct importer *im, const char *name, int value)
{
	if (im->scope->outer && import_find(im, name) >= 0)
		return fail(E_CORRUPT,
			    "the name '%.200s' is used twice: names in a subgraph must differ from each "
			    "other and from those around it",
			    name);
	int rc = names_add(&im->scope->names, name, value);
	return rc < 0 ? rc : value;
}

/* The names of values differ in the whole graph: a subgraph's get its number, which is skipped if the model
 * has such a name. */
static int add_unique(struct importer *im, const char *name)
{
	char unique[256];
	do
		snprintf(unique, sizeof unique, "%.200s.%d", name, im->scope->id);
	while (names_find(&im->root.names, unique) && ++im->last_id && (im->scope->id = im->last_id));
	return graph_add_value(im->g, unique);
}

int import_value(struct importer *im, const char *name)
{
	if (im->scope->outer) {
		int v = add_unique(im, name);
		return v < 0 ? v : import_alias(im, name, v);
	}
	int v = graph_add_value(im->g, name);
	return v < 0 ? v : import_alias(im, im->g->value[v].name, v);
}

/* A model's messages take many times their size in the file (a node of 30 bytes takes 250 in memory), but
 * this must be limited. */
static size_t unpack_cap(size_t file_bytes, size_t max_bytes)
{
	size_t most = ((size_t)64 << 20) + file_bytes * 64;
	return most < max_bytes ? most : max_bytes;
}

static int read_opset(const Onnx__ModelProto *m)
{
	int64_t opset = 0;
	for (size_t i = 0; i < m->n_opset_import; i++) {
		const Onnx__OpsetProto *o = m->opset_import[i];
		bool ours = !o->domain || !*o->domain || !strcmp(o->domain, "ai.onnx");
		if (ours && o->version > opset)
			opset = o->version;
	}
	if (!opset && m->ir_version >= 3)
		return fail(E_CORRUPT,
			    "no opset of the default domain is imported: the file is damaged, or not ONNX");
	if (opset < OPSET_MIN || opset > OPSET_MAX)
		return fail(E_UNSUPPORTED,
			    "opset %" PRId64 " is outside %d..%d: convert the model to opset 17", opset,
			    OPSET_MIN, OPSET_MAX);
	return (int)opset;
}

/* Adds to *all_bytes what the initializers have in other files. */
static void count_external(const struct importer *im, const Onnx__GraphProto *p)
{
	for (size_t i = 0; i < p->n_initializer && im->o->all_bytes; i++) {
		const Onnx__TensorProto *t = p->initializer[i];
		struct tensor x = {.dtype = pb_dtype(t->data_type)};
		if (t->data_location == 1 && x.dtype != DT_NONE && pb_shape(t, &x.shape) >= 0)
			*im->o->all_bytes += shape_count(&x.shape) * (int64_t)dtype_bytes(x.dtype);
	}
}

int import_constants(struct importer *im, const Onnx__GraphProto *p)
{
	struct graph *g = im->g;
	count_external(im, p);
	for (size_t i = 0; i < p->n_initializer; i++) {
		int over = until_check();
		if (over < 0)
			return over;
		const Onnx__TensorProto *t = p->initializer[i];
		if (!t->name || !*t->name) /* without a name nothing can read it */
			continue;
		int v = import_value(im, t->name);
		if (v < 0)
			return v;
		g->external |= t->data_location == 1;
		int rc = pb_tensor(&g->arena, t, &im->home, true, &g->value[v].t);
		if (rc == E_UNSUPPORTED)
			import_complain(im, g->value[v].name, "");
		else if (rc < 0)
			return fail_in(rc, "initializer '%.200s'", g->value[v].name);
	}
	return E_OK;
}

/* Infers shapes only if the structure is complete; then reports everything that is unsupported in one
 * error. */
static int finish(struct importer *im)
{
	int worst = im->nlines ? E_UNSUPPORTED : E_OK;
	int more = im->flows && !im->unknown ? import_flow_run(im, &worst) : E_OK;
	int rc = more < 0 ? more : graph_sort(im->g);
	if (rc < 0)
		return rc;
	if (!im->flows && !im->unknown)
		more = graph_infer_lines(im->g, &im->lines, &worst);
	if (more < 0)
		return more;
	int n = im->nlines + more;
	if (n == 0)
		return E_OK;
	worst = im->nlines ? E_UNSUPPORTED : worst;
	if (n == 1)
		return fail(worst, "%s", buf_str(&im->lines));
	return fail(worst, "%d parts of the model cannot be used:\n%s", n, buf_str(&im->lines));
}

/* A place among the names that --shape can give: inputs, then the symbolic dimensions of inputs, which may
 * repeat. */
struct bind_place {
	int input;
	size_t i, k;
};

/* NULL: no more. */
static const char *next_bind(const struct importer *im, const Onnx__GraphProto *p, struct bind_place *at)
{
	if (at->input < im->g->ninputs)
		return im->g->value[im->g->input[at->input++]].name;
	for (; at->i < p->n_input; at->i++, at->k = 0) {
		const Onnx__TypeProto *t = p->input[at->i]->type;
		const Onnx__ShapeProto *s = t && t->tensor_type ? t->tensor_type->shape : NULL;
		while (s && at->k < s->n_dim) {
			const Onnx__DimProto *d = s->dim[at->k++];
			if (!d->has_dim_value && d->dim_param && *d->dim_param)
				return d->dim_param;
		}
	}
	return NULL;
}

/* Whether the name is that of the output, or of one of its dimensions. */
static bool of_output(const Onnx__ValueInfoProto *o, const char *name)
{
	const Onnx__ShapeProto *s = o->type && o->type->tensor_type ? o->type->tensor_type->shape : NULL;
	for (size_t i = 0; s && i < s->n_dim; i++)
		if (s->dim[i]->dim_param && !strcmp(s->dim[i]->dim_param, name))
			return true;
	return o->name && !strcmp(o->name, name);
}

/* Suggests the name that is spelled most like `name`, else lists the first names and counts the others. */
static int fail_bind(struct importer *im, const Onnx__GraphProto *p, const char *name)
{
	struct buf list = {0};
	struct near near;
	struct bind_place at = {0};
	struct names listed = {.a = &im->scratch};
	int rc = E_OK, more = 0;
	for (size_t i = 0; i < p->n_output; i++)
		if (of_output(p->output[i], name))
			return fail(E_USAGE,
				    "'%.100s' belongs to an output, whose sizes follow from those of the "
				    "inputs: give "
				    "these (hone inspect MODEL shows them)",
				    name);
	near_begin(&near, name);
	for (const char *known; rc >= 0 && (known = next_bind(im, p, &at));) {
		near_add(&near, known);
		if (names_find(&listed, known))
			continue;
		rc = names_add(&listed, known, 0);
		if (list.n < 300)
			buf_printf(&list, " '%.59s'", known);
		else
			more++;
	}
	if (more)
		buf_printf(&list, " and %d more", more);
	rc = rc < 0 ? rc
		    : fail(E_USAGE, "the model has no input or symbolic dimension '%.100s'; %s%s%s", name,
			   near.best ? "did you mean '" : "it has", near.best ? near.best : buf_str(&list),
			   near.best ? "'?" : "");
	buf_free(&list);
	return rc;
}

static int check_binds(struct importer *im, const Onnx__GraphProto *p)
{
	for (int i = 0; i < im->o->nbinds; i++) {
		if (im->o->taken)
			im->o->taken[i] = im->bind_used[i];
		if (im->bind_used[i] || im->o->binds[i].weak || im->o->taken)
			continue;
		return fail_bind(im, p, im->o->binds[i].name);
	}
	return E_OK;
}

static int build(struct importer *im, const Onnx__GraphProto *p)
{
	struct import_body b = {p, NULL};
	im->root.names.a = im->sizes.a = &im->scratch;
	im->scope = &im->root;
	im->bind_used = arena_try(&im->scratch, (size_t)im->o->nbinds + 1, 1);
	int rc = im->bind_used ? E_OK : E_NOMEM;
	if (rc >= 0)
		rc = import_constants(im, p);
	if (rc >= 0)
		rc = import_inputs(im, p);
	im->unknown = im->nlines;
	if (rc >= 0)
		rc = check_binds(im, p);
	if (rc >= 0)
		rc = import_free_finish(im);
	if (rc >= 0)
		rc = import_declare(im, p);
	if (rc >= 0)
		rc = import_nodes(im, &b);
	if (rc >= 0)
		rc = import_outputs(im, p);
	return rc >= 0 ? import_replace_explain(im, finish(im)) : rc;
}

static int unpack(struct graph *g, const void *p, size_t n, size_t max_bytes, Onnx__ModelProto **m)
{
	g->arena.cap_bytes = unpack_cap(n, max_bytes);
	int rc = pb_unpack(&g->arena, &onnx__model_proto__descriptor, p, n, m);
	g->arena.cap_bytes = max_bytes;
	if (rc >= 0 && !(*m)->graph)
		rc = fail(E_CORRUPT, "no graph in %zu bytes: the file is damaged, or not ONNX", n);
	return rc;
}

static int import_named(const void *p, size_t n, const char *path, const struct pb_home *home,
			const struct import_opts *o, struct graph **out)
{
	static const struct import_opts plain = {0};
	struct importer im = {.home = *home, .o = o ? o : &plain};
	size_t max_bytes = (size_t)(im.o->max_bytes > 0 ? im.o->max_bytes : default_max_bytes);
	struct arena a = {0};
	struct graph *g = im.g = ARENA_NEW(&a, struct graph);
	g->arena = a;
	im.scratch.cap_bytes = max_bytes;
	Onnx__ModelProto *m;
	int rc = unpack(g, p, n, max_bytes, &m);
	if (rc >= 0)
		rc = im.opset = read_opset(m);
	if (rc == E_CORRUPT)
		rc = foreign_explain(rc, p, n, path);
	if (rc >= 0) {
		g->name = m->graph->name ? m->graph->name : "";
		rc = build(&im, m->graph);
	}
	g->arena.cap_bytes = 0; /* the limit applies to memory for the file, not to what passes allocate
				 * later */
	import_flow_free(&im);
	arena_free(&im.scratch);
	buf_free(&im.lines);
	buf_free(&im.free);
	buf_free(&im.give);
	buf_free(&im.replaced);
	if (rc < 0) {
		graph_free(g);
		return rc;
	}
	*out = g;
	return E_OK;
}

int import_bytes(const void *p, size_t n, const char *folder, const struct import_opts *o, struct graph **out)
{
	return import_named(p, n, NULL, &(struct pb_home){folder, -1}, o, out);
}

int import_file(const char *path, const struct import_opts *o, struct graph **out)
{
	struct arena a = {0};
	struct blob file;
	struct stat st;
	if (o && o->all_bytes && stat(path, &st) == 0)
		*o->all_bytes = st.st_size;
	struct pb_home home = {.model = -1};
	int rc = file_read_open(&a, path, 0, &file, &home.model);
	if (rc >= 0) {
		const char *slash = strrchr(path, '/');
		home.folder = !slash          ? "."
			      : slash == path ? "/"
					      : arena_strndup(&a, path, (size_t)(slash - path));
		rc = fail_in(import_named(file.p, file.n, path, &home, o, out), "%s", path);
		close(home.model);
	}
	arena_free(&a);
	return rc;
}
