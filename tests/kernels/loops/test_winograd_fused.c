/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's algorithm as one launch, in the interpreter: random convolutions and schedules against the
 * reference, and kernels that lack a barrier, a wait or a commit; and the bytes that it moves. SEED=n runs
 * one, SEEDS=n changes their number. */
#include "kernels/loops/lower.h"
#include "kernels/space/winograd_fused.h"
#include "tests/lib/items_cases.h"

#include <stdlib.h>

static uint64_t seeds(uint64_t usual, uint64_t *first)
{
	const char *from = getenv("SEED"), *count = getenv("SEEDS");
	*first = from ? strtoull(from, NULL, 0) : 1;
	return from ? 1 : count ? strtoull(count, NULL, 0) : usual;
}

/* A random convolution and a schedule of one launch. */
struct drawn {
	struct kcase c;
	struct target tg;
	struct buf text;
	char cand[CAND_MAX];
	bool has; /* one was drawn */
};

static void draw(uint64_t seed, struct drawn *d)
{
	static const struct space_want want[] = {{.level = LEVEL_FP32}, {.level = LEVEL_W16}};
	struct space *s;
	struct rng r;
	*d = (struct drawn){.tg = items_board(seed)};
	d->tg.group = seed % 3 ? 1024 : 256;
	rng_seed(&r, seed);
	conv_3x3_text(&d->text, &r);
	REQUIRE_OK(case_parse(&d->c, buf_str(&d->text), &r));
	REQUIRE_OK(space_make(&d->c.a, &d->c.t, &d->tg, &want[seed % 8 == 0], &s));
	if (seed % 8 == 0)
		REQUIRE_OK(case_round(&d->c, false));
	d->has = draw_with(s, &r, "chunk=", d->cand);
}

static void drop(struct drawn *d)
{
	buf_free(&d->text);
	arena_free(&d->c.a);
}

TEST(random_schedules_equal_the_reference)
{
	uint64_t first, n = seeds(60, &first);
	int ran = 0, rings = 0, parts = 0, w16 = 0, four = 0;
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		struct drawn d;
		bool infeasible;
		draw(seed, &d);
		if (d.has) {
			double err = case_interpret(&d.c, d.cand, &d.tg, &infeasible);
			bool good = err >= 0 && err < case_tolerance(buf_str(&d.text), d.cand);
			if (!good)
				printf("seed %llu: error %g %s\n%s\n%s", (unsigned long long)seed, err,
				       err < 0 ? err_text() : "", d.cand, buf_str(&d.text));
			CHECK(good);
			ran++;
			rings += has_ring_of_boxes(d.cand);
			parts += strstr(d.cand, "spread=1") != NULL;
			w16 += strstr(d.cand, "w16=1") != NULL;
			four += strstr(d.cand, "winograd=4") != NULL;
		}
		drop(&d);
	}
	printf("%d schedules: %d with rings, %d with parts, %d with weights in f16, %d of F(4,3)\n", ran,
	       rings, parts, w16, four);
	CHECK(test_bad || n < 30 || (ran > (int)n / 2 && rings > 3 && parts > 3 && four > 3));
}

static bool is_meeting(const struct stmt *s)
{
	return s->op == ST_BARRIER || s->op == ST_WAIT || s->op == ST_COMMIT;
}

static bool is_copy(const struct stmt *s)
{
	return s->op == ST_COPY;
}

/* Finds the n-th statement of a kind in a list, counted in *at; NULL: there are fewer. */
static struct stmt **find(struct stmt **list, bool (*is)(const struct stmt *s), int n, int *at)
{
	for (; *list; list = &(*list)->next) {
		if (is(*list) && (*at)++ == n)
			return list;
		struct stmt **in = find(&(*list)->body, is, n, at);
		in = in ? in : find(&(*list)->other, is, n, at);
		if (in)
			return in;
	}
	return NULL;
}

/* Interprets the kernel without its n-th meeting. Returns its result; 1: it has no such statement, or one
 * that makes no difference. */
static int without(struct drawn *d, int n)
{
	struct loops *l;
	struct manifest m;
	void *bufs[CODE_MAX_BUFS];
	int64_t elems[CODE_MAX_BUFS];
	int at = 0, first = 0, rc = lower(&d->c.t, d->cand, &d->tg, &d->c.a, &l, &m);
	if (rc < 0)
		return rc;
	struct stmt **list = &l->entry[0].body, **s = find(list, is_meeting, n, &at);
	if (!s || ((*s)->op != ST_BARRIER && !find(list, is_copy, 0, &first)))
		return 1;
	*s = (*s)->next;
	case_bind(&d->c, &m, bufs, elems);
	return loops_run(l, 0, bufs, m.param, 0, 1);
}

/* Whether the last barriers may make no difference: the sums may fill only steps of a ring that nobody reads
 * any more, and tiles behind the last one are not read. */
static bool needless(const struct drawn *d)
{
	struct sched c;
	CHECK_OK(sched_parse(&d->c.t, d->cand, &c));
	return c.st[0].boxes > 1 || winograd_fused_sizes(&d->c.t, &c.st[0]).all_tiles < c.st[0].wino.tiles;
}

TEST(kernels_without_a_barrier_or_a_wait_are_found)
{
	uint64_t first, n = seeds(16, &first);
	int found = 0, missed = 0;
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		struct drawn d;
		draw(seed, &d);
		for (int k = 0; d.has && k < 12; k++) {
			int rc = without(&d, k);
			bool good = rc == 1 || rc == E_CORRUPT || (rc == E_OK && needless(&d));
			if (!good)
				printf("seed %llu, meeting %d: %d\n%s\n%s", (unsigned long long)seed, k, rc,
				       d.cand, buf_str(&d.text));
			CHECK(good);
			found += rc == E_CORRUPT;
			missed += rc == E_OK;
		}
		drop(&d);
	}
	printf("%d kernels without a meeting are found, %d are not\n", found, missed);
	CHECK(test_bad || n == 1 || ((uint64_t)found >= n && 8 * missed < found));
}

/* ---- bytes ---- */

struct walk {
	const struct loops *l;
	const int64_t *param;
	int64_t var[LOOPS_MAX_VARS];
	double bytes[LOOPS_MAX_BUFS];
};

static int64_t value(const struct walk *w, const struct ix *x)
{
	return ix_eval(x, w->param, w->var, NULL);
}

static void count(struct walk *w, const struct mem *m, int elems)
{
	if (!m->guard || value(w, m->guard))
		w->bytes[m->buf] += (double)elems * (double)dtype_bytes(w->l->buf[m->buf].dtype);
}

/* Counts the bytes that one thread moves. */
static void walk(struct walk *w, const struct stmt *s)
{
	for (; s; s = s->next) {
		if (s->op == ST_SET && s->vop == V_LOAD)
			count(w, &s->mem, w->l->lanes[s->dst]);
		if (s->op == ST_STORE)
			count(w, &s->mem, w->l->lanes[s->a]);
		if (s->op == ST_COPY)
			count(w, &s->mem, s->s32);
		if (s->op == ST_IF)
			walk(w, value(w, s->lo) ? s->body : s->other);
		if (s->op == ST_FOR)
			for (int64_t i = value(w, s->lo), end = value(w, s->hi); i < end; i += s->step) {
				w->var[s->var] = i;
				walk(w, s->body);
			}
	}
}

enum { SAMPLES = 12 /* indexes of an entry whose threads are counted */ };

/* Bytes that all launches ask of memory: all, and those of scratch. */
static double asked(const struct loops *l, const struct manifest *m, double *scratch)
{
	static struct walk w;
	double all = 0;
	*scratch = 0;
	for (int e = 0; e < m->nentries; e++) {
		const struct entry *entry = &l->entry[e];
		int64_t n = code_extent(m, e, m->param), some = n < SAMPLES ? n : SAMPLES;
		w = (struct walk){.l = l, .param = m->param};
		for (int64_t i = 0; i < some; i++)
			for (int t = 0; t < entry->threads; t++) {
				w.var[entry->var] = i * n / some;
				if (entry->threads > 1)
					w.var[entry->thread] = t;
				walk(&w, entry->body);
			}
		for (int b = 0; b < l->nbufs; b++) {
			double bytes = w.bytes[b] * (double)n / (double)some;
			all += l->buf[b].role == BUF_SHARED ? 0 : bytes;
			*scratch += l->buf[b].role == BUF_SCRATCH ? bytes : 0;
		}
	}
	return all;
}

/* The portfolio's schedules of a large layer: one launch asks for less than 0.6 of the bytes of three. */
TEST(one_launch_moves_fewer_bytes)
{
	static const int layer[][2] = {{64, 56}, {128, 28}, {256, 14}, {512, 7}};
	struct target tg = case_gpu();
	strcpy(tg.isa, "cuda");
	strcpy(tg.cpu, "sm_87");
	tg.regs = 60;
	for (int i = 0; i < 4; i++) {
		struct arena a = {0};
		struct space *s;
		struct task *t = ARENA_NEW(&a, struct task);
		char text[900], cand[CAND_MAX];
		double bytes[2][5] = {{0}}, scratch;
		int c = layer[i][0], size = layer[i][1], at = 0;
		snprintf(
		    text, sizeof text,
		    "task syms=0\noperand X in f32 [1,%d,%d,%d] 0.1/16.2.3.1;2+1+1;3+1+1\n"
		    "operand W const f32 [%d,%d,3,3] plain\noperand B const f32 [%d] plain\n"
		    "operand Y out f32 [1,%d,%d,%d] 0.1/16.2.3.1;2+1+1;3+1+1\n"
		    "stage n:1 k:%d y:%d x:%d | c:%d r:3 s:3\nread X [n,c,y+r-1,x+s-1]\nread W [k,c,r,s]\n"
		    "read B [k]\nbody r0 r1 mul\nsum\npost acc r2 add 0 max\nwrite Y [n,k,y,x]\n",
		    c, size, size, c, c, c, c, size, size, c, size, size, c);
		REQUIRE_OK(task_parse(text, t));
		REQUIRE_OK(space_make(&a, t, &tg, NULL, &s));
		while (space_portfolio(s, &at, cand) >= 0) {
			struct loops *l;
			struct manifest m;
			const char *wino = strstr(cand, "winograd=");
			if (!wino)
				continue;
			REQUIRE_OK(lower(t, cand, &tg, &a, &l, &m));
			bool fused = strstr(cand, "chunk=");
			double all = bytes[fused][wino[9] - '0'] = asked(l, &m, &scratch);
			printf("%dx%d F(%c,3): %.1f MB, %.1f of them scratch: %s\n", size, c, wino[9],
			       all / 1e6, scratch / 1e6, cand);
		}
		for (int m = 2; m <= 4; m += 2)
			CHECK(bytes[1][m] > 0 && bytes[1][m] < .6 * bytes[0][m]);
		arena_free(&a);
	}
}

TEST_MAIN
