/* SPDX-License-Identifier: Apache-2.0 */
/* Levels: how much the kernels of a model may round. A level is part of the key of all that tuning keeps.
 * Each level allows what the one below it allows, so results of lower levels serve the higher ones:
 *
 *   exact  no algorithm that changes the set of multiplications (Winograd)
 *   fp32   any algorithm, in f32: the default
 *   w16    weights, also transformed ones, may be stored as f16; sums stay in f32
 *   half   products of 16-bit floats, summed in f32: of bf16, where the target multiplies it. Or products of
 *          f32 that an NVIDIA GPU rounds to TF32, which has 3 bits more than bf16. All else is as at w16
 *   half-sum  where the target adds f16, weights and inputs of products may be rounded to f16, and sums
 *          of up to 72 products may be made in f16, which are then added in f32; values beyond 65504 become
 *          infinite there. All else, and all on other targets, is as at half
 *   int8   a model of floats is quantised by its recipe (agent/cache/recipe.h), within the error that was
 *          asked for; what stays floats is as at fp32, because the error counts no other rounding
 *
 * The numbers are parts of keys and records, where fp32 and exact were a flag once. */
#ifndef KERNELS_LEVEL_H
#define KERNELS_LEVEL_H

#include "platform/base/err.h"

#include <stdbool.h>

enum level { LEVEL_FP32, LEVEL_EXACT, LEVEL_W16, LEVEL_INT8, LEVEL_HALF, LEVEL_HALF_SUM, LEVELS };

const char *level_name(int l); /* "fp32"; NULL: no enum level */
/* The word in records: "0" and "1" for fp32 and exact, as formerly; NULL: no enum level. */
const char *level_word(int l);
/* E_USAGE: no level has this name, or it is not supported yet. */
int level_parse(const char *name, enum level *out) MUST_CHECK;
/* The next lower level; -1: none. Results that serve l: for (int of = l; of >= 0; of = level_below(of)). */
int level_below(int l);
/* The highest level up to l whose weights are f32. */
enum level level_f32(enum level l);
/* Whether weights and inputs of products may be rounded to bf16, or to TF32. */
bool level_bf16(enum level l);
/* Whether weights and inputs of products, and parts of their sums, may be rounded to f16. */
bool level_sums_f16(enum level l);
/* Whether weights may be f16. */
bool level_f16(enum level l);
/* Whether results of level `of` serve l. */
bool level_serves(enum level of, enum level l);

#endif
