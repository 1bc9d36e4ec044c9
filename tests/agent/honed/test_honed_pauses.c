/* SPDX-License-Identifier: Apache-2.0 */
/* Random inhibits, resumes and stops while honed's jobs run. A job's own clock runs on while it is stopped, so
 * its budget may end meanwhile: such a job has not failed. SEED=N: only that round; PAUSES=N: so many rounds. */
#include "platform/base/rng.h"
#include "tests/lib/honed_board.h"

#include <stdlib.h>

#define READING_NS (1500 * NS_PER_MS) /* a job that ran for less time has not read its model yet */

struct job {
	int number; /* 0: none */
	int64_t end_ns, ran_ns, told_ns;
	bool stopped, rested;
};

struct round {
	struct board *b;
	struct rng rng;
	struct job job;
	int line;              /* lines of the board that were read */
	int jobs, cut, failed; /* cut: jobs whose budget ended before they had read their model */
	bool file, client;     /* which inhibits there are */
};

static void job_ends(struct round *r, int rc, const char *text)
{
	int number = r->job.number;
	r->job = (struct job){0};
	board_ended(r->b, number, rc, text);
}

/* Does what honed's actions say. */
static void heed(struct round *r)
{
	while (r->line < r->b->nlines) {
		const char *line = r->b->line[r->line++];
		int job, n;
		if (sscanf(line, "start %d a %d", &job, &n) == 2) {
			CHECK(!r->job.number);
			r->jobs++;
			r->job = (struct job){.number = job, .end_ns = r->b->now_ns + n * NS_PER_MS};
			board_started(r->b, job);
		} else if (sscanf(line, "signal %d %d", &job, &n) == 2 && job == r->job.number) {
			r->job.stopped = n == SIGSTOP;
			r->job.rested |= n == SIGSTOP;
			if (n == SIGKILL)
				job_ends(r, E_CHILD, "killed");
		} else if (strstr(line, "\"event\":\"stop\"") && !r->job.told_ns) {
			r->job.told_ns = r->b->now_ns;
		}
		r->failed += strstr(line, "log model a: ") != NULL;
	}
}

static void job_runs(struct round *r, int64_t ns)
{
	struct job *j = &r->job;
	int64_t now_ns = r->b->now_ns;
	if (!j->number || j->stopped)
		return;
	j->ran_ns += ns;
	bool over = now_ns >= j->end_ns || (j->told_ns && now_ns >= j->told_ns + 100 * NS_PER_MS);
	if (over && j->ran_ns < READING_NS && !j->told_ns) {
		r->cut++;
		job_ends(r, E_CHILD, "the box ended while the model was read");
	} else if (over) {
		int number = j->number;
		*j = (struct job){0};
		board_done(r->b, number, 6, 5, 1, .1);
	} else if (rng_below(&r->rng, 8) == 0) {
		board_ask(r->b, 1000 + j->number, "{\"op\":\"progress\",\"before_ms\":6.1,\"now_ms\":2.9}");
	}
}

static void somebody_acts(struct round *r)
{
	switch (rng_below(&r->rng, 12)) {
	case 0:
		r->file = !r->file;
		board_event(r->b, (struct honed_event){.kind = HE_INHIBIT, .text = r->file ? "a file" : NULL});
		break;
	case 1:
	case 2:
		board_ask(r->b, 2, r->client ? "{\"op\":\"resume\"}" : "{\"op\":\"inhibit\",\"why\":\"the arm moves\"}");
		r->client = !r->client;
		break;
	case 3:
		board_ask(r->b, 2, "{\"op\":\"inhibit\",\"why\":\"for a while\",\"ms\":700}");
		break;
	default:
		break;
	}
}

static struct round play(uint64_t seed, enum honed_mode mode, int64_t ns)
{
	struct round r = {.b = board_new(mode, 1)};
	const int64_t step_ns = 50 * NS_PER_MS;
	rng_seed(&r.rng, seed);
	r.b->conf.slice_ns = (2 + (int64_t)rng_below(&r.rng, 6)) * NS_PER_S;
	r.b->conf.gate.settle_ns = NS_PER_S;
	int64_t end_ns = r.b->now_ns + ns;
	bool stops = mode == HONED_BOX && rng_below(&r.rng, 4) == 0;
	board_start(r.b);
	board_connect(r.b, 2, 900);
	while (!r.b->left && r.b->now_ns < end_ns && r.b->nlines < BOARD_LINES - 100 && !test_bad) {
		heed(&r);
		job_runs(&r, step_ns);
		heed(&r);
		if (rng_below(&r.rng, 6) == 0)
			somebody_acts(&r);
		if (stops && rng_below(&r.rng, 200) == 0)
			board_event(r.b, (struct honed_event){.kind = HE_STOP});
		heed(&r);
		CHECK(!strstr(board_status(r.b), "\"state\":\"failed\""));
		board_run(r.b, step_ns);
	}
	heed(&r);
	CHECK(!r.failed);
	if (mode == HONED_BOX) {
		CHECK(r.b->left && !r.job.number);
		CHECK(r.b->now_ns <= r.b->o.box_ns + step_ns);
		CHECK(r.b->marks.unclean == 0);
	}
	return r;
}

static void rounds(enum honed_mode mode, int64_t ns, int n, int *jobs, int *cut)
{
	const char *only = getenv("SEED"), *most = getenv("PAUSES");
	uint64_t seed = only ? strtoull(only, NULL, 0) : 1;
	uint64_t end = only ? seed + 1 : seed + (uint64_t)(most ? atoi(most) : n);
	for (; seed < end && !test_bad; seed++) {
		struct round r = play(seed, mode, ns);
		*jobs += r.jobs;
		*cut += r.cut;
		if (test_bad)
			printf("SEED=%llu\n", (unsigned long long)seed);
		board_free(r.b);
	}
}

TEST(a_box_that_is_paused)
{
	int jobs = 0, cut = 0;
	rounds(HONED_BOX, 21 * NS_PER_S, 150, &jobs, &cut);
	CHECK(jobs > 100 || getenv("SEED"));
}

TEST(slices_that_are_paused)
{
	int jobs = 0, cut = 0;
	rounds(HONED_RESIDENT, 60 * NS_PER_S, 100, &jobs, &cut);
	CHECK((jobs > 300 && cut > 10) || getenv("SEED"));
}

/* A job that fails while its budget lasts has failed, also if it rested. */
TEST(a_failure_after_a_rest_is_one)
{
	struct board *b = board_new(HONED_RESIDENT, 1);
	board_start(b);
	board_connect(b, 2, 900);
	board_run(b, 20 * NS_PER_S);
	CHECK(board_says(b, "start 1 a 30000"));
	board_started(b, 1);
	board_event(b, (struct honed_event){.kind = HE_INHIBIT, .text = "a file"});
	board_run(b, 5 * NS_PER_S);
	board_event(b, (struct honed_event){.kind = HE_INHIBIT});
	board_run(b, 8 * NS_PER_S);
	board_ended(b, 1, E_CHILD, "it crashed");
	CHECK(board_says(b, "log model a: it crashed") && strstr(board_status(b), "\"state\":\"failed\""));
	board_free(b);
}

TEST_MAIN
