/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/cand.h"

#include "kernels/space/sched.h"

#include <stdlib.h>
#include <string.h>

struct parsed {
	struct task task;
	struct sched sched;
	char again[CAND_MAX];
};

int cand_check(const char *task_text, const char *cand)
{
	struct parsed *p = malloc(sizeof *p);
	if (!p)
		return fail(E_NOMEM, "no memory for a task");
	int rc = task_parse(task_text, &p->task);
	struct arena a = {0};
	const struct task *view = rc >= 0 ? task_view(&a, &p->task, cand) : NULL;
	bool good = rc >= 0 && !p->task.nsyms && sched_parse(view, cand, &p->sched) >= 0 &&
		    sched_text(view, &p->sched, p->again) >= 0 && !strcmp(p->again, cand);
	arena_free(&a);
	free(p);
	return good     ? E_OK
	       : rc < 0 ? fail(E_CORRUPT, "its task is not valid")
			: fail(E_CORRUPT, "its candidate is not a schedule of its task");
}
