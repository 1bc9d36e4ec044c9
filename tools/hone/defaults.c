/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/lookup.h"
#include "agent/run/source.h"
#include "agent/worker/wire.h"
#include "kernels/space/space.h"
#include "platform/base/log.h"
#include "tools/hone/ready.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct defaults {
	const struct target *target;
	const char *device; /* NULL: the processor */
	int threads;
	enum level level;
	struct cache *cache;       /* NULL: none */
	enum rec_kind kind;        /* kind of record that is looked up */
	struct kernel_source kept; /* kernels of the cache */
	struct runner *worker;     /* started for the first task that is not in the cache */
	bool no_worker;
	bool compiles; /* it opens no device: this process has the only context, in which the plan checks */
	char why[512]; /* of the first kernel that could not be made */
};

/* Builds a candidate. E_INFEASIBLE, without a text: the candidate fails; *m says how. */
static int build(struct defaults *d, const char *text, const char *cand, struct arena *a, struct blob *out,
		 struct meas *m)
{
	struct runner *w = d->worker;
	int handle = -1;
	if (d->compiles) {
		struct buf code = {0};
		struct key object;
		int rc = runner_worker_emit(w, text, cand, INT64_MAX, &object, &code, m);
		if (rc >= 0)
			*out = (struct blob){.p = arena_memdup(a, buf_str(&code), code.n), .n = code.n};
		buf_free(&code);
		return rc < 0 ? rc : out->n ? E_OK : E_INFEASIBLE;
	}
	int rc = w->ops->build(w, text, cand, INT64_MAX, &handle, m);
	if (rc < 0 || handle < 0)
		return rc < 0 ? rc : E_INFEASIBLE;
	rc = w->ops->code(w, handle, INT64_MAX, a, out);
	w->ops->drop(w, handle, INT64_MAX);
	return rc;
}

/* A schedule that spills registers is skipped for the next rule; a fallback kernel would be the slowest. */
static int build_default(struct defaults *d, const struct task *t, const char *text, struct arena *a,
			 struct blob *out, struct meas *m)
{
	char cand[CAND_MAX];
	struct arena scratch = {0};
	struct space *s;
	const struct space_want want = {.level = level_f32(d->level), .threads = d->threads};
	int rc = space_make(&scratch, t, d->target, &want, &s);
	if (rc >= 0) {
		space_default(s, cand);
		rc = build(d, text, cand, a, out, m);
		for (int rule = 0; rc == E_INFEASIBLE && space_portfolio(s, &rule, cand) >= 0;)
			rc = build(d, text, cand, a, out, m);
		if (rc == E_INFEASIBLE)
			rc = fail(E_INFEASIBLE, "the default schedule: %s", meas_status_name(m->status));
	}
	arena_free(&scratch);
	return rc;
}

/* Compiles the schedule of a record that has no code: the code was removed, or the record was imported, and
 * import takes no code. */
static int build_known(struct defaults *d, const char *text, struct arena *a, struct blob *out,
		       struct meas *m, bool *at_default)
{
	struct rec r;
	struct arena scratch = {0};
	const struct lookup want = {target_key(d->target), d->target, d->threads, d->level,
				    REC_OWN}; /* this worker opens no libraries */
	int rc = d->cache && d->kind == REC_BEST
		     ? lookup_find(d->cache, &want, hash_text(text), NULL, &scratch, &r, NULL)
		     : E_NOTFOUND;
	*at_default = rc >= 0 && lookup_at_default(d->cache, &want, &r);
	if (rc >= 0)
		rc = build(d, text, r.cand, a, out, m);
	arena_free(&scratch);
	return rc >= 0 ? (int)r.kind : E_NOTFOUND;
}

static int make(struct defaults *d, const struct task *t, const char *text, struct arena *a, struct code *out,
		enum kernel_origin *origin)
{
	struct meas m = {0};
	struct blob bytes = {0};
	bool at_default;
	int rc = build_known(d, text, a, &bytes, &m, &at_default);
	*origin = rc > (int)REC_DEFAULT ? FROM_CACHE : FROM_DEFAULT;
	if (rc < 0)
		rc = build_default(d, t, text, a, &bytes, &m);
	if (rc >= 0)
		rc = code_parse(bytes.p, bytes.n, a, out);
	out->at_default = rc >= 0 && at_default;
	return rc;
}

static int find(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		enum kernel_origin *origin)
{
	struct defaults *d = ctx;
	if (d->kept.find && d->kept.find(d->kept.ctx, t, text, a, out, origin) >= 0)
		return 0;
	if (!d->worker && !d->no_worker) {
		char device[DEV_NAME_MAX];
		worker_compiles_for(d->device ? d->device : "cpu", device);
		d->compiles = d->device && strcmp(device, d->device) != 0;
		d->no_worker = runner_worker(NULL, device, d->target, d->threads, &d->worker) < 0;
		if (d->no_worker)
			log_info("hone: warning: cannot build default kernels: %s", err_text());
	}
	int rc = d->no_worker ? E_NOTFOUND : make(d, t, text, a, out, origin);
	if (rc < 0 && !d->no_worker)
		log_more("%s", err_text());
	if (rc < 0 && !*d->why)
		snprintf(d->why, sizeof d->why, "%s", err_text());
	return rc < 0 ? E_NOTFOUND : 0;
}

int defaults_open(struct cache *c, struct host *h, bool best, struct kernel_source *out)
{
	struct defaults *d = calloc(1, sizeof *d);
	if (!d)
		return fail(E_NOMEM, "no memory for a source of kernels");
	d->target = &h->target;
	d->device = h->name;
	d->threads = h->threads;
	d->level = h->level;
	d->cache = c;
	d->kind = best ? REC_BEST : REC_DEFAULT;
	int rc = c ? cache_source(c, &h->target, h->threads, h->level, d->kind, &d->kept) : 0;
	if (rc < 0) {
		free(d);
		return rc;
	}
	*out = (struct kernel_source){.ctx = d, .find = find};
	return 0;
}

const char *defaults_why(const struct kernel_source *s)
{
	const struct defaults *d = s->ctx;
	return d->why;
}

void defaults_close(struct kernel_source *s)
{
	struct defaults *d = s->ctx;
	if (d->worker)
		d->worker->ops->close(d->worker);
	cache_source_free(&d->kept);
	free(d);
	s->ctx = NULL;
}
