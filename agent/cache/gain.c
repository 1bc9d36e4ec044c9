/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/gain.h"

#include "agent/cache/fields.h"
#include "platform/base/stats.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LINE "hone-gain 1\n"
#define MOST_MS 1e12 /* thirty years */
#define MOST_RATIO 1e9
#define MISLED 1.05 /* two figures that differ by more make a reader ask which one holds */

enum { RECORD_RUNS = 5 };

/* Student's t for a 95 % interval from so many runs. */
static double student(int runs)
{
	static const double t[] = {0, 0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31};
	return runs < (int)(sizeof t / sizeof *t) ? t[runs > 2 ? runs : 2] : 2.26;
}

enum { BLOCKS = 8, BLOCK_LEAST = 3 };

/* Returns the median of the changes of a time from one round to the next, in logarithms. x: scratch for n
 * values. */
static double jumps(const double *ns, int n, double *x)
{
	for (int k = 0; k + 1 < n; k++)
		x[k] = fabs(log(ns[k + 1] / ns[k]));
	return n > 1 ? stats_median(x, n - 1) : 0;
}

/* Half of the interval for changes between moments, in logarithms: by the medians of successive
 * blocks of rounds, and by a quarter of what the other's time changes from a round to the next. Rounds of one
 * second alone would claim more than holds a minute later. x: scratch for n values. */
static double moments(const double *other_ns, const double *this_ns, int n, double *x)
{
	double block[BLOCKS], mean = 0, square = 0, half = 0;
	int nblocks = n / BLOCK_LEAST < BLOCKS ? n / BLOCK_LEAST : BLOCKS;
	for (int b = 0; b < nblocks; b++) {
		int from = b * n / nblocks, to = (b + 1) * n / nblocks;
		for (int k = from; k < to; k++)
			x[k - from] = log(other_ns[k] / this_ns[k]);
		block[b] = stats_median(x, to - from);
		mean += block[b] / nblocks;
	}
	for (int b = 0; b < nblocks; b++)
		square += (block[b] - mean) * (block[b] - mean);
	if (nblocks > 2)
		half = student(nblocks) * sqrt(square / (nblocks - 1) / nblocks);
	return fmax(half, jumps(other_ns, n, x) / 4);
}

struct faster faster_by_rounds(const double *other_ns, const double *this_ns, int n)
{
	double *r = calloc((size_t)n, sizeof *r);
	struct interval i = {1, 0, MOST_RATIO};
	for (int k = 0; r && k < n; k++)
		r[k] = other_ns[k] / this_ns[k];
	if (r) {
		i = stats_interval(r, n);
		double by = exp(moments(other_ns, this_ns, n, r)); /* not a number, if a time is 0 */
		i.low = fmin(i.low, i.median / by);
		i.high = fmax(i.high, i.median * by);
	}
	free(r);
	return (struct faster){i.median, i.low, i.high, n, n < GAIN_ROUNDS};
}

struct faster faster_apart(double *other_ns, int nother, double *this_ns, int nthis)
{
	struct interval o = stats_interval(other_ns, nother), t = stats_interval(this_ns, nthis);
	int n = nother < nthis ? nother : nthis;
	return (struct faster){o.median / t.median, o.low / t.high / GAIN_MOMENT,
			       o.high / t.low * GAIN_MOMENT, n, n < GAIN_ROUNDS};
}

struct faster faster_by_records(const struct meas *other, const struct meas *this)
{
	if (other->median_ns <= 0 || this->median_ns <= 0)
		return (struct faster){0};
	double ratio = (double)other->median_ns / (double)this->median_ns;
	double x = meas_error(other) * student(other->runs), y = meas_error(this) * student(this->runs);
	double by = exp(sqrt(x * x + y * y));
	int n = other->runs < this->runs ? other->runs : this->runs;
	return (struct faster){ratio, ratio / by, ratio * by, n > 0 ? n : 1, n < RECORD_RUNS};
}

bool faster_unclear(const struct faster *f)
{
	return f->rounds > 0 && (f->few || !(f->high <= GAIN_SPAN * f->low));
}

/* Whether the interval, however wide, is beyond GAIN_SPAN on one side of 1. */
static bool far(const struct faster *f)
{
	return !f->few && (f->low > GAIN_SPAN || (f->low > 0 && f->high * GAIN_SPAN < 1));
}

bool faster_significant(const struct faster *f)
{
	return f->rounds > 0 && (faster_unclear(f) ? far(f) : f->low > 1 || f->high < 1);
}

bool faster_misled(const struct faster *f, double other_ms, double this_ms)
{
	if (f->rounds <= 0 || faster_unclear(f) || !(other_ms > 0) || !(this_ms > 0))
		return false;
	double x = f->ratio, y = other_ms / this_ms;
	if (x > MISLED * y || y > MISLED * x)
		return true;
	if (faster_significant(f))
		return (x > 1) != (y > 1);
	return y > 1.01 * f->high || f->low > 1.01 * y;
}

/* Digits after the point that show a significant difference: 2, or more if its end near 1 would be "1.00". */
static int difference_digits(double near_one)
{
	return near_one >= 1.005 ? 2 : near_one >= 1.0005 ? 3 : 4;
}

static void add_difference(const struct faster *f, const char *than, struct buf *out)
{
	bool slower = f->ratio < 1, rough = faster_unclear(f);
	double low = slower ? 1 / f->high : f->low, high = slower ? 1 / f->low : f->high;
	if (f->few)
		buf_printf(out, "too few rounds for a comparison with %s (%d round%s)", than, f->rounds,
			   f->rounds == 1 ? "" : "s");
	else if (rough && !far(f))
		buf_printf(out,
			   "the rounds differ too much for a comparison with %s (95 %% CI %.2f to %.2fx, %d "
			   "rounds)",
			   than, f->low, f->high, f->rounds);
	else if (!faster_significant(f))
		buf_printf(out,
			   "no significant difference to %s (%.2fx as fast, 95 %% CI %.2f to %.2fx, %d "
			   "rounds)",
			   than, f->ratio, f->low, f->high, f->rounds);
	else {
		int d = difference_digits(low);
		double by = rough ? low : slower ? 1 / f->ratio : f->ratio;
		buf_printf(out, "%s%.*fx %s than %s (95 %% CI %.*f to %.*fx, %d rounds)",
			   rough ? "at least " : "", d, by, slower ? "slower" : "faster", than, d, low, d, high,
			   f->rounds);
	}
}

void faster_words(const struct faster *f, const char *than, const struct disturbance *d, struct buf *out)
{
	add_difference(f, than, out);
	if (!d || !disturbed(d))
		return;
	buf_puts(out, "; disturbed: ");
	disturbance_words(d, out);
}

static const struct field fields[] = {
    FIELD("model", F_CHARS, struct gain, model),
    FIELD("date", F_CHARS, struct gain, date),
    FIELD("threads", F_INT, struct gain, threads),
    FIELD("exact", F_WORD, struct gain, level, level_word),
    FIELD("default_ms", F_REAL, struct gain, default_ms),
    FIELD("now_ms", F_REAL, struct gain, now_ms),
    FIELD("kernels", F_INT, struct gain, kernels),
    FIELD("fallbacks", F_INT, struct gain, fallbacks),
    FIELD("ratio", F_REAL, struct gain, faster.ratio),
    FIELD("low", F_REAL, struct gain, faster.low),
    FIELD("high", F_REAL, struct gain, faster.high),
    FIELD("rounds", F_INT, struct gain, faster.rounds),
    FIELD("share_pct", F_INT, struct gain, machine.share_pct),
    FIELD("others_pct", F_INT, struct gain, machine.others_pct),
    FIELD("clock", F_CHARS, struct gain, machine.clock),
};

enum { NFIELDS = sizeof fields / sizeof *fields };

/* Lines that only a gain by a recipe has. */
static const struct field by_recipe[] = {
    FIELD("source", F_KEY, struct gain, source),
    FIELD("recipe", F_KEY, struct gain, recipe),
};

enum { NBY_RECIPE = sizeof by_recipe / sizeof *by_recipe };

static bool has_recipe(const struct gain *g)
{
	return !key_equal(g->source, (struct key){0});
}

/* The last line of all, which gains of older versions do not have. */
static const struct field made_of[] = {FIELD("made_of", F_KEY, struct gain, made_of)};

static bool knows_kernels(const struct gain *g)
{
	return !key_equal(g->made_of, (struct key){0});
}

/* The last line: the shapes that the user gave; absent if none. */
static const struct field shapes[] = {FIELD("shapes", F_CHARS, struct gain, shapes)};

/* The line that names the device, behind the first one; a gain of the processor has none. */
static const struct field device[] = {FIELD("device", F_CHARS, struct gain, device)};

void gain_text(const struct gain *g, struct buf *out)
{
	buf_puts(out, FIRST_LINE);
	if (g->device[0])
		fields_text(device, 1, g, out);
	fields_text(fields, NFIELDS, g, out);
	if (has_recipe(g))
		fields_text(by_recipe, NBY_RECIPE, g, out);
	if (knows_kernels(g))
		fields_text(made_of, 1, g, out);
	if (g->shapes[0])
		fields_text(shapes, 1, g, out);
}

static bool plausible(const struct gain *g)
{
	const struct faster *f = &g->faster;
	return f->ratio > 0 && f->low > 0 && f->low <= f->ratio && f->ratio <= f->high &&
	       f->high <= MOST_RATIO && f->rounds > 0 && g->default_ms > 0 && g->default_ms < MOST_MS &&
	       g->now_ms > 0 && g->now_ms < MOST_MS;
}

int gain_parse(const char *text, struct gain *out)
{
	struct arena a = {0};
	*out = (struct gain){0};
	if (strncmp(text, FIRST_LINE, strlen(FIRST_LINE)))
		return fail(E_CORRUPT, "not a gain of this version");
	text += strlen(FIRST_LINE);
	int rc = strncmp(text, "device ", 7) ? E_OK : fields_parse(device, 1, &text, &a, out);
	if (rc >= 0)
		rc = fields_parse(fields, NFIELDS, &text, &a, out);
	bool last = rc < 0 || !strncmp(text, "shapes ", 7);
	if (rc >= 0 && *text && !last && strncmp(text, "made_of ", 8))
		rc = fields_parse(by_recipe, NBY_RECIPE, &text, &a, out) < 0 || !has_recipe(out)
			 ? fail(E_CORRUPT, "no recipe")
			 : E_OK;
	last = rc < 0 || !strncmp(text, "shapes ", 7);
	if (rc >= 0 && *text && !last &&
	    (fields_parse(made_of, 1, &text, &a, out) < 0 || !knows_kernels(out)))
		rc = fail(E_CORRUPT, "no kernels");
	if (rc >= 0 && *text && (fields_parse(shapes, 1, &text, &a, out) < 0 || !out->shapes[0]))
		rc = fail(E_CORRUPT, "no shapes");
	arena_free(&a);
	out->faster.few = out->faster.rounds < GAIN_ROUNDS;
	if (rc >= 0 && (*text || !plausible(out)))
		rc = fail(E_CORRUPT, "values that no measurement gives");
	return fail_in(rc, "gain");
}

bool gain_replaces(const struct gain *stored, const struct gain *now)
{
	const struct faster *x = &stored->faster, *y = &now->faster;
	bool busy = disturbed(&now->machine), was_busy = disturbed(&stored->machine);
	if (!knows_kernels(stored) || !key_equal(stored->made_of, now->made_of))
		return true;
	if (x->few != y->few)
		return x->few;
	if (x->few)
		return y->rounds >= x->rounds;
	if (busy != was_busy)
		return was_busy;
	return y->high / y->low <= x->high / x->low;
}

int gain_put(struct cache *c, struct key k, const struct gain *g)
{
	struct buf text = {0};
	gain_text(g, &text);
	int rc = buf_ok(&text) ? cache_put(c, CACHE_GAIN, k, text.p, text.n)
			       : fail(E_NOMEM, "no memory for the gain");
	buf_free(&text);
	return rc;
}

bool gain_get(struct cache *c, struct key k, struct gain *out)
{
	struct arena a = {0};
	struct blob text;
	bool there = c && cache_get(c, CACHE_GAIN, k, &a, &text) >= 0 && !memchr(text.p, 0, text.n) &&
		     gain_parse((const char *)text.p, out) >= 0;
	arena_free(&a);
	return there;
}

/* Whether the network is still what was measured: another recipe makes another network of the same model. */
static bool is_current(struct cache *c, const struct gain *g)
{
	struct arena a = {0};
	struct blob text;
	bool same = !has_recipe(g) || (cache_get(c, CACHE_RECIPE, g->source, &a, &text) >= 0 &&
				       key_equal(hash_bytes(text.p, text.n), g->recipe));
	arena_free(&a);
	return same;
}

int gain_all(struct cache *c, struct arena *a, struct gain **out)
{
	struct key *k;
	int n = cache_keys(c, CACHE_GAIN, a, &k), found = 0;
	*out = ARENA_ARRAY(a, struct gain, n + 1);
	for (int i = 0; i < n; i++)
		found += gain_get(c, k[i], &(*out)[found]) && is_current(c, &(*out)[found]);
	return found;
}

void gain_than(const struct gain *g, char out[96])
{
	if (g->fallbacks > 0)
		snprintf(out, 96, GAIN_THAN " and %d fallback kernel%s of %d", g->fallbacks,
			 plural_s(g->fallbacks), g->kernels);
	else
		snprintf(out, 96, GAIN_THAN);
}

void gain_words(const struct gain *g, struct buf *out)
{
	char than[96];
	gain_than(g, than);
	faster_words(&g->faster, than, &g->machine, out);
	buf_printf(out, "; measured %s", g->date);
}
