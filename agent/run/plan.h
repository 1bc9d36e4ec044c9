/* SPDX-License-Identifier: Apache-2.0 */
/* A plan: a model ready to run. Kernels in order, arena map with dead tensors reused, packed weights, halos
 * kept filled.
 *
 * The source gives the code of each kernel: from a cache, or made now by a worker. If it has none, the plan
 * takes a fallback kernel (agent/run/fallback.h), else portable C (agent/run/host.h). The plan loads code on
 * the CPU device and never compiles. plan_run never allocates for kernel steps. Caller tensors
 * are plain row-major f32 (or the model's dtype) with natural alignment; inputs that kernels alone read are
 * not copied, so they stay as they are until the run ends. One plan runs one inference at a time; the graph
 * must outlive the plan. */
#ifndef AGENT_PLAN_H
#define AGENT_PLAN_H

#include "kernels/loops/code.h"
#include "kernels/group/group.h"
#include "platform/run/pool.h"

#include <stdatomic.h>

enum kernel_origin {
	FROM_CACHE,    /* the best schedule of the cache's record */
	FROM_DEFAULT,  /* the default schedule: from the cache, or compiled now */
	FROM_FALLBACK, /* made during the build, for any size */
	FROM_HOST,     /* portable C: no machine code was found, or the node has no task */
};

/* Why a kernel runs on the processor, though the source's code is for a device. */
enum kernel_why {
	WHY_NOT,       /* it runs on the device, or there is none */
	WHY_OPERATOR,  /* kernels of the operator do not exist */
	WHY_BYTES,     /* the node works on bytes, and has not become a task */
	WHY_NO_KERNEL, /* the source has none */
	WHY_UNFIT,     /* the source's code does not load, or does not fit */
	WHY_FAILED,    /* of a box: no schedule of the task works on the device */
	WHY_NO_TURN,   /* of a box: it ended before a kernel of the task was kept */
	WHYS
};

/* Gives code for a task (out->own set before: none of a library) and says in *origin where it is from:
 * FROM_CACHE or FROM_DEFAULT. E_NOTFOUND: none; the plan then looks for a fallback kernel. */
struct kernel_source {
	void *ctx;
	int (*find)(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		    enum kernel_origin *origin);
	/* The code runs there (agent/run/plan_device.h); NULL: on the processor. */
	struct plan_device *device;
};

struct plan;
struct plan_device;
struct trace; /* agent/run/trace.h */

/* A kernel runs in the caller's thread alone if one core's roofline is shorter, or that of the whole network
 * (plan.c says why). */
enum { PLAN_ALONE_NS = 400, PLAN_WAKE_NS = 30000 };

struct plan_kernel {
	int step;         /* index among the steps that the plan was made from */
	const char *name; /* anchor node */
	/* task_label, and behind it " F(4,3)" for Winograd, " w16" for weights in f16 and " bf16" or
	 * " f16" for products of these. Flops and bytes are those of this form. */
	const char *label;
	bool w16;
	bool library;     /* a library's, whose name is in the label */
	enum dtype pairs; /* f16 or bf16, which it multiplies; f32: TF32; DT_NONE: none */
	enum kernel_origin origin;
	bool at_default; /* FROM_CACHE, and the best schedule there is the default one */
	enum kernel_why why;
	double flops, bytes;
	double roofline_ns; /* on the plan's target, one core; 0: unknown */
	bool alone;         /* it runs in the caller's thread, as it has little work */
	int64_t ns;         /* time of the last timed run */
};

/* Returns the kind of a kernel, as tables and JSON print it: a kernel of the cache counts as tuned only if
 * tuning found a better schedule than the default one. */
static inline enum kernel_origin kernel_origin_kind(enum kernel_origin origin, bool at_default)
{
	return at_default ? FROM_DEFAULT : origin;
}

/* The time that one core needs at its measured peaks: for the flops, or for the bytes if that is longer. Of
 * the bytes, `moved` are activations, held by the smallest cache that they fit in; the rest are constants,
 * which are read from memory. 0: a peak is not known. */
double plan_roofline_ns(const struct target *t, double flops, double bytes, double moved);
/* take: once the graph's constants are packed, their memory goes back to the system; the graph then serves
 * this plan only. */
int plan_build_take(struct graph *g, const struct steps *s, const struct target *t,
		    const struct kernel_source *src, struct pool *pool, struct plan **out) MUST_CHECK;
/* As plan_build_take; *image gets the description of an image (agent/run/image.h). */
int plan_build_described(struct graph *g, const struct steps *s, const struct target *t,
			 const struct kernel_source *src, struct pool *pool, struct buf *image,
			 struct plan **out) MUST_CHECK;
/* As plan_build_take, but keeps what the plan was built from, so that plan_c_write (agent/bundle/plan_c.h)
 * can write it as C. */
int plan_build_whole(struct graph *g, const struct steps *s, const struct target *t,
		     const struct kernel_source *src, struct pool *pool, struct plan **out) MUST_CHECK;
/* Builds a plan within the thread's limit (platform/base/until.h). Of a fused step and its parts, the fused
 * step runs if src has a kernel for it, else the parts run. */
int plan_build(struct graph *g, const struct steps *s, const struct target *t,
	       const struct kernel_source *src, struct pool *pool, struct plan **out) MUST_CHECK;
/* As plan_build, but constants that `beside` (of the same graph, built so too; NULL: none) has in the same
 * form are used where they lie, instead of being packed once more. `beside` must outlive this plan. */
int plan_build_beside(struct graph *g, const struct steps *s, const struct target *t,
		      const struct kernel_source *src, struct pool *pool, const struct plan *beside,
		      struct plan **out) MUST_CHECK;
int plan_run(struct plan *p, const struct tensor *inputs,
	     struct tensor *outputs /* data of the caller, apart from all inputs */) MUST_CHECK;
/* The address at which the plan itself has an input or output in the caller's form, on a device: a run with
 * that address copies nothing. Valid until the next run begins, with what the last run left there. NULL:
 * there is none. */
void *plan_in_place(struct plan *p, bool output, int index);
/* As plan_run, with every kernel timed on `clock`. */
int plan_run_timed(struct plan *p, const struct tensor *inputs, struct tensor *outputs,
		   struct clock *clock) MUST_CHECK;
/* Runs from now on end with E_TIMEOUT, outputs undefined, after the first step that ends past deadline_ns of
 * `clock`. */
void plan_deadline(struct plan *p, struct clock *clock, int64_t deadline_ns);
/* Runs from now on end with E_STOPPED, outputs undefined, after the step during which *stop becomes true;
 * NULL: no more. */
void plan_stop_on(struct plan *p, const atomic_bool *stop);
/* Runs from now on record in `t` (made for at least the pool's threads) what each thread does; NULL: stop
 * recording. Not kept beyond the plan. If the plan has a device, `t` has one lane more, the last one, for the
 * device's copies and launches; each launch is then waited for. */
void plan_trace(struct plan *p, struct trace *t);
/* The plan's graph; it has at least the inputs and outputs. */
const struct graph *plan_graph(const struct plan *p);
int plan_kernels(const struct plan *p, const struct plan_kernel **out); /* count */
/* For profilers: calls fn with the address of the machine code of every compiled kernel's entries. */
void plan_symbols(const struct plan *p,
		  void (*fn)(void *ctx, const struct plan_kernel *k, int entry, const void *at, size_t bytes),
		  void *ctx);
/* For verify: as plan_build, but no memory is reused, so that every step value (struct steps) can be read
 * after a run. */
int plan_build_kept(struct graph *g, const struct steps *s, const struct target *t,
		    const struct kernel_source *src, struct pool *pool, struct plan **out) MUST_CHECK;
/* A copy of a step value as the last run left it, unpacked to plain row-major. A value inside
 * of a fused kernel is not there. */
int plan_value(const struct plan *p, int step_value, struct arena *a, struct tensor *out) MUST_CHECK;
struct plan_memory {
	size_t values_bytes;  /* the arena of all values */
	size_t live_bytes;    /* largest sum of values alive at once: no arena is smaller */
	size_t weights_bytes; /* packed weights, also those of a plan beside */
	size_t scratch_bytes; /* of all threads, and temporaries of the portable path */
};
struct plan_memory plan_memory(const struct plan *p);
bool plan_is_alone(const struct plan *p); /* all of it runs in the caller's thread, as it has little work */
size_t plan_bytes(const struct plan *p); /* arena + packed weights */
void plan_free(struct plan *p);

#endif
