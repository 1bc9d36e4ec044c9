/* SPDX-License-Identifier: Apache-2.0 */
/* JSON, by jansson. On standard output, numbers that are not finite become null, since JSON cannot express
 * them. In strangers' JSON, a member of the wrong type or range gives E_CORRUPT with its name. */
#ifndef AGENT_JSON_H
#define AGENT_JSON_H

#include "platform/base/err.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Prints an object and a newline, and releases the object. NULL (no memory): E_NOMEM. */
int json_out(json_t *o) MUST_CHECK;
/* Whether json_out has printed in this process, or json_out_left said that another one prints. */
bool json_out_done(void);
/* Standard output is another process's from now on: this one prints no object any more. */
void json_out_left(void);
/* Prints the last error (err_text) as an object, {"error": TEXT, "code": WORD of err_name, "exit": STATUS},
 * for a program that fails with --json, unless it has printed its own answer. */
void json_out_error(int rc, int status);
/* Makes a string from outside text; if that is not UTF-8, its bytes from 0x80 become '?'. */
json_t *json_text(const char *s);
json_t *json_num(double v); /* rounded to 6 significant digits */
json_t *json_ms(double ns); /* ns as ms, to 6 digits; negative: null */

/* Reads one JSON object and nothing else, without duplicate names. Release it with json_decref. */
int json_read(const void *p, size_t n, json_t **out) MUST_CHECK;
/* A whole number from least to most (both within 2^53). */
int json_read_whole(const json_t *o, const char *name, int64_t least, int64_t most, int64_t *out) MUST_CHECK;
/* A text of 1 to room - 1 bytes without control characters. */
int json_read_text(const json_t *o, const char *name, char *out, size_t room) MUST_CHECK;
/* n lower-case hex digits and a NUL. */
int json_read_hex(const json_t *o, const char *name, char *out, size_t n) MUST_CHECK;
/* Reads a list of at most `most` elements; *out NULL: absent, which counts as 0. Returns their number. */
int json_read_list(const json_t *o, const char *name, int most, const json_t **out) MUST_CHECK;
/* Returns whether it is a text of n lower-case hex digits; copies it. */
bool json_hex(const json_t *text, char *out, size_t n);

#endif
