/* SPDX-License-Identifier: Apache-2.0 */
/* Integers, halves and groups: emitted code against the interpreter, bit for bit (NaNs are one class), in
 * random programs over buffers of every type, for the host and every baseline that it can run. */
#include "kernels/emit/emit.h"
#include "platform/machine/target.h"
#include "platform/run/dev.h"
#include "platform/run/pool.h"
#include "tests/lib/host_targets.h"
#include "tests/lib/test.h"
#include "tests/lib/typed_program.h"
#include <elf.h>
#include <llvm-c/Disassembler.h>
#include <math.h>

static struct arena objects;

static int emit_on(const struct target *t, struct blob *o)
{
	arena_reset(&objects);
	return emit_find("llvm")->emit(&l, t, &objects, o);
}

/* Interprets the program and runs its code; code that spills is whole too, only slow. True: they agree, or an
 * s32 overflows. */
static bool agree(const struct target *t, uint64_t seed, int *ran)
{
	struct blob o;
	struct dev_code *code;
	int64_t extent = ix_eval(l.entry[0].extent, NULL, NULL, NULL);
	int rc = emit_on(t, &o);
	if (rc < 0 && rc != E_SPILL) {
		printf("seed %llu, %s: %s\n", (unsigned long long)seed, t->isa, err_text());
		return false;
	}
	place(&want);
	place(&got);
	if (loops_run(&l, 0, want.bufs, NULL, 0, extent) < 0) {
		bool over = strstr(err_text(), "the result overflows s32") != NULL;
		if (!over)
			printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
		return over;
	}
	const struct dev *dev = dev_find("cpu");
	CHECK_OK(dev->load(o.p, o.n, &code));
	unsigned old = fpu_flush();
	dev->run(code, dev->entry(code, "k0"), got.bufs, NULL, 0, extent);
	fpu_restore(old);
	dev->unload(code);
	++*ran;
	return !differ(t->isa, seed);
}

static void random_programs(uint64_t first, uint64_t last)
{
	int ran = 0;
	find_targets(true);
	int made = 0;
	for (uint64_t seed = first; seed <= last && !test_bad; seed += (uint64_t)test_share()) {
		struct typed_maker m = {0};
		const struct target *t = &targets[seed % (uint64_t)ntargets];
		rng_seed(&m.r, seed);
		fill_memory(&m.r);
		random_program(&m, t);
		made++;
		int rc = loops_check(&l);
		if (rc < 0)
			printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
		if (rc >= 0 && agree(t, seed, &ran))
			continue;
		struct buf b = {0};
		loops_print(&l, &b);
		if (getenv("HONE_PRINT"))
			puts(buf_str(&b));
		buf_free(&b);
		test_bad = 1;
	}
	printf("%d of %d programs ran\n", ran, made);
	CHECK(3 * ran >= 2 * (made - 1));
}

TEST(random_typed_programs_equal_the_interpreter)
{
	const char *seed = getenv("HONE_SEED");
	if (seed)
		random_programs(strtoull(seed, NULL, 10), strtoull(seed, NULL, 10));
	else
		random_programs(1, 1000);
}

/* A program that copies 256 elements of buffer `from` to buffer `to` through vectors of a type. */
static void copy_program(enum lv_type t, int from, int to, int lanes)
{
	begin_program(true);
	int v = t ? lv_new_s32(&l, lanes) : lv_new(&l, lanes);
	loops_entry(&l, c(ELEMS / lanes));
	const struct ix *i = ix_mul(&l, ix_var(&l, l.entry[0].var), c(lanes));
	lv_load(&l, v, (struct mem){.buf = from, .at = i, .stride = 1});
	lv_store(&l, v, (struct mem){.buf = to + TYPES, .at = i, .stride = 1});
	loops_entry_end(&l);
	REQUIRE_OK(loops_check(&l));
}

/* A NaN is a fill that every buffer of floats can hold. A value without a guard is not looked at. */
TEST(fills_of_nan)
{
	find_targets(true);
	memset(&start, 0, sizeof start);
	for (int k = 0; k < ntargets; k++)
		for (int b = 0; b < 3; b++) {
			int ran = 0;
			begin_program(targets[k].fma);
			int v = lv_new(&l, 4), w = lv_new_s32(&l, 4);
			loops_entry(&l, c(2));
			const struct ix *x = ix_var(&l, l.entry[0].var), *at = ix_mul(&l, x, c(4));
			lv_load(&l, v,
				(struct mem){.buf = b, .at = at, .stride = 1, .guard = x, .fill = NAN});
			lv_load(&l, w, (struct mem){.buf = 3, .at = at, .stride = 1, .fill = 1e30f});
			lv_store(&l, v, (struct mem){.buf = b + TYPES, .at = at, .stride = 1});
			lv_store(&l, w, (struct mem){.buf = 3 + TYPES, .at = at, .stride = 1});
			loops_entry_end(&l);
			REQUIRE_OK(loops_check(&l));
			CHECK(agree(&targets[k], 0, &ran) && ran);
			CHECK(is_nan(types[b], (char *)want.bufs[b + TYPES]));
		}
}

/* Every f16, then f32 values around the places where f16 and bf16 round, on every target. */
TEST(halves_in_every_form)
{
	find_targets(true);
	struct rng r;
	rng_seed(&r, 7);
	for (int k = 0; k < ntargets && !test_bad; k++)
		for (int part = 0; part < 65536 / ELEMS && !test_bad; part += test_share()) {
			int ran = 0;
			fill_memory(&r);
			for (int i = 0; i < ELEMS; i++) {
				uint16_t h = (uint16_t)(part * ELEMS + i);
				uint32_t f =
				    (uint32_t)h << 16 | (uint32_t[]){0, 1, 0x7fff, 0x8000, 0x8001}[i % 5];
				float near = f16_to_f32(h) * (1 + (float)(i % 3 - 1) * 0x1p-12f);
				memcpy(start.bytes[1] + 2 * (MARGIN + i), &h, 2);
				memcpy(start.bytes[0] + 4 * (MARGIN + i), &f, 4);
				if (part % 2)
					memcpy(start.bytes[0] + 4 * (MARGIN + i), &near, 4);
			}
			copy_program(LV_F32, 1, 0, 8);
			CHECK(agree(&targets[k], (uint64_t)part, &ran));
			copy_program(LV_F32, 0, 1, 4 << part % 3);
			CHECK(agree(&targets[k], (uint64_t)part, &ran));
			copy_program(LV_F32, 0, 2, 4 << part % 3);
			CHECK(agree(&targets[k], (uint64_t)part, &ran) && ran == 3);
		}
}

/* Sums of 4 x 64 products of the largest bytes: no form may saturate. */
TEST(dot_products_of_extremes)
{
	static const uint32_t a[] = {0xffffffff, 0x80808080, 0x7f7f7f7f, 0xff00ff00, 0x807f80ff};
	static const uint32_t b[] = {0x80808080, 0x7f7f7f7f, 0x81818181, 0x807f807f, 0x40c040c0};
	static const uint32_t narrow[] = {0x40404040, 0xc0c0c0c0, 0x40c040c0, 0x3fc0c03f, 0xc03f40c0};
	const int step = test_share() + (test_share() % 5 == 0); /* no multiple of 5 */
	find_targets(true);
	memset(&start, 0, sizeof start);
	for (int k = 0; k < ntargets; k++)
		for (int i = 0; i < 25 * 4 * 5; i += step) {
			int lanes = 1 << i / 100, which = i / 25 % 4, ran = 0;
			const struct ix *x;
			begin_program(targets[k].fma);
			int u = lv_new_s32(&l, lanes), v = lv_new_s32(&l, lanes), sum = lv_new_s32(&l, lanes);
			loops_entry(&l, c(1));
			lv_const_s32(&l, u, (int32_t)a[i % 5]);
			lv_const_s32(&l, v, (int32_t)(which == 3 ? narrow : b)[i / 5 % 5]);
			lv_const_s32(&l, sum, 0);
			struct stmt *f = for_begin(&l, c(0), c(64), 1, true, &x);
			if (which == 3)
				lv_dot4(&l, sum, V_DOT4U, u, v, sum, true);
			else
				lv_set(&l, sum,
				       which == 0   ? V_DOT4U
				       : which == 1 ? V_DOT4S
						    : V_DOT2,
				       u, v, sum, -1);
			for_end(&l, f);
			lv_store(&l, sum, (struct mem){.buf = 2 * TYPES - 1, .at = c(0), .stride = 1});
			loops_entry_end(&l);
			REQUIRE_OK(loops_check(&l));
			CHECK(agree(&targets[k], (uint64_t)i, &ran) && (ran || which == 2));
		}
}

/* BDOT2 of the halves of a buffer. */
static void bdot_program(int lanes)
{
	begin_program(true);
	int a = lv_new_s32(&l, lanes), b = lv_new_s32(&l, lanes), v = lv_new(&l, lanes);
	loops_entry(&l, c(128 / lanes));
	const struct ix *i = ix_mul(&l, ix_var(&l, l.entry[0].var), c(lanes));
	const struct ix *i2 = ix_mul(&l, i, c(2));
	lv_load(&l, a, (struct mem){.buf = 2, .at = i2, .stride = 2, .group = 2});
	lv_load(&l, b, (struct mem){.buf = 2, .at = ix_add(&l, i2, c(256)), .stride = 2, .group = 2});
	lv_load(&l, v, (struct mem){.buf = 0, .at = i, .stride = 1});
	lv_set(&l, v, V_BDOT2, a, b, v, -1);
	lv_store(&l, v, (struct mem){.buf = TYPES, .at = i, .stride = 1});
	loops_entry_end(&l);
	REQUIRE_OK(loops_check(&l));
}

/* The second product of a pair is added first: with sums that round, the order shows. */
TEST(bf16_products_in_order)
{
	struct rng r;
	find_targets(true);
	rng_seed(&r, 11);
	fill_memory(&r);
	for (int k = 0; k < ntargets; k++)
		for (int lanes = 1; lanes <= 16 && targets[k].fma; lanes *= 2) {
			int ran = 0;
			bdot_program(lanes);
			CHECK(agree(&targets[k], (uint64_t)lanes, &ran) && ran);
		}
}

/* BDOT2 flushes as a fused multiply-add does: products near 2^-126 added to 0 and numbers around 2^-126, subnormal
 * operands, infinity times 0. */
TEST(bf16_products_at_the_edges)
{
	static const uint32_t sums[] = {0,          0x80000000, 0x00800000, 0x80800000,
					0x00800001, 0x80800001, 0x007fffff, 0x807fffff,
					0x01000000, 0x00000001, 0x7f800000, 0x3f800000};
	/* An ISA may detect tininess before rounding, and flush sums just below 2^-126 that x86 keeps. */
	static const uint32_t others[] = {0, 0x80000000, 0x007fffff, 0x00000001, 0x7f800000, 0x3f800000};
	static const uint16_t odd[] = {0, 0x8000, 1, 0x807f, 0x7f, 0x80, 0x8080, 0x7f80, 0xff80, 0x7fc0};
	struct rng r;
	find_targets(true);
	const bool x86 = strncmp(targets[0].isa, "x86", 3) == 0;
	rng_seed(&r, 13);
	memset(&start, 0, sizeof start);
	for (int part = 0; part < 40; part++) {
		uint16_t h[ELEMS];
		for (int i = 0; i < 256; i++) { /* exponents of a and b whose sum is near -126 or near -151 */
			uint32_t e = 20 + rng_below(&r, 80);
			uint32_t sum = 127 - (i % 4 < 2 ? 0 : 25) + rng_below(&r, 5) - 2;
			h[i] = (uint16_t)(rng_below(&r, 2) << 15 | e << 7 | rng_below(&r, 128));
			h[i + 256] = (uint16_t)(rng_below(&r, 2) << 15 | (sum > e ? sum - e : 0) << 7 |
						rng_below(&r, 128));
			if (rng_below(&r, 8) == 0)
				h[i] = odd[rng_below(&r, 10)];
			if (rng_below(&r, 8) == 0)
				h[i + 256] = odd[rng_below(&r, 10)];
		}
		memcpy(start.bytes[2] + 2 * MARGIN, h, sizeof h);
		for (int i = 0; i < 128; i++)
			memcpy(start.bytes[0] + 4 * (MARGIN + i),
			       x86 ? &sums[rng_below(&r, 12)] : &others[rng_below(&r, 6)], 4);
		for (int k = 0; k < ntargets; k++) {
			int ran = 0;
			if (!targets[k].fma)
				continue;
			bdot_program(4 << part % 3);
			CHECK(agree(&targets[k], (uint64_t)part, &ran) && ran);
		}
		if (test_bad)
			return;
	}
}

/* n sums of products in a loop: with more than the registers some are kept on the stack, by movdqa, vmovdqu
 * and the like, since a dot product takes no sum from memory. */
static void s32_tile(const struct target *t, int n)
{
	const struct ix *k;
	begin_program(t->fma);
	int x = lv_new_s32(&l, t->lanes), first = l.nvars;
	for (int i = 0; i < n; i++)
		lv_new_s32(&l, t->lanes);
	loops_entry(&l, c(1));
	for (int i = 0; i < n; i++)
		lv_const_s32(&l, first + i, 0);
	struct stmt *f = for_begin(&l, c(0), c(8), 1, true, &k);
	for (int i = 0; i < n; i++) {
		lv_load(&l, x, (struct mem){.buf = 6, .at = ix_add(&l, ix_mul(&l, k, c(40)), c(i))});
		lv_dot4(&l, first + i, V_DOT4U, x, x, first + i, false);
	}
	for_end(&l, f);
	for (int i = 0; i < n; i++)
		lv_store(&l, first + i,
			 (struct mem){.buf = 2 * TYPES - 1, .at = c(i * 8), .stride = 1, .valid = c(8)});
	loops_entry_end(&l);
	REQUIRE_OK(loops_check(&l));
}

TEST(spills_of_integers_are_infeasible)
{
	struct blob o;
	find_targets(true);
	bool x86 = strncmp(targets[0].isa, "x86", 3) == 0;
	for (int k = 0; k < ntargets; k++) { /* Arm without dot products takes ten registers in their place */
		s32_tile(&targets[k], targets[k].regs / (x86 ? 2 : 4));
		CHECK_OK(emit_on(&targets[k], &o));
		s32_tile(&targets[k], targets[k].regs + 4);
		CHECK_FAILS(emit_on(&targets[k], &o), E_SPILL, "spill:");
	}
	/* 16 conversions to f16 in 16 registers of 4 lanes: only movdqa moves vectors to the stack. */
	struct target v2;
	if (!x86)
		return; /* LLVM for Arm has no disassembler for x86 */
	CHECK_OK(target_baseline("x86-64-v2", &v2));
	copy_program(LV_F32, 0, 1, 16);
	CHECK_FAILS(emit_on(&v2, &o), E_SPILL, "spill:");
}

/* Targets of other machines, and of the host's kind with some features. */
static const struct variant {
	const char *isa, *extras;
	/* instructions that DOT4U, DOT4S and narrow DOT4U must have; NULL: any */
	const char *u, *s, *narrow;
} variants[] = {
    {"x86-64-v2", "", "pmaddwd", "pmaddwd", "pmaddubsw"},
    {"x86-64-v3", "", "vpmaddwd", "vpmaddwd", "vpmaddubsw"},
    {"x86-64-v3", ",+avxvnni", "vpdpbusd", "vpmaddwd", "vpdpbusd"},
    {"x86-64-v4", "", "vpmaddwd", "vpmaddwd", "vpmaddubsw"},
    {"x86-64-v4", ",+avx512vnni", "vpdpbusd", "vpmaddwd", "vpdpbusd"},
    {"x86-64-v4", ",+avx512bf16", "vpmaddwd", "vpmaddwd", "vpmaddubsw"},
    {"x86-64-v4", ",+avx512vnni,+avx512bf16", "vpdpbusd", "vpmaddwd", "vpdpbusd"},
    {"armv8-a", "", "saddlp", "smull2", "saddlp"},
    {"armv8-a", ",+dotprod", "sdot", "sdot", "sdot"},
    {"armv8-a", ",+fullfp16,+dotprod,+i8mm", "usdot", "sdot", "usdot"},
    {"armv8-a", ",+fullfp16", "saddlp", "smull2", "saddlp"},
    {"armv7-neon", "", "vpaddl.s16", "vmull.s8", "vpaddl.s16"},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static void variant_target(const struct variant *v, struct target *t)
{
	CHECK_OK(target_baseline(v->isa, t));
	strcat(t->features, v->extras);
	CHECK_OK(target_check(t));
}

/* Other machines get whole objects: no instruction that they lack, and no call. */
TEST(other_targets)
{
	for (int i = 0; i < VARIANTS; i++)
		for (uint64_t seed = 1; seed <= 10; seed += (uint64_t)test_share()) {
			struct target t;
			struct blob o;
			struct typed_maker m = {0};
			variant_target(&variants[i], &t);
			rng_seed(&m.r, seed);
			random_program(&m, &t);
			int rc = emit_on(&t, &o);
			if (rc < 0 && rc != E_SPILL) {
				printf("%s%s, seed %d: %s\n", variants[i].isa, variants[i].extras, (int)seed,
				       err_text());
				test_bad = 1;
			}
		}
}

static bool bytes_are_code(const Elf64_Ehdr *h, const char *p, unsigned i, const uint8_t **at, uint64_t *n)
{
	if (h->e_ident[EI_CLASS] == ELFCLASS64) {
		const Elf64_Shdr *s = (const void *)(p + h->e_shoff);
		*at = (const uint8_t *)p + s[i].sh_offset;
		*n = s[i].sh_size;
		return s[i].sh_flags & SHF_EXECINSTR;
	}
	const Elf32_Shdr *s = (const void *)(p + ((const Elf32_Ehdr *)(const void *)p)->e_shoff);
	*at = (const uint8_t *)p + s[i].sh_offset;
	*n = s[i].sh_size;
	return s[i].sh_flags & SHF_EXECINSTR;
}

/* Whether the object has this instruction. */
static bool has_instruction(const struct target *t, const struct blob *o, const char *word)
{
	const char *triple = strncmp(t->isa, "x86", 3) == 0   ? "x86_64-unknown-linux-gnu"
			     : strcmp(t->isa, "armv8-a") == 0 ? "aarch64-unknown-linux-gnu"
							      : "armv7-unknown-linux-gnueabihf";
	LLVMDisasmContextRef d =
	    LLVMCreateDisasmCPUFeatures(triple, t->cpu, t->features, NULL, 0, NULL, NULL);
	const Elf64_Ehdr *h = o->p;
	unsigned sections =
	    h->e_ident[EI_CLASS] == ELFCLASS64 ? h->e_shnum : ((const Elf32_Ehdr *)o->p)->e_shnum;
	bool found = false;
	for (unsigned i = 0; i < sections; i++) {
		const uint8_t *p;
		uint64_t n;
		if (!bytes_are_code(h, o->p, i, &p, &n))
			continue;
		for (uint64_t at = 0, step; at < n; at += step) {
			char text[256] = "";
			step = LLVMDisasmInstruction(d, (uint8_t *)p + at, n - at, at, text, sizeof text);
			const char *w = strstr(text, word); /* after a tab, or "{vex}" */
			found |= w && (w == text || w[-1] == '\t' || w[-1] == ' ');
			if (!step)
				break;
		}
	}
	LLVMDisasmDispose(d);
	return found;
}

static void dot_program(const struct target *t, enum vop op, bool narrow, int lanes)
{
	begin_program(t->fma);
	int v[3];
	for (int i = 0; i < 3; i++)
		v[i] = lv_new_s32(&l, lanes);
	loops_entry(&l, c(1));
	lv_load(&l, v[0], (struct mem){.buf = 3, .at = c(0), .stride = 4, .group = 4});
	lv_load(&l, v[1], (struct mem){.buf = 4, .at = c(0), .stride = 4, .group = 4});
	lv_load(&l, v[2], (struct mem){.buf = 6, .at = c(0), .stride = 1});
	lv_dot4(&l, v[2], op, v[0], v[1], v[2], narrow);
	lv_store(&l, v[2], (struct mem){.buf = 2 * TYPES - 1, .at = c(0), .stride = 1});
	loops_entry_end(&l);
	REQUIRE_OK(loops_check(&l));
}

TEST(dot_products_use_the_best_instruction)
{
	for (int i = 0; i < VARIANTS; i++)
		for (int form = 0; form < 3; form++)
			for (int lanes = 4; lanes <= 16; lanes *= 2) {
				const struct variant *v = &variants[i];
				const char *word = form == 0 ? v->u : form == 1 ? v->s : v->narrow;
				struct target t;
				struct blob o;
				variant_target(v, &t);
				dot_program(&t, form == 1 ? V_DOT4S : V_DOT4U, form == 2, lanes);
				REQUIRE_OK(emit_on(&t, &o));
				if (!has_instruction(&t, &o, word)) {
					printf("%s%s, form %d, %d lanes: no %s\n", v->isa, v->extras, form,
					       lanes, word);
					test_bad = 1;
				}
			}
}

static void block_program(bool is_signed, int lanes)
{
	begin_program(true);
	l.blocks = true;
	int a = lv_new_s32(&l, lanes), b = lv_new_s32(&l, lanes), v = lv_new_s32(&l, lanes);
	loops_entry(&l, c(1));
	lv_load(&l, a, (struct mem){.buf = 3 + !is_signed, .at = c(0), .stride = 4, .group = 4});
	lv_load(&l, b, (struct mem){.buf = 3, .at = c(64), .stride = 4, .group = 4});
	lv_load(&l, v, (struct mem){.buf = 6, .at = c(0), .stride = 1});
	lv_set(&l, v, is_signed ? V_MMLAS : V_MMLAU, a, b, v, -1);
	lv_store(&l, v, (struct mem){.buf = 2 * TYPES - 1, .at = c(0), .stride = 1});
	loops_entry_end(&l);
	REQUIRE_OK(loops_check(&l));
}

static void fma2_program(int lanes)
{
	begin_program(true);
	l.f16 = true;
	int a = lv_new_s32(&l, lanes), b = lv_new_s32(&l, lanes), v = lv_new(&l, lanes);
	loops_entry(&l, c(1));
	lv_load(&l, a, (struct mem){.buf = 1, .at = c(0), .stride = 2, .group = 2});
	lv_load(&l, b, (struct mem){.buf = 1, .at = c(64), .stride = 0, .group = 2});
	lv_load(&l, v, (struct mem){.buf = 0, .at = c(0), .stride = 1});
	lv_set(&l, a, V_FMA2, a, b, a, -1);
	lv_set(&l, v, V_SUM2, a, v, -1, -1);
	lv_store(&l, v, (struct mem){.buf = TYPES, .at = c(0), .stride = 1});
	loops_entry_end(&l);
	REQUIRE_OK(loops_check(&l));
}

/* One instruction multiplies eight f16 and adds them; processors without it, for which LLVM would round
 * twice, are refused. */
TEST(f16_sums_only_where_an_instruction_makes_them)
{
	struct target t;
	struct blob o;
	for (int i = 0; i < VARIANTS; i++)
		for (int lanes = 1; lanes <= 16; lanes *= 2) {
			variant_target(&variants[i], &t);
			fma2_program(lanes);
			if (!strstr(variants[i].extras, "+fullfp16")) {
				CHECK(!target_sums_f16(&t));
				CHECK_FAILS(emit_on(&t, &o), E_UNSUPPORTED, "no arithmetic in f16");
				continue;
			}
			REQUIRE_OK(emit_on(&t, &o));
			CHECK(has_instruction(&t, &o, "fmla") && !has_instruction(&t, &o, "fcvtn"));
			CHECK(has_instruction(&t, &o, "faddp") && has_instruction(&t, &o, "fcvtl"));
			CHECK(!has_instruction(&t, &o, "ld1r"));
			CHECK(lanes < 4 || has_instruction(&t, &o, "dup"));
		}
	REQUIRE_OK(target_baseline("armv7-neon", &t));
	strcat(t.features, ",+fullfp16");
	CHECK(!target_sums_f16(&t));
}

/* One instruction multiplies matrices of bytes; processors without it are refused. */
TEST(blocks_only_where_an_instruction_makes_them)
{
	struct target t;
	struct blob o;
	int made = 0;
	for (int i = 0; i < VARIANTS; i++)
		for (int lanes = 4; lanes <= 16; lanes *= 2)
			for (int is_signed = 0; is_signed < 2; is_signed++) {
				variant_target(&variants[i], &t);
				block_program(is_signed, lanes);
				if (!strstr(variants[i].extras, "+i8mm")) {
					CHECK(!target_multiplies_blocks(&t));
					CHECK_FAILS(emit_on(&t, &o), E_UNSUPPORTED, "no products of matrices");
					continue;
				}
				REQUIRE_OK(emit_on(&t, &o));
				CHECK(has_instruction(&t, &o, is_signed ? "smmla" : "usmmla"));
				made++;
			}
	CHECK(made == 6);
	REQUIRE_OK(target_baseline("armv7-neon", &t));
	strcat(t.features, ",+i8mm");
	CHECK(!target_multiplies_blocks(&t));
}

/* Whatever a target from outside says, LLVM must not end the process. */
TEST(odd_targets_are_refused)
{
	static const char *const isas[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a", "armv7-neon"};
	static const char *const cpus[] = {"", "generic", "i386", "znver4", "cortex-a53", "haswell", "pdp11"};
	static const char *const change[] = {"",
					     ",-avx2",
					     ",+avx512vnni",
					     ",+avxvnni,+avx512bf16,+avx512vl",
					     ",+dotprod",
					     ",+i8mm,+sve2",
					     ",-neon",
					     ",-avx512bw",
					     ",+soft-float",
					     ",-sse4.2,-avx512f,+avx512vnni"};
	static const int lanes[] = {1, 2, 4, 8, 16, 32, 64, 12};
	int good = 0, refused = 0;
	for (int i = 0; i < 5 * 7 * 10 * 8 * 2; i++) {
		struct target t;
		struct blob o;
		REQUIRE_OK(target_baseline(isas[i % 5], &t));
		snprintf(t.cpu, sizeof t.cpu, "%s", cpus[i / 5 % 7]);
		if (i / 35 % 2)
			t.features[0] = 0;
		strcat(t.features, change[i / 70 % 10] + (t.features[0] == 0 && change[i / 70 % 10][0]));
		t.lanes = lanes[i / 700];
		int n = t.lanes > 16 ? 16 : t.lanes & (t.lanes - 1) ? 4 : t.lanes;
		dot_program(&t, i % 2 ? V_DOT4U : V_DOT4S, false, n);
		int rc = emit_on(&t, &o);
		CHECK(rc >= 0 || rc == E_UNSUPPORTED);
		good += rc >= 0;
		refused += rc == E_UNSUPPORTED;
	}
	CHECK(good > 20 && refused > 1000);
}

/* One statement that the checker or the interpreter refuses. */
#define REFUSED(text, statement)                                                                             \
	do {                                                                                                 \
		begin_program(false);                                                                        \
		int f = lv_new(&l, 4), s = lv_new_s32(&l, 4);                                                \
		loops_entry(&l, c(1));                                                                       \
		lv_const(&l, f, 3e9f);                                                                       \
		lv_const_s32(&l, s, 0x7fff7f7f);                                                             \
		statement;                                                                                   \
		loops_entry_end(&l);                                                                         \
		int rc = loops_check(&l);                                                                    \
		place(&want);                                                                                \
		if (rc >= 0)                                                                                 \
			rc = loops_run(&l, 0, want.bufs, NULL, 0, 1);                                        \
		CHECK_FAILS(rc, E_CORRUPT, text);                                                            \
	} while (0)

TEST(wrong_types_and_overflows_are_refused)
{
	REFUSED("add needs v", lv_set(&l, f, V_ADD, f, s, -1, -1));
	REFUSED("sqrt needs v", lv_set(&l, s, V_SQRT, s, -1, -1, -1));
	REFUSED("dot4u needs v", lv_dot4(&l, s, V_DOT4U, s, f, s, false));
	REFUSED("cvt needs v", lv_set(&l, f, V_CVT, f, -1, -1, -1));
	REFUSED("bdot2 needs a fused", lv_set(&l, f, V_BDOT2, s, s, f, -1));
	REFUSED("fma2 needs arithmetic in f16", lv_set(&l, s, V_FMA2, s, s, s, -1));
	REFUSED("sum2 needs arithmetic in f16", lv_set(&l, f, V_SUM2, s, f, -1, -1));
	REFUSED("mmlau needs products of matrices", lv_set(&l, s, V_MMLAU, s, s, s, -1));
	REFUSED("mmlas needs v", {
		l.blocks = true;
		lv_set(&l, s, V_MMLAS, s, f, s, -1);
	});
	REFUSED("mmlas of 2 lanes: no block", {
		int two = lv_new_s32(&l, 2);
		l.blocks = true;
		lv_const_s32(&l, two, 1);
		lv_set(&l, two, V_MMLAS, two, two, two, -1);
	});
	REFUSED("mmlas: the result overflows s32", {
		l.blocks = true;
		lv_set(&l, s, V_MMLAS, s, s, s, -1);
	});
	REFUSED("fma2 needs v", lv_set(&l, s, V_FMA2, s, s, f, -1));
	REFUSED("is f32: no load in groups of 1 from i_i8, which holds i8",
		lv_load(&l, f, (struct mem){.buf = 3, .at = c(0), .stride = 1}));
	REFUSED("no load in groups of 1 from i_f32",
		lv_load(&l, s, (struct mem){.buf = 0, .at = c(0), .stride = 1}));
	REFUSED("is s32: no load in groups of 4 from i_i16, which holds i16",
		lv_load(&l, s, (struct mem){.buf = 5, .at = c(0), .stride = 4, .group = 4}));
	REFUSED("no load in groups of 3",
		lv_load(&l, s, (struct mem){.buf = 4, .at = c(0), .stride = 3, .group = 3}));
	REFUSED("no store in groups of 2 to o_u8",
		lv_store(&l, s, (struct mem){.buf = 4 + TYPES, .at = c(0), .stride = 2, .group = 2}));
	REFUSED("buffer i_f32 is of f64", {
		l.buf[0].dtype = DT_F64;
		lv_set(&l, f, V_ADD, f, f, -1, -1);
	});
	REFUSED("is no table", {
		loops_table_range(&l, 2 * TYPES - 1, 0, 9);
		lv_load(&l, s, (struct mem){.buf = 6, .at = ix_table(&l, 2 * TYPES - 1, c(0)), .stride = 1});
	});
	REFUSED("dot4u: imm is 3, must be 0 or 7", {
		lv_dot4(&l, s, V_DOT4U, s, s, s, false);
		l.entry[0].body->next->next->imm = 3;
	});
	REFUSED("cannot hold the fill 256",
		lv_load(&l, s, (struct mem){.buf = 4, .at = c(0), .stride = 1, .guard = c(1), .fill = 256}));
	REFUSED("cannot hold the fill 0.5",
		lv_load(&l, s, (struct mem){.buf = 6, .at = c(0), .stride = 1, .guard = c(1), .fill = 0.5f}));
	REFUSED("cannot hold the fill nan",
		lv_load(&l, s, (struct mem){.buf = 6, .at = c(0), .stride = 1, .guard = c(1), .fill = NAN}));
	REFUSED(
	    "cannot hold the fill 1.00098",
	    lv_load(&l, f,
		    (struct mem){.buf = 2, .at = c(0), .stride = 1, .guard = c(1), .fill = 1 + 0x1p-10f}));
	REFUSED(
	    "cannot hold the fill 1",
	    lv_load(&l, s,
		    (struct mem){.buf = 2, .at = c(0), .stride = 2, .group = 2, .guard = c(1), .fill = 1}));
	REFUSED(
	    "cannot hold the fill 1",
	    lv_load(&l, s,
		    (struct mem){.buf = 1, .at = c(0), .stride = 2, .group = 2, .guard = c(1), .fill = 1}));
	REFUSED("are outside its 512",
		lv_load(&l, s, (struct mem){.buf = 4, .at = c(ELEMS - 15), .stride = 4, .group = 4}));
	REFUSED("add: the result overflows s32", lv_set(&l, s, V_ADD, s, s, -1, -1));
	REFUSED("cvt: the operand is outside of [-2^31", lv_set(&l, s, V_CVT, f, -1, -1, -1));
	REFUSED("dot4u: the result overflows s32", lv_dot4(&l, s, V_DOT4U, s, s, s, false));
	REFUSED("dot4u: a byte of b is outside of [-64, 64], although it is marked narrow", {
		lv_const_s32(&l, s, 65);
		lv_dot4(&l, s, V_DOT4U, s, s, s, true);
	});
}

TEST_MAIN
