/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/log.h"
#include "tests/lib/test.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Captures into `out` what the logger writes to stderr at a level. */
static void capture(enum log_level level, char *out, size_t n)
{
	FILE *f = tmpfile();
	if (!f)
		abort();
	fflush(stderr);
	int keep = dup(STDERR_FILENO);
	dup2(fileno(f), STDERR_FILENO);
	log_level_set(level);
	log_info("info %d", 1);
	log_more("more %d", 2);
	log_error("bad %d", 3);
	log_live("live %d", 4);
	log_live("live %d", 5);
	log_live(NULL);
	fflush(stderr);
	dup2(keep, STDERR_FILENO);
	close(keep);
	rewind(f);
	out[fread(out, 1, n - 1, f)] = 0;
	fclose(f);
}

TEST(levels)
{
	char out[256];
	capture(LOG_QUIET, out, sizeof out);
	CHECK(strcmp(out, "hone: error: bad 3\n") == 0);
	capture(LOG_NORMAL, out, sizeof out);
	CHECK(strcmp(out, "info 1\nhone: error: bad 3\n") == 0);
	CHECK(log_level() == LOG_NORMAL);
	capture(LOG_VERBOSE, out, sizeof out);
	CHECK(strcmp(out, "info 1\nmore 2\nhone: error: bad 3\nlive 4\n") == 0);
}

TEST(journal)
{
	char out[256];
	log_journal_set(true);
	capture(LOG_NORMAL, out, sizeof out);
	log_journal_set(false);
	CHECK(strcmp(out, "<6>info 1\n<3>hone: error: bad 3\n") == 0);
}

/* Characters that a terminal obeys become '?'; characters that it shows stay. */
TEST(plain)
{
	static const char *const text[][2] = {
	    {"", ""},
	    {"conv 3x3\t48->64\n", "conv 3x3\t48->64\n"},
	    {"a\033[2Jb\r\b\177", "a?[2Jb???"},
	    {"Gr\303\266\303\237e \342\202\254 \360\237\230\200",
	     "Gr\303\266\303\237e \342\202\254 \360\237\230\200"},
	    {"\233A\302\233B\377\300\200", "?A??B???"},
	    {"cut \342\202", "cut ??"},
	};
	for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
		char got[64];
		snprintf(got, sizeof got, "%s", text[i][0]);
		log_plain(got);
		CHECK(!strcmp(got, text[i][1]));
	}
}

/* Processes that share a stream, as honed and its jobs do. */
TEST(lines_of_many_processes_stay_whole)
{
	enum { PROCESSES = 4, LINES = 500 };
	FILE *f = tmpfile();
	char line[256];
	int n = 0, strange = 0;
	REQUIRE(f);
	fflush(NULL);
	for (int i = 0; i < PROCESSES; i++)
		if (fork() == 0) {
			dup2(fileno(f), STDERR_FILENO);
			fcntl(STDERR_FILENO, F_SETFL, O_APPEND);
			for (int k = 0; k < LINES; k++)
				log_error("%d says something that is long enough to be cut, %d", i, k);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	rewind(f);
	for (; fgets(line, sizeof line, f); n++)
		strange +=
		    strncmp(line, "hone: error: ", 13) || strstr(line + 1, "hone:") || !strstr(line, "cut, ");
	CHECK(n == PROCESSES * LINES && !strange);
	fclose(f);
}

TEST_MAIN
