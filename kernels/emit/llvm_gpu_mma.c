/* SPDX-License-Identifier: Apache-2.0 */
/* Fragments by ldmatrix and mma.sync, for targets that have them. Threads know which elements they hold: PTX
 * ISA, "Matrix multiply-accumulate operation using mma instruction". A fragment is a vector of 8 words.
 *
 * Element (i, j) of C is word 4 * (j / 8) + 2 * (i / 8) + j % 2 of lane 4 * (i % 8) + j % 8 / 2. A word of A
 * or B has four bytes that are neighbours along k: 8 (of bytes 16) elements of k for each four lanes, and 8
 * rows of A or columns of B for all lanes. A has the words of rows 0 and 8, then of the other half of k, if
 * they are of 16 bits. B has those of both halves of k of columns 0, then of columns 8.
 *
 * A word of f32 has one element, so there are four quarters of k instead of two halves: the words of the
 * first two quarters, which one instruction multiplies, come before those of the others. The hardware leaves
 * out the bits that TF32 has not; to round to the nearest, each word is converted when it is loaded. */
#include "kernels/emit/llvm_gen.h"

#include <stdio.h>
#include <string.h>

enum { HALF = FRAG_SIZE / 2, WORD = 4, MOST_ARGS = 10 };

static bool is_byte(enum dtype t)
{
	return dtype_bytes(t) == 1;
}

/* Words of a fragment A or B. */
static int words_of(const struct fragment *f)
{
	return is_byte(f->dtype) ? 2 : f->dtype == DT_F32 ? FRAG_LANES : 4;
}

static LLVMValueRef word_of(struct gen *g, LLVMValueRef v, int i)
{
	return LLVMBuildExtractElement(g->b, v, LLVMConstInt(g->i32, (unsigned)i, false), "");
}

static LLVMValueRef set_word(struct gen *g, LLVMValueRef v, int i, LLVMValueRef word)
{
	LLVMTypeRef t = LLVMGetElementType(LLVMTypeOf(v));
	return LLVMBuildInsertElement(g->b, v, LLVMBuildBitCast(g->b, word, t, ""),
				      LLVMConstInt(g->i32, (unsigned)i, false), "");
}

static LLVMValueRef no_words(struct gen *g, const struct fragment *f)
{
	bool floats = f->part == FRAG_C && f->dtype == DT_F32;
	return LLVMConstNull(gen_type(g, floats ? UNIT_F32 : UNIT_I32, FRAG_LANES));
}

/* The call of an intrinsic; NULL: this LLVM has none of this name. */
static LLVMValueRef call(struct gen *g, const char *name, LLVMValueRef *args, unsigned n, LLVMTypeRef over)
{
	unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
	if (!id) {
		snprintf(g->missing, sizeof g->missing, "%.*s", (int)sizeof g->missing - 1, name);
		return NULL;
	}
	LLVMTypeRef type = LLVMIntrinsicGetType(g->ctx, id, &over, over ? 1 : 0), want[MOST_ARGS];
	LLVMValueRef fn = LLVMGetIntrinsicDeclaration(g->mod, id, &over, over ? 1 : 0);
	LLVMGetParamTypes(type, want);
	for (unsigned i = 0; i < n; i++)
		args[i] = LLVMBuildBitCast(g->b, args[i], want[i], "");
	return LLVMBuildCall2(g->b, type, fn, args, n, "");
}

/* ---- places in memory ---- */

/* Expressions of the thread's place, which last as long as the emitter's arena. */
struct places {
	struct loops own; /* a copy of the program's, for new expressions */
	const struct ix *lane;
};

static void open_places(const struct gen *g, struct places *p)
{
	p->own = *g->l;
	p->own.arena = g->a;
	p->lane = ix_mod(&p->own, ix_var(&p->own, g->thread), ix_c(&p->own, WARP));
}

/* lane / by % mod, times `times`. */
static const struct ix *part_of_lane(struct places *p, int by, int mod, int64_t times)
{
	struct loops *l = &p->own;
	return ix_mul(l, ix_mod(l, ix_div(l, p->lane, ix_c(l, by)), ix_c(l, mod)), ix_c(l, times));
}

/* The address of m, `a` and `b` elements further on. */
static LLVMValueRef address(struct gen *g, struct places *p, const struct mem *m, const struct ix *a,
			    const struct ix *b)
{
	struct mem at = *m;
	at.at = ix_add(&p->own, m->at, ix_add(&p->own, a, b));
	if (p->own.failed)
		g->long_address = true;
	return gen_address(g, &at, NULL);
}

/* Whether neighbours along k lie side by side. */
static bool along_k(const struct fragment *f)
{
	return (f->part == FRAG_A) != f->columns;
}

/* Each lane gives the address of a row of 16 bytes: of 16 bits there are four matrices of 8 x 8, of bytes
 * two. Where k is the row in memory, the matrices are transposed. */
static LLVMValueRef load_rows(struct gen *g, const struct mem *m, const struct fragment *f)
{
	struct places p;
	char name[64];
	bool k = !along_k(f), second = (f->part == FRAG_A) == k; /* the bit of the matrix that counts rows */
	open_places(g, &p);
	const struct ix *row, *in_row = ix_c(&p.own, 0);
	if (is_byte(f->dtype)) {
		row = part_of_lane(&p, 1, FRAG_SIZE, m->stride);
	} else {
		row = ix_add(&p.own, part_of_lane(&p, 1, HALF, m->stride),
			     part_of_lane(&p, second ? 16 : 8, 2, HALF * m->stride));
		in_row = part_of_lane(&p, second ? 8 : 16, 2, HALF);
	}
	LLVMValueRef at = address(g, &p, m, row, in_row), v = no_words(g, f);
	snprintf(name, sizeof name, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x%d%s.b16", words_of(f),
		 k ? ".trans" : "");
	LLVMValueRef r = call(g, name, &at, 1, LLVMTypeOf(at));
	for (int i = 0; i < words_of(f) && r; i++)
		v = set_word(g, v, i, LLVMBuildExtractValue(g->b, r, (unsigned)i, ""));
	return v;
}

/* f32 rounded to TF32, as i32. */
static LLVMValueRef rounded(struct gen *g, LLVMValueRef v)
{
	LLVMValueRef r = call(g, "llvm.nvvm.f2tf32.rna", &v, 1, NULL);
	return r ? r : v;
}

/* f32 in rows along k: one instruction loads both halves of the rows of two quarters of k. */
static LLVMValueRef load_f32_rows(struct gen *g, const struct mem *m, const struct fragment *f)
{
	struct places p;
	bool second = f->part == FRAG_B; /* the bit of the matrix that counts rows (columns) */
	LLVMValueRef v = no_words(g, f);
	open_places(g, &p);
	const struct ix *row = ix_add(&p.own, part_of_lane(&p, 1, HALF, m->stride),
				      part_of_lane(&p, second ? 16 : 8, 2, HALF * m->stride));
	for (int k = 0; k < 2; k++) {
		const struct ix *in_row =
		    ix_add(&p.own, part_of_lane(&p, second ? 8 : 16, 2, WORD), ix_c(&p.own, HALF * k));
		LLVMValueRef at = address(g, &p, m, row, in_row),
			     r = call(g, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16", &at, 1,
				      LLVMTypeOf(at));
		for (int i = 0; i < WORD && r; i++)
			v = set_word(g, v, WORD * k + i,
				     rounded(g, LLVMBuildExtractValue(g->b, r, (unsigned)i, "")));
	}
	return v;
}

/* f32 in rows across k, which no instruction transposes. */
static LLVMValueRef load_f32(struct gen *g, const struct mem *m, const struct fragment *f)
{
	struct places p;
	open_places(g, &p);
	LLVMValueRef v = no_words(g, f), from = address(g, &p, m, part_of_lane(&p, 1, WORD, m->stride),
							part_of_lane(&p, WORD, HALF, 1));
	for (int i = 0; i < FRAG_LANES; i++) {
		bool row = (f->part == FRAG_A ? i : i / 2) & 1, quarter = (f->part == FRAG_A ? i / 2 : i) & 1;
		int64_t k = HALF * (i / WORD) + WORD * quarter;
		LLVMValueRef at = gen_offset(g, from, gen_i64(g, 4 * (k * m->stride + HALF * row)));
		v = set_word(g, v, i,
			     rounded(g, LLVMBuildLoad2(g->b, g->f32, gen_typed(g->b, at, g->f32), "")));
	}
	return v;
}

/* No instruction transposes bytes. */
static LLVMValueRef load_bytes(struct gen *g, const struct mem *m, const struct fragment *f)
{
	struct places p;
	open_places(g, &p);
	LLVMValueRef v = no_words(g, f), from = address(g, &p, m, part_of_lane(&p, 1, WORD, WORD * m->stride),
							part_of_lane(&p, WORD, HALF, 1));
	for (int i = 0; i < words_of(f); i++) {
		LLVMValueRef word = LLVMConstInt(g->i32, 0, false);
		for (int k = 0; k < WORD; k++) {
			LLVMValueRef at = gen_offset(g, from, gen_i64(g, k * m->stride + i * HALF)),
				     byte = LLVMBuildLoad2(g->b, g->i8, gen_typed(g->b, at, g->i8), "");
			byte = LLVMBuildZExt(g->b, byte, g->i32, "");
			byte = LLVMBuildShl(g->b, byte, LLVMConstInt(g->i32, 8 * (unsigned)k, false), "");
			word = LLVMBuildOr(g->b, word, byte, "");
		}
		v = set_word(g, v, i, word);
	}
	return v;
}

/* The address of the words with i / 8 = row and j / 8 = column of a fragment C, two of which are
 * neighbours. */
static LLVMValueRef sums_at(struct gen *g, const struct mem *m, int row, int column)
{
	struct places p;
	open_places(g, &p);
	struct mem at = *m;
	at.at = ix_add(&p.own, m->at, ix_c(&p.own, HALF * (row * m->stride + column)));
	return address(g, &p, &at, part_of_lane(&p, WORD, HALF, m->stride), part_of_lane(&p, 1, WORD, 2));
}

static LLVMValueRef load_sums(struct gen *g, const struct mem *m, const struct fragment *f)
{
	LLVMTypeRef t = gen_type(g, f->dtype == DT_F32 ? UNIT_F32 : UNIT_I32, 2);
	LLVMValueRef v = no_words(g, f);
	for (int i = 0; i < FRAG_LANES; i += 2) {
		LLVMValueRef at = sums_at(g, m, i / 2 % 2, i / 4),
			     two = LLVMBuildLoad2(g->b, t, gen_typed(g->b, at, t), "");
		LLVMSetAlignment(two, 8);
		for (int j = 0; j < 2; j++)
			v = set_word(g, v, i + j, word_of(g, two, j));
	}
	return v;
}

LLVMValueRef gpu_mma_load(struct gen *g, const struct mem *m, const struct fragment *f)
{
	return f->part == FRAG_C                  ? load_sums(g, m, f)
	       : f->dtype == DT_F32               ? (along_k(f) ? load_f32_rows : load_f32)(g, m, f)
	       : is_byte(f->dtype) && !along_k(f) ? load_bytes(g, m, f)
						  : load_rows(g, m, f);
}

void gpu_mma_store(struct gen *g, const struct stmt *s)
{
	LLVMValueRef v = g->cur[s->a];
	for (int i = 0; i < FRAG_LANES; i += 2) {
		LLVMValueRef two = gen_lanes(g, v, i, 1, 2), at = sums_at(g, &s->mem, i / 2 % 2, i / 4);
		at = gen_typed(g->b, at, LLVMTypeOf(two));
		LLVMSetAlignment(LLVMBuildStore(g->b, two, at), 8);
	}
}

/* ---- products ---- */

static const char *byte_name(enum dtype t)
{
	return t == DT_I8 ? "s8" : "u8";
}

/* An instruction's words: n of them from the first on. */
struct words {
	int first, n;
};

/* Adds to words c of the sums what the instruction of this shape makes of words a and b. */
static LLVMValueRef product(struct gen *g, const char *shape, const char *types, const LLVMValueRef in[2],
			    LLVMValueRef sum, struct words a, struct words b, struct words c)
{
	char name[64];
	const struct words w[3] = {a, b, c};
	LLVMValueRef args[MOST_ARGS];
	unsigned n = 0;
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < w[i].n; k++)
			args[n++] = word_of(g, i < 2 ? in[i] : sum, w[i].first + k);
	snprintf(name, sizeof name, "llvm.nvvm.mma.%s.row.col.%s", shape, types);
	LLVMValueRef r = call(g, name, args, n, NULL);
	for (int k = 0; k < c.n && r; k++)
		sum = set_word(g, sum, c.first + k, LLVMBuildExtractValue(g->b, r, (unsigned)k, ""));
	return sum;
}

/* The words of a quarter of B's columns come in the order of columns, then of quarters. */
static LLVMValueRef multiply_tf32(struct gen *g, const LLVMValueRef *in)
{
	LLVMValueRef sum = in[2];
	for (int h = 0; h < 2; h++)         /* columns 8 * h */
		for (int k = 0; k < 2; k++) /* half k of k */
			sum = product(g, "m16n8k8", "tf32", in, sum, (struct words){WORD * k, WORD},
				      (struct words){WORD * k + 2 * h, 2}, (struct words){WORD * h, WORD});
	return sum;
}

LLVMValueRef gpu_mma_multiply(struct gen *g, const struct stmt *s, const LLVMValueRef *in)
{
	char types[12];
	enum dtype a = g->l->fragment[s->a].dtype, b = g->l->fragment[s->b].dtype;
	bool bytes = is_byte(a), whole = g->sm >= 80 && g->ptx >= 70;
	LLVMValueRef sum = in[2];
	if (a == DT_F32)
		return multiply_tf32(g, in);
	snprintf(types, sizeof types, "%s%s%s",
		 bytes         ? byte_name(a)
		 : a == DT_F16 ? "f32.f32"
			       : "bf16",
		 a == b ? "" : ".", a == b ? "" : byte_name(b));
	for (int h = 0; h < 2; h++) { /* columns 8 * h */
		struct words c = {4 * h, 4};
		if (whole) {
			sum = product(g, "m16n8k16", types, in, sum, (struct words){0, bytes ? 2 : 4},
				      bytes ? (struct words){h, 1} : (struct words){2 * h, 2}, c);
			continue;
		}
		for (int i = 0; i < 2; i++) /* rows 8 * i of bytes, half i of k */
			sum = bytes ? product(g, "m8n8k16", types, in, sum, (struct words){i, 1},
					      (struct words){h, 1}, (struct words){4 * h + 2 * i, 2})
				    : product(g, "m16n8k8", types, in, sum, (struct words){2 * i, 2},
					      (struct words){2 * h + i, 1}, c);
	}
	return sum;
}
