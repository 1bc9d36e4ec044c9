/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/draft_parts.h"
#include "kernels/space/mmla.h"
#include "kernels/space/quads.h"

#include <math.h>
#include <string.h>

int64_t extent_guess(int64_t extent)
{
	return IS_SYM(extent) ? 64 : extent;
}

double stage_steps(const struct stage *st)
{
	double n = 1;
	for (int a = stage_spatial(st); a < st->naxes; a++)
		n *= IS_SYM(st->axis[a].extent) ? 16 : (double)st->axis[a].extent;
	return n;
}

int draft_width(const struct target *tg)
{
	int width = tg->lanes;
	while (tg->serial && width < 16 && tg->fma_gflops > UNIT_GFLOPS * M_SQRT2 * tg->cores * width)
		width *= 2;
	return width;
}

/* The units of a processor that runs work items count as one core with a higher clock. */
double draft_ghz(const struct target *tg)
{
	return tg->fma_gflops > 0 ? tg->fma_gflops / (2 * FMA_PER_CYCLE * draft_width(tg)) : 3;
}

double draft_memory(const struct target *tg)
{
	return tg->bw_gbs[3] > 0 ? tg->bw_gbs[3] / draft_ghz(tg) : 8;
}

/* x86 multiplies unsigned bytes with signed ones, Arm and its GPUs signed ones; with i8mm, and devices with
 * the extension of Khronos, both. Without it, unsigned ones take an addition more, and a few operations for
 * each vector of weights. Else pairs are widened to 16 bits first. */
double draft_dots(const struct task *t, const struct stage *st, const struct target *tg)
{
	bool x86 = !strncmp(tg->isa, "x86", 3), both_signed = true;
	for (int i = 0; i < st->body.n; i++)
		if (st->body.at[i].op == P_READ)
			both_signed &= t->operand[st->read[st->body.at[i].arg].operand].dtype == DT_I8;
	bool khr = target_has(tg, "+cl_khr_integer_dot_product"),
	     arm = target_has(tg, "+dotprod") || target_has(tg, "+cl_arm_integer_dot_product_int8"),
	     dot = !strcmp(tg->isa, "cuda") ? true /* dp4a, of any signs */
		   : x86 ? !both_signed && (target_has(tg, "+avx512vnni") || target_has(tg, "+avxvnni"))
			 : khr || (both_signed ? arm : target_has(tg, "+i8mm"));
	return dot ? 4 : x86 ? 1.4 : arm ? 1.8 : 1;
}

/* Issue slots per vector of operators that need more than one. A division keeps its port for 10 cycles, while
 * other operators can issue. Measured on the Cascade Lake. */
static const double op_slots[P_OPS] = {
    [P_DIV] = 16, [P_RECIP] = 16, [P_SQRT] = 16,    [P_EXP] = 13,  [P_LOG] = 34, [P_TANH] = 22,
    [P_ERF] = 20, [P_POW] = 56,   [P_SIGMOID] = 21, [P_SILU] = 21, [P_GELU] = 16};

/* Issue slots of a program per vector. */
static double prog_cost(const struct prog *p)
{
	double c = 0;
	for (int i = 0; i < p->n; i++) {
		enum prog_op op = (enum prog_op)p->at[i].op;
		bool constant = op == P_DIV && p->at[i - 1].op == P_IMM; /* a product and a correction */
		c += constant ? 5 : op_slots[op] > 0 ? op_slots[op] : prog_op_arity(op) > 0;
	}
	return c;
}

double draft_post(const struct stage *st)
{
	return prog_cost(&st->post);
}

/* Slots of a stage's body and combiner. A sum of products has no extra cost: it is an FMA. */
static double body_cost(const struct stage *st)
{
	return prog_cost(&st->body) +
	       (st->comb != COMB_NONE && (!st->body.n || st->body.at[st->body.n - 1].op != P_MUL));
}

double draft_arithmetic(const struct task *t, int lanes)
{
	double sum = 0;
	for (int k = 0; k < t->nstages; k++) {
		const struct stage *st = &t->stage[k];
		double points = 1;
		for (int a = 0; a < stage_spatial(st); a++)
			points *= (double)extent_guess(st->axis[a].extent);
		sum += points * (stage_steps(st) * body_cost(st) + prog_cost(&st->post));
	}
	return sum / lanes;
}

double draft_slots(int64_t stride, int lanes)
{
	int64_t picked = 2 * stride - 1;
	return stride == 0 || stride == 1 ? 1 : stride > 1 && picked < lanes ? (double)picked : lanes;
}

/* Slots of one access. Lanes that are far apart are stored one by one, and mostly loaded so too. */
static double access_cost(const struct task *t, const struct stage *st, const struct sstage *s,
			  const struct read *r)
{
	int64_t stride;
	bool pads;
	if (s->lane < 0 || operand_packs(t, r->operand))
		return 1;
	if (read_stride(t, st, r, s->lane, s->lanes, &stride, &pads) < 0)
		return s->lanes;
	if (r == &st->out && store_weaves(t, st, s) >= 0)
		return 2;
	int turn = r == &st->out ? store_turns(t, st, s) : -1;
	if (turn >= 0) /* the number of steps and stores does not depend on the number of points */
		return fmin(s->lanes,
			    TRANSPOSE * ceil((double)s->tile[turn] / s->lanes) * s->lanes / s->tile[turn]);
	double slots = r == &st->out && (stride < 0 || stride > 1) ? s->lanes : draft_slots(stride, s->lanes);
	return slots > TRANSPOSE && read_crosses(t, st, r, s) >= 0 ? TRANSPOSE : slots;
}

/* Distinct loads of a read in one step of the tile n[]. */
static double distinct(const struct stage *st, unsigned axes, const int *n)
{
	double c = 1;
	for (int a = 0; a < stage_spatial(st); a++)
		if (axes >> a & 1)
			c *= n[a];
	return c;
}

bool draft_read_slides(const struct stage *st, const struct read *r, int rank, const struct sstage *s)
{
	for (int d = 0; d < rank; d++) {
		bool point = false, step = false;
		for (int a = 0; a < st->naxes; a++)
			if (r->dim[d].coef[a] && a != s->lane)
				*(a < stage_spatial(st) ? &point : &step) |=
				    (a < stage_spatial(st) ? s->tile[a] : s->unroll[a]) > 1;
		if (point && step)
			return true;
	}
	return false;
}

/* Whether a loop of the reduction changes what is read: then its vectors are loaded one after the other. */
static bool looped(const struct stage *st, unsigned axes, const struct sstage *s)
{
	for (int a = stage_spatial(st); a < st->naxes; a++)
		if (axes >> a & 1 && s->unroll[a] != st->axis[a].extent)
			return true;
	return false;
}

bool draft_read_stays(const struct stage *st, unsigned axes, const struct sstage *s, bool window)
{
	bool fixed = window || !looped(st, axes, s);
	for (int a = 0; a < stage_spatial(st); a++)
		fixed &= a == s->lane || !(axes >> a & 1);
	return st->comb != COMB_NONE && fixed && s->hoist;
}

struct draft_regs draft_regs(const struct task *t, int stage, const struct sstage *s)
{
	const struct stage *st = &t->stage[stage];
	double points = s->chains, vectors = 0, fixed = 0, taps = 1;
	int waiting = 0;
	bool window = draft_slides(t, stage, s);
	int ns = stage_spatial(st);
	for (int a = 0; a < ns; a++)
		points *= s->tile[a];
	for (int a = ns; a < st->naxes; a++)
		taps *= s->unroll[a] == st->axis[a].extent ? s->unroll[a] : 1;
	for (int i = 0; i < st->nreads; i++) {
		unsigned axes = read_axes(t, st, &st->read[i]);
		bool slides =
		    draft_read_slides(st, &st->read[i], t->operand[st->read[i].operand].dims.rank, s);
		if (!stage_in_body(st, i) || s->lane < 0)
			continue;
		if (!(axes >> s->lane & 1)) {
			waiting += slides;
			continue;
		}
		double d = distinct(st, axes, s->tile);
		if (slides)
			d = fmin(d, WINDOW_LIVE);
		vectors += d;
		fixed += draft_read_stays(st, axes, s, window) ? d * (taps - 1) : 0;
	}
	return (struct draft_regs){(int)(points + vectors + 1), (int)fixed, waiting};
}

int draft_live(const struct task *t, int stage, const struct sstage *s)
{
	struct draft_regs r = draft_regs(t, stage, s);
	return r.passing + r.fixed;
}

bool draft_slides(const struct task *t, int stage, const struct sstage *s)
{
	const struct stage *st = &t->stage[stage];
	for (int i = 0; i < st->nreads; i++)
		if (stage_in_body(st, i) &&
		    draft_read_slides(st, &st->read[i], t->operand[st->read[i].operand].dims.rank, s))
			return true;
	return false;
}

/* Whether loops over tiles run inside of all loops over these axes. */
static bool outside(const struct stage *st, const struct sstage *s, unsigned axes)
{
	int last = s->order[stage_spatial(st) - 1];
	for (int a = 0; a < stage_spatial(st); a++)
		if (axes >> a & 1 && s->tile[a] > 1)
			return false;
	return !(axes >> last & 1);
}

int draft_window(const struct task *t, int stage, const struct sstage *s)
{
	const struct stage *st = &t->stage[stage];
	int held = 0, ns = stage_spatial(st);
	for (int a = ns; a < st->naxes; a++)
		if (s->unroll[a] != st->axis[a].extent)
			return 0;
	for (int i = 0; i < st->nreads && s->hoist && s->lane >= 0 && s->lane < ns; i++) {
		unsigned axes = read_axes(t, st, &st->read[i]);
		int taps = stage_in_body(st, i) && outside(st, s, axes);
		for (int a = ns; a < st->naxes; a++)
			taps *= axes >> a & 1 ? s->unroll[a] : 1;
		held += taps;
	}
	return draft_slides(t, stage, s) ? held : 0;
}

int draft_held(const struct task *t, const struct target *tg, int stage, const struct sstage *s)
{
	int held = draft_window(t, stage, s), points = s->chains;
	for (int a = 0; a < stage_spatial(&t->stage[stage]); a++)
		points *= s->tile[a];
	return points + held + HELD_SPARE <= target_vectors(tg, s->lanes) ? held : 0;
}

double draft_loads(const struct task *t, int stage, const struct sstage *s)
{
	const struct stage *st = &t->stage[stage];
	double loads = 0, n[MAX_AXES];
	for (int a = 0; a < st->naxes; a++)
		n[a] = a < stage_spatial(st) ? s->tile[a] : s->unroll[a];
	for (int i = 0; i < st->nreads; i++)
		if (stage_in_body(st, i)) {
			struct touch_form f = draft_form(t, st, &st->read[i]);
			loads += draft_touched(&f, s->lane, s->lanes, n);
		}
	return loads;
}

double draft_apart(const struct task *t, const struct read *r, int axis, int64_t n)
{
	struct phys_axis ax[MAX_SPLITS];
	const struct operand *o = &t->operand[r->operand];
	int count = operand_axes(o, ax);
	int64_t sum = 0;
	for (int j = 0; j < count; j++) {
		int64_t c = r->dim[ax[j].dim].coef[axis], at = IS_SYM(c) ? n : c * n;
		at /= ax[j].div;
		sum += (ax[j].mod ? at % ax[j].mod : at) * ax[j].stride;
	}
	return 4 * fabs((double)sum);
}

static double cube(double x)
{
	return x * x * x;
}

double draft_join(double a, double b)
{
	double x = cube(a * a) + cube(b * b);
	return cbrt(sqrt(x));
}

/* As draft_join(), but closer to the larger value: the 12-norm. */
static double sharp(double a, double b)
{
	double x = cube(a * a), y = cube(b * b);
	return sqrt(cbrt(sqrt(x * x + y * y)));
}

/* The 4-norm: lines from the L2 take turns with the loads of the body. */
static double quartic(double a, double b)
{
	return sqrt(hypot(a * a, b * b));
}

/* Cycles of one tile of n[] points, and its terms. */
static double one_tile(const struct tile_cost *c, const int *n, struct draft_terms *x)
{
	const struct stage *st = c->st;
	double points = 1, loads = 0, post_loads = 0, stream = 0, converts = 0, in_body[MAX_AXES];
	for (int a = 0; a < st->naxes; a++) {
		in_body[a] = a < c->ns ? n[a] : c->s->unroll[a];
		points *= a < c->ns ? n[a] : 1;
	}
	for (int i = 0; i < st->nreads; i++) {
		double d = distinct(st, c->axes[i], n) * c->access[i];
		if (!stage_in_body(st, i)) {
			post_loads += d;
			continue;
		}
		stream += c->streams[i] * c->bytes[i] * c->s->lanes * d;
		converts += c->converts[i] * d;
		loads += draft_touched(&c->form[i], c->s->lane, c->s->lanes, in_body) * c->access[i] /
			 c->body_steps;
	}
	loads = fmax(loads - c->held / c->body_steps, 0) + c->reloaded / c->body_steps;
	if (c->s->prefetch && c->once)
		loads += points;
	double issue = (points * c->body + converts) / FMA_PER_CYCLE, load = loads / c->loads;
	/* FMAs, loads and both together compete for issue slots before any limit is reached: 14x2 points
	 * reach 92 % where 6x4 reach 95 %, with 16 against 10 loads for as many FMAs. */
	double around = c->straight ? 0 : LOOP / c->body_steps,
	       slots = c->ordered
			   ? draft_order(c, n)
			   : draft_join(issue,
					draft_join(load, (points * c->body + converts + loads + around) / 4));
	/* Small last tiles read as much as full ones. */
	double step = stream > 0 ? sharp(slots, stream / c->l2) : slots, streamed = step;
	if (!c->straight)
		step = sharp(step, LATENCY / c->s->chains);
	x->of[DRAFT_LATENCY] = c->steps * (step - streamed);
	double spill = c->spill > 0 ? SPILL + SPILLED * c->spill : 0;
	step += spill;
	bool across = c->s->lane >= c->ns && points > 1; /* lower_across.c */
	double ends = across ? ceil(points / c->s->lanes) : points;
	double end = ends * (c->post / FMA_PER_CYCLE + c->access[st->nreads] * 1.5) + post_loads / c->loads;
	end += (c->parts - 1) * points * (1.5 + 1 / c->loads); /* partial sums */
	end += (c->s->chains - 1) * points / FMA_PER_CYCLE;
	double call = c->held ? WINDOW : c->straight ? STEP : CALL;
	double lanes = across ? ACROSS * ends + 2 * points : c->s->lane >= c->ns ? 8 : 0;
	x->of[DRAFT_ISSUE] = c->steps * issue;
	x->of[DRAFT_LOAD] = c->steps * load;
	x->of[DRAFT_STREAM] = c->steps * (streamed - slots);
	x->of[DRAFT_SPILL] = c->steps * spill;
	x->of[DRAFT_CALL] = c->parts * call;
	x->of[DRAFT_END] = end + lanes;
	return c->steps * step + c->parts * call + end + lanes;
}

void draft_add(struct draft_terms *sum, const struct draft_terms *x, double count)
{
	for (int i = 0; i < DRAFT_TERMS; i++)
		sum->of[i] += count * x->of[i];
}

/* Sums full tiles and the smaller last tiles of every axis. */
static double all_tiles(const struct tile_cost *c, struct draft_terms *x)
{
	int n[MAX_AXES], rest[MAX_AXES];
	unsigned lasts = 0, never = 0;
	double total = 0, full = 0, whole[MAX_AXES];
	struct draft_terms one = {0};
	for (int a = 0; a < c->ns; a++) {
		int64_t u = a == c->s->lane ? c->s->lanes : 1;
		int64_t v = (c->extent[a] + u - 1) / u;
		rest[a] = (int)(v % c->s->tile[a]);
		whole[a] = (double)(v / c->s->tile[a]);
		lasts |= rest[a] ? 1u << a : 0;
		never |= whole[a] < 1 ? 1u << a : 0; /* no full tile */
	}
	for (unsigned combo = 0;; combo = ((combo | ~lasts) + 1) & lasts) {
		double count = never & ~combo ? 0 : 1, share = 1; /* share: of a full tile's points */
		for (int a = 0; a < c->ns && count > 0; a++) {
			bool last = combo >> a & 1;
			n[a] = last ? rest[a] : c->s->tile[a];
			count *= last ? 1 : whole[a];
			share *= (double)n[a] / c->s->tile[a];
		}
		if (count > 0) {
			bool shorter = c->s->prefetch && combo & ~(c->s->lane >= 0 ? 1u << c->s->lane : 0u);
			double cycles = count * one_tile(c, n, &one) * (shorter ? REST : 1);
			draft_add(x, &one, count);
			x->of[DRAFT_TAIL] += full > 0 ? fmax(0, cycles - count * share * full) : 0;
			full = combo ? full : cycles / count;
			total += cycles;
		}
		if (combo == lasts)
			return total;
	}
}

/* Weights come from memory while the arithmetic runs if they are prefetched; the hardware does so if they are
 * read in order. */
double draft_cold(const struct tile_cost *c)
{
	int read = c->t->nstages == 1 ? stage_weights(c->t, c->st, c->s->lane) : -1;
	double bytes = read < 0 ? 0 : c->bytes[read];
	for (int a = 0; a < c->st->naxes && read >= 0; a++)
		bytes *= c->axes[read] >> a & 1 ? (double)c->extent[a] : 1;
	return read < 0 ? 0 : bytes / draft_memory(c->tg);
}

/* Number of tiles that use a panel of weights. */
static double passes(const struct tile_cost *c)
{
	int w = stage_weights(c->t, c->st, c->s->lane);
	double n = 1;
	for (int a = 0; a < c->ns && w >= 0; a++)
		n *= c->axes[w] >> a & 1 ? 1 : ceil((double)c->extent[a] / c->s->tile[a]);
	return n;
}

static double with_weights(const struct tile_cost *c, double cycles, double core)
{
	double cold = draft_cold(c);
	if (c->once)
		return draft_join(cycles, cold) + BESIDE * core;
	if (c->s->prefetch)
		return draft_join(cycles, cold);
	return cycles + fmax(0, cold - core / passes(c)); /* the first tile of a panel waits for the panel */
}

double draft_stream(double panel_bytes, const struct tile_cost *c)
{
	return 2. / 3 + 2 * panel_bytes / c->l2_bytes;
}

/* Dot products of quads: fewer steps; quads are loaded once for some pixels; bytes stay bytes. */
static void open_quads(struct tile_cost *c)
{
	struct quads q;
	c->narrow = 1;
	if (!c->s->quads || stage_quads(c->t, c->st, c->s, &q) < 0)
		return;
	c->narrow = (double)q.n / q.taps;
	c->body = QUAD / draft_dots(c->t, c->st, c->tg);
	c->access[q.image] *=
	    QUAD_PIXEL * fmax(1, (double)q.n / (double)q.stride) / fmax(q.phases, (double)q.stride);
	c->access[q.weights] *= (double)(q.n * q.phases) / q.taps;
	c->bytes[q.image] = c->bytes[q.weights] = 1;
	if (quads_store(c->t, c->st, c->s, &q)) {
		c->access[c->st->nreads] *= QUAD_STORE;
		c->bytes[c->st->nreads] = 1;
	}
}

/* Products of matrices: an instruction makes two steps for two points. */
static void open_mmla(struct tile_cost *c)
{
	struct mmla m;
	if (!c->s->mmla || stage_mmla(c->t, c->st, c->s, &m) < 0)
		return;
	c->body /= MMLA_GROUPS;
	c->access[m.image] *= m.run || m.stride == QUAD ? MMLA_JOIN : 1;
}

static void open_rates(struct tile_cost *c)
{
	const struct target *tg = c->tg;
	double ghz = draft_ghz(tg);
	c->l1_bytes = tg->l1_bytes ? (double)tg->l1_bytes : 1 << 15;
	c->l2_bytes = tg->l2_bytes ? (double)tg->l2_bytes : 1 << 19;
	c->l2 = tg->bw_gbs[1] > 0 ? L2_REACHED * tg->bw_gbs[1] / ghz : L2_USUAL;
	c->l3 = tg->bw_gbs[2] > 0 ? tg->bw_gbs[2] / ghz : 12;
	c->loads =
	    tg->bw_gbs[0] > 0 ? LOADS_REACHED * tg->bw_gbs[0] / ghz / (4 * draft_width(tg)) : LOADS_USUAL;
}

/* Sets the steps of the reduction and of a body, and whether the reduction has loops. */
static void open_steps(struct tile_cost *c)
{
	const struct stage *st = c->st;
	const struct sstage *s = c->s;
	c->steps = stage_steps(st) * c->narrow;
	c->parts = s->split_axis < 0 ? 1 : ceil((double)st->axis[s->split_axis].extent / (double)s->split);
	if (s->lane >= c->ns) {
		double e = (double)c->extent[s->lane];
		c->steps = c->steps / e * ceil(e / s->lanes);
	}
	c->body_steps = c->narrow;
	c->straight = true; /* no loop: the sums of the next tile do not wait for those of this tile */
	for (int a = c->ns; a < st->naxes; a++) {
		c->body_steps *= s->unroll[a];
		c->straight &= s->unroll[a] == st->axis[a].extent;
	}
}

void draft_open(struct tile_cost *c, const struct task *t, const struct target *tg, int stage,
		const struct sstage *s)
{
	const struct stage *st = &t->stage[stage];
	*c = (struct tile_cost){.t = t, .st = st, .s = s, .tg = tg, .ns = stage_spatial(st)};
	for (int a = 0; a < st->naxes; a++)
		c->extent[a] = extent_guess(st->axis[a].extent);
	/* A vector of a work item may take several instructions; a narrow one takes as long as a wide one. */
	c->each = tg->serial ? ceil((double)s->lanes / draft_width(tg)) : 1;
	c->body = fmax(body_cost(st), .5) * c->each;
	c->post = (prog_cost(&st->post) - (stage_bias(t, st, s) >= 0)) * c->each;
	for (int i = 0; i <= st->nreads; i++) {
		const struct read *r = i < st->nreads ? &st->read[i] : &st->out;
		c->axes[i] = read_axes(t, st, r);
		c->access[i] = access_cost(t, st, s, r) * c->each;
		c->form[i] = draft_form(t, st, r);
		c->bytes[i] = 4;
	}
	int weights = s->w16 ? stage_weights(t, st, s->lane) : -1;
	if (weights >= 0) {
		c->bytes[weights] = stage_weight_bytes(s);
		c->converts[weights] = 1;
	}
	open_quads(c);
	open_mmla(c);
	open_steps(c);
	c->passing = task_bytes(t, true);
	struct draft_regs regs = draft_regs(t, stage, s);
	c->live = regs.passing + regs.fixed;
	c->waiting = regs.waiting;
	c->regs = target_vectors(tg, s->lanes);
	c->spill = regs.passing + regs.waiting - c->regs;
	c->reloaded = fmax(0, fmin(c->live + regs.waiting - c->regs, regs.fixed));
	c->held = draft_held(t, tg, stage, s);
	c->once = stage_streams(t, st, s) && !tg->serial; /* weights are warm there */
	open_rates(c);
	c->ordered = draft_ordered(c);
	if (target_runs_items(tg) && !tg->serial)
		draft_lines(c);
}

static void open_streams(struct tile_cost *c, struct draft_terms *x)
{
	double tile[MAX_AXES];
	draft_tile_points(c, tile);
	for (int i = 0; i <= c->st->nreads; i++) {
		double bytes = draft_footprint(c, i, tile);
		x->set += bytes;
		x->panel += i < c->st->nreads && operand_packs(c->t, c->st->read[i].operand) ? bytes : 0;
	}
	for (int a = 0; a < c->st->naxes; a++) /* no panel is used again, so all panels count */
		tile[a] = c->once ? (double)c->extent[a] : tile[a];
	for (int i = 0; i < c->st->nreads; i++) {
		double panel = draft_footprint(c, i, tile);
		if (operand_packs(c->t, c->st->read[i].operand) && stage_in_body(c->st, i) &&
		    panel > c->l1_bytes / 2)
			c->streams[i] = draft_stream(panel, c);
	}
}

/* Cycles of the launches of a stage on a processor, whose items take `core`. Items of a chain's stages are
 * parts of others. */
static double all_groups(const struct tile_cost *c, double core)
{
	double groups = 1, vectors = 1;
	if (c->t->nstages > 1)
		return core;
	for (int a = 0; a < c->ns; a++) {
		double v = ceil((double)c->extent[a] / (a == c->s->lane ? c->s->lanes : 1));
		vectors *= v;
		groups *= ceil(v / c->s->tile[a]);
	}
	if (c->s->spread) { /* a second launch has an item for each vector, which is a group */
		core += vectors * (c->parts + UNIT_GROUP);
		groups *= c->parts;
	}
	if (c->s->group)
		groups /= c->s->group;
	if (c->s->share)
		core *= UNIT_THREADS;
	return core + groups * UNIT_GROUP;
}

struct draft_terms draft_rows(const struct task *t, const struct target *tg, int stage,
			      const struct sstage *s, int axis, int64_t rows)
{
	struct draft_terms x = {0};
	struct tile_cost c;
	if (s->wino.m)
		return draft_winograd(t, tg, s, 1);
	draft_open(&c, t, tg, stage, s);
	if (rows && rows < c.extent[axis])
		c.extent[axis] = rows;
	if (target_runs_items(tg) && !tg->serial)
		return draft_items(&c);
	open_streams(&c, &x);
	x.live = c.live;
	double bytes[DRAFT_LEVELS], core = all_tiles(&c, &x);
	draft_traffic(&c, bytes);
	if (tg->serial)
		core = all_groups(&c, core);
	double from_l2 = bytes[0] / c.l2, from_l3 = bytes[1] / c.l3;
	double warm = hypot(quartic(core, from_l2), from_l3);
	x.of[DRAFT_L2] = from_l2;
	x.of[DRAFT_L3] = from_l3;
	x.cycles = tg->serial ? warm : with_weights(&c, warm, core);
	x.of[DRAFT_COLD] = x.cycles - warm;
	return x;
}

double draft_stage(const struct task *t, const struct target *tg, int stage, const struct sstage *s)
{
	return draft_rows(t, tg, stage, s, 0, 0).cycles;
}
