/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/dev_sim.h"

#include "platform/base/mix.h"
#include "platform/base/rng.h"
#include "platform/run/vm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PHASE_NS (250 * NS_PER_MS)

struct dev_code {
	struct vm *vm;
};

static struct {
	bool ready;
	struct clock clock;
	struct rng rng;
	uint64_t seed;
	double sigma;
	int64_t cost_ns; /* of the last run */
	int64_t build_ns;
	char fault[256];
} sim;

void dev_sim_reset(int64_t start_ns, uint64_t seed, double sigma)
{
	sim.ready = true;
	sim.clock = clock_virtual(start_ns);
	rng_seed(&sim.rng, seed);
	sim.seed = seed;
	sim.sigma = sigma;
	sim.build_ns = SIM_BUILD_NS;
	sim.fault[0] = 0;
}

void dev_sim_build_ns(int64_t ns)
{
	sim.build_ns = ns;
}

const char *dev_sim_fault(void)
{
	return sim.fault;
}

static struct clock *sim_clock(void)
{
	if (!sim.ready)
		dev_sim_reset(0, 1, 0.03);
	return &sim.clock;
}

/* Speed of the machine in the quarter second that contains now: 1 in 25 is slow, 1 in 50 fast. */
static double phase(int64_t now_ns)
{
	uint64_t at[2] = {sim.seed, (uint64_t)(now_ns / PHASE_NS)};
	uint64_t draw = mix_bytes(at, sizeof at, 7).lo % 50;
	return draw < 2 ? 2.0 : draw == 2 ? 0.85 : 1.0;
}

static int64_t noisy(int64_t cost_ns)
{
	if (sim.sigma <= 0)
		return cost_ns;
	return (int64_t)((double)cost_ns * exp(sim.sigma * rng_normal(&sim.rng)) *
			 phase(clock_now(sim_clock())));
}

int64_t dev_sim_cost_ns(void)
{
	return sim.cost_ns;
}

void dev_sim_spend(int64_t cost_ns)
{
	clock_advance(sim_clock(), noisy(cost_ns));
}

/* The peaks of the machine in platform/run/vm.h, so that rooflines and drafts are meaningful. */
static int sim_probe(struct target *t)
{
	*t = (struct target){.isa = "sim",
			     .cpu = "sim",
			     .soc = "simulator",
			     .lanes = 4,
			     .regs = 16,
			     .fma = true,
			     .l1_bytes = 32 << 10,
			     .l2_bytes = 256 << 10,
			     .line_bytes = 64,
			     .cores = 1,
			     .fma_gflops = 8,
			     .bw_gbs = {16, 12, 4, 4},
			     .copy_gbs = 4};
	return 1;
}

static int sim_load(const void *obj, size_t n, struct dev_code **out)
{
	struct dev_code *c = calloc(1, sizeof *c);
	if (!c)
		return fail(E_NOMEM, "no memory to load a kernel");
	int rc = vm_load(obj, n, &c->vm);
	if (rc < 0) {
		free(c);
		return rc;
	}
	clock_advance(sim_clock(), sim.build_ns);
	*out = c;
	return E_OK;
}

static int sim_entry(struct dev_code *c, const char *symbol)
{
	return vm_find(c->vm, symbol);
}

static void sim_run(struct dev_code *c, int entry, void *const *buf, const int64_t *param, int64_t begin,
		    int64_t end)
{
	int64_t cost_ns = 0;
	if (vm_run(c->vm, entry, buf, param, begin, end, &cost_ns) < 0)
		snprintf(sim.fault, sizeof sim.fault, "%s", err_text());
	sim.cost_ns = cost_ns;
	dev_sim_spend(cost_ns);
}

static const void *sim_address(struct dev_code *c, int entry, size_t *bytes)
{
	(void)c;
	(void)entry;
	*bytes = 0;
	return NULL;
}

static void sim_unload(struct dev_code *c)
{
	if (!c)
		return;
	vm_free(c->vm);
	free(c);
}

static int sim_load_all(const struct blob *obj, int n, struct dev_code **out)
{
	int done = 0, rc = E_OK;
	while (done < n && (rc = sim_load(obj[done].p, obj[done].n, &out[done])) >= 0)
		done++;
	while (rc < 0 && done > 0)
		sim_unload(out[--done]);
	return rc;
}

const struct dev dev_sim = {
    .name = "sim",
    .emitter = "sim",
    .probe = sim_probe,
    .load = sim_load,
    .load_all = sim_load_all,
    .entry = sim_entry,
    .run = sim_run,
    .address = sim_address,
    .unload = sim_unload,
    .clock = sim_clock,
};
