/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the commands that take a MODEL: their options, the machine, and the model, imported, optimised
 * and divided into tasks. */
#ifndef TOOLS_MODEL_H
#define TOOLS_MODEL_H

#include "agent/cache/chosen.h"
#include "agent/cache/recipe.h"
#include "agent/run/machine.h"
#include "kernels/onnx/import.h"
#include "kernels/task/level.h"
#include "tools/hone/cmd.h"

/* Rows for the table of options. */
#define OPT_SHAPE                                                                                            \
	{                                                                                                    \
		"shape", OPT_LIST, "NAME=DIMS",                                                              \
		    "free size of an input (image=1x3x320x320) or of a symbolic dimension (N=4), or the "    \
		    "value of an integer scalar input (sr=16000); needed where the model leaves it free, "   \
		    "except for a batch size, which is 1; an input's shape also replaces sizes that the "    \
		    "model fixes, where its operators allow that"                                            \
	}
#define OPT_THREADS                                                                                          \
	{                                                                                                    \
		"threads", OPT_INT, "N",                                                                     \
		    "threads of the processor (default: every core); with a --device, of what the "          \
		    "processor runs beside it",                                                              \
		    .also = "t j"                                                                            \
	}
#define OPT_DEVICE                                                                                           \
	{                                                                                                    \
		"device", OPT_STR, "NAME",                                                                   \
		    "cpu (default: its fastest cluster), or cpu:CLUSTER, opencl:N or cuda:N as hone "        \
		    "devices lists it",                                                                      \
		    .words = model_devices                                                                   \
	}
#define OPT_LEVEL                                                                                            \
	{"level", OPT_STR, "LEVEL",                                                                          \
	 "how much kernels may round: exact (they keep the set of multiplications, so no Winograd), fp32 "   \
	 "(default), w16 (weights may be stored as 16-bit floats), half (products of 16-bit floats, summed " \
	 "in 32 bits), half-sum (as half, and on Arm processors and OpenCL devices that add 16-bit floats, " \
	 "sums of up to 72 products in 16 bits; values beyond 65504 become infinite), or int8 (8-bit "       \
	 "integers, once hone tune --level int8 --data DIR has seen examples of inputs)",                    \
	 .values = "exact fp32 w16 half half-sum int8"},                                                     \
	{                                                                                                    \
		"exact", OPT_FLAG, NULL, "the same as --level exact"                                         \
	}
#define OPT_CACHE                                                                                            \
	{                                                                                                    \
		"cache", OPT_STR, "DIR",                                                                     \
		    "cache folder (default: honed's if it runs, else $XDG_CACHE_HOME/hone)"                  \
	}
#define OPT_CACHE_LIMIT                                                                                      \
	{                                                                                                    \
		"cache-limit", OPT_SIZE, "128M",                                                             \
		    "limit of the cache's size; code is removed first (default: $HONE_CACHE_LIMIT, else "    \
		    "the last writer's limit, at least 64M)"                                                 \
	}

#define OPT_WAIT                                                                                             \
	{                                                                                                    \
		"wait", OPT_DURATION_OR_NONE, "[=5m]",                                                       \
		    "if another process writes the cache, wait until it ends (for that long at most)"        \
	}

/* The socket at which honed is asked for its cache, as --socket names it; NULL: the default one. */
void model_cache_of_socket(const char *socket);
/* The default cache folder: that of a running honed if we may read it, else the user's. E_NOTFOUND: neither
 * exists. */
int model_cache_default(char *out, size_t n) MUST_CHECK;
/* Whether the folder `dir` holds no records or is missing, while the user's own cache, whose name `own` then
 * holds, has some. */
bool model_cache_own_instead(const char *dir, char *own, size_t n);
/* Whether `dir` is what model_cache_default found last; asks nobody. */
bool model_cache_was_default(const char *dir);
/* Copies the folder of --cache, or the default one, to `out`. Neither needs to exist. */
int model_cache_dir(const struct args *a, char *out, size_t n) MUST_CHECK;
/* Checks that a folder that --cache names for reading is one: E_NOTFOUND: it is missing; E_USAGE: it is
 * something else. */
int model_cache_check(const char *dir) MUST_CHECK;
/* Warns on standard error if a part of the cache (NULL: none) is damaged. */
void model_cache_warn(const struct cache *c);
/* As model_cache_dir, but the folder of --cache must exist (model_cache_check); the default one need not. */
int model_cache_to_read(const struct args *a, char *out, size_t n) MUST_CHECK;
/* For commands with OPT_CACHE_LIMIT: the option's value, else the environment's, else 0. 1 MiB to
 * CACHE_MOST_BYTES. */
int model_cache_limit(const struct args *a, int64_t *bytes) MUST_CHECK;
/* Opens the cache in that folder. For reading it must exist (E_NOTFOUND); for writing it is created, and the
 * command must have OPT_CACHE_LIMIT and OPT_WAIT. */
int model_cache_open(const struct args *a, bool to_write, char *dir, size_t n, struct cache **out) MUST_CHECK;
/* The same for a folder that model_cache_dir gave: asking again may give another, if honed starts or ends. */
int model_cache_open_in(const struct args *a, bool to_write, const char *dir, struct cache **out) MUST_CHECK;
/* Whether --cache names a folder without records: commands that only read say so, and do not read the user's
 * own cache, which the cache lays above a folder that it may not write (agent/cache/cache.h). */
bool model_cache_is_bare(const char *dir);
/* Opens the cache in that folder for reading, as model_cache_is_bare says. */
int model_cache_read(const char *dir, struct cache **out) MUST_CHECK;
/* The user's own cache, if its records lie above those of `dir`; else NULL. It lives as long as the cache. */
const char *model_cache_above(const struct cache *c, const char *dir);
/* Appends the name of the folder, and that of model_cache_above: "DIR and OTHER". */
void model_cache_names(const struct cache *c, const char *dir, struct buf *out);
/* If --wait was given: waits until no other process writes the folder, and takes its lock. *lock_fd is for
 * struct cache_options; -1: there was nothing to wait for. */
int model_cache_wait(const struct args *a, const char *dir, int *lock_fd) MUST_CHECK;
/* Whether `dir` is the cache folder of a honed that runs. */
bool model_cache_is_daemons(const char *dir);
/* As model_cache_to_read, for commands that can do without a cache: if neither --cache nor the environment
 * names a folder, logs it and sets dir to "". */
int model_cache_or_none(const struct args *a, char *dir, size_t n) MUST_CHECK;
/* The level of --level or --exact; fp32 if neither was given. E_USAGE: no such level, or both differ. */
int model_level(const struct args *a, enum level *out) MUST_CHECK;
/* Value of --threads, 1 to 64; without it, the target's cores. */
int model_threads(const struct args *a, const struct target *t) MUST_CHECK;
/* E_USAGE: --device names no device that networks run on. */
int model_device_check(const struct args *a) MUST_CHECK;
/* The device of --device that has memory of its own; NULL: the processor. */
const char *model_device(const struct args *a);
/* Binds this process to the cluster that --device cpu:NAME names. */
int model_place(const struct args *a) MUST_CHECK;
/* From now on that is the processor, whatever --device says. why: a sentence, copied. */
void model_leave_device(const char *why);
/* Why the device of --device was left; NULL: it was not, or none was given. */
const char *model_left_device(void);
/* Adds the names of the devices, for the bash completion: it asks the program once they are needed, whose
 * child process loads the drivers (tools/hone/drivers.h). */
void model_devices(struct buf *out);
struct model {
	const char *path;
	struct graph *g; /* optimised */
	struct arena arena;
	struct recipe recipe;   /* layers 0: it was not quantised */
	struct choices choices; /* the choices by which `steps` was made */
	struct steps *steps;
	struct step_task *task; /* no duplicates */
	int ntasks;
	int64_t load_ns; /* import and passes */
	const bool *took; /* of each --shape, whether this model has it; NULL: it has all */
	const char *floats; /* why level int8 quantised nothing of a network of floats; NULL: it did */
	const char *nan;    /* says which weight holds NaN (kernels/graph/weights.h); NULL: none */
	const char *infinite; /* the same of infinities; NULL: none, or `nan` is set */
};

/* The values of --shape and the shapes of the files of --input as the importer takes them, in the arena.
 * Returns the count. */
int model_binds(const struct args *a, struct arena *arena, const struct import_bind **out) MUST_CHECK;
/* Reads the graph from the file and applies --shape; no passes. If the batch size is taken as 1, standard
 * error gets a line that says so. */
int model_import(const struct args *a, const char *path, struct graph **out) MUST_CHECK;
int model_open(const struct args *a, const char *path, const struct chosen_for *f,
	       struct model *out) MUST_CHECK;
/* The same, where kernels do not come from f->cache; `recipes` (may be NULL) has the recipe of level int8. */
int model_open_with(const struct args *a, const char *path, const struct chosen_for *f, struct cache *recipes,
		    struct model *out) MUST_CHECK;
/* Divides the model so that quantised operators are tasks, as hone tune may do. For commands that list what
 * can be tuned, and for default kernels. */
int model_take_bytes(struct model *m, const struct target *t) MUST_CHECK;
/* The same, whatever the model's choices leave to portable code: that has no form as C source. */
int model_take_all_bytes(struct model *m, const struct target *t) MUST_CHECK;
/* Whether none of its operators has kernels to choose from, so that hone tune could do nothing. */
bool model_is_untunable(const struct model *m);
#define UNTUNABLE "nothing of this model can be tuned: none of its operators has kernels to choose from"
/* For commands that compare several models. E_USAGE: none of them has the input or dimension of a --shape. */
int model_shapes_met(const struct args *a, const struct model *const *m, int n) MUST_CHECK;
bool model_took_all(const struct args *a, const struct model *m); /* it has those of every --shape */
void model_close(struct model *m);

/* Seeded inputs: floats in [-1, 1], integers 0 and 1. *out has ninputs tensors in the arena. */
int model_inputs(const struct graph *g, uint64_t seed, struct arena *a, struct tensor **out) MUST_CHECK;
/* Allocates the tensors of the outputs. */
int model_outputs(const struct graph *g, struct arena *a, struct tensor **out) MUST_CHECK;
/* "resnet18" for "/x/resnet18.onnx"; "net" for "/x/net/model.onnx". */
const char *model_name(const char *path, struct arena *a);

#endif
