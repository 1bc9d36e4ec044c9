/* SPDX-License-Identifier: Apache-2.0 */
/* Constants that exercises share. */
#include "agent/worker/exercise.h"
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

/* A product of [8,16] weights; `post` comes after its sums, and V is a second constant of the weights' form.
 */
static void product_text(const char *dims, const char *post, char *text, size_t n)
{
	snprintf(text, n,
		 "task syms=0\noperand X in f32 [4,16] plain\noperand W const f32 %s plain\n"
		 "operand V const f32 [8,16] plain\noperand Y out f32 [4,8] plain\nstage m:4 n:8 | k:16\n"
		 "read X [m,k]\nread W [n,k]\nread V [n,k]\nbody r0 r1 r2 add mul\nsum\n%swrite Y [m,n]\n",
		 dims, post);
}

static struct exercise *open_product(struct constant **all, const char *dims, const char *post)
{
	char text[512];
	struct exercise *x = NULL;
	product_text(dims, post, text, sizeof text);
	CHECK_OK(exercise_open(text, all, &x));
	return x;
}

TEST(tasks_share_constants_of_one_form)
{
	struct constant *all = NULL;
	struct exercise *a = open_product(&all, "[8,16]", ""),
			*b = open_product(&all, "[8,16]", "post acc 0 max\n"),
			*c = open_product(&all, "[9,16]", "");
	REQUIRE(a && b && c);
	CHECK(a->constant[1] && a->constant[1] == b->constant[1] && a->bufs[1] == b->bufs[1]);
	CHECK(a->constant[2] == b->constant[2] && c->constant[1] != a->constant[1]);
	CHECK(a->constant[1] != a->constant[2]); /* two operands of one task never have the same values */
	CHECK(memcmp(a->bufs[1], a->bufs[2], 8 * 16 * 4) != 0);
	CHECK(c->constant[2] == a->constant[1]); /* the first of this form in its task */
	CHECK(!a->constant[0] && !a->constant[3] && a->bufs[0] != b->bufs[0]);
	exercise_close(a);
	CHECK(b->constant[1]->users == 2);
	exercise_close(b);
	exercise_close(c);
	CHECK(!all);
}

TEST(one_packing_for_all)
{
	struct constant *all = NULL;
	struct exercise *a = open_product(&all, "[8,16]", ""),
			*b = open_product(&all, "[8,16]", "post acc 0 max\n");
	struct code_buf turned = {.name = "W", .operand = 1, .packed = true, .elems = 128, .role = BUF_CONST};
	struct packed *p, *q, *r;
	REQUIRE(a && b);
	turned.packing = (struct packing){.n = 2, .extent = {16, 8}, .src = a->task.operand[1].dims};
	turned.packing.coef[0][1] = turned.packing.coef[1][0] = 1;
	struct code_buf longer = turned;
	longer.elems = 192;
	REQUIRE_OK(constant_pack(a->constant[1], &turned, &p));
	REQUIRE_OK(constant_pack(b->constant[1], &turned, &q));
	REQUIRE_OK(constant_pack(b->constant[1], &longer, &r));
	CHECK(p == q && r != p && packed_bytes(p) == 512 && packed_bytes(r) == 768);
	const float *w = a->bufs[1], *t = packed_data(p);
	for (int i = 0; i < 128; i++)
		CHECK(t[i % 16 * 8 + i / 16] == w[i]);
	struct code_buf half = turned;
	struct packed *h;
	half.packing.f16 = true;
	REQUIRE_OK(constant_pack(a->constant[1], &half, &h));
	CHECK(h != p && packed_bytes(h) == 256);
	const uint16_t *v = packed_data(h);
	for (int i = 0; i < 128; i++)
		CHECK(f16_to_f32(v[i]) == t[i]); /* constants are numbers that f16 holds */
	constant_unpack(h);
	constant_unpack(p);
	exercise_close(a);
	CHECK(t[5 * 8 + 3] == w[3 * 16 + 5]); /* still in use */
	constant_unpack(q);
	constant_unpack(r);
	CHECK(!b->constant[1]->packed);
	/* a texture has elements of four bytes, also if a buffer has the same packing */
	struct code_buf texture = turned;
	texture.texture = true;
	for (int packed = 0; packed < 2; packed++) {
		b->constant[1]->as.dtype = DT_I8;
		if (packed)
			REQUIRE_OK(constant_pack(b->constant[1], &turned, &p));
		CHECK_FAILS(constant_pack(b->constant[1], &texture, &q), E_CORRUPT, "not of an f32 operand");
		if (packed)
			constant_unpack(p);
		b->constant[1]->as.dtype = DT_F32;
		REQUIRE_OK(constant_pack(b->constant[1], &texture, &q));
		constant_unpack(q);
	}
	turned.packing.src.d[0] = 7;
	CHECK_FAILS(constant_pack(b->constant[1], &turned, &p), E_CORRUPT, "does not fit");
	exercise_close(b);
	CHECK(!all);
}

TEST_MAIN
