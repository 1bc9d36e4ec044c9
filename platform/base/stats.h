/* SPDX-License-Identifier: Apache-2.0 */
/* Order statistics of timings. Every function sorts its array in place. n > 0. */
#ifndef PLATFORM_STATS_H
#define PLATFORM_STATS_H

#include <stdint.h>

double stats_quantile(double *v, int n, double q); /* 0 <= q <= 1, nearest rank */
double stats_median(double *v, int n);
/* Median with its 95 % confidence interval by order statistics (binomial), which assumes nothing about the
 * distribution. With fewer than 6 values the interval spans all of them, and holds the median less often. */
struct interval {
	double median, low, high;
};
struct interval stats_interval(double *v, int n);

#endif
