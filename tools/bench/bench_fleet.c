/* SPDX-License-Identifier: Apache-2.0 */
/* Throughput of one hone-fleet: signed batches of 64 records, sent by boards on kept-alive connections over
 * loopback, stored in SQLite on a disk. The server runs on two processors, the boards on the others if there
 * are more. */
#include "platform/base/clock.h"
#include "tools/bench/bench_batch.h"
#include "tools/hone/cmd.h"
#include "tools/fleet/fleet_store.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct bench {
	char dir[64], token[65];
	struct private_key *key;
	struct public_key public;
	int nbatch, port, nclient;
	struct buf *batch;
	atomic_int next;
	atomic_llong good, bad;
	int64_t end_ns;
	pid_t pid;
};

static int shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int shell(const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return system(text) == 0 ? E_OK : fail(E_CHILD, "%s: fails", text);
}

static int enrol(struct bench *b)
{
	char path[96], token[TOKEN_TEXT];
	struct db_conn *c;
	struct store_board board = {.name = "bench"};
	snprintf(path, sizeof path, "%s/fleet.db", b->dir);
	int rc = store_database(path, &c);
	if (rc < 0)
		return rc;
	rc = private_key_make(&b->key);
	if (rc >= 0) {
		private_key_public(b->key, &b->public);
		board.key = b->public;
		public_key_id(&b->public, board.id);
		rc = store_token_make(c, "bench", 1, INT64_C(1) << 40, 1, token);
	}
	if (rc >= 0)
		rc = store_token_id(token, b->token);
	if (rc >= 0)
		rc = store_enrol(c, b->token, &board);
	db_close(c);
	return rc;
}

/* Reads the listening port from the server's log. */
static int wait_port(struct bench *b)
{
	char path[96], text[1024];
	snprintf(path, sizeof path, "%s/log", b->dir);
	for (int i = 0; i < 500; i++) {
		int fd = open(path, O_RDONLY);
		ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
		if (fd >= 0)
			close(fd);
		text[n > 0 ? n : 0] = 0;
		const char *at = strstr(text, "http://127.0.0.1:");
		if (at && strchr(at, ',')) {
			b->port = atoi(at + strlen("http://127.0.0.1:"));
			return E_OK;
		}
		clock_real.sleep(&clock_real, 10 * NS_PER_MS);
	}
	return fail(E_CHILD, "hone-fleet does not answer: %s", text);
}

static int start(struct bench *b, const char *program, int cpus, int threads)
{
	char db[96], keys[96], publish[96], log[96], n[16];
	snprintf(db, sizeof db, "%s/fleet.db", b->dir);
	snprintf(keys, sizeof keys, "%s/keys", b->dir);
	snprintf(publish, sizeof publish, "%s/publish", b->dir);
	snprintf(log, sizeof log, "%s/log", b->dir);
	snprintf(n, sizeof n, "%d", threads);
	if ((b->pid = fork()) == 0) {
		cpu_set_t set;
		CPU_ZERO(&set);
		for (int i = 0; i < cpus; i++)
			CPU_SET(i, &set);
		(void)sched_setaffinity(0, sizeof set, &set);
		int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		dup2(fd, 2);
		for (int i = 3; i < 256; i++)
			close(i);
		execl(program, program, "serve", "--listen", "127.0.0.1:0", "--db", db, "--keys", keys,
		      "--publish", publish, "--threads", n, "--board-day", "1000000", "--board-bytes",
		      "1024G", "--all-bytes", "1024G", "--every", "2s", (char *)NULL);
		_exit(127);
	}
	return wait_port(b);
}

static bool put(int fd, const void *p, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t did = send(fd, (const char *)p + at, n - at, MSG_NOSIGNAL);
		if (did <= 0)
			return false;
		at += (size_t)did;
	}
	return true;
}

/* Reads an answer to its end (answers are short) and returns its status. */
static int take(int fd)
{
	char text[2048];
	size_t n = 0;
	for (;;) {
		ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);
		if (got <= 0)
			return 0;
		text[n += (size_t)got] = 0;
		const char *body = strstr(text, "\r\n\r\n"), *length = strstr(text, "Content-Length: ");
		if (body && length && n >= (size_t)(body + 4 - text) + (size_t)atol(length + 16))
			return atoi(text + 9);
	}
}

static void *client(void *ctx)
{
	struct bench *b = ctx;
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)b->port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
		while (clock_now(&clock_real) < b->end_ns) {
			char head[128];
			int i = atomic_fetch_add(&b->next, 1);
			if (i >= b->nbatch)
				break;
			int n =
			    snprintf(head, sizeof head,
				     "POST /v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
				     b->batch[i].n);
			bool good = put(fd, head, (size_t)n) && put(fd, b->batch[i].p, b->batch[i].n) &&
				    take(fd) == 202;
			atomic_fetch_add(good ? &b->good : &b->bad, 1);
			if (!good)
				break;
		}
	close(fd);
	return NULL;
}

static void drive(struct bench *b, int64_t box_ns)
{
	pthread_t t[64];
	int64_t start_ns = clock_now(&clock_real);
	struct timespec cpu0, cpu1;
	clockid_t clock;
	clock_getcpuclockid(b->pid, &clock);
	clock_gettime(clock, &cpu0);
	b->end_ns = start_ns + box_ns;
	for (int i = 0; i < b->nclient; i++)
		pthread_create(&t[i], NULL, client, b);
	for (int i = 0; i < b->nclient; i++)
		pthread_join(t[i], NULL);
	double s = (double)(clock_now(&clock_real) - start_ns) * 1e-9;
	clock_gettime(clock, &cpu1);
	double cpu_s = (double)(cpu1.tv_sec - cpu0.tv_sec) + 1e-9 * (double)(cpu1.tv_nsec - cpu0.tv_nsec);
	long long good = atomic_load(&b->good);
	printf(
	    "%lld batches, %lld refused or lost, in %.1f s: %.0f records/s; the server used %.2f processors\n",
	    good, (long long)atomic_load(&b->bad), s, (double)good * BATCH_RECORDS / s, cpu_s / s);
}

static int run(const struct args *args)
{
	struct bench b = {.dir = "/var/tmp/hone-bench-fleet-XXXXXX",
			  .nbatch = (int)arg_int(args, "batches", 3000),
			  .nclient = (int)arg_int(args, "boards", 16)};
	char self[PATH_MAX - 16], program[PATH_MAX];
	int rc = crypto_start();
	if (!mkdtemp(b.dir))
		return fail(E_IO, "%s: %s", b.dir, strerror(errno));
	b.nclient = b.nclient < 1 ? 1 : b.nclient > 64 ? 64 : b.nclient;
	b.batch = calloc((size_t)b.nbatch, sizeof *b.batch);
	if (rc >= 0)
		rc = file_self_dir(self, sizeof self);
	if (rc < 0)
		return rc;
	snprintf(program, sizeof program, "%s/../hone-fleet", self);
	rc = shell("%s init -q --keys %s/keys >/dev/null", program, b.dir);
	if (rc >= 0)
		rc = enrol(&b);
	for (int i = 0; i < b.nbatch && rc >= 0; i++)
		rc = bench_batch(b.key, i, &b.batch[i], NULL);
	if (rc >= 0)
		rc = start(&b, program, (int)arg_int(args, "cpus", 2), (int)arg_int(args, "threads", 4));
	if (rc >= 0)
		drive(&b, arg_duration(args, "time", 10 * NS_PER_S));
	if (b.pid > 0) {
		kill(b.pid, SIGTERM);
		waitpid(b.pid, NULL, 0);
	}
	int gone = shell("rm -rf %s", b.dir);
	return rc < 0 ? rc : gone;
}

static const struct opt opts[] = {
    {"time", OPT_DURATION, "10s", "duration"}, {"batches", OPT_INT, "3000", "batches that are signed before the start"},
    {"boards", OPT_INT, "16", "connections"},      {"cpus", OPT_INT, "2", "processors for the server"},
    {"threads", OPT_INT, "4", "options of the server"},    {NULL}};

int main(int argc, char **argv)
{
	static const struct cmd fleet = {.usage = "[options]",
					 .summary = "measure how many records a second a fleet's server accepts",
					 .opts = opts,
					 .run = run,
					 .name = "fleet"};
	return cmd_main(&fleet, argc, argv);
}
