/* SPDX-License-Identifier: Apache-2.0 */
/* The host and the baselines that it runs, for tests that compile for each of them and run the code. */
#ifndef TESTS_HOST_TARGETS_H
#define TESTS_HOST_TARGETS_H

#include "platform/machine/target.h"
#include "platform/run/dev.h"
#include "tests/lib/test.h"

enum { MAX_TARGETS = 5 };

static struct target targets[MAX_TARGETS];
static int ntargets;

/* Finds the host first, then baselines; same_isa: also the one of the host's own ISA, which lacks the
 * features that the ISA does not imply. */
static void find_targets(bool same_isa)
{
	static const char *const names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a"};
	if (ntargets)
		return;
	CHECK(dev_find("cpu") && dev_find("cpu")->probe(&targets[0]) == 1);
	ntargets = 1;
	for (size_t i = 0; i < sizeof names / sizeof *names && ntargets < MAX_TARGETS; i++) {
		struct target *t = &targets[ntargets];
		CHECK_OK(target_baseline(names[i], t));
		ntargets += target_runs(&targets[0], t) && (same_isa || strcmp(t->isa, targets[0].isa) != 0);
	}
}

#endif
