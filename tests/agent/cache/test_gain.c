/* SPDX-License-Identifier: Apache-2.0 */
/* Gains: comparisons and their intervals, the sentences, the stored text. */
#include "agent/cache/gain.h"
#include "platform/base/rng.h"
#include "tests/lib/cache_dir.h"
#include "tests/lib/test.h"

#include <math.h>

static const struct gain known = {.model = "/m/net.onnx",
				  .date = "2026-01-02 03:04 UTC",
				  .threads = 2,
				  .default_ms = 2.64,
				  .now_ms = 1,
				  .kernels = 9,
				  .faster = {2.64, 2.6, 2.68, 25, false},
				  .machine = {.share_pct = 99, .others_pct = 3}};

static const char *words(const struct faster *f, const struct disturbance *d)
{
	static char text[400];
	struct buf b = {0};
	faster_words(f, "X", d, &b);
	snprintf(text, sizeof text, "%s", buf_str(&b));
	buf_free(&b);
	return text;
}

TEST(sentences)
{
	static const struct {
		struct faster f;
		struct disturbance d;
		const char *words;
	} all[] = {
	    {{2.64, 2.6, 2.68, 25, false},
	     {100, 0, ""},
	     "2.64x faster than X (95 % CI 2.60 to 2.68x, 25 rounds)"},
	    {{.5, .4, .8, 25, false}, {100, 0, ""}, "2.00x slower than X (95 % CI 1.25 to 2.50x, 25 rounds)"},
	    {{.998, .9965, .9992, 40, false},
	     {100, 0, ""},
	     "1.002x slower than X (95 % CI 1.001 to 1.004x, 40 rounds)"},
	    {{1.0005, 1.0002, 1.0008, 40, false},
	     {100, 0, ""},
	     "1.0005x faster than X (95 % CI 1.0002 to 1.0008x, 40 rounds)"},
	    {{1.02, 1.004, 1.03, 40, false},
	     {100, 0, ""},
	     "1.020x faster than X (95 % CI 1.004 to 1.030x, 40 rounds)"},
	    {{1.01, .98, 1.04, 12, false},
	     {-1, -1, ""},
	     "no significant difference to X (1.01x as fast, 95 % CI 0.98 to 1.04x, 12 rounds)"},
	    {{2, 1.9, 2.1, 3, true}, {100, 0, ""}, "too few rounds for a comparison with X (3 rounds)"},
	    {{288.32, 2, 400, 1, true}, {100, 0, ""}, "too few rounds for a comparison with X (1 round)"},
	    {{2.52, 2.31, 1463.42, 7, false},
	     {100, 0, ""},
	     "the rounds differ too much for a comparison with X (95 % CI 2.31 to 1463.42x, 7 rounds)"},
	    {{2, 1.9, 2.1, 9, false},
	     {89, 26, ""},
	     "2.00x faster than X (95 % CI 1.90 to 2.10x, 9 rounds); disturbed: this process got 89 % of the "
	     "processor time that it wanted; others used 26 % of a processor"},
	    {{2, 1.9, 2.1, 9, false},
	     {90, 25, "the clock fell"},
	     "2.00x faster than X (95 % CI 1.90 to 2.10x, 9 rounds); disturbed: the clock fell"},
	    {{9, 3.2, 31, 9, false}, {100, 0, ""}, "at least 3.20x faster than X (95 % CI 3.20 to 31.00x, 9 rounds)"},
	    {{.001, .0005, .004, 9, false},
	     {100, 0, ""},
	     "at least 250.00x slower than X (95 % CI 250.00 to 2000.00x, 9 rounds)"},
	    {{.001, 0, .004, 9, false},
	     {100, 0, ""},
	     "the rounds differ too much for a comparison with X (95 % CI 0.00 to 0.00x, 9 rounds)"},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (strcmp(words(&all[i].f, &all[i].d), all[i].words)) {
			printf("%zu: %s\n", i, words(&all[i].f, &all[i].d));
			test_bad = 1;
		}
	CHECK(!strstr(words(&all[9].f, NULL), "disturbed"));
}

/* Rounds of a machine where other load makes some runs many times longer. A ratio that a sentence shows is
 * near the true one. */
TEST(no_wild_ratio_is_shown)
{
	struct rng r;
	int shown = 0, hidden = 0, wild = 0, bounds = 0, wrong = 0;
	rng_seed(&r, 5);
	for (int k = 0; k < 4000; k++) {
		double other[24], this[24], truth = exp((k & 1 ? 4 : 1) * rng_normal(&r)), busy = .6 * rng_unit(&r);
		int n = 1 + (int)rng_below(&r, 24);
		for (int i = 0; i < n; i++) {
			other[i] = 1e5 * truth * (1 + .05 * rng_unit(&r));
			this[i] = 1e5 * (1 + .05 * rng_unit(&r));
			if (rng_unit(&r) < busy)
				*(rng_below(&r, 2) ? &other[i] : &this[i]) *= 1 + 300 * rng_unit(&r);
		}
		struct faster f = faster_by_rounds(other, this, n);
		bool shows = strstr(words(&f, NULL), "x faster") || strstr(words(&f, NULL), "x slower") ||
			     strstr(words(&f, NULL), "x as fast");
		if (strstr(words(&f, NULL), "at least ")) { /* no ratio, but a bound */
			CHECK(shows && faster_unclear(&f) && faster_significant(&f));
			bounds++;
			wrong += f.ratio > 1 ? 1.1 * truth < f.low : truth > 1.1 * f.high;
			continue;
		}
		CHECK(shows == !faster_unclear(&f));
		shown += shows;
		hidden += !shows && n >= GAIN_ROUNDS;
		wild += shows && (f.ratio > 1.5 * truth || truth > 1.5 * f.ratio);
	}
	CHECK(shown > 1000 && hidden > 100 && wild * 200 < shown && bounds > 100 && wrong * 20 < bounds);
	if (test_bad)
		printf("%d shown, %d hidden, %d wild, %d bounds, %d wrong\n", shown, hidden, wild, bounds, wrong);
}

/* Medians that say another thing than the rounds, which a headline below them would contradict. */
TEST(medians_that_mislead)
{
	struct rng r;
	rng_seed(&r, 11);
	int none = 0; /* medians that show a difference where the rounds show none */
	for (int i = 0; i < 5000; i++) {
		bool near = i % 2; /* cases about 1 with narrow intervals would be rare */
		double ratio = near ? .9 + .2 * rng_unit(&r) : .5 + rng_unit(&r);
		double median = ratio * (.85 + .3 * rng_unit(&r)), half = (near ? .06 : .2) * rng_unit(&r);
		struct faster f = {ratio, ratio - half, ratio + half, 9, rng_below(&r, 4) == 0};
		bool unclear = f.few || f.high > 3 * f.low;
		bool far = !unclear && (median / ratio > 1.05 || ratio / median > 1.05);
		bool says = !unclear && (f.low > 1 || f.high < 1);
		bool opposite = says && (ratio > 1) != (median > 1);
		bool outside = !says && !unclear && (median > 1.01 * f.high || f.low > 1.01 * median);
		none += outside && !far;
		if (faster_misled(&f, 3 * median, 3) != (far || opposite || outside)) {
			printf("ratio %g, %g to %g, medians %g\n", f.ratio, f.low, f.high, median);
			test_bad = 1;
		}
	}
	CHECK(none > 10);
	struct faster f = {1.04, 1.02, 1.06, 9, false}, same = {1, .99, 1.01, 9, false};
	CHECK(faster_misled(&same, 4.9, 5.2) && faster_misled(&same, 5.2, 4.9) &&
	      !faster_misled(&same, 5.1, 5));
	CHECK(faster_misled(&f, 5.1, 5.2) && !faster_misled(&f, 5.3, 5.2));
	CHECK(!faster_misled(&f, 0, 5.2) && !faster_misled(&f, 5, 0));
	CHECK(!faster_misled(&(struct faster){0}, 5, 1));
}

/* A slow phase of the machine changes no ratio of neighbouring rounds. */
TEST(rounds_are_compared_in_pairs)
{
	double other[20], this[20];
	for (int i = 0; i < 20; i++) {
		double phase = i < 10 ? 1 : 3;
		other[i] = 200 * phase + i % 3;
		this[i] = 100 * phase;
	}
	struct faster f = faster_by_rounds(other, this, 20);
	CHECK(fabs(f.ratio - 2) < .02 && f.low > 1.99 && f.high < 2.03 && f.rounds == 20);
	CHECK(faster_significant(&f));
	f = faster_apart(other, 20, this, 20);
	CHECK(f.low < 1 && f.high > 3 && !faster_significant(&f)); /* apart, nothing is known */
	f = faster_by_rounds(other, this, GAIN_ROUNDS - 1);
	CHECK(!faster_significant(&f));
}

/* Samples that agree among themselves say nothing of another moment, in which the machine may be a third
 * slower. */
TEST(a_moment_of_other_speed_is_no_gain)
{
	double other[20], this[20];
	for (int i = 0; i < 20; i++) {
		other[i] = 133 + i % 2;
		this[i] = 100 + i % 2;
	}
	struct faster f = faster_apart(other, 20, this, 20);
	CHECK(f.ratio > 1.3 && f.low < 1 && !faster_significant(&f) && !faster_unclear(&f));
	f = faster_apart(this, 20, other, 20);
	CHECK(f.ratio < .8 && f.high > 1 && !faster_significant(&f));
	for (int i = 0; i < 20; i++)
		other[i] = 150 + i % 2;
	f = faster_apart(other, 20, this, 20);
	CHECK(faster_significant(&f));
}

/* The ratio changes from moment to moment, as on a busy machine: the interval holds the mean of moments, not
 * only the one of most rounds. With a noise of rounds that cancels in no pair, it is not narrower than that
 * tells. */
TEST(the_interval_holds_other_moments)
{
	struct rng r;
	int held = 0, narrow = 0;
	rng_seed(&r, 3);
	for (int k = 0; k < 400; k++) {
		double a[160], b[160], moment = 0;
		for (int i = 0; i < 160; i++) {
			if (i % 20 == 0)
				moment = .05 * rng_normal(&r);
			b[i] = 100 * exp(.005 * rng_normal(&r));
			a[i] = 100 * exp(.1 + moment + .005 * rng_normal(&r));
		}
		struct faster f = faster_by_rounds(a, b, 160);
		held += f.low <= exp(.1) && exp(.1) <= f.high;
		for (int i = 0; i < 160; i++)
			b[i] = a[i] = 100 * exp(.1 * rng_normal(&r));
		f = faster_by_rounds(a, b, 160);
		narrow += f.high / f.low < 1.03;
	}
	CHECK(held > 400 * 85 / 100 && narrow == 0);
	if (test_bad)
		printf("%d of 400 held, %d narrow\n", held, narrow);
}

/* Of comparisons without a difference, about one in twenty is called significant. */
TEST(equals_are_seldom_different)
{
	struct rng r;
	int false_alarms = 0;
	rng_seed(&r, 1);
	for (int k = 0; k < 400; k++) {
		double a[25], b[25];
		for (int i = 0; i < 25; i++) {
			a[i] = 100 * exp(.05 * rng_normal(&r));
			b[i] = 100 * exp(.05 * rng_normal(&r));
		}
		struct faster f = faster_by_rounds(a, b, 25);
		false_alarms += faster_significant(&f);
	}
	CHECK(false_alarms < 400 / 14);
	if (test_bad)
		printf("%d of 400\n", false_alarms);
}

TEST(records_of_both)
{
	struct meas slow = {.runs = 5, .median_ns = 2000, .spread_ns = 10},
		    fast = {.runs = 13, .median_ns = 1000, .spread_ns = 10};
	struct faster f = faster_by_records(&slow, &fast);
	CHECK(f.ratio == 2 && f.low > 1.9 && f.high < 2.1 && faster_significant(&f));
	slow.median_ns = 1010;
	f = faster_by_records(&slow, &fast);
	CHECK(!faster_significant(&f));
	slow = (struct meas){.runs = 3, .median_ns = 2000};
	f = faster_by_records(&slow, &fast);
	CHECK(!faster_significant(&f) && f.rounds == 3);
	slow.median_ns = 0;
	CHECK(faster_by_records(&slow, &fast).rounds == 0);
}

TEST(text_and_back)
{
	struct gain g = known, back;
	struct buf text = {0}, again = {0};
	g.machine = (struct disturbance){-1, 40, "the clock\nfell"};
	gain_text(&g, &text);
	REQUIRE_OK(gain_parse(buf_str(&text), &back));
	gain_text(&back, &again);
	CHECK(!strcmp(buf_str(&text), buf_str(&again)));
	CHECK(back.faster.ratio == 2.64 && back.faster.rounds == 25 && back.machine.share_pct == -1);
	for (size_t n = 0; n < text.n; n++) { /* cut anywhere */
		char cut[1024];
		snprintf(cut, sizeof cut, "%.*s", (int)n, buf_str(&text));
		CHECK(gain_parse(cut, &back) == E_CORRUPT);
	}
	buf_free(&text);
	buf_free(&again);
}

/* Values that would make a sentence absurd. */
TEST(hostile_values)
{
	struct gain bad[6] = {known, known, known, known, known, known}, back;
	bad[0].faster.low = 3;
	bad[1].faster.high = 2;
	bad[2].faster.ratio = 0;
	bad[3].faster.rounds = 0;
	bad[4].now_ms = 0;
	bad[5].faster.high = 1e300;
	for (int i = 0; i < 6; i++) {
		struct buf text = {0};
		gain_text(&bad[i], &text);
		CHECK_FAILS(gain_parse(buf_str(&text), &back), E_CORRUPT, "gain");
		buf_free(&text);
	}
}

/* The gain by a recipe is that of a network which is gone with the recipe. */
TEST(a_gain_goes_with_its_recipe)
{
	struct arena a = {0};
	struct gain g = known, back, *all;
	struct cache *c;
	struct buf text = {0};
	g.source = hash_text("model");
	g.recipe = hash_text("one");
	gain_text(&g, &text);
	REQUIRE_OK(gain_parse(buf_str(&text), &back));
	CHECK(key_equal(back.source, g.source) && key_equal(back.recipe, g.recipe));
	buf_puts(&text, "x\n");
	CHECK_FAILS(gain_parse(buf_str(&text), &back), E_CORRUPT, "gain");
	buf_free(&text);
	gain_text(&known, &text);
	buf_printf(&text, "source %032d\nrecipe %032d\n", 0, 0);
	CHECK_FAILS(gain_parse(buf_str(&text), &back), E_CORRUPT, "gain");
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	CHECK_OK(gain_put(c, hash_text("floats"), &known));
	CHECK_OK(gain_put(c, hash_text("first"), &g));
	CHECK(gain_all(c, &a, &all) == 1); /* no recipe is there */
	CHECK_OK(cache_put(c, CACHE_RECIPE, g.source, "one", 3));
	CHECK(gain_all(c, &a, &all) == 2);
	g.recipe = hash_text("two");
	g.now_ms = 2;
	CHECK_OK(cache_put(c, CACHE_RECIPE, g.source, "two", 3));
	CHECK_OK(gain_put(c, hash_text("second"), &g));
	CHECK(gain_all(c, &a, &all) == 2 && (all[0].now_ms == 2 || all[1].now_ms == 2));
	CHECK(key_equal(all[0].source, g.source) + key_equal(all[1].source, g.source) == 1);
	cache_close(c);
	buf_free(&text);
	arena_free(&a);
	remove_dir();
}

static struct gain random_gain(struct rng *r)
{
	struct gain g = known;
	g.made_of = hash_text(rng_below(r, 4) ? "one" : "other");
	if (!rng_below(r, 8))
		g.made_of = (struct key){0};
	g.faster.rounds = 1 + (int)rng_below(r, 2 * GAIN_ROUNDS);
	g.faster.few = g.faster.rounds < GAIN_ROUNDS;
	double by = 1 + rng_unit(r);
	g.faster.low = g.faster.ratio / by;
	g.faster.high = g.faster.ratio * by;
	g.machine = rng_below(r, 2) ? (struct disturbance){50, 0, ""} : (struct disturbance){100, 0, ""};
	return g;
}

/* A gain of the same kernels stays, unless the new one is at least as certain. */
TEST(the_better_gain_of_the_same_kernels_stays)
{
	struct rng r;
	int kept = 0, replaced = 0;
	rng_seed(&r, 7);
	for (int i = 0; i < 20000 && !test_bad; i++) {
		struct gain x = random_gain(&r), y = random_gain(&r);
		bool takes = gain_replaces(&x, &y), back = gain_replaces(&y, &x);
		bool same = key_equal(x.made_of, y.made_of) && !key_equal(x.made_of, (struct key){0});
		CHECK(gain_replaces(&x, &x)); /* as certain */
		CHECK(same || (takes && back));
		CHECK(takes || back);
		if (!same)
			continue;
		kept += !takes;
		replaced += takes;
		CHECK(!takes || x.faster.few || !y.faster.few);
		if (!x.faster.few && !y.faster.few)
			CHECK(!takes || disturbed(&x.machine) || !disturbed(&y.machine));
		if (!x.faster.few && !y.faster.few && disturbed(&x.machine) == disturbed(&y.machine))
			CHECK(takes == (y.faster.high / y.faster.low <= x.faster.high / x.faster.low));
	}
	CHECK(kept > 1000 && replaced > 1000);
}

/* The last line says of which kernels a gain is; older versions wrote none. */
TEST(a_gain_names_its_kernels)
{
	struct buf text = {0};
	struct gain g = known, back;
	for (int recipe = 0; recipe < 2; recipe++) {
		g.made_of = hash_text("kernels");
		g.source = g.recipe = recipe ? hash_text("recipe") : (struct key){0};
		gain_text(&g, &text);
		REQUIRE_OK(gain_parse(buf_str(&text), &back));
		CHECK(key_equal(back.made_of, g.made_of) && key_equal(back.recipe, g.recipe));
		buf_puts(&text, "x\n");
		CHECK_FAILS(gain_parse(buf_str(&text), &back), E_CORRUPT, "gain");
		buf_free(&text);
	}
	for (int of = 0; of < 4; of++) { /* the shapes are the last line */
		g = known;
		g.made_of = of & 1 ? hash_text("kernels") : (struct key){0};
		g.source = g.recipe = of & 2 ? hash_text("recipe") : (struct key){0};
		snprintf(g.shapes, sizeof g.shapes, "image=1x3x320x320 n=2");
		gain_text(&g, &text);
		REQUIRE_OK(gain_parse(buf_str(&text), &back));
		CHECK(!strcmp(back.shapes, g.shapes) && key_equal(back.made_of, g.made_of));
		buf_puts(&text, "shapes x\n");
		CHECK_FAILS(gain_parse(buf_str(&text), &back), E_CORRUPT, "gain");
		buf_free(&text);
	}
	gain_text(&known, &text);
	buf_printf(&text, "made_of %032d\n", 0);
	CHECK_FAILS(gain_parse(buf_str(&text), &back), E_CORRUPT, "gain");
	buf_free(&text);
}

TEST(stored)
{
	struct arena a = {0};
	struct gain back, *all;
	struct cache *c;
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	CHECK(!gain_get(c, hash_text("one"), &back) && !gain_get(NULL, hash_text("one"), &back));
	CHECK_OK(gain_put(c, hash_text("one"), &known));
	CHECK_OK(cache_put(c, CACHE_GAIN, hash_text("two"), "hone-gain 1\nx\n", 14));
	CHECK(gain_get(c, hash_text("one"), &back) && !strcmp(back.model, known.model));
	CHECK(!gain_get(c, hash_text("two"), &back));
	CHECK(gain_all(c, &a, &all) == 1 && all[0].faster.ratio == 2.64);
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

TEST_MAIN
