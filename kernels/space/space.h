/* SPDX-License-Identifier: Apache-2.0 */
/* The space of schedules of one task on one target, made by rules that use only the task's structure, and the
 * candidates in it. The search handles candidates as canonical text ("lane=k:16 tile=x:14,k:2 unroll=c:2
 * order=... block=y:8"): printing and parsing back is exact, and equal text means the same schedule.
 *
 * The part before " | " is structural and needs a compile; the numbers after it are passed to the kernel as
 * run-time parameters (outer tile sizes). Candidates that differ only in these share one object
 * (space_structure). */
#ifndef KERNELS_SPACE_H
#define KERNELS_SPACE_H

#include "kernels/task/level.h"
#include "kernels/task/task.h"
#include "platform/base/rng.h"
#include "platform/machine/target.h"

enum { CAND_MAX = 512 }; /* bytes of a candidate's text with NUL */

struct space;

struct space_want {
	enum level level;
	int threads; /* threads of a run; 0 counts as 1 */
};
/* want NULL: fp32, one thread. */
int space_make(struct arena *a, const struct task *t, const struct target *tg, const struct space_want *want,
	       struct space **out) MUST_CHECK;
const struct task *space_task(const struct space *s);
/* Candidate 0: the default schedule, made by rule; legal on every task and target. */
void space_default(const struct space *s, char cand[CAND_MAX]);
/* Further candidates, made by rules, that are worth trying first. *at starts at 0 and each call advances it.
 * E_NOTFOUND: no more. */
int space_portfolio(const struct space *s, int *at, char cand[CAND_MAX]);
int space_random(const struct space *s, struct rng *r, char cand[CAND_MAX]);
int space_mutate(const struct space *s, struct rng *r, const char *from, char cand[CAND_MAX]) MUST_CHECK;
int space_cross(const struct space *s, struct rng *r, const char *a, const char *b,
		char cand[CAND_MAX]) MUST_CHECK;
/* The same structure with other run-time numbers, so nothing is compiled. E_NOTFOUND: it has no such
 * numbers. */
int space_twin(const struct space *s, struct rng *r, const char *from, char cand[CAND_MAX]) MUST_CHECK;
int space_legal(const struct space *s,
		const char *cand) MUST_CHECK; /* E_INFEASIBLE says why; E_CORRUPT: does not parse */
/* Analytical estimate of one core's time, ns (ranks candidates; not a promise). */
double space_draft(const struct space *s, const char *cand);
/* Products of an instruction, relative to f32, in the stage with most of the work: 4 for dot products of
 * bytes, 8 for products of matrices of them, 2 for products of f16 or bf16. cand: the schedule, or "". */
double space_rate(const struct task *t, const struct target *tg, const char *cand);
double space_roofline(const struct space *s); /* max(flops / peak, bytes / bandwidth), one core, ns; of the
						 algorithm that has the lowest */
/* The part of a candidate before " | ": candidates with the same structure share compiled code and differ in
 * run-time numbers alone. */
void space_structure(const char *cand, char out[CAND_MAX]);

#endif
