/* SPDX-License-Identifier: Apache-2.0 */
/* Boards by the files in configs/boards, and files that are wrong. */
#include "platform/base/clock.h"
#include "platform/base/rng.h"
#include "platform/machine/board.h"
#include "tests/lib/sysroot.h"

#include <dirent.h>

#define COMPATIBLE "/sys/firmware/devicetree/base/compatible"
#define BOARDS "configs/boards"

/* The names in the device tree, each of which ends with NUL: here, with a blank. KiB of the caches of the
 * fast cores. */
static const struct known {
	const char *compatible, *machine, *file, *name;
	int l1, l2, l3;
	const char *core, *schedule, *devices;
} known[] = {
    {"raspberrypi,2-model-b brcm,bcm2836", "armv7l", "rpi2", "Raspberry Pi 2", 32, 512, 0, "cortex-a7", "",
     ""},
    {"raspberrypi,model-zero-2-w brcm,bcm2837", "aarch64", "rpi-zero2w", "Raspberry Pi Zero 2 W", 32, 512, 0,
     "cortex-a53", "", ""},
    {"raspberrypi,3-model-b-plus brcm,bcm2837", "aarch64", "rpi3", "Raspberry Pi 3", 32, 512, 0, "cortex-a53",
     "", ""},
    {"raspberrypi,4-model-b brcm,bcm2711", "aarch64", "rpi4", "Raspberry Pi 4", 32, 1024, 0, "cortex-a72", "",
     ""},
    {"raspberrypi,5-model-b brcm,bcm2712", "aarch64", "rpi5", "Raspberry Pi 5", 64, 512, 2048, "cortex-a76",
     "neoverse-n1", ""},
    {"nvidia,p3450-0000 nvidia,tegra210", "aarch64", "jetson-nano", "Jetson Nano", 32, 2048, 0, "cortex-a57",
     "", ""},
    {"nvidia,p2771-0000 nvidia,tegra186", "aarch64", "jetson-tx2", "Jetson TX2", 32, 2048, 0, "cortex-a57",
     "", ""},
    {"nvidia,p2972-0000 nvidia,tegra194", "aarch64", "jetson-xavier", "Jetson AGX Xavier", 64, 2048, 4096,
     "carmel", "neoverse-n1", "cuda:0"},
    {"nvidia,p3509-0000+p3668-0000 nvidia,tegra194", "aarch64", "jetson-xavier-nx", "Jetson Xavier NX", 64,
     2048, 4096, "carmel", "neoverse-n1", "cuda:0"},
    {"nvidia,p3737-0000+p3701-0000 nvidia,p3701-0000 nvidia,tegra234", "aarch64", "jetson-orin",
     "Jetson AGX Orin", 64, 256, 2048, "cortex-a78", "neoverse-n1", "cuda:0"},
    {"nvidia,p3768-0000+p3767-0005 nvidia,p3767-0005 nvidia,tegra234", "aarch64", "jetson-orin-nano",
     "Jetson Orin Nano", 64, 256, 2048, "cortex-a78", "neoverse-n1", "cuda:0"},
    {"pine64,rockpro64-v2.1 pine64,rockpro64 rockchip,rk3399", "aarch64", "rk3399", "Rockchip RK3399", 32,
     1024, 0, "cortex-a72", "", ""},
    {"radxa,rock-5b rockchip,rk3588", "aarch64", "rk3588", "Rockchip RK3588", 64, 512, 3072, "cortex-a76",
     "neoverse-n1", ""},
    {"vendor,board vendor,soc", "aarch64", "generic-arm64", "64-bit Arm board", 0, 0, 0, "cortex-a78",
     "neoverse-n1", ""},
    {"vendor,board", "armv7l", "generic-armhf", "32-bit Arm board", 0, 0, 0, "cortex-a7", "", ""},
    {NULL, "x86_64", "x86", "x86-64 machine", 0, 0, 0, "znver3", "", ""},
};
enum { KNOWN = sizeof known / sizeof *known };

static void put_tree(const struct sysroot *root, const char *names)
{
	char text[512];
	size_t n = strlen(names) + 1;
	memcpy(text, names, n);
	for (size_t i = 0; i < n; i++)
		text[i] = text[i] == ' ' ? 0 : text[i];
	sysroot_set(root, COMPATIBLE, "%s", "");
	FILE *f = fopen(sysroot_path(root, COMPATIBLE), "w");
	CHECK(f && fwrite(text, 1, n, f) == n && fclose(f) == 0);
}

TEST(each_board)
{
	for (int i = 0; i < KNOWN; i++) {
		struct sysroot root;
		struct board_file b;
		struct target t = {.isa = "armv8-a", .l1_bytes = 1, .l2_bytes = 2, .l3_bytes = 3};
		const struct known *k = &known[i];
		strcpy(t.cpu, k->core);
		sysroot_begin(&root);
		if (k->compatible)
			put_tree(&root, k->compatible);
		CHECK_OK(board_find(BOARDS, root.root, k->machine, &b));
		if (strcmp(b.file, k->file) != 0 || strcmp(b.name, k->name) != 0)
			printf("%s: found %s, %s\n", k->file, b.file, b.name);
		CHECK(!strcmp(b.file, k->file) && !strcmp(b.name, k->name));
		CHECK(board_fill(&b, root.root, &t) == (k->l1 != 0));
		CHECK(t.l1_bytes == (k->l1 ? k->l1 * 1024 : 1) && t.l2_bytes == (k->l1 ? k->l2 * 1024 : 2) &&
		      t.l3_bytes == (k->l1 ? k->l3 * 1024 : 3));
		CHECK(!strcmp(t.schedule, k->schedule) && !strcmp(b.devices, k->devices));
		sysroot_set(&root, "/sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
		CHECK(!board_fill(&b, root.root, &t)); /* the kernel knows better */
		sysroot_end(&root);
	}
}

/* Every file is of one of the boards above, so that each is tested. */
TEST(each_file)
{
	DIR *d = opendir(BOARDS);
	struct dirent *e;
	int n = 0;
	REQUIRE(d);
	while ((e = readdir(d)))
		n += strstr(e->d_name, ".conf") != NULL;
	closedir(d);
	CHECK(n == KNOWN);
}

TEST(unknown_machine)
{
	struct sysroot root;
	struct board_file b;
	sysroot_begin(&root);
	CHECK_FAILS(board_find(BOARDS, root.root, "riscv64", &b), E_NOTFOUND, "no file in");
	CHECK_FAILS(board_read(BOARDS, "nowhere", &b), E_CORRUPT, "nowhere.conf: cannot be read");
	CHECK_FAILS(board_find("/nowhere", root.root, "aarch64", &b), E_NOTFOUND, "no folder of boards");
	sysroot_end(&root);
}

TEST(wrong_files)
{
	static const struct {
		const char *text, *why;
	} wrong[] = {{"machine = m\ncolour = red\n", ":2: unknown key"},
		     {"name\n", ":1: a line needs a key"},
		     {"[caches]\nl1 = 32K\n", ":2: a cache needs its size"},
		     {"[caches]\nl1 = -3\n", ":2: a cache needs its size"},
		     {"[caches]\nl9 = 3\n", ":2: unknown key"},
		     {"[clocks]\n", ":1: unknown section"},
		     {"[\n", ":1: a section needs brackets"},
		     {"like = one\n", "leads to no end"},
		     {"like = ../one\n", "leads to no end"},
		     {"like = two\n", "two.conf: cannot be read"},
		     {"schedule = cortex-x99\n", ":1: schedule needs a core"},
		     {"devices = gpu\n", ":1: devices needs names"},
		     {"devices = cuda:0 opencl\n", ":1: devices needs names"},
		     {"[limits]\nbox = soon\n", ":2: box needs a time"},
		     {"[limits]\nbox = 2h\n", ":2: box needs a time"},
		     {"[limits]\nmemory = 1M\n", ":2: memory needs a size"},
		     {"[limits]\nl1 = 3\n", ":2: unknown key; known are box"},
		     {"[cluster]\n", ":1: a cluster needs the name"},
		     {"[cluster a b]\n", ":1: a cluster needs the name"},
		     {"[cluster a]\ncpus = 3-1\n", ":2: cpus needs numbers"},
		     {"[cluster a]\nname = x\n", ":2: unknown key; known are cpus"},
		     {"[limits x]\n", ":1: unknown section"},
		     {"[]\n", ":1: a section needs brackets"}};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct sysroot root;
		struct board_file b;
		sysroot_begin(&root);
		sysroot_set(&root, "/b/one.conf", "%s", wrong[i].text);
		int rc = board_find(sysroot_path(&root, "/b"), root.root, "m", &b);
		if (rc >= 0 || !strstr(err_text(), wrong[i].why))
			printf("%s: %s\n", wrong[i].text, rc < 0 ? err_text() : "good");
		CHECK(rc < 0 && strstr(err_text(), wrong[i].why));
		sysroot_end(&root);
	}
}

/* What the file of a board says of each of its clusters, with what it inherits. */
TEST(clusters_of_a_board)
{
	static const struct {
		const char *compatible, *core, *cluster, *cpus, *schedule;
		int l1, l2, l3;
	} of[] = {{"rockchip,rk3399", "cortex-a53", "", "0-3", "", 32, 512, 0},
		  {"rockchip,rk3399", "cortex-a72", "", "4-5", "", 32, 1024, 0},
		  {"rockchip,rk3588", "cortex-a55", "", "0-3", "", 32, 128, 3072},
		  {"rockchip,rk3588", "cortex-a76", "", "4-7", "neoverse-n1", 64, 512, 3072},
		  {"nvidia,tegra186", "generic", "id-4e-003", "1,2", "", 64, 2048, 0},
		  {"rockchip,rk3588", "generic", "", NULL, "", 64, 512, 3072}};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct sysroot root;
		struct board_file b;
		struct target t = {.isa = "armv8-a"};
		cpu_set_t want;
		sysroot_begin(&root);
		put_tree(&root, of[i].compatible);
		REQUIRE_OK(board_find(BOARDS, root.root, "aarch64", &b));
		strcpy(t.cpu, of[i].core);
		strcpy(t.cluster, of[i].cluster);
		const struct board_cluster *c = board_cluster_of(&b, &t);
		CHECK(!c == !of[i].cpus);
		CHECK(!c || (topo_list(of[i].cpus, &want) && CPU_EQUAL(&want, &c->cpus)));
		CHECK(board_fill(&b, root.root, &t) && !strcmp(t.schedule, of[i].schedule));
		CHECK(t.l1_bytes >> 10 == of[i].l1 && t.l2_bytes >> 10 == of[i].l2 &&
		      t.l3_bytes >> 10 == of[i].l3);
		sysroot_end(&root);
	}
}

/* Random files that are like each other: the first in the chain that says a key counts, of each key. */
TEST(what_is_inherited)
{
	struct rng r;
	rng_seed(&r, 4);
	for (int round = 0; round < 200; round++) {
		struct sysroot root;
		struct board_file b;
		int first[4] = {0, 0, 0, 0}, n = 1 + (int)rng_below(&r, 7);
		sysroot_begin(&root);
		for (int i = 0; i < n; i++) {
			struct buf text = {0};
			char path[32];
			if (!i)
				buf_puts(&text, "machine = m\n");
			if (i + 1 < n)
				buf_printf(&text, "like = b%d\n", i + 1);
			int say = (int)rng_below(&r, 16), value = 100 + i;
			for (int k = 0; k < 4; k++) {
				static const char *const lines[] = {
				    "[caches]\nl1 = %d\n", "[cluster cortex-a53]\nl2 = %d\n",
				    "[limits]\nbox = %ds\n", "[cluster other]\ncpus = %d\n"};
				if (!(say >> k & 1))
					continue;
				first[k] = first[k] ? first[k] : value;
				buf_printf(&text,
					   k == 0   ? lines[0]
					   : k == 1 ? lines[1]
					   : k == 2 ? lines[2]
						    : lines[3],
					   value);
			}
			snprintf(path, sizeof path, "/b/b%d.conf", i);
			sysroot_set(&root, path, "%s", buf_str(&text));
			buf_free(&text);
		}
		REQUIRE_OK(board_find(sysroot_path(&root, "/b"), root.root, "m", &b));
		struct target own = {.cpu = "cortex-a53"}, other = {.cluster = "other"};
		const struct board_cluster *x = board_cluster_of(&b, &own), *y = board_cluster_of(&b, &other);
		CHECK(b.l1_bytes == first[0] * 1024 && b.box_ns == first[2] * NS_PER_S);
		CHECK(!x == !first[1] && (!x || x->l2_bytes == first[1] * 1024));
		CHECK(!y == !first[3] && (!y || (CPU_COUNT(&y->cpus) == 1 && CPU_ISSET(first[3], &y->cpus))));
		sysroot_end(&root);
	}
}

/* Files of any bytes are refused or read, and never more. */
TEST(random_text)
{
	static const char *const words[] = {"[caches]",   "[cluster a]",
					    "[limits]",   "[build]",
					    "l1",         "=",
					    "box",        "cpus",
					    "0-3",        "32",
					    "\n",         "\n",
					    " ",          "like",
					    "one",        ";",
					    "machine",    "m",
					    "\xff",       "name",
					    "20s",        "[",
					    "]",          "schedule",
					    "cortex-a53", "99999999999999999999"};
	struct rng r;
	rng_seed(&r, 5);
	for (int round = 0; round < 300; round++) {
		struct sysroot root;
		struct board_file b;
		struct buf text = {0}, mistakes = {0};
		sysroot_begin(&root);
		for (int i = (int)rng_below(&r, 60); i > 0; i--)
			buf_puts(&text, words[rng_below(&r, sizeof words / sizeof *words)]);
		sysroot_set(&root, "/b/one.conf", "%s", buf_str(&text));
		int rc = board_find(sysroot_path(&root, "/b"), root.root, "m", &b);
		int bad = board_check(sysroot_path(&root, "/b"), &mistakes);
		CHECK(rc == E_OK || rc == E_NOTFOUND || rc == E_CORRUPT);
		CHECK((rc == E_CORRUPT) == (bad == 1) && (mistakes.n > 0) == (bad == 1));
		buf_free(&text);
		buf_free(&mistakes);
		sysroot_end(&root);
	}
}

/* All mistakes are found, not those of this board alone. */
TEST(every_file_is_checked)
{
	struct sysroot root;
	struct buf mistakes = {0};
	CHECK(board_check(BOARDS, &mistakes) == 0 && !mistakes.n);
	sysroot_begin(&root);
	sysroot_set(&root, "/b/a.conf", "like = b\n");
	sysroot_set(&root, "/b/b.conf", "like = a\n");
	sysroot_set(&root, "/b/c.conf", "[limits]\nbox = soon\n");
	sysroot_set(&root, "/b/d.conf", "machine = m\n");
	CHECK(board_check(sysroot_path(&root, "/b"), &mistakes) == 3);
	CHECK(strstr(buf_str(&mistakes), "a.conf: what it is like leads to no end") &&
	      strstr(buf_str(&mistakes), "c.conf:2: box needs"));
	buf_free(&mistakes);
	sysroot_end(&root);
}

/* A file that is wrong spoils no other. */
TEST(a_wrong_file_beside_the_boards_own)
{
	struct sysroot root;
	struct board_file b;
	sysroot_begin(&root);
	sysroot_set(&root, "/b/a.conf", "like = nothing\n");
	sysroot_set(&root, "/b/own.conf", "name = Own\nmachine = m\n[caches]\nl1 = 48\n");
	sysroot_set(&root, "/b/z.conf", "colour = red\n");
	CHECK_OK(board_find(sysroot_path(&root, "/b"), root.root, "m", &b));
	CHECK(strcmp(b.name, "Own") == 0);
	struct target t = {.l1_bytes = 1, .l2_bytes = 524288};
	CHECK(board_fill(&b, root.root, &t) && t.l1_bytes == 48 << 10 && t.l2_bytes == 524288);
	CHECK_FAILS(board_find(sysroot_path(&root, "/b"), root.root, "other", &b), E_CORRUPT, "/b/");
	sysroot_end(&root);
}

TEST_MAIN
