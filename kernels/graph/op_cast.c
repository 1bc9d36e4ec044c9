/* SPDX-License-Identifier: Apache-2.0 */
/* Cast and CastLike: floats to integers saturate (NaN gives 0), integers to integers wrap, anything to bool
 * is != 0. */
#include "kernels/task/runs.h"
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/walk.h"

enum { T_CAST, T_CASTLIKE };

static const struct op_row rows[] = {
    /* round_mode and saturate concern only 8-bit floats */
    {"Cast", 6, 0, 1, 1, 1, 1, T_CAST, "round_mode saturate to"},
    {"CastLike", 15, 0, 2, 2, 1, 1, T_CASTLIKE, "round_mode saturate"},
    {""},
};

static int infer(struct opctx *c)
{
	enum dtype to;
	int rc = in_need(c, 0, DTYPES_ANY);
	if (rc < 0)
		return rc;
	if (c->code == T_CASTLIKE) {
		if ((rc = in_need(c, 1, DTYPES_ANY)) < 0)
			return rc;
		to = c->in[1].dtype;
	} else if ((rc = dtype_of_onnx(node_int(c->node, "to", 0), &to)) < 0) {
		return rc;
	}
	return out_set(c, 0, to, &c->in[0].shape);
}

static int eval(struct opctx *c)
{
	const struct tensor *x = &c->in[0];
	struct tensor *y = &c->out[0];
	int64_t count = shape_count(&x->shape);
	bool real =
	    dtype_in(x->dtype, DTYPES_FLOAT) || (x->dtype == DT_U64 && dtype_in(y->dtype, DTYPES_FLOAT));
	if (x->dtype == DT_F32 && run_cast(x->data, y->dtype, y->data, count))
		return E_OK;
	for (int64_t i = 0; i < count; i += RUN) {
		int64_t n = count - i < RUN ? count - i : RUN;
		double v[RUN];
		int64_t k[RUN];
		if (real) {
			load_f64(x, i, 1, n, v);
			store_f64(y, i, n, v);
		} else {
			load_i64(x, i, 1, n, k);
			store_i64(y, i, n, k);
		}
	}
	return E_OK;
}

const struct op op_cast = {.rows = rows, .infer = infer, .eval = eval, .task = structure_task};
