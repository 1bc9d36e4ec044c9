/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/plan.h"
#include "agent/fallback.h"
#include "agent/halo.h"
#include "agent/host.h"
#include "agent/lifetimes.h"
#include "agent/window.h"
#include "kernels/op.h"
#include "platform/dev.h"

#include <stdlib.h>
#include <string.h>

struct place { /* where a step value lies */
	char *p;
	int root;             /* aliases: the value whose memory it is */
	int64_t elems;        /* the most that layout or kernels ask for */
	int lifetime;         /* index, -1: not in the arena */
	struct segment *halo; /* of values with halos */
	int nhalo;
	bool refill; /* shares bytes with others: halo is set again before each writing */
};

struct entry_run { /* one entry of a kernel, ready to call */
	int entry;
	int64_t extent;
};

struct pstep {
	const struct step *step;
	int kernel; /* index in plan.kernel, -1 */
	/* A compiled kernel. */
	struct dev_code *code;
	int nentries;
	struct entry_run entry[LOOPS_MAX_ENTRIES];
	int nbufs;
	void *buf[CODE_MAX_BUFS];
	int64_t param[LOOPS_MAX_PARAMS];
	struct code found; /* until built */
	/* A fallback kernel: code covers parts->core, the portable path the rest, in place. */
	struct fallback_parts *parts;
	struct host_task *tail;
	struct operand tail_packed[MAX_OPERANDS];
	void *tail_buf[MAX_OPERANDS];
	/* The portable path. */
	struct host_task *host;
	struct operand packed[MAX_OPERANDS];
	/* A node run by its eval. */
	struct opctx ctx;
};

struct plan {
	struct arena a;       /* all but the tensors */
	struct arena scratch; /* of one host node */
	const struct graph *g;
	const struct steps *s;
	struct pool *pool;
	const struct dev *dev;
	int nsteps;
	struct pstep *step;
	struct place *place;              /* per step value */
	char *memory, *weights, *threads; /* aligned to 64 */
	void *blocks[3];
	size_t memory_bytes, weight_bytes, thread_bytes;
	bool keep;           /* no memory is reused */
	struct clock *clock; /* NULL: runs have no deadline */
	int64_t deadline_ns;
	int nkernels;
	struct plan_kernel *kernel;
	struct operand *in, *out; /* plain, as the caller has them */
};

static int64_t round64(int64_t n)
{
	return (n + 63) / 64 * 64;
}

static size_t value_bytes(const struct plan *p, int v)
{
	return (size_t)p->place[v].elems * dtype_bytes(p->s->value[v].buf.dtype);
}

/* Zeroed memory aligned to 64. */
static char *get_block(struct plan *p, int which, size_t bytes)
{
	char *m = p->blocks[which] = calloc(1, bytes + 128);
	return m ? m + (64 - (uintptr_t)m % 64) % 64 : NULL;
}

static double level_gbs(const struct target *t, double bytes)
{
	const double size[3] = {(double)t->l1_bytes, (double)t->l2_bytes, (double)t->l3_bytes};
	for (int i = 0; i < 3; i++)
		if (bytes <= size[i])
			return t->bw_gbs[i];
	return t->bw_gbs[3];
}

/* Constants count as cold; activations as held by the level that they fit in. */
static double roofline(const struct target *t, const struct task *task)
{
	double moved = task_bytes(task, false), all = task_bytes(task, true), gbs = level_gbs(t, moved);
	if (t->fma_gflops <= 0 || gbs <= 0 || t->bw_gbs[3] <= 0)
		return 0;
	double compute = task_flops(task) / t->fma_gflops,
	       memory = moved / gbs + (all - moved) / t->bw_gbs[3];
	return compute > memory ? compute : memory;
}

static void add_kernel(struct plan *p, struct pstep *ps, enum kernel_origin origin, const struct target *t)
{
	char label[96];
	const struct step *s = ps->step;
	struct plan_kernel *k = &p->kernel[p->nkernels];
	ps->kernel = p->nkernels++;
	*k = (struct plan_kernel){.name = s->name, .origin = origin};
	if (s->kind == STEP_TASK) {
		task_label(s->task, label);
		k->label = arena_strdup(&p->a, label);
		k->flops = task_flops(s->task);
		k->bytes = task_bytes(s->task, true);
		k->roofline_ns = roofline(t, s->task);
	} else {
		k->label = arena_strdup(&p->a, node_type(&p->g->node[s->node]));
	}
}

/* A manifest comes from a file: what it says of a buffer must be true of the task's operand. Nothing is
 * packed from more than the constant holds, and padding stays within reason. */
static bool buffer_fits(const struct task *t, const struct manifest *m, int i)
{
	static const enum buf_role role[] = {
	    [ROLE_IN] = BUF_IN, [ROLE_OUT] = BUF_OUT, [ROLE_CONST] = BUF_CONST, [ROLE_TMP] = BUF_SCRATCH};
	const struct code_buf *b = &m->buf[i];
	if (b->operand < 0)
		return b->role == BUF_SCRATCH && i == m->nbufs - 1;
	if (b->operand >= t->noperands || t->operand[b->operand].role == ROLE_TMP)
		return false;
	const struct operand *o = &t->operand[b->operand];
	int64_t count = shape_count(&o->dims), elems = operand_elems(o);
	if (b->role != role[o->role] || (b->packed && o->role != ROLE_CONST))
		return false;
	if (b->packed && shape_count(&b->packing.src) != count)
		return false;
	int64_t held = b->packed ? pack_elems(&b->packing) : elems;
	return held <= 256 * elems + 65536 && b->elems <= 2 * (held > elems ? held : elems) + 65536;
}

/* Loads code and checks that it fits the task; anything wrong means another kernel is looked for. */
static int take_code(struct plan *p, struct pstep *ps)
{
	const struct manifest *m = &ps->found.m;
	if (!p->dev)
		return fail(E_UNSUPPORTED, "no CPU device");
	int rc = p->dev->load(ps->found.object.p, ps->found.object.n, &ps->code);
	if (rc < 0) {
		ps->code = NULL;
		return rc;
	}
	ps->nentries = m->nentries;
	ps->nbufs = m->nbufs;
	memcpy(ps->param, m->param, sizeof ps->param);
	for (int i = 0; i < m->nentries && rc >= 0; i++) {
		rc = ps->entry[i].entry = p->dev->entry(ps->code, m->entry[i]);
		if (rc >= 0) {
			ps->entry[i].extent = code_extent(m, i, ps->param);
			rc = ps->entry[i].extent < 0 ? (int)ps->entry[i].extent : E_OK;
		}
	}
	for (int i = 0; i < m->nbufs && rc >= 0; i++)
		if (!buffer_fits(ps->step->task, m, i))
			rc = fail(E_CORRUPT, "code of another task");
	if (rc < 0) {
		p->dev->unload(ps->code);
		ps->code = NULL;
	}
	return rc;
}

/* A kernel from the archives for the task's core; the manifest then speaks of the whole task's operands. */
static int find_fallback(struct plan *p, struct pstep *ps, const struct target *t)
{
	struct fallback_parts *parts = arena_try(&p->a, 1, sizeof *parts);
	if (!parts)
		return E_NOMEM;
	int rc = fallback_find(ps->step->task, t, &p->a, parts, &ps->found);
	for (int b = 0; rc >= 0 && b < ps->found.m.nbufs; b++) {
		struct code_buf *cb = &ps->found.m.buf[b];
		if (cb->operand >= parts->core.noperands || cb->packed)
			return fail(E_CORRUPT, "fallback kernel of another task");
		if (cb->operand >= 0)
			cb->operand = parts->core_of[cb->operand];
	}
	if (rc >= 0 && parts->rest.nstages)
		rc = host_make(&parts->rest, &p->a, ps->tail_packed, &ps->tail);
	if (rc >= 0 && (rc = take_code(p, ps)) >= 0)
		ps->parts = parts;
	else
		ps->tail = NULL;
	return rc;
}

static int find_kernel(struct plan *p, struct pstep *ps, const struct target *t,
		       const struct kernel_source *src)
{
	enum kernel_origin origin = FROM_HOST;
	const struct task *task = ps->step->task;
	if (src && src->find) {
		struct buf text = {0};
		task_text(task, &text);
		int rc = src->find(src->ctx, task, buf_str(&text), &p->a, &ps->found, &origin);
		buf_free(&text);
		if (rc < 0 && rc != E_NOTFOUND && rc != E_INFEASIBLE)
			return rc;
		if (rc >= 0 && take_code(p, ps) >= 0) {
			add_kernel(p, ps, origin, t);
			return E_OK;
		}
	}
	if (find_fallback(p, ps, t) >= 0) {
		add_kernel(p, ps, FROM_FALLBACK, t);
		return E_OK;
	}
	add_kernel(p, ps, FROM_HOST, t);
	return host_make(task, &p->a, ps->packed, &ps->host);
}

static int bind_node(struct plan *p, struct pstep *ps)
{
	const struct node *n = &p->g->node[ps->step->node];
	struct opctx *c = &ps->ctx;
	*c = (struct opctx){
	    .node = n, .code = n->op->rows[n->row].code, .opset = n->opset, .arena = &p->scratch};
	c->nin = n->nin;
	c->nout = n->nout;
	c->in = arena_try(&p->a, (size_t)n->nin + 1, sizeof *c->in);
	c->out = arena_try(&p->a, (size_t)n->nout + 1, sizeof *c->out);
	if (!c->in || !c->out)
		return E_NOMEM;
	for (int i = 0; i < n->nin; i++)
		if (n->in[i] >= 0)
			c->in[i] = p->g->value[n->in[i]].t;
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] >= 0)
			c->out[i] = p->g->value[n->out[i]].t;
	return E_OK;
}

static int find_kernels(struct plan *p, const struct target *t, const struct kernel_source *src)
{
	int rc = E_OK;
	for (int i = 0; i < p->nsteps && rc >= 0; i++) {
		struct pstep *ps = &p->step[i];
		ps->step = &p->s->step[i];
		ps->kernel = -1;
		if (ps->step->kind == STEP_TASK)
			rc = find_kernel(p, ps, t, src);
		if (ps->step->kind != STEP_HOST)
			continue;
		rc = bind_node(p, ps);
		add_kernel(p, ps, FROM_HOST, t);
	}
	return rc;
}

/* Elements per value: its layout's, and what kernels declare. */
static void size_values(struct plan *p)
{
	for (int v = 0; v < p->s->nvalues; v++) {
		p->place[v].elems = operand_elems(&p->s->value[v].buf);
		p->place[v].root = v;
		p->place[v].lifetime = -1;
	}
	for (int i = 0; i < p->nsteps; i++) {
		const struct pstep *ps = &p->step[i];
		const struct step *s = ps->step;
		if (s->kind == STEP_ALIAS)
			p->place[s->value[1]].root = p->place[s->value[0]].root;
		for (int b = 0; ps->code && b < ps->nbufs; b++) {
			const struct code_buf *cb = &ps->found.m.buf[b];
			if (cb->operand < 0 || cb->packed || s->value[cb->operand] < 0)
				continue;
			struct place *x = &p->place[p->place[s->value[cb->operand]].root];
			x->elems = cb->elems > x->elems ? cb->elems : x->elems;
		}
	}
}

static void use(struct plan *p, struct lifetime *l, int *n, int v, int at)
{
	if (v < 0 || p->s->value[v].constant)
		return;
	struct place *x = &p->place[p->place[v].root];
	if (x->lifetime < 0) {
		x->lifetime = (*n)++;
		l[x->lifetime] = (struct lifetime){(int64_t)value_bytes(p, p->place[v].root), at, at, 0};
	}
	l[x->lifetime].to = at > l[x->lifetime].to ? at : l[x->lifetime].to;
}

/* Uses in order: inputs before all steps, outputs after. */
static int find_lifetimes(struct plan *p, struct lifetime *l)
{
	int n = 0;
	for (int i = 0; i < p->g->ninputs; i++)
		use(p, l, &n, p->g->input[i], -1);
	for (int i = 0; i < p->nsteps; i++) {
		const struct step *s = p->step[i].step;
		for (int k = 0; k < MAX_OPERANDS; k++)
			use(p, l, &n, s->value[k], i);
		if (s->kind != STEP_HOST)
			continue;
		const struct node *node = &p->g->node[s->node];
		for (int k = 0; k < node->nin; k++)
			use(p, l, &n, s->host_in[k], i);
		for (int k = 0; k < node->nout; k++)
			use(p, l, &n, node->out[k], i);
	}
	for (int i = 0; i < p->g->noutputs; i++)
		use(p, l, &n, p->g->output[i], p->nsteps);
	/* Bytes that are no f32 never become somebody's padding lanes; what is kept is never written over. */
	for (int v = 0; v < p->s->nvalues; v++)
		if (p->place[v].lifetime >= 0 && (p->keep || p->s->value[v].buf.dtype != DT_F32))
			l[p->place[v].lifetime].from = -1, l[p->place[v].lifetime].to = p->nsteps;
	return n;
}

static void set_halo(const struct plan *p, int v)
{
	const struct place *x = &p->place[v];
	halo_set(x->halo, x->nhalo, p->s->value[v].buf.fill, (float *)x->p);
}

static int place_values(struct plan *p)
{
	struct lifetime *l = arena_try(&p->a, (size_t)p->s->nvalues + 1, sizeof *l);
	if (!l)
		return E_NOMEM;
	int n = find_lifetimes(p, l), rc = E_OK;
	int64_t bytes = lifetimes_place(l, n);
	if (bytes < 0)
		return (int)bytes;
	p->memory_bytes = (size_t)round64(bytes);
	if (!(p->memory = get_block(p, 0, p->memory_bytes)))
		return fail(E_NOMEM, "no memory for %lld bytes of tensors", (long long)bytes);
	for (int v = 0; v < p->s->nvalues && rc >= 0; v++) {
		struct place *x = &p->place[v];
		int li = p->place[x->root].lifetime;
		if (li < 0)
			continue;
		x->p = p->memory + l[li].at;
		if (x->root != v)
			continue;
		rc = x->nhalo = halo_find(&p->s->value[v].buf, &p->a, &x->halo);
		for (int j = 0; j < n && x->nhalo; j++)
			x->refill |=
			    j != li && l[j].at < l[li].at + l[li].bytes && l[li].at < l[j].at + l[j].bytes;
		set_halo(p, v);
	}
	return rc;
}

/* How constant operand i of a step must be held: its bytes, 0 where the model's own data does. */
static const struct packing *packing_of(const struct pstep *ps, int i)
{
	for (int b = 0; ps->code && b < ps->nbufs; b++)
		if (ps->found.m.buf[b].operand == i && ps->found.m.buf[b].packed)
			return &ps->found.m.buf[b].packing;
	return NULL;
}

/* Operand i as the kernel that reads it wants it in memory. */
static const struct operand *held_as(const struct pstep *ps, int i)
{
	for (int k = 0; ps->parts && k < ps->parts->core.noperands; k++)
		if (ps->parts->core_of[k] == i)
			return &ps->parts->core.operand[k];
	for (int k = 0; ps->tail && k < ps->parts->rest.noperands; k++)
		if (ps->parts->rest_of[k] == i)
			return &ps->tail_packed[k];
	return ps->host ? &ps->packed[i] : &ps->step->task->operand[i];
}

static int64_t weight_elems(const struct pstep *ps, int i)
{
	const struct packing *pack = packing_of(ps, i);
	const struct operand *o = held_as(ps, i);
	int64_t n = pack ? pack_elems(pack) : operand_elems(o);
	for (int b = 0; ps->code && b < ps->nbufs; b++)
		if (ps->found.m.buf[b].operand == i && ps->found.m.buf[b].elems > n)
			n = ps->found.m.buf[b].elems;
	return n;
}

/* Logical dims may have been merged: the data is the same, plain. */
static void pack_weight(const struct plan *p, const struct pstep *ps, int i, float *to)
{
	const struct packing *pack = packing_of(ps, i);
	const float *from = p->g->value[p->s->value[ps->step->value[i]].of].t.data;
	const struct operand *o = held_as(ps, i);
	if (pack)
		pack_run(pack, from, to);
	else if (o->dtype == DT_I32)
		memcpy(to, from, sizeof *to * (size_t)operand_elems(o));
	else
		operand_pack(o, from, to);
}

/* Every constant operand of a kernel gets its packed copy: two passes, sizes and then data. buf[i] of a host
 * task is operand i's address. */
static int place_weights(struct plan *p)
{
	int64_t total = 0;
	for (int pass = 0; pass < 2; pass++) {
		total = 0;
		for (int s = 0; s < p->nsteps; s++) {
			struct pstep *ps = &p->step[s];
			for (int i = 0; ps->step->kind == STEP_TASK && i < ps->step->task->noperands; i++) {
				if (ps->step->task->operand[i].role != ROLE_CONST)
					continue;
				char *to = p->weights + total;
				if (pass == 1)
					pack_weight(p, ps, i, (float *)to);
				for (int b = 0; pass == 1 && b < ps->nbufs; b++)
					if (ps->code ? ps->found.m.buf[b].operand == i : b == i)
						ps->buf[b] = to;
				for (int k = 0; pass == 1 && ps->tail && k < ps->parts->rest.noperands; k++)
					if (ps->parts->rest_of[k] == i)
						ps->tail_buf[k] = to;
				total += round64(weight_elems(ps, i) * 4);
			}
		}
		if (pass == 0) {
			p->weight_bytes = (size_t)total;
			if (!(p->weights = get_block(p, 1, p->weight_bytes)))
				return fail(E_NOMEM, "no memory for %lld bytes of weights", (long long)total);
		}
	}
	return E_OK;
}

/* Addresses of all other operands; temporaries of the portable path and thread scratch behind the tensors. */
static int bind_buffers(struct plan *p)
{
	int64_t tmp = 0, thread = (int64_t)round64((int64_t)host_scratch_bytes());
	for (int s = 0; s < p->nsteps; s++) {
		struct pstep *ps = &p->step[s];
		int64_t own = 0;
		if (ps->code && ps->found.m.scratch_bytes > thread)
			thread = round64(ps->found.m.scratch_bytes);
		for (int i = 0; ps->host && i < ps->step->task->noperands; i++)
			own += ps->step->task->operand[i].role == ROLE_TMP
				   ? round64(operand_elems(&ps->packed[i]) * 4)
				   : 0;
		tmp = own > tmp ? own : tmp;
	}
	int n = p->pool ? pool_threads(p->pool) : 1;
	p->thread_bytes = (size_t)thread;
	if (!(p->threads = get_block(p, 2, (size_t)(tmp + n * thread))))
		return fail(E_NOMEM, "no memory for scratch");
	char *temporaries = p->threads + n * thread;
	for (int s = 0; s < p->nsteps; s++) {
		struct pstep *ps = &p->step[s];
		const struct step *st = ps->step;
		int64_t own = 0;
		for (int b = 0; st->kind == STEP_TASK && b < ps->nbufs; b++) {
			int i = ps->code ? ps->found.m.buf[b].operand : b;
			if (i < 0 || st->task->operand[i].role == ROLE_CONST)
				continue;
			if (st->task->operand[i].role == ROLE_TMP) {
				ps->buf[b] = temporaries + own;
				own += round64(operand_elems(&st->task->operand[i]) * 4);
			} else {
				ps->buf[b] = p->place[st->value[i]].p;
			}
		}
		for (int k = 0; ps->tail && k < ps->parts->rest.noperands; k++)
			if (ps->parts->rest.operand[k].role != ROLE_CONST)
				ps->tail_buf[k] = p->place[st->value[ps->parts->rest_of[k]]].p;
		for (int i = 0; st->kind == STEP_HOST && i < ps->ctx.nin; i++)
			if (st->host_in[i] >= 0 && !p->s->value[st->host_in[i]].constant)
				ps->ctx.in[i].data = p->place[st->host_in[i]].p;
		for (int i = 0; st->kind == STEP_HOST && i < ps->ctx.nout; i++)
			if (p->g->node[st->node].out[i] >= 0)
				ps->ctx.out[i].data = p->place[p->g->node[st->node].out[i]].p;
	}
	return E_OK;
}

static void plain_operand(const struct tensor *t, struct operand *o)
{
	memset(o, 0, sizeof *o);
	o->dtype = t->dtype;
	o->dims = t->shape;
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
	if (!p->step || !p->kernel || !p->place || !p->in || !p->out)
		return E_NOMEM;
	for (int i = 0; i < g->ninputs; i++)
		plain_operand(&g->value[g->input[i]].t, &p->in[i]);
	for (int i = 0; i < g->noutputs; i++)
		plain_operand(&g->value[g->output[i]].t, &p->out[i]);
	int rc = find_kernels(p, t, src);
	for (int i = 0; i < p->nsteps; i++)
		if (p->step[i].host)
			p->step[i].nbufs = p->step[i].step->task->noperands;
	size_values(p);
	if (rc < 0 || (rc = place_values(p)) < 0 || (rc = place_weights(p)) < 0)
		return rc;
	return bind_buffers(p);
}

static int make_plan(struct graph *g, const struct steps *s, const struct target *t,
		     const struct kernel_source *src, struct pool *pool, bool keep, struct plan **out)
{
	struct plan *p = calloc(1, sizeof *p);
	if (!p)
		return fail(E_NOMEM, "no memory for a plan");
	p->g = g;
	p->s = s;
	p->pool = pool;
	p->keep = keep;
	p->dev = dev_find("cpu");
	int rc = build(p, t, src);
	if (rc < 0) {
		plan_free(p);
		return fail_in(rc, "plan");
	}
	*out = p;
	return E_OK;
}

int plan_build(struct graph *g, const struct steps *s, const struct target *t,
	       const struct kernel_source *src, struct pool *pool, struct plan **out)
{
	return make_plan(g, s, t, src, pool, false, out);
}

int plan_build_kept(struct graph *g, const struct steps *s, const struct target *t,
		    const struct kernel_source *src, struct pool *pool, struct plan **out)
{
	return make_plan(g, s, t, src, pool, true, out);
}

struct call {
	const struct plan *p;
	struct pstep *ps;
	int entry;
	const struct host_task *host; /* NULL: compiled */
	void *const *buf;
};

static void range(void *ctx, int thread, int64_t begin, int64_t end)
{
	const struct call *c = ctx;
	struct pstep *ps = c->ps;
	void *scratch = c->p->threads + (size_t)thread * c->p->thread_bytes;
	unsigned old = fpu_flush();
	if (c->host) {
		host_run(c->host, c->entry, c->buf, begin, end, scratch);
	} else {
		void *buf[CODE_MAX_BUFS];
		memcpy(buf, ps->buf, sizeof buf);
		if (ps->nbufs)
			buf[ps->nbufs - 1] = buf[ps->nbufs - 1] ? buf[ps->nbufs - 1] : scratch;
		c->p->dev->run(ps->code, ps->entry[c->entry].entry, buf, ps->param, begin, end);
	}
	fpu_restore(old);
}

static void run_entry(const struct plan *p, struct call *c, int64_t extent)
{
	if (p->pool)
		pool_run(p->pool, range, c, extent);
	else if (extent > 0)
		range(c, 0, 0, extent);
}

static void run_task(struct plan *p, struct pstep *ps)
{
	for (int i = 0; i < ps->step->task->noperands; i++)
		if (ps->step->task->operand[i].role == ROLE_OUT && p->place[ps->step->value[i]].refill)
			set_halo(p, ps->step->value[i]);
	int n = ps->host ? host_entries(ps->host) : ps->nentries;
	for (int e = 0; e < n; e++) {
		struct call c = {p, ps, e, ps->host, ps->buf};
		run_entry(p, &c, ps->host ? host_extent(ps->host, e) : ps->entry[e].extent);
	}
	if (ps->tail) {
		struct call c = {p, ps, 0, ps->tail, ps->tail_buf};
		run_entry(p, &c, host_extent(ps->tail, 0));
	}
}

/* Concat and Split on buffers of any layout: copies of windows. */
static void run_windows(struct plan *p, struct pstep *ps)
{
	const struct node *n = &p->g->node[ps->step->node];
	bool join = !strcmp(node_type(n), "Concat");
	int whole = join ? n->out[0] : ps->step->host_in[0], parts = join ? n->nin : n->nout;
	const struct operand *w = &p->s->value[whole].buf;
	int64_t axis = node_int(n, "axis", join ? 1 : 0), at[MAX_RANK] = {0};
	axis += axis < 0 ? w->dims.rank : 0;
	for (int i = 0; i < parts; i++) {
		int v = join ? ps->step->host_in[i] : n->out[i];
		if (v < 0)
			continue;
		struct operand *o = &p->s->value[v].buf;
		float *part = join ? ps->ctx.in[i].data : ps->ctx.out[i].data;
		if (join)
			window_in(o, part, &p->s->value[whole].buf, ps->ctx.out[0].data, at);
		else
			window_out(w, ps->ctx.in[0].data, at, o, part);
		at[axis] += o->dims.d[axis];
	}
}

static int run_node(struct plan *p, struct pstep *ps)
{
	const struct node *n = &p->g->node[ps->step->node];
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] >= 0 && p->place[n->out[i]].refill)
			set_halo(p, n->out[i]);
	if (step_any_layout(p->g, ps->step->node)) {
		run_windows(p, ps);
		return E_OK;
	}
	struct opctx c = ps->ctx;
	int rc = n->op->eval(&c);
	arena_reset(&p->scratch);
	return fail_in(rc, "node '%s' (%s)", n->name, node_type(n));
}

static int copy_in(struct plan *p, const struct tensor *inputs)
{
	static const int64_t zero[MAX_RANK];
	for (int i = 0; i < p->g->ninputs; i++) {
		int v = p->g->input[i];
		if (inputs[i].dtype != p->in[i].dtype || !shape_equal(&inputs[i].shape, &p->in[i].dims) ||
		    !inputs[i].data)
			return fail(E_USAGE, "input '%s' has another dtype or shape than the model",
				    p->g->value[v].name);
		if (!p->place[v].p)
			continue;
		if (p->place[v].refill)
			set_halo(p, v);
		if (inputs[i].dtype == DT_F32)
			window_in(&p->in[i], inputs[i].data, &p->s->value[v].buf, (float *)p->place[v].p,
				  zero);
		else
			memcpy(p->place[v].p, inputs[i].data,
			       (size_t)shape_count(&inputs[i].shape) * dtype_bytes(inputs[i].dtype));
	}
	return E_OK;
}

static int copy_out(struct plan *p, struct tensor *outputs)
{
	static const int64_t zero[MAX_RANK];
	for (int i = 0; i < p->g->noutputs; i++) {
		int v = p->g->output[i];
		const struct tensor *t = &p->g->value[v].t;
		const void *from = t->data ? t->data : p->place[v].p;
		if (outputs[i].dtype != t->dtype || !shape_equal(&outputs[i].shape, &t->shape) ||
		    !outputs[i].data)
			return fail(E_USAGE, "output '%s' has another dtype or shape than the model",
				    p->g->value[v].name);
		if (t->dtype == DT_F32 && !t->data)
			window_out(&p->s->value[v].buf, from, zero, &p->out[i], outputs[i].data);
		else
			memcpy(outputs[i].data, from, (size_t)shape_count(&t->shape) * dtype_bytes(t->dtype));
	}
	return E_OK;
}

int plan_run_timed(struct plan *p, const struct tensor *inputs, struct tensor *outputs, struct clock *clock)
{
	unsigned old = fpu_flush();
	if (p->pool)
		pool_begin(p->pool);
	int rc = copy_in(p, inputs);
	for (int i = 0; i < p->nsteps && rc >= 0; i++) {
		struct pstep *ps = &p->step[i];
		int64_t begin = clock ? clock_now(clock) : 0;
		if (ps->step->kind == STEP_TASK)
			run_task(p, ps);
		else if (ps->step->kind == STEP_HOST)
			rc = run_node(p, ps);
		if (clock && ps->kernel >= 0)
			p->kernel[ps->kernel].ns = clock_now(clock) - begin;
		if (p->clock && clock_now(p->clock) > p->deadline_ns)
			rc = fail(E_TIMEOUT, "the run did not end in time");
	}
	if (rc >= 0)
		rc = copy_out(p, outputs);
	if (p->pool)
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
	if (rc >= 0 && !v->constant && v->buf.dtype == DT_F32)
		operand_unpack(&v->buf, from, out->data);
	else if (rc >= 0)
		memcpy(out->data, from, (size_t)shape_count(&out->shape) * dtype_bytes(out->dtype));
	return rc;
}

size_t plan_bytes(const struct plan *p)
{
	return p->memory_bytes + p->weight_bytes;
}

void plan_free(struct plan *p)
{
	if (!p)
		return;
	for (int i = 0; i < p->nsteps && p->step; i++)
		if (p->step[i].code)
			p->dev->unload(p->step[i].code);
	for (int i = 0; i < 3; i++)
		free(p->blocks[i]);
	arena_free(&p->scratch);
	arena_free(&p->a);
	free(p);
}
