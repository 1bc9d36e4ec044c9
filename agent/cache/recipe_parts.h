/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by recipe.c, which needs the model's graph, and recipe_check.c, which reads the text alone and so
 * serves programs without graphs. */
#ifndef AGENT_RECIPE_PARTS_H
#define AGENT_RECIPE_PARTS_H

#include "agent/cache/recipe.h"

void recipe_head_text(const struct recipe *r, struct buf *out);
/* Reads the first lines, and moves the text behind them. */
int recipe_head_parse(const char **text, struct recipe *out) MUST_CHECK;
/* Reads an integer of the range behind a space, and moves the text behind it. */
bool recipe_take_int(const char **s, int64_t lo, int64_t hi, int64_t *out);
/* Reads the rest of a line "v", up to its newline. Its index lies above *last, which becomes it, and below
 * `values`. */
bool recipe_take_value(const char **s, int *last, int values, float *scale, uint8_t *zero);
/* Reads a layer's correction of a bias, in steps. */
bool recipe_take_shift(const char **s, int64_t *out);

#endif
