/* SPDX-License-Identifier: Apache-2.0 */
/* A small store with S3's protocol: it keeps objects in memory, checks every signature with its own code
 * (HMAC by its definition), and fails when told. */
#ifndef TESTS_FAKE_S3_H
#define TESTS_FAKE_S3_H

#include "agent/sync/crypto.h"
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_REGION "test-1"
#define FAKE_ID "AKIDFAKE"
#define FAKE_SECRET "a/secret+of=the fake"
enum { FAKE_OBJECTS = 1024 };

struct fake_object {
	char path[256], cache[64];
	char *p;
	size_t n;
};

struct fake_s3 {
	struct MHD_Daemon *d;
	pthread_mutex_t mutex;
	char url[64], host[32];
	int requests, puts, heads, deletes, wrong;
	int fail, fail_status; /* so many requests get fail_status */
	int nobject;
	struct fake_object object[FAKE_OBJECTS];
};

static inline struct fake_object *fake_s3_find(struct fake_s3 *f, const char *path)
{
	for (int i = 0; i < f->nobject; i++)
		if (f->object[i].p && !strcmp(f->object[i].path, path))
			return &f->object[i];
	return NULL;
}

/* HMAC-SHA256 by the definition in RFC 2104. */
static inline void fake_hmac(const uint8_t *key, size_t nkey, const char *text, uint8_t out[32])
{
	uint8_t block[64] = {0};
	struct sha256 h;
	struct buf b = {0};
	memcpy(block, key, nkey);
	for (int side = 0; side < 2; side++) {
		uint8_t pad[64];
		for (int i = 0; i < 64; i++)
			pad[i] = block[i] ^ (side ? 0x5c : 0x36);
		buf_clear(&b);
		buf_add(&b, pad, 64);
		buf_add(&b, side ? (const char *)h.b : text, side ? 32 : strlen(text));
		if (crypto_sha256(b.p, b.n, &h) < 0)
			abort();
	}
	memcpy(out, h.b, 32);
	buf_free(&b);
}

static inline void fake_hex_sha(const void *p, size_t n, char out[65])
{
	struct sha256 h;
	if (crypto_sha256(n ? p : "", n, &h) < 0)
		abort();
	hex_write(h.b, 32, out);
}

/* Computes the "Signature=" that this request should have. */
static inline void fake_signature(struct MHD_Connection *c, const char *method, const char *path,
				  const char *names, const char *payload, char out[65])
{
	char date[32], day[9] = "", hash[65], text[512], list[256];
	const char *d = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "x-amz-date");
	struct buf r = {0};
	uint8_t k[64] = "AWS4" FAKE_SECRET, mac[32];
	snprintf(date, sizeof date, "%s", d ? d : "");
	memcpy(day, date, 8);
	snprintf(list, sizeof list, "%s", names);
	buf_printf(&r, "%s\n%s\n\n", method, path);
	char *save = NULL;
	for (char *name = strtok_r(list, ";", &save); name; name = strtok_r(NULL, ";", &save)) {
		const char *v = MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
		buf_printf(&r, "%s:%s\n", name, v ? v : "");
	}
	buf_printf(&r, "\n%s\n%s", names, payload);
	fake_hex_sha(r.p, r.n, hash);
	buf_free(&r);
	snprintf(text, sizeof text, "AWS4-HMAC-SHA256\n%s\n%s/" FAKE_REGION "/s3/aws4_request\n%s", date, day,
		 hash);
	fake_hmac(k, strlen((char *)k), day, mac);
	fake_hmac(mac, 32, FAKE_REGION, mac);
	fake_hmac(mac, 32, "s3", mac);
	fake_hmac(mac, 32, "aws4_request", mac);
	fake_hmac(mac, 32, text, mac);
	hex_write(mac, 32, out);
}

/* The host, the body's hash and the date must be signed and correct. */
static inline bool fake_good(struct fake_s3 *f, struct MHD_Connection *c, const char *method,
			     const char *path, const struct buf *body)
{
	char names[256] = "", hash[65], want[65];
	const char *a = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "authorization");
	const char *h = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "x-amz-content-sha256");
	const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "host");
	const char *at = a ? strstr(a, "SignedHeaders=") : NULL, *sig = a ? strstr(a, "Signature=") : NULL;
	bool token = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "x-amz-security-token") != NULL;
	if (!at || !sig || !h || !host || strcmp(host, f->host))
		return false;
	sscanf(at, "SignedHeaders=%255[a-z0-9;-]", names);
	fake_hex_sha(body->p, body->n, hash);
	fake_signature(c, method, path, names, hash, want);
	return !strcmp(h, hash) && !strcmp(sig + 10, want) && strstr(a, "Credential=" FAKE_ID "/") &&
	       !strcmp(names, token ? "host;x-amz-content-sha256;x-amz-date;x-amz-security-token"
				    : "host;x-amz-content-sha256;x-amz-date");
}

static inline enum MHD_Result fake_say(struct MHD_Connection *c, int status, const char *code, size_t length)
{
	char text[256] = "";
	if (code)
		snprintf(text, sizeof text, "<?xml version=\"1.0\"?>\n<Error><Code>%s</Code></Error>", code);
	char *body = length ? calloc(length, 1) : strdup(text);
	struct MHD_Response *r =
	    MHD_create_response_from_buffer(length ? length : strlen(text), body, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result rc = MHD_queue_response(c, (unsigned)status, r);
	MHD_destroy_response(r);
	return rc;
}

static inline void fake_keep(struct fake_s3 *f, const char *path, const char *cache, const struct buf *body)
{
	struct fake_object *o = fake_s3_find(f, path);
	if (!o) {
		if (f->nobject == FAKE_OBJECTS)
			abort();
		o = &f->object[f->nobject++];
	}
	free(o->p);
	snprintf(o->path, sizeof o->path, "%s", path);
	snprintf(o->cache, sizeof o->cache, "%s", cache ? cache : "");
	o->p = malloc(body->n + 1);
	o->n = body->n;
	memcpy(o->p, buf_str(body), body->n);
}

static inline enum MHD_Result fake_answer(struct fake_s3 *f, struct MHD_Connection *c, const char *method,
					  const char *path, const struct buf *body)
{
	struct fake_object *o = fake_s3_find(f, path);
	f->requests++;
	if (f->fail) {
		f->fail--;
		return fake_say(c, f->fail_status, f->fail_status >= 429 ? "SlowDown" : "AccessDenied", 0);
	}
	if (!fake_good(f, c, method, path, body)) {
		f->wrong++;
		return fake_say(c, 403, "SignatureDoesNotMatch", 0);
	}
	if (!strcmp(method, "HEAD")) {
		f->heads++;
		return fake_say(c, o ? 200 : 404, NULL, o ? o->n : 0);
	}
	if (!strcmp(method, "PUT")) {
		f->puts++;
		fake_keep(f, path, MHD_lookup_connection_value(c, MHD_HEADER_KIND, "cache-control"), body);
		return fake_say(c, 200, NULL, 0);
	}
	f->deletes++;
	if (o) {
		free(o->p);
		o->p = NULL;
	}
	return fake_say(c, 204, NULL, 0);
}

static inline enum MHD_Result fake_request(void *cls, struct MHD_Connection *c, const char *path,
					   const char *method, const char *version, const char *p, size_t *n,
					   void **ctx)
{
	struct fake_s3 *f = cls;
	struct buf *body = *ctx;
	(void)version;
	if (!body) {
		*ctx = calloc(1, sizeof *body);
		return MHD_YES;
	}
	if (*n) {
		buf_add(body, p, *n);
		*n = 0;
		return MHD_YES;
	}
	pthread_mutex_lock(&f->mutex);
	enum MHD_Result rc = fake_answer(f, c, method, path, body);
	pthread_mutex_unlock(&f->mutex);
	return rc;
}

static inline void fake_end(void *cls, struct MHD_Connection *c, void **ctx,
			    enum MHD_RequestTerminationCode why)
{
	struct buf *body = *ctx;
	(void)cls, (void)c, (void)why;
	if (body)
		buf_free(body);
	free(body);
	*ctx = NULL;
}

/* Paths are compared as they were sent. */
static inline size_t fake_unescape(void *cls, struct MHD_Connection *c, char *s)
{
	(void)cls, (void)c;
	return strlen(s);
}

static inline struct fake_s3 *fake_s3_start(void)
{
	struct fake_s3 *f = calloc(1, sizeof *f);
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (crypto_start() < 0)
		abort();
	pthread_mutex_init(&f->mutex, NULL);
	f->d = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, fake_request, f,
				MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&at, MHD_OPTION_NOTIFY_COMPLETED,
				fake_end, NULL, MHD_OPTION_UNESCAPE_CALLBACK, fake_unescape, NULL,
				MHD_OPTION_END);
	if (!f->d)
		abort();
	int port = MHD_get_daemon_info(f->d, MHD_DAEMON_INFO_BIND_PORT)->port;
	snprintf(f->host, sizeof f->host, "127.0.0.1:%d", port);
	snprintf(f->url, sizeof f->url, "http://%s/", f->host);
	return f;
}

static inline void fake_s3_stop(struct fake_s3 *f)
{
	MHD_stop_daemon(f->d);
	for (int i = 0; i < f->nobject; i++)
		free(f->object[i].p);
	free(f);
}

#endif
