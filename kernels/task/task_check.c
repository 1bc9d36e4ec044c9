/* SPDX-License-Identifier: Apache-2.0 */
/* Checks every invariant of a task. Limits keep all index arithmetic inside int64: extents < 2^31, |coef| <=
 * 2^24, |off| <= 2^40, points of a stage <= 2^53.
 *
 * Accesses that are proved to stay inside of their operand:
 *   - all writes, table look-ups, and reads of a task without symbols. Such a read may leave its operand only
 *     where lowering guards it (index_guarded), and then gives the fill value.
 *   - an unguarded read of a generic task (its guard flag guarantees that it stays inside), if this does not
 *     depend on symbols. If it does, the flag is refused if no values of the symbols can satisfy it;
 *     otherwise task_abstract guarantees it, as it takes the flag and the values from one task with constant
 *     sizes. The contents of a table are data, which the maker of the table checks. */
#include "kernels/task/task_stage.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define MAX_EXTENT INT32_MAX
#define MAX_COEF (INT64_C(1) << 24)
#define MAX_OFF (INT64_C(1) << 40)
#define MAX_ELEMS (INT64_C(1) << 34)
#define MAX_POINTS 0x1p53
enum { MAX_STACK = 16 };

static bool name_good(const char *s, size_t cap)
{
	size_t n = strnlen(s, cap);
	if (!n || n == cap || !isalpha((unsigned char)s[0]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_')
			return false;
	return true;
}

/* Whether a size is a valid symbol or within [lo, hi]. */
static bool in_range(const struct task *t, int64_t v, int64_t lo, int64_t hi)
{
	return IS_SYM(v) ? SYM_INDEX(v) < t->nsyms : v >= lo && v <= hi;
}

static int check_layout(const struct task *t, const struct operand *o)
{
	const struct layout *l = &o->layout;
	int seen[MAX_RANK] = {0};
	for (int d = 0; d < MAX_RANK; d++) {
		bool used = d < o->dims.rank;
		if (!in_range(t, l->lo[d], 0, used ? 4096 : 0) || !in_range(t, l->hi[d], 0, used ? 4096 : 0))
			return fail(E_CORRUPT, "operand %s: halo of dim %d is out of range", o->name, d);
	}
	if (l->n < 0 || l->n > MAX_SPLITS)
		return fail(E_CORRUPT, "operand %s: %d layout axes", o->name, l->n);
	for (int j = 0; j < l->n; j++) {
		int d = l->ax[j].dim, div = l->ax[j].div;
		if (d >= o->dims.rank || div < 1 || div > 4096)
			return fail(E_CORRUPT, "operand %s: layout axis %d is out of range", o->name, j);
		if (seen[d] == 0 ? div > 1 && (l->lo[d] || l->hi[d]) : seen[d] == 1 || div != 1)
			return fail(E_CORRUPT, "operand %s: layout of dim %d: block, then 1, without halo",
				    o->name, d);
		seen[d] = seen[d] ? 1 : div;
	}
	for (int d = 0; l->n && d < o->dims.rank; d++)
		if (seen[d] != 1)
			return fail(E_CORRUPT, "operand %s: layout leaves out dim %d", o->name, d);
	return E_OK;
}

static int check_elems(const struct operand *o)
{
	struct phys_axis ax[MAX_SPLITS];
	double elems = 1;
	for (int d = 0; d < o->dims.rank; d++)
		if (IS_SYM(o->dims.d[d]) || IS_SYM(o->layout.lo[d]) || IS_SYM(o->layout.hi[d]))
			return E_OK;
	for (int d = 0; d < o->dims.rank; d++)
		elems *= (double)(o->dims.d[d] + o->layout.lo[d] + o->layout.hi[d]);
	for (int j = 0; j < o->layout.n; j++) /* a last block may be mostly padding */
		elems *= o->layout.ax[j].div > 1 ? (double)o->layout.ax[j].div : 1;
	if (elems < 0x1p62) {
		int n = operand_axes(o, ax);
		if (!n || ax[0].stride * ax[0].extent <= MAX_ELEMS)
			return E_OK;
	}
	return fail(E_CORRUPT, "operand %s: too many elements", o->name);
}

static int check_operand(const struct task *t, int i)
{
	const struct operand *o = &t->operand[i];
	if (!name_good(o->name, sizeof o->name))
		return fail(E_CORRUPT, "operand %d: bad name", i);
	for (int j = 0; j < i; j++)
		if (!strcmp(o->name, t->operand[j].name))
			return fail(E_CORRUPT, "two operands are called %s", o->name);
	if (o->role > ROLE_TMP || (o->dtype != DT_F32 && o->dtype != DT_I32 && !dtype_is_byte(o->dtype)) ||
	    o->group)
		return fail(E_CORRUPT, "operand %s: bad role or dtype", o->name);
	if (o->dtype == DT_I32 && o->role == ROLE_TMP)
		return fail(E_CORRUPT, "operand %s: a tmp must not be i32", o->name);
	if (o->dims.rank < 0 || o->dims.rank > MAX_RANK || !isfinite(o->fill))
		return fail(E_CORRUPT, "operand %s: bad rank or fill", o->name);
	bool i32_fill = rintf(o->fill) == o->fill && fabsf(o->fill) < 0x1p31f;
	if ((o->dtype == DT_I32 && !i32_fill) ||
	    (dtype_is_byte(o->dtype) && (rintf(o->fill) != o->fill || o->fill < byte_least(o->dtype) ||
					 o->fill > byte_greatest(o->dtype))))
		return fail(E_CORRUPT, "operand %s: no %s has the value of fill", o->name,
			    dtype_name(o->dtype));
	for (int d = 0; d < o->dims.rank; d++)
		if (!in_range(t, o->dims.d[d], 1, MAX_EXTENT))
			return fail(E_CORRUPT, "operand %s: dim %d is out of range", o->name, d);
	int rc = check_layout(t, o);
	return rc < 0 ? rc : check_elems(o);
}

static bool has_syms(const struct stage *s, const struct index *x)
{
	bool any = IS_SYM(x->off);
	for (int a = 0; a < s->naxes; a++)
		any |= IS_SYM(x->coef[a]) || (x->coef[a] && IS_SYM(s->axis[a].extent));
	return any;
}

/* c + the sum of k[i] * symbol i. */
struct form {
	int64_t c, k[MAX_SYMS];
};

static void form_add(struct form *f, int64_t v, int64_t times)
{
	if (IS_SYM(v))
		f->k[SYM_INDEX(v)] += times;
	else
		f->c += v * times;
}

/* The least value of each symbol: sizes are at least 1, halos at least 0; INT64_MIN: no bound. */
static void least_symbols(const struct task *t, int64_t least[MAX_SYMS])
{
	for (int i = 0; i < MAX_SYMS; i++)
		least[i] = INT64_MIN;
	for (int pass = 0; pass < 2; pass++) /* halos first: a symbol may also be a size */
		for (int i = 0; i < t->noperands; i++)
			for (int d = 0; d < t->operand[i].dims.rank; d++) {
				const struct operand *o = &t->operand[i];
				const int64_t v[] = {pass ? o->dims.d[d] : o->layout.lo[d],
						     pass ? o->dims.d[d] : o->layout.hi[d]};
				for (int j = 0; j < 2; j++)
					if (IS_SYM(v[j]))
						least[SYM_INDEX(v[j])] = pass;
			}
	for (int k = 0; k < t->nstages; k++)
		for (int a = 0; a < t->stage[k].naxes; a++)
			if (IS_SYM(t->stage[k].axis[a].extent))
				least[SYM_INDEX(t->stage[k].axis[a].extent)] = 1;
}

/* Whether the form is >= 0 for all values of the symbols. */
static bool form_never_negative(const struct task *t, const struct form *f)
{
	int64_t least[MAX_SYMS], sum = f->c;
	least_symbols(t, least);
	for (int i = 0; i < t->nsyms; i++) {
		if (f->k[i] < 0 || (f->k[i] && least[i] == INT64_MIN))
			return false;
		sum += f->k[i] ? f->k[i] * least[i] : 0;
	}
	return sum >= 0;
}

/* The index before division at its least (side -1, negated) or greatest point. An axis whose coefficient is a
 * symbol counts as 0, because that point is reached too. */
static struct form extreme(const struct stage *s, const struct index *x, int side)
{
	struct form f = {0};
	form_add(&f, x->off, side);
	for (int a = 0; a < s->naxes; a++) {
		int64_t c = x->coef[a];
		if (IS_SYM(c) || c * side <= 0)
			continue;
		form_add(&f, s->axis[a].extent, c * side);
		f.c -= c * side;
	}
	return f;
}

enum { MOST_WALKED = 1 << 16 };

/* The exact range of a constant index. index_range gives [0, mod) wherever a remainder may wrap; here a small
 * number of points is enumerated. */
static void exact_range(const struct stage *s, const struct index *x, int64_t *lo, int64_t *hi)
{
	int64_t at[MAX_AXES] = {0}, points = 1;
	struct index direct = *x;
	direct.table = -1;
	index_range(s, x, lo, hi);
	for (int a = 0; a < s->naxes && x->mod > 1 && points <= MOST_WALKED; a++)
		points *= x->coef[a] ? s->axis[a].extent : 1;
	if (x->mod <= 1 || points > MOST_WALKED)
		return;
	*lo = INT64_MAX;
	*hi = INT64_MIN;
	for (bool more = true; more;) {
		int64_t v = index_value(s, &direct, NULL, at);
		*lo = v < *lo ? v : *lo;
		*hi = v > *hi ? v : *hi;
		more = false;
		for (int a = s->naxes - 1; a >= 0 && !more; a--) {
			more = x->coef[a] && at[a] + 1 < s->axis[a].extent;
			at[a] = more ? at[a] + 1 : 0;
		}
	}
}

/* Whether an unguarded index leaves [-lo, size + hi); with symbols, whether it does so for all their
 * values. */
static bool leaves(const struct task *t, const struct stage *s, const struct index *x, int64_t lo,
		   int64_t size, int64_t hi)
{
	int64_t div = x->div > 1 ? x->div : 1, first, last;
	bool fixed = !has_syms(s, x);
	if (fixed)
		exact_range(s, x, &first, &last);
	if (fixed && !IS_SYM(lo) && !IS_SYM(size) && !IS_SYM(hi))
		return first < -lo || last >= size + hi;
	if (x->mod > 1 && !fixed)
		return false;
	/* floor(v / div) < -lo where -v - div * lo - 1 >= 0; floor(v / div) >= end where v - div * end >= 0
	 */
	struct form below = extreme(s, x, -1), above = extreme(s, x, 1);
	if (x->mod > 1) {
		below = (struct form){.c = -first};
		above = (struct form){.c = last};
		div = 1;
	}
	form_add(&below, lo, -div);
	below.c -= 1;
	form_add(&above, size, -div);
	form_add(&above, hi, -div);
	return form_never_negative(t, &below) || form_never_negative(t, &above);
}

static int check_index(const struct task *t, const struct stage *s, const struct index *x, bool out)
{
	for (int a = 0; a < MAX_AXES; a++)
		if (!in_range(t, x->coef[a], -MAX_COEF, MAX_COEF) || (a >= s->naxes && x->coef[a]))
			return fail(E_CORRUPT, "coefficient is out of range");
	if (!in_range(t, x->off, -MAX_OFF, MAX_OFF) || x->div < 0 || x->mod < 0 || x->div > MAX_EXTENT ||
	    x->mod > MAX_EXTENT || (x->guard && !t->nsyms))
		return fail(E_CORRUPT, "offset, div, mod or guard is out of range");
	if (out && (x->div > 1 || x->mod > 1 || x->table >= 0 || x->guard))
		return fail(E_CORRUPT, "an output's index must be affine");
	if (x->table < -1 || x->table >= t->noperands)
		return fail(E_CORRUPT, "no such table");
	if (x->table < 0)
		return E_OK;
	const struct operand *o = &t->operand[x->table];
	if (o->dtype != DT_I32 || o->dims.rank != 1 || o->layout.n || o->layout.lo[0] || o->layout.hi[0] ||
	    (o->role != ROLE_CONST && o->role != ROLE_IN))
		return fail(E_CORRUPT, "table %s is no plain vector of i32 that is only read", o->name);
	return leaves(t, s, x, 0, o->dims.d[0], 0) ? fail(E_CORRUPT, "index leaves table %s", o->name) : E_OK;
}

/* Checks dim d of a read or of the output. */
static int check_dim(const struct task *t, const struct stage *s, const struct read *r, int d, bool out)
{
	const struct operand *o = &t->operand[r->operand];
	const struct index *x = &r->dim[d];
	int rc = check_index(t, s, x, out);
	if (rc < 0)
		return rc;
	for (int a = 0; a < s->naxes && d >= o->dims.rank; a++)
		if (x->coef[a])
			return fail(E_CORRUPT, "index past its rank");
	if (d >= o->dims.rank || x->table >= 0 || (!out && (!t->nsyms || x->guard)))
		return E_OK;
	if (out ? leaves(t, s, x, 0, o->dims.d[d], 0)
		: leaves(t, s, x, o->layout.lo[d], o->dims.d[d], o->layout.hi[d]))
		return fail(E_CORRUPT, "index leaves dim %d%s", d, out ? "" : ", and no guard says so");
	return E_OK;
}

/* Checks the stack discipline and the reads: with `post`, only reads without reduction axes are allowed. */
static int check_prog(const struct stage *s, const struct prog *p, bool post)
{
	int depth = 0;
	if (p->n < 0 || p->n > MAX_PROG)
		return fail(E_CORRUPT, "program length %d", p->n);
	for (int i = 0; i < p->n; i++) {
		int op = p->at[i].op;
		if (op >= P_OPS || depth < prog_op_arity(op))
			return fail(E_CORRUPT,
				    "program step %d: unknown operator, or too few values on the stack", i);
		depth += 1 - prog_op_arity(op);
		if (depth > MAX_STACK)
			return fail(E_CORRUPT, "program needs more than %d values at once", MAX_STACK);
		if ((op == P_ACC && !post) || (op == P_IMM && isnan(p->at[i].imm)))
			return fail(E_CORRUPT,
				    "program step %d: acc is not possible in a body, or the number is NaN",
				    i);
		if (op != P_READ)
			continue;
		if (p->at[i].arg >= s->nreads)
			return fail(E_CORRUPT, "program step %d: no read %d", i, p->at[i].arg);
		const struct read *r = &s->read[p->at[i].arg];
		for (int d = 0; post && d < MAX_RANK; d++)
			for (int a = 0; a < s->naxes; a++)
				if (s->axis[a].kind == AXIS_REDUCTION && r->dim[d].coef[a])
					return fail(E_CORRUPT, "post reads r%d over a reduction axis",
						    p->at[i].arg);
	}
	return depth == 1 || (post && !p->n)
		   ? E_OK
		   : fail(E_CORRUPT, "program leaves %d values instead of 1", depth);
}

/* Checks that the output is written once and completely: in each dim the coefficients are a mixed radix, and
 * together the extents fill the dims. */
static int check_out(const struct task *t, const struct stage *s)
{
	const struct operand *o = &t->operand[s->out.operand];
	int uses[MAX_AXES] = {0};
	double points = 1, elems = 1;
	bool fixed = true;
	for (int d = 0; d < o->dims.rank; d++) {
		const struct index *x = &s->out.dim[d];
		int64_t span = 1;
		for (int a = 0; a < s->naxes; a++)
			if (x->coef[a] &&
			    (s->axis[a].kind == AXIS_REDUCTION || (x->coef[a] < 0 && !IS_SYM(x->coef[a]))))
				return fail(
				    E_CORRUPT,
				    "output %s: dim %d: its index uses a reduction axis or is negative",
				    o->name, d);
		fixed &= !has_syms(s, x) && !IS_SYM(o->dims.d[d]);
		for (bool more = fixed; more;) { /* the next larger coefficient must step over all smaller
						  * ones */
			more = false;
			int64_t next = INT64_MAX;
			int at = -1;
			for (int a = 0; a < s->naxes; a++)
				if (x->coef[a] && s->axis[a].extent > 1 && x->coef[a] >= span &&
				    x->coef[a] < next) {
					next = x->coef[a];
					at = a;
				}
			if (at >= 0) {
				span = next * s->axis[at].extent;
				uses[at]++;
				more = true;
			}
		}
		elems *= (double)o->dims.d[d];
	}
	for (int a = 0; a < s->naxes && fixed; a++) {
		if (s->axis[a].kind != AXIS_SPATIAL)
			continue;
		points *= (double)s->axis[a].extent;
		if (s->axis[a].extent > 1 && uses[a] != 1)
			return fail(E_CORRUPT, "output %s: axis %s is not a digit of one dim", o->name,
				    s->axis[a].name);
	}
	return !fixed || points == elems ? E_OK : fail(E_CORRUPT, "output %s is not written whole", o->name);
}

/* Operators whose result IEEE 754 or kernels/loops/loops.h defines to the last bit. */
static bool defined(int op)
{
	return op != P_POW && op != P_EXP && op != P_LOG && op != P_TANH && op != P_SIGMOID && op != P_ERF &&
	       op != P_SILU && op != P_GELU;
}

/* Checks that the integers that the stage writes follow from the task alone. */
static int check_exact(const struct task *t, const struct stage *s)
{
	if (!stage_exact(t, s))
		return E_OK;
	if (t->operand[s->out.operand].dtype == DT_I32 && !stage_gives_whole(t, s))
		return fail(E_CORRUPT, "i32 from a value that is not whole");
	if ((s->comb == COMB_SUM || s->comb == COMB_PROD) && !stage_whole(t, s))
		return fail(E_CORRUPT, "bytes from a sum of numbers that are not whole");
	for (int i = 0; i < s->body.n + s->post.n; i++) {
		int op = i < s->body.n ? s->body.at[i].op : s->post.at[i - s->body.n].op;
		if (!defined(op))
			return fail(E_CORRUPT, "bytes from %s, which has no exact result", prog_op_name(op));
	}
	for (int i = 0; i < s->nreads; i++) {
		const struct operand *o = &t->operand[s->read[i].operand];
		if (o->role == ROLE_TMP && o->dtype == DT_F32)
			return fail(E_CORRUPT, "bytes from %s, which is rounded in any order", o->name);
	}
	return E_OK;
}

static int check_axes(const struct task *t, const struct stage *s)
{
	if (s->naxes < 0 || s->naxes > MAX_AXES || s->nreads < 0 || s->nreads > MAX_READS)
		return fail(E_CORRUPT, "%d axes, %d reads", s->naxes, s->nreads);
	int nred = 0;
	double points = 1;
	for (int a = 0; a < s->naxes; a++) {
		const struct axis *x = &s->axis[a];
		points *= IS_SYM(x->extent) ? 1 : (double)x->extent;
		if (!name_good(x->name, sizeof x->name) || x->kind > AXIS_REDUCTION ||
		    !in_range(t, x->extent, 1, MAX_EXTENT))
			return fail(E_CORRUPT, "axis %d: bad name, kind or extent", a);
		for (int b = 0; b < a; b++)
			if (!strcmp(x->name, s->axis[b].name))
				return fail(E_CORRUPT, "two axes are called %s", x->name);
		if (x->kind == AXIS_SPATIAL && nred)
			return fail(E_CORRUPT, "spatial axis %s after a reduction axis", x->name);
		nred += x->kind == AXIS_REDUCTION;
	}
	if (points > MAX_POINTS)
		return fail(E_CORRUPT, "too many points");
	if (s->comb > COMB_PROD || (s->comb == COMB_NONE) != (nred == 0))
		return fail(E_CORRUPT,
			    "a combiner without reduction axes, or reduction axes without a combiner");
	return E_OK;
}

/* `written`: bit per operand that an earlier stage has written. */
static int check_stage(const struct task *t, const struct stage *s, uint32_t *written)
{
	int rc = check_axes(t, s);
	for (int i = 0; i <= s->nreads && rc >= 0; i++) {
		const struct read *r = i < s->nreads ? &s->read[i] : &s->out;
		if (r->operand < 0 || r->operand >= t->noperands)
			return fail(E_CORRUPT, "no operand %d", r->operand);
		const struct operand *o = &t->operand[r->operand];
		bool out = i == s->nreads, was = *written >> r->operand & 1;
		if (out ? was || (o->role != ROLE_OUT && o->role != ROLE_TMP)
			: o->role == ROLE_OUT || (o->role == ROLE_TMP && !was))
			return fail(E_CORRUPT, "operand %s cannot be used here in its role", o->name);
		for (int d = 0; d < MAX_RANK && rc >= 0; d++)
			rc = check_dim(t, s, r, d, out);
		rc = fail_in(rc, "operand %s", o->name);
	}
	if (rc < 0 || (rc = fail_in(check_prog(s, &s->body, false), "body")) < 0 ||
	    (rc = fail_in(check_prog(s, &s->post, true), "post")) < 0 || (rc = check_exact(t, s)) < 0)
		return rc;
	*written |= 1u << s->out.operand;
	return check_out(t, s);
}

static void use(bool used[MAX_SYMS], int64_t v)
{
	if (IS_SYM(v))
		used[SYM_INDEX(v)] = true;
}

static void use_stage(const struct stage *s, bool used[MAX_SYMS])
{
	for (int a = 0; a < s->naxes; a++)
		use(used, s->axis[a].extent);
	for (int i = 0; i <= s->nreads; i++)
		for (int d = 0; d < MAX_RANK; d++) {
			const struct index *x = i < s->nreads ? &s->read[i].dim[d] : &s->out.dim[d];
			use(used, x->off);
			for (int a = 0; a < s->naxes; a++)
				use(used, x->coef[a]);
		}
}

/* Checks that all symbols are used: an unused one would be a meaningless parameter, and would make the task
 * look generic. */
static int check_symbols(const struct task *t)
{
	bool used[MAX_SYMS] = {0};
	for (int i = 0; i < t->noperands; i++)
		for (int d = 0; d < t->operand[i].dims.rank; d++) {
			use(used, t->operand[i].dims.d[d]);
			use(used, t->operand[i].layout.lo[d]);
			use(used, t->operand[i].layout.hi[d]);
		}
	for (int k = 0; k < t->nstages; k++)
		use_stage(&t->stage[k], used);
	for (int i = 0; i < t->nsyms; i++)
		if (!used[i])
			return fail(E_CORRUPT, "symbol $%d of %d is used nowhere", i, t->nsyms);
	return E_OK;
}

int task_check(const struct task *t)
{
	uint32_t written = 0;
	if (t->noperands < 1 || t->noperands > MAX_OPERANDS || t->nstages < 1 || t->nstages > MAX_STAGES ||
	    t->nsyms < 0 || t->nsyms > MAX_SYMS)
		return fail(E_CORRUPT, "task: %d operands, %d stages, %d symbols", t->noperands, t->nstages,
			    t->nsyms);
	int rc = E_OK;
	for (int i = 0; i < t->noperands && rc >= 0; i++)
		rc = check_operand(t, i);
	for (int i = 0; i < t->nstages && rc >= 0; i++)
		rc = fail_in(check_stage(t, &t->stage[i], &written), "stage %d", i);
	for (int i = 0; i < t->noperands && rc >= 0; i++)
		if ((t->operand[i].role == ROLE_OUT || t->operand[i].role == ROLE_TMP) && !(written >> i & 1))
			rc = fail(E_CORRUPT, "operand %s is never written", t->operand[i].name);
	if (rc >= 0 && t->operand[t->stage[t->nstages - 1].out.operand].role != ROLE_OUT)
		rc = fail(E_CORRUPT, "the last stage writes no output");
	if (rc >= 0)
		rc = check_symbols(t);
	return fail_in(rc, "task");
}
