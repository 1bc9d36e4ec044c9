/* SPDX-License-Identifier: Apache-2.0 */
/* Runs networks whose kernels multiply 16-bit floats wherever a schedule of level half-sum does, and compares
 * them with the outputs of other runtimes. A search keeps such kernels only where they are faster, which they
 * are not under emulation, so this test chooses them itself. The real worker makes and checks them, and the
 * plan finds them in a cache as after a search. HALVES: names of networks; five if it is not set.
 * HALVES_CACHE: the folder of that cache, which then stays. */
#include "agent/cache/chosen.h"
#include "agent/cache/kept_code.h"
#include "agent/run/source.h"
#include "agent/worker/wire.h"
#include "kernels/space/space.h"
#include "kernels/task/task_stage.h"
#include "tests/lib/onnx_data.h"
#include "tools/hone/onnx_case.h"

enum { DRAWS = 400, TRIES = 4 };

struct lab {
	struct target target;
	struct pool *pool;
	struct runner *worker;
	struct cache *cache;
	struct rng r;
	int halves;  /* kernels of the network that multiply 16-bit floats */
	int others;  /* other kernels of tasks */
	int refused; /* candidates that the worker refused because their answer is wrong */
};

/* The next candidate of the portfolio, then at random, that multiplies 16-bit floats. */
static bool draw(struct lab *l, const struct space *s, int *rule, char cand[CAND_MAX])
{
	while (*rule >= 0) {
		if (space_portfolio(s, rule, cand) < 0)
			*rule = -1;
		else if (cand_pairs(cand))
			return true;
	}
	for (int i = 0; i < DRAWS; i++)
		if (space_random(s, &l->r, cand) >= 0 && cand_pairs(cand))
			return true;
	return false;
}

static int keep(struct lab *l, const char *text, const char *cand, int handle, struct arena *a)
{
	struct code code;
	struct blob bytes;
	struct rec r = {.task = hash_text(text),
			.kind = REC_BEST,
			.target_key = target_key(&l->target),
			.threads = l->target.cores,
			.level = LEVEL_HALF_SUM,
			.meas = {.runs = 9, .min_ns = 1000, .median_ns = 1000, .threads = l->target.cores},
			.task_text = text,
			.label = "task"};
	int rc = l->worker->ops->code(l->worker, handle, INT64_MAX, a, &bytes);
	if (rc >= 0)
		rc = code_parse(bytes.p, bytes.n, a, &code);
	if (rc < 0)
		return rc;
	target_label(&l->target, r.target);
	snprintf(r.device, sizeof r.device, "%s", target_device(&l->target));
	snprintf(r.emitter, sizeof r.emitter, "%s", code.m.version);
	snprintf(r.cand, sizeof r.cand, "%s", cand);
	rc = kept_code_put(l->cache, &r, bytes);
	return rc < 0 ? rc : cache_put_rec(l->cache, &r);
}

/* Puts a kernel with products of 16-bit floats into the cache, if the task has such schedules. */
static int make_half(struct lab *l, const struct task *t, const char *text)
{
	const struct space_want want = {.level = LEVEL_HALF_SUM, .threads = l->target.cores};
	char cand[CAND_MAX];
	struct arena a = {0};
	struct space *s;
	struct meas m = {0};
	int rule = 0, handle = -1, rc = space_make(&a, t, &l->target, &want, &s);
	for (int i = 0; i < TRIES && rc >= 0 && handle < 0 && draw(l, s, &rule, cand); i++) {
		rc = l->worker->ops->build(l->worker, text, cand, INT64_MAX, &handle, &m);
		l->refused += rc >= 0 && handle < 0 && m.status == MEAS_WRONG;
		if (rc >= 0 && handle < 0)
			printf("%s: %s\n", meas_status_name(m.status), cand);
	}
	if (rc >= 0 && handle >= 0) {
		rc = keep(l, text, cand, handle, &a);
		l->worker->ops->drop(l->worker, handle, INT64_MAX);
	}
	arena_free(&a);
	return rc;
}

static int make_halves(struct lab *l, const struct steps *s)
{
	struct arena a = {0};
	struct step_task *task;
	int n = steps_tasks(s, &a, &task), rc = n < 0 ? n : E_OK;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = make_half(l, task[i].task, task[i].text);
	arena_free(&a);
	return rc;
}

static void count_kernels(struct lab *l, const struct plan *p, const struct steps *s)
{
	const struct plan_kernel *k;
	int n = plan_kernels(p, &k);
	l->halves = l->others = 0;
	for (int i = 0; i < n; i++) {
		bool half = k[i].origin == FROM_CACHE && k[i].pairs;
		l->halves += half;
		l->others += !half && s->step[k[i].step].kind == STEP_TASK;
	}
}

static int run_plan(void *ctx, struct graph *g, const struct tensor *in, struct tensor *out, struct arena *a)
{
	struct lab *l = ctx;
	const struct chosen_for f = {l->cache, &l->target, l->target.cores, LEVEL_HALF_SUM};
	struct kernel_source src = {0};
	struct choices chosen;
	struct steps *s;
	struct plan *p = NULL;
	int rc = chosen_steps(&f, g, a, &chosen, &s);
	if (rc >= 0)
		rc = make_halves(l, s);
	if (rc >= 0)
		rc = cache_source(l->cache, &l->target, l->target.cores, LEVEL_HALF_SUM, REC_BEST, &src);
	if (rc >= 0)
		rc = plan_build(g, s, &l->target, &src, l->pool, &p);
	for (int i = 0; i < g->noutputs && rc >= 0; i++) {
		const struct tensor *x = &g->value[g->output[i]].t;
		rc = tensor_alloc(a, x->dtype, &x->shape, &out[i]);
	}
	if (rc >= 0)
		rc = plan_run(p, in, out);
	if (rc >= 0)
		count_kernels(l, p, s);
	plan_free(p);
	if (src.ctx)
		cache_source_free(&src);
	return rc;
}

static void check_network(struct lab *l, const char *name)
{
	const struct case_runner run = {run_plan, l};
	char path[512], why[512] = "";
	double worst = 0;
	l->halves = l->others = l->refused = 0;
	snprintf(path, sizeof path, "%s/models/%s", test_data(), name);
	enum case_result r = case_check(path, &run, case_gate_of(LEVEL_HALF_SUM, false), why, &worst);
	printf("%-22s %d kernels with products of 16-bit floats, %d others, error %.1e %s\n", name, l->halves,
	       l->others, worst, why);
	CHECK(r == CASE_PASSED);
	CHECK(l->halves > 0 && l->refused == 0);
	CHECK(worst > 1e-6); /* so small an error would be that of 32-bit floats */
}

static int open_lab(struct lab *l, const char *dir)
{
	int rc = target_host(&l->target);
	if (rc >= 0)
		rc = pool_open(&l->pool, l->target.cores, NULL);
	if (rc >= 0)
		rc = runner_worker(NULL, "cpu", &l->target, l->target.cores, &l->worker);
	if (rc >= 0)
		rc = cache_open(&l->cache, dir, false, 0);
	return rc;
}

static void close_lab(struct lab *l)
{
	if (l->cache)
		cache_close(l->cache);
	if (l->worker)
		l->worker->ops->close(l->worker);
	if (l->pool)
		pool_close(l->pool);
}

TEST(halves)
{
	static struct lab lab;
	const char *dir = getenv("HALVES_CACHE"), *of = getenv("HALVES");
	char names[512], *at = names;
	snprintf(names, sizeof names, "%s",
		 of ? of : "mnist_8 policy_go1 wml_image_classifier dtln_1 pulp_dronet_v2");
	if (!test_data())
		SKIP("no data folder (set HONE_DATA)");
	REQUIRE_OK(target_host(&lab.target));
	if (!target_sums_f16(&lab.target) && !target_multiplies_bf16(&lab.target))
		SKIP("this processor has no products of 16-bit floats");
	setenv("HONE_SEEDS", "", 1);
	rng_seed(&lab.r, 7);
	CHECK_OK(open_lab(&lab, dir ? dir : onnx_tmp_dir()));
	for (char *name; lab.cache && (name = strsep(&at, " "));)
		check_network(&lab, name);
	close_lab(&lab);
}

TEST_MAIN
