/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of a GPU, and statements of threads. */
#include "kernels/emit/llvm_gen.h"

#include <llvm-c/DebugInfo.h>
#include <stdio.h>
#include <string.h>

enum {
	USUAL_GROUP =
	    64,     /* items of a block: 32 blocks, which is the most of most architectures, fill an SM */
	KERNEL = 71 /* LLVM's calling convention of kernels */
};

int gpu_group(const struct gen *g, const struct entry *e)
{
	int most = g->t->group > 0 && g->t->group < USUAL_GROUP ? g->t->group : USUAL_GROUP;
	return e->threads > 1 ? 1 : e->group > 0 ? e->group : most;
}

/* Returns the alignment of shared buffers in bytes: fragments need 32. */
static int64_t alignment(const struct gen *g)
{
	return loops_has_fragments(g->l) ? 32 : 16;
}

static int64_t buffer_bytes(const struct gen *g, const struct lbuf *b)
{
	int64_t unit = alignment(g);
	return (b->elems->c * (int64_t)dtype_bytes(b->dtype) + unit - 1) / unit * unit;
}

int64_t gpu_shared_bytes(const struct gen *g, const struct entry *e)
{
	int64_t bytes = 0;
	for (int i = loops_arguments(g->l); i < g->l->nbufs && e->threads > 1; i++)
		bytes += buffer_bytes(g, &g->l->buf[i]);
	return bytes;
}

/* One array that the launch sizes, with all shared buffers of an entry. */
static void add_dynamic(struct gen *g)
{
	LLVMTypeRef t = LLVMArrayType(g->i8, 0);
	LLVMValueRef v = LLVMAddGlobalInAddressSpace(g->mod, t, "shared", 3);
	LLVMSetLinkage(v, LLVMExternalLinkage);
	LLVMSetAlignment(v, (unsigned)alignment(g));
	v = LLVMConstBitCast(v, LLVMPointerType(g->i8, 3));
	int64_t at = 0;
	for (int i = loops_arguments(g->l); i < g->l->nbufs; i++) {
		LLVMValueRef index = LLVMConstInt(g->i32, (uint64_t)at, false);
		g->shared[i] = at ? LLVMConstGEP2(g->i8, v, &index, 1) : v;
		at += buffer_bytes(g, &g->l->buf[i]);
	}
}

void gpu_module(struct gen *g)
{
	int64_t all = 0;
	for (int i = loops_arguments(g->l); i < g->l->nbufs; i++)
		all += buffer_bytes(g, &g->l->buf[i]);
	if (all > GPU_STATIC) {
		add_dynamic(g);
		return;
	}
	for (int i = loops_arguments(g->l); i < g->l->nbufs; i++) {
		char name[24];
		LLVMTypeRef t = LLVMArrayType(g->i8, (unsigned)buffer_bytes(g, &g->l->buf[i]));
		snprintf(name, sizeof name, "shared%d", i);
		LLVMValueRef v = g->shared[i] = LLVMAddGlobalInAddressSpace(g->mod, t, name, 3);
		LLVMSetLinkage(v, LLVMInternalLinkage);
		LLVMSetInitializer(v, LLVMGetUndef(t));
		LLVMSetAlignment(v, (unsigned)alignment(g));
	}
}

/* Notes of a kernel, as {kernel, "reqntidx", 64}. */
static void annotate(struct gen *g, const char *name, int value)
{
	LLVMMetadataRef n[3] = {LLVMValueAsMetadata(g->fn),
				LLVMMDStringInContext2(g->ctx, name, strlen(name)),
				LLVMValueAsMetadata(LLVMConstInt(g->i32, (unsigned)value, false))};
	LLVMValueRef node = LLVMMetadataAsValue(g->ctx, LLVMMDNodeInContext2(g->ctx, n, 3));
	LLVMAddNamedMetadataOperand(g->mod, "nvvm.annotations", node);
}

static void add_function(struct gen *g, const struct entry *e)
{
	LLVMTypeRef args[LOOPS_MAX_BUFS + LOOPS_MAX_PARAMS + 2];
	unsigned n = 0;
	for (int i = 0; i < loops_arguments(g->l); i++)
		args[n++] = LLVMPointerType(g->i8, 1);
	for (int i = 0; i < g->l->nparams + 2; i++)
		args[n++] = g->i64;
	g->fn =
	    LLVMAddFunction(g->mod, e->name, LLVMFunctionType(LLVMVoidTypeInContext(g->ctx), args, n, false));
	LLVMSetFunctionCallConv(g->fn, KERNEL);
	gen_attribute(g, "nounwind", NULL);
	gen_attribute(g, "denormal-fp-math-f32", "preserve-sign,preserve-sign");
	annotate(g, "reqntidx", gpu_group(g, e));
	annotate(g, "reqntidy", e->threads);
	annotate(g, "reqntidz", 1);
	annotate(g, "minctasm", e->blocks > 1 ? e->blocks : 1); /* without it the assembler may spill early */
}

static LLVMValueRef special_register(struct gen *g, const char *name)
{
	char full[64];
	snprintf(full, sizeof full, "llvm.nvvm.read.ptx.sreg.%s", name);
	return gen_target_call(g, full, g->i32, NULL, 0, NULL, 0);
}

static LLVMValueRef argument(struct gen *g, int i)
{
	return LLVMGetParam(g->fn, (unsigned)i);
}

LLVMValueRef gpu_param(struct gen *g, int id)
{
	return argument(g, loops_arguments(g->l) + id);
}

LLVMValueRef gpu_base(struct gen *g, int buf)
{
	const struct lbuf *b = &g->l->buf[buf];
	if (b->role == BUF_SHARED)
		return LLVMConstBitCast(g->shared[buf], LLVMPointerType(g->i8, 3));
	if (b->role != BUF_SCRATCH || b->common)
		return argument(g, buf);
	LLVMValueRef each = LLVMBuildMul(g->b, gen_as(g, gen_ix(g, b->elems), g->i64),
					 gen_i64(g, (int64_t)dtype_bytes(b->dtype)), "");
	LLVMValueRef item = LLVMBuildZExt(g->b, g->item, g->i64, "");
	return gen_offset(g, argument(g, buf), LLVMBuildMul(g->b, item, each, ""));
}

/* Sets the entry's loop variables; the result says whether the item has an index. */
static LLVMValueRef begin_item(struct gen *g, const struct entry *e)
{
	int last = loops_arguments(g->l) + g->l->nparams, group = gpu_group(g, e);
	LLVMValueRef begin = argument(g, last), end = argument(g, last + 1);
	LLVMTypeRef type = gen_ix_type(g, g->l->loopvar[e->var].x);
	g->item = special_register(g, "ctaid.x");
	if (group > 1) {
		g->item = LLVMBuildMul(g->b, g->item, LLVMConstInt(g->i32, (unsigned)group, false), "");
		g->item = LLVMBuildAdd(g->b, g->item, special_register(g, "tid.x"), "");
	}
	if (e->threads > 1)
		g->iv[e->thread] = special_register(g, "tid.y");
	LLVMValueRef item = type == g->i64 ? LLVMBuildZExt(g->b, g->item, type, "") : g->item;
	g->iv[e->var] = LLVMBuildAdd(g->b, gen_as(g, begin, type), item, "");
	LLVMValueRef n = gen_as(g, LLVMBuildSub(g->b, end, begin, ""), type);
	return LLVMBuildICmp(g->b, LLVMIntULT, item, n, "");
}

void gpu_entry(struct gen *g, const struct entry *e)
{
	add_function(g, e);
	g->thread = e->thread;
	memset(g->cur, 0, sizeof *g->cur * (size_t)(g->l->nvars + 1));
	g->depth = -1;
	g->place = PLACE_BODY;
	LLVMPositionBuilderAtEnd(g->b, gen_block(g, "entry"));
	LLVMValueRef has_index = begin_item(g, e);
	gen_open_scope(g);
	LLVMBasicBlockRef body = gen_block(g, "item"), done = gen_block(g, "end");
	LLVMBuildCondBr(g->b, has_index, body, done);
	LLVMPositionBuilderAtEnd(g->b, body);
	gen_open_scope(g);
	gen_body(g, e->body);
	gen_close_scope(g);
	LLVMBuildBr(g->b, done);
	LLVMPositionBuilderAtEnd(g->b, done);
	LLVMBuildRetVoid(g->b);
	gen_close_scope(g);
}

/* ptxas would unroll a short loop whole, and spill. The note is a node that has itself as its first
 * operand. */
void gpu_loop(struct gen *g, LLVMValueRef branch)
{
	static const char text[] = "llvm.loop.unroll.disable";
	LLVMMetadataRef name = LLVMMDStringInContext2(g->ctx, text, strlen(text));
	LLVMMetadataRef self = LLVMTemporaryMDNode(g->ctx, NULL, 0);
	LLVMMetadataRef n[2] = {self, LLVMMDNodeInContext2(g->ctx, &name, 1)};
	LLVMMetadataRef node = LLVMMDNodeInContext2(g->ctx, n, 2);
	LLVMMetadataReplaceAllUsesWith(self, node);
	LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(g->ctx, "llvm.loop", 9),
			LLVMMetadataAsValue(g->ctx, node));
}

LLVMValueRef gpu_asm(struct gen *g, const char *text, const char *constraints, LLVMTypeRef type,
		     LLVMValueRef *args, unsigned n)
{
	char code[96], operands[48];
	LLVMTypeRef types[4];
	bool effects = LLVMGetTypeKind(type) == LLVMVoidTypeKind;
	snprintf(code, sizeof code, "%s", text);
	snprintf(operands, sizeof operands, "%s%s", constraints,
		 !effects ? ""
		 : n      ? ",~{memory}"
			  : "~{memory}");
	for (unsigned i = 0; i < n; i++)
		types[i] = LLVMTypeOf(args[i]);
	LLVMTypeRef fn = LLVMFunctionType(type, types, n, false);
	LLVMValueRef v = LLVMGetInlineAsm(fn, code, strlen(code), operands, strlen(operands), effects, false,
					  LLVMInlineAsmDialectATT, false);
	return LLVMBuildCall2(g->b, fn, v, args, n, "");
}

LLVMValueRef gpu_shuffle(struct gen *g, LLVMValueRef v, int mask)
{
	LLVMValueRef args[4] = {LLVMConstAllOnes(g->i32), v, LLVMConstInt(g->i32, (unsigned)mask, false),
				LLVMConstInt(g->i32, 31, false)};
	return gen_target_call(g, "llvm.nvvm.shfl.sync.bfly.i32", g->i32, args, 4, NULL, 0);
}

static void barrier(struct gen *g)
{
	static const char name[] = "llvm.nvvm.barrier0";
	unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
	LLVMTypeRef type = LLVMIntrinsicGetType(g->ctx, id, NULL, 0);
	LLVMBuildCall2(g->b, type, LLVMGetIntrinsicDeclaration(g->mod, id, NULL, 0), NULL, 0, "");
}

void gpu_statement(struct gen *g, const struct stmt *s)
{
	char text[48];
	LLVMTypeRef none = LLVMVoidTypeInContext(g->ctx);
	if (s->op == ST_BARRIER) {
		barrier(g);
	} else if (s->op == ST_COPY) {
		gpu_copy(g, s);
	} else if (s->op == ST_FRAG_STORE) {
		gpu_fragment_store(g, s);
	} else if (g->sm >= 80) {
		snprintf(text, sizeof text,
			 s->op == ST_COMMIT ? "cp.async.commit_group;" : "cp.async.wait_group %d;",
			 (int)s->s32);
		gpu_asm(g, text, "", none, NULL, 0);
	}
}
