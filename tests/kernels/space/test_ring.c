/* SPDX-License-Identifier: Apache-2.0 */
/* Chains whose intermediates are rings of rows: the rows that they need of each stage, and the loops compared
 * with the reference. */
#include "kernels/loops/lower.h"
#include "kernels/space/sched.h"
#include "tests/lib/kernel_cases.h"

static struct target board(int lanes)
{
	return (struct target){.isa = "x86-64-v4",
			       .lanes = lanes,
			       .regs = 32,
			       .fma = true,
			       .l1_bytes = 32768,
			       .l2_bytes = 1 << 20,
			       .l3_bytes = 32 << 20,
			       .cores = 1};
}

/* 1x1 to 40 channels, depthwise 3x3 over `in` rows of 13, 1x1 to 24 and a residual. */
static void block(struct buf *b, int in, int stride, const char *halo)
{
	int out = (in + stride - 1) / stride, wide = 13, ow = (wide + stride - 1) / stride;
	buf_printf(b, "task syms=0\noperand X in f32 [1,24,%d,%d] 0.1/16.2.3.1\n", in, wide);
	buf_puts(b, "operand W const f32 [40,24,1,1] plain\noperand B const f32 [40] plain\n");
	buf_printf(b, "operand H tmp f32 [1,40,%d,%d] 0.1/16.2.3.1%s\n", in, wide, halo);
	buf_printf(b, "operand V const f32 [40,1,3,3] plain\noperand D tmp f32 [1,40,%d,%d] 0.1/16.2.3.1\n",
		   out, ow);
	buf_printf(b, "operand U const f32 [24,40,1,1] plain\noperand R in f32 [1,24,%d,%d] 0.1/16.2.3.1\n",
		   out, ow);
	buf_printf(b, "operand Y out f32 [1,24,%d,%d] 0.1/16.2.3.1;2+1+1;3+1+1\n", out, ow);
	buf_printf(b, "stage n:1 k:40 y:%d x:%d | c:24\nread X [n,c,y,x]\nread W [k,c,0,0]\nread B [k]\n", in,
		   wide);
	buf_puts(b, "body r0 r1 mul\nsum\npost acc r2 add 0 max 6 min\nwrite H [n,k,y,x]\n");
	buf_printf(b, "stage n:1 k:40 y:%d x:%d | r:3 s:3\nread H [n,k,", out, ow);
	window(b, "y", "r", stride, 1, 1);
	buf_puts(b, ",");
	window(b, "x", "s", stride, 1, 1);
	buf_puts(b, "]\nread V [k,0,r,s]\nbody r0 r1 mul\nsum\npost acc 0 max 6 min\nwrite D [n,k,y,x]\n");
	buf_printf(b, "stage n:1 k:24 y:%d x:%d | c:40\nread D [n,c,y,x]\nread U [k,c,0,0]\n", out, ow);
	buf_puts(b, "read R [n,k,y,x]\nbody r0 r1 mul\nsum\npost acc r2 add\nwrite Y [n,k,y,x]\n");
}

TEST(rows_that_are_needed)
{
	struct buf text = {0};
	struct task t;
	struct ring r;
	block(&text, 12, 1, ";2+1+1;3+1+1");
	REQUIRE_OK(task_parse(buf_str(&text), &t));
	REQUIRE_OK(task_ring(&t, 2, 4, &r));
	CHECK(r.st[0].axis == 2 && r.st[0].step == 1 && r.st[0].lo == -1 && r.st[0].hi == 1);
	CHECK(r.st[1].step == 1 && r.st[1].lo == 0 && r.st[1].hi == 0);
	CHECK(r.held[3] == 6 && r.held[5] == 4 && r.dim[3] == 2 && r.dim[0] == -1);
	CHECK(!ring_apart(&t, &r) && !ring_whole(&r, 0) && ring_whole(&r, 1) && ring_whole(&r, 2));
	CHECK_FAILS(task_ring(&t, 1, 1, &r), E_INFEASIBLE, "is read by rows"); /* all channels are needed */
	CHECK_FAILS(task_ring(&t, 4, 1, &r), E_INFEASIBLE, "not rows");        /* a reduction */
	CHECK_FAILS(task_ring(&t, 2, 13, &r), E_INFEASIBLE, "not rows");
	CHECK(stage_over_image(&t, &t.stage[0], 1) && !stage_over_image(&t, &t.stage[1], 1));
	text.n = 0;
	block(&text, 12, 2, ";2+1+1;3+1+1");
	REQUIRE_OK(task_parse(buf_str(&text), &t));
	REQUIRE_OK(task_ring(&t, 2, 2, &r));
	CHECK(r.st[0].step == 2 && r.st[0].lo == -1 && r.st[0].hi == 1 && r.held[3] == 5);
	char label[96];
	task_label(&t, label);
	CHECK(!strcmp(label, "conv 1x1 + dwconv 3x3/2 + conv 1x1 24->24 6x7"));
	REQUIRE_OK(task_ring(&t, 2, 6, &r));
	CHECK(r.held[3] == 13); /* of 14 */
	buf_free(&text);
}

/* Every N, chunks of every size, halos or guards, 16, 8, 4 lanes and none. */
TEST(blocks)
{
	static const char *const inner[] = {
	    "lane=k:16 tile=k:2,x:7 unroll=c:2 order=n,y,x,k,c; lane=k:16 tile=x:7 unroll=r:3,s:3; lane=k:16 "
	    "tile=x:5 unroll=c:4",
	    "lane=k:8 tile=x:13; lane=k:8 unroll=s:3 order=n,y,k,x,r,s; lane=k:8 tile=k:3,x:2 "
	    "order=n,x,k,y,c",
	    "lane=k:4; tile=x:3; lane=k:16",
	    "lane=c:8 unroll=c:3; lane=k:4; lane=c:16",
	};
	struct target tg = board(16);
	int done = 0, tried = 0;
	for (int in = 1; in <= 11; in += in < 3 ? 1 : 4)
		for (int c = 0; c < 4 * 2 * 2; c++) {
			struct buf text = {0};
			struct kcase k;
			struct rng r;
			int stride = 1 + (c & 1), out = (in + stride - 1) / stride;
			block(&text, in, stride, c & 2 ? ";2+1+1;3+1+1" : c & 4 ? ";3+1+1" : "");
			rng_seed(&r, (uint64_t)(in * 16 + c));
			REQUIRE_OK(case_parse(&k, buf_str(&text), &r));
			for (int n = 1; n <= out && n <= 5; n++)
				for (int chunk = 0; chunk < 3; chunk++) {
					char cand[CAND_MAX];
					bool infeasible;
					if (tried++ % test_share())
						continue;
					snprintf(cand, sizeof cand,
						 chunk ? "%s ring=y:%d | block=y:%d" : "%s ring=y:%d",
						 inner[c / 4], n, chunk);
					double err = case_interpret(&k, cand, &tg, &infeasible);
					if (!(err >= 0 && err < 4e-6))
						printf("%s: error %g %s\n%s", cand, err,
						       infeasible ? err_text() : "", buf_str(&text));
					REQUIRE(err >= 0 && err < 4e-6);
					done++;
				}
			buf_free(&text);
			arena_free(&k.a);
		}
	CHECK(test_share() > 1 || done > 400);
}

static void plain_layouts(struct buf *text, struct buf *out)
{
	for (const char *p = buf_str(text), *q; *p; p = q) {
		q = strstr(p, "0.1/16.2.3.1");
		buf_printf(out, "%.*s%s", q ? (int)(q - p) : (int)strlen(p), p, q ? "plain" : "");
		q = q ? q + strlen("0.1/16.2.3.1") : p + strlen(p);
	}
}

/* The same on plain layouts with lanes along the pixels of a row; with a stride, every second pixel of the
 * first stage's. */
TEST(plain_blocks)
{
	static const char *const inner[] = {
	    "lane=x:16 tile=k:8 unroll=c:2 order=n,y,x,k,c; lane=x:4 tile=x:2 unroll=r:3,s:3; lane=x:8 "
	    "tile=k:4",
	    "lane=x:4 tile=k:3,x:2; lane=x:8 tile=k:5 unroll=s:3; lane=x:16 tile=k:24",
	};
	struct target tg = board(16);
	for (int c = 0; c < 2 * 2 * 3; c++) {
		struct buf text = {0}, plain = {0};
		struct kcase k;
		struct rng r;
		bool infeasible;
		char cand[CAND_MAX];
		block(&text, 9, 1 + (c & 1), ";2+1+1;3+1+1");
		plain_layouts(&text, &plain);
		rng_seed(&r, (uint64_t)c);
		REQUIRE_OK(case_parse(&k, buf_str(&plain), &r));
		snprintf(cand, sizeof cand, "%s ring=y:%d | block=y:1", inner[c / 2 % 2], 1 + c / 4);
		double err = case_interpret(&k, cand, &tg, &infeasible);
		REQUIRE(err >= 0 && err < 4e-6);
		buf_free(&text);
		buf_free(&plain);
		arena_free(&k.a);
	}
}

/* A copy of an image of three planes, and a strided convolution of its rows. */
static void fed(struct buf *b)
{
	buf_puts(b, "task syms=0\noperand X in f32 [1,3,22,38] plain\n"
		    "operand C tmp f32 [1,3,22,38] plain;2+1+0;3+1+0\noperand W const f32 [8,3,3,3] plain\n"
		    "operand Y out f32 [1,8,11,19] plain\nstage n:1 c:3 y:22 x:38\n"
		    "read X [n,c,y,x]\nbody r0\nwrite C [n,c,y,x]\n");
	buf_puts(b, "stage n:1 k:8 y:11 x:19 | c:3 r:3 s:3\nread C [n,c,2*y+r-1,2*x+s-1]\nread W [k,c,r,s]\n"
		    "body r0 r1 mul\nsum\nwrite Y [n,k,y,x]\n");
}

static int count(const char *text, const char *word)
{
	int n = 0;
	for (; (text = strstr(text, word)); text++)
		n++;
	return n;
}

/* While the convolution runs, two rows of each plane are fetched for its next step, by the first of the tiles
 * that read them. */
TEST(rows_are_fetched)
{
	static const char *const cand[] = {
	    "lane=x:16 prefetch=2; lane=x:16 tile=k:4 unroll=c:3 order=n,y,x,k,c,r,s ring=y:1",
	    "lane=x:4 tile=x:4 prefetch=1; lane=k:8 tile=x:7 unroll=s:3 ring=y:2 | block=y:2",
	    "prefetch=2; tile=x:5 ring=y:4",
	};
	struct target tg = board(16);
	for (int i = 0; i < 3; i++) {
		struct buf text = {0}, printed = {0};
		struct kcase k;
		struct rng r;
		struct loops *l;
		struct manifest m;
		bool infeasible;
		rng_seed(&r, (uint64_t)i);
		fed(&text);
		REQUIRE_OK(case_parse(&k, buf_str(&text), &r));
		CHECK(ring_copy(&k.t) == 0);
		double err = case_interpret(&k, cand[i], &tg, &infeasible);
		CHECK(err >= 0 && err < 4e-6);
		REQUIRE_OK(lower(&k.t, cand[i], &tg, &k.a, &l, &m));
		loops_print(l, &printed);
		CHECK(count(buf_str(&printed), "prefetch") >= 6 && strstr(buf_str(&printed), " X["));
		if (i == 0) { /* 16 points: 32 elements, two lines; of the last 3, one */
			CHECK(count(buf_str(&printed), "prefetch") == 2 * 3 * 2 + 2 * 3 * 2);
			CHECK(strstr(buf_str(&printed), "if"));
		}
		buf_free(&printed);
		buf_free(&text);
		arena_free(&k.a);
	}
}

TEST(what_feeds)
{
	struct target tg = board(16);
	struct buf text = {0};
	struct kcase k;
	struct rng r;
	struct space *s;
	struct sched c;
	char label[96], cand[CAND_MAX];
	rng_seed(&r, 1);
	fed(&text);
	REQUIRE_OK(case_parse(&k, buf_str(&text), &r));
	task_label(&k.t, label);
	CHECK(!strcmp(label, "conv 3x3/2 3->8 11x19"));
	REQUIRE_OK(space_make(&k.a, &k.t, &tg, NULL, &s));
	space_default(s, cand);
	REQUIRE_OK(sched_parse(&k.t, cand, &c));
	CHECK(c.st[0].prefetch && !c.st[1].prefetch && c.st[1].ring == 1);
	CHECK_FAILS(space_legal(s, "; ring=y:1 prefetch=1"), E_INFEASIBLE, "prefetch");
	CHECK_FAILS(space_legal(s, "prefetch=1; "), E_INFEASIBLE, "prefetch");
	arena_free(&k.a);
	text.n = 0;
	block(&text, 12, 1, "");
	REQUIRE_OK(case_parse(&k, buf_str(&text), &r));
	CHECK(ring_copy(&k.t) == -1);
	buf_free(&text);
	arena_free(&k.a);
}

/* Four threads compute 14 of 56 rows each, not 16 and finally 8; one thread has no chunks. */
TEST(rows_are_divided_evenly)
{
	struct buf text = {0};
	struct arena a = {0};
	struct task t;
	struct target tg = board(16);
	block(&text, 56, 1, ";2+1+1;3+1+1");
	REQUIRE_OK(task_parse(buf_str(&text), &t));
	for (int threads = 1; threads <= 8; threads++) {
		const struct space_want want = {false, threads};
		struct space *s;
		struct sched c;
		char cand[CAND_MAX];
		REQUIRE_OK(space_make(&a, &t, &tg, &want, &s));
		space_default(s, cand);
		REQUIRE_OK(sched_parse(&t, cand, &c));
		const struct sstage *last = &c.st[2];
		int64_t rows = last->block[2] * last->ring;
		CHECK(last->ring_axis == 2 && (threads == 1 ? !rows : rows > 0));
		CHECK(threads == 1 || rows * threads <= 56 + 2 * threads);
		CHECK(threads != 4 || rows == 14);
	}
	arena_free(&a);
	buf_free(&text);
}

/* Tiles span rows of the depthwise stage and of the last one, and the last step may not fill them; rows of
 * the first stage have other rows between them. */
TEST(tiles_of_rows)
{
	static const char *const inner[] = {
	    "lane=k:16; lane=k:16 tile=y:2,x:4 unroll=r:3,s:3; lane=k:8",
	    "lane=k:8; lane=k:4 tile=y:4 unroll=r:3; lane=k:16 tile=y:2,x:3 order=n,x,y,k,c",
	};
	struct target tg = board(16);
	struct loops *l;
	struct manifest m;
	for (int c = 0; c < 2 * 3 * 3; c++) {
		struct buf text = {0};
		struct kcase k;
		struct rng r;
		bool infeasible;
		char cand[CAND_MAX];
		block(&text, 8 + c / 6, 1 + (c & 1), c % 3 ? ";2+1+1;3+1+1" : ";3+1+1");
		rng_seed(&r, (uint64_t)c);
		REQUIRE_OK(case_parse(&k, buf_str(&text), &r));
		snprintf(cand, sizeof cand, "%s ring=y:4%s", inner[c & 1], c % 3 == 1 ? " | block=y:1" : "");
		double err = case_interpret(&k, cand, &tg, &infeasible);
		REQUIRE(err >= 0 && err < 4e-6);
		CHECK_FAILS(lower(&k.t, "; tile=y:2; ring=y:3", &tg, &k.a, &l, &m), E_INFEASIBLE,
			    "in lanes or tiles");
		buf_free(&text);
		arena_free(&k.a);
	}
}

/* The default of a depthwise stage with lanes along pixels has several rows in its tile, because they share
 * what they read. */
TEST(default_tiles_rows)
{
	struct buf text = {0}, plain = {0};
	struct arena a = {0};
	struct task t;
	struct target tg = board(16);
	struct space *s;
	struct sched c;
	char cand[CAND_MAX];
	block(&text, 56, 1, ";2+1+1;3+1+1");
	plain_layouts(&text, &plain);
	REQUIRE_OK(task_parse(buf_str(&plain), &t));
	for (int threads = 1; threads <= 8; threads++) {
		const struct space_want want = {false, threads};
		REQUIRE_OK(space_make(&a, &t, &tg, &want, &s));
		space_default(s, cand);
		REQUIRE_OK(sched_parse(&t, cand, &c));
		CHECK(c.st[1].lane == 3 && c.st[1].unroll[4] == 3 && c.st[1].tile[2] == c.st[2].ring);
	}
	arena_free(&a);
	buf_free(&text);
	buf_free(&plain);
}

TEST(hostile_schedules)
{
	static const struct {
		const char *cand, *why;
		int rc;
	} bad[] = {
	    {"; ; ring=y", "':' expected", E_CORRUPT},
	    {"; ; ring=y:65", "over 64", E_CORRUPT},
	    {"; ; ring=y:04", "not canonical", E_CORRUPT},
	    {"; ; ring=q:1", "no axis", E_CORRUPT},
	    {"; ; ring=y:1 | block=x:1", "no outer loop", E_CORRUPT},
	    {"; ; ring=y:1 | block=y:0", "no outer loop", E_CORRUPT},
	    {"; ; | block=y:1", "", E_CORRUPT},
	    {"; ; hoist=0 ring=y:1 chains=2", "out of order", E_CORRUPT},
	    {"; ; ring=y:0", "not rows", E_INFEASIBLE},
	    {"; ; ring=y:12", "not rows", E_INFEASIBLE},
	    {"; ; ring=k:1", "is read by rows", E_INFEASIBLE},
	    {"; ; ring=c:1", "not rows", E_INFEASIBLE},
	    {"; ring=y:1; ", "last stage", E_INFEASIBLE},
	    {"tile=y:2; ; ring=y:2", "lanes or tiles", E_INFEASIBLE},
	    {"; lane=r:4 order=n,k,y,x,s,r; ring=y:2", "lie apart", E_INFEASIBLE},
	    {"; ; par=1 ring=y:2", "par", E_INFEASIBLE},
	    {"; ; outer=y ring=y:2", "outer", E_INFEASIBLE},
	};
	struct target tg = board(16);
	struct buf text = {0};
	struct kcase k;
	struct rng r;
	struct loops *l;
	struct manifest m;
	rng_seed(&r, 1);
	block(&text, 11, 1, ";2+1+1;3+1+1");
	REQUIRE_OK(case_parse(&k, buf_str(&text), &r));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(lower(&k.t, bad[i].cand, &tg, &k.a, &l, &m), bad[i].rc, bad[i].why);
	buf_free(&text);
	arena_free(&k.a);
}

/* Independent rows: tiles of them, all keys before the first step, any chunk. */
TEST(attention)
{
	static const int rows[] = {1, 2, 4, 6, 12};
	struct target tg = board(16);
	struct rng r;
	rng_seed(&r, 5);
	int done = 0;
	for (int i = 0; i < 40; i++) {
		struct buf text = {0};
		struct kcase k;
		struct ring ring;
		char cand[CAND_MAX];
		bool infeasible;
		int n = rows[i % 5], tile = i & 1 ? n : (n + 1) / 2;
		gen_attention(&text, &r);
		REQUIRE_OK(case_parse(&k, buf_str(&text), &r));
		bool good = task_ring(&k.t, 1, n, &ring) >= 0;
		CHECK(good == (n <= k.t.stage[5].axis[1].extent));
		if (good) {
			CHECK(ring.st[0].axis == -1 && ring.dim[2] == -1 && ring_apart(&k.t, &ring));
			CHECK(ring.held[3] == n && ring.held[5] == n);
			char m[24] = "";
			if (tile > 1 && n % tile == 0)
				snprintf(m, sizeof m, " tile=m:%d", tile);
			snprintf(cand, sizeof cand,
				 "lane=n:4; lane=n:8%s; lane=n:4; lane=n:8; lane=n:4; lane=v:4%s ring=m:%d%s",
				 m, m, n, i & 2 ? " | block=m:2" : "");
			double err = case_interpret(&k, cand, &tg, &infeasible);
			CHECK(infeasible || (err >= 0 && err < 4e-6));
			done += !infeasible;
		}
		arena_free(&k.a);
		buf_free(&text);
	}
	CHECK(done > 20);
	struct kcase k;
	struct buf text = {0};
	struct loops *l;
	struct manifest m;
	do {
		buf_clear(&text);
		gen_attention(&text, &r);
		REQUIRE_OK(case_parse(&k, buf_str(&text), &r));
	} while (k.t.stage[5].axis[1].extent < 6);
	char label[96];
	task_label(&k.t, label);
	CHECK(!strncmp(label, "attention ", 10));
	CHECK_FAILS(lower(&k.t, "; tile=m:4; ; ; ; ring=m:6", &tg, &k.a, &l, &m), E_INFEASIBLE,
		    "in lanes or tiles");
	arena_free(&k.a);
	buf_free(&text);
}

/* Scratch holds a few rows, not whole tensors; a chunk is a parallel index. */
TEST(scratch_and_extent)
{
	struct target tg = board(16);
	struct buf text = {0};
	struct kcase k;
	struct rng r;
	struct loops *l;
	struct manifest m;
	rng_seed(&r, 1);
	block(&text, 32, 1, ";2+1+1;3+1+1");
	REQUIRE_OK(case_parse(&k, buf_str(&text), &r));
	REQUIRE_OK(lower(&k.t, "; ; ", &tg, &k.a, &l, &m));
	CHECK(m.scratch_bytes == 48 * (34 * 15 + 32 * 13) * 4 && code_extent(&m, 0, m.param) == 1);
	REQUIRE_OK(lower(&k.t, "; ; ring=y:2 | block=y:3", &tg, &k.a, &l, &m));
	CHECK(m.scratch_bytes == 48 * (4 * 15 + 2 * 13) * 4);
	CHECK(code_extent(&m, 0, m.param) == 6); /* 16 steps of two rows */
	REQUIRE_OK(lower(&k.t, "; ; ring=y:2", &tg, &k.a, &l, &m));
	CHECK(code_extent(&m, 0, m.param) == 1);
	/* Plain: column 0 of each of 4 rows of 13 and a halo begins a vector, behind 15 elements. */
	struct buf plain = {0};
	struct kcase p;
	plain_layouts(&text, &plain);
	REQUIRE_OK(case_parse(&p, buf_str(&plain), &r));
	REQUIRE_OK(lower(&p.t, "; ; ring=y:2", &tg, &p.a, &l, &m));
	CHECK(m.scratch_bytes == (16 + 40 * 4 * 16 + 40 * 2 * 16) * 4);
	buf_free(&plain);
	arena_free(&p.a);
	buf_free(&text);
	arena_free(&k.a);
}

TEST_MAIN
