/* SPDX-License-Identifier: Apache-2.0 */
/* honed's decisions as a state machine: events and the clock go in, actions come out. It reads no file, no
 * clock and no descriptor, starts nothing and never waits. The driver does what an action says and reports
 * the result as an event. On a board the driver is agent/honed/honed_loop.h (libuv), in tests
 * tests/lib/scenario.h (a virtual board and clock).
 *
 * Two modes. HONED_RESIDENT serves the socket, holds the cache, and tunes while the gate is open, in slices,
 * at idle priority, until every model is exhausted. HONED_BOX runs one box at boot over the models that need
 * it, then leaves. In a box the gate looks at inhibits, heat, throttling, battery and memory, but not at
 * load, because the box is time that the robot has set aside.
 *
 * Laws that the scenarios check:
 * 1. In HONED_BOX every job has ended by the end of the box (within 20 ms of virtual time): honed tells the
 *    jobs to stop before the end, and kills them at the end.
 * 2. `commit` is answered only when the store has said that it is durable. A job that dies loses nothing that
 *    it has put: honed commits it unasked, one commit after the other. In HONED_BOX no commit begins that
 *    would hold up the last one, and the last one begins early enough to end in the box, judged by how slow
 *    its flash is.
 * 3. Of leases that exclude each other only one is held. A lease that was held while the gate closed, the job
 *    rested, or the vitals changed (vitals_taint) is released as tainted. A lease ends when its holder uses
 *    no processor any more: it has released it, was stopped, or is gone.
 * 4. When the gate closes, every job rests within one event (YIELD, then SIGSTOP to its process group
 *    YIELD_NS later at the latest). A job that rests for longer than REST_NS is ended, and so are jobs when
 *    memory runs out.
 * 5. A job that dies, hangs (it is silent for HANG_NS while it is not resting) or is refused is started again
 *    after a pause that doubles each time; the status shows its model's last error. A job that ends because
 *    its budget passed while it was stopped has not failed. After a failure of the
 *    model itself (`done` with lasting) it is started again only when the model's file has changed, or the
 *    configuration was read; if its job has told a recipe's key before, also when the cache gets that recipe,
 *    and after PAUSE_MOST_NS. While the cache cannot be
 *    written, no job starts; honed tries it again after such pauses, and after a reload.
 * 6. Memory is bounded: the number of clients, what one client may send, and what waits to be sent to it.
 * 7. When nothing can be done, only the timer of the next deadline is set: at most two wake-ups a minute.
 *
 * Each part has a file (honed_parts.h is for them alone): honed.c events; honed_gate.c looks at the board,
 * and inhibits; honed_models.c the order of the models, and the marks; honed_jobs.c; honed_cores.c;
 * honed_lease.c; honed_store.c commits; honed_box.c the boot box and the end; honed_client.c; honed_status.c.
 */
#ifndef AGENT_HONED_H
#define AGENT_HONED_H

#include "agent/cache/inventory.h"
#include "agent/control/conf.h"
#include "agent/control/control.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"
#include "platform/machine/vitals.h"
#include <sys/types.h>

enum {
	/* connections at a time. Over that, the one that has been silent longest is closed, of the user who
	 * has more than half of all connections if there is one; a job's connection is never closed */
	HONED_CLIENTS = 1200,
	HONED_QUEUE_BYTES = 64 << 10, /* bytes unread by a client; over that its connection is closed */
	HONED_MODELS = CONF_MODELS,
	HONED_JOBS = 16,
	JOB_TEXT = 1024, /* bytes of a job's error that are kept (agent/honed/shorten.h); the status has it */
};
#define HONED_YIELD_NS                                                                                       \
	(20 * NS_PER_MS) /* from the event to SIGSTOP; 50 ms in all with the driver's own delays */
#define HONED_REST_NS (60 * NS_PER_S)
#define HONED_HANG_NS (30 * NS_PER_S)

struct honed;

enum honed_mode { HONED_RESIDENT, HONED_BOX };

/* The times of a model that are not certain (now_rough in honed_status). */
enum mark_rough {
	MARK_CERTAIN,
	MARK_FIRST, /* the first time alone: no slice was undisturbed yet */
	MARK_GAINS  /* the gains, too, or a slice that gained has not ended yet */
};

/* The marks that honed keeps between boots, in one small file of the state folder (agent/honed/marks.h). */
struct marks {
	int unclean; /* boxes in a row that did not reach their end */
	/* Bytes written to flash on a day (UTC, since 1970), so that a limit of a day outlives a restart;
	 * the code that writes the file sets the day. */
	int64_t day, day_bytes;
	/* The cache as it was when they were written: they are true as long as it still has all of that. */
	struct inventory cache;
	int n;
	struct mark_of {
		/* hash of path, size, inode, times, threads, level, target and emitter */
		struct key model;
		bool boxed; /* a box has made all its kernels, or all that can be made */
		uint8_t rough; /* enum mark_rough */
		/* The network's time when honed first measured this file, and that divided by what slices
		 * have gained, both as honed_status has them; 0: not known. */
		float before_ms;
		double promise; /* as its last job reported; < 0: not known */
		/* kernels, as its last job reported; a model with some is boxed all the same if no more gain
		 * is promised */
		int missing;
		float now_ms;
	} model[HONED_MODELS];
};

struct peer {
	pid_t pid;
	uid_t uid;
	bool owner, brings; /* see agent/control/control.h */
};

enum honed_event_kind {
	HE_START,   /* once: models, marks */
	HE_TIMER,   /* the time that honed_wakeup returned has come */
	HE_VITALS,  /* after HA_LOOK, and when the driver notices a change (a pressure trigger) */
	HE_GLANCE,  /* after HA_GLANCE: the vitals of vitals_glance */
	HE_INHIBIT, /* the configuration's inhibit files changed: text of the first, or NULL */
	/* before HE_START: an inhibit file that an earlier HA_INHIBIT made is there: name, text */
	HE_KEPT,
	HE_CLIENT,  /* a new connection: client, peer */
	HE_REQUEST, /* client, request, payload (put's bytes: only until the call returns) */
	HE_BROKEN,  /* client sent an invalid request: rc, text; request holds the id if there is one */
	HE_GONE,    /* client's connection has ended */
	HE_STARTED, /* job, pid; `client` is its control connection */
	HE_ENDED,   /* job: rc (0 good, < 0: enum err), text */
	/* the commit of HA_COMMIT's ticket has ended: rc, text, lost (no later commit can repair that),
	 * generation, written_bytes (since honed started). Ticket 0: the answer to HA_PREPARE: sync_ns; or
	 * the driver looked at the cache: rc, text. All: holds (what the cache has now; NULL: not told),
	 * lacks (it lost records since honed last knew, otherwise than by honed's own work) */
	HE_STORED,
	HE_MODELS, /* the models' files changed, or were looked at: model[] */
	HE_FAULT,  /* the file of the model with the key of model[0] was examined, and cannot be used: text */
	/* the new conf with its model[] (the old one may be freed then); or NULL with rc and text: refused */
	HE_CONF,
	HE_STOP, /* SIGTERM, SIGINT */
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
	int64_t own_ns; /* processor time that our children have used in all */
	int minute;     /* of the day; -1: not known */
	int64_t ticket, written_bytes, sync_ns;
	uint64_t generation;
	bool lost, lacks;
	const struct inventory *holds;
	int rc;
	const char *text, *name;
	const struct conf *conf;
	int nmodels;
	const struct honed_model *model;
};

enum honed_action_kind {
	HA_SEND,  /* text to client */
	HA_CLOSE, /* client; HE_GONE follows */
	HA_LOOK,  /* look at the vitals: HE_VITALS follows at once */
	/* look at what may taint a lease: HE_GLANCE follows at once; the answer to a `release` waits for
	 * it */
	HA_GLANCE,
	/* start a job: number, model, threads, level, shape, budget_ns, cpus; HE_STARTED or HE_ENDED
	 * follows */
	HA_START,
	HA_SIGNAL, /* send signal to a job's process group */
	/* put type, key, payload, brought into the store; the store keeps the order of the actions */
	HA_PUT,
	HA_FORGET, /* forget type, key, brought */
	HA_COMMIT, /* ticket, never 0; HE_STORED follows; one commit at a time */
	/* a box begins: do beforehand what the first commit would have to; HE_STORED reports how long a sync
	 * took (0: there was none to do) */
	HA_PREPARE,
	HA_MARKS,   /* write marks durably (in a box, only if it has time for the sync) */
	HA_INHIBIT, /* make the inhibit file `name` with this text; text NULL: remove it */
	HA_RELOAD,  /* read the configuration: HE_CONF follows */
	HA_READY,   /* the service is ready */
	HA_STATUS,  /* one line for the service manager: text */
	HA_METRICS, /* the metrics changed: see honed_metrics */
	HA_LOG,     /* text; level: 0 error, 1 info, 2 more */
	HA_LEAVE,   /* rc: nothing runs any more; end the process */
};

struct honed_action {
	enum honed_action_kind kind;
	int client, job, signal, level, rc;
	const char *text, *name; /* valid until the call returns, as all pointers here */
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
	bool brought; /* hone-sync brought it: only hints (agent/cache/hint.h) */
	int64_t ticket;
	const struct marks *marks;
};

struct honed_options {
	enum honed_mode mode;
	const struct conf *conf; /* valid until HE_CONF brings another */
	struct marks marks;
	int64_t now_ns; /* on the clock of the events */
	int64_t box_ns; /* HONED_BOX: the end of the box, on the same clock */
	int ncpus;
	int cpus[64];      /* one hardware thread of each core, the fastest first */
	int nclusters;     /* of which these are; 0: not told, all are one */
	struct honed_cluster {
		char device[CONF_DEVICE_NAME]; /* "cpu:cortex-a53" */
		uint64_t cpus;                 /* bit i: cpus[i] */
	} cluster[8]; /* the fastest first, which is "cpu", too */
	const char *cache; /* folder of the cache, for jobs and status */
	const char *conf_file; /* file of the configuration, for the status; NULL: not told */
	uid_t uid;         /* our own; code is accepted only from this user and from root */
	void *ctx;
	void (*act)(void *ctx, const struct honed_action *a); /* must not call honed_event */
};

int honed_open(const struct honed_options *o, struct honed **out) MUST_CHECK;
void honed_close(struct honed *h);
void honed_event(struct honed *h, int64_t now_ns, const struct honed_event *e);
/* Returns when HE_TIMER is due next; INT64_MAX: never. */
int64_t honed_wakeup(const struct honed *h);
/* Writes one JSON object on one line, as `status` answers and `hone status --json` prints. Any key may be
 * absent, or null if its value is not known; readers must cope with both. Keys: version, mode ("resident",
 * "box"), state (one word: "ready", "tuning", "resting", "waiting", "inhibited", "skipping", "failing"),
 * ready (as `hone wait` succeeds), verdict (one sentence: what it does and why), warning (the cache cannot be
 * written: why), conf (file of the configuration), conf_error (why the last reload was refused), up_s,
 * cache (folder), generation, policy, left_s (of the box), clients, yields, tainted (counters); gate
 * {open, why (gate_word), text, load_pct, temp_c, zone, headroom_c, throttled, looked_s (ago)};
 * models [{name, path, device ("cpu", "opencl:0"; a model with several devices has a row for each), state
 * ("tuning", "resting", "waiting", "exhausted", "refused", "failed"), ready, before_ms (the first time
 * measured of this file; it and now_ms are scaled to shorter times of the same kernels, and then to the first
 * slice that nobody disturbed; from then on it stays. A shorter time after a gain that no slice measured is
 * now_ms alone), default_ms, now_ms (before_ms, divided by the product
 * of what each slice has gained), now_rough (no slice was undisturbed yet; or a gain was measured while
 * others disturbed its slice, or is not known because the slice or honed was cut short: a later slice cannot
 * measure such a gain again, so this stays until the file changes), note (the processor alone is faster than
 * this device, or null),
 * missing, promise, next_s (until its next slice), error, lasting (it failed, and honed tries again only when
 * its file has changed or honed.conf was read again), level, threads (null: as hone tune chooses)}],
 * models_left (models that had no room); jobs
 * [{job, model (name), device, pid, state ("waiting", "starting", "running", "resting", "stopping"), lease,
 * wants, leases (how many it has had), task (from 1; 0: none yet), ntasks, trials, before_ms, now_ms, left_s,
 * label}]; inhibits
 * [{name, why, since_s (ago), left_s}]; flash {today_bytes, limit_bytes (a day), written_bytes (since honed
 * started), of the cache and the marks}; sync {next_s} */
void honed_status(const struct honed *h, int64_t now_ns, struct buf *out);
/* Writes the text format of Prometheus, each metric with HELP and TYPE (configs/grafana/hone.json shows
 * them). Gauges: hone_info{version,mode} (1), hone_ready, hone_gate_open, hone_gate_reason{why} (a row for
 * each gate_word, 1 for the current one), hone_temperature_celsius, hone_headroom_celsius, hone_load_ratio
 * (of others), hone_model_ready{model}, hone_model_before_seconds{model}, hone_model_now_seconds{model},
 * hone_model_promise_ratio{model}, hone_model_missing_kernels{model}, hone_jobs, hone_clients, hone_inhibits,
 * hone_cache_generation, hone_cache_failed, hone_flash_limit_bytes (a day), hone_flash_today_bytes. Counters:
 * hone_jobs_started_total, hone_jobs_failed_total, hone_trials_total, hone_yields_total, hone_tainted_total,
 * hone_leases_total{kind}, hone_flash_written_bytes_total. A value that is not known has no row. The rows of
 * a model on another device than the processor have a label device, too. */
void honed_metrics(const struct honed *h, int64_t now_ns, struct buf *out);

#endif
