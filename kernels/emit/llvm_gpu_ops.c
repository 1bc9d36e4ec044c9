/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of groups on a GPU, lane by lane: its registers have 32 bits. */
#include "kernels/emit/llvm_gen.h"

#include <stdio.h>
#include <string.h>

typedef LLVMValueRef lane_fn(struct gen *g, const struct stmt *s, const LLVMValueRef *in);

static LLVMValueRef word(struct gen *g, uint32_t v)
{
	return LLVMConstInt(g->i32, v, false);
}

static LLVMValueRef lane_of(struct gen *g, LLVMValueRef v, int lane, int lanes)
{
	return lanes == 1 ? v : LLVMBuildExtractElement(g->b, v, word(g, (unsigned)lane), "");
}

/* Vector of the values, which are all of one type. */
static LLVMValueRef gathered(struct gen *g, const LLVMValueRef *e, int lanes)
{
	if (lanes == 1)
		return e[0];
	LLVMValueRef v = LLVMGetUndef(LLVMVectorType(LLVMTypeOf(e[0]), (unsigned)lanes));
	for (int i = 0; i < lanes; i++)
		v = LLVMBuildInsertElement(g->b, v, e[i], word(g, (unsigned)i), "");
	return v;
}

static LLVMValueRef each_lane(struct gen *g, lane_fn *fn, const struct stmt *s, const LLVMValueRef *in,
			      int lanes)
{
	LLVMValueRef r[16];
	for (int i = 0; i < lanes; i++) {
		LLVMValueRef v[4] = {NULL};
		for (int k = 0; k < vop_info[s->vop].args; k++)
			v[k] = lane_of(g, in[k], i, lanes);
		r[i] = fn(g, s, v);
	}
	return gathered(g, r, lanes);
}

static LLVMValueRef dot4(struct gen *g, const struct stmt *s, const LLVMValueRef *in)
{
	LLVMValueRef args[3] = {in[0], in[1], in[2]};
	return gpu_asm(g, s->vop == V_DOT4S ? "dp4a.s32.s32 $0, $1, $2, $3;" : "dp4a.u32.s32 $0, $1, $2, $3;",
		       "=r,r,r,r", g->i32, args, 3);
}

static LLVMValueRef high_part(struct gen *g, LLVMValueRef v)
{
	return LLVMBuildAShr(g->b, v, word(g, 16), "");
}

static LLVMValueRef low_part(struct gen *g, LLVMValueRef v)
{
	return high_part(g, LLVMBuildShl(g->b, v, word(g, 16), ""));
}

static LLVMValueRef dot2(struct gen *g, const struct stmt *s, const LLVMValueRef *in)
{
	(void)s;
	LLVMValueRef lo = LLVMBuildMul(g->b, low_part(g, in[0]), low_part(g, in[1]), "");
	LLVMValueRef hi = LLVMBuildMul(g->b, high_part(g, in[0]), high_part(g, in[1]), "");
	return LLVMBuildAdd(g->b, LLVMBuildAdd(g->b, in[2], lo, ""), hi, "");
}

static LLVMValueRef bf16_part(struct gen *g, LLVMValueRef v, bool high)
{
	v = high ? LLVMBuildAnd(g->b, v, word(g, 0xffff0000), "") : LLVMBuildShl(g->b, v, word(g, 16), "");
	return LLVMBuildBitCast(g->b, v, g->f32, "");
}

static LLVMValueRef bdot2(struct gen *g, const struct stmt *s, const LLVMValueRef *in)
{
	LLVMValueRef r = in[2];
	(void)s;
	for (int high = 1; high >= 0; high--) {
		LLVMValueRef args[3] = {bf16_part(g, in[0], high), bf16_part(g, in[1], high), r};
		r = gen_call(g, IN_FMA, UNIT_F32, 1, args, 3);
	}
	return r;
}

/* Not llvm.fma: that would flush subnormals where f32 does; LLVM 14 has no intrinsic. */
static LLVMValueRef fma2(struct gen *g, const struct stmt *s, const LLVMValueRef *in)
{
	LLVMValueRef args[3] = {in[0], in[1], in[2]};
	(void)s;
	return gpu_asm(g, "fma.rn.f16x2 $0, $1, $2, $3;", "=r,r,r,r", g->i32, args, 3);
}

static LLVMValueRef sum2(struct gen *g, const struct stmt *s, const LLVMValueRef *in)
{
	LLVMValueRef part[2],
	    v = LLVMBuildBitCast(g->b, in[0], LLVMVectorType(LLVMHalfTypeInContext(g->ctx), 2), "");
	(void)s;
	for (int i = 0; i < 2; i++)
		part[i] = LLVMBuildFPExt(g->b, lane_of(g, v, i, 2), g->f32, "");
	return LLVMBuildFAdd(g->b, in[1], LLVMBuildFAdd(g->b, part[0], part[1], ""), "");
}

static LLVMValueRef to_s32(struct gen *g, const struct stmt *s, const LLVMValueRef *in)
{
	LLVMValueRef arg = in[0];
	(void)s;
	return gen_target_call(g, "llvm.nvvm.f2i.rn.ftz", g->i32, &arg, 1, NULL, 0);
}

static LLVMValueRef clamped(struct gen *g, LLVMValueRef v, int lo, int hi)
{
	LLVMValueRef l = word(g, (uint32_t)lo), h = word(g, (uint32_t)hi);
	v = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSGT, v, l, ""), v, l, "");
	return LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, v, h, ""), v, h, "");
}

/* Bytes of a and b by number, 0 to 7, the first result byte's in the lowest four bits; 8 more: its sign in
 * all bits. */
static LLVMValueRef permuted(struct gen *g, LLVMValueRef a, LLVMValueRef b, uint32_t numbers)
{
	LLVMValueRef args[3] = {a, b, word(g, numbers)};
	return gen_target_call(g, "llvm.nvvm.prmt", g->i32, args, 3, NULL, 0);
}

static LLVMValueRef quad(struct gen *g, const struct stmt *s, const LLVMValueRef *in)
{
	int lo = s->vop == V_QUADS ? -128 : 0, hi = s->vop == V_QUADS ? 127 : 255;
	LLVMValueRef v[4];
	for (int i = 0; i < 4; i++)
		v[i] = clamped(g, in[i], lo, hi);
	return permuted(g, permuted(g, v[0], v[1], 0x40), permuted(g, v[2], v[3], 0x40), 0x5410);
}

static LLVMValueRef shuffled(struct gen *g, const struct stmt *s, const LLVMValueRef *in)
{
	LLVMTypeRef t = LLVMTypeOf(in[0]);
	LLVMValueRef v = gpu_shuffle(g, LLVMBuildBitCast(g->b, in[0], g->i32, ""), (int)s->imm);
	return LLVMBuildBitCast(g->b, v, t, "");
}

/* BTURN and BBACK. */
static LLVMValueRef bytes_turned(struct gen *g, LLVMValueRef v, bool back, int lanes)
{
	LLVMValueRef r[16];
	for (int i = 0; i < lanes; i++) {
		LLVMValueRef half[2];
		for (int h = 0; h < 2; h++) {
			int from[2];
			for (int p = 0; p < 2; p++) {
				int byte = 2 * h + p, at = 4 * i + byte;
				from[p] = back ? at % lanes * 4 + at / lanes : byte * lanes + i;
			}
			half[h] =
			    permuted(g, lane_of(g, v, from[0] / 4, lanes), lane_of(g, v, from[1] / 4, lanes),
				     (uint32_t)(from[0] % 4 + 16 * (from[1] % 4 + 4)));
		}
		r[i] = permuted(g, half[0], half[1], 0x5410);
	}
	return gathered(g, r, lanes);
}

LLVMValueRef gpu_widen_pairs(struct gen *g, LLVMValueRef v, bool is_signed, int lanes)
{
	LLVMValueRef r[16];
	for (int i = 0; i < lanes; i++)
		r[i] = permuted(g, LLVMBuildZExt(g->b, lane_of(g, v, i, lanes), g->i32, ""), word(g, 0),
				is_signed ? 0x9180 : 0x4140);
	return gathered(g, r, lanes);
}

LLVMValueRef gpu_group_op(struct gen *g, const struct stmt *s, const LLVMValueRef *in, int lanes)
{
	static lane_fn *const fn[V_OPS] = {
	    [V_DOT4U] = dot4, [V_DOT4S] = dot4, [V_DOT2] = dot2,  [V_BDOT2] = bdot2, [V_FMA2] = fma2,
	    [V_SUM2] = sum2,  [V_CVT] = to_s32, [V_QUADU] = quad, [V_QUADS] = quad,  [V_SHUF] = shuffled};
	if (s->vop == V_FRAG_LOAD || s->vop == V_FRAG_MMA)
		return gpu_fragment_op(g, s, in);
	if (s->vop == V_BTURN || s->vop == V_BBACK)
		return bytes_turned(g, in[0], s->vop == V_BBACK, lanes);
	if (s->vop == V_CVT && g->l->type[s->dst] == LV_F32)
		return LLVMBuildSIToFP(g->b, in[0], gen_type(g, UNIT_F32, lanes), "");
	return each_lane(g, fn[s->vop], s, in, lanes);
}
