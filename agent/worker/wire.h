/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's stream protocol over two descriptors (pipes or a socket), assuming no shared parent, no
 * signals and no passed descriptors. Messages: u32 magic "HWRK", u32 type, u32 length, payload; little
 * endian; at most 64 MiB. Request and reply alternate; the first says what for (HELLO). The client closes the
 * stream at a deadline; the worker ends at end of stream, also while it works. */
#ifndef AGENT_WIRE_H
#define AGENT_WIRE_H

#include "platform/base/buf.h"
#include "platform/base/hash.h"
#include "platform/run/runner.h"
#include <stdbool.h>

/* A runner that lives in this process: parses, lowers, emits with `emitter`, loads on `device`, checks and
 * times. What the worker serves; tests use it with the simulator. Candidates run in child processes where
 * `isolate`. */
struct dev;
struct emit;
int runner_local(const struct dev *device, const struct emit *emitter, const struct target *t, int threads,
		 bool isolate, struct runner **out) MUST_CHECK;
/* Every candidate's own process calls cage(ctx) before the candidate runs; false ends it. r: of runner_local.
 */
void local_cage(struct runner *r, bool (*cage)(const void *ctx), const void *ctx);
/* A runner over a hone-worker: the program `path`, or (NULL) where agent/worker/hire.h finds one. Replaces it
 * when it dies. */
int runner_worker(const char *path, const char *device, const struct target *t, int threads,
		  struct runner **out) MUST_CHECK;
/* Lets so many workers more (-1: as many as the machine has room for, 0 to 2) build ahead on cores that the
 * one which measures does not use; on any core where there are too few. r: of runner_worker. */
int runner_worker_builders(struct runner *r, int builders) MUST_CHECK;
/* Another worker, hired as `like` (of runner_worker) was, for the same and on the same cores, without
 * builders.
 */
int runner_worker_again(struct runner *like, int64_t deadline_ns, struct runner **out) MUST_CHECK;
/* A build in two halves, of which each may be another runner's. Text to code (kernels/loops/code.h bytes,
 * added to `code`) with the key that equal code has: a builder's, if it was begun ahead, else compiled by the
 * worker that measures; nothing is run. A candidate that fails is m->status. */
int runner_worker_emit(struct runner *r, const char *task, const char *cand, int64_t deadline_ns,
		       struct key *object, struct buf *code, struct meas *m) MUST_CHECK;
/* And such code to a checked handle, as build() gives it. */
int runner_worker_load(struct runner *r, const char *task, struct key object, struct blob code,
		       int64_t deadline_ns, int *handle, struct meas *m) MUST_CHECK;
/* Builders stand still, or go on: for who times something beside this runner. Not while it times. */
void runner_worker_rest(struct runner *r, bool rest);
/* The two halves of a local runner's build, for a build ahead in another process. Text to code, with the key
 * that equal code has; a candidate that fails is m->status. */
int local_emit(struct runner *r, const char *task, const char *cand, struct key *object, struct buf *code,
	       struct meas *m) MUST_CHECK;
/* And code to a checked handle, as build() gives it. */
int local_load(struct runner *r, const char *task, struct key object, struct blob code, int64_t deadline_ns,
	       int *handle, struct meas *m) MUST_CHECK;

/* The worker's side, in this order. What the client wants of it: */
struct wire_hello {
	char device[32];
	struct target target;
	int threads;
	uint64_t cpus;        /* that it may use: bit 0 is cpu 0; 0: any */
	int nice;             /* how its client is scheduled: 0 to 19, 20: idle */
	int64_t memory_bytes; /* that it may write to: its client's limit; 0: any */
};
/* The calling thread goes to these cpus, if it may. */
void wire_place(uint64_t cpus);
/* Waits for it, some seconds at most. */
int wire_take_hello(int in, struct wire_hello *h) MUST_CHECK;
/* From now on the process ends as soon as the other side closes the stream, also in the midst of a request,
 * and with it the process of the candidate that runs. Starts a thread; once. */
int wire_watch(int in) MUST_CHECK;
/* The answer, and then all requests until end of stream; */
int wire_serve(struct runner *r, int in, int out) MUST_CHECK;
/* or the error rc and its text. */
int wire_refuse(int rc, int out) MUST_CHECK;

/* Name and version of the emitter of the worker that is installed; "": there is none. */
void worker_emitter(const struct target *t, char out[32]);

#endif
