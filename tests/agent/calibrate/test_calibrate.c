/* SPDX-License-Identifier: Apache-2.0 */
/* Calibrations with evaluators of all kinds: right, noisy, slow, killed, lying. The evaluators are scripts
 * that know the errors by their variables (error = own); tests/sh/calibrate.sh has some that run models. */
#include "agent/calibrate/calibrate.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"
#include "tests/lib/test.h"

#include <math.h>
#include <signal.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64], log_path[96];
static struct arena arena;

static const char *in(const char *name)
{
	static char path[4][128];
	static int at;
	at = (at + 1) % 4;
	snprintf(path[at], sizeof path[at], "%s/%s", dir, name);
	return path[at];
}

static void write_text(const char *name, const char *text)
{
	CHECK_OK(file_write(in(name), text, strlen(text)));
}

static void begin(void)
{
	snprintf(dir, sizeof dir, "/tmp/hone-calibrate-XXXXXX");
	CHECK(mkdtemp(dir));
	snprintf(log_path, sizeof log_path, "%s/log", dir);
}

static void end(void)
{
	char command[128];
	snprintf(command, sizeof command, "rm -rf %s", dir);
	CHECK(system(command) == 0);
	arena_free(&arena);
	arena = (struct arena){0};
}

/* An application of n networks whose evaluator is a script. */
static void make_app(int n, const char *script, const char *more, struct app *app)
{
	char conf[2048];
	int at = snprintf(conf, sizeof conf, "[application]\nevaluator = sh ./evaluator\n%s", more);
	for (int i = 0; i < n; i++)
		at += snprintf(conf + at, sizeof conf - (size_t)at, "[network %c]\nerror = own\n", 'a' + i);
	write_text("evaluator", script);
	write_text("app.conf", conf);
	CHECK_OK(app_read(arena_strdup(&arena, in("app.conf")), &arena, app));
}

static int runs, again;
static void count(void *ctx, const struct calibrate_answer *x, int number, bool from_log)
{
	(void)ctx, (void)x, (void)number;
	runs += !from_log;
	again += from_log;
}

static volatile sig_atomic_t stop_now;

static int run(const struct app *app, struct calibrate *out)
{
	const struct calibrate_opts o = {
	    .app = app, .log = log_path, .seed = 1, .stop = &stop_now, .ended = count};
	runs = again = 0;
	return calibrate(&o, &arena, out);
}

/* x + y <= 0.8 is tolerated. */
#define PLANE                                                                                                \
	"echo . >>count\n"                                                                                   \
	"awk 'BEGIN { print (ENVIRON[\"HONE_ERROR_A\"] + ENVIRON[\"HONE_ERROR_B\"] > 0.8) ? \"fail\" : "     \
	"\"pass\" }'\n"

static void check_plane(const struct calibrate *c)
{
	double error[BOUNDARY_AXES];
	int n = 0;
	for (; boundary_point(c->boundary, n, error); n++)
		CHECK(error[0] + error[1] <= 0.8);
	CHECK(n >= 3);
	CHECK(fabs(boundary_area(c->boundary).guess - 0.32) < 0.03);
}

TEST(a_plane_is_found_and_resumed)
{
	struct app app;
	struct calibrate c;
	begin();
	make_app(2, PLANE, "", &app);
	REQUIRE_OK(run(&app, &c));
	CHECK(c.nanswers == 26 && c.nfresh == 26 && runs == 26 && !c.all_decided);
	check_plane(&c);
	REQUIRE_OK(run(&app, &c)); /* nothing is run again */
	CHECK(c.nanswers == 26 && c.nfresh == 0 && again == 26);
	check_plane(&c);
	app.evaluations = 30;
	REQUIRE_OK(run(&app, &c));
	CHECK(c.nanswers == 31 && c.nfresh == 5 && again == 26);
	struct blob b;
	CHECK_OK(file_read(&arena, in("count"), 0, &b));
	CHECK(b.n == 2 * 31);
	app.evaluations = 10; /* no answer is dropped */
	REQUIRE_OK(run(&app, &c));
	CHECK(c.nanswers == 31 && c.nfresh == 0);
	end();
}

/* A machine that stops while a line is written leaves a part of it. */
TEST(a_log_cut_at_every_byte)
{
	struct app app;
	struct calibrate c;
	struct blob whole;
	begin();
	make_app(2, PLANE, "evaluations = 3\n", &app);
	REQUIRE_OK(run(&app, &c));
	REQUIRE_OK(file_read(&arena, log_path, 0, &whole));
	const char *last = memrchr(whole.p, '\n', whole.n - 1);
	for (size_t n = (size_t)(last - (const char *)whole.p); n < whole.n; n++) {
		struct blob after;
		CHECK_OK(file_write(log_path, whole.p, n));
		REQUIRE_OK(run(&app, &c));
		CHECK(c.nanswers == 4 && runs >= 1 && runs <= 2);
		CHECK_OK(file_read(&arena, log_path, 0, &after));
		CHECK(after.n > 0 && ((const char *)after.p)[after.n - 1] == '\n');
	}
	end();
}

/* The calibration is killed at any moment; each next one goes on, and the end is the same. */
TEST(killed_again_and_again)
{
	struct app app;
	struct calibrate c;
	begin();
	make_app(2, PLANE, "evaluations = 12\n", &app);
	for (int k = 0; k < 6; k++) {
		pid_t pid = fork();
		if (pid == 0) {
			int rc = run(&app, &c);
			_exit(rc < 0);
		}
		usleep(20000 + 17000 * (unsigned)k);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	REQUIRE_OK(run(&app, &c));
	CHECK(c.nanswers == 13);
	struct boundary_area killed = boundary_area(c.boundary);
	unlink(log_path);
	REQUIRE_OK(run(&app, &c));
	CHECK(boundary_area(c.boundary).tolerated == killed.tolerated);
	end();
}

TEST(scores)
{
	struct app app;
	struct calibrate c;
	begin();
	make_app(1, "echo working; awk 'BEGIN { print \"score \" 1 - ENVIRON[\"HONE_ERROR_A\"] }'\n",
		 "pass = 0.7\nrange = 0 1\nevaluations = 12\n", &app);
	REQUIRE_OK(run(&app, &c));
	double error[BOUNDARY_AXES];
	CHECK(boundary_point(c.boundary, 0, error) && fabs(error[0] - 0.3) < 0.003);
	CHECK(c.all_decided && c.nanswers < 13); /* as finely as the grid is */
	CHECK(c.answer[1].e.scored && fabs(c.answer[1].e.score - (1 - c.answer[1].error[0])) < 1e-5);
	end();
}

TEST(an_evaluator_that_fails)
{
	static const struct {
		const char *script, *more, *says;
		int rc;
	} bad[] = {
	    {"echo pass; exit 1\n", "", "the evaluator ended with status 1; it ends with 0, whatever",
	     E_CHILD},
	    {"echo passed\n", "", "gave no answer; its last line is pass, fail or score X", E_CHILD},
	    {"exit 0\n", "", "gave no answer", E_CHILD},
	    {"kill -SEGV $$\n", "", "killed by signal 11", E_CHILD},
	    {"sh -c 'kill -SEGV $$'; exit $?\n", "", "killed by signal 11", E_CHILD},
	    {"sleep 60\n", "timeout = 200ms\n", "killed after 200ms, its timeout", E_TIMEOUT},
	    {"echo score 7\n", "range = 0 1\n", "printed the score 7, which is not in its range, 0 to 1",
	     E_USAGE},
	    {"echo score nan\n", "", "printed the score nan; a score is finite", E_USAGE},
	    {"echo score inf\n", "", "printed the score inf; a score is finite", E_USAGE},
	    {"awk 'BEGIN { print \"pass\"; for (i = 0; i < 5000; i++) printf \"bypass\" }'\n", "",
	     "gave no answer", E_CHILD},
	    {"echo score high\n", "", "which is no number behind score", E_CHILD},
	    {"echo pass; echo fail\n", "", "without errors the application does not work (1 of 1 runs)",
	     E_WRONG},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct app app;
		struct calibrate c;
		begin();
		make_app(1, bad[i].script, bad[i].more, &app);
		CHECK_FAILS(run(&app, &c), bad[i].rc, bad[i].says);
		CHECK(strstr(err_text(), "he same command"));
		/* Once it is mended, the same command goes on. */
		if (bad[i].rc == E_WRONG)
			unlink(log_path);
		write_text("evaluator", "echo pass\n");
		CHECK_OK(run(&app, &c));
		end();
	}
}

TEST(one_failure_is_tried_again)
{
	struct app app;
	struct calibrate c;
	begin();
	make_app(1, "[ -e once ] || { touch once; exit 9; }; echo pass; echo more\n", "evaluations = 3\n",
		 &app);
	CHECK_OK(run(&app, &c));
	CHECK(c.nanswers == 4 && boundary_area(c.boundary).tolerated > 0.8);
	end();
}

/* Whether a process has ended, though nobody may have waited for it. */
static bool has_ended(int pid)
{
	char path[64], state = 'X';
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	FILE *f = fopen(path, "r");
	if (f && fscanf(f, "%*d %*s %c", &state) != 1)
		state = 'X';
	if (f)
		fclose(f);
	return state == 'X' || state == 'Z';
}

/* What an evaluator leaves running is ended with it, also at a timeout. */
TEST(nothing_is_left_running)
{
	struct app app;
	struct calibrate c;
	begin();
	make_app(1, "sleep 600 & echo $! >>pids; echo pass\n", "evaluations = 1\n", &app);
	CHECK_OK(run(&app, &c));
	make_app(1, "sh -c 'sleep 600 & echo $! >>pids; wait'\n", "evaluations = 5\ntimeout = 300ms\n", &app);
	unlink(log_path);
	CHECK_FAILS(run(&app, &c), E_TIMEOUT, "timeout");
	struct blob b;
	REQUIRE_OK(file_read(&arena, in("pids"), 0, &b));
	int n = 0;
	usleep(50000);
	for (const char *p = b.p; *p; p = strchr(p, '\n') + 1, n++)
		CHECK(has_ended(atoi(p)));
	CHECK(n == 3);
	end();
}

static void stop_soon(void *ctx, const struct boundary_ask *ask, int number, int left)
{
	(void)ctx, (void)ask, (void)left;
	stop_now = number == 3;
}

TEST(stopped_in_a_run)
{
	struct app app;
	struct calibrate c;
	begin();
	make_app(2, PLANE, "evaluations = 6\n", &app);
	struct calibrate_opts o = {
	    .app = &app, .log = log_path, .seed = 1, .stop = &stop_now, .begins = stop_soon};
	CHECK_FAILS(calibrate(&o, &arena, &c), E_STOPPED, "stopped");
	stop_now = 0;
	CHECK(c.boundary && c.nanswers == 3);
	REQUIRE_OK(run(&app, &c));
	CHECK(c.nanswers == 7 && again == 3);
	end();
}

TEST(noise)
{
	struct app app;
	struct calibrate c;
	begin();
	/* Each tenth answer is wrong. */
	make_app(1,
		 "awk 'BEGIN { yes = ENVIRON[\"HONE_ERROR_A\"] <= 0.41; if (ENVIRON[\"HONE_EVALUATION\"] % "
		 "10 == 4) yes = "
		 "!yes; print yes ? \"pass\" : \"fail\" }'\n",
		 "evaluations = 80\nwrong = 12%\n", &app);
	REQUIRE_OK(run(&app, &c));
	double error[BOUNDARY_AXES];
	CHECK(boundary_point(c.boundary, 0, error) && error[0] <= 0.41 && error[0] > 0.37);
	CHECK(c.answer[0].error[0] == 0 &&
	      c.answer[1].error[0] == 0); /* without errors it is asked more than once, too */
	end();
}

TEST(logs_of_others)
{
	struct app app, other;
	struct calibrate c;
	begin();
	make_app(2, PLANE, "evaluations = 2\n", &app);
	REQUIRE_OK(run(&app, &c));
	other = app;
	other.evaluator = "true";
	CHECK_FAILS(run(&other, &c), E_USAGE, "is the log of a calibration with another evaluator");
	other = app;
	other.net[1].most = 2;
	CHECK_FAILS(run(&other, &c), E_USAGE, "another network, or another model, error or output of it");
	other = app;
	other.wrong = 0.1;
	CHECK_FAILS(run(&other, &c), E_USAGE, "another share of wrong answers");
	int fd = open(log_path, O_RDONLY);
	CHECK(flock(fd, LOCK_EX) == 0);
	CHECK_FAILS(run(&app, &c), E_BUSY, "another hone calibrate works on");
	close(fd);
	write_text("log", "{\"mine\":1}");
	CHECK_FAILS(run(&app, &c), E_USAGE, "is no log of a calibration; name another file");
	struct blob kept;
	CHECK_OK(file_read(&arena, log_path, 0, &kept));
	CHECK(kept.n == 10);
	write_text("log", "{}\n");
	CHECK_FAILS(run(&app, &c), E_USAGE, "version of hone");
	write_text("log", "text\n");
	CHECK_FAILS(run(&app, &c), E_CORRUPT, "log:1: no line of a calibration's log");
	unlink(log_path);
	CHECK(mkdir(log_path, 0755) == 0);
	CHECK_FAILS(run(&app, &c), E_IO, "Is a directory");
	rmdir(log_path);
	CHECK(mkfifo(log_path, 0644) == 0);
	CHECK_FAILS(run(&app, &c), E_USAGE, "is no file");
	end();
}

/* Damaged logs are refused, or continued, and never believed beyond what they say. */
TEST(hostile_logs)
{
	struct app app;
	struct calibrate c;
	struct blob whole;
	begin();
	make_app(1, "echo pass\n", "evaluations = 2\n", &app);
	REQUIRE_OK(run(&app, &c));
	REQUIRE_OK(file_read(&arena, log_path, 0, &whole));
	unsigned seed = 5;
	for (int k = 0; k < 150; k++) {
		char *text = arena_strndup(&arena, whole.p, whole.n);
		for (int m = 0; m < 3; m++) {
			seed = seed * 1103515245 + 12345;
			text[(seed >> 8) % whole.n] = (char)(seed >> 24);
		}
		CHECK_OK(file_write_soon(log_path, text, whole.n));
		int rc = run(&app, &c);
		CHECK(rc == E_OK || rc == E_CORRUPT || rc == E_USAGE || rc == E_WRONG);
	}
	end();
}

TEST_MAIN
