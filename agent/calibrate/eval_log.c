/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/calibrate/eval_log.h"

#include "agent/cache/json.h"
#include "platform/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 1, MOST_BYTES = 64 << 20 };

static json_t *numbers(const double *x, int n)
{
	json_t *all = json_array();
	for (int i = 0; i < n; i++)
		json_array_append_new(all, isfinite(x[i]) ? json_real(x[i]) : json_null());
	return all;
}

/* Describes the calibration that a log belongs to: two logs of the same one have the same text. */
static json_t *describe(const struct calibrate_opts *o)
{
	const struct app *app = o->app;
	json_t *nets = json_array();
	for (int i = 0; i < app->nnets; i++) {
		const struct app_net *net = &app->net[i];
		char key[33];
		key_text(net->file, key);
		json_array_append_new(nets,
				      json_pack("{so ss ss sf so}", "name", json_text(net->name), "model",
						key, "error", app_kind_name(net), "most", net->most, "output",
						net->output ? json_text(net->output) : json_null()));
	}
	return json_pack("{si so sf sf sI so}", "calibration", VERSION, "evaluator",
			 json_text(app->evaluator), "wrong", app->wrong, "pass", app->pass, "seed",
			 (json_int_t)o->seed, "networks", nets);
}

static int write_line(struct eval_log *l, json_t *line)
{
	char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
	json_decref(line);
	if (!text)
		return fail(E_NOMEM, "no memory for a line of %s", l->path);
	size_t n = strlen(text), done = 0;
	text[n++] = '\n'; /* in the place of the NUL */
	off_t end = lseek(l->fd, 0, SEEK_END);
	while (done < n) {
		ssize_t got = write(l->fd, text + done, n - done);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	int why = errno;
	free(text);
	if (done < n || fsync(l->fd) < 0) {
		why = done < n ? why : errno;
		if (ftruncate(l->fd, end) < 0)
			why = why ? why : errno;
		return fail(E_IO, "cannot write %s: %s; make room there, then run the same command again",
			    l->path, strerror(why));
	}
	return E_OK;
}

/* ---- reading ---- */

static int not_this(const struct eval_log *l, const char *what)
{
	return fail(E_USAGE,
		    "%s is the log of a calibration with another %s; give this one another --log, or remove "
		    "that file",
		    l->path, what);
}

/* The first difference of two descriptions, as people would name it; NULL: none. */
static const char *difference(const json_t *a, const json_t *b)
{
	static const struct {
		const char *key, *words;
	} parts[] = {{"calibration", "version of hone"},
		     {"evaluator", "evaluator"},
		     {"wrong", "share of wrong answers"},
		     {"pass", "least score that is tolerated"},
		     {"seed", "--seed"},
		     {"networks", "network, or another model, error or output of it"}};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (!json_equal(json_object_get(a, parts[i].key), json_object_get(b, parts[i].key)))
			return parts[i].words;
	return NULL;
}

static int check_description(const struct calibrate_opts *o, const struct eval_log *l, const json_t *found)
{
	json_t *wanted = describe(o);
	/* Written and read again, so that numbers are rounded the same way. */
	char *text = wanted ? json_dumps(wanted, JSON_COMPACT) : NULL;
	json_t *read = text ? json_loads(text, 0, NULL) : NULL;
	const char *what = read ? difference(found, read) : NULL;
	int rc = !read ? fail(E_NOMEM, "no memory to read %s", l->path) : what ? not_this(l, what) : E_OK;
	free(text);
	json_decref(read);
	json_decref(wanted);
	return rc;
}

/* Reads a list of as many numbers >= 0 as there are networks; null: NAN. */
static bool read_numbers(const json_t *line, const char *name, int n, double *out)
{
	const json_t *all = json_object_get(line, name);
	bool good = json_is_array(all) && json_array_size(all) == (size_t)n;
	for (int i = 0; i < n && good; i++) {
		const json_t *x = json_array_get(all, (size_t)i);
		good = json_is_number(x) || json_is_null(x);
		out[i] = json_is_null(x) ? (double)NAN : json_number_value(x);
		good = good && !(out[i] < 0);
	}
	return good;
}

static struct calibrate_answer *next_answer(struct eval_log *l)
{
	if (l->n == l->cap) {
		int cap = l->cap ? 2 * l->cap : 32;
		struct calibrate_answer *to = ARENA_ARRAY(l->a, struct calibrate_answer, cap);
		if (l->n)
			memcpy(to, l->answer, sizeof *to * (size_t)l->n);
		l->answer = to;
		l->cap = cap;
	}
	return &l->answer[l->n];
}

static bool read_answer(struct eval_log *l, const json_t *line)
{
	struct calibrate_answer *x = next_answer(l);
	double *error = ARENA_ARRAY(l->a, double, BOUNDARY_AXES), runs[BOUNDARY_AXES];
	const json_t *tolerated = json_object_get(line, "tolerated"), *score = json_object_get(line, "score");
	*x = (struct calibrate_answer){.error = error,
				       .e = {.tolerated = json_is_true(tolerated),
					     .scored = json_is_number(score),
					     .score = json_number_value(score),
					     .seconds = json_number_value(json_object_get(line, "seconds"))}};
	bool good =
	    json_is_boolean(tolerated) && json_integer_value(json_object_get(line, "number")) == l->n &&
	    read_numbers(line, "errors", l->nnets, error) && read_numbers(line, "runs", l->nnets, runs) &&
	    read_numbers(line, "reached", l->nnets, x->e.reached) &&
	    read_numbers(line, "norm", l->nnets, x->e.norm);
	for (int i = 0; i < l->nnets && good; i++) {
		good = !isnan(error[i]) && runs[i] < 1e15;
		x->e.runs[i] = good ? (unsigned long long)runs[i] : 0;
	}
	l->n += good;
	return good;
}

/* Reads all whole lines, and removes what is behind the last one. */
static int read_all(const struct calibrate_opts *o, struct eval_log *l)
{
	struct arena scratch = {0};
	struct blob b;
	int rc = file_read(&scratch, l->path, MOST_BYTES, &b), number = 0;
	const char *p = rc < 0 ? NULL : b.p, *end = rc < 0 ? NULL : p + b.n, *whole = p;
	for (const char *stop; rc >= 0 && p < end && (stop = memchr(p, '\n', (size_t)(end - p)));
	     p = stop + 1) {
		json_t *line = json_loadb(p, (size_t)(stop - p), JSON_REJECT_DUPLICATES, NULL);
		number++;
		if (!json_is_object(line))
			rc = fail(E_CORRUPT,
				  "%s:%d: no line of a calibration's log; remove it, and those behind it",
				  l->path, number);
		else if (number == 1)
			rc = check_description(o, l, line);
		else if (!read_answer(l, line))
			rc = fail(E_CORRUPT,
				  "%s:%d: an answer that does not follow the ones before; remove it, and "
				  "those behind "
				  "it",
				  l->path, number);
		json_decref(line);
		whole = stop + 1;
	}
	/* Before the first line is whole, the file may be somebody else's. */
	static const char begins[] = "{\"calibration\":";
	size_t more = (size_t)(end - whole), most = sizeof begins - 1;
	if (rc >= 0 && !number && memcmp(whole, begins, more < most ? more : most) != 0)
		rc = fail(E_USAGE, "%s is no log of a calibration; name another file by --log", l->path);
	if (rc >= 0 && whole < end && ftruncate(l->fd, whole - (const char *)b.p) < 0)
		rc = fail(E_IO, "cannot remove the unfinished last line of %s: %s", l->path, strerror(errno));
	arena_free(&scratch);
	return rc < 0 ? rc : number;
}

int eval_log_open(const struct calibrate_opts *o, struct arena *a, struct eval_log *out)
{
	struct stat st;
	*out = (struct eval_log){
	    .fd = open(o->log, O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND | O_NOFOLLOW | O_NONBLOCK, 0644),
	    .a = a,
	    .nnets = o->app->nnets,
	    .path = o->log};
	if (out->fd < 0)
		return fail(E_IO, "cannot open %s: %s; name another file by --log", o->log, strerror(errno));
	int rc = E_OK;
	if (fstat(out->fd, &st) < 0 || !S_ISREG(st.st_mode))
		rc = fail(E_USAGE, "%s is no file; name one by --log", o->log);
	else if (flock(out->fd, LOCK_EX | LOCK_NB) < 0)
		rc = fail(E_BUSY, "another hone calibrate works on %s; wait until it has ended", o->log);
	int lines = rc < 0 ? rc : read_all(o, out);
	if (lines == 0) {
		lines = write_line(out, describe(o));
		file_sync_folder_of(o->log);
	}
	if (lines < 0)
		eval_log_close(out);
	return lines < 0 ? lines : E_OK;
}

int eval_log_add(struct eval_log *l, const double *error, const struct evaluation *e)
{
	double runs[BOUNDARY_AXES], *copy = ARENA_ARRAY(l->a, double, BOUNDARY_AXES);
	for (int i = 0; i < l->nnets; i++) {
		runs[i] = (double)e->runs[i];
		copy[i] = error[i];
	}
	int rc = write_line(l, json_pack("{si so sb so sf so so so}", "number", l->n, "errors",
					 numbers(error, l->nnets), "tolerated", e->tolerated, "score",
					 e->scored ? json_real(e->score) : json_null(), "seconds", e->seconds,
					 "runs", numbers(runs, l->nnets), "reached",
					 numbers(e->reached, l->nnets), "norm", numbers(e->norm, l->nnets)));
	if (rc < 0)
		return rc;
	*next_answer(l) = (struct calibrate_answer){.error = copy, .e = *e};
	l->n++;
	return E_OK;
}

void eval_log_close(struct eval_log *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}
