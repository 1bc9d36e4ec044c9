/* SPDX-License-Identifier: Apache-2.0 */
/* Words of commands that messages suggest: they can be pasted into a POSIX shell, whatever bytes they hold.
 */
#ifndef PLATFORM_SHELL_H
#define PLATFORM_SHELL_H

#include "platform/base/buf.h"

/* Appends a word as a shell reads it back. A control character or a byte that is no UTF-8 is written as
 * $(printf), so that a terminal never gets it. */
void shell_word(struct buf *out, const char *word);
void shell_path(struct buf *out, const char *path); /* as shell_word, but "-x" becomes "./-x" */

#endif
