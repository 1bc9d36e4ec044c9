/* SPDX-License-Identifier: Apache-2.0 */
/* Hone's own best record beside a library's: how it comes there, whom it serves, and what others are sent. */
#include "agent/cache/own.h"
#include "agent/cache/exchange.h"
#include "agent/cache/hint.h"
#include "agent/cache/kept_code.h"
#include "agent/cache/lookup.h"
#include "agent/sync/offered.h"
#include "tests/lib/board_cache.h"
#include "tests/lib/records.h"

#define LIBRARY "library=shim/1.0@0123456789abcdef parts=1"

static struct arena mem;

static struct rec make(enum rec_kind kind, const char *cand, int64_t ns)
{
	struct rec r = record(&mem, 1, target_key(&target), ns);
	r.kind = (int)kind;
	snprintf(r.cand, sizeof r.cand, "%s", cand);
	snprintf(r.emitter, sizeof r.emitter, "llvm-19/" CODE_REVISION);
	return r;
}

static void put(const struct rec *r, const char *object)
{
	own_keep(cache, r);
	CHECK_OK(cache_put_rec(cache, r));
	put_code(r, r->emitter, object);
}

/* The object that a lookup of this kind finds. */
static const char *object_for(enum rec_kind kind)
{
	static char object[64];
	struct arena a = {0};
	struct code code = {.own = false};
	struct rec r = make(kind, "", 1), got;
	const struct lookup l = {target_key(&target), &target, r.threads, r.level, kind};
	int rc = lookup_find(cache, &l, r.task, r.task_text, &a, &got, &code);
	snprintf(object, sizeof object, "%.*s", rc < 0 ? 4 : (int)code.object.n,
		 rc < 0 ? "none" : (const char *)code.object.p);
	arena_free(&a);
	return object;
}

static bool has(enum rec_kind kind)
{
	struct rec key = make(kind, "", 1), got;
	return cache_get_rec(cache, rec_key(&key), &mem, &got) >= 0;
}

TEST(a_librarys_record_leaves_hones_own_beside_it)
{
	open_cache();
	struct rec own = make(REC_BEST, "lane=n:8", 500), library = make(REC_BEST, LIBRARY, 100),
		   standard = make(REC_DEFAULT, "lane=n:4", 900);
	put(&standard, "default");
	put(&own, "own");
	CHECK(!has(REC_OWN));
	put(&library, "library");
	CHECK(has(REC_OWN) && !strcmp(object_for(REC_BEST), "library") &&
	      !strcmp(object_for(REC_OWN), "own"));
	put(&library, "library"); /* again: the library's record does not become hone's own */
	CHECK(!strcmp(object_for(REC_OWN), "own") && !strcmp(object_for(REC_DEFAULT), "default"));
	close_cache();
	arena_free(&mem);
}

/* Returns the text of the line that others get for the record of this kind; "": they get none. */
static const char *sent(enum rec_kind kind)
{
	static char text[4096];
	struct rec key = make(kind, "", 1);
	json_t *j;
	text[0] = 0;
	if (exchange_json(cache, CACHE_REC, rec_key(&key), &j) <= 0)
		return text;
	struct rec best = make(REC_BEST, "", 1);
	char best_key[33];
	key_text(rec_key(&best), best_key);
	CHECK(kind == REC_DEFAULT || !strcmp(json_string_value(json_object_get(j, "key")), best_key));
	snprintf(text, sizeof text, "%s", json_string_value(json_object_get(j, "text")));
	json_decref(j);
	return text;
}

TEST(others_are_sent_hones_own_as_the_best)
{
	open_cache();
	struct rec own = make(REC_OWN, "lane=n:8", 500), library = make(REC_BEST, LIBRARY, 100),
		   standard = make(REC_DEFAULT, "lane=n:4", 900), better = make(REC_BEST, "lane=n:16", 90);
	put(&standard, "default");
	put(&library, "library");
	CHECK(!sent(REC_BEST)[0] && !sent(REC_OWN)[0]);
	put(&own, "own");
	CHECK(!sent(REC_BEST)[0] && strstr(sent(REC_OWN), "kind best\n") &&
	      strstr(sent(REC_OWN), "cand lane=n:8\n") && strstr(sent(REC_DEFAULT), "cand lane=n:4\n"));
	/* a box without the library found a better one */
	put(&better, "better");
	CHECK(!sent(REC_OWN)[0] && strstr(sent(REC_BEST), "cand lane=n:16\n"));
	close_cache();
	arena_free(&mem);
}

TEST(a_fleet_is_sent_hones_own_as_the_best)
{
	open_cache();
	struct rec own = make(REC_OWN, "lane=n:8", 500), library = make(REC_BEST, LIBRARY, 100);
	put(&library, "library");
	put(&own, "own");
	char cls[33];
	struct offered *o;
	const char *line = NULL;
	key_text(target_key(&target), cls);
	REQUIRE_OK(offered_open(cache, cls, "fleet", &o));
	CHECK(offered_next(o, &mem, &line) == (int)CACHE_REC);
	REQUIRE(line);
	CHECK(strstr(line, "kind best") && strstr(line, "lane=n:8") && !strstr(line, "library="));
	CHECK(offered_next(o, &mem, &line) == 0);
	offered_close(o);
	close_cache();
	arena_free(&mem);
}

/* A revoked hint's candidate goes wherever it lies; the same candidate, found here, cannot be revoked. */
TEST(a_revoked_hint_leaves_the_own_record)
{
	for (int hint = 0; hint < 2; hint++) {
		open_cache();
		struct rec own = make(REC_OWN, "lane=n:8", 500), library = make(REC_BEST, LIBRARY, 100),
			   claim = own;
		claim.kind = REC_BEST;
		put(&library, "library");
		if (hint)
			CHECK(hint_put(cache, &claim) == HINT_OPEN);
		own.origin = hint ? ORIGIN_HINT : ORIGIN_SEARCH;
		put(&own, "own");
		CHECK(hint || hint_is_known(cache, &claim));
		claim.kind = REC_HINT;
		if (hint)
			CHECK_OK(hint_drop(cache, CACHE_HINT, rec_key(&claim)));
		else
			CHECK_OK(hint_drop(cache, CACHE_REC, rec_key(&own)));
		CHECK(has(REC_OWN) == !hint && has(REC_BEST));
		close_cache();
	}
	arena_free(&mem);
}

/* Merges a cache with these two records (NULL: none) into one whose best is ours; the former is closed. */
static void merge(const struct rec *ours, const struct rec *best, const struct rec *own)
{
	struct cache *mine;
	char my_dir[sizeof dir];
	open_cache();
	put(ours, "ours");
	mine = cache;
	memcpy(my_dir, dir, sizeof dir);
	open_cache();
	if (best)
		put(best, "their best");
	if (own)
		put(own, "their own");
	struct exchange_sum sum = {0};
	CHECK_OK(exchange_merge(mine, cache, &sum));
	CHECK(!sum.refused);
	close_cache();
	cache = mine;
	memcpy(dir, my_dir, sizeof dir);
}

TEST(merges)
{
	const struct rec own = make(REC_OWN, "lane=n:8", 500), best = make(REC_BEST, "lane=n:8", 500),
			 library = make(REC_BEST, LIBRARY, 100), slow = make(REC_BEST, "lane=n:4", 700);
	merge(&library, &best, NULL);
	CHECK(!strcmp(object_for(REC_BEST), "ours") && !strcmp(object_for(REC_OWN), "their best"));
	close_cache();
	merge(&slow, &library, &own);
	CHECK(!strcmp(object_for(REC_BEST), "their own") && !has(REC_OWN));
	close_cache();
	merge(&library, &library, &own);
	CHECK(!strcmp(object_for(REC_BEST), "ours") && !strcmp(object_for(REC_OWN), "their own"));
	close_cache();
	arena_free(&mem);
}

TEST_MAIN
