/* SPDX-License-Identifier: Apache-2.0 */
/* Random candidates of random tasks for GPUs, lowered for a target of the ISA cuda: by seed, all kinds of
 * tasks and schedules that a device of work items has, in turn. */
#ifndef TESTS_PTX_CASES_H
#define TESTS_PTX_CASES_H

#include "kernels/emit/emit.h"
#include "kernels/space/frag.h"
#include "kernels/space/resident.h"
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

static const char *const frag_post[] = {"", "post acc r2 add\n", "post acc r2 add 0 max\n",
					"post acc r2 mul\n"};

/* A product of matrices. */
static inline void frag_product(struct buf *b, struct rng *r, int k, int n, int which)
{
	int m = pick(r, 0, 1) ? 16 * pick(r, 1, 6) : pick(r, 1, 70);
	buf_printf(b, "task syms=0\noperand X in f32 [%d,%d] plain\noperand W const f32 [%d,%d] plain\n", m,
		   k, k, n);
	if (which)
		buf_printf(b, "operand B %s f32 [%d] plain\n", pick(r, 0, 1) ? "const" : "in", n);
	buf_printf(b, "operand Y out f32 [%d,%d] plain\nstage m:%d n:%d | k:%d\nread X [m,k]\nread W [k,n]\n",
		   m, n, m, n, k);
	buf_printf(b, "%sbody %s mul\nsum\n%swrite Y [m,n]\n", which ? "read B [n]\n" : "",
		   pick(r, 0, 1) ? "r0 r1" : "r1 r0", frag_post[which]);
}

/* A convolution of an image whose channels lie side by side, all of them or 16 at a time. */
static inline void frag_conv(struct buf *b, struct rng *r, int c, int k, int which)
{
	int taps = pick(r, 0, 1) ? 1 : pick(r, 2, 3), stride = pick(r, 1, 2), pad = pick(r, 0, taps - 1),
	    oh = pick(r, 1, 9), ow = pick(r, 1, 17);
	int h = (oh - 1) * stride + taps - 2 * pad, w = (ow - 1) * stride + taps - 2 * pad;
	h = h < 1 ? 1 : h;
	w = w < 1 ? 1 : w;
	buf_puts(b, "task syms=0\n");
	image(b, r, "X", "in", 1, c, h, w, pick(r, 0, 1) ? pad : 0, 16);
	buf_printf(b, "operand W const f32 [%d,%d,%d,%d] plain\n", k, c, taps, taps);
	if (which)
		buf_printf(b, "operand B const f32 [%d] plain\n", k);
	image(b, r, "Y", "out", 1, k, oh, ow, pick(r, 0, 1), block_of(r));
	buf_printf(b, "stage k:%d y:%d x:%d | c:%d r:%d s:%d\nread X [0,c,", k, oh, ow, c, taps, taps);
	window(b, "y", "r", stride, 1, pad);
	buf_puts(b, ",");
	window(b, "x", "s", stride, 1, pad);
	buf_printf(b, "]\nread W [k,c,r,s]\n%sbody %s mul\nsum\n%swrite Y [0,k,y,x]\n",
		   which ? "read B [k]\n" : "", pick(r, 0, 1) ? "r0 r1" : "r1 r0", frag_post[which]);
}

/* A sum that fragments can make. */
static inline void frag_text(struct buf *b, struct rng *r)
{
	int k = 16 * pick(r, 1, 5), n = pick(r, 0, 1) ? 16 * pick(r, 1, 5) : pick(r, 8, 70);
	(pick(r, 0, 1) ? frag_product : frag_conv)(b, r, k, n, pick(r, 0, 3));
}

static inline void frag_heads(struct buf *b, struct rng *r)
{
	struct buf draft = {0};
	gen_heads(&draft, r, true);
	round_numbers(buf_str(&draft), b);
	buf_free(&draft);
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
		 {"weights in f16", LEVEL_W16, products_text, "w16=1"},
		 {"windows of rows", LEVEL_FP32, windows_text, "down="},
		 {"shapes of warps", LEVEL_FP32, tiles_text, "warp="},
		 {"winograd", LEVEL_FP32, conv_3x3_text, "winograd="},
		 {"winograd in one launch", LEVEL_FP32, conv_3x3_text, "chunk="},
		 {"fragments", LEVEL_HALF_SUM, frag_text, "fragrows="},
		 {"fragments of parts", LEVEL_HALF_SUM, frag_text, "split"},
		 {"fragments of parts of bytes", LEVEL_FP32, byte_sixteens_text, "split"},
		 {"fragments of bytes", LEVEL_FP32, byte_sixteens_text, "fragrows="},
		 {"fragments of inputs", LEVEL_FP32, byte_heads_text, "fragrows="},
		 {"fragments of floats", LEVEL_HALF_SUM, frag_heads, "fragrows="},
		 {"fragments of bf16", LEVEL_HALF, frag_text, "bf16; "},
		 {"fragments of bf16 inputs", LEVEL_HALF, frag_heads, "bf16; "},
		 {"fragments of tf32", LEVEL_HALF, frag_text, "tf32; "},
		 {"fragments of tf32 inputs", LEVEL_HALF, frag_heads, "tf32; "}};
enum { PTX_KINDS = sizeof ptx_kinds / sizeof *ptx_kinds };

struct ptx_case {
	struct kcase c;
	const struct ptx_kind *kind;
	struct target tg;
	struct buf task;
	char cand[CAND_MAX];
	struct loops *l;
	struct manifest m;
	bool exact;      /* ptx_exact() made the factors */
	const char *bad; /* what failed; NULL: nothing */
};

/* Sets both factors so that their sums are exact, but differ where they are not rounded to TF32, to nearest
 * and ties away from zero: elements of one are ties, those of the other near small whole numbers. */
static inline int ptx_exact(struct kcase *c, struct rng *r)
{
	for (int i = 0; i < 2; i++) {
		const struct operand *o = &c->t.operand[i];
		float *v = c->plain[i];
		for (int64_t j = 0; j < shape_count(&o->dims); j++)
			v[j] = i ? (float)pick(r, -2, 2) * (1 + 1.f / 8192)
				 : (float)(2 * pick(r, 0, 1) - 1) * (1 + (float)pick(r, 0, 2047) / 2048);
		operand_pack(o, v, c->phys[i]);
		operand_pack(o, v, c->ref[i]);
	}
	return task_reference(&c->t, c->ref, &c->a);
}

/* Makes the case of a seed; false: its task has no schedule of the kind. ptx_drop frees it in any case. */
static inline bool ptx_make(struct ptx_case *p, const char *cpu, uint64_t seed)
{
	struct rng r;
	struct space *s;
	*p = (struct ptx_case){.kind = &ptx_kinds[seed % PTX_KINDS], .tg = ptx_target(cpu)};
	const struct space_want want = {.level = p->kind->level};
	static const int regs[] = {16, 32, 60};
	p->exact = p->kind->key && !strcmp(p->kind->key, "tf32; ");
	p->tg.regs = regs[seed / PTX_KINDS % 3];
	rng_seed(&r, seed);
	p->kind->make(&p->task, &r);
	if (case_parse(&p->c, buf_str(&p->task), &r) < 0 ||
	    space_make(&p->c.a, &p->c.t, &p->tg, &want, &s) < 0 ||
	    (level_f16(p->kind->level) && case_round(&p->c, false) < 0) ||
	    (p->exact && ptx_exact(&p->c, &r) < 0)) {
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

/* Registers of each thread that the plan of a schedule with fragments expects (kernels/space/frag.h), before
 * anything is lowered; 0: the candidate has no fragments. */
static inline int ptx_planned(const struct task *t, const struct target *tg, const char *cand,
			      struct arena *a)
{
	const struct task *view = task_view(a, t, cand);
	struct sched s;
	struct frag_plan p;
	if (sched_parse(view, cand, &s) < 0 || !sched_frags(view, &s) || frag_plan_make(view, tg, &s, &p) < 0)
		return 0;
	int most = resident_registers(p.threads, s.st[view->nstages - 1].blocks);
	return p.registers < most ? p.registers : most;
}

/* Prints what is wrong with the case of a seed. */
static inline void ptx_complain(const struct ptx_case *p, uint64_t seed, const char *bad)
{
	printf("%s seed %llu (%s): %s\n%s\n%s", p->tg.cpu, (unsigned long long)seed, p->kind->name, bad,
	       p->cand, p->task.n ? p->task.p : "");
}

#endif
