/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/libhone.h"
#include "agent/run/inject.h"
#include "platform/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHAPES = 4096 };

struct hone_model *model_new(struct hone_handle *h)
{
	struct hone_model *m = calloc(1, sizeof *m);
	pthread_condattr_t attr;
	if (!m)
		return NULL;
	pthread_mutex_init(&m->refresh, NULL);
	turns_open(&m->run);
	pthread_mutex_init(&m->now, NULL);
	pthread_mutex_init(&m->later, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&m->changed, &attr);
	pthread_condattr_destroy(&attr);
	m->h = h;
	hone_keep(h);
	return m;
}

void hone_model_close(struct hone_model *m)
{
	if (!m)
		return;
	later_close(m);
	net_free(m->net);
	if (m->inject)
		m->injector->close(m->inject);
	pages_close(&m->own);
	pthread_mutex_destroy(&m->refresh);
	turns_close(&m->run);
	pthread_mutex_destroy(&m->now);
	pthread_mutex_destroy(&m->later);
	pthread_cond_destroy(&m->changed);
	arena_free(&m->a);
	hone_close(m->h);
	free(m);
}

static size_t describe(struct hone_model *m, const struct value *v, struct hone_tensor *info,
		       struct tensor *t)
{
	*t = (struct tensor){.dtype = v->t.dtype, .shape = v->t.shape};
	hone_init(info, sizeof *info);
	info->name = arena_strdup(&m->a, v->name);
	info->dtype = (int)v->t.dtype;
	info->rank = v->t.shape.rank;
	memcpy(info->shape, v->t.shape.d, sizeof *info->shape * (size_t)info->rank);
	info->bytes = (size_t)shape_count(&v->t.shape) * dtype_bytes(v->t.dtype);
	return (info->bytes + 63) / 64 * 64 + 64; /* so that an empty tensor has its own address, too */
}

/* Allocates everything that a run touches, for the model's lifetime: later nets have the same inputs and
 * outputs. */
static int take_shape(struct hone_model *m)
{
	const struct graph *g = plan_graph(m->net->plan);
	struct tensor *all = ARENA_ARRAY(&m->a, struct tensor, 3 * (g->ninputs + g->noutputs) + 1);
	struct hone_tensor *info = ARENA_ARRAY(&m->a, struct hone_tensor, g->ninputs + g->noutputs + 1);
	size_t *at = ARENA_ARRAY(&m->a, size_t, g->ninputs + g->noutputs + 1), total = 0;
	int n = 0;
	m->placed = ARENA_ARRAY(&m->a, bool, 3 * (g->ninputs + g->noutputs) + 1);
	m->nin = g->ninputs;
	m->nout = g->noutputs;
	m->in = all;
	m->run_in = m->in + m->nin;
	m->later_in = m->run_in + m->nin;
	m->out = m->later_in + m->nin;
	m->run_out = m->out + m->nout;
	m->later_out = m->run_out + m->nout;
	m->in_info = info;
	m->out_info = info + m->nin;
	m->in_at = at;
	m->out_at = at + m->nin;
	for (int i = 0; i < m->nin; i++, n++) {
		at[n] = total;
		total += describe(m, &g->value[g->input[i]], &m->in_info[i], &m->in[i]);
	}
	for (int i = 0; i < m->nout; i++, n++) {
		at[n] = total;
		total += describe(m, &g->value[g->output[i]], &m->out_info[i], &m->out[i]);
	}
	int rc = pages_open(&m->own, total, PAGES_PLAIN);
	if (rc < 0)
		return fail_in(rc, "inputs and outputs");
	for (int i = 0; i < m->nin; i++)
		m->in[i].data = (char *)m->own.p + m->in_at[i];
	for (int i = 0; i < m->nout; i++)
		m->out[i].data = (char *)m->own.p + m->out_at[i];
	return E_OK;
}

int model_finish(struct hone_model *m, struct hone_model **out)
{
	int64_t begin_ns = clock_now(&clock_real);
	int rc = net_make(m->h, &m->from, NULL, &m->net);
	if (rc >= 0)
		rc = take_shape(m);
	if (rc >= 0)
		rc = model_inject_open(m);
	m->load_ns = clock_now(&clock_real) - begin_ns;
	if (rc < 0) {
		hone_model_close(m);
		return rc;
	}
	*out = m;
	return E_OK;
}

/* Each text is "NAME=DIMS". */
static int take_shapes(struct hone_model *m, const struct hone_load_options *o)
{
	if (o->nshapes < 0 || o->nshapes > MOST_SHAPES || (o->nshapes && !o->shapes))
		return fail(E_USAGE, "nshapes is %d; it must be 0 to %d, with shapes set", o->nshapes,
			    MOST_SHAPES);
	struct import_bind *b = ARENA_ARRAY(&m->a, struct import_bind, o->nshapes + 1);
	for (int i = 0; i < o->nshapes; i++) {
		const char *eq = o->shapes[i] ? strrchr(o->shapes[i], '=') : NULL;
		if (!eq || eq == o->shapes[i] || !eq[1])
			return fail(E_USAGE, "shape '%.100s': write NAME=DIMS, as in image=1x3x320x320",
				    o->shapes[i] ? o->shapes[i] : "");
		b[i] = (struct import_bind){arena_strndup(&m->a, o->shapes[i], (size_t)(eq - o->shapes[i])),
					    arena_strdup(&m->a, eq + 1)};
	}
	m->from.opts = (struct import_opts){
	    .nbinds = o->nshapes, .binds = b, .shape_option = "hone_load_options.shapes: "};
	return E_OK;
}

static int keep_path(const char *path, struct arena *a, const char **out)
{
	char all[8192];
	int rc = hone_absolute(path, all, sizeof all);
	*out = rc < 0 ? NULL : arena_strdup(a, all);
	return rc;
}

static int copy_model(const void *bytes, size_t n, struct arena *a, struct blob *out)
{
	void *copy = n < SIZE_MAX ? arena_try(a, n + 1, 1) : NULL;
	if (!copy)
		return fail(E_NOMEM, "no memory to copy a model of %zu bytes", n);
	memcpy(copy, bytes, n);
	*out = (struct blob){copy, n};
	return E_OK;
}

/* bytes NULL: loads the file at path. */
static int load(struct hone_handle *h, const char *path, const void *bytes, size_t n,
		const struct hone_load_options *options, struct hone_model **out)
{
	struct hone_load_options o;
	int rc = hone_copy_in(&o, options, sizeof o, offsetof(struct hone_load_options, shapes));
	struct hone_model *m = rc < 0 ? NULL : model_new(h);
	if (!m)
		return rc < 0 ? rc : fail(E_NOMEM, "no memory for a model");
	if (path)
		rc = keep_path(path, &m->a, &m->from.path);
	else
		rc = copy_model(bytes, n, &m->a, &m->from.bytes);
	if (rc >= 0)
		rc = take_shapes(m, &o);
	if (rc >= 0)
		return model_finish(m, out);
	hone_model_close(m);
	return rc;
}

int hone_load(struct hone_handle *h, const char *path, const struct hone_load_options *o,
	      struct hone_model **out)
{
	if (!out)
		return fail(E_USAGE, "hone_load: out is NULL");
	*out = NULL;
	if (!h || !path)
		return fail(E_USAGE, "hone_load: the %s is NULL", h ? "path" : "handle");
	return err_clear(load(h, path, NULL, 0, o, out));
}

int hone_load_bytes(struct hone_handle *h, const void *model, size_t bytes, const struct hone_load_options *o,
		    struct hone_model **out)
{
	if (!out)
		return fail(E_USAGE, "hone_load_bytes: out is NULL");
	*out = NULL;
	if (!h || !model)
		return fail(E_USAGE, "hone_load_bytes: the %s is NULL", h ? "model" : "handle");
	return err_clear(load(h, NULL, model, bytes, o, out));
}

/* Looks for new records in the caches; raises the handle's count if there are any. */
static int look_for_news(struct hone_handle *h, unsigned *news)
{
	int rc = E_OK, fresh = 0;
	pthread_mutex_lock(&h->cache_lock);
	for (int i = 0; i < h->ncaches && rc >= 0; i++) {
		rc = cache_refresh(h->cache[i]);
		fresh |= rc > 0;
	}
	h->news += (unsigned)fresh;
	*news = h->news;
	pthread_mutex_unlock(&h->cache_lock);
	return rc;
}

static bool same_tensors(const struct hone_model *m, const struct graph *g)
{
	bool same = g->ninputs == m->nin && g->noutputs == m->nout;
	for (int i = 0; same && i < m->nin + m->nout; i++) {
		const struct tensor *a = i < m->nin ? &m->in[i] : &m->out[i - m->nin],
				    *b = &g->value[i < m->nin ? g->input[i] : g->output[i - m->nin]].t;
		same = a->dtype == b->dtype && shape_equal(&a->shape, &b->shape);
	}
	return same;
}

/* `refresh` is held. */
static void put_in_place(struct hone_model *m, struct libhone_net *fresh)
{
	struct libhone_net *old = m->net;
	turns_enter(&m->run);
	pthread_mutex_lock(&m->now);
	m->net = fresh;
	m->refreshed++;
	pthread_mutex_unlock(&m->now);
	turns_leave(&m->run);
	net_free(old);
}

static int replace(struct hone_model *m, unsigned news)
{
	struct libhone_net *fresh = NULL, *old = m->net;
	int rc = net_make(m->h, &m->from, old, &fresh);
	if (rc < 0)
		return fail_in(rc, "hone_refresh");
	if (!same_tensors(m, plan_graph(fresh->plan))) {
		net_free(fresh);
		return fail(E_CORRUPT, "hone_refresh: %s has changed to another model: load it again",
			    m->from.path ? m->from.path : "the model");
	}
	bool changed = !key_equal(fresh->made_of, old->made_of) && !net_worse(fresh, old);
	if (!changed) {
		old->news = news;
		net_free(fresh);
		return 0;
	}
	put_in_place(m, fresh);
	return 1;
}

bool model_leaves_device(struct hone_model *m)
{
	struct libhone_net *fresh = NULL;
	char why[256];
	snprintf(why, sizeof why, "%s", err_text());
	pthread_mutex_lock(&m->refresh);
	bool left = !m->net->device;
	if (!left) {
		device_lose(m->h, why);
		left =
		    net_make(m->h, &m->from, NULL, &fresh) >= 0 && same_tensors(m, plan_graph(fresh->plan));
	}
	if (left && fresh)
		put_in_place(m, fresh);
	else
		net_free(fresh);
	pthread_mutex_unlock(&m->refresh);
	if (left)
		err_clear(E_OK);
	return left;
}

int hone_refresh(struct hone_model *m)
{
	unsigned news;
	pthread_mutex_lock(&m->refresh);
	int rc = look_for_news(m->h, &news);
	if (rc >= 0)
		rc = news == m->net->news || m->net->compiled ? 0 : replace(m, news);
	pthread_mutex_unlock(&m->refresh);
	return err_clear(rc);
}
