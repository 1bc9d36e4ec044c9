/* SPDX-License-Identifier: Apache-2.0 */
/* Where hone tune can keep its results, and what to do where the cache folder cannot be written. */
#ifndef TOOLS_KEEP_H
#define TOOLS_KEEP_H

#include "tools/hone/cmd.h"

#define KEEP_NOWHERE "/nonexistent" /* the cache folder where none is named and the user has none */

/* Whether the folder, or the nearest one above it that exists, takes a new file. It makes a folder in it and
 * removes that. */
bool keep_can(const char *dir);
/* Says that another folder is needed; if the user has one, prints "Next: hone tune MODEL" with it. */
void keep_next(const struct args *a, const char *model, const char *more);
/* Prints "Next: hone tune MODEL" and `more` (next_hone), with another folder if this user cannot write the
 * cache that the command used. dir: that cache; "": there is none; NULL: the default one. */
void keep_tune(const struct args *a, const char *dir, const char *model, const char *more);

#endif
