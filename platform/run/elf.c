/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the headers, sections and symbols of an object. */
#include "platform/run/elf_parts.h"

#include <string.h>

enum { MAX_ALIGN = 4096 };

#if defined(__x86_64__)
enum { HERE = EM_X86_64 };
#elif defined(__aarch64__)
enum { HERE = EM_AARCH64 };
#elif defined(__arm__)
enum { HERE = EM_ARM };
#else
enum { HERE = EM_NONE };
#endif

int elf_machine(void)
{
	return HERE;
}

bool elf_knows(int machine)
{
	return machine == EM_X86_64 || machine == EM_AARCH64 || machine == EM_ARM;
}

static bool is_narrow(const struct elf *e)
{
	return e->machine == EM_ARM;
}

static bool inside(const struct elf *e, uint64_t at, uint64_t n)
{
	return at <= e->n && n <= e->n - at;
}

/* Structures may be unaligned in the bytes, so they are copied out. The file is large enough for the narrow
 * header. False: it is too small for the wide one. */
static bool header(const struct elf *e, Elf64_Ehdr *h)
{
	Elf32_Ehdr n;
	memcpy(&n, e->obj, sizeof n);
	memcpy(h->e_ident, n.e_ident, sizeof n.e_ident);
	if (h->e_ident[EI_CLASS] == ELFCLASS64) {
		if (e->n >= sizeof *h)
			memcpy(h, e->obj, sizeof *h);
		return e->n >= sizeof *h;
	}
	h->e_type = n.e_type;
	h->e_machine = n.e_machine;
	h->e_shoff = n.e_shoff;
	h->e_shentsize = n.e_shentsize;
	h->e_shnum = n.e_shnum;
	return true;
}

Elf64_Shdr elf_section(const struct elf *e, int i)
{
	Elf64_Shdr s;
	Elf32_Shdr n;
	if (!is_narrow(e)) {
		memcpy(&s, e->obj + e->table_at + (size_t)i * sizeof s, sizeof s);
		return s;
	}
	memcpy(&n, e->obj + e->table_at + (size_t)i * sizeof n, sizeof n);
	return (Elf64_Shdr){.sh_name = n.sh_name,
			    .sh_type = n.sh_type,
			    .sh_flags = n.sh_flags,
			    .sh_addr = n.sh_addr,
			    .sh_offset = n.sh_offset,
			    .sh_size = n.sh_size,
			    .sh_link = n.sh_link,
			    .sh_info = n.sh_info,
			    .sh_addralign = n.sh_addralign,
			    .sh_entsize = n.sh_entsize};
}

/* Checks that the file is an object of the machine's class. */
static int check_kind(const struct elf *e, const Elf64_Ehdr *h)
{
	int want = is_narrow(e) ? ELFCLASS32 : ELFCLASS64;
	if (h->e_ident[EI_CLASS] != want || h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_type != ET_REL)
		return fail(E_UNSUPPORTED, "object: not a %d-bit little-endian relocatable file",
			    is_narrow(e) ? 32 : 64);
	if (h->e_machine != e->machine)
		return fail(E_UNSUPPORTED, "object: made for machine %u, not %d; build it for this processor",
			    h->e_machine, e->machine);
	return E_OK;
}

static int read_header(struct elf *e)
{
	Elf64_Ehdr h = {0};
	size_t each = is_narrow(e) ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr);
	if (!elf_knows(e->machine))
		return fail(E_UNSUPPORTED, "object: machine code can only be for x86-64, AArch64 and ARMv7");
	if (e->n < sizeof(Elf32_Ehdr) || !header(e, &h))
		return fail(E_CORRUPT, "object: %zu bytes are too few for an ELF file", e->n);
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
		return fail(E_CORRUPT, "object: not an ELF file");
	int rc = check_kind(e, &h);
	if (rc < 0)
		return rc;
	if (h.e_shentsize != each || h.e_shnum < 1 || h.e_shnum > ELF_MAX_SECTIONS ||
	    !inside(e, h.e_shoff, (uint64_t)h.e_shnum * each))
		return fail(E_CORRUPT, "object: bad section table");
	e->table_at = (size_t)h.e_shoff;
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
		Elf64_Shdr s = elf_section(e, i);
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

static size_t symbol_bytes(const struct elf *e)
{
	return is_narrow(e) ? sizeof(Elf32_Sym) : sizeof(Elf64_Sym);
}

Elf64_Sym elf_symbol(const struct elf *e, uint64_t i)
{
	const uint8_t *at = e->obj + elf_section(e, e->symtab).sh_offset + i * symbol_bytes(e);
	Elf64_Sym s;
	Elf32_Sym n;
	if (!is_narrow(e)) {
		memcpy(&s, at, sizeof s);
		return s;
	}
	memcpy(&n, at, sizeof n);
	return (Elf64_Sym){.st_name = n.st_name,
			   .st_info = n.st_info,
			   .st_other = n.st_other,
			   .st_shndx = n.st_shndx,
			   .st_value = n.st_value,
			   .st_size = n.st_size};
}

uint64_t elf_symbol_count(const struct elf *e)
{
	return (size_t)elf_section(e, e->symtab).sh_size / symbol_bytes(e);
}

const char *elf_symbol_name(const struct elf *e, const Elf64_Sym *s)
{
	Elf64_Shdr str = elf_section(e, (int)elf_section(e, e->symtab).sh_link);
	if (s->st_name >= str.sh_size)
		return NULL;
	const char *name = (const char *)e->obj + str.sh_offset + s->st_name;
	uint64_t room = str.sh_size - s->st_name;
	size_t most = sizeof e->entry[0].name;
	return memchr(name, 0, room < most ? room : most) ? name : NULL;
}

bool elf_is_thumb(const struct elf *e, const Elf64_Sym *s)
{
	return e->machine == EM_ARM && ELF64_ST_TYPE(s->st_info) == STT_FUNC && (s->st_value & 1);
}

static int read_entries(struct elf *e)
{
	Elf64_Shdr tab = elf_section(e, e->symtab);
	if (tab.sh_entsize != symbol_bytes(e) || tab.sh_link >= (uint32_t)e->nsections ||
	    elf_section(e, (int)tab.sh_link).sh_type != SHT_STRTAB)
		return fail(E_CORRUPT, "object: bad symbol table");
	for (uint64_t i = 0; i < elf_symbol_count(e); i++) {
		Elf64_Sym s = elf_symbol(e, i);
		if (ELF64_ST_BIND(s.st_info) != STB_GLOBAL || ELF64_ST_TYPE(s.st_info) != STT_FUNC ||
		    s.st_shndx == SHN_UNDEF)
			continue;
		const char *name = elf_symbol_name(e, &s);
		if (!name)
			return fail(E_CORRUPT, "object: bad name of symbol %llu", (unsigned long long)i);
		if (s.st_shndx >= e->nsections || e->at[s.st_shndx] == SIZE_MAX)
			return fail(E_CORRUPT, "object: function %s lies in no section", name);
		Elf64_Shdr in = elf_section(e, s.st_shndx);
		if (elf_is_thumb(e, &s))
			return fail(E_UNSUPPORTED, "object: function %s is Thumb code", name);
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
