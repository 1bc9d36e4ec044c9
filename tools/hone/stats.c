/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/stats.h"
#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double stats_quantile(double *v, int n, double q)
{
	qsort(v, (size_t)n, sizeof *v, compare);
	int i = (int)ceil(q * n) - 1;
	return v[i < 0 ? 0 : i >= n ? n - 1 : i];
}

double stats_median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, compare);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

struct interval stats_interval(double *v, int n)
{
	struct interval r = {stats_median(v, n), v[0], v[n - 1]};
	if (n < 6)
		return r;
	int half = (int)floor(0.98 * sqrt(n)); /* 1.96 * sqrt(n / 4) */
	int low = (n - 1) / 2 - half, high = n / 2 + half;
	r.low = v[low < 0 ? 0 : low];
	r.high = v[high >= n ? n - 1 : high];
	return r;
}
