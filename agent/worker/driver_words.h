/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps aside the lines that drivers of devices and their compilers write to standard error, such as "8
 * warnings generated." People can do nothing with them while all goes well, so they stay in memory.
 * They are shown when the process fails or crashes, and always with -v. Messages of the process itself
 * (platform/base/log.h), and of workers that it starts, are shown as ever. For processes that use a
 * device: workers, and the child of a command (tools/hone/guard.h). */
#ifndef AGENT_DRIVER_WORDS_H
#define AGENT_DRIVER_WORDS_H

/* From now on descriptor 2 leads aside, and stderr to where it led. Does nothing at -v, and where the system
 * refuses. Signals that end the process show the words, unless somebody handles them. */
void driver_words_keep(void);
/* Call it now and then: drops old words when there are many. */
void driver_words_forget(void);
/* Shows the last of them, once. May be called in a signal handler. */
void driver_words_show(void);
/* The handler of driver_words_keep, which others may replace by one that calls driver_words_show. */
void driver_words_crashed(int sig);

#endif
