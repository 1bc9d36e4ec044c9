/* SPDX-License-Identifier: Apache-2.0 */
/* The last words of a command: what to do next, on standard error, after what was printed before; nothing
 * with -q. The line is a command alone, which can be pasted into a POSIX shell, whatever bytes its paths and
 * names hold: no word of it stands for another one (for a model that nobody named: tools/hone/known.h).
 * Advice goes on a line before it. */
#ifndef TOOLS_NEXT_H
#define TOOLS_NEXT_H

#include "platform/base/shell.h"
#include "tools/hone/cmd.h"

/* How the program `name` was called (argv[0]). With a "/" in it, a shell would not find the program by its
 * name alone: the path takes the place of the name with which a Next: line begins. Both are kept;
 * program_main calls it. */
void next_called(const char *name, const char *called);
/* Appends the word by which a user calls this program, "hone-fleet" or "build/hone-fleet", quoted where a
 * shell needs that. */
void next_program(struct buf *out);
/* From now on no Next: line names the device of --device, because it is not there. */
void next_leave_device(void);
/* From now on Next: lines of hone tune repeat --data and the options that go with it: no cache has the recipe
 * that was made of these examples. */
void next_need_examples(void);
/* Writes what standard output still keeps, so that the words that follow come after it, also in a pipe. If it
 * cannot be written, no words follow: the error that out_flush then reports is the last thing to be read. */
void next_flush(void);
/* Prints "Next: " and the format. Its only conversions are %s, each for a path: it is quoted where a shell
 * needs that, and gets "./" in front if it looks like an option. */
void next_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Prints "Next: hone COMMAND MODEL", then `more` (" --budget 20s", or ""), then the options of this command
 * that choose shapes, kernels, threads and the cache, as far as COMMAND takes them and `more` has no others.
 */
void next_hone(const struct args *a, const char *command, const char *model, const char *more);
/* Appends the same command to out, without "Next: ". cache: NULL, or the value of --cache instead of that of
 * this command. */
void next_words(const struct args *a, const char *command, const char *model, const char *more,
		const char *cache, struct buf *out);
/* Prints the text as it is, as a line; takes it. */
void next_take(struct buf *text);

#endif
