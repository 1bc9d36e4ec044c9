/* SPDX-License-Identifier: Apache-2.0 */
/* chain_NAME LAYERS THREADS: the convolutions and matrix products of a network (lines of layers.py), each
 * with its own weights, one after another, by one library; nothing between them, so what a whole network
 * takes at least with these kernels. Activations go through shared buffers, so caches see about what a
 * network shows them. Same line protocol as tools/bench/bench_net.c. */
#include "chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xmmintrin.h>

enum { MAX_LAYERS = 1024, MAX_RUNS = 4000 };

static void *chain[MAX_LAYERS];
static struct chain_layer layers[MAX_LAYERS];
static int nlayers, nchain;

void die(const char *what, int code)
{
	printf("error %s: %d\n", what, code);
	exit(1);
}

float *random_floats(long count)
{
	float *p = aligned_alloc(64, ((size_t)count * sizeof *p + 127) / 64 * 64);
	unsigned x = 1;
	if (!p)
		die("no memory for floats", 0);
	for (long i = 0; i < count; i++) {
		x = x * 1664525u + 1013904223u;
		p[i] = (float)(x >> 8) / 8388608.0f - 1;
	}
	return p;
}

static bool parse(const char *line, struct chain_layer *l)
{
	*l = (struct chain_layer){.conv = true};
	if (sscanf(line, "conv %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d", &l->n, &l->c, &l->h,
		   &l->w, &l->k, &l->r, &l->s, &l->stride_h, &l->stride_w, &l->top, &l->left, &l->bottom,
		   &l->right, &l->dil_h, &l->dil_w, &l->groups, &l->oh, &l->ow) == 18)
		return true;
	l->conv = false;
	return sscanf(line, "matmul %d %d %d %d", &l->batch, &l->mm, &l->mn, &l->mk) == 4;
}

static void read_layers(const char *path)
{
	char line[256];
	FILE *f = fopen(path, "r");
	while (f && nlayers < MAX_LAYERS && fgets(line, sizeof line, f))
		if (!parse(line, &layers[nlayers++]))
			die("a line is not a layer", nlayers);
	if (!f || !nlayers)
		die("no layers", 0);
	fclose(f);
}

static long most(long a, long b)
{
	return a > b ? a : b;
}

static struct buffers make_buffers(void)
{
	long in = 0, out = 0;
	for (int i = 0; i < nlayers; i++) {
		const struct chain_layer *l = &layers[i];
		/* Channels of blocked layouts are padded to 16. */
		in = most(in,
			  l->conv ? (long)l->n * (l->c + 16) * l->h * l->w : (long)l->batch * l->mm * l->mk);
		out = most(out, l->conv ? (long)l->n * (l->k + 16) * l->oh * l->ow
					: (long)l->batch * l->mm * l->mn);
	}
	return (struct buffers){random_floats(in + 64), random_floats(out + 64)};
}

static double now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void run_all(void)
{
	for (int i = 0; i < nchain; i++)
		chain_run(chain[i]);
}

static void turn(double ms)
{
	double start, now = now_ns(), end = now + ms * 1e6;
	for (int i = 0; i == 0 || (i < MAX_RUNS && now < end); i++) {
		start = now;
		run_all();
		now = now_ns();
		printf("%s%.0f", i ? " " : "", now - start);
		now = now_ns();
	}
	putchar('\n');
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[64];
	double ms;
	if (argc != 3)
		die("usage: chain_NAME LAYERS THREADS", argc);
	read_layers(argv[1]);
	_mm_setcsr(_mm_getcsr() | 0x8040); /* denormals are zero, as in hone */
	chain_open(atoi(argv[2]));
	struct buffers b = make_buffers();
	for (int i = 0; i < nlayers; i++)
		if ((chain[nchain] = chain_make(&layers[i], &b)))
			nchain++;
	if (!nchain)
		die("no layer that the library has", 0);
	run_all();
	printf("ready {\"version\": \"%s\", \"outputs\": [], \"setting\": \"%d of %d convolutions and "
	       "products\"}\n",
	       chain_version(), nchain, nlayers);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin) && sscanf(line, "turn %lf", &ms) == 1)
		turn(ms);
	return 0;
}
