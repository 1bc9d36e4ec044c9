/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test.h"
#include "tests/lib/tasks.h"

#include <math.h>

static struct task task, other;

TEST(text_round_trips_exactly)
{
	struct rng r;
	rng_seed(&r, 7);
	for (int i = 0; i < 3000; i++) {
		struct buf a = {0}, b = {0};
		task_random(&r, &task);
		REQUIRE_OK(task_check(&task));
		task_text(&task, &a);
		REQUIRE_OK(task_parse(buf_str(&a), &other));
		task_text(&other, &b);
		CHECK(!strcmp(buf_str(&a), buf_str(&b)));
		CHECK(key_equal(task_key(&task), task_key(&other)));
		REQUIRE(!memcmp(&task, &other, sizeof task));
		buf_free(&a);
		buf_free(&b);
	}
}

TEST(written_tasks_are_canonical)
{
	const char *const texts[] = {task_conv, task_softmax};
	for (int i = 0; i < 2; i++) {
		struct buf b = {0};
		REQUIRE_OK(task_parse(texts[i], &task));
		task_text(&task, &b);
		CHECK(!strcmp(buf_str(&b), texts[i]));
		buf_free(&b);
	}
}

/* Every prefix and thousands of mutations either fail as corrupt or give a task that round-trips. */
TEST(hostile_text_is_corrupt)
{
	static const char letters[] = "0123456789$-+*/%|[]().,;:@?\nabcxyzr \x01\xff";
	struct rng r;
	rng_seed(&r, 11);
	for (int i = 0; i < 40000; i++) {
		char text[sizeof task_softmax + 8];
		snprintf(text, sizeof text, "%s", i & 1 ? task_conv : task_softmax);
		size_t n = strlen(text);
		for (uint32_t k = rng_below(&r, 4); k < 4; k++)
			text[rng_below(&r, (uint32_t)n)] = letters[rng_below(&r, sizeof letters - 1)];
		if (rng_below(&r, 4) == 0)
			text[rng_below(&r, (uint32_t)n)] = 0;
		int rc = task_parse(text, &task);
		CHECK(rc == E_OK || rc == E_CORRUPT);
		if (rc < 0)
			continue;
		struct buf a = {0};
		task_text(&task, &a);
		REQUIRE_OK(task_parse(buf_str(&a), &other));
		CHECK(key_equal(task_key(&task), task_key(&other)));
		buf_free(&a);
	}
}

static int parse_with(const char *from, const char *to)
{
	static char text[2048];
	const char *at = strstr(task_conv, from);
	if (!at)
		return E_NOTFOUND;
	snprintf(text, sizeof text, "%.*s%s%s", (int)(at - task_conv), task_conv, to, at + strlen(from));
	return task_parse(text, &task);
}

TEST(check_names_what_is_wrong)
{
	CHECK_FAILS(parse_with("k:24", "k:23"), E_CORRUPT, "not written whole");
	CHECK_FAILS(parse_with("Y [n,k,y,x]", "Y [n,k,y,y]"), E_CORRUPT, "axis y");
	CHECK_FAILS(parse_with("Y [n,k,y,x]", "Y [n,k,y,s]"), E_CORRUPT, "output Y");
	CHECK_FAILS(parse_with("acc r2 add", "acc r1 add"), E_CORRUPT, "reduction axis");
	CHECK_FAILS(parse_with("acc r2 add", "acc add"), E_CORRUPT, "stack");
	CHECK_FAILS(parse_with("sum\n", ""), E_CORRUPT, "combiner");
	CHECK_FAILS(parse_with("operand B", "operand W"), E_CORRUPT, "name of an operand");
	CHECK_FAILS(parse_with("0.1/16.2.3.1\n", "0.1/16.2.3\n"), E_CORRUPT, "leaves out dim 1");
	CHECK_FAILS(parse_with("[24]", "[99999999999]"), E_CORRUPT, "dim 0");
	CHECK_FAILS(parse_with("[n,c,y+r-1", "[n,c,y+r-1?"), E_CORRUPT, "guard");
	CHECK_FAILS(parse_with("syms=0", "syms=97"), E_CORRUPT, "line 1");
	CHECK_OK(parse_with("k:24", "k:24"));
}

TEST(offsets_follow_the_layout)
{
	REQUIRE_OK(task_parse(task_conv, &task));
	const struct operand *x = &task.operand[0];
	CHECK(operand_elems(x) == 2 * 9 * 11 * 16);
	CHECK(operand_offset(x, (int64_t[]){0, 0, -1, -1}) == 0);
	CHECK(operand_offset(x, (int64_t[]){0, 17, 2, 3}) == (9 * 11 + 3 * 11 + 4) * 16 + 1);
	CHECK(operand_elems(&task.operand[3]) == 2 * 7 * 9 * 16);
	CHECK(operand_elems(&task.operand[1]) == 24 * 32 * 9);
}

TEST(pack_and_unpack_are_inverse)
{
	struct rng r;
	rng_seed(&r, 3);
	for (int i = 0; i < 300; i++) {
		task_random(&r, &task);
		const struct operand *o = &task.operand[rng_below(&r, (uint32_t)task.stage[0].nreads)];
		int64_t n = shape_count(&o->dims), m = operand_elems(o), at[MAX_RANK] = {0};
		float *a = malloc(sizeof *a * (size_t)n), *b = malloc(sizeof *b * (size_t)n),
		      *p = malloc(sizeof *p * (size_t)m);
		rng_fill(&r, a, (size_t)n);
		operand_pack(o, a, p);
		operand_unpack(o, p, b);
		CHECK(!memcmp(a, b, sizeof *a * (size_t)n));
		int64_t filled = 0;
		for (int64_t j = 0; j < m; j++)
			filled += p[j] == o->fill;
		CHECK(filled == m - n);
		for (int64_t j = 0; j < n; j++) {
			CHECK(p[operand_offset(o, at)] == a[j]);
			for (int d = o->dims.rank - 1; d >= 0 && ++at[d] == o->dims.d[d]; d--)
				at[d] = 0;
		}
		free(a);
		free(b);
		free(p);
	}
}

TEST(reference_is_a_convolution)
{
	static float x[2 * 9 * 11 * 16], plain[32 * 63], w[24 * 32 * 9], b[24], y[2 * 63 * 16];
	struct rng r;
	struct arena a = {0};
	rng_seed(&r, 5);
	REQUIRE_OK(task_parse(task_conv, &task));
	rng_fill(&r, plain, 32 * 63);
	rng_fill(&r, w, 24 * 32 * 9);
	rng_fill(&r, b, 24);
	operand_pack(&task.operand[0], plain, x);
	void *bufs[] = {x, w, b, y};
	REQUIRE_OK(task_reference(&task, bufs, &a));
	for (int k = 0; k < 24; k += 5)
		for (int p = 0; p < 63; p++) {
			double sum = (double)b[k];
			for (int c = 0; c < 32; c++)
				for (int i = 0; i < 9; i++) {
					int v = p / 9 + i / 3 - 1, h = p % 9 + i % 3 - 1;
					if (v >= 0 && v < 7 && h >= 0 && h < 9)
						sum += (double)plain[c * 63 + v * 9 + h] *
						       (double)w[(k * 32 + c) * 9 + i];
				}
			sum = sum > 0 ? sum : 0;
			float got = y[operand_offset(&task.operand[3], (int64_t[]){0, k, p / 9, p % 9})];
			CHECK(fabs(sum - (double)got) < 1e-5);
			CHECK(fabs(task_point(&task, bufs, (int64_t[]){0, k, p / 9, p % 9}) - sum) < 1e-9);
		}
	CHECK(task_flops(&task) == 24 * 63 * (32 * 9 * 2 + 2.0));
	CHECK(task_bytes(&task, false) == 4 * (32 * 63 + 24 * 63.0));
	arena_free(&a);
}

TEST(flops_are_those_of_the_kernel)
{
	static const char map[] = "task syms=0\noperand X in f32 [7] plain\noperand Y out f32 [7] plain\n"
				  "stage n:7\nread X [n]\nbody r0 2 mul\npost acc silu\nwrite Y [n]\n";
	REQUIRE_OK(task_parse(map, &task));
	CHECK(task_flops(&task) == 7 * (1 + 20));
}

TEST(stages_chain)
{
	float x[5 * 19], y[5 * 19];
	struct rng r;
	struct arena a = {0};
	rng_seed(&r, 9);
	rng_fill(&r, x, 5 * 19);
	REQUIRE_OK(task_parse(task_softmax, &task));
	void *bufs[] = {x, NULL, NULL, y};
	REQUIRE_OK(task_reference(&task, bufs, &a));
	for (int i = 0; i < 5; i++) {
		double sum = 0;
		for (int j = 0; j < 19; j++) {
			sum += (double)y[i * 19 + j];
			CHECK(fabs(task_point(&task, bufs, (int64_t[]){i, j}) - (double)y[i * 19 + j]) <
			      1e-6);
		}
		CHECK(fabs(sum - 1) < 1e-6);
	}
	arena_free(&a);
}

/* The same task with other sizes has the same generic text; the symbols' values give the sizes back. */
TEST(generic_form_forgets_sizes_only)
{
	struct buf a = {0}, b = {0};
	int64_t p[MAX_SYMS], q[MAX_SYMS];
	static struct task g;
	REQUIRE_OK(task_parse(task_conv, &task));
	int n = task_abstract(&task, &g, p);
	REQUIRE_OK(n);
	REQUIRE_OK(task_check(&g));
	task_text(&g, &a);
	REQUIRE_OK(task_parse(buf_str(&a), &other));
	other = task;
	struct stage *s = &other.stage[0];
	int64_t k = 40, c = 48, y = 11;
	other.operand[0].dims.d[1] = other.operand[1].dims.d[1] = s->axis[4].extent = c;
	other.operand[1].dims.d[0] = other.operand[2].dims.d[0] = other.operand[3].dims.d[1] =
	    s->axis[1].extent = k;
	other.operand[0].dims.d[2] = other.operand[3].dims.d[2] = s->axis[2].extent = y;
	REQUIRE_OK(task_check(&other));
	CHECK(task_abstract(&other, &g, q) == n);
	task_text(&g, &b);
	CHECK(!strcmp(buf_str(&a), buf_str(&b)));
	int differ = 0;
	for (int i = 0; i < n; i++)
		differ += p[i] != q[i];
	CHECK(differ == 4);         /* k, y and c once each, and the height of X apart from y */
	s->read[0].dim[2].off = -2; /* reaches outside of the halo: another text */
	buf_clear(&b);
	CHECK(task_abstract(&other, &g, q) == n);
	task_text(&g, &b);
	CHECK(strcmp(buf_str(&a), buf_str(&b)) && strstr(buf_str(&b), "?"));
	buf_free(&a);
	buf_free(&b);
}

TEST(labels_say_what_it_is)
{
	char label[96];
	REQUIRE_OK(task_parse(task_conv, &task));
	task_label(&task, label);
	CHECK(!strcmp(label, "conv 3x3 32->24 7x9 relu"));
}

TEST_MAIN
