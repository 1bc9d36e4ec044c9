/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of picked rows equal a loop over all features, and write nothing else. */
#include "search/rows.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

#include <math.h>
#include <string.h>

TEST(picks_what_is_not_zero)
{
	float f[FEATURES] = {0};
	struct picked p;
	rows_pick(f, &p);
	CHECK(p.n == 1 && p.row[0] == 0 && p.x[0] == 1 && p.row[1] == 0 && p.x[1] == 0);
	f[0] = 9;
	f[3] = -2;
	f[FEATURES - 1] = .5f;
	rows_pick(f, &p);
	CHECK(p.n == 3 && p.x[0] == 1 && p.row[1] == 3 && p.x[1] == -2);
	CHECK(p.row[2] == FEATURES - 1 && p.x[2] == .5f);
	for (int i = 0; i < FEATURES; i++)
		f[i] = (float)(i + 1);
	rows_pick(f, &p);
	CHECK(p.n == FEATURES && p.x[FEATURES - 1] == FEATURES && p.x[FEATURES] == 0);
}

TEST(sums_are_those_of_a_loop)
{
	static float rows[FEATURES][4 * ROW];
	float f[FEATURES], out[4 * ROW + 1];
	struct picked p;
	struct rng r;
	rng_seed(&r, 1);
	for (int round = 0; round < 300; round++) {
		int columns = ROW * (1 + round % 4);
		float *x = rows[0];
		for (int i = 0; i < FEATURES * columns; i++)
			x[i] = (float)rng_normal(&r);
		for (int i = 0; i < FEATURES; i++)
			f[i] = rng_below(&r, (uint32_t)(1 + round % 5)) ? 0 : (float)rng_normal(&r);
		out[columns] = 77;
		rows_pick(f, &p);
		rows_sum(x, columns, &p, out);
		CHECK(out[columns] == 77);
		for (int k = 0; k < columns; k++) {
			double want = (double)x[k];
			for (int i = 1; i < FEATURES; i++)
				want += (double)(f[i] * x[i * columns + k]);
			CHECK(fabs((double)out[k] - want) < 1e-4);
		}
	}
}

TEST_MAIN
