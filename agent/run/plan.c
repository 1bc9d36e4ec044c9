/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/plan_parts.h"
#include "agent/run/trace.h"
#include "platform/run/foreign.h"

#include <stdlib.h>
#include <string.h>

static void plain_operand(const struct tensor *t, struct operand *o)
{
	memset(o, 0, sizeof *o);
	o->dtype = t->dtype;
	o->dims = t->shape;
}

/* Work of PLAN_ALONE_NS on one core is not worth the 0.5 us of a range. What threads made lies in all their
 * caches, at 8 GB/s from another core: YuNet took 1.06 ms at 1500, 1.01 at 500 and 0.99 at 0,
 * FastestDet 1.76, 1.73 and 1.75.
 *
 * A network of PLAN_WAKE_NS runs on one core: between two inferences of an application the threads sleep, and
 * to wake one takes 5 us of the caller and 30 us or more until it works. Untuned policy_go1 (21 us on one
 * core) took 29 us with two threads, mnist_8 (36 us) took 41. */
enum {
	PORTABLE = 4, /* portable code may take so many times the least time, */
	EXACT = 1000  /* and the reference of bytes so many */
};

/* A core whose peaks nobody has measured, as in an application without a cache; the weights of a small
 * network stay in the core's own cache. */
#define GUESS_GFLOPS_PER_LANE 6
#define GUESS_GBS 30

/* Time of a step on one core, if its kernel is as good as can be. */
static double least_ns(const struct plan_kernel *k, const struct target *t)
{
	if (k->roofline_ns > 0)
		return k->roofline_ns;
	double compute = k->flops / (GUESS_GFLOPS_PER_LANE * (t->lanes > 1 ? t->lanes : 1));
	double memory = k->bytes / GUESS_GBS;
	return compute > memory ? compute : memory;
}

/* Small kernels run in the caller; a plan of nothing else never wakes the pool. */
static void decide_alone(struct plan *p, const struct target *t)
{
	double all_ns = 0;
	p->alone = true;
	for (int i = 0; i < p->nsteps; i++) {
		struct pstep *ps = &p->step[i];
		if (ps->step->kind != STEP_TASK || ps->kernel < 0)
			continue;
		double ns = least_ns(&p->kernel[ps->kernel], t);
		all_ns += ps->code ? ns : ps->host && host_is_exact(ps->host) ? EXACT * ns : PORTABLE * ns;
		ps->alone = ps->code && ns < PLAN_ALONE_NS;
		p->alone &= ps->alone;
	}
	p->alone |= all_ns < PLAN_WAKE_NS;
	for (int i = 0; i < p->nsteps; i++) {
		struct pstep *ps = &p->step[i];
		ps->alone |= p->alone;
		if (ps->kernel >= 0)
			p->kernel[ps->kernel].alone = ps->alone;
	}
}

/* Room for what operators without kernels take while they run, so that no run has to ask for it: they keep at
 * most a copy of their operands, in doubles. Untouched, it is no memory. */
static void reserve_scratch(struct plan *p)
{
	size_t most = 0;
	for (int i = 0; i < p->nsteps; i++) {
		const struct opctx *c = &p->step[i].ctx;
		size_t bytes = 4096;
		if (p->step[i].step->kind != STEP_HOST)
			continue;
		for (int k = 0; k < c->nin; k++)
			bytes += (size_t)shape_count(&c->in[k].shape) * sizeof(double);
		for (int k = 0; k < c->nout; k++)
			bytes += (size_t)shape_count(&c->out[k].shape) * sizeof(double);
		most = bytes > most ? bytes : most;
	}
	if (most && arena_try(&p->scratch, most, 1))
		arena_reset(&p->scratch);
}

/* Lets libraries make their pieces for the packed constants. */
static int make_pieces(struct plan *p)
{
	for (int i = 0; i < p->nsteps; i++) {
		struct pstep *ps = &p->step[i];
		if (!ps->library || foreign_ready(ps->code, ps->buf, ps->step->name))
			continue;
		p->no_libraries = true;
		return E_UNSUPPORTED;
	}
	return E_OK;
}

/* Whether a library has failed in this run, so that it must be done again: portable code then computes what
 * the library did. A failed one may have overwritten what other steps read. */
static bool missed_piece(const struct plan *p)
{
	bool missed = false;
	for (int i = 0; i < p->nsteps && p->libraries; i++)
		missed |= p->step[i].library && !foreign_good(p->step[i].code, p->step[i].step->name);
	return missed;
}

static int build(struct plan *p, const struct target *t, const struct kernel_source *src)
{
	const struct graph *g = p->g;
	p->nsteps = p->s->nsteps;
	p->step = arena_try(&p->a, (size_t)p->nsteps + 1, sizeof *p->step);
	p->kernel = arena_try(&p->a, (size_t)p->nsteps + 1, sizeof *p->kernel);
	p->place = arena_try(&p->a, (size_t)p->s->nvalues + 1, sizeof *p->place);
	p->in = arena_try(&p->a, (size_t)g->ninputs + 1, sizeof *p->in);
	p->out = arena_try(&p->a, (size_t)g->noutputs + 1, sizeof *p->out);
	p->at_home = arena_try(&p->a, (size_t)g->noutputs + 1, sizeof *p->at_home);
	if (!p->step || !p->kernel || !p->place || !p->in || !p->out || !p->at_home)
		return E_NOMEM;
	for (int i = 0; i < g->ninputs; i++)
		plain_operand(&g->value[g->input[i]].t, &p->in[i]);
	for (int i = 0; i < g->noutputs; i++)
		plain_operand(&g->value[g->output[i]].t, &p->out[i]);
	int rc = plan_find(p, t, src);
	p->take &= !p->libraries;
	for (int i = 0; i < p->nsteps; i++)
		if (p->step[i].host)
			p->step[i].nbufs = p->step[i].step->task->noperands;
	if (rc >= 0) {
		decide_alone(p, t);
		rc = plan_place(p);
		reserve_scratch(p);
	}
	if (rc >= 0 && p->device)
		rc = p->device->ready(p);
	if (rc >= 0 && p->libraries)
		rc = make_pieces(p);
	if (rc >= 0 && p->take && p->textures)
		rc = plan_take_all(p);
	if (rc >= 0 && p->image)
		plan_describe(p, p->image);
	arena_free(&p->trial);
	if (!p->whole)
		arena_free(&p->making);
	return rc;
}

enum way { REUSE, KEEP, TAKE, WHOLE, LEND };

/* Kernels that a plan must not use. */
struct without {
	bool textures, libraries;
};

static int try_plan(struct graph *g, const struct steps *s, const struct target *t,
		    const struct kernel_source *src, struct pool *pool, enum way way,
		    const struct plan *beside, struct buf *image, struct without *without, struct plan **out)
{
	struct plan *p = calloc(1, sizeof *p);
	if (!p)
		return fail(E_NOMEM, "no memory for a plan");
	p->g = g;
	p->s = s;
	p->pool = pool;
	p->keep = way == KEEP;
	p->take = way == TAKE || way == WHOLE;
	p->whole = way == WHOLE;
	p->lends = way == LEND;
	p->device = src ? (struct on_device *)src->device : NULL;
	p->beside = p->device ? NULL : beside; /* the device copies the plan's own weights */
	p->lends &= !p->device;
	p->image = image;
	p->no_textures = without->textures;
	p->no_libraries = without->libraries;
	p->dev = dev_find("cpu");
	int rc = build(p, t, src);
	if (rc < 0) {
		*without = (struct without){p->no_textures, p->no_libraries};
		plan_free(p);
		return fail_in(rc, "plan");
	}
	p->beside = NULL;
	*out = p;
	return E_OK;
}

/* A device may lack the memory for weights that it holds twice, and a library may make no piece: then the
 * plan is built once more without these. */
static int make_plan(struct graph *g, const struct steps *s, const struct target *t,
		     const struct kernel_source *src, struct pool *pool, enum way way,
		     const struct plan *beside, struct buf *image, struct plan **out)
{
	struct without without = {false, false};
	int rc = try_plan(g, s, t, src, pool, way, beside, image, &without, out);
	return rc < 0 && (without.textures || without.libraries)
		   ? try_plan(g, s, t, src, pool, way, beside, image, &without, out)
		   : rc;
}

int plan_build(struct graph *g, const struct steps *s, const struct target *t,
	       const struct kernel_source *src, struct pool *pool, struct plan **out)
{
	return make_plan(g, s, t, src, pool, REUSE, NULL, NULL, out);
}

int plan_build_beside(struct graph *g, const struct steps *s, const struct target *t,
		      const struct kernel_source *src, struct pool *pool, const struct plan *beside,
		      struct plan **out)
{
	return make_plan(g, s, t, src, pool, LEND, beside, NULL, out);
}

int plan_build_kept(struct graph *g, const struct steps *s, const struct target *t,
		    const struct kernel_source *src, struct pool *pool, struct plan **out)
{
	return make_plan(g, s, t, src, pool, KEEP, NULL, NULL, out);
}

int plan_build_take(struct graph *g, const struct steps *s, const struct target *t,
		    const struct kernel_source *src, struct pool *pool, struct plan **out)
{
	return make_plan(g, s, t, src, pool, TAKE, NULL, NULL, out);
}

int plan_build_whole(struct graph *g, const struct steps *s, const struct target *t,
		     const struct kernel_source *src, struct pool *pool, struct plan **out)
{
	return make_plan(g, s, t, src, pool, WHOLE, NULL, NULL, out);
}

int plan_build_described(struct graph *g, const struct steps *s, const struct target *t,
			 const struct kernel_source *src, struct pool *pool, struct buf *image,
			 struct plan **out)
{
	return make_plan(g, s, t, src, pool, TAKE, NULL, image, out);
}

struct call {
	const struct plan *p;
	struct pstep *ps;
	int entry;
	const struct host_task *host; /* NULL: compiled */
	void *const *buf;
	bool refill; /* halos are set too, each range its share: most lines are in its core's cache or will be
		      */
	int64_t extent;
};

/* The caller flushes subnormals already (plan_run_timed), and so do the pool's threads. */
static void range(void *ctx, int thread, int64_t begin, int64_t end)
{
	const struct call *c = ctx;
	struct pstep *ps = c->ps;
	void *scratch = (char *)c->p->threads.p + (size_t)thread * c->p->thread_bytes;
	struct trace *t = c->p->trace;
	int64_t begin_ns = t ? clock_now(trace_clock(t)) : 0;
	for (int i = 0; i < ps->nrefill && c->refill; i++)
		plan_set_halo(c->p, ps->refill[i], begin, end, c->extent);
	if (c->host) {
		host_run(c->host, c->entry, c->buf, begin, end, scratch);
	} else {
		void *buf[CODE_MAX_BUFS];
		memcpy(buf, ps->buf, sizeof buf);
		if (ps->nbufs)
			buf[ps->nbufs - 1] = buf[ps->nbufs - 1] ? buf[ps->nbufs - 1] : scratch;
		c->p->dev->run(ps->code, ps->entry[c->entry].entry, buf, ps->param, begin, end);
	}
	if (t)
		trace_add(t, thread, (struct trace_event){ps->kernel, begin_ns, clock_now(trace_clock(t))});
}

static void run_entry(const struct plan *p, struct call *c, int64_t extent)
{
	c->extent = extent;
	if (p->pool && !c->ps->alone)
		pool_run(p->pool, range, c, extent);
	else if (extent > 0)
		range(c, 0, 0, extent);
}

static void run_task(struct plan *p, struct pstep *ps)
{
	int n = ps->host ? host_entries(ps->host) : ps->nentries;
	for (int e = 0; e < n; e++) {
		struct call c = {p, ps, e, ps->host, ps->buf, .refill = e == n - 1};
		run_entry(p, &c, ps->host ? host_extent(ps->host, e) : ps->entry[e].extent);
	}
	if (ps->tail) {
		struct call c = {p, ps, 0, ps->tail, ps->tail_buf};
		run_entry(p, &c, host_extent(ps->tail, 0));
	}
}

static int eval_node(struct plan *p, struct pstep *ps)
{
	const struct node *n = &p->g->node[ps->step->node];
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] >= 0 && p->place[n->out[i]].refill)
			plan_refill(p, n->out[i]);
	if (ps->part) {
		plan_copy_parts(p, ps);
		return E_OK;
	}
	struct opctx c = ps->ctx;
	int rc = n->op->eval(&c);
	arena_reset(&p->scratch);
	return fail_in(rc, "node '%s' (%s)", n->name, node_type(n));
}

static int run_node(struct plan *p, struct pstep *ps)
{
	int64_t begin_ns = p->trace ? clock_now(trace_clock(p->trace)) : 0;
	int rc = eval_node(p, ps);
	if (p->trace)
		trace_add(p->trace, 0,
			  (struct trace_event){ps->kernel, begin_ns, clock_now(trace_clock(p->trace))});
	return rc;
}

static int run_steps(struct plan *p, const struct tensor *inputs, struct tensor *outputs, struct clock *clock)
{
	int rc = p->device ? p->device->run(p, -1, false) : E_OK;
	if (rc >= 0)
		rc = plan_take_outputs(p, outputs);
	if (rc >= 0)
		rc = plan_copy_in(p, inputs);
	for (int i = 0; i < p->nsteps && rc >= 0; i++) {
		struct pstep *ps = &p->step[i];
		int64_t begin = clock ? clock_now(clock) : 0;
		if (p->device)
			rc = p->device->run(p, i, clock != NULL);
		if (rc >= 0 && ps->step->kind == STEP_TASK && !ps->far)
			run_task(p, ps);
		else if (rc >= 0 && ps->step->kind == STEP_HOST)
			rc = run_node(p, ps);
		if (clock && ps->kernel >= 0)
			p->kernel[ps->kernel].ns = clock_now(clock) - begin;
		if (p->clock && clock_now(p->clock) > p->deadline_ns)
			rc = fail(E_TIMEOUT, "the run did not end in time");
		if (p->stop && atomic_load_explicit(p->stop, memory_order_relaxed))
			rc = fail(E_STOPPED, "the run was cancelled");
	}
	return rc >= 0 && p->device ? p->device->run(p, p->nsteps, false) : rc;
}

int plan_run_timed(struct plan *p, const struct tensor *inputs, struct tensor *outputs, struct clock *clock)
{
	unsigned old = fpu_flush();
	int rc;
	if (p->pool && !p->alone)
		pool_begin(p->pool);
	do
		rc = run_steps(p, inputs, outputs, clock);
	while (rc >= 0 && missed_piece(p));
	if (rc >= 0)
		plan_copy_out(p, outputs);
	if (p->pool && !p->alone)
		pool_end(p->pool);
	fpu_restore(old);
	return rc;
}

int plan_run(struct plan *p, const struct tensor *inputs, struct tensor *outputs)
{
	return plan_run_timed(p, inputs, outputs, NULL);
}

void plan_deadline(struct plan *p, struct clock *clock, int64_t deadline_ns)
{
	p->clock = clock;
	p->deadline_ns = deadline_ns;
}

void plan_stop_on(struct plan *p, const atomic_bool *stop)
{
	p->stop = stop;
}

void plan_trace(struct plan *p, struct trace *t)
{
	p->trace = t;
}

void plan_symbols(const struct plan *p,
		  void (*fn)(void *ctx, const struct plan_kernel *k, int entry, const void *at, size_t bytes),
		  void *ctx)
{
	for (int i = 0; i < p->nsteps; i++) {
		const struct pstep *ps = &p->step[i];
		for (int e = 0; ps->code && !ps->far && ps->kernel >= 0 && e < ps->nentries; e++) {
			size_t bytes;
			const void *at = p->dev->address(ps->code, ps->entry[e].entry, &bytes);
			if (at)
				fn(ctx, &p->kernel[ps->kernel], e, at, bytes);
		}
	}
}

const struct graph *plan_graph(const struct plan *p)
{
	return p->g;
}

int plan_kernels(const struct plan *p, const struct plan_kernel **out)
{
	*out = p->kernel;
	return p->nkernels;
}

int plan_value(const struct plan *p, int step_value, struct arena *a, struct tensor *out)
{
	if (step_value < 0 || step_value >= p->s->nvalues)
		return fail(E_USAGE, "no step value %d", step_value);
	const struct step_value *v = &p->s->value[step_value];
	const void *from = v->constant ? p->g->value[v->of].t.data : p->place[step_value].p;
	int rc = tensor_alloc(a, v->buf.dtype, &v->buf.dims, out);
	if (rc >= 0 && (!p->keep || !from))
		return fail(E_USAGE, "step value %d is not kept", step_value);
	if (rc >= 0 && !v->constant)
		operand_unpack(&v->buf, from, out->data);
	else if (rc >= 0)
		memcpy(out->data, from, (size_t)shape_count(&out->shape) * dtype_bytes(out->dtype));
	return rc;
}

struct plan_memory plan_memory(const struct plan *p)
{
	return (struct plan_memory){p->memory_bytes, (size_t)p->live_bytes, p->weight_bytes + p->lent_bytes,
				    p->scratch_bytes};
}

bool plan_is_alone(const struct plan *p)
{
	return p->alone;
}

size_t plan_bytes(const struct plan *p)
{
	return p->memory_bytes + p->weight_bytes;
}

void plan_free(struct plan *p)
{
	if (!p)
		return;
	if (p->device)
		p->device->drop(p);
	for (int i = 0; i < p->nsteps && p->step && !p->ncodes; i++)
		plan_unload(p, &p->step[i]);
	for (int i = 0; i < p->ncodes; i++)
		p->dev->unload(p->codes[i]);
	pages_close(&p->memory);
	pages_close(&p->weights);
	pages_close(&p->threads);
	arena_free(&p->making);
	arena_free(&p->scratch);
	arena_free(&p->a);
	free(p);
}
