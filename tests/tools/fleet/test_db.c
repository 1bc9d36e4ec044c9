/* SPDX-License-Identifier: Apache-2.0 */
/* The same tests for every kind of database: SQLite in a file and in memory, and PostgreSQL. */
#include "platform/base/clock.h"
#include "tests/lib/postgres.h"
#include "tests/lib/test.h"
#include "tools/fleet/db.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, EACH = 50 };
static char folder[64];

static const char *file_url(void)
{
	static char path[96];
	snprintf(folder, sizeof folder, "/tmp/hone-test-db-XXXXXX");
	if (!mkdtemp(folder))
		abort();
	snprintf(path, sizeof path, "%s/fleet.db", folder);
	return path;
}

__attribute__((destructor)) static void remove_folder(void)
{
	char cmd[96];
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", folder);
	if (folder[0] && system(cmd) != 0)
		fprintf(stderr, "cannot remove %s\n", folder);
}

struct place {
	const char *name, *url;
	bool shared;    /* several connections see the same data */
	bool processes; /* ... also those of several processes */
};

static int places(struct place out[4])
{
	static const char *file;
	int n = 0;
	file = file ? file : file_url();
	out[n++] = (struct place){"file", file, true, true};
	out[n++] = (struct place){"memory", ":memory:", false};
	out[n++] = (struct place){"memory of a name", ":memory:x", true};
	if (postgres_url())
		out[n++] = (struct place){"postgresql", postgres_url(), true, true};
	return n;
}

static int fresh(const char *url, struct db_conn **c)
{
	int rc = db_open(url, c);
	if (rc >= 0)
		rc = db_exec(*c, "DROP TABLE IF EXISTS hone_test", NULL, 0, NULL, NULL);
	if (rc >= 0)
		rc =
		    db_exec(*c,
			    "CREATE TABLE IF NOT EXISTS hone_test (name TEXT PRIMARY KEY, i BIGINT NOT NULL, "
			    "b $blob, t TEXT)",
			    NULL, 0, NULL, NULL);
	return rc;
}

static int put(struct db_conn *c, const char *name, int64_t i)
{
	return db_exec(c, "INSERT INTO hone_test (name, i) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
		       (struct db_value[]){DB_T(name), DB_I(i)}, 2, NULL, NULL);
}

static int one_int(void *ctx, const struct db_value *col, int n)
{
	*(int64_t *)ctx = n == 1 && col[0].type == DB_INT ? col[0].i : -1;
	return E_OK;
}

static int64_t sum(struct db_conn *c)
{
	int64_t v = -1;
	CHECK(db_exec(c, "SELECT CAST(COALESCE(SUM(i), 0) AS BIGINT) FROM hone_test", NULL, 0, one_int, &v) ==
	      1);
	return v;
}

#define EACH_PLACE(p)                                                                                        \
	struct place list_[4];                                                                               \
	int n_ = places(list_);                                                                              \
	for (struct place *p = list_; p < list_ + n_; p++)

struct seen {
	int rows;
	char text[64];
	size_t nblob;
	unsigned char blob[4];
	enum db_type null;
};

static int see(void *ctx, const struct db_value *col, int n)
{
	struct seen *s = ctx;
	CHECK(n == 4 && col[0].type == DB_TEXT && col[1].type == DB_INT);
	CHECK(col[0].p[col[0].n] == 0 && strlen(col[0].p) == col[0].n);
	snprintf(s->text, sizeof s->text, "%s=%lld", col[0].p, (long long)col[1].i);
	s->nblob = col[2].n;
	if (col[2].type == DB_BLOB && col[2].n == sizeof s->blob)
		memcpy(s->blob, col[2].p, col[2].n);
	s->null = col[3].type;
	s->rows++;
	return E_OK;
}

TEST(values_come_back_as_they_were)
{
	EACH_PLACE(p)
	{
		struct db_conn *c;
		struct seen s = {.null = DB_TEXT};
		REQUIRE_OK(fresh(p->url, &c));
		CHECK(db_exec(c, "INSERT INTO hone_test (i, name, b, t) VALUES ($2, $1, $3, $4)",
			      (struct db_value[]){DB_T("it's; \xc3\xa9"),
						  DB_I(INT64_MIN),
						  DB_B("\0\1\377", 4),
						  {.type = DB_NULL}},
			      4, NULL, NULL) == 1);
		CHECK(db_exec(c, "SELECT name, i, b, t FROM hone_test WHERE name = $1",
			      (struct db_value[]){DB_T("it's; \xc3\xa9")}, 1, see, &s) == 1);
		CHECK(s.rows == 1 && !strcmp(s.text, "it's; \xc3\xa9=-9223372036854775808"));
		CHECK(s.nblob == 4 && !memcmp(s.blob, "\0\1\377", 4) && s.null == DB_NULL);
		CHECK(db_exec(c, "SELECT name, i, b, t FROM hone_test WHERE name = $1",
			      (struct db_value[]){DB_T("it''s")}, 1, see, &s) == 0 &&
		      s.rows == 1);
		db_close(c);
	}
}

TEST(exec_counts_what_changed)
{
	EACH_PLACE(p)
	{
		struct db_conn *c;
		REQUIRE_OK(fresh(p->url, &c));
		CHECK(put(c, "a", 1) == 1 && put(c, "b", 2) == 1);
		CHECK(put(c, "a", 9) == 0 && sum(c) == 3);
		CHECK(db_exec(c, "UPDATE hone_test SET i = i + $1 WHERE i > $2",
			      (struct db_value[]){DB_I(10), DB_I(0)}, 2, NULL, NULL) == 2);
		CHECK(db_exec(
			  c,
			  "INSERT INTO hone_test (name, i) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET "
			  "i = excluded.i",
			  (struct db_value[]){DB_T("a"), DB_I(5)}, 2, NULL, NULL) == 1);
		CHECK(sum(c) == 17);
		CHECK(db_exec(c, "DELETE FROM hone_test WHERE i < $1", (struct db_value[]){DB_I(-5)}, 1, NULL,
			      NULL) == 0);
		CHECK(db_exec(c, "DELETE FROM hone_test", NULL, 0, NULL, NULL) == 2);
		db_close(c);
	}
}

static int stop_at_second(void *ctx, const struct db_value *col, int n)
{
	(void)col, (void)n;
	return ++*(int *)ctx == 2 ? fail(E_STOPPED, "enough") : E_OK;
}

TEST(a_row_function_ends_its_statement)
{
	EACH_PLACE(p)
	{
		struct db_conn *c;
		int rows = 0;
		REQUIRE_OK(fresh(p->url, &c));
		for (int i = 0; i < 5; i++)
			CHECK(put(c, (char[]){(char)('a' + i), 0}, i) == 1);
		CHECK_FAILS(db_exec(c, "SELECT i FROM hone_test", NULL, 0, stop_at_second, &rows), E_STOPPED,
			    "enough");
		CHECK(rows == 2 && sum(c) == 10);
		db_close(c);
	}
}

TEST(a_wrong_statement_is_an_error_and_no_more)
{
	EACH_PLACE(p)
	{
		struct db_conn *c;
		REQUIRE_OK(fresh(p->url, &c));
		CHECK(db_exec(c, "SELECT nothing FROM nowhere", NULL, 0, NULL, NULL) < 0);
		CHECK(db_exec(c, "INSERT INTO hone_test (name) VALUES ($1)", (struct db_value[]){DB_T("x")},
			      1, NULL, NULL) < 0); /* the column i is missing */
		CHECK(put(c, "a", 1) == 1 && sum(c) == 1);
		CHECK_OK(db_begin(c));
		CHECK(put(c, "b", 1) == 1);
		CHECK(db_exec(c, "SELECT nothing FROM nowhere", NULL, 0, NULL, NULL) < 0);
		db_rollback(c);
		CHECK(sum(c) == 1);
		db_close(c);
	}
}

TEST(a_transaction_is_all_or_nothing)
{
	EACH_PLACE(p)
	{
		struct db_conn *c, *other;
		REQUIRE_OK(fresh(p->url, &c));
		CHECK_OK(db_begin(c));
		CHECK(put(c, "a", 1) == 1 && put(c, "b", 2) == 1);
		db_rollback(c);
		db_rollback(c); /* without a transaction: does nothing */
		CHECK(sum(c) == 0);
		CHECK_OK(db_begin(c));
		CHECK(put(c, "a", 1) == 1);
		CHECK_OK(db_commit(c));
		CHECK(sum(c) == 1);
		if (p->shared) {
			REQUIRE_OK(db_open(p->url, &other));
			CHECK(sum(other) == 1);
			CHECK_OK(db_begin(other));
			CHECK(put(other, "b", 2) == 1);
			db_close(other); /* within a transaction, which is rolled back */
			CHECK(sum(c) == 1);
		}
		db_close(c);
	}
}

struct worker {
	const char *url;
	int id, good;
	pthread_t thread;
};

static int add_one(struct db_conn *c, int id, int i)
{
	char name[32];
	snprintf(name, sizeof name, "%d/%d", id, i);
	int rc = db_begin(c);
	if (rc < 0)
		return rc;
	rc = put(c, name, 1);
	if (rc >= 0)
		rc = db_exec(c, "UPDATE hone_test SET i = i + 1 WHERE name = 'sum'", NULL, 0, NULL, NULL);
	if (rc >= 0)
		return db_commit(c);
	db_rollback(c);
	return rc;
}

static void *work(void *p)
{
	struct worker *w = p;
	struct db_conn *c;
	if (db_open(w->url, &c) < 0)
		return NULL;
	for (int i = 0; i < EACH; i++) {
		int rc = E_BUSY;
		for (int try = 0; rc == E_BUSY && try < 100; try++)
			rc = add_one(c, w->id, i);
		w->good += rc >= 0;
	}
	db_close(c);
	return NULL;
}

TEST(threads_lose_no_update)
{
	EACH_PLACE(p)
	{
		struct db_conn *c;
		struct worker w[THREADS];
		if (!p->shared)
			continue;
		REQUIRE_OK(fresh(p->url, &c));
		CHECK(put(c, "sum", 0) == 1);
		for (int i = 0; i < THREADS; i++) {
			w[i] = (struct worker){.url = p->url, .id = i};
			REQUIRE(pthread_create(&w[i].thread, NULL, work, &w[i]) == 0);
		}
		for (int i = 0; i < THREADS; i++) {
			pthread_join(w[i].thread, NULL);
			CHECK(w[i].good == EACH);
		}
		CHECK(sum(c) == 2 * THREADS * EACH);
		db_close(c);
	}
}

/* Processes write at once, and one of them is killed meanwhile. */
TEST(processes_share_a_database)
{
	EACH_PLACE(p)
	{
		struct db_conn *c;
		pid_t pid[3];
		int64_t had;
		if (!p->processes)
			continue;
		REQUIRE_OK(fresh(p->url, &c));
		CHECK(put(c, "sum", 0) == 1);
		db_close(c); /* processes must not share a connection */
		for (int i = 0; i < 3; i++) {
			fflush(NULL);
			if ((pid[i] = fork()) == 0) {
				struct worker w = {.url = p->url, .id = i};
				work(&w);
				_exit(w.good == EACH ? 0 : 1);
			}
		}
		usleep(20000);
		kill(pid[2], SIGKILL);
		for (int i = 0, status; i < 3; i++) {
			waitpid(pid[i], &status, 0);
			CHECK(i == 2 || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
		}
		REQUIRE_OK(db_open(p->url, &c));
		CHECK(db_exec(c, "SELECT i FROM hone_test WHERE name = 'sum'", NULL, 0, one_int, &had) == 1);
		CHECK(had >= 2 * EACH && had <= 3 * EACH && sum(c) == 2 * had);
		db_close(c);
	}
}

TEST(one_connection_leads)
{
	EACH_PLACE(p)
	{
		struct db_conn *a, *b;
		REQUIRE_OK(db_open(p->url, &a));
		CHECK(db_lead(a) == 1 && db_lead(a) == 1);
		if (p->processes) {
			REQUIRE_OK(db_open(p->url, &b));
			CHECK(db_lead(b) == 0);
			db_close(a);
			CHECK(db_lead(b) == 1);
			a = b;
		}
		db_close(a);
	}
}

/* A process has the database open while another opens and closes it; what both wrote survives a kill. */
TEST(another_process_loses_nothing)
{
	EACH_PLACE(p)
	{
		struct db_conn *c, *more;
		char byte;
		int to[2], from[2], status;
		if (!p->processes)
			continue;
		REQUIRE(pipe(to) == 0 && pipe(from) == 0);
		REQUIRE_OK(fresh(p->url, &c));
		db_close(c);
		fflush(NULL);
		pid_t pid = fork();
		if (pid == 0) {
			bool good =
			    db_open(p->url, &c) >= 0 && put(c, "a", 1) == 1 && db_open(p->url, &more) >= 0;
			good = good && write(from[1], "1", 1) == 1 && read(to[0], &byte, 1) == 1;
			good = good && put(c, "b", 2) == 1 && put(more, "c", 4) == 1;
			(void)!write(from[1], good ? "1" : "0", 1);
			pause();
		}
		CHECK(read(from[0], &byte, 1) == 1 && byte == '1');
		REQUIRE_OK(db_open(p->url, &c));
		CHECK(put(c, "d", 8) == 1);
		db_close(c);
		CHECK(write(to[1], "1", 1) == 1 && read(from[0], &byte, 1) == 1 && byte == '1');
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		REQUIRE_OK(db_open(p->url, &c));
		CHECK(sum(c) == 15);
		db_close(c);
		for (int i = 0; i < 2; i++) {
			close(to[i]);
			close(from[i]);
		}
	}
}

/* Only SQLite. */

TEST(the_file_is_its_owners_and_is_durable)
{
	struct db_conn *c;
	struct stat st;
	char name[128];
	struct place p[4];
	places(p);
	REQUIRE_OK(fresh(p[0].url, &c));
	CHECK(put(c, "a", 1) == 1);
	static const char *const suffix[] = {"", "-wal", "-shm", "-lock"};
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof name, "%s%s", p[0].url, suffix[i]);
		CHECK(stat(name, &st) == 0 && (st.st_mode & 077) == 0);
	}
	int64_t full = 0;
	CHECK(db_exec(c, "PRAGMA synchronous", NULL, 0, one_int, &full) == 1 && full == 2);
	db_close(c);
	snprintf(name, sizeof name, "%s-wal", p[0].url);
	CHECK(stat(name, &st) < 0); /* the last close has moved all into the file */
}

TEST(invalid_databases_are_refused)
{
	struct db_conn *c = NULL;
	char path[128];
	struct place p[4];
	places(p);
	CHECK_FAILS(db_open("/nowhere/at/all.db", &c), E_IO, "its folder must exist");
	CHECK_FAILS(db_open("oracle://x", &c), E_UNSUPPORTED, "unknown kind");
	CHECK_FAILS(db_open("", &c), E_USAGE, "not a valid file name");
	CHECK_FAILS(db_open("/tmp", &c), E_USAGE, "not a regular file");
	CHECK_FAILS(db_open("/dev/null", &c), E_USAGE, "not a regular file");
	snprintf(path, sizeof path, "%s/text", folder);
	FILE *f = fopen(path, "w");
	for (int i = 0; f && i < 2000; i++)
		fputs("this is another program's file\n", f);
	if (f)
		fclose(f);
	CHECK_FAILS(db_open(path, &c), E_CORRUPT, "another program's file");
	CHECK(!c);
	db_close(NULL);
}

/* A connection waits for a lock for a limited time. */
TEST(a_lock_that_is_held_is_busy)
{
	struct db_conn *a, *b;
	char name[128];
	struct place p[4];
	places(p);
	snprintf(name, sizeof name, "%s2", p[0].url);
	REQUIRE_OK(fresh(name, &a));
	REQUIRE_OK(db_open(name, &b));
	CHECK_OK(db_begin(a));
	CHECK_FAILS(db_begin(a), E_USAGE, "already open");
	int64_t began = clock_now(&clock_real);
	CHECK_FAILS(db_begin(b), E_BUSY, "busy");
	CHECK(clock_now(&clock_real) - began < 60 * NS_PER_S);
	CHECK_OK(db_commit(a));
	CHECK_FAILS(db_commit(a), E_USAGE, "no transaction");
	CHECK_OK(db_begin(b));
	CHECK_OK(db_commit(b));
	db_close(a);
	db_close(b);
}

/* Only PostgreSQL. */

/* Ends a's session from another connection. */
static void cut_off(struct db_conn *a, const char *url)
{
	struct db_conn *b;
	int64_t pid = 0;
	CHECK(db_exec(a, "SELECT pg_backend_pid()", NULL, 0, one_int, &pid) == 1 && pid > 0);
	REQUIRE_OK(db_open(url, &b));
	CHECK(db_exec(b, "SELECT pg_terminate_backend(CAST($1 AS INTEGER), 5000)",
		      (struct db_value[]){DB_I(pid)}, 1, NULL, NULL) == 1);
	db_close(b);
}

TEST(a_lost_connection_is_opened_again)
{
	struct db_conn *c;
	if (!postgres_url())
		SKIP(NO_POSTGRES);
	REQUIRE_OK(fresh(postgres_url(), &c));
	CHECK_OK(db_begin(c));
	CHECK(put(c, "a", 1) == 1);
	cut_off(c, postgres_url());
	CHECK_FAILS(put(c, "b", 2), E_IO, "hone_test");
	CHECK_FAILS(db_exec(c, "SELECT 1", NULL, 0, NULL, NULL), E_IO, "SELECT 1"); /* no new connection */
	db_rollback(c);
	CHECK_OK(db_begin(c));
	CHECK(put(c, "c", 4) == 1);
	CHECK_OK(db_commit(c));
	CHECK(sum(c) == 4);
	cut_off(c, postgres_url()); /* between two transactions, where it goes unnoticed */
	CHECK_OK(db_begin(c));
	CHECK(put(c, "d", 8) == 1);
	cut_off(c, postgres_url());
	CHECK_FAILS(db_commit(c), E_IO, "COMMIT");
	CHECK_OK(db_begin(c));
	CHECK(sum(c) == 4);
	CHECK_OK(db_commit(c));
	db_close(c);
}

TEST(losing_the_session_loses_the_lead)
{
	struct db_conn *a, *b;
	if (!postgres_url())
		SKIP(NO_POSTGRES);
	REQUIRE_OK(db_open(postgres_url(), &a));
	REQUIRE_OK(db_open(postgres_url(), &b));
	CHECK(db_lead(a) == 1 && db_lead(b) == 0);
	cut_off(a, postgres_url());
	CHECK(db_lead(a) == 1); /* no other instance was quicker */
	cut_off(a, postgres_url());
	CHECK_OK(db_begin(a));
	CHECK_OK(db_commit(a));
	CHECK(db_lead(b) == 0);
	cut_off(a, postgres_url());
	CHECK(db_lead(b) == 1);
	CHECK_FAILS(db_begin(a), E_STOPPED, "another instance leads"); /* once: its round must stop */
	CHECK(db_lead(a) == 0 && db_lead(b) == 1);
	CHECK_OK(db_begin(a));
	CHECK_OK(db_commit(a));
	db_close(b);
	CHECK(db_lead(a) == 1);
	db_close(a);
}

TEST(waiting_too_long_for_a_row_is_busy)
{
	struct db_conn *a, *b;
	static const char up[] = "UPDATE hone_test SET i = i + 1";
	if (!postgres_url())
		SKIP(NO_POSTGRES);
	REQUIRE_OK(fresh(postgres_url(), &a));
	REQUIRE_OK(db_open(postgres_url(), &b));
	CHECK(put(a, "a", 1) == 1);
	CHECK_OK(db_begin(a));
	CHECK(db_exec(a, up, NULL, 0, NULL, NULL) == 1);
	CHECK_OK(db_begin(b));
	CHECK_FAILS(db_exec(b, up, NULL, 0, NULL, NULL), E_BUSY, "try again");
	CHECK_FAILS(db_commit(b), E_USAGE, "had failed");
	CHECK_OK(db_begin(b));
	CHECK(sum(b) == 1);
	CHECK_OK(db_commit(a));
	CHECK(sum(b) == 1); /* it sees one snapshot */
	CHECK_FAILS(db_exec(b, up, NULL, 0, NULL, NULL), E_BUSY, "serialize");
	db_rollback(b);
	CHECK(sum(b) == 2);
	db_close(a);
	db_close(b);
}

static int again(void *ctx, const struct db_value *col, int n)
{
	(void)col, (void)n;
	return put(ctx, "z", 1);
}

/* Errors name the cause, and leave the connection as it was. */
TEST(errors_of_postgres_are_reported)
{
	struct db_conn *c, *other = NULL;
	struct seen s = {.null = DB_TEXT};
	if (!postgres_url())
		SKIP(NO_POSTGRES);
	REQUIRE_OK(fresh(postgres_url(), &c));
	CHECK_FAILS(db_exec(c, "INSERT INTO hone_test (name) VALUES ($1)", (struct db_value[]){DB_T("x")}, 1,
			    NULL, NULL),
		    E_WRONG, "breaks the table's rules");
	CHECK_FAILS(db_exec(c, "SELECT nothing FROM nowhere", NULL, 0, NULL, NULL), E_USAGE, "nowhere");
	CHECK(put(c, "bad \xff\xc3\xa9\xed\xa0\x80", 1) == 1 && put(c, "\xc3", 1) == 1);
	CHECK(db_exec(c, "SELECT name, i, b, t FROM hone_test WHERE i > 0 ORDER BY name DESC", NULL, 0, see,
		      &s) == 2 &&
	      !strcmp(s.text, "?=1"));
	CHECK_FAILS(db_exec(c, "SELECT name, i FROM hone_test", NULL, 0, again, c), E_USAGE, "before all");
	CHECK(put(c, "z", 1) == 1 && sum(c) == 3);
	CHECK_FAILS(db_open("postgresql://u:secret@/x?host=/nowhere", &other), E_IO, "connect");
	CHECK(!strstr(err_text(), "secret") && !other);
	db_close(c);
}

static int any(void *ctx, const struct db_value *col, int n)
{
	(void)col;
	*(int *)ctx = n;
	return E_OK;
}

/* A newer program may add a column while an older one runs. */
TEST(a_table_that_changes_is_prepared_again)
{
	static const char all[] = "SELECT * FROM hone_test";
	struct db_conn *c, *other;
	int columns = 0;
	if (!postgres_url())
		SKIP(NO_POSTGRES);
	REQUIRE_OK(fresh(postgres_url(), &c));
	CHECK(put(c, "a", 1) == 1 && db_exec(c, all, NULL, 0, any, &columns) == 1 && columns == 4);
	REQUIRE_OK(db_open(postgres_url(), &other));
	CHECK_OK(db_exec(other, "ALTER TABLE hone_test ADD COLUMN more BIGINT", NULL, 0, NULL, NULL));
	db_close(other);
	CHECK_FAILS(db_exec(c, all, NULL, 0, any, &columns), E_BUSY, "try again");
	CHECK(db_exec(c, all, NULL, 0, any, &columns) == 1 && columns == 5);
	CHECK_OK(db_begin(c));
	CHECK(db_exec(c, "DEALLOCATE ALL", NULL, 0, NULL, NULL) == 0);
	CHECK_FAILS(db_exec(c, all, NULL, 0, any, &columns), E_BUSY, "try again");
	db_rollback(c);
	CHECK_OK(db_begin(c));
	CHECK(db_exec(c, all, NULL, 0, any, &columns) == 1);
	CHECK_OK(db_commit(c));
	db_close(c);
}

/* More statements than are kept prepared still work. */
TEST(many_statements_and_long_values)
{
	enum { TEXTS = 400, LONG = 3 << 20 };
	static char text[TEXTS][48];
	struct db_conn *c;
	int64_t v = -1, n = 0;
	char *big = malloc(LONG);
	if (!postgres_url())
		SKIP(NO_POSTGRES);
	REQUIRE_OK(fresh(postgres_url(), &c));
	for (int i = 0; i < 2 * TEXTS; i++) {
		snprintf(text[i % TEXTS], sizeof *text, "SELECT CAST(%d AS BIGINT)", i % TEXTS);
		CHECK(db_exec(c, text[i % TEXTS], NULL, 0, one_int, &v) == 1 && v == i % TEXTS);
	}
	memset(big, 0xa5, LONG);
	CHECK(db_exec(c, "INSERT INTO hone_test (name, i, b) VALUES ('big', 0, $1)",
		      (struct db_value[]){DB_B(big, LONG)}, 1, NULL, NULL) == 1);
	CHECK(db_exec(c, "SELECT CAST(length(b) AS BIGINT) FROM hone_test WHERE b = $1",
		      (struct db_value[]){DB_B(big, LONG)}, 1, one_int, &n) == 1 &&
	      n == LONG);
	struct db_value many[40] = {{0}};
	CHECK_FAILS(db_exec(c, "SELECT 1", many, 40, NULL, NULL), E_USAGE, "parameters");
	db_close(c);
	free(big);
}

TEST_MAIN
