/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-inner: the innermost loops of random convolutions on Arm processors, by LLVM's models of these
 * (llvm-mca-19): multiply-adds per cycle as a share of the processor's rate, of default schedules and of the
 * schedules with the best drafts that do not spill; and the share of the whole kernel's cycles, with its
 * smaller tiles and epilogue. Nothing is timed. ARGS: --core a53, --count N convolutions per kind (20),
 * --seed N, --draws N random schedules per convolution (40), --kind NAME (one kind alone), --whole (the share
 * of the whole kernel, too), --list (one line per convolution). */
#include "kernels/emit/emit.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"
#include "platform/base/rng.h"
#include "tools/bench/predict_board.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1000, BEST = 8, TEXT = 1024 };

/* peak: multiply-adds of four floats a cycle. board: its file says what the draft knows of the processor.
 * LLVM has no model of the cortex-a7; that of the cortex-a9, which it uses for the cortex-a15, stands in; its
 * default for the triple has no NEON. The baseline has no FMA: a product takes two instructions. */
static const struct core {
	const char *name, *board, *model;
	double peak, bound;
} cores[] = {{"cortex-a53", "rpi3", NULL, 1, .85},
	     {"cortex-a72", "rpi4", NULL, 1, .9},
	     {"cortex-a76", "rpi5", NULL, 2, .9},
	     {"cortex-a7", NULL, "cortex-a15 -mattr=+neon,+vfp4", .5, 0}};
enum { CORES = sizeof cores / sizeof *cores };

/* out: pixels of a row or column of the output. */
struct conv {
	int c, k, out, taps, stride;
	bool deep, bytes;
};

static const struct kind {
	const char *name;
	int taps, stride; /* taps 0: 3, 5 or 7 */
	bool deep, bytes;
} kinds[] = {{"1x1", 1, 1, true, false},         {"1x1 stride 2", 1, 2, true, false},
	     {"3x3 to 7x7", 0, 1, true, false},  {"3x3 to 7x7 stride 2", 0, 2, true, false},
	     {"depthwise", 0, 1, false, false},  {"depthwise stride 2", 0, 2, false, false},
	     {"i8 1x1 to 5x5", 0, 1, true, true}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static struct conv draw_conv(const struct kind *k, struct rng *r)
{
	static const int taps[] = {3, 3, 3, 5, 7}, narrow[] = {1, 1, 3, 3, 5};
	struct conv s = {.out = 5 + (int)rng_below(r, 52), .stride = k->stride, .deep = k->deep};
	int unit = k->bytes ? 16 : 8;
	s.bytes = k->bytes;
	s.taps = k->taps ? k->taps : k->bytes ? narrow[rng_below(r, 5)] : taps[rng_below(r, k->deep ? 5 : 4)];
	s.c = unit * (2 + (int)rng_below(r, 15));
	s.k = k->deep ? unit * (2 + (int)rng_below(r, 15)) : s.c;
	return s;
}

static void conv_text(const struct conv *s, char text[TEXT])
{
	int pad = s->taps / 2, in = s->out * s->stride, lanes = s->bytes ? 16 : 4;
	const char *type = s->bytes ? "i8" : "f32";
	char layout[64], halo[64] = "", at[2][32];
	if (pad)
		snprintf(halo, sizeof halo, ";2+%d+%d;3+%d+%d", pad, pad, pad, pad);
	snprintf(layout, sizeof layout, "0.1/%d.2.3.1", lanes);
	for (int i = 0; i < 2; i++)
		snprintf(at[i], sizeof at[i], s->stride == 2 ? "2*%c+%c%.0d" : "%c+%c%.0d", "yx"[i], "rs"[i],
			 -pad);
	int n = snprintf(text, TEXT,
			 "task syms=0\noperand X in %s [1,%d,%d,%d] %s%s\noperand W const %s [%d,%d,%d,%d] "
			 "plain\noperand B const %s [%d] plain\n",
			 type, s->c, in, in, layout, halo, type, s->k, s->deep ? s->c : 1, s->taps, s->taps,
			 s->bytes ? "i32" : "f32", s->k);
	if (s->bytes)
		n += snprintf(text + n, TEXT - (size_t)n, "operand S const f32 [%d] plain\n", s->k);
	n += snprintf(text + n, TEXT - (size_t)n,
		      "operand Y out %s [1,%d,%d,%d] %s\nstage n:1 k:%d y:%d x:%d |", type, s->k, s->out,
		      s->out, layout, s->k, s->out, s->out);
	if (s->deep)
		n += snprintf(text + n, TEXT - (size_t)n, " c:%d", s->c);
	snprintf(text + n, TEXT - (size_t)n,
		 " r:%d s:%d\nread X [n,%c,%s,%s]\nread W [k,%s,r,s]\nread B [k]\n%sbody r0 r1 mul\nsum\n"
		 "post acc r2 add %s\nwrite Y [n,k,y,x]\n",
		 s->taps, s->taps, s->deep ? 'c' : 'k', at[0], at[1], s->deep ? "c" : "0",
		 s->bytes ? "read S [k]\n" : "", s->bytes ? "r3 mul rint" : "0 max");
}

/* ---- one schedule ---- */

struct bench {
	struct predict_cpu cpu;
	const struct core *core;
	char dir[64];
	bool whole, list;
};

static bool multiplies(const char *text)
{
	static const char *const words[] = {"fmla", "sdot", "vfma", "vmla", "vmul.f32"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strncmp(text, words[i], strlen(words[i])))
			return true;
	return false;
}

/* The share of the loop without loops in it that has most multiply-adds. */
static double inner_share(const struct bench *b, const struct machine *m)
{
	double share = 0;
	int most = 0;
	for (int k = 1; k < m->nloops; k++) {
		int math = 0;
		bool leaf = true;
		for (int i = k + 1; i < m->nloops; i++)
			leaf &= m->loop[i].parent != k;
		for (int i = 0; i < m->nlines && leaf; i++)
			math += m->owner[i] == k && multiplies(m->line[i].text);
		if (math > most) {
			most = math;
			share = math / m->loop[k].cycles / b->core->peak;
		}
	}
	return share;
}

/* E_SPILL: the kernel keeps vectors on the stack. */
static int share_of(const struct bench *b, const struct task *t, const char *cand, double *share)
{
	struct arena a = {0};
	struct loops *l;
	struct manifest m;
	struct blob object;
	*share = 0;
	int rc = lower(t, cand, &b->cpu.target, &a, &l, &m);
	if (rc >= 0)
		rc = emit_find("llvm")->emit(l, &b->cpu.target, &a, &object);
	for (int e = 0; rc >= 0 && e < l->nentries; e++) {
		struct machine code;
		rc = machine_read(&a, b->dir, &object, l->entry[e].name, b->cpu.triple, b->cpu.features,
				  &code);
		if (rc >= 0)
			rc = machine_model(b->dir, b->cpu.triple, b->cpu.model, &code);
		if (rc >= 0)
			*share = fmax(*share, inner_share(b, &code));
	}
	arena_free(&a);
	return rc;
}

struct drafted {
	char cand[CAND_MAX];
	double ns;
};

static void keep(struct drafted *best, int *n, const struct space *s, const char *cand)
{
	double ns = space_draft(s, cand);
	int at = *n;
	for (int i = 0; i < *n; i++)
		if (!strcmp(best[i].cand, cand))
			return;
	while (at > 0 && best[at - 1].ns > ns)
		at--;
	if (at == BEST)
		return;
	*n += *n < BEST;
	memmove(best + at + 1, best + at, (size_t)(*n - 1 - at) * sizeof *best);
	snprintf(best[at].cand, CAND_MAX, "%s", cand);
	best[at].ns = ns;
}

struct result {
	struct conv conv;
	double first, drafted,
	    whole; /* shares; of the default's loop, the best draft's, the default's cycles */
	int tried, spills, rules, rules_spill;
	char cand[CAND_MAX], other[CAND_MAX];
};

static int one(const struct bench *b, const struct conv *conv, int draws, struct result *out)
{
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct space_want want = {.level = LEVEL_EXACT, .threads = 1};
	struct drafted best[BEST];
	struct predict_work w = {0};
	struct space *s;
	struct rng r;
	char text[TEXT], cand[CAND_MAX];
	double share;
	int n = 0, at = 0;
	*out = (struct result){.conv = *conv};
	conv_text(conv, text);
	rng_seed(&r, 1);
	int rc = task_parse(text, t);
	if (rc >= 0)
		rc = space_make(&a, t, &b->cpu.target, &want, &s);
	if (rc >= 0) {
		space_default(s, out->cand);
		keep(best, &n, s, out->cand);
		rc = share_of(b, t, out->cand, &out->first);
		out->rules_spill += rc == E_SPILL;
		rc = rc == E_SPILL ? E_OK : rc;
	}
	while (rc >= 0 && space_portfolio(s, &at, cand) >= 0) {
		keep(best, &n, s, cand);
		out->rules++;
		int built = share_of(b, t, cand, &share);
		out->rules_spill += built == E_SPILL;
		if (built == E_SPILL && b->list)
			printf("    rule %d spills: %s\n", out->rules, cand);
	}
	for (int i = 0; i < draws && rc >= 0; i++)
		if ((i % 2 ? space_mutate(s, &r, best[i / 2 % n].cand, cand) : space_random(s, &r, cand)) >=
		    0)
			keep(best, &n, s, cand);
	for (int i = 0; i < n && rc >= 0; i++) {
		int built = share_of(b, t, best[i].cand, &share);
		out->tried++;
		out->spills += built == E_SPILL;
		if (built >= 0) {
			out->drafted = share;
			memcpy(out->other, best[i].cand, CAND_MAX);
			break;
		}
	}
	if (rc >= 0 && b->whole)
		rc = predict_work(t, out->cand, &b->cpu, b->dir, &w);
	double macs =
	    (double)conv->k * conv->out * conv->out * conv->taps * conv->taps * (conv->deep ? conv->c : 1);
	out->whole =
	    w.cycles > 0 && !w.unmatched ? macs / (conv->bytes ? 16 : 4) / b->core->peak / w.cycles : 0;
	arena_free(&a);
	return fail_in(rc, "%s", text);
}

/* ---- the table ---- */

static int by_value(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void print_shares(const char *what, double *x, int n, double bound)
{
	int good = 0;
	qsort(x, (size_t)n, sizeof *x, by_value);
	for (int i = 0; i < n; i++)
		good += x[i] >= bound;
	printf("  %s %.2f %.2f %.2f", what, x[0], x[n / 10], x[n / 2]);
	if (bound > 0)
		printf(" (%d of %d >= %.2f)", good, n, bound);
}

static int one_kind(const struct bench *b, const struct kind *k, int count, int draws, uint64_t seed)
{
	static double first[MOST], drafted[MOST], whole[MOST];
	int tried = 0, spills = 0, rules = 0, rules_spill = 0, rc = E_OK;
	struct rng r;
	rng_seed(&r, seed);
	for (int i = 0; i < count && rc >= 0; i++) {
		struct conv c = draw_conv(k, &r);
		struct result x;
		rc = one(b, &c, draws, &x);
		first[i] = x.first, drafted[i] = x.drafted, whole[i] = x.whole;
		tried += x.tried, spills += x.spills, rules += 1 + x.rules, rules_spill += x.rules_spill;
		if (b->list && rc >= 0)
			printf("    %s %dx%d c %d k %d out %d: %.3f whole %.3f %s; best draft %.3f %s\n",
			       k->name, c.taps, c.taps, c.c, c.k, c.out, x.first, x.whole, x.cand, x.drafted,
			       x.other);
	}
	if (rc < 0)
		return rc;
	printf("%-11s %-20s", b->core->name, k->name);
	print_shares("default", first, count, b->core->bound);
	print_shares("best draft", drafted, count, b->core->bound);
	if (b->whole)
		print_shares("whole", whole, count, 0);
	printf("  spills: %d of %d rules, %d of %d best drafts\n", rules_spill, rules, spills, tried);
	fflush(stdout);
	return E_OK;
}

static int open_core(const struct core *c, struct bench *b)
{
	struct target *t = &b->cpu.target;
	b->core = c;
	if (c->board)
		return predict_board("configs/boards", c->board, &b->cpu);
	b->cpu =
	    (struct predict_cpu){.triple = "armv7-linux-gnueabihf", .features = "+neon,+vfp4", .mhz = 900};
	int rc = target_baseline("armv7-neon", t);
	if (rc < 0)
		return rc;
	snprintf(b->cpu.model, sizeof b->cpu.model, "%s", c->model);
	snprintf(t->cpu, sizeof t->cpu, "%s", c->name);
	strcat(t->features, ",+vfp4");
	t->fma_gflops = 1.8;
	t->l1_bytes = 32768, t->l2_bytes = 1 << 19;
	t->cores = 4;
	memcpy(t->bw_gbs, (double[]){3.6, 1.8, 0, 1}, sizeof t->bw_gbs);
	return target_check(t);
}

static const char *option(int argc, char **argv, const char *name, const char *usual)
{
	for (int i = 1; i + 1 < argc; i++)
		if (!strcmp(argv[i], name))
			return argv[i + 1];
	return usual;
}

int main(int argc, char **argv)
{
	const char *core = option(argc, argv, "--core", ""), *kind = option(argc, argv, "--kind", "");
	int count = atoi(option(argc, argv, "--count", "20")),
	    draws = atoi(option(argc, argv, "--draws", "40"));
	uint64_t seed = strtoull(option(argc, argv, "--seed", "1"), NULL, 0);
	int rc = E_OK;
	struct bench b = {.dir = "/tmp/hone-inner-XXXXXX"};
	for (int i = 1; i < argc; i++)
		b.list |= !strcmp(argv[i], "--list"), b.whole |= !strcmp(argv[i], "--whole");
	if (count < 1 || count > MOST || !machine_is_here() || !mkdtemp(b.dir)) {
		fprintf(stderr,
			"bench-inner: it needs --count 1 to %d, llvm-mca-19 and llvm-objdump-19 (package "
			"llvm-19), and /tmp\n",
			MOST);
		return 2;
	}
	puts("least, lowest tenth, median of the shares");
	for (int c = 0; c < CORES && rc >= 0; c++) {
		size_t all = strlen(cores[c].name), n = strlen(core);
		if (n > all || strcmp(cores[c].name + all - n, core) != 0)
			continue;
		rc = open_core(&cores[c], &b);
		for (int k = 0; k < KINDS && rc >= 0; k++)
			if (!strncmp(kinds[k].name, kind, strlen(kind)) &&
			    (!kinds[k].bytes || strstr(b.cpu.target.features, "dotprod")))
				rc = one_kind(&b, &kinds[k], count, draws, seed);
	}
	char command[96];
	snprintf(command, sizeof command, "rm -rf %s", b.dir);
	if ((rc >= 0 && system(command) != 0) || rc < 0)
		fprintf(stderr, "bench-inner: %s\n", rc < 0 ? err_text() : "its folder stays in /tmp");
	return rc < 0;
}
