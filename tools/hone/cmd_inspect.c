/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/bundle/plan_c.h"
#include "agent/run/image.h"
#include "agent/cache/json.h"
#include "kernels/onnx/cut_off.h"
#include "kernels/onnx/look.h"
#include "platform/base/log.h"
#include "platform/base/shell.h"
#include "tools/hone/given_sizes.h"
#include "tools/hone/keep.h"
#include "tools/hone/model.h"
#include "tools/hone/next.h"
#include "tools/hone/table.h"
#include <stdio.h>
#include <string.h>

struct inspect {
	const char *path;
	struct onnx_look look;
	struct arena arena;
	/* The import, if it is possible: it says which nodes run without tuned kernels. */
	bool imported;
	struct model model;
	int nuntuned, nformless;
	struct look_op *untuned;  /* by type */
	struct look_op *formless; /* those of them that hone compile --c cannot write, by type */
	char *problem;            /* why it is not possible; NULL: it is */
	bool needs_sizes;         /* the problem is that sizes are missing */
	int nbinds;               /* sizes that the caller gave with --shape */
	const struct import_bind *bind;
};

static void count_type(struct look_op *op, int *n, const char *type)
{
	int k = 0;
	while (k < *n && strcmp(op[k].type, type))
		k++;
	op[k].type = type;
	op[k].uses++;
	*n += k == *n;
}

static void count_untuned(struct inspect *in)
{
	const struct steps *s = in->model.steps;
	const struct graph *g = in->model.g;
	in->untuned = ARENA_ARRAY(&in->arena, struct look_op, s->nsteps + 1);
	in->formless = ARENA_ARRAY(&in->arena, struct look_op, s->nsteps + 1);
	for (int i = 0; i < s->nsteps; i++) {
		if (s->step[i].kind != STEP_HOST)
			continue;
		const char *type = node_type(&g->node[s->step[i].node]);
		count_type(in->untuned, &in->nuntuned, type);
		if (!plan_c_has_form(g, s->step[i].node))
			count_type(in->formless, &in->nformless, type);
	}
}

static bool is_given(const struct inspect *in, const char *name)
{
	int i = 0;
	while (i < in->nbinds && strcmp(in->bind[i].name, name))
		i++;
	return i < in->nbinds;
}

/* The value of an integer scalar may choose the branches of the model; others stay inputs. */
static bool wants_value(const struct inspect *in, const struct look_value *v)
{
	static const char *const flow[] = {"If", "Loop"};
	bool integer = !strcmp(v->type, "i64") || !strcmp(v->type, "i32") || !strcmp(v->type, "bool"),
	     chooses = false;
	for (int i = 0; i < in->look.nops; i++)
		for (int k = 0; k < 2; k++)
			chooses |= !strcmp(in->look.op[i].type, flow[k]);
	return v->ranked && !v->rank && integer && chooses && !is_given(in, v->name);
}

/* Appends " --shape NAME=" for an input. */
static void propose(struct buf *b, const struct look_value *v)
{
	buf_puts(b, " --shape ");
	shell_word(b, v->name);
	buf_puts(b, "=");
}

/* Appends what the import's example lacks: inputs of which a batch size alone is free, and integer scalars.
 */
static void propose_all(struct inspect *in)
{
	struct buf b = {0};
	bool asks = in->needs_sizes || strstr(in->problem, "NAME=VALUE");
	buf_puts(&b, in->problem);
	for (int i = 0; i < in->look.nin && asks; i++) {
		const struct look_value *v = &in->look.in[i];
		struct buf word = {0};
		bool any = false;
		propose(&word, v);
		for (int k = 0; k < v->rank; k++)
			any |= v->dim[k].size < 0;
		if (any && in->needs_sizes && !strstr(in->problem, buf_str(&word)) &&
		    !is_given(in, v->name)) {
			buf_puts(&b, buf_str(&word));
			for (int k = 0; k < v->rank; k++)
				buf_printf(&b, "%s%lld", k ? "x" : "",
					   v->dim[k].size < 0 ? 1 : (long long)v->dim[k].size);
		} else if (wants_value(in, v)) {
			buf_printf(&b, "%s%s%s", in->needs_sizes ? "" : ", here", buf_str(&word),
				   !strcmp(v->name, "sr") ? "16000" : "1");
		}
		buf_free(&word);
	}
	in->problem = arena_strdup(&in->arena, buf_str(&b));
	buf_free(&b);
}

/* The structure is shown even if the model cannot be imported. */
static int try_import(const struct args *a, struct inspect *in)
{
	struct target t;
	int rc = target_host(&t);
	if (rc >= 0)
		rc = in->nbinds = model_binds(a, &in->arena, &in->bind);
	if (rc < 0)
		return rc;
	rc = model_open(a, in->path, &(struct chosen_for){.target = &t}, &in->model);
	if (rc >= 0) {
		in->imported = true;
		rc = model_take_bytes(&in->model, &t);
		if (rc >= 0)
			count_untuned(in);
		return rc;
	}
	in->needs_sizes = rc == E_USAGE && strstr(err_text(), IMPORT_LEAVES_FREE);
	if (rc == E_NOMEM || (rc == E_USAGE && !in->needs_sizes))
		return rc; /* the caller's --shape is wrong */
	in->problem = arena_strdup(&in->arena, err_text());
	size_t path = strlen(in->path);
	if (!strncmp(in->problem, in->path, path) && !strncmp(in->problem + path, ": ", 2))
		in->problem += path + 2;
	if (in->needs_sizes)
		given_sizes(&in->look, in->bind, in->nbinds);
	propose_all(in);
	return E_OK;
}

static const struct value *find_value(const struct graph *g, const int *index, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(g->value[index[i]].name, name))
			return &g->value[index[i]];
	return NULL;
}

/* Gives the inputs or outputs the shapes that the import found with the sizes of --shape. An input that
 * --shape gave a value is none of the graph's any more. */
static void resolve_shapes(struct inspect *in, struct look_value *v, int n, const int *index, int nindex)
{
	for (int i = 0; i < n; i++) {
		const struct value *found = find_value(in->model.g, index, nindex, v[i].name);
		if (!found)
			continue;
		const struct shape *s = &found->t.shape;
		v[i].ranked = true;
		v[i].rank = s->rank;
		v[i].dim = ARENA_ARRAY(&in->arena, struct look_dim, s->rank + 1);
		for (int k = 0; k < s->rank; k++)
			v[i].dim[k] = (struct look_dim){.size = s->d[k], .name = ""};
	}
}

static void dims_text(const struct look_value *v, struct buf *b)
{
	for (int i = 0; i < v->rank; i++) {
		const struct look_dim *d = &v->dim[i];
		buf_puts(b, i ? ", " : "[");
		if (d->size >= 0)
			buf_printf(b, "%lld", (long long)d->size);
		else
			buf_puts(b, *d->name ? d->name : "?");
	}
	buf_puts(b, !v->ranked ? "not said" : v->rank ? "]" : "scalar");
}

static void values_rows(struct table *t, const char *what, const struct look_value *v, int n)
{
	for (int i = 0; i < n; i++) {
		struct buf b = {0};
		dims_text(&v[i], &b);
		table_cell(t, "%s", what);
		table_cell(t, "%s", v[i].name);
		table_cell(t, "%s", *v[i].type ? v[i].type : "not a tensor");
		table_cell(t, "%s", buf_str(&b));
		buf_free(&b);
	}
}

static void print_values(const struct args *a, const struct inspect *in)
{
	struct table t = {.align = "llll"};
	const char *const head[] = {"", "name", "type", "shape"};
	for (int i = 0; i < 4; i++)
		table_cell(&t, "%s", head[i]);
	values_rows(&t, "input", in->look.in, in->look.nin);
	values_rows(&t, "output", in->look.out, in->look.nout);
	table_print(&t, a->color);
	bool half = false;
	for (int i = 0; i < in->look.nin + in->look.nout; i++) {
		const char *type = (i < in->look.nin ? in->look.in[i] : in->look.out[i - in->look.nin]).type;
		half |= !strcmp(type, "f16") || !strcmp(type, "bf16");
	}
	if (half)
		table_say("hone takes and returns tensors of f16 and bf16 as f32.");
}

static void print_ops(const struct args *a, const struct inspect *in)
{
	struct table t = {.align = "rl"};
	table_cell(&t, "nodes");
	table_cell(&t, "operator");
	for (int i = 0; i < in->look.nops; i++) {
		const struct look_op *o = &in->look.op[i];
		table_cell(&t, "%d", o->uses);
		table_cell(&t, "%s%s%s", o->domain, *o->domain ? "." : "", o->type);
	}
	table_print(&t, a->color);
}

static void print_next(const struct args *a, const struct inspect *in)
{
	printf("%d task%s, %.3f GFLOP\n", in->model.ntasks, plural_s(in->model.ntasks),
	       in->model.steps->flops / 1e9);
	if (in->model.ntasks)
		keep_tune(a, NULL, in->path, " --budget 20s");
	else
		next_hone(a, "bench", in->path, "");
}

static void print_types(const char *what, const struct look_op *op, int n)
{
	struct buf b = {0};
	for (int i = 0; i < n; i++)
		buf_printf(&b, "%s %s (%d)", i ? "," : "", op[i].type, op[i].uses);
	if (n)
		table_say("%s%s", what, buf_str(&b));
	buf_free(&b);
}

static void print_tunable(const struct inspect *in)
{
	if (!in->model.ntasks)
		table_say("Nothing of this model can be tuned: none of its operators has kernels to choose "
			  "from.");
	else if (!in->nuntuned)
		table_say("Every operator has kernels that can be tuned.");
	print_types("Without tuned kernels, in portable C:", in->untuned, in->nuntuned);
	print_types("hone compile --c refuses the model, because it cannot write:", in->formless,
		    in->nformless);
}

static void print_use(const struct args *a, const struct inspect *in)
{
	if (in->imported) {
		print_tunable(in);
		print_next(a, in);
	} else
		table_say("%s: %s",
			  in->needs_sizes ? "Sizes are needed"
			  : in->nbinds    ? "With the sizes given, hone cannot use this model"
					  : "hone cannot use this model",
			  in->problem);
}

static void print_all(const struct args *a, const struct inspect *in)
{
	const struct onnx_look *l = &in->look;
	struct buf b = {0};
	for (int i = 0; i < l->nopsets; i++)
		buf_printf(&b, "%s opset %lld, ", l->opset[i].domain, (long long)l->opset[i].version);
	table_say("%s: %sIR %lld%s%s; %d node%s, %.3f million weights", in->path, buf_str(&b),
		  (long long)l->ir, *l->producer ? ", by " : "", l->producer, l->nodes, plural_s(l->nodes),
		  (double)l->weights / 1e6);
	buf_free(&b);
	print_values(a, in);
	print_ops(a, in);
	print_use(a, in);
}

static json_t *values_json(const struct look_value *v, int n)
{
	json_t *list = json_array();
	for (int i = 0; i < n; i++) {
		json_t *shape = v[i].ranked ? json_array() : json_null(), *dims = json_deep_copy(shape);
		for (int k = 0; k < v[i].rank; k++) {
			const struct look_dim *d = &v[i].dim[k];
			bool given = d->size >= 0;
			json_array_append_new(shape, given ? json_integer(d->size) : json_null());
			json_array_append_new(dims, given      ? json_sprintf("%lld", (long long)d->size)
						    : *d->name ? json_text(d->name)
							       : json_null());
		}
		json_array_append_new(list, json_pack("{so so so so}", "name", json_text(v[i].name), "dtype",
						      *v[i].type ? json_text(v[i].type) : json_null(),
						      "shape", shape, "dims", dims));
	}
	return list;
}

/* Free dimensions of the inputs. */
static json_t *free_json(const struct onnx_look *l)
{
	json_t *list = json_array();
	for (int i = 0; i < l->nin; i++)
		for (int k = 0; k < l->in[i].rank; k++) {
			const struct look_dim *d = &l->in[i].dim[k];
			if (d->size < 0)
				json_array_append_new(
				    list, json_pack("{so si so}", "input", json_text(l->in[i].name), "axis",
						    k, "name", *d->name ? json_text(d->name) : json_null()));
		}
	return list;
}

static json_t *ops_json(const struct look_op *o, int n)
{
	json_t *list = json_array();
	for (int i = 0; i < n; i++)
		json_array_append_new(list, json_pack("{so so si}", "op_type", json_text(o[i].type), "domain",
						      json_text(o[i].domain ? o[i].domain : ""), "nodes",
						      o[i].uses));
	return list;
}

/* Each line of the import's error is a node. */
static json_t *lines_json(const struct inspect *in)
{
	json_t *list = json_array();
	char *save = NULL, *copy = in->problem ? strdup(in->problem) : NULL;
	for (char *line = copy ? strtok_r(copy, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save))
		if (strncmp(line, CUT_OFF_ADVICE, strlen(CUT_OFF_ADVICE)) != 0)
			json_array_append_new(list, json_text(line));
	free(copy);
	return list;
}

static json_t *opsets_json(const struct onnx_look *l, json_int_t *own)
{
	json_t *list = json_array();
	*own = 0;
	for (int i = 0; i < l->nopsets; i++) {
		json_array_append_new(list, json_pack("{so sI}", "domain", json_text(l->opset[i].domain),
						      "opset", (json_int_t)l->opset[i].version));
		if (!strcmp(l->opset[i].domain, "ai.onnx") && l->opset[i].version > *own)
			*own = l->opset[i].version;
	}
	return list;
}

static int print_json(const struct inspect *in)
{
	const struct onnx_look *l = &in->look;
	json_int_t opset;
	json_t *opsets = opsets_json(l, &opset);
	json_t *unsupported = in->needs_sizes ? json_array() : lines_json(in);
	return json_out(json_pack(
	    "{so sI so sI so si sI so so so so so so so so}", "model", json_text(in->path), "opset", opset,
	    "opsets", opsets, "ir", (json_int_t)l->ir, "producer", json_text(l->producer), "nodes", l->nodes,
	    "weights", (json_int_t)l->weights, "inputs", values_json(l->in, l->nin), "outputs",
	    values_json(l->out, l->nout), "free", free_json(l), "operators", ops_json(l->op, l->nops),
	    "untuned_operators", in->imported ? ops_json(in->untuned, in->nuntuned) : json_null(),
	    "no_c_form", in->imported ? ops_json(in->formless, in->nformless) : json_null(), "unsupported",
	    unsupported, "needs_sizes", in->needs_sizes ? json_text(in->problem) : json_null()));
}

/* Without --shape, the shapes stay as the model declares them: names of free sizes are what --shape takes. */
static void resolve_all(struct inspect *in)
{
	if (!in->imported || !in->nbinds)
		return;
	const struct graph *g = in->model.g;
	resolve_shapes(in, in->look.in, in->look.nin, g->input, g->ninputs);
	resolve_shapes(in, in->look.out, in->look.nout, g->output, g->noutputs);
}

/* Whether a declared shape contradicts the one that the nodes compute. Exporters write 0 for unknown, too. */
static bool contradicts(const struct look_value *v, const struct shape *s)
{
	bool other = v->ranked && v->rank != s->rank;
	for (int k = 0; k < v->rank && v->ranked && !other; k++)
		other = v->dim[k].size > 0 && v->dim[k].size != s->d[k];
	return other;
}

/* The import takes no output's shape from the file. With --shape, other outputs than the declared ones are
 * what the caller asked for. */
static void check_outputs(const struct inspect *in)
{
	const struct graph *g = in->model.g;
	for (int i = 0; i < in->look.nout && in->imported && !in->nbinds; i++) {
		const struct look_value *v = &in->look.out[i];
		const struct value *found = find_value(g, g->output, g->noutputs, v->name);
		struct buf declared = {0};
		char computed[160] = "";
		dims_text(v, &declared);
		if (found)
			shape_text(&found->t.shape, computed);
		if (found && contradicts(v, &found->t.shape))
			log_info(
			    "hone: warning: %s: output '%.200s' is declared with the shape %s, but the nodes "
			    "compute %s, which hone uses; export the model again, or correct the declaration",
			    in->path, v->name, buf_str(&declared), computed);
		buf_free(&declared);
	}
}

static int run_inspect(const struct args *a)
{
	struct inspect in = {.path = a->pos[0]};
	int rc = image_is_no_model(in.path);
	if (rc >= 0)
		rc = look_file(in.path, &in.arena, &in.look);
	if (rc >= 0)
		rc = try_import(a, &in);
	if (rc >= 0)
		check_outputs(&in);
	resolve_all(&in);
	if (rc >= 0 && a->json)
		rc = print_json(&in);
	else if (rc >= 0)
		print_all(a, &in);
	if (in.imported)
		model_close(&in.model);
	arena_free(&in.arena);
	return rc < 0 ? rc : in.problem && !in.needs_sizes;
}

static const struct opt opts[] = {
    OPT_SHAPE,
    {NULL},
};

const struct cmd cmd_inspect = {
    .usage = "MODEL [--shape NAME=DIMS]",
    .summary = "show a model's inputs, outputs, free sizes and operators",
    .details =
	"Also of a model that hone cannot run: it says why. Which operators run without tuned kernels is\n"
	"known once all sizes are: where the model leaves sizes free, give them with --shape. So is which "
	"ones\n"
	"hone compile --c cannot write. If hone cannot\n"
	"use the model, for another reason than sizes that are free, the exit status is 1.",
    .min_pos = 1,
    .max_pos = 1,
    .opts = opts,
    .run = run_inspect,
    .name = "inspect",
};
