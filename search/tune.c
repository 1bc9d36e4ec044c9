/* SPDX-License-Identifier: Apache-2.0 */
#include "search/tune_parts.h"

#include "platform/base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
	SLICE = 10,     /* candidates of a slice, */
	TWINS = 4,      /* and variations of the numbers of its two best structures */
	TWIN_TRIES = 8, /* for one that is new */
	TIRED = 200,    /* after so many known proposals in a row, nothing is left */
};

/* A candidate is raced when its fastest run is within 15 % of the incumbent's: noise hides no larger
 * difference. */
#define RACE_WITHIN 1.15
#define RACE_OWED 1.05 /* an untaken race is owed to a candidate that seems faster by this factor */
#define AT_ROOFLINE 1.03
#define NO_GAIN 0.005
#define DENSE 8 /* flops per byte */

/* Finds the default. Rules take their time, so a default that an earlier job of this box made is used
 * again. */
static void find_standard(struct tune *t)
{
	const struct job_result *e = t->task->earlier;
	if (e && space_legal(t->space, e->standard) >= 0)
		memcpy(t->result->standard, e->standard, CAND_MAX);
	else
		space_default(t->space, t->result->standard);
	t->standard = t->result->standard;
}

int tune_open(struct tune *t, struct box *b, const struct cost *cost, int index, struct job_result *result)
{
	struct arena scratch = {0};
	*t = (struct tune){
	    .box = b,
	    .task = &b->job->task[index],
	    .result = result,
	    .index = index,
	    .strategy = strategy_find(b->job->search.strategy ? b->job->search.strategy : STRATEGY_DEFAULT),
	    .best = -1,
	    .kept = -1,
	    .before_offer = -1,
	    .own = -1,
	    .known = -1};
	if (!t->strategy)
		return fail(E_USAGE, "unknown search strategy '%s'", b->job->search.strategy);
	/* A resumed search advances its random stream, or it would only draw candidates that it already
	 * knows. */
	uint64_t seed = share_seed(&b->job->search.share, b->job->search.seed);
	seed = (seed + (uint64_t)t->task->ntried * 7919) * 1000003 + (uint64_t)index;
	rng_seed(&t->rng, seed);
	t->luck = b->job->search.share.parts > 1 ? 1 / (1e-9 - log1p(-rng_unit(&t->rng))) : 1;
	struct task *task =
	    ARENA_NEW(&scratch, struct task); /* 120 KB, of which the space keeps what is in use */
	int rc = task_parse(t->task->text, task);
	enum level level = b->job->search.level;
	const struct space_want want = {.level = t->task->f32 ? level_f32(level) : level,
					.threads = b->runner->threads};
	if (rc >= 0)
		rc = space_make(&t->arena, task, b->runner->target, &want, &t->space);
	if (rc >= 0)
		t->dense = task_flops(task) > DENSE * task_bytes(task, true);
	arena_free(&scratch);
	t->guide = (struct guide){t->space, cost, share_portion(&b->job->search.share, t->task->text)};
	if (rc >= 0)
		rc = t->strategy->start(&t->arena, &t->guide, seed, &t->state);
	if (rc == E_NOMEM)
		return rc;
	if (rc < 0) {
		log_more("%s is not tuned: %s", t->task->label, err_text());
		t->end = SEARCH_FAILED;
		return E_OK;
	}
	find_standard(t);
	int threads = b->runner->threads > 1 ? b->runner->threads : 1;
	/* A device's peaks are those of simple kernels, which others may pass: no task ends at them. */
	result->roofline_ns = target_runs_items(b->runner->target) ? 0 : space_roofline(t->space) / threads;
	heard_open(&t->heard, space_task(t->space));
	return E_OK;
}

static void drop_unkept(struct tune *t)
{
	struct job_result *r = t->result;
	if (t->best < 0 || t->best == t->kept)
		return;
	r->best_ns = t->kept < 0 ? 0 : t->kept_ns;
	snprintf(r->best, sizeof r->best, "%s", t->kept < 0 ? "" : t->trial[t->kept].cand);
}

void tune_close(struct tune *t)
{
	drop_unkept(t);
	arena_free(&t->arena);
}

void tune_progress(const struct tune *t)
{
	const struct job *j = t->box->job;
	if (!j->calls.progress)
		return;
	struct job_progress p = {.task = t->index,
				 .ntasks = j->ntasks,
				 .trials = t->box->trials,
				 .left_ns = box_left_ns(t->box),
				 .label = t->task->label};
	const struct job_result *all = t->result - t->index;
	for (int i = 0; i < j->ntasks; i++) {
		int64_t before = all[i].before_ns ? all[i].before_ns : all[i].default_ns;
		p.measured += all[i].best_ns > 0;
		p.before_ms += (double)before * j->task[i].uses / 1e6;
		p.now_ms += (double)all[i].best_ns * j->task[i].uses / 1e6;
	}
	j->calls.progress(j->calls.ctx, &p);
}

/* Takes a known candidate as it is, or fitted to this task and board. */
static int take_seed(const struct tune *t, const struct job_seed *seed, char cand[CAND_MAX])
{
	if (!seed->task && !seed->lanes) {
		int n = snprintf(cand, CAND_MAX, "%s", seed->cand);
		return n < CAND_MAX ? space_legal(t->space, cand) : E_INFEASIBLE;
	}
	struct arena scratch = {0};
	struct task *from = ARENA_NEW(&scratch, struct task);
	int rc = task_parse(seed->task ? seed->task : t->task->text, from);
	if (rc >= 0)
		rc = space_transfer(t->space, from, seed->lanes, seed->cand, cand);
	arena_free(&scratch);
	return rc;
}

/* Proposes the next candidate: first known candidates of this task, then winners of tasks of its kind, then
 * rules, then the strategy, which begins with this board's part. */
static int propose(struct tune *t, char cand[CAND_MAX])
{
	if (t->seeds < t->task->nseeds) {
		t->by = TRIED_SEED;
		return take_seed(t, &t->task->seed[t->seeds++], cand);
	}
	const struct winner *w = akin_next(&t->box->akin, &t->heard, t->index);
	if (w) {
		t->by = TRIED_SEED;
		return space_transfer(t->space, w->task, 0, w->cand, cand);
	}
	if (t->rules >= 0) {
		t->by = TRIED_RULE;
		int rc = space_portfolio(t->space, &t->rules, cand);
		if (rc >= 0)
			return rc;
		t->rules = -1;
	}
	t->by = TRIED_STRATEGY;
	int rc = t->strategy->ask(t->state, cand);
	if (rc != E_NOTFOUND || !t->guide.portion.parts)
		return rc;
	t->guide.portion = (struct portion){0}; /* this board's part is dry */
	return t->strategy->ask(t->state, cand);
}

/* Proposes until a candidate is new. The caller must try it, because strategies do not propose it again.
 * E_NOTFOUND: nothing is left. */
static int propose_new(struct tune *t, char cand[CAND_MAX])
{
	for (int i = 0; i < TIRED; i++) {
		int rc = propose(t, cand);
		if (rc == E_NOTFOUND)
			return rc;
		if (rc >= 0 && !tune_knows(t, cand))
			return E_OK;
	}
	return fail(E_NOTFOUND, "every proposal is known already");
}

/* The fastest trial after `after` in the order of (time, index); racing: only those that have not lost a
 * race. -1: none. */
static int next_fastest(const struct tune *t, int after, bool racing)
{
	int best = -1;
	for (int i = 0; i < t->ntrials; i++) {
		int64_t ns = t->trial[i].ns;
		if (ns == INT64_MAX || i == after || (racing && t->trial[i].tried.lost))
			continue;
		if (after >= 0 && (ns < t->trial[after].ns || (ns == t->trial[after].ns && i < after)))
			continue;
		if (best < 0 || ns < t->trial[best].ns)
			best = i;
	}
	return best;
}

/* Proposes other numbers of trial `from`: the structure is the same, so nothing big is compiled. */
static bool propose_twin(struct tune *t, int from, char cand[CAND_MAX])
{
	if (tune_is_offer(t, t->trial[from].cand))
		return false;
	for (int i = 0; i < TWIN_TRIES; i++) {
		if (space_twin(t->space, &t->rng, t->trial[from].cand, cand) < 0)
			return false;
		if (!tune_knows(t, cand))
			return true;
	}
	return false;
}

static int try_twins(struct tune *t)
{
	int one = next_fastest(t, -1, false), two = one < 0 ? -1 : next_fastest(t, one, false);
	const int from[2] = {one, two};
	for (int i = 0; i < TWINS; i++) {
		char cand[CAND_MAX];
		struct meas m;
		int trial;
		if (from[i % 2] < 0 || !propose_twin(t, from[i % 2], cand))
			continue;
		t->by = TRIED_TWIN;
		int rc = tune_try(t, cand, &trial, &m);
		if (rc >= 0 && t->fallen)
			rc = tune_replace(t);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

/* Finds the trials that are worth racing and builds them, the incumbent first. Returns their number
 * or an error. */
static int field(struct tune *t, int racer[BOX_MAX_RACE], struct built code[BOX_MAX_RACE])
{
	double limit = (double)t->trial[t->best].ns * RACE_WITHIN;
	int n = 0;
	racer[n++] = t->best;
	for (int i = next_fastest(t, -1, true); i >= 0 && n < BOX_MAX_RACE && (double)t->trial[i].ns <= limit;
	     i = next_fastest(t, i, true))
		if (i != t->best)
			racer[n++] = i;
	for (int i = 0; i < n && n > 1; i++) {
		struct trial *r = &t->trial[racer[i]];
		struct meas m;
		if (box_alive(t->box, &r->code))
			continue;
		int rc = box_build(t->box, &t->pace, t->task->text, r->cand, &r->code, &m);
		if (rc < 0)
			return rc;
	}
	for (int i = 0; i < n; i++) {
		code[i] = t->trial[racer[i]].code;
		if (n > 1 && !box_alive(t->box, &code[i]))
			return 0; /* the worker died: another slice will race */
	}
	return n;
}

/* Makes the winner of a race the incumbent. Its time is the old one times the race's ratio, because two races
 * lie in different phases of the machine. */
static int crown(struct tune *t, int trial, const struct verdict *v)
{
	int64_t ns = (int64_t)((double)t->result->best_ns * v->ratio);
	tune_set_best(t, trial, ns > 0 ? ns : 1);
	tune_tell_akin(t);
	return tune_save(t, true, trial, &v->winner);
}

int tune_replace(struct tune *t)
{
	for (int next; (next = next_fastest(t, -1, false)) >= 0;) {
		struct meas m;
		box_drop(t->box, &t->trial[next].code);
		int rc = tune_measure(t, next, 0, &m);
		if (rc < 0)
			return rc;
		if (m.status == MEAS_OK) {
			t->fallen = false;
			tune_set_best(t, next, m.median_ns);
			return tune_save(t, true, next, &m);
		}
		t->trial[next].ns = INT64_MAX;
	}
	return E_OK;
}

/* Replaces an incumbent that failed in a race that others finished. */
static int dethrone(struct tune *t)
{
	int old = t->best;
	log_more("%s: the incumbent no longer runs: %s", t->task->label, t->trial[old].cand);
	tune_lost(t, old);
	t->trial[old].ns = INT64_MAX;
	box_drop(t->box, &t->trial[old].code);
	return tune_replace(t);
}

/* A candidate lost the worker: it leaves the race. */
static int disqualify(struct tune *t, int trial, enum meas_status how)
{
	tune_failed(t, trial, how);
	return t->fallen ? tune_replace(t) : E_OK;
}

/* *again: a candidate has left the race, which is run again without it. */
static int race_once(struct tune *t, bool *again)
{
	int racer[BOX_MAX_RACE];
	struct built code[BOX_MAX_RACE];
	struct verdict v;
	*again = false;
	if (t->best < 0)
		return E_OK;
	int n = field(t, racer, code);
	if (n < 2)
		return n < 0 ? n : E_OK;
	int rc = race_run(t->box, code, n, t->trial[t->best].ns, &v);
	if (rc < 0)
		return rc;
	*again = v.failed >= 0;
	if (*again)
		return disqualify(t, racer[v.failed], v.how);
	for (int i = 1; i < n; i++)
		if (v.lost[i])
			tune_lost(t, racer[i]);
	if (v.lost[0])
		return dethrone(t);
	return v.winner_at > 0 ? crown(t, racer[v.winner_at], &v) : E_OK;
}

static int race(struct tune *t)
{
	bool again = true;
	int rc = E_OK;
	for (int i = 0; i < BOX_MAX_RACE && again && rc >= 0; i++)
		rc = race_once(t, &again);
	return rc;
}

/* Candidates that are proposed but not yet tried. */
struct queue {
	int n, trial[BOX_WINDOW];
};

/* Proposes until the window is full, or *left candidates; their builds begin on other cores. */
static int fill_queue(struct tune *t, struct queue *q, int *left)
{
	while (*left > 0 && q->n < box_window(t->box)) {
		char cand[CAND_MAX];
		int rc = propose_new(t, cand);
		*left = rc < 0 ? 0 : *left - 1;
		if (rc < 0)
			return rc;
		q->trial[q->n++] = tune_add(t, cand);
		box_ahead(t->box, t->task->text, cand);
	}
	return E_OK;
}

/* Takes a trial off the queue, one whose build is finished first. */
static int pull(struct tune *t, struct queue *q)
{
	const char *task[BOX_WINDOW], *cand[BOX_WINDOW];
	for (int i = 0; i < q->n; i++) {
		task[i] = t->task->text;
		cand[i] = t->trial[q->trial[i]].cand;
	}
	int i = box_next(t->box, task, cand, q->n), trial = q->trial[i];
	memmove(q->trial + i, q->trial + i + 1, sizeof *q->trial * (size_t)(--q->n - i));
	return trial;
}

static int try_slice(struct tune *t, int most)
{
	struct queue q = {0};
	int first = t->ntrials;
	for (int left = most; left > 0 || q.n > 0;) {
		struct meas m;
		int rc = fill_queue(t, &q, &left);
		if (rc < 0 && rc != E_NOTFOUND)
			return rc;
		if (!q.n)
			break;
		int trial = pull(t, &q);
		rc = tune_try_trial(t, trial, &m);
		if (rc >= 0 && t->fallen)
			rc = tune_replace(t);
		if (rc >= 0 && t->best < 0 &&
		    m.status == MEAS_OK) { /* whatever its speed: the default failed */
			tune_set_best(t, trial, m.median_ns);
			rc = tune_save(t, true, trial, &m);
		}
		if (rc < 0)
			return rc;
	}
	if (t->ntrials == first && most == SLICE)
		t->end = t->best < 0 ? SEARCH_FAILED : SEARCH_EXHAUSTED;
	return t->slices > 0 ? try_twins(t) : E_OK;
}

static double room_of(const struct tune *t)
{
	if (t->best < 0)
		return 1;
	struct guess g = t->guide.cost->guess(t->f);
	return promise_room((double)t->result->best_ns, t->result->roofline_ns, g.sd);
}

static bool has_seed(const struct tune *t)
{
	return t->seeds == 0 && t->task->nseeds > 0;
}

/* An earlier box ended before it raced a candidate that seems faster. */
static bool owes_race(const struct tune *t)
{
	int i = t->best < 0 ? -1 : next_fastest(t, -1, true);
	return i >= 0 && (double)t->trial[i].ns * RACE_OWED < (double)t->trial[t->best].ns;
}

bool tune_is_told(const struct tune *t)
{
	return t->box->job->search.share.parts > 1 && t->slices == 0 && (has_seed(t) || owes_race(t));
}

int tune_told(struct tune *t)
{
	int rc = try_slice(t, has_seed(t));
	if (rc >= 0)
		rc = race(t);
	tune_progress(t);
	return rc;
}

int tune_slice(struct tune *t)
{
	int64_t start_ns = clock_now(t->box->runner->clock), before_ns = t->result->best_ns;
	double room = room_of(t);
	int rc = try_slice(t, SLICE);
	if (rc >= 0 && t->slices == 0 && t->best >= 0)
		rc = tune_try_offers(t);
	if (rc >= 0)
		rc = race(t);
	if (rc >= 0)
		rc = tune_keep_own(t);
	if (rc < 0)
		return rc;
	t->saved = before_ns ? 1 - (double)t->result->best_ns / (double)before_ns : 0;
	if (before_ns)
		promise_learn(&t->box->promise, t->slices, room, t->saved);
	t->fruitless = !before_ns || t->saved > NO_GAIN ? 0 : t->fruitless + 1;
	t->slices++;
	t->slice_ns = clock_now(t->box->runner->clock) - start_ns;
	if (t->best < 0 && t->slices > 5)
		t->end = SEARCH_FAILED;
	if (t->best >= 0 && (double)t->trial[t->best].ns <= AT_ROOFLINE * t->result->roofline_ns)
		t->end = SEARCH_ROOFLINE;
	tune_progress(t);
	return E_OK;
}

double tune_promise(const struct tune *t)
{
	if (t->end)
		return 0;
	if (t->best < 0) /* a task without any kernel comes before all */
		return (double)t->task->uses;
	int64_t build_ns = t->pace.n ? t->pace.ns[0] : t->box->build_ns;
	double cost = t->slice_ns > 0 ? (double)t->slice_ns
				      : (double)(SLICE * (build_ns + 4 * t->result->best_ns)) + 1e6;
	double share = promise_expect(&t->box->promise, t->slices, room_of(t), t->saved);
	return share * t->task->uses * (double)t->result->best_ns / cost;
}
