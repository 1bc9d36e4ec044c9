/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/op.h"
#include <string.h>

const struct op *op_find(const char *type, int opset, int *row)
{
	for (int f = 0; op_table[f]; f++) {
		const struct op_row *r = op_table[f]->rows;
		for (int i = 0; r[i].type[0]; i++) {
			if (strcmp(r[i].type, type))
				continue;
			bool old = r[i].since && opset < r[i].since, late = r[i].until && opset > r[i].until;
			if (opset > 0 && (old || late))
				continue;
			*row = i;
			return op_table[f];
		}
	}
	return NULL;
}
