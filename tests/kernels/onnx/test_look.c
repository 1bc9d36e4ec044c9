/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/onnx/look.h"
#include "tests/lib/onnx_make.h"

static struct blob sample(struct onnx_maker *k)
{
	const float w[3] = {1, 2, 3};
	mk_start(k, 17, 4);
	k->m.producer_name = mk_text("maker");
	mk_input(k, "x", 1, "n 3");
	mk_input(k, "w", 1, "3"); /* a constant that is also listed as an input */
	mk_input(k, "s", 8, NULL);
	mk_init(k, "w", 1, "3", w, sizeof w);
	mk_node(k, "Add", "x w", "a");
	mk_node(k, "Relu", "a", "b")->domain = mk_text("ai.onnx");
	mk_node(k, "Add", "b w", "c");
	mk_node(k, "Relu", "c", "y")->domain = mk_text("com.own");
	mk_output(k, "y");
	return mk_bytes(k);
}

TEST(what_a_file_declares)
{
	struct onnx_maker k;
	struct arena a = {0};
	struct onnx_look l;
	struct blob b = sample(&k);
	REQUIRE_OK(look_bytes(b.p, b.n, NULL, &a, &l));
	CHECK(!strcmp(l.producer, "maker") && l.ir == 8 && l.nodes == 4 && l.weights == 3);
	REQUIRE(l.nopsets == 1 && l.nin == 2 && l.nout == 1);
	CHECK(!strcmp(l.opset[0].domain, "ai.onnx") && l.opset[0].version == 17);
	CHECK(!strcmp(l.in[0].name, "x") && !strcmp(l.in[0].type, "f32") && l.in[0].rank == 2);
	CHECK(l.in[0].dim[0].size == -1 && !strcmp(l.in[0].dim[0].name, "n") && l.in[0].dim[1].size == 3);
	CHECK(!strcmp(l.in[1].name, "s") && !strcmp(l.in[1].type, "string") && !l.in[1].ranked);
	REQUIRE(l.nops == 3);
	CHECK(!strcmp(l.op[0].type, "Add") && l.op[0].uses == 2);
	CHECK(!strcmp(l.op[1].type, "Relu") && !*l.op[1].domain && l.op[1].uses == 1);
	CHECK(!strcmp(l.op[2].type, "Relu") && !strcmp(l.op[2].domain, "com.own"));
	arena_free(&a);
	arena_free(&k.a);
}

/* Every bit is flipped, and the file is cut everywhere. */
TEST(damaged_files)
{
	struct onnx_maker k;
	struct blob b = sample(&k);
	int good = 0;
	for (size_t i = 0; i < b.n * 8 + b.n; i++) {
		size_t n = i < b.n * 8 ? b.n : i - b.n * 8;
		struct arena a = {0};
		struct onnx_look l;
		unsigned char *copy = malloc(n ? n : 1);
		memcpy(copy, b.p, n);
		if (n == b.n)
			copy[i / 8] ^= (unsigned char)(1 << i % 8);
		good += look_bytes(copy, n, NULL, &a, &l) >= 0;
		arena_free(&a);
		free(copy);
	}
	CHECK(good > 0 && good < (int)b.n * 9);
	arena_free(&k.a);
}

TEST_MAIN
