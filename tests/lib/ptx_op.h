/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the PTX interpreter: one instruction on many operands, special values among them. */
#ifndef TESTS_PTX_OP_H
#define TESTS_PTX_OP_H

#include "tests/lib/ptx_call.h"
#include "platform/base/rng.h"

#include <stdlib.h>
#include <string.h>

enum { OP_ITEMS = 256 };
struct ptx_op {
	const char *name; /* "add.rn.f32" */
	/* The result's kind, then the operands': h, w, l are registers of 16, 32, 64 bits, f and d floats, p
	 * a predicate (as a result it is stored as 0 or 1; as an operand it is bit 0), i a number that all
	 * items share (imm). */
	const char *kinds;
	uint64_t imm;
	uint64_t in[OP_ITEMS][4], out[OP_ITEMS];
};

static inline void ptx_op_register(struct buf *t, int kind, int k)
{
	buf_printf(t, "%s%d",
		   kind == 'h'   ? "%h"
		   : kind == 'w' ? "%r1"
		   : kind == 'l' ? "%rd1"
		   : kind == 'f' ? "%f"
		   : kind == 'd' ? "%fd"
				 : "%p1",
		   k);
}

static inline const char *ptx_op_width(int kind)
{
	return kind == 'h' ? "b16" : kind == 'w' ? "b32" : kind == 'l' ? "b64" : kind == 'f' ? "f32" : "f64";
}

/* Runs it on all items, in blocks of an odd number of threads. */
static inline int ptx_op_run(struct ptx_op *o)
{
	struct buf t = {0};
	buf_puts(
	    &t,
	    "ld.param.u64 %rd1, [p0];\nld.param.u64 %rd2, [p1];\nmov.u32 %r2, %ctaid.x;\nmov.u32 %r3, "
	    "%ntid.x;\n"
	    "mov.u32 %r4, %tid.x;\nmad.lo.s32 %r1, %r2, %r3, %r4;\nsetp.ge.u32 %p1, %r1, 256;\n@%p1 ret;\n"
	    "mul.wide.u32 %rd4, %r1, 32;\nadd.s64 %rd1, %rd1, %rd4;\nmul.wide.u32 %rd4, %r1, 8;\n"
	    "add.s64 %rd2, %rd2, %rd4;\n");
	for (int k = 1; o->kinds[k]; k++) {
		int kind = o->kinds[k];
		if (kind == 'i')
			continue;
		buf_printf(&t, "ld.global.%s ", ptx_op_width(kind == 'p' ? 'w' : kind));
		ptx_op_register(&t, kind == 'p' ? 'w' : kind, k);
		buf_printf(&t, ", [%%rd1+%d];\n", 8 * (k - 1));
		if (kind == 'p')
			buf_printf(&t, "and.b32 %%r1%d, %%r1%d, 1;\nsetp.ne.u32 %%p1%d, %%r1%d, 0;\n", k, k,
				   k, k);
	}
	buf_printf(&t, "%s ", o->name);
	for (int k = 0; o->kinds[k]; k++) {
		buf_puts(&t, k ? ", " : "");
		if (o->kinds[k] == 'i')
			buf_printf(&t, "%llu", (unsigned long long)o->imm);
		else
			ptx_op_register(&t, o->kinds[k], k);
	}
	buf_puts(&t, ";\n");
	int kind = *o->kinds;
	if (kind == 'p')
		buf_puts(&t, "selp.b32 %r10, 1, 0, %p10;\n");
	kind = kind == 'p' ? 'w' : kind;
	buf_printf(&t, "st.global.%s [%%rd2], ", ptx_op_width(kind));
	ptx_op_register(&t, kind, 0);
	buf_puts(&t, ";\nret;\n");
	memset(o->out, 0, sizeof o->out);
	struct ptx_call call = {.body = buf_str(&t),
				.grid = 3,
				.block = {91},
				.buffer = {{o->in, sizeof o->in, true}, {o->out, sizeof o->out}}};
	int rc = ptx_call_run(&call);
	buf_free(&t);
	return rc;
}

/* Values where operations of floats or integers change: limits, small numbers, neighbours of powers of two.
 */
static inline uint64_t ptx_op_value(struct rng *r, int kind)
{
	static const uint64_t f32[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x807fffff,
				       0x00800000, 0x80800000, 0x00800001, 0x3f800000, 0xbf800000, 0x3f800001,
				       0x3f7fffff, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
				       0xffc12345, 0x7f800001, 0x4effffff, 0x4f000000, 0xcf000000, 0xcf000001,
				       0x5f000000, 0x3f000000, 0x3fc00000, 0x40200000};
	static const uint64_t f16[] = {0,      0x8000, 1,      0x8001, 0x3ff,  0x400,  0x401,  0x3c00,
				       0xbc00, 0x3c01, 0x3bff, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00,
				       0xfd01, 0x3800, 0x7f80, 0xff80, 0x7f7f, 0x80,   0x7f,   0x3f80};
	static const uint64_t f64[] = {0,
				       (uint64_t)1 << 63,
				       1,
				       0x000fffffffffffff,
				       0x0010000000000000,
				       0x3ff0000000000000,
				       0x3ff0000000000001,
				       0x7fefffffffffffff,
				       0x7ff0000000000000,
				       0xfff0000000000000,
				       0x7ff8000000000000,
				       0xbff8000000000000,
				       0x43e0000000000000,
				       0xc3e0000000000000,
				       0x36a0000000000000,
				       0x47efffffefffffff,
				       0x3f10000000000001};
	static const uint64_t ints[] = {0,
					1,
					2,
					3,
					7,
					8,
					15,
					16,
					31,
					32,
					33,
					63,
					64,
					127,
					128,
					255,
					256,
					0x7fff,
					0x8000,
					0xffff,
					0x7fffffff,
					0x80000000,
					0xffffffff,
					0x7fffffffffffffff,
					(uint64_t)1 << 63,
					UINT64_MAX,
					UINT64_MAX - 1,
					0x3210,
					0x5410,
					0xba98};
	uint64_t v = rng_u64(r);
	bool special = v % 3 == 0;
	uint32_t pick = (uint32_t)(v >> 32);
	switch (kind) {
	case 'f': {
		uint64_t near = (uint64_t)(rng_u64(r) & 0x807fffff) | (uint64_t)(127 - 4 + rng_below(r, 8))
									  << 23;
		uint64_t wide = rng_u64(r) & 0xffffffff;
		return special ? f32[pick % (sizeof f32 / sizeof *f32)] : v % 3 == 1 ? near : wide;
	}
	case 'd':
		return special ? f64[pick % (sizeof f64 / sizeof *f64)]
		       : v % 3 == 1
			   ? (rng_u64(r) & 0x800fffffffffffff) | (uint64_t)(1023 - 4 + rng_below(r, 40)) << 52
			   : rng_u64(r);
	case 'h':
		return special ? f16[pick % (sizeof f16 / sizeof *f16)] : rng_u64(r) & 0xffff;
	default:
		return special      ? ints[pick % (sizeof ints / sizeof *ints)]
		       : v % 3 == 1 ? rng_u64(r)
				    : rng_u64(r) >> rng_below(r, 64);
	}
}

static inline void ptx_op_fill(struct ptx_op *o, struct rng *r)
{
	for (int i = 0; i < OP_ITEMS; i++)
		for (int k = 1; o->kinds[k]; k++)
			o->in[i][k - 1] = ptx_op_value(r, o->kinds[k]);
}

#endif
