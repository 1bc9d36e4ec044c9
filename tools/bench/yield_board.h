/* SPDX-License-Identifier: Apache-2.0 */
/* A board for bench-yield: a folder that honed takes for the kernel's files (--sysroot), and whose load,
 * heat, throttling and memory the benchmark sets. A thread counts its /proc/stat on every 2 ms, in the
 * kernel's ticks of 10 ms: what honed's job really uses, and what the pretended robot uses. */
#ifndef TOOLS_YIELD_BOARD_H
#define TOOLS_YIELD_BOARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct yield_board {
	char root[128];
	int stat;        /* its /proc/stat */
	atomic_int cpus; /* of the board: its load is a share of them */
	atomic_int busy; /* how many of them the robot uses */
	atomic_bool over;
	int64_t at_ns, total_ns, busy_ns;
	pthread_t thread;
};

/* Makes the folder and its files: cool, idle, with memory to spare. */
int board_open(struct yield_board *b, const char *root);
/* used: returns the job's processor time so far, in ns. */
int board_start(struct yield_board *b, int64_t (*used)(void *ctx), void *ctx);
void board_end(struct yield_board *b);
void board_heat(const struct yield_board *b, bool on);
void board_throttle(const struct yield_board *b, bool on);
void board_memory(const struct yield_board *b, bool on); /* on: little is free */

#endif
