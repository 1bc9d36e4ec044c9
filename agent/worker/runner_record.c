/* SPDX-License-Identifier: Apache-2.0 */
/* A runner between another one and its caller: it records what the other one measures. */
#include "agent/worker/replay.h"

#include "kernels/task/task.h"
#include "platform/base/log.h"

#include <stdlib.h>
#include <string.h>

/* A built candidate, or one that failed. */
struct entry {
	int handle;
	char *cand; /* malloc'd */
	int64_t build_ns;
	int task;
};

struct seen {
	char *text; /* malloc'd */
	char label[96];
};

struct record {
	struct runner base;
	struct runner *inner;
	char *dir;
	bool cold, broken;
	struct entry *entry;
	int n, cap;
	struct seen *task;
	int ntasks;
};

static struct record *record_of(struct runner *r)
{
	return (struct record *)r;
}

static char *copy_text(const char *s)
{
	size_t n = strlen(s) + 1;
	char *p = malloc(n);
	return p ? memcpy(p, s, n) : NULL;
}

/* Returns the index of a task; -1: no memory. */
static int find_task(struct record *w, const char *text)
{
	for (int i = 0; i < w->ntasks; i++)
		if (!strcmp(w->task[i].text, text))
			return i;
	struct seen *p = realloc(w->task, sizeof *p * (size_t)(w->ntasks + 1));
	struct task *t = malloc(sizeof *t);
	char *copy = copy_text(text);
	if (p)
		w->task = p;
	if (p && t && copy) {
		p[w->ntasks] = (struct seen){.text = copy, .label = "?"};
		if (task_parse(text, t) >= 0)
			task_label(t, p[w->ntasks].label);
		free(t);
		return w->ntasks++;
	}
	free(t);
	free(copy);
	return -1;
}

static void write_point(struct record *w, int task, struct landscape_point *p)
{
	struct landscape l = {.task = w->task[task].text,
			      .label = w->task[task].label,
			      .target = *w->inner->target,
			      .threads = w->inner->threads,
			      .cold = w->cold,
			      .protocol = "as tuning went",
			      .n = 1,
			      .point = p};
	if (landscape_append(w->dir, &l) >= 0)
		return;
	w->broken = true;
	log_info("hone: warning: --record stopped: %s", err_text());
}

static void remember(struct record *w, int handle, const char *cand, int64_t build_ns, int task)
{
	if (w->n == w->cap) {
		int cap = w->cap ? 2 * w->cap : 32;
		struct entry *p = realloc(w->entry, sizeof *p * (size_t)cap);
		if (!p)
			return;
		w->entry = p;
		w->cap = cap;
	}
	char *copy = copy_text(cand);
	if (copy)
		w->entry[w->n++] = (struct entry){handle, copy, build_ns, task};
}

static void forget(struct record *w, int handle)
{
	int n = 0;
	for (int i = 0; i < w->n; i++)
		if (handle < 0 || w->entry[i].handle == handle)
			free(w->entry[i].cand);
		else
			w->entry[n++] = w->entry[i];
	w->n = n;
}

static int record_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns,
			int *handle, struct meas *m)
{
	struct record *w = record_of(r);
	int rc = w->inner->ops->build(w->inner, task, cand, deadline_ns, handle, m);
	if (rc == E_CHILD)
		forget(w, -1);
	if (rc < 0 || w->broken)
		return rc;
	int at = find_task(w, task);
	if (at < 0)
		return rc;
	if (*handle >= 0) {
		remember(w, *handle, cand, m->build_ns, at);
	} else {
		struct landscape_point p = landscape_point_of(cand, m);
		write_point(w, at, &p);
	}
	return rc;
}

static enum ahead record_ahead(struct runner *r, const char *task, const char *cand)
{
	struct record *w = record_of(r);
	return w->inner->ops->ahead(w->inner, task, cand);
}

static enum ahead record_progress(struct runner *r, const char *task, const char *cand)
{
	struct record *w = record_of(r);
	return w->inner->ops->progress(w->inner, task, cand);
}

static void write_timed(struct record *w, int handle, const struct meas *m)
{
	for (int i = 0; i < w->n && !w->broken; i++) {
		if (w->entry[i].handle != handle)
			continue;
		struct landscape_point p = landscape_point_of(w->entry[i].cand, m);
		p.build_ns = w->entry[i].build_ns;
		write_point(w, w->entry[i].task, &p);
	}
}

static int record_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns,
		       unsigned how, int64_t deadline_ns, struct meas *m)
{
	struct record *w = record_of(r);
	int rc = w->inner->ops->time(w->inner, handles, n, rounds, abort_ns, how, deadline_ns, m);
	if (rc == E_CHILD)
		forget(w, -1);
	for (int i = 0; i < n && rc >= 0 && ((how & TIME_COLD) != 0) == w->cold; i++)
		write_timed(w, handles[i], &m[i]);
	return rc;
}

static int record_code(struct runner *r, int handle, int64_t deadline_ns, struct arena *a, struct blob *out)
{
	struct record *w = record_of(r);
	return w->inner->ops->code(w->inner, handle, deadline_ns, a, out);
}

static void record_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	struct record *w = record_of(r);
	forget(w, handle);
	w->inner->ops->drop(w->inner, handle, deadline_ns);
}

static void record_free(struct record *w)
{
	forget(w, -1);
	for (int i = 0; i < w->ntasks; i++)
		free(w->task[i].text);
	free(w->task);
	free(w->entry);
	free(w->dir);
	free(w);
}

static void record_close(struct runner *r)
{
	struct record *w = record_of(r);
	w->inner->ops->close(w->inner);
	record_free(w);
}

static const struct runner_ops ops = {
    .build = record_build,
    .ahead = record_ahead,
    .progress = record_progress,
    .time = record_time,
    .code = record_code,
    .drop = record_drop,
    .close = record_close,
};

int runner_record(struct runner *inner, const char *dir, bool cold, struct runner **out)
{
	int rc = file_mkdirs(dir, 0755);
	if (rc < 0)
		return fail_in(rc, "--record");
	struct record *w = calloc(1, sizeof *w);
	if (!w || !(w->dir = copy_text(dir))) {
		free(w);
		return fail(E_NOMEM, "no memory for a record of measurements");
	}
	w->inner = inner;
	w->cold = cold;
	w->base = *inner;
	w->base.ops = &ops;
	*out = &w->base;
	return E_OK;
}
