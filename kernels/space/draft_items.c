/* SPDX-License-Identifier: Apache-2.0 */
/* A stage on a device whose work items each compute one register tile: thousands of them run at a time, in
 * order, and hide each other's latencies. Roofline of four limits: issue slots of all items, with those that
 * an only partly filled device leaves idle; the latency of one item, as many times as items run one after the
 * other where the device says how many run side by side; bytes from the caches; bytes from memory. The
 * weights of slots are those of the CUDA and Mali guides: an item issues one operation of one lane a cycle, a
 * load of 16 bytes takes as long as some of them. */
#include "kernels/space/draft_parts.h"
#include "kernels/space/resident.h"
#include "kernels/space/share.h"

#include <math.h>

struct item_rates draft_item_rates(const struct target *tg)
{
	struct item_rates r = {.slots = (tg->fma_gflops > 0 ? tg->fma_gflops : ITEM_USUAL_GFLOPS) / 2,
			       .near = tg->bw_gbs[1] > 0 ? tg->bw_gbs[1] : 2 * ITEM_USUAL_GBS,
			       .far = tg->bw_gbs[3] > 0 ? tg->bw_gbs[3] : ITEM_USUAL_GBS};
	r.fill = r.slots / ITEM_CLOCK;
	r.launch = tg->launch_ns[1] > 0   ? tg->launch_ns[1]
		   : tg->launch_ns[0] > 0 ? tg->launch_ns[0]
					  : ITEM_LAUNCH_NS;
	r.units = tg->cores;
	return r;
}

double draft_item_group(const struct sstage *s)
{
	int n = s->group ? s->group : ITEM_USUAL_GROUP;
	return n < ITEM_WARP ? ITEM_WARP : n;
}

enum { ITEM_VECTOR = 4 /* lanes that one instruction loads or stores */ };

double draft_item_load(int lanes)
{
	double wide = lanes > ITEM_VECTOR ? (double)lanes / ITEM_VECTOR : 1,
	       part = lanes < ITEM_VECTOR ? (lanes - 1.) / (ITEM_VECTOR - 1) : 1;
	return (ITEM_LOAD_SCALAR + (ITEM_LOAD - ITEM_LOAD_SCALAR) * part) * wide;
}

double draft_item_store(int lanes)
{
	return ITEM_STORE * (lanes > ITEM_VECTOR ? (double)lanes / ITEM_VECTOR : 1);
}

/* Vectors that a body loads from memory, or from shared buffers; one that is gathered lane by lane counts as
 * several. */
static double body_loads(const struct tile_cost *c, const struct shared_read *box, bool shared)
{
	double n[MAX_AXES], sum = 0;
	for (int a = 0; a < c->st->naxes; a++)
		n[a] = a < c->ns ? c->s->tile[a] * stage_down(c->s, a) : c->s->unroll[a];
	for (int i = 0; i < c->st->nreads; i++)
		if (stage_in_body(c->st, i) && box[i].on == shared)
			sum += draft_touched(&c->form[i], c->s->lane, c->s->lanes, n) * c->access[i];
	return sum;
}

static double groups_of(const struct sstage *s, double items)
{
	return ceil(items / (s->group ? s->group : draft_item_group(s)));
}

/* The unit with the most groups takes longest. */
static double filled(const struct item_rates *r, const struct sstage *s, double items)
{
	double group = draft_item_group(s), groups = groups_of(s, items);
	return fmax(ceil(groups / r->units) * r->units * group, r->fill);
}

double draft_resident(const struct target *tg, const struct sstage *s, double live, double bytes)
{
	int group = s->group ? s->group : ITEM_USUAL_GROUP, blocks = s->blocks > 1 ? s->blocks : 1;
	double warps = ceil((double)group / UNIT_WARP) * blocks,
	       most = floor(UNIT_REGISTERS / UNIT_WARP / warps),
	       registers = fmin(fmin(live * s->lanes + ITEM_REGISTERS, most), THREAD_REGISTERS);
	return (double)resident_blocks(tg, group, (int)registers, (int64_t)bytes) * group * tg->cores;
}

double draft_add_launch(const struct item_rates *r, const struct sstage *s, const struct draft_launch *l,
			struct draft_terms *x)
{
	double issue = filled(r, s, l->items) * l->slots / r->slots,
	       wait = (l->chain * ITEM_LATENCY + l->bodies * ITEM_LOAD_LATENCY) / ITEM_CLOCK;
	wait *= l->resident > 0 ? fmax(1, l->items / l->resident) : 1;
	x->of[DRAFT_ISSUE] += issue;
	x->of[DRAFT_LATENCY] += wait;
	x->of[DRAFT_L2] += l->near / r->near;
	x->of[DRAFT_COLD] += l->far / r->far;
	x->of[DRAFT_CALL] += r->launch;
	return hypot(hypot(issue, wait), hypot(l->near / r->near, l->far / r->far)) + r->launch;
}

double draft_crowding(const struct item_rates *r, double threads, double bytes, double items)
{
	double fit = fmax(1, floor(ITEM_LOCAL_BYTES / bytes)) * threads,
	       needed = fmin(ITEM_HIDE, fmax(threads, items / r->units));
	return fmax(1, needed / fit);
}

/* Adds the costs of shared tiles to a launch: the threads fill the tiles `rounds` times. With one buffer they
 * meet before and after; with several they meet once, and then some still copy while others compute. */
static void add_sharing(const struct tile_cost *c, const struct item_rates *r, const struct sstage *s,
			const struct shared_read *box, double rounds, struct draft_launch *l)
{
	double threads = stage_threads(c->st, c->s), elems = 0, copies = 0, bytes = 0;
	bool ring = c->s->boxes > 1;
	for (int i = 0; i < c->st->nreads; i++)
		if (box[i].on) {
			elems += (double)box[i].elems;
			bytes += 4. * (double)box[i].pitch * c->s->boxes;
			copies += ceil((double)box[i].elems / box[i].wide / threads) *
				  (draft_item_load(box[i].wide) + draft_item_store(box[i].wide) + ITEM_COPY);
		}
	l->slots += rounds * (copies + (ring ? 1 : 2) * ITEM_BARRIER);
	l->bodies = (ring ? ITEM_AHEAD : 1) * rounds + ITEM_NEAR * l->bodies;
	l->resident = draft_resident(c->tg, s, c->live, bytes);
	l->bodies *= l->resident > 0 ? 1 : draft_crowding(r, threads, bytes, l->items);
	l->near += l->items / threads * rounds * elems * 4;
}

/* Adds the costs of shared sums to an item: the threads exchange these directly, or through a shared
 * buffer. */
static void add_team(const struct tile_cost *c, double team, double vectors, struct draft_launch *l)
{
	double lanes = c->s->lanes, each = vectors * lanes, slots;
	int meets = 0;
	for (int n = share_places(c->tg, (int)team); n > 1; n = share_left(n))
		meets++;
	if (target_exchanges(c->tg)) {
		slots = each * log2(ITEM_WARP) * ITEM_EXCHANGE;
		slots += meets * (ITEM_BARRIER + each);
	} else {
		slots = meets * (ITEM_BARRIER + ITEM_NEAR * vectors * (draft_item_load(c->s->lanes) + lanes));
	}
	l->slots += slots;
	l->chain += meets * ITEM_BARRIER + log2(team) * ITEM_LATENCY + c->post;
}

/* Vectors that an item keeps from one of its tiles to the next. */
static double kept(const struct tile_cost *c)
{
	int64_t shared = 0;
	double n[MAX_AXES], more, some;
	int read = c->s->down_axis < 0 ? -1 : stage_down_read(c->t, c->st, c->s, &shared);
	if (read < 0)
		return 0;
	for (int a = 0; a < c->st->naxes; a++)
		n[a] = a < c->ns ? c->s->tile[a] : c->s->unroll[a];
	some = draft_touched(&c->form[read], c->s->lane, c->s->lanes, n);
	n[c->s->down_axis] *= 2;
	more = draft_touched(&c->form[read], c->s->lane, c->s->lanes, n);
	return 2 * some - more;
}

struct draft_terms draft_items(const struct tile_cost *c)
{
	struct shared_read box[MAX_READS] = {{0}};
	struct sstage as = *c->s;
	int threads = stage_threads(c->st, c->s);
	double rounds = 0, team = SCHED_THREADED ? stage_team(c->st, c->s) : 1;
	if (SCHED_THREADED && threads > 1)
		as.group = threads;
	if (SCHED_THREADED && as.share_axis >= 0 && stage_share(c->t, c->tg, c->st, c->s, box) >= 0) {
		rounds = (double)extent_guess(c->st->axis[as.share_axis].extent) / as.share;
		rounds /= as.spread ? c->parts : 1;
	}

	const struct sstage *s = &as;
	double down = SCHED_THREADED ? s->down : 1, held = SCHED_THREADED ? kept(c) : 0;
	double vectors = 1, items = 1, all = 1, lanes = s->lanes, parts = s->spread ? c->parts : team;
	for (int a = 0; a < c->ns; a++) {
		double units = ceil((double)c->extent[a] / (a == s->lane ? lanes : 1));
		vectors *= s->tile[a];
		items *= ceil(units / (s->tile[a] * stage_down(s, a)));
		all *= units;
	}
	struct item_rates r = draft_item_rates(c->tg);
	double steps = c->steps / parts;
	if (team > 1) /* whole bodies of the thread with the most */
		steps = ceil(steps / c->body_steps) * c->body_steps;
	double bodies = steps / c->body_steps, loads = bodies * body_loads(c, box, false),
	       near = bodies * body_loads(c, box, true);
	double made = vectors * down;
	double slots = made * lanes * (steps * c->body + (s->spread ? 0 : c->post / team)) +
		       (loads + ITEM_NEAR * near) * draft_item_load(s->lanes) +
		       made * draft_item_store(s->lanes) / team + bodies * down * ITEM_BODY + ITEM_AROUND +
		       fmax(0, c->spill + held) * bodies * down * ITEM_SPILL;
	struct draft_terms x = {.live = c->live + (int)held};
	struct draft_launch first = {.items = items * parts,
				     .slots = slots,
				     .chain = slots / fmax(1, vectors),
				     .bodies = bodies * (1 + (down - 1) * ITEM_AHEAD),
				     .near = items * parts * loads * lanes * 4 * ITEM_SHARED,
				     .far = c->passing,
				     .resident = draft_resident(c->tg, s, x.live, 0)};
	first.near += first.items * (loads * draft_beyond(c, box) + made / team * c->beyond[c->st->nreads]);
	if (SCHED_THREADED && rounds > 0)
		add_sharing(c, &r, s, box, rounds, &first);
	if (team > 1)
		add_team(c, team, vectors, &first);
	if (s->spread)
		first.near += all * parts * lanes * 4;
	double ghz = draft_ghz(c->tg), ns = draft_add_launch(&r, s, &first, &x);
	if (s->spread) {
		struct draft_launch second = draft_sum_parts(c->parts, c->s->lanes, c->post, all);
		ns += draft_add_launch(&r, s, &second, &x);
	}
	for (int i = 0; i < DRAFT_TERMS; i++)
		x.of[i] *= ghz;
	x.cycles = ns * ghz;
	return x;
}
