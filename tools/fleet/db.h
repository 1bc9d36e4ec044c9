/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet server's database: a small SQL that SQLite and PostgreSQL both speak. To add one: a file
 * db_NAME.c that defines `const struct db db_NAME` (the Makefile writes db_table[]); `prefix` says which URLs
 * are its own. All slots are mandatory.
 *
 * Statements are constant texts with parameters $1, $2, ... (they are prepared once per connection and found
 * by their address), in the common part of both languages: CREATE TABLE IF NOT EXISTS, INSERT ... ON CONFLICT
 * DO NOTHING or DO UPDATE, TEXT, BIGINT, BYTEA written as $blob in CREATE statements, no serial columns and
 * no dates (a column of BIGINT seconds). Text that is not UTF-8 may come back with '?' in it. A struct
 * db_conn is one connection, for one thread at a time. */
#ifndef TOOLS_DB_H
#define TOOLS_DB_H

#include "platform/base/err.h"
#include <stddef.h>
#include <stdint.h>

enum db_type { DB_NULL, DB_INT, DB_TEXT, DB_BLOB };

struct db_value {
	enum db_type type;
	int64_t i;
	const char *p; /* text has a NUL behind it */
	size_t n;
};
#define DB_I(v) ((struct db_value){.type = DB_INT, .i = (v)})
#define DB_T(s) ((struct db_value){.type = DB_TEXT, .p = (s), .n = strlen(s)})
#define DB_B(b, len) ((struct db_value){.type = DB_BLOB, .p = (const char *)(b), .n = (len)})

/* Parameters and their number, for db_exec. */
#define DB_PARAMS(...)                                                                                       \
	(const struct db_value[]){__VA_ARGS__},                                                              \
	    (int)(sizeof((const struct db_value[]){__VA_ARGS__}) / sizeof(struct db_value))

enum { DB_COLUMNS = 24 };

struct db_conn;
/* Column values are good until it returns; < 0 ends the statement with that error. It does not use the
 * connection. */
typedef int db_row_fn(void *ctx, const struct db_value *col, int n);

struct db_conn {
	const struct db *db;
};

struct db {
	const char *name;
	const char *prefix; /* of URLs: "postgresql://"; "": paths */
	/* Opens, or makes, it. E_IO says why not and what to do. */
	int (*open)(const char *url, struct db_conn **out);
	void (*close)(struct db_conn *c);
	/* Every column of a statement's rows that is not an integer comes as text or blob. Returns the number
	 * of rows that it changed, for SELECT those it gave. E_BUSY: try the whole transaction again; E_IO:
	 * the connection is lost (it is opened again by the next begin). */
	int (*exec)(struct db_conn *c, const char *sql, const struct db_value *param, int n, db_row_fn *fn,
		    void *ctx);
	/* A transaction that writes; what it reads is of one moment, and where another changes the same rows,
	 * one of the two is E_BUSY. */
	int (*begin)(struct db_conn *c);
	int (*commit)(struct db_conn *c); /* durable when it returns good; E_IO: may be so, too */
	void (*rollback)(struct db_conn *c);
	/* Whether this connection leads all instances: one at a time does, until it is closed or dies. */
	int (*lead)(struct db_conn *c);
};

extern const struct db *const db_table[];
/* A statement with the database's own word for $blob, malloc'd; NULL: no memory. */
char *db_language(const char *sql, const char *blob);
int db_open(const char *url, struct db_conn **out) MUST_CHECK; /* by prefix; the empty prefix last */
void db_close(struct db_conn *c);                              /* NULL: nothing */
int db_exec(struct db_conn *c, const char *sql, const struct db_value *param, int n, db_row_fn *fn,
	    void *ctx) MUST_CHECK;
int db_begin(struct db_conn *c) MUST_CHECK;
int db_commit(struct db_conn *c) MUST_CHECK;
void db_rollback(struct db_conn *c);
int db_lead(struct db_conn *c) MUST_CHECK; /* 1: leads */

#endif
