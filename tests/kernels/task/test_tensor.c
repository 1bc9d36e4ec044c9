/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/buf.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"
#include "kernels/task/tensor.h"
#include "platform/base/file.h"
#include "platform/base/rng.h"
#include <math.h>
#include <unistd.h>

TEST(shapes)
{
	struct shape s, t, u;
	char text[160];
	REQUIRE_OK(shape_parse("1x3x224x224", &s));
	CHECK(s.rank == 4 && shape_count(&s) == 150528);
	shape_text(&s, text);
	CHECK(!strcmp(text, "1x3x224x224"));
	REQUIRE_OK(shape_parse("scalar", &t));
	CHECK(t.rank == 0 && shape_count(&t) == 1);
	CHECK_FAILS(shape_parse("1x", &t), E_USAGE, "not of the form");
	CHECK_FAILS(shape_parse("", &t), E_USAGE, "not of the form");
	CHECK_FAILS(shape_parse("-3", &t), E_USAGE, "not of the form");
	CHECK_FAILS(shape_parse("1x2x3x4x5x6x7x8x9", &t), E_USAGE, "not of the form");
	CHECK_FAILS(shape_parse("99999999999999999999", &t), E_USAGE, "dimension over");
	REQUIRE_OK(shape_parse("3x1x5", &s));
	REQUIRE_OK(shape_parse("4x1", &t));
	REQUIRE_OK(shape_broadcast(&s, &t, &u));
	shape_text(&u, text);
	CHECK(!strcmp(text, "3x4x5"));
	REQUIRE_OK(shape_parse("2x1", &t));
	REQUIRE_OK(shape_parse("3x5", &s));
	CHECK_FAILS(shape_broadcast(&s, &t, &u), E_CORRUPT, "3x5");
}

TEST(shape_overflow)
{
	struct shape s = {.rank = 3, .d = {INT64_MAX, 4, 0}};
	CHECK_FAILS(shape_check(&s, 1 << 30), E_CORRUPT, "more than");
	s.d[0] = -1;
	CHECK_FAILS(shape_check(&s, 1 << 30), E_CORRUPT, "negative");
	s.d[0] = 1 << 20;
	CHECK_OK(shape_check(&s, 1 << 30));
	s.rank = 9;
	CHECK_FAILS(shape_check(&s, 1 << 30), E_CORRUPT, "rank 9");
	struct arena a = {.cap_bytes = 1 << 20};
	struct tensor t;
	s = (struct shape){.rank = 1, .d = {INT64_MAX / 16}};
	CHECK(tensor_alloc(&a, DT_F64, &s, &t) == E_NOMEM);
	arena_free(&a);
}

TEST(f16_round_trip)
{
	int bad = 0;
	for (uint32_t h = 0; h < 65536; h++) {
		float f = f16_to_f32((uint16_t)h);
		bad += isnan(f) ? !isnan(f16_to_f32(f32_to_f16(f))) : f32_to_f16(f) != h;
	}
	CHECK(bad == 0);
	CHECK(f32_to_f16(65519.9f) == 0x7bff && f32_to_f16(65520.f) == 0x7c00);
	CHECK(f32_to_f16(1.f + 0x1p-11f) == 0x3c00); /* halfway: to even */
	CHECK(f32_to_f16(1.f + 0x3p-11f) == 0x3c02);
	CHECK(f32_to_f16(0x1p-25f) == 0 && f32_to_f16(0x1.8p-25f) == 1);
}

TEST(elements_saturate)
{
	struct arena a = {0};
	struct shape s = {.rank = 1, .d = {1}};
	static const struct {
		enum dtype t;
		double in, out;
	} rows[] = {
	    {DT_I8, 300, 127},
	    {DT_I8, -300, -128},
	    {DT_U8, -1, 0},
	    {DT_U8, 3.9, 3},
	    {DT_I16, 1e9, 32767},
	    {DT_U16, 7e4, 65535},
	    {DT_I32, -1e20, -2147483648.0},
	    {DT_U32, 1e20, 4294967295.0},
	    {DT_BOOL, 7, 1},
	    {DT_F16, 0.1, 0.0999755859375},
	    {DT_BF16, 3.0, 3.0},
	    {DT_U64, -4, 0},
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct tensor t;
		REQUIRE_OK(tensor_alloc(&a, rows[i].t, &s, &t));
		tensor_set(&t, 0, rows[i].in);
		CHECK(tensor_get(&t, 0) == rows[i].out);
		CHECK(tensor_get_i64(&t, 0) == (int64_t)rows[i].out);
	}
	struct tensor t;
	REQUIRE_OK(tensor_alloc(&a, DT_I64, &s, &t));
	tensor_set(&t, 0, 1e300);
	CHECK(tensor_get_i64(&t, 0) == INT64_MAX);
	tensor_set(&t, 0, NAN);
	CHECK(tensor_get_i64(&t, 0) == 0);
	arena_free(&a);
}

TEST(compare)
{
	float x[] = {1, NAN, INFINITY, 4}, y[] = {1.5f, NAN, INFINITY, 4}, z[] = {1, 0, 3, 4};
	struct shape s = {.rank = 1, .d = {4}}, other = {.rank = 2, .d = {2, 2}};
	struct tensor a = {DT_F32, s, x}, b = {DT_F32, s, y}, c = {DT_F32, s, z}, d = {DT_F32, other, z};
	double diff, most;
	REQUIRE_OK(tensor_compare(&a, &b, &diff, &most));
	CHECK(diff == 0.5 && most == 4);
	REQUIRE_OK(tensor_compare(&a, &c, &diff, &most));
	CHECK(isinf(diff)); /* NaN where a number is expected */
	CHECK_FAILS(tensor_compare(&a, &d, &diff, &most), E_WRONG, "2x2");
	int64_t i[] = {1, 2, 3, 4}, j[] = {1, 2, 4, 3};
	struct tensor e = {DT_I64, s, i}, f = {DT_I64, s, j};
	REQUIRE_OK(tensor_compare(&e, &f, &diff, &most));
	CHECK(diff == 2);
	CHECK_FAILS(tensor_compare(&a, &f, &diff, &most), E_WRONG, "type");
}

static void round_trip(enum dtype t, const char *file, const struct shape *s)
{
	struct arena a = {0};
	struct tensor x, y;
	struct rng r;
	char name[256];
	rng_seed(&r, (uint64_t)t);
	REQUIRE_OK(tensor_alloc(&a, t, s, &x));
	for (int64_t i = 0; i < shape_count(s); i++)
		tensor_set(&x, i, rng_unit(&r) * 200 - 100);
	REQUIRE_OK(tensor_write(scratch(file), &x, "some name"));
	REQUIRE_OK(tensor_read(&a, scratch(file), &y, name));
	CHECK(y.dtype == t && shape_equal(&y.shape, s));
	CHECK(!memcmp(x.data, y.data, (size_t)shape_count(s) * dtype_bytes(t)));
	CHECK(!strcmp(name, strstr(file, ".pb") ? "some name" : ""));
	arena_free(&a);
}

TEST(files_round_trip)
{
	static const struct shape shapes[] = {{0}, {1, {7}}, {3, {2, 3, 5}}, {2, {4, 0}}};
	static const enum dtype types[] = {DT_F32, DT_F64, DT_F16, DT_I8,  DT_U8,  DT_I16,
					   DT_U16, DT_I32, DT_U32, DT_I64, DT_U64, DT_BOOL};
	for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
		for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
			round_trip(types[t], "t.npy", &shapes[s]);
			round_trip(types[t], "t.pb", &shapes[s]);
		}
	round_trip(DT_BF16, "t.pb", &shapes[2]);
}

/* Elements of random tensors in Fortran's order are read in the order of C. */
TEST(fortran_order)
{
	struct rng r;
	rng_seed(&r, 83);
	for (int round = 0; round < 300; round++) {
		struct arena a = {0};
		struct tensor t;
		struct buf b = {0}, head = {0};
		int rank = (int)rng_below(&r, 5), d[5], n = 1, wide = rng_below(&r, 2);
		buf_printf(&head, "{'descr': '%s', 'fortran_order': True, 'shape': (", wide ? "<i8" : "|u1");
		for (int i = 0; i < rank; i++) {
			n *= d[i] = (int)rng_below(&r, 8) ? 1 + (int)rng_below(&r, 5) : 0;
			buf_printf(&head, "%d,", d[i]);
		}
		buf_puts(&head, "), }\n");
		buf_add(&b, "\x93NUMPY\x01\x00", 8);
		buf_u8(&b, (uint8_t)head.n);
		buf_u8(&b, (uint8_t)(head.n >> 8));
		buf_add(&b, buf_str(&head), head.n);
		for (int i = 0; i < n; i++) /* the value of an element is its place in the file */
			for (int k = 0; k < (wide ? 8 : 1); k++)
				buf_u8(&b, (uint8_t)(k ? k > 1 ? 0 : i >> 8 : i));
		REQUIRE_OK(file_write(scratch("f.npy"), buf_str(&b), b.n));
		REQUIRE_OK(tensor_read(&a, scratch("f.npy"), &t, NULL));
		CHECK(t.shape.rank == rank && shape_count(&t.shape) == n);
		for (int i = 0; i < n; i++) {
			int place = 0, left = i, stride[5];
			for (int k = 0; k < rank; k++)
				stride[k] = k ? stride[k - 1] * d[k - 1] : 1;
			for (int k = rank - 1; k >= 0; left /= d[k--])
				place += left % d[k] * stride[k];
			int64_t got = wide ? ((int64_t *)t.data)[i] : ((uint8_t *)t.data)[i];
			CHECK(got == (wide ? place : place & 255));
		}
		buf_free(&b);
		buf_free(&head);
		arena_free(&a);
	}
}

TEST(bad_files)
{
	struct arena a = {0};
	struct tensor t;
	static const char head[] =
	    "\x93NUMPY\x01\x00\x40\x00{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }      \n";
	CHECK_FAILS(tensor_read(&a, "x.txt", &t, NULL), E_USAGE, ".npy");
	CHECK_FAILS(tensor_read(&a, scratch("none.npy"), &t, NULL), E_NOTFOUND, "none.npy");
	REQUIRE_OK(file_write(scratch("bad.npy"), "\x93NUMPY\x01\x00\xff\xff", 10));
	CHECK_FAILS(tensor_read(&a, scratch("bad.npy"), &t, NULL), E_CORRUPT, "not a .npy");
	REQUIRE_OK(file_write(scratch("bad.npy"), "\x93NUMPY\x01\x00\xff\xff  ", 12));
	CHECK_FAILS(tensor_read(&a, scratch("bad.npy"), &t, NULL), E_CORRUPT, "header");
	REQUIRE_OK(file_write(scratch("bad.npy"), head, sizeof head - 1));
	CHECK_FAILS(tensor_read(&a, scratch("bad.npy"), &t, NULL), E_CORRUPT, "1 bytes of data");
	REQUIRE_OK(file_write(scratch("bad.pb"), "\x08\x02\x10\x01\x4a\x04\0\0\0\0",
			      10)); /* [2] of float, 4 bytes */
	CHECK_FAILS(tensor_read(&a, scratch("bad.pb"), &t, NULL), E_CORRUPT, "4 bytes of data");
	REQUIRE_OK(file_write(scratch("bad.pb"), "\x08\x02\x10\x08", 4));
	CHECK_FAILS(tensor_read(&a, scratch("bad.pb"), &t, NULL), E_UNSUPPORTED, "string");
	REQUIRE_OK(file_write(scratch("bad.pb"), "\xff\xff\xff\xff", 4));
	CHECK_FAILS(tensor_read(&a, scratch("bad.pb"), &t, NULL), E_CORRUPT, "damaged");
	arena_free(&a);
}

TEST_MAIN
