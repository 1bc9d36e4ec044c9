/* SPDX-License-Identifier: Apache-2.0 */
/* Durations and sizes as people write them, in options and in honed.conf. E_USAGE says what to write. */
#ifndef PLATFORM_QUANTITY_H
#define PLATFORM_QUANTITY_H

#include "platform/base/err.h"
#include <stdint.h>

/* "20s", "500ms", "2m", "1.5h", "7d", "1m30s" (from long units to short ones), "5" (seconds) -> ns. */
int duration_parse(const char *text, int64_t *ns) MUST_CHECK;
/* "32M", "512K", "1.5G" -> bytes, in powers of 1024. */
int size_parse(const char *text, int64_t *bytes) MUST_CHECK;

#endif
