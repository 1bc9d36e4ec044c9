/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the library for applications through its public header only. */
#include "tests/lib/libhone.h"
#include "tests/lib/maps.h"

#include <limits.h>
#include <sched.h>
#include <sys/resource.h>

/* Counts the program's allocations, unless a sanitizer replaces the allocator. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
enum { COUNTED = 1 };
static _Thread_local int allocations;
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *malloc(size_t n)
{
	allocations++;
	return __libc_malloc(n);
}
void *calloc(size_t n, size_t each)
{
	allocations++;
	return __libc_calloc(n, each);
}
void *realloc(void *p, size_t n)
{
	allocations++;
	return __libc_realloc(p, n);
}
#else
enum { COUNTED = 0 };
static int allocations;
#endif

TEST(without_a_cache)
{
	struct hone_handle *h = opened(NULL, 1, 0);
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

TEST(bad_options_of_open)
{
	struct hone_handle *h;
	struct hone_options o;
	const char *none = "";
	CHECK_FAILS(hone_open(NULL, NULL), HONE_USAGE, "out is NULL");
	HONE_INIT(o);
	o.threads = 65;
	CHECK_FAILS(hone_open(&o, &h), HONE_USAGE, "1 to 64");
	CHECK(h == NULL);
	HONE_INIT(o);
	o.flags = 1u << 20;
	CHECK_FAILS(hone_open(&o, &h), HONE_USAGE, "0x100000");
	o.flags = HONE_EXACT | HONE_W16;
	CHECK_FAILS(hone_open(&o, &h), HONE_USAGE, "HONE_EXACT excludes HONE_W16, HONE_HALF, HONE_HALF_SUM and HONE_INT8");
	o.flags = HONE_EXACT | HONE_HALF;
	CHECK_FAILS(hone_open(&o, &h), HONE_USAGE, "HONE_EXACT excludes HONE_W16, HONE_HALF, HONE_HALF_SUM and HONE_INT8");
	o.flags = HONE_HALF | HONE_INT8;
	CHECK_FAILS(hone_open(&o, &h), HONE_USAGE, "HONE_HALF excludes HONE_INT8");
	o.flags = HONE_HALF_SUM | HONE_INT8;
	CHECK_FAILS(hone_open(&o, &h), HONE_USAGE, "HONE_HALF_SUM excludes HONE_INT8");
	o.flags = HONE_EXACT | HONE_HALF_SUM;
	CHECK_FAILS(hone_open(&o, &h), HONE_USAGE, "HONE_EXACT excludes");
	o.flags = HONE_EXACT | HONE_INT8;
	CHECK_FAILS(hone_open(&o, &h), HONE_USAGE, "HONE_EXACT excludes HONE_W16, HONE_HALF, HONE_HALF_SUM and HONE_INT8");
	HONE_INIT(o);
	o.caches = &none;
	o.ncaches = 1;
	CHECK_FAILS(hone_open(&o, &h), HONE_USAGE, "missing or too long");
	o.ncaches = 99;
	CHECK_FAILS(hone_open(&o, &h), HONE_USAGE, "ncaches is 99");
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

TEST(bad_arguments_of_load)
{
	struct hone_handle *h = opened(NULL, 1, 0);
	struct hone_model *m;
	struct hone_load_options o;
	const char *shape = "image", *other = "nonesuch=3";
	REQUIRE(h != NULL);
	CHECK_FAILS(hone_load(h, NULL, NULL, &m), HONE_USAGE, "the path is NULL");
	CHECK_FAILS(hone_load(NULL, "x", NULL, &m), HONE_USAGE, "the handle is NULL");
	CHECK_FAILS(hone_load(h, "x", NULL, NULL), HONE_USAGE, "out is NULL");
	CHECK(hone_load(h, "/nonesuch.onnx", NULL, &m) < 0 && strstr(hone_error(), "/nonesuch.onnx") && !m);
	CHECK_FAILS(hone_load_bytes(h, "not a model", 11, NULL, &m), HONE_CORRUPT, "not ONNX");
	CHECK_FAILS(hone_load_bytes(h, NULL, 11, NULL, &m), HONE_USAGE, "the model is NULL");
	CHECK_FAILS(hone_load_bytes(h, "x", 1, NULL, NULL), HONE_USAGE, "out is NULL");
	CHECK_FAILS(hone_load_bytes(NULL, "x", 1, NULL, &m), HONE_USAGE, "the handle is NULL");
	HONE_INIT(o);
	o.shapes = &shape;
	o.nshapes = 1;
	CHECK_FAILS(hone_load(h, steering(), &o, &m), HONE_USAGE, "NAME=DIMS");
	o.shapes = &other;
	CHECK_FAILS(hone_load(h, steering(), &o, &m), HONE_USAGE, "nonesuch");
	o.nshapes = -1;
	CHECK_FAILS(hone_load(h, steering(), &o, &m), HONE_USAGE, "nshapes is -1");
	o.nshapes = INT_MAX;
	CHECK_FAILS(hone_load(h, steering(), &o, &m), HONE_USAGE, "nshapes is 2147483647");
	char most[40];
	snprintf(most, sizeof most, " %zu bytes", SIZE_MAX);
	CHECK_FAILS(hone_load_bytes(h, "x", SIZE_MAX, NULL, &m), HONE_NOMEM, most);
	/* A sanitizer ends the program at such a size, and a machine of 32 bits may have that much memory. */
	if (COUNTED && sizeof(size_t) > 4)
		CHECK_FAILS(hone_load_bytes(h, "x", SIZE_MAX / 4, NULL, &m), HONE_NOMEM, "no memory");
	hone_close(h);
}

/* HONE_VERBOSE logs which sizes of the model the caller's replace. */
TEST(sizes_that_replace_fixed_ones_are_logged)
{
	static const unsigned flags[] = {HONE_VERBOSE, 0};
	for (int i = 0; i < 2; i++) {
		char path[] = "/tmp/hone-said-XXXXXX", text[8192] = "";
		struct hone_handle *h = opened(NULL, 1, flags[i]);
		struct hone_model *m = NULL;
		const char *shape = "camera=2x3x66x200";
		struct hone_load_options o;
		HONE_INIT(o);
		o.shapes = &shape;
		o.nshapes = 1;
		fflush(stderr);
		int said = mkstemp(path), before = dup(2);
		REQUIRE(said >= 0 && before >= 0 && h);
		unlink(path);
		dup2(said, 2);
		int rc = hone_load(h, steering(), &o, &m);
		fflush(stderr);
		dup2(before, 2);
		close(before);
		CHECK(pread(said, text, sizeof text - 1, 0) >= 0);
		close(said);
		CHECK_OK(rc);
		CHECK(!strstr(text, "replace those that the model fixes: 2x3x66x200 for input 'camera'") ==
		      !flags[i]);
		hone_model_close(m);
		hone_close(h);
	}
}

TEST(bad_arguments_of_bind_and_info)
{
	struct hone_handle *h = opened(NULL, 1, 0);
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
	CHECK_FAILS(hone_find_input(m, "nonesuch"), HONE_NOTFOUND, "the model has: camera");
	CHECK_FAILS(hone_find_output(m, NULL), HONE_NOTFOUND, "the model has");
	CHECK_FAILS(hone_kernel(m, -1, &k), HONE_USAGE, "no kernel -1");
	CHECK_FAILS(hone_kernel(m, 1000, &k), HONE_USAGE, "no kernel 1000");
	CHECK_FAILS(hone_run_on(m, NULL, NULL), HONE_USAGE, "the buffer of");
	CHECK_FAILS(hone_wait(m, 0), HONE_USAGE, "hone_run_async");
	CHECK(hone_poll(m) == 1);
	hone_cancel(m); /* no run: does nothing */
	CHECK_OK(hone_run(m));
	hone_model_close(m);
	hone_close(h);
}

/* A plan for processors opens no driver. */
TEST(no_opencl_driver_is_mapped)
{
	struct hone_handle *h = opened(tuned(), 2, 0);
	struct hone_model *m = loaded(h, steering());
	REQUIRE(m != NULL);
	CHECK(isfinite(first_output(m, 3)));
	CHECK(!maps_driver(0));
	hone_model_close(m);
	hone_close(h);
}

/* Loads handle failures of their own: an absent device, and a cache that is not there. */
TEST(no_error_text_after_a_success)
{
	const char *const caches[] = {in_dir("nothing-here")};
	struct hone_options o;
	struct hone_model *m;
	for (int k = 0; k < 3; k++) {
		struct hone_handle *h;
		HONE_INIT(o);
		o.threads = 1;
		o.caches = caches;
		o.ncaches = k == 1;
		o.device = k == 2 ? "opencl:99" : NULL;
		CHECK(hone_open(&o, NULL) < 0 && *hone_error());
		REQUIRE_OK(hone_open(&o, &h));
		CHECK(!strcmp(hone_error(), ""));
		CHECK(hone_load(h, NULL, NULL, &m) < 0 && *hone_error());
		REQUIRE_OK(hone_load(h, steering(), NULL, &m));
		CHECK(!strcmp(hone_error(), ""));
		CHECK(hone_summary(m, NULL) < 0 && *hone_error());
		CHECK(hone_refresh(m) >= 0 && !strcmp(hone_error(), ""));
		hone_model_close(m);
		hone_close(h);
	}
}

TEST(bound_buffers_are_used)
{
	struct hone_handle *h = opened(NULL, 1, 0);
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
	struct hone_model *m = loaded(h, model);
	REQUIRE(m != NULL);
	float want = first_output(m, 7);
	copy_folder(tuned(), cache);
	CHECK(unlink(model) == 0);
	CHECK_RUN(0, "zoo -q squeezenet1_1 --output=%s", model);
	CHECK_FAILS(hone_refresh(m), HONE_CORRUPT, "has changed to another model");
	CHECK(unlink(model) == 0);
	CHECK(hone_refresh(m) < 0 && strstr(hone_error(), model));
	CHECK(first_output(m, 7) == want);
	hone_model_close(m);
	hone_close(h);
}

/* Files that others may write are not used; unreadable ones count as missing. */
TEST(caches_that_are_not_good)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char open_to_all[256], torn[256], file[300], cmd[700];
	snprintf(open_to_all, sizeof open_to_all, "%s", in_dir("open"));
	copy_folder(tuned(), open_to_all);
	CHECK(chmod(open_to_all, 0777) == 0);
	struct hone_handle *h = opened(open_to_all, 1, 0);
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
	/* One byte in 200 is changed: most records are lost, and none is believed. */
	for (int seed = 0; seed < (test_share() > 1 ? 3 : 12); seed++) {
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
	/* With any byte changed, or cut at any place, the model is loaded from its file and kept again. */
	for (int i = 0; i < 24; i++) {
		int fd = open(image, O_RDWR);
		off_t at = i < 6 ? i * 11 : (off_t)(st.st_size / 24 * i);
		unsigned char b = 0;
		REQUIRE(fd >= 0 && pread(fd, &b, 1, at) == 1);
		b ^= 0x40;
		CHECK(pwrite(fd, &b, 1, at) == 1 && close(fd) == 0);
		bool same = starts_from_image(cache, want); /* padding is not checked */
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
	CHECK(system(cmd) == 0); /* the model may have changed */
	CHECK(!starts_from_image(cache, want));
	CHECK(starts_from_image(cache, want));
}

/* Caches and models are still found after the program changes its folder. */
TEST(relative_paths)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char before[4096], cmd[700];
	struct hone_handle *h;
	struct hone_model *m = NULL;
	REQUIRE(getcwd(before, sizeof before) != NULL);
	snprintf(cmd, sizeof cmd, "cp '%s' \"%s\"", steering(), in_dir("it's here.onnx"));
	REQUIRE(system(cmd) == 0 && chdir(dir) == 0);
	h = opened("beside me", 1, 0);
	if (h)
		CHECK_OK(hone_load(h, "it's here.onnx", NULL, &m));
	REQUIRE(chdir(before) == 0);
	REQUIRE(m != NULL);
	copy_folder(tuned(), in_dir("beside me"));
	CHECK(hone_refresh(m) == 1 && info_of(m).kernels[HONE_FALLBACK] == 0);
	hone_model_close(m);
	hone_close(h);
}

/* Kernels that were tuned at level fp32 serve w16, but not exact; those of w16 serve only it. */
TEST(levels)
{
	static const unsigned flags[] = {HONE_EXACT, 0, HONE_W16};
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	char high[256];
	snprintf(high, sizeof high, "%s", in_dir("w16"));
	CHECK_RUN(0, "tune %s %s --threads 1 --level w16 --cache %s", steering(), estimate(), high);
	for (int i = 0; i < 6; i++) {
		struct hone_handle *h = opened(i < 3 ? tuned() : high, 1, flags[i % 3]);
		struct hone_model *m = h ? loaded(h, steering()) : NULL;
		REQUIRE(m != NULL);
		struct hone_model_info s = info_of(m);
		bool serves = i % 3 >= (i < 3 ? 1 : 2);
		CHECK((s.kernels[HONE_TUNED] + s.kernels[HONE_DEFAULT] > 0) == serves);
		CHECK(serves || i % 3 != 0 || strstr(s.remedy, " --level exact"));
		hone_model_close(m);
		hone_close(h);
	}
}

/* The remedy is a command that the shell reads as intended. */
TEST(remedies)
{
	char cache[4096], cmd[1200], path[256];
	struct hone_handle *h = opened(in_dir("a b"), 1, HONE_EXACT);
	REQUIRE(h != NULL);
	snprintf(path, sizeof path, "%s", in_dir("it's here.onnx"));
	snprintf(cmd, sizeof cmd, "cp '%s' \"%s\"", steering(), path);
	REQUIRE(system(cmd) == 0);
	struct hone_model *m = loaded(h, path);
	REQUIRE(m != NULL);
	struct hone_model_info s = info_of(m);
	snprintf(cmd, sizeof cmd,
		 "hone() { test \"$2\" = \"%s\" -a \"$6\" = \"%s\" -a \"$7 $8\" = \"--level exact\"; }; %s",
		 path, in_dir("a b"), s.remedy);
	CHECK(system(cmd) == 0);
	hone_model_close(m);
	hone_close(h);
	for (int i = 0; i < 600; i++)
		cache[i] = i % 100 ? 'c' : '/';
	cache[600] = 0;
	h = opened(cache, 1, 0);
	REQUIRE(h != NULL);
	m = loaded(h, path);
	s = info_of(m);
	CHECK(strstr(s.remedy, "run hone tune with") && strstr(s.remedy, "--threads 1") &&
	      !strstr(s.remedy, "ccc"));
	hone_model_close(m);
	hone_close(h);
}

TEST(runs_do_not_allocate)
{
	if (!COUNTED)
		SKIP("a sanitizer has an allocator of its own");
	char path[600];
	static const char *const models[] = {"hand_keypoint_classifier", "dtln_1", "yunet_n_320", "mnist_8"};
	struct hone_handle *h = opened(NULL, 1, 0);
	REQUIRE(h != NULL);
	for (size_t i = 0; i <= sizeof models / sizeof *models; i++) {
		const char *name = i ? models[i - 1] : NULL;
		if (name && !test_data())
			SKIP("no models (HONE_DATA)");
		if (name)
			snprintf(path, sizeof path, "%s/models/%s/model.onnx", test_data(), name);
		struct hone_model *m = loaded(h, name ? path : steering());
		REQUIRE(m != NULL);
		int before = allocations;
		for (int k = 0; k < 3; k++)
			CHECK_OK(hone_run(m));
		if (allocations != before)
			printf("%s: %d allocations\n", name ? path : "steering", allocations - before);
		CHECK(allocations == before);
		hone_model_close(m);
	}
	hone_close(h);
}

/* 64 threads on any cores; by default as many threads as cores, where the process has one core. */
TEST(threads_and_cores)
{
	cpu_set_t all, one;
	struct hone_handle *h = opened(NULL, 1, 0);
	struct hone_model *m = loaded(h, steering());
	REQUIRE(m != NULL);
	float want = first_output(m, 9);
	hone_model_close(m);
	hone_close(h);
	REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &one);
	for (int way = 0; way < 3; way++) {
		REQUIRE(sched_setaffinity(0, sizeof all, way ? &one : &all) == 0);
		h = opened(NULL, way == 1 ? 0 : 64, 0);
		REQUIRE(h != NULL);
		CHECK(hone_threads(h) == (way == 1 ? 1 : 64));
		m = loaded(h, steering());
		CHECK(m && near(first_output(m, 9), want) && near(first_output(m, 9), want));
		hone_model_close(m);
		hone_close(h);
	}
	CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
}

/* With no descriptors left, models in memory still run. */
TEST(no_files)
{
	struct rlimit old, none;
	struct blob file;
	struct arena a = {0};
	struct hone_handle *h = NULL;
	struct hone_model *m = NULL;
	REQUIRE_OK(file_read(&a, steering(), 0, &file));
	h = opened(in_dir("no-files"), 1, 0);
	REQUIRE(h != NULL);
	REQUIRE(getrlimit(RLIMIT_NOFILE, &old) == 0);
	none = old;
	none.rlim_cur = 0;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
	int missing = hone_load(h, steering(), NULL, &m);
	bool said = strstr(hone_error(), steering()) != NULL;
	int loaded_rc = hone_load_bytes(h, file.p, file.n, NULL, &m);
	bool ran = m && isfinite(first_output(m, 1)) && hone_refresh(m) >= 0;
	CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
	CHECK(missing < 0 && said);
	CHECK_OK(loaded_rc);
	CHECK(ran);
	hone_model_close(m);
	hone_close(h);
	arena_free(&a);
}

/* Without named caches, honed's cache is used, too; before it exists, none is. */
TEST(kernels_of_honed)
{
	if (!tuned())
		SKIP("no hone-worker");
	struct hone_options o;
	HONE_INIT(o);
	o.threads = 1;
	char *xdg = getenv("XDG_CACHE_HOME"), old[4096];
	snprintf(old, sizeof old, "%s", xdg ? xdg : "");
	setenv("XDG_CACHE_HOME", in_dir("no cache"), 1);
	for (int i = 0; i < 2; i++) {
		struct hone_handle *h = NULL;
		setenv("HONE_DAEMON_CACHE", i ? tuned() : "/dev/null/none", 1);
		CHECK_OK(hone_open(&o, &h));
		REQUIRE(h);
		struct hone_model *m = loaded(h, steering());
		struct hone_model_info s = info_of(m);
		CHECK((s.kernels[HONE_TUNED] + s.kernels[HONE_DEFAULT] > 3) == (i == 1));
		hone_model_close(m);
		hone_close(h);
	}
	unsetenv("HONE_DAEMON_CACHE");
	if (xdg)
		setenv("XDG_CACHE_HOME", old, 1);
	else
		unsetenv("XDG_CACHE_HOME");
}

TEST(no_home_folder)
{
	char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
	char old_home[4096], old_xdg[4096];
	snprintf(old_home, sizeof old_home, "%s", home ? home : "");
	snprintf(old_xdg, sizeof old_xdg, "%s", xdg ? xdg : "");
	unsetenv("HOME");
	unsetenv("XDG_CACHE_HOME");
	setenv("HONE_DAEMON_CACHE", "/dev/null/none", 1); /* this machine may have one */
	struct hone_handle *h = NULL;
	CHECK_OK(hone_open(NULL, &h));
	struct hone_model *m = h ? loaded(h, steering()) : NULL;
	CHECK(m && isfinite(first_output(m, 1)) && !strstr(info_of(m).remedy, "--cache"));
	hone_model_close(m);
	hone_close(h);
	unsetenv("HONE_DAEMON_CACHE");
	if (home)
		setenv("HOME", old_home, 1);
	if (xdg)
		setenv("XDG_CACHE_HOME", old_xdg, 1);
}

TEST_MAIN
