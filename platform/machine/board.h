/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files of boards, configs/boards/NAME.conf. A new board is added by a file of its own.
 *
 *     name = Raspberry Pi 4                        ; for people
 *     like = generic-arm64                         ; what this file lacks is as in that one
 *     compatible = raspberrypi,4-model-b raspberrypi,400   ; of the device tree, any of these
 *     machine = aarch64                            ; of uname: for boards that no `compatible` finds
 *     schedule = neoverse-n1                       ; LLVM orders instructions as for this core
 *     devices = cuda:0                             ; that its GPU should be: hone doctor says if it is not
 *     [caches]                                     ; of a fast core, where the kernel does not know them
 *     l1 = 32                                      ; KiB of data
 *     l2 = 1024                                    ; that a core uses
 *     l3 = 0                                       ; 0: there is none
 *     [cluster cortex-a53]                         ; by its name (platform/machine/topo.h); as many as wanted
 *     cpus = 0-3                                   ; its processors: hone doctor says if some are absent
 *     schedule = cortex-a53                        ; this and the caches are for this cluster
 *     l1 = 32
 *     l2 = 512
 *     l3 = 0
 *     [limits]                                     ; of hone tune, where neither the user nor honed says it
 *     box = 40s                                    ; its --budget
 *     memory = 256M                                ; that each of its processes may write to
 *     [build]                                      ; read by tools/build/board.sh alone
 *     [predict]                                    ; read by tools/bench/predict_board.h alone
 *
 * A board is the file that has the earliest name in the device tree's list, which goes from the board to its
 * processor; else the one of its machine. `compatible` and `machine` are not inherited. Measured and probed
 * values are never replaced: unknown boards work without a file. */
#ifndef PLATFORM_BOARD_H
#define PLATFORM_BOARD_H

#include "platform/machine/target.h"
#include "platform/machine/topo.h"

enum { BOARD_NAME = 64, BOARD_CLUSTERS = 16 };

struct board_cluster {
	char name[TOPO_NAME];
	unsigned said; /* which keys: internal */
	int64_t l1_bytes, l2_bytes, l3_bytes;
	cpu_set_t cpus;
	char schedule[32];
};

struct board_file {
	char file[BOARD_NAME];                /* "rpi4" */
	char name[BOARD_NAME];                /* "Raspberry Pi 4" */
	char match[BOARD_NAME];               /* the name in the device tree, or the machine */
	char devices[BOARD_NAME];             /* "cuda:0 opencl:0" */
	char schedule[32];                    /* of all clusters that have none of their own */
	int64_t l1_bytes, l2_bytes, l3_bytes; /* 0 here and below: not said */
	int64_t box_ns, memory_bytes;
	unsigned said;
	int nclusters;
	struct board_cluster cluster[BOARD_CLUSTERS];
};

/* The folder of the files: $HONE_BOARDS, else that of the installation or of the source tree that this
 * program is in. E_NOTFOUND: there is none. */
int board_dir(char *out, size_t n) MUST_CHECK;
/* Finds the board whose kernel's files are below `root` ("": this one). machine: of uname, "" reads it.
 * E_NOTFOUND: no file fits it. E_CORRUPT: none fits it, but one is wrong; the text says where. */
int board_find(const char *dir, const char *root, const char *machine, struct board_file *b) MUST_CHECK;
/* Reads DIR/FILE.conf and what it is like, whichever machine this is. E_CORRUPT: it is wrong, or cannot be
 * read. */
int board_read(const char *dir, const char *file, struct board_file *b) MUST_CHECK;
/* Reads all files, and appends a line for each that is wrong; returns the number of these. */
int board_check(const char *dir, struct buf *mistakes);
/* The section of the target's cluster; NULL: there is none. */
const struct board_cluster *board_cluster_of(const struct board_file *b, const struct target *t);
/* Sets the schedule that the board's file names for the target's cluster, and its caches, if the kernel does
 * not describe its caches; false: it does, or the file names none. Of a cluster that has no section, and
 * without [caches], they are those of the first that has. root NULL: the machine has no kernel to ask. */
bool board_fill(const struct board_file *b, const char *root, struct target *t);
/* The file of the machine that this process runs on; false: there is none. */
bool board_host(struct board_file *b);
/* Fills a target_host by it; without a file nothing is changed. */
void board_fill_host(struct target *t);

#endif
