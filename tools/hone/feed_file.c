/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/feed_file.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "platform/base/shell.h"
#include "tools/hone/picture.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_real(enum dtype t)
{
	return t == DT_F32 || t == DT_F64 || t == DT_F16 || t == DT_BF16;
}

static void tell(const char *path, const char *name, const struct picture *p, const struct picture_opts *o,
		 const struct tensor *t)
{
	double least = INFINITY, most = -INFINITY;
	char shape[160];
	for (int64_t i = 0; i < shape_count(&t->shape); i++) {
		double v = tensor_get(t, i);
		least = fmin(least, v);
		most = fmax(most, v);
	}
	shape_text(&t->shape, shape);
	log_info("%s: %s, %dx%d, as %s %s with values %.4g to %.4g%s", name, path, p->w, p->h,
		 dtype_name(t->dtype), shape, least, most,
		 is_real(t->dtype) && !o->nmean && !o->nscale ? "; --scale 1/255 makes them 0 to 1" : "");
	if (p->alpha)
		log_info("%s is transparent in parts, which is ignored: the model gets the colours below",
			 path);
}

static int feed_picture(const struct args *a, struct arena *arena, const char *path, const char *name,
			const struct tensor *want, struct tensor *out)
{
	struct arena scratch = {0};
	struct picture p;
	struct picture_opts o;
	int rc = picture_opts_read(a, &o);
	if (rc >= 0)
		rc = picture_read(&scratch, path, &p);
	if (rc >= 0)
		rc = tensor_alloc(arena, want->dtype, &want->shape, out);
	if (rc >= 0)
		rc = fail_in(picture_put(&p, &o, out), "%s for input '%s'", path, name);
	if (rc >= 0)
		tell(path, name, &p, &o, out);
	arena_free(&scratch);
	return rc;
}

/* float64, which numpy makes by default, as float32. */
static int narrow(struct arena *arena, const char *path, const char *name, struct tensor *t)
{
	struct tensor wide = *t;
	int rc = tensor_alloc(arena, DT_F32, &wide.shape, t);
	if (rc < 0)
		return rc;
	for (int64_t i = 0; i < shape_count(&wide.shape); i++)
		((float *)t->data)[i] = (float)((const double *)wide.data)[i];
	log_info(
	    "%s is float64 and becomes float32, the type of input '%s'; array.astype(\"float32\") in numpy "
	    "avoids that",
	    path, name);
	return E_OK;
}

/* Whether the sizes, in some order, are those of the other shape. */
static bool is_turned(const struct shape *a, const struct shape *b)
{
	bool taken[MAX_RANK] = {false};
	int found = 0;
	for (int i = 0; i < a->rank && a->rank == b->rank; i++)
		for (int k = 0; k < b->rank; k++)
			if (!taken[k] && a->d[i] == b->d[k]) {
				taken[k] = true;
				found++;
				break;
			}
	return found == a->rank && a->rank == b->rank;
}

/* Whether the shape is the other one without its first size, which is 1. */
static bool lacks_batch(const struct shape *a, const struct shape *want)
{
	return want->rank == a->rank + 1 && want->d[0] == 1 &&
	       !memcmp(a->d, want->d + 1, sizeof *a->d * (size_t)a->rank);
}

int feed_fits(const struct value *v, const char *file, const struct tensor *t)
{
	if (t->dtype == v->t.dtype && shape_equal(&t->shape, &v->t.shape))
		return E_OK;
	char want[160], got[160], how[400] = "";
	struct buf name = {0};
	shape_text(&v->t.shape, want);
	shape_text(&t->shape, got);
	shell_word(&name, v->name);
	if (shape_equal(&t->shape, &v->t.shape))
		snprintf(how, sizeof how, "; array.astype(\"%s\") in numpy converts it",
			 v->t.dtype == DT_F32 ? "float32" : dtype_name(v->t.dtype));
	else if (lacks_batch(&t->shape, &v->t.shape))
		snprintf(how, sizeof how, "; array[None] in numpy adds the batch axis");
	else if (is_turned(&t->shape, &v->t.shape))
		snprintf(how, sizeof how, "; array.transpose(...) in numpy orders the axes");
	else if (t->shape.rank == v->t.shape.rank)
		snprintf(how, sizeof how, " (a model with free sizes: --shape %.200s=%s)", buf_str(&name),
			 got);
	buf_free(&name);
	return fail(E_USAGE, "%s is %s %s; input '%s' is %s %s%s", file, dtype_name(t->dtype), got, v->name,
		    dtype_name(v->t.dtype), want, how);
}

int feed_check(const struct args *a, const char *const *word, int n)
{
	static const char *const names[] = {"resize", "mean", "scale", "layout", "channels"};
	for (int i = 0; i < n; i++)
		if (picture_is(word[i]))
			return E_OK;
	for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
		if (arg_given(a, names[i]))
			return fail(
			    E_USAGE,
			    "--%s is for pictures, and no --input is a .png or .jpg (other formats, such "
			    "as BMP, are not read: convert the picture to PNG)",
			    names[i]);
	return E_OK;
}

const char *feed_set_file(struct arena *arena, const char *dir, int k)
{
	const char *pb = arena_printf(arena, "%s/input_%d.pb", dir, k);
	const char *npy = arena_printf(arena, "%s/input_%d.npy", dir, k);
	return file_exists(pb) ? pb : file_exists(npy) ? npy : NULL;
}

bool feed_is_set(const char *path)
{
	struct arena scratch = {0};
	bool is = file_is_dir(path) && feed_set_file(&scratch, path, 0);
	arena_free(&scratch);
	return is;
}

/* The first by name of what may be an input in a folder: a file, or a folder of ONNX's tests. NULL: none. */
static const char *first_in(struct arena *arena, const char *dir)
{
	enum { MOST = 100000 };
	const char *first = NULL;
	DIR *d = opendir(dir);
	int n = 0;
	for (const struct dirent *e; d && n < MOST && (e = readdir(d)); n++) {
		const char *path = arena_printf(arena, "%s/%s", dir, e->d_name);
		bool is = file_ends_with(path, ".npy") || file_ends_with(path, ".pb") || picture_is(path) ||
			  feed_is_set(path);
		if (e->d_name[0] != '.' && is && (!first || strcmp(path, first) < 0))
			first = path;
	}
	if (d)
		closedir(d);
	return first;
}

static int fail_folder(struct arena *arena, const char *path, const char *name)
{
	const char *first = first_in(arena, path);
	return fail(
	    E_USAGE,
	    "%s is a folder: name a file for input '%s' (.npy, .pb, .png or .jpg)%s%s, or, without a name, "
	    "a folder with input_0.pb as ONNX's tests have it, or input_0.npy",
	    path, name, first ? ", as " : "", first ? first : "");
}

int feed_file(const struct args *a, struct arena *arena, const char *path, const char *name,
	      const struct tensor *want, struct tensor *out)
{
	if (!*path)
		return fail(E_USAGE, "no file is named for input '%s': --input %s=FILE", name, name);
	if (file_is_dir(path))
		return fail_folder(arena, path, name);
	if (picture_is(path))
		return feed_picture(a, arena, path, name, want, out);
	if (!file_ends_with(path, ".npy") && !file_ends_with(path, ".pb"))
		return fail(E_USAGE, "%s: an input is a tensor, .npy or ONNX .pb, or a picture, .png or .jpg",
			    path);
	int rc = tensor_read(arena, path, out, NULL);
	if (rc >= 0 && out->dtype == DT_F64 && want->dtype == DT_F32)
		rc = narrow(arena, path, name, out);
	return rc;
}
