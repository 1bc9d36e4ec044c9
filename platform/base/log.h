/* SPDX-License-Identifier: Apache-2.0 */
/* Messages for people, on stderr, cleaned by log_plain. The level is set once at the start (-q, -v). Data is
 * never printed here. On a terminal, sentences are broken into lines of its columns (platform/base/wrap.h),
 * with the indent of the first; in files, pipes and the journal each message is one line. A message that
 * begins with a brace is JSON, and stays as it is. */
#ifndef PLATFORM_LOG_H
#define PLATFORM_LOG_H

#include <stdbool.h>
#include <stdio.h>

enum log_level { LOG_QUIET, LOG_NORMAL, LOG_VERBOSE };

void log_level_set(enum log_level level);
enum log_level log_level(void);
/* The program's name, at most 32 letters, which is kept: an error is "NAME: error: ...". Before: "hone". */
void log_program_set(const char *name);
/* From now on messages go to this stream, which stderr becomes. For a process with one thread. */
void log_move(FILE *to);
/* Begins each line with its priority, <3>, <6> or <7>, as the journal reads it from stderr. */
void log_journal_set(bool on);
/* Whether stderr goes to the journal: $JOURNAL_STREAM names its device and inode. */
bool log_to_journal(void);
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));  /* shown from NORMAL */
/* Always shown, for what changes an answer, such as a device that a command does without. */
void log_notice(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_more(const char *fmt, ...) __attribute__((format(printf, 1, 2)));  /* shown at VERBOSE */
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* always */
/* As log_info, for a command that is to be pasted: never broken into lines. */
void log_whole(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Columns of the terminal at a descriptor; without one $COLUMNS, else `otherwise`. */
int log_columns(int fd, int otherwise);
/* Whether the file is a terminal that obeys escape sequences: TERM=dumb says that it does not. */
bool log_is_terminal(int fd);
/* A live line that overwrites itself on a terminal, cut to the terminal's columns. Off a terminal, and on a
 * dumb one, it prints nothing, or one line a second at VERBOSE. log_live(NULL) clears it. */
void log_live(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Text from outside (names of a model, strangers' records) must not control a terminal: invalid UTF-8, and
 * every control character but newline and tab, becomes '?'. */
void log_plain(char *text);
/* Like log_plain, but newline and tab become '?' too: the result is one line. */
void log_one_line(char *text);
/* Columns that plain text takes on a terminal, a character each. */
int log_width(const char *text);
/* Cuts plain text at its end to so many columns. */
void log_cut(char *text, int columns);

#endif
