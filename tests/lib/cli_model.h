/* SPDX-License-Identifier: Apache-2.0 */
/* Small models for tests of the command line. */
#ifndef TESTS_CLI_MODEL_H
#define TESTS_CLI_MODEL_H

#include "platform/base/arena.h"
#include "tests/lib/cli.h"
#include "tests/lib/onnx_make.h"

/* Writes the model that `k` holds to a file of the test's folder, and frees it. Returns the path. */
static inline const char *write_model(struct onnx_maker *k, const char *file)
{
	const char *path = in_dir(file);
	struct blob b = mk_bytes(k);
	CHECK_OK(file_write(path, b.p, b.n));
	arena_free(&k->a);
	return path;
}

/* Writes a model of one node from x, with these dimensions, to y. */
static inline const char *one_node(const char *file, const char *type, const char *dims)
{
	struct onnx_maker k;
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, dims);
	mk_node(&k, type, "x", "y");
	mk_output(&k, "y");
	return write_model(&k, file);
}

/* How many kernels the report of hone bench --json --device in cli_out has; -1: not all run on the device. */
static inline int cli_kernels_there(void)
{
	json_t *report = parse_out();
	int n = (int)json_array_size(json_object_get(report, "kernels"));
	int64_t there = json_integer_value(json_object_get(json_object_get(report, "device_use"), "steps"));
	json_decref(report);
	return there == n ? n : -1;
}

#endif
