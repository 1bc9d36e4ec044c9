/* SPDX-License-Identifier: Apache-2.0 */
/* A stage on a device whose work items each compute one register tile: thousands of them run at a time, in
 * order, and hide each other's latencies. Roofline of four limits: issue slots of all items, with those that
 * an only partly filled device leaves idle; the latency of one item; bytes from the caches; bytes from
 * memory. The weights of slots are those of the CUDA and Mali guides: an item issues one operation of one
 * lane a cycle, a load of 16 bytes takes as long as some of them. */
#include "kernels/space/draft_parts.h"

#include <math.h>

#define CLOCK 1.5     /* GHz of a lane */
#define LOAD_SLOTS 6. /* of a vector; its neighbours' loads are often of the same line */
#define STORE_SLOTS 4.
#define BODY_SLOTS 10. /* loop and addresses */
#define ITEM_SLOTS 40.
#define ITEM_LATENCY 4. /* cycles of an operation that waits for the one before */
#define LOAD_LATENCY 60. /* cycles of a body's loads, from the nearest cache */
#define SHARED .5        /* share of an item's loads that no neighbour makes */
#define LAUNCH_NS 2000.
#define USUAL_GFLOPS 100. /* of a device that was not measured */
#define USUAL_GBS 20.

struct draft_terms draft_items(const struct tile_cost *c, int stage)
{
	const struct sstage *s = c->s;
	const struct target *tg = c->tg;
	double vectors = 1, items = 1, lanes = s->lanes > 1 ? s->lanes : 1;
	for (int a = 0; a < c->ns; a++) {
		vectors *= s->tile[a];
		items *= ceil((double)c->extent[a] / (s->tile[a] * (a == s->lane ? lanes : 1)));
	}
	double rate = (tg->fma_gflops > 0 ? tg->fma_gflops : USUAL_GFLOPS) / 2,
	       near = tg->bw_gbs[1] > 0 ? tg->bw_gbs[1] : 2 * USUAL_GBS,
	       far = tg->bw_gbs[3] > 0 ? tg->bw_gbs[3] : USUAL_GBS;
	double bodies = c->steps / c->body_steps, loads = bodies * draft_loads(c->t, stage, s);
	double slots = vectors * lanes * (c->steps * c->body + c->post) +
		       loads * (lanes > 1 ? LOAD_SLOTS : 2) + vectors * STORE_SLOTS + bodies * BODY_SLOTS +
		       ITEM_SLOTS + fmax(0, c->spill) * bodies * 8;
	double filled = fmax(items, rate / CLOCK);
	struct draft_terms x = {.live = c->live};
	x.of[DRAFT_ISSUE] = filled * slots / rate;
	x.of[DRAFT_LATENCY] = rate / CLOCK / tg->cores < 16
				  ? 0
				  : (slots * ITEM_LATENCY / fmax(1, vectors) + bodies * LOAD_LATENCY) / CLOCK;
	x.of[DRAFT_L2] = items * loads * lanes * 4 * SHARED / near;
	x.of[DRAFT_COLD] = c->passing / far;
	x.of[DRAFT_CALL] = LAUNCH_NS;
	double ghz = draft_ghz(tg), ns = hypot(hypot(x.of[DRAFT_ISSUE], x.of[DRAFT_LATENCY]),
					       hypot(x.of[DRAFT_L2], x.of[DRAFT_COLD])) +
					 LAUNCH_NS;
	for (int i = 0; i < DRAFT_TERMS; i++)
		x.of[i] *= ghz;
	x.cycles = ns * ghz;
	return x;
}
