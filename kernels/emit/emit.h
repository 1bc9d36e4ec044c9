/* SPDX-License-Identifier: Apache-2.0 */
/* Emitters: loops -> object bytes. One file emit_NAME.c defines `const struct emit emit_NAME`; the Makefile
 * writes emit_table[] per program (only hone-worker has emit_llvm and emit_ptx). Objects are ELF files
 * (llvm), PTX (ptx), OpenCL C (opencl) or programs of a virtual machine (sim). The emitter decides nothing
 * about the schedule: it keeps the order of statements (llvm_pipe.c: that of each sum's products) and leaves
 * registers and encoding to the code generator. A kernel with vector spills that cost time is E_SPILL
 * (*object is then whole, but slow). Deterministic: the same loops and target give the same bytes. */
#ifndef KERNELS_EMIT_H
#define KERNELS_EMIT_H

#include "kernels/loops/loops.h"
#include "platform/base/file.h"
#include "platform/machine/target.h"

struct emit {
	const char *name;
	const char *(*version)(void); /* "llvm-19.1.7/1"; changes whenever the same input gives other code */
	int (*emit)(const struct loops *l, const struct target *t, struct arena *a, struct blob *object);
};

extern const struct emit *const emit_table[];
const struct emit *emit_find(const char *name);

#endif
