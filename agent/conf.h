/* SPDX-License-Identifier: Apache-2.0 */
/* honed's configuration: /etc/hone/honed.conf, then /etc/hone/honed.conf.d/(name).conf by name; later lines
 *win. INI:
 *
 *	[honed]   cache = DIR   cache_limit = 64M   socket = PATH   policy = NAME   log = quiet|normal|verbose
 *	[boot]    budget = 20s   jobs = N (0: as many as fit)   unclean = 3 (boxes in a row, then none)
 *	[idle]    tune = yes|no   slice = 30s   hours = 22:00-06:00   load = 25%   pressure = 10%   headroom =
 *15 (degrees C)   battery = 30%   memory = 128M   settle = 10s   rest = 10m (after a slice that won nothing;
 *twice as long each time, a day at most) [limits]  memory = 512M (of a job)   jobs = 1   writes = 20M (a day,
 *to flash) [inhibit] file = PATH (as often as wanted) [model NAME]  path = FILE   threads = N   priority = N
 *exact = yes|no   shape = INPUT:1x3x224x224 [sync]    (keys belong to the fleet's part; any are kept and
 *passed on)
 *
 * A file with an unknown section or key, or a value out of range, is refused as a whole, with its name, line
 *and what is allowed. No file at all is the defaults. */
#ifndef AGENT_CONF_H
#define AGENT_CONF_H

#include "agent/gate.h"
#include "platform/arena.h"

#define CONF_FILE "/etc/hone/honed.conf"

struct conf_model {
	const char *name, *path;
	const char *shape; /* NULL: as the model says */
	int threads;       /* 0: as hone tune chooses */
	int priority;      /* -100 to 100 */
	bool exact;
	int line;
};

struct conf {
	const char *cache, *socket,
	    *policy; /* cache NULL: $STATE_DIRECTORY/cache, else /var/lib/hone/cache */
	int64_t cache_bytes;
	int log;
	int64_t boot_budget_ns;
	int boot_jobs, boot_unclean;
	bool idle;
	int64_t slice_ns, rest_ns;
	struct gate_limits gate;
	int64_t job_memory_bytes, writes_bytes;
	int jobs;
	int ninhibit;
	const char **inhibit;
	int nmodels;
	struct conf_model *model;
};

/* path: the main file; drop-ins lie in path.d. Everything lives in the arena. */
int conf_read(const char *path, struct arena *a, struct conf *out) MUST_CHECK;
/* hone.budget=20s of a kernel command line. 0: it says nothing of it; what cannot be understood is an error.
 */
int conf_cmdline_budget(const char *cmdline, int64_t *ns) MUST_CHECK;

#endif
