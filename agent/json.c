/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int json_out(json_t *o)
{
	if (!o)
		return fail(E_NOMEM, "no memory for the JSON");
	int rc = json_dumpf(o, stdout, JSON_REAL_PRECISION(6) | JSON_COMPACT);
	putchar('\n');
	json_decref(o);
	/* What standard output does not take, hone_main reports. */
	return rc < 0 && !ferror(stdout) ? fail(E_NOMEM, "no memory for the JSON") : 0;
}

json_t *json_text(const char *s)
{
	json_t *j = json_string(s);
	if (j)
		return j;
	char *copy = strdup(s);
	for (char *p = copy; p && *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	j = copy ? json_string(copy) : NULL;
	free(copy);
	return j;
}

json_t *json_num(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

json_t *json_ms(double ns)
{
	return ns < 0 ? json_null() : json_num(ns / 1e6);
}
