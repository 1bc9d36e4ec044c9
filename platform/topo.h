/* SPDX-License-Identifier: Apache-2.0 */
/* Topology by hwloc: cores, hyper-threads, caches. Linked by hone and hone-worker only. */
#ifndef PLATFORM_TOPO_H
#define PLATFORM_TOPO_H

#include "platform/target.h"

struct topo {
	int cores;	  /* physical cores this process may use */
	int threads;	  /* hardware threads this process may use */
	int core_cpu[64]; /* OS index of the first hardware thread of each core */
	int packages, numa_nodes;
};

int topo_read(struct topo *t, struct target *fill_caches /* or NULL */) MUST_CHECK;

#endif
