/* SPDX-License-Identifier: Apache-2.0 */
/* After a box for a device: does the processor run the whole network faster with its own kernels? It runs
 * those of the cache, else the built-in ones, in turns with the device. */
#include "agent/tune/tune_parts.h"

#include "agent/run/plan_device.h"
#include "platform/base/log.h"
#include "platform/base/stats.h"

#include <stdio.h>

enum { MOST_ROUNDS = 24 };

/* Both networks, and the times of their rounds. */
struct contest {
	struct session *s;
	struct net *there; /* with the device */
	struct net here;   /* without */
	int n;
	double there_ns[MOST_ROUNDS], here_ns[MOST_ROUNDS];
};

static int timed(struct session *s, struct net *n, double *ns)
{
	int64_t start_ns = clock_now(s->clock);
	int rc = plan_run(n->plan, n->in, n->out);
	*ns = (double)(clock_now(s->clock) - start_ns);
	return rc;
}

static int run_both(void *ctx)
{
	struct contest *c = ctx;
	int rc = timed(c->s, c->there, &c->there_ns[c->n]);
	return rc < 0 ? rc : timed(c->s, &c->here, &c->here_ns[c->n]);
}

int tune_processor_open(struct session *s, const struct target *host, struct steps **steps, struct net *out)
{
	struct chosen_for f = {s->store.cache, host, pool_threads(s->pool), s->o->level};
	struct kernel_source src;
	struct choices choices;
	int rc = chosen_load(&f, s->model.graph, s->a, &choices);
	if (rc >= 0)
		rc = chosen_divide(host, &f, 1, s->model.graph, s->a, &choices, steps);
	if (rc >= 0)
		rc = cache_source(s->store.cache, host, f.threads, f.level, REC_BEST, &src);
	if (rc < 0)
		return rc;
	rc = net_open(out, s->model.graph, *steps, host, &src, s->pool, s->clock, NULL);
	cache_source_free(&src);
	return rc;
}

static void count_kernels(const struct net *n, struct tune_processor *p)
{
	const struct plan_kernel *k;
	plan_kernels(n->plan, &k);
	p->kernels = n->nkernels;
	for (int i = 0; i < n->nkernels; i++)
		p->tuned += k[i].origin == FROM_CACHE || k[i].origin == FROM_DEFAULT;
}

/* The first round warms up. */
static int run_contest(struct contest *c, int64_t end_ns)
{
	struct session *s = c->s;
	struct net *const both[] = {c->there, &c->here};
	int rc = run_both(c);
	int64_t round_ns = (int64_t)(c->there_ns[0] + c->here_ns[0]);
	while (rc >= 0 && c->n < MOST_ROUNDS && clock_now(s->clock) + round_ns < end_ns && !tune_stopped(s)) {
		rc = net_quietly(s->store.leash, end_ns, both, 2, run_both, c);
		c->n += rc > 0;
	}
	return rc == E_TIMEOUT || rc == E_STOPPED ? E_OK : rc;
}

/* Takes the time that an earlier box measured of the processor's kernels. */
static void recall(struct session *s, const struct target *host, struct tune_processor *p)
{
	struct gain g;
	struct key k = history_key(s->model.graph, host, p->threads, s->o->level);
	if (!gain_get(s->store.cache, k, &g))
		return;
	p->ms = g.now_ms;
	p->tuned = p->kernels = g.kernels;
	snprintf(p->date, sizeof p->date, "%s", g.date);
}

static int compare_both(struct contest *c, const struct target *host, struct tune_processor *p)
{
	int64_t end_ns = clock_now(c->s->clock) + c->s->times.processor_ns;
	end_ns = end_ns < c->s->until.end_ns ? end_ns : c->s->until.end_ns;
	struct steps *steps;
	int rc = tune_processor_open(c->s, host, &steps, &c->here);
	if (rc < 0)
		return rc;
	plan_deadline(c->here.plan, c->s->clock, end_ns);
	rc = run_contest(c, end_ns);
	if (rc >= 0 && c->n > 0) {
		count_kernels(&c->here, p);
		p->faster = faster_by_rounds(c->here_ns, c->there_ns, c->n);
		p->ms = stats_median(c->here_ns, c->n) / 1e6;
		p->device_ms = stats_median(c->there_ns, c->n) / 1e6;
	}
	net_close(&c->here);
	return rc;
}

void tune_processor_compare(struct session *s, struct net *after)
{
	struct tune_processor *p = &s->report->processor;
	struct contest c = {.s = s, .there = after};
	struct target host;
	bool there = s->device && after->plan && plan_device_use(after->plan).steps > 0;
	if (!there || leash_is_child() || tune_stopped(s)) /* a job of honed has one thread */
		return;
	p->threads = pool_threads(s->pool);
	int rc = target_host(&host);
	if (rc >= 0)
		rc = compare_both(&c, &host, p);
	if (rc < 0)
		log_more("the processor's own kernels were not timed: %s", err_text());
	if (!p->faster.rounds && target_host(&host) >= 0)
		recall(s, &host, p);
}
