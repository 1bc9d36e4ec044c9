/* SPDX-License-Identifier: Apache-2.0 */
/* Charts as inline SVG, for pages that need nothing else: no scripts, no fonts, no network. Colours follow
 * the page's style sheet (chart_style), for light and dark. Text from outside is escaped. */
#ifndef TOOLS_CHART_H
#define TOOLS_CHART_H

#include "agent/history.h"
#include "platform/buf.h"
#include "platform/target.h"

struct chart_kernel {
	const char *name, *label;
	double before_ns, after_ns; /* > 0 */
	double flops, bytes;        /* 0: none */
};

void chart_style(struct buf *out);                    /* the rules inside of <style> */
void chart_escape(const char *text, struct buf *out); /* for HTML text and attributes */
/* Rates against flops per byte, logarithmic, under the roofs of `cores` cores; a point's area is its share of
 * the time. Kernels without flops are left out. */
void chart_roofline(const struct target *t, int cores, const struct chart_kernel *k, int n, struct buf *out);
/* A row per kernel, in the order given: time before and after, to one scale. */
void chart_bars(const struct chart_kernel *k, int n, struct buf *out);
/* Sum of the kernels' best times by time. n > 1. */
void chart_history(const struct history *h, struct buf *out);

#endif
