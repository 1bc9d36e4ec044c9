/* SPDX-License-Identifier: Apache-2.0 */
/* Finds accesses to shared memory, and to global memory, that nothing orders (ptx_exec.h says how). */
#include "tests/lib/ptx_exec.h"

#include <stdlib.h>

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

static inline void note_read(const struct ptx_warp *w, struct ptx_cell *c, uint32_t thread, uint32_t moment)
{
	const uint32_t all = entry(C_PLAIN | C_LANES, 0, 0);
	if ((c->read[0] & all) == all && thread_of(c->read[0]) / LANES == (uint32_t)w->index &&
	    (c->read[0] & (MOMENTS - 1)) == moment)
		return; /* several lanes of this warp are noted */
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

static void read_early(struct ptx_exec *x, int lane, uint32_t at, const struct ptx_cell *c)
{
	if (c->write >> 30 == C_NONE)
		ptx_stop(x, lane, "reads shared memory that was never written, byte %u", at);
	ptx_stop(x, lane,
		 "race on shared memory, byte %u: read before the thread that copies it, %u, has waited for "
		 "its copy",
		 at, thread_of(c->write));
}

void ptx_shadow_read(struct ptx_exec *x, uint32_t lanes, const uint32_t *at, uint32_t bytes, bool atomic)
{
	const struct ptx_warp *w = x->w;
	const uint32_t shift = x->k->granule_shift, moment = w->clock[w->index], last = (bytes - 1) >> shift;
	for (; lanes; lanes &= lanes - 1) {
		int lane = __builtin_ctz(lanes);
		uint32_t thread = (uint32_t)(w->index * LANES + lane), first = at[lane] >> shift;
		for (uint32_t b = first; b <= first + last; b++) {
			struct ptx_cell *c = &x->cell[b];
			uint32_t kind = c->write >> 30;
			if (kind == C_NONE || kind == C_COPY)
				read_early(x, lane, b << shift, c);
			if (!ordered(w, c->write, thread) && !(atomic && kind == C_ATOMIC))
				race(x, lane, b << shift, c->write, "read here, written by");
			if (!atomic)
				note_read(w, c, thread, moment);
		}
	}
}

static void write_cell(struct ptx_exec *x, int lane, uint32_t at, struct ptx_cell *c, uint32_t thread,
		       int kind)
{
	const struct ptx_warp *w = x->w;
	uint32_t moment = w->clock[w->index];
	int before = (int)(c->write >> 30);
	if (before == C_COPY)
		ptx_stop(x, lane,
			 "race on shared memory, byte %u: written before the thread that copies to it, %u, "
			 "has waited for its copy",
			 at, thread_of(c->write));
	if (before != C_NONE && !ordered(w, c->write, thread) && !(kind == C_ATOMIC && before == C_ATOMIC))
		race(x, lane, at, c->write, "written here and by");
	for (int k = 0; k < 2; k++) {
		uint32_t r = c->read[k];
		bool several = r >> 30 == (C_PLAIN | C_LANES) && thread_of(r) / LANES == (uint32_t)w->index;
		if (r && (!ordered(w, r, thread) || (several && (r & (MOMENTS - 1)) == moment)))
			race(x, lane, at, r, "written here, read by");
		c->read[k] = 0;
	}
	c->write = entry(kind, thread, moment);
}

void ptx_shadow_write(struct ptx_exec *x, uint32_t lanes, const uint32_t *at, uint32_t bytes, int kind)
{
	const uint32_t shift = x->k->granule_shift, last = (bytes - 1) >> shift;
	for (; lanes; lanes &= lanes - 1) {
		int lane = __builtin_ctz(lanes);
		uint32_t thread = (uint32_t)(x->w->index * LANES + lane), first = at[lane] >> shift;
		for (uint32_t b = first; b <= first + last; b++)
			write_cell(x, lane, b << shift, &x->cell[b], thread, kind);
	}
}

void ptx_shadow_landed(struct ptx_exec *x, int lane, uint32_t at, uint32_t bytes)
{
	const struct ptx_warp *w = x->w;
	uint32_t thread = (uint32_t)(w->index * LANES + lane), shift = x->k->granule_shift;
	for (uint32_t b = at >> shift; b <= (at + bytes - 1) >> shift; b++)
		x->cell[b].write = entry(C_PLAIN, thread, w->clock[w->index]);
}

/* ---- global memory ---- */

static uint64_t slot_of(const struct ptx_exec *x, uint64_t granule)
{
	return (granule * 0x9e3779b97f4a7c15u) >> (64 - x->global_bits);
}

static struct ptx_global *slot(const struct ptx_exec *x, uint64_t granule)
{
	uint64_t i = slot_of(x, granule), mask = ((uint64_t)1 << x->global_bits) - 1;
	while (x->global[i].granule && x->global[i].granule != granule)
		i = (i + 1) & mask;
	return &x->global[i];
}

static void grow_table(struct ptx_exec *x)
{
	struct ptx_global *old = x->global;
	uint64_t n = old ? (uint64_t)1 << x->global_bits : 0;
	int bits = old ? x->global_bits + 1 : 12;
	struct ptx_global *more = calloc((size_t)1 << bits, sizeof *more);
	if (!more || bits > 28) {
		free(more);
		ptx_stop(x, -1, "too many addresses for global_races");
	}
	x->global = more;
	x->global_bits = bits;
	for (uint64_t i = 0; i < n; i++)
		if (old[i].granule)
			*slot(x, old[i].granule) = old[i];
	free(old);
}

static void global_race(struct ptx_exec *x, int lane, uint64_t at, uint64_t block, const char *what)
{
	ptx_stop(x, lane, "race on global memory, address %#llx: %s block %lld of the same launch",
		 (unsigned long long)at, what, block == MANY_BLOCKS ? -1 : (long long)block - 1);
}

static void global_cell(struct ptx_exec *x, int lane, uint64_t at, struct ptx_global *g, bool write,
			bool atomic)
{
	const struct ptx_warp *w = x->w;
	uint64_t block = x->block_number + 1;
	uint32_t thread = (uint32_t)(w->index * LANES + lane), moment = w->clock[w->index];
	struct ptx_cell *c = &g->cell;
	bool both = atomic && c->write >> 30 == C_ATOMIC;
	if (g->writer && g->writer != block && !both)
		global_race(x, lane, at, g->writer, write ? "written here and by" : "read here, written by");
	if (g->writer == block && !both && !ordered(w, c->write, thread))
		ptx_stop(x, lane,
			 "race on global memory, address %#llx: %s thread %u of the block, and no barrier "
			 "lies between",
			 (unsigned long long)at, write ? "written here and by" : "read here, written by",
			 thread_of(c->write));
	if (!write && atomic)
		return;
	if (g->reader && g->reader != block) {
		if (write)
			global_race(x, lane, at, g->reader, "written here, read by");
		c->read[0] = c->read[1] = 0;
		g->reader = MANY_BLOCKS;
	}
	if (!write) {
		g->reader = g->reader ? g->reader : block;
		if (g->reader == block)
			note_read(w, c, thread, moment);
		return;
	}
	for (int k = 0; k < 2; k++) {
		uint32_t r = c->read[k];
		bool several = r >> 30 == (C_PLAIN | C_LANES) && thread_of(r) / LANES == (uint32_t)w->index;
		if (r && (!ordered(w, r, thread) || (several && (r & (MOMENTS - 1)) == moment)))
			ptx_stop(x, lane,
				 "race on global memory, address %#llx: written here, read by thread %u of "
				 "the block, and no barrier"
				 " lies between",
				 (unsigned long long)at, thread_of(r));
		c->read[k] = 0;
	}
	g->writer = block;
	g->reader = 0;
	c->write = entry(atomic ? C_ATOMIC : C_PLAIN, thread, moment);
}

void ptx_global_access(struct ptx_exec *x, uint32_t lanes, const uint64_t *at, uint32_t bytes, bool write,
		       bool atomic)
{
	uint32_t shift = x->k->global_shift;
	for (; lanes; lanes &= lanes - 1) {
		int lane = __builtin_ctz(lanes);
		for (uint64_t b = at[lane] >> shift; b <= (at[lane] + bytes - 1) >> shift; b++) {
			if (!x->global || 2 * x->nglobal >> x->global_bits)
				grow_table(x);
			struct ptx_global *g = slot(x, b + 1);
			x->nglobal += !g->granule;
			g->granule = b + 1;
			global_cell(x, lane, b << shift, g, write, atomic);
		}
	}
}
