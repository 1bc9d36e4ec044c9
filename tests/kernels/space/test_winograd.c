/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd schedules: compared with the reference for every edge case of shapes, and the cases that are
 * refused. */
#include "kernels/space/draft.h"
#include "kernels/space/features.h"
#include "kernels/loops/lower.h"
#include "kernels/space/sched.h"
#include "kernels/space/transfer.h"
#include "kernels/space/winograd.h"
#include "tests/lib/kernel_cases.h"

/* A 3x3 convolution n x c x h x w -> k, with a halo of that size on input and output, and blocks of
 * `block`. */
struct shape_case {
	int n, c, k, h, w, halo, pad, block;
	const char *post; /* r2: the bias, r3: an addend of the output's shape */
	bool apart;       /* output and addend in planes */
};

static void conv_text(const struct shape_case *s, struct buf *b)
{
	struct rng r;
	int oh = s->h + 2 * s->pad - 2, ow = s->w + 2 * s->pad - 2, block = s->apart ? 0 : s->block;
	rng_seed(&r, 1);
	buf_puts(b, "task syms=0\n");
	image(b, &r, "X", "in", s->n, s->c, s->h, s->w, s->halo, s->block);
	buf_printf(b, "operand W const f32 [%d,%d,3,3] plain\noperand B const f32 [%d] plain\n", s->k, s->c,
		   s->k);
	image(b, &r, "Y", "out", s->n, s->k, oh, ow, s->halo, block);
	if (strstr(s->post, "r3"))
		image(b, &r, "R", "in", s->n, s->k, oh, ow, 0, block);
	buf_printf(b, "stage n:%d k:%d y:%d x:%d | c:%d r:3 s:3\nread X [n,c,%s]\nread W [k,c,r,s]\n", s->n,
		   s->k, oh, ow, s->c, s->pad ? "y+r-1,x+s-1" : "y+r,x+s");
	buf_puts(b, "read B [k]\n");
	if (strstr(s->post, "r3"))
		buf_puts(b, "read R [n,k,y,x]\n");
	buf_printf(b, "body r0 r1 mul\nsum\n%swrite Y [n,k,y,x]\n", s->post);
}

static int open_case(struct kcase *c, const struct shape_case *s)
{
	struct buf text = {0};
	struct rng r;
	rng_seed(&r, 3);
	conv_text(s, &text);
	int rc = case_parse(c, buf_str(&text), &r);
	if (rc < 0)
		printf("%s%s\n", buf_str(&text), err_text());
	buf_free(&text);
	return rc;
}

/* Only the task, for shapes whose reference would take long. */
static struct task *open_task(struct arena *a, const struct shape_case *s)
{
	struct task *t = ARENA_NEW(a, struct task);
	struct buf text = {0};
	conv_text(s, &text);
	CHECK_OK(task_parse(buf_str(&text), t));
	buf_free(&text);
	return t;
}

/* The error of the output after a run; -1: something was written outside of a buffer. */
static double output_error(struct kcase *c, const struct manifest *m, void **bufs, const int64_t *elems)
{
	double err = -1;
	for (int i = 0; i < m->nbufs; i++) {
		if (!intact(bufs[i], elems[i]))
			return -1;
		if (m->buf[i].role == BUF_OUT)
			err = case_error(c, bufs[i]);
	}
	return err;
}

/* Interprets in two ranges of the parallel extent; returns the error, or -1. */
static double interpret(struct kcase *c, const char *cand, const struct target *tg)
{
	struct loops *l;
	struct manifest m;
	void *bufs[CODE_MAX_BUFS];
	int64_t elems[CODE_MAX_BUFS];
	if (lower(&c->t, cand, tg, &c->a, &l, &m) < 0 || loops_check(l) < 0)
		return -1;
	case_bind(c, &m, bufs, elems);
	int64_t extent = code_extent(&m, 0, m.param);
	if (loops_run(l, 0, bufs, m.param, extent / 2, extent) < 0 ||
	    loops_run(l, 0, bufs, m.param, 0, extent / 2) < 0)
		return -1;
	return output_error(c, &m, bufs, elems);
}

#define ADD "post acc r2 add 0 max\n"
#define RESIDUAL "post acc r2 add r3 add 0 max\n"
#define LONG "post acc r2 add tanh r3 mul\n"

TEST(every_shape)
{
	static const struct {
		struct shape_case s;
		const char *cand;
	} all[] = {
	    {{1, 8, 8, 8, 8, 1, 1, 8, ADD}, "lane=k:8 winograd=4 tiles=4 gemm=4x1 chunk=1"},
	    {{1, 8, 8, 8, 8, 0, 1, 8, ADD}, "lane=k:8 winograd=2 tiles=16 gemm=4x1 chunk=1"},
	    {{1, 8, 24, 7, 7, 1, 1, 8, RESIDUAL}, "lane=k:8 winograd=4 tiles=3 gemm=2x2 chunk=2 parts=2"},
	    {{1, 12, 20, 13, 13, 0, 1, 8, RESIDUAL},
	     "lane=k:8 winograd=2 tiles=10 gemm=4x2 chunk=4 prefetch=3"},
	    {{1, 12, 20, 13, 13, 0, 1, 8, LONG}, "lane=k:8 winograd=4 tiles=16 gemm=6x1 chunk=2"},
	    {{2, 5, 7, 6, 9, 0, 1, 8, ADD}, "lane=k:8 winograd=4 tiles=2 gemm=2x1 chunk=1"},
	    {{3, 16, 16, 5, 5, 0, 0, 16, ADD}, "lane=k:16 winograd=4 tiles=1 gemm=1x1 chunk=1"},
	    {{1, 16, 33, 1, 1, 0, 1, 16, ADD}, "lane=k:16 winograd=2 tiles=1 gemm=1x3 chunk=3 prefetch=2"},
	    {{1, 4, 8, 3, 11, 1, 1, 4, ""}, "lane=k:4 winograd=2 tiles=7 gemm=3x2 chunk=2"},
	    {{1, 8, 8, 8, 8, 1, 1, 8, ADD}, "lane=k:8 winograd=4 tiles=4 gemm=4x1 chunk=1 raw=1"},
	    {{1, 40, 24, 7, 7, 1, 1, 8, RESIDUAL},
	     "lane=k:8 winograd=4 tiles=3 gemm=2x1 chunk=2 raw=2 parts=2 prefetch=5"},
	    {{1, 13, 20, 13, 13, 0, 1, 8, RESIDUAL},
	     "lane=k:8 winograd=2 tiles=10 gemm=4x1 chunk=3 raw=1 prefetch=3"},
	    {{2, 20, 7, 6, 9, 0, 1, 8, LONG}, "lane=k:8 winograd=2 tiles=7 gemm=6x1 chunk=1 raw=3"},
	    {{1, 48, 33, 5, 5, 0, 0, 16, ADD}, "lane=k:16 winograd=4 tiles=1 gemm=1x1 chunk=2 raw=2"},
	    {{1, 16, 9, 7, 9, 1, 1, 16, ADD, true}, "lane=k:16 winograd=4 tiles=4 gemm=4x1 chunk=1"},
	    {{2, 8, 20, 8, 6, 0, 1, 8, RESIDUAL, true},
	     "lane=k:8 winograd=2 tiles=5 gemm=3x2 chunk=2 parts=2 prefetch=1"},
	    {{1, 8, 13, 9, 7, 0, 0, 8, LONG, true}, "lane=k:8 winograd=4 tiles=2 gemm=2x1 chunk=1 raw=1"},
	    {{1, 8, 16, 8, 8, 0, 1, 8, RESIDUAL, true}, "lane=k:8 winograd=4 tiles=4 gemm=4x2 chunk=2"},
	    {{1, 40, 40, 11, 13, 1, 1, 8, RESIDUAL},
	     "lane=k:8 winograd=4 tiles=5 gemm=2x2 chunk=4 pixels=1 prefetch=2"},
	    {{2, 12, 36, 9, 6, 1, 1, 4, ADD},
	     "lane=k:4 winograd=2 tiles=4 gemm=4x1 chunk=2 parts=3 pixels=1"},
	    {{1, 16, 9, 7, 9, 0, 0, 16, ADD, true},
	     "lane=k:16 winograd=4 tiles=2 gemm=2x1 chunk=1 pixels=1 prefetch=4"},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct kcase c;
		struct target tg = case_board(all[i].s.block, 32);
		REQUIRE_OK(open_case(&c, &all[i].s));
		double err = interpret(&c, all[i].cand, &tg);
		if (!(err >= 0 && err < 2e-5))
			printf("case %zu: error %g %s\n", i, err, err < 0 ? err_text() : "");
		CHECK(err >= 0 && err < 2e-5);
		arena_free(&c.a);
	}
}

/* Lowers the task of c, with its first `from` replaced by `to`, with this schedule. */
static int lowers(const struct kcase *c, const char *from, const char *to, const char *cand)
{
	struct target tg = case_board(8, 32);
	struct arena a = {0};
	struct buf text = {0}, changed = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct loops *l;
	struct manifest m;
	task_text(&c->t, &text);
	const char *all = buf_str(&text), *at = strstr(all, from);
	CHECK(at);
	buf_add(&changed, all, at ? (size_t)(at - all) : 0);
	buf_puts(&changed, to);
	buf_puts(&changed, at ? at + strlen(from) : "");
	int rc = task_parse(buf_str(&changed), t);
	CHECK_OK(rc);
	if (rc >= 0)
		rc = lower(t, cand, &tg, &a, &l, &m);
	buf_free(&text);
	buf_free(&changed);
	arena_free(&a);
	return rc;
}

TEST(refused_tasks)
{
	static const struct shape_case s = {1, 16, 16, 8, 8, 0, 1, 8, ADD};
	static const char cand[] = "lane=k:8 winograd=2 tiles=4 gemm=4x1 chunk=1";
	struct kcase c;
	REQUIRE_OK(open_case(&c, &s));
	CHECK_OK(lowers(&c, "y+r-1", "y+r-1", cand));
	CHECK_FAILS(lowers(&c, "y+r-1", "2*y+r-1", cand), E_INFEASIBLE, "strides");
	CHECK_FAILS(lowers(&c, "x+s-1", "x+2*s-1", cand), E_INFEASIBLE, "dilations");
	CHECK_FAILS(lowers(&c, "[n,c,y+r-1", "[n,k,y+r-1", cand), E_INFEASIBLE, "winograd");
	CHECK_OK(lowers(&c, "y+r-1,x+s-1", "y+s-1,x+r-1", cand));
	CHECK_FAILS(lowers(&c, "W const", "W in", cand), E_INFEASIBLE, "constant");
	CHECK_FAILS(lowers(&c, "sum", "max", cand), E_INFEASIBLE, "sum");
	CHECK_FAILS(lowers(&c, "body r0 r1 mul", "body r0 r1 add", cand), E_INFEASIBLE, "sum");
	CHECK_FAILS(lowers(&c, "s:3", "s:2", cand), E_INFEASIBLE, "winograd");
	CHECK_FAILS(lowers(&c, "X in f32 [1,16,8,8] 0.1/8.2.3.1", "X in f32 [1,16,8,8] plain", cand),
		    E_INFEASIBLE, "side by side");
	arena_free(&c.a);
}

TEST(refused_schedules)
{
	static const struct shape_case s = {1, 16, 24, 8, 8, 0, 1, 8, ADD};
	static const struct {
		const char *cand;
		enum err rc;
		const char *why;
	} all[] = {
	    {"lane=k:8 winograd=3 tiles=4 gemm=4x1 chunk=1", E_INFEASIBLE, "not 2 or 4"},
	    {"lane=k:8 winograd=2 gemm=4x1 chunk=1", E_INFEASIBLE, "keys are missing"},
	    {"lane=k:8 winograd=2 tiles=4 chunk=1", E_CORRUPT, "canonical"},
	    {"winograd=2 tiles=4 gemm=4x1 chunk=1", E_INFEASIBLE, "lanes"},
	    {"lane=k:16 winograd=2 tiles=4 gemm=4x1 chunk=1", E_INFEASIBLE, "lanes"},
	    {"lane=x:8 winograd=2 tiles=4 gemm=4x1 chunk=1", E_INFEASIBLE, "lanes"},
	    {"lane=k:8 tile=x:4 winograd=2 tiles=4 gemm=4x1 chunk=1", E_INFEASIBLE, "belong"},
	    {"lane=k:8 par=1 winograd=2 tiles=4 gemm=4x1 chunk=1", E_INFEASIBLE, "belong"},
	    {"lane=k:8 winograd=2 tiles=4 gemm=4x1 chunk=1 feed=1", E_INFEASIBLE, "belong"},
	    {"lane=k:8 winograd=4 tiles=5 gemm=4x1 chunk=1", E_INFEASIBLE, "more tiles"},
	    {"lane=k:8 winograd=4 tiles=3 gemm=4x1 chunk=1", E_INFEASIBLE, "more tiles"},
	    {"lane=k:8 winograd=2 tiles=16 gemm=16x5 chunk=5", E_INFEASIBLE, "registers"},
	    {"lane=k:8 winograd=2 tiles=4 gemm=4x2 chunk=3", E_INFEASIBLE, "panels"},
	    {"lane=k:8 winograd=2 tiles=4 gemm=4x2 chunk=6", E_INFEASIBLE, "panels"},
	    {"lane=k:8 winograd=2 tiles=4 gemm=4x1 chunk=1 parts=4", E_INFEASIBLE, "parts"},
	    {"lane=k:8 winograd=2 tiles=4 gemm=4x2 chunk=2 raw=1", E_INFEASIBLE, "untransformed filters"},
	    {"lane=k:8 winograd=2 tiles=4 gemm=4x1 chunk=1 raw=3", E_INFEASIBLE, "untransformed filters"},
	    {"lane=k:8 winograd=2 tiles=16 gemm=16x1 chunk=1 raw=1 prefetch=0", E_CORRUPT, "canonical"},
	    {"lane=k:8 winograd=4 tiles=4 gemm=4x1 chunk=1 raw=0", E_CORRUPT, "number"},
	    {"lane=k:8 winograd=2 tiles=4 gemm=4x1 chunk=1 raw=1 pixels=1", E_INFEASIBLE,
	     "untransformed filters"},
	    {"lane=k:8 winograd=2 tiles=4 gemm=4x1 chunk=1 pixels=2", E_CORRUPT, "number"},
	    {"lane=k:8 winograd=2 tiles=4 gemm=4x1 chunk=1 pixels=0", E_CORRUPT, "number"},
	    {"lane=k:8 winograd=2 tiles=4 gemm=4 chunk=1", E_CORRUPT, "gemm"},
	    {"lane=k:8 winograd=2 tiles=4 gemm=4x chunk=1", E_CORRUPT, "number"},
	    {"lane=k:8 winograd=2 tiles=99999999999 gemm=4x1 chunk=1", E_CORRUPT, "number"},
	    {"lane=k:8 winograd=2 tiles=4 gemm=4x1 chunk=1 prefetch=-1", E_CORRUPT, "number"},
	    {"lane=k:8 tiles=4 gemm=4x1 chunk=1", E_CORRUPT, "canonical"},
	    {"lane=k:8 winograd=2 tiles=4 gemm=4x1 chunk=1 parts=1", E_CORRUPT, "canonical"},
	};
	struct target tg = case_board(8, 32);
	struct kcase c;
	struct loops *l;
	struct manifest m;
	REQUIRE_OK(open_case(&c, &s));
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		int rc = lower(&c.t, all[i].cand, &tg, &c.a, &l, &m);
		if (rc != (int)all[i].rc || !strstr(err_text(), all[i].why))
			printf("%s: %d %s\n", all[i].cand, rc, err_text());
		CHECK_FAILS(rc, all[i].rc, all[i].why);
	}
	arena_free(&c.a);
}

/* A space has Winograd schedules unless exactness is requested, and they can be lowered. */
TEST(exactness)
{
	static const struct shape_case s = {1, 64, 64, 28, 28, 1, 1, 16, ADD};
	static const char cand[] = "lane=k:16 winograd=4 tiles=7 gemm=7x2 chunk=2";
	const struct space_want exact = {.level = LEVEL_EXACT}, threads = {.threads = 4};
	struct target tg = case_board(16, 32);
	struct kcase c;
	struct space *any, *only, *four;
	struct rng r;
	struct loops *l;
	struct manifest m;
	char text[CAND_MAX], from[CAND_MAX];
	REQUIRE_OK(open_case(&c, &s));
	REQUIRE_OK(space_make(&c.a, &c.t, &tg, NULL, &any));
	REQUIRE_OK(space_make(&c.a, &c.t, &tg, &exact, &only));
	REQUIRE_OK(space_make(&c.a, &c.t, &tg, &threads, &four));
	space_default(any, text);
	CHECK(strstr(text, "winograd=4"));
	CHECK(space_roofline(any) < space_roofline(only) / 2);
	space_default(only, text);
	CHECK(!strstr(text, "winograd"));
	CHECK_OK(space_legal(any, cand));
	CHECK_FAILS(space_legal(only, cand), E_INFEASIBLE, "exact");
	rng_seed(&r, 1);
	int found = 0;
	for (int i = 0; i < 200; i++) {
		CHECK_OK(space_random(only, &r, text));
		CHECK(!strstr(text, "winograd"));
		CHECK_OK(space_random(any, &r, from));
		CHECK_OK(space_mutate(any, &r, from, text));
		found += strstr(text, "winograd") != NULL;
		CHECK_OK(lower(&c.t, text, &tg, &c.a, &l, &m));
		CHECK(space_draft(any, text) > 0 && space_draft(any, text) < 1e9);
		CHECK_OK(space_cross(any, &r, from, text, text));
	}
	CHECK(found > 50 && found < 180);
	for (int i = 0, rule = 0, kinds = 0; i < 8; i++) {
		bool more = space_portfolio(any, &rule, text) >= 0;
		kinds |= more && strstr(text, "winograd=2")   ? 1
			 : more && strstr(text, "winograd=4") ? 2
			 : more                               ? 4
							      : 0;
		CHECK(i < 7 || kinds == 7);
	}
	/* Work for every thread. */
	space_default(four, text);
	CHECK_OK(lower(&c.t, text, &tg, &c.a, &l, &m));
	CHECK(code_extent(&m, 0, m.param) >= 4);
	arena_free(&c.a);
}

/* Consecutive indexes belong to one part of the channels, so that a thread keeps its weights. */
TEST(order_of_parts)
{
	static const struct shape_case s = {1, 8, 16, 8, 8, 0, 1, 8, ADD};
	static const char cand[] = "lane=k:8 winograd=4 tiles=2 gemm=2x1 chunk=1 parts=2";
	struct target tg = case_board(8, 32);
	struct kcase c;
	struct loops *l;
	struct manifest m;
	void *bufs[CODE_MAX_BUFS];
	int64_t elems[CODE_MAX_BUFS];
	REQUIRE_OK(open_case(&c, &s));
	REQUIRE_OK(lower(&c.t, cand, &tg, &c.a, &l, &m));
	case_bind(&c, &m, bufs, elems);
	CHECK(code_extent(&m, 0, m.param) == 4);
	for (int i = 0; i < m.nbufs; i++) {
		if (m.buf[i].role != BUF_OUT)
			continue;
		size_t half = (size_t)elems[i] / 2 * sizeof(float);
		char *now = bufs[i], *old = arena_memdup(&c.a, now, 2 * half);
		REQUIRE_OK(loops_run(l, 0, bufs, m.param, 0, 2));
		CHECK(memcmp(now, old, half) && !memcmp(now + half, old + half, half));
		REQUIRE_OK(loops_run(l, 0, bufs, m.param, 2, 4));
		CHECK(memcmp(now + half, old + half, half));
	}
	arena_free(&c.a);
}

/* Four threads are about four times as fast, with blocks and parts whose scratch stays in their L2. */
TEST(several_threads)
{
	static const struct shape_case s = {1, 128, 128, 28, 28, 1, 1, 16, ADD};
	static const char *const cands[] = {
	    "lane=k:16 winograd=4 tiles=25 gemm=13x2 chunk=2 parts=2 prefetch=2",
	    "lane=k:16 winograd=4 tiles=13 gemm=13x2 chunk=2 prefetch=4",
	    "lane=k:16 winograd=2 tiles=49 gemm=14x2 chunk=2"};
	const struct space_want want = {.threads = 4};
	struct target tg = case_board(16, 32);
	struct arena a = {0};
	struct task *t = open_task(&a, &s);
	struct space *four;
	struct sched d;
	struct loops *l;
	struct manifest m;
	char text[CAND_MAX];
	for (size_t i = 0; i < sizeof cands / sizeof *cands; i++) {
		REQUIRE_OK(sched_parse(t, cands[i], &d));
		double one = draft_winograd(t, &tg, &d.st[0], 1).cycles,
		       all = draft_winograd(t, &tg, &d.st[0], 4).cycles;
		CHECK(all < one && all > one / 5);
	}
	REQUIRE_OK(space_make(&a, t, &tg, &want, &four));
	space_default(four, text);
	CHECK(strstr(text, "winograd=4"));
	REQUIRE_OK(lower(t, text, &tg, &a, &l, &m));
	CHECK(m.scratch_bytes < tg.l2_bytes * 3 / 4);
	arena_free(&a);
}

/* Images that exceed the L2 are prefetched while products are computed; others are not. */
TEST(pixels)
{
	static const struct shape_case large = {1, 64, 64, 112, 112, 1, 1, 16, ADD},
				       small = {1, 64, 64, 56, 56, 1, 1, 16, ADD};
	const struct space_want want = {.threads = 1};
	struct target tg = case_board(16, 32);
	for (int i = 0; i < 2; i++) {
		struct arena a = {0};
		struct space *s;
		char text[CAND_MAX];
		struct task *t = open_task(&a, i ? &small : &large);
		REQUIRE_OK(space_make(&a, t, &tg, &want, &s));
		space_default(s, text);
		CHECK(strstr(text, "winograd=4"));
		CHECK(i ? !strstr(text, "pixels=1") : strstr(text, "pixels=1") != NULL);
		arena_free(&a);
	}
}

/* Size of the weights in memory: as in the manifest, and their share of the roofline. */
TEST(weights)
{
	static const struct shape_case s = {1, 16, 16, 8, 8, 0, 1, 8, ADD};
	struct target tg = case_board(8, 32);
	struct kcase c;
	struct loops *l;
	struct manifest m;
	REQUIRE_OK(open_case(&c, &s));
	REQUIRE_OK(lower(&c.t, "lane=k:8 winograd=4 tiles=4 gemm=4x1 chunk=2", &tg, &c.a, &l, &m));
	int64_t elems = 0;
	for (int i = 0; i < m.nbufs; i++)
		if (m.buf[i].packing.winograd.m)
			elems = pack_elems(&m.buf[i].packing);
	CHECK(elems == 16 * 16 * 36 && m.winograd == 4);
	REQUIRE_OK(lower(&c.t, "lane=k:8 winograd=2 tiles=4 gemm=4x1 chunk=2 raw=1", &tg, &c.a, &l, &m));
	elems = 0;
	for (int i = 0; i < m.nbufs; i++)
		if (m.buf[i].packed && m.buf[i].role == BUF_CONST && pack_elems(&m.buf[i].packing) > 16)
			elems = pack_elems(&m.buf[i].packing);
	CHECK(elems == 16 * 16 * 9 && m.winograd == 2);
	CHECK(winograd_share(4).weights == 4 && winograd_share(4).flops == .25);
	CHECK(winograd_share(2).flops * 2.25 == 1);
	arena_free(&c.a);
}

/* Times of an EPYC of the Zen 4 kind, weights from memory: drafts are within a quarter of them, and defaults
 * are what was fastest. */
TEST(split_vectors)
{
	static const struct shape_case s512 = {1, 512, 512, 7, 7, 1, 1, 16, ADD},
				       s256 = {1, 256, 256, 14, 14, 1, 1, 16, ADD},
				       s64 = {1, 64, 64, 56, 56, 1, 1, 16, ADD};
	static const struct {
		const struct shape_case *shape;
		const char *cand;
		double us;
	} timed[] = {
	    {&s512, "lane=k:16 winograd=4 tiles=4 gemm=4x1 chunk=1 raw=1 prefetch=4", 847},
	    {&s512, "lane=k:16 winograd=2 tiles=16 gemm=6x4 chunk=16 prefetch=3", 1549},
	    {&s256, "lane=k:16 winograd=4 tiles=16 gemm=16x1 chunk=4 prefetch=2", 730},
	    {&s256, "lane=k:16 winograd=4 tiles=16 gemm=8x2 chunk=8 prefetch=2", 807},
	    {&s256, "lane=k:16 winograd=4 tiles=8 gemm=4x1 chunk=1 raw=1 prefetch=3", 850},
	    {&s64, "lane=k:16 winograd=4 tiles=28 gemm=28x1 chunk=1 prefetch=2", 571},
	};
	struct target tg = case_board(16, 32);
	snprintf(tg.cpu, sizeof tg.cpu, "znver4");
	tg.fma_gflops = 118.1;
	tg.copy_gbs = 80.3;
	memcpy(tg.bw_gbs, (double[]){212.6, 117.1, 79.5, 26.4}, sizeof tg.bw_gbs);
	for (size_t i = 0; i < sizeof timed / sizeof *timed; i++) {
		struct arena a = {0};
		struct space *s;
		char text[CAND_MAX];
		REQUIRE_OK(space_make(&a, open_task(&a, timed[i].shape), &tg, NULL, &s));
		double us = space_draft(s, timed[i].cand) / 1e3;
		CHECK(us > .75 * timed[i].us && us < 1.25 * timed[i].us);
		space_default(s, text);
		bool fastest = i == 0 || timed[i - 1].shape != timed[i].shape;
		CHECK(fastest == !strcmp(text, timed[i].cand));
		if (test_bad)
			printf("%s: drafted %.1f us, measured %.1f us; default %s\n", timed[i].cand, us,
			       timed[i].us, text);
		arena_free(&a);
	}
}

/* 28 sums of F(4,3) in two columns spill with 32 registers. */
TEST(register_tiles_leave_room_for_constants)
{
	static const struct shape_case s = {1, 64, 64, 56, 56, 1, 1, 16, ADD};
	struct target tg = case_board(16, 32);
	struct arena a = {0};
	struct rng r;
	struct space *x;
	char cand[CAND_MAX];
	int two = 0;
	rng_seed(&r, 1);
	REQUIRE_OK(space_make(&a, open_task(&a, &s), &tg, NULL, &x));
	for (int i = 0; i < 500; i++) {
		CHECK_OK(space_random(x, &r, cand));
		two += strstr(cand, "winograd=4") && strstr(cand, "gemm=13x2");
		CHECK(!strstr(cand, "winograd=4") || !strstr(cand, "gemm=14x2"));
	}
	CHECK(two > 0);
	arena_free(&a);
}

/* Without FMA a default prefetches nothing. With it, one whose weights come from memory stays with F(4,3)
 * where another core lowered the measured bandwidth by half. */
TEST(defaults_of_many_channels)
{
	static const struct shape_case many = {1, 512, 512, 7, 7, 1, 1, 8, "post acc r2 add 0 max\n", false};
	static const double memory_gbs[] = {31.5, 17.5};
	struct arena a = {0};
	for (int i = 0; i < 4; i++) {
		struct target board = case_board(8, 16);
		char cand[CAND_MAX];
		struct space *s;
		board.fma = i < 2;
		board.fma_gflops = 118.2;
		const double gbs[4] = {219, 117, 82, memory_gbs[i % 2]};
		memcpy(board.bw_gbs, gbs, sizeof gbs);
		REQUIRE_OK(space_make(&a, open_task(&a, &many), &board, NULL, &s));
		space_default(s, cand);
		CHECK(strstr(cand, "winograd=4"));
		CHECK(!strstr(cand, "prefetch") == !board.fma);
	}
	arena_free(&a);
}

/* A core that issues in order waits for each load of a filter's transform, so the default transforms filters
 * ahead, also where their bytes come from memory. */
TEST(filters_are_transformed_ahead_in_order)
{
	static const struct shape_case many = {1, 512, 512, 7, 7, 1, 1, 4, "post acc r2 add 0 max\n", false};
	static const double gbs[4] = {11, 5, 0, 2};
	struct arena a = {0};
	struct target board;
	struct space *s;
	char cand[CAND_MAX];
	REQUIRE_OK(target_baseline("armv8-a", &board));
	strcpy(board.cpu, "cortex-a53");
	board.fma_gflops = 11.2;
	board.l1_bytes = 32768, board.l2_bytes = 1 << 19;
	memcpy(board.bw_gbs, gbs, sizeof gbs);
	REQUIRE_OK(space_make(&a, open_task(&a, &many), &board, NULL, &s));
	space_default(s, cand);
	CHECK(strstr(cand, "winograd=4") && !strstr(cand, "raw"));
	arena_free(&a);
}

/* ---- devices of work items ---- */

static const struct shape_case shapes[] = {{1, 8, 8, 8, 8, 1, 1, 8, ADD},
					   {1, 8, 24, 7, 7, 1, 1, 8, RESIDUAL},
					   {1, 12, 20, 13, 13, 0, 1, 8, LONG},
					   {2, 5, 7, 6, 9, 0, 1, 8, ADD},
					   {3, 16, 16, 5, 5, 0, 0, 16, ADD},
					   {1, 16, 33, 1, 1, 0, 1, 16, ADD},
					   {1, 3, 8, 3, 11, 1, 1, 4, ""},
					   {1, 16, 9, 7, 9, 1, 1, 16, ADD, true},
					   {2, 8, 20, 8, 6, 0, 1, 8, RESIDUAL, true}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Interprets all launches, each in two ranges; returns the error, or -1. */
static double interpret_items(struct kcase *c, const char *cand, const struct target *tg)
{
	struct loops *l;
	struct manifest m;
	void *bufs[CODE_MAX_BUFS];
	int64_t elems[CODE_MAX_BUFS];
	if (lower(&c->t, cand, tg, &c->a, &l, &m) < 0 || loops_check(l) < 0)
		return -1;
	CHECK(m.nentries == 3 && m.shares_scratch && m.winograd);
	case_bind(c, &m, bufs, elems);
	for (int e = 0; e < m.nentries; e++) {
		int64_t extent = code_extent(&m, e, m.param);
		if (loops_run(l, e, bufs, m.param, extent / 2, extent) < 0 ||
		    loops_run(l, e, bufs, m.param, 0, extent / 2) < 0)
			return -1;
	}
	return output_error(c, &m, bufs, elems);
}

TEST(items_of_every_shape)
{
	static const int tile[][2] = {{1, 1}, {3, 1}, {2, 2}, {4, 3}, {7, 2}};
	const struct target tg = case_gpu();
	int ran = 0;
	for (int i = 0; i < SHAPES; i++)
		for (int k = 0; k < 20; k++) {
			struct kcase c;
			char cand[CAND_MAX];
			struct sched parsed;
			int m = k % 2 ? 4 : 2, lanes = k / 2 % 2 ? 4 : 2;
			snprintf(cand, sizeof cand, "lane=k:%d winograd=%d gemm=%dx%d%s", lanes, m,
				 tile[k / 4][0], tile[k / 4][1], i % 2 ? " group=64" : "");
			REQUIRE_OK(open_case(&c, &shapes[i]));
			bool fits =
			    sched_parse(&c.t, cand, &parsed) >= 0 && sched_check(&c.t, &tg, &parsed) >= 0;
			double err = fits ? interpret_items(&c, cand, &tg) : 0;
			if (!(err >= 0 && err < 2e-5))
				printf("shape %d, %s: error %g %s\n", i, cand, err,
				       err < 0 ? err_text() : "");
			CHECK(err >= 0 && err < 2e-5);
			ran += fits;
			arena_free(&c.a);
		}
	CHECK(ran > 80);
}

TEST(refused_schedules_of_items)
{
	static const struct shape_case s = {1, 16, 24, 8, 8, 0, 1, 8, ADD};
	static const struct {
		const char *cand, *why;
	} all[] = {{"lane=k:4 winograd=2 tiles=4 gemm=4x1 chunk=1", "no keys but gemm"},
		   {"lane=k:4 winograd=2 gemm=4x1 raw=1", "no keys but gemm"},
		   {"lane=k:4 winograd=2 gemm=4x1 parts=2", "no keys but gemm"},
		   {"lane=k:4 winograd=2 gemm=4x1 prefetch=1", "no keys but gemm"},
		   {"lane=k:4 winograd=3 gemm=4x1", "not 2 or 4"},
		   {"lane=k:4 winograd=2 gemm=17x1", "than the output has"},
		   {"lane=k:4 winograd=2 gemm=1x7", "than the output has"},
		   {"lane=k:4 winograd=2 gemm=16x5", "too many"},
		   {"lane=k:4 winograd=2 gemm=4x1 group=48", "a power of two"},
		   {"lane=k:4 winograd=2 gemm=4x1 group=64 blocks=2", "threads, blocks"},
		   {"lane=k:4 winograd=2 gemm=4x1 threads=k:2", "threads, blocks"},
		   {"lane=k:4 par=1 winograd=2 gemm=4x1", "belong"}};
	const struct target tg = case_gpu();
	struct kcase c;
	REQUIRE_OK(open_case(&c, &s));
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct sched parsed;
		CHECK_OK(sched_parse(&c.t, all[i].cand, &parsed));
		int rc = sched_check(&c.t, &tg, &parsed);
		if (rc != E_INFEASIBLE || !strstr(err_text(), all[i].why))
			printf("%s: %d %s\n", all[i].cand, rc, err_text());
		CHECK_FAILS(rc, E_INFEASIBLE, all[i].why);
	}
	struct arena a = {0};
	const struct shape_case large = {1, 512, 512, 256, 256, 1, 1, 16, ADD};
	struct space *s2;
	REQUIRE_OK(space_make(&a, open_task(&a, &large), &tg, NULL, &s2));
	CHECK_FAILS(space_legal(s2, "lane=k:4 winograd=2 gemm=4x2"), E_INFEASIBLE, "too large");
	arena_free(&a);
	arena_free(&c.a);
}

/* The portfolio has F(2,3) and F(4,3), which take less time by the draft where tiles are many; the default is
 * the direct form, and exact spaces have no other. */
TEST(items_are_proposed)
{
	const struct shape_case s = {1, 64, 64, 56, 56, 1, 1, 16, ADD};
	struct target tg = case_gpu();
	tg.cores = 8;
	tg.fma_gflops = 1300;
	tg.l2_bytes = 4 << 20;
	for (int i = 0; i < 4; i++)
		tg.bw_gbs[i] = i < 3 ? 400 : 60;
	for (int exact = 0; exact < 2; exact++) {
		struct arena a = {0};
		struct space *sp;
		char cand[CAND_MAX];
		int at = 0, n = 0;
		double best[2] = {1e30, 1e30};
		const struct space_want want = {.level = exact ? LEVEL_EXACT : LEVEL_FP32};
		REQUIRE_OK(space_make(&a, open_task(&a, &s), &tg, &want, &sp));
		space_default(sp, cand);
		CHECK(!strstr(cand, "winograd"));
		while (space_portfolio(sp, &at, cand) >= 0) {
			bool wino = strstr(cand, "winograd=");
			double ns = space_draft(sp, cand);
			best[wino] = ns < best[wino] ? ns : best[wino];
			n += wino;
		}
		CHECK(exact ? n == 0 : n == 4 && best[1] < .7 * best[0]);
		CHECK(case_drawn(sp, 1, 200, "winograd=") > 10 || exact);
		if (exact)
			CHECK_FAILS(space_legal(sp, "lane=k:4 winograd=2 gemm=4x2"), E_INFEASIBLE, "exact");
		arena_free(&a);
	}
}

/* ---- one launch ---- */

TEST(refused_schedules_of_one_launch)
{
	static const struct shape_case s = {1, 24, 24, 8, 8, 0, 1, 8, ADD};
	static const struct {
		const char *cand, *why;
	} all[] = {
	    {"lane=k:4 winograd=2 tiles=8 gemm=4x1 chunk=2 share=c:4", NULL},
	    {"lane=k:4 split=c:12 spread=1 winograd=2 tiles=8 gemm=4x1 chunk=2 share=c:4x2", NULL},
	    {"lane=k:4 winograd=2 tiles=6 gemm=4x1 chunk=2 share=c:4", "whole register tiles"},
	    {"lane=k:4 winograd=2 tiles=4 gemm=4x2 chunk=3 share=c:4", "whole register tiles"},
	    {"lane=k:4 winograd=2 gemm=4x2 share=c:4", "whole register tiles"},
	    {"lane=k:4 winograd=2 tiles=8 gemm=4x1 chunk=2 share=r:3", "not along the input channels"},
	    {"lane=k:4 winograd=2 tiles=8 gemm=4x1 chunk=2 share=c:65", "too large"},
	    {"lane=k:4 winograd=2 tiles=20 gemm=4x1 chunk=2 share=c:4", "than the output has"},
	    {"lane=k:4 winograd=2 tiles=4 gemm=4x1 chunk=7 share=c:4", "than the output has"},
	    {"lane=k:4 winograd=2 tiles=16 gemm=1x1 chunk=6 share=c:4", "too many threads"},
	    {"lane=k:4 winograd=4 tiles=4 gemm=1x1 chunk=6 share=c:24", "buffers are too large"},
	    {"lane=k:4 winograd=2 tiles=4 gemm=4x1 chunk=1 share=c:16x3", "more steps than"},
	    {"lane=k:4 split=c:6 spread=1 winograd=2 tiles=4 gemm=4x1 chunk=1 share=c:4", "whole steps"},
	    {"lane=k:4 split=c:12 winograd=2 tiles=4 gemm=4x1 chunk=1 share=c:4", "no keys but"},
	    {"lane=k:4 winograd=2 tiles=4 gemm=4x1 chunk=1 group=64 share=c:4", "no keys but"},
	    {"lane=k:4 winograd=2 tiles=16 gemm=16x1 chunk=1 share=c:16x2", "too many windows"},
	    {"lane=k:4 winograd=2 tiles=1 gemm=1x1 chunk=1 threads=k:2 share=c:4", "no keys but"}};
	const struct target tg = case_gpu(), cpu = case_board(4, 32);
	struct kcase c;
	struct sched parsed;
	REQUIRE_OK(open_case(&c, &s));
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		CHECK_OK(sched_parse(&c.t, all[i].cand, &parsed));
		int rc = sched_check(&c.t, &tg, &parsed);
		if (all[i].why ? rc != E_INFEASIBLE || !strstr(err_text(), all[i].why) : rc < 0)
			printf("%s: %d %s\n", all[i].cand, rc, err_text());
		if (all[i].why)
			CHECK_FAILS(rc, E_INFEASIBLE, all[i].why);
		else
			CHECK_OK(rc);
	}
	REQUIRE_OK(sched_parse(&c.t, all[0].cand, &parsed));
	CHECK_FAILS(sched_check(&c.t, &cpu, &parsed), E_INFEASIBLE, "on a processor");
	arena_free(&c.a);
}

/* A draft and features may be asked of a schedule that no check has seen. */
TEST(drafts_of_schedules_of_one_launch_without_sizes)
{
	static const struct shape_case s = {1, 24, 24, 8, 8, 0, 1, 8, ADD};
	static const char *const cand[] = {
	    "lane=k:4 winograd=2 tiles=2 gemm=4x1 chunk=2 share=c:4",
	    "lane=k:4 winograd=2 tiles=8 gemm=4x1 chunk=2 share=c:0",
	    "lane=k:4 winograd=2 gemm=4x1 share=c:4",
	    "lane=k:4 split=c:0 spread=1 winograd=2 tiles=8 gemm=4x1 chunk=2 share=c:4",
	    "lane=k:4 winograd=4 tiles=1048576 gemm=1x1 chunk=1048576 share=c:1048576"};
	struct arena a = {0};
	struct target tg = case_gpu();
	struct space *sp;
	REQUIRE_OK(space_make(&a, open_task(&a, &s), &tg, NULL, &sp));
	for (size_t i = 0; i < sizeof cand / sizeof *cand; i++) {
		float f[FEATURES];
		CHECK(space_draft(sp, cand[i]) > 1e20);
		space_features(sp, cand[i], f);
		CHECK_FAILS(space_legal(sp, cand[i]), E_INFEASIBLE, "winograd");
	}
	arena_free(&a);
}

/* Schedules of one convolution become legal ones of others, and mostly stay one launch. */
TEST(schedules_of_one_launch_are_transferred)
{
	static const struct shape_case big = {1, 64, 64, 28, 28, 1, 1, 16, ADD},
				       others[] = {{1, 32, 128, 14, 14, 1, 1, 16, ADD},
						   {2, 64, 24, 7, 7, 1, 1, 16, ADD},
						   {1, 8, 64, 56, 56, 1, 1, 8, ADD},
						   {1, 16, 16, 2, 2, 0, 1, 16, ADD}};
	struct arena a = {0};
	struct target tg = case_gpu();
	struct space *from;
	struct rng r;
	char cand[CAND_MAX], other[CAND_MAX], to[CAND_MAX];
	int n = 0, fused = 0;
	struct task *t = open_task(&a, &big);
	REQUIRE_OK(space_make(&a, t, &tg, NULL, &from));
	rng_seed(&r, 1);
	for (int i = 0; i < 400; i++) {
		CHECK_OK(space_random(from, &r, cand));
		if (!strstr(cand, "chunk="))
			continue;
		CHECK_OK(space_mutate(from, &r, cand, other));
		CHECK_OK(space_legal(from, other));
		CHECK_OK(space_cross(from, &r, cand, other, to));
		CHECK_OK(space_legal(from, to));
		for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
			struct space *sp;
			REQUIRE_OK(space_make(&a, open_task(&a, &others[k]), &tg, NULL, &sp));
			int rc = space_transfer(sp, t, 0, cand, to);
			if (rc < 0)
				printf("%s: %s\n", cand, err_text());
			CHECK_OK(rc);
			CHECK(rc < 0 || strstr(to, "winograd="));
			fused += rc >= 0 && strstr(to, "chunk=");
			n++;
		}
	}
	CHECK(n > 40 && 2 * fused > n);
	arena_free(&a);
}

TEST_MAIN
