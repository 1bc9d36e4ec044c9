/* SPDX-License-Identifier: Apache-2.0 */
/* JSON for standard output, by jansson. Numbers that are not finite become null, as JSON has no word for
 * them. */
#ifndef AGENT_JSON_H
#define AGENT_JSON_H

#include "platform/err.h"
#include <jansson.h>

/* Prints one object and a newline, and gives it back. NULL (no memory): E_NOMEM. */
int json_out(json_t *o) MUST_CHECK;
/* Text from outside: bytes that are not UTF-8 become '?'. */
json_t *json_text(const char *s);
json_t *json_num(double v); /* rounded to 6 significant digits */
json_t *json_ms(double ns); /* ns as ms, to 6 digits; negative: null */

#endif
