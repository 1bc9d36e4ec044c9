/* SPDX-License-Identifier: Apache-2.0 */
/* Products as loops in assembly for processors that issue in order (kernels/emit/llvm_pipe.c): random
 * convolutions and schedules, run by qemu-user as a cortex-a53, give the bits that the interpreter gives.
 * HONE_SEED: the first seed. PIPE_RUNS: times as many programs. */
#include "kernels/emit/emit.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"
#include "platform/base/rng.h"
#include "tests/lib/arm_programs.h"

enum { PROGRAMS = 30, MOST_FLOATS = 1 << 16 };

static struct arena arena;
static float memory[PROGRAMS][MOST_FLOATS], expected[PROGRAMS][MOST_FLOATS], got[MOST_FLOATS];

/* A convolution with stride 1 or 2 of a filter of 1, 3 or 5 (`taps`), in blocks of four channels. */
struct conv {
	int c, k, h, w, taps, stride;
	const char *post;
};

static struct conv draw_conv(struct rng *r)
{
	static const char *const post[] = {"acc r2 add", "acc r2 add 0 max", "acc r2 add 0 max 6 min",
					   "acc r2 add sigmoid", "acc r2 add tanh"};
	static const int taps[] = {1, 1, 3, 3, 3, 5};
	struct conv s = {.c = 4 * (1 + (int)rng_below(r, 12)), .k = 8 * (1 + (int)rng_below(r, 3))};
	s.h = 2 + (int)rng_below(r, 6), s.w = 3 + (int)rng_below(r, 15);
	s.taps = taps[rng_below(r, 6)];
	s.stride = rng_below(r, 8) ? 1 : 2;
	s.post = post[rng_below(r, 5)];
	return s;
}

static void conv_text(const struct conv *s, char *out, size_t room)
{
	int halo = s->taps / 2;
	char layout[64], times[16] = "", less[16] = "";
	if (s->stride > 1)
		snprintf(times, sizeof times, "%d*", s->stride);
	if (halo)
		snprintf(less, sizeof less, "-%d", halo);
	snprintf(layout, sizeof layout, "0.1/4.2.3.1;2+%d+%d;3+%d+%d", halo, halo, halo, halo);
	snprintf(out, room,
		 "task syms=0\noperand X in f32 [1,%d,%d,%d] %s\noperand W const f32 [%d,%d,%d,%d] plain\n"
		 "operand B const f32 [%d] plain\noperand Y out f32 [1,%d,%d,%d] 0.1/4.2.3.1\n"
		 "stage n:1 k:%d y:%d x:%d | c:%d r:%d s:%d\nread X [n,c,%sy+r%s,%sx+s%s]\n"
		 "read W [k,c,r,s]\nread B [k]\nbody r0 r1 mul\nsum\npost %s\nwrite Y [n,k,y,x]\n",
		 s->c, s->h * s->stride, s->w * s->stride, halo ? layout : "0.1/4.2.3.1", s->k, s->c, s->taps,
		 s->taps, s->k, s->k, s->h, s->w, s->k, s->h, s->w, s->c, s->taps, s->taps, times, less,
		 times, less, s->post);
}

static void draw_cand(struct rng *r, const struct conv *s, char out[CAND_MAX])
{
	static const char *const order[] = {"n,y,x,k,c,r,s", "k,n,y,x,c,r,s", "n,y,x,k,r,s,c",
					    "k,n,y,x,r,s,c"};
	bool taps_first = rng_below(r, 3) == 0; /* then 25 taps are a loop around one over the channels */
	char tile[32], split[48] = "";
	bool panels = rng_below(r, 2);
	if (s->taps == 3 && s->stride == 1 && rng_below(r, 3) == 0) {
		snprintf(out, CAND_MAX, "lane=k:4 winograd=%u tiles=%u gemm=%ux2 chunk=%u%s",
			 2 + 2 * (unsigned)rng_below(r, 2), 1 + (unsigned)rng_below(r, 20),
			 1 + (unsigned)rng_below(r, 9), 2 << rng_below(r, 3),
			 rng_below(r, 2) ? " prefetch=1" : "");
		return;
	}
	if (rng_below(r, 3))
		snprintf(tile, sizeof tile, "x:%u", 2 + (unsigned)rng_below(r, 7));
	else
		snprintf(tile, sizeof tile, "y:2,x:%u", 2 + (unsigned)rng_below(r, 3));
	if (panels && s->c >= 16 && rng_below(r, 2))
		snprintf(split, sizeof split, " split=c:%d", 8);
	snprintf(out, CAND_MAX, "lane=k:4 tile=k:2,%s unroll=c:4 order=%s par=%d%s%s", tile,
		 order[2 * taps_first + panels], panels ? 1 : 2, split,
		 panels && rng_below(r, 2) ? " prefetch=1" : "");
}

/* LD1 or LD4 of four registers of four floats. */
static bool loads_four(const struct blob *o)
{
	const char *p = o->p;
	for (size_t i = 0; i + 4 <= o->n; i += 4) {
		uint32_t x;
		memcpy(&x, p + i, 4);
		if ((x & 0xfffffc00) == 0x4c402800 || (x & 0xfffffc00) == 0x4c400800)
			return true;
	}
	return false;
}

/* Makes program i; false: the schedule is not legal. */
static bool make(const struct arm_board *b, const struct target *tg, int i, uint64_t seed, FILE *input,
		 struct arm_program *p, int *fours)
{
	struct rng r;
	char text[1024], cand[CAND_MAX];
	struct manifest m;
	struct loops *l;
	struct blob o;
	arena_reset(&arena);
	struct task *t = ARENA_NEW(&arena, struct task);
	rng_seed(&r, seed);
	struct conv s = draw_conv(&r);
	conv_text(&s, text, sizeof text);
	draw_cand(&r, &s, cand);
	CHECK_OK(task_parse(text, t));
	if (test_bad || lower(t, cand, tg, &arena, &l, &m) < 0)
		return false;
	arm_name(l, i);
	void *bufs[LOOPS_MAX_BUFS];
	size_t used = 0;
	*p = (struct arm_program){.nentries = l->nentries,
				  .nbufs = l->nbufs,
				  .nparams = l->nparams,
				  .params = arena_memdup(&arena, m.param, sizeof m.param)};
	for (int k = 0; k < l->nbufs; k++) {
		p->at[k] = used * sizeof(float);
		bufs[k] = expected[i] + used;
		used += (size_t)ix_eval(l->buf[k].elems, m.param, NULL, NULL) + 16;
	}
	if (used > MOST_FLOATS || l->nparams)
		return false;
	p->bytes = used * sizeof(float);
	for (size_t k = 0; k < used; k++)
		memory[i][k] = expected[i][k] = (float)((double)rng_below(&r, 2001) - 1000) / 512;
	int rc = emit_find("llvm")->emit(l, tg, &arena, &o);
	if (rc == E_SPILL) { /* of long programs, whose constants stay in registers */
		if (!strstr(s.post, "sigmoid") && !strstr(s.post, "tanh")) {
			printf("seed %llu: %s: %s\n%s", (unsigned long long)seed, err_text(), cand, text);
			test_bad = 1;
		}
		return false;
	}
	CHECK_OK(rc);
	for (int e = 0; e < l->nentries && !test_bad; e++) {
		p->extent[e] = ix_eval(l->entry[e].extent, m.param, NULL, NULL);
		CHECK_OK(loops_run(l, e, bufs, m.param, 0, p->extent[e]));
	}
	if (test_bad) {
		printf("seed %llu: %s\n%s", (unsigned long long)seed, cand, text);
		return false;
	}
	*fours += loads_four(&o);
	arm_put_object(b, i, &o, input);
	CHECK(fwrite(memory[i], p->bytes, 1, input) == 1);
	return true;
}

static void compare(const struct arm_program *p, const uint64_t *seeds)
{
	FILE *out = arm_open("out", "rb");
	for (int i = 0; i < PROGRAMS; i++) {
		CHECK(fread(got, p[i].bytes, 1, out) == 1);
		if (memcmp(got, expected[i], p[i].bytes)) {
			printf("seed %llu: not what the interpreter gives\n", (unsigned long long)seeds[i]);
			test_bad = 1;
		}
	}
	fclose(out);
}

static void run_on(const struct arm_board *b, uint64_t *seed)
{
	static struct arm_program p[PROGRAMS];
	uint64_t seeds[PROGRAMS];
	struct target tg;
	int fours = 0;
	arm_target(b, &tg);
	CHECK(target_in_order(&tg));
	FILE *input = arm_open("in", "wb");
	for (int i = 0; i < PROGRAMS && !test_bad; ++*seed)
		if (make(b, &tg, i, *seed, input, &p[i], &fours))
			seeds[i++] = *seed;
	CHECK(fclose(input) == 0);
	REQUIRE(!test_bad);
	CHECK(fours > PROGRAMS / 2);
	if (getenv("PIPE_RUNS"))
		printf("%s: %d of %d programs have such loops\n", b->name, fours, PROGRAMS);
	REQUIRE(arm_run(b, p, PROGRAMS));
	compare(p, seeds);
}

TEST(random_convolutions_in_order)
{
	const char *missing = arm_missing(), *from = getenv("HONE_SEED"), *runs = getenv("PIPE_RUNS");
	uint64_t seed = from ? strtoull(from, NULL, 0) : 1;
	if (missing)
		SKIP(missing);
	arm_begin();
	for (int n = runs ? atoi(runs) : 1; n > 0 && !test_bad; n--)
		for (int i = 0; i < ARM_BOARDS; i++)
			if (!strcmp(arm_boards[i].llvm, "cortex-a53"))
				run_on(&arm_boards[i], &seed);
	arm_end();
	arena_free(&arena);
}

TEST_MAIN
