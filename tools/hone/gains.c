/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/gains.h"
#include "platform/base/log.h"
#include "tools/hone/daemon.h"
#include "tools/hone/headline.h"
#include <string.h>

/* A stored path may be only the end of a long one. */
static bool is_of(const struct gain *g, const char *path)
{
	size_t n = strlen(path), m = strlen(g->model);
	return m && n >= m && !strcmp(path + n - m, g->model) &&
	       (n == m || m == sizeof g->model - 1 || path[n - m - 1] == '/');
}

/* Of another device, level or number of threads, it is of another network. An older honed says no level. */
static bool is_as(const struct gain *g, const json_t *m)
{
	const char *level = level_name((int)g->level);
	double threads = daemon_num(m, "threads", 0);
	return !strcmp(g->device[0] ? g->device : "cpu", daemon_text(m, "device", "cpu")) &&
	       !strcmp(level ? level : "", daemon_text(m, "level", level ? level : "")) &&
	       (g->device[0] || !(threads > 0) || g->threads == threads);
}

static const struct gain *newest_of(const struct gain *g, int n, const json_t *m)
{
	const struct gain *newest = NULL;
	for (int i = 0; i < n; i++)
		if (is_of(&g[i], daemon_text(m, "path", "?")) && is_as(&g[i], m) &&
		    (!newest || strcmp(g[i].date, newest->date) > 0))
			newest = &g[i];
	return newest;
}

void gains_add(json_t *status, struct cache *c)
{
	struct arena a = {0};
	struct gain *g;
	int n = gain_all(c, &a, &g);
	json_t *list = json_array(), *m;
	size_t k;
	for (int i = 0; i < n; i++)
		json_array_append_new(list, headline_gain_json(&g[i]));
	json_array_foreach(json_object_get(status, "models"), k, m)
	{
		const struct gain *own = newest_of(g, n, m);
		if (own)
			json_object_set_new(m, "gain", headline_gain_json(own));
	}
	json_object_set_new(status, "gains", list);
	arena_free(&a);
}

void gains_add_of(json_t *status, const char *dir)
{
	struct cache *c = NULL;
	dir = dir ? dir : daemon_text(status, "cache", NULL);
	if (!dir || cache_open_with(&c, dir, CACHE_READ, 0, &(struct cache_options){0}) < 0)
		return;
	gains_add(status, c);
	cache_close(c);
}
