/* SPDX-License-Identifier: Apache-2.0 */
/* ldmatrix and mma, whose threads hold the elements that the PTX ISA says ("Matrix multiply-accumulate
 * operation using mma instruction"). */
#include "tests/lib/ptx_exec.h"

#include <string.h>

enum { COLUMNS = 8, ROWS = 8, ROW = 16 };

/* Each of the first 8 n lanes gives the address of a row of 16 bytes, 8 rows a matrix. Lane i of each matrix
 * gets the two elements 2 (i % 4) and the next of row i / 4, or, transposed, of that column. As for wmma,
 * lanes that the seed chooses read the rows. */
void ptx_ldmatrix(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in)
{
	uint64_t at[LANES];
	uint8_t got[LANES][ROW], row[LANES][ROW];
	unsigned n = ROWS * in->nregs, turn = rng_below(&x->rng, LANES);
	uint32_t lanes = 0;
	for (unsigned i = 0; i < LANES; i++) {
		uint64_t v = 0;
		memcpy(&v, w->regs + in->s[0].off + (size_t)i * in->s[0].bytes, in->s[0].bytes);
		v += (uint64_t)in->imm;
		if (v % ROW)
			ptx_stop(x, (int)i, "a matrix's row at %#llx is not aligned", (unsigned long long)v);
		if (i >= n)
			continue;
		at[(i + turn) % LANES] = v;
		lanes |= 1u << (i + turn) % LANES;
	}
	ptx_access_rows(x, w, in->space, at, lanes, false, got);
	for (unsigned i = 0; i < n; i++)
		memcpy(row[i], got[(i + turn) % LANES], ROW);
	for (int k = 0; k < in->nregs; k++) {
		uint32_t r[LANES];
		for (int i = 0; i < LANES; i++) {
			uint16_t e[2];
			for (int j = 0; j < 2; j++) {
				int along = i % 4 * 2 + j, across = i / 4;
				int from = in->columns[0] ? along : across,
				    elem = in->columns[0] ? across : along;
				memcpy(&e[j], row[ROWS * k + from] + 2 * elem, 2);
			}
			memcpy(&r[i], e, sizeof r[i]);
		}
		ptx_commit(w, &in->regs[k], r, ALL_LANES);
	}
}

/* Of an f32 that is to be TF32 the hardware ignores the bits that TF32 has not. */
static double value(const uint8_t *p, int type)
{
	uint16_t h;
	uint32_t bits;
	float f;
	if (type == T_TF32) {
		memcpy(&bits, p, sizeof bits);
		bits &= ~UINT32_C(0x1fff);
		memcpy(&f, &bits, sizeof f);
		return f;
	}
	if (type == T_U8 || type == T_S8)
		return type == T_U8 ? *p : (int8_t)*p;
	memcpy(&h, p, sizeof h);
	return type == T_F16 ? ptx_f16_to_f32(h) : ptx_bf16_to_f32(h);
}

/* Element k of row (column) i of a factor, of `rows` rows, in registers from regs on. */
static double factor(const struct ptx_warp *w, const struct ptx_opnd *regs, int rows, int type, int i, int k)
{
	int bytes = (int)ptx_type_bytes(type), each = 4 / bytes, wide = 4 * each,
	    lane = i % ROWS * 4 + k % wide / each, reg = i / ROWS + rows / ROWS * (k / wide);
	return value(w->regs + regs[reg].off + (size_t)lane * 4 + (size_t)(k % each * bytes), type);
}

void ptx_mma(struct ptx_warp *w, const struct ptx_ins *in)
{
	int sums = in->matrix / 4, a = in->matrix * in->vector * (int)ptx_type_bytes(in->stype) / (4 * LANES);
	const struct ptx_opnd *ra = in->regs + sums, *rb = ra + a, *rc = in->regs + in->nregs - sums;
	uint32_t out[4][LANES];
	for (int i = 0; i < in->matrix; i++)
		for (int j = 0; j < COLUMNS; j++) {
			int lane = i % ROWS * 4 + j / 2, reg = i / ROWS * 2 + j % 2;
			const uint8_t *c = w->regs + rc[reg].off + (size_t)lane * 4;
			float f;
			int32_t s;
			memcpy(&f, c, sizeof f);
			memcpy(&s, c, sizeof s);
			double sum = in->type == T_F32 ? f : s;
			for (int k = in->vector - 1; k >= 0; k--)
				sum += factor(w, ra, in->matrix, in->stype, i, k) *
				       factor(w, rb, COLUMNS, in->stype2, j, k);
			out[reg][lane] = ptx_matrix_sum(sum, in->type);
		}
	for (int i = 0; i < sums; i++)
		ptx_commit(w, &in->regs[i], out[i], ALL_LANES);
}
