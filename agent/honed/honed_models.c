/* SPDX-License-Identifier: Apache-2.0 */
/* The configured models: what is known of each, whose slice is next, and the marks that outlive a boot. */
#include "agent/honed/honed_parts.h"
#include "agent/honed/marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* times outside are no network's */
#define LEAST_MS 1e-6
#define MOST_MS 1e9
/* the processor is reported as faster than a device from this share on */
#define PROCESSOR_WINS 0.1
#define BELIEVED 100 /* tuned kernels are not that much faster than the portable ones */
#define SLOWER 3     /* a board's clock may fall to this part of the fastest one */

static bool is_no_key(struct key k)
{
	return key_equal(k, (struct key){0});
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_conf(const struct conf_model *a, const struct conf_model *b)
{
	bool same = a->threads == b->threads && a->level == b->level && same_text(a->path, b->path) &&
		    same_text(a->device, b->device) && same_text(a->library, b->library) &&
		    a->shapes.n == b->shapes.n;
	for (int i = 0; i < a->shapes.n && same; i++)
		same = same_text(a->shapes.shape[i], b->shapes.shape[i]);
	return same;
}

static struct label label(const struct honed *h, const char *name, const char *device)
{
	struct label l;
	bool others = strcmp(device, CONF_CPU) != 0;
	for (int i = 0; i < h->models.n; i++)
		others |= h->models.list[i].conf->device != NULL;
	snprintf(l.text, sizeof l.text, "%s%s%s", name, others ? " on " : "", others ? device : "");
	return l;
}

struct label model_label(const struct honed *h, const struct kept_model *m)
{
	return label(h, m->conf->name, conf_device_name(m->conf->device));
}

struct label job_label(const struct honed *h, const struct honed_job *j)
{
	return label(h, j->name, j->device);
}

/* The rows of one model lie side by side. */
int models_count(const struct honed *h, bool (*is)(const struct kept_model *m))
{
	int n = 0;
	for (int i = 0, next; i < h->models.n; i = next) {
		bool all = true;
		for (next = i; next < h->models.n &&
			       !strcmp(h->models.list[next].conf->name, h->models.list[i].conf->name);
		     next++)
			all = all && (!is || is(&h->models.list[next]));
		n += all;
	}
	return n;
}

bool model_is_outside(const struct kept_model *m)
{
	return !m->box;
}

bool model_is_served(const struct kept_model *m)
{
	return !m->box || m->boxed;
}

bool model_is_refused(const struct kept_model *m)
{
	return m->refused[0];
}

static struct mark_of *mark_of(struct honed *h, struct key k)
{
	for (int i = 0; i < h->models.marks.n; i++)
		if (key_equal(h->models.marks.model[i].model, k))
			return &h->models.marks.model[i];
	return NULL;
}

/* error: at most JOB_TEXT - 1 bytes of it are kept; NULL: none */
static void keep_error(struct kept_model *m, const char *error)
{
	free(m->error);
	m->error = error ? strndup(error, JOB_TEXT - 1) : NULL;
}

static void unknown(struct kept_model *m)
{
	keep_error(m, NULL);
	*m = (struct kept_model){.conf = m->conf, .promise = -1, .bare = true, .waits_ns = m->waits_ns};
}

/* Stops the slices of a model whose file has changed: they tune the old one. */
static void stop_slices(struct honed *h, const struct kept_model *m)
{
	for (int i = 0; i < HONED_JOBS; i++) {
		struct honed_job *j = &h->job[i];
		if (m->known && job_lives(j) && j->ours && !j->people && j->model == m - h->models.list)
			job_stop(h, j, END_CANCELED);
	}
}

/* Takes what the driver knows of the model's file now. A model with a new key starts anew, from its mark if
 * there is one. */
static void look_at(struct honed *h, struct kept_model *m, const struct honed_model *now)
{
	bool same = m->known && !m->refused[0] && key_equal(m->key, now->key);
	if (!now->refused && !same) {
		stop_slices(h, m);
		const struct mark_of *mark = mark_of(h, now->key);
		unknown(m);
		m->waits_ns = h->now_ns;
		m->trying = mark != NULL;
		m->boxed = mark && mark->boxed;
		m->bare = !m->boxed;
		m->promise = mark ? mark->promise : -1;
		m->missing = mark ? mark->missing : 0;
		m->before_ms = mark ? (double)mark->before_ms : 0;
		m->now_ms = mark ? (double)mark->now_ms : 0;
		m->rough = m->lost = mark && mark->rough == MARK_GAINS;
		m->sure = mark && mark->rough == MARK_CERTAIN;
		m->key = now->key;
	}
	m->known = true;
	snprintf(m->refused, sizeof m->refused, "%s", now->refused ? now->refused : "");
	if (now->refused)
		honed_log(h, 0, "model %s: %s", model_label(h, m).text, now->refused);
}

static void look_at_all(struct honed *h, int n, const struct honed_model *model)
{
	for (int i = 0; i < n && i < h->models.n; i++)
		look_at(h, &h->models.list[i], &model[i]);
	honed_changed(h);
}

void models_event(struct honed *h, const struct honed_event *e)
{
	look_at_all(h, e->nmodels, e->model);
}

/* Each device of the model has a row, with another key; the examined one comes first. */
void models_fault(struct honed *h, const struct honed_event *e)
{
	const char *name = NULL;
	for (int i = 0; i < h->models.n; i++) {
		struct kept_model *m = &h->models.list[i];
		if (m->known && key_equal(m->key, e->model->key))
			name = m->conf->name;
		if (!name || strcmp(name, m->conf->name) || m->error || m->now_ms > 0)
			continue;
		m->faulty = true;
		keep_error(m, e->text);
	}
	honed_changed(h);
}

/* A lasting failure ends when honed.conf is read again: another file that the model needs may be there now.
 * So does the wait for a recipe. */
static void forgive(struct kept_model *m)
{
	if (!m->lasting && is_no_key(m->recipe))
		return;
	m->lasting = false;
	m->fails = 0;
	m->pause_until_ns = m->pause_step_ns = 0;
}

/* A model that the new configuration still has keeps what is known of it; the slices of other models are
 * stopped. */
void models_read(struct honed *h, const struct conf *conf, int n, const struct honed_model *model)
{
	struct kept_model old[HONED_MODELS];
	int nold = h->models.n, to[HONED_MODELS];
	memcpy(old, h->models.list, sizeof old);
	memset(to, -1, sizeof to);
	h->models.n = conf->nmodels < HONED_MODELS ? conf->nmodels : HONED_MODELS;
	if (conf->nmodels > HONED_MODELS)
		honed_log(h, 0, "%d models are configured; only the first %d are tuned", conf->nmodels,
			  HONED_MODELS);
	for (int i = 0; i < h->models.n; i++) {
		h->models.list[i] = (struct kept_model){.conf = &conf->model[i], .waits_ns = h->now_ns};
		unknown(&h->models.list[i]);
		for (int k = 0; k < nold; k++) {
			if (to[k] >= 0 || !same_conf(old[k].conf, &conf->model[i]))
				continue;
			h->models.list[i] = old[k];
			h->models.list[i].conf = &conf->model[i];
			forgive(&h->models.list[i]);
			to[k] = i;
			break;
		}
	}
	for (int k = 0; k < nold; k++)
		if (to[k] < 0)
			keep_error(&old[k], NULL);
	for (int i = 0; i < HONED_JOBS; i++) {
		struct honed_job *j = &h->job[i];
		if (!j->state || j->model < 0)
			continue;
		j->model = to[j->model];
		if (j->model < 0 && j->ours && !j->people)
			job_stop(h, j, END_CANCELED);
	}
	look_at_all(h, n, model);
}

void models_free(struct honed *h)
{
	for (int i = 0; i < h->models.n; i++)
		keep_error(&h->models.list[i], NULL);
}

/* A job on a device other than the processor has one thread, whatever the configuration says. */
int models_find(const struct honed *h, const char *path, const char *device, int threads)
{
	for (int i = 0; i < h->models.n; i++) {
		const struct conf_model *c = h->models.list[i].conf;
		if ((!strcmp(c->path, path) || !strcmp(c->name, path)) &&
		    !strcmp(conf_device_name(c->device), device) &&
		    (threads < 0 || !device_is_processor(device) || c->threads == threads))
			return i;
	}
	return -1;
}

/* The processor's time of a device's network is that before the device had kernels, or that of the
 * processor's own row of this model. */
double model_processor_wins(const struct honed *h, const struct kept_model *m)
{
	double ms = m->before_ms;
	if (device_is_processor(conf_device_name(m->conf->device)) || m->now_ms <= 0)
		return 0;
	for (int i = 0; i < h->models.n; i++) {
		const struct kept_model *o = &h->models.list[i];
		if (device_is_processor(conf_device_name(o->conf->device)) && o->now_ms > 0 &&
		    o->now_ms < ms && !strcmp(o->conf->name, m->conf->name))
			ms = o->now_ms;
	}
	return ms < m->now_ms * (1 - PROCESSOR_WINS) ? ms : 0;
}

static bool promises(const struct kept_model *m)
{
	return m->promise < 0 || m->promise > PROMISE_LEAST;
}

bool model_wants(const struct kept_model *m)
{
	return m->known && !m->refused[0] && !m->lasting && (!m->boxed || m->missing || promises(m));
}

static bool has_job(const struct honed *h, int model)
{
	for (int i = 0; i < HONED_JOBS; i++)
		if (h->job[i].state && h->job[i].model == model)
			return true;
	return false;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

int64_t model_when(const struct honed *h, int i)
{
	const struct kept_model *m = &h->models.list[i];
	if (!model_wants(m) || has_job(h, i) || (h->o.mode == HONED_BOX && !m->box))
		return NEVER;
	if (h->o.mode == HONED_BOX && (m->rest_step_ns || (m->boxed && boot_left_ns(h) < MORE_NS)))
		return NEVER;
	return later(m->rest_until_ns, m->pause_until_ns);
}

bool model_may(const struct honed *h, int i)
{
	return model_when(h, i) <= h->now_ns;
}

/* Policies choose among the models whose device has a place. */
static bool may_start(const struct honed *h, int i)
{
	return model_may(h, i) && jobs_have_place(h, conf_device_name(h->models.list[i].conf->device));
}

static struct contender row_of(const struct honed *h, int i)
{
	const struct kept_model *m = &h->models.list[i];
	return (struct contender){
	    .id = i,
	    .priority = m->conf->priority,
	    .order = i,
	    .waits_ns = h->now_ns - m->waits_ns,
	    .had_ns = m->had_ns,
	    .wants_ns = h->conf->slice_ns,
	    .ms = m->now_ms,
	    .promise = m->promise,
	    .bare = m->bare,
	};
}

/* In a box the models that were never served come first, by priority. */
static int neediest(const struct contender *row, int n)
{
	int best = -1;
	for (int i = 0; i < n; i++)
		if (row[i].bare && (best < 0 || row[i].priority > row[best].priority))
			best = i;
	return best;
}

int models_next(const struct honed *h)
{
	struct contender row[HONED_MODELS];
	int n = 0, k = -1;
	for (int i = 0; i < h->models.n; i++)
		if (may_start(h, i))
			row[n++] = row_of(h, i);
	if (!n)
		return -1;
	if (h->o.mode == HONED_BOX)
		k = neediest(row, n);
	return row[k < 0 ? h->policy->slice(row, n) : k].id;
}

static enum mark_rough mark_rough(const struct kept_model *m)
{
	if (m->now_ms <= 0)
		return MARK_CERTAIN;
	return m->rough || m->open ? MARK_GAINS : m->sure ? MARK_CERTAIN : MARK_FIRST;
}

static void mark(struct honed *h, const struct kept_model *m)
{
	struct mark_of *it = mark_of(h, m->key);
	enum mark_rough rough = mark_rough(m);
	if (!m->known || m->refused[0])
		return;
	/* the oldest mark, probably of a model that is no longer configured, is dropped */
	if (!it && h->models.marks.n == HONED_MODELS) {
		memmove(h->models.marks.model, h->models.marks.model + 1,
			sizeof h->models.marks.model[0] * (HONED_MODELS - 1));
		h->models.marks.n--;
	}
	if (!it) {
		it = &h->models.marks.model[h->models.marks.n++];
		*it = (struct mark_of){.model = m->key, .promise = -1};
		h->models.marks_matter = true;
	}
	bool was = it->promise >= 0 && it->promise <= PROMISE_LEAST;
	h->models.marks_matter = h->models.marks_matter || it->boxed != m->boxed ||
				 it->missing != m->missing || (it->before_ms > 0) != (m->before_ms > 0) ||
				 it->now_ms != (float)m->now_ms || it->rough != rough || was == promises(m);
	h->models.marks_changed = h->models.marks_changed || h->models.marks_matter ||
				  it->promise != m->promise || it->before_ms != (float)m->before_ms;
	it->boxed = m->boxed;
	it->promise = m->promise;
	it->missing = m->missing;
	it->before_ms = (float)m->before_ms;
	it->now_ms = (float)m->now_ms;
	it->rough = rough;
}

void marks_save(struct honed *h)
{
	if (!h->models.marks_changed)
		return;
	for (int i = 0; i < h->models.n; i++)
		mark(h, &h->models.list[i]);
	h->commits.marks_bytes += MARKS_BYTES;
	h->models.marks.day_bytes = store_today(h);
	h->models.marks_changed = h->models.marks_matter = false;
	h->models.marks_ns = h->now_ns;
	honed_act(h, &(struct honed_action){.kind = HA_MARKS, .marks = &h->models.marks});
}

void marks_hold(struct honed *h, const struct inventory *holds)
{
	struct inventory *v = &h->models.marks.cache;
	h->models.marks_changed |= memcmp(v, holds, sizeof *v) != 0;
	*v = *holds;
}

/* Whether the job knows the cache as it was: it has read it since, if all that it had was the answer to its
 * first commit. */
static bool has_read_cache(const struct honed_job *j, int64_t ticket)
{
	const struct saving *s = &j->saving;
	return j->lease.grants || s->puts || s->writes || s->won || (s->ticket && s->ticket != ticket);
}

void models_lack(struct honed *h, int64_t ticket)
{
	(void)marks_doubt(&h->models.marks);
	for (int i = 0; i < h->models.n; i++) {
		struct kept_model *m = &h->models.list[i];
		struct kept_model was = *m;
		if (!m->known || m->refused[0])
			continue;
		*m = (struct kept_model){.conf = was.conf,
					 .key = was.key,
					 .known = true,
					 .box = h->o.mode == HONED_BOX,
					 .bare = true,
					 .trying = was.trying,
					 .promise = -1,
					 .open = was.open,
					 .recipe = was.recipe,
					 .had_ns = was.had_ns,
					 .waits_ns = was.waits_ns,
					 .fails = was.fails,
					 .faulty = was.faulty,
					 .lasting = was.lasting,
					 .error = was.error};
	}
	for (int i = 0; i < HONED_JOBS; i++)
		h->job[i].saving.lost |= h->job[i].state && has_read_cache(&h->job[i], ticket);
	h->models.marks_changed = true;
	if (h->o.mode == HONED_RESIDENT)
		marks_save(h);
	honed_changed(h);
}

void marks_resumed(struct honed *h)
{
	if (!h->models.marks.unclean || h->o.mode == HONED_BOX)
		return;
	h->models.marks.unclean = 0;
	h->models.marks_changed = true;
	marks_save(h);
}

/* The pause after a slice that failed, or that did not get to measuring anything. */
static void pause_model(struct honed *h, struct kept_model *m, int64_t former_ns)
{
	m->pause_step_ns = former_ns ? 2 * former_ns : PAUSE_NS;
	if (m->pause_step_ns > PAUSE_MOST_NS)
		m->pause_step_ns = PAUSE_MOST_NS;
	m->pause_until_ns = h->now_ns + m->pause_step_ns;
}

static void rest(struct honed *h, struct kept_model *m)
{
	int64_t step = m->rest_step_ns ? 2 * m->rest_step_ns : h->conf->rest_ns;
	m->rest_step_ns = step < 1 ? 1 : step < DAY_NS ? step : DAY_NS;
	m->rest_until_ns = h->now_ns + m->rest_step_ns;
}

/* now_ms 0: the job was cut short, and the result is not known. */
static bool has_won(const struct kept_model *m, const struct request *done)
{
	if (m->bare && !done->missing)
		return true;
	if (done->now_ms <= 0 || done->before_ms <= 0)
		return done->kept > 0;
	return done->now_ms < done->before_ms * (1 - WON_LEAST) || done->missing < m->missing;
}

/* Such a slice does not say that another one would win nothing. */
static bool is_idle(const struct request *done)
{
	return !done->trials && done->before_ms <= 0 && done->now_ms <= 0;
}

/* A job reports the gain that another budget like its own may bring; here it is scaled to the length of a
 * slice. */
static double of_a_slice(const struct honed *h, const struct honed_job *j, double promise)
{
	if (j->budget_ns > 0 && promise > 0 && h->conf->slice_ns > j->budget_ns)
		promise *= (double)h->conf->slice_ns / (double)j->budget_ns;
	return promise < 1 ? promise : 1;
}

static bool is_time(double ms)
{
	return ms >= LEAST_MS && ms <= MOST_MS;
}

/* Scales both times so that the present kernels take ms. */
static bool scale_to(struct kept_model *m, double ms)
{
	double before_ms = m->now_ms > 0 ? m->before_ms * (ms / m->now_ms) : 0;
	if (!is_time(ms) || !is_time(before_ms))
		return false;
	m->before_ms = before_ms;
	m->now_ms = ms;
	return true;
}

static bool is_on_processor(const struct kept_model *m)
{
	return device_is_processor(conf_device_name(m->conf->device));
}

/* Takes a time of the present kernels. On a processor, a gain of more than BELIEVED on a first time that is
 * not sure says that this time was too long. */
static void believe(struct kept_model *m, double now_ms)
{
	m->now_ms = now_ms;
	if (!m->sure && is_on_processor(m) && m->before_ms > BELIEVED * now_ms)
		m->before_ms = BELIEVED * now_ms;
}

/* Takes a time of the network at the start of a slice. Times of two slices do not compare, because the
 * machine may have been faster or slower then: now_ms changes by the factors that slices gained. But the
 * first time is provisional, as it may be too long by any factor: others may have used the machine during its
 * few runs. Until it is sure, a shorter time of the same kernels is nearer to the truth. Where a slice kept
 * kernels and did not measure their gain, the shorter time may be this gain: it is the time now alone. */
static void take_start(struct kept_model *m, double ms)
{
	if (is_time(ms) && m->before_ms <= 0) {
		m->before_ms = m->now_ms = ms;
		m->rough = m->sure = m->lost = false;
	} else if (!m->sure && ms < m->now_ms) {
		if (!m->lost)
			(void)scale_to(m, ms);
		else if (is_time(ms))
			believe(m, ms);
	}
}

/* The first slice that nobody disturbed measures, at its end, the kernels whose time now_ms gives: both times
 * are scaled to that measurement, once, and the gain stays. It says nothing of a doubtful gain of a former
 * slice: the machine may have been faster or slower then. */
static void make_sure(struct kept_model *m, const struct request *done)
{
	if (!m->sure && !done->disturbed)
		m->sure = scale_to(m, done->now_ms);
}

bool model_rough(const struct kept_model *m)
{
	return m->now_ms > 0 && (m->rough || !m->sure);
}

/* Takes the factor that a slice gained with the kernels it kept; without any, its two times differ by noise.
 * The gain is rough once such a factor is not known, or was measured while others disturbed the slice; a
 * disturbed slice that seems to have lost something tells nothing, except while a device gets its first
 * kernels: they replace the processor's, however fast those are. Others make times longer, so what a disturbed
 * slice measured at its end bounds its gain: a time before that was disturbed alone would multiply all later
 * ones. */
static void take_gain(struct kept_model *m, const struct request *done)
{
	bool may_lose = !done->disturbed || (!is_on_processor(m) && (m->bare || done->missing < m->missing));
	bool both = done->before_ms > 0 && done->now_ms > 0;
	double now_ms = both ? m->now_ms * (done->now_ms / done->before_ms) : 0;
	if (!done->kept || m->before_ms <= 0)
		return;
	m->rough |= !both || done->disturbed;
	m->lost |= !both;
	double least_ms = both && done->disturbed ? done->now_ms / SLOWER : 0;
	if (now_ms < least_ms && now_ms < m->now_ms)
		now_ms = least_ms < m->now_ms ? least_ms : m->now_ms;
	if (now_ms < LEAST_MS || now_ms > MOST_MS || (!may_lose && now_ms > m->now_ms))
		return;
	believe(m, now_ms);
}

/* Writes the marks now if the model's have changed in more than the promise. In a box they are written at its
 * end. */
static void mark_now(struct honed *h, const struct kept_model *m)
{
	mark(h, m);
	if (h->models.marks_matter && h->o.mode == HONED_RESIDENT)
		marks_save(h);
}

/* The time before is written at once: after the slice nobody could measure it again. */
void model_measured(struct honed *h, const struct honed_job *j, double ms)
{
	if (!job_serves(h, j))
		return;
	take_start(&h->models.list[j->model], ms);
	mark_now(h, &h->models.list[j->model]);
}

void model_opened(struct honed *h, int i)
{
	h->models.list[i].open = true;
	mark_now(h, &h->models.list[i]);
}

void model_gain_lost(struct honed *h, int i)
{
	struct kept_model *m = &h->models.list[i];
	m->rough |= m->before_ms > 0;
	m->lost |= m->before_ms > 0;
	m->open = h->o.mode == HONED_BOX;
	mark_now(h, m);
}

/* kept: the records that the job found are durable. */
static void take(struct kept_model *m, const struct request *done, bool kept)
{
	m->default_ms = done->default_ms > 0 ? done->default_ms : m->default_ms;
	take_start(m, done->before_ms > 0 ? done->before_ms : done->now_ms);
	take_gain(m, done);
	make_sure(m, done);
	m->missing = done->missing;
	if (kept)
		m->boxed = !m->missing || !promises(m);
	m->bare = !m->boxed;
	m->fails = 0;
	m->lasting = m->faulty = false;
	m->pause_until_ns = m->pause_step_ns = 0;
	keep_error(m, NULL);
}

/* Whether a model has another slice of the box though its last one tried nothing, as when a worker that is read
 * from cold storage does not answer in time: the next one may. */
static bool tries_again(const struct honed *h, const struct kept_model *m)
{
	return h->o.mode == HONED_BOX && m->untried && m->untried < UNTRIED_MOST;
}

void model_served(struct honed *h, int i, const struct honed_job *j, const struct request *done)
{
	struct kept_model *m = &h->models.list[i];
	bool won = has_won(m, done), idle = is_idle(done);
	/* little of the slice went to others, so another one would fare no better */
	bool whole = j->resting.total_ns < j->budget_ns / 10 && j->hushed.total_ns < j->budget_ns / 2;
	int64_t pause_ns = m->pause_step_ns;
	bool kept = !h->commits.error[0] && !j->saving.lost;
	m->promise = kept ? of_a_slice(h, j, done->promise) : -1;
	take(m, done, kept);
	m->open = h->o.mode == HONED_BOX;
	m->untried = !done->trials && done->text[0] ? m->untried + 1 : 0;
	if (done->text[0]) {
		char why[sizeof done->text + 32];
		snprintf(why, sizeof why, "nothing was tried: %s", done->text);
		keep_error(m, why);
	}
	if (idle && !won && h->o.mode != HONED_BOX)
		pause_model(h, m, whole ? pause_ns : 0);
	else if (won)
		m->rest_until_ns = m->rest_step_ns = 0;
	else if (whole && !tries_again(h, m))
		rest(h, m);
	mark(h, m);
	if (h->o.mode == HONED_BOX)
		return;
	marks_resumed(h);
	h->models.marks_changed |= store_today(h) != h->models.marks.day_bytes;
	if (h->models.marks_matter || h->now_ns - h->models.marks_ns >= MARKS_NS)
		marks_save(h);
}

void model_failed(struct honed *h, int i, const char *text, bool lasting)
{
	struct kept_model *m = &h->models.list[i];
	m->fails++;
	m->faulty = false;
	h->counts.fails++;
	/* It was imported, and may lack its recipe, which seeds can bring unseen: the longest pause at once.
	 */
	if (lasting && !is_no_key(m->recipe)) {
		lasting = false;
		m->fails = FAILS_MOST;
		m->pause_step_ns = PAUSE_MOST_NS;
	}
	m->lasting = lasting;
	if (lasting || tries_again(h, m))
		m->pause_until_ns = m->pause_step_ns = 0;
	else
		pause_model(h, m, m->pause_step_ns);
	keep_error(m, text);
	/* That the cache cannot be written was said, and when honed tries again. */
	bool said = h->commits.error[0] && strstr(text, h->commits.error);
	if (said)
		honed_log(h, 2, "model %s: %s", model_label(h, m).text, text);
	else if (lasting)
		honed_log(h, 0,
			  "model %s: %s; honed tries again when the file has changed, or after systemctl "
			  "reload honed (or SIGHUP)",
			  model_label(h, m).text, text);
	else if (h->o.mode == HONED_BOX)
		honed_log(h, 0, "model %s: %s", model_label(h, m).text, text);
	else
		honed_log(h, 0, "model %s: %s; honed tries again in %lld s", model_label(h, m).text, text,
			  (long long)(m->pause_step_ns / NS_PER_S));
}

/* Others' jobs may have other shapes than the configured ones, and then need another recipe. */
void model_needs_recipe(struct honed *h, const struct honed_job *j, struct key recipe)
{
	if (j->ours && !j->people && job_serves(h, j) && !is_no_key(recipe))
		h->models.list[j->model].recipe = recipe;
}

/* A model whose slices said nothing yet may have its kernels from before honed started, with another recipe.
 * It cannot have failed for want of this one. */
void models_recipe(struct honed *h, struct key recipe)
{
	for (int i = 0; i < h->models.n; i++) {
		struct kept_model *m = &h->models.list[i];
		bool told = !is_no_key(m->recipe);
		if (m->conf->level != LEVEL_INT8 || (told && !key_equal(m->recipe, recipe)))
			continue;
		m->boxed = false;
		if (!told)
			continue;
		m->pause_until_ns = m->pause_step_ns = m->rest_until_ns = m->rest_step_ns = 0;
		m->fails = 0;
		m->lasting = false;
	}
	honed_changed(h);
}

/* Whether more work on a model would gain nothing now: nothing more is promised, or the cache cannot be
 * written. STORE_PAUSE_NS is the first pause after a failed commit, so a longer one means that two failed. */
static bool gains_nothing(const struct honed *h, const struct kept_model *m)
{
	return (m->rest_step_ns && !(m->missing && promises(m))) || h->commits.step_ns > STORE_PAUSE_NS;
}

/* Whether nothing more can be done for a model now. */
static bool is_settled(const struct honed *h, const struct kept_model *m)
{
	return m->refused[0] || m->lasting || m->boxed || gains_nothing(h, m) || m->fails >= FAILS_MOST ||
	       h->models.skips || (h->o.mode == HONED_RESIDENT && m->known && !h->conf->idle);
}

/* Its file is of no use, as it seems, or every job failed and none before has served it. */
static bool is_lost(const struct kept_model *m)
{
	return m->refused[0] || ((m->fails || m->faulty) && !m->boxed && m->now_ms <= 0);
}

bool model_ready(const struct honed *h, const struct kept_model *m)
{
	return is_settled(h, m) && !is_lost(m);
}

bool models_settled(const struct honed *h)
{
	for (int i = 0; i < h->models.n; i++)
		if (!is_settled(h, &h->models.list[i]))
			return false;
	return h->started;
}

bool models_ready(const struct honed *h)
{
	for (int i = 0; i < h->models.n; i++)
		if (!model_ready(h, &h->models.list[i]))
			return false;
	return h->started;
}
