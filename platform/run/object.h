/* SPDX-License-Identifier: Apache-2.0 */
/* Writes relocatable ELF objects of one section without relocations, for any linker: machine code that stands
 * alone, or data. 64-bit, little endian. The symbols are global and hidden: visible to the objects that are
 * linked with them, and not outside. */
#ifndef PLATFORM_OBJECT_H
#define PLATFORM_OBJECT_H

#include "platform/base/buf.h"
#include "platform/base/err.h"

struct object_symbol {
	const char *name;
	uint64_t at, bytes; /* in the section */
};

struct object {
	int machine;         /* EM_X86_64 or EM_AARCH64 */
	bool code;           /* functions, to be executed; else data, to be read */
	const char *section; /* ".text.net_kernels" */
	uint64_t align, bytes;
	const struct object_symbol *symbol;
	int nsymbols;
};

/* EM_X86_64 and EM_AARCH64. */
bool object_knows(int machine);
/* The file is *head, the section's bytes, *tail. The section begins at an offset that is a multiple of 64. */
int object_make(const struct object *o, struct buf *head, struct buf *tail) MUST_CHECK;

#endif
