/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet server's database: a small subset of SQL that both SQLite and PostgreSQL understand. To add a
 * database, write a file db_NAME.c that defines `const struct db db_NAME` (the Makefile writes db_table[]);
 * `prefix` says which URLs it opens. All slots are mandatory.
 *
 * Statements are constant texts with parameters $1, $2, ... Each connection prepares a statement once and
 * finds it again by the address of its text. Use only what both languages have: CREATE TABLE IF NOT EXISTS,
 * INSERT ... ON CONFLICT DO NOTHING or DO UPDATE, TEXT, BIGINT, BYTEA written as $blob in CREATE statements,
 * no serial columns and no dates (store seconds in a BIGINT column). Text that is not UTF-8 may come back
 * with '?' in it. A struct db_conn is one connection and serves one thread at a time. */
#ifndef TOOLS_DB_H
#define TOOLS_DB_H

#include "platform/base/err.h"
#include <stddef.h>
#include <stdint.h>

enum db_type { DB_NULL, DB_INT, DB_TEXT, DB_BLOB };

struct db_value {
	enum db_type type;
	int64_t i;
	const char *p; /* text ends with a NUL, which n does not count */
	size_t n;
};
#define DB_I(v) ((struct db_value){.type = DB_INT, .i = (v)})
#define DB_T(s) ((struct db_value){.type = DB_TEXT, .p = (s), .n = strlen(s)})
#define DB_B(b, len) ((struct db_value){.type = DB_BLOB, .p = (const char *)(b), .n = (len)})

/* Expands to the parameters and their number, for db_exec. */
#define DB_PARAMS(...)                                                                                       \
	(const struct db_value[]){__VA_ARGS__},                                                              \
	    (int)(sizeof((const struct db_value[]){__VA_ARGS__}) / sizeof(struct db_value))

enum { DB_COLUMNS = 24 };

struct db_conn;
/* Called for each row. Column values are valid until it returns. A result < 0 ends the statement with that
 * error. It must not use the connection. */
typedef int db_row_fn(void *ctx, const struct db_value *col, int n);

struct db_conn {
	const struct db *db;
};

struct db {
	const char *name;
	const char *prefix; /* of URLs: "postgresql://"; "": plain paths */
	/* Opens the database, or creates it. E_IO says why it cannot, and what to do. */
	int (*open)(const char *url, struct db_conn **out);
	void (*close)(struct db_conn *c);
	/* Gives each column that is not an integer as text or blob. Returns the number of changed rows, or
	 * for SELECT the number of rows given. E_BUSY: the caller must run the whole transaction again; E_IO:
	 * the connection is lost (the next begin opens it again). */
	int (*exec)(struct db_conn *c, const char *sql, const struct db_value *param, int n, db_row_fn *fn,
		    void *ctx);
	/* Begins a transaction that may write. It reads one snapshot of the database. If two transactions
	 * change the same rows, one of them gets E_BUSY. */
	int (*begin)(struct db_conn *c);
	int (*commit)(struct db_conn *c); /* durable if it succeeds; E_IO: it may be, too */
	void (*rollback)(struct db_conn *c);
	/* 1: this connection leads all instances, else 0. One leads at a time, until it is closed or dies. */
	int (*lead)(struct db_conn *c);
};

extern const struct db *const db_table[];
/* Returns the statement, malloc'd, with `blob` in the place of $blob; NULL: no memory. */
char *db_language(const char *sql, const char *blob);
int db_open(const char *url, struct db_conn **out) MUST_CHECK; /* by prefix; the empty one last */
void db_close(struct db_conn *c);                              /* NULL: nothing */
int db_exec(struct db_conn *c, const char *sql, const struct db_value *param, int n, db_row_fn *fn,
	    void *ctx) MUST_CHECK;
int db_begin(struct db_conn *c) MUST_CHECK;
int db_commit(struct db_conn *c) MUST_CHECK;
void db_rollback(struct db_conn *c);
int db_lead(struct db_conn *c) MUST_CHECK; /* 1: leads */

#endif
