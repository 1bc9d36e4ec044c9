/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/in_folder.h"
#include "agent/run/image.h"
#include "kernels/onnx/foreign.h"
#include "platform/base/file.h"
#include "platform/base/shell.h"
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The first ONNX file of a folder in the order of names; "": it has none. */
static void first_model(const char *dir, char name[NAME_MAX + 1])
{
	const struct dirent *e;
	DIR *d = opendir(dir);
	*name = 0;
	while (d && (e = readdir(d)) != NULL)
		if (file_ends_with(e->d_name, ".onnx") && (!*name || strcmp(e->d_name, name) < 0))
			snprintf(name, NAME_MAX + 1, "%s", e->d_name);
	if (d)
		closedir(d);
}

int in_folder_check(const struct args *a)
{
	char file[PATH_MAX], name[NAME_MAX + 1];
	const char *path = a->npos ? a->pos[0] : "";
	if (strncmp(a->cmd->usage, "MODEL", 5) != 0 || !file_is_dir(path) ||
	    (image_find(path, file, sizeof file) && file_exists(file)) || foreign_folder(path) < 0)
		return E_OK; /* the command says what else is wrong */
	first_model(path, name);
	size_t n = strlen(path);
	if (!*name || snprintf(file, sizeof file, "%s%s%s", path, path[n - 1] == '/' ? "" : "/", name) >=
			  (int)sizeof file)
		return E_OK;
	struct buf model = {0};
	shell_path(&model, file);
	int rc = fail(E_USAGE, "%s is a folder; name a model in it: %s %s %s", path, a->program->name,
		      a->cmd->name, buf_str(&model));
	buf_free(&model);
	return rc;
}
