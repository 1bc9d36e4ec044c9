/* SPDX-License-Identifier: Apache-2.0 */
/* The box: every call to the runner goes through here. It adds the deadline and survives the worker's
 * death. */
#include "search/box.h"

#include "platform/base/log.h"

enum { MAX_DEATHS = 10, PACE = sizeof((struct pace *)0)->ns / sizeof(int64_t) };

/* Handing over a finished result may end this much after the deadline: it is within the margin that the job
 * leaves. */
#define HAND_OVER_NS (15 * NS_PER_MS)

int64_t box_deadline_ns(const struct box *b)
{
	const struct job_limits *l = &b->job->limits;
	const int64_t *held_ns = b->missing ? l->missing_held_ns : l->held_ns;
	return b->deadline_ns - (held_ns && b->deadline_ns < INT64_MAX ? *held_ns : 0);
}

int64_t box_left_ns(const struct box *b)
{
	return box_deadline_ns(b) - clock_now(b->runner->clock);
}

bool box_over(const struct box *b)
{
	return (b->job->limits.stop && *b->job->limits.stop) || box_left_ns(b) <= 0;
}

static int stopped(void)
{
	return fail(E_STOPPED, "the time box has ended");
}

static int64_t hand_over_by(const struct box *b)
{
	return b->deadline_ns < INT64_MAX - HAND_OVER_NS ? b->deadline_ns + HAND_OVER_NS : INT64_MAX;
}

/* A worker that hung was stopped, as a rule, and its handles with it. None is used any more, and the runner
 * is told, because a worker that goes on would keep their kernels. */
static void lose_all(struct box *b)
{
	b->generation++;
	b->runner->ops->drop(b->runner, -1, hand_over_by(b));
}

/* Decides what a failed call means. E_OK: only this candidate failed, and m->status says how. */
static int judge(struct box *b, int rc, struct meas *m)
{
	if (rc >= 0) {
		b->deaths_in_row = 0;
		return E_OK;
	}
	if (rc == E_TIMEOUT && !box_over(b)) {
		log_more("candidate given up: %s", err_text());
		lose_all(b);
		m->status = MEAS_TIMEOUT;
		return E_OK;
	}
	if (rc == E_TIMEOUT || rc == E_STOPPED)
		return stopped();
	if (rc != E_CHILD)
		return rc;
	b->generation++;
	m->status = MEAS_CRASH;
	log_more("worker replaced: %s", err_text());
	if (++b->deaths_in_row < MAX_DEATHS)
		return box_over(b) ? stopped() : E_OK;
	return fail_in(rc, "the worker died %d times in a row; look at the kernel log (dmesg)", MAX_DEATHS);
}

/* The second slowest build; 0: fewer than two are known. */
static int64_t slow_build_ns(const struct pace *p)
{
	int64_t first = 0, second = 0;
	for (int i = 0; i < p->n && i < PACE; i++) {
		int64_t ns = p->ns[i];
		second = ns > first ? first : ns > second ? ns : second;
		first = ns > first ? ns : first;
	}
	return second;
}

/* The lower median of the builds; 0: none is known. */
static int64_t middle_build_ns(const struct pace *p)
{
	int64_t ns[PACE];
	int n = 0;
	for (; n < p->n && n < PACE; n++) {
		int at = n;
		for (; at > 0 && ns[at - 1] > p->ns[n]; at--)
			ns[at] = ns[at - 1];
		ns[at] = p->ns[n];
	}
	return n ? ns[(n - 1) / 2] : 0;
}

/* How long the next build of a task is expected to take. */
static int64_t expected_build_ns(const struct box *b, const struct pace *p)
{
	return p->n < 2 ? middle_build_ns(&b->pace) : slow_build_ns(p);
}

static void add_build(struct pace *p, int64_t ns)
{
	p->ns[p->n++ % PACE] = ns;
}

static void count_build(struct job_spent *s, enum ahead made, int64_t took_ns, const struct meas *m)
{
	int64_t check_ns = m->check_ns < took_ns ? m->check_ns : took_ns;
	s->check_ns += check_ns;
	*(made == AHEAD_RUNNING ? &s->wait_ns : &s->build_ns) += took_ns - check_ns;
	s->ahead_ns += made >= AHEAD_RUNNING ? m->build_ns : 0;
}

int box_build(struct box *b, struct pace *p, const char *task, const char *cand, struct built *out,
	      struct meas *m)
{
	*m = (struct meas){.status = MEAS_CRASH};
	*out = (struct built){.handle = -1};
	enum ahead made = b->runner->builders ? b->runner->ops->progress(b->runner, task, cand) : AHEAD_NOT;
	if (box_over(b) || (made != AHEAD_DONE && box_left_ns(b) < expected_build_ns(b, p)))
		return stopped();
	int64_t start_ns = clock_now(b->runner->clock);
	int handle = -1, rc = b->runner->ops->build(b->runner, task, cand, box_deadline_ns(b), &handle, m);
	int64_t took_ns = clock_now(b->runner->clock) - start_ns;
	add_build(p, took_ns > m->build_ns ? took_ns : m->build_ns);
	add_build(&b->pace, took_ns > m->build_ns ? took_ns : m->build_ns);
	b->build_ns = b->build_ns ? b->build_ns + (took_ns - b->build_ns) / 8 : took_ns;
	count_build(&b->spent, made, took_ns, m);
	rc = judge(b, rc, m);
	if (rc == E_OK && m->status == MEAS_OK && handle >= 0)
		*out = (struct built){.handle = handle, .generation = b->generation};
	else if (rc == E_OK && m->status == MEAS_OK)
		m->status = MEAS_BUILD;
	return rc;
}

void box_ahead(struct box *b, const char *task, const char *cand)
{
	if (b->runner->builders && !box_over(b))
		(void)b->runner->ops->ahead(b->runner, task, cand);
}

/* Each builder works on one candidate and has the next one queued, and one more is being measured. */
int box_window(const struct box *b)
{
	int n = 2 * b->runner->builders + 1;
	return n < BOX_WINDOW ? n : BOX_WINDOW;
}

int box_next(struct box *b, const char *const *task, const char *const *cand, int n)
{
	int fresh = -1;
	for (int i = 0; i < n && b->runner->builders; i++) {
		enum ahead a = b->runner->ops->progress(b->runner, task[i], cand[i]);
		if (a == AHEAD_DONE)
			return i;
		if (a != AHEAD_RUNNING && fresh < 0)
			fresh = i;
	}
	return fresh < 0 ? 0 : fresh;
}

bool box_alive(const struct box *b, const struct built *c)
{
	return c->handle >= 0 && c->generation == b->generation;
}

int box_time(struct box *b, const struct built *c, int n, int rounds, int64_t abort_ns, unsigned how,
	     struct meas *m)
{
	int handles[BOX_MAX_RACE];
	for (int i = 0; i < n; i++) {
		handles[i] = c[i].handle;
		m[i] = (struct meas){.status = MEAS_CRASH};
	}
	if (box_over(b))
		return stopped();
	how |= b->job->search.warm ? 0 : TIME_COLD;
	int64_t start_ns = clock_now(b->runner->clock);
	int rc = b->runner->ops->time(b->runner, handles, n, rounds, abort_ns, how, box_deadline_ns(b), m);
	*(how & TIME_QUIET ? &b->spent.race_ns : &b->spent.time_ns) += clock_now(b->runner->clock) - start_ns;
	struct meas failure = {.status = MEAS_OK};
	bool blamed = rc == E_CHILD && meas_blamed(m, n) >= 0;
	rc = judge(b, rc, &failure);
	for (int i = 0; i < n && failure.status != MEAS_OK && !blamed; i++)
		m[i] = failure;
	return rc;
}

int box_code(struct box *b, const struct built *c, struct blob *out)
{
	struct meas m = {.status = MEAS_OK};
	int rc = b->runner->ops->code(b->runner, c->handle, hand_over_by(b), &b->scratch, out);
	rc = judge(b, rc, &m);
	return rc < 0 ? rc : m.status == MEAS_OK;
}

void box_drop(struct box *b, struct built *c)
{
	if (box_alive(b, c))
		b->runner->ops->drop(b->runner, c->handle, hand_over_by(b));
	c->handle = -1;
}

void box_drop_all(struct box *b)
{
	b->runner->ops->drop(b->runner, -1, hand_over_by(b));
}
