/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-row ARGS=FILE: checks files that owners of boards made with `hone bench --submit`, and prints
 * the rows that they add to configs/boards/PREDICTED.md. A file that is wrong or was changed is refused, and
 * the others are printed all the same. */
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "tools/hone/cmd.h"
#include "tools/hone/submission.h"
#include <stdio.h>

static int row_of(const char *path, struct arena *a, struct buf *rows)
{
	struct blob b;
	struct submission s;
	int rc = file_read(a, path, SUBMISSION_BYTES, &b);
	if (rc >= 0)
		rc = fail_in(submission_read(b.p, b.n, &s), "%s", path);
	if (rc >= 0)
		submission_row(&s, rows);
	return rc;
}

static int run(const struct args *a)
{
	struct arena arena = {0};
	struct buf rows = {0};
	int refused = 0;
	submission_head(&rows);
	for (int i = 0; i < a->npos; i++)
		if (row_of(a->pos[i], &arena, &rows) < 0) {
			log_info("refused: %s", err_text());
			refused++;
		}
	if (refused < a->npos)
		fputs(buf_str(&rows), stdout);
	buf_free(&rows);
	arena_free(&arena);
	return refused != 0;
}

static const struct opt opts[] = {{NULL}};
static const struct cmd bench_row = {.usage = "FILE...",
				     .summary = "print the table rows of what hone bench --submit wrote",
				     .details = "",
				     .min_pos = 1,
				     .max_pos = -1,
				     .opts = opts,
				     .run = run,
				     .name = "bench-row"};

int main(int argc, char **argv)
{
	return cmd_main(&bench_row, argc, argv);
}
