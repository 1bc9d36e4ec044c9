/* SPDX-License-Identifier: Apache-2.0 */
/* A small model and examples of its inputs, for tests of the command line that quantise. */
#ifndef TESTS_CLI_QUANTIZE_H
#define TESTS_CLI_QUANTIZE_H

#include "kernels/task/tensor.h"
#include "platform/base/rng.h"
#include "tests/lib/cli_model.h"

enum { F32 = 1, C = 8, SIDE = 12 };

/* Two convolutions, of a picture of 3 x 12 x 12, or of two inputs' sum. */
static inline const char *small_model(const char *file, bool two)
{
	struct onnx_maker k;
	struct rng rng;
	float w[C * 3 * 9], v[4 * C];
	rng_seed(&rng, 3);
	rng_fill(&rng, w, sizeof w / sizeof *w);
	rng_fill(&rng, v, sizeof v / sizeof *v);
	mk_start(&k, 11, 8);
	mk_input(&k, "x", F32, "1 3 12 12");
	if (two)
		mk_input(&k, "x2", F32, "1 3 12 12");
	mk_init(&k, "w", F32, "8 3 3 3", w, sizeof w);
	mk_init(&k, "v", F32, "4 8 1 1", v, sizeof v);
	if (two)
		mk_node(&k, "Add", "x x2", "sum");
	mk_node(&k, "Conv", two ? "sum w" : "x w", "a")->name = mk_text("first");
	mk_node(&k, "Relu", "a", "b");
	mk_node(&k, "Conv", "b v", "y")->name = mk_text("second");
	mk_output(&k, "y");
	return write_model(&k, file);
}

static inline void write_tensor(const char *path, const char *name, int64_t n, int64_t c, float factor)
{
	struct arena a = {0};
	struct tensor t;
	struct rng rng;
	static uint64_t seed;
	rng_seed(&rng, ++seed);
	CHECK_OK(tensor_alloc(&a, DT_F32, &(struct shape){4, {n, c, SIDE, SIDE}}, &t));
	rng_fill(&rng, t.data, (size_t)shape_count(&t.shape));
	for (int64_t i = 0; i < shape_count(&t.shape); i++)
		((float *)t.data)[i] *= factor;
	CHECK_OK(tensor_write(path, &t, name));
	arena_free(&a);
}

static inline const char *folder(const char *name)
{
	const char *path = in_dir(name);
	CHECK_OK(file_mkdirs(path, 0755));
	return path;
}

/* A folder with n files of numpy. */
static inline const char *examples(const char *name, int n)
{
	char path[400], dir_path[256];
	snprintf(dir_path, sizeof dir_path, "%s", folder(name));
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s/%d.npy", dir_path, i);
		write_tensor(path, "x", 1, 3, 1);
	}
	return in_dir(name);
}

#endif
