/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as a snapshot: it is refused, or reads back the same after printing. */
#include "agent/sync/snapshot.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct arena a = {0};
	struct snapshot s, t;
	struct buf b = {0}, c = {0};
	if (snapshot_parse(p, n, &a, &s) >= 0 && snapshot_print(&s, &b) >= 0 &&
	    (snapshot_parse(b.p, b.n, &a, &t) < 0 || snapshot_print(&t, &c) < 0 || b.n != c.n ||
	     memcmp(b.p, c.p, b.n) || t.nblob != s.nblob || t.nboard != s.nboard || t.nrecord != s.nrecord))
		abort();
	buf_free(&b);
	buf_free(&c);
	arena_free(&a);
	return 0;
}
