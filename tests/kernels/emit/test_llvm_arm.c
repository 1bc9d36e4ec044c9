/* SPDX-License-Identifier: Apache-2.0 */
/* Code for Arm processors, run by qemu-user: random typed programs, bit for bit as interpreted (NaNs are one
 * class). All programs of a processor are linked into one executable. A processor that lacks an instruction
 * traps on it, as the real one does. */
#include "kernels/emit/emit.h"
#include "platform/machine/target.h"
#include "tests/lib/test.h"
#include "tests/lib/typed_program.h"
#include <unistd.h>

enum { PROGRAMS = 60 };

static const struct board {
	const char *qemu, *cpu, *isa, *llvm, *extras, *triple;
} boards[] = {
    {"aarch64", "cortex-a53", "armv8-a", "cortex-a53", "", "aarch64-unknown-linux-gnu"},
    {"aarch64", "cortex-a72", "armv8-a", "cortex-a72", "", "aarch64-unknown-linux-gnu"},
    {"aarch64", "cortex-a76", "armv8-a", "cortex-a76", ",+fullfp16,+dotprod,+lse",
     "aarch64-unknown-linux-gnu"},
    {"aarch64", "max", "armv8-a", "generic", ",+fullfp16,+dotprod,+lse,+i8mm", "aarch64-unknown-linux-gnu"},
    {"arm", "cortex-a7", "armv7-neon", "generic", "", "armv7-unknown-linux-gnueabihf -marm -mfpu=neon"},
};

static char dir[64];
static struct arena objects;
static struct memory in[PROGRAMS], expected[PROGRAMS];
static uint64_t seeds[PROGRAMS];

static FILE *open_in(const char *name, const char *mode)
{
	char path[128];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = fopen(path, mode);
	if (!f)
		abort();
	return f;
}

static void put_file(const char *name, const void *p, size_t n)
{
	FILE *f = open_in(name, "wb");
	CHECK(fwrite(p, 1, n, f) == n && fclose(f) == 0);
}

/* Compiles program i of a seed and interprets it. 1: it is good; 0: an s32 overflows. */
static int make(const struct target *t, int i, uint64_t seed)
{
	struct typed_maker m = {0};
	struct blob o;
	char name[32];
	rng_seed(&m.r, seed);
	fill_memory(&m.r);
	random_program(&m, t->fma);
	snprintf(l.entry[0].name, sizeof l.entry[0].name, "p%d", i);
	int64_t extent = ix_eval(l.entry[0].extent, NULL, NULL, NULL);
	place(&want);
	int rc = loops_check(&l);
	if (rc >= 0 && (rc = loops_run(&l, 0, want.bufs, NULL, 0, extent)) < 0 &&
	    strstr(err_text(), "the result overflows s32"))
		return 0;
	arena_reset(&objects);
	if (rc >= 0)
		rc = emit_find("llvm")->emit(&l, t, &objects, &o);
	if (rc < 0 && rc != E_SPILL) {
		printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
		test_bad = 1;
		return 0;
	}
	snprintf(name, sizeof name, "p%d.o", i);
	put_file(name, o.p, o.n);
	in[i] = start;
	expected[i] = want;
	seeds[i] = seed;
	return 1;
}

static void make_all(const struct target *t, uint64_t seed)
{
	FILE *table = open_in("table.h", "w"), *input = open_in("in", "wb");
	int64_t extent[PROGRAMS];
	for (int i = 0; i < PROGRAMS && !test_bad; seed++)
		if (make(t, i, seed)) {
			extent[i] = ix_eval(l.entry[0].extent, NULL, NULL, NULL);
			CHECK(fwrite(in[i].bytes, sizeof in[i].bytes, 1, input) == 1);
			fprintf(table, "void p%d(void *const *, const void *, long long, long long);\n", i++);
		}
	fprintf(table, "enum { TOTAL = %zu, NPROGRAMS = %d };\nstatic const int buf_at[] = {", sizeof in[0].bytes,
		(int)PROGRAMS);
	for (int b = 0; b < NBUFS; b++)
		fprintf(table, "%zu,", (size_t)b * sizeof in[0].bytes[0] + MARGIN * dtype_bytes(types[b % TYPES]));
	fprintf(table, "};\nstatic const struct {\n\tvoid (*run)(void *const *, const void *, long long, long "
		       "long);\n\tlong long extent;\n} programs[] = {");
	for (int i = 0; i < PROGRAMS; i++)
		fprintf(table, "{p%d, %d},", i, (int)extent[i]);
	fprintf(table, "};\n");
	CHECK(fclose(table) == 0 && fclose(input) == 0);
}

static void run_on(const struct board *b)
{
	struct target t;
	char command[2048], root[1024];
	REQUIRE(getcwd(root, sizeof root) != NULL);
	REQUIRE_OK(target_baseline(b->isa, &t));
	snprintf(t.cpu, sizeof t.cpu, "%s", b->llvm);
	strcat(t.features, b->extras);
	REQUIRE_OK(target_check(&t));
	make_all(&t, 1 + 1000 * (uint64_t)(b - boards));
	snprintf(command, sizeof command,
		 "cd %s && clang --target=%s -O1 -ffreestanding -fno-builtin -nostdlib -static -fuse-ld=lld -I. "
		 "-o run %s/tests/lib/arm_harness.c p*.o && timeout 60 qemu-%s-static -cpu %s ./run <in >out",
		 dir, b->triple, root, b->qemu, b->cpu);
	if (system(command) != 0) {
		printf("%s: it did not run\n", b->cpu);
		test_bad = 1;
		return;
	}
	FILE *out = open_in("out", "rb");
	for (int i = 0; i < PROGRAMS; i++) {
		want = expected[i];
		CHECK(fread(got.bytes, sizeof got.bytes, 1, out) == 1);
		CHECK(!differ(b->cpu, seeds[i]));
	}
	fclose(out);
}

TEST(random_typed_programs_on_arm)
{
	char command[96];
	if (system("command -v clang ld.lld qemu-aarch64-static qemu-arm-static >/dev/null") != 0)
		SKIP("clang, lld and qemu-user-static are needed to run Arm code here");
	if (access("tests/lib/arm_harness.c", R_OK) != 0)
		SKIP("it must run in the repository's root");
	snprintf(dir, sizeof dir, "/tmp/hone-test-XXXXXX");
	REQUIRE(mkdtemp(dir) != NULL);
	for (size_t i = 0; i < sizeof boards / sizeof *boards; i++)
		run_on(&boards[i]);
	snprintf(command, sizeof command, "rm -r '%s'", dir);
	CHECK(system(command) == 0);
}

TEST_MAIN
