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

static int at_least_one(int n)
{
	return n > 0 ? n : 1;
}

int topo_read(struct topo *t, struct target *fill)
{
	hwloc_topology_t hw;
	cpu_set_t mine;
	*t = (struct topo){0};
	if (hwloc_topology_init(&hw) < 0)
		return fail(E_NOMEM, "hwloc cannot start; free some memory");
	int rc = E_OK;
	if (hwloc_topology_load(hw) < 0) {
		rc = fail(E_IO, "hwloc cannot read the machine's topology; is /sys mounted?");
	} else {
		t->packages = at_least_one(hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_PACKAGE));
		t->numa_nodes = at_least_one(hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_NUMANODE));
		if (fill)
			fill_caches(hw, fill);
	}
	hwloc_topology_destroy(hw);
	/* A job may have been given only some of the cores. */
	topo_allowed(&mine);
	t->cores = topo_cores(t->core_cpu, TOPO_CORES);
	t->cores = t->cores > TOPO_CORES ? TOPO_CORES : t->cores;
	t->threads = at_least_one(CPU_COUNT(&mine));
	return rc;
}
