/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/emit/llvm_gen.h"
#include <string.h>

static int lane_kind(int lanes)
{
	return __builtin_ctz((unsigned)lanes);
}

LLVMTypeRef gen_type(struct gen *g, enum unit u, int lanes)
{
	return g->vec[u][lane_kind(lanes)];
}

static LLVMValueRef const_splat(LLVMValueRef one, int lanes)
{
	LLVMValueRef e[16];
	for (int i = 0; i < lanes; i++)
		e[i] = one;
	return lanes == 1 ? one : LLVMConstVector(e, (unsigned)lanes);
}

LLVMValueRef gen_const(struct gen *g, float v, int lanes)
{
	return const_splat(LLVMConstReal(g->f32, (double)v), lanes);
}

LLVMValueRef gen_s32_const(struct gen *g, uint32_t v, int lanes)
{
	return const_splat(LLVMConstInt(g->i32, v, false), lanes);
}

LLVMValueRef gen_lanes(struct gen *g, LLVMValueRef v, int first, int step, int n)
{
	LLVMValueRef at[16];
	if (n == 1)
		return LLVMBuildExtractElement(g->b, v, LLVMConstInt(g->i32, (unsigned)first, false), "");
	for (int i = 0; i < n; i++)
		at[i] = LLVMConstInt(g->i32, (unsigned)(first + i * step), false);
	return LLVMBuildShuffleVector(g->b, v, LLVMGetUndef(LLVMTypeOf(v)), LLVMConstVector(at, (unsigned)n),
				      "");
}

LLVMValueRef gen_splat(struct gen *g, LLVMValueRef scalar, int lanes)
{
	if (lanes == 1)
		return scalar;
	LLVMTypeRef t = LLVMVectorType(LLVMTypeOf(scalar), (unsigned)lanes);
	LLVMValueRef v =
	    LLVMBuildInsertElement(g->b, LLVMGetUndef(t), scalar, LLVMConstInt(g->i32, 0, false), "");
	return gen_lanes(g, v, 0, 0, lanes);
}

static const char *const intrinsic_name[INTRINSICS] = {
    [IN_FMA] = "llvm.fma",
    [IN_SQRT] = "llvm.sqrt",
    [IN_FLOOR] = "llvm.floor",
    [IN_CEIL] = "llvm.ceil",
    [IN_RINT] = "llvm.nearbyint",
    [IN_FABS] = "llvm.fabs",
    [IN_COPYSIGN] = "llvm.copysign",
    [IN_MASKED_LOAD] = "llvm.masked.load",
    [IN_MASKED_STORE] = "llvm.masked.store",
    [IN_PREFETCH] = "llvm.prefetch",
};

static void declare(struct gen *g, enum llvm_intrinsic in, enum unit u, int lanes)
{
	LLVMTypeRef v = gen_type(g, u, lanes), over[2] = {v, LLVMPointerType(v, 0)};
	size_t n = in == IN_MASKED_LOAD || in == IN_MASKED_STORE ? 2 : 1;
	if (in == IN_PREFETCH)
		over[0] = g->ptr;
	unsigned id = LLVMLookupIntrinsicID(intrinsic_name[in], strlen(intrinsic_name[in]));
	int k = lane_kind(lanes);
	g->intrinsic[in][u][k].type = LLVMIntrinsicGetType(g->ctx, id, over, n);
	g->intrinsic[in][u][k].fn = LLVMGetIntrinsicDeclaration(g->mod, id, over, n);
}

LLVMValueRef gen_call(struct gen *g, enum llvm_intrinsic in, enum unit u, int lanes, LLVMValueRef *args,
		      unsigned n)
{
	int k = lane_kind(lanes);
	if (!g->intrinsic[in][u][k].fn)
		declare(g, in, u, lanes);
	return LLVMBuildCall2(g->b, g->intrinsic[in][u][k].type, g->intrinsic[in][u][k].fn, args, n, "");
}

/* An operation of f32. */
static LLVMValueRef call(struct gen *g, enum llvm_intrinsic in, int lanes, LLVMValueRef *args, unsigned n)
{
	return gen_call(g, in, UNIT_F32, lanes, args, n);
}

static LLVMValueRef choose(struct gen *g, LLVMRealPredicate p, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c,
			   LLVMValueRef d)
{
	return LLVMBuildSelect(g->b, LLVMBuildFCmp(g->b, p, a, b, ""), c, d, "");
}

static LLVMValueRef two_s32(struct gen *g, enum vop op, LLVMValueRef a, LLVMValueRef b)
{
	switch (op) {
	case V_ADD:
	case V_HADD:
		return LLVMBuildAdd(g->b, a, b, "");
	case V_SUB:
		return LLVMBuildSub(g->b, a, b, "");
	case V_MUL:
	case V_HMUL:
		return LLVMBuildMul(g->b, a, b, "");
	case V_MIN:
	case V_HMIN:
		return LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, a, b, ""), a, b, "");
	default:
		return LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSGT, a, b, ""), a, b, "");
	}
}

static LLVMValueRef two(struct gen *g, enum lv_type type, enum vop op, LLVMValueRef a, LLVMValueRef b)
{
	if (type == LV_S32)
		return two_s32(g, op, a, b);
	switch (op) {
	case V_ADD:
	case V_HADD:
		return LLVMBuildFAdd(g->b, a, b, "");
	case V_SUB:
		return LLVMBuildFSub(g->b, a, b, "");
	case V_MUL:
	case V_HMUL:
		return LLVMBuildFMul(g->b, a, b, "");
	case V_DIV:
		return LLVMBuildFDiv(g->b, a, b, "");
	case V_MIN:
	case V_HMIN:
		return choose(g, LLVMRealOLT, a, b, a, b);
	default:
		return choose(g, LLVMRealOGT, a, b, a, b);
	}
}

/* Rounds without a special instruction: |x| + 2^23 - 2^23 rounds to nearest even, and one step corrects the
 * other modes. Beyond 2^23, and for NaN, the result is x. The sign of x gives -0. */
static LLVMValueRef round_by_adding(struct gen *g, enum vop op, LLVMValueRef x, int lanes)
{
	LLVMValueRef big = gen_const(g, 0x1p23f, lanes), one = gen_const(g, 1, lanes);
	LLVMValueRef m = call(g, IN_FABS, lanes, &x, 1);
	LLVMValueRef r = LLVMBuildFSub(g->b, LLVMBuildFAdd(g->b, m, big, ""), big, "");
	LLVMValueRef args[2] = {r, x};
	r = call(g, IN_COPYSIGN, lanes, args, 2);
	if (op == V_FLOOR)
		r = choose(g, LLVMRealOGT, r, x, LLVMBuildFSub(g->b, r, one, ""), r);
	if (op == V_CEIL)
		r = choose(g, LLVMRealOLT, r, x, LLVMBuildFAdd(g->b, r, one, ""), r);
	args[0] = r;
	r = call(g, IN_COPYSIGN, lanes, args, 2);
	return choose(g, LLVMRealOLT, m, big, r, x);
}

static LLVMValueRef round_to_int(struct gen *g, enum vop op, LLVMValueRef x, int lanes)
{
	if (g->round_libcalls)
		return round_by_adding(g, op, x, lanes);
	return call(g, op == V_FLOOR ? IN_FLOOR : op == V_CEIL ? IN_CEIL : IN_RINT, lanes, &x, 1);
}

LLVMValueRef gen_bits(struct gen *g, LLVMValueRef v, enum unit u, int lanes)
{
	return LLVMBuildBitCast(g->b, v, gen_type(g, u, lanes), "");
}

static LLVMValueRef to_bits(struct gen *g, LLVMValueRef x, int lanes)
{
	return gen_bits(g, x, UNIT_I32, lanes);
}

static LLVMValueRef pow2(struct gen *g, LLVMValueRef x, int lanes)
{
	LLVMValueRef i = LLVMBuildShl(g->b, to_bits(g, x, lanes), gen_s32_const(g, 23, lanes), "");
	return gen_bits(g, i, UNIT_F32, lanes);
}

static LLVMValueRef getexp_(struct gen *g, LLVMValueRef x, int lanes)
{
	LLVMValueRef i = LLVMBuildLShr(g->b, to_bits(g, x, lanes), gen_s32_const(g, 23, lanes), "");
	i = LLVMBuildAnd(g->b, i, gen_s32_const(g, 255, lanes), "");
	i = LLVMBuildSub(g->b, i, gen_s32_const(g, 127, lanes), "");
	return LLVMBuildSIToFP(g->b, i, gen_type(g, UNIT_F32, lanes), "");
}

static LLVMValueRef getmant_(struct gen *g, LLVMValueRef x, int lanes)
{
	LLVMValueRef i = LLVMBuildAnd(g->b, to_bits(g, x, lanes), gen_s32_const(g, 0x7fffff, lanes), "");
	i = LLVMBuildOr(g->b, i, gen_s32_const(g, 0x3f800000, lanes), "");
	return gen_bits(g, i, UNIT_F32, lanes);
}

static LLVMValueRef one_of(struct gen *g, enum vop op, LLVMValueRef a, int lanes)
{
	switch (op) {
	case V_COPY:
		return a;
	case V_NEG:
		return LLVMBuildFNeg(g->b, a, "");
	case V_ABS:
		return call(g, IN_FABS, lanes, &a, 1);
	case V_SQRT:
		return call(g, IN_SQRT, lanes, &a, 1);
	case V_POW2:
		return pow2(g, a, lanes);
	case V_GETEXP:
		return getexp_(g, a, lanes);
	case V_GETMANT:
		return getmant_(g, a, lanes);
	default:
		return round_to_int(g, op, a, lanes);
	}
}

static LLVMValueRef fma3(struct gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c, int lanes)
{
	LLVMValueRef args[3] = {a, b, c};
	if (g->l->fma)
		return call(g, IN_FMA, lanes, args, 3);
	return LLVMBuildFAdd(g->b, LLVMBuildFMul(g->b, a, b, ""), c, "");
}

/* The tree that loops.h fixes: halves until one lane is left. */
static LLVMValueRef across(struct gen *g, enum lv_type type, enum vop op, LLVMValueRef v, int from, int lanes)
{
	for (int n = from / 2; n >= 1; n /= 2)
		v = two(g, type, op, gen_lanes(g, v, 0, 1, n), gen_lanes(g, v, n, 1, n));
	return gen_splat(g, v, lanes);
}

static LLVMValueRef lane(struct gen *g, LLVMValueRef v, int at, int from, int lanes)
{
	return from == 1 ? gen_splat(g, v, lanes) : gen_lanes(g, v, at, 0, lanes);
}

static LLVMValueRef trn(struct gen *g, LLVMValueRef a, LLVMValueRef b, bool odd, int step, int lanes)
{
	LLVMValueRef at[16];
	for (int j = 0; j < lanes; j++) {
		int from = odd ? (j & step ? lanes + j : j + step) : (j & step ? lanes + j - step : j);
		at[j] = LLVMConstInt(g->i32, (unsigned)from, false);
	}
	return LLVMBuildShuffleVector(g->b, a, b, LLVMConstVector(at, (unsigned)lanes), "");
}

static LLVMValueRef lace(struct gen *g, LLVMValueRef a, LLVMValueRef b, struct lace x, int lanes)
{
	LLVMValueRef at[16];
	for (int j = 0; j < lanes; j++) {
		int from = lace_lane(x, j, lanes);
		at[j] = LLVMConstInt(g->i32, (unsigned)(from < 0 ? j : lanes + from), false);
	}
	return LLVMBuildShuffleVector(g->b, a, b, LLVMConstVector(at, (unsigned)lanes), "");
}

void gen_set(struct gen *g, const struct stmt *s)
{
	static const LLVMRealPredicate predicate[V_OPS] = {
	    [V_SEL_LT] = LLVMRealOLT, [V_SEL_LE] = LLVMRealOLE, [V_SEL_EQ] = LLVMRealOEQ};
	const int arg[4] = {s->a, s->b, s->c, s->d};
	int lanes = g->l->lanes[s->dst], n = vop_info[s->vop].args;
	enum lv_type type = g->l->type[s->dst];
	LLVMValueRef v[4] = {NULL}, r;
	for (int i = 0; i < n; i++)
		v[i] = g->cur[arg[i]];
	if (s->vop == V_LOAD)
		r = gen_load(g, &s->mem, type, lanes);
	else if (s->vop >= V_F32_OPS)
		r = gen_group_op(g, s, v, lanes);
	else if (s->vop == V_CONST && type == LV_S32)
		r = gen_s32_const(g, (uint32_t)s->s32, lanes);
	else if (s->vop == V_CONST && g->piped && s->imm != 0)
		r = gen_pipe_const(g, s->imm, lanes);
	else if (s->vop == V_CONST)
		r = gen_const(g, s->imm, lanes);
	else if (s->vop == V_LANE)
		r = lane(g, v[0], (int)s->imm, g->l->lanes[s->a], lanes);
	else if (s->vop == V_TRN0 || s->vop == V_TRN1)
		r = trn(g, v[0], v[1], s->vop == V_TRN1, (int)s->imm, lanes);
	else if (s->vop == V_LACE)
		r = lace(g, v[0], v[1], lace_of((int)s->imm), lanes);
	else if (vop_across(s->vop))
		r = across(g, type, s->vop, v[0], g->l->lanes[s->a], lanes);
	else if (n == 4)
		r = choose(g, predicate[s->vop], v[0], v[1], v[2], v[3]);
	else if (n == 3)
		r = fma3(g, v[0], v[1], v[2], lanes);
	else if (n == 2)
		r = two(g, type, s->vop, v[0], v[1]);
	else
		r = one_of(g, s->vop, v[0], lanes);
	g->cur[s->dst] = r;
}
