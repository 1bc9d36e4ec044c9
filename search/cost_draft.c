/* SPDX-License-Identifier: Apache-2.0 */
/* The analytical draft without any correction. */
#include "search/cost.h"

#include <math.h>

/* Standard deviation of log(measured / drafted): half of all candidates lie within about this of their
 * draft. */
#define DRAFT_SD 0.25

static int draft_start(struct arena *a, const char *prior, size_t n, uint64_t seed, void **state)
{
	(void)a, (void)prior, (void)n, (void)seed;
	*state = NULL;
	return E_OK;
}

static void draft_learn(void *state, const struct sample *s, int n, int fresh)
{
	(void)state, (void)s, (void)n, (void)fresh;
}

static struct guess draft_guess(const void *state, const float f[FEATURES])
{
	(void)state;
	return (struct guess){exp((double)f[FEATURE_DRAFT]), DRAFT_SD};
}

static void draft_save(const void *state, struct buf *out)
{
	(void)state, (void)out;
}

const struct cost cost_draft = {
    .name = "draft",
    .start = draft_start,
    .learn = draft_learn,
    .guess = draft_guess,
    .save = draft_save,
};
