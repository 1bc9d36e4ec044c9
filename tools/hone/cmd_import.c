/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/offered.h"
#include "agent/sync/pack.h"
#include "platform/base/log.h"
#include "tools/hone/model.h"
#include "tools/hone/known.h"
#include "tools/hone/table.h"
#include "tools/hone/trusted.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MARK_ROOM = 4096 /* bytes for the mark that a history is not this board's (agent/sync/offered.h), with
			  * some reserve */
};

struct lines {
	FILE *file;
	int64_t number; /* of the line in `text` */
	size_t n;       /* its bytes; EXCHANGE_LINE_BYTES: as many or more */
	bool cut;       /* it has no end: the last one of a file that may have been cut off */
	char *text;     /* room for EXCHANGE_LINE_BYTES, and a NUL */
};

/* Reads a line. 1: a line; if it is too long, the rest is skipped. 0: end of file. */
static int next_line(struct lines *l)
{
	int c = getc_unlocked(l->file);
	if (c == EOF)
		return 0;
	l->number++;
	for (l->n = 0; c != EOF && c != '\n'; c = getc_unlocked(l->file))
		if (l->n < EXCHANGE_LINE_BYTES)
			l->text[l->n++] = (char)c;
	l->text[l->n] = 0;
	l->cut = c == EOF;
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
	bool logs, recipes;
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

/* Imports a line. Refused lines are counted, and the first one is logged. */
static int import_line(struct cache *c, const char *path, const struct lines *in, struct sums *s)
{
	struct arena a = {0};
	struct exchange_line l;
	int rc = in->n == EXCHANGE_LINE_BYTES
		     ? fail(E_CORRUPT, "longer than the %d bytes of a record", EXCHANGE_LINE_BYTES)
		     : exchange_parse(in->text, in->n, &a, &l);
	if (rc >= 0)
		rc = put_line(c, &l, &a, s);
	if (rc == E_CORRUPT) {
		if (!s->strangers.refused++)
			log_info("hone: %s:%" PRId64 " refused: %s", path, in->number, err_text());
		rc = 0;
	}
	arena_free(&a);
	return rc;
}

/* Lines before an error stay imported. */
static int import_file_lines(struct cache *c, const char *path, struct sums *s)
{
	struct lines l = {.file = strcmp(path, "-") ? fopen(path, "re") : stdin};
	if (!l.file)
		return fail(E_IO, "%s: %s; give a file that hone export or hone pack made", path,
			    strerror(errno));
	l.text = malloc(EXCHANGE_LINE_BYTES + 1);
	int rc = l.text ? 0 : fail(E_NOMEM, "no memory for a line of %s", path);
	bool empty = true;
	int refused = s->strangers.refused, lines = 0, before = refused;
	while (rc >= 0 && next_line(&l))
		if (!is_blank(&l)) {
			empty = false;
			refused = s->strangers.refused;
			rc = import_line(c, path, &l, s);
			lines++;
		}
	if (rc >= 0 && !ferror(l.file) && l.cut && s->strangers.refused > refused && refused - before < lines - 1)
		rc = fail(E_CORRUPT,
			  "%s ends within line %" PRId64 ", so it was cut off: copy or export it again; the "
			  "records before that line are imported",
			  path, l.number);
	if (rc >= 0 && ferror(l.file))
		rc = fail(E_IO, "%s: %s after line %" PRId64 "; the records before it are imported", path,
			  strerror(errno), l.number);
	if (rc >= 0 && empty)
		log_info("hone: warning: %s is empty; give a file that hone export or hone pack made",
			 strcmp(path, "-") ? path : "the input");
	free(l.text);
	if (l.file != stdin)
		fclose(l.file);
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
			     "it is not signed: ask its maker for the signature %s" PACK_SIG
			     ", or import it without a signature with --unsigned",
			     path)
		   : rc;
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
	for (int i = 0; i < a->npos && rc >= 0; i++)
		rc = is_pack(a->pos[i]) ? import_pack(c, a, a->pos[i], &t, s)
					: import_file_lines(c, a->pos[i], s);
	trusted_close(&t);
	return rc;
}

static int taken_all(const struct sums *s)
{
	return taken_new(&s->strangers) + s->own.taken + s->recipe.taken;
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

/* Before an error, whose text is printed after it. */
static void print_before_error(const struct args *a, const char *dir, const struct sums *s)
{
	struct buf b = {0};
	put_taken(s, &b);
	if (!a->json && taken_all(s))
		table_say("%s imported into %s before the error", buf_str(&b), dir);
	fflush(stdout);
	buf_free(&b);
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

static int print_sums(const struct args *a, const char *dir, const struct sums *s)
{
	const struct taken_sum *t = &s->strangers;
	int taken = taken_all(s);
	int known = t->known + s->own.known + s->recipe.known;
	int left_out = t->left_out + s->own.left_out + s->recipe.left_out;
	int rc = 0;
	struct buf b = {0};
	put_taken(s, &b);
	say_recipes(s);
	if (a->json)
		rc = json_out(json_pack("{so si si si si si si si si si}", "cache", json_text(dir), "taken",
					taken, "known", known, "passed_over", t->passed, "refused",
					t->refused, "left_out", left_out, "begin", t->incumbents, "hints",
					t->hints, "choices", t->choices, "recipes", s->recipe.taken));
	else
		table_say("%s imported into %s; %d known, %d passed over (default schedules; logs without "
			  "--logs, recipes without --recipes), %d refused",
			  buf_str(&b), dir, known, t->passed, t->refused);
	buf_free(&b);
	fflush(stdout); /* an error comes after it, also in a pipe */
	bool nothing = !taken && !known && !t->passed;
	if (!a->json && !nothing)
		known_after("tune", 1, (const char *const[]){dir}, dir);
	if (rc >= 0 && nothing && t->refused)
		return fail(E_CORRUPT,
			    "%s%s: no line is a record; give a file that hone export or hone pack made",
			    a->pos[0], a->npos > 1 ? " and the others" : "");
	return rc < 0 ? rc : left_out && nothing;
}

static int run_import(const struct args *a)
{
	char dir[4096];
	struct cache *c;
	struct sums s = {.logs = arg_flag(a, "logs"),
			 .recipes = arg_flag(a, "recipes"),
			 .recipe.replace = arg_flag(a, "replace")};
	if (s.recipe.replace && !s.recipes)
		return fail(E_USAGE, "--replace goes with --recipes");
	int rc = model_cache_open(a, true, dir, sizeof dir, &c);
	if (rc < 0)
		return rc;
	rc = import_all(c, a, &s);
	char why[1024];
	snprintf(why, sizeof why, "%s", rc < 0 ? err_text() : "");
	int kept = cache_commit(c);
	if (rc < 0)
		rc = fail(rc, "%s", why);
	if (rc < 0 && kept >= 0)
		print_before_error(a, dir, &s);
	rc = rc < 0 ? rc : kept;
	if (rc >= 0) {
		exchange_tell(c, &s.own);
		exchange_tell(c, &s.recipe);
		taken_tell(c, &s.strangers);
	}
	cache_close(c);
	return rc < 0 ? rc : print_sums(a, dir, &s);
}

static const struct opt opts[] = {
    {"key", OPT_LIST, "KEY", "public key of a pack's maker: 130 hex digits, or a file with them"},
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
	"MiB, is refused, and the others are imported. A record is a hint: the next box compiles, checks "
	"and\ntimes its candidate once before it may be used. Logs of tuning are only imported with --logs, "
	"and\n"
	"recipes of level int8 (hone tune --level int8 --data) only with --recipes: a recipe is used as it "
	"is, and\n"
	"needs no box. Of two recipes for one model this cache's stays, unless --replace is given. Code is "
	"never\n"
	"imported, and other records of this cache are neither replaced nor evicted: into a full cache "
	"nothing is\n"
	"imported.",
    .min_pos = 1,
    .max_pos = -1,
    .opts = opts,
    .run = run_import,
    .name = "import",
};
