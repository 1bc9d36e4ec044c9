/* SPDX-License-Identifier: Apache-2.0 */
/* Fragments by wmma instructions of 16 x 16 x 16, whose registers only they themselves understand. A fragment
 * is a vector of 8 words; those of bf16 and of bytes use the first 4 and 2 of them. */
#include "kernels/emit/llvm_gen.h"

#include <stdio.h>
#include <string.h>

/* Words of a fragment's registers. */
static int words_of(const struct fragment *f)
{
	return dtype_bytes(f->dtype) == 1 ? 2 : f->dtype == DT_BF16 ? 4 : FRAG_LANES;
}

static const char *type_name(const struct fragment *f)
{
	return f->dtype == DT_I32    ? "s32"
	       : f->dtype == DT_F32  ? "f32"
	       : f->dtype == DT_F16  ? "f16"
	       : f->dtype == DT_BF16 ? "bf16"
	       : f->dtype == DT_I8   ? "s8"
				     : "u8";
}

static const char *order(const struct fragment *f)
{
	return f->columns ? "col" : "row";
}

/* The LLVM type of a register: f16 come as pairs. */
static LLVMTypeRef register_type(struct gen *g, const struct fragment *f)
{
	return f->dtype == DT_F32   ? g->f32
	       : f->dtype == DT_F16 ? LLVMVectorType(LLVMHalfTypeInContext(g->ctx), 2)
				    : g->i32;
}

static LLVMValueRef word_of(struct gen *g, LLVMValueRef v, int i)
{
	return LLVMBuildExtractElement(g->b, v, LLVMConstInt(g->i32, (unsigned)i, false), "");
}

/* Appends the registers of a fragment to arguments. */
static unsigned put_registers(struct gen *g, const struct fragment *f, LLVMValueRef v, LLVMValueRef *args,
			      unsigned n)
{
	for (int i = 0; i < words_of(f); i++)
		args[n++] = LLVMBuildBitCast(g->b, word_of(g, v, i), register_type(g, f), "");
	return n;
}

/* The fragment whose registers are the parts of a structure. */
static LLVMValueRef from_registers(struct gen *g, const struct fragment *f, LLVMValueRef parts)
{
	LLVMTypeRef word = f->dtype == DT_F32 ? g->f32 : g->i32;
	LLVMValueRef v = LLVMConstNull(LLVMVectorType(word, FRAG_LANES));
	for (int i = 0; i < words_of(f); i++) {
		LLVMValueRef part = LLVMBuildExtractValue(g->b, parts, (unsigned)i, "");
		part = LLVMBuildBitCast(g->b, part, word, "");
		v = LLVMBuildInsertElement(g->b, v, part, LLVMConstInt(g->i32, (unsigned)i, false), "");
	}
	return v;
}

/* Calls "llvm.nvvm.wmma.m16n16k16." name; over: the type of its pointer, or NULL. NULL: there is none. */
static LLVMValueRef call(struct gen *g, const char *name, LLVMValueRef *args, unsigned n, LLVMTypeRef over)
{
	char full[64];
	snprintf(full, sizeof full, "llvm.nvvm.wmma.m16n16k16.%s", name);
	unsigned id = LLVMLookupIntrinsicID(full, strlen(full));
	if (!id) {
		snprintf(g->missing, sizeof g->missing, "%.*s", (int)sizeof g->missing - 1, full);
		return NULL;
	}
	LLVMTypeRef type = LLVMIntrinsicGetType(g->ctx, id, &over, over ? 1 : 0);
	LLVMValueRef fn = LLVMGetIntrinsicDeclaration(g->mod, id, &over, over ? 1 : 0);
	return LLVMBuildCall2(g->b, type, fn, args, n, "");
}

static LLVMValueRef stride(struct gen *g, const struct mem *m)
{
	return LLVMConstInt(g->i32, (unsigned)m->stride, false);
}

static LLVMValueRef load(struct gen *g, const struct mem *m, const struct fragment *f)
{
	char name[32];
	LLVMValueRef args[2] = {gen_address(g, m, NULL), stride(g, m)};
	snprintf(name, sizeof name, "load.%c.%s.stride.%s", " abc"[f->part], order(f), type_name(f));
	LLVMValueRef r = call(g, name, args, 2, LLVMTypeOf(args[0]));
	return r ? from_registers(g, f, r)
		 : LLVMGetUndef(gen_type(g, f->dtype == DT_F32 ? UNIT_F32 : UNIT_I32, FRAG_LANES));
}

void gpu_fragment_store(struct gen *g, const struct stmt *s)
{
	char name[32];
	const struct fragment *f = &g->l->fragment[s->a];
	LLVMValueRef args[2 + FRAG_LANES] = {gen_address(g, &s->mem, NULL)};
	unsigned n = put_registers(g, f, g->cur[s->a], args, 1);
	args[n++] = stride(g, &s->mem);
	snprintf(name, sizeof name, "store.d.row.stride.%s", type_name(f));
	call(g, name, args, n, LLVMTypeOf(args[0]));
}

static LLVMValueRef multiply(struct gen *g, const struct stmt *s, const LLVMValueRef *in)
{
	char name[32];
	const struct fragment *a = &g->l->fragment[s->a], *b = &g->l->fragment[s->b],
			      *c = &g->l->fragment[s->c];
	LLVMValueRef args[3 * FRAG_LANES];
	unsigned n = put_registers(g, a, in[0], args, 0);
	n = put_registers(g, b, in[1], args, n);
	n = put_registers(g, c, in[2], args, n);
	snprintf(name, sizeof name, "mma.%s.%s.%s", order(a), order(b),
		 a->dtype == DT_F16 ? "f32.f32" : type_name(a));
	LLVMValueRef r = call(g, name, args, n, NULL);
	return r ? from_registers(g, c, r) : in[2];
}

LLVMValueRef gpu_fragment_op(struct gen *g, const struct stmt *s, const LLVMValueRef *in)
{
	return s->vop == V_FRAG_LOAD ? load(g, &s->mem, &g->l->fragment[s->dst]) : multiply(g, s, in);
}
