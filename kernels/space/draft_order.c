/* SPDX-License-Identifier: Apache-2.0 */
/* Products on processors that issue in order (kernels/emit/llvm_pipe.c). */
#include "kernels/space/draft_parts.h"

#include <string.h>

/* Bytes of a point's channels, and the most between two points of a run. */
enum { POINT = 16, APART = 4 * POINT };

/* The operand's read that has one value for all lanes; NULL: the stage is no sum of its products with
 * weights. */
static const struct read *spread_read(const struct task *t, const struct stage *st, const struct sstage *s)
{
	const struct read *found = NULL;
	int weights = stage_weights(t, st, s->lane), n = 0;
	for (int i = 0; i < st->nreads; i++) {
		if (!stage_in_body(st, i))
			continue;
		n++;
		if (i != weights)
			found = &st->read[i];
	}
	bool product = st->body.n == 3 && st->body.at[2].op == P_MUL && st->comb == COMB_SUM;
	return weights >= 0 && n == 2 && product && stage_sum(t, st) == SUM_FLOAT ? found : NULL;
}

/* Whether the points of a tile lie in one or two runs of up to four, and the number of points. */
static int piped_points(const struct task *t, const struct stage *st, const struct sstage *s,
			const struct read *in, const int *tile)
{
	int beside = 1, rows = 1;
	for (int a = 0; a < stage_spatial(st); a++) {
		if (a == s->lane || tile[a] == 1)
			continue;
		double apart = draft_apart(t, in, a, 1);
		if (beside == 1 && apart >= POINT && apart <= APART)
			beside = tile[a];
		else if (rows == 1)
			rows = tile[a];
		else
			return 0;
	}
	bool fits = rows == 1 ? beside <= PIPED_POINTS : rows == 2 && beside <= PIPED_POINTS / 2;
	return fits && beside > 1 ? rows * beside : 0;
}

bool draft_in_order(const struct target *tg)
{
	return target_in_order(tg) && strcmp(tg->isa, "armv8-a") == 0;
}

int draft_pipes(const struct task *t, const struct target *tg, const struct stage *st, const struct sstage *s,
		const int *tile)
{
	if (!draft_in_order(tg) || s->lane < 0 || s->lane >= stage_spatial(st) || s->lanes != 4 ||
	    tile[s->lane] != PIPED_VECTORS || s->chains != 1 || s->w16)
		return -1;
	const struct read *in = spread_read(t, st, s);
	if (!in || t->operand[in->operand].dtype != DT_F32 || !piped_points(t, st, s, in, tile))
		return -1;
	for (int d = 0; d < t->operand[in->operand].dims.rank; d++)
		if (index_guarded(t, st, in, d))
			return -1;
	for (int a = stage_spatial(st); a < st->naxes; a++)
		if (axis_block(t, st, a) == PIPED_CHANNELS && draft_apart(t, in, a, 1) == 4 &&
		    !IS_SYM(st->axis[a].extent) && st->axis[a].extent % PIPED_CHANNELS == 0)
			return a;
	return -1;
}

bool draft_ordered(const struct tile_cost *c)
{
	return draft_in_order(c->tg) && c->s->lane >= 0 && c->s->lane < c->ns &&
	       spread_read(c->t, c->st, c->s);
}

/* Loads for one step of the reduction take the place of multiply-adds. A vector of `lane` lanes is loaded for
 * weights, one value for a point, unless the loop loads the channels of a point together. */
double draft_order(const struct tile_cost *c, const int *n)
{
	const struct stage *st = c->st;
	double points = 1, others = 1, ports = 0, body = c->body_steps, in_body[MAX_AXES];
	int channels = draft_pipes(c->t, c->tg, st, c->s, n);
	for (int a = 0; a < st->naxes; a++) {
		in_body[a] = a < c->ns ? n[a] : c->s->unroll[a];
		points *= a < c->ns ? n[a] : 1;
		others *= a < c->ns || a == channels ? 1 : c->s->unroll[a];
	}
	if (channels >= 0 && c->s->unroll[channels] == PIPED_CHANNELS && others == 1) {
		double pixels = points / n[c->s->lane], vectors = pixels / PIPED_CHANNELS + n[c->s->lane];
		return (points * c->body + vectors * VECTOR_CYCLES) / FMA_PER_CYCLE;
	}
	for (int i = 0; i < st->nreads; i++)
		if (stage_in_body(st, i))
			ports += draft_touched(&c->form[i], c->s->lane, c->s->lanes, in_body) * c->access[i] *
				 (c->axes[i] >> c->s->lane & 1 ? VECTOR_CYCLES : 1);
	return (points * c->body + ports / body) * IN_ORDER / FMA_PER_CYCLE;
}
