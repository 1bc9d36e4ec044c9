/* SPDX-License-Identifier: Apache-2.0 */
/* A record: the result of a search for one task, as it is kept in the cache and sent to a fleet. */
#ifndef AGENT_REC_H
#define AGENT_REC_H

#include "platform/base/arena.h"
#include "platform/base/buf.h"
#include "platform/base/err.h"
#include "platform/base/hash.h"
#include "kernels/task/level.h"
#include "platform/base/meas.h"

enum rec_kind {
	REC_DEFAULT, /* the default */
	REC_BEST,    /* the fastest candidate that this board measured */
	REC_HINT,    /* a stranger's candidate (agent/cache/hint.h) */
	REC_OWN,     /* hone's own fastest candidate, of a task whose REC_BEST is a library's */
	REC_KINDS
};

/* The source of a record's candidate. This board has checked and timed it in either case. */
enum rec_origin {
	ORIGIN_SEARCH,    /* a search on this board; also one that found a hint's candidate again later */
	ORIGIN_HINT,      /* a stranger's hint (agent/cache/hint.h) */
	ORIGIN_THROTTLED, /* as ORIGIN_SEARCH, but its times are not comparable (meas.throttled, which the
			     text does not hold) */
	REC_ORIGINS
};

struct rec {
	struct key task; /* of the task text */
	enum rec_kind kind;
	enum rec_origin origin;
	char target[160]; /* human-readable target: soc isa lanes */
	struct key target_key;
	char device[16];
	int threads;
	enum level level;
	char emitter[32]; /* name and version */
	char cand[512];
	struct meas meas;
	const char *task_text; /* in the arena it was read into */
	const char *label;
};

struct key rec_key(const struct rec *r);  /* SHA-256 of task, target key, device, threads, level and kind */
struct key code_key(const struct rec *r); /* ... of that, emitter and candidate */
const char *rec_kind_name(int kind);      /* "default", "best", "hint", "own"; NULL: no enum rec_kind */
const char *rec_origin_name(int origin);  /* "search", "hint"; NULL: no enum rec_origin */
/* Appends the record's text: "hone-rec 2" and one line for each field. The level is that of "exact", a flag
 * once (level_word). A last line "origin" is there only if
 * the candidate comes from a hint, so that former versions can read all other records. */
void rec_text(const struct rec *r, struct buf *out);
/* Reads such a text; strings of *out live in the arena. E_CORRUPT: it is none. Fuzzed. */
int rec_parse(const char *text, struct arena *a, struct rec *out) MUST_CHECK;
/* True: the text was written by the former version. Its key is not rec_key's, and rec_parse derives the
 * task's key from the task's text. */
bool rec_is_former(const char *text);
/* True: target, device, emitter and candidate are plain text, device and emitter by their grammar
 * ("cpu", "llvm-19.1.7/5"). What strangers send has to be so. */
bool rec_is_plain(const struct rec *r);
bool rec_is_device(const char *s);

#endif
