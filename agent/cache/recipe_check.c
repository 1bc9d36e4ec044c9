/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/fields.h"
#include "agent/cache/recipe_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LINE "hone-recipe 2\n"

enum { MOST_ZERO = 255, MOST_SHIFT = 1 << 30 };

/* The first lines: whole numbers and bits, which every locale writes alike; errors in 1e-12. */
struct head {
	struct key model;
	int values, layers, quantised, examples, held_out;
	int64_t error, held_out_error, most;
};

#define ERROR_UNIT 1e-12
#define MOST_ERROR 1e6 /* a larger error is this one */

static const struct field fields[] = {
    FIELD("model", F_KEY, struct head, model),
    FIELD("values", F_INT, struct head, values),
    FIELD("layers", F_INT, struct head, layers),
    FIELD("quantized", F_INT, struct head, quantised),
    FIELD("examples", F_INT, struct head, examples),
    FIELD("held_out", F_INT, struct head, held_out),
    FIELD("error", F_I64, struct head, error),
    FIELD("held_out_error", F_I64, struct head, held_out_error),
    FIELD("most", F_I64, struct head, most),
};

enum { NFIELDS = sizeof fields / sizeof *fields };

static int64_t units(double error)
{
	return (int64_t)rint(fmax(0, fmin(error, MOST_ERROR)) / ERROR_UNIT);
}

void recipe_head_text(const struct recipe *r, struct buf *out)
{
	const struct head h = {r->model,      r->values,   r->layers,       r->quantised,
			       r->examples,   r->held_out, units(r->error), units(r->held_out_error),
			       units(r->most)};
	buf_puts(out, FIRST_LINE);
	fields_text(fields, NFIELDS, &h, out);
}

int recipe_head_parse(const char **text, struct recipe *out)
{
	struct arena a = {0};
	struct head h = {0};
	*out = (struct recipe){0};
	if (strncmp(*text, FIRST_LINE, strlen(FIRST_LINE)))
		return fail(E_CORRUPT,
			    "not a recipe of this version: hone tune MODEL --level int8 --data DIR "
			    "makes one");
	*text += strlen(FIRST_LINE);
	int rc = fields_parse(fields, NFIELDS, text, &a, &h);
	arena_free(&a);
	if (rc >= 0 && (h.values < 0 || h.layers < 1 || h.quantised < 0 || h.quantised > h.layers))
		rc = fail(E_CORRUPT, "numbers of layers that no model has");
	if (rc >= 0)
		*out = (struct recipe){h.model,
				       h.values,
				       h.layers,
				       h.quantised,
				       h.examples,
				       h.held_out,
				       (double)h.error * ERROR_UNIT,
				       (double)h.held_out_error * ERROR_UNIT,
				       (double)h.most * ERROR_UNIT};
	return rc;
}

int recipe_summary(const char *text, struct recipe *out)
{
	return recipe_head_parse(&text, out);
}

bool recipe_take_int(const char **s, int64_t lo, int64_t hi, int64_t *out)
{
	char *end;
	if (**s != ' ' || !(*s)[1] || !strchr("-0123456789", (*s)[1]))
		return false;
	long long v = strtoll(*s + 1, &end, 10);
	if (end == *s + 1 || v < lo || v > hi)
		return false;
	*s = end;
	*out = v;
	return true;
}

static bool take_scale(const char **s, float *out)
{
	enum { DIGITS = 8 };
	if (**s != ' ' || strspn(*s + 1, "0123456789abcdef") != DIGITS)
		return false;
	uint32_t bits = (uint32_t)strtoul(*s + 1, NULL, 16);
	memcpy(out, &bits, sizeof bits);
	*s += 1 + DIGITS;
	return *out >= QDQ_LEAST_SCALE && *out <= (float)QDQ_MOST_VALUE;
}

bool recipe_take_value(const char **s, int *last, int values, float *scale, uint8_t *zero)
{
	int64_t i, z;
	if (!recipe_take_int(s, *last + 1, values - 1, &i) || !take_scale(s, scale) ||
	    !recipe_take_int(s, 0, MOST_ZERO, &z))
		return false;
	*last = (int)i;
	*zero = (uint8_t)z;
	return true;
}

bool recipe_take_shift(const char **s, int64_t *out)
{
	return recipe_take_int(s, -MOST_SHIFT, MOST_SHIFT, out);
}

static bool take_layer(const char **s, int *last, int layers)
{
	int64_t i, n, shift;
	if (!recipe_take_int(s, *last + 1, layers - 1, &i) || !recipe_take_int(s, 1, INT32_MAX, &n))
		return false;
	*last = (int)i;
	while (n > 0 && recipe_take_shift(s, &shift))
		n--;
	return n == 0;
}

static bool take_lines(const char *s, const struct recipe *r)
{
	int value = -1, layer = -1;
	bool good = true;
	while (good && *s) {
		char kind = *s++;
		float scale;
		uint8_t zero;
		good = kind == 'v' ? layer < 0 && recipe_take_value(&s, &value, r->values, &scale, &zero)
				   : kind == 'l' && take_layer(&s, &layer, r->layers);
		good = good && *s++ == '\n';
	}
	return good;
}

int recipe_check(const char *text, struct key k)
{
	struct recipe r;
	if (strnlen(text, RECIPE_BYTES + 1) > RECIPE_BYTES)
		return fail(E_CORRUPT, "a recipe longer than %d bytes", RECIPE_BYTES);
	int rc = recipe_head_parse(&text, &r);
	if (rc >= 0 && !key_equal(r.model, k))
		rc = fail(E_CORRUPT, "its key is not that of the model that it names");
	if (rc >= 0 && !take_lines(text, &r))
		rc = fail(E_CORRUPT, "a line of it is neither a value nor a layer");
	return rc;
}
