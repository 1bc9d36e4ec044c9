/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: the operations, the rights that they need, and the answers. */
#include "agent/cache/hint.h"
#include "agent/honed/honed_parts.h"

#include "agent/cache/cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TUNE_MOST_NS (24 * 3600 * NS_PER_S)
enum { SPARE = 16, KEEP_BYTES = 4 << 10 };

struct client *client_of(struct honed *h, int id)
{
	if (id < 0)
		return NULL;
	if (h->clients.last < h->clients.n && h->clients.list[h->clients.last].id == id)
		return &h->clients.list[h->clients.last];
	for (int i = 0; i < h->clients.n; i++)
		if (h->clients.list[i].id == id) {
			h->clients.last = i;
			return &h->clients.list[i];
		}
	return NULL;
}

void client_send(struct honed *h, int id, const char *line)
{
	struct client *c = client_of(h, id);
	if (c && !c->closing)
		honed_act(h, &(struct honed_action){.kind = HA_SEND, .client = id, .text = line});
}

static void send_out(struct honed *h, int id)
{
	if (buf_ok(&h->out))
		client_send(h, id, buf_str(&h->out));
	if (h->out.cap > KEEP_BYTES)
		buf_free(&h->out);
	else
		buf_clear(&h->out);
}

void client_good(struct honed *h, int id, const struct ask *ask, const char *more)
{
	struct request r = {.has_id = ask->has_id, .id = ask->id};
	if (!ask->is)
		return;
	control_good(&r, more, &h->out);
	send_out(h, id);
}

void client_bad(struct honed *h, int id, const struct ask *ask, int rc, const char *text)
{
	struct request r = {.has_id = ask->has_id, .id = ask->id};
	if (!ask->is)
		return;
	control_bad(&r, rc, text, &h->out);
	send_out(h, id);
}

static void close_it(struct honed *h, struct client *c)
{
	if (c->closing)
		return;
	c->closing = true;
	honed_act(h, &(struct honed_action){.kind = HA_CLOSE, .client = c->id});
}

/* Returns the user who has more than half of all connections; -1: there is none (majority vote of Boyer and
 * Moore, then checked). */
static int64_t crowd(const struct honed *h)
{
	int votes = 0, n = 0;
	uid_t uid = 0;
	for (int i = 0; i < h->clients.n; i++) {
		if (!votes)
			uid = h->clients.list[i].uid;
		votes += h->clients.list[i].uid == uid ? 1 : -1;
	}
	for (int i = 0; i < h->clients.n; i++)
		n += h->clients.list[i].uid == uid;
	return 2 * n > h->clients.n ? (int64_t)uid : -1;
}

/* Closes the connection that has been silent longest, of the user who has more than half of them all if there
 * is one. A job's connection is never closed. */
static void make_room(struct honed *h)
{
	struct client *oldest = NULL;
	int64_t uid = crowd(h);
	for (int i = 0; i < h->clients.n; i++) {
		struct client *c = &h->clients.list[i];
		if (c->job >= 0 || c->closing || (uid >= 0 && (int64_t)c->uid != uid))
			continue;
		if (!oldest || c->heard_ns < oldest->heard_ns)
			oldest = c;
	}
	if (oldest)
		close_it(h, oldest);
}

static bool grow(struct honed *h)
{
	if (h->clients.n < h->clients.room)
		return true;
	int room = h->clients.room ? 2 * h->clients.room : SPARE;
	if (room > HONED_CLIENTS + SPARE)
		room = HONED_CLIENTS + SPARE;
	struct client *p = room > h->clients.room ? realloc(h->clients.list, (size_t)room * sizeof *p) : NULL;
	if (!p)
		return false;
	h->clients.list = p;
	h->clients.room = room;
	return true;
}

struct client *client_add(struct honed *h, int id, const struct peer *peer)
{
	struct client *c = client_of(h, id);
	if (c || id < 0)
		return c;
	if (h->clients.n >= HONED_CLIENTS)
		make_room(h);
	if (!grow(h))
		return NULL;
	c = &h->clients.list[h->clients.n++];
	*c = (struct client){.id = id,
			     .job = -1,
			     .uid = peer->uid,
			     .pid = peer->pid,
			     .owner = peer->owner,
			     .brings = peer->brings,
			     .heard_ns = h->now_ns,
			     .told_ns = LONG_AGO};
	return c;
}

void clients_new(struct honed *h, const struct honed_event *e)
{
	if (!client_add(h, e->client, &e->peer))
		honed_act(h, &(struct honed_action){.kind = HA_CLOSE, .client = e->client});
}

void clients_gone(struct honed *h, const struct honed_event *e)
{
	struct client *c = client_of(h, e->client);
	if (!c)
		return;
	h->clients.watchers -= c->watches;
	h->clients.waiters -= c->wait.is;
	h->clients.askers -= c->status.is;
	int job = c->job;
	h->commits.sync.ask.is &= h->commits.sync_client != c->id;
	for (int i = 0; i < HONED_JOBS; i++)
		if (h->job[i].state && h->job[i].asker == c->id)
			h->job[i].asker = -1;
	*c = h->clients.list[--h->clients.n];
	if (job >= 0)
		job_gone(h, &h->job[job]);
}

/* The operations. Each sends its own answer, but a failure is answered by the caller. */

struct call {
	struct honed *h;
	struct client *c;
	struct honed_job *j; /* NULL: the connection is not a job's */
	const struct request *r;
	struct blob payload;
	struct ask ask;
};

static int good(const struct call *k, const char *more)
{
	client_good(k->h, k->c->id, &k->ask, more);
	return E_OK;
}

static int do_hello(const struct call *k)
{
	char more[160];
	snprintf(more, sizeof more, "\"version\":%d,\"honed\":\"%s\",\"mode\":\"%s\",\"ready\":%s",
		 CONTROL_VERSION, HONE_VERSION, k->h->o.mode == HONED_BOX ? "box" : "resident",
		 models_ready(k->h) ? "true" : "false");
	if (k->r->version != CONTROL_VERSION)
		return fail(E_UNSUPPORTED,
			    "hello: this honed speaks version %d of the control socket, not %d",
			    CONTROL_VERSION, k->r->version);
	return good(k, more);
}

static void say_status(struct honed *h, struct client *c)
{
	struct buf b = {0};
	honed_status(h, h->now_ns, &b);
	/* The content between the braces of the object. */
	if (buf_ok(&b) && b.n > 2) {
		b.p[b.n - 1] = 0;
		client_good(h, c->id, &c->status, b.p + 1);
	}
	buf_free(&b);
	h->clients.askers -= c->status.is;
	c->status.is = false;
}

/* A status needs a recent look at the board; if the last one is too old, the answer waits for a new one. */
static int do_status(const struct call *k)
{
	struct honed *h = k->h;
	if (k->c->status.is)
		say_status(h, k->c);
	k->c->status = k->ask;
	h->clients.askers++;
	if (h->now_ns - h->look.seen_ns < STALE_NS || !h->started || h->leaving) {
		say_status(h, k->c);
	} else if (h->clients.askers == 1) {
		h->clients.asked_ns = h->now_ns;
		honed_act(h, &(struct honed_action){.kind = HA_LOOK});
	}
	return E_OK;
}

static int do_watch(const struct call *k)
{
	k->h->clients.watchers += !k->c->watches;
	k->c->watches = true;
	k->c->seen = k->h->revision - 1;
	return good(k, NULL);
}

static int do_wait(const struct call *k)
{
	if (strcmp(k->r->text, "ready"))
		return fail(E_UNSUPPORTED, "wait: the only state that can be waited for is \"ready\"");
	if (k->c->wait.is)
		return fail(E_BUSY, "wait: this connection is waiting already");
	k->c->wait = k->ask;
	k->h->clients.waiters++;
	return E_OK;
}

static int do_inhibit(const struct call *k)
{
	struct buf b = {0};
	const char *name;
	if (!k->r->text[0])
		return fail(E_USAGE, "inhibit: missing reason");
	int rc = inhibit_add(k->h, k->c->uid, k->r->text, k->r->ms, &name);
	if (rc < 0)
		return rc;
	buf_puts(&b, "\"name\":");
	control_text(&b, name);
	good(k, buf_str(&b));
	buf_free(&b);
	return E_OK;
}

static bool rules(const struct honed *h, const struct client *c)
{
	return c->uid == 0 || c->uid == h->o.uid;
}

static int do_resume(const struct call *k)
{
	char more[32];
	int n = inhibits_remove(k->h, k->c->uid, rules(k->h, k->c), k->r->text);
	if (!n && k->r->text[0])
		return fail(E_NOTFOUND, "resume: you have no inhibit named '%.60s'", k->r->text);
	if (k->c->owner)
		marks_resumed(k->h);
	snprintf(more, sizeof more, "\"resumed\":%d", n);
	return good(k, more);
}

static bool plain_path(const char *s)
{
	for (const char *p = s; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return false;
	return *s == '/';
}

/* Gives the job the shapes of its request. */
static int take_shapes(struct honed_job *j, const char *lines)
{
	if (!*lines)
		return E_OK;
	char *rest = j->shapes = strdup(lines);
	j->as.shapes.shape = j->shape;
	if (!rest)
		return fail(E_NOMEM, "tune: no memory");
	for (char *one; (one = strsep(&rest, "\n")); j->shape[j->as.shapes.n++] = one)
		if (j->as.shapes.n == CONF_SHAPES || !strchr(one, '=') || !conf_is_shape(one))
			return fail(E_USAGE, "tune: shapes must be up to %d lines NAME=DIMS", CONF_SHAPES);
	return E_OK;
}

static int do_tune(const struct call *k)
{
	struct honed *h = k->h;
	const struct request *r = k->r;
	const char *device = *r->device ? r->device : CONF_CPU;
	int model = models_find(h, r->model, device, r->threads ? r->threads : -1);
	char more[32];
	if (!conf_is_device(device))
		return fail(E_USAGE, "tune: no such device '%s'; use cpu, cpu:CLUSTER, opencl:0 or cuda:0", device);
	if (h->o.mode == HONED_BOX || h->leaving)
		return fail(E_BUSY, "tune: a boot box is under way; ask again when it has ended");
	if (model < 0 && !plain_path(r->model))
		return fail(E_USAGE,
			    "tune: '%.60s' is neither a configured model nor the absolute path of one",
			    r->model);
	const struct conf_model *conf = model < 0 ? NULL : h->models.list[model].conf;
	struct honed_job *j = job_new(h, *r->shapes ? -1 : model, conf ? conf->path : r->model, device);
	if (!j)
		return fail(E_BUSY, "tune: honed already has %d jobs; cancel one, or wait", HONED_JOBS);
	j->as.level = conf ? conf->level : LEVEL_FP32;
	int rc = take_shapes(j, r->shapes);
	if (rc < 0) {
		job_free(h, j);
		return rc;
	}
	j->people = true;
	j->asker = k->c->id;
	j->uid = k->c->uid;
	j->threads = j->as.threads = r->threads;
	j->view = r->now ? VIEW_HARD : VIEW_ALL;
	j->budget_ns = r->ms > 0 ? r->ms * NS_PER_MS : h->conf->boot_budget_ns;
	if (j->budget_ns > TUNE_MOST_NS)
		j->budget_ns = TUNE_MOST_NS;
	snprintf(more, sizeof more, "\"job\":%d", j->number);
	honed_changed(h);
	return good(k, more);
}

static int do_cancel(const struct call *k)
{
	int64_t n = k->r->job;
	struct honed_job *j = n > 0 && n <= INT32_MAX ? job_of(k->h, (int)n) : NULL;
	if (!j)
		return fail(E_NOTFOUND, "cancel: there is no job %" PRId64 "; it may have ended", n);
	job_stop(k->h, j, END_CANCELED);
	return good(k, NULL);
}

static int do_reload(const struct call *k)
{
	if (k->c->reload.is)
		return fail(E_BUSY, "reload: this connection is waiting for a reload already");
	k->c->reload = k->ask;
	honed_act(k->h, &(struct honed_action){.kind = HA_RELOAD});
	return E_OK;
}

static int answer_job(const struct call *k, const struct honed_job *j)
{
	struct buf b = {0};
	buf_printf(&b, "\"job\":%d,\"cache\":", j->number);
	control_text(&b, k->h->o.cache ? k->h->o.cache : "");
	buf_puts(&b, ",\"cpus\":[");
	for (int c = 0, n = 0; c < k->h->o.ncpus; c++)
		if (j->cpus >> c & 1)
			buf_printf(&b, "%s%d", n++ ? "," : "", k->h->o.cpus[c]);
	buf_puts(&b, "]");
	good(k, buf_str(&b));
	buf_free(&b);
	return E_OK;
}

/* A connection that syncs is no job: it holds no lease, and nothing waits for it. */
static int do_sync(const struct call *k)
{
	struct buf b = {0};
	if (k->j)
		return fail(E_USAGE, "sync: this connection belongs to a job");
	k->c->syncs = true;
	k->h->commits.sync.lost = false;
	buf_puts(&b, "\"cache\":");
	control_text(&b, k->h->o.cache ? k->h->o.cache : "");
	good(k, buf_str(&b));
	buf_free(&b);
	return E_OK;
}

/* Either a job that honed started identifies itself, or a process that somebody else started becomes a
 * job. */
static int do_job(const struct call *k)
{
	struct honed *h = k->h;
	const char *device = *k->r->device ? k->r->device : CONF_CPU;
	if (k->j)
		return answer_job(k, k->j);
	if (k->c->syncs)
		return fail(E_USAGE, "job: this connection belongs to hone-sync");
	if (!conf_is_device(device))
		return fail(E_USAGE, "job: no such device '%s'", device);
	if (h->leaving)
		return fail(E_BUSY, "job: honed is stopping");
	int model = models_find(h, k->r->model, device, k->r->threads);
	struct honed_job *j = job_new(h, model, k->r->model, device);
	if (!j)
		return fail(E_BUSY, "job: honed already has %d jobs", HONED_JOBS);
	j->state = JOB_RUNNING;
	j->people = true;
	j->view = VIEW_HARD;
	j->client = k->c->id;
	j->uid = k->c->uid;
	j->pid = k->c->pid;
	j->threads = k->r->threads;
	j->cpus = jobs_cpus(h, device, j->threads);
	k->c->job = (int)(j - h->job);
	honed_changed(h);
	return answer_job(k, j);
}

static int do_lease(const struct call *k)
{
	if (k->r->lease <= LEASE_NONE || k->r->lease > LEASE_QUIET)
		return fail(E_USAGE, "lease: the kind must be compute, measure or quiet");
	if (k->j->ending.kill_ns)
		return fail(E_STOPPED, "lease: this job was told to stop");
	return lease_want(k->h, k->j, k->r, &k->ask);
}

/* A release also withdraws a lease request that is still waiting. */
static int do_release(const struct call *k)
{
	struct honed_job *j = k->j;
	if (j->lease.release.is)
		return fail(E_BUSY, "release: this job is waiting for a release already");
	client_bad(k->h, k->c->id, &j->lease.ask, E_TIMEOUT,
		   "lease: the job released it before it was granted");
	j->lease.ask.is = false;
	j->lease.wants = LEASE_NONE;
	lease_release(k->h, j, &k->ask);
	return E_OK;
}

/* The uncommitted records of the caller, which is a job or a connection that syncs. */
static struct saving *saving_of(const struct call *k)
{
	return k->j ? &k->j->saving : &k->h->commits.sync;
}

/* A connection of hone-sync may put only hints, and the marks of the batches that it has sent: an attacker
 * who controls that user cannot turn them into records (agent/cache/hint.h). */
static int bring(const struct call *k)
{
	int rc = hint_check((enum cache_type)k->r->type, k->r->key, k->payload.p, k->payload.n);
	if (rc < 0)
		return fail_in(rc == E_NOMEM ? rc : E_USAGE, "put");
	store_unsaved(k->h, &k->h->commits.sync);
	honed_act(k->h, &(struct honed_action){.kind = HA_PUT,
					       .type = k->r->type,
					       .key = k->r->key,
					       .payload = k->payload,
					       .brought = true});
	return good(k, NULL);
}

_Static_assert((int)CONTROL_LAST_TYPE == CACHE_TYPES - 1, "a request can name every type of record");

static int do_put(const struct call *k)
{
	if (k->c->syncs)
		return bring(k);
	if (k->r->type == CACHE_CODE && !rules(k->h, k->c))
		return fail(E_USAGE, "put: only root and hone's own user may put code");
	if (!cache_keeps(k->r->type))
		return fail(E_USAGE, "put: unknown record type %d", k->r->type);
	store_unsaved(k->h, saving_of(k));
	if (k->r->type == CACHE_REC)
		saving_of(k)->wins = saving_of(k)->won = true;
	if (k->r->type == CACHE_RECIPE)
		models_recipe(k->h, k->r->key);
	honed_act(k->h, &(struct honed_action){
			    .kind = HA_PUT, .type = k->r->type, .key = k->r->key, .payload = k->payload});
	return good(k, NULL);
}

static int do_forget(const struct call *k)
{
	if (!cache_keeps(k->r->type) || k->r->type == CACHE_FORGET)
		return fail(E_USAGE, "forget: unknown record type %d", k->r->type);
	if (k->c->syncs && !hint_may_drop((enum cache_type)k->r->type))
		return fail(E_USAGE, "forget: records of type %d are not for hone-sync", k->r->type);
	store_unsaved(k->h, saving_of(k));
	honed_act(k->h, &(struct honed_action){
			    .kind = HA_FORGET, .type = k->r->type, .key = k->r->key, .brought = k->c->syncs});
	return good(k, NULL);
}

static int do_commit(const struct call *k)
{
	struct honed *h = k->h;
	struct saving *s = saving_of(k);
	if (s->ask.is)
		return fail(E_BUSY, "commit: this connection is waiting for a commit already");
	s->ask = k->ask;
	if (!k->j)
		h->commits.sync_client = k->c->id;
	store_commit(h, s);
	return E_OK;
}

static int do_progress(const struct call *k)
{
	struct honed_job *j = k->j;
	if (k->r->trials > j->progress.trials)
		k->h->counts.trials += k->r->trials - j->progress.trials;
	j->progress.task = k->r->task;
	j->progress.ntasks = k->r->ntasks;
	j->progress.trials = k->r->trials;
	j->progress.before_ms = k->r->before_ms;
	j->progress.now_ms = k->r->now_ms;
	j->progress.left_ms = k->r->left_ms;
	snprintf(j->progress.label, sizeof j->progress.label, "%.63s", k->r->text);
	model_measured(k->h, j, k->r->net_ms);
	model_needs_recipe(k->h, j, k->r->key);
	honed_changed(k->h);
	return E_OK;
}

static int do_done(const struct call *k)
{
	if (k->j->progress.done)
		return fail(E_USAGE, "done: this job has already sent it");
	job_done(k->h, k->j, k->r);
	return E_OK;
}

static const struct {
	enum { ALL, OWNER, JOB, BRINGER, KEEPER } who; /* KEEPER: a job, or a connection that syncs */
	int (*op)(const struct call *k);
} ops[OP_COUNT] = {
    [OP_HELLO] = {ALL, do_hello},      [OP_STATUS] = {ALL, do_status},     [OP_WATCH] = {ALL, do_watch},
    [OP_WAIT] = {ALL, do_wait},        [OP_INHIBIT] = {ALL, do_inhibit},   [OP_RESUME] = {ALL, do_resume},
    [OP_TUNE] = {OWNER, do_tune},      [OP_CANCEL] = {OWNER, do_cancel},   [OP_RELOAD] = {OWNER, do_reload},
    [OP_JOB] = {OWNER, do_job},        [OP_LEASE] = {JOB, do_lease},       [OP_RELEASE] = {JOB, do_release},
    [OP_SYNC] = {BRINGER, do_sync},    [OP_PUT] = {KEEPER, do_put},        [OP_FORGET] = {KEEPER, do_forget},
    [OP_COMMIT] = {KEEPER, do_commit}, [OP_PROGRESS] = {JOB, do_progress}, [OP_DONE] = {JOB, do_done},
};

static int refuse(const struct call *k)
{
	if (ops[k->r->op].who == OWNER && !k->c->owner)
		return fail(E_USAGE,
			    "only root, hone's own user and members of the socket's group may ask for that");
	if (ops[k->r->op].who == JOB && !k->j)
		return fail(E_USAGE, "this connection is not a job; send \"job\" first");
	if (ops[k->r->op].who == BRINGER && !k->c->owner && !k->c->brings)
		return fail(E_USAGE, "only owners and hone-sync's user may ask for that");
	if (ops[k->r->op].who == KEEPER && !k->j && !k->c->syncs)
		return fail(E_USAGE, "this connection is not a job; send \"job\" or \"sync\" first");
	return E_OK;
}

void clients_request(struct honed *h, const struct honed_event *e)
{
	struct client *c = client_of(h, e->client);
	const struct request *r = e->request;
	if (!c || c->closing || !r || r->op < 0 || r->op >= OP_COUNT)
		return;
	struct call k = {h, c, c->job >= 0 ? &h->job[c->job] : NULL, r, e->payload, {true, r->has_id, r->id}};
	c->heard_ns = h->now_ns;
	c->broken = 0;
	if (k.j)
		k.j->heard_ns = h->now_ns;
	int rc = refuse(&k);
	if (rc >= 0)
		rc = ops[r->op].op(&k);
	if (rc < 0)
		client_bad(h, e->client, &k.ask, rc, err_text());
}

void clients_broken(struct honed *h, const struct honed_event *e)
{
	struct client *c = client_of(h, e->client);
	struct ask ask = {true, e->request && e->request->has_id, e->request ? e->request->id : 0};
	if (!c || c->closing)
		return;
	client_bad(h, c->id, &ask, e->rc < 0 ? e->rc : E_CORRUPT, e->text ? e->text : "not a valid request");
	if (++c->broken >= BROKEN_MOST)
		close_it(h, c);
}

void clients_conf(struct honed *h, int rc, const char *text)
{
	for (int i = 0; i < h->clients.n; i++) {
		struct client *c = &h->clients.list[i];
		if (rc < 0)
			client_bad(h, c->id, &c->reload, rc, text);
		else
			client_good(h, c->id, &c->reload, NULL);
		c->reload.is = false;
	}
}

static bool due(const struct honed *h, const struct client *c)
{
	return c->watches && !c->closing && c->seen != h->revision;
}

static void tell_watchers(struct honed *h)
{
	struct buf b = {0};
	for (int i = 0; i < h->clients.n; i++) {
		struct client *c = &h->clients.list[i];
		if (!due(h, c) || h->now_ns - c->told_ns < WATCH_NS)
			continue;
		if (!b.n) {
			struct buf s = {0};
			honed_status(h, h->now_ns, &s);
			buf_printf(&b, "{\"event\":\"status\",%s\n", buf_str(&s) + (s.n > 0));
			buf_free(&s);
		}
		c->seen = h->revision;
		c->told_ns = h->now_ns;
		if (buf_ok(&b))
			client_send(h, c->id, buf_str(&b));
	}
	buf_free(&b);
}

/* Whether the look that was asked for has come, or has not come within LOOK_NS. */
static bool looked(const struct honed *h)
{
	return h->look.seen_ns >= h->clients.asked_ns || h->now_ns - h->clients.asked_ns >= LOOK_NS;
}

void clients_tick(struct honed *h)
{
	for (int i = 0; h->clients.askers && looked(h) && i < h->clients.n; i++)
		if (h->clients.list[i].status.is)
			say_status(h, &h->clients.list[i]);
	if (h->clients.waiters && models_settled(h))
		for (int i = 0; i < h->clients.n; i++) {
			struct client *c = &h->clients.list[i];
			client_good(h, c->id, &c->wait, NULL);
			h->clients.waiters -= c->wait.is;
			c->wait.is = false;
		}
	if (h->clients.watchers)
		tell_watchers(h);
}

int64_t clients_next(const struct honed *h)
{
	int64_t at = h->clients.askers ? h->clients.asked_ns + LOOK_NS : NEVER;
	for (int i = 0; h->clients.watchers && i < h->clients.n; i++)
		if (due(h, &h->clients.list[i]))
			sooner(&at, h->clients.list[i].told_ns + WATCH_NS);
	return at;
}
