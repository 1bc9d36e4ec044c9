/* SPDX-License-Identifier: Apache-2.0 */
/* The target: the machine that a kernel is made for, and its speed. A plain value with a canonical text.
 *
 * target_text/target_parse round-trip exactly: "x86-64-v4 soc=Intel(R)_Xeon(R) cpu=cascadelake lanes=16
 * regs=32 fused=1 l1=32768 l2=1048576 l3=37486592 line=64 cores=4 fma=152.3 bw=410,190.2,60.1,9.8 copy=12
 * feat=+avx2,+avx512f,-avxvnni" (one line, every key, in this order; words are printable and hold no space;
 * after soc, rev=7 and mode=pmode:0002 if they are known; after cpu, cluster=id-4e-003 if the name of the cpu
 * does not tell the cluster (platform/machine/topo.h) from others, and schedule=neoverse-n1 if a board's file
 * says so; after cores, group=1024 on a device with groups, and serial=1 if that is a processor; after copy,
 * launch=4100,900 if that was measured).
 * Peaks are of ONE core, or of a whole device that runs work items (target_runs_items): fma in GFLOP/s, bw in
 * GB/s read bandwidth of L1, L2, L3, DRAM; copy_bw of a DRAM/L3-size copy. 0 = not measured. Fields without
 * peaks are what a kernel's code depends on. */
#ifndef PLATFORM_TARGET_H
#define PLATFORM_TARGET_H

#include "platform/base/buf.h"
#include "platform/base/clock.h"
#include "platform/base/err.h"
#include "platform/base/hash.h"

enum { TARGET_MOST_GROUP = 4096 };

struct target {
	char isa[24];  /* x86-64-v2 | x86-64-v3 | x86-64-v4 | armv8-a | armv7-neon | sim | opencl | cuda */
	char cpu[32];  /* LLVM's CPU name ("sm_87" of cuda), or "generic" */
	char soc[64];  /* model name from /proc/cpuinfo or the device tree, spaces as _ */
	char rev[24];  /* revision: the SoC's own, else the processor's stepping; "": not known */
	char mode[24]; /* power mode of boards with several (Jetson: nvpmodel); "": one */
	char cluster[32]; /* of cores that `cpu` does not name, or names as those of a faster one */
	char schedule[32]; /* core for which LLVM orders instructions; "": cpu. No part of the key */
	char features[1024]; /* LLVM feature string ("+avx2,..."), may be empty */
	int lanes;           /* f32 per vector register: 4, 8, 16 */
	int regs;            /* vector registers: 16 or 32; of a work item, whose vectors have any width: the
			      * vectors of `lanes` that its registers hold */
	bool fma;            /* fused multiply-add; false: mul and add, also in the interpreter */
	int64_t l1_bytes, l2_bytes, l3_bytes; /* data caches; l2 per core, l3 whole; 0 = none */
	int line_bytes;                       /* cache line */
	int cores; /* physical cores of its cluster that this process may use, or compute units */
	int group;  /* most work items of a group, a power of two; 0: it has no groups */
	int serial; /* 1: its units are a processor's, which run the work items of a group in turn */
	double fma_gflops;                    /* these: of one core, or of the device */
	double bw_gbs[4];                     /* read: L1, L2, L3, DRAM */
	double copy_gbs;                      /* bytes read + written per second of an L3-sized copy */
	double launch_ns[2]; /* of a device, the least time that a launch adds to a sequence of launches, and
			      * to a graph of launches (0: the device has no graphs, or not measured) */
};

/* The machine that this process runs on, without peaks: cpuid/sysfs only, no hwloc. It opens six files for
 * each processor that is online: 0.2 ms with two of a Xeon, of which each takes 0.03 ms. On a board with
 * several clusters it is the fastest that has cores which this process may use. $HONE_ISA: report an older
 * baseline ("x86-64-v3"), for tests, and for valgrind, which knows no newer one. */
int target_host(struct target *t) MUST_CHECK;
/* A named baseline ("x86-64-v3") for building fallback kernels; E_NOTFOUND lists the names. */
int target_baseline(const char *isa, struct target *t) MUST_CHECK;
/* True if code made for `need` runs on `have` (ISA level and lanes). */
bool target_runs(const struct target *have, const struct target *need);
/* Whether every "+x" of a feature string is among the target's. */
bool target_has(const struct target *t, const char *features);
/* Whether every processor of its ISA has instructions that convert vectors between f16 and f32, or its
 * language has functions for it: OpenCL C has. */
bool target_converts_f16(const struct target *t);
/* Whether an instruction multiplies pairs of bf16 and adds them to f32. */
bool target_multiplies_bf16(const struct target *t);
/* Whether instructions multiply and add vectors of f16, rounding to f16 once. */
bool target_sums_f16(const struct target *t);
/* Whether it is an Arm processor that issues instructions in the order of the program. */
bool target_in_order(const struct target *t);
/* Whether instructions multiply matrices of 2 x 8 and 8 x 2 bytes, and add the products to a 2 x 2 block. */
bool target_multiplies_blocks(const struct target *t);
/* Whether 32 threads of a block multiply matrices of 16 x 16 of this type ("f16", "bf16", "i8", "u8", or
 * "f32", rounded to TF32) together. */
bool target_multiplies_fragments(const struct target *t, const char *type);
/* Whether they load parts of matrices whose rows begin at any multiple of 16 bytes, and know which thread
 * gets which element (ldmatrix, mma.sync). */
bool target_loads_matrices(const struct target *t);
/* Whether 32 threads of a block exchange values without memory. */
bool target_exchanges(const struct target *t);
/* Whether kernels can read constants through a texture cache ("+textures"). */
bool target_textures(const struct target *t);
/* The "+x" features that the ISA does not promise: code made for the target may use them. */
void target_extras(const struct target *t, char out[sizeof((struct target *)0)->features]);
/* Whether LLVM can compile for it: the ISA, processor and features are known, the features include those of
 * the ISA and contradict neither it nor each other, 4 <= lanes <= the ISA's. Else E_UNSUPPORTED: LLVM would
 * end the process. A target from outside may be anything that target_parse accepts. */
int target_check(const struct target *t) MUST_CHECK;
/* Measures the peaks of one core in under a second (pins the calling thread meanwhile, restores its mask). */
int target_measure(struct target *t, struct clock *clock) MUST_CHECK;
/* Measures rough peaks in a tenth of a second: for a hurry, not to be kept. */
int target_quick(struct target *t, struct clock *clock) MUST_CHECK;
/* Adds the kept peaks to a target_host whose caches are complete (board_fill_host): reads `dir`/target if
 * that has these cores and each of their caches, else measures and writes it (a failed write is ignored). The
 * file has one line for each kind of cores, the last measured first. */
int target_kept(const char *dir, struct clock *clock, struct target *t) MUST_CHECK;
/* Adds the peaks kept in `dir` to a target_host; measures nothing. False: none are kept for this machine. */
bool target_recall(const char *dir, struct target *t);
/* Takes the better value of each peak: the higher speed, the shorter launch. */
void target_raise(struct target *t, const struct target *now);
/* The peaks of another device, in a file of their own; false: none are kept for this target. */
bool target_read_peaks(const char *path, struct target *t);
void target_write_peaks(const char *dir, const char *path, const struct target *t); /* path: in dir */
/* Whether the kept peaks were measured within the last minute. */
bool target_is_fresh(const char *dir);
bool target_peaks_are_fresh(const char *path); /* the same of another device's */
/* Measures once more and keeps the higher value of each peak, because other work on the machine only lowers
 * them. */
int target_measure_again(const char *dir, struct clock *clock, struct target *t) MUST_CHECK;
/* Reads `in` bytes and writes `out` bytes in plain loops, the shorter of both as a copy: the yardstick for a
 * kernel that moves as many. Multiples of 4 KB, rounded down. E_UNSUPPORTED: there are no such loops for the
 * target's ISA. */
int target_stream(const struct target *t, float *to, size_t out, const float *from, size_t in) MUST_CHECK;
void target_text(const struct target *t, struct buf *out);
int target_parse(const char *text, struct target *t) MUST_CHECK;
/* Key of soc, rev, mode, isa, cpu, lanes and cluster, and of a device's units: a record is valid for one
 * key. */
struct key target_key(const struct target *t);
/* Whether each parallel index of a kernel is a work item of a device that runs many at a time. */
bool target_runs_items(const struct target *t);
/* Most lanes of a vector: of work items 16, which OpenCL C has on every device. */
int target_most_lanes(const struct target *t);
/* Vectors of so many lanes (1, 2, 4, 8, 16) that the registers hold. A vector of a processor takes a register
 * of its own, however few lanes it has; one of a work item takes as many registers as it has lanes, on a
 * processor at least those of the usual lanes. >= 1. */
int target_vectors(const struct target *t, int lanes);
/* The kind of device: "cpu", "opencl" or "cuda". */
const char *target_device(const struct target *t);
/* A label for people: "NVIDIA_Jetson_Xavier_NX pmode:0002 armv8-a 4"; soc, mode if there is one, isa,
 * lanes. */
void target_label(const struct target *t, char out[160]);

#endif
