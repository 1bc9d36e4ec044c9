/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers' candidates run apart: a runner over the worker whose code is kept (the clean one), which runs no
 * foreign candidate, and over short-lived workers that run one of them each.
 *
 * A kernel runs in its worker's memory: one that writes where it should not may change whatever that worker
 * makes afterwards. Therefore a foreign candidate is compiled by the clean worker or one of its builders,
 * which do not run it, and loaded, checked and timed by a worker of its own. That one is hired for it, is
 * given nothing but this candidate's code, and ends with it: when its handle is dropped, when another task is
 * built, or when more than APART_AT_ONCE are in use. A handle whose worker ended that way stays valid: the
 * next worker loads the same bytes.
 *
 * A worker apart is asked for verdicts and times, never for code: code() gives the bytes that the clean
 * worker compiled, which are the ones that were loaded and checked. Compiling is deterministic
 * (tests/agent/worker/test_apart_worker.c), so any worker that has run nothing foreign makes the same of the
 * candidate.
 *
 * Every other candidate (defaults, own ones) is built, timed and taken as if this runner were not there. As
 * long as nothing foreign is built there is no second worker and no further message.
 *
 * Races. Candidates are compared by interleaved runs, but a foreign one must not run in the clean worker, and
 * the incumbent must not be timed by a worker that runs a foreign one. So where both are timed, each round
 * asks each worker for one run of each candidate, in shuffled order; a slow moment of the machine still falls
 * on all alike, and every run comes after one that is not counted, so that all meet the same state. It takes
 * twice the runs and some 0.1 ms per run for messages. What a worker apart claims can make its own candidate
 * look better or worse, and nothing else: a kernel that wins by a lie is replaced where the network is
 * measured (agent/cache/revert.h) or by the next box. Foreign candidates stay apart until this runner is
 * closed, also after they have won; for a later box they are records of this board.
 *
 * What a worker apart does, dying and hanging included, is its candidate's failure: data
 * (platform/run/runner.h), also for agent/worker/marked.h; handles of others stay valid. Where no worker can
 * be hired, the candidate is not timed (MEAS_TIMEOUT): that says nothing against it. What died or hung once
 * is not built again. A call of such a worker takes APART_PATIENCE_NS at most, and times that it tells are
 * cut to what the call took. Errors are the clean worker's (its E_CHILD loses all handles), that the deadline
 * came, and E_CHILD where workers were told to rest, with all handles lost.
 *
 * Not promised: that a kernel which was checked by the worker in which it ran does no harm to whoever runs it
 * later. Candidates that this board's search derives from a foreign one (other numbers, fitted to a similar
 * task) are its own. */
#ifndef AGENT_RUNNER_APART_H
#define AGENT_RUNNER_APART_H

#include "platform/base/buf.h"
#include "platform/base/hash.h"
#include "platform/run/runner.h"

enum { APART_AT_ONCE = 3 };
#define APART_PATIENCE_NS (10 * NS_PER_S)

struct apart_ways {
	/* Whether a candidate is a stranger's, which the clean worker must not run. */
	bool (*foreign)(void *ctx, const char *task, const char *cand);
	void *ctx;
	/* The others are runner_worker_again, _emit, _load and _rest of agent/worker/wire.h. */
	int (*hire)(struct runner *clean, int64_t deadline_ns, struct runner **out);
	int (*emit)(struct runner *clean, const char *task, const char *cand, int64_t deadline_ns,
		    struct key *object, struct buf *code, struct meas *m);
	int (*load)(struct runner *apart, const char *task, struct key object, struct blob code,
		    int64_t deadline_ns, int *handle, struct meas *m);
	void (*rest)(struct runner *clean, bool rest);
};

/* Closes clean. Handles of `clean` must be below 2^30 + 2^17. */
int runner_apart(struct runner *clean, const struct apart_ways *ways, struct runner **out) MUST_CHECK;

#endif
