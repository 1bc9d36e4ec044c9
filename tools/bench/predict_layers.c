/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/predict_layers.h"
#include <stdbool.h>
#include <stdio.h>

/* n: channels, rows or columns, by kind. */
enum kind { CONV, DEPTHWISE, POINTWISE, MATMUL, POOL, ADD, AVERAGE };
static const struct layer {
	enum kind kind;
	int c, k, size, filter, stride;
} layers[] = {
    /* in the order in which they take turns as the calibrated and the checked half */
    {CONV, 64, 64, 56, 3, 1},       {CONV, 128, 128, 28, 3, 1},     {CONV, 256, 256, 14, 3, 1},
    {CONV, 512, 512, 7, 3, 1},      {CONV, 64, 128, 28, 3, 2},      {CONV, 128, 256, 14, 3, 2},
    {CONV, 16, 32, 56, 3, 1},       {CONV, 24, 48, 28, 3, 2},       {CONV, 32, 32, 28, 5, 1},
    {CONV, 48, 64, 14, 5, 1},       {POINTWISE, 16, 96, 56, 1, 1},  {POINTWISE, 96, 24, 28, 1, 1},
    {POINTWISE, 144, 32, 28, 1, 1}, {POINTWISE, 192, 64, 14, 1, 1}, {POINTWISE, 384, 96, 14, 1, 1},
    {POINTWISE, 576, 160, 7, 1, 1}, {POINTWISE, 960, 320, 7, 1, 1}, {POINTWISE, 320, 1280, 7, 1, 1},
    {POINTWISE, 256, 64, 56, 1, 1}, {POINTWISE, 64, 256, 28, 1, 1}, {DEPTHWISE, 32, 0, 112, 3, 1},
    {DEPTHWISE, 96, 0, 56, 3, 2},   {DEPTHWISE, 144, 0, 56, 3, 1},  {DEPTHWISE, 192, 0, 28, 3, 1},
    {DEPTHWISE, 384, 0, 14, 3, 1},  {DEPTHWISE, 576, 0, 14, 3, 2},  {DEPTHWISE, 960, 0, 7, 3, 1},
    {DEPTHWISE, 96, 0, 28, 5, 1},   {MATMUL, 768, 1000, 2, 0, 0},   {MATMUL, 256, 256, 64, 0, 0},
    {MATMUL, 192, 576, 196, 0, 0},  {MATMUL, 192, 768, 49, 0, 0},   {MATMUL, 768, 192, 49, 0, 0},
    {MATMUL, 1280, 1000, 1, 0, 0},  {POOL, 64, 0, 56, 3, 2},        {POOL, 96, 0, 28, 2, 2},
    {AVERAGE, 128, 0, 28, 3, 1},    {POOL, 256, 0, 14, 3, 1},       {ADD, 64, 0, 56, 0, 0},
    {ADD, 96, 0, 14, 0, 0},
};
enum { LAYERS = sizeof layers / sizeof *layers };

#define IMAGE(channels) "[1," channels ",%d,%d] 0.1/4.2.3.1;2+%d+%d;3+%d+%d\n"

static int window(const struct layer *y, char text[LAYER_TEXT])
{
	bool deep = y->kind == CONV, weights = deep || y->kind == DEPTHWISE;
	int pad = y->filter / 2, in = y->size * y->stride, outputs = deep ? y->k : y->c;
	const char *sum = y->kind == POOL ? "body r0\nmax\npost acc\n" : "body r0\nsum\npost acc 0.125 mul\n";
	int n = snprintf(text, LAYER_TEXT, "task syms=0\noperand X in f32 " IMAGE("%d"), y->c, in, in, pad,
			 pad, pad, pad);
	if (weights)
		n += snprintf(text + n, LAYER_TEXT - (size_t)n,
			      "operand W const f32 [%d,%d,%d,%d] plain\noperand B const f32 [%d] plain\n",
			      outputs, deep ? y->c : 1, y->filter, y->filter, outputs);
	n += snprintf(text + n, LAYER_TEXT - (size_t)n,
		      "operand Y out f32 [1,%d,%d,%d] 0.1/4.2.3.1\nstage n:1 k:%d y:%d x:%d |", outputs,
		      y->size, y->size, outputs, y->size, y->size);
	if (deep)
		n += snprintf(text + n, LAYER_TEXT - (size_t)n, " c:%d", y->c);
	char at[2][32];
	for (int i = 0; i < 2; i++)
		snprintf(at[i], sizeof at[i], y->stride == 2 ? "2*%c+%c-%d" : "%c+%c-%d", "yx"[i], "rs"[i],
			 pad);
	n += snprintf(text + n, LAYER_TEXT - (size_t)n, " r:%d s:%d\nread X [n,%c,%s,%s]\n", y->filter,
		      y->filter, deep ? 'c' : 'k', at[0], at[1]);
	if (weights)
		n += snprintf(text + n, LAYER_TEXT - (size_t)n,
			      "read W [k,%s,r,s]\nread B [k]\nbody r0 r1 mul\nsum\npost acc r2 add 0 max\n",
			      deep ? "c" : "0");
	return n + snprintf(text + n, LAYER_TEXT - (size_t)n, "%swrite Y [n,k,y,x]\n", weights ? "" : sum);
}

bool predict_layer(int i, char name[64], char text[LAYER_TEXT])
{
	static const char *const kinds[] = {"conv",    "depthwise", "pointwise", "matmul",
					    "maxpool", "add",       "avgpool"};
	if (i < 0 || i >= LAYERS)
		return false;
	const struct layer *y = &layers[i];
	int points = y->size * y->size;
	snprintf(name, 64, "%s %d%s%.0d %d", kinds[y->kind], y->c, y->k ? "-" : "", y->k, y->size);
	if (y->filter > 1)
		snprintf(name, 64, "%s%dx%d/%d %d%s%.0d %d", kinds[y->kind], y->filter, y->filter, y->stride,
			 y->c, y->k ? "-" : "", y->k, y->size);
	if (y->kind == POINTWISE)
		snprintf(
		    text, LAYER_TEXT,
		    "task syms=0\noperand X in f32 [1,%d,%d] 0.1/4.2.1\noperand W const f32 [%d,%d] plain\n"
		    "operand B const f32 [%d] plain\noperand Y out f32 [1,%d,%d] 0.1/4.2.1\n"
		    "stage n:1 k:%d p:%d | c:%d\nread X [n,c,p]\nread W [k,c]\nread B [k]\n"
		    "body r0 r1 mul\nsum\npost acc r2 add 0 max\nwrite Y [n,k,p]\n",
		    y->c, points, y->k, y->c, y->k, y->k, points, y->k, points, y->c);
	else if (y->kind == MATMUL)
		snprintf(
		    text, LAYER_TEXT,
		    "task syms=0\noperand A in f32 [%d,%d] plain\noperand B const f32 [%d,%d] plain\n"
		    "operand Y out f32 [%d,%d] plain\nstage m:%d n:%d | k:%d\nread A [m,k]\nread B [k,n]\n"
		    "body r0 r1 mul\nsum\nwrite Y [m,n]\n",
		    y->size, y->c, y->c, y->k, y->size, y->k, y->size, y->k, y->c);
	else if (y->kind == ADD)
		snprintf(text, LAYER_TEXT,
			 "task syms=0\noperand A in f32 [1,%d,%d] 0.1/4.2.1\noperand B in f32 [1,%d,%d] "
			 "0.1/4.2.1\noperand Y out f32 [1,%d,%d] 0.1/4.2.1\nstage n:1 k:%d p:%d\n"
			 "read A [n,k,p]\nread B [n,k,p]\nbody r0 r1 add\npost acc 0 max\nwrite Y [n,k,p]\n",
			 y->c, points, y->c, points, y->c, points, y->c, points);
	else
		window(y, text);
	return true;
}
