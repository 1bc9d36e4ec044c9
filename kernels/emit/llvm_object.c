/* SPDX-License-Identifier: Apache-2.0 */
/* Checks an object: it must need no symbol from elsewhere and keep no vector on the stack. */
#include "kernels/emit/llvm_object.h"
#include <elf.h>
#include <llvm-c/Disassembler.h>
#include <stdio.h>
#include <string.h>

/* A section's bytes with fields of its header, for 32- and 64-bit ELF alike. */
struct section {
	uint32_t type;
	uint64_t flags, at, bytes, link;
};

/* The object is the code generator's own output and trusted, but a truncated one must not crash. */
static bool section_at(const struct blob *o, unsigned i, struct section *s)
{
	const char *p = o->p;
	if (p[EI_CLASS] == ELFCLASS64) {
		const Elf64_Ehdr *h = o->p;
		const Elf64_Shdr *sh = (const void *)(p + h->e_shoff);
		if (i >= h->e_shnum || h->e_shoff + (i + 1) * sizeof *sh > o->n)
			return false;
		*s = (struct section){sh[i].sh_type, sh[i].sh_flags, sh[i].sh_offset, sh[i].sh_size,
				      sh[i].sh_link};
	} else {
		const Elf32_Ehdr *h = o->p;
		const Elf32_Shdr *sh = (const void *)(p + h->e_shoff);
		if (i >= h->e_shnum || h->e_shoff + (i + 1) * sizeof *sh > o->n)
			return false;
		*s = (struct section){sh[i].sh_type, sh[i].sh_flags, sh[i].sh_offset, sh[i].sh_size,
				      sh[i].sh_link};
	}
	return s->type == SHT_NOBITS || (s->at <= o->n && s->bytes <= o->n - s->at);
}

static const char *undefined_in(const struct blob *o, const struct section *s)
{
	const char *p = o->p;
	bool wide = p[EI_CLASS] == ELFCLASS64;
	size_t each = wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
	struct section names;
	if (!section_at(o, (unsigned)s->link, &names))
		return "a bad symbol table";
	for (size_t i = 1; (i + 1) * each <= s->bytes; i++) {
		const Elf64_Sym *w = (const void *)(p + s->at + i * sizeof *w);
		const Elf32_Sym *n = (const void *)(p + s->at + i * sizeof *n);
		if ((wide ? w->st_shndx : n->st_shndx) == SHN_UNDEF)
			return p + names.at + (wide ? w->st_name : n->st_name);
	}
	return NULL;
}

const char *object_undefined(const struct blob *o)
{
	struct section s;
	for (unsigned i = 0; section_at(o, i, &s); i++) {
		const char *name = s.type == SHT_SYMTAB ? undefined_in(o, &s) : NULL;
		if (name)
			return name;
	}
	return NULL;
}

/* Whether "\tvmovd\t(%rsp), %xmm0" moves one number: the word itself, because vmovdqu moves a vector. */
static bool moves_scalar(const char *text)
{
	static const char *const words[] = {"movss", "movsd", "movd", "movq"};
	text += strspn(text, " \t");
	text += *text == 'v';
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strcspn(text, " \t") == strlen(words[i]) &&
		    strncmp(text, words[i], strlen(words[i])) == 0)
			return true;
	return false;
}

/* Whether a vector register is used with the stack pointer: "vmovups 64(%rsp), %zmm3", "str q0, [sp, #16]",
 * "vst1.64 {d8, d9}, [sp]". Scalars (movss, movd, "str s0") do not count, nor do d registers of AArch64,
 * which are saved for the caller. */
static bool is_vector_spill(const char *text)
{
	if (strstr(text, "(%rsp"))
		return strstr(text, "mm") && !moves_scalar(text);
	if (!strstr(text, "[sp"))
		return false;
	const char *reg = strchr(text + 1, '\t');
	return reg && (reg[1] == 'q' || reg[1] == '{');
}

/* A32 has no address with an offset for vectors, so code for it first puts the address into a core register:
 * "add r0, sp, #112", then "vstmia r0, {d16, d17}" or "vst1.64 {d16, d17}, [r0:128]". */

enum { A32_SP = 13 };

/* "r7" is 7, "sp" A32_SP, another word -1. */
static int a32_register(const char *text)
{
	if (strncmp(text, "sp", 2) == 0)
		return A32_SP;
	int n = 0;
	return sscanf(text, "r%d", &n) == 1 && n >= 0 && n < A32_SP ? n : -1;
}

static const char *a32_operand(const char *text, int i)
{
	const char *at = strchr(text + (*text == '\t'), '\t');
	while (at && i--)
		at = strchr(at + 1, ',');
	return at ? at + 1 + (at[1] == ' ') : "";
}

static bool begins(const char *text, const char *const *words)
{
	text += strspn(text, " \t");
	for (; *words; words++)
		if (strncmp(text, *words, strlen(*words)) == 0)
			return true;
	return false;
}

/* Whether an instruction moves vectors to or from an address in one of the registers `frame`. */
static bool is_a32_spill(const char *text, unsigned frame)
{
	static const char *const many[] = {"vldmia\t", "vstmia\t", NULL}, *const one[] = {"vld1", "vst1",
											  NULL};
	const char *in = strchr(text, '[');
	int base = begins(text, many) && *a32_operand(text, 1) == '{' && a32_operand(text, 1)[1] == 'd'
		       ? a32_register(a32_operand(text, 0))
		   : begins(text, one) && in ? a32_register(in + 1)
					     : -1;
	return base >= 0 && frame >> base & 1;
}

/* The registers that hold addresses in the stack frame after an instruction, of those before it. */
static unsigned a32_frame(const char *text, unsigned frame)
{
	static const char *const address[] = {"add\t", "mov\t", "sub\t", "orr\t", "bic\t", NULL},
				 *const reads[] = {"str", "cmp", "cmn", "tst", "teq", "push", "v", "b", NULL},
				 *const two[] = {"ldrd", "umull", "smull", "umlal", "smlal", NULL};
	int to = a32_register(a32_operand(text, 0)), from = a32_register(a32_operand(text, 1));
	if (begins(text, address) && to >= 0 && from >= 0 && frame >> from & 1)
		return frame | 1u << to;
	if (to < 0 || to == A32_SP || (begins(text, reads) && !begins(text, address)))
		return frame;
	return frame & ~(1u << to | (begins(text, two) && from >= 0 && from != A32_SP ? 1u << from : 0));
}

/* Quick test whether x86 code may spill: an instruction with a vector register and an (%rsp) operand has a
 * SIB byte of 0x24, right before it a ModRM byte that requires one, and an EVEX, VEX or 0F prefix at a known
 * distance. Most code has none and need not be disassembled. */
static bool x86_may_spill(const uint8_t *p, uint64_t n)
{
	for (uint64_t i = 5; i + 1 < n; i++)
		if (p[i + 1] == 0x24 && (p[i] & 7) == 4 && p[i] < 0xc0 &&
		    (p[i - 5] == 0x62 || p[i - 4] == 0xc4 || p[i - 3] == 0xc5 || p[i - 2] == 0x0f ||
		     p[i - 3] == 0x0f))
			return true;
	return false;
}

/* A few moves around the loops of code with 16 registers and without memory operands, as in the transforms of
 * Winograd's algorithm, cost little; a tile that does not fit makes every third instruction one. */
enum { A32_FEW = 8 /* vector instructions for each move */ };

/* Loops of x86 code. A register that is stored before a loop and loaded behind it, as a constant of an
 * epilogue is, costs nothing beside the loop. So the moves that lie directly in a loop are compared with all
 * vector instructions of that loop; one load in a step takes no more than a constant from memory. Measured
 * with AVX2, where it makes default schedules faster: code without AVX is judged by any move. */
enum {
	MOST_LOOPS = 512,
	FEW = 8,  /* vector instructions for each move */
	MANY = 8, /* stores in an innermost loop: such a tile does not fit, whatever its products cost */
};

struct loop {
	uint64_t from, to; /* offsets of its first instruction, and past its last one */
	int moves, stores, vectors;
	bool outer; /* has another loop inside */
};

struct loops_of {
	struct loop at[MOST_LOOPS]; /* the first is the whole section */
	int n;
};

/* Distance of a jump from its end; 0: the instruction is no jump, or not one to a known place. */
static int64_t x86_jump(const uint8_t *p, uint64_t n)
{
	int32_t far;
	if (n == 2 && ((p[0] & 0xf0) == 0x70 || p[0] == 0xeb))
		return (int8_t)p[1];
	if (!(n == 6 && p[0] == 0x0f && (p[1] & 0xf0) == 0x80) && !(n == 5 && p[0] == 0xe9))
		return 0;
	memcpy(&far, p + n - 4, sizeof far);
	return far;
}

/* Adds the loop that a jump backwards ends. false: there are too many. */
static bool add_loop(struct loops_of *l, uint64_t from, uint64_t to)
{
	for (int i = 1; i < l->n; i++)
		if (l->at[i].from == from) {
			l->at[i].to = to; /* later jumps to it lie behind */
			return true;
		}
	if (l->n == MOST_LOOPS)
		return false;
	l->at[l->n++] = (struct loop){.from = from, .to = to};
	return true;
}

static bool find_loops(const uint8_t *p, uint64_t n, void *disassembler, struct loops_of *l)
{
	char text[256];
	*l = (struct loops_of){.n = 1};
	l->at[0].to = n;
	for (uint64_t at = 0, step; at < n; at += step) {
		step = LLVMDisasmInstruction(disassembler, (uint8_t *)p + at, n - at, at, text, sizeof text);
		if (!step)
			break;
		int64_t jump = x86_jump(p + at, step);
		if (jump < 0 && (uint64_t)-jump <= at + step &&
		    !add_loop(l, at + step - (uint64_t)-jump, at + step))
			return false;
	}
	for (int i = 0; i < l->n; i++)
		for (int k = 1; k < l->n; k++)
			l->at[i].outer |=
			    k != i && l->at[k].from >= l->at[i].from && l->at[k].to <= l->at[i].to;
	return true;
}

/* Counts an instruction in all loops around it, and a move in the smallest. */
static void count_in(struct loops_of *l, uint64_t at, bool move, bool store)
{
	struct loop *least = &l->at[0];
	for (int i = 0; i < l->n; i++)
		if (l->at[i].from <= at && at < l->at[i].to) {
			l->at[i].vectors++;
			least = l->at[i].to - l->at[i].from < least->to - least->from ? &l->at[i] : least;
		}
	least->moves += move;
	least->stores += move && store;
}

/* Whether a spill is a store: "vmovups %zmm3, 64(%rsp)". */
static bool moves_to_stack(const char *text)
{
	const char *reg = strstr(text, "mm"), *at = strstr(text, "(%rsp");
	return reg && at && reg < at;
}

static bool has_many(const struct loop *l)
{
	return (l->moves * FEW > l->vectors && (l->moves > 1 || l->stores)) ||
	       (!l->outer && l->stores >= MANY);
}

/* Moves in the loops of a section that have many. */
static int x86_spills(const uint8_t *p, uint64_t n, void *disassembler)
{
	struct loops_of l;
	char text[256];
	int all = 0, many = 0;
	bool found = find_loops(p, n, disassembler, &l), avx = false;
	for (uint64_t at = 0, step; at < n; at += step) {
		step = LLVMDisasmInstruction(disassembler, (uint8_t *)p + at, n - at, at, text, sizeof text);
		if (!step)
			break; /* data in the text section */
		bool move = is_vector_spill(text);
		all += move;
		avx |= strstr(text, "\tv") == text;
		if (found && strstr(text, "mm"))
			count_in(&l, at, move, moves_to_stack(text));
	}
	for (int i = 0; found && i < l.n; i++)
		many += has_many(&l.at[i]) ? l.at[i].moves : 0;
	return found && avx ? many : all;
}

int object_vector_spills(const struct blob *o, void *disassembler, bool x86)
{
	int n = 0, a32 = 0, vectors = 0;
	struct section s;
	for (unsigned i = 0; section_at(o, i, &s); i++) {
		char text[256];
		unsigned frame = 1u << A32_SP;
		uint8_t *p = (uint8_t *)o->p + s.at;
		if (!(s.flags & SHF_EXECINSTR))
			continue;
		if (x86) {
			n += x86_may_spill(p, s.bytes) ? x86_spills(p, s.bytes, disassembler) : 0;
			continue;
		}
		for (uint64_t at = 0, step; at < s.bytes; at += step) {
			step =
			    LLVMDisasmInstruction(disassembler, p + at, s.bytes - at, at, text, sizeof text);
			if (!step)
				break; /* data in the text section */
			n += is_vector_spill(text);
			a32 += is_a32_spill(text, frame);
			vectors += text[0] == '\t' && text[1] == 'v';
			frame = a32_frame(text, frame);
		}
	}
	return n + (a32 * A32_FEW > vectors ? a32 : 0);
}
