/* SPDX-License-Identifier: Apache-2.0 */
/* Random candidates of random tasks for GPUs, lowered for a target of the ISA cuda: by seed, all kinds of
 * tasks and schedules that a device of work items has, in turn. */
#ifndef TESTS_PTX_CASES_H
#define TESTS_PTX_CASES_H

#include "kernels/emit/emit.h"
#include "tests/lib/byte_cases.h"
#include "tests/lib/items_cases.h"

/* A GPU of this architecture, with the PTX that a driver of its time knows. */
static inline struct target ptx_target(const char *cpu)
{
	struct target tg = case_gpu();
	strcpy(tg.isa, "cuda");
	snprintf(tg.cpu, sizeof tg.cpu, "%s", cpu);
	strcpy(tg.features, strcmp(cpu, "sm_90") ? "+ptx74" : "+ptx83");
	tg.regs = 60;
	return tg;
}

static const char *const ptx_cpus[] = {"sm_72", "sm_75", "sm_80", "sm_87", "sm_90"};
enum { PTX_CPUS = sizeof ptx_cpus / sizeof *ptx_cpus };

static inline void ptx_pairs(struct buf *b, struct rng *r)
{
	paired_conv(b, r, 18);
}

/* Kinds of candidates. key: of each schedule; NULL: any, in one of four cases the default. */
static const struct ptx_kind {
	const char *name;
	enum level level;
	void (*make)(struct buf *b, struct rng *r);
	const char *key;
} ptx_kinds[] = {{"floats", LEVEL_FP32, case_text, NULL},
		 {"threads", LEVEL_FP32, case_text, "threads="},
		 {"parts", LEVEL_FP32, case_text, "spread=1"},
		 {"parts of tiles", LEVEL_FP32, case_text, "parts"},
		 {"bytes", LEVEL_FP32, byte_text, NULL},
		 {"products of bytes", LEVEL_FP32, byte_products_text, NULL},
		 {"rows of bytes", LEVEL_FP32, byte_rows_text, NULL},
		 {"blocks of bytes", LEVEL_FP32, byte_block_text, NULL},
		 {"pairs of f16", LEVEL_HALF_SUM, ptx_pairs, "f16"},
		 {"weights in f16", LEVEL_W16, products_text, "w16=1"}};
enum { PTX_KINDS = sizeof ptx_kinds / sizeof *ptx_kinds };

struct ptx_case {
	struct kcase c;
	const struct ptx_kind *kind;
	struct target tg;
	struct buf task;
	char cand[CAND_MAX];
	struct loops *l;
	struct manifest m;
	const char *bad; /* what failed; NULL: nothing */
};

/* Makes the case of a seed; false: its task has no schedule of the kind. ptx_drop frees it in any case. */
static inline bool ptx_make(struct ptx_case *p, const char *cpu, uint64_t seed)
{
	struct rng r;
	struct space *s;
	*p = (struct ptx_case){.kind = &ptx_kinds[seed % PTX_KINDS], .tg = ptx_target(cpu)};
	const struct space_want want = {.level = p->kind->level};
	static const int regs[] = {16, 32, 60};
	p->tg.regs = regs[seed / PTX_KINDS % 3];
	rng_seed(&r, seed);
	p->kind->make(&p->task, &r);
	if (case_parse(&p->c, buf_str(&p->task), &r) < 0 ||
	    space_make(&p->c.a, &p->c.t, &p->tg, &want, &s) < 0 ||
	    (level_f16(p->kind->level) && case_round(&p->c, false) < 0)) {
		p->bad = err_text();
		return true;
	}
	space_default(s, p->cand);
	if (p->kind->key && !draw_with(s, &r, p->kind->key, p->cand))
		return false;
	if (!p->kind->key && rng_below(&r, 4) && space_random(s, &r, p->cand) < 0)
		p->bad = err_text();
	if (!p->bad && lower(&p->c.t, p->cand, &p->tg, &p->c.a, &p->l, &p->m) < 0)
		p->bad = err_text();
	return true;
}

static inline void ptx_drop(struct ptx_case *p)
{
	buf_free(&p->task);
	arena_free(&p->c.a);
}

/* Prints what is wrong with the case of a seed. */
static inline void ptx_complain(const struct ptx_case *p, uint64_t seed, const char *bad)
{
	printf("%s seed %llu (%s): %s\n%s\n%s", p->tg.cpu, (unsigned long long)seed, p->kind->name, bad,
	       p->cand, p->task.n ? p->task.p : "");
}

#endif
