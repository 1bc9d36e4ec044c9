/* SPDX-License-Identifier: Apache-2.0 */
/* Choices: decisions by cost on how a graph is divided. A tuning job compares other choices, which
 * kernels/group/alternatives.h proposes, by timing the network (agent/tune/tune_graph.h); the cache keeps the
 * winner (agent/cache/chosen.h); graph_steps reads it, so that a process that does not tune divides a model
 * in the same way. A plain value.
 *
 * A choice is (kind, name of a node or value, number). Without a choice a pass's rule decides. A choice that
 * names nothing, or asks for something impossible, is ignored. Any set of choices gives right answers.
 *
 *   join N NODE    the group of this anchor takes at most N of the nodes that follow it
 *   lanes N VALUE  1: the value is plain; more: its channels lie in blocks of the vector's width
 *   fuse N NODE    the groups from this anchor on are fused into one kernel, N in all; 1: not fused
 *   bytes 1 all    operators on u8 and i8 are tasks, in kernels; else portable code runs them
 *   bytes 0 NODE   but this one
 *
 * Text: "hone-choices 1\n", then one line per choice, sorted by kind, then by name in byte order. Kind and
 * name together are unique. In a name, control characters and the backslash are \xHH. */
#ifndef KERNELS_CHOICES_H
#define KERNELS_CHOICES_H

#include "platform/base/arena.h"
#include "platform/base/buf.h"
#include "platform/base/err.h"

enum choice_kind { CHOICE_JOIN, CHOICE_LANES, CHOICE_FUSE, CHOICE_BYTES, CHOICE_KINDS };

struct choice {
	enum choice_kind kind;
	const char *name;
	int number; /* 0 .. CHOICE_MAX */
};

enum { CHOICE_MAX = 1 << 20 };
#define CHOICE_ALL "all"

struct choices { /* {0}: none */
	int n;
	struct choice *choice; /* sorted as in the text */
};

/* Returns the number of a choice, or `fallback`. c may be NULL: no choices. */
int choices_get(const struct choices *c, enum choice_kind kind, const char *name, int fallback);
/* Sets one choice of *c, or removes it if number < 0. The names and the array of *c move into the arena. */
void choices_set(struct choices *c, struct arena *a, enum choice_kind kind, const char *name, int number);
bool choices_equal(const struct choices *x, const struct choices *y);
const char *choice_kind_name(enum choice_kind kind); /* "join" */
void choices_text(const struct choices *c, struct buf *out);
/* Parses untrusted text. E_CORRUPT: it is not what choices_text writes. */
int choices_parse(const char *text, struct arena *a, struct choices *out) MUST_CHECK;

#endif
