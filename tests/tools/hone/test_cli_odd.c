/* SPDX-License-Identifier: Apache-2.0 */
/* Odd but plausible inputs in a user's first hour: a file for a folder, a compiled model for a model, an
 * empty file, a folder that cannot be written, a terminal of 40 columns, a full disk, Ctrl-C at once. */
#include "tests/lib/cli_quantize.h"
#include "tests/lib/cli_terminal.h"

static const char *compiled(void)
{
	static char path[256];
	if (!path[0] && worker()) {
		snprintf(path, sizeof path, "%s", in_dir("compiled"));
		CHECK_RUN(0, "compile %s -o %s --threads 1 --cache %s", steering(), path, in_dir("cache"));
	}
	return path[0] ? path : NULL;
}

/* A compiled model is said to be one before anything is said of the folder that is written. */
TEST(a_compiled_model_is_not_compiled_again)
{
	static const char *const options[] = {"-o M", "--beside", "--c -o M", "-o D"};
	const char *model = compiled();
	if (!model)
		SKIP("no hone-worker (HONE_WORKER)");
	char words[1024];
	for (int i = 0; i < 4; i++) {
		fill_words(options[i], "MD", (const char *const[]){model, in_dir("new")}, words);
		CHECK_RUN(2, "compile %s %s", model, words);
		CHECK_SAYS(cli_err,
			   "is a compiled model (a folder that hone compile wrote); name the model file");
		CHECK(!strstr(cli_err, "remove it") && !file_exists(in_dir("new")));
	}
	CHECK_RUN(2, "compile %s --beside", in_dir("cache"));
	CHECK_SAYS(cli_err, "is a folder without a compiled model; name a model file");
}

/* A folder holds a compiled model or a program's C, not both. */
TEST(compiled_models_and_c_do_not_mix)
{
	const char *model = compiled(), *c = in_dir("program");
	if (!model)
		SKIP("no hone-worker (HONE_WORKER)");
	CHECK_RUN(2, "compile %s --c -o %s --threads 1 --cache %s", steering(), model, in_dir("cache"));
	CHECK_SAYS(cli_err, "compiled is a compiled model, which hone run and libhone take as a whole: name "
			    "another folder for the C of --c");
	CHECK_RUN(0, "compile %s --c -o %s --threads 1 --cache %s", steering(), c, in_dir("cache"));
	CHECK_RUN(2, "compile %s -o %s --threads 1 --cache %s", steering(), c, in_dir("cache"));
	CHECK_SAYS(cli_err, "program has C that hone compile --c wrote, such as steering");
	CHECK_SAYS(cli_err, ": name another folder for the compiled model");
	CHECK(!file_exists(in_dir("program/plan.hone")));
	CHECK_RUN(0, "bench %s --runs 2 --threads 1", model);
}

/* Records know tasks: show says what a path is that was given in the place of a part of a task. */
TEST(show_says_what_a_path_is)
{
	char path[256];
	setenv("XDG_CACHE_HOME", in_dir("home"), 1);
	snprintf(path, sizeof path, "%s", in_dir("notes.txt"));
	REQUIRE_OK(file_write(path, "not a model\n", 12));
	CHECK_RUN(0, "show %s", path);
	CHECK_SAYS(cli_err, "not a valid ONNX model");
	CHECK_SAYS(cli_err, "; WORD is a part of a task, as in `hone show conv`");
	CHECK(!strstr(cli_err, "explain"));
	CHECK_RUN(0, "show %s", steering());
	CHECK_SAYS(cli_err, "records do not name models");
	CHECK_SAYS(cli_err, "Next: hone explain ");
	CHECK_RUN(0, "show %s", in_dir("cache"));
	CHECK_SAYS(cli_err, "is a folder; the folder of a cache is given by --cache");
	CHECK_SAYS(cli_err, "Next: hone show --cache ");
	CHECK_RUN(0, "show %s", dir);
	CHECK_SAYS(cli_err, " is a folder, and no cache; WORD is ");
	if (compiled()) {
		CHECK_RUN(0, "show %s", compiled());
		CHECK_SAYS(cli_err, "is a compiled model, which has its kernels in itself");
		CHECK_SAYS(cli_err, "Next: hone bench ");
	}
	CHECK_RUN(0, "show no-such-word");
	CHECK_SAYS(cli_err, "Next: hone show --cache ");
	unsetenv("XDG_CACHE_HOME");
}

TEST(sizes_say_their_range)
{
	static const char *const wrong[] = {"-3",  "0",  "99999999999999999999", "2147483648", "x",
					    "2x3", "1e3"};
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("detector.onnx", "Relu", "1 3 h w"));
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char says[128];
		snprintf(says, sizeof says, "size h=%s: write a number from 1 to 2147483647", wrong[i]);
		CHECK_RUN(2, "tune %s --shape h=%s --shape w=8 --budget 1s", model, wrong[i]);
		CHECK_SAYS(cli_err, says);
	}
}

/* Where the cache cannot be written, a command does not advise to tune into it. */
TEST(a_cache_that_cannot_be_written_is_not_advised)
{
	static const char *const commands[] = {"bench M --runs 2 --threads 1 --cache C",
					       "report M -o H/page.html --threads 1 --cache C"};
	char cache[256], model[256], home[256], words[1024], next[400];
	const char *was = getenv("HOME");
	if (geteuid() != 0)
		SKIP("not root: every folder here can be written");
	snprintf(cache, sizeof cache, "%s", in_dir("read-only"));
	snprintf(home, sizeof home, "%s", in_dir("user"));
	snprintf(model, sizeof model, "%s", one_node("closed.onnx", "Softmax", "4 64"));
	REQUIRE(mkdir(cache, 0755) == 0 && mkdir(home, 0777) == 0 && chmod(home, 0777) == 0);
	REQUIRE(chmod(model, 0644) == 0 && chmod(dir, 0777) == 0);
	CHECK_RUN(0, "bench %s --runs 2 --threads 1 --cache %s", model, cache);
	CHECK_SAYS(cli_err, "Next: hone tune ");
	CHECK(!strstr(cli_err, "cannot write"));
	REQUIRE(chmod(in_dir("stderr"), 0666) == 0 && chmod(in_dir("stdout"), 0666) == 0);
	setenv("HOME", home, 1);
	nobody = true;
	for (int i = 0; i < 2; i++) {
		fill_words(commands[i], "MCH", (const char *const[]){model, cache, home}, words);
		CHECK_RUN(0, "%s", words);
		snprintf(next, sizeof next, "closed.onnx --budget 20s --threads 1 --cache %s/hone-cache\n",
			 home);
		CHECK_SAYS(cli_err, "this user cannot write the cache ");
		CHECK_SAYS(cli_err, next);
	}
	nobody = false;
	was ? setenv("HOME", was, 1) : unsetenv("HOME");
	REQUIRE(chmod(dir, 0700) == 0);
}

/* What was never tuned has no times: explain does not speak of them, and advises to tune. */
TEST(explain_of_an_untuned_model_advises_to_tune)
{
	CHECK_RUN(0, "explain %s --threads 1 --cache %s", steering(), in_dir("cache"));
	CHECK(!strstr(cli_out, "Times are of each kernel alone"));
	CHECK_SAYS(cli_err, "steering.onnx --budget 20s --threads 1 --cache ");
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	CHECK_RUN(0, KERNELS_ONCE, steering(), "-q", in_dir("explained"));
	CHECK_RUN(0, "explain %s --threads 1 --cache %s", steering(), in_dir("explained"));
	CHECK_SAYS(cli_out, "Times are of each kernel alone");
	CHECK_SAYS(cli_err, "Next: hone explain ");
}

TEST(lines_fit_40_columns)
{
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("soft.onnx", "Softmax", "1 64 32 32"));
	CHECK(hone_on_terminal(40, ON_OUT, "inspect %s", model) == 0);
	screen_strip();
	CHECK_SAYS(cli_screen, "Every operator has kernels that can be\r\ntuned.");
	CHECK(hone_on_terminal(40, ON_OUT, "explain %s --threads 1 --cache %s", model, in_dir("cache")) == 0);
	screen_strip();
	CHECK_SAYS(cli_screen, "the graph is divided by rule: no choice\r\nis recorded");
	snprintf(model, sizeof model, "%s", steering());
	CHECK(hone_on_terminal(40, ON_OUT, "explain %s 1 --threads 1 --cache %s", model, in_dir("cache")) ==
	      0);
	screen_strip();
	CHECK_SAYS(cli_screen, "conv 5x5/2 3->24 31x98 exp select mul, 1\r\nuse\r\n  task\r\n");
}

/* On a narrow terminal, show says of each record whether it is the best or the default one. */
TEST(show_keeps_its_kinds)
{
	char own[256];
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(own, sizeof own, "%s", in_dir("kinds"));
	for (int levels = 1; levels < 3; levels++) {
		CHECK_RUN(0, KERNELS_ONCE, steering(), levels > 1 ? "--level exact" : "", own);
		for (int columns = 70; columns <= 80; columns += 5) {
			CHECK(hone_on_terminal(columns, ON_OUT, "show --cache %s", own) == 0);
			screen_strip();
			CHECK_SAYS(cli_screen, "  best = default  ");
			CHECK(!strstr(cli_screen, "\"kind\""));
			CHECK((strstr(cli_screen, "  exact  ") != NULL) == (levels == 2));
		}
	}
}

/* What cannot be written is the last thing that is said: no word of what to do next goes before it. */
TEST(an_error_of_the_output_is_alone)
{
	static const char *const commands[] = {
	    "bench %s --runs 2 --threads 1", "inspect %s",   "tasks %s", "explain %s --threads 1",
	    "run %s --random --threads 1",   "show no-such", "devices",  "status"};
	setenv("XDG_CACHE_HOME", in_dir("home"), 1);
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		char words[400], to[] = "/dev/full";
		snprintf(words, sizeof words, commands[i], steering());
		CHECK(hone_to(to, words) == 1);
		const char *error = strstr(cli_err, "error: standard output: No space left on device");
		CHECK(error && !strstr(error, "Next: "));
		if (strstr(cli_err, "Next: ") || strchr(cli_err, '`')) {
			printf("%s: %s\n", commands[i], cli_err);
			test_bad = 1;
		}
	}
	unsetenv("XDG_CACHE_HOME");
}

/* Also if the box ends while something runs that cannot be cancelled, and the process with it. */
TEST(an_answer_of_tune_that_is_lost_is_an_error)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	for (int i = 0; i < 8; i++) {
		char words[700], to[] = "/dev/full", own[32];
		snprintf(own, sizeof own, "lost%d", i);
		snprintf(words, sizeof words, "tune %s --budget %dms%s --cache %s", steering(),
			 150 + 50 * (i / 2), i % 2 ? " --json" : "", in_dir(own));
		CHECK(hone_to(to, words) == 1);
		CHECK_SAYS(cli_err, "error: standard output: No space left on device");
	}
}

TEST(halves_are_handed_over_as_f32)
{
	struct onnx_maker k;
	char model[256];
	mk_start(&k, 17, 1);
	mk_input(&k, "x", 10, "1 8");
	mk_node(&k, "Relu", "x", "y");
	mk_output(&k, "y");
	snprintf(model, sizeof model, "%s", write_model(&k, "halves.onnx"));
	CHECK_RUN(0, "inspect %s", model);
	CHECK_SAYS(cli_out, "hone takes and returns tensors of f16 and bf16 as f32.");
	CHECK_RUN(0, "run %s --random --threads 1 -o %s", model, in_dir("halves"));
	CHECK_RUN(0, "inspect %s", steering());
	CHECK(!strstr(cli_out, "as f32"));
	CHECK_RUN(0, "run --help");
	CHECK_SAYS(cli_out, "float16 or bfloat16 are float32 here");
}

TEST(level_int8_without_a_recipe_names_both_ways)
{
	static const char *const commands[] = {"bench %s --runs 2", "run %s --random", "verify %s"};
	char words[400];
	for (int i = 0; i < 3; i++) {
		snprintf(words, sizeof words, commands[i], steering());
		CHECK_RUN(1, "%s --threads 1 --level int8 --cache %s", words, in_dir("cache"));
		CHECK_SAYS(cli_err, "hone tune MODEL --level int8 --data DIR");
		CHECK_SAYS(cli_err, "hone import --recipes FILE");
	}
}

TEST(unknown_devices_are_answered_with_those_there_are)
{
	static const char *const commands[] = {"bench %s", "tune %s --budget 1s", "explain %s"};
	for (int i = 0; i < 3; i++) {
		char words[400];
		snprintf(words, sizeof words, commands[i], steering());
		CHECK_RUN(2, "%s --device cpu:9", words);
		CHECK_SAYS(cli_err, "--device cpu:9 is not supported; use cpu, ");
		CHECK_SAYS(cli_err, "; this machine has cpu");
	}
}

/* A search that was stopped before it began does not count tasks that it never saw. */
TEST(stopped_at_once)
{
	char model[256];
	int early = 0;
	snprintf(model, sizeof model, "%s", in_dir("net.onnx"));
	CHECK_RUN(0, "zoo -q mobilenet_v2 -o %s", model);
	stop_with = SIGINT;
	for (int i = 0; i < 5 && !early; i++) {
		CHECK_RUN(130, "tune %s --budget 20s --threads 1 --cache %s", model, in_dir("stopped"));
		CHECK(!strstr(cli_out, "0 tasks"));
		early +=
		    strstr(cli_out, "before its tasks were known: nothing was tuned or measured") != NULL;
	}
	stop_with = 0;
	CHECK(early);
}

/* Streams that are closed are not those of the first files that are opened. */
TEST(closed_streams_stay_apart)
{
	char cache[256], file[256], text[4096];
	char *argv[] = {"hone", "import", "-", "--cache", cache, NULL};
	snprintf(cache, sizeof cache, "%s", in_dir("closed"));
	snprintf(file, sizeof file, "%s", in_dir("closed-errors"));
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		redirect(2, file);
		setenv("HONE_SOCKET", "/dev/null/honed.sock", 1);
		for (int fd = 0; fd < 1024; fd++)
			if (fd != 2)
				close(fd);
		_exit(hone_main(5, argv));
	}
	int status = 0;
	waitpid(pid, &status, 0);
	slurp(file, text, sizeof text);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	CHECK_SAYS(text, "the input is empty, so nothing of it is imported");
}

/* Packs and folders without a record are said to have none; a cache is not merged into itself. */
TEST(nothing_to_take_is_said)
{
	char empty[256], pack[256];
	snprintf(empty, sizeof empty, "%s", in_dir("cache"));
	snprintf(pack, sizeof pack, "%s", in_dir("none.seg"));
	CHECK_RUN(0, "pack -o %s --cache %s", pack, empty);
	CHECK_SAYS(cli_err, "nothing was packed: hone tune makes records");
	CHECK(!strstr(cli_err, "put it into the image"));
	CHECK_RUN(1, "import %s --unsigned --cache %s", pack, in_dir("taken"));
	CHECK_SAYS(cli_err, "none.seg holds no record, so nothing of it is imported");
	CHECK_RUN(0, "merge %s --cache %s", empty, in_dir("merged"));
	CHECK_SAYS(cli_err, "warning: the folder holds no record");
	CHECK_RUN(2, "merge %s/ --cache %s", empty, empty);
	CHECK_SAYS(cli_err, "is the cache that is merged into: name another folder");
}

/* A pipe whose reader is gone ends status --watch also while there is nothing to write. */
TEST(watch_ends_with_its_reader)
{
	int pipes[2];
	char *argv[] = {"hone", "status", "--watch", NULL}, byte;
	REQUIRE(pipe(pipes) == 0);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGPIPE, SIG_DFL);
		setenv("HONE_SOCKET", "/dev/null/honed.sock", 1);
		close(pipes[0]);
		if (dup2(pipes[1], 1) < 0)
			_exit(120);
		close(pipes[1]);
		_exit(hone_main(3, argv));
	}
	int status = 0, ended = 0;
	close(pipes[1]);
	CHECK(read(pipes[0], &byte, 1) == 1);
	close(pipes[0]);
	for (int i = 0; i < 400 && !ended; i++, usleep(50000))
		ended = waitpid(pid, &status, WNOHANG) == pid;
	CHECK(ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
	if (!ended && kill(pid, SIGKILL) == 0)
		waitpid(pid, &status, 0);
}

/* Models are published as folders: the error names the file in it. */
TEST(a_folder_with_a_model_names_the_file)
{
	static const char *const commands[] = {"tune", "bench",   "inspect", "verify",
					       "run",  "explain", "tasks",   "compile"};
	char folder[160], says[900], cmd[900];
	snprintf(folder, sizeof folder, "%.150s", in_dir("published"));
	REQUIRE(mkdir(folder, 0755) == 0);
	snprintf(cmd, sizeof cmd, "cp '%s' '%s/net 2.onnx' && cp '%s' '%s/x.onnx'", steering(), folder,
		 steering(), folder);
	REQUIRE(system(cmd) == 0);
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		CHECK_RUN(2, "%s %s/", commands[i], folder);
		snprintf(says, sizeof says,
			 "published/ is a folder; name a model in it: hone %s '%s/net 2.onnx'", commands[i],
			 folder);
		CHECK_SAYS(cli_err, says);
	}
	CHECK_RUN(2, "tune %s --budget 1s", in_dir("cache"));
	CHECK_SAYS(cli_err, "is a folder without a compiled model");
	if (!compiled())
		SKIP("no hone-worker (HONE_WORKER)");
	CHECK_RUN(0, "bench %s --runs 2", compiled());
}

/* Options that exclude each other are said to. */
TEST(options_that_exclude_each_other)
{
	CHECK_RUN(2, "tasks %s --names --json", steering());
	CHECK_SAYS(cli_err, "--names prints lines for completion: leave --json out");
	json_decref(parse_out());
	CHECK_RUN(2, "explain %s 1 -d t --json", steering());
	CHECK_SAYS(cli_err, "-d prints the stages of a task as text; leave --json out");
	json_decref(parse_out());
	CHECK_RUN(2, "explain %s Conv_2 --placement", steering());
	CHECK_SAYS(cli_err, "--placement shows all tasks of a model; leave 'Conv_2' out");
	CHECK_RUN(2, "forget --all --task 01234567 --cache %s", in_dir("cache"));
	CHECK_SAYS(cli_err, "too many options: give exactly one of --task KEY, --model MODEL and --all");
	CHECK_RUN(2, "forget --cache %s", in_dir("cache"));
	CHECK_SAYS(cli_err, "missing option: give exactly one of");
}

TEST(a_model_is_not_a_command)
{
	char path[400];
	CHECK_RUN(2, "%s", steering());
	snprintf(path, sizeof path, "steering.onnx is not a command, but a file; for a model: hone tune %s",
		 steering());
	CHECK_SAYS(cli_err, path);
	CHECK_RUN(2, "no-such-file.onnx");
	CHECK_SAYS(cli_err, "`hone --help` lists the commands");
}

/* An export of no records is no file that another board could import. */
TEST(an_empty_export_says_so)
{
	CHECK_RUN(0, "export -o %s --cache %s", in_dir("none.jsonl"), in_dir("cache"));
	CHECK_SAYS(cli_err, "nothing was exported: hone tune makes records");
	CHECK(!strstr(cli_err, "Next: "));
	CHECK_RUN(1, "import %s --json --cache %s", in_dir("none.jsonl"), in_dir("imported"));
	CHECK_SAYS(cli_err, "is empty, so nothing of it is imported");
	CHECK(!file_exists(in_dir("imported")));
	json_decref(parse_out());
}

TEST_MAIN
