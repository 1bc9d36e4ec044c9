/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a pack, which somebody may write while it is read: hashed once, and read again part by part,
 * each with the hash that it had. No link is followed, nothing but a regular file is opened, and nothing
 * waits for a writer. */
#ifndef AGENT_PACK_FILE_H
#define AGENT_PACK_FILE_H

#include "agent/sync/crypto.h"
#include "agent/cache/segment.h"

struct pack_file {
	const char *path; /* the caller's */
	int fd;
	int64_t bytes;
	struct sha256 *part; /* of each PACK_PART bytes */
	uint8_t *buf;        /* one of them, checked: */
	int64_t in_buf;      /* number; -1: none */
};

/* E_NOTFOUND; E_CORRUPT: no regular file, or longer than a pack may be. */
int pack_file_open(const char *path, struct pack_file *out) MUST_CHECK;
void pack_file_close(struct pack_file *f);
/* All of it; from now on its bytes are those that were hashed. */
int pack_file_hash(struct pack_file *f, struct sha256 *out) MUST_CHECK;
/* Its records, after that. E_CORRUPT: no pack, or damaged, or it changed meanwhile. */
int pack_file_scan(struct pack_file *f, seg_fn *fn, void *ctx) MUST_CHECK;
/* A small file as a whole, of at most `most` bytes. */
int pack_file_small(const char *path, size_t most, struct arena *a, struct blob *out) MUST_CHECK;

#endif
