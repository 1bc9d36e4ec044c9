/* SPDX-License-Identifier: Apache-2.0 */
/* Choices: what graph passes decide by cost. Search makes them, the cache keeps them, graph_steps reads them,
 * so that a process without search divides a model in the same way. A plain value.
 *
 * A choice is (kind, name of a node or value, number). Where there is none, a pass's rule decides; one that
 * names nothing, or asks for what cannot be, is ignored. Any set of choices gives right answers.
 *
 *   join N NODE    the group of this anchor takes at most N of the nodes that follow it
 *   lanes N VALUE  1: the value is plain; more: its channels lie in blocks of the vector's width
 *   fuse N NODE    the group of this anchor and N - 1 after it are one kernel; 1: it is not the first of
 * several
 *
 * Text: "hone-choices 1\n", then a line each, by kind, then by name in byte order; of a kind and name there
 * is one. In a name, control characters and the backslash are \xHH. */
#ifndef KERNELS_CHOICES_H
#define KERNELS_CHOICES_H

#include "platform/base/arena.h"
#include "platform/base/buf.h"
#include "platform/base/err.h"

enum choice_kind { CHOICE_JOIN, CHOICE_LANES, CHOICE_FUSE, CHOICE_KINDS };

struct choice {
	enum choice_kind kind;
	const char *name;
	int number; /* 0 .. CHOICE_MAX */
};

enum { CHOICE_MAX = 1 << 20 };

struct choices { /* {0}: none */
	int n;
	struct choice *choice; /* in the order of the text */
};

/* c may be NULL: none. */
int choices_get(const struct choices *c, enum choice_kind kind, const char *name, int fallback);
/* Sets, or with number < 0 takes away, one choice of *c; its names and array move into the arena. */
void choices_set(struct choices *c, struct arena *a, enum choice_kind kind, const char *name, int number);
bool choices_equal(const struct choices *x, const struct choices *y);
const char *choice_kind_name(enum choice_kind kind); /* "join" */
void choices_text(const struct choices *c, struct buf *out);
/* Hostile text: E_CORRUPT. */
int choices_parse(const char *text, struct arena *a, struct choices *out) MUST_CHECK;

#endif
