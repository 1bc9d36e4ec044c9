/* SPDX-License-Identifier: Apache-2.0 */
/* Fragments, where the target does not load matrices (llvm_gpu_mma.c): by wmma instructions of 16 x 16 x 16,
 * whose registers only they themselves understand. A fragment is a vector of 8 words; those of bf16 and of
 * bytes use the first 4 and 2 of them.
 *
 * The instructions multiply no u8 with s8. A program that does so loads all its u8 as s8, and multiplies them
 * in two parts: the low 7 bits, and -128 where the highest bit is set, whose products are subtracted. */
#include "kernels/emit/llvm_gen.h"

#include <stdio.h>
#include <string.h>

/* Whether the program has fragments of both types of bytes. */
static bool mixes(const struct loops *l)
{
	bool has[DTYPES] = {false};
	for (int v = 0; v < l->nvars; v++)
		has[l->fragment[v].dtype] = true;
	return has[DT_I8] && has[DT_U8];
}

/* The fragment, of the type that instructions know it by. */
static struct fragment known_as(const struct gen *g, int var)
{
	struct fragment f = g->l->fragment[var];
	if (f.dtype == DT_U8 && mixes(g->l))
		f.dtype = DT_I8;
	return f;
}

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

static void store(struct gen *g, const struct stmt *s)
{
	char name[32];
	const struct fragment *f = &g->l->fragment[s->a];
	LLVMValueRef args[2 + FRAG_LANES] = {gen_address(g, &s->mem, NULL)};
	unsigned n = put_registers(g, f, g->cur[s->a], args, 1);
	args[n++] = stride(g, &s->mem);
	snprintf(name, sizeof name, "store.d.row.stride.%s", type_name(f));
	call(g, name, args, n, LLVMTypeOf(args[0]));
}

/* c + a b, as one instruction makes it. */
static LLVMValueRef product(struct gen *g, const struct fragment f[3], const LLVMValueRef *in)
{
	char name[32];
	LLVMValueRef args[3 * FRAG_LANES];
	unsigned n = 0;
	for (int i = 0; i < 3; i++)
		n = put_registers(g, &f[i], in[i], args, n);
	snprintf(name, sizeof name, "mma.%s.%s.%s", order(&f[0]), order(&f[1]),
		 f[0].dtype == DT_F16 ? "f32.f32" : type_name(&f[0]));
	LLVMValueRef r = call(g, name, args, n, NULL);
	return r ? from_registers(g, &f[2], r) : in[2];
}

/* The parts of u8 that are factors of s8, of which the second is subtracted. Returns their number. */
static int split(struct gen *g, int var, LLVMValueRef v, LLVMValueRef part[2])
{
	part[0] = v;
	if (g->l->fragment[var].dtype != DT_U8 || !mixes(g->l))
		return 1;
	part[0] = LLVMBuildAnd(g->b, v, gen_s32_const(g, 0x7f7f7f7f, FRAG_LANES), "");
	part[1] = LLVMBuildAnd(g->b, v, gen_s32_const(g, 0x80808080, FRAG_LANES), "");
	return 2;
}

static LLVMValueRef multiply(struct gen *g, const struct stmt *s, const LLVMValueRef *in)
{
	const struct fragment f[3] = {known_as(g, s->a), known_as(g, s->b), known_as(g, s->c)};
	LLVMValueRef a[2], b[2], sum = in[2];
	int na = split(g, s->a, in[0], a), nb = split(g, s->b, in[1], b);
	for (int i = 0; i < na * nb; i++) {
		bool less = i % na != i / na;
		LLVMValueRef to = less ? LLVMConstNull(LLVMTypeOf(sum)) : sum,
			     r = product(g, f, (const LLVMValueRef[]){a[i % na], b[i / na], to});
		sum = less ? LLVMBuildSub(g->b, sum, r, "") : r;
	}
	return sum;
}

void gpu_fragment_store(struct gen *g, const struct stmt *s)
{
	(target_loads_matrices(g->t) ? gpu_mma_store : store)(g, s);
}

LLVMValueRef gpu_fragment_op(struct gen *g, const struct stmt *s, const LLVMValueRef *in)
{
	bool loads = s->vop == V_FRAG_LOAD;
	if (target_loads_matrices(g->t))
		return loads ? gpu_mma_load(g, &s->mem, &g->l->fragment[s->dst]) : gpu_mma_multiply(g, s, in);
	const struct fragment f = known_as(g, s->dst);
	return loads ? load(g, &s->mem, &f) : multiply(g, s, in);
}
