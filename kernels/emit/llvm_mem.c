/* SPDX-License-Identifier: Apache-2.0 */
/* Memory accesses. A guard or an invalid lane never selects between values, but selects the address of a
 * constant that holds the fill (a select of vectors by a scalar condition would become a branch). */
#include "kernels/emit/llvm_gen.h"
#include "kernels/loops/loops_lane.h"
#include <string.h>

static LLVMValueRef mark(struct gen *g, LLVMValueRef access, int buf)
{
	if (g->scopes) {
		LLVMSetMetadata(access, g->alias_kind, g->alias[buf]);
		if (g->noalias[buf])
			LLVMSetMetadata(access, g->noalias_kind, g->noalias[buf]);
	}
	return access;
}

/* One access: where it goes, and the unit that each lane has in memory. */
struct access {
	const struct mem *m;
	struct mem plain; /* m without a guard or a limit that holds always */
	enum unit unit;
	int lanes;
	int64_t elem;       /* bytes */
	int64_t stride;     /* between lanes, in units; -1: not a whole number of them */
	LLVMValueRef guard; /* NULL: none */
	uint32_t fill;      /* a unit's bits if the guard is false */
};

static LLVMValueRef load_at(struct gen *g, const struct access *x, LLVMValueRef p, int lanes)
{
	LLVMTypeRef t = gen_type(g, x->unit, lanes);
	LLVMValueRef v = LLVMBuildLoad2(g->b, t, gen_typed(g->b, p, t), "");
	LLVMSetAlignment(v, (unsigned)x->elem);
	LLVMSetVolatile(v, g->again);
	return mark(g, v, x->m->buf);
}

static void store_at(struct gen *g, const struct access *x, LLVMValueRef v, LLVMValueRef p)
{
	LLVMValueRef s = LLVMBuildStore(g->b, v, gen_typed(g->b, p, LLVMTypeOf(v)));
	LLVMSetAlignment(s, (unsigned)x->elem);
	mark(g, s, x->m->buf);
}

static LLVMValueRef add_bytes(struct gen *g, LLVMValueRef p, int64_t bytes)
{
	LLVMValueRef k = gen_i64(g, bytes);
	return bytes ? LLVMBuildGEP2(g->b, g->i8, p, &k, 1, "") : p;
}

/* 16 times a unit of these bits. */
static LLVMValueRef constant_of(struct gen *g, enum unit u, uint32_t bits)
{
	LLVMValueRef e[16];
	float f;
	memcpy(&f, &bits, 4);
	for (int i = 0; i < 16; i++)
		e[i] = u == UNIT_F32 ? LLVMConstReal(g->f32, (double)f)
				     : LLVMConstInt(gen_type(g, u, 1), bits, false);
	return LLVMConstVector(e, 16);
}

/* The address of a read-only constant of 16 times a unit. */
static LLVMValueRef filled(struct gen *g, const struct access *x, uint32_t bits)
{
	LLVMValueRef c = constant_of(g, x->unit, bits), v = LLVMGetFirstGlobal(g->mod);
	while (v && LLVMGetInitializer(v) != c)
		v = LLVMGetNextGlobal(v);
	if (!v) {
		v = LLVMAddGlobal(g->mod, LLVMTypeOf(c), "");
		LLVMSetInitializer(v, c);
		LLVMSetGlobalConstant(v, true);
		LLVMSetLinkage(v, LLVMPrivateLinkage);
		LLVMSetUnnamedAddress(v, LLVMGlobalUnnamedAddr);
		LLVMSetAlignment(v, 64);
	}
	return LLVMConstBitCast(v, g->ptr);
}

static LLVMValueRef lane_is_valid(struct gen *g, LLVMValueRef valid, int lane)
{
	return LLVMBuildICmp(g->b, LLVMIntSGT, valid, gen_i64(g, lane), "");
}

static LLVMValueRef masked_load(struct gen *g, const struct access *x, LLVMValueRef p, LLVMValueRef mask)
{
	LLVMTypeRef t = gen_type(g, x->unit, x->lanes);
	if (x->guard) /* guard is false: loads the fill in every lane */
		mask = LLVMBuildOr(g->b, mask, gen_splat(g, LLVMBuildNot(g->b, x->guard, ""), x->lanes), "");
	LLVMValueRef args[4] = {gen_typed(g->b, p, t), LLVMConstInt(g->i32, (unsigned)x->elem, false), mask,
				LLVMConstNull(t)};
	return mark(g, gen_call(g, IN_MASKED_LOAD, x->unit, x->lanes, args, 4), x->m->buf);
}

/* The address, or the fill's where the guard is false. */
static LLVMValueRef guarded(struct gen *g, const struct access *x, LLVMValueRef p)
{
	return x->guard ? LLVMBuildSelect(g->b, x->guard, p, filled(g, x, x->fill), "") : p;
}

/* Loads lane by lane. Lanes beyond `valid` (may be NULL) are 0; if the guard is false, all are the fill. */
static LLVMValueRef gather(struct gen *g, const struct access *x, LLVMValueRef p)
{
	LLVMValueRef valid = x->plain.valid ? gen_ix(g, x->plain.valid) : NULL;
	LLVMValueRef v = LLVMGetUndef(gen_type(g, x->unit, x->lanes));
	for (int i = 0; i < x->lanes; i++) {
		LLVMValueRef q = add_bytes(g, p, x->elem * i * x->m->stride);
		if (valid)
			q = LLVMBuildSelect(g->b, lane_is_valid(g, valid, i), q, filled(g, x, 0), "");
		LLVMValueRef e = load_at(g, x, guarded(g, x, q), 1);
		v = x->lanes == 1
			? e
			: LLVMBuildInsertElement(g->b, v, e, LLVMConstInt(g->i32, (unsigned)i, false), "");
	}
	return v;
}

/* Whether an access has a fixed number of lanes, 2 or more but not all, that a narrower load has. Only on
 * targets with products of matrices, half of whose operand may be two groups. */
static bool has_few(const struct gen *g, const struct access *x, int64_t *n)
{
	return g->l->blocks && x->stride == 1 && !x->guard && x->plain.valid &&
	       ix_is_const(x->plain.valid, n) && *n > 1 && *n < x->lanes && !(*n & (*n - 1));
}

/* The first n lanes; the others are 0. */
static LLVMValueRef load_few(struct gen *g, const struct access *x, LLVMValueRef p, int n)
{
	LLVMValueRef index[16], v = load_at(g, x, p, n);
	for (int i = 0; i < x->lanes; i++)
		index[i] = LLVMConstInt(g->i32, (unsigned)(i < n ? i : n), false);
	return LLVMBuildShuffleVector(g->b, v, LLVMConstNull(LLVMTypeOf(v)),
				      LLVMConstVector(index, (unsigned)x->lanes), "");
}

/* Start of piece k of the `stride` vectors that cover everything from the first lane's element to the last
 * one's. */
static int64_t piece_at(int k, int64_t stride, int lanes)
{
	return k + 1 < stride ? (int64_t)k * lanes : (lanes - 1) * (stride - 1);
}

/* Mask of the units of piece k that lie before the first invalid lane. */
static LLVMValueRef piece_mask(struct gen *g, const struct access *x, int k)
{
	LLVMValueRef index[16], most = gen_i64(g, x->lanes), none = gen_i64(g, 0);
	LLVMValueRef n = gen_ix(g, x->plain.valid);
	n = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, n, most, ""), n, most, "");
	n = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSGT, n, none, ""), n, none, "");
	n = LLVMBuildMul(g->b, n, gen_i64(g, x->stride), "");
	n = LLVMBuildTrunc(g->b, n, g->i32, "");
	for (int i = 0; i < x->lanes; i++)
		index[i] = LLVMConstInt(
		    g->i32, (unsigned)(i + piece_at(k, x->stride, x->lanes) + x->stride - 1), false);
	return LLVMBuildICmp(g->b, LLVMIntSLT, LLVMConstVector(index, (unsigned)x->lanes),
			     gen_splat(g, n, x->lanes), "");
}

/* Combines the lanes in pieces up to k - 1 with those in piece k. */
static LLVMValueRef pick(struct gen *g, LLVMValueRef before, LLVMValueRef piece, int k, int64_t stride,
			 int lanes)
{
	LLVMValueRef index[16];
	for (int i = 0; i < lanes; i++) {
		int64_t at = i * stride - piece_at(k, stride, lanes);
		bool here = at >= 0 && at < lanes;
		index[i] = LLVMConstInt(g->i32,
					(unsigned)(here    ? lanes + at
						   : k > 1 ? i
							   : i * stride % lanes),
					false);
	}
	return LLVMBuildShuffleVector(g->b, before, piece, LLVMConstVector(index, (unsigned)lanes), "");
}

/* Loads whole vectors and picks the lanes: all units between the lanes are in the buffer too. */
static LLVMValueRef load_picked(struct gen *g, const struct access *x, LLVMValueRef p)
{
	LLVMValueRef v = NULL;
	int64_t unit = x->elem * mem_group(x->m);
	for (int k = 0; k < x->stride; k++) {
		LLVMValueRef q = guarded(g, x, add_bytes(g, p, unit * piece_at(k, x->stride, x->lanes))),
			     piece;
		piece =
		    x->plain.valid ? masked_load(g, x, q, piece_mask(g, x, k)) : load_at(g, x, q, x->lanes);
		v = k ? pick(g, v, piece, k, x->stride, x->lanes) : piece;
	}
	return v;
}

/* On AArch64 an LD1R takes one of the two vector pipes and an address without displacement. A freeze between
 * the load and the splat keeps LLVM from making one of them. A lane of 32 bits then comes by an LDR, and FMLA
 * and SDOT take it by element. FMLA has no such form for pairs of f16: an LDR of a general register and a DUP
 * from it take no vector pipe, either. By LLVM's model of the Neoverse N1, which is an A76, a tile of 4x6
 * points then makes 15.9 products of f16 per cycle instead of 12.8. */
static LLVMValueRef load_splat(struct gen *g, const struct access *x, LLVMValueRef p)
{
	bool pair = mem_group(x->m) == 2 && mem_type(g->l, x->m) == DT_F16,
	     word = x->unit == UNIT_F32 || x->unit == UNIT_I32;
	if (g->arch != ARCH_A64 || (!pair && !word) || x->lanes == 1)
		return gen_splat(g, load_at(g, x, p, 1), x->lanes);
	if (pair || x->unit == UNIT_F32)
		return gen_splat(g, LLVMBuildFreeze(g->b, load_at(g, x, p, 1), ""), x->lanes);
	struct access bits = *x;
	bits.unit = UNIT_F32;
	LLVMValueRef zero = LLVMConstInt(g->i32, 0, false), v = LLVMGetUndef(gen_type(g, UNIT_F32, x->lanes));
	v = LLVMBuildInsertElement(g->b, v, LLVMBuildFreeze(g->b, load_at(g, &bits, p, 1), ""), zero, "");
	v = gen_bits(g, v, UNIT_I32, x->lanes);
	return LLVMBuildShuffleVector(g->b, v, LLVMGetUndef(LLVMTypeOf(v)),
				      LLVMConstNull(LLVMVectorType(g->i32, (unsigned)x->lanes)), "");
}

static LLVMValueRef broadcast(struct gen *g, const struct access *x, LLVMValueRef p)
{
	const struct ix *valid = x->plain.valid;
	if (valid)
		p = LLVMBuildSelect(g->b, lane_is_valid(g, gen_ix(g, valid), 0), p, filled(g, x, 0), "");
	LLVMValueRef v = load_splat(g, x, guarded(g, x, p));
	if (!valid || x->lanes == 1)
		return v;
	LLVMValueRef mask = gen_mask(g, valid, x->lanes);
	if (x->guard)
		mask = LLVMBuildOr(g->b, mask, gen_splat(g, LLVMBuildNot(g->b, x->guard, ""), x->lanes), "");
	return LLVMBuildSelect(g->b, mask, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

static struct access access_of(struct gen *g, const struct mem *m, enum lv_type type, int lanes)
{
	enum dtype d = mem_type(g->l, m);
	int group = mem_group(m);
	struct access x = {.m = m,
			   .plain = *m,
			   .unit = gen_unit(type, d, group),
			   .lanes = lanes,
			   .elem = (int64_t)dtype_bytes(d),
			   .stride = m->stride % group ? -1 : m->stride / group,
			   .fill = m->guard ? gen_fill_bits(type, d, group, m->fill) : 0};
	if (m->valid && m->valid->lo >= lanes)
		x.plain.valid = NULL;
	return x;
}

static LLVMValueRef load_units(struct gen *g, const struct access *x, LLVMValueRef p)
{
	int64_t few;
	if (x->stride == 0)
		return broadcast(g, x, p);
	if (has_few(g, x, &few))
		return load_few(g, x, p, (int)few);
	if (x->stride > 1 && 2 * x->stride <= x->lanes)
		return load_picked(g, x, p);
	if (x->stride != 1 || x->lanes == 1)
		return gather(g, x, p);
	p = guarded(g, x, p);
	return x->plain.valid ? masked_load(g, x, p, gen_mask(g, x->plain.valid, x->lanes))
			      : load_at(g, x, p, x->lanes);
}

static LLVMValueRef fill_lanes(struct gen *g, const struct mem *m, enum lv_type type, int lanes)
{
	union lane v = lane_fill((struct lane_type){type, mem_type(g->l, m), mem_group(m)}, m->fill);
	return type == LV_S32 ? gen_s32_const(g, v.u, lanes) : gen_const(g, v.f, lanes);
}

LLVMValueRef gen_load(struct gen *g, const struct mem *m, enum lv_type type, int lanes)
{
	int64_t c;
	if (g->arch == ARCH_PTX)
		return gpu_load(g, m, type, lanes);
	struct access x = access_of(g, m, type, lanes);
	if (m->guard && ix_is_const(m->guard, &c)) {
		if (!c)
			return fill_lanes(g, m, type, lanes);
		x.plain.guard = NULL;
	}
	if (x.plain.guard)
		x.guard = gen_bool(g, x.plain.guard);
	LLVMValueRef v = load_units(g, &x, gen_address(g, m, x.guard));
	return gen_widen(g, v, type, mem_type(g->l, m), mem_group(m), lanes);
}

/* Stores lane by lane and stops at the first invalid lane. */
static void scatter(struct gen *g, const struct access *x, LLVMValueRef v, LLVMValueRef p)
{
	LLVMValueRef valid = x->plain.valid ? gen_ix(g, x->plain.valid) : NULL;
	LLVMBasicBlockRef done = valid ? gen_block(g, "done") : NULL;
	for (int i = 0; i < x->lanes; i++) {
		if (valid) {
			LLVMBasicBlockRef next = gen_block(g, "lane");
			LLVMBuildCondBr(g->b, lane_is_valid(g, valid, i), next, done);
			LLVMPositionBuilderAtEnd(g->b, next);
		}
		LLVMValueRef at = LLVMConstInt(g->i32, (unsigned)i, false);
		LLVMValueRef e = x->lanes == 1 ? v : LLVMBuildExtractElement(g->b, v, at, "");
		store_at(g, x, e, add_bytes(g, p, x->elem * i * x->m->stride));
	}
	if (valid) {
		LLVMBuildBr(g->b, done);
		LLVMPositionBuilderAtEnd(g->b, done);
	}
}

void gen_store(struct gen *g, const struct stmt *s)
{
	if (g->arch == ARCH_PTX) {
		gpu_store(g, s);
		return;
	}
	int lanes = g->l->lanes[s->a];
	enum lv_type type = g->l->type[s->a];
	struct access x = access_of(g, &s->mem, type, lanes);
	LLVMValueRef v =
	    gen_narrow(g, g->cur[s->a], type, mem_type(g->l, &s->mem), mem_group(&s->mem), lanes);
	LLVMValueRef p = gen_address(g, &s->mem, NULL);
	if (x.stride != 1 || lanes == 1) {
		scatter(g, &x, v, p);
	} else if (x.plain.valid) {
		LLVMValueRef args[4] = {v, gen_typed(g->b, p, LLVMTypeOf(v)),
					LLVMConstInt(g->i32, (unsigned)x.elem, false),
					gen_mask(g, x.plain.valid, lanes)};
		mark(g, gen_call(g, IN_MASKED_STORE, x.unit, lanes, args, 4), x.m->buf);
	} else {
		store_at(g, &x, v, p);
	}
}

void gen_prefetch(struct gen *g, const struct stmt *s)
{
	if (g->arch == ARCH_PTX) /* other warps run while one waits for memory */
		return;
	LLVMValueRef args[4] = {gen_address(g, &s->mem, NULL), LLVMConstInt(g->i32, 0, false),
				LLVMConstInt(g->i32, s->imm == 1 ? 3 : 2, false),
				LLVMConstInt(g->i32, 1, false)};
	gen_call(g, IN_PREFETCH, UNIT_F32, 1, args, 4);
}
