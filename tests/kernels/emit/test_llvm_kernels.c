/* SPDX-License-Identifier: Apache-2.0 */
/* 2,000 random (operator, shape, schedule) triples: the emitted kernel equals the interpreter bit for bit and
 * the reference within tolerance, and writes nothing outside of the buffers. A failing seed is printed:
 * SEED=n runs only that seed, SEEDS=n changes the number. */
#include "kernels/emit/emit.h"
#include "kernels/loops/lower.h"
#include "platform/run/dev.h"
#include "platform/run/pool.h"
#include "tests/lib/byte_cases.h"

/* Runs all entries in two pieces, as two threads would. */
static void run_code(const struct dev *dev, struct dev_code *code, const struct manifest *m, void **bufs)
{
	for (int e = 0; e < m->nentries; e++) {
		int64_t extent = code_extent(m, e, m->param), mid = extent / 2;
		dev->run(code, e, bufs, m->param, 0, mid);
		dev->run(code, e, bufs, m->param, mid, extent);
	}
}

static int run_loops(const struct loops *l, const struct manifest *m, void **bufs)
{
	int rc = E_OK;
	for (int e = 0; e < m->nentries && rc >= 0; e++)
		rc = loops_run(l, e, bufs, m->param, 0, code_extent(m, e, m->param));
	return rc;
}

/* NaNs compare as one class. */
static bool same_bits(const float *a, const float *b, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (memcmp(&a[i], &b[i], 4) != 0 && !(isnan(a[i]) && isnan(b[i])))
			return false;
	return true;
}

struct outcome {
	int built, spilled, winograd, dots, scratch_dots, w16, bf16, quads;
};

/* Counts kernels with dot products, and those whose dot products read bytes from scratch. */
static void count_dots(const struct loops *l, struct outcome *o)
{
	struct buf b = {0};
	loops_print(l, &b);
	bool dots = strstr(buf_str(&b), "dot4") != NULL;
	o->dots += dots;
	o->scratch_dots +=
	    dots && (strstr(buf_str(&b), "as u8 group 4") || strstr(buf_str(&b), "as i8 group 4"));
	buf_free(&b);
}

/* Returns NULL if all agree; else what is wrong. */
static const char *compare(struct kcase *c, const char *cand, const struct target *tg, double tolerance,
			   struct outcome *o)
{
	const struct dev *dev = dev_find("cpu");
	struct loops *l;
	struct manifest m;
	struct blob object;
	struct dev_code *code;
	void *a[CODE_MAX_BUFS], *b[CODE_MAX_BUFS];
	int64_t elems[CODE_MAX_BUFS];
	if (lower(&c->t, cand, tg, &c->a, &l, &m) < 0 || loops_check(l) < 0)
		return err_text();
	int rc = emit_find("llvm")->emit(l, tg, &c->a, &object);
	if (rc == E_SPILL && getenv("SHOW"))
		printf("%s: %s\n", cand, err_text());
	if ((rc < 0 && rc != E_SPILL) || dev->load(object.p, object.n, &code) < 0)
		return err_text();
	case_bind(c, &m, a, elems);
	int out = -1;
	for (int i = 0; i < m.nbufs; i++)
		out = m.buf[i].role == BUF_OUT ? i : out;
	memcpy(b, a, sizeof b);
	int64_t each = case_each(c, &m.buf[out]);
	b[out] = guarded_type(&c->a, elems[out], each);
	memcpy(b[out], a[out], (size_t)(elems[out] * each));
	unsigned fpu = fpu_flush();
	run_code(dev, code, &m, a);
	fpu_restore(fpu);
	dev->unload(code);
	if (rc == E_SPILL) /* such code is whole, only slow */
		o->spilled++;
	else
		o->built++;
	o->winograd += strstr(cand, "winograd=") != NULL;
	count_dots(l, o);
	o->w16 += strstr(cand, "w16=1") != NULL;
	o->quads += strstr(cand, "quads=1") != NULL;
	o->bf16 += cand_pairs(cand) != DT_NONE;
	if (run_loops(l, &m, b) < 0)
		return err_text();
	if (!intact_type(a[out], elems[out], each))
		return "wrote outside of the output";
	if (each == 4 ? !same_bits(a[out], b[out], elems[out])
		      : memcmp(a[out], b[out], (size_t)elems[out]) != 0)
		return "emitted code and interpreter differ";
	double error = case_error(c, a[out]);
	return error < tolerance || (each == 1 && error == 0) ? NULL : "reference differs";
}

/* Between the stages of a chain, sums are rounded to bf16. */
static double tolerance_of(const struct kcase *c, const char *text, const char *cand)
{
	bool rounds = cand_pairs(cand) && c->t.nstages > 1;
	return rounds ? 1e-2 : case_tolerance(text, cand);
}

typedef void make_text(struct buf *b, struct rng *r);

static void one(uint64_t seed, const struct target *tg, enum level level, make_text *make, struct outcome *o)
{
	const struct space_want want = {.level = level};
	struct rng r;
	struct buf text = {0};
	struct kcase c;
	struct space *s;
	struct target as = *tg; /* bf16 is emulated where it is missing */
	char cand[CAND_MAX] = "", from[CAND_MAX];
	if (level == LEVEL_HALF && !target_multiplies_bf16(tg))
		strcat(as.features, ",+avx512bf16");
	rng_seed(&r, seed);
	make(&text, &r);
	const char *bad = NULL;
	if (case_parse(&c, buf_str(&text), &r) < 0 || space_make(&c.a, &c.t, &as, &want, &s) < 0 ||
	    (level_f16(level) && case_round(&c, level == LEVEL_HALF) < 0))
		bad = err_text();
	if (!bad) {
		space_default(s, cand);
		if (seed % 4 && !getenv("DEFAULT") && space_random(s, &r, cand) < 0)
			bad = err_text();
		memcpy(from, cand, sizeof from);
		if (seed % 4 == 3 && !getenv("DEFAULT") && space_mutate(s, &r, from, cand) < 0)
			bad = err_text();
	}
	int before = o->spilled;
	if (!bad)
		bad = compare(&c, cand, tg, tolerance_of(&c, buf_str(&text), cand), o);
	if (getenv("SHOW") && o->spilled > before)
		printf("seed %llu on %d lanes, %d registers:\n%s", (unsigned long long)seed, tg->lanes,
		       tg->regs, buf_str(&text));
	if (bad)
		printf("seed %llu: %s\n%s\n%s", (unsigned long long)seed, bad, cand, buf_str(&text));
	CHECK(!bad);
	buf_free(&text);
	arena_free(&c.a);
}

/* o: for targets with up to 16 registers, and with more; of these at most one kernel in `spills` does. */
static void many(uint64_t tasks, enum level level, make_text *make, int spills, struct outcome o[2])
{
	struct target tg[3];
	const char *from = getenv("SEED"), *count = getenv("SEEDS");
	uint64_t first = from ? strtoull(from, NULL, 0) : 1, n = from    ? 1
								 : count ? strtoull(count, NULL, 0)
									 : tasks;
	REQUIRE_OK(dev_find("cpu")->probe(&tg[0]));
	for (int i = 1; i < 3; i++) { /* narrower vectors, half the registers */
		tg[i] = tg[0];
		tg[i].lanes = tg[0].lanes >> i >= 4 ? tg[0].lanes >> i : 4;
		tg[i].regs = i == 2 ? 16 : tg[0].regs;
	}
	for (uint64_t seed = first; seed < first + n && test_bad < 1; seed++)
		one(seed, &tg[seed % 3], level, make, &o[tg[seed % 3].regs > 16]);
	for (int i = 0; i < 2; i++)
		printf("%s registers: %d kernels built (%d Winograd, %d with dot products), %d rejected for "
		       "spills\n",
		       i ? "more" : "16", o[i].built, o[i].winograd, o[i].dots, o[i].spilled);
	/* With 16 registers every fifth random schedule may spill; on a machine with only 16 that applies to
	 * all targets. A few seeds say nothing of shares. */
	bool few = from || (count && n < 100);
	CHECK(few || o[0].spilled <= o[0].built / 4);
	CHECK(few || o[1].spilled <= o[1].built / spills);
}

TEST(emitted_is_interpreted)
{
	struct outcome o[2] = {{0}};
	many(2000, LEVEL_FP32, case_text, 10, o);
	CHECK(getenv("SEED") || getenv("SEEDS") || o[0].winograd + o[1].winograd > 30);
	CHECK(o[0].w16 + o[1].w16 == 0);
}

/* A product, with a matrix or a vector, or a convolution. */
static void weights_text(struct buf *b, struct rng *r)
{
	static const enum conv_kind kinds[] = {CONV_ANY, CONV_DEPTHWISE, CONV_3X3, CONV_3X3};
	int k = pick(r, 1, 300), n = pick(r, 1, 90);
	uint32_t kind = rng_below(r, 6);
	if (kind < 4)
		gen_conv(b, r, kinds[kind]);
	else if (kind == 4)
		gen_gemm(b, r);
	else
		buf_printf(b,
			   "task syms=0\noperand X in f32 [1,%d] plain\noperand W const f32 [%d,%d] plain\n"
			   "operand Y out f32 [1,%d] plain\nstage m:1 n:%d | k:%d\nread X [m,k]\n"
			   "read W [n,k]\nbody r0 r1 mul\nsum\nwrite Y [m,n]\n",
			   k, n, k, n, n, k);
}

/* Weights in f16, which holds their values and transforms. */
TEST(emitted_w16)
{
	struct outcome o[2] = {{0}};
	many(900, LEVEL_W16, weights_text, 10, o);
	printf("%d kernels with weights in f16\n", o[0].w16 + o[1].w16);
	CHECK(getenv("SEED") || getenv("SEEDS") || o[0].w16 + o[1].w16 > 250);
}

/* Products of pairs of bf16, which holds weights and inputs. */
TEST(emitted_bf16)
{
	struct outcome o[2] = {{0}};
	struct target tg;
	REQUIRE_OK(dev_find("cpu")->probe(&tg));
	if (!tg.fma)
		SKIP("bf16 is emulated by fused multiply-adds, which this machine lacks");
	many(900, LEVEL_HALF, products_text, 10, o);
	printf("%d kernels with bf16\n", o[0].bf16 + o[1].bf16);
	CHECK(getenv("SEED") || getenv("SEEDS") || o[0].bf16 + o[1].bf16 > 200);
}

/* Bytes equal the reference's too. */
TEST(emitted_bytes)
{
	struct outcome o[2] = {{0}};
	many(900, LEVEL_FP32, byte_text, 10, o);
	CHECK(getenv("SEED") || getenv("SEEDS") || o[0].dots + o[1].dots > 200);
}

/* Blocks whose stages pass bytes to each other in scratch. */
TEST(emitted_byte_blocks)
{
	struct outcome o[2] = {{0}};
	many(800, LEVEL_FP32, byte_block_text, 4, o);
	printf("%d kernels with dot products of bytes in scratch\n", o[0].scratch_dots + o[1].scratch_dots);
	CHECK(getenv("SEED") || getenv("SEEDS") || o[0].scratch_dots + o[1].scratch_dots > 60);
	printf("%d kernels with quads\n", o[0].quads + o[1].quads);
	CHECK(getenv("SEED") || getenv("SEEDS") || o[0].quads + o[1].quads > 20);
}

/* Depthwise sums by dot products of neighbouring pixels. */
TEST(emitted_quads)
{
	struct outcome o[2] = {{0}};
	many(1400, LEVEL_FP32, byte_rows_text, 8, o);
	printf("%d kernels with quads\n", o[0].quads + o[1].quads);
	CHECK(getenv("SEED") || getenv("SEEDS") || o[0].quads + o[1].quads > 150);
}

/* Every target that converts f16 compiles such kernels, without calls of a library. */
TEST(w16_on_other_targets)
{
	static const char *const names[] = {"x86-64-v3", "x86-64-v4", "armv8-a"};
	const struct space_want want = {.level = LEVEL_W16};
	struct target tg, host;
	REQUIRE_OK(dev_find("cpu")->probe(&host));
	bool x86 = strncmp(host.isa, "x86", 3) == 0; /* LLVM for Arm has no code generator for x86 */
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		int built = 0, failed = 0;
		if (!x86 && strncmp(names[i], "x86", 3) == 0)
			continue;
		REQUIRE_OK(target_baseline(names[i], &tg));
		for (uint64_t seed = 1; seed <= 80; seed += (uint64_t)test_share()) {
			struct rng r;
			struct buf text = {0};
			struct kcase c = {{0}};
			struct space *s;
			struct loops *l;
			struct manifest m;
			struct blob object;
			char cand[CAND_MAX];
			rng_seed(&r, seed);
			weights_text(&text, &r);
			REQUIRE_OK(task_parse(buf_str(&text), &c.t));
			REQUIRE_OK(space_make(&c.a, &c.t, &tg, &want, &s));
			REQUIRE_OK(space_random(s, &r, cand));
			if (strstr(cand, "w16=1")) {
				REQUIRE_OK(lower(&c.t, cand, &tg, &c.a, &l, &m));
				int rc = emit_find("llvm")->emit(l, &tg, &c.a, &object);
				if (rc < 0 && rc != E_SPILL)
					printf("%s, seed %llu: %s\n%s\n", names[i], (unsigned long long)seed,
					       err_text(), cand);
				failed += rc < 0 && rc != E_SPILL;
				built += rc >= 0;
			}
			buf_free(&text);
			arena_free(&c.a);
		}
		printf("%s: %d kernels built, %d failed\n", names[i], built, failed);
		CHECK(failed == 0 && built * test_share() >= 10);
	}
}

/* The first schedule of level half-sum that a search tries keeps its sums in registers. */
TEST(half_sums_stay_in_registers)
{
	static const int shapes[][4] = {{64, 256, 56, 1}, {512, 512, 14, 1}, {320, 1280, 7, 1},
					{24, 144, 56, 1}, {64, 64, 56, 3},   {256, 256, 14, 3},
					{512, 24, 56, 3}, {512, 512, 7, 3},  {32, 96, 112, 1},
					{16, 8, 40, 1},   {128, 512, 28, 3}}; /* c k h taps */
	const struct space_want want = {.level = LEVEL_HALF_SUM};
	struct target tg;
	REQUIRE_OK(target_baseline("armv8-a", &tg));
	strcpy(tg.cpu, "cortex-a76");
	strcat(tg.features, ",+fullfp16,+dotprod,+lse");
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		const int *n = shapes[i], pad = n[3] / 2;
		struct buf text = {0}, program = {0};
		struct kcase c = {{0}};
		struct space *s;
		struct loops *l;
		struct manifest m;
		struct blob object;
		char cand[CAND_MAX];
		int at = 0;
		buf_printf(
		    &text,
		    "task syms=0\noperand X in f32 [1,%d,%d,%d] 0.1/8.2.3.1;2+%d+%d;3+%d+%d\n"
		    "operand W const f32 [%d,%d,%d,%d] plain\noperand Y out f32 [1,%d,%d,%d] 0.1/8.2.3.1\n",
		    n[0], n[2], n[2], pad, pad, pad, pad, n[1], n[0], n[3], n[3], n[1], n[2], n[2]);
		buf_printf(&text,
			   "stage n:1 k:%d y:%d x:%d | c:%d r:%d s:%d\nread X [n,c,y+r%s,x+s%s]\n"
			   "read W [k,c,r,s]\nbody r0 r1 mul\nsum\nwrite Y [n,k,y,x]\n",
			   n[1], n[2], n[2], n[0], n[3], n[3], pad ? "-1" : "", pad ? "-1" : "");
		REQUIRE_OK(task_parse(buf_str(&text), &c.t));
		REQUIRE_OK(space_make(&c.a, &c.t, &tg, &want, &s));
		REQUIRE_OK(space_portfolio(s, &at, cand));
		CHECK(cand_pairs(cand) == DT_F16);
		REQUIRE_OK(lower(&c.t, cand, &tg, &c.a, &l, &m));
		loops_print(l, &program);
		CHECK(strstr(buf_str(&program), "= fma2 v") && !strstr(buf_str(&program), "= fma v"));
		int rc = emit_find("llvm")->emit(l, &tg, &c.a, &object);
		if (rc < 0)
			printf("%s\n%s%s", err_text(), buf_str(&text), cand);
		CHECK_OK(rc);
		buf_free(&text);
		buf_free(&program);
		arena_free(&c.a);
	}
}

/* Default schedules by products of matrices keep their sums in registers: with and without loops, whole and
 * odd steps, loads of groups along the sum and of neighbours. */
TEST(blocks_stay_in_registers)
{
	static const int shapes[][5] = {
	    {64, 64, 56, 3, 1},  {256, 256, 14, 3, 1},  {512, 512, 7, 3, 1},  {64, 128, 28, 3, 2},
	    {64, 256, 56, 1, 1}, {1024, 256, 14, 1, 1}, {2048, 512, 7, 1, 1}, {16, 96, 112, 1, 1},
	    {24, 144, 56, 1, 1}, {160, 960, 7, 1, 1},   {8, 16, 40, 1, 1},    {12, 24, 20, 1, 1},
	    {24, 16, 40, 3, 1},  {36, 36, 5, 1, 1},     {40, 40, 10, 1, 1}}; /* c k h taps stride */
	static const char *const layouts[] = {"0.1/4.2.3.1", "0.2.3.1"};
	struct target tg;
	REQUIRE_OK(target_baseline("armv8-a", &tg));
	strcat(tg.features, ",+dotprod,+i8mm");
	for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++) {
		const int *n = shapes[i / 2], pad = n[3] / 2, size = (n[2] - 1) * n[4] + n[3] - 2 * pad;
		const char *type = byte_types[i / 2 % 2], *layout = layouts[i % 2],
			   *by = n[4] == 2 ? "2*" : "";
		struct buf text = {0};
		struct kcase c = {{0}};
		struct space *s;
		struct loops *l;
		struct manifest m;
		struct blob object;
		char cand[CAND_MAX];
		buf_printf(&text, "task syms=0\noperand X in %s [1,%d,%d,%d] %s%s\n", type, n[0], size, size,
			   layout, pad ? ";2+1+1;3+1+1" : "");
		buf_printf(&text,
			   "operand W const i8 [%d,%d,%d,%d] plain\noperand B const i32 [%d] plain\n"
			   "operand S const f32 [%d] plain\noperand Y out %s [1,%d,%d,%d] %s\n",
			   n[1], n[0], n[3], n[3], n[1], n[1], type, n[1], n[2], n[2], layout);
		buf_printf(&text,
			   "stage n:1 k:%d y:%d x:%d | c:%d r:%d s:%d\nread X [n,c,%sy+r%s,%sx+s%s]\n"
			   "read W [k,c,r,s]\nread B [k]\nread S [k]\nbody r0 r1 mul\nsum\n"
			   "post acc r2 add r3 mul rint 3 add\nwrite Y [n,k,y,x]\n",
			   n[1], n[2], n[2], n[0], n[3], n[3], by, pad ? "-1" : "", by, pad ? "-1" : "");
		REQUIRE_OK(task_parse(buf_str(&text), &c.t));
		REQUIRE_OK(space_make(&c.a, &c.t, &tg, NULL, &s));
		space_default(s, cand);
		CHECK(strstr(cand, "mmla=1"));
		REQUIRE_OK(lower(&c.t, cand, &tg, &c.a, &l, &m));
		int rc = emit_find("llvm")->emit(l, &tg, &c.a, &object);
		if (rc < 0)
			printf("%s\n%s%s", err_text(), buf_str(&text), cand);
		CHECK_OK(rc);
		buf_free(&text);
		arena_free(&c.a);
	}
}

/* Constants of a long epilogue are stored before the loops of a kernel and loaded behind them, if there are
 * 16 registers: that costs nothing beside the sums, so the default schedule is no candidate that spills. */
TEST(constants_of_an_epilogue_may_be_on_the_stack)
{
	static const int shapes[][2] = {{48, 512}, {256, 128}, {512, 256}};
	struct target tg;
	REQUIRE_OK(target_baseline("x86-64-v3", &tg));
	strcpy(tg.cpu, "znver3");
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		int k = shapes[i][0], n = shapes[i][1];
		struct buf text = {0};
		struct kcase c = {{0}};
		struct space *s;
		struct loops *l;
		struct manifest m;
		struct blob object;
		char cand[CAND_MAX];
		buf_printf(&text,
			   "task syms=0\noperand X in f32 [1,%d] plain\noperand W const f32 [%d,%d] plain\n"
			   "operand B const f32 [%d] plain\noperand Y out f32 [1,%d] plain\n"
			   "stage m:1 n:%d | k:%d\nread X [m,k]\nread W [n,k]\nread B [n]\n"
			   "body r0 r1 mul\nsum\npost acc r2 add silu\nwrite Y [m,n]\n",
			   k, n, k, n, n, n, k);
		REQUIRE_OK(task_parse(buf_str(&text), &c.t));
		REQUIRE_OK(space_make(&c.a, &c.t, &tg, NULL, &s));
		space_default(s, cand);
		REQUIRE_OK(lower(&c.t, cand, &tg, &c.a, &l, &m));
		CHECK_OK(emit_find("llvm")->emit(l, &tg, &c.a, &object));
		buf_free(&text);
		arena_free(&c.a);
	}
}

/* No pair or group of products saturates on the way to the largest sums, also in vectors of 8 lanes, where
 * the machine has longer ones. */
TEST(largest_sums)
{
	struct target tg;
	REQUIRE_OK(dev_find("cpu")->probe(&tg));
	const int most = tg.lanes > 8 ? 2 * LARGEST : LARGEST;
	for (int i = 0; i < most; i += test_share()) {
		struct kcase c;
		struct space *s;
		struct outcome o = {0};
		char cand[CAND_MAX];
		largest_case(&c, i % LARGEST);
		tg.lanes = i < LARGEST ? tg.lanes : 8;
		REQUIRE_OK(space_make(&c.a, &c.t, &tg, NULL, &s));
		space_default(s, cand);
		const char *bad = compare(&c, cand, &tg, 0, &o);
		if (bad)
			printf("largest sum %d, %d lanes: %s\n%s\n", i % LARGEST, tg.lanes, bad, cand);
		CHECK(!bad && o.built == 1);
		arena_free(&c.a);
	}
}

/* Kernels of bytes are made for every target; a schedule that needs an instruction that is missing does not
 * end this process. */
TEST(bytes_on_other_targets)
{
	static const char *const names[] = {"x86-64-v2",  "x86-64-v3", "x86-64-v4",      "armv8-a",
					    "armv7-neon", ",+dotprod", ",+dotprod,+i8mm"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct target tg;
		int built = 0, failed = 0, made = 0;
		bool more = names[i][0] == ',';
		REQUIRE_OK(target_baseline(more ? "armv8-a" : names[i], &tg));
		if (more)
			strcat(tg.features, names[i] + !*tg.features);
		for (uint64_t seed = 1; seed <= 60; seed += (uint64_t)test_share()) {
			struct rng r;
			struct buf text = {0};
			struct kcase c = {{0}};
			struct space *s;
			struct loops *l;
			struct manifest m;
			struct blob object;
			char cand[CAND_MAX];
			rng_seed(&r, seed);
			byte_text(&text, &r);
			REQUIRE_OK(task_parse(buf_str(&text), &c.t));
			REQUIRE_OK(space_make(&c.a, &c.t, &tg, NULL, &s));
			space_default(s, cand);
			if (seed % 2)
				REQUIRE_OK(space_random(s, &r, cand));
			REQUIRE_OK(lower(&c.t, cand, &tg, &c.a, &l, &m));
			REQUIRE_OK(loops_check(l));
			made++;
			int rc = emit_find("llvm")->emit(l, &tg, &c.a, &object);
			if (rc < 0 && rc != E_SPILL)
				printf("%s, seed %llu: %s\n%s\n", names[i], (unsigned long long)seed,
				       err_text(), cand);
			failed += rc < 0 && rc != E_SPILL;
			built += rc >= 0;
			buf_free(&text);
			arena_free(&c.a);
		}
		printf("%s: %d of %d kernels built, %d failed\n", names[i], built, made, failed);
		CHECK(failed == 0 && 2 * built >= made);
	}
}

TEST_MAIN
