/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the text of an error fit. Errors begin with the cause and end with what to do about it, so that a
 * text that is too long loses its middle. */
#ifndef AGENT_SHORTEN_H
#define AGENT_SHORTEN_H

#include <stddef.h>

/* Writes the plain text into out[n], n >= 32. If it does not fit, its beginning and its end stay, cut between
 * words, with " ... " between them; the end begins with a clause if one fits into half of the room. */
void shorten(const char *text, char *out, size_t n);

#endif
