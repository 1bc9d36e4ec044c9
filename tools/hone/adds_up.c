/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/adds_up.h"

#include "tools/hone/table.h"
#include <math.h>

#define APART 0.25      /* of the whole */
#define TIMING_NS 200.0 /* of one kernel: reading the clock, and waiting for all threads */

void adds_up_note(double sum_ns, double whole_ns, int n, const char *device, struct buf *out)
{
	char sum[24], whole[24];
	double apart = fabs(sum_ns - whole_ns);
	if (sum_ns <= 0 || whole_ns <= 0 || apart <= APART * whole_ns || apart <= TIMING_NS * n)
		return;
	buf_printf(
	    out,
	    "the kernels' times add up to %s, but the whole network takes %s: kernels are timed in other "
	    "runs, ",
	    table_ms(sum_ns / 1e6, sum), table_ms(whole_ns / 1e6, whole));
	if (device)
		buf_printf(out, "which wait for %s after each kernel, ", device);
	buf_puts(out,
		 "and other load may have slowed those or the others; compare kernels only with one another");
}
