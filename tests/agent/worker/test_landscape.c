/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker/landscape.h"
#include "kernels/space/space.h"
#include "platform/base/file.h"
#include "platform/base/rng.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"

#include <dirent.h>
#include <unistd.h>

static const char task_a[] = "task syms=0\noperand A in f32 [4] plain\n", task_b[] = "task syms=0\nsum\n";

static struct landscape_point points[] = {
    {MEAS_OK, 1000, 1010, 10, 8123456, 1, "lane=k:16 tile=x:14,k:2 | block=y:8"},
    {MEAS_SPILL, 0, 0, 0, 9000123, 0, "lane=k:16 tile=x:28,k:4"},
    {MEAS_ABORTED, 5000, 5000, 1, 77, 0, "tile=x:1"},
    {MEAS_OK, 900, 905, 10, 1, 0.9012, "tile=x:2"},
};

static struct landscape make(const char *task)
{
	struct landscape l = {.task = task,
			      .label = "conv 3x3 64-64",
			      .threads = 2,
			      .cold = true,
			      .protocol = "10 rounds",
			      .n = 4,
			      .point = points};
	CHECK_OK(target_baseline("x86-64-v3", &l.target));
	return l;
}

static bool same_point(const struct landscape_point *x, const struct landscape_point *y)
{
	return x->status == y->status && x->min_ns == y->min_ns && x->low_ns == y->low_ns &&
	       x->runs == y->runs && x->build_ns == y->build_ns && x->ratio == y->ratio &&
	       !strcmp(x->cand, y->cand);
}

/* A fastest run counts only up to 3 % below the low time. */
TEST(time_to_rank_by)
{
	struct landscape_point p[] = {
	    {MEAS_OK, 1000, 1020, 5, 1, 0, "a"},
	    {MEAS_OK, 1000, 1500, 5, 1, 0, "b"},
	    {MEAS_OK, INT64_C(1000000000000000), INT64_C(1000000000000000), 5, 1, 0, "c"},
	    {MEAS_SPILL, 0, 0, 0, 1, 0, "d"}};
	struct landscape l = {.n = 4, .point = p};
	CHECK(landscape_ns(&l, 0) == 1020 && landscape_ns(&l, 1) == 1030);
	CHECK(landscape_ns(&l, 2) == p[2].low_ns && landscape_ns(&l, 3) == 0);
}

TEST(text_and_back)
{
	struct arena a = {0};
	struct landscape l = make(task_a), back;
	struct buf text = {0}, again = {0};
	landscape_text(&l, true, &text);
	REQUIRE_OK(landscape_parse(text.p, text.n, &a, &back));
	CHECK(back.n == 4 && back.threads == 2 && back.cold && !strcmp(back.task, task_a));
	CHECK(!strcmp(back.label, l.label) && !strcmp(back.protocol, l.protocol));
	for (int i = 0; i < 4; i++)
		CHECK(same_point(&back.point[i], &points[i]));
	landscape_text(&back, true, &again);
	CHECK(!strcmp(buf_str(&text), buf_str(&again)));
	CHECK(landscape_find(&back, "tile=x:2") == 3 && landscape_find(&back, "tile=x:3") == -1);
	CHECK(landscape_ns(&back, 0) == 1010 && landscape_ns(&back, 3) == 905);
	CHECK(landscape_ns(&back, 1) == 0 && landscape_ns(&back, 2) == 5000);
	buf_free(&text);
	buf_free(&again);
	arena_free(&a);
}

/* The candidate with all parameters at their defaults has an empty text. */
TEST(an_empty_candidate)
{
	struct landscape_point empty = {MEAS_OK, 3, 3, 1, 1, 0, ""};
	struct arena a = {0};
	struct landscape l = make(task_a), back;
	struct buf text = {0};
	l.n = 1;
	l.point = &empty;
	landscape_text(&l, true, &text);
	REQUIRE_OK(landscape_parse(text.p, text.n, &a, &back));
	CHECK(back.n == 1 && same_point(&back.point[0], &empty) && landscape_find(&back, "") == 0);
	buf_free(&text);
	arena_free(&a);
}

/* Of several lines about a candidate, the one that says most wins. */
TEST(lines_about_one_candidate)
{
	static const struct {
		const char *more;
		int64_t min_ns;
		enum meas_status status;
	} cases[] = {
	    {"ok 1100 1110 11 5 0 tile=x:2\n", 1100, MEAS_OK},
	    {"ok 1100 1110 10 5 0 tile=x:2\n", 1100, MEAS_OK},
	    {"ok 1100 1110 9 5 0 tile=x:2\n", 900, MEAS_OK},
	    {"crash 0 0 0 5 0 tile=x:2\n", 900, MEAS_OK},
	    {"aborted 8 8 10 5 0 tile=x:2\n", 900, MEAS_OK},
	    {"ok 1 1 1 1 0 tile=x:2", 900, MEAS_OK}, /* torn */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct arena a = {0};
		struct landscape l = make(task_a), back;
		struct buf text = {0};
		landscape_text(&l, true, &text);
		buf_puts(&text, cases[i].more);
		CHECK_OK(landscape_parse(text.p, text.n, &a, &back));
		CHECK(back.n == 4 && back.point[3].min_ns == cases[i].min_ns &&
		      back.point[3].status == cases[i].status);
		buf_free(&text);
		arena_free(&a);
	}
}

TEST(hostile_points)
{
	static const char *const bad[] = {
	    "fine 1 1 1 1 0 x=1\n",
	    "ok 0 1 1 1 0 x=1\n",
	    "ok 2 1 1 1 0 x=1\n",
	    "ok 1 1 0 1 0 x=1\n",
	    "ok 1 1 1 1 0\n",
	    "ok 1 1 1 1 x=1\n",
	    "ok -1 1 1 1 0 x=1\n",
	    "ok 1 1 1 1 -1 x=1\n",
	    "ok 1 1 1 1 nan x=1\n",
	    "ok 1 1 1 1 0x1p3 x=1\n",
	    "ok 1 1 1 1 1e3 x=1\n",
	    "ok 1 1 1 1 99999999999 x=1\n",
	    "ok 99999999999999999999 1 1 1 0 x=1\n",
	    "ok 1 9999999999999999 1 1 0 x=1\n",
	    "ok 1 1 9999999999 1 0 x=1\n",
	    "spill 1 1 1 1 0 x=1\n",
	    "spill 0 0 0 1 1.5 x=1\n",
	    "ok  1 1 1 1 0 x=1\n",
	    "ok 1 1 1 1 0 x\t=1\n",
	    "ok 1 1 1 1 0 x=\xc3\xa9\n",
	    "\n",
	};
	struct landscape l = make(task_a), back;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct arena a = {0};
		struct buf text = {0};
		landscape_text(&l, true, &text);
		buf_puts(&text, bad[i]);
		CHECK_FAILS(landscape_parse(text.p, text.n, &a, &back), E_CORRUPT, "landscape: line 14");
		buf_free(&text);
		arena_free(&a);
	}
	struct arena a = {0};
	struct buf text = {0};
	landscape_text(&l, true, &text);
	buf_puts(&text, "ok 1 1 1 1 0 ");
	for (int i = 0; i < CAND_MAX; i++)
		buf_puts(&text, "x");
	buf_puts(&text, "\n");
	CHECK_FAILS(landscape_parse(text.p, text.n, &a, &back), E_CORRUPT, "bad candidate");
	buf_add(&text, "\0\n", 2);
	CHECK_FAILS(landscape_parse(text.p, text.n, &a, &back), E_CORRUPT, "NUL byte");
	buf_free(&text);
	arena_free(&a);
}

/* Cutting the text anywhere, or flipping any byte, gives an error or a landscape, but no fault. */
TEST(cut_and_flipped)
{
	struct landscape l = make(task_a), back;
	struct buf text = {0};
	struct rng r;
	rng_seed(&r, 3);
	landscape_text(&l, true, &text);
	const char *points_at = strstr(text.p, "\npoints\n");
	for (size_t n = 0; n < text.n; n++) {
		struct arena a = {0};
		char *copy = malloc(n + 1); /* an exact copy, so that sanitizers find reads past its end */
		memcpy(copy, text.p, n);
		int rc = landscape_parse(copy, n, &a, &back);
		CHECK(rc == (n < (size_t)(points_at - text.p) + 8 ? E_CORRUPT : E_OK));
		memcpy(copy, text.p, n);
		if (n) {
			copy[rng_below(&r, (uint32_t)n)] ^= (char)(1 + rng_below(&r, 255));
			rc = landscape_parse(copy, n, &a, &back);
			CHECK(rc == E_OK || rc == E_CORRUPT);
		}
		free(copy);
		arena_free(&a);
	}
	buf_free(&text);
}

static void add_bytes(const char *dir, const char *bytes)
{
	char path[600];
	struct arena a = {0};
	struct landscape *all;
	CHECK(landscape_folder(dir, &a, &all) == 1);
	DIR *d = opendir(dir);
	for (const struct dirent *e; d && (e = readdir(d));) {
		if (!strstr(e->d_name, ".land"))
			continue;
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		FILE *f = fopen(path, "a");
		CHECK(f && fputs(bytes, f) >= 0);
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	arena_free(&a);
}

TEST(a_folder_grows)
{
	const char *dir = scratch_folder();
	char deep[300];
	struct arena a = {0};
	struct landscape l = make(task_a), *all;
	snprintf(deep, sizeof deep, "%s/of/it", dir);
	CHECK_FAILS(landscape_folder(dir, &a, &all), E_NOTFOUND, "--record");
	CHECK_FAILS(landscape_folder(deep, &a, &all), E_NOTFOUND, deep);
	l.n = 1;
	CHECK_OK(landscape_append(dir, &l));
	add_bytes(dir, "ok 12 13 1"); /* a torn line: the next append cuts it off */
	l.point++;
	l.n = 3;
	CHECK_OK(landscape_append(dir, &l));
	REQUIRE(landscape_folder(dir, &a, &all) == 1);
	CHECK(all->n == 4);
	for (int i = 0; i < 4; i++)
		CHECK(same_point(&all->point[i], &points[i]));
	l.threads = 1;
	CHECK_FAILS(landscape_append(dir, &l), E_USAGE, "name another folder");
	l = make(task_b);
	CHECK_OK(landscape_append(dir, &l));
	REQUIRE(landscape_folder(dir, &a, &all) == 2);
	CHECK(!strcmp(all[0].task, task_a) != !strcmp(all[1].task, task_a));
	l.n = 0; /* only the head */
	CHECK_OK(landscape_append(deep, &l));
	REQUIRE(landscape_folder(deep, &a, &all) == 1);
	CHECK(all->n == 0);
	arena_free(&a);
}

/* Not even a line that looks torn is cut off a file that is no landscape. */
TEST(a_file_of_others_stays)
{
	static const char *const texts[] = {"a note", "# a title\nand no end", "hone-landscape 2"};
	const char *dir = scratch_folder();
	char path[600] = "";
	struct landscape l = make(task_a);
	CHECK_OK(landscape_append(dir, &l));
	DIR *d = opendir(dir);
	for (const struct dirent *e; d && (e = readdir(d));)
		if (strstr(e->d_name, ".land"))
			snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
	if (d)
		closedir(d);
	struct arena a = {0};
	struct blob b;
	REQUIRE_OK(file_read(&a, path, 0, &b));
	for (size_t n = 0; n < 12; n++) { /* a torn first line is replaced */
		CHECK_OK(file_write(path, b.p, n));
		CHECK_OK(landscape_append(dir, &l));
	}
	for (int i = 0; i < 3; i++) {
		CHECK_OK(file_write(path, texts[i], strlen(texts[i])));
		CHECK_FAILS(landscape_append(dir, &l), E_CORRUPT, "this is not a landscape; remove it");
		CHECK(file_read(&a, path, 0, &b) >= 0 && !strcmp(b.p, texts[i]));
	}
	arena_free(&a);
}

TEST(a_folder_with_other_files)
{
	const char *dir = scratch_folder();
	char path[300];
	struct arena a = {0};
	struct landscape *all;
	snprintf(path, sizeof path, "%s/README", dir);
	CHECK_OK(file_write(path, "words\n", 6));
	CHECK_FAILS(landscape_folder(dir, &a, &all), E_NOTFOUND, "no landscapes");
	snprintf(path, sizeof path, "%s/x.land", dir);
	CHECK_OK(file_write(path, "words\n", 6));
	CHECK_FAILS(landscape_folder(dir, &a, &all), E_CORRUPT, path);
	arena_free(&a);
}

TEST(a_measurement_as_a_point)
{
	const struct meas timed = {
	    .status = MEAS_OK, .runs = 9, .min_ns = 90, .median_ns = 100, .spread_ns = 4, .build_ns = 7};
	struct landscape_point p = landscape_point_of("x=1", &timed);
	CHECK(p.min_ns == 90 && p.low_ns == 96 && p.runs == 9 && p.build_ns == 7 && p.ratio == 0);
	const struct meas wrong = {.status = MEAS_WRONG, .min_ns = 3, .build_ns = 8};
	p = landscape_point_of("x=1", &wrong);
	CHECK(p.status == MEAS_WRONG && p.min_ns == 0 && p.runs == 0 && p.build_ns == 8);
	const struct meas odd = {.status = MEAS_ABORTED, .min_ns = 90, .median_ns = 90, .spread_ns = 60};
	p = landscape_point_of("x=1", &odd);
	CHECK(p.min_ns == 90 && p.low_ns == 90 && p.runs == 1);
}

TEST_MAIN
