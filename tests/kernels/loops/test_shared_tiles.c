/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles that threads share, in the interpreter: random tasks and schedules against the reference, and kernels
 * that lack a barrier, a wait or a commit. SEED=n runs one, SEEDS=n changes their number. */
#include "kernels/loops/lower.h"
#include "kernels/loops/loops_run.h"
#include "kernels/space/share.h"
#include "tests/lib/items_cases.h"

#include <limits.h>
#include <stdlib.h>

static uint64_t seeds(uint64_t usual, uint64_t *first)
{
	const char *from = getenv("SEED"), *count = getenv("SEEDS");
	*first = from ? strtoull(from, NULL, 0) : 1;
	return from ? 1 : count ? strtoull(count, NULL, 0) : usual;
}

/* A product, whose operands have vectors that are copied whole, or ones that are not aligned. */
static void product(struct buf *b, struct rng *r)
{
	int y = 4 * pick(r, 1, 6), x = 4 * pick(r, 1, 8) + (pick(r, 0, 2) == 0 ? 2 : 0),
	    k = 4 * pick(r, 2, 12);
	const char *role = pick(r, 0, 1) ? "const" : "in";
	buf_printf(b,
		   "task syms=0\noperand X in f32 [%d,%d] plain\noperand W %s f32 [%d,%d] plain\n"
		   "operand Y out f32 [%d,%d] plain\nstage y:%d x:%d | k:%d\nread X [y,k]\nread W [k,x]\n"
		   "body r0 r1 mul\nsum\nwrite Y [y,x]\n",
		   y, k, role, k, x, y, x, y, x, k);
}

/* A random case and a candidate with the key. */
struct drawn {
	struct kcase c;
	struct target tg;
	struct buf text;
	char cand[CAND_MAX];
	bool has; /* one was drawn */
};

static void draw(uint64_t seed, const char *key, void (*make)(struct buf *b, struct rng *r), struct drawn *d)
{
	struct space *s;
	struct rng r;
	*d = (struct drawn){.tg = items_board(seed)};
	rng_seed(&r, seed);
	(seed % 2 ? make : case_text)(&d->text, &r);
	REQUIRE_OK(case_parse(&d->c, buf_str(&d->text), &r));
	REQUIRE_OK(space_make(&d->c.a, &d->c.t, &d->tg, NULL, &s));
	d->has = draw_with(s, &r, key, d->cand);
}

static void drop(struct drawn *d)
{
	buf_free(&d->text);
	arena_free(&d->c.a);
}

static void equals_reference(const struct drawn *d, uint64_t seed)
{
	bool infeasible;
	struct kcase c = d->c;
	double err = case_interpret(&c, d->cand, &d->tg, &infeasible);
	bool good = err >= 0 && err < case_tolerance(buf_str(&d->text), d->cand);
	if (!good)
		printf("seed %llu: error %g\n%s\n%s", (unsigned long long)seed, err, d->cand,
		       buf_str(&d->text));
	CHECK(good);
}

TEST(random_schedules_equal_the_reference)
{
	static const char *const keys[] = {"share=", "ring", "parts"};
	uint64_t first, n = seeds(60, &first);
	int ran = 0;
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		struct drawn d;
		draw(seed, keys[seed / 2 % 3], product, &d);
		if (d.has)
			equals_reference(&d, seed);
		ran += d.has;
		drop(&d);
	}
	CHECK(test_bad || n == 1 || ran > (int)n / 3);
}

/* A product whose rows are seldom a multiple of a block's. */
static void ragged_product(struct buf *b, struct rng *r)
{
	int y = pick(r, 9, 41), x = 4 * pick(r, 1, 6), k = 4 * pick(r, 2, 8);
	buf_printf(b,
		   "task syms=0\noperand X in f32 [%d,%d] plain\noperand W const f32 [%d,%d] plain\n"
		   "operand Y out f32 [%d,%d] plain\nstage y:%d x:%d | k:%d\nread X [y,k]\nread W [k,x]\n"
		   "body r0 r1 mul\nsum\nwrite Y [y,x]\n",
		   y, k, k, x, y, x, y, x, k);
}

/* How many elements of the output the blocks of a candidate store, all in all. */
static int64_t stores(struct drawn *d)
{
	struct loops *l;
	struct manifest m;
	void *bufs[CODE_MAX_BUFS];
	int64_t elems[CODE_MAX_BUFS], stored = 0;
	int out = 0;
	if (lower(&d->c.t, d->cand, &d->tg, &d->c.a, &l, &m) < 0)
		return -1;
	case_bind(&d->c, &m, bufs, elems);
	while (m.buf[out].role != BUF_OUT)
		out++;
	for (int64_t i = 0; i < code_extent(&m, 0, m.param); i++) {
		memset(bufs[out], 0xff, (size_t)elems[out] * 4);
		CHECK_OK(loops_run(l, 0, bufs, m.param, i, i + 1));
		for (int64_t j = 0; j < elems[out]; j++)
			stored += ((const uint32_t *)bufs[out])[j] != UINT32_MAX;
	}
	return stored;
}

/* The last block along an axis that it does not divide computes points of another block, and only that one
 * stores them. */
TEST(overlapping_blocks_store_each_point_once)
{
	uint64_t first, n = seeds(40, &first);
	int ran = 0;
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		struct drawn d;
		struct space *s;
		struct rng r;
		bool overlaps = false;
		d = (struct drawn){.tg = items_board(seed)};
		rng_seed(&r, seed);
		ragged_product(&d.text, &r);
		REQUIRE_OK(case_parse(&d.c, buf_str(&d.text), &r));
		REQUIRE_OK(space_make(&d.c.a, &d.c.t, &d.tg, NULL, &s));
		for (int i = 0; i < 40 && !overlaps; i++) {
			struct sched c;
			if (!draw_with(s, &r, "share=", d.cand))
				break;
			REQUIRE_OK(sched_parse(&d.c.t, d.cand, &c));
			for (int a = 0; a < 2; a++)
				overlaps |= share_overlaps(&d.c.t.stage[0], &c.st[0], a);
		}
		if (overlaps) {
			const struct stage *st = &d.c.t.stage[0];
			equals_reference(&d, seed);
			int64_t stored = stores(&d);
			if (stored != st->axis[0].extent * st->axis[1].extent)
				printf("seed %llu: %lld stores\n%s\n%s", (unsigned long long)seed,
				       (long long)stored, d.cand, buf_str(&d.text));
			CHECK(stored == st->axis[0].extent * st->axis[1].extent);
			ran++;
		}
		drop(&d);
	}
	CHECK(test_bad || n == 1 || ran > (int)n / 4);
}

/* With sub-groups or without. */
static void many_of(const char *key, void (*make)(struct buf *b, struct rng *r), uint64_t usual)
{
	uint64_t first, n = seeds(usual, &first);
	int ran = 0, exchanged = 0;
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		struct drawn d;
		draw(seed, key, make, &d);
		if (seed / 2 % 2)
			strcpy(d.tg.features, "+cl_khr_subgroup_shuffle");
		if (d.has)
			equals_reference(&d, seed);
		ran += d.has;
		exchanged += d.has && seed / 2 % 2;
		drop(&d);
	}
	printf("%d schedules, %d of them with direct exchanges\n", ran, exchanged);
	CHECK(test_bad || n == 1 || (ran > (int)n / 5 && exchanged > (int)n / 12));
}

TEST(random_teams_equal_the_reference)
{
	many_of("team", rows_text, 60);
}

TEST(random_chains_equal_the_reference)
{
	many_of("threads=", chain_text, 60);
}

/* Where threads exchange directly, one of 32 needs a place; where no other is left, none is needed. */
TEST(places_of_sums)
{
	static const char text[] =
	    "task syms=0\noperand X in f32 [48,4096] plain\noperand Y out f32 [48] plain\n"
	    "stage y:48 | x:4096\nread X [y,x]\nbody r0\nsum\nwrite Y [y]\n";
	for (int direct = 0; direct < 2; direct++)
		for (int n = 32; n <= 1024; n *= 2) {
			struct arena a = {0};
			struct task *t = ARENA_NEW(&a, struct task);
			struct target tg = case_gpu();
			struct manifest m;
			struct loops *l;
			char cand[64];
			int64_t elems = 0, places = direct ? n / 32 : n;
			strcpy(tg.features, direct ? "+cl_khr_subgroup_shuffle" : "");
			snprintf(cand, sizeof cand, "tile=y:2 par=1 threads=x:%d", n);
			REQUIRE_OK(task_parse(text, t));
			REQUIRE_OK(lower(t, cand, &tg, &a, &l, &m));
			for (int i = 0; i < l->nbufs; i++)
				elems += l->buf[i].role == BUF_SHARED ? l->buf[i].elems->c : 0;
			CHECK(elems == (places > 1 ? 2 * places : 0));
			arena_free(&a);
		}
}

static bool is_copy(const struct stmt *s)
{
	return s->op == ST_COPY;
}

static bool is_meeting(const struct stmt *s)
{
	return s->op == ST_BARRIER || s->op == ST_WAIT || s->op == ST_COMMIT;
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

/* Interprets the kernel after a change: without its n-th meeting, or with a wait for fewer groups. Returns
 * its result; 1: it has no such statement, or one that makes no difference. */
static int changed(struct drawn *d, int n, bool weaken)
{
	struct loops *l;
	struct manifest m;
	void *bufs[CODE_MAX_BUFS];
	int64_t elems[CODE_MAX_BUFS];
	int at = 0, first = 0, rc = lower(&d->c.t, d->cand, &d->tg, &d->c.a, &l, &m);
	if (rc < 0)
		return rc;
	struct stmt **list = &l->entry[0].body, **s = find(list, is_meeting, n, &at);
	if (!s || ((*s)->op != ST_BARRIER && !find(list, is_copy, 0, &first)) ||
	    (weaken && (*s)->op != ST_WAIT))
		return 1;
	if (weaken)
		(*s)->s32++;
	else
		*s = (*s)->next;
	case_bind(&d->c, &m, bufs, elems);
	return loops_run(l, 0, bufs, m.param, 0, 1);
}

/* draws: seeds, by default; of fewer (SEEDS), nothing is counted. needless: some of the meetings are between
 * a thread's own accesses, in one of three kernels at most. */
static void all_changes(const char *key, void (*make)(struct buf *b, struct rng *r), bool needless, int draws,
			int least, int least_waits)
{
	uint64_t first, n = seeds(draws, &first);
	int found = 0, waits = 0, missed = 0;
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		struct drawn d;
		draw(seed, key, make, &d);
		for (int k = 0; d.has && k < 8; k++) {
			int without = changed(&d, k, false), weak = changed(&d, k, true);
			/* Winograd's sums may lie where no thread reads the ring's last box any more. */
			bool last = strstr(d.cand, "winograd=") && changed(&d, k + 1, false) == 1,
			     may = needless || last,
			     all = without == 1 || without == E_CORRUPT || (may && without == E_OK);
			if (!all || (weak != 1 && weak != E_CORRUPT))
				printf("seed %llu, meeting %d: %d %d\n%s\n%s", (unsigned long long)seed, k,
				       without, weak, d.cand, buf_str(&d.text));
			CHECK(all);
			CHECK(weak == 1 || weak == E_CORRUPT);
			found += without == E_CORRUPT;
			missed += without == E_OK;
			waits += weak != 1;
		}
		drop(&d);
	}
	printf("%d kernels without a meeting (%d of them needless), %d with a weaker wait\n", found + missed,
	       missed, waits);
	CHECK(test_bad || n < (uint64_t)draws ||
	      (found >= least && 2 * missed <= found && waits >= least_waits));
}

TEST(rings_without_a_barrier_or_a_wait_are_found)
{
	all_changes("ring", product, false, 24, 24, 6);
}

/* A part of one box needs no second barrier. */
TEST(parts_without_a_barrier_or_a_wait_are_found)
{
	all_changes("parts", product, true, 96, 24, 2);
}

TEST(teams_without_a_barrier_are_found)
{
	all_changes("team", rows_text, false, 24, 15, 0);
}

TEST(chains_without_a_barrier_are_found)
{
	all_changes("threads=", chain_text, true, 24, 15, 0);
}

/* A ring has one barrier in its loop, and copies that run on; else there are two, and plain copies. */
TEST(a_ring_has_one_barrier)
{
	static const char text[] =
	    "task syms=0\noperand X in f32 [16,32] plain\noperand W const f32 [32,16] plain\n"
	    "operand Y out f32 [16,16] plain\nstage y:16 x:16 | k:32\nread X [y,k]\nread W [k,x]\n"
	    "body r0 r1 mul\nsum\nwrite Y [y,x]\n";
	static const struct {
		const char *share;
		int meetings, copies;
	} want[] = {{"k:8", 2, 0}, {"k:8x2", 4, 4}, {"k:8x3", 5, 6}};
	struct target tg = items_board(1);
	for (int i = 0; i < 3; i++) {
		struct kcase c;
		struct rng r;
		struct loops *l;
		struct manifest m;
		char cand[CAND_MAX];
		bool infeasible;
		int meetings = 0, copies = 0;
		rng_seed(&r, 1);
		REQUIRE_OK(case_parse(&c, text, &r));
		snprintf(cand, sizeof cand, "lane=x:4 tile=y:2 par=2 threads=y:4,x:2 share=%s",
			 want[i].share);
		double err = case_interpret(&c, cand, &tg, &infeasible);
		CHECK(err >= 0 && err < 4e-6);
		REQUIRE_OK(lower(&c.t, cand, &tg, &c.a, &l, &m));
		(void)find(&l->entry[0].body, is_meeting, INT_MAX, &meetings);
		(void)find(&l->entry[0].body, is_copy, INT_MAX, &copies);
		CHECK(meetings == want[i].meetings && copies == want[i].copies);
		arena_free(&c.a);
	}
}

TEST_MAIN
