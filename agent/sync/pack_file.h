/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a pack's file, which another process may write meanwhile: it is hashed once, then read again part by
 * part, and each part must have the hash that it had. No link is followed, only a regular file is opened, and
 * no read waits for a writer. */
#ifndef AGENT_PACK_FILE_H
#define AGENT_PACK_FILE_H

#include "agent/sync/crypto.h"
#include "agent/cache/segment.h"

struct pack_file {
	const char *path; /* owned by the caller */
	int fd;
	int64_t bytes;
	struct sha256 *part; /* hash of each PACK_PART bytes */
	uint8_t *buf;        /* one part, checked */
	int64_t in_buf;      /* number of that part; -1: none */
};

/* E_NOTFOUND; E_CORRUPT: not a regular file, or longer than a pack may be. */
int pack_file_open(const char *path, struct pack_file *out) MUST_CHECK;
void pack_file_close(struct pack_file *f);
/* Hashes the whole file; later reads must give the same bytes. */
int pack_file_hash(struct pack_file *f, struct sha256 *out) MUST_CHECK;
/* Calls fn with each record; call it after pack_file_hash. E_CORRUPT: not a pack, damaged, or changed
 * meanwhile. */
int pack_file_scan(struct pack_file *f, seg_fn *fn, void *ctx) MUST_CHECK;
/* Reads a whole small file of at most `most` bytes. */
int pack_file_small(const char *path, size_t most, struct arena *a, struct blob *out) MUST_CHECK;

#endif
