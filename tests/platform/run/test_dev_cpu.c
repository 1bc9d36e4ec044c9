/* SPDX-License-Identifier: Apache-2.0 */
/* Gives the loader objects that the C compiler makes here, whole and then damaged. */
#include "platform/run/dev.h"
#include "platform/run/elf.h"
#include "tests/lib/elf_damage.h"
#include "tests/lib/elf_objects.h"

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

TEST(damaged_objects)
{
	struct arena a = {0};
	struct blob o;
	if (!compile(&a, native, kernel, &o))
		SKIP("no C compiler");
	elf_damage(&o, EM_X86_64);
	elf_damage(&o, EM_AARCH64);
	arena_free(&a);
}

TEST(aarch64_relocations)
{
	static uint8_t o[2048], image[8192];
	struct elf e;
	size_t n = aarch64_object(o);
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
	elf_damage(&b, EM_AARCH64);
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
