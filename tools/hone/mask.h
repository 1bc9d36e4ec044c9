/* SPDX-License-Identifier: Apache-2.0 */
/* Masks a report that leaves the board: the names of the board and its users are replaced, and values that
 * look like secrets are left out. */
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

/* Masks this board's name and the user who runs this, except root, hone and nobody. */
void mask_board(struct mask *m);
void mask_add(struct mask *m, const char *from, const char *to); /* words of less than three letters are
								  * ignored */
/* Replaces whole words only; /home/NAME becomes /home/USER. If a line names a key, token, password, secret or
 * credential and has a value after = or :, the value becomes "(left out)". */
void mask_text(const struct mask *m, const char *text, struct buf *out);

#endif
