/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_http.h"
#include "platform/base/log.h"
#include "tools/fleet/fleet_host.h"
#include "tools/fleet/fleet_links.h"
#include "tools/fleet/fleet_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_PEM = 256 << 10, BACKLOG = 1024, RETRY_S = 10 };

struct request {
	char *uri;
	struct buf body;
	bool begun;
	bool local; /* the peer is on this machine, and no proxy passes the request on */
	int refuse; /* status if the body is refused; 0: it is taken */
};

struct fleet_http {
	struct fleet *f;
	struct MHD_Daemon *daemon;
	struct buf cert, key;
	char url[96];
	bool exposed;
	struct host_names *names;
	struct links *links;
	atomic_flag told_host;      /* set once a request for another host was logged */
	atomic_bool ends;           /* closing: no more connections, and each takes no further request */
	atomic_llong body_bytes;    /* of all requests that are under way */
	pthread_mutex_t mutex;      /* protects the fields below */
	int nfree, free_thread[64]; /* free thread numbers for fleet_answer */
	int busy;                   /* requests under way */
};

/* Connections. */

static const struct sockaddr *peer_address(struct MHD_Connection *c)
{
	static const struct sockaddr unknown = {.sa_family = AF_UNSPEC};
	const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	return i && i->client_addr ? i->client_addr : &unknown;
}

static int descriptor(struct MHD_Connection *c)
{
	return MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

static void on_link(void *cls, struct MHD_Connection *c, void **ctx, enum MHD_ConnectionNotificationCode code)
{
	struct fleet_http *h = cls;
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		*ctx = links_add(h->links, descriptor(c), peer_address(c));
	} else if (code == MHD_CONNECTION_NOTIFY_CLOSED && *ctx) {
		links_remove(h->links, *ctx);
		*ctx = NULL;
	}
}

static struct link *link_of(struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	return i ? i->socket_context : NULL;
}

static void now_does(struct fleet_http *h, struct MHD_Connection *c, enum link_state state)
{
	links_state(h->links, link_of(c), state);
}

/* Counts a request that begins (1) or ends (-1). */
static void count_request(struct fleet_http *h, int n)
{
	pthread_mutex_lock(&h->mutex);
	h->busy += n;
	pthread_mutex_unlock(&h->mutex);
}

void fleet_http_sweep(struct fleet_http *h)
{
	fleet_count(h->f, COUNT_FLOOD, links_sweep(h->links));
}

static enum MHD_Result on_accept(void *cls, const struct sockaddr *a, socklen_t n)
{
	struct fleet_http *h = cls;
	(void)n;
	if (atomic_load(&h->ends))
		return MHD_NO;
	fleet_count(h->f, COUNT_FLOOD, links_make_room(h->links, a));
	return MHD_YES;
}

/* Requests. */

static void *on_uri(void *cls, const char *uri, struct MHD_Connection *c)
{
	struct request *q = calloc(1, sizeof *q);
	if (q)
		q->uri = strdup(uri);
	now_does(cls, c, LINK_HEAD);
	count_request(cls, 1);
	return q;
}

static void drop_body(struct fleet_http *h, struct request *q)
{
	atomic_fetch_sub(&h->body_bytes, (long long)q->body.cap);
	buf_free(&q->body);
}

static void on_end(void *cls, struct MHD_Connection *c, void **ctx, enum MHD_RequestTerminationCode code)
{
	struct request *q = *ctx;
	(void)code;
	now_does(cls, c, LINK_IDLE);
	count_request(cls, -1);
	if (!q)
		return;
	drop_body(cls, q);
	free(q->uri);
	free(q);
	*ctx = NULL;
}

static size_t whole(void *cls, struct MHD_Connection *c, char *text)
{
	(void)cls, (void)c;
	return strlen(text); /* unchanged, since paths are compared as received */
}

/* Takes bytes of a body, as far as there is room for them. */
static void take_body(struct fleet_http *h, struct request *q, const char *p, size_t n)
{
	size_t had = q->body.cap;
	if (q->refuse)
		return;
	if (q->body.n + n > FLEET_BODY) {
		q->refuse = MHD_HTTP_CONTENT_TOO_LARGE;
	} else if (atomic_load(&h->body_bytes) + (long long)n > HTTP_BODIES) {
		q->refuse = MHD_HTTP_SERVICE_UNAVAILABLE;
	} else {
		buf_add(&q->body, p, n);
		atomic_fetch_add(&h->body_bytes, (long long)(q->body.cap - had));
		q->refuse = buf_ok(&q->body) ? 0 : MHD_HTTP_SERVICE_UNAVAILABLE;
	}
	if (q->refuse)
		drop_body(h, q);
}

static bool is_local(const struct sockaddr *a)
{
	const struct sockaddr_in *four = (const void *)a;
	const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
	return a->sa_family == AF_INET ? ntohl(four->sin_addr.s_addr) >> 24 == 127
	       : a->sa_family == AF_INET6
		   ? IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127)
		   : a->sa_family == AF_UNIX;
}

static void peer_of(struct MHD_Connection *c, char *out, size_t n)
{
	const struct sockaddr *a = peer_address(c);
	const char *real = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "X-Real-IP");
	socklen_t size = a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	*out = 0;
	if (is_local(a) && real)
		snprintf(out, n, "%s", real);
	else if (getnameinfo(a, size, out, (socklen_t)n, NULL, 0, NI_NUMERICHOST) != 0)
		*out = 0;
}

static void add(struct MHD_Response *m, const char *name, const char *value)
{
	if (value && *value)
		(void)MHD_add_response_header(m, name, value);
}

static void add_headers(struct MHD_Response *m, const struct fleet_reply *r, bool last)
{
	char text[80] = "";
	if (r->status == MHD_HTTP_PARTIAL_CONTENT)
		snprintf(text, sizeof text, "bytes %lld-%lld/%lld", (long long)r->from,
			 (long long)(r->from + r->n - 1), (long long)r->of);
	else if (r->status == MHD_HTTP_RANGE_NOT_SATISFIABLE)
		snprintf(text, sizeof text, "bytes */%lld", (long long)r->of);
	add(m, MHD_HTTP_HEADER_CONTENT_RANGE, text);
	add(m, MHD_HTTP_HEADER_CONTENT_TYPE, r->type);
	add(m, MHD_HTTP_HEADER_ETAG, r->etag);
	add(m, MHD_HTTP_HEADER_LOCATION, r->location);
	add(m, MHD_HTTP_HEADER_SET_COOKIE, r->cookie);
	add(m, "Content-Security-Policy", r->policy);
	add(m, "Referrer-Policy", r->policy ? "same-origin" : NULL);
	add(m, MHD_HTTP_HEADER_CACHE_CONTROL, r->cache ? r->cache : "no-store");
	add(m, "X-Content-Type-Options", "nosniff");
	if (last)
		add(m, MHD_HTTP_HEADER_CONNECTION, "close");
	if (r->file >= 0)
		add(m, MHD_HTTP_HEADER_ACCEPT_RANGES, "bytes");
	snprintf(text, sizeof text, "%d", r->retry_after_s);
	if (r->retry_after_s)
		add(m, MHD_HTTP_HEADER_RETRY_AFTER, text);
}

/* Makes libmicrohttpd's reply, which takes over the body. */
static struct MHD_Response *response_of(struct fleet_reply *r, bool last)
{
	struct MHD_Response *m;
	if (r->file >= 0)
		m = MHD_create_response_from_fd_at_offset64((uint64_t)r->n, r->file, (uint64_t)r->from);
	else
		m = MHD_create_response_from_buffer(r->body.n, r->body.p, MHD_RESPMEM_MUST_FREE);
	if (!m)
		return NULL;
	add_headers(m, r, last);
	r->file = -1;
	r->body = (struct buf){0};
	return m;
}

static enum MHD_Result give(struct fleet_http *h, struct MHD_Connection *c, struct fleet_reply *r)
{
	struct MHD_Response *m = response_of(r, atomic_load(&h->ends));
	fleet_reply_free(r);
	if (!m)
		return MHD_NO;
	now_does(h, c, LINK_TAKE);
	enum MHD_Result rc = MHD_queue_response(c, (unsigned)r->status, m);
	MHD_destroy_response(m);
	return rc;
}

static enum MHD_Result refuse(struct fleet_http *h, struct MHD_Connection *c, int status)
{
	char peer[48];
	struct fleet_reply r = {.file = -1};
	const bool large = status == MHD_HTTP_CONTENT_TOO_LARGE;
	peer_of(c, peer, sizeof peer);
	fleet_refuse(h->f, &(struct fleet_request){.peer = peer}, &r, status,
		     large ? COUNT_OVERSIZED : COUNT_FLOOD, NULL,
		     large ? "the body has more than %d bytes"
			   : "the bodies of all requests have more than %d bytes; try again later",
		     large ? FLEET_BODY : HTTP_BODIES);
	r.retry_after_s = large ? 0 : RETRY_S;
	return give(h, c, &r);
}

static enum MHD_Result refuse_host(struct fleet_http *h, struct MHD_Connection *c, int rc)
{
	char peer[48];
	struct fleet_reply r = {.file = -1};
	peer_of(c, peer, sizeof peer);
	if (rc == E_WRONG && !atomic_flag_test_and_set(&h->told_host))
		log_info("hone-fleet: refused a request; others like it are not logged: %s", err_text());
	fleet_refuse(h->f, &(struct fleet_request){.peer = peer}, &r,
		     rc == E_WRONG ? MHD_HTTP_MISDIRECTED_REQUEST : MHD_HTTP_BAD_REQUEST, COUNT_REQUEST, NULL,
		     "%s", err_text());
	return give(h, c, &r);
}

static int take_thread(struct fleet_http *h)
{
	pthread_mutex_lock(&h->mutex);
	int i = h->free_thread[--h->nfree]; /* never empty: there are as many as threads that come here */
	pthread_mutex_unlock(&h->mutex);
	return i;
}

static void free_thread(struct fleet_http *h, int i)
{
	pthread_mutex_lock(&h->mutex);
	h->free_thread[h->nfree++] = i;
	pthread_mutex_unlock(&h->mutex);
}

static const char *header(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static enum MHD_Result answer(struct fleet_http *h, struct MHD_Connection *c, struct request *q,
			      const char *method)
{
	char peer[48], *query = strchr(q->uri, '?');
	struct fleet_reply r;
	peer_of(c, peer, sizeof peer);
	if (query)
		*query++ = 0;
	const struct fleet_request ask = {.method = method,
					  .path = q->uri,
					  .query = query ? query : "",
					  .if_none_match = header(c, MHD_HTTP_HEADER_IF_NONE_MATCH),
					  .range = header(c, MHD_HTTP_HEADER_RANGE),
					  .if_range = header(c, MHD_HTTP_HEADER_IF_RANGE),
					  .authorization = header(c, MHD_HTTP_HEADER_AUTHORIZATION),
					  .cookie = header(c, MHD_HTTP_HEADER_COOKIE),
					  .peer = peer,
					  .local = q->local,
					  .body = q->body.p,
					  .n = q->body.n};
	now_does(h, c, LINK_WORK);
	int thread = take_thread(h);
	fleet_answer(h->f, thread, &ask, &r);
	free_thread(h, thread);
	drop_body(h, q);
	return give(h, c, &r);
}

/* The headers that decide whether a body is taken. */
struct head {
	const char *host; /* value of Host; NULL: none, or more than one */
	int hosts;
	bool proxied;
};

/* Proxies send these to name the peer that they ask for; '*' matches any ending. */
static const char *const of_proxies[] = {"X-Real-IP",
					 "X-Forwarded-*",
					 "Forwarded",
					 "Via",
					 "X-Client-IP",
					 "X-Cluster-Client-IP",
					 "X-Original-Forwarded-For",
					 "True-Client-IP",
					 "CF-Connecting-IP",
					 "Fastly-Client-IP"};

static bool is_of_proxies(const char *name)
{
	for (size_t i = 0; i < sizeof of_proxies / sizeof *of_proxies; i++) {
		const size_t n = strcspn(of_proxies[i], "*");
		if (!strncasecmp(name, of_proxies[i], n) && (of_proxies[i][n] || !name[n]))
			return true;
	}
	return false;
}

static enum MHD_Result on_header(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct head *m = ctx;
	(void)kind;
	if (!strcasecmp(name, MHD_HTTP_HEADER_HOST))
		m->host = m->hosts++ || !value ? NULL : value;
	m->proxied |= is_of_proxies(name);
	return MHD_YES;
}

/* Checks the Host header and the host of an absolute target; only the path of the target is kept. */
static int check_host(const struct fleet_http *h, struct MHD_Connection *c, struct request *q,
		      const struct head *m)
{
	struct sockaddr_storage at = {0};
	socklen_t n = sizeof at;
	char text[HOST_TEXT];
	(void)getsockname(descriptor(c), (struct sockaddr *)&at, &n);
	int absolute = host_of_target(q->uri, text);
	if (absolute < 0)
		return absolute;
	int rc = host_check(h->names, m->host, (struct sockaddr *)&at);
	return rc < 0 || !absolute ? rc : host_check(h->names, text, (struct sockaddr *)&at);
}

/* Checks a request when its header is complete, before its body comes. */
static enum MHD_Result begin(struct fleet_http *h, struct MHD_Connection *c, struct request *q)
{
	struct head m = {0};
	now_does(h, c, LINK_BODY);
	q->begun = true;
	(void)MHD_get_connection_values(c, MHD_HEADER_KIND, on_header, &m);
	q->local = is_local(peer_address(c)) && !m.proxied;
	int rc = check_host(h, c, q, &m);
	if (rc < 0)
		return refuse_host(h, c, rc);
	const char *length = header(c, MHD_HTTP_HEADER_CONTENT_LENGTH);
	if (length && strtoull(length, NULL, 10) > FLEET_BODY)
		return refuse(h, c, MHD_HTTP_CONTENT_TOO_LARGE);
	return MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url, const char *method,
				  const char *version, const char *upload, size_t *n, void **ctx)
{
	struct fleet_http *h = cls;
	struct request *q = *ctx;
	(void)url, (void)version;
	if (!q || !q->uri)
		return MHD_NO;
	if (!q->begun)
		return begin(h, c, q);
	if (*n) {
		take_body(h, q, upload, *n);
		if (!q->refuse)
			links_came(h->links, link_of(c), *n);
		*n = 0;
		return MHD_YES;
	}
	return q->refuse ? refuse(h, c, q->refuse) : answer(h, c, q, method);
}

/* Opening and closing. */

/* Resolves "ADDRESS:PORT" or "[ADDRESS]:PORT". */
static int resolve(const char *listen_at, struct addrinfo **out)
{
	char host[256], *p = host;
	const char *colon = strrchr(listen_at, ':');
	if (!colon || colon - listen_at >= (int)sizeof host || !colon[1])
		return fail(E_USAGE, "listen = %s: write ADDRESS:PORT", listen_at);
	if (strlen(colon + 1) > 5 || atoi(colon + 1) > UINT16_MAX) /* getaddrinfo takes the low 16 bits */
		return fail(E_USAGE, "listen = %s: a port is at most %d", listen_at, UINT16_MAX);
	snprintf(host, sizeof host, "%.*s", (int)(colon - listen_at), listen_at);
	size_t n = strlen(host);
	if (n > 1 && *host == '[' && host[n - 1] == ']') {
		host[n - 1] = 0;
		p++;
	}
	const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
				       .ai_socktype = SOCK_STREAM};
	int bad = getaddrinfo(*p ? p : NULL, colon + 1, &hints, out);
	return bad ? fail(E_USAGE, "listen = %s: %s; write a numeric ADDRESS:PORT", listen_at,
			  gai_strerror(bad))
		   : E_OK;
}

static int make_socket(const char *listen_at, const struct addrinfo *a)
{
	int on = 1, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (fd >= 0 && bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	int bad = errno;
	if (fd >= 0)
		close(fd);
	return fail(E_IO, "listen = %s: %s; %s", listen_at, strerror(bad),
		    bad == EADDRINUSE ? "stop the other program, or choose another port with --listen"
				      : "choose another address or port with --listen");
}

static int listen_on(struct fleet_http *h, int *fd)
{
	struct addrinfo *a = NULL;
	struct sockaddr_storage at = {0};
	socklen_t n = sizeof at;
	char host[64] = "", port[8] = "";
	int rc = resolve(h->f->c.listen, &a);
	if (rc < 0)
		return rc;
	*fd = rc = make_socket(h->f->c.listen, a);
	freeaddrinfo(a);
	if (rc < 0)
		return rc;
	(void)getsockname(*fd, (struct sockaddr *)&at, &n);
	(void)getnameinfo((struct sockaddr *)&at, n, host, sizeof host, port, sizeof port,
			  NI_NUMERICHOST | NI_NUMERICSERV);
	const bool six = at.ss_family == AF_INET6;
	h->exposed = !h->f->c.cert && !is_local((struct sockaddr *)&at);
	snprintf(h->url, sizeof h->url, "%s://%s%s%s:%s", h->f->c.cert ? "https" : "http", six ? "[" : "",
		 host, six ? "]" : "", port);
	return E_OK;
}

static int read_pem(const char *path, struct buf *out)
{
	struct arena a = {0};
	struct blob b;
	int rc = file_read(&a, path, MOST_PEM, &b);
	if (rc >= 0)
		buf_add(out, b.p, b.n);
	arena_free(&a);
	return rc;
}

static void on_log(void *cls, const char *fmt, va_list ap)
{
	char text[512];
	(void)cls;
	vsnprintf(text, sizeof text, fmt, ap);
	log_one_line(text);
	log_more("hone-fleet: http: %s", text);
}

static int start(struct fleet_http *h, int fd)
{
	const bool tls = h->f->c.cert != NULL;
	const struct MHD_OptionItem secure[] = {
	    {MHD_OPTION_HTTPS_MEM_CERT, 0, h->cert.p},
	    {MHD_OPTION_HTTPS_MEM_KEY, 0, h->key.p},
	    {MHD_OPTION_HTTPS_PRIORITIES, 0, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
	    {MHD_OPTION_END, 0, NULL}};
	h->daemon = MHD_start_daemon(
	    MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_ERROR_LOG | (tls ? MHD_USE_TLS : 0), 0,
	    on_accept, h, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_log, h, MHD_OPTION_LISTEN_SOCKET, fd,
	    MHD_OPTION_THREAD_POOL_SIZE, (unsigned)h->f->c.threads, MHD_OPTION_CONNECTION_LIMIT,
	    (unsigned)(LINKS + LINKS_SPARE), MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_HEAD,
	    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)LINKS_IDLE_S, MHD_OPTION_URI_LOG_CALLBACK, on_uri, h,
	    MHD_OPTION_NOTIFY_COMPLETED, on_end, h, MHD_OPTION_NOTIFY_CONNECTION, on_link, h,
	    MHD_OPTION_UNESCAPE_CALLBACK, whole, NULL, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY,
	    tls ? secure : &secure[3], MHD_OPTION_END);
	return h->daemon ? E_OK
			 : fail(E_IO, "cannot start HTTP on %s; are cert and key a pair, in PEM?", h->url);
}

int fleet_http_open(struct fleet *f, struct fleet_http **out)
{
	struct fleet_http *h = *out = calloc(1, sizeof *h);
	int fd = -1;
	if (!h)
		return fail(E_NOMEM, "no memory");
	h->f = f;
	atomic_flag_clear(&h->told_host);
	pthread_mutex_init(&h->mutex, NULL);
	for (h->nfree = 0; h->nfree < f->c.threads; h->nfree++)
		h->free_thread[h->nfree] = h->nfree;
	int rc = f->c.cert ? read_pem(f->c.cert, &h->cert) : E_OK;
	if (rc >= 0 && f->c.key)
		rc = read_pem(f->c.key, &h->key);
	if (rc >= 0)
		rc = host_names_open(&f->c, &h->names);
	if (rc >= 0)
		rc = links_open(f->clock, f->c.cert != NULL, &h->links);
	if (rc >= 0)
		rc = listen_on(h, &fd);
	if (rc >= 0 && (rc = start(h, fd)) < 0)
		close(fd);
	if (rc < 0) {
		fleet_http_close(h, 0);
		*out = NULL;
	}
	return rc;
}

const char *fleet_http_url(const struct fleet_http *h)
{
	return h->url;
}

bool fleet_http_exposed(const struct fleet_http *h)
{
	return h->exposed;
}

static bool is_busy(struct fleet_http *h)
{
	pthread_mutex_lock(&h->mutex);
	bool busy = h->busy > 0;
	pthread_mutex_unlock(&h->mutex);
	return busy;
}

/* Does not use MHD_quiesce_daemon: after it, threads of a pool may forget their connections (0.9.75). */
static void end_daemon(struct fleet_http *h, int64_t wait_ns)
{
	int64_t end_ns = clock_now(h->f->clock) + wait_ns;
	atomic_store(&h->ends, true);
	while (is_busy(h) && clock_now(h->f->clock) < end_ns)
		h->f->clock->sleep(h->f->clock, 5 * NS_PER_MS);
	MHD_stop_daemon(h->daemon);
}

void fleet_http_close(struct fleet_http *h, int64_t wait_ns)
{
	if (!h)
		return;
	if (h->daemon)
		end_daemon(h, wait_ns);
	links_close(h->links);
	host_names_close(h->names);
	buf_free(&h->cert);
	buf_free(&h->key);
	pthread_mutex_destroy(&h->mutex);
	free(h);
}
