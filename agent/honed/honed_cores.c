/* SPDX-License-Identifier: Apache-2.0 */
/* The cores of the board's clusters, and which of them jobs use. */
#include "agent/honed/honed_parts.h"
#include "platform/machine/topo.h"

#include <stdio.h>
#include <string.h>

static uint64_t all_cores(const struct honed *h)
{
	return h->o.ncpus == 64 ? ~UINT64_C(0) : (UINT64_C(1) << h->o.ncpus) - 1;
}

/* The cores that kernels for the device run on. Another device than the processor, and a cluster that is not
 * there, may have any. */
static uint64_t device_cores(const struct honed *h, const char *device)
{
	if (h->o.nclusters && !strcmp(device, CONF_CPU))
		return h->o.cluster[0].cpus;
	for (int i = 0; i < h->o.nclusters; i++)
		if (!strcmp(h->o.cluster[i].device, device))
			return h->o.cluster[i].cpus;
	return all_cores(h);
}

int jobs_cores(const struct honed *h, const char *device)
{
	return __builtin_popcountll(device_cores(h, device));
}

int jobs_threads(const struct honed *h, const char *device, int threads)
{
	int cores = jobs_cores(h, device);
	if (!device_is_processor(device))
		return 1;
	return topo_cluster_of(device) && threads > cores ? cores : threads;
}

/* Chooses the device's cores that the fewest jobs use; among these the fastest. More threads of "cpu" than
 * its cluster has cores may use all of the board's. */
uint64_t jobs_cpus(const struct honed *h, const char *device, int threads)
{
	uint64_t may = device_cores(h, device), mask = 0;
	int cores = __builtin_popcountll(may);
	if (threads < 1 || threads >= cores)
		return threads > cores && !topo_cluster_of(device) ? all_cores(h) : may;
	for (int k = 0; k < threads; k++) {
		int best = -1, least = HONED_JOBS + 1;
		for (int c = 0; c < h->o.ncpus; c++) {
			int users = 0;
			for (int i = 0; i < HONED_JOBS; i++)
				users += job_lives(&h->job[i]) && (h->job[i].cpus >> c & 1);
			if ((may & ~mask) >> c & 1 && users < least) {
				best = c;
				least = users;
			}
		}
		mask |= UINT64_C(1) << best;
	}
	return mask;
}

/* A model for all cores is enough: its jobs use each of them, however many others there are. */
bool jobs_share_cores(const struct honed *h, char *devices, size_t n)
{
	bool all = false;
	size_t at = 0;
	*devices = 0;
	for (int i = 0; i < h->models.n; i++) {
		const struct conf_model *m = h->models.list[i].conf;
		const char *name = conf_device_name(m->device);
		const bool apart = !device_is_processor(name);
		const char *found = apart ? strstr(devices, name) : NULL;
		size_t k = apart ? strlen(name) : 0;
		all |= !apart && jobs_cores(h, name) == h->o.ncpus &&
		       (m->threads < 1 || m->threads >= h->o.ncpus);
		if (apart && !(found && (!found[k] || found[k] == ',')) && at + k + 3 < n)
			at += (size_t)snprintf(devices + at, n - at, "%s%s", at ? ", " : "", name);
	}
	return all && at && h->o.ncpus > 1;
}

int jobs_unused_cores(const struct honed *h, const char *device)
{
	uint64_t used = 0;
	for (int i = 0; i < HONED_JOBS; i++)
		used |= job_lives(&h->job[i]) ? h->job[i].cpus : 0;
	return __builtin_popcountll(device_cores(h, device) & ~used);
}
