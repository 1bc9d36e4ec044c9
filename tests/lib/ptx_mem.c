/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores, atomic operations and asynchronous copies. */
#include "tests/lib/ptx_exec.h"

#include <stdlib.h>
#include <string.h>

struct places {
	uint64_t at[LANES];     /* addresses as the instruction gives them */
	uint8_t *host[LANES];   /* lanes that are not active point to a spare place */
	uint32_t shared[LANES]; /* offsets, of lanes in shared_lanes */
	uint32_t shared_lanes, global_lanes;
};
static _Thread_local uint8_t spare[16 * MOST_VECTOR];

static const uint8_t *lanes_of(const struct ptx_warp *w, const struct ptx_opnd *o)
{
	return w->regs + o->off;
}

static void addresses(const struct ptx_warp *w, const struct ptx_opnd *o, int64_t offset, uint64_t *at)
{
	const uint8_t *p = lanes_of(w, o);
	for (int i = 0; i < LANES; i++)
		at[i] =
		    (o->bytes == 8 ? ((const uint64_t *)p)[i] : ((const uint32_t *)p)[i]) + (uint64_t)offset;
}

static const struct ptx_var *variable_at(const struct ptx *m, uint64_t at, size_t bytes)
{
	for (int i = 0; i < m->nvars; i++) {
		const struct ptx_var *v = &m->vars[i];
		if ((v->space == S_GLOBAL || v->space == S_CONST) && at - v->address < v->bytes &&
		    bytes <= v->bytes - (at - v->address))
			return v;
	}
	return NULL;
}

static bool allowed(const struct ptx_exec *x, int space, uint64_t at, size_t bytes, bool write)
{
	const struct ptx_var *v = variable_at(x->m, at, bytes);
	if (v)
		return v->space == S_CONST ? !write && space != S_GLOBAL : space != S_CONST;
	return space != S_CONST && x->l->may && x->l->may(x->l->user, at, bytes, write);
}

/* The offset in shared memory's bytes of an address there. */
static uint32_t shared_offset(struct ptx_exec *x, int lane, uint64_t at, uint64_t bytes)
{
	uint64_t fixed = x->k->e.shared_bytes, dynamic = x->l->shared_bytes;
	if (at < fixed && bytes <= fixed - at)
		return (uint32_t)at;
	if (at - DYNAMIC_SHARED < dynamic && bytes <= dynamic - (at - DYNAMIC_SHARED))
		return (uint32_t)(x->shared_bytes - dynamic + (at - DYNAMIC_SHARED));
	ptx_stop(x, lane, "%llu bytes at address %llu of shared memory, which has %llu bytes",
		 (unsigned long long)bytes, (unsigned long long)at, (unsigned long long)fixed);
}

static void place(struct ptx_exec *x, struct ptx_warp *w, int lane, int space, uint64_t at, unsigned bytes,
		  bool write, struct places *p)
{
	if (space == S_GENERIC && at - SHARED_WINDOW < WINDOW_BYTES) {
		space = S_SHARED;
		at -= SHARED_WINDOW;
	} else if (space == S_GENERIC && at - LOCAL_WINDOW < WINDOW_BYTES) {
		space = S_LOCAL;
		at -= LOCAL_WINDOW;
	}
	if (at & (bytes - 1))
		ptx_stop(x, lane, "address %#llx is not a multiple of %u", (unsigned long long)at, bytes);
	size_t local = x->k->e.local_bytes;
	switch (space) {
	case S_SHARED:
		p->shared[lane] = shared_offset(x, lane, at, bytes);
		p->host[lane] = x->shared + p->shared[lane];
		p->shared_lanes |= 1u << lane;
		return;
	case S_LOCAL:
		if (at > local || bytes > local - at)
			ptx_stop(x, lane, "%u bytes at address %llu of local memory, which has %zu bytes",
				 bytes, (unsigned long long)at, local);
		p->host[lane] = x->local + (size_t)(w->index * LANES + lane) * local + at;
		return;
	case S_PARAM:
		if (at > x->k->params_bytes || bytes > x->k->params_bytes - at)
			ptx_stop(x, lane, "%u bytes at address %llu of the parameters, which have %zu bytes",
				 bytes, (unsigned long long)at, x->k->params_bytes);
		p->host[lane] = x->params + at;
		return;
	default:
		if (!allowed(x, space, at, bytes, write))
			ptx_stop(x, lane, "may not %s %u bytes at %#llx of %s memory",
				 write ? "write" : "read", bytes, (unsigned long long)at,
				 space == S_CONST ? "constant" : "global");
		p->host[lane] = (uint8_t *)(uintptr_t)at;
		p->global_lanes |= space == S_CONST ? 0 : 1u << lane;
	}
}

/* Shared addresses that all lie in the declared variables. */
static bool place_shared(struct ptx_exec *x, unsigned bytes, uint32_t m, struct places *p)
{
	uint64_t bad = 0, fixed = x->k->e.shared_bytes;
	if (bytes > fixed)
		return false;
	for (int i = 0; i < LANES; i++) {
		uint64_t at = m >> i & 1 ? p->at[i] : 0;
		bad |= (at & (bytes - 1)) | (uint64_t)(at > fixed - bytes);
		p->shared[i] = (uint32_t)at;
	}
	if (bad)
		return false;
	for (int i = 0; i < LANES; i++)
		p->host[i] = m >> i & 1 ? x->shared + p->shared[i] : spare;
	p->shared_lanes = m;
	return true;
}

/* Global accesses of a whole warp that lie in what `may` allows at once. */
static bool place_hull(struct ptx_exec *x, int space, unsigned bytes, bool write, uint32_t m,
		       struct places *p)
{
	uint64_t least = UINT64_MAX, most = 0, odd = 0;
	if (space != S_GLOBAL && space != S_GENERIC)
		return false;
	for (int i = 0; i < LANES; i++)
		if (m >> i & 1) {
			least = p->at[i] < least ? p->at[i] : least;
			most = p->at[i] > most ? p->at[i] : most;
			odd |= p->at[i];
		}
	if ((odd & (bytes - 1)) || most >= SHARED_WINDOW || !x->l->may ||
	    !x->l->may(x->l->user, least, most - least + bytes, write))
		return false;
	for (int i = 0; i < LANES; i++)
		p->host[i] = m >> i & 1 ? (uint8_t *)(uintptr_t)p->at[i] : spare;
	p->global_lanes = m;
	return true;
}

static void find_places(struct ptx_exec *x, struct ptx_warp *w, int space, unsigned bytes, bool write,
			uint32_t m, struct places *p)
{
	p->shared_lanes = p->global_lanes = 0;
	if (space == S_SHARED ? place_shared(x, bytes, m, p) : place_hull(x, space, bytes, write, m, p))
		return;
	for (int i = 0; i < LANES; i++) {
		p->host[i] = spare;
		if (m >> i & 1)
			place(x, w, i, space, p->at[i], bytes, write, p);
	}
}

static uint64_t extended(const uint8_t *p, int type, unsigned bytes)
{
	uint64_t v = 0;
	memcpy(&v, p, bytes);
	if (ptx_signed(type) && bytes < 8 && (v >> (8 * bytes - 1) & 1))
		v |= UINT64_MAX << 8 * bytes;
	return v;
}

static void load_element(uint8_t *const *host, size_t at, int type, unsigned bytes, unsigned to_bytes,
			 void *to)
{
	if (bytes == 4 && to_bytes == 4) {
		for (int i = 0; i < LANES; i++)
			memcpy((uint32_t *)to + i, host[i] + at, 4);
		return;
	}
	for (int i = 0; i < LANES; i++) {
		uint64_t v = extended(host[i] + at, type, bytes);
		memcpy((uint8_t *)to + (size_t)i * to_bytes, &v, to_bytes);
	}
}

void ptx_load_store(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, uint32_t m)
{
	struct places p;
	bool write = in->kind == K_STORE;
	unsigned bytes = ptx_type_bytes(in->type), all = bytes * in->vector;
	addresses(w, &in->s[0], in->imm, p.at);
	find_places(x, w, in->space, all, write, m, &p);
	if (p.shared_lanes && write)
		ptx_shadow_write(x, p.shared_lanes, p.shared, all, in->sub ? C_ATOMIC : C_PLAIN);
	else if (p.shared_lanes)
		ptx_shadow_read(x, p.shared_lanes, p.shared, all, in->sub);
	if (p.global_lanes && x->l->global_races)
		ptx_global_access(x, p.global_lanes, p.at, all, write, in->sub);
	for (int e = 0; e < in->vector; e++) {
		uint64_t to[LANES];
		const struct ptx_opnd *o = write ? &in->s[1 + e] : &in->d[e];
		if (!write) {
			load_element(p.host, e * bytes, in->type, bytes, o->bytes, to);
			ptx_commit(w, o, to, m);
			continue;
		}
		const uint8_t *from = lanes_of(w, o);
		for (int i = 0; i < LANES; i++)
			if (m >> i & 1)
				memcpy(p.host[i] + e * bytes, from + (size_t)i * o->bytes, bytes);
	}
}

void ptx_access_rows(struct ptx_exec *x, struct ptx_warp *w, int space, const uint64_t *at, uint32_t lanes,
		     bool write, uint8_t (*bytes)[16])
{
	struct places p;
	for (int i = 0; i < LANES; i++)
		p.at[i] = lanes >> i & 1 ? at[i] : 0;
	find_places(x, w, space, 16, write, lanes, &p);
	if (p.shared_lanes && write)
		ptx_shadow_write(x, p.shared_lanes, p.shared, 16, C_PLAIN);
	else if (p.shared_lanes)
		ptx_shadow_read(x, p.shared_lanes, p.shared, 16, false);
	if (p.global_lanes && x->l->global_races)
		ptx_global_access(x, p.global_lanes, p.at, 16, write, false);
	for (int i = 0; i < LANES; i++)
		if (lanes >> i & 1)
			memcpy(write ? p.host[i] : bytes[i], write ? bytes[i] : p.host[i], 16);
}

/* ---- atomic operations ---- */

static uint64_t add_float(int type, uint64_t a, uint64_t b)
{
	float f, g;
	double d, e;
	if (type == T_F64) {
		memcpy(&d, &a, sizeof d);
		memcpy(&e, &b, sizeof e);
		d += e;
		memcpy(&a, &d, sizeof d);
		return a;
	}
	if (type == T_F32) {
		uint32_t u = (uint32_t)a, v = (uint32_t)b;
		memcpy(&f, &u, sizeof f);
		memcpy(&g, &v, sizeof g);
		f += g;
		memcpy(&u, &f, sizeof f);
		return u;
	}
	bool half = type == T_F16 || type == T_F16X2;
	uint64_t r = 0;
	for (int k = 0; k < (type == T_F16X2 || type == T_BF16X2 ? 2 : 1); k++) {
		uint16_t u = (uint16_t)(a >> 16 * k), v = (uint16_t)(b >> 16 * k);
		uint16_t sum = half ? ptx_to_f16((double)ptx_f16_to_f32(u) + ptx_f16_to_f32(v), R_RN)
				    : ptx_to_bf16((double)ptx_bf16_to_f32(u) + ptx_bf16_to_f32(v), R_RN);
		r |= (uint64_t)sum << 16 * k;
	}
	return r;
}

static uint64_t combined(const struct ptx_ins *in, uint64_t a, uint64_t b, uint64_t c)
{
	bool less = ptx_signed(in->type) ? (int64_t)a < (int64_t)b : a < b;
	switch (in->sub) {
	case 0:
		return ptx_floats(in->type) ? add_float(in->type, a, b) : a + b;
	case 1:
		return less ? a : b;
	case 2:
		return less ? b : a;
	case 3:
		return a & b;
	case 4:
		return a | b;
	case 5:
		return a ^ b;
	case 6:
		return b;
	case 7:
		return a == b ? c : a;
	case 8:
		return a >= b ? 0 : a + 1;
	default:
		return a == 0 || a > b ? b : a - 1;
	}
}

void ptx_atomic(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, uint32_t m)
{
	struct places p;
	unsigned bytes = ptx_type_bytes(in->type);
	uint64_t old[LANES];
	addresses(w, &in->s[0], in->imm, p.at);
	find_places(x, w, in->space, bytes, true, m, &p);
	if (p.global_lanes && x->l->global_races)
		ptx_global_access(x, p.global_lanes, p.at, bytes, true, true);
	unsigned first = rng_below(&x->rng, LANES); /* lanes come in any order */
	for (unsigned k = 0; k < LANES; k++) {
		unsigned i = (k + first) % LANES;
		if (!(m >> i & 1))
			continue;
		if (p.shared_lanes >> i & 1) {
			if (!x->cell[p.shared[i] >> x->k->granule_shift].write)
				ptx_stop(x, (int)i, "reads shared memory that was never written, byte %u",
					 p.shared[i]);
			ptx_shadow_write(x, 1u << i, p.shared, bytes, C_ATOMIC);
		}
		uint64_t a = extended(p.host[i], in->type, bytes), v;
		uint64_t b = extended(lanes_of(w, &in->s[1]) + i * bytes, in->type, bytes);
		uint64_t c = in->ns == 3 ? extended(lanes_of(w, &in->s[2]) + i * bytes, in->type, bytes) : 0;
		v = combined(in, a, b, c);
		memcpy(p.host[i], &v, bytes);
		memcpy((uint8_t *)old + i * bytes, &a, bytes);
	}
	ptx_commit(w, &in->d[0], old, m);
}

/* ---- asynchronous copies ---- */

static void land(struct ptx_exec *x, struct ptx_copy *c)
{
	if (c->landed)
		return;
	memcpy(x->shared + c->to, (const void *)(uintptr_t)c->from, c->read);
	memset(x->shared + c->to + c->read, 0, (size_t)(c->bytes - c->read));
	c->landed = true;
}

static void add_copy(struct ptx_exec *x, struct ptx_warp *w, struct ptx_copy c)
{
	if (w->ncopies == w->copies_cap) {
		int cap = w->copies_cap ? 2 * w->copies_cap : 256;
		struct ptx_copy *more = realloc(w->copy, (size_t)cap * sizeof *more);
		if (!more || cap > 1 << 20)
			ptx_stop(x, c.lane, "too many asynchronous copies are under way");
		w->copy = more;
		w->copies_cap = cap;
	}
	w->copy[w->ncopies++] = c;
}

void ptx_copy_start(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, uint32_t m)
{
	struct places to, from;
	unsigned bytes = in->vector;
	addresses(w, &in->s[0], (int32_t)in->imm, to.at);
	addresses(w, &in->s[1], in->imm >> 32, from.at);
	find_places(x, w, S_SHARED, bytes, true, m, &to);
	const uint32_t *counts = in->ns == 3 ? (const uint32_t *)lanes_of(w, &in->s[2]) : NULL;
	from.shared_lanes = 0;
	for (int i = 0; i < LANES; i++) {
		unsigned read = counts ? counts[i] : bytes;
		if (!(m >> i & 1))
			continue;
		if (read > bytes)
			ptx_stop(x, i, "a copy of %u bytes into %u", read, bytes);
		if (from.at[i] & (bytes - 1))
			ptx_stop(x, i, "address %#llx is not a multiple of %u",
				 (unsigned long long)from.at[i], bytes);
		if (read && !allowed(x, S_GLOBAL, from.at[i], read, false))
			ptx_stop(x, i, "may not read %u bytes at %#llx of global memory", read,
				 (unsigned long long)from.at[i]);
		ptx_shadow_write(x, 1u << i, to.shared, bytes, C_COPY);
		if (read && x->l->global_races)
			ptx_global_access(x, 1u << i, from.at, read, false, false);
		add_copy(x, w,
			 (struct ptx_copy){.from = from.at[i],
					   .to = to.shared[i],
					   .group = w->groups[i],
					   .bytes = (uint8_t)bytes,
					   .read = (uint8_t)read,
					   .lane = (uint8_t)i});
		if (rng_below(&x->rng, 4) == 0)
			land(x, &w->copy[w->ncopies - 1]);
	}
}

void ptx_copy_wait(struct ptx_exec *x, struct ptx_warp *w, uint32_t m, int64_t left)
{
	int kept = 0;
	for (int i = 0; i < w->ncopies; i++) {
		struct ptx_copy *c = &w->copy[i];
		if ((m >> c->lane & 1) && (left < 0 || c->group + left < w->groups[c->lane])) {
			land(x, c);
			ptx_shadow_landed(x, c->lane, c->to, c->bytes);
		} else {
			w->copy[kept++] = *c;
		}
	}
	w->ncopies = kept;
}

void ptx_copy_some(struct ptx_exec *x, struct ptx_warp *w)
{
	for (int i = 0; i < w->ncopies; i++)
		if (rng_below(&x->rng, 8) == 0)
			land(x, &w->copy[i]);
}

void ptx_copy_abandon(struct ptx_exec *x, struct ptx_warp *w, uint32_t m)
{
	int kept = 0;
	for (int i = 0; i < w->ncopies; i++) {
		land(x, &w->copy[i]);
		if (!(m >> w->copy[i].lane & 1))
			w->copy[kept++] = w->copy[i];
	}
	w->ncopies = kept;
}
