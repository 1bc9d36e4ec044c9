/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/submission.h"
#include "agent/cache/json.h"
#include "kernels/task/level.h"
#include "platform/base/hash.h"
#include "platform/machine/disturb.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MADE_BY "hone bench --submit"
#define NOT_KNOWN "-"
#define DIGITS JSON_REAL_PRECISION(6)

const char *const submission_kind[] = {"fallback", "default", "tuned"};

/* ---- the members: one table for writing and reading */

enum kind { TEXT, WHOLE, REAL };
struct member {
	const char *in, *name; /* "board", "isa"; in "": of the object itself */
	enum kind kind;
	size_t at;
	double least, most;
	bool unknown; /* may be "-" or -1 */
};

#define AT(field) offsetof(struct submission, field)
#define TEXT_OF(in, name)                                                                                    \
	{                                                                                                    \
#in, #name, TEXT, AT(in.name), 0, 0, false                                                   \
	}
#define MAYBE_TEXT(in, name)                                                                                 \
	{                                                                                                    \
#in, #name, TEXT, AT(in.name), 0, 0, true                                                    \
	}
#define WHOLE_OF(in, name, least, most)                                                                      \
	{                                                                                                    \
#in, #name, WHOLE, AT(in.name), least, most, false                                           \
	}
#define MAYBE_WHOLE(in, name, least, most)                                                                   \
	{                                                                                                    \
#in, #name, WHOLE, AT(in.name), least, most, true                                            \
	}
#define REAL_OF(in, name, least, most)                                                                       \
	{                                                                                                    \
#in, #name, REAL, AT(in.name), least, most, false                                            \
	}

#define MOST_BYTES 1e12
#define MOST_GFLOPS 1e6
#define MOST_GFLOP 1e6
#define MOST_MS 1e9

static const struct member members[] = {
    {"", "hone", TEXT, AT(hone), 0, 0, false},
    {"", "date", TEXT, AT(date), 0, 0, false},
    MAYBE_TEXT(board, file),
    MAYBE_TEXT(board, model),
    MAYBE_TEXT(board, soc),
    MAYBE_TEXT(board, revision),
    MAYBE_TEXT(board, mode),
    TEXT_OF(board, isa),
    MAYBE_TEXT(board, cpu),
    MAYBE_TEXT(board, kernel),
    WHOLE_OF(board, cores, 1, 1024),
    WHOLE_OF(board, lanes, 1, 64),
    WHOLE_OF(board, regs, 1, 1024),
    WHOLE_OF(board, l1_bytes, 0, MOST_BYTES),
    WHOLE_OF(board, l2_bytes, 0, MOST_BYTES),
    WHOLE_OF(board, l3_bytes, 0, MOST_BYTES),
    REAL_OF(board, gflops_per_core, 0, MOST_GFLOPS),
    TEXT_OF(network, name),
    REAL_OF(network, gflop, 0, MOST_GFLOP),
    WHOLE_OF(network, kernels, 1, 1 << 20),
    TEXT_OF(run, level),
    MAYBE_TEXT(run, governor),
    WHOLE_OF(run, threads, 1, 1024),
    WHOLE_OF(run, rounds, 6, 1 << 20), /* fewer have no interval */
    MAYBE_WHOLE(run, clock_mhz, 0, 1e6),
    MAYBE_WHOLE(run, clock_most_mhz, 0, 1e6),
    MAYBE_WHOLE(run, temp_before_mc, -60000, 150000),
    MAYBE_WHOLE(run, temp_after_mc, -60000, 150000),
    MAYBE_WHOLE(run, throttled_before, 0, 1),
    MAYBE_WHOLE(run, share_pct, 0, 100),
    MAYBE_WHOLE(run, others_pct, 0, 1e5),
    WHOLE_OF(check, outputs, 1, 1 << 16),
    REAL_OF(check, max_rel_err, 0, 1),
};
enum { MEMBERS = sizeof members / sizeof *members };

#define TIME(name)                                                                                           \
	{                                                                                                    \
		"", #name, REAL, offsetof(struct submission_times, name), 0, MOST_MS, false                  \
	}
static const struct member times[] = {TIME(median), TIME(low), TIME(high), TIME(min), TIME(p90)};
enum { TIMES = sizeof times / sizeof *times };

static json_t *value_json(const struct member *m, const void *base)
{
	const char *p = (const char *)base + m->at;
	if (m->kind == TEXT)
		return json_text(p);
	if (m->kind == WHOLE)
		return json_integer(*(const int64_t *)(const void *)p);
	return json_real(*(const double *)(const void *)p);
}

static json_t *part(json_t *o, const char *in)
{
	json_t *p = *in ? json_object_get(o, in) : o;
	if (!p) {
		p = json_object();
		json_object_set_new(o, in, p);
	}
	return p;
}

/* The whole object without its sum, in the order of the header. */
static json_t *to_json(const struct submission *s)
{
	json_t *o = json_pack("{ss si}", "made_by", MADE_BY, "format", SUBMISSION_FORMAT);
	for (int i = 0; i < MEMBERS; i++)
		json_object_set_new(part(o, members[i].in), members[i].name, value_json(&members[i], s));
	json_t *gbs = json_array();
	for (int i = 0; i < 4; i++)
		json_array_append_new(gbs, json_real(s->board.read_gbs[i]));
	json_object_set_new(part(o, "board"), "read_gbs", gbs);
	json_object_set_new(part(o, "network"), "sha256", json_text(s->network.sha256));
	for (int k = 0; k < SUBMIT_KINDS; k++)
		for (int i = 0; i < TIMES; i++)
			json_object_set_new(part(part(o, "times"), submission_kind[k]), times[i].name,
					    value_json(&times[i], &s->times[k]));
	return o;
}

static int sum_of(const json_t *o, char out[65])
{
	struct hash h;
	uint8_t digest[HASH_BYTES];
	char *text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS | DIGITS);
	if (!text)
		return fail(E_NOMEM, "no memory for the submission");
	hash_begin(&h);
	hash_add(&h, text, strlen(text));
	hash_end(&h, digest);
	for (int i = 0; i < HASH_BYTES; i++)
		snprintf(out + 2 * i, 3, "%02x", digest[i]);
	free(text);
	return E_OK;
}

/* ---- reading */

static int read_value(const json_t *o, const struct member *m, void *base)
{
	char *p = (char *)base + m->at;
	const json_t *j = json_object_get(o, m->name);
	if (m->kind == TEXT) {
		int rc = json_read_text(o, m->name, p, SUBMISSION_TEXT);
		if (rc >= 0 && !m->unknown && !strcmp(p, NOT_KNOWN))
			return fail(E_CORRUPT, "\"%s\" is missing", m->name);
		return rc;
	}
	double v = json_number_value(j);
	bool right = m->kind == WHOLE ? json_is_integer(j) : json_is_number(j);
	if (!right || !((v >= m->least && v <= m->most) || (m->unknown && v == -1)))
		return fail(E_CORRUPT, "\"%s\" is not a %snumber from %g to %g%s", m->name,
			    m->kind == WHOLE ? "whole " : "", m->least, m->most, m->unknown ? ", or -1" : "");
	if (m->kind == WHOLE)
		*(int64_t *)(void *)p = json_integer_value(j);
	else
		*(double *)(void *)p = v;
	return E_OK;
}

static int read_members(const json_t *o, struct submission *s)
{
	int rc = E_OK;
	for (int i = 0; i < MEMBERS && rc >= 0; i++) {
		const json_t *in = *members[i].in ? json_object_get(o, members[i].in) : o;
		rc = read_value(in, &members[i], s);
	}
	const json_t *gbs = json_object_get(json_object_get(o, "board"), "read_gbs");
	for (int i = 0; i < 4 && rc >= 0; i++) {
		const json_t *v = json_array_get(gbs, (size_t)i);
		s->board.read_gbs[i] = json_number_value(v);
		if (!json_is_number(v) || !(s->board.read_gbs[i] >= 0 && s->board.read_gbs[i] <= 1e6))
			rc = fail(E_CORRUPT, "\"read_gbs\" is not a list of four speeds");
	}
	if (rc >= 0)
		rc = json_read_hex(json_object_get(o, "network"), "sha256", s->network.sha256, 64);
	for (int k = 0; k < SUBMIT_KINDS && rc >= 0; k++)
		for (int i = 0; i < TIMES && rc >= 0; i++)
			rc = fail_in(
			    read_value(json_object_get(json_object_get(o, "times"), submission_kind[k]),
				       &times[i], &s->times[k]),
			    "times of %s kernels", submission_kind[k]);
	return rc;
}

/* The factor by which a network's operations may be more than those that the processor does: Winograd's
 * F(4,3) saves three of four multiplications, and products of bytes and 16-bit floats take less time. */
static double saving(enum level level)
{
	return level == LEVEL_EXACT ? 1 : level == LEVEL_FP32 || level == LEVEL_W16 ? 4 : 32;
}

/* Whether a board could have measured these values. */
static int check_values(const struct submission *s)
{
	enum level level;
	if (level_parse(s->run.level, &level) < 0)
		return fail(E_CORRUPT, "\"level\" is none of hone's");
	for (int k = 0; k < SUBMIT_KINDS; k++) {
		const struct submission_times *t = &s->times[k];
		const char *kind = submission_kind[k];
		if (!(t->min > 0 && t->min <= t->low && t->low <= t->median && t->median <= t->high))
			return fail(E_CORRUPT,
				    "the times of %s kernels contradict each other: min, low, median and "
				    "high must ascend",
				    kind);
		if (t->p90 < t->median)
			return fail(E_CORRUPT,
				    "the times of %s kernels contradict each other: p90 is below "
				    "the median",
				    kind);
		double most = 1.1 * saving(level) * s->board.gflops_per_core * (double)s->run.threads;
		if (s->board.gflops_per_core > 0 && s->network.gflop / (t->min / 1e3) > most)
			return fail(E_CORRUPT,
				    "%s kernels of %s take %g ms, which is faster than %lld threads of this "
				    "board can multiply",
				    kind, s->network.name, t->min, (long long)s->run.threads);
	}
	if (s->run.share_pct >= 0 && s->run.share_pct < DISTURB_SHARE_PCT)
		return fail(E_CORRUPT, "the machine was disturbed: \"share_pct\" is %lld",
			    (long long)s->run.share_pct);
	if (s->run.others_pct > DISTURB_OTHERS_PCT)
		return fail(E_CORRUPT, "the machine was disturbed: \"others_pct\" is %lld",
			    (long long)s->run.others_pct);
	return E_OK;
}

/* Which member of `theirs` is not one of `ours`; NULL: none. */
static const char *strange(const json_t *theirs, const json_t *ours)
{
	const char *name, *inside;
	json_t *v;
	json_object_foreach((json_t *)theirs, name, v)
	{
		const json_t *own = json_object_get(ours, name);
		inside = own && json_is_object(v) ? strange(v, own) : own ? NULL : name;
		if (inside)
			return inside;
	}
	return NULL;
}

static int check_sum(json_t *o, const struct submission *s)
{
	char said[65], sum[65];
	int rc = json_read_hex(o, "sum", said, 64);
	if (rc < 0)
		return rc;
	json_t *ours = to_json(s);
	json_object_del(o, "sum");
	const char *name = strange(o, ours);
	if (name)
		rc = fail(E_CORRUPT, "it has a member \"%s\", which hone does not write", name);
	if (rc >= 0)
		rc = sum_of(o, sum);
	if (rc >= 0 && strcmp(said, sum))
		rc = fail(E_CORRUPT, "it was changed after hone wrote it: its values do not give its sum. "
				     "Submit the file as hone wrote it");
	json_decref(ours);
	return rc;
}

static int read_object(json_t *o, struct submission *s)
{
	const char *by = json_string_value(json_object_get(o, "made_by"));
	const json_t *format = json_object_get(o, "format");
	if (!by || strcmp(by, MADE_BY))
		return fail(E_CORRUPT, "it is no file of " MADE_BY);
	if (!json_is_integer(format) || json_integer_value(format) != SUBMISSION_FORMAT)
		return fail(E_UNSUPPORTED, "its format is not %d: read it with the hone that wrote it",
			    SUBMISSION_FORMAT);
	int rc = read_members(o, s);
	if (rc >= 0)
		rc = check_sum(o, s);
	return rc < 0 ? rc : check_values(s);
}

int submission_read(const void *p, size_t n, struct submission *out)
{
	json_t *o;
	struct submission s = {0};
	if (n > SUBMISSION_BYTES)
		return fail(E_CORRUPT, "it has more than %d bytes", SUBMISSION_BYTES);
	int rc = json_read(p, n, &o);
	if (rc < 0)
		return rc;
	rc = read_object(o, &s);
	if (rc >= 0)
		*out = s;
	json_decref(o);
	return rc;
}

int submission_text(const struct submission *s, struct buf *out)
{
	char sum[65];
	struct submission again;
	json_t *o = to_json(s);
	int rc = sum_of(o, sum);
	if (rc >= 0)
		json_object_set_new(o, "sum", json_text(sum));
	char *text = rc < 0 ? NULL : json_dumps(o, JSON_INDENT(1) | DIGITS);
	json_decref(o);
	if (rc >= 0 && !text)
		rc = fail(E_NOMEM, "no memory for the submission");
	if (rc >= 0)
		rc = submission_read(text, strlen(text), &again);
	if (rc >= 0)
		buf_printf(out, "%s\n", text);
	free(text);
	return rc;
}

/* ---- the row */

const char *submission_board(const struct submission *s)
{
	return strcmp(s->board.model, NOT_KNOWN) ? s->board.model : s->board.soc;
}

void submission_head(struct buf *out)
{
	buf_puts(
	    out,
	    "| board | processor | network | threads | untuned, ms | default, ms | tuned, ms (95 % CI) | "
	    "default/tuned | ran at | hone |\n"
	    "|---|---|---|--:|--:|--:|--:|--:|---|---|\n");
}

/* Texts come from strangers: what has a meaning in Markdown or HTML is left out. */
static void cell(struct buf *out, const char *text)
{
	buf_puts(out, " ");
	for (; *text; text++)
		if (!strchr("|<>`*[]\\&", *text))
			buf_add(out, text, 1);
	buf_puts(out, " |");
}

/* What is known of the conditions: "performance, 1800 of 1800 MHz, 51 to 58 C". */
static void conditions(const struct submission *s, struct buf *out)
{
	if (strcmp(s->run.governor, NOT_KNOWN))
		buf_printf(out, "%s, ", s->run.governor);
	if (s->run.clock_mhz > 0)
		buf_printf(out, "%lld of %lld MHz, ", (long long)s->run.clock_mhz,
			   (long long)s->run.clock_most_mhz);
	if (s->run.temp_before_mc != -1)
		buf_printf(out, "%.0f to %.0f C, ", (double)s->run.temp_before_mc / 1e3,
			   (double)s->run.temp_after_mc / 1e3);
	if (s->run.throttled_before == 1)
		buf_puts(out, "throttled before, ");
	buf_printf(out, "Linux %s", s->board.kernel);
}

void submission_row(const struct submission *s, struct buf *out)
{
	const struct submission_times *t = s->times;
	char text[256];
	struct buf ran = {0};
	conditions(s, &ran);
	buf_puts(out, "|");
	cell(out, submission_board(s));
	snprintf(text, sizeof text, "%lld x %s", (long long)s->board.cores,
		 strcmp(s->board.cpu, NOT_KNOWN) ? s->board.cpu : s->board.isa);
	cell(out, text);
	snprintf(text, sizeof text, "%s (%.12s)%s%s", s->network.name, s->network.sha256,
		 strcmp(s->run.level, "fp32") ? ", " : "", strcmp(s->run.level, "fp32") ? s->run.level : "");
	cell(out, text);
	buf_printf(out, " %lld | %.4g | %.4g | %.4g (%.4g to %.4g) | %.2f |", (long long)s->run.threads,
		   t[SUBMIT_FALLBACK].median, t[SUBMIT_DEFAULT].median, t[SUBMIT_TUNED].median,
		   t[SUBMIT_TUNED].low, t[SUBMIT_TUNED].high,
		   t[SUBMIT_DEFAULT].median / t[SUBMIT_TUNED].median);
	cell(out, buf_str(&ran));
	snprintf(text, sizeof text, "%s, %s", s->hone, s->date);
	cell(out, text);
	buf_puts(out, "\n");
	buf_free(&ran);
}
