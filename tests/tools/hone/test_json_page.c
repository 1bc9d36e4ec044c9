/* SPDX-License-Identifier: Apache-2.0 */
/* The page on --json (configs/doc/json.md) has all keys of the source, no others, and each with one type. What other
 * tests of commands parse is compared with it, too (tests/lib/cli.h). */
#include "tests/lib/cli_model.h"

#include <ctype.h>

#define SOURCES                                                                                              \
	"cat tools/hone/*.c tools/fleet/fleet_*.c agent/honed/honed_status.c agent/sync/sync_state.c "        \
	"agent/cache/exchange.[ch]"

static char source[4 << 20];

static bool read_source(void)
{
	FILE *f = popen(SOURCES, "r");
	size_t n = f ? fread(source, 1, sizeof source - 1, f) : 0;
	source[n] = 0;
	return f && pclose(f) == 0 && n > 100000;
}

/* Copies the next key of the page, `key`, and returns where it ends; NULL: there is none. Names of commands and options
 * are no keys. */
static const char *next_key(const char *p, char out[64])
{
	for (const char *end; (p = strchr(p, '`')) && (end = strchr(p + 1, '`')); p = end + 1) {
		size_t n = (size_t)(end - p - 1);
		if (n && n < 64 && strspn(p + 1, "abcdefghijklmnopqrstuvwxyz_0123456789") == n) {
			snprintf(out, 64, "%.*s", (int)n, p + 1);
			return end + 1;
		}
	}
	return NULL;
}

TEST(each_key_of_the_page_is_in_the_source_and_has_one_type)
{
	static const char *const names[] = {"explain", "bench", "tune", "report", "export", "import", "status", "pack", "forget", "run"};
	static const char *const made[] = {"fallback_ms", "tuned_ms"}; /* names that the source puts together */
	char key[64], type[16], is[80];
	if (!json_page() || !read_source())
		SKIP("not in the folder of the sources");
	int n = 0;
	const char *from = strstr(json_page(), "\n* ");
	for (const char *p = from; p && (p = next_key(p, key)); n++) {
		bool command = false, together = false;
		for (size_t i = 0; i < sizeof names / sizeof *names; i++)
			command |= !strcmp(key, names[i]);
		for (size_t i = 0; i < sizeof made / sizeof *made; i++)
			together |= !strcmp(key, made[i]);
		if (command)
			continue;
		snprintf(is, sizeof is, "\"%s\"", key);
		bool there = strstr(source, is);
		snprintf(is, sizeof is, "\\\"%s\\\"", key);
		there |= strstr(source, is) != NULL;
		if (!there && !together)
			json_page_bad("source", key, "no command prints it");
		if (json_page_type(key, type) != 1)
			json_page_bad("page", key, json_page_type(key, type) ? "it has several types" : "it has no type");
	}
	CHECK(n > 500);
}

/* Whether it is a place where a key stands: a word of lower-case letters. */
static bool is_key(const char *s, size_t n)
{
	return n > 1 && n < 40 && strspn(s, "abcdefghijklmnopqrstuvwxyz_0123456789") >= n;
}

/* Members of json_object_set_new(x, "KEY", ...) in the commands' sources. */
TEST(each_member_that_the_source_adds_is_on_the_page)
{
	static const char *const files[] = {"made_by", "format", "sum"}; /* of files, not of standard output */
	if (!json_page() || !read_source())
		SKIP("not in the folder of the sources");
	const char *page = json_page(), *page_end = page + strlen(page);
	int n = 0;
	for (const char *p = source; (p = strstr(p, "json_object_set_new(")); p++) {
		const char *quote = strpbrk(p, "\";"), *end = quote && *quote == '"' ? strchr(quote + 1, '"') : NULL;
		char key[64];
		if (!end || !is_key(quote + 1, (size_t)(end - quote - 1)) || end[1] != ',' || quote - p > 90)
			continue;
		snprintf(key, sizeof key, "%.*s", (int)(end - quote - 1), quote + 1);
		bool of_file = false;
		for (size_t i = 0; i < sizeof files / sizeof *files; i++)
			of_file |= !strcmp(key, files[i]);
		n++;
		if (!of_file && !json_page_named(page, page_end, key))
			json_page_bad("source", key, "it is not on the page");
	}
	CHECK(n > 30);
}

static void prints(const char *words)
{
	CHECK_RUN(0, "%s --json", words);
	json_decref(parse_out());
}

TEST(what_commands_print_is_on_the_page)
{
	char words[1024], model[256], none[256], keys[256];
	snprintf(model, sizeof model, "%s", steering());
	snprintf(none, sizeof none, "%s", in_dir("cache"));
	snprintf(keys, sizeof keys, "%s", in_dir("fleet"));
	static const char *const with_model[] = {"inspect %s",
						 "tasks %s",
						 "tasks %s --unsupported",
						 "bench %s --runs 2 --threads 1 --cache %s",
						 "bench %s --runs 2 --threads 1 --cache %s --kernels default",
						 "run %s --random --threads 1 --cache %s",
						 "verify %s --threads 1 --cache %s --kernels fallback",
						 "explain %s --threads 1 --cache %s"};
	for (size_t i = 0; i < sizeof with_model / sizeof *with_model; i++) {
		snprintf(words, sizeof words, with_model[i], model, none);
		prints(words);
	}
	static const char *const plain[] = {
	    "zoo",  "version", "help",           "help tune", "help words",     "help gain",
	    "show", "status",  "export -o %s/e", "devices",   "devices --board"};
	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
		snprintf(words, sizeof words, plain[i], dir);
		if (!strcmp(plain[i], "show") || !strcmp(plain[i], "status") || strstr(plain[i], "export"))
			snprintf(words + strlen(words), sizeof words - strlen(words), " --cache %s", none);
		prints(words);
	}
	CHECK_RUN(2, "bench --json --nonesuch");
	json_decref(parse_out());
}

/* Runs hone-fleet, and compares what it prints. */
static void fleet_prints(const char *command, const char *words)
{
	char self[3000], cmd[4096];
	REQUIRE_OK(file_self_dir(self, sizeof self));
	snprintf(cmd, sizeof cmd, "%s/../hone-fleet %s %s --json >%s 2>/dev/null", self, command, words, in_dir("fleet-out"));
	CHECK(system(cmd) == 0);
	slurp(in_dir("fleet-out"), cli_out, sizeof cli_out);
	snprintf(cli_command, sizeof cli_command, "hone-fleet %s", command);
	json_decref(parse_out());
}

TEST(what_hone_fleet_prints_is_on_the_page)
{
	char words[512];
	snprintf(words, sizeof words, "--keys %s", in_dir("fleet-keys"));
	fleet_prints("init", words);
	fleet_prints("help", "");
	fleet_prints("version", "");
}

TEST_MAIN
