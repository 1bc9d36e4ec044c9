/* SPDX-License-Identifier: Apache-2.0 */
/* Objects for Arm, made by hand. */
#ifndef TESTS_ELF_OBJECTS_H
#define TESTS_ELF_OBJECTS_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Makes an AArch64 object by hand: adrp, add and a load that refer to a constant 0x18 into the second
 * page. */
static inline size_t aarch64_object(uint8_t *out)
{
	enum { TEXT = 64, RODATA = 80, RELA = 112, SYM = 208, STR = 280, SECTIONS = 288, NSECTIONS = 6 };
	static const uint32_t code[4] = {0x90000000, 0x91000000, 0xBD400000, 0xD65F03C0};
	Elf64_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			.e_type = ET_REL,
			.e_machine = EM_AARCH64,
			.e_shoff = SECTIONS,
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shnum = NSECTIONS};
	Elf64_Sym sym[3] = {{0},
			    {.st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION), .st_shndx = 2},
			    {.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1}};
	Elf64_Rela rela[4] = {{0, ELF64_R_INFO(1, R_AARCH64_ADR_PREL_PG_HI21), 0x18},
			      {4, ELF64_R_INFO(1, R_AARCH64_ADD_ABS_LO12_NC), 0x18},
			      {8, ELF64_R_INFO(1, R_AARCH64_LDST32_ABS_LO12_NC), 0x18},
			      {0}};
	Elf64_Shdr s[NSECTIONS] = {{0},
				   {.sh_type = SHT_PROGBITS,
				    .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				    .sh_offset = TEXT,
				    .sh_size = 16,
				    .sh_addralign = 4},
				   {.sh_type = SHT_PROGBITS,
				    .sh_flags = SHF_ALLOC,
				    .sh_offset = RODATA,
				    .sh_size = 32,
				    .sh_addralign = 4096},
				   {.sh_type = SHT_RELA,
				    .sh_offset = RELA,
				    .sh_size = sizeof rela,
				    .sh_entsize = sizeof rela[0],
				    .sh_link = 4,
				    .sh_info = 1},
				   {.sh_type = SHT_SYMTAB,
				    .sh_offset = SYM,
				    .sh_size = sizeof sym,
				    .sh_entsize = sizeof sym[0],
				    .sh_link = 5},
				   {.sh_type = SHT_STRTAB, .sh_offset = STR, .sh_size = 4}};
	memcpy(out, &h, sizeof h);
	memcpy(out + TEXT, code, sizeof code);
	memset(out + RODATA, 0x5a, 32);
	memcpy(out + RELA, rela, sizeof rela);
	memcpy(out + SYM, sym, sizeof sym);
	memcpy(out + STR, "\0k0", 4);
	memcpy(out + SECTIONS, s, sizeof s);
	return SECTIONS + sizeof s;
}

/* Places in the object below, for tests that change it. */
enum { ARMV7_TEXT = 64, ARMV7_REL = 128, ARMV7_SYM = 208, ARMV7_SECTIONS = 288 };

/* Makes an ARMv7 object by hand, with each kind of relocation that is known. Functions k0 and k1 (at 0x24),
 * and a constant in the second page. */
static inline size_t armv7_object(uint8_t *out)
{
	enum { RODATA = 112, STR = 272, NSECTIONS = 6, CODE = 10 };
	static const uint32_t code[CODE] = {0xe3001004, 0xe3401004, /* movw and movt of the constant + 4 */
					    0xe30f2ff8, 0xe34f2ff8, /* of the distance to it, less 8 */
					    0xebfffffe, 0x0afffffe, /* bl k1, beq k1 */
					    0x00000008, 0xfffffffc, 0xfffffffc, 0xe12fff1e};
	Elf32_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT},
			.e_type = ET_REL,
			.e_machine = EM_ARM,
			.e_shoff = ARMV7_SECTIONS,
			.e_shentsize = sizeof(Elf32_Shdr),
			.e_shnum = NSECTIONS};
	Elf32_Sym sym[4] = {
	    {0},
	    {.st_info = ELF32_ST_INFO(STB_LOCAL, STT_SECTION), .st_shndx = 2},
	    {.st_name = 1, .st_info = ELF32_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1},
	    {.st_name = 4, .st_value = 0x24, .st_info = ELF32_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1}};
	Elf32_Rel rel[9] = {
	    {0x00, ELF32_R_INFO(1, R_ARM_MOVW_ABS_NC)},  {0x04, ELF32_R_INFO(1, R_ARM_MOVT_ABS)},
	    {0x08, ELF32_R_INFO(1, R_ARM_MOVW_PREL_NC)}, {0x0c, ELF32_R_INFO(1, R_ARM_MOVT_PREL)},
	    {0x10, ELF32_R_INFO(3, R_ARM_CALL)},         {0x14, ELF32_R_INFO(3, R_ARM_JUMP24)},
	    {0x18, ELF32_R_INFO(1, R_ARM_ABS32)},        {0x1c, ELF32_R_INFO(1, R_ARM_REL32)},
	    {0x20, ELF32_R_INFO(1, R_ARM_PREL31)}};
	Elf32_Shdr s[NSECTIONS] = {{0},
				   {.sh_type = SHT_PROGBITS,
				    .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				    .sh_offset = ARMV7_TEXT,
				    .sh_size = sizeof code,
				    .sh_addralign = 4},
				   {.sh_type = SHT_PROGBITS,
				    .sh_flags = SHF_ALLOC,
				    .sh_offset = RODATA,
				    .sh_size = 16,
				    .sh_addralign = 4096},
				   {.sh_type = SHT_REL,
				    .sh_offset = ARMV7_REL,
				    .sh_size = sizeof rel,
				    .sh_entsize = sizeof rel[0],
				    .sh_link = 4,
				    .sh_info = 1},
				   {.sh_type = SHT_SYMTAB,
				    .sh_offset = ARMV7_SYM,
				    .sh_size = sizeof sym,
				    .sh_entsize = sizeof sym[0],
				    .sh_link = 5},
				   {.sh_type = SHT_STRTAB, .sh_offset = STR, .sh_size = 7}};
	memset(out, 0, ARMV7_SECTIONS);
	memcpy(out, &h, sizeof h);
	memcpy(out + ARMV7_TEXT, code, sizeof code);
	memset(out + RODATA, 0x5a, 16);
	memcpy(out + ARMV7_REL, rel, sizeof rel);
	memcpy(out + ARMV7_SYM, sym, sizeof sym);
	memcpy(out + STR, "\0k0\0k1", 7);
	memcpy(out + ARMV7_SECTIONS, s, sizeof s);
	return ARMV7_SECTIONS + sizeof s;
}

#endif
