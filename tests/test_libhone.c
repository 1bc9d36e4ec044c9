/* SPDX-License-Identifier: Apache-2.0 */
/* The library for applications, through its public header alone but for the caches that it reads. */
#include "agent/cache.h"
#include "agent/hone.h"
#include "platform/clock.h"
#include "tests/cli.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

static struct hone_handle *opened(const char *cache, int threads, unsigned flags)
{
	struct hone_options o;
	struct hone_handle *h = NULL;
	HONE_INIT(o);
	o.caches = &cache;
	o.ncaches = cache != NULL;
	if (!cache)
		o.caches = (const char *const[]){""};
	o.threads = threads;
	o.flags = flags;
	CHECK_OK(hone_open(&o, &h));
	return h;
}

static struct hone_model *loaded(struct hone_handle *h, const char *path)
{
	struct hone_model *m = NULL;
	CHECK_OK(hone_load(h, path, NULL, &m));
	return m;
}

static struct hone_model_info info_of(const struct hone_model *m)
{
	struct hone_model_info s;
	HONE_INIT(s);
	CHECK_OK(hone_summary(m, &s));
	return s;
}

/* A cache with every kernel of the steering network, made on first use; NULL: no worker. */
static const char *tuned(void)
{
	static char path[256];
	if (!worker())
		return NULL;
	if (!path[0]) {
		snprintf(path, sizeof path, "%s", in_dir("filled"));
		CHECK_RUN(0, "tune %s --rigor estimate --budget 60s --threads 1 --cache %s", steering(),
			  path);
	}
	return path;
}

static void copy_folder(const char *from, const char *to)
{
	char cmd[700];
	snprintf(cmd, sizeof cmd, "mkdir -p '%s' && cp -r '%s/.' '%s'", to, from, to);
	CHECK(system(cmd) == 0);
}

static void fill_input(float *x, size_t bytes, int seed)
{
	for (size_t i = 0; i < bytes / sizeof *x; i++)
		x[i] = (float)((i * 37 + (size_t)seed * 11) % 101) / 101.0f - 0.5f;
}

static float first_output(struct hone_model *m, int seed)
{
	struct hone_tensor x;
	HONE_INIT(x);
	CHECK_OK(hone_input(m, 0, &x));
	fill_input(hone_input_buffer(m, 0), x.bytes, seed);
	CHECK_OK(hone_run(m));
	const float *y = hone_output_buffer(m, 0);
	return y ? y[0] : NAN;
}

static bool near(float a, float b)
{
	return fabsf(a - b) <= 1e-4f + 1e-3f * fabsf(b);
}

TEST(without_a_cache)
{
	struct hone_handle *h = opened(NULL, 1, 0);
	REQUIRE(h != NULL);
	struct hone_model *m = loaded(h, steering());
	REQUIRE(m != NULL);
	CHECK(hone_inputs(m) == 1 && hone_outputs(m) == 1 && hone_threads(h) == 1);
	struct hone_tensor x, y;
	HONE_INIT(x);
	HONE_INIT(y);
	CHECK_OK(hone_input(m, 0, &x));
	CHECK_OK(hone_output(m, 0, &y));
	CHECK(x.dtype == HONE_F32 && x.rank == 4 && x.shape[1] == 3 && x.shape[2] == 66 && x.shape[3] == 200);
	CHECK(x.bytes == 3 * 66 * 200 * 4 && x.size == sizeof x);
	CHECK(hone_find_input(m, x.name) == 0 && hone_find_output(m, y.name) == 0);
	CHECK(isfinite(first_output(m, 1)));
	struct hone_model_info s = info_of(m);
	CHECK(s.kernels[HONE_TUNED] == 0 && s.kernels[HONE_FALLBACK] > 3 && s.weight_bytes > 0);
	CHECK(strstr(s.remedy, "hone tune ") && strstr(s.remedy, "--threads 1") &&
	      !strstr(s.remedy, "--cache"));
	CHECK(hone_kernels(m) > 3 && strlen(s.target) > 4 && !s.from_image);
	struct hone_kernel_info k;
	HONE_INIT(k);
	CHECK_OK(hone_kernel(m, 0, &k));
	CHECK(k.what[0] && k.name[0] && k.origin >= HONE_FALLBACK);
	CHECK(hone_refresh(m) == 0);
	hone_close(h); /* the model keeps what it needs */
	CHECK(isfinite(first_output(m, 2)));
	hone_model_close(m);
}

TEST(words)
{
	CHECK(!strcmp(hone_version(), HONE_VERSION));
	CHECK(!strcmp(hone_status_name(HONE_CORRUPT), "corrupt"));
	CHECK(!strcmp(hone_dtype_name(HONE_F32), "f32") && hone_dtype_bytes(HONE_I64) == 8);
	CHECK(!hone_dtype_name(0) && !hone_dtype_name(99) && hone_dtype_bytes(-1) == 0);
	CHECK(!strcmp(hone_origin_name(HONE_PORTABLE), "portable") && !hone_origin_name(4) &&
	      !hone_origin_name(-1));
}

TEST(what_cannot_be_opened)
{
	struct hone_handle *h;
	struct hone_options o;
	const char *none = "";
	CHECK_FAILS(hone_open(NULL, NULL), HONE_USAGE, "nowhere");
	HONE_INIT(o);
	o.threads = 65;
	CHECK_FAILS(hone_open(&o, &h), HONE_USAGE, "1 to 64");
	CHECK(h == NULL);
	HONE_INIT(o);
	o.flags = 1u << 20;
	CHECK_FAILS(hone_open(&o, &h), HONE_USAGE, "0x100000");
	HONE_INIT(o);
	o.caches = &none;
	o.ncaches = 1;
	CHECK_FAILS(hone_open(&o, &h), HONE_USAGE, "no name");
	o.ncaches = 99;
	CHECK_FAILS(hone_open(&o, &h), HONE_USAGE, "99 cache folders");
	memset(&o, 0, sizeof o);
	CHECK_FAILS(hone_open(&o, &h), HONE_USAGE, "HONE_INIT");
	hone_close(NULL);
	hone_model_close(NULL);
}

/* A program that was built with a newer header, and one with an older. */
TEST(structures_grow)
{
	struct {
		struct hone_options o;
		int later;
	} newer = {.later = 0};
	struct hone_handle *h = NULL;
	const char *none = "";
	newer.o = (struct hone_options){.size = sizeof newer, .caches = &none, .threads = 1};
	REQUIRE_OK(hone_open(&newer.o, &h));
	struct hone_model *m = loaded(h, steering());
	REQUIRE(m != NULL);
	struct hone_tensor t;
	memset(&t, 0x55, sizeof t);
	t.size = offsetof(struct hone_tensor, rank);
	CHECK_OK(hone_input(m, 0, &t));
	CHECK(t.dtype == HONE_F32 && t.rank == 0x55555555 && t.size == offsetof(struct hone_tensor, rank));
	t.size = 3;
	CHECK_FAILS(hone_input(m, 0, &t), HONE_USAGE, "HONE_INIT");
	CHECK_FAILS(hone_summary(m, NULL), HONE_USAGE, "HONE_INIT");
	hone_model_close(m);
	hone_close(h);
	newer.later = 1;
	CHECK_FAILS(hone_open(&newer.o, &h), HONE_USAGE, "newer version");
}

TEST(what_cannot_be_loaded)
{
	struct hone_handle *h = opened(NULL, 1, 0);
	struct hone_model *m;
	struct hone_load_options o;
	const char *shape = "image", *other = "nonesuch=3";
	REQUIRE(h != NULL);
	CHECK_FAILS(hone_load(h, NULL, NULL, &m), HONE_USAGE, "no path");
	CHECK_FAILS(hone_load(NULL, "x", NULL, &m), HONE_USAGE, "no handle");
	CHECK_FAILS(hone_load(h, "x", NULL, NULL), HONE_USAGE, "nowhere");
	CHECK(hone_load(h, "/nonesuch.onnx", NULL, &m) < 0 && strstr(hone_error(), "/nonesuch.onnx") && !m);
	CHECK_FAILS(hone_load_bytes(h, "not a model", 11, NULL, &m), HONE_CORRUPT, "not ONNX");
	CHECK_FAILS(hone_load_bytes(h, NULL, 11, NULL, &m), HONE_USAGE, "no model");
	CHECK_FAILS(hone_load_bytes(h, "x", 1, NULL, NULL), HONE_USAGE, "nowhere");
	CHECK_FAILS(hone_load_bytes(NULL, "x", 1, NULL, &m), HONE_USAGE, "no handle");
	HONE_INIT(o);
	o.shapes = &shape;
	o.nshapes = 1;
	CHECK_FAILS(hone_load(h, steering(), &o, &m), HONE_USAGE, "NAME=DIMS");
	o.shapes = &other;
	CHECK_FAILS(hone_load(h, steering(), &o, &m), HONE_USAGE, "nonesuch");
	o.nshapes = -1;
	CHECK_FAILS(hone_load(h, steering(), &o, &m), HONE_USAGE, "shapes");
	hone_close(h);
}

TEST(what_cannot_be_bound_or_asked)
{
	struct hone_handle *h = opened(NULL, 1, 0);
	REQUIRE(h != NULL);
	struct hone_model *m = loaded(h, steering());
	REQUIRE(m != NULL);
	static float x[3 * 66 * 200 + 1];
	struct hone_tensor t;
	struct hone_kernel_info k;
	HONE_INIT(t);
	HONE_INIT(k);
	size_t bytes = sizeof x - sizeof *x;
	CHECK_FAILS(hone_bind_input(m, 1, x, bytes), HONE_USAGE, "no input 1: the model has 1");
	CHECK_FAILS(hone_bind_output(m, -1, x, bytes), HONE_USAGE, "no output -1");
	CHECK_FAILS(hone_bind_input(m, 0, x, bytes - 4), HONE_USAGE, "158400 bytes, not 158396");
	CHECK_FAILS(hone_bind_input(m, 0, (char *)x + 1, bytes), HONE_USAGE, "aligned");
	CHECK_OK(hone_bind_input(m, 0, x + 1, bytes));
	CHECK_OK(hone_bind_input(m, 0, NULL, 0));
	CHECK(!hone_input_buffer(m, 1) && strstr(hone_error(), "no input 1"));
	CHECK(!hone_output_buffer(m, 7) && strstr(hone_error(), "no output 7"));
	CHECK_FAILS(hone_input(m, 1, &t), HONE_USAGE, "no input 1");
	CHECK_FAILS(hone_output(m, 1, &t), HONE_USAGE, "no output 1");
	CHECK_FAILS(hone_find_input(m, "nonesuch"), HONE_NOTFOUND, "there are: camera");
	CHECK_FAILS(hone_find_output(m, NULL), HONE_NOTFOUND, "there are");
	CHECK_FAILS(hone_kernel(m, -1, &k), HONE_USAGE, "no kernel -1");
	CHECK_FAILS(hone_kernel(m, 1000, &k), HONE_USAGE, "no kernel 1000");
	CHECK_FAILS(hone_run_on(m, NULL, NULL), HONE_USAGE, "no buffer for");
	CHECK_FAILS(hone_wait(m, 0), HONE_USAGE, "hone_run_async");
	CHECK(hone_poll(m) == 1);
	hone_cancel(m); /* nobody runs: nothing */
	CHECK_OK(hone_run(m));
	hone_model_close(m);
	hone_close(h);
}

TEST(bound_buffers_are_used)
{
	struct hone_handle *h = opened(NULL, 1, 0);
	REQUIRE(h != NULL);
	struct hone_model *m = loaded(h, steering());
	REQUIRE(m != NULL);
	struct hone_tensor x, y;
	HONE_INIT(x);
	HONE_INIT(y);
	CHECK_OK(hone_input(m, 0, &x));
	CHECK_OK(hone_output(m, 0, &y));
	float want = first_output(m, 3), *in = malloc(x.bytes), *out = calloc(1, y.bytes);
	REQUIRE(in && out);
	fill_input(in, x.bytes, 3);
	CHECK_OK(hone_bind_input(m, 0, in, x.bytes));
	CHECK_OK(hone_bind_output(m, 0, out, y.bytes));
	memset(hone_input_buffer(m, 0), 0, x.bytes);
	CHECK_OK(hone_run(m));
	CHECK(out[0] == want);
	fill_input(in, x.bytes, 4);
	const void *ins[] = {in};
	void *outs[] = {hone_output_buffer(m, 0)};
	float before = out[0];
	CHECK_OK(hone_run_on(m, ins, outs));
	CHECK(out[0] == before && ((float *)outs[0])[0] != before);
	hone_model_close(m);
	hone_close(h);
	free(in);
	free(out);
}

TEST(runs_of_its_own_thread)
{
	struct hone_handle *h = opened(NULL, 2, HONE_NO_PIN);
	REQUIRE(h != NULL);
	struct hone_model *m = loaded(h, steering());
	REQUIRE(m != NULL);
	float want = first_output(m, 5);
	memset(hone_output_buffer(m, 0), 0, sizeof(float));
	CHECK_OK(hone_run_async(m));
	CHECK_FAILS(hone_run_async(m), HONE_BUSY, "hone_wait");
	int rc;
	while ((rc = hone_wait(m, 1)) == HONE_TIMEOUT)
		;
	CHECK_OK(rc);
	CHECK(hone_poll(m) == 1 && ((float *)hone_output_buffer(m, 0))[0] == want);
	int stopped = 0;
	for (int i = 0; i < 200; i++) { /* cancelled before, in the middle, or too late */
		CHECK_OK(hone_run_async(m));
		for (int spin = 0; spin < i * 50; spin++)
			__asm__ volatile("");
		hone_cancel(m);
		rc = hone_wait(m, -1);
		CHECK(rc == HONE_OK || rc == HONE_STOPPED);
		stopped += rc == HONE_STOPPED;
	}
	CHECK(stopped > 0);
	CHECK_OK(hone_run_async(m));
	CHECK_OK(hone_wait(m, -1));
	CHECK(((float *)hone_output_buffer(m, 0))[0] == want);
	CHECK_OK(hone_run_async(m));
	hone_model_close(m); /* cancels */
	hone_close(h);
}

TEST(kernels_that_come_later)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("later"));
	struct hone_handle *h = opened(cache, 1, 0);
	REQUIRE(h != NULL);
	struct hone_model *m = loaded(h, steering());
	REQUIRE(m != NULL);
	float want = first_output(m, 6);
	CHECK(hone_refresh(m) == 0);
	CHECK(strstr(info_of(m).remedy, cache) != NULL);
	copy_folder(tuned(), cache);
	CHECK(hone_refresh(m) == 1);
	struct hone_model_info s = info_of(m);
	CHECK(s.kernels[HONE_TUNED] + s.kernels[HONE_DEFAULT] > 3 && s.refreshed == 1);
	CHECK(s.kernels[HONE_FALLBACK] == 0);
	CHECK(near(first_output(m, 6), want));
	CHECK(hone_refresh(m) == 0);
	hone_model_close(m);
	hone_close(h);
}

TEST(a_file_that_changes)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char cache[256], model[256], cmd[700];
	snprintf(cache, sizeof cache, "%s", in_dir("changing"));
	snprintf(model, sizeof model, "%s", in_dir("changing.onnx"));
	snprintf(cmd, sizeof cmd, "cp '%s' '%s'", steering(), model);
	REQUIRE(system(cmd) == 0);
	struct hone_handle *h = opened(cache, 1, 0);
	REQUIRE(h != NULL);
	struct hone_model *m = loaded(h, model);
	REQUIRE(m != NULL);
	float want = first_output(m, 7);
	copy_folder(tuned(), cache);
	CHECK_RUN(0, "zoo -q squeezenet1_1 --output=%s", model);
	CHECK_FAILS(hone_refresh(m), HONE_CORRUPT, "another model now");
	CHECK(unlink(model) == 0);
	CHECK(hone_refresh(m) < 0 && strstr(hone_error(), model));
	CHECK(first_output(m, 7) == want);
	hone_model_close(m);
	hone_close(h);
}

/* What others may write is not run; what cannot be read is not there. */
TEST(caches_that_are_not_good)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char open_to_all[256], torn[256], file[300], cmd[700];
	snprintf(open_to_all, sizeof open_to_all, "%s", in_dir("open"));
	copy_folder(tuned(), open_to_all);
	CHECK(chmod(open_to_all, 0777) == 0);
	struct hone_handle *h = opened(open_to_all, 1, 0);
	REQUIRE(h != NULL);
	struct hone_model *m = loaded(h, steering());
	REQUIRE(m != NULL);
	CHECK(info_of(m).kernels[HONE_TUNED] + info_of(m).kernels[HONE_DEFAULT] == 0);
	hone_model_close(m);
	hone_close(h);
	snprintf(file, sizeof file, "%s", in_dir("a-file"));
	FILE *f = fopen(file, "w");
	REQUIRE(f && fclose(f) == 0);
	h = opened(file, 1, 0); /* no folder */
	REQUIRE(h != NULL);
	m = loaded(h, steering());
	CHECK(m && isfinite(first_output(m, 1)));
	hone_model_close(m);
	hone_close(h);
	/* A byte in every 200 is another: most records are lost, none is believed. */
	for (int seed = 0; seed < 12; seed++) {
		snprintf(torn, sizeof torn, "%s", in_dir("torn"));
		snprintf(cmd, sizeof cmd, "rm -rf '%s'", torn);
		CHECK(system(cmd) == 0);
		copy_folder(tuned(), torn);
		snprintf(cmd, sizeof cmd,
			 "for f in $(find '%s' -type f -size +400c); do python3 - $f %d <<'X' 2>/dev/null || "
			 "dd if=/dev/urandom of=$f bs=100 seek=%d count=2 conv=notrunc 2>/dev/null\n"
			 "import sys,random\nr=random.Random(int(sys.argv[2]))\nb=bytearray(open(sys.argv[1],"
			 "'rb').read())\nfor i in range(0,len(b),200*(1+r.randrange(40))): "
			 "b[min(len(b)-1,i+r.randrange(200))]^=1+r.randrange(255)\nopen(sys.argv[1],'wb')."
			 "write(b)\nX\ndone",
			 torn, seed, seed * 3);
		(void)!system(cmd);
		h = opened(torn, 1, 0);
		REQUIRE(h != NULL);
		m = loaded(h, steering());
		CHECK(m && isfinite(first_output(m, 1)));
		hone_model_close(m);
		hone_close(h);
	}
}

TEST(a_cache_that_is_only_read)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char cache[256], cmd[600];
	snprintf(cache, sizeof cache, "%s", in_dir("fixed"));
	copy_folder(tuned(), cache);
	snprintf(cmd, sizeof cmd, "chmod -R a-w '%s'", cache);
	CHECK(system(cmd) == 0);
	struct hone_handle *h = opened(cache, 1, HONE_KEEP_IMAGES);
	REQUIRE(h != NULL);
	struct hone_model *m = loaded(h, steering());
	REQUIRE(m != NULL);
	CHECK(info_of(m).kernels[HONE_FALLBACK] == 0 && isfinite(first_output(m, 1)));
	CHECK(hone_refresh(m) == 0);
	hone_model_close(m);
	hone_close(h);
	snprintf(cmd, sizeof cmd, "chmod -R u+w '%s'", cache);
	CHECK(system(cmd) == 0);
}

static void find_image(const char *cache, char *out, size_t n)
{
	char cmd[600];
	snprintf(cmd, sizeof cmd, "ls '%s'/images/*.image 2>/dev/null", cache);
	FILE *p = popen(cmd, "r");
	out[0] = 0;
	if (p && fgets(out, (int)n, p))
		out[strcspn(out, "\n")] = 0;
	if (p)
		pclose(p);
}

static bool starts_from_image(const char *cache, float want)
{
	struct hone_handle *h = opened(cache, 1, HONE_KEEP_IMAGES);
	struct hone_model *m = h ? loaded(h, steering()) : NULL;
	bool from = m && info_of(m).from_image;
	CHECK(m && first_output(m, 8) == want);
	CHECK(m && hone_refresh(m) == 0);
	hone_model_close(m);
	hone_close(h);
	return from;
}

TEST(images_are_kept_and_checked)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char cache[256], image[400], cmd[1000];
	snprintf(cache, sizeof cache, "%s", in_dir("imaged"));
	copy_folder(tuned(), cache);
	struct hone_handle *h = opened(cache, 1, HONE_KEEP_IMAGES);
	REQUIRE(h != NULL);
	struct hone_model *m = loaded(h, steering());
	REQUIRE(m != NULL);
	struct hone_model_info first = info_of(m);
	float want = first_output(m, 8);
	CHECK(!first.from_image);
	hone_model_close(m);
	find_image(cache, image, sizeof image);
	REQUIRE(image[0] != 0);
	m = loaded(h, steering());
	REQUIRE(m != NULL);
	struct hone_model_info again = info_of(m);
	CHECK(again.from_image && !memcmp(again.kernels, first.kernels, sizeof first.kernels));
	CHECK(again.weight_bytes == first.weight_bytes && again.tensor_bytes == first.tensor_bytes);
	CHECK(first_output(m, 8) == want);
	hone_model_close(m);
	hone_close(h);
	struct stat st;
	REQUIRE(stat(image, &st) == 0);
	CHECK(starts_from_image(cache, want));
	/* Any byte that is another, and any end: the model is loaded from its file, and kept again. */
	for (int i = 0; i < 24; i++) {
		int fd = open(image, O_RDWR);
		off_t at = i < 6 ? i * 11 : (off_t)(st.st_size / 24 * i);
		unsigned char b = 0;
		REQUIRE(fd >= 0 && pread(fd, &b, 1, at) == 1);
		b ^= 0x40;
		CHECK(pwrite(fd, &b, 1, at) == 1 && close(fd) == 0);
		bool same = starts_from_image(cache, want); /* padding says nothing */
		CHECK(!same);
		if (i % 8 == 7) {
			CHECK(truncate(image, st.st_size / 24 * i) == 0);
			CHECK(!starts_from_image(cache, want));
		}
	}
	CHECK(starts_from_image(cache, want));
	CHECK(chmod(image, 0666) == 0); /* others may write it */
	CHECK(!starts_from_image(cache, want));
	snprintf(cmd, sizeof cmd, "touch '%s'", steering());
	CHECK(system(cmd) == 0); /* the model may be another */
	CHECK(!starts_from_image(cache, want));
	CHECK(starts_from_image(cache, want));
}

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
	CHECK_FAILS(hone_kernel_find(h, &want, &m), HONE_USAGE, "no op 3");
	want.activation = 9;
	CHECK_FAILS(hone_kernel_find(h, &want, &m), HONE_USAGE, "no activation 9");
	CHECK_FAILS(hone_kernel_find(h, NULL, &m), HONE_USAGE, "nothing wanted");
	CHECK_FAILS(hone_kernel_write(NULL, path), HONE_USAGE, "nothing wanted");
	hone_close(h);
}

enum { THREADS = 8 };

struct crowd {
	struct hone_handle *h;
	struct hone_model *shared;
	float want[THREADS];
	int rounds;
	atomic_int wrong, running;
};

struct member {
	struct crowd *c;
	int number;
};

/* Each on a model of its own and on the one that all share, asking what runs between. */
static void *member_main(void *arg)
{
	const struct member *me = arg;
	struct crowd *c = me->c;
	struct hone_model *own = NULL;
	struct hone_tensor x;
	HONE_INIT(x);
	if (hone_load(c->h, steering(), NULL, &own) < 0 || hone_input(own, 0, &x) < 0) {
		c->wrong++;
		c->running--;
		return NULL;
	}
	float *in = malloc(x.bytes), out = 0;
	fill_input(in, x.bytes, me->number);
	const void *ins[] = {in};
	void *outs[] = {&out};
	for (int i = 0; i < c->rounds; i++) {
		struct hone_kernel_info k;
		struct hone_model_info s;
		HONE_INIT(k);
		HONE_INIT(s);
		out = 0;
		c->wrong += hone_run_on(c->shared, ins, outs) < 0 || !near(out, c->want[me->number]);
		memcpy(hone_input_buffer(own, 0), in, x.bytes);
		int rc = i % 2 ? hone_run(own) : hone_run_async(own);
		if (rc >= 0 && i % 2 == 0)
			rc = hone_wait(own, -1);
		c->wrong += rc < 0 || !near(((float *)hone_output_buffer(own, 0))[0], c->want[me->number]);
		c->wrong += hone_summary(c->shared, &s) < 0 || hone_kernels(c->shared) < 1;
		(void)hone_kernel(c->shared, i, &k);
		if (i % 4 == 3)
			c->wrong += hone_refresh(own) < 0;
	}
	free(in);
	hone_model_close(own);
	c->running--;
	return NULL;
}

/* Records that are damaged and whole by turns, so that every refresh finds other kernels. */
static int spoil(struct cache *w, int n, const struct key *k, const struct blob *good, int turn)
{
	int rc = 0;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = cache_put(w, CACHE_REC, k[i], turn % 2 ? good[i].p : "?", turn % 2 ? good[i].n : 1);
	return rc < 0 ? rc : cache_commit(w);
}

static void run_crowd(int threads, const char *name)
{
	char folder[256];
	struct arena a = {0};
	struct cache *w = NULL;
	struct key *keys;
	struct blob good[64];
	pthread_t id[THREADS];
	struct member member[THREADS];
	snprintf(folder, sizeof folder, "%s", in_dir(name));
	copy_folder(tuned(), folder);
	REQUIRE_OK(cache_open(&w, folder, false, NS_PER_S));
	int n = cache_keys(w, CACHE_REC, &a, &keys);
	REQUIRE(n > 0 && n <= 64);
	for (int i = 0; i < n; i++)
		REQUIRE_OK(cache_get(w, CACHE_REC, keys[i], &a, &good[i]));
	struct crowd c = {.h = opened(folder, threads, HONE_NO_PIN), .rounds = 12, .running = THREADS};
	REQUIRE(c.h != NULL);
	c.shared = loaded(c.h, steering());
	REQUIRE(c.shared != NULL);
	for (int i = 0; i < THREADS; i++)
		c.want[i] = first_output(c.shared, i);
	for (int i = 0; i < THREADS; i++) {
		member[i] = (struct member){&c, i};
		REQUIRE(pthread_create(&id[i], NULL, member_main, &member[i]) == 0);
	}
	int changed = 0, rc = 0;
	for (int turn = 0; (c.running > 0 || turn < 2) && rc >= 0; turn++) {
		rc = spoil(w, n, keys, good, turn);
		if (rc >= 0)
			rc = hone_refresh(c.shared);
		changed += rc > 0;
	}
	CHECK_OK(rc);
	for (int i = 0; i < THREADS; i++)
		pthread_join(id[i], NULL);
	CHECK(changed >= 1 && info_of(c.shared).refreshed == changed);
	CHECK(c.wrong == 0);
	hone_model_close(c.shared);
	hone_close(c.h);
	cache_close(w);
	arena_free(&a);
}

TEST(many_threads_and_refreshes)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	run_crowd(1, "crowd-1");
	if (!test_bad)
		run_crowd(2, "crowd-2");
}

TEST_MAIN
