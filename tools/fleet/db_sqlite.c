/* SPDX-License-Identifier: Apache-2.0 */
/* SQLite: one file that only its owner can read, WAL with synchronous=FULL; or ":memory:", which is new for
 * each open; or ":memory:NAME", which the connections of a process share until the last is closed.
 *
 * Before SQLite 3.51.3, two connections that write or checkpoint a WAL database at the same moment may
 * corrupt it. So all connections of a process to a file share one handle, under a mutex, and processes (a
 * server, and `hone-fleet token` beside it) take turns with a lock on FILE-lock. Readers of published files
 * do not use the database, so this costs them nothing. Both waits end after WAIT_NS with E_BUSY. The leader
 * of all processes holds FILE-lead. Network file systems do not keep such locks, so do not put the file on
 * one. */
#include "tools/fleet/db.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY ":memory:"
#define WAIT_NS (2 * NS_PER_S)
enum { STATEMENTS = 128 /* prepared statements that are kept */, PARAMS = 32 };

struct prepared {
	const char *sql;
	sqlite3_stmt *st;
	int at[PARAMS + 1]; /* index of $1, ... in the statement; 0: not used in it */
};

struct shared {
	struct shared *next;
	char *path;
	bool memory;
	int users;
	sqlite3 *h;
	pthread_mutex_t turn;
	int lock_fd;
	int nprepared;
	struct prepared prepared[STATEMENTS];
};

struct conn {
	struct db_conn base; /* must be first */
	struct shared *s;
	int depth;        /* > 0: this connection has the turn */
	bool transaction; /* a transaction has begun */
	int lead_fd;
};

extern const struct db db_sqlite;
static struct shared *all;
static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;

static bool in_memory(const char *path)
{
	return !strncmp(path, MEMORY, strlen(MEMORY));
}

static int failed(const struct shared *s, const char *what)
{
	static const struct {
		int code, rc;
		const char *remedy;
	} kinds[] = {{SQLITE_BUSY, E_BUSY, "try again"},
		     {SQLITE_LOCKED, E_BUSY, "try again"},
		     {SQLITE_NOMEM, E_NOMEM, "no memory"},
		     {SQLITE_CORRUPT, E_CORRUPT, "restore it from a backup"},
		     {SQLITE_NOTADB, E_CORRUPT, "is it another program's file?"},
		     {SQLITE_FULL, E_IO, "make room on its disk"},
		     {SQLITE_READONLY, E_IO, "its file and folder must be writable"},
		     {SQLITE_CANTOPEN, E_IO, "its folder must exist and be writable"},
		     {SQLITE_CONSTRAINT, E_WRONG, "the row breaks the table's rules"},
		     {SQLITE_ERROR, E_USAGE, "the statement is wrong"}};
	int code = s->h ? sqlite3_errcode(s->h) & 0xff : SQLITE_NOMEM;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (kinds[i].code == code)
			return fail(kinds[i].rc, "database %s: %s: %s; %s", s->path, what,
				    s->h ? sqlite3_errmsg(s->h) : "no memory", kinds[i].remedy);
	return fail(E_IO, "database %s: %s: %s; look at its disk", s->path, what, sqlite3_errmsg(s->h));
}

/* Turns. */

static int lock_file(struct shared *s)
{
	char path[PATH_MAX];
	s->lock_fd = -1;
	if (s->memory)
		return E_OK;
	snprintf(path, sizeof path, "%s-lock", s->path);
	return file_lock(path, WAIT_NS, &s->lock_fd);
}

static int take_turn(struct conn *c)
{
	int64_t end_ns = clock_now(&clock_real) + WAIT_NS;
	struct timespec end = {.tv_sec = end_ns / NS_PER_S, .tv_nsec = end_ns % NS_PER_S};
	if (c->depth++ > 0)
		return E_OK;
	int rc = pthread_mutex_clocklock(&c->s->turn, CLOCK_MONOTONIC, &end) == 0
		     ? E_OK
		     : fail(E_BUSY, "database %s: busy; try again", c->s->path);
	if (rc >= 0 && (rc = lock_file(c->s)) < 0)
		pthread_mutex_unlock(&c->s->turn);
	c->depth -= rc < 0;
	return rc;
}

static void end_turn(struct conn *c)
{
	if (--c->depth > 0)
		return;
	if (c->s->lock_fd >= 0)
		file_unlock(c->s->lock_fd);
	pthread_mutex_unlock(&c->s->turn);
}

/* Statements. */

static int make_prepared(struct shared *s, const char *sql, struct prepared *p)
{
	char *text = db_language(sql, "BLOB");
	*p = (struct prepared){.sql = sql};
	int rc =
	    text ? sqlite3_prepare_v3(s->h, text, -1, SQLITE_PREPARE_PERSISTENT, &p->st, NULL) : SQLITE_NOMEM;
	free(text);
	if (rc != SQLITE_OK || !p->st)
		return rc == SQLITE_OK ? fail(E_USAGE, "database %s: the statement is empty", s->path)
				       : failed(s, sql);
	for (int i = 1; i <= PARAMS; i++) {
		char name[8];
		snprintf(name, sizeof name, "$%d", i);
		p->at[i] = sqlite3_bind_parameter_index(p->st, name);
	}
	return E_OK;
}

static void end_prepared(struct shared *s, struct prepared *p)
{
	sqlite3_finalize(p->st);
	*p = s->prepared[--s->nprepared];
}

/* Finds or prepares a statement. If a table changes between two uses, SQLite prepares it again by itself. */
static int prepared(struct shared *s, const char *sql, struct prepared **out)
{
	for (int i = 0; i < s->nprepared; i++)
		if (s->prepared[i].sql == sql) {
			*out = &s->prepared[i];
			return sqlite3_stmt_busy((*out)->st) ? fail(E_USAGE,
								    "database %s: a statement was started "
								    "again before all its rows were read: %s",
								    s->path, sql)
							     : E_OK;
		}
	for (int i = 0; s->nprepared == STATEMENTS && i < STATEMENTS; i++)
		if (!sqlite3_stmt_busy(s->prepared[i].st)) {
			end_prepared(s, &s->prepared[i]);
			break;
		}
	if (s->nprepared == STATEMENTS)
		return fail(E_USAGE, "database %s: too many statements at once", s->path);
	*out = &s->prepared[s->nprepared];
	int rc = make_prepared(s, sql, *out);
	s->nprepared += rc >= 0;
	return rc;
}

static int bind_one(const struct prepared *p, int i, const struct db_value *v)
{
	int at = p->at[i];
	switch (at ? v->type : DB_NULL) {
	case DB_INT:
		return sqlite3_bind_int64(p->st, at, v->i);
	case DB_TEXT:
		return sqlite3_bind_text64(p->st, at, v->p ? v->p : "", v->n, SQLITE_STATIC, SQLITE_UTF8);
	case DB_BLOB:
		return sqlite3_bind_blob64(p->st, at, v->p ? v->p : "", v->n, SQLITE_STATIC);
	case DB_NULL:
		break;
	}
	return at ? sqlite3_bind_null(p->st, at) : SQLITE_OK;
}

static int bind_all(struct shared *s, const struct prepared *p, const struct db_value *param, int n)
{
	if (n > PARAMS)
		return fail(E_USAGE, "database %s: more than %d parameters", s->path, PARAMS);
	for (int i = 0; i < n; i++)
		if (bind_one(p, i + 1, &param[i]) != SQLITE_OK)
			return failed(s, p->sql);
	return E_OK;
}

static struct db_value column(sqlite3_stmt *st, int i)
{
	const void *p;
	switch (sqlite3_column_type(st, i)) {
	case SQLITE_NULL:
		return (struct db_value){.type = DB_NULL};
	case SQLITE_INTEGER:
		return DB_I(sqlite3_column_int64(st, i));
	case SQLITE_BLOB:
		p = sqlite3_column_blob(st, i);
		return DB_B(p ? p : "", (size_t)sqlite3_column_bytes(st, i));
	default:
		p = sqlite3_column_text(st, i);
		return (struct db_value){
		    .type = DB_TEXT, .p = p ? p : "", .n = (size_t)sqlite3_column_bytes(st, i)};
	}
}

static int give_row(sqlite3_stmt *st, db_row_fn *fn, void *ctx)
{
	struct db_value col[DB_COLUMNS];
	int n = sqlite3_column_count(st);
	n = n < DB_COLUMNS ? n : DB_COLUMNS;
	for (int i = 0; i < n; i++)
		col[i] = column(st, i);
	return fn ? fn(ctx, col, n) : E_OK;
}

static int step(struct shared *s, const struct prepared *p, db_row_fn *fn, void *ctx)
{
	sqlite3_int64 before = sqlite3_total_changes64(s->h);
	int rows = 0, rc;
	while ((rc = sqlite3_step(p->st)) == SQLITE_ROW) {
		if ((rc = give_row(p->st, fn, ctx)) < 0)
			return rc;
		rows++;
	}
	if (rc != SQLITE_DONE)
		return failed(s, p->sql);
	return sqlite3_column_count(p->st) ? rows : (int)(sqlite3_total_changes64(s->h) - before);
}

static int run(struct shared *s, const char *sql, const struct db_value *param, int n, db_row_fn *fn,
	       void *ctx)
{
	struct prepared *p = NULL;
	int rc = prepared(s, sql, &p);
	if (rc < 0)
		return rc;
	rc = bind_all(s, p, param, n);
	if (rc >= 0)
		rc = step(s, p, fn, ctx);
	sqlite3_reset(p->st);
	sqlite3_clear_bindings(p->st);
	return rc;
}

static int sqlite_exec(struct db_conn *base, const char *sql, const struct db_value *param, int n,
		       db_row_fn *fn, void *ctx)
{
	struct conn *c = (struct conn *)base;
	int rc = take_turn(c);
	if (rc < 0)
		return rc;
	rc = run(c->s, sql, param, n, fn, ctx);
	end_turn(c);
	return rc;
}

static void sqlite_rollback(struct db_conn *base)
{
	struct conn *c = (struct conn *)base;
	if (!c->transaction)
		return;
	if (!sqlite3_get_autocommit(c->s->h))
		(void)!run(c->s, "ROLLBACK", NULL, 0, NULL, NULL);
	c->transaction = false;
	end_turn(c);
}

static int sqlite_begin(struct db_conn *base)
{
	struct conn *c = (struct conn *)base;
	if (c->depth)
		return fail(E_USAGE, "database %s: a transaction is already open", c->s->path);
	int rc = take_turn(c);
	if (rc < 0)
		return rc;
	rc = run(c->s, "BEGIN IMMEDIATE", NULL, 0, NULL, NULL);
	c->transaction = rc >= 0;
	if (rc < 0)
		end_turn(c);
	return rc;
}

static int sqlite_commit(struct db_conn *base)
{
	struct conn *c = (struct conn *)base;
	if (!c->transaction)
		return fail(E_USAGE, "database %s: no transaction is open", c->s->path);
	int rc = run(c->s, "COMMIT", NULL, 0, NULL, NULL);
	if (rc < 0) {
		sqlite_rollback(base);
		return rc;
	}
	c->transaction = false;
	end_turn(c);
	return E_OK;
}

static int sqlite_lead(struct db_conn *base)
{
	struct conn *c = (struct conn *)base;
	char path[PATH_MAX];
	if (c->lead_fd >= 0 || c->s->memory)
		return 1;
	snprintf(path, sizeof path, "%s-lead", c->s->path);
	int rc = file_lock(path, 0, &c->lead_fd);
	if (rc < 0)
		c->lead_fd = -1;
	return rc == E_BUSY ? 0 : rc < 0 ? rc : 1;
}

/* Opening and closing. */

static int set_up(struct shared *s)
{
	static const char *const words[] = {"PRAGMA journal_mode=WAL",  "PRAGMA synchronous=FULL",
					    "PRAGMA foreign_keys=OFF",  "PRAGMA trusted_schema=OFF",
					    "PRAGMA temp_store=MEMORY", "PRAGMA journal_size_limit=67108864"};
	sqlite3_busy_timeout(s->h, (int)(WAIT_NS / NS_PER_MS));
	sqlite3_db_config(s->h, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (sqlite3_exec(s->h, words[i], NULL, NULL, NULL) != SQLITE_OK)
			return failed(s, words[i]);
	return E_OK;
}

/* Makes the file with the mode that its -wal and -shm files get, too. An existing file is not opened here:
 * closing it would end this process's locks on it (fcntl), and another process's checkpoint could then remove
 * the WAL that is in use. */
static int make_file(const char *path)
{
	struct stat st;
	if (stat(path, &st) == 0)
		return S_ISREG(st.st_mode)
			   ? E_OK
			   : fail(E_USAGE, "database %s: not a regular file; name another", path);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 && errno != EEXIST)
		return fail(E_IO, "database %s: %s; its folder must exist and be writable", path,
			    strerror(errno));
	if (fd >= 0)
		close(fd);
	return E_OK;
}

static void free_shared(struct shared *s)
{
	while (s->nprepared)
		end_prepared(s, &s->prepared[s->nprepared - 1]);
	int rc = lock_file(s); /* the last close checkpoints */
	sqlite3_close_v2(s->h);
	if (rc >= 0 && s->lock_fd >= 0)
		file_unlock(s->lock_fd);
	pthread_mutex_destroy(&s->turn);
	free(s->path);
	free(s);
}

static int open_handle(struct shared *s)
{
	int rc = lock_file(s);
	if (rc < 0)
		return rc;
	if (sqlite3_open_v2(s->memory ? MEMORY : s->path, &s->h,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK)
		rc = failed(s, "open");
	if (rc >= 0)
		rc = set_up(s);
	if (s->lock_fd >= 0)
		file_unlock(s->lock_fd);
	return rc;
}

static int make_shared(const char *path, struct shared **out)
{
	struct shared *s = *out = calloc(1, sizeof *s);
	if (!s || !(s->path = strdup(path))) {
		free(s);
		return fail(E_NOMEM, "no memory");
	}
	s->memory = in_memory(path);
	pthread_mutex_init(&s->turn, NULL);
	int rc = open_handle(s);
	if (rc < 0)
		free_shared(s);
	return rc;
}

/* Resolves links, so that one file has one name. */
static int full_path(const char *url, char out[PATH_MAX])
{
	if (strstr(url, "://"))
		return fail(E_UNSUPPORTED, "database %s: unknown kind; use a file or postgresql://...", url);
	char *real = in_memory(url) ? NULL : realpath(url, NULL);
	int n = snprintf(out, PATH_MAX, "%s", real ? real : url);
	free(real);
	return *url && n + 8 < PATH_MAX ? E_OK : fail(E_USAGE, "database '%s': not a valid file name", url);
}

static int find_shared(const char *path, struct shared **out)
{
	for (*out = all; *out; *out = (*out)->next)
		if (strcmp(path, MEMORY) && !strcmp((*out)->path, path)) {
			(*out)->users++;
			return E_OK;
		}
	int rc = make_shared(path, out);
	if (rc < 0)
		return rc;
	(*out)->users = 1;
	(*out)->next = all;
	all = *out;
	return E_OK;
}

static void leave_shared(struct shared *s)
{
	pthread_mutex_lock(&all_mutex);
	if (--s->users == 0) {
		struct shared **p = &all;
		while (*p != s)
			p = &(*p)->next;
		*p = s->next;
		free_shared(s);
	}
	pthread_mutex_unlock(&all_mutex);
}

static void sqlite_close(struct db_conn *base)
{
	struct conn *c = (struct conn *)base;
	sqlite_rollback(base);
	if (c->lead_fd >= 0)
		file_unlock(c->lead_fd);
	leave_shared(c->s);
	free(c);
}

static int sqlite_open(const char *url, struct db_conn **out)
{
	char path[PATH_MAX];
	struct conn *c = calloc(1, sizeof *c);
	int rc = c ? full_path(url, path) : fail(E_NOMEM, "no memory");
	if (rc >= 0 && !in_memory(path))
		rc = make_file(path);
	if (rc >= 0)
		rc = full_path(url, path); /* again, since the file exists now */
	if (rc >= 0) {
		pthread_mutex_lock(&all_mutex);
		rc = find_shared(path, &c->s);
		pthread_mutex_unlock(&all_mutex);
	}
	if (rc < 0) {
		free(c);
		return rc;
	}
	c->base.db = &db_sqlite;
	c->lead_fd = -1;
	*out = &c->base;
	return E_OK;
}

const struct db db_sqlite = {
    .name = "sqlite",
    .prefix = "",
    .open = sqlite_open,
    .close = sqlite_close,
    .exec = sqlite_exec,
    .begin = sqlite_begin,
    .commit = sqlite_commit,
    .rollback = sqlite_rollback,
    .lead = sqlite_lead,
};
