/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/quantity.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

#include <stdbool.h>
#include <string.h>

static bool prints(int64_t ns, const char *want)
{
	char text[DURATION_TEXT];
	duration_print(ns, text);
	return !strcmp(text, want);
}

TEST(a_duration_has_the_longest_unit_that_divides_it)
{
	CHECK(prints(0, "0s"));
	CHECK(prints(1, "1us"));
	CHECK(prints(INT64_C(500000000), "500ms"));
	CHECK(prints(INT64_C(5400000000000), "90m"));
	CHECK(prints(INT64_C(86400000000000), "24h"));
	CHECK(prints(INT64_C(3601000000000), "3601s"));
	CHECK(prints(INT64_MAX, "9223372036854776us"));
}

TEST(a_duration_is_read_as_it_was_printed)
{
	static const int64_t units[] = {1000, 1000000, 1000000000, INT64_C(60000000000),
					INT64_C(3600000000000)};
	struct rng r;
	rng_seed(&r, 7);
	for (int i = 0; i < 2000; i++) {
		const int64_t ns = units[i % 5] * rng_below(&r, 9000);
		char text[DURATION_TEXT];
		int64_t back = -1;
		duration_print(ns, text);
		CHECK_OK(duration_parse(text, &back));
		CHECK(back == ns);
	}
}

/* A time in words is rounded to whole units, at least two of them, except for seconds. */
TEST(a_time_in_words)
{
	static const struct {
		double s;
		const char *words;
	} all[] = {{-5, "0 s"},    {0, "0 s"},       {0.6, "1 s"},          {119, "119 s"},
		   {120, "2 min"}, {640, "11 min"},  {7199, "120 min"},     {7200, "2 h"},
		   {16951, "5 h"}, {172799, "48 h"}, {2 * 86400, "2 days"}, {1e7, "116 days"}};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct buf b = {0};
		duration_words(all[i].s, &b);
		CHECK(!strcmp(buf_str(&b), all[i].words));
		buf_free(&b);
	}
}

TEST_MAIN
