/* SPDX-License-Identifier: Apache-2.0 */
/* If, Loop and Scan: random nests of them against direct evaluation, and cases of their own. */
#include "tests/lib/onnx_make.h"
#include "kernels/graph/eval.h"
#include "kernels/graph/names.h"
#include "kernels/graph/optimize.h"
#include "platform/base/rng.h"
#include <math.h>

static const struct import_opts none = {0};

/* ---- random programs: every value is a 3x3 matrix ---- */

enum { N = 9, MAX_VARS = 4000, MAX_BODY = 8, MAX_STMTS = 12, MAX_TRIPS = 4 };
enum kind { ADD, SUB, MUL, MATMUL, IF, LOOP, SCAN };

struct stmt {
	enum kind kind;
	int a, b, out;     /* variables; out of IF, LOOP and SCAN: `nout` from here on */
	int nout;          /* IF: outputs; LOOP, SCAN: carried values, and one more of a scan output */
	int how;           /* IF, LOOP: how the condition is made */
	int number, index; /* IF: compared with; LOOP, SCAN: trips; the picked slice */
	int in_axis, out_axis, in_back, out_back; /* SCAN */
	int init[MAX_TRIPS];                      /* carried values before the loop */
	int slices[MAX_TRIPS];                    /* SCAN: the variables that are stacked */
	int counter;                              /* LOOP: variable of the iteration's number */
	int formal; /* LOOP, SCAN: first variable of the carried values; then the slice */
	struct body *body[2];
};

struct body {
	int n, out[MAX_TRIPS];
	struct stmt s[MAX_STMTS];
};

struct program {
	struct arena a;
	struct rng r;
	struct onnx_maker k;
	int nvars, ncounters, scope[MAX_VARS], nscope; /* variables in sight */
	int counters[16], open;                        /* of the loops around */
	float v[MAX_VARS][N];
	int64_t count[MAX_VARS];
};

static int below(struct program *p, int n)
{
	return (int)rng_below(&p->r, (uint32_t)n);
}

static int any_var(struct program *p)
{
	return p->scope[below(p, p->nscope)];
}

static int new_var(struct program *p, int n)
{
	p->nvars += n;
	if (p->nvars >= MAX_VARS)
		abort();
	return p->nvars - n;
}

static struct body *make_body(struct program *p, int depth, int n, int nout);

static struct body *make_inner(struct program *p, struct stmt *s, int depth, int nout, int nformal)
{
	int seen = p->nscope;
	for (int i = 0; i < nformal; i++)
		p->scope[p->nscope++] = s->formal + i;
	if (s->kind == LOOP)
		p->counters[p->open++] = s->counter;
	struct body *b = make_body(p, depth + 1, 1 + below(p, 4), nout);
	p->open -= s->kind == LOOP;
	p->nscope = seen;
	return b;
}

static void make_stmt(struct program *p, struct stmt *s, int depth)
{
	int carried = 1 + below(p, 2);
	*s = (struct stmt){.kind = (enum kind)below(p, depth < 4 ? SCAN + 1 : IF), .nout = 1, .index = -1};
	s->a = any_var(p);
	s->b = any_var(p);
	if (s->kind == IF) {
		s->how = below(p, p->open ? 3 : 2);
		s->number = below(p, 5);
		s->nout = carried;
		if (s->how == 2)
			s->counter = p->counters[below(p, p->open)];
		for (int k = 0; k < 2; k++)
			s->body[k] = make_inner(p, s, depth, carried, 0);
	} else if (s->kind >= LOOP) {
		s->how = below(p, 4);
		s->number = 1 + below(p, MAX_TRIPS);
		s->in_axis = below(p, 6) - 3;
		s->out_axis = below(p, 6) - 3;
		s->in_back = below(p, 2);
		s->out_back = below(p, 2);
		s->counter = new_var(p, 1);
		s->formal = new_var(p, carried + 1);
		for (int i = 0; i < MAX_TRIPS; i++) {
			s->init[i] = any_var(p);
			s->slices[i] = any_var(p);
		}
		s->body[0] = make_inner(p, s, depth, carried + 1, carried + (s->kind == SCAN));
		s->nout = carried + 1;
		s->index = below(p, s->number);
		if (s->kind == LOOP && s->how >= 2) /* the condition ends it one iteration earlier */
			s->index = 0;
	}
	s->out = new_var(p, s->nout);
	for (int i = 0; i < s->nout; i++)
		p->scope[p->nscope++] = s->out + i;
}

/* The outputs are variables of the body's own. */
static struct body *make_body(struct program *p, int depth, int n, int nout)
{
	struct body *b = ARENA_NEW(&p->a, struct body);
	int seen = p->nscope;
	for (b->n = 0; b->n < n; b->n++)
		make_stmt(p, &b->s[b->n], depth);
	for (int i = 0; i < nout; i++)
		b->out[i] = p->scope[seen + below(p, p->nscope - seen)];
	p->nscope = seen;
	return b;
}

/* ---- evaluation ---- */

static void run_body(struct program *p, const struct body *b);

static void run_simple(struct program *p, const struct stmt *s)
{
	const float *a = p->v[s->a], *b = p->v[s->b];
	for (int i = 0; i < N; i++) {
		double x = s->kind == ADD ? a[i] + b[i] : s->kind == SUB ? a[i] - b[i] : a[i] * b[i];
		if (s->kind == MATMUL) {
			x = 0;
			for (int k = 0; k < 3; k++)
				x += (double)a[i / 3 * 3 + k] * b[k * 3 + i % 3];
		}
		p->v[s->out][i] = tanhf((float)x);
	}
}

static void copy_var(struct program *p, int to, int from)
{
	memmove(p->v[to], p->v[from], sizeof p->v[to]);
}

static int trips(const struct stmt *s)
{
	return s->kind == LOOP && s->how >= 2 && s->number > 1 ? s->number - 1 : s->number;
}

static void run_loop(struct program *p, const struct stmt *s)
{
	int carried = s->nout - 1, n = trips(s),
	    pick = s->kind == SCAN && s->out_back ? n - 1 - s->index : s->index;
	float next[MAX_TRIPS][N];
	for (int i = 0; i < carried; i++)
		copy_var(p, s->formal + i, s->init[i]);
	for (int t = 0; t < n; t++) {
		p->count[s->counter] = t;
		if (s->kind == SCAN)
			copy_var(p, s->formal + carried, s->slices[s->in_back ? n - 1 - t : t]);
		run_body(p, s->body[0]);
		for (int i = 0; i <= carried; i++)
			memcpy(next[i], p->v[s->body[0]->out[i]], sizeof next[i]);
		for (int i = 0; i < carried; i++)
			memcpy(p->v[s->formal + i], next[i], sizeof next[i]);
		if (t == pick)
			memcpy(p->v[s->out + carried], next[carried], sizeof next[carried]);
	}
	for (int i = 0; i < carried; i++)
		copy_var(p, s->out + i, s->formal + i);
}

static void run_body(struct program *p, const struct body *b)
{
	for (const struct stmt *s = b->s; s < b->s + b->n; s++) {
		if (s->kind < IF)
			run_simple(p, s);
		else if (s->kind >= LOOP)
			run_loop(p, s);
		else {
			bool yes = s->how == 0   ? s->number & 1
				   : s->how == 1 ? s->number == 3
						 : p->count[s->counter] == s->number;
			run_body(p, s->body[yes]);
			float out[MAX_TRIPS][N];
			for (int i = 0; i < s->nout; i++)
				memcpy(out[i], p->v[s->body[yes]->out[i]], sizeof out[i]);
			for (int i = 0; i < s->nout; i++)
				memcpy(p->v[s->out + i], out[i], sizeof out[i]);
		}
	}
}

/* ---- the same as ONNX ---- */

static const char *vars(struct program *p, int n, const int *v)
{
	char *text = arena_strdup(&p->k.a, "");
	for (int i = 0; i < n; i++)
		text = arena_printf(&p->k.a, "%s v%d", text, v[i]);
	return text;
}

static const char *range(struct program *p, int first, int n)
{
	int v[MAX_TRIPS];
	for (int i = 0; i < n; i++)
		v[i] = first + i;
	return vars(p, n, v);
}

static const char *fresh(struct program *p)
{
	return arena_printf(&p->k.a, "t%d", p->ncounters++);
}

static const char *put_int(struct program *p, int64_t i, bool list)
{
	const char *name = fresh(p);
	mk_init(&p->k, name, 7, list ? "1" : "", &i, sizeof i);
	return name;
}

static const char *put_node(struct program *p, const char *type, const char *in, Onnx__NodeProto **out)
{
	const char *name = fresh(p);
	Onnx__NodeProto *n = mk_node(&p->k, type, in, name);
	if (out)
		*out = n;
	return name;
}

static const char *put_compare(struct program *p, const char *type, const char *a, int64_t with)
{
	return put_node(p, type, arena_printf(&p->k.a, "%s %s", a, put_int(p, with, false)), NULL);
}

static const char *put_condition(struct program *p, const struct stmt *s)
{
	uint8_t yes = s->number & 1;
	const char *name = fresh(p);
	if (s->how == 2)
		return put_compare(p, "Equal", arena_printf(&p->k.a, "i%d", s->counter), s->number);
	if (s->how == 0) {
		mk_init(&p->k, name, 9, "", &yes, 1);
		return name;
	}
	const char *shape = put_node(p, "Shape", vars(p, 1, &s->a), NULL);
	const char *dim =
	    put_node(p, "Gather", arena_printf(&p->k.a, "%s %s", shape, put_int(p, 1, false)), NULL);
	return put_compare(p, "Equal", dim, s->number);
}

static void put_body(struct program *p, const struct body *b, int nout);

static void put_if(struct program *p, const struct stmt *s)
{
	Onnx__NodeProto *n = mk_node(&p->k, "If", put_condition(p, s), range(p, s->out, s->nout));
	for (int k = 1; k >= 0; k--) {
		Onnx__GraphProto around = mk_sub(&p->k, 200);
		put_body(p, s->body[k], s->nout);
		mk_sub_end(&p->k, &around, n, k ? "then_branch" : "else_branch");
	}
}

/* Picks one slice of a stacked value, whose variable is the output. */
static void put_pick(struct program *p, const struct stmt *s, const char *stacked, int axis)
{
	Onnx__NodeProto *n =
	    mk_node(&p->k, "Gather", arena_printf(&p->k.a, "%s %s", stacked, put_int(p, s->index, false)),
		    range(p, s->out + s->nout - 1, 1));
	mk_attr_int(&p->k, n, "axis", axis);
}

static void put_loop(struct program *p, const struct stmt *s)
{
	uint8_t yes = 1;
	int carried = s->nout - 1;
	const char *stacked = fresh(p), *on = fresh(p), *cond = fresh(p), *m = put_int(p, s->number, false);
	mk_init(&p->k, on, 9, "", &yes, 1);
	Onnx__NodeProto *n = mk_node(&p->k, "Loop",
				     arena_printf(&p->k.a, "%s %s %s", s->how == 3 ? "-" : m,
						  s->how ? on : "-", vars(p, carried, s->init)),
				     arena_printf(&p->k.a, "%s %s", range(p, s->out, carried), stacked));
	Onnx__GraphProto around = mk_sub(&p->k, 200);
	mk_input(&p->k, arena_printf(&p->k.a, "i%d", s->counter), 7, "");
	mk_input(&p->k, cond, 9, "");
	for (int i = 0; i < carried; i++)
		mk_input(&p->k, arena_printf(&p->k.a, "v%d", s->formal + i), 1, NULL);
	const char *go = cond;
	if (s->how == 1)
		go = put_node(p, "Identity", cond, NULL);
	else if (s->how >= 2)
		go = put_compare(p, "Less", arena_printf(&p->k.a, "i%d", s->counter), trips(s) - 1);
	mk_output(&p->k, go);
	put_body(p, s->body[0], s->nout);
	mk_sub_end(&p->k, &around, n, "body");
	put_pick(p, s, stacked, 0);
}

static void put_scan(struct program *p, const struct stmt *s)
{
	int carried = s->nout - 1;
	const char *all = "", *stacked = fresh(p), *axes = put_int(p, s->in_axis, true);
	for (int i = 0; i < s->number; i++)
		all = arena_printf(
		    &p->k.a, "%s %s", all,
		    put_node(p, "Unsqueeze", arena_printf(&p->k.a, "v%d %s", s->slices[i], axes), NULL));
	Onnx__NodeProto *n;
	const char *in = put_node(p, "Concat", all, &n);
	mk_attr_int(&p->k, n, "axis", s->in_axis);
	n = mk_node(&p->k, "Scan", arena_printf(&p->k.a, "%s %s", vars(p, carried, s->init), in),
		    arena_printf(&p->k.a, "%s %s", range(p, s->out, carried), stacked));
	const int64_t numbers[] = {s->in_axis, s->in_back, s->out_axis, s->out_back};
	static const char *const names[] = {"scan_input_axes", "scan_input_directions", "scan_output_axes",
					    "scan_output_directions"};
	for (int i = 0; i < 4; i++)
		mk_attr_ints(&p->k, n, names[i], 1, &numbers[i]);
	mk_attr_int(&p->k, n, "num_scan_inputs", 1);
	Onnx__GraphProto around = mk_sub(&p->k, 200);
	for (int i = 0; i <= carried; i++)
		mk_input(&p->k, arena_printf(&p->k.a, "v%d", s->formal + i), 1, NULL);
	put_body(p, s->body[0], s->nout);
	mk_sub_end(&p->k, &around, n, "body");
	put_pick(p, s, stacked, s->out_axis);
}

static void put_body(struct program *p, const struct body *b, int nout)
{
	static const char *const types[] = {"Add", "Sub", "Mul", "MatMul"};
	for (const struct stmt *s = b->s; s < b->s + b->n; s++) {
		if (s->kind == IF)
			put_if(p, s);
		else if (s->kind == LOOP)
			put_loop(p, s);
		else if (s->kind == SCAN)
			put_scan(p, s);
		else {
			const int in[] = {s->a, s->b};
			mk_node(&p->k, "Tanh", put_node(p, types[s->kind], vars(p, 2, in), NULL),
				range(p, s->out, 1));
		}
	}
	for (int i = 0; i < nout; i++)
		mk_output(&p->k, arena_printf(&p->k.a, "v%d", b->out[i]));
}

static void check_names(const struct graph *g)
{
	struct arena a = {0};
	struct names names = {.a = &a};
	for (int v = 0; v < g->nvalues; v++)
		CHECK_OK(names_add(&names, g->value[v].name, v));
	for (int i = 0; i < g->nnodes; i++)
		CHECK(strcmp(node_type(&g->node[i]), "If") && strcmp(node_type(&g->node[i]), "Loop"));
	arena_free(&a);
}

static void compare(struct program *p, const struct graph *g, const struct body *b, int nout)
{
	struct tensor in[2] = {{DT_F32, {2, {3, 3}}, p->v[0]}, {DT_F32, {2, {3, 3}}, p->v[1]}};
	struct tensor *t = ARENA_ARRAY(&p->a, struct tensor, g->nvalues + 1);
	REQUIRE_OK(eval_graph(g, in, t, &p->a));
	for (int i = 0; i < nout; i++) {
		const struct tensor *y = &t[g->output[i]];
		REQUIRE(y->shape.rank == 2 && shape_count(&y->shape) == N);
		for (int k = 0; k < N; k++)
			CHECK(fabsf(((const float *)y->data)[k] - p->v[b->out[i]][k]) < 1e-4f);
	}
}

static void check_program(uint64_t seed, int *kinds)
{
	struct program *p = calloc(1, sizeof *p);
	enum { OUT = 3 };
	rng_seed(&p->r, seed);
	for (int i = 0; i < 2 * N; i++)
		p->v[i / N][i % N] = (float)(below(p, 2000) - 1000) / 1000;
	p->nvars = p->nscope = 2;
	p->scope[1] = 1;
	struct body *b = make_body(p, 0, 6, OUT);
	for (int i = 0; i < OUT; i++) /* graph outputs differ */
		b->out[i] = b->s[b->n - 1 - i].out;
	for (int i = 0; i < b->n; i++)
		kinds[b->s[i].kind]++;
	mk_start(&p->k, 17, 400);
	mk_input(&p->k, "v0", 1, "3 3");
	mk_input(&p->k, "v1", 1, "3 3");
	put_body(p, b, OUT);
	run_body(p, b);
	struct graph *g;
	int rc = mk_import(&p->k, NULL, &none, &g);
	REQUIRE_OK(rc);
	check_names(g);
	compare(p, g, b, OUT);
	REQUIRE_OK(graph_optimize(g));
	compare(p, g, b, OUT);
	graph_free(g);
	arena_free(&p->a);
	free(p);
	if (test_bad)
		printf("seed %llu\n", (unsigned long long)seed);
}

TEST(random_nests)
{
	int kinds[SCAN + 1] = {0};
	for (uint64_t seed = 1; seed <= 300 && !test_bad; seed++)
		check_program(seed, kinds);
	for (int k = 0; k <= SCAN; k++)
		CHECK(kinds[k] > 100);
}

/* ---- single cases ---- */

/* y = If(cond) { Relu(x) } else { Nonesuch(x) } */
static Onnx__NodeProto *if_model(struct onnx_maker *k, const char *cond)
{
	Onnx__NodeProto *n = mk_node(k, "If", cond, "y");
	for (int i = 0; i < 2; i++) {
		Onnx__GraphProto around = mk_sub(k, 8);
		mk_node(k, i ? "Nonesuch" : "Relu", "x", i ? "other" : "relu");
		mk_output(k, i ? "other" : "relu");
		mk_sub_end(k, &around, n, i ? "else_branch" : "then_branch");
	}
	mk_output(k, "y");
	return n;
}

TEST(unchosen_branches_may_be_unsupported)
{
	struct onnx_maker k;
	struct graph *g;
	for (uint8_t yes = 0; yes < 2; yes++) {
		mk_start(&k, 17, 8);
		mk_input(&k, "x", 1, "3");
		mk_init(&k, "c", 9, "1", &yes, 1);
		if_model(&k, "c");
		if (!yes) {
			CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_UNSUPPORTED, "Nonesuch");
			continue;
		}
		REQUIRE_OK(mk_import(&k, NULL, &none, &g));
		/* the branch's output is the graph's: no copy */
		CHECK(g->nnodes == 1 && !strcmp(node_type(&g->node[0]), "Relu"));
		CHECK(!strcmp(g->value[g->output[0]].name, "y") && g->node[0].out[0] == g->output[0]);
		graph_free(g);
	}
}

TEST(scalar_inputs_get_values)
{
	static const int64_t rate = 16000;
	struct onnx_maker k;
	struct graph *g;
	struct import_bind b = {"sr", "16000"};
	const struct import_opts o = {.nbinds = 1, .binds = &b, .shape_option = "shapes of x: "};
	static const struct {
		const char *value, *error;
		int rc;
	} rows[] = {
	    {"16000", NULL, 0},
	    {"8000", "Nonesuch", E_UNSUPPORTED},
	    {"scalar", "node 'If_1' (If, opset 17): its condition 'c' depends on data", E_UNSUPPORTED},
	    {"scalar", "give the scalar input 'sr' a value, as in shapes of x: NAME=VALUE", E_UNSUPPORTED},
	    {"2x2", "'2x2' is not its value", E_USAGE},
	    {"-1", "'-1' is not its value", E_USAGE}};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		b.value = rows[i].value;
		mk_start(&k, 17, 8);
		mk_input(&k, "x", 1, "3");
		mk_input(&k, "sr", 7, "");
		mk_init(&k, "r", 7, "", &rate, sizeof rate);
		mk_node(&k, "Equal", "sr r", "c");
		if_model(&k, "c");
		if (rows[i].rc) {
			CHECK_FAILS(mk_import(&k, NULL, &o, &g), rows[i].rc, rows[i].error);
			continue;
		}
		REQUIRE_OK(mk_import(&k, NULL, &o, &g));
		CHECK(g->ninputs == 1 && !strcmp(g->value[g->input[0]].name, "x"));
		graph_free(g);
	}
}

/* A Loop of no iterations: carried values pass, scan outputs have no elements. */
TEST(no_iterations)
{
	static const int64_t zero = 0;
	struct onnx_maker k;
	struct graph *g;
	for (int typed = 0; typed < 2; typed++) {
		mk_start(&k, 17, 8);
		mk_input(&k, "x", 1, "3");
		mk_init(&k, "m", 7, "", &zero, sizeof zero);
		Onnx__NodeProto *n = mk_node(&k, "Loop", "m - x", "y s");
		Onnx__GraphProto around = mk_sub(&k, 8);
		mk_input(&k, "i", 7, "");
		mk_input(&k, "on", 9, "");
		mk_input(&k, "z", 1, NULL);
		mk_node(&k, "Relu", "z", "r");
		mk_output(&k, "on");
		mk_output(&k, "r");
		k.g.output[k.g.n_output++] = mk_value(&k, "z", 1, typed ? "3 q" : NULL);
		mk_sub_end(&k, &around, n, "body");
		mk_output(&k, "y");
		mk_output(&k, "s");
		if (!typed) {
			CHECK_FAILS(mk_import(&k, NULL, &none, &g), E_UNSUPPORTED,
				    "does not say the shape of output 1");
			continue;
		}
		REQUIRE_OK(mk_import(&k, NULL, &none, &g));
		const struct shape *s = &g->value[g->output[1]].t.shape;
		CHECK(s->rank == 3 && s->d[0] == 0 && s->d[1] == 3 && s->d[2] == 0);
		CHECK(g->nnodes == 1 && !strcmp(node_type(&g->node[0]), "Identity"));
		graph_free(g);
	}
}

/* Names of the model that look like those of a copy. */
TEST(copies_have_names_of_their_own)
{
	static const uint8_t yes = 1;
	struct onnx_maker k;
	struct graph *g;
	mk_start(&k, 17, 32);
	mk_input(&k, "x", 1, "3");
	mk_init(&k, "c", 9, "", &yes, 1);
	for (int i = 1; i < 9; i++)
		mk_node(&k, "Neg", "x", arena_printf(&k.a, "inner.%d", i));
	Onnx__NodeProto *n = mk_node(&k, "If", "c", "y");
	for (int i = 0; i < 2; i++) {
		Onnx__GraphProto around = mk_sub(&k, 4);
		mk_node(&k, "Neg", "x", "inner");
		mk_node(&k, "Relu", "inner", "out");
		mk_output(&k, "out");
		mk_sub_end(&k, &around, n, i ? "else_branch" : "then_branch");
	}
	mk_output(&k, "y");
	REQUIRE_OK(mk_import(&k, NULL, &none, &g));
	check_names(g);
	graph_free(g);
}

TEST_MAIN
