/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates of strangers as text: what is no schedule of its task never gets near a worker. */
#ifndef AGENT_CAND_H
#define AGENT_CAND_H

#include "platform/base/err.h"

/* E_CORRUPT: the text is no task or one with symbols, or the candidate is not a schedule of it as sched_text
 * (kernels/space/sched.h) writes it. Whether a board can build it, its space decides. */
int cand_check(const char *task_text, const char *cand) MUST_CHECK;

#endif
