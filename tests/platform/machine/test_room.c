/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/machine/room.h"
#include "tests/lib/sysroot.h"

#define KB INT64_C(1024)

TEST(the_least_of_memory_and_limits)
{
	struct sysroot b;
	sysroot_begin(&b);
	CHECK(room_bytes(b.root) == INT64_MAX); /* nothing is known */
	sysroot_set(&b, "/proc/meminfo", "MemTotal: 9000 kB\nMemFree: 100 kB\nMemAvailable:    5000 kB\n");
	CHECK(room_bytes(b.root) == 5000 * KB);
	sysroot_set(&b, "/proc/self/cgroup", "1:cpu:/x\n0::/robot/hone\n");
	CHECK(room_bytes(b.root) == 5000 * KB);
	sysroot_set(&b, "/sys/fs/cgroup/robot/hone/memory.max", "max\n");
	CHECK(room_bytes(b.root) == 5000 * KB);
	sysroot_set(&b, "/sys/fs/cgroup/robot/memory.max", "4096000\n");
	sysroot_set(&b, "/sys/fs/cgroup/robot/memory.current", "1024000\n");
	CHECK(room_bytes(b.root) == 3000 * KB);
	sysroot_set(&b, "/sys/fs/cgroup/robot/hone/memory.max", "1024\n");
	sysroot_set(&b, "/sys/fs/cgroup/robot/hone/memory.current", "2048\n");
	CHECK(room_bytes(b.root) == 0);
	sysroot_set(&b, "/proc/self/cgroup", "0::/\n");
	CHECK(room_bytes(b.root) == 5000 * KB);
	sysroot_set(&b, "/sys/fs/cgroup/memory.max", "2048000\n"); /* a container's own root */
	CHECK(room_bytes(b.root) == 2000 * KB);
	sysroot_end(&b);
}

TEST(this_machine)
{
	CHECK(room_bytes("") > 0);
}

TEST_MAIN
