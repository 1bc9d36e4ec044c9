/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that talk to honed: without a daemon, with a stand-in, and with the real one. Past 800 lines
 * because all of them use the one stand-in and its helpers. */
#include "agent/cache/gain.h"
#include "tests/lib/cli_model.h"
#include "tests/lib/fake_honed.h"
#include "tools/hone/daemon.h"

#include <dirent.h>

/* A status as agent/honed/honed.h defines it, with a name and a reason that contain terminal control
 * characters. */
static const char full[] =
    "\"version\":\"0.1.0\",\"mode\":\"resident\",\"ready\":false,\"verdict\":\"rests: zone cpu is at 71 "
    "C\",\"up_s\":9,\"gate\":{\"open\":false,\"why\":\"hot\",\"words\":\"zone cpu is at 71 "
    "C\",\"load_pct\":3.2,\"temp_c\":71,\"zone\":"
    "\"cpu\",\"headroom_c\":14},\"models\":[{\"name\":\"steering\",\"path\":\"/m/"
    "s.onnx\",\"state\":\"resting\",\"ready\":"
    "true,\"before_ms\":12.5,\"now_ms\":5,\"promise\":0.125,\"next_s\":90,\"note\":\"the processor "
    "alone\\u001b is\"},{\"name\":\"e\\u001b["
    "2Jvil\\nname\",\"state\":"
    "\"refused\",\"ready\":false,\"error\":\"no "
    "such\\nfile\\u001b\"}],\"jobs\":[{\"job\":7,\"model\":\"steering\",\"state\":"
    "\"resting\",\"lease\":\"measure\",\"task\":3,\"ntasks\":20,\"trials\":31,\"before_ms\":12.5,\"now_ms\":"
    "5,\"left_s\":8,\"label\":\"conv \\u0007 3x3\"}],\"inhibits\":[{\"name\":\"a1\",\"why\":\"arm "
    "\\u001b[31mmoves\",\"left_s\":540},{\"name\":null,\"why\":\"moving\",\"left_s\":null}],\"warning\":"
    "\"the disk is full\",\"conf_error\":\"honed.conf:3: no \\u001bkey; the former settings stay\","
    "\"flash\":{\"today_bytes\":2097152,\"limit_bytes\":20971520},\"sync\":{\"next_s\":7200,"
    "\"ran_s\":9,\"error\":\"?\"},\"models_left\":3";

static long long asked_ms; /* "ms" of the last inhibit request */

/* A stand-in for the daemon. f->said: fields of the status besides ok. */
static bool daemon_of(struct fake *f, const char *op, long long id, const json_t *r, struct buf *out)
{
	if (fake_hello(op, id, out))
		return true;
	if (!strcmp(op, "inhibit"))
		asked_ms = json_integer_value(json_object_get(r, "ms"));
	buf_printf(out, "{\"id\":%lld,\"ok\":true", id);
	if (!strcmp(op, "status"))
		buf_printf(out, ",%s", f->said);
	if (!strcmp(op, "inhibit"))
		buf_puts(out, ",\"name\":\"held-1\"");
	if (!strcmp(op, "resume"))
		buf_puts(out, ",\"resumed\":1");
	buf_puts(out, "}\n");
	if (!strcmp(op, "watch"))
		buf_printf(out, "{\"event\":\"status\",%s}\n{\"event\":\"status\",%s}\n", f->said, f->said);
	return strcmp(op, "watch");
}

static const char *no_control_in(const char *text)
{
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' && *p != '\n')
			return p;
	return NULL;
}

TEST(without_a_daemon_status_says_what_holds)
{
	struct fake f = {0};
	fake_folder(&f);
	CHECK_RUN(0, "status --cache %s", in_dir("cache"));
	CHECK(!strncmp(cli_out, "honed      honed does not run", 29));
	CHECK_SAYS(cli_out, "0 records");
	CHECK_SAYS(cli_err, "`hone tune MODEL --budget 20s --cache ");
	CHECK(!strstr(cli_err, "mobilenet_v2")); /* who names a cache has a model */
	CHECK_RUN(0, "status --json --cache %s", in_dir("cache"));
	json_t *j = parse_out();
	check_keys(j, "verdict daemon inhibits cache records_by_type worn");
	CHECK(json_is_false(json_object_get(j, "daemon")));
	json_decref(j);
	fake_remove(&f);
}

/* Hides the state that hone-sync left on this machine. */
static void no_sync(void)
{
	setenv("STATE_DIRECTORY", in_dir("no-sync"), 1);
}

/* A cache with what tuning measured of the first model of the status. */
static void put_gain(const char *cache)
{
	struct gain g = {.model = "s.onnx",
			 .date = "2026-01-02 03:04 UTC",
			 .threads = 2,
			 .default_ms = 2.64,
			 .now_ms = 1,
			 .faster = {2.64, 2.6, 2.68, 25},
			 .machine = {.share_pct = 95}};
	struct cache *c;
	REQUIRE_OK(cache_open(&c, cache, false, 0));
	CHECK_OK(gain_put(c, hash_text("steering"), &g));
	snprintf(g.model, sizeof g.model, "b.onnx"); /* at another level */
	g.level = LEVEL_W16;
	CHECK_OK(gain_put(c, hash_text("b"), &g));
	cache_close(c);
}

TEST(status_of_a_daemon)
{
	struct fake f = {.answer = daemon_of, .said = full};
	no_sync();
	fake_folder(&f);
	fake_listen(&f);
	CHECK_RUN(0, "status --cache %s", in_dir("cache"));
	CHECK(!strncmp(cli_out, "honed      rests: zone cpu is at 71 C\n", 38));
	static const char *const parts[] = {
	    "  first ms  now ms   gain  next\n", /* the journal has times of each slice */
	    "\nsteering       resting    12.500   5.000  2.50x  12 % less time expected; in 90 s\n",
	    "refused",
	    "no such?file?",
	    "; honed looks again when the file appears or changes\n",
	    "\nnote       steering on cpu: the processor alone? is\n",
	    ("closed (hot): zone cpu is at 71 C; other processes use 3 %; 71.0 C in cpu, 14.0 C below its "
	     "limit"),
	    "7: steering, resting, holds measure, task 3 of 20 (conv ? 3x3), 31 trials, ",
	    " trials, kernels timed so far, in sum: 12.500 -> 5.000 ms, 8 s left\n",
	    "a1: arm ?[31mmoves (for another 9 min)\ninhibit    moving\n",
	    "warning    the disk is full\nconf       honed.conf:3: no ?key; the former settings stay\n",
	    "\nmodels     and 3 more\n",
	    "2.00 MiB today of at most 20 MiB a day",
	    "in 2 h; the last run failed (hone sync says why)",
	    "cache  ",
	};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		CHECK_SAYS(cli_out, parts[i]);
	CHECK_SAYS(cli_err, "Next: hone status --watch");
	CHECK(!no_control_in(cli_out));
	CHECK_RUN(0, "status --json --cache %s", in_dir("cache"));
	json_t *j = parse_out();
	check_keys(j, "verdict daemon conf_error inhibits models jobs gate flash cache records_by_type worn");
	CHECK(json_is_true(json_object_get(j, "daemon")) && !json_object_get(j, "ok"));
	json_decref(j);
	put_gain(in_dir("gained"));
	CHECK_RUN(0, "status --cache %s", in_dir("gained"));
	CHECK_SAYS(cli_out, "\nsteering       resting    12.500   5.000  2.50x  12 % less time");
	CHECK_SAYS(
	    cli_out,
	    "s.onnx, 2 threads: 2.64x faster than default schedules (95 % CI 2.60 to 2.68x, 25 rounds)");
	CHECK_SAYS(cli_out, "b.onnx, 2 threads, level w16: 2.64x faster than default schedules");
	fake_hush(&f);
	fake_remove(&f);
}

/* honed's cache is used while honed runs: said, if the user has another one with kernels. */
TEST(the_users_own_cache_is_named)
{
	static const char used[] = "is used while honed runs; for your own: --cache ";
	char said[400], home[256], own[300], theirs[256];
	struct fake f = {.answer = daemon_of, .said = said};
	snprintf(home, sizeof home, "%s", in_dir("home-of-both"));
	snprintf(own, sizeof own, "%s/hone", home);
	snprintf(theirs, sizeof theirs, "%s", in_dir("of-honed"));
	snprintf(said, sizeof said, "\"cache\":\"%s\"", theirs);
	put_gain(theirs);
	setenv("XDG_CACHE_HOME", home, 1);
	fake_folder(&f);
	fake_listen(&f);
	CHECK_RUN(0, "show");
	CHECK(!strstr(cli_err, used)); /* there is no other */
	CHECK(mkdir(home, 0755) == 0);
	put_gain(own);
	CHECK_RUN(0, "show");
	CHECK_SAYS(cli_err, used);
	CHECK(strstr(cli_err, own) && strstr(cli_err, theirs));
	CHECK_RUN(0, "show -q");
	CHECK(!strstr(cli_err, used));
	CHECK_RUN(0, "show --cache %s", own);
	CHECK(!strstr(cli_err, used));
	/* The honed that --socket names does not run, so its cache is not used, whatever $HONE_SOCKET names. */
	CHECK_RUN(0, "status --socket %s", in_dir("none.sock"));
	CHECK(!strstr(cli_err, used) && strstr(cli_out, own) && !strstr(cli_out, theirs));
	CHECK_SAYS(cli_out, "honed does not run: nothing listens on ");
	CHECK_RUN(0, "status");
	CHECK_SAYS(cli_out, theirs);
	snprintf(said, sizeof said, "\"cache\":\"%s/.\"", own);
	CHECK_RUN(0, "show");
	CHECK(!strstr(cli_err, used)); /* it is the same */
	fake_hush(&f);
	fake_remove(&f);
	unsetenv("XDG_CACHE_HOME");
}

/* The command that hone doctor names finds its model in the cache that the command uses: honed's. */
TEST(doctor_names_a_model_of_honeds_cache)
{
	char said[400], home[256], own[300], theirs[256], want[400];
	struct fake f = {.answer = daemon_of, .said = said};
	struct gain g = {.date = "2026-01-02 03:04 UTC", .threads = 1, .level = LEVEL_INT8, .default_ms = 2,
			 .now_ms = 1, .faster = {2, 1.9, 2.1, 25}, .machine = {.share_pct = 95}};
	struct cache *c;
	snprintf(home, sizeof home, "%s", in_dir("home-of-doctor"));
	snprintf(own, sizeof own, "%s/hone", home);
	snprintf(theirs, sizeof theirs, "%s", in_dir("of-the-doctors-honed"));
	CHECK_OK(file_mkdirs(in_dir("bare-board"), 0755));
	setenv("XDG_CACHE_HOME", home, 1);
	fake_folder(&f);
	fake_listen(&f);
	for (int i = 0; i < 2; i++) { /* first the user's own cache knows one, then honed's, too */
		snprintf(g.model, sizeof g.model, "%s/%s.onnx", in_dir("."), i ? "theirs" : "own");
		CHECK_OK(file_write(g.model, "", 0));
		CHECK_OK(file_mkdirs(i ? theirs : own, 0755));
		REQUIRE_OK(cache_open(&c, i ? theirs : own, false, 0));
		CHECK_OK(gain_put(c, hash_text(g.model), &g));
		cache_close(c);
		snprintf(said, sizeof said, "\"cache\":\"%s\"", theirs);
		CHECK_RUN(0, "doctor --sysroot %s", in_dir("bare-board"));
		CHECK(!strstr(cli_err, "own.onnx") && (strstr(cli_err, "theirs.onnx") != NULL) == i);
	}
	CHECK_RUN(0, "doctor --sysroot %s --cache %s", in_dir("bare-board"), own);
	snprintf(want, sizeof want, "own.onnx --budget 20s --threads 1 --level int8 --cache %s\n", own);
	CHECK(strstr(cli_err, "own.onnx --budget 20s") && strstr(cli_err, strstr(want, " --level")));
	fake_hush(&f);
	fake_remove(&f);
	unsetenv("XDG_CACHE_HOME");
}

/* A gain belongs to its device, level and number of threads: other sections of the same file have none. */
TEST(a_gain_of_another_level_is_not_shown)
{
	static const struct {
		const char *as;
		bool has;
	} models[] = {{"\"level\":\"fp32\",\"threads\":2", true},
		      {"\"level\":\"fp32\",\"threads\":null", true},
		      {"\"threads\":2", true}, /* of an older honed */
		      {"\"level\":\"int8\",\"threads\":2", false},
		      {"\"level\":\"fp32\",\"threads\":1", false},
		      {"\"level\":\"fp32\",\"device\":\"opencl:0\"", false}};
	char said[200];
	put_gain(in_dir("levels"));
	no_sync();
	for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
		struct fake f = {.answer = daemon_of, .said = said};
		snprintf(said, sizeof said, "\"models\":[{\"name\":\"a\",\"path\":\"/m/s.onnx\",%s}]",
			 models[i].as);
		fake_folder(&f);
		fake_listen(&f);
		CHECK_RUN(0, "status --json --cache %s", in_dir("levels"));
		json_t *j = parse_out(), *m = json_array_get(json_object_get(j, "models"), 0);
		CHECK(json_is_object(json_object_get(m, "gain")) == models[i].has);
		json_decref(j);
		fake_hush(&f);
		fake_remove(&f);
	}
}

/* What disturbed slices have gained has a mark, which a line explains. */
TEST(a_rough_time_is_marked)
{
	for (int rough = 0; rough < 2; rough++) {
		char said[200];
		struct fake f = {.answer = daemon_of, .said = said};
		snprintf(said, sizeof said,
			 "\"models\":[{\"name\":\"a\",\"state\":\"waiting\",\"before_ms\":12.5,\"now_ms\":5,"
			 "\"now_rough\":%s}]",
			 rough ? "true" : "false");
		no_sync();
		fake_folder(&f);
		fake_listen(&f);
		CHECK_RUN(0, "status --cache %s", in_dir("cache"));
		CHECK_SAYS(cli_out, rough ? " ~5.000     -" : " 5.000  2.50x");
		CHECK(!strstr(cli_out, "~: not certain before the next undisturbed slice") == !rough);
		fake_hush(&f);
		fake_remove(&f);
	}
}

/* A status with fields missing, or of another type, is shown. */
TEST(a_strange_status_is_shown)
{
	static const char *const said[] = {
	    "\"x\":1",
	    "\"verdict\":7,\"models\":{},\"gate\":[],\"jobs\":\"\",\"inhibits\":null,\"flash\":1,\"sync\":[],"
	    "\"cache\":{}",
	    "\"models\":[1,null,{},[],{\"name\":7,\"before_ms\":-1,\"now_ms\":1e308,\"next_s\":-1e300}],"
	    "\"jobs\":[1,{},null],"
	    "\"inhibits\":[[],{}],\"gate\":{\"load_pct\":\"x\"},\"flash\":{}",
	};
	for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
		struct fake f = {.answer = daemon_of, .said = said[i]};
		fake_folder(&f);
		fake_listen(&f);
		CHECK_RUN(0, "status --cache %s", in_dir("cache"));
		CHECK_SAYS(cli_out, "honed runs");
		CHECK_RUN(0, "status --json --cache %s", in_dir("cache"));
		json_t *j = json_loads(cli_out, 0, NULL); /* of wrong types, as honed said it */
		CHECK(json_is_object(j));
		json_decref(j);
		fake_hush(&f);
		fake_remove(&f);
	}
}

TEST(a_lasting_failure_has_its_remedy)
{
	struct fake f = {.answer = daemon_of};
	f.said = "\"models\":[{\"name\":\"a\",\"state\":\"failed\",\"lasting\":true,\"error\":\"a.onnx is damaged\"},"
		 "{\"name\":\"b\",\"state\":\"failed\",\"lasting\":false,\"error\":\"no memory\"}]";
	no_sync();
	fake_folder(&f);
	fake_listen(&f);
	CHECK_RUN(0, "status --cache %s", in_dir("cache"));
	CHECK_SAYS(cli_out,
		   "failed     a: a.onnx is damaged; honed tries again when the file has changed, or after "
		   "systemctl reload honed (without systemd: kill -HUP its process)\n");
	CHECK_SAYS(cli_out, "failed     b: no memory\n");
	fake_hush(&f);
	fake_remove(&f);
}

static bool mute(struct fake *f, const char *op, long long id, const json_t *r, struct buf *out)
{
	(void)f, (void)r;
	if (!fake_hello(op, id, out))
		buf_printf(out,
			   "{\"id\":%lld,\"ok\":false,\"code\":\"unsupported\",\"error\":\"I speak\\u001b[2J "
			   "otherwise\"}\n",
			   id);
	return true;
}

TEST(a_daemon_that_refuses)
{
	struct fake f = {.answer = mute};
	fake_folder(&f);
	fake_listen(&f);
	CHECK_RUN(0, "status --cache %s", in_dir("cache"));
	CHECK_SAYS(cli_out, "I speak?[2J otherwise");
	CHECK_RUN(1, "wait --ready --timeout 5s");
	CHECK_SAYS(cli_err, "I speak?[2J otherwise");
	CHECK_RUN(1, "inhibit --why x");
	CHECK_RUN(1, "inhibit --why x -- true");
	CHECK_RUN(1, "resume");
	CHECK_RUN(1, "status --watch");
	fake_hush(&f);
	fake_remove(&f);
}

/* Runs hone status --watch until it has printed `text`, and ends it: Ctrl-C is how a user does so, SIGTERM
 * interrupts it. */
static void watch_until_by(const char *text, bool json, int sig)
{
	char out[256], *argv[] = {"hone", "status", "--watch", json ? "--json" : "-q"};
	snprintf(out, sizeof out, "%s", in_dir("stdout"));
	fflush(NULL);
	unlink(out);
	pid_t pid = fork();
	if (pid == 0) {
		redirect(1, out);
		_exit(hone_main(4, argv));
	}
	cli_out[0] = 0;
	for (int i = 0; i < 4000 && !strstr(cli_out, text); i++) {
		usleep(5000);
		if (file_exists(out))
			slurp(out, cli_out, sizeof cli_out);
	}
	CHECK_SAYS(cli_out, text);
	int status;
	kill(pid, sig);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	CHECK(WEXITSTATUS(status) == (sig == SIGTERM ? 143 : 0));
}

static void watch_until(const char *text, bool json)
{
	watch_until_by(text, json, SIGINT);
	watch_until_by(text, json, SIGTERM);
}

/* Where a model is tuned on another device than the processor, all rows name theirs; else none does. */
TEST(rows_name_their_device)
{
	static const char *const devices[][2] = {{"cpu", "opencl:0"}, {"cpu", "cpu"}};
	for (int i = 0; i < 2; i++) {
		char said[900];
		struct fake f = {.answer = daemon_of, .said = said};
		int n = 0;
		n += snprintf(said, sizeof said, "\"models\":[");
		for (int k = 0; k < 2; k++)
			n += snprintf(
			    said + n, sizeof said - (size_t)n,
			    "%s{\"name\":\"net\",\"device\":\"%s\",\"state\":\"failed\",\"before_ms\":3,"
			    "\"now_ms\":2,\"error\":\"no luck\"}",
			    k ? "," : "", devices[i][k]);
		n += snprintf(said + n, sizeof said - (size_t)n, "],\"jobs\":[");
		for (int k = 0; k < 2; k++)
			n += snprintf(
			    said + n, sizeof said - (size_t)n,
			    "%s{\"job\":%d,\"model\":\"net\",\"device\":\"%s\",\"state\":\"running\"}",
			    k ? "," : "", k + 3, devices[i][k]);
		snprintf(said + n, sizeof said - (size_t)n, "]");
		no_sync();
		fake_folder(&f);
		fake_listen(&f);
		CHECK_RUN(0, "status --cache %s", in_dir("cache"));
		static const char *const named[] = {"model  device  ",           "\nnet    cpu  ",
						    "\nnet    opencl:0  ",       "3: net, cpu, running",
						    "4: net, opencl:0, running", "net on cpu: no luck",
						    "net on opencl:0: no luck"};
		for (size_t k = 0; k < sizeof named / sizeof *named; k++)
			if (!strstr(cli_out, named[k]) != (i == 1)) {
				printf("%d: %s in %s\n", i, named[k], cli_out);
				test_bad = 1;
			}
		fake_hush(&f);
		fake_listen(&f);
		watch_until("waiting for it\n", false);
		CHECK_SAYS(cli_out, i ? "; net failed 3.000"
				      : "; net on cpu failed 3.000 -> 2.000 ms; net on opencl:0 failed");
		fake_hush(&f);
		fake_remove(&f);
	}
}

TEST(watch_prints_a_line_for_each_change)
{
	static const char want[] = "gate hot; steering resting 12.500 -> 5.000 ms; e?[2Jvil?name refused\n";
	struct fake f = {.answer = daemon_of, .said = full};
	fake_folder(&f);
	fake_listen(&f);
	/* The stand-in hangs up after two equal events; the watching command sees a restart. */
	watch_until("waiting for it\n", false);
	CHECK(!strncmp(cli_out, want, strlen(want)) &&
	      !strncmp(cli_out + strlen(want), "honed does not run", 18));
	CHECK(!no_control_in(cli_out));
	fake_hush(&f);
	fake_remove(&f);
}

/* A cache that is named has to be one, with --watch as without. */
TEST(watch_refuses_what_is_no_cache)
{
	static const char *const names[] = {"no-such-cache", "other-files", "other-files/one"};
	struct fake f = {.answer = daemon_of, .said = full};
	fake_folder(&f);
	fake_listen(&f);
	CHECK_OK(file_mkdirs(in_dir("other-files"), 0755));
	CHECK_OK(file_write(in_dir("other-files/one"), "1", 1));
	for (int i = 0; i < 3; i++) {
		int status = i ? 2 : 1;
		char said[sizeof cli_err];
		CHECK_RUN(status, "status --cache %s", in_dir(names[i]));
		snprintf(said, sizeof said, "%s", cli_err);
		CHECK_RUN(status, "status --watch --cache %s", in_dir(names[i]));
		CHECK(!strcmp(cli_err, said) && !cli_out[0]);
	}
	fake_hush(&f);
	fake_remove(&f);
}

TEST(watch_outlives_the_daemon)
{
	struct fake f = {.answer = daemon_of, .said = full};
	fake_folder(&f);
	fake_listen(&f);
	watch_until("honed does not run; waiting for it\ngate hot", false);
	watch_until("\"daemon\":false", true);
	json_t *j = json_loads(cli_out, JSON_DISABLE_EOF_CHECK, NULL);
	CHECK(json_is_true(json_object_get(j, "daemon")));
	json_decref(j);
	fake_hush(&f);
	fake_remove(&f);
}

TEST(wait_is_over_when_it_is_ready)
{
	struct fake f = {.answer = daemon_of, .said = full};
	fake_folder(&f);
	CHECK_RUN(1, "wait --timeout 150ms"); /* --ready is the default */
	CHECK_SAYS(cli_err, "after 0.15 s honed does not run");
	CHECK_RUN(1, "wait --ready --timeout 150ms");
	char said[600];
	for (int i = 0; i < 2; i++) { /* at the start of the wait, and at its end: which socket, and the remedy */
		snprintf(said, sizeof said,
			 "%shoned does not run: nothing listens on %s (--socket PATH or $HONE_SOCKET names "
			 "another); start it with honed --socket %s and its other options (--config, "
			 "--state, --run)%s\n",
			 i ? "after 0.15 s " : "", f.socket, f.socket, i ? "" : "; waiting for it");
		CHECK_SAYS(cli_err, said);
	}
	CHECK_RUN(0, "status --cache %s", in_dir("cache"));
	snprintf(said, sizeof said, "start it with honed --socket %s", f.socket);
	CHECK_SAYS(cli_out, said);
	CHECK_RUN(1, "wait --ready --timeout 150ms --socket %s.not", f.socket);
	snprintf(said, sizeof said, "start it with honed --socket %s.not and its other options", f.socket);
	CHECK_SAYS(cli_err, said);
	CHECK_RUN(1, "wait --ready --timeout 150ms --socket /run/hone/honed.sock");
	CHECK_SAYS(cli_err, "honed does not run: nothing listens on /run/hone/honed.sock (");
	/* The unit if systemd knows it, else the honed beside this program; beside a test there is none. It
	 * tunes nothing without a configuration. The doctor's remedy is the same one. */
	snprintf(said, sizeof said, "start it with %s%s", geteuid() ? "sudo " : "",
		 daemon_has_unit("", "honed.service") ? "systemctl enable --now honed.socket honed"
						      : "honed --config FILE");
	CHECK_SAYS(cli_err, said);
	hone("doctor --socket /nowhere/honed.sock");
	CHECK_SAYS(cli_out, said);
	CHECK_RUN(1, "wait --ready --json --timeout 0s");
	json_t *j = parse_out();
	CHECK(json_is_false(json_object_get(j, "ready")) && json_is_string(json_object_get(j, "why")));
	json_decref(j);
	f.said =
	    "\"models\":[{\"name\":\"steering\",\"state\":\"exhausted\",\"ready\":true},{\"name\":\"lidar\","
	    "\"state\":\"failed\",\"now_ms\":5,\"error\":\"no memory\"}]"; /* it has kernels */
	fake_listen(&f);
	CHECK_RUN(0, "wait --ready --timeout 20s");
	CHECK_SAYS(cli_err, "every model of honed.conf is ready");
	CHECK_RUN(0, "wait --ready --json --timeout 20s");
	CHECK_SAYS(cli_out, "\"ready\":true");
	CHECK_RUN(1, "wait --timeout 0s");
	CHECK_SAYS(cli_err, "1 of 2 models are ready");
	f.said = "\"models\":[{\"name\":\"steering\",\"state\":\"exhausted\",\"ready\":true}]";
	CHECK_RUN(0, "wait --timeout 0s"); /* asks how it is now */
	CHECK_SAYS(cli_err, "every model of honed.conf is ready");
	fake_hush(&f);
	fake_remove(&f);
}

TEST(wait_names_the_models_that_honed_gave_up)
{
	struct fake f = {.answer = daemon_of};
	f.said =
	    "\"models\":[{\"name\":\"steering\",\"state\":\"exhausted\",\"ready\":true},{\"name\":\"camera\","
	    "\"state\":\"refused\",\"ready\":true,\"error\":\"c.onnx: a TFLite model\"},{\"name\":\"lidar\","
	    "\"state\":\"failed\",\"ready\":true,\"error\":\"no memory\"}]";
	fake_folder(&f);
	fake_listen(&f);
	CHECK_RUN(1, "wait --ready --timeout 20s");
	CHECK_SAYS(cli_err, "model camera: c.onnx: a TFLite model\nmodel lidar: no memory\n");
	CHECK_SAYS(cli_err, "honed cannot tune 2 models of honed.conf (camera, lidar)");
	CHECK(!strstr(cli_err, "is ready"));
	CHECK_RUN(1, "wait --ready --timeout 20s -q"); /* the error alone names all of them, too */
	CHECK_SAYS(cli_err, "(camera, lidar)");
	CHECK_RUN(1, "wait --ready --json --timeout 20s");
	json_t *j = parse_out(), *list = json_object_get(j, "refused_models");
	CHECK(json_is_false(json_object_get(j, "ready")) && json_array_size(list) == 2);
	CHECK(!strcmp(json_string_value(json_object_get(json_array_get(list, 1), "why")), "no memory"));
	json_decref(j);
	fake_hush(&f);
	fake_remove(&f);
}

/* A second question could name another folder than the one that was checked. */
TEST(forget_asks_once_for_the_folder)
{
	char said[320];
	struct fake f = {.answer = daemon_of, .said = said};
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", in_dir("its"));
	snprintf(said, sizeof said, "\"cache\":\"%s\"", in_dir("its"));
	fake_folder(&f);
	fake_listen(&f);
	CHECK_RUN(0, "forget --all");
	CHECK_SAYS(cli_out, in_dir("its"));
	CHECK(f.asked == 2); /* hello, status */
	fake_hush(&f);
	fake_remove(&f);
}

static bool never_ready(struct fake *f, const char *op, long long id, const json_t *r, struct buf *out)
{
	return strcmp(op, "wait") ? daemon_of(f, op, id, r, out) : true;
}

TEST(wait_says_why_it_is_not)
{
	struct fake f = {.answer = never_ready, .said = full};
	fake_folder(&f);
	fake_listen(&f);
	CHECK_RUN(1, "wait --ready --timeout 200ms");
	CHECK_SAYS(cli_err, "after 0.2 s 1 of 2 models are ready; not ready: e?[2Jvil?name on cpu is refused (no ");
	CHECK_SAYS(cli_err, "; honed: rests: zone cpu is at 71 C; see hone status");
	CHECK(!strstr(cli_err, "steering")); /* it is ready */
	fake_hush(&f);
	/* The whole of a long error arrives, with the remedy at its end, and once. */
	char error[1024], said[1500];
	memset(error, 'x', sizeof error);
	for (size_t i = 7; i < sizeof error; i += 8)
		error[i] = ' ';
	snprintf(error + sizeof error - 40, 40, "; export the model with opset 17");
	snprintf(said, sizeof said,
		 "\"state\":\"failing\",\"verdict\":\"model m: opset 17\",\"models\":[{\"name\":\"m\",\"state\":\"failed\","
		 "\"ready\":false,\"error\":\"%s\"}]",
		 error);
	f.said = said;
	fake_listen(&f);
	CHECK_RUN(1, "wait --ready --timeout 200ms");
	snprintf(said, sizeof said, "not ready: m on cpu is failed (%s); see hone status", error);
	CHECK_SAYS(cli_err, said);
	fake_hush(&f);
	fake_remove(&f);
}

TEST(without_a_daemon_a_file_inhibits)
{
	struct fake f = {0};
	fake_folder(&f);
	CHECK_RUN(2, "inhibit");
	CHECK_SAYS(cli_err, "missing option --why");
	CHECK_RUN(2, "inhibit --why x --for 1s -- true");
	CHECK_RUN(2, "inhibit --why x --for 0");
	CHECK_SAYS(cli_err, "--for must be longer than 0");
	CHECK_RUN(0, "inhibit --why arm --for 10m");
	CHECK_SAYS(cli_out, "when honed starts, it tunes nothing for 10 min from now\n");
	CHECK(!strstr(cli_out, "does not run") && test_count(cli_err, "honed does not run") == 1);
	CHECK_RUN(0, "status --cache %s", in_dir("cache"));
	CHECK_SAYS(cli_out, " (for another 10 min)\n");
	CHECK_RUN(0, "resume");
	CHECK_RUN(0, "inhibit --why soon --for 1ms");
	usleep(2000);
	CHECK_RUN(0, "status --cache %s", in_dir("cache"));
	CHECK(!strstr(cli_out, "soon")); /* the inhibit has ended */
	CHECK_RUN(0, "inhibit --json --why arm");
	json_t *j = parse_out();
	char name[64];
	snprintf(name, sizeof name, "%s", json_string_value(json_object_get(j, "name")));
	CHECK(json_is_false(json_object_get(j, "daemon")));
	json_decref(j);
	CHECK_RUN(0, "status --cache %s", in_dir("cache"));
	CHECK_SAYS(cli_out, ": arm (user ");
	CHECK_SAYS(cli_out, name);
	CHECK_RUN(0, "resume %s", name);
	CHECK_SAYS(cli_out, "1 inhibit is gone");
	CHECK_RUN(1, "resume %s", name);
	CHECK_SAYS(cli_err, "there is no inhibit");
	CHECK_RUN(0, "inhibit --why one");
	CHECK_RUN(0, "inhibit --why two");
	CHECK_RUN(0, "resume --json");
	CHECK_SAYS(cli_out, "{\"resumed\":2}");
	CHECK_RUN(0, "resume");
	CHECK_SAYS(cli_out, "this user inhibits nothing");
	CHECK_SAYS(cli_err, "honed does not run: nothing listens on /");
	CHECK_RUN(2, "resume ../../etc/passwd");
	CHECK_RUN(2, "resume .hidden");
	CHECK_RUN(1, "resume 1-2-x");
	setenv("HONE_RUN", "/dev/null/no", 1);
	CHECK_RUN(1, "inhibit --why arm");
	CHECK_SAYS(cli_err, "be root, or set $HONE_RUN");
	CHECK_RUN(3, "inhibit --why arm -- sh %s",
		  "-c exit\t3"); /* one argument: the shell reads a tab as a blank */
	CHECK_SAYS(cli_err, "if it starts meanwhile, it will not know");
	fake_remove(&f);
}

static int count_files(const char *run)
{
	char path[200];
	int n = 0;
	snprintf(path, sizeof path, "%s/inhibit", run);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

/* Without HONE_RUN, the run folder is that of HONE_SOCKET; --socket wins over both. */
TEST(without_a_daemon_the_sockets_folder_is_inhibited)
{
	struct fake f = {0};
	char other[160];
	fake_folder(&f);
	setenv("HONE_RUN", "", 1);
	CHECK_RUN(0, "inhibit --why docking");
	CHECK(count_files(f.dir) == 1);
	CHECK_SAYS(cli_err, f.socket);
	CHECK_SAYS(cli_err, " (--socket PATH or $HONE_SOCKET names another); start it with ");
	CHECK_RUN(4, "inhibit --why docking -- sh -c exit\t4"); /* one argument: sh reads a tab as a blank */
	CHECK_SAYS(cli_err, "honed does not run: nothing listens on ");
	CHECK_SAYS(cli_err, f.socket);
	CHECK_SAYS(cli_err, "; if it starts meanwhile, it finds the inhibit ");
	CHECK_RUN(4, "inhibit -q --why docking -- sh -c exit\t4");
	CHECK(!cli_err[0]);
	CHECK_RUN(0, "status --cache %s", in_dir("cache"));
	CHECK_SAYS(cli_out, ": docking (user ");
	CHECK_RUN(0, "resume --json");
	CHECK_SAYS(cli_out, "{\"resumed\":1}");
	CHECK(count_files(f.dir) == 0);
	snprintf(other, sizeof other, "%s/other", f.dir);
	setenv("HONE_RUN", other, 1);
	CHECK_RUN(0, "inhibit --why docking");
	CHECK(count_files(f.dir) == 0 && count_files(other) == 1);
	CHECK_RUN(0, "inhibit --why docking --socket %s", f.socket);
	CHECK(count_files(f.dir) == 1 && count_files(other) == 1);
	fake_remove(&f);
}

/* A user other than root inhibits by the folder that is open to everybody. */
TEST(without_a_daemon_everybody_may_inhibit)
{
	struct fake f = {0};
	char path[160];
	if (getuid() != 0)
		SKIP("needs root");
	fake_folder(&f);
	snprintf(path, sizeof path, "%s/inhibit.d", f.dir);
	CHECK(chmod(f.dir, 0755) == 0 && mkdir(path, 0777) == 0 && chmod(path, 01777) == 0);
	const char *log = in_dir("stderr"); /* the child writes there */
	CHECK_RUN(0, "wait --ready --timeout 0s --help");
	CHECK(chmod(dir, 0777) == 0 && chmod(log, 0666) == 0 && chmod(in_dir("stdout"), 0666) == 0);
	nobody = true;
	CHECK_RUN(0, "inhibit --why arm");
	CHECK_RUN(0, "status --cache %s", in_dir("cache"));
	CHECK_SAYS(cli_out, "\ninhibit    65534-");
	CHECK_SAYS(cli_out, ": arm (user 65534)\n");
	CHECK_RUN(1, "inhibit --why arm --for 10m");
	CHECK_SAYS(cli_err, "nobody would end it");
	CHECK_RUN(0, "resume --json");
	CHECK_SAYS(cli_out, "{\"resumed\":1}");
	CHECK_RUN(4, "inhibit --why arm -- sh -c ls\t%s|grep\t-q\t65534-&&exit\t4", path);
	CHECK(rmdir(path) == 0); /* the folder is empty again */
	CHECK_RUN(1, "inhibit --why arm");
	CHECK_SAYS(cli_err, "be root, or set $HONE_RUN");
	nobody = false;
	fake_remove(&f);
}

/* Inhibit files of somebody else have hostile names and reasons. */
TEST(strange_inhibit_files_are_shown_plain)
{
	struct fake f = {0};
	char path[160];
	no_sync();
	fake_folder(&f);
	snprintf(path, sizeof path, "%s/inhibit", f.dir);
	CHECK_OK(file_mkdirs(path, 0755));
	static const char *const names[] = {"7-1-0", "m\033oving", ".7-1-0", "7-1-5"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/inhibit/%s", f.dir, names[i]);
		CHECK_OK(file_write(path, "\033[2Jwhy\nmore", 12));
	}
	snprintf(path, sizeof path, "%s/inhibit/8-1-0", f.dir);
	CHECK(mkfifo(path, 0600) == 0);
	snprintf(path, sizeof path, "%s/inhibit/9-1-0", f.dir);
	CHECK(symlink("/etc/passwd", path) == 0);
	CHECK_RUN(0, "status --cache %s", in_dir("cache"));
	CHECK_SAYS(cli_out, "\ninhibit    7-1-0: ?[2Jwhy\ninhibit    m?oving: ?[2Jwhy\ncache ");
	CHECK(!no_control_in(cli_out));
	CHECK_RUN(0, "resume m\033oving");
	CHECK_RUN(0, "status --cache %s", in_dir("cache"));
	CHECK(!strstr(cli_out, "oving"));
	fake_remove(&f);
}

TEST(a_command_runs_inhibited_and_its_status_is_passed_on)
{
	struct fake f = {.answer = daemon_of, .said = full};
	char path[160];
	fake_folder(&f);
	snprintf(path, sizeof path, "%s/inhibit", f.dir);
	CHECK_RUN(7, "inhibit --why arm -- sh -c ls\t%s/*-*-*>%s/seen;exit\t7", path, f.dir);
	snprintf(path, sizeof path, "%s/seen", f.dir);
	slurp(path, cli_out, sizeof cli_out);
	CHECK_SAYS(cli_out, "/inhibit/"); /* the file existed during the command and was removed after it */
	CHECK_RUN(0, "resume --json");
	CHECK_SAYS(cli_out, "{\"resumed\":0}");
	CHECK_RUN(127, "inhibit --why arm -- /nowhere/command");
	CHECK_SAYS(cli_err, "/nowhere/command: No such file");
	CHECK_RUN(143, "inhibit --why arm -- sh -c kill\t$$");
	CHECK_RUN(143, "inhibit --why arm -- sh -c kill\t$PPID;sleep\t9"); /* the signal is forwarded */
	CHECK_RUN(0, "resume --json");
	CHECK_SAYS(cli_out, "{\"resumed\":0}");
	fake_listen(&f);
	int before = f.asked;
	CHECK_RUN(5, "inhibit --why arm -- sh -c exit\t5");
	CHECK(f.asked - before == 4); /* hello, inhibit; hello, resume */
	CHECK(asked_ms == 60000);     /* a minute, so that it ends if the command is killed */
	CHECK_RUN(0, "inhibit --why arm --for 10m");
	CHECK(asked_ms == 600000);
	CHECK_SAYS(cli_err, "hone resume held-1");
	CHECK_RUN(0, "resume held-1");
	CHECK_SAYS(cli_out, "1 inhibit is gone");
	fake_hush(&f);
	fake_remove(&f);
}

static char tuned[1200], tuned_sizes[1200], shut[32]; /* shut: why the gate is closed; "": it is open */

static bool tunes(struct fake *f, const char *op, long long id, const json_t *r, struct buf *out)
{
	(void)f;
	if (fake_hello(op, id, out))
		return true;
	const char *shapes = json_string_value(json_object_get(r, "shapes"));
	if (!strcmp(op, "tune"))
		snprintf(tuned_sizes, sizeof tuned_sizes, "%s", shapes ? shapes : "");
	if (!strcmp(op, "tune"))
		snprintf(tuned, sizeof tuned, "%s %s %lld %lld %d", op,
			 json_string_value(json_object_get(r, "model")),
			 json_integer_value(json_object_get(r, "ms")),
			 json_integer_value(json_object_get(r, "threads")),
			 json_is_true(json_object_get(r, "now")));
	buf_printf(out, "{\"id\":%lld,\"ok\":true,\"job\":7", id);
	if (shut[0])
		buf_printf(out, ",\"gate\":{\"open\":false,\"why\":\"%s\",\"words\":\"because\"}", shut);
	buf_puts(out, "}\n");
	return true;
}

/* Shapes are checked before the job is queued, with the errors of a search in the foreground. */
static void check_same_error(const char *model, const char *shapes)
{
	char said[1000];
	CHECK_RUN(2, "tune %s %s", model, shapes);
	snprintf(said, sizeof said, "%.900s", cli_err);
	CHECK_RUN(2, "tune %s --background %s", model, shapes);
	CHECK(said[0] && !strcmp(said, cli_err));
	CHECK(!tuned[0]);
}

static void background_shapes(void)
{
	static const char *const bad[] = {"",
					  "--shape h=8",
					  "--shape x=1x3x8",
					  "--shape x=1x3x8x0",
					  "--shape q=8 --shape h=8",
					  "--shape x",
					  "--shape h=8 --shape h=9",
					  "--shape x=wide"};
	char model[256], many[200] = "", one[20];
	snprintf(model, sizeof model, "%s", one_node("free.onnx", "Relu", "1 3 h w"));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		check_same_error(model, bad[i]);
	CHECK_RUN(0, "tune %s --background --shape h=8 --shape w=6", model);
	CHECK(!strcmp(tuned_sizes, "h=8\nw=6"));
	CHECK_RUN(0, "tune %s --background --shape x=1x3x8x6", model);
	CHECK(!strcmp(tuned_sizes, "x=1x3x8x6"));
	for (int i = 0; i < 9; i++) {
		snprintf(one, sizeof one, " --shape n%d=1", i);
		strcat(many, one);
	}
	tuned[0] = 0;
	CHECK_RUN(2, "tune %s --background%s", model, many);
	CHECK_SAYS(cli_err, "--background takes at most 8 --shape");
	CHECK_RUN(0, "tune camera --background");
	CHECK(!tuned_sizes[0]);
	tuned[0] = 0;
}

TEST(honed_tunes_in_the_background)
{
	struct fake f = {.answer = tunes};
	char want[300];
	fake_folder(&f);
	CHECK_RUN(1, "tune /m.onnx --background");
	CHECK_SAYS(cli_err, "honed does not run; tune without");
	CHECK_RUN(2, "tune /m.onnx --now");
	CHECK_SAYS(cli_err, "--now goes with --background");
	CHECK_RUN(2, "tune /m.onnx --background --exact");
	CHECK_SAYS(cli_err, "cannot be combined with --exact");
	fake_listen(&f);
	CHECK_RUN(0, "tune %s --background --budget 3s --threads 2 --now", steering());
	CHECK_SAYS(cli_out, "honed tunes it as job 7");
	CHECK_SAYS(cli_err, "Next: hone status --watch");
	snprintf(want, sizeof want, "tune %s 3000 2 1", steering());
	CHECK(!strcmp(tuned, want));
	/* hone tune refuses a model that hone cannot use before it queues it. */
	tuned[0] = 0;
	background_shapes();
	const char *bad = one_node("unsupported.onnx", "NoSuchOperator", "4 4");
	CHECK_RUN(1, "tune %s --background", bad);
	CHECK_SAYS(cli_err, "NoSuchOperator");
	CHECK_OK(file_write(in_dir("empty.onnx"), "", 0));
	CHECK_OK(file_write(in_dir("damaged.onnx"), "damaged", 7));
	CHECK_RUN(1, "tune %s --background", in_dir("empty.onnx"));
	CHECK_RUN(1, "tune %s --background --json", in_dir("damaged.onnx"));
	CHECK_SAYS(cli_out, "{\"error\":\"");
	CHECK(!tuned[0]);
	CHECK_RUN(0, "tune camera --background --json");
	CHECK_SAYS(cli_out, "{\"model\":\"camera\",\"job\":7}");
	CHECK(!strcmp(tuned, "tune camera 0 0 0"));
	/* --now does not wait for load, pressure, hours and settling. */
	static const char *const soft[] = {"settling", "hours", "load", "pressure"}, *const hard[] = {
	    "inhibited", "throttled", "hot", "battery", "memory"};
	for (size_t i = 0; i < 9; i++) {
		snprintf(shut, sizeof shut, "%s", i < 4 ? soft[i] : hard[i - 4]);
		CHECK_RUN(0, "tune camera --background --now");
		CHECK((strstr(cli_out, "now it is closed: because") != NULL) == (i >= 4));
		CHECK_RUN(0, "tune camera --background");
		CHECK_SAYS(cli_out, "now it is closed: because");
	}
	shut[0] = 0;
	fake_hush(&f);
	fake_remove(&f);
}

/* Makes a board whose files hold secrets. */
static void make_secretive_board(void)
{
	static const struct {
		const char *path, *text;
	} files[] = {
	    {"board/etc/hone/honed.conf",
	     "[boot]\nbudget = 7s\n[sync]\nserver = fleet.example\npin: 1234-5678\n[idle]\n"
	     "tune = no\n# password = hunter2\n"},
	    {"board/etc/hone/honed.conf.d/a.conf", "[limits]\njobs = 99\n"},
	    {"board/etc/hone/honed.conf.d/b.conf",
	     "\xef\xbb\xbf [sync]\ncert = MII\n  goes-on-hunter2\n; was hunter2\n-x = 1\n"
	     "pin2 = 1234\n"},
	    {"board/proc/self/mountinfo",
	     "1 1 0:1 / / rw,noatime - ext4 /dev/secret rw\n2 1 0:2 / /far rw - nfs nas:/x rw\n"},
	    {"board/proc/cmdline", "root=/dev/mmcblk0 luks.password=xyzzy hone.budget=3s psi=1\n"},
	};
	CHECK_OK(file_mkdirs(in_dir("board/etc/hone/honed.conf.d"), 0755));
	CHECK_OK(file_mkdirs(in_dir("board/proc/self"), 0755));
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		CHECK_OK(file_write(in_dir(files[i].path), files[i].text, strlen(files[i].text)));
}

static void check_report(const char *report)
{
	static const char *const holds[] = {"== version",
					    ("hone " HONE_VERSION),
					    "honed 0.1.0",
					    "\"verdict\"",
					    "== configuration",
					    "budget = 7s",
					    "server = (left out)",
					    "pin= (left out)",
					    "a.conf:2",
					    "jobs = 99",
					    "tune = no",
					    "== target",
					    "lanes=",
					    "== cache",
					    "== log",
					    "/ ext4 rw,noatime",
					    "hone.budget=3s",
					    "psi=1",
					    "# password = (left out)"};
	static const char *const not [] = {"fleet.example", "1234", "hunter2",    "xyzzy",
					   "mmcblk0",       "nas:", "/dev/secret"};
	char host[72] = "";
	for (size_t i = 0; i < sizeof holds / sizeof *holds; i++)
		CHECK_SAYS(report, holds[i]);
	for (size_t i = 0; i < sizeof not / sizeof *not ; i++)
		CHECK(!strstr(report, not [i]));
	gethostname(host, sizeof host - 1);
	if (strlen(host) >= 3 && strcmp(host, "localhost"))
		CHECK(!strstr(report, host));
	CHECK(!no_control_in(report));
}

TEST(a_bug_report_holds_no_secrets)
{
	struct fake f = {.answer = daemon_of, .said = full};
	char path[256];
	struct stat st;
	fake_folder(&f);
	fake_listen(&f);
	make_secretive_board();
	setenv("HONE_SYSROOT", in_dir("board"), 1);
	snprintf(path, sizeof path, "%s", in_dir("report.txt"));
	CHECK_RUN(0, "bugreport -o %s --cache %s", path, in_dir("none"));
	CHECK(!cli_out[0]);
	CHECK_SAYS(cli_err, "  configuration  honed.conf");
	CHECK_SAYS(cli_err, path);
	CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
	slurp(path, cli_out, sizeof cli_out);
	check_report(cli_out);
	CHECK_RUN(0, "bugreport -q --json --cache %s", in_dir("none"));
	json_t *j = parse_out();
	static const char *const named[] = {"version", "status", "findings", "configuration", "vitals",
					    "target",  "cache",  "log",      "mounts",        "kernel"};
	for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
		const json_t *s = json_array_get(json_object_get(j, "sections"), i);
		CHECK(s && !strcmp(json_string_value(json_object_get(s, "name")), named[i]));
	}
	json_decref(j);
	CHECK_RUN(2, "bugreport --json -o %s", path);
	CHECK_RUN(1, "bugreport -q -o /nowhere/report --cache %s", in_dir("none"));
	unsetenv("HONE_SYSROOT");
	fake_hush(&f);
	fake_remove(&f);
}

/* The real honed. */

static pid_t honed;

static const char *beside_worker(const char *name)
{
	static char path[512];
	const char *w = worker(), *slash = w ? strrchr(w, '/') : NULL;
	snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash + 1 - w) : 0, slash ? w : "", name);
	return slash && access(path, X_OK) == 0 ? path : NULL;
}

/* Starts honed on a board without sensors, so that the gate is open. */
static void start_honed(const struct fake *f, const char *conf)
{
	char file[160], root[160], log[160];
	snprintf(file, sizeof file, "%s/conf", f->dir);
	snprintf(root, sizeof root, "%s/root", f->dir);
	snprintf(log, sizeof log, "%s/log", f->dir);
	CHECK_OK(file_write(file, conf, strlen(conf)));
	CHECK_OK(file_mkdirs(root, 0755));
	fflush(NULL);
	honed = fork();
	if (honed == 0) {
		unsetenv("HONE_SOCKET");
		redirect(2, log);
		const char *const program = beside_worker("honed");
		if (chdir(f->dir) == 0) /* some paths are relative: clients are in other folders */
			execl(program, "honed", "--config", "conf", "--run", f->dir, "--state", "state",
			      "--sysroot", root, NULL);
		_exit(127);
	}
	for (int i = 0; i < 4000 && !file_exists(f->socket); i++)
		usleep(5000);
}

static void stop_honed(void)
{
	int status;
	kill(honed, SIGTERM);
	CHECK(waitpid(honed, &status, 0) == honed && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(a_real_honed_without_models)
{
	struct fake f = {0};
	if (!beside_worker("honed"))
		SKIP("no honed was built");
	fake_folder(&f);
	setenv("HONE_RUN", "",
	       1); /* HONE_SOCKET alone leads to the run folder of the honed that is started */
	CHECK_RUN(0, "inhibit --why earlier --for 10m");
	start_honed(&f, "; the only setting\n");
	CHECK_RUN(0, "status");
	CHECK_SAYS(cli_out, "inhibited: earlier (user ");
	if (worker()) {
		CHECK_RUN(1, "tune %s --threads 1 --budget 1s", steering());
		CHECK_SAYS(cli_out, "honed lent no processors (inhibited: earlier");
		CHECK_RUN(1, "tune %s --threads 1 --budget 1s --json", steering());
		CHECK_SAYS(cli_out, "\"held\":\"inhibited: earlier");
		/* who, why, since when, and what ends it; also where the cache has kernels, and so nothing
		 * failed */
		CHECK_RUN(0, "resume --json");
		CHECK_RUN(0, "tune %s --threads 1 --budget 4s", steering());
		CHECK_RUN(0, "inhibit --why welding");
		CHECK_RUN(0, "tune %s --threads 1 --budget 1s", steering());
		CHECK_SAYS(cli_out, "honed lent no processors (inhibited: welding (user ");
		CHECK_SAYS(cli_out, "), for ");
		CHECK_SAYS(cli_out, " s; hone resume ");
		CHECK_SAYS(cli_out, " ends it)");
		CHECK(!strstr(cli_out, "too little time"));
		CHECK_RUN(0, "tune %s --threads 1 --budget 1s --json", steering());
		CHECK_SAYS(cli_out, "\"held\":\"inhibited: welding (user ");
		CHECK_RUN(0, "resume --json");
		CHECK_RUN(0, "inhibit --why earlier");
	}
	CHECK_RUN(1, "tune nowhere/m.onnx --background");
	CHECK_SAYS(cli_err, "cannot open nowhere/m.onnx");
	CHECK_RUN(0, "resume --json");
	CHECK_SAYS(cli_out, "{\"resumed\":1}");
	CHECK_RUN(0, "status");
	CHECK_SAYS(cli_out, "honed      no model is configured, so there is nothing to tune\n");
	CHECK_SAYS(cli_out, "/state/cache, "); /* honed's cache, not the user's */
	CHECK_RUN(0, "status --json");
	json_t *j = parse_out();
	check_keys(
	    j, "daemon verdict state mode ready models jobs gate inhibits flash cache records_by_type worn");
	json_decref(j);
	CHECK_RUN(0, "wait --ready --timeout 20s"); /* a boot does not fail for it */
	CHECK_SAYS(cli_err, "no model is configured in honed.conf, so there is nothing to wait for");
	CHECK(!strstr(cli_err, "is ready"));
	CHECK_RUN(9, "inhibit --why \033[2Jarm -- sh -c ls\t%s/inhibit>%s/seen;exit\t9", f.dir, f.dir);
	char path[160];
	snprintf(path, sizeof path, "%s/seen", f.dir);
	slurp(path, cli_out, sizeof cli_out);
	CHECK(strlen(cli_out) > 4 && strchr(cli_out, '\n') == cli_out + strlen(cli_out) - 1);
	CHECK_RUN(0, "resume --json");
	CHECK_SAYS(cli_out, "{\"resumed\":0}");
	CHECK_RUN(1, "resume 0-9-0");
	CHECK_RUN(0, "bugreport -q");
	CHECK_SAYS(cli_out, "honed " HONE_VERSION "\n");
	CHECK_SAYS(cli_out, "/conf\n; the only setting\n-- the configuration is valid\n");
	stop_honed();
	CHECK_RUN(0, "status --cache %s", in_dir("cache"));
	CHECK_SAYS(cli_out, "honed does not run");
	snprintf(path, sizeof path, "%s/log", f.dir);
	slurp(path, cli_out, sizeof cli_out);
	CHECK_SAYS(cli_out, "?[2Jarm");
	CHECK_SAYS(cli_out, "keeps 0 models tuned; their kernels are in /");
	CHECK(!no_control_in(cli_out));
	fake_remove(&f);
}

TEST(a_real_honed_and_a_model_that_is_none)
{
	struct fake f = {0};
	if (!beside_worker("honed"))
		SKIP("no honed was built");
	fake_folder(&f);
	char sized[256], conf[600];
	snprintf(sized, sizeof sized, "%s", one_node("sized.onnx", "Relu", "1 3 h w"));
	snprintf(conf, sizeof conf,
		 "[model camera]\npath = /nowhere/camera.onnx\n[model sized]\npath = %s\nshape = h=8\nshape "
		 "= w=8\n",
		 sized);
	start_honed(&f, conf);
	CHECK_RUN(1, "wait --ready --timeout 20s"); /* a refused model does not delay the answer */
	CHECK_SAYS(cli_err, "model camera: ");
	CHECK_SAYS(cli_err, "/nowhere/camera.onnx");
	CHECK_RUN(0, "status");
	CHECK_SAYS(cli_out, "camera  refused");
	CHECK_SAYS(cli_out, "/nowhere/camera.onnx");
	watch_until("gate ", false);
	CHECK_SAYS(cli_out, "; camera refused; sized ");
	CHECK_RUN(0, "inhibit --why moves");
	CHECK_RUN(0, "tune camera --background --budget 1s");
	CHECK_SAYS(cli_out, "once the gate is open; now it is closed: inhibited: moves");
	CHECK_RUN(0, "tune camera --background --now --budget 1s");
	CHECK_SAYS(cli_out, "once the gate is open; now it is closed: inhibited: moves");
	CHECK_SAYS(cli_out, "; its budget begins when it starts\n");
	CHECK_RUN(0, "tune %s --background --budget 1s", sized); /* its sizes are in the configuration */
	CHECK_RUN(0, "tune sized --background --budget 1s --shape h=5 --shape w=8");
	CHECK_RUN(2, "tune sized --background --budget 1s --shape h=5");
	CHECK_SAYS(cli_err, "input 'x' is [1, 3, 5, w]; give the sizes that you use");
	CHECK_RUN(2, "tune %s --background --budget 1s", one_node("unsized.onnx", "Relu", "1 3 h w"));
	CHECK_SAYS(cli_err, "give the sizes that you use, for example --shape x=1x3x224x224");
	CHECK_RUN(0, "tune %s --background --budget 1s", one_node("batch.onnx", "Relu", "N 3 8 8"));
	CHECK_SAYS(cli_err, "leaves its batch size free, so 1 is taken");
	CHECK_RUN(0, "resume");
	stop_honed();
	fake_remove(&f);
}

/* A model that hone cannot use is shown as that before the gate opens, also after a restart. */
TEST(a_real_honed_shows_a_broken_model_while_its_gate_is_closed)
{
	struct fake f = {0};
	char bad[256], good[256], conf[900];
	if (!beside_worker("honed"))
		SKIP("no honed was built");
	fake_folder(&f);
	snprintf(bad, sizeof bad, "%s", one_node("unsupported.onnx", "NoSuchOperator", "4 4"));
	snprintf(good, sizeof good, "%s", one_node("relu.onnx", "Relu", "4 4"));
	snprintf(conf, sizeof conf, "[idle]\nsettle = 1h\n[model bad]\npath = %s\n[model good]\npath = %s\n",
		 bad, good);
	for (int i = 0; i < 2; i++) {
		start_honed(&f, conf);
		watch_until("; bad failed; good waiting", false);
		CHECK_RUN(0, "status");
		CHECK_SAYS(cli_out, "NoSuchOperator");
		CHECK_SAYS(cli_out, "gate       closed");
		stop_honed();
	}
	fake_remove(&f);
}

/* A real honed tunes from an empty cache; while an inhibit lasts it makes no kernels. */
TEST(a_real_honed_tunes)
{
	struct fake f = {0};
	char conf[400];
	if (!beside_worker("honed") || !beside_worker("hone"))
		SKIP("no honed and hone were built");
	fake_folder(&f);
	snprintf(conf, sizeof conf,
		 "[idle]\nsettle = 1s\nslice = 3s\nrest = 1s\n[model steer]\npath = %s\nthreads = 1\n",
		 steering());
	CHECK_RUN(0, "inhibit --why setting\tup");
	start_honed(&f, conf);
	CHECK_RUN(1, "wait --ready --timeout 100ms");
	CHECK_SAYS(cli_err, "0 of 1 model is ready; not ready: steer on cpu is waiting");
	CHECK_SAYS(cli_err, "; honed: inhibited: setting?up");
	CHECK_RUN(0, "resume");
	int kernels = 0;
	for (int i = 0; i < 100 && kernels < 5; i++) { /* on a loaded machine a slice may gain nothing */
		CHECK_RUN(0, "wait --ready --timeout 100s");
		CHECK_RUN(0, "status --json");
		json_t *j = parse_out();
		CHECK(json_is_true(json_object_get(j, "ready")));
		kernels = (int)json_count(json_object_get(j, "records_by_type"), "type", "rec");
		json_decref(j);
		usleep(kernels < 5 ? 200000 : 0);
	}
	CHECK(kernels >= 5);
	CHECK_RUN(0, "status");
	CHECK_SAYS(cli_out, "\nsteer ");
	stop_honed();
	if (test_bad) {
		snprintf(conf, sizeof conf, "%s/log", f.dir);
		slurp(conf, cli_err, sizeof cli_err);
		printf("%s%s", cli_out, cli_err);
	}
	fake_remove(&f);
}

/* The folder of the socket that is given is honed's run folder, also where honed does not run. */
TEST(a_given_socket_names_the_run_folder)
{
	char socket[300], folder[256];
	snprintf(folder, sizeof folder, "%s", in_dir("other-run"));
	snprintf(socket, sizeof socket, "%s/honed.sock", folder);
	REQUIRE(mkdir(folder, 0755) == 0);
	REQUIRE(mkdir(in_dir("other-run/inhibit"), 0755) == 0);
	CHECK_RUN(0, "inhibit --socket %s --why moves --for 1m", socket);
	CHECK_RUN(0, "status --socket %s", socket);
	CHECK(strstr(cli_out, "moves") && strstr(cli_out, socket));
	CHECK_RUN(0, "resume --socket %s", socket);
	CHECK(strstr(cli_out, "1 inhibit is gone") != NULL);
}

TEST_MAIN
