/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/out.h"
#include "platform/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int out_flush(void)
{
	bool lost = ferror(stdout); /* the reason of that write is no longer known: another one tells it */
	errno = 0;
	if (lost) {
		clearerr(stdout);
		putchar('\n');
	}
	if (fflush(stdout) == 0 && !lost)
		return E_OK;
	return fail(E_IO, "standard output: %s; nothing after that was written",
		    errno ? strerror(errno) : "a write failed");
}

int out_end(int status)
{
	if (out_flush() >= 0)
		return status;
	log_error("%s", err_text());
	return 1;
}
