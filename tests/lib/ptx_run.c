/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a launch: blocks, warps, divergence, barriers. */
#include "tests/lib/ptx_exec.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_SLICE = 512 };

void ptx_stop(struct ptx_exec *x, int lane, const char *fmt, ...)
{
	char why[512], where[64] = "", thread[64] = "";
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	if (lane >= 0 && x->w) {
		unsigned t = (unsigned)(x->w->index * LANES + lane), bx = x->l->block[0], by = x->l->block[1];
		snprintf(thread, sizeof thread, ", thread (%u,%u,%u)", t % bx, t / bx % by, t / bx / by);
	}
	const char *text = "the end of the entry";
	if (x->in && x->in->text != UINT32_MAX)
		text = x->m->text + x->in->text;
	if (x->in)
		snprintf(where, sizeof where, "line %u: ", x->in->line);
	x->rc = fail(E_CORRUPT, "%s: %s\"%.*s\": block (%u,%u,%u)%s: %s", x->k->e.name, where,
		     (int)strcspn(text, ";\n"), text, x->block[0], x->block[1], x->block[2], thread, why);
	longjmp(x->stop, 1);
}

/* ---- registers ---- */

#define BLEND(T)                                                                                             \
	for (int i = 0; i < LANES; i++)                                                                      \
	((T *)to)[i] = m >> i & 1 ? ((const T *)from)[i] : ((T *)to)[i]

void ptx_commit(struct ptx_warp *w, const struct ptx_opnd *o, const void *from, uint32_t m)
{
	if (o->reg == SINK)
		return;
	uint8_t *to = w->regs + o->off;
	w->def[o->reg] |= m;
	if (!o->bytes) {
		uint32_t old, new;
		memcpy(&old, to, sizeof old);
		memcpy(&new, from, sizeof new);
		new = (old & ~m) | (new &m);
		memcpy(to, &new, sizeof new);
	} else if (m == ALL_LANES) {
		memcpy(to, from, (size_t)o->bytes * LANES);
	} else if (o->bytes == 4) {
		BLEND(uint32_t);
	} else if (o->bytes == 8) {
		BLEND(uint64_t);
	} else {
		BLEND(uint16_t);
	}
}

static uint32_t predicate(const struct ptx_warp *w, const struct ptx_opnd *o)
{
	uint32_t p;
	memcpy(&p, w->regs + o->off, sizeof p);
	return o->negated ? ~p : p;
}

static void undefined(struct ptx_exec *x, const struct ptx_warp *w, const struct ptx_opnd *o, uint32_t m)
{
	ptx_stop(x, __builtin_ctz(m & ~w->def[o->reg]), "reads a register that was never written");
}

static inline void check_defined(struct ptx_exec *x, const struct ptx_warp *w, const struct ptx_opnd *o,
				 uint32_t m)
{
	if ((w->def[o->reg] & m) != m)
		undefined(x, w, o, m);
}

/* ---- operations of lanes ---- */

static void run_lanes(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, uint32_t m)
{
	const void *s[4];
	uint64_t to[LANES] __attribute__((aligned(64)));
	s[0] = s[1] = s[2] = s[3] = w->regs + in->s[0].off;
	for (int i = 0; i < in->ns; i++) {
		check_defined(x, w, &in->s[i], m);
		s[i] = w->regs + in->s[i].off;
	}
	if (in->divides) {
		static const uint64_t zero;
		const uint8_t *divisor = s[1];
		for (int i = 0; i < LANES; i++)
			if ((m >> i & 1) &&
			    !memcmp(divisor + (size_t)i * in->s[1].bytes, &zero, in->s[1].bytes))
				ptx_stop(x, i, "an integer is divided by zero");
	}
	if (in->slow)
		ptx_slow_lanes(to, s, in);
	else
		in->fn(to, s, in);
	ptx_commit(w, &in->d[0], to, m);
}

/* Values that were never written may be moved, but not used. */
static void run_move(struct ptx_warp *w, const struct ptx_ins *in, uint32_t m)
{
	uint64_t whole[LANES];
	uint32_t defined = m;
	unsigned bytes = in->ns > 1 ? in->s[0].bytes * in->ns : in->s[0].bytes;
	const uint8_t *from = w->regs + in->s[0].off;
	for (int k = 0; k < in->ns; k++) {
		defined &= w->def[in->s[k].reg];
		const uint8_t *part = w->regs + in->s[k].off;
		unsigned each = in->s[k].bytes;
		for (int i = 0; in->ns > 1 && i < LANES; i++)
			memcpy((uint8_t *)whole + i * bytes + k * each, part + i * each, each);
	}
	if (in->ns > 1)
		from = (const uint8_t *)whole;
	for (int k = 0; k < in->nd; k++) {
		uint64_t piece[LANES];
		unsigned each = in->d[k].bytes;
		for (int i = 0; in->nd > 1 && i < LANES; i++)
			memcpy((uint8_t *)piece + i * each, from + i * bytes + k * each, each);
		if (in->nd == 1)
			memcpy(piece, from, (size_t)bytes * LANES);
		ptx_commit(w, &in->d[k], piece, m);
		if (in->d[k].reg != SINK)
			w->def[in->d[k].reg] &= ~m | defined;
	}
}

static uint32_t combine(int op, uint32_t a, uint32_t b)
{
	return op == 'a' ? a & b : op == 'o' ? a | b : op == 'x' ? a ^ b : op == 'n' ? ~a : a;
}

static void run_setp(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, uint32_t m)
{
	uint64_t flushed[2][LANES];
	const void *s[2];
	uint32_t p, q;
	for (int i = 0; i < in->ns; i++)
		check_defined(x, w, &in->s[i], m);
	for (int i = 0; i < 2; i++) {
		s[i] = w->regs + in->s[i].off;
		if (in->ftz) {
			memcpy(flushed[i], s[i], (size_t)in->s[i].bytes * LANES);
			ptx_flush_lanes(flushed[i], in->stype);
			s[i] = flushed[i];
		}
	}
	p = in->cmp(s[0], s[1], &q);
	if (in->bop) {
		uint32_t c = predicate(w, &in->s[2]);
		p = combine(in->bop, p, c);
		q = combine(in->bop, q, c);
	}
	if (!in->sub) {
		ptx_commit(w, &in->d[0], &p, m);
		if (in->nd == 2)
			ptx_commit(w, &in->d[1], &q, m);
		return;
	}
	uint32_t ones = in->type == T_F32 ? 0x3f800000 : UINT32_MAX, words[LANES];
	uint16_t halves[LANES];
	for (int i = 0; i < LANES; i++) {
		words[i] = p >> i & 1 ? ones : 0;
		halves[i] = p >> i & 1 ? (in->type == T_F16    ? 0x3c00
					  : in->type == T_BF16 ? 0x3f80
							       : 0xffff)
				       : 0;
	}
	ptx_commit(w, &in->d[0], in->d[0].bytes == 2 ? (void *)halves : (void *)words, m);
}

static void run_logic(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, uint32_t m)
{
	uint32_t defined = m;
	for (int i = 0; i < in->ns; i++)
		if (in->bop == 'm')
			defined &= w->def[in->s[i].reg];
		else
			check_defined(x, w, &in->s[i], m);
	uint32_t a = predicate(w, &in->s[0]), b = in->ns > 1 ? predicate(w, &in->s[1]) : 0;
	a = combine(in->bop, a, b);
	ptx_commit(w, &in->d[0], &a, m);
	w->def[in->d[0].reg] &= ~m | defined;
}

/* ---- lanes that work together ---- */

static uint32_t members(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_opnd *o, uint32_t m)
{
	const uint32_t *lanes = (const uint32_t *)(w->regs + o->off);
	uint32_t first = lanes[__builtin_ctz(m)];
	check_defined(x, w, o, m);
	for (int i = 0; i < LANES; i++)
		if ((m >> i & 1) && (lanes[i] != first || !(first >> i & 1)))
			ptx_stop(x, i, "the mask of lanes, %#x, differs between lanes or lacks this one",
				 lanes[i]);
	return first;
}

/* Which operand names the lanes that must come. */
static const struct ptx_opnd *members_operand(const struct ptx_ins *in)
{
	return in->kind == K_SHUFFLE ? &in->s[3] : &in->s[0];
}

static void run_shuffle(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, uint32_t m)
{
	for (int i = 0; i < in->ns; i++)
		check_defined(x, w, &in->s[i], m);
	const uint32_t *a = (const uint32_t *)(w->regs + in->s[0].off),
		       *b = (const uint32_t *)(w->regs + in->s[1].off),
		       *c = (const uint32_t *)(w->regs + in->s[2].off);
	uint32_t r[LANES], valid = 0;
	for (uint32_t i = 0; i < LANES; i++) {
		uint32_t by = b[i] & 31, clamp = c[i] & 31, segment = c[i] >> 8 & 31;
		uint32_t most = (i & segment) | (clamp & ~segment), least = i & segment, j;
		bool good;
		if (in->sub == 'u') {
			j = i - by;
			good = (int32_t)j >= (int32_t)most;
		} else {
			j = in->sub == 'd' ? i + by : in->sub == 'b' ? i ^ by : (least | (by & ~segment));
			good = j <= most;
		}
		j = good ? j : i;
		r[i] = 0;
		if (!(m >> i & 1))
			continue;
		if (!(m >> j & 1))
			ptx_stop(x, (int)i, "takes the value of lane %u, which does not take part", j);
		r[i] = a[j];
		valid |= (uint32_t)good << i;
	}
	ptx_commit(w, &in->d[0], r, m);
	if (in->nd == 2)
		ptx_commit(w, &in->d[1], &valid, m);
}

static void run_vote(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, uint32_t m)
{
	check_defined(x, w, &in->s[1], m);
	uint32_t p = predicate(w, &in->s[1]) & m, r[LANES];
	for (int i = 0; i < LANES; i++)
		r[i] = p;
	if (in->sub != 'b')
		r[0] = (in->sub == 'o' ? p != 0 : in->sub == 'a' ? p == m : p == m || !p) ? ALL_LANES : 0;
	ptx_commit(w, &in->d[0], r, m);
}

static void run_matrix(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in)
{
	int results = in->sub == 's'                     ? 0
		      : in->sub == 'l' || in->sub == 'x' ? in->nregs
		      : in->sub == 'p'                   ? in->matrix / 4
							 : ptx_matrix_registers(in->type);
	for (int i = 0; i < in->ns; i++)
		check_defined(x, w, &in->s[i], ALL_LANES);
	for (int i = results; i < in->nregs; i++)
		check_defined(x, w, &in->regs[i], ALL_LANES);
	w->touched = ALL_LANES;
	ptx_matrix(x, w, in);
}

/* ---- barriers ---- */

static void set_known(struct ptx_exec *x, struct ptx_warp *w)
{
	if (w->clock[w->index] >= MOMENTS - 1)
		ptx_stop(x, -1, "more than %d barriers", MOMENTS);
	memcpy(w->known, w->clock, sizeof w->known);
	w->known[w->index]--;
}

static void next_moment(struct ptx_exec *x, struct ptx_warp *w)
{
	w->clock[w->index]++;
	set_known(x, w);
}

static void join(uint32_t *to, const uint32_t *from)
{
	for (int i = 0; i < MOST_WARPS; i++)
		to[i] = to[i] > from[i] ? to[i] : from[i];
}

/* Whether all that the barrier waits for is there. A warp counts as 32 threads as soon as its live lanes
 * came. */
static bool barrier_full(const struct ptx_exec *x, const struct ptx_barrier *b)
{
	uint32_t threads = 0;
	for (int v = 0; v < x->nwarps; v++) {
		uint32_t here = b->lanes[v] | b->arrived[v];
		if (!b->threads && here != x->warp[v].live)
			return false;
		threads += here && here == x->warp[v].live ? LANES : (uint32_t)__builtin_popcount(here);
	}
	return !b->threads || threads >= b->threads;
}

static void barrier_release(struct ptx_exec *x, struct ptx_barrier *b)
{
	if (!b->threads && x->ended_touched) {
		x->w = &x->warp[x->ended_thread / LANES];
		ptx_stop(x, x->ended_thread % LANES, "this thread has ended, while others wait at a barrier");
	}
	for (int v = 0; v < x->nwarps; v++)
		if (b->lanes[v] | b->arrived[v])
			b->clock[v] = b->arrived[v] ? b->clock[v] : x->warp[v].clock[v];
	for (int v = 0; v < x->nwarps; v++)
		if (b->lanes[v])
			join(b->clock, x->warp[v].clock);
	for (int v = 0; v < x->nwarps; v++) {
		struct ptx_warp *w = &x->warp[v];
		if (!b->lanes[v])
			continue;
		w->waiting &= ~b->lanes[v];
		w->parked = 0;
		join(w->clock, b->clock);
		next_moment(x, w);
	}
	memset(b, 0, sizeof *b);
}

static void check_barriers(struct ptx_exec *x)
{
	for (int id = 0; id < 16; id++)
		if (x->barrier[id].used && barrier_full(x, &x->barrier[id]))
			barrier_release(x, &x->barrier[id]);
}

static uint32_t same_value(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_opnd *o, uint32_t m)
{
	const uint32_t *v = (const uint32_t *)(w->regs + o->off);
	check_defined(x, w, o, m);
	for (int i = 0; i < LANES; i++)
		if ((m >> i & 1) && v[i] != v[__builtin_ctz(m)])
			ptx_stop(x, i, "a barrier whose operands differ between lanes");
	return v[__builtin_ctz(m)];
}

static void run_barrier(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, uint32_t m)
{
	uint32_t id = same_value(x, w, &in->s[0], m), n = in->ns > 1 ? same_value(x, w, &in->s[1], m) : 0;
	if (id > 15 || n % LANES || (in->ns > 1 && (!n || n > (uint32_t)x->nwarps * LANES)))
		ptx_stop(x, __builtin_ctz(m), "barrier %u of %u threads", id, n);
	struct ptx_barrier *b = &x->barrier[id];
	uint32_t at = (uint32_t)(in - x->k->code);
	if (b->used && b->threads != n)
		ptx_stop(x, __builtin_ctz(m), "barrier %u of %u threads, which others take for %u", id, n,
			 b->threads);
	if ((b->lanes[w->index] | b->arrived[w->index]) & m)
		ptx_stop(x, __builtin_ctz(m), "arrives at barrier %u again before others have come", id);
	if (in->aligned && b->lanes[w->index] && b->pc[w->index] != at)
		ptx_stop(x, __builtin_ctz(m), "lanes of a warp wait at different barriers");
	b->used = true;
	b->threads = n;
	b->pc[w->index] = at;
	w->touched |= m;
	if (in->sub) {
		b->arrived[w->index] |= m;
		join(b->clock, w->clock);
		next_moment(x, w);
	} else {
		b->lanes[w->index] |= m;
		w->waiting |= m;
	}
}

/* ---- a warp ---- */

static void end_lanes(struct ptx_exec *x, struct ptx_warp *w, uint32_t m)
{
	uint32_t touched = m & w->touched;
	if (touched) {
		x->ended_touched += __builtin_popcount(touched);
		x->ended_thread = w->index * LANES + __builtin_ctz(touched);
	}
	if (w->ncopies)
		ptx_copy_abandon(x, w, m);
	w->live &= ~m;
	w->parked = 0;
}

static uint32_t lanes_at(const struct ptx_warp *w, uint32_t lanes, uint32_t pc)
{
	uint32_t m = 0;
	for (int i = 0; i < LANES; i++)
		m |= (uint32_t)(w->pc[i] == pc) << i;
	return m & lanes;
}

static uint32_t least_pc(const struct ptx_warp *w, uint32_t lanes)
{
	uint32_t pc = UINT32_MAX;
	for (; lanes; lanes &= lanes - 1) {
		uint32_t p = w->pc[__builtin_ctz(lanes)];
		pc = p < pc ? p : pc;
	}
	return pc;
}

static void set_pc(struct ptx_warp *w, uint32_t lanes, uint32_t pc)
{
	for (int i = 0; i < LANES; i++)
		w->pc[i] = lanes >> i & 1 ? pc : w->pc[i];
}

/* Executes what changes no control flow. */
static void execute(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, uint32_t m)
{
	switch (in->kind) {
	case K_LANES:
	case K_CONVERT:
		run_lanes(x, w, in, m);
		break;
	case K_MOVE:
		run_move(w, in, m);
		break;
	case K_SETP:
		run_setp(x, w, in, m);
		break;
	case K_LOGIC:
		run_logic(x, w, in, m);
		break;
	case K_LOAD:
	case K_STORE:
		for (int i = 0; i < in->ns; i++)
			check_defined(x, w, &in->s[i], m);
		w->touched |= in->space == S_PARAM ? 0 : m;
		ptx_load_store(x, w, in, m);
		break;
	case K_ATOMIC:
	case K_COPY:
		for (int i = 0; i < in->ns; i++)
			check_defined(x, w, &in->s[i], m);
		w->touched |= m;
		(in->kind == K_COPY ? ptx_copy_start : ptx_atomic)(x, w, in, m);
		break;
	case K_COPY_COMMIT:
		for (int i = 0; i < LANES; i++)
			w->groups[i] += m >> i & 1;
		break;
	case K_COPY_WAIT:
		ptx_copy_wait(x, w, m, in->imm);
		break;
	case K_ACTIVE: {
		uint32_t r[LANES];
		for (int i = 0; i < LANES; i++)
			r[i] = m;
		ptx_commit(w, &in->d[0], r, m);
		break;
	}
	default:
		break;
	}
}

/* An instruction of several lanes. False: lanes that it names are missing, and these wait for them. */
static bool execute_together(struct ptx_exec *x, struct ptx_warp *w, const struct ptx_ins *in, uint32_t m)
{
	bool matrix = in->kind == K_MATRIX;
	uint32_t want = matrix ? ALL_LANES : members(x, w, members_operand(in), m) & w->live;
	if (matrix && w->live != ALL_LANES)
		ptx_stop(x, __builtin_ctz(m), "a matrix needs all lanes of the warp");
	if (want & ~m)
		return false;
	if (matrix) {
		run_matrix(x, w, in);
		return true;
	}
	if (in->kind == K_SHUFFLE)
		run_shuffle(x, w, in, m);
	else if (in->kind == K_VOTE)
		run_vote(x, w, in, m);
	else if (want == w->live)
		next_moment(x, w);
	return true;
}

/* Runs the lanes with the least program counter, for at most n instructions; returns how many it ran. */
static uint32_t run_group(struct ptx_exec *x, struct ptx_warp *w, uint32_t n)
{
	const struct ptx_ins *code = x->k->code;
	uint32_t ready = w->live & ~w->waiting, pc = least_pc(w, ready & ~w->parked),
		 group = lanes_at(w, ready, pc);
	uint32_t stop = least_pc(w, ready & ~group & ~w->parked), done = 0;
	w->parked &= ~group;
	while (done < n && group && pc < stop) {
		const struct ptx_ins *in = x->in = &code[pc];
		uint32_t m = group;
		done++;
		if (in->pred.reg != SINK) {
			check_defined(x, w, &in->pred, group);
			m &= predicate(w, &in->pred);
		}
		if (in->kind < K_BRANCH || in->kind > K_VOTE) {
			if (m)
				execute(x, w, in, m);
			pc++;
		} else if (in->kind == K_BRANCH) {
			if (m == group) {
				pc = (uint32_t)in->imm;
			} else if (!m) {
				pc++;
			} else {
				if (in->uniform)
					ptx_stop(x, __builtin_ctz(m),
						 "a .uni branch that lanes of a warp do not take alike");
				set_pc(w, m, (uint32_t)in->imm);
				set_pc(w, group & ~m, pc + 1);
				x->lanes_ran += done * (uint64_t)__builtin_popcount(group);
				return done;
			}
		} else if (in->kind == K_EXIT) {
			end_lanes(x, w, m);
			x->lanes_ran += done * (uint64_t)__builtin_popcount(m);
			group &= ~m;
			pc++;
		} else if (in->kind == K_BARRIER) {
			if (m && in->aligned && m != group)
				ptx_stop(x, __builtin_ctz(m), "a barrier for part of a warp");
			if (m)
				run_barrier(x, w, in, m);
			set_pc(w, group, pc + 1);
			x->lanes_ran += done * (uint64_t)__builtin_popcount(group);
			return done;
		} else if (lanes_at(w, w->parked, pc)) {
			w->parked &= ~lanes_at(w, w->parked, pc); /* they and this group go on together */
			break;
		} else if (m && !execute_together(x, w, in, m)) {
			w->parked |= group;
			break;
		} else {
			pc++;
		}
	}
	x->lanes_ran += done * (uint64_t)__builtin_popcount(group);
	set_pc(w, group, pc);
	return done;
}

static bool runnable(const struct ptx_warp *w)
{
	return w->live & ~w->waiting & ~w->parked;
}

static void run_slice(struct ptx_exec *x, struct ptx_warp *w)
{
	uint32_t n = 1 + rng_below(&x->rng, 1u << rng_below(&x->rng, 10)), live = w->live;
	if (w->ncopies)
		ptx_copy_some(x, w);
	x->w = w;
	while (n && runnable(w)) {
		uint32_t done = run_group(x, w, n);
		n -= done;
		if (x->budget < done)
			ptx_stop(x, -1, "the budget of instructions is used up");
		x->budget -= done;
	}
	if (w->live != live || w->waiting)
		check_barriers(x);
}

/* ---- a block ---- */

static uint32_t special_value(const struct ptx_exec *x, int what, uint32_t thread)
{
	const unsigned *b = x->l->block, lane = thread % LANES;
	if (what < 3)
		return what == 0 ? thread % b[0] : what == 1 ? thread / b[0] % b[1] : thread / b[0] / b[1];
	if (what < 12)
		return what < 6 ? b[what - 3] : what < 9 ? x->block[what - 6] : x->l->grid[what - 9];
	const uint32_t rest[] = {lane,
				 thread / LANES,
				 (uint32_t)x->nwarps,
				 0,
				 1,
				 1u << lane,
				 ALL_LANES >> (31 - lane),
				 (1u << lane) - 1,
				 ALL_LANES << lane,
				 ~(ALL_LANES >> (31 - lane)),
				 (uint32_t)x->l->shared_bytes,
				 LANES};
	return rest[what - 12];
}

static void start_warp(struct ptx_exec *x, struct ptx_warp *w)
{
	const struct ptx_kernel *k = x->k;
	int threads = x->nthreads - w->index * LANES;
	w->live = threads >= LANES ? ALL_LANES : (1u << threads) - 1;
	w->waiting = w->parked = w->touched = 0;
	memset(w->pc, 0, sizeof w->pc);
	memset(w->groups, 0, sizeof w->groups);
	memset(w->clock, 0, sizeof w->clock);
	w->ncopies = 0;
	w->clock[w->index] = 1;
	set_known(x, w);
	memset(w->def, 0, k->nregs * sizeof *w->def);
	w->def[0] = ALL_LANES;
	for (uint32_t i = 0; i < k->nspecials; i++)
		for (uint32_t lane = 0; lane < LANES; lane++)
			((uint32_t *)(w->regs + k->specials[i].off))[lane] =
			    special_value(x, k->specials[i].what, (uint32_t)w->index * LANES + lane);
}

static void run_block(struct ptx_exec *x)
{
	memset(x->barrier, 0, sizeof x->barrier);
	memset(x->cell, 0, ((x->shared_bytes >> x->k->granule_shift) + 1) * sizeof *x->cell);
	memset(x->shared, 0xff, x->shared_bytes);
	memset(x->local, 0xff, x->k->e.local_bytes * (size_t)x->nthreads);
	x->ended_touched = 0;
	for (int i = 0; i < x->nwarps; i++)
		start_warp(x, &x->warp[i]);
	for (;;) {
		struct ptx_warp *ready[MOST_WARPS], *stuck = NULL;
		uint32_t n = 0;
		for (int i = 0; i < x->nwarps; i++)
			if (runnable(&x->warp[i]))
				ready[n++] = &x->warp[i];
			else if (x->warp[i].live)
				stuck = &x->warp[i];
		if (n) {
			run_slice(x, ready[rng_below(&x->rng, n)]);
		} else if (stuck) {
			int lane = __builtin_ctz(stuck->live);
			x->w = stuck;
			x->in = &x->k->code[stuck->pc[lane] - (stuck->waiting >> lane & 1)];
			ptx_stop(x, lane, "waits for threads that never come here");
		} else {
			return;
		}
	}
}

/* ---- a launch ---- */

static int check_launch(const struct ptx_kernel *k, const struct ptx_launch *l)
{
	const unsigned *b = l->block, *req = k->e.reqntid;
	uint64_t threads = (uint64_t)b[0] * b[1] * b[2];
	if (!threads || b[0] > 1024 || b[1] > 1024 || b[2] > 64 || threads > MOST_WARPS * LANES)
		return fail(E_USAGE, "%s: blocks of %u x %u x %u threads", k->e.name, b[0], b[1], b[2]);
	if (!l->grid[0] || !l->grid[1] || !l->grid[2] || l->grid[0] > INT32_MAX || l->grid[1] > 65535 ||
	    l->grid[2] > 65535)
		return fail(E_USAGE, "%s: a grid of %u x %u x %u blocks", k->e.name, l->grid[0], l->grid[1],
			    l->grid[2]);
	if (l->nparams != k->e.nparams)
		return fail(E_USAGE, "%s has %d parameters, not %d", k->e.name, k->e.nparams, l->nparams);
	if (req[0] && memcmp(req, b, 3 * sizeof *b))
		return fail(E_USAGE, "%s: blocks of %u x %u x %u threads, while it says .reqntid %u, %u, %u",
			    k->e.name, b[0], b[1], b[2], req[0], req[1], req[2]);
	if (k->e.maxntid[0] && threads > (uint64_t)k->e.maxntid[0] * k->e.maxntid[1] * k->e.maxntid[2])
		return fail(E_USAGE, "%s: blocks of %llu threads, more than .maxntid", k->e.name,
			    (unsigned long long)threads);
	if (l->shared_bytes > DYNAMIC_SHARED)
		return fail(E_USAGE, "%s: %zu bytes of shared memory", k->e.name, l->shared_bytes);
	return 0;
}

static void fill_constants(const struct ptx_kernel *k, uint8_t *regs)
{
	for (uint32_t i = 0; i < k->nconsts; i++) {
		const struct ptx_const *c = &k->consts[i];
		for (size_t lane = 0; lane < (c->bytes ? LANES : 1); lane++)
			memcpy(regs + c->off + lane * c->bytes, &c->value, c->bytes ? c->bytes : 4);
	}
}

/* Memory for all warps; false: there is none. */
static bool prepare(struct ptx_exec *x, struct arena *a)
{
	const struct ptx_kernel *k = x->k;
	x->shared_bytes = (k->e.shared_bytes + 15) / 16 * 16 + x->l->shared_bytes;
	x->shared = arena_try(a, x->shared_bytes + 16, 1);
	x->cell = arena_try(a, (x->shared_bytes >> k->granule_shift) + 2, sizeof *x->cell);
	x->local = arena_try(a, (size_t)x->nthreads * k->e.local_bytes + 1, 1);
	x->params = arena_try(a, k->params_bytes + 1, 1);
	if (!x->shared || !x->cell || !x->local || !x->params)
		return false;
	for (int i = 0; i < k->e.nparams; i++)
		memcpy(x->params + k->param_at[i], x->l->param[i], k->param_bytes[i]);
	for (int i = 0; i < x->nwarps; i++) {
		struct ptx_warp *w = &x->warp[i];
		w->index = i;
		w->def = arena_try(a, k->nregs, sizeof *w->def);
		w->regs = arena_try(a, k->regs_bytes, 1);
		if (!w->def || !w->regs)
			return false;
		fill_constants(k, w->regs);
	}
	return true;
}

/* Visits all blocks once: i * step + first modulo their number, where step has no divisor in common with it.
 */
static void run_blocks(struct ptx_exec *x)
{
	const unsigned *g = x->l->grid;
	uint64_t blocks = (uint64_t)g[0] * g[1] * g[2], step, at = rng_u64(&x->rng) % blocks;
	for (;;) {
		step = 1 + rng_u64(&x->rng) % blocks;
		uint64_t a = blocks, b = step;
		while (b) {
			uint64_t r = a % b;
			a = b;
			b = r;
		}
		if (a == 1)
			break;
	}
	for (uint64_t i = 0; i < blocks; i++, at = (at + step) % blocks) {
		x->block_number = at;
		x->block[0] = (unsigned)(at % g[0]);
		x->block[1] = (unsigned)(at / g[0] % g[1]);
		x->block[2] = (unsigned)(at / g[0] / g[1]);
		run_block(x);
	}
}

int ptx_run(const struct ptx *m, const struct ptx_launch *l)
{
	const struct ptx_entry *e = ptx_find(m, l->entry);
	if (!e)
		return fail(E_USAGE, "no entry %s", l->entry);
	const struct ptx_kernel *k = (const struct ptx_kernel *)e; /* e is its first member */
	int rc = check_launch(k, l);
	if (rc < 0)
		return rc;
	struct ptx_exec *x = calloc(1, sizeof *x);
	if (!x)
		return fail(E_NOMEM, "no memory for a launch");
	struct arena a = {0};
	x->m = m;
	x->k = k;
	x->l = l;
	x->budget = l->budget ? l->budget : (uint64_t)1 << 36;
	x->nthreads = (int)(l->block[0] * l->block[1] * l->block[2]);
	x->nwarps = (x->nthreads + LANES - 1) / LANES;
	rng_seed(&x->rng, l->seed);
	if (!prepare(x, &a))
		x->rc = E_NOMEM;
	else if (!setjmp(x->stop))
		run_blocks(x);
	rc = x->rc;
	if (l->ran)
		*l->ran += x->lanes_ran;
	for (int i = 0; i < x->nwarps; i++)
		free(x->warp[i].copy);
	free(x->global);
	free(x);
	arena_free(&a);
	return rc;
}
