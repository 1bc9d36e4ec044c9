/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/machine/board.h"
#include "platform/base/file.h"
#include "platform/machine/sysfile.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define COMPATIBLE "/sys/firmware/devicetree/base/compatible"
#define CACHE "/sys/devices/system/cpu/cpu0/cache/index0/level"

enum { TEXT = 4096, MOST_FILES = 256, MOST_LIKE = 8, NO_MATCH = INT_MAX, MOST_CACHE_KIB = 1 << 20 };

/* The tree's list of names; each ends with NUL. */
struct tree {
	char names[1024];
	size_t n;
};

/* A file, while it is read. */
struct reading {
	const char *path;
	int line;
	bool own; /* not a file that it is like */
	const struct tree *tree;
	const char *machine;
	struct board_file *b;
	char like[BOARD_NAME];
	int place; /* of the best match in the tree's list; behind all: the machine */
	bool caches[3];
};

static int wrong(const struct reading *r, const char *what)
{
	return fail(E_CORRUPT, "%s:%d: %s", r->path, r->line, what);
}

static void match(struct reading *r, int place, const char *word)
{
	if (place < r->place) {
		r->place = place;
		snprintf(r->b->match, BOARD_NAME, "%s", word);
	}
}

static void match_tree(struct reading *r, const char *word)
{
	int place = 0;
	for (size_t at = 0; at < r->tree->n; at += strlen(r->tree->names + at) + 1, place++)
		if (!strcmp(r->tree->names + at, word))
			match(r, place, word);
}

static int read_cache(struct reading *r, int level, const char *value)
{
	int64_t *bytes[3] = {&r->b->l1_bytes, &r->b->l2_bytes, &r->b->l3_bytes};
	char *end;
	long kib = strtol(value, &end, 10);
	if (!isdigit((unsigned char)*value) || *end || kib < 0 || kib > MOST_CACHE_KIB)
		return wrong(r, "a cache needs its size in KiB, such as: l1 = 32");
	if (!r->caches[level])
		*bytes[level] = kib * INT64_C(1024);
	r->caches[level] = true;
	return E_OK;
}

static bool is_of_others(const char *section)
{
	return !strcmp(section, "build") || !strcmp(section, "predict");
}

static int read_key(struct reading *r, const char *section, const char *key, char *value)
{
	static const char *const caches[] = {"l1", "l2", "l3"};
	if (is_of_others(section))
		return E_OK;
	for (int i = 0; i < 3; i++)
		if (!strcmp(section, "caches") && !strcmp(key, caches[i]))
			return read_cache(r, i, value);
	bool name = !strcmp(key, "name"), like = !strcmp(key, "like"), tree = !strcmp(key, "compatible");
	if (*section || (!name && !like && !tree && strcmp(key, "machine") != 0))
		return wrong(
		    r, "unknown key; known are name, like, compatible, machine, and l1, l2, l3 of [caches]");
	if (strlen(value) >= BOARD_NAME && !tree)
		return wrong(r, "the value is too long");
	if (name && !r->b->name[0])
		snprintf(r->b->name, BOARD_NAME, "%s", value);
	if (like)
		snprintf(r->like, BOARD_NAME, "%s", value);
	for (char *save, *w = name || like || !r->own ? NULL : strtok_r(value, " \t", &save); w;
	     w = strtok_r(NULL, " \t", &save)) {
		if (strlen(w) >= BOARD_NAME)
			return wrong(r, "the value is too long");
		if (tree)
			match_tree(r, w);
		else if (!strcmp(w, r->machine))
			match(r, NO_MATCH - 1, w);
	}
	return E_OK;
}

/* Cuts blanks around it, and a comment. */
static char *trimmed(char *text)
{
	text += strspn(text, " \t");
	size_t n = strcspn(text, ";#\r\n");
	while (n > 0 && isspace((unsigned char)text[n - 1]))
		n--;
	text[n] = 0;
	return text;
}

static int read_line(struct reading *r, char *section, char *line)
{
	char *text = trimmed(line), *equals = strchr(text, '=');
	size_t n = strlen(text);
	if (!n)
		return E_OK;
	if (*text == '[') {
		if (text[n - 1] != ']' || n >= 16)
			return wrong(r, "a section needs brackets, such as: [caches]");
		snprintf(section, 16, "%.*s", (int)n - 2, text + 1);
		return !strcmp(section, "caches") || is_of_others(section)
			   ? E_OK
			   : wrong(r, "unknown section; known are [caches], [build] and [predict]");
	}
	if (!equals)
		return wrong(r, "a line needs a key and a value, such as: name = Raspberry Pi 4");
	*equals = 0;
	return read_key(r, section, trimmed(text), trimmed(equals + 1));
}

static int read_file(struct reading *r, const char *dir, const char *file)
{
	char path[PATH_MAX], text[TEXT], section[16] = "";
	if (snprintf(path, sizeof path, "%s/%s.conf", dir, file) >= (int)sizeof path)
		return fail(E_IO, "the path %.60s... is too long", dir);
	int fd = sysfile_open("", path), rc = E_OK;
	r->path = path;
	r->line = 0;
	r->like[0] = 0;
	int n = fd < 0 ? -1 : sysfile_read(fd, text, sizeof text);
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return fail(E_CORRUPT, "%s: cannot be read", path);
	if (n == TEXT - 1)
		rc = wrong(r, "the file is too long");
	for (char *at = text, *next; at && rc >= 0; at = next) {
		next = strchr(at, '\n');
		if (next)
			*next++ = 0;
		r->line++;
		rc = read_line(r, section, at);
	}
	r->path = "";
	return rc;
}

/* Reads a file and those that it is like. */
static int read_board(const char *dir, const char *file, const struct tree *tree, const char *machine,
		      struct board_file *b, int *place)
{
	struct reading r = {.own = true, .tree = tree, .machine = machine, .b = b, .place = NO_MATCH};
	char at[BOARD_NAME];
	int rc = E_OK;
	*b = (struct board_file){.l1_bytes = 0};
	snprintf(b->file, BOARD_NAME, "%s", file);
	snprintf(at, sizeof at, "%s", file);
	for (int i = 0; at[0] && rc >= 0; i++) {
		if (i == MOST_LIKE || strchr(at, '/'))
			return fail(E_CORRUPT, "%s/%s.conf: what it is like leads to no end, or to '%s'", dir,
				    file, at);
		rc = read_file(&r, dir, at);
		r.own = false;
		snprintf(at, sizeof at, "%s", r.like);
	}
	*place = r.place;
	return rc;
}

static void read_tree(const char *root, struct tree *t)
{
	int fd = sysfile_open(root, COMPATIBLE), n = fd < 0 ? 0 : sysfile_read(fd, t->names, sizeof t->names);
	t->n = n > 0 ? (size_t)n : 0;
	if (fd >= 0)
		close(fd);
}

int board_find(const char *dir, const char *root, const char *machine, struct board_file *b)
{
	struct utsname u;
	struct dirent *e;
	struct tree tree;
	int best = NO_MATCH, rc = E_OK;
	DIR *d = opendir(dir);
	if (!d)
		return fail(E_NOTFOUND, "there is no folder of boards %s", dir);
	if (!*machine)
		machine = uname(&u) == 0 ? u.machine : "";
	read_tree(root, &tree);
	for (int i = 0; i < MOST_FILES && (e = readdir(d)); i++) {
		struct board_file one;
		size_t n = strlen(e->d_name);
		int place = NO_MATCH;
		if (e->d_name[0] == '.' || n < 6 || n - 5 >= BOARD_NAME ||
		    strcmp(e->d_name + n - 5, ".conf") != 0)
			continue;
		e->d_name[n - 5] = 0;
		int got = read_board(dir, e->d_name, &tree, machine, &one, &place);
		rc = got < 0 ? got : rc; /* the others are read all the same: one of them may be this board */
		if (got >= 0 && place < best) {
			best = place;
			*b = one;
		}
	}
	closedir(d);
	if (best < NO_MATCH)
		return E_OK;
	return rc < 0 ? rc : fail(E_NOTFOUND, "no file in %s is of this board", dir);
}

int board_dir(char *out, size_t n)
{
	static const char *const beside[] = {"/../share/hone/boards", "/../configs/boards"};
	const char *given = getenv("HONE_BOARDS");
	char self[PATH_MAX];
	if (given && *given)
		return snprintf(out, n, "%s", given) < (int)n ? E_OK : fail(E_IO, "HONE_BOARDS is too long");
	int rc = file_self_dir(self, sizeof self);
	if (rc < 0)
		return rc;
	for (int i = 0; i < 2; i++)
		if (snprintf(out, n, "%s%s", self, beside[i]) < (int)n && file_is_dir(out))
			return E_OK;
	return fail(E_NOTFOUND, "there is no folder of boards near %s: set HONE_BOARDS", self);
}

bool board_fill(const struct board_file *b, const char *root, struct target *t)
{
	int64_t level;
	if (sysfile_number(root, CACHE, &level) || !b->l1_bytes)
		return false;
	t->l1_bytes = b->l1_bytes;
	t->l2_bytes = b->l2_bytes ? b->l2_bytes : t->l2_bytes;
	t->l3_bytes = b->l3_bytes;
	return true;
}

void board_fill_host(struct target *t)
{
	char dir[PATH_MAX];
	struct board_file b;
	if (board_dir(dir, sizeof dir) >= 0 && board_find(dir, "", "", &b) >= 0)
		board_fill(&b, "", t);
}
