/* SPDX-License-Identifier: Apache-2.0 */
/* How mounts treat written data: by prepared tables of mounts, and by the machine's own. */
#include "platform/machine/mount.h"
#include "platform/base/buf.h"
#include "platform/base/file.h"
#include "tests/lib/test.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const char pi_overlay[] =
    "22 1 179:2 / / rw,noatime - overlay overlay "
    "rw,lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work\n"
    "23 22 0:20 / /upper rw - tmpfs tmpfs rw,size=1k\n"
    "24 22 0:5 / /dev rw,nosuid - devtmpfs udev rw\n"
    "25 22 179:3 / /data rw,noatime shared:1 - ext4 /dev/mmcblk0p3 rw\n"
    "26 25 179:4 / /data/with\\040space rw - tmpfs none rw\n"
    "27 22 179:5 / /ro ro,relatime - ext4 /dev/mmcblk0p5 rw\n"
    "28 22 179:6 / /worn rw,relatime - ext4 /dev/mmcblk0p6 ro,errors=remount-ro\n";

TEST(mount_tables)
{
	CHECK(mount_in(pi_overlay, "/var/lib/hone") == MOUNT_MEMORY);
	CHECK(mount_in(pi_overlay, "/data/hone") == MOUNT_KEEPS);
	CHECK(mount_in(pi_overlay, "/database") == MOUNT_MEMORY); /* below /, not /data */
	CHECK(mount_in(pi_overlay, "/data/with space/x") == MOUNT_MEMORY);
	CHECK(mount_in(pi_overlay, "/ro/x") == MOUNT_READ_ONLY);
	CHECK(mount_in(pi_overlay, "/worn/x") == MOUNT_READ_ONLY);
	static const char away[] =
	    "22 1 0:9 / / rw - overlay overlay rw,lowerdir=/a,upperdir=/b/c,workdir=/w\n";
	CHECK(mount_in(away, "/x") == MOUNT_OVERLAY);
	static const char yocto[] =
	    "22 1 8:1 / / ro - ext4 /dev/root ro\n"
	    "23 22 8:2 / /data rw - ext4 /dev/sda2 rw\n"
	    "24 22 0:9 / /var rw - overlay o rw,lowerdir=/var,upperdir=/data/var,workdir=/w\n";
	CHECK(mount_in(yocto, "/var/lib/hone") == MOUNT_KEEPS && mount_in(yocto, "/etc") == MOUNT_READ_ONLY);
	static const char *const odd[] = {"",
					  "\n\n",
					  "22 1\n",
					  " - overlay\n",
					  "a b c d / rw - \n",
					  "22 1 0:9 / / rw - overlay overlay rw\n"};
	for (int i = 0; i < 6; i++)
		CHECK(mount_in(odd[i], "/x") == (i < 5 ? MOUNT_KEEPS : MOUNT_READ_ONLY));
	for (int k = MOUNT_KEEPS; k <= MOUNT_READ_ONLY; k++)
		CHECK(!*mount_words((enum mount_kind)k) == (k == MOUNT_KEEPS));
}

/* Containers have overlays of a hundred layers, whose line is as long as the system's page or longer. */
TEST(long_lines)
{
	for (int layers = 10; layers <= 300; layers += 10) {
		struct buf b = {0};
		buf_printf(&b, "21 1 8:1 / /data rw - ext4 /dev/sda1 rw\n"
			       "22 1 0:3 / / rw - overlay overlay rw,lowerdir=");
		for (int i = 0; i < layers; i++)
			buf_printf(&b,
				   "%s/var/lib/containers/storage/overlay/a-long-name-of-a-snapshot/%d/diff",
				   i ? ":" : "", i);
		buf_printf(&b,
			   ",upperdir=/data/up,workdir=/data/work\n23 22 0:4 / /mem rw - tmpfs none rw\n");
		CHECK(mount_in(buf_str(&b), "/root") == MOUNT_KEEPS);
		CHECK(mount_in(buf_str(&b), "/mem/x") == MOUNT_MEMORY);
		buf_free(&b);
	}
}

/* Only a whole option is the upper folder, and only where overlays have it. */
TEST(options_that_look_alike)
{
	CHECK(mount_in("22 1 0:3 / / rw - overlay o rw,lowerdir=/a,notupperdir=/b\n", "/x") ==
	      MOUNT_READ_ONLY);
	CHECK(mount_in("22 1 0:3 / / rw - overlay o,upperdir=/b rw,lowerdir=/a\n", "/x") == MOUNT_READ_ONLY);
	CHECK(mount_in("22 1 0:3 / / rw - overlay o rw\n23 22 0:4 / /m rw - tmpfs o rw,upperdir=/b\n",
		       "/x") == MOUNT_READ_ONLY);
	CHECK(mount_in("22 1 0:3 / / rw - overlay o upperdir=/m/a,rw\n23 22 0:4 / /m rw - tmpfs o rw\n",
		       "/x") == MOUNT_MEMORY);
	CHECK(mount_in("22 1 0:3 / / rw - overlay o rw,roof\n", "/x") == MOUNT_READ_ONLY);
	CHECK(mount_in("22 1 0:3 / / rw,roof - ext4 /dev/sda1 rw,roof\n", "/x") == MOUNT_KEEPS);
	CHECK(mount_in("22 1 0:3 / / rw - ext4 /dev/sda1 ro", "/x") == MOUNT_READ_ONLY);
	CHECK(mount_in("22 1 0:3 / / rw - ext4 /dev/sda1", "/x") == MOUNT_KEEPS);
}

TEST(mounts_of_this_machine)
{
	CHECK(mount_of("", "/proc/self") != MOUNT_MEMORY);
	if (mount_of("", "/dev/shm") != MOUNT_MEMORY)
		SKIP("/dev/shm is no tmpfs here");
	CHECK(mount_of("", "/dev/shm/not/there/yet") == MOUNT_MEMORY);
}

static char root[64];

static void put(const char *dir, const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", root, dir);
	CHECK_OK(file_mkdirs(path, 0755));
	snprintf(path, sizeof path, "%s/%s/%s", root, dir, name);
	CHECK_OK(file_write(path, text, strlen(text)));
}

TEST(life_of_an_emmc)
{
	struct flash_life l;
	char link[128], cmd[128];
	snprintf(root, sizeof root, "/tmp/hone-mount-XXXXXX");
	REQUIRE(mkdtemp(root) != NULL);
	put("sys/devices/mmcblk0/device", "life_time", "0x02 0x03\n");
	put("sys/devices/mmcblk0/device", "pre_eol_info", "0x01\n");
	put("sys/devices/mmcblk0/mmcblk0p2", "partition", "2\n");
	put("sys/devices/sda", "size", "1\n");
	put("sys/dev/block", "x", "");
	snprintf(link, sizeof link, "%s/sys/dev/block/179:2", root);
	CHECK(symlink("../../devices/mmcblk0/mmcblk0p2", link) == 0);
	snprintf(link, sizeof link, "%s/sys/dev/block/8:0", root);
	CHECK(symlink("../../devices/sda", link) == 0);
	CHECK_OK(flash_life(root, makedev(179, 2), &l));
	CHECK(l.tenths == 3 && !l.near_end && !strcmp(l.device, "mmcblk0"));
	CHECK_FAILS(flash_life(root, makedev(8, 0), &l), E_NOTFOUND, "does not report");
	CHECK_FAILS(flash_life(root, makedev(9, 9), &l), E_NOTFOUND, "9:9");
	put("sys/devices/mmcblk0/device", "pre_eol_info", "0x03\n");
	put("sys/devices/mmcblk0/device", "life_time", "what?\n");
	CHECK_OK(flash_life(root, makedev(179, 2), &l));
	CHECK(l.tenths == 0 && l.near_end);
	snprintf(cmd, sizeof cmd, "rm -rf %s", root);
	CHECK(system(cmd) == 0);
}

TEST_MAIN
