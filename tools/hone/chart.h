/* SPDX-License-Identifier: Apache-2.0 */
/* Charts as inline SVG, for pages that load nothing else: no scripts, no fonts, no network. Colours follow
 * the page's style sheet (chart_style), for light and dark. Text from outside is escaped. */
#ifndef TOOLS_CHART_H
#define TOOLS_CHART_H

#include "agent/cache/history.h"
#include "platform/base/buf.h"
#include "platform/machine/target.h"

struct chart_kernel {
	const char *name, *label;
	double before_ns, after_ns; /* > 0 */
	double flops, bytes;        /* 0: none */
};

void chart_style(struct buf *out);                    /* writes the rules inside of <style> */
void chart_escape(const char *text, struct buf *out); /* escapes text for HTML text and attributes */
/* Roofline chart: rates against flops per byte, logarithmic, under the roofs of `cores` cores. The area of a
 * point is the kernel's share of the time. Kernels without flops are left out. */
void chart_roofline(const struct target *t, int cores, const struct chart_kernel *k, int n, struct buf *out);
/* One row per kernel, in the order given: its time before and after, all on one scale. */
void chart_bars(const struct chart_kernel *k, int n, struct buf *out);
/* A line of a chart: n points, x ascending. Lines of the same kind have the same colour. */
struct chart_line {
	const char *name; /* in the legend; NULL: not shown there */
	int kind;         /* 0 to CHART_KINDS - 1 */
	int n;
	const double *x, *y;
};
enum { CHART_KINDS = 8, CHART_CURVES_HEIGHT = 420 };
void chart_file_begin(int height, struct buf *out); /* begins a file that holds charts, one below the other */
void chart_file_end(struct buf *out);
/* Draws shares (y) over seconds (x, logarithmic), CHART_CURVES_HEIGHT high, at vertical position `top` of a
 * file. */
void chart_curves(const char *title, double top, const struct chart_line *line, int n, struct buf *out);
/* Draws the sum of the kernels' best times over time. n > 1. */
void chart_history(const struct history *h, struct buf *out);

#endif
