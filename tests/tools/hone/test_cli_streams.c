/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: data on standard output and words on standard error; -q; Next: lines that can be pasted;
 * Ctrl-C. */
#include "platform/base/clock.h"
#include "platform/base/log.h"
#include "tests/lib/cli.h"
#include "tools/hone/interrupt.h"
#include "tools/hone/next.h"

static char cache[256], model[256]; /* a cache with one kernel, and a model */

/* Makes a cache of the records that an estimate finds; without a worker it stays empty. */
static void make_cache(void)
{
	if (cache[0])
		return;
	snprintf(cache, sizeof cache, "%s", in_dir("words-cache"));
	snprintf(model, sizeof model, "%s", steering());
	REQUIRE(mkdir(cache, 0755) == 0);
	if (worker())
		CHECK_RUN(0, KERNELS_ONCE, model, "-q", cache);
}

/* M: the model, C: the cache, D: the folder of this test. */
static void fill(const char *words, char out[1024])
{
	fill_words(words, "MCD", (const char *const[]){model, cache, dir}, out);
}

static const struct {
	const char *words;
	int status;
	bool next; /* ends with what to do next */
	bool worker;
} cases[] = {
    {"zoo", 0, true},
    {"zoo steering -o D/again.onnx", 0, true},
    {"tasks M", 0, true},
    {"tasks M --unsupported", 0, true},
    {"devices --cache C", 0, false},
    {"show --cache C", 0, false},
    {"show --cache D/cache", 0, false},
    {"status --cache D/cache", 0, false},
    {"show nonesuch --cache C", 0, true},
    {"explain M --threads 1 --cache C", 0, true},
    {"bench M --runs 2 --threads 1 --cache C", 0, true},
    {"bench M --runs 2 --threads 1 --kernels fallback", 0, true},
    {"verify M --threads 1 --cache C", 0, true},
    {"run M --random --threads 1 --cache C --output D/run", 0, true},
    {"inspect M", 0, true},
    {"report M -o D/page.html --threads 1 --cache C", 0, false},
    {"pack -o D/words.seg --cache C", 0, false, true},
    {"status --cache C", 0, true},
    {"merge C --cache D/merged", 0, true},
    {"forget --all --cache D/merged", 0, false},
    {"resume", 0, false},
    {"compile M -o D/compiled --threads 1 --cache C", 0, true, true},
    {"tune M --rigor cached --threads 1 --cache C", 0, false, true},
    {"tune M --rigor estimate --budget 60s --threads 1 --cache C", 0, true, true},
    {"tune M --rigor estimate --budget 60s --threads 1 --no-cache", 0, true, true},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Words of progress and hints that must not be among the data. */
static void check_data_alone(const char *words)
{
	static const char *const not_data[] = {"Next",   "--cache DIR", "run 1 of", "trials, ",
					       "Ctrl-C", "warning:",    "\r"};
	for (size_t i = 0; i < sizeof not_data / sizeof *not_data; i++)
		if (strstr(cli_out, not_data[i]) && (i != 3 || strstr(cli_out, " left: "))) {
			printf("hone %s: '%s' on standard output: %s\n", words, not_data[i], cli_out);
			test_bad = 1;
		}
}

/* Whether a line, up to its end, has a word in capitals that stands for another one. */
static bool has_placeholder(const char *line)
{
	static const char *const words[] = {" MODEL", " DIR", " FILE"};
	const char *end = line + strcspn(line, "\n");
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		const char *at = strstr(line, words[i]);
		if (at && at < end)
			return true;
	}
	return false;
}

/* Every Next: line is a command alone that can be pasted; a program gives its advice on a line before it. */
static void check_next_lines(const char *words)
{
	static const char *const programs[] = {"hone ", "cc "};
	for (const char *p = cli_err; (p = strstr(p, "Next: ")) != NULL; p += 6) {
		bool known = false;
		for (int i = 0; i < 2; i++)
			known |= !strncmp(p + 6, programs[i], strlen(programs[i]));
		if (!known || has_placeholder(p) || (p > cli_err && p[-1] != '\n') ||
		    memchr(p + 6, ':', strcspn(p + 6, "\n"))) {
			printf("hone %s: %.*s\n", words, (int)strcspn(p, "\n"), p);
			test_bad = 1;
		}
	}
}

TEST(data_on_stdout_and_words_on_stderr)
{
	make_cache();
	for (int i = 0; i < CASES; i++) {
		char words[1024];
		if (cases[i].worker && !worker())
			continue;
		fill(cases[i].words, words);
		CHECK_RUN(cases[i].status, "%s --json", words);
		json_decref(parse_out());
		CHECK_RUN(cases[i].status, "%s -v", words);
		check_data_alone(words);
		check_next_lines(words);
		if ((strstr(cli_err, "Next: ") != NULL) != cases[i].next) {
			printf("hone %s: Next: %s\n", words, cli_err);
			test_bad = 1;
		}
	}
}

TEST(quiet_says_only_errors)
{
	make_cache();
	for (int i = 0; i < CASES; i++) {
		char words[1024];
		if (cases[i].worker && !worker())
			continue;
		fill(cases[i].words, words);
		CHECK_RUN(cases[i].status, "%s -q", words);
		if (cli_err[0]) {
			printf("hone %s -q: %s\n", words, cli_err);
			test_bad = 1;
		}
	}
	CHECK_RUN(1, "tasks -q /nowhere/m.onnx");
	CHECK_SAYS(cli_err, "hone: error: ");
}

/* Checks that a shell reads a quoted word back as the word itself. */
static void check_word(const char *word)
{
	struct buf cmd = {0};
	char got[4096];
	buf_puts(&cmd, "printf '%s' ");
	shell_word(&cmd, word);
	buf_printf(&cmd, " >%s", in_dir("word"));
	for (const char *p = buf_str(&cmd); *p; p++)
		CHECK((unsigned char)*p >= ' ' || *p == '\n' || *p == '\t'); /* a terminal may get it */
	CHECK(system(buf_str(&cmd)) == 0);
	slurp(in_dir("word"), got, sizeof got);
	if (strcmp(got, word)) {
		printf("'%s' came back as '%s': %s\n", word, got, buf_str(&cmd));
		test_bad = 1;
	}
	buf_free(&cmd);
}

TEST(words_for_a_shell)
{
	static const char *const words[] = {"plain.onnx", "",
					    "a b",        "it's",
					    "$HOME",      "`id`",
					    "a\nb",       "a\n",
					    "back\\s",    "\"q\"",
					    "*?[a]",      "~root",
					    "#x",         "a;b&c|d<e>f",
					    "tab\there",  "\033[31m",
					    "\x80\xff",   "gr\xc3\xbc\xc3\x9f",
					    "!x",         "(y)",
					    "{a,b}",      "-n",
					    "'",          "''\n''",
					    "a=b",        "\xe2\x80\xa6 x"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		check_word(words[i]);
	char far[2400];
	memset(far, 'x', sizeof far);
	far[sizeof far - 1] = 0;
	far[100] = ' ';
	struct buf b = {0};
	shell_word(&b, far);
	CHECK(b.n > sizeof far); /* quoted, in pieces */
	buf_free(&b);
	for (int at = 230; at < 270;
	     at++) { /* a character of two bytes at each place where a piece may end */
		memset(far, 'x', 300);
		snprintf(far + at, sizeof far - (size_t)at, "\xc3\xbc end");
		check_word(far);
		shell_word(&b, far);
		CHECK(strstr(buf_str(&b), "\xc3\xbc"));
		buf_free(&b);
	}
	shell_path(&b, "-rf x");
	CHECK(!strcmp(buf_str(&b), "./'-rf x'"));
	buf_free(&b);
	shell_path(&b, "-");
	CHECK(!strcmp(buf_str(&b), "./-"));
	buf_free(&b);
}

/* The time that a word takes grows with its length alone: it may come from a model file. */
TEST(long_words_for_a_shell)
{
	enum { LONG = 1 << 20 };
	char *word = malloc(LONG + 1);
	struct buf b = {0};
	REQUIRE(word);
	memset(word, '\1', LONG);
	word[LONG] = 0;
	shell_word(&b, word); /* takes minutes if each control character looks at all that follows it */
	CHECK(b.n > LONG);
	buf_free(&b);
	free(word);
}

/* The Next: line of a model with an awkward name is pasted into a shell, in which `hone` is a function that
 * writes the path it is given. */
TEST(next_can_be_pasted)
{
	static const char *const names[] = {"a b.onnx",  "it's.onnx", "$HOME.onnx",
					    "a\nb.onnx", "-x.onnx",   "\"q\"`id`.onnx"};
	char was[512], cmd[4096], got[512];
	steering();
	REQUIRE(getcwd(was, sizeof was) && chdir(dir) == 0);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (symlink("steering.onnx", names[i]) < 0)
			abort();
		pid_t pid = fork();
		if (pid == 0) {
			char *argv[] = {"hone", "tasks", "--", (char *)names[i], NULL};
			redirect(1, "next-out");
			redirect(2, "next-err");
			_exit(hone_main(4, argv));
		}
		int status;
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
		slurp("next-err", cli_err, sizeof cli_err);
		char *next = strstr(cli_err, "Next: ");
		REQUIRE(next);
		snprintf(cmd, sizeof cmd,
			 "hone() { case $2 in -*) return 1;; esac; [ -e \"$2\" ] && printf '%%s' \"$2\" "
			 ">got; }\n%s",
			 next + 6);
		REQUIRE_OK(file_write("pasted.sh", cmd, strlen(cmd)));
		CHECK(system("sh pasted.sh") == 0);
		slurp("got", got, sizeof got);
		CHECK(!strcmp(got[0] == '.' ? got + 2 : got, names[i]));
		CHECK(unlink("got") == 0);
	}
	CHECK(chdir(was) == 0);
}

/* Where a shell would not find `hone`, the line has the path by which this one was called. */
TEST(next_names_the_program_as_it_was_called)
{
	static const char *const called[][2] = {{"hone", "Next: hone tune "},
						{"build/hone", "Next: build/hone tune "},
						{"./a b/hone", "Next: './a b/hone' tune "}};
	const char *known = steering(); /* made here: making it takes hone's words away */
	for (size_t i = 0; i < sizeof called / sizeof *called; i++) {
		fflush(NULL);
		pid_t pid = fork();
		if (pid == 0) {
			char *argv[] = {(char *)called[i][0], "tasks", (char *)known, NULL};
			setenv("XDG_CACHE_HOME", in_dir("nobody"),
			       1); /* whoever runs this may have tuned it */
			redirect(1, in_dir("called-out"));
			redirect(2, in_dir("called-err"));
			_exit(hone_main(3, argv));
		}
		int status;
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
		slurp(in_dir("called-err"), cli_err, sizeof cli_err);
		CHECK_SAYS(cli_err, called[i][1]);
	}
}

/* ---- Ctrl-C */

static bool stopped(void)
{
	json_t *j = parse_out();
	bool is = json_is_true(json_object_get(j, "stopped"));
	json_decref(j);
	return is;
}

TEST(interrupted_tune_prints_what_it_has)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	stop_with = SIGINT;
	stop_once = "trials,";
	CHECK_RUN(130, "tune %s -v --json --budget 60s --threads 1 --cache %s", steering(),
		  in_dir("interrupted"));
	CHECK(stopped() && out_number("trials") > 0);
	stop_once = NULL;
	CHECK_RUN(130, "tune %s --budget 60s --threads 1 --cache %s", steering(), in_dir("at-once"));
	stop_with = 0;
}

/* A box that ends at once does not call kernels of earlier boxes missing. */
TEST(interrupted_tune_keeps_what_earlier_boxes_found)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char found[256];
	snprintf(found, sizeof found, "%s", in_dir("found"));
	CHECK_RUN(0, KERNELS_ONCE, steering(), "-q", found);
	stop_with = SIGINT;
	stop_once = "the network was measured as it is";
	CHECK_RUN(130, "tune %s -v --json --budget 60s --threads 1 --cache %s", steering(), found);
	stop_with = 0;
	stop_once = NULL;
	json_t *j = parse_out(), *k;
	size_t i;
	CHECK(json_array_size(json_object_get(j, "kernels")) > 5);
	json_array_foreach(json_object_get(j, "kernels"), i, k)
	    CHECK(!strcmp(json_string_value(json_object_get(k, "after")),
			  json_is_true(json_object_get(k, "at_default")) ? "default" : "tuned"));
	json_decref(j);
}

TEST(interrupted_bench_prints_the_runs_so_far)
{
	stop_with = SIGINT;
	stop_once = "run ";
	CHECK_RUN(130, "bench %s -v --json --runs 1000000 --threads 1 --cache %s", steering(),
		  in_dir("cache"));
	CHECK(stopped() && out_number("runs") > 0 && out_number("runs") < 1000000);
	CHECK_RUN(130, "bench %s -v --rate 1000 --runs 1000000 --threads 1 --cache %s", steering(),
		  in_dir("cache"));
	CHECK_SAYS(cli_out, "median ");
	CHECK_SAYS(cli_out, "interrupted: only these runs were measured");
	stop_once = NULL;
	CHECK_RUN(130, "bench %s --runs 1000000 --threads 1 --cache %s", steering(), in_dir("cache"));
	stop_with = 0;
	CHECK_RUN(0, "bench %s --json --runs 2 --threads 1 --cache %s", steering(), in_dir("cache"));
	CHECK(!stopped());
}

TEST(interrupted_verify_and_doctor)
{
	char large[256];
	snprintf(large, sizeof large, "%s", in_dir("large.onnx"));
	CHECK_RUN(0, "zoo -q squeezenet1_1 --output=%s", large);
	stop_with = SIGINT;
	stop_once = "reference";
	CHECK_RUN(130, "verify %s -v --threads 1", large);
	CHECK(strstr(cli_out, "interrupted: ") || strstr(cli_err, "interrupted; nothing was measured"));
	CHECK(!strstr(cli_out, "PASS"));
	/* An interrupt cuts runs and copies at any moment, and verify calls none of their values wrong. */
	stop_once = NULL;
	for (stop_after_us = 20000; stop_after_us < 1000000; stop_after_us += stop_after_us / 3) {
		int status = hone("verify %s --threads 1", large);
		CHECK(status == 130 || status == 0);
		CHECK(!strstr(cli_out, "wrong") && !strstr(cli_out, "FAIL"));
	}
	stop_after_us = 0;
	stop_once = NULL;
	CHECK_RUN(130, "doctor --json --cache %s", in_dir("none"));
	CHECK(stopped());
	CHECK_RUN(130, "doctor --cache %s", in_dir("none"));
	CHECK_SAYS(cli_err, "interrupted: not all was checked\nNext: hone doctor --cache ");
	stop_with = 0;
	int status = hone("doctor --json --cache %s", in_dir("none"));
	CHECK(status == 0 || status == 1);
	CHECK(!stopped());
}

/* Whether a table has a header and no row: the next line begins with the model's path. */
static bool header_alone(void)
{
	const char *head = strstr(cli_out, "roofline"), *end = head ? strchr(head, '\n') : NULL;
	return end && (!end[1] || end[1] == '/');
}

/* Whenever SIGTERM or Ctrl-C comes, the status says so, and a table has rows or is not there. */
TEST(signals_at_any_moment)
{
	static const char *const commands[] = {"bench", "tune --budget 20s"};
	char large[256];
	snprintf(large, sizeof large, "%s", in_dir("mobile.onnx"));
	CHECK_RUN(0, "zoo -q mobilenet_v2 --output=%s", large);
	for (int k = 0; k < (worker() ? 4 : 2) && !test_bad; k++) {
		stop_with = k & 1 ? SIGTERM : SIGINT;
		for (stop_after_us = 10000; stop_after_us < 400000 && !test_bad; stop_after_us *= 2) {
			int status = hone("%s %s --threads 1 --cache %s", commands[k / 2], large,
					  in_dir("cache"));
			CHECK(status == 128 + stop_with);
			CHECK(!header_alone());
			if (test_bad)
				printf("%s, signal %d after %d us: %d: %s%s\n", commands[k / 2], stop_with,
				       (int)stop_after_us, status, cli_out, cli_err);
		}
	}
	stop_after_us = 0;
	stop_with = 0;
}

/* One press of Ctrl-C that arrives twice counts once; a later one kills. */
TEST(a_second_press_kills)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		interrupt_catch();
		raise(SIGINT);
		raise(SIGINT);
		raise(SIGTERM); /* another kind of signal is a first one */
		if (!interrupted() || interrupt_status(0) != INTERRUPT_STATUS)
			_exit(1);
		clock_real.sleep(&clock_real, 700 * NS_PER_MS);
		raise(SIGINT);
		_exit(2);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

TEST_MAIN
