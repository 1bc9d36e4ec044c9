/* SPDX-License-Identifier: Apache-2.0 */
#include "search/lesson.h"
#include "tests/lib/test.h"

#include <math.h>

enum { TASKS = 4, SAMPLES = 90, HEADS = 3 };

static void fill(struct sample s[SAMPLES])
{
	struct rng r;
	rng_seed(&r, 3);
	for (int i = 0; i < SAMPLES; i++) {
		s[i] = (struct sample){.task = i < 60 ? 0 : i < 88 ? 2 : 3};
		s[i].f[FEATURE_DRAFT] = 5 + (float)rng_unit(&r);
		s[i].log_ratio = (float)rng_normal(&r) * .3f;
	}
}

static float log_ns(const struct sample *s)
{
	return s->f[FEATURE_DRAFT] + s->log_ratio;
}

TEST(samples_by_task)
{
	static struct sample s[SAMPLES];
	struct arena a = {0};
	fill(s);
	struct lesson l = lesson_make(&a, s, SAMPLES);
	CHECK(l.ntasks == TASKS && l.n == SAMPLES);
	static const int first[] = {0, 60, 60, 88, 90};
	for (int t = 0; t <= TASKS; t++)
		CHECK(l.first[t] == first[t]);
	for (int t = 0; t < TASKS; t++)
		for (int i = l.first[t]; i < l.first[t + 1]; i++)
			CHECK(s[l.at[i]].task == t && log_ns(&s[l.at[i]]) >= l.best[t]);
	struct lesson none = lesson_make(&a, s, 0);
	CHECK(none.ntasks == 0 && lesson_trust(0, &none) == 0 && lesson_noise(.1f, &none, NULL) == .1f);
	arena_free(&a);
}

TEST(batches_are_of_one_task)
{
	static struct sample s[SAMPLES];
	struct arena a = {0};
	struct rng r;
	int had[TASKS] = {0};
	fill(s);
	rng_seed(&r, 1);
	struct lesson l = lesson_make(&a, s, SAMPLES);
	for (int i = 0; i < 900; i++) {
		struct lesson_batch b;
		lesson_draw(&l, &r, &b);
		int t = b.s[0]->task, all = l.first[t + 1] - l.first[t];
		CHECK(b.n == (all < BATCH ? all : BATCH));
		for (int k = 0; k < b.n; k++) {
			CHECK(b.s[k]->task == t && b.weight[k] > 0 && b.weight[k] <= 1);
			CHECK((b.weight[k] == 1) == (log_ns(b.s[k]) == l.best[t]));
		}
		had[t]++;
	}
	CHECK(had[0] > 500 && had[2] > 200 && had[3] > 5 && had[1] == 0);
	arena_free(&a);
}

/* The loss whose gradient batch_pull() computes, for one head. */
static double loss(const struct lesson_batch *b, const float *have, int heads, int h)
{
	double sum = 0;
	for (int i = 0; i < b->n; i++)
		for (int k = 0; k < i; k++) {
			double e = (double)(have[i * heads + h] - have[k * heads + h] - b->s[i]->log_ratio +
					    b->s[k]->log_ratio),
			       x = fabs(e) < .4 ? e * e / 2 : .4 * fabs(e) - .08;
			sum += x * (double)fmaxf(b->weight[i], b->weight[k]) * 2 / (b->n * (b->n - 1));
		}
	return sum;
}

TEST(pulls_go_down_the_loss)
{
	static struct sample s[SAMPLES];
	struct arena a = {0};
	struct rng r;
	struct lesson_batch b;
	float have[BATCH * HEADS], slope[BATCH * HEADS], curve[BATCH];
	fill(s);
	rng_seed(&r, 1);
	struct lesson l = lesson_make(&a, s, SAMPLES);
	lesson_draw(&l, &r, &b);
	for (int i = 0; i < b.n * HEADS; i++)
		have[i] = (float)rng_normal(&r) * .2f;
	batch_pull(&b, HEADS, have, slope, curve);
	for (int h = 0; h < HEADS; h++) {
		double sum = 0;
		for (int i = 0; i < b.n; i++) {
			float *x = &have[i * HEADS + h], was = *x;
			*x = was + .01f;
			double up = loss(&b, have, HEADS, h);
			*x = was - .01f;
			double down = loss(&b, have, HEADS, h), got = (double)slope[i * HEADS + h];
			*x = was;
			double second = (up + down - 2 * loss(&b, have, HEADS, h)) / 1e-4;
			CHECK(fabs((up - down) / .02 - got) < 2e-3);
			CHECK(second < (double)curve[i] * 1.05 + 1e-3 && curve[i] > 0);
			sum += got;
		}
		CHECK(fabs(sum) < 1e-5);
	}
	arena_free(&a);
}

TEST(trust_comes_with_samples_of_several_tasks)
{
	static struct sample s[600];
	struct arena a = {0};
	for (int i = 0; i < 600; i++)
		s[i] = (struct sample){.task = i < 300 ? i % 3 : 0};
	struct lesson few = lesson_make(&a, s, 100), many = lesson_make(&a, s, 300),
		      one = lesson_make(&a, s + 300, 300);
	CHECK(lesson_trust(0, &few) == 0 && lesson_trust(0, &one) == 0);
	CHECK(lesson_trust(0, &many) > .4f && lesson_trust(1000, &many) > lesson_trust(0, &many));
	CHECK(lesson_trust(1000, &one) == trust_of(1000));
	CHECK(fabsf(trust_known(trust_of(1000)) - 1000) < 1 && trust_known(trust_of(0)) == 0);
	arena_free(&a);
}

TEST(noise_is_what_is_left_within_tasks)
{
	static struct sample s[4000];
	static float left[4000];
	struct arena a = {0};
	struct rng r;
	rng_seed(&r, 2);
	for (int i = 0; i < 4000; i++) {
		s[i].task = i % 5;
		left[i] = (float)s[i].task + .1f * (float)rng_normal(&r);
	}
	struct lesson l = lesson_make(&a, s, 4000), little = lesson_make(&a, s, 10),
		      alone = lesson_make(&a, s, 5);
	CHECK(fabsf(lesson_noise(.5f, &alone, left) - .5f) < 1e-3f);
	float some = lesson_noise(.5f, &little, left), all = .5f;
	for (int i = 0; i < 3; i++)
		all = lesson_noise(all, &l, left);
	CHECK(some < .5f && some > .45f && fabsf(all - .1f) < .02f);
	for (int i = 0; i < 4000; i++)
		left[i] = i % 2 ? 1e30f : -1e30f;
	CHECK(lesson_noise(.5f, &l, left) < 3);
	for (int i = 0; i < 4000; i++)
		left[i] = 0;
	for (int i = 0; i < 20; i++)
		all = lesson_noise(all, &l, left);
	CHECK(all > 0 && all < .03f);
	arena_free(&a);
}

TEST_MAIN
