/* SPDX-License-Identifier: Apache-2.0 */
/* What a report that leaves the board must not tell: the board's name and its users' become words, values of
 * what looks like a secret are left out. */
#ifndef TOOLS_MASK_H
#define TOOLS_MASK_H

#include "platform/base/buf.h"

enum { MASK_WORDS = 8 };

struct mask {
	int n;
	struct mask_word {
		char from[72];
		const char *to;
	} word[MASK_WORDS];
};

/* This board's name, and who runs this, but root, hone and nobody. */
void mask_board(struct mask *m);
void mask_add(struct mask *m, const char *from, const char *to); /* of less than three letters: not */
/* Whole words alone; /home/NAME is /home/USER. Where a line names a key, token, password, secret or
 * credential and a value behind = or :, the value is "(left out)". */
void mask_text(const struct mask *m, const char *text, struct buf *out);

#endif
