/* SPDX-License-Identifier: Apache-2.0 */
/* Code of a task's default schedule, or of one with a certain key, for an OpenCL device, made without a
 * driver. */
#ifndef TESTS_OPENCL_CODE_H
#define TESTS_OPENCL_CODE_H

#include "kernels/emit/emit.h"
#include "kernels/loops/lower.h"
#include "kernels/space/sched.h"

#include <stdio.h>
#include <string.h>

/* The first schedule of the portfolio that has the key; the default if none has, or if it is NULL. */
static inline void opencl_cand(const struct space *s, const char *key, char cand[CAND_MAX])
{
	for (int at = 0; key && space_portfolio(s, &at, cand) >= 0;)
		if (strstr(cand, key))
			return;
	space_default(s, cand);
}

/* Makes a candidate of a single stage whose weights are a texture: the given one, or a plain one whose lanes
 * lie along the weights. The candidate stays as it is if the task has none. */
static inline int opencl_textures(const struct task *t, const struct target *target, struct arena *a,
				  char cand[CAND_MAX])
{
	struct sched c;
	const struct task *view = task_view(a, t, cand);
	const struct stage *st = &view->stage[0];
	int rc = sched_parse(view, cand, &c), par = c.st[0].par;
	for (int axis = -1; rc >= 0 && view->nstages == 1 && axis < stage_spatial(st); axis++) {
		if (axis >= 0) {
			sched_init(view, &c);
			c.st[0].lane = axis;
			c.st[0].lanes = 4;
			c.st[0].par = par;
		}
		c.st[0].texture = true;
		if (sched_check(view, target, &c) >= 0)
			return sched_text(view, &c, cand);
	}
	return rc;
}

static inline int opencl_code_with(const struct task *t, const struct target *target, struct arena *a,
				   const char *key, char cand[CAND_MAX], struct code *out)
{
	struct space *space;
	struct loops *l;
	const struct emit *e = emit_find("opencl");
	const struct space_want want = {.threads = 1};
	int rc = space_make(a, t, target, &want, &space);
	if (rc < 0)
		return rc;
	opencl_cand(space, key, cand);
	rc = key && !strcmp(key, "texture=1") ? opencl_textures(t, target, a, cand) : E_OK;
	if (rc >= 0)
		rc = lower(t, cand, target, a, &l, &out->m);
	if (rc < 0)
		return rc;
	snprintf(out->m.emitter, sizeof out->m.emitter, "%s", e->name);
	snprintf(out->m.version, sizeof out->m.version, "%s", e->version());
	return e->emit(l, target, a, &out->object);
}

static inline int opencl_code(const struct task *t, const struct target *target, struct arena *a,
			      char cand[CAND_MAX], struct code *out)
{
	return opencl_code_with(t, target, a, NULL, cand, out);
}

#endif
