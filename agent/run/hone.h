/* SPDX-License-Identifier: Apache-2.0 */
/* hone: runs neural networks (ONNX) on the processor of a board, with kernels that were tuned on it.
 *
 *	struct hone_handle *h;
 *	struct hone_model *m;
 *	if (hone_open(NULL, &h) < 0 || hone_load(h, "model.onnx", NULL, &m) < 0)
 *		errx(1, "%s", hone_error());
 *	hone_bind_input(m, 0, image, sizeof image);
 *	hone_bind_output(m, 0, scores, sizeof scores);
 *	if (hone_run(m) < 0)
 *		errx(1, "%s", hone_error());
 *
 * The library never compiles, never tunes and prints nothing; it asks no daemon and no network, so it waits
 * for neither. A kernel comes from a cache that `hone tune model.onnx` filled, else it is one that was built
 * in; hone_summary says which run. Without a cache, or with one that is damaged or may not be written, models
 * run all the same.
 *
 * Errors. What can fail returns a count or HONE_OK, or a negative enum hone_status; hone_error() is then the
 * text of the failure, with cause and remedy, for the same thread until its next call of the library.
 *
 * Arguments. Handles and models are those that were given out, NULL only where that is spoken of.
 *
 * Threads. Every function may be called from any thread at any time, but for hone_model_close, which must be
 * the last call with its model, and hone_close with its handle. Runs of one model take turns as they were
 * asked for, each with what is bound when it begins; so do runs of all models of one handle where it has more
 * threads than one, because they share them. Refreshing and asking disturb no run. After fork() only the
 * parent may go on with a handle and its models, or close them; a child opens its own. No function may be
 * called in a signal's handler.
 *
 * Memory. A model that is loaded runs without allocating (the first hone_run_async starts a thread). What is
 * large and cannot be had is HONE_NOMEM; a process that is out of memory for small things while it loads is
 * ended by abort(), with a line on standard error. Names that are given out live as long as the model.
 * dlclose() leaves the library where it is.
 *
 * Structures begin with their size, which the caller sets (HONE_INIT does): a newer library fills in, and
 * reads, no more than the caller knows of. The rest of what the caller passes in shall be zero. */
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
	HONE_USAGE = -1,       /* what the caller asked for makes no sense */
	HONE_NOMEM = -2,       /* no memory */
	HONE_IO = -3,          /* the system refused */
	HONE_CORRUPT = -4,     /* a file is not what it claims to be */
	HONE_UNSUPPORTED = -5, /* right, but not known to this version or processor */
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
	HONE_NO_PIN = 2,      /* threads go where the system puts them, not one to a core */
	HONE_KEEP_IMAGES = 4, /* keep a loaded model, packed and with its kernels, in the first cache folder,
				 where that can be written; the next load of the same file takes it from
				 there. As large as the model's weights. See also what hone_load says of
				 compiled models */
	HONE_VERBOSE = 8      /* log skipped files and the reasons on standard error, for the whole process */
};

struct hone_options {
	size_t size;
	const char *const *caches; /* folders, the first one that has a kernel counts; NULL: the user's own,
				      $XDG_CACHE_HOME/hone or ~/.cache/hone, then honed's where there is one,
				      $HONE_DAEMON_CACHE or /var/lib/hone/cache */
	int ncaches;               /* with caches; 0 and caches not NULL: none at all */
	int threads; /* of a run, the caller's among them, 1 to 64; 0: as many as there are cores */
	unsigned flags;
};

/* o NULL: all fields zero. */
HONE_API int hone_open(const struct hone_options *o, struct hone_handle **out);
/* Models stay usable; closing the last one frees the rest. NULL: does nothing. */
HONE_API void hone_close(struct hone_handle *h);
HONE_API int hone_threads(const struct hone_handle *h);

struct hone_load_options {
	size_t size;
	const char *const
	    *shapes; /* "image=1x3x320x320": an input's; "N=4": a symbolic dimension's (else 1) */
	int nshapes;
};

/* The file is read again by hone_refresh and must not change until hone_model_close; a path that does not
 * begin at the root is one of the folder that the process is in now. HONE_UNSUPPORTED names every node that
 * cannot be used, a line each.
 *
 * Compiled models. What `hone compile MODEL -o DIR` wrote is loaded by the name of its folder, wherever that
 * was moved to: no model, no cache, no import; kernels, shapes (options' must be none) and exactness are its
 * own, and hone_refresh finds nothing newer. `hone compile MODEL --beside` writes MODEL.hone, which is loaded
 * in place of MODEL while that has the bytes that it was compiled of (they are read, unless the file is the
 * very one) and shapes, threads and exactness are those of then, else passed over; hone_refresh then goes by
 * MODEL and caches, unless more of the work would be done by kernels that nobody tuned. Checked when loaded:
 * HONE_CORRUPT: damaged; HONE_UNSUPPORTED: of another version of hone, or of a processor with features that
 * this one has not. A compiled model holds machine code, and whoever can write it runs code in this process:
 * one that does not belong to root or the process's user, or that others may write, itself or its folder, is
 * refused (HONE_USAGE). Links are not followed to the file. It is read, not mapped: it may be replaced at any
 * time. */
HONE_API int hone_load(struct hone_handle *h, const char *path, const struct hone_load_options *o,
		       struct hone_model **out);
/* An ONNX model in memory, without external data; it is copied. */
HONE_API int hone_load_bytes(struct hone_handle *h, const void *model, size_t bytes,
			     const struct hone_load_options *o, struct hone_model **out);
/* Cancels a run that was begun by hone_run_async, and waits for its end. NULL: nothing. */
HONE_API void hone_model_close(struct hone_model *m);

/* An input or output. Tensors are row-major without gaps. */
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
/* The index of the name; HONE_NOTFOUND lists those there are. */
HONE_API int hone_find_input(const struct hone_model *m, const char *name);
HONE_API int hone_find_output(const struct hone_model *m, const char *name);

/* Runs that begin from now on read the input here, and write the output there. `bytes` must be the tensor's;
 * its alignment that of its elements. The caller's buffers stay the caller's: they must outlive the runs that
 * use them, and not be touched while one is under way; an output overlaps no other buffer. NULL: the model's
 * own buffer again, which is used where nothing is bound. */
HONE_API int hone_bind_input(struct hone_model *m, int index, const void *data, size_t bytes);
HONE_API int hone_bind_output(struct hone_model *m, int index, void *data, size_t bytes);
/* The model's own buffer, zeroed at first, 64-byte aligned; NULL with hone_error(): no such. */
HONE_API void *hone_input_buffer(struct hone_model *m, int index);
HONE_API void *hone_output_buffer(struct hone_model *m, int index);

/* Runs once and returns when the outputs are written. */
HONE_API int hone_run(struct hone_model *m);
/* As hone_run, on these buffers, one for each input and output in order, whatever is bound: for threads that
 * share a model. */
HONE_API int hone_run_on(struct hone_model *m, const void *const *inputs, void *const *outputs);
/* Begins a run in a thread of the library's and returns at once. HONE_BUSY: the last one has not been waited
 * for. */
HONE_API int hone_run_async(struct hone_model *m);
/* 1: no run that was begun is under way (hone_wait has its status); 0: it is. */
HONE_API int hone_poll(struct hone_model *m);
/* Waits for the end of the run that was begun and returns its status; HONE_TIMEOUT: not yet, wait again;
 * HONE_USAGE: none was begun, or another thread that waited has its status. timeout_ms < 0: for ever. */
HONE_API int hone_wait(struct hone_model *m, int timeout_ms);
/* Asks the run that was begun to end after the kernel that it is at: it then ends with HONE_STOPPED, its
 * outputs undefined, unless it ended well before. Returns at once. */
HONE_API void hone_cancel(struct hone_model *m);

/* Looks for kernels that came into the caches since, or left them. If there are such, makes the model ready a
 * second time beside the first, which runs on meanwhile, and puts it in its place between two runs. 1:
 * changed; 0: nothing new; < 0: the model stays as it was. Takes as long, and for that time as much memory,
 * as loading. */
HONE_API int hone_refresh(struct hone_model *m);

enum hone_origin {
	HONE_TUNED = 0,    /* from a cache, the best that was found */
	HONE_DEFAULT = 1,  /* from a cache, as it was before the search */
	HONE_FALLBACK = 2, /* built in, for any size */
	HONE_PORTABLE = 3  /* plain C */
};

struct hone_kernel_info {
	size_t size;
	int origin;     /* enum hone_origin */
	char name[128]; /* the node that it began as, cut to fit */
	char what[128]; /* "conv 3x3 s2 32x112x112" */
	double flops;   /* operations of one run */
	double bytes;   /* bytes that it must read and write */
};

struct hone_model_info {
	size_t size;
	int kernels[4]; /* how many of each enum hone_origin */
	int threads;
	int refreshed;       /* times that hone_refresh changed something */
	int from_image;      /* 1: loaded from an image (HONE_KEEP_IMAGES) or compiled */
	int64_t load_us;     /* duration of loading */
	size_t weight_bytes; /* packed weights */
	size_t tensor_bytes; /* memory of all values between input and output */
	char target[160];    /* "x86-64-v4 cascadelake Intel(R)_Xeon(R)": what kernels are looked up for */
	char remedy[512];    /* a command that would tune the rest; "": all is tuned */
};

HONE_API int hone_summary(const struct hone_model *m, struct hone_model_info *out);
HONE_API int hone_kernels(const struct hone_model *m); /* how many there are now */
/* HONE_USAGE: there are fewer kernels, perhaps since a refresh. */
HONE_API int hone_kernel(const struct hone_model *m, int index, struct hone_kernel_info *out);
HONE_API const char *
hone_origin_name(int origin); /* "tuned", "default", "fallback", "portable"; NULL: none */

/* One kernel, for programs that have their own network. It is a model of one or two inputs and one output,
 * found, bound, run, refreshed and asked as any other. */
enum hone_kernel_op {
	HONE_GEMM = 1,  /* c[m][n] = a[m][k] b[k][n] + bias[n]; inputs a, b */
	HONE_CONV2D = 2 /* y[n][f][p][q] = x[n][c][h][w] * w[f][c / groups][r][s] + bias[f]; inputs x, w */
};

enum hone_activation { HONE_NONE = 0, HONE_RELU = 1, HONE_RELU6 = 2 };

struct hone_kernel_want {
	size_t size;
	int op;               /* enum hone_kernel_op */
	int activation;       /* enum hone_activation */
	const float *weights; /* b or w; copied; NULL: a second input of every run */
	const float *bias;    /* NULL: none; copied */
	int64_t m, n, k;      /* HONE_GEMM */
	int64_t batch, channels, height, width, filters, kernel_h, kernel_w; /* HONE_CONV2D */
	int64_t stride_h, stride_w, dilation_h, dilation_w, groups;          /* 0: 1 */
	int64_t pad_top, pad_left, pad_bottom, pad_right;
};

HONE_API int hone_kernel_find(struct hone_handle *h, const struct hone_kernel_want *want,
			      struct hone_model **out);
/* The same as an ONNX file, which `hone tune FILE` makes a tuned kernel for. */
HONE_API int hone_kernel_write(const struct hone_kernel_want *want, const char *path);

#ifdef __cplusplus
}
#endif
#endif
