/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/ready.h"
#include "agent/cache/lookup.h"
#include "agent/cache/history.h"
#include "agent/run/plan_device.h"
#include "agent/worker/device.h"
#include "agent/run/image.h"
#include "agent/run/source.h"
#include "kernels/onnx/foreign.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "platform/base/stats.h"
#include "tools/hone/interrupt.h"
#include "tools/hone/next.h"
#include "tools/hone/table.h"
#include <stdio.h>
#include <string.h>

int host_open(const struct args *a, const char *cache_dir, bool peaks, struct host *h)
{
	*h = (struct host){0};
	h->name = model_device(a);
	int rc = model_device_check(a);
	if (rc >= 0)
		rc = model_level(a, &h->level);
	if (rc >= 0)
		rc = peaks && !h->name ? machine_target(cache_dir, &h->target) : target_host(&h->target);
	if (rc >= 0)
		rc = h->threads = model_threads(a, &h->target);
	if (rc >= 0)
		rc = machine_pool(h->threads, true, &h->pool);
	if (rc < 0 || !h->name)
		return rc;
	/* Steps without a kernel for the device run on all cores; kernels on it are those of one thread. */
	h->threads = 1;
	rc = peaks ? device_target(h->name, NULL, cache_dir, &h->target) : E_OK;
	bool doubted = rc >= 0 && peaks && device_is_doubted(h->name, cache_dir);
	if (rc >= 0 && peaks && (doubted || h->target.fma_gflops <= 0))
		rc = device_measure(h->name, NULL, doubted ? cache_dir : "", &h->target);
	if (rc >= 0)
		rc = plan_device_open(h->name, &h->device);
	if (rc >= 0 && !peaks)
		plan_device_target(h->device, &h->target);
	return rc;
}

int host_built(const struct host *h)
{
	return h->device ? plan_device_built(h->device) : E_OK;
}

void host_close(struct host *h)
{
	if (h->pool)
		pool_close(h->pool);
	h->pool = NULL;
	plan_device_close(h->device);
	h->device = NULL;
}

static const char *const kernels_names[] = {"best", "default", "fallback"};

int ready_kernels_parse(const char *text, enum ready_kernels *out)
{
	for (int i = 0; i < 3; i++)
		if (!strcmp(text, kernels_names[i])) {
			*out = (enum ready_kernels)i;
			return 0;
		}
	return fail(E_USAGE, "--kernels %s is not possible; it takes best, default or fallback", text);
}

const char *ready_kernels_name(enum ready_kernels k)
{
	return kernels_names[k];
}

const char *ready_origin(enum kernel_origin o)
{
	static const char *const names[] = {[FROM_CACHE] = "tuned",
					    [FROM_DEFAULT] = "default",
					    [FROM_FALLBACK] = "fallback",
					    [FROM_HOST] = "portable"};
	return names[o];
}

const char *ready_kind(const struct plan_kernel *k)
{
	return ready_origin(kernel_origin_kind(k->origin, k->at_default));
}

int source_open(enum ready_kernels k, const char *cache_dir, struct host *h, struct cache **cache,
		struct kernel_source *out)
{
	out->device = h->device;
	if (k == KERNELS_FALLBACK && h->level != LEVEL_INT8) /* whose recipe the cache has */
		return 0;
	int rc = *cache_dir ? model_cache_read(cache_dir, cache) : 0;
	if (rc < 0 || k == KERNELS_FALLBACK)
		return rc;
	if (k == KERNELS_DEFAULT)
		rc = defaults_open(*cache, h, false, out);
	else if (*cache)
		rc = cache_source(*cache, &h->target, h->threads, h->level, REC_BEST, out);
	out->device = h->device;
	return rc;
}

struct chosen_for ready_chosen(const struct host *h, enum ready_kernels k, struct cache *cache)
{
	return (struct chosen_for){k == KERNELS_BEST ? cache : NULL, &h->target, h->threads, h->level};
}

void source_close(enum ready_kernels k, struct cache **cache, struct kernel_source *s)
{
	if (s->ctx && k == KERNELS_DEFAULT)
		defaults_close(s);
	else if (s->ctx)
		cache_source_free(s);
	if (*cache)
		cache_close(*cache);
	*cache = NULL;
	s->ctx = NULL;
}

static int tensors(struct ready *r)
{
	r->g = plan_graph(r->plan);
	int rc = model_inputs(r->g, 1, &r->arena, &r->in);
	if (rc >= 0)
		rc = model_outputs(r->g, &r->arena, &r->out);
	return fail_in(rc, "%s", r->model.path);
}

static int build(const struct args *a, const char *path, struct ready *r)
{
	int rc = source_open(r->kernels, r->cache_dir, r->host, &r->cache, &r->source);
	if (rc < 0)
		return rc;
	struct host *h = r->host;
	struct chosen_for f = ready_chosen(h, r->kernels, r->cache);
	rc = model_open_with(a, path, &f, r->cache, &r->model);
	if (rc >= 0 && r->kernels == KERNELS_DEFAULT)
		rc = model_take_bytes(&r->model, &h->target);
	if (rc < 0)
		return rc;
	r->history = history_key(r->model.g, &h->target, h->threads, h->level);
	rc = plan_build_take(r->model.g, r->model.steps, &h->target, r->source.find ? &r->source : NULL,
			     h->pool, &r->plan); /* the plan takes over the constants */
	rc = fail_in(rc, "%s", path);
	return rc < 0 ? rc : host_built(h);
}

static int load_compiled(const struct args *a, const char *path, const char *file, struct ready *r)
{
	struct image im;
	const char *const *shape;
	r->model.path = path;
	int rc = foreign_folder(path);
	if (rc >= 0 && file_is_dir(path) && !file_exists(file))
		rc =
		    fail(E_NOTFOUND,
			 "%s is a folder without a compiled model; name a model file, or make one there with "
			 "hone compile MODEL -o %s",
			 path, path);
	if (rc < 0)
		return rc;
	if (r->host->name)
		return fail(E_USAGE,
			    "%s is compiled and has kernels of the processor alone, so --device %s is not "
			    "possible: name the ONNX model that it was compiled from",
			    path, r->host->name);
	if (r->kernels != KERNELS_BEST || arg_list(a, "shape", &shape))
		return fail(
		    E_USAGE,
		    "%s is compiled with its own kernels and shapes: --kernels and --shape are not possible",
		    path);
	rc = image_read(file, NULL, &r->host->target, r->host->pool, &im, &r->plan);
	r->image_threads = rc >= 0 ? im.threads : 0;
	r->level = rc >= 0 ? im.level : r->level;
	bool asked = arg_given(a, "level") || arg_given(a, "exact");
	if (rc >= 0 && asked && !level_serves(im.level, r->host->level))
		return fail(E_USAGE, "%s was not compiled with --level %s, but with --level %s", path,
			    level_name((int)r->host->level), level_name((int)im.level));
	return rc;
}

int ready_open(const struct args *a, const char *path, const char *cache_dir, enum ready_kernels k,
	       struct host *h, struct ready *r)
{
	char file[4096];
	int64_t start = clock_now(&clock_real);
	*r = (struct ready){.host = h, .cache_dir = cache_dir, .kernels = k, .level = h->level};
	int rc = image_find(path, file, sizeof file) ? load_compiled(a, path, file, r) : build(a, path, r);
	if (rc >= 0)
		rc = tensors(r);
	r->load_ns = clock_now(&clock_real) - start;
	if (rc < 0)
		ready_close(r);
	return rc;
}

void ready_close(struct ready *r)
{
	if (r->plan)
		plan_free(r->plan);
	source_close(r->kernels, &r->cache, &r->source);
	if (r->model.g)
		model_close(&r->model);
	arena_free(&r->arena);
	*r = (struct ready){0};
}

static bool is_task(const struct ready *r, const struct plan_kernel *k)
{
	return r->model.steps->step[k->step].kind == STEP_TASK;
}

bool ready_missing(const struct ready *r, const struct plan_kernel *k)
{
	return is_task(r, k) && k->origin != FROM_CACHE && k->origin != FROM_DEFAULT;
}

int ready_not_default(const struct ready *r, const char **why)
{
	const struct plan_kernel *k;
	int n = plan_kernels(r->plan, &k), without = 0;
	*why = NULL;
	if (r->kernels != KERNELS_DEFAULT || !r->model.steps)
		return 0;
	for (int i = 0; i < n; i++)
		without += is_task(r, &k[i]) && k[i].origin != FROM_DEFAULT;
	*why = r->source.ctx && *defaults_why(&r->source) ? defaults_why(&r->source) : NULL;
	return without;
}

int ready_require(const struct args *a, const struct ready *r)
{
	enum { NAMED = 8 };
	const struct plan_kernel *k;
	struct buf names = {0}, remedy = {0};
	int n = plan_kernels(r->plan, &k), tasks = 0, missing = 0;
	if (!r->model.g)
		return fail(E_USAGE, "%s is compiled and uses no cache: --require-cache is not possible",
			    r->model.path);
	if (r->kernels != KERNELS_BEST)
		return fail(E_USAGE, "--require-cache goes with --kernels best, not with --kernels %s",
			    ready_kernels_name(r->kernels));
	for (int i = 0; i < n; i++) {
		tasks += is_task(r, &k[i]);
		if (!ready_missing(r, &k[i]) || missing++ >= NAMED)
			continue;
		buf_printf(&names, "%s%s (%s)", missing > 1 ? ", " : "", k[i].name, k[i].label);
	}
	if (missing > NAMED)
		buf_printf(&names, " and %d more", missing - NAMED);
	next_words(a, "tune", r->model.path,
		   arg_has(a, "submit") && arg_given(a, "submit") ? " --budget 60s" : " --rigor estimate",
		   *r->cache_dir ? r->cache_dir : NULL, &remedy);
	int rc = !missing ? 0
			  : fail(E_NOTFOUND, "%s: %d of %d kernel%s %s not in the cache: %s; `%s` makes %s",
				 r->model.path, missing, tasks, plural_s(tasks), missing == 1 ? "is" : "are",
				 buf_str(&names), buf_str(&remedy), missing == 1 ? "it" : "them");
	buf_free(&names);
	buf_free(&remedy);
	return rc;
}

void ready_say_threads(int others, int tuned, int threads)
{
	if (others)
		table_say("%d of %d tuned kernel%s %s tuned for another number of threads; --threads %d of "
			  "hone tune tunes for %d",
			  others, tuned, plural_s(tuned), others == 1 ? "was" : "were", threads, threads);
}

/* Untuned kernels whose records are of level int8, at which a box may have quantised no layer. */
static int only_int8(const struct ready *r)
{
	const struct plan_kernel *k;
	const struct host *h = r->host;
	struct arena scratch = {0};
	int n = plan_kernels(r->plan, &k), found = 0;
	for (int i = 0; i < n && r->cache && r->model.steps && h->level == LEVEL_FP32; i++) {
		struct rec rec;
		found += ready_missing(r, &k[i]) &&
			 cache_find_rec(r->cache, task_key(r->model.steps->step[k[i].step].task), &h->target,
					h->threads, LEVEL_INT8, REC_BEST, &scratch, &rec) >= 0 &&
			 rec.level == LEVEL_INT8;
	}
	arena_free(&scratch);
	return found;
}

void ready_look_at_records(const struct ready *r)
{
	int only = only_int8(r);
	if (only)
		table_say(
		    "%d kernel%s of this model %s in the cache for --level int8 alone: give --level int8 to "
		    "run %s",
		    only, plural_s(only), only == 1 ? "is" : "are", only == 1 ? "it" : "them");

	const struct plan_kernel *k;
	struct arena scratch = {0};
	const struct host *h = r->host;
	int n = plan_kernels(r->plan, &k), tuned = 0, others = 0;
	for (int i = 0; i < n && r->cache && r->model.steps; i++) {
		const struct step *s = &r->model.steps->step[k[i].step];
		struct rec rec;
		if (k[i].origin != FROM_CACHE || s->kind != STEP_TASK)
			continue;
		tuned++;
		others += cache_find_rec(r->cache, task_key(s->task), &h->target, h->threads, h->level,
					 REC_BEST, &scratch, &rec) >= 0 &&
			  rec.threads != h->threads;
	}
	ready_say_threads(others, tuned, h->threads);
	if (r->image_threads && r->image_threads != h->threads)
		table_say("it was compiled for %d thread%s; --threads %d runs it so", r->image_threads,
			  plural_s(r->image_threads), r->image_threads);
	arena_free(&scratch);
}

int ready_time_kernels(struct ready *const *r, int n, int runs, int64_t limit_ns, struct arena *a,
		       struct kernel_time **time)
{
	const struct plan_kernel *k;
	struct arena scratch = {0};
	double **all = ARENA_ARRAY(&scratch, double *, n);
	for (int i = 0; i < n; i++)
		all[i] = ARENA_ARRAY(&scratch, double, plan_kernels(r[i]->plan, &k) * runs + 1);
	int rc = 0, done = 0;
	int64_t end = clock_now(&clock_real) + limit_ns;
	for (int at = 0; at < runs * n && rc >= 0; at++) {
		if (at % n == 0 && at && (clock_now(&clock_real) > end || interrupted()))
			break;
		done = at / n + 1;
		int i = at % n, count = plan_kernels(r[i]->plan, &k);
		rc = fail_in(plan_run_timed(r[i]->plan, r[i]->in, r[i]->out, &clock_real), "%s",
			     r[i]->model.path);
		for (int j = 0; j < count; j++)
			all[i][j * runs + at / n] = (double)k[j].ns;
	}
	for (int i = 0; i < n && rc >= 0; i++) {
		int count = plan_kernels(r[i]->plan, &k);
		time[i] = ARENA_ARRAY(a, struct kernel_time, count + 1);
		for (int j = 0; j < count; j++) {
			double *runs_ns = &all[i][j * runs];
			time[i][j] = (struct kernel_time){stats_median(runs_ns, done),
							  stats_quantile(runs_ns, done, 0)};
		}
	}
	arena_free(&scratch);
	return rc;
}

int ready_run_case(void *ctx, struct graph *g, const struct tensor *in, struct tensor *out, struct arena *a)
{
	struct ready_case *c = ctx;
	struct steps *s;
	struct choices chosen;
	struct plan *p = NULL;
	struct tensor *o;
	const struct plan_kernel *k;
	const struct chosen_for f = ready_chosen(c->host, c->from, c->cache);
	int rc = recipe_use(&c->cache, 1, c->host->level, g, NULL);
	if (rc >= 0)
		rc = chosen_steps(&f, g, a, &chosen, &s);
	if (rc >= 0)
		rc = plan_build(g, s, &c->host->target, c->source, c->host->pool, &p);
	if (rc >= 0)
		rc = host_built(c->host);
	if (rc >= 0)
		rc = model_outputs(g, a, &o);
	if (rc >= 0)
		rc = plan_run(p, in, o);
	if (rc >= 0)
		c->kernels += plan_kernels(p, &k);
	for (int i = 0; i < g->noutputs && rc >= 0; i++)
		out[i] = o[i];
	plan_free(p);
	return rc;
}
