/* SPDX-License-Identifier: Apache-2.0 */
/* Names and values as forms and addresses have them: a=b&c=d, with + and %XX. Any bytes are taken; what is no
 * such thing has no value. */
#ifndef TOOLS_FLEET_FORM_H
#define TOOLS_FLEET_FORM_H

#include "platform/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first value of a name, as one line of printable UTF-8 ('?' for all else). Absent: "" and 0; 1: it is
 * there; E_USAGE: it has no room in n bytes, or is not well coded. */
int form_get(const char *form, size_t len, const char *name, char *out, size_t n) MUST_CHECK;
/* Of a header `Cookie`: the value of a name, without decoding. 1, 0. */
int cookie_get(const char *cookies, const char *name, char *out, size_t n);
/* A whole number from 1 to most; absent: 1. E_USAGE. */
int form_page(const char *form, int64_t most, int64_t *out) MUST_CHECK;

#endif
