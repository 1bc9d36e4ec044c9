/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that take a MODEL share: their options, the machine, the model imported, optimised and
 * divided. */
#ifndef TOOLS_MODEL_H
#define TOOLS_MODEL_H

#include "agent/cache/chosen.h"
#include "agent/run/machine.h"
#include "kernels/onnx/import.h"
#include "tools/hone/cmd.h"

/* Rows for the table of options. */
#define OPT_SHAPE                                                                                            \
	{                                                                                                    \
		"shape", OPT_LIST, "NAME=DIMS",                                                              \
		    "size of an input (image=1x3x320x320) or of a symbolic dimension (N=4)"                  \
	}
#define OPT_THREADS                                                                                          \
	{                                                                                                    \
		"threads", OPT_INT, "N", "threads (default: every core)"                                     \
	}
#define OPT_CACHE                                                                                            \
	{                                                                                                    \
		"cache", OPT_STR, "DIR",                                                                     \
		    "where results are kept (default: honed's where it runs, else $XDG_CACHE_HOME/hone)"     \
	}
#define OPT_CACHE_LIMIT                                                                                      \
	{                                                                                                    \
		"cache-limit", OPT_SIZE, "32M",                                                              \
		    "what the cache's files may take; code goes first (default: $HONE_CACHE_LIMIT, else "    \
		    "what the last writer was given, at least 64M)"                                          \
	}

/* The default folder: that of a honed which runs and lets us read it, else the user's. E_NOTFOUND: there is
 * none. */
int model_cache_default(char *out, size_t n) MUST_CHECK;
/* The folder of --cache, or the default one, into dir. */
int model_cache_dir(const struct args *a, char *out, size_t n) MUST_CHECK;
/* For commands with OPT_CACHE_LIMIT: that, else the environment's, else 0. 1 MiB to
 * CACHE_MOST_BYTES. */
int model_cache_limit(const struct args *a, int64_t *bytes) MUST_CHECK;
/* The cache in that folder. To be read it has to be there: E_NOTFOUND; to be written it is made, and the
 * command has OPT_CACHE_LIMIT. */
int model_cache_open(const struct args *a, bool to_write, char *dir, size_t n, struct cache **out) MUST_CHECK;
/* rc of looking for the folder, for what can do without: where none is known it says so, and dir is "". */
int model_cache_or_none(int rc, char *dir) MUST_CHECK;
/* --threads, within what the target has. */
int model_threads(const struct args *a, const struct target *t) MUST_CHECK;
struct model {
	const char *path;
	struct graph *g; /* optimised */
	struct arena arena;
	struct choices choices; /* that made the steps what they are */
	struct steps *steps;
	struct step_task *task; /* unique */
	int ntasks;
	int64_t load_ns; /* import and passes */
};

/* --shape as the importer wants it, in the arena. Returns the count. */
int model_binds(const struct args *a, struct arena *arena, const struct import_bind **out) MUST_CHECK;
/* The graph as the file has it, with --shape applied. */
int model_import(const struct args *a, const char *path, struct graph **out) MUST_CHECK;
int model_open(const struct args *a, const char *path, const struct chosen_for *f,
	       struct model *out) MUST_CHECK;
void model_close(struct model *m);

/* Seeded inputs: floats in [-1, 1], integers 0 and 1. ninputs tensors in the arena. */
int model_inputs(const struct graph *g, uint64_t seed, struct arena *a, struct tensor **out) MUST_CHECK;
/* Allocated outputs. */
int model_outputs(const struct graph *g, struct arena *a, struct tensor **out) MUST_CHECK;
/* "resnet18" of "/x/resnet18.onnx"; of "/x/net/model.onnx" it is "net". */
const char *model_name(const char *path, struct arena *a);

#endif
