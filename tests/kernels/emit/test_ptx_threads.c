/* SPDX-License-Identifier: Apache-2.0 */
/* The PTX interpreter's threads: barriers, races, asynchronous copies, shuffles. Programs are right, and give
 * the right results with every seed; then a barrier or wait that they need is taken away, which must be
 * found. */
#include "tests/lib/test.h"
#include "tests/lib/ptx_call.h"
#include "platform/base/rng.h"

#define BEGIN                                                                                                \
	"ld.param.u64 %rd1, [p0];\nld.param.u64 %rd2, [p1];\nld.param.u64 %rd3, [p2];\nmov.u32 %r1, "        \
	"%tid.x;\n"                                                                                          \
	"mul.wide.u32 %rd4, %r1, 4;\nadd.s64 %rd5, %rd1, %rd4;\nadd.s64 %rd6, %rd2, %rd4;\n"                 \
	"shl.b32 %r2, %r1, 2;\nmov.u32 %r3, sh;\nadd.s32 %r4, %r3, %r2;\n"
/* %r1: thread; %rd5, %rd6: its words of p0 and p1; %r4: its word of sh. */

static int cases(void)
{
	return getenv("PTX_CASES") ? atoi(getenv("PTX_CASES")) : 60;
}

/* ---- random programs that exchange values in rounds ---- */

enum { MOST_ROUNDS = 6, THREADS = 96 };
struct exchange {
	int rounds, threads, buffers;                         /* round r writes buffer r % buffers */
	uint32_t write[MOST_ROUNDS][2], read[MOST_ROUNDS][2]; /* place: (thread * [0] + [1]) % threads */
	int skip;                                             /* this barrier is missing; -1: none */
	int nbarriers;
};

static void add_barrier(struct buf *t, struct exchange *e)
{
	if (e->nbarriers++ != e->skip)
		buf_puts(t, "bar.sync 0;\n");
}

static void place(struct buf *t, const struct exchange *e, int r, const uint32_t at[2])
{
	buf_printf(t,
		   "mad.lo.u32 %%r10, %%r1, %u, %u;\nrem.u32 %%r10, %%r10, %d;\nshl.b32 %%r10, %%r10, "
		   "2;\nadd.s32 %%r10, %%r10, %%r3;\n"
		   "add.s32 %%r10, %%r10, %d;\n",
		   at[0], at[1], e->threads, r % e->buffers * e->threads * 4);
}

static void exchange_text(struct buf *t, struct exchange *e)
{
	e->nbarriers = 0;
	buf_printf(t, ".shared .align 4 .b8 sh[%d];\n%s", e->threads * e->buffers * 4, BEGIN);
	buf_puts(t, "ld.global.u32 %r20, [%rd5];\n");
	for (int r = 0; r < e->rounds; r++) {
		place(t, e, r, e->write[r]);
		buf_puts(t, "st.shared.u32 [%r10], %r20;\n");
		add_barrier(t, e);
		place(t, e, r, e->read[r]);
		buf_puts(t, "ld.shared.u32 %r21, [%r10];\nmad.lo.u32 %r20, %r20, 5, %r21;\n");
		if (e->buffers == 1 && r + 1 < e->rounds)
			add_barrier(t, e);
	}
	buf_puts(t, "st.global.u32 [%rd6], %r20;\nret;");
}

static uint32_t coprime(struct rng *r, int n)
{
	for (;;) {
		uint32_t a = 1 + rng_below(r, (uint32_t)n), x = a, y = (uint32_t)n;
		while (y) {
			uint32_t z = x % y;
			x = y;
			y = z;
		}
		if (x == 1)
			return a;
	}
}

static void exchange_random(struct exchange *e, struct rng *r)
{
	*e = (struct exchange){.rounds = 1 + (int)rng_below(r, MOST_ROUNDS), .skip = -1};
	e->threads = 2 + (int)rng_below(r, THREADS - 1);
	e->buffers = 1 + (int)rng_below(r, 3);
	for (int k = 0; k < MOST_ROUNDS; k++) {
		e->write[k][0] = coprime(r, e->threads);
		e->read[k][0] = coprime(r, e->threads);
		e->write[k][1] = rng_below(r, 100);
		e->read[k][1] = rng_below(r, 100);
	}
}

static void exchange_want(const struct exchange *e, const uint32_t *in, uint32_t *v)
{
	uint32_t sh[THREADS];
	memcpy(v, in, sizeof *v * THREADS);
	for (int r = 0; r < e->rounds; r++) {
		for (int t = 0; t < e->threads; t++)
			sh[((uint32_t)t * e->write[r][0] + e->write[r][1]) % (uint32_t)e->threads] = v[t];
		for (int t = 0; t < e->threads; t++)
			v[t] = v[t] * 5 +
			       sh[((uint32_t)t * e->read[r][0] + e->read[r][1]) % (uint32_t)e->threads];
	}
}

/* Whether some thread of round r uses a place that another wrote in it (or, between rounds, read). */
static bool needs_barrier(const struct exchange *e, const uint32_t a[2], const uint32_t b[2])
{
	for (uint32_t t = 0; t < (uint32_t)e->threads; t++)
		if ((t * a[0] + a[1]) % (uint32_t)e->threads != (t * b[0] + b[1]) % (uint32_t)e->threads)
			return true;
	return false;
}

TEST(exchanges_are_right_and_need_each_barrier)
{
	struct rng r;
	rng_seed(&r, 1);
	int found = 0;
	for (int n = 0; n < cases(); n++) {
		struct exchange e;
		uint32_t in[THREADS], out[THREADS], want[THREADS];
		exchange_random(&e, &r);
		for (int i = 0; i < THREADS; i++)
			in[i] = (uint32_t)rng_u64(&r);
		exchange_want(&e, in, want);
		struct buf text = {0};
		exchange_text(&text, &e);
		struct ptx_call call = {.body = buf_str(&text),
					.block = {(unsigned)e.threads},
					.seed = rng_u64(&r),
					.buffer = {{in, sizeof in, true}, {out, sizeof out}}};
		REQUIRE_OK(ptx_call_run(&call));
		CHECK(!memcmp(out, want, sizeof *out * (size_t)e.threads));
		e.skip = (int)rng_below(&r, (uint32_t)e.nbarriers);
		/* Barrier 2 r comes between the write and read of round r, barrier 2 r + 1 behind the read.
		 */
		int round = e.buffers == 1 ? e.skip / 2 : e.skip;
		bool needed = e.buffers == 1 && e.skip % 2
				  ? needs_barrier(&e, e.read[round], e.write[round + 1])
				  : needs_barrier(&e, e.write[round], e.read[round]);
		buf_clear(&text);
		exchange_text(&text, &e);
		call.body = buf_str(&text);
		if (needed) {
			int rc = ptx_call_run(&call);
			bool told = rc == E_CORRUPT && (strstr(err_text(), "race on shared memory") ||
							strstr(err_text(), "never written"));
			if (!told)
				printf("case %d: %d threads, %d buffers, barrier %d of %d: %s\n", n,
				       e.threads, e.buffers, e.skip, e.nbarriers,
				       rc < 0 ? err_text() : "not found");
			CHECK(told);
			found++;
		}
		buf_free(&text);
	}
	CHECK(found > cases() / 3);
}

/* ---- what orders, and what does not ---- */

static int run(const char *body, unsigned threads, uint64_t seed, uint32_t *in, uint32_t *out)
{
	char text[4096];
	snprintf(text, sizeof text, ".shared .align 16 .b8 sh[4096];\n%s%s\nret;", BEGIN, body);
	struct ptx_call call = {
	    .body = text, .block = {threads}, .seed = seed, .buffer = {{in, 4096, true}, {out, 4096}}};
	return ptx_call_run(&call);
}

#define STORE "st.shared.u32 [%r4], %r1;\n"
#define NEIGHBOUR                                                                                            \
	"xor.b32 %r10, %r2, 4;\nadd.s32 %r10, %r10, %r3;\nld.shared.u32 %r11, [%r10];\nst.global.u32 "       \
	"[%rd6], %r11;\n"

TEST(what_orders_threads)
{
	static const struct {
		const char *body;
		unsigned threads;
		const char *text; /* NULL: good */
	} rows[] = {
	    {STORE "bar.sync 0;\n" NEIGHBOUR, 64, NULL},
	    {STORE "barrier.sync 0;\n" NEIGHBOUR, 64, NULL},
	    {STORE "bar.sync 3, 64;\n" NEIGHBOUR, 64, NULL},
	    {STORE "bar.warp.sync -1;\n" NEIGHBOUR, 64, NULL}, /* neighbours are of one warp */
	    {STORE NEIGHBOUR, 64, "read here, written by"},
	    {STORE "membar.cta;\n" NEIGHBOUR, 64, "read here, written by"},
	    {STORE "mov.u32 %r12, 7;\nshfl.sync.idx.b32 %r13, %r12, 0, 31, -1;\n" NEIGHBOUR, 64,
	     "read here, written by"},
	    /* the neighbour is in the next warp */
	    {STORE "bar.warp.sync -1;\nxor.b32 %r10, %r2, 128;\nadd.s32 %r10, %r10, %r3;\nld.shared.u32 "
		   "%r11, [%r10];\n",
	     64, "shared memory"},
	    {STORE "bar.sync 0;\n" NEIGHBOUR STORE, 64, "written here, read by"},
	    {STORE "bar.sync 0;\n" NEIGHBOUR "bar.sync 0;\n" STORE, 64, NULL},
	    {"st.shared.u32 [sh], %r1;\n", 2, "written here and by"},
	    {"setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [sh], %r1;\nbar.sync 0;\nld.shared.u32 %r11, "
	     "[sh];\n",
	     64, NULL},
	    /* half words of one word: no race; bytes of one half word: no race either */
	    {"shl.b32 %r10, %r1, 1;\nadd.s32 %r10, %r10, %r3;\nmov.u16 %h1, 3;\nst.shared.b16 [%r10], %h1;\n",
	     64, NULL},
	    {"add.s32 %r10, %r1, %r3;\nst.shared.u8 [%r10], %r1;\n", 64, NULL},
	    {"shr.u32 %r10, %r1, 1;\nadd.s32 %r10, %r10, %r3;\nst.shared.u8 [%r10], %r1;\n", 64,
	     "written here and by"},
	    /* all may read at once, and the last reader counts as the first does */
	    {"setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [sh], %r1;\nbar.sync 0;\nld.shared.u32 %r11, "
	     "[sh];\n"
	     "setp.eq.u32 %p2, %r1, 70;\n@%p2 st.shared.u32 [sh], %r1;\n",
	     96, "written here, read by"},
	    /* atomic operations do not race with one another, but with all else */
	    {"setp.eq.u32 %p1, %r1, 0;\nmov.u32 %r12, 0;\n@%p1 st.shared.u32 [sh], %r12;\nbar.sync 0;\n"
	     "red.shared.add.u32 [sh], 3;\nbar.sync 0;\nld.shared.u32 %r11, [sh];\nst.global.u32 [%rd6], "
	     "%r11;\n",
	     64, NULL},
	    {"setp.eq.u32 %p1, %r1, 0;\nmov.u32 %r12, 0;\n@%p1 st.shared.u32 [sh], %r12;\n"
	     "red.shared.add.u32 [sh], 3;\n",
	     64, "shared memory"},
	    {"setp.eq.u32 %p1, %r1, 0;\nmov.u32 %r12, 0;\n@%p1 st.shared.u32 [sh], %r12;\nbar.sync 0;\n"
	     "red.shared.add.u32 [sh], 3;\nld.shared.u32 %r11, [sh];\n",
	     64, "race"},
	    /* a warp tells the other that its words are there, and goes on */
	    {"setp.gt.u32 %p1, %r1, 31;\n@%p1 bra $USE;\n" STORE "bar.arrive 1, 64;\nbra.uni $END;\n"
	     "$USE:\nbar.sync 1, 64;\nadd.s32 %r10, %r4, -128;\nld.shared.u32 %r11, [%r10];\nst.global.u32 "
	     "[%rd6], %r11;\n$END:\n",
	     64, NULL},
	    {"setp.gt.u32 %p1, %r1, 31;\n@%p1 bra $USE;\nbar.arrive 1, 64;\n" STORE "bra.uni $END;\n"
	     "$USE:\nbar.sync 1, 64;\nadd.s32 %r10, %r4, -128;\nld.shared.u32 %r11, [%r10];\nst.global.u32 "
	     "[%rd6], %r11;\n$END:\n",
	     64, "shared memory"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (uint64_t seed = 0; seed < 20; seed++) {
			uint32_t in[1024] = {0}, out[1024];
			int rc = run(rows[i].body, rows[i].threads, seed, in, out);
			bool good =
			    rows[i].text ? rc == E_CORRUPT && strstr(err_text(), rows[i].text) : rc >= 0;
			if (!good)
				printf("row %zu, seed %llu: %s\n", i, (unsigned long long)seed,
				       rc < 0 ? err_text() : "not found");
			CHECK(good);
		}
}

TEST(barriers_that_threads_miss)
{
	static const struct {
		const char *body, *text; /* NULL: good */
	} rows[] = {
	    /* threads that end before they do anything take no part */
	    {"setp.gt.u32 %p1, %r1, 40;\n@%p1 ret;\nbar.sync 0;\n", NULL},
	    {"setp.gt.u32 %p1, %r1, 31;\n@%p1 ret;\n" STORE "bar.sync 0;\n" NEIGHBOUR, NULL},
	    /* but those that have worked must come */
	    {STORE "setp.gt.u32 %p1, %r1, 31;\n@%p1 ret;\nbar.sync 0;\n", "this thread has ended"},
	    {"setp.gt.u32 %p1, %r1, 40;\n@%p1 bra $END;\nbar.sync 0;\n$END:\nst.global.u32 [%rd6], "
	     "%r1;\nbar.sync 0;\n",
	     "arrives at barrier|"
	     "never come|ended|different barriers"},
	    {"setp.gt.u32 %p1, %r1, 40;\n@%p1 bar.sync 0;\n", "part of a warp"},
	    {"setp.gt.u32 %p1, %r1, 31;\n@%p1 bra $B;\nbar.sync 0;\nbra.uni $END;\n$B:\nbar.sync 1;\n$END:\n",
	     "never come"},
	    {"setp.gt.u32 %p1, %r1, 31;\n@%p1 bar.sync 2, 64;\n@!%p1 bar.sync 2, 64;\n", NULL},
	    {"bar.sync 2, 96;\n", "barrier 2 of 96 threads"},
	    {"bar.sync %r1;\n", "differ between lanes"},
	    {"bar.sync 17;\n", "barrier 17"},
	    {"setp.gt.u32 %p1, %r1, 20;\n@%p1 bra $B;\nbar.sync 0;\nbra.uni $END;\n$B:\nbar.sync 0;\n$END:\n",
	     "different barriers"},
	    {"and.b32 %r10, %r1, 1;\nsetp.eq.u32 %p1, %r10, 0;\n@%p1 bra.uni $END;\n$END:\n",
	     "do not take alike"},
	    {"setp.gt.u32 %p1, %r1, 20;\n@%p1 bra $END;\nshfl.sync.idx.b32 %r10, %r1, 0, 31, "
	     "-1;\n$END:\nbar.sync 0;\n",
	     "never come"},
	    {"setp.gt.u32 %p1, %r1, 20;\n@%p1 ret;\nshfl.sync.idx.b32 %r10, %r1, 0, 31, -1;\n", NULL},
	    {"setp.gt.u32 %p1, %r1, 20;\n@%p1 ret;\nshfl.sync.idx.b32 %r10, %r1, 30, 31, -1;\n",
	     "does not take part"},
	    {"mov.u32 %r10, 1;\nvote.sync.ballot.b32 %r11, %p1, 1;\n", "lacks this one"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (uint64_t seed = 0; seed < 20; seed++) {
			uint32_t in[1024] = {0}, out[1024];
			int rc = run(rows[i].body, 64, seed, in, out);
			bool good = !rows[i].text == (rc >= 0);
			char texts[128], *save;
			if (rows[i].text && rc == E_CORRUPT) {
				snprintf(texts, sizeof texts, "%s", rows[i].text);
				good = false;
				for (char *s = strtok_r(texts, "|", &save); s; s = strtok_r(NULL, "|", &save))
					good |= strstr(err_text(), s) != NULL;
			}
			if (!good)
				printf("row %zu, seed %llu: %s\n", i, (unsigned long long)seed,
				       rc < 0 ? err_text() : "not found");
			CHECK(good);
		}
}

/* ---- asynchronous copies ---- */

/* A ring of stages: while stage i is summed, up to stages - 1 copies are under way. Parts can be left out or
 * changed. */
struct ring {
	int stages, steps, bytes;
	int wait;   /* groups that may be under way */
	bool early; /* the next copy starts before the wait, not behind the barrier */
	bool all, no_wait, no_first, no_last, no_commit;
};

static void copy_step(struct buf *t, const struct ring *g, const char *step)
{
	/* thread copies `bytes` bytes of step to stage step % stages */
	int per = 64 * g->bytes;
	buf_printf(t,
		   "rem.u32 %%r30, %s, %d;\nmul.lo.u32 %%r30, %%r30, %d;\nmad.lo.u32 %%r30, %%r1, %d, "
		   "%%r30;\nadd.s32 %%r30, %%r30, %%r3;\n",
		   step, g->stages, per, g->bytes);
	buf_printf(t,
		   "mul.wide.u32 %%rd30, %s, %d;\nmul.wide.u32 %%rd31, %%r1, %d;\nadd.s64 %%rd30, %%rd30, "
		   "%%rd31;\nadd.s64 %%rd30, %%rd30, %%rd1;\n",
		   step, per, g->bytes);
	buf_printf(t, "setp.lt.u32 %%p5, %s, %d;\n@%%p5 cp.async.c%c.shared.global [%%r30], [%%rd30], %d;\n",
		   step, g->steps, g->bytes == 16 ? 'g' : 'a', g->bytes);
	if (!g->no_commit)
		buf_puts(t, "cp.async.commit_group;\n");
}

static void ring_text(struct buf *t, const struct ring *g)
{
	buf_printf(t, ".shared .align 16 .b8 sh[%d];\n%s", g->stages * 64 * g->bytes, BEGIN);
	buf_puts(t, "mov.u32 %r20, 0;\nmov.u32 %r21, 0;\n");
	for (int s = 0; s < g->stages - 1; s++) {
		buf_printf(t, "mov.u32 %%r22, %d;\n", s);
		copy_step(t, g, "%r22");
	}
	buf_puts(t, "$TOP:\n");
	buf_printf(t, "add.s32 %%r22, %%r20, %d;\n", g->stages - 1);
	if (g->early)
		copy_step(t, g, "%r22");
	if (g->all)
		buf_puts(t, "cp.async.wait_all;\n");
	else if (!g->no_wait)
		buf_printf(t, "cp.async.wait_group %d;\n", g->wait);
	if (!g->no_first)
		buf_puts(t, "bar.sync 0;\n");
	/* sums the word of the thread that mirrors this one */
	buf_printf(t,
		   "rem.u32 %%r30, %%r20, %d;\nmul.lo.u32 %%r30, %%r30, %d;\nsub.s32 %%r31, 63, %%r1;\n"
		   "mad.lo.u32 %%r30, %%r31, %d, %%r30;\nadd.s32 %%r30, %%r30, %%r3;\nld.shared.u32 %%r32, "
		   "[%%r30];\n"
		   "mad.lo.u32 %%r21, %%r21, 3, %%r32;\n",
		   g->stages, 64 * g->bytes, g->bytes);
	if (!g->no_last)
		buf_puts(t, "bar.sync 0;\n");
	if (!g->early)
		copy_step(t, g, "%r22");
	buf_printf(t,
		   "add.s32 %%r20, %%r20, 1;\nsetp.lt.u32 %%p1, %%r20, %d;\n@%%p1 bra $TOP;\nst.global.u32 "
		   "[%%rd6], %%r21;\nret;",
		   g->steps);
}

static int run_ring(const struct ring *g, uint64_t seed, bool *right)
{
	enum { STEPS = 8, WORDS = STEPS * 64 * 4 };
	static uint32_t in[WORDS] __attribute__((aligned(16)));
	uint32_t out[64];
	struct rng r;
	struct buf t = {0};
	rng_seed(&r, seed);
	for (int i = 0; i < WORDS; i++)
		in[i] = (uint32_t)rng_u64(&r);
	ring_text(&t, g);
	struct ptx_call call = {.body = buf_str(&t),
				.block = {64},
				.seed = seed,
				.buffer = {{in, sizeof in, true}, {out, sizeof out}}};
	int rc = ptx_call_run(&call);
	buf_free(&t);
	*right = rc >= 0;
	for (int i = 0; i < 64 && *right; i++) {
		uint32_t want = 0;
		for (int s = 0; s < g->steps; s++)
			want = want * 3 + in[(s * 64 + 63 - i) * g->bytes / 4];
		*right = out[i] == want;
	}
	return rc;
}

TEST(copies_need_waits_and_barriers)
{
	struct rng r;
	rng_seed(&r, 3);
	for (int n = 0; n < cases(); n++) {
		struct ring g = {.stages = 2 + (int)rng_below(&r, 3), .bytes = 4 << rng_below(&r, 3)};
		g.steps = g.stages + 1 + (int)rng_below(&r, 4);
		bool right;
		uint64_t seed = rng_u64(&r);
		g.early = rng_below(&r, 2);
		g.wait = g.stages - 2 + g.early;
		for (int variant = 0; variant < 3; variant++) {
			struct ring v = g;
			v.all = variant == 1;
			v.no_last = variant == 2 &&
				    !g.early; /* all threads have read a stage before it is copied to again */
			CHECK_OK(run_ring(&v, seed, &right));
			CHECK(right);
		}
		for (int mutant = 0; mutant < (g.early ? 5 : 4); mutant++) {
			struct ring m = g;
			m.wait += mutant == 0;
			m.no_wait = mutant == 1;
			m.no_first = mutant == 2;
			m.no_commit = mutant == 3;
			m.no_last = mutant == 4;
			int rc = run_ring(&m, seed, &right);
			bool told = rc == E_CORRUPT &&
				    (strstr(err_text(), "race") || strstr(err_text(), "never written"));
			if (!told)
				printf("mutant %d, %d stages, %d steps, early %d: %s\n", mutant, g.stages,
				       g.steps, g.early, rc < 0 ? err_text() : "not found");
			CHECK(told);
		}
	}
}

TEST(copies_fill_with_zeros_and_check_bounds)
{
	static uint32_t in[1024] __attribute__((aligned(16))), out[1024];
	for (int i = 0; i < 1024; i++)
		in[i] = 0x01010101u * (uint32_t)(i + 1);
#define COPY_END                                                                                             \
	"cp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [sh];\n" \
	"st.global.v4.u32 [%rd2], {%r10, %r11, %r12, %r13};\n"
	REQUIRE_OK(
	    run("mov.u32 %r20, 6;\ncp.async.cg.shared.global.L2::128B [sh], [%rd1], 16, %r20;\n" COPY_END, 1,
		1, in, out));
	CHECK(out[0] == 0x01010101 && out[1] == 0x0202 && out[2] == 0 && out[3] == 0);
	REQUIRE_OK(run("cp.async.ca.shared.global [sh], [%rd1+4080], 16, 0;\n" COPY_END, 1, 1, in, out));
	CHECK(out[0] == 0 && out[3] == 0);
	CHECK_FAILS(run("cp.async.ca.shared.global [sh], [%rd1+1048576], 16;\n" COPY_END, 1, 1, in, out),
		    E_CORRUPT, "may not read");
	CHECK_FAILS(run("cp.async.ca.shared.global [sh], [%rd1+8], 16;\n" COPY_END, 1, 1, in, out), E_CORRUPT,
		    "multiple of 16");
	CHECK_FAILS(run("cp.async.ca.shared.global [sh+4088], [%rd1], 16;\n" COPY_END, 1, 1, in, out),
		    E_CORRUPT, "multiple of 16");
	CHECK_FAILS(run("cp.async.ca.shared.global [sh+4096], [%rd1], 16;\n" COPY_END, 1, 1, in, out),
		    E_CORRUPT, "of shared memory");
	CHECK_FAILS(run("cp.async.cg.shared.global [sh], [%rd1], 8;\n" COPY_END, 1, 1, in, out), E_CORRUPT,
		    "a copy of 8 bytes");
}

/* ---- lanes ---- */

static uint32_t shuffled(const uint32_t *v, char mode, int lane, uint32_t by, uint32_t c, bool *good)
{
	int clamp = c & 31, segment = c >> 8 & 31, most = (lane & segment) | (clamp & ~segment), from = lane;
	if (mode == 'u') {
		*good = lane - (int)by >= most;
		from = *good ? lane - (int)by : lane;
	} else {
		int j = mode == 'd'   ? lane + (int)by
			: mode == 'b' ? lane ^ (int)by
				      : (lane & segment) | ((int)by & ~segment);
		*good = j <= most;
		from = *good ? j : lane;
	}
	return v[from];
}

TEST(shuffles_and_votes)
{
	struct rng r;
	rng_seed(&r, 4);
	static const char *const modes[] = {"up", "down", "bfly", "idx"};
	for (int n = 0; n < cases(); n++) {
		uint32_t in[1024], out[1024], by = rng_below(&r, 32);
		const char *mode = modes[n % 4];
		uint32_t width = 1u << (1 + rng_below(&r, 5)),
			 c = (32 - width) << 8 | (*mode == 'u' ? 0 : 31);
		char body[512];
		for (int i = 0; i < 64; i++)
			in[i] = (uint32_t)rng_u64(&r);
		snprintf(body, sizeof body,
			 "ld.global.u32 %%r10, [%%rd5];\nshfl.sync.%s.b32 %%r11|%%p1, %%r10, %u, %u, "
			 "-1;\nselp.b32 %%r12, 1, 0, %%p1;\n"
			 "st.global.u32 [%%rd6], %%r11;\nst.global.u32 [%%rd6+256], %%r12;\nand.b32 %%r13, "
			 "%%r10, 1;\n"
			 "setp.ne.u32 %%p2, %%r13, 0;\nvote.sync.ballot.b32 %%r14, %%p2, -1;\nst.global.u32 "
			 "[%%rd6+512], %%r14;\n",
			 mode, by, c);
		REQUIRE_OK(run(body, 64, rng_u64(&r), in, out));
		for (int i = 0; i < 64; i++) {
			bool good;
			uint32_t want = shuffled(in + i / 32 * 32, *mode, i % 32, by, c, &good), ballot = 0;
			for (int k = 0; k < 32; k++)
				ballot |= (in[i / 32 * 32 + k] & 1) << k;
			CHECK(out[i] == want && out[64 + i] == good && out[128 + i] == ballot);
		}
	}
}

/* Sums of lanes by halves: what a reduction over threads of a warp is. */
TEST(reductions_by_shuffles_of_part_of_a_warp)
{
	uint32_t in[1024], out[1024];
	for (uint32_t i = 0; i < 64; i++)
		in[i] = i * i + 1;
	REQUIRE_OK(
	    run("ld.global.u32 %r10, [%rd5];\nand.b32 %r11, %r1, 16;\nsetp.ne.u32 %p1, %r11, 0;\n@%p1 bra "
		"$HIGH;\n"
		"shfl.sync.bfly.b32 %r12, %r10, 1, 31, 65535;\nadd.s32 %r10, %r10, %r12;\nbra.uni $END;\n"
		"$HIGH:\nshfl.sync.bfly.b32 %r12, %r10, 2, 31, -65536;\nadd.s32 %r10, %r10, "
		"%r12;\n$END:\nst.global.u32 [%rd6], %r10;\n",
		64, 1, in, out));
	for (uint32_t i = 0; i < 64; i++)
		CHECK(out[i] == in[i] + in[i ^ (i & 16 ? 2 : 1)]);
}

/* ---- seeds, memory that is given at the launch, atomic operations of the grid ---- */

TEST(the_seed_decides_the_order_alone)
{
	uint32_t out[2], first[16];
	int differ = 0;
	for (uint64_t seed = 0; seed < 16; seed++)
		for (int again = 0; again < 2; again++) {
			out[0] = out[1] = 0;
			struct ptx_call call = {.body = "ld.param.u64 %rd1, [p0];\nmov.u32 %r1, "
							"%ctaid.x;\nst.global.u32 [%rd1], %r1;\n"
							"atom.global.add.u32 %r2, [%rd1+4], 1;\nret;",
						.grid = 10,
						.seed = seed,
						.buffer = {{out, sizeof out}}};
			REQUIRE_OK(ptx_call_run(&call));
			CHECK(out[1] == 320);
			if (!again)
				first[seed] = out[0];
			CHECK(out[0] == first[seed]);
			differ += out[0] != first[0];
		}
	CHECK(differ > 10);
}

/* Three blocks of 64 threads; %r5 is the thread's number among all, %rd7 its word of p1. */
TEST(races_on_global_memory)
{
	static const struct {
		const char *body, *text; /* NULL: good */
	} rows[] = {
	    {"ld.global.u32 %r10, [%rd1];\nst.global.u32 [%rd7], %r10;\nld.global.u32 %r11, [%rd7];\n", NULL},
	    {"st.global.u32 [%rd2], %r5;\n", "written here and by"},
	    {"setp.eq.u32 %p1, %r1, 0;\n@%p1 st.global.u32 [%rd2], %r5;\n", "of the same launch"},
	    {"red.global.add.u32 [%rd2], 1;\n", NULL},
	    {"red.global.add.u32 [%rd2], 1;\nld.global.u32 %r10, [%rd2];\n", "race on global memory"},
	    {"st.global.u32 [%rd7], %r5;\nbar.sync 0;\nxor.b32 %r10, %r5, 33;\nmul.wide.u32 %rd8, %r10, "
	     "4;\nadd.s64 %rd8, %rd8, %rd2;\n"
	     "ld.global.u32 %r11, [%rd8];\n",
	     NULL},
	    {"st.global.u32 [%rd7], %r5;\nxor.b32 %r10, %r5, 33;\nmul.wide.u32 %rd8, %r10, 4;\nadd.s64 %rd8, "
	     "%rd8, %rd2;\n"
	     "ld.global.u32 %r11, [%rd8];\n",
	     "of the block"},
	    {"st.global.u32 [%rd7], %r5;\nbar.sync 0;\nxor.b32 %r10, %r5, 64;\nmul.wide.u32 %rd8, %r10, "
	     "4;\nadd.s64 %rd8, %rd8, %rd2;\n"
	     "ld.global.u32 %r11, [%rd8];\n",
	     "of the same launch"},
	    {"ld.global.u32 %r10, [%rd2+512];\nsetp.eq.u32 %p1, %r5, 130;\n@%p1 st.global.u32 [%rd2+512], "
	     "%r5;\n",
	     "race on global memory"},
	    /* threads of different blocks use the halves of a word */
	    {"shl.b32 %r10, %r5, 1;\ncvt.u64.u32 %rd8, %r10;\nadd.s64 %rd8, %rd8, %rd2;\nadd.s64 %rd8, %rd8, "
	     "2;\nst.global.u16 [%rd8], %r5;\n",
	     NULL},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (uint64_t seed = 0; seed < 20; seed++) {
			uint32_t in[256] = {0}, out[256] = {0};
			char text[2048];
			snprintf(text, sizeof text,
				 ".shared .align 16 .b8 sh[16];\n%smov.u32 %%r6, %%ctaid.x;\nmad.lo.s32 "
				 "%%r5, %%r6, 64, %%r1;\n"
				 "mul.wide.u32 %%rd7, %%r5, 4;\nadd.s64 %%rd7, %%rd7, %%rd2;\n%s\nret;",
				 BEGIN, rows[i].body);
			struct ptx_call call = {.body = text,
						.grid = 3,
						.block = {64},
						.seed = seed,
						.global_races = true,
						.buffer = {{in, sizeof in, true}, {out, sizeof out}}};
			int rc = ptx_call_run(&call);
			bool good =
			    rows[i].text ? rc == E_CORRUPT && strstr(err_text(), rows[i].text) : rc >= 0;
			if (!good)
				printf("row %zu, seed %llu: %s\n", i, (unsigned long long)seed,
				       rc < 0 ? err_text() : "not found");
			CHECK(good);
			call.global_races = false;
			CHECK_OK(ptx_call_run(&call));
		}
}

/* One thread alone uses a byte of another one. */
TEST(one_race_of_many_threads)
{
	struct rng r;
	rng_seed(&r, 6);
	for (int n = 0; n < cases(); n++) {
		uint32_t in[1024] = {0}, out[1024], a = rng_below(&r, 64),
			 b = (a + 1 + rng_below(&r, 63)) % 64;
		bool write = rng_below(&r, 2), barrier = rng_below(&r, 3) == 0;
		char body[512];
		snprintf(body, sizeof body,
			 "%s%sld.shared.u32 %%r10, [%%r4];\nsetp.eq.u32 %%p1, %%r1, %u;\n@%%p1 %s;\n", STORE,
			 barrier ? "bar.sync 0;\n" : "", a,
			 write ? "st.shared.u32 [%r11], %r1" : "ld.shared.u32 %r10, [%r11]");
		char full[700];
		snprintf(full, sizeof full, "add.s32 %%r11, %%r3, %u;\n%s", 4 * b, body);
		int rc = run(full, 64, rng_u64(&r), in, out);
		bool raced = rc == E_CORRUPT && strstr(err_text(), "shared memory"), want = write || !barrier;
		CHECK(want ? raced : rc >= 0);
	}
}

TEST(shared_memory_of_the_launch)
{
	uint32_t out[64];
	struct ptx_call call = {
	    .before = ".extern .shared .align 16 .b8 dyn[];",
	    .body = ".shared .align 4 .b8 sh[20];\n" BEGIN
		    "mov.u32 %r5, dyn;\nadd.s32 %r5, %r5, %r2;\nst.shared.u32 [%r5], %r1;\n"
		    "bar.sync 0;\nsub.s32 %r6, 252, %r2;\nmov.u32 %r7, dyn;\nadd.s32 %r7, %r7, %r6;\n"
		    "ld.shared.u32 %r8, [%r7];\nst.global.u32 [%rd5], %r8;\nret;",
	    .block = {64},
	    .shared_bytes = 256,
	    .buffer = {{out, sizeof out}}};
	REQUIRE_OK(ptx_call_run(&call));
	for (uint32_t i = 0; i < 64; i++)
		CHECK(out[i] == 63 - i);
	call.shared_bytes = 252;
	CHECK_FAILS(ptx_call_run(&call), E_CORRUPT, "of shared memory");
}

TEST(atomic_operations)
{
	static const struct {
		const char *op;
		uint32_t start, want;
	} rows[] = {{"add.u32", 5, 5 + 63 * 32}, {"min.s32", 9, 0}, {"max.u32", 9, 63}, {"or.b32", 64, 127},
		    {"and.b32", 255, 0},         {"xor.b32", 1, 1}, {"inc.u32", 0, 0},  {"add.f32", 0, 0}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		uint32_t in[1024] = {0}, out[1024] = {rows[i].start};
		char body[256];
		if (!strcmp(rows[i].op, "add.f32")) {
			float sum;
			REQUIRE_OK(run("cvt.rn.f32.u32 %f1, %r1;\nred.global.add.f32 [%rd2], %f1;\n", 64, i,
				       in, out));
			memcpy(&sum, out, 4);
			CHECK(sum == 63 * 32);
			continue;
		}
		snprintf(body, sizeof body, "atom.global.%s %%r10, [%%rd2], %%r1;\n", rows[i].op);
		REQUIRE_OK(run(body, 64, i, in, out));
		CHECK(out[0] == rows[i].want || !strcmp(rows[i].op, "inc.u32"));
	}
	uint32_t in[1024] = {0}, out[1024] = {0, 2};
	for (int i = 0; i < 6; i++) /* 0 to 3 and again; 2 down to 0, then 3 */
		REQUIRE_OK(run("atom.global.inc.u32 %r10, [%rd2], 3;\nred.global.dec.u32 [%rd2+4], 3;\n", 1,
			       1, in, out));
	CHECK(out[0] == 2 && out[1] == 0);
	memset(out, 0, sizeof out);
	/* a lock: each thread takes it, adds, and gives it back; lanes that lost try again */
	REQUIRE_OK(
	    run("$TRY:\natom.global.cas.b32 %r10, [%rd2], 0, 1;\nsetp.ne.u32 %p1, %r10, 0;\n@%p1 bra $TRY;\n"
		"ld.global.u32 %r11, [%rd2+4];\nadd.s32 %r11, %r11, 1;\nst.global.u32 [%rd2+4], %r11;\n"
		"atom.global.exch.b32 %r12, [%rd2], 0;\n",
		1, 1, in, out));
	CHECK(out[0] == 0 && out[1] == 1);
}

TEST_MAIN
