/* SPDX-License-Identifier: Apache-2.0 */
/* One request over libcurl. Part of sync_fetch.c; not for others. */
#ifndef AGENT_SYNC_HTTP_H
#define AGENT_SYNC_HTTP_H

#include "agent/sync/sync_fetch.h"

struct http;

struct http_ask {
	const char *name; /* appended to the server's URL */
	const char *etag; /* for If-None-Match, or with `from` for If-Range; NULL: none */
	size_t from;      /* offset of the first wanted byte */
	const char *type; /* content type of the posted `body`; NULL: GET */
	const void *body;
	size_t n;
	size_t most; /* bytes of the answer's body, at most */
	/* Called when the status is known, before `take` gets the first byte of a good body. from: the body's
	 * offset. < 0 ends the request. */
	int (*begin)(void *ctx, int status, const char *etag, size_t from);
	int (*take)(void *ctx, const void *p, size_t n); /* gets a good body's bytes; < 0 ends the request */
	void *ctx;
};

int http_open(const struct fetch_options *o, struct fetch_sum *sum, struct http **out) MUST_CHECK;
void http_close(struct http *h);
/* Returns the status: 200 to 299, 304 (only with an etag), 416 (only with `from`). */
int http_ask(struct http *h, const struct http_ask *q) MUST_CHECK;

#endif
