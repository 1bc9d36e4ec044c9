/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in the PTX of small programs, and what the emitter refuses. Random programs and operations on
 * special values are run on the host and equal the interpreter bit for bit (NaNs are one class, and so are
 * zeros and subnormals of a sign); SEED=n runs one program, SEEDS=n changes their number. */
#include "kernels/emit/emit.h"
#include "kernels/emit/ptx_regs.h"
#include "kernels/space/resident.h"
#include "tests/lib/ptx_device.h"
#include "tests/lib/ptx_object.h"
#include "tests/lib/program_memory.h"

static struct arena objects;

static struct target gpu(const char *cpu, const char *features)
{
	struct target t = {.isa = "cuda", .lanes = 4, .regs = 60, .fma = true, .group = 1024};
	strcpy(t.cpu, cpu);
	strcpy(t.features, features);
	return t;
}

/* The text for the target; NULL, with a complaint: it is refused, or not as its first line says. */
static const char *print(const char *cpu, const char *features)
{
	struct blob o;
	struct target t = gpu(cpu, features);
	arena_reset(&objects);
	int rc = loops_check(&l);
	if (rc >= 0)
		rc = emit_find("ptx")->emit(&l, &t, &objects, &o);
	const char *text = rc < 0 ? NULL : arena_strndup(&objects, o.p, o.n),
		   *bad = text ? ptx_structure(&l, text, &t) : err_text();
	if (bad)
		printf("%s: %s\n%s\n", cpu, bad, text ? text : "");
	return bad ? NULL : text;
}

/* Copies vectors of lanes from element `first` of each row of `row` elements. */
static void copy_rows(int lanes, int64_t row, int64_t first)
{
	begin_program(true);
	int v = lv_new(&l, lanes);
	loops_entry(&l, c(8));
	const struct ix *x = ix_add(&l, ix_mul(&l, ix_var(&l, l.entry[0].var), c(row)), c(first));
	lv_load(&l, v, at(B_A, x));
	lv_store(&l, v, at(B_O, x));
	loops_entry_end(&l);
}

TEST(aligned_lanes_move_together)
{
	static const struct {
		int lanes, row, first, v4, v2, single;
	} cases[] = {{4, 4, 0, 1, 0, 0}, {4, 12, 8, 1, 0, 0}, {8, 8, 0, 2, 0, 0}, {4, 6, 0, 0, 2, 0},
		     {4, 4, 2, 0, 2, 0}, {4, 4, 1, 0, 0, 4},  {4, 5, 0, 0, 0, 4}, {2, 2, 0, 0, 1, 0}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		copy_rows(cases[i].lanes, cases[i].row, cases[i].first);
		const char *text = print("sm_87", "+ptx74");
		REQUIRE(text);
		CHECK(ptx_counts(text, "ld.global.v4.f32", cases[i].v4));
		CHECK(ptx_counts(text, "st.global.v4.f32", cases[i].v4));
		CHECK(ptx_counts(text, "ld.global.v2.f32", cases[i].v2));
		CHECK(ptx_counts(text, "ld.global.f32", cases[i].single));
		CHECK(ptx_counts(text, "st.global.f32", cases[i].single));
	}
}

/* A loop adds products; its addresses are of one base and constants. */
static void sum_products(int64_t step)
{
	const struct ix *k;
	begin_program(true);
	int a = lv_new(&l, 4), b = lv_new(&l, 4), sum = lv_new(&l, 4);
	loops_entry(&l, c(8));
	lv_const(&l, sum, 0);
	struct stmt *s = for_begin(&l, c(0), c(32), step, true, &k);
	const struct ix *x = ix_add(&l, ix_mul(&l, ix_var(&l, l.entry[0].var), c(32)), k);
	for (int i = 0; i < 4; i++) {
		lv_load(&l, a, at(B_A, ix_add(&l, x, c(8 * i))));
		lv_load(&l, b, at(B_B, ix_add(&l, x, c(4 * i))));
		lv_set(&l, sum, V_FMA, a, b, sum, -1);
	}
	for_end(&l, s);
	lv_store(&l, sum, at(B_O, ix_mul(&l, ix_var(&l, l.entry[0].var), c(4))));
	loops_entry_end(&l);
}

TEST(loops_are_not_unrolled)
{
	sum_products(4);
	const char *text = print("sm_87", "+ptx74");
	REQUIRE(text);
	CHECK(ptx_counts(text, ".pragma \"nounroll\";", 1));
	CHECK(ptx_counts(text, "fma.rn.ftz.f32", 16));
	CHECK(ptx_counts(text, "ld.global.v4.f32", 8)); /* the loop's steps keep the alignment */
	CHECK(strstr(text, "+96]") && strstr(text, "+48]"));
	sum_products(1);
	text = print("sm_87", "+ptx74");
	REQUIRE(text);
	CHECK(ptx_counts(text, "ld.global.f32", 32));
}

TEST(operations_round_and_flush)
{
	static const struct {
		enum vop op;
		const char *text;
	} ops[] = {{V_ADD, "add.rn.ftz.f32"},   {V_MUL, "mul.rn.ftz.f32"},
		   {V_FMA, "fma.rn.ftz.f32"},   {V_DIV, "div.rn.ftz.f32"},
		   {V_SQRT, "sqrt.rn.ftz.f32"}, {V_FLOOR, "cvt.rmi.ftz.f32.f32"},
		   {V_MIN, "setp.lt.ftz.f32"},  {V_RINT, "cvt.rni.ftz.f32.f32"}};
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
		begin_program(true);
		int v[4];
		loops_entry(&l, c(8));
		for (int k = 0; k < 4; k++) {
			v[k] = lv_new(&l, 2);
			lv_load(&l, v[k], at(B_A, c(2 * k)));
		}
		lv_set(&l, v[3], ops[i].op, v[0], v[1], v[2], v[3]);
		lv_store(&l, v[3], at(B_O, c(0)));
		loops_entry_end(&l);
		const char *text = print("sm_72", "+ptx65");
		REQUIRE(text);
		CHECK(ptx_counts(text, ops[i].text, 2));
	}
}

/* Without a fused operation in the program, none is made of a product and a sum. */
TEST(products_and_sums_stay_apart)
{
	sum_products(4);
	l.fma = false;
	const char *text = print("sm_90", "+ptx83");
	REQUIRE(text);
	CHECK(!strstr(text, "fma.rn") && ptx_counts(text, "mul.rn.ftz.f32", 16));
}

TEST(integers_have_32_bits_where_they_fit)
{
	copy_rows(1, 3, 1);
	const char *text = print("sm_87", "+ptx74");
	REQUIRE(text);
	CHECK(!strstr(text, "mul.lo.s64") && strstr(text, "mul.wide.s32"));
	begin_program(true);
	const struct ix *big = ix_param(&l, loops_param(&l, "n", 0, INT64_C(1) << 40));
	int v = lv_new(&l, 1);
	loops_entry(&l, c(100));
	const struct ix *i = ix_var(&l, l.entry[0].var);
	lv_load(&l, v, at(B_A, ix_mod(&l, ix_add(&l, ix_mul(&l, i, c(INT64_C(1) << 33)), big), c(50))));
	lv_store(&l, v, at(B_O, i));
	loops_entry_end(&l);
	text = print("sm_87", "+ptx74");
	REQUIRE(text);
	CHECK(strstr(text, "s64") != NULL);
}

/* Blocks of 32 threads, each of which copies 16 bytes, some of them perhaps not valid. */
static void copy_shared(bool some, int64_t elems)
{
	const struct ix *thread;
	int s = elems > 4096 ? 3 : 2; /* behind another one */
	arena_reset(&arena);
	loops_init(&l, &arena, true);
	loops_buf(&l, "a", BUF_IN, DT_F32, c(ELEMS));
	loops_buf(&l, "o", BUF_OUT, DT_F32, c(ELEMS));
	if (s == 3)
		loops_buf(&l, "r", BUF_SHARED, DT_F32, c(elems - 512));
	loops_buf(&l, "s", BUF_SHARED, DT_F32, c(s == 3 ? 512 : elems));
	loops_entry_threads(&l, c(2), 32, &thread);
	int v = lv_new(&l, 4);
	const struct ix *x = ix_mul(&l, thread, c(4));
	lv_copy(&l, s, x,
		(struct mem){.buf = 0, .at = x, .stride = 1, .valid = some ? ix_sub(&l, c(99), x) : NULL}, 4);
	lv_commit(&l);
	lv_wait(&l, 0);
	lv_barrier(&l);
	lv_load(&l, v, at(s, ix_sub(&l, c(124), x)));
	lv_shuffle(&l, v, v, 3);
	lv_store(&l, v, at(1, ix_add(&l, ix_mul(&l, ix_var(&l, l.entry[0].var), c(128)), x)));
	loops_entry_end(&l);
}

TEST(threads_copy_and_wait)
{
	for (int some = 0; some < 2; some++) {
		copy_shared(some, 128);
		const char *text = print("sm_80", "+ptx70");
		REQUIRE(text);
		CHECK(strncmp(text, "//hone-ptx k0,1,32,512\n", 23) == 0);
		CHECK(strstr(text, some ? "], 16, %r" : "], 16;") != NULL);
		CHECK(ptx_counts(text, "cp.async.cg.shared.global [%r", 1));
		CHECK(ptx_counts(text, "cp.async.commit_group;", 1));
		CHECK(ptx_counts(text, "cp.async.wait_group 0;", 1));
		CHECK(ptx_counts(text, "bar.sync", 1) && ptx_counts(text, "shfl.sync.bfly.b32", 4));
		CHECK(ptx_counts(text, "ld.shared.v4.f32", 1));
		text = print("sm_75", "+ptx74");
		REQUIRE(text);
		CHECK(!strstr(text, "cp.async") && strstr(text, "ld.global.v4.u32") &&
		      strstr(text, "st.shared.v4.u32"));
	}
}

/* More than 48 KB are one array that the launch sizes. */
TEST(large_shared_memory_is_asked_for)
{
	float a[ELEMS], o[ELEMS];
	void *bufs[] = {a, o};
	const int64_t bytes[] = {sizeof a, sizeof o};
	for (int large = 0; large < 2; large++) {
		copy_shared(false, large ? 100 << 8 : 48 << 8);
		const char *text = print("sm_80", "+ptx70");
		REQUIRE(text);
		CHECK(strncmp(text, large ? "//hone-ptx k0,1,32,102400\n" : "//hone-ptx k0,1,32,49152\n",
			      large ? 26 : 25) == 0);
		CHECK((strstr(text, ".extern .shared .align 16 .b8 shared[];") != NULL) == large);
		for (int i = 0; i < ELEMS; i++)
			a[i] = (float)i;
		memset(o, 0, sizeof o);
		CHECK_OK(ptx_device_run(text, strlen(text),
					&(struct ptx_device_run){
					    .l = &l, .buf = bufs, .bytes = bytes, .at_once = 2, .seed = 1}));
		for (int i = 0; i < 256; i++) /* of thread i / 4 ^ 3, which has loaded from the end */
			CHECK(o[i] == (float)(124 - 4 * ((i % 128 / 4) ^ 3) + i % 4));
	}
}

static int emit(const struct target *t)
{
	struct blob o;
	arena_reset(&objects);
	return emit_find("ptx")->emit(&l, t, &objects, &o);
}

TEST(what_is_refused)
{
	struct target t = gpu("sm_70", "+ptx74");
	copy_rows(4, 4, 0);
	CHECK_FAILS(emit(&t), E_UNSUPPORTED, "unknown architecture sm_70");
	t = gpu("sm_90", "+ptx74");
	CHECK_FAILS(emit(&t), E_UNSUPPORTED, "needs +ptx78");
	t = gpu("sm_90", "+sve");
	CHECK_FAILS(emit(&t), E_UNSUPPORTED, "version of PTX");
	strcpy(t.isa, "x86-64-v3");
	CHECK_FAILS(emit(&t), E_UNSUPPORTED, "cannot generate code for ISA x86-64-v3");
	t = gpu("sm_90", "+ptx83");
	l.blocks = true;
	CHECK_FAILS(emit(&t), E_UNSUPPORTED, "matrices");
	l.blocks = false;
	strcpy(l.entry[0].name, "k0;k1,1,1,0");
	CHECK_FAILS(emit(&t), E_CORRUPT, "no symbol");
	static const struct {
		const char *cpu, *features;
		int kb;
	} most[] = {{"sm_72", "+ptx74", 96}, {"sm_75", "+ptx74", 64}, {"sm_80", "+ptx74", 163},
		    {"sm_87", "+ptx74", 163}, {"sm_90", "+ptx83", 227}};
	for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
		t = gpu(most[i].cpu, most[i].features);
		copy_shared(false, most[i].kb * 256 - 8);
		CHECK_OK(emit(&t));
		copy_shared(false, most[i].kb * 256 + 4);
		CHECK_FAILS(emit(&t), most[i].kb < 227 ? E_INFEASIBLE : E_CORRUPT, "shared");
	}
	strcpy(t.isa, "cuda");
	CHECK_FAILS(emit_find("llvm")->emit(&l, &t, &objects, &(struct blob){NULL}), E_UNSUPPORTED,
		    "ISA cuda");
	CHECK(strstr(emit_find("ptx")->version(), "ptx-llvm-"));
}

/* The assembler may give each thread its share of the registers of a unit with so many blocks. */
TEST(blocks_have_their_share_of_registers)
{
	for (int i = 0; i < 4; i++) {
		copy_rows(4, 4, 0);
		l.entry[0].blocks = i;
		const char *text = print("sm_87", "+ptx74");
		REQUIRE(text);
		char line[48];
		snprintf(line, sizeof line, ".minnctapersm %d\n", i ? i : 1);
		CHECK(test_count(text, line) == 1 && test_count(text, ".minnctapersm") == 1);
	}
}

/* A loop that carries n vectors of 4 lanes. */
static void carry_sums(int n, int group, int blocks)
{
	const struct ix *k;
	int sum[64] = {0};
	begin_program(true);
	int a = lv_new(&l, 4);
	for (int i = 0; i < n; i++)
		sum[i] = lv_new(&l, 4);
	loops_entry(&l, c(1));
	l.entry[0].group = group;
	l.entry[0].blocks = blocks;
	for (int i = 0; i < n; i++)
		lv_const(&l, sum[i], 0);
	struct stmt *s = for_begin(&l, c(0), c(32), 4, true, &k);
	lv_load(&l, a, at(B_A, k));
	for (int i = 0; i < n; i++)
		lv_set(&l, sum[i], V_FMA, a, a, sum[i], -1);
	for_end(&l, s);
	for (int i = 1; i < n; i++)
		lv_set(&l, sum[0], V_ADD, sum[0], sum[i], -1, -1);
	lv_store(&l, sum[0], at(B_O, c(0)));
	loops_entry_end(&l);
}

/* A thread has 255 registers, or its share of a unit's, and 16 of them are for other values than the sums. */
TEST(what_would_spill_is_refused)
{
	static const struct {
		int vectors, group, blocks;
		bool fits;
	} cases[] = {{59, 64, 0, true},   {60, 64, 0, false},  {28, 128, 3, true},  {28, 128, 4, true},
		     {29, 128, 4, false}, {29, 256, 2, false}, {12, 1024, 1, true}, {13, 1024, 1, false}};
	struct target t = gpu("sm_87", "+ptx74");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		carry_sums(cases[i].vectors, cases[i].group, cases[i].blocks);
		CHECK(ptx_carried(&l, &l.entry[0]) == 4 * cases[i].vectors);
		if (cases[i].fits)
			CHECK_OK(emit(&t));
		else
			CHECK_FAILS(emit(&t), E_INFEASIBLE, "registers");
	}
	CHECK(resident_registers(1, 1) == 255 && resident_registers(33, 0) == 255 &&
	      resident_registers(256, 2) == 128 && resident_registers(576, 1) == 96);
}

/* The estimate has room for what a loop carries, and takes any text without harm. */
TEST(registers_are_estimated)
{
	struct rng r;
	rng_seed(&r, 7);
	for (int vectors = 4; vectors < 40; vectors += 7) {
		carry_sums(vectors, 64, 0);
		const char *text = print("sm_87", "+ptx74");
		REQUIRE(text);
		size_t n = strlen(text);
		struct ptx_regs regs = ptx_registers(text, n, 0);
		CHECK(regs.usual >= 4 * vectors + 4 && regs.usual <= 4 * vectors + 24);
		CHECK(regs.least >= 4 * vectors + 4 && regs.least <= regs.usual);
		CHECK(!ptx_spills(&regs, regs.least + 8) && ptx_spills(&regs, regs.least + 7));
		int most = regs.usual + 16, least = (regs.least + 8 + regs.least / 8 + 7) / 8 * 8;
		CHECK(most >= least); /* the assembler uses the bound */
		CHECK(ptx_most(&regs, 255) == (most < 255 ? most : 0));
		CHECK(ptx_most(&regs, most) == 0);
		CHECK(ptx_registers(text, n, 1).usual == 0 && ptx_registers(text, 40, 0).usual == 0);
		char *broken = arena_strndup(&objects, text, n);
		for (int i = 0; i < 300; i++) {
			static const char bytes[] = "%;,{}[]$_0p\nrd<>@";
			broken[rng_below(&r, n)] = bytes[rng_below(&r, sizeof bytes - 1)];
			CHECK(ptx_registers(broken, i % 3 ? n : rng_below(&r, n), 0).usual <= 255);
		}
	}
}

/* A product of fragments takes registers side by side, and so more than are live. */
TEST(products_of_fragments_need_more)
{
	static const char head[] = ".visible .entry k0(\n\t.param .u64 k0_param_0\n)\n.reqntid 32, 1, 1\n"
				   ".minnctapersm 1\n{\n\t.reg .b32 \t%r<9>;\n\t.reg .b64 \t%rd<3>;\n"
				   "\tld.param.u64 \t%rd1, [k0_param_0];\n\tld.global.u32 \t%r1, [%rd1];\n"
				   "\tld.global.u32 \t%r2, [%rd1+4];\n\tld.global.u32 \t%r3, [%rd1+8];\n\t",
			  tail[] = " \t%r4, %r1, %r2, %r3;\n\tst.global.u32 \t[%rd1], %r4;\n\tret;\n}\n";
	int least[2];
	for (int i = 0; i < 2; i++) {
		char text[1000];
		int n = snprintf(text, sizeof text, "%s%s%s", head, i ? "mma.sync.aligned" : "mad.lo.s32",
				 tail);
		least[i] = ptx_registers(text, (size_t)n, 0).least;
	}
	CHECK(least[0] > 0 && least[1] == least[0] + 16);
}

/* An entry is bounded by its estimate, unless its blocks leave it less; it keeps what is live in any order. */
TEST(registers_are_bounded)
{
	carry_sums(12, 64, 0);
	const char *text = print("sm_87", "+ptx74");
	REQUIRE(text);
	struct ptx_regs regs = ptx_registers(text, strlen(text), 0);
	char line[32];
	snprintf(line, sizeof line, "\n.minnctapersm 1\n.maxnreg %d\n{\n", ptx_most(&regs, 255));
	CHECK(ptx_most(&regs, 255) > 0 && strstr(text, line) && test_count(text, ".maxnreg") == 1);
	carry_sums(12, 256, 4); /* 64 registers for each */
	text = print("sm_87", "+ptx74");
	REQUIRE(text);
	CHECK(test_count(text, ".maxnreg") == 0);
	static const struct ptx_regs wide = {.usual = 64, .least = 90, .all = 60}, none = {0};
	CHECK(ptx_most(&wide, 255) == 112 && ptx_most(&none, 255) == 0);
	/* These texts are of two kernels that spilled, with a bound of 168 and without one, and of one that
	 * did not. */
	static const struct ptx_regs spilled = {.usual = 152, .least = 145, .all = 155},
				     crowded = {.usual = 255, .least = 234, .all = 316},
				     roomy = {.usual = 255, .least = 146, .all = 305};
	CHECK(ptx_most(&spilled, 255) == 176 && !ptx_spills(&spilled, 255));
	CHECK(ptx_spills(&crowded, 255) && !ptx_spills(&roomy, 255));
	const struct ptx_regs farther = {.usual = 255, .least = 125, .all = 373},
			      deep = {.usual = 255, .least = 95, .all = 373};
	CHECK(ptx_spills(&farther, 255) && !ptx_spills(&deep, 255));
}

/* Any group that the schedule gives, or one of the emitter's that the device can have. */
TEST(blocks_have_the_groups_items)
{
	static const int group[] = {0, 1, 32, 256};
	for (int i = 0; i < 4; i++) {
		copy_rows(4, 4, 0);
		l.entry[0].group = group[i];
		const char *text = print("sm_87", "+ptx74");
		REQUIRE(text);
		char line[48];
		snprintf(line, sizeof line, "//hone-ptx k0,%d,1,0\n", group[i] ? group[i] : 64);
		CHECK(strncmp(text, line, strlen(line)) == 0);
	}
}

static bool same(float a, float b)
{
	return ptx_same_f32(&a, &b);
}

/* Interprets and runs the program in `l`. Indices of random programs see what earlier ones stored: they run
 * one by one. */
static bool agree(const struct target *t, const int64_t *params, uint64_t seed, int at_once)
{
	const char *text = print(t->cpu, t->features);
	int rc = text ? interpret(params) : E_WRONG;
	if (rc >= 0)
		rc = ptx_device_run(text, strlen(text),
				    &(struct ptx_device_run){.l = &l,
							     .buf = got.bufs,
							     .bytes = memory_bytes,
							     .param = params,
							     .at_once = at_once,
							     .seed = seed});
	if (rc < 0)
		printf("%s seed %llu: %s\n", t->cpu, (unsigned long long)seed, err_text());
	return rc >= 0 && memories_agree(seed, same);
}

TEST(random_programs_equal_the_interpreter)
{
	static const char *const target[][2] = {{"sm_72", "+ptx61"}, {"sm_75", "+ptx64"}, {"sm_80", "+ptx71"},
						{"sm_86", "+ptx77"}, {"sm_87", "+ptx74"}, {"sm_89", "+ptx80"},
						{"sm_90", "+ptx85"}};
	const char *one = getenv("SEED"), *many = getenv("SEEDS");
	uint64_t first = one ? strtoull(one, NULL, 10) : 1, n = one    ? 1
								: many ? strtoull(many, NULL, 10)
								       : 60;
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		int64_t params[2];
		struct target t = gpu(target[seed % 7][0], target[seed % 7][1]);
		fill_memory(seed);
		random_program(seed, seed % 5 != 0, params);
		CHECK(agree(&t, params, seed, 1));
	}
}

TEST(operations_on_special_values)
{
	struct target t = gpu("sm_87", "+ptx74");
	fill_special();
	for (int lanes = 1; lanes <= 16 && !test_bad; lanes *= 4)
		for (enum vop op = 0; op < V_F32_OPS; op += 7) {
			enum vop end = op + 7 < V_F32_OPS ? op + 7 : V_F32_OPS;
			CHECK(some_operations(lanes, lanes != 16, op, end) <= 7);
			CHECK(agree(&t, NULL, op * 100u + (unsigned)lanes, 100));
		}
}

/* A launch is rounded up to whole blocks: threads behind the end do nothing. */
TEST(threads_behind_the_end_do_nothing)
{
	struct target t = gpu("sm_87", "+ptx74");
	begin_program(true);
	int v = lv_new(&l, 1);
	loops_entry(&l, c(300));
	const struct ix *i = ix_var(&l, l.entry[0].var);
	lv_load(&l, v, at(B_A, i));
	lv_store(&l, v, at(B_O, i));
	loops_entry_end(&l);
	fill_memory(5);
	CHECK(agree(&t, NULL, 5, 131));
}

/* Items fill their scratch in one loop and read it in another. */
TEST(each_item_has_scratch_of_its_own)
{
	const struct ix *k;
	begin_program(true);
	int v = lv_new(&l, 4);
	loops_entry(&l, c(60));
	const struct ix *i = ix_mul(&l, ix_var(&l, l.entry[0].var), c(16));
	for (int back = 0; back < 2; back++) {
		struct stmt *s = for_begin(&l, c(0), c(16), 4, true, &k);
		lv_load(&l, v, back ? at(B_S, k) : at(B_A, ix_add(&l, i, k)));
		lv_store(&l, v, back ? at(B_O, ix_add(&l, i, k)) : at(B_S, k));
		for_end(&l, s);
	}
	loops_entry_end(&l);
	fill_memory(6);
	REQUIRE_OK(interpret(NULL));
	const char *text = print("sm_87", "+ptx74");
	REQUIRE(text);
	CHECK(ptx_counts(text, "st.global.v4.f32", 2)); /* a part is a multiple of 16 bytes */
	REQUIRE_OK(
	    ptx_device_run(text, strlen(text),
			   &(struct ptx_device_run){
			       .l = &l, .buf = got.bufs, .bytes = memory_bytes, .at_once = 40, .seed = 3}));
	CHECK(memcmp(want.f[B_O], got.f[B_O], sizeof want.f[B_O]) == 0);
}

TEST_MAIN
