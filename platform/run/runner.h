/* SPDX-License-Identifier: Apache-2.0 */
/* The runner: all that search sees of a machine. Task and candidate go in as opaque canonical text,
 * measurements and code come out; parsing, lowering, emitting and checking happen behind it (in the worker,
 * or in-process for the simulator).
 *
 * A built candidate is a small handle >= 0, valid until drop or until the runner dies. A failing candidate is
 * data: the call returns E_OK with meas.status. Only a failing machine is an error (E_CHILD: the worker died
 * and was replaced; every handle is gone, the caller builds again what it still needs). Every call respects
 * deadline_ns on the runner's clock (INT64_MAX: none) and returns E_TIMEOUT soon after it, or earlier if the
 * candidate hangs: then the worker may have been replaced, and the caller treats every handle as gone. One
 * caller at a time.
 *
 * Builds may run ahead on other cores: ahead() begins one and returns at once; build() of the same candidate
 * takes the code and only has to load and check it. If a build ahead failed, or its builder died, build()
 * returns that failure. */
#ifndef PLATFORM_RUNNER_H
#define PLATFORM_RUNNER_H

#include "platform/base/clock.h"
#include "platform/base/file.h"
#include "platform/base/meas.h"
#include "platform/machine/target.h"

/* Handles for drop(). */
enum {
	DROP_ALL = -1,    /* all, and all builds ahead */
	DROP_DEVICE = -2, /* the same, and the device: a worker that has a sole one
			     (platform/run/device_name.h) ends, and the next call starts another */
};

struct runner {
	const struct runner_ops *ops;
	struct clock *clock;         /* the clock of measurements and deadlines */
	const struct target *target; /* the target of candidates; owned by the runner */
	int threads;                 /* threads that candidates are measured with */
	char emitter[32];            /* name and version of the emitter */
	int builders;                /* builds that may run ahead at a time; 0: none */
};

enum ahead {
	AHEAD_NOT,     /* never begun, or forgotten: build() does all the work */
	AHEAD_QUEUED,  /* no builder has begun it: build() does all the work */
	AHEAD_RUNNING, /* build() waits until it ends */
	AHEAD_DONE,
};

enum time_how {
	TIME_COLD =
	    1, /* inputs as a network sees them (weights not in any cache, the rest warm), else all warm */
	TIME_QUIET = 2, /* builders pause meanwhile */
	TIME_PART = 4, /* a quarter of the parallel range, evenly spread, where it has parts enough; times are
			  of the whole */
};

struct runner_ops {
	/* Builds `cand` of `task` and checks its answer. *handle is -1 unless m->status is MEAS_OK (not timed
	 * yet: runs 0). */
	int (*build)(struct runner *r, const char *task, const char *cand, int64_t deadline_ns, int *handle,
		     struct meas *m);
	/* Begins to build it on another core. Returns the state of that build; AHEAD_NOT: there is no room.
	 * The result need not be used: later builds replace it. */
	enum ahead (*ahead)(struct runner *r, const char *task, const char *cand);
	/* The state of that build. */
	enum ahead (*progress)(struct runner *r, const char *task, const char *cand);
	/* Time n handles interleaved: `rounds` rounds, each handle run once per round in shuffled order (a
	 * run is repeated inside a round until it lasts >= 5 us). A handle whose first run is slower than
	 * abort_ns (0: never) is dropped from the rounds with MEAS_ABORTED, and one whose launch the device
	 * refuses (it may lack memory for a moment) with MEAS_INFEASIBLE. m[i] belongs to handles[i]. how:
	 * enum time_how, or-ed. After E_CHILD, m says which kernel ran when the worker was lost, if that is
	 * known (meas_blame(): MEAS_TIMEOUT if it hung, else MEAS_CRASH); else all are MEAS_CRASH, or, if
	 * none ran, none is blamed. */
	int (*time)(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns, unsigned how,
		    int64_t deadline_ns, struct meas *m);
	/* Copies the code (kernels/loops/code.h bytes) of a handle into the arena. */
	int (*code)(struct runner *r, int handle, int64_t deadline_ns, struct arena *a, struct blob *out);
	void (*drop)(struct runner *r, int handle, int64_t deadline_ns); /* a handle, DROP_ALL, DROP_DEVICE */
	void (*close)(struct runner *r);                                 /* stops the worker; frees r */
};

#endif
