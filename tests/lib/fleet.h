/* SPDX-License-Identifier: Apache-2.0 */
/* A fleet's server inside the test, with its own database, keys and boards, and requests to it. */
#ifndef TESTS_FLEET_H
#define TESTS_FLEET_H

#include "agent/sync/batch.h"
#include "platform/base/log.h"
#include "tests/lib/keys.h"
#include "tests/lib/records.h"
#include "tests/lib/test.h"
#include "tools/fleet/fleet_conf.h"
#include "tools/fleet/fleet_parts.h"

#include <sys/stat.h>
#include <unistd.h>

static char fleet_dir[64];
static int64_t fleet_now_s;
static const char fleet_class[] = "0123456789abcdef0123456789abcdef";

static inline int64_t fleet_date(void)
{
	return fleet_now_s;
}

/* Path of `name` in the folder; the last eight results are valid. */
static inline const char *fleet_path(const char *name)
{
	static char path[8][256];
	static int turn;
	turn = (turn + 1) % 8;
	snprintf(path[turn], sizeof *path, "%s/%s", fleet_dir, name);
	return path[turn];
}

__attribute__((destructor)) static inline void fleet_remove(void)
{
	char cmd[96];
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", fleet_dir);
	if (fleet_dir[0] && system(cmd) != 0)
		fprintf(stderr, "cannot remove %s\n", fleet_dir);
}

static inline void fleet_file(const char *name, const void *p, size_t n)
{
	char dir[256];
	snprintf(dir, sizeof dir, "%s", fleet_path(name));
	*strrchr(dir, '/') = 0;
	if (file_mkdirs(dir, 0700) < 0 || file_write(fleet_path(name), p, n) < 0)
		abort();
}

/* Writes key files: the certificate authority's key is keys(1), the fleet's is keys(2). */
static inline void fleet_keys(void)
{
	struct buf pem = {0};
	const struct test_keys *k = keys(2);
	if (fleet_dir[0])
		return;
	snprintf(fleet_dir, sizeof fleet_dir, "/tmp/hone-test-fleet-XXXXXX");
	if (!mkdtemp(fleet_dir) || file_mkdirs(fleet_path("keys"), 0700) < 0 ||
	    cert_write_ca(k->private[0], "test", &pem) < 0 ||
	    private_key_write(k->private[0], fleet_path("keys/ca.key")) < 0 ||
	    private_key_write(k->private[1], fleet_path("keys/fleet.key")) < 0)
		abort();
	fleet_file("keys/ca.pem", pem.p, pem.n);
	buf_free(&pem);
}

static inline struct fleet_conf fleet_conf_test(void)
{
	static char at[2][256];
	struct fleet_conf c;
	fleet_keys();
	snprintf(at[0], sizeof *at, "%s", fleet_path("keys"));
	snprintf(at[1], sizeof *at, "%s", fleet_path("publish"));
	fleet_conf_default(&c);
	c.db = ":memory:fleet";
	c.keys = at[0];
	c.publish = at[1];
	c.threads = 1;
	fleet_now_s = INT64_C(20000) * 86400 + 100;
	return c;
}

static inline struct fleet *fleet_begin(void)
{
	struct fleet_conf c = fleet_conf_test();
	struct fleet *f = NULL;
	CHECK_OK(fleet_open(&c, &clock_real, fleet_date, &f));
	return f;
}

/* Requests. */

static struct fleet_reply fleet_said; /* the last reply */
static char fleet_text[64 << 10];     /* its body, also where that is a file */

static inline int fleet_ask(struct fleet *f, const struct fleet_request *q)
{
	fleet_answer(f, 0, q, &fleet_said);
	ssize_t n = 0;
	if (fleet_said.file >= 0) {
		size_t most =
		    fleet_said.n < (int64_t)sizeof fleet_text ? (size_t)fleet_said.n : sizeof fleet_text - 1;
		n = pread(fleet_said.file, fleet_text, most, fleet_said.from);
	} else if (fleet_said.body.n < sizeof fleet_text) {
		n = (ssize_t)fleet_said.body.n;
		memcpy(fleet_text, buf_str(&fleet_said.body), (size_t)n);
	}
	fleet_text[n > 0 ? n : 0] = 0;
	fleet_reply_free(&fleet_said);
	return fleet_said.status;
}

static inline int fleet_get(struct fleet *f, const char *path)
{
	return fleet_ask(
	    f, &(struct fleet_request){.method = "GET", .path = path, .query = "", .local = true});
}

static inline int fleet_post(struct fleet *f, const char *path, const void *p, size_t n)
{
	return fleet_ask(
	    f, &(struct fleet_request){
		   .method = "POST", .path = path, .query = "", .body = p, .n = n, .peer = "192.0.2.7"});
}

/* A number of the last JSON reply; -1: it has none of that name. */
static inline int64_t fleet_number(const char *name)
{
	json_t *j = json_loads(fleet_text, 0, NULL), *v = json_object_get(j, name);
	int64_t n = json_is_boolean(v) ? json_is_true(v) : json_is_integer(v) ? json_integer_value(v) : -1;
	json_decref(j);
	return n;
}

/* Boards: board i has the key keys(3 + i). */

static inline const struct private_key *fleet_board(int i)
{
	return keys(2 + i + 1)->private[2 + i];
}

static inline const char *fleet_board_id(int i)
{
	static char id[4][KEY_ID_HEX + 1];
	public_key_id(&keys(2 + i + 1)->public[2 + i], id[i % 4]);
	return id[i % 4];
}

static inline const char *fleet_token(struct fleet *f, int uses)
{
	static char token[TOKEN_TEXT];
	CHECK_OK(store_token_make(fleet_conn(f), "test", fleet_now_s, fleet_now_s + 3600, uses, token));
	return token;
}

static inline int fleet_join(struct fleet *f, const char *token, const struct private_key *key,
			     const char *name)
{
	struct buf csr = {0};
	CHECK_OK(csr_write(key, name, &csr));
	json_t *j = json_pack("{s:s,s:s}", "token", token, "csr", buf_str(&csr));
	char *body = json_dumps(j, 0);
	int status = fleet_post(f, "/v1/enrol", body, strlen(body));
	free(body);
	json_decref(j);
	buf_free(&csr);
	return status;
}

/* Makes a batch signed by the board: records from..from+n-1, with times of ns, ns+1, ... */
static inline void fleet_batch(const struct private_key *key, int from, int n, int64_t ns, struct buf *out)
{
	struct arena a = {0};
	struct buf payload = {0};
	struct key cls;
	struct public_key public;
	char id[KEY_ID_HEX + 1];
	const char *line[BATCH_RECORDS];
	CHECK_OK(key_parse(fleet_class, &cls));
	for (int i = 0; i < n; i++) {
		struct rec r = record(&a, from + i, cls, ns + i);
		line[i] = record_line(&a, &r);
	}
	private_key_public(key, &public);
	public_key_id(&public, id);
	CHECK_OK(batch_print(fleet_class, id, "a board for tests", line, n, &payload));
	buf_clear(out);
	CHECK_OK(signed_write("records", payload.p, payload.n, &key, 1, out));
	buf_free(&payload);
	arena_free(&a);
}

static inline int fleet_send(struct fleet *f, const struct private_key *key, int from, int n, int64_t ns)
{
	struct buf b = {0};
	fleet_batch(key, from, n, ns, &b);
	int status = fleet_post(f, "/v1/records", b.p, b.n);
	buf_free(&b);
	return status;
}

static inline int64_t fleet_counted(struct fleet *f, enum store_count what)
{
	CHECK_OK(fleet_flush(f));
	return store_count(fleet_conn(f), what);
}

/* The database. */

static inline int fleet_rows(struct fleet *f, const char *sql)
{
	return db_exec(fleet_conn(f), sql, NULL, 0, NULL, NULL);
}

static inline int fleet_on_int(void *ctx, const struct db_value *col, int n)
{
	*(int64_t *)ctx = n == 1 ? col[0].i : -1;
	return E_OK;
}

/* The number that a query of one row and column gives. */
static inline int64_t fleet_int(struct fleet *f, const char *sql)
{
	int64_t v = -1;
	CHECK(db_exec(fleet_conn(f), sql, NULL, 0, fleet_on_int, &v) == 1);
	return v;
}

#endif
