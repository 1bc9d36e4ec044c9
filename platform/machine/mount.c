/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/machine/mount.h"
#include "platform/base/file.h"

#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

enum { TABLE_BYTES = 1 << 20 };

/* A slice of the table's text. */
struct part {
	const char *p;
	size_t n;
};

static struct part from_to(const char *p, const char *end)
{
	return (struct part){p, (size_t)(end - p)};
}

/* Takes the text before a letter, or all of it; removes it and the letter from `from`. */
static struct part take(struct part *from, char until)
{
	const char *end = memchr(from->p, until, from->n);
	struct part word = from_to(from->p, end ? end : from->p + from->n);
	size_t gone = word.n + (end != NULL);
	*from = (struct part){from->p + gone, from->n - gone};
	return word;
}

static bool is(struct part w, const char *text)
{
	return w.n == strlen(text) && !memcmp(w.p, text, w.n);
}

/* Value of an escape like "\040": three octal digits after p, which has n bytes. < 0: it is none. */
static int escaped(const char *p, size_t n)
{
	int v = 0;
	for (int i = 1; i <= 3; i++) {
		if (n < 4 || *p != '\\' || p[i] < '0' || p[i] > '7')
			return -1;
		v = v * 8 + (p[i] - '0');
	}
	return v;
}

/* Decodes the letters that the table escapes because they would end a word. A word that is too long becomes
 * "". */
static void unescape(struct part w, char out[PATH_MAX])
{
	char *at = out;
	for (size_t i = 0; i < w.n && w.n < PATH_MAX;) {
		int v = escaped(w.p + i, w.n - i);
		*at++ = v < 0 ? w.p[i] : (char)v;
		i += v < 0 ? 1 : 4;
	}
	*at = 0;
}

struct line {
	char at[PATH_MAX];
	struct part type, options; /* of the file system; options may be as long as a page, or longer */
	bool read_only;
};

static bool begins_ro(struct part options)
{
	return is(take(&options, ','), "ro");
}

/* "36 35 98:0 /root /at rw,... tags - type source options" */
static bool parse_line(struct part text, struct line *out)
{
	const char *tail = memmem(text.p, text.n, " - ", 3);
	if (!tail)
		return false;
	struct part head = from_to(text.p, tail), rest = from_to(tail + 3, text.p + text.n);
	for (int i = 0; i < 4; i++)
		take(&head, ' ');
	struct part at = take(&head, ' '), mode = take(&head, ' ');
	out->type = take(&rest, ' ');
	take(&rest, ' ');
	out->options = take(&rest, ' ');
	unescape(at, out->at);
	if (!out->at[0] || !mode.n || !out->type.n)
		return false;
	out->read_only = begins_ro(mode) || begins_ro(out->options); /* the mount, or the file system */
	return true;
}

static bool is_below(const char *path, const char *at)
{
	size_t n = strlen(at);
	return !strcmp(at, "/") || (!strncmp(path, at, n) && (!path[n] || path[n] == '/'));
}

/* Finds the mount of a path: the deepest one, and among equally deep ones the last. */
static bool find_mount(const char *table, const char *path, struct line *out)
{
	static _Thread_local struct line l;
	bool found = false;
	for (struct part rest = {table, strlen(table)}; rest.n > 0;) {
		if (!parse_line(take(&rest, '\n'), &l) || !is_below(path, l.at))
			continue;
		if (!found || strlen(l.at) >= strlen(out->at))
			*out = l;
		found = true;
	}
	return found;
}

static bool in_memory(const struct line *l)
{
	return is(l->type, "tmpfs") || is(l->type, "ramfs");
}

/* The folder that an overlay writes to; "": it has none. */
static void upper_of(const struct line *l, char out[PATH_MAX])
{
	static const char option[] = "upperdir=";
	const size_t n = sizeof option - 1;
	out[0] = 0;
	for (struct part rest = l->options; rest.n > 0;) {
		struct part word = take(&rest, ',');
		if (word.n > n && !memcmp(word.p, option, n))
			unescape(from_to(word.p + n, word.p + word.n), out);
	}
}

enum mount_kind mount_in(const char *mountinfo, const char *dir)
{
	static _Thread_local struct line l, below;
	char upper[PATH_MAX];
	if (!find_mount(mountinfo, dir, &l))
		return MOUNT_KEEPS;
	if (l.read_only)
		return MOUNT_READ_ONLY;
	if (in_memory(&l))
		return MOUNT_MEMORY;
	if (!is(l.type, "overlay"))
		return MOUNT_KEEPS;
	upper_of(&l, upper);
	if (!upper[0])
		return MOUNT_READ_ONLY;
	/* The path is as the mounting process saw it: if it lies below this mount, it is another folder. */
	if (!find_mount(mountinfo, upper, &below) || !strcmp(below.at, l.at))
		return MOUNT_OVERLAY;
	return in_memory(&below) ? MOUNT_MEMORY : MOUNT_KEEPS;
}

/* Finds the nearest existing folder and resolves links. */
static bool existing(const char *dir, char out[PATH_MAX])
{
	char part[PATH_MAX];
	if (snprintf(part, sizeof part, "%s", dir) >= (int)sizeof part)
		return false;
	while (!realpath(part, out)) {
		char *slash = strrchr(part, '/');
		if (!slash)
			return realpath(".", out) != NULL;
		slash[slash == part] = 0;
		if (!strcmp(part, "/"))
			return realpath("/", out) != NULL;
	}
	return true;
}

/* Reads the table in pieces: the kernel reports no size for it, so file_read cannot be used. */
static enum mount_kind look_up(const char *root, const char *dir)
{
	char path[PATH_MAX];
	struct arena a = {0};
	snprintf(path, sizeof path, "%.3000s/proc/self/mountinfo", root);
	FILE *f = fopen(path, "re");
	if (!f)
		return MOUNT_OVERLAY;
	char *text = arena_alloc(&a, TABLE_BYTES);
	size_t n = fread(text, 1, TABLE_BYTES - 1, f);
	enum mount_kind k = n ? mount_in(text, dir) : MOUNT_OVERLAY;
	fclose(f);
	arena_free(&a);
	return k;
}

enum mount_kind mount_of(const char *root, const char *dir)
{
	char real[PATH_MAX];
	struct statvfs v;
	struct statfs f;
	if (!existing(dir, real) || statfs(real, &f) < 0 || statvfs(real, &v) < 0)
		return MOUNT_KEEPS;
	if (*root)
		return look_up(root, real);
	if (v.f_flag & ST_RDONLY)
		return MOUNT_READ_ONLY;
	if (f.f_type == TMPFS_MAGIC || (unsigned long)f.f_type == RAMFS_MAGIC)
		return MOUNT_MEMORY;
	return f.f_type == OVERLAYFS_SUPER_MAGIC ? look_up("", real) : MOUNT_KEEPS;
}

const char *mount_words(enum mount_kind k)
{
	static const char *const words[] = {
	    [MOUNT_KEEPS] = "",
	    [MOUNT_MEMORY] = "its file system is in memory: tuning results are lost at power-off; put it on "
			     "a writable partition (--cache, or a mount there)",
	    [MOUNT_OVERLAY] = "it is on an overlay whose upper folder cannot be seen: if that is in memory, "
			      "tuning results are lost at power-off; put it on a writable partition",
	    [MOUNT_READ_ONLY] = "its file system is read-only: its kernels are used, and nothing new can be "
				"kept in it; mount it writable, or name another folder with --cache",
	};
	return words[k];
}

static bool read_line(const char *path, char *out, size_t n)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(out, (int)n, f);
	if (f)
		fclose(f);
	return ok;
}

/* "0x02 0x01" */
static int tenths(const char *text)
{
	unsigned a = 0, b = 0;
	int n = sscanf(text, "%x %x", &a, &b);
	unsigned worse = n < 2 || a > b ? a : b;
	return n < 1 || worse > 11 ? 0 : (int)worse;
}

/* A partition's folder lies in that of its device. */
int flash_life(const char *root, dev_t device, struct flash_life *out)
{
	static const char *const up[] = {"", "/.."};
	char base[PATH_MAX - 64], at[PATH_MAX], path[PATH_MAX], text[64];
	*out = (struct flash_life){0};
	snprintf(base, sizeof base, "%s/sys/dev/block/%u:%u", root, major(device), minor(device));
	for (int i = 0; i < 2 && realpath(base, at) && strlen(at) < PATH_MAX - 64; i++) {
		snprintf(path, sizeof path, "%.*s%s/device/life_time", PATH_MAX - 64, at, up[i]);
		if (!read_line(path, text, sizeof text))
			continue;
		out->tenths = tenths(text);
		snprintf(path, sizeof path, "%.*s%s/device/pre_eol_info", PATH_MAX - 64, at, up[i]);
		out->near_end = read_line(path, text, sizeof text) && strtol(text, NULL, 16) > 1;
		snprintf(path, sizeof path, "%.*s%s", PATH_MAX - 64, at, up[i]);
		if (!realpath(path, at))
			break;
		snprintf(out->device, sizeof out->device, "%.31s", strrchr(at, '/') + 1);
		return E_OK;
	}
	return fail(E_NOTFOUND, "device %u:%u does not report its wear", major(device), minor(device));
}
