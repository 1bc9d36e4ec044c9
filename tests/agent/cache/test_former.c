/* SPDX-License-Identifier: Apache-2.0 */
/* Tests data of the former version, whose keys were a MurmurHash3: its records, logs, hints, choices and
 * exports are taken over, and its code is compiled again. */
#include "agent/cache/chosen.h"
#include "agent/cache/exchange.h"
#include "agent/cache/hint.h"
#include "agent/cache/kept_code.h"
#include "agent/cache/lookup.h"
#include "agent/cache/trials.h"
#include "kernels/graph/optimize.h"
#include "platform/base/mix.h"
#include "platform/base/rng.h"
#include "search/job.h"
#include "tests/lib/board_cache.h"
#include "tests/lib/cands.h"
#include "tests/lib/tasks.h"
#include "tools/hone/zoo.h"

static struct rec make_rec(int i, enum rec_kind kind)
{
	struct rec r = {.kind = (int)kind,
			.target_key = target_key(&target),
			.device = "cpu",
			.emitter = "llvm-19/5",
			.threads = 1 + i,
			.meas = {.status = MEAS_OK, .runs = 3, .min_ns = 100 + i, .median_ns = 100 + i},
			.task_text = task_conv,
			.label = "conv"};
	r.task = hash_text(r.task_text);
	snprintf(r.cand, sizeof r.cand, "lane=k:8 tile=x:%d", 2 + i);
	return r;
}

/* The keys of that version. */
static struct key former_rec_key(const struct rec *r)
{
	char text[256], task[33], target_hex[33];
	key_text(mix_text(r->task_text), task);
	key_text(r->target_key, target_hex);
	snprintf(text, sizeof text, "rec %s %s %s %d %d %d", task, target_hex, r->device, r->threads,
		 r->level, r->kind);
	return mix_text(text);
}

static struct key former_code_key(const struct rec *r)
{
	return mix_join(mix_join(former_rec_key(r), mix_text(r->emitter)), mix_text(r->cand));
}

/* Rewrites a present text into its former form. */
static void rewrite(struct buf *text, const char *now, const char *then, const struct key task,
		    const char *task_text)
{
	char is[33], was[33];
	key_text(task, is);
	key_text(mix_text(task_text), was);
	char *at = strstr((char *)text->p, is);
	REQUIRE(at && !strncmp(buf_str(text), now, strlen(now)) && strlen(now) == strlen(then));
	memcpy(at, was, 32);
	memcpy(text->p, then, strlen(then));
}

static void former_rec_text(const struct rec *r, struct buf *out)
{
	rec_text(r, out);
	rewrite(out, "hone-rec 2\n", "hone-rec 1\n", r->task, r->task_text);
}

static void put_former(struct cache *c, const struct rec *r)
{
	struct buf text = {0};
	former_rec_text(r, &text);
	CHECK_OK(cache_put(c, CACHE_REC, former_rec_key(r), text.p, text.n));
	CHECK_OK(cache_put(c, CACHE_CODE, former_code_key(r), "code", 4));
	buf_free(&text);
}

static struct key put_former_trials(struct cache *c, const char *cand)
{
	static struct trials l;
	struct buf text = {0};
	char name[256], task[33], target_hex[33];
	trials_start(&l, hash_text(task_conv), task_conv, "conv");
	snprintf(l.device, sizeof l.device, "cpu");
	l.target_key = target_key(&target);
	l.threads = l.boxes = 1;
	trials_add(&l, &(struct tried){.cand = cand, .status = MEAS_OK, .ns = 50, .default_ns = 60}, 1);
	trials_text(&l, &text);
	rewrite(&text, "hone-trials 2\n", "hone-trials 1\n", l.task, task_conv);
	key_text(mix_text(task_conv), task);
	key_text(l.target_key, target_hex);
	snprintf(name, sizeof name, "trials %s %s cpu 1 0", task, target_hex);
	CHECK_OK(cache_put(c, CACHE_TRIALS, mix_text(name), text.p, text.n));
	struct key k = trials_key(&l);
	trials_free(&l);
	buf_free(&text);
	return k;
}

static bool has(struct cache *c, const struct rec *r)
{
	struct arena a = {0};
	struct rec got;
	bool is = cache_get_rec(c, rec_key(r), &a, &got) >= 0 && !strcmp(got.cand, r->cand) &&
		  key_equal(got.task, r->task) && got.meas.median_ns == r->meas.median_ns;
	arena_free(&a);
	return is;
}

static void reopen(void)
{
	cache_close(cache);
	REQUIRE_OK(cache_open(&cache, dir, false, 0));
}

/* Also after a compaction, which copies records under their new names, and beside present records. */
TEST(records_and_logs)
{
	static struct trials l;
	open_cache();
	struct rec best = make_rec(0, REC_BEST), def = make_rec(1, REC_DEFAULT), hint = make_rec(2, REC_HINT),
		   now = make_rec(3, REC_BEST), got;
	struct arena a = {0};
	hint.meas = (struct meas){.status = MEAS_OK};
	put_former(cache, &best);
	put_former(cache, &def);
	put_former(cache, &hint);
	struct key log = put_former_trials(cache, "lane=k:8");
	CHECK_OK(cache_put_rec(cache, &now));
	for (int round = 0; round < 4; round++) {
		reopen();
		CHECK(has(cache, &best) && has(cache, &def) && has(cache, &now) && !has(cache, &hint));
		CHECK_OK(hint_get(cache, &hint, &a, &got));
		CHECK(hint_open(&got) && !strcmp(got.cand, hint.cand));
		REQUIRE_OK(trials_get(cache, log, &l));
		CHECK(l.n == 1 && key_equal(l.task, hash_text(task_conv)));
		trials_free(&l);
		CHECK(!cache_has_code(cache, NULL, &best)); /* it is compiled again */
		struct key *keys;
		CHECK(cache_keys(cache, CACHE_REC, &a, &keys) == 3 &&
		      cache_keys(cache, CACHE_HINT, &a, &keys) == 1);
		if (round == 1)
			CHECK_OK(cache_compact(cache));
	}
	best.meas.median_ns = 7; /* a newer one of the same key comes before it */
	CHECK_OK(cache_put_rec(cache, &best));
	reopen();
	CHECK(has(cache, &best));
	arena_free(&a);
	close_cache();
}

/* That version stored a stranger's claim as the best record beside the stranger's hint. If the hint is
 * answered, or has another candidate, the best record is this board's own. */
TEST(claims_of_strangers)
{
	struct arena a = {0};
	struct rec got;
	for (int answered = 0; answered < 2; answered++)
		for (int other = 0; other < 2; other++)
			for (int hint_first = 0; hint_first < 2; hint_first++) {
				open_cache();
				struct rec best = make_rec(0, REC_BEST), hint = best,
					   own = make_rec(1, REC_BEST);
				hint.kind = REC_HINT;
				hint.meas = (struct meas){.status = MEAS_OK, .runs = answered};
				if (other)
					snprintf(hint.cand, sizeof hint.cand, "lane=k:8 tile=x:9");
				put_former(cache, hint_first ? &hint : &best);
				put_former(cache, &own);
				put_former(cache, hint_first ? &best : &hint);
				for (int round = 0; round < 3; round++) {
					reopen();
					CHECK(has(cache, &best) == (answered || other) && has(cache, &own));
					CHECK_OK(hint_get(cache, &best, &a, &got));
					CHECK(hint_open(&got) == !answered && !strcmp(got.cand, hint.cand));
					if (round == 0 && hint_first)
						CHECK_OK(cache_compact(cache));
				}
				hint.meas.runs = 0; /* another hint replaces the one that was open */
				snprintf(hint.cand, sizeof hint.cand, "lane=k:8 tile=x:3");
				CHECK_OK(hint_put(cache, &hint));
				reopen();
				CHECK(has(cache, &best) == (answered || other) && has(cache, &own));
				best.meas.median_ns = 7; /* a box here measured it */
				CHECK_OK(cache_put_rec(cache, &best));
				reopen();
				CHECK(has(cache, &best));
				close_cache();
			}
	arena_free(&a);
}

/* The files go while the cache is open: what was known of former records goes with them. */
TEST(files_that_go)
{
	for (int writes = 0; writes < 2; writes++) {
		char command[200];
		struct rec best = make_rec(0, REC_BEST), now = make_rec(1, REC_BEST);
		open_cache();
		put_former(cache, &best);
		cache_close(cache);
		REQUIRE_OK(cache_open(&cache, dir, !writes, 0));
		CHECK(has(cache, &best));
		snprintf(command, sizeof command, writes ? "rm -rf %s" : "rm %s/*.seg", dir);
		REQUIRE(system(command) == 0);
		if (writes)
			CHECK(cache_put_rec(cache, &now) >= 0 && cache_commit(cache) >= 0 &&
			      has(cache, &now));
		else
			CHECK(cache_refresh(cache) >= 0 && !has(cache, &best));
		close_cache();
	}
}

/* A claim in a layer below is evicted, and not forgotten: what that layer's owner measures later is seen. */
TEST(claims_of_a_layer_below)
{
	char top[96], own[96];
	struct cache *c;
	open_cache();
	struct rec best = make_rec(0, REC_BEST), hint = best;
	hint.kind = REC_HINT;
	hint.meas = (struct meas){.status = MEAS_OK};
	put_former(cache, &hint);
	put_former(cache, &best);
	cache_close(cache);
	snprintf(top, sizeof top, "%s/top", dir);
	snprintf(own, sizeof own, "%s", dir);
	const struct cache_options o = {.seeds = own};
	REQUIRE_OK(cache_open_with(&c, top, CACHE_WRITE, 0, &o));
	CHECK(!has(c, &best));
	CHECK_OK(cache_commit(c));
	cache_close(c);
	REQUIRE_OK(cache_open(&cache, dir, false, 0));
	CHECK_OK(cache_put_rec(cache, &best));
	cache_close(cache);
	REQUIRE_OK(cache_open_with(&c, top, CACHE_READ, 0, &o));
	CHECK(has(c, &best));
	cache_close(c);
	REQUIRE_OK(cache_open(&cache, dir, false, 0));
	close_cache();
}

/* Records that the former version forgot stay forgotten, and former records can be forgotten now, in the same
 * folder or above a seed. */
TEST(forgotten_records)
{
	const uint8_t rec = CACHE_REC;
	open_cache();
	struct rec old = make_rec(0, REC_BEST), later = make_rec(1, REC_BEST);
	put_former(cache, &old);
	put_former(cache, &later);
	reopen();
	CHECK_OK(cache_put(cache, CACHE_FORGET, former_rec_key(&old), &rec, 1));
	CHECK_OK(cache_forget(cache, CACHE_REC, rec_key(&later)));
	for (int i = 0; i < 3; i++) {
		reopen();
		CHECK(!has(cache, &old) && !has(cache, &later));
		if (i == 1)
			CHECK_OK(cache_compact(cache));
	}
	close_cache();
}

TEST(a_seed)
{
	char seeds[96], path[128];
	const uint8_t rec = CACHE_REC;
	open_cache();
	struct rec r = make_rec(0, REC_BEST), other = make_rec(1, REC_BEST);
	put_former(cache, &r);
	put_former(cache, &other);
	snprintf(seeds, sizeof seeds, "%s/seeds", dir);
	snprintf(path, sizeof path, "%s/board.seg", seeds);
	REQUIRE_OK(file_mkdirs(seeds, 0755));
	REQUIRE(cache_pack(cache, path, true) > 0);
	cache_close(cache);
	char top[96];
	snprintf(top, sizeof top, "%s/top", dir);
	const struct cache_options o = {.seeds = seeds};
	for (int i = 0; i < 3; i++) {
		REQUIRE_OK(cache_open_with(&cache, top, CACHE_WRITE, 0, &o));
		CHECK(has(cache, &r) == (i < 2) && has(cache, &other));
		CHECK(!cache_is_own(cache, CACHE_REC, rec_key(&other)) &&
		      !cache_has_code(cache, NULL, &other));
		if (i == 1)
			CHECK_OK(cache_put(cache, CACHE_FORGET, former_rec_key(&r), &rec, 1));
		if (i < 2)
			cache_close(cache);
	}
	close_cache();
}

/* If the text of a former record is not the task that its key named, the text decides. */
TEST(a_text_decides)
{
	struct buf text = {0};
	open_cache();
	struct rec r = make_rec(0, REC_BEST), lie = r;
	lie.task_text = task_matmul;
	lie.task = hash_text(task_matmul);
	rec_text(&lie, &text);
	memcpy(text.p, "hone-rec 1\n", 11);
	CHECK_OK(cache_put(cache, CACHE_REC, former_rec_key(&r), text.p, text.n));
	reopen();
	CHECK(!has(cache, &r) && has(cache, &lie));
	buf_free(&text);
	close_cache();
}

/* Damage of any kind is a miss, and loses no other record. */
TEST(damaged_records)
{
	struct rng rng;
	rng_seed(&rng, 4);
	for (int i = 0; i < 300; i++) {
		struct buf text = {0};
		open_cache();
		struct rec r = make_rec(0, REC_BEST), other = make_rec(1, REC_BEST);
		former_rec_text(&r, &text);
		size_t at = 11 + rng_below(&rng, (uint32_t)text.n - 11);
		((uint8_t *)text.p)[at] = (uint8_t)rng_below(&rng, 256);
		CHECK_OK(cache_put(cache, CACHE_REC, former_rec_key(&r), text.p,
				   rng_below(&rng, 3) ? text.n : at));
		put_former(cache, &other);
		reopen();
		CHECK(has(cache, &other));
		buf_free(&text);
		close_cache();
	}
}

/* Lines of that version's hone export. */
TEST(lines)
{
	struct arena a = {0};
	struct exchange_line l;
	struct buf text = {0};
	struct rec r = make_rec(0, REC_BEST);
	cand_of(r.task_text, 1, r.cand); /* imported lines are checked more strictly than a cache */
	former_rec_text(&r, &text);
	json_t *j = exchange_record(CACHE_REC, former_rec_key(&r), buf_str(&text));
	char *line = json_dumps(j, JSON_COMPACT);
	CHECK_OK(exchange_parse(line, strlen(line), &a, &l));
	CHECK(l.type == CACHE_REC && key_equal(l.key, rec_key(&r)));
	free(line);
	json_decref(j);
	buf_free(&text);
	arena_free(&a);
}

static struct key former_choices_key(const struct graph *g)
{
	return mix_join(mix_join(graph_key(g), target_key(&target)), mix_text("cpu 1 0"));
}

/* That version's choices serve, but not those that it took from strangers. */
TEST(choices_of_then)
{
	static const char text[] = "hone-choices 1\njoin 1 Conv_2\n";
	struct graph *g;
	struct arena a = {0};
	struct choices c, now = {0};
	REQUIRE_OK(zoo_make("steering", 1, &g));
	REQUIRE_OK(graph_optimize(g));
	for (int stranger = 0; stranger < 2; stranger++) {
		open_cache();
		const struct chosen_for f = {cache, &target, 1, false};
		struct key k = former_choices_key(g),
			   mark = mix_join(mix_text("strangers"), mix_join(mix_text("choices"), k));
		CHECK_OK(cache_put(cache, CACHE_CHOICES, k, text, strlen(text)));
		if (stranger)
			CHECK_OK(
			    cache_put(cache, CACHE_SHARED, mark, "00000000000000000000000000000000", 32));
		CHECK_OK(chosen_load(&f, g, &a, &c));
		CHECK(c.n == !stranger);
		CHECK_OK(chosen_save(&f, g, &now));
		CHECK_OK(chosen_load(&f, g, &a, &c));
		CHECK(c.n == 0);
		CHECK_OK(chosen_forget(&f, g));
		CHECK_OK(chosen_load(&f, g, &a, &c));
		CHECK(c.n == 0);
		close_cache();
	}
	arena_free(&a);
	graph_free(g);
}

TEST_MAIN
