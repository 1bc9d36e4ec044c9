/* SPDX-License-Identifier: Apache-2.0 */
/* Free dimensions of inputs: those without a number in the file. Only a batch size has a default, 1; the
 * sizes of the others are the caller's to give, because no default is right: a text detector of size 1x3x1x1
 * imports without an error, and what is tuned then is of no use.
 *
 * A batch size is a dimension whose name says so ("batch_size"), or the first one of an input with two or
 * more dimensions whose others are known, unless its name says that it is something else ("seq_len"). */
#include "kernels/onnx/import_parts.h"
#include "platform/base/shell.h"
#include <stdio.h>
#include <string.h>

enum { MOST_NAMED = 8 }; /* inputs that a message names */

static bool holds(const char *name, const char *part)
{
	size_t n = strlen(part);
	for (; *name; name++)
		if (!strncasecmp(name, part, n))
			return true;
	return false;
}

static bool one_of(const char *name, const char *const *list)
{
	while (*list && strcasecmp(name, *list))
		list++;
	return *list != NULL;
}

static bool named_batch(const char *name, bool first)
{
	static const char *const letters[] = {"n", "b", "bs", "bsz", NULL};
	return holds(name, "batch") || (first && one_of(name, letters));
}

static bool named_otherwise(const char *name)
{
	static const char *const parts[] = {"seq",   "len",    "time",  "frame",   "height",
					    "width", "sample", "token", "channel", NULL};
	static const char *const letters[] = {"h", "w", "c", "t", "s", "l", NULL};
	for (int i = 0; parts[i]; i++)
		if (holds(name, parts[i]))
			return true;
	return one_of(name, letters);
}

/* A size for the example: that of an image in the places of an image's height and width, and a second of
 * sound. */
static int64_t example(const struct free_shape *f, int i)
{
	bool image = f->s.rank == 4, last = image && f->s.d[3] > 0 && f->s.d[3] <= 4; /* nhwc */
	if (i == 0)
		return 1;
	if (image && i == (last ? 3 : 1))
		return 3;
	if (f->s.rank == 3 && i == 1 && f->s.d[0] > 0) /* a recurrent network's state: layers, batch, units */
		return 1;
	if (f->name[i] && (holds(f->name[i], "sample") || holds(f->name[i], "audio")))
		return 16000; /* of sound, in a second */
	return image ? 224 : 128;
}

/* "1x3x224x224". */
static void put_example(struct buf *b, const struct free_shape *f)
{
	for (int i = 0; i < f->s.rank; i++) {
		buf_puts(b, i ? "x" : "");
		buf_printf(b, "%lld", (long long)(f->s.d[i] >= 0 ? f->s.d[i] : example(f, i)));
	}
}

/* "[batch, 3, ?, ?]". */
static void put_dims(struct buf *b, const struct free_shape *f)
{
	for (int i = 0; i < f->s.rank; i++) {
		buf_puts(b, i ? ", " : "[");
		if (f->s.d[i] >= 0)
			buf_printf(b, "%lld", (long long)f->s.d[i]);
		else
			buf_printf(b, "%.60s", f->name[i] && *f->name[i] ? f->name[i] : "?");
	}
	buf_puts(b, "]");
}

/* Notes an input whose batch size is taken as 1. */
static void note_batch(struct importer *im, const char *input, const struct free_shape *f)
{
	struct buf *b = im->o->notes;
	if (!b || im->nbatch++ >= MOST_NAMED)
		return;
	buf_printf(b, b->n ? ", " : "the model leaves its batch size free, so 1 is taken: input ");
	buf_printf(b, "'%.100s' is ", input);
	put_dims(b, f);
}

void import_replace(struct importer *im, const char *input, const struct free_shape *f,
		    const struct shape *given)
{
	char text[160];
	if (im->nreplaced++ >= MOST_NAMED)
		return;
	shape_text(given, text);
	buf_printf(&im->replaced, "%s%s for input '%.100s', which is ", im->replaced.n ? ", " : "", text,
		   input);
	put_dims(&im->replaced, f);
}

/* " and 3 more" behind a list of n inputs. */
static const char *and_more(int n, char out[32])
{
	out[0] = 0;
	if (n > MOST_NAMED)
		snprintf(out, 32, " and %d more", n - MOST_NAMED);
	return out;
}

static const char replace_words[] = "given sizes replace those that the model fixes: ";

int import_replace_explain(const struct importer *im, int rc)
{
	char more[32];
	if (im->nreplaced && rc < 0)
		return fail_in(rc == E_CORRUPT ? E_USAGE : rc, "%s%s%s", replace_words,
			       buf_str(&im->replaced), and_more(im->nreplaced, more));
	struct buf given = {0};
	for (int i = 0; i < im->o->nbinds && rc == E_CORRUPT; i++) {
		const struct import_bind *b = &im->o->binds[i];
		if (!im->bind_used[i])
			continue;
		buf_puts(&given, given.n ? " or " : "");
		if (IMPORT_FILES && b->weak)
			buf_printf(&given, "the shape %.100s of the file for %s%.100s%s", b->value,
				   *b->name ? "input '" : "the input", b->name, *b->name ? "'" : "");
		else
			buf_printf(&given, "%s%.100s=%.100s", import_shape_option(im), b->name, b->value);
	}
	if (given.n)
		rc = fail_in(E_USAGE, "%s may be a size that the model does not work with", buf_str(&given));
	buf_free(&given);
	return rc;
}

const char *import_shape_option(const struct importer *im)
{
	return im->o->shape_option ? im->o->shape_option : "--shape ";
}

void import_shape_for(const struct importer *im, const char *input, struct buf *out)
{
	char name[201]; /* names come from the file and may be of any length */
	snprintf(name, sizeof name, "%s", input);
	buf_puts(out, import_shape_option(im));
	if (im->o->shape_option)
		buf_puts(out, name);
	else
		shell_word(out, name);
	buf_puts(out, "=");
}

/* Adds the input to the error's list, and to the command that it shows. */
static void ask_for(struct importer *im, const char *input, const struct free_shape *f)
{
	if (im->nfree++ >= MOST_NAMED)
		return;
	buf_printf(&im->free, "%sinput '%.100s' is ", im->free.n ? ", " : "", input);
	put_dims(&im->free, f);
	const char *option = im->o->shape_option, *colon = option ? strstr(option, ": ") : NULL;
	bool another = option && im->give.n;
	buf_puts(&im->give, another ? " and " : " ");
	if (another)
		buf_printf(&im->give, "%s%.200s=", colon ? colon + 2 : "", input);
	else
		import_shape_for(im, input, &im->give);
	put_example(&im->give, f);
}

static bool batch_at(const struct free_shape *f, int i)
{
	return f->s.d[i] < 0 && named_batch(f->name[i] ? f->name[i] : "", i == 0);
}

/* Whether the first dimension is a batch size because the other ones are known. */
static bool first_is_batch(const struct free_shape *f)
{
	bool known = f->s.rank > 1 && f->s.d[0] < 0 && !named_otherwise(f->name[0] ? f->name[0] : "");
	for (int i = 1; i < f->s.rank; i++)
		known = known && (f->s.d[i] >= 0 || batch_at(f, i));
	return known;
}

void import_free(struct importer *im, const char *input, struct free_shape *f)
{
	bool first = first_is_batch(f), defaults = false, unknown = false;
	for (int i = 0; i < f->s.rank; i++) {
		bool batch = batch_at(f, i) || (first && i == 0);
		defaults |= batch;
		unknown |= f->s.d[i] < 0 && !batch;
	}
	if (unknown) {
		ask_for(im, input, f);
	} else if (defaults) {
		note_batch(im, input, f);
	}
	for (int i = 0; i < f->s.rank; i++) /* the error of import_free_finish covers the unknown ones */
		f->s.d[i] = f->s.d[i] < 0 ? 1 : f->s.d[i];
}

int import_free_finish(struct importer *im)
{
	struct buf *b = im->o->notes;
	char more[32];
	if (b && im->nbatch)
		buf_printf(b, "%s; %sNAME=DIMS gives another size", and_more(im->nbatch, more),
			   import_shape_option(im));
	if (b && im->nreplaced)
		buf_printf(b, "%s%s%s%s", b->n ? "; " : "", replace_words, buf_str(&im->replaced),
			   and_more(im->nreplaced, more));
	if (!im->nfree)
		return E_OK;
	return fail(E_USAGE, IMPORT_LEAVES_FREE "%s%s; give the sizes that you use, for example%s",
		    buf_str(&im->free), and_more(im->nfree, more), buf_str(&im->give));
}
