/* SPDX-License-Identifier: Apache-2.0 */
/* What a life of the scenario runner (tests/lib/scenario.h) consists of. */
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

struct leash { /* a job; its leash is what a search sees of it */
	struct life *life;
	pthread_t thread;
	bool alive, mine; /* the thread lives; it has its turn */
	enum job_waits waits;
	int64_t due_ns,
	    left_ns; /* JOB_PASS: when; what is left while it rests. JOB_REPLY: until when at most */
	int number, client, model;
	bool rests, killed, stops;
	int64_t yield_ns; /* told to at; 0: it was not, or may go on */
	volatile sig_atomic_t stop;
	int64_t end_ns, next_id;
	char reply[600];
	enum lease lease;
	int ncpus, cpus[BOARD_CPUS];
	struct vitals before;
	bool spoilt; /* something happened to what it measures now */
	uint64_t put[LIFE_KEYS];
	/* its runner */
	struct runner r;
	struct clock clock;
	struct rng rng;
	int64_t h[JOB_HANDLES];
	int rc; /* it ended with */
};

struct kept { /* the payload of a record */
	uint64_t number;
	int64_t ns;
};

struct commit {
	int64_t ticket, due_ns;
	uint64_t put[LIFE_KEYS]; /* the numbers that were put by then */
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
	int first, n; /* actions that wait */
	bool working;
	struct commit commit[64];
	int ncommits;
	uint64_t puts, put[LIFE_KEYS],
	    durable[LIFE_KEYS]; /* of each key: the newest; the newest acknowledged */
	int nfiles;
	struct inhibit_file {
		char name[80], text[300];
	} file[LIFE_FILES];
	int clients; /* numbers given */
	int wakeups;
	/* what was met, for the sums */
	int boxes, skipped, kills, cuts, spoilt, taken, refused, yields, ended, exhausted;
};

/* An event, and all that comes of it at once. */
static inline void life_tell(struct life *l, struct honed_event e);

#endif
