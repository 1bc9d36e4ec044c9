/* SPDX-License-Identifier: Apache-2.0 */
/* The true times of candidates on the simulator, computed once and remembered, for thousands of scenarios. */
#ifndef TESTS_SIM_TRUTH_H
#define TESTS_SIM_TRUTH_H

#include "platform/base/mix.h"
#include "tests/lib/sim_runner.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

enum { NTASKS = 3, KNOWN = 1 << 16 };

static const char *const texts[NTASKS] = {
    "task syms=0\n"
    "operand X in f32 [1,4,5,6] 0.1/4.2.3.1;2+1+1;3+1+1\n"
    "operand W const f32 [8,4,3,3] plain\n"
    "operand Y out f32 [1,8,5,6] 0.1/4.2.3.1\n"
    "stage n:1 k:8 y:5 x:6 | c:4 r:3 s:3\n"
    "read X [n,c,y+r-1,x+s-1]\n"
    "read W [k,c,r,s]\n"
    "body r0 r1 mul\n"
    "sum\n"
    "post acc 0 max\n"
    "write Y [n,k,y,x]\n",
    task_small_matmul,
    "task syms=0\n"
    "operand X in f32 [1,8,6,6] 0.1/4.2.3.1;2+1+1;3+1+1\n"
    "operand W const f32 [8,3,3] plain\n"
    "operand Y out f32 [1,8,6,6] 0.1/4.2.3.1\n"
    "stage n:1 c:8 y:6 x:6 | r:3 s:3\n"
    "read X [n,c,y+r-1,x+s-1]\n"
    "read W [c,r,s]\n"
    "body r0 r1 mul\n"
    "sum\n"
    "write Y [n,c,y,x]\n",
};

struct truth {
	struct key key;
	int64_t cost_ns; /* 0: unused; < 0: -status */
};

static struct truth known[KNOWN];
static struct sim_runner *sim;

static inline int64_t measure_truth(const char *task, const char *cand)
{
	struct sim_handle *h = &sim->h[0];
	struct kcase *k = sim_task(sim, task);
	struct meas m = {.status = MEAS_BUILD};
	int rc = k ? sim_emit_cand(sim, k, cand, h, &m) : -1;
	int64_t ns = m.status == MEAS_OK ? h->cost_ns : -(int64_t)m.status;
	CHECK(m.status != MEAS_WRONG);
	if (rc > 0)
		sim_drop(&sim->r, 0, INT64_MAX);
	return ns;
}

static inline int64_t true_cost(const char *task, const char *cand)
{
	struct key k = mix_join(mix_text(task), mix_text(cand));
	for (uint64_t i = k.lo;; i++) {
		struct truth *t = &known[i % KNOWN];
		if (t->cost_ns && !key_equal(t->key, k))
			continue;
		if (!t->cost_ns)
			*t = (struct truth){k, measure_truth(task, cand)};
		return t->cost_ns;
	}
}

/* Finds the default schedules of the tasks; the simulator stays open for true_cost. */
static inline void truth_open(char (*standard)[CAND_MAX])
{
	struct arena a = {0};
	sim = sim_open(1, 0);
	for (int i = 0; i < NTASKS; i++) {
		struct task *t = ARENA_NEW(&a, struct task);
		struct space *s;
		REQUIRE_OK(task_parse(texts[i], t));
		REQUIRE_OK(space_make(&a, t, &sim->t, NULL, &s));
		space_default(s, standard[i]);
	}
	arena_free(&a);
}

#endif
