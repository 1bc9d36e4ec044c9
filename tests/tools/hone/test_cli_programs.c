/* SPDX-License-Identifier: Apache-2.0 */
/* The help of hone, honed, hone-fleet, hone-sync and hone-worker fits a terminal, and hone-fleet and honed
 * say at their start which paths and defaults they use. */
#include "tests/lib/cli.h"
#include "platform/base/file.h"
#include "tools/fleet/fleet_conf.h"

#include <ctype.h>
#include <stdarg.h>
#include <sys/stat.h>

/* Runs `program` of the build folder with these words, called by its path. Its outputs are in cli_out and
 * cli_err. Returns its exit status. */
__attribute__((format(printf, 2, 3))) static int program(const char *name, const char *fmt, ...)
{
	char self[2000], words[1500], cmd[4096], out[256], err[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(words, sizeof words, fmt, ap);
	va_end(ap);
	if (file_self_dir(self, sizeof self) < 0)
		return -1;
	snprintf(out, sizeof out, "%s", in_dir("program-out"));
	snprintf(err, sizeof err, "%s", in_dir("program-err"));
	snprintf(cmd, sizeof cmd, "cd %s/.. && ./%s %s >%s 2>%s", self, name, words, out, err);
	int status = system(cmd);
	slurp(out, cli_out, sizeof cli_out);
	slurp(err, cli_err, sizeof cli_err);
	return WEXITSTATUS(status);
}

/* Checks that no line of cli_out is wider. */
static void check_width(const char *name, const char *command, size_t columns)
{
	for (const char *p = cli_out; *p; p += strcspn(p, "\n"), p += *p == '\n')
		if (strcspn(p, "\n") > columns) {
			printf("%s %s --help: %.*s\n", name, command, (int)strcspn(p, "\n"), p);
			test_bad = 1;
		}
}

/* Takes the names of the commands from the list that --help prints. Returns their number. */
static int commands_of(char names[64][32])
{
	int n = 0;
	const char *p = strstr(cli_out, "\ncommands:\n");
	for (p = p ? p + 11 : ""; p[0] == ' ' && n < 64; p += strcspn(p, "\n"), p += *p == '\n')
		n += p[2] != ' ' && sscanf(p, "%31s", names[n]) == 1;
	return n;
}

/* The redirections of program() apply to echo. */
TEST(an_answer_that_is_lost_is_an_error)
{
	static const char *const names[] = {"hone", "hone-fleet", "honed", "hone-sync", "hone-worker"};
	for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
		char error[500];
		CHECK(program(names[i / 2], "--%s >/dev/full 2>%s || echo $?", i % 2 ? "help" : "version",
			      in_dir("lost")) == 0);
		slurp(in_dir("lost"), error, sizeof error);
		CHECK(!strcmp(cli_out, "1\n"));
		CHECK_SAYS(error, "standard output: No space left on device");
	}
}

TEST(the_help_of_every_program_has_80_columns)
{
	static const struct {
		const char *name;
		int commands; /* at least */
	} programs[] = {{"hone", 25}, {"hone-fleet", 9}, {"honed", 0}, {"hone-sync", 0}, {"hone-worker", 0}};
	char names[64][32];
	unsetenv("COLUMNS");
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
		CHECK(program(programs[i].name, "--help") == 0 && strlen(cli_out) > 100);
		check_width(programs[i].name, "", 80);
		int n = commands_of(names);
		CHECK(n >= programs[i].commands);
		for (int k = 0; k < n; k++) {
			CHECK(program(programs[i].name, "%s --help", names[k]) == 0 && strlen(cli_out) > 100);
			check_width(programs[i].name, names[k], 80);
		}
	}
}

/* The programs without commands, too, fill the lines of a narrow terminal, with the words on an option in a
 * column, and those of a wide one up to 80. */
TEST(the_help_is_as_wide_as_the_terminal)
{
	static const char *const name[] = {"honed", "hone-sync"};
	for (int i = 0; i < 2; i++) {
		setenv("COLUMNS", "40", 1);
		CHECK(program(name[i], "--help") == 0);
		check_width(name[i], "", 40);
		CHECK_SAYS(cli_out, "\n  --config FILE   configuration (default\n"
				    "                  /etc/hone/honed.conf);\n"
				    "                  its drop-ins lie in\n"
				    "                  FILE.d\n");
		setenv("COLUMNS", "200", 1);
		CHECK(program(name[i], "--help") == 0);
		check_width(name[i], "", 80);
		CHECK_SAYS(cli_out, "configuration (default /etc/hone/honed.conf); its drop-ins lie\n");
	}
	setenv("COLUMNS", "40", 1);
	CHECK(program("hone-worker", "--help") == 0);
	check_width("hone-worker", "", 40);
	CHECK(program("hone-worker", "--server") == 2 && !cli_out[0]);
	CHECK_SAYS(cli_err, "--serve");
	CHECK(program("hone-worker", "%s", "") == 2);
	CHECK_SAYS(cli_err, "see hone-worker --help");
	/* A command that takes several lines goes on behind &&, so that it can be pasted. */
	CHECK(program("hone", "--help") == 0);
	check_width("hone", "", 40);
	CHECK_SAYS(cli_out, "\nStart with:\n  hone zoo mobilenet_v2 -o m.onnx &&\n"
			    "  hone tune m.onnx --budget 20s\n");
	CHECK(program("hone-fleet", "--help") == 0);
	check_width("hone-fleet", "", 40);
	CHECK_SAYS(cli_out, "\nStart with:\n  hone-fleet init &&\n  hone-fleet serve\n");
	unsetenv("COLUMNS");
}

TEST(hone_fleet_says_which_values_an_option_takes)
{
	CHECK(program("hone-fleet", "serve --stage soon") == 2);
	CHECK_SAYS(cli_err, "error: --stage soon is not possible; it takes 0s to 365d (see");
	CHECK_OK(file_write(in_dir("bad-fleet.conf"), "[fleet]\nthreads = 65\n", 22));
	CHECK(program("hone-fleet", "serve --config %s", in_dir("bad-fleet.conf")) == 2);
	CHECK_SAYS(cli_err, ": threads = 65 is not possible; it takes 1 to 64");
}

/* A Next: line can be pasted: it calls the program as the user called it, with the options that the user
 * gave. */
TEST(hone_fleet_says_what_to_do_next)
{
	char keys[160], want[900];
	snprintf(keys, sizeof keys, "%s", in_dir("next keys"));
	CHECK(program("hone-fleet", "init --keys '%s' --host localhost", keys) == 0);
	snprintf(want, sizeof want,
		 "\nNext: ./hone-fleet serve --keys '%s' --cert '%s/server.pem' --key '%s/server.key'\n",
		 keys, keys, keys);
	CHECK_SAYS(cli_err, want);
	snprintf(want, sizeof want, "no database %s.db; `./hone-fleet serve --db '%s.db'` creates it", keys,
		 keys);
	CHECK(program("hone-fleet", "boards --db '%s.db'", keys) == 1);
	CHECK_SAYS(cli_err, want);
	CHECK(program("hone-fleet", "boards --db :memory:next") == 0);
	CHECK_SAYS(cli_err, "\nNext: ./hone-fleet token --db :memory:next\n");
}

static unsigned mode_of(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

/* The file that init tells to copy to boards is there, and holds the newest root. */
TEST(hone_fleet_makes_the_root_of_boards)
{
	char keys[160], words[900];
	static char first[4096], next[4096];
	snprintf(keys, sizeof keys, "%s", in_dir("root-keys"));
	CHECK(program("hone-fleet", "init --keys %s", keys) == 0);
	snprintf(words, sizeof words, "- copy %s/root.signed to each board, as /usr/share/hone/root.signed\n",
		 keys);
	CHECK_SAYS(cli_err, words);
	snprintf(words, sizeof words, "%s/root.signed", keys);
	CHECK(mode_of(words) == 0644); /* users of boards read a copy of it */
	CHECK(chmod(words, 0600) == 0);
	slurp(words, first, sizeof first);
	snprintf(words, sizeof words, "%s/root/1", keys);
	slurp(words, next, sizeof next);
	CHECK(first[0] && !strcmp(first, next));
	CHECK(program("hone-fleet",
		      "root next %s/2 --keys %s --sign %s/offline/root-1.key --sign "
		      "%s/offline/root-2.key",
		      keys, keys, keys, keys) == 0);
	CHECK(program("hone-fleet", "root add %s/2 --keys %s", keys, keys) == 0);
	snprintf(words, sizeof words, "%s/root.signed", keys);
	slurp(words, next, sizeof next);
	CHECK(next[0] && strcmp(first, next));
	CHECK(mode_of(words) == 0644);
	snprintf(words, sizeof words, "%s/root/2", keys);
	slurp(words, first, sizeof first);
	CHECK(!strcmp(first, next));
	static const char *const secret[] = {"ca.key", "fleet.key", "offline/root-1.key", "admin"};
	for (int i = 0; i < 4; i++) {
		snprintf(words, sizeof words, "%s/%s", keys, secret[i]);
		CHECK(mode_of(words) == 0600);
	}
}

/* A root is in force even if its copy for images cannot be written: the message says how to make that. */
TEST(hone_fleet_adds_a_root_without_its_copy)
{
	char keys[160], words[900];
	snprintf(keys, sizeof keys, "%s", in_dir("root-copy"));
	CHECK(program("hone-fleet", "init --keys %s", keys) == 0);
	CHECK(program("hone-fleet",
		      "root next %s/2 --keys %s --sign %s/offline/root-1.key --sign "
		      "%s/offline/root-2.key",
		      keys, keys, keys, keys) == 0);
	snprintf(words, sizeof words, "%s/root.signed", keys);
	CHECK(unlink(words) == 0 && mkdir(words, 0700) == 0);
	CHECK(program("hone-fleet", "root add %s/2 --keys %s", keys, keys) == 1);
	CHECK_SAYS(cli_err, "root 2 is in force");
	snprintf(words, sizeof words,
		 "only the copy for images of new boards failed; `install -m 644 %s/root/2 %s/root.signed` "
		 "makes it: ",
		 keys, keys);
	CHECK_SAYS(cli_err, words);
}

/* With --state, every command works in that one folder, whatever a configuration says of the places; an
 * option for one place wins. */
TEST(a_fleet_for_a_trial_is_one_folder)
{
	static const char *const verbs[] = {"token", "boards", "revoke nobody", "rename a b"};
	char state[160], conf[160], no[160], words[900];
	snprintf(state, sizeof state, "%s", in_dir("trial"));
	snprintf(conf, sizeof conf, "%s", in_dir("fleet.conf"));
	snprintf(no, sizeof no, "%s", in_dir("no"));
	snprintf(words, sizeof words, "[fleet]\ndb = %s\nkeys = %s\npublish = %s\n", no, no, no);
	CHECK_OK(file_write(conf, words, strlen(words)));
	CHECK(program("hone-fleet", "init --state %s --config %s", state, conf) == 0);
	snprintf(words, sizeof words, "make a token for each board: hone-fleet token --config %s --state %s",
		 conf, state);
	CHECK_SAYS(cli_err, words);
	snprintf(words, sizeof words, "%s/keys/root.signed", state);
	CHECK(file_exists(words));
	snprintf(words, sizeof words, "no database %s/fleet.db; ", state);
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		CHECK(program("hone-fleet", "%s --state %s --config %s", verbs[i], state, conf) == 1);
		CHECK_SAYS(cli_err, words);
	}
	snprintf(words, sizeof words, "no database %s; ", no);
	CHECK(program("hone-fleet", "boards --state %s --db %s", state, no) == 1);
	CHECK_SAYS(cli_err, words);
	CHECK(!file_exists(no) && !file_is_dir(no));
}

/* Advice for a fleet that is not there yet repeats --state, and names keys, which the server needs. */
TEST(hone_fleet_says_how_to_begin)
{
	char state[160], words[900];
	snprintf(state, sizeof state, "%s", in_dir("begin here"));
	snprintf(words, sizeof words,
		 "there is no database %s/fleet.db; `./hone-fleet serve --state '%s'` creates it, once "
		 "`./hone-fleet init --state '%s'` has made keys in %s/keys, or ",
		 state, state, state, state);
	CHECK(program("hone-fleet", "boards --state '%s'", state) == 1);
	CHECK_SAYS(cli_err, words);
	snprintf(words, sizeof words,
		 "there are no keys in %s/keys; `./hone-fleet init --state '%s'` makes them", state, state);
	CHECK(program("hone-fleet", "serve --state '%s' --listen 127.0.0.1:0", state) == 1);
	CHECK_SAYS(cli_err, words);
	CHECK(!file_exists(state));
	CHECK(program("hone-fleet", "init --state '%s'", state) == 0);
	CHECK(program("hone-fleet", "boards --state '%s'", state) == 1);
	snprintf(words, sizeof words, "`./hone-fleet serve --state '%s'` creates it, or ", state);
	CHECK_SAYS(cli_err, words);
}

/* Runs `hone-fleet boards` as a user who may not look into the folder. Returns its exit status. */
static int boards_of_others(char *state)
{
	char self[2000];
	CHECK_OK(file_self_dir(self, sizeof self));
	strcat(self, "/../hone-fleet");
	pid_t pid = fork();
	if (pid == 0) {
		char *argv[] = {self, "boards", "--state", state, NULL};
		if (dup2(open(in_dir("program-err"), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2) < 0)
			_exit(121);
		if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(122);
		execv(self, argv);
		_exit(127);
	}
	int status = -1;
	CHECK(waitpid(pid, &status, 0) == pid);
	slurp(in_dir("program-err"), cli_err, sizeof cli_err);
	return WEXITSTATUS(status);
}

TEST(a_database_of_another_user_is_not_missing)
{
	char state[160];
	snprintf(state, sizeof state, "%s", in_dir("theirs"));
	CHECK_OK(file_mkdirs(state, 0700));
	CHECK(geteuid() == 0 || chmod(state, 0) == 0);
	CHECK(boards_of_others(state) == 1);
	CHECK_SAYS(cli_err, "/theirs/fleet.db: Permission denied; start hone-fleet as the user who runs");
	CHECK(!strstr(cli_err, "no database"));
	CHECK(chmod(state, 0700) == 0);
}

/* The help of serve tells each default, and which values are allowed. */
TEST(hone_fleet_tells_its_defaults)
{
	static const char *const says[] = {"(1,2,3;", "(24h;", "--quorum 1,1,1", "channel = canary", "(60s;"};
	struct arena a = {0};
	struct fleet_conf c;
	CHECK(program("hone-fleet", "serve --help") == 0);
	for (size_t i = 0; i < sizeof says / sizeof *says; i++)
		CHECK_SAYS(cli_out, says[i]);
	fleet_conf_default(&c);
	for (const struct opt *o = fleet_conf_opts; o->name; o++) {
		const char *allowed;
		if (!o->arg || !(isdigit((unsigned char)o->arg[0]) || !strcmp(o->name, "threads") ||
				 !strcmp(o->name, "quorum")))
			continue;
		CHECK(fleet_conf_set(&c, o->name, "-7x", &a) == E_USAGE);
		allowed = strstr(err_text(), "it takes ");
		if (!allowed || !strstr(o->help, allowed + 9) || !strchr(o->help, '(')) {
			printf("hone-fleet serve --help does not tell the default or the range of --%s: %s\n",
			       o->name, allowed ? allowed : "no range");
			test_bad = 1;
		}
	}
	arena_free(&a);
}

/* Takes line breaks and runs of blanks out of cli_out. */
static void join_lines(void)
{
	for (char *p = cli_out; *p; p++)
		*p = *p == '\n' ? ' ' : *p;
	for (char *p = cli_out; (p = strstr(p, "  ")) != NULL;)
		memmove(p, p + 1, strlen(p));
}

/* Both programs take into the cache of the configuration, whatever cache `hone tune` of this user has. */
TEST(both_programs_tell_which_cache_takes)
{
	CHECK(program("hone", "sync --help") == 0);
	join_lines();
	CHECK_SAYS(cli_out, "(default: cache in [honed] of the configuration, else /var/lib/hone/cache)");
	CHECK(!strstr(cli_out, "XDG_CACHE_HOME"));
	CHECK(program("hone-sync", "--help") == 0);
	join_lines();
	CHECK_SAYS(cli_out, "(default: as configured, else /var/lib/hone/cache)");
}

/* How often boards poll is a matter of both sides, and the help of each says so. */
TEST(both_sides_tell_how_often_boards_poll)
{
	static const char *const helps[][2] = {
	    {"hone-fleet", "serve --help"}, {"hone", "sync --help"}, {"hone-sync", "--help"}};
	for (int i = 0; i < 3; i++) {
		CHECK(program(helps[i][0], "%s", helps[i][1]) == 0);
		join_lines();
		CHECK_SAYS(cli_out, "factor of 4");
		CHECK_SAYS(cli_out, "`every` in [sync]");
	}
	CHECK_SAYS(cli_out, "1m to 744h");
	CHECK(program("hone", "sync --help") == 0);
	CHECK_SAYS(cli_out, "1m to 744h");
}

/* A honed that is started by hand says first which paths it uses, and that clients will look elsewhere. */
TEST(honed_says_where_it_works)
{
	char at[160], want[900];
	snprintf(at, sizeof at, "%s", in_dir("by-hand"));
	CHECK_OK(file_mkdirs(at, 0755));
	snprintf(want, sizeof want, "%s/conf", at);
	const char conf[] = "[honed]\nsocket = /nowhere/other.sock\n[idle]\ntune = no\n";
	CHECK_OK(file_write(want, conf, sizeof conf - 1));
	CHECK(program("honed", "--boot --config %s/conf --run %s/run --state %s/state", at, at, at) == 0);
	snprintf(
	    want, sizeof want,
	    "honed: starts: configuration %s/conf, socket %s/run/honed.sock, cache %s/state/cache, state "
	    "%s/state (--config",
	    at, at, at, at);
	CHECK(!strncmp(cli_err, want, strlen(want)));
	snprintf(want, sizeof want,
		 "honed: warning: the socket is %s/run/honed.sock, as the command line says; socket = "
		 "/nowhere/other.sock of %s/conf is not used",
		 at, at);
	CHECK_SAYS(cli_err, want);
	CHECK(program("honed", "--check --config %s/conf --run %s/run", at, at) == 0);
	CHECK_SAYS(cli_err, want);
	CHECK(program("honed", "--check --config %s/conf", at) == 0);
	CHECK(!strstr(cli_err, "warning"));
	CHECK(program("honed", "--check %s/conf", at) == 2);
	CHECK_SAYS(cli_err, "/conf'; a configuration is given by --config (see honed --help)");
	CHECK(program("honed", "--check no-such-file") == 2);
	CHECK_SAYS(cli_err, "unexpected argument 'no-such-file' (see honed --help)");
	snprintf(want, sizeof want, "%s/folder", at);
	const char folder[] = "[model m]\npath = /tmp\n";
	CHECK_OK(file_write(want, folder, sizeof folder - 1));
	CHECK(program("honed", "--check --config %s/folder", at) == 1);
	CHECK_SAYS(cli_out, "model m: /tmp: a folder; name the file of a model");
	snprintf(want, sizeof want, "%s/plan.hone", in_dir("bundle"));
	char bundle[400];
	snprintf(bundle, sizeof bundle, "[model m]\npath = %s\n", in_dir("bundle"));
	CHECK_OK(file_mkdirs(in_dir("bundle"), 0755));
	CHECK_OK(file_write(want, "HONE", 4));
	snprintf(want, sizeof want, "%s/folder", at);
	CHECK_OK(file_write(want, bundle, strlen(bundle)));
	CHECK(program("honed", "--check --config %s/folder", at) == 1);
	CHECK_SAYS(cli_out, "/bundle: a compiled model; name the model file that it was compiled from");
	/* hone says which socket it tried. */
	CHECK(program("hone", "status --cache %s --socket %s/run/honed.sock", in_dir("cache"), at) == 0);
	for (char *p = cli_out; (p = strchr(p, '\n')) != NULL;)
		*p = ' ';
	snprintf(want, sizeof want, "nothing listens on %s/run/honed.sock", at);
	CHECK_SAYS(cli_out, want);
	CHECK_SAYS(cli_out, "$HONE_SOCKET");
}

TEST_MAIN
