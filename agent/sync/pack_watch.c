/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/pack.h"

#include "agent/sync/pack_file.h"
#include "platform/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FIRST "hone-packs 1\n"
enum { NAME = 60 };

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

/* Packs that were taken or refused, oldest first. */
struct known {
	int n;
	bool changed;
	struct entry {
		struct key key;
		bool taken;
		char name[NAME + 1];
	} entry[PACK_KNOWN];
};

static bool is_name(const char *name)
{
	size_t n = strlen(name);
	return n > 4 && n <= NAME && name[0] != '.' && strspn(name, letters) == n &&
	       !strcmp(name + n - 4, ".seg");
}

static void remember(struct known *k, struct key key, bool taken, const char *name)
{
	if (k->n == PACK_KNOWN)
		memmove(k->entry, k->entry + 1, sizeof *k->entry * (size_t)--k->n);
	struct entry *e = &k->entry[k->n++];
	*e = (struct entry){.key = key, .taken = taken};
	snprintf(e->name, sizeof e->name, "%s", name);
	k->changed = true;
}

static bool parse_entry(const char *line, struct known *k)
{
	char key[33], verdict[8], name[NAME + 2];
	struct key parsed;
	if (sscanf(line, "%32s %7s %61s", key, verdict, name) != 3 || key_parse(key, &parsed) < 0 ||
	    !is_name(name))
		return false;
	remember(k, parsed, !strcmp(verdict, "taken"), name);
	return true;
}

static void read_known(const char *path, struct known *k)
{
	struct arena a = {0};
	struct blob b;
	bool good = pack_file_small(path, 64 << 10, &a, &b) >= 0 && !strncmp(b.p, FIRST, strlen(FIRST));
	const char *p = good ? (const char *)b.p + strlen(FIRST) : "";
	while (good && *p) {
		good = parse_entry(p, k);
		p += strcspn(p, "\n");
		p += *p == '\n';
	}
	k->n = good ? k->n : 0;
	k->changed = false;
	arena_free(&a);
}

static int write_known(const char *path, const struct known *k)
{
	struct buf text = {0};
	char key[33];
	buf_puts(&text, FIRST);
	for (int i = 0; i < k->n; i++) {
		key_text(k->entry[i].key, key);
		buf_printf(&text, "%s %s %s\n", key, k->entry[i].taken ? "taken" : "refused",
			   k->entry[i].name);
	}
	int rc =
	    buf_ok(&text) ? file_write(path, text.p, text.n) : fail(E_NOMEM, "no memory to remember packs");
	buf_free(&text);
	return rc;
}

static bool is_known(const struct known *k, struct key key)
{
	for (int i = 0; i < k->n; i++)
		if (key_equal(k->entry[i].key, key))
			return true;
	return false;
}

/* The key hashes everything that a new copy of the pack changes. Returns false unless the pack is a regular
 * file and has a signature file. */
static bool key_of(const char *path, const char *name, struct key *out)
{
	struct arena a = {0};
	struct blob b;
	struct stat st;
	char text[256], sig[PATH_MAX];
	bool there = snprintf(sig, sizeof sig, "%s" PACK_SIG, path) < (int)sizeof sig &&
		     lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
		     pack_file_small(sig, PACK_SIG_BYTES, &a, &b) >= 0;
	if (there) {
		snprintf(text, sizeof text, "%s %" PRIu64 " %" PRId64 " %" PRId64 ".%ld %" PRId64 ".%ld",
			 name, (uint64_t)st.st_ino, (int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec,
			 st.st_mtim.tv_nsec, (int64_t)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
		*out = hash_join(hash_text(text), hash_bytes(b.p, b.n));
	}
	arena_free(&a);
	return there;
}

struct watch {
	struct cache *c;
	const char *dir;
	const struct trust *t;
	const struct public_key *by;
	int n, tries;
	struct known known;
	struct pack_watched *out;
};

/* Remembers the verdict. A pack that cannot be judged now is tried again at the next look. */
static int judge(struct watch *w, int rc, struct key key, const char *name)
{
	bool refused = rc == E_CORRUPT || rc == E_WRONG || rc == E_UNSUPPORTED;
	if (rc == E_BUSY || rc == E_NOTFOUND || rc == E_IO) {
		log_more("%s/%s: %s", w->dir, name, err_text());
		w->out->waiting++;
		return E_OK;
	}
	if (rc < 0 && !refused)
		return rc;
	if (refused)
		log_info("hone: a pack is refused: %s", err_text());
	w->out->packs += !refused;
	w->out->refused += refused;
	remember(&w->known, key, !refused, name);
	return E_OK;
}

static int look(struct watch *w, const char *name)
{
	char path[PATH_MAX];
	struct key key;
	if (!is_name(name) || snprintf(path, sizeof path, "%s/%s", w->dir, name) >= (int)sizeof path)
		return E_OK;
	if (!key_of(path, name, &key)) {
		w->out->waiting++;
		return E_OK;
	}
	if (is_known(&w->known, key) || w->tries >= PACK_WATCHED)
		return E_OK;
	w->tries++;
	int rc = pack_import(w->c, path, w->t, w->by, w->n, w->out->taken, NULL);
	return judge(w, rc, key, name);
}

static int look_all(struct watch *w)
{
	DIR *d = opendir(w->dir);
	int rc = E_OK;
	if (!d)
		return fail(errno == ENOENT || errno == ENOTDIR ? E_NOTFOUND : E_IO, "%s: %s", w->dir,
			    strerror(errno));
	struct dirent *e;
	for (int i = 0; i < PACK_ENTRIES && rc >= 0 && (e = readdir(d)); i++)
		rc = look(w, e->d_name);
	closedir(d);
	return rc;
}

/* Packs are remembered only after their records are durable in the cache. */
int pack_watch(struct cache *c, const char *dir, const char *state, const struct trust *t,
	       const struct public_key *by, int n, struct pack_watched *out)
{
	struct taken_sum *sum = out->taken;
	*out = (struct pack_watched){.taken = sum};
	struct watch *w = calloc(1, sizeof *w);
	if (!w)
		return fail(E_NOMEM, "no memory to look for packs");
	*w = (struct watch){.c = c, .dir = dir, .t = t, .by = by, .n = n, .out = out};
	read_known(state, &w->known);
	int rc = look_all(w), kept = cache_commit(c);
	if (kept >= 0 && w->known.changed)
		kept = write_known(state, &w->known);
	free(w);
	return rc < 0 ? rc : kept;
}
