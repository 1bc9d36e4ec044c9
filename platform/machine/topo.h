/* SPDX-License-Identifier: Apache-2.0 */
/* Topology: cores, hyper-threads, caches. topo_read asks hwloc, which hone and hone-worker alone link; the
 * rest asks sysfs. */
#ifndef PLATFORM_TOPO_H
#define PLATFORM_TOPO_H

#include "platform/machine/target.h"

struct topo {
	int cores;          /* physical cores this process may use */
	int threads;        /* hardware threads this process may use */
	int core_cpu[64];   /* OS index of the first hardware thread of each core, the fastest first */
	int core_speed[64]; /* of the fastest, in percent; within 10 of it counts as 100 */
	int fast;           /* cores of speed 100: fewer than cores where there are big and little ones */
	int packages, numa_nodes;
};

int topo_read(struct topo *t, struct target *fill_caches /* or NULL */) MUST_CHECK;

/* The cores that this process may use: how many, at least 1; cpu[]: the first hardware thread of each, of at
 * most `room`. */
int topo_cores(int *cpu, int room);

/* Sorts the cores by what `sysfs` (/sys/devices/system/cpu) says of their cpus: cpu_capacity, else the
 * highest clock; equal ones keep their order, and so do all where nothing is said of one. */
void topo_rank(struct topo *t, const char *sysfs);

#endif
