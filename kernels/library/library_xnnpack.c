/* SPDX-License-Identifier: Apache-2.0 */
/* XNNPACK: products by constant matrices, and convolutions of images whose channels are neighbours. */
#include "kernels/library/library.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of xnnpack.h. */
enum { DEPTHWISE = 1, TRANSPOSE = 1 };

static struct {
	int (*initialize)(const void *allocator);
	int (*conv)(uint32_t top, uint32_t right, uint32_t bottom, uint32_t left, uint32_t kernel_h,
		    uint32_t kernel_w, uint32_t stride_h, uint32_t stride_w, uint32_t dilation_h,
		    uint32_t dilation_w, uint32_t groups, size_t in, size_t out, size_t in_stride,
		    size_t out_stride, const float *kernel, const float *bias, float least, float greatest,
		    uint32_t flags, void **op);
	int (*conv_setup)(void *op, size_t batch, size_t h, size_t w, const float *in, float *out,
			  void *threads);
	int (*full)(size_t in, size_t out, size_t in_stride, size_t out_stride, const float *kernel,
		    const float *bias, float least, float greatest, uint32_t flags, void **op);
	int (*full_setup)(void *op, size_t batch, const float *in, float *out, void *threads);
	int (*run)(void *op, void *threads);
	int (*delete)(void *op);
} f;

struct made {
	struct hone_piece p;
	void *op;
};

static int64_t behind(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad)
{
	return (out - 1) * stride + (kernel - 1) * dilation + 1 - in - pad;
}

/* Channels are neighbours, and pixels follow each other without gaps. */
static bool is_nhwc(const struct hone_view *v, int64_t batch, int64_t c, int64_t h, int64_t w)
{
	int64_t pixel = v->stride[3] ? v->stride[3] : c;
	return (v->block == c || c == 1) && pixel >= c && (w < 2 || v->stride[3] == pixel) &&
	       (h < 2 || v->stride[2] == w * pixel) && (batch < 2 || v->stride[0] == h * w * pixel);
}

static int supports(const struct hone_piece *p)
{
	if (!p->constant)
		return 0;
	if (p->kind == HONE_PRODUCT) {
		bool columns = p->depth < 2 || p->w.stride[0] == 1,
		     rows = p->columns < 2 || p->w.stride[1] == 1;
		bool tight = (columns && (p->columns < 2 || p->w.stride[1] == p->depth)) ||
			     (rows && (p->depth < 2 || p->w.stride[0] == p->columns));
		return p->has_bias < 2 && tight && (p->depth < 2 || p->x.stride[1] == 1) &&
		       (p->columns < 2 || p->y.stride[1] == 1) &&
		       (p->rows < 2 || p->x.stride[0] >= p->depth) &&
		       (p->rows < 2 || p->y.stride[0] >= p->columns);
	}
	/* Debian's version takes no dense kernels of several groups. */
	return is_nhwc(&p->x, p->batch, p->groups * p->in, p->in_h, p->in_w) &&
	       is_nhwc(&p->y, p->batch, p->groups * p->out, p->out_h, p->out_w) &&
	       (p->groups == 1 || p->in == 1) &&
	       behind(p->in_h, p->out_h, p->kernel_h, p->stride_h, p->dilation_h, p->pad_h) >= 0 &&
	       behind(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->dilation_w, p->pad_w) >= 0;
}

/* Weights as XNNPACK reads them: [out][r][s][in] of a dense kernel, [r][s][channel] of a depthwise one. */
static float *turn(const struct hone_piece *p, const float *w)
{
	int64_t taps = p->kernel_h * p->kernel_w, all = p->groups * p->out;
	float *to = malloc((size_t)(all * p->in * taps) * sizeof *to);
	for (int64_t k = 0; to && k < all; k++)
		for (int64_t c = 0; c < p->in; c++)
			for (int64_t t = 0; t < taps; t++)
				to[p->groups > 1 ? t * all + k : (k * taps + t) * p->in + c] =
				    w[(k * p->in + c) * taps + t];
	return to;
}

static bool make_conv(const struct hone_piece *p, const struct hone_buffers *b, float least, float greatest,
		      void **op)
{
	float *w = turn(p, b->w);
	int64_t bottom = behind(p->in_h, p->out_h, p->kernel_h, p->stride_h, p->dilation_h, p->pad_h),
		right = behind(p->in_w, p->out_w, p->kernel_w, p->stride_w, p->dilation_w, p->pad_w);
	size_t in = (size_t)(p->x.stride[3] ? p->x.stride[3] : p->groups * p->in),
	       out = (size_t)(p->y.stride[3] ? p->y.stride[3] : p->groups * p->out);
	bool good = w && f.conv((uint32_t)p->pad_h, (uint32_t)right, (uint32_t)bottom, (uint32_t)p->pad_w,
				(uint32_t)p->kernel_h, (uint32_t)p->kernel_w, (uint32_t)p->stride_h,
				(uint32_t)p->stride_w, (uint32_t)p->dilation_h, (uint32_t)p->dilation_w,
				(uint32_t)p->groups, (size_t)p->in, (size_t)p->out, in, out, w, b->bias,
				least, greatest, p->groups > 1 ? DEPTHWISE : 0, op) == 0;
	free(w);
	return good;
}

static bool make_product(const struct hone_piece *p, const struct hone_buffers *b, float least,
			 float greatest, void **op)
{
	bool turned = p->w.stride[1] == 1 && p->columns > 1 && (p->depth < 2 || p->w.stride[0] == p->columns);
	return f.full((size_t)p->depth, (size_t)p->columns, (size_t)(p->rows < 2 ? p->depth : p->x.stride[0]),
		      (size_t)(p->rows < 2 ? p->columns : p->y.stride[0]), b->w, b->bias, least, greatest,
		      turned ? TRANSPOSE : 0, op) == 0;
}

static int make(const struct hone_piece *p, const struct hone_buffers *b, void **made)
{
	struct made *m = calloc(1, sizeof *m);
	/* limits come after the addend, which XNNPACK does not know */
	float least = p->has_add ? -INFINITY : p->least, greatest = p->has_add ? INFINITY : p->greatest;
	bool good = m && (p->kind == HONE_PRODUCT ? make_product(p, b, least, greatest, &m->op)
						  : make_conv(p, b, least, greatest, &m->op));
	if (!good) {
		free(m);
		return 1;
	}
	m->p = *p;
	*made = m;
	return 0;
}

static int run(void *made, const struct hone_buffers *b)
{
	const struct made *m = made;
	const struct hone_piece *p = &m->p;
	int rc = p->kind == HONE_PRODUCT ? f.full_setup(m->op, (size_t)p->rows, b->x, b->y, NULL)
					 : f.conv_setup(m->op, (size_t)p->batch, (size_t)p->in_h,
							(size_t)p->in_w, b->x, b->y, NULL);
	if (rc == 0)
		rc = f.run(m->op, NULL);
	if (rc == 0 && p->has_add)
		library_finish(p, b, false, true);
	return rc;
}

static void free_piece(void *made)
{
	struct made *m = made;
	f.delete(m->op);
	free(m);
}

static int open_xnnpack(void *handle, struct hone_backend *out)
{
	static const char *const name[] = {"xnn_initialize",
					   "xnn_create_convolution2d_nhwc_f32",
					   "xnn_setup_convolution2d_nhwc_f32",
					   "xnn_create_fully_connected_nc_f32",
					   "xnn_setup_fully_connected_nc_f32",
					   "xnn_run_operator",
					   "xnn_delete_operator"};
	void *const at[] = {&f.initialize, &f.conv, &f.conv_setup, &f.full, &f.full_setup, &f.run, &f.delete};
	for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
		void *found = dlsym(handle, name[i]);
		if (!found)
			return fail(E_UNSUPPORTED, "it has no %s", name[i]);
		memcpy(at[i], &found, sizeof found);
	}
	/* Later versions reshape operators before they set them up, with other arguments. */
	if (dlsym(handle, "xnn_reshape_fully_connected_nc_f32"))
		return fail(E_UNSUPPORTED, "it is of 2023 or later; hone knows the XNNPACK of 2022");
	if (f.initialize(NULL) != 0)
		return fail(E_UNSUPPORTED, "XNNPACK does not know this processor");
	*out = (struct hone_backend){HONE_BACKEND_ABI, sizeof *out, "xnnpack", "2022",
				     supports,         make,        run,       free_piece};
	return E_OK;
}

static const char *const files[] = {"libXNNPACK.so.0", NULL};

const struct library library_xnnpack = {"xnnpack", files, open_xnnpack};
