/* SPDX-License-Identifier: Apache-2.0 */
/* Drives agent/honed/honed.h on a board: libuv, files, children. The state machine's thread does everything
 * except writing the cache (agent/control/store.h).
 *
 * honed_loop.c: events, actions, the timer, signals; honed_loop_clients.c: connections; honed_loop_jobs.c:
 * children; honed_loop_socket.c: the control socket; honed_loop_look.c: looks at the board;
 * honed_loop_files.c: configuration, marks, inhibits, models, metrics; honed_loop_watch.c: watches folders
 * for changes. Only main_honed.c links them. */
#ifndef AGENT_HONED_LOOP_H
#define AGENT_HONED_LOOP_H

#include "agent/honed/honed.h"
#include "agent/control/store.h"
#include "platform/base/arena.h"
#include "platform/run/notify.h"
#include <uv.h>

struct loop_options {
	bool box, verbose;
	const char *conf, *socket, *sysroot, *state,
	    *run;          /* socket NULL: as configured; run, state: folders */
	const char *job;   /* the program that is started for a job */
	int64_t budget_ns; /* < 0: taken from the kernel's command line or the configuration */
};

enum { LOOP_KEPT = 64 };
#define OTHERS_NS (2 * NS_PER_S) /* time for a boot box that is about to end */

struct loop;
struct loop_conn;
struct loop_words;

struct loop_job {
	int number; /* 0: free slot */
	pid_t pid;  /* 0: it has ended and was reaped */
	int client;
	bool eof;                 /* its connection has ended, and all that it sent was read */
	int64_t by_ns;            /* when to stop waiting for the end of the process or of the connection */
	struct loop_words *words; /* its stderr; NULL: not read */
	int rc;
	char text[JOB_TEXT];
};

/* Requests of actions, carried out after the state machine has returned. */
struct loop_later {
	bool look, glance, reload, leave;
	int rc; /* exit status of leave */
	struct {
		int job, rc, client;
		pid_t pid;
		char text[JOB_TEXT];
	} started[HONED_JOBS]; /* rc < 0: could not be started */
	int nstarted;
};

struct loop_fault {     /* less than PIPE_BUF, so that the pipe holds whole ones */
	struct key key; /* of the model */
	char text[JOB_TEXT];
};

struct loop_pids { /* processes of the jobs, with their children and grandchildren */
	int n;
	pid_t pid[64];
};

struct loop {
	uv_loop_t uv;
	struct loop_options o;
	struct notify notify;
	struct honed *h;
	const struct conf *conf; /* in conf_arena */
	struct arena conf_arena;
	char *cache;
	struct key id; /* of the target and the worker; the models' keys depend on it */
	bool telling, over;
	int rc;
	struct loop_later later;

	uv_timer_t timer;
	/* when due; INT64_MAX: not due */
	int64_t ping_ns, metrics_ns, models_ns, rest_ns, accept_ns, cache_ns;
	bool metrics_changed;
	struct key metrics_written;
	uv_signal_t on_hup, on_term, on_int, on_child;

	struct store *store;
	struct inventory holds; /* what the cache has, as the store last told */
	uv_work_t work;
	bool working;
	bool names_cache; /* a thread is making the cache folder durable; until then no commit in it is */
	int64_t marks_ns; /* time that the last write or sync of the marks took */

	int listen_fd, spare_fd, lock_fd;
	bool bound; /* we made the socket's file */
	gid_t group;
	bool has_group;
	uv_poll_t accepts;
	uv_idle_t turn;
	struct loop_conn **conn;
	int nconns, room;
	int paused;
	size_t unread_bytes; /* sent but not yet read, of all clients */
	size_t lines_bytes;  /* of incomplete lines, of all clients */
	size_t coming_bytes; /* of payloads that are arriving */

	pid_t examiner; /* child that examines models at the start; <= 0: none */
	int faults_fd;  /* struct loop_fault of each model that it finds unusable; -1: it ended, or there is
			   none */
	uv_poll_t faults;
	struct loop_job job[HONED_JOBS];
	struct loop_pids tree;
	int64_t tree_ns, processes_ns, busy_ns, total_ns; /* at the last look */
	bool unit_looked;
	int unit; /* our control group's cpu.stat; -1: none */
	int64_t own_last_ns, own_lost_ns;

	struct vitals_reader *vitals;
	struct trigger *trigger[2];

	uv_poll_t changes; /* inotify */
	int changes_fd, inhibit_watch[2], cache_watch;
	int64_t looked_models_ns;
	struct honed_model model[HONED_MODELS];
	char refused[HONED_MODELS][160];

	int nkept;
	char kept[LOOP_KEPT][64]; /* names of inhibit files that honed knows of */
	struct key inhibited;     /* hash of what honed was last told about other inhibits */
	/* when to look for other inhibits: due (INT64_MAX: not due); not before this */
	int64_t inhibits_ns, inhibits_from_ns;
};

/* honed_loop.c. main sets these fields of *l first: o, notify, conf, cache, id, listen_fd, group. */
int loop_open(struct loop *l, const struct marks *marks) MUST_CHECK;
int loop_run(struct loop *l); /* returns the exit status */
void loop_close(struct loop *l);
int64_t loop_now(void);
void loop_tell(struct loop *l, const struct honed_event *e);
int loop_queue(struct loop *l, uv_work_t *w, uv_work_cb work, uv_after_work_cb after) MUST_CHECK;
void loop_arm(struct loop *l); /* sets the timer; call it after a deadline of *l changed */

/* honed_loop_socket.c. Locks the run folder, so that only one honed uses it; sets listen_fd and group. */
int loop_socket(struct loop *l) MUST_CHECK;
void loop_socket_close(struct loop *l);

/* honed_loop_clients.c */
int loop_listen(struct loop *l) MUST_CHECK;
void loop_accept_again(struct loop *l);
/* Adds the connection of a job that we start: our end of the pair. Returns the client, or < 0: enum err. */
int loop_adopt(struct loop *l, int fd, pid_t pid);
void loop_send(struct loop *l, int client, const char *text);
void loop_hang_up(struct loop *l, int client);
void loop_take_last(struct loop *l, int client); /* what a job that has ended left to read */
void loop_resume(struct loop *l);           /* clients that were paused because a buffer was full */
void loop_gone(struct loop *l, int client); /* sends HE_GONE and forgets the connection */
void loop_clients_close(struct loop *l);

/* honed_loop_jobs.c */
void loop_start(struct loop *l, const struct honed_action *a);
void loop_signal(struct loop *l, int job, int sig);
void loop_reap(struct loop *l);
/* In a child of `parent`, which is honed: closes what honed has open (a restarted honed would find its socket
 * and its lock taken), ends when honed ends, and takes the priority and the limits of a job. */
void loop_confine(pid_t parent, int64_t memory_bytes);
/* true: it was a job's; HE_GONE is sent when the job has ended */
bool loop_job_eof(struct loop *l, int client);
void loop_jobs_late(struct loop *l, int64_t now_ns);
int64_t loop_jobs_wakeup(const struct loop *l);
void loop_jobs_kill(struct loop *l);

/* honed_loop_look.c */
void loop_look(struct loop *l);
void loop_glance(struct loop *l);
void loop_look_close(struct loop *l);
void loop_pressure(struct loop *l, bool on); /* triggers are set only while there are jobs */

/* honed_loop_files.c */
int loop_conf(struct loop *l, const char *path) MUST_CHECK; /* reads it; if it is bad, the old one stays */
void loop_models_look(struct loop *l);                      /* fills model[] */
bool loop_models_changed(struct loop *l);
void loop_inhibit(struct loop *l, const char *name, const char *text);
void loop_kept(struct loop *l);      /* sends HE_KEPT for each kept inhibit file */
void loop_inhibited(struct loop *l); /* sends HE_INHIBIT if it changed */
void loop_reload(struct loop *l);
void loop_metrics(struct loop *l);
void loop_metrics_remove(const struct loop *l); /* they would still be read after honed has ended */
void loop_stored(struct loop *l); /* reports results of commits to the state machine */
void loop_marks(struct loop *l, const struct marks *m);

/* honed_loop_watch.c */
void loop_watch(struct loop *l); /* watches again, after the configuration was read */
/* Watches the cache's folder, if there is one: files that vanish from it are looked for (cache_ns). A box is
 * too short for that. */
void loop_watch_cache(struct loop *l);
void loop_watch_close(struct loop *l);
void loop_watch_pause(struct loop *l, bool on);

#endif
