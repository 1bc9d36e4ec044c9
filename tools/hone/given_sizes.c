/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/given_sizes.h"

#include <string.h>

/* "?" names no size. */
static void give_name(struct onnx_look *l, const char *name, int64_t size)
{
	struct look_value *const list[] = {l->in, l->out};
	const int n[] = {l->nin, l->nout};
	if (!*name || !strcmp(name, "?"))
		return;
	for (int k = 0; k < 2; k++)
		for (int i = 0; i < n[k]; i++)
			for (int d = 0; d < list[k][i].rank; d++) {
				struct look_dim *dim = &list[k][i].dim[d];
				if (dim->size < 0 && !strcmp(dim->name, name))
					dim->size = size;
			}
}

static void give_shape(struct onnx_look *l, struct look_value *v, const struct shape *s)
{
	for (int k = 0; k < v->rank && v->rank == s->rank; k++) {
		if (v->dim[k].size < 0)
			give_name(l, v->dim[k].name, s->d[k]);
		v->dim[k].size = s->d[k];
	}
}

void given_sizes(struct onnx_look *l, const struct import_bind *bind, int n)
{
	for (int i = 0; i < n; i++) {
		struct shape s;
		if (shape_parse(bind[i].value, &s) < 0)
			continue;
		for (int k = 0; k < l->nin; k++)
			if (!strcmp(l->in[k].name, bind[i].name))
				give_shape(l, &l->in[k], &s);
		if (s.rank == 1)
			give_name(l, bind[i].name, s.d[0]);
	}
}
