/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/machine.h"
#include "platform/machine/board.h"
#include "platform/machine/topo.h"

#include <signal.h>

int machine_target(const char *cache_dir, struct target *t)
{
	int rc = target_host(t);
	if (rc < 0)
		return rc;
	board_fill_host(t);
	return *cache_dir && target_recall(cache_dir, t) ? rc : target_measure(t, &clock_real);
}

/* Starts threads with all signals blocked, so that they go to the program's own threads. */
int machine_pool(int threads, bool pin, struct pool **out)
{
	sigset_t all, old;
	int cpu[TOPO_CORES], cores = topo_cores(cpu, TOPO_CORES);
	bool fits = threads <= cores && threads <= TOPO_CORES;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = pool_open(out, threads, pin && fits ? cpu : NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}
