/* SPDX-License-Identifier: Apache-2.0 */
/* From a model's file to its plan, with kernels and choices of the first cache that has them. */
#include "agent/run/libhone.h"
#include "agent/run/beside.h"
#include "agent/cache/chosen.h"
#include "agent/cache/recipe.h"
#include "agent/run/fallback_data.h"
#include "kernels/graph/optimize.h"
#include "platform/base/log.h"
#include "platform/machine/target_isa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct finder {
	struct hone_handle *h;
	struct libhone_net *n;
};

static int find(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		enum kernel_origin *origin)
{
	struct finder *f = ctx;
	const bool own = out->own;
	int rc = E_NOTFOUND;
	pthread_mutex_lock(&f->h->cache_lock);
	for (int i = 0; i < f->h->ncaches && rc < 0; i++) {
		const struct kernel_source *s = &(f->n->device ? f->h->device_source : f->h->source)[i];
		out->own = own;
		rc = s->find(s->ctx, t, text, a, out, origin);
	}
	pthread_mutex_unlock(&f->h->cache_lock);
	if (rc >= 0)
		f->n->made_of = image_note(f->n->made_of, out, *origin);
	/* A record that cannot be read counts as missing. */
	return rc < 0 && rc != E_NOMEM ? fail(E_NOTFOUND, "no kernel of this task in any cache") : rc;
}

static int import(const struct origin *from, struct graph **out)
{
	static const char memory[] = "model in memory";
	struct buf notes = {0};
	struct import_opts o = from->opts;
	if (from->want)
		return want_graph(from->want, out);
	o.notes = &notes;
	int rc = from->path ? import_file(from->path, &o, out)
			    : fail_in(import_bytes(from->bytes.p, from->bytes.n, NULL, &o, out), memory);
	if (rc >= 0 && notes.n)
		log_more("hone: %s: %s", from->path ? from->path : memory, buf_str(&notes));
	buf_free(&notes);
	return rc;
}

/* Kernels on a device are those of one thread. */
static struct chosen_for chosen_of(const struct hone_handle *h, const struct libhone_net *n, int cache)
{
	return (struct chosen_for){h->cache[cache], n->device ? &h->device_target : &h->target,
				   n->device ? 1 : h->threads, hone_level(h)};
}

static int load_choices(struct hone_handle *h, struct libhone_net *n, struct choices *c)
{
	int rc = E_OK;
	*c = (struct choices){0};
	pthread_mutex_lock(&h->cache_lock);
	for (int i = 0; i < h->ncaches && rc >= 0 && !c->n; i++) {
		const struct chosen_for f = chosen_of(h, n, i);
		rc = chosen_load(&f, n->g, &n->a, c);
	}
	pthread_mutex_unlock(&h->cache_lock);
	return rc;
}

/* An image in the first cache's folder: its file's name by what stays when a model or a cache changes, its
 * key by all that it depends on. */
struct kept {
	char dir[4096 + 16], path[4096 + 64];
	struct image image;
};

static struct beside beside_of(const struct hone_handle *h, const struct origin *from)
{
	return (struct beside){from->path, &from->opts, h->threads, hone_level(h)};
}

/* Hashes what a net may take from the caches: choices, recipes, and kernels by their keys. */
static struct key hash_caches(struct hone_handle *h, struct key k)
{
	static const enum cache_type types[] = {CACHE_CODE, CACHE_CHOICES, CACHE_RECIPE};
	struct arena a = {0};
	struct key *all;
	pthread_mutex_lock(&h->cache_lock);
	for (int i = 0; i < h->ncaches; i++)
		for (int t = 0; t < 3; t++) {
			int n = cache_keys(h->cache[i], types[t], &a, &all);
			for (int j = 0; j < n; j++) {
				struct blob b;
				k = hash_join(k, all[j]);
				if (types[t] != CACHE_CODE &&
				    cache_get(h->cache[i], types[t], all[j], &a, &b) >= 0)
					k = hash_join(k, hash_bytes(b.p, b.n));
			}
		}
	pthread_mutex_unlock(&h->cache_lock);
	arena_free(&a);
	return k;
}

/* Returns false if no image can be kept. */
static bool name_image(struct hone_handle *h, const struct origin *from, struct kept *k)
{
	struct buf text = {0};
	struct target t = h->target;
	char name[33], beside[4096];
	struct key given = {0};
	if (!(h->flags & HONE_KEEP_IMAGES) || !h->ncaches || !from->path)
		return false;
	const struct beside b = beside_of(h, from);
	k->image = (struct image){.target = h->target, .threads = b.threads, .level = b.level};
	if (beside_same(&b, &k->image.same) < 0)
		return false;
	t.cores = 1; /* a process with fewer cores uses the same image */
	target_text(&t, &text);
	buf_printf(&text, "\n%d %d\n%s", b.threads, b.level, from->path);
	if (h->flags & HONE_NEEDS_RECIPE) /* an image that was kept without this flag may be of floats */
		buf_puts(&text, "\nrecipe");
	for (int i = 0; i < from->opts.nbinds; i++)
		buf_printf(&text, "\n%s=%s", from->opts.binds[i].name, from->opts.binds[i].value);
	struct key key = hash_text(buf_str(&text));
	bool good = buf_ok(&text);
	buf_free(&text);
	key_text(key, name);
	snprintf(k->dir, sizeof k->dir, "%s/images", h->dir[0]);
	snprintf(k->path, sizeof k->path, "%s/%s.image", k->dir, name);
	/* An image that came beside the model since goes before this one. */
	const struct beside other = {beside, b.opts, b.threads, b.level};
	if (beside_path(b.model, beside, sizeof beside) && file_exists(beside))
		good = good && beside_same(&other, &given) >= 0;
	k->image.key = hash_caches(h, hash_join(hash_join(key, k->image.same), given));
	return good;
}

/* Best effort: a folder that cannot be written, or a plan that cannot be an image, is no error. */
static void keep_image(struct kept *k, const struct libhone_net *n, const struct buf *meta)
{
	if (!meta->n || n->g->external)
		return;
	int rc = file_mkdirs(k->dir, 0755);
	k->image.note = n->made_of;
	if (rc >= 0)
		rc = image_folder_check(k->path);
	if (rc >= 0)
		rc = image_write(k->path, &k->image, n->plan, meta);
	if (rc < 0)
		log_more("hone: the plan is not kept as an image: %s", err_text());
}

static bool any_code(struct hone_handle *h)
{
	struct arena a = {0};
	struct key *keys;
	int n = 0;
	pthread_mutex_lock(&h->cache_lock);
	for (int i = 0; i < h->ncaches && !n; i++)
		n = cache_keys(h->cache[i], CACHE_CODE, &a, &keys);
	pthread_mutex_unlock(&h->cache_lock);
	arena_free(&a);
	return n > 0;
}

/* If nothing is tuned and there are no fallback kernels for this processor, a model is made for an older one
 * that has some, with layouts for its vectors. */
static struct target choose_target(struct hone_handle *h)
{
	struct blob b;
	struct target t = h->target, older;
	const struct isa *i = isa_table;
	if (any_code(h) || fallback_archive(t.isa, &b) >= 0)
		return t;
	while (i->name)
		i++;
	while (i-- > isa_table) {
		if (target_baseline(i->name, &older) < 0 || !target_runs(&h->target, &older) ||
		    fallback_archive(i->name, &b) < 0)
			continue;
		isa_apply(i, &t);
		log_more("hone: using fallback kernels for %s", i->name);
		break;
	}
	return t;
}

static int divide(struct hone_handle *h, const struct target *t, struct libhone_net *n, struct choices *c,
		  struct steps **out)
{
	struct chosen_for f[MAX_CACHES];
	pthread_mutex_lock(&h->cache_lock);
	for (int i = 0; i < h->ncaches; i++)
		f[i] = chosen_of(h, n, i);
	int rc = chosen_divide(t, f, h->ncaches, n->g, &n->a, c, out);
	pthread_mutex_unlock(&h->cache_lock);
	return rc;
}

/* Without a recipe that fits, floats stay floats, or the load fails if the caller asked for that. */
static int quantise(struct hone_handle *h, struct libhone_net *n)
{
	pthread_mutex_lock(&h->cache_lock);
	int rc = recipe_use(h->cache, h->ncaches, hone_level(h), n->g, NULL);
	pthread_mutex_unlock(&h->cache_lock);
	if ((rc != E_NOTFOUND && rc != E_CORRUPT) || h->flags & HONE_NEEDS_RECIPE)
		return rc;
	log_more("hone: the model is not quantised: %s", err_text());
	return E_OK;
}

static int build(struct hone_handle *h, const struct origin *from, struct buf *meta, struct libhone_net *n)
{
	struct steps *s;
	struct choices c;
	struct finder f = {h, n};
	const struct kernel_source src = {.ctx = &f, .find = find, .device = n->device};
	const struct target t = n->device ? h->device_target : choose_target(h);
	int rc = import(from, &n->g);
	if (rc >= 0)
		rc = quantise(h, n);
	if (rc >= 0)
		rc = graph_optimize(n->g);
	if (rc >= 0)
		rc = load_choices(h, n, &c);
	if (rc >= 0)
		rc = divide(h, &t, n, &c, &s);
	if (rc < 0)
		return rc;
	n->made_of = image_note_begin(&c);
	return plan_build_described(n->g, s, &t, &src, h->pool, meta, &n->plan);
}

static void drop(struct libhone_net *n)
{
	plan_free(n->plan);
	net_device_close(n);
	if (n->g)
		graph_free(n->g);
	arena_free(&n->a);
	n->plan = NULL;
	n->g = NULL;
}

/* False: it is not on the device, and n->why says why. */
static bool build_there(struct hone_handle *h, const struct origin *from, struct libhone_net *n)
{
	int rc = net_device_open(h, n);
	if (rc >= 0)
		rc = build(h, from, NULL, n);
	if (rc >= 0 && !net_device_steps(n))
		rc = fail(E_NOTFOUND,
			  "no cache has a kernel of this model for %s; hone tune --device %s makes them",
			  h->device, h->device);
	if (rc >= 0)
		return true;
	snprintf(n->why, sizeof n->why, "%s", err_text());
	drop(n);
	return false;
}

/* Loads an image that the caller names: only its own kernels are used, else it is an error. */
static int load_compiled(struct hone_handle *h, const struct origin *from, const char *path,
			 struct libhone_net *n)
{
	struct image im;
	if (from->opts.nbinds)
		return fail(E_USAGE, "%s is compiled for one shape, so shapes cannot be given", from->path);
	int rc = image_read(path, NULL, &h->target, h->pool, &im, &n->plan);
	if (rc == E_NOTFOUND)
		return fail(rc, "%s is not a compiled model: hone compile MODEL -o %s makes one", from->path,
			    from->path);
	if (rc >= 0 && h->flags & HONE_EXACT && im.level != LEVEL_EXACT)
		return fail(E_USAGE, "%s was not compiled with --level exact, as HONE_EXACT asks for",
			    from->path);
	if (rc >= 0)
		n->made_of = im.note;
	n->compiled = true;
	return rc;
}

static bool load_beside(struct hone_handle *h, const struct origin *from, struct libhone_net *n)
{
	struct image im;
	char path[4096];
	const struct beside b = beside_of(h, from);
	if (!beside_path(b.model, path, sizeof path) || !file_exists(path))
		return false;
	int rc = beside_read(&b, &h->target, h->pool, &im, &n->plan);
	n->beside = rc >= 0;
	if (rc >= 0)
		n->made_of = im.note;
	else
		log_more("hone: %s", err_text());
	return rc >= 0;
}

static bool load_kept(struct hone_handle *h, const struct kept *k, struct libhone_net *n)
{
	struct image im;
	int rc = image_read(k->path, &k->image.key, &h->target, h->pool, &im, &n->plan);
	if (rc >= 0)
		n->made_of = im.note;
	else
		log_more("hone: %s", err_text());
	return rc >= 0;
}

/* Estimates the plan's cost by where its kernels come from, relative to tuned ones (1). */
static double cost(const struct plan *p)
{
	static const double times[] = {
	    [FROM_CACHE] = 1, [FROM_DEFAULT] = 2, [FROM_FALLBACK] = 4, [FROM_HOST] = 16};
	const struct plan_kernel *k;
	double all = 0, sum = 0;
	for (int i = 0, n = plan_kernels(p, &k); i < n; i++) {
		all += k[i].flops;
		sum += k[i].flops * times[k[i].origin];
	}
	return all > 0 ? sum / all : 1;
}

bool net_worse(const struct libhone_net *n, const struct libhone_net *old)
{
	return old->beside && cost(n->plan) > cost(old->plan) * (1 + 1e-9);
}

static int make(struct hone_handle *h, const struct origin *from, const struct libhone_net *old,
		struct libhone_net *n)
{
	char path[4096];
	struct kept k;
	struct buf meta = {0};
	if (from->path && image_find(from->path, path, sizeof path)) {
		n->from_image = true;
		snprintf(n->why, sizeof n->why, "a compiled model runs on the processor");
		return load_compiled(h, from, path, n);
	}
	if (device_is_on(h) && build_there(h, from, n))
		return E_OK;
	bool keeps = name_image(h, from, &k);
	n->from_image = (keeps && load_kept(h, &k, n)) || (from->path && !old && load_beside(h, from, n));
	if (n->from_image)
		return E_OK;
	int rc = build(h, from, keeps ? &meta : NULL, n);
	if (rc >= 0 && keeps && !(old && net_worse(n, old)))
		keep_image(&k, n, &meta);
	buf_free(&meta);
	return rc;
}

int net_make(struct hone_handle *h, const struct origin *from, const struct libhone_net *old,
	     struct libhone_net **out)
{
	struct libhone_net *n = calloc(1, sizeof *n);
	if (!n)
		return fail(E_NOMEM, "no memory for a model");
	pthread_mutex_lock(&h->cache_lock);
	n->news = h->news;
	pthread_mutex_unlock(&h->cache_lock);
	int rc = make(h, from, old, n);
	if (rc < 0) {
		net_free(n);
		return rc;
	}
	*out = n;
	return E_OK;
}

void net_free(struct libhone_net *n)
{
	if (!n)
		return;
	drop(n);
	free(n);
}
