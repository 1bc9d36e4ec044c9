/* SPDX-License-Identifier: Apache-2.0 */
/* Puts kernels of a model for an OpenCL device into a cache, made without a driver. */
#ifndef TESTS_KEPT_KERNELS_H
#define TESTS_KEPT_KERNELS_H

#include "agent/cache/chosen.h"
#include "agent/cache/kept_code.h"
#include "kernels/group/group.h"
#include "kernels/onnx/import.h"
#include "tests/lib/opencl_code.h"
#include "tests/lib/test.h"

static inline int keep_kernel(struct cache *c, const struct task *t, const struct target *target,
			      const char *word, int *has_word)
{
	struct arena a = {0};
	struct rec r = {.kind = REC_BEST,
			.target_key = target_key(target),
			.threads = 1,
			.level = LEVEL_FP32,
			.meas = {.runs = 9, .min_ns = 1000, .median_ns = 1000, .threads = 1},
			.label = "conv"};
	struct code code;
	struct buf text = {0}, bytes = {0};
	memset(&code, 0, sizeof code);
	task_text(t, &text);
	int rc = opencl_code(t, target, &a, r.cand, &code);
	code_bytes(&code, &bytes);
	r.task = hash_text(buf_str(&text));
	r.task_text = buf_str(&text);
	target_label(target, r.target);
	snprintf(r.device, sizeof r.device, "%s", target_device(target));
	snprintf(r.emitter, sizeof r.emitter, "%s", code.m.version);
	*has_word += rc >= 0 && memmem(code.object.p, code.object.n, word, strlen(word));
	if (rc >= 0)
		rc = kept_code_put(c, &r, (struct blob){.p = buf_str(&bytes), .n = bytes.n});
	if (rc >= 0)
		rc = cache_put_rec(c, &r);
	buf_free(&text);
	buf_free(&bytes);
	arena_free(&a);
	return rc;
}

struct keep {
	const char *path, *model; /* of the cache, and of the file */
	const struct target *target;
	bool bytes; /* with operators on bytes among them */
	int most;   /* kernels */
	const char *word;
	int has_word; /* out: of how many kernels the source contains the word */
};

/* Puts default schedules of a model's tasks into a cache. Returns their number. */
static inline int keep_kernels(struct keep *k)
{
	struct graph *g;
	struct steps *s;
	struct choices choices;
	struct cache *c;
	struct arena a = {0};
	const struct import_opts none = {0};
	int kept = 0;
	k->has_word = 0;
	CHECK_OK(cache_open(&c, k->path, false, 0));
	CHECK_OK(import_file(k->model, &none, &g));
	const struct chosen_for f = {c, k->target, 1, LEVEL_FP32};
	CHECK_OK(chosen_steps(&f, g, &a, &choices, &s));
	if (k->bytes) {
		choices_set(&choices, &a, CHOICE_BYTES, CHOICE_ALL, 1);
		CHECK_OK(chosen_divide(k->target, NULL, 0, g, &a, &choices, &s));
		CHECK_OK(chosen_save(&f, g, &choices));
	}
	for (int i = 0; i < s->nsteps; i++)
		if (s->step[i].kind == STEP_TASK && !s->step[i].fused && kept < k->most) {
			CHECK_OK(keep_kernel(c, s->step[i].task, k->target, k->word, &k->has_word));
			kept++;
		}
	cache_close(c);
	graph_free(g);
	arena_free(&a);
	return kept;
}

#endif
