/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of four floats at any address, copies made of them, and shuffles of vectors, which gcc and clang
 * spell differently. */
#ifndef AGENT_VEC4_H
#define AGENT_VEC4_H

#include <stdint.h>
#include <string.h>

typedef float vec4 __attribute__((vector_size(16), aligned(4)));
typedef int32_t mask4 __attribute__((vector_size(16)));

/* The lanes of a, then those of b, in the order of the numbers. mask: the vector of int32_t that has as many
 * lanes as a. */
#ifdef __clang__
#define VEC_SHUFFLE(mask, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define VEC_SHUFFLE(mask, a, b, ...) __builtin_shuffle(a, b, (mask){__VA_ARGS__})
#endif

/* Copies n elements in sequence: a call of memcpy costs more than a short row. */
static inline void vec4_copy(float *to, const float *from, int64_t n)
{
	enum { SHORT = 64 };
	if (n > SHORT) {
		memcpy(to, from, sizeof *to * (size_t)n);
		return;
	}
	if (n < 4) {
		for (int64_t i = 0; i < n; i++)
			to[i] = from[i];
		return;
	}
	for (int64_t i = 0; i + 4 < n; i += 4)
		*(vec4 *)(to + i) = *(const vec4 *)(from + i);
	*(vec4 *)(to + n - 4) = *(const vec4 *)(from + n - 4);
}

/* Returns four elements that lie 2 or 3 apart; reads nothing behind the last. */
static inline vec4 vec4_apart(const float *from, int64_t step)
{
	vec4 a = *(const vec4 *)from, b = *(const vec4 *)(from + (step == 2 ? 3 : 6));
	return step == 2 ? VEC_SHUFFLE(mask4, a, b, 0, 2, 5, 7) : VEC_SHUFFLE(mask4, a, b, 0, 3, 4, 7);
}

/* Copies n elements that lie `step` apart into a sequence. */
static inline void vec4_gather(float *to, const float *from, int64_t step, int64_t n)
{
	if (n < 4 || (step != 2 && step != 3)) {
		for (int64_t i = 0; i < n; i++)
			to[i] = from[i * step];
		return;
	}
	for (int64_t i = 0; i + 4 < n && step == 2; i += 4)
		*(vec4 *)(to + i) = vec4_apart(from + i * 2, 2);
	for (int64_t i = 0; i + 4 < n && step == 3; i += 4)
		*(vec4 *)(to + i) = vec4_apart(from + i * 3, 3);
	*(vec4 *)(to + n - 4) = vec4_apart(from + (n - 4) * step, step);
}

#endif
