/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of cuDNN, cuBLAS and cuBLASLt that tools/peers/gpu_libs.py calls, for the libraries of the tests,
 * which compute on the CPU: tests/lib/fake_cudnn.c and tests/lib/fake_cublas.c. Where NVIDIA's headers are
 * installed, they declare all that, so that whatever differs there fails to compile.
 *
 * FAKE_LIBRARIES, a list of words, says how they lie:
 *   wrong-NAME    algorithm 1 of cudnn, the first math mode of cublas or heuristic 1 of cublaslt answers
 * wrong part-NAME     all of them leave the last element of the result unwritten refuse-NAME   all of them
 * are refused fast-NAME     its calls take no time; those of the others take a while, which shows where
 * FAKE_CUDA refuses graphs */
#ifndef TESTS_FAKE_LIBRARIES_H
#define TESTS_FAKE_LIBRARIES_H

#if defined __has_include
#if __has_include(<cudnn.h>) && __has_include(<cublasLt.h>)
#define HAS_HEADERS
#endif
#endif

#ifdef HAS_HEADERS
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wpedantic"
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cudnn.h>
#pragma GCC diagnostic pop
#else
#include <stddef.h>
#include <stdint.h>
typedef struct CUstream_st *cudaStream_t;
typedef enum { CUDA_R_32F = 0, CUDA_R_16F = 2 } cudaDataType;
typedef cudaDataType cudaDataType_t;
typedef enum { CUDNN_STATUS_SUCCESS = 0, CUDNN_STATUS_NOT_SUPPORTED = 3000 } cudnnStatus_t;
typedef enum { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_HALF = 2 } cudnnDataType_t;
typedef enum { CUDNN_TENSOR_NCHW = 0 } cudnnTensorFormat_t;
typedef enum { CUDNN_CONVOLUTION = 0, CUDNN_CROSS_CORRELATION = 1 } cudnnConvolutionMode_t;
typedef enum { CUDNN_DEFAULT_MATH = 0, CUDNN_TENSOR_OP_MATH = 1, CUDNN_FMA_MATH = 3 } cudnnMathType_t;
typedef enum { CUDNN_DETERMINISTIC = 1 } cudnnDeterminism_t;
typedef enum { CUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8 } cudnnConvolutionFwdAlgo_t;
typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef struct {
	cudnnConvolutionFwdAlgo_t algo;
	cudnnStatus_t status;
	float time;
	size_t memory;
	cudnnDeterminism_t determinism;
	cudnnMathType_t mathType;
	int reserved[3];
} cudnnConvolutionFwdAlgoPerf_t;
typedef enum {
	CUBLAS_STATUS_SUCCESS = 0,
	CUBLAS_STATUS_INVALID_VALUE = 7,
	CUBLAS_STATUS_NOT_SUPPORTED = 15
} cublasStatus_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;
typedef enum {
	CUBLAS_DEFAULT_MATH = 0,
	CUBLAS_PEDANTIC_MATH = 2,
	CUBLAS_TF32_TENSOR_OP_MATH = 3
} cublasMath_t;
typedef enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 } cublasComputeType_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1 } cublasGemmAlgo_t;
typedef struct cublasContext *cublasHandle_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct {
	uint64_t data[32];
} cublasLtMatmulDescOpaque_t;
typedef struct {
	uint64_t data[8];
} cublasLtMatrixLayoutOpaque_t, cublasLtMatmulPreferenceOpaque_t, cublasLtMatmulAlgo_t;
typedef cublasLtMatmulDescOpaque_t *cublasLtMatmulDesc_t;
typedef cublasLtMatrixLayoutOpaque_t *cublasLtMatrixLayout_t;
typedef cublasLtMatmulPreferenceOpaque_t *cublasLtMatmulPreference_t;
typedef enum {
	CUBLASLT_MATMUL_DESC_TRANSA = 3,
	CUBLASLT_MATMUL_DESC_TRANSB = 4
} cublasLtMatmulDescAttributes_t;
typedef enum {
	CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
	CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6
} cublasLtMatrixLayoutAttribute_t;
typedef enum { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1 } cublasLtMatmulPreferenceAttributes_t;
typedef struct {
	cublasLtMatmulAlgo_t algo;
	size_t workspaceSize;
	cublasStatus_t state;
	float wavesCount;
	int reserved[4];
} cublasLtMatmulHeuristicResult_t;
#endif

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SEEN __attribute__((visibility("default")))

/* A copy of n floats or halves as floats, which the caller frees: each half is converted once, which is slow.
 */
static inline float *library_floats(const void *at, int64_t n, bool half)
{
	float *out = malloc((size_t)n * sizeof *out);
	for (int64_t i = 0; out && i < n; i++)
		out[i] = half ? (float)((const _Float16 *)at)[i] : ((const float *)at)[i];
	return out;
}

static inline void library_set(void *at, int64_t i, bool half, float v)
{
	if (half)
		((_Float16 *)at)[i] = (_Float16)v;
	else
		((float *)at)[i] = v;
}

static inline bool library_lies(const char *how, const char *name)
{
	const char *all = getenv("FAKE_LIBRARIES");
	char word[64];
	snprintf(word, sizeof word, " %s-%s ", how, name);
	char list[256];
	snprintf(list, sizeof list, " %s ", all ? all : "");
	return strstr(list, word) != NULL;
}

/* Waits in each call of a product, so that another library is the fastest. */
static inline void library_waits(const char *name)
{
	const char *all = getenv("FAKE_LIBRARIES");
	if (all && strstr(all, "fast-") && !library_lies("fast", name))
		nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
}

#endif
