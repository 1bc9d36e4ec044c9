/* SPDX-License-Identifier: Apache-2.0 */
/* Reads names and values from forms and query strings: a=b&c=d, with + and %XX. Any bytes may come in; a part
 * that is malformed has no value. */
#ifndef TOOLS_FLEET_FORM_H
#define TOOLS_FLEET_FORM_H

#include "platform/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the first value of a name, as one line of printable UTF-8 (all else becomes '?'). 1: found; 0:
 * absent, out is ""; E_USAGE: it does not fit in n bytes, or its encoding is wrong. */
int form_get(const char *form, size_t len, const char *name, char *out, size_t n) MUST_CHECK;
/* Reads the value of a name in a `Cookie` header, without decoding. 1: found; 0: absent. */
int cookie_get(const char *cookies, const char *name, char *out, size_t n);
/* Reads `page`, a whole number from 1 to most; absent: 1. E_USAGE. */
int form_page(const char *form, int64_t most, int64_t *out) MUST_CHECK;

#endif
