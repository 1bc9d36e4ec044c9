/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates from outside of the space on the simulator: while one of them is the best, the best candidate of
 * the space is handed over beside it. */
#include "search/job.h"
#include "tests/lib/sim_runner.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

#define OFFER "library=x/1.0@00 parts=1"

/* An offer is built as this candidate and takes `factor` of its time. */
static char built_as[CAND_MAX];
static double factor;
static bool is_offer[SIM_HANDLES];
static struct runner_ops ops;
static const struct runner_ops *sim_ops;

static int build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns, int *handle,
		 struct meas *m)
{
	bool offer = !strcmp(cand, OFFER);
	int rc = sim_ops->build(r, task, offer ? built_as : cand, deadline_ns, handle, m);
	if (rc >= 0 && *handle >= 0)
		is_offer[*handle] = offer;
	return rc;
}

static int time_all(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns, unsigned how,
		    int64_t deadline_ns, struct meas *m)
{
	int rc = sim_ops->time(r, handles, n, rounds, abort_ns, how, deadline_ns, m);
	for (int i = 0; i < n && rc >= 0; i++)
		if (is_offer[handles[i]]) {
			m[i].min_ns = (int64_t)((double)m[i].min_ns * factor);
			m[i].median_ns = (int64_t)((double)m[i].median_ns * factor);
		}
	return rc;
}

struct saved {
	char best[CAND_MAX], own[CAND_MAX], first[CAND_MAX]; /* first: the first own one */
	int owns;
};

static int sink(void *ctx, int task, bool best, const char *cand, const struct meas *m, struct blob code)
{
	struct saved *s = ctx;
	CHECK(task == 0 && m->status == MEAS_OK && code.n > 0);
	if (best)
		snprintf(s->best, sizeof s->best, "%s", cand);
	return E_OK;
}

static int sink_own(void *ctx, int task, const char *cand, const struct meas *m, struct blob code)
{
	struct saved *s = ctx;
	CHECK(task == 0 && m->status == MEAS_OK && m->median_ns > 0 && code.n > 0);
	CHECK(strcmp(cand, OFFER) != 0 && !strcmp(s->best, OFFER));
	snprintf(s->own, sizeof s->own, "%s", cand);
	if (!s->owns)
		snprintf(s->first, sizeof s->first, "%s", cand);
	s->owns++;
	return E_OK;
}

static void find_default(const struct sim_runner *s, const char *text)
{
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct space *sp;
	const struct space_want want = {.threads = 1};
	CHECK_OK(task_parse(text, t));
	CHECK_OK(space_make(&a, t, &s->t, &want, &sp));
	space_default(sp, built_as);
	arena_free(&a);
}

/* Time of a candidate without noise. */
static int64_t true_ns(struct sim_runner *s, const char *text, const char *cand)
{
	int handle;
	struct meas m = {0};
	dev_sim_reset(0, 1, 0);
	CHECK_OK(sim_ops->build(&s->r, text, cand, INT64_MAX, &handle, &m));
	if (m.status == MEAS_OK)
		CHECK_OK(sim_ops->time(&s->r, &handle, 1, 1, 0, 0, INT64_MAX, &m));
	return m.min_ns;
}

/* One box of 3 s. own: of an earlier box, whose best was the offer; NULL: there was none. */
static void search(uint64_t seed, double noise, double speed, const char *own, struct saved *out,
		   int64_t *own_ns, int64_t *default_ns)
{
	static const char *const offer[] = {OFFER};
	struct job_result result;
	struct job_task task = {.text = task_pointwise,
				.label = "task",
				.uses = 1,
				.noffers = 1,
				.offer = offer,
				.incumbent = own ? OFFER : NULL,
				.own = own};
	struct sim_runner *s = sim_open(seed, noise);
	struct job j = {.ntasks = 1,
			.task = &task,
			.search.seed = seed,
			.limits.deadline_ns = 3 * NS_PER_S,
			.limits.offer_ns = NS_PER_S,
			.limits.stop = &s->stop,
			.calls.ctx = out,
			.calls.sink = sink,
			.calls.sink_own = sink_own};
	memset(out, 0, sizeof *out);
	factor = speed;
	sim_ops = s->r.ops;
	ops = *sim_ops;
	ops.build = build;
	ops.time = time_all;
	s->r.ops = &ops;
	find_default(s, task.text);
	CHECK(job_run(&j, &s->r, &result) > 1);
	CHECK(!strcmp(result.best, out->best));
	*own_ns = out->own[0] ? true_ns(s, task.text, out->own) : 0;
	*default_ns = true_ns(s, task.text, built_as);
	sim_ops->close(&s->r);
}

TEST(the_best_of_the_space_is_kept_beside_an_offer)
{
	int faster = 0, races = 0;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct saved s;
		int64_t own_ns, default_ns;
		search(seed, 0.02, 0.7, NULL, &s, &own_ns, &default_ns);
		CHECK(!strcmp(s.best, OFFER));
		CHECK(s.owns > 0 && own_ns > 0);
		CHECK((double)own_ns <= 1.02 * (double)default_ns);
		faster += own_ns < default_ns;
		races += s.owns > 1;
		if (test_bad)
			printf("seed %d: own %lld ns, default %lld ns, kept %d times\n", (int)seed,
			       (long long)own_ns, (long long)default_ns, s.owns);
	}
	CHECK(faster >= 4); /* what is kept was searched for: it is not the default */
	CHECK(races > 0);
}

/* The next box does not begin anew: what the last one kept stays until another one wins a race. */
TEST(the_best_of_an_earlier_box_stays)
{
	struct saved s, next;
	int64_t own_ns, default_ns, next_ns;
	uint64_t seed = 0;
	do
		search(++seed, 0.02, 0.9, NULL, &s, &own_ns, &default_ns);
	while (own_ns == default_ns && seed < 6);
	CHECK(s.own[0] && own_ns < default_ns);
	search(seed + 10, 0.02, 0.9, s.own, &next, &next_ns, &default_ns);
	CHECK(!strcmp(next.best, OFFER) && !strcmp(next.first, s.own));
	CHECK((double)next_ns <= 1.02 * (double)own_ns);
}

TEST(a_slow_offer_changes_nothing)
{
	struct saved s;
	int64_t own_ns, default_ns;
	search(1, 0.02, 3, NULL, &s, &own_ns, &default_ns);
	CHECK(strcmp(s.best, OFFER) != 0 && !s.owns);
}

TEST_MAIN
