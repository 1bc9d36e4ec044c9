/* SPDX-License-Identifier: Apache-2.0 */
/* What a library of kernels does for make bench-peers: one layer after another. A program is chain.c and one
 * chain_NAME.c, built by tests/sh/peers.sh. It ends at the first failure, with one line on standard error. */
#ifndef TOOLS_PEERS_CHAIN_H
#define TOOLS_PEERS_CHAIN_H

#include <stdbool.h>

/* A convolution with bias (NCHW sizes; each library uses its own fastest layout and packs weights ahead), or
 * a matrix product [batch][m][k] x [batch or 1][k][n] whose second operand is constant. */
struct chain_layer {
	bool conv;
	int n, c, h, w, k, r, s, stride_h, stride_w, top, left, bottom, right, dil_h, dil_w, groups, oh, ow;
	int batch, mm, mn, mk;
};

/* Room for activations that all layers share: the sizes in floats that any of them needs. */
struct buffers {
	float *in, *out;
};

const char *chain_version(void);
void chain_open(int threads);
void *chain_make(const struct chain_layer *l,
		 const struct buffers *b); /* NULL: the library has no such layer */
void chain_run(void *layer);
void die(const char *what, int code) __attribute__((noreturn));
/* count floats in [-1, 1], aligned to 64 bytes. */
float *random_floats(long count);

#endif
