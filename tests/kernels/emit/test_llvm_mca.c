/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost loops of convolutions on Arm processors, by LLVM's models of these (llvm-mca): multiply-adds
 * per cycle as a share of the rate that the same model gives to multiply-adds alone. The loop of an entry is
 * the one without a loop in it that has most of them. Default schedules and those with the best drafts must
 * reach a share and keep no vector on the stack. LLVM has no model of the cortex-a7, of which only the stack
 * is checked. That of the cortex-a53 lets results be written in the order of the program only: a load behind
 * a multiply-add, which takes longer, waits for it. That of the cortex-a55 issues two multiply-adds of four
 * floats a cycle and nothing beside them. MCA_ALL=1 tries more layers and schedules and prints the shares,
 * MCA_DRAWS=n draws n random schedules, MCA_CORE=a76 and MCA_LAYER=3x3 choose, MCA_SCHEDULE=neoverse-n1 lets
 * LLVM order instructions as for that core, MCA_LOOP=1 prints loops. */
#include "kernels/emit/emit.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"

#define TASK "task syms=0\n"
#define MAC "body r0 r1 mul\nsum\npost acc r2 add 0 max\nwrite Y [n,k,y,x]\n"
#define CONV3(c, k, size)                                                                                    \
	TASK "operand X in f32 [1," #c "," #size "," #size "] 0.1/4.2.3.1;2+1+1;3+1+1\n"                     \
	     "operand W const f32 [" #k "," #c ",3,3] plain\noperand B const f32 [" #k "] plain\n"           \
	     "operand Y out f32 [1," #k "," #size "," #size "] 0.1/4.2.3.1;2+1+1;3+1+1\n"                    \
	     "stage n:1 k:" #k " y:" #size " x:" #size " | c:" #c " r:3 s:3\nread X [n,c,y+r-1,x+s-1]\n"     \
	     "read W [k,c,r,s]\nread B [k]\n" MAC
#define CONV5(c, k, size)                                                                                    \
	TASK "operand X in f32 [1," #c "," #size "," #size "] 0.1/4.2.3.1;2+2+2;3+2+2\n"                     \
	     "operand W const f32 [" #k "," #c ",5,5] plain\noperand B const f32 [" #k "] plain\n"           \
	     "operand Y out f32 [1," #k "," #size "," #size "] 0.1/4.2.3.1\n"                                \
	     "stage n:1 k:" #k " y:" #size " x:" #size " | c:" #c " r:5 s:5\nread X [n,c,y+r-2,x+s-2]\n"     \
	     "read W [k,c,r,s]\nread B [k]\n" MAC
#define CONV1(c, k, size, from, at)                                                                          \
	TASK "operand X in f32 [1," #c "," #from "," #from "] 0.1/4.2.3.1\n"                                 \
	     "operand W const f32 [" #k "," #c ",1,1] plain\noperand B const f32 [" #k "] plain\n"           \
	     "operand Y out f32 [1," #k "," #size "," #size "] 0.1/4.2.3.1\nstage n:1 k:" #k " y:" #size     \
	     " x:" #size " | c:" #c "\nread X [n,c," at "]\nread W [k,c,0,0]\n"                              \
	     "read B [k]\n" MAC
#define DEPTHWISE(c, size)                                                                                   \
	TASK "operand X in f32 [1," #c "," #size "," #size "] 0.1/4.2.3.1;2+1+1;3+1+1\n"                     \
	     "operand W const f32 [" #c ",1,3,3] plain\noperand B const f32 [" #c "] plain\n"                \
	     "operand Y out f32 [1," #c "," #size "," #size "] 0.1/4.2.3.1\nstage n:1 k:" #c " y:" #size     \
	     " x:" #size " | r:3 s:3\nread X [n,k,y+r-1,x+s-1]\nread W [k,0,r,s]\nread B [k]\n" MAC
#define BYTES(c, k, size, rs, halo, at)                                                                      \
	TASK "operand X in i8 [1," #c "," #size "," #size "] 0.1/16.2.3.1" halo "\n"                         \
	     "operand W const i8 [" #k "," #c "," #rs "," #rs "] plain\noperand B const i32 [" #k            \
	     "] plain\n"                                                                                     \
	     "operand S const f32 [" #k "] plain\n"                                                          \
	     "operand Y out i8 [1," #k "," #size "," #size "] 0.1/16.2.3.1\nstage n:1 k:" #k " y:" #size     \
	     " x:" #size " | c:" #c " r:" #rs " s:" #rs "\nread X [n,c," at "]\nread W [k,c,r,s]\n"          \
	     "read B [k]\nread S [k]\nbody r0 r1 mul\nsum\npost acc r2 add r3 mul rint\nwrite Y [n,k,y,x]\n"

/* least: the share that a default schedule must reach, and on processors that issue in order; 0: that of
 * the processor for depthwise layers. brief: tried without MCA_ALL. */
static const struct layer {
	const char *name, *task;
	enum level level;
	bool bytes, brief;
	double least, in_order;
} layers[] = {
    {"resnet18 3x3 64 56x56", CONV3(64, 64, 56), LEVEL_EXACT, false, true, .9, .85},
    {"resnet18 3x3 128 28x28", CONV3(128, 128, 28), LEVEL_EXACT, false, true, .9, .85},
    {"resnet18 3x3 256 14x14", CONV3(256, 256, 14), LEVEL_EXACT, false, true, .9, .85},
    {"resnet18 3x3 512 7x7", CONV3(512, 512, 7), LEVEL_EXACT, false, false, .9, .85},
    {"resnet18 3x3 64 56x56 Winograd", CONV3(64, 64, 56), LEVEL_FP32, false, true, .9, .85},
    {"resnet18 1x1 64-128 28x28", CONV1(64, 128, 28, 56, "2*y,2*x"), LEVEL_EXACT, false, false, .9, .7},
    {"resnet18 1x1 256-512 7x7", CONV1(256, 512, 7, 14, "2*y,2*x"), LEVEL_EXACT, false, false, .9, .7},
    {"5x5 48-64 28x28", CONV5(48, 64, 28), LEVEL_EXACT, false, true, .9, .85},
    {"mobilenetv2 1x1 96-24 56x56", CONV1(96, 24, 56, 56, "y,x"), LEVEL_EXACT, false, true, .9, .85},
    {"mobilenetv2 1x1 192-64 14x14", CONV1(192, 64, 14, 14, "y,x"), LEVEL_EXACT, false, false, .9, .85},
    {"mobilenetv2 1x1 320-1280 7x7", CONV1(320, 1280, 7, 7, "y,x"), LEVEL_EXACT, false, true, .9, .85},
    {"mobilenetv2 depthwise 144 56x56", DEPTHWISE(144, 56), LEVEL_EXACT, false, true, 0, 0},
    {"i8 3x3 128 28x28", BYTES(128, 128, 28, 3, ";2+1+1;3+1+1", "y+r-1,x+s-1"), LEVEL_EXACT, true, true, .9,
     0},
    {"i8 1x1 256-256 14x14", BYTES(256, 256, 14, 1, "", "y+r,x+s"), LEVEL_EXACT, true, true, .9, 0},
};
enum { LAYERS = sizeof layers / sizeof *layers };

/* mca: the processor whose model LLVM has; "": it has none. gflops and GB/s are about those of a board. part:
 * of a layer's shares that must be reached. depthwise: share of the inner loop of a depthwise layer, which
 * has a maximum and a store for nine multiply-adds. These take the same pipes on a Neoverse N1: 0.82 is the
 * most. */
static const struct core {
	const char *isa, *cpu, *extras, *mca, *triple;
	double gflops, gbs[4];
	int64_t l1, l2;
	double part, depthwise;
} cores[] = {
    {"armv8-a",
     "cortex-a72",
     "",
     "cortex-a72",
     "aarch64-linux-gnu",
     12,
     {24, 12, 0, 4},
     32768,
     1 << 20,
     1,
     .9},
    {"armv8-a",
     "cortex-a76",
     ",+fullfp16,+dotprod,+lse",
     "neoverse-n1",
     "aarch64-linux-gnu",
     38.4,
     {76, 40, 20, 12},
     65536,
     1 << 19,
     1,
     .8},
    {"armv8-a",
     "cortex-a53",
     "",
     "cortex-a53",
     "aarch64-linux-gnu",
     11.2,
     {11, 5, 0, 2},
     32768,
     1 << 19,
     1,
     0},
    {"armv8-a",
     "cortex-a55",
     ",+fullfp16,+dotprod,+lse",
     "cortex-a55",
     "aarch64-linux-gnu",
     14.4,
     {14, 7, 4, 3},
     32768,
     1 << 17,
     .8,
     0},
    {"armv7-neon",
     "cortex-a7",
     ",+vfp4",
     "",
     "armv7-linux-gnueabihf",
     1.8,
     {3.6, 1.8, 0, 1},
     32768,
     1 << 18,
     0,
     0},
};
enum { CORES = sizeof cores / sizeof *cores, ALONE = 24 /* sums that do not wait for each other */ };

static FILE *open_file(const char *name, const char *mode)
{
	FILE *f = fopen(scratch(name), mode);
	if (!f)
		abort();
	return f;
}

static struct target target_of(const struct core *c)
{
	struct target t;
	CHECK_OK(target_baseline(c->isa, &t));
	snprintf(t.cpu, sizeof t.cpu, "%s", c->cpu);
	strcat(t.features, c->extras);
	t.fma_gflops = c->gflops;
	memcpy(t.bw_gbs, c->gbs, sizeof t.bw_gbs);
	t.l1_bytes = c->l1, t.l2_bytes = c->l2;
	t.cores = 4;
	const char *schedule = getenv("MCA_SCHEDULE");
	snprintf(t.schedule, sizeof t.schedule, "%s", schedule ? schedule : "");
	CHECK_OK(target_check(&t));
	return t;
}

static bool multiplies(const char *word)
{
	static const char *const words[] = {"fmla",  "fmadd", "sdot", "udot",
					    "usdot", "smmla", "vfma", "vmla"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strncmp(word, words[i], strlen(words[i])))
			return true;
	return false;
}

/* ---- disassembly ---- */

enum { MOST_LINES = 60000, LINE = 96 };
static struct {
	unsigned long at;
	char text[LINE]; /* the instruction, without the name after an address */
	bool math;
} line[MOST_LINES];
static int nlines;

static bool disassemble(const struct core *c, const struct blob *o)
{
	char command[256], text[512];
	FILE *f = open_file("o", "wb");
	CHECK(fwrite(o->p, 1, o->n, f) == o->n && fclose(f) == 0);
	snprintf(command, sizeof command, "llvm-objdump-19 -d --no-show-raw-insn --mattr=%s --triple=%s %s",
		 strcmp(c->isa, "armv8-a") ? "+neon,+vfp4" : "+neon,+dotprod,+fullfp16", c->triple,
		 scratch("o"));
	f = popen(command, "r");
	nlines = 0;
	while (f && fgets(text, sizeof text, f) && nlines < MOST_LINES) {
		int n = 0;
		text[strcspn(text, "<\n@")] = 0;
		if (sscanf(text, " %lx: %n", &line[nlines].at, &n) != 1 || !n || !text[n])
			continue;
		snprintf(line[nlines].text, LINE, "%s", text + n);
		line[nlines].math = multiplies(line[nlines].text);
		nlines++;
	}
	return f && pclose(f) == 0 && nlines < MOST_LINES;
}

/* The innermost loop that has most multiply-adds: [*from, *to). Returns their number. */
static int find_loop(int *from, int *to)
{
	int most = 0, closed = -1;
	for (int i = 0; i < nlines; i++) {
		const char *x = strstr(line[i].text, "0x");
		if (line[i].text[0] != 'b' || strchr(line[i].text, '#') || !x)
			continue;
		unsigned long target = strtoul(x, NULL, 16);
		int first = i, math = 0;
		while (first > 0 && line[first].at > target)
			first--;
		if (target > line[i].at || line[first].at != target)
			continue;
		for (int k = first; k <= i; k++)
			math += line[k].math;
		if (closed < first && math > most) {
			most = math;
			*from = first;
			*to = i + 1;
		}
		closed = first > closed ? first : closed;
	}
	return most;
}

/* Multiply-adds per cycle of the instructions in the file "s", `math` of them; 0: it cannot tell. */
static double rate_of(const struct core *c, int math)
{
	char command[256], text[512];
	double cycles = 0;
	snprintf(
	    command, sizeof command,
	    "llvm-mca-19 -mtriple=%s -mcpu=%s -iterations=100 -instruction-info=0 -resource-pressure=0 %s",
	    c->triple, c->mca, scratch("s"));
	FILE *f = popen(command, "r");
	while (f && fgets(text, sizeof text, f))
		sscanf(text, "Total Cycles: %lf", &cycles);
	return f && pclose(f) == 0 && cycles > 0 ? 100. * math / cycles : 0;
}

/* The rate of multiply-adds that wait for nothing. */
static double peak_of(const struct core *c, bool bytes)
{
	FILE *f = open_file("s", "w");
	for (int i = 0; i < ALONE; i++)
		fprintf(f, bytes ? "sdot v%d.4s, v30.16b, v31.4b[1]\n" : "fmla v%d.4s, v30.4s, v31.s[1]\n",
			i);
	CHECK(fclose(f) == 0);
	return rate_of(c, ALONE);
}

/* The share of the loop in an object; *math: its multiply-adds, *other: its other instructions. */
static double share_of(const struct core *c, const struct blob *o, double peak, int *math, int *other)
{
	int from = 0, to = 0;
	if (!disassemble(c, o)) {
		printf("%s: llvm-objdump-19 does not read the object\n", c->cpu);
		test_bad = 1;
		return 0;
	}
	*math = find_loop(&from, &to);
	*other = to - from - *math;
	FILE *f = open_file("s", "w");
	for (int i = from; i < to; i++)
		fprintf(f, "%s\n", line[i].text);
	CHECK(fclose(f) == 0);
	return *math && c->mca[0] ? rate_of(c, *math) / peak : 0;
}

/* ---- candidates ---- */

enum { BEST = 8 };
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

/* The candidates with the best drafts, of the rules, of random ones and of changes to the best. */
static int draw(const struct space *s, struct drafted best[BEST])
{
	const char *draws = getenv("MCA_DRAWS");
	int n = 0, at = 0, most = draws ? atoi(draws) : getenv("MCA_ALL") ? 100 : 0;
	char cand[CAND_MAX];
	struct rng r;
	rng_seed(&r, 1);
	while (space_portfolio(s, &at, cand) >= 0)
		keep(best, &n, s, cand);
	for (int i = 0; i < most; i++) {
		if (space_random(s, &r, cand) >= 0)
			keep(best, &n, s, cand);
		if (n && space_mutate(s, &r, best[i % n].cand, cand) >= 0)
			keep(best, &n, s, cand);
	}
	return n;
}

/* The figures of one schedule's inner loop. rc: the emitter's result. */
struct result {
	int rc, math, other;
	double share;
};

static struct result try_cand(const struct core *c, const struct target *tg, const struct layer *y,
			      const char *cand, double peak)
{
	struct arena a = {0};
	struct result x = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct loops *l;
	struct manifest m;
	struct blob o = {NULL, 0};
	x.rc = task_parse(y->task, t);
	if (x.rc >= 0 && (x.rc = lower(t, cand, tg, &a, &l, &m)) >= 0)
		x.rc = emit_find("llvm")->emit(l, tg, &a, &o);
	if (x.rc >= 0)
		x.share = share_of(c, &o, peak, &x.math, &x.other);
	else if (x.rc != E_SPILL || getenv("MCA_ALL"))
		printf("%s %s: %s: %s\n", c->cpu, y->name, cand, err_text());
	arena_free(&a);
	return x;
}

static bool spills(const struct task *t, const struct target *tg, const char *cand)
{
	struct arena a = {0};
	struct loops *l;
	struct manifest m;
	struct blob o;
	int rc = lower(t, cand, tg, &a, &l, &m);
	if (rc >= 0)
		rc = emit_find("llvm")->emit(l, tg, &a, &o);
	arena_free(&a);
	return rc == E_SPILL;
}

/* A rule that spills takes the search a compilation and gives it nothing, and a default whose draft is far
 * from those of the rules has a tile that shares too little. */
static void check_rules(const struct core *c, const struct layer *y, const struct space *s,
			const struct task *t, const struct target *tg, const char *first)
{
	double least = space_draft(s, first);
	char cand[CAND_MAX];
	for (int at = 0; space_portfolio(s, &at, cand) >= 0;) {
		double ns = space_draft(s, cand);
		least = ns < least ? ns : least;
		if (y->least > 0 && spills(t, tg, cand)) {
			printf("%s %s: a rule spills: %s\n", c->cpu, y->name, cand);
			test_bad = 1;
		}
	}
	if (!y->bytes && space_draft(s, first) > 1.5 * least) {
		printf("%s %s: the default's draft is %.1f times the least of a rule: %s\n", c->cpu, y->name,
		       space_draft(s, first) / least, first);
		test_bad = 1;
	}
}

static void one(const struct core *c, const struct layer *y)
{
	struct arena a = {0};
	struct target tg = target_of(c);
	struct task *t = ARENA_NEW(&a, struct task);
	struct space *s;
	struct drafted best[BEST];
	struct space_want want = {.level = y->level, .threads = 1};
	char cand[CAND_MAX];
	bool dots = y->bytes && strstr(c->extras, "dotprod");
	double peak = c->mca[0] ? peak_of(c, dots) : 0, most = 0;
	int rc = task_parse(y->task, t);
	CHECK_OK(rc);
	CHECK_OK(rc < 0 ? rc : (rc = space_make(&a, t, &tg, &want, &s)));
	if (rc < 0) {
		arena_free(&a);
		return;
	}
	space_default(s, cand);
	check_rules(c, y, s, t, &tg, cand);
	struct result first = try_cand(c, &tg, y, cand, peak), drafted = {.rc = E_SPILL};
	if (getenv("MCA_LOOP"))
		CHECK(system(strcat(strcpy((char[256]){""}, "cat "), scratch("s"))) == 0);
	int n = draw(s, best), spills = 0;
	for (int i = 0; i < n && (drafted.rc < 0 || getenv("MCA_ALL")); i++) {
		struct result x = try_cand(c, &tg, y, best[i].cand, peak);
		if (getenv("MCA_ALL"))
			printf("  %.3f (%d, %d others) draft %.0f us %s\n", x.share, x.math, x.other,
			       best[i].ns / 1e3, best[i].cand);
		drafted = drafted.rc < 0 ? x : drafted;
		most = x.share > most ? x.share : most;
		spills += x.rc == E_SPILL;
	}
	bool models = c->mca[0] && (!y->bytes || dots);
	if (getenv("MCA_ALL"))
		printf(
		    "%-11s %-32s default %.3f (%d, %d others), best draft %.3f, best %.3f, %d of %d spill\n"
		    "    %s\n",
		    c->cpu, y->name, first.share, first.math, first.other, drafted.share, most, spills, n,
		    cand);
	CHECK_OK(first.rc);
	CHECK(drafted.rc >= 0);
	bool ordered = target_in_order(&tg);
	double bound = c->part * (ordered ? y->in_order : y->least);
	bound = bound > 0 ? bound : c->depthwise;
	if (models && (first.share < bound || drafted.share < (ordered ? bound : .9))) {
		printf("%s %s: %.3f of the peak, and %.3f of the best draft, of %.3f\n", c->cpu, y->name,
		       first.share, drafted.share, bound);
		test_bad = 1;
	}
	arena_free(&a);
}

TEST(large_layers)
{
	if (system("command -v llvm-mca-19 llvm-objdump-19 >/dev/null") != 0)
		SKIP("llvm-mca-19 and llvm-objdump-19 (package llvm-19) are needed to model Arm processors");
	const char *only = getenv("MCA_CORE"), *layer = getenv("MCA_LAYER");
	for (int c = 0; c < CORES; c++)
		for (int i = 0; i < LAYERS; i++)
			if ((!only || strstr(cores[c].cpu, only)) &&
			    (!layer || strstr(layers[i].name, layer)) &&
			    (layers[i].brief || getenv("MCA_ALL")))
				one(&cores[c], &layers[i]);
}

/* LLVM's order of instructions for Carmel needs more registers than there are for this layer's default
 * schedule; that for another core, which the target names, does not. */
TEST(instructions_are_ordered_as_for_another_core)
{
	static const struct core carmel = {
	    "armv8-a", "carmel", ",+fullfp16,+lse", "", "aarch64-linux-gnu", 38.4, {76, 40, 20, 12},
	    65536,     1 << 19};
	static const char *const layer = CONV1(192, 64, 14, 14, "y,x");
	struct arena a = {0};
	struct target tg = target_of(&carmel);
	struct task *t = ARENA_NEW(&a, struct task);
	struct space *s;
	struct loops *l;
	struct manifest m;
	struct blob o = {NULL, 0};
	struct space_want want = {.level = LEVEL_EXACT, .threads = 1};
	char cand[CAND_MAX];
	REQUIRE_OK(task_parse(layer, t));
	REQUIRE_OK(space_make(&a, t, &tg, &want, &s));
	space_default(s, cand);
	REQUIRE_OK(lower(t, cand, &tg, &a, &l, &m));
	CHECK_FAILS(emit_find("llvm")->emit(l, &tg, &a, &o), E_SPILL, "");
	snprintf(tg.schedule, sizeof tg.schedule, "neoverse-n1");
	CHECK_OK(target_check(&tg));
	CHECK_OK(emit_find("llvm")->emit(l, &tg, &a, &o));
	snprintf(tg.schedule, sizeof tg.schedule, "znver3");
	CHECK_FAILS(target_check(&tg), E_UNSUPPORTED, "unknown schedule znver3");
	arena_free(&a);
}

TEST_MAIN
