/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of a matrix's rows, one row for each feature of a candidate: guesses of cost models spend their time
 * here. Many features of a candidate are 0, and their rows are skipped. */
#ifndef SEARCH_ROWS_H
#define SEARCH_ROWS_H

#include "kernels/space/features.h"

enum { ROW = 16 /* columns are a multiple of it */ };

struct picked {
	int n, row[FEATURES + 1]; /* row[n] is row 0, with x[n] = 0 */
	float x[FEATURES + 1];    /* x[0], of row 0, is 1; feature 0 is the draft's time */
};

void rows_pick(const float f[FEATURES], struct picked *p);
/* out[k] = sum of p->x[i] * rows[p->row[i]][k], in the same order whatever the machine's vectors. */
void rows_sum(const float *rows, int columns, const struct picked *p, float *out);

#endif
