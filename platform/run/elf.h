/* SPDX-License-Identifier: Apache-2.0 */
/* A linker for one self-contained relocatable ELF object (x86-64, AArch64, or ARMv7, which is 32-bit), as
 * emitters make them: read-only sections, relocations among themselves, no external symbol, no writable data.
 * Tables for unwinding are left out. Pure: bytes in, bytes out, for any machine.
 *
 * The object is hostile until proven otherwise: every offset, size and index is checked (E_CORRUPT); what is
 * valid ELF but not ours is E_UNSUPPORTED. A struct elf borrows the object's bytes; nothing is to be freed.
 */
#ifndef PLATFORM_ELF_H
#define PLATFORM_ELF_H

#include "platform/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ELF_MAX_SECTIONS = 256, ELF_MAX_ENTRIES = 64, ELF_MAX_BYTES = 16 << 20 };

struct elf {
	const uint8_t *obj;
	size_t n;
	int machine;                 /* EM_X86_64, EM_AARCH64 or EM_ARM */
	size_t table_at;             /* of the section headers, in obj */
	int nsections, symtab;       /* section numbers */
	size_t at[ELF_MAX_SECTIONS]; /* offset in the image; SIZE_MAX: not loaded */
	size_t image_bytes;          /* <= ELF_MAX_BYTES */
	size_t align;                /* of the image: the largest alignment of a section */
	int nentries;                /* global functions */
	struct {
		char name[32];
		size_t at; /* in the image */
	} entry[ELF_MAX_ENTRIES];
};

/* e_machine of this process; EM_NONE if it is none of these. */
int elf_machine(void);
bool elf_knows(int machine);
int elf_read(struct elf *e, const void *obj, size_t n, int machine) MUST_CHECK;
/* Writes the image (image_bytes) for address `base`, a multiple of `align`; ARMv7: below 2^32. */
int elf_link(const struct elf *e, uint64_t base, uint8_t *image) MUST_CHECK;

#endif
