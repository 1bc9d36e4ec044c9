/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of groups (dot products, bytes), and conversions between lanes and memory. Each has a form that
 * every target can compile; instructions that do more are used where the target's features name them, since
 * LLVM would abort on an intrinsic without its feature. */
#include "kernels/emit/llvm_gen.h"
#include "kernels/loops/loops_lane.h"
#include <stdio.h>
#include <string.h>

/* Whether the target's features name this one ("+dotprod"). */
static bool has(const struct gen *g, const char *feature)
{
	size_t n = strlen(feature);
	for (const char *p = g->t->features; (p = strstr(p, feature)); p += n)
		if ((p == g->t->features || p[-1] == ',') && (p[n] == ',' || !p[n]))
			return true;
	return false;
}

static LLVMValueRef and_(struct gen *g, LLVMValueRef v, uint32_t mask, int lanes)
{
	return LLVMBuildAnd(g->b, v, gen_s32_const(g, mask, lanes), "");
}

static LLVMValueRef shl(struct gen *g, LLVMValueRef v, uint32_t n, int lanes)
{
	return LLVMBuildShl(g->b, v, gen_s32_const(g, n, lanes), "");
}

static LLVMValueRef lshr(struct gen *g, LLVMValueRef v, uint32_t n, int lanes)
{
	return LLVMBuildLShr(g->b, v, gen_s32_const(g, n, lanes), "");
}

static LLVMValueRef ashr(struct gen *g, LLVMValueRef v, uint32_t n, int lanes)
{
	return LLVMBuildAShr(g->b, v, gen_s32_const(g, n, lanes), "");
}

static LLVMValueRef choose(struct gen *g, LLVMValueRef yes, LLVMValueRef a, LLVMValueRef b)
{
	return LLVMBuildSelect(g->b, yes, a, b, "");
}

static LLVMValueRef clamp(struct gen *g, LLVMValueRef v, int32_t lo, int32_t hi, int lanes)
{
	LLVMValueRef l = gen_s32_const(g, (uint32_t)lo, lanes), h = gen_s32_const(g, (uint32_t)hi, lanes);
	v = choose(g, LLVMBuildICmp(g->b, LLVMIntSGT, v, l, ""), v, l);
	return choose(g, LLVMBuildICmp(g->b, LLVMIntSLT, v, h, ""), v, h);
}

LLVMValueRef gen_target_call(struct gen *g, const char *name, LLVMTypeRef as, LLVMValueRef *args, unsigned n,
			     LLVMTypeRef *over, size_t nover)
{
	unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
	if (!id) {
		snprintf(g->missing, sizeof g->missing, "%s", name);
		return LLVMGetUndef(as);
	}
	LLVMTypeRef type = LLVMIntrinsicGetType(g->ctx, id, over, nover), want[4];
	LLVMValueRef fn = LLVMGetIntrinsicDeclaration(g->mod, id, over, nover), cast[4];
	LLVMGetParamTypes(type, want); /* versions of LLVM differ in the element type of vectors */
	for (unsigned i = 0; i < n; i++)
		cast[i] = LLVMBuildBitCast(g->b, args[i], want[i], "");
	return LLVMBuildBitCast(g->b, LLVMBuildCall2(g->b, type, fn, cast, n, ""), as, "");
}

/* The same of an intrinsic that has one form, with a result of s32. */
static LLVMValueRef s32_call(struct gen *g, const char *name, int lanes, LLVMValueRef *args, unsigned n)
{
	return gen_target_call(g, name, gen_type(g, UNIT_I32, lanes), args, n, NULL, 0);
}

/* Vectors wider than the target's registers are cut, narrower ones than 128 bits padded with zeros. */

static int piece_lanes(const struct gen *g, int lanes)
{
	return lanes < 4 ? 4 : lanes > g->t->lanes ? g->t->lanes : lanes;
}

static LLVMValueRef cut(struct gen *g, LLVMValueRef v, int at, int have, int want)
{
	LLVMValueRef index[16];
	if (have == want)
		return v;
	if (have == 1)
		return LLVMBuildInsertElement(g->b,
					      LLVMConstNull(LLVMVectorType(LLVMTypeOf(v), (unsigned)want)), v,
					      LLVMConstInt(g->i32, 0, false), "");
	for (int i = 0; i < want; i++)
		index[i] = LLVMConstInt(g->i32, (unsigned)(at + i < have ? at + i : have), false);
	return LLVMBuildShuffleVector(g->b, v, LLVMConstNull(LLVMTypeOf(v)),
				      LLVMConstVector(index, (unsigned)want), "");
}

static LLVMValueRef join(struct gen *g, LLVMValueRef a, LLVMValueRef b, int lanes)
{
	LLVMValueRef index[16];
	for (int i = 0; i < lanes; i++)
		index[i] = LLVMConstInt(g->i32, (unsigned)i, false);
	return LLVMBuildShuffleVector(g->b, a, b, LLVMConstVector(index, (unsigned)lanes), "");
}

typedef LLVMValueRef piece_fn(struct gen *g, const struct stmt *s, LLVMValueRef *in, int lanes);

static LLVMValueRef by_pieces(struct gen *g, piece_fn *fn, const struct stmt *s, const LLVMValueRef *in,
			      int lanes)
{
	int want = piece_lanes(g, lanes), n = 0;
	LLVMValueRef part[16];
	for (int at = 0; at < lanes; at += want) {
		LLVMValueRef v[4] = {NULL};
		for (int i = 0; i < vop_info[s->vop].args; i++)
			v[i] = cut(g, in[i], at, lanes, want);
		part[n++] = fn(g, s, v, want);
	}
	if (lanes < want)
		return gen_lanes(g, part[0], 0, 1, lanes);
	for (; n > 1; n /= 2, want *= 2)
		for (int i = 0; i < n / 2; i++)
			part[i] = join(g, part[2 * i], part[2 * i + 1], 2 * want);
	return part[0];
}

/* Even or odd bytes of v, widened to 16 bits: two in each lane. */
static LLVMValueRef half_bytes(struct gen *g, LLVMValueRef v, bool odd, bool is_signed, int lanes)
{
	if (!is_signed)
		return and_(g, odd ? lshr(g, v, 8, lanes) : v, 0x00ff00ff, lanes);
	LLVMTypeRef t = LLVMVectorType(g->i16, 2 * (unsigned)lanes);
	LLVMValueRef e[32], x = LLVMBuildBitCast(g->b, v, t, "");
	for (int i = 0; i < 2 * lanes; i++)
		e[i] = LLVMConstInt(g->i16, 8, false);
	LLVMValueRef eight = LLVMConstVector(e, 2 * (unsigned)lanes);
	if (!odd)
		x = LLVMBuildShl(g->b, x, eight, "");
	return gen_bits(g, LLVMBuildAShr(g->b, x, eight, ""), UNIT_I32, lanes);
}

/* The name of one instruction's intrinsic for 4, 8 and 16 lanes. */
static const char *by_width(int lanes, const char *l4, const char *l8, const char *l16)
{
	return lanes == 4 ? l4 : lanes == 8 ? l8 : l16;
}

/* a0 b0 + a1 b1 of signed 16-bit parts. */
static LLVMValueRef pair_products(struct gen *g, LLVMValueRef a, LLVMValueRef b, int lanes)
{
	LLVMValueRef args[2] = {a, b};
	if (g->arch == ARCH_X86)
		return s32_call(g,
				by_width(lanes, "llvm.x86.sse2.pmadd.wd", "llvm.x86.avx2.pmadd.wd",
					 "llvm.x86.avx512.pmaddw.d.512"),
				lanes, args, 2);
	LLVMValueRef lo = LLVMBuildMul(g->b, ashr(g, shl(g, a, 16, lanes), 16, lanes),
				       ashr(g, shl(g, b, 16, lanes), 16, lanes), "");
	LLVMValueRef hi = LLVMBuildMul(g->b, ashr(g, a, 16, lanes), ashr(g, b, 16, lanes), "");
	return LLVMBuildAdd(g->b, lo, hi, "");
}

/* Whether instructions of AVX-512 exist for so many lanes: shorter ones need AVX512VL. */
static bool has_width(const struct gen *g, int lanes)
{
	return lanes < 16 ? has(g, "+avx512vl") : g->t->lanes == 16;
}

/* The processor's own dot product of bytes or pairs: name is "vpdpbusd". NULL: it has none. */
static LLVMValueRef vnni(struct gen *g, const char *name, LLVMValueRef *in, int lanes)
{
	char full[48];
	bool wide = has(g, "+avx512vnni") && has_width(g, lanes);
	if (!wide && !(has(g, "+avxvnni") && lanes <= 8))
		return NULL;
	snprintf(full, sizeof full, "llvm.x86.avx512.%s.%d", name, lanes * 32);
	LLVMValueRef args[3] = {in[2], in[0], in[1]};
	return s32_call(g, full, lanes, args, 3);
}

/* Bytes of a, unsigned, times b's, at most 64: sums of pairs fit in 16 bits. */
static LLVMValueRef narrow_dot(struct gen *g, LLVMValueRef *in, int lanes)
{
	LLVMValueRef pairs = s32_call(g,
				      by_width(lanes, "llvm.x86.ssse3.pmadd.ub.sw.128",
					       "llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx512.pmaddubs.w.512"),
				      lanes, in, 2);
	return LLVMBuildAdd(g->b, in[2], pair_products(g, pairs, gen_s32_const(g, 0x00010001, lanes), lanes),
			    "");
}

static LLVMValueRef x86_dot4(struct gen *g, const struct stmt *s, LLVMValueRef *in, int lanes)
{
	bool is_signed = s->vop == V_DOT4S;
	LLVMValueRef r = is_signed ? NULL : vnni(g, "vpdpbusd", in, lanes);
	if (r)
		return r;
	if (!is_signed && dot_narrow(s))
		return narrow_dot(g, in, lanes);
	r = in[2];
	for (int odd = 0; odd < 2; odd++)
		r = LLVMBuildAdd(g->b, r,
				 pair_products(g, half_bytes(g, in[0], odd, is_signed, lanes),
					       half_bytes(g, in[1], odd, true, lanes), lanes),
				 "");
	return r;
}

/* Half of 16 bytes, widened to 16 bits. */
static LLVMValueRef eight_bytes(struct gen *g, LLVMValueRef v, bool high, bool is_signed)
{
	LLVMTypeRef wide = LLVMVectorType(g->i16, 8);
	v = gen_lanes(g, LLVMBuildBitCast(g->b, v, LLVMVectorType(g->i8, 16), ""), high ? 8 : 0, 1, 8);
	return is_signed ? LLVMBuildSExt(g->b, v, wide, "") : LLVMBuildZExt(g->b, v, wide, "");
}

/* The sums of each two neighbours of eight 16-bit numbers, in 32 bits. */
static LLVMValueRef sum_pairs(struct gen *g, LLVMValueRef v)
{
	LLVMTypeRef over[2] = {gen_type(g, UNIT_I32, 4), LLVMVectorType(g->i16, 8)};
	return gen_target_call(g, g->arch == ARCH_A64 ? "llvm.aarch64.neon.saddlp" : "llvm.arm.neon.vpaddls",
			       over[0], &v, 1, over, 2);
}

/* The sums of each two neighbours of the eight numbers lo, hi. */
static LLVMValueRef a64_sum_pairs32(struct gen *g, LLVMValueRef lo, LLVMValueRef hi)
{
	LLVMTypeRef s32 = gen_type(g, UNIT_I32, 4);
	LLVMValueRef args[2] = {lo, hi};
	return gen_target_call(g, "llvm.aarch64.neon.addp", s32, args, 2, &s32, 1);
}

static LLVMValueRef a32_sum_pairs32(struct gen *g, LLVMValueRef lo, LLVMValueRef hi)
{
	LLVMTypeRef s32 = gen_type(g, UNIT_I32, 2);
	LLVMValueRef in[2] = {lo, hi}, sum[2];
	for (int i = 0; i < 2; i++) {
		LLVMValueRef args[2] = {gen_lanes(g, in[i], 0, 1, 2), gen_lanes(g, in[i], 2, 1, 2)};
		sum[i] = gen_target_call(g, "llvm.arm.neon.vpadd", s32, args, 2, &s32, 1);
	}
	return join(g, sum[0], sum[1], 4);
}

/* Products of bytes fit in 16 bits, but two of them do not (-128 * -128 twice): they are added in 32. */
static LLVMValueRef neon_dot4(struct gen *g, const struct stmt *s, LLVMValueRef *in, int lanes)
{
	LLVMValueRef sum[2];
	(void)lanes;
	for (int i = 0; i < 2; i++) {
		LLVMValueRef a = eight_bytes(g, in[0], i, s->vop == V_DOT4S);
		sum[i] = sum_pairs(g, LLVMBuildMul(g->b, a, eight_bytes(g, in[1], i, true), ""));
	}
	LLVMValueRef r =
	    g->arch == ARCH_A64 ? a64_sum_pairs32(g, sum[0], sum[1]) : a32_sum_pairs32(g, sum[0], sum[1]);
	return LLVMBuildAdd(g->b, in[2], r, "");
}

/* sdot, usdot, smmla or usmmla: c + the products of a's and b's bytes. */
static LLVMValueRef a64_dot(struct gen *g, const char *name, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
	LLVMTypeRef over[2] = {gen_type(g, UNIT_I32, 4), LLVMVectorType(g->i8, 16)};
	LLVMValueRef args[3] = {c, a, b};
	return gen_target_call(g, name, over[0], args, 3, over, 2);
}

static bool is_splat(LLVMValueRef v, int lanes)
{
	bool all = LLVMIsAShuffleVectorInst(v) && LLVMGetNumMaskElements(v) == (unsigned)lanes;
	for (unsigned i = 0; i < (unsigned)lanes && all; i++)
		all = LLVMGetMaskValue(v, i) == 0;
	return all;
}

/* Unsigned bytes by signed dot products: a - 128 is signed, and 128 times the sum of b's bytes makes up for
 * it. That is the same for all points of a tile that multiply b, and LLVM computes it once for them. */
static LLVMValueRef a64_shifted_dot(struct gen *g, LLVMValueRef *in, int lanes)
{
	static const char sdot[] = "llvm.aarch64.neon.sdot";
	LLVMValueRef ones = gen_s32_const(g, 0x01010101, lanes), flip = gen_s32_const(g, 0x80808080, lanes);
	bool turned = is_splat(in[0], lanes);
	LLVMValueRef a = LLVMBuildXor(g->b, turned ? LLVMGetOperand(in[0], 0) : in[0], flip, "");
	LLVMValueRef sums = a64_dot(g, sdot, ones, in[1], gen_s32_const(g, 0, lanes));
	LLVMValueRef r = turned ? a64_dot(g, sdot, in[1], gen_lanes(g, a, 0, 0, lanes), in[2])
				: a64_dot(g, sdot, a, in[1], in[2]);
	return LLVMBuildAdd(g->b, r, shl(g, sums, 7, lanes), "");
}

static LLVMValueRef a64_dot4(struct gen *g, const struct stmt *s, LLVMValueRef *in, int lanes)
{
	bool is_signed = s->vop == V_DOT4S;
	if (!is_signed && has(g, "+i8mm"))
		return a64_dot(g, "llvm.aarch64.neon.usdot", in[0], in[1], in[2]);
	if (!has(g, "+dotprod"))
		return neon_dot4(g, s, in, lanes);
	bool turned = is_signed && is_splat(in[0], lanes); /* SDOT takes its second operand by element */
	return is_signed ? a64_dot(g, "llvm.aarch64.neon.sdot", in[turned], in[!turned], in[2])
			 : a64_shifted_dot(g, in, lanes);
}

static piece_fn *const dot4[ARCHS] = {[ARCH_X86] = x86_dot4, [ARCH_A64] = a64_dot4, [ARCH_A32] = neon_dot4};

/* Only for targets that have such an instruction. */
static LLVMValueRef mmla(struct gen *g, const struct stmt *s, LLVMValueRef *in, int lanes)
{
	(void)lanes;
	return a64_dot(g, s->vop == V_MMLAS ? "llvm.aarch64.neon.smmla" : "llvm.aarch64.neon.usmmla", in[0],
		       in[1], in[2]);
}

static LLVMValueRef dot2(struct gen *g, const struct stmt *s, LLVMValueRef *in, int lanes)
{
	LLVMValueRef v = g->arch == ARCH_X86 ? vnni(g, "vpdpwssd", in, lanes) : NULL;
	(void)s;
	return v ? v : LLVMBuildAdd(g->b, in[2], pair_products(g, in[0], in[1], lanes), "");
}

static LLVMValueRef bdot2(struct gen *g, const struct stmt *s, LLVMValueRef *in, int lanes)
{
	(void)s;
	if (has(g, "+avx512bf16") && has_width(g, lanes)) {
		char name[48];
		LLVMValueRef args[3] = {in[2], in[0], in[1]};
		snprintf(name, sizeof name, "llvm.x86.avx512bf16.dpbf16ps.%d", lanes * 32);
		return gen_target_call(g, name, gen_type(g, UNIT_F32, lanes), args, 3, NULL, 0);
	}
	LLVMValueRef r = in[2];
	for (int odd = 1; odd >= 0; odd--) {
		LLVMValueRef args[3];
		for (int i = 0; i < 2; i++)
			args[i] =
			    gen_bits(g, odd ? and_(g, in[i], 0xffff0000, lanes) : shl(g, in[i], 16, lanes),
				     UNIT_F32, lanes);
		args[2] = r;
		r = gen_call(g, IN_FMA, UNIT_F32, lanes, args, 3);
	}
	return r;
}

static LLVMTypeRef half_type(struct gen *g, int lanes)
{
	LLVMTypeRef h = LLVMHalfTypeInContext(g->ctx);
	return lanes == 1 ? h : LLVMVectorType(h, (unsigned)lanes);
}

/* Only for targets that have such an instruction: LLVM would take others through f32, and round twice. */
static LLVMValueRef fma2(struct gen *g, const struct stmt *s, LLVMValueRef *in, int lanes)
{
	LLVMTypeRef halves = half_type(g, 2 * lanes);
	(void)s;
	return gen_target_call(g, "llvm.fma", gen_type(g, UNIT_I32, lanes), in, 3, &halves, 1);
}

static LLVMValueRef sum2(struct gen *g, const struct stmt *s, LLVMValueRef *in, int lanes)
{
	LLVMTypeRef f32s = gen_type(g, UNIT_F32, lanes);
	LLVMValueRef part[2], v = LLVMBuildBitCast(g->b, in[0], half_type(g, 2 * lanes), "");
	(void)s;
	v = LLVMBuildFPExt(g->b, v, LLVMVectorType(g->f32, 2 * (unsigned)lanes), "");
	for (int i = 0; i < 2; i++)
		part[i] = gen_lanes(g, v, i * lanes, 1, lanes);
	v = gen_target_call(g, "llvm.aarch64.neon.faddp", f32s, part, 2, &f32s, 1);
	return LLVMBuildFAdd(g->b, in[1], v, "");
}

static LLVMValueRef x86_cvt_to_s32(struct gen *g, const struct stmt *s, LLVMValueRef *in, int lanes)
{
	LLVMValueRef args[4] = {in[0], gen_s32_const(g, 0, 16), LLVMConstAllOnes(g->i16),
				LLVMConstInt(g->i32, 4, false)};
	(void)s;
	return s32_call(g,
			by_width(lanes, "llvm.x86.sse2.cvtps2dq", "llvm.x86.avx.cvt.ps2dq.256",
				 "llvm.x86.avx512.mask.cvtps2dq.512"),
			lanes, args, lanes == 16 ? 4 : 1);
}

static LLVMValueRef a64_cvt_to_s32(struct gen *g, const struct stmt *s, LLVMValueRef *in, int lanes)
{
	LLVMTypeRef over[2] = {gen_type(g, UNIT_I32, lanes), gen_type(g, UNIT_F32, lanes)};
	(void)s;
	return gen_target_call(g, "llvm.aarch64.neon.fcvtns", over[0], in, 1, over, 2);
}

static LLVMValueRef a32_cvt_to_s32(struct gen *g, const struct stmt *s, LLVMValueRef *in, int lanes)
{
	(void)s;
	/* |x| + 2^23 - 2^23 is the nearest whole number; beyond 2^23 there are no others. */
	LLVMValueRef big = gen_const(g, 0x1p23f, lanes), m = gen_call(g, IN_FABS, UNIT_F32, lanes, in, 1),
		     sign[2];
	LLVMValueRef r = LLVMBuildFSub(g->b, LLVMBuildFAdd(g->b, m, big, ""), big, "");
	r = choose(g, LLVMBuildFCmp(g->b, LLVMRealOLT, m, big, ""), r, m);
	sign[0] = r;
	sign[1] = in[0];
	r = gen_call(g, IN_COPYSIGN, UNIT_F32, lanes, sign, 2);
	return LLVMBuildFPToSI(g->b, r, gen_type(g, UNIT_I32, lanes), "");
}

static piece_fn *const cvt_to_s32[ARCHS] = {
    [ARCH_X86] = x86_cvt_to_s32, [ARCH_A64] = a64_cvt_to_s32, [ARCH_A32] = a32_cvt_to_s32};

/* Saturating packs clamp as QUAD does, and put the four bytes of lane i of a 128-bit part at i, i + 4, i + 8
 * and i + 12 of that part. */
static LLVMValueRef x86_quad(struct gen *g, const LLVMValueRef *in, bool is_signed, int lanes)
{
	LLVMValueRef half[2], index[64];
	unsigned n = 4 * (unsigned)lanes;
	for (int i = 0; i < 2; i++)
		half[i] = s32_call(g,
				   by_width(lanes, "llvm.x86.sse2.packssdw.128", "llvm.x86.avx2.packssdw",
					    "llvm.x86.avx512.packssdw.512"),
				   lanes, (LLVMValueRef[]){in[2 * i], in[2 * i + 1]}, 2);
	LLVMValueRef r = is_signed
			     ? s32_call(g,
					by_width(lanes, "llvm.x86.sse2.packsswb.128",
						 "llvm.x86.avx2.packsswb", "llvm.x86.avx512.packsswb.512"),
					lanes, half, 2)
			     : s32_call(g,
					by_width(lanes, "llvm.x86.sse2.packuswb.128",
						 "llvm.x86.avx2.packuswb", "llvm.x86.avx512.packuswb.512"),
					lanes, half, 2);
	for (unsigned j = 0; j < n; j++)
		index[j] = LLVMConstInt(g->i32, j / 16 * 16 + j % 4 * 4 + j % 16 / 4, false);
	r = LLVMBuildBitCast(g->b, r, LLVMVectorType(g->i8, n), "");
	return gen_bits(g, LLVMBuildShuffleVector(g->b, r, r, LLVMConstVector(index, n), ""), UNIT_I32,
			lanes);
}

static LLVMValueRef quad(struct gen *g, const struct stmt *s, LLVMValueRef *in, int lanes)
{
	bool is_signed = s->vop == V_QUADS;
	int32_t lo = is_signed ? -128 : 0, hi = is_signed ? 127 : 255;
	LLVMValueRef r = NULL;
	if (g->arch == ARCH_X86)
		return x86_quad(g, in, is_signed, lanes);
	for (int i = 0; i < 4; i++) {
		LLVMValueRef v = clamp(g, in[i], lo, hi, lanes);
		if (lo < 0 && i < 3)
			v = and_(g, v, 255, lanes);
		v = i ? shl(g, v, 8 * (uint32_t)i, lanes) : v;
		r = r ? LLVMBuildOr(g->b, r, v, "") : v;
	}
	return r;
}

/* The transposition of lane i's parts: its dwords go to the 128-bit part that has them in the result, or
 * back. */
static LLVMValueRef dwords_turned(struct gen *g, LLVMValueRef v, bool back, int lanes)
{
	LLVMValueRef at[16];
	int rows = lanes / 4;
	for (int i = 0; i < lanes; i++)
		at[i] = LLVMConstInt(
		    g->i32, (unsigned)(back ? i % rows * 4 + i / rows : i % 4 * rows + i / 4), false);
	return LLVMBuildShuffleVector(g->b, v, v, LLVMConstVector(at, (unsigned)lanes), "");
}

/* BTURN and BBACK. Processors without a shuffle of all bytes of a register move dwords between its 128-bit
 * parts and then bytes inside of these. */
static LLVMValueRef bytes_turned(struct gen *g, LLVMValueRef v, bool back, int lanes)
{
	LLVMTypeRef bytes = LLVMVectorType(g->i8, 4 * (unsigned)lanes);
	LLVMValueRef index[64];
	bool parts = lanes > 4 && !(lanes == 16 && has(g, "+avx512vbmi"));
	int rows = parts ? 4 : lanes;
	v = parts && !back ? dwords_turned(g, v, false, lanes) : v;
	for (int j = 0; j < 4 * lanes; j++) {
		int part = parts ? j / 16 * 16 : 0, i = j - part;
		int from = part + (back ? i % rows * 4 + i / rows : i % 4 * rows + i / 4);
		index[j] = LLVMConstInt(g->i32, (unsigned)from, false);
	}
	v = LLVMBuildBitCast(g->b, v, bytes, "");
	v = LLVMBuildShuffleVector(g->b, v, v, LLVMConstVector(index, 4 * (unsigned)lanes), "");
	v = gen_bits(g, v, UNIT_I32, lanes);
	return parts && back ? dwords_turned(g, v, true, lanes) : v;
}

LLVMValueRef gen_group_op(struct gen *g, const struct stmt *s, const LLVMValueRef *in, int lanes)
{
	if (g->arch == ARCH_PTX)
		return gpu_group_op(g, s, in, lanes);
	switch (s->vop) {
	case V_DOT4U:
	case V_DOT4S:
		return by_pieces(g, dot4[g->arch], s, in, lanes);
	case V_MMLAU:
	case V_MMLAS:
		return by_pieces(g, mmla, s, in, lanes);
	case V_DOT2:
		return by_pieces(g, dot2, s, in, lanes);
	case V_BDOT2:
		return by_pieces(g, bdot2, s, in, lanes);
	case V_FMA2:
		return by_pieces(g, fma2, s, in, lanes);
	case V_SUM2:
		return by_pieces(g, sum2, s, in, lanes);
	case V_CVT:
		return g->l->type[s->dst] == LV_S32
			   ? by_pieces(g, cvt_to_s32[g->arch], s, in, lanes)
			   : LLVMBuildSIToFP(g->b, in[0], gen_type(g, UNIT_F32, lanes), "");
	case V_QUADU:
	case V_QUADS:
		return by_pieces(g, quad, s, in, lanes);
	default:
		return bytes_turned(g, in[0], s->vop == V_BBACK, lanes);
	}
}

enum unit gen_unit(enum lv_type type, enum dtype elem, int group)
{
	size_t bytes = dtype_bytes(elem) * (size_t)group;
	return elem == DT_F32 && type == LV_F32 ? UNIT_F32
	       : bytes == 4                     ? UNIT_I32
	       : bytes == 2                     ? UNIT_I16
						: UNIT_I8;
}

/* f16 as f32 without an instruction for it. A subnormal is 2^-14 more, less 2^-14. */
static LLVMValueRef widen_half(struct gen *g, LLVMValueRef h, int lanes)
{
	LLVMValueRef m = shl(g, and_(g, h, 0x7fff, lanes), 13, lanes);
	LLVMValueRef exp = and_(g, m, 0x0f800000, lanes), rebias = gen_s32_const(g, 112u << 23, lanes);
	LLVMValueRef v = LLVMBuildAdd(g->b, m, rebias, ""), low = gen_s32_const(g, 113u << 23, lanes);
	LLVMValueRef sub = LLVMBuildFSub(g->b, gen_bits(g, LLVMBuildAdd(g->b, m, low, ""), UNIT_F32, lanes),
					 gen_bits(g, low, UNIT_F32, lanes), "");
	LLVMValueRef is_inf = LLVMBuildICmp(g->b, LLVMIntEQ, exp, gen_s32_const(g, 0x0f800000, lanes), "");
	LLVMValueRef is_sub = LLVMBuildICmp(g->b, LLVMIntEQ, exp, gen_s32_const(g, 0, lanes), "");
	v = choose(g, is_inf, LLVMBuildAdd(g->b, v, rebias, ""), v);
	v = choose(g, is_sub, gen_bits(g, sub, UNIT_I32, lanes), v);
	v = LLVMBuildOr(g->b, v, shl(g, and_(g, h, 0x8000, lanes), 16, lanes), "");
	return gen_bits(g, v, UNIT_F32, lanes);
}

LLVMValueRef gen_widen(struct gen *g, LLVMValueRef v, enum lv_type type, enum dtype elem, int group,
		       int lanes)
{
	LLVMTypeRef s32 = gen_type(g, UNIT_I32, lanes);
	bool is_signed = elem == DT_I8 || elem == DT_I16;
	if (gen_unit(type, elem, group) == UNIT_F32 || dtype_bytes(elem) * (size_t)group == 4)
		return v;
	if (type == LV_F32 && elem == DT_F16 && g->half)
		return LLVMBuildFPExt(g->b, LLVMBuildBitCast(g->b, v, half_type(g, lanes), ""),
				      gen_type(g, UNIT_F32, lanes), "");
	if (group == 2 && g->arch == ARCH_PTX)
		return gpu_widen_pairs(g, v, is_signed, lanes);
	if (group == 2) { /* bytes in pairs */
		LLVMTypeRef i8s = LLVMVectorType(g->i8, 2 * (unsigned)lanes);
		LLVMTypeRef i16s = LLVMVectorType(g->i16, 2 * (unsigned)lanes);
		v = LLVMBuildBitCast(g->b, v, i8s, "");
		v = is_signed ? LLVMBuildSExt(g->b, v, i16s, "") : LLVMBuildZExt(g->b, v, i16s, "");
		return LLVMBuildBitCast(g->b, v, s32, "");
	}
	v = is_signed ? LLVMBuildSExt(g->b, v, s32, "") : LLVMBuildZExt(g->b, v, s32, "");
	if (type == LV_S32)
		return v;
	return elem == DT_F16 ? widen_half(g, v, lanes) : gen_bits(g, shl(g, v, 16, lanes), UNIT_F32, lanes);
}

/* f32 as f16 without an instruction for it, in the low bits. 0.5 has the last place of f16's subnormals. */
static LLVMValueRef narrow_half(struct gen *g, LLVMValueRef x, int lanes)
{
	LLVMValueRef m = and_(g, x, 0x7fffffff, lanes), half = gen_const(g, 0.5f, lanes);
	LLVMValueRef odd = and_(g, lshr(g, m, 13, lanes), 1, lanes);
	LLVMValueRef v = LLVMBuildAdd(g->b, m, gen_s32_const(g, 0xfffu - 0x38000000u, lanes), "");
	v = lshr(g, LLVMBuildAdd(g->b, v, odd, ""), 13, lanes);
	LLVMValueRef sub = LLVMBuildFAdd(g->b, gen_bits(g, m, UNIT_F32, lanes), half, "");
	sub = LLVMBuildSub(g->b, gen_bits(g, sub, UNIT_I32, lanes), gen_bits(g, half, UNIT_I32, lanes), "");
	v = choose(g, LLVMBuildICmp(g->b, LLVMIntULT, m, gen_s32_const(g, 0x38800000, lanes), ""), sub, v);
	v = choose(g, LLVMBuildICmp(g->b, LLVMIntUGE, m, gen_s32_const(g, 0x477ff000, lanes), ""),
		   gen_s32_const(g, 0x7c00, lanes), v);
	v = choose(g, LLVMBuildICmp(g->b, LLVMIntUGT, m, gen_s32_const(g, 0x7f800000, lanes), ""),
		   gen_s32_const(g, 0x7e00, lanes), v);
	return LLVMBuildOr(g->b, v, and_(g, lshr(g, x, 16, lanes), 0x8000, lanes), "");
}

/* f32 as bf16: rounded to even, subnormals flushed, NaN quiet. */
static LLVMValueRef narrow_bf16(struct gen *g, LLVMValueRef f, int lanes)
{
	int wide = lanes < 8 ? 8 : lanes;
	if (has(g, "+avx512bf16") && has_width(g, wide)) { /* it does just that */
		LLVMValueRef v = cut(g, f, 0, lanes, wide);
		v = gen_target_call(g,
				    wide == 8 ? "llvm.x86.avx512bf16.cvtneps2bf16.256"
					      : "llvm.x86.avx512bf16.cvtneps2bf16.512",
				    gen_type(g, UNIT_I16, wide), &v, 1, NULL, 0);
		return lanes < wide ? gen_lanes(g, v, 0, 1, lanes) : v;
	}
	LLVMValueRef x = gen_bits(g, f, UNIT_I32, lanes), m = and_(g, x, 0x7fffffff, lanes),
		     high = lshr(g, x, 16, lanes);
	LLVMValueRef v = LLVMBuildAdd(g->b, LLVMBuildAdd(g->b, x, gen_s32_const(g, 0x7fff, lanes), ""),
				      and_(g, high, 1, lanes), "");
	v = lshr(g, v, 16, lanes);
	v = choose(g, LLVMBuildICmp(g->b, LLVMIntUGT, m, gen_s32_const(g, 0x7f800000, lanes), ""),
		   LLVMBuildOr(g->b, high, gen_s32_const(g, 0x40, lanes), ""), v);
	v = choose(g, LLVMBuildICmp(g->b, LLVMIntULT, m, gen_s32_const(g, 0x00800000, lanes), ""),
		   and_(g, high, 0x8000, lanes), v);
	return LLVMBuildTrunc(g->b, v, gen_type(g, UNIT_I16, lanes), "");
}

LLVMValueRef gen_narrow(struct gen *g, LLVMValueRef v, enum lv_type type, enum dtype elem, int group,
			int lanes)
{
	if (gen_unit(type, elem, group) == UNIT_F32 || dtype_bytes(elem) * (size_t)group == 4)
		return v;
	if (type == LV_F32 && elem == DT_F16 && g->half)
		return LLVMBuildBitCast(g->b, LLVMBuildFPTrunc(g->b, v, half_type(g, lanes), ""),
					gen_type(g, UNIT_I16, lanes), "");
	if (type == LV_F32 && elem == DT_BF16)
		return narrow_bf16(g, v, lanes);
	if (type == LV_F32) {
		v = narrow_half(g, gen_bits(g, v, UNIT_I32, lanes), lanes);
	} else {
		v = elem == DT_I8   ? clamp(g, v, INT8_MIN, INT8_MAX, lanes)
		    : elem == DT_U8 ? clamp(g, v, 0, UINT8_MAX, lanes)
				    : clamp(g, v, INT16_MIN, INT16_MAX, lanes);
	}
	return LLVMBuildTrunc(g->b, v, gen_type(g, gen_unit(type, elem, group), lanes), "");
}

uint32_t gen_fill_bits(enum lv_type type, enum dtype elem, int group, float fill)
{
	uint32_t bits = 0;
	struct lane_type t = {type, elem, group};
	if (dtype_bytes(elem) * (size_t)group == 2 && group == 2) /* bytes that are widened */
		return ((uint32_t)(int32_t)fill & 255) * 0x101;
	lane_store(t, &bits, 0, lane_fill(t, fill));
	return bits;
}
