/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter's blocks of threads. Between two statements where all threads meet, each thread runs alone,
 * in an order that is drawn anew; a copy lands at the WAIT that ends it. For each shared element the block
 * knows who read and wrote it since the last barrier, and for each element of an output, or of common
 * scratch, who stored it. */
#include "kernels/loops/loops_run.h"
#include "kernels/loops/loops_threads.h"
#include "platform/base/rng.h"

#include <string.h>

enum { NOBODY = -1, SEVERAL = -2 };

struct cell {            /* a shared element */
	int wrote, read; /* the barriers before it was last written and read */
	int writer, reader;
	bool set, flying; /* flying: a copy has not ended */
};

struct owner { /* of an element of an output or of common scratch */
	int64_t index;
	int thread;
};

struct copy {
	struct copy *next;
	int thread, group, buf, n;
	int64_t at;
	uint8_t bytes[16];
};

struct block {
	const struct entry *e;
	struct arena copies;
	struct rng rng;
	int64_t index;
	int running;  /* thread, or above all threads a number for what a warp does together */
	int together; /* the last such number */
	int barriers, commits;
	struct copy *flying;
	struct cell *cell[LOOPS_MAX_BUFS];
	struct owner *owner[LOOPS_MAX_BUFS];
	int *order;
	int64_t **vars;
	union lane (**v)[MAX_LANES]; /* per thread: its vector variables */
	uint8_t **set;
	void *bufs[LOOPS_MAX_BUFS];
};

static int wrong(const struct interp *r, int buf, int64_t at, const char *what)
{
	const struct block *b = r->block;
	if (b->running >= b->e->threads)
		return fail(E_CORRUPT, "loops: entry %s: %s of a warp: %s[%lld]", r->entry, what,
			    r->l->buf[buf].name, (long long)at);
	return fail(E_CORRUPT, "loops: entry %s: %s of thread %d: %s[%lld]", r->entry, what, b->running,
		    r->l->buf[buf].name, (long long)at);
}

static int read_shared(const struct interp *r, int buf, int64_t at)
{
	struct block *b = r->block;
	struct cell *c = &b->cell[buf][at];
	bool again = c->read == b->barriers && c->reader != NOBODY;
	if (c->flying)
		return wrong(r, buf, at, "a read before the copy ends,");
	if (!c->set)
		return wrong(r, buf, at, "a read of the unset,");
	if (c->wrote == b->barriers && c->writer != b->running)
		return wrong(r, buf, at, "a read of what another thread wrote since the last barrier,");
	c->reader = again && c->reader != b->running ? SEVERAL : b->running;
	c->read = b->barriers;
	return E_OK;
}

static int write_shared(const struct interp *r, int buf, int64_t at)
{
	struct block *b = r->block;
	struct cell *c = &b->cell[buf][at];
	if (c->flying)
		return wrong(r, buf, at, "a write before the copy ends,");
	if (c->set && c->wrote == b->barriers && c->writer != b->running)
		return wrong(r, buf, at, "a write of what another thread wrote since the last barrier,");
	if (c->reader != NOBODY && c->read == b->barriers && c->reader != b->running)
		return wrong(r, buf, at, "a write of what another thread read since the last barrier,");
	c->set = true;
	c->writer = b->running;
	c->wrote = b->barriers;
	return E_OK;
}

static int touch_output(const struct interp *r, int buf, int64_t at, bool writes)
{
	struct owner *o = &r->block->owner[buf][at];
	bool mine = o->index == r->block->index && o->thread == r->block->running;
	if (o->thread != NOBODY && !mine)
		return wrong(r, buf, at, "an access to what another thread stored,");
	if (writes)
		*o = (struct owner){r->block->index, r->block->running};
	return E_OK;
}

static int touch(const struct interp *r, int buf, int64_t at, bool writes)
{
	if (r->block->owner[buf])
		return touch_output(r, buf, at, writes);
	return writes ? write_shared(r, buf, at) : read_shared(r, buf, at);
}

int loops_touch(struct interp *r, const struct mem *m, int n, int64_t at, bool writes)
{
	int rc = E_OK;
	if (!r->block || (!r->block->owner[m->buf] && !r->block->cell[m->buf]))
		return E_OK;
	for (int i = 0; i < n * mem_group(m) && rc >= 0; i++)
		rc = touch(r, m->buf, at + i / mem_group(m) * m->stride + i % mem_group(m), writes);
	return rc;
}

/* The threads of a warp are unordered, and which of them touches an element is unknown, so each warp
 * statement counts as its own thread. */
void loops_warp_begins(struct interp *r)
{
	r->block->together++;
}

int loops_touch_together(struct interp *r, int buf, int64_t at, bool writes)
{
	struct block *b = r->block;
	int thread = b->running;
	b->running = b->together;
	int rc = writes ? write_shared(r, buf, at) : read_shared(r, buf, at);
	b->running = thread;
	return rc;
}

int loops_start_copy(struct interp *r, const struct stmt *s)
{
	struct block *b = r->block;
	size_t bytes = dtype_bytes(r->l->buf[s->to].dtype);
	int64_t at = 0, to = loops_value(r, s->to_at),
		n = s->mem.valid ? loops_value(r, s->mem.valid) : s->s32;
	n = n < 0 ? 0 : n > s->s32 ? s->s32 : n;
	if (loops_check_tables(r) < 0 || (n && loops_locate(r, &s->mem, (int)n, &at) < 0))
		return E_CORRUPT;
	if (at % s->s32)
		return wrong(r, s->mem.buf, at, "a copy from between two places,");
	if (to % s->s32)
		return wrong(r, s->to, to, "a copy to between two places,");
	struct copy *c = ARENA_NEW(&b->copies, struct copy);
	*c = (struct copy){b->flying, b->running, b->commits, s->to, s->s32, to, {0}};
	memcpy(c->bytes, (const char *)r->env.bufs[s->mem.buf] + at * (int64_t)bytes, (size_t)n * bytes);
	for (int i = 0; i < c->n; i++) {
		int rc = write_shared(r, c->buf, to + i);
		if (rc < 0)
			return rc;
	}
	for (int i = 0; i < c->n; i++)
		b->cell[c->buf][to + i].flying = true;
	b->flying = c;
	return E_OK;
}

static void land(const struct interp *r, const struct copy *c)
{
	struct block *b = r->block;
	size_t bytes = dtype_bytes(r->l->buf[c->buf].dtype);
	memcpy((char *)b->bufs[c->buf] + (size_t)c->at * bytes, c->bytes, (size_t)c->n * bytes);
	for (int i = 0; i < c->n; i++) {
		struct cell *cell = &b->cell[c->buf][c->at + i];
		cell->flying = false;
		cell->writer = c->thread;
		cell->wrote = b->barriers;
	}
}

static void wait_for(const struct interp *r, int groups)
{
	struct block *b = r->block;
	struct copy **at = &b->flying;
	while (*at) {
		struct copy *c = *at;
		if (c->group < b->commits - groups) {
			land(r, c);
			*at = c->next;
		} else {
			at = &c->next;
		}
	}
}

void loops_become(struct interp *r, int thread)
{
	struct block *b = r->block;
	b->running = thread;
	r->vars = b->vars[thread];
	r->env.vars = r->vars;
	r->v = b->v[thread];
	r->set = b->set[thread];
}

/* Runs the statements from s to before end, one thread after the other. */
static int run_apart(struct interp *r, const struct stmt *s, const struct stmt *end)
{
	struct block *b = r->block;
	int rc = E_OK, n = b->e->threads;
	for (int i = n - 1; i > 0; i--) {
		int j = (int)rng_below(&b->rng, (uint64_t)i + 1), t = b->order[i];
		b->order[i] = b->order[j];
		b->order[j] = t;
	}
	for (int i = 0; i < n && rc >= 0; i++) {
		loops_become(r, b->order[i]);
		rc = loops_run_span(r, s, end);
	}
	return rc;
}

static int shuffle(struct interp *r, const struct stmt *s)
{
	struct block *b = r->block;
	int n = b->e->threads, mask = (int)s->imm;
	union lane(*was)[MAX_LANES] = arena_alloc(&b->copies, sizeof *was * (size_t)n);
	for (int t = 0; t < n; t++) {
		loops_become(r, t);
		if (!r->set[s->a])
			return fail(E_CORRUPT, "loops: entry %s: thread %d shuffles the unset v%d", r->entry,
				    t, s->a);
		memcpy(was[t], r->v[s->a], sizeof *was);
	}
	for (int t = 0; t < n; t++) {
		loops_become(r, t);
		memcpy(r->v[s->dst], was[t ^ mask], sizeof *was);
		r->set[s->dst] = 1;
	}
	return E_OK;
}

/* Recursion is bounded by LOOPS_MAX_DEPTH. */
static bool has_meeting(const struct stmt *s)
{
	if (loops_meets(s))
		return true;
	for (const struct stmt *t = s->body; t; t = t->next)
		if (has_meeting(t))
			return true;
	for (const struct stmt *t = s->other; t; t = t->next)
		if (has_meeting(t))
			return true;
	return false;
}

static int run_together(struct interp *r, const struct stmt *s);

static int loop_together(struct interp *r, const struct stmt *s)
{
	int64_t lo, hi;
	loops_become(r, 0);
	int rc = loops_bounds(r, s, &lo, &hi);
	for (int64_t i = lo; rc >= 0 && i < hi;) {
		for (int t = 0; t < r->block->e->threads; t++)
			r->block->vars[t][s->var] = i;
		rc = run_together(r, s->body);
		if (__builtin_add_overflow(i, s->step, &i))
			break;
	}
	return rc;
}

static int meet(struct interp *r, const struct stmt *s)
{
	int rc = E_OK;
	if (s->op == ST_SET && s->vop == V_SHUF)
		return shuffle(r, s);
	if (s->op == ST_SET || s->op == ST_FRAG_STORE) {
		for (int first = 0; first < r->block->e->threads && rc >= 0; first += WARP)
			rc = loops_run_warp(r, s, first);
		return rc;
	}
	if (s->op == ST_BARRIER)
		r->block->barriers++;
	else if (s->op == ST_COMMIT)
		r->block->commits++;
	else
		wait_for(r, s->s32);
	return E_OK;
}

/* Runs a list of statements, at some of which the threads meet. Recursion is bounded by LOOPS_MAX_DEPTH. */
static int run_together(struct interp *r, const struct stmt *s)
{
	int rc = E_OK;
	while (s && rc >= 0) {
		const struct stmt *end = s;
		while (end && !has_meeting(end))
			end = end->next;
		if (end != s) {
			rc = run_apart(r, s, end);
			s = end;
			continue;
		}
		loops_become(r, 0);
		if (s->op == ST_FOR)
			rc = loop_together(r, s);
		else if (s->op == ST_IF)
			rc = run_together(r, loops_value(r, s->lo) ? s->body : s->other);
		else
			rc = meet(r, s);
		if (rc >= 0)
			rc = loops_check_tables(r);
		s = s->next;
	}
	return rc;
}

static void begin_block(const struct interp *r, int64_t index)
{
	struct block *b = r->block;
	b->index = index;
	b->barriers = b->commits = 0;
	b->together = b->e->threads;
	b->flying = NULL;
	arena_reset(&b->copies);
	for (int i = 0; i < r->l->nbufs; i++)
		for (int64_t j = 0; b->cell[i] && j < r->elems[i]; j++)
			b->cell[i][j] = (struct cell){.writer = NOBODY, .reader = NOBODY};
	for (int t = 0; t < b->e->threads; t++) {
		memset(b->set[t], 0, (size_t)r->l->nvars);
		b->vars[t][b->e->var] = index;
		b->vars[t][b->e->thread] = t;
	}
}

static void make_buffers(struct interp *r, struct arena *a)
{
	struct block *b = r->block;
	for (int i = 0; i < r->l->nbufs; i++) {
		enum buf_role role = r->l->buf[i].role;
		bool owned = role == BUF_OUT || r->l->buf[i].common;
		size_t n = (size_t)r->elems[i];
		b->bufs[i] =
		    role == BUF_SHARED ? arena_alloc(a, n * dtype_bytes(r->l->buf[i].dtype)) : r->env.bufs[i];
		if (role == BUF_SHARED)
			b->cell[i] = ARENA_ARRAY(a, struct cell, n + 1);
		if (owned)
			b->owner[i] = ARENA_ARRAY(a, struct owner, n + 1);
		for (size_t j = 0; owned && j < n; j++)
			b->owner[i][j].thread = NOBODY;
	}
	r->env.bufs = b->bufs;
}

static void make_threads(const struct interp *r, struct arena *a)
{
	struct block *b = r->block;
	int n = b->e->threads;
	b->order = ARENA_ARRAY(a, int, n);
	b->vars = ARENA_ARRAY(a, int64_t *, n);
	b->set = ARENA_ARRAY(a, uint8_t *, n);
	b->v = arena_alloc(a, sizeof *b->v * (size_t)n);
	for (int t = 0; t < n; t++) {
		b->order[t] = t;
		b->vars[t] = ARENA_ARRAY(a, int64_t, r->l->nloopvars + 1);
		b->set[t] = ARENA_ARRAY(a, uint8_t, r->l->nvars + 1);
		b->v[t] = arena_alloc(a, sizeof(union lane[MAX_LANES]) * (size_t)(r->l->nvars + 1));
	}
}

int loops_run_blocks(struct interp *r, const struct entry *e, int64_t begin, int64_t end, uint64_t seed)
{
	struct arena a = {0};
	struct block b = {.e = e};
	void *const *bufs = r->env.bufs;
	int rc = E_OK;
	r->block = &b;
	rng_seed(&b.rng, seed);
	make_buffers(r, &a);
	make_threads(r, &a);
	for (int64_t i = begin; i < end && rc >= 0; i++) {
		begin_block(r, i);
		rc = run_together(r, e->body);
		if (rc >= 0 && b.flying)
			rc = fail(E_CORRUPT, "loops: entry %s: it ends before its copies do", e->name);
	}
	r->block = NULL;
	r->env.bufs = bufs;
	arena_free(&b.copies);
	arena_free(&a);
	return rc;
}
