/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/feed_shape.h"
#include "kernels/onnx/look.h"
#include "platform/base/near.h"
#include "platform/base/shell.h"
#include "tools/hone/feed_file.h"
#include "tools/hone/given_sizes.h"
#include "tools/hone/picture.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Shapes and files that the user gave. */
struct given {
	const struct args *a;
	const struct import_bind *bind; /* of --shape */
	int n;
	struct arena *arena;
};

int feed_shape_most(const struct args *a)
{
	const char *const *input;
	return arg_has(a, "input") ? arg_list(a, "input", &input) * FEED_SET_MOST : 0;
}

static const char *bound(const struct given *g, const char *name)
{
	for (int i = 0; i < g->n; i++)
		if (*name && !strcmp(g->bind[i].name, name))
			return g->bind[i].value;
	return NULL;
}

static bool may_be_channels(const struct look_dim *d)
{
	return d->size < 0 || d->size == 1 || d->size == 3;
}

static bool are_channels(const struct look_dim *d)
{
	return d->size == 1 || d->size == 3 ||
	       (d->size < 0 && (strcasestr(d->name, "channel") || !strcasecmp(d->name, "c")));
}

/* Returns which of three axes has the channels: 0 or 2; -1: nothing says it. */
static int channel_axis(const struct look_dim *d, enum picture_layout layout)
{
	if (layout != LAYOUT_BY_SHAPE)
		return layout == LAYOUT_NCHW ? 0 : 2;
	if (are_channels(&d[0]) || are_channels(&d[2]))
		return are_channels(&d[0]) ? 0 : 2;
	return !may_be_channels(&d[2]) ? 0 : !may_be_channels(&d[0]) ? 2 : -1;
}

static int no_axes(const struct look_value *v)
{
	struct buf name = {0};
	shell_word(&name, v->name);
	int rc = fail(E_USAGE,
		      "input '%.200s' leaves sizes free, and nothing says where the height and the width of a picture "
		      "belong: give --layout nchw or nhwc, or its shape, for example --shape %.200s=1x3x224x224",
		      v->name, buf_str(&name));
	buf_free(&name);
	return rc;
}

/* Whether sizes of a picture's input are free, apart from a batch size. */
static bool is_free(const struct look_value *v)
{
	bool any = false;
	for (int i = v->rank == 4; i < v->rank; i++)
		any |= v->dim[i].size < 0;
	return any && v->rank >= 2 && v->rank <= 4;
}

/* Gives the free dimensions of a picture's input their sizes. */
static int picture_shape(struct look_value *v, const struct picture_opts *o, const struct picture *p)
{
	const int batch = v->rank == 4;
	struct look_dim *d = v->dim + batch;
	int c = v->rank == 2 ? -1 : channel_axis(d, o->layout), h = c == 0;
	if (v->rank > 2 && c < 0)
		return no_axes(v);
	if (batch && v->dim[0].size < 0)
		v->dim[0].size = 1;
	if (c >= 0 && d[c].size < 0)
		d[c].size = o->channels == CHANNELS_GRAY ? 1 : 3;
	if (d[h].size < 0)
		d[h].size = o->h > 0 ? o->h : p->h;
	if (d[h + 1].size < 0)
		d[h + 1].size = o->w > 0 ? o->w : p->w;
	return 1;
}

static struct look_value *find_input(const struct onnx_look *l, const char *name)
{
	for (int i = 0; i < l->nin; i++)
		if (!strcmp(l->in[i].name, name) || (!*name && l->nin == 1))
			return &l->in[i];
	return NULL;
}

/* Adds a bind if the input has free sizes; name "": the model's only input. Returns how many were added. */
static int add_picture(const struct given *g, const char *file, const char *name, struct import_bind *out)
{
	struct arena scratch = {0};
	struct onnx_look look = {0};
	struct picture_opts o;
	struct picture p;
	struct buf shape = {0};
	int rc = 0;
	if (look_file(g->a->pos[0], &scratch, &look) < 0)
		look.nin = 0; /* the import reports it */
	given_sizes(&look, g->bind, g->n);
	struct look_value *v = find_input(&look, name);
	const bool wanted = v && !bound(g, v->name) && is_free(v);
	if (wanted)
		rc = picture_opts_read(g->a, &o);
	if (wanted && rc >= 0)
		rc = picture_read(&scratch, file, &p);
	if (wanted && rc >= 0)
		rc = picture_shape(v, &o, &p);
	for (int i = 0; rc > 0 && i < v->rank; i++)
		buf_printf(&shape, "%s%lld", i ? "x" : "", (long long)v->dim[i].size);
	if (rc > 0)
		*out = (struct import_bind){name, arena_strdup(g->arena, buf_str(&shape)), true};
	buf_free(&shape);
	arena_free(&scratch);
	return rc;
}

static bool any_free(const struct look_value *v)
{
	bool any = !v->ranked;
	for (int i = 0; i < v->rank; i++)
		any |= v->dim[i].size < 0;
	return any;
}

/* "ids i64 batch x 8"; ? is a free size without a name. */
static void value_words(const struct look_value *v, struct buf *out)
{
	buf_printf(out, "%s %s", v->name, v->type);
	for (int i = 0; i < v->rank; i++) {
		const struct look_dim *d = &v->dim[i];
		buf_puts(out, i ? " x " : " ");
		if (d->size >= 0)
			buf_printf(out, "%lld", (long long)d->size);
		else
			buf_puts(out, *d->name ? d->name : "?");
	}
}

static int no_input(const struct onnx_look *l, const char *file, const char *name)
{
	struct buf known = {0};
	struct near near;
	near_begin(&near, name);
	for (int i = 0; i < l->nin; i++) {
		buf_puts(&known, i ? ", " : "");
		value_words(&l->in[i], &known);
		near_add(&near, l->in[i].name);
	}
	int rc =
	    !*name ? fail(E_USAGE, "--input %s: write NAME=FILE; the model's inputs are: %s", file,
			  buf_str(&known))
	    : near.best
		? fail(E_USAGE, "the model has no input '%s'; did you mean '%s'? Its inputs are: %s", name,
		       near.best, buf_str(&known))
		: fail(E_USAGE, "the model has no input '%s'; its inputs are: %s", name, buf_str(&known));
	buf_free(&known);
	return rc;
}

static int wrong_rank(const struct look_value *v, const char *file, const struct tensor *t)
{
	char shape[160];
	struct buf wanted = {0};
	shape_text(&t->shape, shape);
	value_words(v, &wanted);
	int rc =
	    fail(E_USAGE, "%s is %s %s, of %d dimension%s; its input has %d: %s", file, dtype_name(t->dtype),
		 shape, t->shape.rank, plural_s(t->shape.rank), v->rank, buf_str(&wanted));
	buf_free(&wanted);
	return rc;
}

/* A file that does not give the free sizes of its input is an error here, because the import would ask for
 * these sizes. read: the result of reading it into t. Other files are checked once the model is imported. */
static int check_free(const struct given *g, const char *file, const char *name, const struct tensor *t,
		      int read)
{
	struct arena scratch = {0};
	struct onnx_look look = {0};
	char why[1024];
	snprintf(why, sizeof why, "%s", read < 0 ? err_text() : "");
	if (look_file(g->a->pos[0], &scratch, &look) < 0)
		look.nin = 0; /* the import reports it */
	given_sizes(&look, g->bind, g->n);
	bool any = false;
	for (int i = 0; i < look.nin; i++)
		any |= any_free(&look.in[i]);
	const struct look_value *v = find_input(&look, name);
	int rc = E_OK;
	if (any && !v)
		rc = no_input(&look, file, name);
	else if (any && any_free(v) && read < 0)
		rc = fail(read, "%s", why);
	else if (any && v->ranked && v->rank != t->shape.rank && any_free(v))
		rc = wrong_rank(v, file, t);
	arena_free(&scratch);
	return rc;
}

/* Adds the shape of a tensor's file, if it can be read. name NULL: the one that the file gives. Returns how
 * many were added. */
static int add_tensor(const struct given *g, const char *file, const char *name, struct import_bind *out)
{
	char shape[160], its[256] = "";
	struct arena scratch = {0};
	struct tensor t = {.dtype = DT_NONE};
	int rc = tensor_read(&scratch, file, &t, its);
	int fits = name ? check_free(g, file, name, &t, rc) : E_OK;
	if (rc >= 0 && fits >= 0) {
		shape_text(&t.shape, shape);
		*out = (struct import_bind){arena_strdup(g->arena, name ? name : its),
					    arena_strdup(g->arena, shape), true};
	}
	arena_free(&scratch);
	return fits < 0 ? fits : rc >= 0;
}

/* word: NAME=FILE, FILE, or a folder of ONNX's tests. */
static int add_word(const struct given *g, const char *word, struct import_bind *out)
{
	const char *eq = strchr(word, '='), *file;
	const bool bare = !eq || file_exists(word);
	const char *name = bare ? "" : arena_strndup(g->arena, word, (size_t)(eq - word));
	int n = 0;
	if (feed_is_set(word)) {
		for (int k = 0; k < FEED_SET_MOST && (file = feed_set_file(g->arena, word, k)); k++)
			n += add_tensor(g, file, NULL, &out[n]);
		return n;
	}
	file = bare ? word : eq + 1;
	return picture_is(file) ? add_picture(g, file, name, out) : add_tensor(g, file, name, out);
}

int feed_shape_binds(const struct args *a, struct arena *arena, struct import_bind *bind, int n)
{
	const struct given g = {a, bind, n, arena};
	const char *const *input;
	int words = arg_has(a, "input") ? arg_list(a, "input", &input) : 0, added = 0;
	for (int i = 0; i < words; i++) {
		int rc = add_word(&g, input[i], bind + n + added);
		if (rc < 0)
			return rc;
		added += rc;
	}
	return added;
}
