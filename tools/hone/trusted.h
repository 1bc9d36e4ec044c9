/* SPDX-License-Identifier: Apache-2.0 */
/* Whom commands that take packs believe: the image's root and what hone-sync has come to since, where that
 * can be read, and keys that the user names. */
#ifndef TOOLS_TRUSTED_H
#define TOOLS_TRUSTED_H

#include "agent/sync/crypto.h"
#include "tools/hone/cmd.h"

enum { TRUSTED_KEYS = 16 };

#define OPT_ROOT                                                                                             \
	{                                                                                                    \
		"root", OPT_STR, "FILE", "whom a fleet's signatures are believed (default: the image's)"     \
	}

struct trusted {             /* trust: agent/sync/trust.h */
	struct trust *trust; /* NULL: this machine has no root */
	char temp[32];       /* folder of its state; "": hone-sync's */
	int n;
	struct public_key key[TRUSTED_KEYS];
};

/* own_state: what is learnt of newer roots is for this command alone. --root that cannot be had is an error,
 * the image's is not. For commands with OPT_ROOT. */
int trusted_open(const struct args *a, bool own_state, struct trusted *out) MUST_CHECK;
/* --key, each a file with, or itself, 130 hex digits. */
int trusted_keys(const struct args *a, struct trusted *out) MUST_CHECK;
void trusted_close(struct trusted *t);

#endif
