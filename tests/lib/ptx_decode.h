/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by ptx_decode.c and ptx_decode_matrix.c: an instruction that is taken apart, and its operands. */
#ifndef TESTS_PTX_DECODE_H
#define TESTS_PTX_DECODE_H

#include "tests/lib/ptx_parts.h"

#include <string.h>

enum { MOST_SUFFIXES = 16 };

struct words { /* a mnemonic, taken apart */
	const char *s[MOST_SUFFIXES];
	int len[MOST_SUFFIXES];
	bool used[MOST_SUFFIXES];
	int n;
};

/* Whether the mnemonic has this suffix, which is thereby understood. */
static inline bool has(struct words *w, const char *s)
{
	for (int i = 1; i < w->n; i++)
		if (w->len[i] == (int)strlen(s) && !memcmp(w->s[i], s, (size_t)w->len[i]))
			return w->used[i] = true;
	return false;
}

static inline int next_type(struct words *w)
{
	for (int i = 1; i < w->n; i++) {
		int t = w->used[i] ? T_NONE : ptx_type_of(w->s[i], w->len[i]);
		if (t != T_NONE) {
			w->used[i] = true;
			return t;
		}
	}
	return T_NONE;
}

struct decoder {
	struct ptx_parser *p;
	const struct ptx_line *l;
	struct words *w;
	struct ptx_ins *in;
};

int ptx_space_of(struct words *w);
int ptx_want_args(const struct decoder *d, int least, int most);
/* An operand that is read, of `bytes` per lane (0: a predicate); wider: a wider register will do. */
int ptx_read_arg(struct decoder *d, const struct ptx_arg *a, unsigned bytes, bool wider, struct ptx_opnd *o);
int ptx_write_arg(const struct ptx_arg *a, unsigned bytes, bool wider, struct ptx_opnd *o);
/* The register of an address, and what is added to it. */
int ptx_address_arg(struct decoder *d, const struct ptx_arg *a, struct ptx_opnd *o, int64_t *offset);

/* ptx_decode_matrix.c */
int ptx_decode_wmma(struct decoder *d);
int ptx_decode_ldmatrix(struct decoder *d);
int ptx_decode_mma(struct decoder *d);

#endif
