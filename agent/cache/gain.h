/* SPDX-License-Identifier: Apache-2.0 */
/* How much faster one thing is than another, with its uncertainty, and the sentence that says so. All
 * commands use this sentence, and tuning stores the figure of a network, so that they agree with one another.
 *
 * A comparison comes from rounds in which both ran in turn: the median of the rounds' ratios and its 95 %
 * interval by order statistics (platform/base/stats.h), which needs GAIN_ROUNDS rounds. It is widened by how
 * the ratio differs between moments: between blocks of rounds, and with the noise of single rounds. The
 * difference is not significant if the interval includes 1, or if there is none. A comparison of fewer
 * rounds, or with an interval that spans more than a factor of GAIN_SPAN, is unclear: its ratio may come
 * from a moment of other load, so no sentence shows it. It is significant nevertheless if the whole
 * interval is beyond that factor: the sentence then names the end that is nearer to 1.
 *
 * A gain is stored as CACHE_GAIN under history_key: "hone-gain 1" and the lines of the table in gain.c
 * (agent/cache/fields.h), without the line of the device for the processor, and of shapes where none were
 * given. It stays on this board: it is not exported, and not sent to a fleet. */
#ifndef AGENT_GAIN_H
#define AGENT_GAIN_H

#include "agent/cache/cache.h"
#include "kernels/task/level.h"
#include "platform/machine/disturb.h"

enum { GAIN_ROUNDS = 6, GAIN_SPAN = 3 };
/* The speed of a machine that is hot or shared differs between two moments by about this factor, and no
 * sample of one moment shows it. */
#define GAIN_MOMENT 1.4

struct faster {
	double ratio, low, high; /* the other's time over this one's: above 1, this one is faster */
	int rounds;              /* 0: nothing was compared */
	bool few;                /* too few rounds for an interval */
};

/* Compares by n > 0 rounds in which both ran. */
struct faster faster_by_rounds(const double *other_ns, const double *this_ns, int n);
/* Compares samples that were not taken in turn: the interval is as wide as those of both medians allow, and
 * wider by GAIN_MOMENT on either side. Sorts its arguments. */
struct faster faster_apart(double *other_ns, int nother, double *this_ns, int nthis);
/* Compares two measurements that were not taken in turn, by the standard errors of their medians; fewer than
 * five runs are too few. */
struct faster faster_by_records(const struct meas *other, const struct meas *this);
bool faster_unclear(const struct faster *f);
bool faster_significant(const struct faster *f);
/* Whether the medians of the same rounds, in ms, say another thing than the rounds' ratios, because other
 * load disturbed them: a ratio that differs by more than 5 %, the opposite of a significant difference,
 * or, where the rounds show none, one that is more than 1 % outside their interval. False if something was
 * not measured, or the rounds are unclear. */
bool faster_misled(const struct faster *f, double other_ms, double this_ms);
/* "2.64x faster than X (95 % CI 2.60 to 2.68x, 25 rounds)"; "no significant difference to X (1.01x as fast,
 * 95 % CI 0.98 to 1.04x, 12 rounds)"; "too few rounds for a comparison with X (3 rounds)"; "the rounds differ
 * too much for a comparison with X (95 % CI 0.40 to 9.10x, 7 rounds)"; "at least 310x faster than X (95 % CI
 * 310 to 1240x, 7 rounds)", where they differ too much, but all by more than GAIN_SPAN. If the machine was
 * disturbed (NULL: it is not known), the sentence ends with "; disturbed: ..." and how. */
void faster_words(const struct faster *f, const char *than, const struct disturbance *d, struct buf *out);

/* A network's tuned kernels against default schedules, as the last box measured them. */
struct gain {
	char model[160]; /* absolute path; as the user gave it, or its end, if that is longer */
	char date[24];   /* UTC */
	char device[40]; /* "opencl:0", "cpu:cortex-a53"; "": the processor, its fastest cluster */
	int threads;
	enum level level;
	double default_ms, now_ms; /* medians of whole runs */
	int kernels, fallbacks; /* of the default network; fallbacks: no default schedule of the task works */
	struct faster faster;
	struct disturbance machine;
	/* A gain of a network that a recipe quantised has (agent/cache/recipe.h): the recipe's
	 * key, and the hash of its text. 0: there was none. */
	struct key source, recipe;
	struct key made_of; /* hash of the kernels compared, of whoever measured them; 0: not known */
	/* "image=1x3x320x320 n=2": shapes that the user gave (--shape), each without a space; "": none; "?":
	 * some that do not fit, so the model cannot be opened from here alone */
	char shapes[200];
};

#define GAIN_THAN "default schedules"

/* "default schedules", or if some tasks have none that works, "default schedules and 3 fallback kernels of
 * 52". */
void gain_than(const struct gain *g, char out[96]);
void gain_text(const struct gain *g, struct buf *out);
int gain_parse(const char *text, struct gain *out) MUST_CHECK; /* E_CORRUPT: it is none. Fuzzed. */
/* Whether a gain takes the place of a stored one of the same network. A gain describes the kernels that the
 * cache has. If they are others than those of the stored gain, it does. If they are the same, it does only if
 * it is at least as certain: a comparison of few rounds never replaces one with an interval, nor one on a
 * disturbed machine one on a quiet machine; then the narrower interval stays, or the larger number of few
 * rounds. So a short box leaves what a longer one measured, and a box that has no time to compare leaves the
 * gain, with its date. */
bool gain_replaces(const struct gain *stored, const struct gain *now);
/* key: history_key of the network. */
int gain_put(struct cache *c, struct key k, const struct gain *g) MUST_CHECK;
/* False: nothing (readable) is stored. c NULL: no cache. */
bool gain_get(struct cache *c, struct key k, struct gain *out);
/* All gains of the cache, in no order, in the arena, but for those by a recipe that the cache no longer has.
 * Returns their number. */
int gain_all(struct cache *c, struct arena *a, struct gain **out);
/* faster_words for a gain, then when it was measured. */
void gain_words(const struct gain *g, struct buf *out);

#endif
