/* SPDX-License-Identifier: Apache-2.0 */
/* Items that issue together move whole cache lines. Where their vectors lie side by side, or are the same,
 * the lines hold little else; where they lie apart, each item moves a line of its own, for the few bytes that
 * it uses. */
#include "kernels/space/draft_parts.h"
#include "kernels/space/share.h"

#include <math.h>

enum { LINE_BYTES = 64 };

/* The loops whose steps neighbouring items take, fastest first: of threads, if there are any. */
struct neighbours {
	int n;
	struct {
		int axis;
		int64_t points, steps; /* of an item, and of the loop */
	} loop[2 * MAX_AXES];
};

static void add_loop(struct neighbours *k, int axis, int64_t points, int64_t steps)
{
	if (steps <= 1)
		return;
	k->loop[k->n].axis = axis;
	k->loop[k->n].points = points;
	k->loop[k->n++].steps = steps;
}

static struct neighbours neighbours_of(const struct tile_cost *c)
{
	struct neighbours k = {0}, rest = {0};
	bool threads = SCHED_THREADED && stage_threads(c->st, c->s) > 1;
	for (int i = c->st->naxes - 1; i >= 0; i--) {
		int a = c->s->order[i],
		    each = a < c->ns ? c->s->tile[a] * stage_down(c->s, a) : c->s->unroll[a];
		int64_t points = (int64_t)each * (a == c->s->lane ? c->s->lanes : 1),
			steps = threads     ? c->s->threads[a]
				: a < c->ns ? ceil_div(c->extent[a], points)
					    : 1;
		int64_t warp = threads && a < c->ns ? c->s->warp[a] : 1;
		add_loop(&k, a, points, warp);
		add_loop(&rest, a, points * warp, steps / warp);
	}
	for (int i = 0; i < rest.n; i++)
		k.loop[k.n++] = rest.loop[i];
	return k;
}

/* Bytes from an element to the one that is `points` points further on. */
static double apart(const struct tile_cost *c, int read, int axis, int64_t points)
{
	const struct read *r = read < c->st->nreads ? &c->st->read[read] : &c->st->out;
	return c->axes[read] >> axis & 1 ? draft_apart(c->t, r, axis, points) * c->bytes[read] / 4 : 0;
}

/* Bytes that lie side by side in an item's tile or body; *each: of one access to them. */
static double run_of(const struct tile_cost *c, int read, double *each)
{
	*each = c->bytes[read];
	for (int a = 0; a < c->st->naxes; a++) {
		double lanes = a == c->s->lane ? c->s->lanes : 1;
		if (apart(c, read, a, 1) != c->bytes[read])
			continue;
		*each = c->bytes[read] * lanes;
		return *each * (a < c->ns ? c->s->tile[a] : c->s->unroll[a]);
	}
	return *each;
}

/* Bytes of lines that an item moves for an access, beyond those that it uses. The panels of packed constants
 * are read line by line. */
static double beyond(const struct tile_cost *c, const struct neighbours *k, int read)
{
	double each, own = run_of(c, read, &each), run = own, lines = 1, items = 1;
	if (read < c->st->nreads && operand_packs(c->t, c->st->read[read].operand))
		return 0;
	for (int i = 0; i < k->n && items < ITEM_WARP; i++) {
		double n = fmin((double)k->loop[i].steps, ITEM_WARP / items),
		       by = apart(c, read, k->loop[i].axis, k->loop[i].points);
		items *= n;
		if (by >= LINE_BYTES)
			lines *= n;
		else
			run += by * (n - 1);
	}
	return fmax(0, lines * ceil(run / LINE_BYTES) * LINE_BYTES / items - own) * each / own;
}

void draft_lines(struct tile_cost *c)
{
	const struct neighbours k = neighbours_of(c);
	for (int i = 0; i <= c->st->nreads; i++)
		c->beyond[i] = i == c->st->nreads || stage_in_body(c->st, i) ? beyond(c, &k, i) : 0;
}

double draft_beyond(const struct tile_cost *c, const struct shared_read *box)
{
	double n[MAX_AXES], sum = 0, all = 0;
	for (int a = 0; a < c->st->naxes; a++)
		n[a] = a < c->ns ? c->s->tile[a] : c->s->unroll[a];
	for (int i = 0; i < c->st->nreads; i++) {
		if (!stage_in_body(c->st, i) || (box && box[i].on))
			continue;
		double loads = draft_touched(&c->form[i], c->s->lane, c->s->lanes, n) * c->access[i];
		all += loads;
		sum += loads * c->beyond[i];
	}
	return all > 0 ? sum / all : 0;
}
