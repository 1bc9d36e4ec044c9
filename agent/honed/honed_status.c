/* SPDX-License-Identifier: Apache-2.0 */
/* honed's reports about itself: status, one line for the service manager, metrics. */
#include "agent/honed/honed_parts.h"
#include "agent/honed/shorten.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MODELS_BYTES = 32 << 10 }; /* keeps a status below CONTROL_SAID */

static double s_of(int64_t ns)
{
	return (double)ns / (double)NS_PER_S;
}

static struct honed_job *lively(const struct honed *h)
{
	const struct honed_job *best = NULL;
	for (int i = 0; i < HONED_JOBS; i++) {
		const struct honed_job *j = &h->job[i];
		if (job_lives(j) && (!best || (best->resting.state && !j->resting.state)))
			best = j;
	}
	return (struct honed_job *)best;
}

static bool model_failing(const struct honed *h, const struct kept_model *m)
{
	return m->lasting || m->faulty || (m->fails && m->pause_until_ns > h->now_ns);
}

static int wanting(const struct honed *h, const struct kept_model **failed)
{
	int n = 0;
	*failed = NULL;
	for (int i = 0; i < h->models.n; i++) {
		const struct kept_model *m = &h->models.list[i];
		if (m->refused[0] || model_failing(h, m))
			*failed = m;
		n += model_wants(m);
	}
	return n;
}

/* The times are sums of the kernels that were timed so far, which grow with each of them. */
static void say_job(const struct honed *h, const struct honed_job *j, struct buf *b)
{
	buf_printf(b, "%s", job_label(h, j).text);
	if (j->progress.now_ms > 0 && !j->progress.done)
		buf_printf(b, ": kernels timed so far, in sum: %.3g -> %.3g ms", j->progress.before_ms, j->progress.now_ms);
}

/* Names at most one job of each of two devices: others are in the list of jobs. */
static void say_tuning(const struct honed *h, const struct honed_job *j, char *text, size_t n)
{
	struct buf b = {0};
	int outside = models_count(h, model_is_outside), all = models_count(h, NULL) - outside;
	int done = models_count(h, model_is_served) - outside;
	buf_puts(&b, "tuning ");
	say_job(h, j, &b);
	for (int i = 0, more = 0; i < HONED_JOBS && !more; i++) {
		const struct honed_job *o = &h->job[i];
		more = job_lives(o) && !o->resting.state && strcmp(o->device, j->device) != 0;
		if (more) {
			buf_puts(&b, "; ");
			say_job(h, o, &b);
		}
	}
	if (h->o.mode == HONED_BOX)
		buf_printf(&b, " (%d of %d model%s), %.1f s left", done < all ? done + 1 : all, all,
			   plural_s(all), fmax(0, s_of(h->o.box_ns - h->now_ns)));
	snprintf(text, n, "%s", buf_str(&b));
	buf_free(&b);
}

static const char *gate_says(const struct honed *h)
{
	const struct gate_verdict *v = &h->look.verdict[h->o.mode == HONED_BOX ? VIEW_HARD : VIEW_ALL];
	return v->text[0] ? v->text : "the state of the board is not known yet";
}

/* Looks for a model whose last job left kernels out and that will be tried again. */
static bool lacking(const struct honed *h, char *text, size_t n)
{
	for (int i = 0; i < h->models.n; i++) {
		const struct kept_model *m = &h->models.list[i];
		if (!m->missing || m->refused[0])
			continue;
		char why[128];
		if (m->error)
			shorten(m->error, why, sizeof why);
		else
			snprintf(why, sizeof why, "%d kernel%s not made yet; general ones run instead", m->missing,
				 plural_s(m->missing));
		snprintf(text, n, "model %s: %s; honed tries again later", model_label(h, m).text, why);
		return true;
	}
	return false;
}

static const char *word_of_idle(const struct honed *h, char *text, size_t n)
{
	const struct kept_model *failed;
	const char *held = NULL;
	int want = wanting(h, &failed);
	if (!h->models.n) {
		snprintf(text, n, "no model is configured, so there is nothing to tune");
		return "ready";
	}
	if (h->o.mode == HONED_RESIDENT && want && !h->conf->idle) {
		snprintf(text, n, "tuning while idle is switched off ([idle] tune = no)");
		return "ready";
	}
	if (want && !store_lets_start(h, &held)) {
		snprintf(text, n, "waits to tune: %s", held);
		return "waiting";
	}
	enum view_kind v;
	if (jobs_can_start(h, &v)) {
		snprintf(text, n, "waits to tune: %.160s", gate_says(h));
		return "waiting";
	}
	if (failed) {
		char why[150];
		shorten(failed->refused[0] ? failed->refused : failed->error ? failed->error : "", why, sizeof why);
		snprintf(text, n, "model %s: %s", model_label(h, failed).text, why);
		return "failing";
	}
	if (lacking(h, text, n))
		return "waiting";
	snprintf(text, n,
		 want ? "the last slices gained nothing; honed tries again later"
		      : "every model has its kernels, and no gain is expected from more search");
	return "ready";
}

static void status_word(const struct honed *h, const char **state, char *text, size_t n)
{
	const struct honed_job *j = lively(h);
	const char *who = gate_inhibited(h);
	if (h->models.skips) {
		*state = "skipping";
		snprintf(text, n, "tuning is skipped, because the last %d boot boxes were interrupted",
			 h->models.marks.unclean);
	} else if (who && (!j || j->resting.state)) {
		*state = "inhibited";
		snprintf(text, n, "inhibited: %s", who);
	} else if (j && j->resting.state) {
		*state = "resting";
		snprintf(text, n, "rests: %.160s", h->look.verdict[j->view].text);
	} else if (j) {
		*state = "tuning";
		say_tuning(h, j, text, n);
	} else {
		*state = word_of_idle(h, text, n);
	}
	log_one_line(text);
}

/* JSON */

static void put_text(struct buf *b, const char *key, const char *s)
{
	buf_printf(b, ",\"%s\":", key);
	if (s)
		control_text(b, s);
	else
		buf_puts(b, "null");
}

static void put_real(struct buf *b, const char *key, double v, bool known)
{
	if (known && isfinite(v))
		buf_printf(b, ",\"%s\":%.6g", key, v);
	else
		buf_printf(b, ",\"%s\":null", key);
}

static void put_gate(const struct honed *h, struct buf *b)
{
	const struct gate_verdict *v = &h->look.verdict[h->o.mode == HONED_BOX ? VIEW_HARD : VIEW_ALL];
	const struct vitals *s = &h->look.vitals;
	bool heat = s->has & VITAL_HEAT;
	if (h->look.seen_ns == LONG_AGO && !gate_inhibited(h)) {
		buf_puts(b, ",\"gate\":null");
		return;
	}
	buf_printf(b, ",\"gate\":{\"open\":%s", v->open ? "true" : "false");
	put_text(b, "why", gate_word(v->why));
	put_text(b, "words", v->text);
	put_real(b, "load_pct", v->load_pct, v->load_pct >= 0);
	put_real(b, "temp_c", s->temp_mc / 1000.0, heat);
	put_text(b, "zone", heat ? s->zone : NULL);
	put_real(b, "headroom_c", s->headroom_mc / 1000.0, heat);
	buf_printf(b, ",\"throttled\":%s,\"looked_s\":%.6g}", s->throttle ? "true" : "false",
		   h->look.seen_ns == LONG_AGO ? -1 : s_of(h->now_ns - h->look.seen_ns));
}

static const char *model_state(const struct honed *h, int i)
{
	const struct kept_model *m = &h->models.list[i];
	for (int k = 0; k < HONED_JOBS; k++)
		if (job_lives(&h->job[k]) && h->job[k].model == i)
			return h->job[k].resting.state ? "resting" : "tuning";
	if (m->refused[0])
		return "refused";
	if (model_failing(h, m))
		return "failed";
	return model_wants(m) || !m->known ? "waiting" : "exhausted";
}

static void put_model(const struct honed *h, int i, struct buf *b)
{
	const struct kept_model *m = &h->models.list[i];
	int64_t when = model_when(h, i);
	buf_printf(b, "%s{\"name\":", i ? "," : "");
	control_text(b, m->conf->name);
	put_text(b, "path", strlen(m->conf->path) <= 200 ? m->conf->path : NULL);
	put_text(b, "state", model_state(h, i));
	buf_printf(b, ",\"ready\":%s", model_ready(h, m) ? "true" : "false");
	put_real(b, "before_ms", m->before_ms, m->before_ms > 0);
	put_real(b, "default_ms", m->default_ms, m->default_ms > 0);
	put_real(b, "now_ms", m->now_ms, m->now_ms > 0);
	buf_printf(b, ",\"now_rough\":%s,\"missing\":%d", model_rough(m) ? "true" : "false",
		   m->missing);
	put_real(b, "promise", m->promise, m->promise >= 0);
	put_real(b, "next_s", when > h->now_ns ? s_of(when - h->now_ns) : 0, when != NEVER);
	put_text(b, "error", m->refused[0] ? m->refused : m->error);
	buf_printf(b, ",\"lasting\":%s", m->lasting ? "true" : "false");
	char note[128];
	double processor_ms = model_processor_wins(h, m);
	snprintf(note, sizeof note, "the processor alone runs it faster, in %.3g ms: leave this device out",
		 processor_ms);
	put_text(b, "device", conf_device_name(m->conf->device));
	put_text(b, "note", processor_ms > 0 ? note : NULL);
	put_text(b, "level", level_name((int)m->conf->level));
	put_real(b, "threads", m->conf->threads, m->conf->threads > 0);
	buf_puts(b, "}");
}

static const char *job_word(const struct honed_job *j)
{
	if (j->state == JOB_QUEUED)
		return "waiting";
	if (j->ending.kill_ns)
		return "stopping";
	return j->resting.state ? "resting" : j->state == JOB_STARTING ? "starting" : "running";
}

static void put_job(const struct honed *h, const struct honed_job *j, bool comma, struct buf *b)
{
	buf_printf(b, "%s{\"job\":%d,\"pid\":%d", comma ? "," : "", j->number, (int)j->pid);
	put_text(b, "model", j->name);
	put_text(b, "device", j->device);
	put_text(b, "state", job_word(j));
	put_text(b, "lease", lease_words[j->lease.held]);
	put_text(b, "wants", lease_words[j->lease.wants]);
	buf_printf(b, ",\"leases\":%" PRId64, j->lease.grants);
	/* For people: the first of ntasks is 1. */
	buf_printf(b, ",\"task\":%d,\"ntasks\":%d,\"trials\":%d",
		   j->progress.task + (j->progress.ntasks > 0 && j->progress.task < j->progress.ntasks),
		   j->progress.ntasks, j->progress.trials);
	put_real(b, "before_ms", j->progress.before_ms, j->progress.before_ms > 0);
	put_real(b, "now_ms", j->progress.now_ms, j->progress.now_ms > 0);
	put_real(b, "left_s",
		 j->ours ? fmax(0, s_of(j->started_ns + j->budget_ns - h->now_ns))
			 : j->progress.left_ms / 1000,
		 job_lives(j));
	put_text(b, "label", j->progress.label);
	buf_puts(b, "}");
}

static void put_rows(const struct honed *h, struct buf *b)
{
	int i = 0;
	buf_puts(b, ",\"models\":[");
	for (; i < h->models.n && b->n < MODELS_BYTES; i++)
		put_model(h, i, b);
	buf_printf(b, "],\"models_left\":%d,\"jobs\":[", h->models.n - i);
	for (int n = i = 0; i < HONED_JOBS; i++)
		if (h->job[i].state)
			put_job(h, &h->job[i], n++, b);
	buf_puts(b, "],\"inhibits\":[");
	for (i = 0; i < h->inhibits.n; i++) {
		const struct inhibit *it = h->inhibits.list[i];
		buf_printf(b, "%s{\"name\":", i ? "," : "");
		control_text(b, it->name);
		put_text(b, "why", it->why);
		put_real(b, "since_s", s_of(h->now_ns - it->since_ns), it->since_ns);
		put_real(b, "left_s", s_of(it->until_ns - h->now_ns), it->until_ns != NEVER);
		buf_puts(b, "}");
	}
	if (h->inhibits.file) {
		buf_printf(b, "%s{\"name\":null", h->inhibits.n ? "," : "");
		put_text(b, "why", h->inhibits.file);
		put_real(b, "since_s", s_of(h->now_ns - h->inhibits.file_ns), true);
		buf_puts(b, ",\"left_s\":null}");
	}
	buf_puts(b, "]");
}

static void put_status(const struct honed *h, struct buf *out)
{
	char text[256];
	const char *state;
	status_word(h, &state, text, sizeof text);
	buf_printf(out, "{\"version\":\"%s\",\"pid\":%d", HONE_VERSION, (int)getpid());
	put_text(out, "mode", h->o.mode == HONED_BOX ? "box" : "resident");
	put_text(out, "state", state);
	buf_printf(out, ",\"ready\":%s", models_ready(h) ? "true" : "false");
	put_text(out, "verdict", text);
	put_text(out, "warning", h->commits.error[0] ? h->commits.error : NULL);
	put_text(out, "conf", h->o.conf_file);
	put_text(out, "conf_error", h->told.conf_error[0] ? h->told.conf_error : NULL);
	put_real(out, "up_s", s_of(h->now_ns - h->opened_ns), true);
	put_real(out, "left_s", fmax(0, s_of(h->o.box_ns - h->now_ns)), h->o.mode == HONED_BOX);
	put_text(out, "cache", h->o.cache);
	put_text(out, "policy", h->policy->name);
	buf_printf(out,
		   ",\"generation\":%" PRIu64 ",\"clients\":%d,\"yields\":%" PRId64 ",\"tainted\":%" PRId64,
		   h->commits.generation, h->clients.n, h->counts.yields, h->counts.tainted);
	put_gate(h, out);
	put_rows(h, out);
	buf_printf(out,
		   ",\"flash\":{\"today_bytes\":%" PRId64 ",\"limit_bytes\":%" PRId64
		   ",\"written_bytes\":%" PRId64 "},\"sync\":{\"next_s\":null}}",
		   store_today(h), h->conf->writes_bytes, store_written(h));
}

void honed_status(const struct honed *h, int64_t now_ns, struct buf *out)
{
	struct honed then = *h; /* a copy as of now_ns: nothing has happened since the last event */
	then.now_ns = now_ns > h->now_ns ? now_ns : h->now_ns;
	put_status(&then, out);
}

/* The service manager's line, and the metrics' file */

void status_tick(struct honed *h)
{
	char text[256];
	const char *state;
	bool box = h->o.mode == HONED_BOX;
	if (!h->started || h->leaving)
		return;
	if ((h->told.say || box) && h->now_ns - h->told.text_ns >= SAY_NS) {
		status_word(h, &state, text, sizeof text);
		h->told.say = false;
		if (strcmp(text, h->told.text)) {
			h->told.text_ns = h->now_ns;
			memcpy(h->told.text, text, sizeof text);
			honed_act(h, &(struct honed_action){.kind = HA_STATUS, .text = h->told.text});
		}
	}
	if (h->told.count && h->now_ns - h->told.metrics_ns >= METRICS_NS) {
		h->told.count = false;
		h->told.metrics_ns = h->now_ns;
		honed_act(h, &(struct honed_action){.kind = HA_METRICS});
	}
}

int64_t status_next(const struct honed *h)
{
	int64_t at = NEVER;
	if (!h->started || h->leaving)
		return at;
	if (h->told.say)
		sooner(&at, h->told.text_ns + SAY_NS);
	if (h->o.mode == HONED_BOX)
		sooner(&at, h->now_ns + NS_PER_S);
	if (h->told.count)
		sooner(&at, h->told.metrics_ns + METRICS_NS);
	return at;
}

/* Metrics */

static void head(struct buf *b, const char *name, const char *type, const char *help)
{
	buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(struct buf *b, const char *name, const char *type, const char *help, double v)
{
	head(b, name, type, help);
	buf_printf(b, "%s %.15g\n", name, v);
}

static void label(struct buf *b, const char *s)
{
	for (; *s; s++) {
		if (*s == '\\' || *s == '"')
			buf_add(b, "\\", 1);
		if (*s == '\n')
			buf_puts(b, "\\n");
		else
			buf_add(b, s, 1);
	}
}

static double model_is_ready(const struct honed *h, const struct kept_model *m)
{
	return model_ready(h, m);
}

static double model_now(const struct honed *h, const struct kept_model *m)
{
	(void)h;
	return m->now_ms > 0 ? m->now_ms / 1000 : NAN;
}

static double model_before(const struct honed *h, const struct kept_model *m)
{
	(void)h;
	return m->before_ms > 0 ? m->before_ms / 1000 : NAN;
}

static double model_promise(const struct honed *h, const struct kept_model *m)
{
	(void)h;
	return m->promise >= 0 ? m->promise : NAN;
}

static double model_missing(const struct honed *h, const struct kept_model *m)
{
	(void)h;
	return m->now_ms > 0 ? m->missing : NAN;
}

static const struct {
	const char *name, *help;
	double (*value)(const struct honed *h, const struct kept_model *m); /* NaN: not known */
} of_models[] = {
    {"hone_model_ready", "1 if the model has its kernels, or more search gains nothing now.", model_is_ready},
    {"hone_model_before_seconds", "First run time of the model that was measured.", model_before},
    {"hone_model_now_seconds", "That time, divided by what tuning has gained since.", model_now},
    {"hone_model_promise_ratio", "Share of the run time that more search is expected to gain.",
     model_promise},
    {"hone_model_missing_kernels", "Kernels of the model that have no code.", model_missing},
};

static void put_models(const struct honed *h, struct buf *b)
{
	for (size_t k = 0; k < sizeof of_models / sizeof *of_models; k++) {
		head(b, of_models[k].name, "gauge", of_models[k].help);
		for (int i = 0; i < h->models.n; i++) {
			double v = of_models[k].value(h, &h->models.list[i]);
			if (!isfinite(v))
				continue;
			buf_printf(b, "%s{model=\"", of_models[k].name);
			label(b, h->models.list[i].conf->name);
			if (h->models.list[i].conf->device)
				buf_printf(b, "\",device=\"%s", h->models.list[i].conf->device);
			buf_printf(b, "\"} %.9g\n", v);
		}
	}
}

static void put_board(const struct honed *h, struct buf *b)
{
	const struct gate_verdict *v = &h->look.verdict[h->o.mode == HONED_BOX ? VIEW_HARD : VIEW_ALL];
	if (h->look.seen_ns == LONG_AGO)
		return;
	one(b, "hone_gate_open", "gauge", "1 if the gate allows tuning.", v->open);
	head(b, "hone_gate_reason", "gauge", "Why tuning is allowed or not: the reason that holds is 1.");
	for (int w = GATE_OPEN; w < GATE_WHYS; w++)
		buf_printf(b, "hone_gate_reason{why=\"%s\"} %d\n", gate_word((enum gate_why)w),
			   (int)v->why == w);
	if (v->load_pct >= 0)
		one(b, "hone_load_ratio", "gauge", "Share of all processors that other programs use.",
		    v->load_pct / 100);
	if (h->look.vitals.has & VITAL_HEAT) {
		one(b, "hone_temperature_celsius", "gauge", "Temperature of the zone nearest to its limit.",
		    h->look.vitals.temp_mc / 1000.0);
		one(b, "hone_headroom_celsius", "gauge",
		    "Difference between that temperature and the lowest trip point of its zone.",
		    h->look.vitals.headroom_mc / 1000.0);
	}
}

static int lives(const struct honed *h)
{
	int n = 0;
	for (int i = 0; i < HONED_JOBS; i++)
		n += job_lives(&h->job[i]);
	return n;
}

void honed_metrics(const struct honed *h, int64_t now_ns, struct buf *out)
{
	(void)now_ns;
	const struct {
		const char *name, *type, *help;
		double value;
	} rows[] = {
	    {"hone_ready", "gauge", "1 if every configured model is ready; 0 if one was refused or failed.", models_ready(h)},
	    {"hone_jobs", "gauge", "Jobs that run or rest.", lives(h)},
	    {"hone_clients", "gauge", "Connections.", h->clients.n},
	    {"hone_inhibits", "gauge", "Requests and files that inhibit tuning.",
	     h->inhibits.n + (h->inhibits.file != NULL)},
	    {"hone_jobs_started_total", "counter", "Jobs started.", (double)h->counts.slices},
	    {"hone_jobs_failed_total", "counter", "Jobs that failed.", (double)h->counts.fails},
	    {"hone_trials_total", "counter", "Candidates measured.", (double)h->counts.trials},
	    {"hone_yields_total", "counter", "Number of times that a job yielded to the application.",
	     (double)h->counts.yields},
	    {"hone_tainted_total", "counter", "Leases whose measurements were discarded.",
	     (double)h->counts.tainted},
	    {"hone_cache_generation", "gauge", "Batches of records that the cache has committed.",
	     (double)h->commits.generation},
	    {"hone_cache_failed", "gauge", "1 if the last write of the cache failed.",
	     h->commits.error[0] != 0},
	    {"hone_flash_written_bytes_total", "counter", "Bytes written to flash since honed started.",
	     (double)store_written(h)},
	    {"hone_flash_today_bytes", "gauge", "Bytes written to flash today.", (double)store_today(h)},
	    {"hone_flash_limit_bytes", "gauge", "Bytes that may be written to flash in a day; 0: no limit.",
	     (double)h->conf->writes_bytes},
	};
	head(out, "hone_info", "gauge", "Version of honed.");
	buf_printf(out, "hone_info{version=\"%s\",mode=\"%s\"} 1\n", HONE_VERSION,
		   h->o.mode == HONED_BOX ? "box" : "resident");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		one(out, rows[i].name, rows[i].type, rows[i].help, rows[i].value);
	head(out, "hone_leases_total", "counter", "Leases granted.");
	for (int k = LEASE_COMPUTE; k <= LEASE_QUIET; k++)
		buf_printf(out, "hone_leases_total{kind=\"%s\"} %" PRId64 "\n", lease_words[k],
			   h->counts.grants[k]);
	put_board(h, out);
	put_models(h, out);
}
