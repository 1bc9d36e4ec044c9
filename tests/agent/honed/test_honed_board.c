/* SPDX-License-Identifier: Apache-2.0 */
/* honed on this machine, with a script instead of hone: jobs as processes, files that change, the service
 * manager, and honed's size. Past 800 lines because all tests share one honed and its folder. */
#include "agent/control/conf.h"
#include "agent/honed/examine.h"
#include "platform/base/clock.h"
#include "tests/lib/honed.h"
#include "tests/lib/process.h"

#include <ctype.h>
#include <glob.h>

/* The model's name says what the job does. The script tells the test by a file that it has started. */
static const char script[] =
    "#!/bin/sh\n"
    "d=$(dirname \"$2\")\n"
    "echo \"$@\" >\"$d/args\"\n"
    "case \"$1 $2\" in tasks*stall*) ls /proc/$$/fd >\"$d/fds\"\n"
    "   cat /proc/$$/limits /proc/$$/oom_score_adj >\"$d/limits\"\n"
    "   echo $$ >\"$d/pids.new\"; mv \"$d/pids.new\" \"$d/pids\"; exec sleep 1000 ;; esac\n"
    "case \"$1 $2\" in tasks*why* | tasks*long* | tasks*crash*) ;; tasks*) exit 0 ;; esac\n"
    "done='{\"op\":\"done\",\"trials\":5,\"before_ms\":2,\"after_ms\":1.5,\"promise\":0}'\n"
    "gain='{\"op\":\"done\",\"trials\":5,\"before_ms\":6,\"after_ms\":3,\"kept\":1,\"promise\":0.4}'\n"
    "case \"$2\" in\n"
    "*good*) echo \"$done\" >&3; exit 0 ;;\n"
    "*keep*) printf '{\"op\":\"put\",\"id\":1,\"type\":1,\"key\":\"%032d\",\"bytes\":5}\\nhello' 1 >&3\n"
    "   echo '{\"op\":\"commit\",\"id\":2}' >&3; while read -r line; do case \"$line\" in\n"
    "   *'\"id\":2,\"ok\":true'*) echo \"$done\" >&3; exit 0 ;; esac; done <&3 ;;\n"
    "*bad*) exit 3 ;;\n"
    "*why*) echo 'hone: error: no operator Fly' >&2; echo 'more words' >&2; exit 1 ;;\n"
    "*long*) printf 'hone: error: the first\\nhone: error: m.onnx: no operator Fly; its nodes:' >&2\n"
    "   i=0; while [ $i -lt 300 ]; do printf ' node%d' $i >&2; i=$((i + 1)); done\n"
    "   echo '; export the model with opset 17' >&2; printf 'no newline' >&2; exit 1 ;;\n"
    "*crash*) kill -9 $$ ;;\n"
    "*look*) ls /proc/$$/fd >\"$d/fds\"; cat /proc/$$/limits /proc/$$/oom_score_adj >\"$d/limits\"\n"
    "   cat /proc/$$/stat >\"$d/stat.new\"; mv \"$d/stat.new\" \"$d/stat\"; echo \"$done\" >&3 ;;\n"
    "*hang*) sleep 1000 & echo \"$$ $!\" >\"$d/pids.new\"; mv \"$d/pids.new\" \"$d/pids\"; wait ;;\n"
    "*yield*) echo $$ >\"$d/pids.new\"; mv \"$d/pids.new\" \"$d/pids\"\n"
    "   while read -r line; do echo \"$line\" >>\"$d/heard\"\n"
    "   case \"$line\" in *'go on'*) echo \"$done\" >&3; exit 0 ;; esac; done <&3 ;;\n"
    "*slices*) n=$(($(cat \"$d/nth\" 2>/dev/null || echo 0) + 1)); echo $n >\"$d/nth\"\n"
    "   case $n in\n"
    "   1) echo '{\"op\":\"progress\",\"net_ms\":8}' >&3; echo \"$gain\" >&3 ;;\n"
    "   2) echo \"$gain\" >&3 ;;\n"
    "   3) while ! test -e \"$d/go\"; do sleep 0.05; echo '{\"op\":\"progress\"}' >&3; done\n"
    "      printf '{\"op\":\"put\",\"id\":1,\"type\":1,\"key\":\"%032d\",\"bytes\":5}\\nhello' 1 >&3\n"
    "      echo '{\"op\":\"commit\",\"id\":2}' >&3\n"
    "      while read -r line; do case \"$line\" in *'\"id\":2,\"ok\":true'*) : >\"$d/kept\" ;; esac; done "
    "<&3 ;;\n"
    "   esac ;;\n"
    "esac\n";

static const char *hone(void)
{
	if (!*at) {
		make_folder();
		write_text(own("hone"), script);
		chmod(own("hone"), 0755);
	}
	return own("hone");
}

static bool up(const char *conf)
{
	end_honed(SIGTERM);
	return start_honed(conf, hone());
}

static const char idle[] = "[idle]\ntune = no\nsettle = 1s\n";

/* Returns a file's text; "": there is no file. */
static const char *text_of(const char *name)
{
	static char text[1 << 15];
	int fd = open(in_folder(name), O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return text;
}

static bool appears(const char *name)
{
	for (int i = 0; i < PATIENCE_MS && access(in_folder(name), F_OK) < 0; i++)
		usleep(1000);
	return access(in_folder(name), F_OK) == 0;
}

static int tune(const char *model)
{
	int fd = dial();
	CHECK(say(fd,
		  "{\"id\":1,\"op\":\"tune\",\"model\":\"%s/%s\",\"ms\":60000,\"threads\":1,\"now\":true}",
		  at, model));
	CHECK(hears(fd, "\"id\":1,\"ok\":true"));
	return fd;
}

static bool says(const char *part)
{
	int fd = dial();
	bool is = false;
	for (int i = 0; i < PATIENCE_MS / 10 && !is; i++, usleep(10000)) {
		const char *line = say(fd, "{\"op\":\"status\"}") ? hear(fd) : NULL;
		is = line && strstr(line, part);
	}
	close(fd);
	return is;
}

static bool is_dead(pid_t pid)
{
	for (int i = 0; i < PATIENCE_MS; i++, usleep(1000))
		if (strchr("Z?", state_of(pid)))
			return true;
	return false;
}

TEST(how_a_job_is_started)
{
	REQUIRE(up(idle));
	write_text(in_folder("look.onnx"), "x");
	int fd = tune("look.onnx");
	CHECK(hears(fd, "\"event\":\"done\",\"job\":1,\"ok\":true"));
	close(fd);
	CHECK(strstr(text_of("args"), "look.onnx --cache ") &&
	      strstr(text_of("args"), "/state/cache --budget "));
	CHECK(strstr(text_of("args"), " -q") && strstr(text_of("args"), " --threads 1"));
	CHECK(!strncmp(text_of("fds"), "0\n1\n", 4) && strstr(text_of("fds"), "3\n"));
	CHECK(!strstr(text_of("fds"), "5\n"));
	const char *limits = text_of("limits");
	CHECK(strstr(limits, "Max core file size        0 ") && strstr(limits, "\n900\n"));
	CHECK(SANITIZED ||
	      strstr(limits, "Max data size             536870912 ")); /* a sanitizer needs more */
	int pid, pgrp, nice = 0, policy = 0, n = 0;
	const char *p = strrchr(text_of("stat"), ')');
	REQUIRE(p && sscanf(text_of("stat"), "%d", &pid) == 1);
	REQUIRE(sscanf(p + 2, "%*c %*d %d", &pgrp) == 1 && pgrp == pid);
	for (p += 2, n = 3; n < 19; n++)
		p = strchr(p, ' ') + 1;
	nice = atoi(p);
	for (; n < 41; n++)
		p = strchr(p, ' ') + 1;
	policy = atoi(p);
	CHECK(nice == 19 && policy == 5 /* SCHED_IDLE */);
}

/* A job's last message counts, however soon the job ends after it. */
TEST(last_words)
{
	char conf[256];
	hone();
	snprintf(conf, sizeof conf, "%s[model good]\npath = %s/good.onnx\nthreads = 1\n", idle, at);
	write_text(in_folder("good.onnx"), "x");
	REQUIRE(up(conf));
	for (int i = 0; i < 20; i++) {
		int fd = tune("good.onnx");
		CHECK(hears(fd, "\"ok\":true"));
		close(fd);
	}
	CHECK(says("\"jobs\":[]") && says("\"before_ms\":1.5,")); /* the time that was not disturbed */
}

static bool comes(const char *file, const char *part)
{
	for (int i = 0; i < PATIENCE_MS / 10 && !strstr(text_of(file), part); i++)
		usleep(10000);
	return strstr(text_of(file), part) != NULL;
}

/* A honed that is killed forgets no gain that a slice has told it; of a slice under way that has kept
 * something, the next honed says that its gain is not known. */
TEST(a_kill_forgets_no_gain)
{
	static const char rest[] = "[idle]\ntune = %s\nsettle = 1s\nslice = 60s\nload = 100%%\n"
				   "pressure = 100%%\nmemory = 1M\n"
				   "[model m]\npath = %s/slices.onnx\nthreads = 1\n";
	char works[512], waits[512];
	hone();
	write_text(in_folder("slices.onnx"), "x");
	snprintf(works, sizeof works, rest, "yes", at);
	snprintf(waits, sizeof waits, rest, "no", at);
	REQUIRE(up(works));
	/* the first time, 8 ms, gives way to that of the slice, 6 ms */
	CHECK(says("\"before_ms\":6,") && says("\"now_ms\":1.5,\"now_rough\":false"));
	CHECK(comes("state/marks", " 6 1.5 0\n"));
	CHECK(end_honed(SIGKILL) == 1000 + SIGKILL);
	write_text(in_folder("nth"), "2");
	REQUIRE(up(works));
	CHECK(says("\"before_ms\":6,") && says("\"now_ms\":1.5,\"now_rough\":false"));
	write_text(in_folder("go"), "");
	CHECK(appears("kept") && says("\"now_rough\":false"));
	CHECK(end_honed(SIGKILL) == 1000 + SIGKILL);
	REQUIRE(up(waits));
	CHECK(says("\"before_ms\":6,") && says("\"now_ms\":1.5,\"now_rough\":true"));
	end_honed(SIGTERM);
}

TEST(jobs_that_fail)
{
	static const char *const cases[][2] = {
	    {"bad.onnx", "status 3"}, {"crash.onnx", "signal 9"}, {"why.onnx", "\"no operator Fly\""}};
	REQUIRE(up(idle));
	for (int i = 0; i < 3; i++) {
		write_text(in_folder(cases[i][0]), "x");
		int fd = tune(cases[i][0]);
		const char *line = hear(fd);
		CHECK(line && strstr(line, "\"ok\":false") && strstr(line, cases[i][1]));
		close(fd);
	}
	CHECK(strstr(text_of("log"), "more words\n"));
	end_honed(SIGTERM);
	REQUIRE(start_honed(idle, "/no/such/program"));
	int fd = tune("bad.onnx");
	const char *line = hear(fd);
	CHECK(line && strstr(line, "\"ok\":false") && strstr(line, "cannot start /no/such/program"));
	close(fd);
}

static int count_in(const char *text, const char *part)
{
	int n = 0;
	for (const char *p = text; (p = strstr(p, part)); p++)
		n++;
	return n;
}

/* The log has the last error of a job once, with what follows from it, and everything else that the job
 * wrote. A long error loses its middle: its remedy reaches the status. */
TEST(one_failure_is_one_line_and_keeps_its_remedy)
{
	char conf[512];
	hone();
	write_text(in_folder("long.onnx"), "x");
	snprintf(
	    conf, sizeof conf,
	    "[idle]\ntune = yes\nsettle = 1s\nload = 100%%\npressure = 100%%\nmemory = 1M\n[model m]\npath = "
	    "%s/long.onnx\nthreads = 1\n",
	    at);
	end_honed(SIGTERM);
	unlink(in_folder("log"));
	REQUIRE(up(conf));
	CHECK(says("\"error\":\"m.onnx: no operator Fly; its nodes: node0 node1 ") &&
	      says(" ... export the model with opset 17\""));
	CHECK(says("\"verdict\":\"model m: m.onnx: no operator Fly; ") &&
	      says(" ... export the model with opset 17\",\"warning\""));
	end_honed(SIGTERM);
	CHECK(count_in(text_of("log"), "no operator Fly") == 1);
	CHECK(count_in(text_of("log"), "export the model with opset 17; honed tries again in 10 s") == 1);
	CHECK(strstr(text_of("log"), "hone: error: the first\n") && strstr(text_of("log"), "no newline\n"));
}

/* No process of a job outlives the job, and no job outlives honed. */
TEST(groups_end)
{
	for (int i = 0; i < 3; i++) {
		int a = 0, b = 0;
		REQUIRE(up(idle));
		unlink(in_folder("pids"));
		write_text(in_folder("hang.onnx"), "x");
		int fd = tune("hang.onnx");
		REQUIRE(appears("pids") && sscanf(text_of("pids"), "%d %d", &a, &b) == 2);
		if (i == 0)
			CHECK(say(fd, "{\"id\":2,\"op\":\"cancel\",\"job\":1}"));
		else if (i == 1)
			kill(a, SIGKILL);
		else
			CHECK(end_honed(SIGTERM) == 0);
		CHECK(is_dead(a) && is_dead(b));
		close(fd);
	}
	int a = 0, b = 0;
	REQUIRE(up(idle));
	unlink(in_folder("pids"));
	int fd = tune("hang.onnx");
	REQUIRE(appears("pids") && sscanf(text_of("pids"), "%d %d", &a, &b) == 2);
	end_honed(SIGKILL);
	CHECK(is_dead(a));
	kill(b, SIGKILL); /* its own parent reaps it */
	close(fd);
}

TEST(yields_and_goes_on)
{
	pid_t pid = 0;
	REQUIRE(up(idle));
	unlink(in_folder("pids"));
	unlink(in_folder("heard"));
	write_text(in_folder("yield.onnx"), "x");
	int fd = dial(), other = dial();
	CHECK(
	    say(fd, "{\"id\":1,\"op\":\"tune\",\"model\":\"%s/yield.onnx\",\"ms\":60000,\"threads\":1}", at));
	CHECK(hears(fd, "\"ok\":true"));
	REQUIRE(appears("pids") && (pid = atoi(text_of("pids"))) > 0);
	CHECK(say(other, "{\"id\":5,\"op\":\"inhibit\",\"why\":\"the arm moves\"}"));
	CHECK(hears(other, "\"id\":5,\"ok\":true"));
	for (int i = 0; i < PATIENCE_MS && state_of(pid) != 'T'; i++)
		usleep(1000);
	CHECK(state_of(pid) == 'T');
	glob_t g;
	CHECK(glob(in_folder("run/inhibit/*"), 0, NULL, &g) == 0 && g.gl_pathc == 1);
	globfree(&g);
	CHECK(says("the arm moves"));
	CHECK(say(other, "{\"id\":6,\"op\":\"resume\"}") && hears(other, "\"resumed\":1"));
	CHECK(hears(fd, "\"event\":\"done\""));
	/* A shell that gets no processor for 20 ms is stopped before it writes what it was told. */
	const char *told = strstr(text_of("heard"), "\"yield\"");
	CHECK(told && strstr(told, "\"go on\""));
	CHECK(glob(in_folder("run/inhibit/*"), 0, NULL, &g) == GLOB_NOMATCH);
	close(fd);
	close(other);
}

/* An inhibit outlives the honed that received it; a file that somebody else made counts as long as it
 * exists. */
TEST(inhibit_files)
{
	char conf[256];
	hone();
	snprintf(conf, sizeof conf, "%s[inhibit]\nfile = %s/moving\n", idle, at);
	REQUIRE(up(conf));
	int fd = dial();
	CHECK(say(fd, "{\"id\":5,\"op\":\"inhibit\",\"why\":\"on a ladder\"}") && hears(fd, "\"ok\":true"));
	close(fd);
	end_honed(SIGKILL);
	REQUIRE(up(conf));
	CHECK(says("on a ladder"));
	fd = dial();
	CHECK(say(fd, "{\"id\":6,\"op\":\"resume\"}") && hears(fd, "\"resumed\":1"));
	close(fd);
	CHECK(says("\"inhibits\":[]"));
	write_text(in_folder("moving"), "joint 3\n");
	CHECK(says("joint 3"));
	unlink(in_folder("moving"));
	CHECK(says("\"inhibits\":[]"));
	write_text(in_folder("run/inhibit/mission"), "");
	CHECK(says("mission"));
	unlink(in_folder("run/inhibit/mission"));
	CHECK(says("\"inhibits\":[]"));
	(void)mkdir(in_folder("run/inhibit.d"), 0755);
	REQUIRE(up(conf));
	write_text(in_folder("run/inhibit.d/arm"), "lifting");
	CHECK(says("lifting"));
	unlink(in_folder("run/inhibit.d/arm"));
	CHECK(says("\"inhibits\":[]"));
}

TEST(configuration_is_read_again)
{
	char conf[512];
	hone();
	snprintf(conf, sizeof conf, "%s[model seg]\npath = %s/seg.onnx\n", idle, at);
	write_text(in_folder("seg.onnx"), "x");
	REQUIRE(up(conf));
	CHECK(says("\"name\":\"seg\""));
	write_text(in_folder("honed.conf"), "[idle]\ntune = perhaps\n");
	kill(honed, SIGHUP);
	for (int i = 0; i < PATIENCE_MS && !strstr(text_of("log"), "honed.conf:2"); i++)
		usleep(1000);
	CHECK(strstr(text_of("log"), "honed.conf:2"));
	CHECK(says("honed.conf:2") && says("\"name\":\"seg\""));
	size_t n = strlen(conf);
	snprintf(conf + n, sizeof conf - n, "[model late]\npath = %s/late.onnx\n", at);
	write_text(in_folder("honed.conf"), conf);
	int fd = dial();
	CHECK(say(fd, "{\"id\":1,\"op\":\"reload\"}") && hears(fd, "\"id\":1,\"ok\":true"));
	close(fd);
	CHECK(says("\"name\":\"late\"") && says("\"state\":\"refused\"") && says("\"conf_error\":null"));
	write_text(in_folder("late.onnx"), "x");
	for (int i = 0; i < PATIENCE_MS / 10; i++, usleep(10000))
		if (!says("\"name\":\"seg\""))
			break;
		else if (fd = dial(), say(fd, "{\"op\":\"status\"}") && !strstr(hear(fd), "refused")) {
			close(fd);
			break;
		} else
			close(fd);
	fd = dial();
	CHECK(say(fd, "{\"op\":\"status\"}") && !strstr(hear(fd), "refused"));
	close(fd);
}

/* The service manager's socket, and the messages that arrive there. */
static int manager(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	snprintf(to.sun_path, sizeof to.sun_path, "%s", in_folder("manager"));
	unlink(to.sun_path);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (bind(fd, (struct sockaddr *)&to, sizeof to) < 0)
		abort();
	setenv("NOTIFY_SOCKET", to.sun_path, 1);
	return fd;
}

static bool told(int fd, const char *part)
{
	char text[1024];
	for (;;) {
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		ssize_t n = poll(&ready, 1, PATIENCE_MS) > 0 ? recv(fd, text, sizeof text - 1, 0) : -1;
		if (n < 0)
			return false;
		text[n] = 0;
		if (strstr(text, part))
			return true;
	}
}

TEST(service_manager)
{
	hone();
	int fd = manager();
	setenv("WATCHDOG_USEC", "200000", 1);
	end_honed(SIGTERM);
	REQUIRE(start_honed(idle, hone()));
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	CHECK(told(fd, "READY=1"));
	for (int i = 0; i < 5; i++)
		CHECK(told(fd, "WATCHDOG=1"));
	kill(honed, SIGHUP);
	CHECK(told(fd, "RELOADING=1\nMONOTONIC_USEC=") && told(fd, "READY=1"));
	kill(honed, SIGTERM);
	CHECK(told(fd, "STOPPING=1"));
	CHECK(end_honed(SIGTERM) == 0);
	close(fd);
}

/* Somebody else made the socket, and it stays when honed ends. */
TEST(activated)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	hone();
	end_honed(SIGTERM);
	write_text(in_folder("honed.conf"), idle);
	(void)mkdir(in_folder("run"), 0755);
	snprintf(to.sun_path, sizeof to.sun_path, "%s", in_folder("run/honed.sock"));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	REQUIRE(bind(fd, (struct sockaddr *)&to, sizeof to) == 0 && listen(fd, 8) == 0);
	int early = dial();
	CHECK(say(early, "{\"id\":1,\"op\":\"hello\",\"version\":2}"));
	honed = fork();
	if (honed == 0) {
		char pid[16];
		snprintf(pid, sizeof pid, "%d", (int)getpid());
		setenv("LISTEN_PID", pid, 1);
		setenv("LISTEN_FDS", "1", 1);
		int log = open(in_folder("log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
		dup2(log, 2);
		dup2(fd, 3);
		fcntl(3, F_SETFD, 0);
		execl(program("honed"), "honed", "--config", own("honed.conf"), "--run", own("run"),
		      "--state", own("state"), "--hone", hone(), (char *)NULL);
		_exit(127);
	}
	CHECK(hears(early, "\"id\":1,\"ok\":true"));
	CHECK(served());
	CHECK(end_honed(SIGTERM) == 0);
	CHECK(access(in_folder("run/honed.sock"), F_OK) == 0);
	close(early);
	close(fd);
	unlink(in_folder("run/honed.sock"));
}

static int run_honed(const char *a, const char *b)
{
	const char *argv[] = {program("honed"),
			      "--config",
			      own("honed.conf"),
			      "--run",
			      own("run"),
			      "--state",
			      own("boxes"),
			      "--hone",
			      hone(),
			      a,
			      b,
			      NULL};
	honed = launch(argv, in_folder("log"));
	return end_honed(0);
}

/* Runs a box; returns whether a job started in it. */
static bool boxes_a_job(void)
{
	unlink(in_folder("args"));
	CHECK(run_honed("--boot", "--budget=20s") == 0);
	return strstr(text_of("args"), "keep.onnx --cache ");
}

/* Every model of a cache that lacks what honed left there gets a new box. In the last two cases nothing can
 * be kept there, so the next box tries it, too. */
static void damage_caches(void)
{
	char cmd[400];
	static const struct {
		const char *how, *says;
		bool again;
	} cases[] = {
	    {"rm -r $0", "is not as honed left it: it has 0 of 1 records", false},
	    {"rm $0/*.seg", "it has 0 of 1 records", false},
	    {"for f in $0/*.seg; do : >$f; done", "it has 0 of 1 records", false},
	    {"rm -r $0; echo x >$0", "boxes/cache is a file, not a folder: remove it, or name another", true},
	    {"rm $0; mkdir $0; echo x >$0/photo.jpg",
	     "boxes/cache holds other files, and none of a cache: ", true}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		unlink(in_folder("log"));
		snprintf(cmd, sizeof cmd, "sh -c '%s' %s", cases[i].how, in_folder("boxes/cache"));
		CHECK(system(cmd) == 0);
		bool boxed = boxes_a_job(), said = test_count(text_of("log"), cases[i].says) == 1;
		if (!boxed || !said || boxes_a_job() != cases[i].again) {
			printf("%s: %s\n", cases[i].how, text_of("log"));
			test_bad = 1;
		}
	}
	snprintf(cmd, sizeof cmd, "rm -r %s", in_folder("boxes/cache"));
	CHECK(system(cmd) == 0);
}

TEST(boxes)
{
	char conf[256];
	hone();
	end_honed(SIGTERM);
	snprintf(conf, sizeof conf, "[model keep]\npath = %s/keep.onnx\nthreads = 1\n", at);
	write_text(own("honed.conf"), conf);
	write_text(in_folder("keep.onnx"), "x");
	CHECK(boxes_a_job() && strstr(text_of("boxes/marks"), "unclean 0"));
	/* There is nothing to do: no job starts, the cache is not opened, and no mark is written. */
	struct stat before, after, was, is;
	CHECK(stat(in_folder("boxes/cache"), &was) == 0 && stat(in_folder("boxes/marks"), &before) == 0);
	CHECK(!boxes_a_job());
	CHECK(stat(in_folder("boxes/cache"), &is) == 0 &&
	      !memcmp(&is.st_mtim, &was.st_mtim, sizeof is.st_mtim));
	CHECK(stat(in_folder("boxes/marks"), &after) == 0 && after.st_ino == before.st_ino);
	/* A model file that changed gets a new box. */
	write_text(in_folder("keep.onnx"), "xy");
	CHECK(boxes_a_job());
	CHECK(!boxes_a_job());
	damage_caches();
}

/* A stand-in for hone that says this as its list of devices. */
static const char *lister(const char *says)
{
	char text[600];
	snprintf(text, sizeof text, "#!/bin/sh\ncase \"$1 $2 $3\" in 'devices --names -q' | 'devices --board -q') ;; *) exit 0 ;; esac\n%s\n",
		 says);
	unlink(in_folder("lister"));
	write_text(in_folder("lister"), text);
	chmod(in_folder("lister"), 0755);
	return in_folder("lister");
}

static int check_with(const char *program_path)
{
	const char *argv[] = {program("honed"), "--check",    "--config", own("honed.conf"), "--state", at,
			      "--hone",         program_path, NULL};
	unlink(in_folder("log"));
	honed = launch(argv, in_folder("log"));
	return end_honed(0);
}

/* Devices that do not answer are noted, whatever the drivers' process does; that is no mistake, because the
 * file may be for another board. */
TEST(check_notes_absent_devices)
{
	static const struct {
		const char *says, *note;
	} cases[] = {
	    {"echo cpu; echo opencl:0; echo opencl:1", "no device opencl:7 answers now"},
	    {"echo cpu; echo opencl:0; echo opencl:77", "there are: cpu, opencl:0, opencl:77 (hone devices"},
	    {"echo cpu", "model a: no device opencl:0 answers now"},
	    {"echo opencl:7x; echo opencl:70; echo ' opencl:7'; echo opencl:07",
	     "there are: cpu, opencl:70 ("},
	    {"echo opencl:7; echo opencl:0", NULL},
	    {"kill -9 $$", "the devices are not known: "},
	    {"echo opencl:7; echo opencl:0; exit 1", "the devices are not known: "},
	    {"head -c 300000 /dev/zero | tr '\\0' x; echo; echo opencl:7", "no device opencl:7 answers now"},
	};
	char conf[512];
	hone();
	end_honed(SIGTERM);
	write_text(in_folder("good.onnx"), "x");
	snprintf(conf, sizeof conf, "[model a]\npath = %s/good.onnx\ndevice = cpu opencl:7 opencl:0\n", at);
	write_text(own("honed.conf"), conf);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int rc = check_with(lister(cases[i].says));
		const char *log = text_of("log");
		if (rc || !strstr(log, cases[i].note ? cases[i].note : "1 model") ||
		    !strstr(log, "honed: note: ") != !cases[i].note) {
			printf("%s: %d: %s\n", cases[i].says, rc, log);
			test_bad = 1;
		}
	}
	struct buf names = {0};
	CHECK_FAILS(examine_devices(lister("echo opencl:1; exec sleep 9"), NS_PER_S / 5, &names), E_TIMEOUT,
		    "did not end in");
	CHECK(!names.n);
	CHECK_FAILS(examine_devices(lister("sleep 2 & exit 0"), NS_PER_S / 5, &names), E_TIMEOUT,
		    "did not end in");
	CHECK_FAILS(examine_devices("/no/hone", NS_PER_S, &names), E_IO, "cannot be started");
	buf_free(&names);
	snprintf(conf, sizeof conf, "[model a]\npath = %s/good.onnx\n", at); /* nobody asks for the devices */
	write_text(own("honed.conf"), conf);
	CHECK(check_with(lister("kill -9 $$")) == 0 && !strstr(text_of("log"), "note"));
	/* Files of boards that hone finds wrong are mistakes, too. */
	CHECK(check_with(
		  lister("echo '/b/odd.conf:2: unknown key'; echo 'board: x (/b/x.conf: y)'; exit 1")) == 1);
	CHECK(strstr(text_of("log"), "/b/odd.conf:2: unknown key\n") && !strstr(text_of("log"), "board: x") &&
	      strstr(text_of("log"), "files of boards that cannot be used: 1;"));
	CHECK(check_with(lister("echo '/b/odd.conf:2: unknown key'")) == 0); /* it says that it found none */
	static const char *const malformed[] = {"opencl",      "opencl:", "opencl:x",
						"opencl:1000", "gpu",     "cpu cpu"};
	for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
		snprintf(conf, sizeof conf, "[model a]\npath = %s/good.onnx\ndevice = %s\n", at,
			 malformed[i]);
		write_text(own("honed.conf"), conf);
		CHECK(check_with(lister("kill -9 $$")) == 1 &&
		      strstr(text_of("log"), "honed.conf:3: [model a] device"));
	}
}

/* Options of hone's error become lines of honed.conf, each of them. */
TEST(free_sizes_are_asked_for_as_lines)
{
	struct buf why = {0};
	const struct conf_model m = {.name = "a", .path = "a.onnx"};
	hone();
	end_honed(SIGTERM);
	unlink(in_folder("lister"));
	write_text(in_folder("lister"), "#!/bin/sh\necho 'hone: error: sizes: --shape a=1x3 --shape b=1x128 "
					"--shape c=2 (see `hone tasks --help`)' >&2\nexit 1\n");
	chmod(in_folder("lister"), 0755);
	CHECK_OK(examine_model(in_folder("lister"), &m, INT64_MAX, &why));
	CHECK(!strcmp(buf_str(&why),
		      "sizes: in honed.conf: shape = a=1x3 and shape = b=1x128 and shape = c=2"));
	buf_free(&why);
	unlink(in_folder("lister"));
	write_text(in_folder("lister"), "#!/bin/sh\nsleep 20\n");
	chmod(in_folder("lister"), 0755);
	CHECK_FAILS(examine_model(in_folder("lister"), &m, NS_PER_S, &why), E_TIMEOUT, "did not end in 1 s");
	CHECK(!why.n);
}

/* Waits until the file has the text so often; false: it has it less often, or more. */
static bool has(const char *file, const char *part, int times)
{
	for (int i = 0; i < PATIENCE_MS && test_count(text_of(file), part) < times; i++)
		usleep(1000);
	return test_count(text_of(file), part) == times;
}

/* At its start honed names a model that no job could tune, though it may not tune yet, as long as no job has
 * served its file. It needs no socket and no lock of honed's for that. */
TEST(names_a_model_that_cannot_be_tuned_at_its_start)
{
	static const char rest[] = "settle = 1s\nslice = 60s\nload = 100%\npressure = 100%\nmemory = 1M\n";
	char models[400], conf[900];
	hone();
	end_honed(SIGTERM);
	unlink(in_folder("log"));
	unlink(in_folder("state/marks"));
	for (const char *const *name = (const char *const[]){"why.onnx", "why2.onnx", "good.onnx", NULL}; *name; name++)
		write_text(in_folder(*name), "x");
	snprintf(models, sizeof models,
		 "[model b]\npath = %s/good.onnx\n[model a]\npath = %s/why.onnx\n[model c]\npath = /no/c.onnx\n",
		 at, at);
	snprintf(conf, sizeof conf, "[idle]\ntune = yes\n%s%s", rest, models);
	const char *a = "honed.conf:10: model a: no operator Fly\n",
		   *d = "honed.conf:14: model d: no operator Fly\n";
	REQUIRE(up(conf));
	CHECK(has("log", a, 1));
	CHECK(!strstr(text_of("log"), "honed.conf:8:") && !strstr(text_of("log"), "honed.conf:12: model c"));
	CHECK(has("state/marks", "model ", 2)); /* b was tuned, so all have one */
	/* Now b is not examined, and a new model, which comes last, is. */
	snprintf(conf, sizeof conf, "[idle]\ntune = no\n%s%s[model d]\npath = %s/why2.onnx\n", rest, models, at);
	REQUIRE(up(conf));
	CHECK(has("log", d, 1) && has("log", a, 2));
	/* The marks are as many as the models, but not those of this file. */
	write_text(in_folder("why.onnx"), "another");
	snprintf(conf, sizeof conf, "[idle]\ntune = no\n%s%s", rest, models);
	REQUIRE(up(conf));
	CHECK(has("log", a, 3));
	CHECK(end_honed(SIGTERM) == 0);
}

/* The child that examines models has the limits of a job, and ends with honed, as does what it started. */
TEST(the_examiner_is_confined)
{
	char conf[512];
	int pid = 0;
	hone();
	end_honed(SIGTERM);
	unlink(in_folder("pids"));
	write_text(in_folder("stall.onnx"), "x");
	snprintf(conf, sizeof conf, "%s[limits]\nmemory = 300M\n[model a]\npath = %s/stall.onnx\n", idle, at);
	REQUIRE(up(conf));
	REQUIRE(appears("pids") && sscanf(text_of("pids"), "%d", &pid) == 1);
	CHECK(SANITIZED || strstr(text_of("limits"), "Max data size             314572800 "));
	CHECK(strstr(text_of("limits"), "Max core file size        0 ") && strstr(text_of("limits"), "\n900\n"));
	CHECK(!strstr(text_of("fds"), "9\n"));
	CHECK(served());
	CHECK(end_honed(SIGTERM) == 0);
	CHECK(is_dead(pid));
}

TEST(says_that_the_default_configuration_does_not_exist)
{
	if (access(CONF_FILE, F_OK) == 0 || access(CONF_FILE ".d", F_OK) == 0)
		SKIP("this machine has " CONF_FILE);
	hone();
	end_honed(SIGTERM);
	const char *argv[] = {program("honed"), "--check", NULL};
	honed = launch(argv, in_folder("log"));
	CHECK(end_honed(0) == 0);
	CHECK(strstr(text_of("log"), CONF_FILE " does not exist, so the defaults hold") != NULL);
}

/* Jobs get the libraries of their model, and other libraries are a reason for a new box. */
TEST(libraries_of_a_job)
{
	char conf[512];
	hone();
	end_honed(SIGTERM);
	snprintf(conf, sizeof conf, "rm -rf %s", in_folder("boxes"));
	CHECK(system(conf) == 0);
	write_text(in_folder("keep.onnx"), "x");
	snprintf(conf, sizeof conf, "[model keep]\npath = %s/keep.onnx\n", at);
	write_text(own("honed.conf"), conf);
	CHECK(boxes_a_job() && !strstr(text_of("args"), "--library") && !boxes_a_job());
	snprintf(conf, sizeof conf,
		 "[honed]\nlibrary = onednn, /no/own.so\n[model keep]\npath = %s/keep.onnx\n", at);
	write_text(own("honed.conf"), conf);
	CHECK(boxes_a_job() && strstr(text_of("args"), " --library onednn, /no/own.so") && !boxes_a_job());
	CHECK(run_honed("--check", NULL) == 0);
	CHECK(strstr(text_of("log"), "honed.conf:3: model keep: library /no/own.so is not there"));
	write_text(own("honed.conf"), "[model keep]\npath = /x\nlibrary = mkl\n");
	CHECK(run_honed("--check", NULL) == 1);
	CHECK(strstr(text_of("log"),
		     "honed.conf:3: [model keep] library = mkl is not possible; it takes none, "));
	unlink(in_folder("keep.onnx"));
}

TEST(checks_its_configuration)
{
	char conf[512];
	hone();
	end_honed(SIGTERM);
	snprintf(conf, sizeof conf, "[model good]\npath = %s/good.onnx\n", at);
	write_text(own("honed.conf"), conf);
	write_text(in_folder("good.onnx"), "x");
	CHECK(run_honed("--check", NULL) == 0);
	unlink(in_folder("good.onnx"));
	CHECK(run_honed("--check", NULL) == 1);
	CHECK(strstr(text_of("log"), "good.onnx: No such file"));
	write_text(own("honed.conf"), "[model x]\npath = /x\nwings = 2\n");
	CHECK(run_honed("--check", NULL) == 1);
	CHECK(strstr(text_of("log"), "honed.conf:3"));
	write_text(own("honed.conf"), "[boot]\nbudget = soon\n[model x]\nwings = 2\n");
	CHECK(run_honed("--check", NULL) == 1);
	CHECK(strstr(text_of("log"), "honed.conf:2: ") && strstr(text_of("log"), "honed.conf:4: ") &&
	      strstr(text_of("log"), "honed.conf:3: ") && strstr(text_of("log"), "3 mistakes"));
	CHECK(run_honed("--check", "--wings") == 2 && strstr(text_of("log"), "unknown option --wings"));
	CHECK(run_honed("x", "--chek") == 2 && strstr(text_of("log"), "unknown option --chek; did you mean"));
	CHECK(run_honed("--config", NULL) == 2 && strstr(text_of("log"), "--config needs a value"));
	CHECK(run_honed("--boot=x", NULL) == 2 && strstr(text_of("log"), "--boot takes no value"));
	CHECK(run_honed("--chek", NULL) == 2 &&
	      strstr(text_of("log"), "unknown option --chek; did you mean --check?"));
	CHECK(run_honed("--budget=", NULL) == 2);
	CHECK(
	    run_honed("--run", "--config") == 2 &&
	    strstr(text_of("log"), "--run needs a value, but --config follows (as a value: --run=--config)"));
	CHECK(run_honed("--budget", "--boot") == 2 && strstr(text_of("log"), "--budget needs a value"));
	CHECK(run_honed("--check=yes", NULL) == 2 && strstr(text_of("log"), "--check takes no value"));
	/* --check reports the faults of all model files at once, as jobs would find them. */
	snprintf(conf, sizeof conf,
		 "[model a]\npath = %s/why.onnx\n[model b]\npath = %s/good.onnx\n"
		 "[model c]\npath = %s/crash.onnx\nshape = x=1x3\n",
		 at, at, at);
	write_text(own("honed.conf"), conf);
	write_text(in_folder("why.onnx"), "x");
	write_text(in_folder("good.onnx"), "x");
	write_text(in_folder("crash.onnx"), "x");
	CHECK(run_honed("--check", NULL) == 1);
	CHECK(strstr(text_of("log"), "honed.conf:1: model a: no operator Fly\n") &&
	      strstr(text_of("log"), "honed.conf:5: model c: hone ended with signal 9") &&
	      !strstr(text_of("log"), "model b:") && strstr(text_of("log"), "cannot be used: 2"));
	CHECK(strstr(text_of("args"), "/crash.onnx -q --shape x=1x3\n"));
	/* Mistakes, [sync]'s too, all models' files, and then the error. */
	write_text(own("honed.conf"),
		   "[model x]\npath = /no/x\n[model y]\npath = /no/y\n[boot]\njobs = 1\njobs = 2\n"
		   "[sync]\nserver = ftp://x\nevry = 1h\n");
	CHECK(run_honed("--check", NULL) == 1);
	const char *log = text_of("log"), *last = log;
	static const char *const in_order[] = {"honed.conf:7: [boot] jobs is in line 6 already",
					       "honed.conf:9: [sync] server: 'ftp://x'",
					       "honed.conf:10: [sync] evry: no such key; did you mean every?",
					       "model x: /no/x: No such file",
					       "model y: /no/y: No such file",
					       "honed.conf: 2 models\n",
					       "3 mistakes in the configuration, and model files"};
	for (size_t i = 0; i < sizeof in_order / sizeof *in_order; i++) {
		const char *here = strstr(last, in_order[i]);
		if (!here)
			printf("no '%s' in order: %s\n", in_order[i], log);
		CHECK(here != NULL);
		last = here ? here : last;
	}
	write_text(own("honed.conf"), "[boot]\nwhat = 1\n[idle]\nwhat = 1\n");
	CHECK(run_honed("--boot", NULL) > 0 && strstr(text_of("log"), "honed.conf` lists all mistakes"));
	write_text(own("honed.conf"), "[sync]\nserver = https://x\ntoken = /no/token\nstate = /no/state\n");
	CHECK(run_honed("--check", NULL) == 1 &&
	      strstr(text_of("log"), "honed.conf:3: [sync] token = /no/token: No such"));
}

TEST(checks_its_folders_and_that_the_configuration_is_text)
{
	char conf[512];
	hone();
	end_honed(SIGTERM);
	write_text(in_folder("good.onnx"), "x");
	/* The folders, in the words of a start. */
	static const char *const folders[][2] = {
	    {"cache = %s/good.onnx",
	     "/good.onnx is a file, not a folder: remove it, or name another folder (cache in"},
	    {"cache = %s", " holds other files, and none of a cache: name another folder (cache in [honed]"},
	    {"cache = %s/good.onnx/x", "/good.onnx/x cannot be made: "},
	    {"cache = /proc/x",
	     "cache /proc/x cannot be made: /proc: No such file or directory; name another"},
	    {"cache = %s/not/yet", NULL}};
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		char line[200];
		snprintf(line, sizeof line, folders[i][0], at);
		snprintf(conf, sizeof conf, "[honed]\n%s\n", line);
		write_text(own("honed.conf"), conf);
		unlink(in_folder("log"));
		CHECK(run_honed("--check", NULL) == (folders[i][1] != NULL));
		CHECK(!folders[i][1] || (test_count(text_of("log"), folders[i][1]) == 1 &&
					 strstr(text_of("log"), "/honed.conf:2: cache /") &&
					 strstr(text_of("log"), "folders that honed cannot use: 1;")));
	}
	CHECK(access(in_folder("not"), F_OK) < 0); /* nothing is made */
	write_text(own("honed.conf"), "[honed]\ncache = /proc/x\nbad = 1\n"); /* all lines are counted */
	unlink(in_folder("log"));
	CHECK(run_honed("--check", NULL) == 1 &&
	      strstr(text_of("log"), "honed.conf:2: cache /proc/x cannot be made"));
	CHECK(strstr(text_of("log"), "1 mistake in the configuration, and folders that cannot be used"));
	write_text(own("honed.conf"), "");
	CHECK(run_honed("--check", "--state=/dev/null") == 1);
	CHECK(strstr(text_of("log"), "state folder /dev/null is a file: remove it, or name another"));
	/* A model given as the configuration is one mistake. */
	int binary = open(own("honed.conf"), O_WRONLY | O_TRUNC);
	CHECK(write(binary, "\x08\x07\n[model]\0\nbits = 3\n", 22) == 22 && close(binary) == 0);
	unlink(in_folder("log"));
	CHECK(run_honed("--check", NULL) == 1 && test_count(text_of("log"), "\n") == 1);
	CHECK(strstr(text_of("log"),
		     "honed.conf is not a configuration but a binary file, as a model is; name a"));
	CHECK(run_honed("--boot", NULL) == 1 && !strstr(text_of("log"), "lists all mistakes"));
	/* A file that the command line names must be there. */
	unlink(own("honed.conf"));
	CHECK(run_honed("--check", NULL) == 1 && strstr(text_of("log"), "there is no configuration /"));
	CHECK(run_honed("--boot", NULL) == 1 && strstr(text_of("log"), "there is no configuration /"));
	write_text(own("honed.conf"), "");
	CHECK(run_honed("--version", NULL) == 0 && run_honed("--help", NULL) == 0);
}

static void maps_hold(const char *const names[], bool *found)
{
	char path[64], line[1024];
	snprintf(path, sizeof path, "/proc/%d/maps", (int)honed);
	FILE *f = fopen(path, "r");
	*found = !f;
	while (f && fgets(line, sizeof line, f))
		for (int i = 0; names[i]; i++)
			if (strcasestr(line, names[i])) {
				printf("mapped: %s", line);
				*found = true;
			}
	if (f)
		fclose(f);
}

/* Size of a honed that has served a client and looked at the board; `make bench-idle` measures more. Private
 * pages of its files are not counted as its own: right after a build they all are private and dirty. */
TEST(weighs_little)
{
	static const char *const heavy[] = {"llvm",      "hwloc",     "libssl",  "gnutls", "mbedtls",
					    "libcrypto", "curl",      "libcuda", "opencl", "libdrm",
					    "protobuf",  "libstdc++", "systemd", NULL};
	char path[64], line[256];
	bool found;
	long own = 0, all = 0;
	if (SANITIZED)
		SKIP("a sanitizer adds libraries and memory");
	REQUIRE(up(idle));
	CHECK(served());
	maps_hold(heavy, &found);
	CHECK(!found);
	snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)honed);
	FILE *f = fopen(path, "r");
	if (!f)
		SKIP("no /proc/PID/smaps_rollup");
	while (fgets(line, sizeof line, f))
		(void)(sscanf(line, "Anonymous: %ld", &own) || sscanf(line, "Rss: %ld", &all));
	fclose(f);
	printf("%ld KB, %ld KB with its files\n", own, all);
	CHECK(own > 0 && own <= 512 && all <= 4096);
}

TEST_MAIN
