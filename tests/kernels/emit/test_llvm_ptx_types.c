/* SPDX-License-Identifier: Apache-2.0 */
/* Integers, halves and groups: PTX run on the host against the interpreter, bit for bit (NaNs are one class,
 * and so are zeros and subnormals of a sign), in random programs over buffers of every type. SEED=n runs one
 * program, SEEDS=n changes their number. */
#include "kernels/emit/emit.h"
#include "tests/lib/ptx_device.h"
#include "tests/lib/ptx_object.h"
#include "tests/lib/typed_program.h"

static struct arena objects;

/* Makes zeros of f32 subnormals, which comparisons pass on. */
static void flush_memory(struct memory *m)
{
	for (int b = 0; b < NBUFS; b += TYPES)
		for (size_t i = 0; i < sizeof m->bytes[b]; i += 4) {
			uint32_t u = 0;
			memcpy(&u, &m->bytes[b][i], 4);
			u &= u & 0x7f800000 ? UINT32_MAX : 0x80000000;
			memcpy(&m->bytes[b][i], &u, 4);
		}
}

/* True: they agree, or an s32 overflows. */
static bool agree(const struct target *tg, uint64_t seed, int *ran)
{
	struct blob o;
	int64_t extent = ix_eval(l.entry[0].extent, NULL, NULL, NULL), bytes[NBUFS];
	arena_reset(&objects);
	place(&want);
	place(&got);
	if (loops_run(&l, 0, want.bufs, NULL, 0, extent) < 0) {
		bool over = strstr(err_text(), "the result overflows s32") != NULL;
		if (!over)
			printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
		return over;
	}
	for (int b = 0; b < NBUFS; b++)
		bytes[b] = ELEMS * (int64_t)dtype_bytes(types[b % TYPES]);
	struct ptx_device_run run = {.l = &l, .buf = got.bufs, .bytes = bytes, .at_once = 1, .seed = seed};
	int rc = emit_find("ptx")->emit(&l, tg, &objects, &o);
	if (rc >= 0)
		rc = ptx_device_run(o.p, o.n, &run);
	const char *bad = rc < 0 ? err_text() : ptx_structure(&l, arena_strndup(&objects, o.p, o.n), tg);
	if (bad) {
		printf("%s seed %llu: %s\n", tg->cpu, (unsigned long long)seed, bad);
		return false;
	}
	++*ran;
	flush_memory(&want);
	flush_memory(&got);
	return !differ(tg->cpu, seed);
}

/* f16 to f32, f32 to f16 and to bf16, all lanes at once and one by one. */
static void conversions(int lanes)
{
	begin_program(true);
	loops_entry(&l, c(ELEMS / lanes));
	const struct ix *i = ix_mul(&l, ix_var(&l, l.entry[0].var), c(lanes));
	for (int k = 0; k < 3; k++) {
		int v = lv_new(&l, lanes), from = k ? 0 : 1, to = k + TYPES;
		lv_load(&l, v, (struct mem){.buf = from, .at = i, .stride = 1});
		lv_store(&l, v, (struct mem){.buf = to, .at = i, .stride = 1});
	}
	loops_entry_end(&l);
}

static struct target gpu(int which)
{
	static const char *const cpu[] = {"sm_72", "sm_75", "sm_80", "sm_87", "sm_90"};
	static const char *const first[] = {"+ptx61", "+ptx63", "+ptx70", "+ptx74", "+ptx78"};
	struct target t = {.isa = "cuda", .lanes = 4, .regs = 60, .fma = true, .group = 1024};
	strcpy(t.cpu, cpu[which % 5]);
	strcpy(t.features, which / 5 % 2 ? first[which % 5] : which % 5 < 4 ? "+ptx74" : "+ptx83");
	return t;
}

/* f16 of each exponent; f32 values around the places where f16 and bf16 round. */
TEST(halves_round_to_nearest)
{
	int ran = 0;
	struct rng r;
	rng_seed(&r, 7);
	for (int part = 0; part < 8 && !test_bad; part++) {
		struct target tg = gpu(part);
		fill_memory(&r);
		for (int i = 0; i < ELEMS; i++) {
			uint16_t h = (uint16_t)(i << 7 | (int)rng_below(&r, 128));
			uint32_t f = (uint32_t)h << 16 | (uint32_t[]){0, 1, 0x7fff, 0x8000, 0x8001}[i % 5];
			float near = f16_to_f32(h) * (1 + (float)(i % 3 - 1) * 0x1p-12f);
			memcpy(start.bytes[1] + 2 * (MARGIN + i), &h, 2);
			memcpy(start.bytes[0] + 4 * (MARGIN + i), &f, 4);
			if (part % 2)
				memcpy(start.bytes[0] + 4 * (MARGIN + i), &near, 4);
		}
		conversions(part % 4 < 2 ? 4 : 1);
		REQUIRE_OK(loops_check(&l));
		CHECK(agree(&tg, (uint64_t)part, &ran) && ran == part + 1);
	}
}

TEST(random_typed_programs_equal_the_interpreter)
{
	int ran = 0;
	const char *one = getenv("SEED"), *many = getenv("SEEDS");
	uint64_t first = one ? strtoull(one, NULL, 10) : 1, n = one    ? 1
								: many ? strtoull(many, NULL, 10)
								       : 40;
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		struct typed_maker m = {0};
		struct target tg = gpu((int)(seed % 5));
		rng_seed(&m.r, seed);
		fill_memory(&m.r);
		tg.fma = seed % 4 != 0;
		random_program(&m, &tg);
		REQUIRE_OK(loops_check(&l));
		CHECK(agree(&tg, seed, &ran));
	}
	printf("%d of %d programs ran\n", ran, (int)n);
	CHECK(test_bad || 3 * ran >= 2 * (int)n - 3);
}

TEST_MAIN
