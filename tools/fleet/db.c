/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/db.h"
#include "platform/base/buf.h"
#include <string.h>

char *db_language(const char *sql, const char *blob)
{
	struct buf b = {0};
	for (const char *p; (p = strstr(sql, "$blob")); sql = p + strlen("$blob")) {
		buf_add(&b, sql, (size_t)(p - sql));
		buf_puts(&b, blob);
	}
	buf_puts(&b, sql);
	return b.p;
}

int db_open(const char *url, struct db_conn **out)
{
	const struct db *any = NULL;
	*out = NULL;
	for (int i = 0; db_table[i]; i++) {
		const struct db *k = db_table[i];
		if (!*k->prefix)
			any = k;
		else if (!strncmp(url, k->prefix, strlen(k->prefix)))
			return k->open(url, out);
	}
	return any ? any->open(url, out)
		   : fail(E_UNSUPPORTED, "database %s: unknown kind; use a file or postgresql://...", url);
}

void db_close(struct db_conn *c)
{
	if (c)
		c->db->close(c);
}

int db_exec(struct db_conn *c, const char *sql, const struct db_value *param, int n, db_row_fn *fn, void *ctx)
{
	return c->db->exec(c, sql, param, n, fn, ctx);
}

int db_begin(struct db_conn *c)
{
	return c->db->begin(c);
}

int db_commit(struct db_conn *c)
{
	return c->db->commit(c);
}

void db_rollback(struct db_conn *c)
{
	c->db->rollback(c);
}

int db_lead(struct db_conn *c)
{
	return c->db->lead(c);
}
