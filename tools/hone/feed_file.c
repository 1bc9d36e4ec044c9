/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/feed_file.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "platform/base/shell.h"
#include "tools/hone/picture.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Returns numpy's name of a type; numpy reads "u8" as uint64. */
static const char *numpy_name(enum dtype t)
{
	static const char *const names[] = {
	    [DT_F32] = "float32", [DT_F64] = "float64", [DT_F16] = "float16", [DT_I8] = "int8",
	    [DT_U8] = "uint8",    [DT_I16] = "int16",   [DT_U16] = "uint16",  [DT_I32] = "int32",
	    [DT_U32] = "uint32",  [DT_I64] = "int64",   [DT_U64] = "uint64",  [DT_BOOL] = "bool",
	};
	const char *name = (size_t)t < sizeof names / sizeof *names ? names[t] : NULL;
	return name ? name : "float32"; /* an input is never bfloat16, which numpy has not */
}

static bool is_real(enum dtype t)
{
	return t == DT_F32 || t == DT_F64 || t == DT_F16 || t == DT_BF16;
}

/* "120x100", and what was made of it: ", resized to 40x32, of which the middle 32x32". */
static void tell_size(const struct picture *p, const struct picture_opts *o, const struct tensor *t,
		      struct buf *out)
{
	struct picture_fit f;
	buf_printf(out, "%dx%d", p->w, p->h);
	if (picture_fit(p, o, t, &f) < 0)
		return;
	const bool resized = f.w != p->w || f.h != p->h, cut = f.in_w < f.w || f.in_h < f.h;
	if (resized)
		buf_printf(out, ", resized to %dx%d", f.w, f.h);
	if (cut)
		buf_printf(out, ", of which the middle %dx%d is taken", f.in_w, f.in_h);
}

/* How a picture lies that is not turned, by its EXIF orientation. */
static const char *const turned[9] = {"as it is",
				      "as it is",
				      "mirrored",
				      "upside down",
				      "mirrored and upside down",
				      "mirrored and on its side",
				      "on its left side",
				      "mirrored and on its side",
				      "on its right side"};

static void tell(const char *path, const char *name, const struct picture *p, const struct picture_opts *o,
		 const struct tensor *t)
{
	double least = INFINITY, most = -INFINITY;
	char shape[160];
	struct buf size = {0};
	for (int64_t i = 0; i < shape_count(&t->shape); i++) {
		double v = tensor_get(t, i);
		least = fmin(least, v);
		most = fmax(most, v);
	}
	shape_text(&t->shape, shape);
	tell_size(p, o, t, &size);
	log_info("%s: %s, %s, as %s %s with values %.4g to %.4g%s", name, path, buf_str(&size),
		 dtype_name(t->dtype), shape, least, most,
		 is_real(t->dtype) && !o->nmean && !o->nscale ? "; --scale 1/255 makes them 0 to 1" : "");
	buf_free(&size);
	if (p->orientation > 1)
		log_info("%s: its EXIF orientation, %d, is not applied: the model gets the picture %s; "
			 "ImageOps.exif_transpose of Pillow turns it",
			 path, p->orientation, turned[p->orientation < 9 ? p->orientation : 0]);
	if (p->alpha)
		log_info("%s is transparent in parts, which is ignored: the model gets the colours below",
			 path);
}

/* Pixels are floats or bytes. */
static bool takes_pixels(enum dtype t)
{
	return t == DT_F32 || t == DT_F64 || t == DT_F16 || t == DT_BF16 || t == DT_U8 || t == DT_I8;
}

static int feed_picture(const struct args *a, struct arena *arena, const char *path, const char *name,
			const struct tensor *want, struct tensor *out)
{
	struct arena scratch = {0};
	struct picture p;
	struct picture_opts o;
	int rc = picture_opts_read(a, &o);
	if (rc >= 0 && !takes_pixels(want->dtype))
		rc = fail(E_USAGE,
			  "%s: input '%s' takes %s, as of tokens or indices, and no pixels: give it a "
			  "tensor, .npy or "
			  "ONNX .pb",
			  path, name, dtype_name(want->dtype));
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

/* float64, which numpy makes by default, or halves, which a model of halves names, as float32. */
static int to_float(struct arena *arena, const char *path, const char *name, struct tensor *t)
{
	struct tensor from = *t;
	int rc = tensor_alloc(arena, DT_F32, &from.shape, t);
	if (rc < 0)
		return rc;
	for (int64_t i = 0; i < shape_count(&from.shape); i++)
		((float *)t->data)[i] = (float)tensor_get(&from, i);
	if (from.dtype != DT_F64) {
		log_info("%s is %s; input '%s' gets the same numbers as float32, in which hone computes",
			 path, from.dtype == DT_F16 ? "float16" : "bfloat16", name);
		return E_OK;
	}
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
			 numpy_name(v->t.dtype));
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

/* Whether the word is a number; *whole: without a sign, a point or an exponent. */
static bool is_number(const char *word, bool *whole)
{
	char *end;
	*whole = word[strspn(word, "0123456789")] == 0;
	return isfinite(strtod(word, &end)) && end != word && !*end && !strpbrk(word, "xX");
}

/* Fails for a number in place of a file. */
static int fail_number(const char *word, const char *name, const struct tensor *want, bool whole)
{
	const struct shape *s = &want->shape;
	const bool integer = want->dtype == DT_I64 || want->dtype == DT_I32 || want->dtype == DT_BOOL;
	struct buf quoted = {0}, made = {0};
	int rc;
	shell_word(&quoted, name);
	if (s->rank || want->dtype == DT_BOOL) {
		buf_puts(&made, "full((");
		for (int i = 0; i < s->rank; i++)
			buf_printf(&made, "%lld,%s", (long long)s->d[i], i + 1 < s->rank ? " " : "");
		buf_printf(&made, "), %s, \"%s\")", word, numpy_name(want->dtype));
	} else {
		buf_printf(&made, "%s(%s)", numpy_name(want->dtype), word);
	}
	if (!s->rank && integer && whole)
		rc = fail(E_USAGE, "--input takes files: --shape %s=%s gives the scalar input its value",
			  buf_str(&quoted), word);
	else
		rc = fail(E_USAGE,
			  "--input takes files, and %s is none: in Python, np.save(\"input.npy\", np.%s) "
			  "makes one, and --input %s=input.npy gives it",
			  word, buf_str(&made), buf_str(&quoted));
	buf_free(&quoted);
	buf_free(&made);
	return rc;
}

/* Fails for a file of a kind that is not read. */
static int fail_kind(const char *path, const char *name, const struct tensor *want)
{
	static const char *const pictures[] = {".bmp", ".gif",  ".webp", ".tif",  ".tiff", ".ppm",
					       ".pgm", ".heic", ".heif", ".avif", ".jp2"};
	const char *dot = strrchr(path, '.'), *how = "";
	bool whole;
	if (!file_exists(path) && is_number(path, &whole))
		return fail_number(path, name, want, whole);
	for (size_t i = 0; dot && i < sizeof pictures / sizeof *pictures; i++)
		if (!strcasecmp(dot, pictures[i]))
			how = "; convert this picture to PNG";
	if (dot && !strcasecmp(dot, ".npz"))
		how = "; an .npz holds several arrays: save one of them as .npy, in Python with "
		      "np.save(\"input.npy\", np.load(\"file.npz\")[\"array\"])";
	return fail(E_USAGE, "%s: an input is a tensor, .npy or ONNX .pb, or a picture, .png or .jpg%s", path,
		    how);
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
		return fail_kind(path, name, want);
	int rc = tensor_read(arena, path, out, NULL);
	if (rc >= 0 && want->dtype == DT_F32 && out->dtype != DT_F32 && is_real(out->dtype))
		rc = to_float(arena, path, name, out);
	return rc;
}
