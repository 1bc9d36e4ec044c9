/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of hone doctor: what each file of it adds to the findings. Not for others. */
#ifndef AGENT_DOCTOR_PARTS_H
#define AGENT_DOCTOR_PARTS_H

#include "agent/control/conf.h"
#include "tools/hone/doctor.h"
#include "platform/machine/board.h"
#include "platform/machine/sysfile.h"
#include "platform/machine/vitals.h"
#include <jansson.h>

enum { FINDINGS = 64 };

struct doctor {
	const struct doctor_options *o;
	const char *root, *check;
	struct arena *a;
	struct finding *finding;
	int n;
	struct vitals v, later;        /* two readings, 150 ms apart */
	char model[96], cmdline[2048]; /* "" if unknown */
	bool raspberry, jetson;
	struct board_file board;   /* "" file: none */
	struct gate_limits limits; /* from the configuration, if there is a valid one */
	const char *store;         /* folder of honed's cache; NULL: not configured */
	const char *socket;        /* honed's, from the configuration; NULL: there is none */
	const char *asked;         /* the socket at which honed was asked for its status; NULL: not yet */
	json_t *status;            /* its answer; NULL: none came, and `silence` says why */
	const char *silence;
	const char *cache; /* of the honed that answers; NULL: none does */
	int pid;           /* its process; 0: not known */
};

/* Adds a finding. A finding of kind OK has no remedy. */
__attribute__((format(printf, 4, 5))) void doctor_say(struct doctor *d, enum finding_kind k,
						      const char *remedy, const char *fmt, ...);
#define doctor_good(d, ...) doctor_say(d, FINDING_OK, "", __VA_ARGS__)

/* Whether systemd runs on the machine and knows a unit, such as "honed.service": else no advice names it. */
bool doctor_has_unit(const struct doctor *d, const char *unit);

typedef void doctor_check(struct doctor *d);
doctor_check doctor_identity, doctor_gate, doctor_governor, doctor_clock, doctor_mode, doctor_cores,
    doctor_heat, doctor_throttle, doctor_battery, doctor_pressure, doctor_memory_group, doctor_memory,
    doctor_swap, doctor_time;
doctor_check doctor_cache, doctor_records, doctor_store, doctor_space, doctor_flash, doctor_configuration,
    doctor_honed, doctor_units, doctor_opencl, doctor_cuda, doctor_worker, doctor_devices, doctor_code,
    doctor_limits;

#endif
