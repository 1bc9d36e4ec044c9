/* SPDX-License-Identifier: Apache-2.0 */
/* The plan's own structures, shared by plan.c (building in order, running) and its parts plan_*.c only. */
#ifndef AGENT_PLAN_PARTS_H
#define AGENT_PLAN_PARTS_H

#include "agent/run/fallback.h"
#include "agent/run/host.h"
#include "agent/run/plan.h"
#include "agent/run/window.h"
#include "kernels/graph/op.h"
#include "platform/run/dev.h"
#include "platform/base/pages.h"

struct place { /* where a step value lies */
	char *p;
	int parent;     /* the value that a view or a part lies in; -1: none */
	int64_t at;     /* element of the parent that it begins at */
	int root;       /* the value whose memory it is: of views, and of what is written over another */
	int64_t offset; /* in elements of that */
	int64_t elems;  /* of roots: the most that layouts or kernels ask for */
	int lifetime;   /* index, -1: not in the arena */
	struct segment *halo; /* of values with halos */
	int nhalo;
	bool refill; /* shares bytes with others: halo is set again before each writing */
	bool given;  /* an input that kernels read where the caller has it */
};

struct given { /* an address that kernels are called with, set by each run */
	void **at;
	int input;
};

struct part { /* of a Concat or Split */
	struct window w;
	int64_t bytes; /* 0: absent */
	bool there;    /* lies inside of the whole: nothing to copy */
};

struct entry_run { /* one entry of a kernel, ready to call */
	int entry;
	int64_t extent;
};

struct pstep {
	const struct step *step;
	int kernel;                        /* index in plan.kernel, -1 */
	bool alone;                        /* too little work for more than one thread */
	int nrefill, refill[MAX_OPERANDS]; /* values whose halos its task sets again */
	enum kernel_origin origin;
	/* A compiled kernel. */
	struct dev_code *code;
	int nentries;
	struct entry_run entry[LOOPS_MAX_ENTRIES];
	int nbufs;
	void *buf[CODE_MAX_BUFS];
	int64_t param[LOOPS_MAX_PARAMS];
	struct code *found; /* until built; its object only for images and whole plans */
	int object;         /* of the objects of an image */
	/* A fallback kernel: code covers the core, the portable path the rest, in place. Of both, until
	 * built, the operands as they are held, and which of the step's they are. */
	int ncore, nrest;
	const struct operand *core, *rest;
	int core_of[MAX_OPERANDS], rest_of[MAX_OPERANDS];
	struct host_task *tail;
	const struct task *tail_task;
	void *tail_buf[MAX_OPERANDS];
	/* The portable path. */
	struct host_task *host;
	const struct operand *packed; /* until built */
	/* A node run by its eval, or Concat and Split: a window per part. */
	struct opctx ctx;
	struct part *part; /* NULL: its eval */
	int nparts;
};

struct plan {
	struct arena a;       /* all but the tensors */
	struct arena scratch; /* of one host node */
	struct arena making;  /* until built, or as long as a whole one */
	struct arena trial;   /* while one kernel is looked for */
	const struct graph *g;
	const struct steps *s;
	struct pool *pool;
	const struct dev *dev;
	int nsteps; /* those that run: of a fused step and its parts, one or the others */
	struct pstep *step;
	struct place *place; /* per step value */
	struct pages memory, weights, threads;
	size_t memory_bytes, weight_bytes, thread_bytes, scratch_bytes;
	int64_t live_bytes;  /* of values, at the worst moment */
	bool alone;          /* and so is every step */
	bool keep;           /* no memory is reused */
	bool take;           /* constants of the graph are given back */
	bool whole;          /* what is only for building stays */
	struct buf *image;   /* until built: what describes it; NULL: nobody asks */
	int *readers;        /* take, until built: per graph value, kernels that have not packed it yet */
	struct clock *clock; /* NULL: runs have no deadline */
	int64_t deadline_ns;
	const atomic_bool *stop; /* NULL: runs to the end */
	struct trace *trace;     /* NULL: not traced */
	int nkernels;
	struct plan_kernel *kernel;
	int ncodes; /* of an image, whose steps share them; else each step has its own */
	struct dev_code **codes;
	struct operand *in, *out; /* plain, as the caller has them */
	struct window *copy_in, *copy_out;
	int ngiven;
	struct given *given;
};

/* plan_find.c: what runs each step, from src, the fallback archives or the portable path. */
int plan_find(struct plan *p, const struct target *t, const struct kernel_source *src) MUST_CHECK;

/* plan_image.c: what a built plan is, before what it was built of is gone. */
enum image_region { NOWHERE, IN_MEMORY, IN_WEIGHTS, IN_TEMPORARY, GIVEN, IMAGE_REGIONS };
enum image_step { IMAGE_CODE, IMAGE_PORTABLE, IMAGE_NODE, IMAGE_STEPS };
/* Where the operand whose address is held at `at` lies, and the byte there; of GIVEN the input's number. */
enum image_region plan_region(const struct plan *p, void *const *at, int64_t *offset);
void plan_describe(struct plan *p, struct buf *out);
/* plan_restore.c: a plan of that, whose weights are still zero. Any bytes are an error at most, and what such
 * a plan runs stays inside of its memory once plan_check is content with it too; machine code is trusted. */
int plan_restore(const void *meta, size_t n, struct pool *pool, struct plan **out) MUST_CHECK;
/* plan_check.c: every node that its operator evaluates has the outputs that the operator infers of its
 * inputs, by the constants that are among the weights by now. E_CORRUPT, E_NOMEM. */
int plan_check(struct plan *p) MUST_CHECK;
/* Takes what plan_check looks at from the weights of a plan whose memory is laid out alike. */
void plan_copy_constants(const struct plan *from, struct plan *to);

/* plan_views.c: which values lie inside others. */
void plan_views(struct plan *p);

/* plan_place.c: memory for all that the kernels touch, packed constants, and every address that they are
 * called with. */
int plan_place(struct plan *p) MUST_CHECK;
/* plan_take.c: what nothing reads is given back at the beginning, a value when the last of its readers has
 * packed it. */
int plan_take_begin(struct plan *p) MUST_CHECK;
void plan_take_packed(struct plan *p, int value);
/* Segments [begin, end) of extent equal parts of a value's halo. */
void plan_set_halo(const struct plan *p, int v, int64_t begin, int64_t end, int64_t extent);

/* plan_copy.c: what is copied rather than computed. */
int plan_copies(struct plan *p) MUST_CHECK; /* made ready when all is placed */
int plan_copy_in(struct plan *p, const struct tensor *inputs) MUST_CHECK;
int plan_copy_out(struct plan *p, struct tensor *outputs) MUST_CHECK;
void plan_copy_parts(struct plan *p, struct pstep *ps); /* a Concat or Split on buffers of any layout */
/* By all threads where that is worth it. */
void plan_refill(struct plan *p, int v);

#endif
