/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of the worker's stream, for its two ends (wire.c serves, runner_worker.c asks). Not for
 * others.
 *
 * A reply's type is its request's plus WIRE_REPLY. Its payload: i32 rc; rc < 0: the text (str); else, by
 * type:
 *
 *	HELLO  str device, str target, u32 threads, u64 cpus,
 *	       u32 nice, u64 memory_bytes, str libraries           -> str emitter
 *	BUILD  i64 ns left, str task, str cand                     -> i32 handle, meas
 *	TIME   i64 ns left, i64 abort_ns, u32 rounds, u32 how,
 *	       u32 n, n x i32 handle                               -> n x meas
 *	CODE   i32 handle                                          -> bytes
 *	DROP   i32 handle                                          -> -
 *	EMIT   str task, str cand                                  -> meas, u64 hi, u64 lo (key), bytes
 *	LOAD   i64 ns left, str task, u64 hi, u64 lo (key), bytes  -> i32 handle, meas
 *	PLACE  u64 cpus                                            -> -
 *
 * If TIME fails, the text is followed by i32 at, u32 status: the kernel that ran when the device was lost,
 * and whether it hung (MEAS_TIMEOUT) or not (MEAS_CRASH); -1 and 0: none, or not known. HELLO is the first
 * request and is sent once. str: bytes without NUL; bytes: u32 n, n bytes; how: enum time_how. EMIT's bytes
 * are empty unless the status is MEAS_OK. Deadlines are sent as the time that is left, because two machines
 * share no clock; INT64_MAX: none. */
#ifndef AGENT_WIRE_MSG_H
#define AGENT_WIRE_MSG_H

#include "agent/worker/wire.h"
#include "platform/base/buf.h"
#include "platform/run/runner.h"

enum wire_type {
	WIRE_HELLO = 1,
	WIRE_BUILD,
	WIRE_TIME,
	WIRE_CODE,
	WIRE_DROP,
	WIRE_EMIT,
	WIRE_LOAD,
	WIRE_PLACE,
	WIRE_TYPES,
	WIRE_REPLY = 0x100
};

#define WIRE_MAGIC UINT32_C(0x4b525748) /* "HWRK" */

enum { WIRE_MAX_BYTES = 64 << 20, WIRE_MAX_HANDLES = 4096, WIRE_MAX_ROUNDS = 1000000 };

/* Receives a message. E_CHILD: the other side closed the stream before its end; E_CORRUPT: not a message. The
 * payload is in `body`, which is cleared first. */
int wire_receive(int fd, struct clock *clock, int64_t deadline_ns, uint32_t *type,
		 struct buf *body) MUST_CHECK;
int wire_send(int fd, struct clock *clock, int64_t deadline_ns, uint32_t type,
	      const struct buf *body) MUST_CHECK;
/* Adds the body of a HELLO. */
void wire_put_hello(struct buf *b, const struct wire_hello *h);
void wire_put_str(struct buf *b, const char *s);
/* NUL-terminated copy in the arena; NULL: past the end, over most_bytes, or with a NUL inside (c->bad is
 * set). */
const char *wire_get_str(struct cur *c, size_t most_bytes, struct arena *a);
void wire_put_meas(struct buf *b, const struct meas *m);
void wire_get_meas(struct cur *c, struct meas *m); /* an impossible status or time sets c->bad */
int64_t wire_left(struct clock *clock, int64_t deadline_ns);
int64_t wire_deadline(struct clock *clock, int64_t left_ns);

#endif
