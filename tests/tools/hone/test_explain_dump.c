/* SPDX-License-Identifier: Apache-2.0 */
/* `hone explain -d` against golden files, which hold the tasks, their spaces and their loop nests together: a
 * change of the rules or of lowering shows in the diff. `make golden` rewrites them. */
#include "tests/lib/kernel_cases.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"
#include "tools/hone/explain_dump.h"

#define FOLDER "tests/tools/hone/golden/"

static int dump_def(const char *text, const char *letters, const char *def, struct buf *out)
{
	static struct task t;
	const struct target board = case_board(8, 16);
	const struct dump d = {.task = &t, .target = &board, .threads = 1, .def = def};
	int rc = task_parse(text, &t);
	if (rc < 0)
		return rc;
	return explain_dump(&d, letters, out);
}

static int dump(const char *text, const char *letters, struct buf *out)
{
	return dump_def(text, letters, NULL, out);
}

static void compare(const char *path, const char *is)
{
	struct arena a = {0};
	struct blob was;
	int line = 1;
	REQUIRE_OK(file_read(&a, path, 0, &was));
	const char *p = was.p;
	while (*p && *p == *is) {
		line += *p == '\n';
		p++, is++;
	}
	if (*p || *is)
		printf("%s:%d is not so any more; where that is meant: make golden\n", path, line);
	CHECK(!*p && !*is);
	arena_free(&a);
}

TEST(stages_are_those_of_the_golden_files)
{
	static const struct {
		const char *name, *text;
	} cases[] = {{"conv", task_conv}, {"matmul", task_matmul}, {"softmax", task_softmax}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char path[128];
		struct buf out = {0};
		snprintf(path, sizeof path, FOLDER "%s.txt", cases[i].name);
		REQUIRE_OK(dump(cases[i].text, "lst", &out));
		const struct blob text = {out.p, strlen(buf_str(&out))};
		if (getenv("GOLDEN"))
			REQUIRE_OK(file_write_parts(path, &text, 1, 0644));
		else
			compare(path, buf_str(&out));
		buf_free(&out);
	}
}

/* "default" is the schedule that tuning timed as such; the one that the rule gives now is one of the rules'. */
TEST(the_default_is_the_one_that_was_timed)
{
	static const char timed[] = "lane=k:4 tile=k:3,x:3 unroll=c:2 order=k,n,y,x,c,r,s par=2 prefetch=1";
	struct buf now = {0}, then = {0};
	char row[300] = "";
	CHECK_OK(dump(task_conv, "s", &now));
	CHECK_OK(dump_def(task_conv, "s", timed, &then));
	const char *p = strstr(buf_str(&now), "\ndefault ");
	REQUIRE(p && sscanf(p, "\ndefault %290[^\n]", row) == 1);
	CHECK(strstr(buf_str(&then), timed) && test_count(buf_str(&then), "\ndefault ") == 1);
	p = strstr(buf_str(&then), "\ndefault ");
	CHECK(p && strstr(p, timed) < strchr(p + 1, '\n'));
	CHECK(test_count(buf_str(&then), timed) == 1);
	CHECK(test_count(buf_str(&then), strstr(row, "lane=")) == 1);
	CHECK(test_count(buf_str(&then), "\n") == test_count(buf_str(&now), "\n"));
	buf_free(&now);
	buf_free(&then);
}

TEST(letters)
{
	struct buf out = {0};
	CHECK_OK(dump(task_matmul, "cm", &out));
	CHECK(strstr(buf_str(&out), "== code: none in the cache") &&
	      strstr(buf_str(&out), "== measurements\nnone"));
	CHECK_FAILS(dump(task_matmul, "tx", &out), E_USAGE, "-d takes letters");
	CHECK_FAILS(dump(task_matmul, "", &out), E_USAGE, "-d takes letters");
	buf_free(&out);
}

TEST_MAIN
