/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/sync_fetch.h"
#include "agent/sync/sync_pace.h"
#include "platform/base/file.h"
#include "platform/base/mix.h"
#include "tests/lib/fleet_web.h"
#include "tests/lib/scratch.h"

#include <sys/stat.h>

enum { BIG = 200000 };

static char www[256], big[BIG];
static struct web web;
static struct fetch *f;
static struct fetched got;
static struct fetch_sum sum;
static struct buf b;

/* Serves a folder with files root/1 and big. `answer` may answer instead (NULL: never). */
static void begin(int (*answer)(struct web *w, int fd, const struct web_ask *q))
{
	snprintf(www, sizeof www, "%s", scratch("www"));
	for (int i = 0; i < BIG; i++)
		big[i] = (char)(i * 7 + i / 251);
	CHECK_OK(file_mkdirs(scratch("www/root"), 0700));
	CHECK_OK(file_write(scratch("www/root/1"), "one", 3));
	CHECK_OK(file_write(scratch("www/big"), big, BIG));
	(void)!remove(scratch("part"));
	web = (struct web){.dir = www, .answer = answer};
	web_start(&web);
}

static void shut(void)
{
	fetch_close(f);
	f = NULL;
}

static void end(void)
{
	if (f)
		shut();
	web_stop(&web);
	buf_free(&b);
}

static struct fetch_options options(const char *from)
{
	return (struct fetch_options){.from = from,
				      .most_bytes = INT64_MAX,
				      .deadline_ns = clock_now(&clock_real) + 60 * NS_PER_S,
				      .slow_ns = 20 * NS_PER_S,
				      .clock = &clock_real};
}

static void open_with(const struct fetch_options *o)
{
	CHECK_OK(fetch_open(o, &f));
}

static void open_web(void)
{
	const struct fetch_options o = options(web.url);
	open_with(&o);
}

static void begin_open(int (*answer)(struct web *w, int fd, const struct web_ask *q))
{
	begin(answer);
	open_web();
}

TEST(out_of_a_folder)
{
	begin(NULL);
	struct fetch_options o = options(www);
	open_with(&o);
	CHECK(fetch_get(f, "root/1", 3, NULL, &got) == 1 && got.body.n == 3 && !got.etag[0]);
	buf_free(&got.body);
	CHECK_FAILS(fetch_get(f, "root/1", 2, NULL, &got), E_CORRUPT, "more than the 2 bytes");
	CHECK_FAILS(fetch_get(f, "root/2", 2, NULL, &got), E_NOTFOUND, "root/2");
	CHECK_FAILS(fetch_get(f, "root", 2, NULL, &got), E_CORRUPT, "not a regular file");
	CHECK(mkfifo(scratch("www/pipe"), 0600) == 0);
	CHECK_FAILS(fetch_get(f, "pipe", 2, NULL, &got), E_CORRUPT, "not a regular file");
	CHECK_FAILS(fetch_post(f, "records", "a/b", "x", 1, 9, &got), E_UNSUPPORTED, "only be sent to a server");
	CHECK_OK(fetch_blob(f, "big", BIG, scratch("part"), &b));
	CHECK(b.n == BIG && !memcmp(b.p, big, BIG) && !file_exists(scratch("part")));
	CHECK_FAILS(fetch_blob(f, "big", BIG + 1, scratch("part"), &b), E_CORRUPT, "instead of 200001");
	CHECK_FAILS(fetch_blob(f, "big", BIG - 1, scratch("part"), &b), E_CORRUPT, "more than");
	buf_free(&b);
	shut();
	o.from = "/nowhere/at/all";
	CHECK_FAILS(fetch_open(&o, &f), E_NOTFOUND, "no such folder");
	end();
}

TEST(known_files_are_not_sent_again)
{
	begin_open(NULL);
	struct fetched same;
	CHECK(fetch_get(f, "root/1", 100, NULL, &got) == 1);
	CHECK(got.body.n == 3 && !memcmp(got.body.p, "one", 3) && got.etag[0] == '"');
	CHECK(fetch_get(f, "root/1", 100, got.etag, &same) == 0 && !same.body.n);
	CHECK_FAILS(fetch_get(f, "root/2", 100, NULL, &same), E_NOTFOUND, "/root/2");
	fetch_sum(f, &sum);
	CHECK(sum.answered && !sum.retry_after_ns);
	/* The sum counts all bytes that cross the socket. */
	CHECK(sum.up_bytes >= atomic_load(&web.in_bytes) && sum.down_bytes >= atomic_load(&web.out_bytes));
	CHECK(sum.up_bytes + sum.down_bytes < 1500);
	buf_free(&got.body);
	end();
}

/* Sends the first half of a file and hangs up; later requests get the folder's file. */
static int cut(struct web *w, int fd, const struct web_ask *q)
{
	char head[128];
	if (w->count++ || strcmp(q->path, "big"))
		return -1;
	struct key k = mix_bytes(big, BIG, 0);
	snprintf(head, sizeof head, "HTTP/1.1 200 x\r\nETag: \"%016llx\"\r\nContent-Length: %d\r\n\r\n",
		 (unsigned long long)k.lo, BIG);
	web_says(w, fd, head);
	web_send(w, fd, big, BIG / 2);
	return 0;
}

TEST(a_blob_that_was_cut_is_gone_on_with)
{
	begin_open(cut);
	CHECK_FAILS(fetch_blob(f, "big", BIG, scratch("part"), &b), E_IO, "cut");
	CHECK(b.n == BIG / 2);
	shut();
	long before = atomic_load(&web.out_bytes);
	open_web();
	CHECK_OK(fetch_blob(f, "big", BIG, scratch("part"), &b));
	CHECK(b.n == BIG && !memcmp(b.p, big, BIG));
	CHECK(atomic_load(&web.out_bytes) - before < BIG / 2 + 1000);
	/* The kept part is complete, so no request is made. */
	int asked = atomic_load(&web.asked);
	CHECK_OK(fetch_blob(f, "big", BIG, scratch("part"), &b));
	CHECK(atomic_load(&web.asked) == asked && b.n == BIG);
	end();
}

TEST(a_blob_that_changed_meanwhile_begins_anew)
{
	begin_open(cut);
	CHECK_FAILS(fetch_blob(f, "big", BIG, scratch("part"), &b), E_IO, "cut");
	big[0] ^= 1;
	CHECK_OK(file_write(scratch("www/big"), big, BIG));
	CHECK_OK(fetch_blob(f, "big", BIG, scratch("part"), &b));
	CHECK(b.n == BIG && !memcmp(b.p, big, BIG));
	end();
}

/* Damaged partial downloads cost at most a new download. */
TEST(a_damaged_part)
{
	static const char *const heads[] = {"",        "\"",       "\"x", "\"a\nb\"", "\"a\r\nX: y\"",
					    "\"a\"\n", "W/\"a\"\n"};
	begin_open(NULL);
	for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
		for (size_t n = 0; n < 3; n++) {
			static char part[FETCH_HEAD + BIG + 10];
			static const size_t sizes[] = {FETCH_HEAD - 1, FETCH_HEAD + 1000, sizeof part};
			memset(part, '\n', sizeof part);
			memcpy(part, heads[i], strlen(heads[i]));
			CHECK_OK(file_write(scratch("part"), part, sizes[n]));
			CHECK_OK(fetch_blob(f, "big", BIG, scratch("part"), &b));
			CHECK(b.n == BIG && !memcmp(b.p, big, BIG));
		}
	end();
}

struct odd {
	const char *answer; /* sent before the connection ends */
	int rc;
	const char *text;
};

static const struct odd odds[] = {
    {"HTTP/1.1 301 x\r\nLocation: https://evil.example/\r\nContent-Length: 0\r\n\r\n", E_WRONG, "elsewhere"},
    {"HTTP/1.1 302 x\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n", E_WRONG, "elsewhere"},
    {"HTTP/1.1 307 x\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n", E_WRONG, "elsewhere"},
    {"HTTP/1.1 304 x\r\n\r\n", E_WRONG, "304"},
    {"HTTP/1.1 206 x\r\nContent-Range: bytes 0-2/3\r\nContent-Length: 3\r\n\r\none", E_CORRUPT,
     "the answer has other bytes"},
    {"HTTP/1.1 200 x\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\none", E_CORRUPT, "encoding gzip"},
    {"HTTP/1.1 200 x\r\nContent-Encoding: br\r\nContent-Length: 0\r\n\r\n", E_CORRUPT, "encoding br"},
    {"HTTP/1.1 200 x\r\nContent-Length: 5\r\n\r\nonexx", E_CORRUPT, "more than the 4 bytes"},
    {"HTTP/1.1 200 x\r\nContent-Length: 4\r\n\r\none", E_IO, "cut"},
    {"HTTP/1.1 200 x\r\nContent-Length: -1\r\n\r\none", E_CORRUPT, "HTTP"},
    {"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nx", E_IO, ""},
    {"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nonexx\r\n0\r\n\r\n", E_CORRUPT, "more than"},
    {"SSH-2.0-x\r\n", E_CORRUPT, ""},
    {"", E_IO, ""},
    {"HTTP/1.1 401 x\r\nContent-Length: 0\r\n\r\n", E_WRONG, "401"},
    {"HTTP/1.1 403 x\r\nContent-Length: 0\r\n\r\n", E_WRONG, "403"},
    {"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n", E_NOTFOUND, "404"},
    {"HTTP/1.1 416 x\r\nContent-Length: 0\r\n\r\n", E_WRONG, "416"},
    {"HTTP/1.1 429 x\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n", E_BUSY, "429"},
    {"HTTP/1.1 500 x\r\nContent-Length: 99999999\r\n\r\nxxx", E_IO, ""},
    {"HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n", E_BUSY, "503"},
    {"HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n", E_IO, "999"},
};
enum { ODDS = sizeof odds / sizeof *odds };

static int answer_odd(struct web *w, int fd, const struct web_ask *q)
{
	(void)q;
	return web_says(w, fd, odds[w->mode].answer) && false;
}

TEST(answers_that_are_not_taken)
{
	begin(answer_odd);
	for (int i = 0; i < ODDS; i++) {
		open_web();
		web.mode = i;
		CHECK_FAILS(fetch_get(f, "root/1", 4, NULL, &got), odds[i].rc, odds[i].text);
		shut();
	}
	end();
}

struct retry {
	const char *headers;
	int64_t s;
};

static const struct retry retries[] = {
    {"Retry-After: 120\r\n", 120},
    {"Retry-After: 0\r\n", 0},
    {"Retry-After: -5\r\n", 0},
    {"Retry-After: soon\r\n", 0},
    {"Retry-After: 99999999999999999999\r\n", PACE_RETRY_MOST_NS / NS_PER_S},
    {"Retry-After: 99999999\r\n", PACE_RETRY_MOST_NS / NS_PER_S},
    {"Date: Wed, 21 Oct 2015 07:28:00 GMT\r\nRetry-After: Wed, 21 Oct 2015 07:38:00 GMT\r\n", 600},
    {"Retry-After: Wed, 21 Oct 2015 07:38:00 GMT\r\n", 0},
    {"Date: Wed, 21 Oct 2015 07:28:00 GMT\r\nRetry-After: Fri, 21 Oct 2095 07:38:00 GMT\r\n",
     PACE_RETRY_MOST_NS / NS_PER_S},
};

static int answer_retry(struct web *w, int fd, const struct web_ask *q)
{
	(void)q;
	return web_reply(w, fd, 503, retries[w->mode].headers, "", 0);
}

TEST(when_to_come_again)
{
	begin(answer_retry);
	for (size_t i = 0; i < sizeof retries / sizeof *retries; i++) {
		open_web();
		web.mode = (int)i;
		CHECK_FAILS(fetch_get(f, "root/1", 4, NULL, &got), E_BUSY, "later");
		fetch_sum(f, &sum);
		CHECK(sum.retry_after_ns == retries[i].s * NS_PER_S);
		shut();
	}
	end();
}

enum { SLOW, SLOW_HEAD, SILENT, ENDLESS, ENDLESS_HEAD, ENDLESS_HEADER };

/* Answers until the client gives up. */
static int answer_badly(struct web *w, int fd, const struct web_ask *q)
{
	static const char *const first[] = {[SLOW] = "HTTP/1.1 200 x\r\nContent-Length: 1000000\r\n\r\n",
					    [SLOW_HEAD] = "HTTP/1.1 200 x\r\nX: ",
					    [SILENT] = "",
					    [ENDLESS] = "HTTP/1.1 200 x\r\n\r\n",
					    [ENDLESS_HEAD] = "HTTP/1.1 200 x\r\n",
					    [ENDLESS_HEADER] = "HTTP/1.1 200 x\r\nX: "};
	static char page[4096];
	(void)q;
	memset(page, 'x', sizeof page);
	if (!web_says(w, fd, first[w->mode]))
		return 0;
	for (struct pollfd p = {.fd = fd, .events = POLLIN}; !atomic_load(&w->ends);) {
		bool fast = w->mode >= ENDLESS;
		if (poll(&p, 1, fast ? 0 : 100))
			return 0;
		if (w->mode == ENDLESS_HEAD ? !web_says(w, fd, "X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n")
		    : w->mode == SILENT     ? false
					    : !web_send(w, fd, page, fast ? sizeof page : 1))
			return 0;
	}
	return 0;
}

TEST(endless_answers_are_ended)
{
	static const struct odd want[] = {
	    [SLOW] = {"", E_TIMEOUT, "slow"},         [SLOW_HEAD] = {"", E_TIMEOUT, "slow"},
	    [SILENT] = {"", E_TIMEOUT, "slow"},       [ENDLESS] = {"", E_CORRUPT, "more than"},
	    [ENDLESS_HEAD] = {"", E_CORRUPT, "head"}, [ENDLESS_HEADER] = {"", 0, ""}};
	begin(answer_badly);
	for (int i = SLOW; i <= ENDLESS_HEADER; i++) {
		struct fetch_options o = options(web.url);
		o.slow_ns = NS_PER_S;
		open_with(&o);
		web.mode = i;
		if (want[i].rc)
			CHECK_FAILS(fetch_get(f, "root/1", 100000, NULL, &got), want[i].rc, want[i].text);
		else
			CHECK(fetch_get(f, "root/1", 100000, NULL, &got) < 0);
		fetch_sum(f, &sum);
		CHECK(sum.down_bytes < 300000);
		shut();
	}
	end();
}

TEST(the_deadline_is_of_all)
{
	begin(answer_badly);
	web.mode = SILENT;
	struct fetch_options o = options(web.url);
	o.deadline_ns = clock_now(&clock_real) + NS_PER_S / 4;
	open_with(&o);
	CHECK_FAILS(fetch_get(f, "root/1", 4, NULL, &got), E_TIMEOUT, "slow");
	CHECK_FAILS(fetch_get(f, "root/1", 4, NULL, &got), E_TIMEOUT, "");
	end();
}

TEST(bytes_are_used_up)
{
	begin(NULL);
	struct fetch_options o = options(web.url);
	o.most_bytes = 50000;
	open_with(&o);
	CHECK_FAILS(fetch_get(f, "big", BIG, NULL, &got), E_BUSY, "used up");
	fetch_sum(f, &sum);
	CHECK(sum.down_bytes + sum.up_bytes < 50000 + 20000);
	CHECK_FAILS(fetch_get(f, "root/1", 100, NULL, &got), E_BUSY, "used up");
	end();
}

TEST(no_server_is_no_network)
{
	begin(NULL);
	char url[64];
	snprintf(url, sizeof url, "%s", web.url);
	end();
	struct fetch_options o = options(url);
	open_with(&o);
	CHECK_FAILS(fetch_get(f, "root/1", 100, NULL, &got), E_IO, "reached");
	fetch_sum(f, &sum);
	CHECK(!sum.answered);
	shut();
}

static int stands_in(struct web *w, int fd, const struct web_ask *q)
{
	char line[64];
	snprintf(line, sizeof line, "Host: 127.0.0.1:1\r\n");
	w->count += strstr(q->head, line) != NULL;
	return web_reply(w, fd, 200, "", "by proxy", 8);
}

TEST(fetches_by_a_proxy)
{
	begin(stands_in);
	struct fetch_options o = options("http://127.0.0.1:1");
	o.proxy = web.url;
	open_with(&o);
	CHECK(fetch_get(f, "root/1", 100, NULL, &got) == 1);
	CHECK(got.body.n == 8 && web.count == 1);
	buf_free(&got.body);
	end();
}

static int take_post(struct web *w, int fd, const struct web_ask *q)
{
	char type[64];
	web_header(q, "Content-Type", type, sizeof type);
	w->count =
	    !strcmp(q->method, "POST") && !strcmp(type, "a/b") && q->n == BIG && !memcmp(q->body, big, BIG);
	return web_reply(w, fd, 202, "", "{}", 2);
}

TEST(posts)
{
	begin_open(take_post);
	CHECK_OK(fetch_post(f, "records", "a/b", big, BIG, 100, &got));
	CHECK(web.count == 1 && got.body.n == 2);
	fetch_sum(f, &sum);
	CHECK(sum.up_bytes >= BIG);
	buf_free(&got.body);
	end();
}

/* The transfer is not faster than the configured rate. */
TEST(the_rate)
{
	begin(NULL);
	struct fetch_options o = options(web.url);
	o.rate_bytes = 100000;
	open_with(&o);
	int64_t from_ns = clock_now(&clock_real);
	CHECK(fetch_get(f, "big", BIG, NULL, &got) == 1);
	CHECK(clock_now(&clock_real) - from_ns > NS_PER_S / 4);
	buf_free(&got.body);
	end();
}

TEST(asked_to_stop)
{
	begin(NULL);
	volatile sig_atomic_t stop = 1;
	struct fetch_options o = options(web.url);
	o.stop = &stop;
	open_with(&o);
	CHECK_FAILS(fetch_get(f, "big", BIG, NULL, &got), E_STOPPED, "stop");
	end();
}

TEST_MAIN
