/* SPDX-License-Identifier: Apache-2.0 */
/* The device that a handle's models run on, if that is not the processor. */
#include "agent/run/libhone.h"
#include "agent/run/device_fit.h"
#include "agent/run/inject.h"
#include "agent/run/source.h"
#include "platform/run/device_name.h"
#include "platform/run/foreign.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct device_host host = {fail, fail_in, err_text};
static const struct device_fit fit = DEVICE_FIT;

/* Looks beside libhone (in a build folder), in the folder hone there (where it is installed), then where
 * libhone was to be installed. It is never closed. */
static int open_lib(const struct device_lib **out)
{
	static const char *const below[] = {"/" DEVICE_LIB, "/hone/" DEVICE_LIB};
	Dl_info self;
	char path[4096];
	const char *slash = dladdr((void *)(uintptr_t)open_lib, &self) && self.dli_fname
				? strrchr(self.dli_fname, '/')
				: NULL;
	void *lib = NULL;
	for (int i = 0; i < 2 && slash && !lib; i++) {
		snprintf(path, sizeof path, "%.*s%s", (int)(slash - self.dli_fname), self.dli_fname,
			 below[i]);
		lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	if (!lib)
		lib = dlopen(HONE_LIBDIR "/" DEVICE_LIB, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return fail(E_NOTFOUND, "there is no " DEVICE_LIB " beside libhone: %s", dlerror());
	const struct device_lib *d = dlsym(lib, DEVICE_LIB_SYMBOL);
	if (!d || memcmp(&d->fit, &fit, sizeof fit))
		return fail(E_UNSUPPORTED, DEVICE_LIB " is of another build than libhone");
	d->use(&host);
	*out = d;
	return E_OK;
}

static void open_libraries(void)
{
	const struct device_lib *d;
	if (open_lib(&d) >= 0)
		foreign_use(d->libraries);
}

void device_lose(struct hone_handle *h, const char *why)
{
	pthread_mutex_lock(&h->cache_lock);
	if (!h->device_off)
		snprintf(h->device_why, sizeof h->device_why, "%s", why);
	h->device_off = true;
	pthread_mutex_unlock(&h->cache_lock);
}

static int look_at(struct hone_handle *h)
{
	struct plan_device *d;
	int rc = open_lib(&h->device_lib);
	if (rc >= 0)
		rc = h->device_lib->open(h->device, &d);
	if (rc < 0)
		return rc;
	h->device_lib->target(d, &h->device_target);
	h->device_lib->close(d);
	for (int i = 0; i < h->ncaches && rc >= 0; i++)
		rc = cache_source(h->cache[i], &h->device_target, 1, hone_level(h), REC_BEST,
				  &h->device_source[i]);
	return rc;
}

const char *device_asked(const char *given)
{
	const char *env = getenv("HONE_DEVICE");
	return given ? given : env && *env ? env : "cpu";
}

int device_choose(struct hone_handle *h, const char *name)
{
	foreign_find(open_libraries); /* plans on the processor need it, too */
	if (device_is_processor(name))
		return E_OK;
	if (!device_is_named(name)) /* others name no library to open */
		return fail(
		    E_USAGE,
		    "device '%.40s': must be cpu, cpu:CLUSTER, opencl:N or cuda:N; `hone devices` lists "
		    "what there is",
		    name);
	snprintf(h->device, sizeof h->device, "%s", name);
	int rc = look_at(h);
	if (rc < 0)
		device_lose(h, err_text());
	return E_OK;
}

bool device_is_on(struct hone_handle *h)
{
	pthread_mutex_lock(&h->cache_lock);
	bool on = h->device[0] && !h->device_off;
	pthread_mutex_unlock(&h->cache_lock);
	return on;
}

void device_release(struct hone_handle *h)
{
	for (int i = 0; i < h->ncaches; i++)
		cache_source_free(&h->device_source[i]);
}

int net_device_open(struct hone_handle *h, struct libhone_net *n)
{
	n->lib = h->device_lib;
	return n->lib->open(h->device, &n->device);
}

int net_device_steps(const struct libhone_net *n)
{
	return n->device ? n->lib->of(n->plan).steps : 0;
}

int model_inject_open(struct hone_model *m)
{
	const char *page = secure_getenv(INJECT_VARIABLE);
	const struct device_lib *lib;
	if (!page || !*page || m->from.want)
		return E_OK;
	int rc = open_lib(&lib);
	if (rc < 0)
		return rc;
	struct arena a = {0};
	struct blob model = m->from.bytes;
	if (m->from.path)
		rc = file_read(&a, m->from.path, 0, &model);
	m->injector = lib->injector;
	if (rc >= 0)
		rc = m->injector->open(page, hash_bytes(model.p, model.n), m->out, m->out_info, m->nout,
				       &m->inject);
	arena_free(&a);
	return rc;
}

void net_device_close(struct libhone_net *n)
{
	if (n->device)
		n->lib->close(n->device);
	n->device = NULL;
}
