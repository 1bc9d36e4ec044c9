/* SPDX-License-Identifier: Apache-2.0 */
/* Emitted programs on emulated Arm processors (qemu-user). The programs of one run are linked with
 * tests/lib/arm_harness.c into one executable, or it loads them by our own linker. A processor that lacks an
 * instruction traps on it, as the real one does. */
#ifndef TESTS_ARM_PROGRAMS_H
#define TESTS_ARM_PROGRAMS_H

#include "kernels/loops/loops.h"
#include "platform/machine/target.h"
#include "tests/lib/test.h"
#include <unistd.h>

struct arm_board {
	const char *name, *qemu, *cpu, *isa, *llvm, *extras, *triple;
	bool loaded; /* by our own linker */
};

#define ARM_64 "aarch64-unknown-linux-gnu"
#define ARM_32 "armv7-unknown-linux-gnueabihf -marm -mcpu=cortex-a7"

static const struct arm_board arm_boards[] = {
    {"cortex-a53", "aarch64", "cortex-a53", "armv8-a", "cortex-a53", "", ARM_64, false},
    {"cortex-a72", "aarch64", "cortex-a72", "armv8-a", "cortex-a72", "", ARM_64, false},
    {"cortex-a76", "aarch64", "cortex-a76", "armv8-a", "cortex-a76", ",+fullfp16,+dotprod,+lse", ARM_64,
     false},
    {"max", "aarch64", "max", "armv8-a", "generic", ",+fullfp16,+dotprod,+lse,+i8mm", ARM_64, false},
    {"armv7", "arm", "cortex-a7", "armv7-neon", "generic", "", ARM_32, false},
    {"armv7, loaded", "arm", "cortex-a7", "armv7-neon", "generic", "", ARM_32, true},
    {"cortex-a53, loaded", "aarch64", "cortex-a53", "armv8-a", "cortex-a53", "", ARM_64, true},
};
enum { ARM_BOARDS = sizeof arm_boards / sizeof *arm_boards };

/* A program: its memory, in which each buffer has a place, and its entries, functions p<number>_<entry>. */
struct arm_program {
	int nentries, nbufs, nparams;
	int64_t extent[LOOPS_MAX_ENTRIES];
	const int64_t *params;
	size_t at[LOOPS_MAX_BUFS], bytes;
};

static char arm_dir[64];

/* Why Arm code cannot run here; NULL: it can. */
static inline const char *arm_missing(void)
{
	if (system("command -v clang ld.lld qemu-aarch64-static qemu-arm-static >/dev/null") != 0)
		return "clang, lld and qemu-user-static are needed to run Arm code here";
	return access("tests/lib/arm_harness.c", R_OK) == 0 ? NULL : "it must run in the repository's root";
}

/* A file of the run: "in" and "out" have the memory of one program after the other. */
static inline FILE *arm_open(const char *name, const char *mode)
{
	char path[128];
	snprintf(path, sizeof path, "%s/%s", arm_dir, name);
	FILE *f = fopen(path, mode);
	if (!f)
		abort();
	return f;
}

static inline void arm_put_text(const char *name, const char *text)
{
	FILE *f = arm_open(name, "w");
	CHECK(fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Makes the folder of the runs, with headers in it that the linker includes: those of a C library for Arm may
 * be missing here. */
static inline void arm_begin(void)
{
	char command[256];
	snprintf(arm_dir, sizeof arm_dir, "/tmp/hone-test-XXXXXX");
	if (!mkdtemp(arm_dir))
		abort();
	snprintf(command, sizeof command, "mkdir %s/bits && cp /usr/include/elf.h %s", arm_dir, arm_dir);
	CHECK(system(command) == 0);
	arm_put_text("features.h", "#define __BEGIN_DECLS\n#define __END_DECLS\n");
	arm_put_text("bits/auxv.h", "");
	arm_put_text("string.h",
		     "#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t);\n"
		     "void *memset(void *, int, size_t);\nvoid *memchr(const void *, int, size_t);\n"
		     "int memcmp(const void *, const void *, size_t);\n"
		     "char *strcpy(char *, const char *);\n");
}

static inline void arm_end(void)
{
	char command[96];
	snprintf(command, sizeof command, "rm -r '%s'", arm_dir);
	CHECK(system(command) == 0);
}

static inline void arm_target(const struct arm_board *b, struct target *t)
{
	CHECK_OK(target_baseline(b->isa, t));
	snprintf(t->cpu, sizeof t->cpu, "%s", b->llvm);
	strcat(t->features, b->extras);
	CHECK_OK(target_check(t));
}

/* Puts a program's object into a file, or, if it will be loaded, into the input, where its memory follows. */
static inline void arm_put_object(const struct arm_board *b, int number, const struct blob *o, FILE *input)
{
	char name[32];
	uint32_t n = (uint32_t)o->n;
	if (b->loaded)
		CHECK(fwrite(&n, sizeof n, 1, input) == 1);
	snprintf(name, sizeof name, "p%d.o", number);
	FILE *f = b->loaded ? input : arm_open(name, "wb");
	CHECK(fwrite(o->p, 1, o->n, f) == o->n);
	if (f != input)
		CHECK(fclose(f) == 0);
}

/* Names the entries as those of a program; call it before the loops are compiled. */
static inline void arm_name(struct loops *l, int number)
{
	for (int e = 0; e < l->nentries; e++)
		snprintf(l->entry[e].name, sizeof l->entry[e].name, "p%d_%d", number % 10000, e % 10);
}

static inline void arm_put_program(FILE *table, int number, const struct arm_program *p)
{
	fprintf(table, "\t{%d, %d, %zu, {", p->nentries, p->nbufs, p->bytes);
	for (int e = 0; e < p->nentries; e++)
		fprintf(table, "ENTRY(p%d_%d), ", number, e);
	fprintf(table, "}, {");
	for (int e = 0; e < p->nentries; e++)
		fprintf(table, "%lld, ", (long long)p->extent[e]);
	fprintf(table, "}, params%d, {", number);
	for (int b = 0; b < p->nbufs; b++)
		fprintf(table, "%zu, ", p->at[b]);
	fprintf(table, "}},\n");
}

static inline void arm_put_table(const struct arm_program *p, int n)
{
	FILE *table = arm_open("table.h", "w");
	size_t most = 0;
	for (int i = 0; i < n; i++) {
		most = p[i].bytes > most ? p[i].bytes : most;
		for (int e = 0; e < p[i].nentries; e++)
			fprintf(table, "kernel p%d_%d;\n", i, e);
		fprintf(table, "static const long long params%d[] = {", i);
		for (int k = 0; k < p[i].nparams; k++)
			fprintf(table, "%lld, ", (long long)p[i].params[k]);
		fprintf(table, "0};\n");
	}
	fprintf(table,
		"enum { MOST_BYTES = %zu, NPROGRAMS = %d };\nstatic const struct program programs[] = {\n",
		most, n);
	for (int i = 0; i < n; i++)
		arm_put_program(table, i, &p[i]);
	fprintf(table, "};\n");
	CHECK(fclose(table) == 0);
}

/* Runs the n programs whose objects were put, from "in" to "out". */
static inline bool arm_run(const struct arm_board *b, const struct arm_program *p, int n)
{
	char command[4096], root[1024], with[2100] = "p*.o";
	arm_put_table(p, n);
	if (!getcwd(root, sizeof root))
		return false;
	if (b->loaded)
		snprintf(with, sizeof with, "-DLOADED -I%s %s/platform/run/elf*.c", root, root);
	snprintf(command, sizeof command,
		 "cd %s && clang --target=%s -O1 -ffreestanding -fno-builtin -nostdlib -nostdlibinc -static "
		 "-fuse-ld=lld -I. -o run %s/tests/lib/arm_harness.c %s && rm -f p*.o && "
		 "timeout 120 qemu-%s-static -cpu %s ./run <in >out",
		 arm_dir, b->triple, root, with, b->qemu, b->cpu);
	return system(command) == 0;
}

#endif
