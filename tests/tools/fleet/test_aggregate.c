/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/mix.h"
#include "platform/base/rng.h"
#include "tests/lib/aggregate_slow.h"
#include "tests/lib/test.h"

enum { WORDS = 4096, BOARDS = 64, MS = 1000000 };
static const struct aggregate_rules usual = {.quorum = {1, 2, 3}, .tolerance = 0.15, .now_s = 1000000};

struct fleet {
	struct word word[WORDS];
	struct held held[WORDS];
	bool revoked[BOARDS];
	struct key record[BOARDS];
	struct cand_score score[BOARDS];
	struct aggregate_in in;
	struct agreed *out;
	int n;
	struct arena a;
};

static struct fleet *fleet_new(int boards)
{
	struct fleet *f = calloc(1, sizeof *f);
	f->in = (struct aggregate_in){.word = f->word,
				      .nboard = boards,
				      .revoked = f->revoked,
				      .record = f->record,
				      .held = f->held,
				      .rules = usual};
	return f;
}

static void fleet_free(struct fleet *f)
{
	arena_free(&f->a);
	free(f);
}

static struct key key_of(int n)
{
	return mix_bytes(&n, sizeof n, 1);
}

static void say(struct fleet *f, int board, int key, int cand, int64_t ns)
{
	f->word[f->in.nword++] = (struct word){.board = board,
					       .type = CACHE_REC,
					       .key = key_of(key),
					       .cand = key_of(1000 * key + cand),
					       .median_ns = ns};
}

static void say_failed(struct fleet *f, int board, int key, int cand)
{
	say(f, board, key, cand, 0);
	f->word[f->in.nword - 1].failed = true;
}

static void choose(struct fleet *f, int board, int key, int cand)
{
	say(f, board, key, cand, 0);
	f->word[f->in.nword - 1].type = CACHE_CHOICES;
}

static void hold(struct fleet *f, int key, int cand, enum channel c, int64_t since_s, int64_t ns, bool now)
{
	f->held[f->in.nheld++] = (struct held){.key = key_of(key),
					       .type = CACHE_REC,
					       .cand = key_of(1000 * key + cand),
					       .channel = c,
					       .since_s = since_s,
					       .median_ns = ns,
					       .now = now};
}

static void count(struct fleet *f)
{
	f->n = aggregate(&f->in, &f->a, &f->out, f->score);
	CHECK_OK(f->n);
}

static const struct agreed *got(const struct fleet *f, int key, enum channel c)
{
	for (int i = 0; i < f->n; i++)
		if (key_equal(f->out[i].key, key_of(key)) && f->out[i].channel == c)
			return &f->out[i];
	return NULL;
}

static int cand_on(const struct fleet *f, int key, enum channel c)
{
	const struct agreed *g = got(f, key, c);
	for (int i = 0; g && i < 100; i++)
		if (key_equal(g->cand, key_of(1000 * key + i)))
			return i;
	return -1;
}

static bool is(const struct fleet *f, int key, int canary, int early, int all)
{
	int c = cand_on(f, key, CHANNEL_CANARY), e = cand_on(f, key, CHANNEL_EARLY),
	    l = cand_on(f, key, CHANNEL_ALL);
	bool good = c == canary && e == early && l == all;
	if (!good)
		printf("key %d: %d %d %d, wanted %d %d %d\n", key, c, e, l, canary, early, all);
	return good;
}

TEST(quorum)
{
	struct fleet *f = fleet_new(4);
	for (int b = 0; b < 3; b++)
		for (int k = b; k < 3; k++)
			say(f, b, k, 1, 10 * MS + b * MS / 2);
	count(f);
	CHECK(is(f, 0, 1, -1, -1) && is(f, 1, 1, 1, -1) && is(f, 2, 1, 1, 1) && f->n == 6);
	const struct agreed *g = got(f, 2, CHANNEL_ALL);
	CHECK(g && g->boards == 3 && g->median_ns == 10 * MS + MS / 2 && g->mad_ns == MS / 2);
	CHECK(g && f->word[g->from].board == 1 && g->held == -1);
	CHECK(!got(f, 3, CHANNEL_CANARY));
	fleet_free(f);
}

TEST(the_fastest_that_is_agreed_on)
{
	struct fleet *f = fleet_new(4);
	for (int b = 0; b < 3; b++) {
		say(f, b, 0, 1, 10 * MS);
		say(f, b, 0, 2, 9 * MS);
	}
	say(f, 0, 0, 3, 5 * MS);
	say(f, 1, 0, 4, 7 * MS);
	say(f, 2, 0, 4, 7 * MS);
	count(f);
	CHECK(is(f, 0, 3, 4, 2));
	fleet_free(f);
}

TEST(a_board_counts_once)
{
	struct fleet *f = fleet_new(3);
	for (int i = 0; i < 1000; i++)
		say(f, 0, 0, 1, MS);
	say(f, 1, 0, 2, 20 * MS);
	say(f, 1, 0, 2, 2 * MS); /* its latest word */
	say(f, 2, 0, 2, 2 * MS);
	for (int i = 0; i < 100; i++)
		choose(f, 0, 1, 1);
	choose(f, 1, 1, 1);
	choose(f, 1, 1, 2);
	choose(f, 2, 1, 2);
	count(f);
	CHECK(is(f, 0, 1, 2, -1) && got(f, 0, CHANNEL_CANARY)->boards == 1);
	CHECK(is(f, 1, 2, 2, -1) && got(f, 1, CHANNEL_EARLY)->boards == 2);
	fleet_free(f);
}

TEST(a_liar_moves_no_median_and_is_struck_out)
{
	struct fleet *f = fleet_new(5);
	for (int k = 0; k < STRIKE_WORDS; k++) {
		for (int b = 0; b < 4; b++)
			say(f, b, k, 1, 10 * MS + b * MS / 10);
		say(f, 4, k, 1, 100); /* of a candidate that others know */
		say(f, 4, k, 2, 10);  /* of a candidate that nobody else knows */
	}
	count(f);
	for (int k = 0; k < STRIKE_WORDS; k++) {
		CHECK(is(f, k, 1, 1, 1));
		CHECK(got(f, k, CHANNEL_ALL)->median_ns > 10 * MS);
	}
	CHECK(f->score[4].struck && f->score[4].words == STRIKE_WORDS && f->score[4].good == 0);
	for (int b = 0; b < 4; b++)
		CHECK(!f->score[b].struck && f->score[b].good == STRIKE_WORDS && f->score[b].score == 1);
	f->in.nword -= 10; /* too few words to strike it out: its candidate is on canary only */
	count(f);
	CHECK(!f->score[4].struck && f->score[4].score == 0);
	CHECK(is(f, 0, 2, 1, 1));
	CHECK(got(f, 0, CHANNEL_ALL)->median_ns >= 10 * MS);
	fleet_free(f);
}

TEST(colluders_below_the_quorum_promote_and_strike_nobody)
{
	struct fleet *f = fleet_new(4);
	for (int k = 0; k < 40; k++) {
		say(f, 0, k, 1, 10 * MS);
		say(f, 1, k, 1, 10 * MS);
		for (int liar = 2; liar < 4; liar++) {
			say(f, liar, k, 1, 20 * MS);
			say(f, liar, k, 2, MS);
			if (k < 20)
				say_failed(f, liar, k, 1);
		}
	}
	count(f);
	for (int k = 0; k < 40; k++)
		CHECK(cand_on(f, k, CHANNEL_ALL) == -1);
	for (int b = 0; b < 4; b++)
		CHECK(!f->score[b].struck);
	say(f, 1, 0, 2, 12 * MS); /* the third board that knows it gives another time */
	count(f);
	CHECK(cand_on(f, 0, CHANNEL_ALL) == -1);
	fleet_free(f);
}

TEST(revoked_boards_and_records_say_nothing)
{
	struct fleet *f = fleet_new(4);
	for (int b = 0; b < 3; b++) {
		say(f, b, 0, 1, 10 * MS);
		say(f, b, 0, 2, 9 * MS);
	}
	f->record[f->in.nrecord++] = key_of(77);
	f->record[f->in.nrecord++] = f->word[1].cand;
	count(f);
	CHECK(is(f, 0, 1, 1, 1));
	f->revoked[2] = true;
	count(f);
	CHECK(is(f, 0, 1, 1, -1) && f->score[2].words == 0);
	f->in.revoked = NULL;
	count(f);
	CHECK(is(f, 0, 1, 1, 1));
	f->in.record = NULL, f->in.nrecord = 0;
	count(f);
	CHECK(is(f, 0, 2, 2, 2));
	fleet_free(f);
}

TEST(times_that_are_none)
{
	struct fleet *f = fleet_new(8);
	const int64_t odd[] = {0, -1, INT64_MIN, INT64_MAX, INT64_C(1) << 62};
	for (int i = 0; i < 5; i++) {
		say(f, i, 0, 1, odd[i]);
		say(f, i, 1, i, odd[i]);
	}
	for (int b = 5; b < 8; b++)
		for (int k = 0; k < 2; k++)
			say(f, b, k, 10, MS);
	say(f, 0, 9, 1, 0);
	say(f, 1, 9, 1, 0);
	say(f, 2, 9, 1, 0);
	count(f);
	CHECK(is(f, 0, 10, 10, 10) && is(f, 1, 10, 10, 10) && is(f, 9, -1, -1, -1));
	fleet_free(f);
}

TEST(invalid_words_do_not_count)
{
	struct fleet *f = fleet_new(2);
	for (int b = -1; b <= 2; b += 3)
		say(f, b, 0, 1, MS);
	say(f, 0, 1, 1, MS);
	f->word[2].type = CACHE_CODE;
	count(f);
	CHECK(f->n == 0);
	f->in.nword = 0;
	count(f);
	CHECK(f->n == 0 && f->score[0].score == 1);
	f->in.nboard = 0;
	count(f);
	CHECK(f->n == 0);
	fleet_free(f);
}

TEST(failing_candidates_are_stopped)
{
	struct fleet *f = fleet_new(9);
	for (int k = 0; k < 2; k++)
		for (int b = 0; b < 3 + 2 * k; b++)
			say(f, b, k, 1, MS);
	for (int b = 0; b < 3; b++)
		say(f, b, 0, 2, 2 * MS);
	for (int k = 0; k < 2; k++)
		say_failed(f, 8, k, 1);
	count(f);
	CHECK(is(f, 0, 2, 2, 2));                                        /* one of four boards */
	CHECK(is(f, 1, 1, 1, 1) && got(f, 1, CHANNEL_ALL)->failed == 1); /* one of six boards */
	say_failed(f, 7, 1, 1);
	count(f);
	CHECK(is(f, 1, -1, -1, -1));
	fleet_free(f);
}

TEST(boards_that_lie_about_failures_are_struck_out)
{
	struct fleet *f = fleet_new(4);
	for (int k = 0; k < STRIKE_WORDS; k++) {
		for (int b = 0; b < 3; b++)
			say(f, b, k, 1, MS);
		say_failed(f, 3, k, 1);
	}
	f->in.nword--;
	count(f);
	CHECK(!f->score[3].struck && is(f, 0, -1, -1, -1)); /* not struck out yet: one failure stops it */
	f->in.nword++;
	count(f);
	CHECK(f->score[3].struck && is(f, 0, 1, 1, 1));
	fleet_free(f);
}

TEST(stages)
{
	struct fleet *f = fleet_new(4);
	f->in.rules.stage_s = 100;
	const int64_t now = f->in.rules.now_s;
	for (int b = 0; b < 3; b++)
		for (int k = 0; k < 5; k++)
			say(f, b, k, 1, MS);
	hold(f, 1, 1, CHANNEL_CANARY, now - 99, MS, true);
	hold(f, 2, 1, CHANNEL_CANARY, now - 100, MS, true);
	hold(f, 3, 1, CHANNEL_CANARY, now - 200, MS, true);
	hold(f, 3, 1, CHANNEL_EARLY, now - 100, MS, true);
	hold(f, 4, 1, CHANNEL_CANARY, now + 50, MS, true); /* as if the date had been wrong once */
	count(f);
	CHECK(is(f, 0, 1, -1, -1) && is(f, 1, 1, -1, -1) && is(f, 2, 1, 1, -1) && is(f, 3, 1, 1, 1) &&
	      is(f, 4, 1, -1, -1));
	say_failed(f, 3, 2, 1);
	count(f);
	CHECK(is(f, 2, -1, -1, -1)); /* a board of canary says that it fails */
	fleet_free(f);
}

TEST(no_board_keeps_others_from_canary)
{
	struct fleet *f = fleet_new(4);
	f->in.rules.stage_s = 100;
	const int64_t now = f->in.rules.now_s;
	say(f, 0, 0, 1, 10 * MS);
	say(f, 1, 0, 1, 10 * MS);
	hold(f, 0, 1, CHANNEL_CANARY, now - 150, 10 * MS, true);
	hold(f, 0, 1, CHANNEL_EARLY, now - 50, 10 * MS, true);
	say(f, 2, 0, 2, 9 * MS);
	count(f);
	CHECK(is(f, 0, 2, 1, -1));
	hold(f, 0, 2, CHANNEL_CANARY, now - 50, 9 * MS, true);
	f->held[0].now = false;
	say(f, 3, 0, 3, MS); /* a board claims a faster one, which must wait */
	count(f);
	CHECK(is(f, 0, 2, 1, -1));
	f->held[2].since_s = now - 100; /* its turn is over, and no other board knows it */
	count(f);
	CHECK(is(f, 0, 3, 1, -1));
	f->held[2].now = false;
	hold(f, 0, 3, CHANNEL_CANARY, now - 50, MS, true);
	say(f, 0, 0, 4, 8 * MS); /* a candidate that two boards know comes first */
	say(f, 1, 0, 4, 8 * MS);
	count(f);
	CHECK(is(f, 0, 4, 1, -1));
	f->in.nword -= 2;
	f->held[3].since_s = now - 100;
	count(f);
	CHECK(is(f, 0, 1, 1, -1));
	fleet_free(f);
}

TEST(published_records_stay_while_they_are_as_good)
{
	struct fleet *f = fleet_new(4);
	for (int b = 0; b < 3; b++) {
		say(f, b, 0, 1, 1000000 - 40000);
		say(f, b, 0, 2, 1000000 - 55000);
		say(f, b, 1, 1, 1000000);
		say(f, b, 1, 2, 1000000 - 60000);
		say(f, b, 2, 1, 1000000 + 60000);
	}
	for (int k = 0; k < 3; k++)
		hold(f, k, 1, CHANNEL_ALL, 5, 1000000, true);
	count(f);
	const struct agreed *same = got(f, 0, CHANNEL_ALL), *moved = got(f, 2, CHANNEL_ALL);
	CHECK(cand_on(f, 0, CHANNEL_ALL) == 1 && same->held == 0 && same->median_ns == 1000000);
	CHECK(cand_on(f, 1, CHANNEL_ALL) == 2 && got(f, 1, CHANNEL_ALL)->held == -1);
	CHECK(cand_on(f, 2, CHANNEL_ALL) == 1 && moved->held == -1 && moved->median_ns == 1060000);
	f->held[0].now = false;
	count(f);
	CHECK(cand_on(f, 0, CHANNEL_ALL) == 2);
	fleet_free(f);
}

/* The choices of most boards win; if as many boards say others, the channel keeps its own. */
TEST(choices_have_no_time)
{
	struct fleet *f = fleet_new(9);
	for (int b = 0; b < 9; b++)
		choose(f, b, 0, b < 4 ? 1 : b < 8 ? 2 : 3);
	count(f);
	int first = cand_on(f, 0, CHANNEL_ALL);
	CHECK((first == 1 || first == 2) && got(f, 0, CHANNEL_ALL)->boards == 4);
	CHECK(got(f, 0, CHANNEL_ALL)->median_ns == 0);
	hold(f, 0, 3 - first, CHANNEL_ALL, 5, 0, true);
	f->held[0].type = CACHE_CHOICES;
	count(f);
	CHECK(cand_on(f, 0, CHANNEL_ALL) == 3 - first && got(f, 0, CHANNEL_ALL)->held == 0);
	choose(f, 8, 0, first);
	count(f);
	CHECK(cand_on(f, 0, CHANNEL_ALL) == first);
	fleet_free(f);
}

static bool same_agreed(const struct agreed *x, const struct agreed *y)
{
	return key_equal(x->key, y->key) && key_equal(x->cand, y->cand) && x->type == y->type &&
	       x->channel == y->channel && x->boards == y->boards && x->failed == y->failed &&
	       x->median_ns == y->median_ns && x->mad_ns == y->mad_ns && x->low_ns == y->low_ns &&
	       x->high_ns == y->high_ns && x->from == y->from && x->held == y->held;
}

static int64_t some_time(struct rng *r, int cand)
{
	static const int64_t odd[] = {0, 1, -5, INT64_C(1) << 62, INT64_MAX};
	if (rng_below(r, 12) == 0)
		return odd[rng_below(r, 5)];
	return (1000 + 30 * cand) * (int64_t)(85 + rng_below(r, 30)) * (1 + 3 * (rng_below(r, 8) == 0));
}

static void random_words(struct fleet *f, struct rng *r)
{
	int keys = 1 + (int)rng_below(r, 5), cands = 1 + (int)rng_below(r, 5);
	int n = (int)rng_below(r, 120), nheld = (int)rng_below(r, 20);
	for (int i = 0; i < n; i++) {
		int key = (int)rng_below(r, (uint32_t)keys), cand = (int)rng_below(r, (uint32_t)cands);
		say(f, (int)rng_below(r, (uint32_t)f->in.nboard), key, cand, some_time(r, cand));
		f->word[i].failed = rng_below(r, 10) == 0;
		f->word[i].type = rng_below(r, 6) == 0 ? CACHE_CHOICES : CACHE_REC;
	}
	for (int i = 0; i < nheld; i++) { /* at most one for each key and candidate */
		int key = i % 5, cand = (i / 5) % 4;
		hold(f, key, cand, (enum channel)rng_below(r, CHANNELS),
		     f->in.rules.now_s - rng_below(r, 300), (1000 + 30 * cand) * 100, rng_below(r, 2));
		f->held[i].type = rng_below(r, 6) == 0 ? CACHE_CHOICES : CACHE_REC;
	}
	for (int b = 0; b < f->in.nboard; b++)
		f->revoked[b] = rng_below(r, 12) == 0;
	for (int i = 0; i < 2; i++)
		f->record[f->in.nrecord++] = key_of((int)rng_below(r, 5000));
	f->in.rules.stage_s = rng_below(r, 2) * 100;
}

TEST(equals_the_slow_reference)
{
	for (uint64_t seed = 1; seed <= 3000; seed++) {
		struct rng r;
		rng_seed(&r, seed);
		struct fleet *f = fleet_new(1 + (int)rng_below(&r, 12));
		struct cand_score score[BOARDS];
		struct agreed slow[WORDS];
		random_words(f, &r);
		count(f);
		int n = aggregate_slow(&f->in, slow, score);
		bool good = n == f->n;
		for (int i = 0; good && i < n; i++)
			good = same_agreed(&slow[i], &f->out[i]);
		for (int b = 0; good && b < f->in.nboard; b++)
			good = score[b].words == f->score[b].words && score[b].good == f->score[b].good &&
			       score[b].struck == f->score[b].struck;
		if (!good)
			printf("seed %llu: %d and %d\n", (unsigned long long)seed, n, f->n);
		CHECK(good);
		fleet_free(f);
		if (test_bad)
			return;
	}
}

/* Words that are all alike do not take more than n log n, either. */
TEST(a_hundred_thousand_words)
{
	enum { N = 100000 };
	struct word *w = calloc(N, sizeof *w);
	struct cand_score *score = calloc(N, sizeof *score);
	for (int kind = 0; kind < 4; kind++) {
		struct arena a = {.cap_bytes = 64 << 20};
		struct agreed *out;
		for (int i = 0; i < N; i++)
			w[i] = (struct word){.board = kind == 0   ? i
						      : kind == 1 ? i % 100
								  : 0,
					     .type = CACHE_REC,
					     .key = key_of(kind == 1   ? i / 100
							   : kind == 3 ? i
								       : 0),
					     .cand = key_of(kind == 2 ? i : 0),
					     .median_ns = 1000 + i % 7};
		struct aggregate_in in = {.word = w, .nword = N, .nboard = N, .rules = usual};
		int n = aggregate(&in, &a, &out, score);
		CHECK(n == (kind == 0 ? 3 : kind == 1 ? 3000 : kind == 2 ? 1 : N));
		arena_free(&a);
	}
	struct arena small = {.cap_bytes = 1 << 20};
	struct aggregate_in in = {.word = w, .nword = N, .nboard = N, .rules = usual};
	struct agreed *out;
	CHECK(aggregate(&in, &small, &out, score) == E_NOMEM);
	arena_free(&small);
	free(score);
	free(w);
}

TEST_MAIN
