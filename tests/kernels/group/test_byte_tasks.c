/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised networks as integer tasks: the tasks of random small networks, each computed by its reference,
 * give the bits of the operators one after the other. */
#include "kernels/graph/optimize.h"
#include "kernels/group/alternatives.h"
#include "platform/base/rng.h"
#include "tests/lib/byte_net.h"
#include "tests/lib/ref_steps.h"

#include <math.h>

/* fused (may be NULL): blocks are fused as if no cache held what lies between their groups, and their groups
 * are counted. */
static void check_net(uint64_t seed, int lanes, int *fused)
{
	struct byte_net m;
	const struct byte_net_size size = {.expand = fused ? 4 + (int64_t)(seed % 13) : 0,
					   .h = fused ? 24 : 0};
	struct blob b = byte_net(&m, seed, &size);
	struct graph *plain;
	const struct import_opts none = {0};
	const struct target t = {.lanes = lanes, .l2_bytes = fused != NULL};
	struct choices c = {0};
	struct ref_steps r = {.blocks = fused != NULL};
	struct rng rng;
	REQUIRE_OK(import_bytes(b.p, b.n, ".", &none, &plain));
	REQUIRE_OK(import_bytes(b.p, b.n, ".", &none, &r.g));
	REQUIRE_OK(graph_optimize(plain));
	REQUIRE_OK(graph_optimize(r.g));
	choices_set(&c, &r.a, CHOICE_BYTES, CHOICE_ALL, 1);
	REQUIRE_OK(graph_steps(r.g, &t, &c, &r.a, &r.s));
	REQUIRE_OK(steps_check(r.g, r.s));
	struct tensor *want = ARENA_ARRAY(&r.a, struct tensor, plain->nvalues + 1),
		      in = plain->value[plain->input[0]].t;
	REQUIRE_OK(tensor_alloc(&r.a, DT_F32, &plain->value[plain->input[0]].t.shape, &in));
	rng_seed(&rng, seed);
	for (int64_t i = 0; i < shape_count(&in.shape); i++)
		tensor_set(&in, i, (double)rng_below(&rng, 2001) / 1000 - 1);
	REQUIRE_OK(eval_graph(plain, &in, want, &r.a));
	run_steps(&r, &in);
	const struct tensor *x = &want[plain->output[0]], *y = &r.plain[r.g->output[0]];
	CHECK(shape_equal(&x->shape, &y->shape));
	CHECK(!memcmp(x->data, y->data, (size_t)shape_count(&x->shape) * sizeof(float)));
	CHECK(fused || r.bytes >= (seed % 3 ? 7 : 8)); /* the sum is part of a convolution */
	graph_free(plain);
	graph_free(r.g);
	arena_free(&r.a);
	arena_free(&m.k.a);
	if (fused)
		*fused += r.fused;
}

/* Of a share, every eleventh seed: byte_net looks at remainders of the seed by 2 to 9. */
static uint64_t step(void)
{
	return test_share() > 1 ? 11 : 1;
}

TEST(tasks_give_the_operators_bits)
{
	for (uint64_t seed = 1; seed <= 140; seed += step())
		check_net(seed, 4 << seed / 3 % 3, NULL);
}

/* One task keeps bytes between its stages, and rounds them as the operators do. */
TEST(blocks_give_the_operators_bits)
{
	int fused = 0;
	for (uint64_t seed = 1; seed <= 40; seed += step())
		check_net(seed, 4 << seed / 3 % 3, &fused);
	printf("%d groups in blocks\n", fused);
	CHECK(fused >= (step() > 1 ? 5 : 100));
}

/* A convolution with weights of these dims, on bytes. */
static int divide_conv(const char *dims)
{
	struct byte_net m = {.type = U8};
	struct graph *g = NULL;
	const struct import_opts none = {0};
	const struct target t = {.lanes = 8};
	struct arena a = {0};
	struct choices c = {0};
	struct steps *s;
	mk_start(&m.k, 13, BYTE_NODES);
	const char *one = scalar(&m, 1), *x_zero = zero_point(&m, U8), *w_zero = zero_point(&m, U8);
	uint8_t plain = 128;
	m.k.g.initializer[2] = mk_tensor(&m.k, w_zero, U8, "", &plain, 1);
	mk_input(&m.k, "x", U8, "1 1 4 4");
	mk_init(&m.k, "w", U8, dims, "", 0);
	mk_node(&m.k, "QLinearConv",
		arena_printf(&m.k.a, "x %s %s w %s %s %s %s", one, x_zero, one, w_zero, one, x_zero), "y");
	mk_output(&m.k, "y");
	int rc = mk_import(&m.k, ".", &none, &g);
	if (rc >= 0)
		rc = graph_optimize(g);
	choices_set(&c, &a, CHOICE_BYTES, CHOICE_ALL, 1);
	if (rc >= 0)
		rc = graph_steps(g, &t, &c, &a, &s);
	if (g)
		graph_free(g);
	arena_free(&a);
	return rc;
}

TEST(empty_weights_are_no_task)
{
	CHECK_OK(divide_conv("0 1 1 1"));
}

/* Portable code runs bytes unless a choice says otherwise; the graph search looks at that choice first. */
TEST(bytes_are_the_first_alternative)
{
	struct byte_net m;
	struct blob b = byte_net(&m, 1, &(struct byte_net_size){0});
	struct graph *g;
	const struct import_opts none = {0};
	const struct target t = {.lanes = 8};
	struct arena a = {0};
	struct choices c = {0}, *other;
	struct steps *s;
	REQUIRE_OK(import_bytes(b.p, b.n, ".", &none, &g));
	REQUIRE_OK(graph_optimize(g));
	REQUIRE_OK(graph_steps(g, &t, NULL, &a, &s));
	CHECK(steps_leave_bytes(g, s, &c));
	int n = graph_alternatives(g, s, &c, &a, &other);
	REQUIRE(n > 0);
	CHECK(choices_get(&other[0], CHOICE_BYTES, CHOICE_ALL, 0) == 1);
	c = other[0];
	REQUIRE_OK(graph_steps(g, &t, &c, &a, &s));
	CHECK(!steps_leave_bytes(g, s, &c));
	n = graph_alternatives(g, s, &c, &a, &other);
	CHECK_OK(n);
	for (int i = 0; i < n; i++)
		CHECK(choices_get(&other[i], CHOICE_BYTES, CHOICE_ALL, 1) == 1);
	graph_free(g);
	arena_free(&a);
	arena_free(&m.k.a);
}

static int count_convolutions(const struct graph *g, const struct steps *s)
{
	int n = 0;
	for (int i = 0; i < s->nsteps; i++)
		n += s->step[i].kind == STEP_HOST &&
		     !strcmp(node_type(&g->node[s->step[i].node]), "QLinearConv");
	return n;
}

/* A first convolution of three channels alone may go back to portable code, which does it in no groups of
 * four. */
TEST(a_stem_may_go_back)
{
	for (int channels = 3; channels <= 4; channels++) {
		struct byte_net m;
		struct blob b = byte_net(&m, 2, &(struct byte_net_size){channels, 16, 12});
		struct graph *g;
		const struct import_opts none = {0};
		const struct target t = {.lanes = 8};
		struct arena a = {0};
		struct choices c = {0}, *other;
		struct steps *s;
		REQUIRE_OK(import_bytes(b.p, b.n, ".", &none, &g));
		REQUIRE_OK(graph_optimize(g));
		choices_set(&c, &a, CHOICE_BYTES, CHOICE_ALL, 1);
		REQUIRE_OK(graph_steps(g, &t, &c, &a, &s));
		int n = graph_alternatives(g, s, &c, &a, &other), found = 0;
		REQUIRE(n >= 0 && count_convolutions(g, s) == 0);
		for (int i = 0; i < n; i++)
			for (int k = 0; k < other[i].n; k++) {
				const struct choice *one = &other[i].choice[k];
				if (one->kind != CHOICE_BYTES || one->number)
					continue;
				found++;
				REQUIRE_OK(graph_steps(g, &t, &other[i], &a, &s));
				CHECK(count_convolutions(g, s) == 1);
			}
		CHECK(found == (channels == 3));
		graph_free(g);
		arena_free(&a);
		arena_free(&m.k.a);
	}
}

TEST_MAIN
