/* SPDX-License-Identifier: Apache-2.0 */
/* A stage on a device whose work items each compute one register tile: thousands of them run at a time, in
 * order, and hide each other's latencies. Roofline of four limits: issue slots of all items, with those that
 * an only partly filled device leaves idle; the latency of one item; bytes from the caches; bytes from
 * memory. The weights of slots are those of the CUDA and Mali guides: an item issues one operation of one
 * lane a cycle, a load of 16 bytes takes as long as some of them. */
#include "kernels/space/draft_parts.h"

#include <math.h>

struct item_rates draft_item_rates(const struct target *tg)
{
	struct item_rates r = {.slots = (tg->fma_gflops > 0 ? tg->fma_gflops : ITEM_USUAL_GFLOPS) / 2,
			       .near = tg->bw_gbs[1] > 0 ? tg->bw_gbs[1] : 2 * ITEM_USUAL_GBS,
			       .far = tg->bw_gbs[3] > 0 ? tg->bw_gbs[3] : ITEM_USUAL_GBS};
	r.fill = r.slots / ITEM_CLOCK;
	r.waits = r.fill / tg->cores >= 16;
	r.units = tg->cores;
	return r;
}

double draft_item_group(const struct item_rates *r, const struct sstage *s)
{
	int n = s->group ? s->group : r->waits ? ITEM_USUAL_GROUP : 1;
	return r->waits && n < ITEM_WARP ? ITEM_WARP : n;
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

/* Vectors that a body loads; one that is gathered lane by lane counts as several. */
static double body_loads(const struct tile_cost *c)
{
	double n[MAX_AXES], sum = 0;
	for (int a = 0; a < c->st->naxes; a++)
		n[a] = a < c->ns ? c->s->tile[a] : c->s->unroll[a];
	for (int i = 0; i < c->st->nreads; i++)
		if (stage_in_body(c->st, i))
			sum += draft_touched(&c->form[i], c->s->lane, c->s->lanes, n) * c->access[i];
	return sum;
}

struct draft_terms draft_items(const struct tile_cost *c)
{
	const struct sstage *s = c->s;
	const struct target *tg = c->tg;
	double vectors = 1, items = 1, lanes = s->lanes > 1 ? s->lanes : 1;
	for (int a = 0; a < c->ns; a++) {
		vectors *= s->tile[a];
		items *= ceil((double)c->extent[a] / (s->tile[a] * (a == s->lane ? lanes : 1)));
	}
	struct item_rates r = draft_item_rates(tg);
	double bodies = c->steps / c->body_steps, loads = bodies * body_loads(c);
	double slots = vectors * lanes * (c->steps * c->body + c->post) + loads * draft_item_load(s->lanes) +
		       vectors * draft_item_store(s->lanes) + bodies * ITEM_BODY + ITEM_AROUND +
		       fmax(0, c->spill) * bodies * ITEM_SPILL;
	/* The unit with the most groups takes longest. */
	double group = draft_item_group(&r, s), each = s->group ? s->group : group,
	       groups = ceil(items / each), filled = fmax(ceil(groups / r.units) * r.units * group, r.fill);
	struct draft_terms x = {.live = c->live};
	x.of[DRAFT_ISSUE] = filled * slots / r.slots;
	x.of[DRAFT_LATENCY] =
	    !r.waits ? 0
		     : (slots * ITEM_LATENCY / fmax(1, vectors) + bodies * ITEM_LOAD_LATENCY) / ITEM_CLOCK;
	x.of[DRAFT_L2] = items * loads * lanes * 4 * ITEM_SHARED / r.near;
	x.of[DRAFT_COLD] = c->passing / r.far;
	x.of[DRAFT_CALL] = ITEM_LAUNCH_NS;
	double ghz = draft_ghz(tg), ns = hypot(hypot(x.of[DRAFT_ISSUE], x.of[DRAFT_LATENCY]),
					       hypot(x.of[DRAFT_L2], x.of[DRAFT_COLD])) +
					 ITEM_LAUNCH_NS;
	for (int i = 0; i < DRAFT_TERMS; i++)
		x.of[i] *= ghz;
	x.cycles = ns * ghz;
	return x;
}
