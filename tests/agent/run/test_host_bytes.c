/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks over bytes on the portable path: the same bytes as the reference, however threads divide them. */
#include "agent/run/fallback.h"
#include "agent/run/host.h"
#include "agent/run/host_tile.h"
#include "kernels/task/task_stage.h"
#include "tests/lib/byte_cases.h"

/* Runs the entries in two parts, the later one first. */
static void run_divided(const struct host_task *h, void *const *bufs, struct rng *r, struct arena *a)
{
	void *scratch = arena_aligned(a, host_scratch_bytes(), 64);
	for (int e = 0; e < host_entries(h); e++) {
		int64_t n = host_extent(h, e), cut = rng_below(r, (uint32_t)n + 1);
		host_run(h, e, bufs, cut, n, scratch);
		host_run(h, e, bufs, 0, cut, scratch);
	}
}

static bool agrees(struct kcase *c, struct rng *r)
{
	struct operand packed[MAX_OPERANDS];
	void *bufs[MAX_OPERANDS];
	struct host_task *h;
	bool good = true;
	if (host_make(&c->t, HOST_RUNS, tile_lanes(), NULL, &c->a, packed, &h) < 0)
		return false;
	CHECK(host_is_exact(h) == !task_floats(&c->t));
	for (int i = 0; i < c->t.noperands; i++)
		bufs[i] = c->t.operand[i].role != ROLE_TMP
			      ? c->phys[i]
			      : arena_alloc(&c->a,
					    dtype_bytes(packed[i].dtype) * (size_t)operand_elems(&packed[i]));
	run_divided(h, bufs, r, &c->a);
	for (int i = 0; i < c->t.noperands; i++) {
		const struct operand *o = &c->t.operand[i];
		size_t bytes = (size_t)c->elems[i] * dtype_bytes(o->dtype);
		if (o->role == ROLE_OUT)
			good &= !memcmp(c->phys[i], c->ref[i], bytes) &&
				intact_type(c->phys[i], c->elems[i], (int64_t)dtype_bytes(o->dtype));
	}
	return good;
}

TEST(random_tasks_over_bytes)
{
	int chains = 0;
	for (uint64_t seed = 1; seed <= 400; seed++) {
		struct rng r;
		struct kcase c;
		struct buf text = {0};
		rng_seed(&r, seed);
		byte_text(&text, &r);
		REQUIRE_OK(case_parse(&c, buf_str(&text), &r));
		chains += c.t.nstages > 1;
		if (!task_floats(&c.t) && !agrees(&c, &r)) {
			printf("seed %d\n%s", (int)seed, buf_str(&text));
			test_bad = 1;
		}
		arena_free(&c.a);
		buf_free(&text);
	}
	CHECK(chains > 20);
}

TEST(kernels_of_floats_refuse_bytes)
{
	struct fallback_parts parts;
	struct arena a = {0};
	struct code code;
	struct task t;
	const struct target host = {.isa = "x86-64-v4", .lanes = 16};
	REQUIRE_OK(
	    task_parse("task syms=0\noperand X in u8 [8,600] plain\noperand W const i8 [600,64] plain\n"
		       "operand Y out f32 [8,64] plain\nstage m:8 n:64 | k:600\nread X [m,k]\nread W "
		       "[k,n]\nbody r0 r1 mul\nsum\nwrite Y [m,n]\n",
		       &t));
	CHECK(host_fit(&t) == FITS_NOT);
	CHECK_FAILS(fallback_split(&t, 16, true, &parts), E_UNSUPPORTED, "integers");
	CHECK_FAILS(fallback_find(&t, &host, &a, &parts, &code), E_UNSUPPORTED, "integers");
	arena_free(&a);
}

TEST_MAIN
