/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the report: a kernel each, with its times in the network before and after. If the network was
 * not measured after the search, a row has only the time that the search found for its task alone, which is
 * not comparable with the one before. */
#include "agent/tune/tune_parts.h"

#include "agent/cache/lookup.h"
#include "agent/cache/revert.h"
#include "agent/worker/device.h"
#include "kernels/graph/graph.h"

#include <string.h>

/* Length of a label without the words at its end that tell in which form the kernel works. */
static size_t work_length(const char *label)
{
	static const char *const forms[] = {" F(", " w16", " bf16", " f16"};
	size_t n = strlen(label);
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		const char *f = strstr(label, forms[i]);
		n = f && (size_t)(f - label) < n ? (size_t)(f - label) : n;
	}
	return n;
}

/* Whether both labels name the same work, in whatever form. */
static bool same_work(const char *a, const char *b)
{
	size_t n = work_length(a);
	return n == work_length(b) && !memcmp(a, b, n);
}

/* Finds the kernel of the network before that did the same work for the same node, searching from `from` on;
 * -1: there was none, for example because a fused block ran in parts. */
static int before_of(const struct kept_kernels *kept, const struct plan_kernel *k, int from)
{
	for (int i = 0; i < kept->n; i++) {
		int at = (from + i) % kept->n;
		if (!strcmp(kept->name[at], k->name) && same_work(kept->label[at], k->label))
			return at;
	}
	return -1;
}

/* Index of a step's task; -1: it is none of the job's. */
static int task_of(const struct session *s, const struct step *st)
{
	if (st->kind != STEP_TASK)
		return -1;
	struct key k = task_key(st->task);
	for (int i = 0; i < s->ntasks; i++)
		if (key_equal(s->task[i].key, k))
			return i;
	return -1;
}

static const struct job_result *found(const struct session *s, int task)
{
	const struct job_result *r = s->result && task >= 0 ? &s->result[task] : NULL;
	return r && r->best_ns > 0 ? r : NULL;
}

/* Whether the plan will run this step: of a fused step and its parts, the fused one if it has a kernel. */
static bool will_run(const struct session *s, const struct step *st)
{
	const struct step *whole = st->fused_by >= 0 ? &s->model.steps->step[st->fused_by] : st;
	if (st->kind != STEP_TASK || !whole->fused)
		return st->kind != STEP_ALIAS;
	return (found(s, task_of(s, whole)) != NULL) == (st == whole);
}

/* Why the processor runs a task for which the plan, or the cache, has no kernel of the device. */
static enum kernel_why why_without(const struct session *s, int task)
{
	const struct job_result *r = s->result && task >= 0 ? &s->result[task] : NULL;
	if (task < 0 || !s->o->device)
		return s->o->device ? WHY_NO_KERNEL : WHY_NOT;
	return r && ((r->met && !r->works) || r->end == SEARCH_FAILED) ? WHY_FAILED : WHY_NO_TURN;
}

/* A row with its times before; *at: where to look for these, and where the next row's will probably be. */
static struct tune_kernel row_of(const struct session *s, const struct plan_kernel *k, int *at)
{
	const struct kept_kernels *ran = &s->start.ran;
	int b = before_of(ran, k, *at);
	*at = (b < 0 ? *at : b) + 1;
	return (struct tune_kernel){.name = arena_strdup(s->a, k->name),
				    .label = arena_strdup(s->a, k->label),
				    .before = b >= 0 ? ran->origin[b] : FROM_FALLBACK,
				    .before_default = b >= 0 && ran->at_default[b],
				    .after = k->origin,
				    .why = k->why,
				    .before_ns = b >= 0 ? s->start.net.kernel_ns[b] : 0};
}

/* The time by the record of what the search found for a task; 0: the record is of another candidate, because
 * the network gave the task its default back (agent/cache/revert.h), or there is none. */
static int64_t recorded_ns(const struct session *s, int task)
{
	struct arena scratch = {0};
	struct rec r;
	bool same = task >= 0 && s->result &&
		    cache_find_rec(s->store.cache, s->task[task].key, &s->target, s->o->threads, s->o->level,
				   REC_BEST, &scratch, &r) >= 0 &&
		    !strcmp(r.cand, s->result[task].best);
	int64_t ns = same ? r.meas.median_ns : 0;
	arena_free(&scratch);
	return ns;
}

/* Counts the rows whose task can have a kernel of its own, but that run without one. task: of each row, as in
 * struct box_rows. */
static int missing(const struct session *s, int n, const struct tune_kernel *row, const int *task)
{
	int count = 0;
	for (int i = 0; i < n; i++) {
		bool can = task[i] >= 0 && (!s->result || s->result[task[i]].standard[0]);
		count += can && row[i].after != FROM_CACHE;
	}
	return count;
}

/* Finds out whether a row's kernel of the cache has the default schedule. */
static void set_at_default(const struct session *s, struct tune_kernel *row, const struct step *st)
{
	const struct key task = st->kind == STEP_TASK ? task_key(st->task) : (struct key){0};
	row->at_default = row->after == FROM_CACHE && st->kind == STEP_TASK &&
			  all_at_defaults(s->store.cache, &s->target, s->o->threads, s->o->level, 1, &task);
}

/* Gives a row the time of the kernel alone. What the search found is the task's best record, even if that is
 * the default schedule, so a plan says FROM_CACHE of it. */
static void set_alone(struct tune_kernel *row, const struct job_result *r, int64_t ns)
{
	row->alone_ns = ns;
	if (row->after_ns > 0)
		return;
	row->after = FROM_CACHE;
	row->at_default = !strcmp(r->best, r->standard);
	row->roofline = r->roofline_ns / (double)ns;
}

/* By the record, which a progress report has no time to look for. */
static void set_recorded(const struct session *s, struct tune_kernel *row, int task)
{
	const struct job_result *r = found(s, task);
	int64_t ns = r ? recorded_ns(s, task) : 0;
	if (ns > 0)
		set_alone(row, r, ns);
}

static struct tune_kernel row_of_step(const struct session *s, const struct step *st, int *at)
{
	char label[96];
	if (st->kind == STEP_TASK)
		task_label(st->task, label);
	const struct plan_kernel k = {
	    .name = st->name,
	    .label = st->kind == STEP_TASK ? label : node_type(&s->model.graph->node[st->node]),
	    .origin = st->kind == STEP_TASK ? FROM_FALLBACK : FROM_HOST};
	struct tune_kernel row = row_of(s, &k, at);
	const struct kept_kernels *there = &s->start.there;
	int b = st->kind == STEP_HOST && s->o->device ? before_of(there, &k, *at ? *at - 1 : 0) : -1;
	row.why = b >= 0 ? there->why[b] : WHY_NOT;
	/* a kernel of before serves until the search finds another */
	if (!s->start.left && (row.before == FROM_CACHE || row.before == FROM_DEFAULT))
		row.after = row.before;
	return row;
}

void tune_rows_make(struct session *s)
{
	const struct steps *all = s->model.steps;
	struct box_rows rows = {.row = ARENA_ARRAY(s->a, struct tune_kernel, all->nsteps + 1),
				.task = ARENA_ARRAY(s->a, int, all->nsteps + 1)};
	for (int i = 0, at = 0; i < all->nsteps; i++) {
		const struct step *st = &all->step[i];
		if (!will_run(s, st))
			continue;
		rows.task[rows.n] = task_of(s, st);
		rows.row[rows.n] = row_of_step(s, st, &at);
		set_at_default(s, &rows.row[rows.n], st);
		rows.n++;
	}
	s->rows = rows;
	tune_rows_update(s);
}

/* Counts the tasks that neither this box, so far, nor an earlier one has come to. */
static void count_turns(struct session *s)
{
	struct tune_report *r = s->report;
	bool searches = s->o->rigor != RIGOR_ESTIMATE;
	r->no_turn = r->untried = 0;
	for (int i = 0; i < s->ntasks; i++) {
		const struct job_result *t = s->result ? &s->result[i] : NULL;
		bool open = !t || t->end == SEARCH_OPEN || t->end == SEARCH_LATE, met = t && t->met;
		bool turn = t ? t->turn : s->job && job_had_turn(&s->job[i]);
		r->untried += open && !met && !turn;
		r->no_turn += open && !turn && (!met || searches);
	}
}

void tune_rows_update(struct session *s)
{
	pthread_mutex_lock(&s->late.mutex);
	for (int i = 0; i < s->rows.n; i++) {
		struct tune_kernel *row = &s->rows.row[i];
		const struct job_result *r = found(s, s->rows.task[i]);
		if (r)
			set_alone(row, r, r->best_ns);
		bool kernel = row->after == FROM_CACHE || row->after == FROM_DEFAULT;
		if (s->rows.task[i] >= 0)
			row->why = kernel ? WHY_NOT : why_without(s, s->rows.task[i]);
	}
	count_turns(s);
	s->report->nkernels = s->rows.n;
	s->report->kernel = s->rows.row;
	s->report->missing = missing(s, s->rows.n, s->rows.row, s->rows.task);
	pthread_mutex_unlock(&s->late.mutex);
}

void tune_rows_end(struct session *s)
{
	pthread_mutex_lock(&s->late.mutex);
	for (int i = 0; i < s->rows.n; i++)
		set_recorded(s, &s->rows.row[i], s->rows.task[i]);
	pthread_mutex_unlock(&s->late.mutex);
}

/* Kernels that are much faster than the device's peaks allow show that those were measured too low. */
static void doubt_peaks(const struct session *s, int n, const struct tune_kernel *row,
			const struct plan_kernel *k)
{
	bool doubtful = false;
	for (int i = 0; i < n; i++) {
		const struct device_pace pace = {row[i].roofline, row[i].memory_bound, k[i].bytes,
						 (double)row[i].after_ns};
		doubtful |= device_is_outpaced(&s->target, &pace);
	}
	if (doubtful && s->o->device && !s->o->unkept)
		device_doubt(s->o->device, s->store.dir);
}

void tune_rows_after(struct session *s, const struct net *after, bool reverted)
{
	const struct plan_kernel *k;
	int n = plan_kernels(after->plan, &k), cores = s->target.cores;
	cores = s->o->threads < cores ? s->o->threads : cores;
	struct tune_kernel *row = ARENA_ARRAY(s->a, struct tune_kernel, n + 1);
	int *task = ARENA_ARRAY(s->a, int, n + 1);
	for (int i = 0, at = 0; i < n; i++) {
		row[i] = row_of(s, &k[i], &at);
		row[i].after_ns = after->kernel_ns[i];
		row[i].memory_bound = k[i].flops / s->target.fma_gflops * 1.001 < k[i].roofline_ns;
		if (row[i].after_ns > 0)
			row[i].roofline = k[i].roofline_ns / (k[i].alone ? 1 : cores) / (double)row[i].after_ns;
		const struct step *st = &s->model.steps->step[k[i].step];
		task[i] = task_of(s, st);
		set_recorded(s, &row[i], task[i]);
		if (reverted && row[i].after == FROM_DEFAULT)
			row[i].after = FROM_CACHE;
		set_at_default(s, &row[i], st);
		if (k[i].why == WHY_NO_KERNEL)
			row[i].why = why_without(s, task[i]);
		if (k[i].why != WHY_NOT) /* its peaks are not the device's */
			row[i].roofline = 0;
	}
	doubt_peaks(s, n, row, k);
	s->report->nkernels = n;
	s->report->kernel = row;
	s->report->missing = missing(s, n, row, task);
}
