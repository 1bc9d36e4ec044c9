/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/onnx_case.h"
#include "kernels/graph/eval.h"
#include "kernels/onnx/import.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_TENSORS = 64, MAX_DEPTH = 16, MAX_DIRS = 100000, SMALL = 16 };

const struct case_gate case_gate_onnx = {1e-3, 1e-7, 2e-4, 1e-6};
const struct case_gate case_gate_fp32 = {0, 0, 2e-4, 1e-6};
const struct case_gate case_gate_w16 = {0, 0, 1e-2, 1e-6};
const struct case_gate case_gate_half = {0, 0, 2e-1, 1e-6};
const struct case_gate case_gate_pairs = {0, 0, 2e-2, 1e-6};
const struct case_gate case_gate_int8 = {0, 0, 2e-1, 1e-6};

const struct case_gate *case_gate_of(enum level level, bool bytes)
{
	return level_bf16(level)              ? &case_gate_half
	       : bytes || level == LEVEL_INT8 ? &case_gate_int8
	       : level == LEVEL_W16           ? &case_gate_w16
					      : &case_gate_fp32;
}

struct file_tensor {
	char name[256];
	struct tensor t;
};

struct data_set {
	int nin, nout;
	struct file_tensor in[MAX_TENSORS], out[MAX_TENSORS];
};

static int reference(void *ctx, struct graph *g, const struct tensor *in, struct tensor *out, struct arena *a)
{
	(void)ctx;
	struct tensor *t = ARENA_ARRAY(a, struct tensor, g->nvalues + 1);
	int rc = eval_graph(g, in, t, a);
	for (int i = 0; rc >= 0 && i < g->noutputs; i++)
		out[i] = t[g->output[i]];
	return rc;
}

const struct case_runner case_reference = {reference, NULL};

/* Graphs hold f32 where a file has f16 or bf16, so such tensors are converted. */
static int widen(struct arena *a, struct tensor *t)
{
	struct tensor wide;
	if (t->dtype != DT_F16 && t->dtype != DT_BF16)
		return E_OK;
	int rc = tensor_alloc(a, DT_F32, &t->shape, &wide);
	for (int64_t i = 0; rc >= 0 && i < shape_count(&t->shape); i++)
		tensor_set(&wide, i, tensor_get(t, i));
	if (rc >= 0)
		*t = wide;
	return rc;
}

/* Reads input_0.pb, input_1.pb, ... until one is missing. Returns how many were read. */
static int read_tensors(struct arena *a, const char *dir, const char *kind, struct file_tensor *out)
{
	for (int n = 0; n < MAX_TENSORS; n++) {
		const char *path = arena_printf(a, "%s/%s_%d.pb", dir, kind, n);
		if (!file_exists(path))
			return n;
		int rc = tensor_read(a, path, &out[n].t, out[n].name);
		if (rc >= 0)
			rc = widen(a, &out[n].t);
		if (rc < 0)
			return rc;
	}
	return fail(E_UNSUPPORTED, "%s: more than %d tensors", dir, MAX_TENSORS);
}

/* Conformance cases pass as inputs what real models hold as constants (the shape of a Reshape, the axes of a
 * Slice). So inputs are turned into constants in steps: none, then the small ones, then all. */
static bool fix_input(int step, int index, const struct tensor *t)
{
	bool small = t->shape.rank <= 1 && shape_count(&t->shape) <= SMALL;
	return step == 2 || (step == 1 && index > 0 && small);
}

static int import_case(struct arena *a, const char *model, const struct data_set *d, int step, bool bind,
		       struct graph **g)
{
	struct import_bind *binds = ARENA_ARRAY(a, struct import_bind, MAX_TENSORS);
	struct import_fixed *fixed = ARENA_ARRAY(a, struct import_fixed, MAX_TENSORS);
	struct import_opts o = {.binds = binds, .fixed = fixed};
	for (int i = 0; i < d->nin; i++) {
		const struct file_tensor *f = &d->in[i];
		char shape[160];
		if (!f->name[0])
			continue;
		shape_text(&f->t.shape, shape);
		if (fix_input(step, i, &f->t))
			fixed[o.nfixed++] = (struct import_fixed){f->name, f->t};
		else if (bind)
			binds[o.nbinds++] = (struct import_bind){f->name, arena_strdup(a, shape)};
	}
	return import_file(model, &o, g);
}

static int import_steps(struct arena *a, const char *model, const struct data_set *d, struct graph **g)
{
	int rc = E_OK;
	for (int step = 0; step < 3; step++) {
		rc = import_case(a, model, d, step, true, g);
		if (rc == E_USAGE) /* the data set's names are not the model's */
			rc = import_case(a, model, d, step, false, g);
		if (rc >= 0)
			return rc;
	}
	return rc;
}

/* The data for graph input i: by name, else by position. */
static const struct tensor *find_input(const struct data_set *d, const char *name, int i)
{
	for (int k = 0; k < d->nin; k++)
		if (!strcmp(d->in[k].name, name))
			return &d->in[k].t;
	return i < d->nin ? &d->in[i].t : NULL;
}

static double worst_excess(const struct tensor *got, const struct tensor *ref, const struct case_gate *gate)
{
	double worst = 0;
	for (int64_t i = 0; i < shape_count(&ref->shape); i++) {
		double g = tensor_get(got, i), r = tensor_get(ref, i);
		double over =
		    (isnan(g) && isnan(r)) || g == r ? 0 : fabs(g - r) - gate->abs - gate->rel * fabs(r);
		worst = over > worst || isnan(over) ? (isnan(over) ? INFINITY : over) : worst;
	}
	return worst;
}

static int check_output(const struct tensor *got, const struct file_tensor *ref, const struct case_gate *gate,
			double *worst)
{
	double diff, absmax;
	int rc = tensor_compare(got, &ref->t, &diff, &absmax);
	if (rc < 0)
		return fail_in(rc, "output '%s'", ref->name);
	bool real = ref->t.dtype == DT_F32 || ref->t.dtype == DT_F64;
	if (real)
		*worst = fmax(*worst, diff / (absmax + gate->max_abs / gate->max_rel));
	bool good = real ? diff <= gate->max_abs + gate->max_rel * absmax : diff == 0;
	if (!good && real && gate->abs > 0)
		good = worst_excess(got, &ref->t, gate) <= 0;
	if (good)
		return E_OK;
	if (!real)
		return fail(E_WRONG, "output '%s': %.0f element%s", ref->name, diff,
			    diff == 1 ? " differs" : "s differ");
	return fail(E_WRONG, "output '%s': differs by %.3g where the largest value is %.3g", ref->name, diff,
		    absmax);
}

static int run_case(struct graph *g, const struct data_set *d, const struct case_runner *run,
		    const struct case_gate *gate, struct arena *a, double *worst)
{
	struct tensor *in = ARENA_ARRAY(a, struct tensor, g->ninputs + 1);
	struct tensor *out = ARENA_ARRAY(a, struct tensor, g->noutputs + 1);
	for (int i = 0; i < g->ninputs; i++) {
		const struct tensor *t = find_input(d, g->value[g->input[i]].name, i);
		if (!t)
			return fail(E_CORRUPT, "no data for input '%s'", g->value[g->input[i]].name);
		in[i] = *t;
	}
	if (d->nout > g->noutputs)
		return fail(E_CORRUPT, "%d output%s in the data, %d in the model", d->nout, plural_s(d->nout),
			    g->noutputs);
	int rc = run->run(run->ctx, g, in, out, a);
	for (int i = 0; rc >= 0 && i < d->nout; i++)
		rc = check_output(&out[i], &d->out[i], gate, worst);
	return rc;
}

static int check_set(struct arena *a, const char *model, const char *set, const struct case_runner *run,
		     const struct case_gate *gate, double *worst)
{
	struct data_set *d = ARENA_NEW(a, struct data_set);
	struct graph *g;
	int rc = d->nin = read_tensors(a, set, "input", d->in);
	if (rc >= 0)
		rc = d->nout = read_tensors(a, set, "output", d->out);
	if (rc == 0)
		return fail(E_NOTFOUND, "%s: no output_0.pb, so there is nothing to compare", set);
	if (rc >= 0)
		rc = import_steps(a, model, d, &g);
	if (rc < 0)
		return rc;
	rc = run_case(g, d, run, gate, a, worst);
	graph_free(g);
	return fail_in(rc, "%s", set);
}

static int check_sets(struct arena *a, const char *model, const char *dir, const struct case_runner *run,
		      const struct case_gate *gate, double *worst)
{
	int rc = E_OK, n = 0;
	if (file_exists(arena_printf(a, "%s/output_0.pb", dir)))
		return check_set(a, model, dir, run, gate, worst);
	for (; rc >= 0; n++) {
		const char *set = arena_printf(a, "%s/test_data_set_%d", dir, n);
		if (!file_is_dir(set))
			break;
		rc = check_set(a, model, set, run, gate, worst);
		arena_reset(a);
	}
	return rc >= 0 && n == 0 ? fail(E_NOTFOUND, "%s: no test_data_set_0 with output_0.pb", dir) : rc;
}

enum case_result case_check_model(const char *model, const char *dir, const struct case_runner *run,
				  const struct case_gate *gate, char why[512], double *worst)
{
	struct arena a = {0};
	double unused = 0;
	int rc = check_sets(&a, model, dir, run, gate, worst ? worst : &unused);
	snprintf(why, 512, "%s", rc < 0 ? err_text() : "");
	for (char *p = why; (p = strchr(p, '\n'));)
		*p = ' ';
	arena_free(&a);
	return rc >= 0 ? CASE_PASSED : rc == E_UNSUPPORTED ? CASE_SKIPPED : CASE_FAILED;
}

enum case_result case_check(const char *dir, const struct case_runner *run, const struct case_gate *gate,
			    char why[512], double *worst)
{
	struct arena a = {0};
	enum case_result r =
	    case_check_model(arena_printf(&a, "%s/model.onnx", dir), dir, run, gate, why, worst);
	arena_free(&a);
	return r;
}

struct walk {
	struct arena *a;
	char **dir; /* every folder found; at the end, only those with a model */
	int *depth;
	int n;
};

static int add_dir(struct walk *w, const char *path, int depth)
{
	if (w->n == MAX_DIRS)
		return fail(E_UNSUPPORTED, "more than %d folders: name fewer", MAX_DIRS);
	w->dir[w->n] = arena_strdup(w->a, path);
	w->depth[w->n++] = depth;
	return E_OK;
}

static int add_subfolders(struct walk *w, const char *path, int depth)
{
	DIR *d = opendir(path);
	int rc = d ? E_OK : fail(E_IO, "cannot read %s", path);
	for (struct dirent *e; rc >= 0 && (e = readdir(d));) {
		if (e->d_name[0] == '.' || !strncmp(e->d_name, "test_data_set_", 14))
			continue;
		const char *sub = arena_printf(w->a, "%s/%s", path, e->d_name);
		struct stat st;
		if (lstat(sub, &st) == 0 && S_ISDIR(st.st_mode) && depth < MAX_DEPTH)
			rc = add_dir(w, sub, depth + 1);
	}
	if (d)
		closedir(d);
	return rc;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int case_find(struct arena *a, const char *dir, char ***out)
{
	struct arena scratch = {0};
	struct walk w = {&scratch, ARENA_ARRAY(&scratch, char *, MAX_DIRS),
			 ARENA_ARRAY(&scratch, int, MAX_DIRS), 0};
	int n = 0, rc = file_is_dir(dir) ? add_dir(&w, dir, 0) : fail(E_NOTFOUND, "%s is not a folder", dir);
	for (int i = 0; rc >= 0 && i < w.n; i++)
		rc = add_subfolders(&w, w.dir[i], w.depth[i]);
	char **found = *out = ARENA_ARRAY(a, char *, w.n + 1);
	for (int i = 0; rc >= 0 && i < w.n; i++)
		if (file_exists(arena_printf(&scratch, "%s/model.onnx", w.dir[i])))
			found[n++] = arena_strdup(a, w.dir[i]);
	arena_free(&scratch);
	if (rc >= 0 && n == 0)
		rc = fail(E_NOTFOUND, "%s: no folder with a model.onnx in it or below it", dir);
	if (rc < 0)
		return rc;
	qsort(found, (size_t)n, sizeof *found, by_name);
	return n;
}
