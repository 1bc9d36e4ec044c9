/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/predict_board.h"
#include "platform/machine/board.h"
#include <dirent.h>
#include <ini.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LIKE = 8 };

struct reading {
	char core[32], features[64], model[32], like[64], triple[48];
	double mhz, flops, gbs[4];
	bool own; /* not a file that it is like */
};

static bool number(const char *value, double least, double most, double *out)
{
	char *end;
	*out = strtod(value, &end);
	return end != value && !*end && *out >= least && *out <= most;
}

static bool predict_key(struct reading *r, const char *key, const char *value)
{
	const struct {
		const char *key;
		char *to;
		size_t room;
	} texts[] = {{"core", r->core, sizeof r->core},
		     {"features", r->features, sizeof r->features},
		     {"model", r->model, sizeof r->model}};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (!strcmp(key, texts[i].key))
			return snprintf(texts[i].to, texts[i].room, "%s", value) < (int)texts[i].room;
	if (!strcmp(key, "mhz"))
		return number(value, 100, 10000, &r->mhz);
	if (!strcmp(key, "flops"))
		return number(value, 1, 256, &r->flops);
	int n = 0;
	return !strcmp(key, "gbs") &&
	       sscanf(value, "%lf %lf %lf %lf %n", &r->gbs[0], &r->gbs[1], &r->gbs[2], &r->gbs[3], &n) == 4 &&
	       !value[n] && r->gbs[0] > 0 && r->gbs[1] > 0 && r->gbs[2] >= 0 && r->gbs[3] > 0;
}

static int take(void *ctx, const char *section, const char *key, const char *value)
{
	struct reading *r = ctx;
	bool good = true;
	if (!strcmp(section, "predict") && r->own)
		good = predict_key(r, key, value);
	if (!*section && !strcmp(key, "like"))
		snprintf(r->like, sizeof r->like, "%s", value);
	if (!strcmp(section, "build") && !strcmp(key, "triple") && !*r->triple)
		snprintf(r->triple, sizeof r->triple, "%s", value);
	return good;
}

static int read_all(const char *dir, const char *board, struct reading *r)
{
	char path[PATH_MAX], at[64];
	*r = (struct reading){.own = true};
	snprintf(at, sizeof at, "%s", board);
	for (int i = 0; *at && i < MOST_LIKE; i++) {
		if (strchr(at, '/') || snprintf(path, sizeof path, "%s/%s.conf", dir, at) >= PATH_MAX)
			return fail(E_NOTFOUND, "there is no board %s", at);
		r->like[0] = 0;
		int line = ini_parse(path, take, r);
		if (line < 0)
			return fail(E_NOTFOUND, "there is no file %s", path);
		if (line > 0)
			return fail(E_CORRUPT, "%s:%d: the value is wrong", path, line);
		r->own = false;
		snprintf(at, sizeof at, "%s", r->like);
	}
	return E_OK;
}

int predict_board(const char *dir, const char *board, struct predict_cpu *out)
{
	struct reading r;
	struct board_file file;
	struct target *t = &out->target;
	int rc = read_all(dir, board, &r);
	if (rc >= 0)
		rc = board_read(dir, board, &file);
	if (rc < 0)
		return rc;
	if (!*r.core)
		return fail(E_NOTFOUND, "%s/%s.conf has no section [predict]", dir, board);
	if (!*r.model || !r.mhz || !r.flops || !r.gbs[3] || !*r.triple)
		return fail(E_CORRUPT, "%s/%s.conf: [predict] needs core, model, mhz, flops and gbs", dir,
			    board);
	*out = (struct predict_cpu){.mhz = r.mhz};
	bool wide = !strncmp(r.triple, "aarch64", 7);
	rc = target_baseline(wide ? "armv8-a" : "armv7-neon", t);
	if (rc < 0)
		return rc;
	snprintf(t->cpu, sizeof t->cpu, "%s", r.core);
	snprintf(t->features + strlen(t->features), sizeof t->features - strlen(t->features), "%s%s",
		 *r.features ? "," : "", r.features);
	t->l2_bytes = 0;
	if (!board_fill(&file, NULL, t))
		return fail(
		    E_CORRUPT,
		    "%s/%s.conf: a prediction needs the caches of the cluster %s, or a section [caches]", dir,
		    board, r.core);
	t->fma_gflops = r.mhz * r.flops / 1e3;
	memcpy(t->bw_gbs, r.gbs, sizeof t->bw_gbs);
	memcpy(out->gbs, r.gbs, sizeof out->gbs);
	snprintf(out->triple, sizeof out->triple, "%s", wide ? "aarch64-linux-gnu" : "armv7-linux-gnueabihf");
	snprintf(out->features, sizeof out->features, wide ? "+neon,+dotprod,+fullfp16" : "+neon,+vfp4");
	snprintf(out->model, sizeof out->model, "%s", r.model);
	return fail_in(target_check(t), "%s/%s.conf", dir, board);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int predict_boards(const char *dir, struct arena *a, const char *names[MOST_BOARDS])
{
	struct dirent *e;
	struct predict_cpu cpu;
	int n = 0, rc = E_OK;
	DIR *d = opendir(dir);
	if (!d)
		return fail(E_NOTFOUND, "there is no folder of boards %s", dir);
	while (n < MOST_BOARDS && rc >= 0 && (e = readdir(d))) {
		size_t length = strlen(e->d_name);
		if (length < 6 || strcmp(e->d_name + length - 5, ".conf") != 0)
			continue;
		const char *name = arena_strndup(a, e->d_name, length - 5);
		rc = predict_board(dir, name, &cpu);
		if (rc >= 0)
			names[n++] = name;
		rc = rc == E_NOTFOUND ? E_OK : rc;
	}
	closedir(d);
	qsort(names, (size_t)n, sizeof *names, by_name);
	return rc < 0 ? rc : n;
}
