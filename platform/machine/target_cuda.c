/* SPDX-License-Identifier: Apache-2.0 */
/* Which targets of the ISA cuda are known: LLVM ends the process on an instruction that the architecture or
 * the version of PTX lacks. */
#include "platform/machine/target_isa.h"

#include <stdlib.h>
#include <string.h>

/* Architectures, and the oldest PTX that has them (PTX ISA 8.5, "Release Notes"). */
static const struct sm {
	const char *name;
	int ptx; /* 74: version 7.4 */
} sms[] = {{"sm_72", 61}, {"sm_75", 63}, {"sm_80", 70}, {"sm_86", 71},
	   {"sm_87", 74}, {"sm_89", 78}, {"sm_90", 78}};

static const int versions[] = {61, 62, 63, 64, 65, 70, 71, 72, 73, 74,
			       75, 76, 77, 78, 80, 81, 82, 83, 84, 85};

/* The version that "+ptx74" names; 0: none that is known. */
static int version_of(const char *features)
{
	char *end;
	bool number = strncmp(features, "+ptx", 4) == 0 && features[4] >= '1' && features[4] <= '9';
	long n = number ? strtol(features + 4, &end, 10) : 0;
	for (size_t i = 0; n && !*end && i < sizeof versions / sizeof *versions; i++)
		if (versions[i] == n)
			return (int)n;
	return 0;
}

int target_check_cuda(const struct target *t)
{
	const struct sm *sm = NULL;
	for (size_t i = 0; i < sizeof sms / sizeof *sms; i++)
		if (strcmp(sms[i].name, t->cpu) == 0)
			sm = &sms[i];
	if (!sm)
		return fail(E_UNSUPPORTED, "target: unknown architecture %s of cuda (sm_72 to sm_90)",
			    t->cpu);
	if (t->lanes != 4)
		return fail(E_UNSUPPORTED, "target: cuda has vectors of 4 lanes, not of %d", t->lanes);
	int version = version_of(t->features);
	if (!version)
		return fail(E_UNSUPPORTED,
			    "target: cuda needs one version of PTX (+ptx61 to +ptx85), not '%s'",
			    t->features);
	return version < sm->ptx ? fail(E_UNSUPPORTED, "target: %s needs +ptx%d or later, not '%s'", sm->name,
					sm->ptx, t->features)
				 : E_OK;
}
