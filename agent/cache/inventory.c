/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/inventory.h"
#include "agent/cache/cache_parts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Adds the segments of a folder. One that cannot be listed counts as empty. */
static void add_folder(struct hash *h, const char *dir)
{
	struct segment_names l = {0};
	char path[PATH_MAX];
	struct stat st;
	if (cache_list(dir, &l) < 0)
		l.n = 0;
	for (int i = 0; i < l.n; i++) {
		int64_t file[3] = {0};
		if (snprintf(path, sizeof path, "%s/%s", dir, l.name[i]) < (int)sizeof path &&
		    stat(path, &st) == 0) {
			file[0] = st.st_size;
			file[1] = st.st_mtim.tv_sec;
			file[2] = st.st_mtim.tv_nsec;
		}
		hash_add(h, l.name[i], sizeof l.name[i]);
		hash_add(h, file, sizeof file);
	}
	hash_add(h, &l.n, sizeof l.n);
	free(l.name);
}

static struct key end_key(struct hash *h)
{
	uint8_t digest[HASH_BYTES];
	struct key k;
	hash_end(h, digest);
	memcpy(&k, digest, sizeof k);
	return k;
}

static struct key files_of(const struct cache *c)
{
	struct hash h;
	hash_begin(&h);
	for (int i = c->nlayers - 1; i >= 0; i--)
		add_folder(&h, c->layer[i].dir);
	return end_key(&h);
}

struct key inventory_files(const char *dir)
{
	const char *seeds = getenv("HONE_SEEDS"), *at = seeds ? seeds : CACHE_SEED;
	char part[PATH_MAX];
	struct hash h;
	hash_begin(&h);
	add_folder(&h, dir);
	for (int layers = 1; *at && layers < MAX_LAYERS;) { /* the uppermost comes first */
		size_t n = strcspn(at, ":");
		if (n && n < sizeof part) {
			snprintf(part, sizeof part, "%.*s", (int)n, at);
			add_folder(&h, part);
		}
		layers += n > 0;
		at += n + (at[n] == ':');
	}
	return end_key(&h);
}

static bool counts(const struct slot *s)
{
	bool kind = s->type == CACHE_REC || s->type == CACHE_CHOICES || s->type == CACHE_RECIPE ||
		    s->type == CACHE_CODE;
	return kind && s->n != GONE && s->seg != NOWHERE && s->seg != IN_MEMORY;
}

static bool is_less(struct key a, struct key b)
{
	return a.hi != b.hi ? a.hi < b.hi : a.lo < b.lo;
}

static bool is_none(struct key k)
{
	return !k.hi && !k.lo;
}

/* Keeps the smallest keys, sorted. */
static void add_some(struct inventory *v, struct key k)
{
	for (int i = 0; i < INVENTORY_SOME; i++)
		if (is_none(v->some[i]) || is_less(k, v->some[i])) {
			struct key larger = v->some[i];
			v->some[i] = k;
			k = larger;
			if (is_none(k))
				return;
		}
}

void inventory_take(const struct cache *c, struct inventory *out)
{
	*out = (struct inventory){.files = files_of(c)};
	for (size_t i = 0; i < c->nslots; i++) {
		const struct slot *s = &c->slot[i];
		if (!counts(s))
			continue;
		*(s->type == CACHE_CODE ? &out->code : &out->records) += 1;
		if (s->type == CACHE_REC)
			add_some(out, s->key);
	}
}

bool inventory_lacks(const struct cache *c, const struct inventory *before, const struct inventory *now)
{
	if (!inventory_is_known(before))
		return false;
	bool lacks = now->records < before->records || now->code < before->code;
	for (int i = 0; i < INVENTORY_SOME && !lacks && !is_none(before->some[i]); i++)
		lacks = !counts(cache_slot(c, CACHE_REC, before->some[i]));
	return lacks;
}

int inventory_compare(const char *dir, const struct inventory *before, struct inventory *now)
{
	const struct cache_options o = {.only_here = true};
	struct cache *c;
	struct key files = inventory_files(dir);
	*now = *before;
	if (inventory_is_known(before) && key_equal(files, before->files))
		return 0;
	int rc = cache_open_with(&c, dir, CACHE_READ, 0, &o);
	if (rc < 0)
		return rc;
	inventory_take(c, now);
	rc = inventory_lacks(c, before, now);
	cache_close(c);
	return rc;
}

void inventory_say(const struct inventory *before, const struct inventory *now, char *out, size_t n)
{
	if (now->records < before->records || now->code < before->code)
		snprintf(out, n, "%d of %d records, code of %d of %d kernels", now->records, before->records,
			 now->code, before->code);
	else
		snprintf(out, n, "other records");
}
