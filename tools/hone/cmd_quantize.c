/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/json.h"
#include "agent/quantize/quantize.h"
#include "kernels/graph/weights.h"
#include "platform/base/log.h"
#include "tools/hone/calibrate.h"
#include "tools/hone/interrupt.h"
#include "tools/hone/model.h"
#include "tools/hone/next.h"
#include "tools/hone/output.h"
#include "tools/hone/picture.h"
#include "tools/hone/table.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_opts(const struct args *a, struct quantize_opts *o)
{
	const char *ranges = arg_str(a, "ranges", "mse");
	int64_t bits = arg_int(a, "weight-bits", 8);
	if (strcmp(ranges, "mse") != 0 && strcmp(ranges, "minmax") != 0)
		return fail(E_USAGE, "--ranges %s is not possible; it takes minmax or mse", ranges);
	if (bits != 7 && bits != 8)
		return fail(E_USAGE, "--weight-bits %lld is not possible; it takes 7 or 8", (long long)bits);
	o->ranges = strcmp(ranges, "mse") ? RANGES_MINMAX : RANGES_MSE;
	o->weight_bits = (int)bits;
	o->no_bias_correction = arg_flag(a, "no-bias-correction");
	o->nkeep = arg_list(a, "keep", &o->keep);
	int rc = calibrate_count(a, "scan", CALIBRATE_SCANNED, 0, &o->scan);
	if (rc >= 0) /* --error bounds each layer, too, so that --keep-above defaults to it */
		rc = calibrate_limit(a, "keep-above", arg_given(a, "error") ? NULL : CALIBRATE_KEEP_ABOVE,
				     &o->keep_above);
	if (rc >= 0)
		rc = calibrate_limit(a, "error", NULL, &o->most);
	if (rc >= 0 && !o->scan && (arg_given(a, "error") || arg_given(a, "keep-above")))
		return fail(E_USAGE,
			    "--scan 0 measures no layer, so --error and --keep-above are not possible");
	return rc;
}

static int check_output(const struct args *a, char to[PATH_MAX])
{
	const char *out = arg_str(a, "output", NULL);
	return out ? output_file(a, out, OUTPUT_QUANTIZED, to)
		   : fail(E_USAGE, "missing option -o; usage: hone quantize MODEL --data DIR -o OUT.onnx");
}

/* ---- the report ---- */

static json_t *shape_json(const struct shape *s)
{
	json_t *j = json_array();
	for (int i = 0; i < s->rank; i++)
		json_array_append_new(j, json_integer(s->d[i]));
	return j;
}

static json_t *layer_json(const struct quantize_layer *l)
{
	return json_pack("{so ss so so so so so sb so}", "name", json_text(l->name), "op_type", l->type,
			 "weights_shape", shape_json(&l->weights), "weights_error",
			 json_num(l->weights_error), "input_error", json_num(l->input_error), "output_error",
			 json_num(l->output_error), "layer_error", json_num(l->error), "quantized", !l->why,
			 "why", l->why ? json_text(l->why) : json_null());
}

static int report_json(const struct args *a, const struct quantize_report *r, const char *out)
{
	json_t *layers = json_array();
	for (int i = 0; i < r->nlayers; i++)
		json_array_append_new(layers, layer_json(&r->layer[i]));
	return json_out(json_pack("{so so si si si so so so so}", "model", json_text(a->pos[0]), "file",
				  json_text(out), "examples", r->examples, "held_out", r->held_out,
				  "quantized_layers", r->nquantised, "predicted_error",
				  json_num(r->predicted), "measured_error", json_num(r->error),
				  "held_out_error", json_num(r->held_out_error), "layers", layers));
}

static void error_cell(struct table *t, double e)
{
	if (isnan(e) || e == 0)
		table_cell(t, "%s", isnan(e) ? "-" : "0");
	else
		table_cell(t, "%.1e", e);
}

static void layers_table(const struct args *a, const struct quantize_report *r)
{
	struct table t = {.align = "lllrrrrl", .drop = "04351200"};
	const char *const head[] = {"layer", "type",   "weights", "of weights",
				    "input", "output", "alone",   "runs as"};
	for (int i = 0; i < 8; i++)
		table_cell(&t, "%s", head[i]);
	for (int i = 0; i < r->nlayers; i++) {
		const struct quantize_layer *l = &r->layer[i];
		char shape[160];
		shape_text(&l->weights, shape);
		table_cell(&t, "%s", l->name);
		table_cell(&t, "%s", l->type);
		table_cell(&t, "%s", shape);
		error_cell(&t, l->weights_error);
		error_cell(&t, l->input_error);
		error_cell(&t, l->output_error);
		error_cell(&t, l->error);
		table_cell(&t, l->why ? "fp32: %s" : "int8", l->why);
	}
	table_print(&t, a->color);
}

static void report_text(const struct args *a, const struct quantize_report *r, const char *out)
{
	layers_table(a, r);
	char held_out[64] = "", predicted[32] = "";
	if (r->held_out)
		snprintf(held_out, sizeof held_out, ", %.2e on %d held out", r->held_out_error, r->held_out);
	if (!isnan(r->predicted))
		snprintf(predicted, sizeof predicted, "; predicted %.2e", r->predicted);
	table_say("%d of %d layer%s quantised; error of the outputs, all together: %.2e on %d example%s%s%s",
		  r->nquantised, r->nlayers, plural_s(r->nlayers), r->error, r->examples,
		  plural_s(r->examples), held_out, predicted);
	calibrate_warn(a, r);
	log_info("wrote %s", out);
	next_hone(a, "tune", out, " --budget 20s");
}

/* ---- */

static int quantise(const struct args *a, struct graph *g, struct quantize_opts *o, const char *to)
{
	struct arena arena = {0};
	struct quantize_example *example;
	struct quantize_report r;
	struct graph *made = NULL;
	const char *out = arg_str(a, "output", NULL);
	const char *odd = weights_odd(g, &arena);
	if (odd)
		log_info("hone: warning: %s: %s", a->pos[0], odd);
	int rc = calibrate_examples(a, g, &arena, &example);
	if (rc >= 0)
		rc = fail_in(quantize_graph(g, example, rc, o, &arena, &r, &made), "%s", a->pos[0]);
	log_live(NULL);
	if (rc >= 0)
		rc = export_file_by(made, OUTPUT_BY_QUANTIZE, to);
	if (rc >= 0 && a->json)
		rc = report_json(a, &r, out);
	else if (rc >= 0)
		report_text(a, &r, out);
	graph_free(made);
	arena_free(&arena);
	return rc;
}

static int run_quantize(const struct args *a)
{
	struct quantize_opts o = {.progress = calibrate_progress};
	struct target target;
	struct graph *g;
	char to[PATH_MAX];
	int rc = read_opts(a, &o);
	if (rc >= 0)
		rc = check_output(a, to);
	if (rc >= 0)
		rc = target_host(&target);
	if (rc >= 0)
		rc = model_threads(a, &target);
	if (rc >= 0)
		rc = machine_pool(rc, true, &o.pool);
	if (rc < 0)
		return rc;
	o.target = &target;
	interrupt_catch();
	rc = model_import(a, a->pos[0], &g);
	if (rc >= 0) {
		rc = quantise(a, g, &o, to);
		graph_free(g);
	}
	pool_close(o.pool);
	return interrupt_status(rc < 0 ? rc : 0);
}

static const struct opt opts[] = {
    OPT_DATA,
    {"output", OPT_STR, "FILE", "the quantised model", 'o'},
    OPT_EXAMPLES,
    {"ranges", OPT_STR, "mse|minmax", "ranges by least squared error (default), or of all values",
     .values = "mse minmax"},
    {"weight-bits", OPT_INT, "8",
     "8 (default), or 7 for runtimes on x86 without VNNI, whose sums may saturate"},
    {"no-bias-correction", OPT_FLAG, NULL, "leave the mean error that each layer's weights make"},
    {"scan", OPT_INT, "N", "examples that each layer's error is measured on (default 4; 0: it is not)"},
    {"keep-above", OPT_STR, "E",
     "layers stay fp32 if their weights, input or output alone make a larger error "
     "(default " CALIBRATE_KEEP_ABOVE ", or with --error its value)"},
    {"error", OPT_STR, "E",
     "leave the worst layers in fp32 until the error of all together is at most this, on examples that are "
     "held out, too"},
    {"keep", OPT_LIST, "LAYER", "this layer stays fp32"},
    OPT_PICTURE,
    OPT_THREADS,
    OPT_SHAPE,
    {NULL},
};

const struct cmd cmd_quantize = {
    .usage = "MODEL --data DIR -o OUT.onnx",
    .summary = "quantise a model of floats to 8 bits, after training",
    .details =
	"Writes a standard QDQ model: QuantizeLinear and DequantizeLinear around Conv, Gemm and MatMul, u8\n"
	"values, s8 weights per channel, s32 biases. Ranges of values come from examples of inputs: a folder "
	"of\n"
	".npy, .pb, .png or .jpg files, or of folders with a file for each input, as "
	"test_data_set_0/input_0.pb (or .npy).\n"
	"Some dozen inputs as the model gets them in use are enough. Every fifth is held out and only "
	"measured.\n\n"
	"An error is |quantised - fp32| / |fp32| of the model's outputs (L2, root of the mean over "
	"examples).\n"
	"The table shows it for each layer alone: with its weights, its input or its output quantised.",
    .min_pos = 1,
    .max_pos = 1,
    .opts = opts,
    .run = run_quantize,
    .name = "quantize",
};
