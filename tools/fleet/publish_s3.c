/* SPDX-License-Identifier: Apache-2.0 */
/* An S3-compatible store: s3://BUCKET[/PREFIX], path-style, signed requests. The environment has the endpoint
 * and the credentials, as for other clients: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (default: Amazon's),
 * AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN. */
#include "agent/sync/crypto.h"
#include "platform/base/clock.h"
#include "tools/fleet/publish.h"
#include "tools/fleet/sigv4.h"
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TRIES = 5, WAIT_MS = 100, REPLY_BYTES = 2048, DATE = 32, HEX = 2 * SHA256_BYTES + 1 };
enum { CONNECT_S = 5, TOTAL_S = 30, SLOW_S = 10, SLOW_BYTES = 1024, MOST_WAIT_S = 5, AGAIN_S = 20 };

struct s3 {
	CURL *curl;
	const char *region, *key_id, *secret, *token;
	struct buf url;    /* the endpoint, without '/' at its end */
	struct buf prefix; /* beginning of paths: "/BUCKET/PREFIX/" */
	const char *host;  /* points into url */
};

struct request {
	const char *method, *name;
	const void *p;
	size_t n;
	const char *cache; /* Cache-Control; NULL: none */
};

struct reply {
	long status;
	int64_t length, wait_s;
	char text[REPLY_BYTES]; /* beginning of the body */
	size_t n;
};

static const char *env(const char *name, const char *other, const char *otherwise)
{
	const char *v = getenv(name);
	if (!v || !*v)
		v = other ? getenv(other) : NULL;
	return v && *v ? v : otherwise;
}

static int find_endpoint(struct s3 *s)
{
	const char *at = env("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", NULL);
	if (at)
		buf_puts(&s->url, at);
	else
		buf_printf(&s->url, "https://s3.%s.amazonaws.com", s->region);
	while (s->url.n && s->url.p[s->url.n - 1] == '/')
		s->url.p[--s->url.n] = 0;
	const char *host = strstr(buf_str(&s->url), "://");
	s->host = host ? host + 3 : NULL;
	if (!host || strncmp(s->url.p, "http", 4) || strpbrk(s->host, "/?#@"))
		return fail(E_USAGE, "AWS_ENDPOINT_URL=%s: must be http[s]://HOST[:PORT]", buf_str(&s->url));
	return E_OK;
}

static int find_prefix(struct s3 *s, const char *url)
{
	const char *bucket = url + strlen("s3://");
	size_t n = strlen(bucket);
	while (n && bucket[n - 1] == '/')
		n--;
	if (!n || *bucket == '/' || strstr(bucket, ".."))
		return fail(E_USAGE, "publish = %s: must be s3://BUCKET or s3://BUCKET/PREFIX", url);
	struct buf plain = {0};
	buf_add(&plain, bucket, n);
	buf_puts(&s->prefix, "/");
	sigv4_escape(buf_str(&plain), &s->prefix);
	buf_puts(&s->prefix, "/");
	buf_free(&plain);
	return buf_ok(&s->prefix) ? E_OK : fail(E_NOMEM, "no memory");
}

static void s3_close(void *place)
{
	struct s3 *s = place;
	curl_easy_cleanup(s->curl);
	buf_free(&s->url);
	buf_free(&s->prefix);
	free(s);
}

static int s3_open(const char *url, void **place)
{
	struct s3 *s = calloc(1, sizeof *s);
	if (!s)
		return fail(E_NOMEM, "no memory");
	s->region = env("AWS_REGION", "AWS_DEFAULT_REGION", "us-east-1");
	s->key_id = env("AWS_ACCESS_KEY_ID", NULL, NULL);
	s->secret = env("AWS_SECRET_ACCESS_KEY", NULL, NULL);
	s->token = env("AWS_SESSION_TOKEN", NULL, NULL);
	int rc = crypto_start();
	if (rc >= 0 && (!s->key_id || !s->secret))
		rc = fail(E_USAGE, "publish = %s: set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", url);
	if (rc >= 0)
		rc = find_endpoint(s);
	if (rc >= 0)
		rc = find_prefix(s, url);
	if (rc >= 0 && !(s->curl = curl_easy_init()))
		rc = fail(E_NOMEM, "cannot start libcurl");
	if (rc < 0)
		s3_close(s);
	else
		*place = s;
	return rc;
}

static size_t take_reply(char *p, size_t size, size_t n, void *ctx)
{
	struct reply *r = ctx;
	size_t room = sizeof r->text - 1 - r->n, take = size * n < room ? size * n : room;
	memcpy(r->text + r->n, p, take);
	r->n += take;
	return size * n;
}

static struct curl_slist *add_header(struct curl_slist *list, const char *name, const char *value)
{
	struct buf b = {0};
	buf_printf(&b, "%s: %s", name, value);
	struct curl_slist *more = curl_slist_append(list, buf_str(&b));
	buf_free(&b);
	return more ? more : list;
}

/* Makes and signs the headers of a request. */
static int make_headers(const struct s3 *s, const struct request *q, const char *path,
			struct curl_slist **out)
{
	struct sha256 h;
	char hash[HEX], date[DATE];
	time_t now = time(NULL);
	struct tm tm;
	int rc = crypto_sha256(q->p ? q->p : "", q->n, &h);
	if (rc < 0)
		return rc;
	hex_write(h.b, sizeof h.b, hash);
	strftime(date, sizeof date, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
	const struct sigv4_header header[] = {{"host", s->host},
					      {"x-amz-content-sha256", hash},
					      {"x-amz-date", date},
					      {"x-amz-security-token", s->token}};
	const struct sigv4 sign = {s->key_id, s->secret,        s->region,      "s3",
				   date,      q->method,        path,           "",
				   header,    s->token ? 4 : 3, header[1].value};
	struct buf value = {0};
	rc = sigv4_sign(&sign, &value);
	for (int i = 0; i < sign.nheader; i++)
		*out = add_header(*out, header[i].name, header[i].value);
	*out = add_header(*out, "authorization", buf_str(&value));
	*out = add_header(*out, "content-type", "application/octet-stream");
	if (q->cache)
		*out = add_header(*out, "cache-control", q->cache);
	buf_free(&value);
	return rc;
}

static void set_up(CURL *c, const struct request *q, struct reply *r)
{
	bool body = !strcmp(q->method, "PUT");
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl_easy_setopt(c, CURLOPT_TIMEOUT, (long)TOTAL_S);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)SLOW_S);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_reply);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, r);
	curl_easy_setopt(c, CURLOPT_NOBODY, (long)!strcmp(q->method, "HEAD"));
	if (body) {
		curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->n);
		curl_easy_setopt(c, CURLOPT_POSTFIELDS, q->p);
	}
	curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, q->method);
}

static void read_reply(CURL *c, struct reply *r)
{
	curl_off_t n = 0;
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &r->status);
	curl_easy_getinfo(c, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &n);
	r->length = n;
	curl_easy_getinfo(c, CURLINFO_RETRY_AFTER, &n);
	r->wait_s = n > MOST_WAIT_S ? MOST_WAIT_S : n;
	r->text[r->n] = 0;
}

static int ask_once(struct s3 *s, const struct request *q, struct reply *r)
{
	struct curl_slist *header = curl_slist_append(NULL, "expect:");
	struct buf url = {0}, path = {0};
	*r = (struct reply){0};
	buf_printf(&path, "%s%s", buf_str(&s->prefix), q->name);
	buf_printf(&url, "%s%s", buf_str(&s->url), buf_str(&path));
	int rc = buf_ok(&path) && buf_ok(&url) ? make_headers(s, q, buf_str(&path), &header)
					       : fail(E_NOMEM, "no memory");
	if (rc >= 0) {
		curl_easy_reset(s->curl);
		set_up(s->curl, q, r);
		curl_easy_setopt(s->curl, CURLOPT_HTTPHEADER, header);
		curl_easy_setopt(s->curl, CURLOPT_URL, buf_str(&url));
		CURLcode code = curl_easy_perform(s->curl);
		read_reply(s->curl, r);
		if (code != CURLE_OK)
			rc = fail(code == CURLE_OPERATION_TIMEDOUT ? E_TIMEOUT : E_IO, "%s: %s",
				  buf_str(&s->url), curl_easy_strerror(code));
	}
	curl_slist_free_all(header);
	buf_free(&url);
	buf_free(&path);
	return rc;
}

/* Reads the store's error code: <Code>NoSuchBucket</Code>. */
static void code_of(const struct reply *r, char out[64])
{
	const char *at = strstr(r->text, "<Code>");
	size_t n = at ? strspn(at + 6, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") : 0;
	snprintf(out, 64, "%.*s", (int)(n < 63 ? n : 63), at ? at + 6 : "");
}

static int refused(const struct s3 *s, const struct request *q, const struct reply *r)
{
	static const struct {
		long status;
		const char *text;
	} remedy[] = {
	    {301, "the bucket is in another region: set AWS_REGION"},
	    {307, "the bucket is in another region: set AWS_REGION and AWS_ENDPOINT_URL"},
	    {400, "check AWS_REGION"},
	    {401, "check AWS_ACCESS_KEY_ID"},
	    {403,
	     "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, the bucket's policy, and this machine's date"},
	    {404, "create the bucket"},
	};
	const char *text = "see the store's log";
	char code[64];
	code_of(r, code);
	for (size_t i = 0; i < sizeof remedy / sizeof *remedy; i++)
		text = remedy[i].status == r->status ? remedy[i].text : text;
	return fail(r->status >= 500 || r->status == 429 ? E_IO : E_USAGE, "%s %s%s%s: %ld %s; %s", q->method,
		    buf_str(&s->url), buf_str(&s->prefix), q->name, r->status, code, text);
}

static bool passing(int rc, const struct reply *r)
{
	return rc < 0 ? rc == E_IO || rc == E_TIMEOUT
		      : r->status >= 500 || r->status == 429 || r->status == 408;
}

/* Waits with jitter, so that clients that failed together do not come back together. */
static void wait_again(int tried, const struct reply *r)
{
	uint32_t any = 0;
	if (crypto_random(&any, sizeof any) < 0)
		any = UINT32_MAX / 2;
	int64_t ms = (int64_t)WAIT_MS << tried;
	ms = r->wait_s ? r->wait_s * 1000 : ms / 2 + ms * any / UINT32_MAX / 2;
	clock_real.sleep(&clock_real, ms * NS_PER_MS);
}

/* Sends a request, and tries again. A status of 300 or more is an error, except 404 of other methods than
 * PUT. */
static int ask(struct s3 *s, const struct request *q, struct reply *r)
{
	int64_t end_ns = clock_now(&clock_real) + AGAIN_S * NS_PER_S;
	int rc = ask_once(s, q, r);
	for (int i = 0; i + 1 < TRIES && passing(rc, r) && clock_now(&clock_real) < end_ns; i++) {
		wait_again(i, r);
		rc = ask_once(s, q, r);
	}
	if (rc >= 0 && r->status >= 300 && (r->status != 404 || !strcmp(q->method, "PUT")))
		rc = refused(s, q, r);
	return rc;
}

static int s3_put(void *place, const char *name, const void *p, size_t n, bool immutable)
{
	struct reply r;
	const struct request head = {.method = "HEAD", .name = name};
	const struct request put = {.method = "PUT",
				    .name = name,
				    .p = p,
				    .n = n,
				    .cache = immutable ? "public, max-age=31536000, immutable"
						       : "public, max-age=300"};
	int rc = immutable ? ask(place, &head, &r) : E_OK;
	if (rc == E_IO || rc == E_TIMEOUT)
		return rc;
	if (immutable && rc >= 0 && r.status < 300 && r.length == (int64_t)n)
		return 0;
	rc = ask(place, &put, &r); /* also after 403 for HEAD: the key may allow writing, but not reading */
	return rc < 0 ? rc : 1;
}

static int s3_drop(void *place, const char *name)
{
	struct reply r;
	int rc = ask(place, &(struct request){.method = "DELETE", .name = name}, &r);
	return rc < 0 ? rc : r.status != 404;
}

const struct publish publish_s3 = {
    .name = "s3", .prefix = "s3://", .open = s3_open, .close = s3_close, .put = s3_put, .drop = s3_drop};
