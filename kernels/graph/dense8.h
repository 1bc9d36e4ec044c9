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
/* The sum of a row of bytes. */
int32_t dense8_total(const int8_t *a, int64_t n);

/* sum[x] += add + column[x] + factor * zero[x] - by * total[x]: what zero points and bias add to the sums of
 * a row. */
struct dense8_columns {
	uint32_t add[DENSE8_WIDTH], zero[DENSE8_WIDTH], total[DENSE8_WIDTH];
};
void dense8_correct(enum dense8_isa isa, const struct dense8_columns *c, uint32_t add, uint32_t factor,
		    uint32_t by, uint32_t *sum);

/* The bytes of an output: limits and zero point; limits of s8 are negative. */
struct dense8_bytes {
	int32_t low, high, zero;
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
