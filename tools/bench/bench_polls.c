/* SPDX-License-Identifier: Apache-2.0 */
/* Boards that ask for news: GET with If-None-Match on kept-alive connections, one request at a time on each.
 * The figure is the number of 304 answers per second. Plain HTTP, or HTTPS by libcurl, whose client takes
 * several times the server's own work. */
#include "platform/base/clock.h"
#include "platform/base/err.h"
#include "tools/hone/cmd.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS = 16, ANSWER = 4096, EVENTS = 64 };

struct poller {
	pthread_t thread;
	int port, connections;
	const char *ask;
	size_t nask;
	const char *ca, *path, *etag; /* for HTTPS; ca NULL: plain HTTP */
	int64_t end_ns, good, bad;
};

static int connect_to(int port)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
		return fd;
	int bad = errno;
	close(fd);
	return fail(E_IO, "port %d: %s", port, strerror(bad));
}

static bool ask(const struct poller *p, int fd)
{
	return send(fd, p->ask, p->nask, MSG_NOSIGNAL) == (ssize_t)p->nask;
}

/* Reads an answer. A 304 has no body, so it ends with its header. */
static bool take(struct poller *p, int fd)
{
	char text[ANSWER];
	ssize_t n = recv(fd, text, sizeof text, 0);
	bool good = n > 16 && !memcmp(text, "HTTP/1.1 304 ", 13) && !memcmp(text + n - 4, "\r\n\r\n", 4);
	p->good += good;
	p->bad += !good;
	return good && ask(p, fd);
}

static void *poll_on(void *ctx)
{
	struct poller *p = ctx;
	struct epoll_event e[EVENTS];
	int epoll = epoll_create1(EPOLL_CLOEXEC), fd[4096];
	for (int i = 0; i < p->connections; i++) {
		fd[i] = connect_to(p->port);
		if (fd[i] < 0 || !ask(p, fd[i])) {
			p->bad++;
			continue;
		}
		e[0] = (struct epoll_event){.events = EPOLLIN, .data.fd = fd[i]};
		epoll_ctl(epoll, EPOLL_CTL_ADD, fd[i], &e[0]);
	}
	while (clock_now(&clock_real) < p->end_ns) {
		int n = epoll_wait(epoll, e, EVENTS, 100);
		for (int i = 0; i < n; i++)
			if (!take(p, e[i].data.fd))
				epoll_ctl(epoll, EPOLL_CTL_DEL, e[i].data.fd, NULL);
	}
	for (int i = 0; i < p->connections; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	close(epoll);
	return NULL;
}

/* Polls over HTTPS on one connection, one request at a time. */
static void *poll_by_tls(void *ctx)
{
	struct poller *p = ctx;
	char url[700], header[160];
	CURL *c = curl_easy_init();
	snprintf(url, sizeof url, "https://localhost:%d%.600s", p->port, p->path);
	snprintf(header, sizeof header, "If-None-Match: %s", p->etag);
	struct curl_slist *headers = curl_slist_append(NULL, header);
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_CAINFO, p->ca);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	while (clock_now(&clock_real) < p->end_ns) {
		long status = 0;
		if (curl_easy_perform(c) == CURLE_OK)
			curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
		p->good += status == 304;
		p->bad += status != 304;
	}
	curl_slist_free_all(headers);
	curl_easy_cleanup(c);
	return NULL;
}

/* Reads the ETag of the file. */
static int find_etag(int port, const char *path, char *out, size_t n)
{
	char text[ANSWER + 1];
	int fd = connect_to(port);
	if (fd < 0)
		return fd;
	int len = snprintf(text, sizeof text, "HEAD %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
	ssize_t got = send(fd, text, (size_t)len, MSG_NOSIGNAL) == len ? recv(fd, text, ANSWER, 0) : 0;
	close(fd);
	text[got > 0 ? got : 0] = 0;
	const char *etag = strstr(text, "ETag: ");
	if (strncmp(text, "HTTP/1.1 200 ", 13) != 0 || !etag)
		return fail(E_WRONG, "%s: no such file, or no ETag: %.40s", path, text);
	snprintf(out, n, "%.*s", (int)strcspn(etag + 6, "\r"), etag + 6);
	return E_OK;
}

static double cpu_s(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static int run(const struct args *args)
{
	char etag[128], text[1024];
	const char *path = arg_str(args, "path", "/v1/root/1");
	int port = (int)arg_int(args, "port", 80), threads = (int)arg_int(args, "threads", 1);
	int connections = (int)arg_int(args, "connections", 64);
	struct poller p[THREADS] = {{0}};
	threads = threads < 1 ? 1 : threads > THREADS ? THREADS : threads;
	connections = connections < threads ? threads : connections > 4096 ? 4096 : connections;
	const char *ca = arg_str(args, "ca", NULL);
	int rc = find_etag(port, path, etag, sizeof etag);
	if (rc < 0)
		return rc;
	if (ca)
		connections = threads;
	int n = snprintf(text, sizeof text,
			 "GET %.600s HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nIf-None-Match: %s\r\n\r\n",
			 path, etag);
	int64_t start_ns = clock_now(&clock_real), good = 0, bad = 0;
	int64_t end_ns = start_ns + arg_duration(args, "time", 10 * NS_PER_S);
	for (int i = 0; i < threads; i++) {
		p[i] = (struct poller){.port = ca ? (int)arg_int(args, "tls", 443) : port,
				       .ca = ca,
				       .path = path,
				       .etag = etag,
				       .connections = connections / threads,
				       .ask = text,
				       .nask = (size_t)n,
				       .end_ns = end_ns};
		pthread_create(&p[i].thread, NULL, ca ? poll_by_tls : poll_on, &p[i]);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(p[i].thread, NULL);
		good += p[i].good;
		bad += p[i].bad;
	}
	double s = (double)(clock_now(&clock_real) - start_ns) * 1e-9;
	printf("%d connections, %.1f s: %.0f polls/s answered by 304, %lld otherwise; this client used %.2f "
	       "processors\n",
	       connections, s, (double)good / s, (long long)bad, cpu_s() / s);
	return good && !bad ? E_OK : fail(E_WRONG, "some answers were not 304");
}

static const struct opt opts[] = {
    {"port", OPT_INT, "80", "port of the server on this machine"},
    {"tls", OPT_INT, "443", "port of HTTPS, with --ca"},
    {"ca", OPT_STR, "FILE",
     "certificate authority of the server: uses HTTPS, with one connection per thread"},
    {"path", OPT_STR, "PATH", "path to poll (/v1/root/1)"},
    {"time", OPT_DURATION, "10s", "duration"},
    {"connections", OPT_INT, "64", "connections, kept alive"},
    {"threads", OPT_INT, "1", "threads of this client"},
    {NULL}};

int main(int argc, char **argv)
{
	static const struct cmd polls = {.usage = "[options]",
					 .summary = "measure conditional polls per second",
					 .opts = opts,
					 .run = run,
					 .name = "polls"};
	return cmd_main(&polls, argc, argv);
}
