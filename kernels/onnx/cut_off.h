/* SPDX-License-Identifier: Apache-2.0 */
/* Explains how to cut a model off before the nodes that hone does not support: exporters end detectors with
 * such nodes, whose work an application can do itself. */
#ifndef KERNELS_CUT_OFF_H
#define KERNELS_CUT_OFF_H

#include "platform/base/err.h"

/* The line that is added to an error begins so. */
#define CUT_OFF_ADVICE "To cut the model off "

/* Called with the error of import_file. If operators of the file are not supported, and a part of the model
 * that reads its inputs comes before them, the error's text gets a line with the command that writes that
 * part. The file is read again, and hostile ones cost no more than an import does. */
int cut_off_explain(const char *path, int rc) MUST_CHECK;

#endif
