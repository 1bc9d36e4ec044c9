/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks for tests: fixed ones and random ones. */
#ifndef TESTS_TASKS_H
#define TESTS_TASKS_H

#include "kernels/task/task.h"
#include "platform/base/rng.h"
#include <stdio.h>
#include <string.h>

static const char task_conv[] = "task syms=0\n"
				"operand X in f32 [1,32,7,9] 0.1/16.2.3.1;2+1+1;3+1+1\n"
				"operand W const f32 [24,32,3,3] plain\n"
				"operand B const f32 [24] plain\n"
				"operand Y out f32 [1,24,7,9] 0.1/16.2.3.1\n"
				"stage n:1 k:24 y:7 x:9 | c:32 r:3 s:3\n"
				"read X [n,c,y+r-1,x+s-1]\n"
				"read W [k,c,r,s]\n"
				"read B [k]\n"
				"body r0 r1 mul\n"
				"sum\n"
				"post acc r2 add 0 max\n"
				"write Y [n,k,y,x]\n";

static const char task_matmul[] = "task syms=0\n"
				  "operand A in f32 [14,40] plain\n"
				  "operand B const f32 [40,32] plain\n"
				  "operand C out f32 [14,32] plain\n"
				  "stage m:14 n:32 | k:40\n"
				  "read A [m,k]\n"
				  "read B [k,n]\n"
				  "body r0 r1 mul\n"
				  "sum\n"
				  "write C [m,n]\n";

static const char task_small_conv[] = "task syms=0\n"
				      "operand X in f32 [1,8,8,8] 0.1/4.2.3.1;2+1+1;3+1+1\n"
				      "operand W const f32 [8,8,3,3] plain\n"
				      "operand Y out f32 [1,8,8,8] 0.1/4.2.3.1\n"
				      "stage n:1 k:8 y:8 x:8 | c:8 r:3 s:3\n"
				      "read X [n,c,y+r-1,x+s-1]\n"
				      "read W [k,c,r,s]\n"
				      "body r0 r1 mul\n"
				      "sum\n"
				      "write Y [n,k,y,x]\n";

static const char task_pointwise[] = "task syms=0\n"
				     "operand X in f32 [1,16,7,7] 0.1/4.2.3.1\n"
				     "operand W const f32 [24,16] plain\n"
				     "operand Y out f32 [1,24,7,7] 0.1/4.2.3.1\n"
				     "stage n:1 k:24 y:7 x:7 | c:16\n"
				     "read X [n,c,y,x]\n"
				     "read W [k,c]\n"
				     "body r0 r1 mul\n"
				     "sum\n"
				     "post acc 0 max\n"
				     "write Y [n,k,y,x]\n";

static const char task_small_matmul[] = "task syms=0\n"
					"operand A in f32 [6,20] plain\n"
					"operand B const f32 [20,12] plain\n"
					"operand C out f32 [6,12] plain\n"
					"stage m:6 n:12 | k:20\n"
					"read A [m,k]\n"
					"read B [k,n]\n"
					"body r0 r1 mul\n"
					"sum\n"
					"write C [m,n]\n";

static const char task_dense[] =
    "task syms=0\noperand A in f32 [196,256] plain\noperand B const f32 [256,320] plain\n"
    "operand Y out f32 [196,320] plain\nstage m:196 n:320 | k:256\nread A [m,k]\n"
    "read B [k,n]\nbody r0 r1 mul\nsum\nwrite Y [m,n]\n";

static const char task_softmax[] = "task syms=0\n"
				   "operand X in f32 [5,19] plain\n"
				   "operand M tmp f32 [5] plain\n"
				   "operand S tmp f32 [5] plain\n"
				   "operand Y out f32 [5,19] plain\n"
				   "stage i:5 | j:19\n"
				   "read X [i,j]\n"
				   "body r0\n"
				   "max\n"
				   "write M [i]\n"
				   "stage i:5 | j:19\n"
				   "read X [i,j]\n"
				   "read M [i]\n"
				   "body r0 r1 sub exp\n"
				   "sum\n"
				   "write S [i]\n"
				   "stage i:5 j:19\n"
				   "read X [i,j]\n"
				   "read M [i]\n"
				   "read S [i]\n"
				   "body r0 r1 sub exp r2 div\n"
				   "write Y [i,j]\n";

/* A product of m rows, in the form of task_matmul; the last four results are valid. */
static inline const char *task_product(int m)
{
	static char text[4][256];
	static int n;
	char *out = text[n++ % 4];
	snprintf(out, sizeof *text,
		 "task syms=0\noperand A in f32 [%d,40] plain\noperand B const f32 [40,32] plain\n"
		 "operand C out f32 [%d,32] plain\nstage m:%d n:32 | k:40\nread A [m,k]\nread B [k,n]\n"
		 "body r0 r1 mul\nsum\nwrite C [m,n]\n",
		 m, m, m);
	return out;
}

static inline void task_random_prog(struct rng *r, struct prog *p, int nreads, bool post, bool spatial_reads)
{
	int depth = 0;
	for (int i = 0; i < 12 || depth != 1; i++) {
		int op = (int)rng_below(r, P_OPS), n = p->n;
		if (i >= 12)
			op = depth > 1 ? P_ADD : P_IMM;
		if ((op == P_READ && !spatial_reads) || (op == P_ACC && !post) ||
		    prog_op_arity((enum prog_op)op) > depth)
			op = P_IMM;
		p->at[n].op = (uint8_t)op;
		p->at[n].arg = op == P_READ ? (uint8_t)rng_below(r, (uint32_t)nreads) : 0;
		p->at[n].imm = op == P_IMM ? (float)rng_normal(r) * 3 : 0;
		p->n++;
		depth += 1 - prog_op_arity((enum prog_op)op);
	}
}

/* How a read indexes dim d: windows, strides, division; nred axes come after the spatial ones. */
static inline void task_random_index(struct rng *r, int rank, int nred, int d, struct index *x)
{
	if (rng_below(r, 3) == 0)
		x->coef[d] = (int64_t)rng_below(r, 4) - 1;
	if (nred && rng_below(r, 2))
		x->coef[rank + (int)rng_below(r, (uint32_t)nred)] = 1 + (int64_t)rng_below(r, 2);
	if (rng_below(r, 2))
		x->off = (int64_t)rng_below(r, 5) - 2;
	if (rng_below(r, 6) == 0)
		x->div = 2 + (int64_t)rng_below(r, 3);
	if (rng_below(r, 6) == 0)
		x->mod = 2 + (int64_t)rng_below(r, 3);
}

/* Makes operand i of nin inputs and an output, as large as the spatial axes, and the stage's index into
 * it. */
static inline void task_random_operand(struct rng *r, struct task *t, int i, int nin, int rank, int nred)
{
	struct stage *s = &t->stage[0];
	struct operand *o = &t->operand[t->noperands++];
	struct read *rd = i < nin ? &s->read[s->nreads++] : &s->out;
	snprintf(o->name, 8, "%c%c", i < nin ? 'X' : 'Y', '0' + i);
	o->role = i == nin ? ROLE_OUT : rng_below(r, 2) ? ROLE_IN : ROLE_CONST;
	o->dtype = DT_F32;
	o->dims.rank = rank;
	rd->operand = i;
	for (int d = 0; d < MAX_RANK; d++)
		rd->dim[d].table = -1;
	for (int d = 0; d < rank; d++) {
		o->dims.d[d] = s->axis[d].extent;
		rd->dim[d].coef[d] = 1;
		if (i < nin)
			task_random_index(r, rank, nred, d, &rd->dim[d]);
	}
	uint32_t kind = rng_below(r, 3);
	if (kind == 1)
		layout_blocked(&o->layout, rank, (int)rng_below(r, (uint32_t)rank),
			       1 << (1 + rng_below(r, 3)));
	for (int d = 0; d < rank && kind == 2; d++) {
		o->layout.lo[d] = (int64_t)rng_below(r, 3);
		o->layout.hi[d] = (int64_t)rng_below(r, 3);
	}
	if (i < nin && rng_below(r, 4) == 0)
		o->fill = -3.40282347e+38f;
}

/* Makes the first index of the first read go through a table. */
static inline void task_random_table(struct task *t)
{
	struct stage *s = &t->stage[0];
	struct operand *o = &t->operand[t->noperands];
	struct index *x = &s->read[0].dim[0];
	memset(x, 0, sizeof *x);
	x->coef[0] = 1;
	x->table = t->noperands++;
	snprintf(o->name, 8, "T");
	o->role = ROLE_CONST;
	o->dtype = DT_I32;
	o->dims.rank = 1;
	o->dims.d[0] = s->axis[0].extent;
}

/* Makes a valid task of one stage: rank 1 to 4 output, blocked or with halos or plain, up to two reduction
 * axes, several reads with windows, strides, division and tables. */
static inline void task_random(struct rng *r, struct task *t)
{
	memset(t, 0, sizeof *t);
	struct stage *s = &t->stage[0];
	int rank = 1 + (int)rng_below(r, 4), nred = (int)rng_below(r, 3), nin = 1 + (int)rng_below(r, 3);
	t->nstages = 1;
	s->naxes = rank + nred;
	for (int a = 0; a < s->naxes; a++) {
		snprintf(s->axis[a].name, 8, "a%c", '0' + a);
		s->axis[a].kind = a < rank ? AXIS_SPATIAL : AXIS_REDUCTION;
		s->axis[a].extent = 1 + (int64_t)rng_below(r, 6);
	}
	for (int i = 0; i <= nin; i++)
		task_random_operand(r, t, i, nin, rank, nred);
	if (rng_below(r, 3) == 0)
		task_random_table(t);
	s->comb = nred ? (enum combiner)(1 + (int)rng_below(r, 4)) : COMB_NONE;
	task_random_prog(r, &s->body, s->nreads, false, true);
	if (rng_below(r, 2))
		task_random_prog(r, &s->post, s->nreads, true, nred == 0);
}

#endif
