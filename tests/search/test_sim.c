/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated device: equal to the interpreter bit for bit, safe with hostile objects, a clock that follows
 * the work. */
#include "kernels/emit/emit.h"
#include "kernels/loops/lower.h"
#include "platform/run/dev_sim.h"
#include "platform/base/rng.h"
#include "platform/run/vm.h"
#include "kernels/space/space.h"
#include "tests/lib/kernel_cases.h"
#include "tests/lib/test.h"

#include <math.h>

extern const struct emit emit_sim;

enum { ELEMS = 4096, TABLE = 64 };

struct fixture {
	struct arena a;
	struct loops l;
	struct target t;
	struct rng rng;
	float in[ELEMS], out[2][ELEMS], scratch[2][ELEMS];
	int32_t table[TABLE];
	int v[12]; /* vector variables, all set */
	int lanes[12];
	const struct ix *var[8];
	int nvars;
};

static void fixture_open(struct fixture *f, uint64_t seed)
{
	memset(f, 0, sizeof *f);
	dev_sim_reset(0, seed, 0);
	CHECK(dev_sim.probe(&f->t) == 1);
	rng_seed(&f->rng, seed);
	rng_fill(&f->rng, f->in, ELEMS);
	for (int i = 0; i < TABLE; i++)
		f->table[i] = (int32_t)rng_below(&f->rng, TABLE);
	for (int i = 0; i < 40; i++) { /* zeros, subnormals, infinities, tiny and huge values */
		const float odd[] = {0,         -0.0f,       1e-40f, -3e-39f,  INFINITY,
				     0x1p-126f, 0x1.8p-126f, 3e38f,  0x1p-70f, -0x1p-63f};
		f->in[rng_below(&f->rng, ELEMS)] = odd[rng_below(&f->rng, 10)];
	}
	loops_init(&f->l, &f->a, seed % 4 != 0);
	loops_param(&f->l, "p", 1, 64);
	loops_buf(&f->l, "in", BUF_IN, DT_F32, ix_c(&f->l, ELEMS));
	loops_buf(&f->l, "out", BUF_OUT, DT_F32, ix_mul(&f->l, ix_param(&f->l, 0), ix_c(&f->l, ELEMS / 16)));
	loops_buf(&f->l, "tab", BUF_CONST, DT_I32, ix_c(&f->l, TABLE));
	loops_buf(&f->l, "tmp", BUF_SCRATCH, DT_F32, ix_c(&f->l, ELEMS));
}

static int draw(struct fixture *f, int n)
{
	return (int)rng_below(&f->rng, (uint32_t)n);
}

/* A random expression over the variables in scope. */
static const struct ix *expr(struct fixture *f, int depth)
{
	struct loops *l = &f->l;
	if (depth == 0 || draw(f, 4) == 0) {
		int die = draw(f, 4);
		return die == 0 || !f->nvars ? ix_c(l, draw(f, 100) - 20)
		       : die == 1            ? ix_param(l, 0)
					     : f->var[draw(f, f->nvars)];
	}
	const struct ix *a = expr(f, depth - 1), *b = expr(f, depth - 1);
	switch (draw(f, 9)) {
	case 0:
	case 1:
		return ix_add(l, a, b);
	case 2:
		return ix_mul(l, a, ix_c(l, draw(f, 9) - 4));
	case 3:
		return ix_div(l, a, ix_c(l, 1 + draw(f, 7)));
	case 4:
		return ix_mod(l, a, ix_c(l, 1 + draw(f, 7)));
	case 5:
		return ix_min(l, a, b);
	case 6:
		return ix_max(l, a, b);
	case 7:
		return ix_lt(l, a, b);
	default:
		return ix_table(l, 2, ix_mod(l, a, ix_c(l, TABLE)));
	}
}

/* An access that stays inside n elements: the address is reduced modulo the room that the lanes leave. */
static struct mem access_in(struct fixture *f, int buf, int n, int lanes)
{
	static const int64_t strides[] = {0, 1, 1, 1, 3, -2};
	struct mem m = {.buf = buf, .stride = strides[draw(f, 6)], .fill = 7.5f};
	int span = (lanes - 1) * (int)(m.stride < 0 ? -m.stride : m.stride);
	m.at = ix_mod(&f->l, expr(f, 2), ix_c(&f->l, n - span));
	if (m.stride < 0)
		m.at = ix_add(&f->l, m.at, ix_c(&f->l, span));
	if (draw(f, 3) == 0)
		m.valid = expr(f, 1);
	return m;
}

static void random_set(struct fixture *f)
{
	int i = draw(f, 12), n = f->lanes[i], op = draw(f, V_F32_OPS), a[4];
	for (int k = 0; k < 4; k++) {
		do
			a[k] = draw(f, 12);
		while (f->lanes[a[k]] != n);
	}
	if (op == V_LOAD) {
		struct mem m = access_in(f, draw(f, 2) ? 0 : 3, ELEMS, n);
		if (draw(f, 3) == 0)
			m.guard = ix_lt(&f->l, expr(f, 1), ix_c(&f->l, 20));
		lv_load(&f->l, f->v[i], m);
	} else if (op == V_CONST) {
		lv_const(&f->l, f->v[i], (float)draw(f, 100) / 16 - 3);
	} else if (op == V_LANE) {
		int from = draw(f, 12);
		lv_lane(&f->l, f->v[i], f->v[from], draw(f, f->lanes[from]));
	} else if (op == V_TRN0 || op == V_TRN1) {
		lv_trn(&f->l, f->v[i], n > 1 ? (enum vop)op : V_COPY, f->v[a[0]], f->v[a[1]], n / 2);
	} else if (op == V_LACE && n > 1) {
		int of = 2 + draw(f, n - 1);
		lv_lace(&f->l, f->v[i], f->v[a[0]], f->v[a[1]], of, draw(f, of), draw(f, of));
	} else if (op == V_LACE) {
		lv_set(&f->l, f->v[i], V_COPY, f->v[a[0]], 0, 0, 0);
	} else if (op >= V_HADD) {
		lv_set(&f->l, f->v[i], (enum vop)op, f->v[draw(f, 12)], 0, 0, 0);
	} else {
		lv_set(&f->l, f->v[i], (enum vop)op, f->v[a[0]], f->v[a[1]], f->v[a[2]], f->v[a[3]]);
	}
}

static void random_body(struct fixture *f, int depth)
{
	struct loops *l = &f->l;
	for (int i = 2 + draw(f, 6); i > 0; i--) {
		int die = draw(f, 10), k = draw(f, 12);
		if (die == 0 && depth > 0) {
			const struct ix *lo = ix_c(l, draw(f, 3)), *var;
			struct stmt *s = for_begin(l, lo, ix_add(l, lo, ix_mod(l, expr(f, 1), ix_c(l, 5))),
						   1 + draw(f, 2), false, &var);
			f->var[f->nvars++] = var;
			random_body(f, depth - 1);
			f->nvars--;
			for_end(l, s);
		} else if (die == 1 && depth > 0) {
			struct stmt *s = if_begin(l, ix_lt(l, expr(f, 2), expr(f, 2)));
			random_body(f, depth - 1);
			if_else(l, s);
			random_body(f, depth - 1);
			if_end(l, s);
		} else if (die <= 3) {
			bool out = draw(f, 2);
			struct mem m = access_in(f, out ? 1 : 3, out ? ELEMS / 2 : ELEMS, f->lanes[k]);
			if (m.stride != 0 || f->lanes[k] == 1)
				lv_store(l, f->v[k], m);
		} else if (die == 4) {
			lv_prefetch(l, 0, expr(f, 1), 1);
		} else {
			random_set(f);
		}
	}
}

static void random_loops(struct fixture *f)
{
	static const int widths[12] = {4, 4, 4, 4, 4, 4, 8, 8, 1, 1, 2, 16};
	for (int e = 0; e < 2; e++) {
		loops_entry(&f->l, ix_c(&f->l, 6));
		f->nvars = 0;
		for (int i = 0; i < 12; i++) {
			f->lanes[i] = widths[i];
			f->v[i] = lv_new(&f->l, widths[i]);
			lv_load(&f->l, f->v[i],
				(struct mem){.buf = 0, .at = ix_c(&f->l, 40 * i + e), .stride = 1});
		}
		random_body(f, 4);
		loops_entry_end(&f->l);
	}
}

/* Whether the bits are the same; all NaNs count as equal. */
static bool same(const float *a, const float *b)
{
	for (int i = 0; i < ELEMS; i++)
		if (memcmp(&a[i], &b[i], sizeof *a) && !(isnan(a[i]) && isnan(b[i])))
			return false;
	return true;
}

static void compare(struct fixture *f, uint64_t seed)
{
	struct blob object;
	struct dev_code *code;
	const int64_t param[1] = {8};
	REQUIRE_OK(loops_check(&f->l));
	int rc = emit_sim.emit(&f->l, &f->t, &f->a, &object);
	REQUIRE_OK(rc);
	REQUIRE_OK(dev_sim.load(object.p, object.n, &code));
	void *bufs[2][4];
	for (int i = 0; i < 2; i++) {
		void *b[4] = {f->in, f->out[i], f->table, f->scratch[i]};
		memcpy(bufs[i], b, sizeof b);
	}
	for (int e = 0; e < f->l.nentries && !test_bad; e++) {
		CHECK_OK(loops_run(&f->l, e, bufs[0], param, 1, 5));
		dev_sim.run(code, dev_sim.entry(code, f->l.entry[e].name), bufs[1], param, 1, 5);
		CHECK(!strcmp(dev_sim_fault(), ""));
		CHECK(same(f->out[0], f->out[1]));
		CHECK(same(f->scratch[0], f->scratch[1]));
	}
	if (test_bad)
		printf("seed %llu %s\n", (unsigned long long)seed, dev_sim_fault());
	dev_sim.unload(code);
}

static struct fixture fix;

TEST(equals_the_interpreter)
{
	for (uint64_t seed = 1; seed <= 1500 && !test_bad; seed++) {
		fixture_open(&fix, seed);
		fix.t.regs = 64; /* random bodies keep many values alive */
		random_loops(&fix);
		compare(&fix, seed);
		arena_free(&fix.a);
	}
}

/* Runs one schedule of a task on both. Returns 0 if the simulator refuses it. */
static int compare_kernel(struct kcase *c, const struct target *t, struct rng *r, bool standard)
{
	struct space *sp;
	struct loops *l;
	struct manifest m;
	struct blob object;
	struct dev_code *code;
	char cand[CAND_MAX];
	void *bufs[2][CODE_MAX_BUFS];
	int64_t elems[CODE_MAX_BUFS];
	CHECK_OK(space_make(&c->a, &c->t, t, NULL, &sp));
	if (test_bad)
		return 0;
	space_default(sp, cand);
	if (!standard && space_random(sp, r, cand) < 0)
		return 0;
	if (lower(&c->t, cand, t, &c->a, &l, &m) < 0 || emit_sim.emit(l, t, &c->a, &object) < 0)
		return 0;
	CHECK_OK(dev_sim.load(object.p, object.n, &code));
	for (int i = 0; i < 2; i++)
		case_bind(c, &m, bufs[i], elems);
	for (int b = 0; b < m.nbufs; b++) /* the second run has its own outputs and scratch */
		if (m.buf[b].role == BUF_OUT)
			bufs[1][b] = arena_memdup(&c->a, bufs[0][b], (size_t)elems[b] * 4);
	dev_sim_reset(0, 1, 0);
	for (int e = 0; e < m.nentries; e++) {
		int64_t n = code_extent(&m, e, m.param);
		CHECK_OK(loops_run(l, e, bufs[0], m.param, 0, n));
		dev_sim.run(code, e, bufs[1], m.param, 0, n);
	}
	CHECK(!strcmp(dev_sim_fault(), ""));
	for (int b = 0; b < m.nbufs; b++)
		for (int64_t i = 0; m.buf[b].role == BUF_OUT && i < elems[b] && !test_bad; i++) {
			float x = ((float *)bufs[0][b])[i], y = ((float *)bufs[1][b])[i];
			CHECK(!memcmp(&x, &y, sizeof x) || (isnan(x) && isnan(y)));
		}
	if (test_bad)
		printf("%s\n%s\n", cand, dev_sim_fault());
	dev_sim.unload(code);
	return 1;
}

/* The same for lowered kernels: default and random schedules of random tasks. */
TEST(equals_the_interpreter_on_kernels)
{
	struct rng r;
	struct target t;
	rng_seed(&r, 77);
	dev_sim.probe(&t);
	int compared = 0;
	for (int i = 0; i < 300 && !test_bad; i++) {
		struct buf text = {0};
		struct kcase c;
		case_text(&text, &r);
		REQUIRE_OK(case_parse(&c, buf_str(&text), &r));
		compared += compare_kernel(&c, &t, &r, i % 3 == 0);
		if (test_bad)
			printf("case %d: %s\n", i, buf_str(&text));
		buf_free(&text);
		arena_free(&c.a);
	}
	CHECK(compared > 200);
}

/* Sum of in[i] * in[i + 1] over n, in `unroll` accumulators, as a register tile computes it. */
static void dot(struct fixture *f, int n, int unroll)
{
	struct loops *l = &f->l;
	const struct ix *i;
	int acc[32], a[32];
	loops_entry(l, ix_c(l, 8));
	for (int u = 0; u < unroll; u++) {
		acc[u] = lv_new(l, 4);
		a[u] = lv_new(l, 4);
		lv_const(l, acc[u], 0);
	}
	struct stmt *s = for_begin(l, ix_c(l, 0), ix_c(l, n), 4 * unroll, true, &i);
	for (int u = 0; u < unroll; u++) {
		lv_load(l, a[u], (struct mem){.buf = 0, .at = ix_add(l, i, ix_c(l, 4 * u)), .stride = 1});
		lv_set(l, acc[u], V_FMA, a[u], a[u], acc[u], 0);
	}
	for_end(l, s);
	for (int u = 0; u < unroll; u++)
		lv_store(l, acc[u], (struct mem){.buf = 1, .at = ix_c(l, 4 * u), .stride = 1});
	loops_entry_end(l);
}

static int64_t cost_of_dot(int n, int unroll, int regs)
{
	struct blob object;
	struct dev_code *code;
	const int64_t param[1] = {8};
	fixture_open(&fix, 1);
	dot(&fix, n, unroll);
	fix.t.regs = regs;
	void *bufs[] = {fix.in, fix.out[0], fix.table, fix.scratch[0]};
	CHECK_OK(emit_sim.emit(&fix.l, &fix.t, &fix.a, &object));
	if (test_bad || dev_sim.load(object.p, object.n, &code) < 0)
		return 0;
	int64_t before = clock_now(dev_sim.clock());
	dev_sim.run(code, 0, bufs, param, 0, 8);
	int64_t cost = clock_now(dev_sim.clock()) - before;
	dev_sim.run(code, 0, bufs, param, 0, 8);
	CHECK(clock_now(dev_sim.clock()) - before == 2 * cost); /* the same run costs the same */
	dev_sim.unload(code);
	arena_free(&fix.a);
	return cost;
}

TEST(costs_are_like_a_machine)
{
	int64_t one = cost_of_dot(1536, 1, 16), four = cost_of_dot(1536, 4, 16),
		eight = cost_of_dot(1536, 8, 16);
	CHECK(one > 2 * four); /* latency bound */
	CHECK(eight < four + four / 10);
	CHECK(cost_of_dot(3072, 8, 16) > eight * 3 / 2); /* more work */
	CHECK(cost_of_dot(1536, 8, 4) > eight);          /* spills */
}

TEST(spills_are_refused)
{
	struct blob object;
	fixture_open(&fix, 1);
	dot(&fix, 1536, 8);
	fix.t.regs = 0;
	CHECK_FAILS(emit_sim.emit(&fix.l, &fix.t, &fix.a, &object), E_SPILL, "spill: ");
	arena_free(&fix.a);
}

TEST(noise_is_seeded)
{
	struct blob object;
	struct dev_code *code;
	const int64_t param[1] = {8};
	int64_t at[3];
	fixture_open(&fix, 1);
	dot(&fix, 1536, 4);
	void *bufs[] = {fix.in, fix.out[0], fix.table, fix.scratch[0]};
	REQUIRE_OK(emit_sim.emit(&fix.l, &fix.t, &fix.a, &object));
	REQUIRE_OK(dev_sim.load(object.p, object.n, &code));
	for (int i = 0; i < 3; i++) {
		dev_sim_reset(5, i == 2 ? 10 : 9, 0.05);
		for (int k = 0; k < 10; k++)
			dev_sim.run(code, 0, bufs, param, 0, 8);
		at[i] = clock_now(dev_sim.clock());
	}
	CHECK(at[0] == at[1] && at[0] != at[2]);
	dev_sim.unload(code);
	arena_free(&fix.a);
}

/* Flipped and cut objects are refused, or run without harm. */
TEST(hostile_objects)
{
	enum { INS = 28 };
	struct blob object;
	const int64_t param[1] = {8};
	const size_t head = 36 + 24 * 2;
	fixture_open(&fix, 12);
	fix.t.regs = 64;
	random_loops(&fix);
	void *bufs[] = {fix.in, fix.out[0], fix.table, fix.scratch[0]};
	REQUIRE_OK(emit_sim.emit(&fix.l, &fix.t, &fix.a, &object));
	uint8_t *bytes = arena_memdup(&fix.a, object.p, object.n);
	struct dev_code *code;
	for (size_t n = 0; n < object.n; n += 7)
		CHECK(dev_sim.load(bytes, n, &code) == E_CORRUPT);
	int ran = 0;
	for (int i = 0; i < 3000; i++) {
		size_t at = rng_below(&fix.rng, (uint32_t)object.n),
		       in_ins = at < head ? 0 : (at - head) % INS;
		uint8_t old = bytes[at], op = at < head ? 0 : bytes[at - in_ins];
		bytes[at] ^= (uint8_t)(1 << rng_below(&fix.rng, 8));
		struct vm *vm;
		/* The object itself states the sizes of its buffers: a flip in code that computes them would
			 * misstate memory. */
		bool honest = op >= VM_FOR && in_ins > 0;
		if (vm_load(bytes, object.n, &vm) >= 0) {
			int64_t cost;
			ran += honest && vm_run(vm, 0, bufs, param, 0, 2, &cost) >= 0;
			vm_free(vm);
		}
		bytes[at] = old;
	}
	CHECK(ran > 100);
	arena_free(&fix.a);
}

static struct vm_ins ins(int op, int dst, int a, int b)
{
	return (struct vm_ins){.op = (uint8_t)op,
			       .lanes = 4,
			       .src = 4,
			       .dst = (uint16_t)dst,
			       .a = (uint16_t)a,
			       .b = (uint16_t)b,
			       .c = VM_NONE,
			       .d = VM_NONE};
}

/* Assembles one entry of n instructions and runs it on a buffer of 8 elements. */
static int run_code(struct vm_ins *code, uint32_t n, float *buf)
{
	struct vm_object o = {
	    .nbufs = 1, .nentries = 1, .nints = 8, .nvecs = 2, .regs = 16, .ncode = n, .code = code};
	struct buf bytes = {0};
	struct vm *vm;
	int64_t cost;
	snprintf(o.entry[0].symbol, sizeof o.entry[0].symbol, "k0");
	o.entry[0].count = n;
	vm_encode(&o, &bytes);
	int rc = vm_load(bytes.p, bytes.n, &vm);
	buf_free(&bytes);
	if (rc < 0)
		return rc;
	void *bufs[] = {buf};
	rc = vm_run(vm, 0, bufs, NULL, 0, 1, &cost);
	CHECK(cost > 0);
	vm_free(vm);
	return rc;
}

TEST(accesses_are_checked)
{
	float buf[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	struct vm_ins code[] = {ins(VM_ICONST, 2, 0, 0), ins(VM_EXTENT, 0, 2, 0), ins(VM_ICONST, 3, 0, 0),
				ins(VM_LOAD, 0, 3, 0), ins(VM_STORE, 0, 3, 0)};
	code[0].imm = 8;
	code[3].imm = code[4].imm = 1;
	for (int at = -2; at < 12; at++) {
		code[2].imm = at;
		CHECK((run_code(code, 5, buf) == E_OK) == (at >= 0 && at <= 4));
	}
	code[2].imm = 7;
	code[3].imm = -2;
	CHECK_OK(run_code(code, 4, buf));
	code[3].imm = -3;
	CHECK_FAILS(run_code(code, 4, buf), E_CORRUPT, "element -2 of buffer 0");
	code[2].imm = INT64_MAX;
	CHECK_FAILS(run_code(code, 4, buf), E_CORRUPT, "element 9223372036854775807");
	code[1].b = 3;
	CHECK_FAILS(run_code(code, 5, buf), E_CORRUPT, "bad instruction 1");
	code[1].b = 0;
	code[3].lanes = 5;
	CHECK_FAILS(run_code(code, 5, buf), E_CORRUPT, "bad instruction 3");
	/* Loops must meet their end; jumps stay inside. */
	struct vm_ins loop[] = {ins(VM_FOR, 2, 0, 1), ins(VM_ICONST, 3, 0, 0), ins(VM_NEXT, 0, 0, 0)};
	loop[0].imm = 1;
	loop[0].x = loop[2].x = 2;
	CHECK_OK(run_code(loop, 3, buf));
	loop[0].x = 1;
	CHECK_FAILS(run_code(loop, 3, buf), E_CORRUPT, "bad instruction 0");
	struct vm_ins jump[] = {ins(VM_JUMP, 0, 0, 0)};
	jump[0].x = 1;
	CHECK_FAILS(run_code(jump, 1, buf), E_CORRUPT, "bad instruction 0");
}

TEST_MAIN
