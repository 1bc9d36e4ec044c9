/* SPDX-License-Identifier: Apache-2.0 */
/* Boards that send to a deployed fleet: each enrols with a token, then sends signed batches over one
 * connection with mutual TLS and repeats each until it is acknowledged, even if servers fail meanwhile. The
 * names of acknowledged batches go to a file, so that a script can look for them in the database
 * afterwards. */
#include "platform/base/clock.h"
#include "tools/bench/bench_batch.h"
#include "tools/hone/cmd.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BOARDS = 64 };

struct load {
	const char *server, *ca, *token;
	FILE *names;
	bool bare; /* without a client certificate */
	int64_t end_ns;
	atomic_int batch, good, tries, enrolled;
};

struct board {
	struct load *l;
	struct private_key *key;
	char dir[64], cert_path[96], key_path[96];
	CURL *curl;
	struct buf said;
	pthread_t thread;
};

static size_t on_said(char *p, size_t one, size_t n, void *ctx)
{
	buf_add(ctx, p, one * n);
	return one * n;
}

/* Sends a POST. Returns the HTTP status; 0: no answer. */
static long post(struct board *b, const char *path, const void *p, size_t n)
{
	char url[512];
	long status = 0;
	snprintf(url, sizeof url, "%s/%s", b->l->server, path);
	buf_clear(&b->said);
	curl_easy_setopt(b->curl, CURLOPT_URL, url);
	curl_easy_setopt(b->curl, CURLOPT_POSTFIELDS, p);
	curl_easy_setopt(b->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
	if (curl_easy_perform(b->curl) == CURLE_OK)
		curl_easy_getinfo(b->curl, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

static CURL *open_curl(struct board *b)
{
	CURL *c = curl_easy_init();
	curl_easy_setopt(c, CURLOPT_CAINFO, b->l->ca);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, 10000L);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_said);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, &b->said);
	return c;
}

/* Asks to be enrolled until the server accepts. */
static int enrol(struct board *b)
{
	struct buf csr = {0};
	int rc = csr_write(b->key, "load", &csr);
	json_t *j = json_pack("{s:s,s:s}", "token", b->l->token, "csr", buf_str(&csr)), *said;
	char *text = json_dumps(j, 0);
	long status = 0;
	while (rc >= 0 && (status = post(b, "enrol", text, strlen(text))) != 200 && status != 403 &&
	       clock_now(&clock_real) < b->l->end_ns)
		clock_real.sleep(&clock_real, 100 * NS_PER_MS);
	said = json_loads(buf_str(&b->said), 0, NULL);
	const char *cert = json_string_value(json_object_get(said, "cert"));
	if (rc >= 0)
		rc = status == 200 && cert
			 ? file_write(b->cert_path, cert, strlen(cert))
			 : fail(E_WRONG, "cannot enrol: status %ld: %s", status, buf_str(&b->said));
	json_decref(said);
	json_decref(j);
	free(text);
	buf_free(&csr);
	return rc;
}

static void send_all(struct board *b)
{
	struct load *l = b->l;
	struct buf doc = {0};
	char name[65];
	while (clock_now(&clock_real) < l->end_ns &&
	       bench_batch(b->key, atomic_fetch_add(&l->batch, 1), &doc, name) >= 0) {
		long status = 0;
		while (clock_now(&clock_real) < l->end_ns &&
		       (status = post(b, "records", doc.p, doc.n)) != 202) {
			atomic_fetch_add(&l->tries, 1);
			clock_real.sleep(&clock_real, 20 * NS_PER_MS);
		}
		if (status == 202) {
			atomic_fetch_add(&l->good, 1);
			fprintf(l->names, "%s\n", name);
		}
		buf_clear(&doc);
	}
	buf_free(&doc);
}

static int be_board(struct board *b)
{
	snprintf(b->dir, sizeof b->dir, "/tmp/hone-bench-load-XXXXXX");
	if (!mkdtemp(b->dir))
		return fail(E_IO, "%s: %s", b->dir, strerror(errno));
	snprintf(b->cert_path, sizeof b->cert_path, "%s/cert.pem", b->dir);
	snprintf(b->key_path, sizeof b->key_path, "%s/key.pem", b->dir);
	int rc = private_key_make(&b->key);
	if (rc >= 0)
		rc = private_key_write(b->key, b->key_path);
	b->curl = open_curl(b);
	if (rc >= 0)
		rc = enrol(b);
	curl_easy_cleanup(b->curl);
	b->curl = open_curl(b);
	if (!b->l->bare) {
		curl_easy_setopt(b->curl, CURLOPT_SSLCERT, b->cert_path);
		curl_easy_setopt(b->curl, CURLOPT_SSLKEY, b->key_path);
	}
	if (rc >= 0) {
		atomic_fetch_add(&b->l->enrolled, 1);
		send_all(b);
	}
	return rc;
}

static void *board_thread(void *ctx)
{
	struct board *b = ctx;
	if (be_board(b) < 0)
		fprintf(stderr, "board: %s\n", err_text());
	curl_easy_cleanup(b->curl);
	private_key_free(b->key);
	buf_free(&b->said);
	unlink(b->cert_path);
	unlink(b->key_path);
	rmdir(b->dir);
	return NULL;
}

static int run(const struct args *args)
{
	static struct board board[BOARDS];
	const char *names = arg_str(args, "names", "/dev/null");
	struct load l = {.server = arg_str(args, "server", ""),
			 .ca = arg_str(args, "ca", ""),
			 .token = arg_str(args, "token", ""),
			 .names = fopen(names, "we"),
			 .bare = arg_flag(args, "bare")};
	int n = (int)arg_int(args, "boards", 8);
	int64_t start_ns = clock_now(&clock_real);
	n = n < 1 ? 1 : n > BOARDS ? BOARDS : n;
	if (!l.names)
		return fail(E_IO, "%s: %s", names, strerror(errno));
	int rc = crypto_start();
	l.end_ns = start_ns + arg_duration(args, "time", 10 * NS_PER_S);
	for (int i = 0; i < n && rc >= 0; i++) {
		board[i].l = &l;
		pthread_create(&board[i].thread, NULL, board_thread, &board[i]);
	}
	for (int i = 0; i < n && rc >= 0; i++)
		pthread_join(board[i].thread, NULL);
	double s = (double)(clock_now(&clock_real) - start_ns) * 1e-9;
	printf("%d boards: %d batches acknowledged in %.1f s (%.0f records/s), %d other answers\n",
	       l.enrolled, l.good, s, (double)l.good * BATCH_RECORDS / s, l.tries);
	if (fclose(l.names) != 0 && rc >= 0)
		rc = fail(E_IO, "%s: %s", names, strerror(errno));
	return rc < 0 ? rc : l.good ? E_OK : fail(E_WRONG, "no batch was acknowledged");
}

static const struct opt opts[] = {{"server", OPT_STR, "URL", "https://HOST:PORT/v1"},
				  {"ca", OPT_STR, "FILE", "certificate authority of the server"},
				  {"token", OPT_STR, "TEXT", "token for boards to join"},
				  {"names", OPT_STR, "FILE", "file for the names of acknowledged batches"},
				  {"time", OPT_DURATION, "10s", "duration"},
				  {"boards", OPT_INT, "8", "boards at the same time"},
				  {"bare", OPT_FLAG, NULL, "do not use the certificate from enrolment"},
				  {NULL}};

int main(int argc, char **argv)
{
	static const struct cmd load = {.usage = "--server URL --ca FILE --token TEXT [options]",
					.summary = "simulate boards that send to a fleet",
					.opts = opts,
					.run = run,
					.name = "load"};
	return cmd_main(&load, argc, argv);
}
