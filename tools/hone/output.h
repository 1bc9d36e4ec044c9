/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the files that a command is to write, before it does any work. A command replaces a file only if it
 * is empty, or begins with the bytes with which the command begins such files, so that a wrong name costs
 * nobody a file. A link counts as the file that it leads to. */
#ifndef TOOLS_OUTPUT_H
#define TOOLS_OUTPUT_H

#include "tools/hone/cmd.h"

#include <limits.h>
#include <time.h>

/* How the files begin that commands write. ~ stands for lower-case letters. */
#define OUTPUT_BEGINS_ONNX "\x08\x08\x12" /* ir_version 8; the length of the producer's name comes next */
#define OUTPUT_ZOO OUTPUT_BEGINS_ONNX "\x04hone"
#define OUTPUT_QUANTIZED OUTPUT_BEGINS_ONNX "\x0d" OUTPUT_BY_QUANTIZE
#define OUTPUT_BISECTED OUTPUT_BEGINS_ONNX "\x0b" OUTPUT_BY_VERIFY
#define OUTPUT_RECORDS "{\"type\":\"~\",\"key\":\""
#define OUTPUT_TRACE "{\"traceEvents\":[{\"name\":\"thread_name\",\"ph\":\"M\","
#define OUTPUT_REPORT "<!DOCTYPE html>\n<!-- hone report -->\n"
#define OUTPUT_PACK "HSEG"
#define OUTPUT_SIGNED_PACK "hone-signed 1 pack "
#define OUTPUT_SIGNED_ROOT "hone-signed 1 root "
#define OUTPUT_BUGREPORT "== version: version of hone and of the running honed\n"
#define OUTPUT_IMAGE "HIM" /* of any version of the format */
#define OUTPUT_BUNDLE "{\n \"made_by\": \"hone compile\""
#define OUTPUT_SUBMISSION "{\n \"made_by\": \"hone bench --submit\""
#define OUTPUT_OBJECT                                                                                        \
	"\x7f"                                                                                               \
	"ELF"
#define OUTPUT_NPY "\x93NUMPY"
#define OUTPUT_ANY ""

/* Producers of models (export_file_by). */
#define OUTPUT_BY_QUANTIZE "hone quantize"
#define OUTPUT_BY_VERIFY "hone verify"

/* Checks that a file of this name can be written, as -o or another option names it. `to` gets the path to
 * write: a link's target, else the name itself. E_USAGE: it is a model that the command reads, a file that
 * the command did not write, or "-". E_IO: it is a device or a folder, or cannot be written. */
int output_file(const struct args *a, const char *name, const char *begins, char to[PATH_MAX]) MUST_CHECK;
/* The same for a file in a folder that an option names, which need not exist; file_can_mkdirs checks the
 * folder. begins NULL: only an empty file is replaced. Returns 1 if an earlier run's file is there, 0 if
 * there is none or an empty one. */
int output_in(const struct args *a, const char *path, const char *begins) MUST_CHECK;
/* The part of them that asks whether the command may replace the file. `other` ("file", "folder"): what the
 * error says to name instead. */
int output_replaces(const struct args *a, const char *path, const char *begins, const char *other) MUST_CHECK;
/* Whether an entry of the open folder is a regular file of this user, no link, that is empty or begins so.
 * Then *written becomes the time of its last write, in seconds, if that is later. */
bool output_begins_at(int dir, const char *name, const char *begins, time_t *written);
/* Fails with E_USAGE: the file exists, and this command did not write it. */
int output_foreign(const struct args *a, const char *path, const char *other) MUST_CHECK;

#endif
