/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/ort.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Indexes in the function table, version 1 of the interface. Each function returns a status, NULL if it
 * succeeded. */
enum place {
	ERROR_MESSAGE = 2,
	CREATE_ENV = 3,
	CREATE_SESSION = 7,
	RUN = 9,
	CREATE_OPTIONS = 10,
	SET_THREADS = 24,
	INPUT_COUNT = 30,
	OUTPUT_COUNT = 31,
	INPUT_TYPE = 33,
	INPUT_NAME = 36,
	OUTPUT_NAME = 37,
	TENSOR_FROM_DATA = 49,
	AS_TENSOR_TYPE = 55,
	ELEMENT_TYPE = 60,
	DIM_COUNT = 61,
	DIMS = 62,
	CPU_MEMORY = 69,
	ALLOCATOR = 78,
	RELEASE_VALUE = 96,
};

enum { WARNING = 2, ARENA_ALLOCATOR = 1, DEFAULT_MEMORY = 0, VERSION = 1, MOST_DIMS = 16 };

/* Bytes of an element, by the number of its type; 0: not numeric. */
static const unsigned char type_bytes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8};

struct api_base {
	ort_function *const *(*table)(uint32_t version);
	const char *(*version)(void);
};

/* The function at an index, cast to its arguments' types. */
#define CALL(o, place, types) ((void *(*)types)(o)->f[place])

static int check(const struct ort *o, void *status, const char *what)
{
	if (!status)
		return E_OK;
	const char *text = ((const char *(*)(const void *))o->f[ERROR_MESSAGE])(status);
	return fail(E_CHILD, "ONNX Runtime, %s: %s", what, text);
}

int ort_open(struct ort *o, const char *library, int threads)
{
	*o = (struct ort){0};
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL),
	     *symbol = lib ? dlsym(lib, "OrtGetApiBase") : NULL;
	if (!symbol)
		return fail(E_NOTFOUND, "%s: %s", library, dlerror());
	const struct api_base *(*base)(void);
	memcpy(&base, &symbol, sizeof base);
	if (!(o->f = base()->table(VERSION)))
		return fail(E_UNSUPPORTED, "%s has another interface (version %s)", library,
			    base()->version());
	int rc =
	    check(o, CALL(o, CREATE_ENV, (int, const char *, void **))(WARNING, "hone", &o->env), "start");
	if (rc >= 0)
		rc = check(o, CALL(o, CREATE_OPTIONS, (void **))(&o->options), "options");
	if (rc >= 0)
		rc = check(o, CALL(o, SET_THREADS, (void *, int))(o->options, threads), "threads");
	if (rc >= 0)
		rc = check(
		    o, CALL(o, CPU_MEMORY, (int, int, void **))(ARENA_ALLOCATOR, DEFAULT_MEMORY, &o->memory),
		    "memory");
	return rc;
}

/* A tensor of zeros for input i. */
static int make_input(struct ort *o, size_t i)
{
	void *type = NULL, *tensor = NULL;
	int kind = 0;
	size_t rank = 0, bytes;
	int64_t dim[MOST_DIMS];
	int rc = check(o, CALL(o, INPUT_TYPE, (void *, size_t, void **))(o->session, i, &type), "input");
	if (rc >= 0)
		rc = check(o, CALL(o, AS_TENSOR_TYPE, (void *, void **))(type, &tensor), "input");
	if (rc >= 0 && !tensor)
		rc = fail(E_UNSUPPORTED, "input %zu is not a tensor", i);
	if (rc >= 0)
		rc = check(o, CALL(o, ELEMENT_TYPE, (void *, int *))(tensor, &kind), "input");
	if (rc >= 0)
		rc = check(o, CALL(o, DIM_COUNT, (void *, size_t *))(tensor, &rank), "input");
	if (rc >= 0 && (rank > MOST_DIMS || kind < 0 || kind >= (int)sizeof type_bytes || !type_bytes[kind]))
		rc = fail(E_UNSUPPORTED, "input %zu has type %d, rank %zu", i, kind, rank);
	if (rc >= 0)
		rc = check(o, CALL(o, DIMS, (void *, int64_t *, size_t))(tensor, dim, rank), "input");
	if (rc < 0)
		return rc;
	bytes = type_bytes[kind];
	for (size_t d = 0; d < rank; d++) {
		dim[d] = dim[d] < 1 ? 1 : dim[d];
		bytes *= (size_t)dim[d];
	}
	void *data = calloc(1, bytes);
	if (!data)
		return fail(E_NOMEM, "no memory for input %zu", i);
	return check(
	    o,
	    CALL(o, TENSOR_FROM_DATA, (void *, void *, size_t, const int64_t *, size_t, int, void **))(
		o->memory, data, bytes, dim, rank, kind, &o->in[i]),
	    "input");
}

static int find_names(struct ort *o)
{
	void *allocator = NULL;
	int rc = check(o, CALL(o, ALLOCATOR, (void **))(&allocator), "allocator");
	if (rc >= 0)
		rc = check(o, CALL(o, INPUT_COUNT, (void *, size_t *))(o->session, &o->nin), "inputs");
	if (rc >= 0)
		rc = check(o, CALL(o, OUTPUT_COUNT, (void *, size_t *))(o->session, &o->nout), "outputs");
	if (rc >= 0 && (o->nin > ORT_MOST || o->nout > ORT_MOST))
		rc = fail(E_UNSUPPORTED, "%zu inputs, %zu outputs", o->nin, o->nout);
	for (size_t i = 0; i < o->nin && rc >= 0; i++)
		rc = check(o,
			   CALL(o, INPUT_NAME, (void *, size_t, void *, char **))(o->session, i, allocator,
										  &o->in_name[i]),
			   "inputs");
	for (size_t i = 0; i < o->nout && rc >= 0; i++)
		rc = check(o,
			   CALL(o, OUTPUT_NAME, (void *, size_t, void *, char **))(o->session, i, allocator,
										   &o->out_name[i]),
			   "outputs");
	return rc;
}

int ort_load(struct ort *o, const char *model)
{
	int rc = check(o,
		       CALL(o, CREATE_SESSION,
			    (void *, const char *, void *, void **))(o->env, model, o->options, &o->session),
		       "load");
	if (rc >= 0)
		rc = find_names(o);
	for (size_t i = 0; i < o->nin && rc >= 0; i++)
		rc = make_input(o, i);
	return rc;
}

int ort_run(struct ort *o)
{
	void *out[ORT_MOST] = {NULL};
	int rc =
	    check(o,
		  CALL(o, RUN,
		       (void *, void *, char *const *, void *const *, size_t, char *const *, size_t,
			void **))(o->session, NULL, o->in_name, o->in, o->nin, o->out_name, o->nout, out),
		  "run");
	for (size_t i = 0; i < o->nout && rc >= 0; i++)
		((void (*)(void *))o->f[RELEASE_VALUE])(out[i]);
	return rc;
}
