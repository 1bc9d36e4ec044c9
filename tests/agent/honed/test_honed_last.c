/* SPDX-License-Identifier: Apache-2.0 */
/* The result that a job sends just before it ends reaches honed, whatever honed does meanwhile. */
#include "tests/lib/honed.h"
#include "tests/lib/process.h"

/* A job that writes the file `send` to honed when the test says so, and ends. */
static const char script[] = "#!/bin/sh\n"
			     "case $1 in tune) ;; *) exit 0 ;; esac\n"
			     "cd \"${0%/*}\"\n"
			     "echo $$ >pid\n"
			     "while [ ! -e go ]; do sleep .01; done\n"
			     "rm go\n"
			     "cat send >&3\n";

#define DONE "{\"op\":\"done\",\"trials\":1,\"before_ms\":6,\"after_ms\":5,\"kept\":1}\n"
#define KEY "\"key\":\"00000000000000010000000000000002\""

/* Starts honed anew, with the bytes that its job sends. */
static bool start(const void *bytes, size_t n)
{
	char conf[400], clean[200];
	end_honed(SIGTERM);
	if (!*at)
		make_folder();
	snprintf(clean, sizeof clean, "cd %s && rm -rf state run log pid go", at);
	if (system(clean) != 0)
		return false;
	write_text(in_folder("hone"), script);
	chmod(in_folder("hone"), 0755);
	write_text(in_folder("m.onnx"), "x");
	if (file_write(in_folder("send"), bytes, n) < 0)
		return false;
	snprintf(conf, sizeof conf,
		 "[idle]\nsettle = 1s\nload = 100%%\npressure = 100%%\nmemory = 1M\n[model m]\npath = %s/m.onnx\n", at);
	return start_honed(conf, own("hone"));
}

static pid_t job_pid(void)
{
	pid_t pid = 0;
	for (int i = 0; i < PATIENCE_MS && !pid; i++, usleep(1000)) {
		struct arena a = {0};
		struct blob text;
		if (file_read(&a, in_folder("pid"), 0, &text) >= 0 && strchr(text.p, '\n'))
			pid = (pid_t)atoi(text.p);
		arena_free(&a);
	}
	return pid;
}

static bool comes(const char *part)
{
	for (int i = 0; i < PATIENCE_MS / 10 && !status_has(part); i++)
		usleep(10000);
	return status_has(part);
}

/* While honed stands still, an inhibit comes for it, which it passes on to the job, then the job's result, and
 * the job ends. */
TEST(honed_writes_to_a_job_that_has_ended)
{
	REQUIRE(start(DONE, sizeof DONE - 1));
	pid_t job = job_pid();
	REQUIRE(job);
	int fd = dial();
	CHECK(say(fd, "{\"id\":1,\"op\":\"hello\",\"version\":2}") && hears(fd, "\"ok\":true"));
	kill(honed, SIGSTOP);
	CHECK(say(fd, "{\"id\":2,\"op\":\"inhibit\",\"why\":\"the arm moves\"}"));
	write_text(in_folder("go"), "");
	for (int i = 0; i < PATIENCE_MS && state_of(job) != 'Z'; i++)
		usleep(1000);
	CHECK(state_of(job) == 'Z');
	kill(honed, SIGCONT);
	CHECK(hears(fd, "\"id\":2,\"ok\":true"));
	CHECK(comes("\"jobs\":[]"));
	CHECK(status_has("\"default_ms\":6") || status_has("\"before_ms\":6"));
	CHECK(!status_has("told honed no result"));
	if (test_bad)
		show_log();
	close(fd);
}

/* Other jobs' records leave no room for the record before the result. */
TEST(honed_is_slow_to_take_a_record)
{
	static const char put[] = "{\"op\":\"put\",\"type\":1,\"bytes\":3," KEY "}\nabc" DONE;
	REQUIRE(start(put, sizeof put - 1));
	REQUIRE(job_pid());
	int fd[2];
	for (int i = 0; i < 2; i++) {
		fd[i] = dial();
		CHECK(say(fd[i], "{\"id\":1,\"op\":\"job\",\"model\":\"/m\",\"pid\":%d,\"threads\":1}", (int)getpid()));
		CHECK(hears(fd[i], "\"ok\":true"));
		CHECK(say(fd[i], "{\"id\":2,\"op\":\"put\",\"type\":1,\"bytes\":%d," KEY "}", CONTROL_PUT));
	}
	CHECK(served());
	write_text(in_folder("go"), "");
	CHECK(comes("\"now_ms\":5"));
	CHECK(!status_has("told honed no result"));
	if (test_bad)
		show_log();
	for (int i = 0; i < 2; i++)
		close(fd[i]);
}

TEST(ends)
{
	CHECK(end_honed(SIGTERM) == 0);
}

TEST_MAIN
