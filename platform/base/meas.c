/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/meas.h"
#include "platform/base/err.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *meas_status_name(enum meas_status s)
{
	static const char *const names[MEAS_STATUSES] = {"ok",    "infeasible", "build",   "spill",
							 "wrong", "crash",      "timeout", "aborted"};
	return (unsigned)s < MEAS_STATUSES ? names[s] : "unknown";
}

int meas_status_parse(const char *name, enum meas_status *out)
{
	for (int i = 0; i < MEAS_STATUSES; i++)
		if (!strcmp(name, meas_status_name((enum meas_status)i))) {
			*out = (enum meas_status)i;
			return E_OK;
		}
	return fail(E_CORRUPT, "unknown status of a measurement");
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static int64_t median(int64_t *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, ascending);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* 1.4826 MAD estimates sigma, and the median of r normal samples has the standard error 1.2533 sigma / sqrt(r). */
double meas_error(const struct meas *m)
{
	if (m->runs < 3 || m->median_ns <= 0)
		return 1;
	return 1.4826 * 1.2533 * (double)m->spread_ns / (double)m->median_ns / sqrt(m->runs);
}

void meas_blame(struct meas *m, int n, int at, enum meas_status how)
{
	for (int i = 0; i < n; i++)
		m[i] = (struct meas){.status = i == at ? how : MEAS_OK, .threads = m[i].threads};
}

int meas_blamed(const struct meas *m, int n)
{
	int at = -1, others = 0;
	for (int i = 0; i < n; i++)
		if (m[i].status == MEAS_TIMEOUT || m[i].status == MEAS_CRASH)
			at = i;
		else
			others += m[i].status == MEAS_OK && m[i].runs == 0;
	return others == n - 1 ? at : -1;
}

void meas_summarize(int64_t *ns, int n, struct meas *m)
{
	m->median_ns = median(ns, n);
	m->min_ns = ns[0];
	m->runs = n;
	for (int i = 0; i < n; i++)
		ns[i] = llabs(ns[i] - m->median_ns);
	m->spread_ns = median(ns, n);
}
