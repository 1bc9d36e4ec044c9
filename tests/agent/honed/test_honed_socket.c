/* SPDX-License-Identifier: Apache-2.0 */
/* honed's socket with clients that misuse it: its memory stays bounded, and well-behaved clients are still
 * served. */
#include "agent/cache/cache.h"
#include "platform/base/rng.h"
#include "tests/lib/honed.h"
#include "tests/lib/maps.h"

enum {
	MOST_KB = 20 << 10, /* at any time: lines, payloads and queues of all clients */
	REST_KB = 8 << 10,  /* after all clients are gone */
};

#define KEY "\"key\":\"00000000000000010000000000000002\""

static bool up(void)
{
	return start_honed("[idle]\ntune = no\n", "/bin/false");
}

/* Checks that the clients have left nothing behind. */
static void all_well(void)
{
	CHECK(served());
	CHECK(all_gone());
	CHECK(SANITIZED || memory_kb("VmHWM:") < MOST_KB);
	CHECK(SANITIZED || memory_kb("VmRSS:") < REST_KB);
}

static bool closed(int fd)
{
	char c[4096];
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	for (;;) {
		if (poll(&ready, 1, PATIENCE_MS) <= 0)
			return false;
		ssize_t n = recv(fd, c, sizeof c, 0);
		if (n == 0 || (n < 0 && errno != EINTR))
			return true;
	}
}

TEST(garbage)
{
	REQUIRE(up());
	for (uint64_t seed = 1; seed <= 60; seed++) {
		static char bytes[20000];
		struct rng r;
		rng_seed(&r, seed);
		for (size_t i = 0; i < sizeof bytes; i++)
			bytes[i] = seed % 3 ? (char)rng_below(&r, 256) : "{}[]\",:\n\\1op"[rng_below(&r, 12)];
		int fd = dial();
		(void)!send_all(fd, bytes, rng_below(&r, sizeof bytes));
		if (seed % 10 == 0)
			CHECK(served());
		close(fd);
	}
	all_well();
}

TEST(one_byte_at_a_time)
{
	static const char text[] = "{\"id\":1,\"op\":\"hello\",\"version\":2}\n";
	REQUIRE(up());
	int fd = dial();
	for (size_t i = 0; i < sizeof text - 1; i++)
		CHECK(send_all(fd, text + i, 1));
	CHECK(hears(fd, "\"id\":1,\"ok\":true"));
	close(fd);
	all_well();
}

TEST(giant_lines)
{
	static char junk[1 << 20];
	REQUIRE(up());
	memset(junk, '"', sizeof junk);
	int fd = dial();
	for (int i = 0; i < 8; i++)
		CHECK(send_all(fd, junk, sizeof junk));
	CHECK(hears(fd, "\"ok\":false"));
	CHECK(served());
	CHECK(say(fd, "\n{\"id\":2,\"op\":\"hello\",\"version\":2}") && hears(fd, "\"id\":2,\"ok\":true"));
	close(fd);
	all_well();
}

/* Each client is told what was wrong, and may go on; one that does not stop is disconnected. */
TEST(wrong_requests)
{
	REQUIRE(up());
	int fd = dial();
	CHECK(say(fd, "{\"id\":1,\"op\":\"fly\"}") &&
	      hears(fd, "\"id\":1,\"ok\":false,\"code\":\"unsupported\""));
	CHECK(say(fd, "{\"id\":2,\"op\":\"put\",\"type\":1,\"bytes\":-1," KEY "}"));
	CHECK(hears(fd, "\"id\":2,\"ok\":false"));
	CHECK(say(fd, "nonsense") && hears(fd, "\"ok\":false"));
	CHECK(say(fd, "{\"id\":3,\"op\":\"hello\",\"version\":2}") && hears(fd, "\"id\":3,\"ok\":true"));
	for (int i = 0; i < 1000; i++)
		if (!say(fd, "nonsense"))
			break;
	CHECK(closed(fd));
	close(fd);
	all_well();
}

/* All requests are answered, in order, and other clients are served in between. */
TEST(a_flood)
{
	enum { ASKED = 20000 };
	REQUIRE(up());
	int fd = dial();
	pid_t sender = fork();
	if (sender == 0) {
		for (int i = 0; i < ASKED; i++)
			if (!say(fd, "{\"id\":%d,\"op\":\"hello\",\"version\":2}", i))
				_exit(1);
		_exit(0);
	}
	int heard = 0;
	FILE *f = fdopen(dup(fd), "r");
	for (char line[1024], want[32]; heard < ASKED && fgets(line, sizeof line, f); heard++) {
		snprintf(want, sizeof want, "{\"id\":%d,\"ok\":true", heard);
		if (strncmp(line, want, strlen(want)))
			break;
		if (heard % 5000 == 1)
			CHECK(served());
	}
	fclose(f);
	int status;
	CHECK(waitpid(sender, &status, 0) == sender && status == 0);
	CHECK(heard == ASKED);
	close(fd);
	all_well();
}

/* Clients that ask, and never read the answers. */
TEST(slow_readers)
{
	enum { SLOW = 100 };
	int fd[SLOW];
	REQUIRE(up());
	for (int i = 0; i < SLOW; i++) {
		fd[i] = dial();
		for (int k = 0; k < 500; k++)
			if (send(fd[i], "{\"op\":\"status\"}\n", 16, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
				break;
	}
	CHECK(served());
	for (int i = 0; i < SLOW; i++)
		close(fd[i]);
	all_well();
}

TEST(watchers_that_do_not_read)
{
	enum { WATCH = 100 };
	int fd[WATCH];
	REQUIRE(up());
	for (int i = 0; i < WATCH; i++)
		CHECK(say(fd[i] = dial(), "{\"op\":\"watch\"}"));
	CHECK(served());
	for (int i = 0; i < WATCH; i++)
		close(fd[i]);
	all_well();
}

/* A thousand clients at once, silent or in the middle of a line; when there are too many, honed closes the
 * one that has been silent longest. */
TEST(a_thousand_clients)
{
	enum { MANY = 1300, HALF = 3000 };
	static int fd[MANY];
	static char half[HALF];
	struct rlimit files;
	REQUIRE(up());
	getrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_max < MANY + 50)
		SKIP("fewer descriptors than clients");
	files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
	setrlimit(RLIMIT_NOFILE, &files);
	memset(half, ' ', sizeof half);
	for (int i = 0; i < 1000; i++) {
		fd[i] = dial();
		if (i % 2)
			send_all(fd[i], half, sizeof half);
		if (i % 250 == 0)
			CHECK(served());
	}
	CHECK(served());
	for (int i = 1000; i < MANY; i++)
		fd[i] = dial();
	CHECK(served());
	CHECK(say(fd[MANY - 1], "{\"id\":5,\"op\":\"hello\",\"version\":2}") &&
	      hears(fd[MANY - 1], "\"id\":5,\"ok\":true"));
	int gone = 0;
	for (int i = 0; i < MANY; i++) {
		char c;
		gone += recv(fd[i], &c, 1, MSG_DONTWAIT) == 0;
	}
	CHECK(gone >= 50 && gone < MANY / 2);
	for (int i = 0; i < MANY; i++)
		close(fd[i]);
	all_well();
}

/* Clients for which no descriptor is left are turned away, without making honed busy; later clients are
 * served. */
TEST(too_few_descriptors)
{
	enum { MANY = 100 };
	int fd[MANY], turned = 0;
	char c;
	end_honed(SIGTERM);
	most_files = 50;
	bool good = up();
	most_files = 0;
	REQUIRE(good);
	for (int i = 0; i < MANY; i++)
		fd[i] = dial();
	for (int tries = 0; tries < PATIENCE_MS && turned < 20; tries++, usleep(1000))
		for (int i = turned = 0; i < MANY; i++)
			turned += recv(fd[i], &c, 1, MSG_DONTWAIT) == 0;
	CHECK(turned >= 20 && turned < MANY);
	for (int i = 0; i < MANY; i++)
		close(fd[i]);
	CHECK(all_gone());
	CHECK(end_honed(SIGTERM) == 0);
}

static int job(void)
{
	int fd = dial();
	CHECK(say(fd, "{\"id\":1,\"op\":\"job\",\"model\":\"/m.onnx\",\"pid\":%d,\"threads\":1}",
		  (int)getpid()));
	CHECK(hears(fd, "\"id\":1,\"ok\":true"));
	return fd;
}

/* A client that is no owner may ask for information, and for nothing else. */
static int as_nobody(void)
{
	static const char *const owners[] = {"\"op\":\"reload\"", "\"op\":\"cancel\",\"job\":1",
					     "\"op\":\"job\",\"model\":\"/m\",\"pid\":1",
					     "\"op\":\"tune\",\"model\":\"/m\""};
	int bad = setgid(65534) < 0 || setuid(65534) < 0, fd = dial();
	for (int i = 0; i < 4; i++)
		bad |= !say(fd, "{\"id\":%d,%s}", i, owners[i]) || !hears(fd, "\"ok\":false");
	bad |= !say(fd, "{\"id\":9,\"op\":\"put\",\"type\":3,\"bytes\":3," KEY "}\nab") ||
	       !hears(fd, "\"id\":9,\"ok\":false");
	close(fd);
	return bad || !served();
}

TEST(another_user)
{
	int status = -1;
	if (geteuid() != 0)
		SKIP("needs root");
	REQUIRE(up());
	chmod(at, 0755);
	pid_t pid = fork();
	if (pid == 0)
		_exit(as_nobody());
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	all_well();
}

TEST(put_is_for_jobs)
{
	static char bytes[300000];
	REQUIRE(up());
	int fd = dial();
	CHECK(say(fd, "{\"id\":1,\"op\":\"put\",\"type\":1,\"bytes\":%zu," KEY "}", sizeof bytes));
	memset(bytes, '\n', sizeof bytes);
	CHECK(send_all(fd, bytes, sizeof bytes));
	CHECK(hears(fd, "\"id\":1,\"ok\":false"));
	CHECK(say(fd, "{\"id\":2,\"op\":\"hello\",\"version\":2}") && hears(fd, "\"id\":2,\"ok\":true"));
	CHECK(say(fd, "{\"id\":3,\"op\":\"commit\"}") && hears(fd, "\"id\":3,\"ok\":false"));
	close(fd);
	all_well();
}

/* A payload that ends in the middle was never put; one that is complete and committed is in the cache. */
TEST(payloads)
{
	enum { HALVES = 12, BYTES = 2 << 20 };
	static char bytes[BYTES];
	REQUIRE(up());
	memset(bytes, 'x', sizeof bytes);
	for (int i = 0; i < HALVES; i++) {
		int fd = job();
		CHECK(say(fd, "{\"id\":2,\"op\":\"put\",\"type\":1,\"bytes\":%d," KEY "}", BYTES));
		CHECK(send_all(fd, bytes, BYTES / 2));
		close(fd);
	}
	int fd = job();
	CHECK(say(fd, "{\"id\":2,\"op\":\"put\",\"type\":6,\"bytes\":5," KEY "}") &&
	      send_all(fd, "hello", 5));
	CHECK(say(fd, "{\"id\":3,\"op\":\"put\",\"type\":6,\"bytes\":0,"
		      "\"key\":\"00000000000000010000000000000003\"}"));
	CHECK(say(fd, "{\"id\":4,\"op\":\"commit\"}"));
	CHECK(hears(fd, "\"id\":2,\"ok\":true") && hears(fd, "\"id\":3,\"ok\":true"));
	CHECK(hears(fd, "\"id\":4,\"ok\":true"));
	struct cache *c;
	struct arena a = {0};
	struct blob got = {0};
	REQUIRE_OK(cache_open(&c, in_folder("state/cache"), true, 0));
	CHECK_OK(cache_get(c, CACHE_TRIALS, (struct key){1, 2}, &a, &got));
	CHECK(got.n == 5 && !memcmp(got.p, "hello", 5));
	struct cache_state st;
	cache_state(c, &st);
	CHECK(st.count[CACHE_TRIALS] == 2 && st.count[CACHE_REC] == 0);
	cache_close(c);
	arena_free(&a);
	close(fd);
	all_well();
}

/* The payload is shorter than announced, so the bytes that follow belong to it. */
TEST(bytes_that_lie)
{
	REQUIRE(up());
	int fd = job();
	CHECK(say(fd, "{\"id\":2,\"op\":\"put\",\"type\":1,\"bytes\":100," KEY "}"));
	CHECK(say(fd, "{\"id\":3,\"op\":\"hello\",\"version\":2}%100s", ""));
	const char *line = hear(fd);
	CHECK(line && strstr(line, "\"id\":2"));
	close(fd);
	fd = job();
	CHECK(say(fd, "{\"id\":2,\"op\":\"put\",\"type\":1,\"bytes\":%d," KEY "}", CONTROL_PUT + 1));
	CHECK(hears(fd, "\"id\":2,\"ok\":false"));
	close(fd);
	all_well();
}

/* More is put than a slow disk can write: the client has to wait. */
TEST(a_flood_of_puts)
{
	enum { PUTS = 64, BYTES = 1 << 20 };
	static char bytes[BYTES];
	REQUIRE(up());
	int fd = job();
	for (int i = 0; i < PUTS; i++) {
		memset(bytes, i, sizeof bytes);
		CHECK(say(fd, "{\"id\":%d,\"op\":\"put\",\"type\":6,\"bytes\":%d," KEY "}", 10 + i, BYTES));
		CHECK(send_all(fd, bytes, sizeof bytes));
		if (i % 16 == 0)
			CHECK(served());
	}
	CHECK(say(fd, "{\"id\":9,\"op\":\"commit\"}"));
	for (const char *line = hear(fd); line && !strstr(line, "\"id\":9,"); line = hear(fd))
		CHECK(strstr(line, "\"ok\":true"));
	close(fd);
	CHECK(served() && all_gone());
}

/* Anybody may make a file in inhibit.d; if it is a link, honed does not reveal the content of its target. */
TEST(an_inhibit_file_that_is_a_link_tells_nothing)
{
	REQUIRE(up());
	write_text(in_folder("secret"), "the key is 4711\n");
	struct stat st; /* honed has made it */
	REQUIRE(stat(own("run/inhibit.d"), &st) == 0 && (st.st_mode & 07777) == 01777);
	REQUIRE(symlink(own("secret"), own("run/inhibit.d/x")) == 0);
	int fd = dial();
	CHECK(say(fd, "{\"id\":1,\"op\":\"reload\"}") && hears(fd, "\"ok\":true"));
	CHECK(say(fd, "{\"id\":2,\"op\":\"status\"}"));
	const char *status = hear(fd);
	CHECK(status && strstr(status, "inhibited") && !strstr(status, "4711"));
	close(fd);
	CHECK(unlink(own("run/inhibit.d/x")) == 0);
}

static double used_s(void)
{
	clockid_t clock;
	struct timespec t = {0};
	CHECK(clock_getcpuclockid(honed, &clock) == 0 && clock_gettime(clock, &t) == 0);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void touch(const char *name, int i, bool there)
{
	char path[128];
	snprintf(path, sizeof path, "%s/run/inhibit.d/%s%d", at, name, i);
	int fd = there ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644) : unlink(path);
	CHECK(fd >= 0);
	if (there && fd >= 0)
		close(fd);
}

/* Share of a processor that honed uses in a second. */
static double share_while_changed(void)
{
	double used = used_s(), from = test_now_s(), until = from + 1;
	for (int i = 0; test_now_s() < until || i < 1000; i++) {
		touch("x", 0, true);
		touch("x", 0, false);
	}
	return (used_s() - used) / (test_now_s() - from);
}

TEST(a_folder_full_of_inhibits_that_changes_all_the_time)
{
	enum { MANY = 20000 };
	(void)!mkdir(own("run/inhibit.d"), 0777);
	REQUIRE(end_honed(SIGTERM) == 0 && up());
	for (int i = 0; i < MANY; i++)
		touch(".", i, true);
	double share = 1;
	for (int i = 0; i < 3 && share >= 0.3; i++)
		share = share_while_changed();
	CHECK(SANITIZED || share < 0.3);
	CHECK(served());
	for (int i = 0; i < MANY; i++)
		touch(".", i, false);
}

/* honed asks no driver, whatever its clients asked until here. */
TEST(no_opencl_driver_is_mapped)
{
	REQUIRE(up());
	CHECK(served());
	CHECK(!maps_driver(honed));
}

TEST(ends_when_told)
{
	REQUIRE(up());
	int fd = dial();
	CHECK(end_honed(SIGTERM) == 0);
	CHECK(closed(fd));
	close(fd);
	CHECK(access(in_folder("run/honed.sock"), F_OK) < 0);
}

/* Leftovers of a killed honed do not stop the next one; a second one at the same time is refused. */
TEST(starts_again)
{
	REQUIRE(up());
	CHECK(end_honed(SIGKILL) == 1000 + SIGKILL);
	CHECK(access(in_folder("run/honed.sock"), F_OK) == 0);
	REQUIRE(up());
	CHECK(served());
	pid_t first = honed;
	const char *argv[] = {program("honed"),  "--run",   own("run"),   "--config",
			      own("honed.conf"), "--state", own("other"), NULL};
	honed = launch(argv, in_folder("log2"));
	CHECK(end_honed(0) == 1);
	honed = first;
	CHECK(served());
	CHECK(end_honed(SIGTERM) == 0);
}

/* A socket in a folder that is not there: the error says to make it. */
TEST(a_socket_without_a_folder)
{
	char want[300];
	struct arena a = {0};
	struct blob log;
	int status;
	make_folder();
	write_text(in_folder("honed.conf"), "[idle]\ntune = no\n");
	const char *argv[] = {program("honed"), "--config", own("honed.conf"),      "--run",
			      own("run"),       "--socket", own("none/honed.sock"), "--state",
			      own("state"),     NULL};
	pid_t pid = launch(argv, in_folder("log3"));
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1);
	snprintf(want, sizeof want, "the folder %s does not exist: make it, or name", in_folder("none"));
	REQUIRE_OK(file_read(&a, in_folder("log3"), 0, &log));
	if (!strstr(log.p, want))
		printf("it says: %s\n", (const char *)log.p);
	CHECK(strstr(log.p, want) != NULL);
	arena_free(&a);
}

/* A second honed on the same run folder or the same socket logs why it refuses, and nothing else. */
TEST(a_second_honed_only_refuses)
{
	static const char *const of[][2] = {{"run", "another honed already uses the run folder"},
					    {"run2", "another process listens there"}};
	REQUIRE(up());
	for (int i = 0; i < 2; i++) {
		struct arena a = {0};
		struct blob log;
		int status;
		const char *argv[] = {program("honed"), "--config",  own("honed.conf"),     "--run",
				      own(of[i][0]),    "--socket",  own("run/honed.sock"), "--state",
				      own("state2"),    "--sysroot", own("root"),           NULL};
		unlink(in_folder("log2"));
		pid_t pid = launch(argv, in_folder("log2"));
		CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1);
		REQUIRE_OK(file_read(&a, in_folder("log2"), 0, &log));
		const char *end = strchr(log.p, '\n');
		bool only = strstr(log.p, of[i][1]) && end && !end[1];
		if (!only)
			printf("it says: %s\n", (const char *)log.p);
		CHECK(only);
		arena_free(&a);
	}
	all_well();
}

/* A second honed with folders of its own, but the cache that the first one writes, names the first one. */
TEST(a_second_honed_on_the_same_cache)
{
	struct arena a = {0};
	struct blob log;
	int status;
	REQUIRE(up());
	char cache[300], conf[400], want[64];
	snprintf(cache, sizeof cache, "%s", in_folder("state/cache"));
	snprintf(conf, sizeof conf, "[honed]\ncache = %s\n[idle]\ntune = no\n", cache);
	write_text(in_folder("honed2.conf"), conf);
	const char *argv[] = {program("honed"), "--config", own("honed2.conf"), "--run", own("run3"),
			      "--state", own("state3"), "--sysroot", own("root"), NULL};
	unlink(in_folder("log2"));
	pid_t pid = launch(argv, in_folder("log2"));
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1);
	REQUIRE_OK(file_read(&a, in_folder("log2"), 0, &log));
	snprintf(want, sizeof want, "another honed, process %ld (", (long)honed);
	bool said = strstr(log.p, want) && strstr(log.p, "already writes the cache");
	if (!said)
		printf("it says: %s\n", (const char *)log.p);
	CHECK(said);
	arena_free(&a);
	all_well();
}

TEST_MAIN
