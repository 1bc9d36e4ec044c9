/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/conf.h"
#include "agent/cache/share_kept.h"
#include "agent/control/sync_conf.h"
#include "platform/base/buf.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"
#include "tests/lib/test.h"
#include <stdlib.h>
#include <unistd.h>

static int read_text(const char *text, struct arena *a, struct sync_conf *out)
{
	struct conf c;
	conf_defaults(&c);
	CHECK_OK(conf_text("x", text, strlen(text), a, &c));
	return sync_conf_read(&c, out);
}

TEST(nothing_is_configured)
{
	struct arena a = {0};
	struct sync_conf c;
	CHECK_OK(read_text("", &a, &c));
	CHECK(!c.server && !c.push && !c.has_channel && !c.token && !c.watch);
	CHECK(c.every_ns == 6 * 3600 * NS_PER_S && c.day_bytes == 10 << 20 && !c.rate_bytes);
	CHECK(c.run_ns == 120 * NS_PER_S);
	unsetenv("STATE_DIRECTORY");
	CHECK(!strcmp(sync_state_folder(&c), SYNC_STATE));
	setenv("STATE_DIRECTORY", "/var/lib/x", 1);
	CHECK(!strcmp(sync_state_folder(&c), "/var/lib/x"));
	unsetenv("STATE_DIRECTORY");
	arena_free(&a);
}

TEST(every_key)
{
	struct arena a = {0};
	struct sync_conf c;
	CHECK_OK(read_text("[sync]\nserver = https://fleet.example:8443/v1\nca = /etc/hone/ca.pem\n"
			   "root = /r\nstate = /s\ntoken = /t\nproxy = http://p:3128\nchannel = canary\n"
			   "upload = yes\nevery = 2h\nday = 5M\nrate = 64K\nrun = 30s\nwatch = /media/packs\n"
			   "name = robot-07.lab_2\n",
			   &a, &c));
	CHECK(!strcmp(c.server, "https://fleet.example:8443/v1") && !strcmp(c.ca, "/etc/hone/ca.pem"));
	CHECK(!strcmp(c.root, "/r") && !strcmp(c.state, "/s") && !strcmp(c.token, "/t"));
	CHECK(!strcmp(c.proxy, "http://p:3128") && !strcmp(c.watch, "/media/packs"));
	CHECK(!strcmp(c.name, "robot-07.lab_2"));
	CHECK(c.has_channel && c.channel == CHANNEL_CANARY && c.push);
	CHECK(c.every_ns == 7200 * NS_PER_S && c.day_bytes == 5 << 20 && c.rate_bytes == 64 << 10);
	CHECK(c.run_ns == 30 * NS_PER_S && !strcmp(sync_state_folder(&c), "/s"));
	CHECK_OK(read_text("[sync]\nday = 0\nrate = 0\nupload = no\n", &a, &c));
	CHECK(!c.day_bytes && !c.rate_bytes && !c.push);
	arena_free(&a);
}

TEST(settings_that_are_refused)
{
	static const struct {
		const char *line, *text;
	} bad[] = {
	    {"servre = https://a",
	     "x:2: [sync] servre: no such key; did you mean server? there are: server, ca"},
	    {"server = ftp://a", "[sync] server"},
	    {"server = http://a.example", "plain http"},
	    {"ca = ca.pem", "absolute"},
	    {"token = secret", "absolute"},
	    {"proxy = p:3128", "http://HOST:PORT"},
	    {"proxy = http://", "http://HOST:PORT"},
	    {"channel = fast", "canary, early or all"},
	    {"upload = perhaps", "yes or no"},
	    {"every = 1s", "1m to"},
	    {"every = 99999h", "1m to"},
	    {"every = often", "1m to"},
	    {"day = 1K", "64K"},
	    {"day = -5M", "64K"},
	    {"rate = 12", "1K"},
	    {"name = a b", "1 to 63 letters"},
	    {"name = <b>", "1 to 63 letters"},
	    {"name = 1234567890123456789012345678901234567890123456789012345678901234", "1 to 63 letters"},
	    {"run = 0s", "1s to"}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct arena a = {0};
		struct sync_conf c;
		char text[128];
		snprintf(text, sizeof text, "[sync]\n%s\n", bad[i].line);
		CHECK_FAILS(read_text(text, &a, &c), E_USAGE, bad[i].text);
		arena_free(&a);
	}
}

/* Returns the gaps that sync_conf_gaps finds in one text, without the state folder's name. */
static const char *gaps_of(const char *state, const char *text, int n)
{
	static char out[1024];
	struct arena a = {0};
	struct buf b = {0};
	struct conf c;
	const char *all = arena_printf(&a, "[sync]\nstate = %s\n%s", state, text);
	conf_defaults(&c);
	CHECK_OK(conf_text("x", all, strlen(all), &a, &c));
	CHECK(sync_conf_gaps(&c, &b) == n);
	snprintf(out, sizeof out, "%s", buf_str(&b));
	buf_free(&b);
	arena_free(&a);
	return out;
}

#define NO_FILE "No such file or directory; put the file there, or correct the path\n"

TEST(keys_and_files_that_are_missing)
{
	char state[] = "/tmp/hone-sync-XXXXXX", cert[64];
	REQUIRE(mkdtemp(state));
	CHECK(!*gaps_of(state, "", 0));
	CHECK(!*gaps_of(state, "server = https://x\n", 0));
	CHECK(!strcmp(gaps_of(state, "server = https://x\nca = /no/ca\ntoken = /no/token\n", 2),
		      "x:4: [sync] ca = /no/ca: " NO_FILE "x:5: [sync] token = /no/token: " NO_FILE));
	CHECK(!strcmp(gaps_of(state, "token = /no/token\nupload = yes\n", 3),
		      "x:3: [sync] token = /no/token: " NO_FILE
		      "x:3: [sync] token = /no/token needs the key server, too; add it to [sync]\n"
		      "x:4: [sync] upload = yes needs the key server, too; add it to [sync]\n"));
	CHECK(!strcmp(gaps_of(state, "server = https://x\nupload = yes\n", 1),
		      "x:4: [sync] upload = yes needs the key token, too; add it to [sync]\n"));
	CHECK(!*gaps_of(state, "server = /media/stick\nupload = yes\ntoken = /no/token\n", 0));
	CHECK(!strcmp(gaps_of(state, "server = ftp://x\nca = /no/ca\n", 1),
		      "x:4: [sync] ca = /no/ca: " NO_FILE));
	CHECK(!strcmp(
	    gaps_of(state, "server = ftp://x\ntoken = /no/token\n", 1), /* conf_check reports the server */
	    "x:4: [sync] token = /no/token: " NO_FILE));
	snprintf(cert, sizeof cert, "%s/" SYNC_CERT, state);
	CHECK_OK(file_write(cert, "x", 1)); /* a board that has joined needs no token */
	setenv("STATE_DIRECTORY", "/nowhere", 1); /* of honed, which asks too */
	CHECK(!*gaps_of(state, "server = https://x\nupload = yes\ntoken = /no/token\n", 0));
	unsetenv("STATE_DIRECTORY");
	CHECK(unlink(cert) == 0 && rmdir(state) == 0);
}

TEST(servers_and_folders)
{
	static const char *const good[] = {"https://a.example",    "https://a.example:8443/v1",
					   "http://127.0.0.1:80",  "http://[::1]:8440/x",
					   "http://localhost/v1",  "/media/stick",
					   "https://[2001:db8::1]"};
	static const char *const bad[] = {"",
					  "ftp://a",
					  "http://a.example",
					  "https://",
					  "https://u:p@a.example",
					  "https://a b",
					  "https://a?x",
					  "https://a#x",
					  "http://127.0.0.1.evil.example",
					  "http://localhost.evil.example",
					  "http://127.0.0.1@evil.example",
					  "https://a:port",
					  "https://a:123456",
					  "https://[::1",
					  "https://a\r\nHost: b",
					  "media/stick",
					  "file:///etc/passwd"};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		CHECK_OK(sync_server_check(good[i]));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(sync_server_check(bad[i]) == E_USAGE);
}

TEST(names_of_boards)
{
	static const char *const hosts[][2] = {{"robot-07", "robot-07"},
					       {"robot.example.org", "robot.example.org"},
					       {"a<b>&\"c\n", "a-b---c-"},
					       {"r\xc3\xb6"
						"bot",
						"r--bot"},
					       {"", "0123"},
					       {"localhost", "0123"},
					       {"<>", "0123"},
					       {"...", "0123"}};
	struct sync_conf c = {0};
	char name[SYNC_NAME], longest[100];
	for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
		sync_board_name(&c, hosts[i][0], "0123", name);
		CHECK(!strcmp(name, hosts[i][1]));
	}
	memset(longest, 'a', 99);
	longest[99] = 0;
	sync_board_name(&c, longest, "0123", name);
	CHECK(strlen(name) == 63);
	c.name = "arm";
	sync_board_name(&c, "robot-07", "0123", name);
	CHECK(!strcmp(name, "arm"));
	c.name = NULL;
	sync_board_name(&c, NULL, "0123", name); /* this machine's */
	CHECK(name[0] && strlen(name) < SYNC_NAME);
}

TEST_MAIN
