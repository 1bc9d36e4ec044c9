/* SPDX-License-Identifier: Apache-2.0 */
/* The local runner on an OpenCL device: good candidates, candidates that write past their buffers or answer
 * wrong, scratch for some work items at a time, and drivers whose calls fail. Past 800 lines because all of
 * them go through the one device that fails as it is told. */
#include "agent/worker/local.h"
#include "platform/run/foreign.h"
#include "kernels/loops/code.h"
#include "tests/lib/cands.h"
#include "tests/lib/fake_nvml.h"
#include "tests/lib/opencl_code.h"
#include "tests/lib/opencl_device.h"
#include "tests/lib/tasks.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct dev dev_opencl;
extern const struct emit emit_opencl;

/* A padded image of bytes with a zero point; the halo of the output stays untouched. */
static const char conv_bytes[] = "task syms=0\n"
				 "operand X in u8 [1,8,6,6] 0.1/4.2.3.1 fill=128\n"
				 "operand W const i8 [12,8,3,3] plain\n"
				 "operand B const i32 [12] plain\n"
				 "operand S const f32 [12] plain\n"
				 "operand Y out u8 [1,12,6,6] 0.1/4.2.3.1;2+1+1;3+1+1 fill=7\n"
				 "stage n:1 k:12 y:6 x:6 | c:8 r:3 s:3\n"
				 "read X [n,c,y+r-1,x+s-1]\n"
				 "read W [k,c,r,s]\n"
				 "read B [k]\n"
				 "read S [k]\n"
				 "body r0 r1 mul\n"
				 "sum\n"
				 "post acc r2 add r3 mul rint 7 add\n"
				 "write Y [n,k,y,x]\n";

/* 48 elements, which end at a multiple of 64 bytes: what is written behind them are guards. */
static const char sums[] = "task syms=0\n"
			   "operand X in f32 [48,5] plain\n"
			   "operand Y out f32 [48] plain\n"
			   "stage i:48 | j:5\n"
			   "read X [i,j]\n"
			   "body r0\n"
			   "sum\n"
			   "write Y [i]\n";

/* Long rows, of which threads share the sums; alone, and subtracted from each element. */
static const char rows[] = "task syms=0\n"
			   "operand X in f32 [12,160] plain\n"
			   "operand Y out f32 [12] plain\n"
			   "stage i:12 | j:160\n"
			   "read X [i,j]\n"
			   "body r0\n"
			   "sum\n"
			   "write Y [i]\n";
static const char chain[] = "task syms=0\n"
			    "operand X in f32 [3,130] plain\n"
			    "operand M tmp f32 [3] plain\n"
			    "operand Y out f32 [3,130] plain\n"
			    "stage i:3 | j:130\n"
			    "read X [i,j]\n"
			    "body r0\n"
			    "max\n"
			    "write M [i]\n"
			    "stage i:3 j:130\n"
			    "read X [i,j]\n"
			    "read M [i]\n"
			    "body r0 r1 sub exp\n"
			    "write Y [i,j]\n";

static struct target target;

static struct runner *open_device(const struct emit *e, const char **why)
{
	struct dev_unit *u;
	struct runner *r = NULL;
	if (!opencl_device(why))
		return NULL;
	if (dev_opencl.own->open(0, &u) < 0) {
		*why = err_text();
		return NULL;
	}
	dev_opencl.own->target(u, &target);
	dev_opencl.own->close(u);
	CHECK_OK(runner_local(&dev_opencl, 0, e, &target, 1, true, &r));
	*why = err_text();
	return r;
}

static bool build(struct runner *r, const char *task, const char *cand, int *h, struct meas *m)
{
	int rc = r->ops->build(r, task, cand, INT64_MAX, h, m);
	if (rc < 0 || m->status != MEAS_OK)
		printf("%s: %s: %s\n", cand, meas_status_name(m->status), err_text());
	return rc >= 0 && m->status == MEAS_OK && *h >= 0;
}

TEST(builds_checks_and_times)
{
	static const char *const tasks[] = {task_conv, task_matmul, task_softmax, conv_bytes, sums};
	const char *why;
	struct runner *r = open_device(&emit_opencl, &why);
	if (!r)
		SKIP(why);
	for (int i = 0; i < 5; i++) {
		char cand[CAND_MAX];
		struct meas m[2];
		int h[2];
		cand_default(tasks[i], &target, cand);
		REQUIRE(build(r, tasks[i], cand, &h[0], &m[0]) && build(r, tasks[i], cand, &h[1], &m[1]));
		CHECK(m[0].max_rel_err < 1e-4);
		REQUIRE_OK(r->ops->time(r, h, 2, 5, 0, i % 2 ? TIME_COLD : 0, INT64_MAX, m));
		for (int k = 0; k < 2; k++)
			CHECK(m[k].runs == 5 && m[k].min_ns > 0 && m[k].min_ns <= m[k].median_ns);
		REQUIRE_OK(r->ops->time(r, h, 2, 5, 1, 0, INT64_MAX, m));
		for (int k = 0; k < 2; k++) /* none is aborted for less than 5 us */
			CHECK(m[k].status == MEAS_ABORTED || m[k].min_ns < 5500);
	}
	r->ops->close(r);
}

/* A reduction in parts: the second launch finds the sums of the first, which are in memory of all items. */
TEST(sums_of_parts_pass_between_launches)
{
	static const char *const tasks[] = {task_conv, task_matmul, task_pointwise};
	const char *why;
	struct runner *r = open_device(&emit_opencl, &why);
	if (!r)
		SKIP(why);
	own_scratch_room(64); /* less than the sums take, which counts for scratch of an item alone */
	for (int i = 0; i < 3; i++) {
		struct arena a = {0};
		struct task *t = ARENA_NEW(&a, struct task);
		struct space *s;
		char cand[CAND_MAX];
		struct meas m;
		int h;
		REQUIRE_OK(task_parse(tasks[i], t));
		REQUIRE_OK(space_make(&a, t, &target, NULL, &s));
		opencl_cand(s, "spread=1", cand);
		CHECK(strstr(cand, "spread=1"));
		REQUIRE(build(r, tasks[i], cand, &h, &m));
		CHECK(m.max_rel_err < 1e-4);
		REQUIRE_OK(r->ops->time(r, &h, 1, 5, 0, 0, INT64_MAX, &m));
		CHECK(m.runs == 5 && m.min_ns > 0);
		arena_free(&a);
	}
	own_scratch_room((int64_t)64 << 20);
	r->ops->close(r);
}

/* Blocks of threads, which draws for a processor do not have. */
TEST(threads_are_built_and_timed)
{
	static const struct {
		const char *task, *cand;
	} all[] = {{rows, "par=1 threads=j:32"},
		   {chain, "threads=j:32; threads=j:64"},
		   {chain, "threads=j:64; threads=j:64"}};
	const char *why;
	struct runner *r = open_device(&emit_opencl, &why);
	if (!r)
		SKIP(why);
	for (int i = 0; i < 3; i++) {
		struct meas m;
		int h;
		if (i == 1) { /* another number of threads in one stage */
			REQUIRE_OK(r->ops->build(r, all[i].task, all[i].cand, INT64_MAX, &h, &m));
			CHECK(m.status == MEAS_INFEASIBLE);
			continue;
		}
		REQUIRE(build(r, all[i].task, all[i].cand, &h, &m));
		CHECK(m.max_rel_err < 1e-4);
		REQUIRE_OK(r->ops->time(r, &h, 1, 5, 0, 0, INT64_MAX, &m));
		CHECK(m.runs == 5 && m.min_ns > 0);
	}
	r->ops->close(r);
}

/* The default candidate with textures of its weights. */
static void textured(const char *task, char cand[CAND_MAX])
{
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	REQUIRE_OK(task_parse(task, t));
	cand_default(task, &target, cand);
	REQUIRE_OK(opencl_textures(t, &target, &a, cand));
	CHECK(strstr(cand, "texture=1"));
	arena_free(&a);
}

TEST(textures_are_built_and_timed)
{
	static const char *const tasks[] = {task_conv, task_matmul, task_pointwise};
	const char *why;
	struct runner *r = open_device(&emit_opencl, &why);
	if (!r)
		SKIP(why);
	if (!target_textures(&target)) {
		r->ops->close(r);
		SKIP("the device has no images");
	}
	for (int i = 0; i < 3; i++) {
		char cand[CAND_MAX];
		struct meas m;
		int h;
		textured(tasks[i], cand);
		REQUIRE(build(r, tasks[i], cand, &h, &m));
		CHECK(m.max_rel_err < 1e-4);
		REQUIRE_OK(r->ops->time(r, &h, 1, 5, 0, 0, INT64_MAX, &m));
		CHECK(m.runs == 5 && m.min_ns > 0);
	}
	r->ops->close(r);
}

/* Code of one runner runs in another, and a handle that was dropped is gone. */
TEST(code_is_handed_over)
{
	const char *why;
	struct runner *r = open_device(&emit_opencl, &why), *other;
	struct arena a = {0};
	struct blob bytes;
	struct code *c = ARENA_NEW(&a, struct code);
	struct meas m;
	char cand[CAND_MAX];
	int h;
	if (!r)
		SKIP(why);
	cand_default(task_conv, &target, cand);
	REQUIRE(build(r, task_conv, cand, &h, &m));
	REQUIRE_OK(r->ops->code(r, h, INT64_MAX, &a, &bytes));
	REQUIRE_OK(code_parse(bytes.p, bytes.n, &a, c));
	CHECK(!strcmp(c->m.emitter, "opencl") && c->object.n > 100);
	r->ops->drop(r, h, INT64_MAX);
	CHECK_FAILS(r->ops->time(r, &h, 1, 5, 0, 0, INT64_MAX, &m), E_USAGE, "not a built candidate");
	r->ops->close(r);
	REQUIRE_OK(runner_local(&dev_opencl, 0, &emit_opencl, &target, 1, true, &other));
	REQUIRE_OK(local_load(other, task_conv, hash_text("code"), bytes, INT64_MAX, &h, &m));
	CHECK(m.status == MEAS_OK && h >= 0);
	other->ops->close(other);
	arena_free(&a);
}

TEST(random_candidates)
{
	static const char *const tasks[] = {task_pointwise, task_small_matmul, task_softmax};
	const char *why;
	struct runner *r = open_device(&emit_opencl, &why);
	struct rng rng;
	uint64_t seed, n = device_seeds(12, &seed);
	int good = 0;
	if (!r)
		SKIP(why);
	rng_seed(&rng, seed);
	for (uint64_t i = 0; i < n; i++) {
		struct arena a = {0};
		struct task *t = ARENA_NEW(&a, struct task);
		struct space *s;
		struct meas m;
		char cand[CAND_MAX];
		int h;
		REQUIRE_OK(task_parse(tasks[i % 3], t));
		REQUIRE_OK(space_make(&a, t, &target, NULL, &s));
		REQUIRE_OK(space_random(s, &rng, cand));
		REQUIRE_OK(r->ops->build(r, tasks[i % 3], cand, INT64_MAX, &h, &m));
		CHECK(m.status == MEAS_OK || m.status == MEAS_INFEASIBLE);
		if (m.status != MEAS_OK)
			printf("seed %llu: %s: %s: %s\n", (unsigned long long)(seed), cand,
			       meas_status_name(m.status), err_text());
		good += m.status == MEAS_OK;
		if (h >= 0)
			r->ops->drop(r, h, INT64_MAX);
		arena_free(&a);
	}
	CHECK((uint64_t)good * 2 >= n);
	r->ops->close(r);
}

/* ---- broken kernels: changed loops, or statements that are added to what the emitter prints ---- */

static enum { ADDED, LOST, OFF_BY_ONE } defect;
static const char *added;

static const char *broken_version(void)
{
	return "broken/1";
}

static void spoil(struct loops *l, struct stmt *s)
{
	for (; s; s = s->next) {
		if (s->op == ST_FOR || s->op == ST_IF) {
			spoil(l, s->body);
			spoil(l, s->other);
		} else if (defect == LOST && s->op == ST_STORE && l->buf[s->mem.buf].role == BUF_OUT) {
			s->mem.valid = ix_c(l, l->lanes[s->a] - 1);
		} else if (defect == OFF_BY_ONE && s->op == ST_SET && s->vop == V_CONST && s->s32 == 7) {
			s->s32 = 8; /* the zero point */
		}
	}
}

/* Puts a statement behind the declaration of the output's pointer, so that the answer is right. */
static int add(struct arena *a, struct blob *object)
{
	static const char after[] = "__global float *b1 = (__global float *)(m1 + o1);\n";
	const char *text = arena_strndup(a, object->p, object->n), *at = strstr(text, after);
	if (!at)
		return fail(E_CORRUPT, "the source has another form");
	at += sizeof after - 1;
	text = arena_printf(a, "%.*s%s\n%s", (int)(at - text), text, added, at);
	*object = (struct blob){.p = text, .n = strlen(text)};
	return E_OK;
}

static int broken_emit(const struct loops *l, const struct target *t, struct arena *a, struct blob *object)
{
	struct loops *w = (struct loops *)(uintptr_t)l;
	spoil(w, w->entry[0].body);
	int rc = emit_opencl.emit(l, t, a, object);
	return rc < 0 || defect != ADDED ? rc : add(a, object);
}

static const struct emit emit_broken = {"opencl", broken_version, broken_emit};

TEST(broken_kernels_are_found)
{
	static const struct {
		int defect;
		const char *added, *task, *says;
		enum meas_status status;
	} cases[] = {
	    {ADDED, "", sums, "", MEAS_OK},
	    {ADDED, "b1[-1] = 1.0f;", sums, "wrote in front of buffer Y", MEAS_WRONG},
	    {ADDED, "b1[-64] = 1.0f;", sums, "wrote in front of buffer Y", MEAS_WRONG},
	    {ADDED, "b1[48] = 1.0f;", sums, "wrote behind buffer Y", MEAS_WRONG},
	    {ADDED, "b1[111] = 1.0f;", sums, "wrote behind buffer Y", MEAS_WRONG},
	    {ADDED, "((__global float *)(m0 + o0))[-9] = 1.0f;", sums, "in front of buffer X", MEAS_WRONG},
	    {ADDED, "no such thing", sums, "clBuildProgram", MEAS_INFEASIBLE},
	    {LOST, "", conv_bytes, "", MEAS_WRONG},
	    {LOST, "", sums, "", MEAS_WRONG},
	    {OFF_BY_ONE, "", conv_bytes, "", MEAS_WRONG}};
	const char *why;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct runner *r = open_device(&emit_broken, &why);
		struct meas m;
		char cand[CAND_MAX];
		int h;
		if (!r)
			SKIP(why);
		defect = cases[i].defect;
		added = cases[i].added;
		cand_default(cases[i].task, &target, cand);
		REQUIRE_OK(r->ops->build(r, cases[i].task, cand, INT64_MAX, &h, &m));
		CHECK(m.status == cases[i].status && (h >= 0) == (m.status == MEAS_OK));
		CHECK(strstr(err_text(), cases[i].says));
		if (test_bad)
			printf("defect %d %s: %s: %s\n", defect, added, meas_status_name(m.status),
			       err_text());
		r->ops->close(r);
	}
}

/* ---- scratch ---- */

/* However few work items have scratch at a time, the answer is right. */
TEST(scratch_of_some_work_items)
{
	static const int64_t rooms[] = {INT64_C(1) << 26, 2000, 1};
	const char *why;
	for (int i = 0; i < 3; i++) {
		struct runner *r = open_device(&emit_opencl, &why);
		struct arena a = {0};
		struct code *c = ARENA_NEW(&a, struct code);
		struct blob bytes;
		struct meas m;
		char cand[CAND_MAX];
		int h;
		if (!r)
			SKIP(why);
		own_scratch_room(rooms[i]);
		cand_default(task_softmax, &target, cand);
		CHECK(build(r, task_softmax, cand, &h, &m));
		REQUIRE_OK(r->ops->code(r, h, INT64_MAX, &a, &bytes));
		REQUIRE_OK(code_parse(bytes.p, bytes.n, &a, c));
		CHECK(c->m.scratch_bytes > 1);
		REQUIRE_OK(r->ops->time(r, &h, 1, 3, 0, 0, INT64_MAX, &m));
		CHECK(m.runs == 3);
		own_scratch_room(INT64_C(1) << 26);
		r->ops->close(r);
		arena_free(&a);
	}
}

/* ---- drivers whose calls fail ---- */

/* A call fails with this error once so many of its kind have succeeded; 0: it does not. */
static struct {
	int start, read, wait; /* errors */
	int after;
	int only; /* the only start that fails; 0: all after `after` */
	int starts, reads, waits;
	bool hangs;              /* a wait does not end, instead of failing */
	int raises;              /* a start raises this signal; 0: none */
	int record, graph_start; /* errors, after so many of their kind; 0: none */
	int again;               /* error of each graph's second start */
	int records_left, starts_left;
	int records, graph_starts, drops; /* of graphs */
	int64_t spin_ns;                  /* that the process needs for a launch that is started alone; */
	int delayed_left;                 /* so many of the next ones need ten times as long */
} lie;

/* Graphs of launches, over the same device. */
enum { GRAPHS = 8, LONGEST = 1000 };
static struct launch_graph {
	int n; /* 0: free */
	int starts;
	struct dev_launch *launch[LONGEST];
} graphs[GRAPHS];

static struct launch_graph *graph_of(const struct dev_launch *l)
{
	for (int i = 0; i < GRAPHS; i++)
		if ((const void *)l == &graphs[i])
			return &graphs[i];
	return NULL;
}

static int lying_record(struct dev_unit *u, struct dev_launch *const *l, int n, struct dev_launch **out)
{
	int i = 0;
	(void)u;
	if (lie.record && lie.records_left-- <= 0)
		return fail(lie.record, "record as told");
	while (i < GRAPHS && graphs[i].n)
		i++;
	CHECK(i < GRAPHS && n > 1 && n <= LONGEST);
	if (test_bad)
		return fail(E_NOMEM, "no room for a graph");
	graphs[i].n = n;
	graphs[i].starts = 0;
	memcpy(graphs[i].launch, l, sizeof *l * (size_t)n);
	*out = (struct dev_launch *)&graphs[i];
	lie.records++;
	return E_OK;
}

static int start_graph(struct launch_graph *s)
{
	int rc = E_OK;
	CHECK(s->n);
	if (lie.graph_start && lie.starts_left-- <= 0)
		return fail(lie.graph_start, "start of a graph as told");
	if (++s->starts == 2 && lie.again)
		return fail(lie.again, "second start as told");
	lie.graph_starts++;
	for (int i = 0; i < s->n && rc >= 0; i++)
		rc = dev_opencl.own->start(s->launch[i]);
	return rc;
}

static void lying_drop(struct dev_launch *l)
{
	struct launch_graph *s = graph_of(l);
	if (!s) {
		dev_opencl.own->drop(l);
		return;
	}
	s->n = 0;
	lie.drops++;
}

static int lying_start(struct dev_launch *l)
{
	int number = lie.starts++;
	if (graph_of(l))
		return start_graph(graph_of(l));
	int64_t spin_ns = lie.delayed_left > 0 ? 10 * lie.spin_ns : lie.spin_ns;
	lie.delayed_left--;
	for (int64_t end_ns = clock_now(&clock_real) + spin_ns; clock_now(&clock_real) < end_ns;)
		;
	if (lie.raises)
		raise(lie.raises);
	if (lie.start && (lie.only ? number == lie.only : number >= lie.after))
		return fail(lie.start, "start as told");
	return dev_opencl.own->start(l);
}

static int lying_read(struct dev_mem *m, int64_t at, void *to, int64_t bytes)
{
	if (lie.reads++ >= lie.after && lie.read)
		return fail(lie.read, "read as told");
	return dev_opencl.own->read(m, at, to, bytes);
}

static int lying_wait(struct dev_unit *u, int64_t deadline_ns)
{
	int rc = dev_opencl.own->wait(u, deadline_ns);
	while (lie.hangs && lie.waits >= lie.after)
		pause();
	return lie.waits++ >= lie.after && lie.wait ? fail(lie.wait, "wait as told") : rc;
}

/* NULL: there is no device. records: it records graphs of launches. */
static struct runner *open_lying_that(bool records, const char **why)
{
	static struct dev_own own;
	static struct dev dev;
	struct runner *r = open_device(&emit_opencl, why);
	if (!r)
		return NULL;
	r->ops->close(r);
	own = *dev_opencl.own;
	own.start = lying_start;
	own.read = lying_read;
	own.wait = lying_wait;
	own.drop = lying_drop;
	own.record = records ? lying_record : NULL;
	dev = dev_opencl;
	dev.own = &own;
	memset(&lie, 0, sizeof lie);
	CHECK_OK(runner_local(&dev, 0, &emit_opencl, &target, 1, true, &r));
	return r;
}

static struct runner *open_lying(const char **why)
{
	return open_lying_that(false, why);
}

static int no_texture(struct dev_unit *u, bool halves, int64_t elems, struct dev_mem **out)
{
	(void)u, (void)halves, (void)elems, (void)out;
	return fail(E_INFEASIBLE, "clCreateImage: CL_INVALID_IMAGE_SIZE (-40)");
}

/* A device that says that it has textures, and makes none: that candidate is infeasible, the next one runs.
 */
TEST(devices_without_the_textures_that_they_list)
{
	static struct dev_own own;
	static struct dev dev;
	const char *why;
	struct runner *r = open_device(&emit_opencl, &why);
	if (!r)
		SKIP(why);
	r->ops->close(r);
	if (!target_textures(&target))
		SKIP("the device has no images");
	own = *dev_opencl.own;
	dev = dev_opencl;
	dev.own = &own;
	for (int i = 0; i < 2; i++) {
		struct meas m;
		char cand[CAND_MAX];
		int h;
		own.texture = i ? NULL : no_texture;
		REQUIRE_OK(runner_local(&dev, 0, &emit_opencl, &target, 1, true, &r));
		textured(task_conv, cand);
		REQUIRE_OK(r->ops->build(r, task_conv, cand, INT64_MAX, &h, &m));
		CHECK(h < 0 && m.status == (i ? MEAS_BUILD : MEAS_INFEASIBLE));
		CHECK(strstr(err_text(), i ? "have no textures" : "CL_INVALID_IMAGE_SIZE"));
		cand_default(task_conv, &target, cand);
		CHECK(build(r, task_conv, cand, &h, &m));
		r->ops->close(r);
	}
}

/* Errors of launches that a driver refuses are the candidate's; any later one has broken the device. */
TEST(drivers_that_fail)
{
	static const struct {
		int start, read, wait, after;
		int rc;
		enum meas_status status;
	} cases[] = {
	    {0, 0, 0, 0, E_OK, MEAS_OK},
	    {E_NOMEM, 0, 0, 0, E_OK, MEAS_INFEASIBLE},
	    {E_INFEASIBLE, 0, 0, 0, E_OK, MEAS_INFEASIBLE},
	    {E_IO, 0, 0, 0, E_CHILD, MEAS_OK},
	    {E_NOMEM, 0, E_IO, 0, E_CHILD, MEAS_OK}, /* an earlier part of the launch has failed */
	    {0, E_NOMEM, 0, 0, E_CHILD, MEAS_OK},
	    {0, E_INFEASIBLE, 0, 1, E_CHILD, MEAS_OK},
	    {0, E_NOMEM, 0, 2, E_CHILD, MEAS_OK},
	    {0, 0, E_NOMEM, 0, E_CHILD, MEAS_OK},
	};
	const char *why;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct runner *r = open_lying(&why);
		struct meas m;
		char cand[CAND_MAX];
		int h, rc;
		if (!r)
			SKIP(why);
		cand_default(task_softmax, &target, cand);
		lie.start = cases[i].start;
		lie.read = cases[i].read;
		lie.wait = cases[i].wait;
		lie.after = cases[i].after;
		rc = r->ops->build(r, task_softmax, cand, INT64_MAX, &h, &m);
		CHECK(rc == cases[i].rc && (h >= 0) == (rc >= 0 && m.status == MEAS_OK));
		CHECK(rc < 0 || m.status == cases[i].status);
		CHECK(!cases[i].start || lie.waits == (cases[i].start != E_IO));
		if (test_bad)
			printf("case %d: %d, %s: %s\n", (int)i, rc, meas_status_name(m.status), err_text());
		r->ops->close(r);
	}
}

/* The driver refuses a launch that has run before: that kernel is left out, for memory may lack for a moment
 * only. After any other error, also of the wait for what came before, the device is broken. */
TEST(drivers_that_fail_while_kernels_are_timed)
{
	static const struct {
		int start, wait, rc;
	} cases[] = {{E_NOMEM, 0, E_OK},       {E_INFEASIBLE, 0, E_OK},    {E_IO, 0, E_CHILD},
		     {0, E_NOMEM, E_CHILD},    {0, E_INFEASIBLE, E_CHILD}, {0, E_IO, E_CHILD},
		     {E_NOMEM, E_IO, E_CHILD}, {E_NOMEM, E_NOMEM, E_CHILD}};
	const char *why;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct runner *r = open_lying(&why);
		struct meas m;
		char cand[CAND_MAX];
		int h;
		if (!r)
			SKIP(why);
		cand_default(sums, &target, cand);
		REQUIRE(build(r, sums, cand, &h, &m));
		lie.after = cases[i].start && cases[i].wait ? 0 : lie.starts + 2;
		lie.start = cases[i].start;
		lie.wait = cases[i].wait;
		int rc = r->ops->time(r, &h, 1, 50, 0, 0, INT64_MAX, &m);
		CHECK(rc == cases[i].rc && (rc < 0 || (m.status == MEAS_INFEASIBLE && !m.runs)));
		CHECK(rc == E_OK || strstr(err_text(), "as told"));
		if (test_bad)
			printf("case %d: %d, %s: %s\n", (int)i, rc, meas_status_name(m.status), err_text());
		r->ops->close(r);
	}
}

/* The driver refuses one of two kernels; the other one is timed in all rounds. */
TEST(one_of_two_kernels_is_refused)
{
	const char *why;
	struct runner *r = open_lying(&why);
	struct meas m[2];
	char cand[CAND_MAX];
	int h[2], left = 0;
	if (!r)
		SKIP(why);
	cand_default(sums, &target, cand);
	REQUIRE(build(r, sums, cand, &h[0], m) && build(r, sums, cand, &h[1], m));
	lie.only = lie.starts + 30;
	lie.start = E_NOMEM;
	REQUIRE_OK(r->ops->time(r, h, 2, 200, 0, 0, INT64_MAX, m));
	for (int k = 0; k < 2; k++)
		left += m[k].status == MEAS_OK && m[k].runs == 200 && m[k].median_ns > 0;
	CHECK(left == 1 && (m[0].status == MEAS_INFEASIBLE || m[1].status == MEAS_INFEASIBLE));
	r->ops->close(r);
}

/* The time of a short kernel is not that of its launches where the device starts them as graphs. Where it
 * does not record or start graphs, the kernel is timed all the same. */
TEST(short_runs_are_timed_in_graphs)
{
	static const struct {
		int record, records_left, graph_start, starts_left, delayed_left;
		bool graphs; /* are started many times */
	} cases[] = {{.graphs = true},
		     {.delayed_left = 2, .graphs = true}, /* the first run of each kernel */
		     {.record = E_IO},
		     {.record = E_NOMEM, .records_left = 3, .graphs = true},
		     {.graph_start = E_NOMEM},
		     {.graph_start = E_IO, .starts_left = 1},
		     {.graph_start = E_INFEASIBLE, .starts_left = 5}};
	const int64_t spin_ns = 100000;
	const char *why;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct runner *r = open_lying_that(true, &why);
		struct meas m[2];
		char cand[CAND_MAX];
		int h[2];
		if (!r)
			SKIP(why);
		cand_default(sums, &target, cand);
		REQUIRE(build(r, sums, cand, &h[0], m) && build(r, sums, cand, &h[1], m));
		lie.record = cases[i].record;
		lie.records_left = cases[i].records_left;
		lie.graph_start = cases[i].graph_start;
		lie.starts_left = cases[i].starts_left;
		lie.spin_ns = spin_ns;
		lie.delayed_left = cases[i].delayed_left;
		REQUIRE_OK(r->ops->time(r, h, 2, 20, 0, 0, INT64_MAX, m));
		bool all = !cases[i].record && !cases[i].graph_start, kept = !all;
		for (int k = 0; k < 2; k++)
			CHECK(m[k].status == MEAS_OK && m[k].runs == 20 && m[k].min_ns > 0 &&
			      (!all || m[k].min_ns < spin_ns / 2));
		for (int k = 0; k < 5 && !kept; k++) { /* nor is it given up for that of its first run */
			REQUIRE_OK(r->ops->time(r, h, 2, 1, spin_ns / 2, 0, INT64_MAX, m));
			kept = m[0].status == MEAS_OK && m[1].status == MEAS_OK;
		}
		CHECK(kept);
		CHECK((lie.graph_starts > 20) == cases[i].graphs);
		r->ops->close(r);
		CHECK(lie.drops == lie.records);
		if (test_bad)
			printf("case %d: %s %lld ns, %d recorded, %d starts of graphs\n", (int)i,
			       meas_status_name(m[0].status), (long long)m[0].min_ns, lie.records,
			       lie.graph_starts);
	}
}

/* Graphs of several lengths have run once each, to find how long one must be, and then the chosen one does
 * not start: the launches are timed one by one, and slow kernels are aborted. */
TEST(a_graph_fails_when_it_is_timed)
{
	const int64_t spin_ns = 100000;
	const char *why;
	struct runner *r = open_lying_that(true, &why);
	struct meas m[2];
	char cand[CAND_MAX];
	int h[2];
	if (!r)
		SKIP(why);
	cand_default(sums, &target, cand);
	REQUIRE(build(r, sums, cand, &h[0], m) && build(r, sums, cand, &h[1], m));
	lie.again = E_IO;
	lie.spin_ns = spin_ns;
	REQUIRE_OK(r->ops->time(r, h, 2, 20, spin_ns / 2, 0, INT64_MAX, m));
	for (int k = 0; k < 2; k++)
		CHECK(m[k].status == MEAS_ABORTED && m[k].min_ns >= spin_ns);
	if (test_bad)
		printf("%s %lld ns, %s %lld ns\n", meas_status_name(m[0].status), (long long)m[0].min_ns,
		       meas_status_name(m[1].status), (long long)m[1].min_ns);
	r->ops->close(r);
	CHECK(lie.drops == lie.records);
}

static void limits_of_gpu(const struct dev_unit *u, struct dev_limits *out)
{
	dev_opencl.own->limits(u, out);
	out->unified = false;
	snprintf(out->uuid, sizeof out->uuid, "00102030-4050-6070-8090-a0b0c0d0e0f0");
}

/* A GPU that is throttled all the time changes nothing; if throttling begins or ends during a timing, the
 * kernels are timed again, at most twice; times that it spoilt each time are marked. */
TEST(throttled_times_are_taken_again)
{
	static const struct {
		const char *nvml;
		int most, least; /* waits for the device */
		int throttled;
	} cases[] = {{"", 19, 11, 0},
		     {"slowed 64", 19, 11, 0},
		     {"flips 1000000", 57, 33, 1},
		     {"nvmlInit_v2=9", 19, 11, 0},
		     {"slowed 4;flips 9", 19, 11, 0}};
	const char *why;
	CHECK(dlopen(fake_nvml(), RTLD_NOW)); /* the worker finds it by its name */
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct dev dev = dev_opencl;
		struct dev_own own = *dev_opencl.own;
		struct runner *r = open_device(&emit_opencl, &why);
		struct meas m;
		char cand[CAND_MAX];
		int h;
		if (!r)
			SKIP(why);
		r->ops->close(r);
		own.limits = limits_of_gpu;
		own.wait = lying_wait;
		dev.own = &own;
		memset(&lie, 0, sizeof lie);
		setenv("FAKE_NVML", cases[i].nvml, 1);
		REQUIRE_OK(runner_local(&dev, 0, &emit_opencl, &target, 1, true, &r));
		cand_default(sums, &target, cand);
		REQUIRE(build(r, sums, cand, &h, &m));
		lie.waits = 0;
		REQUIRE_OK(r->ops->time(r, &h, 1, 10, 0, 0, INT64_MAX, &m));
		CHECK(m.status == MEAS_OK && m.runs == 10 && m.throttled == cases[i].throttled);
		CHECK(lie.waits >= cases[i].least && lie.waits <= cases[i].most);
		r->ops->close(r);
		if (test_bad)
			printf("%s: %d waits\n", cases[i].nvml, lie.waits);
	}
}

enum { CRASH_SAID = 9 };

static void say(int at, enum meas_status how)
{
	_exit(at == 0 && how == MEAS_CRASH ? CRASH_SAID : 6);
}

/* In a process of its own: the device hangs after so many more waits, and the watch ends the process; or its
 * driver crashes by this signal in a timed run. */
__attribute__((constructor(65535))) static void be_a_worker(int argc, char **argv)
{
	const char *why;
	struct meas m;
	char cand[CAND_MAX];
	int h;
	if (argc < 3 || strcmp(argv[1], "--hang") != 0)
		return;
	struct runner *r = open_lying(&why);
	if (!r)
		_exit(77);
	cand_default(sums, &target, cand);
	if (!build(r, sums, cand, &h, &m))
		_exit(3);
	lie.after = lie.waits + atoi(argv[2]);
	lie.hangs = argc == 3;
	if (argc > 3) {
		lie.raises = atoi(argv[3]);
		signal(lie.raises, SIG_DFL); /* PoCL handles some */
		local_last_words(r, say);
	}
	_exit(r->ops->time(r, &h, 1, 5, 0, 0, INT64_MAX, &m) < 0 ? 4 : 0);
}

/* The exit status of such a process; -1: it does not end. */
static int run_hanging(const char *after, const char *sig)
{
	int how = 0;
	pid_t pid = fork(), ended = 0;
	if (pid == 0) {
		execl("/proc/self/exe", "test", "--hang", after, sig, (char *)NULL);
		_exit(5);
	}
	for (double start_s = test_now_s(); pid > 0 && !ended && test_now_s() - start_s < 30;) {
		ended = waitpid(pid, &how, WNOHANG);
		clock_real.sleep(&clock_real, 10 * NS_PER_MS);
	}
	if (ended == pid && pid > 0)
		return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
	if (pid > 0 && kill(pid, SIGKILL) == 0)
		(void)waitpid(pid, &how, 0);
	return -1;
}

TEST(kernels_that_hang_later)
{
	static const struct {
		const char *after;
		int status;
	} cases[] = {{"0", 1}, {"1", 1}, {"4", 1}, {"100", 0}};
	const char *why;
	if (!opencl_device(&why))
		SKIP(why);
	for (int i = 0; i < 4; i++)
		CHECK(run_hanging(cases[i].after, NULL) == cases[i].status);
}

TEST(drivers_that_crash_later)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
	const char *why;
	if (!opencl_device(&why))
		SKIP(why);
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		char number[16];
		snprintf(number, sizeof number, "%d", signals[i]);
		CHECK(run_hanging("0", number) == CRASH_SAID);
	}
}

TEST(what_it_refuses)
{
	const char *why;
	struct runner *r = open_device(&emit_opencl, &why);
	if (!r)
		SKIP(why);
	r->ops->close(r);
	CHECK_FAILS(runner_local(&dev_opencl, 0, &emit_opencl, &target, 2, true, &r), E_USAGE, "needs 1");
	CHECK_FAILS(runner_local(&dev_opencl, 999, &emit_opencl, &target, 1, true, &r), E_NOTFOUND,
		    "no OpenCL device 999");
}

/* A library keeps constants in a form of its own, at addresses that nobody knows: all caches are swept. */
TEST(what_a_library_packed_cannot_be_flushed_by_address)
{
	static char library[] = FOREIGN_MAGIC "word x/1@0\n",
		    machine[] = "\177ELF of a kernel without constants";
	struct local_object o = {.bytes = library, .n = sizeof library};
	const struct local_built b = {.object = &o};
	CHECK(!built_chill(&b));
	o.bytes = machine;
	o.n = sizeof machine;
	CHECK(built_chill(&b));
}

TEST_MAIN
