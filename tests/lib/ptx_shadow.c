/* SPDX-License-Identifier: Apache-2.0 */
/* Finds accesses to shared memory that nothing orders (ptx_exec.h says how). */
#include "tests/lib/ptx_exec.h"

static uint32_t entry(int kind, uint32_t thread, uint32_t moment)
{
	return (uint32_t)kind << 30 | thread << MOMENT_BITS | moment;
}

static uint32_t thread_of(uint32_t e)
{
	return e >> MOMENT_BITS & 1023;
}

/* Whether this thread's present access is ordered behind e. */
static inline bool ordered(const struct ptx_warp *w, uint32_t e, uint32_t thread)
{
	uint32_t t = thread_of(e);
	return t == thread || (e & (MOMENTS - 1)) <= w->known[t / LANES];
}

static void race(struct ptx_exec *x, int lane, uint32_t at, uint32_t other, const char *what)
{
	ptx_stop(x, lane,
		 "race on shared memory, byte %u: %s thread %u of the block, and no barrier lies between", at,
		 what, thread_of(other));
}

static void note_read(const struct ptx_warp *w, struct ptx_cell *c, uint32_t thread, uint32_t moment)
{
	for (int k = 0; k < 2; k++) {
		uint32_t r = c->read[k];
		bool own = thread_of(r) / LANES == (uint32_t)w->index && (r & (MOMENTS - 1)) == moment;
		if (r && own && thread_of(r) != thread) {
			c->read[k] = r | (uint32_t)C_LANES << 30;
			return;
		}
		if (!r || ordered(w, r, thread)) {
			if (!own || !r)
				c->read[k] = entry(C_PLAIN, thread, moment);
			return;
		}
	}
}

void ptx_shadow_read(struct ptx_exec *x, int lane, uint32_t at, uint32_t bytes, bool atomic)
{
	const struct ptx_warp *w = x->w;
	uint32_t thread = (uint32_t)(w->index * LANES + lane), moment = w->clock[w->index], g = x->k->granule;
	for (uint32_t b = at; b < at + bytes; b += g) {
		struct ptx_cell *c = &x->cell[b / g];
		int kind = (int)(c->write >> 30);
		if (kind == C_NONE)
			ptx_stop(x, lane, "reads shared memory that was never written, byte %u", b);
		if (kind == C_COPY)
			ptx_stop(x, lane,
				 "race on shared memory, byte %u: read before the thread that copies it, %u, "
				 "has waited"
				 " for its copy",
				 b, thread_of(c->write));
		if (!ordered(w, c->write, thread) && !(atomic && kind == C_ATOMIC))
			race(x, lane, b, c->write, "read here, written by");
		if (!atomic)
			note_read(w, c, thread, moment);
	}
}

void ptx_shadow_write(struct ptx_exec *x, int lane, uint32_t at, uint32_t bytes, int kind)
{
	const struct ptx_warp *w = x->w;
	uint32_t thread = (uint32_t)(w->index * LANES + lane), moment = w->clock[w->index], g = x->k->granule;
	for (uint32_t b = at; b < at + bytes; b += g) {
		struct ptx_cell *c = &x->cell[b / g];
		int before = (int)(c->write >> 30);
		if (before == C_COPY)
			ptx_stop(x, lane,
				 "race on shared memory, byte %u: written before the thread that copies to "
				 "it, %u, has"
				 " waited for its copy",
				 b, thread_of(c->write));
		if (before != C_NONE && !ordered(w, c->write, thread) &&
		    !(kind == C_ATOMIC && before == C_ATOMIC))
			race(x, lane, b, c->write, "written here and by");
		for (int k = 0; k < 2; k++) {
			uint32_t r = c->read[k];
			bool lanes =
			    r >> 30 == (C_PLAIN | C_LANES) && thread_of(r) / LANES == (uint32_t)w->index;
			if (r && (!ordered(w, r, thread) || (lanes && (r & (MOMENTS - 1)) == moment)))
				race(x, lane, b, r, "written here, read by");
			c->read[k] = 0;
		}
		c->write = entry(kind, thread, moment);
	}
}

void ptx_shadow_landed(struct ptx_exec *x, int lane, uint32_t at, uint32_t bytes)
{
	const struct ptx_warp *w = x->w;
	uint32_t thread = (uint32_t)(w->index * LANES + lane), g = x->k->granule;
	for (uint32_t b = at; b < at + bytes; b += g)
		x->cell[b / g].write = entry(C_PLAIN, thread, w->clock[w->index]);
}
