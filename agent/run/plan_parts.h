/* SPDX-License-Identifier: Apache-2.0 */
/* The plan's own structures, shared by plan.c (building in order, running) and its parts plan_*.c only. */
#ifndef AGENT_PLAN_PARTS_H
#define AGENT_PLAN_PARTS_H

#include "agent/run/fallback.h"
#include "agent/run/host.h"
#include "agent/run/host_tile.h"
#include "agent/run/plan.h"
#include "agent/run/window.h"
#include "kernels/graph/op.h"
#include "platform/run/dev.h"
#include "platform/base/pages.h"

struct place { /* where a step value lies */
	char *p;
	int parent;     /* the value that a view or a part lies in; -1: none */
	int64_t at;     /* element of the parent that it begins at */
	int root;       /* the value whose memory it uses; for views, and outputs written over an input */
	int64_t offset; /* offset in the root, elements */
	int64_t elems;  /* roots only: the most that layouts or kernels need */
	int lifetime;   /* index, -1: not in the arena */
	struct segment *halo; /* of values with halos */
	int nhalo;
	bool refill; /* shares bytes with other values: the halo is filled again before each write */
	bool given;  /* an input or output that kernels read and write where the caller has it */
};

struct given { /* an address that kernels are called with, set by each run */
	void **at;
	int tensor; /* index of the input or output */
	bool output;
};

struct part { /* of a Concat or Split */
	struct window w;
	int64_t bytes; /* 0: absent */
	bool there;    /* lies inside of the whole: no copy needed */
};

struct entry_run { /* one entry of a kernel, ready to call */
	int entry;
	int64_t extent;
};

/* A plan calls its device by these functions of plan_device.c, which libhone does not link. */
struct on_device {
	int (*load)(struct on_device *d, const struct code *c, struct dev_code **out);
	int (*ready)(struct plan *p); /* called when all is placed */
	/* Makes the copies that a step needs, and starts it, if it runs there; step nsteps: makes the copies
	 * behind all steps, and waits; -1, before inputs are copied into the plan's tensors: makes these the
	 * processor's. timed: waits for the step. */
	int (*run)(struct plan *p, int step, bool timed);
	void (*drop)(struct plan *p); /* before its code is unloaded */
	int (*entry)(struct on_device *d, struct dev_code *c, const char *symbol);
	void (*unload)(struct on_device *d, struct dev_code *c);
};

struct pstep {
	const struct step *step;
	int kernel;                        /* index in plan.kernel, -1 */
	bool alone;                        /* too little work for more than one thread */
	int nrefill, refill[MAX_OPERANDS]; /* values whose halos its task sets again */
	enum kernel_origin origin;
	/* A compiled kernel. */
	struct dev_code *code;
	bool far;   /* on the plan's device */
	bool library; /* a library computes it */
	bool unfit; /* the source's code was refused, so that another kernel was looked for */
	int nentries;
	struct entry_run entry[LOOPS_MAX_ENTRIES];
	int nbufs;
	void *buf[CODE_MAX_BUFS];
	int64_t param[LOOPS_MAX_PARAMS];
	struct code *found; /* until built; the object is kept only for images and whole plans */
	int object;         /* index of the image's object */
	/* A fallback kernel: compiled code covers the core, the portable path does the rest in place. For
	 * both parts, until built: their operands as held in memory, and which of the step's operands they
	 * are. */
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

struct lent { /* a constant as it lies packed, for plans built beside this one */
	struct lent *next;
	int of; /* value of the graph */
	int64_t elems;
	bool is_packed; /* by `pack`; else it lies as `form` says */
	struct packing pack;
	struct operand form;
	char *at;
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
	struct on_device *device; /* NULL: none */
	struct far *far;          /* the plan's part of it */
	int nsteps;               /* steps that run: a fused step or its parts, not both */
	struct pstep *step;
	struct place *place; /* per step value */
	struct pages memory, weights, threads;
	size_t memory_bytes, weight_bytes, thread_bytes, scratch_bytes;
	int64_t live_bytes; /* largest sum of values alive at once */
	bool alone;         /* every step runs on one thread */
	bool keep;          /* no memory is reused */
	bool lends;         /* notes its packed constants in `lent` */
	struct lent *lent;
	const struct plan *beside; /* until built: lends constants; NULL: none does */
	size_t lent_bytes;         /* constants in the memory of that plan, or of one beside it */
	bool take;                 /* frees the graph's constants once they are packed */
	bool libraries;            /* some steps run code of libraries: constants stay in the graph */
	/* Such code is left out. build() sets it if a library makes no piece; the plan is then built again.
	 */
	bool no_libraries;
	bool textures;       /* kernels on the device read textures: constants stay until it has made them */
	/* Such kernels are left out. ready() sets it if it fails, perhaps for textures only: the plan is then
	 * built again. */
	bool no_textures;
	bool whole;          /* keeps what is otherwise needed only for building */
	struct buf *image;   /* until built: gets the image's description; NULL: not wanted */
	int *readers;        /* take, until built: per graph value, kernels that have not packed it yet */
	struct clock *clock; /* NULL: runs have no deadline */
	int64_t deadline_ns;
	const atomic_bool *stop; /* NULL: runs to the end */
	struct trace *trace;     /* NULL: not traced */
	int nkernels;
	struct plan_kernel *kernel;
	int ncodes; /* codes of an image, whose steps share them; else each step has its own */
	struct dev_code **codes;
	struct operand *in, *out; /* plain layouts, as the caller has them */
	/* Per output of the present run: the caller has it where the plan has it. NULL: an image. */
	bool *at_home;
	struct window *copy_in, *copy_out;
	int ngiven;
	struct given *given;
};

/* plan_find.c: finds what runs each step: src, the fallback archives or the portable path. */
int plan_find(struct plan *p, const struct target *t, const struct kernel_source *src) MUST_CHECK;

void plan_unload(struct plan *p, struct pstep *ps);

/* plan_image.c: describes a built plan before what it was built from is freed. */
enum image_region { NOWHERE, IN_MEMORY, IN_WEIGHTS, IN_TEMPORARY, GIVEN, TAKEN, IMAGE_REGIONS };
enum image_step { IMAGE_CODE, IMAGE_PORTABLE, IMAGE_NODE, IMAGE_STEPS };
/* Returns the region in which the operand lies whose address is held at `at`, and its byte there; for GIVEN
 * and TAKEN, the number of the caller's input or output. */
enum image_region plan_region(const struct plan *p, void *const *at, int64_t *offset);
void plan_describe(struct plan *p, struct buf *out);
/* plan_restore.c: makes a plan from that description; its weights are still zero. Hostile bytes cause an
 * error at worst, and once plan_check accepts such a plan, its runs stay inside of its memory; machine code
 * is trusted. */
int plan_restore(const void *meta, size_t n, struct pool *pool, struct plan **out) MUST_CHECK;
/* plan_check.c: checks that every node run by eval has the outputs that its operator infers from its inputs,
 * with the constants that the weights hold now. E_CORRUPT, E_NOMEM. */
int plan_check(struct plan *p) MUST_CHECK;
/* Copies the constants that plan_check reads from the weights of a plan with the same memory layout. */
void plan_copy_constants(const struct plan *from, struct plan *to);

/* plan_views.c: finds which values lie inside others. */
void plan_views(struct plan *p);

/* plan_place.c: places all that the kernels touch, packs constants, and sets every address that kernels are
 * called with. */
int plan_place(struct plan *p) MUST_CHECK;
/* plan_take.c: frees constants: those that nothing reads at the beginning, the others when their last reader
 * has packed them. plan_take_all: all of these when everything is packed. */
int plan_take_begin(struct plan *p) MUST_CHECK;
void plan_take_packed(struct plan *p, int value);
int plan_take_all(struct plan *p) MUST_CHECK;
/* Fills parts [begin, end) of `extent` equal parts of a value's halo. */
void plan_set_halo(const struct plan *p, int v, int64_t begin, int64_t end, int64_t extent);

/* plan_copy.c: the data that is copied rather than computed. */
int plan_copies(struct plan *p) MUST_CHECK; /* called when all is placed */
int plan_copy_in(struct plan *p, const struct tensor *inputs) MUST_CHECK;
/* Checks outputs, and has kernels write where the caller has them, if they can. Called before a run;
 * copy_out after it copies the others. */
int plan_take_outputs(struct plan *p, const struct tensor *outputs) MUST_CHECK;
void plan_copy_out(struct plan *p, struct tensor *outputs);
void plan_copy_parts(struct plan *p, struct pstep *ps); /* a Concat or Split on buffers of any layout */
/* Fills a value's halo again, with all threads if it is large enough. */
void plan_refill(struct plan *p, int v);

#endif
