/* SPDX-License-Identifier: Apache-2.0 */
/* Malicious models give an error, never a crash, in bounded memory and time. */
#include "tests/lib/onnx_make.h"
#include "platform/base/clock.h"
#include "platform/base/rng.h"
#include "platform/base/until.h"
#include <inttypes.h>

static const struct import_opts capped = {.max_bytes = 1 << 30};

static int import_made(struct onnx_maker *k)
{
	struct graph *g;
	int rc = mk_import(k, NULL, &capped, &g);
	if (rc >= 0)
		graph_free(g);
	return rc;
}

static int import_raw(const void *p, size_t n)
{
	struct graph *g;
	int rc = import_bytes(p, n, NULL, &capped, &g);
	if (rc >= 0)
		graph_free(g);
	return rc;
}

static void start(struct onnx_maker *k, const char *dims)
{
	static const float w[] = {1, 2, 3};
	mk_start(k, 17, 8);
	mk_input(k, "x", 1, dims);
	mk_init(k, "w", 1, "3", w, sizeof w);
	mk_node(k, "Add", "x w", "y");
	mk_output(k, "y");
}

TEST(huge_and_negative_dimensions)
{
	static const struct {
		const char *dims, *part;
	} rows[] = {
	    {"9223372036854775807 9223372036854775807 3", "more than"},
	    {"4294967296 4294967296 3", "more than"},
	    {"0 9223372036854775807 9223372036854775807 3", "more than"},
	    {"-2 3", "dimension is -2"},
	    {"-9223372036854775808 3", "dimension is"},
	    {"2147483647 3", "more than"},
	};
	struct onnx_maker k;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		start(&k, rows[i].dims);
		CHECK_FAILS(import_made(&k), E_CORRUPT, rows[i].part);
	}
	start(&k, "1 1 1 1 1 1 1 1 3");
	CHECK_FAILS(import_made(&k), E_UNSUPPORTED, "rank 9");
	start(&k, "1 3");
	k.g.initializer[0]->dims[0] = -3;
	CHECK_FAILS(import_made(&k), E_CORRUPT, "negative");
	start(&k, "1 3");
	k.g.initializer[0]->dims[0] = INT64_MAX / 2;
	CHECK_FAILS(import_made(&k), E_CORRUPT, "more than");
	start(&k, "1 3");
	k.g.initializer[0]->dims[0] = 2;
	CHECK_FAILS(import_made(&k), E_CORRUPT, "12 bytes of data where its dimensions say 8");
}

/* Each node doubles the rank's product: the graph's shapes overflow, not the file's. */
TEST(shapes_that_grow)
{
	struct onnx_maker k;
	mk_start(&k, 17, 100);
	mk_input(&k, "v0", 1, "1024 1");
	char in[32], out[32];
	for (int i = 0; i < 40; i++) {
		snprintf(in, sizeof in, "v%d v%d", i, i);
		snprintf(out, sizeof out, "v%d", i + 1);
		Onnx__NodeProto *n = mk_node(&k, "Concat", in, out);
		Onnx__AttributeProto *a = mk_attr(&k, n, "axis", 2);
		a->has_i = 1;
		a->i = 1;
	}
	mk_output(&k, "v40");
	CHECK_FAILS(import_made(&k), E_CORRUPT, "more than");
}

/* Constants out of nothing: folding must stay within its budget. */
TEST(constants_that_grow)
{
	enum { N = 3000 };
	static const int64_t shape[] = {65536};
	struct onnx_maker k;
	mk_start(&k, 17, 2 * N + 2);
	mk_init(&k, "s", 7, "1", shape, sizeof shape);
	for (int i = 0; i < N; i++)
		mk_node(&k, "ConstantOfShape", "s", arena_printf(&k.a, "c%d", i));
	mk_output(&k, "c0");
	struct graph *g;
	REQUIRE_OK(mk_import(&k, NULL, &capped, &g));
	CHECK(g->arena.used_bytes < 200u << 20);
	graph_free(g);
}

/* The sum of all products of `n` constants of `size` elements. */
static void start_products(struct onnx_maker *k, int n, int size)
{
	static const float ones[4096];
	char in[64] = "", equation[64] = "";
	mk_start(k, 17, 8);
	for (int i = 0; i < n; i++) {
		const char *name = arena_printf(&k->a, "c%d", i);
		mk_init(k, name, 1, arena_printf(&k->a, "%d", size), ones, (size_t)size * sizeof *ones);
		sprintf(in + strlen(in), "%s ", name);
		sprintf(equation + strlen(equation), "%s%c", i ? "," : "", 'a' + i);
	}
	strcat(equation, "->");
	mk_attr_str(k, mk_node(k, "Einsum", in, "y"), "equation", equation);
	mk_output(k, "y");
}

/* Few elements, but very many products: they are not computed, or not to the end. */
TEST(products_of_small_constants)
{
	struct onnx_maker k;
	struct graph *g;
	double begun_s = test_now_s();
	for (int size = 8; size <= 64; size *= 8) {
		start_products(&k, 6, size);
		REQUIRE_OK(mk_import(&k, NULL, &capped, &g));
		CHECK(g->value[g->output[0]].t.data ? size == 8 : size == 64);
		graph_free(g);
	}
	CHECK(test_now_s() - begun_s < 10);
	struct until until = {.clock = &clock_real, .end_ns = clock_now(&clock_real) + 100 * NS_PER_MS};
	start_products(&k, 3, 2048);
	until_set(&until);
	CHECK_FAILS(import_made(&k), E_TIMEOUT, "time is over");
	CHECK(test_now_s() - begun_s < 10);
	until_set(NULL);
}

/* A million nodes in the worst order, with one node that reads all of them. */
TEST(a_million_nodes)
{
	enum { N = 1000000 };
	struct onnx_maker k;
	mk_start(&k, 17, N + 1);
	mk_input(&k, "v0", 1, "3");
	for (int i = N; i > 0; i--)
		mk_node(&k, "Neg", arena_printf(&k.a, "v%d", i - 1), arena_printf(&k.a, "v%d", i));
	mk_output(&k, arena_printf(&k.a, "v%d", N));
	struct blob b = mk_bytes(&k);
	const struct import_opts plain = {0};
	struct graph *g;
	REQUIRE_OK(import_bytes(b.p, b.n, NULL, &plain, &g));
	CHECK(g->nnodes == N && g->node[0].in[0] == g->input[0]);
	graph_free(g);
	const struct import_opts small = {.max_bytes = 64 << 20};
	CHECK_FAILS(import_bytes(b.p, b.n, NULL, &small, &g), E_NOMEM, "memory");
	arena_free(&k.a);
}

TEST(a_million_unsupported_nodes)
{
	enum { N = 300000 };
	struct onnx_maker k;
	mk_start(&k, 17, N + 1);
	mk_input(&k, "x", 1, "3");
	for (int i = 0; i < N; i++)
		mk_node(&k, "Nonesuch", "x", arena_printf(&k.a, "v%d", i));
	mk_output(&k, "v0");
	CHECK_FAILS(import_made(&k), E_UNSUPPORTED, "300000 parts of the model cannot be used");
}

/* Subgraphs in subgraphs are unknown fields here: bytes that are skipped. */
TEST(deep_nesting)
{
	enum { DEPTH = 100000, BYTES = DEPTH * 24 };
	uint8_t *p = malloc(BYTES), *at = p + BYTES;
	static const uint8_t tags[] = {7 << 3 | 2, 1 << 3 | 2, 5 << 3 | 2,
				       6 << 3 | 2}; /* graph, node, attribute, g */
	for (int i = 0; i < DEPTH; i++) {
		uint64_t n = (uint64_t)(p + BYTES - at);
		uint8_t len[10];
		int k = 0;
		do
			len[k++] = (uint8_t)((n & 127) | (n > 127 ? 128 : 0));
		while (n >>= 7);
		at -= k;
		memcpy(at, len, (size_t)k);
		*--at = i == DEPTH - 1 ? tags[0] : tags[1 + (DEPTH - 2 - i) % 3];
	}
	CHECK(import_raw(at, (size_t)(p + BYTES - at)) < 0);
	free(p);
}

/* A message that is repeated is merged each time: the memory limit must stop it. */
TEST(merged_messages)
{
	enum { REPEATS = 200000 };
	static const uint8_t part[] = {7 << 3 | 2, 4,          1 << 3 | 2,
				       2,          2 << 3 | 2, 0}; /* graph { node { output "" } } */
	uint8_t *p = malloc(sizeof part * REPEATS);
	for (int i = 0; i < REPEATS; i++)
		memcpy(p + (size_t)i * sizeof part, part, sizeof part);
	const struct import_opts small = {.max_bytes = 256 << 20};
	struct graph *g;
	CHECK_FAILS(import_bytes(p, sizeof part * REPEATS, NULL, &small, &g), E_NOMEM, "memory");
	free(p);
}

static void big_model(struct onnx_maker *k)
{
	static const int64_t shape[] = {1, -1};
	float w[27 * 4] = {1, 2, 3};
	mk_start(k, 17, 16);
	mk_input(k, "x", 1, "n 3 8 8");
	mk_init(k, "w", 1, "4 3 3 3", w, sizeof w);
	mk_init(k, "s", 7, "2", shape, sizeof shape);
	Onnx__NodeProto *n = mk_node(k, "Conv", "x w", "a");
	Onnx__AttributeProto *at = mk_attr(k, n, "pads", 7);
	static int64_t pads[] = {1, 1, 1, 1};
	at->n_ints = 4;
	at->ints = pads;
	mk_node(k, "Relu", "a", "b");
	mk_node(k, "Shape", "b", "bs");
	mk_node(k, "Reshape", "b s", "c");
	mk_node(k, "Reshape", "c bs", "y");
	mk_output(k, "y");
}

TEST(truncated_at_every_byte)
{
	struct onnx_maker k;
	big_model(&k);
	struct blob b = mk_bytes(&k);
	REQUIRE_OK(import_raw(b.p, b.n));
	int good = 0;
	for (size_t n = 0; n < b.n; n++)
		good += import_raw(b.p, n) >= 0;
	CHECK(good <= 2); /* only the end of an opset entry may be cut off unnoticed */
	arena_free(&k.a);
}

TEST(every_bit_flipped)
{
	struct onnx_maker k;
	big_model(&k);
	struct blob b = mk_bytes(&k);
	uint8_t *p = arena_memdup(&k.a, b.p, b.n);
	for (size_t i = 0; i < b.n * 8; i++) {
		p[i / 8] ^= (uint8_t)(1 << i % 8);
		(void)import_raw(p, b.n);
		p[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	CHECK_OK(import_raw(p, b.n));
	arena_free(&k.a);
}

TEST(random_damage)
{
	struct onnx_maker k;
	struct rng r;
	rng_seed(&r, 7);
	big_model(&k);
	struct blob b = mk_bytes(&k);
	uint8_t *p = arena_alloc(&k.a, b.n);
	for (int round = 0; round < 3000; round++) {
		memcpy(p, b.p, b.n);
		for (uint32_t i = 0, n = 1 + rng_below(&r, 6); i < n; i++)
			p[rng_below(&r, (uint32_t)b.n)] = (uint8_t)rng_u64(&r);
		(void)import_raw(p, b.n);
	}
	CHECK_OK(import_raw(b.p, b.n));
	arena_free(&k.a);
}

TEST(garbage)
{
	CHECK_FAILS(import_raw("", 0), E_CORRUPT, "not ONNX");
	CHECK_FAILS(import_raw("<!DOCTYPE html>", 15), E_CORRUPT, "not ONNX");
	struct onnx_maker k;
	start(&k, "1 3"); /* unused things do not matter */
	mk_init(&k, "unused", 1, "0", "", 0);
	mk_node(&k, "Relu", "unused", "gone");
	CHECK_OK(import_made(&k));
}

TEST_MAIN
