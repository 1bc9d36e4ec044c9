/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/plan_device.h"
#include "kernels/task/task_stage.h"
#include "kernels/graph/eval.h"
#include "platform/base/log.h"
#include "platform/base/until.h"
#include "tools/hone/compare.h"
#include "tools/hone/cut.h"
#include "tools/hone/interrupt.h"
#include "tools/hone/keep.h"
#include "tools/hone/next.h"
#include "agent/cache/json.h"
#include "agent/cache/lookup.h"
#include "tools/hone/guard.h"
#include "tools/hone/ready.h"
#include "tools/hone/table.h"
#include "kernels/graph/weights.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Kernels are of one of these kinds, by what they round; the most exact kind is the first. */
enum { KIND_EXACT, KIND_FP32, KIND_W16, KIND_HALF, KIND_HALF_SUM, KIND_INT8, KINDS };
static const char *const kind_name[] = {"exact", "fp32", "w16", "half", "half-sum", "int8"};

struct verify {
	const struct args *args;
	enum ready_kernels kernels;
	const char *cache_dir;
	struct host host;
	struct cache *cache;
	struct kernel_source source;
	int ok, failed;
	int kind[KINDS];  /* kernels by what they round; none with --against */
	int portable;     /* operators without a task, which only the outputs check */
	int tasks;        /* kernels of tasks, which can be tuned */
	int of_level;     /* kernels of the cache that were tuned at the level that was asked for */
	bool quantised;   /* the reference is the network of integers */
	double worst;     /* largest max|got - ref| / max|ref| of any kernel */
	json_t *wrong;    /* names of the kernels that are wrong */
	char folder[512]; /* for --bisect */
	bool written;     /* --bisect wrote it */
	struct arena arena;
	const char *floats; /* as in struct model */
	const char *nan; /* says which weight holds NaN; NULL: none does, or nothing was wrong */
	const char *infinite; /* the same of infinities */
};

/* Returns the gate for one kernel on its own inputs: it depends on what the kernel rounds. */
static const struct case_gate *kernel_gate(const struct plan_kernel *k)
{
	return k->pairs ? &case_gate_pairs : k->w16 ? &case_gate_w16 : &case_gate_fp32;
}

/* Whether the step's kernel reads or writes bytes. */
static bool has_bytes(const struct step *s)
{
	for (int i = 0; i < s->task->noperands; i++)
		if (dtype_is_byte(s->task->operand[i].dtype))
			return true;
	return false;
}

/* level: that of the plan, whose kernels are of it or of a more exact one. */
static int kernel_kind(const struct plan_kernel *k, const struct step *s, enum level level)
{
	if (k->pairs)
		return k->pairs == DT_F16 ? KIND_HALF_SUM : KIND_HALF;
	if (k->w16)
		return KIND_W16;
	return has_bytes(s) ? KIND_INT8 : level == LEVEL_EXACT ? KIND_EXACT : KIND_FP32;
}

static void count(struct verify *v, const char *what, const char *name, double rel, bool good)
{
	v->ok += good;
	v->failed += !good;
	v->worst = fmax(v->worst, rel);
	if (good) {
		log_more("good  %s '%s': %.2e", what, name, rel);
		return;
	}
	json_array_append_new(v->wrong, json_text(name));
	if (!v->args->json)
		table_say("wrong %s '%s': differs by %.3g of the largest value", what, name, rel);
}

/* The step's output as a step value; -1: none. */
static int out_value(const struct step *s)
{
	for (int i = 0; i < s->task->noperands; i++)
		if (s->task->operand[i].role == ROLE_OUT)
			return s->value[i];
	return -1;
}

static int bisect(struct verify *v, const struct model *m, const struct step *s, const struct tensor *t)
{
	struct arena a = {0};
	bool *stop = ARENA_ARRAY(&a, bool, m->g->nvalues);
	for (int i = 0; i < s->task->noperands; i++)
		if (s->task->operand[i].role == ROLE_IN && s->value[i] >= 0)
			stop[m->steps->value[s->value[i]].of] = true;
	struct graph *piece;
	int *from, rc = cut_graph(m->g, m->steps->value[out_value(s)].of, stop, &piece, &from);
	if (rc >= 0) {
		rc = cut_write(piece, from, t, v->folder);
		v->written = rc >= 0;
		graph_free(piece);
	}
	arena_free(&a);
	return rc;
}

/* Checks of the kernels of a plan that has run, each on the inputs that it got: the reference goes on with
 * what a kernel made of its answer, so that no error is counted twice, and no byte that was rounded to the
 * other side counts in all that follows. */
struct follow {
	struct verify *v;
	struct model *m;
	struct plan *p;
	const struct plan_kernel *kernel;
	int nkernels;
	struct tensor *t; /* per value of the graph: as the plan has it, else the reference's */
	struct arena a;
	const struct step *first; /* wrong one */
	struct tensor right;      /* what it should have made */
};

/* Whether the step rounds floats to bytes, which may fall on either side of a half. */
static bool rounds(const struct step *s)
{
	for (int i = 0; i < s->task->noperands; i++)
		if (s->task->operand[i].role == ROLE_IN && s->task->operand[i].dtype == DT_F32)
			return true;
	return false;
}

/* The value as the plan has it, in the reference's shape: steps may merge dimensions. */
static int plan_has(struct follow *f, int step_value, const struct tensor *ref, struct tensor *got)
{
	int rc = plan_value(f->p, step_value, &f->a, got);
	if (rc >= 0 && shape_count(&got->shape) == shape_count(&ref->shape))
		got->shape = ref->shape;
	return rc;
}

static int check_kernel(struct follow *f, const struct plan_kernel *k, const struct tensor *ref)
{
	const struct step *s = &f->m->steps->step[k->step];
	struct tensor got;
	bool good;
	int rc = plan_has(f, out_value(s), ref, &got);
	if (rc < 0)
		return rc;
	double rel = compare_tensors(&got, ref, kernel_gate(k), rounds(s), &good);
	f->v->kind[kernel_kind(k, s, f->v->host.level)]++;
	count(f->v, "kernel", s->name, rel, good);
	if (!good && !f->first) {
		f->first = s;
		f->right = *ref;
	}
	return E_OK;
}

/* The step value that a step only stores in another layout, as both are the same value of the graph; -1: the
 * step computes something. */
static int converted(const struct steps *all, const struct step *s, int value)
{
	for (int i = 0; i < s->task->noperands; i++)
		if (s->task->operand[i].role == ROLE_IN && s->value[i] >= 0 &&
		    all->value[s->value[i]].of == value)
			return s->value[i];
	return -1;
}

/* What the kernel should have made: of a conversion, the value that it got, which another kernel may have
 * rounded; else the reference's. */
static struct tensor should_make(struct follow *f, const struct step *s, int value, const struct tensor *ref)
{
	struct tensor got;
	int from = converted(f->m->steps, s, value);
	bool here = from >= 0 && plan_has(f, from, ref, &got) >= 0 && got.dtype == ref->dtype &&
		    shape_equal(&got.shape, &ref->shape);
	return here ? got : *ref;
}

/* Checks the kernels that make a value; t[value] is the reference's, and becomes the plan's. */
static int follow_value(struct follow *f, int value)
{
	const struct steps *all = f->m->steps;
	const struct tensor ref = f->t[value];
	struct until *limit = until_set(NULL); /* copies that are cut would look wrong */
	int rc = E_OK;
	for (int i = 0; i < f->nkernels && rc >= 0; i++) {
		const struct step *s = &all->step[f->kernel[i].step];
		int out = s->kind == STEP_TASK ? out_value(s) : -1;
		if (out < 0 || all->value[out].of != value)
			continue;
		const struct tensor right = should_make(f, s, value, &ref);
		rc = check_kernel(f, &f->kernel[i], &right);
	}
	for (int i = 0; i < all->nvalues && rc >= 0; i++) {
		struct tensor got;
		if (all->value[i].of != value || all->value[i].constant || plan_has(f, i, &ref, &got) < 0 ||
		    got.dtype != ref.dtype || !shape_equal(&got.shape, &ref.shape))
			continue;
		f->t[value] = got;
		break;
	}
	until_set(limit);
	return rc;
}

static int follow_graph(struct follow *f, const struct tensor *in)
{
	const struct graph *g = f->m->g;
	int rc = eval_begin(g, in, f->t);
	for (int i = 0; i < g->ninputs && rc >= 0; i++)
		rc = follow_value(f, g->input[i]);
	for (int i = 0; i < g->nnodes && rc >= 0; i++) {
		const struct node *n = &g->node[i];
		if (!eval_has(g, i))
			continue;
		rc = eval_node(g, i, f->t, &f->a);
		for (int k = 0; k < n->nout && rc >= 0; k++)
			if (n->out[k] >= 0)
				rc = follow_value(f, n->out[k]);
	}
	return rc;
}

/* After the kernels, the smallest failing model. */
static int end_kernels(struct follow *f)
{
	if (!f->first || !arg_flag(f->v->args, "bisect"))
		return E_OK;
	f->t[f->m->steps->value[out_value(f->first)].of] = f->right;
	return bisect(f->v, f->m, f->first, f->t);
}

/* An output within its gate is no comparison of its own. */
static void count_output(void *ctx, const char *name, double rel, bool good)
{
	struct verify *v = ctx;
	v->worst = fmax(v->worst, good ? rel : v->worst);
	if (!good)
		count(v, "output", name, rel, good);
}

/* Counts what is compared by the outputs alone, and the kernels that were tuned at this level. */
static void count_steps(struct follow *f)
{
	struct arena scratch = {0};
	struct verify *v = f->v;
	const struct host *h = &v->host;
	for (int i = 0; i < f->nkernels; i++) {
		const struct step *s = &f->m->steps->step[f->kernel[i].step];
		struct rec r;
		v->portable += s->kind == STEP_HOST;
		v->tasks += s->kind == STEP_TASK;
		v->of_level += s->kind == STEP_TASK && f->kernel[i].origin == FROM_CACHE && v->cache &&
			       cache_find_rec(v->cache, task_key(s->task), &h->target, h->threads, h->level,
					      REC_BEST, &scratch, &r) >= 0 &&
			       (r.level == h->level || h->level == LEVEL_INT8);
	}
	arena_free(&scratch);
}

static int check_model(struct verify *v, struct model *m)
{
	struct arena a = {0};
	struct tensor *in, *out;
	struct follow f = {.v = v, .m = m, .t = ARENA_ARRAY(&a, struct tensor, m->g->nvalues + 1)};
	int rc = plan_build_kept(m->g, m->steps, &v->host.target, v->source.find ? &v->source : NULL,
				 v->host.pool, &f.p);
	if (rc < 0)
		return rc;
	f.nkernels = plan_kernels(f.p, &f.kernel);
	count_steps(&f);
	rc = host_built(&v->host);
	if (rc >= 0 && v->host.name && !plan_device_use(f.p).steps)
		rc = fail(E_NOTFOUND,
			  "%s: the cache has no kernel of this model for it; hone tune --device %s makes them",
			  v->host.name, v->host.name);
	if (rc >= 0)
		rc = model_inputs(m->g, 1, &a, &in);
	if (rc >= 0)
		rc = model_outputs(m->g, &a, &out);
	if (rc >= 0)
		rc = plan_run(f.p, in, out);
	if (rc >= 0)
		rc = until_check(); /* a run that was cut has no values to compare */
	log_live("reference");
	if (rc >= 0)
		rc = follow_graph(&f, in);
	if (rc >= 0)
		rc = end_kernels(&f);
	if (rc >= 0 && !interrupted())
		rc = compare_outputs(v->args, m->path, v->host.level, &v->cache, in, out, count_output, v,
				     &v->quantised);
	if (rc == E_STOPPED || (rc >= 0 && interrupted()))
		rc = v->ok + v->failed ? E_OK : fail(E_STOPPED, "stopped");
	plan_free(f.p);
	arena_free(&f.a);
	arena_free(&a);
	return rc;
}

static int verify_kernels(struct verify *v, const char *path)
{
	struct model m;
	struct chosen_for f = ready_chosen(&v->host, v->kernels, v->cache);
	int rc = model_open_with(v->args, path, &f, v->cache, &m);
	if (rc < 0)
		return rc;
	if (v->kernels == KERNELS_DEFAULT) /* as bench does */
		rc = model_take_bytes(&m, &v->host.target);
	if (rc >= 0)
		rc = check_model(v, &m);
	v->floats = m.floats ? arena_strdup(&v->arena, m.floats) : NULL;
	v->nan = m.nan && isinf(v->worst) ? arena_strdup(&v->arena, m.nan) : NULL;
	v->infinite = m.infinite && isinf(v->worst) ? arena_strdup(&v->arena, m.infinite) : NULL;
	model_close(&m);
	return rc;
}

static int verify_against(struct verify *v, const char *path, const char *dir)
{
	char why[512];
	struct ready_case c = {.host = &v->host,
			       .from = v->kernels,
			       .cache = v->cache,
			       .source = v->source.find ? &v->source : NULL};
	const struct case_runner run = {ready_run_case, &c};
	enum case_result r =
	    case_check_model(path, dir, &run, case_gate_of(v->host.level, false), why, &v->worst);
	v->ok = c.kernels;
	if (interrupted())
		return fail(E_STOPPED, "stopped");
	if (r == CASE_PASSED)
		return 0;
	if (v->ok == 0) /* nothing ran, so it is a failure and not a wrong answer */
		return fail(r == CASE_SKIPPED ? E_UNSUPPORTED : E_IO, "%s", why);
	struct graph *g;
	if (model_import(v->args, path, &g) >= 0) {
		v->nan = weights_nan(g, &v->arena);
		v->infinite = v->nan ? NULL : weights_infinite(g, &v->arena);
		graph_free(g);
	}
	v->failed = v->ok;
	v->ok = 0;
	json_array_append_new(v->wrong, json_text(why));
	if (!v->args->json)
		printf("wrong: %s\n", why);
	return 0;
}

/* An interrupted check can be made again with all its options. */
static void next_again(const struct args *a, const char *path)
{
	static const char *const more[] = {"against", "bisect", "output"};
	struct buf b = {0};
	for (int i = 0; i < 3; i++)
		arg_again(a, more[i], a->cmd, &b);
	next_hone(a, "verify", path, buf_str(&b));
	buf_free(&b);
}

static json_t *kinds_json(const struct verify *v)
{
	json_t *list = json_array();
	for (int i = 0; i < KINDS; i++)
		if (v->kind[i])
			json_array_append_new(
			    list, json_pack("{ss si}", "level", kind_name[i], "count", v->kind[i]));
	return list;
}

/* Which kernels were compared, and with what. */
static void kinds_words(const struct verify *v)
{
	struct buf b = {0};
	for (int i = 0; i < KINDS; i++)
		if (v->kind[i])
			buf_printf(&b, "%s%d %s", b.n ? ", " : "", v->kind[i], kind_name[i]);
	if (b.n)
		table_say("levels of the kernels: %s%s", buf_str(&b),
			  v->quantised ? "; the reference is the quantised network, not one of floats" : "");
	if (v->portable)
		table_say("%d operator%s run%s in portable C: only the outputs check %s", v->portable,
			  plural_s(v->portable), v->portable == 1 ? "s" : "", v->portable == 1 ? "it" : "them");
	buf_free(&b);
}

static int report(struct verify *v, const char *path)
{
	int rc = 0;
	if (!v->args->json && interrupted())
		table_say("interrupted: %d comparison%s made", v->ok + v->failed, plural_s(v->ok + v->failed));
	if (!v->args->json)
		kinds_words(v);
	if (v->args->json)
		rc = json_out(
		    json_pack("{so si si so sb si si so so so so so sb so}", "model", json_text(path),
			      "kernel_count", v->ok + v->failed, "portable", v->portable, "levels",
			      kinds_json(v), "quantized_reference", v->quantised, "passed", v->ok, "failed",
			      v->failed, "max_rel_err", json_num(v->worst), "wrong", json_incref(v->wrong),
			      "bisected", v->written ? json_text(v->folder) : json_null(), "nan",
			      v->nan ? json_text(v->nan) : json_null(), "infinite",
			      v->infinite ? json_text(v->infinite) : json_null(), "stopped", interrupted(),
			      "not_quantized", v->floats ? json_text(v->floats) : json_null()));
	else if (v->nan || v->infinite)
		table_say("FAIL: %d of %d comparison%s differ, because %s: %s", v->failed, v->ok + v->failed,
			  plural_s(v->ok + v->failed), v->nan ? v->nan : v->infinite,
			  v->nan ? "what Relu, Max or Clip make of NaN differs between kernels"
				 : "a sum with it is infinite or NaN, depending on the kernel");
	else if (v->failed)
		table_say("FAIL: %d of %d comparison%s differ; largest error %.2e of the largest value",
			  v->failed, v->ok + v->failed, plural_s(v->ok + v->failed), v->worst);
	else if (interrupted())
		table_say("good so far: %d kernel%s; largest error %.2e of the largest value", v->ok,
		       plural_s(v->ok), v->worst);
	else
		table_say("PASS: %d kernel%s and all outputs match; largest error %.2e of the largest value",
			  v->ok, plural_s(v->ok), v->worst);
	if (v->written && !v->args->json)
		table_say("the smallest failing model is in %s", v->folder);
	if (v->args->json)
		return rc < 0 ? rc : v->failed != 0;
	if (v->written)
		next_say("hone onnx-test %s", v->folder);
	else if (v->nan || v->infinite)
		log_info("repair the model's weights, then verify it again");
	else if (interrupted())
		next_again(v->args, path);
	else if (v->failed)
		next_hone(v->args, "verify", path, " --bisect");
	else if (v->kernels == KERNELS_BEST && v->host.level != LEVEL_FP32 && v->tasks &&
		 !v->of_level)
		keep_tune(v->args, v->cache_dir, path,
			  " --budget 20s"); /* bench would show kernels of another level */
	else
		next_hone(v->args, "bench", path, "");
	return rc < 0 ? rc : v->failed != 0;
}

/* Chooses and checks the folder that --bisect writes. */
static int choose_folder(struct verify *v, const char *path)
{
	const char *dir = arg_str(v->args, "output", NULL);
	if (!dir)
		dir = arena_printf(&v->arena, "%s-failing", model_name(path, &v->arena));
	if (snprintf(v->folder, sizeof v->folder, "%s", dir) >= (int)sizeof v->folder)
		return fail(E_USAGE, "the path %.60s... is too long", dir);
	return cut_check(v->args, v->folder);
}

static int open_source(struct verify *v, char *dir, size_t n)
{
	int rc = ready_kernels_parse(arg_str(v->args, "kernels", "best"), &v->kernels);
	if (rc >= 0)
		rc = model_cache_or_none(v->args, dir, n);
	if (rc >= 0)
		rc = host_open(v->args, dir, false, &v->host);
	if (rc >= 0)
		rc = source_open(v->kernels, dir, &v->host, &v->cache, &v->source);
	return rc;
}

static int verify_all(const struct args *a)
{
	char dir[4096];
	const char *against = arg_str(a, "against", NULL);
	struct verify v = {.args = a, .wrong = json_array()};
	interrupt_catch();
	int rc = arg_flag(a, "bisect") && !against ? choose_folder(&v, a->pos[0]) : E_OK;
	if (rc >= 0)
		rc = open_source(&v, dir, sizeof dir);
	if (rc >= 0)
		rc = against ? verify_against(&v, a->pos[0], against) : verify_kernels(&v, a->pos[0]);
	log_live(NULL);
	if (rc >= 0)
		rc = report(&v, a->pos[0]);
	source_close(v.kernels, &v.cache, &v.source);
	host_close(&v.host);
	arena_free(&v.arena);
	json_decref(v.wrong);
	return interrupt_status(rc);
}

static int run_verify(const struct args *a)
{
	return guard_run(a, verify_all, GUARD_FAILS);
}

static const struct opt opts[] = {
    {"against", OPT_STR, "DIR", "compare with the outputs in DIR/test_data_set_N instead of the reference"},
    {"bisect", OPT_FLAG, NULL, "write the first wrong kernel as a model with its data"},
    {"output", OPT_STR, "DIR", "folder that --bisect writes (default: MODEL-failing)", 'o'},
    {"kernels", OPT_STR, "KIND", "best (default), default (untuned schedules) or fallback (built in)",
     .values = "best default fallback"},
    OPT_THREADS,
    OPT_DEVICE,
    OPT_LEVEL,
    OPT_CACHE,
    OPT_SHAPE,
    {NULL},
};

const struct cmd cmd_verify = {
    .usage = "MODEL [--against DIR] [--bisect] [--kernels KIND] [--device cpu[:CLUSTER]|opencl:N|cuda:N] "
	     "[--level LEVEL]",
    .summary = "check every kernel and the whole model against the reference",
    .details =
	"The reference is portable C that accumulates in double precision. Each kernel is checked on the "
	"inputs\n"
	"that it got, and the model's outputs against the reference of the whole model. A tensor is right "
	"when\n"
	"it differs by at most 2e-4 of its largest value; of a kernel with weights of 16 bits 1e-2, with\n"
	"products of 16 bits 2e-2. Bytes are equal, or at most 1 apart where a kernel rounds floats. Outputs "
	"of\n"
	"a model may differ by 1e-2 at --level w16, and by .2 at --level half and half-sum, or if the model "
	"rounds to bytes.\n"
	"At --level int8 the reference is the quantised network: hone tune and hone quantize say how far "
	"that\n"
	"is from the network of floats.",
    .min_pos = 1,
    .max_pos = 1,
    .opts = opts,
    .run = run_verify,
    .name = "verify",
};
