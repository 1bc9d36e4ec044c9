/* SPDX-License-Identifier: Apache-2.0 */
/* Declares functions that a board's older glibc does not have (tools/build/board_libc.c), before each file of
 * a build for it. */
#ifndef BUILD_BOARD_LIBC_H
#define BUILD_BOARD_LIBC_H

const char *strerrordesc_np(int number);

#endif
