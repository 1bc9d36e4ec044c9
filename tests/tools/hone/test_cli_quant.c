/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: a quantised network is tuned as integer tasks, and gives the same numbers as before. */
#include "tests/lib/byte_net.h"
#include "tests/lib/cli_model.h"
#include "tests/lib/plan_c.h"
#include "tests/lib/scratch.h"

#include "agent/cache/chosen.h"
#include "platform/machine/target.h"

enum { NETS = 2 /* activations of u8 and of s8 */ };

static const char *make_model(int seed, const char *name, const struct byte_net_size *size)
{
	struct byte_net m;
	struct blob b = byte_net(&m, (uint64_t)seed, size);
	const char *path = in_dir(name);
	CHECK_OK(file_write(path, b.p, b.n));
	arena_free(&m.k.a);
	return path;
}

static const char *model(int seed)
{
	return make_model(seed, seed % 2 ? "odd.onnx" : "even.onnx", &(struct byte_net_size){48, 64, 40});
}

/* Reads the output for seeded inputs. */
static size_t run(const char *path, const char *cache, const char *options, char *to, size_t cap)
{
	char out[256], file[300];
	struct arena a = {0};
	struct blob b = {0};
	snprintf(out, sizeof out, "%s", in_dir("out"));
	CHECK_RUN(0, "run %s --random --threads 1 %s --cache %s -o %s", path, options, cache, out);
	snprintf(file, sizeof file, "%s/out.npy", out);
	CHECK_OK(file_read(&a, file, cap, &b));
	if (b.n)
		memcpy(to, b.p, b.n);
	size_t n = b.n;
	arena_free(&a);
	return n;
}

/* Kernels of an origin, of those that run a task or node whose name contains `word`. */
static int count(const char *path, const char *cache, const char *word, const char *kind)
{
	size_t i;
	const json_t *k;
	int n = 0;
	CHECK_RUN(0, "bench %s --json --runs 2 --threads 1 --cache %s", path, cache);
	json_t *report = json_loads(cli_out, 0, NULL);
	json_array_foreach(json_object_get(report, "kernels"), i, k)
	{
		const char *label = json_string_value(json_object_get(k, "label"));
		const char *from = json_string_value(json_object_get(k, "kernel_kind"));
		const char *at = label && from && !strcmp(from, kind) ? strstr(label, word) : NULL;
		for (; at; at = strstr(at + 1, word))
			n++; /* a block's label names each of its stages */
	}
	json_decref(report);
	return n;
}

/* Whether the machine has dot products of bytes. Without them portable code may be the faster one. */
static bool has_dots(void)
{
	struct target t;
	return target_host(&t) >= 0 &&
	       (target_has(&t, "+avx512vnni") || target_has(&t, "+avxvnni") || target_has(&t, "+dotprod"));
}

TEST(quantised_networks_are_tuned)
{
	static char before[1 << 20], after[1 << 20];
	if (!worker())
		SKIP("no worker (set HONE_WORKER)");
	for (int seed = 1; seed <= NETS; seed++) {
		char path[256], cache[256];
		snprintf(path, sizeof path, "%s", model(seed));
		snprintf(cache, sizeof cache, "%s", in_dir(seed % 2 ? "odd" : "even"));
		REQUIRE(mkdir(cache, 0755) == 0);
		CHECK(count(path, cache, "QLinearConv", "portable") >= 4);
		size_t n = run(path, cache, "", before, sizeof before);
		CHECK_RUN(0, "tune %s --json --budget 11s --threads 1 -q --cache %s", path, cache);
		CHECK(n > 1000 && run(path, cache, "", after, sizeof after) == n &&
		      !memcmp(before, after, n));
		int tuned = 0;
		static const char *const names[] = {"conv",
						    "matmul"}; /* a 1x1 convolution may be a product */
		for (int i = 0; i < 2; i++)
			tuned +=
			    count(path, cache, names[i], "tuned") + count(path, cache, names[i], "default");
		if (tuned && has_dots()) {
			CHECK_RUN(0, "bench %s --threads 1 --cache %s", path, cache);
			CHECK(strstr(cli_out, "of peak: that of f32") != NULL);
		}
		CHECK(tuned ? tuned >= 4 && !count(path, cache, "QLinearConv", "portable") : !has_dots());
	}
}

/* Every layer of a quantised network is a kernel of the device, from the default schedules on, and gives the
 * numbers of portable code. */
TEST(quantised_networks_run_on_a_device)
{
	static char before[1 << 20], after[1 << 20];
	if (!worker())
		SKIP("no worker (set HONE_WORKER)");
	setenv("POCL_CACHE_DIR", scratch_folder(), 0);
	CHECK_RUN(0, "devices --cache %s", in_dir("peaks"));
	if (!strstr(cli_out, "opencl:0: "))
		SKIP("no OpenCL device: apt-get install pocl-opencl-icd");
	for (int seed = 1; seed <= NETS && !test_bad; seed++) {
		char path[256], cache[256];
		snprintf(path, sizeof path, "%s",
			 make_model(seed, seed % 2 ? "odd8.onnx" : "even8.onnx",
				    &(struct byte_net_size){seed % 2 ? 3 : 8, 20, 9}));
		snprintf(cache, sizeof cache, "%s", in_dir(seed % 2 ? "far-odd" : "far-even"));
		REQUIRE(mkdir(cache, 0755) == 0);
		size_t n = run(path, cache, "", before, sizeof before);
		CHECK_RUN(0,
			  "tune %s --rigor estimate --budget 60s --threads 1 -q --device opencl:0 --cache %s",
			  path, cache);
		CHECK(n > 200 &&
		      run(path, cache, "--device opencl:0 --require-cache", after, sizeof after) == n &&
		      !memcmp(before, after, n));
		CHECK_RUN(0, "verify %s --device opencl:0 --cache %s", path, cache);
		CHECK_RUN(0, "bench %s --json --runs 2 --threads 1 --device opencl:0 --cache %s", path,
			  cache);
		CHECK(cli_kernels_there() >= 7);
	}
}

/* Has the cache leave the model's first convolution to portable code, and all else to kernels. */
static void leave_first(const char *path, const char *cache)
{
	struct graph *g;
	struct target t;
	struct cache *c;
	struct choices now;
	struct arena a = {0};
	const struct import_opts none = {0};
	const char *name = NULL;
	REQUIRE_OK(import_file(path, &none, &g));
	REQUIRE_OK(graph_optimize(g));
	REQUIRE_OK(target_host(&t));
	REQUIRE_OK(cache_open(&c, cache, false, 0));
	const struct chosen_for f = {c, &t, 1, LEVEL_FP32};
	for (int i = 0; i < g->nnodes && !name; i++)
		name = strcmp(node_type(&g->node[i]), "QLinearConv") ? NULL : g->node[i].name;
	REQUIRE(name != NULL);
	CHECK_OK(chosen_load(&f, g, &a, &now));
	choices_set(&now, &a, CHOICE_BYTES, CHOICE_ALL, 1);
	choices_set(&now, &a, CHOICE_BYTES, name, 0);
	CHECK_OK(chosen_save(&f, g, &now));
	cache_close(c);
	graph_free(g);
	arena_free(&a);
}

/* The C of a network, and its bundle, give the numbers of hone run: of default kernels, of tuned ones, and
 * where choices leave the first convolution to portable code, as tuning may do. */
TEST(c_and_bundles_give_the_same_numbers)
{
	static char want[1 << 20], got[1 << 20];
	enum { HEAD = 128 }; /* of .npy */
	if (!worker())
		SKIP("no worker (set HONE_WORKER)");
	for (int seed = 4; seed < 6; seed++) {
		char path[256], cache[256], with[300], bundle[256];
		snprintf(path, sizeof path, "%s", model(seed));
		snprintf(cache, sizeof cache, "%s", in_dir(seed % 2 ? "c-odd" : "c-even"));
		snprintf(with, sizeof with, "--cache %s", cache);
		snprintf(bundle, sizeof bundle, "%s", in_dir(seed % 2 ? "b-odd" : "b-even"));
		REQUIRE(mkdir(cache, 0755) == 0);
		size_t n = run(path, cache, "", want, sizeof want);
		CHECK(n > HEAD && run_c(path, with, NULL, got, sizeof got) == n - HEAD &&
		      !memcmp(got, want + HEAD, n - HEAD));
		CHECK_RUN(0, KERNELS_ONCE, path, "-q", cache);
		leave_first(path, cache);
		CHECK(run_c(path, with, NULL, got, sizeof got) == n - HEAD &&
		      !memcmp(got, want + HEAD, n - HEAD));
		CHECK_RUN(0, "compile %s --threads 1 --cache %s -o %s", path, cache, bundle);
		CHECK(run(bundle, cache, "", got, sizeof got) == n && !memcmp(got, want, n));
	}
}

/* The key of a task whose label contains `word`. */
static void find_task(const char *path, const char *cache, const char *word, char key[64])
{
	size_t i;
	const json_t *t;
	CHECK_RUN(0, "tasks %s --json --cache %s", path, cache);
	json_t *list = json_loads(cli_out, 0, NULL);
	json_array_foreach(json_object_get(list, "tasks"), i, t)
	{
		const char *label = json_string_value(json_object_get(t, "label"));
		if (label && strstr(label, word))
			snprintf(key, 64, "%s", json_string_value(json_object_get(t, "task_key")));
	}
	json_decref(list);
}

/* `hone tasks` and `hone inspect` list quantised operators as tasks before anything was tuned. */
TEST(quantised_operators_are_listed_as_tasks)
{
	const char *path = model(2);
	CHECK_RUN(0, "tasks %s", path);
	CHECK(strstr(cli_out, "conv 3x3 48->64") != NULL);
	CHECK_RUN(0, "inspect %s", path);
	CHECK(!strstr(cli_out, "QLinearConv ("));
}

/* A cache that keeps the choice of tasks, but lost a kernel: portable code runs the operators. */
TEST(a_division_without_kernels_is_not_used)
{
	if (!worker())
		SKIP("no worker (set HONE_WORKER)");
	char path[256], cache[256], key[64] = "";
	snprintf(path, sizeof path, "%s", model(2));
	snprintf(cache, sizeof cache, "%s", in_dir("lost"));
	REQUIRE(mkdir(cache, 0755) == 0);
	CHECK_RUN(0, KERNELS_ONCE, path, "-q", cache);
	if (!count(path, cache, "conv", "tuned") && !count(path, cache, "conv", "default"))
		SKIP("portable code is faster on this machine");
	find_task(path, cache, "dwconv", key);
	CHECK_RUN(0, "forget --cache %s --task %s", cache, key);
	CHECK(count(path, cache, "conv", "tuned") + count(path, cache, "conv", "default") == 0);
	CHECK(count(path, cache, "QLinearConv", "portable") >= 4);
}

/* A float that lies near a half is rounded to one byte or to the next, and all behind it follows: no kernel
 * is wrong for that, as each is checked on its own inputs. */
TEST(rounding_is_no_error)
{
	char floats[256], bytes[256];
	snprintf(floats, sizeof floats, "%s", in_dir("vit.onnx"));
	snprintf(bytes, sizeof bytes, "%s", in_dir("vit8.onnx"));
	CHECK_RUN(0, "zoo vit_tiny -q -o %s", floats);
	CHECK_RUN(0, "quantize %s --data random --scan 0 --threads 1 -q -o %s", floats, bytes);
	CHECK_RUN(0, "verify %s --kernels fallback --threads 1", bytes);
	CHECK_SAYS(cli_out, "PASS: ");
}

/* A block of three convolutions whose bytes between do not fit in the L2 is one kernel. The groups that it
 * replaces have none, and are not taken for untuned ones. */
TEST(blocks_are_tuned)
{
	enum { SIDE = 160 };
	static char before[1 << 22], after[1 << 22];
	struct target t;
	char path[256], cache[256];
	if (!worker())
		SKIP("no worker (set HONE_WORKER)");
	if (!has_dots())
		SKIP("no dot products of bytes: portable code may win");
	REQUIRE_OK(target_host(&t));
	int64_t l2 = t.l2_bytes ? t.l2_bytes : 1 << 19, wide = l2 * 5 / 4 / (SIDE / 2 * SIDE / 2) + 4;
	snprintf(path, sizeof path, "%s",
		 make_model(2, "block.onnx", &(struct byte_net_size){8, 16, SIDE, wide / 4 * 4}));
	snprintf(cache, sizeof cache, "%s", in_dir("block"));
	REQUIRE(mkdir(cache, 0755) == 0);
	size_t n = run(path, cache, "", before, sizeof before);
	CHECK_RUN(0, "tasks %s", path);
	CHECK(strstr(cli_out, "conv 1x1 + dwconv 3x3") != NULL);
	CHECK_RUN(0, "tune %s --budget 6s --threads 1 -q --cache %s", path, cache);
	CHECK(count(path, cache, "QLinearConv", "portable") == 0);
	CHECK(n > 1000 && run(path, cache, "", after, sizeof after) == n && !memcmp(before, after, n));
}

TEST_MAIN
