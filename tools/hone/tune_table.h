/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of a box as a table on standard output. */
#ifndef TOOLS_TUNE_TABLE_H
#define TOOLS_TUNE_TABLE_H

#include "agent/tune/tune_model.h"
#include <stdbool.h>

/* A row for each kernel of the report, with its times, then notes on what they are; nothing, if it has no
 * kernels. device: what they run on; NULL: the processor. color: a bold header. */
void tune_table(const struct tune_report *r, const char *device, bool color);
/* The same without times, of a report for which nothing was measured. */
void tune_table_untimed(const struct tune_report *r, bool color);

/* Where a gain comes from that no row shows: "6 kernels are joined into 1, and the gain is from that, ...";
 * nothing if there are not fewer kernels than before. */
void tune_joined(const struct tune_report *r, struct buf *out);

#endif
