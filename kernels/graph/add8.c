/* SPDX-License-Identifier: Apache-2.0 */
/* This file is compiled without contraction: a product and a sum are rounded one after the other. */
#include "kernels/graph/add8.h"
#include "kernels/graph/dense8_vnni.h"

static float term_at(const struct add8_term *t, int64_t i)
{
	int32_t v = t->sign ? (int8_t)t->x[i] : t->x[i];
	return (float)(v - t->zero) * t->scale;
}

void add8(int64_t n, const struct add8_term *a, const struct add8_term *b, float scale,
	  struct dense8_bytes to, uint8_t *y)
{
	const float low = (float)(to.low - to.zero), high = (float)(to.high - to.zero), magic = 12582912.0f;
	int64_t i = 0;
	if (dense8_isa() == DENSE8_VNNI)
		i = dense8_vnni->add(n, a, b, scale, to, y);
	for (; i < n; i++) {
		float v = (term_at(a, i) + term_at(b, i)) / scale;
		v = v > low ? v : low; /* also of a NaN */
		v = v < high ? v : high;
		v += magic; /* leaves no room for a fraction */
		y[i] = (uint8_t)((int32_t)(v - magic) + to.zero);
	}
}
