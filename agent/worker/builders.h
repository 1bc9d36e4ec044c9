/* SPDX-License-Identifier: Apache-2.0 */
/* Builders: workers on other cores that compile candidates while the worker that measures goes on. Part of
 * the worker's client (runner_worker.c); not for others.
 *
 * Jobs begin in the order in which they were added. A result stays until it is taken or its slot is needed.
 * Only builders_collect and builders_wait block; they also move the jobs along. A builder that dies, hangs or
 * sends nonsense is stopped, and its job fails (MEAS_CRASH, MEAS_TIMEOUT); the job of a builder that cannot
 * be started or talked to is forgotten. After eight such builders nothing is built ahead any more.
 *
 * Waits end with E_STOPPED WORKER_STOP_NS after this thread was told to stop (platform/base/until.h): some
 * drivers compile for seconds. */
#ifndef AGENT_BUILDERS_H
#define AGENT_BUILDERS_H

#include "agent/worker/hire.h"
#include "agent/worker/wire.h"
#include "platform/base/buf.h"
#include "platform/base/hash.h"
#include "platform/run/runner.h"

#define WORKER_STOP_NS (250 * NS_PER_MS)

enum { MOST_BUILDERS = 8 };

struct builders;

struct made {
	struct meas m;
	struct key object; /* key of the task and its loops: equal keys share code */
	struct buf code;   /* kernels/loops/code.h bytes; empty unless m.status is MEAS_OK */
};

/* Builders are hired like the worker that measures (`from` is kept until builders_close), with its hello;
 * each builder stays on its cpu (NULL: on any). */
int builders_open(struct hire *from, const struct wire_hello *hello, int n, const int *cpus,
		  struct clock *clock, struct builders **out) MUST_CHECK;
void builders_close(struct builders *b);
enum ahead builders_add(struct builders *b, struct key k, const char *task, const char *cand);
enum ahead builders_progress(struct builders *b, struct key k);
void builders_forget(struct builders *b, struct key k); /* its job, unless it is under way */
void builders_clear(struct builders *b);                /* all jobs; a job under way is aborted */
/* Waits for a job that is under way. E_NOTFOUND: the job is AHEAD_NOT. The caller frees out->code. */
int builders_collect(struct builders *b, struct key k, int64_t deadline_ns, struct made *out) MUST_CHECK;
/* Waits until fd can be read. */
int builders_wait(struct builders *b, int fd, int64_t deadline_ns) MUST_CHECK;
/* Stops builders by SIGSTOP, or lets them go on. Those that are not our children may finish their job first,
 * but lose it if that takes long. */
void builders_rest(struct builders *b, bool rest);

#endif
