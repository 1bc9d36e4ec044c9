/* SPDX-License-Identifier: Apache-2.0 */
/* Compares every network with the outputs of other runtimes, within the fp32 gate: on fallback kernels, with
 * default schedules, and tuned in a short box, each with one thread and with all. The real worker makes,
 * checks and times the kernels. Networks are shared among as many processes as there are cores, the longest
 * first. */
#include "kernels/graph/optimize.h"
#include "tests/lib/onnx_data.h"
#include "agent/run/plan.h"
#include "agent/worker/wire.h"
#include "kernels/space/space.h"
#include "search/job.h"
#include "tools/hone/onnx_case.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { MODELS = 22, NETS = 25, MAX_KEPT = 1024, TUNED_TASKS = 12, TRIALS_EACH = 4, MAX_SHARDS = 16 };

#define BOX_NS (1500 * NS_PER_MS)

/* Code of a task: [0] with its default schedule, [1] the best for one thread, [2] for all threads. n 0:
 * none. */
struct kept {
	struct key task;
	bool asked; /* the default was requested */
	struct blob code[3];
};

/* What a process needs for its present network. */
struct lab {
	struct target target;
	int threads[2];
	struct pool *pool[2];
	struct runner *worker[2]; /* worker[i] measures with threads[i] */
	struct arena a;
	int nkept, refused; /* refused: number of defaults that could not be made */
	struct kept kept[MAX_KEPT];
};

/* Shared by the processes. */
struct shared {
	atomic_int next;      /* index of the next network */
	atomic_int fallbacks; /* number of fallback kernels that ran */
	atomic_int boxes;     /* boxes that had tasks */
	atomic_int tried;     /* candidates tried in them, without the defaults */
};

enum kernels { FALLBACK, DEFAULT, TUNED };

struct way {
	struct lab *lab;
	enum kernels kernels;
	int many;      /* index into threads, pool, worker */
	int origin[4]; /* kernels of the plan by enum kernel_origin */
	int boxes, tried;
};

static struct kept *find_kept(struct lab *l, struct key k)
{
	for (int i = 0; i < l->nkept; i++)
		if (key_equal(l->kept[i].task, k))
			return &l->kept[i];
	if (l->nkept == MAX_KEPT)
		return NULL;
	l->kept[l->nkept] = (struct kept){.task = k};
	return &l->kept[l->nkept++];
}

static int make_default(struct lab *l, const struct task *t, const char *text, struct blob *out)
{
	char cand[CAND_MAX];
	struct arena a = {0};
	struct space *s;
	struct meas m = {0};
	struct runner *w = l->worker[0];
	int handle = -1, rc = space_make(&a, t, &l->target, NULL, &s);
	if (rc >= 0) {
		space_default(s, cand);
		rc = w->ops->build(w, text, cand, INT64_MAX, &handle, &m);
	}
	arena_free(&a);
	if (rc >= 0 && handle < 0) {
		char label[96];
		task_label(t, label);
		printf("no kernel at the default schedule (%s): %s, %s\n", meas_status_name(m.status), label,
		       cand);
		l->refused++;
		return E_INFEASIBLE;
	}
	if (rc >= 0)
		rc = w->ops->code(w, handle, INT64_MAX, &l->a, out);
	if (handle >= 0)
		w->ops->drop(w, handle, INT64_MAX);
	return rc;
}

static int find(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		enum kernel_origin *origin)
{
	struct way *w = ctx;
	struct kept *k = w->kernels == FALLBACK ? NULL : find_kept(w->lab, hash_text(text));
	int rc = E_OK;
	if (!k)
		return E_NOTFOUND;
	const struct blob *best = &k->code[1 + w->many];
	if (w->kernels == TUNED && best->n) {
		*origin = FROM_CACHE;
		return code_parse(best->p, best->n, a, out);
	}
	if (!k->asked)
		rc = make_default(w->lab, t, text, &k->code[0]);
	k->asked = true;
	if (rc < 0 && rc != E_UNSUPPORTED && rc != E_INFEASIBLE)
		return rc;
	*origin = FROM_DEFAULT;
	return k->code[0].n ? code_parse(k->code[0].p, k->code[0].n, a, out) : E_NOTFOUND;
}

struct tuning {
	struct way *way;
	const struct step_task *task[TUNED_TASKS]; /* tasks of the job, in order */
	int trials_left, tried;
	volatile sig_atomic_t stop;
};

static void count_trial(void *ctx, int task, const struct tried *tried)
{
	struct tuning *t = ctx;
	(void)task;
	t->tried += tried->by != TRIED_DEFAULT;
	t->stop = --t->trials_left <= 0;
}

static int sink(void *ctx, int task, bool best, const char *cand, const struct meas *m,
		struct blob code)
{
	struct tuning *t = ctx;
	struct lab *l = t->way->lab;
	struct kept *k = find_kept(l, t->task[task]->key);
	(void)cand;
	CHECK(m->status == MEAS_OK && k);
	if (!k || !best)
		return E_OK;
	void *bytes = ARENA_ARRAY(&l->a, char, code.n);
	memcpy(bytes, code.p, code.n);
	k->code[1 + t->way->many] = (struct blob){bytes, code.n};
	return E_OK;
}

/* Tunes some of the tasks, spread over the network, so that each gets candidates; stops when they have had
 * enough. */
static int tune(struct way *w, const struct steps *s, struct arena *a)
{
	struct tuning t = {.way = w};
	struct job_task jt[TUNED_TASKS];
	struct job_result result[TUNED_TASKS];
	struct step_task *task;
	struct runner *r = w->lab->worker[w->many];
	int n = steps_tasks(s, a, &task), take = n < TUNED_TASKS ? n : TUNED_TASKS;
	if (n <= 0)
		return n;
	for (int i = 0; i < take; i++) {
		t.task[i] = &task[i * n / take];
		jt[i] = (struct job_task){.text = t.task[i]->text, .label = "task", .uses = t.task[i]->uses};
	}
	const struct job j = {.ntasks = take,
			      .task = jt,
			      .search.strategy = "evolve",
			      .search.seed = 1 + (uint64_t)w->many,
			      .limits.deadline_ns = clock_now(r->clock) + BOX_NS,
			      .limits.stop = &t.stop,
			      .calls.ctx = &t,
			      .calls.sink = sink,
			      .calls.tried = count_trial};
	t.trials_left = take * TRIALS_EACH;
	int rc = job_run(&j, r, result);
	w->boxes++;
	w->tried += t.tried;
	return rc;
}

static int run_plan(void *ctx, struct graph *g, const struct tensor *in, struct tensor *out, struct arena *a)
{
	struct way *w = ctx;
	const struct kernel_source src = {.ctx = w, .find = find};
	const struct plan_kernel *k;
	struct steps *s;
	struct plan *p = NULL;
	int rc = graph_optimize(g);
	if (rc >= 0)
		rc = graph_steps(g, &w->lab->target, NULL, a, &s);
	if (rc >= 0 && w->kernels == TUNED)
		rc = tune(w, s, a);
	if (rc >= 0)
		rc = plan_build(g, s, &w->lab->target, &src, w->lab->pool[w->many], &p);
	for (int i = 0; i < g->noutputs && rc >= 0; i++) {
		const struct tensor *x = &g->value[g->output[i]].t;
		rc = tensor_alloc(a, x->dtype, &x->shape, &out[i]);
	}
	if (rc >= 0)
		rc = plan_run(p, in, out);
	int n = rc >= 0 ? plan_kernels(p, &k) : 0;
	memset(w->origin, 0, sizeof w->origin);
	for (int i = 0; i < n; i++)
		w->origin[k[i].origin]++;
	plan_free(p);
	return rc;
}

static void check_way(struct lab *l, struct shared *shared, const char *dir, enum kernels kernels, int many)
{
	static const char *const words[] = {"fallback", "default", "tuned"};
	struct way w = {.lab = l, .kernels = kernels, .many = many};
	const struct case_runner run = {run_plan, &w};
	char why[512] = "";
	double worst = 0;
	struct clock *c = &clock_real;
	int64_t start_ns = clock_now(c);
	enum case_result r = case_check(dir, &run, &case_gate_fp32, why, &worst);
	printf("%-28s %-8s %d threads %s %.1e, %d+%d+%d+%d kernels tuned, default, fallback, portable, %.1f "
	       "s %s\n",
	       strrchr(dir, '/') + 1, words[kernels], l->threads[many], r == CASE_PASSED ? "good" : "BAD",
	       worst, w.origin[FROM_CACHE], w.origin[FROM_DEFAULT], w.origin[FROM_FALLBACK],
	       w.origin[FROM_HOST], (double)(clock_now(c) - start_ns) / 1e9, why);
	CHECK(r == CASE_PASSED);
	atomic_fetch_add(&shared->boxes, w.boxes);
	atomic_fetch_add(&shared->tried, w.tried);
	if (kernels == FALLBACK)
		atomic_fetch_add(&shared->fallbacks, w.origin[FROM_FALLBACK]);
	else
		CHECK(w.origin[FROM_DEFAULT] + w.origin[FROM_CACHE] > 0);
}

static int open_lab(struct lab *l)
{
	int rc = target_host(&l->target);
	l->threads[0] = 1;
	l->threads[1] = l->target.cores;
	for (int i = 0; i < 2 && rc >= 0; i++) {
		rc = pool_open(&l->pool[i], l->threads[i], NULL);
		if (rc >= 0)
			rc = runner_worker(NULL, "cpu", &l->target, l->threads[i], &l->worker[i]);
	}
	return rc;
}

static void close_lab(struct lab *l)
{
	for (int i = 0; i < 2; i++) {
		if (l->worker[i])
			l->worker[i]->ops->close(l->worker[i]);
		if (l->pool[i])
			pool_close(l->pool[i]);
	}
	arena_free(&l->a);
}

static void check_network(struct lab *l, struct shared *shared, const char *dir)
{
	arena_reset(&l->a);
	l->nkept = l->refused = 0;
	for (int kernels = FALLBACK; kernels <= TUNED; kernels++)
		for (int many = 0; many < 2; many++)
			check_way(l, shared, dir, (enum kernels)kernels, many);
}

/* A process's loop: takes the next network that no other process has taken. */
static int check_share(char **dir, int n, struct shared *shared)
{
	static struct lab lab;
	test_bad = 0;
	CHECK_OK(open_lab(&lab));
	for (int i; lab.worker[1] && (i = atomic_fetch_add(&shared->next, 1)) < n;)
		check_network(&lab, shared, dir[i]);
	close_lab(&lab);
	return test_bad;
}

/* Ranks the networks that take longest first. */
static int slow(const char *dir)
{
	static const char *const names[] = {"r3d_18",   "cropfollow_nav", "ppocrv3_det_ch",
					    "resnet50", "yolox_nano_416", "light_inception_v1"};
	const char *name = strrchr(dir, '/') + 1;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(name, names[i]))
			return (int)i;
	return (int)(sizeof names / sizeof *names);
}

static int by_time(const void *a, const void *b)
{
	return slow(*(char *const *)a) - slow(*(char *const *)b);
}

static void check_all(char **dir, int n)
{
	struct target t;
	pid_t pid[MAX_SHARDS];
	struct shared *shared =
	    mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(shared != MAP_FAILED);
	REQUIRE_OK(target_host(&t));
	int shards = t.cores < MAX_SHARDS ? t.cores : MAX_SHARDS;
	qsort(dir, (size_t)n, sizeof *dir, by_time);
	for (int i = 0; i < shards; i++) {
		fflush(stdout);
		pid[i] = fork();
		if (pid[i] == 0) {
			int bad = check_share(dir, n, shared);
			fflush(stdout);
			_exit(bad);
		}
		CHECK(pid[i] > 0);
	}
	for (int i = 0; i < shards; i++) {
		int status = -1;
		CHECK(pid[i] <= 0 || waitpid(pid[i], &status, 0) == pid[i]);
		CHECK(status == 0);
	}
	CHECK(atomic_load(&shared->next) >= n);
	CHECK(atomic_load(&shared->fallbacks) > 100);
	int boxes = atomic_load(&shared->boxes), tried = atomic_load(&shared->tried);
	printf("%d candidates in %d boxes\n", tried, boxes);
	CHECK(boxes > n && tried > 4 * boxes);
	munmap(shared, sizeof *shared);
}

/* The standard networks are stored as skeletons, with a program that writes their weights. */
TEST(networks)
{
	static const char copy[] = "mkdir $T/nets && cp -r $D/nets/. $T/nets && chmod -R u+w $T/nets && "
				   "cd $T/nets && cc -O2 -o fill fill.c && ./fill */ >/dev/null && rm fill";
	struct arena a = {0};
	char **model, **net, dir[512];
	if (!test_data())
		SKIP("no data folder (set HONE_DATA)");
	REQUIRE(onnx_shell(copy) == 0);
	snprintf(dir, sizeof dir, "%s/models", test_data());
	int models = case_find(&a, dir, &model);
	snprintf(dir, sizeof dir, "%s/nets", onnx_tmp_dir());
	int nets = case_find(&a, dir, &net);
	REQUIRE(models == MODELS && nets == NETS);
	char **all = ARENA_ARRAY(&a, char *, MODELS + NETS);
	memcpy(all, model, sizeof *all * MODELS);
	memcpy(all + MODELS, net, sizeof *all * NETS);
	check_all(all, MODELS + NETS);
	arena_free(&a);
}

TEST_MAIN
