/* SPDX-License-Identifier: Apache-2.0 */
/* Simulates a whole daemon on a virtual board (tests/lib/scenario.h): boots with a box, then hours of heat,
 * load, inhibits, crashes, a wall clock that jumps and a full flash, power cuts at any moment. LIVES=10000
 * runs more lives, SEED=n one of them. */
#include "tests/lib/scenario.h"

#include "platform/base/log.h"

#include <fcntl.h>
#include <ftw.h>

static char standard[NTASKS][CAND_MAX];

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind, (void)at;
	return remove(path);
}

static void configure(struct life *l)
{
	static const char *const policies[] = {"fifo", "gain", "fair", "shortest"};
	int n = 1 + (int)rng_below(&l->rng, LIFE_MODELS);
	for (int i = 0; i < n; i++) {
		snprintf(l->name[i], sizeof l->name[i], "m%d", i);
		l->model[i] = (struct conf_model){.name = l->name[i],
						  .path = l->name[i],
						  .device = rng_below(&l->rng, 3) ? NULL : "opencl:0",
						  .threads = 1 + 3 * (rng_below(&l->rng, 4) == 0),
						  .priority = (int)rng_below(&l->rng, 3)};
		l->known[i] = (struct honed_model){.key = {.hi = 1, .lo = rng_u64(&l->rng)}};
	}
	if (n > 1 && rng_below(&l->rng, 8) == 0)
		l->known[n - 1].refused = "no such file";
	l->conf = (struct conf){.policy = policies[rng_below(&l->rng, 4)],
				.boot_budget_ns = 2 * NS_PER_S,
				.boot_jobs = (int)rng_below(&l->rng, 4),
				.boot_unclean = 3,
				.idle = rng_below(&l->rng, 8) > 0,
				.slice_ns = 3 * NS_PER_S,
				.rest_ns = 600 * NS_PER_S,
				.gate = {.settle_ns = 2 * NS_PER_S},
				.jobs = 1 + (int)rng_below(&l->rng, 3),
				.nmodels = n,
				.model = l->model};
	if (rng_below(&l->rng, 4) == 0) {
		l->conf.gate.from_minute = 60;
		l->conf.gate.to_minute = 1400;
	}
}

/* Runs a box, to its end or to a power cut or kill within it. */
static void boot(struct life *l, bool unlucky)
{
	int64_t box_ns = (200 + rng_below(&l->rng, 2500)) * NS_PER_MS;
	int unclean = l->marks.unclean;
	life_begin(l, HONED_BOX, box_ns);
	if (test_bad)
		return;
	bool cut = rng_below(&l->rng, 4) < (unlucky ? 3 : 1), power = rng_below(&l->rng, 2);
	life_run(l, cut ? l->board.now_ns + (int64_t)(rng_unit(&l->rng) * (double)box_ns)
			: l->box_end_ns + LATE_NS);
	CHECK(l->left || cut); /* law 1 */
	l->boxes++;
	l->skipped += unclean >= l->conf.boot_unclean && l->left;
	l->cuts += !l->left && power;
	l->kills += !l->left && !power;
	life_end(l, power);
	l->board.now_ns += 5 * NS_PER_S;
}

static void kill_a_job(struct life *l)
{
	struct leash *j = &l->job[rng_below(&l->rng, LIFE_JOBS)];
	if (j->alive)
		job_kill(j);
}

static void hang_a_job(struct life *l)
{
	struct leash *j = &l->job[rng_below(&l->rng, LIFE_JOBS)];
	if (j->alive && j->waits == JOB_PASS && !j->rests)
		j->due_ns += 3600 * NS_PER_S;
}

static void change_a_model(struct life *l)
{
	l->known[rng_below(&l->rng, (uint32_t)l->conf.nmodels)].key.lo++;
	life_tell(l, (struct honed_event){.kind = HE_MODELS, .nmodels = l->conf.nmodels, .model = l->known});
}

/* Sends a random request from a client. */
static void ask_something(struct life *l)
{
	static const enum control_op ops[] = {OP_HELLO,   OP_STATUS, OP_WATCH, OP_WAIT,
					      OP_INHIBIT, OP_RESUME, OP_TUNE,  OP_CANCEL,
					      OP_RELOAD,  OP_LEASE,  OP_PUT,   OP_COMMIT};
	int client = ++l->clients;
	struct request q = {.op = ops[rng_below(&l->rng, sizeof ops / sizeof *ops)],
			    .has_id = true,
			    .id = 7,
			    .version = CONTROL_VERSION,
			    .text = "ready",
			    .model = "m0",
			    .job = (int64_t)rng_below(&l->rng, 5),
			    .ms = 1 + (int64_t)rng_below(&l->rng, 90000)};
	life_tell(l, (struct honed_event){.kind = HE_CLIENT,
					  .client = client,
					  .peer = {.pid = 9, .uid = 1000, .owner = rng_below(&l->rng, 2)}});
	if (q.op == OP_TUNE)
		q.op = OP_STATUS; /* its model would be none of these */
	life_tell(l, (struct honed_event){.kind = HE_REQUEST, .client = client, .request = &q});
	if (rng_below(&l->rng, 2))
		life_tell(l, (struct honed_event){.kind = HE_GONE, .client = client});
}

/* Runs minutes to hours of a resident daemon, then SIGTERM, a kill or a power cut. */
static void reside(struct life *l)
{
	static void (*const happen[])(struct life *) = {kill_a_job,    hang_a_job,    change_a_model,
							ask_something, ask_something, ask_something};
	life_begin(l, HONED_RESIDENT, 0);
	int n = 2 + (int)rng_below(&l->rng, 10);
	for (int i = 0; i < n && !test_bad && !l->left; i++) {
		life_run(l, l->board.now_ns +
				(int64_t)(virtual_board_pause_s(&l->board, rng_below(&l->rng, 4) ? 2 : 600) *
					  1e9));
		happen[rng_below(&l->rng, sizeof happen / sizeof *happen)](l);
	}
	int fate = (int)rng_below(&l->rng, 3);
	if (fate == 0 && !test_bad) {
		life_tell(l, (struct honed_event){.kind = HE_STOP});
		life_run(l, l->board.now_ns + 5 * NS_PER_S);
		CHECK(l->left);
	}
	l->kills += fate == 1;
	l->cuts += fate == 2;
	life_end(l, fate == 2);
	l->board.now_ns += 5 * NS_PER_S;
}

struct sums {
	int boxes, skipped, kills, cuts, spoilt, taken, refused, yields, ended, exhausted;
	double hours;
};

static void live(uint64_t seed, struct sums *s)
{
	static struct life l;
	char dir[64];
	snprintf(dir, sizeof dir, "%s/hone-life-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	REQUIRE(mkdtemp(dir));
	l = (struct life){.dir = dir, .lock = PTHREAD_MUTEX_INITIALIZER, .turn = PTHREAD_COND_INITIALIZER};
	flash.full = flash.dead = false;
	rng_seed(&l.rng, seed);
	virtual_board_open(&l.board, seed);
	configure(&l);
	pthread_mutex_lock(&l.lock);
	bool unlucky = rng_below(&l.rng, 6) == 0;
	for (int i = 0; i < (unlucky ? 6 : 2) && !test_bad; i++) {
		boot(&l, unlucky);
		if (!test_bad && !unlucky && rng_below(&l.rng, 2))
			reside(&l);
	}
	pthread_mutex_unlock(&l.lock);
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	s->boxes += l.boxes, s->skipped += l.skipped, s->kills += l.kills, s->cuts += l.cuts;
	s->spoilt += l.spoilt, s->taken += l.taken, s->refused += l.refused, s->yields += l.yields;
	s->ended += l.ended, s->exhausted += l.exhausted;
	s->hours += (double)l.board.now_ns / 3600e9;
	if (test_bad)
		printf("seed %llu\n", (unsigned long long)seed);
}

static uint64_t from_env(const char *name, uint64_t fallback)
{
	const char *s = getenv(name);
	return s && *s ? strtoull(s, NULL, 10) : fallback;
}

TEST(lives)
{
	struct sums s = {0};
	uint64_t one = from_env("SEED", 0), n = from_env("LIVES", 300);
	setenv("HONE_SEEDS", "", 1);
	log_level_set(LOG_QUIET);
	disk = &flash_disk;
	truth_open(standard);
	for (uint64_t i = one ? one : 1; i <= (one ? one : n) && !test_bad; i++)
		live(i, &s);
	disk = &disk_system;
	sim->r.ops->close(&sim->r);
	printf("%llu lives, %.0f virtual hours: %d boxes (%d skipped), %d kills, %d power cuts, %d jobs "
	       "ended, %d "
	       "measurements taken, %d thrown away, %d yields, %d commits refused, %d models exhausted\n",
	       (unsigned long long)(one ? 1 : n), s.hours, s.boxes, s.skipped, s.kills, s.cuts, s.ended,
	       s.taken, s.spoilt, s.yields, s.refused, s.exhausted);
	if (one || n < 300)
		return;
	CHECK(s.skipped && s.kills && s.cuts && s.taken && s.spoilt && s.yields && s.refused && s.exhausted);
}

/* A resident honed tunes a model on each of `device`, one job at a time on each device. Seconds of virtual
 * time: with leases of the processor's jobs, of the other device's, of both at once; and until each model had
 * its first slice. */
struct worked {
	double cpu_s, other_s, both_s, took_s;
};

static struct worked reside_with(const char *const *device, int ndevices, const char *policy)
{
	static struct life l;
	char dir[64];
	snprintf(dir, sizeof dir, "%s/hone-life-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(dir))
		abort();
	l = (struct life){.dir = dir, .lock = PTHREAD_MUTEX_INITIALIZER, .turn = PTHREAD_COND_INITIALIZER};
	flash.full = flash.dead = false;
	rng_seed(&l.rng, 5);
	virtual_board_open(&l.board, 5);
	l.board.has = 0;
	l.board.next_ns = INT64_MAX; /* nothing happens on this board */
	for (int i = 0; i < ndevices; i++) {
		snprintf(l.name[i], sizeof l.name[i], "m%d", i);
		l.model[i] = (struct conf_model){
		    .name = l.name[i], .path = l.name[i], .device = device[i], .threads = 1};
		l.known[i] = (struct honed_model){.key = {.hi = 1, .lo = (uint64_t)i}};
	}
	l.conf = (struct conf){.policy = policy,
			       .boot_unclean = 3,
			       .idle = true,
			       .slice_ns = 3 * NS_PER_S,
			       .rest_ns = NS_PER_S,
			       .gate = {.settle_ns = NS_PER_S},
			       .jobs = 1,
			       .nmodels = ndevices,
			       .model = l.model};
	pthread_mutex_lock(&l.lock);
	life_begin(&l, HONED_RESIDENT, 0);
	int64_t start_ns = l.board.now_ns;
	while (l.ended < ndevices && !test_bad && l.board.now_ns < start_ns + 60 * NS_PER_S)
		life_run(&l, l.board.now_ns + 50 * NS_PER_MS);
	double took_s = (double)(l.board.now_ns - start_ns) / 1e9;
	life_tell(&l, (struct honed_event){.kind = HE_STOP});
	life_run(&l, l.board.now_ns + 5 * NS_PER_S);
	CHECK(l.left);
	life_end(&l, false);
	pthread_mutex_unlock(&l.lock);
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return (struct worked){(double)l.lease_ns[0] / 1e9, (double)l.lease_ns[1] / 1e9,
			       (double)l.both_ns / 1e9, took_s};
}

/* With one job at a time on each device, the stages of two devices' jobs interleave: both are busy at once,
 * and done sooner than two models of one device, which take turns. The laws (leases that exclude each other)
 * are checked as in all lives. */
TEST(two_devices_are_busy_at_once)
{
	static const char *const two[] = {NULL, "opencl:0"}, *const other[] = {"opencl:0", "opencl:0"},
				 *const cpu[] = {NULL, NULL},
				 *const policies[] = {"fifo", "gain", "fair", "shortest"};
	setenv("HONE_SEEDS", "", 1);
	log_level_set(LOG_QUIET);
	disk = &flash_disk;
	truth_open(standard);
	for (int i = 0; i < 4 && !test_bad; i++) {
		struct worked a = reside_with(two, 2, policies[i]), b = reside_with(other, 2, policies[i]),
			      c = reside_with(cpu, 2, policies[i]);
		double less_s = a.cpu_s < a.other_s ? a.cpu_s : a.other_s;
		printf("%s: leases of the processor %.1f s, of another device %.1f s, at once %.1f s, both "
		       "served "
		       "after %.1f s; two models of that device %.1f s, of the processor %.1f s\n",
		       policies[i], a.cpu_s, a.other_s, a.both_s, a.took_s, b.took_s, c.took_s);
		CHECK(less_s > 1 && a.both_s > less_s / 2);
		CHECK(b.both_s == 0 && b.cpu_s == 0 && c.both_s == 0 && c.other_s == 0);
		CHECK(a.took_s < 0.8 * b.took_s && a.took_s < 0.8 * c.took_s);
	}
	disk = &disk_system;
	sim->r.ops->close(&sim->r);
}

TEST_MAIN
