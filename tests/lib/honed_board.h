/* SPDX-License-Identifier: Apache-2.0 */
/* Drives honed's decisions in tests: keeps its actions as a list of lines, with a clock that moves only when
 * told.
 *
 * Lines: "send 3 {...}", "close 3", "look", "start 1 a 30000" (job, model, ms), "signal 1 9", "put 1 5"
 * (type, bytes), "commit 1", "marks 1 2" (unclean, models), "inhibit NAME TEXT", "status TEXT", "leave 0". */
#ifndef TESTS_HONED_BOARD_H
#define TESTS_HONED_BOARD_H

#include "agent/control/gate.h"
#include "agent/honed/honed.h"
#include "tests/lib/test.h"
#include <signal.h>

enum { BOARD_LINES = 4096 };

struct board {
	struct honed *h;
	struct honed_options o;
	struct conf conf;
	struct conf_model model[8];
	struct honed_model file[8];
	int64_t now_ns;
	char *line[BOARD_LINES];
	int nlines, read;
	struct marks marks;
	int nmarks; /* times that marks were written */
	struct vitals vitals;
	int looks, glances; /* requested, not yet answered */
	int sums[HA_LEAVE + 1];
	int last_job;
	int64_t job_memory_bytes; /* limit of the last job */
	uint64_t job_cpus[8];     /* of the jobs 0 to 7, bit i: processor i */
	bool left;
};

static inline void board_line(struct board *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void board_line(struct board *b, const char *fmt, ...)
{
	char text[2048];
	va_list va;
	va_start(va, fmt);
	vsnprintf(text, sizeof text, fmt, va);
	va_end(va);
	text[strcspn(text, "\n")] = 0;
	if (b->nlines < BOARD_LINES)
		b->line[b->nlines++] = strdup(text);
}

/* Records actions for jobs and the cache. */
static inline void board_work(struct board *b, const struct honed_action *a)
{
	switch (a->kind) {
	case HA_START:
		b->last_job = a->job;
		b->job_memory_bytes = a->memory_bytes;
		for (int i = 0; i < a->ncpus && a->job < 8; i++)
			b->job_cpus[a->job] |= UINT64_C(1) << a->cpus[i];
		board_line(b, "start %d %s %lld cpus %d nice %d on %s threads %d", a->job, a->model->name,
			   (long long)(a->budget_ns / NS_PER_MS), a->ncpus, a->nice,
			   conf_device_name(a->model->device), a->threads);
		for (int i = 0; i < a->model->shapes.n; i++)
			board_line(b, "shape %d of %s: %s, level %s", a->job, a->model->path,
				   a->model->shapes.shape[i], level_name((int)a->model->level));
		break;
	case HA_SIGNAL:
		board_line(b, "signal %d %d", a->job, a->signal);
		break;
	case HA_PUT:
		board_line(b, "put %d %zu", a->type, a->payload.n);
		break;
	case HA_FORGET:
		board_line(b, "forget %d", a->type);
		break;
	case HA_COMMIT:
		board_line(b, "commit %lld", (long long)a->ticket);
		break;
	case HA_PREPARE:
		board_line(b, "prepare");
		break;
	case HA_MARKS:
		b->marks = *a->marks;
		b->nmarks++;
		board_line(b, "marks %d %d", a->marks->unclean, a->marks->n);
		break;
	default:
		break;
	}
}

static inline void board_act(void *ctx, const struct honed_action *a)
{
	struct board *b = ctx;
	b->sums[a->kind]++;
	switch (a->kind) {
	case HA_SEND:
		board_line(b, "send %d %s", a->client, a->text);
		break;
	case HA_CLOSE:
		board_line(b, "close %d", a->client);
		break;
	case HA_LOOK:
		b->looks++;
		break;
	case HA_GLANCE:
		b->glances++;
		break;
	case HA_INHIBIT:
		board_line(b, "inhibit %s %s", a->name, a->text ? a->text : "-");
		break;
	case HA_RELOAD:
		board_line(b, "reload");
		break;
	case HA_READY:
		board_line(b, "ready");
		break;
	case HA_STATUS:
		board_line(b, "status %s", a->text);
		break;
	case HA_LOG:
		board_line(b, "log %s", a->text);
		break;
	case HA_LEAVE:
		b->left = true;
		board_line(b, "leave %d", a->rc);
		break;
	default:
		board_work(b, a);
	}
}

static inline void board_event(struct board *b, struct honed_event e)
{
	honed_event(b->h, b->now_ns, &e);
	while (b->h && (b->looks || b->glances)) {
		enum honed_event_kind kind = b->looks ? HE_VITALS : HE_GLANCE;
		b->looks -= b->looks > 0;
		b->glances -= kind == HE_GLANCE;
		b->vitals.at_ns = b->now_ns;
		honed_event(b->h, b->now_ns,
			    &(struct honed_event){.kind = kind, .vitals = &b->vitals, .minute = 600});
	}
}

/* Moves the clock by ns, with each HE_TIMER that honed asks for on the way; returns their number. */
static inline int board_run(struct board *b, int64_t ns)
{
	int64_t end = b->now_ns + ns;
	int n = 0;
	while (!b->left && honed_wakeup(b->h) <= end) {
		if (honed_wakeup(b->h) > b->now_ns)
			b->now_ns = honed_wakeup(b->h);
		board_event(b, (struct honed_event){.kind = HE_TIMER});
		if (++n > 1000000) {
			printf("honed asks for its timer for ever\n");
			test_bad = 1;
			break;
		}
	}
	b->now_ns = end;
	return n;
}

static inline struct board *board_new(enum honed_mode mode, int nmodels)
{
	static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
	static const char *const paths[] = {"/m/a", "/m/b", "/m/c", "/m/d", "/m/e", "/m/f", "/m/g", "/m/h"};
	struct board *b = calloc(1, sizeof *b);
	b->now_ns = 100 * NS_PER_S;
	b->conf = (struct conf){.boot_budget_ns = 20 * NS_PER_S,
				.boot_jobs = 1,
				.boot_unclean = 3,
				.idle = true,
				.slice_ns = 30 * NS_PER_S,
				.rest_ns = 600 * NS_PER_S,
				.job_memory_bytes = 512 << 20,
				.writes_bytes = 20 << 20,
				.jobs = 1,
				.nmodels = nmodels,
				.model = b->model};
	b->conf.gate.settle_ns = 10 * NS_PER_S;
	for (int i = 0; i < nmodels; i++) {
		b->model[i] = (struct conf_model){.name = names[i], .path = paths[i]};
		b->file[i].key = (struct key){1, (uint64_t)i};
	}
	b->vitals = (struct vitals){.has = VITAL_LOAD | VITAL_MEMORY | VITAL_HEAT | VITAL_THROTTLE,
				    .cpus = 4,
				    .headroom_mc = 40000,
				    .memory_free_bytes = INT64_C(2) << 30,
				    .memory_bytes = INT64_C(4) << 30};
	b->o = (struct honed_options){.mode = mode,
				      .conf = &b->conf,
				      .now_ns = b->now_ns,
				      .box_ns = b->now_ns + 20 * NS_PER_S,
				      .ncpus = 4,
				      .cpus = {0, 1, 2, 3},
				      .cache = "/var/lib/hone/cache",
				      .uid = 900,
				      .ctx = b,
				      .act = board_act};
	return b;
}

static inline void board_start(struct board *b)
{
	b->o.now_ns = b->now_ns;
	CHECK_OK(honed_open(&b->o, &b->h));
	board_event(b, (struct honed_event){.kind = HE_START, .nmodels = b->conf.nmodels, .model = b->file});
}

static inline void board_free(struct board *b)
{
	honed_close(b->h);
	for (int i = 0; i < b->nlines; i++)
		free(b->line[i]);
	free(b);
}

/* Forgets the lines so far. */
static inline void board_read(struct board *b)
{
	b->read = b->nlines;
}

/* A line since board_read that contains `part`; NULL: none. */
static inline const char *board_says(const struct board *b, const char *part)
{
	for (int i = b->read; i < b->nlines; i++)
		if (strstr(b->line[i], part))
			return b->line[i];
	return NULL;
}

static inline void board_dump(const struct board *b)
{
	for (int i = b->read; i < b->nlines; i++)
		printf("  %s\n", b->line[i]);
}

static inline void board_connect(struct board *b, int client, uid_t uid)
{
	board_event(b, (struct honed_event){
			   .kind = HE_CLIENT, .client = client, .peer = {1, uid, uid == 0 || uid == 900}});
}

/* Sends a request, given as its line. */
static inline void board_ask(struct board *b, int client, const char *line)
{
	struct request r;
	struct blob none = {NULL, 0};
	int rc = control_parse(line, strlen(line), &r);
	struct honed_event e = {.kind = rc < 0 ? HE_BROKEN : HE_REQUEST, .client = client, .request = &r};
	e.rc = rc;
	e.text = rc < 0 ? err_text() : NULL;
	e.payload = r.op == OP_PUT ? (struct blob){line, (size_t)r.bytes} : none;
	board_event(b, e);
}

/* Sends a put with its payload. */
static inline void board_put(struct board *b, int client, int type, struct key k, const char *payload)
{
	struct request r = {
	    .op = OP_PUT, .has_id = true, .id = 9, .type = type, .key = k, .bytes = (int64_t)strlen(payload)};
	board_event(b, (struct honed_event){.kind = HE_REQUEST,
					    .client = client,
					    .request = &r,
					    .payload = {payload, strlen(payload)}});
}

/* Puts a record of five bytes. */
static inline void board_put_rec(struct board *b, int client)
{
	board_ask(
	    b, client,
	    "{\"op\":\"put\",\"id\":1,\"type\":1,\"key\":\"00000000000000000000000000000001\",\"bytes\":5}");
}

static inline void board_stored(struct board *b, int64_t ticket)
{
	board_event(b, (struct honed_event){.kind = HE_STORED, .ticket = ticket});
}

/* Reports that job n runs; returns its connection, 1000 + n. */
static inline int board_started(struct board *b, int job)
{
	board_event(
	    b, (struct honed_event){.kind = HE_STARTED, .job = job, .pid = 5000 + job, .client = 1000 + job});
	return 1000 + job;
}

static inline void board_ended(struct board *b, int job, int rc, const char *text)
{
	board_event(b, (struct honed_event){.kind = HE_GONE, .client = 1000 + job});
	board_event(b, (struct honed_event){.kind = HE_ENDED, .job = job, .rc = rc, .text = text});
}

static inline void board_done(struct board *b, int job, double before, double after, int missing,
			      double promise)
{
	char line[300];
	snprintf(
	    line, sizeof line,
	    "{\"op\":\"done\",\"trials\":10,\"before_ms\":%g,\"default_ms\":%g,\"after_ms\":%g,\"kept\":1,"
	    "\"missing\":%d,\"promise\":%g}",
	    before, before, after, missing, promise);
	board_ask(b, 1000 + job, line);
	board_ended(b, job, 0, NULL);
}

static inline const char *board_status(struct board *b)
{
	static char text[1 << 16];
	struct buf s = {0};
	honed_status(b->h, b->now_ns, &s);
	snprintf(text, sizeof text, "%s", buf_str(&s));
	buf_free(&s);
	return text;
}

#endif
