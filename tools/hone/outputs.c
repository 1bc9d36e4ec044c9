/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/outputs.h"
#include "agent/cache/json.h"
#include "platform/base/buf.h"
#include "platform/base/log.h"
#include "tools/hone/table.h"
#include <math.h>
#include <stdio.h>

static bool is_scores(const struct tensor *t)
{
	int64_t n = shape_count(&t->shape);
	bool real = t->dtype == DT_F32 || t->dtype == DT_F64 || t->dtype == DT_F16 || t->dtype == DT_BF16;
	bool vector = false;
	for (int i = 0; i < t->shape.rank; i++)
		vector |= t->shape.d[i] == n;
	return real && vector && n > 1;
}

/* Puts element i among the highest, if it is one. */
static void rank(struct output_view *v, int64_t i, double x)
{
	int at = v->ntop;
	while (at > 0 && x > v->value[at - 1])
		at--;
	if (at >= OUTPUT_TOP)
		return;
	v->ntop += v->ntop < OUTPUT_TOP;
	for (int k = v->ntop - 1; k > at; k--) {
		v->top[k] = v->top[k - 1];
		v->value[k] = v->value[k - 1];
	}
	v->top[at] = i;
	v->value[at] = x;
}

void output_look(const struct tensor *t, struct output_view *v)
{
	bool scores = is_scores(t);
	double sum = 0;
	*v = (struct output_view){.n = shape_count(&t->shape)};
	for (int64_t i = 0; i < v->n; i++) {
		double x = tensor_get(t, i);
		if (isnan(x)) {
			v->nans++;
			continue;
		}
		bool first = i == v->nans;
		v->least = first ? x : fmin(v->least, x);
		v->most = first ? x : fmax(v->most, x);
		sum += x;
		if (scores)
			rank(v, i, x);
	}
	if (v->n > v->nans)
		v->mean = sum / (double)(v->n - v->nans);
}

/* The highest elements, in as many lines as the terminal needs: a value stays behind its index. */
static void print_highest(const struct output_view *v)
{
	static const char lead[] = "  highest:";
	int columns = table_columns(), at = printf("%s", lead);
	for (int i = 0; i < v->ntop; i++) {
		char one[64];
		int n = snprintf(one, sizeof one, " [%lld] %.6g%s", (long long)v->top[i], v->value[i],
				 i + 1 < v->ntop ? "," : "");
		if (columns && i && at + n > columns)
			at = printf("\n%*s", (int)sizeof lead - 1, "") - 1;
		at += printf("%s", one);
	}
	printf("\n");
}

void output_print(const char *name, const struct tensor *t, const struct output_view *v)
{
	char shape[160];
	struct buf b = {0};
	shape_text(&t->shape, shape);
	buf_printf(&b, "output %s %s %s: ", name, dtype_name(t->dtype), shape);
	if (v->n > v->nans)
		buf_printf(&b, "%.6g to %.6g, mean %.6g", v->least, v->most, v->mean);
	else
		buf_puts(&b, "no numbers");
	if (v->nans)
		buf_printf(&b, "; %lld of %lld are NaN", (long long)v->nans, (long long)v->n);
	if (b.p)
		log_one_line(b.p);
	table_say("%s", buf_str(&b));
	buf_free(&b);
	if (v->ntop)
		print_highest(v);
}

static json_t *number(const struct output_view *v, double x)
{
	return v->n > v->nans && isfinite(x) ? json_real(x) : json_null();
}

void output_add(json_t *to, const struct output_view *v)
{
	json_object_set_new(to, "min", number(v, v->least));
	json_object_set_new(to, "max", number(v, v->most));
	json_object_set_new(to, "mean", number(v, v->mean));
	json_object_set_new(to, "nan_count", json_integer(v->nans));
	if (!v->ntop)
		return;
	json_t *top = json_array();
	for (int i = 0; i < v->ntop; i++)
		json_array_append_new(top, json_pack("{sI so}", "index", (json_int_t)v->top[i], "value",
						     number(v, v->value[i])));
	json_object_set_new(to, "top", top);
}
