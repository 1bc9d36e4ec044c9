/* SPDX-License-Identifier: Apache-2.0 */
/* The loop over the channels of a product, as one piece of assembly, for AArch64 processors that issue in
 * order. LLVM puts loads between the multiply-adds, where each of them costs such a processor time: by LLVM's
 * model of the cortex-a53 a load of one or two vectors waits for the multiply-add before it, which takes six
 * cycles longer, and the processor itself starts nothing else for one cycle per 64 bits that it loads into
 * vectors. Here a load takes four vectors; each is loaded at least eight
 * multiply-adds before its use, the first ones of a step during the step before; and additions of addresses
 * stand together. With 7 or 8 points the model then gives 0.85 to 0.87 of its peak, and 0.73 with 8 points
 * that do not lie side by side, whose loads of one vector each wait.
 *
 * A step is four channels of up to eight points and two vectors of weights: sums in v0 to v15, operands in
 *
 *	v16-v19  channels of points 0 to 3	v24-v27  weights of channels 0 and 1
 *	v20-v23  channels of points 4 to 7	v28-v31  weights of channels 2 and 3
 *
 * LD4 loads the same channel of four points into one register; fewer points are loaded one to a register, and
 * so are points that do not lie side by side, one by one.
 * Each sum adds its products in the order of the loop, so results have the same bits. */
#include "kernels/emit/llvm_gen.h"
#include "kernels/space/draft.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	LANES = 4,
	CHANNELS = PIPED_CHANNELS, /* of a step, which lie side by side in the input */
	VECTORS = PIPED_VECTORS,
	POINTS = PIPED_POINTS,
	STEP_BYTES = CHANNELS * VECTORS * LANES * 4, /* of weights */
	MOST_STEPS = PIPED_STEPS,                    /* in the assembly's loop */
	MOST_GROUP = 5,                              /* steps whose addresses are computed together */
	MOST_APART = 1 << 12,                        /* bytes */
	MOST_CONSTANTS = 8,
	MOST_NUMBERS = 28, /* general registers: addresses, the count and constants */
	MOST_TRIPS = 1 << 14,
	FIRST_OPERAND = 16, /* v16 */
	FIRST_WEIGHT = 24,
	MOST_OPERANDS = POINTS * VECTORS + 4 * MOST_GROUP + 3
};

/* A loop that has this form. */
struct pipe {
	const struct stmt *loop, *body;
	int64_t trips;
	int points, low;                /* low: in the first run of points that lie side by side */
	int again;                      /* points of the second run that the first one loads, too */
	int64_t apart;                  /* bytes between points of a run */
	int64_t high_at;                /* bytes from the first point to the first of the second run */
	int sum[POINTS * VECTORS];      /* variables: of point p and vector v the one at p * VECTORS + v */
	const struct mem *in, *weights; /* the loads of the lowest addresses */
	int64_t *at;                    /* bytes of the input's address per trip, from the first one's */
	int steps, groups; /* in the assembly's loop; parts whose addresses are computed together */
	bool prefetches;
};

/* ---- matching ---- */

/* Bytes of an address beyond terms that all loads of an operand share. */
static bool offset_of(struct gen *g, const struct mem *m, const struct mem *first, int64_t *bytes)
{
	int64_t c[2], coef[2][IX_MAX_TERMS];
	const struct ix *atom[2][IX_MAX_TERMS];
	int n = ix_terms(m->at, &c[0], IX_MAX_TERMS, coef[0], atom[0]);
	if (n < 0 || m->buf != first->buf || ix_terms(first->at, &c[1], IX_MAX_TERMS, coef[1], atom[1]) != n)
		return false;
	for (int i = 0; i < n; i++)
		if (coef[0][i] != coef[1][i] || !ix_same(atom[0][i], atom[1][i]))
			return false;
	*bytes = (c[0] - c[1]) * (int64_t)dtype_bytes(mem_type(g->l, m));
	return true;
}

/* Whether s loads floats of memory as they are: four neighbours, or one into all lanes. */
static bool is_plain_load(const struct gen *g, const struct stmt *s)
{
	const struct mem *m = &s->mem;
	return s->vop == V_LOAD && g->l->lanes[s->dst] == LANES && g->l->type[s->dst] == LV_F32 &&
	       mem_type(g->l, m) == DT_F32 && mem_group(m) == 1 && !m->guard &&
	       (!m->valid || m->valid->lo >= LANES) && (m->stride == 0 || m->stride == 1);
}

/* For each variable this finds the load of the body that sets it. */
struct sources {
	const struct stmt **load;
	int64_t *bytes;
};

static const struct stmt *inner_body(const struct gen *g, const struct stmt *s)
{
	const struct stmt *b = s->body;
	while (b && b->op == ST_FOR && !b->next && gen_is_single(g, b))
		b = b->body;
	return b;
}

/* Finds the loads, and those of the lowest addresses. */
static bool find_loads(struct gen *g, struct pipe *p, struct sources *src)
{
	const struct mem *lowest[2] = {NULL, NULL};
	for (const struct stmt *s = p->body; s; s = s->next) {
		p->prefetches |= s->op == ST_PREFETCH;
		if (s->op == ST_PREFETCH || (s->op == ST_SET && s->vop == V_FMA))
			continue;
		if (s->op != ST_SET || !is_plain_load(g, s) || src->load[s->dst])
			return false;
		int side = s->mem.stride == 1;
		int64_t at = 0;
		if (lowest[side] && !offset_of(g, &s->mem, lowest[side], &at))
			return false;
		if (!lowest[side] || at < 0)
			lowest[side] = &s->mem;
		src->load[s->dst] = s;
	}
	p->in = lowest[0], p->weights = lowest[1];
	for (int v = 0; v < g->l->nvars && p->in && p->weights; v++)
		if (src->load[v] && !offset_of(g, &src->load[v]->mem,
					       src->load[v]->mem.stride ? p->weights : p->in, &src->bytes[v]))
			return false;
	return p->in && p->weights;
}

/* The products of one point and vector so far. */
struct chain {
	int sum, n, vector;
	int64_t point;
};

/* The products of a chain must be those of channels 0, 1, 2 and 3, in this order. */
static bool add_product(const struct stmt *s, const struct sources *src, struct chain *c, int *n)
{
	bool a_spreads = src->load[s->a] && !src->load[s->a]->mem.stride;
	int x = a_spreads ? s->a : s->b, w = a_spreads ? s->b : s->a, i = 0;
	if (!src->load[x] || !src->load[w] || src->load[x]->mem.stride || !src->load[w]->mem.stride ||
	    s->dst != s->c || src->load[s->dst])
		return false;
	int64_t line = src->bytes[w] / (LANES * 4);
	if (src->bytes[w] % (LANES * 4) || line >= CHANNELS * VECTORS)
		return false;
	int channel = (int)line / VECTORS, vector = (int)line % VECTORS;
	int64_t point = src->bytes[x] - channel * 4;
	while (i < *n && c[i].sum != s->dst)
		i++;
	if (i == *n) {
		if (*n == POINTS * VECTORS)
			return false;
		c[(*n)++] = (struct chain){s->dst, 0, vector, point};
	}
	return c[i].n++ == channel && c[i].vector == vector && c[i].point == point;
}

static int by_point(const void *a, const void *b)
{
	const struct chain *x = a, *y = b;
	return x->point != y->point ? (x->point < y->point ? -1 : 1) : x->vector - y->vector;
}

/* Loads four points where the first run of seven has three: LD4 takes LLVM's model of the
 * cortex-a53 two cycles less than LD1 of three registers, and that of the cortex-a55 two cycles more. */
static void load_one_again(const struct gen *g, struct pipe *p)
{
	if (g->evenly || p->points != POINTS - 1 || p->apart != CHANNELS * 4 ||
	    p->high_at != LANES * p->apart)
		return;
	p->low = LANES - 1;
	p->again = 1;
	p->high_at -= p->apart;
}

static bool find_sums(struct gen *g, struct pipe *p, const struct sources *src)
{
	struct chain c[POINTS * VECTORS];
	int n = 0;
	for (const struct stmt *s = p->body; s; s = s->next)
		if (s->op == ST_SET && s->vop == V_FMA &&
		    (g->l->lanes[s->dst] != LANES || !add_product(s, src, c, &n)))
			return false;
	qsort(c, (size_t)n, sizeof *c, by_point);
	p->points = n / VECTORS;
	for (int i = 0; i < n; i++) {
		if (c[i].n != CHANNELS || c[i].vector != i % VECTORS ||
		    c[i].point != c[i - i % VECTORS].point || !g->cur[c[i].sum])
			return false;
		p->sum[i] = c[i].sum;
	}
	if (n % VECTORS || p->points < 2 || c[0].point)
		return false;
	p->apart = c[VECTORS].point;
	for (int i = 1; i < p->points; i++) {
		bool beside = c[i * VECTORS].point - c[(i - 1) * VECTORS].point == p->apart;
		if (!p->low && (i == LANES || !beside)) {
			p->low = i;
			p->high_at = c[i * VECTORS].point;
		} else if (!beside || i - p->low >= LANES) {
			return false;
		}
	}
	p->low = p->low ? p->low : p->points;
	load_one_again(g, p);
	return p->apart > 0 && p->apart % (CHANNELS * 4) == 0 && p->apart <= MOST_APART;
}

/* Whether x is computed from this loop variable and constants. Recursion is bounded by IX_MAX_HEIGHT. */
static bool only_of(const struct ix *x, int var)
{
	if (x->op == IX_CONST)
		return true;
	if (x->op == IX_VAR)
		return x->id == var;
	return x->op != IX_PARAM && x->op != IX_TABLE && only_of(x->a, var) && only_of(x->b, var);
}

static bool mentions(const struct ix *x, int var)
{
	if (x->op == IX_CONST || x->op == IX_PARAM)
		return false;
	if (x->op == IX_VAR)
		return x->id == var;
	return (x->a && mentions(x->a, var)) || (x->b && mentions(x->b, var));
}

/* Bytes that the address of trip t lies behind that of the first one; false: it depends on more than t. A
 * loop whose first value is not constant may only move evenly. */
static bool distances(struct gen *g, const struct pipe *p, const struct mem *m, int64_t *at)
{
	int64_t c, coef[IX_MAX_TERMS], lo = 0, *vars = ARENA_ARRAY(g->a, int64_t, g->l->nloopvars + 1);
	const struct ix *atom[IX_MAX_TERMS];
	int n = ix_terms(m->at, &c, IX_MAX_TERMS, coef, atom), var = p->loop->var;
	bool fixed = ix_is_const(p->loop->lo, &lo);
	memset(at, 0, sizeof *at * (size_t)p->trips);
	for (int i = 0; i < n; i++) {
		if (!mentions(atom[i], var))
			continue;
		if (!only_of(atom[i], var) || (!fixed && atom[i]->op != IX_VAR))
			return false;
		for (int64_t t = 0; t < p->trips; t++) {
			vars[var] = lo + t * p->loop->step;
			at[t] += coef[i] * ix_eval(atom[i], NULL, vars, NULL) * 4;
		}
	}
	for (int64_t t = p->trips - 1; t >= 0; t--)
		at[t] -= at[0];
	return n >= 0;
}

static bool repeats(const struct pipe *p, int64_t steps)
{
	if (p->trips % steps)
		return false;
	for (int64_t t = steps; t < p->trips; t++)
		if (p->at[t] - p->at[t - steps] != p->at[steps] - p->at[0])
			return false;
	return true;
}

/* Cycles of a step's addresses by LLVM's model of the cortex-a53: the first addition of a group waits for a
 * multiply-add. The last term keeps the code short. */
static double address_cycles(int steps, int groups)
{
	return (7. * groups + 2) / steps + .02 * steps;
}

static bool find_steps(struct pipe *p, int most)
{
	double best = 0;
	p->steps = 0;
	for (int steps = 1; steps <= MOST_STEPS; steps++) {
		int groups = (steps + most - 1) / most;
		double cycles = address_cycles(steps, groups);
		if ((p->steps && cycles >= best) || !repeats(p, steps))
			continue;
		best = cycles;
		p->steps = steps;
		p->groups = groups;
	}
	return p->steps > 0;
}

/* The first step of a group. */
static int group_begin(const struct pipe *p, int group)
{
	return group * p->steps / p->groups;
}

static int group_of(const struct pipe *p, int step)
{
	int g = 0;
	while (group_begin(p, g + 1) <= step)
		g++;
	return g;
}

/* Steps of the largest group. */
static int largest_group(const struct pipe *p)
{
	return (p->steps + p->groups - 1) / p->groups;
}

/* The number of iterations, if that is constant. */
static bool find_trips(struct pipe *p)
{
	const struct stmt *s = p->loop;
	int64_t c[2], coef[2][IX_MAX_TERMS];
	const struct ix *atom[2][IX_MAX_TERMS];
	int n = ix_terms(s->lo, &c[0], IX_MAX_TERMS, coef[0], atom[0]);
	if (n < 0 || ix_terms(s->hi, &c[1], IX_MAX_TERMS, coef[1], atom[1]) != n)
		return false;
	for (int i = 0; i < n; i++)
		if (coef[0][i] != coef[1][i] || !ix_same(atom[0][i], atom[1][i]))
			return false;
	p->trips = (c[1] - c[0] + s->step - 1) / s->step;
	return c[1] > c[0] && p->trips > 1 && p->trips <= MOST_TRIPS;
}

/* Counts the reads of variables in a list of statements. Recursion is bounded by LOOPS_MAX_DEPTH. */
static void count_reads(const struct stmt *s, int *reads)
{
	for (; s; s = s->next) {
		const int in[4] = {s->a, s->b, s->c, s->d};
		for (int i = 0; s->op == ST_SET && i < vop_info[s->vop].args; i++)
			reads[in[i]]++;
		if (s->op == ST_STORE)
			reads[s->a]++;
		if (s->op == ST_FOR || s->op == ST_IF) {
			count_reads(s->body, reads);
			count_reads(s->other, reads);
		}
	}
}

/* Whether what the body loads is read by the body alone. */
static bool keeps_loads(struct gen *g, const struct pipe *p, const struct sources *src)
{
	int *inside = ARENA_ARRAY(g->a, int, g->l->nvars + 1);
	if (!g->reads) {
		g->reads = ARENA_ARRAY(g->a, int, g->l->nvars + 1);
		for (int i = 0; i < g->l->nentries; i++)
			count_reads(g->l->entry[i].body, g->reads);
	}
	count_reads(p->body, inside);
	for (int v = 0; v < g->l->nvars; v++)
		if (src->load[v] && inside[v] != g->reads[v])
			return false;
	return true;
}

static bool match(struct gen *g, const struct stmt *loop, struct pipe *p)
{
	*p = (struct pipe){.loop = loop, .body = inner_body(g, loop)};
	if (!p->body || !g->l->fma || !find_trips(p))
		return false;
	struct sources src = {ARENA_ARRAY(g->a, const struct stmt *, g->l->nvars + 1),
			      ARENA_ARRAY(g->a, int64_t, g->l->nvars + 1)};
	if (!find_loads(g, p, &src) || !find_sums(g, p, &src) || !keeps_loads(g, p, &src))
		return false;
	p->at = ARENA_ARRAY(g->a, int64_t, p->trips);
	if (!distances(g, p, p->weights, p->at))
		return false;
	for (int64_t t = 0; t < p->trips; t++)
		if (p->at[t] != t * STEP_BYTES)
			return false;
	return distances(g, p, p->in, p->at);
}

/* ---- assembly ---- */

/* Operands: the sums; addresses of loads; the running addresses of input and weights, the count of
 * iterations; then inputs: the sums again, the first addresses, constants. */
struct text {
	const struct pipe *p;
	struct buf b;
	int address, in, weights, count, in_0, weights_0, constants;
	int64_t constant[MOST_CONSTANTS];
	int nconstants;
	bool zero;   /* the sums start with 0 and are no inputs */
	bool failed; /* it needs more constants */
};

static int constant_of(struct text *x, int64_t c)
{
	int i = 0;
	while (i < x->nconstants && x->constant[i] != c)
		i++;
	if (i == MOST_CONSTANTS) {
		x->failed = true;
		return x->constants;
	}
	x->constant[i] = c;
	x->nconstants = i == x->nconstants ? i + 1 : x->nconstants;
	return x->constants + i;
}

/* to = from + c */
static void add(struct text *x, int to, int from, int64_t c)
{
	int64_t most = c < 0 ? -c : c;
	if (most < 4096 || (most % 4096 == 0 && most < 4096 * 4096))
		buf_printf(&x->b, "%s $%d, $%d, #%" PRId64 "\n", c < 0 ? "sub" : "add", to, from, most);
	else
		buf_printf(&x->b, "add $%d, $%d, $%d\n", to, from, constant_of(x, c));
}

/* Points that are loaded for the first or the second run. Four lie one channel to a register. */
static int loaded(const struct pipe *p, bool high)
{
	return high ? p->points - p->low : p->low + p->again;
}

static bool lie_together(const struct pipe *p)
{
	return p->apart == CHANNELS * 4;
}

static void load(struct text *x, const char *op, int first, int n, int address)
{
	buf_printf(&x->b, "%s {", op);
	for (int i = 0; i < n; i++)
		buf_printf(&x->b, "%sv%d.4s", i ? ", " : "", first + i);
	buf_printf(&x->b, "}, [$%d]\n", address);
}

static void load_points(struct text *x, bool high, int address)
{
	int n = loaded(x->p, high), first = FIRST_OPERAND + (high ? LANES : 0);
	if (n && lie_together(x->p))
		load(x, n == LANES ? "ld4" : "ld1", first, n, address);
	for (int i = 0; i < n && !lie_together(x->p); i++)
		buf_printf(&x->b, "ldr q%d, [$%d, #%" PRId64 "]\n", first + i, address, i * x->p->apart);
}

static void load_weights(struct text *x, bool high, int address)
{
	load(x, "ld1", FIRST_WEIGHT + (high ? LANES : 0), LANES, address);
}

/* The products of one channel and a run of points. */
static void products(struct text *x, bool high, int channel)
{
	const struct pipe *p = x->p;
	int first = high ? p->low : 0, end = high ? p->points : p->low;
	int base = FIRST_OPERAND + (high ? LANES : 0);
	for (int i = first; i < end; i++)
		for (int v = 0; v < VECTORS; v++) {
			int at = i - first;
			bool turned = loaded(p, high) == LANES && lie_together(p);
			buf_printf(&x->b, "fmla $%d.4s, v%d.4s, v%d.s[%d]\n", i * VECTORS + v,
				   FIRST_WEIGHT + channel * VECTORS + v, base + (turned ? channel : at),
				   turned ? at : channel);
		}
}

/* Addresses of a group of n steps: of step j the second half of its weights, and of the step behind it the
 * two runs of points and the first half of the weights; for the last step of the group the first run and the
 * weights are at the running addresses. */
static int high_weights(const struct text *x, int j)
{
	return x->address + 2 * j;
}

static int high_points(const struct text *x, int j)
{
	return x->address + 2 * j + 1;
}

static int low_points(const struct text *x, int j, int n)
{
	return j == n - 1 ? x->in : x->address + 2 * n + 2 * j;
}

static int low_weights(const struct text *x, int j, int n)
{
	return j == n - 1 ? x->weights : x->address + 2 * n + 2 * j + 1;
}

/* From the address of step i of the loop to that of step k, which may be the first one of the next
 * iteration. The last iteration begins again at the first addresses, for loads that nothing reads. */
static int64_t between(const struct pipe *p, int i, int k)
{
	return (k < p->trips ? p->at[k] : 0) - p->at[i];
}

static void addresses(struct text *x, int first, int n)
{
	const struct pipe *p = x->p;
	bool last = first + n == p->steps;
	if (last)
		buf_printf(&x->b, "subs $%d, $%d, #1\n", x->count, x->count);
	for (int j = 0; j + 1 < n; j++)
		add(x, low_points(x, j, n), x->in, between(p, first, first + j + 1));
	for (int j = 0; j < n; j++)
		add(x, high_weights(x, j), x->weights, STEP_BYTES * j + STEP_BYTES / 2);
	for (int j = 0; j + 1 < n; j++)
		add(x, low_weights(x, j, n), x->weights, STEP_BYTES * (j + 1));
	add(x, x->in, x->in, between(p, first, first + n));
	add(x, x->weights, x->weights, (int64_t)STEP_BYTES * n);
	for (int j = 0; j + 1 < n && p->low < p->points; j++)
		add(x, high_points(x, j), low_points(x, j, n), p->high_at);
	if (last) {
		buf_printf(&x->b, "csel $%d, $%d, $%d, eq\n", x->in, x->in_0, x->in);
		buf_printf(&x->b, "csel $%d, $%d, $%d, eq\n", x->weights, x->weights_0, x->weights);
	}
	if (p->low < p->points)
		add(x, high_points(x, n - 1), x->in, p->high_at);
}

static void step(struct text *x, int i)
{
	int g = group_of(x->p, i), first = group_begin(x->p, g), j = i - first,
	    n = group_begin(x->p, g + 1) - first;
	products(x, false, 0);
	if (j == 0)
		addresses(x, i, n);
	load_weights(x, true, high_weights(x, j));
	products(x, true, 0);
	products(x, false, 1);
	products(x, true, 1);
	load_weights(x, false, low_weights(x, j, n));
	products(x, false, 2);
	products(x, true, 2);
	products(x, false, 3);
	load_points(x, false, low_points(x, j, n));
	products(x, true, 3);
	load_points(x, true, high_points(x, j));
}

static void write_text(struct text *x)
{
	const struct pipe *p = x->p;
	for (int i = 0; x->zero && i < p->points * VECTORS; i++)
		buf_printf(&x->b, "movi $%d.2d, #0\n", i);
	buf_printf(&x->b, "mov $%d, $%d\nmov $%d, $%d\n", x->in, x->in_0, x->weights, x->weights_0);
	buf_printf(&x->b, "mov $%d, #%" PRId64 "\n", x->count, p->trips / p->steps);
	load_points(x, false, x->in);
	if (p->low < p->points)
		add(x, high_points(x, 0), x->in, p->high_at);
	load_points(x, true, high_points(x, 0));
	load_weights(x, false, x->weights);
	buf_puts(&x->b, "1:\n");
	for (int i = 0; i < p->steps; i++)
		step(x, i);
	buf_puts(&x->b, "b.ne 1b\n");
}

/* ---- the call ---- */

static void constraints(const struct text *x, int sums, struct buf *b)
{
	for (int i = 0; i < sums; i++)
		buf_printf(b, "%s=%s{v%d}", i ? "," : "", x->zero ? "&" : "", i);
	for (int i = x->address; i <= x->count; i++)
		buf_puts(b, ",=&r");
	for (int i = 0; i < sums && !x->zero; i++)
		buf_printf(b, ",{v%d}", i);
	for (int i = 0; i < 2 + x->nconstants; i++)
		buf_puts(b, ",r");
	for (int i = FIRST_OPERAND; i < 32; i++)
		buf_printf(b, ",~{v%d}", i);
	buf_puts(b, ",~{cc},~{memory}");
}

static LLVMValueRef address(struct gen *g, const struct mem *m)
{
	return LLVMBuildPtrToInt(g->b, gen_address(g, m, NULL), g->i64, "");
}

/* The builder is in the scope of the loop's first iteration. */
static void call(struct gen *g, const struct pipe *p, const struct text *x)
{
	LLVMTypeRef type[MOST_OPERANDS], in_type[POINTS * VECTORS + 2 + MOST_CONSTANTS];
	LLVMValueRef in[POINTS * VECTORS + 2 + MOST_CONSTANTS];
	int sums = p->points * VECTORS, n = 0, outs = x->count + 1;
	struct buf operands = {0};
	constraints(x, sums, &operands);
	for (int i = 0; i < outs; i++)
		type[i] = i < sums ? gen_type(g, UNIT_F32, LANES) : g->i64;
	for (int i = 0; i < sums && !x->zero; i++)
		in[n++] = g->cur[p->sum[i]];
	in[n++] = address(g, p->in);
	in[n++] = address(g, p->weights);
	for (int i = 0; i < x->nconstants; i++)
		in[n++] = gen_i64(g, x->constant[i]);
	for (int i = 0; i < n; i++)
		in_type[i] = LLVMTypeOf(in[i]);
	LLVMTypeRef result = LLVMStructTypeInContext(g->ctx, type, (unsigned)outs, false);
	LLVMTypeRef fn = LLVMFunctionType(result, in_type, (unsigned)n, false);
	LLVMValueRef code = LLVMGetInlineAsm(fn, x->b.p, x->b.n, operands.p, operands.n, true, false,
					     LLVMInlineAsmDialectATT, false);
	LLVMValueRef all = LLVMBuildCall2(g->b, fn, code, in, (unsigned)n, "");
	for (int i = 0; i < sums; i++)
		g->cur[p->sum[i]] = LLVMBuildExtractValue(g->b, all, (unsigned)i, "");
	buf_free(&operands);
}

/* A loop of the prefetches alone, ahead of the products. */
static void prefetch(struct gen *g, const struct pipe *p, LLVMValueRef lo)
{
	LLVMBasicBlockRef from = LLVMGetInsertBlock(g->b), head = gen_block(g, "fetch"),
			  done = gen_block(g, "fetched");
	LLVMValueRef hi = LLVMBuildNSWAdd(g->b, lo, gen_int(g, lo, p->trips * p->loop->step), "");
	LLVMBuildBr(g->b, head);
	LLVMPositionBuilderAtEnd(g->b, head);
	LLVMValueRef iv = g->iv[p->loop->var] = LLVMBuildPhi(g->b, LLVMTypeOf(lo), "");
	LLVMAddIncoming(iv, &lo, &from, 1);
	gen_open_scope(g);
	for (const struct stmt *s = p->body; s; s = s->next)
		if (s->op == ST_PREFETCH)
			gen_prefetch(g, s);
	gen_close_scope(g);
	LLVMBasicBlockRef latch = LLVMGetInsertBlock(g->b);
	LLVMValueRef next = LLVMBuildNSWAdd(g->b, iv, gen_int(g, iv, p->loop->step), "");
	LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, next, hi, ""), head, done);
	LLVMAddIncoming(iv, &next, &latch, 1);
	LLVMPositionBuilderAtEnd(g->b, done);
}

/* Writes the loop with addresses of up to `most` steps at once; false: it needs too many registers. */
static bool write_loop(struct gen *g, struct pipe *p, int most, struct text *x)
{
	*x = (struct text){.p = p, .zero = true};
	if (!find_steps(p, most))
		return false;
	int sums = p->points * VECTORS, numbers = 4 * largest_group(p) - 2 + 1 + 4;
	for (int i = 0; i < sums; i++)
		x->zero &= LLVMIsNull(g->cur[p->sum[i]]);
	x->address = sums;
	x->in = x->address + 4 * largest_group(p) - 2, x->weights = x->in + 1, x->count = x->in + 2;
	x->in_0 = x->count + 1 + (x->zero ? 0 : sums), x->weights_0 = x->in_0 + 1;
	x->constants = x->in_0 + 2;
	write_text(x);
	return !x->failed && numbers + x->nconstants <= MOST_NUMBERS && buf_ok(&x->b);
}

bool gen_pipe(struct gen *g, const struct stmt *s)
{
	struct pipe p;
	struct text x;
	if (!g->in_order || !match(g, s, &p))
		return false;
	bool good = false;
	for (int most = MOST_GROUP; most > 0 && !good; most--) {
		good = write_loop(g, &p, most, &x);
		if (!good)
			buf_free(&x.b);
	}
	if (!good)
		return false;
	LLVMValueRef lo = gen_as(g, gen_ix(g, s->lo), g->i64);
	if (p.prefetches)
		prefetch(g, &p, lo);
	g->iv[s->var] = lo;
	gen_open_scope(g);
	call(g, &p, &x);
	gen_close_scope(g);
	buf_free(&x.b);
	return true;
}

/* Whether a loop's body has only loads, prefetches and multiply-adds, as many as a step may have. */
static bool may_match(const struct gen *g, const struct stmt *loop)
{
	int n = 0;
	for (const struct stmt *s = inner_body(g, loop); s; s = s->next) {
		bool sets = s->op == ST_SET && (s->vop == V_FMA || s->vop == V_LOAD);
		if (!sets && s->op != ST_PREFETCH)
			return false;
		n += s->op == ST_SET && s->vop == V_FMA;
	}
	return n >= CHANNELS * VECTORS && n % (CHANNELS * VECTORS) == 0;
}

/* Recursion is bounded by LOOPS_MAX_DEPTH. */
bool gen_may_pipe(const struct gen *g, const struct stmt *s)
{
	for (; s; s = s->next) {
		bool block = s->op == ST_FOR || s->op == ST_IF;
		if (g->in_order && block &&
		    ((s->op == ST_FOR && may_match(g, s)) || gen_may_pipe(g, s->body) ||
		     gen_may_pipe(g, s->other)))
			return true;
	}
	return false;
}

LLVMValueRef gen_pipe_const(struct gen *g, float c, int lanes)
{
	struct pipe_const *k = &g->pipe_const;
	uint32_t bits;
	memcpy(&bits, &c, sizeof bits);
	LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b);
	if (k->block == here && k->bits == bits && k->lanes == lanes)
		return k->v;
	LLVMTypeRef fn = LLVMFunctionType(g->i32, &g->i32, 1, false);
	LLVMValueRef none =
	    LLVMGetInlineAsm(fn, "", 0, "=r,0", 4, true, false, LLVMInlineAsmDialectATT, false);
	LLVMValueRef in = LLVMConstInt(g->i32, bits, false);
	LLVMValueRef v = gen_splat(g, LLVMBuildCall2(g->b, fn, none, &in, 1, ""), lanes);
	*k = (struct pipe_const){here, bits, lanes, gen_bits(g, v, UNIT_F32, lanes)};
	return k->v;
}
