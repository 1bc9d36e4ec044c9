/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/trials.h"
#include "agent/cache/trials_sum.h"
#include "kernels/space/space.h"
#include "platform/base/rng.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>

static void start(struct trials *l, int task)
{
	char text[64];
	snprintf(text, sizeof text, "task syms=%d\nstage\\ n:1\n", task);
	trials_start(l, hash_text(text), text, "conv 3x3\\");
	l->target_key = hash_text("board");
	l->threads = 2;
	l->level = true;
	l->boxes = 1;
	l->spent_ns = 123456789;
	snprintf(l->target, sizeof l->target, "soc x86-64-v3 8");
	snprintf(l->device, sizeof l->device, "cpu");
	snprintf(l->emitter, sizeof l->emitter, "llvm-19.1.7/1");
}

/* Trial i took 1000 + i ns; candidate 0 is the default. */
static void add(struct trials *l, int i, int64_t ns, enum meas_status status)
{
	char cand[CAND_MAX];
	snprintf(cand, sizeof cand, "lane=k:16 tile=x:%d | block=y:8", i);
	const struct tried t = {.cand = cand,
				.by = i ? TRIED_STRATEGY : TRIED_DEFAULT,
				.status = status,
				.ns = ns,
				.default_ns = 1000,
				.at_ns = i * NS_PER_MS,
				.spent_ns = 5000,
				.build_ns = 4000,
				.draft_ns = 900,
				.guess_ns = 950,
				.guess_sd = 0.25};
	trials_add(l, &t, l->boxes);
}

static bool same(const struct trials *a, const struct trials *b)
{
	struct buf x = {0}, y = {0};
	trials_text(a, &x);
	trials_text(b, &y);
	bool equal = !strcmp(buf_str(&x), buf_str(&y));
	buf_free(&x);
	buf_free(&y);
	return equal;
}

static struct trials log_a, log_b;

TEST(text_and_back)
{
	struct buf text = {0};
	start(&log_a, 1);
	for (int i = 0; i < 20; i++)
		add(&log_a, i, i % 3 ? 1000 + i : 0, i % 3 ? MEAS_OK : MEAS_SPILL);
	trials_text(&log_a, &text);
	REQUIRE_OK(trials_parse(buf_str(&text), &log_b));
	CHECK(same(&log_a, &log_b));
	CHECK(key_equal(trials_key(&log_a), trials_key(&log_b)));
	CHECK(!strcmp(log_a.task_text, log_b.task_text) && !strcmp(log_b.label, "conv 3x3\\"));
	CHECK(log_b.n == 20 && log_b.count[MEAS_OK] == 13 && log_b.count[MEAS_SPILL] == 7);
	const struct tried *t = &log_b.entry[4].t;
	CHECK(t->ns == 1004 && t->at_ns == 4 * NS_PER_MS && t->by == TRIED_STRATEGY && t->guess_sd == 0.25);
	CHECK(log_b.cand_bytes == log_a.cand_bytes);
	trials_free(&log_b);
	/* A text that is cut anywhere but between two trials gives an error, and never a crash. */
	int good = 0;
	for (size_t n = 0; n < text.n; n++) {
		char c = text.p[n];
		text.p[n] = 0;
		good += trials_parse(text.p, &log_b) >= 0;
		trials_free(&log_b);
		text.p[n] = c;
	}
	CHECK(good == 20);
	buf_free(&text);
	trials_free(&log_a);
}

TEST(keys_differ)
{
	start(&log_a, 1);
	struct key k = trials_key(&log_a);
	log_a.threads = 1;
	CHECK(!key_equal(k, trials_key(&log_a)));
	log_a.threads = 2;
	log_a.level = false;
	CHECK(!key_equal(k, trials_key(&log_a)));
	log_a.level = true;
	snprintf(log_a.emitter, sizeof log_a.emitter, "other/2"); /* not part of the key */
	log_a.boxes = 9;
	CHECK(key_equal(k, trials_key(&log_a)));
	trials_free(&log_a);
}

TEST(one_line_for_a_candidate)
{
	start(&log_a, 1);
	add(&log_a, 0, 1000, MEAS_OK);
	add(&log_a, 1, 900, MEAS_OK);
	add(&log_a, 2, 0, MEAS_CRASH);
	log_a.boxes = 2;
	add(&log_a, 0, 1100, MEAS_OK); /* again, in the next box */
	CHECK(log_a.n == 3 && log_a.count[MEAS_OK] == 3);
	CHECK(log_a.entry[2].t.by == TRIED_DEFAULT && log_a.entry[2].t.ns == 1100 && log_a.entry[2].box == 2);
	struct tried lost = log_a.entry[0].t;
	lost.lost = true;
	trials_add(&log_a, &lost, 2);
	CHECK(log_a.n == 3 && log_a.entry[0].t.lost && log_a.entry[0].box == 1 && log_a.count[MEAS_OK] == 3);
	lost.cand = "not there any more";
	trials_add(&log_a, &lost, 2);
	CHECK(log_a.n == 3);
	trials_free(&log_a);
}

/* However many candidates are tried, the log is bounded and keeps the fastest, the newest and the default;
 * old ones are sparse. */
TEST(a_long_search_is_thinned)
{
	enum { MANY = 5000 };
	struct rng r;
	struct buf text = {0};
	int64_t fastest = INT64_MAX;
	rng_seed(&r, 7);
	start(&log_a, 1);
	for (int i = 0; i < MANY; i++) {
		int64_t ns = 1000 + rng_below(&r, 1000000);
		bool fails = i % 5 == 4;
		fastest = !fails && ns < fastest ? ns : fastest;
		add(&log_a, i, fails ? 0 : ns, fails ? MEAS_SPILL : MEAS_OK);
		CHECK(log_a.n <= TRIALS_MAX);
	}
	bool first = false, best = false, newest = false;
	int old = 0;
	for (int i = 0; i < log_a.n; i++) {
		const struct tried *t = &log_a.entry[i].t;
		first |= t->by == TRIED_DEFAULT;
		best |= t->ns == fastest;
		newest |= t->at_ns == (MANY - 1) * NS_PER_MS;
		old += t->at_ns < MANY / 2 * NS_PER_MS;
		CHECK(i == 0 || log_a.entry[i - 1].t.at_ns < t->at_ns);
	}
	CHECK(first && best && newest && old >= 5 && log_a.n >= 50);
	CHECK(log_a.count[MEAS_OK] == MANY * 4 / 5 && log_a.count[MEAS_SPILL] == MANY / 5);
	trials_text(&log_a, &text);
	CHECK(text.n <= TRIALS_BYTES + 1024);
	REQUIRE_OK(trials_parse(buf_str(&text), &log_b));
	CHECK(same(&log_a, &log_b));
	trials_free(&log_b);
	trials_free(&log_a);
	buf_free(&text);
}

/* With candidates of the greatest length the text stays within its bound. */
TEST(long_candidates)
{
	struct buf text = {0};
	char cand[CAND_MAX];
	start(&log_a, 1);
	for (int i = 0; i < 300; i++) {
		memset(cand, 'x', sizeof cand);
		snprintf(cand + sizeof cand - 5, 5, "%04d", i);
		const struct tried t = {.cand = cand, .status = MEAS_WRONG};
		trials_add(&log_a, &t, 1);
	}
	CHECK(log_a.n > 5 && log_a.count[MEAS_WRONG] == 300);
	trials_text(&log_a, &text);
	CHECK(text.n <= TRIALS_BYTES + 1024);
	REQUIRE_OK(trials_parse(buf_str(&text), &log_b));
	trials_free(&log_b);
	trials_free(&log_a);
	buf_free(&text);
}

static void refuses(const char *head, const char *lines, const char *part)
{
	struct buf text = {0};
	buf_printf(&text, "%s%s", head, lines);
	CHECK_FAILS(trials_parse(buf_str(&text), &log_b), E_CORRUPT, part);
	CHECK(log_b.n == 0 && !log_b.task_text);
	buf_free(&text);
}

TEST(hostile_text)
{
	static const char *const bad[] = {
	    "\n",
	    "ok\n",
	    "ok default 0 1 0 1 1 1 1 1 1 0.250 lane=k:16", /* no end */
	    "ok default 0 1 0 1 1 1 1 1 1 0.250\n",
	    "ok default 0 1 0 1 1 1 1 1 1 0.250 a\tb\n",
	    "ok default 0 1 0 1 1 1 1 1 1 1001 a\n",
	    "ok default 0 1 0 1 1 1 1 1 1 nan a\n",
	    "ok default 0 1 0 1 1 1 1 1 1 -1 a\n",
	    "ok default 0 1 0 1 1 1 1 1 -1 0 a\n",
	    "ok default 0 1 0 9223372036854775807 1 1 1 1 1 0 a\n",
	    "ok default 0 1 9223372036854775 1 1 1 1 1 1 0 a\n",
	    "ok default 0 1 0 99999999999999999999 1 1 1 1 1 0 a\n",
	    "ok default 0 -1 0 1 1 1 1 1 1 0 a\n",
	    "ok default 0 2 0 1 1 1 1 1 1 0 a\n", /* a box that is not in the log's count */
	    "ok default 2 1 0 1 1 1 1 1 1 0 a\n",
	    "fine default 0 1 0 1 1 1 1 1 1 0 a\n",
	    "ok luck 0 1 0 1 1 1 1 1 1 0 a\n",
	    "ok  default 0 1 0 1 1 1 1 1 1 0 a\n",
	    "ok default 0 1 0 1 1 1 1 1 1 0 a\nok default 0 1 0 1 1 1 1 1 1 0 a\n",
	};
	struct buf head = {0}, text = {0};
	start(&log_a, 1);
	trials_text(&log_a, &head);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		refuses(buf_str(&head), bad[i], "line ");
	for (int i = 0; i <= TRIALS_MAX; i++)
		buf_printf(&text, "ok rule 0 1 0 1 1 1 1 1 1 0 a%d\n", i);
	refuses(buf_str(&head), buf_str(&text), "more than 200");
	buf_clear(&text);
	buf_puts(&text, "ok rule 0 1 0 1 1 1 1 1 1 0 ");
	for (int i = 0; i < CAND_MAX; i++)
		buf_puts(&text, "a");
	buf_puts(&text, "\n");
	refuses(buf_str(&head), buf_str(&text), "line 1");
	refuses("", "", "this version");
	refuses("hone-trials 3\n", "", "this version");
	log_a.count[MEAS_BUILD] = -1;
	buf_clear(&head);
	trials_text(&log_a, &head);
	refuses(buf_str(&head), "", "out of range");
	log_a.count[MEAS_BUILD] = INT32_MAX;
	buf_clear(&head);
	trials_text(&log_a, &head);
	refuses(buf_str(&head), "", "out of range");
	buf_free(&head);
	buf_free(&text);
	trials_free(&log_a);
}

/* Former versions did not count a box in which only a second job came to the task: its trials are of box 0,
 * in a log of no or of some boxes. */
TEST(a_box_that_was_not_counted)
{
	for (int boxes = 0; boxes < 3; boxes++) {
		struct buf text = {0};
		start(&log_a, 1);
		log_a.boxes = 0;
		add(&log_a, 0, 1000, MEAS_OK);
		log_a.boxes = boxes;
		if (boxes)
			add(&log_a, 1, 900, MEAS_OK);
		trials_text(&log_a, &text);
		CHECK_OK(trials_parse(buf_str(&text), &log_b));
		CHECK(same(&log_a, &log_b) && log_b.boxes == boxes && log_b.entry[0].box == 0);
		buf_free(&text);
		trials_free(&log_a);
		trials_free(&log_b);
	}
}

/* Texts with bytes changed, removed and doubled at random give an error, or a log whose text parses back to
 * itself. */
TEST(damaged_text)
{
	struct buf text = {0}, x = {0}, y = {0};
	struct rng r;
	int good = 0;
	rng_seed(&r, 9);
	start(&log_a, 1);
	for (int i = 0; i < 12; i++)
		add(&log_a, i, 1000 + i, i % 4 ? MEAS_OK : MEAS_WRONG);
	trials_text(&log_a, &text);
	trials_free(&log_a);
	char *bytes = malloc(2 * text.n + 1);
	for (int i = 0; i < 20000 && !test_bad; i++) {
		size_t at = rng_below(&r, (uint32_t)text.n), n = 1 + rng_below(&r, 20);
		n = at + n > text.n ? text.n - at : n;
		size_t to = i % 3 == 0 ? at : i % 3 == 1 ? at + n : at + 2 * n;
		memcpy(bytes, text.p, at + n);
		memcpy(bytes + at + n, text.p + at, n);
		if (i % 3 == 1)
			bytes[at + rng_below(&r, (uint32_t)n)] = (char)rng_below(&r, 256);
		memcpy(bytes + to, text.p + at + n, text.n - at - n + 1);
		if (trials_parse(bytes, &log_a) < 0)
			continue;
		good++;
		buf_clear(&x);
		buf_clear(&y);
		trials_text(&log_a, &x);
		REQUIRE_OK(trials_parse(buf_str(&x), &log_b));
		trials_text(&log_b, &y);
		CHECK(!strcmp(buf_str(&x), buf_str(&y)));
		CHECK(key_equal(trials_key(&log_a), trials_key(&log_b)));
		trials_free(&log_a);
		trials_free(&log_b);
	}
	CHECK(good > 1000 && good < 19000);
	free(bytes);
	buf_free(&text);
	buf_free(&x);
	buf_free(&y);
}

static void say(struct trials *l, const char *cand, enum meas_status status, int64_t ns, int64_t draft,
		int64_t guess, int64_t at_ns)
{
	const struct tried t = {.cand = cand,
				.by = l->n ? TRIED_STRATEGY : TRIED_DEFAULT,
				.status = status,
				.ns = ns,
				.default_ns = 1000 * l->boxes,
				.at_ns = at_ns,
				.draft_ns = draft,
				.guess_ns = guess};
	trials_add(l, &t, l->boxes);
}

/* The model ranks as measured, 10 % too low; the draft ranks in reverse. The second box is on a machine half
 * as fast, which changes nothing. */
TEST(a_log_is_summed_up)
{
	struct trials_sum s;
	start(&log_a, 1);
	trials_sum(&log_a, &s);
	CHECK(s.tried == 0 && s.nbest == 0 && s.nsteps == 0 && isnan(s.model_rank) && isnan(s.model_error));
	log_a.default_ns = 1000;
	say(&log_a, "a", MEAS_OK, 1000, 500, 900, 1);
	say(&log_a, "b", MEAS_OK, 800, 600, 720, 2);
	say(&log_a, "c", MEAS_SPILL, 0, 100, 100, 3);
	say(&log_a, "d", MEAS_ABORTED, 3000, 200, 2700, 4);
	trials_sum(&log_a, &s);
	CHECK(isnan(s.model_rank) && s.ntimed == 3); /* too few */
	log_a.boxes = 2;
	say(&log_a, "e", MEAS_OK, 1800, 550, 810, 1);
	say(&log_a, "f", MEAS_OK, 1400, 700, 630, 5);
	say(&log_a, "g", MEAS_CRASH, 0, 1, 1, 6);
	trials_sum(&log_a, &s);
	CHECK(s.tried == 7 && s.failed == 2 && s.ntimed == 5);
	CHECK(fabs(s.model_rank - 1) < 1e-9 && fabs(s.draft_rank + 1) < 1e-9);
	CHECK(fabs(s.model_error - 1 / 9.0) < 1e-9 && s.draft_error > 0.3);
	CHECK(s.nbest == 4 && !strcmp(log_a.entry[s.best[0]].t.cand, "f"));
	CHECK(!strcmp(log_a.entry[s.best[1]].t.cand, "b") && !strcmp(log_a.entry[s.best[3]].t.cand, "a"));
	CHECK(s.nsteps == 3 && s.step[2].ratio == 0.7 && s.step[2].box == 2 && s.step[2].at_ns == 5);
	CHECK(s.step[0].ratio == 1 && s.step[1].ratio == 0.8);
	trials_free(&log_a);
	CHECK(trials_payback(1e9, 1e6) == 1000 && trials_payback(1e9, 3e8) == 4);
	CHECK(isnan(trials_payback(1e9, 0)) && isnan(trials_payback(1e9, -5)) && isnan(trials_payback(0, 5)));
}

/* With more trials than fit: the five fastest in order, and the last steps of many. */
TEST(a_long_log_says_it_shortly)
{
	struct trials_sum s;
	char cand[16];
	start(&log_a, 1);
	for (int i = 0; i < 20; i++) {
		snprintf(cand, sizeof cand, "c%d", i);
		say(&log_a, cand, MEAS_OK, 1000 - 10 * i, 1000, 1000, i);
	}
	trials_sum(&log_a, &s);
	CHECK(s.nbest == SUM_BEST && s.nsteps == SUM_STEPS);
	for (int i = 0; i < SUM_BEST; i++)
		CHECK(s.best[i] == 19 - i);
	CHECK(s.step[SUM_STEPS - 1].at_ns == 19 && s.step[0].at_ns == 12);
	CHECK(isnan(s.draft_rank)); /* the draft's estimates were all equal */
	trials_free(&log_a);
}

static int count_logs(void *ctx, const struct trials *l)
{
	CHECK(l->n == 3);
	++*(int *)ctx;
	return 0;
}

/* A log that is damaged, of another version, or under another log's key is a miss. */
TEST(a_bad_record_is_a_miss)
{
	struct cache *c;
	struct key k[3];
	int n = 0;
	REQUIRE_OK(cache_open(&c, scratch_folder(), false, 0));
	for (int i = 0; i < 3; i++) {
		start(&log_a, i);
		for (int j = 0; j < 3; j++)
			add(&log_a, j, 1000, MEAS_OK);
		k[i] = trials_key(&log_a);
		REQUIRE_OK(trials_put(c, &log_a));
		trials_free(&log_a);
	}
	REQUIRE_OK(trials_get(c, k[1], &log_a));
	CHECK(log_a.n == 3);
	trials_free(&log_a);
	CHECK_FAILS(trials_get(c, hash_text("another"), &log_a), E_NOTFOUND, "not in the cache");
	CHECK(trials_each(c, count_logs, &n) == 3 && n == 3);
	REQUIRE_OK(cache_put(c, CACHE_TRIALS, k[0], "hone-trials 2\n", 14));
	CHECK_FAILS(trials_get(c, k[0], &log_a), E_NOTFOUND, "no log");
	REQUIRE_OK(cache_put(c, CACHE_TRIALS, k[0], "hone\0trials 1\n", 14));
	CHECK_FAILS(trials_get(c, k[0], &log_a), E_NOTFOUND, "no log");
	struct buf text = {0};
	REQUIRE_OK(trials_get(c, k[1], &log_a));
	trials_text(&log_a, &text);
	trials_free(&log_a);
	REQUIRE_OK(cache_put(c, CACHE_TRIALS, k[0], text.p, text.n));
	CHECK_FAILS(trials_get(c, k[0], &log_a), E_NOTFOUND, "no log");
	CHECK(trials_each(c, count_logs, &n) == 2 && n == 5);
	buf_free(&text);
	cache_close(c);
}

/* A full disk: the log stays in memory, and is written when there is room. */
TEST(full_disk)
{
	struct cache *c;
	const char *dir = scratch_folder();
	struct rlimit old, small;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	REQUIRE_OK(cache_open(&c, dir, false, 0));
	start(&log_a, 0);
	for (int j = 0; j < 50; j++)
		add(&log_a, j, 1000 + j, MEAS_OK);
	struct key k = trials_key(&log_a);
	small = (struct rlimit){.rlim_cur = 1000, .rlim_max = old.rlim_max};
	setrlimit(RLIMIT_FSIZE, &small);
	CHECK_OK(trials_put(c, &log_a));
	CHECK_FAILS(cache_commit(c), E_IO, "--cache");
	CHECK_OK(trials_get(c, k, &log_b));
	CHECK(same(&log_a, &log_b));
	trials_free(&log_b);
	setrlimit(RLIMIT_FSIZE, &old);
	CHECK_OK(cache_commit(c));
	cache_close(c);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK_OK(trials_get(c, k, &log_b));
	CHECK(same(&log_a, &log_b));
	CHECK_FAILS(trials_put(c, &log_b), E_USAGE, "for reading");
	trials_free(&log_b);
	trials_free(&log_a);
	cache_close(c);
}

TEST_MAIN
