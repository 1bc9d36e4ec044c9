/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/libhone.h"
#include "platform/base/shell.h"

#include <stdio.h>
#include <string.h>

int hone_inputs(const struct hone_model *m)
{
	return m->nin;
}

int hone_outputs(const struct hone_model *m)
{
	return m->nout;
}

static int tensor_at(const struct hone_tensor *t, int n, const char *kind, int index, struct hone_tensor *out)
{
	if (index < 0 || index >= n)
		return fail(E_USAGE, "no %s %d: the model has %d", kind, index, n);
	return hone_copy_out(out, &t[index], sizeof *out, offsetof(struct hone_tensor, name));
}

int hone_input(const struct hone_model *m, int index, struct hone_tensor *out)
{
	return tensor_at(m->in_info, m->nin, "input", index, out);
}

int hone_output(const struct hone_model *m, int index, struct hone_tensor *out)
{
	return tensor_at(m->out_info, m->nout, "output", index, out);
}

static int by_name(const struct hone_tensor *t, int n, const char *kind, const char *name)
{
	struct buf names = {0};
	for (int i = 0; i < n; i++) {
		if (name && !strcmp(t[i].name, name))
			return i;
		buf_printf(&names, "%s%.200s", i ? ", " : "", t[i].name);
	}
	int rc =
	    fail(E_NOTFOUND, "no %s '%.200s'; the model has: %s", kind, name ? name : "", buf_str(&names));
	buf_free(&names);
	return rc;
}

int hone_find_input(const struct hone_model *m, const char *name)
{
	return by_name(m->in_info, m->nin, "input", name);
}

int hone_find_output(const struct hone_model *m, const char *name)
{
	return by_name(m->out_info, m->nout, "output", name);
}

static const char *const origins[] = {[FROM_CACHE] = "tuned",
				      [FROM_DEFAULT] = "default",
				      [FROM_FALLBACK] = "fallback",
				      [FROM_HOST] = "portable"};
_Static_assert((int)HONE_TUNED == (int)FROM_CACHE && (int)HONE_DEFAULT == (int)FROM_DEFAULT &&
		   (int)HONE_FALLBACK == (int)FROM_FALLBACK && (int)HONE_PORTABLE == (int)FROM_HOST,
	       "enum hone_origin is enum kernel_origin");

const char *hone_origin_name(int origin)
{
	return origin >= 0 && origin <= HONE_PORTABLE ? origins[origin] : NULL;
}

/* The net cannot be replaced while `now` is held. Queries take a const model: the lock is not part of its
 * value. */
static pthread_mutex_t *lock_net(const struct hone_model *m)
{
	pthread_mutex_t *lock;
	const pthread_mutex_t *now = &m->now;
	memcpy(&lock, &now, sizeof lock);
	pthread_mutex_lock(lock);
	return lock;
}

static int origin_of(const struct plan_kernel *k)
{
	return (int)kernel_origin_kind(k->origin, k->at_default);
}

int hone_kernels(const struct hone_model *m)
{
	const struct plan_kernel *k;
	pthread_mutex_t *lock = lock_net(m);
	int n = plan_kernels(m->net->plan, &k);
	pthread_mutex_unlock(lock);
	return n;
}

int hone_kernel(const struct hone_model *m, int index, struct hone_kernel_info *out)
{
	const struct plan_kernel *k;
	struct hone_kernel_info one = {0};
	pthread_mutex_t *lock = lock_net(m);
	int n = plan_kernels(m->net->plan, &k);
	if (index >= 0 && index < n) {
		k += index;
		one.origin = origin_of(k);
		snprintf(one.name, sizeof one.name, "%s", k->name ? k->name : "");
		snprintf(one.what, sizeof one.what, "%s", k->label ? k->label : "");
		one.flops = k->flops;
		one.bytes = k->bytes;
	}
	pthread_mutex_unlock(lock);
	if (index < 0 || index >= n)
		return fail(E_USAGE, "no kernel %d: the model has %d now", index, n);
	return hone_copy_out(out, &one, sizeof one, offsetof(struct hone_kernel_info, origin));
}

/* Counts kernels. A step without a task cannot be tuned and has no flops. */
static void count_kernels(const struct libhone_net *n, struct hone_model_info *s, bool *missing)
{
	const struct plan_kernel *k;
	for (int i = 0, count = plan_kernels(n->plan, &k); i < count; i++) {
		s->kernels[origin_of(&k[i])]++;
		s->at_default += k[i].at_default;
		*missing |= k[i].origin != FROM_CACHE && k[i].flops > 0;
	}
}

static void describe_remedy(const struct hone_model *m, bool compiled, struct buf *b)
{
	const struct hone_handle *h = m->h;
	if (compiled) {
		buf_puts(b, "run hone tune on the model that it was compiled from, then hone compile");
		return;
	}
	if (m->from.path) {
		buf_puts(b, "hone tune ");
		shell_path(b, m->from.path);
	} else {
		buf_printf(b, "write the %s to a file F, then: hone tune F",
			   m->from.want ? "kernel (hone_kernel_write)" : "model");
	}
	if (h->device[0])
		buf_printf(b, " --device %s", h->device);
	else
		buf_printf(b, " --threads %d", h->threads);
	if (!h->device[0] && topo_cluster_of(h->cluster))
		buf_printf(b, " --device %s", h->cluster);
	if (h->ncaches) {
		buf_puts(b, " --cache ");
		shell_path(b, h->dir[0]);
	}
	if (hone_level(h) != LEVEL_FP32)
		buf_printf(b, " --level %s", level_name((int)hone_level(h)));
	for (int i = 0; i < m->from.opts.nbinds; i++) {
		buf_puts(b, " --shape ");
		shell_word(b, m->from.opts.binds[i].name);
		buf_puts(b, "=");
		shell_word(b, m->from.opts.binds[i].value);
	}
}

/* Adds the command that would help; adds none rather than an incomplete one. */
static void add_remedy(const struct hone_model *m, bool compiled, struct hone_model_info *s)
{
	struct buf b = {0};
	describe_remedy(m, compiled, &b);
	if (buf_ok(&b) && b.n < sizeof s->remedy)
		memcpy(s->remedy, buf_str(&b), b.n + 1);
	else
		snprintf(
		    s->remedy, sizeof s->remedy,
		    "run hone tune with the model's file, --cache of the first cache folder and --threads %d",
		    m->h->threads);
	buf_free(&b);
}

/* `now` is held. */
static const char *device_of(const struct hone_model *m)
{
	return m->net->device ? m->h->device : "cpu";
}

const char *hone_device(const struct hone_model *m)
{
	pthread_mutex_t *lock = lock_net(m);
	const char *name = device_of(m);
	pthread_mutex_unlock(lock);
	return name;
}

/* `now` is held. */
static void add_device(const struct hone_model *m, struct hone_model_info *s)
{
	const struct hone_handle *h = m->h;
	const struct libhone_net *n = m->net;
	snprintf(s->device, sizeof s->device, "%s", device_of(m));
	s->on_device = net_device_steps(n);
	/* A net without a reason of its own was made when the handle had one, which stays. */
	if (h->device[0] && !n->device)
		snprintf(s->device_why, sizeof s->device_why, "%s", n->why[0] ? n->why : h->device_why);
}

int hone_summary(const struct hone_model *m, struct hone_model_info *out)
{
	struct hone_model_info s = {.threads = m->h->threads, .load_us = m->load_ns / 1000};
	const struct target *t = &m->h->target;
	bool missing = false, compiled;
	pthread_mutex_t *lock = lock_net(m);
	struct plan_memory mem = plan_memory(m->net->plan);
	count_kernels(m->net, &s, &missing);
	s.refreshed = m->refreshed;
	s.from_image = m->net->from_image;
	compiled = m->net->compiled;
	add_device(m, &s);
	pthread_mutex_unlock(lock);
	s.weight_bytes = mem.weights_bytes;
	s.tensor_bytes = mem.values_bytes;
	snprintf(s.target, sizeof s.target, "%s %s %s", t->isa, t->cpu, t->soc);
	if (missing)
		add_remedy(m, compiled, &s);
	return hone_copy_out(out, &s, sizeof s, offsetof(struct hone_model_info, kernels));
}
