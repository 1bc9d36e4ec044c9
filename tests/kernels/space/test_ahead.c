/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetched panels: every line of weights except those of the first part is fetched before its first use.
 * Prefetched inputs: every line except those of the first tile. */
#include "kernels/loops/lower.h"
#include "kernels/space/sched.h"
#include "tests/lib/kernel_cases.h"

static struct target board(void)
{
	return (struct target){.isa = "x86-64-v4",
			       .lanes = 16,
			       .regs = 32,
			       .fma = true,
			       .l1_bytes = 32768,
			       .l2_bytes = 1 << 20,
			       .l3_bytes = 32 << 20,
			       .fma_gflops = 150,
			       .bw_gbs = {160, 90, 12, 11},
			       .cores = 4};
}

/* Executes the loops' control and records the loads and prefetches of one buffer. */
struct trace {
	const struct loops *l;
	const struct manifest *m;
	int64_t *vars;
	int buf;
	int64_t lines; /* cache lines of the buffer */
	unsigned char *there;
	int64_t cold, loads, fetches, beyond, level;
};

static int64_t value(const struct trace *t, const struct ix *x)
{
	return ix_eval(x, t->m->param, t->vars, NULL);
}

static void touch(struct trace *t, const struct stmt *s)
{
	int64_t line = value(t, s->mem.at) / LINE_ELEMS;
	if (s->op == ST_PREFETCH) {
		t->fetches++;
		t->level = (int64_t)s->imm;
		t->beyond += line >= t->lines;
		if (line < t->lines)
			t->there[line] = 1;
	} else if (s->vop == V_LOAD) {
		CHECK(line < t->lines);
		t->loads++;
		t->cold += !t->there[line];
		t->there[line] = 1;
	}
}

static void follow(struct trace *t, const struct stmt *s) /* as deep as the loops */
{
	for (; s; s = s->next) {
		if (s->op == ST_FOR)
			for (int64_t i = value(t, s->lo), hi = value(t, s->hi); i < hi; i += s->step) {
				t->vars[s->var] = i;
				follow(t, s->body);
			}
		else if (s->op == ST_IF)
			follow(t, value(t, s->lo) ? s->body : s->other);
		else if ((s->op == ST_PREFETCH || s->vop == V_LOAD) && s->op != ST_STORE &&
			 s->mem.buf == t->buf)
			touch(t, s);
	}
}

static int run_trace(struct kcase *c, const char *cand, int buf, struct trace *t)
{
	struct target tg = board();
	struct manifest *m = ARENA_NEW(&c->a, struct manifest);
	struct loops *l;
	int rc = lower(&c->t, cand, &tg, &c->a, &l, m);
	if (rc < 0)
		return rc;
	*t = (struct trace){.l = l, .m = m, .buf = buf};
	t->vars = ARENA_ARRAY(&c->a, int64_t, l->nloopvars);
	t->lines = m->buf[t->buf].elems / LINE_ELEMS;
	t->there = ARENA_ARRAY(&c->a, unsigned char, t->lines + 1);
	int64_t n = code_extent(m, 0, m->param);
	for (int64_t i = 0; i < n; i++) {
		t->vars[l->entry[0].var] = i;
		follow(t, l->entry[0].body);
	}
	return E_OK;
}

static int open_conv(struct kcase *c, int in, int out, int h, int w, int taps)
{
	char text[1024];
	struct rng r;
	int halo = taps / 2;
	snprintf(text, sizeof text,
		 "task syms=0\noperand X in f32 [1,%d,%d,%d] 0.1/16.2.3.1;2+%d+%d;3+%d+%d\n"
		 "operand W const f32 [%d,%d,%d,%d] plain\noperand B const f32 [%d] plain\n"
		 "operand Y out f32 [1,%d,%d,%d] 0.1/16.2.3.1\nstage n:1 k:%d y:%d x:%d | c:%d r:%d s:%d\n"
		 "read X [n,c,y+r-%d,x+s-%d]\nread W [k,c,r,s]\nread B [k]\nbody r0 r1 mul\nsum\n"
		 "post acc r2 add\nwrite Y [n,k,y,x]\n",
		 in, h, w, halo, halo, halo, halo, out, in, taps, taps, out, out, h, w, out, h, w, in, taps,
		 taps, halo, halo);
	rng_seed(&r, 1);
	return case_parse(c, text, &r);
}

/* A 1x1 convolution has axes without a loop; this text has no r and s. */
static void matmul_text(char text[1024], int m, int n, int k)
{
	snprintf(text, 1024,
		 "task syms=0\noperand X in f32 [1,%d,%d] 0.1/16.2.1\noperand W const f32 [%d,%d] plain\n"
		 "operand Y out f32 [1,%d,%d] 0.1/16.2.1\nstage n:1 k:%d y:%d | c:%d\nread X [n,c,y]\n"
		 "read W [k,c]\nbody r0 r1 mul\nsum\nwrite Y [n,k,y]\n",
		 k, m, n, k, n, m, n, m, k);
}

static int open_matmul(struct kcase *c, int m, int n, int k)
{
	char text[1024];
	struct rng r;
	matmul_text(text, m, n, k);
	rng_seed(&r, 1);
	return case_parse(c, text, &r);
}

/* The task without data, for its schedules only. */
static int open_shape(struct kcase *c, int m, int n, int k)
{
	char text[1024];
	matmul_text(text, m, n, k);
	memset(c, 0, sizeof *c);
	return task_parse(text, &c->t);
}

static int open_rows(struct kcase *c, int in, int out, int w)
{
	char text[1024];
	struct rng r;
	snprintf(text, sizeof text,
		 "task syms=0\noperand X in f32 [1,%d,%d] plain\noperand W const f32 [%d,%d] plain\n"
		 "operand Y out f32 [1,%d,%d] plain\nstage n:1 k:%d x:%d | c:%d\nread X [n,c,x]\n"
		 "read W [k,c]\nbody r0 r1 mul\nsum\nwrite Y [n,k,x]\n",
		 in, w, out, in, out, w, out, w, in);
	rng_seed(&r, 1);
	return case_parse(c, text, &r);
}

enum { INPUT, WEIGHTS };

static void expect_of(struct kcase *c, int buf, const char *cand, int64_t cold, int level)
{
	struct target tg = board();
	struct trace t;
	bool infeasible;
	REQUIRE_OK(run_trace(c, cand, buf, &t));
	if (t.cold > cold || t.fetches > t.loads)
		printf("%s: %lld of %lld lines cold (%lld expected), %lld fetches\n", cand, (long long)t.cold,
		       (long long)t.lines, (long long)cold, (long long)t.fetches);
	CHECK(t.cold <= cold);
	CHECK(t.fetches <= t.loads);
	CHECK(t.level == level);
	CHECK(case_interpret(c, cand, &tg, &infeasible) < 2e-6);
	arena_free(&c->a);
}

/* Expects no prefetch of a panel past the last one. */
static void expect_inside(struct kcase *c, const char *cand)
{
	struct trace t;
	REQUIRE_OK(run_trace(c, cand, WEIGHTS, &t));
	CHECK(t.fetches > 0 && t.beyond == 0);
	arena_free(&c->a);
}

static void expect(struct kcase *c, const char *cand, int64_t cold, int level)
{
	expect_of(c, WEIGHTS, cand, cold, level);
}

TEST(inputs_are_there_before_their_use)
{
	struct kcase c = {{0}};
	/* blocks of channels: those of the first tile's first block are cold */
	REQUIRE_OK(open_matmul(&c, 196, 16, 48));
	expect_of(&c, INPUT, "lane=k:16 tile=y:14 unroll=c:2 feed=1", 14, 1);
	/* a smaller last tile; more steps than lines */
	REQUIRE_OK(open_matmul(&c, 50, 32, 64));
	expect_of(&c, INPUT, "lane=k:16 tile=k:2,y:6 order=n,y,k,c feed=1", 6, 1);
	/* one block: fetches the next tile's */
	REQUIRE_OK(open_matmul(&c, 56, 16, 16));
	expect_of(&c, INPUT, "lane=k:16 tile=y:28 unroll=c:4 feed=1", 28, 1);
	/* a shorter last block fetches half of the next tile's */
	REQUIRE_OK(open_matmul(&c, 56, 16, 24));
	expect_of(&c, INPUT, "lane=k:16 tile=y:14 unroll=c:2 feed=1", 14 + 3 * 7, 1);
	/* rows: the tiles of eight outputs share the vectors of a tile */
	REQUIRE_OK(open_rows(&c, 24, 24, 240));
	expect_of(&c, INPUT, "lane=x:16 tile=k:8,x:3 unroll=c:2 order=n,x,k,c feed=1", 3 * 24, 1);
	REQUIRE_OK(open_rows(&c, 20, 16, 96));
	expect_of(&c, INPUT, "lane=x:16 tile=k:4,x:3 order=n,x,k,c feed=1", 3 * 20, 1);
	/* parts of a reduction, each for all tiles: the first tile's first block of each */
	REQUIRE_OK(open_matmul(&c, 42, 16, 64));
	expect_of(&c, INPUT, "lane=k:16 tile=y:14 order=k,n,y,c par=1 split=c:32 prefetch=1 feed=1", 28, 1);
}

TEST(lines_are_there_before_their_use)
{
	struct kcase c = {{0}};
	/* whole panels of 48 x 32: the first is cold */
	REQUIRE_OK(open_matmul(&c, 49, 96, 48));
	expect(&c, "lane=k:16 tile=k:2,y:13 unroll=c:2 order=k,n,y,c par=3 prefetch=1", 96, 1);
	REQUIRE_OK(open_matmul(&c, 49, 96, 48));
	expect(&c, "lane=k:16 tile=k:3,y:7 order=k,n,y,c par=1 prefetch=2", 144, 2);
	/* parts of 16 and 32 channels; the last one is shorter, and has less time */
	REQUIRE_OK(open_matmul(&c, 49, 96, 80));
	expect(&c, "lane=k:16 tile=k:2,y:14 unroll=c:2 order=k,n,y,c par=1 split=c:16 prefetch=1", 32, 1);
	REQUIRE_OK(open_matmul(&c, 49, 80, 80));
	expect(&c, "lane=k:16 tile=k:2,y:14 unroll=c:2 order=k,n,y,c par=1 split=c:32 prefetch=1", 96, 1);
	/* fewer lines than tiles */
	REQUIRE_OK(open_matmul(&c, 196, 64, 32));
	expect(&c, "lane=k:16 tile=y:6 unroll=c:2 order=k,n,y,c prefetch=1", 32, 1);
	/* two vectors a line */
	REQUIRE_OK(open_matmul(&c, 49, 72, 32));
	expect(&c, "lane=k:8 tile=k:3,y:7 order=k,n,y,c par=3 prefetch=1", 48, 1);
	/* one tile for each panel: a little ahead */
	REQUIRE_OK(open_matmul(&c, 4, 96, 1024));
	expect(&c, "lane=k:16 tile=k:2,y:4 unroll=c:4 order=k,n,y,c par=3 prefetch=1", 64, 1);
}

TEST(nothing_is_fetched_past_the_end)
{
	struct kcase c = {{0}};
	REQUIRE_OK(open_matmul(&c, 49, 96, 80));
	expect_inside(&c, "lane=k:16 tile=k:2,y:7 unroll=c:2 order=k,n,y,c par=3 prefetch=1");
	REQUIRE_OK(open_matmul(&c, 49, 80, 80));
	expect_inside(&c, "lane=k:16 tile=k:3,y:8 unroll=c:2 order=k,n,y,c par=1 split=c:32 prefetch=2");
}

/* Channels are stored in blocks of 16, of which the last is half empty: the steps that it lacks fetch
 * nothing. */
TEST(lines_of_windows)
{
	struct kcase c = {{0}};
	REQUIRE_OK(open_conv(&c, 40, 64, 7, 9, 3));
	expect(&c, "lane=k:16 tile=k:2,x:9 unroll=c:2 order=k,n,y,x,c,r,s par=3 prefetch=1", 864, 1);
	REQUIRE_OK(open_conv(&c, 40, 64, 7, 9, 3));
	expect(&c, "lane=k:16 tile=k:2,x:4 unroll=c:2 order=k,n,y,x,c,r,s par=1 split=c:16 prefetch=2", 432,
	       2);
	REQUIRE_OK(open_conv(&c, 40, 64, 7, 9, 3));
	expect(&c, "lane=k:16 tile=x:9 unroll=c:2,s:3 order=k,n,x,y,c,r,s prefetch=1", 576, 1);
}

/* Weights that only one tile uses: a few bytes arrive as soon as they are needed, so they are not
 * prefetched. */
TEST(small_weights_used_once_are_not_fetched)
{
	static const struct {
		int n, k, level;
	} of[] = {{64, 64, 0}, {128, 256, 0}, {1000, 192, 1}, {1000, 1280, 1}};
	struct target tg = board();
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct kcase c = {{0}};
		struct sched d;
		struct space *s;
		char cand[CAND_MAX];
		REQUIRE_OK(open_matmul(&c, 1, of[i].n, of[i].k));
		REQUIRE_OK(space_make(&c.a, &c.t, &tg, NULL, &s));
		space_default(s, cand);
		REQUIRE_OK(sched_parse(&c.t, cand, &d));
		CHECK(d.st[0].prefetch == of[i].level);
		arena_free(&c.a);
	}
}

TEST(refused)
{
	static const struct {
		const char *cand;
		int rc;
		const char *why;
	} k[] = {
	    {"lane=k:16 prefetch=0", E_CORRUPT, "number"},
	    {"lane=k:16 prefetch=3", E_CORRUPT, "number"},
	    {"prefetch=1", E_INFEASIBLE, "packed"},
	    {"lane=k:16 tile=x:7 prefetch=1", E_OK, ""},
	    {"lane=k:16 tile=x:7 order=n,y,k,x,c,r,s prefetch=1", E_INFEASIBLE, "in turn"},
	    {"lane=k:16 tile=x:7 outer=k prefetch=1 | block=k:2", E_INFEASIBLE, "in turn"},
	    {"lane=k:16 tile=x:7 split=c:16 prefetch=1", E_INFEASIBLE, "in turn"},
	    {"lane=k:16 tile=x:7 par=4 split=c:16 prefetch=1", E_INFEASIBLE, "in turn"},
	    {"lane=k:16 tile=x:7 par=2 split=c:16 prefetch=1", E_OK, ""},
	    {"lane=k:16 tile=x:7 feed=1", E_INFEASIBLE, "sum over one"},
	    {"lane=k:16 tile=x:7 feed=0", E_CORRUPT, "number"},
	    {"lane=k:16 tile=x:7 order=n,k,y,x,r,c,s par=2 split=c:16 prefetch=1", E_INFEASIBLE, "apart"},
	};
	struct target tg = board();
	struct kcase c = {{0}};
	REQUIRE_OK(open_conv(&c, 40, 64, 7, 9, 3));
	for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
		struct loops *l;
		struct manifest m;
		int rc = lower(&c.t, k[i].cand, &tg, &c.a, &l, &m);
		if (rc != k[i].rc || (rc < 0 && !strstr(err_text(), k[i].why)))
			printf("%s: %d %s\n", k[i].cand, rc, rc < 0 ? err_text() : "");
		CHECK(rc == k[i].rc);
		CHECK(rc >= 0 || strstr(err_text(), k[i].why));
	}
	arena_free(&c.a);
}

/* A nearest Resize over the largest number of axes of a stage: there is no further axis to sum over. */
TEST(a_map_of_all_axes_has_no_feed)
{
	static const char text[] = "task syms=0\noperand X in f32 [1,32,16,16] 0.1/16.2.3.1\n"
				   "operand Y out f32 [1,32,32,32] 0.1/16.2.3.1\n"
				   "stage n:1 c:32 d:2 e:2 f:2 g:2 h:2 i:2 j:2 k:2 l:2 m:2\n"
				   "read X [n,c,8*d+4*e+2*f+g,8*i+4*j+2*k+l]\nbody r0\n"
				   "write Y [n,c,16*d+8*e+4*f+2*g+h,16*i+8*j+4*k+2*l+m]\n";
	struct kcase c = {{0}};
	struct target tg = board();
	struct sched s;
	struct feed f;
	REQUIRE_OK(task_parse(text, &c.t));
	CHECK(c.t.stage[0].naxes == MAX_AXES && stage_spatial(&c.t.stage[0]) == MAX_AXES);
	REQUIRE_OK(sched_parse(&c.t, "lane=c:16 tile=m:2 feed=1", &s));
	CHECK_FAILS(stage_feed(&c.t, &c.t.stage[0], &s.st[0], &f), E_INFEASIBLE, "sum over one");
	CHECK_FAILS(sched_check(&c.t, &tg, &s), E_INFEASIBLE, "sum over one");
}

static void default_of(struct kcase *c, int threads, char cand[CAND_MAX])
{
	struct target tg = board();
	struct space_want want = {.threads = threads};
	struct space *s;
	REQUIRE_OK(space_make(&c->a, &c->t, &tg, &want, &s));
	space_default(s, cand);
	CHECK_OK(space_legal(s, cand));
}

TEST(rules)
{
	char cand[CAND_MAX];
	struct kcase c = {{0}};
	REQUIRE_OK(open_shape(&c, 49, 160, 960)); /* weights over L1: parts, a panel after the other */
	default_of(&c, 1, cand);
	CHECK(strstr(cand, "prefetch=1") && strstr(cand, "split=c:") && strstr(cand, "order=k,n,y"));
	default_of(&c, 4, cand); /* the number of panels does not divide among four threads: pixels are
				  * shared too */
	CHECK(strstr(cand, "prefetch=1") && !strstr(cand, "split=") && strstr(cand, "par=3"));
	arena_free(&c.a);
	REQUIRE_OK(open_shape(&c, 12, 960, 960)); /* limited by memory: the L2 waits for the weights */
	default_of(&c, 1, cand);
	CHECK(strstr(cand, "prefetch=2"));
	arena_free(&c.a);
	REQUIRE_OK(open_shape(&c, 784, 512, 256)); /* few weights; but inputs are prefetched and outputs
						    * are written in order */
	default_of(&c, 1, cand);
	CHECK(strstr(cand, "prefetch=1 feed=1") && strstr(cand, "order=k,n,y"));
	arena_free(&c.a);
	REQUIRE_OK(open_shape(&c, 3136, 64, 64)); /* limited by arithmetic */
	default_of(&c, 1, cand);
	CHECK(!strstr(cand, "prefetch") && !strstr(cand, "feed"));
	arena_free(&c.a);
	REQUIRE_OK(open_shape(&c, 3136, 16, 64)); /* few FMAs per element that is read */
	default_of(&c, 1, cand);
	CHECK(strstr(cand, "feed=1"));
	arena_free(&c.a);
	REQUIRE_OK(open_shape(&c, 1, 1000, 1280)); /* limited by memory */
	default_of(&c, 1, cand);
	CHECK(strstr(cand, "prefetch=1") && !strstr(cand, "split="));
	arena_free(&c.a);
	REQUIRE_OK(
	    open_shape(&c, 1, 256, 512)); /* may still be in the L2: limited by loads, few of them of
					   * inputs */
	default_of(&c, 1, cand);
	CHECK(!strstr(cand, "prefetch") && !strstr(cand, "feed") && strstr(cand, "tile=k:8"));
	arena_free(&c.a);
	REQUIRE_OK(open_shape(&c, 1, 32, 64)); /* too few outputs to hide an FMA's latency: sums in parts */
	default_of(&c, 1, cand);
	CHECK(strstr(cand, "tile=k:2") && strstr(cand, "chains=4"));
	arena_free(&c.a);
}

TEST(draws)
{
	struct kcase c = {{0}};
	struct target tg = board();
	struct space *s;
	struct rng r;
	char cand[CAND_MAX], next[CAND_MAX];
	int drawn = 0, kept = 0;
	rng_seed(&r, 5);
	REQUIRE_OK(open_shape(&c, 49, 160, 960));
	REQUIRE_OK(space_make(&c.a, &c.t, &tg, NULL, &s));
	for (int i = 0; i < 100; i++) {
		REQUIRE_OK(space_random(s, &r, cand));
		CHECK_OK(space_legal(s, cand));
		drawn += strstr(cand, "prefetch=") != NULL;
		REQUIRE_OK(space_mutate(s, &r, cand, next));
		CHECK_OK(space_legal(s, next));
		kept += strstr(next, "prefetch=") != NULL;
	}
	CHECK(drawn > 10 && drawn < 90 && kept > 10 && kept < 90);
	arena_free(&c.a);
}

TEST_MAIN
