/* SPDX-License-Identifier: Apache-2.0 */
/* Apart from search/tried.c, for programs that read trials and search nothing. */
#include "search/tried.h"
#include <stddef.h>

const char *tried_by_name(enum tried_by b)
{
	static const char *const names[TRIED_BYS] = {"default", "incumbent", "seed",
						     "rule",    "strategy",  "twin"};
	return (unsigned)b < TRIED_BYS ? names[b] : NULL;
}
