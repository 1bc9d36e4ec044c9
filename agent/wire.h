/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's stream protocol over two descriptors (pipes or a socket), assuming no shared parent, no
 * signals and no passed descriptors. Messages: u32 magic "HWRK", u32 type, u32 length, payload; little
 * endian; at most 64 MiB. Request and reply alternate. The client closes the stream at a deadline; the worker
 * ends at end of stream. */
#ifndef AGENT_WIRE_H
#define AGENT_WIRE_H

#include "platform/buf.h"
#include "platform/runner.h"
#include <stdbool.h>

/* A runner that lives in this process: parses, lowers, emits with `emitter`, loads on `device`, checks and
 * times. What the worker serves; tests use it with the simulator. Candidates run in child processes where
 * `isolate`. */
struct dev;
struct emit;
int runner_local(const struct dev *device, const struct emit *emitter, const struct target *t, int threads,
		 bool isolate, struct runner **out) MUST_CHECK;
/* A runner over a child hone-worker at `path` (NULL: beside this executable, or $HONE_WORKER). Replaces it
 * when it dies. */
int runner_worker(const char *path, const char *device, const struct target *t, int threads,
		  struct runner **out) MUST_CHECK;
/* The worker's side: serves a runner on two descriptors until end of stream. */
int wire_serve(struct runner *r, int in, int out) MUST_CHECK;
/* Instead of serving: answers the first request with the error rc and its text. */
int wire_refuse(int rc, int in, int out) MUST_CHECK;

#endif
