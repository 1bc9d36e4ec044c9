/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/output.h"
#include "platform/base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD = 128 }; /* bytes; longer than every text that files begin with */

static bool same_file(const char *one, const char *other)
{
	struct stat x, y;
	return stat(one, &x) == 0 && stat(other, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int check_model(const struct args *a, const char *path, const char *other)
{
	for (int i = 0; i < a->npos; i++)
		if (same_file(a->pos[i], path))
			return fail(E_USAGE, "%s is the model itself: write to another %s", path, other);
	return E_OK;
}

static bool begins_with(const char *head, size_t n, const char *begins)
{
	size_t at = 0;
	for (; *begins; begins++) {
		if (*begins == '~')
			while (at < n && head[at] >= 'a' && head[at] <= 'z')
				at++;
		else if (at == n || head[at++] != *begins)
			return false;
	}
	return true;
}

/* A file that cannot be read counts as another kind. */
static bool is_own(const char *path, const char *begins)
{
	char head[HEAD];
	FILE *f = begins ? fopen(path, "rbe") : NULL;
	bool own = f && begins_with(head, fread(head, 1, sizeof head, f), begins);
	if (f)
		fclose(f);
	return own;
}

bool output_begins_at(int dir, const char *name, const char *begins, time_t *written)
{
	char head[HEAD];
	struct stat st;
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool own = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
	ssize_t n = own ? pread(fd, head, sizeof head, 0) : -1;
	own = n == 0 || (n > 0 && begins_with(head, (size_t)n, begins));
	if (own && st.st_mtime > *written)
		*written = st.st_mtime;
	if (fd >= 0)
		close(fd);
	return own;
}

int output_foreign(const struct args *a, const char *path, const char *other)
{
	return fail(E_USAGE, "%s exists and is not a file that `%s %s` writes: name another %s, or remove it",
		    path, a->program->name, a->cmd->name, other);
}

int output_replaces(const struct args *a, const char *path, const char *begins, const char *other)
{
	struct stat st;
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_size)
		return 0; /* file_can_write says what is wrong */
	return is_own(path, begins) ? 1 : output_foreign(a, path, other);
}

int output_file(const struct args *a, const char *name, const char *begins, char to[PATH_MAX])
{
	struct stat st;
	if (!strcmp(name, "-"))
		return fail(E_USAGE,
			    "'-' is not a file's name here: name a file (./- if it is to be called so)");
	if (snprintf(to, PATH_MAX, "%s", name) >= PATH_MAX)
		return fail(E_USAGE, "the path %.60s... is too long", name);
	int rc = check_model(a, name, "file");
	if (rc >= 0 && lstat(name, &st) == 0 && S_ISLNK(st.st_mode) && !realpath(name, to))
		rc = fail(E_IO, "%s is a link that leads nowhere (%s): name a file", name, strerror(errno));
	if (rc >= 0)
		rc = file_can_write(to);
	if (rc >= 0)
		rc = output_replaces(a, name, begins, "file");
	return rc < 0 ? rc : E_OK;
}

int output_in(const struct args *a, const char *path, const char *begins)
{
	if (!file_exists(path))
		return 0;
	int rc = check_model(a, path, "folder");
	if (rc >= 0)
		rc = file_can_write(path);
	return rc < 0 ? rc : output_replaces(a, path, begins, "folder");
}
