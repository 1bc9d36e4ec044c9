/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of an emitted PTX object on the host, on copies of a program's buffers, as a driver would launch it.
 */
#ifndef TESTS_PTX_DEVICE_H
#define TESTS_PTX_DEVICE_H

#include "kernels/loops/loops.h"
#include "platform/base/file.h"
#include "tests/lib/ptx.h"
#include "tests/lib/test.h"

/* A run: the memory of each buffer, and how the indices are launched. */
struct ptx_device_run {
	const struct loops *l;
	void *const *buf;     /* read before, written after */
	const int64_t *bytes; /* of each buffer; of scratch, for one item */
	const int64_t *param;
	int64_t at_once; /* items of a launch; each has scratch of its own */
	bool backwards;  /* launches go from the last index to the first */
	uint64_t seed;
};

struct ptx_memory {
	const struct ptx_device_run *r;
	char *p[LOOPS_MAX_BUFS];
	int64_t bytes[LOOPS_MAX_BUFS];
};

/* Whether the bytes lie in one buffer that may be used so. */
static inline bool ptx_device_may(void *user, uint64_t address, size_t n, bool write)
{
	const struct ptx_memory *m = user;
	for (int i = 0; i < loops_arguments(m->r->l); i++) {
		enum buf_role role = m->r->l->buf[i].role;
		uint64_t at = (uint64_t)(uintptr_t)m->p[i];
		if (address >= at && address - at <= (uint64_t)m->bytes[i] &&
		    n <= (uint64_t)m->bytes[i] - (address - at))
			return !write || role == BUF_OUT || role == BUF_SCRATCH;
	}
	return false;
}

static inline void ptx_device_put(struct ptx_memory *m)
{
	const struct ptx_device_run *r = m->r;
	for (int i = 0; i < loops_arguments(r->l); i++) {
		const struct lbuf *b = &r->l->buf[i];
		int64_t parts = b->role == BUF_SCRATCH && !b->common ? r->at_once : 1,
			declared = ix_eval(b->elems, r->param, NULL, NULL) * (int64_t)dtype_bytes(b->dtype);
		m->bytes[i] = r->bytes[i] * parts;
		if (parts == 1 && m->bytes[i] < declared) /* what lies behind may be read, but is not used */
			m->bytes[i] = declared;
		size_t room = ((size_t)m->bytes[i] + 127) / 64 * 64;
		m->p[i] = aligned_alloc(64, room);
		memset(m->p[i], 0x5a, room);
		for (int64_t k = 0; m->p[i] && k < parts; k++)
			memcpy(m->p[i] + k * r->bytes[i], r->buf[i], (size_t)r->bytes[i]);
	}
}

static inline void ptx_device_get(struct ptx_memory *m)
{
	for (int i = 0; i < loops_arguments(m->r->l); i++) {
		memcpy(m->r->buf[i], m->p[i], (size_t)m->r->bytes[i]);
		free(m->p[i]);
	}
}

/* Bytes of shared memory that a launch must ask for: all, if they are over 48 KB. */
static inline size_t ptx_device_shared(const struct loops *l)
{
	size_t bytes = 0, unit = loops_has_fragments(l) ? 32 : 16;
	for (int i = loops_arguments(l); i < l->nbufs; i++)
		bytes += ((size_t)l->buf[i].elems->c * dtype_bytes(l->buf[i].dtype) + unit - 1) / unit * unit;
	return bytes > 48 << 10 ? bytes : 0;
}

/* Launches [begin, end) of an entry. */
static inline int ptx_device_launch(const struct ptx *p, struct ptx_memory *m, const struct entry *e,
				    int64_t begin, int64_t end)
{
	const struct loops *l = m->r->l;
	const struct ptx_entry *known = ptx_find(p, e->name);
	void *arg[LOOPS_MAX_BUFS + LOOPS_MAX_PARAMS + 2];
	int n = 0;
	if (!known)
		return fail(E_CORRUPT, "no entry %s", e->name);
	int64_t group = known->reqntid[0], params[LOOPS_MAX_PARAMS];
	for (int i = 0; i < loops_arguments(l); i++)
		arg[n++] = &m->p[i];
	for (int i = 0; i < l->nparams; i++) {
		params[i] = m->r->param[i];
		arg[n++] = &params[i];
	}
	arg[n++] = &begin;
	arg[n++] = &end;
	return ptx_run(p, &(struct ptx_launch){.entry = e->name,
					       .grid = {(unsigned)((end - begin + group - 1) / group), 1, 1},
					       .block = {(unsigned)group, (unsigned)e->threads, 1},
					       .param = arg,
					       .shared_bytes = ptx_device_shared(l),
					       .nparams = n,
					       .seed = m->r->seed + (uint64_t)begin,
					       .may = ptx_device_may,
					       .user = m});
}

/* Runs every entry over its extent. */
static inline int ptx_device_run(const char *text, size_t n, const struct ptx_device_run *r)
{
	struct ptx_memory m = {.r = r};
	struct ptx *p;
	int rc = ptx_load(text, n, &p);
	if (rc < 0)
		return rc;
	ptx_device_put(&m);
	for (int e = 0; e < r->l->nentries && rc >= 0; e++) {
		int64_t extent = ix_eval(r->l->entry[e].extent, r->param, NULL, NULL), step = r->at_once;
		for (int64_t i = 0; i < extent && rc >= 0; i += step) {
			int64_t begin = r->backwards ? (extent - 1 - i) / step * step : i,
				end = begin + step < extent ? begin + step : extent;
			rc = ptx_device_launch(p, &m, &r->l->entry[e], begin, end);
		}
	}
	ptx_device_get(&m);
	ptx_free(p);
	return rc;
}

/* f32 that are equal but for NaNs of any kind, and zeros and subnormals of a sign. */
static inline bool ptx_same_f32(const void *a, const void *b)
{
	uint32_t x, y;
	memcpy(&x, a, 4);
	memcpy(&y, b, 4);
	bool nan = (x & 0x7fffffff) > 0x7f800000 && (y & 0x7fffffff) > 0x7f800000,
	     zero = !(x & 0x7f800000) && !(y & 0x7f800000) && (x ^ y) >> 31 == 0;
	return x == y || nan || zero;
}

#endif
