/* SPDX-License-Identifier: Apache-2.0 */
/* Checks strangers' candidates as text: a candidate that is not a schedule of its task never reaches a
 * worker. */
#ifndef AGENT_CAND_H
#define AGENT_CAND_H

#include "platform/base/err.h"

/* E_CORRUPT: the text is not a task or has symbols, or the candidate is not a schedule of it as sched_text
 * (kernels/space/sched.h) writes it. The board's space decides later whether the board can build it. */
int cand_check(const char *task_text, const char *cand) MUST_CHECK;

#endif
