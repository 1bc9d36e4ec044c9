/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/file.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"
#include "tools/hone/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	CHECK(test_count(buf_str(&out), "<circle") == 4);
	CHECK(!strstr(buf_str(&out), "nan") && !strstr(buf_str(&out), "inf"));
	buf_clear(&out);
	t = (struct target){0}; /* no peaks known */
	chart_roofline(&t, 1, k, 4, &out);
	CHECK(test_count(buf_str(&out), "<circle") == 4 && !strstr(buf_str(&out), "nan"));
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
	CHECK(test_count(buf_str(&out), "<rect") == 8 && !strstr(buf_str(&out), "nan"));
	buf_free(&out);
}

/* The texts of the wide and the phone's picture lie inside of it, and a level's name is not on its line. */
static void check_texts(const char *svg)
{
	int width = 0, pictures = 0;
	for (const char *at = svg; (at = strchr(at, '<')); at++) {
		double x, y;
		char anchor[8] = "", text[64] = "";
		if (sscanf(at, "<svg class=\"%*[a-z]\" viewBox=\"0 0 %d", &width) == 1)
			pictures++;
		if (sscanf(at, "<text class=\"tick\" x=\"%lf\" y=\"%lf\" text-anchor=\"%7[a-z]\">%63[^<]", &x,
			   &y, anchor, text) != 4)
			continue;
		double long_px = 7 * (double)strlen(text);
		double from = x - (!strcmp(anchor, "end")      ? long_px
				   : !strcmp(anchor, "middle") ? long_px / 2
							       : 0);
		CHECK(from >= -7 && from + long_px <= width + 7);
		const char *line = !strcmp(text, "DRAM") ? at : NULL;
		while (line && line > svg && strncmp(line, "<path", 5))
			line--;
		double x1, y1, x2, y2;
		if (!line ||
		    sscanf(line, "<path class=\"roof\" d=\"M%lf %lfL%lf %lf", &x1, &y1, &x2, &y2) != 4)
			continue;
		for (double px = x; px <= x + long_px; px++) /* the text is 12 px high */
			CHECK(y - 10 > y1 + (px - x1) * (y2 - y1) / (x2 - x1) || px > x2);
	}
	CHECK(pictures == 2);
}

TEST(texts_stay_in_both_pictures)
{
	struct rng r;
	rng_seed(&r, 5);
	for (int i = 0; i < 200 && !test_bad; i++) {
		struct chart_kernel k[8];
		struct buf out = {0};
		for (int j = 0; j < 8; j++)
			k[j] = (struct chart_kernel){"node",
						     "conv 64x64",
						     exp(20 * rng_unit(&r)),
						     exp(20 * rng_unit(&r)),
						     exp(25 * rng_unit(&r)),
						     exp(20 * rng_unit(&r))};
		chart_bars(k, 8, &out);
		check_texts(buf_str(&out));
		buf_clear(&out);
		double gbs = exp(3 + 2 * rng_unit(&r));
		struct target t = {.fma_gflops = exp(2 + 5 * rng_unit(&r)),
				   .bw_gbs = {8 * gbs, 4 * gbs, 2 * gbs, gbs}};
		chart_roofline(&t, 1 + (int)rng_below(&r, 4), k, 8, &out);
		check_texts(buf_str(&out));
		buf_free(&out);
	}
}

struct name {
	double left, right, base;
};

/* The names of the slopes of one picture. */
static int names_of(const char *svg, struct name out[4])
{
	int n = 0;
	const char *end = strstr(svg, "</svg>");
	for (const char *at = svg; (at = strstr(at, "<text class=\"tick name\"")) && at < end && n < 4;
	     at++) {
		char name[8];
		CHECK(sscanf(at, "<text class=\"tick name\" x=\"%lf\" y=\"%lf\" text-anchor=\"start\">%7[^<]",
			     &out[n].left, &out[n].base, name) == 3);
		out[n].right = out[n].left + 8 * (double)strlen(name); /* a capital of 12 px is narrower */
		n++;
	}
	return n;
}

/* However close the slopes are, no name covers another one. FOLDER/charts.html shows some of them
 * (CHARTS=FOLDER, tests/sh/page.sh). */
TEST(names_of_slopes_do_not_overlap)
{
	static const double apart[] = {1, 1.03, 1.1, 1.3, 1.6, 2, 4};
	enum { APART = sizeof apart / sizeof *apart };
	const struct chart_kernel k[] = {{"a", "conv", 2e6, 1e6, 1e8, 1e7}};
	const char *folder = getenv("CHARTS");
	struct buf page = {0};
	buf_puts(
	    &page,
	    "<!DOCTYPE html><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><style>");
	chart_style(&page);
	buf_puts(&page, "</style><title>charts</title>");
	for (int i = 0; i < APART * APART * APART; i++) {
		double dram = 3 + i % 11, l3 = dram * apart[i % APART], l2 = l3 * apart[i / APART % APART],
		       l1 = l2 * apart[i / APART / APART];
		struct target t = {.fma_gflops = 20 + 10 * (i % 9),
				   .bw_gbs = {l1, l2, i % 13 ? l3 : 0, dram}};
		struct buf out = {0};
		chart_roofline(&t, 1, k, 1, &out);
		check_texts(buf_str(&out));
		const char *svg = buf_str(&out);
		for (int picture = 0; picture < 2; picture++, svg = strstr(svg, "</svg>") + 1) {
			struct name at[4];
			int n = names_of(svg, at);
			CHECK(n >= 2); /* a slope may end left of the picture */
			for (int a = 0; a < n; a++)
				for (int b = 0; b < a; b++)
					if (at[a].left < at[b].right && at[a].right > at[b].left &&
					    fabs(at[a].base - at[b].base) < 12) {
						printf("picture %d of %g %g %g %g GB/s\n", picture, l1, l2,
						       l3, dram);
						test_bad = 1;
					}
		}
		if (i % 31 == 0 || (i % APART == 2 && i % 3 == 0))
			buf_add(&page, buf_str(&out), out.n);
		buf_free(&out);
	}
	if (folder) {
		char path[512];
		snprintf(path, sizeof path, "%s/charts.html", folder);
		CHECK_OK(file_write(path, buf_str(&page), page.n));
	}
	buf_free(&page);
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
