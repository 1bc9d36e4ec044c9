/* SPDX-License-Identifier: Apache-2.0 */
/* honed's decisions as a state machine: events and the clock in, actions out. It reads no file, no clock and
 * no descriptor, starts nothing and never waits; what drives it does what an action says and tells what came
 * of it as an event. On a board that is agent/honed/honed_loop.h (libuv), in tests tests/lib/scenario.h (a
 * virtual board and clock).
 *
 * Two modes. HONED_RESIDENT: serves the socket, holds the cache, and tunes while the gate is open, in slices,
 * at idle priority, until every model is exhausted. HONED_BOX: one box at boot over the models that need it,
 * then leaves; of the gate it heeds inhibits, heat, throttling, battery and memory, not load: the box is the
 * robot's own time.
 *
 * Laws that the scenarios check:
 * 1. In HONED_BOX every job has ended by the end of the box (within 20 ms of virtual time): they are told to
 * stop before it, and killed at it.
 * 2. `commit` is answered only when the store said that it is durable. A job that dies takes nothing with it:
 * what was put is committed without being asked for, one commit after the other. In HONED_BOX none begins
 * that would hold up the last one, and that begins, by how slow the box's flash is, early enough to end in
 * it.
 * 3. Of leases that exclude each other only one is held; one that was held while the gate closed, the job
 * rested, or the vitals changed (vitals_taint) is released as tainted. A lease ends when its holder uses no
 * processor any more: released, stopped, or gone.
 * 4. The gate's closing rests every job within one event (YIELD, then SIGSTOP to its process group YIELD_NS
 *    later at the latest); one that rests for longer than REST_NS, or memory that runs out, ends it.
 * 5. A job that dies, hangs (no sound of it for HANG_NS while it is not resting) or is refused is started
 * again after a pause that doubles; its model's last error is in the status.
 * 6. Memory is bounded: clients, what one may send, and what waits to be sent to it.
 * 7. When nothing can be done there is no timer but the next that matters: at most two wake-ups a minute.
 *
 * One file for each part (honed_parts.h is theirs alone): honed.c events, honed_gate.c when the board is
 * looked at and who inhibits, honed_models.c whose turn it is and the marks, honed_jobs.c, honed_lease.c,
 * honed_store.c what is durable, honed_box.c the boot box and the end, honed_client.c, honed_status.c. */
#ifndef AGENT_HONED_H
#define AGENT_HONED_H

#include "agent/control/conf.h"
#include "agent/control/control.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"
#include "platform/machine/vitals.h"
#include <sys/types.h>

enum {
	HONED_CLIENTS = 1200, /* at a time; over that the one that has been silent longest goes, of a user
				 who has more than half of them all if there is one; never a job */
	HONED_QUEUE_BYTES = 64 << 10, /* that wait to be read by a client; one who lets more wait is closed */
	HONED_MODELS = CONF_MODELS,
	HONED_JOBS = 16,
};
#define HONED_YIELD_NS                                                                                       \
	(20 * NS_PER_MS) /* from the event to SIGSTOP; 50 ms in all with the driver's own delays */
#define HONED_REST_NS (60 * NS_PER_S)
#define HONED_HANG_NS (30 * NS_PER_S)

struct honed;

enum honed_mode { HONED_RESIDENT, HONED_BOX };

/* What is kept between boots, in one small file of the state folder (agent/honed/marks.h). */
struct marks {
	int unclean; /* boxes in a row that did not end */
	int n;
	struct mark_of {
		struct key model; /* of path, size, inode, times, threads, exactness, target and emitter */
		bool boxed;       /* a box has given it all its kernels, or all that it can have */
		double promise;   /* as its last job said; < 0: not known */
		int missing;      /* kernels, likewise; boxed all the same where nothing more is promised */
	} model[HONED_MODELS];
};

struct peer {
	pid_t pid;
	uid_t uid;
	bool owner, brings; /* as agent/control/control.h says */
};

enum honed_event_kind {
	HE_START,  /* once: models, marks */
	HE_TIMER,  /* the time that honed_wakeup said has come */
	HE_VITALS, /* after HA_LOOK, and whenever the driver learns of something (a pressure trigger): look */
	HE_GLANCE, /* after HA_GLANCE: vitals of vitals_glance */
	HE_INHIBIT, /* the configuration's inhibit files changed: text of the first, or NULL */
	HE_KEPT,    /* before HE_START: an inhibit file that HA_INHIBIT once made is there: name, text */
	HE_CLIENT,  /* a new connection: client, peer */
	HE_REQUEST, /* client, request, payload (put's bytes: only until the call returns) */
	HE_BROKEN,  /* client sent what is no request: rc, text; request has the id if there is one */
	HE_GONE,    /* client's connection has ended */
	HE_STARTED, /* job, pid; its control connection is `client` */
	HE_ENDED,   /* job: rc (0 good, < 0: enum err), text */
	HE_STORED,  /* ticket of HA_COMMIT: rc, text, lost (no later commit mends that), generation,
		       written_bytes (since honed started); 0: of HA_PREPARE: sync_ns */
	HE_MODELS,  /* the models' files changed, or were looked at: model[] */
	HE_CONF,    /* conf (then the old one may go) with its model[], or NULL with rc and text: refused */
	HE_STOP,    /* SIGTERM, SIGINT */
};

struct honed_model {         /* what the driver knows of a configured model, in the configuration's order */
	struct key key;      /* as in struct mark_of */
	const char *refused; /* NULL, or why its file cannot be used */
};

struct honed_event {
	enum honed_event_kind kind;
	int client, job;
	struct peer peer;
	pid_t pid;
	const struct request *request;
	struct blob payload;
	const struct vitals *vitals;
	int64_t own_ns; /* processor time of our children, ever */
	int minute;     /* of the day, -1: not known */
	int64_t ticket, written_bytes, sync_ns;
	uint64_t generation;
	bool lost;
	int rc;
	const char *text, *name;
	const struct conf *conf;
	int nmodels;
	const struct honed_model *model;
};

enum honed_action_kind {
	HA_SEND,    /* text to client */
	HA_CLOSE,   /* client; HE_GONE follows */
	HA_LOOK,    /* at the vitals: HE_VITALS follows at once */
	HA_GLANCE,  /* at what may taint: HE_GLANCE follows at once; the answer to a `release` waits for it */
	HA_START,   /* a job: number, model, threads, exact, shape, budget_ns, cpus; HE_STARTED or HE_ENDED
		       follows */
	HA_SIGNAL,  /* signal to a job's process group */
	HA_PUT,     /* type, key, payload, brought: into the store; in the order of actions */
	HA_FORGET,  /* type, key, brought */
	HA_COMMIT,  /* ticket, never 0: HE_STORED follows; one at a time */
	HA_PREPARE, /* as a box begins: make what the first commit would have to; HE_STORED tells how long
		       a sync took (0: there was none to do) */
	HA_MARKS,   /* keep them, durably (of a box, as far as it has time for that): marks */
	HA_INHIBIT, /* text: make the inhibit file `name` that says so; text NULL: remove it */
	HA_RELOAD,  /* read the configuration: HE_CONF follows */
	HA_READY,   /* the service is up */
	HA_STATUS,  /* one line for the service manager: text */
	HA_METRICS, /* they changed: honed_metrics */
	HA_LOG,     /* text; level: 0 error, 1 info, 2 more */
	HA_LEAVE,   /* rc: nothing runs any more; end */
};

struct honed_action {
	enum honed_action_kind kind;
	int client, job, signal, level, rc;
	const char *text, *name; /* until the call returns, as all pointers here */
	const struct conf_model *model;
	int threads;
	int ncpus;
	const int *cpus;
	int64_t budget_ns;
	int64_t memory_bytes;
	int nice; /* 19 and SCHED_IDLE in HONED_RESIDENT; 5 in a box */
	int type;
	struct key key;
	struct blob payload;
	bool brought; /* by hone-sync: nothing but hints (agent/cache/hint.h) */
	int64_t ticket;
	const struct marks *marks;
};

struct honed_options {
	enum honed_mode mode;
	const struct conf *conf; /* stays until HE_CONF brings another */
	struct marks marks;
	int64_t now_ns; /* of the clock that events come with */
	int64_t box_ns; /* HONED_BOX: the end of the box, on that clock */
	int ncpus;
	int cpus[64];      /* one hardware thread of each core, the fastest first */
	const char *cache; /* folder, for jobs and status */
	uid_t uid;         /* our own: code is taken from it and from root alone */
	void *ctx;
	void (*act)(void *ctx, const struct honed_action *a); /* must not call back */
};

int honed_open(const struct honed_options *o, struct honed **out) MUST_CHECK;
void honed_close(struct honed *h);
void honed_event(struct honed *h, int64_t now_ns, const struct honed_event *e);
/* When it wants HE_TIMER next; INT64_MAX: never. */
int64_t honed_wakeup(const struct honed *h);
/* One JSON object, as `status` answers and `hone status --json` prints; one line. Keys, of which any may be
 * absent or null where it is not known (readers do without):
 * version, mode ("resident", "box"), state (one word: "ready", "tuning", "resting", "waiting", "inhibited",
 * "skipping", "failing"), ready (as `wait` means it), verdict (one sentence: what it does and why), warning
 * (the cache cannot be written: why), conf_error (why the last reload was refused), up_s, cache (folder),
 * generation, policy, left_s (of the box), clients, yields, tainted (counters);
 * gate {open, why (gate_word), text, load_pct, temp_c, zone, headroom_c, throttled, looked_s (ago)};
 * models [{name, path, state ("tuning", "resting", "waiting", "exhausted", "refused", "failed"), ready,
 * before_ms (as honed first met it), default_ms, now_ms, missing, promise, next_s (until its next slice),
 * error}], models_left (that had no room); jobs [{job, model (name), pid, state ("waiting", "starting",
 * "running", "resting", "stopping"), lease, wants, task, ntasks, trials, before_ms, now_ms, left_s, label}];
 * inhibits [{name, why, left_s}]; flash {today_bytes, limit_bytes (a day), written_bytes (since honed
 * started)}; sync {next_s} */
void honed_status(const struct honed *h, int64_t now_ns, struct buf *out);
/* The text format of Prometheus, each with HELP and TYPE (configs/grafana/hone.json shows them). Gauges:
 * hone_info{version,mode} (1), hone_ready, hone_gate_open, hone_gate_reason{why} (1 for the one that holds, a
 * row for each gate_word), hone_temperature_celsius, hone_headroom_celsius, hone_load_ratio (of others),
 * hone_model_ready{model}, hone_model_before_seconds{model}, hone_model_now_seconds{model},
 * hone_model_promise_ratio{model}, hone_model_missing_kernels{model}, hone_jobs, hone_clients, hone_inhibits,
 * hone_cache_generation, hone_cache_failed, hone_flash_limit_bytes (a day), hone_flash_today_bytes. Counters:
 * hone_jobs_started_total, hone_jobs_failed_total, hone_trials_total, hone_yields_total, hone_tainted_total,
 * hone_leases_total{kind}, hone_flash_written_bytes_total. What is not known has no row. */
void honed_metrics(const struct honed *h, int64_t now_ns, struct buf *out);

#endif
