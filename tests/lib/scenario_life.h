/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a life of the scenario runner (tests/lib/scenario.h). */
#ifndef TESTS_SCENARIO_LIFE_H
#define TESTS_SCENARIO_LIFE_H

#include "agent/cache/cache.h"
#include "agent/honed/honed.h"
#include "agent/control/leash.h"
#include "search/job.h"
#include "tests/lib/scenario_board.h"
#include "tests/lib/scenario_flash.h"
#include "tests/lib/sim_truth.h"

#include <jansson.h>
#include <pthread.h>
#include <signal.h>

enum {
	LIFE_MODELS = 4,
	LIFE_JOBS = 16,
	LIFE_KEYS = LIFE_MODELS * NTASKS,
	LIFE_ACTIONS = 256,
	JOB_HANDLES = 64,
	LIFE_FILES = 32
};
#define LATE_NS (20 * NS_PER_MS)

struct life;

enum job_waits { JOB_TURN, JOB_PASS, JOB_REPLY, JOB_OVER };

struct leash { /* a job, which its search uses as a leash */
	struct life *life;
	pthread_t thread;
	bool alive, mine; /* the thread lives; it has its turn */
	enum job_waits waits;
	int64_t due_ns, left_ns; /* JOB_PASS: its end, and the rest while stopped. JOB_REPLY: its deadline */
	int number, client, model;
	const char *device; /* NULL: the processor */
	bool rests, killed, stops;
	int64_t yield_ns; /* when honed told it to yield; 0: not now */
	volatile sig_atomic_t stop;
	int64_t end_ns, next_id;
	char reply[600];
	enum lease lease;
	int ncpus, cpus[BOARD_CPUS];
	struct vitals before;
	bool spoilt; /* its measurement will not count */
	uint64_t put[LIFE_KEYS];
	/* the runner of its search */
	struct runner r;
	struct clock clock;
	struct rng rng;
	int64_t h[JOB_HANDLES];
	int rc; /* exit code */
};

struct kept { /* the payload of a record */
	uint64_t number;
	int64_t ns;
};

struct commit {
	int64_t ticket, due_ns;
	uint64_t put[LIFE_KEYS]; /* put before the request */
};

struct life {
	struct virtual_board board;
	struct rng rng;
	struct conf conf;
	struct conf_model model[LIFE_MODELS];
	char name[LIFE_MODELS][16];
	struct honed_model known[LIFE_MODELS];
	const char *dir;
	struct marks marks;
	struct honed *honed; /* NULL: power is off */
	enum honed_mode mode;
	int64_t box_end_ns;
	bool left;
	struct cache *cache;
	struct leash job[LIFE_JOBS];
	pthread_mutex_t lock;
	pthread_cond_t turn;
	struct honed_action action[LIFE_ACTIONS];
	char *text[LIFE_ACTIONS], *called[LIFE_ACTIONS];
	int cpus[LIFE_ACTIONS][BOARD_CPUS];
	void *bytes[LIFE_ACTIONS];
	int first, n; /* the queue of actions */
	bool working;
	struct commit commit[64];
	int ncommits;
	uint64_t puts, put[LIFE_KEYS],
	    durable[LIFE_KEYS]; /* newest number of each key that was put, and that honed acknowledged */
	int nfiles;
	struct inhibit_file {
		char name[80], text[300];
	} file[LIFE_FILES];
	int clients; /* number of the last one */
	int wakeups;
	/* virtual time with a lease: of the processor's jobs, of those of other devices, of both at once */
	int64_t lease_ns[2], both_ns;
	/* counts for the summary */
	int boxes, skipped, kills, cuts, spoilt, taken, refused, yields, ended, exhausted;
};

/* Gives honed an event, and carries out all actions that follow. */
static inline void life_tell(struct life *l, struct honed_event e);

#endif
