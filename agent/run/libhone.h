/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of libhone: shared by libhone.c (handles), libhone_net.c (making a model ready), libhone_model.c
 * (models and refreshing), libhone_run.c, libhone_ask.c, libhone_device.c and libhone_kernel.c. Its contract
 * is agent/run/hone.h.
 *
 * Locks, in the order in which they are taken: refresh (one refresh at a time), run (one run at a time), then
 * one of: the handle's threads, the handle's caches, now (what is bound, and which net is in place). Runs and
 * threads are had in the order of asking: a mutex goes again and again to a thread that runs in a loop. */
#ifndef AGENT_LIBHONE_H
#define AGENT_LIBHONE_H

#include "agent/cache/cache.h"
#include "agent/run/hone.h"
#include "agent/run/plan.h"
#include "kernels/onnx/import.h"
#include "kernels/task/level.h"
#include "platform/base/pages.h"
#include "platform/machine/topo.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MAX_CACHES = 16 };

struct device_lib;
struct injector;
struct inject;

/* A fair lock: threads get it in the order in which they asked. */
struct turns {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	unsigned given, now;
};

struct hone_handle {
	atomic_int users; /* count: the caller, and every model */
	struct target target;
	int threads;
	unsigned flags;
	struct pool *pool; /* NULL: runs use only the caller's thread */
	struct turns pool_turns;
	pthread_mutex_t cache_lock;
	int ncaches;
	struct cache *cache[MAX_CACHES];
	struct kernel_source source[MAX_CACHES];
	unsigned news; /* number of times that a cache had something new */
	char dir[MAX_CACHES][4096];
	char cluster[TOPO_NAME + 8]; /* of the processor: "cpu", the fastest, or "cpu:NAME" */
	char device[16]; /* that was asked for; "": the processor. The rest is for it */
	const struct device_lib *device_lib;
	struct target device_target;
	struct kernel_source device_source[MAX_CACHES]; /* of the same caches */
	bool device_off;                                /* under cache_lock: it cannot be used, or no more */
	char device_why[256];                           /* under cache_lock: why */
};

/* The level of the kernels that the handle's models run (kernels/task/level.h). */
static inline enum level hone_level(const struct hone_handle *h)
{
	return h->flags & HONE_EXACT      ? LEVEL_EXACT
	       : h->flags & HONE_INT8     ? LEVEL_INT8
	       : h->flags & HONE_HALF_SUM ? LEVEL_HALF_SUM
	       : h->flags & HONE_HALF     ? LEVEL_HALF
	       : h->flags & HONE_W16      ? LEVEL_W16
					  : LEVEL_FP32;
}

/* A network that is ready to run; a refresh replaces it as a whole. */
struct libhone_net {
	struct graph *g;
	struct arena a;
	struct plan *plan;
	struct key made_of; /* of the choices and of every kernel from a cache */
	unsigned news;      /* the handle's count before it was made */
	bool from_image;
	bool beside;   /* from an image beside the model, whose kernels may be in no cache */
	bool compiled; /* made by `hone compile`: there is no model to remake it from */
	const struct device_lib *lib;
	struct plan_device *device; /* the plan's own; NULL: the processor */
	char why[256];              /* why it is not on the device that was asked for */
};

/* The source that a model is loaded from, also at each refresh. */
struct origin {
	const char *path; /* NULL: bytes or want */
	struct blob bytes;
	const struct hone_kernel_want *want; /* NULL: path or bytes */
	struct import_opts opts;
};

enum later { LATER_IDLE, LATER_ASKED, LATER_ENDED, LATER_CLOSING };

struct hone_model {
	struct hone_handle *h;
	struct arena a; /* lives as long as the model */
	struct origin from;
	pthread_mutex_t refresh, now;
	struct turns run;
	struct libhone_net *net;
	int refreshed;
	int64_t load_ns;
	int nin, nout;
	struct hone_tensor *in_info, *out_info;
	struct tensor *in, *out;         /* bound */
	struct tensor *run_in, *run_out; /* of the current run */
	bool *placed; /* per tensor from `in` on: its address is that of hone_input_in_place, or ..output.. */
	struct pages own;                /* buffers that are bound by default */
	size_t *in_at, *out_at;          /* offset of each in there */
	/* A run of its own thread. */
	pthread_mutex_t later;
	pthread_cond_t changed;
	enum later state;
	bool started; /* the thread runs */
	pthread_t thread;
	struct tensor *later_in, *later_out;
	atomic_bool cancel;
	int status;
	char text[1024]; /* text of the status */
	/* Puts errors into outputs after each run (agent/run/inject.h); inject NULL: none. */
	const struct injector *injector;
	struct inject *inject;
};

/* libhone.c */
void hone_keep(struct hone_handle *h);
/* Copies `bytes` of a structure to a caller who knows out->size bytes of it; E_USAGE if that size is
 * impossible. */
int hone_copy_out(void *out, const void *from, size_t bytes, size_t least) MUST_CHECK;
/* Copies from the caller's structure; fields that the caller does not know become 0. from NULL: all zero. */
int hone_copy_in(void *out, const void *from, size_t bytes, size_t least) MUST_CHECK;

/* Makes the path absolute, as the program may change its folder before hone_refresh reads the path again. */
int hone_absolute(const char *path, char *out, size_t n) MUST_CHECK;

/* libhone_net.c: has no state except the handle's caches, which it locks. old: the net that runs now; the new
 * one is then made from the caches, not from an image beside the model. NULL: none. */
int net_make(struct hone_handle *h, const struct origin *from, const struct libhone_net *old,
	     struct libhone_net **out) MUST_CHECK;
/* Returns whether n would be slower than `old`, which came from an image beside the model: that image's
 * kernels may be in no cache, so a refresh could lose them. */
bool net_worse(const struct libhone_net *n, const struct libhone_net *old);
void net_free(struct libhone_net *n);

/* libhone_device.c */
/* E_USAGE: it is no name of a device; a device that cannot be used is no
 * error, but device_is_on is false, and h->device_why says why. After the caches have been opened. */
int device_choose(struct hone_handle *h, const char *name) MUST_CHECK;
const char *device_asked(const char *given); /* NULL: $HONE_DEVICE, else "cpu" */
/* Whether new nets are for the device. */
bool device_is_on(struct hone_handle *h);
/* From now on new nets are for the processor. The first reason is kept. */
void device_lose(struct hone_handle *h, const char *why);
void device_release(struct hone_handle *h);
/* Opens the device for a net of its own: devices take one thread at a time. */
int net_device_open(struct hone_handle *h, struct libhone_net *n) MUST_CHECK;
int net_device_steps(const struct libhone_net *n); /* of its plan, that run there */
void net_device_close(struct libhone_net *n);      /* after its plan was freed */
/* For a model that has its outputs: sets m->inject if $HONE_CALIBRATE asks for it (agent/run/inject.h). */
int model_inject_open(struct hone_model *m) MUST_CHECK;

/* libhone_model.c: after a run has failed with E_IO. True: the model has left its device, now or before, and
 * the run may be repeated on the processor. */
bool model_leaves_device(struct hone_model *m);

/* libhone_kernel.c */
int want_check(const struct hone_kernel_want *w) MUST_CHECK;
int want_graph(const struct hone_kernel_want *w, struct graph **out) MUST_CHECK;
/* Copies it with its weights. */
const struct hone_kernel_want *want_copy(const struct hone_kernel_want *w, struct arena *a);

/* libhone_model.c. Takes over `m`, which has h, a and from. */
int model_finish(struct hone_model *m, struct hone_model **out) MUST_CHECK;
struct hone_model *model_new(struct hone_handle *h);

/* libhone_run.c */
void turns_open(struct turns *t);
void turns_enter(struct turns *t);
void turns_leave(struct turns *t);
void turns_close(struct turns *t);
/* Ends the model's thread. */
void later_close(struct hone_model *m);

#endif
