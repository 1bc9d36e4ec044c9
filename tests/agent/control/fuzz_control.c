/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as a line of the control socket: the result is an error, or a request whose line parses
 * back to itself. */
#include "agent/control/control.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct request r, again;
	struct buf one = {0}, two = {0};
	if (control_parse((const char *)p, n, &r) >= 0) {
		control_print(&r, &one);
		if (one.n < 2 || control_parse(buf_str(&one), one.n - 1, &again) < 0)
			abort();
		control_print(&again, &two);
		if (strcmp(buf_str(&one), buf_str(&two)) || r.op != again.op || r.has_id != again.has_id ||
		    r.id != again.id)
			abort();
	} else {
		control_bad(&r, E_CORRUPT, err_text(), &one);
		if (one.n > CONTROL_LINE || strchr(buf_str(&one), '\n') != one.p + one.n - 1)
			abort();
	}
	buf_free(&one);
	buf_free(&two);
	return 0;
}
