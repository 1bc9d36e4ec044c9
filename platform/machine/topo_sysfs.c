/* SPDX-License-Identifier: Apache-2.0 */
/* Cores and clusters as sysfs describes them, for programs without hwloc. */
#include "platform/machine/topo.h"
#include "platform/machine/sysfile.h"
#include "platform/machine/target_isa.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPUS "/sys/devices/system/cpu"
enum { MOST_KINDS = 8, MOST_SPEED = 100000000, NEAR_PCT = 90 };

struct kind {
	char core[TOPO_NAME];
	uint32_t midr;
	int rank; /* of the cores that LLVM knows; -1: not known */
};

struct thread {
	short cpu, kind;
	int capacity, khz; /* 0: not known */
};

struct board {
	struct kind kind[MOST_KINDS];
	struct thread thread[CPU_SETSIZE];
	int kinds, threads;
};

static bool cpu_text(const char *root, int cpu, const char *leaf, char *out, size_t n)
{
	char path[96];
	snprintf(path, sizeof path, CPUS "/cpu%d/%s", cpu, leaf);
	return sysfile_line(root, path, out, n);
}

/* -1: absent or not plausible. */
static long cpu_number(const char *root, int cpu, const char *leaf, long least)
{
	char v[32], *end;
	if (!cpu_text(root, cpu, leaf, v, sizeof v))
		return -1;
	long n = strtol(v, &end, 10);
	return end == v || *end || n < least || n > MOST_SPEED ? -1 : n;
}

/* A core is known by its main ID register, else by the device tree, whose names begin with a vendor's. Each
 * name passes topo_is_name, so that it is one of a device. */
static void read_kind(const char *root, int cpu, struct kind *k)
{
	char v[64];
	*k = (struct kind){.core = "core", .rank = -1};
	if (cpu_text(root, cpu, "regs/identification/midr_el1", v, sizeof v))
		k->midr = (uint32_t)strtoull(v, NULL, 16);
	const char *name = isa_core_name(k->midr, &k->rank);
	if (name)
		snprintf(k->core, sizeof k->core, "%s", name);
	else if (k->midr)
		snprintf(k->core, sizeof k->core, "id-%02x-%03x", k->midr >> 24, k->midr >> 4 & 0xfff);
	else if (cpu_text(root, cpu, "of_node/compatible", v, sizeof v)) {
		const char *comma = strchr(v, ',');
		snprintf(k->core, sizeof k->core, "%.31s", comma && comma[1] ? comma + 1 : v);
		k->rank = isa_core_rank(k->core);
	}
	for (char *c = k->core; *c; c++) /* it becomes a word of the target's text */
		*c = isalnum((unsigned char)*c) || *c == '.' || *c == '_' ? *c : '-';
	if (!topo_is_name(k->core))
		snprintf(k->core, sizeof k->core, "core");
}

static short find_kind(struct board *b, const struct kind *k)
{
	short i = 0;
	while (i < b->kinds && strcmp(b->kind[i].core, k->core) != 0)
		i++;
	if (i == MOST_KINDS)
		return MOST_KINDS - 1;
	if (i == b->kinds)
		b->kind[b->kinds++] = *k;
	return i;
}

static void read_thread(const char *root, int cpu, struct board *b)
{
	struct kind k;
	read_kind(root, cpu, &k);
	long capacity = cpu_number(root, cpu, "cpu_capacity", 1);
	long khz = cpu_number(root, cpu, "cpufreq/cpuinfo_max_freq", 1);
	b->thread[b->threads++] = (struct thread){(short)cpu, find_kind(b, &k),
						  capacity < 0 ? 0 : (int)capacity, khz < 0 ? 0 : (int)khz};
}

bool topo_list(const char *text, cpu_set_t *out)
{
	CPU_ZERO(out);
	for (const char *at = text;; at++) {
		char *end = NULL;
		long from = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : -1, to = from;
		if (from >= 0 && *end == '-')
			to = isdigit((unsigned char)end[1]) ? strtol(end + 1, &end, 10) : -1;
		if (from < 0 || to < from || to >= CPU_SETSIZE || (*end && *end != ','))
			return false;
		for (long i = from; i <= to; i++)
			CPU_SET((size_t)i, out);
		if (!*end)
			return true;
		at = end;
	}
}

void topo_list_text(const cpu_set_t *set, struct buf *out)
{
	size_t start = out->n;
	for (int i = 0, from; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, set))
			continue;
		for (from = i; i + 1 < CPU_SETSIZE && CPU_ISSET(i + 1, set);)
			i++;
		buf_printf(out, out->n > start ? ",%d" : "%d", from);
		if (i > from)
			buf_printf(out, "-%d", i);
	}
}

static bool read_list(const char *root, const char *leaf, cpu_set_t *out)
{
	char path[64], text[1024];
	snprintf(path, sizeof path, CPUS "/%s", leaf);
	return sysfile_line(root, path, text, sizeof text) && topo_list(text, out);
}

/* Capacities that are all equal say nothing: kernels give them where nobody measured any. */
static void drop_speeds(struct board *b)
{
	bool capacity = false, khz = true;
	for (int i = 0; i < b->threads; i++)
		capacity |= b->thread[i].capacity != b->thread[0].capacity;
	for (int i = 0; i < b->threads; i++) {
		capacity &= b->thread[i].capacity > 0;
		khz &= b->thread[i].khz > 0;
	}
	for (int i = 0; i < b->threads; i++) {
		b->thread[i].capacity = capacity ? b->thread[i].capacity : 0;
		b->thread[i].khz = khz ? b->thread[i].khz : 0;
	}
}

static int speed_of(const struct thread *t)
{
	return t->capacity ? t->capacity : t->khz;
}

/* By capacity; without capacities by kind, the newer one being faster; within a kind by clock. */
static bool is_slower(const struct board *b, const struct thread *x, const struct thread *y)
{
	int rank_x = b->kind[x->kind].rank, rank_y = b->kind[y->kind].rank;
	if (!x->capacity && rank_x >= 0 && rank_y >= 0 && rank_x != rank_y)
		return rank_x < rank_y;
	return speed_of(x) < speed_of(y);
}

static void sort_threads(struct board *b)
{
	for (int i = 1; i < b->threads; i++) {
		struct thread t = b->thread[i];
		int at = i;
		for (; at > 0 && is_slower(b, &b->thread[at - 1], &t); at--)
			b->thread[at] = b->thread[at - 1];
		b->thread[at] = t;
	}
}

/* Finds the cluster of a thread among those that are begun, or begins one. Beyond the room, the last one. */
static struct cluster *cluster_of(const struct board *b, const struct thread *t, int *speed,
				  struct clusters *out)
{
	const struct kind *k = &b->kind[t->kind];
	int same = 0;
	for (int i = 0; i < out->n; i++) {
		if (strcmp(out->of[i].core, k->core) != 0)
			continue;
		same++;
		if ((int64_t)speed_of(t) * 100 >= (int64_t)speed[i] * NEAR_PCT)
			return &out->of[i];
	}
	if (out->n == TOPO_CLUSTERS)
		return &out->of[TOPO_CLUSTERS - 1];
	struct cluster *c = &out->of[out->n];
	speed[out->n] = speed_of(t);
	c->midr = k->midr;
	c->speed =
	    speed[0] > 0 && speed_of(t) < speed[0] ? (int)((int64_t)speed_of(t) * 100 / speed[0]) : 100;
	memcpy(c->core, k->core, sizeof c->core);
	snprintf(c->name, sizeof c->name, same ? "%.20s-%d" : "%s", k->core, same + 1);
	out->n++;
	return c;
}

/* Leaves the processors that count, and the clusters that have such. */
static void keep_only(const char *root, const cpu_set_t *may, struct clusters *c)
{
	int n = 0;
	for (int i = 0; i < c->n; i++) {
		if (may)
			CPU_AND(&c->of[i].cpus, &c->of[i].cpus, may);
		c->of[i].cores = topo_firsts(root, &c->of[i].cpus, NULL, 0);
		if (c->of[i].cores)
			c->of[n++] = c->of[i];
	}
	c->n = n;
}

void topo_clusters(const char *root, const cpu_set_t *may, struct clusters *out)
{
	struct board b = {.kinds = 0};
	cpu_set_t all;
	int speed[TOPO_CLUSTERS];
	*out = (struct clusters){0};
	if (!read_list(root, "online", &all) && !read_list(root, "present", &all))
		CPU_ZERO(&all);
	if (may)
		CPU_OR(&all, &all, may);
	if (!CPU_COUNT(&all))
		CPU_SET(0, &all);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all))
			read_thread(root, cpu, &b);
	drop_speeds(&b);
	sort_threads(&b);
	for (int i = 0; i < b.threads; i++)
		CPU_SET(b.thread[i].cpu, &cluster_of(&b, &b.thread[i], speed, out)->cpus);
	keep_only(root, may && CPU_COUNT(may) ? may : NULL, out);
}

void topo_allowed(cpu_set_t *may)
{
	if (sched_getaffinity(0, sizeof *may, may) < 0)
		CPU_ZERO(may);
}

const struct cluster *topo_named(const struct clusters *c, const char *name)
{
	for (int i = 0; i < c->n; i++)
		if (!strcmp(c->of[i].name, name))
			return &c->of[i];
	return NULL;
}

const char *topo_cluster_of(const char *device)
{
	return strncmp(device, "cpu:", 4) ? NULL : device + 4;
}

bool topo_is_name(const char *name)
{
	size_t n = 0, letters = 0;
	while (name && (isalnum((unsigned char)name[n]) || (name[n] && strchr("-._", name[n]))))
		letters += isalpha((unsigned char)name[n++]) != 0;
	return letters && !name[n] && n < TOPO_NAME;
}

void topo_device(char out[TOPO_NAME + 8])
{
	struct clusters c;
	cpu_set_t may, both;
	int i = 0;
	topo_allowed(&may);
	topo_clusters("", NULL, &c);
	for (; i < c.n; i++) {
		CPU_AND(&both, &may, &c.of[i].cpus);
		if (CPU_COUNT(&both))
			break;
	}
	bool slower = i > 0 && i < c.n;
	snprintf(out, TOPO_NAME + 8, "cpu%s%s", slower ? ":" : "", slower ? c.of[i].name : "");
}

int topo_keep_to(const char *device, cpu_set_t *was)
{
	struct clusters c;
	const char *name = topo_cluster_of(device);
	topo_allowed(was);
	if (!name)
		return E_OK;
	if (!topo_is_name(name))
		return fail(
		    E_USAGE,
		    "device '%.40s': must be cpu, cpu:CLUSTER, opencl:N or cuda:N; `hone devices` lists "
		    "what there is",
		    device);
	topo_clusters("", was, &c);
	const struct cluster *of = topo_named(&c, name);
	if (of)
		return sched_setaffinity(0, sizeof of->cpus, &of->cpus) < 0
			   ? fail(E_IO, "%s: its processors cannot be used", device)
			   : E_OK;
	char names[TOPO_CLUSTERS * (TOPO_NAME + 8)] = "";
	for (int i = 0; i < c.n; i++)
		snprintf(names + strlen(names), sizeof names - strlen(names), "%scpu:%s", i ? ", " : "",
			 c.of[i].name);
	return fail(E_NOTFOUND, "there is no cluster %.40s of processors here; there are: %s", device, names);
}

/* A number of the core: its first hardware thread. A kernel that does not list the threads numbers the cores
 * of each cluster of a package; if it shows no core either, each cpu counts as one. */
static uint64_t core_of(const char *root, int cpu)
{
	char threads[16], *end;
	if (cpu_text(root, cpu, "topology/thread_siblings_list", threads, sizeof threads)) {
		long first = strtol(threads, &end, 10);
		if (end != threads && first >= 0 && first < CPU_SETSIZE)
			return (uint64_t)first;
	}
	long core = cpu_number(root, cpu, "topology/core_id", 0),
	     cluster = cpu_number(root, cpu, "topology/cluster_id", 0),
	     package = cpu_number(root, cpu, "topology/physical_package_id", 0);
	return core < 0 ? (uint64_t)cpu
			: (uint64_t)(package + 2) << 54 ^ (uint64_t)(cluster + 1) << 27 ^ (uint64_t)core;
}

int topo_firsts(const char *root, const cpu_set_t *set, int *cpu, int room)
{
	uint64_t seen[CPU_SETSIZE];
	int n = 0;
	for (int c = 0; c < CPU_SETSIZE; c++) {
		if (!CPU_ISSET(c, set))
			continue;
		uint64_t id = core_of(root, c);
		int i = 0;
		while (i < n && seen[i] != id)
			i++;
		if (i == n && n < room)
			cpu[n] = c;
		if (i == n)
			seen[n++] = id;
	}
	return n;
}

int topo_cores(int *cpu, int room)
{
	struct clusters c;
	cpu_set_t may;
	int n = 0;
	topo_allowed(&may);
	topo_clusters("", &may, &c);
	for (int i = 0; i < c.n; i++)
		n += topo_firsts("", &c.of[i].cpus, n < room ? cpu + n : NULL, n < room ? room - n : 0);
	return n;
}
