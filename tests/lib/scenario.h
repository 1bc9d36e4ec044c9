/* SPDX-License-Identifier: Apache-2.0 */
/* The scenario runner: honed's own decisions (agent/honed/honed.h), the real cache and real searches over a
 * virtual board, flash and clock. It carries out honed's actions, as agent/honed/honed_loop.c does on a
 * board, and checks honed's laws (honed.h) meanwhile.
 *
 * Jobs are threads, of which one runs at a time; the others wait for virtual time to pass or for honed to
 * answer. The simulator tells a candidate's time (tests/lib/sim_truth.h). */
#ifndef TESTS_SCENARIO_H
#define TESTS_SCENARIO_H

#include "tests/lib/scenario_job.h"
#include "tests/lib/silent.h"

static inline struct leash *life_job(struct life *l, int number)
{
	for (int i = 0; i < LIFE_JOBS; i++)
		if (l->job[i].alive && l->job[i].number == number)
			return &l->job[i];
	return NULL;
}

static inline void life_act(void *ctx, const struct honed_action *a)
{
	struct life *l = ctx;
	int i = (l->first + l->n++) % LIFE_ACTIONS;
	if (l->n > LIFE_ACTIONS)
		abort();
	l->action[i] = *a;
	l->text[i] = a->text ? strdup(a->text) : NULL;
	l->called[i] = a->name ? strdup(a->name) : NULL;
	for (int k = 0; k < a->ncpus && k < BOARD_CPUS; k++)
		l->cpus[i][k] = a->cpus[k];
	l->bytes[i] = a->payload.n ? memcpy(malloc(a->payload.n), a->payload.p, a->payload.n) : NULL;
	if (a->kind == HA_MARKS)
		l->marks = *a->marks;
}

static inline void act_send(struct life *l, const struct honed_action *a, const char *text)
{
	for (int i = 0; i < LIFE_JOBS; i++) {
		struct leash *j = &l->job[i];
		if (!j->alive || j->client != a->client)
			continue;
		if (!strstr(text, "\"event\""))
			snprintf(j->reply, sizeof j->reply, "%s", text);
		else if (strstr(text, "\"stop\"") || strstr(text, "\"go on\"")) {
			j->stop |= strstr(text, "\"stop\"") != NULL;
			j->yield_ns = 0;
		} else if (strstr(text, "\"yield\"")) {
			l->yields++;
			j->spoilt = true;
			j->yield_ns = l->board.now_ns;
		}
	}
}

static inline void act_look(struct life *l, const struct honed_action *a, const char *text)
{
	struct vitals v;
	(void)a, (void)text;
	virtual_board_vitals(&l->board, &v);
	life_tell(l, (struct honed_event){.kind = HE_VITALS,
					  .vitals = &v,
					  .own_ns = (int64_t)(l->board.own_s * 1e9),
					  .minute = virtual_board_minute(&l->board)});
}

static inline void act_start(struct life *l, const struct honed_action *a, const char *text);

static inline void job_rest(struct leash *j, bool rest)
{
	int64_t now_ns = j->life->board.now_ns;
	if (rest == j->rests)
		return;
	j->rests = rest;
	if (rest)
		j->left_ns = j->due_ns - now_ns;
	else if (j->waits == JOB_PASS)
		j->due_ns = now_ns + j->left_ns;
	j->spoilt |= rest;
}

/* Kills at once; the job's thread ends at its next turn. */
static inline void job_kill(struct leash *j)
{
	j->killed = true;
	j->stop = 1;
	j->rests = false;
}

static inline void act_signal(struct life *l, const struct honed_action *a, const char *text)
{
	struct leash *j = life_job(l, a->job);
	(void)text;
	if (j && (a->signal == SIGSTOP || a->signal == SIGCONT))
		job_rest(j, a->signal == SIGSTOP);
	if (j && (a->signal == SIGTERM || a->signal == SIGINT))
		j->stop = 1;
	if (j && a->signal == SIGKILL)
		job_kill(j);
}

static inline int life_key(struct key k)
{
	return (int)k.lo;
}

static inline void act_put(struct life *l, const struct honed_action *a, const char *text)
{
	struct kept kept;
	(void)text;
	CHECK(a->payload.n == sizeof kept && life_key(a->key) < LIFE_KEYS);
	int rc = cache_put(l->cache, (enum cache_type)a->type, a->key, a->payload.p, a->payload.n);
	CHECK(rc >= 0 || rc == E_IO);
	memcpy(&kept, a->payload.p, sizeof kept);
	l->put[life_key(a->key)] = kept.number;
}

static inline void act_commit(struct life *l, const struct honed_action *a, const char *text)
{
	(void)text;
	if (l->ncommits == 64)
		abort();
	int64_t takes_ns = (1 + rng_below(&l->rng, 20)) * NS_PER_MS;
	if (rng_below(&l->rng, 40) == 0)
		takes_ns = 700 * NS_PER_MS; /* an SD card that erases blocks */
	if (l->ncommits)                    /* commits run one after the other */
		takes_ns += l->commit[l->ncommits - 1].due_ns - l->board.now_ns;
	struct commit *c = &l->commit[l->ncommits++];
	*c = (struct commit){.ticket = a->ticket, .due_ns = l->board.now_ns + takes_ns};
	memcpy(c->put, l->put, sizeof c->put);
}

static inline void act_glance(struct life *l, const struct honed_action *a, const char *text)
{
	struct vitals v;
	(void)a, (void)text;
	virtual_board_vitals(&l->board, &v);
	v.has &= VITAL_THROTTLE | VITAL_CLOCK;
	life_tell(l, (struct honed_event){.kind = HE_GLANCE, .vitals = &v, .minute = -1});
}

/* Keeps the inhibit files that honed asks for. */
static inline void act_inhibit(struct life *l, const struct honed_action *a, const char *text)
{
	CHECK(a->name[0] && !strchr(a->name, '/') && a->name[0] != '.');
	int i = 0;
	while (i < l->nfiles && strcmp(l->file[i].name, a->name))
		i++;
	if (text && i < LIFE_FILES) {
		snprintf(l->file[i].name, sizeof l->file[i].name, "%s", a->name);
		snprintf(l->file[i].text, sizeof l->file[i].text, "%s", text);
		l->nfiles += i == l->nfiles;
	}
	if (!text && i < l->nfiles)
		l->file[i] = l->file[--l->nfiles];
}

static inline void act_reload(struct life *l, const struct honed_action *a, const char *text)
{
	(void)a, (void)text;
	bool bad = rng_below(&l->rng, 2);
	life_tell(l, (struct honed_event){.kind = HE_CONF,
					  .conf = bad ? NULL : &l->conf,
					  .rc = bad ? E_USAGE : 0,
					  .text = bad ? "honed.conf:3: no such key" : NULL,
					  .nmodels = l->conf.nmodels,
					  .model = l->known});
}

static inline void act_close(struct life *l, const struct honed_action *a, const char *text)
{
	(void)text;
	life_tell(l, (struct honed_event){.kind = HE_GONE, .client = a->client});
}

static inline void act_leave(struct life *l, const struct honed_action *a, const char *text)
{
	(void)a, (void)text;
	l->left = true;
	for (int i = 0; i < LIFE_JOBS; i++)
		CHECK(!l->job[i].alive);
}

static inline void life_do(struct life *l, const struct honed_action *a, const char *text)
{
	static void (*const act[])(struct life *, const struct honed_action *, const char *) = {
	    [HA_SEND] = act_send,     [HA_CLOSE] = act_close,   [HA_LOOK] = act_look,
	    [HA_GLANCE] = act_glance, [HA_START] = act_start,   [HA_SIGNAL] = act_signal,
	    [HA_PUT] = act_put,       [HA_COMMIT] = act_commit, [HA_INHIBIT] = act_inhibit,
	    [HA_RELOAD] = act_reload, [HA_LEAVE] = act_leave,
	};
	if ((size_t)a->kind < sizeof act / sizeof *act && act[a->kind])
		act[a->kind](l, a, text);
}

static inline void life_tell(struct life *l, struct honed_event e)
{
	honed_event(l->honed, l->board.now_ns, &e);
	if (l->working)
		return;
	l->working = true;
	while (l->n) {
		int i = l->first;
		l->first = (i + 1) % LIFE_ACTIONS;
		l->n--;
		struct honed_action a = l->action[i];
		a.payload.p = l->bytes[i];
		a.cpus = l->cpus[i];
		a.name = l->called[i];
		life_do(l, &a, l->text[i]);
		free(l->text[i]);
		free(l->called[i]);
		free(l->bytes[i]);
	}
	l->working = false;
}

static inline void act_start(struct life *l, const struct honed_action *a, const char *text)
{
	struct leash *j = l->job;
	(void)text;
	CHECK(!life_job(l, a->job));
	while (j->alive)
		if (++j == l->job + LIFE_JOBS)
			abort();
	*j = (struct leash){.life = l,
			    .alive = true,
			    .number = a->job,
			    .client = ++l->clients,
			    .model = (int)(a->model - l->model),
			    .device = a->model->device,
			    .end_ns = l->board.now_ns + a->budget_ns,
			    .due_ns = l->board.now_ns,
			    .waits = JOB_PASS,
			    .ncpus = a->ncpus,
			    .clock = clock_virtual(l->board.now_ns)};
	CHECK(a->ncpus > 0 && a->ncpus <= BOARD_CPUS && j->model >= 0 && j->model < LIFE_MODELS);
	for (int i = 0; i < a->ncpus; i++)
		j->cpus[i] = a->cpus[i];
	rng_seed(&j->rng, rng_u64(&l->rng));
	j->stops = rng_below(&l->rng, 3) > 0;
	if (pthread_create(&j->thread, NULL, job_main, j))
		abort();
	life_tell(l, (struct honed_event){
			 .kind = HE_STARTED, .job = a->job, .pid = 1000 + a->job, .client = j->client});
}

/* ---- time ---- */

static inline int64_t job_due(const struct leash *j)
{
	if (!j->alive)
		return INT64_MAX;
	if (j->killed)
		return 0;
	if (j->rests)
		return INT64_MAX;
	return j->waits == JOB_REPLY && j->reply[0] ? 0 : j->due_ns;
}

static inline int64_t life_next(const struct life *l)
{
	int64_t next_ns = honed_wakeup(l->honed);
	next_ns = l->board.next_ns < next_ns ? l->board.next_ns : next_ns;
	for (int i = 0; i < l->ncommits; i++)
		next_ns = l->commit[i].due_ns < next_ns ? l->commit[i].due_ns : next_ns;
	for (int i = 0; i < LIFE_JOBS; i++)
		next_ns = job_due(&l->job[i]) < next_ns ? job_due(&l->job[i]) : next_ns;
	return next_ns;
}

static inline void life_pass(struct life *l, int64_t to_ns)
{
	int working = 0;
	for (int i = 0; i < LIFE_JOBS; i++)
		working += l->job[i].alive && !l->job[i].rests && l->job[i].waits == JOB_PASS;
	int64_t throttled = l->board.throttled, dt_ns = to_ns - l->board.now_ns;
	bool holds[2] = {false, false};
	for (int i = 0; i < LIFE_JOBS; i++)
		if (l->job[i].alive && !l->job[i].rests && l->job[i].lease)
			holds[l->job[i].device != NULL] = true;
	l->lease_ns[0] += holds[0] ? dt_ns : 0;
	l->lease_ns[1] += holds[1] ? dt_ns : 0;
	l->both_ns += holds[0] && holds[1] ? dt_ns : 0;
	for (int i = 0; i < LIFE_JOBS; i++) { /* law 4 */
		const struct leash *j = &l->job[i];
		CHECK(!j->alive || !j->yield_ns || j->rests || j->stop ||
		      to_ns <= j->yield_ns + HONED_YIELD_NS);
	}
	if (dt_ns > 0)
		virtual_board_pass(&l->board, dt_ns, working);
	for (int i = 0; i < LIFE_JOBS; i++)
		l->job[i].spoilt |= throttled != l->board.throttled && (l->board.has & VITAL_THROTTLE);
}

static inline void life_turns(struct life *l)
{
	for (int i = 0; i < LIFE_JOBS; i++) {
		struct leash *j = &l->job[i];
		if (job_due(j) > l->board.now_ns)
			continue;
		life_turn(l, j);
		if (j->alive)
			continue;
		l->ended++;
		life_tell(l, (struct honed_event){.kind = HE_GONE, .client = j->client});
		life_tell(l, (struct honed_event){.kind = HE_ENDED,
						  .job = j->number,
						  .rc = j->rc,
						  .text = j->rc < 0 ? "signal 9" : NULL});
	}
}

static inline void life_stored(struct life *l)
{
	struct commit c = l->commit[0];
	memmove(l->commit, l->commit + 1, sizeof c * (size_t)--l->ncommits);
	int rc = cache_commit(l->cache);
	CHECK(rc >= 0 || rc == E_IO);
	life_tell(l, (struct honed_event){.kind = HE_STORED,
					  .ticket = c.ticket,
					  .rc = rc,
					  .text = rc < 0 ? err_text() : NULL,
					  .generation = cache_generation(l->cache)});
}

/* Does everything that is due now. */
static inline void life_step(struct life *l)
{
	while (l->ncommits && l->commit[0].due_ns <= l->board.now_ns)
		life_stored(l);
	if (l->board.next_ns <= l->board.now_ns) {
		const char *file = l->board.file;
		virtual_board_change(&l->board);
		flash.full = l->board.full;
		if (file != l->board.file)
			life_tell(l, (struct honed_event){.kind = HE_INHIBIT, .text = l->board.file});
	}
	life_turns(l);
	if (!l->left && honed_wakeup(l->honed) <= l->board.now_ns) {
		l->wakeups++;
		life_tell(l, (struct honed_event){.kind = HE_TIMER});
	}
}

/* Runs until until_ns, or until honed has left. */
static inline void life_run(struct life *l, int64_t until_ns)
{
	int stuck = 0;
	while (!l->left && !test_bad) {
		int64_t next_ns = life_next(l);
		if (next_ns > until_ns)
			break;
		stuck = next_ns > l->board.now_ns ? 0 : stuck + 1;
		CHECK(stuck < 10000); /* else it repeats an action forever */
		life_pass(l, next_ns);
		life_step(l);
		for (int i = 0; l->mode == HONED_BOX && i < LIFE_JOBS; i++)
			CHECK(!l->job[i].alive || l->board.now_ns <= l->box_end_ns + LATE_NS); /* law 1 */
	}
	if (!l->left)
		life_pass(l, until_ns);
}

/* ---- power ---- */

static inline void life_check_kept(struct life *l)
{
	struct arena a = {0};
	for (int i = 0; i < LIFE_KEYS; i++) {
		struct blob b = {0};
		struct kept kept = {0};
		int rc = cache_get(l->cache, CACHE_TRIALS, (struct key){.lo = (uint64_t)i}, &a, &b);
		if (rc >= 0 && b.n == sizeof kept)
			memcpy(&kept, b.p, sizeof kept);
		CHECK(kept.number >= l->durable[i]); /* law 2 */
		l->put[i] = kept.number;
	}
	arena_free(&a);
}

/* Starts honed. */
static inline void life_begin(struct life *l, enum honed_mode mode, int64_t box_ns)
{
	const struct cache_options co = {.cap_bytes = 256 << 10, .segment_bytes = 64 << 10, .seeds = ""};
	REQUIRE_OK(cache_open_with(&l->cache, l->dir, CACHE_WRITE, 0, &co));
	life_check_kept(l);
	l->mode = mode;
	l->box_end_ns = l->board.now_ns + box_ns;
	l->left = false;
	struct honed_options o = {.mode = mode,
				  .conf = &l->conf,
				  .marks = l->marks,
				  .now_ns = l->board.now_ns,
				  .box_ns = l->box_end_ns,
				  .ncpus = BOARD_CPUS,
				  .cpus = {0, 1, 2, 3},
				  .cache = l->dir,
				  .ctx = l,
				  .act = life_act};
	REQUIRE_OK(honed_open(&o, &l->honed));
	for (int i = 0; i < l->nfiles; i++)
		life_tell(l, (struct honed_event){
				 .kind = HE_KEPT, .name = l->file[i].name, .text = l->file[i].text});
	if (l->board.file)
		life_tell(l, (struct honed_event){.kind = HE_INHIBIT, .text = l->board.file});
	life_tell(l, (struct honed_event){.kind = HE_START,
					  .nmodels = l->conf.nmodels,
					  .model = l->known,
					  .minute = virtual_board_minute(&l->board)});
}

/* Ends honed: cleanly after HA_LEAVE, else by a kill or a power cut at this point. */
static inline void life_end(struct life *l, bool power_cut)
{
	flash.dead = !l->left;
	for (int i = 0; i < LIFE_JOBS; i++)
		if (l->job[i].alive) {
			job_kill(&l->job[i]);
			life_turn(l, &l->job[i]);
			CHECK(!l->job[i].alive);
		}
	honed_close(l->honed);
	l->honed = NULL;
	if (flash.dead || flash.full)
		close_silently(l->cache);
	else
		cache_close(l->cache);
	l->ncommits = l->n = 0;
	flash_restart(&l->rng, power_cut);
}

#endif
