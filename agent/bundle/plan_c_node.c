/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that no task describes, in plain C: Gather by indices that are data, ArgMax and ArgMin, Cast, Pad
 * with a value that is data. To add one: a row of `forms`; what it computes is in its operator's eval
 * (kernels/op_*.c). */
#include "agent/bundle/plan_c_parts.h"
#include "kernels/graph/shapes.h"
#include "kernels/group/group.h"

#include <string.h>

/* Returns whether c_dtype has a name for the type. */
static bool is_simple(enum dtype t)
{
	return t == DT_F32 || t == DT_I8 || t == DT_U8 || t == DT_I16 || t == DT_U16 || t == DT_I32 ||
	       t == DT_U32 || t == DT_I64 || t == DT_BOOL;
}

static int axis_of(const struct opctx *x)
{
	int axis = 0;
	return attr_axis(x, "axis", 0, x->in[0].shape.rank, &axis) < 0 ? -1 : axis;
}

/* Adds a call of `body` with the first input, input `second` if the node has it, output and status. */
static void add_call(struct plan_c *c, const struct pstep *ps, const struct buf *body, int64_t extent,
		     int second)
{
	struct c_place place[4];
	int n = 0;
	struct c_call call = {.extent = extent, .param = -1, .edge = -1, .alone = true};
	place[n++] = c_tensor_place(c, &ps->ctx.in[0]);
	if (second < ps->ctx.nin)
		place[n++] = c_tensor_place(c, &ps->ctx.in[second]);
	place[n++] = c_tensor_place(c, &ps->ctx.out[0]);
	place[n++] = (struct c_place){C_STATUS, 0};
	call.fn = c_function(c, body);
	call.place = c_places(c, place, n);
	call.nplaces = n;
	c_call(c, &call);
}

static void add_node(struct plan_c *c, const struct pstep *ps, const struct buf *body, int64_t extent)
{
	add_call(c, ps, body, extent, 1);
}

static bool can_gather(const struct opctx *x)
{
	int axis = axis_of(x);
	return axis >= 0 && x->in[0].shape.d[axis] > 0 &&
	       (x->in[1].dtype == DT_I64 || x->in[1].dtype == DT_I32);
}

static void put_gather(struct plan_c *c, const struct pstep *ps)
{
	struct buf b = {0};
	const struct opctx *x = &ps->ctx;
	const struct shape *s = &x->in[0].shape;
	int axis = axis_of(x);
	long long extent = s->d[axis], n = shape_count(&x->in[1].shape),
		  bytes = shape_span(s, axis + 1, s->rank) * (long long)dtype_bytes(x->in[0].dtype);
	buf_printf(&b, "\tconst char *x = buf[0];\n\tconst %s *index = buf[1];\n", c_dtype(x->in[1].dtype));
	buf_puts(&b, "\tchar *y = buf[2];\n\tint *status = buf[3];\n\t(void)param;\n"
		     "\tfor (int64_t i = begin; i < end; i++) {\n");
	buf_printf(&b, "\t\tint64_t at = index[i %% %lld];\n\t\tat += at < 0 ? %lld : 0;\n", n, extent);
	buf_printf(&b, "\t\tif (at < 0 || at >= %lld) {\n\t\t\t*status = -2;\n\t\t\tat = 0;\n\t\t}\n",
		   extent);
	buf_printf(&b, "\t\tmemcpy(y + i * %lld, x + (i / %lld * %lld + at) * %lld, %lld);\n\t}\n", bytes, n,
		   extent, bytes, bytes);
	add_node(c, ps, &b, bytes ? shape_span(s, 0, axis) * n : 0);
	buf_free(&b);
}

static bool can_arg(const struct opctx *x)
{
	return x->in[0].dtype == DT_F32 && axis_of(x) >= 0;
}

/* NaN counts as greater than all numbers (kernels/task/runs.c). */
static void put_arg(struct plan_c *c, const struct pstep *ps)
{
	static const char *const takes[2][2] = {
	    {"v > top || (v != v && top == top)", "v >= top || v != v"},
	    {"v < top || (top != top && v == v)", "v <= top || top != top"}};
	struct buf b = {0};
	const struct opctx *x = &ps->ctx;
	const struct shape *s = &x->in[0].shape;
	int axis = axis_of(x);
	bool least = !strcmp(node_type(x->node), "ArgMin"),
	     last = node_int(x->node, "select_last_index", 0) != 0;
	long long n = s->d[axis], inner = shape_span(s, axis + 1, s->rank);
	buf_puts(&b, "\tconst float *x = buf[0];\n\tint64_t *y = buf[1];\n\t(void)param;\n"
		     "\tfor (int64_t i = begin; i < end; i++) {\n");
	buf_printf(&b, "\t\tconst float *line = x + i / %lld * %lld + i %% %lld;\n", inner, n * inner, inner);
	buf_puts(&b, "\t\tfloat top = line[0];\n\t\ty[i] = 0;\n");
	buf_printf(&b, "\t\tfor (int64_t k = 1; k < %lld; k++) {\n\t\t\tconst float v = line[k * %lld];\n", n,
		   inner);
	buf_printf(&b, "\t\t\tif (%s) {\n\t\t\t\ttop = v;\n\t\t\t\ty[i] = k;\n\t\t\t}\n\t\t}\n\t}\n",
		   takes[least][last]);
	add_node(c, ps, &b, shape_span(s, 0, axis) * inner);
	buf_free(&b);
}

static bool can_cast(const struct opctx *x)
{
	return is_simple(x->in[0].dtype) && is_simple(x->out[0].dtype);
}

/* Casts from floats saturate, and NaN becomes 0; casts of integers wrap. The bounds as floats: above the
 * greatest value, and the least value. */
static const struct {
	enum dtype to;
	const char *above, *most, *below, *least;
} bounds[] = {
    {DT_I8, "127.0f", "INT8_MAX", "-128.0f", "INT8_MIN"},
    {DT_U8, "255.0f", "UINT8_MAX", "0.0f", "0"},
    {DT_I16, "32767.0f", "INT16_MAX", "-32768.0f", "INT16_MIN"},
    {DT_U16, "65535.0f", "UINT16_MAX", "0.0f", "0"},
    {DT_I32, "2147483648.0f", "INT32_MAX", "-2147483648.0f", "INT32_MIN"},
    {DT_U32, "4294967296.0f", "UINT32_MAX", "0.0f", "0"},
    {DT_I64, "9223372036854775808.0f", "INT64_MAX", "-9223372036854775808.0f", "INT64_MIN"},
};

static void put_cast(struct plan_c *c, const struct pstep *ps)
{
	struct buf b = {0};
	const struct tensor *x = &ps->ctx.in[0], *y = &ps->ctx.out[0];
	const char *type = c_dtype(y->dtype);
	buf_printf(&b, "\tconst %s *x = buf[0];\n\t%s *y = buf[1];\n\t(void)param;\n", c_dtype(x->dtype),
		   type);
	buf_puts(&b, "\tfor (int64_t i = begin; i < end; i++)\n\t\ty[i] = ");
	if (y->dtype == DT_BOOL)
		buf_puts(&b, "x[i] != 0");
	for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
		if (x->dtype == DT_F32 && bounds[i].to == y->dtype)
			buf_printf(&b, "x[i] != x[i] ? 0 : x[i] >= %s ? %s : x[i] <= %s ? %s : (%s)x[i]",
				   bounds[i].above, bounds[i].most, bounds[i].below, bounds[i].least, type);
	if (y->dtype != DT_BOOL && (x->dtype != DT_F32 || y->dtype == DT_F32))
		buf_printf(&b, "(%s)x[i]", type);
	buf_puts(&b, ";\n");
	add_node(c, ps, &b, shape_count(&x->shape));
	buf_free(&b);
}

/* The input that holds the value of a Pad. */
enum { PADS = 1, PAD_VALUE };

/* A Pad with a constant around its input, which crops nothing. */
static bool can_pad(const struct opctx *x)
{
	const struct tensor *t = x->nin > PADS ? &x->in[PADS] : NULL;
	bool can = x->nin == PAD_VALUE + 1 && in_there(x, PAD_VALUE) && t->data && t->dtype == DT_I64 &&
		   x->in[0].shape.rank > 0 && shape_count(&t->shape) == 2 * x->in[0].shape.rank &&
		   !strcmp(node_str(x->node, "mode", "constant"), "constant");
	for (int64_t i = 0; can && i < shape_count(&t->shape); i++)
		can = ((const int64_t *)t->data)[i] >= 0;
	return can;
}

static void put_pad(struct plan_c *c, const struct pstep *ps)
{
	struct buf b = {0};
	const struct opctx *x = &ps->ctx;
	const struct shape *from = &x->in[0].shape, *to = &x->out[0].shape;
	const int64_t *begin = x->in[PADS].data;
	int last = from->rank - 1;
	long long step = 1, bytes = (long long)dtype_bytes(x->out[0].dtype);
	buf_puts(&b, "\tconst char *x = buf[0], *value = buf[1];\n\tchar *y = buf[2];\n\t(void)param;\n"
		     "\tfor (int64_t i = begin; i < end; i++) {\n"
		     "\t\tint64_t from = 0, at;\n\t\tint in = 1;\n");
	buf_puts(&b, last > 0 ? "\t\tint64_t row = i;\n" : "");
	for (int d = last - 1; d >= 0; d--) {
		buf_printf(&b, "\t\tat = row %% %lld - %lld;\n\t\trow /= %lld;\n", (long long)to->d[d],
			   (long long)begin[d], (long long)to->d[d]);
		buf_printf(&b, "\t\tin &= at >= 0 && at < %lld;\n\t\tfrom += at * %lld;\n",
			   (long long)from->d[d], step);
		step *= from->d[d];
	}
	buf_printf(&b, "\t\tfor (int64_t o = 0; o < %lld; o++) {\n\t\t\tat = o - %lld;\n",
		   (long long)to->d[last], (long long)begin[last]);
	buf_printf(&b, "\t\t\tconst int is = in && at >= 0 && at < %lld;\n", (long long)from->d[last]);
	buf_printf(
	    &b,
	    "\t\t\tmemcpy(y + (i * %lld + o) * %lld, is ? x + (from * %lld + at) * %lld : value, %lld);\n",
	    (long long)to->d[last], bytes, (long long)from->d[last], bytes, bytes);
	buf_puts(&b, "\t\t}\n\t}\n");
	add_call(c, ps, &b, shape_span(to, 0, last), PAD_VALUE);
	buf_free(&b);
}

static const struct {
	const char *type;
	bool (*can)(const struct opctx *x);
	void (*put)(struct plan_c *c, const struct pstep *ps);
} forms[] = {
    {"Gather", can_gather, put_gather}, {"ArgMax", can_arg, put_arg}, {"ArgMin", can_arg, put_arg},
    {"Cast", can_cast, put_cast},       {"Pad", can_pad, put_pad},
};

static int form_of(const struct opctx *x)
{
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (!strcmp(forms[i].type, node_type(x->node)))
			return forms[i].can(x) ? (int)i : -1;
	return -1;
}

bool c_node_has_form(const struct pstep *ps)
{
	return form_of(&ps->ctx) >= 0;
}

static struct tensor *tensors_of(struct arena *a, const struct graph *g, const int *value, int n)
{
	struct tensor *t = ARENA_ARRAY(a, struct tensor, n + 1);
	for (int i = 0; i < n; i++)
		if (value[i] >= 0)
			t[i] = g->value[value[i]].t;
	return t;
}

bool plan_c_has_form(const struct graph *g, int node)
{
	struct arena a = {0};
	const struct node *n = &g->node[node];
	const struct opctx x = {.node = n,
				.code = n->op->rows[n->row].code,
				.opset = n->opset,
				.arena = &a,
				.nin = n->nin,
				.nout = n->nout,
				.in = tensors_of(&a, g, n->in, n->nin),
				.out = tensors_of(&a, g, n->out, n->nout)};
	bool has = step_any_layout(g, node) || form_of(&x) >= 0;
	arena_free(&a);
	return has;
}

void c_node(struct plan_c *c, const struct pstep *ps)
{
	if (shape_count(&ps->ctx.out[0].shape) > 0) /* else there is nothing to do, and no divisor but 0 */
		forms[form_of(&ps->ctx)].put(c, ps);
	c->portable++;
}
