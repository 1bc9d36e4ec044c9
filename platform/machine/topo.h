/* SPDX-License-Identifier: Apache-2.0 */
/* Topology: clusters of equal cores, hyper-threads, caches. topo_read uses hwloc, which only hone and
 * hone-worker link; the other functions use sysfs below a root ("": the real one).
 *
 * A cluster is all cores of one kind (their main ID register, else what the device tree calls them) whose
 * speeds differ by at most a tenth: two Cortex-A72 and four Cortex-A53 are two clusters, and a processor of
 * one kind is one. The first cluster is the fastest one by cpu_capacity; where all have the same capacity,
 * the newer kind of core that LLVM knows, then the highest clock, then the lowest number. A kernel that shows
 * nothing of this has one cluster. Processors that are offline belong to none. */
#ifndef PLATFORM_TOPO_H
#define PLATFORM_TOPO_H

#include "platform/machine/target.h"

#include <sched.h>

enum { TOPO_CLUSTERS = 8, TOPO_CORES = 64, TOPO_NAME = 32 };

struct cluster {
	char name[TOPO_NAME]; /* that of its cores; "-2" behind it where an earlier cluster has the same */
	char core[TOPO_NAME]; /* LLVM's name; "id-4e-003" (implementer, part) or the device tree's of cores
			       * that LLVM has no name for; "core": not known */
	uint32_t midr;        /* main ID register of the first core; 0: not known */
	int speed;      /* percent of the first one's, by capacity or clock; 100: not known, or no less */
	int cores;      /* physical ones */
	cpu_set_t cpus; /* their hardware threads */
};

struct clusters {
	int n; /* >= 1 */
	struct cluster of[TOPO_CLUSTERS];
};

/* The clusters, fastest first. may: the processors that count, of the clusters of the whole board, which also
 * keep their names; NULL: all that are online. */
void topo_clusters(const char *root, const cpu_set_t *may, struct clusters *out);
/* The processors that this process may use. */
void topo_allowed(cpu_set_t *may);
/* The first hardware thread of each core in a set, at most `room`; returns how many cores there are. */
int topo_firsts(const char *root, const cpu_set_t *set, int *cpu, int room);
/* Reads a list of numbers below CPU_SETSIZE such as "0-3,6"; false: it is none. */
bool topo_list(const char *text, cpu_set_t *out);
void topo_list_text(const cpu_set_t *set, struct buf *out); /* appends such a list */
/* Finds a cluster by its name; NULL: there is none. */
const struct cluster *topo_named(const struct clusters *c, const char *name);
/* NAME of a device "cpu:NAME"; NULL: it is none. */
const char *topo_cluster_of(const char *device);
/* Whether it may be a cluster's name: at least one letter, digits, '-', '.' and '_', fewer than TOPO_NAME.
 * NULL: false. */
bool topo_is_name(const char *name);
/* The device that this thread's processors are of: "cpu", the fastest cluster, or "cpu:NAME". */
void topo_device(char out[TOPO_NAME + 8]);
/* Binds this thread, and those that it starts, to the cluster of a device "cpu:NAME"; another name changes
 * nothing. *was: where it was allowed to run before. E_NOTFOUND: there is no such cluster; the text lists
 * them. E_USAGE: NAME is none. */
int topo_keep_to(const char *device, cpu_set_t *was) MUST_CHECK;
/* The cores that this process may use: returns how many, at least 1. cpu[]: the first hardware thread of
 * each, the fastest cluster first, at most `room` of them. */
int topo_cores(int *cpu, int room);

struct topo {
	int cores;                /* physical cores this process may use */
	int threads;              /* hardware threads this process may use */
	int core_cpu[TOPO_CORES]; /* OS index of each core's first hardware thread, fastest cluster first */
	int packages, numa_nodes;
};

int topo_read(struct topo *t, struct target *fill_caches /* or NULL */) MUST_CHECK;

#endif
