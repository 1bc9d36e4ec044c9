/* SPDX-License-Identifier: Apache-2.0 */
/* Builders: workers on other cores that turn candidates into code while the one that measures goes on. Part
 * of the worker's client (runner_worker.c); not for others.
 *
 * Jobs are begun in the order in which they were added. What comes of one stays until it is taken or its
 * place is needed. Nothing waits but builders_take and builders_wait, which also move the jobs along. A
 * builder that dies, hangs or talks nonsense is stopped and costs its job (MEAS_CRASH, MEAS_TIMEOUT); the job
 * of one that cannot be started or spoken with is forgotten. After eight of them nothing is built ahead any
 * more.
 */
#ifndef AGENT_BUILDERS_H
#define AGENT_BUILDERS_H

#include "agent/worker/hire.h"
#include "agent/worker/wire.h"
#include "platform/base/buf.h"
#include "platform/base/hash.h"
#include "platform/run/runner.h"

enum { MOST_BUILDERS = 8 };

struct builders;

struct made {
	struct meas m;
	struct key object; /* of the task and its loops: equal ones share code */
	struct buf code;   /* kernels/loops/code.h bytes; empty unless m.status is MEAS_OK */
};

/* Hired as the one that measures is (kept until builders_close), with its hello; each builder stays on its
 * cpu (NULL: on any). */
int builders_open(struct hire *from, const struct wire_hello *hello, int n, const int *cpus,
		  struct clock *clock, struct builders **out) MUST_CHECK;
void builders_close(struct builders *b);
enum ahead builders_add(struct builders *b, struct key k, const char *task, const char *cand);
enum ahead builders_progress(struct builders *b, struct key k);
void builders_forget(struct builders *b, struct key k); /* a job that nobody has begun or finished */
void builders_clear(struct builders *b);                /* all jobs; one under way is cut short */
/* Waits for a job that is under way. AHEAD_NOT's error is E_NOTFOUND. The caller frees out->code. */
int builders_take(struct builders *b, struct key k, int64_t deadline_ns, struct made *out) MUST_CHECK;
/* Until fd can be read. */
int builders_wait(struct builders *b, int fd, int64_t deadline_ns) MUST_CHECK;
/* Stops them where they are, or lets them go on. Those that are not our children finish what they are at
 * first, and lose it where that takes long. */
void builders_rest(struct builders *b, bool rest);

#endif
