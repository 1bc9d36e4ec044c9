/* SPDX-License-Identifier: Apache-2.0 */
/* What the program of tests/lib/random_program.h computes on: memory with special values, once for the
 * interpreter and once for an emitter's code; and programs of one operation after another. */
#ifndef TESTS_PROGRAM_MEMORY_H
#define TESTS_PROGRAM_MEMORY_H

#include "tests/lib/random_program.h"

#include <stdbool.h>
#include <stdio.h>

struct program_memory {
	float f[NBUFS][ELEMS];
	void *bufs[NBUFS];
};
static struct program_memory start, want, got; /* want: interpreted */
static const int64_t memory_bytes[NBUFS] = {ELEMS * 4, ELEMS * 4, ELEMS * 4, ELEMS * 4, ELEMS * 4};

static const uint32_t special[] = {0,          0x80000000, 0x3f800000, 0xbf000000, 0x7f800000, 0xff800000,
				   0x7fc00000, 0x00800000, 0x7f7fffff, 0xc0200000, 0x40490fdb, 0x4b000001};
enum { SPECIALS = sizeof special / sizeof *special };

/* Fills `start`: random floats, some special ones in the second input, small integers in the table. */
static void fill_memory(uint64_t seed)
{
	struct rng r;
	rng_seed(&r, seed);
	memset(&start, 0, sizeof start);
	for (int b = 0; b < NBUFS; b++)
		rng_fill(&r, start.f[b], ELEMS);
	for (int i = 0; i < ELEMS; i += 1 + (int)rng_below(&r, 40))
		memcpy(&start.f[B_B][i], &special[rng_below(&r, SPECIALS)], 4);
	for (int i = 0; i < ELEMS; i++) {
		int32_t t = (int32_t)rng_below(&r, 300);
		memcpy(&start.f[B_T][i], &t, 4);
	}
}

/* Special values for some_operations: the first two operands get all pairs. */
static void fill_special(void)
{
	fill_memory(1);
	for (int i = 0; i < 512; i++) {
		int k = i % 256;
		memcpy(&start.f[B_A][i], &special[i < 256 ? k % SPECIALS : k / SPECIALS % SPECIALS], 4);
		memcpy(&start.f[B_B][i], &special[(i < 256 ? k / 3 : k / 5) % SPECIALS], 4);
	}
}

static void place(struct program_memory *m)
{
	*m = start;
	for (int b = 0; b < NBUFS; b++)
		m->bufs[b] = m->f[b];
}

/* Places both memories, and interprets the program in `l` on `want`. */
static int interpret(const int64_t *params)
{
	int rc = 0;
	place(&want);
	place(&got);
	for (int e = 0; e < l.nentries && rc >= 0; e++)
		rc = loops_run(&l, e, want.bufs, params, 0, ix_eval(l.entry[e].extent, params, NULL, NULL));
	return rc;
}

/* Whether both memories are the same; prints the first difference. */
static bool memories_agree(uint64_t seed, bool (*same)(float a, float b))
{
	for (int b = 0; b < NBUFS; b++)
		for (int i = 0; i < ELEMS; i++)
			if (!same(want.f[b][i], got.f[b][i])) {
				uint32_t w, g;
				memcpy(&w, &want.f[b][i], 4);
				memcpy(&g, &got.f[b][i], 4);
				printf("seed %llu: buffer %s[%d] is %08x, interpreted %08x\n",
				       (unsigned long long)seed, l.buf[b].name, i, g, w);
				return false;
			}
	return true;
}

/* Element i of each operand comes from the special values, all pairs of the first two; every operation has
 * its own part of the output. Returns the number of operations. */
static int some_operations(int lanes, bool fma, enum vop first, enum vop end)
{
	int v[5], n = 0, each = 144 / lanes * lanes;
	begin_program(fma);
	loops_entry(&l, c(each / lanes));
	const struct ix *i = ix_mul(&l, ix_var(&l, l.entry[0].var), c(lanes));
	for (int k = 0; k < 5; k++)
		v[k] = lv_new(&l, lanes);
	for (int k = 0; k < 4; k++)
		lv_load(&l, v[k], at(k < 2 ? B_A : B_B, ix_add(&l, i, c(k % 2 * 256))));
	for (enum vop op = first; op < end; op++) {
		if (op == V_LOAD || (op >= V_POW2 && op <= V_LACE))
			continue; /* in random programs, with operands that they are defined for */
		if (op == V_LANE)
			lv_lane(&l, v[4], v[0], lanes - 1);
		else if (op == V_CONST)
			lv_const(&l, v[4], -0.0f);
		else
			lv_set(&l, v[4], op, v[0], v[1], v[2], v[3]);
		lv_store(&l, v[4], at(B_O, ix_add(&l, i, c(n++ * each))));
	}
	loops_entry_end(&l);
	return n;
}

#endif
