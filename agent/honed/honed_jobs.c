/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: starting, resting, stopping and killing them, and their results. */
#include "agent/honed/honed_parts.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	FEW_CORES = 4, /* fewer cores than that are few */
	BUILDERS = 2,  /* builders that a job uses without being told */
};

bool job_lives(const struct honed_job *j)
{
	return j->state == JOB_STARTING || j->state == JOB_RUNNING;
}

bool job_serves(const struct honed *h, const struct honed_job *j)
{
	return j->model >= 0 && key_equal(j->key, h->models.list[j->model].key);
}

struct honed_job *job_of(struct honed *h, int number)
{
	for (int i = 0; i < HONED_JOBS; i++)
		if (h->job[i].state && h->job[i].number == number)
			return &h->job[i];
	return NULL;
}

int jobs_ours(const struct honed *h)
{
	int n = 0;
	for (int i = 0; i < HONED_JOBS; i++)
		n += h->job[i].ours && job_lives(&h->job[i]);
	return n;
}

static const char *base(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

struct honed_job *job_new(struct honed *h, int model, const char *path, const char *device)
{
	struct honed_job *j = h->job;
	for (; j < h->job + HONED_JOBS && j->state; j++)
		;
	char *own = j < h->job + HONED_JOBS ? strdup(path) : NULL;
	if (!own)
		return NULL;
	*j = (struct honed_job){.state = JOB_QUEUED, .model = model, .client = -1, .asker = -1, .path = own};
	j->number = h->job_number = h->job_number % INT32_MAX + 1;
	j->started_ns = j->heard_ns = h->now_ns;
	snprintf(j->name, sizeof j->name, "%s", model >= 0 ? h->models.list[model].conf->name : base(path));
	j->key = model >= 0 ? h->models.list[model].key : (struct key){0};
	snprintf(j->device, sizeof j->device, "%s", device);
	j->as = (struct conf_model){
	    .name = j->name, .path = j->path, .device = strcmp(device, CONF_CPU) ? j->device : NULL};
	return j;
}

void job_free(struct honed *h, struct honed_job *j)
{
	if (j->model >= 0)
		h->models.list[j->model].waits_ns = h->now_ns;
	free(j->path);
	free(j->shapes);
	*j = (struct honed_job){0};
	honed_changed(h);
}

static void job_say(struct honed *h, struct honed_job *j, const char *event)
{
	char line[64];
	snprintf(line, sizeof line, "{\"event\":\"%s\"}\n", event);
	client_send(h, j->client, line);
}

static void signal_to(struct honed *h, struct honed_job *j, int signal)
{
	honed_act(h, &(struct honed_action){.kind = HA_SIGNAL, .job = j->number, .signal = signal});
}

void job_settle(struct honed *h, struct honed_job *j)
{
	bool stop = j->ours && (j->resting.state == REST_STOPPED || j->hushed.is);
	if (stop != j->hushed.stopped && !j->ending.killed)
		signal_to(h, j, stop ? SIGSTOP : SIGCONT);
	j->hushed.stopped = stop;
}

/* Sends the job's result to the client that asked for the job. */
static void tell(struct honed *h, struct honed_job *j, const char *error, const struct request *done)
{
	struct buf b = {0};
	buf_printf(&b, "{\"event\":\"done\",\"job\":%d,\"ok\":%s", j->number, error ? "false" : "true");
	if (error) {
		buf_puts(&b, ",\"error\":");
		control_text(&b, error);
	}
	if (done)
		buf_printf(
		    &b,
		    ",\"trials\":%d,\"before_ms\":%.6g,\"default_ms\":%.6g,\"after_ms\":%.6g,\"kept\":%d,"
		    "\"missing\":%d,\"promise\":%.6g",
		    done->trials, done->before_ms, done->default_ms, done->now_ms, done->kept, done->missing,
		    done->promise);
	buf_puts(&b, "}\n");
	client_send(h, j->asker, buf_str(&b));
	buf_free(&b);
	j->asker = -1;
}

/* Starting */

/* Counts the jobs that already had all their memory at the last look: the free memory seen then excludes
 * theirs. */
static int jobs_grown(const struct honed *h)
{
	int n = 0;
	for (int i = 0; i < HONED_JOBS; i++) {
		const struct honed_job *j = &h->job[i];
		n += j->ours && job_lives(j) && j->started_ns + GROWN_NS <= h->look.seen_ns;
	}
	return n;
}

/* Bytes that each process of a job may write to. The limit protects against a job's own mistakes; the gate
 * protects the board's memory. */
static int64_t job_memory(const struct honed *h)
{
	int64_t half = h->look.vitals.has & VITAL_MEMORY ? h->look.vitals.memory_bytes / 2 : 0;
	half = half > JOB_BYTES ? half : JOB_BYTES;
	return h->conf->job_memory_bytes > 0 ? h->conf->job_memory_bytes : half;
}

/* Whether a model of this box uses all cores of the device, so that none is left for builders. */
static bool none_spared(const struct honed *h, const char *device)
{
	int cores = jobs_cores(h, device);
	for (int i = 0; i < h->models.n; i++) {
		const struct conf_model *m = h->models.list[i].conf;
		const char *its = conf_device_name(m->device);
		bool elsewhere = device_is_processor(its) && strcmp(its, device) != 0;
		if (h->models.list[i].box && !elsewhere && (m->threads < 1 || m->threads >= cores))
			return true;
	}
	return false;
}

/* Number of jobs that a box runs at once: one for each core; but with few cores one job at a time, for which
 * the other cores build ahead (jobs_spare). Jobs side by side hide everything that they compute behind each
 * other, but they stand still whenever one of them measures alone, and share caches and memory. Builders hide
 * compiling, which is most of the computing, and nothing else rests for them. Measured with four networks on
 * two cores of a server, to the same number of trials, relative to one after another without overlap: one at
 * a time takes 0.79 of the time, four at once more than 0.84; without honed, each with its builder, 0.70 to
 * 0.73 (through honed a trial takes 1 ms more). From the fourth core on one job for each core is better:
 * 0.50. */
static int box_jobs(const struct honed *h, const char *device)
{
	int cores = jobs_cores(h, device);
	return cores >= FEW_CORES || none_spared(h, device) ? cores : 1;
}

/* Number of jobs that memory has room for, including those that already run. */
static int64_t jobs_fit(const struct honed *h)
{
	if (!(h->look.vitals.has & VITAL_MEMORY))
		return HONED_JOBS;
	int64_t each = h->conf->job_memory_bytes > 0 ? h->conf->job_memory_bytes : JOB_BYTES;
	return jobs_grown(h) + h->look.vitals.memory_free_bytes / each;
}

/* Jobs at once on a device. Another device than the processor measures one at a time, and its jobs hide
 * nothing behind each other but their compiling: more than one is for who configures it. A sole device has
 * one job. */
static int jobs_each(const struct honed *h, const char *device)
{
	int most = h->o.mode == HONED_BOX ? h->conf->boot_jobs : h->conf->jobs;
	if (device_is_sole(device))
		return 1;
	return most > 0 ? most : device_is_processor(device) ? box_jobs(h, device) : 1;
}

static int jobs_on(const struct honed *h, const char *device)
{
	int n = 0;
	for (int i = 0; i < HONED_JOBS; i++)
		n += h->job[i].ours && job_lives(&h->job[i]) && !strcmp(h->job[i].device, device);
	return n;
}

/* Jobs at once on all devices, as far as memory has room for them; at least one. */
static int jobs_most(const struct honed *h)
{
	int64_t fit = jobs_fit(h);
	return fit > HONED_JOBS ? HONED_JOBS : fit > 1 ? (int)fit : 1;
}

int jobs_places(const struct honed *h, const char *device, int *most)
{
	int all = jobs_most(h), each = jobs_each(h, device);
	*most = each < all ? each : all;
	int places = *most - jobs_on(h, device), left = all - jobs_ours(h);
	return places < left ? places : left;
}

bool jobs_have_place(const struct honed *h, const char *device)
{
	int most;
	return jobs_places(h, device, &most) > 0;
}

/* Counts the jobs that can start now beside one that starts on `device`. */
static int more_can_start(const struct honed *h, const char *device)
{
	int n = 0, places = jobs_most(h) - jobs_ours(h) - 1;
	const char *on[HONED_MODELS];
	for (int i = 0; i < h->models.n && n < places; i++) {
		const char *its = conf_device_name(h->models.list[i].conf->device);
		int used = jobs_on(h, its) + !strcmp(its, device);
		for (int k = 0; k < n; k++)
			used += !strcmp(on[k], its);
		if (model_may(h, i) && used < jobs_each(h, its))
			on[n++] = its;
	}
	return n;
}

/* Extra cores for the builders of a box's job that starts now. The unused cores are shared among the jobs
 * that can start now, as far as memory has room for one more job on each extra core. A job on another device
 * than the processor has no builders. */
static int jobs_spare(const struct honed *h, const char *device, int threads)
{
	if (h->o.mode != HONED_BOX || threads < 1 || !device_is_processor(device))
		return 0;
	int start = 1 + more_can_start(h, device);
	int spare = jobs_unused_cores(h, device) / start - threads;
	int64_t room = (jobs_fit(h) - jobs_ours(h)) / start - 1;
	spare = room < spare ? (int)room : spare;
	return spare < 0 ? 0 : spare < BUILDERS ? spare : BUILDERS;
}

/* The mark is written before the first job runs, so that a box that is cut off counts as unclean, and so that
 * the gains of its models are then said to be rough. */
static void box_begins(struct honed *h)
{
	h->models.boxing = true;
	h->models.marks.unclean++;
	for (int i = 0; i < h->models.n; i++)
		h->models.list[i].open = h->models.list[i].box;
	h->models.marks_changed = true;
	marks_save(h);
	h->commits.prepare_ns = h->now_ns;
	honed_act(h, &(struct honed_action){.kind = HA_PREPARE});
}

static void start(struct honed *h, struct honed_job *j, int64_t budget_ns)
{
	const struct conf_model *m = j->model >= 0 ? h->models.list[j->model].conf : &j->as;
	const int threads = j->threads > 0 ? j->threads : m->threads;
	struct honed_action a = {.kind = HA_START,
				 .job = j->number,
				 .model = m,
				 .threads = jobs_threads(h, j->device, threads),
				 .budget_ns = budget_ns,
				 .memory_bytes = job_memory(h),
				 .nice = h->o.mode == HONED_BOX ? 5 : 19};
	int cpus[64];
	if (a.threads < threads && device_is_processor(j->device))
		honed_log(h, 1, "%s: threads = %d is more than %s has cores: tuning for %d thread%s",
			  job_label(h, j).text, threads, j->device, a.threads, plural_s(a.threads));
	if (h->o.mode == HONED_BOX && !h->models.boxing)
		box_begins(h);
	j->cpus = jobs_cpus(h, j->device, a.threads + jobs_spare(h, j->device, a.threads));
	for (int c = 0; c < h->o.ncpus; c++)
		if (j->cpus >> c & 1)
			cpus[a.ncpus++] = h->o.cpus[c];
	a.cpus = cpus;
	j->state = JOB_STARTING;
	j->ours = true;
	j->started_ns = j->heard_ns = h->now_ns;
	j->budget_ns = budget_ns;
	h->counts.slices++;
	honed_log(h, 2, "job %d: %s, %lld ms", j->number, job_label(h, j).text,
		  (long long)(budget_ns / NS_PER_MS));
	honed_act(h, &a);
	honed_changed(h);
}

/* The job that waits longest for a place: of those whose device has one now, if there are such. */
static struct honed_job *queued(const struct honed *h)
{
	const struct honed_job *first = NULL;
	bool placed = false;
	for (int i = 0; i < HONED_JOBS; i++) {
		const struct honed_job *j = &h->job[i];
		bool has = j->state == JOB_QUEUED && jobs_have_place(h, j->device);
		if (j->state != JOB_QUEUED || (placed && !has))
			continue;
		if (!first || has > placed || j->number < first->number)
			first = j;
		placed = has;
	}
	return (struct honed_job *)(uintptr_t)first;
}

static enum view_kind slice_view(const struct honed *h)
{
	return h->o.mode == HONED_BOX ? VIEW_HARD : VIEW_ALL;
}

/* Whether a slice could start if the gate let it. */
static bool slice_can(const struct honed *h)
{
	const char *why;
	bool box = h->o.mode == HONED_BOX;
	if (h->leaving || !h->started || !(box ? boot_has_time(h) : h->conf->idle) ||
	    !store_lets_start(h, &why))
		return false;
	return models_next(h) >= 0;
}

bool jobs_can_start(const struct honed *h, enum view_kind *v)
{
	*v = slice_view(h);
	if (slice_can(h))
		return true;
	const struct honed_job *j = queued(h);
	if (j)
		*v = j->view;
	return j;
}

/* Whether `j` has a place when `o` has ended. */
static bool gives_place(const struct honed *h, const struct honed_job *o, const struct honed_job *j)
{
	bool same = !strcmp(o->device, j->device);
	return same || jobs_on(h, j->device) < jobs_each(h, j->device);
}

/* Jobs that somebody asked for go before slices; if there is no place, one slice is stopped to make room. */
static bool start_queued(struct honed *h)
{
	struct honed_job *j = queued(h);
	if (!j || h->leaving || !gate_lets_start(h, j->view))
		return false;
	if (jobs_have_place(h, j->device)) {
		start(h, j, j->budget_ns);
		return true;
	}
	for (int i = 0; i < HONED_JOBS; i++)
		if (h->job[i].ending.why == END_ROOM && gives_place(h, &h->job[i], j))
			return false;
	for (int i = 0; i < HONED_JOBS; i++) {
		struct honed_job *o = &h->job[i];
		if (job_lives(o) && o->ours && !o->people && !o->ending.why && gives_place(h, o, j)) {
			job_stop(h, o, END_ROOM);
			return false;
		}
	}
	return false;
}

static bool start_slice(struct honed *h)
{
	if (!slice_can(h) || !gate_lets_start(h, slice_view(h)))
		return false;
	int i = models_next(h);
	const struct conf_model *m = h->models.list[i].conf;
	const char *device = conf_device_name(m->device);
	int64_t budget = h->o.mode == HONED_BOX ? boot_budget(h, device) : h->conf->slice_ns;
	struct honed_job *j = job_new(h, i, m->path, device);
	if (!j)
		return false;
	j->view = slice_view(h);
	j->uid = h->o.uid;
	start(h, j, budget);
	return true;
}

void jobs_started(struct honed *h, const struct honed_event *e)
{
	struct honed_job *j = job_of(h, e->job);
	if (!j || j->state != JOB_STARTING)
		return;
	struct peer peer = {e->pid, h->o.uid, true};
	struct client *c = client_add(h, e->client, &peer);
	j->state = JOB_RUNNING;
	j->pid = e->pid;
	j->heard_ns = h->now_ns;
	if (c) {
		c->job = (int)(j - h->job);
		j->client = e->client;
	}
	if (j->ending.why)
		signal_to(h, j, SIGKILL);
	honed_changed(h);
}

/* Ending */

void job_stop(struct honed *h, struct honed_job *j, enum job_end why)
{
	if (!j->ending.why)
		j->ending.why = why;
	if (j->state == JOB_QUEUED) {
		tell(h, j, "canceled before it could start", NULL);
		job_free(h, j);
		return;
	}
	if (j->ending.kill_ns)
		return;
	j->ending.kill_ns = h->now_ns + STOP_NS;
	j->resting.state = REST_NOT;
	job_settle(h, j);
	job_say(h, j, "stop");
	if (j->lease.ask.is)
		client_bad(h, j->client, &j->lease.ask, E_STOPPED, "lease: this job was told to stop");
	j->lease.ask.is = false;
	j->lease.wants = LEASE_NONE;
	honed_changed(h);
}

void job_kill(struct honed *h, struct honed_job *j, enum job_end why)
{
	if (!j->ours || j->ending.killed) {
		job_stop(h, j, why);
		return;
	}
	if (!j->ending.why)
		j->ending.why = why;
	j->ending.killed = true;
	j->ending.kill_ns = h->now_ns;
	signal_to(h, j, SIGKILL);
}

static const char *const end_text[] = {
    [END_NOT] = "its budget ended before it could tell its result",
    [END_LEAVING] = "honed is stopping",
    [END_CANCELED] = "canceled",
    [END_ROOM] = "it made room for another job",
    [END_RESTED] = "the board needed its processors for too long",
    [END_MEMORY] = "the board needed its memory",
    [END_OVER] = "it did not stop at the end of its budget",
    [END_HUNG] = "it sent nothing for 30 s",
    [END_GONE] = "it closed its connection",
};

/* Whether the job's budget has ended on its own clock, which runs on while it is stopped. */
static bool had_its_time(const struct honed *h, const struct honed_job *j)
{
	return h->now_ns - j->started_ns >= j->budget_ns / 8 * 7;
}

/* The same, but before it could run for so long. */
static bool rested_away(const struct honed *h, const struct honed_job *j)
{
	int64_t stopped_ns = j->resting.total_ns + j->hushed.total_ns, took_ns = h->now_ns - j->started_ns;
	return had_its_time(h, j) && took_ns - stopped_ns < j->budget_ns / 8 * 7;
}

/* Whether its budget ended while it sent a record that honed was slow to take: it could not send its result,
 * but the records before that one are kept. */
static bool cut_off(const struct honed *h, const struct honed_job *j, const struct honed_event *e)
{
	return !j->ending.why && e->rc >= 0 && !(e->text && *e->text) && !j->progress.done &&
	       had_its_time(h, j);
}

/* Returns why the job failed; NULL: it did not. */
static const char *failure(const struct honed *h, const struct honed_job *j, const struct honed_event *e)
{
	switch (j->ending.why) {
	case END_LEAVING:
	case END_CANCELED:
	case END_ROOM:
	case END_RESTED:
	case END_MEMORY:
		return NULL;
	case END_OVER:
	case END_HUNG:
		return end_text[j->ending.why];
	case END_NOT:
	case END_GONE:
		break;
	}
	bool says = e->text && *e->text;
	if (e->rc < 0 && rested_away(h, j))
		return NULL;
	if (e->rc < 0)
		return says ? e->text : "it failed without saying why";
	if (j->progress.done)
		return NULL;
	if (says)
		return e->text;
	if (cut_off(h, j, e))
		return NULL;
	return j->ending.why == END_GONE
		   ? "its connection with honed ended before it had a result, so it stopped tuning"
		   : "it ended with status 0, but told honed no result";
}

void jobs_ended(struct honed *h, const struct honed_event *e)
{
	struct honed_job *j = job_of(h, e->job);
	if (!j || !j->ours || !job_lives(j))
		return;
	const char *failed = failure(h, j, e);
	struct client *c = client_of(h, j->client);
	if (e->text && *e->text && failed != e->text && !j->ending.killed) /* nothing else will tell it */
		honed_log(h, 0, "job %d: %s: %s", j->number, job_label(h, j).text, e->text);
	if (cut_off(h, j, e))
		honed_log(h, 1, "%s: %s", job_label(h, j).text, end_text[END_NOT]);
	lease_drop(h, j, NULL);
	if (j->asker >= 0)
		tell(h, j, failed ? failed : end_text[j->ending.why], NULL);
	if (j->model >= 0) {
		h->models.list[j->model].had_ns += h->now_ns - j->started_ns - j->resting.total_ns;
		if (failed)
			model_failed(h, j->model, failed, j->progress.lasting && job_serves(h, j));
		if (!j->progress.done && j->saving.won && job_serves(h, j))
			model_gain_lost(h, j->model);
	} else if (failed) {
		h->counts.fails++;
		honed_log(h, 0, "job %d: %s: %s", j->number, job_label(h, j).text, failed);
	}
	if (c)
		c->job = -1;
	job_free(h, j);
}

/* The connection of a job ended. A job of ours is about to end, or is killed after STOP_NS; of another's job
 * nothing is left to wait for. */
void job_gone(struct honed *h, struct honed_job *j)
{
	lease_drop(h, j, NULL);
	j->client = -1;
	j->lease.ask.is = j->lease.release.is = j->saving.ask.is = false;
	if (!j->ours) {
		if (!j->progress.done && j->saving.won && job_serves(h, j))
			model_gain_lost(h, j->model);
		job_free(h, j);
		return;
	}
	if (!j->ending.why && !j->progress.done)
		j->ending.why = END_GONE;
	if (!j->ending.kill_ns)
		j->ending.kill_ns = h->now_ns + STOP_NS;
	j->resting.state = REST_NOT;
	job_settle(h, j);
}

/* Logs the times of this box; the status shows the model's first time. A job that ends early may have timed
 * the network once or not at all, and may not know what more search promises. */
static void log_done(struct honed *h, const struct honed_job *j, const struct request *r)
{
	char times[160], missing[48] = "", promise[96] = "", processor[96] = "";
	double processor_ms = j->model >= 0 ? model_processor_wins(h, &h->models.list[j->model]) : 0;
	if (r->before_ms > 0 && r->now_ms > 0)
		snprintf(times, sizeof times, "this box %.3f -> %.3f ms%s", r->before_ms, r->now_ms,
			 r->disturbed ? " (disturbed by other load or a lower clock)" : "");
	else if (r->before_ms > 0)
		snprintf(times, sizeof times, "this box began with %.3f ms and did not measure the network again",
			 r->before_ms);
	else
		snprintf(times, sizeof times, "the network was not measured");
	if (r->missing > 0 && !r->text[0]) /* where nothing was tried, that says enough */
		snprintf(missing, sizeof missing, "; %d kernel%s not made yet", r->missing,
			 plural_s(r->missing));
	if (r->promise >= 0)
		snprintf(promise, sizeof promise, "; another box may save %.1f %% of its time",
			 100 * r->promise);
	if (processor_ms > 0)
		snprintf(processor, sizeof processor, "; the processor alone runs it faster, in %.3g ms",
			 processor_ms);
	honed_log(h, 1, "%s: %s, %d candidate%s tried%s%s%s%s%s", job_label(h, j).text, times, r->trials,
		  plural_s(r->trials), missing, promise, r->text[0] ? "; nothing was tried: " : "", r->text,
		  processor);
}

void job_done(struct honed *h, struct honed_job *j, const struct request *r)
{
	if (r->lasting) { /* its end brings the error */
		j->progress.lasting = true;
		return;
	}
	j->progress.done = true;
	if (r->trials > j->progress.trials)
		h->counts.trials += r->trials - j->progress.trials;
	j->progress.trials = r->trials;
	if (job_serves(h, j))
		model_served(h, j->model, j, r);
	if (j->asker >= 0)
		tell(h, j, NULL, r);
	log_done(h, j, r);
	honed_changed(h);
}

/* Resting */

/* A job that is stopped already, for another job's lease, stays stopped. A job that still runs keeps its
 * lease until it is stopped. */
static void rest(struct honed *h, struct honed_job *j)
{
	j->resting.state = j->hushed.stopped ? REST_STOPPED : REST_TOLD;
	j->resting.since_ns = h->now_ns;
	h->counts.yields++;
}

static void tell_to_rest(struct honed *h, struct honed_job *j)
{
	char why[220];
	snprintf(why, sizeof why, "the gate closed: %s", h->look.verdict[j->view].text);
	if (j->resting.state == REST_STOPPED)
		lease_drop(h, j, why);
	else
		lease_taint(j, why);
	job_say(h, j, "yield");
	honed_log(h, 2, "job %d rests: %s", j->number, h->look.verdict[j->view].text);
	honed_changed(h);
}

static void go_on(struct honed *h, struct honed_job *j)
{
	if (!lease_regain(h, j))
		return;
	j->resting.state = REST_NOT;
	job_settle(h, j);
	j->resting.total_ns += h->now_ns - j->resting.since_ns;
	j->heard_ns = h->now_ns;
	job_say(h, j, "go on");
	honed_changed(h);
}

void jobs_rests(struct honed *h)
{
	bool looked = h->look.seen_ns != LONG_AGO, rests[HONED_JOBS] = {false};
	for (int i = 0; i < HONED_JOBS; i++) {
		struct honed_job *j = &h->job[i];
		const struct gate_verdict *v = &h->look.verdict[j->view];
		bool shut = gate_inhibited(h) || (looked && !v->open);
		if (j->state != JOB_RUNNING || j->ending.kill_ns)
			continue;
		if (looked && v->free_memory)
			job_kill(h, j, END_MEMORY);
		else if ((rests[i] = shut && !j->resting.state))
			rest(h, j);
		else if (!shut && j->resting.state)
			go_on(h, j);
	}
	/* tell them only after all are marked, so that no job of this list goes on with a lease that another
	 * one loses */
	for (int i = 0; i < HONED_JOBS; i++)
		if (rests[i])
			tell_to_rest(h, &h->job[i]);
}

/* Each returns when its duty is due; NEVER: it is not. */
static int64_t due_stop(const struct honed_job *j)
{
	return j->resting.state == REST_TOLD && !j->ending.kill_ns ? j->resting.since_ns + HONED_YIELD_NS
								   : NEVER;
}

static int64_t due_rested(const struct honed_job *j)
{
	return j->resting.state && !j->ending.kill_ns ? j->resting.since_ns + HONED_REST_NS : NEVER;
}

static int64_t due_kill(const struct honed_job *j)
{
	int64_t slow_ns = j->saving.ask.is ? SAVING_NS : 0; /* a slow commit is not the job's fault */
	return j->ours && j->ending.kill_ns && !j->ending.killed ? j->ending.kill_ns + slow_ns : NEVER;
}

/* A killed job that the kernel has not ended yet: after LOST_NS nobody waits for it any more. */
static int64_t due_lost(const struct honed_job *j)
{
	return j->ending.killed && j->lease.held ? j->ending.kill_ns + LOST_NS : NEVER;
}

static int64_t due_hung(const struct honed_job *j)
{
	bool ours_to_say = j->lease.ask.is || j->lease.release.is || j->saving.ask.is || j->hushed.is;
	if (!job_lives(j) || j->resting.state || j->ending.kill_ns || ours_to_say ||
	    (!j->ours && !j->lease.held))
		return NEVER;
	return j->heard_ns + HONED_HANG_NS;
}

/* A job that was stopped for another job's lease when its budget ended could not notice that: its grace
 * period begins when it runs again. */
static int64_t due_over(const struct honed_job *j)
{
	int64_t end_ns = j->started_ns + j->budget_ns + j->resting.total_ns;
	if (!j->ours || !job_lives(j) || j->resting.state || j->ending.kill_ns || j->hushed.is)
		return NEVER;
	return (end_ns > j->hushed.at_ns ? end_ns : j->hushed.at_ns) + OVER_NS;
}

/* From here on the job uses no processor, so others may have its lease. */
static void do_stop(struct honed *h, struct honed_job *j)
{
	j->resting.state = REST_STOPPED;
	job_settle(h, j);
	lease_drop(h, j, "the job rested");
}

static void do_lose(struct honed *h, struct honed_job *j)
{
	lease_drop(h, j, NULL);
}

static void do_rested(struct honed *h, struct honed_job *j)
{
	job_kill(h, j, END_RESTED);
}

static void do_kill(struct honed *h, struct honed_job *j)
{
	job_kill(h, j, j->ending.why);
}

static void do_hung(struct honed *h, struct honed_job *j)
{
	if (j->ours)
		job_kill(h, j, END_HUNG);
	else
		lease_drop(h, j, "the job sent nothing for too long");
}

static void do_over(struct honed *h, struct honed_job *j)
{
	job_stop(h, j, END_OVER);
}

static const struct {
	int64_t (*due)(const struct honed_job *j);
	void (*act)(struct honed *h, struct honed_job *j);
} duties[] = {{due_stop, do_stop}, {due_rested, do_rested}, {due_kill, do_kill},
	      {due_lost, do_lose}, {due_hung, do_hung},     {due_over, do_over}};
enum { NDUTIES = sizeof duties / sizeof *duties };

void jobs_tick(struct honed *h)
{
	jobs_rests(h);
	for (int i = 0; i < HONED_JOBS; i++)
		for (int d = 0; d < NDUTIES; d++)
			if (h->job[i].state && duties[d].due(&h->job[i]) <= h->now_ns)
				duties[d].act(h, &h->job[i]);
	while (start_queued(h) || start_slice(h))
		;
}

int64_t jobs_next(const struct honed *h)
{
	int64_t at = NEVER;
	const char *why;
	for (int i = 0; i < HONED_JOBS; i++)
		for (int d = 0; d < NDUTIES; d++)
			if (h->job[i].state)
				sooner(&at, duties[d].due(&h->job[i]));
	if (h->leaving || (h->o.mode == HONED_RESIDENT && !h->conf->idle) || !store_lets_start(h, &why))
		return at;
	for (int i = 0; i < h->models.n; i++) {
		int64_t when = model_when(h, i);
		if (when > h->now_ns)
			sooner(&at, when);
	}
	return at;
}
