/* SPDX-License-Identifier: Apache-2.0 */
/* Words for people, on stderr, made plain (log_plain). Level is set once at start (-q, -v). Data never goes
 * through here. */
#ifndef PLATFORM_LOG_H
#define PLATFORM_LOG_H

#include <stdbool.h>

enum log_level { LOG_QUIET, LOG_NORMAL, LOG_VERBOSE };

void log_level_set(enum log_level level);
enum log_level log_level(void);
/* Each line begins with its priority, as the journal takes them from stderr: <3>, <6>, <7>. */
void log_journal_set(bool on);
/* stderr is the journal's: $JOURNAL_STREAM names its device and inode. */
bool log_to_journal(void);
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));  /* shown from NORMAL */
void log_more(const char *fmt, ...) __attribute__((format(printf, 1, 2)));  /* shown at VERBOSE */
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* always: "hone: error: ..." */
/* One live line that overwrites itself on a terminal; off a terminal nothing, or one line a second at
 * VERBOSE. log_live(NULL) clears it. */
void log_live(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Text from outside (names of a model, records of strangers) must not command a terminal: what is no UTF-8,
 * and every control character but newline and tab, becomes '?'. */
void log_plain(char *text);
/* The same, and newline and tab, too: one line whatever comes. */
void log_one_line(char *text);

#endif
