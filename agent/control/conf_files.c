/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a configuration: the main one and its drop-ins. */
#include "agent/control/conf.h"
#include "platform/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILE_BYTES = 256 << 10, MOST_DROPINS = 256 };

/* A model, say, given in place of a configuration: each of its lines would be a mistake. */
static bool is_binary(const struct blob *b)
{
	const unsigned char *p = b->p;
	return b->n && ((*p < ' ' && !strchr("\t\n\r\f", *p)) || memchr(p, 0, b->n));
}

/* A file that cannot be read is a mistake, too, unless it is not there. */
static int read_one(const char *path, struct arena *a, struct conf *c, struct buf *mistakes)
{
	struct blob b;
	int rc = file_read(a, path, MOST_FILE_BYTES, &b);
	if (rc >= 0 && is_binary(&b))
		return fail(E_CORRUPT,
			    "%s is not a configuration but a binary file, as a model is; name a text "
			    "file such as " CONF_FILE,
			    path);
	if (rc >= 0)
		return conf_collect(path, b.p, b.n, a, c, mistakes);
	if (!mistakes || rc == E_NOTFOUND || rc == E_NOMEM)
		return rc;
	buf_printf(mistakes, "%s\n", err_text());
	return 1;
}

static int is_dropin(const struct dirent *e)
{
	size_t n = strlen(e->d_name);
	return *e->d_name != '.' && n > 5 && !strcmp(e->d_name + n - 5, ".conf");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int read_dropins(const char *folder, struct arena *a, struct conf *c, struct buf *mistakes)
{
	struct dirent **e;
	int n = scandir(folder, &e, is_dropin, by_name), rc = 0, sum = 0;
	if (n < 0)
		return errno == ENOENT ? 0
				       : fail(E_IO, "cannot read the folder %s: %s; check its permissions",
					      folder, strerror(errno));
	if (n > MOST_DROPINS)
		rc = fail(E_USAGE, "%s holds %d files; at most %d are allowed", folder, n, MOST_DROPINS);
	for (int i = 0; i < n; i++) {
		if (rc >= 0)
			rc = read_one(arena_printf(a, "%s/%s", folder, e[i]->d_name), a, c, mistakes);
		sum += rc > 0 ? rc : 0;
		free(e[i]);
	}
	free(e);
	return rc < 0 ? rc : sum;
}

/* The libraries of a model on a device: they compute on the processor. */
static const char *libraries_on(const char *device, const char *names)
{
	return names && strcmp(names, CONF_NONE) && device_is_processor(device) ? names : NULL;
}

int conf_spread(struct arena *a, struct conf *c)
{
	struct conf_model *all = c->nmodels ? ARENA_ARRAY(a, struct conf_model, CONF_MODELS) : NULL;
	const struct conf_model *over = NULL;
	int n = 0, sum = 0;
	for (int i = 0; i < c->nmodels; i++) {
		const struct conf_model *m = &c->model[i];
		for (int k = 0; k < (m->devices.n ? m->devices.n : 1); k++, sum++) {
			if (n == CONF_MODELS) {
				over = over ? over : m;
				continue;
			}
			all[n] = *m;
			const char *device = m->devices.n ? m->devices.name[k] : CONF_CPU;
			all[n].device = strcmp(device, CONF_CPU) ? device : NULL;
			all[n].library = libraries_on(device, m->library ? m->library : c->library);
			n++;
		}
	}
	c->model = all;
	c->nmodels = n;
	return over ? fail(E_USAGE,
			   "%s:%d: [model %s]: %d models and devices to tune them on; at most %d pairs are "
			   "kept tuned",
			   over->file, over->line, over->name, sum, CONF_MODELS)
		    : E_OK;
}

int conf_read(const char *path, struct arena *a, struct conf *out)
{
	conf_defaults(out);
	int rc = read_one(path, a, out, NULL);
	if (rc >= 0 || rc == E_NOTFOUND)
		rc = read_dropins(arena_printf(a, "%s.d", path), a, out, NULL);
	return rc < 0 ? rc : conf_spread(a, out);
}

int conf_given(const char *path)
{
	char dropins[PATH_MAX];
	bool fits = snprintf(dropins, sizeof dropins, "%s.d", path) < PATH_MAX;
	return file_exists(path) || (fits && file_is_dir(dropins))
		   ? E_OK
		   : fail(E_NOTFOUND, "there is no configuration %s; give an existing file to --config",
			  path);
}

int conf_check(const char *path, struct arena *a, struct conf *out, struct buf *mistakes)
{
	conf_defaults(out);
	int n = read_one(path, a, out, mistakes);
	n = n == E_NOTFOUND ? 0 : n;
	int rc = n < 0 ? n : read_dropins(arena_printf(a, "%s.d", path), a, out, mistakes);
	if (rc >= 0 && conf_spread(a, out) < 0) {
		buf_printf(mistakes, "%s\n", err_text());
		n++;
	}
	if (rc >= 0 && !buf_ok(mistakes))
		rc = fail(E_NOMEM, "no memory for the mistakes");
	return rc < 0 ? rc : n + rc;
}
