/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_parts.h"
#include "platform/base/log.h"
#include "tools/fleet/fleet_admin.h"
#include "tools/fleet/fleet_figures.h"
#include "tools/fleet/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RETRY_S = 30 };

const struct fleet_route fleet_routes[] = {
    {"POST", "/v1/records", fleet_records, .open = true},
    {"POST", "/v1/enrol", fleet_enrol, .open = true},
    {"GET", "/v1/health", fleet_health, .open = true},
    {"GET", "/v1/api/overview", api_overview},
    {"GET", "/v1/api/classes", api_classes},
    {"GET", "/v1/api/classes/*", api_class},
    {"GET", "/v1/api/classes/*/kernels", api_kernels},
    {"GET", "/v1/api/classes/*/models", api_models},
    {"GET", "/v1/api/boards", api_boards},
    {"GET", "/v1/api/boards/*", api_board},
    {"GET", "/v1/api/boards/*/words", api_words},
    {"GET", "/v1/api/rejects", api_rejects},
    {"GET", "/v1/api/revoked", api_revoked},
    {"GET", "/v1/api/log", api_log},
    {"POST", "/v1/admin/*", fleet_admin, .open = true},
    {"GET", "/v1/root/*", fleet_static, .open = true},
    {"GET", "/v1/blob/*", fleet_static, .open = true},
    {"GET", "/v1/*/*/snapshot", fleet_static, .open = true},
    {"GET", "/", page_overview},
    {"GET", "/page/style.css", page_style, .open = true},
    {"GET", "/page/class/*", page_class},
    {"GET", "/page/boards", page_boards},
    {"GET", "/page/board/*", page_board},
    {"GET", "/page/rejects", page_rejects},
    {"GET", "/page/records", page_records},
    {"GET", "/page/log", page_log},
    {"GET", "/page/sign-in", page_sign_in, .open = true},
    {"POST", "/page/sign-in", page_sign_in_done, .open = true},
    {"POST", "/page/sign-out", page_sign_out, .open = true},
    {"POST", "/page/do/*", page_do, .open = true},
    {"GET", "/openapi.json", fleet_openapi},
    {NULL},
};

/* Answers. */

void fleet_say_json(struct fleet_reply *r, int status, json_t *j)
{
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	json_decref(j);
	r->status = text ? status : 500;
	r->type = "application/json";
	buf_clear(&r->body);
	buf_puts(&r->body, text ? text : "{}");
	buf_puts(&r->body, "\n");
	free(text);
}

static void say_text(struct fleet_reply *r, int status, char *text)
{
	log_one_line(text);
	fleet_say_json(r, status, json_pack("{s:o}", "error", json_text(text)));
}

void fleet_say(struct fleet_reply *r, int status, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	say_text(r, status, text);
}

void fleet_say_fault(struct fleet_reply *r, int rc)
{
	log_error("%s", err_text());
	bool later = rc == E_BUSY || rc == E_IO || rc == E_TIMEOUT;
	fleet_say(r, later ? 503 : 500, "the server cannot do this%s",
		  later ? " now; try again later" : "; its log says why");
	r->retry_after_s = RETRY_S;
}

void fleet_refused(struct fleet *f, enum store_count what, const struct fleet_request *q, const char *who,
		   const char *why)
{
	pthread_mutex_lock(&f->mutex);
	f->uncounted[what]++;
	if (f->nrefused < FLEET_REFUSED) {
		struct store_refused *r = &f->refused[f->nrefused++];
		*r = (struct store_refused){
		    .at_us = f->date_s() * 1000000 + f->nrefused, .id = f->drawn++, .what = what};
		snprintf(r->who, sizeof r->who, "%s", who ? who : "");
		snprintf(r->peer, sizeof r->peer, "%s", q && q->peer ? q->peer : "");
		snprintf(r->why, sizeof r->why, "%s", why);
		log_one_line(r->who);
		log_one_line(r->peer);
		log_one_line(r->why);
	}
	pthread_mutex_unlock(&f->mutex);
}

void fleet_refuse(struct fleet *f, const struct fleet_request *q, struct fleet_reply *r, int status,
		  enum store_count what, const char *who, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	say_text(r, status, text);
	fleet_refused(f, what, q, who, text);
}

void fleet_count(struct fleet *f, enum store_count what, int64_t n)
{
	pthread_mutex_lock(&f->mutex);
	f->uncounted[what] += n;
	pthread_mutex_unlock(&f->mutex);
}

void fleet_reply_free(struct fleet_reply *r)
{
	buf_free(&r->body);
	if (r->file >= 0)
		close(r->file);
	r->file = -1;
}

void fleet_health(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	(void)f, (void)q;
	int rc = store_exec(c, "SELECT name FROM settings WHERE name = 'schema'", NULL, 0, NULL, NULL);
	if (rc < 0)
		fleet_say_fault(r, rc);
	else
		fleet_say_json(r, 200, json_pack("{s:b,s:s}", "ok", 1, "version", HONE_VERSION));
}

/* Requests. */

bool fleet_path_matches(const char *path, const char *pattern)
{
	for (; *pattern; pattern++) {
		size_t part = strcspn(path, "/");
		if (*pattern != '*' && *pattern != *path)
			return false;
		if (*pattern == '*' && !part)
			return false;
		path += *pattern == '*' ? part : 1;
	}
	return !*path;
}

static bool method_matches(const char *method, const char *wanted)
{
	return !strcmp(method, wanted) || (!strcmp(method, "HEAD") && !strcmp(wanted, "GET"));
}

static bool begins(const char *path, const char *with)
{
	return !strncmp(path, with, strlen(with));
}

/* Whether the peer may read a route that is not open; false: r says how to get access. */
static bool may_read(struct fleet *f, struct db_conn *c, const struct fleet_request *q, struct fleet_reply *r)
{
	struct admin_session s = {0};
	if (q->local || admin_has_token(f, q))
		return true;
	if (session_of(f, c, q, &s) >= 0 && s.in)
		return true;
	if (!admin_may(f, q, r))
		return false;
	if (begins(q->path, "/page/") || !strcmp(q->path, "/")) {
		r->status = 303;
		snprintf(r->location, sizeof r->location, "/page/sign-in");
	} else {
		admin_refuse_token(f, q, r);
	}
	return false;
}

void fleet_answer(struct fleet *f, int thread, const struct fleet_request *q, struct fleet_reply *r)
{
	bool path = false;
	*r = (struct fleet_reply){.file = -1};
	for (const struct fleet_route *k = fleet_routes; k->method; k++) {
		if (!fleet_path_matches(q->path, k->path))
			continue;
		path = true;
		if (method_matches(q->method, k->method)) {
			if (k->open || may_read(f, f->conn[thread], q, r))
				k->answer(f, f->conn[thread], q, r);
			return;
		}
	}
	if (path)
		fleet_refuse(f, q, r, 405, COUNT_REQUEST, NULL, "method %.16s is not allowed here",
			     q->method);
	else
		fleet_refuse(f, q, r, 404, COUNT_REQUEST, NULL, "no such path");
}

/* Opening and closing. */

struct noted {
	struct fleet *f;
	int n;
	struct store_refused refused[FLEET_REFUSED];
	int64_t count[STORE_COUNTS];
};

static int write_noted(struct db_conn *c, void *ctx)
{
	const struct noted *m = ctx;
	return store_note(c, m->refused, m->n, m->count);
}

/* If the refusals cannot be written, their notes are lost, but their counts are kept. */
int fleet_flush(struct fleet *f)
{
	struct noted m = {.f = f};
	bool any = false;
	pthread_mutex_lock(&f->mutex);
	m.n = f->nrefused;
	memcpy(m.refused, f->refused, (size_t)m.n * sizeof *m.refused);
	memcpy(m.count, f->uncounted, sizeof m.count);
	memset(f->uncounted, 0, sizeof f->uncounted);
	f->nrefused = 0;
	pthread_mutex_unlock(&f->mutex);
	for (int i = 0; i < STORE_COUNTS; i++)
		any |= m.count[i] != 0;
	int rc = any ? store_do(fleet_conn(f), write_noted, &m) : E_OK;
	for (int i = 0; i < STORE_COUNTS && rc < 0; i++)
		fleet_count(f, i, m.count[i]);
	return rc;
}

static int open_keys(struct fleet *f)
{
	char path[PATH_MAX];
	struct arena a = {0};
	struct blob pem;
	snprintf(path, sizeof path, "%s/ca.key", f->c.keys);
	int rc = private_key_read(path, &f->ca);
	if (rc >= 0) {
		snprintf(path, sizeof path, "%s/fleet.key", f->c.keys);
		rc = private_key_read(path, &f->key);
	}
	if (rc >= 0) {
		snprintf(path, sizeof path, "%s/ca.pem", f->c.keys);
		rc = file_read(&a, path, 64 << 10, &pem);
	}
	if (rc >= 0)
		buf_add(&f->ca_pem, pem.p, pem.n);
	arena_free(&a);
	return fail_in(rc, rc == E_NOTFOUND ? "keys (`hone-fleet init` makes them)" : "keys");
}

static int open_publish(struct fleet *f)
{
	f->publish_fd = -1;
	if (!f->c.publish || strstr(f->c.publish, "://"))
		return E_OK;
	int rc = file_mkdirs(f->c.publish, 0755);
	if (rc < 0)
		return rc;
	f->publish_fd = open(f->c.publish, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return f->publish_fd >= 0 ? E_OK : fail(E_IO, "folder %s: %s", f->c.publish, strerror(errno));
}

static int open_conns(struct fleet *f)
{
	int rc = E_OK;
	f->conn = calloc((size_t)f->c.threads + 1, sizeof *f->conn);
	if (!f->conn)
		return fail(E_NOMEM, "no memory");
	for (int i = 0; i <= f->c.threads && rc >= 0; i++)
		rc = store_database(f->c.db, &f->conn[i]);
	return rc;
}

int fleet_open(const struct fleet_conf *c, struct clock *clock, int64_t (*date_s)(void), struct fleet **out)
{
	*out = NULL;
	int rc = crypto_start();
	if (rc < 0)
		return rc;
	struct fleet *f = calloc(1, sizeof *f);
	if (!f)
		return fail(E_NOMEM, "no memory");
	f->c = *c;
	f->clock = clock;
	f->date_s = date_s;
	pthread_mutex_init(&f->mutex, NULL);
	rc = crypto_random(&f->drawn, sizeof f->drawn);
	if (rc >= 0)
		rc = figures_open(&f->kept);
	if (rc >= 0)
		rc = admin_open(c->admin, &f->admin);
	if (rc >= 0)
		rc = open_publish(f);
	if (rc >= 0)
		rc = open_keys(f);
	if (rc >= 0)
		rc = open_conns(f);
	if (rc < 0) {
		fleet_close(f);
		return rc;
	}
	*out = f;
	return E_OK;
}

void fleet_close(struct fleet *f)
{
	if (!f)
		return;
	if (f->conn && fleet_conn(f) && fleet_flush(f) < 0)
		log_error("%s", err_text());
	for (int i = 0; f->conn && i <= f->c.threads; i++)
		db_close(f->conn[i]);
	free(f->conn);
	place_close(f->place);
	if (f->publish_fd >= 0)
		close(f->publish_fd);
	private_key_free(f->ca);
	private_key_free(f->key);
	buf_free(&f->ca_pem);
	figures_close(f->kept);
	admin_close(f->admin);
	pthread_mutex_destroy(&f->mutex);
	free(f);
}
