/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that commands which take packs trust: the image's root and the newer roots that hone-sync learnt
 * (if they can be read), and keys that the user names. */
#ifndef TOOLS_TRUSTED_H
#define TOOLS_TRUSTED_H

#include "agent/sync/crypto.h"
#include "tools/hone/cmd.h"

enum { TRUSTED_KEYS = 16 };

#define OPT_ROOT                                                                                             \
	{                                                                                                    \
		"root", OPT_STR, "FILE", "root of trust for a fleet's signatures (default: the image's)"     \
	}

struct trusted {             /* see agent/sync/trust.h */
	struct trust *trust; /* NULL: this machine has no root */
	char temp[32];       /* temporary folder of its state; "": hone-sync's state is used */
	int n;
	struct public_key key[TRUSTED_KEYS];
};

/* For commands with OPT_ROOT. own_state: newer roots are remembered for this command alone. It is an error if
 * the file of --root is missing, but not if the image's is. */
int trusted_open(const struct args *a, bool own_state, struct trusted *out) MUST_CHECK;
/* Reads --key: each is 130 hex digits, or a file that begins with them or is the key in PEM. */
int trusted_keys(const struct args *a, struct trusted *out) MUST_CHECK;
void trusted_close(struct trusted *t);

#endif
