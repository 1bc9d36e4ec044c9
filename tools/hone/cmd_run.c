/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/json.h"
#include "agent/run/image.h"
#include "agent/run/plan_device.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "tools/hone/feed.h"
#include "tools/hone/indices.h"
#include "tools/hone/guard.h"
#include "tools/hone/keep.h"
#include "tools/hone/next.h"
#include "platform/base/folder.h"
#include "tools/hone/output.h"
#include "tools/hone/outputs.h"
#include "tools/hone/placed.h"
#include "tools/hone/table.h"
#include <stdio.h>

/* Adds what the outputs hold to the rows of `list`, or prints it. */
static void show_outputs(const struct args *a, const struct ready *r, json_t *list)
{
	for (int i = 0; i < r->g->noutputs; i++) {
		struct output_view v;
		output_look(&r->out[i], &v);
		if (a->json)
			output_add(json_array_get(list, (size_t)i), &v);
		else
			output_print(r->g->value[r->g->output[i]].name, &r->out[i], &v);
	}
}

static bool untuned; /* the device was left because the cache has no kernels for it */

/* The device that ran the network, and which kernels the processor ran beside it. */
static json_t *device_json(const struct ready *r)
{
	struct placed placed = {0};
	placed_plan(&placed, r->plan);
	return json_pack("{ss si so}", "name", r->host->name ? r->host->name : "cpu", "host_threads",
			 pool_threads(r->host->pool), "on_processor", placed_json(&placed));
}

/* The device that was asked for, and why it did not run the network; null: it did. */
static json_t *fallback_json(const struct args *a)
{
	const char *why = model_left_device();
	return why ? json_pack("{so so}", "device", json_text(arg_str(a, "device", "cpu")), "why",
			       json_text(why))
		   : json_null();
}

static int run_ready(const struct args *a, struct ready *r, const char *dir)
{
	int rc = arg_flag(a, "require-cache") ? ready_require(a, r) : 0;
	if (rc >= 0 && dir)
		rc = feed_check_outputs(a, r, dir);
	if (rc >= 0)
		rc = feed_inputs(a, r);
	int64_t start = clock_now(&clock_real);
	if (rc >= 0)
		rc = indices_explain(r->g, r->in, plan_run(r->plan, r->in, r->out));
	int64_t ns = clock_now(&clock_real) - start;
	if (rc < 0)
		return rc;
	json_t *list = json_array();
	struct new_folder made;
	new_folder_note(&made, dir);
	rc = feed_outputs(a, r, dir, list);
	if (rc < 0)
		new_folder_drop(&made);
	if (rc >= 0)
		show_outputs(a, r, list);
	if (rc >= 0 && a->json)
		return json_out(json_pack("{so so so so so sI so}", "run_ms", json_ms((double)ns), "load_ms",
					  json_ms((double)r->load_ns), "outputs", list, "device_use",
					  device_json(r), "fallback", fallback_json(a), "inputs_not_finite",
					  (json_int_t)r->not_finite, "not_quantized",
					  r->model.floats ? json_text(r->model.floats) : json_null()));
	if (rc >= 0) {
		struct placed placed = {0};
		placed_plan(&placed, r->plan);
		if (r->host->name)
			placed_print(&placed, r->host->name);
		table_say("ran once in %.3f ms, loaded in %.3f ms; a first run is slower than later ones",
			  (double)ns / 1e6, (double)r->load_ns / 1e6);
		struct buf shapes = {0};
		feed_shapes(a, r, &shapes);
		if (untuned)
			buf_printf(&shapes, " --budget 20s --device %s", arg_str(a, "device", "cpu"));
		if (untuned)
			keep_tune(a, r->cache_dir, r->model.path, buf_str(&shapes));
		else
			next_hone(a, "bench", r->model.path, buf_str(&shapes));
		buf_free(&shapes);
	}
	json_decref(list);
	return rc;
}

/* Whether the network would run on the processor alone, but with the device's records, of which there are
 * none. */
static bool has_no_kernels(const struct host *h, const struct ready *r)
{
	char why[256];
	if (!h->name || plan_device_use(r->plan).steps)
		return false;
	snprintf(why, sizeof why, "%s: the cache has no kernel of this model for it", h->name);
	log_notice("hone: %s, so the network runs on the processor; hone tune --device %s makes them", why,
		   h->name);
	model_leave_device(why);
	return untuned = true;
}

/* A compiled model has kernels of the processor alone. */
static void leave_device_if_compiled(const struct args *a)
{
	char file[4096], why[256];
	const char *device = model_device(a);
	if (!device || !image_find(a->pos[0], file, sizeof file) || !file_exists(file))
		return;
	snprintf(why, sizeof why, "%s: a compiled model has kernels of the processor alone", device);
	log_notice("hone: %s, so the processor runs it; hone run with the ONNX model runs on the device",
		   why);
	model_leave_device(why);
}

static int run_once(const struct args *a)
{
	char cache[4096];
	const char *dir = arg_str(a, "output", NULL);
	if (!dir && arg_flag(a, "pb"))
		return fail(E_USAGE, "--pb is the format of files: it goes with --output DIR");
	struct host h;
	struct ready r;
	int rc = model_cache_or_none(a, cache, sizeof cache);
	leave_device_if_compiled(a);
	if (rc >= 0)
		rc = host_open(a, cache, false, &h);
	if (rc < 0)
		return rc;
	rc = ready_open(a, a->pos[0], cache, KERNELS_BEST, &h, &r);
	if (rc >= 0 && has_no_kernels(&h, &r)) {
		ready_close(&r);
		host_close(&h);
		return run_once(a);
	}
	if (rc >= 0) {
		rc = run_ready(a, &r, dir);
		if (rc >= 0)
			rc = guard_done();
		ready_close(&r);
	}
	host_close(&h);
	return rc < 0 ? rc : 0;
}

static int run_run(const struct args *a)
{
	return guard_run(a, run_once, GUARD_LEAVES);
}

static const struct opt opts[] = {
    OPT_FEED, OPT_REQUIRE_CACHE, OPT_THREADS, OPT_DEVICE, OPT_LEVEL, OPT_CACHE, OPT_SHAPE, {NULL},
};

const struct cmd cmd_run = {
    .usage =
	"MODEL --input NAME=FILE... [--output DIR] [--device cpu[:CLUSTER]|opencl:N|cuda:N] [--level LEVEL]",
    .summary = "run a model once on given tensors or pictures",
    .details =
	"Kernels come from the cache, else from the built-in fallback kernels; with --require-cache from\n"
	"the cache alone. --input FILE is enough for a model with one input. A tensor has to have the type "
	"of\n"
	"its input, in little-endian order; float64 and float16 become float32, and a line says so. Inputs\n"
	"and outputs that the model has as float16 or bfloat16 are float32 here.\n\n"
	"A picture (PNG or JPEG) is resized to the input's size, bilinear with half-pixel centres and "
	"without\n"
	"smoothing, and its pixels become (pixel - mean) * scale, with pixels from 0 to 255. Three values "
	"of\n"
	"--mean and --scale are for red, green and blue. Many networks of PyTorch want --mean\n"
	"123.675,116.28,103.53 --scale 1/58.395,1/57.12,1/57.375 and --resize 256x256, whose middle is "
	"taken.\n"
	"Where the model leaves height and width free, the picture gives them, after --resize. "
	"Alpha, gamma and the orientation in EXIF are ignored.\n\n"
	"It prints the time of the run, the range of each output and, of a vector, its five highest values\n"
	"with their indexes, counted from 0. With --output it also writes the outputs to files.\n\n"
	"If a device of --device is not there, builds no kernel, cannot hold the network, or fails or hangs\n"
	"in the run, the processor runs the network, and a line says why, also with -q; in JSON, fallback\n"
	"does. Other commands then end with an error.\n\n"
	"Max and Relu may drop a NaN, so outputs of inputs with NaN may be finite numbers: a line says how "
	"many\n"
	"input values are not finite, also with -q; in JSON, inputs_not_finite does. The exit status is 0.",
    .min_pos = 1,
    .max_pos = 1,
    .opts = opts,
    .run = run_run,
    .name = "run",
};
