/* SPDX-License-Identifier: Apache-2.0 */
#include "search/strategy.h"

#include <string.h>

const struct strategy *strategy_find(const char *name)
{
	for (int i = 0; strategy_table[i]; i++)
		if (!strcmp(strategy_table[i]->name, name))
			return strategy_table[i];
	return NULL;
}
