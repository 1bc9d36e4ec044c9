/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of a matrix's rows, one for each feature of a candidate: what guesses of cost models take their time
 * for. Many features of a candidate are 0, and their rows are left out. */
#ifndef SEARCH_ROWS_H
#define SEARCH_ROWS_H

#include "kernels/space/features.h"

enum { ROW = 16 /* columns are a multiple of it */ };

struct picked {
	int n, row[FEATURES + 1]; /* after those: row 0 times 0 */
	float x[FEATURES + 1];    /* of row 0, where features have the draft's time: 1 */
};

void rows_pick(const float f[FEATURES], struct picked *p);
/* out[k] = sum of p->x[i] * rows[p->row[i]][k], in the same order whatever the machine's vectors. */
void rows_sum(const float *rows, int columns, const struct picked *p, float *out);

#endif
