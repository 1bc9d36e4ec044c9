/* SPDX-License-Identifier: Apache-2.0 */
/* Cost models: each that learns finds a made-up correction of the draft and ranks tasks by it that it never
 * saw, is surer where there were samples, keeps to its 64 KB, repeats exactly, and takes no harm from hostile
 * priors. */
#include "search/cost.h"
#include "search/learn.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

#include <math.h>

enum { TASKS = 6, OF_TASK = 120, SAMPLES = TASKS * OF_TASK };

/* Draws a candidate of a task: half of its features are common to the whole task. */
static struct sample draw(struct rng *r, int task)
{
	struct sample s = {.task = task};
	struct rng like;
	rng_seed(&like, (uint64_t)task + 100);
	s.f[FEATURE_DRAFT] = (float)(8 + 4 * rng_unit(&like) + rng_unit(r));
	for (int i = 1; i < FEATURES; i++)
		s.f[i] = (float)rng_unit(i % 2 ? r : &like);
	return s;
}

/* The error of the draft in this made-up world. */
static float made_up(const float f[FEATURES])
{
	return .8f * f[FEATURE_ISSUE] - 1.2f * f[FEATURE_LATENCY] * f[FEATURE_LOAD] +
	       1.5f * fmaxf(0, f[FEATURE_SPILL] - .6f);
}

static void world(struct sample s[SAMPLES], int first_task, uint64_t seed)
{
	struct rng r;
	rng_seed(&r, seed);
	for (int i = 0; i < SAMPLES; i++) {
		s[i] = draw(&r, first_task + i % TASKS);
		s[i].log_ratio = made_up(s[i].f) + .3f * (float)s[i].task + .02f * (float)rng_normal(&r);
	}
}

static bool learns(const struct cost *c, void *state)
{
	struct buf b = {0};
	c->save(state, &b);
	bool any = b.n > 0;
	buf_free(&b);
	return any;
}

/* Share of the pairs of a task's candidates, more than 5 % apart, that are in the right order. c NULL: the
 * draft's order. */
static double right(const struct cost *c, const void *state, const struct sample *s, int n)
{
	int good = 0, all = 0;
	for (int i = 0; i < n; i++)
		for (int k = 0; k < i; k++) {
			float d = s[i].f[0] + s[i].log_ratio - s[k].f[0] - s[k].log_ratio;
			if (s[i].task != s[k].task || fabsf(d) < .05f)
				continue;
			double a = c ? log(c->guess(state, s[i].f).ns) : (double)s[i].f[0],
			       b = c ? log(c->guess(state, s[k].f).ns) : (double)s[k].f[0];
			good += (a > b) == (d > 0);
			all++;
		}
	return (double)good / all;
}

struct model {
	int next;
	const struct cost *c;
	void *state;
	struct arena a;
};

/* Opens each cost model in turn, without a prior. */
static bool model_next(struct model *m)
{
	arena_free(&m->a);
	m->a = (struct arena){0};
	m->c = cost_table[m->next++];
	if (m->c)
		CHECK_OK(m->c->start(&m->a, NULL, 0, 1, &m->state));
	return m->c && !test_bad;
}

/* Teaches in slices, as a job does: each sample comes `times` times, and no earlier sample is dropped. */
static void teach(const struct cost *c, void *state, const struct sample *s, int n, int times)
{
	struct sample *all = malloc(sizeof *s * (size_t)(n * times));
	for (int i = 0; i < times; i++)
		memcpy(all + i * n, s, sizeof *s * (size_t)n);
	n *= times;
	for (int at = 0; at < n; at += 24)
		c->learn(state, all, at + 24 < n ? at + 24 : n, at + 24 < n ? 24 : n - at);
	free(all);
}

TEST(table_and_find)
{
	CHECK(cost_find("draft") && cost_find("none"));
	CHECK(cost_find("mlp") && cost_find("trees"));
	CHECK(!cost_find("") && !cost_find("oracle"));
}

TEST(learns_what_holds_for_other_tasks)
{
	static struct sample seen[SAMPLES], other[SAMPLES];
	world(seen, 0, 1);
	world(other, TASKS, 2);
	for (struct model m = {0}; model_next(&m);) {
		if (learns(m.c, m.state)) {
			teach(m.c, m.state, seen, SAMPLES, 10);
			double draft = right(NULL, NULL, other, SAMPLES),
			       model = right(m.c, m.state, other, SAMPLES);
			if (model < draft + .1)
				printf("%s: %.3f, the draft %.3f\n", m.c->name, model, draft);
			CHECK(model >= draft + .1 && model > .85);
			CHECK(right(m.c, m.state, seen, SAMPLES) > .87);
		}
		CHECK(m.a.used_bytes <= 64 << 10);
	}
}

/* With few samples, or all of one task, the draft's order stays. */
TEST(little_evidence_leaves_the_draft)
{
	static struct sample s[SAMPLES];
	world(s, 0, 1);
	for (struct model m = {0}; model_next(&m);) {
		if (learns(m.c, m.state)) {
			teach(m.c, m.state, s, 60, 1);
			for (int k = 0; k < SAMPLES; k++)
				CHECK(fabs(log(m.c->guess(m.state, s[k].f).ns) - (double)s[k].f[0]) < 1e-3);
		}
	}
}

TEST(surer_where_there_were_samples)
{
	static struct sample s[SAMPLES];
	world(s, 0, 1);
	for (struct model m = {0}; model_next(&m);) {
		float far[FEATURES];
		double before = m.c->guess(m.state, s[0].f).sd;
		CHECK(before > 0 && before <= 1);
		if (learns(m.c, m.state)) {
			memcpy(far, s[0].f, sizeof far);
			far[FEATURE_WINO_RAW] = far[FEATURE_WINO_BLOCK] = 4;
			teach(m.c, m.state, s, SAMPLES, 4);
			double after = m.c->guess(m.state, s[0].f).sd, unknown = m.c->guess(m.state, far).sd;
			if (after > .6 * before || unknown < 2 * after)
				printf("%s: %.3f, then %.3f, far %.3f\n", m.c->name, before, after, unknown);
			CHECK(after < .6 * before);
			CHECK(unknown > 2 * after);
		}
	}
}

TEST(seeded)
{
	static struct sample s[SAMPLES];
	world(s, 0, 1);
	for (int i = 0; cost_table[i]; i++) {
		const struct cost *c = cost_table[i];
		struct buf text[2] = {{0}};
		struct arena a = {0};
		for (int k = 0; k < 2; k++) {
			void *state;
			REQUIRE_OK(c->start(&a, NULL, 0, 7, &state));
			teach(c, state, s, SAMPLES, 1);
			c->save(state, &text[k]);
		}
		CHECK(!strcmp(buf_str(&text[0]), buf_str(&text[1])));
		buf_free(&text[0]);
		buf_free(&text[1]);
		arena_free(&a);
	}
}

/* A model that starts from a saved prior makes the same guesses as the saved model. */
TEST(priors_go_around)
{
	static struct sample s[SAMPLES];
	world(s, 0, 1);
	for (int i = 0; cost_table[i]; i++) {
		const struct cost *c = cost_table[i];
		struct arena a = {0};
		struct buf text = {0};
		void *first, *second;
		REQUIRE_OK(c->start(&a, NULL, 0, 1, &first));
		teach(c, first, s, SAMPLES, 8);
		c->save(first, &text);
		REQUIRE_OK(c->start(&a, text.p, text.n, 2, &second));
		if (text.n) {
			CHECK(right(c, second, s, SAMPLES) > .85);
			CHECK_FAILS(c->start(&a, "hone-prior x features=2 set=1\n", 30, 1, &second),
				    E_UNSUPPORTED, "another cost model");
		}
		buf_free(&text);
		arena_free(&a);
	}
}

/* A prior that is cut anywhere, or with any byte changed, is refused or makes a model with finite guesses. */
TEST(hostile_priors)
{
	static struct sample s[SAMPLES];
	world(s, 0, 1);
	for (struct model m = {0}; model_next(&m);) {
		struct buf text = {0};
		struct rng r;
		teach(m.c, m.state, s, SAMPLES, 1);
		m.c->save(m.state, &text);
		rng_seed(&r, 5);
		for (int k = 0; k < 1000 && text.n; k++) {
			size_t n = text.n, at = rng_below(&r, (uint32_t)n);
			char *bad = arena_memdup(&m.a, text.p, n);
			if (k % 4 == 0)
				n = at;
			else
				bad[at] = "0123456789e+- \n#.\0x"[rng_below(&r, 19)];
			int rc = m.c->start(&m.a, bad, n, 1, &m.state);
			CHECK(rc == E_OK || rc == E_CORRUPT || rc == E_UNSUPPORTED);
			m.c->learn(m.state, s, 48, 2);
			struct guess g = m.c->guess(m.state, s[k % SAMPLES].f);
			CHECK(isfinite(g.ns) && g.ns > 0 && g.sd > 0 && g.sd <= 2);
			if (k % 50 == 0)
				arena_reset(&m.a);
		}
		buf_free(&text);
	}
}

/* Replaces the n-th number of a line that begins with `word`. */
static char *with_number(struct arena *a, const char *text, const char *word, int n, const char *number)
{
	const char *at = strstr(text, word);
	for (int i = 0; i < n; i++)
		at = strchr(at, ' ') + 1;
	return arena_printf(a, "%.*s%s%s", (int)(at - text), text, number, at + strcspn(at, " \n"));
}

TEST(trees_ask_of_features_only)
{
	const struct cost *c = cost_find("trees");
	struct arena a = {0};
	struct buf text = {0};
	void *state;
	REQUIRE_OK(c->start(&a, NULL, 0, 1, &state));
	c->save(state, &text);
	static const char *const bad[] = {"0", "-1", "0.5", "1000", "1e6"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char *t = with_number(&a, buf_str(&text), "\ntree", 1, bad[i]);
		CHECK_FAILS(c->start(&a, t, strlen(t), 1, &state), E_CORRUPT,
			    "is not the number of a feature");
	}
	char *good = with_number(&a, buf_str(&text), "\ntree", 1, "2");
	CHECK_OK(c->start(&a, good, strlen(good), 1, &state));
	char *heavy = with_number(&a, buf_str(&text), "\ntree", 12, "40000");
	CHECK_FAILS(c->start(&a, heavy, strlen(heavy), 1, &state), E_CORRUPT, "out of range for a leaf");
	char *wide = with_number(&a, buf_str(&text), "\ntree", 2, "nan");
	CHECK_FAILS(c->start(&a, wide, strlen(wide), 1, &state), E_CORRUPT, "numbers");
	buf_free(&text);
	arena_free(&a);
}

/* On other tasks, errors are about as large as the predicted deviations. */
TEST(deviations_mean_something)
{
	static struct sample seen[SAMPLES], other[SAMPLES];
	world(seen, 0, 1);
	world(other, TASKS, 2);
	for (struct model m = {0}; model_next(&m);) {
		double mean[TASKS] = {0}, error[SAMPLES], sum = 0;
		teach(m.c, m.state, seen, SAMPLES, 4);
		for (int k = 0; k < SAMPLES; k++) {
			error[k] = log(m.c->guess(m.state, other[k].f).ns) -
				   (double)(other[k].f[0] + other[k].log_ratio);
			mean[k % TASKS] += error[k] / OF_TASK;
		}
		for (int k = 0; k < SAMPLES; k++) {
			double x = (error[k] - mean[k % TASKS]) / m.c->guess(m.state, other[k].f).sd;
			sum += x * x / SAMPLES;
		}
		if (learns(m.c, m.state) && !(sum < 4 && sum > .1))
			printf("%s: %.3f\n", m.c->name, sqrt(sum));
		CHECK(!learns(m.c, m.state) || (sum < 4 && sum > .1));
	}
}

/* ---- the job's memory of samples ---- */

static struct space *conv_space(struct arena *a)
{
	static const struct target tg = {.isa = "sim", .lanes = 4, .regs = 16, .fma = true, .cores = 1};
	struct task *t = ARENA_NEW(a, struct task);
	struct space *s = NULL;
	CHECK_OK(task_parse(task_conv, t));
	CHECK_OK(space_make(a, t, &tg, NULL, &s));
	return s;
}

TEST(memory_keeps_all_tasks)
{
	struct arena a = {0};
	struct learn l;
	struct rng r;
	int have[3] = {0};
	char cand[CAND_MAX];
	float f[FEATURES];
	struct space *s = conv_space(&a);
	rng_seed(&r, 1);
	REQUIRE_OK(learn_open(&l, 3, "none", NULL, 0, 1));
	const struct meas ok = {.status = MEAS_OK, .min_ns = 1000},
			  slow = {.status = MEAS_ABORTED, .min_ns = 9000}, spill = {.status = MEAS_SPILL},
			  never = {.status = MEAS_OK};
	space_default(s, cand);
	space_features(s, cand, f);
	learn_add(&l, 0, f, &spill);
	learn_add(&l, 0, f, &never);
	CHECK(l.n == 0 && l.fresh == 0);
	learn_add(&l, 0, f, &slow);
	CHECK(l.n == 1 && fabsf(l.sample[0].f[FEATURE_DRAFT] + l.sample[0].log_ratio - logf(9000)) < 1e-3f);
	for (int i = 0; i < LEARN_MAX + 500; i++) {
		CHECK_OK(space_random(s, &r, cand));
		space_features(s, cand, f);
		learn_add(&l, i < 50 ? 1 : 2, f, &ok);
	}
	CHECK(l.n == LEARN_MAX && l.fresh <= l.n);
	for (int i = 0; i < l.n; i++)
		have[l.sample[i].task]++;
	CHECK(have[0] == 1 && have[1] == 50 && have[2] == LEARN_MAX - 51);
	learn_fit(&l);
	CHECK(l.fresh == 0);
	learn_close(&l);
	arena_free(&a);
}

TEST(a_refused_prior_is_left_out)
{
	float f[FEATURES] = {9};
	static const char *const models[] = {"mlp", "trees"};
	for (int i = 0; i < 2; i++) {
		struct learn l;
		REQUIRE_OK(learn_open(&l, 1, models[i], "junk\n", 5, 1));
		CHECK(fabs(log(l.cost->guess(l.model, f).ns) - 9) < 1e-3);
		learn_close(&l);
	}
}

TEST(an_unknown_model_is_named)
{
	struct learn l;
	CHECK_FAILS(learn_open(&l, 1, "oracle", NULL, 0, 1), E_USAGE, "oracle");
	learn_close(&l);
}

TEST_MAIN
