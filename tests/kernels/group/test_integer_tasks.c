/* SPDX-License-Identifier: Apache-2.0 */
/* ConvInteger and MatMulInteger as integer tasks: the tasks of random networks, computed by their reference,
 * give the bits of the operators of the network as it came, and these those of loops written by hand. */
#include "kernels/graph/optimize.h"
#include "kernels/group/alternatives.h"
#include "tests/lib/ref_steps.h"
#include "tests/lib/integer_net.h"
#include "tests/lib/kernel_cases.h"

#include <math.h>

static int64_t element(int type, const void *p, int64_t i)
{
	return type == U8 ? ((const uint8_t *)p)[i] : ((const int8_t *)p)[i];
}

static int64_t weight_at(const struct integer_net *d, int64_t column, int64_t i)
{
	int64_t zero = d->nzeros ? element(d->wt, d->zeros, d->nzeros > 1 ? column : 0) : 0;
	return element(d->wt, d->weights, i) - zero;
}

/* ---- the oracle ---- */

static int64_t conv_pad(const struct integer_net *d, int i, int64_t out)
{
	int64_t reach = (d->w[2 + i] - 1) * d->dilation[i] + 1;
	int64_t total = (out - 1) * d->stride[i] + reach - d->x[2 + i];
	return d->same_pads ? (total > 0 ? total : 0) / 2 : d->pad[i];
}

static int64_t conv_point(const struct integer_net *d, const void *x, const int64_t *zero,
			  const struct shape *y, int64_t at)
{
	int two = d->xrank == 4;
	int64_t h = two ? d->x[2] : 1, w = d->x[d->xrank - 1], r = two ? d->w[2] : 1, s = d->w[d->xrank - 1];
	int64_t ow = y->d[y->rank - 1], oh = two ? y->d[2] : 1, ox = at % ow, oy = at / ow % oh,
		k = at / ow / oh % d->n, n = at / ow / oh / d->n, per = d->w[1], sum = 0;
	int64_t g = k / (d->n / d->group);
	for (int64_t c = 0; c < per; c++)
		for (int64_t j = 0; j < r * s; j++) {
			int64_t iy =
			    two ? oy * d->stride[0] + j / s * d->dilation[0] - conv_pad(d, 0, oh) : 0;
			int64_t ix = ox * d->stride[two] + j % s * d->dilation[two] - conv_pad(d, two, ow);
			if (iy < 0 || iy >= h || ix < 0 || ix >= w)
				continue;
			int64_t v =
			    element(d->xt, x, ((n * d->x[1] + g * per + c) * h + iy) * w + ix) - *zero;
			sum += v * weight_at(d, k, (k * per + c) * r * s + j);
		}
	return sum;
}

static int64_t matmul_point(const struct integer_net *d, const void *x, const int64_t *zero,
			    const struct shape *y, int64_t at)
{
	int64_t n = at % d->n, k = d->x[d->xrank - 1], row = at / d->n, sum = 0, matrix = 0, step = 1;
	int64_t batch = row / d->x[d->xrank - 2];
	(void)y;
	for (int i = d->xrank - 3, j = d->wrank - 3; j >= 0; batch /= d->x[i], i--, j--) {
		matrix += d->w[j] > 1 ? batch % d->x[i] * step : 0;
		step *= d->w[j];
	}
	for (int64_t i = 0; i < k; i++)
		sum +=
		    (element(d->xt, x, row * k + i) - *zero) * weight_at(d, n, (matrix * k + i) * d->n + n);
	return sum;
}

static void check_oracle(const struct integer_net *d, const void *x, int64_t zero, const struct tensor *y)
{
	for (int64_t i = 0; i < shape_count(&y->shape); i++)
		REQUIRE(((const int32_t *)y->data)[i] ==
			(d->conv ? conv_point : matmul_point)(d, x, &zero, &y->shape, i));
}

/* DynamicQuantizeLinear of x. */
static void check_dynamic(const struct tensor *x, const struct tensor *y, float scale, int64_t zero)
{
	float low = 0, high = 0;
	for (int64_t i = 0; i < shape_count(&x->shape); i++) {
		low = fminf(low, ((const float *)x->data)[i]);
		high = fmaxf(high, ((const float *)x->data)[i]);
	}
	float s = (high - low) / 255;
	REQUIRE(scale == s && s > 0 && zero == (int64_t)rintf(-low / s));
	for (int64_t i = 0; i < shape_count(&x->shape); i++) {
		float v = rintf(((const float *)x->data)[i] / s) + (float)zero;
		REQUIRE(((const uint8_t *)y->data)[i] == fmaxf(0, fminf(v, 255)));
	}
}

/* ---- networks ---- */

static struct tensor random_input(struct arena *a, struct rng *r, const struct tensor *like)
{
	struct tensor t;
	CHECK_OK(tensor_alloc(a, like->dtype, &like->shape, &t));
	double low = rng_below(r, 3) - 1.0;
	for (int64_t i = 0; i < shape_count(&t.shape); i++)
		if (t.dtype == DT_F32)
			((float *)t.data)[i] = (float)(low + (double)rng_below(r, 2001) / 1000);
		else
			((uint8_t *)t.data)[i] = (uint8_t)rng_below(r, 256);
	return t;
}

/* The value with this name, which the graph has. */
static int find_value(const struct graph *g, const char *name)
{
	for (int v = 0; v < g->nvalues; v++)
		if (!strcmp(g->value[v].name, name))
			return v;
	abort();
}

static void check_same(const struct integer_net *d, const struct tensor *want, const struct tensor *got)
{
	int64_t n = shape_count(&want->shape);
	CHECK(shape_equal(&want->shape, &got->shape) && want->dtype == got->dtype);
	if (want->dtype == DT_I32) {
		CHECK(!memcmp(want->data, got->data, (size_t)n * 4));
		return;
	}
	const float *a = want->data, *b = got->data;
	double most = 1e-30;
	for (int64_t i = 0; i < n; i++)
		most = fmax(most, fabs((double)a[i]));
	for (int64_t i = 0; i < n; i++)
		CHECK(fabs((double)a[i] - (double)b[i]) <= 1e-6 * most);
	(void)d;
}

/* Whether the product is part of a task. */
static bool product_is_task(const struct ref_steps *r)
{
	for (int i = 0; i < r->s->nsteps; i++)
		if (r->s->step[i].kind == STEP_HOST &&
		    strstr(node_type(&r->g->node[r->s->step[i].node]), "Integer"))
			return false;
	return true;
}

/* Gives nodes of the model names that passes would give theirs. */
static void name_rivals(struct graph *g)
{
	static const char *const rivals[] = {"product_padded", "product_sums", "dynamic_bytes"};
	int n = 0;
	for (int i = 0; i < g->nnodes && n < 3; i++)
		if (strcmp(g->node[i].name, "product") != 0 && strcmp(g->node[i].name, "dynamic") != 0)
			g->node[i].name = rivals[n++];
}

/* Stored choices find nodes by their names, so passes give each node one of its own. */
static void check_names(const struct graph *g)
{
	for (int i = 0; i < g->nnodes; i++)
		for (int j = 0; j < i; j++)
			if (!g->node[i].dead && !g->node[j].dead &&
			    !strcmp(g->node[i].name, g->node[j].name)) {
				printf("%s and %s are both called %s\n", node_type(&g->node[j]),
				       node_type(&g->node[i]), g->node[i].name);
				test_bad = 1;
			}
}

/* The product becomes a task, whatever its padding. */
static void check_net(uint64_t seed, int lanes)
{
	struct integer_net d;
	struct blob b = integer_net(&d, seed);
	struct graph *plain;
	const struct import_opts none = {0};
	const struct target t = {.lanes = lanes};
	struct choices c = {0};
	struct ref_steps r = {0};
	struct rng rng;
	struct tensor in[2] = {0};
	REQUIRE_OK(import_bytes(b.p, b.n, ".", &none, &plain));
	REQUIRE_OK(import_bytes(b.p, b.n, ".", &none, &r.g));
	if (seed % 2)
		name_rivals(r.g);
	REQUIRE_OK(graph_optimize(r.g));
	check_names(r.g);
	choices_set(&c, &r.a, CHOICE_BYTES, CHOICE_ALL, 1);
	REQUIRE_OK(graph_steps(r.g, &t, &c, &r.a, &r.s));
	REQUIRE_OK(steps_check(r.g, r.s));
	struct tensor *want = ARENA_ARRAY(&r.a, struct tensor, plain->nvalues + 1);
	rng_seed(&rng, seed);
	for (int i = 0; i < plain->ninputs; i++)
		in[i] = random_input(&r.a, &rng, &plain->value[plain->input[i]].t);
	REQUIRE_OK(eval_graph(plain, in, want, &r.a));
	const struct tensor *x = &want[find_value(plain, "x")];
	int64_t zero = d.zero == ZERO_ABSENT ? 0 : tensor_get_i64(&want[find_value(plain, "xz")], 0);
	check_oracle(&d, x->data, zero, &want[find_value(plain, "y")]);
	if (d.zero == ZERO_DYNAMIC)
		check_dynamic(&in[0], x, *(const float *)want[find_value(plain, "xs")].data, zero);
	run_steps(&r, in);
	for (int i = 0; i < plain->noutputs; i++)
		check_same(&d, &want[plain->output[i]], &r.plain[r.g->output[i]]);
	CHECK(product_is_task(&r));
	graph_free(plain);
	graph_free(r.g);
	arena_free(&r.a);
	arena_free(&d.m.k.a);
}

TEST(tasks_give_the_operators_bits)
{
	for (int seed = 1; seed <= 900 && !test_bad; seed++) {
		check_net((uint64_t)seed, 4 << seed % 3);
		if (test_bad)
			printf("seed %d\n", seed);
	}
}

/* A network that is quantised dynamically becomes the range of its input, its bytes, and one product with all
 * that follows it. */
TEST(what_follows_joins)
{
	int whole = 0, all = 0;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct integer_net d;
		struct blob b = integer_net(&d, seed);
		const struct import_opts none = {0};
		const struct target t = {.lanes = 8};
		struct choices c = {0};
		struct ref_steps r = {0};
		if (d.zero == ZERO_DYNAMIC && b.n) {
			REQUIRE_OK(import_bytes(b.p, b.n, ".", &none, &r.g));
			REQUIRE_OK(graph_optimize(r.g));
			REQUIRE_OK(graph_steps(r.g, &t, &c, &r.a, &r.s));
			CHECK(!product_is_task(&r) && steps_leave_bytes(r.g, r.s, &c));
			choices_set(&c, &r.a, CHOICE_BYTES, CHOICE_ALL, 1);
			REQUIRE_OK(graph_steps(r.g, &t, &c, &r.a, &r.s));
			int products = 0, ends = 0;
			for (int i = 0; i < r.s->nsteps; i++) {
				const struct step *st = &r.s->step[i];
				const struct task *k = st->kind == STEP_TASK ? st->task : NULL;
				bool product = k && k->stage[0].comb == COMB_SUM;
				products += product;
				ends += product && r.s->value[st->value[k->noperands - 1]].of >= 0 &&
					k->stage[0].post.n > 9;
			}
			bool one = r.g->noutputs == 1;
			all += one && products;
			whole += one && products && ends;
			graph_free(r.g);
		}
		arena_free(&r.a);
		arena_free(&d.m.k.a);
	}
	CHECK(all > 20 && whole == all);
}

/* A stride and padding that make a small result of an image too large for memory. */
TEST(huge_padding_stays)
{
	const int64_t pads[] = {1 << 29, 1 << 29, 1 << 29, 1 << 29}, strides[] = {1 << 29, 1 << 29};
	const struct import_opts none = {0};
	for (int kind = 0; kind < 4; kind++) {
		bool huge = kind & 1, dynamic = kind & 2;
		struct onnx_maker k;
		struct graph *g;
		int8_t w = 1;
		mk_start(&k, 13, 8);
		mk_input(&k, dynamic ? "x" : "q", dynamic ? F32 : U8, "1 1 2 2");
		mk_init(&k, "w", I8, "1 1 1 1", &w, 1);
		if (dynamic)
			mk_node(&k, "DynamicQuantizeLinear", "x", "q s z");
		else
			mk_input(&k, "z", U8, "");
		Onnx__NodeProto *n = mk_node(&k, "ConvInteger", "q w z", "y");
		mk_attr_ints(&k, n, "pads", 4, huge ? pads : (int64_t[]){1, 1, 1, 1});
		mk_attr_ints(&k, n, "strides", 2, strides);
		mk_output(&k, "y");
		REQUIRE_OK(mk_import(&k, ".", &none, &g));
		REQUIRE_OK(graph_optimize(g));
		bool padded = false;
		for (int i = 0; i < g->nnodes; i++)
			padded |= dynamic ? node_attr(&g->node[i], "pads") &&
						!strcmp(node_type(&g->node[i]), "QuantizeLinear")
					  : !strcmp(node_type(&g->node[i]), "Pad");
		CHECK(padded == !huge);
		graph_free(g);
	}
}

/* Runs the default schedule, then a random one, of a task in the interpreter. */
static void check_schedules(const struct task *t, const struct target *tg, struct rng *r)
{
	struct buf text = {0};
	char cand[CAND_MAX];
	struct kcase c;
	struct space *s;
	bool infeasible;
	task_text(t, &text);
	REQUIRE_OK(case_parse(&c, buf_str(&text), r));
	REQUIRE_OK(space_make(&c.a, &c.t, tg, NULL, &s));
	for (int i = 0; i < 2; i++) {
		space_default(s, cand);
		if (i)
			REQUIRE_OK(space_random(s, r, cand));
		double err = case_interpret(&c, cand, tg, &infeasible);
		bool whole = c.t.operand[c.t.stage[c.t.nstages - 1].out.operand].dtype != DT_F32;
		if (err < 0 || err > (whole ? 0 : 4e-6))
			printf("error %g %s\n%s\n%s", err, infeasible ? err_text() : "", cand,
			       buf_str(&text));
		REQUIRE(err >= 0 && err <= (whole ? 0 : 4e-6));
	}
	buf_free(&text);
	arena_free(&c.a);
}

/* A sum behind a Cast is a float: its square is beyond s32. */
TEST(squares_of_sums)
{
	const struct import_opts none = {0};
	const struct target tg = case_board(8, 16);
	struct onnx_maker k;
	struct graph *g;
	struct choices c = {0};
	struct ref_steps r = {0};
	int8_t w[64 * 4];
	memset(w, 127, sizeof w);
	mk_start(&k, 13, 8);
	mk_input(&k, "x", U8, "3 64");
	mk_init(&k, "w", I8, "64 4", w, sizeof w);
	mk_node(&k, "MatMulInteger", "x w", "s");
	mk_attr_int(&k, mk_node(&k, "Cast", "s", "f"), "to", F32);
	mk_node(&k, "Mul", "f f", "y");
	mk_output(&k, "y");
	REQUIRE_OK(mk_import(&k, ".", &none, &g));
	REQUIRE_OK(graph_optimize(g));
	choices_set(&c, &r.a, CHOICE_BYTES, CHOICE_ALL, 1);
	REQUIRE_OK(graph_steps(g, &tg, &c, &r.a, &r.s));
	REQUIRE(r.s->nsteps >= 1 && r.s->step[r.s->nsteps - 1].kind == STEP_TASK);
	const struct task *t = r.s->step[r.s->nsteps - 1].task;
	REQUIRE(t->stage[0].comb == COMB_SUM);
	void *buf[MAX_OPERANDS] = {0};
	for (int i = 0; i < t->noperands; i++) {
		const struct operand *o = &t->operand[i];
		size_t n = (size_t)operand_elems(o) * dtype_bytes(o->dtype);
		buf[i] = arena_alloc(&r.a, n + 64);
		memset(buf[i], o->dtype == DT_U8 ? 255 : 127, n);
	}
	REQUIRE_OK(task_reference(t, buf, &r.a));
	const double sum = 64.0 * 255 * 127;
	CHECK(((float *)buf[t->stage[0].out.operand])[0] == (float)(sum * sum));
	struct rng rng;
	rng_seed(&rng, 1);
	check_schedules(t, &tg, &rng);
	graph_free(g);
	arena_free(&r.a);
	arena_free(&k.a);
}

TEST(schedules_of_these_tasks)
{
	const struct target tg[] = {case_board(16, 32), case_board(8, 16), case_board(4, 32)};
	for (uint64_t seed = 1; seed <= 300 && !test_bad; seed++) {
		struct integer_net d;
		struct blob b = integer_net(&d, seed);
		const struct import_opts none = {0};
		struct choices c = {0};
		struct ref_steps r = {0};
		struct rng rng;
		rng_seed(&rng, seed);
		REQUIRE_OK(import_bytes(b.p, b.n, ".", &none, &r.g));
		REQUIRE_OK(graph_optimize(r.g));
		choices_set(&c, &r.a, CHOICE_BYTES, CHOICE_ALL, 1);
		REQUIRE_OK(graph_steps(r.g, &tg[seed % 3], &c, &r.a, &r.s));
		for (int i = 0; i < r.s->nsteps; i++)
			if (r.s->step[i].kind == STEP_TASK && !r.s->step[i].fused)
				check_schedules(r.s->step[i].task, &tg[seed % 3], &rng);
		if (test_bad)
			printf("seed %d\n", (int)seed);
		graph_free(r.g);
		arena_free(&r.a);
		arena_free(&d.m.k.a);
	}
}

TEST_MAIN
