/* SPDX-License-Identifier: Apache-2.0 */
/* The local runner on this processor: compiled kernels, first runs in children, threads. */
#include "agent/worker/wire.h"
#include "kernels/emit/emit.h"
#include "kernels/space/space.h"
#include "platform/run/dev.h"
#include "platform/run/sandbox.h"
#include "tests/lib/cands.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

#include <sys/prctl.h>

extern const struct dev dev_cpu;
extern const struct emit emit_llvm;

static const char conv_8[] = "task syms=0\n"
			     "operand X in f32 [1,32,30,30] plain\n"
			     "operand W const f32 [24,32,3,3] plain\n"
			     "operand Y out f32 [1,24,28,28] plain\n"
			     "stage n:1 k:24 y:28 x:28 | c:32 r:3 s:3\n"
			     "read X [n,c,y+r,x+s]\n"
			     "read W [k,c,r,s]\n"
			     "body r0 r1 mul\n"
			     "sum\n"
			     "write Y [n,k,y,x]\n";

/* Quantized: a padded image with a zero point, 40 channels in blocks of 16, and a halo that stays untouched.
 */
static const char conv_bytes[] = "task syms=0\n"
				 "operand X in u8 [1,24,14,14] 0.1/16.2.3.1 fill=128\n"
				 "operand W const i8 [40,24,3,3] plain\n"
				 "operand B const i32 [40] plain\n"
				 "operand S const f32 [40] plain\n"
				 "operand Y out u8 [1,40,14,14] 0.1/16.2.3.1;2+1+1;3+1+1 fill=7\n"
				 "stage n:1 k:40 y:14 x:14 | c:24 r:3 s:3\n"
				 "read X [n,c,y+r-1,x+s-1]\n"
				 "read W [k,c,r,s]\n"
				 "read B [k]\n"
				 "read S [k]\n"
				 "body r0 r1 mul\n"
				 "sum\n"
				 "post acc r2 add r3 mul rint 7 add\n"
				 "write Y [n,k,y,x]\n";

/* Rows of 35 bytes, whose last group reaches a byte past the input's end. */
static const char rows_bytes[] = "task syms=0\n"
				 "operand X in u8 [9,35] plain\n"
				 "operand W const i8 [35,40] plain\n"
				 "operand S const f32 [40] plain\n"
				 "operand Y out i8 [9,40] plain\n"
				 "stage m:9 n:40 | k:35\n"
				 "read X [m,k]\n"
				 "read W [k,n]\n"
				 "read S [n]\n"
				 "body r0 r1 mul\n"
				 "sum\n"
				 "post acc r2 mul rint 7 add\n"
				 "write Y [m,n]\n";

static struct target target;

static struct runner *open_cpu(const struct emit *e, int threads)
{
	struct runner *r = NULL;
	if (dev_cpu.probe(&target) != 1 || runner_local(&dev_cpu, 0, e, &target, threads, true, &r) < 0) {
		printf("no runner: %s\n", err_text());
		exit(1);
	}
	return r;
}

TEST(builds_checks_and_times)
{
	static const char *const tasks[] = {task_conv, task_softmax, conv_8, conv_bytes, rows_bytes};
	for (int threads = 1; threads <= 3; threads++) {
		struct runner *r = open_cpu(&emit_llvm, threads);
		for (int i = 0; i < 5; i++) {
			char cand[CAND_MAX];
			struct meas m[2];
			int h[2];
			cand_default(tasks[i], &target, cand);
			REQUIRE_OK(r->ops->build(r, tasks[i], cand, INT64_MAX, &h[0], &m[0]));
			if (m[0].status != MEAS_OK)
				printf("%s: %s: %s\n", cand, meas_status_name(m[0].status), err_text());
			REQUIRE(h[0] >= 0 && m[0].status == MEAS_OK && m[0].build_ns > 0);
			REQUIRE_OK(r->ops->build(r, tasks[i], cand, INT64_MAX, &h[1], &m[1]));
			REQUIRE(h[1] >= 0);
			CHECK(m[1].build_ns < m[0].build_ns); /* the same loops are not compiled again */
			for (int cold = 0; cold < 2; cold++) {
				REQUIRE_OK(r->ops->time(r, h, 2, 9, 0, cold, INT64_MAX, m));
				CHECK(m[0].runs == 9 && m[0].min_ns > 0 && m[0].min_ns <= m[0].median_ns);
				CHECK(m[0].threads == threads && m[1].min_ns > 0);
			}
		}
		r->ops->close(r);
	}
}

/* Kernels that crash, hang, overrun or give wrong bytes, made by changing the loops before the real emitter
 * gets them. */
static enum { CRASH, HANG, OVERRUN, LOST, SHIFTED, OFF_BY_ONE } defect;
static const char *broken_version(void)
{
	return "broken/1";
}

static void spoil(struct loops *l, struct stmt *s)
{
	for (; s; s = s->next) {
		if (s->op == ST_FOR || s->op == ST_IF) {
			spoil(l, s->body);
			spoil(l, s->other);
		} else if (s->op == ST_STORE && l->buf[s->mem.buf].role == BUF_OUT) {
			static const int64_t by[] = {
			    [CRASH] = INT64_C(1) << 40, [OVERRUN] = 1024, [SHIFTED] = 16, [OFF_BY_ONE] = 0};
			if (defect == LOST)
				s->mem.valid = ix_c(l, l->lanes[s->a] - 1);
			else
				s->mem.at = ix_add(l, s->mem.at, ix_c(l, by[defect]));
		} else if (defect == OFF_BY_ONE && s->op == ST_SET && s->vop == V_CONST && s->s32 == 7) {
			s->s32 = 8; /* the zero point */
		}
	}
}

/* Makes the innermost loop, which only adds, take years. */
static void hang(struct loops *l, struct stmt *s)
{
	for (; s; s = s->next)
		if (s->op == ST_FOR) {
			hang(l, s->body);
			bool stores = false;
			for (struct stmt *b = s->body; b; b = b->next)
				stores |= b->op != ST_SET;
			if (!stores)
				s->hi = ix_c(l, INT64_C(1) << 50);
		}
}

static int broken_emit(const struct loops *l, const struct target *t, struct arena *a, struct blob *object)
{
	struct loops *w = (struct loops *)(uintptr_t)l;
	if (defect == HANG)
		hang(w, l->entry[0].body);
	else
		spoil(w, l->entry[0].body);
	return emit_llvm.emit(l, t, a, object);
}

static const struct emit emit_broken = {"llvm", broken_version, broken_emit};

TEST(bad_kernels_do_no_harm)
{
	/* Its reduction accesses no memory through its index. */
	static const char sum[] = "task syms=0\n"
				  "operand X in f32 [7] plain\n"
				  "operand Y out f32 [7] plain\n"
				  "stage i:7 | j:100\n"
				  "read X [i]\n"
				  "body r0\n"
				  "sum\n"
				  "write Y [i]\n";
	struct sandbox_cage *cage;
	REQUIRE_OK(sandbox_cage_make(&cage));
	REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0); /* a system-call filter requires it */
	for (int d = CRASH; d <= OVERRUN; d++) {
		struct runner *r = open_cpu(&emit_broken, 1);
		local_cage(r, sandbox_cage_enter, cage);
		struct meas m;
		int h;
		defect = d;
		const char *text = d == HANG ? sum : task_conv;
		REQUIRE_OK(r->ops->build(r, text, d == HANG ? "" : "tile=x:3", INT64_MAX, &h, &m));
		enum meas_status want = d == HANG ? MEAS_TIMEOUT : MEAS_CRASH;
		if (m.status != want)
			printf("defect %d: %s %s\n", d, meas_status_name(m.status), err_text());
		CHECK(h == -1 && m.status == want);
		r->ops->close(r);
	}
	free(cage);
}

TEST(wrong_bytes_are_found)
{
	for (int d = LOST; d <= OFF_BY_ONE; d++) {
		struct runner *r = open_cpu(&emit_broken, 1);
		struct meas m;
		int h;
		defect = d;
		REQUIRE_OK(r->ops->build(r, conv_bytes, "lane=k:8 tile=x:2", INT64_MAX, &h, &m));
		if (m.status != MEAS_WRONG)
			printf("defect %d: %s %s\n", d, meas_status_name(m.status), err_text());
		CHECK(h == -1 && m.status == MEAS_WRONG);
		r->ops->close(r);
	}
}

/* Candidates of bytes are accepted, and each equals the first. */
TEST(candidates_of_bytes)
{
	struct runner *r = open_cpu(&emit_llvm, 1);
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct space *s;
	struct rng rng;
	int good = 0;
	rng_seed(&rng, 1);
	REQUIRE_OK(task_parse(conv_bytes, t));
	REQUIRE_OK(space_make(&a, t, &target, NULL, &s));
	for (int i = 0; i < 30; i++) {
		char cand[CAND_MAX];
		struct meas m;
		int h;
		REQUIRE_OK(space_random(s, &rng, cand));
		REQUIRE_OK(r->ops->build(r, conv_bytes, cand, INT64_MAX, &h, &m));
		if (m.status != MEAS_OK && m.status != MEAS_SPILL)
			printf("%s: %s: %s\n", cand, meas_status_name(m.status), err_text());
		CHECK((m.status == MEAS_OK && m.max_rel_err == 0) || m.status == MEAS_SPILL);
		good += m.status == MEAS_OK;
		if (h >= 0)
			r->ops->drop(r, h, INT64_MAX);
	}
	CHECK(good >= 20);
	arena_free(&a);
	r->ops->close(r);
}

/* Weights in f16 are checked as tightly as others, also transformed ones: the constants are such that f16
 * holds both. */
TEST(candidates_of_f16)
{
	static const char conv[] = "task syms=0\noperand X in f32 [1,32,16,16] 0.1/16.2.3.1\n"
				   "operand W const f32 [48,32,3,3] plain\noperand B const f32 [48] plain\n"
				   "operand Y out f32 [1,48,14,14] 0.1/16.2.3.1\n"
				   "stage n:1 k:48 y:14 x:14 | c:32 r:3 s:3\nread X [n,c,y+r,x+s]\n"
				   "read W [k,c,r,s]\nread B [k]\nbody r0 r1 mul\nsum\npost acc r2 add\n"
				   "write Y [n,k,y,x]\n";
	const struct space_want want = {.level = LEVEL_W16};
	struct runner *r = open_cpu(&emit_llvm, 1);
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct space *s;
	struct rng rng;
	int good = 0, transformed = 0, handle;
	struct meas m;
	rng_seed(&rng, 1);
	REQUIRE_OK(task_parse(conv, t));
	REQUIRE_OK(space_make(&a, t, &target, &want, &s));
	for (int i = 0; i < 60; i++) {
		char cand[CAND_MAX];
		REQUIRE_OK(space_random(s, &rng, cand));
		REQUIRE_OK(r->ops->build(r, conv, cand, INT64_MAX, &handle, &m));
		if (m.status != MEAS_OK && m.status != MEAS_SPILL)
			printf("%s: %s: %s\n", cand, meas_status_name(m.status), err_text());
		CHECK(m.status == MEAS_SPILL || (m.status == MEAS_OK && m.max_rel_err < 2e-5));
		good += m.status == MEAS_OK && strstr(cand, "w16=1");
		transformed += m.status == MEAS_OK && strstr(cand, "w16=1") && strstr(cand, "winograd=4");
		if (handle >= 0)
			r->ops->drop(r, handle, INT64_MAX);
	}
	CHECK(!target_converts_f16(&target) || (good > 10 && transformed > 2));
	arena_free(&a);
	r->ops->close(r);
}

TEST_MAIN
