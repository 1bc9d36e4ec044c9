/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/sync_http.h"

#include "agent/cache/json.h"
#include "agent/sync/sync_pace.h"
#include "platform/base/log.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { MOST_URL = 2048, REFUSED_BYTES = 8 << 10, SLOW_BYTES = 100 /* a second */, REASON = 240 };
#define CONNECT_NS (20 * NS_PER_S)

/* libcurl before 7.85, as JetPack 5 has it, takes bits instead of names. */
#if LIBCURL_VERSION_NUM >= 0x075500
#define SET_PROTOCOL(curl, plain) curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, (plain) ? "http" : "https")
#else
#define SET_PROTOCOL(curl, plain) \
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (plain) ? (long)CURLPROTO_HTTP : (long)CURLPROTO_HTTPS)
#endif

struct http {
	struct fetch_options o;
	struct fetch_sum *sum;
	CURL *curl;
	const struct http_ask *ask;
	/* State of the current answer. */
	int rc; /* our error that ended it */
	int status;
	bool begun;
	size_t head_bytes, body_bytes;
	int64_t began_ns;
	int64_t range_from, retry_s;
	time_t date, retry_date;
	char etag[FETCH_ETAG], encoding[32];
	char error[CURL_ERROR_SIZE];
	char refusal[REFUSED_BYTES + 1]; /* body of an answer with an error's status */
};

int http_open(const struct fetch_options *o, struct fetch_sum *sum, struct http **out)
{
	struct http *h = calloc(1, sizeof *h);
	CURL *curl = h && curl_global_init(CURL_GLOBAL_DEFAULT) == 0 ? curl_easy_init() : NULL;
	if (!curl) {
		free(h);
		return fail(E_NOMEM, "no memory for a connection");
	}
	*h = (struct http){.o = *o, .sum = sum, .curl = curl};
	*out = h;
	return E_OK;
}

void http_close(struct http *h)
{
	if (!h)
		return;
	curl_easy_cleanup(h->curl);
	curl_global_cleanup();
	free(h);
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t moved(const struct http *h)
{
	return h->sum->down_bytes + h->sum->up_bytes;
}

/* Keeps a strong ETag that can be sent back unchanged; else "". */
static void keep_etag(struct http *h, const char *v)
{
	size_t n = strlen(v);
	h->etag[0] = 0;
	if (n < 2 || n >= sizeof h->etag || v[0] != '"' || v[n - 1] != '"')
		return;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)v[i] <= ' ' || (unsigned char)v[i] > '~')
			return;
	memcpy(h->etag, v, n + 1);
}

static void keep_encoding(struct http *h, const char *v)
{
	snprintf(h->encoding, sizeof h->encoding, "%s", v);
}

static void keep_range(struct http *h, const char *v)
{
	long long from;
	h->range_from = sscanf(v, "bytes %lld-", &from) == 1 && from >= 0 ? from : -1;
}

static void keep_date(struct http *h, const char *v)
{
	h->date = curl_getdate(v, NULL);
}

/* Reads Retry-After: seconds, or a date, which is compared with the answer's own Date. */
static void keep_retry(struct http *h, const char *v)
{
	char *end;
	errno = 0;
	long long s = strtoll(v, &end, 10);
	if (end != v && !*end && s >= 0)
		h->retry_s = errno || s > PACE_RETRY_MOST_NS / NS_PER_S ? PACE_RETRY_MOST_NS / NS_PER_S : s;
	else
		h->retry_date = curl_getdate(v, NULL);
}

static const struct {
	const char *name;
	void (*keep)(struct http *h, const char *value);
} headers[] = {{"etag", keep_etag},
	       {"content-encoding", keep_encoding},
	       {"content-range", keep_range},
	       {"date", keep_date},
	       {"retry-after", keep_retry}};
enum { NHEADERS = sizeof headers / sizeof *headers };

/* A status line begins an answer: forgets the headers of earlier answers (100, a proxy's). */
static void begin_answer(struct http *h)
{
	h->status = 0;
	h->range_from = -1;
	h->retry_s = 0;
	h->date = h->retry_date = -1;
	h->etag[0] = h->encoding[0] = 0;
}

static void take_header(struct http *h, char *line)
{
	char *value = strchr(line, ':');
	if (!value)
		return;
	*value++ = 0;
	value += strspn(value, " \t");
	for (int i = 0; i < NHEADERS; i++)
		if (!strcasecmp(line, headers[i].name))
			headers[i].keep(h, value);
}

static size_t on_header(char *p, size_t one, size_t n, void *ctx)
{
	struct http *h = ctx;
	char line[512];
	n *= one;
	h->head_bytes += n;
	if (h->head_bytes > FETCH_HEADERS) {
		h->rc = fail(E_CORRUPT, "the answer has more than %d bytes of headers", FETCH_HEADERS);
		return 0;
	}
	if (n >= 5 && !memcmp(p, "HTTP/", 5))
		begin_answer(h);
	if (n >= sizeof line)
		return n; /* no header that is used here is so long */
	memcpy(line, p, n);
	line[n] = 0;
	line[strcspn(line, "\r\n")] = 0;
	take_header(h, line);
	return n;
}

static bool is_good(int status)
{
	return status >= 200 && status <= 299;
}

/* Called once before the first byte of a good body, also of an empty one. */
static int begin(struct http *h)
{
	const struct http_ask *q = h->ask;
	bool part = h->status == 206;
	h->begun = true;
	if (h->encoding[0] && strcasecmp(h->encoding, "identity"))
		return fail(E_CORRUPT, "the answer has encoding %s, which was not requested", h->encoding);
	if (part && (!q->from || h->range_from != (int64_t)q->from))
		return fail(E_CORRUPT, "the answer has other bytes than those requested");
	return q->begin ? q->begin(q->ctx, h->status, h->etag, part ? q->from : 0) : E_OK;
}

/* Keeps the start of an error answer's body. Of a longer one the status is enough for the error. */
static int keep_refusal(struct http *h, const void *p, size_t n)
{
	if (h->body_bytes > REFUSED_BYTES)
		return E_IO;
	memcpy(h->refusal + h->body_bytes - n, p, n);
	h->refusal[h->body_bytes] = 0;
	return E_OK;
}

static int take(struct http *h, const void *p, size_t n)
{
	long status = 0;
	curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
	h->status = (int)status;
	h->body_bytes += n;
	if (moved(h) + (int64_t)(h->head_bytes + h->body_bytes) > h->o.most_bytes)
		return fail(E_BUSY, "today's limit of bytes is used up: see day in [sync]");
	if (!is_good(h->status))
		return keep_refusal(h, p, n);
	if (h->body_bytes > h->ask->most)
		return fail(E_CORRUPT, "the answer has more than the %zu bytes allowed", h->ask->most);
	int rc = h->begun ? E_OK : begin(h);
	return rc < 0 ? rc : h->ask->take(h->ask->ctx, p, n);
}

/* Sleeps so that no byte is read sooner than the rate allows (curl's own limit lets more than a MiB pass
 * first). */
static void keep_rate(const struct http *h)
{
	int64_t at_ns = h->began_ns + (int64_t)((double)h->body_bytes / (double)h->o.rate_bytes * 1e9);
	for (int64_t now_ns; (now_ns = clock_now(h->o.clock)) < least(at_ns, h->o.deadline_ns);) {
		if (h->o.stop && *h->o.stop)
			return;
		h->o.clock->sleep(h->o.clock, least(at_ns - now_ns, 100 * NS_PER_MS));
	}
}

static size_t on_body(char *p, size_t one, size_t n, void *ctx)
{
	struct http *h = ctx;
	h->rc = take(h, p, n * one);
	if (h->rc >= 0 && h->o.rate_bytes > 0)
		keep_rate(h);
	return h->rc < 0 ? 0 : n * one;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	const struct http *h = ctx;
	(void)a, (void)b, (void)c, (void)d;
	return h->o.stop && *h->o.stop;
}

static void set_limits(struct http *h, int64_t left_ns)
{
	CURL *c = h->curl;
	int64_t rate = h->o.rate_bytes, slow_s = h->o.slow_ns / NS_PER_S;
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(left_ns / NS_PER_MS + 1));
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)(least(left_ns, CONNECT_NS) / NS_PER_MS + 1));
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)(slow_s > 0 ? slow_s : 1));
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)(rate ? least(SLOW_BYTES, rate / 4) : SLOW_BYTES));
	if (rate)
		curl_easy_setopt(c, CURLOPT_MAX_SEND_SPEED_LARGE, (curl_off_t)rate);
}

static void set_trust(struct http *h)
{
	CURL *c = h->curl;
	bool plain = !strncmp(h->o.from, "http:", 5);
	SET_PROTOCOL(c, plain);
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (h->o.ca) { /* and no other authority */
		curl_easy_setopt(c, CURLOPT_CAINFO, h->o.ca);
		curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
	}
	if (h->o.cert && h->o.key) {
		curl_easy_setopt(c, CURLOPT_SSLCERT, h->o.cert);
		curl_easy_setopt(c, CURLOPT_SSLKEY, h->o.key);
	}
	if (h->o.proxy)
		curl_easy_setopt(c, CURLOPT_PROXY, h->o.proxy);
	else if (plain)
		curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
}

static void set_calls(struct http *h)
{
	CURL *c = h->curl;
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, h);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, h);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(c, CURLOPT_XFERINFODATA, h);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, h->error);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 16384L);
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "hone-sync/" HONE_VERSION);
}

static struct curl_slist *header(struct curl_slist *l, const char *fmt, const char *v)
{
	char text[256];
	snprintf(text, sizeof text, fmt, v);
	struct curl_slist *more = curl_slist_append(l, text);
	return more ? more : l;
}

static struct curl_slist *set_request(struct http *h, const struct http_ask *q)
{
	char range[32];
	struct curl_slist *l = header(NULL, "%s", "Accept:");
	if (q->etag && *q->etag)
		l = header(l, q->from ? "If-Range: %s" : "If-None-Match: %s", q->etag);
	if (q->from) {
		snprintf(range, sizeof range, "%zu-", q->from);
		curl_easy_setopt(h->curl, CURLOPT_RANGE, range);
	}
	if (q->type) {
		l = header(l, "Content-Type: %s", q->type);
		l = header(l, "%s", "Expect:");
		curl_easy_setopt(h->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->n);
		curl_easy_setopt(h->curl, CURLOPT_POSTFIELDS, (const char *)q->body);
	}
	curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, l);
	return l;
}

static void count(struct http *h)
{
	curl_off_t down = 0, up = 0;
	long head = 0, asked = 0;
	curl_easy_getinfo(h->curl, CURLINFO_SIZE_DOWNLOAD_T, &down);
	curl_easy_getinfo(h->curl, CURLINFO_SIZE_UPLOAD_T, &up);
	curl_easy_getinfo(h->curl, CURLINFO_HEADER_SIZE, &head);
	curl_easy_getinfo(h->curl, CURLINFO_REQUEST_SIZE, &asked);
	int64_t told = (int64_t)(h->head_bytes + h->body_bytes);
	h->sum->down_bytes += told > down + head ? told : down + head;
	/* where libcurl sends a body along with the head, it counts it as a part of the request, too */
	h->sum->up_bytes += asked > up ? asked : up + asked;
	h->sum->answered |= h->head_bytes > 0;
	if (h->retry_date > 0 && h->date > 0 && h->retry_date > h->date)
		h->retry_s = least(h->retry_date - h->date, PACE_RETRY_MOST_NS / NS_PER_S);
	if (h->retry_s && h->status >= 300)
		h->sum->retry_after_ns = h->retry_s * NS_PER_S;
}

static const struct {
	CURLcode code;
	int rc;
	const char *words;
} failures[] = {
    {CURLE_OPERATION_TIMEDOUT, E_TIMEOUT, "the connection is too slow"},
    {CURLE_PEER_FAILED_VERIFICATION, E_WRONG, "its certificate is not trusted: see ca in [sync]"},
    {CURLE_SSL_CACERT_BADFILE, E_WRONG, "the file of ca in [sync] cannot be used"},
    {CURLE_SSL_ISSUER_ERROR, E_WRONG, "its certificate is not trusted: see ca in [sync]"},
    {CURLE_SSL_CERTPROBLEM, E_WRONG, "this board's certificate cannot be used"},
    {CURLE_FILESIZE_EXCEEDED, E_CORRUPT, "the answer is too long"},
    {CURLE_UNSUPPORTED_PROTOCOL, E_CORRUPT, "it is not an HTTP server"},
    {CURLE_WEIRD_SERVER_REPLY, E_CORRUPT, "it is not an HTTP server"},
    {CURLE_PARTIAL_FILE, E_IO, "the connection was cut"},
    {CURLE_COULDNT_RESOLVE_HOST, E_IO, "no network, or no such host"},
    {CURLE_COULDNT_RESOLVE_PROXY, E_IO, "no network, or no such proxy"},
    {CURLE_COULDNT_CONNECT, E_IO,
     "it cannot be reached: does hone-fleet serve run there, and is server in [sync] right?"},
};

static int failed(const struct http *h, CURLcode code)
{
	const char *more = h->error[0] ? h->error : curl_easy_strerror(code);
	if (h->o.stop && *h->o.stop)
		return fail(E_STOPPED, "stopped");
	for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
		if (failures[i].code == code)
			return fail(failures[i].rc, "%s (%s)", failures[i].words, more);
	return fail(E_IO, "%s", more);
}

static const struct {
	int from, to, rc;
	const char *words;
} statuses[] = {
    {300, 399, E_WRONG, "it redirects elsewhere, and redirects are not followed; set server in [sync]"},
    {404, 404, E_NOTFOUND, "there is no such file; does `server` end with /v1?"},
    {410, 410, E_NOTFOUND, "there is no such file"},
    {401, 401, E_WRONG, "it does not know this board"},
    {403, 403, E_WRONG,
     "it refuses this board and does not say why: its join token may be used up, expired, mistyped or of "
     "another fleet, or the board is revoked; ask the fleet's operator"},
    {429, 429, E_BUSY, "it asks to try again later"},
    {503, 503, E_BUSY, "it asks to try again later"},
    {400, 400, E_UNSUPPORTED, "it does not accept the request"},
    {413, 413, E_UNSUPPORTED, "it does not accept the request"},
    {422, 422, E_UNSUPPORTED, "it does not accept the request"},
    {421, 421, E_WRONG, "it does not answer to this name; its operator must add the name to `names`"},
    {400, 499, E_WRONG, "it refuses the request"},
    {100, 999, E_IO, "it has an internal error"},
};

/* The server's words of a refusal, {"error": TEXT}, as one line; "": it gave none. */
static void reason(const struct http *h, char *out, size_t n)
{
	json_t *j = json_loads(h->refusal, JSON_REJECT_DUPLICATES, NULL);
	const char *text = json_string_value(json_object_get(j, "error"));
	snprintf(out, n, "%s%s", text && *text ? ": " : "", text ? text : "");
	log_one_line(out);
	json_decref(j);
}

static int judge(const struct http *h)
{
	char why[REASON];
	int s = h->status;
	if (is_good(s) || (s == 304 && h->ask->etag && !h->ask->from) || (s == 416 && h->ask->from))
		return s;
	reason(h, why, sizeof why);
	if (s == 403 && *why) /* the server's words name the one cause that is true */
		return fail(E_WRONG, "it refuses this board (status %d)%s", s, why);
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
		if (s >= statuses[i].from && s <= statuses[i].to)
			return fail(statuses[i].rc, "%s (status %d)%s", statuses[i].words, s, why);
	return fail(E_CORRUPT, "an answer with status %d", s);
}

static int perform(struct http *h)
{
	long status = 0;
	CURLcode code = curl_easy_perform(h->curl);
	curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
	h->status = (int)status;
	count(h);
	bool known = status && !is_good(h->status); /* the body of an error answer is not needed */
	if (h->rc < 0 && !(known && h->rc == E_IO))
		return h->rc;
	if (code != CURLE_OK && !(known && h->rc == E_IO))
		return failed(h, code);
	int rc = judge(h), begun = rc >= 0 && is_good(rc) && !h->begun ? begin(h) : E_OK;
	return begun < 0 ? begun : rc;
}

int http_ask(struct http *h, const struct http_ask *q)
{
	char url[MOST_URL];
	int64_t left_ns = h->o.deadline_ns - clock_now(h->o.clock);
	if (snprintf(url, sizeof url, "%s/%s", h->o.from, q->name) >= (int)sizeof url)
		return fail(E_USAGE, "%s: the name is too long", q->name);
	if (left_ns <= 0)
		return fail(E_TIMEOUT, "%s: the time limit of this run has passed", url);
	if (moved(h) + (int64_t)q->n >= h->o.most_bytes)
		return fail(E_BUSY, "%s: today's limit of bytes is used up: see day in [sync]", url);
	h->ask = q;
	h->rc = h->status = 0;
	h->begun = false;
	h->head_bytes = h->body_bytes = 0;
	h->began_ns = clock_now(h->o.clock);
	h->error[0] = h->refusal[0] = 0;
	begin_answer(h);
	curl_easy_reset(h->curl);
	set_limits(h, left_ns);
	set_trust(h);
	set_calls(h);
	curl_easy_setopt(h->curl, CURLOPT_URL, url);
	struct curl_slist *l = set_request(h, q);
	int rc = perform(h);
	curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, NULL);
	curl_slist_free_all(l);
	return fail_in(rc, "%s", url);
}
