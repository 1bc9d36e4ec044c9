/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of the kernel, below a root that stands for a board ("": the real one). These functions only
 * read and never wait: anything but a regular file (a FIFO, a folder, a device) is treated as absent, and of
 * a large file only the beginning is read. A sysfs file that is kept open gives a new value each time it is
 * read from its beginning. */
#ifndef PLATFORM_SYSFILE_H
#define PLATFORM_SYSFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SYSFILE_NAME = 64 };

/* Returns a descriptor, or -1. */
int sysfile_open(const char *root, const char *path);
/* Reads at most n - 1 bytes from the beginning in one read, and adds a NUL. Returns their number; -1: cannot
 * be read. */
int sysfile_read(int fd, char *out, size_t n);
/* Reads the first word as a number in a base, 16 with or without 0x. False, *out unchanged: it is no number,
 * or does not fit 62 bits. */
bool sysfile_value(int fd, int base, int64_t *out);
/* Opens and reads a path: the first line without blanks around it. False and "": nothing there. */
bool sysfile_line(const char *root, const char *path, char *out, size_t n);
bool sysfile_number(const char *root, const char *path, int64_t *out);
/* Lists the names in a folder that begin with `prefix`, in the order of their numbers; at most `room`. Names
 * that are too long are left out. */
int sysfile_list(const char *root, const char *dir, const char *prefix, char (*name)[SYSFILE_NAME], int room);

#endif
