/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/machine/topo.h"
#include "tests/lib/test.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>

TEST(agrees_with_the_host)
{
	struct topo t;
	struct target host, filled = {0};
	REQUIRE_OK(target_host(&host));
	REQUIRE_OK(topo_read(&t, &filled));
	CHECK(t.cores >= 1 && t.threads >= t.cores && t.packages >= 1 && t.numa_nodes >= 1);
	CHECK(t.cores == host.cores || t.cores == 64);
	CHECK(t.fast >= 1 && t.fast <= t.cores && t.core_speed[0] == 100);
	if (filled.l1_bytes)
		CHECK(filled.l1_bytes == host.l1_bytes);
	for (int i = 1; i < t.cores; i++)
		CHECK(t.core_cpu[i] != t.core_cpu[i - 1]);
}

TEST(only_what_this_process_may_use)
{
	cpu_set_t all, one;
	struct topo t;
	struct target host;
	REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
	int last = 0;
	for (int i = 0; i < CPU_SETSIZE; i++)
		last = CPU_ISSET(i, &all) ? i : last;
	CPU_ZERO(&one);
	CPU_SET(last, &one);
	REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
	CHECK_OK(topo_read(&t, NULL));
	CHECK_OK(target_host(&host));
	CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
	CHECK(t.cores == 1 && t.threads == 1 && t.core_cpu[0] == last);
	CHECK(host.cores == 1);
}

enum { CPUS = 6 };

/* Sets a number for each cpu in a tree like sysfs; NULL: none. */
static void stage(const char *dir, const char *leaf, const char *const number[CPUS])
{
	char path[256];
	for (int i = 0; i < CPUS; i++) {
		snprintf(path, sizeof path, "%s/cpu%d", dir, i);
		mkdir(path, 0700);
		snprintf(path, sizeof path, "%s/cpu%d/cpufreq", dir, i);
		mkdir(path, 0700);
		snprintf(path, sizeof path, "%s/cpu%d/%s", dir, i, leaf);
		remove(path);
		FILE *f = number[i] ? fopen(path, "w") : NULL;
		if (f) {
			fprintf(f, "%s\n", number[i]);
			fclose(f);
		}
	}
}

static struct topo ranked(const char *dir)
{
	struct topo t = {.cores = CPUS};
	for (int i = 0; i < CPUS; i++)
		t.core_cpu[i] = i;
	topo_rank(&t, dir);
	return t;
}

static bool order_is(const struct topo *t, const char *cpus)
{
	for (int i = 0; i < CPUS; i++)
		if (t->core_cpu[i] != cpus[i] - '0')
			return false;
	return true;
}

TEST(fast_cores_come_first)
{
	static const char capacity[] = "cpu_capacity", clock[] = "cpufreq/cpuinfo_max_freq";
	static const char *const none[CPUS] = {0};
	char dir[64] = "/tmp/hone-topo-XXXXXX", rm[96];
	REQUIRE(mkdtemp(dir));
	struct topo t = ranked(dir); /* sysfs has no speeds */
	CHECK(order_is(&t, "012345") && t.fast == 6 && t.core_speed[5] == 100);
	/* Four little, two big, as on an RK3399. */
	stage(dir, capacity, (const char *[CPUS]){"485", "485", "485", "485", "1024", "1024"});
	t = ranked(dir);
	CHECK(order_is(&t, "450123") && t.fast == 2 && t.core_speed[1] == 100 && t.core_speed[2] == 47);
	/* Clocks count if some core has no capacity. A core with a slightly higher clock is in the same
	 * class. */
	stage(dir, capacity, (const char *[CPUS]){"485", "485", "485", NULL, "1024", "1024"});
	stage(dir, clock,
	      (const char *[CPUS]){"5200000", "5400000", "5400000", "3900000", "3900000", "3900000"});
	t = ranked(dir);
	CHECK(order_is(&t, "012345") && t.fast == 3 && t.core_speed[3] == 72);
	stage(dir, clock, (const char *[CPUS]){"800000", "900000", "2000000", "900000", "800000", "2000000"});
	t = ranked(dir);
	CHECK(order_is(&t, "251304") && t.fast == 2);
	/* Nonsense counts as an absent value. */
	static const char *const odd[] = {"", "-3", "x", "0", "99999999999999999999"};
	for (int i = 0; i < 5; i++) {
		stage(dir, clock, (const char *[CPUS]){"1", "2", "3", "4", "5", odd[i]});
		t = ranked(dir);
		CHECK(order_is(&t, "012345") && t.fast == 6);
	}
	stage(dir, clock, none);
	snprintf(rm, sizeof rm, "rm -r %s", dir);
	CHECK(system(rm) == 0);
}

TEST_MAIN
