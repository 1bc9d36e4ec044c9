/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/log.h"
#include "agent/exchange.h"
#include "tools/model.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lines {
	FILE *file;
	int64_t number; /* of the line in `text` */
	size_t n;       /* its bytes; EXCHANGE_LINE_BYTES: so many or more */
	char *text;     /* room for EXCHANGE_LINE_BYTES, and a NUL */
};

/* 1: a line; of one that is too long the rest is passed over. 0: the end. */
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
	return 1;
}

static bool is_blank(const struct lines *l)
{
	return strspn(l->text, " \t\r") == l->n;
}

/* What is refused is counted, and the first of it is said. */
static int import_line(struct cache *c, const char *path, const struct lines *in, struct exchange_sum *s)
{
	struct arena a = {0};
	struct exchange_line l;
	int rc = in->n == EXCHANGE_LINE_BYTES
		     ? fail(E_CORRUPT, "longer than the %d bytes of a record", EXCHANGE_LINE_BYTES)
		     : exchange_parse(in->text, in->n, &a, &l);
	if (rc >= 0) {
		rc = exchange_put(c, &l, &a, s);
	} else if (rc == E_CORRUPT) {
		if (!s->refused++)
			log_info("hone: %s:%" PRId64 " is refused: %s", path, in->number, err_text());
		rc = 0;
	}
	arena_free(&a);
	return rc;
}

/* After an error, the lines before it are taken. */
static int import_file_lines(struct cache *c, const char *path, struct exchange_sum *s)
{
	struct lines l = {.file = strcmp(path, "-") ? fopen(path, "re") : stdin};
	if (!l.file)
		return fail(E_IO, "%s: %s; give a file that hone export made", path, strerror(errno));
	l.text = malloc(EXCHANGE_LINE_BYTES + 1);
	int rc = l.text ? 0 : fail(E_NOMEM, "no memory for a line of %s", path);
	while (rc >= 0 && next_line(&l))
		if (!is_blank(&l))
			rc = import_line(c, path, &l, s);
	if (rc >= 0 && ferror(l.file))
		rc = fail(E_IO, "%s: %s after line %" PRId64 "; what came before is taken", path,
			  strerror(errno), l.number);
	free(l.text);
	if (l.file != stdin)
		fclose(l.file);
	return rc;
}

static int run_import(const struct args *a)
{
	char dir[4096];
	struct cache *c;
	struct exchange_sum s = {0};
	int rc = model_cache_open(a, true, dir, sizeof dir, &c);
	if (rc < 0)
		return rc;
	for (int i = 0; i < a->npos && rc >= 0; i++)
		rc = import_file_lines(c, a->pos[i], &s);
	int kept = cache_commit(c);
	rc = rc < 0 ? rc : kept;
	if (rc >= 0)
		exchange_tell(c, &s);
	cache_close(c);
	if (rc < 0)
		return rc;
	if (a->json)
		rc = json_out(json_pack("{so si si si si}", "cache", json_text(dir), "taken", s.taken,
					"known", s.known, "refused", s.refused, "left_out", s.left_out));
	else
		printf("%d record%s taken into %s, %d known, %d refused. Next: hone tune MODEL --cache "
		       "%s\n",
		       s.taken, plural_s(s.taken), dir, s.known, s.refused, dir);
	return rc < 0 ? rc : (s.refused || s.left_out) && !s.taken && !s.known;
}

static const struct opt opts[] = {OPT_CACHE, OPT_CACHE_LIMIT, {NULL}};

const struct cmd cmd_import = {
    .usage = "FILE... [--cache DIR]",
    .summary = "take records that hone export wrote",
    .details =
	"FILE - is standard input. Every line is checked: what is no record, or longer than 1 MiB, is "
	"refused, "
	"and the rest is taken. A record of another machine is a candidate for the next search here, and "
	"each is compiled and timed before it is used. Code is not taken, and what this cache knows is not "
	"replaced, nor evicted: a full cache takes no more.",
    .min_pos = 1,
    .max_pos = -1,
    .opts = opts,
    .run = run_import,
    .name = "import",
};
