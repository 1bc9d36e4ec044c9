/* SPDX-License-Identifier: Apache-2.0 */
/* One request over libcurl. Part of sync_fetch.c; not for others. */
#ifndef AGENT_SYNC_HTTP_H
#define AGENT_SYNC_HTTP_H

#include "agent/sync/sync_fetch.h"

struct http;

struct http_ask {
	const char *name; /* behind the server's URL */
	const char *etag; /* If-None-Match; with `from`, If-Range; NULL: none */
	size_t from;      /* first byte that is wanted */
	const char *type; /* of `body`, which is posted; NULL: GET */
	const void *body;
	size_t n;
	size_t most; /* bytes of the answer's body */
	/* The status is known, and no byte of a good body was taken. from: where it begins. < 0 ends it. */
	int (*begin)(void *ctx, int status, const char *etag, size_t from);
	int (*take)(void *ctx, const void *p, size_t n); /* of a good body; < 0 ends it */
	void *ctx;
};

int http_open(const struct fetch_options *o, struct fetch_sum *sum, struct http **out) MUST_CHECK;
void http_close(struct http *h);
/* The status: 200 to 299, 304 (only with an etag), 416 (only with `from`). */
int http_ask(struct http *h, const struct http_ask *q) MUST_CHECK;

#endif
