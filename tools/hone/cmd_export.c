/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "agent/cache/exchange.h"
#include "tools/hone/model.h"
#include "tools/hone/next.h"
#include "tools/hone/output.h"
#include <stdio.h>
#include <stdlib.h>

/* Records go to the text of the file of --output, or (NULL) to standard output. */
static int put_record(json_t *j, struct buf *text)
{
	if (!text)
		return json_out(j);
	char *line = json_dumps(j, JSON_REAL_PRECISION(6) | JSON_COMPACT);
	json_decref(j);
	if (!line)
		return fail(E_NOMEM, "no memory for the JSON");
	buf_printf(text, "%s\n", line);
	free(line);
	return E_OK;
}

struct exported {
	int records, left_out; /* left_out: records that no line can hold */
};

static int export_type(struct cache *c, enum cache_type t, struct buf *text, struct exported *n)
{
	struct arena a = {0};
	struct key *k;
	int count = cache_keys(c, t, &a, &k), rc = 0;
	for (int i = 0; i < count && rc >= 0; i++) {
		json_t *j = exchange_json(c, t, k[i]);
		*(j ? &n->records : &n->left_out) += 1;
		if (j)
			rc = put_record(j, text);
	}
	arena_free(&a);
	return rc;
}

static int export_all(struct cache *c, const char *file, struct exported *n)
{
	struct buf text = {0};
	int rc = E_OK;
	for (int i = 0; exchange_types[i] && rc >= 0; i++)
		rc = export_type(c, exchange_types[i], file ? &text : NULL, n);
	if (rc >= 0 && file)
		rc = buf_ok(&text) ? file_write(file, buf_str(&text), text.n)
				   : fail(E_NOMEM, "no memory for %s", file);
	buf_free(&text);
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
	cache_close(c);
	if (rc < 0)
		return rc;
	fflush(stdout);
	if (n.left_out)
		log_info(
		    "hone: warning: %d record%s left out: a line holds less than 1 MiB; hone pack has no "
		    "such limit",
		    n.left_out, n.left_out == 1 ? " is" : "s are");
	log_info("%d record%s of %s", n.records, plural_s(n.records), dir);
	log_info("on another board, hone import takes these records");
	if (file)
		next_say("hone import %s", file);
	return 0;
}

static const struct opt opts[] = {
    {"output", OPT_STR, "FILE", "write to this file (default: standard output)", 'o'},
    OPT_CACHE,
    {NULL},
};

const struct cmd cmd_export = {
    .usage = "[-o FILE] [--cache DIR]",
    .summary = "the cache's records as JSON lines",
    .details =
	"One object a line, also with --json: type, key and text. Recipes of level int8 are among them "
	"(hone\nimport --recipes). Machine code is not exported; use hone pack for it.",
    .opts = opts,
    .run = run_export,
    .name = "export",
};
