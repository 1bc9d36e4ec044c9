/* SPDX-License-Identifier: Apache-2.0 */
/* OpenCL devices (platform/run/opencl.h), numbered as `hone devices` lists them. Every one that is opened has
 * a loader of its own, which is no cost: drivers stay loaded. */
#include "platform/run/dev.h"
#include "platform/run/opencl.h"

#include <stdlib.h>
#include <string.h>

struct dev_unit {
	struct opencl *loader;
	struct opencl_dev *dev;
};

/* The handles of opencl.h under the names of dev.h; no object of these types exists. */
static struct opencl_code *code_of(struct dev_code *c)
{
	return (struct opencl_code *)c;
}

static struct opencl_buf *buf_of(struct dev_mem *m)
{
	return (struct opencl_buf *)m;
}

static struct opencl_job *job_of(struct dev_launch *l)
{
	return (struct opencl_job *)l;
}

/* No driver is touched: one that crashes would take this process with it. */
static int probe(struct target *t)
{
	(void)t;
	return 0;
}

static void unit_close(struct dev_unit *u)
{
	if (!u)
		return;
	opencl_leave(u->dev);
	opencl_close(u->loader);
	free(u);
}

static int unit_open(int number, struct dev_unit **out)
{
	struct dev_unit *u = calloc(1, sizeof *u);
	if (!u)
		return fail(E_NOMEM, "no memory for a device");
	int rc = opencl_open(NULL, &u->loader);
	if (rc >= 0)
		rc = opencl_use(u->loader, number, &u->dev);
	if (rc < 0)
		unit_close(u);
	else
		*out = u;
	return rc;
}

static void limits(const struct dev_unit *u, struct dev_limits *out)
{
	const struct opencl_info *i = opencl_dev_info(u->dev);
	*out = (struct dev_limits){.memory_bytes = i->global_bytes,
				   .buffer_bytes = i->alloc_bytes,
				   .units = (int)(i->units < INT32_MAX ? i->units : INT32_MAX),
				   .unified = i->unified};
}

static void target(const struct dev_unit *u, struct target *t)
{
	opencl_target(opencl_dev_info(u->dev), t);
}

static int measure(struct dev_unit *u, struct target *t)
{
	return opencl_measure(u->dev, t);
}

static int load(struct dev_unit *u, const void *obj, size_t n, struct dev_code **out)
{
	struct opencl_code *c;
	int rc = opencl_load(u->dev, obj, n, &c);
	if (rc >= 0)
		*out = (struct dev_code *)c;
	return rc;
}

static int keep(struct dev_code *c, struct buf *object)
{
	return opencl_binary(code_of(c), object);
}

static int entry(struct dev_code *c, const char *symbol)
{
	return opencl_entry(code_of(c), symbol);
}

static void unload(struct dev_code *c)
{
	opencl_unload(code_of(c));
}

static int mem_alloc(struct dev_unit *u, int64_t bytes, struct dev_mem **out)
{
	struct opencl_buf *b;
	int rc = opencl_alloc(u->dev, bytes, &b);
	if (rc >= 0)
		*out = (struct dev_mem *)b;
	return rc;
}

static int mem_texture(struct dev_unit *u, bool halves, int64_t elems, struct dev_mem **out)
{
	struct opencl_buf *b;
	int rc = opencl_alloc_image(u->dev, halves, elems, &b);
	if (rc >= 0)
		*out = (struct dev_mem *)b;
	return rc;
}

static void mem_free(struct dev_mem *m)
{
	opencl_free(buf_of(m));
}

static int mem_write(struct dev_mem *m, int64_t at, const void *from, int64_t bytes)
{
	return opencl_write(buf_of(m), at, from, bytes);
}

static int mem_read(struct dev_mem *m, int64_t at, void *to, int64_t bytes)
{
	return opencl_read(buf_of(m), at, to, bytes);
}

static int mem_map(struct dev_mem *m, int64_t at, int64_t bytes, void **out)
{
	return opencl_map(buf_of(m), at, bytes, out);
}

static int mem_unmap(struct dev_mem *m)
{
	return opencl_unmap(buf_of(m));
}

static int prepare(struct dev_code *c, int number, const struct dev_work *w, struct dev_launch **out)
{
	struct opencl_spot spot[OPENCL_MAX_ARGS / 2];
	struct opencl_job *j;
	if (w->nbufs < 0 || w->nbufs > OPENCL_MAX_ARGS / 2)
		return fail(E_USAGE, "a launch with %d buffers", w->nbufs);
	for (int i = 0; i < w->nbufs; i++)
		spot[i] = (struct opencl_spot){buf_of(w->buf[i].mem), w->buf[i].at};
	const struct opencl_launch at = {.spot = spot,
					 .nspots = w->nbufs,
					 .param = w->param,
					 .nparams = w->nparams,
					 .begin = w->begin,
					 .end = w->end,
					 .at_once = w->at_once};
	int rc = opencl_prepare(code_of(c), number, &at, &j);
	if (rc >= 0)
		*out = (struct dev_launch *)j;
	return rc;
}

static void drop(struct dev_launch *l)
{
	opencl_drop(job_of(l));
}

static int start(struct dev_launch *l)
{
	return opencl_start(job_of(l));
}

static int wait_for(struct dev_unit *u, int64_t deadline_ns)
{
	return opencl_wait(u->dev, &clock_real, deadline_ns);
}

static struct clock *dev_clock(void)
{
	return &clock_real;
}

static const struct dev_own own = {.open = unit_open,
				   .close = unit_close,
				   .limits = limits,
				   .target = target,
				   .measure = measure,
				   .load = load,
				   .keep = keep,
				   .alloc = mem_alloc,
				   .texture = mem_texture,
				   .free = mem_free,
				   .write = mem_write,
				   .read = mem_read,
				   .map = mem_map,
				   .unmap = mem_unmap,
				   .prepare = prepare,
				   .drop = drop,
				   .start = start,
				   .wait = wait_for};

const struct dev dev_opencl = {.name = "opencl",
			       .emitter = "opencl",
			       .risky = true,
			       .probe = probe,
			       .entry = entry,
			       .unload = unload,
			       .own = &own,
			       .clock = dev_clock};
