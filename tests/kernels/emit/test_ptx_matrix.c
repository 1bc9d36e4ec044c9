/* SPDX-License-Identifier: Apache-2.0 */
/* The PTX interpreter's matrices: a product of two matrices of f16 in shared memory, for each order of both,
 * then the same program with a mistake, which must be found. */
#include "tests/lib/test.h"
#include "tests/lib/ptx_call.h"
#include "tests/lib/ptx_parts.h"

enum { SIZE = 16, ELEMS = SIZE * SIZE };

/* What a program is made of; the words that mistakes change. */
struct program {
	const char *a, *b, *mma; /* orders of the loads and of the product */
	int a_at, pitch, lanes;  /* bytes; elements; of the warp that multiply */
	bool meets, stores;      /* before the loads; the product is stored to global memory directly */
};

static const struct program right = {"row", "row", "row.row", 0, 16, 32, true, true};

/* The threads copy both matrices into shared memory. */
static void print_copies(struct buf *t, const struct program *p)
{
	buf_puts(t, "ld.param.u64 %rd1, [p0];\nld.param.u64 %rd2, [p1];\nmov.u32 %r1, %tid.x;\n"
		    "mov.u32 %r2, sh;\nmul.wide.u32 %rd4, %r1, 32;\nadd.s64 %rd5, %rd1, %rd4;\n"
		    "shl.b32 %r3, %r1, 5;\nadd.s32 %r4, %r2, %r3;\n");
	for (int i = 0; i < 2; i++) /* 32 threads copy 32 bytes each: both matrices */
		buf_printf(t,
			   "ld.global.v4.u32 {%%r10, %%r11, %%r12, %%r13}, [%%rd5+%d];\n"
			   "st.shared.v4.u32 [%%r4+%d], {%%r10, %%r11, %%r12, %%r13};\n",
			   16 * i, 16 * i);
	if (p->meets)
		buf_puts(t, "bar.warp.sync -1;\n");
	buf_printf(t, "setp.lt.u32 %%p1, %%r1, %d;\n@!%%p1 bra done;\nmov.b32 %%r5, %d;\n", p->lanes,
		   p->pitch);
}

static void print_wmma(struct buf *t, const struct program *p)
{
	buf_printf(t,
		   "wmma.load.a.sync.aligned.%s.m16n16k16.shared.f16 {%%r20, %%r21, %%r22, %%r23, %%r24, "
		   "%%r25, %%r26, %%r27}, [%%r2+%d], %%r5;\n",
		   p->a, p->a_at);
	buf_printf(t,
		   "wmma.load.b.sync.aligned.%s.m16n16k16.shared.f16 {%%r30, %%r31, %%r32, %%r33, %%r34, "
		   "%%r35, %%r36, %%r37}, [%%r2+512], %%r5;\n",
		   p->b);
	for (int i = 0; i < 8; i++)
		buf_printf(t, "mov.f32 %%f%d, 0f3F800000;\n", i);
	buf_printf(t,
		   "wmma.mma.sync.aligned.%s.m16n16k16.f32.f32 {%%f10, %%f11, %%f12, %%f13, %%f14, %%f15, "
		   "%%f16, %%f17},\n{%%r20, %%r21, %%r22, %%r23, %%r24, %%r25, %%r26, %%r27},\n{%%r30, "
		   "%%r31, %%r32, %%r33, %%r34, %%r35, %%r36, %%r37},\n{%%f0, %%f1, %%f2, %%f3, %%f4, %%f5, "
		   "%%f6, %%f7};\n",
		   p->mma);
	if (p->stores)
		buf_puts(t, "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd2], {%f10, %f11, %f12, "
			    "%f13, %f14, %f15, %f16, %f17}, %r5;\n");
}

/* r40 = the lane's row of 16 bytes in a matrix of 32: rows i % 16 of both halves of rows (wide), or rows i %
 * 8 of half i / 16 of the rows and of half i / 8 % 2 of the columns. */
static void print_row(struct buf *t, bool wide)
{
	buf_printf(t, "and.b32 %%r41, %%r1, %d;\nshl.b32 %%r40, %%r41, 5;\n", wide ? 15 : 7);
	buf_printf(t, "shr.u32 %%r42, %%r1, %d;\nand.b32 %%r42, %%r42, 1;\nshl.b32 %%r42, %%r42, 4;\n",
		   wide ? 4 : 3);
	buf_puts(t, "add.s32 %r40, %r40, %r42;\n");
	if (!wide)
		buf_puts(t, "shr.u32 %r42, %r1, 4;\nshl.b32 %r42, %r42, 8;\nadd.s32 %r40, %r40, %r42;\n");
	buf_puts(t, "add.s32 %r40, %r40, %r2;\n");
}

/* The same product by two mma.m16n8k16, whose fragments are loaded by ldmatrix, or (plain) element by element
 * from the places that the PTX ISA says. */
static void print_mma(struct buf *t, const struct program *p, bool plain)
{
	bool ca = *p->a == 'c', cb = *p->b == 'c';
	/* r6: byte of row lane / 4, elements 2 * (lane % 4) and the next */
	buf_puts(t, "shr.u32 %r6, %r1, 2;\nshl.b32 %r6, %r6, 5;\nand.b32 %r7, %r1, 3;\nshl.b32 %r7, %r7, 2;\n"
		    "add.s32 %r6, %r6, %r7;\nadd.s32 %r6, %r6, %r2;\n");
	for (int i = 0; i < 4 && plain; i++) /* rows 8 * (i % 2) of A and 8 * (i / 2) of B's columns */
		buf_printf(t, "ld.shared.u32 %%r2%d, [%%r6+%d];\nld.shared.u32 %%r3%d, [%%r6+%d];\n", i,
			   i % 2 * 256 + i / 2 * 16, i, 512 + i / 2 * 256 + i % 2 * 16);
	for (int m = 0; m < 2 && !plain; m++) {
		print_row(t, m ? !cb : !ca);
		buf_printf(t,
			   "ldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {%%r%d0, %%r%d1, %%r%d2, %%r%d3}, "
			   "[%%r40+%d];\n",
			   (m ? !cb : ca) ? ".trans" : "", m + 2, m + 2, m + 2, m + 2, m ? 512 : p->a_at);
	}
	buf_puts(t, "mov.f32 %f0, 0f3F800000;\nshr.u32 %r8, %r1, 2;\nshl.b32 %r8, %r8, 6;\n"
		    "and.b32 %r9, %r1, 3;\nshl.b32 %r9, %r9, 3;\nadd.s32 %r8, %r8, %r9;\n"
		    "cvt.u64.u32 %rd6, %r8;\nadd.s64 %rd7, %rd2, %rd6;\n");
	for (int h = 0; h < 2; h++) {
		buf_printf(t,
			   "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%%f10, %%f11, %%f12, %%f13}, "
			   "{%%r20, %%r21, %%r22, %%r23}, {%%r3%d, %%r3%d}, {%%f0, %%f0, %%f0, %%f0};\n",
			   2 * h, 2 * h + 1);
		for (int i = 0; i < 4; i++)
			buf_printf(t, "st.global.f32 [%%rd7+%d], %%f1%d;\n", 32 * h + i / 2 * 512 + i % 2 * 4,
				   i);
	}
}

static uint16_t in[2 * ELEMS];
static float out[ELEMS];

enum way { WMMA, MMA, PLAIN };

static int run_by(enum way way, const struct program *p, unsigned threads, uint64_t seed)
{
	struct buf text = {0};
	print_copies(&text, p);
	if (way == WMMA)
		print_wmma(&text, p);
	else
		print_mma(&text, p, way == PLAIN);
	buf_puts(&text, "done:\nret;");
	memset(out, 0xff, sizeof out);
	struct ptx_call c = {.before = ".shared .align 32 .b8 sh[1024];\n",
			     .body = buf_str(&text),
			     .block = {threads, 1},
			     .seed = seed,
			     .buffer = {{in, sizeof in, true}, {out, sizeof out, false}}};
	int rc = ptx_call_run(&c);
	buf_free(&text);
	return rc;
}

static int run(const struct program *p, unsigned threads, uint64_t seed)
{
	return run_by(WMMA, p, threads, seed);
}

static bool is_product(const struct program *p)
{
	bool ca = *p->a == 'c', cb = *p->b == 'c';
	for (int i = 0; i < SIZE; i++)
		for (int j = 0; j < SIZE; j++) {
			float sum = 1; /* small integers: exact in any order */
			for (int k = 0; k < SIZE; k++)
				sum += ptx_f16_to_f32(in[ca ? k * SIZE + i : i * SIZE + k]) *
				       ptx_f16_to_f32(in[ELEMS + (cb ? j * SIZE + k : k * SIZE + j)]);
			if (out[i * SIZE + j] != sum)
				return false;
		}
	return true;
}

static void fill(void)
{
	struct rng r;
	rng_seed(&r, 3);
	for (int i = 0; i < 2 * ELEMS; i++)
		in[i] = ptx_to_f16((double)rng_below(&r, 17) - 8, R_RN);
}

TEST(products_of_all_orders)
{
	static const char *const order[] = {"row", "col"};
	fill();
	for (int i = 0; i < 4; i++) {
		char mma[16];
		struct program p = right;
		p.a = order[i / 2];
		p.b = order[i % 2];
		snprintf(mma, sizeof mma, "%s.%s", p.a, p.b);
		p.mma = mma;
		CHECK_OK(run(&p, 32, (uint64_t)i));
		CHECK(is_product(&p));
		p.mma = i % 2 ? "row.row" : "row.col"; /* not the order of b's fragment */
		CHECK_OK(run(&p, 32, (uint64_t)i));
		CHECK(!is_product(&p));
	}
}

/* Random halves, whose sums are rounded: in both ways alike, as the interpreter adds them. */
TEST(mma_gives_what_wmma_does)
{
	static const char *const order[] = {"row", "col"}, *const mma[] = {"row.row", "row.col", "col.row",
									   "col.col"};
	static float want[ELEMS];
	struct rng r;
	rng_seed(&r, 5);
	for (int i = 0; i < 40; i++) {
		struct program p = right;
		p.a = order[i / 2 % 2];
		p.b = order[i % 2];
		p.mma = mma[i % 4];
		for (int k = 0; k < 2 * ELEMS; k++)
			in[k] = ptx_to_f16(((double)rng_below(&r, 20001) - 10000) / 4096, R_RN);
		CHECK_OK(run_by(WMMA, &p, 32, (uint64_t)i));
		memcpy(want, out, sizeof want);
		CHECK_OK(run_by(MMA, &p, 32, (uint64_t)i));
		CHECK(!memcmp(want, out, sizeof want));
		if (i % 4 != 1) /* only where k is contiguous, a register has two neighbours */
			continue;
		CHECK_OK(run_by(PLAIN, &p, 32, (uint64_t)i));
		CHECK(!memcmp(want, out, sizeof want));
	}
}

static void found_by(enum way way, struct program p, unsigned threads, const char *why)
{
	int rc = run_by(way, &p, threads, 1);
	CHECK(rc < 0 && strstr(err_text(), why));
	if (rc >= 0 || !strstr(err_text(), why))
		printf("%s: %s\n", why, rc < 0 ? err_text() : "no error");
}

static void found(struct program p, unsigned threads, const char *why)
{
	found_by(WMMA, p, threads, why);
}

TEST(mistakes_are_found)
{
	struct program p = right;
	fill();
	p.a_at = 8;
	found_by(MMA, p, 32, "is not aligned");
	p.a_at = 544;
	found_by(MMA, p, 32, "shared memory, which has");
	p = right;
	p.lanes = 20;
	found_by(MMA, p, 32, "all lanes");
	p = right;
	p.meets = false;
	found_by(MMA, p, 32, "race");
	found_by(PLAIN, p, 32, "race");
	p = right;
	p.a_at = 16;
	found(p, 32, "is not aligned");
	p = right;
	p.pitch = 20;
	found(p, 32, "is not aligned");
	p.pitch = 24; /* rows of 48 bytes */
	found(p, 32, "is not aligned");
	p = right;
	p.a_at = 544;
	p.pitch = 32;
	found(p, 32, "shared memory, which has");
	p = right;
	p.lanes = 20;
	found(p, 32, "all lanes");
	p = right;
	found(p, 16, "all lanes");
	p.meets = false;
	found(p, 32, "race");
}

TEST(instructions_are_checked)
{
	static const char *const bad[] = {
	    "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r0, %r1, %r2, %r3}, [%r4], %r5;",
	    "wmma.load.a.sync.aligned.row.m16n16k16.shared.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, "
	    "[%r4], %r5;",
	    "wmma.load.a.sync.aligned.m16n16k16.shared.s8 {%r0, %r1}, [%r4], %r5;",
	    "wmma.load.a.sync.aligned.row.m32n8k16.shared.s8 {%r0, %r1}, [%r4], %r5;",
	    "wmma.load.x.sync.aligned.row.m16n16k16.shared.s8 {%r0, %r1}, [%r4], %r5;",
	    "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, "
	    "{%r0, %r1}, {%r0, %r1}, {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7};",
	    "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {%r0, %r1, %r2, %r3}, {%r0}, {%r0}, {%r0};"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct ptx_call c = {.body = bad[i]};
		CHECK(ptx_call_run(&c) < 0 && strstr(err_text(), "wmma"));
	}
	static const char *const more[] = {
	    "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r0, %r1, %r2}, [%r4];",
	    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0}, [%r4];",
	    "ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r0}, [%rd4];",
	    "ldmatrix.sync.aligned.m8n8.x1.shared.b8 {%r0}, [%r4];",
	    "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, "
	    "{%r0, %r1}, {%f0, %f1, %f2, %f3};",
	    "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, "
	    "{%r0, %r1}, {%f0, %f1, %f2, %f3};",
	    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, "
	    "{%r0}, {%f0, %f1, %f2, %f3};",
	    "mma.sync.aligned.m16n8k8.row.col.s32.s8.s8.s32 {%r0, %r1, %r2, %r3}, {%r0, %r1}, {%r0}, "
	    "{%r0, %r1, %r2, %r3};",
	    "mma.sync.aligned.m8n8k16.row.col.s32.s8.f16.s32 {%r0, %r1}, {%r0}, {%r0}, {%r0, %r1};"};
	for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
		struct ptx_call c = {.body = more[i]};
		CHECK(ptx_call_run(&c) < 0 && strstr(err_text(), i < 4 ? "ldmatrix" : "mma"));
	}
}

TEST_MAIN
