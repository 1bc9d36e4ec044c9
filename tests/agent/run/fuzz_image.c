/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as an image with correct checksums: the result is an error, or a plan, which is run unless
 * it has machine code (whose bytes are trusted). A run must not touch anything beyond its memory or the
 * caller's tensors. */
#include "agent/run/host_parts.h"
#include "agent/run/image.h"
#include "agent/run/plan_parts.h"
#include "platform/base/file.h"
#include "tests/lib/pages_malloc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *p, size_t n, size_t most);

enum { META = 56, WEIGHTS = 64, SUM = 72, LABEL = 76, HEAD = 80, ALIGN = 4096 };

static uint64_t number(const uint8_t *p, int bytes)
{
	uint64_t v = 0;
	memcpy(&v, p, (size_t)bytes);
	return v;
}

/* Corrects the checksums, and limits each memory size of the description to 256 KiB. */
static void mend(uint8_t *p, size_t n)
{
	uint64_t meta = number(p + META, 8), label = number(p + LABEL, 4),
		 end = (meta + label + HEAD + ALIGN - 1) / ALIGN * ALIGN;
	memcpy(p, "HIM7", 4);
	if (meta > n || label > n || end > n)
		return;
	for (size_t at = HEAD + label; at + 8 <= end && at < HEAD + label + 40; at += 8) {
		p[at + 2] &= 3;
		memset(p + at + 3, 0, 5);
	}
	uint64_t weights = n - end;
	memcpy(p + WEIGHTS, &weights, 8);
	uint32_t sum = crc32c(0, p + end, n - end);
	memcpy(p + SUM, &sum, 4);
	sum = crc32c(0, p + 8, end - 8);
	memcpy(p + 4, &sum, 4);
}

/* Every other time changes a number of the description by a little, so that an offset or size just fits, or
 * just does not. */
size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t most, unsigned seed)
{
	static const int32_t by[] = {1, -1, 4, -4, 64, -64, 256, -256};
	if (seed % 2 || n < HEAD)
		return LLVMFuzzerMutate(p, n, most);
	uint64_t meta = number(p + META, 8), label = number(p + LABEL, 4);
	if (meta > n || label > n || meta + label + HEAD > n || meta < 4)
		return LLVMFuzzerMutate(p, n, most);
	uint8_t *at = p + HEAD + label + seed / 32 % (meta - 3);
	uint32_t v = (uint32_t)number(at, 4) + (uint32_t)by[seed / 2 % 8];
	v = seed / 16 % 2 ? v : (uint32_t)number(at, 4) << 1;
	memcpy(at, &v, 4);
	return n;
}

enum { MOST_POINTS = 1 << 16, MOST_BYTES = 16 << 20 };

/* Counts the points of a task in portable C. */
static double points(const struct host_task *h)
{
	double sum = 0;
	for (int k = 0; h && k < host_entries(h); k++) {
		double all = 1;
		for (int a = 0; a < h->t->stage[k].naxes; a++)
			all *= (double)h->t->stage[k].axis[a].extent;
		sum += all;
	}
	return sum;
}

/* Returns whether to skip the plan: it has machine code, or so much work that the fuzzer would wait. */
static bool is_left_out(const struct plan *p)
{
	double sum = 0;
	bool code = p->ncodes > 0;
	for (int i = 0; i < p->nsteps; i++) {
		const struct pstep *s = &p->step[i];
		double in = 1, out = 1;
		code |= s->code != NULL;
		sum += points(s->host) + points(s->tail);
		for (int k = 0; s->step->kind == STEP_HOST && k < s->ctx.nin; k++)
			in += (double)shape_count(&s->ctx.in[k].shape);
		for (int k = 0; s->step->kind == STEP_HOST && k < s->ctx.nout; k++)
			out += (double)shape_count(&s->ctx.out[k].shape);
		sum += in * out;
	}
	return code || sum > MOST_POINTS * 16.0;
}

/* Allocates each of the caller's tensors apart, so that a read past one is detected. */
static bool make_tensors(const struct graph *g, int n, const int *value, struct tensor **out)
{
	bool good = true;
	*out = calloc((size_t)n + 1, sizeof **out);
	for (int i = 0; i < n && *out; i++) {
		struct tensor *t = &(*out)[i];
		*t = g->value[value[i]].t;
		size_t bytes = (size_t)shape_count(&t->shape) * dtype_bytes(t->dtype);
		t->data = bytes <= MOST_BYTES ? malloc(bytes ? bytes : 1) : NULL;
		good &= t->data != NULL;
		if (t->data)
			memset(t->data, 1, bytes);
	}
	return good && *out;
}

static void free_tensors(struct tensor *t, int n)
{
	for (int i = 0; i < n && t; i++)
		free(t[i].data);
	free(t);
}

static void run(struct plan *p)
{
	const struct graph *g = plan_graph(p);
	struct tensor *in, *out = NULL;
	if (make_tensors(g, g->ninputs, g->input, &in) && make_tensors(g, g->noutputs, g->output, &out))
		for (int i = 0; i < 2; i++) /* the second run meets the first one's leftovers */
			(void)!plan_run(p, in, out);
	free_tensors(in, g->ninputs);
	free_tensors(out, g->noutputs);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static char path[64];
	static struct target here;
	struct image im;
	struct plan *plan;
	uint8_t *p = n >= HEAD ? malloc(n) : NULL;
	if (!p || (!here.lanes && target_host(&here) < 0))
		return 0;
	memcpy(p, bytes, n);
	mend(p, n);
	if (!path[0])
		snprintf(path, sizeof path, "%s/hone-fuzz-image-%d",
			 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	bool written = fd >= 0 && write(fd, p, n) == (ssize_t)n;
	if (fd >= 0)
		close(fd);
	free(p);
	if (written && image_read(path, NULL, &here, NULL, &im, &plan) >= 0) {
		if (!is_left_out(plan))
			run(plan);
		plan_free(plan);
	}
	unlink(path);
	return 0;
}
