/* SPDX-License-Identifier: Apache-2.0 */
/* Random networks around Pad (tests/lib/pad_net.h), of floats and of bytes: their tasks by the references,
 * and plans in portable C, on the fallback kernels, on default and on random schedules, give what the graph
 * gives before any pass. SEED=n makes one network, SEEDS=n changes their number. */
#include "agent/run/plan.h"
#include "kernels/emit/emit.h"
#include "kernels/graph/optimize.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"
#include "tests/lib/pad_net.h"
#include "tests/lib/ref_steps.h"

static struct target host;

enum kernels { PORTABLE, FALLBACK, COMPILED, TRIED };

struct maker {
	enum kernels kernels;
	struct rng rng;
	int made;
};

static int find_code(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		     enum kernel_origin *origin)
{
	struct maker *m = ctx;
	struct space *space;
	struct loops *l;
	char cand[CAND_MAX];
	(void)text;
	if (m->kernels < COMPILED || space_make(a, t, &host, NULL, &space) < 0)
		return E_NOTFOUND;
	space_default(space, cand);
	if (m->kernels == TRIED && space_random(space, &m->rng, cand) < 0)
		space_default(space, cand);
	int rc = lower(t, cand, &host, a, &l, &out->m);
	if (rc >= 0)
		rc = emit_find("llvm")->emit(l, &host, a, &out->object);
	m->made += rc >= 0;
	*origin = FROM_CACHE;
	return rc < 0 && rc != E_SPILL ? E_NOTFOUND : E_OK;
}

static bool check(uint64_t seed, const char *what, const struct tensor *got, const struct tensor *want)
{
	bool good =
	    shape_equal(&got->shape, &want->shape) && got->dtype == want->dtype && pad_near(got, want);
	if (!good)
		printf("seed %d, %s: the answer differs\n", (int)seed, what);
	CHECK(good);
	return good;
}

/* Number of tasks that read outside of an operand. */
static int count_tasks(const struct steps *s)
{
	int n = 0;
	for (int i = 0; i < s->nsteps; i++)
		for (int k = 0; s->step[i].kind == STEP_TASK && k < s->step[i].task->noperands; k++)
			n += s->step[i].task->operand[k].fill != 0;
	return n;
}

static void check_steps(uint64_t seed, enum dtype type, bool blocks, const struct tensor *want, int *tasks)
{
	static const int lanes[] = {16, 8, 4, 1};
	struct tensor in;
	struct graph *g = pad_net(seed, type, &in);
	struct target t = {.lanes = lanes[seed % 4], .regs = 32, .l1_bytes = 1 << 15, .l2_bytes = 1 << 10};
	struct ref_steps r = {.g = g, .blocks = blocks};
	struct choices c = {0};
	choices_set(&c, &r.a, CHOICE_BYTES, CHOICE_ALL, 1);
	CHECK_OK(graph_optimize(g));
	CHECK_OK(graph_steps(g, &t, &c, &r.a, &r.s));
	*tasks += count_tasks(r.s);
	if (!test_bad) {
		run_steps(&r, &in);
		check(seed, blocks ? "fused tasks" : "tasks", &r.plain[g->output[0]], want);
	}
	arena_free(&r.a);
	graph_free(g);
}

static void check_plan(uint64_t seed, enum dtype type, enum kernels kernels, const struct tensor *want)
{
	static const char *const names[] = {"portable C", "fallback kernels", "default schedules",
					    "random schedules"};
	static const int lanes[] = {8, 16, 1, 4};
	struct arena a = {0};
	struct tensor in, out;
	struct target t = host;
	struct steps *s;
	struct choices c = {0};
	struct plan *p = NULL;
	struct maker m = {.kernels = kernels};
	const struct kernel_source src = {.ctx = &m, .find = find_code};
	struct graph *g = pad_net(seed, type, &in);
	rng_seed(&m.rng, seed);
	if (kernels == PORTABLE)
		t = (struct target){.lanes = lanes[seed % 4]};
	else if (kernels == FALLBACK)
		CHECK_OK(target_baseline("x86-64-v3", &t));
	choices_set(&c, &a, CHOICE_BYTES, CHOICE_ALL, 1);
	CHECK_OK(graph_optimize(g));
	CHECK_OK(graph_steps(g, &t, &c, &a, &s));
	CHECK_OK(tensor_alloc(&a, want->dtype, &want->shape, &out));
	CHECK_OK(plan_build(g, s, &t, kernels >= COMPILED ? &src : NULL, NULL, &p));
	for (int run = 0; run < 2 && p; run++) /* the second run finds the memory as the first one left it */
		CHECK_OK(plan_run(p, &in, &out));
	check(seed, names[kernels], &out, want);
	plan_free(p);
	graph_free(g);
	arena_free(&a);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *v = getenv(name);
	return v ? (uint64_t)strtoull(v, NULL, 10) : otherwise;
}

static void check_all(enum dtype type, uint64_t nets, uint64_t compiled)
{
	struct target v3;
	int tasks = 0;
	uint64_t first = number("SEED", 1), n = number("SEEDS", getenv("SEED") ? 1 : nets);
	REQUIRE_OK(target_host(&host));
	REQUIRE_OK(target_baseline("x86-64-v3", &v3));
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		struct arena a = {0};
		struct tensor want;
		pad_answer(seed, type, &a, &want);
		check_steps(seed, type, false, &want, &tasks);
		check_steps(seed, type, true, &want, &tasks);
		check_plan(seed, type, PORTABLE, &want);
		if (target_runs(&host, &v3))
			check_plan(seed, type, FALLBACK, &want);
		bool compiles = n < nets || seed % (nets / compiled) == 0;
		check_plan(seed, type, compiles ? COMPILED : PORTABLE, &want);
		check_plan(seed, type, compiles ? TRIED : PORTABLE, &want);
		arena_free(&a);
	}
	printf("%d operands with a fill other than 0\n", tasks);
	CHECK(n < nets || type == DT_U8 ||
	      tasks > 20); /* bytes that are not signed have a least value of 0 */
}

TEST(networks_of_floats)
{
	check_all(DT_F32, 400, 50);
}

TEST(networks_of_u8)
{
	check_all(DT_U8, 100, 10);
}

TEST(networks_of_i8)
{
	check_all(DT_I8, 100, 10);
}

TEST_MAIN
