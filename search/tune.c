/* SPDX-License-Identifier: Apache-2.0 */
#include "search/tune.h"

#include "platform/log.h"

#include <stdio.h>
#include <string.h>

enum {
	SLICE = 10,        /* candidates of a slice, */
	TWINS = 4,         /* and variations of the numbers of its two best structures */
	PER_STRUCTURE = 2, /* proposals of one structure in a slice */
	TIRED = 200,       /* proposals in a row that are known already: nothing is left */
	DEFAULT_TRIES = 3, /* of candidate 0, should the worker die under it */
	ABORT_FACTOR = 3,  /* a first run slower than so many incumbents ends a candidate */
	KEPT = 8,          /* built candidates kept for races */
};

/* A candidate is raced when its fastest run is within 15 % of the incumbent's: noise hides no more than that.
 */
#define RACE_WITHIN 1.15
#define AT_ROOFLINE 1.03
#define NO_GAIN 0.005
/* From here on a run costs as much as what is done beside it, and a part of one is enough to begin with. */
#define PART_FROM_NS (2 * NS_PER_MS)
#define DENSE 8 /* flops per byte */

static struct key structure_key(const char *cand)
{
	char text[CAND_MAX];
	space_structure(cand, text);
	return hash_text(text);
}

bool tune_knows(const struct tune *t, const char *cand)
{
	struct key k = hash_text(cand);
	for (int i = 0; i < t->ntrials; i++)
		if (key_equal(t->trial[i].key, k))
			return true;
	return false;
}

int tune_add(struct tune *t, const char *cand)
{
	if (t->ntrials == t->cap) {
		int cap = t->cap ? t->cap * 2 : 64;
		struct trial *p = ARENA_ARRAY(&t->arena, struct trial, cap);
		if (t->ntrials)
			memcpy(p, t->trial, sizeof *p * (size_t)t->ntrials);
		t->trial = p;
		t->cap = cap;
	}
	struct trial *n = &t->trial[t->ntrials];
	*n = (struct trial){.cand = arena_strdup(&t->arena, cand),
			    .key = hash_text(cand),
			    .structure = structure_key(cand),
			    .ns = INT64_MAX,
			    .code = {.handle = -1},
			    .tried = {.by = t->by}};
	return t->ntrials++;
}

int tune_open(struct tune *t, struct box *b, struct learn *learn, int index, struct job_result *result)
{
	struct arena scratch = {0};
	*t = (struct tune){.box = b,
			   .task = &b->job->task[index],
			   .result = result,
			   .index = index,
			   .learn = learn,
			   .strategy = strategy_find(b->job->strategy ? b->job->strategy : STRATEGY_DEFAULT),
			   .best = -1};
	if (!t->strategy)
		return fail(E_USAGE, "no search strategy '%s'", b->job->strategy);
	uint64_t seed = b->job->seed * 1000003 + (uint64_t)index;
	rng_seed(&t->rng, seed);
	struct task *task =
	    ARENA_NEW(&scratch, struct task); /* 120 KB, of which the space keeps what is in use */
	int rc = task_parse(t->task->text, task);
	const struct space_want want = {.exact = b->job->exact, .threads = b->runner->threads};
	if (rc >= 0)
		rc = space_make(&t->arena, task, b->runner->target, &want, &t->space);
	if (rc >= 0)
		t->dense = task_flops(task) > DENSE * task_bytes(task, true);
	arena_free(&scratch);
	t->guide = (struct guide){t->space, learn->cost, learn->model};
	if (rc >= 0)
		rc = t->strategy->start(&t->arena, &t->guide, seed, &t->state);
	if (rc == E_NOMEM)
		return rc;
	if (rc < 0) {
		log_more("%s is not tuned: %s", t->task->label, err_text());
		t->done = true;
		return E_OK;
	}
	int threads = b->runner->threads > 1 ? b->runner->threads : 1;
	result->roofline_ns = space_roofline(t->space) / threads;
	heard_open(&t->heard, space_task(t->space));
	return E_OK;
}

void tune_close(struct tune *t)
{
	arena_free(&t->arena);
}

void tune_progress(const struct tune *t)
{
	const struct job *j = t->box->job;
	if (!j->progress)
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
	j->progress(j->ctx, &p);
}

/* Runs of a trial: three tell a fast candidate from a slow one; long kernels are less noisy and cost more. */
static int trial_rounds(const struct tune *t)
{
	int64_t ns = t->result->default_ns;
	return ns > 100 * NS_PER_MS ? 1 : ns > 20 * NS_PER_MS ? 2 : 3;
}

/* Only the KEPT fastest stay built. */
static void drop_slow(struct tune *t)
{
	struct trial *slowest = NULL;
	int built = 0;
	for (int i = 0; i < t->ntrials; i++) {
		struct trial *r = &t->trial[i];
		if (i == t->best || !box_alive(t->box, &r->code))
			continue;
		built++;
		if (!slowest || r->ns > slowest->ns)
			slowest = r;
	}
	if (built > KEPT)
		box_drop(t->box, &slowest->code);
}

static void set_best(struct tune *t, int trial, int64_t ns)
{
	t->best = trial;
	t->result->best_ns = ns;
	snprintf(t->result->best, sizeof t->result->best, "%s", t->trial[trial].cand);
}

/* What is better than the default here may be so in tasks of the same kind. */
static void tell_akin(struct tune *t)
{
	akin_add(&t->box->akin, space_task(t->space), t->index, t->trial[t->best].cand);
}

/* Hands a result to the caller at once, so that a stop at any moment loses nothing. */
static int save(struct tune *t, enum rec_kind kind, int trial, const struct meas *m)
{
	struct trial *r = &t->trial[trial];
	struct box *b = t->box;
	struct blob code;
	struct meas built;
	for (int tries = 0; tries < DEFAULT_TRIES; tries++) {
		int rc = E_OK;
		if (!box_alive(b, &r->code))
			rc = box_build(b, &t->pace, t->task->text, r->cand, &r->code, &built);
		if (rc >= 0 && box_alive(b, &r->code))
			rc = box_code(b, &r->code, &code);
		if (rc > 0)
			rc = b->job->sink(b->job->ctx, t->index, kind, r->cand, m, code);
		arena_reset(&b->scratch);
		if (rc < 0)
			return rc;
		if (box_alive(b, &r->code))
			return E_OK;
	}
	return E_OK;
}

/* A long kernel's first times are of a part of its range; not where memory is its limit, which a part does
 * not show. */
static unsigned how_to_time(const struct tune *t)
{
	return t->dense && t->result->best_ns > PART_FROM_NS ? TIME_PART : 0;
}

/* Beside the incumbent, if there is one: a slow moment of the machine falls on both, and their ratio counts.
 */
static int time_beside(struct tune *t, struct trial *r, int64_t abort_ns, struct meas *m)
{
	const struct trial *best = t->best >= 0 ? &t->trial[t->best] : NULL;
	struct meas pair[2];
	if (!best || best == r || !box_alive(t->box, &best->code))
		return box_time(t->box, &r->code, 1, trial_rounds(t), abort_ns, 0, m);
	const struct built code[2] = {best->code, r->code};
	int rounds = t->result->best_ns > PART_FROM_NS ? 1 : 2;
	int rc = box_time(t->box, code, 2, rounds, abort_ns, how_to_time(t), pair);
	*m = pair[1];
	if (rc < 0 || m->status != MEAS_OK || pair[0].status != MEAS_OK || pair[0].min_ns <= 0)
		return rc;
	double now = (double)best->ns / (double)pair[0].min_ns;
	m->min_ns = (int64_t)((double)m->min_ns * now);
	m->median_ns = (int64_t)((double)m->median_ns * now);
	return E_OK;
}

/* Builds and times a candidate. *m is what became of it. */
static int measure(struct tune *t, int trial, int64_t abort_ns, struct meas *m)
{
	struct trial *r = &t->trial[trial];
	struct meas timed;
	int rc = box_build(t->box, &t->pace, t->task->text, r->cand, &r->code, m);
	if (rc < 0 || m->status != MEAS_OK)
		return rc;
	rc = time_beside(t, r, abort_ns, &timed);
	if (rc < 0)
		return rc;
	timed.build_ns = m->build_ns;
	timed.max_rel_err = m->max_rel_err;
	*m = timed;
	if (m->status == MEAS_OK)
		r->ns = m->min_ns;
	else
		box_drop(t->box, &r->code);
	return E_OK;
}

/* Measures a new trial. */
static int try_trial(struct tune *t, int trial, struct meas *m)
{
	int64_t abort_ns = t->best >= 0 ? t->result->best_ns * ABORT_FACTOR : 0;
	const char *cand = t->trial[trial].cand;
	int64_t start_ns = clock_now(t->box->runner->clock);
	tune_believe(t, trial);
	int rc = measure(t, trial, abort_ns, m);
	if (rc < 0)
		return rc;
	tune_tried(t, trial, m, start_ns);
	t->box->trials++;
	t->result->trials++;
	t->result->failed += m->status != MEAS_OK && m->status != MEAS_ABORTED;
	if (m->status != MEAS_OK)
		log_more("%s: %s: %s", t->task->label, cand, meas_status_name(m->status));
	t->strategy->tell(t->state, cand, m);
	learn_add(t->learn, t->space, t->index, cand, m);
	drop_slow(t);
	tune_progress(t);
	return E_OK;
}

static int try_candidate(struct tune *t, const char *cand, int *trial, struct meas *m)
{
	*trial = tune_add(t, cand);
	return try_trial(t, *trial, m);
}

/* The caller's incumbent against the default, interleaved: the faster of them is what tuning starts from. */
static int meet_incumbent(struct tune *t, int standard)
{
	struct meas m, pair[2];
	int before;
	if (space_legal(t->space, t->task->incumbent) < 0)
		return E_OK;
	t->by = TRIED_INCUMBENT;
	int rc = try_candidate(t, t->task->incumbent, &before, &m);
	if (rc < 0 || m.status != MEAS_OK)
		return rc;
	const struct built code[2] = {t->trial[standard].code, t->trial[before].code};
	if (!box_alive(t->box, &code[0]) || !box_alive(t->box, &code[1]))
		return E_OK;
	rc = box_time(t->box, code, 2, 4 * trial_rounds(t) + 1, 0, TIME_QUIET, pair);
	if (rc < 0 || pair[0].status != MEAS_OK || pair[1].status != MEAS_OK)
		return rc;
	t->result->default_ns = pair[0].median_ns;
	t->result->before_ns = pair[1].median_ns;
	bool keep = pair[1].median_ns < pair[0].median_ns;
	set_best(t, keep ? before : standard, pair[keep].median_ns);
	if (keep)
		tell_akin(t);
	return save(t, REC_BEST, t->best, &pair[keep]);
}

/* For want of a default that works (it spills where registers are few) the first rule that does. */
static int first_rule(struct tune *t)
{
	char cand[CAND_MAX];
	t->by = TRIED_RULE;
	while (t->best < 0 && t->rules >= 0) {
		struct meas m;
		int trial, rc = space_portfolio(t->space, &t->rules, cand);
		if (rc < 0) {
			t->rules = -1;
			return E_OK;
		}
		if (tune_knows(t, cand))
			continue;
		if ((rc = try_candidate(t, cand, &trial, &m)) < 0)
			return rc;
		if (m.status != MEAS_OK)
			continue;
		set_best(t, trial, m.median_ns);
		return save(t, REC_BEST, trial, &m);
	}
	return E_OK;
}

const char *tune_ahead(struct tune *t)
{
	char cand[CAND_MAX];
	space_default(t->space, cand);
	if (t->task->earlier && t->task->earlier->best_ns > 0)
		return arena_strdup(&t->arena, cand);
	box_ahead(t->box, t->task->text, cand);
	if (t->task->incumbent)
		box_ahead(t->box, t->task->text, t->task->incumbent);
	return arena_strdup(&t->arena, cand);
}

/* Once more for a default under which the worker died. */
static int try_again(struct tune *t, int trial, struct meas *m)
{
	int64_t start_ns = clock_now(t->box->runner->clock);
	int rc = measure(t, trial, 0, m);
	if (rc >= 0)
		tune_tried(t, trial, m, start_ns);
	return rc;
}

static int trial_of(struct tune *t, const char *cand, int64_t ns)
{
	int i = 0;
	while (i < t->ntrials && strcmp(t->trial[i].cand, cand))
		i++;
	if (i == t->ntrials)
		i = tune_add(t, cand);
	t->trial[i].ns = ns > 0 ? ns : INT64_MAX;
	return i;
}

/* Goes on from an earlier job of this box: nothing is built before it is raced. */
static void resume(struct tune *t, const struct job_result *e, const char *standard)
{
	t->result->before_ns = e->before_ns;
	t->result->default_ns = t->default_ns = e->default_ns;
	tune_recall(t);
	trial_of(t, standard, e->default_ns);
	set_best(t, trial_of(t, e->best, e->best_ns), e->best_ns);
	if (strcmp(e->best, standard))
		tell_akin(t);
}

static int meet_default(struct tune *t)
{
	char cand[CAND_MAX];
	struct meas m = {.status = MEAS_CRASH};
	const struct job_result *e = t->task->earlier;
	int rc, trial = -1;
	t->by = TRIED_DEFAULT;
	space_default(t->space, cand);
	if (e && e->best_ns > 0 && space_legal(t->space, e->best) >= 0) {
		resume(t, e, cand);
		return E_OK;
	}
	for (int i = 0; i < DEFAULT_TRIES && m.status == MEAS_CRASH; i++) {
		rc = trial < 0 ? try_candidate(t, cand, &trial, &m) : try_again(t, trial, &m);
		if (rc < 0)
			return rc;
	}
	if (m.status != MEAS_OK) {
		log_more("%s: the default schedule failed: %s", t->task->label, meas_status_name(m.status));
		return first_rule(t);
	}
	set_best(t, trial, m.median_ns);
	t->result->default_ns = m.median_ns;
	rc = save(t, REC_DEFAULT, trial, &m);
	if (rc < 0 || !t->task->incumbent)
		return rc < 0 ? rc : save(t, REC_BEST, trial, &m);
	if (strcmp(cand, t->task->incumbent))
		return meet_incumbent(t, trial);
	t->result->before_ns = m.median_ns;
	return save(t, REC_BEST, trial, &m);
}

int tune_default(struct tune *t)
{
	int rc = t->done ? E_OK : meet_default(t);
	if (rc >= 0 && !t->done)
		tune_recall(t);
	return rc;
}

/* Where the next candidate comes from: what is known of it, what has won in tasks of its kind, then rules,
 * then the strategy. */
static int propose(struct tune *t, char cand[CAND_MAX])
{
	if (t->seeds < t->task->nseeds) {
		t->by = TRIED_SEED;
		int n = snprintf(cand, CAND_MAX, "%s", t->task->seed[t->seeds++]);
		return n < CAND_MAX ? space_legal(t->space, cand) : E_INFEASIBLE;
	}
	const struct winner *w = akin_next(&t->box->akin, &t->heard, t->index);
	if (w) {
		t->by = TRIED_SEED;
		return space_transfer(t->space, w->task, w->cand, cand);
	}
	if (t->rules >= 0) {
		t->by = TRIED_RULE;
		int rc = space_portfolio(t->space, &t->rules, cand);
		if (rc >= 0)
			return rc;
		t->rules = -1;
	}
	t->by = TRIED_STRATEGY;
	return t->strategy->ask(t->state, cand);
}

/* Trials from `first` on with this structure. */
static int same_structure(const struct tune *t, int first, struct key structure)
{
	int n = 0;
	for (int i = first; i < t->ntrials; i++)
		n += key_equal(t->trial[i].structure, structure);
	return n;
}

/* Proposes until something new comes. E_NOTFOUND: nothing left. `first`: the slice's first trial. */
static int propose_new(struct tune *t, int first, char cand[CAND_MAX])
{
	for (int i = 0; i < TIRED; i++) {
		int rc = propose(t, cand);
		if (rc == E_NOTFOUND)
			return rc;
		if (rc < 0 || tune_knows(t, cand))
			continue;
		if (same_structure(t, first, structure_key(cand)) < PER_STRUCTURE || i > TIRED / 2)
			return E_OK;
	}
	return fail(E_NOTFOUND, "every proposal is known already");
}

/* The fastest trial after `after` in the order of (time, index); -1: none. */
static int next_fastest(const struct tune *t, int after)
{
	int best = -1;
	for (int i = 0; i < t->ntrials; i++) {
		int64_t ns = t->trial[i].ns;
		if (ns == INT64_MAX || i == after)
			continue;
		if (after >= 0 && (ns < t->trial[after].ns || (ns == t->trial[after].ns && i < after)))
			continue;
		if (best < 0 || ns < t->trial[best].ns)
			best = i;
	}
	return best;
}

/* A new variation of the numbers of trial `from`: same structure, so nothing big is compiled. */
static bool propose_twin(struct tune *t, int from, char cand[CAND_MAX])
{
	for (int i = 0; i < 32; i++)
		if (space_mutate(t->space, &t->rng, t->trial[from].cand, cand) >= 0 &&
		    key_equal(structure_key(cand), t->trial[from].structure) && !tune_knows(t, cand))
			return true;
	return false;
}

static int try_twins(struct tune *t)
{
	int one = next_fastest(t, -1), two = one < 0 ? -1 : next_fastest(t, one);
	const int from[2] = {one, two};
	for (int i = 0; i < TWINS; i++) {
		char cand[CAND_MAX];
		struct meas m;
		int trial;
		if (from[i % 2] < 0 || !propose_twin(t, from[i % 2], cand))
			continue;
		t->by = TRIED_TWIN;
		int rc = try_candidate(t, cand, &trial, &m);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

/* Those worth racing, built, the incumbent first. Returns their number, or < 0. */
static int field(struct tune *t, int racer[BOX_MAX_RACE], struct built code[BOX_MAX_RACE])
{
	double limit = (double)t->trial[t->best].ns * RACE_WITHIN;
	int n = 0;
	racer[n++] = t->best;
	for (int i = next_fastest(t, -1); i >= 0 && n < BOX_MAX_RACE && (double)t->trial[i].ns <= limit;
	     i = next_fastest(t, i))
		if (i != t->best && !t->trial[i].tried.lost)
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

/* The challenger won: times are chained by ratios, because two races lie in different phases of the machine.
 */
static int crown(struct tune *t, int trial, const struct verdict *v)
{
	int64_t ns = (int64_t)((double)t->result->best_ns * v->ratio);
	set_best(t, trial, ns > 0 ? ns : 1);
	tell_akin(t);
	return save(t, REC_BEST, trial, &v->winner);
}

static int race(struct tune *t)
{
	int racer[BOX_MAX_RACE];
	struct built code[BOX_MAX_RACE];
	struct verdict v;
	if (t->best < 0)
		return E_OK;
	int n = field(t, racer, code);
	if (n < 2)
		return n < 0 ? n : E_OK;
	int rc = race_run(t->box, code, n, t->trial[t->best].ns, &v);
	if (rc < 0)
		return rc;
	for (int i = 1; i < n; i++)
		if (v.lost[i])
			tune_lost(t, racer[i]);
	return v.winner_at > 0 ? crown(t, racer[v.winner_at], &v) : E_OK;
}

/* Proposed and not yet tried. */
struct queue {
	int n, trial[BOX_WINDOW];
};

/* Proposes until the window is full, or *left candidates; what comes is begun on other cores. */
static int fill_queue(struct tune *t, struct queue *q, int first, int *left)
{
	while (*left > 0 && q->n < box_window(t->box)) {
		char cand[CAND_MAX];
		int rc = propose_new(t, first, cand);
		*left = rc < 0 ? 0 : *left - 1;
		if (rc < 0)
			return rc;
		q->trial[q->n++] = tune_add(t, cand);
		box_ahead(t->box, t->task->text, cand);
	}
	return E_OK;
}

/* What is ready before the rest. */
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

static int try_slice(struct tune *t)
{
	struct queue q = {0};
	int first = t->ntrials;
	for (int left = SLICE; left > 0 || q.n > 0;) {
		struct meas m;
		int rc = fill_queue(t, &q, first, &left);
		if (rc < 0 && rc != E_NOTFOUND)
			return rc;
		if (!q.n)
			break;
		int trial = pull(t, &q);
		rc = try_trial(t, trial, &m);
		if (rc >= 0 && t->best < 0 &&
		    m.status == MEAS_OK) { /* whatever its speed: the default failed */
			set_best(t, trial, m.median_ns);
			rc = save(t, REC_BEST, trial, &m);
		}
		if (rc < 0)
			return rc;
	}
	t->done |= t->ntrials == first;
	return t->slices > 0 ? try_twins(t) : E_OK;
}

static double room_of(const struct tune *t)
{
	if (t->best < 0)
		return 1;
	struct guess g = guide_guess(&t->guide, t->trial[t->best].cand);
	return promise_room((double)t->result->best_ns, t->result->roofline_ns, g.sd);
}

int tune_slice(struct tune *t)
{
	int64_t start_ns = clock_now(t->box->runner->clock), before_ns = t->result->best_ns;
	double room = room_of(t);
	int rc = try_slice(t);
	if (rc >= 0)
		rc = race(t);
	if (rc < 0)
		return rc;
	t->saved = before_ns ? 1 - (double)t->result->best_ns / (double)before_ns : 0;
	if (before_ns)
		promise_learn(&t->box->promise, t->slices, room, t->saved);
	t->fruitless = !before_ns || t->saved > NO_GAIN ? 0 : t->fruitless + 1;
	t->slices++;
	t->slice_ns = clock_now(t->box->runner->clock) - start_ns;
	if (t->best < 0 ? t->slices > 5
			: (double)t->trial[t->best].ns <= AT_ROOFLINE * t->result->roofline_ns)
		t->done = true;
	tune_progress(t);
	return E_OK;
}

double tune_promise(const struct tune *t)
{
	if (t->done)
		return 0;
	if (t->best < 0) /* a task without any kernel comes before all */
		return (double)t->task->uses;
	int64_t build_ns = t->pace.n ? t->pace.ns[0] : t->box->build_ns;
	double cost = t->slice_ns > 0 ? (double)t->slice_ns
				      : (double)(SLICE * (build_ns + 4 * t->result->best_ns)) + 1e6;
	double share = promise_expect(&t->box->promise, t->slices, room_of(t), t->saved);
	return share * t->task->uses * (double)t->result->best_ns / cost;
}
