/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy.h"

#include <stddef.h>
#include <string.h>

const struct policy *policy_find(const char *name)
{
	for (int i = 0; policy_table[i]; i++)
		if (!strcmp(policy_table[i]->name, name))
			return policy_table[i];
	return NULL;
}
