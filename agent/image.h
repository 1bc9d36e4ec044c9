/* SPDX-License-Identifier: Apache-2.0 */
/* Images: a plan as one file that is made ready again without its model: no import, no passes, no packing.
 * What a process needs to start in milliseconds.
 *
 * A plan can be an image when compiled kernels do all its work; nodes that run in C need the graph
 * (E_UNSUPPORTED).
 *
 * File: "HIMG", u32 CRC32C of all that follows up to the weights, key 16 bytes (hi, lo: what it is for, the
 * caller's), note 16 bytes (the caller's too), u64 bytes of the description, u64 bytes of the weights, u32
 * CRC32C of the weights, u32 0, the description, zeros up to a multiple of 4096, the packed weights. The
 * description is little endian and has no addresses: a place is a region and an offset in it. It is only read
 * by the version that wrote it, on the same kind of machine; the caller's key says so.
 *
 * An image holds machine code: one that somebody other than root and this process's user can write, or whose
 * folder they can change, is not read (E_NOTFOUND). */
#ifndef AGENT_IMAGE_H
#define AGENT_IMAGE_H

#include "agent/plan.h"
#include "platform/buf.h"
#include "platform/hash.h"

/* Beside the path, then renamed over it. `meta`: of plan_build_described. */
int image_write(const char *path, struct key key, struct key note, const struct plan *p,
		const struct buf *meta) MUST_CHECK;
/* E_NOTFOUND: none, or one of another key; E_CORRUPT: damaged. `pool` has as many threads as it was made for.
 */
int image_read(const char *path, struct key key, struct pool *pool, struct key *note,
	       struct plan **out) MUST_CHECK;

#endif
