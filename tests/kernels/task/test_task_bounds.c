/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, look-ups and writes that are just inside or just outside of their operand: task_check must accept
 * exactly those that an enumeration of all points finds inside. */
#include "kernels/space/space.h"
#include "tests/lib/kernel_cases.h"
#include "tests/lib/test.h"

static struct task task, other;

static const struct target tg = {.isa = "sim",
				 .cpu = "sim",
				 .lanes = 4,
				 .regs = 16,
				 .l1_bytes = 32 << 10,
				 .l2_bytes = 256 << 10,
				 .line_bytes = 64,
				 .cores = 1,
				 .fma_gflops = 8,
				 .bw_gbs = {16, 12, 4, 4},
				 .copy_gbs = 4};

static int64_t below(struct rng *r, int64_t n)
{
	return (int64_t)rng_below(r, (uint32_t)n);
}

/* ---- the walk ---- */

struct reach {
	int64_t least, most;
};

/* Enumerates all points of the stage with symbols replaced; independent of task_check's arithmetic. */
static struct reach walk(const struct stage *s, const struct index *x, const int64_t *sym)
{
	struct reach r = {INT64_MAX, INT64_MIN};
	int64_t at[MAX_AXES] = {0};
	int a;
	do {
		int64_t v = IS_SYM(x->off) ? sym[SYM_INDEX(x->off)] : x->off;
		for (int i = 0; i < s->naxes; i++)
			v += at[i] * (IS_SYM(x->coef[i]) ? sym[SYM_INDEX(x->coef[i])] : x->coef[i]);
		if (x->div > 1)
			v = (v - ((v % x->div + x->div) % x->div)) / x->div;
		if (x->mod > 1)
			v = (v % x->mod + x->mod) % x->mod;
		r.least = v < r.least ? v : r.least;
		r.most = v > r.most ? v : r.most;
		for (a = s->naxes - 1; a >= 0; a--) {
			int64_t e = s->axis[a].extent;
			if (++at[a] < (IS_SYM(e) ? sym[SYM_INDEX(e)] : e))
				break;
			at[a] = 0;
		}
	} while (a >= 0);
	return r;
}

/* ---- tasks ---- */

static struct operand *add_operand(struct task *t, const char *name, enum role role, enum dtype dtype)
{
	struct operand *o = &t->operand[t->noperands++];
	snprintf(o->name, sizeof o->name, "%s", name);
	o->role = role;
	o->dtype = dtype;
	return o;
}

/* Axes of constant extent, the last ones reduced; the output has the size of the other axes. */
static void random_stage(struct rng *r, struct task *t)
{
	struct stage *s = &t->stage[0];
	int rank = 1 + (int)below(r, 2), nred = (int)below(r, 3);
	memset(t, 0, sizeof *t);
	t->nstages = 1;
	s->naxes = rank + nred;
	struct operand *x = add_operand(t, "X", ROLE_IN, DT_F32), *y = add_operand(t, "Y", ROLE_OUT, DT_F32);
	x->fill = -1;
	for (int a = 0; a < s->naxes; a++) {
		snprintf(s->axis[a].name, 8, "a%c", '0' + a);
		s->axis[a].kind = a < rank ? AXIS_SPATIAL : AXIS_REDUCTION;
		s->axis[a].extent = 1 + below(r, 5);
	}
	s->nreads = 1;
	s->out.operand = 1;
	for (int d = 0; d < MAX_RANK; d++)
		s->read[0].dim[d].table = s->out.dim[d].table = -1;
	y->dims.rank = rank;
	for (int d = 0; d < rank; d++) {
		y->dims.d[d] = s->axis[d].extent;
		s->out.dim[d].coef[d] = 1;
	}
	s->comb = nred ? COMB_MAX : COMB_NONE; /* exact in any order */
	s->body.n = 1;
	s->body.at[0].op = P_READ;
}

/* Adds an axis and a dim of the output, of size $0: the task becomes generic, and no other index depends on
 * it. */
static void make_generic(struct task *t)
{
	struct stage *s = &t->stage[0];
	struct operand *y = &t->operand[1];
	int d = y->dims.rank++;
	memmove(&s->axis[d + 1], &s->axis[d], sizeof *s->axis * (size_t)(s->naxes++ - d));
	s->axis[d] = (struct axis){"z", AXIS_SPATIAL, SYM(0)};
	for (int k = 0; k < MAX_RANK; k++)
		memmove(&s->read[0].dim[k].coef[d + 1], &s->read[0].dim[k].coef[d],
			sizeof(int64_t) * (size_t)(MAX_AXES - 1 - d));
	for (int k = 0; k < MAX_RANK; k++)
		s->read[0].dim[k].coef[d] = 0;
	y->dims.d[d] = SYM(0);
	s->out.dim[d].coef[d] = 1;
	t->nsyms = 1;
}

/* Windows, strides, dilations, steps back, division and remainder. */
static void random_index(struct rng *r, const struct stage *s, struct index *x)
{
	for (int a = 0; a < s->naxes; a++)
		x->coef[a] = below(r, 3) ? below(r, 7) - 3 : 0;
	x->off = below(r, 9) - 4;
	x->div = below(r, 3) ? 0 : 2 + below(r, 3);
	x->mod = below(r, 3) ? 0 : 2 + below(r, 6);
}

/* Moves the index so that it begins at -lo or one beside it; returns a size such that it ends there, less hi,
 * or one beside it. */
static int64_t barely(struct rng *r, const struct stage *s, struct index *x, int64_t lo, int64_t hi)
{
	struct reach w = walk(s, x, NULL);
	if (x->mod <= 1)
		x->off += (-lo + below(r, 3) - 1 - w.least) * (x->div > 1 ? x->div : 1);
	int64_t size = walk(s, x, NULL).most + 1 - hi + below(r, 3) - 1;
	return size < 1 ? 1 : size;
}

struct tally {
	int inside, low, high;
};

/* Returns whether the range is inside. */
static bool count(struct tally *n, struct reach w, int64_t lo, int64_t end)
{
	bool inside = w.least >= -lo && w.most < end;
	n->low += w.least == -lo - 1;
	n->high += w.most == end;
	n->inside += inside && (w.least == -lo || w.most == end - 1);
	return inside;
}

/* Whether task_check accepts the task; it must accept its text too. */
static bool accepted(const struct task *t)
{
	struct buf b = {0};
	int rc = task_check(t);
	task_text(t, &b);
	CHECK(task_parse(buf_str(&b), &other) == rc);
	buf_free(&b);
	CHECK(rc == E_OK || rc == E_CORRUPT);
	return rc >= 0;
}

static void show(const char *what, int i, const struct task *t, bool inside)
{
	struct buf b = {0};
	task_text(t, &b);
	printf("%s %d: %s, task_check: %s\n%s", what, i, inside ? "inside" : "outside",
	       task_check(t) < 0 ? err_text() : "good", buf_str(&b));
	buf_free(&b);
}

/* Accepted tasks run: the interpreter checks every access, and the reference runs too. */
static void runs(struct task *constant, const struct task *t, const int64_t *syms)
{
	static struct kcase c;
	struct rng r;
	struct space *space;
	struct arena a = {0};
	struct buf b = {0};
	char cand[CAND_MAX];
	bool infeasible;
	rng_seed(&r, 1);
	task_text(constant, &b);
	REQUIRE_OK(case_parse(&c, buf_str(&b), &r));
	REQUIRE_OK(space_make(&a, t, &tg, NULL, &space));
	space_default(space, cand);
	double err = case_interpret_task(&c, t, syms, cand, &tg, &infeasible);
	if (!infeasible && err != 0) {
		printf("error %g with %s\n", err, cand);
		show("run", 0, t, true);
	}
	CHECK(infeasible || err == 0);
	arena_free(&c.a);
	arena_free(&a);
	buf_free(&b);
}

/* ---- reads ---- */

static void random_read(struct rng *r, struct task *t)
{
	struct stage *s = &t->stage[0];
	struct operand *x = &t->operand[0];
	x->dims.rank = 1 + (int)below(r, 3);
	for (int d = 0; d < x->dims.rank; d++) {
		x->layout.lo[d] = below(r, 2) ? below(r, 3) : 0;
		x->layout.hi[d] = below(r, 2) ? below(r, 3) : 0;
		random_index(r, s, &s->read[0].dim[d]);
		x->dims.d[d] = barely(r, s, &s->read[0].dim[d], x->layout.lo[d], x->layout.hi[d]);
	}
}

/* Makes z a single point. */
static void make_constant(const struct task *t, struct task *out)
{
	*out = *t;
	out->nsyms = 0;
	for (int a = 0; a < out->stage[0].naxes; a++)
		if (IS_SYM(out->stage[0].axis[a].extent))
			out->stage[0].axis[a].extent = 1;
	for (int d = 0; d < out->operand[1].dims.rank; d++)
		if (IS_SYM(out->operand[1].dims.d[d]))
			out->operand[1].dims.d[d] = 1;
	for (int d = 0; d < MAX_RANK; d++)
		out->stage[0].read[0].dim[d].guard = false;
}

TEST(unguarded_reads_stay_inside)
{
	static struct task constant;
	struct tally n = {0};
	struct rng r;
	rng_seed(&r, 21);
	for (int i = 0; i < 60000; i++) {
		const int64_t one = 1;
		random_stage(&r, &task);
		random_read(&r, &task);
		make_generic(&task);
		const struct operand *x = &task.operand[0];
		bool inside = true, all = true;
		for (int d = 0; d < x->dims.rank; d++) {
			const struct layout *l = &x->layout;
			bool in = count(&n, walk(&task.stage[0], &task.stage[0].read[0].dim[d], &one),
					l->lo[d], x->dims.d[d] + l->hi[d]);
			bool guard = task.stage[0].read[0].dim[d].guard = below(&r, 3) == 0;
			inside &= in || guard;
			all &= in;
		}
		bool good = accepted(&task);
		if (good != inside)
			show("read", i, &task, inside);
		REQUIRE(good == inside);
		make_constant(&task, &constant); /* guards are found there */
		CHECK_OK(task_check(&constant));
		for (int d = 0; d < x->dims.rank && !all; d++)
			all |= index_guarded(&constant, &constant.stage[0], &constant.stage[0].read[0], d);
		CHECK(all);
		if (good && i % 8 == 0)
			runs(&constant, &task, &one);
	}
	CHECK(n.inside > 10000 && n.low > 5000 && n.high > 5000);
}

/* ---- tables ---- */

TEST(lookups_stay_inside)
{
	struct tally n = {0};
	struct rng r;
	rng_seed(&r, 22);
	for (int i = 0; i < 30000; i++) {
		random_stage(&r, &task);
		struct stage *s = &task.stage[0];
		struct operand *x = &task.operand[0], *table = add_operand(&task, "T", ROLE_CONST, DT_I32);
		random_index(&r, s, &s->read[0].dim[0]);
		x->dims.rank = table->dims.rank = 1;
		table->dims.d[0] = x->dims.d[0] = barely(&r, s, &s->read[0].dim[0], 0, 0);
		s->read[0].dim[0].table = 2;
		bool inside = count(&n, walk(s, &s->read[0].dim[0], NULL), 0, table->dims.d[0]);
		bool good = accepted(&task);
		if (good != inside)
			show("table", i, &task, inside);
		REQUIRE(good == inside);
		if (good && i % 8 == 0)
			runs(&task, &task, NULL);
	}
	CHECK(n.inside > 5000 && n.low > 2000 && n.high > 5000);
}

/* ---- writes ---- */

/* Digits of each dim, and then perhaps one number changed by one. */
static void random_write(struct rng *r, struct task *t)
{
	struct stage *s = &t->stage[0];
	struct operand *y = &t->operand[1];
	int rank = 1 + (int)below(r, 3), naxes = (int)below(r, 5);
	memset(t, 0, sizeof *t);
	t->nstages = 1;
	add_operand(t, "X", ROLE_IN, DT_F32);
	add_operand(t, "Y", ROLE_OUT, DT_F32);
	s->naxes = naxes;
	s->nreads = 1;
	s->out.operand = 1;
	y->dims.rank = rank;
	for (int d = 0; d < MAX_RANK; d++) {
		s->read[0].dim[d].table = s->out.dim[d].table = -1;
		y->dims.d[d] = d < rank;
	}
	for (int a = 0; a < naxes; a++) {
		int d = (int)below(r, rank);
		snprintf(s->axis[a].name, 8, "a%c", '0' + a);
		s->axis[a].extent = 1 + below(r, 4);
		s->out.dim[d].coef[a] = y->dims.d[d];
		y->dims.d[d] *= s->axis[a].extent;
	}
	s->body.n = 1;
	s->body.at[0].op = P_READ;
	int d = (int)below(r, rank);
	switch (below(r, 5)) {
	case 0:
		s->out.dim[d].off += below(r, 2) ? 1 : -1;
		break;
	case 1:
		y->dims.d[d] += below(r, 2) || y->dims.d[d] == 1 ? 1 : -1;
		break;
	case 2:
		if (naxes)
			s->out.dim[d].coef[below(r, naxes)] += 1;
		break;
	case 3:
		if (naxes)
			s->axis[below(r, naxes)].extent += 1;
		break;
	default:
		break;
	}
}

/* Whether every element is written exactly once, and nothing else. */
static bool writes_whole(const struct task *t)
{
	static unsigned char seen[1 << 16];
	const struct stage *s = &t->stage[0];
	const struct operand *y = &t->operand[1];
	int64_t at[MAX_AXES] = {0}, n = shape_count(&y->dims), written = 0;
	int a;
	memset(seen, 0, sizeof seen);
	do {
		int64_t off = 0;
		for (int d = 0; d < y->dims.rank; d++) {
			int64_t v = s->out.dim[d].off;
			for (int i = 0; i < s->naxes; i++)
				v += at[i] * s->out.dim[d].coef[i];
			if (v < 0 || v >= y->dims.d[d])
				return false;
			off = off * y->dims.d[d] + v;
		}
		if (seen[off]++)
			return false;
		written++;
		for (a = s->naxes - 1; a >= 0 && ++at[a] == s->axis[a].extent; a--)
			at[a] = 0;
	} while (a >= 0);
	return written == n;
}

TEST(writes_cover_their_output)
{
	int good = 0, bad = 0;
	struct rng r;
	rng_seed(&r, 23);
	for (int i = 0; i < 30000; i++) {
		random_write(&r, &task);
		bool whole = writes_whole(&task), ok = accepted(&task);
		if (ok != whole)
			show("write", i, &task, whole);
		REQUIRE(ok == whole);
		good += ok;
		bad += !ok;
		if (ok && i % 8 == 0)
			runs(&task, &task, NULL);
	}
	CHECK(good > 5000 && bad > 10000);
}

/* ---- symbols ---- */

enum { VALUES = 4 };
static const int64_t values[VALUES] = {1, 2, 3, 40}; /* a size or a halo is one of these, or of 0 to 39 */

static int64_t size_or_symbol(struct rng *r, int sym, int64_t value)
{
	return below(r, 2) ? SYM(sym) : value;
}

/* X of one dim $0 or constant, with halos $2 and $3 or constant, read along a:$0 (or $1, or constant) and b.
 */
static void random_symbolic(struct rng *r, struct task *t)
{
	struct stage *s = &t->stage[0];
	random_stage(r, t);
	struct operand *x = &t->operand[0], *y = &t->operand[1];
	x->dims.rank = y->dims.rank = 1;
	s->naxes = 2;
	s->comb = COMB_MAX;
	memset(s->out.dim[1].coef, 0, sizeof s->out.dim[1].coef);
	s->axis[0] = (struct axis){"a", AXIS_SPATIAL, size_or_symbol(r, (int)below(r, 2), 1 + below(r, 4))};
	s->axis[1] = (struct axis){"b", AXIS_REDUCTION, size_or_symbol(r, 1, 1 + below(r, 4))};
	y->dims.d[0] = s->axis[0].extent;
	x->dims.d[0] = size_or_symbol(r, 0, 1 + below(r, 6));
	x->layout.lo[0] = below(r, 3) ? below(r, 3) : SYM(2);
	x->layout.hi[0] = below(r, 3) ? below(r, 3) : SYM(3);
	struct index *i = &s->read[0].dim[0];
	i->coef[0] = below(r, 6) - 2;
	i->coef[1] = below(r, 4) - 1;
	i->off = below(r, 9) - 4;
	i->div = below(r, 3) ? 0 : 2;
	t->nsyms = 4;
}

/* Symbols are numbered without gaps. */
static void renumber(struct task *t)
{
	int64_t *at[] = {&t->operand[0].dims.d[0], &t->operand[0].layout.lo[0], &t->operand[0].layout.hi[0],
			 &t->operand[1].dims.d[0], &t->stage[0].axis[0].extent, &t->stage[0].axis[1].extent};
	int to[4] = {-1, -1, -1, -1}, n = 0;
	for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
		if (!IS_SYM(*at[i]))
			continue;
		int k = SYM_INDEX(*at[i]);
		to[k] = to[k] < 0 ? n++ : to[k];
		*at[i] = SYM(to[k]);
	}
	t->nsyms = n;
}

static int64_t bound(int64_t v, const int64_t *sym)
{
	return IS_SYM(v) ? sym[SYM_INDEX(v)] : v;
}

/* Whether the read begins before X for all values of the symbols, or ends behind it for all. */
static bool never_inside(const struct task *t)
{
	bool low = true, high = true;
	const struct operand *x = &t->operand[0];
	for (int i = 0; i < VALUES * VALUES * VALUES * VALUES && (low || high); i++) {
		int64_t sym[4] = {values[i % VALUES], values[i / 4 % VALUES], values[i / 16 % VALUES],
				  values[i / 64]};
		bool halo[4] = {0};
		for (int k = 0; k < 2; k++) { /* a halo may be 0 */
			int64_t v = k ? x->layout.hi[0] : x->layout.lo[0];
			if (IS_SYM(v) && !halo[SYM_INDEX(v)]) {
				sym[SYM_INDEX(v)]--;
				halo[SYM_INDEX(v)] = true;
			}
		}
		struct reach w = walk(&t->stage[0], &t->stage[0].read[0].dim[0], sym);
		int64_t lo = bound(x->layout.lo[0], sym);
		low &= w.least < -lo;
		high &= w.most >= bound(x->dims.d[0], sym) + bound(x->layout.hi[0], sym);
	}
	return low || high;
}

TEST(promises_that_no_values_keep_are_refused)
{
	int refused = 0, kept = 0;
	struct rng r;
	rng_seed(&r, 24);
	for (int i = 0; i < 4000; i++) {
		random_symbolic(&r, &task);
		renumber(&task);
		if (!task.nsyms)
			continue;
		bool never = never_inside(&task), good = accepted(&task);
		if (good == never)
			show("symbols", i, &task, !never);
		REQUIRE(good == !never);
		refused += never;
		kept += !never;
	}
	CHECK(refused > 500 && kept > 500);
}

/* ---- texts ---- */

static int parse_generic(const char *syms, const char *size, const char *index)
{
	char text[512];
	snprintf(text, sizeof text,
		 "task syms=%s\noperand X in f32 [%s] plain\noperand Y out f32 [$0,4] plain\nstage z:$0 x:4\n"
		 "read X [%s]\nbody r0\nwrite Y [z,x]\n",
		 syms, size, index);
	return task_parse(text, &task);
}

TEST(check_says_which_index_leaves)
{
	CHECK_OK(parse_generic("1", "4", "x"));
	CHECK_FAILS(parse_generic("2", "4", "x"), E_CORRUPT, "symbol $1 of 2 is used nowhere");
	CHECK_FAILS(parse_generic("1", "4", "x+1"), E_CORRUPT, "operand X: index leaves dim 0, and no guard");
	CHECK_FAILS(parse_generic("1", "3", "x"), E_CORRUPT, "index leaves dim 0");
	CHECK_FAILS(parse_generic("1", "4", "x-1"), E_CORRUPT, "index leaves dim 0");
	CHECK_OK(parse_generic("1", "4", "x-1?"));
	CHECK_FAILS(parse_generic("1", "4", "z-1"), E_CORRUPT, "index leaves dim 0");
	CHECK_OK(parse_generic("1", "4", "z+3"));
	CHECK_FAILS(parse_generic("1", "4", "z+4"), E_CORRUPT, "index leaves dim 0");
	CHECK_FAILS(parse_generic("1", "$0", "z+1"), E_CORRUPT, "index leaves dim 0");
	CHECK_OK(parse_generic("2", "$1", "z+1"));
	CHECK_FAILS(parse_generic("1", "$0", "2*z+1"), E_CORRUPT, "index leaves dim 0");
}

TEST(stages_have_a_bounded_number_of_points)
{
	CHECK_FAILS(
	    task_parse("task syms=0\noperand X in f32 [1] plain\noperand Y out f32 [1] plain\n"
		       "stage a:1 | b:2000000000 c:2000000000 d:2000000000\nread X [0]\nbody r0\nsum\n"
		       "write Y [a]\n",
		       &task),
	    E_CORRUPT, "too many points");
}

TEST(tables_have_no_halo)
{
	CHECK_FAILS(
	    task_parse("task syms=0\noperand X in f32 [3] plain\noperand T const i32 [3] plain;0+1+0\n"
		       "operand Y out f32 [3] plain\nstage a:3\nread X [@T(a)]\nbody r0\nwrite Y [a]\n",
		       &task),
	    E_CORRUPT, "no plain vector of i32");
}

TEST_MAIN
