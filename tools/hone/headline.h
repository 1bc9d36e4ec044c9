/* SPDX-License-Identifier: Apache-2.0 */
/* The headline figures of all commands: agent/cache/gain.h as lines and as JSON. */
#ifndef TOOLS_HEADLINE_H
#define TOOLS_HEADLINE_H

#include "agent/cache/gain.h"
#include "agent/cache/json.h"

#define GAIN_APART 1.05 /* the factor by which two medians of one network may differ without a note */

/* Prints `lead` and the sentence of a comparison as a line; nothing, if nothing was compared. machine: NULL
 * if it is not known whether it was disturbed. How it was is said once in a row of lines. */
void headline_print(const char *lead, const struct faster *f, const char *than,
		    const struct disturbance *machine);
/* Says why medians that were shown above a comparison differ from it, if the caller found that they do
 * (faster_misled). */
void headline_medians(bool misled);
/* For a command that shows the median of a network's time, in ms: says that it and the one which tuning
 * measured are of different moments; nothing, if they differ by at most GAIN_APART. */
void headline_moments(const struct gain *g, double median_ms);
/* {"ratio", "low", "high", "rounds", "significant", "few_rounds" (for an interval), "disturbed" (how; null:
 * not, or not known)}; null, if nothing was compared. */
json_t *headline_json(const struct faster *f, const struct disturbance *machine);
/* The same for a stored gain: what tuning gained, and when that was measured. */
void headline_gain(const char *lead, const struct gain *g);
/* As headline_json, with "model", "threads", "level", "default_ms", "now_ms", "date" and the sentence as
 * "words". */
json_t *headline_gain_json(const struct gain *g);

#endif
