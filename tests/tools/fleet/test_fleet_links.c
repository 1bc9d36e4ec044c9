/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines of the fleet server's connections, on a virtual clock. */
#include "platform/base/clock.h"
#include "tests/lib/test.h"
#include "tools/fleet/fleet_links.h"

#include <netinet/in.h>
#include <unistd.h>

static struct clock now;

static int64_t tell(struct clock *c)
{
	return c->virtual_ns;
}

static struct links *links;
static struct link *l;
static int fd[2];

static void open_link(enum link_state state)
{
	const struct sockaddr_in peer = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
	now = (struct clock){.now = tell, .virtual_ns = NS_PER_S};
	REQUIRE_OK(links_open(&now, false, &links));
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
	l = links_add(links, fd[0], (const struct sockaddr *)&peer);
	links_state(links, l, state);
}

static void close_link(void)
{
	links_remove(links, l);
	links_close(links);
	close(fd[0]);
	close(fd[1]);
}

/* A body that comes at the lowest rate that hone-sync can be set to is never cut; one that comes at less than
 * half of that rate is. */
TEST(a_slow_body_that_goes_on_is_taken)
{
	static const struct {
		int rate, seconds;
		bool stays;
	} cases[] = {
	    {1024, 1000, true}, {512, 1000, true}, {400, 1000, false}, {1, 60, false}, {0, 31, false}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int cut = 0;
		open_link(LINK_BODY);
		for (int s = 0; s < cases[i].seconds; s++) {
			now.virtual_ns += NS_PER_S;
			links_came(links, l, (size_t)cases[i].rate);
			cut += links_sweep(links);
		}
		CHECK(cut == !cases[i].stays);
		close_link();
	}
}

/* Bytes of a body extend no other state. */
TEST(bytes_of_a_body_extend_no_other_state)
{
	open_link(LINK_BODY);
	links_came(links, l, 1 << 20);
	links_state(links, l, LINK_TAKE);
	now.virtual_ns += LINKS_TAKE_NS + NS_PER_S;
	CHECK(links_sweep(links) == 1);
	close_link();
}

TEST_MAIN
