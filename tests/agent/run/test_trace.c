/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/trace.h"
#include "tests/lib/test.h"

TEST(each_thread_keeps_its_own_events)
{
	struct clock c = clock_virtual(100);
	struct trace *t;
	const struct trace_event *e;
	REQUIRE_OK(trace_open(&t, &c, 2, 4));
	CHECK(trace_threads(t) == 2 && trace_clock(t) == &c);
	trace_add(t, 1, (struct trace_event){7, 100, 130});
	trace_add(t, 0, (struct trace_event){3, 110, 120});
	trace_add(t, 1, (struct trace_event){8, 130, 131});
	CHECK(trace_events(t, 0, &e) == 1 && e[0].kernel == 3);
	CHECK(trace_events(t, 1, &e) == 2 && e[0].kernel == 7 && e[1].begin_ns == 130);
	CHECK(trace_lost(t) == 0);
	trace_close(t);
}

TEST(lost_events_are_counted)
{
	struct clock c = clock_virtual(0);
	struct trace *t;
	const struct trace_event *e;
	REQUIRE_OK(trace_open(&t, &c, 1, 2));
	for (int i = 0; i < 5; i++)
		trace_add(t, 0, (struct trace_event){i, i, i + 1});
	CHECK(trace_events(t, 0, &e) == 2 && e[1].kernel == 1);
	CHECK(trace_lost(t) == 3);
	trace_close(t);
}

TEST_MAIN
