/* SPDX-License-Identifier: Apache-2.0 */
/* Inner products of bytes with s32 sums, and the rounding of sums and floats to bytes: what the quantised
 * operators spend their time in. Compiled for several instruction sets; the best that the machine has runs,
 * and all give the same bits. Sums wrap modulo 2^32, as ONNX Runtime's do; they are exact up to a depth of
 * 65793 (u8 x s8). */
#ifndef KERNELS_DENSE8_H
#define KERNELS_DENSE8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { DENSE8_WIDTH = 64 /* columns of a panel */ };

/* The version of the loops that this machine runs; $HONE_ISA reduces it (platform/machine/target.h). */
enum dense8_isa { DENSE8_BASE, DENSE8_AVX2, DENSE8_VNNI };
enum dense8_isa dense8_isa(void);

/* Bytes of a panel of so many rows, and of the scratch of dense8_rows. */
size_t dense8_panel_bytes(int64_t depth);
size_t dense8_scratch_bytes(int64_t depth);
/* Packs rows b + offset[t], t < depth, of `width` <= DENSE8_WIDTH bytes; `flip` (0 or 0x80) is XORed to each,
 * so that s8 become u8 that are 128 more. */
void dense8_pack(enum dense8_isa isa, int64_t depth, const uint8_t *b, const int64_t *offset, int width,
		 uint8_t flip, void *panel);
/* sum[r][x] = the sum over t of a[r * depth + t] * panel[t][x]: rows of DENSE8_WIDTH sums, of which those
 * behind `width` become anything. */
void dense8_rows(enum dense8_isa isa, int64_t depth, int rows, const int8_t *a, const void *panel, int width,
		 void *scratch, uint32_t *sum);
/* sum[x] = the sum over t of a[t] * (b[t * n + x] ^ flip), for x < n rounded up to DENSE8_WIDTH, of which
 * those from n on become anything: one row, without a panel. False: this machine has no version of it. */
bool dense8_row(enum dense8_isa isa, int64_t depth, int64_t n, const int8_t *a, const uint8_t *b,
		uint8_t flip, uint32_t *sum);
/* The sum of a row of bytes. */
int32_t dense8_total(enum dense8_isa isa, const int8_t *a, int64_t n);
/* Copies n bytes, of few of which a function call would cost more than the copy. */
static inline void dense8_copy(uint8_t *restrict to, const uint8_t *restrict from, int64_t n)
{
	int64_t i = 0;
	for (; i + 16 <= n; i += 16)
		memcpy(to + i, from + i, 16);
	if (n >= 16) {
		memcpy(to + n - 16, from + n - 16, 16);
		return;
	}
	for (; i < n; i++)
		to[i] = from[i];
}

/* sum[x] += add + column[x] + factor * zero[x] - by * total[x]: what zero points and bias add to the sums of
 * a row. */
struct dense8_columns {
	uint32_t add[DENSE8_WIDTH], zero[DENSE8_WIDTH], total[DENSE8_WIDTH];
};
void dense8_correct(enum dense8_isa isa, const struct dense8_columns *c, uint32_t add, uint32_t factor,
		    uint32_t by, uint32_t *sum);

/* The bytes of an output: limits and zero point, within its type. */
struct dense8_bytes {
	int32_t low, high, zero;
	bool sign; /* s8 */
};
/* The contract of every quantised product, ONNX Runtime's fused formula in binary32:
 *   factor = x_scale * w_scale / y_scale, each operation rounded
 *   y = clamp(round to nearest even((float)sum * factor) + zero)
 * A NaN becomes the lowest value. This is the only place where it is written. */
static inline float dense8_factor(float x_scale, float w_scale, float y_scale)
{
	float product = x_scale * w_scale;
	return product / y_scale;
}
void dense8_requantise(enum dense8_isa isa, int64_t n, const uint32_t *sum, const float *factor,
		       struct dense8_bytes to, uint8_t *out);
/* The same for sums that all lack `add` and have one factor. */
void dense8_requantise_row(enum dense8_isa isa, int64_t n, const uint32_t *sum, uint32_t add, float factor,
			   struct dense8_bytes to, uint8_t *out);
/* Turns rows of sums into bytes: row r becomes (sum + add[r]) * factor[r], rounded as by dense8_requantise,
 * in the first `width` bytes at out + r * step. width: 1 to the panel's columns; later bytes are not
 * written. */
struct dense8_ends {
	struct dense8_bytes bytes;
	const uint32_t *add;
	const float *factor;
	uint8_t *out;
	int64_t step;
	int width;
};
/* dense8_rows and dense8_requantise_row in one. sum: room for the rows' sums. */
void dense8_rows_to_bytes(enum dense8_isa isa, int64_t depth, int rows, const int8_t *a, const void *panel,
			  int width, void *scratch, uint32_t *sum, const struct dense8_ends *e);
/* The taps of a filter of one channel, by fours: each four are neighbours in memory. */
struct dense8_taps {
	int n, stride; /* stride: 1 or 2 elements between the taps of neighbouring outputs */
	uint8_t flip;
	const int32_t *four; /* [n] four weights each, the first in the lowest byte */
	const int64_t *at;   /* [n] where the first of them is read for output 0 */
};
enum { DENSE8_PAST = 256 /* bytes behind the last tap that must be readable */ };
/* out[i] = the bytes of the sums over the taps at x[at + i * stride], i < n rounded up to DENSE8_WIDTH. Uses
 * the first element of add and factor, and no step or width. */
void dense8_depthwise(enum dense8_isa isa, const struct dense8_taps *t, const uint8_t *x,
		      const struct dense8_ends *e, int64_t n);
/* y = clamp(round to nearest even(x / scale) + zero): QuantizeLinear. */
void dense8_quantise(enum dense8_isa isa, int64_t n, const float *x, float scale, struct dense8_bytes to,
		     uint8_t *out);
/* y = (x - zero) * scale: DequantizeLinear of u8, or of s8 if `sign`. */
void dense8_dequantise(enum dense8_isa isa, int64_t n, const uint8_t *x, bool sign, float scale, int32_t zero,
		       float *out);
/* best[i] = max(best[i], x[i * step] ^ flip) */
void dense8_max(enum dense8_isa isa, int64_t n, const uint8_t *x, int64_t step, uint8_t flip, uint8_t *best);
/* y[i] = x[i * step] */
void dense8_every(int64_t n, const uint8_t *x, int64_t step, uint8_t *y);

#endif
