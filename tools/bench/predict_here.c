/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/predict_here.h"
#include "platform/base/clock.h"
#include <stdio.h>
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

int predict_here(struct predict_cpu *out)
{
	struct target host, *t = &out->target;
	*out = (struct predict_cpu){.mhz = predict_here_mhz()};
	int rc = out->mhz > 0 ? target_host(&host) : fail(E_UNSUPPORTED, "this is no x86-64 machine");
	if (rc >= 0)
		rc = target_baseline("x86-64-v2", t);
	for (int i = 0; i < 3 && rc >= 0; i++) {
		struct target now = host;
		rc = target_measure(&now, &clock_real);
		target_raise(&host, &now);
	}
	if (rc < 0)
		return rc;
	t->l1_bytes = host.l1_bytes;
	t->l2_bytes = host.l2_bytes;
	t->l3_bytes = host.l3_bytes;
	snprintf(out->triple, sizeof out->triple, "x86_64-linux-gnu");
	snprintf(out->features, sizeof out->features, "+sse4.2");
	snprintf(out->model, sizeof out->model, "%s", host.cpu);
	memcpy(out->gbs, host.bw_gbs, sizeof out->gbs);
	return E_OK;
}
