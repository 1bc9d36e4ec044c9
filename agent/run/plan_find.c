/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/plan_parts.h"
#include "kernels/space/space.h"
#include "kernels/space/winograd.h"
#include "platform/base/log.h"
#include "platform/run/foreign.h"

#include <string.h>

static double level_gbs(const struct target *t, double bytes)
{
	const double size[3] = {(double)t->l1_bytes, (double)t->l2_bytes, (double)t->l3_bytes};
	for (int i = 0; i < 3; i++)
		if (bytes <= size[i])
			return t->bw_gbs[i];
	return t->bw_gbs[3];
}

double plan_roofline_ns(const struct target *t, double flops, double bytes, double moved)
{
	double gbs = level_gbs(t, moved);
	if (t->fma_gflops <= 0 || gbs <= 0 || t->bw_gbs[3] <= 0)
		return 0;
	double compute = flops / t->fma_gflops, memory = moved / gbs + (bytes - moved) / t->bw_gbs[3];
	return compute > memory ? compute : memory;
}

/* A Winograd kernel counts the multiplications that it makes. */
static void count_winograd(struct plan *p, const struct manifest *m, struct plan_kernel *k)
{
	if (!m->winograd)
		return;
	k->flops *= winograd_share(m->winograd).flops;
	k->label = arena_printf(&p->a, "%s F(%d,3)", k->label, m->winograd);
}

/* Counts the weights as the kernel reads them: transformed, or of 16 bits. */
static void count_weights(struct plan *p, const struct manifest *m, struct plan_kernel *k)
{
	for (int i = 0; i < m->nbufs; i++) {
		const struct packing *w = &m->buf[i].packing;
		if (!m->buf[i].packed || (!w->winograd.m && !w->f16 && !w->bf16))
			continue;
		double elems = (double)shape_count(&w->src),
		       read = w->winograd.m ? winograd_share(w->winograd.m).weights : 1;
		k->bytes += (read * (w->f16 || w->bf16 ? 2 : 4) - 4) * elems;
		k->w16 |= w->f16 && m->sums != DT_F16;
	}
	k->pairs = code_pairs(m);
	if (k->w16)
		k->label = arena_printf(&p->a, "%s w16", k->label);
	if (k->pairs)
		k->label = arena_printf(&p->a, "%s %s", k->label, pairs_name(k->pairs));
}

/* Whether a node reads or writes bytes. */
static bool on_bytes(const struct graph *g, const struct node *n)
{
	bool bytes = false;
	for (int i = 0; i < n->nin + n->nout; i++) {
		int v = i < n->nin ? n->in[i] : n->out[i - n->nin];
		bytes |= v >= 0 && (g->value[v].t.dtype == DT_U8 || g->value[v].t.dtype == DT_I8);
	}
	return bytes;
}

static enum kernel_why why_here(const struct plan *p, const struct pstep *ps)
{
	if (!p->device || ps->far)
		return WHY_NOT;
	if (ps->step->kind == STEP_TASK)
		return ps->unfit ? WHY_UNFIT : WHY_NO_KERNEL;
	return on_bytes(p->g, &p->g->node[ps->step->node]) ? WHY_BYTES : WHY_OPERATOR;
}

/* Adds the library's name and version: the object's word without the build id. */
static void name_library(struct plan *p, struct blob object, struct plan_kernel *k)
{
	const char *at = (const char *)object.p + sizeof FOREIGN_MAGIC + sizeof "word " - 2;
	k->library = true;
	k->label = arena_printf(&p->a, "%s %.*s", k->label, (int)strcspn(at, "@\n"), at);
}

static void add_kernel(struct plan *p, struct pstep *ps, enum kernel_origin origin, const struct target *t)
{
	char label[96];
	const struct step *s = ps->step;
	struct plan_kernel *k = &p->kernel[p->nkernels];
	ps->kernel = p->nkernels++;
	*k = (struct plan_kernel){.step = (int)(s - p->s->step), .name = s->name, .origin = origin};
	k->at_default = origin == FROM_CACHE && ps->code && ps->found->at_default;
	k->why = why_here(p, ps);
	if (s->kind == STEP_TASK) {
		task_label(s->task, label);
		k->label = arena_strdup(&p->a, label);
		k->flops = task_flops(s->task);
		k->bytes = task_bytes(s->task, true);
		if (ps->code) {
			count_winograd(p, &ps->found->m, k);
			count_weights(p, &ps->found->m, k);
		}
		if (ps->library)
			name_library(p, ps->found->object, k);
		double rate = space_rate(s->task, t, pairs_text(k->pairs));
		k->roofline_ns = plan_roofline_ns(t, k->flops / rate, k->bytes, task_bytes(s->task, false));
	} else {
		k->label = arena_strdup(&p->a, node_type(&p->g->node[s->node]));
	}
}

/* A manifest comes from a file, so what it says of a buffer is checked against the task's operand. A packed
 * copy never takes more than the constant holds, and padding is limited. */
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
	if (b->packed && (shape_count(&b->packing.src) != count ||
			  ((b->packing.winograd.m || b->packing.f16 || b->packing.bf16 || b->texture) &&
			   o->dtype != DT_F32)))
		return false;
	int64_t held = b->packed ? pack_elems(&b->packing) : elems;
	return held <= 256 * elems + 65536 && b->elems <= 2 * (held > elems ? held : elems) + 65536;
}

/* value: the step's, of each operand; NULL: not looked at. */
static int make_host(struct plan *p, const struct task *t, const int *value, const struct operand **packed,
		     struct host_task **out)
{
	const int32_t *table[MAX_OPERANDS] = {NULL};
	for (int i = 0; i < t->noperands && value; i++) {
		const struct step_value *v = value[i] < 0 ? NULL : &p->s->value[value[i]];
		const struct tensor *x = v && v->constant ? &p->g->value[v->of].t : NULL;
		if (x && x->data && x->dtype == DT_I32 && t->operand[i].dtype == DT_I32 &&
		    shape_count(&x->shape) == shape_count(&t->operand[i].dims))
			table[i] = x->data;
	}
	struct operand *o = arena_try(&p->making, MAX_OPERANDS, sizeof *o);
	*packed = o;
	return o ? host_make(t, p->whole ? HOST_TEXT : HOST_RUNS, tile_lanes(), table, &p->a, o, out)
		 : E_NOMEM;
}

/* Whether f16 and bf16 hold the constants that the code stores so. */
static bool holds_weights(const struct plan *p, const struct pstep *ps)
{
	for (int i = 0; i < ps->found->m.nbufs; i++) {
		const struct code_buf *b = &ps->found->m.buf[i];
		if (!b->packed || (!b->packing.f16 && !b->packing.bf16))
			continue;
		const struct tensor *w = &p->g->value[p->s->value[ps->step->value[b->operand]].of].t;
		if (!w->data || !pack_holds(&b->packing, pack_largest(w->data, shape_count(&w->shape))))
			return false;
	}
	return true;
}

void plan_unload(struct plan *p, struct pstep *ps)
{
	if (ps->code && ps->far)
		p->device->unload(p->device, ps->code);
	else if (ps->code)
		p->dev->unload(ps->code);
	ps->code = NULL;
	ps->far = false;
}

static bool reads_textures(const struct manifest *m)
{
	for (int i = 0; i < m->nbufs; i++)
		if (m->buf[i].texture)
			return true;
	return false;
}

/* Loads code and checks that it fits the task; after any error another kernel is looked for. */
static int take_code(struct plan *p, struct pstep *ps)
{
	const struct manifest *m = &ps->found->m;
	if (!p->dev)
		return fail(E_UNSUPPORTED, "no CPU device");
	ps->far = p->device && strcmp(m->emitter, p->dev->emitter);
	bool textures = ps->far && reads_textures(m);
	const struct dev *dev = p->dev;
	ps->library = !ps->far && foreign_is(ps->found->object.p, ps->found->object.n);
	/* an image or a bundle of C is for processes that have no libraries */
	if (ps->library && (p->no_libraries || p->image || p->whole))
		return fail(E_UNSUPPORTED, "no libraries");
	int rc = textures && p->no_textures ? fail(E_UNSUPPORTED, "no textures")
		 : ps->far                  ? p->device->load(p->device, ps->found, &ps->code)
					    : dev->load(ps->found->object.p, ps->found->object.n, &ps->code);
	if (rc < 0) {
		ps->code = NULL;
		ps->far = false;
		return rc;
	}
	ps->nentries = m->nentries;
	ps->nbufs = m->nbufs;
	memcpy(ps->param, m->param, sizeof ps->param);
	for (int i = 0; i < m->nentries && rc >= 0; i++) {
		rc = ps->entry[i].entry = ps->far ? p->device->entry(p->device, ps->code, m->entry[i])
						  : dev->entry(ps->code, m->entry[i]);
		if (rc >= 0) {
			ps->entry[i].extent = code_extent(m, i, ps->param);
			rc = ps->entry[i].extent < 0 ? (int)ps->entry[i].extent : E_OK;
		}
	}
	for (int i = 0; i < m->nbufs && rc >= 0; i++)
		if (!buffer_fits(ps->step->task, m, i))
			rc = fail(E_CORRUPT, "code of another task");
	if (rc >= 0 && !holds_weights(p, ps))
		rc = fail(E_INFEASIBLE, "16-bit floats do not hold the weights of %s", ps->step->name);
	if (rc < 0)
		plan_unload(p, ps);
	p->textures |= rc >= 0 && textures;
	p->libraries |= rc >= 0 && ps->library;
	return rc;
}

static int keep_parts(struct plan *p, struct pstep *ps, const struct fallback_parts *parts)
{
	ps->ncore = parts->core.noperands;
	ps->core = arena_memdup(&p->making, parts->core.operand, sizeof *ps->core * (size_t)ps->ncore);
	memcpy(ps->core_of, parts->core_of, sizeof ps->core_of);
	memcpy(ps->rest_of, parts->rest_of, sizeof ps->rest_of);
	if (!parts->rest.nstages)
		return E_OK;
	struct task *rest = arena_memdup(&p->a, &parts->rest, sizeof *rest);
	ps->nrest = rest->noperands;
	ps->tail_task = rest;
	return make_host(p, rest, NULL, &ps->rest, &ps->tail);
}

/* Whether all threads get nearly the same part of a kernel's first entry. */
static bool shares_well(const struct plan *p, const struct pstep *ps)
{
	int64_t n = p->pool ? pool_threads(p->pool) : 1, extent = ps->entry[0].extent;
	return 4 * n * ((extent + n - 1) / n) <= 5 * extent;
}

static void drop_fallback(struct plan *p, struct pstep *ps)
{
	plan_unload(p, ps);
	ps->ncore = ps->nrest = 0;
	ps->tail = NULL;
}

/* Takes a kernel from the archives for the task's core; the manifest then describes the whole task's
 * operands. */
static int find_fallback(struct plan *p, struct pstep *ps, const struct target *t)
{
	struct fallback_parts *parts = arena_try(&p->trial, 1, sizeof *parts);
	if (!parts)
		return E_NOMEM;
	struct target here = *t;
	int rc = p->device ? target_host(&here) : E_OK;
	if (rc >= 0)
		rc = fallback_find(ps->step->task, &here, &p->trial, parts, ps->found);
	for (int b = 0; rc >= 0 && b < ps->found->m.nbufs; b++) {
		struct code_buf *cb = &ps->found->m.buf[b];
		if (cb->operand >= parts->core.noperands || cb->packed)
			return fail(E_CORRUPT, "fallback kernel of another task");
		if (cb->operand >= 0)
			cb->operand = parts->core_of[cb->operand];
	}
	if (rc >= 0 && (rc = keep_parts(p, ps, parts)) >= 0)
		rc = take_code(p, ps);
	if (rc < 0)
		drop_fallback(p, ps);
	return rc;
}

/* Takes a kernel that the source has. E_NOTFOUND: it has none. */
static int find_source(struct plan *p, struct pstep *ps, const struct kernel_source *src)
{
	struct buf text = {0};
	if (!src || !src->find)
		return fail(E_NOTFOUND, "no source of kernels");
	task_text(ps->step->task, &text);
	int rc = src->find(src->ctx, ps->step->task, buf_str(&text), &p->trial, ps->found, &ps->origin);
	bool unfit = rc >= 0 && take_code(p, ps) < 0;
	if (unfit && ps->library) {
		if (!p->no_libraries && !p->image && !p->whole)
			log_info("%s: %s; hone's own kernel runs instead", ps->step->name, err_text());
		ps->library = false;
		ps->found->own = true;
		rc = src->find(src->ctx, ps->step->task, buf_str(&text), &p->trial, ps->found, &ps->origin);
		unfit = rc >= 0 && take_code(p, ps) < 0;
	}
	buf_free(&text);
	if (rc < 0)
		return rc == E_INFEASIBLE ? E_NOTFOUND : rc;
	ps->unfit = unfit;
	return ps->unfit ? E_NOTFOUND : E_OK;
}

static int find_kernel(struct plan *p, struct pstep *ps, const struct target *t,
		       const struct kernel_source *src)
{
	int rc = ps->code ? E_OK : find_source(p, ps, src);
	if (rc != E_NOTFOUND) {
		if (rc >= 0)
			add_kernel(p, ps, ps->origin, t);
		return rc;
	}
	enum host_fit fit = host_fit(ps->step->task);
	if (fit != FITS_BETTER && find_fallback(p, ps, t) >= 0) {
		if (fit != FITS_AS_WELL || shares_well(p, ps)) {
			add_kernel(p, ps, FROM_FALLBACK, t);
			return E_OK;
		}
		drop_fallback(p, ps);
	}
	add_kernel(p, ps, FROM_HOST, t);
	return make_host(p, ps->step->task, ps->step->value, &ps->packed, &ps->host);
}

/* Memory of rejected kernels is freed, that of the found one is kept; a loaded kernel's object is kept only
 * for images and whole plans. */
static int begin_trial(struct plan *p, struct pstep *ps)
{
	ps->found = arena_try(&p->trial, 1, sizeof *ps->found);
	return ps->found ? E_OK : E_NOMEM;
}

static void end_trial(struct plan *p, struct pstep *ps)
{
	ps->found = ps->code ? arena_memdup(&p->making, ps->found, sizeof *ps->found) : NULL;
	if (ps->found && (p->image || p->whole))
		ps->found->object.p = arena_memdup(&p->making, ps->found->object.p, ps->found->object.n);
	arena_reset(&p->trial);
}

static int node_context(struct plan *p, struct pstep *ps)
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

/* A fused step needs a kernel from the source, else its parts run: there are no fallback kernels for fused
 * steps. */
static int find_fused(struct plan *p, const struct kernel_source *src)
{
	int rc = E_OK;
	for (int i = 0; i < p->s->nsteps && rc >= 0; i++) {
		p->step[i].step = &p->s->step[i];
		if (!p->s->step[i].fused)
			continue;
		if ((rc = begin_trial(p, &p->step[i])) >= 0)
			rc = find_source(p, &p->step[i], src);
		rc = rc == E_NOTFOUND ? E_OK : rc;
		end_trial(p, &p->step[i]);
	}
	return rc;
}

/* Returns whether a step does not run: a fused one without a kernel, or a part whose fused step has one. */
static bool idle(const struct plan *p, int i)
{
	const struct step *s = &p->s->step[i];
	return s->fused ? !p->step[i].code : s->fused_by >= 0 && p->step[s->fused_by].code;
}

/* Steps that do not run are dropped from the list. */
static void drop_idle(struct plan *p)
{
	int n = 0;
	bool *drop = ARENA_ARRAY(&p->a, bool, p->nsteps + 1);
	for (int i = 0; i < p->nsteps; i++)
		drop[i] = idle(p, i);
	for (int i = 0; i < p->nsteps; i++)
		if (!drop[i])
			p->step[n++] = p->step[i];
	p->nsteps = n;
}

int plan_find(struct plan *p, const struct target *t, const struct kernel_source *src)
{
	int rc = find_fused(p, src);
	if (rc < 0)
		return rc;
	drop_idle(p);
	for (int i = 0; i < p->nsteps && rc >= 0; i++) {
		struct pstep *ps = &p->step[i];
		ps->kernel = -1;
		bool look = ps->step->kind == STEP_TASK && !ps->code;
		if (look)
			rc = begin_trial(p, ps);
		if (ps->step->kind == STEP_TASK && rc >= 0)
			rc = find_kernel(p, ps, t, src);
		if (look)
			end_trial(p, ps);
		if (ps->step->kind != STEP_HOST)
			continue;
		rc = node_context(p, ps);
		add_kernel(p, ps, FROM_HOST, t);
	}
	return rc;
}
