/* SPDX-License-Identifier: Apache-2.0 */
/* Failures for scripts: with --json, standard output has one JSON object whatever was wrong. */
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

TEST_MAIN
