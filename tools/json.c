/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/json.h"
#include <math.h>
#include <stdio.h>

int json_out(json_t *o)
{
	if (!o)
		return fail(E_NOMEM, "no memory for the JSON");
	int rc = json_dumpf(o, stdout, JSON_REAL_PRECISION(6) | JSON_COMPACT);
	putchar('\n');
	json_decref(o);
	return rc < 0 ? fail(E_IO, "cannot write JSON to standard output") : 0;
}

json_t *json_num(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

json_t *json_ms(double ns)
{
	return ns < 0 ? json_null() : json_num(ns / 1e6);
}
