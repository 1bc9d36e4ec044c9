/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/stats.h"
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

/* The rank r of the 95 % interval of a median: so many of n values lie up to its lower end, that end
 * included. The median lies below it if at most r - 1 of n coins show heads. 0: n is too small. */
static int interval_rank(int n)
{
	enum { EXACT = 1000 };
	if (n > EXACT)
		return (int)floor(n / 2.0 - 0.98 * sqrt(n)); /* 1.96 * sqrt(n / 4) */
	double p = pow(0.5, n), sum = p;
	int r = 0;
	while (2 * sum <= 0.05) {
		r++;
		p *= (double)(n - r + 1) / r;
		sum += p;
	}
	return r;
}

struct interval stats_interval(double *v, int n)
{
	struct interval i = {stats_median(v, n), v[0], v[n - 1]};
	int r = interval_rank(n);
	if (r > 0) {
		i.low = v[r - 1];
		i.high = v[n - r];
	}
	return i;
}
