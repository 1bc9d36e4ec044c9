/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/history.h"
#include "tests/lib/test.h"

TEST(text_and_back)
{
	struct history h = {0}, back;
	struct buf text = {0}, again = {0};
	for (int i = 0; i < 10; i++)
		history_add(&h, (struct history_point){i * 1.5, i, 20 - i});
	history_text(&h, &text);
	REQUIRE_OK(history_parse(text.p, text.n, &back));
	CHECK(back.n == 10 && back.point[9].trials == 9 && back.point[9].total_ms == 11);
	history_text(&back, &again);
	CHECK(!strcmp(buf_str(&text), buf_str(&again)));
	buf_free(&text);
	buf_free(&again);
}

/* However many points come, the history is bounded, in order, spread over the whole time, and ends with the
 * last point. */
TEST(a_long_search_is_thinned)
{
	struct history h = {0};
	for (int i = 0; i < 100000; i++)
		history_add(&h, (struct history_point){i, i, 1000.0 / (i + 1)});
	CHECK(h.n <= HISTORY_MAX && h.n > HISTORY_MAX / 3);
	CHECK(h.point[h.n - 1].at_ms == 99999 && h.point[0].at_ms <= 1000);
	for (int i = 1; i < h.n; i++)
		CHECK(h.point[i].at_ms > h.point[i - 1].at_ms &&
		      h.point[i].at_ms - h.point[i - 1].at_ms < 4000);
}

TEST(hostile_text)
{
	static const char *const bad[] = {
	    "",
	    "hone-history 2\n",
	    "hone-history 1\n1 2",
	    "hone-history 1\n1 2 3 4\n",
	    "hone-history 1\n1 -2 3\n",
	    "hone-history 1\nnan 2 3\n",
	    "hone-history 1\n1 2 inf\n",
	    "hone-history 1\n1 2 nan\n",
	    "hone-history 1\n1e300 2 3\n",
	    "hone-history 1\n1 2 2e12\n",
	    "hone-history 1\n5 2 3\n4 2 3\n",
	    "hone-history 1\n1 99999999999999999999 3\n",
	    ("hone-history 1\n1 2 "
	     "3000000000000000000000000000000000000000000000000000000000000000000000\n"),
	};
	struct history h;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(history_parse(bad[i], strlen(bad[i]), &h), E_CORRUPT, "history");
	struct buf many = {0};
	buf_puts(&many, "hone-history 1\n");
	for (int i = 0; i <= HISTORY_MAX; i++)
		buf_puts(&many, "1 2 3\n");
	CHECK_FAILS(history_parse(many.p, many.n, &h), E_CORRUPT, "more than");
	buf_free(&many);
	CHECK_FAILS(history_parse("hone-history 1\n1 2\0 3\n", 22, &h), E_CORRUPT, "line 2");
}

TEST_MAIN
