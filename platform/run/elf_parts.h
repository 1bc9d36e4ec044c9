/* SPDX-License-Identifier: Apache-2.0 */
/* What elf.c reads and elf_link.c uses. The structures of 32-bit files are widened. All numbers come from the
 * file and are checked where they are used. */
#ifndef PLATFORM_ELF_PARTS_H
#define PLATFORM_ELF_PARTS_H

#include "platform/run/elf.h"

#include <elf.h>

Elf64_Shdr elf_section(const struct elf *e, int i); /* i < nsections */
uint64_t elf_symbol_count(const struct elf *e);
Elf64_Sym elf_symbol(const struct elf *e, uint64_t i); /* i < elf_symbol_count */
/* The name, at most 31 characters and ended within the string table; else NULL. */
const char *elf_symbol_name(const struct elf *e, const Elf64_Sym *s);
/* Thumb functions have odd addresses; kernels are Arm code. */
bool elf_is_thumb(const struct elf *e, const Elf64_Sym *s);

#endif
