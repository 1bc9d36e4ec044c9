/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that knows hwloc. */
#include "platform/machine/topo.h"

#include <hwloc.h>

static void fill_caches(hwloc_topology_t hw, struct target *t)
{
	static const struct {
		hwloc_obj_type_t type;
		size_t at;
	} levels[] = {{HWLOC_OBJ_L1CACHE, offsetof(struct target, l1_bytes)},
		      {HWLOC_OBJ_L2CACHE, offsetof(struct target, l2_bytes)},
		      {HWLOC_OBJ_L3CACHE, offsetof(struct target, l3_bytes)}};
	for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
		hwloc_obj_t o = hwloc_get_obj_by_type(hw, levels[i].type, 0);
		if (!o || !o->attr || !o->attr->cache.size)
			continue;
		*(int64_t *)((char *)t + levels[i].at) = (int64_t)o->attr->cache.size;
		if (o->attr->cache.linesize)
			t->line_bytes = (int)o->attr->cache.linesize;
	}
}

/* Uses the process's own mask, not the machine's: a job may have been given only some of the cores. */
static void count_cores(hwloc_topology_t hw, hwloc_const_bitmap_t mine, struct topo *t)
{
	hwloc_obj_t core = NULL;
	while ((core = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_CORE, core))) {
		hwloc_bitmap_t usable = hwloc_bitmap_dup(core->cpuset);
		if (!usable)
			continue;
		hwloc_bitmap_and(usable, usable, mine);
		int first = hwloc_bitmap_first(usable);
		if (first >= 0 && t->cores < (int)(sizeof t->core_cpu / sizeof t->core_cpu[0]))
			t->core_cpu[t->cores++] = first;
		if (first >= 0)
			t->threads += hwloc_bitmap_weight(usable);
		hwloc_bitmap_free(usable);
	}
}

static int at_least_one(int n)
{
	return n > 0 ? n : 1;
}

int topo_read(struct topo *t, struct target *fill)
{
	hwloc_topology_t hw;
	*t = (struct topo){0};
	if (hwloc_topology_init(&hw) < 0)
		return fail(E_NOMEM, "hwloc cannot start; free some memory");
	hwloc_bitmap_t mine = hwloc_bitmap_alloc();
	int rc = E_OK;
	if (!mine || hwloc_topology_load(hw) < 0) {
		rc = fail(E_IO, "hwloc cannot read the machine's topology; is /sys mounted?");
	} else {
		if (hwloc_get_cpubind(hw, mine, HWLOC_CPUBIND_PROCESS) < 0)
			hwloc_bitmap_fill(mine);
		count_cores(hw, mine, t);
		topo_rank(t, "/sys/devices/system/cpu");
		t->packages = at_least_one(hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_PACKAGE));
		t->numa_nodes = at_least_one(hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_NUMANODE));
		t->cores = at_least_one(t->cores);
		t->threads = at_least_one(t->threads);
		t->fast = at_least_one(t->fast);
		if (fill)
			fill_caches(hw, fill);
	}
	hwloc_bitmap_free(mine);
	hwloc_topology_destroy(hw);
	return rc;
}
