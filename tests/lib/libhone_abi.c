/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what programs built with hone.h rely on: sizes, offsets, numbers. tests/sh/libhone.sh adds symbols
 * and declarations and compares all with tests/lib/libhone.abi, to which lines are only ever added: at the
 * ends of structures. `sh tests/sh/libhone.sh BUILD golden` writes it anew. */
#include "agent/run/hone.h"

#include <stdio.h>

#define SIZE(s) printf("sizeof %s %lu\n", #s, (unsigned long)sizeof(struct s))
#define AT(s, f) printf("offset %s.%s %lu\n", #s, #f, (unsigned long)offsetof(struct s, f))
#define NUMBER(n) printf("number %s %d\n", #n, (int)n)

static void numbers(void)
{
	NUMBER(HONE_OK), NUMBER(HONE_USAGE), NUMBER(HONE_NOMEM), NUMBER(HONE_IO), NUMBER(HONE_CORRUPT);
	NUMBER(HONE_UNSUPPORTED), NUMBER(HONE_NOTFOUND), NUMBER(HONE_TIMEOUT), NUMBER(HONE_BUSY);
	NUMBER(HONE_STOPPED), NUMBER(HONE_F32), NUMBER(HONE_F64), NUMBER(HONE_F16), NUMBER(HONE_BF16);
	NUMBER(HONE_I8), NUMBER(HONE_U8), NUMBER(HONE_I16), NUMBER(HONE_U16), NUMBER(HONE_I32);
	NUMBER(HONE_U32), NUMBER(HONE_I64), NUMBER(HONE_U64), NUMBER(HONE_BOOL), NUMBER(HONE_MAX_RANK);
	NUMBER(HONE_EXACT), NUMBER(HONE_NO_PIN), NUMBER(HONE_KEEP_IMAGES), NUMBER(HONE_VERBOSE),
	    NUMBER(HONE_W16), NUMBER(HONE_INT8), NUMBER(HONE_HALF), NUMBER(HONE_HALF_SUM),
	    NUMBER(HONE_NEEDS_RECIPE);
	NUMBER(HONE_TUNED), NUMBER(HONE_DEFAULT), NUMBER(HONE_FALLBACK), NUMBER(HONE_PORTABLE);
	NUMBER(HONE_GEMM), NUMBER(HONE_CONV2D), NUMBER(HONE_NONE), NUMBER(HONE_RELU), NUMBER(HONE_RELU6);
}

static void options(void)
{
	AT(hone_options, size), AT(hone_options, caches), AT(hone_options, ncaches);
	AT(hone_options, threads), AT(hone_options, flags), AT(hone_options, device);
	SIZE(hone_options);
	AT(hone_load_options, size), AT(hone_load_options, shapes), AT(hone_load_options, nshapes);
	SIZE(hone_load_options);
}

static void answers(void)
{
	AT(hone_tensor, size), AT(hone_tensor, name), AT(hone_tensor, dtype), AT(hone_tensor, rank);
	AT(hone_tensor, shape), AT(hone_tensor, bytes), SIZE(hone_tensor);
	AT(hone_kernel_info, size), AT(hone_kernel_info, origin), AT(hone_kernel_info, name);
	AT(hone_kernel_info, what), AT(hone_kernel_info, flops), AT(hone_kernel_info, bytes);
	SIZE(hone_kernel_info);
	AT(hone_model_info, size), AT(hone_model_info, kernels), AT(hone_model_info, threads);
	AT(hone_model_info, refreshed), AT(hone_model_info, from_image), AT(hone_model_info, load_us);
	AT(hone_model_info, weight_bytes), AT(hone_model_info, tensor_bytes), AT(hone_model_info, target);
	AT(hone_model_info, remedy), AT(hone_model_info, at_default);
	AT(hone_model_info, on_device), AT(hone_model_info, device), AT(hone_model_info, device_why);
	SIZE(hone_model_info);
}

static void wants(void)
{
	AT(hone_kernel_want, size), AT(hone_kernel_want, op), AT(hone_kernel_want, activation);
	AT(hone_kernel_want, weights), AT(hone_kernel_want, bias), AT(hone_kernel_want, m);
	AT(hone_kernel_want, n), AT(hone_kernel_want, k), AT(hone_kernel_want, batch);
	AT(hone_kernel_want, channels), AT(hone_kernel_want, height), AT(hone_kernel_want, width);
	AT(hone_kernel_want, filters), AT(hone_kernel_want, kernel_h), AT(hone_kernel_want, kernel_w);
	AT(hone_kernel_want, stride_h), AT(hone_kernel_want, stride_w), AT(hone_kernel_want, dilation_h);
	AT(hone_kernel_want, dilation_w), AT(hone_kernel_want, groups), AT(hone_kernel_want, pad_top);
	AT(hone_kernel_want, pad_left), AT(hone_kernel_want, pad_bottom), AT(hone_kernel_want, pad_right);
	SIZE(hone_kernel_want);
}

int main(void)
{
	numbers();
	options();
	answers();
	wants();
	return 0;
}
