/* SPDX-License-Identifier: Apache-2.0 */
/* Post-training quantisation: makes a QDQ graph of a graph of floats, by what its values are on given inputs.
 *
 * kernels/qdq/qdq.h says what is quantised, and in which form.
 *
 * Ranges contain 0. `minmax` is the range of the values; `mse` shrinks it by the factor, from 0.3 to 1, that
 * gives the least squared error of rounding and clipping. Weights are rounded to [-127, 127], or to [-63, 63]
 * where machines without dot products of bytes would saturate.
 *
 * Errors are relative: |got - fp32| / |fp32| (L2) of an output, the root of the mean of squares over inputs,
 * of the output where it is largest. The scan quantises each group of values, and the weights of each layer,
 * alone and runs the network; the root of the sum of their squares predicts the error of all together within
 * a factor of about 1.6. A part whose error alone is above `keep_above` stays fp32. Then parts go back to
 * fp32 until the prediction and, measured at the end, the error of all together, on examples that were held
 * out, too, are at most `most`: first those that make the most squared error for the products of their
 * layers, so that most of the work stays quantised. Where the examples that were held out alone are above
 * `most`, the errors of parts are those on them, if these are larger. Where that order leaves no layer, each
 * layer is tried, first alone, then with those that were within the limit (settle.c). */
#ifndef AGENT_QUANTIZE_H
#define AGENT_QUANTIZE_H

#include "kernels/graph/graph.h"
#include "platform/machine/target.h"
#include "platform/run/pool.h"

enum quantize_ranges { RANGES_MINMAX, RANGES_MSE };

/* One input of the network, as an example: a tensor for each input of the graph. */
struct quantize_example {
	const char *name; /* for errors: a file or folder */
	const struct tensor *in;
};

struct quantize_opts {
	enum quantize_ranges ranges;
	int weight_bits; /* 8 or 7 */
	bool no_bias_correction;
	int scan;          /* examples that the scan runs on; 0: no scan */
	double keep_above; /* 0: no limit */
	double most;       /* 0: no limit */
	int nkeep;
	const char *const *keep; /* names of layers that stay fp32 */
	const struct target *target;
	struct pool *pool;
	/* Called before each run of the network; may be NULL. */
	void (*progress)(void *ctx, const char *stage, int done, int of);
	void *ctx;
};

/* Errors of a layer, as the scan measured them; NAN: not measured. */
struct quantize_layer {
	const char *name, *type;
	struct shape weights;
	double weights_error, input_error;
	double output_error; /* 0: the output is the input of other layers, and counted there */
	double error;        /* root of the sum of the three squares */
	const char *why;     /* why it stays fp32; NULL: it is quantised */
};

struct quantize_report {
	int nlayers, nquantised;
	struct quantize_layer *layer; /* in the graph's order */
	int examples, held_out;       /* numbers of examples */
	double predicted;             /* by the scan, of what is quantised; NAN: no scan */
	/* These are the errors of all layers together; NAN: no example was held out, or none was measured. */
	double error, held_out_error;
	/* No layer is quantised: of those that were tried alone, the one with the least error, which `error`
	 * and `held_out_error` are; NULL: none was. */
	const char *least;
};

/* Quantises g, which is as import_file gave it, and which is changed. Of two or more examples every fifth, at
 * least one, is held out: it has no part in ranges and bias correction, but `most` holds for it. *out and the
 * report share names and data with g, which must outlive them; the report's rows lie in the arena. Memory:
 * the values of one run, twice. E_USAGE: g is quantised already, has no layer, an example does not fit, or no
 * layer may be quantised. E_NOTFOUND: the limits of the error leave no layer. E_CORRUPT: a value is NaN or
 * infinite on an example. Ends early with the thread's limit (platform/base/until.h). */
int quantize_graph(struct graph *g, const struct quantize_example *example, int n,
		   const struct quantize_opts *o, struct arena *a, struct quantize_report *report,
		   struct graph **out) MUST_CHECK;
/* As quantize_graph, but appends the recipe (agent/cache/recipe.h) instead of making the graph. Its weights
 * have 8 bits. If the limits leave no layer, the recipe says so. */
int quantize_recipe(struct graph *g, const struct quantize_example *example, int n,
		    const struct quantize_opts *o, struct arena *a, struct quantize_report *report,
		    struct buf *text) MUST_CHECK;

#endif
