/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as a submission: an error, or values whose row fits the table and whose text is read back.
 */
#include "tools/hone/submission.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct submission s, t;
	struct buf row = {0}, text = {0};
	if (submission_read(p, n, &s) >= 0) {
		submission_row(&s, &row);
		if (submission_text(&s, &text) < 0 || submission_read(text.p, text.n, &t) < 0)
			abort();
		if (strchr(buf_str(&row), '<'))
			abort();
	}
	buf_free(&row);
	buf_free(&text);
	return 0;
}
