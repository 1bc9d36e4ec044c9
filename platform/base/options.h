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

#endif
