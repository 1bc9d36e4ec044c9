/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/quantity.h"

#include <stdlib.h>
#include <string.h>

struct unit {
	const char *name;
	double is;
};

/* Parses a number followed by one of n units. */
static int quantity_parse(const char *text, const struct unit *unit, size_t n, double *out)
{
	size_t digits = strspn(text, "0123456789.");
	char number[32], *end;
	if (digits == 0 || digits >= sizeof number)
		return E_USAGE;
	memcpy(number, text, digits);
	number[digits] = 0;
	double v = strtod(number, &end);
	for (size_t i = 0; !*end && i < n; i++)
		if (!strcmp(text + digits, unit[i].name)) {
			*out = v * unit[i].is;
			return 0;
		}
	return E_USAGE;
}

int duration_parse(const char *text, int64_t *ns)
{
	static const struct unit units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}};
	double v;
	if (quantity_parse(text, units, sizeof units / sizeof *units, &v) < 0)
		return fail(E_USAGE, "'%s' is not a duration; write 20s, 500ms or 2m", text);
	if (v > 9e18)
		return fail(E_USAGE, "'%s' is longer than 250 years", text);
	*ns = (int64_t)v;
	return 0;
}

int size_parse(const char *text, int64_t *bytes)
{
	static const struct unit units[] = {{"K", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30}};
	double v;
	if (quantity_parse(text, units, sizeof units / sizeof *units, &v) < 0)
		return fail(E_USAGE, "'%s' is not a size; write 512K, 32M or 1G", text);
	if (v > 0x1p60)
		return fail(E_USAGE, "'%s' is more than any disk holds", text);
	*bytes = (int64_t)v;
	return 0;
}
