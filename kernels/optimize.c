/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/group.h"

int graph_optimize(struct graph *g)
{
	(void)g;
	return E_OK;
}
