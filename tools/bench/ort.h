/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX Runtime through its C ABI, opened at run time: enough of it to run a model on zeros, for comparison.
 * Its table of functions only ever grows at the end, so that the places of version 1 hold in every library.
 */
#ifndef TOOLS_ORT_H
#define TOOLS_ORT_H

#include "platform/base/err.h"
#include <stddef.h>

enum { ORT_MOST = 64 }; /* inputs, outputs */

typedef void ort_function(void); /* of another type: cast at the call */

struct ort {
	ort_function *const *f;
	void *env, *options, *session, *memory;
	size_t nin, nout;
	char *in_name[ORT_MOST], *out_name[ORT_MOST];
	void *in[ORT_MOST]; /* their values */
};

/* The library and an environment, with so many threads. E_NOTFOUND: none there. Nothing is given back before
 * the process ends. */
int ort_open(struct ort *o, const char *library, int threads) MUST_CHECK;
/* A session, all optimisations on; inputs of zeros, unknown dimensions 1. */
int ort_load(struct ort *o, const char *model) MUST_CHECK;
int ort_run(struct ort *o) MUST_CHECK;

#endif
