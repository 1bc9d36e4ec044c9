/* SPDX-License-Identifier: Apache-2.0 */
/* The local runner on the simulator: everything except the machine is real. */
#include "agent/worker/wire.h"
#include "kernels/loops/code.h"
#include "kernels/emit/emit.h"
#include "kernels/space/space.h"
#include "platform/run/dev_sim.h"
#include "tests/lib/cands.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

#include <unistd.h>

extern const struct emit emit_sim;

static struct target target;

static struct runner *open_sim(double noise)
{
	struct runner *r = NULL;
	dev_sim_reset(0, 1, noise);
	int here = dev_sim.probe(&target);
	target.regs = 64; /* random programs keep many values, and these tests are not about spills */
	if (here != 1 || runner_local(&dev_sim, 0, &emit_sim, &target, 1, false, &r) < 0) {
		printf("no simulator: %s\n", err_text());
		exit(1);
	}
	return r;
}

static int build(struct runner *r, const char *text, const char *cand, struct meas *m)
{
	int handle;
	int rc = r->ops->build(r, text, cand, INT64_MAX, &handle, m);
	if (rc < 0)
		printf("build: %s\n", err_text());
	return rc < 0 ? rc : handle;
}

TEST(builds_checks_and_times)
{
	static const char *const tasks[] = {task_conv, task_softmax};
	struct runner *r = open_sim(0);
	for (int i = 0; i < 2; i++) {
		char cand[CAND_MAX];
		struct meas m;
		cand_default(tasks[i], &target, cand);
		int h = build(r, tasks[i], cand, &m);
		REQUIRE(h >= 0 && m.status == MEAS_OK);
		CHECK(m.max_rel_err < 2e-4 && m.runs == 0 && m.build_ns >= SIM_BUILD_NS);
		CHECK_OK(r->ops->time(r, &h, 1, 7, 0, 0, INT64_MAX, &m));
		CHECK(m.status == MEAS_OK && m.runs == 7 && m.min_ns > 0);
		CHECK(m.min_ns == m.median_ns && m.spread_ns == 0); /* no noise */
		CHECK_OK(r->ops->time(r, &h, 1, 7, 0, 1, INT64_MAX, &m));
		CHECK(m.status == MEAS_OK && m.runs == 7);
	}
	r->ops->close(r);
}

TEST(code_is_whole)
{
	struct runner *r = open_sim(0);
	char cand[CAND_MAX];
	struct meas m;
	struct arena a = {0};
	struct blob b;
	struct code *c = ARENA_NEW(&a, struct code);
	cand_default(task_conv, &target, cand);
	int h = build(r, task_conv, cand, &m);
	REQUIRE(h >= 0);
	REQUIRE_OK(r->ops->code(r, h, INT64_MAX, &a, &b));
	REQUIRE_OK(code_parse(b.p, b.n, &a, c));
	CHECK(strcmp(c->m.emitter, "sim") == 0 && strcmp(c->m.version, emit_sim.version()) == 0);
	CHECK(c->m.nbufs >= 4 && c->object.n > 0);
	struct dev_code *code;
	CHECK_OK(dev_sim.load(c->object.p, c->object.n, &code));
	CHECK(dev_sim.entry(code, c->m.entry[0]) >= 0);
	dev_sim.unload(code);
	r->ops->drop(r, h, INT64_MAX);
	CHECK_FAILS(r->ops->code(r, h, INT64_MAX, &a, &b), E_USAGE, "handle");
	CHECK_FAILS(r->ops->time(r, &h, 1, 1, 0, 0, INT64_MAX, &m), E_USAGE, "handle");
	arena_free(&a);
	r->ops->close(r);
}

/* One axis is sampled at every index, the other next to powers of two, which run out first. */
TEST(a_short_axis_beside_a_long_one)
{
	static const char copy[] = "task syms=0\n"
				   "operand X in f32 [240,300] plain\n"
				   "operand Y out f32 [240,300] plain\n"
				   "stage i:240 j:300\n"
				   "read X [i,j]\n"
				   "body r0\n"
				   "write Y [i,j]\n";
	struct runner *r = open_sim(0);
	char cand[CAND_MAX];
	struct meas m;
	cand_default(copy, &target, cand);
	CHECK(build(r, copy, cand, &m) >= 0 && m.status == MEAS_OK);
	r->ops->close(r);
}

TEST(failing_candidates_are_data)
{
	struct runner *r = open_sim(0);
	struct meas m;
	int h;
	CHECK_OK(r->ops->build(r, task_conv, "what is this", INT64_MAX, &h, &m));
	CHECK(h == -1 && m.status == MEAS_INFEASIBLE);
	CHECK_FAILS(r->ops->build(r, "no task", "x", INT64_MAX, &h, &m), E_CORRUPT, "task");
	CHECK_FAILS(r->ops->build(r, task_conv, "x", 0, &h, &m), E_TIMEOUT, "deadline");
	CHECK(h == -1);
	r->ops->close(r);
}

/* Many random candidates of random tasks: each gives right answers, or fails as data. Memory must not
 * grow. */
TEST(random_candidates)
{
	struct runner *r = open_sim(0.03);
	struct rng rng;
	int good = 0, total = 0;
	rng_seed(&rng, 5);
	for (int i = 0; i < 30; i++) {
		struct arena a = {0};
		struct buf text = {0};
		struct task *t = ARENA_NEW(&a, struct task);
		struct space *s;
		do
			task_random(&rng, t);
		while (task_check(t) < 0);
		task_text(t, &text);
		REQUIRE_OK(space_make(&a, t, &target, NULL, &s));
		for (int k = 0; k < 10; k++) {
			char cand[CAND_MAX];
			struct meas m;
			REQUIRE_OK(space_random(s, &rng, cand));
			int h = build(r, buf_str(&text), cand, &m);
			REQUIRE(h >= 0 || m.status != MEAS_OK);
			if (m.status == MEAS_WRONG)
				printf("wrong: seed 5 task %d cand %s\n%s", i, cand, buf_str(&text));
			CHECK(m.status != MEAS_WRONG && m.status != MEAS_CRASH);
			good += m.status == MEAS_OK;
			total++;
		}
		r->ops->drop(r, -1, INT64_MAX);
		buf_free(&text);
		arena_free(&a);
	}
	CHECK(good > total / 2);
	r->ops->close(r);
}

/* An emitter whose kernels are wrong, in one way each: the check must find it. */
static int broken_emit(const struct loops *l, const struct target *t, struct arena *a, struct blob *object);
static enum { SWAP_OUT, DROP_STORE, GROW_STORE } defect;
static const char *broken_version(void)
{
	return "broken/1";
}
static const struct emit emit_broken = {"sim", broken_version, broken_emit};

static void spoil(struct loops *l, struct stmt *s, int *left)
{
	for (; s && *left; s = s->next) {
		if (s->op == ST_FOR || s->op == ST_IF) {
			spoil(l, s->body, left);
			spoil(l, s->other, left);
		} else if (s->op == ST_STORE && l->buf[s->mem.buf].role == BUF_OUT) {
			if (defect == DROP_STORE)
				s->mem.valid = ix_c(l, 0);
			else if (defect == GROW_STORE)
				s->mem.at = ix_add(l, s->mem.at, ix_c(l, -1));
			--*left;
		} else if (s->op == ST_SET && s->vop == V_FMA && defect == SWAP_OUT) {
			s->vop = V_ADD;
			--*left;
		}
	}
}

static int broken_emit(const struct loops *l, const struct target *t, struct arena *a, struct blob *object)
{
	int left = 1;
	spoil((struct loops *)(uintptr_t)l, l->entry[0].body, &left);
	return emit_sim.emit(l, t, a, object);
}

TEST(wrong_answers_are_found)
{
	for (int d = SWAP_OUT; d <= GROW_STORE; d++) {
		struct runner *r;
		char cand[CAND_MAX];
		struct meas m;
		int h;
		defect = d;
		dev_sim_reset(0, 1, 0);
		REQUIRE(dev_sim.probe(&target) == 1);
		REQUIRE_OK(runner_local(&dev_sim, 0, &emit_broken, &target, 1, false, &r));
		cand_default(task_conv, &target, cand);
		CHECK_OK(r->ops->build(r, task_conv, cand, INT64_MAX, &h, &m));
		if (m.status != MEAS_WRONG)
			printf("defect %d: %s\n", d, meas_status_name(m.status));
		CHECK(h == -1 && m.status == MEAS_WRONG);
		r->ops->close(r);
	}
}

TEST(abort_and_deadline)
{
	struct runner *r = open_sim(0);
	char cand[CAND_MAX];
	struct meas m[2];
	cand_default(task_conv, &target, cand);
	int h[2] = {build(r, task_conv, cand, &m[0]),
		    build(r, task_softmax, (cand_default(task_softmax, &target, cand), cand), &m[1])};
	REQUIRE(h[0] >= 0 && h[1] >= 0);
	CHECK_OK(r->ops->time(r, h, 2, 3, 0, 0, INT64_MAX, m));
	int64_t conv = m[0].min_ns, softmax = m[1].min_ns;
	REQUIRE(conv > 2 * softmax);
	CHECK_OK(r->ops->time(r, h, 2, 3, 2 * softmax, 0, INT64_MAX, m));
	CHECK(m[0].status == MEAS_ABORTED && m[0].min_ns == conv && m[0].runs == 1);
	CHECK(m[1].status == MEAS_OK && m[1].runs == 3);
	/* A run of 5 us or less says more about the clock than about the kernel. */
	REQUIRE(softmax < 5000 && conv > 5000);
	CHECK_OK(r->ops->time(r, h, 2, 3, 1, 0, INT64_MAX, m));
	CHECK(m[0].status == MEAS_ABORTED && m[1].status == MEAS_OK && m[1].runs == 3);
	int64_t now = clock_now(r->clock);
	CHECK_FAILS(r->ops->time(r, h, 2, 1000, 0, 0, now, m), E_TIMEOUT, "deadline");
	/* A deadline in the middle returns what was measured before. */
	CHECK_OK(r->ops->time(r, h, 2, 1000, 0, 0, now + 20 * conv, m));
	CHECK(m[0].runs > 0 && m[0].runs < 30);
	CHECK(clock_now(r->clock) < now + 30 * conv);
	r->ops->close(r);
}

static const char rows[] = "task syms=0\n"
			   "operand A in f32 [400,40] plain\n"
			   "operand B const f32 [40,64] plain\n"
			   "operand C out f32 [400,64] plain\n"
			   "stage m:400 n:64 | k:40\n"
			   "read A [m,k]\n"
			   "read B [k,n]\n"
			   "body r0 r1 mul\n"
			   "sum\n"
			   "write C [m,n]\n";

/* A part is a quarter of the work, and extrapolates to the whole; a kernel of few parts is run as a whole. */
TEST(a_part_stands_for_the_whole)
{
	static const char *const texts[] = {rows, task_softmax};
	struct runner *r = open_sim(0);
	for (int i = 0; i < 2; i++) {
		char cand[CAND_MAX];
		struct meas whole, part;
		cand_default(texts[i], &target, cand);
		int h = build(r, texts[i], cand, &whole);
		REQUIRE(h >= 0);
		CHECK_OK(r->ops->time(r, &h, 1, 3, 0, 0, INT64_MAX, &whole));
		int64_t start = clock_now(r->clock);
		CHECK_OK(r->ops->time(r, &h, 1, 3, 0, TIME_PART, INT64_MAX, &part));
		int64_t took = clock_now(r->clock) - start;
		double ratio = (double)part.min_ns / (double)whole.min_ns;
		CHECK(part.status == MEAS_OK && ratio > 0.9 && ratio < 1.15);
		CHECK(i == 0 ? took < 2 * whole.min_ns : part.min_ns == whole.min_ns);
	}
	r->ops->close(r);
}

/* Candidates that differ only in numbers share an object. */
TEST(one_structure_one_object)
{
	struct runner *r = open_sim(0);
	char one[CAND_MAX], other[CAND_MAX];
	space_structure("lane=m:4 tile=n:8 par=1 outer=m | block=m:1", one);
	for (int i = 1; i < 20; i++) {
		char cand[CAND_MAX];
		struct meas m;
		snprintf(cand, sizeof cand, "lane=m:4 tile=n:8 par=1 outer=m | block=m:%d", i);
		space_structure(cand, other);
		CHECK(!strcmp(one, other));
		int h = build(r, rows, cand, &m);
		CHECK(h >= 0 && m.build_ns == (i == 1 ? SIM_BUILD_NS : 0));
		r->ops->drop(r, h, INT64_MAX); /* compiled objects are kept for a while */
	}
	r->ops->close(r);
}

/* ASan delays the reuse of freed memory. */
#ifdef __SANITIZE_ADDRESS__
static const long most_growth_kb = 512 << 10;
#else
static const long most_growth_kb = 4096;
#endif

static long resident_kb(void)
{
	long pages = 0, skip;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%ld %ld", &skip, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

TEST(memory_does_not_grow)
{
	struct runner *r = open_sim(0);
	char cand[CAND_MAX];
	struct meas m;
	struct rng rng;
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct space *s;
	long before = 0;
	rng_seed(&rng, 8);
	REQUIRE_OK(task_parse(task_softmax, t));
	REQUIRE_OK(space_make(&a, t, &target, NULL, &s));
	for (int i = 0; i < 600; i++) {
		REQUIRE_OK(space_random(s, &rng, cand));
		int h = build(r, task_softmax, cand, &m);
		r->ops->drop(r, i % 7 ? h : -1, INT64_MAX);
		if (i == 200)
			before = resident_kb();
	}
	CHECK(resident_kb() - before < most_growth_kb);
	arena_free(&a);
	r->ops->close(r);
}

TEST(refuses)
{
	struct runner *r;
	extern const struct dev dev_cpu;
	REQUIRE(dev_sim.probe(&target) == 1);
	CHECK_FAILS(runner_local(&dev_cpu, 0, &emit_sim, &target, 1, false, &r), E_USAGE, "cpu");
	CHECK_FAILS(runner_local(&dev_sim, 0, &emit_sim, &target, 0, false, &r), E_USAGE, "threads");
}

TEST_MAIN
