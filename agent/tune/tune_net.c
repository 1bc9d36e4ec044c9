/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tune/tune_net.h"

#include "platform/base/log.h"
#include "platform/base/rng.h"
#include "platform/base/until.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define AGREE 1.25 /* runs of a quiet machine differ by less */

/* Fills floats with values that suit a network; integers and bools with 0 and 1, which are valid indices of
 * any table. */
static void fill_input(struct tensor *t, struct rng *r)
{
	int64_t n = shape_count(&t->shape);
	for (int64_t i = 0, next = 0; i < n && !until_over_at(i, &next);) {
		int64_t end = n - i < UNTIL_PIECE ? n : i + UNTIL_PIECE;
		if (t->dtype == DT_F32)
			rng_fill(r, (float *)t->data + i, (size_t)(end - i));
		for (; t->dtype != DT_F32 && i < end; i++)
			tensor_set(t, i, (double)rng_below(r, 2));
		i = end;
	}
}

static int make_tensors(struct net *n, const struct graph *g)
{
	struct rng r;
	int rc = E_OK;
	rng_seed(&r, 1);
	n->in = ARENA_ARRAY(&n->arena, struct tensor, g->ninputs + 1);
	n->out = ARENA_ARRAY(&n->arena, struct tensor, g->noutputs + 1);
	for (int i = 0; i < g->ninputs && rc >= 0; i++) {
		const struct tensor *t = &g->value[g->input[i]].t;
		rc = tensor_alloc(&n->arena, t->dtype, &t->shape, &n->in[i]);
		if (rc >= 0)
			fill_input(&n->in[i], &r);
	}
	for (int i = 0; i < g->noutputs && rc >= 0; i++) {
		const struct tensor *t = &g->value[g->output[i]].t;
		rc = tensor_alloc(&n->arena, t->dtype, &t->shape, &n->out[i]);
	}
	return rc;
}

int net_open(struct net *n, struct graph *g, const struct steps *s, const struct target *t,
	     const struct kernel_source *src, struct pool *pool, struct clock *clock,
	     const struct net *beside)
{
	const struct plan_kernel *k;
	*n = (struct net){0};
	int64_t start_ns = clock_now(clock);
	int rc = make_tensors(n, g);
	if (rc >= 0)
		rc = until_check();
	if (rc >= 0)
		rc = plan_build_beside(g, s, t, src, pool, beside ? beside->plan : NULL, &n->plan);
	if (rc < 0) {
		net_close(n);
		return rc;
	}
	n->nkernels = plan_kernels(n->plan, &k);
	n->kernel_ns = ARENA_ARRAY(&n->arena, int64_t, n->nkernels + 1);
	n->kept_ns = ARENA_ARRAY(&n->arena, int64_t, n->nkernels + 1);
	n->build_ns = clock_now(clock) - start_ns;
	return E_OK;
}

static int apart_of(const struct net *n)
{
	return n->apart > 1 ? n->apart : 1;
}

static int kept_samples(const struct net *n)
{
	return (n->nsamples + apart_of(n) - 1) / apart_of(n);
}

void net_add(struct net *n, int64_t sample_ns)
{
	int at = n->nsamples / apart_of(n);
	if (n->nsamples++ % apart_of(n))
		return;
	if (at == NET_SAMPLES) {
		for (int i = 0; i < NET_SAMPLES / 2; i++)
			n->sample_ns[i] = n->sample_ns[2 * i];
		n->apart = 2 * apart_of(n);
		at /= 2;
	}
	n->sample_ns[at] = sample_ns;
}

int net_apart(const struct net *a, const struct net *b)
{
	return apart_of(a) > apart_of(b) ? apart_of(a) : apart_of(b);
}

int net_run(struct net *n, struct clock *clock)
{
	int64_t start_ns = clock_now(clock);
	int rc = plan_run(n->plan, n->in, n->out);
	if (rc >= 0)
		net_add(n, clock_now(clock) - start_ns);
	return rc;
}

static void keep(struct net *n, int *nsamples)
{
	*nsamples = n->nsamples;
	memcpy(n->kept_ns, n->kernel_ns, sizeof *n->kept_ns * (size_t)n->nkernels);
}

static void take_back(struct net *n, int nsamples)
{
	n->nsamples = nsamples;
	memcpy(n->kernel_ns, n->kept_ns, sizeof *n->kept_ns * (size_t)n->nkernels);
}

int net_quietly(struct leash *l, int64_t deadline_ns, struct net *const net[], int n, int (*fn)(void *ctx),
		void *ctx)
{
	const char *taint = NULL;
	int nsamples[4], rc = l ? leash_lease(l, LEASE_QUIET, deadline_ns) : E_OK;
	assert(n <= 4);
	if (rc < 0)
		return rc;
	for (int i = 0; i < n; i++)
		if (net[i]->plan)
			keep(net[i], &nsamples[i]);
	int did = fn(ctx);
	rc = l ? leash_release(l, &taint) : E_OK;
	for (int i = 0; i < n && taint; i++)
		if (net[i]->plan)
			take_back(net[i], nsamples[i]);
	if (taint)
		log_more("a run of the network is discarded: %s", taint);
	return did < 0 ? did : rc < 0 ? rc : !taint;
}

bool net_fits(const struct net *n, const struct target *t)
{
	struct plan_memory m = plan_memory(n->plan);
	return m.weights_bytes + m.values_bytes <= (size_t)t->l2_bytes;
}

int net_warm(struct net *n, const struct target *t)
{
	return net_fits(n, t) ? plan_run(n->plan, n->in, n->out) : E_OK;
}

int net_run_kernels(struct net *n, struct clock *clock)
{
	const struct plan_kernel *k;
	int rc = plan_run_timed(n->plan, n->in, n->out, clock);
	if (rc < 0 && rc != E_TIMEOUT)
		return rc;
	plan_kernels(n->plan, &k);
	for (int i = 0; i < n->nkernels; i++)
		if (n->kernel_ns[i] == 0 || (k[i].ns > 0 && k[i].ns < n->kernel_ns[i]))
			n->kernel_ns[i] = k[i].ns;
	return rc;
}

int net_served(const struct net *standard, const struct net *best, const struct steps *s, struct arena *a,
	       struct served **out)
{
	const struct plan_kernel *k, *d;
	int n = 0, nb = plan_kernels(best->plan, &k), nd = plan_kernels(standard->plan, &d);
	*out = arena_try(a, (size_t)nb + 1, sizeof **out);
	if (!*out)
		return fail(E_NOMEM, "no memory for the times of %d kernels", nb);
	for (int i = 0, j = 0; i < nb; i++) { /* both in the order of steps */
		while (j < nd && d[j].step < k[i].step)
			j++;
		if (j == nd || d[j].step != k[i].step || s->step[k[i].step].kind != STEP_TASK)
			continue;
		(*out)[n++] =
		    (struct served){.task = task_key(s->step[k[i].step].task), .default_at = j, .best_at = i};
	}
	return n;
}

void net_served_round(const struct net *standard, const struct net *best, int n, struct served *k)
{
	const struct plan_kernel *b, *d;
	plan_kernels(best->plan, &b);
	plan_kernels(standard->plan, &d);
	for (int i = 0; i < n && k[i].rounds < SERVED_ROUNDS; i++) {
		int r = k[i].rounds++;
		k[i].default_ns[r] = d[k[i].default_at].ns;
		k[i].best_ns[r] = b[k[i].best_at].ns;
	}
}

int net_built_in(const struct net *n, const struct steps *s, struct arena *a, struct built_in **out)
{
	const struct plan_kernel *k;
	int nk = plan_kernels(n->plan, &k), count = 0;
	int64_t *ns = ARENA_ARRAY(a, int64_t, s->nsteps + 1);
	*out = ARENA_ARRAY(a, struct built_in, s->nsteps + 1);
	for (int i = 0; i < nk; i++) {
		const struct step *st = &s->step[k[i].step];
		int64_t *sum = &ns[st->fused_by < 0 ? k[i].step : st->fused_by];
		bool built_in = k[i].origin == FROM_FALLBACK || k[i].origin == FROM_HOST;
		*sum = built_in && *sum >= 0 && n->kernel_ns[i] > 0 ? *sum + n->kernel_ns[i] : -1;
	}
	for (int i = 0; i < s->nsteps; i++)
		if (ns[i] > 0 && s->step[i].kind == STEP_TASK)
			(*out)[count++] = (struct built_in){task_key(s->step[i].task), ns[i]};
	return count;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

static int sort_samples(const struct net *n, int64_t sorted[NET_SAMPLES])
{
	int count = kept_samples(n);
	memcpy(sorted, n->sample_ns, sizeof *sorted * (size_t)count);
	qsort(sorted, (size_t)count, sizeof *sorted, by_value);
	return count;
}

bool net_agrees(const struct net *n)
{
	int64_t sorted[NET_SAMPLES];
	int count = sort_samples(n, sorted);
	return count > 1 && (double)sorted[1] <= AGREE * (double)sorted[0];
}

int64_t net_median_ns(const struct net *n)
{
	int64_t sorted[NET_SAMPLES];
	int count = sort_samples(n, sorted);
	if (!count)
		return 0;
	return sorted[(count - 1) / 2]; /* of two, the smaller: others can only make a run longer */
}

int net_samples(const struct net *n, int apart, double *ns)
{
	int count = 0;
	for (int i = 0; i < kept_samples(n); i += apart / apart_of(n))
		ns[count++] = (double)n->sample_ns[i];
	return count;
}

void net_forget(struct net *n)
{
	n->nsamples = n->apart = 0;
	memset(n->kernel_ns, 0, sizeof *n->kernel_ns * (size_t)n->nkernels);
}

void net_close_plan(struct net *n)
{
	if (n->plan)
		plan_free(n->plan);
	n->plan = NULL;
}

void net_close(struct net *n)
{
	net_close_plan(n);
	arena_free(&n->arena);
}
