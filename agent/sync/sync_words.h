/* SPDX-License-Identifier: Apache-2.0 */
/* The result of the last run in words for people, which hone-sync and hone sync print. */
#ifndef AGENT_SYNC_WORDS_H
#define AGENT_SYNC_WORDS_H

#include <jansson.h>

/* Prints what `status`, the object of sync_status, says about the last run, if there was one, and about the
 * next, if it is known and not due yet, in lines of the terminal's width. */
void sync_words(const json_t *status);

#endif
