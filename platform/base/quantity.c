/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/quantity.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	const char *name;
	double is;
};

/* Parses a number and one of n units behind it. Returns the unit's index; *end: the text behind the unit. */
static int quantity_parse(const char *text, const struct unit *unit, size_t n, double *out, const char **end)
{
	size_t digits = strspn(text, "0123456789.");
	size_t letters = strcspn(text + digits, "0123456789.");
	char number[32], *rest;
	if (digits == 0 || digits >= sizeof number)
		return E_USAGE;
	memcpy(number, text, digits);
	number[digits] = 0;
	double v = strtod(number, &rest);
	for (size_t i = 0; !*rest && i < n; i++)
		if (strlen(unit[i].name) == letters && !strncmp(text + digits, unit[i].name, letters)) {
			*out = v * unit[i].is;
			*end = text + digits + letters;
			return (int)i;
		}
	return E_USAGE;
}

int duration_parse(const char *text, int64_t *ns)
{
	/* The longest unit is first: the parts of 1m30s go from long to short. */
	static const struct unit units[] = {{"d", 86400e9}, {"h", 3600e9}, {"m", 60e9}, {"s", 1e9},
					    {"ms", 1e6},    {"us", 1e3},   {"", 1e9}};
	enum { UNITS = sizeof units / sizeof *units, ALONE = UNITS - 1 };
	const char *p = text;
	double all = 0, v;
	for (int last = -1, u; last < 0 || *p; last = u) {
		u = quantity_parse(p, units, UNITS, &v, &p);
		if (u < 0 || u <= last || (u == ALONE && last >= 0))
			return fail(E_USAGE,
				    "'%s' is not a duration; write 20s, 500ms, 2m or 1m30s (a number alone "
				    "is seconds)",
				    text);
		all += v;
	}
	if (all > 9e18)
		return fail(E_USAGE, "'%s' is longer than 250 years", text);
	*ns = (int64_t)all;
	return 0;
}

void duration_print(int64_t ns, char out[DURATION_TEXT])
{
	static const struct {
		const char *name;
		int64_t us;
	} units[] = {{"h", INT64_C(3600000000)}, {"m", 60000000}, {"s", 1000000}, {"ms", 1000}, {"us", 1}};
	const int64_t us = ns / 1000 + (ns % 1000 > 0);
	int i = us ? 0 : 2; /* 0s */
	while (us % units[i].us)
		i++;
	snprintf(out, DURATION_TEXT, "%" PRId64 "%s", us / units[i].us, units[i].name);
}

void duration_words(double s, struct buf *out)
{
	static const struct {
		double from_s, is_s;
		const char *unit;
	} spans[] = {
	    {2 * 86400, 86400, "days"}, {2 * 3600, 3600, "h"}, {120, 60, "min"}, {-INFINITY, 1, "s"}};
	int i = 0;
	while (s < spans[i].from_s)
		i++;
	buf_printf(out, "%.0f %s", s > 0 ? s / spans[i].is_s : 0, spans[i].unit);
}

int size_parse(const char *text, int64_t *bytes)
{
	static const struct unit units[] = {{"K", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30}};
	const char *end;
	double v;
	if (quantity_parse(text, units, sizeof units / sizeof *units, &v, &end) < 0 || *end)
		return fail(E_USAGE, "'%s' is not a size; write 512K, 32M or 1G", text);
	if (v > 0x1p60)
		return fail(E_USAGE, "'%s' is more than any disk holds", text);
	*bytes = (int64_t)v;
	return 0;
}
