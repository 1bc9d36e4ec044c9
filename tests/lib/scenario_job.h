/* SPDX-License-Identifier: Apache-2.0 */
/* A job of a life: a real search in a thread of its own, which runs when it has its turn. Its leash keeps the
 * real leash's contract over virtual time. */
#ifndef TESTS_SCENARIO_JOB_H
#define TESTS_SCENARIO_JOB_H

#include "tests/lib/scenario_life.h"

/* Waits until the job has its turn again. */
static inline void job_wait(struct leash *j, enum job_waits waits)
{
	j->waits = waits;
	j->mine = false;
	pthread_cond_broadcast(&j->life->turn);
	while (!j->mine)
		pthread_cond_wait(&j->life->turn, &j->life->lock);
}

static inline void life_turn(struct life *l, struct leash *j)
{
	j->waits = JOB_TURN;
	j->mine = true;
	pthread_cond_broadcast(&l->turn);
	while (j->mine)
		pthread_cond_wait(&l->turn, &l->lock);
	if (j->waits == JOB_OVER) {
		pthread_mutex_unlock(&l->lock);
		pthread_join(j->thread, NULL);
		pthread_mutex_lock(&l->lock);
		j->alive = false;
	}
}

/* Lets virtual time pass; false: the job was killed. */
static inline bool job_pass(struct leash *j, int64_t ns)
{
	if (j->killed)
		return false;
	j->due_ns = j->life->board.now_ns + ns;
	job_wait(j, JOB_PASS);
	j->clock.virtual_ns = j->life->board.now_ns;
	return !j->killed;
}

static inline void job_sleep(struct clock *c, int64_t ns)
{
	struct leash *j = (struct leash *)((char *)c - offsetof(struct leash, clock));
	(void)(ns > 0 && job_pass(j, ns));
}

static inline void job_say(struct leash *j, struct request *q, struct blob payload)
{
	q->has_id = true;
	q->id = ++j->next_id;
	j->reply[0] = 0;
	life_tell(j->life, (struct honed_event){
			       .kind = HE_REQUEST, .client = j->client, .request = q, .payload = payload});
}

/* The reply to q; NULL: none yet. Drops a late reply to an earlier request. */
static inline json_t *job_reply(struct leash *j, const struct request *q)
{
	json_t *reply = j->reply[0] ? json_loads(j->reply, 0, NULL) : NULL;
	CHECK(reply || !j->reply[0]);
	j->reply[0] = 0;
	if (!reply || json_integer_value(json_object_get(reply, "id")) == q->id)
		return reply;
	json_decref(reply);
	return NULL;
}

/* Sends a request and returns its reply, which the caller frees; NULL: none by the deadline, or the job was
 * killed. */
static inline json_t *job_ask(struct leash *j, struct request q, struct blob payload, int64_t deadline_ns)
{
	if (j->killed)
		return NULL;
	job_say(j, &q, payload);
	json_t *reply = job_reply(j, &q);
	while (!reply && !j->killed && j->life->board.now_ns < deadline_ns) {
		j->due_ns = deadline_ns;
		job_wait(j, JOB_REPLY);
		reply = j->killed ? NULL : job_reply(j, &q);
	}
	j->clock.virtual_ns = j->life->board.now_ns;
	return reply;
}

static inline bool is_true(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

/* Checks that leases that exclude each other are never held at once. */
static inline void check_alone(const struct leash *j)
{
	for (int i = 0; i < LIFE_JOBS; i++) {
		const struct leash *o = &j->life->job[i];
		if (!o->alive || o == j || !o->lease || o->rests)
			continue;
		bool shares = o->device && j->device && !strcmp(o->device, j->device);
		for (int k = 0; k < o->ncpus; k++)
			for (int n = 0; n < j->ncpus; n++)
				shares |= o->cpus[k] == j->cpus[n];
		/* a spoilt measurement will not count, so its job only computes */
		enum lease other = o->spoilt ? LEASE_COMPUTE : o->lease;
		bool measure = other > LEASE_COMPUTE && j->lease > LEASE_COMPUTE;
		bool quiet = other == LEASE_QUIET || j->lease == LEASE_QUIET;
		bool alone = (other == LEASE_QUIET && !o->device) || (j->lease == LEASE_QUIET && !j->device);
		CHECK(!alone && !(quiet && measure));
		CHECK(!shares || (other == LEASE_COMPUTE && j->lease == LEASE_COMPUTE));
	}
}

int leash_lease(struct leash *j, enum lease kind, int64_t deadline_ns)
{
	json_t *reply = job_ask(j, (struct request){.op = OP_LEASE, .lease = kind, .stops = j->stops},
				(struct blob){0}, deadline_ns);
	bool good = is_true(reply, "ok");
	json_decref(reply);
	if (!good) /* honed may still grant it */
		json_decref(job_ask(j, (struct request){.op = OP_RELEASE}, (struct blob){0}, INT64_MAX));
	if (!good)
		return j->stop || j->killed ? fail(E_STOPPED, "told to stop")
					    : fail(E_TIMEOUT, "no lease in time");
	j->lease = kind;
	j->spoilt = false;
	check_alone(j);
	virtual_board_vitals(&j->life->board, &j->before);
	return E_OK;
}

int leash_release(struct leash *j, const char **taint)
{
	struct vitals after;
	*taint = "it was killed";
	virtual_board_vitals(&j->life->board, &after);
	const char *own = vitals_taint(&j->before, &after);
	bool counts = j->lease > LEASE_COMPUTE, spoilt = j->spoilt;
	j->lease = LEASE_NONE; /* its measurement is over */
	json_t *reply = job_ask(j, (struct request){.op = OP_RELEASE}, (struct blob){0}, INT64_MAX);
	if (!reply)
		return fail(E_STOPPED, "killed");
	const json_t *said = json_object_get(reply, "tainted");
	CHECK(json_is_string(said) || json_is_false(said));
	*taint = json_is_string(said) ? "honed says so" : own;
	json_decref(reply);
	CHECK(!counts || !spoilt || *taint); /* law 3 */
	j->life->spoilt += counts && *taint;
	j->life->taken += counts && !*taint;
	return E_OK;
}

bool leash_held(const struct leash *j)
{
	(void)j;
	return true;
}

static inline int job_put(struct leash *j, int key, int64_t ns)
{
	struct kept kept = {.number = ++j->life->puts, .ns = ns};
	struct request q = {
	    .op = OP_PUT, .type = CACHE_TRIALS, .key = {.lo = (uint64_t)key}, .bytes = sizeof kept};
	json_t *reply = job_ask(j, q, (struct blob){&kept, sizeof kept}, INT64_MAX);
	bool good = is_true(reply, "ok");
	json_decref(reply);
	if (good)
		j->put[key] = kept.number;
	return j->killed ? E_STOPPED : E_OK;
}

/* Commits; what the job put before is durable once honed says so. */
static inline void job_commit(struct leash *j)
{
	json_t *reply = job_ask(j, (struct request){.op = OP_COMMIT}, (struct blob){0}, INT64_MAX);
	struct life *l = j->life;
	for (int i = 0; reply && is_true(reply, "ok") && i < LIFE_KEYS; i++)
		if (j->put[i] > l->durable[i])
			l->durable[i] = j->put[i];
	l->refused += reply && !is_true(reply, "ok");
	json_decref(reply);
}

/* ---- its search ---- */

static inline int dies(struct leash *j)
{
	memset(j->h, 0, sizeof j->h);
	return j->killed || !job_pass(j, 5 * NS_PER_MS) ? fail(E_STOPPED, "killed")
							: fail(E_CHILD, "the worker died");
}

static inline int run_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns,
			    int *handle, struct meas *m)
{
	struct leash *j = (struct leash *)((char *)r - offsetof(struct leash, r));
	*handle = -1;
	*m = (struct meas){.status = MEAS_OK};
	int64_t left_ns = deadline_ns - j->clock.virtual_ns,
		takes_ns = (20 + rng_below(&j->rng, 140)) * NS_PER_MS;
	if (!job_pass(j, takes_ns < left_ns ? takes_ns : left_ns))
		return fail(E_STOPPED, "killed");
	if (j->clock.virtual_ns >= deadline_ns)
		return fail(E_TIMEOUT, "the deadline passed");
	if (rng_below(&j->rng, 300) == 0)
		return dies(j);
	int64_t cost_ns = true_cost(task, cand);
	if (cost_ns < 0)
		m->status = (enum meas_status)(-cost_ns);
	for (int i = 0; i < JOB_HANDLES && m->status == MEAS_OK && *handle < 0; i++)
		if (!j->h[i])
			j->h[ *handle = i] = cost_ns;
	return m->status == MEAS_OK && *handle < 0 ? fail(E_NOMEM, "too many kernels are kept") : E_OK;
}

static inline enum ahead run_ahead(struct runner *r, const char *task, const char *cand)
{
	(void)r, (void)task, (void)cand;
	return AHEAD_NOT;
}

/* Boards are slower than the simulator, so that measuring takes a realistic share of a box. */
#define SLOWER 3000

/* Times are noisy; all their virtual time passes at once. */
static inline int run_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns,
			   unsigned how, int64_t deadline_ns, struct meas *m)
{
	struct leash *j = (struct leash *)((char *)r - offsetof(struct leash, r));
	int64_t *t = malloc(sizeof *t * (size_t)rounds), sum_ns = 0;
	(void)how;
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < rounds; k++)
			sum_ns += t[k] =
			    (int64_t)((double)j->h[handles[i]] * exp(0.01 * rng_normal(&j->rng))) + 1;
		m[i] = (struct meas){.status = MEAS_OK};
		if (abort_ns && t[0] > abort_ns)
			m[i] = (struct meas){.status = MEAS_ABORTED, .min_ns = t[0]};
		else
			sim_summary(t, rounds, &m[i]);
	}
	free(t);
	int64_t left_ns = deadline_ns - j->clock.virtual_ns, takes_ns = SLOWER * sum_ns;
	if (!job_pass(j, takes_ns < left_ns ? takes_ns : left_ns))
		return fail(E_STOPPED, "killed");
	return j->clock.virtual_ns >= deadline_ns ? fail(E_TIMEOUT, "the deadline passed") : E_OK;
}

static inline int run_code(struct runner *r, int handle, int64_t deadline_ns, struct arena *a,
			   struct blob *out)
{
	(void)r, (void)handle, (void)deadline_ns, (void)a;
	*out = (struct blob){.p = "code", .n = 4};
	return E_OK;
}

static inline void run_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	struct leash *j = (struct leash *)((char *)r - offsetof(struct leash, r));
	(void)deadline_ns;
	for (int i = 0; i < JOB_HANDLES; i++)
		if (handle < 0 || handle == i)
			j->h[i] = 0;
}

static inline void run_close(struct runner *r)
{
	(void)r;
}

static inline int job_sink(void *ctx, int task, bool best, const char *cand, const struct meas *m,
			   struct blob code)
{
	struct leash *j = ctx;
	(void)cand, (void)code;
	int rc = best ? job_put(j, j->model * NTASKS + task, m->median_ns) : E_OK;
	if (rc >= 0 && best && rng_below(&j->rng, 3) == 0)
		job_commit(j);
	return rc < 0 ? fail(rc, "killed") : E_OK;
}

static inline void job_done(struct leash *j, const struct job_result *result, int n, int trials)
{
	double ms = 0, promise = rng_below(&j->rng, 3) ? 0.2 * rng_unit(&j->rng) : 0;
	int missing = 0;
	for (int i = 0; i < n; i++) {
		ms += (double)result[i].best_ns / 1e6;
		missing += !result[i].best[0];
	}
	j->life->exhausted += promise <= 0;
	if (!j->killed)
		job_say(j,
			&(struct request){.op = OP_DONE,
					  .trials = trials,
					  .before_ms = 2 * ms,
					  .default_ms = ms,
					  .now_ms = ms,
					  .missing = missing,
					  .promise = promise},
			(struct blob){0});
}

static inline int job_search(struct leash *j, struct job_result *result)
{
	static const struct runner_ops ops = {run_build, run_ahead, run_ahead, run_time,
					      run_code,  run_drop,  run_close};
	struct job_task task[NTASKS];
	struct runner *r;
	j->r = (struct runner){.ops = &ops, .clock = &j->clock, .target = &sim->t, .threads = 1};
	for (int i = 0; i < NTASKS; i++)
		task[i] = (struct job_task){.text = texts[i], .label = "task", .uses = 1};
	const struct job job = {.ntasks = NTASKS,
				.task = task,
				.search.seed = 1 + (uint64_t)j->model % 3,
				.search.strategy = "random",
				.limits.deadline_ns = j->end_ns - 60 * NS_PER_MS,
				.limits.quick = true,
				.limits.stop = &j->stop,
				.calls.ctx = j,
				.calls.sink = job_sink};
	int rc = runner_leashed(&j->r, j, &r);
	if (rc < 0)
		return rc;
	rc = job_run(&job, r, result);
	r->ops->close(r);
	return rc;
}

static inline void *job_main(void *arg)
{
	struct leash *j = arg;
	struct job_result result[NTASKS] = {0};
	const char *taint;
	pthread_mutex_lock(&j->life->lock);
	while (!j->mine)
		pthread_cond_wait(&j->life->turn, &j->life->lock);
	j->clock.sleep = job_sleep;
	j->clock.virtual_ns = j->life->board.now_ns;
	int trials = -1;
	if (leash_lease(j, LEASE_COMPUTE, j->end_ns) >= 0 && job_pass(j, 30 * NS_PER_MS) &&
	    leash_release(j, &taint) >= 0)
		trials = job_search(j, result);
	if (trials >= 0 && leash_lease(j, LEASE_QUIET, j->end_ns - 20 * NS_PER_MS) >= 0) {
		job_pass(j, 10 * NS_PER_MS);
		(void)!leash_release(j, &taint);
	}
	if (trials >= 0) {
		job_commit(j);
		job_done(j, result, NTASKS, trials);
	}
	j->rc = trials < 0 ? E_CHILD : 0;
	j->waits = JOB_OVER;
	j->mine = false;
	pthread_cond_broadcast(&j->life->turn);
	pthread_mutex_unlock(&j->life->lock);
	return NULL;
}

#endif
