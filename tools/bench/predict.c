/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/predict.h"
#include "kernels/emit/emit.h"
#include "kernels/loops/lower.h"
#include "tools/bench/nest.h"
#include <math.h>
#include <string.h>

const struct predict_constants predict_fitted = {1.14, {.29, .22, .46}, 4};

/* ---- which loop of machine code is which loop of the program */

static bool is_loop(const struct nest_node *n)
{
	return n->kind == NEST_ENTRY || n->kind == NEST_LOOP;
}

/* The loops right in a loop of the program, also those in its branches. Returns their number. */
static int inner(const struct nest_list *n, int loop, int *out)
{
	int count = 0;
	for (int i = loop + 1; i < n->n && n->node[i].depth > n->node[loop].depth; i++) {
		int p = n->node[i].parent;
		while (!is_loop(&n->node[p]))
			p = n->node[p].parent;
		if (p == loop && is_loop(&n->node[i]))
			out[count++] = i;
	}
	return count;
}

static int inner_machine(const struct machine *m, int loop, int *out)
{
	int count = 0;
	for (int i = loop + 1; i < m->nloops; i++)
		if (m->loop[i].parent == loop)
			out[count++] = i;
	return count;
}

struct pairs {
	struct arena *a;
	const struct loops *l;
	const struct nest_list *n;
	const struct machine *m;
	int *of;    /* the loop of machine code of each loop of the program; -1: none */
	int *ahead; /* another one before it, with its prefetches alone; 0: none */
};

/* The multiply-adds of a loop that kernels/emit/llvm_pipe.c may make as one that does several of its steps in
 * each run: its body has loads and prefetches beside them, and no more. 0: the loop has another form. */
static int piped_sums(const struct loops *l, const struct stmt *loop, bool *prefetches)
{
	const struct stmt *s = loop->body;
	int sums = 0;
	*prefetches = false;
	while (s && s->op == ST_FOR && !s->next)
		s = s->body;
	for (; s; s = s->next) {
		bool sets = s->op == ST_SET && l->lanes[s->dst] == 4 && l->type[s->dst] == LV_F32;
		if (s->op == ST_PREFETCH)
			*prefetches = true;
		else if (!sets || (s->vop != V_LOAD && s->vop != V_FMA))
			return 0;
		else
			sums += s->vop == V_FMA;
	}
	return sums;
}

/* Instructions of a loop of machine code that begin with a word. */
static int count_words(const struct machine *m, int loop, const char *word)
{
	int n = 0;
	for (int i = 0; i < m->nlines; i++)
		n += m->owner[i] == loop && !strncmp(m->line[i].text, word, strlen(word));
	return n;
}

/* Such a loop may fetch all that it needs in a loop of its own, before the products. */
static bool fetches_ahead(const struct pairs *p, int loop, int machine)
{
	bool prefetches;
	return piped_sums(p->l, p->n->node[loop].s, &prefetches) && prefetches &&
	       count_words(p->m, machine, "prfm") && !count_words(p->m, machine, "fmla");
}

/* How many steps of the program's loop one run of the machine code's loop does; 0: it cannot be told. */
static int steps_of(const struct pairs *p, int loop)
{
	bool prefetches;
	int sums = p->n->node[loop].s ? piped_sums(p->l, p->n->node[loop].s, &prefetches) : 0;
	int made = sums ? count_words(p->m, p->of[loop], "fmla") : 0;
	return !made ? 1 : made % sums ? 0 : made / sums;
}

/* Both list loops in the order of the program. Where they differ in number, the first ones are matched. */
static void match(struct pairs *p, int loop, int machine)
{
	int *x = ARENA_ARRAY(p->a, int, p->n->n + 1), *y = ARENA_ARRAY(p->a, int, p->m->nloops + 1);
	int nx = inner(p->n, loop, x), ny = inner_machine(p->m, machine, y);
	p->of[loop] = machine;
	for (int i = 0, k = 0; i < nx && k < ny; i++, k++) {
		if (k + 1 < ny && fetches_ahead(p, x[i], y[k]))
			p->ahead[x[i]] = y[k++];
		match(p, x[i], y[k]);
	}
}

/* The loop over the entry's range is a loop of machine code, too, the only one that is in none. */
static int range_loop(struct arena *a, const struct machine *m)
{
	int *y = ARENA_ARRAY(a, int, m->nloops + 1);
	return inner_machine(m, 0, y) == 1 ? y[0] : 0;
}

static void add_runs(const struct pairs *p, int machine, double runs, bool *used, struct predict_work *out)
{
	used[machine] = true;
	out->cycles += runs * p->m->loop[machine].cycles;
	out->instructions += runs * p->m->loop[machine].own;
}

static void add_cycles(struct arena *a, const struct loops *l, const struct nest_list *n,
		       const struct machine *m, struct predict_work *out)
{
	struct pairs p = {a, l, n, m, ARENA_ARRAY(a, int, n->n + 1), ARENA_ARRAY(a, int, n->n + 1)};
	bool *used = ARENA_ARRAY(a, bool, m->nloops + 1);
	for (int i = 0; i < n->n; i++)
		p.of[i] = -1;
	match(&p, 0, range_loop(a, m));
	for (int i = 0; i < n->n; i++) {
		const struct nest_node *x = &n->node[i];
		if (!is_loop(x))
			continue;
		int steps = p.of[i] < 0 ? 0 : steps_of(&p, i);
		out->loops++;
		out->unmatched += !steps;
		if (steps)
			add_runs(&p, p.of[i], x->runs / steps, used, out);
		if (p.ahead[i])
			add_runs(&p, p.ahead[i], x->runs, used, out);
	}
	for (int k = 1; k < m->nloops; k++)
		out->unmatched += !used[k];
}

/* ---- caches */

enum { PAGE = 4096 };

struct caches {
	struct lru *lru;
	int64_t base[LOOPS_MAX_BUFS], bytes[LOOPS_MAX_BUFS];
};

static void touch(void *ctx, int buf, int64_t at, int64_t bytes, bool writes)
{
	struct caches *c = ctx;
	lru_touch(c->lru, c->base[buf] + at, bytes, writes);
}

static int open_caches(struct arena *a, const struct loops *l, const struct manifest *m,
		       const struct predict_cpu *cpu, struct caches *out)
{
	const struct target *t = &cpu->target;
	const struct lru_level level[LRU_LEVELS] = {{t->l1_bytes, 8}, {t->l2_bytes, 16}, {t->l3_bytes, 16}};
	int64_t at = PAGE;
	for (int i = 0; i < l->nbufs; i++) {
		int64_t elems = ix_eval(l->buf[i].elems, m->param, NULL, NULL);
		out->base[i] = at;
		out->bytes[i] = elems * (int64_t)dtype_bytes(l->buf[i].dtype);
		at += (out->bytes[i] + 2 * PAGE) / PAGE * PAGE; /* a page between two buffers */
	}
	return lru_make(a, level, t->line_bytes ? t->line_bytes : 64, &out->lru);
}

/* Before a kernel of a network runs, the memory of its results was used for other values, its inputs were
 * just made, and its constants are in memory. */
static void prepare(struct caches *c, const struct loops *l)
{
	for (int i = 0; i < l->nbufs; i++)
		if (l->buf[i].role == BUF_OUT || l->buf[i].role == BUF_SCRATCH)
			lru_touch(c->lru, c->base[i], c->bytes[i], false);
	for (int i = 0; i < l->nbufs; i++)
		if (l->buf[i].role == BUF_IN)
			lru_touch(c->lru, c->base[i], c->bytes[i], false);
	lru_start(c->lru);
}

static int walk(struct arena *a, const struct loops *l, const struct manifest *m, struct caches *c,
		struct nest_list *nest)
{
	const struct nest_touch t = {touch, c};
	int rc = E_OK;
	prepare(c, l);
	for (int e = 0; e < l->nentries && rc >= 0; e++) {
		int64_t extent = code_extent(m, e, m->param);
		rc = extent < 0 ? (int)extent : nest_make(l, e, a, &nest[e]);
		if (rc >= 0)
			rc = nest_walk(l, e, m->param, NULL, 0, extent, &t, &nest[e]);
	}
	return rc;
}

static void add_bytes(const struct caches *c, const struct predict_cpu *cpu, struct predict_work *out)
{
	const struct target *t = &cpu->target;
	struct lru_moved m = lru_moved(c->lru);
	for (int i = 0; i < LRU_LEVELS; i++) {
		bool memory = i == 2 || (i == 1 && !t->l3_bytes) || (i == 0 && !t->l2_bytes && !t->l3_bytes);
		out->bytes[memory ? 2 : i] += m.in[i] + m.out[i];
	}
}

static bool reads_tables(const struct loops *l)
{
	for (int i = 0; i < l->nbufs; i++)
		if (l->buf[i].dtype == DT_I32 && l->buf[i].role == BUF_IN)
			return true;
	return false;
}

int predict_work(const struct task *t, const char *cand, const struct predict_cpu *cpu, const char *dir,
		 struct predict_work *out)
{
	struct arena a = {0};
	struct loops *l;
	struct manifest m;
	struct blob object;
	struct caches c = {0};
	struct nest_list nest[LOOPS_MAX_ENTRIES];
	const struct emit *emit = emit_find("llvm");
	*out = (struct predict_work){0};
	int rc =
	    emit ? lower(t, cand, &cpu->target, &a, &l, &m) : fail(E_UNSUPPORTED, "this program has no LLVM");
	if (rc >= 0 && reads_tables(l))
		rc = fail(E_UNSUPPORTED, "the kernel reads addresses from tables");
	if (rc >= 0)
		rc = emit->emit(l, &cpu->target, &a, &object);
	if (rc == E_SPILL) /* the object is whole */
		rc = E_OK;
	if (rc >= 0)
		rc = open_caches(&a, l, &m, cpu, &c);
	if (rc >= 0)
		rc = walk(&a, l, &m, &c, nest);
	for (int e = 0; rc >= 0 && e < l->nentries; e++) {
		struct machine code;
		rc = machine_read(&a, dir, &object, l->entry[e].name, cpu->triple, cpu->features, &code);
		if (rc >= 0)
			rc = machine_model(dir, cpu->triple, cpu->model, &code);
		if (rc >= 0)
			add_cycles(&a, l, &nest[e], &code, out);
	}
	if (rc >= 0)
		add_bytes(&c, cpu, out);
	arena_free(&a);
	return rc;
}

double predict_ns(const struct predict_work *w, const struct predict_cpu *cpu,
		  const struct predict_constants *c)
{
	double core = c->core * w->cycles * 1e3 / cpu->mhz, move = 0;
	for (int i = 0; i < 3; i++)
		if (cpu->gbs[i + 1] > 0)
			move += c->move[i] * w->bytes[i] / cpu->gbs[i + 1];
	double more = fmax(core, move), less = fmin(core, move);
	return more > 0 ? more * pow(1 + pow(less / more, c->overlap), 1 / c->overlap) : 0;
}
