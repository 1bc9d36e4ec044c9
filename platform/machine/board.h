/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files of boards, configs/boards/NAME.conf. A new board is added by a file of its own.
 *
 *     name = Raspberry Pi 4                        ; for people
 *     like = generic-arm64                         ; what this file lacks is as in that one
 *     compatible = raspberrypi,4-model-b raspberrypi,400   ; of the device tree, any of these
 *     machine = aarch64                            ; of uname: for boards that no `compatible` finds
 *     [caches]                                     ; of a fast core, where the kernel does not know them
 *     l1 = 32                                      ; KiB of data
 *     l2 = 1024                                    ; that a core uses
 *     l3 = 0                                       ; 0: there is none
 *     [build]                                      ; read by tools/build/board.sh alone
 *     [predict]                                    ; read by tools/bench/predict_board.h alone
 *
 * A board is the file that has the earliest name in the device tree's list, which goes from the board to its
 * processor; else the one of its machine. `compatible` and `machine` are not inherited. Measured and probed
 * values are never replaced: unknown boards work without a file. */
#ifndef PLATFORM_BOARD_H
#define PLATFORM_BOARD_H

#include "platform/machine/target.h"

enum { BOARD_NAME = 64 };

struct board_file {
	char file[BOARD_NAME];                /* "rpi4" */
	char name[BOARD_NAME];                /* "Raspberry Pi 4" */
	char match[BOARD_NAME];               /* the name in the device tree, or the machine */
	int64_t l1_bytes, l2_bytes, l3_bytes; /* 0: not said */
};

/* The folder of the files: $HONE_BOARDS, else that of the installation or of the source tree that this
 * program is in. E_NOTFOUND: there is none. */
int board_dir(char *out, size_t n) MUST_CHECK;
/* Finds the board whose kernel's files are below `root` ("": this one). machine: of uname, "" reads it.
 * E_NOTFOUND: no file fits it. E_CORRUPT: none fits it, but one is wrong; the text says where. */
int board_find(const char *dir, const char *root, const char *machine, struct board_file *b) MUST_CHECK;
/* Sets the caches that the board's file names, if the kernel does not describe its caches; false: it does, or
 * the file names none. */
bool board_fill(const struct board_file *b, const char *root, struct target *t);
/* Both, for the machine that this process runs on; without a file for it nothing is changed. */
void board_fill_host(struct target *t);

#endif
