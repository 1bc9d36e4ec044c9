/* SPDX-License-Identifier: Apache-2.0 */
/* What the owner of a board submits: the file that `hone bench --submit` writes, and from which a maintainer
 * adds a row to configs/boards/PREDICTED.md. It identifies the kind of board and how it ran, but neither the
 * board itself nor its owner: it has no host name, no path and no serial number.
 *
 * The file is one JSON object (times in ms, temperatures in thousandths of a degree Celsius):
 *
 *   {"made_by": "hone bench --submit", "format": 1, "hone": "0.1.0", "date": "2026-11-28",
 *    "board": {"file": "rpi4", "model": "Raspberry Pi 4 Model B Rev 1.4", "soc", "revision", "mode", "isa",
 *              "cpu", "cores", "lanes", "regs", "l1_bytes", "l2_bytes", "l3_bytes", "gflops_per_core",
 *              "read_gbs": [L1, L2, L3, memory], "kernel": "6.6.31"},
 *    "network": {"name": "mobilenet_v2", "sha256": of its file, "gflop", "kernels"},
 *    "run": {"threads", "level", "rounds", "governor", "clock_mhz", "clock_most_mhz", "temp_before_mc",
 *            "temp_after_mc", "throttled_before", "share_pct", "others_pct"},
 *    "check": {"outputs", "max_rel_err"},
 *    "times": {"fallback": {"median", "low", "high", "min", "p90"}, "default": ..., "tuned": ...},
 *    "sum": SHA-256 of the rest}
 *
 * Clocks are averages over the policies of cpufreq. Each member is there once; a text that is not known is
 * "-", a number -1. The sum is over the object without it, as compact JSON with sorted names and six digits
 * of a real number. It shows that a value was changed by mistake; who means to deceive can compute it, so it
 * is no signature. */
#ifndef TOOLS_SUBMISSION_H
#define TOOLS_SUBMISSION_H

#include "platform/base/buf.h"
#include "platform/base/err.h"
#include <stddef.h>
#include <stdint.h>

enum { SUBMISSION_FORMAT = 1, SUBMISSION_BYTES = 64 << 10, SUBMISSION_TEXT = 96 };
enum submission_kernels { SUBMIT_FALLBACK, SUBMIT_DEFAULT, SUBMIT_TUNED, SUBMIT_KINDS };

struct submission_times {
	double median, low, high, min, p90; /* ms; low and high: 95 % interval of the median */
};

struct submission {
	char hone[SUBMISSION_TEXT], date[SUBMISSION_TEXT];
	struct {
		char file[SUBMISSION_TEXT], model[SUBMISSION_TEXT], soc[SUBMISSION_TEXT],
		    revision[SUBMISSION_TEXT], mode[SUBMISSION_TEXT], isa[SUBMISSION_TEXT],
		    cpu[SUBMISSION_TEXT], kernel[SUBMISSION_TEXT];
		int64_t cores, lanes, regs, l1_bytes, l2_bytes, l3_bytes;
		double gflops_per_core, read_gbs[4];
	} board;
	struct {
		char name[SUBMISSION_TEXT], sha256[65];
		double gflop;
		int64_t kernels;
	} network;
	struct {
		char level[SUBMISSION_TEXT], governor[SUBMISSION_TEXT];
		int64_t threads, rounds, clock_mhz, clock_most_mhz, temp_before_mc, temp_after_mc;
		int64_t throttled_before;      /* since the board started, 1: yes, 0: no, -1: not known */
		int64_t share_pct, others_pct; /* as in struct disturbance */
	} run;
	struct {
		int64_t outputs;
		double max_rel_err;
	} check;
	struct submission_times times[SUBMIT_KINDS];
};

extern const char *const submission_kind[SUBMIT_KINDS]; /* "fallback", "default", "tuned" */
/* Appends the file's text. E_CORRUPT: submission_read would refuse it. */
int submission_text(const struct submission *s, struct buf *out) MUST_CHECK;
/* Reads a file's bytes, which may come from anybody. E_CORRUPT: it is none, was changed, says what no board
 * does, or its machine was disturbed; the text says which. E_UNSUPPORTED: another version's. Fuzzed. */
int submission_read(const void *p, size_t n, struct submission *out) MUST_CHECK;
const char *submission_board(const struct submission *s); /* the board's model, else its processor's */
/* Appends the row of the table of measured boards, in Markdown, with its newline; submission_head: the two
 * lines above the rows. */
void submission_head(struct buf *out);
void submission_row(const struct submission *s, struct buf *out);

#endif
