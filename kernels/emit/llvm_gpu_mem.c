/* SPDX-License-Identifier: Apache-2.0 */
/* Memory accesses of a GPU. What a guard or a number of valid lanes protects stands behind a branch: the
 * assembler makes predicated instructions of short ones. */
#include "kernels/emit/llvm_gen.h"
#include "kernels/loops/loops_lane.h"

#include <stdio.h>
#include <string.h>

enum { BASE_ALIGNMENT = 16, ALIGNMENT_NODES = 2000 };

static int64_t power_of(int64_t v)
{
	return v ? v & -v : INT64_C(1) << 20;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* A power of two that divides x. `left` bounds the nodes that are visited, since a tree may be much larger
 * than its nodes. Recursion is bounded by IX_MAX_HEIGHT and LOOPS_MAX_DEPTH. */
static int64_t divisor(const struct gen *g, const struct ix *x, int *left)
{
	if (--*left < 0)
		return 1;
	if (x->op == IX_CONST)
		return power_of(x->c);
	if (x->op == IX_VAR)
		return g->step[x->id]
			   ? least(power_of(g->step[x->id]), divisor(g, g->l->loopvar[x->id].lo, left))
			   : 1;
	if (!x->b)
		return 1;
	int64_t a = divisor(g, x->a, left), b = divisor(g, x->b, left), c;
	switch (x->op) {
	case IX_ADD:
	case IX_MOD:
	case IX_MIN:
	case IX_MAX:
		return least(a, b);
	case IX_MUL:
		return least(a * b, INT64_C(1) << 20);
	case IX_DIV:
		return ix_is_const(x->b, &c) && c > 0 && c == power_of(c) && a >= c ? a / c : 1;
	default:
		return 1;
	}
}

unsigned gpu_alignment(struct gen *g, const struct mem *m)
{
	int left = ALIGNMENT_NODES;
	const struct lbuf *b = &g->l->buf[m->buf];
	int64_t bytes = (int64_t)dtype_bytes(mem_type(g->l, m)), a = BASE_ALIGNMENT;
	a = least(a, bytes * divisor(g, m->at, &left));
	if (b->role == BUF_SCRATCH && !b->common)
		a = least(a, (int64_t)dtype_bytes(b->dtype) * divisor(g, b->elems, &left));
	return (unsigned)a;
}

/* One access: where it goes, and the unit that each lane has in memory. */
struct place {
	const struct mem *m;
	const struct ix *valid; /* NULL: all lanes are */
	enum lv_type type;
	enum unit unit;
	int lanes;
	int64_t elem, step; /* bytes of an element, and between lanes */
	bool together;      /* the lanes stand side by side */
	unsigned alignment;
};

static struct place place_of(struct gen *g, const struct mem *m, enum lv_type type, int lanes)
{
	enum dtype d = mem_type(g->l, m);
	int64_t elem = (int64_t)dtype_bytes(d);
	return (struct place){.m = m,
			      .type = type,
			      .valid = m->valid && m->valid->lo < lanes ? m->valid : NULL,
			      .unit = gen_unit(type, d, mem_group(m)),
			      .lanes = lanes,
			      .elem = elem,
			      .step = elem * m->stride,
			      .together = lanes == 1 || m->stride == mem_group(m),
			      .alignment = gpu_alignment(g, m)};
}

static LLVMValueRef at_lane(struct gen *g, const struct place *x, LLVMValueRef p, int lane)
{
	int64_t bytes = x->step * lane;
	return bytes ? gen_offset(g, p, gen_i64(g, bytes)) : p;
}

/* Alignment of the access to `lanes` lanes from the given one on. */
static unsigned alignment(const struct place *x, int lane)
{
	return (unsigned)least(x->alignment, power_of(x->step * lane));
}

static void mark_constant(struct gen *g, const struct place *x, LLVMValueRef load)
{
	if (g->l->buf[x->m->buf].role == BUF_CONST) /* no output is in its memory */
		LLVMSetMetadata(load, LLVMGetMDKindIDInContext(g->ctx, "invariant.load", 14),
				LLVMMetadataAsValue(g->ctx, LLVMMDNodeInContext2(g->ctx, NULL, 0)));
}

static LLVMValueRef load_at(struct gen *g, const struct place *x, LLVMTypeRef t, LLVMValueRef p, int lane)
{
	LLVMValueRef v = LLVMBuildLoad2(g->b, t, gen_typed(g->b, at_lane(g, x, p, lane), t), "");
	LLVMSetAlignment(v, alignment(x, lane));
	mark_constant(g, x, v);
	return v;
}

static void store_at(struct gen *g, const struct place *x, LLVMValueRef v, LLVMValueRef p, int lane)
{
	LLVMValueRef s = LLVMBuildStore(g->b, v, gen_typed(g->b, at_lane(g, x, p, lane), LLVMTypeOf(v)));
	LLVMSetAlignment(s, alignment(x, lane));
}

static LLVMValueRef index_of(struct gen *g, int lane)
{
	return LLVMConstInt(g->i32, (unsigned)lane, false);
}

static LLVMValueRef lane_of(struct gen *g, LLVMValueRef v, int lane, int lanes)
{
	return lanes == 1 ? v : LLVMBuildExtractElement(g->b, v, index_of(g, lane), "");
}

static LLVMValueRef set_lane(struct gen *g, LLVMValueRef v, LLVMValueRef e, int lane, int lanes)
{
	return lanes == 1 ? e : LLVMBuildInsertElement(g->b, v, e, index_of(g, lane), "");
}

static int unit_bytes(enum unit u)
{
	return u == UNIT_I8 ? 1 : u == UNIT_I16 ? 2 : 4;
}

/* Lanes that one instruction moves: 16 bytes at most, and as the address allows. */
static int chunk_lanes(const struct place *x)
{
	int n = (int)x->alignment / unit_bytes(x->unit);
	return !x->together || n < 1 ? 1 : n < x->lanes ? n : x->lanes;
}

/* Vectors of small units would be taken apart in local memory: they are moved as whole words. */
static LLVMTypeRef words_type(struct gen *g, const struct place *x, int lanes)
{
	int bytes = lanes * unit_bytes(x->unit);
	return unit_bytes(x->unit) == 4 ? gen_type(g, x->unit, lanes)
	       : bytes < 4              ? gen_type(g, bytes == 2 ? UNIT_I16 : UNIT_I8, 1)
					: gen_type(g, UNIT_I32, bytes / 4);
}

/* Unit `lane` of the words. */
static LLVMValueRef unit_of(struct gen *g, const struct place *x, LLVMValueRef words, int lane, int lanes)
{
	int bytes = unit_bytes(x->unit), all = lanes * bytes;
	if (bytes == 4)
		return lane_of(g, words, lane, lanes);
	if (lanes == 1)
		return words;
	if (all > 4)
		words = lane_of(g, words, lane * bytes / 4, all / 4);
	int shift = lane * bytes % 4 * 8;
	if (shift)
		words = LLVMBuildLShr(g->b, words, gen_int(g, words, shift), "");
	return LLVMBuildTrunc(g->b, words, gen_type(g, x->unit, 1), "");
}

/* The words of units first to first + lanes - 1. */
static LLVMValueRef words_of(struct gen *g, const struct place *x, const LLVMValueRef *unit, int lanes)
{
	int bytes = unit_bytes(x->unit), n = lanes * bytes > 4 ? lanes * bytes / 4 : 1;
	LLVMTypeRef t = words_type(g, x, lanes), word = n == 1 ? t : LLVMGetElementType(t);
	LLVMValueRef v = LLVMGetUndef(t);
	int each = lanes / n;
	for (int i = 0; i < n; i++) {
		LLVMValueRef w = NULL;
		for (int k = 0; k < each; k++) {
			LLVMValueRef u = unit[i * each + k];
			if (each > 1)
				u = LLVMBuildZExt(g->b, u, word, "");
			if (k)
				u = LLVMBuildShl(g->b, u, gen_int(g, u, 8 * bytes * k), "");
			w = w ? LLVMBuildOr(g->b, w, u, "") : u;
		}
		v = set_lane(g, v, w, i, n);
	}
	return v;
}

/* A branch whose sides give a value each. */
struct fork {
	LLVMBasicBlockRef no, done, end_yes;
	LLVMValueRef yes;
};

static struct fork fork_if(struct gen *g, LLVMValueRef condition)
{
	LLVMBasicBlockRef yes = gen_block(g, "yes");
	struct fork f = {.no = gen_block(g, "no"), .done = gen_block(g, "done")};
	LLVMBuildCondBr(g->b, condition, yes, f.no);
	LLVMPositionBuilderAtEnd(g->b, yes);
	return f;
}

static void fork_else(struct gen *g, struct fork *f, LLVMValueRef v)
{
	f->yes = v;
	f->end_yes = LLVMGetInsertBlock(g->b);
	LLVMBuildBr(g->b, f->done);
	LLVMPositionBuilderAtEnd(g->b, f->no);
}

static LLVMValueRef fork_end(struct gen *g, struct fork *f, LLVMValueRef v)
{
	LLVMBasicBlockRef end_no = LLVMGetInsertBlock(g->b);
	LLVMBuildBr(g->b, f->done);
	LLVMPositionBuilderAtEnd(g->b, f->done);
	return v ? gen_phi(g, f->yes, f->end_yes, v, end_no) : NULL;
}

static LLVMValueRef more_than(struct gen *g, LLVMValueRef n, int lanes)
{
	return LLVMBuildICmp(g->b, LLVMIntSGT, n, gen_int(g, n, lanes), "");
}

static void load_all(struct gen *g, const struct place *x, LLVMValueRef p, LLVMValueRef *unit)
{
	int n = chunk_lanes(x);
	for (int i = 0; i < x->lanes; i += n) {
		if (i && !x->step) {
			unit[i] = unit[0];
			continue;
		}
		LLVMValueRef words = load_at(g, x, words_type(g, x, n), p, i);
		for (int k = 0; k < n; k++)
			unit[i + k] = unit_of(g, x, words, k, n);
	}
}

/* The first n lanes, n a value; the others are 0. */
static void load_some(struct gen *g, const struct place *x, LLVMValueRef p, LLVMValueRef n,
		      LLVMValueRef *unit)
{
	LLVMTypeRef t = gen_type(g, x->unit, 1);
	for (int i = 0; i < x->lanes; i++) {
		struct fork f = fork_if(g, more_than(g, n, i));
		fork_else(g, &f, load_at(g, x, t, p, i));
		unit[i] = fork_end(g, &f, LLVMConstNull(t));
	}
}

/* The units as the variable's lanes. */
static LLVMValueRef widened(struct gen *g, const struct place *x, const LLVMValueRef *unit)
{
	LLVMValueRef v = LLVMGetUndef(gen_type(g, x->type == LV_S32 ? UNIT_I32 : UNIT_F32, x->lanes));
	for (int i = 0; i < x->lanes; i++)
		v = set_lane(g, v, gen_widen(g, unit[i], x->type, mem_type(g->l, x->m), mem_group(x->m), 1),
			     i, x->lanes);
	return v;
}

static LLVMValueRef load_valid(struct gen *g, const struct place *x)
{
	LLVMValueRef unit[16], p = gen_address(g, x->m, NULL);
	if (!x->valid) {
		load_all(g, x, p, unit);
		return widened(g, x, unit);
	}
	LLVMValueRef n = gen_ix(g, x->valid);
	if (x->lanes == 1) {
		load_some(g, x, p, n, unit);
		return widened(g, x, unit);
	}
	struct fork f = fork_if(g, more_than(g, n, x->lanes - 1));
	load_all(g, x, p, unit);
	fork_else(g, &f, widened(g, x, unit));
	load_some(g, x, p, n, unit);
	return fork_end(g, &f, widened(g, x, unit));
}

/* The fill in all lanes. */
static LLVMValueRef filled(struct gen *g, const struct place *x)
{
	union lane v =
	    lane_fill((struct lane_type){x->type, mem_type(g->l, x->m), mem_group(x->m)}, x->m->fill);
	return x->type == LV_S32 ? gen_s32_const(g, v.u, x->lanes) : gen_const(g, v.f, x->lanes);
}

LLVMValueRef gpu_load(struct gen *g, const struct mem *m, enum lv_type type, int lanes)
{
	struct place x = place_of(g, m, type, lanes);
	int64_t c = 1;
	if (!m->guard || ix_is_const(m->guard, &c))
		return c ? load_valid(g, &x) : filled(g, &x);
	struct fork f = fork_if(g, gen_bool(g, m->guard));
	fork_else(g, &f, load_valid(g, &x));
	return fork_end(g, &f, filled(g, &x));
}

static void store_all(struct gen *g, const struct place *x, const LLVMValueRef *unit, LLVMValueRef p)
{
	int n = chunk_lanes(x);
	for (int i = 0; i < x->lanes; i += n)
		store_at(g, x, words_of(g, x, unit + i, n), p, i);
}

/* Lane by lane, up to the first that is not valid. */
static void store_some(struct gen *g, const struct place *x, const LLVMValueRef *unit, LLVMValueRef p,
		       LLVMValueRef n)
{
	LLVMBasicBlockRef done = gen_block(g, "done");
	for (int i = 0; i < x->lanes; i++) {
		LLVMBasicBlockRef next = gen_block(g, "lane");
		LLVMBuildCondBr(g->b, more_than(g, n, i), next, done);
		LLVMPositionBuilderAtEnd(g->b, next);
		store_at(g, x, unit[i], p, i);
	}
	LLVMBuildBr(g->b, done);
	LLVMPositionBuilderAtEnd(g->b, done);
}

void gpu_store(struct gen *g, const struct stmt *s)
{
	struct place x = place_of(g, &s->mem, g->l->type[s->a], g->l->lanes[s->a]);
	LLVMValueRef unit[16], p = gen_address(g, &s->mem, NULL), n = x.valid ? gen_ix(g, x.valid) : NULL;
	for (int i = 0; i < x.lanes; i++)
		unit[i] = gen_narrow(g, lane_of(g, g->cur[s->a], i, x.lanes), x.type, mem_type(g->l, &s->mem),
				     mem_group(&s->mem), 1);
	if (!n) {
		store_all(g, &x, unit, p);
	} else if (chunk_lanes(&x) == 1) {
		store_some(g, &x, unit, p, n);
	} else {
		struct fork f = fork_if(g, more_than(g, n, x.lanes - 1));
		store_all(g, &x, unit, p);
		fork_else(g, &f, NULL);
		store_some(g, &x, unit, p, n);
		fork_end(g, &f, NULL);
	}
}

/* Bytes of the copy that come from memory. */
static LLVMValueRef valid_bytes(struct gen *g, const struct stmt *s, int64_t elem)
{
	LLVMValueRef n = gen_ix(g, s->mem.valid), none = gen_int(g, n, 0), all = gen_int(g, n, s->s32);
	n = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSGT, n, none, ""), n, none, "");
	n = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, n, all, ""), n, all, "");
	n = gen_as(g, n, g->i32);
	return LLVMBuildMul(g->b, n, gen_int(g, n, elem), "");
}

/* An asynchronous copy. Those of 16 bytes leave out the L1 cache. */
static void copy_later(struct gen *g, const struct stmt *s, LLVMValueRef to, LLVMValueRef from, int64_t elem)
{
	char text[80];
	int bytes = (int)(elem * s->s32);
	bool some = s->mem.valid && s->mem.valid->lo < s->s32;
	LLVMValueRef args[3] = {LLVMBuildPtrToInt(g->b, to, g->i32, ""),
				LLVMBuildPtrToInt(g->b, from, g->i64, "")};
	if (some)
		args[2] = valid_bytes(g, s, elem);
	snprintf(text, sizeof text, "cp.async.%s.shared.global [$0], [$1], %d%s;", bytes == 16 ? "cg" : "ca",
		 bytes, some ? ", $2" : "");
	gpu_asm(g, text, some ? "r,l,r" : "r,l", LLVMVoidTypeInContext(g->ctx), args, some ? 3 : 2);
}

/* A copy that is done at once: by a load and a store. */
void gpu_copy(struct gen *g, const struct stmt *s)
{
	struct mem there = {.buf = s->to, .at = s->to_at, .stride = 1};
	int64_t elem = (int64_t)dtype_bytes(g->l->buf[s->to].dtype);
	LLVMValueRef to = gen_address(g, &there, NULL);
	if (g->sm >= 80) {
		copy_later(g, s, to, gen_address(g, &s->mem, NULL), elem);
		return;
	}
	struct place x = {.m = &s->mem,
			  .valid = s->mem.valid && s->mem.valid->lo < s->s32 ? s->mem.valid : NULL,
			  .unit = elem == 4   ? UNIT_I32
				  : elem == 2 ? UNIT_I16
					      : UNIT_I8,
			  .lanes = s->s32,
			  .elem = elem,
			  .step = elem,
			  .together = true,
			  .alignment = (unsigned)(elem * s->s32)};
	LLVMValueRef unit[16], from = gen_address(g, &s->mem, NULL), n = x.valid ? gen_ix(g, x.valid) : NULL;
	struct fork f;
	if (n)
		f = fork_if(g, more_than(g, n, x.lanes - 1));
	LLVMTypeRef words = words_type(g, &x, x.lanes);
	store_at(g, &x, load_at(g, &x, words, from, 0), to, 0);
	if (!n)
		return;
	fork_else(g, &f, NULL);
	load_some(g, &x, from, n, unit);
	store_at(g, &x, words_of(g, &x, unit, x.lanes), to, 0);
	fork_end(g, &f, NULL);
}
