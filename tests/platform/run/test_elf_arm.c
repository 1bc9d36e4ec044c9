/* SPDX-License-Identifier: Apache-2.0 */
/* Objects for ARMv7, which are 32-bit: one made by hand, whole and damaged, and one that the assembler makes,
 * which must become what the system's linker makes of it. */
#include "platform/base/buf.h"
#include "tests/lib/elf_damage.h"
#include "tests/lib/elf_objects.h"

#include <unistd.h>

enum { BASE = 0x12345000, CONSTANT = 0x12346000 };

static uint8_t object[2048], image[8192];

static uint32_t word(size_t at)
{
	uint32_t w;
	memcpy(&w, image + at, 4);
	return w;
}

TEST(relocations)
{
	struct elf e;
	size_t n = armv7_object(object);
	REQUIRE_OK(elf_read(&e, object, n, EM_ARM));
	CHECK(e.nentries == 2 && e.image_bytes == 4096 + 16 && e.align == 4096);
	CHECK(!strcmp(e.entry[1].name, "k1") && e.entry[0].at == 0 && e.entry[1].at == 0x24);
	REQUIRE_OK(elf_link(&e, BASE, image));
	CHECK(word(0x00) == 0xe3061004 && word(0x04) == 0xe3411234); /* CONSTANT + 4 */
	CHECK(word(0x08) == 0xe3002ff0 && word(0x0c) == 0xe3402000); /* distances, at most 0xff0 */
	CHECK(word(0x10) == 0xeb000003 && word(0x14) == 0x0a000002); /* words from the next but one */
	CHECK(word(0x18) == CONSTANT + 8);
	CHECK(word(0x1c) == CONSTANT - 4 - (BASE + 0x1c));
	CHECK(word(0x20) == ((CONSTANT - 4 - (BASE + 0x20)) | 0x80000000)); /* bit 31 stays */
	CHECK(word(0x24) == 0xe12fff1e && word(4096) == 0x5a5a5a5a);
	CHECK_FAILS(elf_link(&e, 0xfffff000, image), E_UNSUPPORTED, "beyond 32 bits");
	CHECK_OK(elf_link(&e, 0xffff0000 - 4096, image));
	CHECK_FAILS(elf_read(&e, object, n, EM_X86_64), E_UNSUPPORTED, "64-bit");
}

static void put(size_t at, uint32_t value)
{
	memcpy(object + at, &value, 4);
}

/* Reads and links the object. */
static int result(void)
{
	struct elf e;
	int rc = elf_read(&e, object, sizeof object, EM_ARM);
	return rc < 0 ? rc : elf_link(&e, BASE, image);
}

/* Reads and links a good object of which 4 bytes are changed. */
static int changed(size_t at, uint32_t value)
{
	armv7_object(object);
	put(at, value);
	return result();
}

static size_t section_field(int section, size_t field)
{
	return ARMV7_SECTIONS + (size_t)section * sizeof(Elf32_Shdr) + field;
}

TEST(refused)
{
	size_t k1 = ARMV7_SYM + 3 * sizeof(Elf32_Sym) + offsetof(Elf32_Sym, st_value);
	size_t call = ARMV7_TEXT + 0x10, info = offsetof(Elf32_Rel, r_info);
	CHECK_OK(changed(ARMV7_TEXT, 0xe3001004));
	CHECK_FAILS(changed(k1, 0x25), E_UNSUPPORTED, "Thumb");
	put(k1 + 8, ELF32_ST_INFO(STB_LOCAL, STT_FUNC) | 1 << 16); /* as a local function it is no entry */
	CHECK_FAILS(result(), E_UNSUPPORTED, "symbol 3 is Thumb");
	CHECK_FAILS(changed(k1, 0x26), E_CORRUPT, "out of range");
	CHECK_FAILS(changed(k1, 0x28), E_CORRUPT, "outside the code");
	CHECK_FAILS(changed(call, 0xfafffffe), E_UNSUPPORTED, "Thumb");
	CHECK_FAILS(changed(ARMV7_REL + info, ELF32_R_INFO(1, R_ARM_THM_MOVW_ABS_NC)), E_UNSUPPORTED,
		    "relocation type 47");
	CHECK_FAILS(changed(ARMV7_REL + info, ELF32_R_INFO(4, R_ARM_ABS32)), E_CORRUPT, "symbol 4");
	CHECK_FAILS(changed(ARMV7_REL, 0x26), E_CORRUPT, "outside its section");
	CHECK_FAILS(changed(section_field(3, offsetof(Elf32_Shdr, sh_type)), SHT_RELA), E_UNSUPPORTED,
		    "with addends");
	CHECK_FAILS(changed(section_field(3, offsetof(Elf32_Shdr, sh_entsize)), sizeof(Elf64_Rela)),
		    E_CORRUPT, "relocation section");
	CHECK_FAILS(changed(section_field(4, offsetof(Elf32_Shdr, sh_entsize)), sizeof(Elf64_Sym)), E_CORRUPT,
		    "symbol table");
	CHECK_FAILS(changed(section_field(2, offsetof(Elf32_Shdr, sh_flags)), SHF_ALLOC | SHF_WRITE),
		    E_UNSUPPORTED, "writable");
}

TEST(damaged)
{
	struct blob b = {.p = object, .n = armv7_object(object)};
	elf_damage(&b, EM_ARM);
}

/* Each kind of relocation, forwards and backwards, near and far. */
static const char source[] = ".syntax unified\n.arm\n"
			     ".section .text.a,\"ax\",%progbits\n.globl k0\n.type k0,%function\nk0:\n"
			     "movw r1, #:lower16:table + 4\nmovt r1, #:upper16:table + 4\n"
			     "movw r2, #:lower16:(far - (. + 8))\nmovt r2, #:upper16:(far - (. + 8))\n"
			     "movw r3, #:lower16:(before - (. + 8))\nmovt r3, #:upper16:(before - (. + 8))\n"
			     "bl k1\nblne k1\nbeq k1\nb k1\nbl before\n.long table + 4 - .\n.long far + 8\n"
			     ".long before - .\n.long k1(prel31)\n"
			     ".section .rodata.a,\"a\",%progbits\n.balign 16\n.long 1, 2\ntable: .long 3, 4\n"
			     ".space 70000\nfar: .long k0 - ., k0, k1 - . + 4, k1(prel31)\n"
			     ".section .text.b,\"ax\",%progbits\n.balign 32\n.globl k1\n.type k1,%function\n"
			     "k1:\nbl k0\nb before\nmovt r4, #:upper16:far - 4\nmovw r4, #:lower16:far - 4\n"
			     "bx lr\n.type before,%function\nbefore:\nbl k1\nbx lr\n";

static int shell(const char *dir, const char *command)
{
	setenv("DIR", dir, 1);
	fflush(NULL);
	return system(command);
}

/* Puts the sections where our image has them: .text.a, .rodata.a and .text.b are in this order. */
static void write_script(const struct elf *e, const char *dir)
{
	static const char *const names[] = {".text.a", ".rodata.a", ".text.b"};
	struct buf b = {0};
	char path[64];
	int k = 0;
	buf_puts(&b, "SECTIONS {\n");
	for (int i = 0; i < e->nsections && k < 3; i++)
		if (e->at[i] != SIZE_MAX) {
			buf_printf(&b, "%s 0x%zx : { *(%s) }\n", names[k], BASE + e->at[i], names[k]);
			k++;
		}
	buf_puts(&b, "/DISCARD/ : { *(.ARM.*) *(.comment) *(.text) }\n}\n");
	snprintf(path, sizeof path, "%s/script", dir);
	CHECK_OK(file_write(path, b.p, b.n));
	CHECK(k == 3);
	buf_free(&b);
}

TEST(as_the_system_links_it)
{
	static uint8_t ours[1 << 17];
	char dir[] = "/tmp/hone-test-elf-XXXXXX", path[64];
	struct arena a = {0};
	struct blob o, theirs;
	struct elf e;
	if (system("command -v clang ld.lld >/dev/null") != 0)
		SKIP("clang and lld are needed to make objects for ARMv7 here");
	REQUIRE(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/k.s", dir);
	REQUIRE_OK(file_write(path, source, strlen(source)));
	REQUIRE(shell(dir, "clang --target=armv7-unknown-linux-gnueabihf -c -o $DIR/k.o $DIR/k.s") == 0);
	snprintf(path, sizeof path, "%s/k.o", dir);
	REQUIRE_OK(file_read(&a, path, 0, &o));
	REQUIRE_OK(elf_read(&e, o.p, o.n, EM_ARM));
	CHECK(e.nentries == 2 && e.image_bytes <= sizeof ours);
	REQUIRE_OK(elf_link(&e, BASE, ours));
	write_script(&e, dir);
	REQUIRE(shell(dir, "ld.lld -e k0 --oformat binary -T $DIR/script -o $DIR/image $DIR/k.o") == 0);
	snprintf(path, sizeof path, "%s/image", dir);
	REQUIRE_OK(file_read(&a, path, 0, &theirs));
	CHECK(theirs.n == e.image_bytes);
	for (size_t i = 0; i + 4 <= theirs.n && i + 4 <= e.image_bytes; i += 4)
		if (memcmp(ours + i, (const uint8_t *)theirs.p + i, 4) != 0) {
			printf("byte 0x%zx differs\n", i);
			test_bad = 1;
		}
	CHECK(shell(dir, "rm -r $DIR") == 0);
	arena_free(&a);
}

TEST_MAIN
