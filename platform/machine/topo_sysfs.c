/* SPDX-License-Identifier: Apache-2.0 */
/* Cores as sysfs describes them, for programs without hwloc. */
#include "platform/machine/topo.h"

#include <sched.h>
#include <stdio.h>

/* -1: absent or not plausible. */
static long cpu_number(const char *sysfs, int cpu, const char *leaf)
{
	char path[512];
	long v = -1;
	snprintf(path, sizeof path, "%s/cpu%d/%s", sysfs, cpu, leaf);
	FILE *f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%ld", &v) != 1)
		v = -1;
	fclose(f);
	return v > 0 && v <= 100000000 ? v : -1;
}

/* Reads the speeds of all cores into v and returns the highest; -1: some core has none. */
static long read_speeds(const struct topo *t, const char *sysfs, const char *leaf, long *v)
{
	long most = -1;
	for (int i = 0; i < t->cores; i++) {
		if ((v[i] = cpu_number(sysfs, t->core_cpu[i], leaf)) < 0)
			return -1;
		most = v[i] > most ? v[i] : most;
	}
	return most;
}

void topo_rank(struct topo *t, const char *sysfs)
{
	long v[sizeof t->core_cpu / sizeof t->core_cpu[0]], most = read_speeds(t, sysfs, "cpu_capacity", v);
	if (most < 0)
		most = read_speeds(t, sysfs, "cpufreq/cpuinfo_max_freq", v);
	t->fast = 0;
	for (int i = 0; i < t->cores; i++) {
		int cpu = t->core_cpu[i], speed = most < 0 ? 100 : (int)(v[i] * 100 / most), at = i;
		speed = speed >= 90 ? 100 : speed < 1 ? 1 : speed;
		t->fast += speed == 100;
		for (; at > 0 && t->core_speed[at - 1] < speed; at--) {
			t->core_cpu[at] = t->core_cpu[at - 1];
			t->core_speed[at] = t->core_speed[at - 1];
		}
		t->core_cpu[at] = cpu;
		t->core_speed[at] = speed;
	}
}

/* Package and core as one number; if sysfs has none, each cpu counts as a core. */
static long long core_of(int cpu)
{
	static const char *const leaf[] = {"core_id", "physical_package_id"};
	long long v[2] = {-1, -1};
	for (int i = 0; i < 2; i++) {
		char path[128];
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, leaf[i]);
		FILE *f = fopen(path, "re");
		if (!f)
			continue;
		if (fscanf(f, "%lld", &v[i]) != 1)
			v[i] = -1;
		fclose(f);
	}
	return v[0] < 0 ? -1LL - cpu : v[0] + (v[1] << 32);
}

int topo_cores(int *cpu, int room)
{
	enum { MOST = 1024 };
	cpu_set_t set;
	long long seen[MOST];
	int n = 0;
	if (sched_getaffinity(0, sizeof set, &set) < 0)
		CPU_ZERO(&set);
	for (int c = 0; c < CPU_SETSIZE && n < MOST; c++) {
		if (!CPU_ISSET(c, &set))
			continue;
		long long id = core_of(c);
		int i = 0;
		while (i < n && seen[i] != id)
			i++;
		if (i == n && n < room)
			cpu[n] = c;
		if (i == n)
			seen[n++] = id;
	}
	for (int i = n; i < 1 && i < room; i++)
		cpu[i] = 0;
	return n ? n : 1;
}
