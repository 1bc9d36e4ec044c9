/* SPDX-License-Identifier: Apache-2.0 */
/* honed's configuration: /etc/hone/honed.conf, then the files honed.conf.d/NAME.conf beside it in the order
 * of their names; a later line overrides an earlier one. The format is INI. A comment begins with # or ; at
 * the start of a line, or with a blank and ; after a value:
 *
 *   [honed]       cache = DIR, cache_limit = 64M, socket = PATH, policy = NAME, log = quiet|normal|verbose,
 *                 library = none|NAMES (of models whose section does not say it)
 *   [boot]        budget = 20s (0s: no box), jobs = N (at once; 0: honed chooses by cores and memory),
 *                 unclean = 3 (after so many boot boxes in a row that did not end, there are no more)
 *   [idle]        tune = yes|no, slice = 30s, hours = 22:00-06:00 (local time; always), load = 25%,
 *                 pressure = 10%, headroom = 15 (degrees C), battery = 30%, memory = 128M, settle = 10s,
 *                 rest = 10m (pause after a slice without gain; it doubles each time, up to a day)
 *   [limits]      memory = 0 (writable memory of each process of a job; 0: half of the board's memory, at
 *                 least 512M), jobs = 1, writes = 20M (to flash, per day of uptime)
 *   [inhibit]     file = PATH (this key may be repeated)
 *   [model NAME]  path = FILE, threads = N, priority = N, level = exact|fp32|w16|half|half-sum|int8
 *                 (exact = yes: level = exact), shape = NAME=1x3x224x224
 *                 (as --shape of hone tune; this key may be repeated, once for a name), device = cpu cuda:0
 *                 (one or several; the model is tuned on each), library = none|NAMES (as --library of hone
 *                 tune; on the processor)
 *   [sync]        any keys: they are kept, and honed runs whatever they are (agent/control/sync_conf.h)
 *
 * configs/honed.conf shows each key with its default. A line has at most 197 bytes of UTF-8. If a section or
 * key is unknown, or a value is out of range, the whole configuration is refused: E_USAGE, "FILE:LINE: what;
 * what is allowed", the first mistake; conf_check finds all, and those of [sync], and what a file gives
 * twice. Without any file the defaults apply. */
#ifndef AGENT_CONF_H
#define AGENT_CONF_H

#include "agent/control/gate.h"
#include "kernels/task/level.h"
#include "platform/base/arena.h"
#include "platform/base/buf.h"
#include "platform/run/device_name.h"

#define CONF_FILE "/etc/hone/honed.conf"
/* How a model's section gives an input's shape, for errors: NAME=DIMS follows. */
#define SHAPE_LINE "shape = "
#define SHAPE_OF_CONF "in honed.conf: " SHAPE_LINE
enum { CONF_MODELS = 64, CONF_SHAPES = 8, CONF_DEVICES = 8, CONF_DEVICE_NAME = DEVICE_NAME };
/* The fastest cluster of the processor, which is what a model is tuned for unless its section says more. */
#define CONF_CPU "cpu"

struct conf_shapes { /* "NAME=DIMS" each */
	const char **shape;
	int n;
};

struct conf_devices {
	const char **name;
	int n;
};

/* A model on one device. A section with several devices becomes as many of these, one after the other, when
 * all files are read. */
struct conf_model {
	const char *name, *path;
	const char *device;          /* NULL: the processor; else as "cuda:0", which need not be there */
	struct conf_devices devices; /* as the section gives them; none: the processor */
	struct conf_shapes shapes;
	const char *library; /* names, as --library of hone tune takes them; after conf_spread NULL: none */
	const char *file; /* file and line of its first section */
	int line;
	int threads;  /* 0: the number that hone tune chooses */
	int priority; /* -100 to 100 */
	enum level level;
};

struct conf_sync {
	const char *key, *value, *file;
	int line;
};

struct conf {
	const char *cache; /* NULL: $STATE_DIRECTORY/cache, else /var/lib/hone/cache */
	const char *cache_file; /* file and line that give it */
	int cache_line;
	const char *socket, *policy, *library;
	int64_t cache_bytes;
	int log; /* enum log_level */
	int64_t boot_budget_ns;
	int boot_jobs, boot_unclean;
	bool idle;
	int64_t slice_ns, rest_ns;
	struct gate_limits gate;
	int64_t job_memory_bytes, writes_bytes; /* job_memory_bytes 0: derived from the board's memory */
	int jobs;
	int ninhibit;
	const char **inhibit;
	int nmodels;
	struct conf_model *model;
	int nsync;
	struct conf_sync *sync;
};

/* Reads the main file `path`, then the drop-ins in path.d. Everything lives in the arena. */
int conf_read(const char *path, struct arena *a, struct conf *out) MUST_CHECK;
/* Reads the same files and appends every mistake as a line "FILE:LINE: what; what is allowed", in the order
 * of the files and lines; paths that are missing come last in a file. Keys of a section that is itself a
 * mistake are skipped. A section or key that one file gives twice is a mistake here, although conf_read lets
 * the later one override the earlier one; so are mistakes in [sync]. Returns the number of mistakes, and in
 * *out what is good; a model whose path is a mistake has the path "". */
int conf_check(const char *path, struct arena *a, struct conf *out, struct buf *mistakes) MUST_CHECK;
/* Checks that a main file that a command line names, or its folder of drop-ins, is there: else E_NOTFOUND. */
int conf_given(const char *path) MUST_CHECK;
/* Whether it is CONF_CPU, a cluster "cpu:NAME", or names a device that honed can hand to `hone tune --device`
 * (platform/run/device_name.h). */
bool conf_is_device(const char *name);
/* Whether it is NAME=DIMS; NAME:DIMS, the form of older files, is it, too. */
bool conf_is_shape(const char *value);
/* CONF_CPU for NULL. */
const char *conf_device_name(const char *device);
/* Reads a list of up to CONF_DEVICES such names with blanks between them, in the arena. E_USAGE: it is none;
 * *twice: the name that it has twice, NULL: another mistake. */
int conf_devices_parse(struct arena *a, const char *value, struct conf_devices *out,
		       const char **twice) MUST_CHECK;
/* Whether it is a list of libraries' names as --library of hone tune takes it, or CONF_NONE. */
bool conf_is_libraries(const char *value);
#define CONF_NONE "none"
/* Makes of each model one for each of its devices, with the libraries that hold there: E_USAGE with
 * the file and line of the first model that is left out, if they are more than CONF_MODELS then. Once, after
 * the last conf_text. */
int conf_spread(struct arena *a, struct conf *c) MUST_CHECK;
/* Reads one file's text into *c, over the values from conf_defaults or an earlier conf_text; `name` is for
 * errors. */
void conf_defaults(struct conf *c);
int conf_text(const char *name, const char *text, size_t n, struct arena *a, struct conf *c) MUST_CHECK;
/* The same, but appends mistakes as conf_check does and returns their number; mistakes NULL: as conf_text. */
int conf_collect(const char *name, const char *text, size_t n, struct arena *a, struct conf *c,
		 struct buf *mistakes) MUST_CHECK;
/* Reads the last hone.budget=20s of a kernel command line. Returns 1; 0: there is none; an invalid value is
 * an error. */
int conf_cmdline_budget(const char *cmdline, int64_t *ns) MUST_CHECK;

#endif
