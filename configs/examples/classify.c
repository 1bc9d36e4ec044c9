/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a model of one f32 input on a file of raw f32 numbers (or on zeros) and prints its five largest
 * outputs. cc classify.c $(pkg-config --cflags --libs hone) -o classify; ./classify model.onnx [input.f32]
 * Where hone was installed elsewhere than the system looks: PKG_CONFIG_PATH=PREFIX/lib/pkgconfig to build,
 * LD_LIBRARY_PATH=PREFIX/lib to run. Kernels are those of the user's cache (XDG_CACHE_HOME): hone tune. */
#include <hone.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const char *what)
{
	fprintf(stderr, "classify: %s: %s\n", what, hone_error());
	return 1;
}

static int read_input(const char *path, void *to, size_t bytes)
{
	FILE *f = fopen(path, "rb");
	size_t n;
	int more;
	if (!f) {
		fprintf(stderr, "classify: cannot open %s: %s\n", path, strerror(errno));
		return 0;
	}
	n = fread(to, 1, bytes, f);
	more = n == bytes && getc(f) != EOF;
	fclose(f);
	if (n != bytes || more)
		fprintf(stderr, "classify: %s has %s than the %lu bytes of the input\n", path,
			more ? "more" : "fewer", (unsigned long)bytes);
	return n == bytes && !more;
}

static void print_best(const float *y, size_t n)
{
	size_t rank, i, best;
	char *taken = calloc(n ? n : 1, 1);
	for (rank = 0; taken && rank < 5 && rank < n; rank++) {
		best = n;
		for (i = 0; i < n; i++)
			if (!taken[i] && (best == n || y[i] > y[best]))
				best = i;
		taken[best] = 1;
		printf("%lu %g\n", (unsigned long)best, (double)y[best]);
	}
	free(taken);
}

static int classify(struct hone_model *m, const char *input)
{
	struct hone_tensor x, y;
	struct hone_model_info s;
	HONE_INIT(x);
	HONE_INIT(y);
	HONE_INIT(s);
	if (hone_input(m, 0, &x) < 0 || hone_output(m, 0, &y) < 0 || hone_summary(m, &s) < 0)
		return failed("the model");
	if (x.dtype != HONE_F32 || y.dtype != HONE_F32) {
		fprintf(stderr, "classify: the first input and output must be f32\n");
		return 1;
	}
	if (input && !read_input(input, hone_input_buffer(m, 0), x.bytes))
		return 1;
	if (hone_run(m) < 0)
		return failed("running");
	print_best(hone_output_buffer(m, 0), y.bytes / sizeof(float));
	fprintf(stderr, "%d kernels tuned, %d default, %d fallback, %d portable\n", s.kernels[HONE_TUNED],
		s.kernels[HONE_DEFAULT], s.kernels[HONE_FALLBACK], s.kernels[HONE_PORTABLE]);
	if (*s.remedy)
		fprintf(stderr, "faster: %s\n", s.remedy);
	return 0;
}

int main(int argc, char **argv)
{
	struct hone_handle *h;
	struct hone_model *m;
	int rc;
	if (argc < 2) {
		fprintf(stderr, "usage: classify MODEL [INPUT]\n");
		return 2;
	}
	if (hone_open(NULL, &h) < 0)
		return failed("opening");
	if (hone_load(h, argv[1], NULL, &m) < 0) {
		hone_close(h);
		return failed("loading");
	}
	rc = classify(m, argc > 2 ? argv[2] : NULL);
	hone_model_close(m);
	hone_close(h);
	return rc;
}
