/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/log.h"
#include "tools/exchange.h"
#include "tools/model.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 1 << 20 };

struct import_sum {
	int taken, known, refused;
};

/* What is refused is said once, and counted. */
static int import_line(struct cache *c, const char *path, int number, const char *line, struct import_sum *s)
{
	struct arena a = {0};
	struct exchange_line l;
	int rc = strlen(line) < LINE_MAX_BYTES ? exchange_parse(line, &a, &l)
					       : fail(E_CORRUPT, "longer than a record can be");
	if (rc >= 0) {
		rc = exchange_put(c, &l, &a);
		s->taken += rc > 0;
		s->known += rc == 0;
	} else if (rc == E_CORRUPT) {
		if (!s->refused++)
			log_info("hone: %s:%d is refused: %s", path, number, err_text());
		rc = 0;
	}
	arena_free(&a);
	return rc;
}

static int import_file_lines(struct cache *c, const char *path, struct import_sum *s)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
	char *line = NULL;
	size_t cap = 0;
	int rc = 0;
	if (!f)
		return fail(E_IO, "%s: %s; give a file that hone export made", path, strerror(errno));
	for (int n = 1; rc >= 0 && getline(&line, &cap, f) >= 0; n++)
		if (line[strspn(line, " \t\r\n")])
			rc = import_line(c, path, n, line, s);
	if (rc >= 0 && ferror(f))
		rc = fail(E_IO, "%s: %s", path, strerror(errno));
	free(line);
	if (f != stdin)
		fclose(f);
	return rc;
}

static int run_import(const struct args *a)
{
	char dir[4096];
	struct cache *c;
	struct import_sum s = {0};
	int rc = model_cache_open(a, true, dir, sizeof dir, &c);
	if (rc < 0)
		return rc;
	for (int i = 0; i < a->npos && rc >= 0; i++)
		rc = import_file_lines(c, a->pos[i], &s);
	int kept = cache_commit(c);
	rc = rc < 0 ? rc : kept;
	cache_close(c);
	if (rc < 0)
		return rc;
	if (a->json)
		rc = json_out(json_pack("{so si si si}", "cache", json_text(dir), "taken", s.taken, "known",
					s.known, "refused", s.refused));
	else
		printf("%d records taken into %s, %d were known, %d refused. Next: hone tune MODEL --cache "
		       "%s\n",
		       s.taken, dir, s.known, s.refused, dir);
	return rc < 0 ? rc : s.refused && !s.taken && !s.known;
}

static const struct opt opts[] = {OPT_CACHE, {NULL}};

const struct cmd cmd_import = {
    .usage = "FILE... [--cache DIR]",
    .summary = "take records that hone export wrote",
    .details = "FILE - is standard input. Every line is checked; a record of another machine is a candidate "
	       "for the next search here, and is compiled and timed before it is used. Code is not taken, "
	       "and what this cache knows is not replaced.",
    .min_pos = 1,
    .max_pos = -1,
    .opts = opts,
    .run = run_import,
    .name = "import",
};
