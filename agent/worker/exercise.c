/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker/exercise.h"
#include "kernels/task/reference.h"
#include "kernels/task/task_stage.h"
#include "platform/base/clock.h"
#include "platform/base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum elem_kind { ELEM_HALO, ELEM_PADDING, ELEM_VALUE };

enum {
	RANDOM_POINTS = 4096,
	LEAST_POINTS = 64,           /* at least, however long the reduction is */
	ALL_INDEXES = 256,           /* an axis up to this long has each of its indexes sampled */
	BUDGET_NS = 4 * 1000 * 1000, /* time for the samples of a task */
	MOST_POINTS = RANDOM_POINTS + MAX_AXES * (ALL_INDEXES + 64),
};
static const uint32_t poison = 0x7fc0dead; /* a NaN that no arithmetic produces */

/* Bytes of an element of the output. */
static int64_t each(const struct exercise *x)
{
	return (int64_t)dtype_bytes(x->task.operand[x->out].dtype);
}

static uint8_t byte_poison(const struct exercise *x, int64_t i)
{
	return (uint8_t)((uint8_t)(i * 29 + 7) ^ (x->again ? 0xff : 0));
}

/* Whether element i of the output, or past its end, has its poison (of bytes: after both runs). */
static bool is_poison(const struct exercise *x, int64_t i)
{
	const char *out = x->bufs[x->out];
	uint32_t bits;
	if (each(x) == 1)
		return (uint8_t)out[i] == byte_poison(x, i) && (!x->again || x->kept[i]);
	memcpy(&bits, out + i * 4, sizeof bits);
	return bits == poison;
}

static double value_at(const void *p, enum dtype t, int64_t i)
{
	return t == DT_U8    ? ((const uint8_t *)p)[i]
	       : t == DT_I8  ? ((const int8_t *)p)[i]
	       : t == DT_I32 ? ((const int32_t *)p)[i]
			     : (double)((const float *)p)[i];
}

/* Values of a table must be valid indexes of the smallest dim that is indexed with it. */
static int64_t table_limit(const struct task *t, int operand)
{
	int64_t limit = INT32_MAX;
	for (int k = 0; k < t->nstages; k++)
		for (int i = 0; i < t->stage[k].nreads; i++) {
			const struct read *r = &t->stage[k].read[i];
			const struct operand *o = &t->operand[r->operand];
			for (int d = 0; d < o->dims.rank; d++)
				if (r->dim[d].table == operand && o->dims.d[d] < limit)
					limit = o->dims.d[d];
		}
	return limit > 0 ? limit : 1;
}

static void fill_table(const struct task *t, int operand, struct rng *r, int32_t *p, int64_t n)
{
	uint32_t limit = (uint32_t)table_limit(t, operand);
	for (int64_t i = 0; i < n; i++)
		p[i] = (int32_t)rng_below(r, limit);
}

/* Standard deviation of the whole sums to which some stage's program applies the operand; 0: it is not used
 * so. */
static double whole_sums(const struct task *t, int operand)
{
	double most = 0;
	for (int k = 0; k < t->nstages; k++) {
		const struct stage *s = &t->stage[k];
		double steps = 1;
		for (int a = 0; a < s->naxes; a++)
			steps *= s->axis[a].kind == AXIS_REDUCTION ? (double)s->axis[a].extent : 1;
		for (int i = 0; i < s->post.n && stage_whole(t, s); i++)
			if (s->post.at[i].op == P_READ && s->read[s->post.at[i].arg].operand == operand)
				most = fmax(most, (s->body.n == 1 ? 74 : 74 * 148) * sqrt(steps));
	}
	return most;
}

/* Whether some stage's program multiplies the operand with another read. */
static bool is_factor(const struct task *t, int operand)
{
	for (int k = 0; k < t->nstages; k++) {
		const struct stage *s = &t->stage[k];
		for (int i = 0; i + 2 < s->post.n; i++) {
			int a = s->post.at[i].arg, b = s->post.at[i + 1].arg;
			if (s->post.at[i].op == P_READ && s->post.at[i + 1].op == P_READ &&
			    s->post.at[i + 2].op == P_MUL &&
			    (s->read[a].operand == operand || s->read[b].operand == operand))
				return true;
		}
	}
	return false;
}

/* Biases like the sums that they are added to, but at least of some size. The product of two stays within
 * s32. */
static void fill_whole(const struct task *t, int operand, struct rng *r, int32_t *p, int64_t n)
{
	double sums = whole_sums(t, operand);
	uint32_t reach = (uint32_t)fmin(fmax(sums, 128), is_factor(t, operand) ? 1 << 14 : 1 << 24);
	for (int64_t i = 0; i < n; i++)
		p[i] = (int32_t)rng_below(r, 2 * reach + 1) - (int32_t)reach;
}

/* Factor of a constant's values: scales of whole sums are small, so that results spread over all bytes. */
static double scale_of(const struct task *t, int operand)
{
	double sums = t->operand[operand].dtype == DT_F32 ? whole_sums(t, operand) : 0;
	return sums > 0 ? 160 / sums : 1;
}

static bool has_values(const struct task *t, int operand)
{
	for (int k = 0; k < t->nstages; k++)
		for (int i = 0; i < t->stage[k].nreads; i++)
			if (t->stage[k].read[i].operand == operand)
				return true;
	return false;
}

static bool is_table(const struct task *t, int operand)
{
	for (int k = 0; k < t->nstages; k++)
		for (int i = 0; i < t->stage[k].nreads; i++)
			for (int d = 0; d < MAX_RANK; d++)
				if (t->stage[k].read[i].dim[d].table == operand)
					return true;
	return false;
}

static int fill_operand(struct exercise *x, int i, struct rng *r)
{
	const struct operand *o = &x->task.operand[i];
	int64_t plain_n = shape_count(&o->dims);
	if (o->dtype == DT_I32) {
		if (has_values(&x->task, i) && !is_table(&x->task, i))
			fill_whole(&x->task, i, r, x->bufs[i], x->elems[i]);
		else
			fill_table(&x->task, i, r, x->bufs[i], x->elems[i]);
		return E_OK;
	}
	/* the values are random, so their order does not matter */
	if (plain_n == x->elems[i]) {
		values_fill(r, o->dtype, x->bufs[i], plain_n);
		return E_OK;
	}
	void *plain = malloc(((size_t)plain_n + 1) * dtype_bytes(o->dtype));
	if (!plain)
		return fail(E_NOMEM, "no memory for the values of %s", o->name);
	values_fill(r, o->dtype, plain, plain_n);
	operand_pack(o, plain, x->bufs[i]);
	free(plain);
	return E_OK;
}

static bool is_shared(const struct operand *o)
{
	return o->role == ROLE_CONST && o->dtype != DT_I32;
}

/* The exercise sees the memory of a constant, which other exercises may share. */
static int take_constant(struct exercise *x, int i)
{
	const struct operand *o = &x->task.operand[i];
	int nth = 0;
	for (int k = 0; k < i; k++)
		nth += is_shared(&x->task.operand[k]) && constant_alike(&x->task.operand[k], o);
	int rc = constant_open(x->constants, o, nth, scale_of(&x->task, i), &x->constant[i]);
	if (rc >= 0)
		x->data[i] = (struct pages){.p = x->constant[i]->data.p, .bytes = x->constant[i]->data.bytes};
	return rc;
}

static int open_operand(struct exercise *x, int i, struct rng *r)
{
	size_t each = dtype_bytes(x->task.operand[i].dtype);
	int rc = is_shared(&x->task.operand[i])
		     ? take_constant(x, i)
		     : pages_open(&x->data[i], (size_t)(x->elems[i] + x->past[i]) * each,
				  i == x->out ? PAGES_SHARED : PAGES_GUARDED);
	if (rc < 0)
		return rc;
	x->bufs[i] = x->data[i].p;
	if (x->past[i]) /* kernels multiply these by zero */
		memset((char *)x->bufs[i] + (size_t)x->elems[i] * each, 0xff, (size_t)x->past[i] * each);
	return i == x->out || x->constant[i] ? E_OK : fill_operand(x, i, r);
}

/* Rounds blocked dims up to whole blocks, so that the padding lanes are included. */
static struct operand with_padding(const struct operand *o)
{
	struct operand all = *o;
	for (int j = 0; j < o->layout.n; j++) {
		int d = o->layout.ax[j].dim;
		int64_t b = o->layout.ax[j].div;
		all.dims.d[d] = (all.dims.d[d] + b - 1) / b * b;
	}
	all.fill = 0;
	return all;
}

/* Packs an operand of ones: each element that becomes one is a value (with whole blocks: a value or
 * padding). */
static int mark(struct exercise *x, const struct operand *o, void *physical, enum elem_kind kind)
{
	size_t n = (size_t)shape_count(&o->dims);
	void *ones = malloc((n + 1) * (size_t)each(x));
	if (!ones)
		return fail(E_NOMEM, "no memory to classify the elements of %s", o->name);
	for (size_t i = 0; i < n && o->dtype == DT_F32; i++)
		((float *)ones)[i] = 1;
	for (size_t i = 0; i < n && o->dtype == DT_I32; i++)
		((int32_t *)ones)[i] = 1;
	if (each(x) == 1)
		memset(ones, 1, n);
	operand_pack(o, ones, physical);
	for (int64_t i = 0; i < x->elems[x->out]; i++)
		if (value_at(physical, o->dtype, i) == 1)
			x->kind[i] = (unsigned char)kind;
	free(ones);
	return E_OK;
}

/* Elements of the output with those up to the end of its last cache line. */
static int64_t past_end(const struct exercise *x)
{
	int64_t line = 64 / each(x);
	return (x->elems[x->out] + line - 1) / line * line;
}

static int classify(struct exercise *x)
{
	struct operand all = with_padding(&x->task.operand[x->out]), value = x->task.operand[x->out];
	value.fill = 0;
	x->kind = calloc((size_t)x->elems[x->out] + 1, 1);
	x->kept = each(x) == 1 ? calloc((size_t)past_end(x), sizeof *x->kept) : NULL;
	if (!x->kind || (each(x) == 1 && !x->kept))
		return fail(E_NOMEM, "no memory to classify the elements of %s", value.name);
	if (shape_count(&value.dims) == x->elems[x->out]) {
		memset(x->kind, ELEM_VALUE, (size_t)x->elems[x->out]);
		return E_OK;
	}
	int rc = mark(x, &all, x->bufs[x->out], ELEM_PADDING);
	return rc < 0 ? rc : mark(x, &value, x->bufs[x->out], ELEM_VALUE);
}

/* ---- samples ---- */

static int spatial_axes(const struct stage *s)
{
	int n = 0;
	while (n < s->naxes && s->axis[n].kind == AXIS_SPATIAL)
		n++;
	return n;
}

/* The j-th index of an axis to sample: both ends first, then every index, or those next to powers of two; -1:
 * none. */
static int64_t class_index(int64_t extent, int j)
{
	const int64_t ends[4] = {0, extent - 1, 1, extent - 2};
	int64_t i = j < 4 ? ends[j] : j - 2;
	if (j >= 4 && extent > ALL_INDEXES) /* beyond 2^60, while another axis still has indexes: none */
		i = (j - 4) / 3 < 59 ? (INT64_C(4) << (j - 4) / 3) + (j - 4) % 3 - 1 : -1;
	return i >= 0 && i < extent ? i : -1;
}

static void random_point(const struct stage *s, struct rng *r, int64_t *at)
{
	for (int a = 0, n = spatial_axes(s); a < n; a++) {
		int64_t e = s->axis[a].extent;
		uint32_t dice = rng_below(r, 8);
		uint32_t below = e > INT32_MAX ? INT32_MAX : (uint32_t)e;
		at[a] = dice == 0 ? 0 : dice == 1 ? e - 1 : (int64_t)rng_below(r, below);
	}
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* Physical element of the output that a point of the last stage writes. */
static int64_t point_offset(const struct exercise *x, const struct stage *s, const int64_t *at)
{
	const struct operand *o = &x->task.operand[x->out];
	int64_t i[MAX_RANK] = {0};
	for (int d = 0; d < o->dims.rank; d++) {
		const struct index *ix = &s->out.dim[d];
		i[d] = ix->off;
		for (int a = 0; a < s->naxes; a++)
			i[d] += s->axis[a].kind == AXIS_SPATIAL ? ix->coef[a] * at[a] : 0;
		if (ix->div > 1)
			i[d] = floor_div(i[d], ix->div);
		if (ix->mod > 1)
			i[d] -= floor_div(i[d], ix->mod) * ix->mod;
	}
	return operand_offset(o, i);
}

static void add_sample(struct exercise *x, struct reference *ref, const struct stage *s, const int64_t *at)
{
	double v = reference_point(ref, at);
	if (x->task.operand[x->out].dtype == DT_F32)
		v = (double)(float)v;
	x->sample_at[x->nsamples] = point_offset(x, s, at);
	x->sample[x->nsamples++] = v;
	if (isfinite(v) && fabs(v) > x->absmax)
		x->absmax = fabs(v);
}

static bool enough(const struct exercise *x, int64_t end)
{
	return x->nsamples >= MOST_POINTS || (x->nsamples >= LEAST_POINTS && clock_now(&clock_real) > end);
}

/* Samples each axis's indexes first, one per axis in turn, so that a short budget cuts all axes alike. */
static int sample_points(struct exercise *x, struct reference *ref, struct rng *r)
{
	const struct stage *s = &x->task.stage[x->task.nstages - 1];
	int64_t at[MAX_AXES] = {0}, end = clock_now(&clock_real) + BUDGET_NS;
	x->sample = malloc(MOST_POINTS * sizeof *x->sample);
	x->sample_at = malloc(MOST_POINTS * sizeof *x->sample_at);
	if (!x->sample || !x->sample_at)
		return fail(E_NOMEM, "no memory for the samples of a task");
	for (int a = 0; a < spatial_axes(s); a++)
		if (s->axis[a].extent < 1)
			return E_OK;
	int n = spatial_axes(s), added = 1;
	for (int j = 0; added && !enough(x, end); j++) {
		added = 0;
		for (int a = 0; a < n && !enough(x, end); a++) {
			int64_t i = class_index(s->axis[a].extent, j);
			added |= i >= 0 || j < 4;
			if (i < 0)
				continue;
			random_point(s, r, at);
			at[a] = i;
			add_sample(x, ref, s, at);
		}
	}
	for (int i = 0; i < RANDOM_POINTS && !enough(x, end); i++) {
		random_point(s, r, at);
		add_sample(x, ref, s, at);
	}
	return E_OK;
}

static int sample(struct exercise *x, struct rng *r)
{
	struct arena a = {0};
	struct reference *ref;
	int rc = reference_open(&x->task, x->bufs, &a, &ref);
	if (rc >= 0)
		rc = sample_points(x, ref, r);
	arena_free(&a);
	return rc;
}

/* ---- open, close ---- */

static int prepare(struct exercise *x)
{
	struct rng r;
	rng_seed(&r, x->key.lo);
	for (int i = 0; i < x->task.noperands; i++) {
		const struct operand *o = &x->task.operand[i];
		if (o->role == ROLE_TMP)
			continue;
		x->elems[i] = operand_elems(o);
		x->past[i] = task_past(&x->task, i);
		int rc = open_operand(x, i, &r);
		if (rc < 0)
			return rc;
	}
	int rc = classify(x);
	return rc < 0 ? rc : sample(x, &r);
}

int exercise_open(const char *text, struct constant **constants, struct exercise **out)
{
	struct exercise *x = calloc(1, sizeof *x);
	if (!x)
		return fail(E_NOMEM, "no memory for a task");
	x->key = hash_text(text);
	x->constants = constants;
	int rc = task_parse(text, &x->task);
	if (rc >= 0 && x->task.nsyms)
		rc = fail(E_USAGE, "a generic task cannot be run, since it has no sizes");
	if (rc >= 0) {
		x->out = x->task.stage[x->task.nstages - 1].out.operand;
		rc = prepare(x);
	}
	if (rc < 0) {
		exercise_close(x);
		return rc;
	}
	*out = x;
	return E_OK;
}

void exercise_close(struct exercise *x)
{
	if (!x)
		return;
	for (int i = 0; i < MAX_OPERANDS; i++) {
		if (x->constant[i])
			constant_close(x->constants, x->constant[i]);
		else
			pages_close(&x->data[i]);
	}
	free(x->kind);
	free(x->kept);
	free(x->sample);
	free(x->sample_at);
	free(x->accepted);
	free(x);
}

/* ---- judging ---- */

static void put_poison(struct exercise *x)
{
	void *p = x->bufs[x->out];
	for (int64_t i = 0, n = past_end(x); i < n; i++) /* includes the rest before the guard page */
		if (each(x) == 1)
			((uint8_t *)p)[i] = byte_poison(x, i);
		else
			((uint32_t *)p)[i] = poison;
}

void exercise_poison(struct exercise *x)
{
	x->again = false;
	put_poison(x);
}

bool exercise_again(struct exercise *x)
{
	if (each(x) != 1)
		return false;
	for (int64_t i = 0; i < past_end(x); i++)
		x->kept[i] = is_poison(x, i);
	x->again = true;
	put_poison(x);
	return true;
}

/* The absolute difference; 0 for equal infinities or two NaNs; infinite if only one value is special. */
static double difference(double got, double want)
{
	if (isnan(want) || isnan(got))
		return isnan(want) && isnan(got) ? 0 : INFINITY;
	if (isinf(want))
		return got == want || fabs(got) > 1e38 ? 0 : INFINITY;
	return fabs(got - want);
}

/* Checks that only values were written, and every value was. */
static int check_written(const struct exercise *x)
{
	int64_t n = x->elems[x->out], end = past_end(x);
	for (int64_t i = 0; i < n; i++) {
		if (x->kind[i] == ELEM_VALUE && is_poison(x, i))
			return fail(E_WRONG, "element %lld of the output was not written", (long long)i);
		if (x->kind[i] == ELEM_HALO && !is_poison(x, i))
			return fail(E_WRONG, "element %lld of the output's halo was written", (long long)i);
	}
	for (int64_t i = n; i < end; i++)
		if (!is_poison(x, i))
			return fail(E_WRONG, "element %lld, past the output's end, was written",
				    (long long)i);
	return E_OK;
}

/* The largest difference that is no error; integers have none. */
static double allowed(const struct exercise *x, double absmax)
{
	return dtype_is_whole(x->task.operand[x->out].dtype) ? 0 : x->tolerance * absmax + TOLERANCE_ABS;
}

static int judge(const struct exercise *x, double got, double want, double absmax, int64_t at,
		 const char *who, double *worst)
{
	double diff = difference(got, want), rel = absmax > 0 ? diff / absmax : diff;
	if (diff > allowed(x, absmax))
		return fail(E_WRONG, "element %lld of the output is %.9g, %s %.9g (largest %.9g)",
			    (long long)at, got, who, want, absmax);
	if (rel > *worst)
		*worst = rel;
	return E_OK;
}

static int check_samples(const struct exercise *x, const void *out, double *worst)
{
	enum dtype t = x->task.operand[x->out].dtype;
	int rc = E_OK;
	for (int i = 0; i < x->nsamples && rc >= 0; i++)
		rc = judge(x, value_at(out, t, x->sample_at[i]), x->sample[i], x->absmax, x->sample_at[i],
			   "the reference", worst);
	return rc;
}

/* Compares with the accepted output; an element close to it passes, all others (also NaNs and infinities) are
 * judged one by one. */
static int check_accepted(const struct exercise *x, const void *out, double *worst)
{
	double limit = allowed(x, x->accepted_absmax), most = 0;
	enum dtype t = x->task.operand[x->out].dtype;
	int rc = E_OK;
	for (int64_t i = 0; i < x->elems[x->out] && rc >= 0; i++) {
		double got = value_at(out, t, i), first = value_at(x->accepted, t, i),
		       diff = fabs(got - first);
		if (x->kind[i] != ELEM_VALUE)
			continue;
		if (diff <= limit)
			most = diff > most ? diff : most;
		else
			rc = judge(x, got, first, x->accepted_absmax, i, "the first kernel's", worst);
	}
	most = x->accepted_absmax > 0 ? most / x->accepted_absmax : most;
	*worst = most > *worst ? most : *worst;
	return rc;
}

static int accept_output(struct exercise *x, const void *out)
{
	int64_t n = x->elems[x->out];
	enum dtype t = x->task.operand[x->out].dtype;
	x->accepted = malloc(((size_t)n + 1) * (size_t)each(x));
	if (!x->accepted)
		return fail(E_NOMEM, "no memory to keep the first answer");
	memcpy(x->accepted, out, (size_t)(n * each(x)));
	for (int64_t i = 0; i < n; i++) {
		double v = value_at(out, t, i);
		if (x->kind[i] == ELEM_VALUE && isfinite(v) && fabs(v) > x->accepted_absmax)
			x->accepted_absmax = fabs(v);
	}
	return E_OK;
}

int exercise_check(struct exercise *x, double tolerance, double *max_rel_err)
{
	x->tolerance = tolerance;
	const void *out = x->bufs[x->out];
	*max_rel_err = 0;
	int rc = check_written(x);
	if (rc >= 0)
		rc = check_samples(x, out, max_rel_err);
	if (rc >= 0)
		rc = x->accepted                  ? check_accepted(x, out, max_rel_err)
		     : tolerance == TOLERANCE_REL ? accept_output(x, out)
						  : E_OK;
	return rc;
}
