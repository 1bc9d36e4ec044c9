/* SPDX-License-Identifier: Apache-2.0 */
/* A record's text and keys. The text is "hone-rec 2" and the lines of the table below (agent/cache/fields.h).
 * In the former version it was "hone-rec 1", and the task's key was a MurmurHash3; for such a record the
 * task's key is computed from its text. */
#include "agent/cache/rec.h"

#include "agent/cache/fields.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define FIRST_LINE "hone-rec 2\n"
#define FORMER_LINE "hone-rec 1\n"

const char *rec_kind_name(int kind)
{
	static const char *const words[REC_KINDS] = {"default", "best", "hint", "own"};
	return kind >= 0 && kind < REC_KINDS ? words[kind] : NULL;
}

const char *rec_origin_name(int origin)
{
	static const char *const words[REC_ORIGINS] = {"search", "hint", "throttled"};
	return origin >= 0 && origin < REC_ORIGINS ? words[origin] : NULL;
}

static const struct field fields[] = {
    FIELD("task", F_KEY, struct rec, task),
    FIELD("kind", F_WORD, struct rec, kind, rec_kind_name),
    FIELD("target", F_CHARS, struct rec, target),
    FIELD("target_key", F_KEY, struct rec, target_key),
    FIELD("device", F_CHARS, struct rec, device),
    FIELD("threads", F_INT, struct rec, threads),
    FIELD("exact", F_WORD, struct rec, level, level_word),
    FIELD("emitter", F_CHARS, struct rec, emitter),
    FIELD("cand", F_CHARS, struct rec, cand),
    FIELD("status", F_STATUS, struct rec, meas.status),
    FIELD("runs", F_INT, struct rec, meas.runs),
    FIELD("min_ns", F_I64, struct rec, meas.min_ns),
    FIELD("median_ns", F_I64, struct rec, meas.median_ns),
    FIELD("spread_ns", F_I64, struct rec, meas.spread_ns),
    FIELD("build_ns", F_I64, struct rec, meas.build_ns),
    FIELD("max_rel_err", F_REAL, struct rec, meas.max_rel_err),
    FIELD("mhz_before", F_INT, struct rec, meas.mhz_before),
    FIELD("mhz_after", F_INT, struct rec, meas.mhz_after),
    FIELD("mc_before", F_INT, struct rec, meas.mc_before),
    FIELD("mc_after", F_INT, struct rec, meas.mc_after),
    FIELD("measured_threads", F_INT, struct rec, meas.threads),
    FIELD("label", F_TEXT, struct rec, label),
    FIELD("text", F_TEXT, struct rec, task_text),
};

static const struct field origin[] = {FIELD("origin", F_WORD, struct rec, origin, rec_origin_name)};

enum { NFIELDS = sizeof fields / sizeof *fields };

struct key rec_key(const struct rec *r)
{
	char text[256], task[33], target[33];
	key_text(r->task, task);
	key_text(r->target_key, target);
	snprintf(text, sizeof text, "rec %s %s %s %d %d %d", task, target, r->device, r->threads, r->level,
		 r->kind);
	return hash_text(text);
}

struct key code_key(const struct rec *r)
{
	return hash_join(hash_join(rec_key(r), hash_text(r->emitter)), hash_text(r->cand));
}

void rec_text(const struct rec *r, struct buf *out)
{
	buf_puts(out, FIRST_LINE);
	fields_text(fields, NFIELDS, r, out);
	if (r->origin != ORIGIN_SEARCH)
		fields_text(origin, 1, r, out);
}

bool rec_is_former(const char *text)
{
	return !strncmp(text, FORMER_LINE, strlen(FORMER_LINE));
}

int rec_parse(const char *text, struct arena *a, struct rec *out)
{
	*out = (struct rec){0};
	bool former = rec_is_former(text);
	if (!former && strncmp(text, FIRST_LINE, strlen(FIRST_LINE)))
		return fail(E_CORRUPT, "not a record of this version");
	text += strlen(FIRST_LINE);
	int rc = fields_parse(fields, NFIELDS, &text, a, out);
	if (rc >= 0 && !strncmp(text, "origin ", 7))
		rc = fields_parse(origin, 1, &text, a, out);
	if (rc < 0)
		return fail_in(rc, "record");
	if (former)
		out->task = hash_text(out->task_text);
	return *text ? fail(E_CORRUPT, "record: more lines than expected") : E_OK;
}

/* True: a terminal shows the text and does nothing else. */
static bool is_printable(const char *s)
{
	while (*s >= ' ' && *s != 0x7f)
		s++;
	return !*s;
}

/* "llvm-19.1.7/5": a name, a version, a revision of the code (kernels/loops/code.h), which may be missing. */
static bool is_emitter(const char *s)
{
	static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+~-";
	s += strspn(s, name);
	return !*s || (*s == '/' && s[1] && !s[1 + strspn(s + 1, "0123456789")]);
}

bool rec_is_device(const char *s)
{
	return *s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_-:")];
}

bool rec_is_plain(const struct rec *r)
{
	return is_printable(r->target) && rec_is_device(r->device) && is_emitter(r->emitter) &&
	       is_printable(r->cand);
}
