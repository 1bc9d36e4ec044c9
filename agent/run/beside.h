/* SPDX-License-Identifier: Apache-2.0 */
/* Images kept beside their models: model.onnx.hone of model.onnx. One is used instead of importing the model
 * when it was made of the same bytes, for the same shapes, threads and level. */
#ifndef AGENT_BESIDE_H
#define AGENT_BESIDE_H

#include "agent/run/image.h"
#include "kernels/onnx/import.h"
#include "kernels/task/level.h"

struct beside {
	const char *model; /* file */
	const struct import_opts *opts;
	int threads;
	enum level level;
};

/* Returns false if the name is too long. */
bool beside_path(const char *model, char *out, size_t n);
/* Changes with the file's inode, size, times and some of its bytes, and with the rest, in any order of opts'
 * binds. E_NOTFOUND: no such file. */
int beside_same(const struct beside *b, struct key *out) MUST_CHECK;
/* The same from the file's bytes, all of which are read. */
int beside_key(const struct beside *b, struct key *out) MUST_CHECK;
/* Reads the image beside the model if it was made of the model's present bytes (recognised by the file's
 * inode and times, else by its bytes). E_NOTFOUND: there is none, or it was made of something else. Other
 * errors are image_read's. */
int beside_read(const struct beside *b, const struct target *here, struct pool *pool, struct image *im,
		struct plan **out) MUST_CHECK;

#endif
