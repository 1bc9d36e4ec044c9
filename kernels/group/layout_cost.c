/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/group/layout_cost.h"
#include "kernels/space/draft.h"
#include "kernels/group/group_parts.h"

#include <string.h>

/* Overhead of a kernel call, in cycles. */
static const double CALL = 300;
/* GB/s, at the clock that the draft assumes if none was measured, at which a kernel reads the output of the
 * kernel before it: from the L2 if it fits there, from the L3, or from memory. Measured: 29 for 1.4 MB, 9 for
 * 13 MB. */
static const double NEAR = 72, FAR = 30, FARTHEST = 12;
/* Cost of a task without a schedule: larger than any other cost, and small enough to keep the digits of what
 * is added to it. */
static const double NEVER = 1e12;

struct memo {
	struct key key;
	double cycles; /* 0: the slot is free */
};

struct layout_costs {
	struct target tg; /* peaks are cleared */
	struct memo *memo;
	size_t n, room; /* room: a power of two, more than n */
};

enum { ROOM = 256 };

/* Whether the machines agree in everything that a draft depends on. */
static bool same_machine(const struct target *x, const struct target *y)
{
	return x->lanes == y->lanes && x->regs == y->regs && x->fma == y->fma && x->l1_bytes == y->l1_bytes &&
	       x->l2_bytes == y->l2_bytes && x->l3_bytes == y->l3_bytes;
}

int layout_costs_begin(struct arena *a, const struct target *t, struct layout_costs **c)
{
	struct target tg = *t;
	tg.regs = t->regs ? t->regs : t->lanes >= 16 ? 32 : 16;
	tg.fma_gflops = tg.copy_gbs = 0;
	memset(tg.bw_gbs, 0, sizeof tg.bw_gbs);
	memset(tg.launch_ns, 0, sizeof tg.launch_ns);
	if (*c && same_machine(&(*c)->tg, &tg))
		return E_OK;
	struct layout_costs *new = arena_try(a, 1, sizeof *new);
	struct memo *memo = arena_try(a, ROOM, sizeof *memo);
	if (!new || !memo)
		return E_NOMEM;
	*new = (struct layout_costs){.tg = tg, .memo = memo, .room = ROOM};
	*c = new;
	return E_OK;
}

static struct memo *find(const struct layout_costs *c, struct key k)
{
	size_t at = (size_t)k.lo & (c->room - 1);
	while (c->memo[at].cycles > 0 && !key_equal(c->memo[at].key, k))
		at = (at + 1) & (c->room - 1);
	return &c->memo[at];
}

/* Keeps a cost; without memory for it, the cost is dropped. */
static void keep(struct layout_costs *c, struct arena *a, struct memo m)
{
	if (c->n >= c->room / 2) {
		struct layout_costs old = *c;
		struct memo *more = arena_try(a, 2 * c->room, sizeof *more);
		if (!more)
			return;
		c->memo = more;
		c->room *= 2;
		for (size_t i = 0; i < old.room; i++)
			if (old.memo[i].cycles > 0)
				*find(c, old.memo[i].key) = old.memo[i];
	}
	*find(c, m.key) = m;
	c->n++;
}

static double draft(const struct layout_costs *c, struct arena *scratch, const struct task *t)
{
	char cand[CAND_MAX];
	struct space *s;
	struct target tg = c->tg;
	double bytes = task_bytes(t, false), l2 = (double)tg.l2_bytes, cycles = NEVER;
	tg.bw_gbs[2] = bytes < l2 ? NEAR : bytes < 4 * l2 ? FAR : FARTHEST;
	if (space_make(scratch, t, &tg, NULL, &s) >= 0) {
		space_default(s, cand);
		cycles = CALL + space_draft(s, cand) * draft_ghz(&tg);
	}
	return cycles;
}

double layout_cycles(struct layout_costs *c, struct arena *a, struct arena *scratch, struct task *t)
{
	task_simplify(t);
	struct memo m = {.key = task_key(t)};
	const struct memo *kept = find(c, m.key);
	if (kept->cycles > 0)
		return kept->cycles;
	m.cycles = draft(c, scratch, t);
	keep(c, a, m);
	return m.cycles;
}
