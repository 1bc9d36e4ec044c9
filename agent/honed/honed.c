/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/honed/honed_parts.h"
#include "agent/cache/cache.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void honed_act(struct honed *h, const struct honed_action *a)
{
	h->o.act(h->o.ctx, a);
}

void honed_log(struct honed *h, int level, const char *fmt, ...)
{
	char text[JOB_TEXT + 256];
	va_list va;
	if (level > h->conf->log + 1)
		return;
	va_start(va, fmt);
	vsnprintf(text, sizeof text, fmt, va);
	va_end(va);
	log_one_line(text);
	honed_act(h, &(struct honed_action){.kind = HA_LOG, .level = level, .text = text});
}

void honed_changed(struct honed *h)
{
	h->revision++;
	h->told.say = h->told.count = true;
}

static void choose_policy(struct honed *h)
{
	const char *name = h->conf->policy ? h->conf->policy : POLICY_DEFAULT;
	h->policy = policy_find(name);
	if (h->policy)
		return;
	honed_log(h, 0, "there is no policy '%s': using '%s'", name, policy_table[0]->name);
	h->policy = policy_table[0];
}

int honed_open(const struct honed_options *o, struct honed **out)
{
	if (o->ncpus < 1 || o->ncpus > 64 || !o->act || !o->conf)
		return fail(E_USAGE, "honed can run on 1 to 64 processors, not on %d", o->ncpus);
	struct honed *h = calloc(1, sizeof *h);
	if (!h)
		return fail(E_NOMEM, "not enough memory to start honed");
	h->o = *o;
	h->conf = o->conf;
	h->models.marks = o->marks;
	h->now_ns = h->opened_ns = h->worked_ns = o->now_ns;
	h->look.seen_ns = h->look.asked_ns = LONG_AGO;
	h->told.text_ns = h->told.metrics_ns = h->models.marks_ns = LONG_AGO;
	h->look.minute = -1;
	h->wake_ns = NEVER;
	h->commits.day = o->now_ns / DAY_NS;
	h->commits.day_bytes = -o->marks.day_bytes; /* of this day, before honed started */
	choose_policy(h);
	gate_reset(h);
	*out = h;
	return E_OK;
}

void honed_close(struct honed *h)
{
	if (!h)
		return;
	for (int i = 0; i < HONED_JOBS; i++)
		free(h->job[i].path);
	gate_free(h);
	models_free(h);
	free(h->clients.list);
	buf_free(&h->out);
	free(h);
}

static void on_timer(struct honed *h, const struct honed_event *e)
{
	(void)h;
	(void)e;
}

static void on_stop(struct honed *h, const struct honed_event *e)
{
	leave(h, e->text ? e->text : "told to stop");
}

/* The devices beside the processor, as in " on cpu and opencl:0"; "": there are none. */
static void add_devices(const struct honed *h, struct buf *b)
{
	int n = 0;
	for (int i = 0, used = 0; i < h->models.n; i++, used = 0) {
		const char *name = conf_device_name(h->models.list[i].conf->device);
		for (int k = 0; k < i; k++)
			used |= !strcmp(conf_device_name(h->models.list[k].conf->device), name);
		if (!used)
			buf_printf(b, "%s%s", n++ ? " and " : " on ", name);
	}
	if (n == 1 && !strcmp(buf_str(b), " on " CONF_CPU))
		buf_clear(b);
}

/* Says that jobs of several devices have to share cores. Their leases keep such jobs apart (control.h). */
static void say_shared_cores(struct honed *h)
{
	char devices[128];
	if (jobs_share_cores(h, devices, sizeof devices))
		honed_log(
		    h, 1,
		    "jobs on cpu use every core, so those on %s share one with them: while one measures, "
		    "the other waits or is stopped, and tuning takes longer; threads = %d in the sections "
		    "of models leaves a core free",
		    devices, h->o.ncpus - 1);
}

static void on_start(struct honed *h, const struct honed_event *e)
{
	if (h->started)
		return;
	models_read(h, h->conf, e->nmodels, e->model);
	h->started = true;
	if (h->o.mode == HONED_RESIDENT) {
		bool elsewhere = h->o.cache && strcmp(h->o.cache, CACHE_DAEMON) != 0;
		struct buf devices = {0};
		int n = models_count(h, NULL);
		add_devices(h, &devices);
		honed_log(h, 1, HONE_VERSION " keeps %d model%s tuned%s; their kernels are in %s%s", n,
			  plural_s(n), buf_str(&devices), h->o.cache ? h->o.cache : "memory",
			  elsewhere ? ", where applications find them with HONE_DAEMON_CACHE" : "");
		buf_free(&devices);
		say_shared_cores(h);
		honed_act(h, &(struct honed_action){.kind = HA_READY});
	} else {
		boot_start(h);
	}
	honed_changed(h);
}

static void on_conf(struct honed *h, const struct honed_event *e)
{
	const char *text = e->text ? e->text : "";
	if (e->conf) {
		models_read(h, e->conf, e->nmodels, e->model);
		h->conf = e->conf;
		choose_policy(h);
		gate_reset(h);
		store_retry(h);
		h->told.conf_error[0] = 0;
		honed_log(h, 1, "read the configuration: %d model%s", models_count(h, NULL),
			  plural_s(models_count(h, NULL)));
		say_shared_cores(h);
	} else {
		snprintf(h->told.conf_error, sizeof h->told.conf_error, "%.350s; the former settings stay",
			 text);
		log_one_line(h->told.conf_error);
		honed_log(h, 0, "the new configuration is invalid, so the former one stays: %s", text);
	}
	clients_conf(h, e->conf ? E_OK : e->rc, text);
	honed_changed(h);
}

static void (*const on[])(struct honed *h, const struct honed_event *e) = {
    [HE_START] = on_start,
    [HE_TIMER] = on_timer,
    [HE_VITALS] = gate_vitals,
    [HE_GLANCE] = gate_glance,
    [HE_INHIBIT] = gate_file_inhibit,
    [HE_KEPT] = gate_kept,
    [HE_CLIENT] = clients_new,
    [HE_REQUEST] = clients_request,
    [HE_BROKEN] = clients_broken,
    [HE_GONE] = clients_gone,
    [HE_STARTED] = jobs_started,
    [HE_ENDED] = jobs_ended,
    [HE_STORED] = store_event,
    [HE_MODELS] = models_event,
    [HE_FAULT] = models_fault,
    [HE_CONF] = on_conf,
    [HE_STOP] = on_stop,
};

/* The parts in the order in which they act: jobs_tick rests jobs before lease_tick grants any lease. */
static void (*const ticks[])(struct honed *h) = {store_tick, boot_tick,    jobs_tick,  lease_tick,
						 gate_tick,  clients_tick, status_tick};
static int64_t (*const nexts[])(const struct honed *h) = {store_next, boot_next,    jobs_next,  lease_next,
							  gate_next,  clients_next, status_next};

/* A process that was held up for seconds has not heard its jobs meanwhile: this time does not count as their
 * silence. */
static void forgive(struct honed *h, int64_t now_ns)
{
	int64_t late = now_ns - (h->wake_ns > h->now_ns ? h->wake_ns : h->now_ns);
	for (int i = 0; late > 2 * NS_PER_S && h->wake_ns != NEVER && i < HONED_JOBS; i++)
		h->job[i].heard_ns += late;
}

void honed_event(struct honed *h, int64_t now_ns, const struct honed_event *e)
{
	if (h->leaving == LEAVE_LEFT)
		return;
	if (now_ns < h->now_ns)
		now_ns = h->now_ns;
	forgive(h, now_ns);
	h->now_ns = now_ns;
	on[e->kind](h, e);
	for (size_t i = 0; i < sizeof ticks / sizeof *ticks && h->leaving != LEAVE_LEFT; i++)
		ticks[i](h);
	h->wake_ns = NEVER;
	for (size_t i = 0; i < sizeof nexts / sizeof *nexts && h->leaving != LEAVE_LEFT; i++)
		sooner(&h->wake_ns, nexts[i](h));
}

int64_t honed_wakeup(const struct honed *h)
{
	return h->wake_ns;
}
