/* SPDX-License-Identifier: Apache-2.0 */
/* Private to emit_llvm and emit_ptx: starts LLVM, and inspects an object that was just made. */
#ifndef KERNELS_LLVM_OBJECT_H
#define KERNELS_LLVM_OBJECT_H

#include "platform/base/file.h"
#include <stdbool.h>

/* Makes the targets known and sets LLVM's options, once per process. On an x86-64 machine, code for x86-64
 * and PTX is made with fewer passes (arm: false), from the first such call on, because LLVM's options hold
 * for the whole process. */
void llvm_start(bool arm);
/* Whether the program holds LLVM's assembler for AArch64. */
bool llvm_assembles_a64(void);
/* Whether the program holds LLVM's code generator for PTX. */
bool llvm_has_ptx(void);
/* Name of a symbol that the object needs from elsewhere (a library call); NULL: none. */
const char *object_undefined(const struct blob *object);
/* Number of instructions that move vector registers to or from the stack. On x86 with AVX those of loops
 * where they are few do not count, nor do they on ARMv7 where they are few in all code. disassembler: an
 * LLVMDisasmContextRef of the object's target. */
int object_vector_spills(const struct blob *object, void *disassembler, bool x86);

#endif
