/* SPDX-License-Identifier: Apache-2.0 */
/* Gives the loader objects that the C compiler makes here, whole and then damaged. */
#include "platform/run/dev.h"
#include "platform/run/elf.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

#include <elf.h>
#include <unistd.h>

extern const struct dev dev_cpu;

/* The pointer, an absolute relocation, is made in assembly, because compilers put such tables into writable
 * sections. */
static const char *const kernel =
    "#include <stdint.h>\n"
    "#define HIDDEN extern __attribute__((visibility(\"hidden\")))\n"
    "HIDDEN const float table[4];\n"
    "HIDDEN const float *const pointer;\n"
    "const float table[4] = {1.5f, 2.5f, 3.5f, 4.5f};\n"
    "__asm__(\".section .rodata\\n.balign 8\\n.globl pointer\\n.hidden pointer\\npointer: .quad table + "
    "4\\n.text\\n\");\n"
    "__attribute__((noinline)) static float twice(float x) { return x * 2.25f; }\n"
    "void k0(void *const *buf, const int64_t *param, int64_t begin, int64_t end) {\n"
    "  float *o = buf[0];\n"
    "  for (int64_t i = begin; i < end; i++) o[i] = twice(table[(i + param[0]) & 3]);\n"
    "}\n"
    "void k1(void *const *buf, const int64_t *param, int64_t begin, int64_t end) {\n"
    "  (void)param; for (int64_t i = begin; i < end; i++) ((float *)buf[0])[i] = i + pointer[0];\n"
    "}\n";

/* Compiles `source` into the arena; false: there is no such compiler here. */
static bool compile(struct arena *a, const char *compiler, const char *source, struct blob *out)
{
	char dir[] = "/tmp/hone-elf-XXXXXX", path[64], cmd[256];
	if (!mkdtemp(dir))
		return false;
	snprintf(path, sizeof path, "%s/k.c", dir);
	bool good = file_write(path, source, strlen(source)) >= 0;
	snprintf(cmd, sizeof cmd, "%s -O2 -c -o %s/k.o %s/k.c 2>/dev/null", compiler, dir, dir);
	good = good && system(cmd) == 0;
	snprintf(path, sizeof path, "%s/k.o", dir);
	good = good && file_read(a, path, 0, out) >= 0;
	snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
	return system(cmd) == 0 && good;
}

static const char *const native = "cc -fPIC -fno-asynchronous-unwind-tables";

static void check_k0(struct dev_code *c)
{
	float o[8] = {0};
	int64_t param[1] = {1};
	void *buf[2] = {o, NULL};
	int k0 = dev_cpu.entry(c, "k0"), k1 = dev_cpu.entry(c, "k1");
	REQUIRE(k0 >= 0 && k1 >= 0 && k0 != k1);
	dev_cpu.run(c, k0, buf, param, 1, 5);
	CHECK(o[0] == 0 && o[1] == 3.5f * 2.25f && o[2] == 4.5f * 2.25f && o[3] == 1.5f * 2.25f && o[5] == 0);
	dev_cpu.run(c, k1, buf, param, 6, 8);
	CHECK(o[6] == 8.5f && o[7] == 9.5f && o[5] == 0);
	CHECK_FAILS(dev_cpu.entry(c, "twice"), E_NOTFOUND, "twice");
}

TEST(loads_and_runs)
{
	struct arena a = {0};
	struct blob o;
	struct dev_code *c;
	if (!compile(&a, native, kernel, &o))
		SKIP("no C compiler");
	REQUIRE_OK(dev_cpu.load(o.p, o.n, &c));
	check_k0(c);
	dev_cpu.unload(c);
	if (compile(&a, "cc -fPIC", kernel, &o)) { /* unwind tables are not needed */
		REQUIRE_OK(dev_cpu.load(o.p, o.n, &c));
		check_k0(c);
		dev_cpu.unload(c);
	}
	dev_cpu.unload(NULL);
	arena_free(&a);
}

TEST(code_cannot_be_written)
{
	struct arena a = {0};
	struct blob o;
	struct dev_code *c;
	if (!compile(&a, native, kernel, &o))
		SKIP("no C compiler");
	REQUIRE_OK(dev_cpu.load(o.p, o.n, &c));
	char line[512];
	int seen = 0;
	FILE *f = fopen("/proc/self/maps", "r");
	REQUIRE(f != NULL);
	while (fgets(line, sizeof line, f))
		if (strstr(line, "hone-code")) {
			CHECK(strstr(line, " r-xp ") != NULL);
			seen++;
		}
	fclose(f);
	CHECK(seen == 1);
	dev_cpu.unload(c);
	arena_free(&a);
}

TEST(refuses_what_is_not_self_contained)
{
	struct arena a = {0};
	struct blob o;
	struct dev_code *c;
	if (!compile(&a, native, "float sinf(float); float k0(float x) { return sinf(x) + 1; }", &o))
		SKIP("no C compiler");
	CHECK_FAILS(dev_cpu.load(o.p, o.n, &c), E_UNSUPPORTED, "sinf");
	if (compile(&a, native, "static int n[9]; int *k0(void) { return n; }", &o))
		CHECK_FAILS(dev_cpu.load(o.p, o.n, &c), E_UNSUPPORTED, "writable");
	if (compile(&a, native, "static int k0(void) { return 1; } const int x = 4;", &o))
		CHECK_FAILS(dev_cpu.load(o.p, o.n, &c), E_CORRUPT, "no function");
	CHECK_FAILS(dev_cpu.load("", 0, &c), E_CORRUPT, "too few");
	arena_free(&a);
}

/* Links the object, and loads it if that works; damaged code is never run. */
static void try(const uint8_t *p, size_t n, int machine)
{
	static uint8_t image[ELF_MAX_BYTES];
	struct elf e;
	uint8_t *exact = malloc(n ? n : 1); /* so that a sanitizer sees every read past the end */
	memcpy(exact, p, n);
	int rc = elf_read(&e, exact, n, machine);
	if (rc >= 0) {
		CHECK(e.image_bytes <= ELF_MAX_BYTES);
		rc = elf_link(&e, 0x7f0000000000, image);
	}
	CHECK(rc == E_OK || rc == E_CORRUPT || rc == E_UNSUPPORTED);
	free(exact);
}

static void damage(const struct blob *o, int machine)
{
	uint8_t *p = malloc(o->n);
	struct rng r;
	rng_seed(&r, 11);
	for (size_t n = 0; n < o->n; n++)
		try(o->p, n, machine);
	for (size_t i = 0; i < o->n; i++) {
		memcpy(p, o->p, o->n);
		p[i] ^= (uint8_t)(1u << rng_below(&r, 8));
		try(p, o->n, machine);
		p[i] = (uint8_t)rng_u64(&r);
		for (uint32_t k = rng_below(&r, 4); k; k--)
			p[rng_below(&r, (uint32_t)o->n)] = (uint8_t)rng_u64(&r);
		try(p, o->n, machine);
	}
	free(p);
}

TEST(damaged_objects)
{
	struct arena a = {0};
	struct blob o;
	if (!compile(&a, native, kernel, &o))
		SKIP("no C compiler");
	damage(&o, EM_X86_64);
	damage(&o, EM_AARCH64);
	arena_free(&a);
}

/* Makes an AArch64 object by hand: adrp, add and a load that refer to a constant 0x18 into the second
 * page. */
static size_t arm_object(uint8_t *out)
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

TEST(arm_relocations)
{
	static uint8_t o[2048], image[8192];
	struct elf e;
	size_t n = arm_object(o);
	REQUIRE_OK(elf_read(&e, o, n, EM_AARCH64));
	CHECK(e.nentries == 1 && e.image_bytes == 4096 + 32 && e.entry[0].at == 0);
	REQUIRE_OK(elf_link(&e, 0x400000, image));
	uint32_t w[4];
	memcpy(w, image, sizeof w);
	CHECK(w[0] == 0xB0000000);                /* adrp x0, +1 page */
	CHECK(w[1] == (0x91000000 | 0x18 << 10)); /* add x0, x0, #0x18 */
	CHECK(w[2] == (0xBD400000 | 6 << 10));    /* ldr s0, [x0, #0x18] */
	CHECK(w[3] == 0xD65F03C0);
	struct blob b = {.p = o, .n = n};
	damage(&b, EM_AARCH64);
	CHECK_FAILS(elf_read(&e, o, n, EM_X86_64), E_UNSUPPORTED, "machine");
}

TEST(found_by_name)
{
	CHECK(dev_find("cpu") == &dev_cpu);
	CHECK(dev_find("abacus") == NULL && strstr(err_text(), "abacus") && strstr(err_text(), "cpu"));
	struct target t;
	CHECK(dev_cpu.probe(&t) == 1 && t.lanes > 0);
	CHECK(dev_cpu.clock() == &clock_real);
}

TEST_MAIN
