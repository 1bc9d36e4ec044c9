/* SPDX-License-Identifier: Apache-2.0 */
/* Plans on a device that has memory of its own (platform/run/dev.h). A kernel source names the device that
 * its code is for; the plan's steps that have such code run there, all others on the processor. The device
 * holds a copy of the plan's weights, and those that kernels read as textures once more as such. Where it
 * shares the processor's memory, the plan's tensors lie in memory of the device, and the processor works on
 * them there, without a copy: their part that its next steps touch is mapped behind the device's steps and
 * unmapped before them, as OpenCL demands. Else, or if the driver refuses to map, the device holds a copy of
 * the tensors, too. Which of them cross between two steps, and when, is decided once, when the plan is built:
 * those that the next step reads, or writes a part of, and whose latest bytes are on the other side. A plan
 * whose tensors do not fit is not built: E_NOMEM. If only the textures do not fit, or one cannot be made, the
 * plan is built once more without the kernels that read textures. A kernel that the driver fails
 * to build is left to the
 * processor. A run on a device that fails, or needs 200 times what its peaks allow and some seconds, ends
 * with E_IO, its outputs undefined; a plan without the device then gives the answer.
 *
 * libhone does not link this, but opens it as a library of its own (agent/run/device_lib.h). */
#ifndef AGENT_PLAN_DEVICE_H
#define AGENT_PLAN_DEVICE_H

#include "agent/run/plan.h"
#include "platform/run/dev.h"

struct plan_device;

/* Opens the device of a name ("cuda:0"). E_NOTFOUND, E_UNSUPPORTED, E_IO: it cannot be used. */
int plan_device_open(const char *name, struct plan_device **out) MUST_CHECK;
/* For tests: the same for a device (with memory of its own) that is in no table. */
int plan_device_open_as(const struct dev *dev, const char *name, struct plan_device **out) MUST_CHECK;
/* After the plans on it. */
void plan_device_close(struct plan_device *d);
/* After a plan was built. E_IO: its driver has failed to build each kernel so far, so that all steps run on
 * the processor; the text says why. */
int plan_device_built(const struct plan_device *d) MUST_CHECK;
/* A process that uses a device writes here, in memory that it shares with a process that watches it, because
 * drivers hang and crash. */
struct plan_device_watch {
	_Atomic int64_t since_ns; /* when the call into a driver began, on the real clock; 0: none */
	atomic_bool failed;       /* a device was not there, built no kernel, held no plan, or failed a run */
};
/* From now on this process writes there for all of its devices; NULL: nobody watches. */
void plan_device_watched_by(struct plan_device_watch *w);
/* For tests: the time that runs wait for a device beside what its peaks allow (default: 10 s). */
void plan_device_spare(int64_t ns);
/* Its target without peaks. */
void plan_device_target(const struct plan_device *d, struct target *t);

/* Each run of a plan does this on the device. */
struct plan_device_use {
	int steps;          /* of the plan, that run there */
	int launches;       /* of kernels */
	int copies;         /* between the processor's memory and the device's */
	int64_t to_bytes;   /* to the device */
	int64_t from_bytes; /* from the device */
	int64_t held_bytes; /* of its memory, for tensors, weights and scratch */
	int maps;           /* of tensors that the processor gets without a copy */
	int graphs;         /* calls that start several launches each (agent/run/plan_graph.h) */
	const char *graphs_why; /* the first error of a graph; lives as long as the plan; NULL, "": none */
};
/* All zero: the plan has no device. */
struct plan_device_use plan_device_use(const struct plan *p);

#endif
