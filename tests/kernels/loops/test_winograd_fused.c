/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's algorithm as one launch, in the interpreter: random convolutions and schedules against the
 * reference, kernels that lack a barrier, a wait or a commit, and the bytes that they move. SEED=n runs one,
 * SEEDS=n changes their number. */
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
	printf("%d schedules: %d with rings, %d with parts, %d with weights in f16, %d of F(4,3)\n", ran, rings,
	       parts, w16, four);
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
	return c.st[0].boxes > 1 ||
	       winograd_fused_sizes(&d->c.t, &c.st[0]).all_tiles < c.st[0].wino.tiles;
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
	CHECK(test_bad || n == 1 || (found >= 20 && 8 * missed < found));
}

TEST_MAIN
