/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/onnx_data.h"
#include "tests/lib/onnx_make.h"
#include "kernels/graph/eval.h"
#include "kernels/graph/op.h"
#include "platform/base/rng.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

static const struct import_opts none = {0};

/* y = relu(x + w), x of n by 3 */
static void small_model(struct onnx_maker *k)
{
	static const float w[] = {1, -2, 3};
	mk_start(k, 17, 8);
	mk_input(k, "x", 1, "n 3");
	mk_init(k, "w", 1, "3", w, sizeof w);
	mk_node(k, "Add", "x w", "s");
	mk_node(k, "Relu", "s", "y");
	mk_output(k, "y");
}

TEST(imports_and_runs)
{
	struct onnx_maker k;
	struct graph *g;
	struct arena a = {0};
	small_model(&k);
	REQUIRE_OK(mk_import(&k, NULL, &none, &g));
	CHECK(g->nnodes == 2 && g->ninputs == 1 && g->noutputs == 1);
	CHECK(!strcmp(node_type(&g->node[0]), "Add") && !strcmp(g->node[0].name, "Add_0"));
	CHECK(shape_count(&g->value[g->output[0]].t.shape) == 3);
	float x[] = {1, 1, -9};
	struct tensor in = {DT_F32, {2, {1, 3}}, x}, *t = ARENA_ARRAY(&a, struct tensor, g->nvalues);
	REQUIRE_OK(eval_graph(g, &in, t, &a));
	const float *y = t[g->output[0]].data;
	CHECK(y[0] == 2 && y[1] == 0 && y[2] == 0);
	in.shape.d[0] = 2;
	CHECK_FAILS(eval_graph(g, &in, t, &a), E_USAGE, "input 'x' is f32 1x3, not f32 2x3");
	graph_free(g);
	arena_free(&a);
}

TEST(binds_shapes)
{
	struct onnx_maker k;
	struct graph *g;
	struct import_bind b = {"n", "4"};
	struct import_opts o = {.nbinds = 1, .binds = &b};
	small_model(&k);
	REQUIRE_OK(mk_import(&k, NULL, &o, &g));
	CHECK(g->value[g->output[0]].t.shape.d[0] == 4);
	graph_free(g);
	b = (struct import_bind){"x", "5x3"};
	small_model(&k);
	REQUIRE_OK(mk_import(&k, NULL, &o, &g));
	CHECK(g->value[g->output[0]].t.shape.d[0] == 5);
	graph_free(g);
	b = (struct import_bind){"z", "5x3"};
	small_model(&k);
	CHECK_FAILS(mk_import(&k, NULL, &o, &g), E_USAGE, "dimension 'z'; it has 'x' 'n'");
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "aa bb aa cc dd ee ff gg");
	mk_node(&k, "Relu", "x", "y");
	mk_output(&k, "y");
	CHECK_FAILS(mk_import(&k, NULL, &o, &g), E_USAGE, "it has 'x' 'aa' 'bb' 'cc' 'dd' 'ee' 'ff' 'gg'");
	b = (struct import_bind){"x", "5x3x1"};
	small_model(&k);
	CHECK_FAILS(mk_import(&k, NULL, &o, &g), E_USAGE, "rank 3");
	b = (struct import_bind){"n", "four"};
	small_model(&k);
	CHECK_FAILS(mk_import(&k, NULL, &o, &g), E_USAGE, "write a number from 1 to 2147483647");
	b = (struct import_bind){"x", "5x4"};
	small_model(&k);
	CHECK_FAILS(mk_import(&k, NULL, &o, &g), E_USAGE,
		    "given sizes replace those that the model fixes: 5x4 for input 'x', which is [n, 3]: "
		    "node 'Add_0' (Add, opset 17)");
	o.nbinds = 0;
	mk_start(&k, 17, 8);
	mk_input(&k, "x", 1, "5 4");
	mk_init(&k, "w", 1, "3", (float[]){1, -2, 3}, 3 * sizeof(float));
	mk_node(&k, "Add", "x w", "y");
	mk_output(&k, "y");
	CHECK_FAILS(mk_import(&k, NULL, &o, &g), E_CORRUPT, "node 'Add_0' (Add, opset 17)");
}

/* A size that the model leaves free and its nodes do not work with: the error names it. Without it, or where it
 * is not used, the model is wrong. */
TEST(given_sizes_that_the_nodes_do_not_take)
{
	struct rng r;
	rng_seed(&r, 79);
	for (int round = 0; round < 200; round++) {
		struct onnx_maker k;
		struct graph *g = NULL;
		char value[32], whole[32], width[16], want[128];
		static const float w[9];
		int n = 1 + (int)rng_below(&r, 4), m = 1 + (int)rng_below(&r, 5), size = 1 + (int)rng_below(&r, 9);
		bool input = rng_below(&r, 2), fits = m == size || m == 1 || size == 1;
		snprintf(value, sizeof value, "%d", m);
		snprintf(whole, sizeof whole, "%dx%d", n, m);
		snprintf(width, sizeof width, "%d", size);
		const struct import_bind b = {input ? "x" : "width", input ? whole : value};
		const struct import_opts o = {.nbinds = 1, .binds = &b};
		mk_start(&k, 17, 8);
		mk_input(&k, "x", 1, "batch width");
		mk_init(&k, "w", 1, width, w, (size_t)size * sizeof *w);
		mk_node(&k, "Add", "x w", "y");
		mk_output(&k, "y");
		k.g.output[0] = mk_value(&k, "y", 1, "batch total");
		int rc = mk_import(&k, NULL, &o, &g);
		snprintf(want, sizeof want, "--shape %s=%s may be a size that the model does not work with: node '",
			 b.name, b.value);
		if (fits)
			CHECK_OK(rc);
		else
			CHECK_FAILS(rc, E_USAGE, want);
		if (fits)
			graph_free(g);
	}
	/* Names of outputs, and of their sizes. */
	for (int i = 0; i < 2; i++) {
		struct onnx_maker k;
		struct graph *g;
		const struct import_bind b = {i ? "y" : "total", "3"};
		const struct import_opts o = {.nbinds = 1, .binds = &b};
		mk_start(&k, 17, 8);
		mk_input(&k, "x", 1, "batch 3");
		mk_node(&k, "Relu", "x", "y");
		mk_output(&k, "y");
		k.g.output[0] = mk_value(&k, "y", 1, "batch total");
		CHECK_FAILS(mk_import(&k, NULL, &o, &g), E_USAGE, "belongs to an output, whose sizes follow");
	}
	struct onnx_maker k;
	struct graph *g;
	const struct import_bind huge = {"n", "2000000000"};
	const struct import_opts o = {.nbinds = 1, .binds = &huge};
	mk_start(&k, 17, 8);
	mk_input(&k, "x", 1, "n 4 9");
	mk_node(&k, "Relu", "x", "y");
	mk_output(&k, "y");
	CHECK_FAILS(mk_import(&k, NULL, &o, &g), E_USAGE, "--shape n=2000000000 may be a size");
}

/* The error names all that gave a free size: no --shape is blamed alone for the file of another input, and no
 * file that gave none. */
TEST(a_file_whose_shape_the_nodes_do_not_take)
{
	static const struct import_bind shape = {"m", "3"}, whole = {"v", "2x3"};
	static const struct import_bind x = {"x", "2x7", true}, fits = {"x", "2x8", true},
					only = {"", "2x7", true};
	const struct {
		struct import_bind b[2];
		const char *says; /* NULL: it is imported */
	} rows[] = {
	    {{shape, x}, "--shape m=3 or the shape 2x7 of the file for input 'x' may be a size"},
	    {{whole, x}, "--shape v=2x3 or the shape 2x7 of the file for input 'x' may be a size"},
	    {{shape, fits}, NULL},
	    {{x},
	     "the shape 2x7 of the file for input 'x' may be a size that the model does not work with: node"},
	    {{only}, "the shape 2x7 of the file for the input may be a size"}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct onnx_maker k;
		struct graph *g = NULL;
		const struct import_opts o = {.nbinds = rows[i].b[1].name ? 2 : 1, .binds = rows[i].b};
		static const float w[32];
		mk_start(&k, 17, 8);
		mk_input(&k, "x", 1, "n k");
		if (o.nbinds == 2)
			mk_input(&k, "v", 1, "n m");
		mk_init(&k, "w", 1, "8 4", w, sizeof w);
		mk_node(&k, "MatMul", "x w", "y");
		mk_output(&k, "y");
		int rc = mk_import(&k, NULL, &o, &g);
		if (rows[i].says)
			CHECK_FAILS(rc, E_USAGE, rows[i].says);
		else
			CHECK_OK(rc);
		graph_free(g);
	}
	struct onnx_maker k;
	struct graph *g;
	const struct import_opts o = {.nbinds = 1,
				      .binds = &x}; /* the model fixes its sizes, so that it is wrong */
	static const float w[32];
	mk_start(&k, 17, 8);
	mk_input(&k, "x", 1, "2 7");
	mk_init(&k, "w", 1, "8 4", w, sizeof w);
	mk_node(&k, "MatMul", "x w", "y");
	mk_output(&k, "y");
	CHECK_FAILS(mk_import(&k, NULL, &o, &g), E_CORRUPT,
		    "node 'MatMul_0' (MatMul, opset 17): inner sizes");
}

/* The error of an unknown name lists the model's names, each once, and counts those that it leaves out. */
TEST(an_unknown_name_is_told_how_many_there_are)
{
	struct import_bind b = {"zzzzzzzzzzzzzzzz", "4"};
	const struct import_opts o = {.nbinds = 1, .binds = &b};
	struct rng r;
	rng_seed(&r, 71);
	for (int round = 0; round < 60; round++) {
		struct onnx_maker k;
		struct graph *g;
		int n = 1 + (int)rng_below(&r, 40), length = 1 + (int)rng_below(&r, 40), listed = 0, more = 0;
		mk_start(&k, 17, n);
		for (int i = 0; i < n; i++) {
			char name[64], dims[160];
			snprintf(name, sizeof name, "%.*s%d", length,
				 "qwertyuiopqwertyuiopqwertyuiopqwertyuiopqwerty", i);
			snprintf(dims, sizeof dims, "d%s d%s e", name, name); /* 'e' is in all of them */
			mk_input(&k, arena_strdup(&k.a, name), 1, dims);
		}
		mk_node(&k, "Relu", "x", "y");
		mk_output(&k, "y");
		CHECK_FAILS(mk_import(&k, NULL, &o, &g), E_USAGE, "'zzzzzzzzzzzzzzzz'; it has ");
		const char *at = strstr(err_text(), "; it has ");
		for (at += strlen("; it has"); !strncmp(at, " '", 2); at += strcspn(at + 2, "'") + 3)
			listed++;
		CHECK(!*at == (sscanf(at, " and %d more", &more) != 1));
		CHECK(listed + more == 2 * n + 1);
		CHECK(listed > 2);
	}
}

/* Imports a model of inputs "a" (and "b", unless it is NULL) with these dimensions. */
static int import_free_dims(const char *a, const char *b, const struct import_opts *o, struct graph **g)
{
	struct onnx_maker k;
	mk_start(&k, 17, 4);
	mk_input(&k, "a", 1, a);
	mk_node(&k, "Relu", "a", "y");
	mk_output(&k, "y");
	if (b) {
		mk_input(&k, "b", 1, b);
		mk_node(&k, "Relu", "b", "z");
		mk_output(&k, "z");
	}
	return mk_import(&k, NULL, o, g);
}

TEST(a_free_batch_size_is_1)
{
	static const struct {
		const char *dims, *shape;
	} good[] = {
	    {"batch_size 3 32 32", "1x3x32x32"},
	    {"N 5", "1x5"},
	    {"unk__314 76 32 1", "1x76x32x1"},
	    {"-1 8", "1x8"},
	    {"2 Batch 128", "2x1x128"},
	    {"batch", "1"},
	    {"2 3", NULL}, /* nothing is free, so nothing is said */
	};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		struct buf notes = {0};
		const struct import_opts o = {.notes = &notes};
		struct graph *g;
		char shape[160], dims[64];
		REQUIRE_OK(import_free_dims(good[i].dims, NULL, &o, &g));
		shape_text(&g->value[g->input[0]].t.shape, shape);
		CHECK(!strcmp(shape, good[i].shape ? good[i].shape : "2x3"));
		snprintf(dims, sizeof dims, "input 'a' is [%s", good[i].dims[0] == '-' ? "?" : good[i].dims);
		dims[strlen("input 'a' is [") + 1] = 0; /* the first letter of its first dimension */
		CHECK(!good[i].shape == !notes.n);
		CHECK(!good[i].shape || strstr(buf_str(&notes), dims));
		buf_free(&notes);
		graph_free(g);
	}
}

TEST(other_free_sizes_are_errors)
{
	static const struct {
		const char *dims, *example;
	} bad[] = {
	    {"1 3 h w",
	     "input 'a' is [1, 3, h, w]; give the sizes that you use, for example --shape a=1x3x224x224"},
	    {"-1 3 -1 -1", "input 'a' is [?, 3, ?, ?]"},
	    {"n height width 3", "--shape a=1x224x224x3"},
	    {"batch samples",
	     "input 'a' is [batch, samples]; give the sizes that you use, for example --shape a=1x16000"},
	    {"seq_len 80", "--shape a=1x80"},
	    {"x", "--shape a=1"},
	};
	struct graph *g;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(import_free_dims(bad[i].dims, NULL, &none, &g), E_USAGE, bad[i].example);
	CHECK_FAILS(import_free_dims("1 t", "u 3 v", &none, &g), E_USAGE,
		    "--shape a=1x128 --shape b=1x3x128");
	const struct import_opts lib = {.shape_option = "shapes of x: "};
	CHECK_FAILS(import_free_dims("1 t", NULL, &lib, &g), E_USAGE, "for example shapes of x: a=1x128");
	CHECK_FAILS(import_free_dims("1 t", "u 3 v", &lib, &g), E_USAGE,
		    "example shapes of x: a=1x128 and b=1x3x128");
	const struct import_opts conf = {.shape_option = "in x.conf: shape = "},
				 words = {.shape_option = "(shapes of x) "};
	CHECK_FAILS(import_free_dims("1 t", "u 3 v", &conf, &g), E_USAGE,
		    "example in x.conf: shape = a=1x128 and shape = b=1x3x128");
	CHECK_FAILS(import_free_dims("1 t", "u 3 v", &words, &g), E_USAGE,
		    "example (shapes of x) a=1x128 and b=1x3x128");
}

TEST(free_sizes_that_are_given)
{
	struct graph *g;
	struct import_bind b[2] = {{"h", "8"}, {"w", "9"}};
	struct import_opts o = {.nbinds = 2, .binds = b};
	REQUIRE_OK(import_free_dims("batch 3 h w", NULL, &o, &g));
	CHECK(g->value[g->input[0]].t.shape.d[2] == 8 && g->value[g->input[0]].t.shape.d[3] == 9);
	graph_free(g);
	o.nbinds = 1;
	CHECK_FAILS(import_free_dims("batch 3 h w", NULL, &o, &g), E_USAGE, "[batch, 3, 8, w]");
	/* One input's shape gives the sizes that another shares with it. */
	b[0] = (struct import_bind){"a", "4x20"};
	REQUIRE_OK(import_free_dims("n t", "n t 7", &o, &g));
	CHECK(shape_count(&g->value[g->input[1]].t.shape) == 4 * 20 * 7);
	graph_free(g);
}

/* A note says so of an input if one of its sizes that are numbers in the file is another one. */
TEST(given_sizes_that_replace_fixed_ones_are_noted)
{
	struct rng r;
	rng_seed(&r, 73);
	for (int round = 0; round < 300; round++) {
		struct buf notes = {0}, dims = {0}, given = {0}, shown = {0}, expect = {0};
		struct graph *g;
		int rank = 1 + (int)rng_below(&r, 5);
		bool other = false;
		for (int i = 0; i < rank; i++) {
			int size = 1 + (int)rng_below(&r, 9), fixed = 1 + (int)rng_below(&r, 9);
			bool free = rng_below(&r, 3) == 0;
			fixed = rng_below(&r, 2) ? size : fixed;
			other |= !free && size != fixed;
			buf_printf(&given, i ? "x%d" : "%d", size);
			buf_printf(&shown, i ? ", " : "[");
			buf_printf(&dims, i ? " " : "");
			buf_printf(&dims, free ? "s%d" : "%d", free ? i : fixed);
			buf_printf(&shown, free ? "s%d" : "%d", free ? i : fixed); /* as in the file */
		}
		struct import_bind b = {"a", buf_str(&given)};
		const struct import_opts o = {.nbinds = 1, .binds = &b, .notes = &notes};
		buf_printf(&expect,
			   "given sizes replace those that the model fixes: %s for input 'a', which is %s]",
			   buf_str(&given), buf_str(&shown));
		REQUIRE_OK(import_free_dims(buf_str(&dims), NULL, &o, &g));
		CHECK(!strcmp(buf_str(&notes), other ? buf_str(&expect) : ""));
		char shape[160];
		shape_text(&g->value[g->input[0]].t.shape, shape);
		CHECK(!strcmp(shape, buf_str(&given)));
		graph_free(g);
		struct buf *const all[] = {&notes, &dims, &given, &shown, &expect};
		for (int i = 0; i < 5; i++)
			buf_free(all[i]);
	}
	struct import_bind two[] = {{"a", "2x4"}, {"b", "7"}};
	struct buf notes = {0};
	struct graph *g;
	struct import_opts o = {.nbinds = 1, .binds = two, .notes = &notes};
	REQUIRE_OK(import_free_dims("2 3", "batch 8", &o, &g));
	CHECK(!strcmp(buf_str(&notes),
		      "the model leaves its batch size free, so 1 is taken: input 'b' is [batch, 8]; "
		      "--shape NAME=DIMS gives another size; given sizes replace those that the "
		      "model fixes: 2x4 for input 'a', which is [2, 3]"));
	graph_free(g);
	o.nbinds = 2;
	notes.n = 0;
	REQUIRE_OK(import_free_dims("2 3", "8", &o, &g));
	CHECK(strstr(buf_str(&notes), ": 2x4 for input 'a', which is [2, 3], 7 for input 'b', which is [8]"));
	graph_free(g);
	buf_free(&notes);
	two[0] = (struct import_bind){"a", "5x6", true}; /* a file's shape replaces nothing */
	o.nbinds = 1;
	REQUIRE_OK(import_free_dims("1 2", NULL, &o, &g));
	CHECK(!notes.n && g->value[g->input[0]].t.shape.d[1] == 2);
	graph_free(g);
}

TEST(many_inputs_of_other_sizes)
{
	struct onnx_maker k;
	struct graph *g;
	struct buf notes = {0};
	struct import_bind b[11];
	char name[11][8];
	const struct import_opts o = {.nbinds = 11, .binds = b, .notes = &notes};
	mk_start(&k, 17, 11);
	for (int i = 0; i < 11; i++) {
		snprintf(name[i], sizeof name[i], "x%d", i);
		b[i] = (struct import_bind){name[i], "3"};
		mk_input(&k, name[i], 1, "2");
	}
	mk_node(&k, "Relu", "x0", "y");
	mk_output(&k, "y");
	REQUIRE_OK(mk_import(&k, NULL, &o, &g));
	CHECK(strstr(buf_str(&notes), ", 3 for input 'x7', which is [2] and 3 more"));
	graph_free(g);
	buf_free(&notes);
}

TEST(files_give_free_sizes_only)
{
	struct graph *g;
	struct import_bind b = {"a", "5x6", true};
	struct import_opts o = {.nbinds = 1, .binds = &b};
	REQUIRE_OK(import_free_dims("1 t", NULL, &o, &g));
	CHECK(g->value[g->input[0]].t.shape.d[0] == 1 && g->value[g->input[0]].t.shape.d[1] == 6);
	graph_free(g);
	b.name = "";
	REQUIRE_OK(import_free_dims("1 t", NULL, &o, &g));
	CHECK(g->value[g->input[0]].t.shape.d[1] == 6);
	graph_free(g);
	CHECK_FAILS(import_free_dims("1 t", "2", &o, &g), E_USAGE,
		    "input 'a' is [1, t]"); /* of which input? */
	b = (struct import_bind){"a", "5x6x7", true};
	CHECK_FAILS(import_free_dims("1 t", NULL, &o, &g), E_USAGE, "input 'a' is [1, t]");
	b = (struct import_bind){"elsewhere", "5x6", true};
	REQUIRE_OK(import_free_dims("1 2", NULL, &o, &g));
	graph_free(g);
}

TEST(fixed_inputs_are_constants)
{
	struct onnx_maker k;
	struct graph *g;
	float x[] = {1, 2, 3};
	struct import_fixed f = {"x", {DT_F32, {2, {1, 3}}, x}};
	struct import_opts o = {.nfixed = 1, .fixed = &f};
	small_model(&k);
	REQUIRE_OK(mk_import(&k, NULL, &o, &g));
	const float *y = g->value[g->output[0]].t.data;
	CHECK(g->ninputs == 0 && y);
	CHECK(y && y[0] == 2 && y[1] == 0 && y[2] == 6);
	graph_free(g);
}

TEST(initialisers_listed_as_inputs)
{
	struct onnx_maker k;
	struct graph *g;
	small_model(&k);
	mk_input(&k, "w", 1, "3");
	REQUIRE_OK(mk_import(&k, NULL, &none, &g));
	CHECK(g->ninputs == 1);
	graph_free(g);
	small_model(&k);
	mk_input(&k, "x", 1, "3");
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_CORRUPT, "two inputs");
}

TEST(typed_data_and_halves)
{
	struct onnx_maker k;
	struct graph *g;
	small_model(&k);
	k.g.input[0]->type->tensor_type->elem_type = 10;
	k.g.n_initializer = 0;
	Onnx__TensorProto *w = mk_init(&k, "w", 10, "3", NULL, 0);
	int32_t bits[] = {0x3c00, 0xc000, 0x4200};
	w->n_int32_data = 3;
	w->int32_data = bits;
	REQUIRE_OK(mk_import(&k, NULL, &none, &g));
	const struct tensor *t = &g->value[g->node[0].in[1]].t;
	CHECK(t->dtype == DT_F32 && tensor_get(t, 0) == 1 && tensor_get(t, 1) == -2 && tensor_get(t, 2) == 3);
	CHECK(g->value[g->input[0]].t.dtype == DT_F32 && g->value[g->output[0]].t.dtype == DT_F32);
	graph_free(g);
	small_model(&k);
	k.g.n_initializer = 0;
	w = mk_init(&k, "w", 10, "3", NULL, 0);
	w->n_int32_data = 2;
	w->int32_data = bits;
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_CORRUPT, "2 elements where its dimensions say 3");
}

TEST(constant_nodes)
{
	struct onnx_maker k;
	struct graph *g;
	float f[] = {5, 6, 7};
	small_model(&k);
	k.g.n_initializer = 0;
	Onnx__AttributeProto *a = mk_attr(&k, mk_node(&k, "Constant", "", "w"), "value", 4);
	a->t = mk_tensor(&k, "", 1, "3", f, sizeof f);
	REQUIRE_OK(mk_import(&k, NULL, &none, &g)); /* comes after its reader in the file */
	CHECK(g->nnodes == 2);
	const struct tensor *t = &g->value[g->node[0].in[1]].t;
	CHECK(t->data && tensor_get(t, 2) == 7);
	graph_free(g);
	small_model(&k);
	k.g.n_initializer = 0;
	a = mk_attr(&k, mk_node(&k, "Constant", "", "w"), "value_floats", 6);
	a->n_floats = 3;
	a->floats = f;
	REQUIRE_OK(mk_import(&k, NULL, &none, &g));
	CHECK(tensor_get(&g->value[g->node[0].in[1]].t, 1) == 6);
	graph_free(g);
}

TEST(one_error_lists_all_unsupported_nodes)
{
	struct onnx_maker k;
	struct graph *g;
	mk_start(&k, 17, 8);
	mk_input(&k, "x", 1, "3");
	mk_node(&k, "Frobnicate", "x", "a");
	mk_node(&k, "Relu", "a", "b");
	mk_node(&k, "Gelu2", "b", "c")->domain = mk_text("com.example");
	mk_attr(&k, mk_node(&k, "Relu", "x", "d"), "wobble", 2);
	Onnx__NodeProto *n = mk_node(&k, "Loop", "x", "e");
	n->name = mk_text("main_loop");
	mk_attr(&k, n, "body", 5);
	mk_node(&k, "Gelu", "x", "f"); /* since opset 20 */
	mk_output(&k, "d");
	CHECK(mk_import(&k, NULL, &none, &g) == E_UNSUPPORTED);
	static const char *const parts[] = {
	    "node 'Frobnicate_0' (Frobnicate, opset 17): the operator is not supported",
	    "\nnode 'Gelu2_2' (Gelu2 of domain com.example)",
	    "\nnode 'Relu_3' (Relu, opset 17): attribute wobble is not supported",
	    "\nnode 'main_loop' (Loop, opset 17)",
	    "\nnode 'Gelu_5' (Gelu, opset 17): the operator is not supported at this opset; convert",
	    "5 parts of the model cannot be used",
	};
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		if (!strstr(err_text(), parts[i])) {
			printf("missing \"%s\" in:\n%s\n", parts[i], err_text());
			test_bad = 1;
		}
}

TEST(structure_errors)
{
	struct onnx_maker k;
	struct graph *g;
	small_model(&k);
	mk_node(&k, "Relu", "nowhere", "z");
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_CORRUPT, "'nowhere', which no node writes");
	small_model(&k);
	mk_node(&k, "Relu", "x", "y");
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_CORRUPT, "'y' is used twice");
	small_model(&k);
	mk_output(&k, "q");
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_CORRUPT, "output 'q'");
	small_model(&k);
	mk_node(&k, "Add", "x", "z");
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_CORRUPT, "1 inputs");
	small_model(&k);
	mk_node(&k, "Add", "- x", "z");
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_CORRUPT, "input 0 is absent");
	small_model(&k);
	mk_node(&k, "MaxPool", "x", "- z");
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_CORRUPT, "output 0 is absent");
	small_model(&k);
	k.opset.version = 6;
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_UNSUPPORTED, "opset 6");
	small_model(&k);
	k.m.n_opset_import = 0;
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_CORRUPT, "no opset");
	small_model(&k);
	k.m.graph = NULL;
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_CORRUPT, "no graph");
	small_model(&k);
	k.g.input[0] = mk_value(&k, "x", 1, NULL);
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_UNSUPPORTED, "--shape x=");
	CHECK_FAILS(import_file("/nonexistent/m.onnx", NULL, &g), E_NOTFOUND, "/nonexistent/m.onnx");
}

TEST(sorts_and_finds_cycles)
{
	struct onnx_maker k;
	struct graph *g;
	mk_start(&k, 17, 8);
	mk_input(&k, "x", 1, "3");
	mk_node(&k, "Relu", "c", "d");
	mk_node(&k, "Neg", "b", "c");
	mk_node(&k, "Abs", "x", "b");
	mk_output(&k, "d");
	REQUIRE_OK(mk_import(&k, NULL, &none, &g));
	CHECK(!strcmp(node_type(&g->node[0]), "Abs") && !strcmp(node_type(&g->node[2]), "Relu"));
	graph_free(g);
	mk_start(&k, 17, 8);
	mk_input(&k, "x", 1, "3");
	mk_node(&k, "Abs", "x", "a");
	mk_node(&k, "Add", "a d", "b");
	mk_node(&k, "Neg", "b", "d")->name = mk_text("back");
	mk_output(&k, "d");
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_CORRUPT, "cycle");
}

/* ---- external data ---- */

static int import_external(const char *location, const char *offset, const char *length, struct graph **g)
{
	struct onnx_maker k;
	small_model(&k);
	Onnx__TensorProto *w = k.g.initializer[0];
	w->has_raw_data = 0;
	if (location)
		mk_entry(&k, w, "location", location);
	mk_entry(&k, w, "offset", offset);
	mk_entry(&k, w, "length", length);
	return mk_import(&k, onnx_tmp_dir(), &none, g);
}

TEST(external_data)
{
	struct graph *g;
	char path[128], link[128];
	float w[] = {9, 8, 1, 2, 3};
	snprintf(path, sizeof path, "%s/sub", onnx_tmp_dir());
	REQUIRE(mkdir(path, 0700) == 0);
	snprintf(path, sizeof path, "%s/sub/w.bin", onnx_tmp_dir());
	REQUIRE_OK(file_write(path, w, sizeof w));
	snprintf(link, sizeof link, "%s/link", onnx_tmp_dir());
	REQUIRE(symlink("/etc", link) == 0);
	snprintf(link, sizeof link, "%s/passwd", onnx_tmp_dir());
	REQUIRE(symlink("/etc/passwd", link) == 0);
	snprintf(link, sizeof link, "%s/dangling", onnx_tmp_dir());
	REQUIRE(symlink("sub/nothing", link) == 0);
	snprintf(link, sizeof link, "%s/circle", onnx_tmp_dir());
	REQUIRE(symlink("circle", link) == 0);
	snprintf(link, sizeof link, "%s/inside", onnx_tmp_dir());
	REQUIRE(symlink("sub/w.bin", link) == 0);
	snprintf(link, sizeof link, "%s/fifo", onnx_tmp_dir());
	REQUIRE(mkfifo(link, 0600) == 0);
	REQUIRE_OK(import_external("sub/w.bin", "8", "12", &g));
	CHECK(tensor_get(&g->value[g->node[0].in[1]].t, 0) == 1 &&
	      tensor_get(&g->value[g->node[0].in[1]].t, 2) == 3);
	graph_free(g);
	REQUIRE_OK(import_external("inside", "8", "12", &g)); /* a link to a file below the folder */
	CHECK(tensor_get(&g->value[g->node[0].in[1]].t, 0) == 1);
	graph_free(g);
	static const struct {
		const char *location, *offset, *length, *part;
		int rc;
	} bad[] = {
	    {"sub/w.bin", "12", "12", "has 20 bytes", E_CORRUPT},
	    {"sub/w.bin", "9223372036854775807", "12", "has 20 bytes", E_CORRUPT},
	    {"sub/w.bin", "0", "16", "length 16", E_CORRUPT},
	    {"sub/w.bin", "-4", "12", "not a size", E_CORRUPT},
	    {"../etc/passwd", "0", "12", "outside the model's folder", E_CORRUPT},
	    {"sub/../../x", "0", "12", "outside the model's folder", E_CORRUPT},
	    {"/etc/passwd", "0", "12", "outside the model's folder", E_CORRUPT},
	    {"", "0", "12", "outside the model's folder", E_CORRUPT},
	    {"link/passwd", "0", "12", "a symbolic link that leads elsewhere", E_CORRUPT},
	    {"passwd", "0", "12", "copy the data into the model's folder", E_CORRUPT},
	    {"dangling", "0", "12", "beside the model", E_NOTFOUND},
	    {"circle", "0", "12", "beside the model", E_IO},
	    {"fifo", "0", "12", "not a regular file", E_CORRUPT},
	    {"sub", "0", "12", "not a regular file", E_CORRUPT},
	    {"none.bin", "0", "12", "beside the model", E_NOTFOUND},
	    {NULL, "0", "12", "without a location", E_CORRUPT},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK_FAILS(import_external(bad[i].location, bad[i].offset, bad[i].length, &g), bad[i].rc,
			    bad[i].part);
	struct onnx_maker k;
	small_model(&k);
	k.g.initializer[0]->has_raw_data = 0;
	mk_entry(&k, k.g.initializer[0], "location", "sub/w.bin");
	CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_UNSUPPORTED, "needs the model's folder");
}

/* A folder as Hugging Face's hub keeps it: the model and its data are links into a folder of blobs. */
static void make_hub(const char *hub, const char *location)
{
	struct onnx_maker k;
	char path[256], target[256];
	static const float w[] = {1, 2, 3}, other[] = {7, 7, 7};
	static const char *const folders[] = {"",           "/blobs",       "/blobs/more",
					      "/snapshots", "/snapshots/1", "/outside"};
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		snprintf(path, sizeof path, "%s%s", hub, folders[i]);
		REQUIRE(mkdir(path, 0700) == 0);
	}
	small_model(&k);
	k.g.initializer[0]->has_raw_data = 0;
	mk_entry(&k, k.g.initializer[0], "location", location);
	struct blob b = mk_bytes(&k);
	snprintf(path, sizeof path, "%s/blobs/m", hub);
	REQUIRE_OK(file_write(path, b.p, b.n));
	arena_free(&k.a);
	snprintf(path, sizeof path, "%s/blobs/w", hub);
	REQUIRE_OK(file_write(path, w, sizeof w));
	snprintf(path, sizeof path, "%s/outside/w", hub);
	REQUIRE_OK(file_write(path, other, sizeof other));
	snprintf(path, sizeof path, "%s/snapshots/1/model.onnx", hub);
	REQUIRE(symlink("../../blobs/m", path) == 0);
	snprintf(target, sizeof target, "%s/snapshots/1/in", hub);
	REQUIRE(symlink("../../blobs", target) == 0);
	snprintf(target, sizeof target, "%s/snapshots/1/out", hub);
	REQUIRE(symlink("../../outside/w", target) == 0);
}

static void point_to(const char *hub, const char *target)
{
	char path[256], made[256];
	snprintf(path, sizeof path, "%s/snapshots/1/model.onnx_data", hub);
	snprintf(made, sizeof made, "%s/snapshots/1/made", hub);
	(void)unlink(made);
	CHECK(symlink(target, made) == 0 && rename(made, path) == 0);
}

static void *point_about(void *hub)
{
	for (int i = 0; i < 20000; i++)
		point_to(hub, i % 2 ? "../../blobs/w" : "../../outside/w");
	return NULL;
}

/* First weight of the imported model; negative: an error. */
static double first_weight(const char *path)
{
	struct graph *g;
	int rc = import_file(path, NULL, &g);
	if (rc < 0)
		return rc;
	double w = tensor_get(&g->value[g->node[0].in[1]].t, 0);
	graph_free(g);
	return w;
}

TEST(external_data_through_links)
{
	char hub[128], path[256], elsewhere[256];
	struct graph *g;
	snprintf(hub, sizeof hub, "%s/hub", onnx_tmp_dir());
	make_hub(hub, "model.onnx_data");
	snprintf(path, sizeof path, "%s/snapshots/1/model.onnx", hub);
	CHECK_FAILS(import_file(path, NULL, &g), E_NOTFOUND, "beside the model");
	point_to(hub, "../../blobs/w");
	CHECK(first_weight(path) == 1);
	point_to(hub, "../../blobs/more/../w");
	CHECK(first_weight(path) == 1);
	point_to(hub, "in/w");
	CHECK(first_weight(path) == 1);
	point_to(hub, "../../outside/w");
	CHECK_FAILS(import_file(path, NULL, &g), E_CORRUPT, "leads elsewhere");
	point_to(hub, "out");
	CHECK_FAILS(import_file(path, NULL, &g), E_CORRUPT, "leads elsewhere");
	point_to(hub, "/dev/null");
	CHECK_FAILS(import_file(path, NULL, &g), E_CORRUPT, "leads elsewhere");
	/* A name that begins as the folder's does is another folder. */
	snprintf(elsewhere, sizeof elsewhere, "%s/blobs-2", hub);
	CHECK(mkdir(elsewhere, 0700) == 0);
	snprintf(elsewhere, sizeof elsewhere, "%s/blobs-2/w", hub);
	REQUIRE_OK(file_write(elsewhere, "123456789012", 12));
	point_to(hub, elsewhere);
	CHECK_FAILS(import_file(path, NULL, &g), E_CORRUPT, "leads elsewhere");
	/* What counts is where the open file lies, however fast the link changes. */
	pthread_t thread;
	int right = 0, refused = 0;
	REQUIRE(pthread_create(&thread, NULL, point_about, hub) == 0);
	for (int i = 0; i < 2000; i++) {
		double w = first_weight(path);
		CHECK(w == 1 || w == E_CORRUPT);
		right += w == 1;
		refused += w == E_CORRUPT;
	}
	pthread_join(thread, NULL);
	printf("%d imports, %d refused\n", right, refused);
}

TEST(export_round_trip)
{
	struct onnx_maker k;
	struct graph *g, *h;
	char path[128];
	snprintf(path, sizeof path, "%s/out.onnx", onnx_tmp_dir());
	small_model(&k);
	REQUIRE_OK(mk_import(&k, NULL, &none, &g));
	REQUIRE_OK(export_file(g, path));
	REQUIRE_OK(import_file(path, NULL, &h));
	CHECK(key_equal(graph_key(g), graph_key(h)));
	struct buf a = {0}, b = {0};
	graph_print(g, &a);
	graph_print(h, &b);
	CHECK(!strcmp(buf_str(&a), buf_str(&b)));
	buf_free(&a);
	buf_free(&b);
	graph_free(h);
	int v = graph_add_value(g, "y"), out[] = {v}; /* a second value called y */
	int in[] = {g->output[0]};
	REQUIRE(graph_add_node(g, "Neg", "neg", 17, 1, in, 1, out, 0, NULL) >= 0);
	REQUIRE_OK(graph_infer(g));
	g->output[0] = v;
	REQUIRE_OK(export_file(g, path));
	REQUIRE_OK(import_file(path, NULL, &h));
	CHECK(h->nnodes == 3);
	graph_free(g);
	graph_free(h);
	CHECK(import_file(onnx_tmp_dir(), NULL, &h) < 0);
}

TEST_MAIN
