/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: Gemm (with transposes, scales and a broadcast third term) and MatMul (NumPy's rules). */
#include "kernels/graph/dense.h"
#include "kernels/graph/matmul.h"
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/walk.h"

enum { G_GEMM, G_MATMUL };

static const struct op_row rows[] = {
    {"Gemm", 7, 0, 2, 3, 1, 1, G_GEMM, "alpha beta transA transB"},
    {"MatMul", 1, 0, 2, 2, 1, 1, G_MATMUL},
    {""},
};

enum { PANEL = 256 /* columns of b that are converted to double at a time */ };

/* One matrix inside a tensor: element (i, j) is at `at` + i * row + j * col. */
struct matrix {
	const struct tensor *t;
	int64_t at, row, col;
};

static int gemm_sizes(const struct opctx *c, int64_t *m, int64_t *n, int64_t *k)
{
	int ta = node_int(c->node, "transA", 0) != 0, tb = node_int(c->node, "transB", 0) != 0;
	const struct shape *a = &c->in[0].shape, *b = &c->in[1].shape;
	if (a->rank != 2 || b->rank != 2)
		return fail(E_CORRUPT, "ranks %d and %d are not those of matrices", a->rank, b->rank);
	*m = a->d[ta];
	*k = a->d[!ta];
	*n = b->d[!tb];
	if (b->d[tb] != *k)
		return fail(E_CORRUPT, "inner sizes %lld and %lld differ", (long long)*k,
			    (long long)b->d[tb]);
	return E_OK;
}

static int infer_gemm(struct opctx *c)
{
	struct shape out = {.rank = 2}, both;
	int64_t k;
	int rc = gemm_sizes(c, &out.d[0], &out.d[1], &k);
	if (rc < 0)
		return rc;
	if (in_there(c, 2)) {
		rc = shape_broadcast(&c->in[2].shape, &out, &both);
		if (rc < 0)
			return rc;
		if (!shape_equal(&both, &out))
			return fail(E_CORRUPT, "third term does not broadcast to the product");
	}
	return out_set(c, 0, c->in[0].dtype, &out);
}

static int infer(struct opctx *c)
{
	unsigned dtypes = DTYPES_FLOAT | DTYPES_INDEX;
	int rc;
	for (int i = 0; i < 3; i++) {
		if (i == 2 && (c->code == G_MATMUL || !in_there(c, 2)))
			continue;
		if ((rc = in_need(c, i, dtypes)) < 0)
			return rc;
		if (c->in[i].dtype != c->in[0].dtype)
			return fail(E_CORRUPT, "types %s and %s differ", dtype_name(c->in[0].dtype),
				    dtype_name(c->in[i].dtype));
	}
	if (c->code == G_GEMM)
		return infer_gemm(c);
	struct matmul p;
	rc = matmul_plan(&c->in[0].shape, &c->in[1].shape, &p);
	return rc < 0 ? rc : out_set(c, 0, c->in[0].dtype, &p.out);
}

/* y[m][n] = a b in doubles; b is converted panel by panel, so that weights are never held twice. */
static int product(struct arena *arena, int64_t m, int64_t n, int64_t k, const struct matrix *a,
		   const struct matrix *b, double *y)
{
	int64_t width = n < PANEL ? n : PANEL;
	double *pa = arena_try(arena, (size_t)(m * k) + 1, sizeof *pa);
	double *pb = arena_try(arena, (size_t)(k * width) + 1, sizeof *pb);
	double *pc = arena_try(arena, (size_t)(m * width) + 1, sizeof *pc);
	if (!pa || !pb || !pc)
		return E_NOMEM;
	for (int64_t i = 0; i < m; i++)
		load_f64(a->t, a->at + i * a->row, a->col, k, pa + i * k);
	for (int64_t j = 0; j < n; j += PANEL) {
		int64_t cols = n - j < PANEL ? n - j : PANEL;
		for (int64_t p = 0; p < k; p++)
			load_f64(b->t, b->at + p * b->row + j * b->col, b->col, cols, pb + p * cols);
		matmul_f64(m, cols, k, pa, pb, pc);
		for (int64_t i = 0; i < m; i++)
			for (int64_t x = 0; x < cols; x++)
				y[i * n + j + x] = pc[i * cols + x];
	}
	return E_OK;
}

static int eval_gemm(struct opctx *c)
{
	int64_t m, n, k;
	int rc = gemm_sizes(c, &m, &n, &k);
	if (rc < 0)
		return rc;
	bool ta = node_int(c->node, "transA", 0), tb = node_int(c->node, "transB", 0);
	double alpha = node_float(c->node, "alpha", 1), beta = node_float(c->node, "beta", 1), v[RUN];
	struct matrix a = {&c->in[0], 0, ta ? 1 : k, ta ? m : 1}, b = {&c->in[1], 0, tb ? 1 : n, tb ? k : 1};
	double *y = arena_try(c->arena, (size_t)(m * n) + 1, sizeof *y);
	if (!y)
		return E_NOMEM;
	if ((rc = product(c->arena, m, n, k, &a, &b, y)) < 0)
		return rc;
	for (int64_t i = 0; i < m * n; i++)
		y[i] *= alpha;
	struct walk w;
	walk_open(&w, c->arena, 2, (int64_t[]){m, n}, 2);
	walk_like(&w, 0, &c->out[0].shape);
	if (in_there(c, 2))
		walk_like(&w, 1, &c->in[2].shape);
	for (walk_start(&w); in_there(c, 2) && !w.done; walk_next(&w))
		for (int64_t i = 0; i < w.n; i += RUN) {
			int64_t run = w.n - i < RUN ? w.n - i : RUN;
			load_f64(&c->in[2], w.at[1] + i * w.run[1], w.run[1], run, v);
			for (int64_t j = 0; j < run; j++)
				y[w.at[0] + i + j] += beta * v[j];
		}
	store_f64(&c->out[0], 0, m * n, y);
	return E_OK;
}

static int eval_matmul(struct opctx *c)
{
	struct matmul p;
	struct walk w;
	int rc = matmul_plan(&c->in[0].shape, &c->in[1].shape, &p);
	if (rc < 0)
		return rc;
	double *y = arena_try(c->arena, (size_t)(p.m * p.n) + 1, sizeof *y);
	if (!y)
		return E_NOMEM;
	walk_open(&w, c->arena, p.batch.rank, p.batch.d, 3);
	walk_like(&w, 0, &p.batch);
	walk_like(&w, 1, &p.a);
	walk_like(&w, 2, &p.b);
	struct arena scratch = {0};
	for (walk_start(&w); rc >= 0 && !w.done; walk_next(&w))
		for (int64_t i = 0; rc >= 0 && i < w.n; i++) {
			struct matrix a = {&c->in[0], (w.at[1] + i * w.run[1]) * p.m * p.k, p.k, 1};
			struct matrix b = {&c->in[1], (w.at[2] + i * w.run[2]) * p.k * p.n, p.n, 1};
			rc = product(&scratch, p.m, p.n, p.k, &a, &b, y);
			store_f64(&c->out[0], (w.at[0] + i) * p.m * p.n, p.m * p.n, y);
			arena_reset(&scratch);
		}
	arena_free(&scratch);
	return rc;
}

static int eval(struct opctx *c)
{
	return c->code == G_GEMM ? eval_gemm(c) : eval_matmul(c);
}

const struct op op_gemm = {.rows = rows, .infer = infer, .eval = eval, .task = structure_task};
