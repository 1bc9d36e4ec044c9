/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the objects that we write with our linker and with the system's tools. */
#include "platform/run/elf.h"
#include "platform/run/object.h"
#include "tests/lib/test.h"

#include <elf.h>
#include <stddef.h>
#include <unistd.h>

static const uint8_t bytes[200] = {0xc3, 0x90, 0x90, 0xc3, [160] = 7};

static void make(bool code, struct buf *file)
{
	static const struct object_symbol two[] = {{"first", 0, 128}, {"second_with_a_longer_name", 128, 72}};
	struct buf tail = {0};
	const struct object o = {elf_machine(), code, code ? ".text.x" : ".rodata.x", 64, sizeof bytes,
				 two,           2};
	CHECK_OK(object_make(&o, file, &tail));
	CHECK(file->n % 64 == 0);
	buf_add(file, bytes, sizeof bytes);
	buf_add(file, tail.p, tail.n);
	CHECK(buf_ok(file));
	buf_free(&tail);
}

TEST(code_is_read_back)
{
	struct elf e;
	struct buf file = {0};
	uint8_t image[sizeof bytes];
	make(true, &file);
	REQUIRE_OK(elf_read(&e, file.p, file.n, elf_machine()));
	CHECK(e.image_bytes == sizeof bytes && e.align == 64 && e.nentries == 2);
	CHECK(!strcmp(e.entry[0].name, "first") && e.entry[0].at == 0);
	CHECK(!strcmp(e.entry[1].name, "second_with_a_longer_name") && e.entry[1].at == 128);
	CHECK_OK(elf_link(&e, 4096, image));
	CHECK(!memcmp(image, bytes, sizeof bytes));
	buf_free(&file);
}

TEST(data_has_no_functions)
{
	struct elf e;
	struct buf file = {0};
	make(false, &file);
	CHECK_FAILS(elf_read(&e, file.p, file.n, elf_machine()), E_CORRUPT, "no function");
	buf_free(&file);
}

/* Objects for other processors are neither written nor read; those for ARMv7 are only read. */
TEST(other_processors)
{
	static const int others[] = {EM_NONE, EM_386, EM_ARM, EM_RISCV};
	struct buf file = {0};
	make(true, &file);
	REQUIRE(buf_ok(&file));
	CHECK(elf_knows(elf_machine()) && elf_knows(EM_X86_64) && elf_knows(EM_AARCH64) && elf_knows(EM_ARM));
	CHECK(object_knows(EM_X86_64) && object_knows(EM_AARCH64));
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		struct elf e;
		struct buf head = {0}, tail = {0};
		const Elf64_Half machine = (Elf64_Half)others[i];
		const struct object o = {.machine = others[i], .section = ".text", .align = 64, .bytes = 64};
		memcpy(file.p + offsetof(Elf64_Ehdr, e_machine), &machine, sizeof machine);
		CHECK(elf_knows(others[i]) == (others[i] == EM_ARM) && !object_knows(others[i]));
		CHECK_FAILS(elf_read(&e, file.p, file.n, others[i]), E_UNSUPPORTED,
			    others[i] == EM_ARM ? "32-bit" : "x86-64, AArch64 and ARMv7");
		CHECK_FAILS(object_make(&o, &head, &tail), E_UNSUPPORTED, "x86-64 and AArch64");
		CHECK(!head.n && !tail.n);
	}
	buf_free(&file);
}

static int shell(const char *path, const char *cmd)
{
	setenv("OBJECT", path, 1);
	fflush(NULL);
	return system(cmd);
}

/* The symbols are aligned, and hidden once linked; nothing asks for an executable stack. */
TEST(the_system_links_it)
{
	for (int code = 0; code < 2; code++) {
		struct buf file = {0};
		char path[] = "/tmp/hone-test-object-XXXXXX";
		int fd = mkstemp(path);
		REQUIRE(fd >= 0);
		make(code, &file);
		CHECK(write(fd, file.p, file.n) == (ssize_t)file.n);
		close(fd);
		CHECK(shell(path, code ? "nm $OBJECT | grep -q '0000 T first$'"
				       : "nm $OBJECT | grep -q '0080 R second'") == 0);
		CHECK(shell(path,
			    "ld -shared --fatal-warnings -o $OBJECT.so $OBJECT && ! nm -D $OBJECT.so 2>&1 | "
			    "grep first && "
			    "! readelf -lW $OBJECT.so | grep 'GNU_STACK.*RWE'; x=$?; rm -f $OBJECT "
			    "$OBJECT.so; exit $x") == 0);
		buf_free(&file);
	}
}

TEST_MAIN
