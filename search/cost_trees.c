/* SPDX-License-Identifier: Apache-2.0 */
/* Boosted regression trees that correct the draft: log time = log draft + trust x f(features).
 *
 * f is the mean of HEADS sums of TREES trees each. Each sum learns from batches of its own: where they
 * disagree, the samples have not settled the answer. A tree splits all nodes of a level by the same question
 * (oblivious trees, as in Prokhorenkova et al. 2018, CatBoost), so that a guess is arithmetic without
 * branches. A tree is a Newton step (Chen and Guestrin 2016, XGBoost, which AutoTVM ranks with) down the loss
 * of search/lesson.h, from histograms of features over edges drawn from the samples. (On recorded landscapes,
 * the logistic loss of pairs weighted by their distance, and squared errors centred by task, rank no better.)
 *
 * It learns as samples come, one tree for every EACH samples. A new tree is fitted to the residuals that the
 * other trees of its sum leave (backfitting), and replaces the oldest tree, which was fitted to the fewest
 * samples. Most of a prior's trees stay. */
#include "search/cost.h"
#include "platform/base/rng.h"
#include "search/lesson.h"

#include <math.h>
#include <string.h>

enum {
	HEADS = 4,
	TREES = 64, /* in each head */
	KEPT = 48,  /* of those, trees that stay if they come from a prior */
	DEPTH = 5,
	LEAVES = 1 << DEPTH,
	EACH = 4,    /* samples for each new tree */
	BATCHES = 8, /* for each new tree */
	ROWS = BATCHES * BATCH,
	COLUMNS = 24, /* features that a tree may split by */
	STEPS = 4,
	BINS = 1 << STEPS,
	MOST_KNOWN = 4000 /* largest number of samples that a prior counts for */
};

#define RATE 0.15f    /* of a step */
#define RIDGE 0.04f   /* L2 regularisation, against leaves of few samples */
#define LIMIT 1.5f    /* largest correction, of log time */
#define UNIT 0x1p-18f /* of leaf values, which are at most RATE x FAR (search/lesson.c) = 0.06 */
#define NEVER 1e6f    /* above every feature */

struct tree {
	float at[DEPTH];      /* bits of a leaf's number, highest first: feature of[d] is above at[d] */
	int16_t leaf[LEAVES]; /* in UNIT */
	uint8_t of[DEPTH];
};

struct trees {
	struct tree tree[TREES][HEADS];
	struct evidence evidence;
	int next; /* tree to be replaced, by age */
	int kept; /* trees of each head that are never replaced */
	int owed; /* samples that no tree was made for yet */
	float trust;
	float made; /* number of samples that the prior was made of */
	struct rng rng;
};

_Static_assert(sizeof(struct trees) <= 64 << 10, "the state fits in 64 KB");

static struct tree no_tree(void)
{
	struct tree t = {{0}};
	for (int d = 0; d < DEPTH; d++) {
		t.of[d] = 1;
		t.at[d] = NEVER;
	}
	return t;
}

static void begin(struct trees *m, uint64_t seed)
{
	memset(m, 0, sizeof *m);
	rng_seed(&m->rng, seed + 13);
	evidence_init(&m->evidence);
	for (int t = 0; t < TREES; t++)
		for (int h = 0; h < HEADS; h++)
			m->tree[t][h] = no_tree();
}

/* ---- a prior's text: a tree is its questions (feature and threshold) and its leaves ---- */

enum { NUMBERS = 2 * DEPTH + LEAVES };

static int read_tree(struct prior *p, struct tree *t)
{
	float x[NUMBERS], *leaf = x + 2 * DEPTH;
	int rc = prior_read(p, "tree", x, NUMBERS);
	for (int d = 0; d < DEPTH && rc >= 0; d++) {
		if (!(x[2 * d] >= 1 && x[2 * d] < FEATURES))
			return fail(E_CORRUPT, "prior: line %d: %g is not the number of a feature", p->line,
				    (double)x[2 * d]);
		t->of[d] = (uint8_t)x[2 * d];
		t->at[d] = x[2 * d + 1];
	}
	for (int l = 0; l < LEAVES && rc >= 0; l++) {
		if (!(fabsf(leaf[l]) <= INT16_MAX))
			return fail(E_CORRUPT, "prior: line %d: %g is out of range for a leaf", p->line,
				    (double)leaf[l]);
		t->leaf[l] = (int16_t)leaf[l];
	}
	return rc;
}

static void write_tree(struct buf *out, const struct tree *t)
{
	float x[NUMBERS];
	for (int d = 0; d < DEPTH; d++) {
		x[2 * d] = t->of[d];
		x[2 * d + 1] = t->at[d];
	}
	for (int l = 0; l < LEAVES; l++)
		x[2 * DEPTH + l] = t->leaf[l];
	prior_write(out, "tree", x, NUMBERS);
}

static int read_prior(struct trees *m, const char *text, size_t n)
{
	struct prior p;
	int rc = prior_open(&p, text, n, "trees");
	if (rc >= 0)
		rc = prior_read(&p, "samples", &m->made, 1);
	for (int i = 0; i < TREES * HEADS && rc >= 0; i++)
		rc = read_tree(&p, &m->tree[i / HEADS][i % HEADS]);
	if (rc >= 0)
		rc = evidence_read(&m->evidence, &p);
	if (rc >= 0)
		rc = prior_end(&p);
	m->made = fminf(fmaxf(m->made, 0), MOST_KNOWN);
	m->trust = trust_of(m->made);
	m->kept = KEPT;
	return rc;
}

static int trees_start(struct arena *a, const char *prior, size_t n, uint64_t seed, void **state)
{
	struct trees *m = ARENA_NEW(a, struct trees);
	*state = m;
	begin(m, seed);
	int rc = n ? read_prior(m, prior, n) : E_OK;
	if (rc < 0)
		begin(m, seed);
	return rc;
}

static void trees_save(const void *state, struct buf *out)
{
	const struct trees *m = state;
	float made = trust_known(m->trust);
	prior_head(out, "trees");
	prior_write(out, "samples", &made, 1);
	for (int i = 0; i < TREES * HEADS; i++)
		write_tree(out, &m->tree[i / HEADS][i % HEADS]);
	evidence_write(&m->evidence, out);
}

/* ---- guessing ---- */

static int tree_value(const struct tree *t, const float f[FEATURES])
{
	int leaf = 0;
	for (int d = 0; d < DEPTH; d++)
		leaf = 2 * leaf + (f[t->of[d]] > t->at[d]);
	return t->leaf[leaf];
}

/* Sum of one head's trees, in UNIT. */
static int head_value(const struct trees *m, int h, const float f[FEATURES])
{
	int sum = 0;
	for (int t = 0; t < TREES; t++)
		sum += tree_value(&m->tree[t][h], f);
	return sum;
}

static float correction(const void *model, const float f[FEATURES], float *spread)
{
	const struct trees *m = model;
	float head[HEADS], mean = 0, square = 0;
	for (int h = 0; h < HEADS; h++) {
		head[h] = UNIT * (float)head_value(m, h, f);
		mean += head[h] / HEADS;
	}
	for (int h = 0; h < HEADS; h++)
		square += (head[h] - mean) * (head[h] - mean) / (HEADS - 1);
	*spread = square;
	return fminf(fmaxf(mean, -LIMIT), LIMIT);
}

static struct guess trees_guess(const void *state, const float f[FEATURES])
{
	const struct trees *m = state;
	float spread, c = correction(m, f, &spread);
	double sd = evidence_sd(&m->evidence, f), apart = fminf(m->trust * m->trust * spread, 1);
	return (struct guess){exp((double)(f[FEATURE_DRAFT] + m->trust * c)), sqrt(sd * sd + apart)};
}

/* ---- one tree ---- */

/* A feature quantised to bins: values of bin b are above b edges. */
struct column {
	int feature;
	float edge[BINS - 1]; /* ascending */
	uint8_t bin[ROWS];
};

struct rows {
	int n, ncols;
	const struct sample *s[ROWS];
	float slope[ROWS], curve[ROWS]; /* of the loss, with respect to the row's correction */
	uint8_t leaf[ROWS];
	struct column col[COLUMNS];
};

static void take_batch(struct rows *r, const struct trees *m, int h, const struct tree *without,
		       const struct lesson_batch *b)
{
	float have[BATCH];
	for (int i = 0; i < b->n; i++) {
		r->s[r->n + i] = b->s[i];
		have[i] = UNIT * (float)(head_value(m, h, b->s[i]->f) - tree_value(without, b->s[i]->f));
	}
	batch_pull(b, 1, have, r->slope + r->n, r->curve + r->n);
	r->n += b->n;
}

/* Draws edges from the rows' values, so that they are dense where rows are dense. */
static void put_edges(struct column *c, const struct rows *r, struct rng *rng)
{
	for (int b = 0; b < BINS - 1; b++) {
		float x = r->s[rng_below(rng, (uint32_t)r->n)]->f[c->feature];
		int at = b;
		for (; at > 0 && c->edge[at - 1] > x; at--)
			c->edge[at] = c->edge[at - 1];
		c->edge[at] = x;
	}
}

static void put_bins(struct column *c, const struct rows *r)
{
	for (int i = 0; i < r->n; i++) {
		float x = r->s[i]->f[c->feature];
		int bin = 0;
		for (int step = BINS / 2; step; step /= 2)
			bin += step * (x > c->edge[bin + step - 1]);
		c->bin[i] = (uint8_t)bin;
	}
}

static bool varies(const struct rows *r, int feature)
{
	for (int i = 1; i < r->n; i++)
		if (r->s[i]->f[feature] != r->s[0]->f[feature])
			return true;
	return false;
}

/* Fills the columns with features drawn at random, without those that do not vary. */
static void put_columns(struct rows *r, struct rng *rng)
{
	int left[FEATURES], n = FEATURES - 1;
	for (int i = 0; i < n; i++)
		left[i] = i + 1;
	for (r->ncols = 0; n && r->ncols < COLUMNS; n--) {
		int k = (int)rng_below(rng, (uint32_t)n);
		struct column *c = &r->col[r->ncols];
		c->feature = left[k];
		left[k] = left[n - 1];
		if (!varies(r, c->feature))
			continue;
		put_edges(c, r, rng);
		put_bins(c, r);
		r->ncols++;
	}
}

struct sums {
	float slope, curve;
};

/* Twice the decrease of the loss by a leaf's own Newton step. */
static float worth(struct sums s)
{
	return s.slope * s.slope / (s.curve + RIDGE);
}

/* Adds, for each edge, the gain of splitting one leaf there. */
static void add_gains(const struct sums bin[BINS], float gain[BINS - 1])
{
	struct sums all = {0}, low = {0};
	for (int b = 0; b < BINS; b++)
		all = (struct sums){all.slope + bin[b].slope, all.curve + bin[b].curve};
	if (all.curve == 0)
		return;
	float own = worth(all);
	for (int b = 0; b < BINS - 1; b++) {
		low = (struct sums){low.slope + bin[b].slope, low.curve + bin[b].curve};
		gain[b] +=
		    worth(low) + worth((struct sums){all.slope - low.slope, all.curve - low.curve}) - own;
	}
}

/* The edge of a column with the largest gain, at a level of `leaves` leaves. */
static float best_edge(const struct rows *r, const struct column *c, int leaves, int *edge)
{
	struct sums hist[LEAVES / 2][BINS];
	float gain[BINS - 1] = {0};
	memset(hist, 0, sizeof hist[0] * (size_t)leaves);
	for (int i = 0; i < r->n; i++) {
		struct sums *s = &hist[r->leaf[i]][c->bin[i]];
		s->slope += r->slope[i];
		s->curve += r->curve[i];
	}
	for (int l = 0; l < leaves; l++)
		add_gains(hist[l], gain);
	*edge = 0;
	for (int b = 1; b < BINS - 1; b++)
		*edge = gain[b] > gain[*edge] ? b : *edge;
	return gain[*edge];
}

static void ask(struct rows *r, struct tree *t, int d)
{
	const struct column *best = NULL;
	float most = 0;
	int at = 0, edge;
	for (int k = 0; k < r->ncols; k++) {
		float gain = best_edge(r, &r->col[k], 1 << d, &edge);
		if (gain <= most)
			continue;
		most = gain;
		best = &r->col[k];
		at = edge;
	}
	if (best) {
		t->of[d] = (uint8_t)best->feature;
		t->at[d] = best->edge[at];
	}
	for (int i = 0; i < r->n; i++)
		r->leaf[i] = (uint8_t)(2 * r->leaf[i] + (best && best->bin[i] > at));
}

static struct tree grow(struct rows *r)
{
	struct tree t = no_tree();
	struct sums leaf[LEAVES] = {{0}};
	memset(r->leaf, 0, sizeof r->leaf);
	for (int d = 0; d < DEPTH; d++)
		ask(r, &t, d);
	for (int i = 0; i < r->n; i++) {
		leaf[r->leaf[i]].slope += r->slope[i];
		leaf[r->leaf[i]].curve += r->curve[i];
	}
	for (int l = 0; l < LEAVES; l++) {
		float step = -RATE / UNIT * leaf[l].slope / (leaf[l].curve + RIDGE);
		t.leaf[l] = (int16_t)fminf(fmaxf(step, -INT16_MAX), INT16_MAX);
	}
	return t;
}

/* ---- learning ---- */

static void replace(struct trees *m, const struct lesson *l, struct rows *r)
{
	int h = m->next % HEADS, turn = m->next / HEADS;
	struct tree *old = &m->tree[m->kept + turn % (TREES - m->kept)][h];
	r->n = 0;
	for (int i = 0; i < BATCHES; i++) {
		struct lesson_batch b;
		lesson_draw(l, &m->rng, &b);
		if (b.n > 1)
			take_batch(r, m, h, old, &b);
	}
	if (!r->n)
		return;
	put_columns(r, &m->rng);
	*old = grow(r);
	m->next = (m->next + 1) % (HEADS * (TREES - m->kept));
}

static void trees_learn(void *state, const struct sample *s, int n, int fresh)
{
	struct trees *m = state;
	struct arena a = {0};
	struct lesson l = lesson_make(&a, s, n);
	struct rows *r = ARENA_NEW(&a, struct rows);
	lesson_witness(&m->evidence, &a, s + n - fresh, fresh, correction, m, m->trust);
	for (m->owed += fresh; m->owed >= EACH; m->owed -= EACH)
		replace(m, &l, r);
	m->trust = lesson_trust(m->made, &l);
	arena_free(&a);
}

const struct cost cost_trees = {
    .name = "trees",
    .start = trees_start,
    .learn = trees_learn,
    .guess = trees_guess,
    .save = trees_save,
};
