/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/halo.h"
#include "kernels/task/ref_exact.h"
#include "kernels/task/runs.h"
#include "kernels/task/task_stage.h"

#include <string.h>

struct list {
	struct arena *a;
	struct segment *p;
	int n, cap;
};

static int add_segment(struct list *l, int64_t at, int64_t n)
{
	struct segment *last = l->n ? &l->p[l->n - 1] : NULL;
	if (!n)
		return E_OK;
	if (last && last->at + last->n == at) {
		last->n += n;
		return E_OK;
	}
	if (l->n == l->cap) {
		struct segment *p = arena_try(l->a, (size_t)(l->cap = l->cap ? 2 * l->cap : 64), sizeof *p);
		if (!p)
			return E_NOMEM;
		if (l->n)
			memcpy(p, l->p, sizeof *p * (size_t)l->n);
		l->p = p;
	}
	l->p[l->n++] = (struct segment){at, n};
	return E_OK;
}

static bool has_halo(const struct operand *o, int d)
{
	return o->layout.lo[d] || o->layout.hi[d];
}

/* Row by row: a row runs along the innermost axis with a halo, and is halo itself where an outer index is. */
int halo_find(const struct operand *o, struct arena *a, struct segment **out)
{
	struct list l = {.a = a};
	struct phys_axis ax[MAX_SPLITS];
	int64_t n = operand_elems(o), at[MAX_SPLITS] = {0};
	int last = operand_axes(o, ax) - 1, rc = E_OK;
	while (last >= 0 && !has_halo(o, ax[last].dim))
		last--;
	if (last < 0)
		return 0;
	const struct phys_axis *in = &ax[last];
	int64_t row = in->extent * in->stride, lo = o->layout.lo[in->dim] * in->stride,
		hi = lo + o->dims.d[in->dim] * in->stride;
	for (int64_t i = 0; i < n && rc >= 0; i += row) {
		bool outside = false;
		for (int j = 0; j < last; j++) {
			int d = ax[j].dim;
			outside |= has_halo(o, d) &&
				   (at[j] < o->layout.lo[d] || at[j] >= o->layout.lo[d] + o->dims.d[d]);
		}
		rc = add_segment(&l, i, outside ? row : lo);
		if (rc >= 0 && !outside)
			rc = add_segment(&l, i + hi, row - hi);
		for (int j = last - 1; j >= 0 && ++at[j] == ax[j].extent; j--)
			at[j] = 0;
	}
	*out = l.p;
	return rc < 0 ? rc : l.n;
}

static void set_bytes(const struct segment *s, int n, int fill, char *buffer)
{
	for (int i = 0; i < n; i++)
		memset(buffer + s[i].at, fill, (size_t)s[i].n);
}

static void set_floats(const struct segment *s, int n, float fill, float *buffer)
{
	static const float zero;
	bool zeros = memcmp(&fill, &zero, sizeof zero) == 0; /* memset stores lines at a time */
	for (int i = 0; i < n; i++)
		if (zeros)
			memset(buffer + s[i].at, 0, (size_t)s[i].n * sizeof *buffer);
		else
			run_fill(buffer + s[i].at, s[i].n, fill);
}

void halo_set(const struct segment *s, int n, enum dtype t, float fill, void *buffer)
{
	if (dtype_is_byte(t))
		set_bytes(s, n, (int)ref_exact_byte(t, (double)fill), buffer);
	else
		set_floats(s, n, fill, buffer);
}
