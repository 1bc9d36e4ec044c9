/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/honed/honed_loop.h"
#include "agent/cache/cache.h"
#include "platform/base/log.h"
#include "platform/machine/topo.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEVER INT64_MAX
#define METRICS_NS (15 * NS_PER_S)
#define STORE_REST_NS (20 * NS_PER_S)
#define CACHE_NS                                                                                             \
	NS_PER_S /* between looks whether the cache's files are still the same, while it is written */

int64_t loop_now(void)
{
	return clock_now(&clock_real);
}

static void say(int rc)
{
	if (rc < 0)
		log_more("honed: %s", err_text());
}

static void tell(struct loop *l, const struct honed_event *e)
{
	if (l->h && !l->over)
		honed_event(l->h, loop_now(), e);
}

/* Does one thing that the last events asked for; it may ask for more. False: there was none. */
static bool do_later(struct loop *l)
{
	struct loop_later *later = &l->later;
	if (later->nstarted) {
		int i = --later->nstarted;
		struct honed_event e = {.kind = HE_STARTED, .job = later->started[i].job};
		char text[sizeof later->started[i].text];
		memcpy(text, later->started[i].text, sizeof text);
		e.client = later->started[i].client;
		e.pid = later->started[i].pid;
		e.rc = later->started[i].rc;
		e.text = text;
		if (e.rc < 0)
			e.kind = HE_ENDED;
		tell(l, &e);
	} else if (later->look) {
		later->look = false;
		loop_look(l);
	} else if (later->glance) {
		later->glance = false;
		loop_glance(l);
	} else if (later->reload) {
		later->reload = false;
		loop_reload(l);
	} else {
		return false;
	}
	return true;
}

void loop_tell(struct loop *l, const struct honed_event *e)
{
	tell(l, e);
	if (l->telling)
		return;
	l->telling = true;
	while (!l->over && do_later(l))
		;
	l->telling = false;
	loop_arm(l);
	if (l->later.leave && !l->over) {
		l->over = true;
		l->rc = l->later.rc;
		uv_stop(&l->uv);
	}
}

/* Runs `work` on the thread that may wait for flash. All signals are blocked meanwhile: a new thread inherits
 * that, so signals reach the main thread only. */

int loop_queue(struct loop *l, uv_work_t *w, uv_work_cb work, uv_after_work_cb after)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	int rc = uv_queue_work(&l->uv, w, work, after);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc < 0 ? fail(E_NOMEM, "cannot start a thread: %s", uv_strerror(rc)) : E_OK;
}

static void on_work(uv_work_t *w)
{
	struct loop *l = w->data;
	store_work(l->store);
}

static void start_work(struct loop *l);

void loop_stored(struct loop *l)
{
	struct stored d;
	while (!l->names_cache && store_told(l->store, &d)) {
		l->holds = d.holds;
		loop_tell(l, &(struct honed_event){.kind = HE_STORED,
						   .ticket = d.ticket,
						   .sync_ns = d.sync_ns,
						   .rc = d.rc,
						   .lost = d.lost,
						   .lacks = d.lacks,
						   .holds = &d.holds,
						   .text = d.text,
						   .generation = d.generation,
						   .written_bytes = d.written_bytes});
	}
}

static void on_worked(uv_work_t *w, int status)
{
	struct loop *l = w->data;
	(void)status;
	l->working = false;
	store_end(l->store);
	loop_stored(l);
	loop_watch_cache(l); /* its folder may be new */
	start_work(l);
	if (l->paused)
		loop_resume(l);
	if (!l->working)
		(void)malloc_trim(0);
}

static void start_work(struct loop *l)
{
	if (l->working || !store_begin(l->store))
		return;
	l->work.data = l;
	l->working = true;
	if (loop_queue(l, &l->work, on_work, on_worked) < 0) { /* no thread: do it here and now */
		on_work(&l->work);
		on_worked(&l->work, 0);
	}
}

static void stir_store(struct loop *l)
{
	l->rest_ns = loop_now() + STORE_REST_NS;
	start_work(l);
}

/* Actions. */

static void act_send(struct loop *l, const struct honed_action *a)
{
	loop_send(l, a->client, a->text);
}

static void act_close(struct loop *l, const struct honed_action *a)
{
	loop_hang_up(l, a->client);
}

static void act_look(struct loop *l, const struct honed_action *a)
{
	(void)a;
	l->later.look = true;
}

static void act_glance(struct loop *l, const struct honed_action *a)
{
	(void)a;
	l->later.glance = true;
}

static void act_signal(struct loop *l, const struct honed_action *a)
{
	loop_signal(l, a->job, a->signal);
}

static void act_put(struct loop *l, const struct honed_action *a)
{
	(a->brought ? store_bring : store_put)(l->store, a->type, a->key, a->payload);
	stir_store(l);
}

static void act_forget(struct loop *l, const struct honed_action *a)
{
	(a->brought ? store_drop : store_forget)(l->store, a->type, a->key);
	stir_store(l);
}

static void act_commit(struct loop *l, const struct honed_action *a)
{
	store_keep(l->store, a->ticket);
	stir_store(l);
}

static void act_prepare(struct loop *l, const struct honed_action *a)
{
	(void)a;
	store_prepare(l->store);
	stir_store(l);
}

static void act_marks(struct loop *l, const struct honed_action *a)
{
	loop_marks(l, a->marks);
}

static void act_inhibit(struct loop *l, const struct honed_action *a)
{
	loop_inhibit(l, a->name, a->text);
}

static void act_reload(struct loop *l, const struct honed_action *a)
{
	(void)a;
	l->later.reload = true;
}

static void act_ready(struct loop *l, const struct honed_action *a)
{
	(void)a;
	say(notify_send(&l->notify, "READY=1"));
}

static void act_status(struct loop *l, const struct honed_action *a)
{
	say(notify_status(&l->notify, a->text));
}

static void act_metrics(struct loop *l, const struct honed_action *a)
{
	(void)a;
	l->metrics_changed = true;
}

static void act_log(struct loop *l, const struct honed_action *a)
{
	static void (*const log[])(const char *, ...) = {log_error, log_info, log_more};
	(void)l;
	if (a->level == 0)
		log_error("%s", a->text);
	else
		log[a->level == 1 ? 1 : 2]("honed: %s", a->text);
}

static void act_leave(struct loop *l, const struct honed_action *a)
{
	l->later.leave = true;
	l->later.rc = a->rc;
}

static void act(void *ctx, const struct honed_action *a)
{
	static void (*const fn[])(struct loop *, const struct honed_action *) = {
	    [HA_SEND] = act_send,       [HA_CLOSE] = act_close,   [HA_LOOK] = act_look,
	    [HA_GLANCE] = act_glance,   [HA_START] = loop_start,  [HA_SIGNAL] = act_signal,
	    [HA_PUT] = act_put,         [HA_FORGET] = act_forget, [HA_COMMIT] = act_commit,
	    [HA_PREPARE] = act_prepare, [HA_MARKS] = act_marks,   [HA_INHIBIT] = act_inhibit,
	    [HA_RELOAD] = act_reload,   [HA_READY] = act_ready,   [HA_STATUS] = act_status,
	    [HA_METRICS] = act_metrics, [HA_LOG] = act_log,       [HA_LEAVE] = act_leave};
	fn[a->kind](ctx, a);
}

/* The one timer. */

static int64_t next_ns(const struct loop *l)
{
	const int64_t at[] = {honed_wakeup(l->h),  l->ping_ns,     l->metrics_changed ? l->metrics_ns : NEVER,
			      l->models_ns,        l->rest_ns,     l->accept_ns,
			      loop_jobs_wakeup(l), l->inhibits_ns, l->cache_ns};
	int64_t next = NEVER;
	for (size_t i = 0; i < sizeof at / sizeof *at; i++)
		next = at[i] < next ? at[i] : next;
	return next;
}

static void on_timer(uv_timer_t *t);

void loop_arm(struct loop *l)
{
	int64_t next = next_ns(l), left = next - loop_now();
	if (l->over || next == NEVER) {
		uv_timer_stop(&l->timer);
		return;
	}
	uv_update_time(&l->uv);
	uv_timer_start(&l->timer, on_timer, left <= 0 ? 0 : (uint64_t)((left + NS_PER_MS - 1) / NS_PER_MS),
		       0);
}

/* Pings the watchdog earlier than needed if the process is awake anyway, to save wake-ups. */
static void ping(struct loop *l, int64_t now_ns)
{
	int64_t half = l->notify.watchdog_ns / 2;
	if (!half || now_ns < l->ping_ns - half / 2)
		return;
	say(notify_send(&l->notify, "WATCHDOG=1"));
	l->ping_ns = now_ns + half;
}

/* Somebody else removed files of the cache, or its folder, if they are not those that the store knows. */
static void look_at_cache(struct loop *l, int64_t now)
{
	l->cache_ns = l->working ? now + CACHE_NS : NEVER;
	if (l->working || key_equal(inventory_files(l->cache), l->holds.files))
		return;
	store_look(l->store);
	start_work(l);
}

static void let_store_rest(struct loop *l)
{
	l->rest_ns = NEVER;
	store_rest(l->store);
	start_work(l);
}

static void on_timer(uv_timer_t *t)
{
	struct loop *l = t->data;
	int64_t now = loop_now();
	ping(l, now);
	if (l->metrics_changed && now >= l->metrics_ns) {
		loop_metrics(l);
		l->metrics_changed = false;
		l->metrics_ns = now + METRICS_NS;
	}
	if (now >= l->models_ns) {
		l->models_ns = NEVER;
		if (loop_models_changed(l)) {
			loop_watch(l);
			loop_tell(l, &(struct honed_event){
					 .kind = HE_MODELS, .nmodels = l->conf->nmodels, .model = l->model});
		}
	}
	if (now >= l->inhibits_ns)
		loop_inhibited(l);
	if (now >= l->rest_ns)
		let_store_rest(l);
	if (now >= l->cache_ns)
		look_at_cache(l, now);
	if (now >= l->accept_ns)
		loop_accept_again(l);
	loop_jobs_late(l, now);
	if (!l->over && now >= honed_wakeup(l->h))
		loop_tell(l, &(struct honed_event){.kind = HE_TIMER});
	loop_arm(l);
}

/* Signals. */

static void on_signal(uv_signal_t *s, int sig)
{
	struct loop *l = s->data;
	if (sig == SIGCHLD)
		loop_reap(l);
	else if (sig == SIGHUP)
		loop_reload(l);
	else
		loop_tell(l, &(struct honed_event){.kind = HE_STOP});
}

static int catch_signals(struct loop *l)
{
	const struct {
		uv_signal_t *s;
		int sig;
	} all[] = {
	    {&l->on_hup, SIGHUP}, {&l->on_term, SIGTERM}, {&l->on_int, SIGINT}, {&l->on_child, SIGCHLD}};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		all[i].s->data = l;
		if (uv_signal_init(&l->uv, all[i].s) < 0 ||
		    uv_signal_start(all[i].s, on_signal, all[i].sig) < 0)
			return fail(E_NOMEM, "no memory or no descriptor is left for signals");
	}
	return E_OK;
}

/* Start and end. */

static int open_uv(struct loop *l)
{
	/* One thread writes in order. A box has two: its marks are written before they are queued, so neither
	 * their sync nor the cache's has to wait for the other. */
	setenv("UV_THREADPOOL_SIZE", l->o.box ? "2" : "1", 1);
	/* Jobs read it. The environment must not change once there are threads, because they read it. */
	setenv("HONE_CONTROL_FD", "3", 1);
	if (uv_loop_init(&l->uv) < 0)
		return fail(E_NOMEM, "no memory or no descriptor is left for the event loop");
	l->uv.data = l;
	uv_timer_init(&l->uv, &l->timer);
	uv_idle_init(&l->uv, &l->turn);
	l->timer.data = l->turn.data = l;
	return catch_signals(l);
}

/* Lists the cores and the clusters that they are of. */
static void list_cores(struct honed_options *o)
{
	const int room = (int)(sizeof o->cpus / sizeof *o->cpus);
	struct clusters c;
	cpu_set_t may;
	topo_allowed(&may);
	topo_clusters("", &may, &c);
	for (int i = 0; i < c.n && o->ncpus < room; i++) {
		struct honed_cluster *own = &o->cluster[o->nclusters++];
		const int left = room - o->ncpus,
			  cores = topo_firsts("", &c.of[i].cpus, o->cpus + o->ncpus, left);
		snprintf(own->device, sizeof own->device, CONF_CPU ":%s", c.of[i].name);
		for (int k = 0; k < cores && k < left; k++)
			own->cpus |= UINT64_C(1) << o->ncpus++;
	}
}

static int open_honed(struct loop *l, const struct marks *marks)
{
	int64_t now = loop_now();
	struct honed_options o = {.mode = l->o.box ? HONED_BOX : HONED_RESIDENT,
				  .conf = l->conf,
				  .marks = *marks,
				  .now_ns = now,
				  .box_ns = now - clock_since_start(&clock_real) + l->o.budget_ns,
				  .cache = l->cache,
				  .conf_file = l->o.conf,
				  .uid = geteuid(),
				  .ctx = l,
				  .act = act};
	list_cores(&o);
	return honed_open(&o, &l->h);
}

int loop_open(struct loop *l, const struct marks *marks)
{
	l->ping_ns = l->models_ns = l->rest_ns = l->accept_ns = l->inhibits_ns = l->cache_ns = NEVER;
	l->changes_fd = l->spare_fd = l->cache_watch = -1;
	if (l->notify.watchdog_ns)
		l->ping_ns = loop_now();
	int rc = open_uv(l);
	if (rc >= 0)
		rc = store_open(l->cache, l->conf->cache_bytes, &l->store);
	if (rc >= 0)
		store_expect(l->store, &marks->cache);
	if (rc >= 0)
		rc = open_honed(l, marks);
	if (rc >= 0)
		rc = loop_listen(l);
	if (rc >= 0) /* what its slices find could never be written */
		rc = cache_refuse_honed(l->cache, OTHERS_NS);
	return rc;
}

/* Asks for the box's length and 10 s: the unit's TimeoutStartSec= may be shorter, and the box ends by
 * itself. */
static void ask_for_time(struct loop *l)
{
	char line[64];
	int64_t us = (l->o.budget_ns + 10 * NS_PER_S) / NS_PER_US;
	snprintf(line, sizeof line, "EXTEND_TIMEOUT_USEC=%" PRId64, us);
	say(notify_send(&l->notify, line));
}

static void on_faults(uv_poll_t *p, int status, int events)
{
	struct loop *l = p->data;
	struct loop_fault f;
	ssize_t n;
	(void)events;
	while ((n = read(l->faults_fd, &f, sizeof f)) == (ssize_t)sizeof f) {
		const struct honed_model m = {.key = f.key};
		f.text[sizeof f.text - 1] = 0;
		loop_tell(l, &(struct honed_event){.kind = HE_FAULT, .model = &m, .text = f.text});
	}
	if (n < 0 && errno == EAGAIN && status >= 0)
		return;
	uv_close((uv_handle_t *)p, NULL);
	close(l->faults_fd);
	l->faults_fd = -1;
}

static void watch_faults(struct loop *l)
{
	l->faults.data = l;
	if (l->faults_fd >= 0 && uv_poll_init(&l->uv, &l->faults, l->faults_fd) >= 0)
		(void)uv_poll_start(&l->faults, UV_READABLE, on_faults);
}

int loop_run(struct loop *l)
{
	loop_kept(l);
	loop_inhibited(l);
	loop_models_look(l);
	loop_tell(l, &(struct honed_event){.kind = HE_START, .nmodels = l->conf->nmodels, .model = l->model});
	if (!l->over) {
		watch_faults(l);
		loop_reap(l); /* the examiner may have ended before loop_open */
		loop_watch(l);
		loop_inhibited(l); /* for what changed since the first look */
		l->models_ns = l->conf->nmodels ? loop_now() : NEVER;
		/* A resident honed becomes the cache's writer now and learns its state; a box does not wait
		 * for that. */
		if (l->o.box) {
			ask_for_time(l);
		} else {
			store_keep(l->store, 0);
			stir_store(l);
		}
		loop_arm(l);
		uv_run(&l->uv, UV_RUN_DEFAULT);
		if (!l->o.box)
			loop_metrics_remove(l);
		else if (l->metrics_changed)
			loop_metrics(l);
	}
	return l->rc;
}

static void close_handle(uv_handle_t *h, void *ctx)
{
	(void)ctx;
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

void loop_close(struct loop *l)
{
	l->over = true;
	if (l->uv.data == l) {
		loop_pressure(l, false);
		loop_jobs_kill(l);
		loop_clients_close(l);
		if (l->o.box && clock_since_start(&clock_real) > l->o.budget_ns)
			store_abandon(l->store);
		uv_walk(&l->uv, close_handle, NULL);
		uv_run(&l->uv, UV_RUN_DEFAULT); /* also waits for the cache's thread */
		uv_loop_close(&l->uv);
	}
	loop_look_close(l);
	loop_watch_close(l);
	store_close(l->store);
	honed_close(l->h);
	free(l->conn);
}
