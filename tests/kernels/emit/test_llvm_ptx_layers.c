/* SPDX-License-Identifier: Apache-2.0 */
/* PTX of good schedules for the large layers of known networks: the innermost loop with most multiply-adds
 * has little else, so that nothing keeps a GPU from its peak. PTX_DIR=dir writes them there for the assembler
 * (tests/sh/ptxas.sh). */
#include "kernels/emit/ptx_regs.h"
#include "tests/lib/ptx_cases.h"
#include "tests/lib/ptx_object.h"

#include <sys/stat.h>

#define CONV(c, k, size)                                                                                     \
	"task syms=0\noperand X in f32 [1," #c "," #size "," #size "] 0.1/16.2.3.1;2+1+1;3+1+1\n"            \
	"operand W const f32 [" #k "," #c ",3,3] plain\noperand B const f32 [" #k "] plain\n"                \
	"operand Y out f32 [1," #k "," #size "," #size "] 0.1/16.2.3.1;2+1+1;3+1+1\n"                        \
	"stage n:1 k:" #k " y:" #size " x:" #size " | c:" #c " r:3 s:3\nread X [n,c,y+r-1,x+s-1]\n"          \
	"read W [k,c,r,s]\nread B [k]\nbody r0 r1 mul\nsum\npost acc r2 add 0 max\nwrite Y [n,k,y,x]\n"
#define PRODUCT(m, n, k)                                                                                     \
	"task syms=0\noperand X in f32 [" #m "," #k "] plain\noperand W const f32 [" #k "," #n "] plain\n"   \
	"operand B const f32 [" #n "] plain\noperand Y out f32 [" #m "," #n "] plain\n"                      \
	"stage m:" #m " n:" #n " | k:" #k "\nread X [m,k]\nread W [k,n]\nread B [n]\nbody r0 r1 mul\nsum\n"  \
	"post acc r2 add\nwrite Y [m,n]\n"

static const struct {
	const char *name, *task, *cand;
	double least;  /* share of multiply-adds */
	int registers; /* that ptxas 12.4 gives for sm_87 */
} layers[] = {
    {"resnet18-56x56x64", CONV(64, 64, 56),
     "lane=k:4 tile=k:2,y:2,x:4 unroll=c:8 order=k,n,y,x,c,r,s par=4 threads=k:4,y:2,x:7 share=c:16", .9,
     128},
    {"resnet18-28x28x128", CONV(128, 128, 28),
     "lane=k:4 tile=k:2,y:2,x:4 unroll=c:8 order=k,n,y,x,c,r,s par=4 threads=k:4,y:2,x:7 share=c:16", .9,
     130},
    {"resnet18-14x14x256", CONV(256, 256, 14),
     "lane=k:4 tile=k:2,x:7 unroll=c:8 order=k,n,y,x,c,r,s par=4 threads=k:4,y:7,x:2 share=c:16", .9, 128},
    {"resnet18-7x7x512", CONV(512, 512, 7),
     "lane=k:4 tile=k:2,x:7 unroll=c:8 order=k,n,y,x,c,r,s par=4 threads=k:4,y:7 share=c:16", .9, 128},
    {"resnet50-14x14-1024-256",
     "task syms=0\noperand X in f32 [1,1024,14,14] 0.1/16.2.3.1\noperand W const f32 [256,1024,1,1] plain\n"
     "operand B const f32 [256] plain\noperand Y out f32 [1,256,14,14] 0.1/16.2.3.1;2+1+1;3+1+1\n"
     "stage n:1 k:256 y:14 x:14 | c:1024\nread X [n,c,y,x]\nread W [k,c,0,0]\nread B [k]\n"
     "body r0 r1 mul\nsum\npost acc r2 add 0 max\nwrite Y [n,k,y,x]\n",
     "lane=k:4 tile=k:2,x:7 unroll=c:8 order=k,n,y,x,c par=4 threads=k:16,y:7,x:2 share=c:16x2", .9, 128},
    /* 197 is prime: blocks of 40 rows, of which the last one overlaps the one before it */
    {"vit-197x768x192", PRODUCT(197, 768, 192),
     "lane=n:4 tile=m:8,n:2 unroll=k:8 par=2 threads=m:5,n:16 share=k:16", .9, 156},
    {"vit-197x192x768", PRODUCT(197, 192, 768),
     "lane=n:4 tile=m:8,n:2 unroll=k:8 par=2 threads=m:5,n:8 share=k:16", .9, 156},
    /* Winograd's algorithm in one launch; the first writes out a whole step with its transforms */
    {"winograd-56x56x64", CONV(64, 64, 56), "lane=k:4 winograd=2 tiles=32 gemm=8x2 chunk=16 share=c:8", .8,
     127},
    {"winograd-28x28x128", CONV(128, 128, 28),
     "lane=k:4 split=c:32 spread=1 winograd=2 tiles=32 gemm=8x4 chunk=16 share=c:8", .9, 200},
    {"winograd-14x14x256", CONV(256, 256, 14),
     "lane=k:4 split=c:32 spread=1 winograd=4 tiles=16 gemm=8x4 chunk=8 share=c:8", .9, 214},
    {"winograd-7x7x512", CONV(512, 512, 7),
     "lane=k:4 split=c:64 spread=1 winograd=2 tiles=16 gemm=8x2 chunk=8 share=c:16", .9, 128}};
enum { LAYERS = sizeof layers / sizeof *layers, NEAR = 24 /* registers */ };

/* The share of multiply-adds in the innermost loop that has most of them. */
static double share_of(const char *text)
{
	enum { MOST = 20000 };
	static int math[MOST + 1];
	static struct {
		char name[24];
		int at;
	} label[2000];
	int n = 0, nlabels = 0, closed = -1, most = 0;
	double share = 0;
	for (const char *s = strstr(text, "\n{\n"); s && *s && n < MOST; s = strchr(s, '\n')) {
		char word[40] = "", to[24] = "";
		s++;
		if (*s == '$' && nlabels < 2000 && sscanf(s, "%23[^:]", label[nlabels].name) == 1) {
			label[nlabels++].at = n;
			continue;
		}
		const char *end = strpbrk(s, ";\n"), *jump = strstr(s, "$L__");
		if (!end || *end != ';' || sscanf(s, " %39[^; \t]", word) != 1 || *word == '.')
			continue;
		math[n + 1] = math[n] + (strncmp(word, "fma.", 4) == 0);
		n++;
		if (!jump || jump > end || sscanf(jump, "%23[^;]", to) != 1)
			continue;
		for (int i = 0; i < nlabels; i++)
			if (!strcmp(label[i].name, to)) {
				int from = label[i].at, all = math[n] - math[from];
				if (closed < from && all > most) {
					most = all;
					share = (double)all / (n - from);
				}
				closed = from > closed ? from : closed;
			}
	}
	return share;
}

static void one(int i, const char *cpu, const char *dir)
{
	struct arena a = {0};
	struct target tg = ptx_target(cpu);
	struct task t;
	struct loops *l;
	struct manifest m;
	struct blob object = {NULL, 0};
	int rc = task_parse(layers[i].task, &t);
	if (rc >= 0 && (rc = lower(&t, layers[i].cand, &tg, &a, &l, &m)) >= 0)
		rc = emit_find("ptx")->emit(l, &tg, &a, &object);
	CHECK_OK(rc);
	if (rc >= 0) {
		const char *text = arena_strndup(&a, object.p, object.n);
		double share = share_of(text);
		if (share < layers[i].least)
			printf("%s %s: %.3f of the innermost loop are multiply-adds\n", layers[i].name, cpu,
			       share);
		CHECK(share >= layers[i].least);
		struct ptx_regs regs = ptx_registers(object.p, object.n, 0);
		if (abs(regs.usual - layers[i].registers) > NEAR)
			printf("%s: %d registers are estimated\n", layers[i].name, regs.usual);
		CHECK(abs(regs.usual - layers[i].registers) <= NEAR);
		CHECK(ptx_carried(l, &l->entry[0]) <= layers[i].registers);
		char path[512];
		snprintf(path, sizeof path, "%s/%s/%s.layer", dir, cpu, layers[i].name);
		FILE *f = dir ? fopen(path, "w") : NULL;
		CHECK(!dir || (f && fputs(text, f) >= 0));
		if (f)
			CHECK(fclose(f) == 0);
	}
	arena_free(&a);
}

TEST(large_layers)
{
	const char *dir = getenv("PTX_DIR");
	for (int i = 0; i < LAYERS; i++)
		for (int c = 0; c < PTX_CPUS; c++)
			if (dir || !strcmp(ptx_cpus[c], "sm_87") || !strcmp(ptx_cpus[c], "sm_90"))
				one(i, ptx_cpus[c], dir);
}

/* A random candidate of the layer, for the assembler: one whose threads share boxes, or one of fragments. */
static void random_one(int i, const char *cpu, const char *dir, uint64_t seed, bool fragments)
{
	const struct space_want want = {.level = fragments ? LEVEL_HALF_SUM : LEVEL_FP32};
	const char *key = fragments ? (seed % 3 ? "fragrows=" : "fragring=") : seed % 4 ? "share=" : "lane=";
	struct arena a = {0};
	struct target tg = ptx_target(cpu);
	struct task t;
	struct loops *l;
	struct manifest m;
	struct blob object = {NULL, 0};
	struct space *s;
	struct rng r;
	char cand[CAND_MAX], path[512];
	rng_seed(&r, seed);
	int rc = task_parse(layers[i].task, &t);
	if (rc >= 0)
		rc = space_make(&a, &t, &tg, &want, &s);
	CHECK_OK(rc);
	if (rc >= 0 && draw_with(s, &r, key, cand) && (rc = lower(&t, cand, &tg, &a, &l, &m)) >= 0 &&
	    emit_find("ptx")->emit(l, &tg, &a, &object) >= 0) {
		const char *text = arena_strndup(&a, object.p, object.n);
		snprintf(path, sizeof path, "%s/%s/l%d-%llu%s.ptx", dir, cpu, i, (unsigned long long)seed,
			 fragments ? "f" : "");
		FILE *f = fopen(path, "w");
		int planned = ptx_planned(&t, &tg, cand, &a);
		CHECK((planned > 0) == fragments);
		CHECK(f && fwrite(object.p, 1, object.n, f) == object.n &&
		      fprintf(f, "//registers %d\n", ptx_estimate(l, text)) > 0 &&
		      (!planned || fprintf(f, "//planned %d\n", planned) > 0));
		if (f)
			CHECK(fclose(f) == 0);
	}
	CHECK_OK(rc);
	arena_free(&a);
}

TEST(random_schedules)
{
	const char *dir = getenv("PTX_DIR"), *each = getenv("PTX_EACH"), *seed = getenv("SEED");
	for (int n = 0; dir && each && n < atoi(each); n++)
		for (int c = 0; c < 2 * PTX_CPUS; c++)
			random_one(n % LAYERS, ptx_cpus[c / 2], dir,
				   (seed ? strtoull(seed, NULL, 10) : 1) + (uint64_t)n, c % 2);
}

/* Boxes of 86 KB, where the architecture has them. */
TEST(large_rings)
{
	static const char cand[] = "lane=k:4 tile=k:2,x:7 unroll=c:8 order=k,n,y,x,c par=4 "
				   "threads=k:16,y:7,x:2 share=c:32x3";
	const char *dir = getenv("PTX_DIR");
	for (int c = 0; c < PTX_CPUS; c++) {
		struct arena a = {0};
		struct target tg = ptx_target(ptx_cpus[c]);
		struct task t;
		struct loops *l;
		struct manifest m;
		struct blob object = {NULL, 0};
		char path[512];
		CHECK_OK(task_parse(layers[4].task, &t));
		int rc = lower(&t, cand, &tg, &a, &l, &m);
		CHECK(rc == (strcmp(tg.cpu, "sm_75") ? E_OK : E_INFEASIBLE));
		if (rc >= 0 && (rc = emit_find("ptx")->emit(l, &tg, &a, &object)) >= 0) {
			const char *text = arena_strndup(&a, object.p, object.n);
			CHECK(strstr(text, ".extern .shared .align 16 .b8 shared[];") != NULL);
			snprintf(path, sizeof path, "%s/%s/large-ring.layer", dir, tg.cpu);
			CHECK(!dir || file_write(path, object.p, object.n) >= 0);
		} else if (strcmp(tg.cpu, "sm_75"))
			CHECK_OK(rc);
		arena_free(&a);
	}
}

TEST_MAIN
