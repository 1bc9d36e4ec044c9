/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/offered.h"
#include "agent/sync/pack.h"
#include "kernels/onnx/foreign.h"
#include "platform/base/folder.h"
#include "platform/base/log.h"
#include "tools/hone/next.h"
#include "tools/hone/model.h"
#include "tools/hone/hints.h"
#include "tools/hone/known.h"
#include "tools/hone/refused.h"
#include "tools/hone/table.h"
#include "tools/hone/trusted.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	/* Bytes for the mark that a history is not this board's (agent/sync/offered.h), with some reserve. */
	MARK_ROOM = 4096,
	HEAD_BYTES = 64 << 10, /* of a file, which tell what it is */
};

struct lines {
	FILE *file;
	unsigned char *head; /* HEAD_BYTES, read before the first line */
	size_t head_n, head_at;
	int64_t number;        /* of the line in `text` */
	size_t n;              /* its bytes; EXCHANGE_LINE_BYTES: as many or more */
	bool endless;          /* it is the last one, without a newline */
	char *text;            /* room for EXCHANGE_LINE_BYTES, and a NUL */
	int64_t good, refused; /* lines so far; blank ones are neither */
	bool refused_last;     /* the last line that was not blank is refused */
	/* Lines that are not blank, and how many of them the exports in the file have by their own counts. A
	 * count says nothing of where an export begins: the lines may have been sorted since. */
	int64_t here, due;
};

static int next_byte(struct lines *l)
{
	return l->head_at < l->head_n ? l->head[l->head_at++] : getc_unlocked(l->file);
}

/* Reads a line. 1: a line; if it is too long, the rest is skipped. 0: end of file. */
static int next_line(struct lines *l)
{
	int c = next_byte(l);
	if (c == EOF)
		return 0;
	l->number++;
	for (l->n = 0; c != EOF && c != '\n'; c = next_byte(l))
		if (l->n < EXCHANGE_LINE_BYTES)
			l->text[l->n++] = (char)c;
	l->text[l->n] = 0;
	l->endless = c == EOF;
	return 1;
}

static bool is_blank(const struct lines *l)
{
	return strspn(l->text, " \t\r") == l->n;
}

struct sums {
	struct taken_sum strangers;
	struct exchange_sum own; /* histories, and with --logs also logs */
	struct exchange_sum recipe;
	struct refused refused;     /* lines; their number is in strangers */
	struct hints before, after; /* those of the cache */
	bool logs, recipes;
	int failed; /* files that were not imported whole */
};

static int put_line(struct cache *c, const struct exchange_line *l, struct arena *a, struct sums *s)
{
	bool stranger = l->type == CACHE_REC || l->type == CACHE_CHOICES;
	if (stranger || (l->type == CACHE_RECIPE && !s->recipes))
		return taken_line(c, l, NULL, &s->strangers);
	if (l->type == CACHE_RECIPE)
		return exchange_put(c, l, a, &s->recipe);
	if (l->type == CACHE_TRIALS && !s->logs) { /* a search trusts its log about what was tried */
		s->strangers.passed++;
		return E_OK;
	}
	int taken = s->own.taken, rc = exchange_put(c, l, a, &s->own);
	bool new = l->type == CACHE_HISTORY && s->own.taken > taken;
	if (rc >= 0 && new)
		rc = cache_has_room(c, MARK_ROOM);
	return rc > 0 && new ? offered_not_ours(c, l->type, l->key, l->text) : rc;
}

static void count_line(struct lines *l, int64_t records)
{
	l->here++;
	l->due = records < INT64_MAX - l->due ? l->due + records : INT64_MAX;
}

/* Imports a line. Refused lines are counted, and the first one of each reason is logged. */
static int import_line(struct cache *c, const char *path, struct lines *in, struct sums *s)
{
	struct arena a = {0};
	struct exchange_line l = {0};
	int rc = in->n == EXCHANGE_LINE_BYTES
		     ? fail(E_CORRUPT, "longer than the %d bytes of a record", EXCHANGE_LINE_BYTES)
		     : exchange_parse(in->text, in->n, &a, &l);
	count_line(in, l.records);
	if (rc >= 0)
		rc = put_line(c, &l, &a, s);
	in->good += rc >= 0;
	in->refused_last = rc == E_CORRUPT;
	if (rc == E_CORRUPT) {
		s->strangers.refused++;
		in->refused++;
		refused_add(&s->refused, path, in->number, err_text());
		rc = 0;
	}
	arena_free(&a);
	return rc;
}

/* Whether the file ends within a line: its last one has no newline and is the beginning of an object. */
static bool is_cut(const struct lines *l)
{
	if (!l->endless || !l->refused_last || l->text[0] != '{')
		return false;
	json_t *whole = json_loadb(l->text, l->n, 0, NULL);
	json_decref(whole);
	return !whole;
}

/* A file that has fewer lines than its exports had is a selection of them if it ends with a whole line. */
static int check_count(const struct lines *l, const char *path)
{
	char few[128];
	snprintf(few, sizeof few, "%" PRId64 " of the %" PRId64 " records that were exported are in it",
		 l->here, l->due);
	if (l->endless)
		return fail(E_CORRUPT, "%s: %s, so it was cut off: copy or export it again%s", path, few,
			    l->good ? "; the records in it are imported" : "");
	log_info("hone: warning: %s: %s; if nobody chose these, copy or export it again", path, few);
	return E_OK;
}

/* After the last line: E_CORRUPT if the file was cut off, or has no line. */
static int check_end(const struct lines *l, const char *path)
{
	if (ferror(l->file) && !l->number)
		return fail(E_IO, "%s: %s; give a file that hone export or hone pack made", path,
			    strerror(errno));
	if (ferror(l->file))
		return fail(E_IO, "%s: %s after line %" PRId64 "%s", path, strerror(errno), l->number,
			    l->good ? "; the records before it are imported" : "");
	if (is_cut(l))
		return fail(E_CORRUPT,
			    "%s ends within line %" PRId64 ", so it was cut off: copy or export it again%s",
			    path, l->number, l->good ? "; the records before that line are imported" : "");
	if (l->here < l->due)
		return check_count(l, path);
	if (!l->good && !l->refused)
		return fail(E_CORRUPT,
			    "%s is empty, so nothing of it is imported; give a file that hone export or hone "
			    "pack made",
			    strcmp(path, "-") ? path : "the input");
	return E_OK;
}

static int cannot_open(const char *path)
{
	return fail(E_IO, "%s: %s; give a file that hone export or hone pack made", path, strerror(errno));
}

/* Whether a line of the file's beginning is an object, as every line of an export is. */
static bool has_object(const struct lines *l)
{
	static const char lead[] = "\n{\"";
	return (l->head_n > 1 && !memcmp(l->head, lead + 1, 2)) ||
	       memmem(l->head, l->head_n, lead, strlen(lead));
}

/* Reads the file's beginning. E_CORRUPT: it is that of a file without lines of records, such as a model; one
 * error says so instead of a complaint about each line. */
static int look_at_head(struct lines *l, const char *path)
{
	l->head_n = fread(l->head, 1, HEAD_BYTES, l->file);
	if (has_object(l))
		return E_OK;
	const char *what = foreign_name(l->head, l->head_n);
	if (!what && l->head_n >= 4 && !memcmp(l->head, "HSEG", 4))
		what = "a pack or a file of a cache (the name of a pack ends with .seg)";
	if (!what && memchr(l->head, 0, l->head_n))
		what = "a binary file";
	return !what ? E_OK
		     : fail(E_CORRUPT,
			    "%s: it is %s; import takes lines of JSON that hone export made, or a pack "
			    "(NAME.seg) that hone pack made%s",
			    strcmp(path, "-") ? path : "the input", what,
			    strncmp(what, "compressed", 10) ? "" : "; unpack it first");
}

/* Lines before an error stay imported. */
static int import_file_lines(struct cache *c, const char *path, struct sums *s)
{
	struct lines l = {.file = strcmp(path, "-") ? fopen(path, "re") : stdin};
	if (!l.file)
		return cannot_open(path);
	l.text = malloc(EXCHANGE_LINE_BYTES + 1);
	l.head = malloc(HEAD_BYTES);
	int rc =
	    l.text && l.head ? look_at_head(&l, path) : fail(E_NOMEM, "no memory for a line of %s", path);
	while (rc >= 0 && next_line(&l))
		if (!is_blank(&l))
			rc = import_line(c, path, &l, s);
	if (rc >= 0)
		rc = check_end(&l, path);
	free(l.text);
	if (l.file != stdin)
		fclose(l.file);
	free(l.head);
	return rc;
}

static bool is_pack(const char *path)
{
	size_t n = strlen(path);
	return n > 4 && !strcmp(path + n - 4, ".seg");
}

/* Imports a pack; an unsigned one only with --unsigned. */
static int import_pack(struct cache *c, const struct args *a, const char *path, const struct trusted *t,
		       struct sums *s)
{
	struct exchange_sum *recipes = s->recipes ? &s->recipe : NULL;
	if (arg_flag(a, "unsigned"))
		return pack_import_unsigned(c, path, &s->strangers, recipes);
	int rc = pack_import(c, path, t->trust, t->key, t->n, &s->strangers, recipes);
	return rc == E_NOTFOUND && file_exists(path)
		   ? fail_in(rc,
			     "%s: not signed: ask its maker for the signature %s" PACK_SIG
			     ", or import it without a signature with --unsigned",
			     path, path)
		   : rc;
}

static int taken_all(const struct sums *s)
{
	return taken_new(&s->strangers) + s->own.taken + s->recipe.taken;
}

static int known_all(const struct sums *s)
{
	return s->strangers.known + s->own.known + s->recipe.known;
}

static int left_out_all(const struct sums *s)
{
	return s->strangers.left_out + s->own.left_out + s->recipe.left_out;
}

static int valid_all(const struct sums *s)
{
	return taken_all(s) + known_all(s) + left_out_all(s) + s->strangers.passed;
}

static int import_one(struct cache *c, const struct args *a, const char *path, const struct trusted *t,
		      struct sums *s)
{
	int valid = valid_all(s), refused = s->strangers.refused;
	int rc = is_pack(path) ? import_pack(c, a, path, t, s) : import_file_lines(c, path, s);
	if (rc >= 0 && s->strangers.refused > refused && valid_all(s) == valid)
		rc = fail(E_CORRUPT, "%s: %s; give a file that hone export or hone pack made", path,
			  is_pack(path) ? "no record in it is valid" : "no line is a record");
	else if (rc >= 0 && is_pack(path) && valid_all(s) == valid)
		rc = fail(E_CORRUPT, "%s holds no record, so nothing of it is imported", path);
	return rc;
}

/* Imports every file, also those behind one that fails. The error of the last one that failed is returned,
 * and those of the others are logged. */
static int import_files(struct cache *c, const struct args *a, const struct trusted *t, struct sums *s)
{
	char why[1024];
	int failed = E_OK;
	for (int i = 0; i < a->npos; i++) {
		int rc = import_one(c, a, a->pos[i], t, s);
		if (rc >= 0)
			continue;
		if (s->failed++)
			log_error("%s", why);
		snprintf(why, sizeof why, "%s", err_text());
		failed = rc;
	}
	return failed < 0 ? fail(failed, "%s", why) : E_OK;
}

static int import_all(struct cache *c, const struct args *a, struct sums *s)
{
	struct trusted t = {0};
	int rc = 0;
	bool packs = false;
	for (int i = 0; i < a->npos; i++)
		packs |= is_pack(a->pos[i]);
	if (packs)
		rc = trusted_open(a, false, &t);
	if (rc >= 0)
		rc = trusted_keys(a, &t);
	if (rc >= 0)
		rc = import_files(c, a, &t, s);
	trusted_close(&t);
	return rc;
}

/* Writes what is imported: "2 records and choices for 1 model". */
static void put_taken(const struct sums *s, struct buf *out)
{
	int of[CACHE_TYPES] = {0};
	for (int i = 0; i < CACHE_TYPES; i++)
		of[i] = s->own.of[i] + s->recipe.of[i];
	of[CACHE_HINT] += s->strangers.incumbents + s->strangers.hints;
	of[CACHE_CHOICES] += s->strangers.choices;
	exchange_words(of, out);
}

/* Says what became of recipes. */
static void say_recipes(const struct sums *s)
{
	int passed = s->strangers.recipes, others = s->recipe.others;
	if (passed)
		log_info("hone: %d recipe%s of level int8 passed over: --recipes takes recipes, which decide "
			 "what a model answers, so only from people whom you trust",
			 passed, plural_s(passed));
	if (others)
		log_info("hone: %d recipe%s of this cache differ%s from the imported and stay%s: --replace "
			 "takes the imported",
			 others, plural_s(others), others == 1 ? "s" : "", others == 1 ? "s" : "");
}

/* Hints that were imported for boards of another class: no box here tries them. */
static int for_others(const struct sums *s)
{
	int more = s->after.other - s->before.other, hints = s->strangers.incumbents + s->strangers.hints;
	return more < 0 ? 0 : more < hints ? more : hints;
}

/* Hints for the next box: choices are for all that may be of this class. */
static void count_next(const struct sums *s, int of[CACHE_TYPES])
{
	of[CACHE_HINT] = s->strangers.incumbents + s->strangers.hints - for_others(s);
	of[CACHE_HINT_CHOICES] = s->strangers.choices;
}

static int print_json(const char *dir, const struct sums *s)
{
	const struct taken_sum *t = &s->strangers;
	int next[CACHE_TYPES] = {0};
	count_next(s, next);
	return json_out(json_pack(
	    "{so si si si si si si si si si si si si si}", "cache", json_text(dir), "taken", taken_all(s),
	    "known", known_all(s), "passed_over", t->passed, "refused", t->refused, "left_out",
	    left_out_all(s), "begin", t->incumbents, "hints", t->hints, "choices", t->choices, "recipes",
	    s->recipe.taken, "failed", s->failed, "usable_at_once", s->own.taken + s->recipe.taken,
	    "for_next_tune", next[CACHE_HINT] + next[CACHE_HINT_CHOICES], "of_other_classes", for_others(s)));
}

/* Says what of it serves at once, and what the next box has to try first. */
static void say_use(const struct sums *s)
{
	int at_once[CACHE_TYPES] = {0}, next[CACHE_TYPES] = {0}, others = for_others(s);
	struct buf b = {0};
	if (!taken_all(s))
		return;
	for (int i = 0; i < CACHE_TYPES; i++)
		at_once[i] = s->own.of[i] + s->recipe.of[i];
	count_next(s, next);
	buf_puts(&b, "usable here at once: ");
	exchange_words(at_once, &b);
	buf_puts(&b, "; hints: ");
	exchange_words(next, &b);
	if (next[CACHE_HINT] + next[CACHE_HINT_CHOICES])
		buf_puts(&b, ", which the next hone tune compiles, checks and times before they are used");
	if (others)
		buf_printf(&b, "; %d record%s of another class of boards, which %s not used here", others,
			   plural_s(others), others == 1 ? "is" : "are");
	table_say("%s", buf_str(&b));
	buf_free(&b);
}

/* Returns the exit status: 1 if all was left out. Nothing is printed if files failed before their first line.
 */
static int print_sums(const struct args *a, const char *dir, const struct sums *s)
{
	int rc = 0;
	bool nothing = !taken_all(s) && !known_all(s) && !s->strangers.passed;
	if (s->failed && !valid_all(s) && !s->strangers.refused)
		return E_OK;
	say_recipes(s);
	if (a->json) {
		rc = print_json(dir, s);
	} else {
		struct buf b = {0};
		put_taken(s, &b);
		table_say("%s imported into %s; %d known, %d passed over (default schedules; logs without "
			  "--logs, recipes without --recipes), %d refused",
			  buf_str(&b), dir, known_all(s), s->strangers.passed, s->strangers.refused);
		buf_free(&b);
		say_use(s);
	}
	next_flush(); /* an error comes after it, also in a pipe */
	if (!a->json && !nothing && !s->failed)
		known_after("tune", 1, (const char *const[]){dir}, dir);
	return rc < 0 ? rc : left_out_all(s) && nothing;
}

/* Commits what was imported. An error of a file goes before that of the commit. */
static int commit(struct cache *c, const struct sums *s, char *why, size_t n)
{
	snprintf(why, n, "%s", s->failed ? err_text() : "");
	int rc = cache_commit(c);
	if (rc < 0 && s->failed)
		log_error("%s", why);
	return rc;
}

/* E_IO: no file is there, so no cache is made for them. */
static int any_there(const struct args *a)
{
	for (int i = 0; i < a->npos; i++)
		if (!strcmp(a->pos[i], "-") || access(a->pos[i], F_OK) == 0)
			return E_OK;
	return a->npos ? cannot_open(a->pos[0]) : E_OK;
}

static int run_import(const struct args *a)
{
	char dir[4096], why[1024];
	struct cache *c;
	struct sums s = {.logs = arg_flag(a, "logs"),
			 .recipes = arg_flag(a, "recipes"),
			 .recipe.replace = arg_flag(a, "replace")};
	if (s.recipe.replace && !s.recipes)
		return fail(E_USAGE, "--replace goes with --recipes");
	struct new_folder made;
	int rc = any_there(a);
	if (rc >= 0)
		rc = model_cache_dir(a, dir, sizeof dir);
	if (rc < 0)
		return rc;
	new_folder_note(&made, dir);
	rc = model_cache_open_in(a, true, dir, &c);
	if (rc < 0)
		return rc;
	rc = hints_count(c, &s.before);
	int files = rc < 0 ? rc : import_all(c, a, &s);
	rc = files < 0 && !s.failed ? files : commit(c, &s, why, sizeof why);
	refused_tell(&s.refused);
	if (rc >= 0) {
		exchange_tell(c, &s.own);
		exchange_tell(c, &s.recipe);
		taken_tell(c, &s.strangers);
		rc = hints_count(c, &s.after);
	}
	cache_close(c);
	if (rc < 0 || files < 0)
		new_folder_drop(&made);
	if (rc >= 0)
		rc = print_sums(a, dir, &s);
	return rc >= 0 && files < 0 ? fail(files, "%s", why) : rc;
}

static const struct opt opts[] = {
    {"key", OPT_LIST, "KEY",
     "public key (P-256) of a pack's maker: 130 hex digits, or a file with them or with the key in PEM"},
    OPT_ROOT,
    {"unsigned", OPT_FLAG, NULL, "import packs that are not signed"},
    {"logs", OPT_FLAG, NULL,
     "also import logs of tuning; only from boards that you trust, since a search believes them"},
    {"recipes", OPT_FLAG, NULL,
     "also import recipes of level int8; only from people whom you trust, since recipes decide what models "
     "answer"},
    {"replace", OPT_FLAG, NULL, "with --recipes: imported recipes replace other ones of the same models"},
    OPT_CACHE,
    OPT_CACHE_LIMIT,
    OPT_WAIT,
    {NULL}};

const struct cmd cmd_import = {
    .usage = "FILE... [--key KEY] [--cache DIR]",
    .summary = "import records that hone export or hone pack wrote",
    .details =
	"FILE - is standard input. NAME.seg is a pack: a fleet key, or a key given by --key, must have\n"
	"signed it (NAME.seg.sig). Every line is checked: a line that is not a record, or is longer than 1\n"
	"MiB, is refused, and the others are imported. If a file is missing, empty or ends within a line, or "
	"none of\n"
	"its lines is a record, the error names it, the others are imported, and the exit status is 1. "
	"Lines\n"
	"may be in any order, and may be some of an export: a warning then says how many of the exported\n"
	"records are there. A record is a hint: the next box compiles, checks and times its candidate once\n"
	"before it may be used. Logs of tuning are only imported with --logs, and recipes of level int8 "
	"(hone\n"
	"tune --level int8 --data) only with --recipes: a recipe is used as it is, and needs no box. Of two\n"
	"recipes for one model this cache's stays, unless --replace is given. Code is never imported, and\n"
	"other records of this cache are neither replaced nor evicted: into a full cache nothing is "
	"imported.",
    .min_pos = 1,
    .max_pos = -1,
    .opts = opts,
    .run = run_import,
    .name = "import",
};
