/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/emit/llvm_gen.h"
#include <llvm-c/Target.h>
#include <string.h>

enum memo_kind { MEMO_IX, MEMO_ADDRESS, MEMO_BUF, MEMO_MASK };

LLVMValueRef gen_i64(struct gen *g, int64_t v)
{
	return LLVMConstInt(g->i64, (uint64_t)v, true);
}

LLVMValueRef gen_int(struct gen *g, LLVMValueRef like, int64_t v)
{
	(void)g;
	return LLVMConstInt(LLVMTypeOf(like), (uint64_t)v, true);
}

LLVMTypeRef gen_ix_type(struct gen *g, const struct ix *x)
{
	return g->narrow && x->lo >= INT32_MIN && x->hi <= INT32_MAX ? g->i32 : g->i64;
}

LLVMValueRef gen_as(struct gen *g, LLVMValueRef v, LLVMTypeRef t)
{
	if (LLVMTypeOf(v) == t)
		return v;
	return t == g->i64 ? LLVMBuildSExt(g->b, v, t, "") : LLVMBuildTrunc(g->b, v, t, "");
}

LLVMValueRef gen_typed(LLVMBuilderRef b, LLVMValueRef p, LLVMTypeRef t)
{
	return LLVMBuildBitCast(b, p, LLVMPointerType(t, LLVMGetPointerAddressSpace(LLVMTypeOf(p))), "");
}

LLVMValueRef gen_offset(struct gen *g, LLVMValueRef p, LLVMValueRef bytes)
{
	return LLVMBuildGEP2(g->b, g->i8, p, &bytes, 1, "");
}

/* Whether the expression reads a table. Table reads are not moved: earlier, a read that a branch protects
 * could leave its buffer. */
static bool has_table(const struct ix *x)
{
	return x && (x->op == IX_TABLE || has_table(x->a) || has_table(x->b));
}

static void go_to(struct gen *g, int place)
{
	g->place = place;
	if (place == PLACE_BODY)
		LLVMPositionBuilderAtEnd(g->b, g->body);
	else
		LLVMPositionBuilderBefore(g->b, g->scope[place].end);
}

/* Moves the builder to the place for values of the loop at `depth`; returns the place to come back to. */
static int enter_head(struct gen *g, int depth)
{
	int back = g->place;
	if (back == PLACE_BODY)
		g->body = LLVMGetInsertBlock(g->b);
	go_to(g, depth);
	return back;
}

static bool memo_same(const struct memo *m, const struct memo *k)
{
	if (m->hash != k->hash || m->kind != k->kind || m->buf != k->buf || m->n != k->n || !m->x != !k->x)
		return false;
	if (k->x && !ix_same(m->x, k->x))
		return false;
	for (int i = 0; i < k->n; i++)
		if (m->coef[i] != k->coef[i] || !ix_same(m->atom[i], k->atom[i]))
			return false;
	return true;
}

static LLVMValueRef memo_find(struct gen *g, int depth, const struct memo *k)
{
	for (const struct memo *m = g->scope[depth].bucket[k->hash % MEMO_BUCKETS]; m; m = m->next)
		if (memo_same(m, k))
			return m->v;
	return NULL;
}

static LLVMValueRef memo_keep(struct gen *g, int depth, const struct memo *k, LLVMValueRef v)
{
	struct memo *m = arena_memdup(g->a, k, sizeof *k),
		    **b = &g->scope[depth].bucket[k->hash % MEMO_BUCKETS];
	m->v = v;
	m->next = *b;
	*b = m;
	return v;
}

static bool fits_u31(const struct ix *x)
{
	return x->lo >= 0 && x->hi <= INT32_MAX;
}

static LLVMValueRef select_int(struct gen *g, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b)
{
	return LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, p, a, b, ""), a, b, "");
}

#define TWO_32 4294967296.

/* A number below 2^53, which f64 holds exactly. The processor converts 32 bits at a time. */
static LLVMValueRef double_of(struct gen *g, LLVMValueRef v, LLVMTypeRef f64)
{
	if (LLVMTypeOf(v) == g->i32)
		return LLVMBuildUIToFP(g->b, v, f64, "");
	LLVMValueRef high = LLVMBuildTrunc(g->b, LLVMBuildLShr(g->b, v, gen_i64(g, 32), ""), g->i32, "");
	LLVMValueRef low = LLVMBuildTrunc(g->b, v, g->i32, "");
	high = LLVMBuildFMul(g->b, LLVMBuildUIToFP(g->b, high, f64, ""), LLVMConstReal(f64, TWO_32), "");
	return LLVMBuildFAdd(g->b, high, LLVMBuildUIToFP(g->b, low, f64, ""), "");
}

static LLVMValueRef whole_of(struct gen *g, LLVMValueRef v, LLVMTypeRef t)
{
	LLVMTypeRef f64 = LLVMTypeOf(v);
	if (t == g->i32)
		return LLVMBuildFPToUI(g->b, v, t, "");
	LLVMValueRef part = LLVMBuildFMul(g->b, v, LLVMConstReal(f64, 1 / TWO_32), "");
	LLVMValueRef high = LLVMBuildFPToUI(g->b, part, g->i32, "");
	part = LLVMBuildFMul(g->b, LLVMBuildUIToFP(g->b, high, f64, ""), LLVMConstReal(f64, TWO_32), "");
	LLVMValueRef low = LLVMBuildFPToUI(g->b, LLVMBuildFSub(g->b, v, part, ""), g->i32, "");
	high = LLVMBuildShl(g->b, LLVMBuildZExt(g->b, high, t, ""), gen_i64(g, 32), "");
	return LLVMBuildOr(g->b, high, LLVMBuildZExt(g->b, low, t, ""), "");
}

/* ARMv7 may have no instruction that divides integers. A quotient a / b that is not whole is at least 1 / b
 * below the next whole number, and rounding to f64 changes it by at most a / b * 2^-53, which is less while a
 * < 2^53: its whole part is right. Indexes of a machine of 32 bits stay below that. */
static LLVMValueRef divide_as_doubles(struct gen *g, LLVMValueRef a, LLVMValueRef b)
{
	LLVMTypeRef f64 = LLVMDoubleTypeInContext(g->ctx);
	return whole_of(g, LLVMBuildFDiv(g->b, double_of(g, a, f64), double_of(g, b, f64), ""),
			LLVMTypeOf(a));
}

static LLVMValueRef remainder_of(struct gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef q)
{
	return LLVMBuildSub(g->b, a, LLVMBuildMul(g->b, q, b, ""), "");
}

/* Divides a non-negative by a positive number, unsigned, in 32 bits if both fit (a 64-bit division costs
 * twice as much). A division by a constant becomes a multiplication. */
static LLVMValueRef divide_unsigned(struct gen *g, const struct ix *x, LLVMValueRef a, LLVMValueRef b)
{
	bool narrow = fits_u31(x->a) && fits_u31(x->b);
	LLVMTypeRef wide = LLVMTypeOf(a);
	LLVMValueRef r;
	int64_t d;
	if (narrow) {
		a = gen_as(g, a, g->i32);
		b = gen_as(g, b, g->i32);
	}
	if (g->arch == ARCH_A32 && !(ix_is_const(x->b, &d) && (narrow || (d & (d - 1)) == 0))) {
		r = divide_as_doubles(g, a, b);
		if (x->op == IX_MOD)
			r = remainder_of(g, a, b, r);
	} else {
		r = x->op == IX_DIV ? LLVMBuildUDiv(g->b, a, b, "") : LLVMBuildURem(g->b, a, b, "");
	}
	return narrow && wide != g->i32 ? LLVMBuildZExt(g->b, r, wide, "") : r;
}

/* Rounds towards minus infinity; b > 0. */
static LLVMValueRef divide_floor(struct gen *g, const struct ix *x, LLVMValueRef a, LLVMValueRef b)
{
	int64_t d;
	if (ix_is_const(x->b, &d) && (d & (d - 1)) == 0)
		return x->op == IX_MOD
			   ? LLVMBuildAnd(g->b, a, gen_int(g, a, d - 1), "")
			   : LLVMBuildAShr(g->b, a, gen_int(g, a, __builtin_ctzll((uint64_t)d)), "");
	LLVMValueRef q = LLVMBuildSDiv(g->b, a, b, "");
	LLVMValueRef r = remainder_of(g, a, b, q);
	LLVMValueRef below = LLVMBuildICmp(g->b, LLVMIntSLT, r, gen_int(g, r, 0), "");
	if (x->op == IX_MOD)
		return LLVMBuildSelect(g->b, below, LLVMBuildAdd(g->b, r, b, ""), r, "");
	return LLVMBuildSub(g->b, q, LLVMBuildZExt(g->b, below, LLVMTypeOf(q), ""), "");
}

/* Values are computed at the head of a loop, perhaps before the branch that ensures b > 0: max(b, 1) avoids a
 * trap. */
static LLVMValueRef divide(struct gen *g, const struct ix *x, LLVMValueRef a, LLVMValueRef b)
{
	if (x->b->lo < 1)
		b = select_int(g, LLVMIntSGT, b, gen_int(g, b, 1));
	return x->a->lo >= 0 ? divide_unsigned(g, x, a, b) : divide_floor(g, x, a, b);
}

static LLVMValueRef scalar_load(struct gen *g, LLVMTypeRef t, LLVMValueRef p)
{
	return LLVMBuildLoad2(g->b, t, gen_typed(g->b, p, t), "");
}

static LLVMValueRef param(struct gen *g, int id)
{
	if (g->arch == ARCH_PTX)
		return gpu_param(g, id);
	return scalar_load(g, g->i64, gen_offset(g, LLVMGetParam(g->fn, 1), gen_i64(g, 8 * (int64_t)id)));
}

/* Base of a buffer, loaded once at the function's entry. */
static LLVMValueRef base(struct gen *g, int buf)
{
	struct memo k = {.kind = MEMO_BUF, .buf = buf, .hash = (uint32_t)buf};
	LLVMValueRef v = memo_find(g, 0, &k);
	if (v)
		return v;
	int back = enter_head(g, 0);
	if (g->arch == ARCH_PTX) {
		v = gpu_base(g, buf);
	} else {
		unsigned bytes = LLVMPointerSize(LLVMGetModuleDataLayout(g->mod));
		v = scalar_load(g, g->ptr,
				gen_offset(g, LLVMGetParam(g->fn, 0), gen_i64(g, bytes * (int64_t)buf)));
	}
	go_to(g, back);
	return memo_keep(g, 0, &k, v);
}

static LLVMValueRef build_ix(struct gen *g, const struct ix *x, LLVMValueRef guard);

/* The i32 at element x->a. If guard is false, element 0 is read instead. */
static LLVMValueRef table(struct gen *g, const struct ix *x, LLVMValueRef guard)
{
	LLVMValueRef at = build_ix(g, x->a, guard);
	at = gen_as(g, at, g->i64);
	if (guard)
		at = LLVMBuildSelect(g->b, guard, at, gen_i64(g, 0), "");
	LLVMValueRef p = gen_offset(g, base(g, x->id), LLVMBuildShl(g->b, at, gen_i64(g, 2), ""));
	LLVMValueRef v = scalar_load(g, g->i32, p);
	LLVMSetAlignment(v, 4);
	return gen_as(g, v, gen_ix_type(g, x));
}

/* Builds the operation where the builder is. Recursion is bounded by IX_MAX_HEIGHT. */
static LLVMValueRef build_op(struct gen *g, const struct ix *x, LLVMValueRef guard)
{
	LLVMValueRef a = build_ix(g, x->a, guard), b = build_ix(g, x->b, guard);
	/* Sums and products are right in the result's type, though an operand may not fit it. */
	LLVMTypeRef type = gen_ix_type(g, x), both = LLVMTypeOf(a) == LLVMTypeOf(b) ? LLVMTypeOf(a) : g->i64;
	if (x->op == IX_ADD || x->op == IX_MUL)
		both = type;
	a = gen_as(g, a, both);
	b = gen_as(g, b, both);
	switch (x->op) {
	case IX_ADD:
		return LLVMBuildAdd(g->b, a, b, "");
	case IX_MUL:
		return LLVMBuildMul(g->b, a, b, "");
	case IX_DIV:
	case IX_MOD:
		return gen_as(g, divide(g, x, a, b), type);
	case IX_MIN:
		return gen_as(g, select_int(g, LLVMIntSLT, a, b), type);
	case IX_MAX:
		return gen_as(g, select_int(g, LLVMIntSGT, a, b), type);
	case IX_LT:
		return LLVMBuildZExt(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, a, b, ""), type, "");
	default:
		return LLVMBuildZExt(g->b, LLVMBuildICmp(g->b, LLVMIntEQ, a, b, ""), type, "");
	}
}

static LLVMValueRef build_ix(struct gen *g, const struct ix *x, LLVMValueRef guard)
{
	if (x->op == IX_CONST)
		return LLVMConstInt(gen_ix_type(g, x), (uint64_t)x->c, true);
	if (x->op == IX_VAR && LLVMTypeOf(g->iv[x->id]) == gen_ix_type(g, x))
		return g->iv[x->id];
	if (x->op == IX_TABLE)
		return table(g, x, guard);
	if (has_table(x))
		return build_op(g, x, guard);
	struct memo k = {.kind = MEMO_IX, .x = x, .hash = x->hash};
	LLVMValueRef v = memo_find(g, x->depth, &k);
	if (v)
		return v;
	int back = enter_head(g, x->depth);
	v = x->op == IX_PARAM ? gen_as(g, param(g, x->id), gen_ix_type(g, x))
	    : x->op == IX_VAR ? gen_as(g, g->iv[x->id], gen_ix_type(g, x))
			      : build_op(g, x, NULL);
	go_to(g, back);
	return memo_keep(g, x->depth, &k, v);
}

LLVMValueRef gen_ix(struct gen *g, const struct ix *x)
{
	return build_ix(g, x, NULL);
}

LLVMValueRef gen_bool(struct gen *g, const struct ix *x)
{
	int64_t c;
	if (ix_is_const(x, &c))
		return LLVMConstInt(g->i1, c != 0, false);
	LLVMValueRef v = gen_ix(g, x);
	return LLVMBuildICmp(g->b, LLVMIntNE, v, gen_int(g, v, 0), "");
}

/* Whether 32 bits hold the sum of the terms, counted in elements. */
static bool sum_fits(int n, const int64_t *coef, const struct ix *const *atom)
{
	int64_t lo = 0, hi = 0, a, b;
	bool fits = true;
	for (int i = 0; i < n && fits; i++)
		fits = !__builtin_mul_overflow(atom[i]->lo, coef[i], &a) &&
		       !__builtin_mul_overflow(atom[i]->hi, coef[i], &b) &&
		       !__builtin_add_overflow(lo, a < b ? a : b, &lo) &&
		       !__builtin_add_overflow(hi, a < b ? b : a, &hi);
	return fits && lo >= INT32_MIN && hi <= INT32_MAX;
}

/* The sum of terms in bytes. Where integers are narrow, elements are summed in 32 bits and then multiplied
 * with a wide result, which is one instruction. */
static LLVMValueRef sum_terms(struct gen *g, int64_t elem, int n, const int64_t *coef,
			      const struct ix *const *atom)
{
	bool narrow = g->narrow && n > 1 && sum_fits(n, coef, atom);
	int64_t each = narrow ? 1 : elem;
	LLVMValueRef sum = NULL;
	for (int i = 0; i < n; i++) {
		LLVMValueRef a = gen_as(g, build_ix(g, atom[i], NULL), narrow ? g->i32 : g->i64);
		LLVMValueRef t = LLVMBuildMul(g->b, a, gen_int(g, a, each * coef[i]), "");
		sum = sum ? LLVMBuildAdd(g->b, sum, t, "") : t;
	}
	return narrow ? LLVMBuildMul(g->b, gen_as(g, sum, g->i64), gen_i64(g, elem), "") : sum;
}

/* Base plus the first n terms, computed in the head of the loop that the last term depends on. */
static LLVMValueRef prefix(struct gen *g, int buf, int64_t elem, int n, const int64_t *coef,
			   const struct ix *const *atom)
{
	if (n == 0)
		return base(g, buf);
	int depth = atom[n - 1]->depth, outer = n - 1;
	while (outer && atom[outer - 1]->depth == depth)
		outer--;
	int key =
	    buf * 8 + (int)elem; /* of a buffer that is seen as elements of this size, at most 4 bytes */
	struct memo k = {
	    .kind = MEMO_ADDRESS, .buf = key, .n = n, .coef = coef, .atom = atom, .hash = (uint32_t)key};
	for (int i = 0; i < n; i++)
		k.hash = (k.hash + (uint32_t)coef[i]) * 0x9e3779b1u ^ atom[i]->hash;
	LLVMValueRef v = memo_find(g, depth, &k);
	if (v)
		return v;
	v = prefix(g, buf, elem, outer, coef, atom);
	int back = enter_head(g, depth);
	v = gen_offset(g, v, sum_terms(g, elem, n - outer, coef + outer, atom + outer));
	go_to(g, back);
	k.coef = arena_memdup(g->a, coef, (size_t)n * sizeof *coef);
	k.atom = arena_memdup(g->a, atom, (size_t)n * sizeof *atom);
	return memo_keep(g, depth, &k, v);
}

LLVMValueRef gen_address(struct gen *g, const struct mem *m, LLVMValueRef guard)
{
	const struct ix *x = m->at;
	int64_t elem = (int64_t)dtype_bytes(mem_type(g->l, m)), c, coef[IX_MAX_TERMS];
	const struct ix *atom[IX_MAX_TERMS];
	if (has_table(x)) {
		LLVMValueRef at = gen_as(g, build_ix(g, x, guard), g->i64);
		return gen_offset(
		    g, base(g, m->buf),
		    LLVMBuildShl(g->b, at, gen_i64(g, __builtin_ctzll((unsigned long long)elem)), ""));
	}
	int n = ix_terms(x, &c, IX_MAX_TERMS, coef, atom);
	LLVMValueRef p = prefix(g, m->buf, elem, n, coef, atom);
	return c ? gen_offset(g, p, gen_i64(g, elem * c)) : p;
}

static LLVMValueRef build_mask(struct gen *g, const struct ix *n, int lanes)
{
	LLVMValueRef v = gen_ix(g, n), iota[16];
	if (n->lo < INT32_MIN)
		v = select_int(g, LLVMIntSGT, v, gen_int(g, v, 0));
	if (n->hi > INT32_MAX)
		v = select_int(g, LLVMIntSLT, v, gen_int(g, v, lanes));
	v = gen_as(g, v, g->i32);
	for (int i = 0; i < lanes; i++)
		iota[i] = LLVMConstInt(g->i32, (unsigned)i, false);
	return LLVMBuildICmp(g->b, LLVMIntSLT, LLVMConstVector(iota, (unsigned)lanes), gen_splat(g, v, lanes),
			     "");
}

LLVMValueRef gen_mask(struct gen *g, const struct ix *n, int lanes)
{
	if (!g->masks || has_table(n))
		return build_mask(g, n, lanes);
	struct memo k = {.kind = MEMO_MASK, .buf = lanes, .x = n, .hash = n->hash + (uint32_t)lanes};
	LLVMValueRef v = memo_find(g, n->depth, &k);
	if (v)
		return v;
	int back = enter_head(g, n->depth);
	v = build_mask(g, n, lanes);
	go_to(g, back);
	return memo_keep(g, n->depth, &k, v);
}
