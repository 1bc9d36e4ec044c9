/* SPDX-License-Identifier: Apache-2.0 */
/* Random integer tasks as machine code: convolutions (dense, grouped, depthwise also by dot
 * products), products, maps, pools, chains, the largest sums, and the tasks of random quantised networks, each with its default schedule and
 * with random ones. Code for Arm runs on emulated processors, code for x86-64 on this one. Each byte equals
 * the reference's; floats, which some tasks write, are near it. Tasks at level half-sum: products that are
 * summed in f16; their results are those of the interpreter bit for bit, and near the reference. A failing
 * seed is printed: SEED=n runs only
 * that seed, SEEDS=n changes the number of tasks for each processor; make t/llvm_tasks CASE=a53 runs one
 * processor. */
#include "kernels/emit/emit.h"
#include "kernels/graph/optimize.h"
#include "kernels/group/group.h"
#include "kernels/onnx/import.h"
#include "kernels/space/mmla.h"
#include "platform/run/dev.h"
#include "platform/run/pool.h"
#include "tests/lib/arm_programs.h"
#include "tests/lib/byte_cases.h"
#include "tests/lib/integer_net.h"

enum { TASKS = 20, BATCH = 24, CANDS = 3, PROGRAMS = BATCH * CANDS, ALIGN = 64 };

/* A processor to compile for; board NULL: this machine's. */
struct processor {
	const char *name;
	struct target t;
	const struct arm_board *board;
	enum level level;
	bool blocks;                         /* products of matrices of bytes, in all tasks that have them */
	int mmla;                            /* kernels with them */
	int halves;                          /* kernels that sum in f16 */
	double worst;                        /* their largest error */
	int tasks, floats, kernels, spilled; /* counts for the summary; floats: tasks that write f32 */
};

/* A kernel of a task of the batch. */
struct kernel {
	struct kcase *c;
	uint64_t seed;
	struct manifest m;
	char cand[CAND_MAX];
	double tolerance; /* of floats */
	char *want;       /* the memory as the interpreter leaves it; NULL: not interpreted */
	int64_t elems[CODE_MAX_BUFS];
	struct arm_program p;
};

static struct kcase cases[BATCH];
static struct kernel kernels[PROGRAMS];
static struct arena objects;
static int ncases, nkernels;

static void free_batch(void)
{
	for (int i = 0; i < ncases; i++)
		arena_free(&cases[i].a);
	ncases = nkernels = 0;
}

/* ---- tasks ---- */

/* A task of a random quantised network, by QDQ or by Integer operators. */
static void net_text(const struct target *t, uint64_t seed, struct rng *r, struct buf *text)
{
	struct byte_net net;
	struct integer_net other;
	bool integer = seed % 8 == 2;
	struct graph *g;
	struct steps *s;
	struct arena a = {0};
	struct choices c = {0};
	const struct import_opts none = {0};
	const struct task *found = NULL;
	struct blob b =
	    integer ? integer_net(&other, seed) : byte_net(&net, seed, &(struct byte_net_size){0});
	choices_set(&c, &a, CHOICE_BYTES, CHOICE_ALL, 1);
	REQUIRE_OK(import_bytes(b.p, b.n, ".", &none, &g));
	REQUIRE_OK(graph_optimize(g));
	REQUIRE_OK(graph_steps(g, t, &c, &a, &s));
	for (int i = 0, n = 0; i < s->nsteps; i++) /* each is as likely */
		if (s->step[i].kind == STEP_TASK && !s->step[i].fused && rng_below(r, (uint32_t)++n) == 0)
			found = s->step[i].task;
	if (found)
		task_text(found, text);
	else /* the weights do not allow a task */
		byte_text(text, r);
	graph_free(g);
	arena_free(&a);
	arena_free(integer ? &other.m.k.a : &net.k.a);
}

/* Half of the tasks have sums that are long enough to be made in parts. */
static void half_text(struct buf *b, struct rng *r)
{
	int m = pick(r, 1, 9), n = pick(r, 8, 70), k = 2 * pick(r, 1, 400);
	switch (rng_below(r, 4)) {
	case 0:
		paired_conv(b, r, 80);
		break;
	case 1:
		buf_printf(b,
			   "task syms=0\noperand X in f32 [%d,%d] plain\noperand W const f32 [%d,%d] plain\n"
			   "operand Y out f32 [%d,%d] plain\nstage m:%d n:%d | k:%d\nread X [m,k]\n"
			   "read W [n,k]\nbody r0 r1 mul\nsum\nwrite Y [m,n]\n",
			   m, k, n, k, m, n, m, n, k);
		break;
	default:
		products_text(b, r);
	}
}

static void make_half(uint64_t seed, struct kcase *c)
{
	struct rng r;
	struct buf text = {0};
	rng_seed(&r, seed);
	half_text(&text, &r);
	CHECK_OK(case_parse(c, buf_str(&text), &r));
	CHECK_OK(case_round(c, true));
	buf_free(&text);
}

/* Whether some stage of the task may have products of matrices. */
static bool has_blocks(const char *text)
{
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	CHECK_OK(task_parse(text, t));
	const struct task *groups = task_groups(&a, t);
	bool any = false;
	for (int i = 0; i < groups->nstages; i++)
		any |= mmla_possible(groups, &groups->stage[i]);
	arena_free(&a);
	return any;
}

static void make_products(uint64_t seed, struct kcase *c)
{
	struct rng r;
	struct buf text = {0};
	rng_seed(&r, seed);
	for (int i = 0; i < 16 && (!i || !has_blocks(buf_str(&text))); i++) {
		text.n = 0;
		byte_products_text(&text, &r);
	}
	CHECK_OK(case_parse(c, buf_str(&text), &r));
	buf_free(&text);
}

static void make_case(const struct target *t, uint64_t seed, struct kcase *c)
{
	struct rng r;
	struct buf text = {0};
	if (seed % 8 == 1) {
		largest_case(c, (int)(seed / 8 % LARGEST));
		return;
	}
	rng_seed(&r, seed);
	if (seed % 4 == 2)
		net_text(t, seed, &r, &text);
	else if (seed % 8 == 5)
		byte_rows_text(&text, &r);
	else
		byte_text(&text, &r);
	CHECK_OK(case_parse(c, buf_str(&text), &r));
	buf_free(&text);
}

/* ---- kernels ---- */

/* Gives each buffer its place in the kernel's memory, with canaries around it, and writes the memory. */
static char *make_memory(struct kernel *k, void *const *bufs)
{
	size_t at = SLACK * 4;
	for (int i = 0; i < k->m.nbufs; i++) {
		k->p.at[i] = at;
		at += (size_t)(k->elems[i] * case_each(k->c, &k->m.buf[i])) + 2 * SLACK * 4;
		at = (at + ALIGN - 1) / ALIGN * ALIGN;
	}
	k->p.bytes = at;
	char *memory = arena_aligned(&k->c->a, at, ALIGN);
	for (size_t i = 0; i < at; i += 4)
		memcpy(memory + i, &CANARY, 4);
	for (int i = 0; i < k->m.nbufs; i++)
		memcpy(memory + k->p.at[i], bufs[i], (size_t)(k->elems[i] * case_each(k->c, &k->m.buf[i])));
	return memory;
}

static int set_entries(struct kernel *k)
{
	k->p.nentries = k->m.nentries;
	k->p.nbufs = k->m.nbufs;
	k->p.nparams = k->m.nparams;
	k->p.params = k->m.param;
	for (int e = 0; e < k->m.nentries; e++)
		if ((k->p.extent[e] = code_extent(&k->m, e, k->m.param)) < 0)
			return (int)k->p.extent[e];
	return E_OK;
}

static bool bad_kernel(const struct processor *p, const struct kernel *k, const char *what)
{
	struct buf text = {0};
	task_text(&k->c->t, &text);
	printf("%s, seed %llu: %s\n%s\n%s", p->name, (unsigned long long)k->seed, what, k->cand,
	       buf_str(&text));
	buf_free(&text);
	test_bad = 1;
	return false;
}

/* Whether floats are those of the interpreter; NaNs are one class. */
static bool as_interpreted(const struct kernel *k, int buf, const char *memory)
{
	const float *got = (const void *)(memory + k->p.at[buf]),
		    *want = (const void *)(k->want + k->p.at[buf]);
	for (int64_t i = 0; i < k->elems[buf]; i++)
		if (memcmp(&got[i], &want[i], 4) != 0 && !(isnan(got[i]) && isnan(want[i])))
			return false;
	return true;
}

static void note_error(struct processor *p, const struct kernel *k, double error)
{
	if (cand_pairs(k->cand) == DT_F16 && error > p->worst)
		p->worst = error;
}

/* Checks the memory that the kernel left. */
static bool check(struct processor *p, const struct kernel *k, const char *memory)
{
	for (int i = 0; i < k->m.nbufs; i++) {
		const struct code_buf *b = &k->m.buf[i];
		const char *data = memory + k->p.at[i];
		if (!intact_type(data, k->elems[i], case_each(k->c, b)))
			return bad_kernel(p, k, "wrote outside of a buffer");
		if (b->role == BUF_OUT && k->want && !as_interpreted(k, i, memory))
			return bad_kernel(p, k, "emitted code and interpreter differ");
		if (b->role == BUF_OUT && case_error(k->c, data) > k->tolerance)
			return bad_kernel(p, k, "reference differs");
		if (b->role == BUF_OUT)
			note_error(p, k, case_error(k->c, data));
	}
	return true;
}

static bool run_here(struct processor *p, const struct kernel *k, const struct blob *o, char *memory)
{
	const struct dev *dev = dev_find("cpu");
	struct dev_code *code;
	void *bufs[CODE_MAX_BUFS];
	if (dev->load(o->p, o->n, &code) < 0)
		return bad_kernel(p, k, err_text());
	for (int i = 0; i < k->m.nbufs; i++)
		bufs[i] = memory + k->p.at[i];
	unsigned fpu = fpu_flush();
	for (int e = 0; e < k->m.nentries; e++) {
		int64_t extent = k->p.extent[e];
		dev->run(code, e, bufs, k->m.param, 0, extent / 2);
		dev->run(code, e, bufs, k->m.param, extent / 2, extent);
	}
	fpu_restore(fpu);
	dev->unload(code);
	return check(p, k, memory);
}

/* Interprets the kernel on a copy of its memory. */
static bool interpret(const struct processor *p, struct kernel *k, const struct loops *l, const char *memory)
{
	void *bufs[CODE_MAX_BUFS];
	int rc = E_OK;
	k->want = arena_aligned(&k->c->a, k->p.bytes, ALIGN);
	memcpy(k->want, memory, k->p.bytes);
	for (int i = 0; i < k->m.nbufs; i++)
		bufs[i] = k->want + k->p.at[i];
	for (int e = 0; e < k->m.nentries && rc >= 0; e++)
		rc = loops_run(l, e, bufs, k->m.param, 0, k->p.extent[e]);
	return rc >= 0 || bad_kernel(p, k, err_text());
}

/* Whether code for Arm has SMMLA or USMMLA. */
static bool has_mmla(const struct blob *o)
{
	for (size_t i = 0; i + 4 <= o->n; i += 4) {
		uint32_t word;
		memcpy(&word, (const char *)o->p + i, 4);
		if ((word & 0xffe0f400) == 0x4e80a400)
			return true;
	}
	return false;
}

/* Compiles a candidate as the batch's next kernel, and runs it if it is for this machine. */
static bool make_kernel(struct processor *p, struct kernel *k, FILE *input)
{
	struct arena *a = &k->c->a;
	struct loops *l;
	struct blob o;
	void *bufs[CODE_MAX_BUFS];
	if (lower(&k->c->t, k->cand, &p->t, a, &l, &k->m) < 0 || loops_check(l) < 0 || set_entries(k) < 0)
		return bad_kernel(p, k, err_text());
	if (p->board)
		arm_name(l, nkernels);
	arena_reset(&objects);
	int rc = emit_find("llvm")->emit(l, &p->t, &objects, &o);
	if (rc < 0 && rc != E_SPILL)
		return bad_kernel(p, k, err_text());
	p->spilled += rc == E_SPILL; /* such code is whole */
	bool mmla = strstr(k->cand, "mmla=1") != NULL;
	if (target_multiplies_blocks(&p->t) && mmla != has_mmla(&o))
		return bad_kernel(p, k, "MMLA instructions that do not belong there, or none");
	p->mmla += mmla;
	p->kernels++;
	case_bind_in(k->c, a, &k->m, bufs, k->elems);
	char *memory = make_memory(k, bufs);
	p->halves += k->m.sums == DT_F16;
	if (p->level == LEVEL_HALF_SUM && !interpret(p, k, l, memory))
		return false;
	if (!p->board)
		return run_here(p, k, &o, memory);
	arm_put_object(p->board, nkernels, &o, input);
	CHECK(fwrite(memory, 1, k->p.bytes, input) == k->p.bytes);
	nkernels++;
	return true;
}

/* Returns the greatest error of a kernel that sums in f16, relative to its largest result, or to 1 if its
 * results are hyperbolic tangents. */
static double half_tolerance(const struct task *t)
{
	const struct prog *post = &t->stage[t->nstages - 1].post;
	for (int i = 0; i < post->n; i++)
		if (post->at[i].op == P_TANH)
			return 1e-1;
	return 1e-2;
}

static bool make_task(struct processor *p, uint64_t seed, FILE *input)
{
	struct kcase *c = &cases[ncases];
	const struct space_want want = {.level = p->level};
	struct space *s;
	struct rng r;
	int first = 0;
	if (p->level == LEVEL_HALF_SUM)
		make_half(seed, c);
	else if (p->blocks)
		make_products(seed, c);
	else
		make_case(&p->t, seed, c);
	if (test_bad)
		return false;
	int out = c->t.stage[c->t.nstages - 1].out.operand;
	bool floats = c->t.operand[out].dtype == DT_F32;
	ncases++;
	p->tasks++;
	p->floats += floats;
	CHECK_OK(space_make(&c->a, &c->t, &p->t, &want, &s));
	rng_seed(&r, seed);
	for (int i = 0; i < CANDS && !test_bad; i++) {
		struct kernel *k = &kernels[nkernels];
		*k = (struct kernel){.c = c, .seed = seed};
		if (p->level != LEVEL_HALF_SUM || space_portfolio(s, &first, k->cand) < 0)
			space_default(s, k->cand);
		if (i && p->blocks)
			byte_cand(s, &r, "mmla=1", k->cand);
		else if (i && space_random(s, &r, k->cand) < 0)
			return bad_kernel(p, k, err_text());
		k->tolerance = cand_pairs(k->cand) ? half_tolerance(&c->t)
			       : floats            ? case_tolerance("", k->cand)
						   : 0;
		if (!make_kernel(p, k, input))
			return false;
	}
	return !test_bad;
}

/* ---- processors ---- */

static void check_batch(struct processor *p, const struct arm_program *programs)
{
	if (!arm_run(p->board, programs, nkernels)) {
		printf("%s: seeds %llu to %llu did not run\n", p->name, (unsigned long long)kernels[0].seed,
		       (unsigned long long)kernels[nkernels - 1].seed);
		test_bad = 1;
		return;
	}
	FILE *out = arm_open("out", "rb");
	for (int i = 0; i < nkernels && !test_bad; i++) {
		char *memory = arena_aligned(&kernels[i].c->a, kernels[i].p.bytes, ALIGN);
		CHECK(fread(memory, 1, kernels[i].p.bytes, out) == kernels[i].p.bytes);
		check(p, &kernels[i], memory);
	}
	fclose(out);
}

static void run_batch(struct processor *p, uint64_t first, uint64_t end)
{
	static struct arm_program programs[PROGRAMS];
	FILE *input = p->board ? arm_open("in", "wb") : NULL;
	for (uint64_t seed = first; seed < end && !test_bad; seed++)
		make_task(p, seed, input);
	if (input)
		CHECK(fclose(input) == 0);
	for (int i = 0; i < nkernels; i++)
		programs[i] = kernels[i].p;
	if (nkernels && !test_bad)
		check_batch(p, programs);
	free_batch();
}

/* Each processor has other tasks. */
static void run_on(struct processor *p, int which)
{
	const char *from = getenv("SEED"), *count = getenv("SEEDS");
	uint64_t first = from ? strtoull(from, NULL, 0) : 1 + 100000 * (uint64_t)which,
		 end = first + (from    ? 1
				: count ? strtoull(count, NULL, 0)
					: TASKS);
	for (uint64_t at = first; at < end && !test_bad; at += BATCH)
		run_batch(p, at, at + BATCH < end ? at + BATCH : end);
	printf("%s: %d tasks (%d of them write floats), %d kernels (%d with spills)\n", p->name, p->tasks,
	       p->floats, p->kernels, p->spilled);
	if (p->level == LEVEL_HALF_SUM)
		printf("%s: %d kernels sum in f16, with errors up to %.1e\n", p->name, p->halves, p->worst);
	if (p->mmla)
		printf("%s: %d kernels with products of matrices\n", p->name, p->mmla);
	CHECK(test_bad || from || p->kernels == CANDS * p->tasks);
	CHECK(test_bad || from || !p->blocks || 2 * p->mmla > p->kernels);
	CHECK(test_bad || from || p->level != LEVEL_HALF_SUM ||
	      (target_sums_f16(&p->t) ? 3 * p->halves > p->kernels : p->halves == 0));
}

static void on_arm_at(int which, enum level level, bool blocks)
{
	struct processor p = {.name = arm_boards[which].name,
			      .board = &arm_boards[which],
			      .level = level,
			      .blocks = blocks};
	const char *missing = arm_missing();
	if (missing)
		SKIP(missing);
	arm_target(p.board, &p.t);
	REQUIRE(!test_bad);
	arm_begin();
	run_on(&p, which);
	arm_end();
}

static void on_arm(int which)
{
	on_arm_at(which, LEVEL_FP32, false);
}

static void on_x86(const char *isa, const char *extras, int which)
{
	struct processor p = {.name = *extras ? "x86-64-v4 with VNNI" : isa};
	struct target here;
	REQUIRE(dev_find("cpu")->probe(&here) == 1);
	REQUIRE_OK(target_baseline(isa, &p.t));
	strcat(p.t.features, extras);
	if (!target_runs(&here, &p.t) || !target_has(&here, extras))
		SKIP("this machine does not run such code");
	run_on(&p, which);
}

TEST(cortex_a53)
{
	on_arm(0);
}

TEST(cortex_a72)
{
	on_arm(1);
}

TEST(cortex_a76)
{
	on_arm(2);
}

TEST(half_sum_on_cortex_a76)
{
	on_arm_at(2, LEVEL_HALF_SUM, false);
}

TEST(arm_max)
{
	on_arm(3);
}

TEST(half_sum_on_arm_max)
{
	on_arm_at(3, LEVEL_HALF_SUM, false);
}

TEST(products_of_matrices_on_arm_max)
{
	on_arm_at(3, LEVEL_FP32, true);
}

/* There it is level half. */
TEST(half_sum_on_cortex_a72)
{
	on_arm_at(1, LEVEL_HALF_SUM, false);
}

TEST(armv7)
{
	on_arm(4);
}

TEST(loaded_armv7)
{
	on_arm(5);
}

TEST(loaded_a53)
{
	on_arm(6);
}

TEST(x86_64_v2)
{
	on_x86("x86-64-v2", "", 7);
}

TEST(x86_64_v3)
{
	on_x86("x86-64-v3", "", 8);
}

TEST(x86_64_v4)
{
	on_x86("x86-64-v4", "", 9);
}

TEST(x86_64_v4_vnni)
{
	on_x86("x86-64-v4", ",+avx512vnni", 10);
}

TEST_MAIN
