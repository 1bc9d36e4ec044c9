/* SPDX-License-Identifier: Apache-2.0 */
/* A whole network that is measured: a plan with the kernels of one source, seeded inputs, samples of its run
 * time. */
#ifndef AGENT_TUNE_NET_H
#define AGENT_TUNE_NET_H

#include "agent/control/leash.h"
#include "agent/cache/revert.h"
#include "agent/run/source.h"

enum { NET_SAMPLES = 512 };

struct net {
	struct arena arena;
	struct plan *plan; /* NULL: not open */
	struct tensor *in, *out;
	int64_t build_ns;
	int nsamples;
	int apart; /* every so many-th sample is kept, so that they are of all moments; 0: 1 */
	int64_t sample_ns[NET_SAMPLES];
	int nkernels;
	int64_t *kernel_ns; /* fastest of the timed runs, also of one that a deadline cut off; 0: none yet */
	int64_t *kept_ns;   /* kernel_ns before the last net_quietly */
};

/* src: not kept. The graph, the steps and the pool must outlive the net, and so must the plan of `beside`
 * (NULL: none), a net of the same graph: constants that it has in the same form are not packed again. Ends
 * with the thread's limit (platform/base/until.h). */
int net_open(struct net *n, struct graph *g, const struct steps *s, const struct target *t,
	     const struct kernel_source *src, struct pool *pool, struct clock *clock,
	     const struct net *beside) MUST_CHECK;
int net_run(struct net *n, struct clock *clock) MUST_CHECK; /* one run, one sample (none if it fails) */
int net_run_kernels(struct net *n,
		    struct clock *clock) MUST_CHECK; /* one run with every kernel timed: no sample */
/* Calls fn while no other job runs; fn runs each open net of net[] at most once. l NULL: no leash. Returns 1;
 * 0: the run was tainted, and its measurements were discarded; < 0: fn's error, or the lease's: E_TIMEOUT,
 * E_STOPPED. */
int net_quietly(struct leash *l, int64_t deadline_ns, struct net *const net[], int n, int (*fn)(void *ctx),
		void *ctx) MUST_CHECK;
/* Whether all data of a run fits into a core's L2 cache. */
bool net_fits(const struct net *n, const struct target *t);
/* If it fits, runs once without a sample, so that after another network's run it is as warm as it would be
 * alone. */
int net_warm(struct net *n, const struct target *t) MUST_CHECK;
/* Finds the kernels that do the same step in both nets, which were opened with the same steps; no round is
 * recorded yet. Returns their number. */
int net_served(const struct net *standard, const struct net *best, const struct steps *s, struct arena *a,
	       struct served **out) MUST_CHECK;
/* Records the times of both networks' last net_run_kernels as a round; only SERVED_ROUNDS rounds are kept. */
void net_served_round(const struct net *standard, const struct net *best, int n, struct served *k);
/* Times of the tasks that run only on fallback kernels, of a net with these steps. Returns their number; a
 * task may come twice. */
struct built_in {
	struct key task;
	int64_t ns;
};
int net_built_in(const struct net *n, const struct steps *s, struct arena *a, struct built_in **out);
int64_t net_median_ns(const struct net *n); /* 0: no samples */
/* Whether the two fastest samples agree. Others can make a run longer by any factor, above all the first. */
bool net_agrees(const struct net *n);
void net_add(struct net *n, int64_t sample_ns);
/* How many runs the kept samples of both are apart. */
int net_apart(const struct net *a, const struct net *b);
/* Copies the samples that are `apart` (of net_apart) to ns[NET_SAMPLES]; those of nets that have run in turn
 * have the same order. Returns their number. */
int net_samples(const struct net *n, int apart, double *ns);
void net_forget(struct net *n);             /* forgets samples and kernel times, before a new series */
void net_close_plan(struct net *n);         /* the measurements stay */
void net_close(struct net *n);

#endif
