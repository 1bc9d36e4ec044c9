/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/json.h"
#include "tools/model.h"
#include <stdio.h>
#include <sys/stat.h>

static int run_pack(const struct args *a)
{
	char dir[4096];
	struct cache *c;
	struct stat st = {0};
	const char *out = arg_str(a, "output", "cache.seg");
	int rc = model_cache_open(a, false, dir, sizeof dir, &c);
	if (rc < 0)
		return rc;
	int n = cache_pack(c, out, !arg_flag(a, "no-code"));
	cache_close(c);
	if (n < 0)
		return n;
	if (stat(out, &st) < 0)
		st.st_size = 0;
	if (a->json)
		return json_out(json_pack("{so so si sI}", "cache", json_text(dir), "file", json_text(out),
					  "records", n, "bytes", (json_int_t)st.st_size));
	printf("%s: %d record%s, %lld bytes. Next: put it into the image, in " CACHE_SEED "\n", out, n,
	       plural_s(n), (long long)st.st_size);
	return 0;
}

static const struct opt opts[] = {
    {"output", OPT_STR, "FILE.seg", "the file (default cache.seg)", 'o'},
    {"no-code", OPT_FLAG, NULL, "records alone: for boards of another kind"},
    OPT_CACHE,
    {NULL},
};

const struct cmd cmd_pack = {
    .usage = "[-o FILE.seg] [--no-code] [--cache DIR]",
    .summary = "the cache as one file, to ship in an image",
    .details = "What is dead stays out. The file serves from any folder of seeds (" CACHE_SEED
	       ", or $HONE_SEEDS), under what the board learns itself.",
    .opts = opts,
    .run = run_pack,
    .name = "pack",
};
