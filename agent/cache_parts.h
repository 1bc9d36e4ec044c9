/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the cache share: cache_file.c opens, locks and reads the file, cache.c indexes and
 * writes. */
#ifndef AGENT_CACHE_PARTS_H
#define AGENT_CACHE_PARTS_H

#include "agent/cache.h"

#include <limits.h>

enum {
	HEAD_BYTES = 28, /* magic, length, type and zeros, key */
	CRC_BYTES = 4,
	MAX_PAYLOAD = 16 << 20, /* a kernel is some KiB; anything near this is damage */
};

#define GONE UINT32_MAX

/* One per (type, key): where its newest record is. */
struct slot {
	struct key key;
	uint8_t type; /* enum cache_type; 0: empty */
	uint32_t n;   /* payload bytes; GONE: forgotten */
	int64_t at;   /* offset of the record; < 0: at ~at in `pending` */
};

struct cache {
	char dir[PATH_MAX - 32];
	int fd;             /* of the file; -1: none (a reader's empty folder) */
	int lock_fd;        /* -1: reader */
	bool memory;        /* what is put stays in `pending` */
	bool foreign;       /* somebody else may have written it: its code is not run */
	bool named;         /* the file's name is durable */
	int64_t end;        /* bytes of the file that have been indexed */
	int64_t good_bytes; /* of them in good records */
	struct slot *slot;  /* open addressing, a power of two */
	size_t nslots, nused;
	struct buf pending; /* records that could not be written: kept, so that nothing is lost while this
			       process lives */
};

struct head {
	uint32_t n;
	uint8_t type;
	struct key key;
};

static const uint8_t cache_magic[4] = {'H', 'R', 'E', 'C'};

/* Record h is at `at` (< 0: at ~at in `pending`): remembers that. Returns 1, or < 0. */
int cache_index(struct cache *c, const struct head *h, const uint8_t *payload, int64_t at) MUST_CHECK;
int cache_open_file(struct cache *c) MUST_CHECK;
int cache_lock(struct cache *c, int64_t wait_ns) MUST_CHECK;
/* Indexes what follows the last good record; > 0: there was something new. */
int cache_scan(struct cache *c) MUST_CHECK;
bool cache_head(const uint8_t *p, struct head *h); /* of HEAD_BYTES; false: none */
/* The record of `n` payload bytes at `at`, whole and checked, into `out` (cleared first). 0: not a good
 * record. */
int cache_read(const struct cache *c, int64_t at, uint32_t n, struct buf *out) MUST_CHECK;

#endif
