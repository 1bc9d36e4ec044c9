/* SPDX-License-Identifier: Apache-2.0 */
/* The register tile: accumulators, the body of the reduction, the scalar programs, stores. */
#include "kernels/loops/lower_parts.h"
#include "kernels/loops/vmath.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A value on the program's stack. m >= 0: the value is the product v * m, which is not computed yet (a
 * following addition makes it an FMA; an exact stage has none). whole: a whole value (task.h), s32 or f32. */
struct val {
	int v, m;
	bool is_imm, whole;
	float imm;
};

static int one_const(void *ctx, float imm, int lanes)
{
	return nest_const(ctx, imm, lanes);
}

/* The value in f32. */
static int settle(struct vmath *vm, struct val a)
{
	return a.m < 0 ? nest_float(vm->ctx, a.v) : vmath_op2(vm, V_MUL, a.v, a.m);
}

static struct val plain(int v)
{
	return (struct val){.v = v, .m = -1};
}

/* Operators that are one vector operation on computed operands. */
static const struct {
	bool known;
	enum vop op;
} direct[P_OPS] = {[P_SUB] = {true, V_SUB},   [P_DIV] = {true, V_DIV},     [P_MIN] = {true, V_MIN},
		   [P_MAX] = {true, V_MAX},   [P_NEG] = {true, V_NEG},     [P_ABS] = {true, V_ABS},
		   [P_SQRT] = {true, V_SQRT}, [P_FLOOR] = {true, V_FLOOR}, [P_CEIL] = {true, V_CEIL},
		   [P_RINT] = {true, V_RINT}};

static int (*const math1[P_OPS])(struct vmath *m, int x) = {
    [P_EXP] = vmath_exp, [P_LOG] = vmath_log,   [P_TANH] = vmath_tanh, [P_SIGMOID] = vmath_sigmoid,
    [P_ERF] = vmath_erf, [P_SILU] = vmath_silu, [P_GELU] = vmath_gelu};

static int to_s32(struct vmath *vm, int v)
{
	if (vm->l->type[v] == LV_S32)
		return v;
	int whole = lv_new_s32(vm->l, vm->lanes);
	lv_set(vm->l, whole, V_CVT, v, -1, -1, -1);
	return whole;
}

/* The sum or product of two whole values. */
static struct val of_whole(struct vmath *vm, enum vop op, struct val a, struct val b)
{
	int x = to_s32(vm, a.v), y = to_s32(vm, b.v), v = lv_new_s32(vm->l, vm->lanes);
	lv_set(vm->l, v, op, x, y, -1, -1);
	return (struct val){.v = v, .m = -1, .whole = true};
}

static struct val add(struct vmath *vm, struct val a, struct val b)
{
	if (a.whole && b.whole)
		return of_whole(vm, V_ADD, a, b);
	if (a.m < 0 && b.m >= 0) {
		struct val t = a;
		a = b;
		b = t;
	}
	if (a.m < 0)
		return plain(vmath_op2(vm, V_ADD, settle(vm, a), settle(vm, b)));
	return plain(vmath_fma(vm, a.v, a.m, settle(vm, b)));
}

static struct val power(struct vmath *vm, struct val a, struct val b)
{
	int base = settle(vm, a);
	if (b.is_imm && vmath_pow_exact(b.imm))
		return plain(vmath_pow_const(vm, base, b.imm));
	return plain(vmath_pow(vm, base, settle(vm, b)));
}

static struct val sign(struct vmath *vm, int x)
{
	int zero = one_const(vm->ctx, 0, vm->lanes), one = one_const(vm->ctx, 1, vm->lanes);
	int below = vmath_select(vm, V_SEL_LT, x, zero, one_const(vm->ctx, -1, vm->lanes), zero);
	return plain(vmath_select(vm, V_SEL_LT, zero, x, one, below));
}

static struct val compare(struct vmath *vm, enum prog_op op, int a, int b)
{
	enum vop sel = op == P_LT ? V_SEL_LT : op == P_LE ? V_SEL_LE : V_SEL_EQ;
	int one = one_const(vm->ctx, 1, vm->lanes);
	return plain(vmath_select(vm, sel, a, b, one, one_const(vm->ctx, 0, vm->lanes)));
}

/* a / c, rounded like a division (Markstein 1990) but in less than half of its time. It must be exact, as a
 * floor of the quotient may follow. */
static int quotient(struct vmath *vm, int a, float c)
{
	int r = one_const(vm->ctx, 1 / c, vm->lanes), q = vmath_op2(vm, V_MUL, a, r);
	int rest = vmath_fma(vm, q, one_const(vm->ctx, -c, vm->lanes), a);
	return vmath_select(vm, V_SEL_LE, vmath_op1(vm, V_ABS, rest), one_const(vm->ctx, FLT_MAX, vm->lanes),
			    vmath_fma(vm, rest, r, q), q);
}

/* One operator on its operands x[0 ..]. */
static struct val apply(struct vmath *vm, enum prog_op op, const struct val *x)
{
	if (op == P_ADD)
		return add(vm, x[0], x[1]);
	if (op == P_MUL && x[0].whole && x[1].whole)
		return of_whole(vm, V_MUL, x[0], x[1]);
	if (op == P_POW)
		return power(vm, x[0], x[1]);
	int a = settle(vm, x[0]), arity = prog_op_arity(op);
	int b = arity > 1 ? settle(vm, x[1]) : a;
	const struct nest *k = vm->ctx;
	if (op == P_MUL || op == P_SQUARE)
		return k->exact ? plain(vmath_op2(vm, V_MUL, a, b)) : (struct val){.v = a, .m = b};
	if (op == P_DIV && x[1].is_imm && isnormal(1 / x[1].imm) && vm->l->fma && !k->exact)
		return plain(quotient(vm, a, x[1].imm));
	if (direct[op].known)
		return plain(arity > 1 ? vmath_op2(vm, direct[op].op, a, b)
				       : vmath_op1(vm, direct[op].op, a));
	if (math1[op])
		return plain(math1[op](vm, a));
	if (op == P_RECIP)
		return plain(vmath_op2(vm, V_DIV, one_const(vm->ctx, 1, vm->lanes), a));
	if (op == P_SIGN)
		return sign(vm, a);
	if (op == P_SELECT)
		return plain(
		    vmath_select(vm, V_SEL_EQ, a, one_const(vm->ctx, 0, vm->lanes), settle(vm, x[2]), b));
	return compare(vm, op, a, b);
}

/* The value of a read in a program. A byte is s32 only where it is copied, as most programs need f32. */
static struct val read_val(struct nest *k, int read, const int *at, int lanes)
{
	int v = nest_load(k, read, at, lanes);
	enum dtype t = k->w->t->operand[k->st->read[read].operand].dtype;
	bool s32 = k->keeps_bytes || t == DT_I32;
	return (struct val){.v = s32 ? v : nest_float(k, v), .m = -1, .whole = dtype_is_whole(t)};
}

static bool acc_whole(const struct nest *k, int acc)
{
	return k->sum == SUM_SHORT || k->w->l->type[acc] == LV_S32;
}

static struct val eval(struct nest *k, const struct prog *p, const int *at, int acc, int lanes)
{
	struct val stack[MAX_PROG + 1];
	struct vmath vm = {k->w->l, lanes, k, one_const};
	int n = 0;
	for (int i = 0; i < p->n; i++) {
		enum prog_op op = (enum prog_op)p->at[i].op;
		int arity = prog_op_arity(op);
		struct val v;
		if (op == P_READ)
			v = read_val(k, p->at[i].arg, at, lanes);
		else if (op == P_ACC)
			v = (struct val){.v = acc, .m = -1, .whole = acc_whole(k, acc)};
		else if (op == P_IMM)
			v = (struct val){.v = nest_const(k, p->at[i].imm, lanes),
					 .m = -1,
					 .is_imm = true,
					 .imm = p->at[i].imm};
		else
			v = apply(&vm, op, &stack[n - arity]);
		n -= arity;
		stack[n++] = v;
	}
	return stack[n - 1];
}

static const struct {
	float neutral;
	enum vop op, across;
} comb[] = {[COMB_SUM] = {0, V_ADD, V_HADD},
	    [COMB_MAX] = {-INFINITY, V_MAX, V_HMAX},
	    [COMB_MIN] = {INFINITY, V_MIN, V_HMIN},
	    [COMB_PROD] = {1, V_MUL, V_HMUL}};

static int settled(struct nest *k, struct val v, int lanes)
{
	struct vmath vm = {k->w->l, lanes, k, one_const};
	return settle(&vm, v);
}

bool lower_zero_safe(const struct nest *k)
{
	const struct prog *p = &k->st->body;
	unsigned zero = 0;
	for (int i = 0; i < k->st->nreads; i++)
		if (k->axes[i] >> k->s->lane & 1)
			zero |= 1u << i;
	if (k->st->comb != COMB_SUM || p->n > 3 || p->at[0].op != P_READ)
		return false;
	bool first = zero >> p->at[0].arg & 1;
	if (p->n == 3)
		return p->at[1].op == P_READ && p->at[2].op == P_MUL && (first || (zero >> p->at[1].arg & 1));
	return first && (p->n == 1 || p->at[1].op == P_SQUARE || p->at[1].op == P_ABS);
}

/* Puts the neutral element into the lanes past the reduction's end. */
static int masked(struct nest *k, int v, const int *at)
{
	struct loops *l = k->w->l;
	int lane = k->s->lane, lanes = k->s->lanes;
	struct vmath vm = {l, lanes, k, one_const};
	int mask = lv_new(l, lanes);
	struct mem m = {.buf = k->w->scratch_buf, .at = k->w->ones, .stride = 1};
	m.valid = ix_sub(l, k->extent[lane], axis_value(k, lane, at[lane]));
	lv_load(l, mask, m);
	int zero = nest_const(k, 0, lanes), none = nest_const(k, comb[k->st->comb].neutral, lanes);
	return vmath_select(&vm, V_SEL_EQ, mask, zero, none, v);
}

/* Adds the products of groups. The first operand of the instruction may be unsigned, the second is signed. */
static void accumulate_dot(struct nest *k, const int *at, int acc)
{
	const struct prog *p = &k->st->body;
	enum dtype t[2];
	int v[2];
	for (int i = 0; i < 2; i++) {
		t[i] = k->w->t->operand[k->st->read[p->at[i].arg].operand].dtype;
		v[i] = nest_load(k, p->at[i].arg, at, k->s->lanes);
	}
	int first = t[1] == DT_U8;
	lv_dot4(k->w->l, acc, t[first] == DT_U8 ? V_DOT4U : V_DOT4S, v[first], v[1 - first], acc, false);
}

/* Adds the products of pairs. */
static void accumulate_pair(struct nest *k, const int *at, int acc)
{
	int v[2];
	for (int i = 0; i < 2; i++)
		v[i] = nest_load(k, k->st->body.at[i].arg, at, k->s->lanes);
	lv_set(k->w->l, acc, V_BDOT2, v[0], v[1], acc, -1);
}

/* The same in f16. */
static void accumulate_half(struct nest *k, const int *at, int acc)
{
	int v[2];
	for (int i = 0; i < 2; i++)
		v[i] = nest_load(k, k->st->body.at[i].arg, at, k->s->lanes);
	lv_set(k->w->l, acc, V_FMA2, v[0], v[1], acc, -1);
}

static void accumulate_whole(struct nest *k, const int *at, int acc)
{
	const struct prog *p = &k->st->body;
	struct loops *l = k->w->l;
	int lanes = k->s->lanes, v = nest_load(k, p->at[0].arg, at, lanes);
	if (p->n == 3) {
		int product = lv_new_s32(l, lanes);
		lv_set(l, product, V_MUL, v, nest_load(k, p->at[1].arg, at, lanes), -1, -1);
		v = product;
	}
	lv_set(l, acc, V_ADD, acc, v, -1, -1);
}

/* Fused or not, the sum is the same. */
static void accumulate_short(struct nest *k, const int *at, int acc)
{
	const struct prog *p = &k->st->body;
	int lanes = k->s->lanes, v = nest_load(k, p->at[0].arg, at, lanes);
	if (p->n == 3)
		lv_set(k->w->l, acc, V_FMA, v, nest_load(k, p->at[1].arg, at, lanes), acc, -1);
	else
		lv_set(k->w->l, acc, V_ADD, acc, v, -1, -1);
}

static void accumulate(struct nest *k, const int *at, int acc)
{
	struct loops *l = k->w->l;
	int lane = k->s->lane;
	static void (*const whole[])(struct nest *, const int *, int) = {[SUM_SHORT] = accumulate_short,
									 [SUM_WHOLE] = accumulate_whole,
									 [SUM_DOT] = accumulate_dot,
									 [SUM_PAIR] = accumulate_pair,
									 [SUM_HALF] = accumulate_half};
	if (whole[k->sum]) {
		whole[k->sum](k, at, acc);
		return;
	}
	struct val v = eval(k, &k->st->body, at, -1, k->s->lanes);
	if (lane >= k->ns && k->last_masked && at[lane] == k->n[lane] - 1 && !lower_zero_safe(k))
		v = plain(masked(k, settled(k, v, k->s->lanes), at));
	if (v.m >= 0 && k->st->comb == COMB_SUM)
		lv_set(l, acc, V_FMA, v.v, v.m, acc, -1);
	else if (k->keeps_bytes)
		lv_set(l, acc, V_MAX, acc, v.v, -1, -1);
	else
		lv_set(l, acc, comb[k->st->comb].op, acc, settled(k, v, k->s->lanes), -1, -1);
}

/* Elements between the windows of neighbouring points of the tile, if taps along axis a are adjacent. */
static int64_t window_stride(const struct nest *k, int a)
{
	for (int i = 0; i < k->st->nreads; i++)
		for (int d = 0; d < k->w->t->operand[k->st->read[i].operand].dims.rank; d++)
			for (int b = 0; b < k->ns && k->st->read[i].dim[d].coef[a] == 1; b++)
				if (b != k->s->lane && k->n[b] > 1 && k->st->read[i].dim[d].coef[b] > 1)
					return k->st->read[i].dim[d].coef[b];
	return 1;
}

/* The i-th of n taps. Taps that read the same elements for neighbouring points follow one another (with a
 * stride of 2 the even ones first), so that few shared values must be held. */
static int tap(int64_t stride, int n, int i)
{
	for (int first = 0; first < stride && first < n; first++) {
		int count = (int)((n - first + stride - 1) / stride);
		if (i < count)
			return (int)(first + i * stride);
		i -= count;
	}
	return i;
}

void nest_steps(struct nest *k)
{
	if (k->s->quads) {
		nest_quads(k);
		return;
	}
	if (k->s->mmla) {
		nest_mmla(k);
		return;
	}
	int at[MAX_AXES] = {0}, next[MAX_AXES] = {0}, step = 0, steps = 1;
	const int *sum = k->half ? k->half : k->acc;
	int64_t stride[MAX_AXES];
	for (int a = k->ns; a < k->st->naxes; a++) {
		steps *= k->n[a];
		stride[a] = window_stride(k, a);
	}
	do {
		int point = 0;
		for (int a = k->ns; a < k->st->naxes; a++)
			at[a] = tap(stride[a], k->n[a], next[a]);
		nest_fetch(k, step, steps);
		if (!step)
			nest_feed(k);
		do
			accumulate(k, at, sum[point++ * k->s->chains + step % k->s->chains]);
		while (nest_next(k, 0, k->ns, at));
		step++;
	} while (nest_next(k, k->ns, k->st->naxes, next));
}

static void start_neutral(struct nest *k)
{
	int32_t whole = k->keeps_bytes ? (int32_t)byte_least(k->w->t->operand[k->st->out.operand].dtype) : 0;
	for (int i = 0; i < k->nacc; i++)
		if (k->w->l->type[k->acc[i]] == LV_S32)
			lv_const_s32(k->w->l, k->acc[i], whole);
		else
			lv_const(k->w->l, k->acc[i], comb[k->st->comb].neutral);
}

/* Loads the partial results of a split reduction from the output. */
static void start_partial(struct nest *k)
{
	int at[MAX_AXES] = {0}, i = 0;
	start_neutral(k);
	do {
		lv_load(k->w->l, k->acc[i], nest_mem(k, k->st->nreads, at, k->s->lanes));
		i += k->s->chains;
	} while (nest_next(k, 0, k->ns, at));
}

/* Starts the sums with the bias, which saves an addition at the end. */
static void start_bias(struct nest *k)
{
	int at[MAX_AXES] = {0}, i = 0;
	do
		lv_set(k->w->l, k->acc[i++], V_COPY, nest_load(k, k->bias, at, k->s->lanes), -1, -1, -1);
	while (nest_next(k, 0, k->ns, at));
}

/* Makes the variables of the sums. */
static void make_sums(struct nest *k)
{
	int at[MAX_AXES] = {0};
	k->npoints = 0;
	do
		k->npoints++;
	while (nest_next(k, 0, k->ns, at));
	k->nacc = k->npoints * k->s->chains;
	k->acc = ARENA_ARRAY(k->w->l->arena, int, k->nacc);
	bool whole = k->sum == SUM_DOT || k->sum == SUM_WHOLE || k->keeps_bytes ||
		     (k->w->frags && k->w->frags->sums == DT_I32);
	for (int i = 0; i < k->nacc; i++)
		k->acc[i] = (whole ? lv_new_s32 : lv_new)(k->w->l, k->s->lanes);
}

static void start(struct nest *k)
{
	if (!k->part || k->s->spread) {
		(k->bias >= 0 ? start_bias : start_neutral)(k);
		return;
	}
	struct stmt *s = if_begin(k->w->l, ix_eq(k->w->l, k->part, ix_c(k->w->l, 0)));
	start_neutral(k);
	if_else(k->w->l, s);
	start_partial(k);
	if_end(k->w->l, s);
}

/* The same for sums that lie in blocks, if the schedule says so. */
static void start_sums(struct nest *k)
{
	start(k);
	if (!k->s->mmla)
		return;
	nest_mmla_sums(k);
	if (k->bias >= 0)
		nest_mmla_turn(k);
}

enum vop nest_combiner(const struct nest *k)
{
	return comb[k->st->comb].op;
}

/* Combines the chains: the sums are in acc[point * chains]. */
static void combine_chains(struct nest *k)
{
	int chains = k->s->chains;
	for (int p = 0; p < k->npoints; p++)
		for (int c = 1; c < chains && k->sum != SUM_HALF; c++)
			lv_set(k->w->l, k->acc[p * chains], comb[k->st->comb].op, k->acc[p * chains],
			       k->acc[p * chains + c], -1, -1);
}

/* Combines the lanes of a reduction: the result of each point is in acc[point * chains]. True: the results
 * are stored too. */
static bool combine_lanes(struct nest *k)
{
	struct loops *l = k->w->l;
	if (k->s->lane < k->ns)
		return false;
	if (k->npoints > 1)
		return nest_across(k);
	int one = nest_like(l, k->acc[0], 1);
	lv_set(l, one, comb[k->st->comb].across, k->acc[0], -1, -1, -1);
	k->acc[0] = one;
	return false;
}

static void finish(struct nest *k, bool post);

static struct mem output_place(const struct nest *k, const int *at, const struct ix *first)
{
	(void)first;
	return nest_mem(k, k->st->nreads, at, k->s->lanes);
}

/* Stores the sums and then applies a long program in a loop over one axis of the tile: unrolled for every
 * point, its constants and temporaries would push the sums out of registers. */
static bool finish_loop(struct nest *k)
{
	int axis = -1;
	for (int a = 0; a < k->ns; a++)
		if (a != k->s->lane && k->n[a] > 1 && (axis < 0 || k->n[a] > k->n[axis]))
			axis = a;
	if (axis < 0 || !stage_long_post(k->st) || k->s->lane >= k->ns || k->gives_s32)
		return false;
	finish(k, false);
	nest_post_loop(k, axis, output_place);
	return true;
}

int nest_post(struct nest *k, const int *at, int acc)
{
	int lanes = k->w->l->lanes[acc];
	if (k->keeps_bytes)
		return acc;
	if (k->gives_s32) {
		struct vmath vm = {k->w->l, lanes, k, one_const};
		return to_s32(&vm, k->post.n ? eval(k, &k->post, at, acc, lanes).v : acc);
	}
	return k->post.n ? settled(k, eval(k, &k->post, at, acc, lanes), lanes) : nest_float(k, acc);
}

/* The byte of a clamped result, in s32. */
static int to_byte(struct nest *k, struct vmath *vm, int v)
{
	struct loops *l = k->w->l;
	v = to_s32(vm, v);
	if (k->zero == 0)
		return v;
	int zero = lv_new_s32(l, vm->lanes), sum = lv_new_s32(l, vm->lanes);
	lv_const_s32(l, zero, (int32_t)k->zero);
	lv_set(l, sum, V_ADD, v, zero, -1, -1);
	return sum;
}

/* Clamps a result of an exact stage so that its byte is in range. */
static int clamped(struct nest *k, struct vmath *vm, int v)
{
	enum dtype t = k->w->t->operand[k->st->out.operand].dtype;
	v = vmath_op2(vm, V_MAX, v, nest_const(k, byte_least(t) - k->zero, vm->lanes));
	return vmath_op2(vm, V_MIN, v, nest_const(k, byte_greatest(t) - k->zero, vm->lanes));
}

int nest_bytes(struct nest *k, int v)
{
	struct vmath vm = {k->w->l, k->w->l->lanes[v], k, one_const};
	return to_byte(k, &vm, clamped(k, &vm, v));
}

void nest_store(struct nest *k, int v, struct mem m)
{
	if (dtype_is_byte(k->w->t->operand[k->st->out.operand].dtype) && !k->keeps_bytes)
		v = nest_bytes(k, v);
	lv_store(k->w->l, v, m);
}

static void finish(struct nest *k, bool post)
{
	int at[MAX_AXES] = {0}, point = 0, lanes = k->s->lane >= k->ns ? 1 : k->s->lanes;
	if (post && k->turn >= 0 && k->n[k->turn] >= 3) {
		nest_turn(k);
		return;
	}
	if (post && nest_weaves(k)) {
		nest_weave(k);
		return;
	}
	if (post && (finish_loop(k) || (k->s->quads && nest_quads_finish(k))))
		return;
	do {
		int v = post ? nest_post(k, at, k->acc[point]) : nest_float(k, k->acc[point]);
		nest_store(k, v, nest_mem(k, k->st->nreads, at, lanes));
		point += k->s->chains;
	} while (nest_next(k, 0, k->ns, at));
}

static void finish_part(struct nest *k)
{
	struct loops *l = k->w->l;
	int64_t extent = 0;
	ix_is_const(k->extent[k->s->split_axis], &extent);
	const struct ix *last = ix_c(l, (extent - 1) / k->s->split);
	int known = k->nknown;
	struct stmt *s = if_begin(l, ix_eq(l, k->part, last));
	finish(k, true);
	if_else(l, s);
	k->nknown = known;
	finish(k, false);
	if_end(l, s);
}

static int map_point(struct nest *k, const int *at)
{
	int lanes = k->s->lanes;
	struct val body = eval(k, &k->body, at, -1, lanes);
	struct vmath vm = {k->w->l, lanes, k, one_const};
	int v = !body.whole ? settled(k, body, lanes) : k->post.n ? to_s32(&vm, body.v) : body.v;
	return nest_post(k, at, v);
}

/* Computes the points along the woven axis that begin at at[]. */
static void map_woven(struct nest *k, int *at)
{
	int point[16];
	for (int m = 0; m < k->n[k->weave]; m++) {
		at[k->weave] = m;
		point[m] = map_point(k, at);
	}
	at[k->weave] = 0;
	nest_lace(k, at, point);
}

/* Without a reduction: computes and stores each point in turn; with exp or similar, interleaves the steps of
 * all points (lower_post.c says why). */
static void map(struct nest *k)
{
	struct stmt **mark[SCHED_POINTS];
	int at[MAX_AXES] = {0}, lanes = k->s->lanes, runs = 0;
	bool woven = nest_weaves(k);
	do {
		if (woven && at[k->weave])
			continue;
		mark[runs++] = loops_mark(k->w->l);
		if (woven)
			map_woven(k, at);
		else
			nest_store(k, map_point(k, at), nest_mem(k, k->st->nreads, at, lanes));
	} while (nest_next(k, 0, k->ns, at));
	if (stage_long_body(k->st))
		loops_interleave(k->w->l, mark, runs);
}

static void one_tile(struct nest *k)
{
	if (k->st->comb == COMB_NONE)
		map(k);
	else {
		make_sums(k);
		if (k->sums_parts) {
			spread_load(k);
		} else if (k->sum == SUM_HALF) {
			half_reduce(k, start);
		} else {
			start_sums(k);
			nest_reduce(k, 0);
		}
		if (k->s->mmla)
			nest_mmla_turn(k);
		combine_chains(k);
		struct stmt *one = k->member ? team_combine(k) : NULL;
		bool stored = combine_lanes(k);
		if (k->part && k->s->spread)
			spread_store(k);
		else if (k->part)
			finish_part(k);
		else if (!stored)
			finish(k, true);
		if (one)
			if_end(k->w->l, one);
	}
}

/* Moves the nest by n points along an axis. What is known of a point is known of the one n before it. */
static void move_on(struct nest *k, int axis, int n)
{
	k->base[axis] = ix_add(k->w->l, k->base[axis], ix_c(k->w->l, n));
	for (int i = k->floor; i < k->nknown; i++)
		if (k->known[i].read >= 0 && k->axes[k->known[i].read] >> axis & 1)
			k->known[i].at[axis] = (int16_t)(k->known[i].at[axis] - n);
}

/* The tiles that an item makes one after the other: the loads of each stay known for the next. */
static void tiles_down(struct nest *k, int axis)
{
	int known = k->nknown, all = k->n[axis], rows = k->s->tile[axis], done = 0;
	const struct ix *base = k->base[axis];
	for (; done < all; done += k->n[axis]) {
		k->n[axis] = all - done < rows ? all - done : rows;
		one_tile(k);
		move_on(k, axis, k->n[axis]);
	}
	k->nknown = known;
	k->base[axis] = base;
	k->n[axis] = all;
}

static void tile(struct nest *k)
{
	int known = k->nknown;
	if (k->s->down_axis >= 0)
		tiles_down(k, k->s->down_axis);
	else
		one_tile(k);
	k->nknown = known;
}

static bool slides(const struct nest *k, int axis)
{
	for (int i = 0; i < k->st->nreads; i++)
		for (int d = 0; d < k->w->t->operand[k->st->read[i].operand].dims.rank; d++)
			if (k->st->read[i].dim[d].coef[axis] &&
			    index_guarded(k->w->t, k->st, &k->st->read[i], d))
				return true;
	return false;
}

/* A tile with guards: goes point by point along the axes that may leave the operand, because a guard is a
 * branch around every load. */
static void edge(struct nest *k, int from)
{
	struct loops *l = k->w->l;
	int a = from, known = k->nknown, floor = k->floor;
	while (a < k->ns && (a == k->s->lane || k->n[a] == 1 || !slides(k, a)))
		a++;
	if (a == k->ns) {
		tile(k);
		return;
	}
	const struct ix *base = k->base[a], *i;
	int n = k->n[a];
	struct stmt *f = for_begin(l, ix_c(l, 0), ix_c(l, n), 1, true, &i);
	k->base[a] = ix_add(l, base, i);
	k->n[a] = 1;
	k->floor = k->nknown; /* known values belong to other points */
	edge(k, a + 1);
	for_end(l, f);
	k->base[a] = base;
	k->n[a] = n;
	k->nknown = known;
	k->floor = floor;
}

/* The guarded version of a tile, point by point. */
static void guarded(struct nest *k)
{
	k->edge = true;
	edge(k, 0);
	k->edge = false;
}

void nest_tile(struct nest *k)
{
	struct loops *l = k->w->l;
	int64_t yes;
	if (k->next_rows >= 0)
		nest_fetch_rows(k);
	bool apart = k->guarded && k->s->mmla && !k->mmla.run; /* a guard does not hold for several points */
	if (!k->versioned) {
		(apart ? guarded : tile)(k);
		return;
	}
	const struct ix *interior = nest_interior(k);
	bool fixed = ix_is_const(interior, &yes);
	if (apart && fixed && !yes) {
		guarded(k);
		return;
	}
	struct stmt *s = fixed ? NULL : if_begin(l, interior);
	k->unguard = !fixed || yes;
	tile(k);
	k->unguard = false;
	if (!s)
		return;
	if_else(l, s);
	guarded(k);
	if_end(l, s);
}
