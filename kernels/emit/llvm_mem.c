/* SPDX-License-Identifier: Apache-2.0 */
/* Memory accesses. A guard or an invalid lane never selects between values, but selects the address of a
 * constant that holds the fill (a select of vectors by a scalar condition would become a branch). */
#include "kernels/emit/llvm_gen.h"

static LLVMValueRef typed(struct gen *g, LLVMValueRef p, LLVMTypeRef t)
{
	return LLVMBuildBitCast(g->b, p, LLVMPointerType(t, 0), "");
}

static LLVMValueRef mark(struct gen *g, LLVMValueRef access, int buf)
{
	if (g->scopes) {
		LLVMSetMetadata(access, g->alias_kind, g->alias[buf]);
		if (g->noalias[buf])
			LLVMSetMetadata(access, g->noalias_kind, g->noalias[buf]);
	}
	return access;
}

static LLVMValueRef load_at(struct gen *g, int buf, LLVMValueRef p, int lanes)
{
	LLVMTypeRef t = gen_type(g, lanes);
	LLVMValueRef v = LLVMBuildLoad2(g->b, t, typed(g, p, t), "");
	LLVMSetAlignment(v, 4);
	return mark(g, v, buf);
}

static void store_at(struct gen *g, int buf, LLVMValueRef v, LLVMValueRef p)
{
	LLVMValueRef s = LLVMBuildStore(g->b, v, typed(g, p, LLVMTypeOf(v)));
	LLVMSetAlignment(s, 4);
	mark(g, s, buf);
}

static LLVMValueRef add_bytes(struct gen *g, LLVMValueRef p, int64_t bytes)
{
	LLVMValueRef k = gen_i64(g, bytes);
	return bytes ? LLVMBuildGEP2(g->b, g->i8, p, &k, 1, "") : p;
}

/* A read-only constant of 16 times `fill`. */
static LLVMValueRef filled(struct gen *g, float fill)
{
	LLVMValueRef c = gen_const(g, fill, 16), v = LLVMGetFirstGlobal(g->mod);
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

static LLVMValueRef masked_load(struct gen *g, const struct mem *m, LLVMValueRef p, LLVMValueRef mask,
				LLVMValueRef guard, int lanes)
{
	LLVMTypeRef t = gen_type(g, lanes);
	if (guard) /* guard is false: loads the fill in every lane */
		mask = LLVMBuildOr(g->b, mask, gen_splat(g, LLVMBuildNot(g->b, guard, ""), lanes), "");
	LLVMValueRef args[4] = {typed(g, p, t), LLVMConstInt(g->i32, 4, false), mask, LLVMConstNull(t)};
	return mark(g, gen_call(g, IN_MASKED_LOAD, lanes, args, 4), m->buf);
}

/* Loads lane by lane. Lanes beyond `valid` (may be NULL) are 0; if `guard` (may be NULL) is false, all are
 * the fill. */
static LLVMValueRef gather(struct gen *g, const struct mem *m, LLVMValueRef p, LLVMValueRef guard, int lanes)
{
	LLVMValueRef valid = m->valid ? gen_ix(g, m->valid) : NULL;
	LLVMValueRef v = LLVMGetUndef(gen_type(g, lanes));
	for (int i = 0; i < lanes; i++) {
		LLVMValueRef q = add_bytes(g, p, 4 * i * m->stride);
		if (valid)
			q = LLVMBuildSelect(g->b, lane_is_valid(g, valid, i), q, filled(g, 0), "");
		if (guard)
			q = LLVMBuildSelect(g->b, guard, q, filled(g, m->fill), "");
		LLVMValueRef x = load_at(g, m->buf, q, 1);
		v = lanes == 1
			? x
			: LLVMBuildInsertElement(g->b, v, x, LLVMConstInt(g->i32, (unsigned)i, false), "");
	}
	return v;
}

/* Start of piece k of the `stride` vectors that cover everything from the first lane's element to the last
 * one's. */
static int64_t piece_at(int k, int64_t stride, int lanes)
{
	return k + 1 < stride ? (int64_t)k * lanes : (lanes - 1) * (stride - 1);
}

/* Mask of the elements of piece k that lie before the first invalid lane. */
static LLVMValueRef piece_mask(struct gen *g, const struct mem *m, int k, int lanes)
{
	LLVMValueRef index[16], most = gen_i64(g, lanes), none = gen_i64(g, 0), n = gen_ix(g, m->valid);
	n = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, n, most, ""), n, most, "");
	n = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSGT, n, none, ""), n, none, "");
	n = LLVMBuildMul(g->b, n, gen_i64(g, m->stride), "");
	n = LLVMBuildTrunc(g->b, n, g->i32, "");
	for (int i = 0; i < lanes; i++)
		index[i] = LLVMConstInt(g->i32, (unsigned)(i + piece_at(k, m->stride, lanes) + m->stride - 1),
					false);
	return LLVMBuildICmp(g->b, LLVMIntSLT, LLVMConstVector(index, (unsigned)lanes),
			     gen_splat(g, n, lanes), "");
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

/* Loads whole vectors and picks the lanes: all elements between the lanes are in the buffer too. */
static LLVMValueRef load_picked(struct gen *g, const struct mem *m, LLVMValueRef p, LLVMValueRef guard,
				int lanes)
{
	LLVMValueRef v = NULL;
	for (int k = 0; k < m->stride; k++) {
		LLVMValueRef q = add_bytes(g, p, 4 * piece_at(k, m->stride, lanes)), piece;
		if (guard)
			q = LLVMBuildSelect(g->b, guard, q, filled(g, m->fill), "");
		piece = m->valid ? masked_load(g, m, q, piece_mask(g, m, k, lanes), guard, lanes)
				 : load_at(g, m->buf, q, lanes);
		v = k ? pick(g, v, piece, k, m->stride, lanes) : piece;
	}
	return v;
}

static LLVMValueRef broadcast(struct gen *g, const struct mem *m, LLVMValueRef p, LLVMValueRef guard,
			      int lanes)
{
	if (m->valid)
		p = LLVMBuildSelect(g->b, lane_is_valid(g, gen_ix(g, m->valid), 0), p, filled(g, 0), "");
	if (guard)
		p = LLVMBuildSelect(g->b, guard, p, filled(g, m->fill), "");
	LLVMValueRef v = gen_splat(g, load_at(g, m->buf, p, 1), lanes);
	if (!m->valid || lanes == 1)
		return v;
	LLVMValueRef mask = gen_mask(g, m->valid, lanes);
	if (guard)
		mask = LLVMBuildOr(g->b, mask, gen_splat(g, LLVMBuildNot(g->b, guard, ""), lanes), "");
	return LLVMBuildSelect(g->b, mask, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

LLVMValueRef gen_load(struct gen *g, const struct mem *m, int lanes)
{
	int64_t c;
	LLVMValueRef guard = NULL;
	struct mem plain = *m;
	if (m->guard && ix_is_const(m->guard, &c)) {
		if (!c)
			return gen_const(g, m->fill, lanes);
		plain.guard = NULL;
	}
	if (m->valid && m->valid->lo >= lanes)
		plain.valid = NULL;
	if (plain.guard)
		guard = gen_bool(g, plain.guard);
	LLVMValueRef p = gen_address(g, m->buf, m->at, guard);
	if (m->stride == 0)
		return broadcast(g, &plain, p, guard, lanes);
	if (m->stride > 1 && 2 * m->stride <= lanes)
		return load_picked(g, &plain, p, guard, lanes);
	if (m->stride != 1 || lanes == 1)
		return gather(g, &plain, p, guard, lanes);
	if (guard)
		p = LLVMBuildSelect(g->b, guard, p, filled(g, m->fill), "");
	return plain.valid ? masked_load(g, &plain, p, gen_mask(g, plain.valid, lanes), guard, lanes)
			   : load_at(g, m->buf, p, lanes);
}

/* Stores lane by lane and stops at the first invalid lane. */
static void scatter(struct gen *g, const struct mem *m, LLVMValueRef v, LLVMValueRef p, int lanes)
{
	LLVMValueRef valid = m->valid ? gen_ix(g, m->valid) : NULL;
	LLVMBasicBlockRef done = valid ? gen_block(g, "done") : NULL;
	for (int i = 0; i < lanes; i++) {
		if (valid) {
			LLVMBasicBlockRef next = gen_block(g, "lane");
			LLVMBuildCondBr(g->b, lane_is_valid(g, valid, i), next, done);
			LLVMPositionBuilderAtEnd(g->b, next);
		}
		LLVMValueRef at = LLVMConstInt(g->i32, (unsigned)i, false);
		LLVMValueRef x = lanes == 1 ? v : LLVMBuildExtractElement(g->b, v, at, "");
		store_at(g, m->buf, x, add_bytes(g, p, 4 * i * m->stride));
	}
	if (valid) {
		LLVMBuildBr(g->b, done);
		LLVMPositionBuilderAtEnd(g->b, done);
	}
}

void gen_store(struct gen *g, const struct stmt *s)
{
	struct mem m = s->mem;
	int lanes = g->l->lanes[s->a];
	LLVMValueRef v = g->cur[s->a];
	if (m.valid && m.valid->lo >= lanes)
		m.valid = NULL;
	LLVMValueRef p = gen_address(g, m.buf, m.at, NULL);
	if (m.stride != 1 || lanes == 1) {
		scatter(g, &m, v, p, lanes);
	} else if (m.valid) {
		LLVMValueRef args[4] = {v, typed(g, p, LLVMTypeOf(v)), LLVMConstInt(g->i32, 4, false),
					gen_mask(g, m.valid, lanes)};
		mark(g, gen_call(g, IN_MASKED_STORE, lanes, args, 4), m.buf);
	} else {
		store_at(g, m.buf, v, p);
	}
}

void gen_prefetch(struct gen *g, const struct stmt *s)
{
	LLVMValueRef args[4] = {gen_address(g, s->mem.buf, s->mem.at, NULL), LLVMConstInt(g->i32, 0, false),
				LLVMConstInt(g->i32, s->imm == 1 ? 3 : 2, false),
				LLVMConstInt(g->i32, 1, false)};
	gen_call(g, IN_PREFETCH, 1, args, 4);
}
