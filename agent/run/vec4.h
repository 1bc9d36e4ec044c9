/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of four floats at any address, and shuffles of vectors, which gcc and clang spell differently. */
#ifndef AGENT_VEC4_H
#define AGENT_VEC4_H

#include <stdint.h>

typedef float vec4 __attribute__((vector_size(16), aligned(4)));
typedef int32_t mask4 __attribute__((vector_size(16)));

/* The lanes of a, then those of b, in the order of the numbers. mask: the vector of int32_t that has as many
 * lanes as a. */
#ifdef __clang__
#define VEC_SHUFFLE(mask, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define VEC_SHUFFLE(mask, a, b, ...) __builtin_shuffle(a, b, (mask){__VA_ARGS__})
#endif

#endif
