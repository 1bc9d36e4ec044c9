/* SPDX-License-Identifier: Apache-2.0 */
/* Folders that are given in the place of a model, as those in which models are published. */
#ifndef TOOLS_IN_FOLDER_H
#define TOOLS_IN_FOLDER_H

#include "tools/hone/cmd.h"

/* E_USAGE: the argument MODEL of the command is a folder that is no model itself, but has an ONNX file, which
 * the text names. */
int in_folder_check(const struct args *a) MUST_CHECK;

#endif
