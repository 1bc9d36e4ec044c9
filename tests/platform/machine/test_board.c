/* SPDX-License-Identifier: Apache-2.0 */
/* Boards by the files in configs/boards, and files that are wrong. */
#include "platform/machine/board.h"
#include "tests/lib/sysroot.h"

#include <dirent.h>

#define COMPATIBLE "/sys/firmware/devicetree/base/compatible"
#define BOARDS "configs/boards"

/* The names in the device tree, each of which ends with NUL: here, with a blank. KiB of the caches. */
static const struct known {
	const char *compatible, *machine, *file, *name;
	int l1, l2, l3;
} known[] = {
    {"raspberrypi,2-model-b brcm,bcm2836", "armv7l", "rpi2", "Raspberry Pi 2", 32, 512, 0},
    {"raspberrypi,model-zero-2-w brcm,bcm2837", "aarch64", "rpi-zero2w", "Raspberry Pi Zero 2 W", 32, 512, 0},
    {"raspberrypi,3-model-b-plus brcm,bcm2837", "aarch64", "rpi3", "Raspberry Pi 3", 32, 512, 0},
    {"raspberrypi,4-model-b brcm,bcm2711", "aarch64", "rpi4", "Raspberry Pi 4", 32, 1024, 0},
    {"raspberrypi,5-model-b brcm,bcm2712", "aarch64", "rpi5", "Raspberry Pi 5", 64, 512, 2048},
    {"nvidia,p3450-0000 nvidia,tegra210", "aarch64", "jetson-nano", "Jetson Nano", 32, 2048, 0},
    {"nvidia,p2771-0000 nvidia,tegra186", "aarch64", "jetson-tx2", "Jetson TX2", 32, 2048, 0},
    {"nvidia,p2972-0000 nvidia,tegra194", "aarch64", "jetson-xavier", "Jetson AGX Xavier", 64, 2048, 4096},
    {"nvidia,p3509-0000+p3668-0000 nvidia,tegra194", "aarch64", "jetson-xavier-nx", "Jetson Xavier NX", 64,
     2048, 4096},
    {"nvidia,p3737-0000+p3701-0000 nvidia,p3701-0000 nvidia,tegra234", "aarch64", "jetson-orin",
     "Jetson AGX Orin", 64, 256, 2048},
    {"nvidia,p3768-0000+p3767-0005 nvidia,p3767-0005 nvidia,tegra234", "aarch64", "jetson-orin-nano",
     "Jetson Orin Nano", 64, 256, 2048},
    {"pine64,rockpro64-v2.1 pine64,rockpro64 rockchip,rk3399", "aarch64", "rk3399", "Rockchip RK3399", 32,
     1024, 0},
    {"radxa,rock-5b rockchip,rk3588", "aarch64", "rk3588", "Rockchip RK3588", 64, 512, 3072},
    {"vendor,board vendor,soc", "aarch64", "generic-arm64", "64-bit Arm board", 0, 0, 0},
    {"vendor,board", "armv7l", "generic-armhf", "32-bit Arm board", 0, 0, 0},
    {NULL, "x86_64", "x86", "x86-64 machine", 0, 0, 0},
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
		struct target t = {.l1_bytes = 1, .l2_bytes = 2, .l3_bytes = 3};
		const struct known *k = &known[i];
		sysroot_begin(&root);
		if (k->compatible)
			put_tree(&root, k->compatible);
		CHECK_OK(board_find(BOARDS, root.root, k->machine, &b));
		if (strcmp(b.file, k->file) != 0 || strcmp(b.name, k->name) != 0)
			printf("%s: found %s, %s\n", k->file, b.file, b.name);
		CHECK(!strcmp(b.file, k->file) && !strcmp(b.name, k->name));
		CHECK(b.l1_bytes == k->l1 * 1024 && b.l2_bytes == k->l2 * 1024 && b.l3_bytes == k->l3 * 1024);
		CHECK(board_fill(&b, root.root, &t) == (k->l1 != 0));
		CHECK(t.l1_bytes == (k->l1 ? k->l1 * 1024 : 1));
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
		     {"like = two\n", "two.conf: cannot be read"}};
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
