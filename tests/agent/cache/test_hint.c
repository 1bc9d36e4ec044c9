/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what a stranger can put into a cache, and that none of it serves. */
#include "agent/cache/hint.h"
#include "agent/cache/kept_code.h"
#include "agent/run/source.h"
#include "platform/base/rng.h"
#include "tests/lib/board_cache.h"
#include "tests/lib/honed_board.h"
#include "tests/lib/records.h"

/* An attacker who takes over hone-sync's user can put hints only: anything else is refused, whatever type it
 * claims, even if that user is an owner. */
TEST(who_brings_records_puts_hints_alone)
{
	struct arena a = {0};
	struct key chosen;
	struct rec best = record(&a, 1, hash_text("class"), 1000), hint = best;
	hint.kind = REC_HINT;
	hint.meas = (struct meas){.status = MEAS_OK, .median_ns = 1000};
	struct rec answered = hint, other_text = hint;
	answered.meas = best.meas;
	other_text.task_text = record_task(&a, 2);
	const char *choices =
	    record_choices(&a, hash_text("model"), hash_text("class"), "hone-choices 1\n", &chosen);
	char *large = arena_alloc(&a, HINT_BYTES + 2);
	memset(large, '0', HINT_BYTES + 1);
	large[HINT_BYTES + 1] = 0;
	const struct {
		struct key key;
		const char *text;
	} sent[] = {
	    {rec_key(&hint), record_text(&a, &hint)},
	    {chosen, choices},
	    {hash_text("mark"), "00112233445566778899aabbccddeeff"},
	    {rec_key(&best), record_text(&a, &best)},
	    {rec_key(&answered), record_text(&a, &answered)},
	    {rec_key(&best), record_text(&a, &hint)},
	    {rec_key(&hint), record_text(&a, &other_text)},
	    {rec_key(&hint), choices},
	    {chosen, "hone-choices 1\n"},
	    {hash_text("mark"), "0011"},
	    {hash_text("mark"), ""},
	    {hash_text("large"), large},
	    {hash_text("model"), record_recipe(&a, hash_text("model"))},
	};
	static const int type_of_good[] = {CACHE_HINT, CACHE_HINT_CHOICES, CACHE_SHARED};
	for (int owner = 0; owner < 2; owner++)
		for (int type = CACHE_REC; type < CACHE_TYPES; type++)
			for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
				struct board *b = board_new(HONED_RESIDENT, 1);
				char put[32];
				board_start(b);
				board_event(b, (struct honed_event){.kind = HE_CLIENT,
								    .client = 3,
								    .peer = {1, 990, owner, true}});
				board_ask(b, 3, "{\"op\":\"sync\",\"id\":2}");
				board_read(b);
				board_put(b, 3, type, sent[i].key, sent[i].text);
				snprintf(put, sizeof put, "put %d ", type);
				bool good = i < 3 && type == type_of_good[i];
				CHECK(!board_says(b, put) == !good);
				board_free(b);
			}
	arena_free(&a);
}

/* A stranger's claim about a task, in an arena. */
static struct rec claim(struct arena *a, int i, const char *cand)
{
	struct rec r = record(a, i, target_key(&target), 1);
	snprintf(r.cand, sizeof r.cand, "%s", cand);
	snprintf(r.emitter, sizeof r.emitter, "llvm-19/" CODE_REVISION);
	return r;
}

static int serves(const struct rec *r)
{
	struct arena a = {0};
	struct kernel_source src;
	struct code code = {.own = false};
	enum kernel_origin origin;
	CHECK_OK(cache_source(cache, &target, r->threads, r->level, REC_BEST, &src));
	int rc = src.find(src.ctx, NULL, r->task_text, &a, &code, &origin);
	cache_source_free(&src);
	arena_free(&a);
	return rc;
}

/* Whatever code lies in the cache, under any key that the stranger's record could name: no hint serves, and
 * none becomes a record of this board. */
TEST(no_hint_serves)
{
	static const char *const cands[] = {"lane=n:8", "", "lane=n:8 tile=m:2"};
	open_cache();
	for (int i = 0; i < 3; i++) {
		struct arena a = {0};
		struct rec r = claim(&a, i, cands[i]), of[4] = {r, r, r, r}, got;
		of[1].kind = REC_HINT;
		of[2].task_text = record_task(&a, 7);
		of[3].kind = REC_DEFAULT;
		for (int k = 0; k < 4; k++)
			put_code(&of[k], r.emitter, "code of another time");
		CHECK(hint_put(cache, &r) == HINT_OPEN);
		CHECK(serves(&r) == E_NOTFOUND);
		CHECK(cache_get_rec(cache, rec_key(&r), &a, &got) == E_NOTFOUND);
		CHECK(cache_get_rec(cache, rec_key(&of[1]), &a, &got) == E_NOTFOUND);
		CHECK_OK(hint_find(cache, r.task, r.target_key, r.device, r.threads, false, &a, &got));
		CHECK(!strcmp(got.cand, cands[i]) && hint_claim_ns(&got) == 1);
		arena_free(&a);
	}
	close_cache();
}

/* A candidate that this board found itself does not become a hint: revoking the hint would remove the board's
 * record. */
TEST(own_records_cannot_be_revoked)
{
	struct arena a = {0};
	struct rec own, hint, got;
	open_cache();
	hint = own = claim(&a, 1, "lane=n:8");
	hint.kind = REC_HINT;
	hint.meas = (struct meas){.status = MEAS_OK, .median_ns = 5};
	CHECK_OK(cache_put_rec(cache, &own));
	put_code(&own, own.emitter, "own");
	const char *text = record_text(&a, &hint);
	CHECK_OK(hint_bring(cache, CACHE_HINT, rec_key(&hint), text, strlen(text)));
	CHECK(hint_get(cache, &own, &a, &got) == E_NOTFOUND);
	CHECK_OK(hint_drop(cache, CACHE_HINT, rec_key(&hint)));
	CHECK_OK(hint_drop(cache, CACHE_REC, rec_key(&own)));
	CHECK_OK(cache_get_rec(cache, rec_key(&own), &a, &got));
	CHECK_OK(serves(&own));
	CHECK_OK(hint_bring(cache, CACHE_SHARED, rec_key(&own), "00112233445566778899aabbccddeeff", 32));
	CHECK_FAILS(hint_drop(cache, CACHE_SHARED, rec_key(&own)), E_USAGE, "not for hone-sync");
	CHECK_FAILS(hint_drop(cache, CACHE_CODE, code_key(&own)), E_USAGE, "not for hone-sync");
	CHECK_OK(cache_get_rec(cache, rec_key(&own), &a, &got));
	arena_free(&a);
	close_cache();
}

/* The results of a hint are removed with it. */
TEST(what_came_of_a_hint_goes_with_it)
{
	struct arena a = {0};
	struct rec r, h, got;
	open_cache();
	r = claim(&a, 1, "lane=n:8");
	CHECK(hint_put(cache, &r) == HINT_OPEN);
	CHECK_OK(cache_put_rec(cache, &r)); /* a box found that it is good */
	put_code(&r, r.emitter, "made here");
	CHECK_OK(serves(&r));
	h = r;
	h.kind = REC_HINT;
	CHECK_OK(hint_drop(cache, CACHE_HINT, rec_key(&h)));
	CHECK(serves(&r) == E_NOTFOUND && cache_get_rec(cache, rec_key(&r), &a, &got) == E_NOTFOUND);
	arena_free(&a);
	close_cache();
}

/* Strangers get a share of the cache, all of them together. */
TEST(a_share_of_the_cache)
{
	const struct cache_options o = {.cap_bytes = 1 << 20, .seeds = ""};
	struct cache_state st;
	open_cache();
	cache_close(cache);
	REQUIRE_OK(cache_open_with(&cache, dir, CACHE_WRITE, 0, &o));
	for (int i = 0; i < 20000; i++) {
		char mark[33];
		key_text(hash_bytes(&i, sizeof i), mark);
		CHECK_OK(hint_bring(cache, CACHE_SHARED, hash_text(mark), mark, 32));
	}
	cache_state(cache, &st);
	CHECK(st.strangers_bytes <= (1 << 20) / HINT_SHARE && st.count[CACHE_SHARED] > 1000);
	close_cache();
}

/* Texts of hints with bytes changed, cut and doubled are refused, or are consistent hints. */
TEST(damaged_hints)
{
	struct arena a = {0}, one = {0};
	struct rng rng;
	struct rec h = claim(&a, 1, "lane=n:8");
	h.kind = REC_HINT;
	h.meas = (struct meas){.status = MEAS_OK, .median_ns = 5};
	const char *text = record_text(&a, &h);
	size_t n = strlen(text);
	int good = 0;
	open_cache();
	rng_seed(&rng, 6);
	for (int i = 0; i < 20000; i++) {
		char *t = arena_alloc(&one, n + 1);
		memcpy(t, text, n + 1);
		t[rng_below(&rng, (uint32_t)n)] = (char)rng_below(&rng, 256);
		size_t cut = rng_below(&rng, 4) ? n : rng_below(&rng, (uint32_t)n + 1);
		int rc = hint_bring(cache, CACHE_HINT, rec_key(&h), t, cut);
		CHECK(rc == E_OK || rc == E_CORRUPT);
		good += rc == E_OK;
		arena_reset(&one);
	}
	CHECK(good > 0 && good < 20000); /* a label, a claim */
	arena_free(&one);
	arena_free(&a);
	close_cache();
}

static int check_hint(const struct rec *r)
{
	struct buf text = {0};
	rec_text(r, &text);
	int rc = hint_check(CACHE_HINT, rec_key(r), text.p, text.n);
	buf_free(&text);
	return rc;
}

/* Nothing that a terminal would obey, and no emitter or device without the form of one. */
TEST(names_of_strangers_are_plain_text)
{
	struct arena a = {0};
	const struct rec good = record(&a, 1, hash_text("class"), 1000);
	struct rec hint = good, bad;
	hint.kind = REC_HINT;
	hint.meas = (struct meas){.status = MEAS_OK, .median_ns = 900};
	CHECK_OK(check_hint(&hint));
	bad = hint;
	snprintf(bad.cand, sizeof bad.cand, "\033[31mno schedule");
	CHECK(check_hint(&bad) == E_CORRUPT);
	bad = hint;
	snprintf(bad.emitter, sizeof bad.emitter, "llvm 19");
	CHECK(check_hint(&bad) == E_CORRUPT);
	bad = hint;
	snprintf(bad.device, sizeof bad.device, "cpu\a");
	CHECK(check_hint(&bad) == E_CORRUPT);
	arena_free(&a);
}

TEST_MAIN
