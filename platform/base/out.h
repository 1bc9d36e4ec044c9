/* SPDX-License-Identifier: Apache-2.0 */
/* Standard output at the end of a program: an answer that could not be written is an error. */
#ifndef PLATFORM_OUT_H
#define PLATFORM_OUT_H

#include "platform/base/err.h"

/* Writes what standard output still keeps. E_IO: it, or an earlier part, was not written. */
int out_flush(void) MUST_CHECK;
/* The same at the end of a program: logs the error. Returns the exit status: `status`, or 1. */
int out_end(int status) MUST_CHECK;

#endif
