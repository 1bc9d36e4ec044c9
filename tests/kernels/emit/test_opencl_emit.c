/* SPDX-License-Identifier: Apache-2.0 */
/* The emitter opencl against the interpreter on an OpenCL device, bit for bit (NaNs are one class, and so are
 * zeros and subnormals of a sign): single operations on special values, then random programs. SEED=n runs one
 * program, SEEDS=n changes their number. Without a device, what the emitter prints and refuses is tested. */
#include "kernels/emit/emit.h"
#include "tests/lib/opencl_device.h"
#include "tests/lib/program_memory.h"

static struct arena objects;
static const struct target any_target;

static int group = 1; /* work items of a group */

/* Interprets and runs the program in `l`, index by index, because indices of random programs see what earlier
 * ones stored. */
static bool agree(struct opencl_dev *dev, const int64_t *params, uint64_t seed, int at_once)
{
	struct blob o;
	arena_reset(&objects);
	int rc = interpret(params);
	if (rc >= 0)
		rc = emit_find("opencl")->emit(&l, &any_target, &objects, &o);
	if (rc >= 0)
		rc = device_run(dev, &o,
				&(struct device_run){.l = &l,
						     .buf = got.bufs,
						     .bytes = memory_bytes,
						     .param = params,
						     .at_once = at_once,
						     .group = group});
	if (rc < 0)
		printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
	if (rc < 0 && getenv("HONE_PRINT"))
		fwrite(o.p, 1, o.n, stdout);
	return rc >= 0 && memories_agree(seed, device_same);
}

TEST(operations_on_special_values)
{
	const char *why;
	struct opencl_dev *dev = opencl_device(&why);
	if (!dev)
		SKIP(why);
	fill_special();
	for (int lanes = 1; lanes <= 16 && !test_bad; lanes *= 4)
		for (enum vop op = 0; op < V_F32_OPS; op += 7) {
			enum vop end = op + 7 < V_F32_OPS ? op + 7 : V_F32_OPS;
			CHECK(some_operations(lanes, lanes != 16, op, end) <= 7);
			REQUIRE_OK(loops_check(&l));
			CHECK(agree(dev, NULL, op * 100u + (unsigned)lanes, 16));
		}
}

TEST(random_programs_equal_the_interpreter)
{
	const char *why;
	struct opencl_dev *dev = opencl_device(&why);
	uint64_t first, n = device_seeds(20, &first);
	if (!dev)
		SKIP(why);
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		int64_t params[2];
		fill_memory(seed);
		random_program(seed, seed % 5 != 0, params);
		REQUIRE_OK(loops_check(&l));
		CHECK(agree(dev, params, seed, 1));
	}
}

/* Statement k copies lanes through an access with its stride, and with as many valid lanes as the index
 * says, from less than none to more than all; the load's guard is sometimes 0. Sums of all indices are
 * stored. */
static void accesses(int lanes)
{
	static const int64_t strides[] = {1, 2, -3, 0};
	begin_program(true);
	loops_entry(&l, c(lanes + 3));
	const struct ix *i = ix_var(&l, l.entry[0].var);
	for (int k = 0; k < 16; k++) {
		int v = lv_new(&l, lanes), sum = lv_new(&l, lanes);
		int64_t by = strides[k % 4], to = k % 4 == 3 ? 1 : by, low = 16 * 3;
		struct mem from = {.buf = B_A, .at = ix_add(&l, i, c(low + k)), .stride = by};
		struct mem there = {.buf = B_O, .at = c(k * 61 + (to < 0 ? low : 0)), .stride = to};
		lv_load(&l, sum, there);
		if (k & 4)
			from.valid = ix_sub(&l, i, c(1));
		if (k & 8)
			there.valid = ix_sub(&l, i, c(1));
		if (k % 3 == 1) {
			from.guard = ix_lt(&l, i, c(2));
			from.fill = -1.5f;
		}
		lv_load(&l, v, from);
		lv_set(&l, sum, V_ADD, sum, v, -1, -1);
		lv_store(&l, sum, there);
	}
	loops_entry_end(&l);
}

TEST(accesses_of_every_form)
{
	const char *why;
	struct opencl_dev *dev = opencl_device(&why);
	if (!dev)
		SKIP(why);
	for (int lanes = 1; lanes <= 16; lanes *= 4) {
		fill_memory((uint64_t)lanes);
		accesses(lanes);
		REQUIRE_OK(loops_check(&l));
		CHECK(agree(dev, NULL, (uint64_t)lanes, 1));
	}
}

/* A launch is rounded up to whole groups: items behind the end do nothing. */
TEST(items_behind_the_end_do_nothing)
{
	const char *why;
	struct opencl_dev *dev = opencl_device(&why);
	if (!dev)
		SKIP(why);
	begin_program(true);
	int v = lv_new(&l, 1);
	loops_entry(&l, c(10));
	const struct ix *i = ix_var(&l, l.entry[0].var);
	lv_load(&l, v, at(B_A, i));
	lv_store(&l, v, at(B_O, i));
	loops_entry_end(&l);
	fill_memory(5);
	group = 4;
	CHECK(agree(dev, NULL, 5, 5)); /* items 0 to 4, then 5 to 9 */
	group = 1;
}

static const char *print(void)
{
	struct blob o;
	arena_reset(&objects);
	int rc = emit_find("opencl")->emit(&l, &any_target, &objects, &o);
	return rc < 0 ? NULL : arena_strndup(&objects, o.p, o.n);
}

TEST(names_from_outside_are_not_printed)
{
	static const char *const hostile[] = {"*/ evil", "\"\n#if", "};{", "a b"};
	arena_reset(&arena);
	loops_init(&l, &arena, true);
	for (int i = 0; i < 4; i++)
		loops_buf(&l, hostile[i], i == 3 ? BUF_OUT : BUF_IN, DT_F32, c(8));
	const struct ix *p = ix_param(&l, loops_param(&l, "); evil(", 0, 3));
	int v = lv_new(&l, 4);
	loops_entry(&l, c(1));
	lv_load(&l, v, at(0, p));
	lv_store(&l, v, at(3, p));
	loops_entry_end(&l);
	const char *text = print();
	REQUIRE(text);
	CHECK(strstr(text, "__kernel void k0(__global const uchar *m0, const long o0, ") &&
	      strstr(text, "vload4(0, p)"));
	CHECK(strstr(text, "const int p0 = (int)a0;")); /* its range fits */
	for (int i = 0; i < 3; i++)
		CHECK(!strstr(text, hostile[i]) && !strstr(text, "evil"));
	strcpy(l.entry[0].name, "k0(){}//");
	struct blob o;
	CHECK_FAILS(emit_find("opencl")->emit(&l, &any_target, &objects, &o), E_CORRUPT, "no symbol");
}

TEST(each_work_item_has_scratch_of_its_own)
{
	begin_program(true);
	int v = lv_new(&l, 4);
	loops_entry(&l, c(2));
	lv_load(&l, v, at(B_A, c(0)));
	lv_store(&l, v, at(B_S, c(0)));
	loops_entry_end(&l);
	const char *text = print();
	REQUIRE(text);
	CHECK(strstr(text,
		     "__global float *b4 = (__global float *)(m4 + o4) + get_global_id(0) * (size_t)1024;"));
}

/* An expression whose tree is exponentially larger than its nodes is refused, soon. */
TEST(long_sources_are_refused)
{
	struct blob o;
	begin_program(true);
	loops_entry(&l, c(8));
	const struct ix *x = ix_var(&l, l.entry[0].var);
	for (int i = 0; i < 18; i++)
		x = ix_add(&l, ix_table(&l, B_T, ix_mod(&l, ix_mul(&l, x, c(3 + i)), c(1000))),
			   ix_table(&l, B_T, ix_mod(&l, ix_mul(&l, x, c(5 + i)), c(900))));
	int v = lv_new(&l, 4);
	lv_load(&l, v, at(B_A, ix_mod(&l, x, c(100))));
	lv_store(&l, v, at(B_O, c(0)));
	loops_entry_end(&l);
	REQUIRE_OK(loops_check(&l));
	arena_reset(&objects);
	CHECK_FAILS(emit_find("opencl")->emit(&l, &any_target, &objects, &o), E_INFEASIBLE, "longer than");
}

/* One operation on operands of its types; x: the type that vop_info calls so. False: it has no such type. */
static bool one_operation(enum vop op, enum lv_type x)
{
	const char *types = vop_info[op].types;
	int v[5] = {0};
	if (x == LV_S32 && !strpbrk(types, "xy"))
		return false;
	begin_program(true);
	l.f16 = l.blocks = true;
	int f = lv_new(&l, 4);
	loops_entry(&l, c(1));
	for (int i = 4; i >= 0; i--) {
		char t = i < (int)strlen(types) ? types[i] : 'f';
		bool s32 = t == 's' || (t == 'x' && x == LV_S32) || (t == 'y' && x == LV_F32);
		v[i] = s32 ? lv_new_s32(&l, 4) : lv_new(&l, 4);
		if (s32)
			lv_const_s32(&l, v[i], i);
		else
			lv_const(&l, v[i], (float)i);
	}
	if (op == V_LOAD && x == LV_F32)
		lv_load(&l, v[0], at(B_A, c(0)));
	else if (op == V_LOAD)
		lv_load(&l, v[0], at(B_T, c(0)));
	else if (op == V_LANE)
		lv_lane(&l, v[0], v[1], 3);
	else if (op == V_TRN0 || op == V_TRN1)
		lv_trn(&l, v[0], op, v[1], v[2], 2);
	else if (op == V_LACE)
		lv_lace(&l, v[0], v[1], v[2], 2, 1, 0);
	else if (op != V_CONST)
		lv_set(&l, v[0], op, v[1], v[2], v[3], v[4]);
	if (l.type[v[0]] == LV_S32)
		lv_set(&l, f, V_CVT, v[0], -1, -1, -1);
	lv_store(&l, l.type[v[0]] == LV_S32 ? f : v[0], at(B_O, c(0)));
	loops_entry_end(&l);
	return true;
}

/* Every operation of the IR, of either type, is printed or refused; a new one is refused until a template for
 * it is written, or its name stands here. */
TEST(operations_are_printed_or_refused)
{
	static const bool lacks[V_OPS] = {
	    [V_FMA2] = true, [V_SUM2] = true, [V_MMLAU] = true, [V_MMLAS] = true};
	for (int i = 0; i < 2 * V_OPS; i++) {
		struct blob o;
		enum vop op = (enum vop)(i / 2);
		if (op >= V_SHUF ||
		    !one_operation(op, i % 2 ? LV_S32 : LV_F32)) /* of threads: t/opencl_threads */
			continue;
		REQUIRE_OK(loops_check(&l));
		arena_reset(&objects);
		int rc = emit_find("opencl")->emit(&l, &any_target, &objects, &o);
		if (lacks[op]) {
			CHECK(rc == E_UNSUPPORTED && strstr(err_text(), vop_info[op].name));
			continue;
		}
		CHECK_OK(rc);
		const char *text = rc < 0 ? "" : arena_strndup(&objects, o.p, o.n);
		CHECK(rc >= 0 && !strstr(text, "= ;") && !strstr(text, "(null)") && !strchr(text, '$'));
	}
	CHECK(strstr(emit_find("opencl")->version(), "opencl-"));
}

/* Numbers that an int cannot hold are longs, wherever they stand. */
TEST(integers_are_as_long_as_they_must)
{
	begin_program(true);
	const struct ix *big = ix_param(&l, loops_param(&l, "n", 0, INT64_C(1) << 40));
	int v = lv_new(&l, 1);
	loops_entry(&l, c(100));
	const struct ix *i = ix_var(&l, l.entry[0].var);
	lv_load(&l, v, at(B_A, ix_mod(&l, ix_add(&l, ix_mul(&l, i, c(INT64_C(1) << 33)), big), c(50))));
	lv_store(&l, v, at(B_O, i));
	loops_entry_end(&l);
	const char *text = print();
	REQUIRE(text);
	CHECK(strstr(text, "const long p0") && strstr(text, "const int i0") && strstr(text, "8589934592L"));
	CHECK(strstr(text, "(int)("));
	const char *why;
	struct opencl_dev *dev = opencl_device(&why);
	if (!dev)
		SKIP(why);
	int64_t param = (INT64_C(1) << 40) - 3;
	fill_memory(3);
	CHECK(agree(dev, &param, 0, 25));
}

TEST_MAIN
