/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as images: a restored plan gives the same answers, and bytes that are no image are an error. */
#include "agent/run/beside.h"
#include "agent/run/image.h"
#include "agent/run/plan_parts.h"
#include "kernels/graph/eval.h"
#include "kernels/graph/optimize.h"
#include "tests/lib/onnx_data.h"
#include "tools/hone/onnx_case.h"
#include "tools/hone/zoo.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes the plan of a graph with kernels in portable C, and its description. */
static int describe(struct graph *g, int lanes, struct pool *pool, struct arena *a, struct buf *meta,
		    struct plan **out)
{
	const struct target t = {.lanes = lanes};
	struct steps *s;
	int rc = graph_infer(g);
	if (rc >= 0)
		rc = graph_optimize(g);
	if (rc >= 0)
		rc = graph_steps(g, &t, NULL, a, &s);
	return rc < 0 ? rc : plan_build_described(g, s, &t, NULL, pool, meta, out);
}

/* Restores the plan from its description, with the first plan's weights. */
static int again(const struct plan *p, const struct buf *meta, struct pool *pool, struct plan **out)
{
	int rc = plan_restore(meta->p, meta->n, pool, out);
	if (rc >= 0 && (*out)->weight_bytes == p->weight_bytes)
		memcpy((*out)->weights.p, p->weights.p, p->weight_bytes);
	if (rc >= 0 && (rc = plan_check(*out)) < 0)
		plan_free(*out);
	return rc;
}

struct way {
	int lanes;
	struct pool *pool, *other; /* threads before and after */
	int nodes;                 /* nodes run in C, over all cases */
};

/* The first plan is freed before the second runs. */
static int run_restored(void *ctx, struct graph *g, const struct tensor *in, struct tensor *out,
			struct arena *a)
{
	struct way *w = ctx;
	struct plan *p = NULL, *q = NULL;
	struct buf meta = {0};
	int rc = describe(g, w->lanes, w->pool, a, &meta, &p);
	if (rc >= 0)
		rc = again(p, &meta, w->other, &q);
	plan_free(p);
	for (int i = 0; i < g->noutputs && rc >= 0; i++) {
		const struct tensor *x = &g->value[g->output[i]].t;
		rc = tensor_alloc(a, x->dtype, &x->shape, &out[i]);
	}
	for (int i = 0; i < 2 && rc >= 0; i++)
		rc = plan_run(q, in, out);
	for (int i = 0; rc >= 0 && i < q->nsteps; i++)
		w->nodes += q->step[i].step->kind == STEP_HOST;
	plan_free(q);
	buf_free(&meta);
	return rc;
}

static int check_cases(const char *folder, struct way *w, int every, const struct case_gate *gate)
{
	struct arena a = {0};
	char **cases;
	const struct case_runner runner = {run_restored, w};
	int passed = 0, n = case_find(&a, folder, &cases);
	for (int i = 0; i < n; i += every * test_share()) {
		char why[512] = "";
		enum case_result r = strstr(cases[i], "training_dropout")
					 ? CASE_SKIPPED
					 : case_check(cases[i], &runner, gate, why, NULL);
		if (r == CASE_FAILED)
			printf("%s: %s\n", cases[i], why);
		CHECK(r != CASE_FAILED);
		passed += r == CASE_PASSED;
	}
	arena_free(&a);
	return passed;
}

/* Tests every operator as a node, or as a task. */
TEST(operators)
{
	char folder[128];
	struct way w = {.lanes = 8};
	if (!test_data())
		SKIP("no data folder (set HONE_DATA)");
	REQUIRE(onnx_shell("mkdir $T/core && tar --zstd -xf $D/onnx/core-node.tar.zst -C $T/core") == 0);
	snprintf(folder, sizeof folder, "%s/core", onnx_tmp_dir());
	CHECK(check_cases(folder, &w, 1, &case_gate_onnx) >= 640 / test_share());
	CHECK(w.nodes > 100 / test_share());
}

/* An image runs with other numbers of threads than it was made with. */
TEST(networks)
{
	char folder[512];
	struct way w = {.lanes = 16};
	if (!test_data())
		SKIP("no data folder (set HONE_DATA)");
	REQUIRE(pool_open(&w.pool, 2, NULL) >= 0 && pool_open(&w.other, 3, NULL) >= 0);
	snprintf(folder, sizeof folder, "%s/models", test_data());
	CHECK(check_cases(folder, &w, 4, &case_gate_fp32) >= (test_share() > 1 ? 1 : 5));
	CHECK(w.nodes > 0);
	pool_close(w.pool);
	pool_close(w.other);
}

/* A small graph for hostile bytes: a Concat, slices like a Split, a node that runs in C, a constant
 * output. */
static struct graph *mixed(void)
{
	struct graph *g;
	struct arena a = {0};
	g = ARENA_NEW(&a, struct graph);
	g->name = "mixed";
	g->arena = a;
	struct zoo z = {.g = g, .opset = 17};
	rng_seed(&z.rng, 7);
	struct fmap x = zoo_input(&z, "x", 4, 6, 6);
	struct fmap y = zoo_conv(&z, x, (struct zoo_conv){4, 3, 1, 1, .act = ACT_RELU});
	y = zoo_concat(&z, y, zoo_max_pool(&z, x, 3, 1, 1, false));
	y = zoo_concat(&z, y, y); /* a value lies in one place: the other is a copy */
	const struct attr axis = zoo_attr_int("axis", 1);
	int *both = ARENA_ARRAY(&g->arena, int, 2);
	both[0] = zoo_node(&z, "ArgMax", 1, &y.value, 1, &axis);
	both[1] = y.value;
	zoo_output(&z, both[0], "best");
	zoo_output(&z, both[1], "y");
	g->output = both;
	g->noutputs = 2;
	CHECK(z.rc >= 0);
	return g;
}

/* Outputs that need no computing are larger than all else. */
TEST(constant_outputs)
{
	struct arena a = {0};
	struct plan *p, *q;
	struct buf meta = {0};
	struct graph *g = mixed();
	struct zoo z = {.g = g, .opset = 17};
	const struct shape large = {.rank = 2, .d = {8400, 4}};
	rng_seed(&z.rng, 8);
	zoo_output(&z, zoo_normal(&z, "boxes", &large, 0, 1), "anchors");
	REQUIRE(z.rc >= 0 && describe(g, 4, NULL, &a, &meta, &p) >= 0);
	REQUIRE(again(p, &meta, NULL, &q) >= 0);
	const struct graph *h = plan_graph(q);
	REQUIRE(h->noutputs == 1);
	CHECK(
	    !memcmp(h->value[h->output[0]].t.data, g->value[g->output[0]].t.data, 8400 * 4 * sizeof(float)));
	plan_free(q);
	plan_free(p);
	buf_free(&meta);
	graph_free(g);
	arena_free(&a);
}

TEST(hostile_descriptions)
{
	struct arena a = {0};
	struct plan *p, *q;
	struct buf meta = {0};
	struct graph *g = mixed();
	REQUIRE(describe(g, 4, NULL, &a, &meta, &p) >= 0);
	int refused = 0;
	for (size_t n = 0; n < meta.n; n += 1 + n / 16) /* cut at growing lengths */
		CHECK_FAILS(plan_restore(meta.p, n, NULL, &q), E_CORRUPT, "damaged");
	/* keep the memory's size, or it takes all memory */
	for (size_t i = 40; i < meta.n; i += (size_t)test_share()) {
		for (int bit = 0; bit < 8; bit += 1 + (i > 2048) * 6) {
			meta.p[i] = (char)(meta.p[i] ^ 1 << bit);
			if (plan_restore(meta.p, meta.n, NULL, &q) >= 0)
				plan_free(q);
			else
				refused++;
			meta.p[i] = (char)(meta.p[i] ^ 1 << bit);
		}
	}
	CHECK(refused > 500 / test_share());
	CHECK_OK(again(p, &meta, NULL, &q));
	plan_free(q);
	plan_free(p);
	buf_free(&meta);
	graph_free(g);
	arena_free(&a);
}

/* Describes the plan as it is now and restores it. */
static int redescribed(struct plan *p)
{
	struct buf meta = {0};
	struct plan *q;
	plan_describe(p, &meta);
	int rc = again(p, &meta, NULL, &q);
	if (rc >= 0)
		plan_free(q);
	buf_free(&meta);
	return rc;
}

/* Finds a Concat with a part that is copied. */
static struct pstep *find_copying(struct plan *p)
{
	for (int i = 0; i < p->nsteps; i++)
		for (int k = 0; p->step[i].part && k < p->step[i].nparts; k++)
			if (!p->step[i].part[k].there && p->step[i].part[k].bytes)
				return &p->step[i];
	return NULL;
}

static struct pstep *find_step(struct plan *p, bool host)
{
	for (int i = 0; i < p->nsteps; i++) {
		struct pstep *s = &p->step[i];
		if (!s->part && (s->host != NULL) == host)
			return s;
	}
	return NULL;
}

/* Checks that a hostile number or address is refused; restores it afterwards. */
#define REFUSED(lvalue, value)                                                                               \
	do {                                                                                                 \
		__typeof__(lvalue) was_ = (lvalue);                                                          \
		(lvalue) = (value);                                                                          \
		CHECK_FAILS(redescribed(p), E_CORRUPT, "");                                                  \
		(lvalue) = was_;                                                                             \
	} while (0)

/* An operator that is no kernel may not work in the caller's memory, where checks do not see its operands. */
static void refuse_callers_memory(struct plan *p, void **at, bool output)
{
	struct given *was = p->given, more[64];
	REQUIRE(p->ngiven < 64);
	if (p->ngiven)
		memcpy(more, was, sizeof *more * (size_t)p->ngiven);
	more[p->ngiven++] = (struct given){at, 0, output};
	p->given = more;
	CHECK_FAILS(redescribed(p), E_CORRUPT, "");
	p->given = was;
	p->ngiven--;
}

/* Constants must be packed for lanes that this machine has. */
static void refuse_lanes(struct buf *meta)
{
	enum { AT = 5 * sizeof(uint64_t) + sizeof(uint32_t) };
	const uint32_t bad[] = {0, 1, 3, TILE_LEAST + 1, 2 * (uint32_t)tile_lanes(), UINT32_MAX};
	uint32_t own;
	struct plan *q;
	memcpy(&own, meta->p + AT, sizeof own);
	CHECK(own == (uint32_t)tile_lanes());
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		memcpy(meta->p + AT, &bad[i], sizeof own);
		CHECK_FAILS(plan_restore(meta->p, meta->n, NULL, &q), E_CORRUPT, "damaged");
	}
	memcpy(meta->p + AT, &own, sizeof own);
}

/* Changes each number that a run without machine code relies on. */
TEST(descriptions_that_reach_too_far)
{
	struct arena a = {0};
	struct plan *p;
	struct buf meta = {0};
	struct graph *g = mixed();
	REQUIRE(describe(g, 4, NULL, &a, &meta, &p) >= 0);
	CHECK_OK(redescribed(p));
	char *end = (char *)p->memory.p + p->memory.bytes;
	for (int way = 0; way < 2; way++) { /* the copies of the caller's tensors */
		struct window *w = way ? &p->copy_out[p->g->noutputs - 1] : &p->copy_in[0];
		struct place *at = &p->place[way ? p->g->output[p->g->noutputs - 1] : p->g->input[0]];
		if (!at->p)
			continue;
		REFUSED(w->loop[0].n, w->loop[0].n + 1);
		REFUSED(w->loop[0].s, INT64_C(1) << 40);
		REFUSED(w->loop[0].b, INT64_C(1) << 40);
		REFUSED(w->s0, 1);
		REFUSED(w->s0, -1);
		REFUSED(w->b0, -1);
		REFUSED(w->nloops, 17);
		REFUSED(w->shared, w->nloops);
		REFUSED(at->p, end - 64);
		REFUSED(at->p, at->p + 1);
	}
	REFUSED(p->place[p->g->output[p->g->noutputs - 1]].p, NULL);
	struct pstep *join = find_copying(p), *task = find_step(p, true), *node = find_step(p, false);
	REQUIRE(join && task && node);
	for (int i = 0; i < join->nparts; i++) {
		struct part *x = &join->part[i];
		if (x->there)
			continue;
		REFUSED(x->w.b0, INT64_C(1) << 20);
		REFUSED(x->w.loop[0].n, INT64_C(1) << 20);
		REFUSED(join->ctx.in[i].data, NULL);
		float *to = (float *)join->ctx.out[0].data + x->w.b0; /* the copy would overlap itself */
		REFUSED(join->ctx.in[i].data, to);
		REFUSED(join->ctx.in[i].data, to - 1);
	}
	for (int i = 0; i < task->step->task->noperands; i++) {
		if (task->step->task->operand[i].role == ROLE_OUT)
			REFUSED(task->buf[i], p->weights.p);
		for (int k = 0; k < p->ngiven; k++) /* is read where the caller has it */
			if (p->given[k].at == &task->buf[i])
				goto next;
		REFUSED(task->buf[i], NULL);
		REFUSED(task->buf[i], end - 4);
		REFUSED(task->buf[i], (char *)task->buf[i] + 1);
	next:;
	}
	REFUSED(p->thread_bytes, host_scratch_bytes() - 1);
	struct task *t = (struct task *)task->step->task; /* generic; with a halo that nothing has room for */
	REFUSED(t->nsyms, 1);
	for (int i = 0; i < t->noperands; i++)
		if (t->operand[i].role == ROLE_IN)
			REFUSED(t->operand[i].layout.lo[0], 4096);
	REFUSED(node->ctx.in[0].shape.d[2], node->ctx.in[0].shape.d[2] - 1);
	REFUSED(node->ctx.out[0].shape.d[2], node->ctx.out[0].shape.d[2] - 1);
	REFUSED(node->ctx.out[0].dtype, DT_F32);
	REFUSED(node->ctx.out[0].data, node->ctx.in[0].data);
	REFUSED(node->ctx.out[0].data, NULL);
	REFUSED(node->ctx.in[0].data, NULL);
	refuse_callers_memory(p, &node->ctx.in[0].data, false);
	refuse_callers_memory(p, &node->ctx.out[0].data, true);
	refuse_lanes(&meta);
	CHECK_OK(redescribed(p));
	plan_free(p);
	buf_free(&meta);
	graph_free(g);
	arena_free(&a);
}

/* Writes a file of the small plan for target `t`. */
static void write_for(const struct target *t, const char *path, struct key key)
{
	struct arena a = {0};
	struct plan *p;
	struct buf meta = {0};
	struct graph *g = mixed();
	const struct image im = {.key = key, .note = {3, 4}, .target = *t, .threads = 2, .name = "mixed"};
	REQUIRE(describe(g, 4, NULL, &a, &meta, &p) >= 0);
	CHECK_OK(image_write(path, &im, p, &meta));
	plan_free(p);
	buf_free(&meta);
	graph_free(g);
	arena_free(&a);
}

static void patch(const char *path, const char *from, const char *to)
{
	char cmd[600];
	snprintf(cmd, sizeof cmd, "sed -i 's/%s/%s/' '%s'", from, to, path);
	REQUIRE(system(cmd) == 0);
}

TEST(files)
{
	char path[128], found[256];
	struct target here, other;
	struct image im;
	struct plan *p;
	const struct key key = {1, 2}, wrong = {2, 1};
	REQUIRE(target_host(&here) >= 0);
	snprintf(path, sizeof path, "%s/" IMAGE_FILE, onnx_tmp_dir());
	CHECK_FAILS(image_read(path, NULL, &here, NULL, &im, &p), E_NOTFOUND, "no image");
	write_for(&here, path, key);
	CHECK(image_find(onnx_tmp_dir(), found, sizeof found) && !strcmp(found, path));
	CHECK(image_find(path, found, sizeof found) && !strcmp(found, path));
	CHECK_FAILS(image_read(path, &wrong, &here, NULL, &im, &p), E_NOTFOUND,
		    "another model or other options");
	REQUIRE(image_read(path, &key, &here, NULL, &im, &p) >= 0);
	CHECK(im.threads == 2 && !im.level && im.note.lo == 4 && !strcmp(im.name, "mixed"));
	CHECK(!strcmp(im.target.soc, here.soc));
	plan_free(p);
	/* For another processor. */
	other = here;
	snprintf(other.features + strlen(other.features), 16, "%s+abacus", *other.features ? "," : "");
	write_for(&other, path, key);
	CHECK_FAILS(image_read(path, NULL, &here, NULL, &im, &p), E_UNSUPPORTED, "compile it here");
	/* From another version; in a future format. */
	write_for(&here, path, key);
	patch(path, "^HIM7", "HIM6");
	CHECK_FAILS(image_read(path, NULL, &here, NULL, &im, &p), E_UNSUPPORTED, "another version");
	patch(path, "^HIM", "HUM");
	CHECK_FAILS(image_read(path, NULL, &here, NULL, &im, &p), E_CORRUPT, "damaged");
	CHECK(!image_find(path, found, sizeof found));
	/* Other users can write it, or change its folder. */
	write_for(&here, path, key);
	REQUIRE(chmod(path, 0664) == 0);
	CHECK_FAILS(image_read(path, NULL, &here, NULL, &im, &p), E_USAGE, "go-w");
	REQUIRE(chmod(path, 0644) == 0 && chmod(onnx_tmp_dir(), 0777) == 0);
	CHECK_FAILS(image_read(path, NULL, &here, NULL, &im, &p), E_USAGE, "go-w");
	CHECK_FAILS(image_peek(path, &im), E_USAGE, "go-w");
	CHECK_FAILS(image_folder_check(path), E_USAGE, "go-w");
	REQUIRE(chmod(onnx_tmp_dir(), 0700) == 0);
	CHECK_OK(image_folder_check(path));
}

/* These paths are not images, and not missing either; no open waits for a writer of the pipe. */
TEST(paths_that_cannot_be_opened)
{
	char path[128], other[160];
	struct target here;
	struct image im;
	struct plan *p;
	REQUIRE(target_host(&here) >= 0);
	snprintf(path, sizeof path, "%s/what.hone", onnx_tmp_dir());
	snprintf(other, sizeof other, "%s.other", path);
	write_for(&here, other, (struct key){1, 2});
	REQUIRE(symlink(other, path) == 0);
	CHECK_FAILS(image_read(path, NULL, &here, NULL, &im, &p), E_USAGE, "is a link");
	CHECK_FAILS(image_peek(path, &im), E_USAGE, "is a link");
	REQUIRE(unlink(path) == 0 && mkfifo(path, 0600) == 0);
	CHECK_FAILS(image_read(path, NULL, &here, NULL, &im, &p), E_USAGE, "regular");
	CHECK_FAILS(image_peek(path, &im), E_USAGE, "regular");
	REQUIRE(unlink(path) == 0);
	char name[300];
	memset(name, 'x', 280);
	name[280] = 0;
	CHECK_FAILS(image_peek(name, &im), E_IO, "cannot open");
}

/* A description that could not be read back is not written. */
TEST(unreadable_descriptions_are_not_written)
{
	char path[128];
	struct arena a = {0};
	struct plan *p;
	struct buf meta = {0};
	const struct image im = {.threads = 1, .name = "mixed"};
	struct graph *g = mixed();
	REQUIRE(describe(g, 4, NULL, &a, &meta, &p) >= 0);
	snprintf(path, sizeof path, "%s/none.hone", onnx_tmp_dir());
	meta.n--;
	CHECK_FAILS(image_write(path, &im, p, &meta), E_UNSUPPORTED, "cannot be written as an image");
	CHECK(!file_exists(path));
	meta.n++;
	CHECK_OK(image_write(path, &im, p, &meta));
	plan_free(p);
	buf_free(&meta);
	graph_free(g);
	arena_free(&a);
}

TEST(damaged_files)
{
	char path[128];
	struct target here;
	struct image im;
	struct plan *p;
	struct stat st;
	REQUIRE(target_host(&here) >= 0);
	snprintf(path, sizeof path, "%s/damaged", onnx_tmp_dir());
	write_for(&here, path, (struct key){1, 2});
	REQUIRE(stat(path, &st) == 0);
	FILE *f = fopen(path, "r+");
	REQUIRE(f != NULL);
	for (long at = 0; at < st.st_size; at += 1 + at / 64) {
		fseek(f, at, SEEK_SET);
		int c = getc(f);
		fseek(f, at, SEEK_SET);
		putc(c ^ 0x10, f);
		fflush(f);
		CHECK(image_read(path, NULL, &here, NULL, &im, &p) < 0);
		fseek(f, at, SEEK_SET);
		putc(c, f);
		fflush(f);
	}
	CHECK_OK(image_read(path, NULL, &here, NULL, &im, &p));
	plan_free(p);
	fclose(f);
	for (long n = st.st_size - 1; n > 0; n /= 2) {
		REQUIRE(truncate(path, n) == 0);
		CHECK(image_read(path, NULL, &here, NULL, &im, &p) < 0);
	}
}

static void write_text(const char *path, const char *text)
{
	CHECK_OK(file_write(path, text, strlen(text)));
}

/* An image beside its model is known by the model's bytes, whatever its times. */
TEST(beside_a_model)
{
	char model[128], path[160];
	struct target here;
	struct image im = {.threads = 1};
	struct plan *p;
	const struct import_bind n4 = {"N", "4"};
	const struct import_opts plain = {0}, bound = {.nbinds = 1, .binds = &n4};
	snprintf(model, sizeof model, "%s/m.onnx", onnx_tmp_dir());
	const struct beside b = {model, &plain, 1, false};
	struct beside other = b;
	struct key same;
	REQUIRE(target_host(&here) >= 0 && beside_path(model, path, sizeof path));
	write_text(model, "some model");
	CHECK_FAILS(beside_read(&b, &here, NULL, &im, &p), E_NOTFOUND, "no image");
	REQUIRE(beside_key(&b, &im.key) >= 0);
	write_for(&here, path, im.key);
	REQUIRE(beside_read(&b, &here, NULL, &im, &p) >= 0);
	plan_free(p);
	CHECK_OK(beside_same(&b, &same));
	write_text(model, "sore model");
	CHECK_FAILS(beside_read(&b, &here, NULL, &im, &p), E_NOTFOUND, "another model");
	write_text(model, "some model");
	CHECK_OK(beside_same(&b, &im.same));
	CHECK(!key_equal(same, im.same));
	REQUIRE(beside_read(&b, &here, NULL, &im, &p) >= 0);
	plan_free(p);
	other.level = true;
	CHECK_FAILS(beside_read(&other, &here, NULL, &im, &p), E_NOTFOUND, "or level");
	other = b;
	other.threads = 2;
	CHECK_FAILS(beside_read(&other, &here, NULL, &im, &p), E_NOTFOUND, "threads");
	other = b;
	other.opts = &bound;
	CHECK_FAILS(beside_read(&other, &here, NULL, &im, &p), E_NOTFOUND, "shapes");
	REQUIRE(unlink(model) == 0);
	CHECK_FAILS(beside_read(&b, &here, NULL, &im, &p), E_NOTFOUND, "m.onnx");
}

TEST_MAIN
