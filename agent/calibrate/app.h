/* SPDX-License-Identifier: Apache-2.0 */
/* The description of an application for `hone calibrate`, an INI file:
 *
 *   [application]
 *   evaluator = ./replay.sh        a command for sh, which runs in the file's folder; without " ;", which
 *                                  begins a comment
 *   evaluations = 25               at most so many runs of it with errors
 *   timeout = 10m                  of one run
 *   wrong = 0%                     share of its answers that are wrong by chance, up to 30 %
 *   pass = 0                       the least score that is tolerated
 *   range = 0 1                    scores beyond are refused; default: all
 *
 *   [network NAME]                 1 to 4 of these
 *   path = heading.onnx            as the evaluator loads it, by libhone
 *   error = regression             classification, segmentation, detection or own
 *   most = 0.5                     the largest error that is looked at; default: 0.5 of shares, else 1
 *   output = NAME                  the output that gets the error; default: the only one
 *
 * agent/run/inject.h says what each error is; own: the evaluator makes it itself, by its own measure, and
 * `path` is not needed.
 *
 * The evaluator is asked whether the application works well enough with an error in each network's output.
 * Its answer is the last line, of the last 4 KiB that it prints, of these: `pass`, `fail` or `score X`. It
 * ends with status 0 whatever it answers, so that a script that crashes is not taken for an application that
 * fails. Any other end is a failure of the evaluator itself. Its environment has HONE_CALIBRATE (for
 * libhone), HONE_EVALUATION (the number of the run) and HONE_ERROR_NAME for each network, with the error;
 * NAME in upper case, with _ for all but letters and digits. */
#ifndef AGENT_APP_H
#define AGENT_APP_H

#include "agent/run/inject.h"
#include "platform/base/arena.h"
#include "search/boundary.h"

enum { APP_NAME = 32, APP_EVALUATIONS = 25 };

struct app_net {
	const char *name, *path, *output; /* path: absolute, or from the folder; output NULL: the only one */
	enum inject_kind kind;            /* INJECT_KINDS: own */
	bool has_kind;
	double most; /* the largest error that is looked at */
	int line;
	struct key file; /* hash_bytes of the model's file, without weights in other files */
};

struct app {
	const char *file, *folder; /* as given; the folder that it lies in */
	const char *evaluator;
	int evaluations;
	int64_t timeout_ns;
	double wrong, pass, least, most; /* least, most: of scores; infinite: any */
	int nnets;
	struct app_net net[BOUNDARY_AXES];
};

/* Reads the file, and each network's model for its key. E_USAGE: "FILE:LINE: what; what is allowed". */
int app_read(const char *path, struct arena *a, struct app *out) MUST_CHECK;
/* The same from text, without looking at the models. */
int app_parse(const char *path, const char *text, size_t n, struct arena *a, struct app *out) MUST_CHECK;
const char *app_kind_name(const struct app_net *net); /* as in the file */
/* "HONE_ERROR_HEADING" for network i. */
void app_variable(const struct app *app, int i, char out[APP_NAME + 16]);

#endif
