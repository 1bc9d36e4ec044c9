/* SPDX-License-Identifier: Apache-2.0 */
/* Why the search of a box ended before its time was over: the reasons, each with its number of tasks. */
#ifndef TOOLS_EARLY_H
#define TOOLS_EARLY_H

#include "agent/cache/json.h"
#include "agent/tune/tune_model.h"

/* Prints a line on standard output; nothing, if the search used its time, or nothing can be tuned. */
void early_print(const struct tune_report *r);
/* The same reasons as text, or null. */
json_t *early_json(const struct tune_report *r);

#endif
