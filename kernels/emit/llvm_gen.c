/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and control flow. SSA is made from the structure: a loop's head has phis for the variables that
 * its body carries, its exit has phis for variables that stay unchanged without an iteration, and the end of
 * an if has phis for the variables that its branches set. */
#include "kernels/emit/llvm_gen.h"
#include <stdio.h>
#include <string.h>

LLVMBasicBlockRef gen_block(struct gen *g, const char *name)
{
	return LLVMAppendBasicBlockInContext(g->ctx, g->fn, name);
}

static LLVMValueRef *copy_vars(struct gen *g)
{
	return arena_memdup(g->a, g->cur, sizeof *g->cur * (size_t)(g->l->nvars + 1));
}

LLVMValueRef gen_phi(struct gen *g, LLVMValueRef a, LLVMBasicBlockRef from_a, LLVMValueRef b,
		     LLVMBasicBlockRef from_b)
{
	LLVMValueRef p = LLVMBuildPhi(g->b, LLVMTypeOf(a), "");
	LLVMAddIncoming(p, &a, &from_a, 1);
	LLVMAddIncoming(p, &b, &from_b, 1);
	return p;
}

/* Adds the phis at the start of a block: values from block `other` and the current values from block
 * `here`. */
static void merge(struct gen *g, const LLVMValueRef *other, LLVMBasicBlockRef from_other,
		  LLVMBasicBlockRef from_here)
{
	for (int i = 0; i < g->l->nvars; i++) {
		if (g->cur[i] == other[i])
			continue;
		g->cur[i] =
		    g->cur[i] && other[i] ? gen_phi(g, other[i], from_other, g->cur[i], from_here) : NULL;
	}
}

/* Opens the next depth; the builder is in the head's block after its phis. */
void gen_open_scope(struct gen *g)
{
	struct llvm_scope *s = &g->scope[++g->depth];
	memset(s->bucket, 0, sizeof s->bucket);
	s->end = LLVMBuildFreeze(g->b, LLVMGetUndef(g->i64), "");
}

void gen_close_scope(struct gen *g)
{
	LLVMInstructionEraseFromParent(g->scope[g->depth--].end);
}

/* Whether the variable is the expression lo, so that there is one iteration and no loop. Nothing depends on
 * this depth alone. */
bool gen_is_single(const struct gen *g, const struct stmt *s)
{
	const struct ix *x = g->l->loopvar[s->var].x;
	return s->at_least_once && !(x->op == IX_VAR && x->id == s->var);
}

static void gen_single(struct gen *g, const struct stmt *s)
{
	gen_open_scope(g);
	gen_body(g, s->body);
	gen_close_scope(g);
}

/* Makes phis for the carried variables and puts them into g->cur. Returns their number, with ids in
 * carried[]. */
static int carry(struct gen *g, const struct stmt *s, LLVMBasicBlockRef from, int *carried, LLVMValueRef *phi)
{
	const uint64_t *assigned = g->flow.assigned[s->var], *exposed = g->flow.exposed[s->var];
	int n = 0;
	for (int w = 0; w < g->flow.words; w++)
		for (uint64_t m = assigned[w] & exposed[w]; m; m &= m - 1) {
			int v = w * 64 + __builtin_ctzll(m);
			phi[n] = LLVMBuildPhi(g->b, LLVMTypeOf(g->cur[v]), "");
			LLVMAddIncoming(phi[n], &g->cur[v], &from, 1);
			carried[n++] = v;
		}
	for (int i = 0; i < n; i++)
		g->cur[carried[i]] = phi[i];
	return n;
}

static bool may_be_empty(const struct stmt *s)
{
	int64_t lo, hi;
	return !s->at_least_once && !(ix_is_const(s->lo, &lo) && ix_is_const(s->hi, &hi) && lo < hi);
}

/* The counter passes the last value by up to a step, which it must hold, too. */
static LLVMTypeRef counter_type(struct gen *g, const struct stmt *s)
{
	bool small = gen_ix_type(g, s->lo) == g->i32 && gen_ix_type(g, s->hi) == g->i32 &&
		     s->step <= INT32_MAX - s->hi->hi;
	return small ? g->i32 : g->i64;
}

static void gen_for(struct gen *g, const struct stmt *s)
{
	int64_t c[2];
	if (gen_is_single(g, s)) {
		gen_single(g, s);
		return;
	}
	if (ix_is_const(s->lo, &c[0]) && ix_is_const(s->hi, &c[1]) && c[0] >= c[1])
		return;
	if (gen_pipe(g, s))
		return;
	int nvars = g->l->nvars, *carried = ARENA_ARRAY(g->a, int, nvars + 1);
	LLVMValueRef *phi = ARENA_ARRAY(g->a, LLVMValueRef, nvars + 1), *before = copy_vars(g);
	LLVMTypeRef type = counter_type(g, s);
	LLVMValueRef lo = gen_as(g, gen_ix(g, s->lo), type), hi = gen_as(g, gen_ix(g, s->hi), type);
	g->step[s->var] = s->step;
	LLVMBasicBlockRef from = LLVMGetInsertBlock(g->b), head = gen_block(g, "loop");
	LLVMBasicBlockRef done = gen_block(g, "done");
	if (may_be_empty(s))
		LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, lo, hi, ""), head, done);
	else
		LLVMBuildBr(g->b, head);
	LLVMPositionBuilderAtEnd(g->b, head);
	LLVMValueRef iv = g->iv[s->var] = LLVMBuildPhi(g->b, type, "");
	LLVMAddIncoming(iv, &lo, &from, 1);
	int n = carry(g, s, from, carried, phi);
	gen_open_scope(g);
	gen_body(g, s->body);
	gen_close_scope(g);
	LLVMBasicBlockRef latch = LLVMGetInsertBlock(g->b);
	LLVMValueRef next = LLVMBuildNSWAdd(g->b, iv, gen_int(g, iv, s->step), "");
	LLVMValueRef back = LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, next, hi, ""), head, done);
	if (g->arch == ARCH_PTX)
		gpu_loop(g, back);
	LLVMAddIncoming(iv, &next, &latch, 1);
	for (int i = 0; i < n; i++)
		LLVMAddIncoming(phi[i], &g->cur[carried[i]], &latch, 1);
	LLVMPositionBuilderAtEnd(g->b, done);
	if (may_be_empty(s))
		merge(g, before, from, latch);
}

static void gen_if(struct gen *g, const struct stmt *s)
{
	int64_t c;
	if (ix_is_const(s->lo, &c)) {
		gen_body(g, c ? s->body : s->other);
		return;
	}
	LLVMBasicBlockRef yes = gen_block(g, "yes"), no = gen_block(g, "no"), done = gen_block(g, "done");
	LLVMValueRef *before = copy_vars(g);
	LLVMBuildCondBr(g->b, gen_bool(g, s->lo), yes, no);
	LLVMPositionBuilderAtEnd(g->b, yes);
	gen_body(g, s->body);
	LLVMBasicBlockRef end_yes = LLVMGetInsertBlock(g->b);
	LLVMBuildBr(g->b, done);
	LLVMValueRef *after = copy_vars(g);
	memcpy(g->cur, before, sizeof *g->cur * (size_t)g->l->nvars);
	LLVMPositionBuilderAtEnd(g->b, no);
	gen_body(g, s->other);
	LLVMBasicBlockRef end_no = LLVMGetInsertBlock(g->b);
	LLVMBuildBr(g->b, done);
	LLVMPositionBuilderAtEnd(g->b, done);
	merge(g, after, end_yes, end_no);
}

/* Keeps the loads of a step behind those of the step before: AArch64 has no memory operands, and LLVM would
 * load the values of all unrolled steps at once, which spills. A fence for this thread alone is no
 * instruction. */
static void part_steps(struct gen *g, const struct stmt *s, bool *math)
{
	bool load = s->vop == V_LOAD;
	if (g->arch == ARCH_A64 && load && *math)
		LLVMBuildFence(g->b, LLVMAtomicOrderingAcquireRelease, true, "");
	*math = load ? false : *math || s->vop == V_FMA;
}

static bool has_blocks(const struct stmt *s)
{
	for (; s; s = s->next)
		if (s->op == ST_FOR || s->op == ST_IF)
			return true;
	return false;
}

/* Makes a copy of a constant's vector that was just loaded by another load: sums that start with a bias take
 * registers of their own, since FMLA overwrites one, and moves of vectors take the place of multiply-adds
 * where they are one in nine. (On a processor that issues in order a load takes longer.) By LLVM's models
 * depthwise 3x3 takes 95 % of the time on a cortex-a72, and 92 % on a Neoverse N1. */
static bool load_again(struct gen *g, const struct stmt *s, const struct stmt **first)
{
	const struct stmt *f = *first;
	if (s->vop == V_LOAD) {
		bool plain = g->l->buf[s->mem.buf].role == BUF_CONST && s->mem.stride == 1 && !s->mem.guard;
		*first = g->arch == ARCH_A64 && !g->in_order && plain ? s : NULL;
		return false;
	}
	if (f && s->dst == f->dst)
		*first = NULL;
	if (s->vop != V_COPY || !f || f->dst != s->a)
		return false;
	struct stmt load = *f;
	load.dst = s->dst;
	g->again = true;
	gen_set(g, &load);
	g->again = false;
	return true;
}

/* Recursion is bounded by LOOPS_MAX_DEPTH. */
void gen_body(struct gen *g, const struct stmt *s)
{
	bool math = false, straight = !has_blocks(s);
	const struct stmt *bias = NULL;
	for (; s; s = s->next)
		switch (s->op) {
		case ST_SET:
			if (straight && load_again(g, s, &bias))
				break;
			part_steps(g, s, &math);
			gen_set(g, s);
			break;
		case ST_STORE:
			gen_store(g, s);
			break;
		case ST_PREFETCH:
			gen_prefetch(g, s);
			break;
		case ST_FOR:
			gen_for(g, s);
			break;
		case ST_IF:
			gen_if(g, s);
			break;
		case ST_BARRIER:
		case ST_COPY:
		case ST_COMMIT:
		case ST_WAIT:
		case ST_FRAG_STORE: /* emit_llvm refuses threads */
			gpu_statement(g, s);
			break;
		}
}

void gen_attribute(struct gen *g, const char *name, const char *value)
{
	LLVMAttributeRef a;
	if (value) {
		a = LLVMCreateStringAttribute(g->ctx, name, (unsigned)strlen(name), value,
					      (unsigned)strlen(value));
	} else {
		unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
		a = LLVMCreateEnumAttribute(g->ctx, kind, 0);
	}
	LLVMAddAttributeAtIndex(g->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

static void attributes(struct gen *g)
{
	char width[16];
	snprintf(width, sizeof width, "%d", g->t->lanes * 32);
	gen_attribute(g, "nounwind", NULL);
	gen_attribute(g, "noredzone", NULL);
	gen_attribute(g, "warn-stack-size", "0"); /* the frame's size is reported as a diagnostic */
	gen_attribute(g, "denormal-fp-math", "preserve-sign,preserve-sign");
	if (g->t->schedule[0])
		gen_attribute(g, "tune-cpu", g->t->schedule);
	if (g->t->lanes > 4) {
		gen_attribute(g, "min-legal-vector-width", width);
		gen_attribute(g, "prefer-vector-width", width);
	}
}

static LLVMTypeRef entry_type(struct gen *g)
{
	LLVMTypeRef args[4] = {g->ptr, g->ptr, g->i64, g->i64};
	return LLVMFunctionType(LLVMVoidTypeInContext(g->ctx), args, 4, false);
}

/* void kN(buf, param, begin, end): the loop over [begin, end) around the entry's body. */
static void gen_entry(struct gen *g, const struct entry *e)
{
	g->fn = LLVMAddFunction(g->mod, e->name, entry_type(g));
	attributes(g);
	memset(g->cur, 0, sizeof *g->cur * (size_t)(g->l->nvars + 1));
	g->depth = -1;
	g->piped = gen_may_pipe(g, e->body);
	g->pipe_const.block = NULL;
	g->place = PLACE_BODY;
	LLVMPositionBuilderAtEnd(g->b, gen_block(g, "entry"));
	gen_open_scope(g);
	LLVMValueRef begin = LLVMGetParam(g->fn, 2), end = LLVMGetParam(g->fn, 3);
	LLVMBasicBlockRef from = LLVMGetInsertBlock(g->b), head = gen_block(g, "range"),
			  done = gen_block(g, "end");
	LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, begin, end, ""), head, done);
	LLVMPositionBuilderAtEnd(g->b, head);
	LLVMValueRef iv = g->iv[e->var] = LLVMBuildPhi(g->b, g->i64, "");
	LLVMAddIncoming(iv, &begin, &from, 1);
	gen_open_scope(g);
	gen_body(g, e->body);
	gen_close_scope(g);
	LLVMBasicBlockRef latch = LLVMGetInsertBlock(g->b);
	LLVMValueRef next = LLVMBuildNSWAdd(g->b, iv, gen_i64(g, 1), "");
	LLVMAddIncoming(iv, &next, &latch, 1);
	LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, next, end, ""), head, done);
	LLVMPositionBuilderAtEnd(g->b, done);
	LLVMBuildRetVoid(g->b);
	gen_close_scope(g);
}

static LLVMMetadataRef text_node(struct gen *g, const char *name, LLVMMetadataRef second)
{
	LLVMMetadataRef n[2] = {LLVMMDStringInContext2(g->ctx, name, strlen(name)), second};
	return LLVMMDNodeInContext2(g->ctx, n, second ? 2 : 1);
}

/* One alias scope per buffer; an access to one buffer does not alias the scopes of the others. */
static void alias_scopes(struct gen *g)
{
	LLVMMetadataRef scope[LOOPS_MAX_BUFS], domain = text_node(g, "buffers", NULL);
	for (int i = 0; i < g->l->nbufs; i++) {
		char name[24];
		snprintf(name, sizeof name, "buffer%d", i);
		scope[i] = text_node(g, name, domain);
	}
	for (int i = 0; i < g->l->nbufs; i++) {
		LLVMMetadataRef others[LOOPS_MAX_BUFS];
		size_t n = 0;
		for (int j = 0; j < g->l->nbufs; j++)
			if (j != i)
				others[n++] = scope[j];
		g->alias[i] = LLVMMetadataAsValue(g->ctx, LLVMMDNodeInContext2(g->ctx, &scope[i], 1));
		g->noalias[i] =
		    n ? LLVMMetadataAsValue(g->ctx, LLVMMDNodeInContext2(g->ctx, others, n)) : NULL;
	}
	g->alias_kind = LLVMGetMDKindIDInContext(g->ctx, "alias.scope", 11);
	g->noalias_kind = LLVMGetMDKindIDInContext(g->ctx, "noalias", 7);
}

void gen_module(struct gen *g)
{
	const struct loops *l = g->l;
	g->f32 = LLVMFloatTypeInContext(g->ctx);
	g->i1 = LLVMInt1TypeInContext(g->ctx);
	g->i8 = LLVMInt8TypeInContext(g->ctx);
	g->i16 = LLVMInt16TypeInContext(g->ctx);
	g->i32 = LLVMInt32TypeInContext(g->ctx);
	g->i64 = LLVMInt64TypeInContext(g->ctx);
	g->ptr = LLVMPointerType(g->i8, 0);
	const LLVMTypeRef unit[UNITS] = {g->f32, g->i32, g->i16, g->i8};
	for (int u = 0; u < UNITS; u++)
		for (int i = 0; i < LANE_KINDS; i++)
			g->vec[u][i] = i ? LLVMVectorType(unit[u], 1u << i) : unit[u];
	g->cur = ARENA_ARRAY(g->a, LLVMValueRef, l->nvars + 1);
	g->iv = ARENA_ARRAY(g->a, LLVMValueRef, l->nloopvars + 1);
	g->scope = ARENA_ARRAY(g->a, struct llvm_scope, LOOPS_MAX_DEPTH + 3);
	g->step = ARENA_ARRAY(g->a, int64_t, l->nloopvars + 1);
	g->flow = loops_flow(l, g->a);
	if (g->scopes)
		alias_scopes(g);
	if (g->arch == ARCH_PTX)
		gpu_module(g);
	for (int i = 0; i < l->nentries; i++)
		(g->arch == ARCH_PTX ? gpu_entry : gen_entry)(g, &l->entry[i]);
}
