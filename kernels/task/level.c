/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/task/level.h"

#include <string.h>

#define LEVEL_NAMES "exact, fp32, w16, half, half-sum and int8"

static const struct {
	const char *name, *word;
	int below;
} levels[LEVELS] = {
    [LEVEL_FP32] = {"fp32", "0", LEVEL_EXACT},  [LEVEL_EXACT] = {"exact", "1", -1},
    [LEVEL_W16] = {"w16", "w16", LEVEL_FP32},   [LEVEL_INT8] = {"int8", "int8", LEVEL_FP32},
    [LEVEL_HALF] = {"half", "half", LEVEL_W16}, [LEVEL_HALF_SUM] = {"half-sum", "half-sum", LEVEL_HALF}};

const char *level_name(int l)
{
	return l >= 0 && l < LEVELS ? levels[l].name : NULL;
}

const char *level_word(int l)
{
	return l >= 0 && l < LEVELS ? levels[l].word : NULL;
}

int level_parse(const char *name, enum level *out)
{
	for (int l = 0; l < LEVELS; l++)
		if (!strcmp(levels[l].name, name)) {
			*out = (enum level)l;
			return E_OK;
		}
	return fail(E_USAGE, "no level '%.40s'; there are " LEVEL_NAMES, name);
}

int level_below(int l)
{
	return levels[l].below;
}

enum level level_f32(enum level l)
{
	return level_f16(l) ? LEVEL_FP32 : l;
}

bool level_bf16(enum level l)
{
	return level_serves(LEVEL_HALF, l);
}

bool level_sums_f16(enum level l)
{
	return level_serves(LEVEL_HALF_SUM, l);
}

bool level_f16(enum level l)
{
	return level_serves(LEVEL_W16, l);
}

bool level_serves(enum level of, enum level l)
{
	for (int i = (int)l; i >= 0; i = level_below(i))
		if (i == (int)of)
			return true;
	return false;
}
