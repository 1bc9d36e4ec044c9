/* SPDX-License-Identifier: Apache-2.0 */
/* Integers, halves and groups: the emitter opencl against the interpreter on an OpenCL device, bit for bit
 * (NaNs are one class), in random programs over buffers of every type. SEED=n runs one program, SEEDS=n
 * changes their number. */
#include "kernels/emit/emit.h"
#include "tests/lib/opencl_device.h"
#include "tests/lib/opencl_extensions.h"
#include "tests/lib/typed_program.h"

static struct arena objects;
static struct target target;         /* that programs are emitted for */
static const char *definitions = ""; /* of its extensions */

/* Makes zeros of f32 subnormals, which a device may keep. */
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
static bool agree(struct opencl_dev *dev, uint64_t seed, int *ran)
{
	struct blob o;
	int64_t extent = ix_eval(l.entry[0].extent, NULL, NULL, NULL), bytes[NBUFS];
	arena_reset(&objects);
	int rc = emit_find("opencl")->emit(&l, &target, &objects, &o);
	if (rc >= 0)
		o = with_definitions(&objects, &o, definitions);
	place(&want);
	place(&got);
	if (rc >= 0 && loops_run(&l, 0, want.bufs, NULL, 0, extent) < 0) {
		bool over = strstr(err_text(), "the result overflows s32") != NULL;
		if (!over)
			printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
		return over;
	}
	for (int b = 0; b < NBUFS; b++)
		bytes[b] = ELEMS * (int64_t)dtype_bytes(types[b % TYPES]);
	if (rc >= 0)
		rc = device_run(
		    dev, &o,
		    &(struct device_run){.l = &l, .buf = got.bufs, .bytes = bytes, .at_once = 1, .group = 1});
	if (rc < 0) {
		printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
		return false;
	}
	++*ran;
	flush_memory(&want);
	flush_memory(&got);
	return !differ("opencl", seed);
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

/* f16 of each exponent; f32 values around the places where f16 and bf16 round. */
TEST(halves_round_to_nearest)
{
	const char *why;
	int ran = 0;
	struct rng r;
	struct opencl_dev *dev = opencl_device(&why);
	if (!dev)
		SKIP(why);
	rng_seed(&r, 7);
	for (int part = 0; part < 8 && !test_bad; part++) {
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
		CHECK(agree(dev, (uint64_t)part, &ran) && ran == part + 1);
	}
}

static void many_random(uint64_t usual, const char *features)
{
	const char *why;
	int ran = 0;
	struct opencl_dev *dev = opencl_device(&why);
	uint64_t first, n = device_seeds(usual, &first);
	if (!dev)
		SKIP(why);
	target = (struct target){.isa = "opencl", .lanes = 16};
	strcpy(target.features, features);
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		struct typed_maker m = {0};
		rng_seed(&m.r, seed);
		fill_memory(&m.r);
		target.fma = seed % 4 != 0;
		random_program(&m, &target);
		REQUIRE_OK(loops_check(&l));
		CHECK(agree(dev, seed, &ran));
	}
	printf("%d of %d programs ran\n", ran, (int)n);
	CHECK(test_bad || 3 * ran >= 2 * (int)n - 3);
}

TEST(random_typed_programs_equal_the_interpreter)
{
	many_random(20, "");
}

/* Devices with dot products and arithmetic in f16. */
TEST(random_programs_with_extensions)
{
	char all[2][sizeof half_functions + sizeof khr_dots + sizeof arm_dot_acc];
	snprintf(all[0], sizeof all[0], "%s%s", half_functions, khr_dots);
	snprintf(all[1], sizeof all[1], "%s%s", half_functions, arm_dot_acc);
	definitions = all[0];
	many_random(16, "+cl_khr_fp16,+cl_khr_integer_dot_product");
	definitions = all[1];
	many_random(8, "+cl_khr_fp16,+cl_arm_integer_dot_product_accumulate_int8");
	definitions = "";
}

TEST_MAIN
