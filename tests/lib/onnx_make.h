/* SPDX-License-Identifier: Apache-2.0 */
/* Small ONNX models as bytes, good and bad ones, for tests of the importer. */
#ifndef TESTS_ONNX_MAKE_H
#define TESTS_ONNX_MAKE_H

#include "kernels/onnx/import.h"
#include "kernels/onnx/onnx_pb.h"
#include "tests/lib/test.h"

struct onnx_maker {
	struct arena a;
	Onnx__ModelProto m;
	Onnx__GraphProto g;
	Onnx__OpsetProto opset, *opsets[1];
};

static inline char *mk_text(const char *s)
{
	char *p;
	memcpy(&p, &s, sizeof p);
	return p;
}

/* Starts a model with room for `n` nodes, initializers, inputs and outputs each. */
static inline void mk_start(struct onnx_maker *k, int opset, int n)
{
	memset(k, 0, sizeof *k);
	onnx__model_proto__init(&k->m);
	onnx__graph_proto__init(&k->g);
	onnx__opset_proto__init(&k->opset);
	k->m.has_ir_version = k->opset.has_version = 1;
	k->m.ir_version = 8;
	k->opset.domain = mk_text("");
	k->opset.version = opset;
	k->opsets[0] = &k->opset;
	k->m.opset_import = k->opsets;
	k->m.n_opset_import = 1;
	k->m.graph = &k->g;
	k->g.name = mk_text("test");
	k->g.node = ARENA_ARRAY(&k->a, Onnx__NodeProto *, n);
	k->g.initializer = ARENA_ARRAY(&k->a, Onnx__TensorProto *, n);
	k->g.input = ARENA_ARRAY(&k->a, Onnx__ValueInfoProto *, n);
	k->g.output = ARENA_ARRAY(&k->a, Onnx__ValueInfoProto *, n);
}

/* Splits space-separated names into an array; "-" is an absent one. */
static inline size_t mk_names(struct onnx_maker *k, const char *text, char ***out)
{
	char *copy = arena_strdup(&k->a, text), *save = NULL;
	*out = ARENA_ARRAY(&k->a, char *, strlen(text) + 1);
	size_t n = 0;
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		(*out)[n++] = strcmp(w, "-") ? w : mk_text("");
	return n;
}

static inline Onnx__NodeProto *mk_node(struct onnx_maker *k, const char *type, const char *in,
				       const char *out)
{
	Onnx__NodeProto *n = ARENA_NEW(&k->a, Onnx__NodeProto);
	onnx__node_proto__init(n);
	n->op_type = mk_text(type);
	n->n_input = mk_names(k, in, &n->input);
	n->n_output = mk_names(k, out, &n->output);
	n->attribute = ARENA_ARRAY(&k->a, Onnx__AttributeProto *, 8);
	k->g.node[k->g.n_node++] = n;
	return n;
}

static inline Onnx__AttributeProto *mk_attr(struct onnx_maker *k, Onnx__NodeProto *n, const char *name,
					    int type)
{
	Onnx__AttributeProto *a = ARENA_NEW(&k->a, Onnx__AttributeProto);
	onnx__attribute_proto__init(a);
	a->name = mk_text(name);
	a->has_type = 1;
	a->type = type;
	n->attribute[n->n_attribute++] = a;
	return a;
}

static inline void mk_attr_int(struct onnx_maker *k, Onnx__NodeProto *n, const char *name, int64_t i)
{
	Onnx__AttributeProto *a = mk_attr(k, n, name, 2);
	a->has_i = 1;
	a->i = i;
}

static inline void mk_attr_str(struct onnx_maker *k, Onnx__NodeProto *n, const char *name, const char *s)
{
	Onnx__AttributeProto *a = mk_attr(k, n, name, 3);
	a->has_s = 1;
	a->s = (ProtobufCBinaryData){strlen(s), arena_memdup(&k->a, s, strlen(s))};
}

static inline void mk_attr_ints(struct onnx_maker *k, Onnx__NodeProto *n, const char *name, int count,
				const int64_t *ints)
{
	Onnx__AttributeProto *a = mk_attr(k, n, name, 7);
	a->n_ints = (size_t)count;
	a->ints = arena_memdup(&k->a, ints, (size_t)count * sizeof *ints);
}

/* Until mk_sub_end, what is made belongs to a subgraph with room for `n` nodes. Returns the graph around it.
 */
static inline Onnx__GraphProto mk_sub(struct onnx_maker *k, int n)
{
	Onnx__GraphProto around = k->g;
	onnx__graph_proto__init(&k->g);
	k->g.name = mk_text("sub");
	k->g.node = ARENA_ARRAY(&k->a, Onnx__NodeProto *, n);
	k->g.initializer = ARENA_ARRAY(&k->a, Onnx__TensorProto *, n);
	k->g.input = ARENA_ARRAY(&k->a, Onnx__ValueInfoProto *, n);
	k->g.output = ARENA_ARRAY(&k->a, Onnx__ValueInfoProto *, n);
	return around;
}

/* Makes the subgraph an attribute of `node`, which belongs to the graph around it. */
static inline void mk_sub_end(struct onnx_maker *k, const Onnx__GraphProto *around, Onnx__NodeProto *node,
			      const char *name)
{
	size_t n = onnx__graph_proto__get_packed_size(&k->g);
	uint8_t *p = arena_alloc(&k->a, n + 1);
	Onnx__AttributeProto *a = mk_attr(k, node, name, 5);
	a->has_g = 1;
	a->g = (ProtobufCBinaryData){onnx__graph_proto__pack(&k->g, p), p};
	k->g = *around;
}

/* dims: "2 n 3": numbers or names; NULL: no shape. type: TensorProto.data_type. */
static inline Onnx__ValueInfoProto *mk_value(struct onnx_maker *k, const char *name, int type,
					     const char *dims)
{
	Onnx__ValueInfoProto *v = ARENA_NEW(&k->a, Onnx__ValueInfoProto);
	onnx__value_info_proto__init(v);
	v->name = mk_text(name);
	v->type = ARENA_NEW(&k->a, Onnx__TypeProto);
	onnx__type_proto__init(v->type);
	Onnx__TensorTypeProto *t = v->type->tensor_type = ARENA_NEW(&k->a, Onnx__TensorTypeProto);
	onnx__tensor_type_proto__init(t);
	t->has_elem_type = 1;
	t->elem_type = type;
	if (!dims)
		return v;
	char **words;
	t->shape = ARENA_NEW(&k->a, Onnx__ShapeProto);
	onnx__shape_proto__init(t->shape);
	t->shape->n_dim = mk_names(k, dims, &words);
	t->shape->dim = ARENA_ARRAY(&k->a, Onnx__DimProto *, t->shape->n_dim + 1);
	for (size_t i = 0; i < t->shape->n_dim; i++) {
		Onnx__DimProto *d = t->shape->dim[i] = ARENA_NEW(&k->a, Onnx__DimProto);
		onnx__dim_proto__init(d);
		d->has_dim_value = words[i][0] < 'A';
		if (d->has_dim_value)
			d->dim_value = atoll(words[i]);
		else
			d->dim_param = words[i];
	}
	return v;
}

static inline void mk_input(struct onnx_maker *k, const char *name, int type, const char *dims)
{
	k->g.input[k->g.n_input++] = mk_value(k, name, type, dims);
}

static inline void mk_output(struct onnx_maker *k, const char *name)
{
	k->g.output[k->g.n_output++] = mk_value(k, name, 1, NULL);
}

static inline Onnx__TensorProto *mk_tensor(struct onnx_maker *k, const char *name, int type, const char *dims,
					   const void *data, size_t bytes)
{
	Onnx__TensorProto *t = ARENA_NEW(&k->a, Onnx__TensorProto);
	char **words;
	onnx__tensor_proto__init(t);
	t->name = mk_text(name);
	t->has_data_type = 1;
	t->data_type = type;
	t->n_dims = mk_names(k, dims, &words);
	t->dims = ARENA_ARRAY(&k->a, int64_t, t->n_dims + 1);
	for (size_t i = 0; i < t->n_dims; i++)
		t->dims[i] = atoll(words[i]);
	t->has_raw_data = data != NULL;
	t->raw_data.len = bytes;
	t->raw_data.data = arena_memdup(&k->a, data, data ? bytes : 0);
	return t;
}

static inline Onnx__TensorProto *mk_init(struct onnx_maker *k, const char *name, int type, const char *dims,
					 const void *data, size_t bytes)
{
	return k->g.initializer[k->g.n_initializer++] = mk_tensor(k, name, type, dims, data, bytes);
}

static inline void mk_entry(struct onnx_maker *k, Onnx__TensorProto *t, const char *key, const char *value)
{
	if (!t->external_data)
		t->external_data = ARENA_ARRAY(&k->a, Onnx__EntryProto *, 8);
	Onnx__EntryProto *e = t->external_data[t->n_external_data++] = ARENA_NEW(&k->a, Onnx__EntryProto);
	onnx__entry_proto__init(e);
	e->key = mk_text(key);
	e->value = mk_text(value);
	t->has_data_location = 1;
	t->data_location = 1;
}

static inline struct blob mk_bytes(struct onnx_maker *k)
{
	size_t n = onnx__model_proto__get_packed_size(&k->m);
	uint8_t *p = arena_alloc(&k->a, n + 1);
	return (struct blob){p, onnx__model_proto__pack(&k->m, p)};
}

/* Imports the model and frees the maker. */
static inline int mk_import(struct onnx_maker *k, const char *folder, const struct import_opts *o,
			    struct graph **g)
{
	struct blob b = mk_bytes(k);
	int rc = import_bytes(b.p, b.n, folder, o, g);
	arena_free(&k->a);
	return rc;
}

#endif
