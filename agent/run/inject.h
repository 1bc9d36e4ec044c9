/* SPDX-License-Identifier: Apache-2.0 */
/* Errors that are put into the outputs of models on purpose, while `hone calibrate` finds how much error an
 * application tolerates (agent/calibrate/calibrate.h). The application's evaluator runs its models through
 * libhone as ever. If $HONE_CALIBRATE names a page, a file of struct inject_page, each model whose file the
 * page knows by its bytes gets the page's error into one output after each run, and the page counts what was
 * reached, for all processes of the evaluator. libhone does nothing of this without that variable.
 *
 * The error of a network is, over all runs of an evaluation:
 *
 * - regression: the L2 norm of the output's error, as a share of the L2 norm of the output without error
 *   (root_mean_square, which the page gets from a run of the evaluator without errors). Elements get normally
 *   distributed noise.
 * - classification: the share of rows (vectors along the last dimension) whose largest element is another
 *   one. The largest and the second largest element change places.
 * - segmentation: the share of pixels whose class is another one. The output is classes x rows x columns,
 *   with or without a batch. Pixels whose two likeliest classes are closest come first; these change
 *   places.
 * - detection: the share of objects that are lost. The output has one candidate box for each index of the
 *   longer of its last two dimensions, and along the other one 4 numbers for the box (centre, size), then its
 *   scores. An object is the best candidate with a score of at least INJECT_SCORE, with all candidates that
 *   overlap it by more than half (intersection over union), but those of objects before it. When it is lost,
 *   the scores of all of these become the least score of the output.
 *
 * The page's seed and the order of runs decide which rows and objects are hit, and the noise. They are drawn
 * in blocks of INJECT_BLOCK, each of which has the page's share, or root mean square, to within one unit, and
 * so nearly have parts of a block: an evaluation with few runs has little sampling error. */
#ifndef AGENT_INJECT_H
#define AGENT_INJECT_H

#include "kernels/task/tensor.h"
#include "platform/base/hash.h"

#include <stdatomic.h>

#define INJECT_VARIABLE "HONE_CALIBRATE"
#define INJECT_SCORE 0.25f
enum { INJECT_NETS = 4, INJECT_NAME = 64, INJECT_BLOCK = 64 };

enum inject_kind {
	INJECT_REGRESSION,
	INJECT_CLASSIFICATION,
	INJECT_SEGMENTATION,
	INJECT_DETECTION,
	INJECT_KINDS
};

struct inject_net {
	struct key file;          /* hash_bytes of the model's file */
	char output[INJECT_NAME]; /* "": the model has one output */
	int32_t kind;
	int32_t unused;
	double error;            /* wanted; 0: none */
	double root_mean_square; /* of the output without error; 0: not known yet, and error is 0 */
	/* Counts of all runs so far, shared by all processes. */
	atomic_ullong runs;
	atomic_ullong units; /* elements, rows, pixels or objects; also the position in the blocks */
	atomic_ullong hit;   /* of these, rows, pixels and objects with an error */
	atomic_ullong noise; /* sum of squares of the normal numbers that were added, in 1e-6 */
	atomic_ullong bits;  /* of a double: the sum of squares of the elements without error */
};

struct inject_page {
	char magic[16]; /* INJECT_MAGIC */
	uint32_t bytes; /* sizeof(struct inject_page) */
	int32_t nnets;
	uint64_t seed;
	struct inject_net net[INJECT_NETS];
};
#define INJECT_MAGIC "hone inject 1"

struct inject;
struct hone_tensor; /* agent/run/hone.h */

/* libhone calls these in libhone-device.so (agent/run/device_lib.h). */
struct injector {
	/* Opens the page for a model, of whose outputs[n] one gets the error. model: hash_bytes of its file.
	 * *out NULL: the page does not know it. E_CORRUPT: it is no page; E_USAGE: the output is not f32, has
	 * no such name or shape, or must be named; E_IO, E_NOMEM. */
	int (*open)(const char *page, struct key model, const struct tensor *outputs,
		    const struct hone_tensor *info, int n, struct inject **out);
	/* After a run: puts the error into its output. E_NOMEM. */
	int (*run)(struct inject *x, const struct tensor *outputs);
	void (*close)(struct inject *x);
};
extern const struct injector hone_injector;

/* The error that runs have reached so far; NAN: there was no unit. */
double inject_reached(const struct inject_net *n);
const char *inject_kind_name(enum inject_kind k);

#endif
