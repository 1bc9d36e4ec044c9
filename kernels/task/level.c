/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/task/level.h"

#include <string.h>

static const struct {
	const char *name, *word;
	int below;
} levels[LEVELS] = {[LEVEL_FP32] = {"fp32", "0", LEVEL_EXACT},
		    [LEVEL_EXACT] = {"exact", "1", -1},
		    [LEVEL_W16] = {"w16", "w16", LEVEL_FP32},
		    [LEVEL_INT8] = {"int8", "int8", LEVEL_W16}};

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
	static const char *const later[] = {"half", "half-sum"};
	for (int l = 0; l < LEVELS; l++)
		if (!strcmp(levels[l].name, name)) {
			*out = (enum level)l;
			return E_OK;
		}
	for (size_t i = 0; i < sizeof later / sizeof *later; i++)
		if (!strcmp(later[i], name))
			return fail(E_USAGE, "level %s is not supported yet; there are exact, fp32, w16 and int8",
				    name);
	return fail(E_USAGE, "no level '%.40s'; there are exact, fp32, w16 and int8", name);
}

int level_below(int l)
{
	return levels[l].below;
}

enum level level_f32(enum level l)
{
	return level_f16(l) ? LEVEL_FP32 : l;
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
