/* SPDX-License-Identifier: Apache-2.0 */
/* Topology: cores, hyper-threads, caches. topo_read uses hwloc, which only hone and hone-worker link; the
 * other functions use sysfs. */
#ifndef PLATFORM_TOPO_H
#define PLATFORM_TOPO_H

#include "platform/machine/target.h"

struct topo {
	int cores;          /* physical cores this process may use */
	int threads;        /* hardware threads this process may use */
	int core_cpu[64];   /* OS index of each core's first hardware thread, fastest core first */
	int core_speed[64]; /* percent of the fastest core's speed; within 10 of it counts as 100 */
	int fast;           /* cores of speed 100; fewer than cores if there are big and little ones */
	int packages, numa_nodes;
};

int topo_read(struct topo *t, struct target *fill_caches /* or NULL */) MUST_CHECK;

/* The cores that this process may use: returns how many, at least 1. cpu[]: the first hardware thread of
 * each, at most `room` of them. */
int topo_cores(int *cpu, int room);

/* Sorts the cores by the speeds that `sysfs` (/sys/devices/system/cpu) gives for their cpus: cpu_capacity,
 * else the highest clock. Equal cores keep their order; if any core has no value, all keep it. */
void topo_rank(struct topo *t, const char *sysfs);

#endif
