/* SPDX-License-Identifier: Apache-2.0 */
/* Extensions of OpenCL C, written out from their texts for devices without them: a test puts these
 * definitions behind the first line of an emitted program, so that the program takes them for the device's
 * own. */
#ifndef TESTS_OPENCL_EXTENSIONS_H
#define TESTS_OPENCL_EXTENSIONS_H

#include "platform/base/arena.h"
#include "platform/base/buf.h"
#include "platform/base/file.h"

#include <string.h>

/* cl_khr_integer_dot_product: the sum is saturated. */
static const char khr_dots[] = "#define __opencl_c_integer_dot_product_input_4x8bit_packed 1\n"
			       "int dot_acc_sat_4x8packed_us_int(uint a, uint b, int c)\n"
			       "{\n"
			       "const int4 p = convert_int4(as_uchar4(a)) * convert_int4(as_char4(b));\n"
			       "return add_sat(p.x + p.y + p.z + p.w, c);\n"
			       "}\n"
			       "int dot_acc_sat_4x8packed_ss_int(uint a, uint b, int c)\n"
			       "{\n"
			       "const int4 p = convert_int4(as_char4(a)) * convert_int4(as_char4(b));\n"
			       "return add_sat(p.x + p.y + p.z + p.w, c);\n"
			       "}\n";

/* Arm's extensions: sums wrap. */
static const char arm_dot[] = "#define cl_arm_integer_dot_product_int8 1\n"
			      "int arm_dot(char4 a, char4 b)\n"
			      "{\n"
			      "const int4 p = convert_int4(a) * convert_int4(b);\n"
			      "return p.x + p.y + p.z + p.w;\n"
			      "}\n";
static const char arm_dot_acc[] = "#define cl_arm_integer_dot_product_accumulate_int8 1\n"
				  "int arm_dot_acc(char4 a, char4 b, int c)\n"
				  "{\n"
				  "const int4 p = convert_int4(a) * convert_int4(b);\n"
				  "return as_int(as_uint(c) + as_uint(p.x + p.y + p.z + p.w));\n"
				  "}\n";

/* Where there is no cl_khr_fp16, the functions that the emitter would make of it. A product of two f16 is
 * exact in f64. The sum is rounded to odd there, so that rounding it again, to f16, gives the nearest f16
 * (Boldo, Melquiond: Emulation of FMA and correctly rounded sums, 2008). rint rounds in units of f16's last
 * place, which is 2^-24 for subnormals. */
static const char half_functions[] =
    "static double half_part(int v, int part)\n"
    "{\n"
    "const ushort h = as_ushort2(v)[part];\n"
    "return vload_half(0, (const half *)&h);\n"
    "}\n"
    "static ushort to_half(double t)\n"
    "{\n"
    "ushort h;\n"
    "if (isfinite(t)) {\n"
    "const double unit = exp2((double)max(t == 0 ? -14 : ilogb(t), -14) - 10);\n"
    "t = copysign(rint(t / unit) * unit, t);\n"
    "}\n"
    "vstore_half_rte((float)t, 0, (half *)&h);\n"
    "return h;\n"
    "}\n"
    "static int fma2_1(const int a, const int b, const int c)\n"
    "{\n"
    "ushort r[2];\n"
    "for (int i = 0; i < 2; i++) {\n"
    "const double p = half_part(a, i) * half_part(b, i), d = half_part(c, i), t = p + d, v = t - p;\n"
    "const double e = (p - (t - v)) + (d - v);\n"
    "long bits = as_long(t);\n"
    "if (isfinite(t) && e != 0 && !(bits & 1))\n"
    "bits += (e > 0) == (t > 0) ? 1 : -1;\n"
    "r[i] = to_half(as_double(bits));\n"
    "}\n"
    "return as_int((ushort2)(r[0], r[1]));\n"
    "}\n"
    "static float sum2_1(const int a, const float b)\n"
    "{\n"
    "return b + ((float)half_part(a, 0) + (float)half_part(a, 1));\n"
    "}\n"
    "#define WIDER(n, m)\\\n"
    "static int##n fma2_##n(const int##n a, const int##n b, const int##n c)\\\n"
    "{\\\n"
    "return (int##n)(fma2_##m(a.lo, b.lo, c.lo), fma2_##m(a.hi, b.hi, c.hi));\\\n"
    "}\\\n"
    "static float##n sum2_##n(const int##n a, const float##n b)\\\n"
    "{\\\n"
    "return (float##n)(sum2_##m(a.lo, b.lo), sum2_##m(a.hi, b.hi));\\\n"
    "}\n"
    "WIDER(2, 1)\n"
    "WIDER(4, 2)\n"
    "WIDER(8, 4)\n";

static inline struct blob with_definitions(struct arena *a, const struct blob *object,
					   const char *definitions)
{
	struct buf b = {0};
	const char *text = object->p, *end = (const char *)memchr(text, '\n', object->n) + 1;
	buf_add(&b, text, (size_t)(end - text));
	buf_puts(&b, definitions);
	buf_add(&b, end, object->n - (size_t)(end - text));
	struct blob out = {.p = arena_memdup(a, b.p, b.n), .n = b.n};
	buf_free(&b);
	return out;
}

#endif
