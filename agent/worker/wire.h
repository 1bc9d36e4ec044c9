/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's stream protocol over two descriptors (pipes or a socket). It needs no shared parent, no
 * signals and no passed descriptors. Messages: u32 magic "HWRK", u32 type, u32 length, payload; little
 * endian; at most 64 MiB. Requests and replies alternate; the first request, HELLO, tells the worker its job.
 * The client closes the stream at a deadline; the worker ends at end of stream, even while it works. */
#ifndef AGENT_WIRE_H
#define AGENT_WIRE_H

#include "platform/base/buf.h"
#include "platform/base/hash.h"
#include "platform/run/dev.h"
#include "platform/run/runner.h"
#include <stdbool.h>

/* A runner in this process: parses, lowers, emits with `emitter`, loads on `device`, checks and times. The
 * worker serves it; tests use it with the simulator. If `isolate`, the first run of each candidate is in a
 * child process, so that a crash or hang is data; timed runs are in this process. A device with memory of its
 * own (its `number` is opened) has one thread, and all its runs are in this process. When it is lost, calls
 * give E_CHILD: the runner is of no use any more. number < 0: no such device is opened, and the runner only
 * emits. */
struct emit;
int runner_local(const struct dev *device, int number, const struct emit *emitter, const struct target *t,
		 int threads, bool isolate, struct runner **out) MUST_CHECK;
/* The child process of each first run calls cage(ctx) before the candidate runs; false ends it. Timed runs,
 * which are in this process, do not. r: of runner_local. */
void local_cage(struct runner *r, bool (*cage)(const void *ctx), const void *ctx);
/* The last words of a process that ends while it times a kernel on a device with memory of its own, which no
 * error can report: the kernel hangs (MEAS_TIMEOUT), or the driver crashes in it (MEAS_CRASH). `at` is its
 * index in the handles. Called in a signal handler. r: of runner_local; one per process. */
void local_last_words(struct runner *r, void (*say)(int at, enum meas_status how));
/* The name of a device for a worker that only compiles for it: of a sole one (platform/run/device_name.h) its
 * kind, "cuda". Such a worker opens no device, is confined, and answers runner_worker_emit alone; else
 * E_USAGE. */
void worker_compiles_for(const char *device, char out[DEV_NAME_MAX]);
/* A runner over a hone-worker: the program `path`, or (NULL) the worker that agent/worker/hire.h finds. It
 * starts a new worker when one dies. */
int runner_worker(const char *path, const char *device, const struct target *t, int threads,
		  struct runner **out) MUST_CHECK;
/* Adds so many workers (-1: as many as the machine has room for, 0 to 2) that build ahead on cores that the
 * measuring worker does not use; if there are too few, on any core. r: of runner_worker. */
int runner_worker_builders(struct runner *r, int builders) MUST_CHECK;
/* As runner_worker, for a worker that opens libraries. Its builders open none. */
int runner_worker_libraries(const char *path, const struct target *t, int threads, const char *libraries,
			    struct runner **out) MUST_CHECK;
/* Hires another worker as `like` (of runner_worker) was hired, for the same device and cores, without
 * builders and libraries. */
int runner_worker_again(struct runner *like, int64_t deadline_ns, struct runner **out) MUST_CHECK;
/* The two halves of a build, which may be done by different runners. This one makes code of a text
 * (kernels/loops/code.h bytes, added to `code`) with its key; equal code has an equal key. The code comes
 * from a builder, if the build was begun ahead, else from the worker that measures; nothing is run. If the
 * candidate fails, m->status says how. */
int runner_worker_emit(struct runner *r, const char *task, const char *cand, int64_t deadline_ns,
		       struct key *object, struct buf *code, struct meas *m) MUST_CHECK;
/* The other half: loads such code and returns a checked handle, as build() does. */
int runner_worker_load(struct runner *r, const char *task, struct key object, struct blob code,
		       int64_t deadline_ns, int *handle, struct meas *m) MUST_CHECK;
/* Stops the builders, or lets them go on: for a caller that times something beside this runner. Do not call
 * it while this runner times. */
void runner_worker_rest(struct runner *r, bool rest);
/* The two halves of a local runner's build, for a build ahead in another process. This one makes code of a
 * text, with its key; if the candidate fails, m->status says how. */
int local_emit(struct runner *r, const char *task, const char *cand, struct key *object, struct buf *code,
	       struct meas *m) MUST_CHECK;
/* The other half: loads the code and returns a checked handle, as build() does. */
int local_load(struct runner *r, const char *task, struct key object, struct blob code, int64_t deadline_ns,
	       int *handle, struct meas *m) MUST_CHECK;

/* The worker's side; its functions are called in this order. What the client asks for: */
struct wire_hello {
	char device[32];
	struct target target;
	int threads;
	uint64_t cpus;        /* that it may use: bit 0 is cpu 0; 0: any */
	int nice;             /* the client's priority: 0 to 19, 20: idle */
	int64_t memory_bytes; /* that it may write to: the client's limit; 0: any */
	char libraries[512];  /* names, comma between (agent/worker/libraries.h): opened before HELLO is
				 answered; such a worker is not confined */
};
/* Moves the calling thread to these cpus, if it may. */
void wire_place(uint64_t cpus);
/* Waits a few seconds for HELLO. */
int wire_take_hello(int in, struct wire_hello *h) MUST_CHECK;
/* From now on the process ends as soon as the other side closes the stream, even during a request, together
 * with the process of the running candidate. Starts a thread; call it once. */
int wire_watch(int in) MUST_CHECK;
/* Answers HELLO, then serves all requests until end of stream. */
int wire_serve(struct runner *r, int in, int out) MUST_CHECK;
/* Answers the TIME request that is being served, if one is, and blames a kernel: for local_last_words. */
void wire_last_words(int at, enum meas_status how);
/* Answers HELLO with the error rc and its text. */
int wire_refuse(int rc, int out) MUST_CHECK;

/* Name and version of the installed worker's emitter for a device; "": there is none. */
void worker_emitter(const char *device, const struct target *t, char out[32]);

#endif
