/* SPDX-License-Identifier: Apache-2.0 */
/* Graph to ONNX: IR version 8, weights inline as raw bytes, a shape for every input and output. Messages are
 * built in an arena and point into the graph. */
#include "kernels/onnx/import.h"
#include "kernels/graph/names.h"
#include "kernels/onnx/onnx_pb.h"
#include "kernels/graph/op.h"
#include <limits.h>
#include <string.h>

enum { IR_VERSION = 8, DEFAULT_OPSET = 17 };

struct exporter {
	const struct graph *g;
	struct arena a;
	char **name; /* per value: its own name, made unique if necessary */
};

/* protobuf-c's messages hold plain char pointers and do not write through them. */
static char *text(const char *s)
{
	char *p;
	memcpy(&p, &s, sizeof p);
	return p;
}

static bool is_constant(const struct graph *g, int v)
{
	int p = g->value[v].producer;
	return g->value[v].t.data && (p < 0 || g->node[p].dead);
}

/* Makes names unique: passes may leave two values with one name, which ONNX does not allow. */
static int name_values(struct exporter *x)
{
	struct names used = {.a = &x->a};
	x->name = ARENA_ARRAY(&x->a, char *, x->g->nvalues + 1);
	for (int v = 0; v < x->g->nvalues; v++) {
		const char *own = x->g->value[v].name;
		bool taken = !*own || names_find(&used, own);
		x->name[v] = taken ? arena_printf(&x->a, "%s__%d", own, v) : text(own);
		int rc = names_add(&used, x->name[v], v);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

static Onnx__TensorProto *put_tensor(struct exporter *x, const struct tensor *t, const char *name)
{
	Onnx__TensorProto *p = ARENA_NEW(&x->a, Onnx__TensorProto);
	pb_from_tensor(t, name, ARENA_ARRAY(&x->a, int64_t, MAX_RANK), p);
	return p;
}

static ProtobufCBinaryData bytes_of(const char *s)
{
	return (ProtobufCBinaryData){strlen(s), (uint8_t *)text(s)};
}

static Onnx__AttributeProto *put_attr(struct exporter *x, const struct attr *a)
{
	/* AttributeProto.type of each kind. */
	static const int types[] = {[ATTR_INT] = 2,  [ATTR_FLOAT] = 1,  [ATTR_STRING] = 3, [ATTR_TENSOR] = 4,
				    [ATTR_INTS] = 7, [ATTR_FLOATS] = 6, [ATTR_STRINGS] = 8};
	Onnx__AttributeProto *p = ARENA_NEW(&x->a, Onnx__AttributeProto);
	onnx__attribute_proto__init(p);
	p->name = text(a->name);
	p->has_type = 1;
	p->type = types[a->kind];
	p->has_i = a->kind == ATTR_INT;
	p->i = a->i;
	p->has_f = a->kind == ATTR_FLOAT;
	p->f = a->f;
	if (a->kind == ATTR_STRING) {
		p->has_s = 1;
		p->s = bytes_of(a->s);
	}
	if (a->kind == ATTR_TENSOR)
		p->t = put_tensor(x, &a->t, "");
	p->n_ints = a->kind == ATTR_INTS ? (size_t)a->n : 0;
	p->ints = arena_memdup(&x->a, a->ints, p->n_ints * sizeof *p->ints);
	p->n_floats = a->kind == ATTR_FLOATS ? (size_t)a->n : 0;
	p->floats = arena_memdup(&x->a, a->floats, p->n_floats * sizeof *p->floats);
	p->n_strings = a->kind == ATTR_STRINGS ? (size_t)a->n : 0;
	p->strings = ARENA_ARRAY(&x->a, ProtobufCBinaryData, p->n_strings + 1);
	for (size_t i = 0; i < p->n_strings; i++)
		p->strings[i] = bytes_of(a->strings[i]);
	return p;
}

static char **put_names(struct exporter *x, int n, const int *values)
{
	char **names = ARENA_ARRAY(&x->a, char *, n + 1);
	for (int i = 0; i < n; i++)
		names[i] = values[i] >= 0 ? x->name[values[i]] : text("");
	return names;
}

static Onnx__NodeProto *put_node(struct exporter *x, const struct node *n)
{
	Onnx__NodeProto *p = ARENA_NEW(&x->a, Onnx__NodeProto);
	onnx__node_proto__init(p);
	p->op_type = text(node_type(n));
	p->name = text(n->name);
	p->n_input = (size_t)n->nin;
	p->input = put_names(x, n->nin, n->in);
	p->n_output = (size_t)n->nout;
	p->output = put_names(x, n->nout, n->out);
	p->n_attribute = (size_t)n->nattr;
	p->attribute = ARENA_ARRAY(&x->a, Onnx__AttributeProto *, n->nattr + 1);
	for (int i = 0; i < n->nattr; i++)
		p->attribute[i] = put_attr(x, &n->attr[i]);
	return p;
}

static Onnx__ValueInfoProto *put_value(struct exporter *x, int v)
{
	const struct tensor *t = &x->g->value[v].t;
	Onnx__ValueInfoProto *p = ARENA_NEW(&x->a, Onnx__ValueInfoProto);
	Onnx__TensorTypeProto *type = ARENA_NEW(&x->a, Onnx__TensorTypeProto);
	onnx__value_info_proto__init(p);
	onnx__tensor_type_proto__init(type);
	p->name = x->name[v];
	p->type = ARENA_NEW(&x->a, Onnx__TypeProto);
	onnx__type_proto__init(p->type);
	p->type->tensor_type = type;
	type->has_elem_type = 1;
	type->elem_type = pb_data_type(t->dtype);
	type->shape = ARENA_NEW(&x->a, Onnx__ShapeProto);
	onnx__shape_proto__init(type->shape);
	type->shape->n_dim = (size_t)t->shape.rank;
	type->shape->dim = ARENA_ARRAY(&x->a, Onnx__DimProto *, MAX_RANK);
	for (int i = 0; i < t->shape.rank; i++) {
		Onnx__DimProto *d = type->shape->dim[i] = ARENA_NEW(&x->a, Onnx__DimProto);
		onnx__dim_proto__init(d);
		d->has_dim_value = 1;
		d->dim_value = t->shape.d[i];
	}
	return p;
}

/* Writes the constants that are read. */
static void put_constants(struct exporter *x, Onnx__GraphProto *p)
{
	const struct graph *g = x->g;
	bool *used = ARENA_ARRAY(&x->a, bool, g->nvalues + 1);
	for (int i = 0; i < g->nnodes; i++)
		for (int k = 0; !g->node[i].dead && k < g->node[i].nin; k++)
			if (g->node[i].in[k] >= 0)
				used[g->node[i].in[k]] = true;
	p->initializer = ARENA_ARRAY(&x->a, Onnx__TensorProto *, g->nvalues + 1);
	for (int v = 0; v < g->nvalues; v++)
		if ((used[v] || g->value[v].is_output) && is_constant(g, v))
			p->initializer[p->n_initializer++] = put_tensor(x, &g->value[v].t, x->name[v]);
}

static Onnx__GraphProto *put_graph(struct exporter *x)
{
	const struct graph *g = x->g;
	Onnx__GraphProto *p = ARENA_NEW(&x->a, Onnx__GraphProto);
	onnx__graph_proto__init(p);
	p->name = text(g->name && *g->name ? g->name : "graph"); /* the format requires a name */
	p->node = ARENA_ARRAY(&x->a, Onnx__NodeProto *, g->nnodes + 1);
	for (int i = 0; i < g->nnodes; i++)
		if (!g->node[i].dead)
			p->node[p->n_node++] = put_node(x, &g->node[i]);
	put_constants(x, p);
	p->input = ARENA_ARRAY(&x->a, Onnx__ValueInfoProto *, g->ninputs + 1);
	for (int i = 0; i < g->ninputs; i++)
		p->input[p->n_input++] = put_value(x, g->input[i]);
	p->output = ARENA_ARRAY(&x->a, Onnx__ValueInfoProto *, g->noutputs + 1);
	for (int i = 0; i < g->noutputs; i++)
		p->output[p->n_output++] = put_value(x, g->output[i]);
	return p;
}

static int opset_of(const struct graph *g)
{
	int opset = 0;
	for (int i = 0; i < g->nnodes; i++)
		if (!g->node[i].dead && g->node[i].opset > opset)
			opset = g->node[i].opset;
	return opset ? opset : DEFAULT_OPSET;
}

static int write_model(struct exporter *x, const char *producer, const char *path)
{
	Onnx__ModelProto m = ONNX__MODEL_PROTO__INIT;
	Onnx__OpsetProto opset = ONNX__OPSET_PROTO__INIT, *opsets[] = {&opset};
	m.has_ir_version = opset.has_version = 1;
	m.ir_version = IR_VERSION;
	opset.domain = text("");
	opset.version = opset_of(x->g);
	m.producer_name = text(producer);
	m.n_opset_import = 1;
	m.opset_import = opsets;
	m.graph = put_graph(x);
	size_t n = onnx__model_proto__get_packed_size(&m);
	if (n > INT_MAX)
		return fail(E_UNSUPPORTED,
			    "%zu bytes are too many: an ONNX file with inline weights has at most 2 GiB", n);
	uint8_t *bytes = arena_try(&x->a, n + 1, 1);
	if (!bytes)
		return E_NOMEM;
	return file_write(path, bytes, onnx__model_proto__pack(&m, bytes));
}

int export_file_by(const struct graph *g, const char *producer, const char *path)
{
	struct exporter x = {.g = g};
	int rc = name_values(&x);
	if (rc >= 0)
		rc = write_model(&x, producer, path);
	arena_free(&x.a);
	return rc;
}

int export_file(const struct graph *g, const char *path)
{
	return export_file_by(g, "hone", path);
}
