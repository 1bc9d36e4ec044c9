/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of a box as a table on standard output. */
#ifndef TOOLS_TUNE_TABLE_H
#define TOOLS_TUNE_TABLE_H

#include "agent/tune/tune_model.h"
#include <stdbool.h>

/* A row for each kernel of the report, with its times, then notes on what they are; nothing, if it has no
 * kernels. color: a bold header. */
void tune_table(const struct tune_report *r, bool color);
/* The same without times, of a report for which nothing was measured. */
void tune_table_untimed(const struct tune_report *r, bool color);

#endif
