/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a plan's copies, and the halos that it fills, as C. */
#include "agent/bundle/plan_c_parts.h"
#include "agent/run/halo.h"
#include "kernels/task/ref_exact.h"
#include "kernels/task/task_stage.h"

#include <string.h>

enum { ALONE_BYTES = 16384 }; /* as agent/run/plan_copy.c */

static void put_indent(struct buf *b, int depth)
{
	for (int i = 0; i < depth; i++)
		buf_puts(b, "\t");
}

/* Writes an odd dim's offset at index `o<number>`. */
static void put_odd(struct buf *b, const struct window_dim *x, int number)
{
	if (x->block > 1)
		buf_printf(b, " + (o%d + %lld) / %lld * %lld + (o%d + %lld) %% %lld * %lld", number,
			   (long long)x->first, (long long)x->block, (long long)x->outer, number,
			   (long long)x->first, (long long)x->block, (long long)x->inner);
	else
		buf_printf(b, " + (o%d + %lld) * %lld", number, (long long)x->first, (long long)x->inner);
}

/* Writes " + l0 * 3 + ..." for one of the two tensors: all loops but the last `less`. */
static void put_element(struct buf *b, const struct window *w, bool small, int less)
{
	buf_printf(b, "%lld", (long long)(small ? w->s0 : w->b0));
	for (int k = 0; k < w->nodd; k++)
		put_odd(b, small ? &w->odd[k].s : &w->odd[k].b, k);
	for (int k = 0; k < w->nloops - less; k++)
		buf_printf(b, " + l%d * %lld", k, (long long)(small ? w->loop[k].s : w->loop[k].b));
}

/* Writes a window as loops around one assignment, or around a memcpy of the innermost loop; `small` and `big`
 * are the two tensors' names. */
static void put_window(struct buf *b, const struct window *w, bool into)
{
	int depth = 1, last = w->nloops - 1;
	bool line = last >= 0 && w->loop[last].s == 1 && w->loop[last].b == 1 && w->shared != last;
	for (int k = 0; k < w->nodd; k++) {
		put_indent(b, depth++);
		buf_printf(b, "for (int64_t o%d = 0; o%d < %lld; o%d++)\n", k, k, (long long)w->odd[k].n, k);
	}
	for (int k = 0; k <= last - line; k++) {
		put_indent(b, depth++);
		if (k == w->shared)
			buf_printf(b, "for (int64_t l%d = begin; l%d < end; l%d++)\n", k, k, k);
		else
			buf_printf(b, "for (int64_t l%d = 0; l%d < %lld; l%d++)\n", k, k,
				   (long long)w->loop[k].n, k);
	}
	put_indent(b, depth);
	buf_puts(b, line ? "memcpy(to + " : "to[");
	put_element(b, w, !into, line);
	buf_puts(b, line ? ", from + " : "] = from[");
	put_element(b, w, into, line);
	if (line)
		buf_printf(b, ", %lld * sizeof *to);\n", (long long)w->loop[last].n);
	else
		buf_puts(b, "];\n");
}

static void add_copy(struct plan_c *c, const struct buf *body, struct c_place from, struct c_place to,
		     int64_t extent, int64_t bytes)
{
	const struct c_place place[2] = {from, to};
	struct c_call call = {
	    .extent = extent, .param = -1, .edge = -1, .nplaces = 2, .alone = bytes < ALONE_BYTES};
	call.fn = c_function(c, body);
	call.place = c_places(c, place, 2);
	c_call(c, &call);
}

void c_copy(struct plan_c *c, const struct window *w, enum dtype t, bool into, struct c_place from,
	    struct c_place to)
{
	struct buf b = {0};
	int64_t bytes = w->unit;
	const char *type = w->unit == 1 ? "unsigned char" : t == DT_I32 ? "int32_t" : "float";
	for (int k = 0; k < w->nloops; k++)
		bytes *= w->loop[k].n;
	for (int k = 0; k < w->nodd; k++)
		bytes *= w->odd[k].n;
	buf_printf(&b, "\tconst %s *restrict from = buf[0];\n\t%s *restrict to = buf[1];\n\t(void)param;\n",
		   type, type);
	if (w->shared < 0)
		buf_puts(&b, "\t(void)begin;\n\t(void)end;\n");
	put_window(&b, w, into);
	if (bytes)
		add_copy(c, &b, from, to, window_extent(w), bytes);
	buf_free(&b);
}

void c_copy_bytes(struct plan_c *c, int64_t bytes, struct c_place from, struct c_place to)
{
	struct buf b = {0};
	buf_puts(&b, "\tconst char *from = buf[0];\n\tchar *to = buf[1];\n\t(void)param;\n"
		     "\tmemcpy(to + begin, from + begin, (size_t)(end - begin));\n");
	if (bytes)
		add_copy(c, &b, from, to, bytes, bytes);
	buf_free(&b);
}

/* ---- halos ---- */

/* Writes a halo's table; segments of one length at equal distances become one row. Returns the number of
 * rows. */
static int put_halo(struct buf *b, const struct segment *s, int n)
{
	int rows = 0;
	for (int i = 0, k; i < n; i = k, rows++) {
		int64_t step = i + 1 < n ? s[i + 1].at - s[i].at : 0;
		for (k = i + 1; k < n && s[k].n == s[i].n && s[k].at - s[k - 1].at == step; k++)
			;
		buf_printf(b, "\t{%lld, %lld, %d, %lld},\n", (long long)s[i].at, (long long)s[i].n, k - i,
			   (long long)step);
	}
	return rows;
}

/* Writes a row of a table of edges; the halo's own table is written before it. */
static void put_edge(struct plan_c *c, int v, struct buf *edges)
{
	const struct place *x = &c->p->place[v];
	struct buf rows = {0};
	int n = put_halo(&rows, x->halo, x->nhalo), table = c->ntables++;
	buf_printf(&c->tables, "static const struct halo h%d[] = {\n%s};\n", table, buf_str(&rows));
	buf_printf(edges, "\t{%lld, ", (long long)c_place_of(c, (void *const *)&x->p).at);
	const struct operand *o = &c->p->s->value[v].buf;
	bool bytes = dtype_is_byte(o->dtype);
	c_float(edges, bytes ? (float)ref_exact_byte(o->dtype, (double)o->fill) : o->fill);
	buf_printf(edges, ", %d, %d, h%d},\n", bytes ? 1 : (int)sizeof(float), n, table);
	c->tables.failed |= rows.failed;
	buf_free(&rows);
}

int c_edges(struct plan_c *c, const int *value, int n)
{
	struct buf edges = {0};
	for (int i = 0; i < n; i++)
		put_edge(c, value[i], &edges);
	buf_printf(&c->tables, "static const struct edge e%d[] = {\n%s};\n", c->ntables, buf_str(&edges));
	c->tables.failed |= edges.failed;
	buf_free(&edges);
	return c->ntables++;
}

void c_refill(struct plan_c *c, int value)
{
	struct buf b = {0};
	struct c_call call = {.extent = 1, .param = -1, .place = -1, .nedges = 1, .alone = true};
	if (!c->p->place[value].nhalo)
		return;
	buf_puts(&b, "\t(void)buf;\n\t(void)param;\n\t(void)begin;\n\t(void)end;\n");
	call.fn = c_function(c, &b);
	call.edge = c_edges(c, &value, 1);
	c_call(c, &call);
	buf_free(&b);
}

void c_fixed_edges(struct plan_c *c)
{
	for (int v = 0; v < c->p->s->nvalues; v++)
		if (c->p->place[v].nhalo && !c->p->place[v].refill)
			put_edge(c, v, &c->fixed);
}
