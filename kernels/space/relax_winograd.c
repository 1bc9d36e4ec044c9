/* SPDX-License-Identifier: Apache-2.0 */
/* The draft of a Winograd schedule (draft_winograd.c), smooth in its numbers: all blocks, register tiles and
 * chunks have the mean size. */
#include "kernels/space/draft_parts.h"
#include "kernels/space/relax_parts.h"
#include "kernels/space/winograd.h"

#include <math.h>

enum { MOST_VECTORS = 4, MOST_PIXELS = 28 };

void relax_winograd_vars(struct relax *r)
{
	const struct winograd *w = &r->sketch.st[0].wino;
	struct winograd_sizes z = winograd_sizes(r->space->t, &r->sketch.st[0]);
	int threads = r->space->want.threads;
	int64_t vectors = z.vectors < MOST_VECTORS ? z.vectors : MOST_VECTORS;
	relax_add(r, RELAX_WINO_TILES, 0, 0, 1, z.tiles < 1 << 20 ? z.tiles : 1 << 20);
	relax_add(r, RELAX_WINO_PX, 0, 0, 1,
		  w->raw ? winograd_most(r->space, &r->sketch.st[0]) : MOST_PIXELS);
	if (!w->raw)
		relax_add(r, RELAX_WINO_KV, 0, 0, 1, vectors > w->kv ? vectors : w->kv);
	relax_add(r, RELAX_WINO_CHUNK, 0, 0, 1, z.vectors > w->chunk ? z.vectors : w->chunk);
	if (threads > 1)
		relax_add(r, RELAX_WINO_PARTS, 0, 0, 1, threads > w->parts ? threads : w->parts);
}

int *relax_winograd_number(struct winograd *w, enum relax_kind kind)
{
	return kind == RELAX_WINO_TILES   ? &w->tiles
	       : kind == RELAX_WINO_PX    ? &w->px
	       : kind == RELAX_WINO_KV    ? &w->kv
	       : kind == RELAX_WINO_CHUNK ? &w->chunk
					  : &w->parts;
}

struct wino_cost {
	struct tape *p;
	const struct winograd *w;
	const struct sstage *s;
	struct winograd_sizes z; /* sizes that do not depend on varying numbers */
	struct winograd_speeds v;
	struct num blocks, tiles;   /* blocks of an image; tiles of a block */
	struct num rows, px;        /* register tiles of a block; tiles of each */
	struct num vectors, panels; /* in a part of the channels */
	struct num chunks, chunk;
	struct num indexes, parts; /* of the busiest thread */
};

/* Splits n into parts of at most `size`: returns their number, *mean is their mean size. */
static struct num parted(struct tape *p, struct num n, struct num size, struct num *mean)
{
	struct num count = num_max(p, num(1), num_ceil(p, num_div(p, n, size)));
	*mean = num_div(p, n, count);
	return count;
}

static struct num times(struct tape *p, struct num a, struct num b, double c)
{
	return num_scale(p, num_mul(p, a, b), c);
}

/* The part of `bytes` that exceeds the room. */
static struct num over(struct tape *p, struct num bytes, double room)
{
	return num_max(p, num_sub(p, bytes, num(room)), num(0));
}

static void open_winograd(struct wino_cost *f, const struct relaxed *x)
{
	const struct space *s = x->r->space;
	const struct relaxed_winograd *n = &x->wino;
	int threads = s->want.threads < 1 ? 1 : s->want.threads;
	struct num mean;
	f->p = x->p;
	f->s = &x->r->sketch.st[0];
	f->w = &f->s->wino;
	f->z = winograd_sizes(s->t, f->s);
	f->v = winograd_speeds(&s->tg, threads);
	f->blocks = parted(f->p, num((double)f->z.tiles), n->tiles, &f->tiles);
	f->rows = parted(f->p, f->tiles, n->px, &f->px);
	struct num chunks = parted(f->p, num((double)f->z.vectors), n->chunk, &mean);
	struct num of_part = num_ceil(f->p, num_div(f->p, chunks, n->parts));
	f->vectors = num_min(f->p, num_mul(f->p, of_part, n->chunk), num((double)f->z.vectors));
	f->chunks = parted(f->p, f->vectors, n->chunk, &f->chunk);
	f->panels = parted(f->p, f->vectors, n->kv, &mean);
	struct num all = num_scale(f->p, f->blocks, (double)f->z.batch);
	f->indexes = num_max(f->p, num(1), num_ceil(f->p, times(f->p, all, n->parts, 1. / threads)));
	f->parts = num_max(f->p, num(1), num_ceil(f->p, num_div(f->p, f->indexes, all)));
}

/* Cycles of one register tile over all channels. */
static struct num tile_product(const struct wino_cost *f, struct num kv)
{
	struct tape *p = f->p;
	double others = f->v.others;
	struct num points = num_mul(p, f->px, kv), converts = num_scale(p, kv, f->s->w16),
		   loads = num_add(p, num_scale(p, f->px, others), kv);
	struct num issued = num_add(p, points, converts);
	struct num all = num_add(p, issued, num_add(p, f->px, kv)), slots = num_scale(p, all, others / 4);
	struct num step = num_norm(p, num_scale(p, loads, 1 / WINO_LOADS), slots, 6);
	step = num_norm(p, num_scale(p, issued, 1 / FMA_PER_CYCLE), step, 6);
	step = num_norm(p, step, num(LATENCY), 12);
	return num_add(p, num_add(p, num_scale(p, step, (double)f->z.channels), num(WINO_CALL)),
		       num_scale(p, points, 1.5));
}

static struct num tile_raw(const struct wino_cost *f)
{
	struct tape *p = f->p;
	double points = f->z.points, channels = (double)f->z.channels, others = f->v.others;
	struct num tile = num_scale(p, f->px, points),
		   slots = num_add(p, num_scale(p, tile, .75 * others),
				   num((f->s->w16 ? 11 + RAW_CONVERTS : 11) * others));
	struct num step = num_norm(p, num_scale(p, tile, 1 / FMA_PER_CYCLE), slots, 6);
	struct num around = num_scale(p, num_add(p, num_scale(p, tile, 3), num(WINO_CALL)), others);
	return num_scale(p, num_add(p, num_scale(p, step, channels), around), points);
}

/* Cycles of the products of a block. */
static struct num products(const struct wino_cost *f, struct num kv)
{
	struct tape *p = f->p;
	if (f->w->raw)
		return num_mul(p, num_mul(p, f->panels, f->rows), tile_raw(f));
	struct num panel =
	    num_scale(p, kv, (double)stage_weight_bytes(f->s) * (double)f->z.channels * f->s->lanes);
	struct num far = num_mul(p, num_switch(p, num_scale(p, panel, 1 / f->v.l1_room)), panel);
	struct num reread = times(p, far, num_sub(p, f->rows, num(1)), .2 / f->v.l2);
	struct num all = num_add(p, num_mul(p, f->rows, tile_product(f, kv)), reread);
	return times(p, f->panels, all, (double)(f->z.points * f->z.points));
}

static struct num transforms(const struct wino_cost *f, const struct task *t)
{
	double m = f->w->m, points = f->z.points, along = winograd_along[f->w->m];
	double pixel = WINO_PIXEL + WINO_APART * winograd_apart(t, f->s);
	double in = (double)f->z.cblocks * (2 * points * along + WINO_AROUND),
	       out = (points + m) * along + pixel * m * m + WINO_AROUND;
	struct num tile = num_add(f->p, num(in), num_scale(f->p, f->vectors, out));
	return times(f->p, f->tiles, tile, f->v.others);
}

/* Bytes of a block. */
struct block_bytes {
	struct num vs, ms, in, out, u;
};

static struct block_bytes bytes_of(const struct wino_cost *f)
{
	struct tape *p = f->p;
	double xi = (double)f->z.points * f->z.points, lanes = 4. * f->s->lanes, m = f->w->m,
	       weights =
		   (f->w->raw ? 9 : xi) * (double)f->z.channels * stage_weight_bytes(f->s) * f->s->lanes;
	return (struct block_bytes){
	    .vs = num_scale(p, f->tiles, xi * lanes * (double)f->z.cblocks),
	    .ms = times(p, f->chunk, f->tiles, xi * lanes),
	    .in = num_scale(p, f->tiles, lanes * m * m * (double)f->z.cblocks),
	    .out = times(p, f->tiles, f->vectors, lanes * m * m),
	    .u = num_scale(p, f->vectors, weights),
	};
}

/* Cycles to move a block's scratch and pixels between cache levels. */
static struct num moving(const struct wino_cost *f, const struct block_bytes *b)
{
	struct tape *p = f->p;
	struct num held = num_add(p, b->vs, b->ms), between = num_add(p, held, num_div(p, b->u, f->chunks));
	between = num_add(p, between, num_add(p, num_scale(p, b->in, f->w->pixels ? 2 : 1), b->out));
	struct num missed = num_div(p, over(p, between, f->v.l2_room), between);
	struct num each = num_add(p, num_scale(p, b->vs, .5), num_scale(p, b->ms, 2));
	struct num moved = num_add(p, b->vs, num_mul(p, f->chunks, each));
	return num_add(p, num_scale(p, held, 1 / f->v.l2), times(p, missed, moved, .5 / f->v.l3));
}

/* Cycles to load weights: from memory for each part, and again for each further block. */
static struct num weights(const struct wino_cost *f, const struct block_bytes *b)
{
	struct tape *p = f->p;
	struct num held = num_add(p, b->vs, b->ms);
	struct num lost = num_min(p, b->u, over(p, num_add(p, b->u, held), f->v.l2_room));
	struct num again = num_add(p, num_scale(p, b->u, 1.5 / f->v.l2), num_scale(p, lost, 1 / f->v.l3));
	struct num others = num_max(p, num_sub(p, f->indexes, f->parts), num(0));
	return num_add(p, times(p, f->parts, b->u, 1 / f->v.memory), num_mul(p, others, again));
}

/* Joins products and weights: their sum without prefetching (weights count 1.2 times), their hypotenuse with
 * raw filters or slots to spare, else (a^(3/2) + b^(3/2))^(2/3). */
static struct num beside(const struct wino_cost *f, struct num work, struct num weights)
{
	struct tape *p = f->p;
	if (!f->w->prefetch)
		return num_add(p, work, num_scale(p, weights, 1.2));
	if (f->w->raw || f->v.others < 1)
		return num_norm(p, work, weights, 2);
	struct num a = num_scale(p, num_log(p, work), 1.5), b = num_scale(p, num_log(p, weights), 1.5);
	return num_exp(p, num_scale(p, num_log(p, num_add(p, num_exp(p, a), num_exp(p, b))), 1 / 1.5));
}

struct num relax_winograd_cost(const struct relaxed *x)
{
	struct wino_cost f;
	const struct space *s = x->r->space;
	open_winograd(&f, x);
	struct block_bytes b = bytes_of(&f);
	struct num rest = num_add(f.p, transforms(&f, s->t), moving(&f, &b));
	if (s->want.threads > 1) /* inputs may be in other cores' caches */
		rest = num_add(f.p, rest, num_scale(f.p, b.in, 1 / f.v.l3));
	struct num work = num_mul(f.p, f.indexes, products(&f, x->wino.kv));
	return num_add(f.p, num_mul(f.p, f.indexes, rest), beside(&f, work, weights(&f, &b)));
}

struct num relax_winograd_penalty(const struct relaxed *x)
{
	const struct relaxed_winograd *n = &x->wino;
	const struct winograd *w = &x->r->sketch.st[0].wino;
	struct tape *p = x->p;
	struct num sum = num(0), points = num_mul(p, n->px, n->kv);
	if (!w->raw) /* sums, a panel's vectors and a broadcast */
		sum = relax_excess(p, sum, num_add(p, points, num_add(p, n->kv, num(1))),
				   x->r->space->tg.regs - 1);
	sum = relax_excess(p, sum, num_div(p, n->px, n->tiles), 1);
	sum = relax_excess(p, sum, num_div(p, n->kv, n->chunk), 1);
	return relax_excess(p, sum, points, SCHED_TILE);
}
