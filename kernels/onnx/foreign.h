/* SPDX-License-Identifier: Apache-2.0 */
/* Model files of other programs, recognised by their first bytes, so that an error can name the file's format
 * and the converter. Nothing is parsed beyond that. */
#ifndef KERNELS_FOREIGN_H
#define KERNELS_FOREIGN_H

#include "platform/base/err.h"
#include <stddef.h>

/* Explains why these bytes, which are not ONNX, cannot be imported: E_CORRUPT with one line that names the
 * format and what to do. Returns rc, and keeps its text, if the format is not known. path: for the command
 * that the line shows; NULL: in memory. */
int foreign_explain(int rc, const void *p, size_t n, const char *path) MUST_CHECK;
/* The same for a folder of a known kind, such as a SavedModel. E_OK: it is none. */
int foreign_folder(const char *path) MUST_CHECK;

/* Returns what a file with these first bytes is, as the end of a sentence that begins with "it is": "an ONNX
 * model", a model of another format, an archive, a picture. NULL: none of these. */
const char *foreign_name(const void *p, size_t n);

#endif
