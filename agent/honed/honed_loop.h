/* SPDX-License-Identifier: Apache-2.0 */
/* What drives agent/honed/honed.h on a board: libuv, files, children. The state machine's thread does
 * everything but the cache's writing (agent/control/store.h).
 *
 * honed_loop.c: events, actions, the timer, signals; honed_loop_clients.c: connections; honed_loop_jobs.c:
 * children; honed_loop_socket.c: where they come from; honed_loop_look.c: what the board tells;
 * honed_loop_files.c: configuration, marks, inhibits, models, metrics; honed_loop_watch.c: folders that
 * change. main_honed.c alone links them. */
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
	    *run;          /* socket NULL: as configured. run, state: folders */
	const char *job;   /* the program that jobs are */
	int64_t budget_ns; /* < 0: as the kernel's command line or the configuration says */
};

enum { LOOP_KEPT = 64 };

struct loop;
struct loop_conn;
struct loop_words;

struct loop_job {
	int number; /* 0: none */
	pid_t pid;  /* 0: it has ended, and was reaped */
	int client;
	bool eof;                 /* everything that it said was heard */
	int64_t by_ns;            /* one of the two is late: go on without it */
	struct loop_words *words; /* on stderr; NULL: nobody listens */
	int rc;
	char text[200];
};

/* What an action asks for, and is done once the state machine has returned. */
struct loop_later {
	bool look, glance, reload, leave;
	int rc; /* of leave */
	struct {
		int job, rc, client;
		pid_t pid;
		char text[200];
	} started[HONED_JOBS]; /* or not: rc < 0 */
	int nstarted;
};

struct loop_pids { /* of a job, its children and theirs */
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
	struct key id; /* of the target and the worker, on which models' keys depend */
	bool telling, over;
	int rc;
	struct loop_later later;

	uv_timer_t timer;
	int64_t ping_ns, metrics_ns, models_ns, rest_ns, accept_ns; /* INT64_MAX: not due */
	bool metrics_changed;
	struct key metrics_written;
	uv_signal_t on_hup, on_term, on_int, on_child;

	struct store *store;
	uv_work_t work;
	bool working;
	bool names_cache; /* the cache folder's name is not durable yet: nor is anything in it */
	int64_t marks_ns; /* that the last sync of a box's marks took */

	int listen_fd, spare_fd, lock_fd;
	bool bound; /* the socket's file is ours */
	gid_t group;
	bool has_group;
	uv_poll_t accepts;
	uv_idle_t turn;
	struct loop_conn **conn;
	int nconns, room;
	int paused;
	size_t unread_bytes; /* sent, and not taken yet, to all */
	size_t lines_bytes;  /* of lines that are not whole, of all */
	size_t coming_bytes; /* of payloads under way */

	struct loop_job job[HONED_JOBS];
	struct loop_pids tree;
	int64_t tree_ns, processes_ns, busy_ns, total_ns; /* of the last look */
	bool unit_looked;
	int unit; /* our control group's cpu.stat; -1: none */
	int64_t own_last_ns, own_lost_ns;

	struct vitals_reader *vitals;
	struct trigger *trigger[2];

	uv_poll_t changes; /* inotify */
	int changes_fd, inhibit_watch[2];
	int64_t looked_models_ns;
	struct honed_model model[HONED_MODELS];
	char refused[HONED_MODELS][160];

	int nkept;
	char kept[LOOP_KEPT][64];              /* inhibit files that honed knows of */
	struct key inhibited;                  /* what was told of others */
	int64_t inhibits_ns, inhibits_from_ns; /* when to look for them: due (INT64_MAX: not); not before */
};

/* honed_loop.c. What main filled in of *l: o, notify, conf, cache, id, listen_fd, group. */
int loop_open(struct loop *l, const struct marks *marks) MUST_CHECK;
int loop_run(struct loop *l); /* the exit status */
void loop_close(struct loop *l);
int64_t loop_now(void);
void loop_tell(struct loop *l, const struct honed_event *e);
int loop_queue(struct loop *l, uv_work_t *w, uv_work_cb work, uv_after_work_cb after) MUST_CHECK;
void loop_arm(struct loop *l); /* the timer, after a deadline of *l changed */

/* honed_loop_socket.c. Nothing else runs with this run folder; listen_fd, group. */
int loop_socket(struct loop *l) MUST_CHECK;
void loop_socket_close(struct loop *l);

/* honed_loop_clients.c */
int loop_listen(struct loop *l) MUST_CHECK;
void loop_accept_again(struct loop *l);
/* A connection of a job that we start: its end of the pair. < 0: enum err */
int loop_adopt(struct loop *l, int fd, pid_t pid);
void loop_send(struct loop *l, int client, const char *text);
void loop_hang_up(struct loop *l, int client);
void loop_resume(struct loop *l);           /* clients that were paused for want of room */
void loop_gone(struct loop *l, int client); /* HE_GONE, and the connection is forgotten */
void loop_clients_close(struct loop *l);

/* honed_loop_jobs.c */
void loop_start(struct loop *l, const struct honed_action *a);
void loop_signal(struct loop *l, int job, int sig);
void loop_reap(struct loop *l);
bool loop_job_eof(struct loop *l, int client); /* it was a job's: HE_GONE waits for its end */
void loop_jobs_late(struct loop *l, int64_t now_ns);
int64_t loop_jobs_wakeup(const struct loop *l);
void loop_jobs_kill(struct loop *l);

/* honed_loop_look.c */
void loop_look(struct loop *l);
void loop_glance(struct loop *l);
void loop_look_close(struct loop *l);
void loop_pressure(struct loop *l, bool on); /* triggers: only while jobs are there */

/* honed_loop_files.c */
int loop_conf(struct loop *l, const char *path) MUST_CHECK; /* reads it; a bad one leaves the old one */
void loop_models_look(struct loop *l);                      /* fills model[] */
bool loop_models_changed(struct loop *l);
void loop_inhibit(struct loop *l, const char *name, const char *text);
void loop_kept(struct loop *l);      /* HE_KEPT for each */
void loop_inhibited(struct loop *l); /* HE_INHIBIT */
void loop_reload(struct loop *l);
void loop_metrics(struct loop *l);
void loop_stored(struct loop *l); /* what came of commits goes to the decisions */
void loop_marks(struct loop *l, const struct marks *m);

/* honed_loop_watch.c */
void loop_watch(struct loop *l); /* anew, after the configuration was read */
void loop_watch_close(struct loop *l);
void loop_watch_pause(struct loop *l, bool on);

#endif
