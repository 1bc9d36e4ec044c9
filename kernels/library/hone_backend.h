/* SPDX-License-Identifier: Apache-2.0 */
/* Back ends: libraries whose kernels compete with hone's own, layer by layer.
 *
 * A back end is a shared library that exports one `const struct hone_backend hone_backend`. `hone tune
 * --library /path/to/it.so` opens it in the worker. For each layer of the network that it supports, hone
 * makes a piece, checks its answer against the reference, times it in turns with its own best kernel, and
 * keeps whichever is faster. A piece that crashes, hangs or answers wrong is never chosen. A plan that has a
 * piece opens the library again only if the file has the same build id (`ld --build-id`, the default of gcc
 * and clang in most distributions); else hone's own kernel runs. The libraries that hone knows itself
 * (OpenBLAS, oneDNN, XNNPACK) are written against this header, too. configs/examples/backend.c is an example.
 *
 * All values are 32-bit floats. A piece is small: hone divides a layer between threads itself, and makes a
 * piece for each. Functions of one piece are called by one thread at a time, those of different pieces by
 * several at once; so a back end starts no threads. Nothing that a piece gets is freed before the piece. */
#ifndef HONE_BACKEND_H
#define HONE_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HONE_BACKEND_ABI 1

enum {
	/* y[n][k][oy][ox] = sum over c, r, s of
	 *   x[n][g * in + c][oy * stride_h + r * dilation_h - pad_h][ox * stride_w + s * dilation_w - pad_w]
	 *   * w[k][c][r][s], where g = k / out; elements of x outside of it are 0 */
	HONE_CONVOLUTION = 1,
	/* y[i][j] = sum over k of x[i][k] * w[k][j] */
	HONE_PRODUCT = 2
};

/* Addresses the elements of a tensor, in floats from its first element. Of a convolution's x, y and add:
 * element (n, c, h, w) is at n * stride[0] + (c / block) * stride[1] + c % block + h * stride[2] + w *
 * stride[3]. block is 1 (then stride[3] is 1 and stride[1] any number), or channels lie in blocks of so many
 * that are neighbours; the last block may be partly unused, and what lies there may be overwritten. Of a
 * product: element (i, j) is at i * stride[0] + j * stride[1]. */
struct hone_view {
	int64_t stride[4];
	int64_t block;
};

struct hone_piece {
	uint32_t bytes; /* sizeof(struct hone_piece) of the hone that calls */
	uint32_t kind;
	/* HONE_CONVOLUTION. w lies as [groups * out][in][kernel_h][kernel_w], without gaps. */
	int64_t batch, groups, in, out; /* channels of a group */
	int64_t in_h, in_w, out_h, out_w, kernel_h, kernel_w;
	int64_t stride_h, stride_w, dilation_h, dilation_w; /* dilation 1: none */
	int64_t pad_h, pad_w;                               /* at the top and at the left */
	/* Rows and columns around x that lie in memory and hold 0, where padding would read 0, too. */
	int64_t halo_top, halo_left, halo_bottom, halo_right;
	/* HONE_PRODUCT */
	int64_t rows, columns, depth;
	struct hone_view x, w, y, add;
	uint32_t constant; /* w and bias are known when the piece is made, and never change */
	/* Then y = min(max(y + bias + add, least), greatest). */
	uint32_t has_bias;     /* 1: bias[k], or bias[j]; 2: of a product, bias[i] */
	uint32_t has_add;      /* a tensor like y, which may be y itself */
	float least, greatest; /* -INFINITY, INFINITY: no limit */
};

/* Addresses of first elements. NULL: the piece has none. */
struct hone_buffers {
	const float *x, *w, *bias, *add;
	float *y;
};

struct hone_backend {
	uint32_t abi;        /* HONE_BACKEND_ABI */
	uint32_t bytes;      /* sizeof(struct hone_backend) */
	const char *name;    /* at most 15 of a-z 0-9 _ */
	const char *version; /* at most 23 of letters, digits, . + ~ - */
	/* 1: it computes such pieces; 0: it does not. */
	int (*supports)(const struct hone_piece *p);
	/* Makes a piece. b has w and bias if they are constant, else nothing. 0: *made can be run; another
	 * number: it cannot be made now. */
	int (*make)(const struct hone_piece *p, const struct hone_buffers *b, void **made);
	/* 0: y is computed; another number: it is not. Then hone says so, computes the layer itself from
	 * there on, and makes no other piece of the library in this process. */
	int (*run)(void *made, const struct hone_buffers *b);
	void (*free)(void *made);
};

#ifdef __cplusplus
}
#endif

#endif
