/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX Runtime through its C ABI, opened at run time: enough of it to run a model on zeros, for comparison.
 * Its function table only ever grows at the end, so the indexes of version 1 are valid in every library. */
#ifndef TOOLS_ORT_H
#define TOOLS_ORT_H

#include "platform/base/err.h"
#include <stddef.h>

enum { ORT_MOST = 64 }; /* most inputs, and most outputs */

typedef void ort_function(void); /* the true type is cast at the call */

struct ort {
	ort_function *const *f;
	void *env, *options, *session, *memory;
	size_t nin, nout;
	char *in_name[ORT_MOST], *out_name[ORT_MOST];
	void *in[ORT_MOST]; /* values of the inputs */
};

/* Opens the library and an environment with this many threads. E_NOTFOUND: no library there. Nothing is freed
 * before the process ends. */
int ort_open(struct ort *o, const char *library, int threads) MUST_CHECK;
/* Makes a session with all optimisations, and inputs of zeros; unknown dimensions become 1. */
int ort_load(struct ort *o, const char *model) MUST_CHECK;
int ort_run(struct ort *o) MUST_CHECK;

#endif
