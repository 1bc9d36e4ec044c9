/* SPDX-License-Identifier: Apache-2.0 */
/* Landscapes: the measured times of a task's candidates on a machine, for judging models, comparing
 * strategies and replaying whole jobs without the machine. A folder holds one text file per task, KEY.land,
 * where KEY is 32 hex digits, a hash of the task's text. All files of a folder are of one machine, thread
 * count and state of the weights.
 *
 *	hone-landscape 1
 *	machine x86-64-v4 soc=... (platform/machine/target.h)
 *	threads 1
 *	weights cold
 *	protocol how it was measured, in words
 *	label conv 3x3 64-64 56x56 relu
 *	task syms=0
 *	... the task's canonical text to its end (kernels/task/task.h)
 *	points
 *	ok 32160 32310 10 8123456 1.0130 lane=k:16 tile=x:14,k:2 | block=y:8
 *	spill 0 0 0 9000123 0.0000 lane=k:16 tile=x:28,k:4
 *
 * A point is: status (platform/base/meas.h); ns of the fastest run; low time, ns (an estimate of the time
 * without disturbance: the lower quartile, or what the protocol says); number of runs; ns of the build; ratio
 * to the file's first candidate (median over rounds in which both ran next to each other; 0: not known);
 * candidate. Lines are only added, each by one write; a line without its end is ignored. If several lines are
 * about one candidate, the one with most runs counts; of those with equally many, one that was timed; else
 *the last one. Converting text to values and back loses nothing. */
#ifndef AGENT_LANDSCAPE_H
#define AGENT_LANDSCAPE_H

#include "platform/base/arena.h"
#include "platform/base/buf.h"
#include "platform/base/meas.h"
#include "platform/machine/target.h"

enum { LANDSCAPE_POINTS = 1 << 17, LANDSCAPE_FILES = 4096, LANDSCAPE_WORDS = 160 };

struct landscape_point {
	enum meas_status status;
	int64_t min_ns, low_ns; /* > 0 if it ran */
	int32_t runs;
	int64_t build_ns;
	double ratio; /* 4 decimals are kept */
	const char *cand;
};

struct landscape {
	const char *task, *label; /* text */
	struct target target;
	int threads;
	bool cold;            /* weights come from memory */
	const char *protocol; /* one line, shorter than LANDSCAPE_WORDS bytes, as the label */
	int n;                /* number of different candidates, in the order of the file */
	struct landscape_point *point;
};

/* Parses an untrusted text of n bytes: E_CORRUPT names the line. Texts are copied. */
int landscape_parse(const char *text, size_t n, struct arena *a, struct landscape *out) MUST_CHECK;
/* head false: only the lines of points. */
void landscape_text(const struct landscape *l, bool head, struct buf *out);
/* Reads all landscapes of a folder, sorted by file name. Returns their number; E_NOTFOUND: there is none. */
int landscape_folder(const char *dir, struct arena *a, struct landscape **out) MUST_CHECK;
/* Adds l's points to its file in the folder, and makes the folder if necessary; cuts off a torn line at the
 * end of the file. E_USAGE: the file is of another machine, thread count or state of weights. */
int landscape_append(const char *dir, const struct landscape *l) MUST_CHECK;
/* Makes a point from a measurement; cand is not copied. */
struct landscape_point landscape_point_of(const char *cand, const struct meas *m);
/* Time to rank by, ns: the low one, but at most 3 % above the fastest. 0: it never ran. Aborted points count,
 * with their first run. On a busy machine, three runs are seldom all undisturbed: between two points of the
 * same code the low time alone differs by 8 % in a quarter of all pairs, this one by 4 %. */
int64_t landscape_ns(const struct landscape *l, int point);
int landscape_find(const struct landscape *l, const char *cand); /* -1: not recorded */

#endif
