/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a model: an error or a graph, in bounded memory. */
#include "kernels/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	const struct import_opts o = {.max_bytes = 256 << 20};
	struct graph *g;
	if (import_bytes(p, n, NULL, &o, &g) < 0)
		return 0;
	struct buf b = {0};
	graph_print(g, &b);
	buf_free(&b);
	graph_free(g);
	return 0;
}
