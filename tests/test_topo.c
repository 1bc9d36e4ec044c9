/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/topo.h"
#include "tests/test.h"

#include <sched.h>

TEST(agrees_with_the_host)
{
	struct topo t;
	struct target host, filled = {0};
	REQUIRE_OK(target_host(&host));
	REQUIRE_OK(topo_read(&t, &filled));
	CHECK(t.cores >= 1 && t.threads >= t.cores && t.packages >= 1 && t.numa_nodes >= 1);
	CHECK(t.cores == host.cores || t.cores == 64);
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

TEST_MAIN
