/* SPDX-License-Identifier: Apache-2.0 */
#include "search/cost.h"

#include <string.h>

const struct cost *cost_find(const char *name)
{
	for (int i = 0; cost_table[i]; i++)
		if (!strcmp(cost_table[i]->name, name))
			return cost_table[i];
	return NULL;
}
