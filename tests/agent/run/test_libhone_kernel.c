/* SPDX-License-Identifier: Apache-2.0 */
/* hone_kernel_find: one product or convolution. */
#include "platform/base/sanitized.h"
#include "tests/lib/libhone.h"

TEST(one_kernel)
{
	struct hone_handle *h = opened(NULL, 1, 0);
	REQUIRE(h != NULL);
	enum { M = 5, N = 7, K = 11 };
	float a[M * K], b[K * N], bias[N], c[M * N];
	for (int i = 0; i < M * K; i++)
		a[i] = (float)(i % 13) - 6;
	for (int i = 0; i < K * N; i++)
		b[i] = (float)(i % 9) - 4;
	for (int i = 0; i < N; i++)
		bias[i] = (float)i;
	for (int way = 0; way < 4; way++) { /* weights given or not, bias or not */
		struct hone_kernel_want w;
		struct hone_model *m = NULL;
		HONE_INIT(w);
		w.op = HONE_GEMM;
		w.m = M, w.n = N, w.k = K;
		w.weights = way & 1 ? b : NULL;
		w.bias = way & 2 ? bias : NULL;
		w.activation = HONE_RELU;
		REQUIRE_OK(hone_kernel_find(h, &w, &m));
		CHECK(hone_inputs(m) == (way & 1 ? 1 : 2) && hone_outputs(m) == 1);
		const void *in[] = {a, b};
		void *out[] = {c};
		CHECK_OK(hone_run_on(m, in, out));
		for (int i = 0; i < M; i++)
			for (int j = 0; j < N; j++) {
				float sum = w.bias ? bias[j] : 0;
				for (int k = 0; k < K; k++)
					sum += a[i * K + k] * b[k * N + j];
				CHECK(near(c[i * N + j], sum > 0 ? sum : 0));
			}
		CHECK(strstr(info_of(m).remedy, "hone_kernel_write") != NULL);
		CHECK(hone_refresh(m) == 0);
		hone_model_close(m);
	}
	hone_close(h);
}

/* One output pixel by hand. */
TEST(one_convolution)
{
	struct hone_handle *h = opened(NULL, 1, 0);
	REQUIRE(h != NULL);
	enum { C = 4, F = 6, H = 9, W = 8 };
	static float x[C * H * W], w[F * 2 * 3 * 3];
	for (int i = 0; i < C * H * W; i++)
		x[i] = (float)(i % 7) - 3;
	for (int i = 0; i < F * 2 * 9; i++)
		w[i] = (float)(i % 5) - 2;
	struct hone_kernel_want want;
	struct hone_model *m = NULL;
	HONE_INIT(want);
	want.op = HONE_CONV2D;
	want.activation = HONE_RELU6;
	want.weights = w;
	want.batch = 1, want.channels = C, want.height = H, want.width = W;
	want.filters = F, want.kernel_h = want.kernel_w = 3, want.groups = 2;
	want.pad_top = want.pad_left = want.pad_bottom = want.pad_right = 1;
	REQUIRE_OK(hone_kernel_find(h, &want, &m));
	struct hone_tensor y;
	HONE_INIT(y);
	CHECK_OK(hone_output(m, 0, &y));
	CHECK(y.rank == 4 && y.shape[1] == F && y.shape[2] == H && y.shape[3] == W && !strcmp(y.name, "y"));
	memcpy(hone_input_buffer(m, 0), x, sizeof x);
	CHECK_OK(hone_run(m));
	float sum = 0;
	for (int c = 0; c < 2; c++)
		for (int r = 0; r < 3; r++)
			for (int s = 0; s < 3; s++)
				sum += w[((4 * 2 + c) * 3 + r) * 3 + s] *
				       x[((2 + c) * H + 4 + r - 1) * W + 5 + s - 1];
	sum = sum < 0 ? 0 : sum > 6 ? 6 : sum;
	CHECK(near(((float *)hone_output_buffer(m, 0))[(4 * H + 4) * W + 5], sum));
	hone_model_close(m);
	const char *path = in_dir("kernel.onnx");
	CHECK_OK(hone_kernel_write(&want, path));
	m = loaded(h, path);
	CHECK(m && hone_inputs(m) == 1);
	hone_model_close(m);
	want.groups = 3;
	CHECK_FAILS(hone_kernel_find(h, &want, &m), HONE_USAGE, "groups");
	want.groups = 0;
	want.kernel_h = 0;
	CHECK_FAILS(hone_kernel_find(h, &want, &m), HONE_USAGE, "kernel_h is 0");
	CHECK_FAILS(hone_kernel_write(&want, path), HONE_USAGE, "kernel_h is 0");
	want.op = 3;
	CHECK_FAILS(hone_kernel_find(h, &want, &m), HONE_USAGE, "unknown op 3");
	want.activation = 9;
	CHECK_FAILS(hone_kernel_find(h, &want, &m), HONE_USAGE, "unknown activation 9");
	CHECK_FAILS(hone_kernel_find(h, NULL, &m), HONE_USAGE, "is NULL");
	CHECK_FAILS(hone_kernel_write(NULL, path), HONE_USAGE, "is NULL");
	hone_close(h);
}

static float number(unsigned i)
{
	return (float)(i * 2654435761u >> 16 & 15) - 7.5f;
}

/* Straight from hone.h. */
static double conv_at(const struct hone_kernel_want *w, const float *x, const float *f, int64_t n, int64_t k,
		      int64_t p, int64_t q)
{
	int64_t of = w->channels / w->groups, group = k / (w->filters / w->groups);
	double sum = w->bias ? w->bias[k] : 0;
	for (int64_t c = 0; c < of; c++)
		for (int64_t r = 0; r < w->kernel_h; r++)
			for (int64_t s = 0; s < w->kernel_w; s++) {
				int64_t y = p * w->stride_h + r * w->dilation_h - w->pad_top,
					z = q * w->stride_w + s * w->dilation_w - w->pad_left;
				if (y < 0 || y >= w->height || z < 0 || z >= w->width)
					continue;
				sum += (double)f[((k * of + c) * w->kernel_h + r) * w->kernel_w + s] *
				       x[((n * w->channels + group * of + c) * w->height + y) * w->width + z];
			}
	return sum;
}

static void check_conv(struct hone_handle *h, struct hone_kernel_want *w, bool constant)
{
	struct hone_model *m = NULL;
	struct hone_tensor x, y;
	static float f[4096];
	float bias[64];
	for (unsigned i = 0; i < sizeof f / sizeof *f; i++)
		f[i] = number(i + 77);
	for (int i = 0; i < 64; i++)
		bias[i] = (float)i;
	w->weights = constant ? f : NULL;
	w->bias = constant ? bias : NULL;
	REQUIRE_OK(hone_kernel_find(h, w, &m));
	HONE_INIT(x);
	HONE_INIT(y);
	REQUIRE_OK(hone_input(m, 0, &x));
	REQUIRE_OK(hone_output(m, 0, &y));
	float *in = hone_input_buffer(m, 0);
	const float *out = hone_output_buffer(m, 0);
	for (unsigned i = 0; i < x.bytes / sizeof *in; i++)
		in[i] = number(i);
	if (!constant)
		memcpy(hone_input_buffer(m, 1), f,
		       sizeof *f *
			   (size_t)(w->filters * w->channels / w->groups * w->kernel_h * w->kernel_w));
	REQUIRE_OK(hone_run(m));
	for (int64_t n = 0; n < y.shape[0]; n++)
		for (int64_t k = 0; k < y.shape[1]; k++)
			for (int64_t p = 0; p < y.shape[2]; p++)
				for (int64_t q = 0; q < y.shape[3]; q++)
					REQUIRE(near(*out++, (float)conv_at(w, in, f, n, k, p, q)));
	hone_model_close(m);
}

TEST(convolutions_of_all_kinds)
{
	/* batch channels height width, filters r s, strides, dilations, groups, pads */
	static const int kind[][16] = {
	    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
	    {1, 3, 9, 7, 5, 3, 3, 2, 1, 1, 1, 1, 1, 0, 2, 3},
	    {2, 4, 8, 8, 6, 2, 5, 1, 2, 1, 1, 2, 0, 4, 1, 0},
	    {1, 6, 11, 12, 6, 3, 3, 1, 1, 2, 3, 6, 2, 3, 2, 3},
	    {1, 6, 5, 5, 9, 3, 1, 3, 2, 1, 1, 3, 7, 5, 0, 1},
	    {3, 2, 1, 30, 4, 1, 7, 1, 4, 1, 2, 1, 0, 6, 0, 6},
	};
	struct hone_handle *h = opened(NULL, 1, 0);
	REQUIRE(h != NULL);
	for (size_t i = 0; i < 2 * (sizeof kind / sizeof *kind); i++) {
		const int *v = kind[i / 2];
		struct hone_kernel_want w;
		HONE_INIT(w);
		w.op = HONE_CONV2D;
		w.batch = v[0], w.channels = v[1], w.height = v[2], w.width = v[3];
		w.filters = v[4], w.kernel_h = v[5], w.kernel_w = v[6];
		w.stride_h = v[7], w.stride_w = v[8], w.dilation_h = v[9], w.dilation_w = v[10];
		w.groups = v[11];
		w.pad_top = v[12], w.pad_left = v[13], w.pad_bottom = v[14], w.pad_right = v[15];
		check_conv(h, &w, i % 2);
		if (test_bad)
			printf("convolution %zu\n", i);
		REQUIRE(!test_bad);
	}
	hone_close(h);
}

static struct hone_kernel_want gemm(int64_t m, int64_t n, int64_t k)
{
	struct hone_kernel_want w;
	HONE_INIT(w);
	w.op = HONE_GEMM;
	w.m = m, w.n = n, w.k = k;
	return w;
}

TEST(kernels_that_cannot_be)
{
	struct hone_handle *h = opened(NULL, 1, 0);
	struct hone_model *m = NULL;
	REQUIRE(h != NULL);
	const int64_t big = 1 << 24;
	const struct {
		int64_t m, n, k;
		const char *says;
	} products[] = {{0, 1, 1, "m is 0"},
			{1, -1, 1, "n is -1"},
			{1, 1, 0, "k is 0"},
			{1, 1, INT64_MAX, "k is 9223372036854775807"},
			{INT64_MIN, 1, 1, "m is -9223372036854775808"},
			{big, 1, big, "a has more than"},
			{1, big, big, "b has more than"},
			{big, big, 1, "c has more than"}};
	for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
		struct hone_kernel_want w = gemm(products[i].m, products[i].n, products[i].k);
		CHECK_FAILS(hone_kernel_find(h, &w, &m), HONE_USAGE, products[i].says);
		CHECK_FAILS(hone_kernel_write(&w, "/nonesuch/k.onnx"), HONE_USAGE, products[i].says);
		CHECK(m == NULL);
	}
	struct hone_kernel_want w;
	HONE_INIT(w);
	w.op = HONE_CONV2D;
	w.batch = w.channels = w.filters = 1, w.height = w.width = w.kernel_h = 4, w.kernel_w = 5;
	CHECK_FAILS(hone_kernel_find(h, &w, &m), HONE_USAGE, "wider than the input");
	w.kernel_w = 1, w.dilation_h = 2;
	CHECK_FAILS(hone_kernel_find(h, &w, &m), HONE_USAGE, "higher than the input");
	w.pad_bottom = -3;
	CHECK_FAILS(hone_kernel_find(h, &w, &m), HONE_USAGE, "pad_bottom is -3");
	w.pad_bottom = big, w.width = big, w.height = 1000;
	CHECK_FAILS(hone_kernel_find(h, &w, &m), HONE_USAGE, "x has more than");
	w.channels = w.filters = big, w.height = w.width = 20;
	CHECK_FAILS(hone_kernel_find(h, &w, &m), HONE_USAGE, "x has more than");
	w = gemm(4, 4, 4);
	CHECK(hone_kernel_write(&w, "/nonesuch/k.onnx") < 0 && strstr(hone_error(), "/nonesuch/k.onnx"));
	hone_close(h);
}

/* Written, tuned as any model, and found. */
TEST(kernels_are_tuned_by_their_files)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	if (SANITIZED)
		SKIP("a sanitizer distorts the times that tuning decides by");
	static float weights[96 * 80];
	char cache[256], file[256];
	for (unsigned i = 0; i < sizeof weights / sizeof *weights; i++)
		weights[i] = number(i);
	struct hone_kernel_want want[2] = {gemm(48, 80, 96)};
	HONE_INIT(want[1]);
	want[0].weights = want[1].weights = weights;
	want[0].activation = HONE_RELU;
	want[1].op = HONE_CONV2D, want[1].batch = 1, want[1].channels = want[1].filters = 16;
	want[1].height = want[1].width = 14, want[1].kernel_h = want[1].kernel_w = 3;
	want[1].pad_top = want[1].pad_right = 1;
	for (int i = 0; i < 2; i++) {
		struct hone_model *m = NULL;
		snprintf(cache, sizeof cache, "%s", in_dir(i ? "conv-cache" : "gemm-cache"));
		snprintf(file, sizeof file, "%s", in_dir("kernel.onnx"));
		struct hone_handle *h = opened(cache, 1, 0);
		REQUIRE(h != NULL);
		REQUIRE_OK(hone_kernel_find(h, &want[i], &m));
		CHECK(info_of(m).kernels[HONE_TUNED] == 0);
		float before = first_output(m, 3);
		REQUIRE_OK(hone_kernel_write(&want[i], file));
		CHECK_RUN(0, "tune %s %s --threads 1 --cache %s", file, estimate(), cache);
		CHECK(hone_refresh(m) == 1);
		struct hone_model_info s = info_of(m);
		CHECK(s.kernels[HONE_TUNED] + s.kernels[HONE_DEFAULT] == hone_kernels(m) && !s.remedy[0]);
		CHECK(near(first_output(m, 3), before));
		hone_model_close(m);
		REQUIRE_OK(hone_kernel_find(h, &want[i], &m));
		s = info_of(m);
		CHECK(s.kernels[HONE_TUNED] + s.kernels[HONE_DEFAULT] == hone_kernels(m));
		hone_model_close(m);
		hone_close(h);
	}
}

TEST_MAIN
