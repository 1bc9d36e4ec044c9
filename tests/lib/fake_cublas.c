/* SPDX-License-Identifier: Apache-2.0 */
/* A cuBLAS and a cuBLASLt, whose products run on the CPU as soon as they are called
 * (tests/lib/fake_libraries.h). cuBLASLt has two heuristics, and lists a third that failed. */
#include "tests/lib/fake_libraries.h"

struct cublasContext {
	cudaStream_t stream;
	void *space;
	cublasMath_t math;
};

/* A product of matrices stored by columns. */
struct gemm {
	int trans[2];
	int64_t m, n, k, batch;
	const void *a, *b;
	void *c;
	int64_t ld[3], step[3];
	bool half;
};

static cublasStatus_t multiply(const struct gemm *g, const char *name, bool first)
{
	float off = library_lies("wrong", name) && first ? 0.5f : 0;
	bool all = !library_lies("part", name);
	if (library_lies("refuse", name))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (g->ld[0] < (g->trans[0] ? g->k : g->m) || g->ld[1] < (g->trans[1] ? g->n : g->k) ||
	    g->ld[2] < g->m)
		return CUBLAS_STATUS_INVALID_VALUE;
	library_waits(name);
	int64_t last = g->batch - 1;
	float *all_a =
		  library_floats(g->a, last * g->step[0] + g->ld[0] * (g->trans[0] ? g->m : g->k), g->half),
	      *all_b =
		  library_floats(g->b, last * g->step[1] + g->ld[1] * (g->trans[1] ? g->k : g->n), g->half);
	for (int64_t p = 0; p < g->batch; p++)
		for (int64_t n = 0; n < g->n; n++)
			for (int64_t m = 0; m < g->m; m++) {
				const float *a = all_a + p * g->step[0], *b = all_b + p * g->step[1];
				float sum = off;
				for (int64_t k = 0; k < g->k; k++)
					sum += a[g->trans[0] ? m * g->ld[0] + k : k * g->ld[0] + m] *
					       b[g->trans[1] ? k * g->ld[1] + n : n * g->ld[1] + k];
				if (all || p < g->batch - 1 || n < g->n - 1 || m < g->m - 1)
					library_set(g->c, p * g->step[2] + n * g->ld[2] + m, g->half, sum);
			}
	free(all_a);
	free(all_b);
	return CUBLAS_STATUS_SUCCESS;
}

/* ---- cuBLAS ---- */

SEEN cublasStatus_t cublasCreate_v2(cublasHandle_t *h);
cublasStatus_t cublasCreate_v2(cublasHandle_t *h)
{
	*h = calloc(1, sizeof **h);
	return CUBLAS_STATUS_SUCCESS;
}

SEEN cublasStatus_t cublasGetVersion_v2(cublasHandle_t h, int *version);
cublasStatus_t cublasGetVersion_v2(cublasHandle_t h, int *version)
{
	*version = h ? 120800 : 0;
	return CUBLAS_STATUS_SUCCESS;
}

SEEN cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t stream);
cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t stream)
{
	h->stream = stream;
	return CUBLAS_STATUS_SUCCESS;
}

SEEN cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t h, void *space, size_t bytes);
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t h, void *space, size_t bytes)
{
	h->space = space;
	return space && bytes ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

SEEN cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t math);
cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t math)
{
	h->math = math;
	return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t product(cublasHandle_t h, bool ex, const float *alpha, const float *beta,
			      const struct gemm *g)
{
	return !h->stream || !h->space || *alpha != 1 || *beta != 0
		   ? CUBLAS_STATUS_INVALID_VALUE
		   : multiply(g, "cublas", !ex && h->math != CUBLAS_PEDANTIC_MATH);
}

SEEN cublasStatus_t cublasSgemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
				   int k, const float *alpha, const float *a, int lda, const float *b,
				   int ldb, const float *beta, float *c, int ldc);
cublasStatus_t cublasSgemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
			      int k, const float *alpha, const float *a, int lda, const float *b, int ldb,
			      const float *beta, float *c, int ldc)
{
	struct gemm g = {{ta == CUBLAS_OP_T, tb == CUBLAS_OP_T}, m, n, k, 1, a, b, c, {lda, ldb, ldc}, {0}};
	return product(h, false, alpha, beta, &g);
}

SEEN cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
					      int m, int n, int k, const float *alpha, const float *a,
					      int lda, long long sa, const float *b, int ldb, long long sb,
					      const float *beta, float *c, int ldc, long long sc, int batch);
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
					 int n, int k, const float *alpha, const float *a, int lda,
					 long long sa, const float *b, int ldb, long long sb,
					 const float *beta, float *c, int ldc, long long sc, int batch)
{
	struct gemm g = {
	    {ta == CUBLAS_OP_T, tb == CUBLAS_OP_T}, m, n, k, batch, a, b, c, {lda, ldb, ldc}, {sa, sb, sc}};
	return product(h, false, alpha, beta, &g);
}

/* All of f32, or of halves, whose sums are f32. */
static bool of_one_type(cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t how)
{
	return a == b && b == c &&
	       ((a == CUDA_R_32F && how == CUBLAS_COMPUTE_32F_FAST_TF32) ||
		((a == CUDA_R_32F || a == CUDA_R_16F) && how == CUBLAS_COMPUTE_32F));
}

SEEN cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
				 int k, const void *alpha, const void *a, cudaDataType at, int lda,
				 const void *b, cudaDataType bt, int ldb, const void *beta, void *c,
				 cudaDataType ct, int ldc, cublasComputeType_t how, cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
			    const void *alpha, const void *a, cudaDataType at, int lda, const void *b,
			    cudaDataType bt, int ldb, const void *beta, void *c, cudaDataType ct, int ldc,
			    cublasComputeType_t how, cublasGemmAlgo_t algo)
{
	struct gemm g = {{ta == CUBLAS_OP_T, tb == CUBLAS_OP_T},
			 m,
			 n,
			 k,
			 1,
			 a,
			 b,
			 c,
			 {lda, ldb, ldc},
			 {0},
			 at == CUDA_R_16F};
	return of_one_type(at, bt, ct, how) && algo == CUBLAS_GEMM_DEFAULT ? product(h, true, alpha, beta, &g)
									   : CUBLAS_STATUS_INVALID_VALUE;
}

SEEN cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
					       int m, int n, int k, const void *alpha, const void *a,
					       cudaDataType at, int lda, long long sa, const void *b,
					       cudaDataType bt, int ldb, long long sb, const void *beta,
					       void *c, cudaDataType ct, int ldc, long long sc, int batch,
					       cublasComputeType_t how, cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
					  int n, int k, const void *alpha, const void *a, cudaDataType at,
					  int lda, long long sa, const void *b, cudaDataType bt, int ldb,
					  long long sb, const void *beta, void *c, cudaDataType ct, int ldc,
					  long long sc, int batch, cublasComputeType_t how,
					  cublasGemmAlgo_t algo)
{
	struct gemm g = {{ta == CUBLAS_OP_T, tb == CUBLAS_OP_T},
			 m,
			 n,
			 k,
			 batch,
			 a,
			 b,
			 c,
			 {lda, ldb, ldc},
			 {sa, sb, sc},
			 at == CUDA_R_16F};
	return of_one_type(at, bt, ct, how) && algo == CUBLAS_GEMM_DEFAULT ? product(h, true, alpha, beta, &g)
									   : CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- cuBLASLt ---- */

struct desc {
	int32_t trans[2], how;
};
struct layout {
	uint64_t rows, cols;
	int64_t ld, batch, step;
	bool half;
};

SEEN size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void)
{
	return 120800;
}

SEEN cublasStatus_t cublasLtCreate(cublasLtHandle_t *h);
cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
	*h = calloc(1, 8);
	return CUBLAS_STATUS_SUCCESS;
}

SEEN cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t how,
					     cudaDataType_t type);
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t how,
					cudaDataType_t type)
{
	*out = calloc(1, sizeof **out);
	((struct desc *)*out)->how = (int32_t)how;
	return of_one_type(type, type, type, how) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

SEEN cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
						   cublasLtMatmulDescAttributes_t what, const void *from,
						   size_t bytes);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what,
					      const void *from, size_t bytes)
{
	if ((what != CUBLASLT_MATMUL_DESC_TRANSA && what != CUBLASLT_MATMUL_DESC_TRANSB) || bytes != 4)
		return CUBLAS_STATUS_INVALID_VALUE;
	memcpy(&((struct desc *)d)->trans[what == CUBLASLT_MATMUL_DESC_TRANSB], from, 4);
	return CUBLAS_STATUS_SUCCESS;
}

SEEN cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d);
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
	free(d);
	return CUBLAS_STATUS_SUCCESS;
}

SEEN cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
					       uint64_t cols, int64_t ld);
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
					  uint64_t cols, int64_t ld)
{
	*out = calloc(1, sizeof **out);
	*(struct layout *)*out = (struct layout){rows, cols, ld, 1, 0, type == CUDA_R_16F};
	return type == CUDA_R_32F || type == CUDA_R_16F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

SEEN cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
						     cublasLtMatrixLayoutAttribute_t what, const void *from,
						     size_t bytes);
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
						cublasLtMatrixLayoutAttribute_t what, const void *from,
						size_t bytes)
{
	struct layout *to = (struct layout *)l;
	int32_t batch;
	if (what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == 4) {
		memcpy(&batch, from, 4);
		to->batch = batch;
	} else if (what == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == 8) {
		memcpy(&to->step, from, 8);
	} else {
		return CUBLAS_STATUS_INVALID_VALUE;
	}
	return CUBLAS_STATUS_SUCCESS;
}

SEEN cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l);
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
	free(l);
	return CUBLAS_STATUS_SUCCESS;
}

SEEN cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out);
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
	*out = calloc(1, sizeof **out);
	return CUBLAS_STATUS_SUCCESS;
}

SEEN cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
							 cublasLtMatmulPreferenceAttributes_t what,
							 const void *from, size_t bytes);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
						    cublasLtMatmulPreferenceAttributes_t what,
						    const void *from, size_t bytes)
{
	if (what != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES || bytes != 8)
		return CUBLAS_STATUS_INVALID_VALUE;
	memcpy(p->data, from, 8);
	return CUBLAS_STATUS_SUCCESS;
}

SEEN cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p);
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
	free(p);
	return CUBLAS_STATUS_SUCCESS;
}

enum { SPACE = 512, MAGIC = 77 };

SEEN cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
						   cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
						   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t to,
						   cublasLtMatmulPreference_t p, int most,
						   cublasLtMatmulHeuristicResult_t out[], int *count);
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
					      cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
					      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t to,
					      cublasLtMatmulPreference_t p, int most,
					      cublasLtMatmulHeuristicResult_t out[], int *count)
{
	*count = 0;
	for (int i = 0; i < 3 && i < most; i++, ++*count) {
		memset(&out[i], 0, sizeof out[i]);
		out[i].algo.data[0] = MAGIC;
		out[i].algo.data[7] = (uint64_t)i;
		out[i].workspaceSize = SPACE;
		out[i].state = i == 1 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
		out[i].wavesCount = 1;
	}
	return h && d && a && b && c == to && p->data[0] >= SPACE ? CUBLAS_STATUS_SUCCESS
								  : CUBLAS_STATUS_INVALID_VALUE;
}

SEEN cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void *alpha,
				   const void *a, cublasLtMatrixLayout_t la, const void *b,
				   cublasLtMatrixLayout_t lb, const void *beta, const void *c,
				   cublasLtMatrixLayout_t lc, void *to, cublasLtMatrixLayout_t lt,
				   const cublasLtMatmulAlgo_t *algo, void *space, size_t bytes,
				   cudaStream_t stream);
cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void *alpha, const void *a,
			      cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb,
			      const void *beta, const void *c, cublasLtMatrixLayout_t lc, void *to,
			      cublasLtMatrixLayout_t lt, const cublasLtMatmulAlgo_t *algo, void *space,
			      size_t bytes, cudaStream_t stream)
{
	const struct desc *how = (const struct desc *)d;
	const struct layout *x = (const struct layout *)la, *y = (const struct layout *)lb,
			    *z = (const struct layout *)lt;
	const float *one = alpha, *none = beta;
	int64_t k = (int64_t)(how->trans[0] ? x->rows : x->cols),
		m = (int64_t)(how->trans[0] ? x->cols : x->rows),
		n = (int64_t)(how->trans[1] ? y->rows : y->cols),
		other = (int64_t)(how->trans[1] ? y->cols : y->rows);
	if (!h || !stream || *one != 1 || *none != 0 || c != to || lc != lt || algo->data[0] != MAGIC ||
	    !space || bytes != SPACE || k != other || m != (int64_t)z->rows || n != (int64_t)z->cols ||
	    x->batch != z->batch || y->batch != z->batch || x->half != z->half || y->half != z->half)
		return CUBLAS_STATUS_INVALID_VALUE;
	struct gemm g = {
	    {how->trans[0], how->trans[1]}, m,      n, k, z->batch, a, b, to, {x->ld, y->ld, z->ld},
	    {x->step, y->step, z->step},    x->half};
	return multiply(&g, "cublaslt", !algo->data[7]);
}
