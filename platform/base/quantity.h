/* SPDX-License-Identifier: Apache-2.0 */
/* Durations and sizes as people write them, in options and in honed.conf. E_USAGE says what to write. */
#ifndef PLATFORM_QUANTITY_H
#define PLATFORM_QUANTITY_H

#include "platform/base/buf.h"
#include "platform/base/err.h"
#include <stdint.h>

/* "20s", "500ms", "2m", "1.5h", "7d", "1m30s" (from long units to short ones), "5" (seconds) -> ns. */
int duration_parse(const char *text, int64_t *ns) MUST_CHECK;
/* Writes ns >= 0 as a whole number of the longest unit (h to us) that divides it, such as "90m", for
 * messages: duration_parse reads it back. Parts of a microsecond are rounded up. */
enum { DURATION_TEXT = 24 };
void duration_print(int64_t ns, char out[DURATION_TEXT]);
/* Appends a time in seconds as people say it, rounded: "90 s", "12 min", "3 h", "5 days"; below 0: "0 s". */
void duration_words(double s, struct buf *out);
/* "32M", "512K", "1.5G" -> bytes, in powers of 1024. */
int size_parse(const char *text, int64_t *bytes) MUST_CHECK;

#endif
