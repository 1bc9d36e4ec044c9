/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any text as a task, and any text as a schedule for it: "TASK@CAND". A refused task is replaced by a
 * fixed one, so that the schedule's parser is reached either way. A legal schedule is lowered, and its loops
 * are checked. */
#include "kernels/loops/loops.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fuzz_target.h"
#include "tests/lib/tasks.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void try_cand(const struct task *t, const char *cand)
{
	struct arena a = {.cap_bytes = (size_t)1 << 30};
	struct space *s;
	struct loops *l;
	struct manifest m;
	if (space_make(&a, t, &fuzz_target, NULL, &s) >= 0 && space_legal(s, cand) >= 0 && task_flops(t) < 1e7 &&
	    lower(t, cand, &fuzz_target, &a, &l, &m) >= 0 && loops_check(l) < 0)
		abort();
	arena_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct arena a = {0};
	char *text = arena_strndup(&a, (const char *)p, n), *cand = strchr(text, '@');
	struct task *t = ARENA_NEW(&a, struct task);
	if (cand)
		*cand++ = 0;
	if (task_parse(text, t) < 0 && task_parse(task_conv, t) < 0)
		abort();
	try_cand(t, cand ? cand : "");
	arena_free(&a);
	return 0;
}
