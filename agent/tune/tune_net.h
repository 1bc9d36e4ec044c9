/* SPDX-License-Identifier: Apache-2.0 */
/* A whole network, measured: a plan with the kernels of one source, seeded inputs, samples of its run time.
 */
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
	int64_t sample_ns[NET_SAMPLES]; /* the newest of them */
	int nkernels;
	int64_t *kernel_ns;     /* fastest of the timed runs; 0: none yet */
	int64_t *kept_ns;       /* as they were before the last net_quietly, */
	int64_t kept_sample_ns; /* and the sample that its first one took the place of */
};

/* src: not kept. The graph, the steps and the pool must outlive the net. */
int net_open(struct net *n, struct graph *g, const struct steps *s, const struct target *t,
	     const struct kernel_source *src, struct pool *pool, struct clock *clock) MUST_CHECK;
int net_run(struct net *n, struct clock *clock) MUST_CHECK; /* one run, one sample (none if it fails) */
int net_run_kernels(struct net *n,
		    struct clock *clock) MUST_CHECK; /* one run with every kernel timed: no sample */
/* l NULL: no leash. fn, which runs the nets (those of n that are open) once each at most, while no other job
 * runs at all. 1; 0: what it measured is not to be believed, and forgotten again; < 0: fn's error, or the
 * lease's: E_TIMEOUT, E_STOPPED. */
int net_quietly(struct leash *l, int64_t deadline_ns, struct net *const net[], int n, int (*fn)(void *ctx),
		void *ctx) MUST_CHECK;
/* All that it reads and writes fits into a core's own cache. */
bool net_fits(const struct net *n, const struct target *t);
/* Where it fits, one run without a sample, after another network's: it is as warm as it would be alone. */
int net_warm(struct net *n, const struct target *t) MUST_CHECK;
/* The kernels that do the same step in both, which were opened with the same steps; no round yet. Returns
 * their number. */
int net_served(const struct net *standard, const struct net *best, const struct steps *s, struct arena *a,
	       struct served **out) MUST_CHECK;
/* The times of both networks' last net_run_kernels, as a round. Only SERVED_ROUNDS are kept. */
void net_served_round(const struct net *standard, const struct net *best, int n, struct served *k);
/* What tasks take with the kernels built in, of a net with these steps: no others' kernel among their own.
 * Returns their number; a task may come twice. */
struct built_in {
	struct key task;
	int64_t ns;
};
int net_built_in(const struct net *n, const struct steps *s, struct arena *a, struct built_in **out);
int64_t net_median_ns(const struct net *n); /* 0: no samples */
void net_forget(struct net *n);             /* samples and kernels' times, before a new series */
void net_close_plan(struct net *n);         /* what was measured stays */
void net_close(struct net *n);

#endif
