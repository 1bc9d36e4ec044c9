/* SPDX-License-Identifier: Apache-2.0 */
/* Relocation formulas: System V ABI, AMD64 supplement, 4.4; ELF for the Arm 64-bit architecture, 5.7. In both
 * S is the symbol's address, A the addend, P the address of the place. */
#include "platform/run/elf.h"

#include <elf.h>
#include <string.h>

enum { MAX_ALIGN = 4096 };

#if defined(__x86_64__)
enum { HERE = EM_X86_64 };
#elif defined(__aarch64__)
enum { HERE = EM_AARCH64 };
#else
enum { HERE = EM_NONE };
#endif

int elf_machine(void)
{
	return HERE;
}

bool elf_knows(int machine)
{
	return machine == EM_X86_64 || machine == EM_AARCH64;
}

static bool inside(const struct elf *e, uint64_t at, uint64_t n)
{
	return at <= e->n && n <= e->n - at;
}

/* Structures may be unaligned in the bytes, so they are copied out. The header was checked against the
 * size. */
static Elf64_Shdr section(const struct elf *e, int i)
{
	Elf64_Ehdr h;
	Elf64_Shdr s;
	memcpy(&h, e->obj, sizeof h);
	memcpy(&s, e->obj + h.e_shoff + (uint64_t)i * sizeof s, sizeof s);
	return s;
}

static int read_header(struct elf *e)
{
	Elf64_Ehdr h;
	if (e->n < sizeof h)
		return fail(E_CORRUPT, "object: %zu bytes are too few for an ELF file", e->n);
	memcpy(&h, e->obj, sizeof h);
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
		return fail(E_CORRUPT, "object: not an ELF file");
	if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_type != ET_REL)
		return fail(E_UNSUPPORTED, "object: not a 64-bit little-endian relocatable file");
	if (!elf_knows(e->machine))
		return fail(E_UNSUPPORTED, "object: machine code can only be for x86-64 and AArch64");
	if (h.e_machine != e->machine)
		return fail(E_UNSUPPORTED, "object: made for machine %u, not %d; build it for this processor",
			    h.e_machine, e->machine);
	if (h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shnum < 1 || h.e_shnum > ELF_MAX_SECTIONS ||
	    !inside(e, h.e_shoff, (uint64_t)h.e_shnum * sizeof(Elf64_Shdr)))
		return fail(E_CORRUPT, "object: bad section table");
	e->nsections = h.e_shnum;
	return E_OK;
}

static bool is_loaded(const Elf64_Shdr *s)
{
	return (s->sh_flags & SHF_ALLOC) && (s->sh_type == SHT_PROGBITS || s->sh_type == SHT_NOBITS) &&
	       s->sh_size;
}

/* Gives the section its place in the image. */
static int place(struct elf *e, int i, const Elf64_Shdr *s)
{
	uint64_t align = s->sh_addralign ? s->sh_addralign : 1;
	if ((align & (align - 1)) || align > MAX_ALIGN)
		return fail(E_CORRUPT, "object: section %d has a bad alignment", i);
	if (s->sh_flags & SHF_WRITE)
		return fail(E_UNSUPPORTED, "object: section %d is writable; kernels keep no state", i);
	uint64_t at = (e->image_bytes + align - 1) & ~(align - 1);
	if (s->sh_size > ELF_MAX_BYTES || at + s->sh_size > ELF_MAX_BYTES)
		return fail(E_CORRUPT, "object: section %d is too large", i);
	e->at[i] = at;
	e->image_bytes = at + s->sh_size;
	e->align = align > e->align ? align : e->align;
	return E_OK;
}

static int read_sections(struct elf *e)
{
	for (int i = 0; i < e->nsections; i++) {
		Elf64_Shdr s = section(e, i);
		e->at[i] = SIZE_MAX;
		if (s.sh_type != SHT_NOBITS && s.sh_type != SHT_NULL && !inside(e, s.sh_offset, s.sh_size))
			return fail(E_CORRUPT, "object: section %d lies outside the file", i);
		if (s.sh_type == SHT_SYMTAB) {
			if (e->symtab)
				return fail(E_CORRUPT, "object: two symbol tables");
			e->symtab = i;
		}
		int rc = is_loaded(&s) ? place(e, i, &s) : E_OK;
		if (rc < 0)
			return rc;
	}
	if (!e->symtab || !e->image_bytes)
		return fail(E_CORRUPT, "object: no %s", e->symtab ? "code" : "symbols");
	return E_OK;
}

static Elf64_Sym symbol(const struct elf *e, uint64_t i)
{
	Elf64_Shdr tab = section(e, e->symtab);
	Elf64_Sym s;
	memcpy(&s, e->obj + tab.sh_offset + i * sizeof s, sizeof s);
	return s;
}

static uint64_t symbol_count(const struct elf *e)
{
	return section(e, e->symtab).sh_size / sizeof(Elf64_Sym);
}

/* The name, at most 31 characters and ended within the string table; else NULL. */
static const char *symbol_name(const struct elf *e, const Elf64_Sym *s)
{
	Elf64_Shdr str = section(e, (int)section(e, e->symtab).sh_link);
	if (s->st_name >= str.sh_size)
		return NULL;
	const char *name = (const char *)e->obj + str.sh_offset + s->st_name;
	uint64_t room = str.sh_size - s->st_name;
	size_t most = sizeof e->entry[0].name;
	return memchr(name, 0, room < most ? room : most) ? name : NULL;
}

static int read_entries(struct elf *e)
{
	Elf64_Shdr tab = section(e, e->symtab);
	if (tab.sh_entsize != sizeof(Elf64_Sym) || tab.sh_link >= (uint32_t)e->nsections ||
	    section(e, (int)tab.sh_link).sh_type != SHT_STRTAB)
		return fail(E_CORRUPT, "object: bad symbol table");
	for (uint64_t i = 0; i < symbol_count(e); i++) {
		Elf64_Sym s = symbol(e, i);
		if (ELF64_ST_BIND(s.st_info) != STB_GLOBAL || ELF64_ST_TYPE(s.st_info) != STT_FUNC ||
		    s.st_shndx == SHN_UNDEF)
			continue;
		const char *name = symbol_name(e, &s);
		if (!name)
			return fail(E_CORRUPT, "object: bad name of symbol %llu", (unsigned long long)i);
		if (s.st_shndx >= e->nsections || e->at[s.st_shndx] == SIZE_MAX)
			return fail(E_CORRUPT, "object: function %s lies in no section", name);
		Elf64_Shdr in = section(e, s.st_shndx);
		if (!(in.sh_flags & SHF_EXECINSTR) || s.st_value >= in.sh_size)
			return fail(E_CORRUPT, "object: function %s lies outside the code", name);
		if (e->nentries == ELF_MAX_ENTRIES)
			return fail(E_UNSUPPORTED, "object: more than %d functions", ELF_MAX_ENTRIES);
		strcpy(e->entry[e->nentries].name, name);
		e->entry[e->nentries++].at = e->at[s.st_shndx] + s.st_value;
	}
	return e->nentries ? E_OK : fail(E_CORRUPT, "object: no function");
}

int elf_read(struct elf *e, const void *obj, size_t n, int machine)
{
	*e = (struct elf){.obj = obj, .n = n, .machine = machine};
	int rc = read_header(e);
	if (rc >= 0)
		rc = read_sections(e);
	return rc >= 0 ? read_entries(e) : rc;
}

/* Where the result goes: a whole word, or an immediate field of an instruction. */
enum put {
	PUT_64,
	PUT_S32,  /* must fit in a signed word */
	PUT_ADRP, /* 21 bits of pages: immlo at bit 29, immhi at bit 5 */
	PUT_LO12, /* low 12 bits, shifted right by `shift`, at bit 10 */
};

static const struct rel {
	int machine;
	uint32_t type;
	bool relative; /* S + A - P, else S + A */
	enum put put;
	int shift;
} rels[] = {
    {EM_X86_64, R_X86_64_64, false, PUT_64, 0},
    {EM_X86_64, R_X86_64_PC32, true, PUT_S32, 0},
    {EM_X86_64, R_X86_64_PLT32, true, PUT_S32, 0},
    {EM_X86_64, R_X86_64_PC64, true, PUT_64, 0},
    {EM_AARCH64, R_AARCH64_ABS64, false, PUT_64, 0},
    {EM_AARCH64, R_AARCH64_PREL64, true, PUT_64, 0},
    {EM_AARCH64, R_AARCH64_PREL32, true, PUT_S32, 0},
    {EM_AARCH64, R_AARCH64_ADR_PREL_PG_HI21, false, PUT_ADRP, 0},
    {EM_AARCH64, R_AARCH64_ADD_ABS_LO12_NC, false, PUT_LO12, 0},
    {EM_AARCH64, R_AARCH64_LDST8_ABS_LO12_NC, false, PUT_LO12, 0},
    {EM_AARCH64, R_AARCH64_LDST16_ABS_LO12_NC, false, PUT_LO12, 1},
    {EM_AARCH64, R_AARCH64_LDST32_ABS_LO12_NC, false, PUT_LO12, 2},
    {EM_AARCH64, R_AARCH64_LDST64_ABS_LO12_NC, false, PUT_LO12, 3},
    {EM_AARCH64, R_AARCH64_LDST128_ABS_LO12_NC, false, PUT_LO12, 4},
};

static const struct rel *find_rel(int machine, uint32_t type)
{
	for (size_t i = 0; i < sizeof rels / sizeof rels[0]; i++)
		if (rels[i].machine == machine && rels[i].type == type)
			return &rels[i];
	return NULL;
}

static void insert_bits(uint8_t *place, uint32_t mask, uint32_t bits)
{
	uint32_t w;
	memcpy(&w, place, 4);
	w = (w & ~mask) | (bits & mask);
	memcpy(place, &w, 4);
}

/* target = S + A. */
static int put(const struct rel *r, uint8_t *place, uint64_t target, uint64_t p)
{
	uint64_t v = r->relative ? target - p : target;
	int64_t pages = (int64_t)((target & ~UINT64_C(4095)) - (p & ~UINT64_C(4095))) >> 12;
	switch (r->put) {
	case PUT_64:
		memcpy(place, &v, 8);
		return E_OK;
	case PUT_S32:
		if ((int64_t)v != (int32_t)v)
			return fail(E_CORRUPT, "object: a relocation is out of range");
		memcpy(place, &v, 4);
		return E_OK;
	case PUT_ADRP:
		if (pages < -(1 << 20) || pages >= 1 << 20)
			return fail(E_CORRUPT, "object: a relocation is out of range");
		insert_bits(place, 3u << 29 | 0x7ffffu << 5,
			    (uint32_t)(pages & 3) << 29 | ((uint32_t)(pages >> 2) & 0x7ffffu) << 5);
		return E_OK;
	case PUT_LO12:
		if (v & ((1u << r->shift) - 1))
			return fail(E_CORRUPT, "object: a relocation's target is not aligned");
		insert_bits(place, 0xfffu << 10, (uint32_t)((v & 4095) >> r->shift) << 10);
		return E_OK;
	}
	return fail(E_CORRUPT, "object: a relocation of an unknown form");
}

static int symbol_address(const struct elf *e, uint64_t i, uint64_t base, uint64_t *out)
{
	if (i >= symbol_count(e))
		return fail(E_CORRUPT, "object: relocation against symbol %llu", (unsigned long long)i);
	Elf64_Sym s = symbol(e, i);
	if (s.st_shndx == SHN_UNDEF) {
		const char *name = symbol_name(e, &s);
		return fail(E_UNSUPPORTED, "object: needs '%s' from outside; kernels call nothing",
			    name ? name : "?");
	}
	if (s.st_shndx >= e->nsections || e->at[s.st_shndx] == SIZE_MAX)
		return fail(E_UNSUPPORTED, "object: relocation against a section that is not loaded");
	if (s.st_value > section(e, s.st_shndx).sh_size)
		return fail(E_CORRUPT, "object: symbol %llu lies outside its section", (unsigned long long)i);
	*out = base + e->at[s.st_shndx] + s.st_value;
	return E_OK;
}

static int relocate(const struct elf *e, const Elf64_Rela *r, int target, uint64_t base, uint8_t *image)
{
	uint32_t type = (uint32_t)ELF64_R_TYPE(r->r_info);
	if (type == 0)
		return E_OK;
	const struct rel *rel = find_rel(e->machine, type);
	if (!rel)
		return fail(E_UNSUPPORTED, "object: relocation type %u", type);
	uint64_t size = section(e, target).sh_size, width = rel->put == PUT_64 ? 8 : 4, s = 0;
	if (r->r_offset > size || width > size - r->r_offset)
		return fail(E_CORRUPT, "object: a relocation lies outside its section");
	int rc = symbol_address(e, ELF64_R_SYM(r->r_info), base, &s);
	if (rc < 0)
		return rc;
	uint64_t at = e->at[target] + r->r_offset;
	return put(rel, image + at, s + (uint64_t)r->r_addend, base + at);
}

static int relocate_section(const struct elf *e, const Elf64_Shdr *rela, uint64_t base, uint8_t *image)
{
	if (rela->sh_entsize != sizeof(Elf64_Rela) || rela->sh_link != (uint32_t)e->symtab)
		return fail(E_CORRUPT, "object: bad relocation section");
	for (uint64_t i = 0; i < rela->sh_size / sizeof(Elf64_Rela); i++) {
		Elf64_Rela r;
		memcpy(&r, e->obj + rela->sh_offset + i * sizeof r, sizeof r);
		int rc = relocate(e, &r, (int)rela->sh_info, base, image);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

int elf_link(const struct elf *e, uint64_t base, uint8_t *image)
{
	memset(image, 0, e->image_bytes);
	for (int i = 0; i < e->nsections; i++) {
		Elf64_Shdr s = section(e, i);
		if (e->at[i] != SIZE_MAX && s.sh_type == SHT_PROGBITS)
			memcpy(image + e->at[i], e->obj + s.sh_offset, s.sh_size);
	}
	for (int i = 0; i < e->nsections; i++) {
		Elf64_Shdr s = section(e, i);
		bool reloc = s.sh_type == SHT_RELA || s.sh_type == SHT_REL;
		if (!reloc || s.sh_info >= (uint32_t)e->nsections || e->at[s.sh_info] == SIZE_MAX)
			continue;
		if (s.sh_type == SHT_REL)
			return fail(E_UNSUPPORTED, "object: relocations without addends");
		int rc = relocate_section(e, &s, base, image);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}
