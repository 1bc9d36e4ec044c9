/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated device: runs kernels truly (answers can be checked) on platform/run/vm.h and advances a
 * virtual clock by what the run costs on the virtual machine, times noise. Loading a kernel costs
 * SIM_BUILD_NS, as compiling one would.
 *
 * Noise: log-normal per run, and now and then a slow phase of a quarter second at half speed or a burst 15 %
 * faster, as measured on a shared machine; seeded, so that a whole tuning run repeats exactly.
 *
 * The clock, the noise and the last fault are this file's only state, shared by all that it has loaded: a
 * process has one simulated machine, and one thread uses it. */
#ifndef PLATFORM_DEV_SIM_H
#define PLATFORM_DEV_SIM_H

#include "platform/run/dev.h"

#define SIM_BUILD_NS (10 * NS_PER_MS)

extern const struct dev dev_sim;

/* Sets the clock to start_ns and the noise: sigma of the logarithm (0: none, and no phases either). */
void dev_sim_reset(int64_t start_ns, uint64_t seed, double sigma);
/* Sets the cost of loading until a reset. 0: the kernel was built meanwhile, on a core that the simulated
 * machine does not have. */
void dev_sim_build_ns(int64_t ns);
/* The cost of the last run without noise; and a run of a given cost, which executes nothing. */
int64_t dev_sim_cost_ns(void);
void dev_sim_spend(int64_t cost_ns);
/* Why the last run stopped (an access outside a buffer, a spent budget), "" if it did not; cleared by
 * dev_sim_reset. */
const char *dev_sim_fault(void);

#endif
