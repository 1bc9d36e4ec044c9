/* SPDX-License-Identifier: Apache-2.0 */
/* PostgreSQL 12 or newer, by libpq: postgresql://USER@HOST/NAME?sslmode=verify-full, and all else that libpq
 * accepts there. Put a password into ~/.pgpass rather than into the URL, which process lists show.
 *
 * Transactions are REPEATABLE READ: each sees one snapshot, and if two change the same row, one gets E_BUSY.
 * (SERIALIZABLE would take predicate locks on whole small tables, and delay everybody for nothing.) A lock
 * that is not free within LOCK_MS is E_BUSY; a server that is gone is noticed after GONE_MS. If the answer to
 * a commit is lost, the result is E_IO and the commit may have happened: a caller that tries again must find
 * out.
 *
 * The leader holds an advisory lock, which ends with its session. So there must be no pooler that shares
 * sessions (pgbouncer in transaction mode) in between. If a leader loses its connection and then finds
 * another one leading, it gets E_STOPPED once, so that its round ends. */
#include "tools/fleet/db.h"
#include "platform/base/buf.h"

#include <endian.h>
#include <postgresql/libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCK_MS "2000"
#define GONE_MS "20000"
#define LEAD_KEY "7525336316946769263" /* any number that no other program locks there */
enum { STATEMENTS = 256 /* prepared statements that a connection keeps */, PARAMS = 32 };
enum { OID_BYTEA = 17, OID_INT8 = 20, OID_INT2 = 21, OID_INT4 = 23, OID_TEXT = 25 };

struct conn {
	struct db_conn base; /* must be first */
	char *url;
	char name[160]; /* for messages: without a password */
	PGconn *h;
	bool transaction, lost /* the next begin opens it again */, leads;
	bool reading; /* rows are being received */
	bool stale;   /* prepared statements are no longer valid */
	int nprepared;
	const char *prepared[STATEMENTS];
};

extern const struct db db_postgres;

/* Errors. */

/* Maps the beginning of an SQLSTATE to an error; the first match counts. */
static const struct kind {
	const char *state;
	int rc;
	const char *remedy;
	bool lost, stale;
} kinds[] = {{"40", E_BUSY, "try again"},
	     {"55P03", E_BUSY, "try again"},
	     {"55006", E_BUSY, "try again"},
	     {"57014", E_BUSY, "try again"},
	     {"0A000", E_BUSY, "a table has changed; try again", .stale = true},
	     {"26", E_BUSY, "its session was reset; try again", .stale = true},
	     {"08", E_IO, "check that its server runs", .lost = true},
	     {"25006", E_IO, "this server is read-only: name the primary", .lost = true},
	     {"57P", E_IO, "its server is starting or stopping; try again", .lost = true},
	     {"53200", E_NOMEM, "give its server more memory"},
	     {"53300", E_IO, "raise max_connections"},
	     {"53", E_IO, "make room on its disk"},
	     {"22", E_WRONG, "the value does not fit its column"},
	     {"23", E_WRONG, "the row breaks the table's rules"},
	     {"28", E_IO, "check the user, the password and pg_hba.conf", .lost = true},
	     {"42501", E_USAGE, "grant this user the right"},
	     {"25", E_USAGE, "an earlier statement of the transaction failed"},
	     {"42", E_USAGE, "the statement is wrong"},
	     {"XX001", E_CORRUPT, "restore it from a backup"},
	     {"XX002", E_CORRUPT, "reindex it"}};

/* Length of the first line of a text from libpq. */
static int line_of(const char *text)
{
	return (int)strcspn(text, "\n");
}

static int lost(struct conn *c, const char *what)
{
	const char *why = PQerrorMessage(c->h);
	c->lost = true;
	return fail(E_IO, "database %s: %s: %.*s; check that its server runs", c->name, what,
		    line_of(why), why);
}

/* Makes the error of a result; r NULL: of the connection. */
static int failed(struct conn *c, const PGresult *r, const char *what)
{
	const char *state = r ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;
	const char *why = r ? PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) : NULL;
	if (!state || !why)
		return r && PQstatus(c->h) == CONNECTION_OK
			   ? fail(E_NOMEM, "database %s: %s: no memory for the answer", c->name, what)
			   : lost(c, what);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strncmp(kinds[i].state, state, strlen(kinds[i].state))) {
			c->lost |= kinds[i].lost;
			c->stale |= kinds[i].stale;
			return fail(kinds[i].rc, "database %s: %s: %s; %s", c->name, what, why,
				    kinds[i].remedy);
		}
	return fail(E_IO, "database %s: %s: %s (%s); look at its log", c->name, what, why, state);
}

static int plain(struct conn *c, const char *sql)
{
	PGresult *r = PQexec(c->h, sql);
	ExecStatusType s = PQresultStatus(r);
	int rc = s == PGRES_COMMAND_OK || s == PGRES_TUPLES_OK ? E_OK : failed(c, r, sql);
	PQclear(r);
	return rc;
}

/* Connections. */

static void no_notice(void *ctx, const PGresult *r)
{
	(void)ctx, (void)r;
}

/* Commits must be durable even if an administrator has turned synchronous_commit off. */
static const char set_up[] =
    "SET lock_timeout = " LOCK_MS "; SET idle_in_transaction_session_timeout = " GONE_MS
    "; SET bytea_output = hex; SELECT CASE WHEN current_setting('synchronous_commit') = 'off' THEN "
    "set_config('synchronous_commit', 'on', false) END";

static void name_it(struct conn *c)
{
	const char *host = PQhost(c->h), *db = PQdb(c->h);
	snprintf(c->name, sizeof c->name, "postgresql://%s/%s", host ? host : "", db ? db : "");
}

static int connect_once(struct conn *c)
{
	const char *const words[] = {"connect_timeout",
				     "tcp_user_timeout",
				     "keepalives_idle",
				     "application_name",
				     "dbname",
				     "client_encoding",
				     NULL};
	const char *const values[] = {"5", GONE_MS, "10", "hone-fleet", c->url, "UTF8", NULL};
	PQfinish(c->h);
	c->nprepared = 0;
	c->lost = c->stale = c->transaction = false;
	c->h = PQconnectdbParams(words, values, 1);
	if (!c->h)
		return fail(E_NOMEM, "no memory");
	name_it(c);
	if (PQstatus(c->h) != CONNECTION_OK)
		return lost(c, "connect");
	PQsetNoticeReceiver(c->h, no_notice, NULL);
	return plain(c, set_up);
}

static int try_lead(struct conn *c)
{
	PGresult *r = PQexec(c->h, "SELECT pg_try_advisory_lock(" LEAD_KEY ")");
	int rc = PQresultStatus(r) != PGRES_TUPLES_OK ? failed(c, r, "lead") : *PQgetvalue(r, 0, 0) == 't';
	PQclear(r);
	c->leads = rc > 0;
	return rc;
}

/* Connects again, outside a transaction. */
static int connect_again(struct conn *c)
{
	bool led = c->leads;
	c->leads = false;
	int rc = connect_once(c);
	if (rc >= 0 && led)
		rc = try_lead(c);
	return rc < 0 || !led || rc
		   ? rc
		   : fail(E_STOPPED, "database %s: the connection was lost, and another instance leads",
			  c->name);
}

static bool is_lost(const struct conn *c)
{
	return c->lost || PQstatus(c->h) != CONNECTION_OK;
}

/* Statements. */

static bool tail(const unsigned char *p, int n)
{
	while (n > 0 && (*p & 0xc0) == 0x80)
		n--, p++;
	return n == 0;
}

/* Checks UTF-8 as PostgreSQL does: no surrogates, no overlong forms. */
static bool is_utf8(const char *text)
{
	static const struct {
		unsigned char first, last, least, most; /* ranges of the first and the second byte */
		int more;
	} forms[] = {{0x01, 0x7f, 0, 0, 0},       {0xc2, 0xdf, 0x80, 0xbf, 1}, {0xe0, 0xe0, 0xa0, 0xbf, 2},
		     {0xe1, 0xec, 0x80, 0xbf, 2}, {0xed, 0xed, 0x80, 0x9f, 2}, {0xee, 0xef, 0x80, 0xbf, 2},
		     {0xf0, 0xf0, 0x90, 0xbf, 3}, {0xf1, 0xf3, 0x80, 0xbf, 3}, {0xf4, 0xf4, 0x80, 0x8f, 3}};
	const unsigned char *p = (const unsigned char *)text;
	while (*p) {
		size_t i = 0;
		while (i < sizeof forms / sizeof *forms && (*p < forms[i].first || *p > forms[i].last))
			i++;
		if (i == sizeof forms / sizeof *forms ||
		    (forms[i].more && (p[1] < forms[i].least || p[1] > forms[i].most)) ||
		    !tail(p + 1, forms[i].more))
			return false;
		p += 1 + forms[i].more;
	}
	return true;
}

struct params {
	int n;
	Oid type[PARAMS];
	const char *value[PARAMS];
	int length[PARAMS], binary[PARAMS];
	int64_t whole[PARAMS];
	char *copy[PARAMS]; /* copies of texts that were not UTF-8 */
};

static int take_text(struct params *p, int i, const char *text)
{
	p->type[i] = OID_TEXT;
	p->value[i] = text ? text : "";
	if (is_utf8(p->value[i]))
		return E_OK;
	p->value[i] = p->copy[i] = strdup(text);
	for (char *s = p->copy[i]; s && *s; s++)
		*s = (unsigned char)*s < 0x80 ? *s : '?';
	return p->copy[i] ? E_OK : fail(E_NOMEM, "no memory");
}

static int take_param(struct params *p, int i, const struct db_value *v)
{
	switch (v->type) {
	case DB_INT:
		p->type[i] = OID_INT8;
		p->whole[i] = (int64_t)htobe64((uint64_t)v->i);
		p->value[i] = (const char *)&p->whole[i];
		p->length[i] = sizeof p->whole[i];
		p->binary[i] = 1;
		break;
	case DB_TEXT:
		return take_text(p, i, v->p);
	case DB_BLOB:
		p->type[i] = OID_BYTEA;
		p->value[i] = v->p ? v->p : "";
		p->length[i] = (int)v->n;
		p->binary[i] = 1;
		break;
	case DB_NULL:
		break;
	}
	return v->n <= 1 << 30 ? E_OK : fail(E_USAGE, "a value of more than 1 GiB");
}

static int take_params(struct params *p, const struct db_value *param, int n)
{
	int rc = n <= PARAMS ? E_OK : fail(E_USAGE, "more than %d parameters", PARAMS);
	memset(p, 0, sizeof *p);
	for (; p->n < n && rc >= 0; p->n += rc >= 0)
		rc = take_param(p, p->n, &param[p->n]);
	return rc;
}

static void free_params(struct params *p)
{
	for (int i = 0; i < PARAMS; i++)
		free(p->copy[i]);
}

static int prepare(struct conn *c, const char *sql, const char *text, const struct params *p, char name[16])
{
	snprintf(name, 16, "s%d", c->nprepared);
	PGresult *r = PQprepare(c->h, name, text, p->n, p->type);
	int rc = PQresultStatus(r) == PGRES_COMMAND_OK ? E_OK : failed(c, r, sql);
	PQclear(r);
	if (rc >= 0)
		c->prepared[c->nprepared++] = sql;
	return rc;
}

/* If no more prepared statements can be kept, a new one is sent each time without a name. */
static int send_new(struct conn *c, const char *sql, const struct params *p)
{
	char name[16] = "", *text = db_language(sql, "BYTEA");
	int rc = !text                       ? fail(E_NOMEM, "no memory")
		 : c->nprepared < STATEMENTS ? prepare(c, sql, text, p, name)
					     : E_OK;
	if (rc >= 0 &&
	    !(*name ? PQsendQueryPrepared(c->h, name, p->n, p->value, p->length, p->binary, 0)
		    : PQsendQueryParams(c->h, text, p->n, p->type, p->value, p->length, p->binary, 0)))
		rc = lost(c, sql);
	free(text);
	return rc;
}

static int send(struct conn *c, const char *sql, const struct params *p)
{
	char name[16];
	int i = 0;
	while (i < c->nprepared && c->prepared[i] != sql)
		i++;
	if (i == c->nprepared)
		return send_new(c, sql, p);
	snprintf(name, sizeof name, "s%d", i);
	return PQsendQueryPrepared(c->h, name, p->n, p->value, p->length, p->binary, 0) ? E_OK : lost(c, sql);
}

static int digit(char x)
{
	return x <= '9' ? x - '0' : x - 'a' + 10;
}

/* Decodes "\x00ff" in place. */
static struct db_value blob(char *hex, size_t n)
{
	size_t bytes = n < 2 ? 0 : (n - 2) / 2;
	for (size_t i = 0; i < bytes; i++)
		hex[i] = (char)(digit(hex[2 + 2 * i]) << 4 | digit(hex[3 + 2 * i]));
	return DB_B(hex, bytes);
}

static struct db_value column(const PGresult *r, int i)
{
	char *p = PQgetvalue(r, 0, i);
	size_t n = (size_t)PQgetlength(r, 0, i);
	if (PQgetisnull(r, 0, i))
		return (struct db_value){.type = DB_NULL};
	switch (PQftype(r, i)) {
	case OID_INT2:
	case OID_INT4:
	case OID_INT8:
		return DB_I(strtoll(p, NULL, 10));
	case OID_BYTEA:
		return blob(p, n);
	default:
		return (struct db_value){.type = DB_TEXT, .p = p, .n = n};
	}
}

static int give_row(const PGresult *r, db_row_fn *fn, void *ctx)
{
	struct db_value col[DB_COLUMNS];
	int n = PQnfields(r);
	n = n < DB_COLUMNS ? n : DB_COLUMNS;
	for (int i = 0; i < n; i++)
		col[i] = column(r, i);
	return fn ? fn(ctx, col, n) : E_OK;
}

/* Takes rows one by one, so many rows take no memory. After an error, the other rows are skipped. */
static int receive(struct conn *c, const char *sql, db_row_fn *fn, void *ctx)
{
	PGresult *r;
	int n = 0, rc = E_OK;
	while ((r = PQgetResult(c->h))) {
		ExecStatusType s = PQresultStatus(r);
		if (s == PGRES_SINGLE_TUPLE && rc >= 0) {
			rc = give_row(r, fn, ctx);
			n++;
		} else if (s == PGRES_COMMAND_OK) {
			n = atoi(PQcmdTuples(r));
		} else if (s != PGRES_SINGLE_TUPLE && s != PGRES_TUPLES_OK && rc >= 0) {
			rc = failed(c, r, sql);
		}
		PQclear(r);
	}
	return rc < 0 ? rc : n;
}

static int run(struct conn *c, const char *sql, const struct db_value *param, int n, db_row_fn *fn, void *ctx)
{
	struct params p;
	int rc = take_params(&p, param, n);
	if (rc >= 0)
		rc = send(c, sql, &p);
	if (rc >= 0) {
		(void)PQsetSingleRowMode(c->h);
		c->reading = true;
		rc = receive(c, sql, fn, ctx);
		c->reading = false;
	}
	free_params(&p);
	return rc;
}

static int forget_prepared(struct conn *c)
{
	int rc = plain(c, "DEALLOCATE ALL");
	if (rc >= 0)
		c->nprepared = 0;
	c->stale = rc < 0;
	return rc;
}

static int postgres_exec(struct db_conn *base, const char *sql, const struct db_value *param, int n,
			 db_row_fn *fn, void *ctx)
{
	struct conn *c = (struct conn *)base;
	if (c->reading)
		return fail(E_USAGE, "database %s: a statement was started before all rows of another were read: %s", c->name, sql);
	int rc = c->stale && !c->transaction ? forget_prepared(c) : E_OK;
	return rc < 0 ? rc : run(c, sql, param, n, fn, ctx);
}

/* Transactions. */

static int postgres_begin(struct db_conn *base)
{
	static const char sql[] = "BEGIN ISOLATION LEVEL REPEATABLE READ";
	struct conn *c = (struct conn *)base;
	if (c->transaction)
		return fail(E_USAGE, "database %s: a transaction is already open", c->name);
	int rc = is_lost(c) ? connect_again(c) : c->stale ? forget_prepared(c) : E_OK;
	if (rc >= 0)
		rc = plain(c, sql);
	/* A connection that was lost long ago is only noticed now. Nothing has begun yet, so nothing is
	 * lost. */
	if (rc == E_IO && is_lost(c) && (rc = connect_again(c)) >= 0)
		rc = plain(c, sql);
	c->transaction = rc >= 0;
	return rc;
}

static void postgres_rollback(struct db_conn *base)
{
	struct conn *c = (struct conn *)base;
	if (c->transaction && !is_lost(c))
		c->lost |= plain(c, "ROLLBACK") < 0;
	c->transaction = false;
}

/* COMMIT rolls back a transaction that has failed, and the server calls that a success. */
static int postgres_commit(struct db_conn *base)
{
	struct conn *c = (struct conn *)base;
	if (!c->transaction)
		return fail(E_USAGE, "database %s: no transaction is open", c->name);
	c->transaction = false;
	PGresult *r = PQexec(c->h, "COMMIT");
	int rc = PQresultStatus(r) != PGRES_COMMAND_OK ? failed(c, r, "COMMIT") : E_OK;
	if (rc >= 0 && strcmp(PQcmdStatus(r), "COMMIT") != 0)
		rc = fail(E_USAGE, "database %s: COMMIT: a statement of the transaction had failed", c->name);
	PQclear(r);
	return rc;
}

static int postgres_lead(struct db_conn *base)
{
	struct conn *c = (struct conn *)base;
	if (c->leads && !is_lost(c) && plain(c, "SELECT 1") >= 0)
		return 1; /* the session lives, so its lock does, too */
	int rc = is_lost(c) ? connect_once(c) : E_OK;
	return rc < 0 ? rc : try_lead(c);
}

/* Opening and closing. */

static void postgres_close(struct db_conn *base)
{
	struct conn *c = (struct conn *)base;
	postgres_rollback(base);
	if (c->leads && !is_lost(c)) /* now, not when the server notices */
		(void)!plain(c, "SELECT pg_advisory_unlock(" LEAD_KEY ")");
	PQfinish(c->h);
	free(c->url);
	free(c);
}

static int postgres_open(const char *url, struct db_conn **out)
{
	struct conn *c = calloc(1, sizeof *c);
	if (!c || !(c->url = strdup(url))) {
		free(c);
		return fail(E_NOMEM, "no memory");
	}
	c->base.db = &db_postgres;
	int rc = connect_once(c);
	if (rc < 0)
		postgres_close(&c->base);
	else
		*out = &c->base;
	return rc;
}

const struct db db_postgres = {
    .name = "postgres",
    .prefix = "postgresql://",
    .open = postgres_open,
    .close = postgres_close,
    .exec = postgres_exec,
    .begin = postgres_begin,
    .commit = postgres_commit,
    .rollback = postgres_rollback,
    .lead = postgres_lead,
};
