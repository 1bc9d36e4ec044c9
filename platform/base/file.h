/* SPDX-License-Identifier: Apache-2.0 */
/* Files: read whole, write atomically, make folders. Every error names the path, the cause and the remedy. */
#ifndef PLATFORM_FILE_H
#define PLATFORM_FILE_H

#include "platform/base/arena.h"
#include "platform/base/err.h"
#include <stdbool.h>

struct blob {
	const void *p;
	size_t n; /* bytes */
};

/* Reads a whole file into the arena (NUL byte after the end). Refuses files over max_bytes (0 = 2 GiB). Files
 * of more than 1 MiB are read within the thread's limit (platform/base/until.h). Files of /proc and /sys do
 * not tell their size, and read as empty: platform/machine/sysfile.h reads those. */
int file_read(struct arena *a, const char *path, size_t max_bytes, struct blob *out) MUST_CHECK;
/* The same; *fd is the open file that was read, which the caller closes, if this returns E_OK. */
int file_read_open(struct arena *a, const char *path, size_t max_bytes, struct blob *out, int *fd) MUST_CHECK;
/* Writes beside the path, fsyncs, renames over it, fsyncs the folder: readers see the old or the new file,
 * never a part. */
int file_write(const char *path, const void *p, size_t n) MUST_CHECK;
/* Like file_write, without the syncs: after a power cut the file may be the old one, empty, or filled with
 * zeros. */
int file_write_soon(const char *path, const void *p, size_t n) MUST_CHECK;
/* Like file_write, for several parts written one after the other; the mode is limited to `most`. */
int file_write_parts(const char *path, const struct blob *part, int nparts, unsigned most) MUST_CHECK;
/* Whether a name is one that file_write gives the file that it writes beside the file `base` and then renames
 * (both without folders). Such a file that stays was left by a process that was killed. */
bool file_is_unfinished(const char *name, const char *base);
/* Checks that file_write could write the path, so that work is not done in vain; nothing is left behind. */
int file_can_write(const char *path) MUST_CHECK;
/* The same for file_mkdirs and files in the new folder. */
int file_can_mkdirs(const char *path) MUST_CHECK;
/* Syncs the folder of a path, so that a name that was made or removed there is durable. */
void file_sync_folder_of(const char *path);
/* Like mkdir -p; the new folders are durable. */
int file_mkdirs(const char *path, unsigned mode) MUST_CHECK;
bool file_exists(const char *path);
bool file_is_dir(const char *path);
bool file_ends_with(const char *path, const char *end); /* as ".npy" */
/* Folder of the running executable ("/usr/local/bin"), for finding hone-worker beside hone. */
int file_self_dir(char *out, size_t n) MUST_CHECK;
/* XDG cache folder of hone: $XDG_CACHE_HOME/hone, else $HOME/.cache/hone, else E_NOTFOUND with the remedy
 * (--cache). */
int file_cache_dir(char *out, size_t n) MUST_CHECK;
/* Exclusive advisory lock (flock) of a regular file, which is created with access for its owner alone; links
 * are not followed. wait_ns 0: E_BUSY at once. The lock ends with file_unlock or the process. */
int file_lock(const char *path, int64_t wait_ns, int *fd) MUST_CHECK;
void file_unlock(int fd);

#endif
