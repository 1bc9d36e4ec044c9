/* SPDX-License-Identifier: Apache-2.0 */
/* A cuDNN whose convolutions run on the CPU as soon as they are called (tests/lib/fake_libraries.h). It knows
 * three algorithms, and lists a fourth that is not supported and a fifth that needs too much memory. */
#include "tests/lib/fake_libraries.h"

struct cudnnContext {
	cudaStream_t stream;
};
struct cudnnTensorStruct {
	int n, c, h, w;
	cudnnDataType_t type;
};
struct cudnnFilterStruct {
	int k, c, r, s;
	cudnnDataType_t type;
};
struct cudnnConvolutionStruct {
	int pad[2], stride[2], dilation[2], groups;
	cudnnMathType_t math;
};

#define MAKE(call, type, out)                                                                                \
	SEEN cudnnStatus_t call(type *out);                                                                  \
	cudnnStatus_t call(type *out)                                                                        \
	{                                                                                                    \
		*out = calloc(1, sizeof **out);                                                              \
		return CUDNN_STATUS_SUCCESS;                                                                 \
	}
MAKE(cudnnCreate, cudnnHandle_t, handle)
MAKE(cudnnCreateTensorDescriptor, cudnnTensorDescriptor_t, desc)
MAKE(cudnnCreateFilterDescriptor, cudnnFilterDescriptor_t, desc)
MAKE(cudnnCreateConvolutionDescriptor, cudnnConvolutionDescriptor_t, desc)

static bool has_type(cudnnDataType_t type)
{
	return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF;
}

static cudnnStatus_t done(bool good)
{
	return good ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

SEEN size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void)
{
	return 91900;
}

SEEN cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t stream);
cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t stream)
{
	h->stream = stream;
	return done(stream != NULL);
}

SEEN cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format,
					      cudnnDataType_t type, int n, int c, int h, int w);
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format,
					 cudnnDataType_t type, int n, int c, int h, int w)
{
	*d = (struct cudnnTensorStruct){n, c, h, w, type};
	return done(format == CUDNN_TENSOR_NCHW && has_type(type));
}

SEEN cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type,
					      cudnnTensorFormat_t format, int k, int c, int r, int s);
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type,
					 cudnnTensorFormat_t format, int k, int c, int r, int s)
{
	*d = (struct cudnnFilterStruct){k, c, r, s, type};
	return done(format == CUDNN_TENSOR_NCHW && has_type(type));
}

SEEN cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w,
						   int u, int v, int dilation_h, int dilation_w,
						   cudnnConvolutionMode_t mode, cudnnDataType_t type);
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w, int u,
					      int v, int dilation_h, int dilation_w,
					      cudnnConvolutionMode_t mode, cudnnDataType_t type)
{
	*d = (struct cudnnConvolutionStruct){
	    {pad_h, pad_w}, {u, v}, {dilation_h, dilation_w}, 1, CUDNN_DEFAULT_MATH};
	return done(mode == CUDNN_CROSS_CORRELATION && type == CUDNN_DATA_FLOAT);
}

SEEN cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math);
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math)
{
	d->math = math;
	return done(math == CUDNN_DEFAULT_MATH || math == CUDNN_FMA_MATH || math == CUDNN_TENSOR_OP_MATH);
}

SEEN cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups);
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups)
{
	d->groups = groups;
	return done(groups > 0);
}

/* Whether the sizes go together. */
static bool agrees(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t d,
		   cudnnTensorDescriptor_t y)
{
	return x->type == w->type && x->type == y->type &&
	       (x->type == CUDNN_DATA_HALF) == (d->math == CUDNN_TENSOR_OP_MATH) &&
	       x->c == w->c * d->groups && y->n == x->n && y->c == w->k && w->k % d->groups == 0 &&
	       y->h == (x->h + 2 * d->pad[0] - (w->r - 1) * d->dilation[0] - 1) / d->stride[0] + 1 &&
	       y->w == (x->w + 2 * d->pad[1] - (w->s - 1) * d->dilation[1] - 1) / d->stride[1] + 1;
}

SEEN cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t h, const cudnnTensorDescriptor_t x,
							  const cudnnFilterDescriptor_t w,
							  const cudnnConvolutionDescriptor_t d,
							  const cudnnTensorDescriptor_t y, const int most,
							  int *count, cudnnConvolutionFwdAlgoPerf_t *out);
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t h, const cudnnTensorDescriptor_t x,
						     const cudnnFilterDescriptor_t w,
						     const cudnnConvolutionDescriptor_t d,
						     const cudnnTensorDescriptor_t y, const int most,
						     int *count, cudnnConvolutionFwdAlgoPerf_t *out)
{
	*count = 0;
	for (int i = 0; i < 5 && i < most; i++, ++*count)
		out[i] = (cudnnConvolutionFwdAlgoPerf_t){(cudnnConvolutionFwdAlgo_t)i,
							 i == 3 ? CUDNN_STATUS_NOT_SUPPORTED
								: CUDNN_STATUS_SUCCESS,
							 0.5f,
							 i == 4   ? (size_t)8 << 30
							 : i == 2 ? 4096
								  : 0,
							 CUDNN_DETERMINISTIC,
							 d->math,
							 {0}};
	return done(h && h->stream && agrees(x, w, d, y));
}

static float element(const struct cudnnTensorStruct *x, const float *at, const struct cudnnFilterStruct *w,
		     const float *filter, const struct cudnnConvolutionStruct *d, int n, int k, int oy,
		     int ox)
{
	float sum = 0;
	int first = k / (w->k / d->groups) * w->c;
	for (int c = 0; c < w->c; c++)
		for (int r = 0; r < w->r; r++)
			for (int s = 0; s < w->s; s++) {
				int iy = oy * d->stride[0] - d->pad[0] + r * d->dilation[0],
				    ix = ox * d->stride[1] - d->pad[1] + s * d->dilation[1];
				if (iy >= 0 && iy < x->h && ix >= 0 && ix < x->w)
					sum += at[((n * x->c + first + c) * x->h + iy) * x->w + ix] *
					       filter[((k * w->c + c) * w->r + r) * w->s + s];
			}
	return sum;
}

SEEN cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t h, const void *alpha,
					   const cudnnTensorDescriptor_t x, const void *at,
					   const cudnnFilterDescriptor_t w, const void *filter,
					   const cudnnConvolutionDescriptor_t d,
					   cudnnConvolutionFwdAlgo_t algo, void *space, size_t bytes,
					   const void *beta, const cudnnTensorDescriptor_t y, void *out);
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t h, const void *alpha, const cudnnTensorDescriptor_t x,
				      const void *at, const cudnnFilterDescriptor_t w, const void *filter,
				      const cudnnConvolutionDescriptor_t d, cudnnConvolutionFwdAlgo_t algo,
				      void *space, size_t bytes, const void *beta,
				      const cudnnTensorDescriptor_t y, void *out)
{
	const float *one = alpha, *none = beta;
	float off = library_lies("wrong", "cudnn") && (int)algo == 1 ? 0.5f : 0;
	bool all = !library_lies("part", "cudnn");
	if (!h->stream || *one != 1 || *none != 0 || !agrees(x, w, d, y) || library_lies("refuse", "cudnn") ||
	    (int)algo > 2 || ((int)algo == 2) != (bytes == 4096) || (space != NULL) != (bytes > 0))
		return done(false);
	library_waits("cudnn");
	bool half = x->type == CUDNN_DATA_HALF;
	float *a = library_floats(at, (int64_t)x->n * x->c * x->h * x->w, half),
	      *b = library_floats(filter, (int64_t)w->k * w->c * w->r * w->s, half);
	for (int n = 0; n < y->n; n++)
		for (int k = 0; k < y->c; k++)
			for (int oy = 0; oy < y->h; oy++)
				for (int ox = 0; ox < y->w; ox++) {
					int i = ((n * y->c + k) * y->h + oy) * y->w + ox;
					if (all || i < y->n * y->c * y->h * y->w - 1)
						library_set(out, i, half,
							    element(x, a, w, b, d, n, k, oy, ox) + off);
				}
	free(a);
	free(b);
	return done(true);
}
