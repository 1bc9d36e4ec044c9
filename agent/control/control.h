/* SPDX-License-Identifier: Apache-2.0 */
/* The control protocol, version 1, which honed speaks with its jobs and with commands such as `hone status`.
 *
 * A Unix stream socket ($HONE_SOCKET, else /run/hone/honed.sock). Each message is one JSON object on a line
 * of at most CONTROL_LINE bytes, UTF-8, ended by \n. After `put`, and only there, the raw bytes follow that
 * its "bytes" counts. A request has "op" and may have "id" (a whole number), which its reply repeats:
 * {"id":1,"ok":true,...} or
 * {"id":1,"ok":false,"code":"busy","error":"what, why, what to do"} (codes: err_name). Unknown keys are
 * ignored; unknown ops are refused ("unsupported"). Replies come in the order of their requests, except those
 * to lease, release, commit, status, reload and wait, which come when the operation is done. Messages that
 * honed sends unasked have "event" and no "id".
 *
 *   op        who    keys                                     reply
 *   hello     all    version (1)                              version, honed (its version), mode, ready
 *   status    all    -                                        as `hone status --json` prints it
 *   watch     all    -                                        ok; then {"event":"status",...}, 1/s at most
 *   wait      all    for: "ready"                             ok, once every configured model has its
 *                                                             kernels, or nothing more can be done for it;
 *                                                             status says which were refused or failed
 *   inhibit   all    why, ms (0 or absent: until resume)      name: for resume
 *   resume    all    name (absent: all inhibits of this       resumed (how many)
 *                    user; for root and honed's own user:
 *                    all inhibits). From an owner, it also
 *                    allows boot boxes again
 *   tune      owner  model (of the configuration, or an       job; then {"event":"done","job":N,"ok":true,
 *                    absolute path), ms (box), threads,       ...} with the keys of `done`, or "error"
 *                    device (absent: cpu), now (true: at any
 *                    load, at any hour), shapes (lines
 *                    NAME=DIMS, as shape = of honed.conf; with
 *                    them it is not the configured model:
 *                    it keeps that one's level alone)
 *   cancel    owner  job                                      ok
 *   reload    owner  -                                        ok, or what is wrong with the file
 *   job       owner  model, threads, device (absent: cpu),    job, cache, cpus (list)
 *                    pid; makes this connection a job
 *   sync      owner, -; makes this connection one that only   cache
 *             bringer brings records
 *   lease     job    kind: "compute", "measure" or "quiet";   ok, once granted
 *                    stops
 *   release   job    -                                        tainted (false, or the reason as text)
 *   put       job,   type, key (32 hex digits), bytes; then   ok (it is in memory); code is accepted only
 *             sync   the bytes                                from root and honed's own user
 *   forget    job,   type, key                                ok
 *             sync
 *   commit    job,   -                                        generation, once all puts are durable
 *             sync
 *   progress  job    task, ntasks, trials, before_ms, now_ms, none
 *                    left_ms, label, net_ms (whole network
 *                    as the job found it, once measured),
 *                    key (at level int8: of the recipe that
 *                    the model needs)
 *   done      job    trials, before_ms, default_ms, after_ms, none
 *                    disturbed (after_ms: by other load), kept, missing (kernels without code),
 *                    promise (share of the run time that more
 *                    search is expected to save; 0: none),
 *                    why (nothing was tried),
 *                    lasting (true: it fails, as it will until
 *                    the model's file or the configuration
 *                    changes; its last error says why)
 *
 * `release` also cancels a lease that the job still waits for. The gate closes for every job because of an
 * inhibit, heat, throttling, the battery or memory; because of load, pressure or hours it closes only for
 * slices and for `tune` without now.
 *
 * Events to a job: {"event":"yield"}: the job must stop at once everything that uses a processor; a moment
 * later honed stops its process. {"event":"go on"}: the job may continue. {"event":"stop"}: the job must save
 * everything and end.
 *
 * owner: root, honed's own user, and members of the socket's group. job: a connection that sent `job`, or the
 * descriptor $HONE_CONTROL_FD that honed's own children inherit. A job is one thread and holds one lease at a
 * time. bringer: the user who owns hone-sync's state folder (agent/sync/sync.h). sync: a connection that sent
 * `sync`. Whoever its user is, it may only put and forget hints, forget records that came from hints, and put
 * sent marks (agent/cache/hint.h).
 *
 * lease: jobs share "compute" (import, search, compile, check). "measure": no other job runs on this job's
 * cpus, nor on its device. "quiet" of a job of the processor: no other job runs at all. "quiet" of a job of
 * another device: no other job runs on its cpus or its device, and none measures anywhere, as devices may
 * share memory, heat and power; jobs that only compute, on other cpus, do not change the device's times. So
 * jobs of two devices compute side by side, and "measure" side by side where their cpus differ, and of two
 * "quiet" leases only one is held. If several jobs wait for one of the latter two, the policy chooses
 * one (agent/control/policy.h). "stops": true says that a SIGSTOP to the job's process group stops everything
 * that it does. honed then stops such a job, if it is its child and computes, when another job is to get an
 * exclusive lease; otherwise the other job waits until this one releases its lease. */
#ifndef AGENT_CONTROL_H
#define AGENT_CONTROL_H

#include "platform/base/buf.h"
#include "platform/base/err.h"
#include "platform/base/hash.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTROL_VERSION 2 /* 2: shapes of tune, words of the gate */
#define CONTROL_SOCKET "/run/hone/honed.sock"
/* The largest number of a record's type that a request may name; agent/cache/cache.h lists the types. */
enum { CONTROL_LAST_TYPE = 13 };
enum { CONTROL_LINE = 8 << 10, CONTROL_SAID = 64 << 10 /* a line of honed's */, CONTROL_PUT = 16 << 20 };

enum control_op {
	OP_HELLO,
	OP_STATUS,
	OP_WATCH,
	OP_WAIT,
	OP_INHIBIT,
	OP_RESUME,
	OP_TUNE,
	OP_CANCEL,
	OP_RELOAD,
	OP_JOB,
	OP_SYNC,
	OP_LEASE,
	OP_RELEASE,
	OP_PUT,
	OP_FORGET,
	OP_COMMIT,
	OP_PROGRESS,
	OP_DONE,
	OP_COUNT
};

enum lease { LEASE_NONE, LEASE_COMPUTE, LEASE_MEASURE, LEASE_QUIET, LEASES };
extern const char *const lease_words[LEASES]; /* as in "kind"; NULL: no lease */

struct request {
	enum control_op op;
	bool has_id;
	int64_t id;
	char model[1024], text[256]; /* text: why, name, label or for */
	char shapes[1024];           /* "x=1x3x8x8\nn=4": NAME=DIMS, a line each; "": none */
	char device[40];             /* "cpu", "cpu:cortex-a53", "opencl:0" or "cuda:0"; "": the processor */
	int64_t ms, job, bytes;      /* job: its number, or a pid */
	int version, threads, type;
	bool now, disturbed, lasting;
	enum lease lease;
	bool stops; /* of a lease: "stops", see above */
	struct key key;
	int task, ntasks, trials, kept, missing;
	double before_ms, default_ms, now_ms, left_ms, promise; /* done's after_ms is now_ms */
	double net_ms;
};

/* Parses one line without its \n. Every number is checked: E_CORRUPT says what is wrong (fuzzed); out has the
 * id even then, if it could be read. */
int control_parse(const char *line, size_t n, struct request *out) MUST_CHECK;
/* Writes a request as a line with its \n, with only the keys of its op. */
void control_print(const struct request *r, struct buf *out);
/* Replies. `more` is NULL, or the members of an object, such as "\"version\":1". */
void control_good(const struct request *r, const char *more, struct buf *out);
void control_bad(const struct request *r, int rc, const char *text, struct buf *out);
/* Returns the error that a reply's code names; E_IO: the code is NULL or unknown. */
int control_code(const char *name);
/* Writes s as a JSON string with its quotes; bytes that are not UTF-8 become '?'. */
void control_text(struct buf *out, const char *s);

#endif
