/* SPDX-License-Identifier: Apache-2.0 */
/* hone: runs neural networks (ONNX) on the processor of a board, or its GPU, with kernels tuned there.
 *
 *	struct hone_handle *h;
 *	struct hone_model *m;
 *	if (hone_open(NULL, &h) < 0 ||
 *	    hone_load(h, "model.onnx", NULL, &m) < 0)
 *		errx(1, "%s", hone_error());
 *	hone_bind_input(m, 0, image, sizeof image);
 *	hone_bind_output(m, 0, scores, sizeof scores);
 *	if (hone_run(m) < 0)
 *		errx(1, "%s", hone_error());
 *
 * The library never compiles, never tunes and prints nothing; it talks to no daemon and no network, so it
 * never waits for them. A kernel comes from a cache that `hone tune model.onnx` filled, else it is a fallback
 * kernel of the library, else plain C; hone_summary says which ones run. Models also run without a cache, and
 * with one that is damaged or cannot be written.
 *
 * Errors. A function that can fail returns a count or HONE_OK, or a negative enum hone_status. After a
 * failure hone_error() returns its text, with cause and remedy, in the same thread until its next call of the
 * library. After hone_open, hone_load, hone_load_bytes and hone_refresh have succeeded it is "".
 *
 * Arguments. Handles and models must be those that the library returned; NULL is only allowed where the
 * function's comment says so.
 *
 * Threads. Every function may be called from any thread at any time, except that hone_model_close must be
 * the last call with its model, and hone_close with its handle. Runs of one model take turns in the order
 * of their calls, each with the buffers that are bound when it begins. If a handle has more than one
 * thread, runs of all its models take turns, because they share the threads. Refreshing a model and asking
 * about it do not disturb a run. After fork() only the parent may use or close a handle and its models; a
 * child must open its own. No function may be called in a signal handler.
 *
 * Memory. A loaded model runs without allocating (except that the first hone_run_async starts a thread).
 * HONE_NOMEM: a large block cannot be allocated. If memory for small blocks runs out during loading, abort()
 * ends the process, with a line on standard error. Names that the library returns live as long as the model.
 * dlclose() does not unload the library.
 *
 * Structures begin with their size, which the caller sets (HONE_INIT does): a newer library reads and fills
 * in only the members that the caller knows. All other members that the caller passes in must be zero. */
#ifndef HONE_H
#define HONE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HONE_API __attribute__((visibility("default")))
/* Sets a structure's size and zeroes the rest: struct hone_options o; HONE_INIT(o); */
#define HONE_INIT(x) hone_init(&(x), sizeof(x))

enum hone_status {
	HONE_OK = 0,
	HONE_USAGE = -1,       /* an argument is wrong */
	HONE_NOMEM = -2,       /* no memory */
	HONE_IO = -3,          /* the system refused */
	HONE_CORRUPT = -4,     /* a file is not what it claims to be */
	HONE_UNSUPPORTED = -5, /* valid, but this version or processor does not support it */
	HONE_NOTFOUND = -6,    /* no such file, input, output */
	HONE_TIMEOUT = -7,     /* not ended yet */
	HONE_BUSY = -8,        /* a run is under way */
	HONE_STOPPED = -12     /* the run was cancelled */
};

enum hone_dtype {
	HONE_F32 = 1,
	HONE_F64 = 2,
	HONE_F16 = 3,
	HONE_BF16 = 4,
	HONE_I8 = 5,
	HONE_U8 = 6,
	HONE_I16 = 7,
	HONE_U16 = 8,
	HONE_I32 = 9,
	HONE_U32 = 10,
	HONE_I64 = 11,
	HONE_U64 = 12,
	HONE_BOOL = 13 /* a byte, 0 or 1 */
};

enum { HONE_MAX_RANK = 8 };

struct hone_handle; /* threads and caches */
struct hone_model;  /* one network, ready to run */

HONE_API void hone_init(void *structure, size_t size);
HONE_API const char *hone_version(void);           /* "0.1.0", of the library that runs */
HONE_API const char *hone_error(void);             /* never NULL */
HONE_API const char *hone_status_name(int status); /* "corrupt" */
HONE_API const char *hone_dtype_name(int dtype);   /* "f32"; NULL: none */
HONE_API size_t hone_dtype_bytes(int dtype);       /* 0: none */

/* flags of struct hone_options */
enum {
	HONE_EXACT = 1,       /* no kernel that changes the set of multiplications (Winograd) */
	HONE_NO_PIN = 2,      /* the system places threads; else each is pinned to a core */
	HONE_KEEP_IMAGES = 4, /* keep a loaded model, packed and with its kernels, in the first cache folder
				 if it can be written; the next load of the same file reads it from there.
				 It takes as much space as the model's weights. See also "Compiled models"
				 at hone_load */
	HONE_VERBOSE = 8, /* log skipped files and the reasons, and the sizes of a model that loading assumes
			     or replaces, on standard error, for the whole process */
	HONE_W16 = 16,    /* kernels may store weights as 16-bit floats, sums stay 32-bit (hone tune --level
			     w16); not with HONE_EXACT */
	HONE_INT8 = 32, /* models for which a cache has a recipe run as 8-bit integers. hone tune --level int8
			   --data DIR makes the recipe for the model's weights and shapes; without one that
			   fits, floats stay floats, unless HONE_NEEDS_RECIPE is given */
	HONE_HALF = 64, /* as HONE_W16; and products may be those of 16-bit floats (hone tune --level half);
			   not with HONE_INT8 */
	/* As HONE_HALF; and on Arm processors that add 16-bit floats, sums of up to 72 products may be made
	 * of these (hone tune --level half-sum). Values beyond 65504 become infinite. Not with HONE_INT8. */
	HONE_HALF_SUM = 128,
	HONE_NEEDS_RECIPE = 256 /* with HONE_INT8: loading a model of floats for which no cache has a recipe
				   that fits is an error (HONE_NOTFOUND, HONE_CORRUPT) */
};

struct hone_options {
	size_t size;
	const char *const *caches; /* folders; a kernel comes from the first one that has it. NULL: the
				      user's, $XDG_CACHE_HOME/hone or ~/.cache/hone, then honed's if it
				      exists, $HONE_DAEMON_CACHE or /var/lib/hone/cache. One that is
				      missing counts as empty: hone_refresh finds it once it is there */
	int ncaches;               /* number of caches; 0 with caches not NULL: no cache */
	int threads; /* threads of a run, including the caller's, 1 to 64; 0: as many as there are cores, on a
			board with several kinds of them as many as its fastest cluster has */
	unsigned flags;
	/* "opencl:0" or "cuda:0", as `hone devices` lists it: models run kernels there that `hone tune MODEL
	 * --device NAME` has made, and the rest on the processor. A model for which a cache has none, and all
	 * models if the device is absent or lost, also during a run, run on the processor; hone_summary says
	 * why. Its driver is loaded into this process. "cpu": the processor; of a board with several kinds of
	 * cores the fastest cluster that this thread may use. "cpu:NAME": that cluster, whose kernels `hone
	 * tune MODEL --device cpu:NAME` has made; a run without other threads stays on the caller's core, so
	 * bind it to the cluster. NULL: $HONE_DEVICE, else "cpu" */
	const char *device;
};

/* Starts the threads that runs use, and opens the caches. *out becomes a handle, with which hone_load loads
 * any number of models, until hone_close; NULL after an error. o NULL: as if all its members were zero, so
 * every core computes, and kernels come from the user's cache, then honed's. */
HONE_API int hone_open(const struct hone_options *o, struct hone_handle **out);
/* Models stay usable; closing the last one frees the rest. NULL: does nothing. */
HONE_API void hone_close(struct hone_handle *h);
HONE_API int hone_threads(const struct hone_handle *h);

struct hone_load_options {
	size_t size;
	const char *const *shapes; /* "image=1x3x320x320": an input's; "N=4": a symbolic dimension's. A batch
				      size that the model leaves free is 1 unless it is given; any other free
				      size must be given: HONE_USAGE names it. An input's shape also replaces
				      sizes that the model fixes; HONE_USAGE: the model does not work so */
	int nshapes;
};

/* Loads a model. hone_refresh reads the file again, so it must not change until hone_model_close. A relative
 * path is resolved now, against the current folder. The text of HONE_UNSUPPORTED names every node that cannot
 * be used, one per line.
 *
 * Compiled models. To load the output of `hone compile MODEL -o DIR`, pass the path of the folder, which may
 * have been moved. This needs no model, no cache and no import. The compiled model has its own kernels,
 * shapes (so o->nshapes must be 0) and level, and hone_refresh finds nothing newer.
 *
 * `hone compile MODEL --beside` writes MODEL.hone. It is loaded in place of MODEL if it was compiled from the
 * same bytes, for the same shapes, threads and level; else it is ignored. To compare the bytes, MODEL is
 * read, unless the file itself is unchanged. hone_refresh then looks at MODEL and the caches, but does not
 * switch to a model in which more of the work is done by untuned kernels.
 *
 * A compiled model is checked when it is loaded. HONE_CORRUPT: it is damaged. HONE_UNSUPPORTED: another
 * version of hone compiled it, or it needs features that this processor lacks. It holds machine code, so a
 * user who can write it can run code in this process. It is therefore refused (HONE_USAGE) if it belongs to a
 * user other than root and the process's user, if others can write it or its folder, or if it is a symbolic
 * link. It is read, not mapped, so it may be replaced at any time. */
HONE_API int hone_load(struct hone_handle *h, const char *path, const struct hone_load_options *o,
		       struct hone_model **out);
/* An ONNX model in memory, without external data; it is copied. */
HONE_API int hone_load_bytes(struct hone_handle *h, const void *model, size_t bytes,
			     const struct hone_load_options *o, struct hone_model **out);
/* Cancels a run that hone_run_async started, and waits for its end. NULL: does nothing. */
HONE_API void hone_model_close(struct hone_model *m);

/* An input or output. Tensors are row-major without gaps. Those that the model has as f16 or bf16 are handed
 * over as f32, which is their dtype here. */
struct hone_tensor {
	size_t size;
	const char *name;
	int dtype; /* enum hone_dtype */
	int rank;
	int64_t shape[HONE_MAX_RANK];
	size_t bytes;
};

HONE_API int hone_inputs(const struct hone_model *m); /* how many */
HONE_API int hone_outputs(const struct hone_model *m);
HONE_API int hone_input(const struct hone_model *m, int index, struct hone_tensor *out);
HONE_API int hone_output(const struct hone_model *m, int index, struct hone_tensor *out);
/* Returns the index of the name; the text of HONE_NOTFOUND lists all names. */
HONE_API int hone_find_input(const struct hone_model *m, const char *name);
HONE_API int hone_find_output(const struct hone_model *m, const char *name);

/* Runs that begin from now on read the input from this buffer, or write the output to it. `bytes` must be the
 * tensor's size; the buffer must be aligned to its elements. The caller keeps its buffers: they must outlive
 * the runs that use them, and must not be touched during a run; an output must not overlap another buffer.
 * NULL: use the model's own buffer again, as before the first call. */
HONE_API int hone_bind_input(struct hone_model *m, int index, const void *data, size_t bytes);
HONE_API int hone_bind_output(struct hone_model *m, int index, void *data, size_t bytes);
/* The model's own buffer, zeroed at first, 64-byte aligned. NULL: there is no such input or output; see
 * hone_error(). */
HONE_API void *hone_input_buffer(struct hone_model *m, int index);
HONE_API void *hone_output_buffer(struct hone_model *m, int index);

/* Binds the input or output to the model's own tensor, so that runs copy nothing. On a device that shares
 * the processor's memory, that is a part of the device's memory; on the processor, which reads and writes
 * a caller's buffer itself, it is the buffer of hone_input_buffer or hone_output_buffer. Before each run:
 * ask for the inputs' addresses and write them; after it: ask for the outputs' and read them. Waits for a
 * run that is under way. An address is valid until the next run begins or hone_refresh changes the model.
 * A run whose input's address is no longer valid, also because the model has lost its device, ends with
 * HONE_USAGE: ask again and write it again. 1: it is in the device's memory; 0: it is the model's buffer,
 * because the model runs on the processor, or the device has the tensor in another layout or not in shared
 * memory. */
HONE_API int hone_input_in_place(struct hone_model *m, int index, void **data);
HONE_API int hone_output_in_place(struct hone_model *m, int index, void **data);

/* Runs once and returns when the outputs are written. Values are not checked: kernels of Max, MaxPool, Relu
 * and Clip may drop a NaN, as the instructions that they use do, so a NaN in an input need not show in the
 * outputs. Check inputs that may hold one. */
HONE_API int hone_run(struct hone_model *m);
/* As hone_run, but on these buffers, one for each input and output in order, instead of the bound ones: for
 * threads that share a model. */
HONE_API int hone_run_on(struct hone_model *m, const void *const *inputs, void *const *outputs);
/* Starts a run in a thread of the library and returns at once. HONE_BUSY: hone_wait has not yet returned the
 * status of the last one. */
HONE_API int hone_run_async(struct hone_model *m);
/* 0: the run that hone_run_async started has not ended; 1: it has ended (hone_wait returns its status), or
 * none was started. */
HONE_API int hone_poll(struct hone_model *m);
/* Waits for the end of the run that hone_run_async started, and returns its status. HONE_TIMEOUT: it has not
 * ended, wait again; HONE_USAGE: none was started, or another thread's hone_wait has returned its status.
 * timeout_ms < 0: wait without limit. */
HONE_API int hone_wait(struct hone_model *m, int timeout_ms);
/* Asks the run that hone_run_async started to end after its present kernel, and returns at once. The run ends
 * with HONE_STOPPED and undefined outputs, unless it was already complete. */
HONE_API void hone_cancel(struct hone_model *m);

/* Looks for kernels that were added to the caches or removed from them since the model was loaded. If there
 * are any, it prepares the model a second time while the first continues to run, and replaces it between two
 * runs. 1: changed; 0: nothing new; < 0: the model stays as it was. This takes as much time and additional
 * memory as loading. */
HONE_API int hone_refresh(struct hone_model *m);

enum hone_origin {
	HONE_TUNED = 0,    /* from a cache: tuning found a better schedule than the default one */
	HONE_DEFAULT = 1,  /* from a cache: the default schedule, untuned or because tuning found no better */
	HONE_FALLBACK = 2, /* made with the library, for any size */
	HONE_PORTABLE = 3  /* plain C */
};

struct hone_kernel_info {
	size_t size;
	int origin;     /* enum hone_origin */
	char name[128]; /* name of its main node, cut to fit */
	char what[128]; /* "conv 3x3 s2 32x112x112" */
	double flops;   /* operations of one run */
	double bytes;   /* bytes that it must read and write */
};

struct hone_model_info {
	size_t size;
	int kernels[4]; /* how many of each enum hone_origin */
	int threads;
	int refreshed;        /* times that hone_refresh changed something */
	int from_image;       /* 1: loaded from an image (HONE_KEEP_IMAGES) or compiled */
	int64_t load_us;      /* duration of loading */
	size_t weight_bytes;  /* packed weights */
	size_t tensor_bytes;  /* memory of all values between input and output */
	char target[160];     /* processor that kernels are looked up for: "x86-64-v4 cascadelake
				 Intel(R)_Xeon(R)" */
	char remedy[512];     /* a command that would tune the rest; "": all is tuned */
	int at_default;       /* of kernels[HONE_DEFAULT]: those for which tuning found no better schedule */
	int on_device;        /* kernels that run on the device; 0: all run on the processor */
	char device[16];      /* that the model runs on: "cuda:0" or "cpu" */
	char device_why[256]; /* why it is not the device that was asked for; "": it is */
};

/* The device that runs the model now, "cuda:0" or "cpu", say: the latter also where another one was asked for
 * that is absent or lost, or for which there is no kernel; hone_summary says why. Static, or lives as long as
 * the model. Takes no memory and does not wait for a run. */
HONE_API const char *hone_device(const struct hone_model *m);
HONE_API int hone_summary(const struct hone_model *m, struct hone_model_info *out);
HONE_API int hone_kernels(const struct hone_model *m); /* their number now */
/* HONE_USAGE: there is no kernel `index`; a refresh may have changed their number. */
HONE_API int hone_kernel(const struct hone_model *m, int index, struct hone_kernel_info *out);
HONE_API const char *
hone_origin_name(int origin); /* "tuned", "default", "fallback", "portable"; NULL: none */

/* One kernel, for programs that implement their own network. It is a model with one or two inputs and one
 * output, for which all functions of models work. */
enum hone_kernel_op {
	HONE_GEMM = 1,  /* c[m][n] = a[m][k] b[k][n] + bias[n]; inputs a, b */
	HONE_CONV2D = 2 /* y[n][f][p][q] = x[n][c][h][w] * w[f][c / groups][r][s] + bias[f]; inputs x, w */
};

enum hone_activation { HONE_NONE = 0, HONE_RELU = 1, HONE_RELU6 = 2 };

struct hone_kernel_want {
	size_t size;
	int op;               /* enum hone_kernel_op */
	int activation;       /* enum hone_activation */
	const float *weights; /* b or w; copied; NULL: the second input of each run */
	const float *bias;    /* NULL: none; copied */
	int64_t m, n, k;      /* HONE_GEMM */
	int64_t batch, channels, height, width, filters, kernel_h, kernel_w; /* HONE_CONV2D */
	int64_t stride_h, stride_w, dilation_h, dilation_w, groups;          /* 0: 1 */
	int64_t pad_top, pad_left, pad_bottom, pad_right;
};

HONE_API int hone_kernel_find(struct hone_handle *h, const struct hone_kernel_want *want,
			      struct hone_model **out);
/* Writes the same kernel as an ONNX file, for `hone tune FILE`. */
HONE_API int hone_kernel_write(const struct hone_kernel_want *want, const char *path);

#ifdef __cplusplus
}
#endif
#endif
