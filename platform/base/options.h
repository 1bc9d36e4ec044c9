/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of programs that read their command line with getopt_long. */
#ifndef PLATFORM_OPTIONS_H
#define PLATFORM_OPTIONS_H

#include "platform/base/err.h"
#include <getopt.h>

/* Returns E_USAGE with a text about the word that getopt_long rejected: an option that is not known, with the
 * one that may have been meant, or one with a missing or needless value. `at` is what optind was before that
 * call: getopt_long then skips the words that are no options. `program` is for "see PROGRAM --help". The
 * caller sets opterr = 0. */
int options_refuse(const char *program, int argc, char **argv, int at,
		   const struct option *options) MUST_CHECK;

/* E_USAGE if the option that getopt_long just returned took the next word as its value, and that word looks
 * like an option: "--" and anything, or "-" and a letter that some option has. index: of the option in the
 * table; for options that take a value alone. */
int options_check_value(int argc, char **argv, const struct option *options, int index) MUST_CHECK;

#endif
