/* SPDX-License-Identifier: Apache-2.0 */
/* The PTX interpreter of the tests: text, memory, divergence. */
#include "tests/lib/test.h"
#include "tests/lib/ptx_call.h"
#include "platform/base/rng.h"

/* Loads p0, p1, p2 into %rd1, %rd2, %rd3 and the thread's number among all into %r1. */
#define BEGIN                                                                                                \
	"ld.param.u64 %rd1, [p0];\nld.param.u64 %rd2, [p1];\nld.param.u64 %rd3, [p2];\n"                     \
	"mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\nmad.lo.s32 %r1, %r2, %r3, "    \
	"%r4;\n"

TEST(adds_two_arrays_over_a_grid)
{
	enum { N = 100 };
	float a[N], b[N], c[N];
	for (int i = 0; i < N; i++) {
		a[i] = (float)i;
		b[i] = 0.5f;
	}
	for (uint64_t seed = 0; seed < 8; seed++) {
		struct ptx_call call = {
		    .body = BEGIN
		    "setp.ge.u32 %p1, %r1, 100;\n@%p1 bra $L;\n"
		    "mul.wide.u32 %rd4, %r1, 4;\nadd.s64 %rd5, %rd1, %rd4;\nadd.s64 %rd6, %rd2, %rd4;\n"
		    "add.s64 %rd7, %rd3, %rd4;\nld.global.nc.f32 %f1, [%rd5];\nld.global.f32 %f2, [%rd6];\n"
		    "add.rn.ftz.f32 %f3, %f1, %f2;\nst.global.f32 [%rd7], %f3;\n$L:\nret;",
		    .grid = 3,
		    .block = {40},
		    .seed = seed,
		    .buffer = {{a, sizeof a, true}, {b, sizeof b, true}, {c, sizeof c}},
		};
		memset(c, 0, sizeof c);
		REQUIRE_OK(ptx_call_run(&call));
		for (int i = 0; i < N; i++)
			CHECK(c[i] == (float)i + 0.5f);
		CHECK(call.ran > 100 * 15 && call.ran < 120 * 20);
	}
}

/* Each thread counts the steps of its own Collatz sequence. */
TEST(lanes_diverge_and_meet_again)
{
	uint32_t steps[96];
	struct ptx_call call = {
	    .body = BEGIN
	    "add.s32 %r10, %r1, 1;\nmov.u32 %r11, 0;\n"
	    "$TOP:\nsetp.eq.u32 %p1, %r10, 1;\n@%p1 bra $END;\n"
	    "and.b32 %r12, %r10, 1;\nsetp.ne.u32 %p2, %r12, 0;\nadd.s32 %r11, %r11, 1;\n"
	    "@!%p2 bra $EVEN;\nmad.lo.s32 %r10, %r10, 3, 1;\nbra.uni $TOP;\n"
	    "$EVEN:\nshr.u32 %r10, %r10, 1;\nbra.uni $TOP;\n"
	    "$END:\nmul.wide.u32 %rd4, %r1, 4;\nadd.s64 %rd5, %rd1, %rd4;\nst.global.u32 [%rd5], %r11;\nret;",
	    .block = {96},
	    .buffer = {{steps, sizeof steps}},
	};
	REQUIRE_OK(ptx_call_run(&call));
	for (uint32_t i = 0; i < 96; i++) {
		uint32_t v = i + 1, n = 0;
		for (; v != 1; n++)
			v = v & 1 ? 3 * v + 1 : v / 2;
		CHECK(steps[i] == n);
	}
}

TEST(memory_of_all_widths_and_spaces)
{
	uint8_t from[64], to[256];
	for (int i = 0; i < 64; i++)
		from[i] = (uint8_t)(i * 37 + 130);
	struct ptx_call call = {
	    .before = ".const .align 4 .b8 tab[8] = {1, 2, 3, 4, 0xff, 0, 0, 0};\n.global .align 8 .u32 "
		      "word[2] = {7, 0x10};\n"
		      ".const .f32 one = 0f3F800000;",
	    .body =
		".local .align 8 .b8 depot[16];\n.shared .align 8 .b8 sh[16];\n" BEGIN
		"setp.ne.u32 %p1, %r1, 0;\n@%p1 ret;\n"
		"ld.global.s8 %r10, [%rd1];\nst.global.u32 [%rd2], %r10;\nld.global.u8 %h1, [%rd1];\n"
		"st.global.b16 [%rd2+4], %h1;\nst.global.u8 [%rd2+6], %h1;\nld.global.u16 %r11, [%rd1+2];\n"
		"st.global.u32 [%rd2+8], %r11;\nld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%rd1+4];\n"
		"st.global.v4.u8 [%rd2+12], {%h4, %h3, %h2, %h1};\nld.global.v2.u64 {%rd10, %rd11}, "
		"[%rd1+16];\n"
		"st.global.v2.b64 [%rd2+16], {%rd11, %rd10};\nld.const.u32 %r12, [tab];\nst.global.u32 "
		"[%rd2+32], %r12;\n"
		"mov.u64 %rd12, tab;\nld.const.s8 %rd13, [%rd12+4];\nst.global.u64 [%rd2+40], %rd13;\n"
		"mov.u64 %rd14, word;\nld.global.u32 %r13, [%rd14+4];\nst.global.u32 [%rd2+48], %r13;\n"
		"mov.u64 %rd15, depot;\nst.local.u32 [%rd15+8], %r13;\nadd.u64 %rd16, %rd15, 8;\n"
		"cvta.local.u64 %rd17, %rd16;\nld.u32 %r14, [%rd17];\nst.global.u32 [%rd2+52], %r14;\n"
		"mov.u32 %r15, sh;\nst.shared.u8 [%r15+3], %r14;\nmov.u64 %rd18, sh;\ncvta.shared.u64 %rd19, "
		"%rd18;\n"
		"ld.u8 %r16, [%rd19+3];\nst.global.u32 [%rd2+56], %r16;\nld.const.f32 %f1, [one];\n"
		"st.global.f32 [%rd2+60], %f1;\nmov.b64 {%r20, %r21}, %rd10;\nmov.b64 %rd20, {%r21, %r20};\n"
		"st.global.u64 [%rd2+64], %rd20;\n{.reg .b16 low;\nmov.b32 {low, _}, %r20;\nmov.b32 %r22, "
		"{low, low};}\n"
		"st.global.u32 [%rd2+72], %r22;\nret;",
	    .buffer = {{from, sizeof from, true}, {to, sizeof to}},
	};
	REQUIRE_OK(ptx_call_run(&call));
	uint32_t w;
	uint64_t d, e;
#define WORD(at) (memcpy(&w, to + (at), 4), w)
#define LONG(at) (memcpy(&d, to + (at), 8), d)
	CHECK(WORD(0) == (uint32_t)(int8_t)from[0]);
	CHECK(to[4] == from[0] && to[5] == 0 && to[6] == from[0]);
	CHECK(WORD(8) == (uint32_t)(from[2] | from[3] << 8));
	CHECK(to[12] == from[7] && to[13] == from[6] && to[14] == from[5] && to[15] == from[4]);
	CHECK(!memcmp(to + 16, from + 24, 8) && !memcmp(to + 24, from + 16, 8));
	CHECK(WORD(32) == 0x04030201 && LONG(40) == UINT64_MAX && WORD(48) == 16 && WORD(52) == 16 &&
	      WORD(56) == 16);
	CHECK(WORD(60) == 0x3f800000);
	memcpy(&e, from + 16, 8);
	CHECK(LONG(64) == (e >> 32 | e << 32) && WORD(72) == (uint32_t)((e & 0xffff) * 0x10001));
}

TEST(special_registers)
{
	static const char *const names[] = {"tid.x",       "tid.y",    "ntid.x", "ntid.y", "ntid.z",
					    "ctaid.x",     "nctaid.x", "laneid", "warpid", "lanemask_lt",
					    "lanemask_ge", "tid.x",    "laneid"};
	enum { N = sizeof names / sizeof *names, X = 20, Y = 3, BLOCKS = 2 };
	static uint32_t out[BLOCKS * X * Y * N];
	struct buf t = {0};
	buf_puts(&t, "ld.param.u64 %rd1, [p0];\nmov.u32 %r1, %tid.y;\nmov.u32 %r2, %tid.x;\nmad.lo.s32 %r1, "
		     "%r1, 20, %r2;\n"
		     "mov.u32 %r2, %ctaid.x;\nmad.lo.s32 %r1, %r2, 60, %r1;\n");
	buf_printf(&t, "mul.wide.u32 %%rd4, %%r1, %d;\nadd.s64 %%rd1, %%rd1, %%rd4;\n", 4 * N);
	for (int i = 0; i < N; i++)
		buf_printf(&t, "mov.u32 %%r10, %%%s;\nst.global.u32 [%%rd1+%d], %%r10;\n", names[i], 4 * i);
	buf_puts(&t, "ret;");
	struct ptx_call call = {
	    .body = buf_str(&t), .grid = BLOCKS, .block = {X, Y}, .buffer = {{out, sizeof out}}};
	REQUIRE_OK(ptx_call_run(&call));
	buf_free(&t);
	for (uint32_t b = 0; b < BLOCKS; b++)
		for (uint32_t i = 0; i < X * Y; i++) {
			uint32_t lane = i % 32, x = i % X;
			const uint32_t want[N] = {
			    x, i / X, X, Y, 1, b, BLOCKS, lane, i / 32, (1u << lane) - 1, UINT32_MAX << lane,
			    x, lane};
			CHECK(!memcmp(out + (b * X * Y + i) * N, want, sizeof want));
		}
}

/* What must not be, and the text that says so. */
TEST(bad_accesses_are_found)
{
	static const struct {
		const char *body, *text;
	} rows[] = {
	    {"ld.global.u32 %r10, [%rd1+65536];", "may not read 4 bytes"},
	    {"add.s64 %rd5, %rd1, 252;\nld.global.v2.u32 {%r10, %r11}, [%rd5];", "is not a multiple of 8"},
	    {"ld.global.u32 %r10, [%rd1+2];", "is not a multiple of 4"},
	    {"mov.u32 %r10, 0;\nst.global.u32 [%rd2], %r10;", "may not write 4 bytes"},
	    {"ld.global.u32 %r10, [%rd1+-65536];", "may not read"},
	    {"ld.shared.u32 %r10, [sh+16];", "of shared memory, which has 16 bytes"},
	    {"ld.shared.u32 %r10, [sh];", "never written"},
	    {"add.s32 %r10, %r11, 1;", "register that was never written"},
	    {"mov.u32 %r10, %r11;\nst.global.u32 [%rd1], %r10;", "register that was never written"},
	    {"@%p3 add.s32 %r10, %r1, 1;", "register that was never written"},
	    {"setp.lt.u32 %p1, %r1, 5;\n@%p1 mov.u32 %r10, 1;\nadd.s32 %r11, %r10, 1;",
	     "thread (5,0,0): reads a register"},
	    {"ld.local.u32 %r10, [depot+8];", "of local memory, which has 8 bytes"},
	    {"ld.const.u32 %r10, [%rd1];", "of constant memory"},
	    {"mov.u64 %rd5, tab;\nst.u32 [%rd5], %r1;", "may not write"},
	    {"mov.u32 %r10, 0;\ndiv.u32 %r11, %r1, %r10;", "divided by zero"},
	    {"$X:\nbra $X;", "budget"},
	};
	uint32_t a[64] = {0}, b[64] = {0};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char body[1024];
		snprintf(body, sizeof body,
			 ".shared .align 4 .b8 sh[16];\n.local .align 4 .b8 depot[8];\n%s%s\nret;", BEGIN,
			 rows[i].body);
		struct ptx_call call = {.before = ".const .align 4 .b8 tab[8];",
					.body = body,
					.seed = i,
					.buffer = {{a, sizeof a}, {b, sizeof b, true}}};
		CHECK_FAILS(ptx_call_run(&call), E_CORRUPT, rows[i].text);
	}
}

TEST(bad_texts_are_refused_with_their_line)
{
	static const struct {
		const char *body;
		int rc;
		const char *text;
	} rows[] = {
	    {"stmatrix.sync %r1, [%rd1];", E_UNSUPPORTED, "line 14: stmatrix.sync: unknown instruction"},
	    {"add.s32 %r1, %r2;", E_CORRUPT, "2 operands, wanted 3"},
	    {"add.s32 %r1, %r2, %rd1;", E_CORRUPT, "an operand of 64 bits, wanted 32"},
	    {"add.s32 %r1, %r200, 1;", E_CORRUPT, "unknown name \"%r200\""},
	    {"bra $NOWHERE;", E_CORRUPT, "no label \"$NOWHERE\""},
	    {"$A: $A: ret;", E_CORRUPT, "is there twice"},
	    {"add.rx.f32 %f1, %f1, %f1;", E_UNSUPPORTED, "unknown instruction"},
	    {"ld.global.u32.strange %r1, [%rd1];", E_UNSUPPORTED, "unknown suffix \"strange\""},
	    {"ld.global.u32 %r1, %rd1;", E_CORRUPT, "wanted an address"},
	    {"ld.global.v2.u32 %r1, [%rd1];", E_CORRUPT, "wanted a vector of 2"},
	    {"call foo;", E_UNSUPPORTED, "unknown instruction"},
	    {"mov.u32 %r1, @;", E_CORRUPT, "wanted an operand"},
	    {"add.s32 %r1, %r2, 3", E_CORRUPT, "wanted \";\""},
	    {".strange x;", E_UNSUPPORTED, "directive \".strange\""},
	    {"cvt.u32.strange %r1, %r1;", E_UNSUPPORTED, "unknown conversion"},
	    {"add.f16 %h1, %h2, 1;\nadd.rz.f16 %h1, %h2, %h1;", E_UNSUPPORTED, "not .rn"},
	    {".reg .b8 %x<3>;", E_UNSUPPORTED, "registers of type"},
	    {"{{{ ret;", E_CORRUPT, "ends within an entry"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct ptx_call call = {.body = rows[i].body};
		CHECK_FAILS(ptx_call_run(&call), rows[i].rc, rows[i].text);
	}
}

/* A text that is cut or damaged is refused or runs, but harms nothing. */
TEST(damaged_texts_harm_nothing)
{
	uint32_t a[64] = {0};
	struct ptx_call call = {
	    .before = ".const .align 4 .b8 tab[8] = {1, 2, 3};",
	    .body = ".shared .align 4 .b8 sh[128];\n" BEGIN
		    "mul.wide.u32 %rd4, %r1, 4;\nadd.s64 %rd5, %rd1, %rd4;\n"
		    "ld.global.v2.u32 {%r10, %r11}, [%rd1];\n$T: setp.lt.and.u32 %p1|%p2, %r10, 3, !%p2;\n"
		    "shfl.sync.bfly.b32 %r12|%p3, %r10, 1, 31, -1;\nbar.sync 0;\n@%p1 bra $T;\nret;",
	    .buffer = {{a, sizeof a}},
	};
	struct buf text = {0};
	struct rng r;
	rng_seed(&r, 1);
	ptx_call_text(&call, &text);
	struct ptx *m;
	REQUIRE_OK(ptx_load(buf_str(&text), text.n, &m));
	ptx_free(m);
	int good = 0;
	for (int i = 0; i < 3000; i++) {
		char *copy = malloc(text.n);
		size_t n = i < (int)text.n ? (size_t)i : text.n;
		memcpy(copy, text.p, text.n);
		for (int k = 0; i >= (int)text.n && k < 3; k++)
			copy[rng_below(&r, (uint32_t)n)] = "%.,;{}[]<>rbx09:$@!|+-\n "[rng_below(&r, 24)];
		if (ptx_load(copy, n, &m) >= 0) {
			good++;
			ptx_free(m);
		}
		free(copy);
	}
	buf_free(&text);
	CHECK(good > 0);
}

TEST(a_launch_must_fit_its_entry)
{
	uint32_t a[64];
	struct ptx_call call = {
	    .directives = ".reqntid 32, 2, 1", .body = "ret;", .block = {32, 1}, .buffer = {{a, sizeof a}}};
	CHECK_FAILS(ptx_call_run(&call), E_USAGE, ".reqntid 32, 2, 1");
	call.block[1] = 2;
	CHECK_OK(ptx_call_run(&call));
	call.directives = ".maxntid 32, 1, 1\n.minnctapersm 2";
	CHECK_FAILS(ptx_call_run(&call), E_USAGE, "more than .maxntid");
	call.directives = NULL;
	call.block[0] = 1024;
	CHECK_FAILS(ptx_call_run(&call), E_USAGE, "blocks of 1024 x 2");
}

TEST_MAIN
