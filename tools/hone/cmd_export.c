/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "agent/cache/exchange.h"
#include "tools/hone/model.h"
#include "tools/hone/next.h"
#include "tools/hone/output.h"
#include <stdio.h>
#include <stdlib.h>

struct exported {
	json_t *first;         /* the first record, which gets their number; NULL: there is none */
	struct buf rest;       /* lines of the others */
	int records, left_out; /* lines; left_out: what no line can hold */
	int of[CACHE_TYPES];   /* lines, by type */
};

static int put_line(json_t *j, struct buf *text)
{
	char *line = json_dumps(j, JSON_COMPACT);
	if (!line)
		return fail(E_NOMEM, "no memory for the JSON");
	buf_printf(text, "%s\n", line);
	free(line);
	return E_OK;
}

static int export_record(json_t *j, struct exported *n)
{
	if (!j) {
		n->left_out++;
		return E_OK;
	}
	if (!n->records++) {
		n->first = j;
		return E_OK;
	}
	int rc = put_line(j, &n->rest);
	json_decref(j);
	return rc;
}

static int export_type(struct cache *c, enum cache_type t, struct exported *n)
{
	struct arena a = {0};
	struct key *k;
	int count = cache_keys(c, t, &a, &k), rc = 0, before = n->records;
	for (int i = 0; i < count && rc >= 0; i++) {
		json_t *j;
		if (exchange_json(c, t, k[i], &j))
			rc = export_record(j, n);
	}
	n->of[t] = n->records - before;
	arena_free(&a);
	return rc;
}

/* Makes the first line, which says how many there are. */
static int first_line(struct exported *n, struct buf *out)
{
	if (!n->first)
		return E_OK;
	if (json_object_set_new(n->first, EXCHANGE_COUNT, json_integer(n->records)) < 0)
		return fail(E_NOMEM, "no memory for the JSON");
	return put_line(n->first, out);
}

/* Files are replaced as a whole, so that one gets its lines at once. */
static int write_lines(const char *file, struct buf *first, const struct buf *rest)
{
	if (!file) {
		fwrite(buf_str(first), 1, first->n, stdout);
		fwrite(buf_str(rest), 1, rest->n, stdout);
		return E_OK;
	}
	buf_add(first, buf_str(rest), rest->n);
	return buf_ok(first) ? file_write(file, buf_str(first), first->n)
			     : fail(E_NOMEM, "no memory for the records");
}

/* file NULL: to standard output. */
static int export_all(struct cache *c, const char *file, struct exported *n)
{
	struct buf first = {0};
	int rc = E_OK;
	for (int i = 0; exchange_types[i] && rc >= 0; i++)
		rc = export_type(c, exchange_types[i], n);
	if (rc >= 0)
		rc = first_line(n, &first);
	if (rc >= 0 && (!buf_ok(&first) || !buf_ok(&n->rest)))
		rc = fail(E_NOMEM, "no memory for the records");
	if (rc >= 0)
		rc = write_lines(file, &first, &n->rest);
	json_decref(n->first);
	buf_free(&n->rest);
	buf_free(&first);
	return rc;
}

static int report(const struct args *a, const struct cache *c, const char *dir, const char *file,
		  const struct exported *n)
{
	const char *above = model_cache_above(c, dir);
	struct buf names = {0}, what = {0};
	int rc = E_OK;
	if (file && a->json)
		rc = json_out(json_pack("{so so* so si si}", "cache", json_text(dir), "also",
					above ? json_text(above) : NULL, "file", json_text(file), "records",
					n->records, "left_out", n->left_out));
	if (fflush(stdout) < 0 || ferror(stdout)) /* the error follows, and nothing was exported */
		return 1;
	if (n->left_out)
		log_info(
		    "hone: warning: %d record%s left out: a line holds less than 1 MiB; hone pack has no "
		    "such limit",
		    n->left_out, n->left_out == 1 ? " is" : "s are");
	model_cache_names(c, dir, &names);
	exchange_words(n->of, &what);
	log_info("%s of %s", buf_str(&what), buf_str(&names));
	buf_free(&what);
	buf_free(&names);
	if (!n->records)
		log_info("nothing was exported: hone tune makes records");
	else
		log_info("on another board, hone import takes these lines");
	if (file && n->records)
		next_say("hone import %s", file);
	return rc;
}

static int run_export(const struct args *a)
{
	char dir[4096], to[PATH_MAX];
	struct cache *c;
	const char *file = arg_str(a, "output", NULL);
	struct exported n = {0};
	int rc = file ? output_file(a, file, OUTPUT_RECORDS, to) : E_OK;
	if (rc >= 0)
		rc = model_cache_open(a, false, dir, sizeof dir, &c);
	if (rc < 0)
		return rc;
	rc = export_all(c, file ? to : NULL, &n);
	if (rc >= 0)
		rc = report(a, c, dir, file, &n);
	cache_close(c);
	return rc;
}

static const struct opt opts[] = {
    {"output", OPT_STR, "FILE", "write to this file (default: standard output)", 'o'},
    OPT_CACHE,
    {NULL},
};

const struct cmd cmd_export = {
    .usage = "[-o FILE] [--cache DIR]",
    .summary = "the cache's records as JSON lines",
    .details = "One object a line: type, key and text; the first has records, too, the number of lines, so "
	       "that hone\n"
	       "import sees when some are missing. With --json and -o FILE, standard output has one object "
	       "with the\n"
	       "number of lines; without -o it has the lines. Recipes of level int8 are among them (hone\n"
	       "import --recipes). Machine code is not exported; use hone pack for it.",
    .opts = opts,
    .run = run_export,
    .name = "export",
};
