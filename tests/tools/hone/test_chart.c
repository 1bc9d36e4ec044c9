/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test.h"
#include "tools/hone/chart.h"

/* Numbers in the picture are finite, and every kernel with flops has a point. */
TEST(roofline_shows_every_kernel_with_flops)
{
	struct target t = {.fma_gflops = 150, .bw_gbs = {400, 200, 0, 10}};
	const struct chart_kernel k[] = {
	    {"a", "conv", 2e6, 1e6, 1e8, 1e6},
	    {"b", "copy", 0, 1e3, 0, 1e5},
	    {"c", "huge", 1, 1e-3, 1e12, 1},
	    {"d", "unknown", 0, 0, 1e3, 1e3},
	};
	struct buf out = {0};
	chart_roofline(&t, 4, k, 4, &out);
	CHECK(test_count(buf_str(&out), "<circle") == 2);
	CHECK(!strstr(buf_str(&out), "nan") && !strstr(buf_str(&out), "inf"));
	buf_clear(&out);
	t = (struct target){0}; /* no peaks known */
	chart_roofline(&t, 1, k, 4, &out);
	CHECK(test_count(buf_str(&out), "<circle") == 2 && !strstr(buf_str(&out), "nan"));
	buf_free(&out);
}

TEST(bars_escape_names)
{
	const struct chart_kernel k[] = {{"<script>alert('x')&\"\n", "a<b", 10, 20, 0, 0},
					 {"", "", 0, 0, 0, 0}};
	struct buf out = {0};
	chart_bars(k, 2, &out);
	CHECK(!strstr(buf_str(&out), "<script") &&
	      strstr(buf_str(&out), "&#60;script&#62;alert(&#39;x&#39;)&#38;"));
	CHECK(test_count(buf_str(&out), "<rect") == 4 && !strstr(buf_str(&out), "nan"));
	buf_free(&out);
}

TEST(history_of_one_instant)
{
	struct history h = {0};
	struct buf out = {0};
	history_add(&h, (struct history_point){0, 0, 0});
	history_add(&h, (struct history_point){0, 1, 0});
	chart_history(&h, &out);
	CHECK(strstr(buf_str(&out), "</svg>") && !strstr(buf_str(&out), "nan"));
	buf_free(&out);
}

/* Shares below the scale are drawn at its bottom; times beyond the scale widen it. */
TEST(curves_stay_in_the_picture)
{
	const double x[] = {0.5, 2, 600}, y[] = {0, 0.95, 1.2};
	const struct chart_line l[] = {
	    {"a<b", 0, 3, x, y}, {NULL, CHART_KINDS - 1, 1, x, y}, {"none", 1, 0, x, y}};
	struct buf out = {0};
	chart_file_begin(CHART_CURVES_HEIGHT, &out);
	chart_curves("t&t", 0, l, 3, &out);
	chart_file_end(&out);
	CHECK(strstr(buf_str(&out), "a&#60;b") && strstr(buf_str(&out), "t&#38;t"));
	CHECK(!strstr(buf_str(&out), "nan") && !strstr(buf_str(&out), "inf"));
	const char *d = strstr(buf_str(&out), "d=\"M70.0");
	CHECK(strstr(buf_str(&out), "class=\"k0\" d=\"M70.0 376.0L"));
	CHECK(d && strstr(d, "L840.0 32.0"));
	buf_free(&out);
}

TEST_MAIN
