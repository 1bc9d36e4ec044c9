/* SPDX-License-Identifier: Apache-2.0 */
/* Peaks of one core, each the best of many short windows: a window of 30 us fits between two timer ticks, so
 * the best one ran undisturbed. The loops are made per ISA with the widest vectors; a processor picks the row
 * of its ISA.
 *
 * FMA: chains of acc = acc * x + y that converge to 1 (no denormals, no overflow). 24 chains with 32
 * registers, 12 with 16: latency 4 to 5 at two a cycle needs 10. Reading: 8 sums. Copying: plain loads and
 * stores. */
#include "platform/machine/target.h"
#include "platform/machine/topo.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

struct loops_of {
	const char *isa;
	int lanes, chains;
	float (*fma)(int64_t turns, float x, float y);
	float (*read)(const float *p, size_t n);          /* n: a multiple of 8 vectors */
	void (*copy)(float *d, const float *s, size_t n); /* likewise */
};

#define DO4(M, b) M((b)) M((b) + 1) M((b) + 2) M((b) + 3)
#define DO8(M) DO4(M, 0) DO4(M, 4)
#define DO12(M) DO8(M) DO4(M, 8)
#define DO24(M) DO12(M) DO4(M, 12) DO4(M, 16) DO4(M, 20)

/* Passes each chain's value through an empty asm, so that the compiler keeps the chains apart and in
 * registers. */
#define STEP(i) acc[i] = MADD(acc[i], vx, vy);
#define KEEP(i) __asm__ volatile("" : REG(acc[i]));
#define START(i) acc[i] = SPLAT((float)(i));
#define SUM(i) total = ADD(total, acc[i]);
#define ADD_NEXT(i) acc[i] = ADD(acc[i], LOAD(p + at + (i)*LANES));
#define COPY_NEXT(i) STORE(d + at + (i)*LANES, LOAD(s + at + (i)*LANES));

#define LOOPS(isa, CHAINS, DO)                                                                               \
	TARGET static float fma_##isa(int64_t turns, float x, float y)                                       \
	{                                                                                                    \
		VEC acc[CHAINS], vx = SPLAT(x), vy = SPLAT(y), total = SPLAT(0);                             \
		DO(START)                                                                                    \
		for (int64_t t = 0; t < turns; t++) {                                                        \
			DO(STEP)                                                                             \
			DO(KEEP)                                                                             \
		}                                                                                            \
		DO(SUM)                                                                                      \
		return FIRST(total);                                                                         \
	}                                                                                                    \
	TARGET static float read_##isa(const float *p, size_t n)                                             \
	{                                                                                                    \
		VEC acc[8], total = SPLAT(0);                                                                \
		DO8(START)                                                                                   \
		for (size_t at = 0; at + 8 * LANES <= n; at += 8 * LANES) {                                  \
			DO8(ADD_NEXT)                                                                        \
		}                                                                                            \
		DO8(SUM)                                                                                     \
		return FIRST(total);                                                                         \
	}                                                                                                    \
	TARGET static void copy_##isa(float *d, const float *s, size_t n)                                    \
	{                                                                                                    \
		for (size_t at = 0; at + 8 * LANES <= n; at += 8 * LANES) {                                  \
			DO8(COPY_NEXT)                                                                       \
		}                                                                                            \
	}

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx512f")))
#define VEC __m512
#define LANES 16
#define SPLAT _mm512_set1_ps
#define ADD _mm512_add_ps
#define MADD _mm512_fmadd_ps
#define LOAD _mm512_loadu_ps
#define STORE _mm512_storeu_ps
#define FIRST _mm512_cvtss_f32
#define REG(v) "+v"(v)
LOOPS(v4, 24, DO24)
#undef TARGET
#undef VEC
#undef LANES
#undef SPLAT
#undef ADD
#undef MADD
#undef LOAD
#undef STORE
#undef FIRST
#undef REG
#define TARGET __attribute__((target("avx2,fma")))
#define VEC __m256
#define LANES 8
#define REG(v) "+x"(v)
#define SPLAT _mm256_set1_ps
#define ADD _mm256_add_ps
#define MADD _mm256_fmadd_ps
#define LOAD _mm256_loadu_ps
#define STORE _mm256_storeu_ps
#define FIRST _mm256_cvtss_f32
LOOPS(v3, 12, DO12)
#undef TARGET
#undef VEC
#undef LANES
#undef SPLAT
#undef ADD
#undef MADD
#undef LOAD
#undef STORE
#undef FIRST
#define TARGET __attribute__((target("sse4.2")))
#define VEC __m128
#define LANES 4
#define SPLAT _mm_set1_ps
#define ADD _mm_add_ps
#define MADD(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
#define LOAD _mm_loadu_ps
#define STORE _mm_storeu_ps
#define FIRST _mm_cvtss_f32
LOOPS(v2, 12, DO12)
#elif defined(__aarch64__)
#define TARGET
#define VEC float32x4_t
#define LANES 4
#define REG(v) "+w"(v)
#define SPLAT vdupq_n_f32
#define ADD vaddq_f32
#define MADD(a, b, c) vfmaq_f32(c, a, b)
#define LOAD vld1q_f32
#define STORE vst1q_f32
#define FIRST(v) vgetq_lane_f32(v, 0)
LOOPS(a64, 24, DO24)
#else
#define TARGET
#define VEC float
#define LANES 1
#define REG(v) "+m"(v)
#define SPLAT(x) (x)
#define ADD(a, b) ((a) + (b))
#define MADD(a, b, c) ((a) * (b) + (c))
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define FIRST(v) (v)
LOOPS(any, 12, DO12)
#endif

static const struct loops_of rows[] = {
#if defined(__x86_64__)
    {"x86-64-v4", 16, 24, fma_v4, read_v4, copy_v4},
    {"x86-64-v3", 8, 12, fma_v3, read_v3, copy_v3},
    {"x86-64-v2", 4, 12, fma_v2, read_v2, copy_v2},
#elif defined(__aarch64__)
    {"armv8-a", 4, 24, fma_a64, read_a64, copy_a64},
#else
    {"armv7-neon", 1, 12, fma_any, read_any, copy_any},
#endif
};

enum { WINDOW_NS = 30000 };

struct bench {
	const struct loops_of *loops;
	struct clock *clock;
	float *src, *dst;
	size_t n; /* floats that one turn reads or copies */
	volatile float sink;
	int hurry; /* each peak gets this part of its time */
};

static void turn_fma(struct bench *b, int64_t turns)
{
	b->sink = b->loops->fma(turns, 0.99f, 0.01f);
}

static void turn_read(struct bench *b, int64_t turns)
{
	for (int64_t i = 0; i < turns; i++)
		b->sink = b->loops->read(b->src, b->n);
}

static void turn_copy(struct bench *b, int64_t turns)
{
	for (int64_t i = 0; i < turns; i++)
		b->loops->copy(b->dst, b->src, b->n);
}

static int64_t window(struct bench *b, void (*turn)(struct bench *, int64_t), int64_t turns)
{
	int64_t start = clock_now(b->clock);
	turn(b, turns);
	return clock_now(b->clock) - start;
}

/* Best time of one turn, ns: first finds how many turns fill a window (which also warms up), then runs
 * windows for `spend_ns`, at least 3. 0 if the clock stands still. */
static double best_turn_ns(struct bench *b, void (*turn)(struct bench *, int64_t), int64_t spend_ns)
{
	int64_t turns = 1, ns = window(b, turn, turns), best = INT64_MAX;
	while (ns < WINDOW_NS / 2 && turns < 1 << 20)
		ns = window(b, turn, turns *= 2);
	int64_t end = clock_now(b->clock) + spend_ns / b->hurry;
	for (int i = 0; i < 3 || (i < 10000 && clock_now(b->clock) < end); i++) {
		ns = window(b, turn, turns);
		best = ns < best ? ns : best;
	}
	return (double)best / (double)turns;
}

static double per_ns(double what, double ns)
{
	return ns > 0 ? what / ns : 0;
}

/* Rounds to tenths: the noise hides finer differences. */
static double rounded(double v)
{
	return (double)(int64_t)(v * 10 + 0.5) / 10;
}

/* Larger than every cache, but at most an eighth of the memory. */
static size_t dram_bytes(const struct target *t)
{
	int64_t last = t->l3_bytes ? t->l3_bytes : t->l2_bytes, want = last * 2, most = (int64_t)128 << 20;
	int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 8;
	want = want < (32 << 20) ? 32 << 20 : want;
	want = want > most ? most : want;
	return (size_t)(memory > 0 && want > memory ? memory : want) & ~(size_t)65535;
}

static double read_gbs(struct bench *b, size_t bytes, int64_t spend_ns)
{
	size_t unit = (size_t)b->loops->lanes * 8;
	b->n = bytes / sizeof(float) / unit * unit;
	return rounded(per_ns((double)(b->n * sizeof(float)), best_turn_ns(b, turn_read, spend_ns)));
}

static void measure(struct bench *b, struct target *t, size_t bytes)
{
	const struct loops_of *l = b->loops;
	size_t last = (size_t)(t->l3_bytes ? t->l3_bytes : t->l2_bytes);
	(void)best_turn_ns(b, turn_fma, 10 * NS_PER_MS); /* lets clocks rise and vector units wake up */
	t->fma_gflops =
	    rounded(per_ns(2.0 * l->lanes * l->chains, best_turn_ns(b, turn_fma, 25 * NS_PER_MS)));
	t->bw_gbs[0] = read_gbs(b, (size_t)t->l1_bytes / 2, 6 * NS_PER_MS);
	t->bw_gbs[1] = t->l2_bytes ? read_gbs(b, (size_t)t->l2_bytes / 2, 10 * NS_PER_MS) : 0;
	t->bw_gbs[2] = t->l3_bytes ? read_gbs(b, last / 2 < bytes ? last / 2 : bytes, 15 * NS_PER_MS) : 0;
	t->bw_gbs[3] = read_gbs(b, bytes, 30 * NS_PER_MS);
	/* source and destination together fill half of the last cache */
	b->n = (last / 4 < bytes / 2 ? last / 4 : bytes / 2) / sizeof(float) / 1024 * 1024;
	b->dst = b->src + b->n;
	t->copy_gbs =
	    rounded(per_ns(2.0 * (double)(b->n * sizeof(float)), best_turn_ns(b, turn_copy, 15 * NS_PER_MS)));
}

static int loops_for(const struct target *t, const struct loops_of **out)
{
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (strcmp(rows[i].isa, t->isa) == 0) {
			*out = &rows[i];
			return E_OK;
		}
	return fail(E_UNSUPPORTED, "the peaks of '%s' cannot be measured on this machine", t->isa);
}

/* Works in pieces, so that reading, copying and writing alternate as in a kernel; writes that copy nothing
 * take their data from one page. */
int target_stream(const struct target *t, float *to, size_t out, const float *from, size_t in)
{
	enum { PIECE = 1024 };
	const struct loops_of *l = NULL;
	int rc = loops_for(t, &l);
	size_t nin = in / sizeof(float) / PIECE, nout = out / sizeof(float) / PIECE,
	       n = nin > nout ? nin : nout, read = 0, written = 0;
	volatile float sink = 0;
	for (size_t i = 1; i <= n && rc >= 0; i++) {
		size_t r = i * nin / n, w = i * nout / n;
		if (r > read && w == written)
			sink = l->read(from + read * PIECE, PIECE);
		else if (w > written)
			l->copy(to + written * PIECE, from + (r > read ? read : 0) * PIECE, PIECE);
		read = r;
		written = w;
	}
	(void)sink;
	return rc;
}

/* The present cpu, or the first of the fastest cluster, which the target describes, if it is of another. */
static int cpu_to_measure(void)
{
	struct clusters c;
	cpu_set_t may;
	int here = sched_getcpu(), first = 0;
	topo_allowed(&may);
	topo_clusters("", &may, &c);
	if (here >= 0 && here < CPU_SETSIZE && CPU_ISSET(here, &c.of[0].cpus))
		return here;
	(void)topo_firsts("", &c.of[0].cpus, &first, 1);
	return first;
}

static int measure_within(struct target *t, struct clock *clock, int hurry, size_t most_bytes)
{
	struct bench b = {.clock = clock, .hurry = hurry};
	int rc = loops_for(t, &b.loops);
	if (rc < 0)
		return rc;
	if (window(&b, turn_fma, 10000) <= 0) /* a virtual clock cannot measure anything */
		return E_OK;
	size_t bytes = dram_bytes(t);
	bytes = bytes < most_bytes ? bytes : most_bytes;
	b.src = aligned_alloc(65536, bytes);
	if (!b.src)
		return fail(E_NOMEM, "no memory for measuring bandwidth (%zu bytes); free some", bytes);
	for (size_t i = 0; i < bytes / sizeof(float); i++)
		b.src[i] = 1;
	cpu_set_t mask, one;
	bool pinned = sched_getaffinity(0, sizeof mask, &mask) == 0;
	CPU_ZERO(&one);
	CPU_SET((unsigned)cpu_to_measure() % CPU_SETSIZE, &one);
	if (pinned)
		(void)sched_setaffinity(0, sizeof one, &one);
	measure(&b, t, bytes);
	if (pinned)
		(void)sched_setaffinity(0, sizeof mask, &mask);
	free(b.src);
	return E_OK;
}

int target_measure(struct target *t, struct clock *clock)
{
	return measure_within(t, clock, 1, SIZE_MAX);
}

/* Writing the memory for the first time takes longer than reading it: it is no larger than it must be to
 * exceed most caches. */
int target_quick(struct target *t, struct clock *clock)
{
	return measure_within(t, clock, 8, (size_t)32 << 20);
}
