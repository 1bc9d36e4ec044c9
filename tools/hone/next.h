/* SPDX-License-Identifier: Apache-2.0 */
/* The last words of a command: what to do next, on standard error, after what was printed before; nothing
 * with -q. A command in it can be pasted into a POSIX shell, whatever bytes its paths and names hold. */
#ifndef TOOLS_NEXT_H
#define TOOLS_NEXT_H

#include "platform/base/buf.h"

/* Prints "Next: " and the format. Its only conversions are %s, each for a path: it is quoted where a shell
 * needs that, and gets "./" in front if it looks like an option. */
void next_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Prints the text as it is, as a line; takes it. */
void next_take(struct buf *text);
/* Appends a word as a shell reads it back. A control character or a byte that is no UTF-8 is written as
 * $(printf), so that a terminal never gets it. */
void shell_word(struct buf *out, const char *word);
void shell_path(struct buf *out, const char *path); /* "-x" becomes "./-x" */

#endif
