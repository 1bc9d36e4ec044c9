/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/known.h"
#include "agent/cache/gain.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "platform/machine/target.h"
#include "tools/hone/model.h"
#include "tools/hone/next.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ZOO_MODEL "mobilenet_v2"

/* A relative path would lead elsewhere from another working directory; it may also be the end of a long one.
 */
static bool is_there(const char *path)
{
	struct stat st;
	return *path == '/' && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* apart: only models whose gain is that of a device with a driver. */
static bool newest_model(struct cache *c, bool apart, struct gain *out)
{
	struct arena a = {0};
	struct gain *g = NULL;
	int n = c ? gain_all(c, &a, &g) : 0;
	bool found = false;
	for (int i = 0; i < n; i++)
		if ((!apart || g[i].device[0]) && (!found || strcmp(g[i].date, out->date) > 0) &&
		    is_there(g[i].model) && strcmp(g[i].shapes, "?") != 0) {
			*out = g[i];
			found = true;
		}
	arena_free(&a);
	return found;
}

/* Whether the cache knows another model than this one that is still there. */
static bool known_others(struct cache *c, const char *model)
{
	struct arena a = {0};
	struct gain *g = NULL;
	int n = gain_all(c, &a, &g);
	bool others = false;
	for (int i = 0; i < n; i++)
		others |= strcmp(g[i].model, model) != 0 && is_there(g[i].model);
	arena_free(&a);
	return others;
}

/* Commands look in the default folder without being told. */
static void add_cache(struct buf *b, const char *dir)
{
	if (!dir || model_cache_was_default(dir))
		return;
	buf_puts(b, " --cache ");
	shell_path(b, dir);
}

static void tune_own(const char *dir)
{
	struct buf own = {0};
	buf_puts(&own, "hone tune MODEL --budget 20s");
	add_cache(&own, dir);
	next_flush();
	log_info("`%s` tunes a model of your own", buf_str(&own));
	buf_free(&own);
}

/* Records of models that are not known: those of the user, whose place no model of the zoo takes. */
static bool bench_own(struct cache *c, const char *dir)
{
	struct arena a = {0};
	struct key *key;
	struct buf own = {0};
	int n = c ? cache_keys(c, CACHE_REC, &a, &key) : 0;
	arena_free(&a);
	if (n <= 0)
		return false;
	buf_puts(&own, "hone bench MODEL");
	add_cache(&own, dir);
	next_flush();
	log_info(
	    "`%s` runs a model with the kernels of this cache, which names none of its models that is still "
	    "at its place",
	    buf_str(&own));
	buf_free(&own);
	return true;
}

/* A user who names a cache knows what a model is. */
static void tune_zoo(const char *dir)
{
	struct buf zoo = {0};
	tune_own(dir);
	if (dir && !model_cache_was_default(dir))
		return;
	buf_puts(&zoo, "Next: hone zoo " ZOO_MODEL " -o " ZOO_MODEL ".onnx && ");
	next_program(&zoo);
	buf_puts(&zoo, " tune " ZOO_MODEL ".onnx --budget 20s");
	add_cache(&zoo, dir);
	next_take(&zoo);
}

static void add_shapes(struct buf *b, const struct gain *g)
{
	char shapes[sizeof g->shapes], *save = NULL;
	memcpy(shapes, g->shapes, sizeof shapes);
	for (char *w = strtok_r(shapes, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		buf_puts(b, *w == '-' ? " --shape=" : " --shape ");
		shell_word(b, w);
	}
}

static void run_known(const char *words, const struct gain *g, const char *more, const char *dir)
{
	struct buf b = {0};
	struct target t;
	buf_printf(&b, "Next: hone %s ", words);
	shell_path(&b, g->model);
	buf_puts(&b, more);
	if (g->device[0])
		buf_printf(&b, " --device %s", g->device);
	else if (target_host(&t) >= 0 && g->threads > 0 && g->threads != t.cores)
		buf_printf(&b, " --threads %d", g->threads);
	add_shapes(&b, g);
	if (g->level != LEVEL_FP32 && level_name((int)g->level))
		buf_printf(&b, " --level %s", level_name((int)g->level));
	add_cache(&b, dir);
	next_take(&b);
}

void known_tune(struct cache *c, const char *dir)
{
	struct gain g;
	if (log_level() < LOG_NORMAL)
		return;
	if (newest_model(c, false, &g))
		run_known("tune", &g, " --budget 20s", dir);
	else if (!bench_own(c, dir))
		tune_zoo(dir);
}

void known_bench(struct cache *c, bool apart, const char *dir)
{
	struct gain g;
	if (log_level() < LOG_NORMAL)
		return;
	if (newest_model(c, apart, &g) || newest_model(c, false, &g))
		run_known("bench", &g, "", dir);
	else if (!bench_own(c, dir))
		tune_zoo(dir);
}

/* NULL: it cannot be read. */
static struct cache *open_cache(const char *dir)
{
	struct cache *c = NULL;
	return file_is_dir(dir) && model_cache_read(dir, &c) >= 0 ? c : NULL;
}

void known_tune_in(const char *from, const char *dir)
{
	struct cache *c = log_level() < LOG_NORMAL ? NULL : open_cache(from);
	known_tune(c, dir);
	if (c)
		cache_close(c);
}

void known_bench_in(const char *from, const char *dir)
{
	struct cache *c = log_level() < LOG_NORMAL ? NULL : open_cache(from);
	known_bench(c, false, dir);
	if (c)
		cache_close(c);
}

void known_after(const char *words, int n, const char *const from[], const char *dir)
{
	struct gain newest = {0}, g;
	struct arena a = {0};
	struct key *key;
	bool several = false, records = false;
	for (int i = 0; i < n && log_level() >= LOG_NORMAL; i++) {
		struct cache *c = open_cache(from[i]);
		if (newest_model(c, false, &g)) {
			several |= known_others(c, newest.date[0] ? newest.model : g.model);
			newest = strcmp(g.date, newest.date) > 0 ? g : newest;
		}
		records |= c && cache_keys(c, CACHE_REC, &a, &key) + cache_keys(c, CACHE_HINT, &a, &key) > 0;
		if (c)
			cache_close(c);
	}
	arena_free(&a);
	if (log_level() < LOG_NORMAL)
		return;
	if (newest.date[0] && !several) {
		run_known(words, &newest, strcmp(words, "tune") ? "" : " --budget 20s", dir);
		return;
	}
	struct buf show = {0};
	if (!several)
		tune_own(dir);
	if (!records)
		return;
	buf_puts(&show, "Next: hone show");
	add_cache(&show, dir);
	next_take(&show);
}
