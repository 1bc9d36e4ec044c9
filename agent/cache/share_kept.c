/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/share_kept.h"

#include "platform/base/file.h"
#include "platform/base/log.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char hex[] = "0123456789abcdef",
		  salty[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

static bool is_word(const char *s, size_t n, const char *of, size_t least, size_t most)
{
	if (n < least || n > most)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!s[i] || !strchr(of, s[i]))
			return false;
	return true;
}

static bool is_id(const char *s, size_t n)
{
	return is_word(s, n, hex, 32, 32);
}

/* Returns the next word, which ends with `end`, and its length. NULL: none. */
static const char *word(const char **at, const char *last, char end, size_t *n)
{
	const char *begin = *at, *stop = memchr(begin, end, (size_t)(last - begin));
	if (!stop)
		return NULL;
	*n = (size_t)(stop - begin);
	*at = stop + 1;
	return begin;
}

int share_kept_parse(const char *text, size_t n, const char *cls, struct arena *a, struct share *out)
{
	static const char ends[] = "   \n";
	const char *at = text, *last = text + n, *w[4];
	size_t len[4] = {0};
	*out = (struct share){0};
	for (int i = 0; i < 4; i++)
		if (!(w[i] = word(&at, last, ends[i], &len[i])))
			return fail(E_CORRUPT, "not of the form CLASS PARTS SALT BOARD");
	if (at != last || !is_id(w[0], len[0]) || !is_word(w[1], len[1], "0123456789", 1, 7) ||
	    !is_word(w[2], len[2], salty, 1, 32) || !is_id(w[3], len[3]))
		return fail(E_CORRUPT, "not of the form CLASS PARTS SALT BOARD");
	long parts = strtol(w[1], NULL, 10);
	if (parts > SHARE_MOST_PARTS)
		return fail(E_CORRUPT, "%ld parts; at most %d are possible", parts, SHARE_MOST_PARTS);
	if (strlen(cls) != len[0] || memcmp(w[0], cls, len[0]))
		return fail(E_NOTFOUND, "it is of another class of boards");
	if (parts > 1)
		*out = (struct share){(int)parts, arena_strndup(a, w[2], len[2]),
				      arena_strndup(a, w[3], len[3])};
	return E_OK;
}

static bool is_there(const char *path, const char *line)
{
	struct arena a = {0};
	struct blob b;
	bool same =
	    file_read(&a, path, SHARE_BYTES, &b) >= 0 && b.n == strlen(line) && !memcmp(b.p, line, b.n);
	arena_free(&a);
	return same;
}

int share_kept_put(const char *dir, const char *cls, const struct share *s)
{
	char path[PATH_MAX], line[SHARE_BYTES];
	bool good = is_id(cls, strlen(cls)) && is_id(s->board, strlen(s->board)) && s->parts >= 0 &&
		    s->parts <= SHARE_MOST_PARTS &&
		    (!s->parts || is_word(s->salt, strlen(s->salt), salty, 1, 32));
	if (snprintf(path, sizeof path, "%s/" SHARE_FILE, dir) >= (int)sizeof path)
		return fail(E_USAGE, "the path %s is too long", dir);
	if (!good) {
		unlink(path);
		return fail(E_USAGE, "the search's division among boards cannot be kept: %d parts, salt '%s'",
			    s->parts, s->salt);
	}
	snprintf(line, sizeof line, "%s %d %s %s\n", cls, s->parts, s->parts ? s->salt : "-", s->board);
	if (is_there(path, line))
		return E_OK;
	const struct blob part = {line, strlen(line)};
	return file_write_parts(path, &part, 1, 0644);
}

void share_kept_get(const char *cache, struct key cls, struct arena *a, struct share *out)
{
	const char *const dir[] = {cache, SYNC_STATE};
	struct arena scratch = {0};
	struct blob b;
	char path[PATH_MAX], own[33];
	*out = (struct share){0};
	key_text(cls, own);
	for (int i = 0; i < 2; i++) {
		if (snprintf(path, sizeof path, "%s/" SHARE_FILE, dir[i]) >= (int)sizeof path ||
		    !file_exists(path))
			continue;
		int rc = file_read(&scratch, path, SHARE_BYTES, &b);
		if (rc >= 0)
			rc = share_kept_parse(b.p, b.n, own, a, out);
		if (rc < 0)
			log_more("%s is ignored: %s", path, err_text());
		break;
	}
	if (out->parts)
		log_more("the search is divided into %d parts among boards", out->parts);
	arena_free(&scratch);
}
