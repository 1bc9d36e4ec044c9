/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/examples.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "tools/hone/feed_file.h"
#include "tools/hone/model.h"
#include "tools/hone/picture.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ENTRIES = 1 << 20, ENDINGS = 5 };
static const char *const endings[ENDINGS] = {"npy", "pb", "png", "jpg", "jpeg"};

/* Examples being read. */
struct reading {
	const struct args *a;
	const struct graph *g;
	struct arena *arena;
	const char *dir;
	int most, n;
	struct quantize_example *example;
};

static bool is_tensor(const char *name)
{
	return file_ends_with(name, ".npy") || file_ends_with(name, ".pb");
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists the sorted paths of a folder's files or folders, whose names do not begin with a dot. */
static int list_folder(const struct reading *r, bool folders, char ***out)
{
	DIR *d = opendir(r->dir);
	int n = 0, cap = 0;
	char **path = NULL;
	if (!d)
		return fail(E_NOTFOUND,
			    "cannot read the folder %s: --data DIR names a folder with examples of inputs",
			    r->dir);
	for (struct dirent *e; n < MOST_ENTRIES && (e = readdir(d));) {
		const char *name = arena_printf(r->arena, "%s/%s", r->dir, e->d_name);
		bool folder = file_is_dir(name);
		if (e->d_name[0] == '.' || folder != folders ||
		    (!folder && !is_tensor(name) && !picture_is(name)))
			continue;
		if (n == cap) {
			cap = cap ? 2 * cap : 64;
			char **more = ARENA_ARRAY(r->arena, char *, cap);
			if (n)
				memcpy(more, path, sizeof *more * (size_t)n);
			path = more;
		}
		path[n++] = arena_strdup(r->arena, name);
	}
	closedir(d);
	if (n)
		qsort(path, (size_t)n, sizeof *path, by_name);
	*out = path;
	return n;
}

/* ---- one tensor ---- */

/* Reads a file for input i. Of many pictures, only the first is described. */
static int read_file(const struct reading *r, const char *path, int i, struct tensor *out)
{
	const struct value *v = &r->g->value[r->g->input[i]];
	enum log_level level = log_level();
	if (r->n && level == LOG_NORMAL)
		log_level_set(LOG_QUIET);
	int rc = feed_file(r->a, r->arena, path, v->name, &v->t, out);
	log_level_set(level);
	return rc;
}

static void add_example(struct reading *r, const char *name, const struct tensor *in)
{
	r->example[r->n++] = (struct quantize_example){name, in};
}

/* ---- a file for each example ---- */

/* How many examples lie one behind the other in t; 1: it is one, or does not fit. */
static int64_t count_stacked(const struct tensor *t, const struct tensor *want)
{
	struct shape one = t->shape;
	if (one.rank < 1 || t->dtype != want->dtype || one.d[0] < 2)
		return 1;
	one.d[0] = 1;
	return shape_equal(&one, &want->shape) ? t->shape.d[0] : 1;
}

static int read_single(struct reading *r, const char *path)
{
	const struct tensor *want = &r->g->value[r->g->input[0]].t;
	struct tensor t;
	int rc = read_file(r, path, 0, &t);
	if (rc < 0)
		return rc;
	int64_t n = count_stacked(&t, want);
	size_t bytes = (size_t)shape_count(&want->shape) * dtype_bytes(want->dtype);
	if (n == 1 && (rc = feed_fits(&r->g->value[r->g->input[0]], path, &t)) < 0)
		return rc;
	for (int64_t i = 0; i < n && r->n < r->most; i++) {
		struct tensor *in = ARENA_NEW(r->arena, struct tensor);
		*in = (struct tensor){want->dtype, want->shape, (char *)t.data + (size_t)i * bytes};
		add_example(r, n > 1 ? arena_printf(r->arena, "%s[%d]", path, (int)i) : path, in);
	}
	return E_OK;
}

/* ---- a folder for each example ---- */

static int input_index(const struct graph *g, const char *name)
{
	for (int i = 0; i < g->ninputs; i++)
		if (!strcmp(g->value[g->input[i]].name, name))
			return i;
	return -1;
}

/* Reads input_K.pb, which may name the input that it is for, or input_K.npy. */
static int read_numbered(const struct reading *r, const char *dir, int k, struct tensor *in)
{
	char name[256] = "";
	struct tensor t;
	const char *path = feed_set_file(r->arena, dir, k);
	int rc = path ? tensor_read(r->arena, path, &t, name) : 0;
	if (rc < 0 || !path)
		return rc;
	int named = input_index(r->g, name), i = named >= 0 ? named : k;
	rc = read_file(r, path, i, &in[i]);
	return rc < 0 ? rc : feed_fits(&r->g->value[r->g->input[i]], path, &in[i]);
}

static int read_named(const struct reading *r, const char *dir, int i, struct tensor *in)
{
	const char *name = r->g->value[r->g->input[i]].name;
	for (int k = 0; k < ENDINGS; k++) {
		const char *path = arena_printf(r->arena, "%s/%s.%s", dir, name, endings[k]);
		if (!file_exists(path))
			continue;
		int rc = read_file(r, path, i, &in[i]);
		return rc < 0 ? rc : feed_fits(&r->g->value[r->g->input[i]], path, &in[i]);
	}
	return fail(E_NOTFOUND,
		    "%s has no file for input '%s': name it input_%d.pb (.npy) or %s.npy (.pb, .png, .jpg)",
		    dir, name, i, name);
}

static int read_set(struct reading *r, const char *dir)
{
	struct tensor *in = ARENA_ARRAY(r->arena, struct tensor, r->g->ninputs + 1);
	int rc = E_OK;
	for (int k = 0; k < r->g->ninputs && rc >= 0; k++)
		rc = read_numbered(r, dir, k, in);
	for (int i = 0; i < r->g->ninputs && rc >= 0; i++)
		if (!in[i].data)
			rc = read_named(r, dir, i, in);
	if (rc >= 0)
		add_example(r, dir, in);
	return rc;
}

/* ---- */

static int fail_empty(const struct reading *r)
{
	if (r->g->ninputs == 1)
		return fail(E_NOTFOUND,
			    "%s has no examples: put .npy, .pb, .png or .jpg files of input '%s' into it, or "
			    "folders such as test_data_set_0 with input_0.pb",
			    r->dir, r->g->value[r->g->input[0]].name);
	return fail(
	    E_NOTFOUND,
	    "%s has no examples: the model has %d inputs, so give each example a folder of its own, with "
	    "input_0.pb, ... or %s.npy, ...",
	    r->dir, r->g->ninputs, r->g->ninputs ? r->g->value[r->g->input[0]].name : "NAME");
}

/* Lists files that are an example each, else folders that are. */
static int list_examples(const struct reading *r, char ***path, bool *folders)
{
	int n = r->g->ninputs == 1 ? list_folder(r, false, path) : 0;
	*folders = n == 0;
	return n ? n : list_folder(r, true, path);
}

/* Whether the folder itself is one example. Of a model with one input, .npy files of any name are an example
 * each, unless an output lies beside them. */
static bool is_example(const struct reading *r)
{
	const char *first = feed_set_file(r->arena, r->dir, 0);
	return first && (file_ends_with(first, ".pb") || r->g->ninputs > 1 ||
			 file_exists(arena_printf(r->arena, "%s/output_0.npy", r->dir)));
}

int examples_read(const struct args *a, const char *dir, const struct graph *g, int most, struct arena *arena,
		  struct quantize_example **out)
{
	struct reading r = {.a = a, .g = g, .arena = arena, .dir = dir, .most = most};
	char **path = NULL;
	bool folders = true, single = is_example(&r);
	int n = single ? 1 : list_examples(&r, &path, &folders);
	r.example = *out = ARENA_ARRAY(arena, struct quantize_example, most + 1);
	for (int i = 0, taken = n < most ? n : most; i < taken && r.n < most; i++) {
		const char *p = single ? dir : path[(int64_t)i * n / taken];
		int rc = folders ? read_set(&r, p) : read_single(&r, p);
		if (rc < 0)
			return rc;
	}
	return n < 0 ? n : r.n ? r.n : fail_empty(&r);
}

int examples_random(const struct graph *g, int n, struct arena *arena, struct quantize_example **out)
{
	*out = ARENA_ARRAY(arena, struct quantize_example, n + 1);
	for (int i = 0; i < n; i++) {
		struct tensor *in;
		int rc = model_inputs(g, (uint64_t)i + 1, arena, &in);
		if (rc < 0)
			return rc;
		(*out)[i] = (struct quantize_example){arena_printf(arena, "random example %d", i), in};
	}
	return n;
}
