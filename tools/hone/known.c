/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/known.h"
#include "agent/cache/gain.h"
#include "kernels/onnx/import.h"
#include "platform/base/log.h"
#include "tools/hone/next.h"
#include <stdio.h>
#include <string.h>

#define ZOO_MODEL "mobilenet_v2"

static bool imports(const char *path)
{
	struct graph *g = NULL;
	bool good = *path && file_exists(path) && import_file(path, NULL, &g) >= 0;
	graph_free(g);
	return good;
}

/* The newest gain, which is then taken out of the list; NULL: none is left. */
static struct gain *take_newest(struct gain *g, int n)
{
	struct gain *newest = NULL;
	for (int i = 0; i < n; i++)
		if (*g[i].model && (!newest || strcmp(g[i].date, newest->date) > 0))
			newest = &g[i];
	return newest;
}

bool known_model(struct cache *c, char out[PATH_MAX])
{
	struct arena a = {0};
	struct gain *g = NULL, *newest;
	int n = c ? gain_all(c, &a, &g) : 0;
	bool found = false;
	while (!found && (newest = take_newest(g, n)) != NULL) {
		found = imports(newest->model);
		if (found)
			snprintf(out, PATH_MAX, "%s", newest->model);
		*newest->model = 0;
	}
	arena_free(&a);
	return found;
}

static void add_cache(struct buf *b, const char *dir)
{
	if (!dir)
		return;
	buf_puts(b, " --cache ");
	shell_path(b, dir);
}

static void tune_zoo(const char *dir)
{
	struct buf own = {0}, zoo = {0};
	buf_puts(&own, "hone tune MODEL --budget 20s");
	add_cache(&own, dir);
	fflush(stdout);
	log_info("`%s` tunes a model of your own", buf_str(&own));
	buf_puts(&zoo, "Next: hone zoo " ZOO_MODEL " -o " ZOO_MODEL ".onnx && ");
	next_program(&zoo);
	buf_puts(&zoo, " tune " ZOO_MODEL ".onnx --budget 20s");
	add_cache(&zoo, dir);
	next_take(&zoo);
	buf_free(&own);
}

static void run_known(const char *words, const char *model, const char *more, const char *dir)
{
	struct buf b = {0};
	buf_printf(&b, "Next: hone %s ", words);
	shell_path(&b, model);
	buf_puts(&b, more);
	add_cache(&b, dir);
	next_take(&b);
}

void known_tune(struct cache *c, const char *dir)
{
	char model[PATH_MAX];
	if (known_model(c, model))
		run_known("tune", model, " --budget 20s", dir);
	else
		tune_zoo(dir);
}

void known_bench(struct cache *c, const char *dir)
{
	char model[PATH_MAX];
	if (known_model(c, model))
		run_known("bench", model, "", dir);
	else
		tune_zoo(dir);
}

/* NULL: it cannot be read. */
static struct cache *open_cache(const char *dir)
{
	struct cache *c = NULL;
	return file_is_dir(dir) && cache_open_with(&c, dir, CACHE_READ, 0, &(struct cache_options){0}) >= 0
		   ? c
		   : NULL;
}

void known_tune_in(const char *from, const char *dir)
{
	struct cache *c = open_cache(from);
	known_tune(c, dir);
	if (c)
		cache_close(c);
}

void known_bench_in(const char *dir)
{
	struct cache *c = open_cache(dir);
	known_bench(c, dir);
	if (c)
		cache_close(c);
}
