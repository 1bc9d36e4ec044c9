/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of the kernel, below a root that stands for a board ("": the real one). Only reads, never
 * waits: what is no regular file (a FIFO, a folder, a device) is as if it were not there, and of a large one
 * only the beginning is read. A sysfs file that is kept open tells its value anew each time it is read from
 * its beginning. */
#ifndef PLATFORM_SYSFILE_H
#define PLATFORM_SYSFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SYSFILE_NAME = 64 };

/* A descriptor, or -1. */
int sysfile_open(const char *root, const char *path);
/* From the beginning, at most n - 1 bytes in one read, and a NUL; how many, -1: it cannot be read. */
int sysfile_read(int fd, char *out, size_t n);
/* The first word as a number in a base, 16 with or without 0x. False, *out as it was: it is none, or does not
 * fit 62 bits. */
bool sysfile_value(int fd, int base, int64_t *out);
/* Both at once, by path: the first line without blanks around it; false, "": nothing there. */
bool sysfile_line(const char *root, const char *path, char *out, size_t n);
bool sysfile_number(const char *root, const char *path, int64_t *out);
/* The names in a folder that begin with `prefix`, in the order of their numbers; at most `room`. Names that
 * are too long are left out. */
int sysfile_list(const char *root, const char *dir, const char *prefix, char (*name)[SYSFILE_NAME], int room);

#endif
