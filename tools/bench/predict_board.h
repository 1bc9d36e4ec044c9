/* SPDX-License-Identifier: Apache-2.0 */
/* What configs/boards/NAME.conf says of a board for predictions, in its section [predict]:
 *
 *     core = cortex-a72        ; LLVM's name of the processor that code is made for
 *     features = +dotprod      ; LLVM's names of what it has beyond the baseline
 *     model = cortex-a72       ; the processor that llvm-mca has a model of
 *     mhz = 1500
 *     flops = 8                ; multiplications and additions of floats a cycle
 *     gbs = 24 12 0 4          ; read speed of L1, L2, L3 (0: there is none) and memory, GB/s
 *
 * The clock is that of the data sheet; speeds are assumptions, and no measurements. */
#ifndef TOOLS_PREDICT_BOARD_H
#define TOOLS_PREDICT_BOARD_H

#include "tools/bench/predict.h"

enum { MOST_BOARDS = 64 };

/* E_NOTFOUND: there is no such file, or it has no [predict]. E_CORRUPT: it is wrong; the text says what.
 * The caches of `core`, and what LLVM orders instructions for, are read by platform/machine/board.h. */
int predict_board(const char *dir, const char *board, struct predict_cpu *out) MUST_CHECK;
/* Names of the boards that have a [predict], sorted. Returns their number. */
int predict_boards(const char *dir, struct arena *a, const char *names[MOST_BOARDS]) MUST_CHECK;

#endif
