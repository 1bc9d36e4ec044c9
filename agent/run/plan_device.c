/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/plan_device.h"
#include "agent/run/plan_parts.h"
#include "agent/run/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A device that needs longer for what was started is taken for lost: 200 times what its peaks allow, at most
 * a minute, and what drivers need to compile a kernel when it is launched for the first time. */
enum { PATIENCE = 200 };
#define MOST_NS (60 * NS_PER_S)
static int64_t spare_ns = 10 * NS_PER_S;
/* These stand for the peaks of a device that nobody has measured. */
#define GUESS_GFLOPS 10
#define GUESS_GBS 5
/* Scratch of the work items that run at a time. */
static const int64_t most_scratch_bytes = (int64_t)64 << 20;

struct plan_device {
	struct on_device on;
	const struct dev *dev;
	struct dev_unit *unit;
	char name[DEV_NAME_MAX];
	bool built;    /* a kernel, for any plan */
	char why[400]; /* its driver built none the first time; "": it has not failed */
};

struct move { /* bytes of the plan's tensors */
	int64_t at, bytes;
	bool there; /* to the device; else from it */
};

struct far_step {
	int nlaunches;
	struct dev_launch *launch[LOOPS_MAX_ENTRIES];
	int64_t parts; /* launches of all entries */
};

/* A plan's part on the device. */
struct far {
	const struct dev_own *dev;
	struct dev_unit *unit;
	struct dev_mem *memory, *weights, *scratch;
	int64_t memory_bytes, weight_bytes, scratch_bytes;
	struct far_step *step; /* per step of the plan */
	int nmoves, room;
	struct move *move;
	int *first;        /* of each step's moves; then of those behind the last step; then nmoves */
	bool warm;         /* every launch has ended once */
	double started_ns; /* that what was started since the last wait needs at the device's peaks */
	int last;          /* step that was started last; -1: none since the last wait */
};

static struct plan_device_watch *watch;

/* Calls into a driver are made between begin() and end(), which returns rc. */
static void begin(void)
{
	if (watch)
		atomic_store(&watch->since_ns, clock_now(&clock_real));
}

static int end(int rc)
{
	if (watch)
		atomic_store(&watch->since_ns, 0);
	return rc;
}

static int failed(int rc)
{
	if (watch && rc < 0)
		atomic_store(&watch->failed, true);
	return rc;
}

/* A driver may fail to build single kernels, not all of them. */
static int built(struct plan_device *d, int rc)
{
	if ((rc == E_IO || rc == E_NOMEM || rc == E_INFEASIBLE) && !d->why[0])
		snprintf(d->why, sizeof d->why, "%s", err_text());
	return rc;
}

static int load(struct on_device *on, const struct code *c, struct dev_code **out)
{
	struct plan_device *d = (struct plan_device *)on;
	if (strcmp(c->m.emitter, d->dev->emitter))
		return fail(E_UNSUPPORTED, "code of emitter %s does not run on device %s", c->m.emitter,
			    d->dev->name);
	begin();
	return built(d, end(d->dev->own->load(d->unit, c->object.p, c->object.n, out)));
}

/* Some drivers compile here. */
static int entry(struct on_device *on, struct dev_code *c, const char *symbol)
{
	struct plan_device *d = (struct plan_device *)on;
	begin();
	int rc = built(d, end(d->dev->entry(c, symbol)));
	d->built |= rc >= 0;
	return rc;
}

static void unload(struct on_device *on, struct dev_code *c)
{
	begin();
	((struct plan_device *)on)->dev->unload(c);
	(void)end(E_OK);
}

/* ---- which tensors cross, and when ---- */

struct sides { /* of a value that has memory: where its latest bytes are; neither: nothing has written it */
	bool here, there;
};

static int root_of(const struct plan *p, int v)
{
	return v < 0 || p->s->value[v].constant ? -1 : p->place[v].root;
}

static int64_t value_at(const struct plan *p, int root)
{
	return p->place[root].p - (char *)p->memory.p;
}

static int64_t value_bytes(const struct plan *p, int root)
{
	return p->place[root].elems * (int64_t)dtype_bytes(p->s->value[root].buf.dtype);
}

static int add_move(struct plan *p, struct far *f, int root, bool there)
{
	if (f->nmoves == f->room) {
		int room = f->room ? 2 * f->room : 64;
		struct move *more = realloc(f->move, sizeof *more * (size_t)room);
		if (!more)
			return fail(E_NOMEM, "no memory for a plan");
		f->move = more;
		f->room = room;
	}
	f->move[f->nmoves++] = (struct move){value_at(p, root), value_bytes(p, root), there};
	return E_OK;
}

/* The value's latest bytes must be on one side now. */
static int need(struct plan *p, struct far *f, struct sides *s, int root, bool there)
{
	if (root < 0 || !p->place[root].p || !(s[root].here || s[root].there) ||
	    (there ? s[root].there : s[root].here))
		return E_OK;
	int rc = add_move(p, f, root, there);
	s[root].here = s[root].there = true;
	return rc;
}

static void wrote(struct sides *s, int root, bool there)
{
	if (root >= 0)
		s[root] = (struct sides){!there, there};
}

/* Whether the step leaves all bytes where they are. */
static bool moves_nothing(const struct pstep *ps)
{
	for (int i = 0; ps->part && i < ps->nparts; i++)
		if (ps->part[i].bytes && !ps->part[i].there)
			return false;
	return ps->part || ps->step->kind == STEP_ALIAS;
}

/* A step that writes a value may write a part of its root only, so that the rest must be there, too. */
static int find_step_moves(struct plan *p, struct far *f, struct sides *s, int i)
{
	const struct step *st = p->step[i].step;
	bool there = p->step[i].far;
	int rc = E_OK, v;
	if (moves_nothing(&p->step[i]))
		return E_OK;
	for (int k = 0; (v = step_read(p->g, st, k)) != STEP_END && rc >= 0; k++)
		rc = need(p, f, s, root_of(p, v), there);
	for (int k = 0; (v = step_write(p->g, st, k)) != STEP_END && rc >= 0; k++)
		rc = need(p, f, s, root_of(p, v), there);
	for (int k = 0; (v = step_write(p->g, st, k)) != STEP_END; k++)
		wrote(s, root_of(p, v), there);
	return rc;
}

static int find_moves(struct plan *p, struct far *f)
{
	struct sides *s = calloc((size_t)p->s->nvalues + 1, sizeof *s);
	f->first = calloc((size_t)p->nsteps + 2, sizeof *f->first);
	int rc = s && f->first ? E_OK : fail(E_NOMEM, "no memory for a plan");
	for (int i = 0; i < p->g->ninputs && rc >= 0; i++)
		wrote(s, root_of(p, p->g->input[i]), false);
	for (int i = 0; i < p->nsteps && rc >= 0; i++) {
		f->first[i] = f->nmoves;
		rc = find_step_moves(p, f, s, i);
	}
	if (rc >= 0)
		f->first[p->nsteps] = f->nmoves;
	for (int i = 0; i < p->g->noutputs && rc >= 0; i++)
		rc = need(p, f, s, root_of(p, p->g->output[i]), false);
	for (int v = 0; v < p->s->nvalues && rc >= 0 && p->keep; v++)
		rc = need(p, f, s, root_of(p, v), false);
	if (rc >= 0)
		f->first[p->nsteps + 1] = f->nmoves;
	free(s);
	return rc;
}

/* Waits for what was started. A device that hangs would hold a copy for ever. */
static int wait_for(struct plan *p)
{
	struct far *f = p->far;
	double ns = PATIENCE * f->started_ns;
	if (f->last < 0)
		return E_OK;
	const char *name = p->step[f->last].step->name;
	int rc = f->dev->wait(f->unit, clock_now(&clock_real) + spare_ns +
					   (ns < (double)MOST_NS ? (int64_t)ns : MOST_NS));
	f->started_ns = 0;
	f->last = -1;
	return rc < 0 ? fail_in(rc, "%s", name) : E_OK;
}

/* 0: not traced. */
static int64_t trace_now(const struct plan *p)
{
	return p->trace ? clock_now(trace_clock(p->trace)) : 0;
}

/* Adds an event to the device's lane. what: as in struct trace_event. */
static void trace_note(const struct plan *p, int what, int64_t begin_ns)
{
	if (p->trace)
		trace_add(p->trace, trace_threads(p->trace) - 1,
			  (struct trace_event){what, begin_ns, trace_now(p)});
}

static int make_moves(struct plan *p, int step)
{
	struct far *f = p->far;
	int rc = f->first[step] < f->first[step + 1] ? wait_for(p) : E_OK;
	for (int i = f->first[step]; i < f->first[step + 1] && rc >= 0; i++) {
		const struct move *m = &f->move[i];
		char *here = (char *)p->memory.p + m->at;
		int64_t begin_ns = trace_now(p);
		rc = m->there ? f->dev->write(f->memory, m->at, here, m->bytes)
			      : f->dev->read(f->memory, m->at, here, m->bytes);
		trace_note(p, m->there ? TRACE_TO_DEVICE : TRACE_FROM_DEVICE, begin_ns);
	}
	return rc;
}

/* ---- memory and launches ---- */

static int64_t longest(const struct pstep *ps)
{
	int64_t most = 1;
	for (int e = 0; e < ps->nentries; e++)
		most = ps->entry[e].extent > most ? ps->entry[e].extent : most;
	return most;
}

/* Work items that run at a time; *bytes: of their scratch. */
static int64_t at_once(const struct pstep *ps, int64_t *bytes)
{
	return code_at_once(&ps->found->m, longest(ps), most_scratch_bytes, bytes);
}

static int copy_there(const struct far *f, struct dev_mem *m, const void *from, int64_t bytes)
{
	return bytes ? f->dev->write(m, 0, from, bytes) : E_OK;
}

static int alloc(const struct far *f, int64_t bytes, struct dev_mem **out)
{
	return bytes ? f->dev->alloc(f->unit, bytes, out) : E_OK;
}

/* Halos and padding are the same on both sides. */
static int place(struct plan *p, struct far *f)
{
	f->memory_bytes = (int64_t)p->memory_bytes;
	f->weight_bytes = (int64_t)p->weight_bytes;
	for (int i = 0; i < p->nsteps; i++) {
		int64_t bytes = 0;
		if (p->step[i].far)
			(void)at_once(&p->step[i], &bytes);
		f->scratch_bytes = bytes > f->scratch_bytes ? bytes : f->scratch_bytes;
	}
	int rc = alloc(f, f->memory_bytes, &f->memory);
	if (rc >= 0)
		rc = alloc(f, f->weight_bytes, &f->weights);
	if (rc >= 0)
		rc = alloc(f, f->scratch_bytes, &f->scratch);
	if (rc >= 0)
		rc = copy_there(f, f->memory, p->memory.p, f->memory_bytes);
	return rc < 0 ? rc : copy_there(f, f->weights, p->weights.p, f->weight_bytes);
}

static bool inside(const void *at, const void *base, int64_t bytes)
{
	return (const char *)at >= (const char *)base && (const char *)at < (const char *)base + bytes;
}

static int find_spot(const struct plan *p, const struct far *f, const struct pstep *ps, int b,
		     struct dev_spot *out)
{
	const char *at = ps->buf[b];
	if (ps->found->m.buf[b].role == BUF_SCRATCH)
		*out = (struct dev_spot){f->scratch, 0};
	else if (at && inside(at, p->memory.p, f->memory_bytes))
		*out = (struct dev_spot){f->memory, at - (char *)p->memory.p};
	else if (at && inside(at, p->weights.p, f->weight_bytes))
		*out = (struct dev_spot){f->weights, at - (char *)p->weights.p};
	else
		return fail(E_UNSUPPORTED, "buffer %s of %s is not in the plan's memory",
			    ps->found->m.buf[b].name, ps->step->name);
	return E_OK;
}

static int prepare(struct plan *p, struct far *f, int i)
{
	struct pstep *ps = &p->step[i];
	struct far_step *fs = &f->step[i];
	struct dev_spot spot[CODE_MAX_BUFS];
	int64_t scratch_bytes, once = at_once(ps, &scratch_bytes);
	bool scratch = scratch_bytes > 0;
	int rc = E_OK;
	for (int b = 0; b < ps->nbufs && rc >= 0; b++)
		rc = find_spot(p, f, ps, b, &spot[b]);
	for (int e = 0; e < ps->nentries && rc >= 0; e++) {
		const struct dev_work w = {.buf = spot,
					   .nbufs = ps->nbufs,
					   .param = ps->param,
					   .nparams = ps->found->m.nparams,
					   .end = ps->entry[e].extent,
					   .at_once = scratch ? once : 0};
		rc = f->dev->prepare(ps->code, ps->entry[e].entry, &w, &fs->launch[e]);
		fs->nlaunches = rc < 0 ? e : e + 1;
		fs->parts += scratch ? (w.end + once - 1) / once : w.end > 0;
	}
	return rc;
}

static void drop(struct plan *p)
{
	struct far *f = p->far;
	if (!f)
		return;
	begin();
	for (int i = 0; i < p->nsteps && f->step; i++)
		for (int e = 0; e < f->step[i].nlaunches; e++)
			f->dev->drop(f->step[i].launch[e]);
	f->dev->free(f->memory);
	f->dev->free(f->weights);
	f->dev->free(f->scratch);
	(void)end(E_OK);
	free(f->step);
	free(f->move);
	free(f->first);
	free(f);
	p->far = NULL;
}

/* Called when all is placed. */
static int ready(struct plan *p)
{
	const struct plan_device *d = (const struct plan_device *)p->device;
	struct far *f = p->far = calloc(1, sizeof *f);
	if (!f)
		return fail(E_NOMEM, "no memory for a plan");
	f->dev = d->dev->own;
	f->unit = d->unit;
	f->last = -1;
	f->step = calloc((size_t)p->nsteps + 1, sizeof *f->step);
	begin();
	int rc = f->step ? place(p, f) : fail(E_NOMEM, "no memory for a plan");
	for (int i = 0; i < p->nsteps && rc >= 0; i++)
		if (p->step[i].far)
			rc = prepare(p, f, i);
	rc = failed(end(rc));
	return rc < 0 ? fail_in(rc, "device %s", d->name) : find_moves(p, f);
}

/* ---- running ---- */

/* A device that fails is no fault of the plan's, but the run ends. */
static int broken(const struct plan *p, int rc)
{
	const struct plan_device *d = (const struct plan_device *)p->device;
	return failed(rc) < 0 ? fail_in(E_IO, "device %s", d->name) : E_OK;
}

static double least_ns(const struct plan_kernel *k)
{
	double compute = k->flops / GUESS_GFLOPS, memory = k->bytes / GUESS_GBS;
	return k->roofline_ns > 0 ? k->roofline_ns : compute > memory ? compute : memory;
}

static int start(struct plan *p, int step)
{
	struct far *f = p->far;
	int rc = E_OK;
	for (int e = 0; e < f->step[step].nlaunches && rc >= 0; e++)
		rc = f->dev->start(f->step[step].launch[e]);
	f->started_ns += least_ns(&p->kernel[p->step[step].kernel]);
	f->last = step;
	return rc < 0 ? fail_in(rc, "%s", p->step[step].step->name) : E_OK;
}

/* In the first run each step is waited for, so that it has the time to be compiled. */
static int run(struct plan *p, int step, bool timed)
{
	struct far *f = p->far;
	bool last = step == p->nsteps, far = !last && p->step[step].far;
	begin();
	int rc = make_moves(p, step);
	int64_t begin_ns = trace_now(p);
	if (rc >= 0 && far)
		rc = start(p, step);
	if (rc >= 0 && (last || (far && (timed || p->trace || !f->warm))))
		rc = wait_for(p);
	if (far)
		trace_note(p, p->step[step].kernel, begin_ns);
	f->warm |= rc >= 0 && last;
	return broken(p, end(rc));
}

static const struct on_device ops = {
    .load = load, .entry = entry, .unload = unload, .ready = ready, .run = run, .drop = drop};

int plan_device_open(const char *name, struct plan_device **out)
{
	const struct dev *dev = dev_find(name);
	if (!dev)
		return E_NOTFOUND;
	if (!dev->own)
		return fail(E_USAGE, "device %s needs no plan of its own", name);
	struct plan_device *d = calloc(1, sizeof *d);
	if (!d)
		return fail(E_NOMEM, "no memory for a device");
	*d = (struct plan_device){.on = ops, .dev = dev};
	snprintf(d->name, sizeof d->name, "%s", name);
	begin();
	int rc = failed(end(dev->own->open(dev_number(name), &d->unit)));
	if (rc < 0)
		free(d);
	else
		*out = d;
	return rc;
}

void plan_device_close(struct plan_device *d)
{
	if (!d)
		return;
	begin();
	d->dev->own->close(d->unit);
	(void)end(E_OK);
	free(d);
}

void plan_device_watched_by(struct plan_device_watch *w)
{
	watch = w;
}

void plan_device_spare(int64_t ns)
{
	spare_ns = ns;
}

int plan_device_built(const struct plan_device *d)
{
	if (d->built || !d->why[0])
		return E_OK;
	return failed(fail(E_IO, "device %s: its driver built no kernel: %s", d->name, d->why));
}

void plan_device_target(const struct plan_device *d, struct target *t)
{
	d->dev->own->target(d->unit, t);
}

struct plan_device_use plan_device_use(const struct plan *p)
{
	const struct far *f = p->far;
	struct plan_device_use u = {0};
	for (int i = 0; f && i < p->nsteps; i++) {
		u.steps += p->step[i].far;
		u.launches += (int)f->step[i].parts;
	}
	for (int i = 0; f && i < f->nmoves; i++) {
		u.copies++;
		*(f->move[i].there ? &u.to_bytes : &u.from_bytes) += f->move[i].bytes;
	}
	if (f)
		u.held_bytes = f->memory_bytes + f->weight_bytes + f->scratch_bytes;
	return u;
}
