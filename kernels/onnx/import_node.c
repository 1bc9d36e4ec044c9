/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: their values and attributes, and whether these are supported. */
#include "kernels/onnx/import_parts.h"
#include "platform/base/until.h"
#include "kernels/graph/op.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ATTR_UNKNOWN = -1 };

static const char *text_of(const char *s)
{
	return s ? s : "";
}

static bool default_domain(const Onnx__NodeProto *p)
{
	return !*text_of(p->domain) || !strcmp(p->domain, "ai.onnx");
}

static bool is_constant(const Onnx__NodeProto *p)
{
	return default_domain(p) && !strcmp(text_of(p->op_type), "Constant");
}

void import_node_name(const struct importer *im, const Onnx__NodeProto *p, size_t index, char out[256])
{
	int n = *text_of(p->name) ? snprintf(out, 256, "%.200s", p->name)
				  : snprintf(out, 256, "%.200s_%zu", text_of(p->op_type), index);
	if (im->scope->id)
		snprintf(out + n, 256 - (size_t)n, ".%d", im->scope->id);
}

static void complain(struct importer *im, const Onnx__NodeProto *p, size_t index, const char *remedy)
{
	char name[256], where[640];
	import_node_name(im, p, index, name);
	if (default_domain(p))
		snprintf(where, sizeof where, "node '%s' (%.100s, opset %d)", name, text_of(p->op_type),
			 im->opset);
	else
		snprintf(where, sizeof where, "node '%s' (%.100s of domain %.100s)", name,
			 text_of(p->op_type), p->domain);
	import_complain(im, where, remedy);
}

/* ---- attributes ---- */

/* AttributeProto.type. Files before IR version 2 omit it; then the field that is set decides. */
static int kind_of(const Onnx__AttributeProto *p)
{
	static const int kinds[] = {ATTR_UNKNOWN, ATTR_FLOAT,  ATTR_INT,  ATTR_STRING, ATTR_TENSOR,
				    ATTR_UNKNOWN, ATTR_FLOATS, ATTR_INTS, ATTR_STRINGS};
	if (p->type > 0)
		return p->type < (int)(sizeof kinds / sizeof kinds[0]) ? kinds[p->type] : ATTR_UNKNOWN;
	const struct {
		bool filled;
		int kind;
	} filled[] = {
	    {p->has_f, ATTR_FLOAT},       {p->has_i, ATTR_INT},       {p->has_s, ATTR_STRING},
	    {p->t != NULL, ATTR_TENSOR},  {p->n_floats, ATTR_FLOATS}, {p->n_ints, ATTR_INTS},
	    {p->n_strings, ATTR_STRINGS},
	};
	for (size_t i = 0; i < sizeof filled / sizeof filled[0]; i++)
		if (filled[i].filled)
			return filled[i].kind;
	return ATTR_UNKNOWN;
}

static const char *copy_bytes(struct arena *a, const ProtobufCBinaryData *b)
{
	char *s = arena_try(a, b->len + 1, 1);
	if (s && b->len)
		memcpy(s, b->data, b->len);
	return s;
}

static int read_strings(struct importer *im, const Onnx__AttributeProto *p, struct attr *out)
{
	const char **s = arena_try(&im->scratch, p->n_strings + 1, sizeof *s);
	for (size_t i = 0; s && i < p->n_strings; i++)
		if (!(s[i] = copy_bytes(&im->scratch, &p->strings[i])))
			return E_NOMEM;
	out->strings = s;
	out->n = (int)p->n_strings;
	return s ? E_OK : E_NOMEM;
}

/* Replaces 16-bit float types, which a graph does not hold, by the type they were converted to. */
static int64_t narrow_type(const char *name, int64_t i)
{
	static const char *const names[] = {"to", "dtype", "output_dtype"};
	for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
		if (!strcmp(names[k], name) && (i == pb_data_type(DT_F16) || i == pb_data_type(DT_BF16)))
			return pb_data_type(DT_F32);
	return i;
}

static int read_attr(struct importer *im, const Onnx__AttributeProto *p, struct attr *out)
{
	int kind = kind_of(p);
	*out = (struct attr){.name = text_of(p->name)};
	if (kind == ATTR_UNKNOWN || *text_of(p->ref_attr_name))
		return fail(E_UNSUPPORTED,
			    "attribute %.100s is a subgraph or of a kind that is not supported", out->name);
	out->kind = (enum attr_kind)kind;
	switch (out->kind) {
	case ATTR_INT:
		out->i = narrow_type(out->name, p->i);
		return E_OK;
	case ATTR_FLOAT:
		out->f = p->f;
		return E_OK;
	case ATTR_STRING:
		return (out->s = copy_bytes(&im->scratch, &p->s)) ? E_OK : E_NOMEM;
	case ATTR_TENSOR:
		if (!p->t)
			return fail(E_CORRUPT, "attribute %.100s has no tensor", out->name);
		im->g->external |= p->t->data_location == 1;
		return fail_in(pb_tensor(&im->g->arena, p->t, &im->home, true, &out->t), "attribute %.100s",
			       out->name);
	case ATTR_INTS:
		out->n = (int)p->n_ints;
		out->ints = p->ints;
		return E_OK;
	case ATTR_FLOATS:
		out->n = (int)p->n_floats;
		out->floats = p->floats;
		return E_OK;
	default:
		return read_strings(im, p, out);
	}
}

bool import_word_in(const char *words, const char *w)
{
	size_t n = strlen(w);
	for (const char *p = words; n && (p = strstr(p, w)); p += n)
		if ((p == words || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
	return false;
}

/* Reads all attributes and adds a line for each unsupported one. Returns the number of those, or an error. */
static int read_attrs(struct importer *im, const Onnx__NodeProto *p, size_t index, const struct op_row *row,
		      struct attr *out)
{
	int bad = 0;
	for (size_t i = 0; i < p->n_attribute; i++) {
		int rc = read_attr(im, p->attribute[i], &out[i]);
		if (rc >= 0 && !import_word_in(row->attrs ? row->attrs : "", out[i].name))
			rc = fail(E_UNSUPPORTED, "attribute %.100s is not supported", out[i].name);
		if (rc == E_UNSUPPORTED) {
			complain(im, p, index, "export the model without it");
			bad++;
		} else if (rc < 0)
			return rc;
	}
	return bad;
}

/* ---- constants ---- */

static int set_const(struct importer *im, enum dtype t, int n, const void *data, bool scalar,
		     struct tensor *out)
{
	struct shape s = {.rank = scalar ? 0 : 1, .d = {n}};
	int rc = tensor_alloc(&im->g->arena, t, &s, out);
	if (rc >= 0 && n)
		memcpy(out->data, data, (size_t)n * dtype_bytes(t));
	return rc;
}

static int constant_value(struct importer *im, const Onnx__NodeProto *p, struct tensor *out)
{
	struct attr a;
	if (p->n_attribute != 1)
		return fail(E_CORRUPT, "a constant has %zu attributes instead of one", p->n_attribute);
	int rc = read_attr(im, p->attribute[0], &a);
	if (rc < 0)
		return rc;
	switch (a.kind) {
	case ATTR_TENSOR:
		*out = a.t;
		return E_OK;
	case ATTR_FLOAT:
		return set_const(im, DT_F32, 1, &a.f, true, out);
	case ATTR_FLOATS:
		return set_const(im, DT_F32, a.n, a.floats, false, out);
	case ATTR_INT:
		return set_const(im, DT_I64, 1, &a.i, true, out);
	case ATTR_INTS:
		return set_const(im, DT_I64, a.n, a.ints, false, out);
	default:
		return fail(E_UNSUPPORTED, "attribute %.100s is not supported", a.name);
	}
}

/* Adds the value of a node's output, unless the name is bound to a value around the subgraph. */
static int declare_output(struct importer *im, const char *name)
{
	int *bound = names_find(&im->scope->bound, name);
	return bound ? import_alias(im, name, *bound) : import_value(im, name);
}

static int declare_constant(struct importer *im, const Onnx__NodeProto *p, size_t index)
{
	if (p->n_output != 1 || !*p->output[0])
		return fail(E_CORRUPT, "a constant has %zu outputs instead of one", p->n_output);
	int v = declare_output(im, p->output[0]);
	struct tensor t = {0};
	int rc = v < 0 ? v : constant_value(im, p, &t);
	if (rc >= 0)
		im->g->value[v].t = t;
	if (rc == E_UNSUPPORTED) {
		complain(im, p, index, "");
		rc = E_OK;
	}
	return rc;
}

static int declare_outputs(struct importer *im, const Onnx__NodeProto *n)
{
	int rc = E_OK;
	for (size_t k = 0; rc >= 0 && k < n->n_output; k++)
		if (*n->output[k])
			rc = declare_output(im, n->output[k]);
	return rc;
}

static int declare(struct importer *im, const Onnx__GraphProto *p, bool constants, bool others)
{
	char name[256];
	for (size_t i = 0; i < p->n_node; i++) {
		bool c = is_constant(p->node[i]);
		if (!(c ? constants : others))
			continue;
		int rc = c ? declare_constant(im, p->node[i], i) : declare_outputs(im, p->node[i]);
		if (rc < 0) {
			import_node_name(im, p->node[i], i, name);
			return fail_in(rc, "node '%s' (%.100s)", name, text_of(p->node[i]->op_type));
		}
	}
	return E_OK;
}

int import_declare(struct importer *im, const Onnx__GraphProto *p)
{
	return declare(im, p, !im->scope->constants_known, true);
}

int import_declare_constants(struct importer *im, const Onnx__GraphProto *p)
{
	return declare(im, p, true, false);
}

/* ---- nodes ---- */

/* Finds the indexes of named values, -1 for "" (absent). Trailing absent ones are dropped. Returns the
 * number. */
static int resolve(struct importer *im, size_t n, char *const *names, int **out)
{
	int *v = *out = arena_try(&im->scratch, n + 1, sizeof *v);
	int count = 0;
	for (size_t i = 0; v && i < n; i++) {
		int found = *names[i] ? import_find(im, names[i]) : -1;
		if (*names[i] && found < 0)
			return fail(E_CORRUPT, "it reads '%.200s', which no node writes", names[i]);
		v[i] = found;
		count = found >= 0 ? (int)i + 1 : count;
	}
	return v ? count : E_NOMEM;
}

static int check_counts(const struct op_row *r, int nin, const int *in, int nout, const int *out)
{
	if (nin < r->min_in || (r->max_in >= 0 && nin > r->max_in))
		return fail(E_CORRUPT, "%d inputs; %s takes %d to %d", nin, r->type, r->min_in, r->max_in);
	for (int i = 0; i < nin; i++)
		if (in[i] < 0 && (i < r->min_in || r->max_in < 0))
			return fail(E_CORRUPT, "input %d is absent; %s needs it", i, r->type);
	if (nout < r->min_out || (r->max_out >= 0 && nout > r->max_out))
		return fail(E_CORRUPT, "%d outputs; %s has %d to %d", nout, r->type, r->min_out, r->max_out);
	for (int i = 0; i < r->min_out; i++)
		if (out[i] < 0)
			return fail(E_CORRUPT, "output %d is absent; %s always has it", i, r->type);
	return E_OK;
}

/* ONNX Runtime's operators for its quantisation format QOperator. */
static bool q_operator(const Onnx__NodeProto *p)
{
	const char *type = text_of(p->op_type);
	return !strcmp(text_of(p->domain), "com.microsoft") &&
	       (!strcmp(type, "QGemm") || !strncmp(type, "QLinear", 7));
}

/* The operator's row; NULL: unsupported, and a line was added. */
static const struct op_row *find_row(struct importer *im, const Onnx__NodeProto *p, size_t index)
{
	int row;
	const char *type = text_of(p->op_type);
	const struct op *op = default_domain(p) ? op_find(type, im->opset, &row) : NULL;
	if (op)
		return &op->rows[row];
	if (!default_domain(p)) {
		(void)fail(E_UNSUPPORTED, "operators of that domain are not supported");
		complain(im, p, index,
			 q_operator(p) ? "quantise the model with quant_format=QDQ instead"
				       : "export the model with operators of the default domain");
	} else if (op_find(type, 0, &row)) {
		(void)fail(E_UNSUPPORTED, "the operator is not supported at this opset");
		complain(im, p, index, "convert the model to opset 17");
	} else {
		(void)fail(E_UNSUPPORTED, "the operator is not supported");
		complain(im, p, index, "export the model without it, or cut the node off");
	}
	return NULL;
}

static int import_node(struct importer *im, struct import_body *b, size_t index, const char *name)
{
	const Onnx__NodeProto *p = b->p->node[index];
	const struct flow_kind *kind = import_flow_kind(p);
	int *in, *out;
	int nin = resolve(im, p->n_input, p->input, &in);
	if (nin < 0)
		return nin;
	int nout = resolve(im, p->n_output, p->output, &out);
	if (nout < 0)
		return nout;
	if (kind)
		return import_flow_add(im, &(struct import_flow){.kind = kind,
								 .p = p,
								 .around = b,
								 .index = index,
								 .name = name,
								 .nin = nin,
								 .in = in,
								 .nout = nout,
								 .out = out});
	const struct op_row *row = find_row(im, p, index);
	if (!row)
		return E_OK;
	struct attr *attrs = arena_try(&im->scratch, p->n_attribute + 1, sizeof *attrs);
	int bad = attrs ? read_attrs(im, p, index, row, attrs) : E_NOMEM;
	if (bad)
		return bad < 0 ? bad : E_OK;
	int rc = check_counts(row, nin, in, nout, out);
	if (rc < 0)
		return rc;
	return graph_add_node(im->g, row->type, name, im->opset, nin, in, nout, out, (int)p->n_attribute,
			      attrs);
}

int import_nodes(struct importer *im, struct import_body *b)
{
	const Onnx__GraphProto *p = b->p;
	char name[256];
	for (size_t i = 0; i < p->n_node; i++) {
		if (is_constant(p->node[i]))
			continue;
		int rc = until_check();
		if (rc < 0)
			return rc;
		import_node_name(im, p->node[i], i, name);
		rc = import_node(im, b, i, name);
		if (rc < 0)
			return fail_in(rc, "node '%s' (%.100s, opset %d)", name, text_of(p->node[i]->op_type),
				       im->opset);
	}
	return E_OK;
}
