/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/predict_here.h"
#include "platform/base/clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
/* Additions that wait for the one before them take a cycle each. */
double predict_here_mhz(void)
{
	int64_t best = INT64_MAX;
	for (int i = 0; i < 200; i++) {
		uint64_t x = 0;
		int64_t start = clock_now(&clock_real);
		for (int k = 0; k < 10000; k++)
			__asm__ volatile(".rept 16\n\tadd $1, %0\n\t.endr" : "+r"(x));
		int64_t ns = clock_now(&clock_real) - start;
		best = ns < best ? ns : best;
	}
	return 160000e3 / (double)best;
}
#else
double predict_here_mhz(void)
{
	return 0;
}
#endif

/* The peaks of a target, the best of three measurements. */
static int measure(struct target *t)
{
	int rc = E_OK;
	for (int i = 0; i < 3 && rc >= 0; i++) {
		struct target now = *t;
		rc = target_measure(&now, &clock_real);
		target_raise(t, &now);
	}
	return rc;
}

/* The target is the one that `HONE_ISA=x86-64-v2 hone` has, so that default schedules are the same. Read
 * speeds are those of the widest vectors, to which the constants were fitted. */
int predict_here(struct predict_cpu *out)
{
	struct target host, *t = &out->target;
	*out = (struct predict_cpu){.mhz = predict_here_mhz()};
	int rc = out->mhz > 0 ? target_host(&host) : fail(E_UNSUPPORTED, "this is no x86-64 machine");
	if (rc >= 0)
		rc = measure(&host);
	if (rc >= 0 && setenv("HONE_ISA", "x86-64-v2", 1) < 0)
		rc = fail(E_NOMEM, "no memory for HONE_ISA");
	if (rc >= 0)
		rc = target_host(t);
	if (rc >= 0)
		rc = measure(t);
	if (rc < 0)
		return rc;
	snprintf(out->triple, sizeof out->triple, "x86_64-linux-gnu");
	snprintf(out->features, sizeof out->features, "+sse4.2");
	snprintf(out->model, sizeof out->model, "%s", host.cpu);
	memcpy(out->gbs, host.bw_gbs, sizeof out->gbs);
	return E_OK;
}
