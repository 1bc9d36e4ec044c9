/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/onnx/look.h"
#include "kernels/graph/names.h"
#include "kernels/onnx/foreign.h"
#include "kernels/onnx/onnx_pb.h"
#include "platform/base/file.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES_EACH = 64, MOST_OPSETS = 64 };
static const size_t most_memory = (size_t)4 << 30;

static const char *text_of(const char *s)
{
	return s ? s : "";
}

static const char *type_of(const Onnx__ValueInfoProto *p)
{
	if (!p->type || !p->type->tensor_type)
		return "";
	enum dtype t = pb_dtype(p->type->tensor_type->elem_type);
	return t == DT_NONE ? pb_type_name(p->type->tensor_type->elem_type) : dtype_name(t);
}

static int look_value(const Onnx__ValueInfoProto *p, struct arena *a, struct look_value *v)
{
	const Onnx__ShapeProto *s = p->type && p->type->tensor_type ? p->type->tensor_type->shape : NULL;
	*v = (struct look_value){.name = text_of(p->name), .type = type_of(p), .ranked = s != NULL};
	if (!s)
		return E_OK;
	v->rank = (int)s->n_dim;
	v->dim = arena_try(a, s->n_dim + 1, sizeof *v->dim);
	if (!v->dim)
		return E_NOMEM;
	for (int i = 0; i < v->rank; i++) {
		const Onnx__DimProto *d = s->dim[i];
		bool known = d->has_dim_value && d->dim_value >= 0;
		v->dim[i] = (struct look_dim){known ? d->dim_value : -1, text_of(d->dim_param)};
	}
	return E_OK;
}

/* Takes the values that are not among the constants (NULL: all). */
static int look_values(Onnx__ValueInfoProto *const *p, size_t n, const struct names *constants,
		       struct arena *a, struct look_value **out, int *count)
{
	struct look_value *v = *out = arena_try(a, n + 1, sizeof *v);
	int rc = v ? E_OK : E_NOMEM;
	*count = 0;
	for (size_t i = 0; i < n && rc >= 0; i++)
		if (!constants || !names_find(constants, text_of(p[i]->name)))
			rc = look_value(p[i], a, &v[(*count)++]);
	return rc;
}

static int by_uses(const void *a, const void *b)
{
	const struct look_op *x = a, *y = b;
	int order = x->uses < y->uses ? 1 : x->uses > y->uses ? -1 : strcmp(x->type, y->type);
	return order ? order : strcmp(x->domain, y->domain);
}

/* The elements of tensors that Constant nodes hold. */
static int64_t node_weights(const Onnx__NodeProto *n)
{
	int64_t sum = 0;
	for (size_t i = 0; i < n->n_attribute && !strcmp(text_of(n->op_type), "Constant"); i++) {
		struct shape s;
		if (n->attribute[i]->t && pb_shape(n->attribute[i]->t, &s) >= 0)
			sum += shape_count(&s);
	}
	return sum;
}

static int look_ops(const Onnx__GraphProto *g, struct arena *a, struct onnx_look *out)
{
	struct arena scratch = {.cap_bytes = a->cap_bytes};
	struct names known = {.a = &scratch};
	out->op = arena_try(a, g->n_node + 1, sizeof *out->op);
	int rc = out->op ? E_OK : E_NOMEM;
	for (size_t i = 0; i < g->n_node && rc >= 0; i++) {
		const char *type = text_of(g->node[i]->op_type), *domain = text_of(g->node[i]->domain);
		if (!strcmp(domain, "ai.onnx"))
			domain = "";
		out->weights += node_weights(g->node[i]);
		char *key = arena_try(&scratch, strlen(type) + strlen(domain) + 2, 1);
		rc = key ? E_OK : E_NOMEM;
		if (rc < 0)
			break;
		memcpy(key, domain, strlen(domain));
		memcpy(key + strlen(domain), "\n", 1);
		memcpy(key + strlen(domain) + 1, type, strlen(type) + 1);
		const int *at = names_find(&known, key);
		if (at) {
			out->op[*at].uses++;
			continue;
		}
		out->op[out->nops] = (struct look_op){type, domain, 1};
		rc = names_add(&known, key, out->nops++);
	}
	arena_free(&scratch);
	out->nodes = (int)g->n_node;
	qsort(out->op, rc < 0 ? 0 : (size_t)out->nops, sizeof *out->op, by_uses);
	return rc;
}

static int look_constants(const Onnx__GraphProto *g, struct names *constants, struct onnx_look *out)
{
	for (size_t i = 0; i < g->n_initializer; i++) {
		const Onnx__TensorProto *t = g->initializer[i];
		struct shape s;
		if (pb_shape(t, &s) >= 0)
			out->weights += shape_count(&s);
		if (!t->name || !*t->name || names_find(constants, t->name))
			continue;
		int rc = names_add(constants, t->name, 0);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

static int look_opsets(const Onnx__ModelProto *m, struct arena *a, struct onnx_look *out)
{
	out->opset = arena_try(a, m->n_opset_import + 1, sizeof *out->opset);
	if (!out->opset)
		return E_NOMEM;
	for (size_t i = 0; i < m->n_opset_import && out->nopsets < MOST_OPSETS; i++) {
		const Onnx__OpsetProto *o = m->opset_import[i];
		const char *domain = o->domain && *o->domain ? o->domain : "ai.onnx";
		int k = 0;
		while (k < out->nopsets && strcmp(out->opset[k].domain, domain))
			k++;
		if (k == out->nopsets)
			out->opset[out->nopsets++] = (struct look_opset){domain, o->version};
		else if (o->version > out->opset[k].version) /* the importer also takes the highest */
			out->opset[k].version = o->version;
	}
	return E_OK;
}

static int look_graph(const Onnx__GraphProto *g, struct arena *a, struct onnx_look *out)
{
	struct arena scratch = {.cap_bytes = a->cap_bytes};
	struct names constants = {.a = &scratch};
	int rc = look_constants(g, &constants, out);
	if (rc >= 0)
		rc = look_values(g->input, g->n_input, &constants, a, &out->in, &out->nin);
	if (rc >= 0)
		rc = look_values(g->output, g->n_output, NULL, a, &out->out, &out->nout);
	if (rc >= 0)
		rc = look_ops(g, a, out);
	arena_free(&scratch);
	return rc;
}

int look_bytes(const void *p, size_t n, const char *path, struct arena *a, struct onnx_look *out)
{
	Onnx__ModelProto *m;
	size_t before = a->cap_bytes, most = ((size_t)64 << 20) + n * MOST_BYTES_EACH;
	*out = (struct onnx_look){.producer = ""};
	a->cap_bytes = most < most_memory ? most : most_memory;
	int rc = pb_unpack(a, &onnx__model_proto__descriptor, p, n, &m);
	if (rc >= 0 && !m->graph)
		rc = fail(E_CORRUPT, "no graph in %zu bytes: the file is damaged, or not ONNX", n);
	if (rc == E_CORRUPT)
		rc = foreign_explain(rc, p, n, path);
	if (rc >= 0) {
		out->producer = text_of(m->producer_name);
		out->ir = m->ir_version;
		rc = look_opsets(m, a, out);
	}
	if (rc >= 0)
		rc = look_graph(m->graph, a, out);
	a->cap_bytes = before;
	return rc;
}

int look_file(const char *path, struct arena *a, struct onnx_look *out)
{
	struct blob file;
	int rc = foreign_folder(path);
	if (rc < 0)
		return rc;
	rc = file_read(a, path, 0, &file);
	return rc < 0 ? rc : fail_in(look_bytes(file.p, file.n, path, a, out), "%s", path);
}
