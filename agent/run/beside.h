/* SPDX-License-Identifier: Apache-2.0 */
/* Images kept beside their models: model.onnx.hone of model.onnx. One is used instead of importing the model
 * when it was made of the same bytes, for the same shapes, threads and exactness. */
#ifndef AGENT_BESIDE_H
#define AGENT_BESIDE_H

#include "agent/run/image.h"
#include "kernels/onnx/import.h"

struct beside {
	const char *model; /* file */
	const struct import_opts *opts;
	int threads;
	bool exact;
};

/* False: too long a name. */
bool beside_path(const char *model, char *out, size_t n);
/* Changes with the file's inode, size, times and some of its bytes, and with the rest, in any order of opts'
 * binds. E_NOTFOUND: no such file. */
int beside_same(const struct beside *b, struct key *out) MUST_CHECK;
/* The same, of the file's bytes, which are all read. */
int beside_key(const struct beside *b, struct key *out) MUST_CHECK;
/* The image beside the model, where it is of the model as it is now: known by the file's inode and times,
 * else by its bytes. E_NOTFOUND: none, or of something else. Errors are image_read's. */
int beside_read(const struct beside *b, const struct target *here, struct pool *pool, struct image *im,
		struct plan **out) MUST_CHECK;

#endif
