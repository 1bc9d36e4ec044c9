/* SPDX-License-Identifier: Apache-2.0 */
/* Runs strangers' candidates apart: a runner over the worker whose code is kept (the clean one), which never
 * runs a foreign candidate, and over short-lived workers that run one foreign candidate each.
 *
 * A kernel runs in its worker's memory: a kernel that writes where it should not may change anything that
 * this worker makes afterwards. Therefore the clean worker, or one of its builders, compiles a foreign
 * candidate without running it, and a worker of its own loads, checks and times it. That worker is hired for
 * it, gets only this candidate's code, and ends with it: when its handle is dropped, when another task is
 * built, or when more than APART_AT_ONCE are in use. A handle whose worker ended in this way stays valid: the
 * next worker loads the same bytes.
 *
 * A worker apart is asked for verdicts and times, never for code: code() returns the bytes that the clean
 * worker compiled, which are the ones that were loaded and checked. Compiling is deterministic
 * (tests/agent/worker/test_apart_worker.c), so any worker that has run nothing foreign makes the same code of
 * the candidate.
 *
 * All other candidates (defaults, own ones) are built, timed and fetched as if this runner did not exist. As
 * long as nothing foreign is built there is no second worker and no further message.
 *
 * Races. Candidates are compared by interleaved runs, but a foreign one must not run in the clean worker, and
 * a worker that runs a foreign one must not time the incumbent. So if both are timed, each round asks each
 * worker for one run of each candidate, in shuffled order. A slow moment of the machine still affects all
 * alike, and each run follows one that is not counted, so that all start from the same state. This takes
 * twice the runs, and some 0.1 ms per run for messages. False claims of a worker apart can make only its own
 * candidate look better or worse: a kernel that wins by them is replaced when the network is measured
 * (agent/cache/revert.h) or by the next box. Foreign candidates stay apart until this runner is closed, even
 * after they have won; for a later box they are records of this board. On a sole device
 * (platform/run/device_name.h) each worker apart has a context beside the clean one's: they cannot take turns
 * by rounds, and only boxes with strangers' candidates have them.
 *
 * Any failure of a worker apart, including death and hanging, is its candidate's failure: data
 * (platform/run/runner.h), also for agent/worker/marked.h. Handles of other candidates stay valid. If no
 * worker can be hired, the candidate is not timed (MEAS_TIMEOUT), which says nothing against it. A candidate
 * that died or hung once is not built again. A call of such a worker takes APART_PATIENCE_NS at most, and the
 * times that it reports are clamped to the duration of the call. Errors are those of the clean worker (its
 * E_CHILD loses all handles), a deadline that has come, and E_CHILD, with all handles lost, if workers were
 * told to rest.
 *
 * Not promised: that a kernel which passed the check in the worker in which it ran is harmless to those who
 * run it later. Candidates that this board's search derives from a foreign one (other numbers, fitted to a
 * similar task) count as its own. */
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
