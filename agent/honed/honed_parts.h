/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of honed's decisions (agent/honed/honed.h); not for others. */
#ifndef AGENT_HONED_PARTS_H
#define AGENT_HONED_PARTS_H

#include "agent/control/gate.h"
#include "agent/honed/honed.h"
#include "agent/control/policy.h"
#include "platform/base/log.h"

#define LOOK_NS (50 * NS_PER_MS) /* longest time between looks while a job runs */
/* after so long without a look, what was seen before says nothing about now */
#define GAP_NS (2 * NS_PER_S)
#define STEADY_NS (100 * NS_PER_MS)
#define FRESH_NS (500 * NS_PER_MS) /* an older verdict starts nothing */
#define STOP_NS (2 * NS_PER_S)     /* from "stop" to SIGKILL */
#define SAVING_NS (10 * NS_PER_S)  /* added to STOP_NS while the job's commit is under way */
#define LOST_NS NS_PER_S           /* after SIGKILL; then its lease is freed even if it is not dead yet */
#define OVER_NS (10 * NS_PER_S)    /* a job that exceeds its budget by so much is told to stop */
#define SAY_NS (500 * NS_PER_MS)   /* between lines for the service manager */
#define STALE_NS NS_PER_S          /* a status looks at the board first if the last look is older */
#define WATCH_NS NS_PER_S
#define METRICS_NS (10 * NS_PER_S)
#define MARKS_NS (600 * NS_PER_S) /* between writes of marks in which only promises changed */
/* what a write of the marks counts in the day's limit: a block of flash */
#define MARKS_BYTES 4096
#define PAUSE_NS (10 * NS_PER_S)
#define PAUSE_MOST_NS (3600 * NS_PER_S)
#define STORE_PAUSE_NS (60 * NS_PER_S)
#define GROWN_NS (5 * NS_PER_S) /* roughly the time until a job has allocated its memory */
#define DAY_NS (86400 * NS_PER_S)
/* of a box: with less time left, a model that has its kernels is not tuned further */
#define MORE_NS (3 * NS_PER_S)
#define NEVER INT64_MAX
#define LONG_AGO (INT64_MIN / 4)
#define PROMISE_LEAST 0.001 /* a smaller promise counts as none */
#define WON_LEAST 0.005     /* share of the run time; a slice that gained less gained nothing */
/* bytes that a job takes, roughly, if the configuration does not say */
#define JOB_BYTES (INT64_C(512) << 20)
enum { INHIBITS = 32, INHIBITS_OF_USER = 8, BROKEN_MOST = 8, FAILS_MOST = 3, UNTRIED_MOST = 3 };

/* A reply that a client still waits for. */
struct ask {
	bool is, has_id;
	int64_t id;
};

struct client {
	int id;
	int job; /* slot, -1: none */
	uid_t uid;
	pid_t pid;
	int64_t heard_ns, told_ns;
	struct ask wait, reload, status;
	unsigned seen; /* the revision that it was last told about */
	bool owner : 1, watches : 1, closing : 1;
	bool brings : 1, syncs : 1; /* has the right to sync; has sent `sync` */
	unsigned char broken;
};

enum job_state { JOB_NONE, JOB_QUEUED, JOB_STARTING, JOB_RUNNING };
enum job_rest { REST_NOT, REST_TOLD, REST_STOPPED };
enum job_end {
	END_NOT,
	END_LEAVING,  /* the box or the daemon ends */
	END_CANCELED, /* a client canceled it, or its model is no longer configured */
	END_ROOM,     /* it made room for a job that somebody asked for */
	END_RESTED,   /* it rested for too long */
	END_MEMORY,
	END_OVER, /* it exceeded its budget */
	END_HUNG,
	END_GONE, /* its connection ended */
};

/* There is a gate for each: VIEW_ALL has the limits of idle tuning, VIEW_HARD those that also hold for boxes
 * and for jobs that people start. */
enum view_kind { VIEW_ALL, VIEW_HARD, VIEWS };

/* The time that a job rested because the gate was closed. */
struct resting {
	enum job_rest state;
	int64_t since_ns; /* of the current rest */
	int64_t total_ns; /* of the rests before */
};

/* Why a job is told to stop, and how far that is. */
struct ending {
	enum job_end why;
	int64_t kill_ns; /* 0: not yet told to stop */
	bool killed;
};

/* The lease that a job holds, and the one that it waits for. */
struct leased {
	enum lease held, wants;
	int64_t held_ns, wants_ns; /* since */
	struct ask ask, release;
	/* it waited for long because of an exclusive lease: it goes before the next one */
	bool pass;
	bool taken;      /* its lease was taken, and it does not know that yet */
	char taint[160]; /* why the lease that it holds, or that was taken from it, is tainted */
	struct vitals before;
	int64_t measured_ns, grants;
	int measures;
};

/* SIGSTOP, which a job gets while another has an exclusive lease. */
struct hushed {
	bool can;         /* the job said that SIGSTOP stops all of it */
	bool is;          /* stopped for another job's exclusive lease */
	int64_t at_ns;    /* since when it is hushed, or until when it was */
	int64_t total_ns; /* of the times before */
	bool stopped;     /* by SIGSTOP, for this or another reason */
};

/* State of the records that a job, or a connection that syncs, has put into the cache until they are
 * committed. */
struct saving {
	struct ask ask;
	int64_t ticket; /* the commit that it waits for; 0: the next */
	bool puts;      /* it has put something since the last commit began */
	bool writes;    /* the commit under way contains something that it put */
	bool lost;      /* some of what it put could not be kept */
	bool wins;      /* it has put a kernel's record since the last commit began */
	bool won;       /* it has put a kernel's record */
};

/* The last progress that a job reported. */
struct progress {
	bool done;
	bool lasting; /* it fails until the model's file or the configuration changes */
	int task, ntasks, trials;
	double before_ms, now_ms, left_ms;
	char label[64];
};

struct honed_job {
	enum job_state state;
	int number;
	int client, asker; /* -1: none. asker: the client that is told the result */
	int model;         /* index; -1: no configured model */
	struct key key;    /* of the model, when the job was made */
	bool ours;         /* its process is our child */
	bool people;       /* somebody asked for it */
	enum view_kind view;
	pid_t pid;
	uid_t uid;
	char name[64], *path;
	struct conf_model as; /* the model as requested, if none is configured, or with other shapes */
	char *shapes;         /* owned; as.shapes points into it */
	const char *shape[CONF_SHAPES];
	int threads;
	char device[CONF_DEVICE_NAME]; /* CONF_CPU, cpu:CLUSTER, opencl:N or cuda:N */
	uint64_t cpus;                 /* bit i: honed_options.cpus[i] */
	int64_t started_ns, budget_ns, heard_ns;
	struct resting resting;
	struct ending ending;
	struct leased lease;
	struct hushed hushed;
	struct saving saving;
	struct progress progress;
};

struct kept_model {
	const struct conf_model *conf;
	struct key key;
	bool known;  /* its file was looked at */
	bool boxed;  /* has all the kernels that can be made for it */
	bool box;    /* this box tunes it */
	bool bare;   /* never served */
	bool trying; /* the marks knew it before this box */
	double promise;
	/* before_ms: the network's first time; now_ms: before_ms, divided by what the slices since have
	 * gained; 0: not known. Until a slice was measured undisturbed (sure), both are provisional: they
	 * are scaled to a shorter time of the same kernels; then, once, to that slice's times. While a gain
	 * is lost, a shorter time at a slice's start is now_ms alone. */
	double before_ms, default_ms, now_ms;
	bool rough; /* a slice that gained was disturbed or cut short: the product of the gains is doubtful */
	bool lost;  /* a slice kept kernels and did not measure their gain; or the marks say rough */
	bool sure;
	/* A slice under way has kept records, and has not told what they gained. The marks then say rough,
	 * because they may be all that a restart finds. */
	bool open;
	int missing;
	struct key recipe;        /* that it needs, as its slices said; 0: not known */
	int64_t had_ns, waits_ns; /* total time of its slices; since when it could have had one */
	int64_t rest_until_ns, rest_step_ns;
	int64_t pause_until_ns, pause_step_ns;
	int fails, untried; /* in a row; untried: slices that said why they tried nothing */
	bool faulty;        /* examined when honed started, and not usable; no job has tried it yet */
	bool lasting; /* its last job failed, as the next ones would until its file changes or honed.conf is
			 read again */
	char refused[128], *error; /* error: of its last job, owned; NULL: none */
};

struct inhibit {
	char name[64], why[256];
	uid_t uid;
	int64_t since_ns; /* 0: an earlier honed got it */
	int64_t until_ns;
};

enum leaving { LEAVE_NOT, LEAVE_ENDING, LEAVE_STORING, LEAVE_LEFT };

/* honed_gate.c: what was last seen of the board, and what the gates make of it. */
struct look {
	struct gate gate[VIEWS];
	struct gate_verdict verdict[VIEWS];
	struct vitals vitals, glance;
	int64_t own_ns;
	int minute;
	/* when a look was last asked for, and when the last one came; LONG_AGO: never */
	int64_t asked_ns, seen_ns;
	int64_t steady_ns; /* start of the current series of looks without a gap */
	bool glancing;
};

/* honed_gate.c: who inhibits tuning. */
struct inhibits {
	char *file;
	int64_t file_ns; /* since when it is known */
	struct inhibit *list[INHIBITS];
	int n;
	unsigned number; /* of the last one */
};

/* honed_models.c: the models that are kept tuned. */
struct models {
	struct kept_model list[HONED_MODELS];
	int n;
	struct marks marks;
	bool marks_changed, marks_matter;
	int64_t marks_ns;
	bool boxing, skips;
};

/* honed_store.c: commits of the cache. */
struct commits {
	int64_t ticket;
	bool under_way, writes;     /* a commit is under way; and it has something to write */
	bool unsaved, last_due;     /* records are in memory only; the last commit is still to come */
	int64_t at_ns;              /* while unsaved: no commit before this time */
	int64_t prepare_ns;         /* since when the cache is being prepared; 0: it is ready */
	int64_t since_ns, takes_ns; /* start of the commit under way; the time that one takes */
	uint64_t generation;
	/* day_bytes: written before this day; below 0: written on it, but before honed started */
	int64_t written_bytes, day, day_bytes;
	int64_t marks_bytes; /* what the marks wrote besides, since honed started */
	char error[160];
	int64_t until_ns, step_ns; /* of the pause after an error */
	struct saving sync;        /* of the connection that syncs, one at a time */
	int sync_client;
};

/* honed_client.c: connections. */
struct clients {
	struct client *list;
	int n, room, last;
	int watchers, waiters, askers; /* askers: wait for a status until the board was looked at */
	int64_t asked_ns;
};

/* honed_status.c: what the service manager and the metrics were told. */
struct told {
	char conf_error[400]; /* of the last reload */
	char text[256];
	int64_t text_ns, metrics_ns;
	bool say, count;
};

struct counts {
	int64_t yields, tainted, slices, trials, fails, grants[LEASES];
};

struct honed {
	struct honed_options o;
	const struct conf *conf;
	const struct policy *policy;
	int64_t now_ns, opened_ns, wake_ns;
	bool started;
	enum leaving leaving;
	int64_t leave_ns, leave_by_ns; /* since when honed is leaving; when it leaves at the latest */
	struct buf out;                /* buffer for one reply */
	unsigned revision;
	struct look look;
	struct inhibits inhibits;
	struct honed_job job[HONED_JOBS];
	int job_number;
	int64_t worked_ns; /* of a box: when a job last ran */
	int lingerer;      /* slot of the job that last had all of the machine */
	int64_t linger_ns; /* until when the machine is kept for it */
	struct models models;
	struct commits commits;
	struct clients clients;
	struct told told;
	struct counts counts;
};

/* honed.c */
void honed_act(struct honed *h, const struct honed_action *a);
void honed_log(struct honed *h, int level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void honed_changed(struct honed *h); /* what people see has changed */
static inline void sooner(int64_t *at, int64_t t)
{
	if (t < *at)
		*at = t;
}

/* honed_gate.c */
void gate_reset(struct honed *h);
void gate_vitals(struct honed *h, const struct honed_event *e);
void gate_glance(struct honed *h, const struct honed_event *e);
void gate_file_inhibit(struct honed *h, const struct honed_event *e);
void gate_kept(struct honed *h, const struct honed_event *e);
int inhibit_add(struct honed *h, uid_t uid, const char *why, int64_t ms, const char **name);
int inhibits_remove(struct honed *h, uid_t uid, bool all, const char *name);
const char *gate_inhibited(const struct honed *h);
bool gate_lets_start(const struct honed *h, enum view_kind v);
void gate_tick(struct honed *h);
int64_t gate_next(const struct honed *h);
void gate_free(struct honed *h);

/* honed_models.c */
/* A label names a model and its device for people, as "a on opencl:0"; the device is left out if all models
 * are tuned on the processor. */
struct label {
	char text[96];
};
struct label model_label(const struct honed *h, const struct kept_model *m);
struct label job_label(const struct honed *h, const struct honed_job *j);
/* Configured models; one on several devices counts once. is NULL: all; else those for which it holds on each
 * of their devices. */
int models_count(const struct honed *h, bool (*is)(const struct kept_model *m));
bool model_is_outside(const struct kept_model *m); /* of this box */
bool model_is_served(const struct kept_model *m);  /* by this box, or it is outside */
bool model_is_refused(const struct kept_model *m);
void models_event(struct honed *h, const struct honed_event *e);
void models_fault(struct honed *h, const struct honed_event *e);
void models_read(struct honed *h, const struct conf *conf, int n, const struct honed_model *model);
void models_free(struct honed *h);
/* device: CONF_CPU, cpu:CLUSTER, opencl:N or cuda:N. threads < 0: any number. Returns -1: none */
int models_find(const struct honed *h, const char *path, const char *device, int threads);
bool model_wants(const struct kept_model *m); /* there may be something to gain */
bool model_may(const struct honed *h, int i); /* a slice of it may start now */
/* when one may start; NEVER: not known */
int64_t model_when(const struct honed *h, int i);
/* the model whose slice is next; -1: none that has a place on its device */
int models_next(const struct honed *h);
/* Whether the gain or the times are not certain. */
bool model_rough(const struct kept_model *m);
/* Returns the time in ms in which the processor alone runs the network of a device that is slower; 0: it is
 * not known to be slower. */
double model_processor_wins(const struct honed *h, const struct kept_model *m);
/* Takes the time of the network at the start of a slice; until the times are sure, a shorter one replaces a
 * longer one. */
void model_measured(struct honed *h, const struct honed_job *j, double ms);
void model_served(struct honed *h, int i, const struct honed_job *j, const struct request *done);
/* lasting: until its file or the configuration changes, no job is started for it. */
void model_failed(struct honed *h, int i, const char *text, bool lasting);
/* A job says by which key the cache has the recipe that its model needs; 0: it does not say it now. */
void model_needs_recipe(struct honed *h, const struct honed_job *j, struct key recipe);
/* The cache gets a recipe: its model may lack nothing else, and has a slice without a pause. */
void models_recipe(struct honed *h, struct key recipe);
/* Whether nothing more can be done now for any model: those that wait for ready models wait no longer. */
bool models_settled(const struct honed *h);
/* Whether, besides, no model was refused, or failed without ever having been served. */
bool models_ready(const struct honed *h);
bool model_ready(const struct honed *h, const struct kept_model *m);
void marks_save(struct honed *h);
/* Notes the present inventory of the cache, for which the marks are true. */
void marks_hold(struct honed *h, const struct inventory *holds);
/* The cache lost records: nothing that is known of kernels and times is true any more, and every model is
 * tuned again. Of jobs under way, what they say of kernels is not believed either. ticket: of the commit that
 * found it; 0: none. */
void models_lack(struct honed *h, int64_t ticket);
void marks_resumed(struct honed *h); /* an operator wants boxes again */
/* A commit begins that keeps records of the model's slice: the marks say before it that their gain is not
 * known. */
void model_opened(struct honed *h, int i);
/* The slice has ended without telling what its records gained. */
void model_gain_lost(struct honed *h, int i);

/* honed_store.c */
void store_event(struct honed *h, const struct honed_event *e);
/* s: of the job, or of the connection that syncs, that put something */
void store_unsaved(struct honed *h, struct saving *s);
/* s: of whoever waits for the commit; NULL: nobody */
void store_commit(struct honed *h, struct saving *s);
/* Ends the pause after an error: the reason may be mended. */
void store_retry(struct honed *h);
int64_t store_written(const struct honed *h); /* since honed started */
int64_t store_today(const struct honed *h);
bool store_lets_start(const struct honed *h, const char **why);
void store_tick(struct honed *h);
int64_t store_next(const struct honed *h);

/* honed_box.c */
void boot_start(struct honed *h);
bool boot_has_time(const struct honed *h); /* else no more jobs are started */
/* of the next job on the device: its share of the time that is left, while boot_has_time */
int64_t boot_budget(const struct honed *h, const char *device);
int64_t boot_left_ns(const struct honed *h); /* time that is left for jobs */
int64_t boot_tell_ns(const struct honed *h); /* when jobs are told to stop, so that the last commit fits */
void leave(struct honed *h, const char *why);
void boot_tick(struct honed *h);
int64_t boot_next(const struct honed *h);

/* honed_cores.c */
/* Number of cores that kernels for the device run on: of "cpu" those of the fastest cluster. */
int jobs_cores(const struct honed *h, const char *device);
int jobs_unused_cores(const struct honed *h, const char *device); /* of these */
/* Threads of a job that asks for so many (0: hone tune chooses): one on a device other than the processor,
 * and on "cpu:NAME" no more than the cluster has cores, because other cores' results are not its own. */
int jobs_threads(const struct honed *h, const char *device, int threads);
uint64_t jobs_cpus(const struct honed *h, const char *device, int threads);
/* Whether the jobs on the processor may leave no core for those on other devices, whose names `devices` gets;
 * false where there is one core only, which needs no words. */
bool jobs_share_cores(const struct honed *h, char *devices, size_t n);

/* honed_jobs.c */
void jobs_started(struct honed *h, const struct honed_event *e);
void jobs_ended(struct honed *h, const struct honed_event *e);
struct honed_job *job_of(struct honed *h, int number);
/* NULL: no free slot, or no memory */
struct honed_job *job_new(struct honed *h, int model, const char *path, const char *device);
void job_free(struct honed *h, struct honed_job *j);
/* Sends SIGSTOP or SIGCONT, whichever the job needs now. */
void job_settle(struct honed *h, struct honed_job *j);
void job_stop(struct honed *h, struct honed_job *j, enum job_end why);
void job_kill(struct honed *h, struct honed_job *j, enum job_end why);
void job_gone(struct honed *h, struct honed_job *j);
void job_done(struct honed *h, struct honed_job *j, const struct request *r);
bool job_lives(const struct honed_job *j); /* it has a process that we know of */
/* it tunes a configured model, whose file is still the one that it was started for */
bool job_serves(const struct honed *h, const struct honed_job *j);
int jobs_ours(const struct honed *h);
/* another job can start on the device: it has a place, and memory has room */
bool jobs_have_place(const struct honed *h, const char *device);
/* jobs that can still start on the device; *most: jobs at once on it */
int jobs_places(const struct honed *h, const char *device, int *most);
/* a job could start if the gate let it; *v: its view */
bool jobs_can_start(const struct honed *h, enum view_kind *v);
/* lets jobs rest and go on, as the gate says */
void jobs_rests(struct honed *h);
void jobs_tick(struct honed *h);
int64_t jobs_next(const struct honed *h);

/* honed_lease.c */
int lease_want(struct honed *h, struct honed_job *j, const struct request *r, const struct ask *ask);
void lease_release(struct honed *h, struct honed_job *j, const struct ask *ask);
void lease_taint(struct honed_job *j, const char *why);
void lease_drop(struct honed *h, struct honed_job *j,
		const char *why); /* why NULL: also withdraws the request that it waits for */
/* takes again the lease that was taken while it rested; false: not possible now */
bool lease_regain(struct honed *h, struct honed_job *j);
void lease_seen(struct honed *h, const struct vitals *v);
void lease_tick(struct honed *h);
int64_t lease_next(const struct honed *h);

/* honed_client.c */
struct client *client_of(struct honed *h, int id); /* NULL: none */
void clients_new(struct honed *h, const struct honed_event *e);
void clients_request(struct honed *h, const struct honed_event *e);
void clients_broken(struct honed *h, const struct honed_event *e);
void clients_gone(struct honed *h, const struct honed_event *e);
struct client *client_add(struct honed *h, int id, const struct peer *peer);
void client_send(struct honed *h, int id, const char *line);
void client_good(struct honed *h, int id, const struct ask *ask, const char *more);
void client_bad(struct honed *h, int id, const struct ask *ask, int rc, const char *text);
void clients_conf(struct honed *h, int rc, const char *text); /* answers reload requests */
void clients_tick(struct honed *h);
int64_t clients_next(const struct honed *h);

/* honed_status.c */
void status_tick(struct honed *h);
int64_t status_next(const struct honed *h);

#endif
