/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker/exercise.h"
#include "kernels/task/reference.h"
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

static bool is_poison(const float *p)
{
	uint32_t bits;
	memcpy(&bits, p, sizeof bits);
	return bits == poison;
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

static int fill_operand(struct exercise *x, int i, struct rng *r)
{
	const struct operand *o = &x->task.operand[i];
	int64_t plain_n = shape_count(&o->dims);
	if (o->dtype == DT_I32) {
		fill_table(&x->task, i, r, x->bufs[i], x->elems[i]);
		return E_OK;
	}
	/* the values are random, so their order does not matter */
	if (plain_n == x->elems[i]) {
		rng_fill(r, x->bufs[i], (size_t)plain_n);
		return E_OK;
	}
	float *plain = malloc(((size_t)plain_n + 1) * sizeof *plain);
	if (!plain)
		return fail(E_NOMEM, "no memory for the values of %s", o->name);
	rng_fill(r, plain, (size_t)plain_n);
	operand_pack(o, plain, x->bufs[i]);
	free(plain);
	return E_OK;
}

static bool is_float_constant(const struct operand *o)
{
	return o->role == ROLE_CONST && o->dtype != DT_I32;
}

/* The exercise sees the memory of a constant, which other exercises may share. */
static int take_constant(struct exercise *x, int i)
{
	const struct operand *o = &x->task.operand[i];
	int nth = 0;
	for (int k = 0; k < i; k++)
		nth += is_float_constant(&x->task.operand[k]) && constant_alike(&x->task.operand[k], o);
	int rc = constant_open(x->constants, o, nth, &x->constant[i]);
	if (rc >= 0)
		x->data[i] = (struct pages){.p = x->constant[i]->data.p, .bytes = x->constant[i]->data.bytes};
	return rc;
}

static int open_operand(struct exercise *x, int i, struct rng *r)
{
	int rc = is_float_constant(&x->task.operand[i])
		     ? take_constant(x, i)
		     : pages_open(&x->data[i], (size_t)x->elems[i] * 4,
				  i == x->out ? PAGES_SHARED : PAGES_GUARDED);
	if (rc < 0)
		return rc;
	x->bufs[i] = x->data[i].p;
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
static int mark(struct exercise *x, const struct operand *o, float *physical, enum elem_kind kind)
{
	size_t n = (size_t)shape_count(&o->dims);
	float *ones = malloc((n + 1) * sizeof *ones);
	if (!ones)
		return fail(E_NOMEM, "no memory to classify the elements of %s", o->name);
	for (size_t i = 0; i < n; i++)
		ones[i] = 1;
	operand_pack(o, ones, physical);
	for (int64_t i = 0; i < x->elems[x->out]; i++)
		if (physical[i] == 1)
			x->kind[i] = (unsigned char)kind;
	free(ones);
	return E_OK;
}

static int classify(struct exercise *x)
{
	struct operand all = with_padding(&x->task.operand[x->out]), value = x->task.operand[x->out];
	value.fill = 0;
	x->kind = calloc((size_t)x->elems[x->out] + 1, 1);
	if (!x->kind)
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
	double v = (double)(float)reference_point(ref, at);
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
	free(x->sample);
	free(x->sample_at);
	free(x->accepted);
	free(x);
}

/* ---- judging ---- */

void exercise_poison(struct exercise *x)
{
	uint32_t *p = x->bufs[x->out];
	size_t n = (x->data[x->out].bytes + 63) / 64 * 16; /* includes the rest before the guard page */
	for (size_t i = 0; i < n; i++)
		p[i] = poison;
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
static int check_written(const struct exercise *x, const float *out)
{
	int64_t n = x->elems[x->out], end = (n + 15) / 16 * 16;
	for (int64_t i = 0; i < n; i++) {
		if (x->kind[i] == ELEM_VALUE && is_poison(&out[i]))
			return fail(E_WRONG, "element %lld of the output was not written", (long long)i);
		if (x->kind[i] == ELEM_HALO && !is_poison(&out[i]))
			return fail(E_WRONG, "element %lld of the output's halo was written", (long long)i);
	}
	for (int64_t i = n; i < end; i++)
		if (!is_poison(&out[i]))
			return fail(E_WRONG, "element %lld, past the output's end, was written",
				    (long long)i);
	return E_OK;
}

static int judge(double got, double want, double absmax, int64_t at, const char *who, double *worst)
{
	double diff = difference(got, want), rel = absmax > 0 ? diff / absmax : diff;
	if (diff > TOLERANCE_REL * absmax + TOLERANCE_ABS)
		return fail(E_WRONG, "element %lld of the output is %.9g, %s %.9g (largest %.9g)",
			    (long long)at, got, who, want, absmax);
	if (rel > *worst)
		*worst = rel;
	return E_OK;
}

static int check_samples(const struct exercise *x, const float *out, double *worst)
{
	int rc = E_OK;
	for (int i = 0; i < x->nsamples && rc >= 0; i++)
		rc = judge((double)out[x->sample_at[i]], x->sample[i], x->absmax, x->sample_at[i],
			   "the reference", worst);
	return rc;
}

/* Compares with the accepted output; an element close to it passes, all others (also NaNs and infinities) are
 * judged one by one. */
static int check_accepted(const struct exercise *x, const float *out, double *worst)
{
	double limit = TOLERANCE_REL * x->accepted_absmax + TOLERANCE_ABS, most = 0;
	int rc = E_OK;
	for (int64_t i = 0; i < x->elems[x->out] && rc >= 0; i++) {
		double diff = fabs((double)out[i] - (double)x->accepted[i]);
		if (x->kind[i] != ELEM_VALUE)
			continue;
		if (diff <= limit)
			most = diff > most ? diff : most;
		else
			rc = judge((double)out[i], (double)x->accepted[i], x->accepted_absmax, i,
				   "the first kernel's", worst);
	}
	most = x->accepted_absmax > 0 ? most / x->accepted_absmax : most;
	*worst = most > *worst ? most : *worst;
	return rc;
}

static int accept_output(struct exercise *x, const float *out)
{
	int64_t n = x->elems[x->out];
	x->accepted = malloc(((size_t)n + 1) * sizeof *out);
	if (!x->accepted)
		return fail(E_NOMEM, "no memory to keep the first answer");
	memcpy(x->accepted, out, (size_t)n * sizeof *out);
	for (int64_t i = 0; i < n; i++)
		if (x->kind[i] == ELEM_VALUE && isfinite(out[i]) && fabs((double)out[i]) > x->accepted_absmax)
			x->accepted_absmax = fabs((double)out[i]);
	return E_OK;
}

int exercise_check(struct exercise *x, double *max_rel_err)
{
	const float *out = x->bufs[x->out];
	*max_rel_err = 0;
	int rc = check_written(x, out);
	if (rc >= 0)
		rc = check_samples(x, out, max_rel_err);
	if (rc >= 0)
		rc = x->accepted ? check_accepted(x, out, max_rel_err) : accept_output(x, out);
	return rc;
}
