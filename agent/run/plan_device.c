/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/plan_device.h"
#include "agent/run/plan_graph.h"
#include "agent/run/plan_parts.h"
#include "agent/run/trace.h"
#include "platform/base/log.h"

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

/* Bytes of the plan's tensors that are copied to the device or from it; or, where they are shared, that the
 * device gets back or the processor gets. */
struct move {
	int64_t at, bytes;
	bool there; /* to the device */
};

struct far_step {
	int nlaunches;
	struct dev_launch *launch[LOOPS_MAX_ENTRIES];
	int64_t parts; /* launches of all entries */
};

/* A constant as kernels read it through the texture cache; others may read it from `weights`. */
struct texture {
	const char *at; /* in p->weights */
	int64_t bytes;
	struct dev_mem *mem;
};

/* A plan's part on the device. */
struct far {
	const struct dev_own *dev;
	struct dev_unit *unit;
	struct dev_mem *memory, *weights, *scratch;
	int64_t memory_bytes, weight_bytes, scratch_bytes;
	struct far_step *step; /* per step of the plan */
	int ntextures;
	struct texture *texture;
	int nmoves, room;
	struct move *move;
	int *first;  /* of each step's moves; then of those behind the last step; then nmoves */
	bool shared; /* p->memory is `memory`, mapped */
	struct move mapped, between; /* the part that is mapped now (0 bytes: none), and between two runs */
	bool warm;                   /* every launch has ended once */
	struct plan_graphs *graphs;
	int ahead;         /* the steps before this one are started already */
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

static int make_texture(const struct dev_own *own, struct dev_unit *unit, const struct code_buf *b,
			struct dev_mem **out)
{
	return own->texture ? own->texture(unit, b->packing.f16, pack_elems(&b->packing), out)
			    : fail(E_UNSUPPORTED, "devices of this kind have no textures");
}

/* A device may have no textures, or none so large, though it says so: then another kernel is found. */
static int try_textures(const struct plan_device *d, const struct manifest *m)
{
	int rc = E_OK;
	for (int i = 0; i < m->nbufs && rc >= 0; i++) {
		struct dev_mem *mem = NULL;
		rc = m->buf[i].texture ? make_texture(d->dev->own, d->unit, &m->buf[i], &mem) : E_OK;
		d->dev->own->free(mem);
	}
	return rc;
}

static int load(struct on_device *on, const struct code *c, struct dev_code **out)
{
	struct plan_device *d = (struct plan_device *)on;
	if (strcmp(c->m.emitter, d->dev->emitter))
		return fail(E_UNSUPPORTED, "code of emitter %s does not run on device %s", c->m.emitter,
			    d->dev->name);
	begin();
	int rc = try_textures(d, &c->m);
	return built(d, end(rc < 0 ? rc : d->dev->own->load(d->unit, c->object.p, c->object.n, out)));
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

static int add_move(struct far *f, struct move m)
{
	if (f->nmoves == f->room) {
		int room = f->room ? 2 * f->room : 64;
		struct move *more = realloc(f->move, sizeof *more * (size_t)room);
		if (!more)
			return fail(E_NOMEM, "no memory for a plan");
		f->move = more;
		f->room = room;
	}
	f->move[f->nmoves++] = m;
	return E_OK;
}

/* The value's latest bytes must be on one side now. */
static int need(struct plan *p, struct far *f, struct sides *s, int root, bool there)
{
	if (root < 0 || !p->place[root].p || !(s[root].here || s[root].there) ||
	    (there ? s[root].there : s[root].here))
		return E_OK;
	int rc = add_move(f, (struct move){value_at(p, root), value_bytes(p, root), there});
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

static int find_copies(struct plan *p, struct far *f)
{
	struct sides *s = calloc((size_t)p->s->nvalues + 1, sizeof *s);
	int rc = s ? E_OK : fail(E_NOMEM, "no memory for a plan");
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

/* ---- memory that both sides share: which part the processor gets, and when ---- */

static void add_value(const struct plan *p, struct move *m, int root)
{
	if (root < 0 || !p->place[root].p)
		return;
	int64_t at = value_at(p, root), end = at + value_bytes(p, root), last = m->at + m->bytes;
	if (!m->bytes)
		*m = (struct move){at, end - at, false};
	else
		*m = (struct move){at < m->at ? at : m->at, 0, false};
	m->bytes = (end > last ? end : last) - m->at;
}

/* Adds the tensors that the processor touches from a step on to the device's next step, if that is before
 * `end`. Returns that step; `end`: there is none. */
static int add_steps(const struct plan *p, struct move *m, int step, int end)
{
	for (; step < end && !p->step[step].far; step++) {
		const struct step *st = p->step[step].step;
		int v;
		for (int k = 0; (v = step_read(p->g, st, k)) != STEP_END; k++)
			add_value(p, m, root_of(p, v));
		for (int k = 0; (v = step_write(p->g, st, k)) != STEP_END; k++)
			add_value(p, m, root_of(p, v));
	}
	return step;
}

/* The part of the tensors that the processor touches from a step on, also in the next run, until the device's
 * next step. */
static struct move near_part(const struct plan *p, int step)
{
	struct move m = {0};
	if (p->keep)
		return (struct move){.bytes = p->far->memory_bytes};
	if (add_steps(p, &m, step, p->nsteps) < p->nsteps)
		return m;
	for (int i = 0; i < p->g->noutputs; i++)
		add_value(p, &m, root_of(p, p->g->output[i]));
	for (int i = 0; i < p->g->ninputs; i++)
		add_value(p, &m, root_of(p, p->g->input[i]));
	(void)add_steps(p, &m, 0, p->nsteps);
	return m;
}

/* Whether a step on the processor touches tensors. */
static bool touches(const struct plan *p, int step)
{
	struct move m = {0};
	if (step == p->nsteps)
		return true;
	if (moves_nothing(&p->step[step]))
		return false;
	(void)add_steps(p, &m, step, step + 1);
	return m.bytes > 0;
}

static int find_maps(struct plan *p, struct far *f)
{
	bool here = true;
	int rc = E_OK;
	f->between = near_part(p, p->nsteps);
	for (int i = 0; i <= p->nsteps && rc >= 0; i++) {
		bool far = i < p->nsteps && p->step[i].far;
		f->first[i] = f->nmoves;
		if (far ? !here : here || !touches(p, i))
			continue;
		struct move m = far ? (struct move){.there = true} : near_part(p, i);
		rc = far || m.bytes ? add_move(f, m) : E_OK;
		here = !far;
	}
	f->first[p->nsteps + 1] = f->nmoves;
	return rc;
}

static int find_moves(struct plan *p, struct far *f)
{
	f->first = calloc((size_t)p->nsteps + 2, sizeof *f->first);
	if (!f->first)
		return fail(E_NOMEM, "no memory for a plan");
	return f->shared ? find_maps(p, f) : find_copies(p, f);
}

static bool inside(const void *at, const void *base, int64_t bytes)
{
	return (const char *)at >= (const char *)base && (const char *)at < (const char *)base + bytes;
}

/* Every address of the plan's tensors is set again when they lie elsewhere. */
static void move_to(struct plan *p, char *base)
{
	const char *old = p->memory.p;
	int64_t bytes = p->far->memory_bytes;
#define MOVE(at) ((at) = inside(at, old, bytes) ? (void *)(base + ((char *)(at)-old)) : (at))
	for (int v = 0; v < p->s->nvalues; v++)
		MOVE(p->place[v].p);
	for (int i = 0; i < p->nsteps; i++) {
		struct pstep *ps = &p->step[i];
		for (int b = 0; b < CODE_MAX_BUFS; b++)
			MOVE(ps->buf[b]);
		for (int k = 0; k < MAX_OPERANDS; k++)
			MOVE(ps->tail_buf[k]);
		for (int k = 0; k < ps->ctx.nin; k++)
			MOVE(ps->ctx.in[k].data);
		for (int k = 0; k < ps->ctx.nout; k++)
			MOVE(ps->ctx.out[k].data);
	}
#undef MOVE
	p->memory.p = base;
}

/* Kernels of the processor need what they need of the process's own memory. */
static int map(struct plan *p, struct move m)
{
	struct far *f = p->far;
	void *at = NULL;
	int rc = m.bytes ? f->dev->map(f->memory, m.at, m.bytes, &at) : E_OK;
	if (rc < 0 || !m.bytes)
		return rc;
	f->mapped = m;
	char *base = (char *)((uintptr_t)at - (uintptr_t)m.at);
	if ((uintptr_t)base % 64)
		return fail(E_UNSUPPORTED, "the driver maps memory to an address that is not aligned");
	if (base != p->memory.p)
		move_to(p, base);
	return E_OK;
}

static int unmap(struct far *f)
{
	int rc = f->mapped.bytes ? f->dev->unmap(f->memory) : E_OK;
	f->mapped.bytes = 0;
	return rc;
}

/* Moves the plan's tensors into the device's memory. A driver that maps it to no use is no error: the tensors
 * stay where they are, and are copied. */
static int share(struct plan *p, struct far *f)
{
	struct dev_limits limits;
	char *own = p->memory.p;
	struct pages old = p->memory;
	f->dev->limits(f->unit, &limits);
	if (!limits.unified || !f->memory_bytes)
		return E_OK;
	if (map(p, (struct move){.bytes = f->memory_bytes}) < 0)
		return unmap(f);
	memcpy(p->memory.p, own, (size_t)f->memory_bytes);
	p->memory.map = NULL;
	pages_close(&old);
	f->shared = true;
	return E_OK;
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
	if (rc < 0)
		return fail_in(rc, "%s", name);
	f->started_ns = 0;
	f->last = -1;
	return E_OK;
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
		if (f->shared)
			rc = m->there ? unmap(f) : map(p, *m);
		else
			rc = m->there ? f->dev->write(f->memory, m->at, here, m->bytes)
				      : f->dev->read(f->memory, m->at, here, m->bytes);
		trace_note(p, m->there ? TRACE_TO_DEVICE : TRACE_FROM_DEVICE, begin_ns);
	}
	return rc;
}

/* A run that ended early may have left less to the processor than the next one begins with. */
static int make_ready(struct plan *p)
{
	struct far *f = p->far;
	const struct move *m = &f->mapped, *all = &f->between;
	if (!f->shared || (m->bytes && m->at <= all->at && m->at + m->bytes >= all->at + all->bytes))
		return E_OK;
	int rc = wait_for(p);
	if (rc >= 0)
		rc = unmap(f);
	return rc < 0 ? rc : map(p, *all);
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
	return rc < 0 ? rc : copy_there(f, f->weights, p->weights.p, f->weight_bytes);
}

/* Several steps may share a constant. */
static int find_texture(struct far *f, const struct code_buf *b, const char *at, struct dev_spot *out)
{
	int64_t bytes = pack_elems(&b->packing) * (b->packing.f16 ? 2 : 4);
	for (int i = 0; i < f->ntextures; i++)
		if (f->texture[i].at == at && f->texture[i].bytes == bytes) {
			*out = (struct dev_spot){f->texture[i].mem, 0};
			return E_OK;
		}
	struct texture *more = realloc(f->texture, sizeof *more * (size_t)(f->ntextures + 1));
	if (!more)
		return fail(E_NOMEM, "no memory for a plan");
	f->texture = more;
	struct texture *t = &more[f->ntextures];
	*t = (struct texture){.at = at, .bytes = bytes};
	int rc = make_texture(f->dev, f->unit, b, &t->mem);
	if (rc < 0)
		return rc;
	f->ntextures++;
	*out = (struct dev_spot){t->mem, 0};
	return f->dev->write(t->mem, 0, at, bytes);
}

static int find_spot(const struct plan *p, struct far *f, const struct pstep *ps, int b, struct dev_spot *out)
{
	const char *at = ps->buf[b];
	if (ps->found->m.buf[b].texture && at)
		return find_texture(f, &ps->found->m.buf[b], at, out);
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
	char why[4096]; /* why the plan leaves the device, which the wait must not replace */
	begin();
	snprintf(why, sizeof why, "%s", err_text());
	(void)wait_for(p); /* a run that was given up may have left launches, which use what is freed here */
	(void)fail(E_OK, "%s", why);
	plan_graphs_drop(f->graphs);
	for (int i = 0; i < p->nsteps && f->step; i++)
		for (int e = 0; e < f->step[i].nlaunches; e++)
			f->dev->drop(f->step[i].launch[e]);
	f->dev->free(f->memory);
	f->dev->free(f->weights);
	f->dev->free(f->scratch);
	for (int i = 0; i < f->ntextures; i++)
		f->dev->free(f->texture[i].mem);
	(void)end(E_OK);
	if (f->shared)
		p->memory = (struct pages){0};
	free(f->step);
	free(f->texture);
	free(f->move);
	free(f->first);
	free(f);
	p->far = NULL;
}

/* Records the launches as graphs. If that fails, the plan starts them one by one. */
static int record(const struct plan *p, struct far *f)
{
	struct plan_graph_step *step = calloc((size_t)p->nsteps, sizeof *step);
	for (int i = 0; i < p->nsteps && step; i++)
		step[i] = (struct plan_graph_step){f->first[i] < f->first[i + 1], f->step[i].nlaunches,
						   f->step[i].launch};
	begin();
	f->graphs = step ? plan_graphs_record(f->dev, f->unit, step, p->nsteps) : NULL;
	(void)end(E_OK);
	free(step);
	return f->graphs ? E_OK : fail(E_NOMEM, "no memory for a plan");
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
	bool any = false, placed = rc >= 0;
	for (int i = 0; i < p->nsteps && rc >= 0; i++)
		if (p->step[i].far)
			any = true, rc = prepare(p, f, i);
	if (rc >= 0 && any)
		rc = share(p, f);
	if (rc >= 0 && !f->shared)
		rc = copy_there(f, f->memory, p->memory.p, f->memory_bytes);
	bool again = placed && p->textures && (rc == E_NOMEM || rc == E_INFEASIBLE);
	p->no_textures |= again;
	rc = again ? end(rc) : failed(end(rc));
	if (again)
		log_info("hone: device %s: %s; kernels that read textures are left out", d->name, err_text());
	if (rc < 0)
		return fail_in(rc, "device %s", d->name);
	rc = find_moves(p, f);
	if (rc >= 0 && any)
		rc = record(p, f);
	return rc;
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

/* single: without the steps behind it. */
static int start(struct plan *p, int step, bool single)
{
	struct far *f = p->far;
	int rc = E_OK;
	if (!single && step >= f->ahead)
		f->ahead = plan_graphs_start(f->graphs, step);
	for (int e = 0; step >= f->ahead && e < f->step[step].nlaunches && rc >= 0; e++)
		rc = f->dev->start(f->step[step].launch[e]);
	f->started_ns += least_ns(&p->kernel[p->step[step].kernel]);
	f->last = step;
	return rc < 0 ? fail_in(rc, "%s", p->step[step].step->name) : E_OK;
}

/* In the first run each step is waited for, so that it has the time to be compiled. */
static int run(struct plan *p, int step, bool timed)
{
	struct far *f = p->far;
	bool last = step == p->nsteps, far = step >= 0 && !last && p->step[step].far;
	bool single = timed || p->trace || !f->warm;
	if (step < 0)
		f->ahead = 0;
	begin();
	int rc = step < 0 ? make_ready(p) : make_moves(p, step);
	int64_t begin_ns = trace_now(p);
	if (rc >= 0 && far)
		rc = start(p, step, single);
	if (rc >= 0 && (last || (far && single)))
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
	return plan_device_open_as(dev, name, out);
}

int plan_device_open_as(const struct dev *dev, const char *name, struct plan_device **out)
{
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
	if (f) {
		u.graphs = plan_graphs_count(f->graphs);
		u.graphs_why = plan_graphs_why(f->graphs);
	}
	for (int i = 0; f && i < f->nmoves; i++) {
		if (f->shared) {
			u.maps += !f->move[i].there;
			continue;
		}
		u.copies++;
		*(f->move[i].there ? &u.to_bytes : &u.from_bytes) += f->move[i].bytes;
	}
	if (f)
		u.held_bytes = f->memory_bytes + f->weight_bytes + f->scratch_bytes;
	for (int i = 0; f && i < f->ntextures; i++)
		u.held_bytes += f->texture[i].bytes;
	return u;
}
