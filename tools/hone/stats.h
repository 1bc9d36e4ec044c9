/* SPDX-License-Identifier: Apache-2.0 */
/* Order statistics of timings. Every function sorts its array in place. n > 0. */
#ifndef TOOLS_STATS_H
#define TOOLS_STATS_H

#include <stdint.h>

double stats_quantile(double *v, int n, double q); /* 0 <= q <= 1, nearest rank */
double stats_median(double *v, int n);
/* Median with its 95 % interval by order statistics (binomial, normal approximation): no assumption on the
 * shape. With fewer than 6 values the interval is all of them. */
struct interval {
	double median, low, high;
};
struct interval stats_interval(double *v, int n);

#endif
