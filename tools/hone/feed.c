/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/feed.h"
#include "kernels/onnx/look.h"
#include "platform/base/log.h"
#include "platform/base/near.h"
#include "platform/base/shell.h"
#include "agent/cache/json.h"
#include "tools/hone/feed_file.h"
#include "tools/hone/output.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* "camera f32 1x3x66x200, ..." */
static void list_inputs(const struct graph *g, struct buf *out)
{
	for (int i = 0; i < g->ninputs; i++) {
		const struct value *v = &g->value[g->input[i]];
		char shape[160];
		shape_text(&v->t.shape, shape);
		buf_printf(out, "%s%s %s %s", i ? ", " : "", v->name, dtype_name(v->t.dtype), shape);
	}
}

/* Finds the input NAME of NAME=FILE; a model with one input needs no NAME. */
static int find_input(const struct graph *g, const char *word, const char **file)
{
	const char *eq = strchr(word, '=');
	for (int i = 0; eq && i < g->ninputs; i++) {
		const char *name = g->value[g->input[i]].name;
		if (strlen(name) == (size_t)(eq - word) && !strncmp(name, word, (size_t)(eq - word))) {
			*file = eq + 1;
			return i;
		}
	}
	*file = word;
	if (g->ninputs == 1 && (!eq || file_exists(word)))
		return 0;
	struct buf known = {0};
	char given[128];
	struct near near;
	snprintf(given, sizeof given, "%.*s", eq ? (int)(eq - word) : 0, word);
	near_begin(&near, given);
	for (int i = 0; i < g->ninputs && eq; i++)
		near_add(&near, g->value[g->input[i]].name);
	list_inputs(g, &known);
	int rc =
	    near.best ? fail(E_USAGE, "the model has no input '%s'; did you mean '%s'? Its inputs are: %s",
			     given, near.best, buf_str(&known))
	    : eq ? fail(E_USAGE, "the model has no input '%s'; its inputs are: %s", given, buf_str(&known))
		 : fail(E_USAGE, "--input %s: write NAME=FILE; the model's inputs are: %s", word,
			buf_str(&known));
	buf_free(&known);
	return rc;
}

/* Operators such as Relu may hide a NaN, so that an output looks like an answer: told also with -q. Returns
 * how many values are not finite. */
static int64_t warn_of_special(const char *name, const char *file, const struct tensor *t)
{
	int64_t special = 0, n = shape_count(&t->shape);
	for (int64_t i = 0; i < n && (t->dtype == DT_F32 || t->dtype == DT_F64); i++)
		special += !isfinite(tensor_get(t, i));
	if (special)
		log_notice("hone: warning: %s: %lld of the %lld values for input '%s' are NaN or infinite; "
			   "outputs may hide that",
			   file, (long long)special, (long long)n, name);
	return special;
}

static int take_input(const struct args *a, struct ready *r, const char *file, int i, bool *given)
{
	const struct value *v = &r->g->value[r->g->input[i]];
	struct tensor t;
	if (given[i])
		return fail(E_USAGE, "--input gives '%s' twice", v->name);
	int rc = feed_file(a, &r->arena, file, v->name, &v->t, &t);
	if (rc < 0)
		return rc;
	if ((rc = feed_fits(v, file, &t)) < 0)
		return rc;
	r->not_finite += warn_of_special(v->name, file, &t);
	r->in[i] = t;
	given[i] = true;
	return 0;
}

static int read_input(const struct args *a, struct ready *r, const char *word, bool *given)
{
	const char *file;
	int i = find_input(r->g, word, &file);
	return i < 0 ? i : take_input(a, r, file, i, given);
}

/* Input K of a folder of ONNX's tests: the one that the file names, else the K-th. */
static int set_input(const struct graph *g, const char *name, int k)
{
	for (int i = 0; i < g->ninputs; i++)
		if (!strcmp(g->value[g->input[i]].name, name))
			return i;
	return k;
}

static int read_set(const struct args *a, struct ready *r, const char *dir, bool *given)
{
	const struct graph *g = r->g;
	const char *file;
	for (int k = 0; k < FEED_SET_MOST && (file = feed_set_file(&r->arena, dir, k)); k++) {
		struct tensor t;
		char name[256];
		int rc = tensor_read(&r->arena, file, &t, name), i = rc < 0 ? 0 : set_input(g, name, k);
		if (rc >= 0 && i >= g->ninputs)
			rc = fail(E_USAGE, "%s is for input '%s', and the model has %d input%s", file, name,
				  g->ninputs, plural_s(g->ninputs));
		if (rc >= 0)
			rc = take_input(a, r, file, i, given);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

int feed_inputs(const struct args *a, struct ready *r)
{
	const struct graph *g = r->g;
	const char *const *word;
	int n = arg_list(a, "input", &word);
	bool *given = ARENA_ARRAY(&r->arena, bool, g->ninputs + 1);
	int checked = feed_check(a, word, n);
	if (checked < 0)
		return checked;
	for (int i = 0; i < n; i++) {
		int rc =
		    feed_is_set(word[i]) ? read_set(a, r, word[i], given) : read_input(a, r, word[i], given);
		if (rc < 0)
			return rc;
	}
	for (int i = 0; i < g->ninputs; i++)
		if (!given[i] && !arg_flag(a, "random")) {
			struct buf known = {0};
			list_inputs(g, &known);
			int rc =
			    fail(E_USAGE,
				 "no file for input '%s': --input NAME=FILE (.npy, .pb, .png or .jpg), or "
				 "--random; the "
				 "model's inputs are: %s",
				 g->value[g->input[i]].name, buf_str(&known));
			buf_free(&known);
			return rc;
		}
	return 0;
}

static bool has_free_size(const struct look_value *v)
{
	bool any = false;
	for (int i = 0; i < v->rank; i++)
		any |= v->dim[i].size < 0;
	return any;
}

static bool shape_given(const struct args *a, const char *name)
{
	const char *const *word;
	size_t len = strlen(name);
	for (int i = 0, n = arg_list(a, "shape", &word); i < n; i++)
		if (!strncmp(word[i], name, len) && word[i][len] == '=')
			return true;
	return false;
}

/* Appends " --shape WORD", unless it is there. */
static void add_shape(struct buf *out, const char *word)
{
	struct buf b = {0};
	buf_puts(&b, " --shape ");
	shell_word(&b, word);
	size_t n = b.n;
	const char *at = buf_str(out);
	while ((at = strstr(at, buf_str(&b))) != NULL && at[n] && at[n] != ' ')
		at += n;
	if (!at)
		buf_puts(out, buf_str(&b));
	buf_free(&b);
}

/* Whether each free size of the input has a name, by which --shape can give it. */
static bool all_named(const struct look_value *v)
{
	for (int i = 0; i < v->rank; i++)
		if (v->dim[i].size < 0 && !*v->dim[i].name)
			return false;
	return true;
}

/* Sizes that have a name are told by it, because several inputs may share it. */
static void add_free_sizes(const struct args *a, const struct look_value *v, const struct shape *s,
			   struct arena *arena, struct buf *out)
{
	char shape[160];
	shape_text(s, shape);
	if (!all_named(v) || v->rank != s->rank) {
		add_shape(out, arena_printf(arena, "%s=%s", v->name, shape));
		return;
	}
	for (int i = 0; i < v->rank; i++)
		if (v->dim[i].size < 0 && !shape_given(a, v->dim[i].name))
			add_shape(out, arena_printf(arena, "%s=%lld", v->dim[i].name, (long long)s->d[i]));
}

void feed_shapes(const struct args *a, const struct ready *r, struct buf *out)
{
	struct arena arena = {0};
	struct onnx_look look = {0};
	if (log_level() == LOG_QUIET) /* the next step is not shown, and the model may be large */
		return;
	if (!arg_given(a, "input") || !r->model.g || look_file(r->model.path, &arena, &look) < 0)
		look.nin = 0;
	for (int i = 0; i < look.nin; i++) {
		const char *name = look.in[i].name;
		int at = r->g->ninputs - 1;
		while (at >= 0 && strcmp(r->g->value[r->g->input[at]].name, name))
			at--;
		if (at < 0 || !has_free_size(&look.in[i]) || shape_given(a, name))
			continue;
		add_free_sizes(a, &look.in[i], &r->in[at].shape, &arena, out);
	}
	arena_free(&arena);
}

/* NAME.npy, with characters that a file name cannot hold replaced by _. If at > 0, the number is added to the
 * name. */
static char *file_name(struct arena *a, const char *name, int at, const char *ending)
{
	char *safe = arena_strdup(a, *name ? name : "output");
	for (char *p = safe; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			*p = '_';
	return at > 0 ? arena_printf(a, "%s-%d.%s", safe, at, ending)
		      : arena_printf(a, "%s.%s", safe, ending);
}

/* Names the file of output `at`, after those of the outputs before it. If the name is taken already, the
 * output's number is added. */
static int name_file(struct arena *a, const struct graph *g, const char **file, int at, const char *ending)
{
	const char *name = g->value[g->output[at]].name;
	for (int number = 0, taken = -1;; number = at) {
		file[at] = file_name(a, name, number, ending);
		taken = -1;
		for (int i = 0; i < at && taken < 0; i++)
			if (!strcmp(file[i], file[at]))
				taken = i;
		if (taken < 0)
			return E_OK;
		if (number == at)
			return fail(E_UNSUPPORTED,
				    "outputs '%s' and '%s' would both be written to %s; rename one",
				    g->value[g->output[taken]].name, name, file[at]);
	}
}

/* Names every file before the first one is written, so that an error leaves no files behind. */
static int name_files(struct arena *a, const struct graph *g, const char *ending, const char ***out)
{
	const char **file = *out = ARENA_ARRAY(a, const char *, g->noutputs + 1);
	for (int i = 0; i < g->noutputs; i++) {
		int rc = name_file(a, g, file, i, ending);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

/* Nothing at the beginning of a .pb tells a tensor from other messages, so the whole file must be a tensor of
 * the output's name. */
static int check_old(const struct args *a, const char *path, const char *name)
{
	struct arena arena = {0};
	struct tensor t;
	char old[256];
	int rc = output_in(a, path, arg_flag(a, "pb") ? OUTPUT_ANY : OUTPUT_NPY);
	if (rc == 1 && arg_flag(a, "pb") &&
	    (tensor_read(&arena, path, &t, old) < 0 || strncmp(old, name, sizeof old - 1) != 0))
		rc = output_foreign(a, path, "folder");
	arena_free(&arena);
	return rc;
}

int feed_check_outputs(const struct args *a, struct ready *r, const char *dir)
{
	const char **file;
	int rc = file_can_mkdirs(dir);
	if (rc >= 0)
		rc = name_files(&r->arena, r->g, arg_flag(a, "pb") ? "pb" : "npy", &file);
	for (int i = 0; i < r->g->noutputs && rc >= 0; i++)
		rc = check_old(a, arena_printf(&r->arena, "%s/%s", dir, file[i]),
			       r->g->value[r->g->output[i]].name);
	return rc < 0 ? rc : E_OK;
}

static json_t *shape_json(const struct shape *s)
{
	json_t *j = json_array();
	for (int i = 0; i < s->rank; i++)
		json_array_append_new(j, json_integer(s->d[i]));
	return j;
}

int feed_outputs(const struct args *a, struct ready *r, const char *dir, json_t *list)
{
	const struct graph *g = r->g;
	const char **file;
	int rc = name_files(&r->arena, g, arg_flag(a, "pb") ? "pb" : "npy", &file);
	if (rc >= 0 && dir)
		rc = file_mkdirs(dir, 0755);
	for (int i = 0; i < g->noutputs && rc >= 0; i++) {
		const struct tensor *t = &r->out[i];
		const char *name = g->value[g->output[i]].name;
		char *path = dir ? arena_printf(&r->arena, "%s/%s", dir, file[i]) : NULL, shape[160];
		rc = path ? tensor_write(path, t, name) : E_OK;
		shape_text(&t->shape, shape);
		if (rc >= 0 && path && !a->json)
			log_info("%s: %s %s in %s", name, dtype_name(t->dtype), shape, path);
		json_array_append_new(list, json_pack("{so so ss so}", "name", json_text(name), "shape",
						      shape_json(&t->shape), "dtype", dtype_name(t->dtype),
						      "file", path ? json_text(path) : json_null()));
	}
	return rc;
}
