/* SPDX-License-Identifier: Apache-2.0 */
/* Failures for scripts: with --json, standard output has one JSON object whatever was wrong; what failed
 * leaves no folder behind. */
#include "tests/lib/cli_model.h"

/* Words that are wrong for most commands, as values and as arguments. */
static const char *wrong_word(int i)
{
	static char paths[3][256];
	static const char *const words[] = {
	    "qwertz", "-1", "99999999999999999999", "/dev/null/x", "x=y=z", "=", "--", "@", "\xff\xfe",
	    "1e9",    "0"};
	enum { WORDS = sizeof words / sizeof *words };
	snprintf(paths[0], sizeof paths[0], "%s", in_dir("damaged.onnx"));
	snprintf(paths[1], sizeof paths[1], "%s", dir);
	snprintf(paths[2], sizeof paths[2], "%s", steering());
	i %= WORDS + 3;
	return i < WORDS ? words[i] : paths[i - WORDS];
}

/* A command that was given wrong words either fails with an error, or has an answer. */
static int check_answer(const char *words)
{
	int status = hone("%s", words);
	json_error_t e;
	json_t *j = json_loads(cli_out, JSON_REJECT_DUPLICATES, &e);
	const char *error = json_string_value(json_object_get(j, "error"));
	bool ok = json_is_object(j) && status < 128;
	if (ok && error && status)
		ok = *error && strstr(cli_err, "error: ") &&
		     json_integer_value(json_object_get(j, "exit")) == status &&
		     (status == 2) == !strcmp("usage", json_string_value(json_object_get(j, "code")));
	if (!ok) {
		printf("hone %s: exit %d, standard output '%s', standard error '%s'\n", words, status,
		       cli_out, cli_err);
		test_bad = 1;
	}
	json_decref(j);
	return ok && error && status;
}

/* These wait, serve or print other things than one object. */
static bool left_out(const struct cmd *c, const struct opt *o)
{
	return (o && (!strcmp(o->name, "watch") || o->kind == OPT_DURATION_OR_NONE)) ||
	       (!strcmp(c->name, "export") && !o) ||
	       (o && !strcmp(c->name, "wait") && strcmp(o->name, "timeout"));
}

static int check_command(const struct cmd *c, unsigned *seed)
{
	static const char *const many = "a a a a a a a a";
	char words[900];
	int errors = 0;
	snprintf(words, sizeof words, "%s --json --qwertz", c->name);
	errors += check_answer(words);
	snprintf(words, sizeof words, "--json %s -Z", c->name);
	errors += check_answer(words);
	snprintf(words, sizeof words, "%s --json=yes", c->name);
	errors += check_answer(words);
	if (c->min_pos > 0) {
		snprintf(words, sizeof words, "%s --json", c->name);
		errors += check_answer(words);
	}
	if (c->max_pos >= 0) {
		snprintf(words, sizeof words, "%s --json %s", c->name, many);
		errors += check_answer(words);
	}
	for (const struct opt *o = c->opts; o && o->name; o++) {
		if (left_out(c, o))
			continue;
		snprintf(words, sizeof words, "%s --%s --json", c->name, o->name); /* the value is missing */
		if (o->kind != OPT_FLAG)
			errors += check_answer(words);
		const char *first = wrong_word(rand_r(seed)), *value = wrong_word(rand_r(seed));
		int n = snprintf(words, sizeof words, "--json --no-color %s --%s", c->name, o->name);
		if (o->kind != OPT_FLAG)
			n += snprintf(words + n, sizeof words - (size_t)n, "=%s", value);
		if (c->max_pos)
			snprintf(words + n, sizeof words - (size_t)n, " %s", first);
		errors += check_answer(words);
	}
	return errors;
}

TEST(every_failure_is_an_object)
{
	const char *rounds = getenv("HONE_ERRORS_ROUNDS");
	unsigned seed = 1;
	int errors = 0, commands = 0;
	REQUIRE_OK(file_write(in_dir("damaged.onnx"), "\x08\x08nonsense", 10));
	setenv("XDG_CACHE_HOME", in_dir("home"), 1); /* not the caches of who runs this */
	setenv("XDG_RUNTIME_DIR", in_dir("home"), 1);
	REQUIRE(chdir(dir) == 0); /* what a command writes by such a name */
	for (int round = 0; round < (rounds ? atoi(rounds) : 1); round++)
		for (int i = 0; cmd_table[i]; i++, commands++)
			errors += check_command(cmd_table[i], &seed);
	CHECK(errors > 4 * commands);
	CHECK(check_answer("--json"));
	CHECK(check_answer("tuen --json"));
	CHECK(check_answer("--json tune /nowhere/m.onnx"));
	unsetenv("XDG_CACHE_HOME");
}

TEST(a_failure_without_json_prints_no_data)
{
	CHECK_RUN(1, "tasks /nowhere/m.onnx");
	CHECK(!cli_out[0]);
	CHECK_RUN(1, "tasks -- --json");
	CHECK(!cli_out[0]);
	CHECK_RUN(1, "tasks -q --json /nowhere/m.onnx");
	json_t *j = parse_out();
	check_keys(j, "error code exit");
	CHECK_SAYS(json_string_value(json_object_get(j, "error")), "/nowhere/m.onnx");
	CHECK(!strcmp(json_string_value(json_object_get(j, "code")), "io") ||
	      !strcmp(json_string_value(json_object_get(j, "code")), "not found"));
	json_decref(j);
}

/* What a command runs has standard output for itself. */
TEST(inhibit_leaves_standard_output_to_its_command)
{
	CHECK_RUN(130, "inhibit --json --why test -- sh -c exit\t130");
	CHECK(!cli_out[0]);
	CHECK_RUN(126, "inhibit --json --why test -- /dev/null/x");
	json_decref(parse_out());
	CHECK_RUN(127, "inhibit --json --why test -- qwertz");
	json_decref(parse_out());
	CHECK_RUN(127, "inhibit --why test -- qwertz");
	CHECK(!cli_out[0]);
}

/* An answer is printed once, also if the command fails. */
TEST(an_answer_stays_alone)
{
	CHECK_RUN(1, "wait --json --timeout 10ms");
	json_t *j = parse_out();
	check_keys(j, "ready why");
	json_decref(j);
}

/* Commands that fail make no folder for the cache, and none above it; folders that were there stay. */
TEST(what_fails_to_import_leaves_no_folder)
{
	static const struct {
		const char *words, *says;
		int status;
	} cases[] = {
	    {"import M", "No such file or directory", 1},
	    {"import M G", "no line is a record", 1},
	    {"import G", "no line is a record", 1},
	    {"import P --unsigned", "P", 1},
	    {"import G --cache-limit 1", "--cache-limit", 2},
	    {"merge M", "M: No such file or directory; merge takes folders of caches, as --cache names them",
	     1},
	    {"merge G",
	     "G is a file; merge takes folders of caches, and hone import takes files that hone "
	     "export or hone pack made",
	     1},
	    {"merge E G", "G is a file; merge takes", 1},
	    {"merge O", "O holds other files, and none of a cache: name a cache's folder", 1},
	};
	static const char *const names[] = {"missing", "garbage.jsonl", "no.seg", "empty", "others"};
	static const char letters[] = "MGPEO";
	char paths[5][256];
	const char *path[5];
	for (int i = 0; i < 5; i++) {
		snprintf(paths[i], sizeof paths[i], "%s", in_dir(names[i]));
		path[i] = paths[i];
	}
	CHECK_OK(file_write(path[1], "garbage\n", 8));
	CHECK_OK(file_write(path[2], "garbage\n", 8));
	CHECK(mkdir(path[3], 0755) == 0 && mkdir(path[4], 0755) == 0);
	CHECK_OK(file_write(in_dir("others/mine"), "x", 1));
	CHECK(mkdir(in_dir("stays"), 0755) == 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		static const char *const into[] = {"new", "stays", "stays/new", "stays/a/b//c/"};
		char words[1024], says[1024];
		fill_words(cases[i].words, letters, path, words);
		fill_words(cases[i].says, letters, path, says);
		for (int k = 0; k < 4; k++) {
			CHECK_RUN(cases[i].status, "%s --cache %s/%s", words, dir, into[k]);
			CHECK_SAYS(cli_err, strchr(letters, cases[i].says[0]) ? says : cases[i].says);
			if (file_exists(in_dir("new")) || rmdir(in_dir("stays")) < 0) {
				printf("%s leaves a folder: %s\n", words, into[k]);
				test_bad = 1;
				return;
			}
			CHECK(mkdir(in_dir("stays"), 0755) == 0);
		}
	}
}

TEST_MAIN
