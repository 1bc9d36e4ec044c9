/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/calibrate.h"
#include "agent/cache/json.h"
#include "platform/base/log.h"
#include "platform/base/shell.h"
#include "tools/hone/examples.h"
#include "tools/hone/model.h"
#include "tools/hone/next.h"
#include "tools/hone/table.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXAMPLES = 32, RANDOM_EXAMPLES = 8, MUCH_WORSE = 3 };

int calibrate_limit(const struct args *a, const char *name, const char *fallback, double *out)
{
	const char *text = arg_str(a, name, fallback);
	char *end = NULL;
	*out = text ? strtod(text, &end) : 0;
	if (text && (end == text || *end || !(*out > 0) || !isfinite(*out)))
		return fail(E_USAGE, "--%s %s: a number above 0, as in --%s 0.05", name, text, name);
	return E_OK;
}

int calibrate_count(const struct args *a, const char *name, int fallback, int least, int *out)
{
	int64_t n = arg_int(a, name, fallback);
	if (n < least || n > EXAMPLES_MOST)
		return fail(E_USAGE, "--%s %lld: %d to %d", name, (long long)n, least, EXAMPLES_MOST);
	*out = (int)n;
	return E_OK;
}

int calibrate_examples(const struct args *a, const struct graph *g, struct arena *arena,
		       struct quantize_example **out)
{
	const char *dir = arg_str(a, "data", NULL);
	int most = 0, rc = calibrate_count(a, "examples", EXAMPLES, 1, &most);
	if (rc < 0)
		return rc;
	if (!dir)
		return fail(E_USAGE,
			    "missing option --data DIR: ranges of values come from examples of inputs, .npy, "
			    ".pb, .png or .jpg (--data random only shows whether it works)");
	if (strcmp(dir, "random") != 0)
		return examples_read(a, dir, g, most, arena, out);
	log_info("hone: warning: ranges come from random inputs, so the model may be wrong on real ones, and "
		 "errors say little: give a folder of examples with --data DIR");
	return examples_random(g, arg_given(a, "examples") ? most : RANDOM_EXAMPLES, arena, out);
}

void calibrate_progress(void *ctx, const char *stage, int done, int of)
{
	(void)ctx;
	log_live("%s: %d of %d", stage, done, of);
}

/* The quantised layer whose own error is largest; NULL: none was measured. */
static const struct quantize_layer *worst_layer(const struct quantize_report *r)
{
	const struct quantize_layer *worst = NULL;
	for (int i = 0; i < r->nlayers; i++)
		if (!r->layer[i].why && r->layer[i].error > (worst ? worst->error : 0))
			worst = &r->layer[i];
	return worst;
}

/* Of a search that left no layer: what came nearest to the limit. */
static void say_least(const struct quantize_report *r)
{
	char held_out[64] = "";
	if (!r->least)
		return;
	if (r->held_out)
		snprintf(held_out, sizeof held_out, ", %.2e on %d held out", r->held_out_error, r->held_out);
	log_info(
	    "hone: of the layers that were tried alone, '%s' has the least error: %.2e on %d example%s%s",
	    r->least, r->error, r->examples, plural_s(r->examples), held_out);
}

static void warn_of_error(const struct args *a, const struct quantize_report *r)
{
	double e = fmax(r->error, r->held_out_error); /* of a NaN and a number, the number */
	const struct quantize_layer *worst = worst_layer(r);
	struct buf b = {0};
	if (!r->nquantised || !(e > CALIBRATE_LARGE) || arg_given(a, "error"))
		return;
	buf_printf(
	    &b,
	    "hone: warning: the quantised outputs differ by %.0f %% from those of floats, which is too much "
	    "for most uses. Try more examples of inputs as the model gets them in use (%d were given), "
	    "--error 0.05, which leaves the worst layers in fp32",
	    100 * e, r->examples + r->held_out);
	if (worst && arg_has(a, "keep")) {
		buf_puts(&b, ", --keep ");
		shell_word(&b, worst->name);
		buf_printf(&b, " for the worst one (%.0f %% alone)", 100 * worst->error);
	}
	buf_puts(&b, ", or, without examples, `hone tune ");
	shell_path(&b, a->pos[0]);
	buf_puts(&b, " --level w16`, which rounds weights alone, to 16 bits");
	log_info("%s", buf_str(&b));
	buf_free(&b);
}

void calibrate_warn(const struct args *a, const struct quantize_report *r)
{
	if (r->nquantised && r->error == 0)
		log_info("hone: warning: the outputs of all examples are exactly as before, so they prove "
			 "nothing: see whether the inputs have the range that the model expects (pictures: "
			 "--scale 1/255)");
	if (r->held_out_error > MUCH_WORSE * r->error)
		log_info("hone: warning: the error on examples that were held out is much larger: give more "
			 "examples, or such as the model gets in use");
	say_least(r);
	warn_of_error(a, r);
}

/* ---- hone tune ---- */

/* Of a recipe without layers: level int8 has a place of its own among the records. */
#define FLOATS                                                                                               \
	"; its kernels are those of floats, which commands find with --level int8 alone: tune it without "   \
	"--level int8 for the others"

void calibrate_words(const struct recipe *r)
{
	if (!r->layers)
		return;
	if (!r->quantised) {
		if (r->most > 0)
			table_say("int8: no layer is quantised: none keeps the error within %.2e" FLOATS,
				  r->most);
		else
			table_say("int8: no layer is quantised: each one's error alone is "
				  "above " CALIBRATE_KEEP_ABOVE ", or none has a form that can be" FLOATS);
		return;
	}
	char held_out[64] = "", most[64] = "";
	if (r->held_out)
		snprintf(held_out, sizeof held_out, ", %.2e on %d held out", r->held_out_error, r->held_out);
	if (r->most > 0)
		snprintf(most, sizeof most, "; at most %.2e was asked for", r->most);
	table_say("int8: %d of %d layer%s quantised; error of the outputs %.2e on %d example%s%s%s",
		  r->quantised, r->layers, plural_s(r->layers), r->error, r->examples, plural_s(r->examples),
		  held_out, most);
}

/* " (8 of 9 layers quantised, error 1.14e-01)"; "": the recipe was not readable. */
static void former_words(const struct recipe *r, char out[96])
{
	snprintf(out, 96, " (%d of %d layer%s quantised, error %.2e)", r->quantised, r->layers,
		 plural_s(r->layers), r->error);
	if (!r->layers)
		out[0] = 0;
}

void calibrate_former(const struct args *a, const struct tune_report *r)
{
	char former[96], more[80] = "";
	struct buf again = {0};
	former_words(&r->former, former);
	snprintf(more, sizeof more, " --level int8 --data DIR");
	if (r->former.most > 0)
		snprintf(more + strlen(more), sizeof more - strlen(more), " --error %.3g", r->former.most);
	next_words(a, "tune", a->pos[0], more, NULL, &again);
	if (r->recipe_stays)
		table_say("int8: these examples leave no layer to quantise, so the cache's recipe stays%s; "
			  "--error E "
			  "asks for a limit that is kept even then",
			  former);
	else if (r->recipe_replaced && r->recipe.quantised < r->former.quantised)
		table_say("int8: this recipe, which quantises fewer layers, takes the place of another one "
			  "that the "
			  "cache had%s; to have that one again, with DIR of its examples: "
			  "%s",
			  former, buf_str(&again));
	else if (r->recipe_replaced)
		table_say("int8: this recipe takes the place of another one that the cache had%s", former);
	buf_free(&again);
}

json_t *calibrate_json(const struct recipe *r)
{
	return !r->layers ? json_null()
			  : json_pack("{si si si si so so so}", "layer_count", r->layers, "quantized_layers",
				      r->quantised, "examples", r->examples, "held_out", r->held_out,
				      "measured_error", json_num(r->error), "held_out_error",
				      r->held_out ? json_num(r->held_out_error) : json_null(), "limit",
				      r->most > 0 ? json_num(r->most) : json_null());
}

static int find(const struct args *a, struct quantize_opts *o, struct arena *arena, struct buf *text)
{
	struct graph *g;
	struct quantize_example *example;
	struct quantize_report r;
	int rc = model_import(a, a->pos[0], &g);
	if (rc < 0)
		return rc;
	rc = calibrate_examples(a, g, arena, &example);
	if (rc >= 0)
		rc = fail_in(quantize_recipe(g, example, rc, o, arena, &r, text), "%s", a->pos[0]);
	log_live(NULL);
	if (rc >= 0)
		calibrate_warn(a, &r);
	graph_free(g);
	return rc;
}

int calibrate_recipe(const struct args *a, const struct target *t, int threads, struct arena *arena,
		     struct buf *text)
{
	struct quantize_opts o = {
	    .weight_bits = 8,
	    .ranges = RANGES_MSE,
	    .scan = CALIBRATE_SCANNED,
	    .target = t,
	    .progress = calibrate_progress,
	};
	int rc = calibrate_limit(a, "error", NULL, &o.most);
	if (!(o.most > 0)) /* the limit of a part is for those who set none for all together */
		o.keep_above = strtod(CALIBRATE_KEEP_ABOVE, NULL);
	if (rc >= 0)
		rc = machine_pool(threads, true, &o.pool);
	if (rc < 0)
		return rc;
	rc = find(a, &o, arena, text);
	pool_close(o.pool);
	return rc;
}
