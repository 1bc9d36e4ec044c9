/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-kernels: how near default schedules come to the limits of one core. Kernels are timed in turn
 * with a loop of independent FMAs (the peak; dot products of bytes for tasks that use them) and a copy of the
 * depthwise's bytes, all in one process pinned
 * to one core; the figure is the minimum of --runs runs (2000). The cases take turns in bursts, so that each
 * is spread over the whole run: on a shared machine a neighbour's load lasts longer than a burst.
 *
 * bench_kernels [--json] [--cold] [--runs N] [--case NAME] [--random N] [--cand TEXT]... [--task FILE]...:
 * --random tries N random schedules per case besides the default and the portfolio, --cand tries the given
 * ones. The best by minimum is shown beside the default and the one with the best draft, and so is every
 * given one. --task: the text of a task in a file replaces the cases (`hone tasks` prints such texts).
 * --cold: constants come from memory and inputs have just been read, as in a network. */
#include "kernels/emit/emit.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"
#include "kernels/task/task_stage.h"
#include "platform/run/dev.h"
#include "platform/machine/evict.h"
#include "platform/base/file.h"
#include "platform/base/pages.h"
#include "platform/run/pool.h"

#include "tools/bench/one_core.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct subject_text {
	const char *name, *text;
	double floor; /* target share of the FMA peak, or of the copy if `copies` */
	bool copies;
	bool exact; /* direct convolution: its flops are compared with the peak */
};

/* A quantized convolution with padding in the input's halo. */
#define QCONV(name, c, k, size, f, off, layout, floor)                                                       \
	{                                                                                                    \
		name,                                                                                        \
		    "task syms=0\noperand X in u8 [1," c "," size "," size "] " layout ";2+1+1;3+1+1\n"      \
		    "operand W const i8 [" k "," c "," f "," f "] plain\noperand B const i32 [" k            \
		    "] plain\n"                                                                              \
		    "operand S const f32 [" k "] plain\noperand Y out u8 [1," k "," size "," size            \
		    "] " layout "\nstage n:1 k:" k " y:" size " x:" size " | c:" c " r:" f " s:" f           \
		    "\nread X [n,c,y+r" off ",x+s" off                                                       \
		    "]\nread W [k,c,r,s]\nread B [k]\nread S [k]\nbody r0 r1 mul\nsum\n"                     \
		    "post acc r2 add r3 mul rint 3 add\nwrite Y [n,k,y,x]\n",                                \
		    floor, false, true                                                                       \
	}

static const struct subject_text cases[] = {
    {"conv3x3 64-64 56",
     "task syms=0\noperand X in f32 [1,64,56,56] 0.1/16.2.3.1;2+1+1;3+1+1\noperand W const f32 [64,64,3,3] "
     "plain\n"
     "operand B const f32 [64] plain\noperand Y out f32 [1,64,56,56] 0.1/16.2.3.1\n"
     "stage n:1 k:64 y:56 x:56 | c:64 r:3 s:3\nread X [n,c,y+r-1,x+s-1]\nread W [k,c,r,s]\nread B [k]\n"
     "body r0 r1 mul\nsum\npost acc r2 add 0 max\nwrite Y [n,k,y,x]\n",
     .92, false, true},
    {"conv1x1 256-64 56",
     "task syms=0\noperand X in f32 [1,256,3136] 0.1/16.2.1\noperand W const f32 [64,256] plain\n"
     "operand B const f32 [64] plain\noperand Y out f32 [1,64,3136] 0.1/16.2.1\n"
     "stage n:1 k:64 p:3136 | c:256\nread X [n,c,p]\nread W [k,c]\nread B [k]\n"
     "body r0 r1 mul\nsum\npost acc r2 add 0 max\nwrite Y [n,k,p]\n",
     .92, false, true},
    {"matmul 512",
     "task syms=0\noperand A in f32 [512,512] plain\noperand B const f32 [512,512] plain\noperand Y out f32 "
     "[512,512] plain\n"
     "stage m:512 n:512 | k:512\nread A [m,k]\nread B [k,n]\nbody r0 r1 mul\nsum\nwrite Y [m,n]\n",
     .90, false, true},
    {"depthwise3x3 32 112",
     "task syms=0\noperand X in f32 [1,32,112,112] 0.1/16.2.3.1;2+1+1;3+1+1\noperand W const f32 [32,1,3,3] "
     "plain\n"
     "operand B const f32 [32] plain\noperand Y out f32 [1,32,112,112] 0.1/16.2.3.1\n"
     "stage n:1 c:32 y:112 x:112 | r:3 s:3\nread X [n,c,y+r-1,x+s-1]\nread W [c,0,r,s]\nread B [c]\n"
     "body r0 r1 mul\nsum\npost acc r2 add 0 max\nwrite Y [n,c,y,x]\n",
     .85, true, true},
    QCONV("u8 conv3x3 64-64 56", "64", "64", "56", "3", "-1", "0.2.3.1", .90),
    QCONV("u8 conv3x3 64-64 c/16", "64", "64", "56", "3", "-1", "0.1/16.2.3.1", .90),
    QCONV("u8 conv3x3 512-512 7", "512", "512", "7", "3", "-1", "0.2.3.1", .90),
    QCONV("u8 conv1x1 256-64 56", "256", "64", "56", "1", "", "0.2.3.1", .85),
    QCONV("u8 conv1x1 64-256 56", "64", "256", "56", "1", "", "0.2.3.1", .80),
    {"u8 depthwise3x3 32 112",
     "task syms=0\noperand X in u8 [1,32,112,112] 0.1/16.2.3.1;2+1+1;3+1+1\noperand W const i8 [32,1,3,3] "
     "plain\n"
     "operand B const i32 [32] plain\noperand S const f32 [32] plain\n"
     "operand Y out u8 [1,32,112,112] 0.1/16.2.3.1\n"
     "stage n:1 c:32 y:112 x:112 | r:3 s:3\nread X [n,c,y+r-1,x+s-1]\nread W [c,0,r,s]\nread B [c]\n"
     "read S [c]\nbody r0 r1 mul\nsum\npost acc r2 add r3 mul rint 3 add\nwrite Y [n,c,y,x]\n",
     1.25, false, true},
};

enum {
	NCASES = sizeof cases / sizeof cases[0],
	MAX_CANDS = 512,
	MAX_GIVEN = 32,
	MAX_SUBJECTS = 96,
	BURST = 50
};

struct kernel {
	char cand[CAND_MAX];
	struct dev_code *code;
	struct manifest m;
	void *bufs[CODE_MAX_BUFS];
	size_t bytes[CODE_MAX_BUFS];
	int64_t extent, best_ns;
};

/* One case: the task and its schedules, the default first, then the given ones. */
struct subject {
	struct subject_text text;
	struct task t;
	struct space *space;
	struct kernel *k;
	int n, ngiven, best;
	bool dots;
};

struct buffer {
	struct buffer *next;
	struct pages pages;
};

struct bench {
	struct arena a;
	struct buffer *buffers;
	struct target tg;
	const struct emit *emit;
	const struct dev *dev;
	struct clock *clock;
	struct rng rng;
	int runs, random;
	const char *only, *given[MAX_GIVEN];
	int ngiven, nfiles;
	const char *file[MAX_SUBJECTS];
	struct subject subject[MAX_SUBJECTS];
	int nsubjects;
	bool json, cold;
	struct dev_code *peak[2]; /* of FMAs and of dot products */
	float *peak_out, *from, *to;
	size_t copy_bytes;
	int64_t peak_ns[2], copy_ns;
};

enum { PEAK_ACCS = 24, PEAK_STEPS = 4000 };

/* acc[i] = acc[i] * x + y, or acc[i] + the dot products of x and y, for 24 independent accumulators. */
static struct loops *peak_loops(struct bench *b, bool dots)
{
	struct loops *l = ARENA_NEW(&b->a, struct loops);
	int acc[PEAK_ACCS], n = b->tg.regs > 16 ? PEAK_ACCS : 12, lanes = b->tg.lanes, x, y;
	const struct ix *v;
	loops_init(l, &b->a, b->tg.fma);
	int (*const new)(struct loops *, int) = dots ? lv_new_s32 : lv_new;
	int out = loops_buf(l, "out", BUF_OUT, dots ? DT_I32 : DT_F32, ix_c(l, PEAK_ACCS * lanes));
	loops_entry(l, ix_c(l, 1));
	x = new (l, lanes);
	y = new (l, lanes);
	lv_load(l, x, (struct mem){.buf = out, .at = ix_c(l, 0), .stride = 1});
	lv_load(l, y, (struct mem){.buf = out, .at = ix_c(l, lanes), .stride = 1});
	for (int i = 0; i < n; i++)
		lv_load(l, acc[i] = new (l, lanes),
			(struct mem){.buf = out, .at = ix_c(l, i * lanes), .stride = 1});
	struct stmt *f = for_begin(l, ix_c(l, 0), ix_c(l, PEAK_STEPS), 1, true, &v);
	for (int i = 0; i < n; i++)
		if (dots)
			lv_dot4(l, acc[i], V_DOT4U, x, y, acc[i], false);
		else
			lv_set(l, acc[i], V_FMA, acc[i], x, y, -1);
	for_end(l, f);
	for (int i = 0; i < n; i++)
		lv_store(l, acc[i], (struct mem){.buf = out, .at = ix_c(l, i * lanes), .stride = 1});
	loops_entry_end(l);
	return l;
}

static double peak_gflops(const struct bench *b, bool dots)
{
	return (dots ? 8. : 2.) * (b->tg.regs > 16 ? PEAK_ACCS : 12) * PEAK_STEPS * b->tg.lanes /
	       (double)b->peak_ns[dots];
}

static int load_loops(struct bench *b, const struct loops *l, struct dev_code **out)
{
	struct blob object;
	int rc = b->emit->emit(l, &b->tg, &b->a, &object);
	return rc < 0 ? rc : b->dev->load(object.p, object.n, out);
}

/* Memory in guarded pages, with alignment and surroundings as in a plan; NULL: no memory. */
static void *buffer(struct bench *b, int64_t bytes)
{
	struct buffer *n = ARENA_ARRAY(&b->a, struct buffer, 1);
	if (pages_open(&n->pages, (size_t)bytes, PAGES_GUARDED) < 0)
		return NULL;
	n->next = b->buffers;
	b->buffers = n;
	return n->pages.p;
}

static size_t each(const struct task *t, const struct code_buf *b)
{
	return b->operand < 0 ? 1 : dtype_bytes(pack_type(&b->packing, t->operand[b->operand].dtype));
}

static int build(struct bench *b, const struct task *t, void *const *plain, struct kernel *k)
{
	struct loops *l;
	int rc = lower(t, k->cand, &b->tg, &b->a, &l, &k->m);
	if (rc < 0 || (rc = load_loops(b, l, &k->code)) < 0)
		return rc;
	for (int i = 0; i < k->m.nbufs; i++) {
		const struct code_buf *cb = &k->m.buf[i];
		if (cb->operand >= 0 && !cb->packed) {
			k->bufs[i] = plain[cb->operand];
			continue;
		}
		int64_t elems = cb->packed ? pack_elems(&cb->packing) : k->m.scratch_bytes;
		if (!(k->bufs[i] = buffer(b, elems * (int64_t)each(t, cb))))
			return E_NOMEM;
		if (cb->packed)
			pack_run_type(&cb->packing, t->operand[cb->operand].dtype, plain[cb->operand],
				      k->bufs[i]);
	}
	for (int i = 0; i < k->m.nbufs; i++)
		k->bytes[i] = (size_t)k->m.buf[i].elems * each(t, &k->m.buf[i]);
	k->extent = code_extent(&k->m, 0, k->m.param);
	k->best_ns = INT64_MAX;
	return k->extent < 0 ? (int)k->extent : E_OK;
}

static void keep_min(int64_t *best, int64_t ns)
{
	if (ns < *best)
		*best = ns;
}

static void chill(const struct kernel *k)
{
	for (int i = 0; i < k->m.nbufs; i++)
		if (k->m.buf[i].role == BUF_CONST)
			evict_range(k->bufs[i], k->bytes[i]);
	for (int i = 0; i < k->m.nbufs; i++)
		if (k->m.buf[i].role == BUF_IN)
			evict_by_reading(k->bufs[i], k->bytes[i]);
}

static void run_once(struct bench *b, struct kernel *k)
{
	if (b->cold)
		chill(k);
	int64_t t = clock_now(b->clock);
	b->dev->run(k->code, 0, k->bufs, k->m.param, 0, k->extent);
	keep_min(&k->best_ns, clock_now(b->clock) - t);
}

static void run_limits(struct bench *b)
{
	void *bufs[1] = {b->peak_out};
	for (int i = 0; i < 2; i++) {
		int64_t t = clock_now(b->clock);
		b->dev->run(b->peak[i], 0, bufs, NULL, 0, 1);
		keep_min(&b->peak_ns[i], clock_now(b->clock) - t);
		for (int j = 0; j < PEAK_ACCS * 16; j++)
			b->peak_out[j] = .5f;
	}
	if (!b->copy_bytes)
		return;
	int64_t t = clock_now(b->clock);
	memcpy(b->to, b->from, b->copy_bytes);
	__asm__ volatile("" ::"r"(b->to) : "memory");
	keep_min(&b->copy_ns, clock_now(b->clock) - t);
}

static void fill_one(struct bench *b, const struct operand *o, void *p, int64_t n)
{
	if (o->dtype == DT_F32)
		rng_fill(&b->rng, p, (size_t)n);
	for (int64_t i = 0; i < n * (int64_t)dtype_bytes(o->dtype) && o->dtype != DT_F32; i++)
		((uint8_t *)p)[i] = o->dtype == DT_I32 ? 0 : (uint8_t)rng_below(&b->rng, 256);
}

/* Random data in every operand's physical layout; integers of 4 bytes are 0. */
static int fill(struct bench *b, const struct task *t, void **plain)
{
	for (int i = 0; i < t->noperands; i++) {
		int64_t n = operand_elems(&t->operand[i]);
		if (!(plain[i] = buffer(b, n * (int64_t)dtype_bytes(t->operand[i].dtype))))
			return E_NOMEM;
		fill_one(b, &t->operand[i], plain[i], n);
	}
	return E_OK;
}

/* Builds the schedule in the next free slot; if that works, the kernel is added to the subject. */
static int add(struct bench *b, struct subject *s, void *const *plain)
{
	struct kernel *k = &s->k[s->n];
	int rc = build(b, &s->t, plain, k);
	if (rc < 0 && s->n)
		fprintf(stderr, "%s: %s\n", k->cand, err_text());
	s->n += rc >= 0;
	return rc;
}

static int candidates(struct bench *b, struct subject *s, void *const *plain)
{
	const struct space_want want = {.level = s->text.exact ? LEVEL_EXACT : LEVEL_FP32};
	int rc = space_make(&b->a, &s->t, &b->tg, &want, &s->space);
	if (rc < 0)
		return rc;
	s->k = ARENA_ARRAY(&b->a, struct kernel, MAX_CANDS);
	space_default(s->space, s->k[0].cand);
	if ((rc = add(b, s, plain)) < 0)
		return rc;
	for (int i = 0; i < b->ngiven; i++) {
		snprintf(s->k[s->n].cand, CAND_MAX, "%s", b->given[i]);
		add(b, s, plain);
	}
	s->ngiven = s->n - 1;
	for (int rule = 0;
	     b->random && s->n < MAX_CANDS && space_portfolio(s->space, &rule, s->k[s->n].cand) >= 0;)
		add(b, s, plain);
	for (int i = 0; i < b->random && s->n < MAX_CANDS; i++) {
		if ((rc = space_random(s->space, &b->rng, s->k[s->n].cand)) < 0)
			return rc;
		add(b, s, plain);
	}
	return E_OK;
}

static void show(const struct bench *b, const struct subject *s, const struct kernel *k, const char *what)
{
	const struct subject_text *c = &s->text;
	double draft_us = space_draft(s->space, k->cand) / 1e3;
	double gflops = task_flops(&s->t) / (double)k->best_ns, of_peak = gflops / peak_gflops(b, s->dots);
	double share = c->copies ? (double)b->copy_ns / (double)k->best_ns : of_peak;
	if (b->json) {
		printf("{\"case\":\"%s\",\"schedule\":\"%s\",\"cand\":\"%s\",\"us\":%.2f,\"gflops\":%.1f,"
		       "\"peak_gflops\":%.1f,"
		       "\"of\":\"%s\",\"share\":%.4f,\"wanted\":%.2f,\"draft_us\":%.2f}\n",
		       c->name, what, k->cand, (double)k->best_ns / 1e3, gflops, peak_gflops(b, s->dots),
		       c->copies ? "copy" : "peak", share, c->floor, draft_us);
		return;
	}
	printf("%-20s %-8s %9.1f us %8.1f GFLOP/s  %5.1f %% of %-4s (wanted %2.0f) draft %.1f us  %s\n",
	       c->name, what, (double)k->best_ns / 1e3, gflops, 100 * share, c->copies ? "copy" : "peak",
	       100 * c->floor, draft_us, k->cand);
}

static int make_copy(struct bench *b, const struct task *t)
{
	int64_t elems = (operand_elems(&t->operand[0]) + operand_elems(&t->operand[3])) / 2;
	b->copy_bytes = (size_t)elems * 4;
	if (!(b->from = buffer(b, elems * 4)) || !(b->to = buffer(b, elems * 4)))
		return E_NOMEM;
	memset(b->from, 1, b->copy_bytes);
	return E_OK;
}

static int make_subject(struct bench *b, struct subject_text text)
{
	if (b->nsubjects == MAX_SUBJECTS)
		return fail(E_USAGE, "more than %d tasks; give fewer", MAX_SUBJECTS);
	struct subject *s = &b->subject[b->nsubjects++];
	void *plain[MAX_OPERANDS];
	s->text = text;
	int rc = task_parse(text.text, &s->t);
	if (rc < 0)
		return fail_in(rc, "%s", text.name);
	const struct task *groups = task_groups(&b->a, &s->t);
	if (s->t.nsyms)
		return fail(E_UNSUPPORTED, "%s does not have constant shapes", text.name);
	for (int i = 0; i < s->t.nstages; i++)
		s->dots |= stage_sum(groups, &groups->stage[i]) == SUM_DOT;
	if ((rc = fill(b, &s->t, plain)) >= 0 && (!text.copies || (rc = make_copy(b, &s->t)) >= 0))
		rc = candidates(b, s, plain);
	return rc < 0 ? fail_in(rc, "%s", text.name) : E_OK;
}

static int file_subject(struct bench *b, const char *path)
{
	struct blob text;
	int rc = file_read(&b->a, path, 1 << 16, &text);
	if (rc < 0)
		return rc;
	const char *name = strrchr(path, '/');
	return make_subject(b, (struct subject_text){
				   .name = name ? name + 1 : path,
				   .text = arena_strndup(&b->a, (const char *)text.p, text.n),
				   .floor = 1,
			       });
}

/* Runs each kernel once per round. After a few rounds slow random candidates are left out. */
static void burst(struct bench *b, struct subject *s, int done)
{
	for (int r = 0; r < BURST; r++) {
		run_limits(b);
		for (int i = 0; i < s->n; i++)
			if (done + r < 8 || i <= s->ngiven || s->k[i].best_ns < s->k[s->best].best_ns * 5 / 4)
				run_once(b, &s->k[i]);
		for (int i = 0; i < s->n; i++)
			s->best = s->k[i].best_ns < s->k[s->best].best_ns ? i : s->best;
	}
}

static int best_drafted(const struct subject *s)
{
	int best = 0;
	for (int i = 1; i < s->n; i++)
		if (space_draft(s->space, s->k[i].cand) < space_draft(s->space, s->k[best].cand))
			best = i;
	return best;
}

static void run_all(struct bench *b)
{
	b->peak_ns[0] = b->peak_ns[1] = b->copy_ns = INT64_MAX;
	for (int done = 0; done < b->runs; done += BURST)
		for (int i = 0; i < b->nsubjects; i++)
			burst(b, &b->subject[i], done);
	for (int i = 0; i < b->nsubjects; i++) {
		struct subject *s = &b->subject[i];
		show(b, s, &s->k[0], "default");
		for (int j = 1; j <= s->ngiven; j++)
			show(b, s, &s->k[j], "given");
		if (s->n == 1 + s->ngiven)
			continue;
		show(b, s, &s->k[best_drafted(s)], "drafted");
		show(b, s, &s->k[s->best], "best");
	}
}

static int open_bench(struct bench *b)
{
	int rc = one_core();
	if (rc < 0)
		return rc;
	rng_seed(&b->rng, 1);
	b->emit = emit_find("llvm");
	b->dev = dev_find("cpu");
	if (!b->emit || !b->dev)
		return fail(E_NOTFOUND, "this build has no llvm emitter or no cpu device");
	b->clock = b->dev->clock();
	rc = b->dev->probe(&b->tg);
	for (int i = 0; i < 2 && rc >= 0; i++)
		rc = load_loops(b, peak_loops(b, i), &b->peak[i]);
	if (rc < 0)
		return rc;
	b->peak_out = arena_aligned(&b->a, sizeof(float) * PEAK_ACCS * 16, 64);
	for (int i = 0; i < PEAK_ACCS * 16; i++)
		b->peak_out[i] = .5f;
	return E_OK;
}

static int usage(void)
{
	fprintf(
	    stderr,
	    "usage: bench_kernels [--json] [--cold] [--runs N] [--case NAME] [--random N] [--cand TEXT]... "
	    "[--task FILE]...\n");
	return 2;
}

int main(int argc, char **argv)
{
	static struct bench b = {.runs = 2000};
	for (int i = 1; i < argc; i++) {
		const char *v = i + 1 < argc ? argv[i + 1] : NULL;
		if (!strcmp(argv[i], "--json") || !strcmp(argv[i], "--cold")) {
			*(argv[i][2] == 'j' ? &b.json : &b.cold) = true;
			continue;
		}
		if (!v)
			return usage();
		if (!strcmp(argv[i], "--runs"))
			b.runs = atoi(v);
		else if (!strcmp(argv[i], "--random"))
			b.random = atoi(v);
		else if (!strcmp(argv[i], "--case"))
			b.only = v;
		else if (!strcmp(argv[i], "--cand") && b.ngiven < MAX_GIVEN)
			b.given[b.ngiven++] = v;
		else if (!strcmp(argv[i], "--task") && b.nfiles < MAX_SUBJECTS)
			b.file[b.nfiles++] = v;
		else
			return usage();
		i++;
	}
	int rc = open_bench(&b);
	for (int i = 0; i < b.nfiles && rc >= 0; i++)
		rc = file_subject(&b, b.file[i]);
	for (int i = 0; i < NCASES && !b.nfiles && rc >= 0; i++)
		if (!b.only || strstr(cases[i].name, b.only))
			rc = make_subject(&b, cases[i]);
	if (rc >= 0)
		run_all(&b);
	if (rc < 0)
		fprintf(stderr, "bench_kernels: %s\n", err_text());
	for (struct buffer *n = b.buffers; n; n = n->next)
		pages_close(&n->pages);
	arena_free(&b.a);
	return rc < 0;
}
