/* SPDX-License-Identifier: Apache-2.0 */
/* Reads trace.tsv of a network (another runtime's values of every intermediate tensor for the first data
 * set), and finds our first tensor that differs. Columns: node op tensor dtype dims mean absmean absmax first
 * at_third last macs. */
#ifndef TESTS_TRACE_H
#define TESTS_TRACE_H

#include "kernels/graph/graph.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

struct trace_row {
	char op[64], tensor[512], dims[128];
	double absmean, absmax, sample[3];
};

static inline bool trace_parse(const char *line, struct trace_row *r)
{
	return sscanf(line, "%*s %63s %511[^\t] %*s %127s %*s %lf %lf %lf %lf %lf", r->op, r->tensor, r->dims,
		      &r->absmean, &r->absmax, &r->sample[0], &r->sample[1], &r->sample[2]) == 8;
}

static inline bool trace_agrees(const struct trace_row *r, const struct tensor *t)
{
	int64_t n = shape_count(&t->shape);
	double sum = 0, tol = 1e-3 * r->absmax + 1e-6;
	const int64_t at[] = {0, n / 3, n - 1};
	for (int64_t i = 0; i < n; i++)
		sum += fabs(tensor_get(t, i));
	bool same = n == 0 || fabs(sum / (double)n - r->absmean) <= tol;
	for (int i = 0; n && i < 3; i++)
		same = same && fabs(tensor_get(t, at[i]) - r->sample[i]) <= tol;
	return same;
}

/* t: all values of g after a run on the first data set. */
static inline void trace_first_wrong(const char *path, const struct graph *g, const struct tensor *t,
				     char out[1024])
{
	char line[4096];
	struct trace_row r;
	FILE *f = fopen(path, "r");
	snprintf(out, 1024, "no tensor of %.400s differs", path);
	while (f && fgets(line, sizeof line, f)) {
		if (!trace_parse(line, &r))
			continue;
		for (int v = 0; v < g->nvalues; v++)
			if (!strcmp(g->value[v].name, r.tensor) && t[v].data && !trace_agrees(&r, &t[v])) {
				snprintf(out, 1024, "first wrong tensor: '%.400s' (%s) of %s", r.tensor, r.op,
					 r.dims);
				fclose(f);
				return;
			}
	}
	if (f)
		fclose(f);
}

#endif
