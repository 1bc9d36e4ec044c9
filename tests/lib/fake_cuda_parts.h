/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the CUDA driver that lies: fake_cuda.c (which says what its lies are), fake_cuda_graph.c and
 * fake_cuda_programs.c. */
#ifndef TESTS_FAKE_CUDA_PARTS_H
#define TESTS_FAKE_CUDA_PARTS_H

#include "platform/run/cuda_api.h"
#include "tests/lib/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEEN __attribute__((visibility("default")))
#define DECLARE(name, args) SEEN int name args;
CUDA_CALLS(DECLARE)
#ifdef FAKE_CUDA_OLD /* a driver without graphs */
#undef SEEN
#define SEEN
#endif
CUDA_GRAPH_CALLS(DECLARE)
#undef SEEN
#define SEEN __attribute__((visibility("default")))

/* Calls of this process, for tests. */
extern SEEN int fake_cuda_links, fake_cuda_loads, fake_cuda_launches; /* launches: also those of graphs */
/* Graphs that were made and not destroyed; their launches. */
extern SEEN int fake_cuda_graphs, fake_cuda_graph_starts;

enum { NOT_INITIALIZED = 3, INVALID_HANDLE = 400, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901 };
enum { SHARED_MOST = 163 << 10 /* of sm_87 */ };
enum { DEVICES = 64, BLOCKS = 4096, IMAGES = 4096, PARAMS = 256, DEPTH = 16 };

struct module {
	struct ptx *ptx;
	struct function *functions;
};

struct function {
	struct module *module;
	char name[64];
	int nparams;
	bool ran;
	int shared_most; /* bytes of dynamic shared memory that it may ask for; 0: the usual number */
	struct function *next;
};

struct launch {
	struct function *f;
	unsigned grid[3], block[3];
	int number;      /* of the process's launches */
	unsigned shared; /* bytes of dynamic shared memory */
	uint64_t value[PARAMS];
	struct launch *next;
};

struct stream {
	int device;
	bool captures, invalid; /* its launches become a graph; the capture was broken */
	struct launch *first, **last;
};

extern uint64_t linked[IMAGES];                /* hashes of what this process has linked */
extern _Thread_local struct stream *capturing; /* by this thread */

bool lies(const char *name);
/* Whether a lie is told about call or launch n. */
bool lies_at(const char *name, int n);
enum premise { NOTHING, STARTED, CURRENT, UNSAFE /* CURRENT, and breaks a capture of this thread's */ };
/* What each call begins with: its lie, and what a driver needs. The lock is held if it is CUDA_SUCCESS. */
int begin(const char *call, enum premise need);
int end(int code);
/* NULL where the lie says so. */
void *made(const char *call, void *p);
struct stream *stream_of(void *stream); /* NULL: no stream of the present context */
/* A stream that is asked or waited for while its launches are captured breaks the capture. */
struct stream *ready_stream(void *stream, int *code);
void free_launches(struct launch *l);

#define BEGIN(need)                                                                                          \
	int code = begin(__func__, need);                                                                    \
	if (code != CUDA_SUCCESS)                                                                            \
	return code

#endif
