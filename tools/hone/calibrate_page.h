/* SPDX-License-Identifier: Apache-2.0 */
/* The page of `hone calibrate -o`: pictures of what is known of the tolerated errors, and all answers. */
#ifndef TOOLS_CALIBRATE_PAGE_H
#define TOOLS_CALIBRATE_PAGE_H

#include "agent/calibrate/calibrate.h"
#include "platform/base/buf.h"

#define OUTPUT_CALIBRATION "<!DOCTYPE html>\n<!-- hone calibrate -->\n"

/* A picture for each pair of networks, in which the others have no error; for one network a strip. */
void calibrate_page(const struct app *app, const struct calibrate *c, struct buf *out);
/* "heading 0.12, distance 0.3" */
void calibrate_point(const struct app *app, const double *error, struct buf *out);

#endif
