/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/object.h"

#include <elf.h>
#include <string.h>

/* Sections by number. The empty note says that the object needs no executable stack. */
enum { NONE, DATA, NOTE, SYMBOLS, NAMES, SECTION_NAMES, SECTIONS };

static uint64_t pad_to(struct buf *b, uint64_t before, uint64_t align)
{
	static const char zero[64];
	uint64_t at = before + b->n, pad = (align - at % align) % align;
	buf_add(b, zero, pad);
	return at + pad;
}

/* Adds a name and returns its offset in the table of names. */
static uint32_t add_name(struct buf *names, const char *name)
{
	if (!names->n)
		buf_u8(names, 0);
	uint32_t at = (uint32_t)names->n;
	buf_add(names, name, strlen(name) + 1);
	return at;
}

static void add_symbols(const struct object *o, struct buf *symbols, struct buf *names)
{
	const Elf64_Sym none = {0};
	buf_add(symbols, &none, sizeof none);
	for (int i = 0; i < o->nsymbols; i++) {
		const Elf64_Sym s = {
		    .st_name = add_name(names, o->symbol[i].name),
		    .st_info = ELF64_ST_INFO(STB_GLOBAL, o->code ? STT_FUNC : STT_OBJECT),
		    .st_other = STV_HIDDEN,
		    .st_shndx = DATA,
		    .st_value = o->symbol[i].at,
		    .st_size = o->symbol[i].bytes,
		};
		buf_add(symbols, &s, sizeof s);
	}
}

static void add_part(struct buf *to, uint64_t before, const struct buf *part, Elf64_Shdr *s)
{
	s->sh_offset = pad_to(to, before, 8);
	s->sh_size = part->n;
	s->sh_addralign = 8;
	buf_add(to, part->p, part->n);
	to->failed |= part->failed;
}

bool object_knows(int machine)
{
	return machine == EM_X86_64 || machine == EM_AARCH64;
}

int object_make(const struct object *o, struct buf *head, struct buf *tail)
{
	struct buf symbols = {0}, names = {0}, sections = {0};
	const Elf64_Word flags = SHF_ALLOC | (o->code ? SHF_EXECINSTR : 0);
	Elf64_Shdr s[SECTIONS] = {
	    [DATA] = {.sh_type = SHT_PROGBITS, .sh_flags = flags, .sh_offset = sizeof(Elf64_Ehdr)},
	    [NOTE] = {.sh_type = SHT_PROGBITS, .sh_offset = sizeof(Elf64_Ehdr), .sh_addralign = 1},
	    [SYMBOLS] = {.sh_type = SHT_SYMTAB,
			 .sh_link = NAMES,
			 .sh_info = 1,
			 .sh_entsize = sizeof(Elf64_Sym)},
	    [NAMES] = {.sh_type = SHT_STRTAB},
	    [SECTION_NAMES] = {.sh_type = SHT_STRTAB},
	};
	if (!object_knows(o->machine))
		return fail(E_UNSUPPORTED, "objects are written for x86-64 and AArch64 only");
	_Static_assert(sizeof(Elf64_Ehdr) == 64, "the section begins right behind the header");
	s[DATA].sh_size = o->bytes;
	s[DATA].sh_addralign = o->align;
	uint64_t before = sizeof(Elf64_Ehdr) + o->bytes;
	add_symbols(o, &symbols, &names);
	const char *section[] = {"", o->section, ".note.GNU-stack", ".symtab", ".strtab", ".shstrtab"};
	for (int i = DATA; i < SECTIONS; i++)
		s[i].sh_name = add_name(&sections, section[i]);
	add_part(tail, before, &symbols, &s[SYMBOLS]);
	add_part(tail, before, &names, &s[NAMES]);
	add_part(tail, before, &sections, &s[SECTION_NAMES]);
	const Elf64_Ehdr h = {
	    .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
	    .e_type = ET_REL,
	    .e_machine = (Elf64_Half)o->machine,
	    .e_version = EV_CURRENT,
	    .e_shoff = pad_to(tail, before, 8),
	    .e_ehsize = sizeof h,
	    .e_shentsize = sizeof *s,
	    .e_shnum = SECTIONS,
	    .e_shstrndx = SECTION_NAMES,
	};
	buf_add(tail, s, sizeof s);
	buf_add(head, &h, sizeof h);
	buf_free(&symbols);
	buf_free(&names);
	buf_free(&sections);
	return buf_ok(head) && buf_ok(tail) ? E_OK : fail(E_NOMEM, "no memory for an object");
}
