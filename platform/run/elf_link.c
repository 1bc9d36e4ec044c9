/* SPDX-License-Identifier: Apache-2.0 */
/* Relocation formulas: System V ABI, AMD64 supplement, 4.4; ELF for the Arm 64-bit architecture, 5.7; ELF for
 * the Arm architecture, 5.6. In all of them S is the symbol's address, A the addend, P the address of the
 * place. Objects for ARMv7 keep A in the place itself. */
#include "platform/run/elf_parts.h"

#include <string.h>

/* Where the result goes: a whole word, or a field of a word. */
enum put {
	PUT_64,
	PUT_S32,    /* must fit in a signed word */
	PUT_ADRP,   /* 21 bits of pages: immlo at bit 29, immhi at bit 5 */
	PUT_LO12,   /* low 12 bits, shifted right by `shift`, at bit 10 */
	PUT_32,     /* modulo 2^32 */
	PUT_31,     /* 31 bits, signed; bit 31 stays */
	PUT_BRANCH, /* 24 bits of words, signed */
	PUT_MOV     /* 16 bits, from bit `shift` on: 4 at bit 16, 12 at bit 0 */
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
    {EM_ARM, R_ARM_ABS32, false, PUT_32, 0},
    {EM_ARM, R_ARM_REL32, true, PUT_32, 0},
    {EM_ARM, R_ARM_PREL31, true, PUT_31, 0},
    {EM_ARM, R_ARM_CALL, true, PUT_BRANCH, 0},
    {EM_ARM, R_ARM_JUMP24, true, PUT_BRANCH, 0},
    {EM_ARM, R_ARM_MOVW_ABS_NC, false, PUT_MOV, 0},
    {EM_ARM, R_ARM_MOVT_ABS, false, PUT_MOV, 16},
    {EM_ARM, R_ARM_MOVW_PREL_NC, true, PUT_MOV, 0},
    {EM_ARM, R_ARM_MOVT_PREL, true, PUT_MOV, 16},
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

static int64_t sign_extend(uint32_t v, int bits)
{
	return (int64_t)((uint64_t)v << (64 - bits)) >> (64 - bits);
}

/* The addend in a place of ARMv7. */
static int64_t addend_of(const struct rel *r, const uint8_t *place)
{
	uint32_t w;
	memcpy(&w, place, 4);
	return r->put == PUT_BRANCH ? sign_extend(w << 2 & 0x3ffffff, 26)
	       : r->put == PUT_MOV  ? sign_extend((w >> 4 & 0xf000) | (w & 0xfff), 16)
	       : r->put == PUT_31   ? sign_extend(w & 0x7fffffff, 31)
				    : sign_extend(w, 32);
}

static int out_of_range(void)
{
	return fail(E_CORRUPT, "object: a relocation is out of range");
}

/* The target is S + A. */
static int put_pages(uint8_t *place, uint64_t target, uint64_t p)
{
	int64_t pages = (int64_t)((target & ~UINT64_C(4095)) - (p & ~UINT64_C(4095))) >> 12;
	if (pages < -(1 << 20) || pages >= 1 << 20)
		return out_of_range();
	insert_bits(place, 3u << 29 | 0x7ffffu << 5,
		    (uint32_t)(pages & 3) << 29 | ((uint32_t)(pages >> 2) & 0x7ffffu) << 5);
	return E_OK;
}

/* v is the formula's value, an address or a distance modulo 2^32. */
static int put_branch(uint8_t *place, uint32_t v)
{
	uint32_t w;
	memcpy(&w, place, 4);
	if (w >> 28 == 15)
		return fail(E_UNSUPPORTED, "object: a call of Thumb code");
	if (sign_extend(v, 32) != sign_extend(v & 0x3ffffff, 26) || v % 4)
		return out_of_range();
	insert_bits(place, 0xffffff, v >> 2);
	return E_OK;
}

static int put_31(uint8_t *place, uint32_t v)
{
	if (sign_extend(v, 32) != sign_extend(v & 0x7fffffff, 31))
		return out_of_range();
	insert_bits(place, 0x7fffffff, v);
	return E_OK;
}

static int put_low12(const struct rel *r, uint8_t *place, uint64_t v)
{
	if (v & ((1u << r->shift) - 1))
		return fail(E_CORRUPT, "object: a relocation's target is not aligned");
	insert_bits(place, 0xfffu << 10, (uint32_t)((v & 4095) >> r->shift) << 10);
	return E_OK;
}

static int put_s32(uint8_t *place, uint64_t v)
{
	if ((int64_t)v != (int32_t)v)
		return out_of_range();
	memcpy(place, &v, 4);
	return E_OK;
}

/* The target is S + A. */
static int put(const struct rel *r, uint8_t *place, uint64_t target, uint64_t p)
{
	uint64_t v = r->relative ? target - p : target;
	uint32_t mov = (uint32_t)v >> r->shift;
	switch (r->put) {
	case PUT_64:
		memcpy(place, &v, 8);
		return E_OK;
	case PUT_S32:
		return put_s32(place, v);
	case PUT_ADRP:
		return put_pages(place, target, p);
	case PUT_LO12:
		return put_low12(r, place, v);
	case PUT_32:
		memcpy(place, &v, 4);
		return E_OK;
	case PUT_31:
		return put_31(place, (uint32_t)v);
	case PUT_BRANCH:
		return put_branch(place, (uint32_t)v);
	case PUT_MOV:
		insert_bits(place, 0xf0fff, (mov & 0xf000) << 4 | (mov & 0xfff));
		return E_OK;
	}
	return fail(E_CORRUPT, "object: a relocation of an unknown form");
}

static int symbol_address(const struct elf *e, uint64_t i, uint64_t base, uint64_t *out)
{
	if (i >= elf_symbol_count(e))
		return fail(E_CORRUPT, "object: relocation against symbol %llu", (unsigned long long)i);
	Elf64_Sym s = elf_symbol(e, i);
	if (s.st_shndx == SHN_UNDEF) {
		const char *name = elf_symbol_name(e, &s);
		return fail(E_UNSUPPORTED, "object: needs '%s' from outside; kernels call nothing",
			    name ? name : "?");
	}
	if (s.st_shndx >= e->nsections || e->at[s.st_shndx] == SIZE_MAX)
		return fail(E_UNSUPPORTED, "object: relocation against a section that is not loaded");
	if (s.st_value > elf_section(e, s.st_shndx).sh_size)
		return fail(E_CORRUPT, "object: symbol %llu lies outside its section", (unsigned long long)i);
	if (elf_is_thumb(e, &s))
		return fail(E_UNSUPPORTED, "object: symbol %llu is Thumb code", (unsigned long long)i);
	*out = base + e->at[s.st_shndx] + s.st_value;
	return E_OK;
}

/* A relocation of either class. */
struct relocation {
	uint64_t at, symbol;
	uint32_t type;
	int64_t addend; /* ARMv7: not used, it is in the place */
};

static int relocate(const struct elf *e, const struct relocation *r, int target, uint64_t base,
		    uint8_t *image)
{
	if (r->type == 0)
		return E_OK;
	const struct rel *rel = find_rel(e->machine, r->type);
	if (!rel)
		return fail(E_UNSUPPORTED, "object: relocation type %u", r->type);
	uint64_t size = elf_section(e, target).sh_size, width = rel->put == PUT_64 ? 8 : 4, s = 0;
	if (r->at > size || width > size - r->at)
		return fail(E_CORRUPT, "object: a relocation lies outside its section");
	int rc = symbol_address(e, r->symbol, base, &s);
	if (rc < 0)
		return rc;
	size_t at = e->at[target] + (size_t)r->at;
	int64_t addend = e->machine == EM_ARM ? addend_of(rel, image + at) : r->addend;
	return put(rel, image + at, s + (uint64_t)addend, base + at);
}

static size_t relocation_bytes(const struct elf *e)
{
	return e->machine == EM_ARM ? sizeof(Elf32_Rel) : sizeof(Elf64_Rela);
}

static struct relocation relocation(const struct elf *e, const uint8_t *at)
{
	Elf32_Rel n;
	Elf64_Rela w;
	if (e->machine == EM_ARM) {
		memcpy(&n, at, sizeof n);
		return (struct relocation){n.r_offset, ELF32_R_SYM(n.r_info), ELF32_R_TYPE(n.r_info), 0};
	}
	memcpy(&w, at, sizeof w);
	return (struct relocation){w.r_offset, ELF64_R_SYM(w.r_info), (uint32_t)ELF64_R_TYPE(w.r_info),
				   w.r_addend};
}

static int relocate_section(const struct elf *e, const Elf64_Shdr *s, uint64_t base, uint8_t *image)
{
	size_t each = relocation_bytes(e);
	if (s->sh_entsize != each || s->sh_link != (uint32_t)e->symtab)
		return fail(E_CORRUPT, "object: bad relocation section");
	for (size_t i = 0; i < (size_t)s->sh_size / each; i++) {
		struct relocation r = relocation(e, e->obj + s->sh_offset + i * each);
		int rc = relocate(e, &r, (int)s->sh_info, base, image);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

int elf_link(const struct elf *e, uint64_t base, uint8_t *image)
{
	uint32_t ours = e->machine == EM_ARM ? SHT_REL : SHT_RELA;
	if (e->machine == EM_ARM && base > UINT32_MAX - e->image_bytes)
		return fail(E_UNSUPPORTED, "object: an address beyond 32 bits");
	memset(image, 0, e->image_bytes);
	for (int i = 0; i < e->nsections; i++) {
		Elf64_Shdr s = elf_section(e, i);
		if (e->at[i] != SIZE_MAX && s.sh_type == SHT_PROGBITS)
			memcpy(image + e->at[i], e->obj + s.sh_offset, (size_t)s.sh_size);
	}
	for (int i = 0; i < e->nsections; i++) {
		Elf64_Shdr s = elf_section(e, i);
		bool reloc = s.sh_type == SHT_RELA || s.sh_type == SHT_REL;
		if (!reloc || s.sh_info >= (uint32_t)e->nsections || e->at[s.sh_info] == SIZE_MAX)
			continue;
		if (s.sh_type != ours)
			return fail(E_UNSUPPORTED, "object: relocations %s addends",
				    ours == SHT_REL ? "with" : "without");
		int rc = relocate_section(e, &s, base, image);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}
