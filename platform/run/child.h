/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes with a deadline and limits. They talk over two file descriptors. */
#ifndef PLATFORM_CHILD_H
#define PLATFORM_CHILD_H

#include "platform/base/clock.h"
#include "platform/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct child {
	pid_t pid; /* 0: a stream (child_connect), or none */
	int in;    /* we write, the child reads (its fd 0); -1: no child, no stream */
	int out;   /* the child writes (its fd 1), we read */
};

struct child_limits {
	int64_t memory_bytes; /* RLIMIT_AS; 0: none */
	int cpu_s;            /* RLIMIT_CPU; 0: none */
};

/* Starts argv[0] (a path). It inherits stderr (log_move). The child gets no other descriptor, ignores SIGINT
 * (its parent decides) and dies with us if the OS supports that. */
int child_start(struct child *c, char *const argv[], const struct child_limits *lim) MUST_CHECK;
/* Instead of starting a child, connects to a process that listens at a Unix socket; `in` and `out` are one
 * connection. E_NOTFOUND: nobody listens. It waits while all children rest. */
int child_connect(struct child *c, const char *path, struct clock *clock, int64_t deadline_ns) MUST_CHECK;
/* Read or write exactly n bytes before the deadline (on `clock`): E_TIMEOUT; E_CHILD if the other side
 * closed. If this process was stopped meanwhile and the deadline passed, the other side, which may have been
 * stopped too, gets one more slice of platform/run/patience.h. */
int fd_read_full(int fd, void *p, size_t n, struct clock *clock, int64_t deadline_ns) MUST_CHECK;
/* Waits until fd can be read, or is closed. E_STOPPED: this thread was told to stop (platform/base/until.h)
 * and has waited for stop_ns since. */
int fd_await(int fd, struct clock *clock, int64_t deadline_ns, int64_t stop_ns) MUST_CHECK;
int fd_write_full(int fd, const void *p, size_t n, struct clock *clock, int64_t deadline_ns) MUST_CHECK;
/* Closes both ends, waits grace_ns, then sends SIGKILL if the child still lives, and reaps it. Idempotent.
 * Returns the wait status. */
int child_stop(struct child *c, int64_t grace_ns);
/* Stops all children, and those started later, by SIGSTOP until rest is false (SIGCONT); shuts down streams,
 * whose servers must end then. May be called from any thread. */
void child_rest_all(bool rest);
int child_rests(void); /* how often all children were stopped so far */
/* A wait of at most PATIENCE_SLICE_NS took so long; all those by now that took much longer: this process
 * stood still. */
void child_waited(int64_t ns);
int64_t child_stood_ns(void);
/* True if all rest, or this stream was shut down for that: a missing answer is not the other side's fault
 * then. */
bool child_let_go(const struct child *c);
/* Whether there are streams, to processes that our signals do not reach. */
bool child_has_streams(void);

#endif
