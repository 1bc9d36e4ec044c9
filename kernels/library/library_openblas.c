/* SPDX-License-Identifier: Apache-2.0 */
/* OpenBLAS: products of matrices, and 1x1 convolutions of plain images, which are products. It is told to use
 * one thread, because hone divides layers itself. A process that used it before, with more threads, is left
 * as it is: then it is not opened. */
#include "kernels/library/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of cblas.h. */
enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };

static void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a,
		     int lda, const float *b, int ldb, float beta, float *c, int ldc);
static int (*threads_now)(void);
static void (*set_threads)(int n);
static char *(*config)(void);

/* A matrix whose rows, or else whose columns, are contiguous. */
struct matrix {
	int64_t ld;
	bool transposed;
};

static bool lies_well(const struct hone_view *v, int64_t rows, int64_t columns, struct matrix *m)
{
	const int64_t row = v->stride[0], column = v->stride[1];
	if (columns < 2 || column == 1) {
		*m = (struct matrix){rows < 2 ? columns : row, false};
		return m->ld >= columns;
	}
	*m = (struct matrix){column, true};
	return (rows < 2 || row == 1) && column >= rows;
}

struct product {
	struct hone_piece p;
	int64_t m, n, k;
	struct matrix a, b, c;
	bool swapped; /* y's columns are contiguous: its transpose is computed */
};

/* A 1x1 convolution as y[k][pixel] = w[k][c] x[c][pixel]. */
static bool read_conv(const struct hone_piece *p, struct product *o)
{
	int64_t pixels = p->out_h * p->out_w;
	if (p->batch != 1 || p->groups != 1 || p->kernel_h != 1 || p->kernel_w != 1 || p->stride_h != 1 ||
	    p->stride_w != 1 || p->pad_h || p->pad_w || p->x.block != 1 || p->y.block != 1 ||
	    p->in_h != p->out_h || p->in_w != p->out_w)
		return false;
	if (p->out_h > 1 && (p->x.stride[2] != p->in_w || p->y.stride[2] != p->out_w))
		return false;
	o->m = p->out;
	o->n = pixels;
	o->k = p->in;
	o->a = (struct matrix){p->in, false};
	o->b = (struct matrix){p->in > 1 ? p->x.stride[1] : pixels, false};
	o->c = (struct matrix){p->out > 1 ? p->y.stride[1] : pixels, false};
	return o->b.ld >= pixels && o->c.ld >= pixels;
}

static bool read_product(const struct hone_piece *p, struct product *o)
{
	o->m = p->rows;
	o->n = p->columns;
	o->k = p->depth;
	if (!lies_well(&p->x, p->rows, p->depth, &o->a) || !lies_well(&p->w, p->depth, p->columns, &o->b) ||
	    !lies_well(&p->y, p->rows, p->columns, &o->c))
		return false;
	o->swapped = o->c.transposed;
	return true;
}

static bool describe(const struct hone_piece *p, struct product *o)
{
	*o = (struct product){.p = *p};
	bool good = p->kind == HONE_CONVOLUTION ? read_conv(p, o) : read_product(p, o);
	const int64_t most = 1 << 30;
	return good && o->m < most && o->n < most && o->k < most && o->a.ld < most && o->b.ld < most &&
	       o->c.ld < most;
}

static int supports(const struct hone_piece *p)
{
	struct product o;
	return describe(p, &o);
}

static int make(const struct hone_piece *p, const struct hone_buffers *b, void **made)
{
	struct product *o = malloc(sizeof *o);
	(void)b;
	if (!o || !describe(p, o)) {
		free(o);
		return 1;
	}
	*made = o;
	return 0;
}

static int trans(bool transposed)
{
	return transposed ? TRANSPOSED : PLAIN;
}

static int run(void *made, const struct hone_buffers *b)
{
	const struct product *o = made;
	const bool conv = o->p.kind == HONE_CONVOLUTION;
	const float *x = conv ? b->w : b->x, *w = conv ? b->x : b->w;
	if (o->swapped) /* the transpose of y is the product of the transposes, in the other order */
		sgemm(ROW_MAJOR, trans(!o->b.transposed), trans(!o->a.transposed), (int)o->n, (int)o->m,
		      (int)o->k, 1, w, (int)o->b.ld, x, (int)o->a.ld, 0, b->y, (int)o->c.ld);
	else
		sgemm(ROW_MAJOR, trans(o->a.transposed), trans(o->b.transposed), (int)o->m, (int)o->n,
		      (int)o->k, 1, x, (int)o->a.ld, w, (int)o->b.ld, 0, b->y, (int)o->c.ld);
	library_finish(&o->p, b, true, true);
	return 0;
}

/* "OpenBLAS 0.3.21 DYNAMIC_ARCH ..." -> "0.3.21" */
static void read_version(char out[24])
{
	const char *text = config(), *number = text ? strchr(text, ' ') : NULL;
	snprintf(out, 24, "%.*s", number ? (int)strcspn(number + 1, " ") : 1, number ? number + 1 : "0");
}

static int open_blas(void *handle, struct hone_backend *out)
{
	static char version[24];
	bool fresh = !sgemm;
	*(void **)&sgemm = dlsym(handle, "cblas_sgemm");
	*(void **)&threads_now = dlsym(handle, "openblas_get_num_threads");
	*(void **)&set_threads = dlsym(handle, "openblas_set_num_threads");
	*(void **)&config = dlsym(handle, "openblas_get_config");
	if (!sgemm || !threads_now || !set_threads || !config)
		return fail(E_UNSUPPORTED, "it is no OpenBLAS");
	if (fresh)
		set_threads(1);
	read_version(version);
	*out = (struct hone_backend){HONE_BACKEND_ABI, sizeof *out, "openblas", version,
				     supports,         make,        run,        free};
	return E_OK;
}

static const char *const files[] = {"libopenblas.so.0", NULL};

const struct library library_openblas = {"openblas", files, open_blas};
