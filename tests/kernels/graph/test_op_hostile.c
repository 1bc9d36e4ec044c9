/* SPDX-License-Identifier: Apache-2.0 */
/* Every operator with random inputs, types, shapes and attributes, right and wrong ones: the result is an
 * error or an answer, never a crash (run with SAN=1) and never a long wait. A failing seed is printed. */
#include "kernels/graph/eval.h"
#include "kernels/graph/op.h"
#include "platform/base/rng.h"
#include "tests/lib/onnx_data.h"
#include "tests/lib/onnx_make.h"
#include "tools/hone/onnx_case.h"
#include <unistd.h>

enum { ROUNDS = 400, CASE_ROUNDS = 60, MAX_IN = 6, MAX_INPUTS = 16, MAX_ELEMS = 5000, ALARM_S = 20 };

static int64_t odd_int(struct rng *r)
{
	static const int64_t odd[] = {INT64_MIN, INT64_MAX, INT32_MAX, INT32_MIN,
				      1 << 20,   -7,        65536,     (int64_t)1 << 40};
	uint32_t k = rng_below(r, 24);
	return k < 2 ? odd[rng_below(r, 8)] : k < 6 ? -(int64_t)rng_below(r, 4) : (int64_t)rng_below(r, 5);
}

static float odd_float(struct rng *r)
{
	static const float odd[] = {0, -1, 1e30f, -1e30f, 0.5f, 2, 1, 3};
	return rng_below(r, 3) ? (float)(rng_unit(r) * 4 - 1) : odd[rng_below(r, 8)];
}

static const char *odd_text(struct rng *r)
{
	static const char *const words[] = {
	    "",        "NOTSET",     "SAME_UPPER",    "SAME_LOWER", "VALID",         "linear",   "nearest",
	    "cubic",   "half_pixel", "align_corners", "asymmetric", "floor",         "constant", "edge",
	    "reflect", "wrap",       "DCR",           "CRD",        "bidirectional", "reverse",  "tanh",
	    "none",    "add",        "Sigmoid"};
	return words[rng_below(r, sizeof words / sizeof words[0])];
}

static void random_attr(struct onnx_maker *k, struct rng *r, Onnx__NodeProto *n, const char *name)
{
	static const int kinds[] = {2, 2, 2, 7, 7, 7, 1, 1, 3, 3, 6, 8, 4};
	Onnx__AttributeProto *a = mk_attr(k, n, name, kinds[rng_below(r, sizeof kinds / sizeof kinds[0])]);
	/* mostly the right kind, so that values are tested too */
	if (strstr(name, "mode") || strstr(name, "auto_pad") || !strcmp(name, "direction"))
		a->type = 3;
	else if (strstr(name, "axis") || strstr(name, "keepdims") || !strcmp(name, "to") ||
		 !strcmp(name, "group"))
		a->type = 2;
	else if (strstr(name, "shape") || strstr(name, "pads") || strstr(name, "dilations") ||
		 strstr(name, "strides") || strstr(name, "perm"))
		a->type = 7;
	uint32_t count = rng_below(r, 7);
	a->has_i = a->has_f = a->has_s = 1;
	a->i = odd_int(r);
	a->f = odd_float(r);
	a->s.data = (uint8_t *)mk_text(odd_text(r));
	a->s.len = strlen((char *)a->s.data);
	a->ints = ARENA_ARRAY(&k->a, int64_t, 8);
	a->floats = ARENA_ARRAY(&k->a, float, 8);
	a->strings = ARENA_ARRAY(&k->a, ProtobufCBinaryData, 8);
	a->n_ints = a->type == 7 ? count : 0;
	a->n_floats = a->type == 6 ? count : 0;
	a->n_strings = a->type == 8 ? count : 0;
	for (uint32_t i = 0; i < count; i++) {
		a->ints[i] = odd_int(r);
		a->floats[i] = odd_float(r);
		a->strings[i] = a->s;
	}
	int64_t one = odd_int(r);
	a->t = a->type == 4 ? mk_tensor(k, "", 7, "1", &one, sizeof one) : NULL;
}

/* An input as a constant or as a graph input; small integers where the type is integral. */
static void random_input(struct onnx_maker *k, struct rng *r, const char *name, bool index)
{
	static const int types[] = {1, 1, 1, 1, 1, 7, 7, 6, 3, 2, 9, 11};
	int type = index ? 7 : types[rng_below(r, sizeof types / sizeof types[0])];
	int rank = index ? (int)rng_below(r, 3) : (int)rng_below(r, 6);
	struct shape s = {.rank = rank};
	char dims[64] = "";
	for (int i = 0; i < rank; i++) {
		s.d[i] = rng_below(r, 20) ? 1 + rng_below(r, 4) : 0;
		sprintf(dims + strlen(dims), "%d ", (int)s.d[i]);
	}
	if (!index && rng_below(r, 2)) {
		mk_input(k, name, type, dims);
		return;
	}
	struct tensor t;
	if (tensor_alloc(&k->a, pb_dtype(type), &s, &t) < 0)
		return;
	for (int64_t i = 0; i < shape_count(&s); i++)
		if (type == 7)
			tensor_set_i64(&t, i, odd_int(r));
		else
			tensor_set(&t, i, (double)odd_float(r));
	mk_init(k, name, type, dims, t.data, (size_t)shape_count(&s) * dtype_bytes(t.dtype));
}

static void random_model(struct onnx_maker *k, struct rng *r, const struct op_row *row)
{
	int opset = 7 + (int)rng_below(r, 18);
	opset = opset < row->since ? row->since : row->until && opset > row->until ? row->until : opset;
	mk_start(k, opset, 16);
	int most = row->max_in < 0 ? 4 : row->max_in, nin = row->min_in;
	nin += most > nin ? (int)rng_below(r, (uint32_t)(most - nin) + 1) : 0;
	char in[64] = "", out[64] = "";
	for (int i = 0; i < nin && i < MAX_IN; i++) {
		const char *name = arena_printf(&k->a, "x%d", i);
		bool absent = i >= row->min_in && !rng_below(r, 3);
		sprintf(in + strlen(in), "%s ", absent ? "-" : i > 0 && !rng_below(r, 8) ? "x0" : name);
		random_input(k, r, name, i > 0 && rng_below(r, 2));
	}
	int most_out = row->max_out < 0 ? 3 : row->max_out, nout = row->min_out;
	nout += most_out > nout ? (int)rng_below(r, (uint32_t)(most_out - nout) + 1) : 0;
	for (int i = 0; i < nout; i++)
		sprintf(out + strlen(out), "y%d ", i);
	Onnx__NodeProto *n = mk_node(k, row->type, in, out);
	char *words = arena_strdup(&k->a, row->attrs ? row->attrs : ""), *save = NULL;
	for (char *w = strtok_r(words, " ", &save); w && n->n_attribute < 8; w = strtok_r(NULL, " ", &save))
		if (rng_below(r, 2))
			random_attr(k, r, n, w);
	mk_output(k, "y0");
}

static bool is_small(const struct graph *g)
{
	if (g->ninputs > MAX_INPUTS)
		return false;
	for (int v = 0; v < g->nvalues; v++)
		if (shape_count(&g->value[v].t.shape) > MAX_ELEMS)
			return false;
	return true;
}

static void run(const struct graph *g, struct rng *r)
{
	struct arena a = {0};
	struct tensor in[MAX_INPUTS], *t = ARENA_ARRAY(&a, struct tensor, g->nvalues + 1);
	int rc = 0;
	for (int i = 0; rc >= 0 && i < g->ninputs && i < MAX_INPUTS; i++) {
		const struct tensor *like = &g->value[g->input[i]].t;
		rc = tensor_alloc(&a, like->dtype, &like->shape, &in[i]);
		for (int64_t k = 0; rc >= 0 && k < shape_count(&like->shape); k++)
			tensor_set(&in[i], k, (double)odd_float(r));
	}
	if (rc >= 0)
		rc = eval_graph(g, in, t, &a);
	arena_free(&a);
}

TEST(every_operator)
{
	const struct import_opts o = {.max_bytes = 64 << 20};
	uint64_t base = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 0) : 1;
	int good = 0, all = 0;
	for (int f = 0; op_table[f]; f++)
		for (const struct op_row *row = op_table[f]->rows; row->type[0]; row++) {
			int ran = 0;
			CHECK(memchr(row->type, 0, sizeof row->type));
			for (int i = 0; i < ROUNDS; i++, all++) {
				struct onnx_maker k;
				struct rng r;
				struct graph *g;
				rng_seed(&r, base * 1000003 + (uint64_t)i);
				printf("%s SEED=%d round %d\r", row->type, (int)base,
				       i); /* remains on the screen if it crashes or hangs */
				alarm(ALARM_S);
				random_model(&k, &r, row);
				if (mk_import(&k, NULL, &o, &g) < 0)
					continue;
				if (is_small(g))
					run(g, &r);
				graph_free(g);
				ran++;
			}
			good += ran;
			if (getenv("V"))
				printf("%-24s %3d of %d accepted\n", row->type, ran, ROUNDS);
		}
	alarm(0);
	printf("%d of %d random nodes were accepted\n", good, all);
	CHECK(good > all / 50);
}

/* ---- valid cases with one thing or two changed ---- */

static void change_attr(struct rng *r, Onnx__NodeProto *n)
{
	if (!n->n_attribute)
		return;
	Onnx__AttributeProto *a = n->attribute[rng_below(r, (uint32_t)n->n_attribute)];
	a->i = odd_int(r);
	a->f = odd_float(r);
	if (a->n_ints)
		a->ints[rng_below(r, (uint32_t)a->n_ints)] = odd_int(r);
	if (a->n_ints && !rng_below(r, 4))
		a->n_ints--;
	if (a->n_floats)
		a->floats[rng_below(r, (uint32_t)a->n_floats)] = odd_float(r);
	if (a->type == 3 && !rng_below(r, 2)) {
		a->s.data = (uint8_t *)mk_text(odd_text(r));
		a->s.len = strlen((char *)a->s.data);
	}
}

static void change_node(struct rng *r, Onnx__NodeProto *n)
{
	if (rng_below(r, 3))
		change_attr(r, n);
	else if (n->n_input && !rng_below(r, 2))
		n->n_input--;
	else if (n->n_input)
		n->input[rng_below(r, (uint32_t)n->n_input)] = mk_text(rng_below(r, 2) ? n->input[0] : "");
	else
		n->n_attribute -= n->n_attribute > 0;
}

static void change_input(struct rng *r, Onnx__ValueInfoProto *v)
{
	Onnx__ShapeProto *s = v->type && v->type->tensor_type ? v->type->tensor_type->shape : NULL;
	if (s && s->n_dim && rng_below(r, 3))
		s->dim[rng_below(r, (uint32_t)s->n_dim)]->dim_value = (int64_t)rng_below(r, 6);
	else if (s && s->n_dim)
		s->n_dim--;
	else if (v->type && v->type->tensor_type)
		v->type->tensor_type->elem_type = 1 + (int)rng_below(r, 13);
}

/* Makes the case's own small inputs constants and changes some of their values. */
static int fix_inputs(struct arena *a, struct rng *r, const char *dir, const Onnx__GraphProto *g,
		      struct import_fixed *out)
{
	int n = 0;
	for (int i = 0; i < (int)g->n_input && i < MAX_INPUTS; i++) {
		struct tensor t;
		char *name = arena_alloc(a, 256);
		if (!rng_below(r, 3) ||
		    tensor_read(a, arena_printf(a, "%s/test_data_set_0/input_%d.pb", dir, i), &t, name) < 0)
			continue;
		int64_t count = shape_count(&t.shape);
		if (count && count < 16 && rng_below(r, 2))
			tensor_set_i64(&t, rng_below(r, (uint32_t)count), odd_int(r));
		if (t.dtype == DT_F32 || (t.dtype != DT_F16 && t.dtype != DT_BF16))
			out[n++] = (struct import_fixed){name, t};
	}
	return n;
}

static bool run_changed(const char *dir, const struct blob *file, struct rng *r)
{
	struct arena a = {0};
	struct import_fixed fixed[MAX_INPUTS];
	struct import_opts o = {.max_bytes = 64 << 20, .fixed = fixed};
	Onnx__ModelProto *m;
	struct graph *g;
	if (pb_unpack(&a, &onnx__model_proto__descriptor, file->p, file->n, &m) < 0)
		return false;
	if (rng_below(r, 4))
		o.nfixed = fix_inputs(&a, r, dir, m->graph, fixed);
	for (uint32_t i = 0, n = rng_below(r, 3); i < n; i++)
		if (rng_below(r, 2) && m->graph->n_input)
			change_input(r, m->graph->input[rng_below(r, (uint32_t)m->graph->n_input)]);
		else
			change_node(r, m->graph->node[rng_below(r, (uint32_t)m->graph->n_node)]);
	uint8_t *p = arena_alloc(&a, onnx__model_proto__get_packed_size(m) + 1);
	int rc = import_bytes(p, onnx__model_proto__pack(m, p), NULL, &o, &g);
	if (rc >= 0) {
		if (is_small(g))
			run(g, r);
		graph_free(g);
	}
	arena_free(&a);
	return rc >= 0;
}

TEST(changed_cases)
{
	struct arena a = {0};
	char **cases, dir[128];
	uint64_t base = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 0) : 1;
	int good = 0, all = 0;
	if (!test_data())
		SKIP("no data folder (set HONE_DATA)");
	REQUIRE(onnx_shell("mkdir $T/c && for f in core-node quant; do tar --zstd -xf $D/onnx/$f.tar.zst -C "
			   "$T/c; done") == 0);
	snprintf(dir, sizeof dir, "%s/c", onnx_tmp_dir());
	int n = case_find(&a, dir, &cases);
	for (int c = 0; c < n; c++) {
		struct blob file;
		REQUIRE_OK(file_read(&a, arena_printf(&a, "%s/model.onnx", cases[c]), 0, &file));
		for (int i = 0; i < CASE_ROUNDS; i++, all++) {
			struct rng r;
			rng_seed(&r, base * 1000003 + (uint64_t)i);
			printf("%s SEED=%d round %d\r", strrchr(cases[c], '/') + 1, (int)base, i);
			alarm(ALARM_S);
			good += run_changed(cases[c], &file, &r);
		}
	}
	alarm(0);
	printf("%d of %d changed cases were accepted\n", good, all);
	CHECK(good > all / 10);
	arena_free(&a);
}

TEST_MAIN
