/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses how many steps of its reduction a stage's body contains. */
#include "kernels/space/space_rules.h"

/* Whether the axis is a tap of a window: it indexes a dim together with a spatial axis. */
static bool is_tap(const struct task *t, const struct stage *st, int a)
{
	for (int i = 0; i < st->nreads; i++)
		for (int d = 0; d < t->operand[st->read[i].operand].dims.rank; d++)
			if (st->read[i].dim[d].coef[a] && index_spatial(st, &st->read[i].dim[d]))
				return true;
	return false;
}

/* Steps of one reduction axis in the body, at most `room`. */
static int unroll_of(const struct space *s, const struct stage *st, const struct sstage *out, int a,
		     bool contracts, int64_t room)
{
	int64_t e = st->axis[a].extent, b = axis_block(s->t, st, a);
	bool blocked = b > 1 && e > b;
	if (IS_SYM(e) || room < 2)
		return 1;
	if (a == out->lane)
		return e / out->lanes >= 4 && room >= 4 ? 4 : e < out->lanes ? 1 : (int)(e / out->lanes);
	if (!contracts && !blocked)
		return e <= room ? (int)e : is_tap(s->t, st, a) ? 1 : (int)largest_divisor(e, room);
	if (is_tap(s->t, st, a))
		return 1;
	if (blocked)
		return (int)largest_divisor(e % b ? largest_divisor(b, e % b) : b, room);
	return e == 3 && room == 2 ? 3 : (int)largest_divisor(e, room); /* the colours of an image */
}

/* Whether another stage keeps constants of exp or similar in registers around this stage's loops. */
static bool beside_long(const struct space *s, int stage)
{
	for (int k = 0; k < s->t->nstages; k++)
		if (k != stage && stage_long_body(&s->t->stage[k]))
			return true;
	return false;
}

/* How a window slides along `pixel`: elements between its taps along `a`, and between points. */
struct slide {
	int64_t tap, point; /* 0: it does not slide */
};

static struct slide slide_of(const struct space *s, const struct stage *st, int pixel, int a)
{
	struct slide found = {0, 0};
	for (int i = 0; i < st->nreads; i++)
		for (int d = 0; d < s->t->operand[st->read[i].operand].dims.rank; d++) {
			const struct index *x = &st->read[i].dim[d];
			if (!x->coef[a] || !x->coef[pixel])
				continue;
			if (index_guarded(s->t, st, &st->read[i], d))
				return (struct slide){0, 0};
			found = (struct slide){x->coef[a], x->coef[pixel]};
		}
	return found;
}

/* Whether the points of a tile share the broadcasts of taps and there is only one vector: one load for each
 * product is more than a core can issue. (With two vectors 28 products share 16 loads, and unrolling costs as
 * much as it saves.) 3x3 with 16->16 channels at 30x40: 48.8 us with 20 points, 39.7 with 14 points and the
 * taps of a row. */
static bool shares_taps(const struct space *s, const struct stage *st, const struct sstage *out, int a)
{
	int pixel = -1;
	for (int b = 0; b < stage_spatial(st); b++) {
		if (out->tile[b] > 1 && (b == out->lane || pixel >= 0))
			return false;
		pixel = out->tile[b] > 1 ? b : pixel;
	}
	if (stage_sum(s->t, st) == SUM_DOT && draft_dots(s->t, st, &s->tg) < 4)
		return false; /* each broadcast is widened */
	if (pixel < 0 || out->lane < 0 || IS_SYM(st->axis[a].extent) || IS_SYM(st->axis[out->lane].extent) ||
	    st->axis[out->lane].extent > out->lanes)
		return false;
	struct slide w = slide_of(s, st, pixel, a);
	int64_t taps = st->axis[a].extent, points = out->tile[pixel];
	bool meets = w.point == 1 ? w.tap > 0 : w.tap == 1 && w.point > 1 && taps > w.point;
	return meets && points >= 2 * taps && points * w.point > w.tap * (taps - 1) &&
	       2 * points + (taps + w.point - 1) / w.point < s->tg.regs;
}

bool stage_picks(const struct space *s, const struct stage *st, const struct sstage *out)
{
	for (int i = 0; i < st->nreads && out->lane >= 0; i++) {
		int64_t stride = 1;
		bool pads;
		if (stage_in_body(st, i) && !operand_packs(s->t, st->read[i].operand) &&
		    read_stride(s->t, st, &st->read[i], out->lane, out->lanes, &stride, &pads) >= 0 &&
		    draft_slots(stride, out->lanes) > 1)
			return true;
	}
	return false;
}

/* Registers that a program takes on a processor without memory operands: its constants and one more. */
static int constants(const struct prog *p)
{
	int n = 1;
	for (int i = 0; i < p->n; i++) {
		bool again = p->at[i].op != P_IMM;
		for (int j = 0; j < i && !again; j++)
			again = p->at[j].op == P_IMM && p->at[j].imm == p->at[i].imm;
		n += !again;
	}
	return n;
}

/* The limits were measured by what spills. AArch64 has no memory operands, and LLVM orders the loads freely,
 * and worse so around prefetches. */
bool rules_window(const struct space *s, int stage, const struct sstage *c)
{
	const struct stage *st = &s->t->stage[stage];
	int held = draft_held(s->t, &s->tg, stage, c), points = 1, regs = s->tg.regs;
	bool arm = s->tg.lanes == 4, along = stage_weights(s->t, st, c->lane) >= 0;
	int room = regs - (arm ? 10 : 8), shared = along ? regs * (arm && c->prefetch ? 2 : 3) / 2 : room;
	for (int a = 0; a < stage_spatial(st); a++)
		points *= c->tile[a];
	return held && c->chains == 1 && points + held + constants(&st->post) <= room &&
	       draft_loads(s->t, stage, c) - held <= shared;
}

/* Unrolls all taps of a window if the tile leaves registers for that: 3x4 points of 3x3 with 64 channels at
 * 40x40 reach 81 % of the peak, 14 points with the taps of a row 66 %. */
static bool hold_window(const struct space *s, int stage, struct sstage *out)
{
	const struct stage *st = &s->t->stage[stage];
	struct sstage c = *out;
	c.chains = 1;
	for (int a = stage_spatial(st); a < st->naxes; a++) {
		if (IS_SYM(st->axis[a].extent) || st->axis[a].extent > 9 || !is_tap(s->t, st, a))
			return false;
		c.unroll[a] = (int)st->axis[a].extent;
	}
	if (!rules_window(s, stage, &c))
		return false;
	*out = c;
	return true;
}

/* Steps of a contraction's body without FMA. Products and sums are instructions of their own, so the loop
 * around them costs less than with FMA only after more steps: 3x3 of stride 2 with 64->128 channels at 28x28
 * takes 3.40 ms with 2 channels, 2.97 with 6 taps; of 12 and more, some spill. */
enum {
	UNFUSED_STEPS = 4,
	UNFUSED_TAPS = 6,
	UNFUSED_POINTS = 4 /* per vector: the broadcasts of more points and all their taps spill */
};

/* Unrolls taps of a contraction without FMA, if `steps` are in the body already. */
static int unfused_taps(int64_t taps, int steps)
{
	int most = UNFUSED_TAPS / steps;
	return taps <= most ? (int)taps : steps > 1 && most > 1 ? most : 1;
}

/* Unrolls channels in small steps. Unrolls taps only if the operand that slides is a vector, so that
 * neighbouring points share its loads, or if there are few taps; else unrolled taps of broadcasts keep too
 * many values alive. */
void rules_unroll(const struct space *s, int stage, struct sstage *out)
{
	struct space wide;
	s = rules_width(s, out->lanes, &wide);
	const struct stage *st = &s->t->stage[stage];
	int ns = stage_spatial(st), points = 1, steps = 1;
	bool contracts = stage_contracts(s->t, st, out->lane);
	bool dots = stage_sum(s->t, st) == SUM_DOT, widens = s->tg.lanes == 4 && dots; /* AArch64, NEON */
	bool unfused = contracts && rules_unfused(s) && !dots, half = stage_sum(s->t, st) == SUM_HALF;
	if (!contracts && hold_window(s, stage, out))
		return;
	for (int a = 0; a < ns; a++)
		points *= out->tile[a];
	int piped = contracts ? draft_pipes(s->t, &s->tg, st, out, out->tile) : -1;
	bool few = out->lane >= 0 && points <= UNFUSED_POINTS * out->tile[out->lane];
	for (int i = st->naxes - 1; i >= ns; i--) {
		int a = out->order[i];
		if (unfused && few && s->t->nstages == 1 && !IS_SYM(st->axis[a].extent) &&
		    is_tap(s->t, st, a)) {
			out->unroll[a] = unfused_taps(st->axis[a].extent, steps);
			steps *= out->unroll[a];
			continue;
		}
		int64_t room = unfused               ? UNFUSED_STEPS
			       : a == piped          ? PIPED_CHANNELS
			       : contracts           ? (points >= 8 ? 2 : 4)
			       : stage_long_body(st) ? 1
						     : 9;
		if (contracts && shares_taps(s, st, out, a)) {
			out->unroll[a] = (int)st->axis[a].extent;
			points *= out->unroll[a];
			continue;
		}
		if (half && out->lane >= 0 && points >= HALF_PIXELS * out->tile[out->lane])
			room = 1;
		if (contracts ? beside_long(s, stage) || widens : a == out->lane && points >= MANY_ROWS)
			room = 1;
		room = (room * points > 200 ? 200 / points : room) / steps;
		if (!contracts && steps > 1 &&
		    (points * 4 > s->tg.regs || stage_long_post(st) || stage_picks(s, st, out)) &&
		    is_tap(s->t, st, a))
			room = 1; /* for a large tile only the taps of one row */
		out->unroll[a] = unroll_of(s, st, out, a, contracts, room);
		steps *= out->unroll[a];
	}
}
