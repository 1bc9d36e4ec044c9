/* SPDX-License-Identifier: Apache-2.0 */
/* Code of a task's default schedule, or of one with a certain key, for an OpenCL device, made without a
 * driver. */
#ifndef TESTS_OPENCL_CODE_H
#define TESTS_OPENCL_CODE_H

#include "kernels/emit/emit.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"

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
	rc = lower(t, cand, target, a, &l, &out->m);
	snprintf(out->m.emitter, sizeof out->m.emitter, "%s", e->name);
	snprintf(out->m.version, sizeof out->m.version, "%s", e->version());
	return rc < 0 ? rc : e->emit(l, target, a, &out->object);
}

static inline int opencl_code(const struct task *t, const struct target *target, struct arena *a,
			      char cand[CAND_MAX], struct code *out)
{
	return opencl_code_with(t, target, a, NULL, cand, out);
}

#endif
