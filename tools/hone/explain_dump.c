/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/explain_dump.h"

#include "agent/cache/kept_code.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"
#include "platform/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct stages {
	const struct dump *d;
	struct arena a;
	struct space *space;
	struct buf *out;
};

static int dump_task(struct stages *s)
{
	buf_puts(s->out, "== task\n");
	task_text(s->d->task, s->out);
	return E_OK;
}

static void dump_cand(struct stages *s, const char *by, const char *cand)
{
	buf_printf(s->out, "%-8s %10.3g us  %s\n", by, space_draft(s->space, cand) / 1e3, cand);
}

/* Candidates that were printed. */
struct printed {
	const char *cand;
	struct printed *next;
};

/* Prints a candidate, unless it was printed: several rules may propose the same. */
static void dump_once(struct stages *s, struct printed **list, const char *by, const char *cand)
{
	for (const struct printed *p = *list; p; p = p->next)
		if (!strcmp(p->cand, cand))
			return;
	struct printed *p = ARENA_ARRAY(&s->a, struct printed, 1);
	*p = (struct printed){arena_printf(&s->a, "%s", cand), *list};
	*list = p;
	dump_cand(s, by, cand);
}

/* The schedule that the rule gives now may differ from the default that tuning timed, as the rule counts with
 * the machine's measured speeds. */
static int dump_space(struct stages *s)
{
	char cand[CAND_MAX];
	struct printed *list = NULL;
	buf_printf(s->out, "== space: roofline %.3g us\n", space_roofline(s->space) / 1e3);
	if (s->d->def && space_legal(s->space, s->d->def) >= 0)
		dump_once(s, &list, "default", s->d->def);
	space_default(s->space, cand);
	dump_once(s, &list, list ? "rule" : "default", cand);
	for (int at = 0; space_portfolio(s->space, &at, cand) >= 0;)
		dump_once(s, &list, "rule", cand);
	return E_OK;
}

static int dump_loops(struct stages *s)
{
	struct loops *l;
	struct manifest m;
	char cand[CAND_MAX];
	space_default(s->space, cand);
	if (s->d->cand)
		snprintf(cand, sizeof cand, "%s", s->d->cand);
	int rc = lower(s->d->task, cand, s->d->target, &s->a, &l, &m);
	if (rc >= 0)
		rc = loops_check(l);
	if (rc < 0)
		return fail_in(rc, "the schedule %s", cand);
	buf_printf(s->out, "== loops of %s\n", cand);
	loops_print(l, s->out);
	return E_OK;
}

/* The text of an object of a device; a compiled program may follow it behind a NUL. */
static int dump_source(struct stages *s, const struct code *code)
{
	size_t n = code->object.n ? strnlen(code->object.p, code->object.n) : 0;
	char *text = arena_strndup(&s->a, n ? code->object.p : "", n);
	log_plain(text);
	buf_printf(s->out, "%s%s", text, n && text[strlen(text) - 1] != '\n' ? "\n" : "");
	return E_OK;
}

static int dump_code(struct stages *s)
{
	struct blob bytes;
	struct code code;
	bool there = s->d->best && s->d->cache &&
		     kept_code_get(s->d->cache, s->d->best, &s->a, &bytes) >= 0 &&
		     code_parse(bytes.p, bytes.n, &s->a, &code) >= 0;
	if (!there) {
		buf_puts(s->out, "== code: none in the cache; hone tune builds it\n");
		return E_OK;
	}
	const struct manifest *m = &code.m;
	bool items = target_runs_items(s->d->target);
	buf_printf(s->out, "== code: %s %s for %s, %d lanes, %zu bytes, %" PRId64 " bytes of scratch%s\n",
		   m->emitter, m->version, m->isa, m->lanes, code.object.n, m->scratch_bytes,
		   items ? " for each work item" : "");
	for (int i = 0; i < m->nentries; i++)
		buf_printf(s->out, "entry %s: %s%s\n", m->entry[i], m->extent_expr[i],
			   items ? " work items" : "");
	for (int i = 0; i < m->nbufs; i++)
		buf_printf(s->out, "buffer %s: %" PRId64 " elements%s\n", m->buf[i].name, m->buf[i].elems,
			   m->buf[i].packed ? ", packed" : "");
	return items ? dump_source(s, &code) : E_OK;
}

static int dump_measurements(struct stages *s)
{
	const struct rec *r = s->d->best;
	const struct trials *l = s->d->log;
	buf_puts(s->out, "== measurements\n");
	if (r)
		buf_printf(s->out, "best %" PRId64 " ns (fastest %" PRId64 ", %d run%s)  %s\n",
			   r->meas.median_ns, r->meas.min_ns, r->meas.runs, plural_s(r->meas.runs), r->cand);
	for (int i = 0; l && i < l->n; i++) {
		const struct tried *t = &l->entry[i].t;
		buf_printf(s->out, "%-9s %-10s %10" PRId64 " ns%s  %s\n", tried_by_name(t->by),
			   meas_status_name(t->status), t->ns, t->lost ? ", lost a race" : "", t->cand);
	}
	if (!r && !(l && l->n))
		buf_puts(s->out, "none in the cache; hone tune takes them\n");
	return E_OK;
}

int explain_dump(const struct dump *d, const char *letters, struct buf *out)
{
	static int (*const stage[])(struct stages *) = {dump_task, dump_space, dump_loops, dump_code,
							dump_measurements};
	struct stages s = {.d = d, .out = out};
	const struct space_want want = {.level = d->level, .threads = d->threads};
	if (!*letters || letters[strspn(letters, DUMP_LETTERS)])
		return fail(E_USAGE,
			    "-d takes letters of " DUMP_LETTERS ": task, space, loops, code, measurements");
	int rc = space_make(&s.a, d->task, d->target, &want, &s.space);
	for (int i = 0; DUMP_LETTERS[i] && rc >= 0; i++)
		if (strchr(letters, DUMP_LETTERS[i]))
			rc = stage[i](&s);
	arena_free(&s.a);
	return rc >= 0 && !buf_ok(out) ? fail(E_NOMEM, "no memory to print a task") : rc;
}
