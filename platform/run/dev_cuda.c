/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA devices (platform/run/cuda.h), numbered as `hone devices` lists them. Each open reads the list of
 * devices anew, which is cheap, because the driver stays loaded. */
#include "platform/run/dev.h"
#include "platform/base/log.h"
#include "platform/run/cuda.h"

#include <stdlib.h>
#include <string.h>

struct dev_unit {
	struct cuda *driver;
	struct cuda_dev *dev;
};

/* The handles of cuda.h under the names of dev.h; no object of these types exists. */
static struct cuda_code *code_of(struct dev_code *c)
{
	return (struct cuda_code *)c;
}

static struct cuda_buf *buf_of(struct dev_mem *m)
{
	return (struct cuda_buf *)m;
}

static struct cuda_job *job_of(struct dev_launch *l)
{
	return (struct cuda_job *)l;
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
	cuda_leave(u->dev);
	cuda_close(u->driver);
	free(u);
}

static int unit_open(int number, struct dev_unit **out)
{
	struct dev_unit *u = calloc(1, sizeof *u);
	if (!u)
		return fail(E_NOMEM, "no memory for a device");
	int rc = cuda_open(NULL, &u->driver);
	if (rc >= 0)
		rc = cuda_use(u->driver, number, &u->dev);
	if (rc < 0)
		unit_close(u);
	else
		*out = u;
	return rc;
}

static void limits(const struct dev_unit *u, struct dev_limits *out)
{
	const struct cuda_info *i = cuda_dev_info(u->dev);
	*out = (struct dev_limits){.memory_bytes = i->global_bytes,
				   .buffer_bytes = i->global_bytes,
				   .units = (int)(i->units < INT32_MAX ? i->units : INT32_MAX),
				   .unified = cuda_shares(i)};
	memcpy(out->uuid, i->uuid, sizeof out->uuid);
}

static void target(const struct dev_unit *u, struct target *t)
{
	cuda_target(cuda_dev_info(u->dev), t);
}

static int measure(struct dev_unit *u, struct target *t)
{
	return cuda_measure(u->dev, t);
}

static int load(struct dev_unit *u, const void *obj, size_t n, struct dev_code **out)
{
	struct cuda_code *c;
	int rc = cuda_load(u->dev, obj, n, &c);
	if (rc >= 0)
		*out = (struct dev_code *)c;
	return rc;
}

static int keep(struct dev_code *c, struct buf *object)
{
	return cuda_binary(code_of(c), object);
}

static int entry(struct dev_code *c, const char *symbol)
{
	struct cuda_made made;
	int n = cuda_entry(code_of(c), symbol);
	if (n >= 0 && cuda_made(code_of(c), n, &made) >= 0 && made.local_bytes)
		log_more("entry %s has spilled %lld bytes of registers for each thread, and is slow", symbol,
			 (long long)made.local_bytes);
	return n;
}

static void unload(struct dev_code *c)
{
	cuda_unload(code_of(c));
}

static int mem_alloc(struct dev_unit *u, int64_t bytes, struct dev_mem **out)
{
	struct cuda_buf *b;
	int rc = cuda_alloc(u->dev, bytes, &b);
	if (rc >= 0)
		*out = (struct dev_mem *)b;
	return rc;
}

static void mem_free(struct dev_mem *m)
{
	cuda_free(buf_of(m));
}

static int mem_write(struct dev_mem *m, int64_t at, const void *from, int64_t bytes)
{
	return cuda_write(buf_of(m), at, from, bytes);
}

static int mem_read(struct dev_mem *m, int64_t at, void *to, int64_t bytes)
{
	return cuda_read(buf_of(m), at, to, bytes);
}

static int mem_map(struct dev_mem *m, int64_t at, int64_t bytes, void **out)
{
	return cuda_map(buf_of(m), at, bytes, out);
}

static int mem_unmap(struct dev_mem *m)
{
	return cuda_unmap(buf_of(m));
}

static int prepare(struct dev_code *c, int number, const struct dev_work *w, struct dev_launch **out)
{
	struct cuda_spot spot[CUDA_MAX_ARGS];
	struct cuda_job *j;
	if (w->nbufs < 0 || w->nbufs > CUDA_MAX_ARGS)
		return fail(E_USAGE, "a launch with %d buffers", w->nbufs);
	for (int i = 0; i < w->nbufs; i++)
		spot[i] = (struct cuda_spot){buf_of(w->buf[i].mem), w->buf[i].at};
	const struct cuda_launch at = {.spot = spot,
				       .nspots = w->nbufs,
				       .param = w->param,
				       .nparams = w->nparams,
				       .begin = w->begin,
				       .end = w->end,
				       .at_once = w->at_once};
	int rc = cuda_prepare(code_of(c), number, &at, &j);
	if (rc >= 0)
		*out = (struct dev_launch *)j;
	return rc;
}

static void drop(struct dev_launch *l)
{
	cuda_drop(job_of(l));
}

static int start(struct dev_launch *l)
{
	return cuda_start(job_of(l));
}

static int record(struct dev_unit *u, struct dev_launch *const *l, int n, struct dev_launch **out)
{
	struct cuda_job *j;
	int rc = cuda_record(u->dev, (struct cuda_job *const *)l, n, &j);
	if (rc >= 0)
		*out = (struct dev_launch *)j;
	return rc;
}

static int wait_for(struct dev_unit *u, int64_t deadline_ns)
{
	return cuda_wait(u->dev, &clock_real, deadline_ns);
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
				   .free = mem_free,
				   .write = mem_write,
				   .read = mem_read,
				   .map = mem_map,
				   .unmap = mem_unmap,
				   .prepare = prepare,
				   .drop = drop,
				   .start = start,
				   .record = record,
				   .wait = wait_for};

const struct dev dev_cuda = {.name = "cuda",
			     .emitter = "ptx",
			     .risky = true,
			     .probe = probe,
			     .entry = entry,
			     .unload = unload,
			     .own = &own,
			     .clock = dev_clock};
