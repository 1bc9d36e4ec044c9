/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: against all subsets of pieces, exact dynamic programming of its own, and hostile problems. Past
 * 800 lines because its worlds, shapes and naive answers serve all of these. */
#include "search/placement_parts.h"
#include "platform/base/clock.h"
#include "tests/lib/placement_exact.h"
#include "tests/lib/test.h"

static struct placement_world *world_new(uint64_t seed, const struct world_shape *s)
{
	static struct placement_world w;
	memset(&w, 0, sizeof w);
	world_make(&w, seed, s);
	return &w;
}

/* ---- all subsets ---- */

struct truth {
	int legal;                                         /* placements */
	double alone, overlap, single[PLACEMENT_BACKENDS]; /* INFINITY: none */
};

static int foreign_ops(const struct placement_world *w, const int *set, int n, int backend)
{
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += w->piece[set[i]].backend == backend ? 0 : w->piece[set[i]].nops;
	return sum;
}

static void find_truth(const struct placement_world *w, struct truth *t)
{
	int fewest[PLACEMENT_BACKENDS];
	*t = (struct truth){.alone = INFINITY, .overlap = INFINITY};
	for (int b = 0; b < w->p.nbackends; b++) {
		fewest[b] = WORLD_OPS;
		t->single[b] = INFINITY;
	}
	int ops[16] = {0};
	for (int i = 0; i < w->p.npieces; i++)
		for (int k = 0; k < w->piece[i].nops; k++)
			ops[i] |= 1 << w->ops[i][k];
	for (int bits = 1; bits < 1 << w->p.npieces; bits++) {
		int set[16], n = 0, covered = 0;
		for (int i = 0; i < w->p.npieces; i++)
			covered |= bits >> i & 1 ? ops[i] : 0;
		if (covered != (1 << w->p.nops) - 1)
			continue;
		for (int i = 0; i < w->p.npieces; i++)
			if (bits >> i & 1)
				set[n++] = i;
		double alone = naive_alone(w, set, n);
		if (isinf(alone))
			continue;
		double overlap = naive_overlap(w, set, n);
		CHECK(overlap <= alone);
		t->legal++;
		t->alone = fmin(t->alone, alone);
		t->overlap = fmin(t->overlap, overlap);
		for (int b = 0; b < w->p.nbackends; b++) {
			int foreign = foreign_ops(w, set, n, b);
			if (foreign < fewest[b])
				t->single[b] = INFINITY;
			if (foreign <= fewest[b]) {
				fewest[b] = foreign;
				t->single[b] = fmin(t->single[b], alone);
			}
		}
	}
}

static const struct world_shape small_shapes[] = {
    /* chains, diamonds and forks; then wilder graphs, whose pieces may wait for each other */
    {.nops = 6,
     .window = 1,
     .nbackends = 3,
     .nformats = 2,
     .ndevices = 2,
     .most_pieces = 12,
     .most_pattern = 4,
     .patterns = 4},
    {.nops = 5,
     .window = 3,
     .nbackends = 3,
     .nformats = 3,
     .ndevices = 2,
     .most_pieces = 12,
     .most_pattern = 3,
     .patterns = 4,
     .two_reads = 0.5,
     .two_writes = 0.3},
    {.nops = 4,
     .window = 4,
     .nbackends = 4,
     .nformats = 3,
     .ndevices = 3,
     .most_pieces = 12,
     .most_pattern = 3,
     .patterns = 4,
     .two_reads = 0.5,
     .two_writes = 0.5,
     .no_move = 0.2,
     .odd = 0.1},
    {.nops = 7,
     .window = 4,
     .nbackends = 2,
     .nformats = 2,
     .ndevices = 2,
     .most_pieces = 12,
     .most_pattern = 3,
     .patterns = 6,
     .two_reads = 0.3,
     .two_writes = 0.2,
     .far = 0.2,
     .no_move = 0.1,
     .odd = 0.3},
    {.nops = 6,
     .window = 6,
     .nbackends = 3,
     .nformats = 4,
     .ndevices = 2,
     .most_pieces = 12,
     .most_pattern = 4,
     .patterns = 6,
     .two_reads = 0.4,
     .two_writes = 0.2,
     .far = 0.4,
     .no_move = 0.3,
     .odd = 0.5},
};
enum { SMALL_SHAPES = sizeof small_shapes / sizeof *small_shapes };

static bool differ(double a, double b)
{
	return isinf(a) != isinf(b) || fabs(a - b) > 1e-6;
}

/* The costs that the answer states are those of its pieces, which can run in the order given. */
static void check_answer(const struct placement_world *w, const struct placement *x, bool overlap)
{
	double alone = naive_alone(w, x->piece, x->n);
	CHECK(!differ(alone, x->alone_ns) && !isinf(alone));
	if (!isinf(alone))
		CHECK(!differ(overlap ? naive_overlap(w, x->piece, x->n) : alone, x->ns));
	for (int i = 0; i < x->n; i++)
		for (int k = i + 1; k < x->n; k++)
			CHECK(!waits_for(w, x->piece, x->n, i, k));
}

static void check_small(const struct placement_world *w, const struct truth *t, bool overlap, uint64_t seed)
{
	struct arena a = {0};
	struct placement_search s = {.overlap = overlap, .seed = seed};
	struct placement all, found;
	double best = overlap ? t->overlap : t->alone;
	int rc = placement_exhaustive(&w->p, &s, &a, &all), rc2 = placement_solve(&w->p, &s, &a, &found);
	CHECK(rc == rc2 && (rc == E_OK) == !isinf(best));
	if (rc == E_OK) {
		CHECK(all.exact && found.exact);
		CHECK(!differ(all.ns, best) && !differ(found.ns, best));
		check_answer(w, &all, overlap);
		check_answer(w, &found, overlap);
	} else {
		CHECK(rc == E_NOTFOUND);
	}
	arena_free(&a);
}

static void check_singles(const struct placement_world *w, const struct truth *t)
{
	struct arena a = {0};
	for (int b = 0; b < w->p.nbackends; b++) {
		struct placement x = {.ns = INFINITY};
		bool any = false;
		for (int i = 0; i < w->p.npieces; i++)
			any |= w->piece[i].backend == b;
		int rc = placement_single(&w->p, b, &(struct placement_search){0}, &a, &x);
		if (rc == E_NOTFOUND && any) /* its pieces may all be unusable */
			CHECK(isinf(t->single[b]) || x.n == 0);
		if (rc == E_OK)
			CHECK(!differ(x.ns, t->single[b]));
	}
	arena_free(&a);
}

TEST(equals_all_subsets)
{
	int legal = 0, none = 0;
	for (int i = 0; i < 4000; i += test_share()) {
		struct truth t;
		const struct placement_world *w = world_new((uint64_t)i, &small_shapes[i % SMALL_SHAPES]);
		find_truth(w, &t);
		check_small(w, &t, false, (uint64_t)i);
		check_small(w, &t, true, (uint64_t)i);
		check_singles(w, &t);
		legal += t.legal > 1;
		none += !t.legal;
		if (test_bad) {
			printf("case %d\n", i);
			return;
		}
	}
	if (test_share() == 1)
		CHECK(legal > 2500 && none > 100);
}

/* ---- larger networks ---- */

static const struct world_shape large_shapes[] = {
    {.window = 1, .nbackends = 5, .nformats = 4, .ndevices = 2, .most_pattern = 4, .patterns = 3},
    {.window = 3,
     .nbackends = 3,
     .nformats = 3,
     .ndevices = 2,
     .most_pattern = 4,
     .patterns = 3,
     .two_reads = 0.4,
     .two_writes = 0.1,
     .no_move = 0.1,
     .odd = 0.1,
     .simple = true},
    {.window = 4,
     .nbackends = 3,
     .nformats = 3,
     .ndevices = 2,
     .most_pattern = 3,
     .patterns = 3,
     .two_reads = 0.5,
     .two_writes = 0.1,
     .far = 0.02,
     .odd = 0.1,
     .simple = true},
    {.window = 6,
     .nbackends = 2,
     .nformats = 2,
     .ndevices = 2,
     .most_pattern = 4,
     .patterns = 2,
     .two_reads = 0.5,
     .two_writes = 0.1,
     .far = 0.03,
     .simple = true},
};
enum { LARGE_SHAPES = sizeof large_shapes / sizeof *large_shapes };

TEST(larger_within_2_percent)
{
	int solved = 0, exact = 0;
	for (int i = 0; i < 1000; i += test_share()) {
		struct world_shape shape = large_shapes[i % LARGE_SHAPES];
		shape.nops = 20 + i % 41;
		shape.simple = true;
		const struct placement_world *w = world_new((uint64_t)i + 100000, &shape);
		double best = exact_alone(w);
		struct arena a = {0};
		struct placement x;
		int rc = placement_solve(&w->p, &(struct placement_search){.seed = 1}, &a, &x);
		CHECK(rc == (isinf(best) ? E_NOTFOUND : E_OK));
		if (rc == E_OK) {
			check_answer(w, &x, false);
			CHECK(x.ns >= best - 1e-6 && x.ns <= 1.02 * best);
			CHECK(!x.exact || !differ(x.ns, best));
			solved++;
			exact += x.exact;
		}
		arena_free(&a);
		if (test_bad) {
			printf("case %d\n", i);
			return;
		}
	}
	if (test_share() == 1)
		CHECK(solved > 950 && exact > 900 && exact < solved);
}

static const struct world_shape wide_shapes[] = {
    {.nops = 60,
     .window = 8,
     .nbackends = 4,
     .nformats = 4,
     .ndevices = 2,
     .most_pattern = 4,
     .patterns = 3,
     .two_reads = 0.6,
     .two_writes = 0.1,
     .odd = 0.1},
    {.nops = 50,
     .window = 8,
     .nbackends = 6,
     .nformats = 6,
     .ndevices = 2,
     .most_pattern = 4,
     .patterns = 3,
     .two_reads = 0.5,
     .two_writes = 0.1,
     .far = 0.1,
     .uniform = true},
    {.nops = 40,
     .window = 3,
     .nbackends = 3,
     .nformats = 3,
     .ndevices = 3,
     .most_pattern = 3,
     .patterns = 3,
     .two_reads = 0.4,
     .no_move = 0.02,
     .uniform = true},
};
enum { WIDE_SHAPES = sizeof wide_shapes / sizeof *wide_shapes, WIDER_CASES = 30 };

/* The least cost (a) that many more states find. */
static double wider_beam(const struct placement_world *w, struct arena *a)
{
	struct placement_search s = {0};
	struct place_dp how = {.beam = 20 * PLACEMENT_BEAM, .most_ns = INFINITY, .s = &s};
	struct place_net net;
	int piece[WORLD_OPS], n = 0;
	bool exact;
	CHECK_OK(place_net(&w->p, false, a, &net));
	CHECK(place_dp(&net, &how, piece, &n, &exact) == 1);
	return naive_alone(w, piece, n);
}

/* Never worse than a single back end, in both costs; twice the same; another seed differs in some case. */
TEST(never_worse_than_a_single_back_end)
{
	int differ_by_seed = 0, better = 0;
	for (int i = 0; i < 90; i += test_share()) {
		const struct placement_world *w =
		    world_new((uint64_t)i + 7000, &wide_shapes[i % WIDE_SHAPES]);
		struct placement_search s = {.overlap = i / WIDE_SHAPES % 2, .seed = 5, .evals = 300};
		struct arena a = {0};
		struct placement x, again, other, single;
		REQUIRE_OK(placement_solve(&w->p, &s, &a, &x));
		REQUIRE_OK(placement_solve(&w->p, &s, &a, &again));
		check_answer(w, &x, s.overlap);
		CHECK(x.ns <= x.alone_ns);
		CHECK(x.n == again.n && x.ns == again.ns && x.evals == again.evals);
		CHECK(!memcmp(x.piece, again.piece, sizeof(int) * (size_t)x.n));
		s.seed = 6;
		REQUIRE_OK(placement_solve(&w->p, &s, &a, &other));
		differ_by_seed += other.ns != x.ns;
		if (!s.overlap && i < WIDER_CASES)
			CHECK(x.ns <= 1.02 * wider_beam(w, &a));
		for (int b = 0; b < w->p.nbackends; b++) {
			int rc = placement_single(&w->p, b, &s, &a, &single);
			CHECK(rc == E_OK || rc == E_NOTFOUND);
			if (rc < 0)
				continue;
			check_answer(w, &single, s.overlap);
			CHECK(x.ns <= single.ns && other.ns <= single.ns);
			better += x.ns < single.ns;
		}
		arena_free(&a);
	}
	if (test_share() == 1)
		CHECK(differ_by_seed > 15 && better > 200);
}

/* ---- the second level ---- */

/* Evolution alone, from one seed, finds the best by cost (b) almost always where all can be tried. */
TEST(evolution_finds_the_best)
{
	int cases = 0, best = 0;
	for (int i = 0; i < 500; i += test_share()) {
		struct truth t;
		const struct placement_world *w =
		    world_new((uint64_t)i + 30000, &small_shapes[i % SMALL_SHAPES]);
		find_truth(w, &t);
		struct arena a = {0};
		struct placement_search s = {.overlap = true, .seed = (uint64_t)i};
		struct place_net net;
		int piece[WORLD_OPS], order[WORLD_OPS], found[WORLD_OPS], n = 0;
		struct place_best b = {.net = &net, .s = &s, .order = order, .piece = found, .budget = 300};
		int rc = place_net(&w->p, false, &a, &net);
		bool exact;
		double ns;
		if (rc == E_OK && t.legal) {
			REQUIRE_OK(place_cost_new(&net, &a, &b.cost));
			REQUIRE(place_dp(&net, &(struct place_dp){.beam = 1, .most_ns = INFINITY, .s = &s},
					 piece, &n, &exact) >= 0);
			n = exact || isinf(naive_alone(w, piece, n)) ? 0 : n;
		}
		if (rc == E_OK && t.legal && n) {
			REQUIRE_OK(place_try(&b, piece, n, &ns));
			REQUIRE_OK(place_evolve(&b, piece, &n, &ns, 1));
			CHECK(b.ns <= ns && b.ns >= t.overlap - 1e-6 && b.evals <= 300);
			cases++;
			best += !differ(b.ns, t.overlap);
		}
		arena_free(&a);
	}
	if (test_share() == 1)
		CHECK(cases > 250 && best * 100 >= 95 * cases);
}

/* A network whose pieces slow each other down: a hidden factor per pair of neighbours' back ends. */
struct hidden {
	const struct placement_world *w;
	int calls, stop_at, fail_with;
	double least;
	bool nan;
};

static int measure_hidden(void *user, const struct placement *x, double *ns)
{
	struct hidden *h = user;
	if (++h->calls == h->stop_at)
		return h->fail_with;
	check_answer(h->w, x, false);
	*ns = x->alone_ns;
	for (int i = 1; i < x->n; i++)
		if (h->w->piece[x->piece[i]].backend != h->w->piece[x->piece[i - 1]].backend)
			*ns += 25;
	h->least = fmin(h->least, *ns);
	if (h->nan)
		*ns = NAN;
	return E_OK;
}

TEST(measured_networks)
{
	for (int i = 0; i < 30; i += test_share()) {
		const struct placement_world *w =
		    world_new((uint64_t)i + 9000, &wide_shapes[i % WIDE_SHAPES]);
		struct hidden h = {.w = w, .least = INFINITY};
		struct placement_search s = {.seed = 3, .evals = 40, .measure = measure_hidden, .user = &h};
		struct arena a = {0};
		struct placement x;
		REQUIRE_OK(placement_solve(&w->p, &s, &a, &x));
		CHECK(h.calls == x.evals && h.calls <= 40 && h.calls > 20 && x.ns == h.least && !x.exact);
		double all_ns = x.ns, first_ns;
		h = (struct hidden){.w = w, .least = INFINITY, .stop_at = 2, .fail_with = E_STOPPED};
		REQUIRE_OK(placement_solve(&w->p, &s, &a, &x));
		first_ns = x.ns;
		CHECK(h.calls == 2 && x.ns == h.least && first_ns >= all_ns);
		h = (struct hidden){.w = w, .least = INFINITY, .stop_at = 1, .fail_with = E_INFEASIBLE};
		REQUIRE_OK(placement_solve(&w->p, &s, &a, &x));
		CHECK(x.ns == h.least && h.calls > 20);
		h = (struct hidden){.w = w, .stop_at = 1, .fail_with = E_STOPPED};
		CHECK(placement_solve(&w->p, &s, &a, &x) == E_STOPPED);
		h = (struct hidden){.w = w, .stop_at = 3, .fail_with = E_IO};
		CHECK(placement_solve(&w->p, &s, &a, &x) == E_IO && h.calls == 3);
		h = (struct hidden){.w = w, .nan = true};
		CHECK_FAILS(placement_solve(&w->p, &s, &a, &x), E_USAGE, "not a time");
		arena_free(&a);
	}
}

/* Measured networks of few placements: each is measured once. */
TEST(few_placements_are_all_measured)
{
	int cases = 0;
	for (int i = 0; i < 300; i += test_share()) {
		struct truth t;
		struct placement_world *w = world_new((uint64_t)i + 50000, &small_shapes[i % SMALL_SHAPES]);
		find_truth(w, &t);
		struct hidden h = {.w = w, .least = INFINITY};
		struct placement_search s = {.evals = 100, .measure = measure_hidden, .user = &h};
		struct arena a = {0};
		struct placement x;
		int rc = placement_solve(&w->p, &s, &a, &x);
		CHECK((rc == E_OK) == (t.legal > 0));
		if (rc == E_OK && x.exact) {
			CHECK(h.calls == t.legal && x.ns == h.least);
			cases++;
		}
		arena_free(&a);
	}
	if (test_share() == 1)
		CHECK(cases > 200);
}

static bool over_after(void *user)
{
	return --*(int *)user < 0;
}

TEST(ends_early)
{
	const struct placement_world *w = world_new(1, &wide_shapes[1]);
	struct arena a = {0};
	struct placement all, x;
	struct placement_search s = {.overlap = true, .seed = 2};
	REQUIRE_OK(placement_solve(&w->p, &s, &a, &all));
	for (int calls = 0; calls < 1200; calls += 60) {
		int left = calls;
		s.over = over_after;
		s.user = &left;
		REQUIRE_OK(placement_solve(&w->p, &s, &a, &x));
		check_answer(w, &x, true);
		CHECK(x.ns >= all.ns && x.evals < all.evals && !x.exact);
	}
	arena_free(&a);
}

/* ---- small problems by hand ---- */

/* Operator 0 reads value 0 and writes 1; operators 1 and 2 read 1 and write 2 and 3; operator 3 reads both
 * and writes 4. Each has a piece on either of two back ends, devices and formats. */
static struct placement_world *diamond(void)
{
	static const int reads[4][2] = {{0}, {1}, {1}, {2, 3}}, nreads[] = {1, 1, 1, 2};
	static struct placement_world w;
	memset(&w, 0, sizeof w);
	w.p = (struct placement_problem){.nops = 4,
					 .nvalues = 5,
					 .nformats = 2,
					 .nbackends = 2,
					 .ndevices = 2,
					 .ninputs = 1,
					 .noutputs = 1,
					 .op = w.op,
					 .piece = w.piece,
					 .input = w.input,
					 .output = w.output,
					 .launch_ns = w.launch,
					 .move_ns = world_move,
					 .moves = &w};
	w.output[0].value = 4;
	for (int op = 0; op < 4; op++) {
		memcpy(w.reads[op], reads[op], sizeof reads[op]);
		w.writes[op][0] = op + 1;
		w.op[op] = (struct placement_op){nreads[op], 1, w.reads[op], w.writes[op]};
		for (int b = 0; b < 2; b++) {
			int i = w.p.npieces++;
			w.ops[i][0] = op;
			for (int k = 0; k < nreads[op]; k++)
				w.read[i][k] = (struct placement_port){reads[op][k], b};
			w.write[i][0] = (struct placement_port){op + 1, b};
			w.piece[i] = (struct placement_piece){.nops = 1,
							      .op = w.ops[i],
							      .backend = b,
							      .device = b,
							      .ns = 100,
							      .nreads = nreads[op],
							      .read = w.read[i],
							      .nwrites = 1,
							      .write = w.write[i]};
		}
	}
	for (int v = 0; v < 5; v++)
		for (int f = 0; f < 2; f++)
			w.move[v][f][!f] = 10;
	w.writer[0] = -1;
	for (int v = 1; v < 5; v++)
		w.writer[v] = v - 1;
	w.wanted[4] = true;
	return &w;
}

TEST(moves_and_overlap_by_hand)
{
	struct placement_world *w = diamond();
	struct arena a = {0};
	struct placement x;
	/* Operator 0 on back end 0, 1 and 2 on back end 1: value 1 moves once, for both. */
	REQUIRE_OK(placement_cost(&w->p, false, (int[]){0, 3, 5, 6}, 4, &a, &x));
	CHECK(x.ns == 400 + 10 + 2 * 10);
	REQUIRE_OK(placement_cost(&w->p, false, (int[]){6, 5, 2, 0}, 4, &a, &x));
	CHECK(x.ns == 400 + 10 + 10 && x.piece[0] == 0 && x.piece[3] == 6);
	/* Both branches at once: 0 to 100, move to 110, 100 to 200 beside 110 to 210, move to 220, to 320. */
	REQUIRE_OK(placement_cost(&w->p, true, (int[]){0, 2, 5, 6}, 4, &a, &x));
	CHECK(x.ns == 320 && x.alone_ns == 420);
	/* The same, with moves that device 0 makes: 110 to 210 for both branches. */
	int mover[4] = {0, 0, 0, 0};
	w->p.mover = mover;
	REQUIRE_OK(placement_cost(&w->p, true, (int[]){0, 2, 5, 6}, 4, &a, &x));
	CHECK(x.ns == 320);
	w->p.mover = NULL;
	REQUIRE_OK(placement_solve(&w->p, &(struct placement_search){.overlap = true}, &a, &x));
	CHECK(x.ns == 320 && x.exact);
	REQUIRE_OK(placement_solve(&w->p, &(struct placement_search){0}, &a, &x));
	CHECK(x.ns == 400 && x.exact && x.evals == 0);
	w->launch[0] = 30;
	REQUIRE_OK(placement_solve(&w->p, &(struct placement_search){0}, &a, &x));
	CHECK(x.ns == 420); /* all on device 1: input and output move */
	CHECK_FAILS(placement_cost(&w->p, false, (int[]){0, 3, 5}, 3, &a, &x), E_INFEASIBLE,
		    "covered by no piece");
	CHECK_FAILS(placement_cost(&w->p, false, (int[]){0, 3, 5, 4}, 4, &a, &x), E_INFEASIBLE, "by two");
	CHECK_FAILS(placement_cost(&w->p, false, (int[]){0, 3, 5, 99}, 4, &a, &x), E_USAGE, "no piece");
	for (int v = 0; v < 5; v++)
		w->move[v][0][1] = INFINITY;
	CHECK_FAILS(placement_cost(&w->p, true, (int[]){0, 3, 5, 6}, 4, &a, &x), E_INFEASIBLE,
		    "cannot be moved");
	arena_free(&a);
}

/* Two pieces, each of which reads what the other one writes. */
TEST(pieces_that_wait_for_each_other)
{
	struct placement_world *w = diamond();
	struct arena a = {0};
	struct placement x;
	/* Operators 0 -> 1 and 2 -> 3, of which one piece has 0 and 3, another one 1 and 2. */
	w->reads[2][0] = 0;
	w->reads[1][0] = 1;
	w->reads[3][0] = 3;
	w->op[3].nreads = 1;
	w->output[1].value = 2;
	w->p.noutputs = 2;
	w->p.npieces = 2;
	w->piece[1].backend = 0;
	const int ops[2][2] = {{3, 0}, {2, 1}};
	for (int i = 0; i < 2; i++) {
		memcpy(w->ops[i], ops[i], sizeof ops[i]);
		w->piece[i].nops = w->piece[i].nreads = w->piece[i].nwrites = 2;
		w->read[i][0] = (struct placement_port){i ? 1 : 3, 0};
		w->read[i][1] = (struct placement_port){0, 0};
		w->write[i][0] = (struct placement_port){i ? 3 : 4, 0};
		w->write[i][1] = (struct placement_port){i ? 2 : 1, 0};
	}
	CHECK_FAILS(placement_cost(&w->p, false, (int[]){0, 1}, 2, &a, &x), E_INFEASIBLE,
		    "wait for each other");
	CHECK_FAILS(placement_solve(&w->p, &(struct placement_search){0}, &a, &x), E_NOTFOUND, "no set of");
	CHECK_FAILS(placement_exhaustive(&w->p, &(struct placement_search){0}, &a, &x), E_NOTFOUND,
		    "no set of");
	/* With a piece of its own for each operator, which costs more, there is an answer. */
	w->p.npieces = 6;
	for (int i = 2; i < 6; i++) {
		int op = i - 2;
		w->ops[i][0] = op;
		w->read[i][0] = (struct placement_port){w->reads[op][0], 0};
		w->write[i][0] = (struct placement_port){op + 1, 0};
		w->piece[i] = (struct placement_piece){.nops = 1,
						       .op = w->ops[i],
						       .ns = 1000,
						       .nreads = 1,
						       .read = w->read[i],
						       .nwrites = 1,
						       .write = w->write[i]};
	}
	REQUIRE_OK(placement_solve(&w->p, &(struct placement_search){0}, &a, &x));
	CHECK(x.exact && x.n == 3 && x.ns == 2100);
	CHECK(!differ(naive_alone(w, x.piece, x.n), 2100));
	arena_free(&a);
}

/* ---- what to measure ---- */

/* Hides times; asks for them until nothing is worth asking. Then the answer is the best of all. */
TEST(asks_until_the_answer_is_certain)
{
	int asked = 0, hidden = 0, certain = 0;
	for (int i = 0; i < 600; i += test_share()) {
		struct truth t;
		struct placement_world *w = world_new((uint64_t)i + 70000, &small_shapes[i % SMALL_SHAPES]);
		double ns[WORLD_PIECES], price[WORLD_PIECES];
		struct placement_search s = {.overlap = i % 3 == 0};
		struct arena a = {0};
		find_truth(w, &t);
		for (int k = 0; k < w->p.npieces; k++) {
			ns[k] = w->piece[k].ns;
			price[k] = 1 + k % 3;
			w->piece[k].unmeasured = (i + k * 7) % 10 < 7;
			hidden += w->piece[k].unmeasured;
			if (w->piece[k].unmeasured)
				w->piece[k].ns = i % 2 ? 0 : floor(0.6 * ns[k]);
		}
		struct placement_ask ask = {0};
		double gain = INFINITY;
		int rc;
		while ((rc = placement_next(&w->p, &s, i % 5 ? price : NULL, &a, &ask)) == 1) {
			REQUIRE(ask.piece >= 0 && ask.piece < w->p.npieces && w->piece[ask.piece].unmeasured);
			CHECK(ask.gain_ns > 0 && ask.gain_ns <= gain + 1e-6);
			gain = ask.gain_ns;
			w->piece[ask.piece].unmeasured = false;
			w->piece[ask.piece].ns = ns[ask.piece];
			asked++;
		}
		CHECK(rc == (t.legal ? 0 : E_NOTFOUND));
		struct placement x;
		if (t.legal) {
			REQUIRE_OK(placement_solve(&w->p, &s, &a, &x));
			CHECK(!differ(x.ns, s.overlap ? t.overlap : t.alone));
			certain++;
		}
		arena_free(&a);
		if (test_bad) {
			printf("case %d\n", i);
			return;
		}
	}
	if (test_share() == 1)
		CHECK(certain > 400 && asked < hidden * 7 / 10);
}

TEST(asks_for_most_gain_per_cost)
{
	struct placement_world *w = diamond();
	struct arena a = {0};
	struct placement_ask ask;
	double price[8] = {1, 1, 1, 1, 1, 1, 1, 1};
	for (int i = 1; i < 8; i += 2) {
		w->piece[i].unmeasured = true;
		w->piece[i].ns = i == 5 ? 20 : 60;
	}
	CHECK(placement_next(&w->p, &(struct placement_search){0}, NULL, &a, &ask) == 1);
	CHECK(ask.piece == 5 && ask.gain_ns == 400 - (60 + 60 + 60 + 20 + 2 * 10));
	price[5] = 3;
	CHECK(placement_next(&w->p, &(struct placement_search){0}, price, &a, &ask) == 1 && ask.piece != 5);
	for (int i = 1; i < 8; i += 2)
		w->piece[i].ns = 99; /* moves cost more than they could save */
	CHECK(placement_next(&w->p, &(struct placement_search){0}, price, &a, &ask) == 0);
	w->piece[0].unmeasured = true; /* operator 0 has no measured piece */
	CHECK(placement_next(&w->p, &(struct placement_search){0}, price, &a, &ask) == 1);
	CHECK(ask.piece == 0 && isinf(ask.gain_ns));
	price[2] = NAN;
	CHECK_FAILS(placement_next(&w->p, &(struct placement_search){0}, price, &a, &ask), E_USAGE, "price");
	arena_free(&a);
}

TEST(share_of_a_box)
{
	CHECK(placement_share_ns(20 * NS_PER_S) == 2 * NS_PER_S);
	CHECK(placement_share_ns(600 * NS_PER_S) == 60 * NS_PER_S);
	CHECK(placement_share_ns(10 * NS_PER_S) == 3 * NS_PER_S);
	CHECK(placement_share_ns(20 * NS_PER_S - 1) <= 6 * NS_PER_S);
	CHECK(placement_share_ns(0) == 0 && placement_share_ns(-5) == 0 &&
	      placement_share_ns(INT64_MIN) == 0);
	CHECK(placement_share_ns(INT64_MAX) == INT64_MAX / 10);
}

/* ---- hostile problems ---- */

static void check_refused(const struct placement_world *w, int code, const char *part)
{
	struct arena a = {0};
	struct placement x;
	struct placement_ask ask;
	CHECK_FAILS(placement_solve(&w->p, &(struct placement_search){0}, &a, &x), code, part);
	CHECK_FAILS(placement_exhaustive(&w->p, &(struct placement_search){0}, &a, &x), code, part);
	CHECK_FAILS(placement_single(&w->p, 0, &(struct placement_search){0}, &a, &x), code, part);
	CHECK_FAILS(placement_next(&w->p, &(struct placement_search){0}, NULL, &a, &ask), code, part);
	arena_free(&a);
}

/* Changes a diamond, and demands that it is refused with this text. */
#define REFUSED(code, part, ...)                                                                             \
	do {                                                                                                 \
		struct placement_world *w = diamond();                                                       \
		__VA_ARGS__;                                                                                 \
		check_refused(w, code, part);                                                                \
	} while (0)

TEST(hostile_problems)
{
	REFUSED(E_USAGE, "0 operators", w->p.nops = 0);
	REFUSED(E_USAGE, "-1 operators", w->p.nops = -1);
	REFUSED(E_USAGE, "100000 operators", w->p.nops = 100000);
	REFUSED(E_USAGE, "list of operators", w->p.op = NULL);
	REFUSED(E_USAGE, "values", w->p.nvalues = INT32_MAX);
	REFUSED(E_USAGE, "formats", w->p.nformats = 33);
	REFUSED(E_USAGE, "back ends", w->p.nbackends = 0);
	REFUSED(E_USAGE, "devices", w->p.ndevices = -3);
	REFUSED(E_USAGE, "list of pieces", w->p.piece = NULL);
	REFUSED(E_USAGE, "inputs", w->p.ninputs = -1);
	REFUSED(E_USAGE, "price of moves", w->p.move_ns = NULL);
	REFUSED(E_USAGE, "launch", w->launch[1] = NAN);
	REFUSED(E_USAGE, "launch", w->launch[1] = -1);
	REFUSED(E_USAGE, "make moves", w->mover[1] = 2; w->p.mover = w->mover);
	REFUSED(E_USAGE, "no value 77", w->input[0].value = 77);
	REFUSED(E_USAGE, "no format -1", w->output[0].format = -1);
	REFUSED(E_USAGE, "no cycle", w->reads[0][0] = 4);
	REFUSED(E_USAGE, "no cycle", w->reads[0][0] = 1);
	REFUSED(E_USAGE, "reads value -2", w->reads[2][0] = -2);
	REFUSED(E_USAGE, "given twice", w->writes[2][0] = 2);
	REFUSED(E_USAGE, "given twice", w->writes[2][0] = 0);
	REFUSED(E_USAGE, "input twice", w->input[1] = w->input[0]; w->p.ninputs = 2);
	REFUSED(E_USAGE, "nothing computes", w->p.nvalues = 6; w->output[0].value = 5);
	REFUSED(E_USAGE, "piece 2: there is no operator 4", w->ops[2][0] = 4);
	REFUSED(E_USAGE, "piece 3: 0 operators", w->piece[3].nops = 0);
	REFUSED(E_USAGE, "operator 1 twice", w->piece[2].nops = 2; w->ops[2][1] = 1);
	REFUSED(E_USAGE, "back end 2", w->piece[2].backend = 2);
	REFUSED(E_USAGE, "no device -1", w->piece[2].device = -1);
	REFUSED(E_USAGE, "not a time", w->piece[2].ns = NAN);
	REFUSED(E_USAGE, "not a time", w->piece[2].ns = -1);
	REFUSED(E_USAGE, "not a time", w->piece[2].ns = INFINITY);
	REFUSED(E_USAGE, "twice or needlessly", w->read[2][0].value = 0);
	REFUSED(E_USAGE, "missing in its reads", w->piece[6].nreads = 1);
	REFUSED(E_USAGE, "does not compute it", w->write[2][0].value = 1);
	REFUSED(E_USAGE, "no format 2", w->write[2][0].format = 2);
	REFUSED(E_USAGE, "moving value 0", w->move[0][0][1] = NAN);
	REFUSED(E_USAGE, "moving value 1", w->move[1][1][0] = -INFINITY);
	REFUSED(E_NOTFOUND, "operator 0;", w->p.npieces = 0);
	REFUSED(E_NOTFOUND, "operator 3;", w->p.npieces = 6);
	REFUSED(E_NOTFOUND, "operator 1;", w->piece[2].nwrites = w->piece[3].nwrites = 0);
	/* Operators 0 and 3 as one, with 1 and 2 between them. */
	REFUSED(E_USAGE, "cannot run as one", w->piece[6].nops = 2; w->ops[6][1] = 0; w->piece[6].nreads = 3;
		w->read[6][2].value = 0);
	struct placement_world *w = diamond();
	struct arena a = {0};
	struct placement x;
	CHECK_FAILS(placement_single(&w->p, 2, &(struct placement_search){0}, &a, &x), E_USAGE,
		    "no back end 2");
	CHECK_FAILS(placement_single(&w->p, -1, &(struct placement_search){0}, &a, &x), E_USAGE,
		    "no back end -1");
	REQUIRE_OK(
	    placement_solve(&w->p, &(struct placement_search){.evals = INT32_MAX, .overlap = true}, &a, &x));
	arena_free(&a);
}

static double hostile_ns(struct rng *r)
{
	const double some[] = {NAN, -1, INFINITY, -INFINITY, 0, 1e300, 5e-324, PLACEMENT_MOST_NS};
	return some[rng_below(r, sizeof some / sizeof *some)];
}

static void damage(struct placement_world *w, struct rng *r)
{
	int op = (int)rng_below(r, (uint32_t)w->p.nops), piece = (int)rng_below(r, (uint32_t)w->p.npieces);
	int numbers[] = {-1, 0, 1, 2, 3, 5, 1 << 30, INT32_MIN}, any = numbers[rng_below(r, 8)];
	int small = any & 7; /* lists here have room for so many */
	int *fields[] = {&w->reads[op][0],
			 &w->writes[op][0],
			 &w->ops[piece][0],
			 &w->piece[piece].backend,
			 &w->piece[piece].device,
			 &w->read[piece][0].value,
			 &w->read[piece][0].format,
			 &w->write[piece][0].value,
			 &w->write[piece][0].format,
			 &w->input[0].value,
			 &w->output[0].format,
			 &w->p.nvalues,
			 &w->p.nformats,
			 &w->p.nbackends,
			 &w->p.ndevices,
			 &w->p.npieces,
			 &w->p.noutputs};
	int *counts[] = {&w->op[op].nreads, &w->op[op].nwrites, &w->piece[piece].nops,
			 &w->piece[piece].nreads, &w->piece[piece].nwrites};
	int k = (int)rng_below(r, 4), value = (int)rng_below(r, (uint32_t)w->p.nvalues);
	if (k == 0)
		*counts[rng_below(r, sizeof counts / sizeof *counts)] = small;
	else if (k == 1)
		w->piece[piece].ns = hostile_ns(r);
	else if (k == 2)
		w->move[value][rng_below(r, WORLD_FORMATS)][rng_below(r, WORLD_FORMATS)] = hostile_ns(r);
	else
		*fields[rng_below(r, sizeof fields / sizeof *fields)] = any;
	/* The world itself has arrays of such sizes. */
	if (w->p.nvalues > WORLD_VALUES)
		w->p.nvalues = INT32_MAX;
	if (w->p.nformats > WORLD_FORMATS)
		w->p.nformats = INT32_MAX;
	if (w->p.npieces > WORLD_PIECES)
		w->p.npieces = INT32_MAX;
}

/* Damaged problems: an error, or an answer that is legal. */
TEST(damaged_problems)
{
	int good = 0, bad = 0;
	struct rng r;
	rng_seed(&r, 11);
	for (int i = 0; i < 6000; i += test_share()) {
		struct placement_world *w = world_new((uint64_t)i, &small_shapes[i % SMALL_SHAPES]);
		struct arena a = {0};
		struct placement x;
		struct placement_ask ask;
		for (int k = 1 + (int)rng_below(&r, 3); k; k--)
			if (w->p.npieces > 0 && w->p.nvalues > 0 && w->p.nvalues < WORLD_VALUES &&
			    w->p.npieces < WORLD_PIECES)
				damage(w, &r);
		int rc =
		    placement_solve(&w->p, &(struct placement_search){.overlap = i % 2, .evals = 50}, &a, &x);
		CHECK(rc == E_OK || rc == E_USAGE || rc == E_NOTFOUND);
		good += rc == E_OK;
		bad += rc < 0;
		if (rc == E_OK)
			CHECK(x.ns >= 0 && !isinf(x.ns) && covers_once(w, x.piece, x.n) &&
			      can_run(w, x.piece, x.n));
		rc = placement_next(&w->p, &(struct placement_search){0}, NULL, &a, &ask);
		CHECK(rc == 0 || rc == E_USAGE || rc == E_NOTFOUND);
		arena_free(&a);
	}
	if (test_share() == 1)
		CHECK(good > 500 && bad > 2000);
}

TEST_MAIN
