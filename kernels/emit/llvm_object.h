/* SPDX-License-Identifier: Apache-2.0 */
/* Private to emit_llvm: inspects an object that was just made. */
#ifndef KERNELS_LLVM_OBJECT_H
#define KERNELS_LLVM_OBJECT_H

#include "platform/base/file.h"
#include <stdbool.h>

/* Name of a symbol that the object needs from elsewhere (a library call); NULL: none. */
const char *object_undefined(const struct blob *object);
/* Number of instructions that move vector registers to or from the stack. disassembler: an
 * LLVMDisasmContextRef of the object's target. */
int object_vector_spills(const struct blob *object, void *disassembler, bool x86);

#endif
