/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/folder.h"
#include "platform/base/log.h"
#include "agent/cache/exchange.h"
#include "tools/hone/model.h"
#include "tools/hone/known.h"
#include "tools/hone/table.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* into: the folder of the cache that is merged into. */
static int check_source(const char *path, const char *into)
{
	struct stat st, own;
	if (stat(path, &st) < 0)
		return fail(E_NOTFOUND, "%s: %s; merge takes folders of caches, as --cache names them", path,
			    strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return fail(E_NOTFOUND,
			    "%s is a file; merge takes folders of caches, and hone import takes files that "
			    "hone export or hone pack made",
			    path);
	if (stat(into, &own) == 0 && own.st_dev == st.st_dev && own.st_ino == st.st_ino)
		return fail(
		    E_USAGE,
		    "%s is the cache that is merged into: name another folder, or another one to merge "
		    "into (--cache DIR)",
		    path);
	if (!cache_may_be(path))
		return fail(E_NOTFOUND, "%s holds other files, and none of a cache: name a cache's folder",
			    path);
	return E_OK;
}

/* Checked before the cache is opened, so that a wrong name changes nothing. */
static int check_sources(const struct args *a, const char *into)
{
	int rc = E_OK;
	for (int i = 0; i < a->npos && rc >= 0; i++)
		rc = check_source(a->pos[i], into);
	return rc;
}

static int merge_dir(struct cache *to, const char *path, struct exchange_sum *all)
{
	struct cache *from;
	/* Opened in memory, so that the user's own folder is left out: readers combine it with a folder that
	 * they cannot write. */
	int rc = cache_open_with(&from, path, CACHE_MEMORY, 0, &(struct cache_options){.seeds = ""});
	if (rc < 0)
		return rc;
	int refused = all->refused;
	rc = exchange_merge(to, from, all);
	refused = all->refused - refused;
	cache_close(from);
	if (refused)
		log_info("hone: %d invalid record%s of %s left out", refused, plural_s(refused), path);
	return rc;
}

static int run_merge(const struct args *a)
{
	char dir[4096];
	struct cache *c;
	struct exchange_sum s = {0};
	struct new_folder made;
	int64_t limit;
	int rc = model_cache_limit(a, &limit); /* a wrong option comes first */
	if (rc >= 0)
		rc = model_cache_dir(a, dir, sizeof dir);
	if (rc >= 0)
		rc = check_sources(a, dir);
	if (rc < 0)
		return rc;
	new_folder_note(&made, dir);
	rc = model_cache_open_in(a, true, dir, &c);
	if (rc < 0)
		return rc;
	for (int i = 0; i < a->npos && rc >= 0; i++)
		rc = merge_dir(c, a->pos[i], &s);
	if (rc >= 0)
		exchange_tell(c, &s);
	cache_close(c);
	if (rc < 0) {
		new_folder_drop(&made);
		return rc;
	}
	if (a->json)
		return json_out(json_pack("{so si si si si si si}", "cache", json_text(dir), "taken", s.taken,
					  "known", s.known, "code_objects", s.code, "refused", s.refused,
					  "left_out", s.left_out, "hints_left", s.hints));
	struct buf b = {0};
	exchange_words(s.of, &b);
	table_say("%s merged into %s, %d with code; %d known or slower", buf_str(&b), dir, s.code, s.known);
	buf_free(&b);
	if (!s.taken && !s.known && !s.refused && !s.left_out && !s.hints)
		log_info("hone: warning: %s no record",
			 a->npos == 1 ? "the folder holds" : "the folders hold");
	if (s.hints)
		log_info(
		    "hone: %d imported record%s that hone tune has not tried yet %s not merged; hone import "
		    "takes the same file or pack into this cache",
		    s.hints, plural_s(s.hints), s.hints == 1 ? "is" : "are");
	struct arena arena = {0};
	const char **from = ARENA_ARRAY(&arena, const char *, a->npos + 1);
	from[0] = dir;
	for (int i = 0; i < a->npos; i++)
		from[i + 1] = a->pos[i];
	known_after("bench", a->npos + 1, from, dir);
	arena_free(&arena);
	return 0;
}

static const struct opt opts[] = {OPT_CACHE, OPT_CACHE_LIMIT, OPT_WAIT, {NULL}};

const struct cmd cmd_merge = {
    .usage = "DIR... [--cache DIR]",
    .summary = "merge other caches of this machine into this one",
    .details =
	"Of two kernels for one task the faster one stays, with its code if nobody else can write the\n"
	"folder that it comes from. Recipes of level int8 are merged alike; of two for one model this "
	"cache's stays.\n"
	"Nothing is evicted: into a full cache nothing more is merged.",
    .min_pos = 1,
    .max_pos = -1,
    .opts = opts,
    .run = run_merge,
    .name = "merge",
};
