/* SPDX-License-Identifier: Apache-2.0 */
/* hone doctor beside the built honed: it looks at honed's cache and process, not at the caller's. */
#include "tests/lib/cli.h"
#include "tests/lib/honed.h"

#define WORDS "doctor --json --socket %s --config %s"

/* A finding's verdict; "" if there is none that says `what`. */
static const char *verdict(const char *check, const char *what)
{
	static char out[32];
	json_t *j = parse_out(), *f;
	size_t i;
	out[0] = 0;
	json_array_foreach(json_object_get(j, "findings"), i,
			   f) if (!strcmp(json_string_value(json_object_get(f, "check")), check) &&
				  strstr(json_string_value(json_object_get(f, "what")), what))
	    snprintf(out, sizeof out, "%s", json_string_value(json_object_get(f, "severity")));
	json_decref(j);
	if (!out[0])
		printf("no %s '%s': %s\n", check, what, cli_out);
	return out;
}

TEST(the_cache_and_the_limits_are_honeds)
{
	char cache[256], process[64];
	setenv("XDG_CACHE_HOME", "/proc/nope", 1); /* the caller's own would be a problem */
	most_files = 100;
	REQUIRE(start_honed("[idle]\ntune = no\n", "/bin/true"));
	snprintf(cache, sizeof cache, "honed's cache %s", in_folder("state/cache"));
	snprintf(process, sizeof process, "honed (process %d) limits open files to 100", (int)honed);
	hone(WORDS, own("run/honed.sock"), own("honed.conf"));
	CHECK(!strcmp(verdict("limits", process), "warning"));
	snprintf(process, sizeof process, "(process %d)", (int)honed);
	CHECK(!strcmp(verdict("honed", process), "ok"));
	CHECK(*verdict("cache", cache));
	hone(WORDS " --cache /proc/nope", own("run/honed.sock"), own("honed.conf"));
	CHECK(*verdict("cache", "/proc"));
	/* The configuration is that of the honed whose socket is named. */
	char valid[300];
	snprintf(valid, sizeof valid, "honed's configuration %s is valid", own("honed.conf"));
	hone("doctor --json --socket %s", own("run/honed.sock"));
	CHECK(!strcmp(verdict("configuration", valid), "ok"));
	setenv("HONE_SOCKET", own("run/honed.sock"), 1);
	hone("doctor --json");
	CHECK(!strcmp(verdict("configuration", valid), "ok"));
	/* The socket is found in the configuration that is given. */
	char conf[400];
	snprintf(conf, sizeof conf, "[honed]\nsocket = %s\n[idle]\ntune = no\n", own("run/honed.sock"));
	write_text(own("other.conf"), conf);
	unsetenv("HONE_SOCKET");
	setenv("HONE_SOCKET", "", 1);
	hone("doctor --json --config %s", own("other.conf"));
	CHECK(!strcmp(verdict("honed", process), "ok"));
	unsetenv("HONE_SOCKET");
	/* A honed that is busy with its start answers late. */
	char later[64];
	REQUIRE(kill(honed, SIGSTOP) == 0);
	snprintf(later, sizeof later, "(sleep 3; kill -CONT %d) &", (int)honed);
	CHECK(system(later) == 0);
	hone(WORDS, own("run/honed.sock"), own("honed.conf"));
	CHECK(!strcmp(verdict("honed", process), "ok"));
	/* A configuration that honed refused. */
	write_text(own("honed.conf"), "[boot]\nbudget = soon\n");
	kill(honed, SIGHUP);
	for (int i = 0; i < 200; i++) {
		CHECK_RUN(1, WORDS, own("run/honed.sock"), own("other.conf"));
		if (strstr(cli_out, "former configuration"))
			break;
		usleep(10000);
	}
	CHECK(!strcmp(verdict("honed", "former configuration: "), "problem"));
	/* Without honed it is the caller's again. */
	end_honed(SIGTERM);
	CHECK_RUN(1, WORDS, own("run/honed.sock"), own("other.conf"));
	CHECK(*verdict("limits", "this shell"));
	CHECK(*verdict("cache", "/proc"));
	unsetenv("XDG_CACHE_HOME");
}

/* The remedies of all findings. */
static const char *remedies(void)
{
	static char out[1 << 14];
	json_t *j = parse_out(), *f;
	size_t i, n = 0;
	out[0] = 0;
	json_array_foreach(json_object_get(j, "findings"), i, f) n += (size_t)snprintf(
	    out + n, sizeof out - n, "%s\n", json_string_value(json_object_get(f, "remedy")));
	json_decref(j);
	return out;
}

/* A honed that was started by hand, with a path from its folder: its configuration and its gate count, and no
 * advice names a unit. */
TEST(a_honed_without_a_unit)
{
	char valid[300], was[PATH_MAX];
	most_files = 100;
	if (!*at)
		make_folder();
	REQUIRE(getcwd(was, sizeof was));
	write_text(own("rel.conf"), "[idle]\nload = 1%\n[model m]\npath = /nowhere/m.onnx\n");
	REQUIRE(chdir(at) == 0);
	const char *argv[] = {program("honed"), "--config",  "rel.conf",  "--run",  own("run"),  "--state",
			      own("state"),     "--sysroot", own("root"), "--hone", "/bin/true", NULL};
	honed = launch(argv, own("log"));
	REQUIRE(chdir(was) == 0);
	int fd = dial();
	REQUIRE(fd >= 0);
	close(fd);
	hone("doctor --json --socket %s", own("run/honed.sock"));
	snprintf(valid, sizeof valid, "honed's configuration %s is valid: 1 model", own("rel.conf"));
	CHECK(!strcmp(verdict("configuration", valid), "ok"));
	CHECK(!strcmp(verdict("limits", "limits open files to 100"), "warning"));
	CHECK_SAYS(remedies(), "ulimit -n 1024 where honed is started, and start it again\n");
	CHECK(!strstr(remedies(), "systemctl") && !strstr(remedies(), "honed.service"));
	/* Another configuration is said to be another one. */
	write_text(own("rel2.conf"), "[idle]\ntune = no\n");
	hone(WORDS, own("run/honed.sock"), own("rel2.conf"));
	CHECK(!strcmp(verdict("honed", "uses another configuration: "), "note"));
	/* The doctor repeats what honed says of its gate, also where --config names another file, of the same
	 * socket. This honed sees an empty machine. */
	char conf[400];
	snprintf(conf, sizeof conf, "[honed]\nsocket = %s\n[idle]\ntune = no\n", own("run/honed.sock"));
	write_text(own("rel3.conf"), conf);
	setenv("HONE_SOCKET", "", 1);
	for (int named = 0; named < 2; named++) {
		bool said = false;
		for (int i = 0; i < 100 && !said; i++) {
			hone("doctor --json --%s %s", named ? "config" : "socket",
			     named ? own("rel3.conf") : own("run/honed.sock"));
			said = strstr(cli_out, "honed may tune on the board now: ") ||
			       strstr(cli_out, "honed does not tune on the board now: ");
		}
		CHECK(said);
	}
	unsetenv("HONE_SOCKET");
	end_honed(SIGTERM);
	most_files = 0;
	hone("doctor --json --socket %s", own("run/honed.sock"));
	CHECK_SAYS(remedies(), "if it should, start it with ");
}

/* Each model that honed cannot tune is a problem, with honed's reason. */
TEST(a_failed_model_is_a_problem)
{
	char conf[400], job[PATH_MAX + 32];
	snprintf(job, sizeof job, "%s", program("hone"));
	if (!*at)
		make_folder();
	write_text(own("m.onnx"), "no model");
	snprintf(conf, sizeof conf,
		 "[idle]\nsettle = 1s\nload = 100%%\npressure = 100%%\nmemory = 1M\n[model bad]\npath = %s\n",
		 own("m.onnx"));
	REQUIRE(start_honed(conf, job));
	for (int i = 0; i < 100; i++) {
		hone(WORDS, own("run/honed.sock"), own("honed.conf"));
		if (strstr(cli_out, "model bad on cpu "))
			break;
		usleep(100000);
	}
	CHECK(!strcmp(verdict("honed", "model bad on cpu failed: "), "problem"));
	CHECK_SAYS(cli_out, "m.onnx: ");
	CHECK_SAYS(remedies(), "solve that; honed tries again ");
	CHECK_RUN(1, WORDS, own("run/honed.sock"), own("honed.conf"));
	end_honed(SIGTERM);
}

TEST_MAIN
