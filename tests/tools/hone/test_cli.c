/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: arguments, help, errors, models. */
#include "tests/lib/cli_model.h"
#include "platform/machine/topo.h"
#include "tools/hone/help.h"

#include <ctype.h>

TEST(without_words_it_lists_the_commands)
{
	CHECK_RUN(2, " "); /* a script that lost its words must notice */
	for (int i = 0; cmd_table[i]; i++)
		CHECK_SAYS(cli_err, cmd_table[i]->name);
	CHECK(!cli_out[0]);
	CHECK_RUN(0, "--help");
	CHECK(!cli_err[0]);
	CHECK_SAYS(cli_out, "tune");
	CHECK_RUN(0, "--version");
	CHECK_SAYS(cli_out, "hone " HONE_VERSION "\n");
}

TEST(wrong_words_are_usage_errors_with_a_remedy)
{
	CHECK_RUN(2, "zooo");
	CHECK_SAYS(cli_err, "hone: error: unknown command 'zooo'; did you mean 'zoo'?");
	CHECK_RUN(2, "qwertyuiop");
	CHECK_SAYS(cli_err, "`hone --help` lists the commands");
	CHECK_RUN(2, "-q");
	CHECK_SAYS(cli_err, "`hone --help` lists the commands");
	CHECK_RUN(2, "tune m.onnx --device gpu");
	CHECK_SAYS(cli_err, "--device gpu is not supported; use cpu, cpu:CLUSTER, opencl:N or cuda:N as "
			    "`hone devices` lists it; this machine has cpu");
	CHECK_SAYS(cli_err, " (see `hone tune --help`)\n");
	CHECK_RUN(2, "zoo --sead 3");
	CHECK_SAYS(cli_err, "unknown option --sead; did you mean --seed?");
	CHECK_RUN(2, "zoo --seed");
	CHECK_SAYS(cli_err, "--seed needs a value");
	CHECK_RUN(2, "zoo --seed three");
	CHECK_SAYS(cli_err, "'three' is not a whole number");
	CHECK_RUN(2, "zoo --json=yes");
	CHECK_SAYS(cli_err, "--json takes no value");
	CHECK_RUN(2, "zoo -x");
	CHECK_SAYS(cli_err, "unknown option -x");
	static const struct {
		const char *words, *says;
	} others[] = {{"tune M --time 5s", "unknown option --time; did you mean --budget ("},
		      {"tune M -t 2", "unknown option -t; did you mean --threads ("},
		      {"bench M -n 5", "unknown option -n; did you mean --runs ("},
		      {"run M -i x.npy", "unknown option -i; did you mean --input ("},
		      {"-V", "unknown option -V; did you mean --version (show the version)?"}};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		CHECK_RUN(2, "%s", others[i].words);
		CHECK_SAYS(cli_err, others[i].says);
	}
	CHECK_RUN(2, "zoo a b");
	CHECK_SAYS(cli_err, "unexpected argument 'b'; usage: hone zoo");
	CHECK_RUN(2, "--json");
	CHECK_SAYS(cli_err, "missing argument COMMAND");
	CHECK_RUN(2, "tun m.onnx");
	CHECK_SAYS(cli_err, "did you mean 'tune'?");
	CHECK_RUN(2, "zoo mobilenet");
	CHECK_SAYS(cli_err, "did you mean 'mobilenet_v2'?");
	CHECK_RUN(2, "zoo mobilnet");
	CHECK_SAYS(cli_err, "did you mean 'mobilenet_v2'?");
	CHECK_RUN(2, "zoo mobilenet_v2");
	CHECK_SAYS(cli_err, "usage: `hone zoo mobilenet_v2 -o mobilenet_v2.onnx`");
	CHECK(!cli_out[0]);
}

/* The help and the manual page of each command that reads a model say what --shape can give. */
TEST(shape_is_explained)
{
	static const char *const commands[] = {"tune",  "bench",   "run",    "verify",
					       "tasks", "explain", "inspect"};
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		CHECK_RUN(0, "%s --help", commands[i]);
		CHECK_SAYS(cli_out, "free size of an input (image=1x3x320x320)");
		CHECK_SAYS(cli_out, "integer scalar input (sr=16000)");
		CHECK_RUN(0, "--man %s", commands[i]);
		CHECK_SAYS(cli_out, "integer scalar input (sr=16000)");
	}
}

/* An option that takes one value is given once; flags and lists may be repeated. */
TEST(an_option_given_twice)
{
	char first[256];
	snprintf(first, sizeof first, "%s", in_dir("a.onnx"));
	CHECK_RUN(2, "zoo steering -o %s --output=%s", first, in_dir("b.onnx"));
	CHECK_SAYS(cli_err, "--output is given twice; it takes one value");
	CHECK(!file_exists(first) && !file_exists(in_dir("b.onnx")));
	CHECK_RUN(2, "tune %s --budget 1s --budget 1s", steering());
	CHECK_SAYS(cli_err, "--budget is given twice");
	CHECK_RUN(2, "tune %s --wait --wait=5s", steering());
	CHECK_SAYS(cli_err, "--wait is given twice");
	CHECK_RUN(0, "tasks %s --json --json -q -q --shape camera=1x3x66x200", steering());
	CHECK_RUN(2, "tasks %s --shape camera=1x3x66x200 --shape camera=1x3x66x200", steering());
	CHECK_SAYS(cli_err, "--shape gives 'camera' twice");
}

TEST(an_option_is_no_value)
{
	CHECK_RUN(2, "run m.onnx --resize --input x.png");
	CHECK_SAYS(
	    cli_err,
	    "--resize needs a value, as in --resize WxH, but --input follows (as a value: --resize=--input)");
	CHECK_RUN(2, "zoo steering -o -q");
	CHECK_SAYS(cli_err, "--output needs a value, as in --output FILE, but -q follows");
	CHECK_RUN(2, "zoo steering --output --");
	CHECK_SAYS(cli_err, "but -- follows");
	CHECK_RUN(2, "zoo steering --seed -1 -o %s", in_dir("none.onnx"));
	CHECK_SAYS(cli_err, "--seed -1 is not possible; it takes 0 or more"); /* a number is a value */
	CHECK_RUN(0, "zoo steering -q -o=%s", in_dir("some.onnx"));
}

TEST(durations)
{
	static const struct {
		const char *text;
		int64_t ns;
	} good[] = {{"20s", 20000000000},
		    {"500ms", 500000000},
		    {"2m", 120000000000},
		    {"1.5s", 1500000000},
		    {"250us", 250000},
		    {"0s", 0},
		    {"1h", 3600000000000},
		    {"5", 5000000000},
		    {"0", 0},
		    {"1m30s", 90000000000},
		    {"1d2h3m4s5ms6us", 93784005006000},
		    {"1.5", 1500000000},
		    {"1m1.5s", 61500000000}};
	static const char *const bad[] = {"",     "s",     "-1s",  "1e3s", "1.2.3s", "20 s", "20sec",
					  "1m30", "30s1m", "1s1s", "5m-1", "1m ",    ".",    "99999999999h",
					  "-5",   "1ms1s"};
	int64_t ns;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		CHECK_OK(duration_parse(good[i].text, &ns));
		CHECK(ns == good[i].ns);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(duration_parse(bad[i], &ns), E_USAGE, bad[i]);
}

TEST(sizes)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} good[] = {{"32M", 32 << 20}, {"512K", 512 << 10}, {"1.5G", INT64_C(3) << 29}, {"0K", 0}};
	static const char *const bad[] = {"32",     "",     "M",    "-1M",         "1e3M",
					  "1.2.3M", "32 M", "32MB", "99999999999G"};
	int64_t bytes;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		CHECK_OK(size_parse(good[i].text, &bytes));
		CHECK(bytes == good[i].bytes);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(size_parse(bad[i], &bytes), E_USAGE, bad[i]);
}

/* Turns line breaks and blanks beside them into one blank, as help is broken into lines. */
static void join_lines(char *text)
{
	char *to = text;
	for (const char *p = text; *p; p++)
		if (!isspace((unsigned char)*p))
			*to++ = *p;
		else if (to > text && to[-1] != ' ')
			*to++ = ' ';
	*to = 0;
}

TEST(every_command_has_help_a_manual_page_and_completion)
{
	struct buf complete = {0};
	help_completion(&hone_program, &complete);
	for (int i = 0; cmd_table[i]; i++) {
		const struct cmd *c = cmd_table[i];
		char line[96];
		CHECK_RUN(0, "%s --help", c->name);
		join_lines(cli_out);
		CHECK_SAYS(cli_out, c->summary);
		CHECK(strlen(c->summary) > 10 && strlen(c->summary) <= 80);
		struct buf man = {0};
		help_man(&hone_program, c, &man);
		CHECK_SAYS(buf_str(&man), ".TH HONE-");
		for (const struct opt *o = c->opts; o && o->name; o++) {
			CHECK_SAYS(cli_out, o->help);
			CHECK(o->kind == OPT_FLAG || o->arg);
			CHECK(o->kind == OPT_STR || o->kind == OPT_LIST || (!o->values && !o->words));
			snprintf(line, sizeof line, " --%s", o->name);
			CHECK_SAYS(buf_str(&complete), line);
		}
		snprintf(line, sizeof line, "\t%s) opts=", c->name);
		CHECK_SAYS(buf_str(&complete), line);
		CHECK(strlen(strstr(buf_str(&man), ".SH OPTIONS")) > 100);
		buf_free(&man);
	}
	CHECK_SAYS(buf_str(&complete), "--device) takes=words");
	CHECK(!strstr(buf_str(&complete),
		      "replay:")); /* for those who search without a board: its help says it */
	buf_free(&complete);
	CHECK_RUN(0, "--man tune");
	CHECK_SAYS(cli_out, ".SH NAME\nhone\\-tune");
	CHECK_RUN(2, "--man nothing");
}

TEST(completion_is_valid_bash)
{
	if (system("command -v bash >/dev/null") != 0)
		SKIP("no bash");
	CHECK_RUN(0, "--bash-completion");
	char path[256], cmd[1024];
	static const struct {
		const char *words, *reply;
	} cases[] = {
	    {"zoo --se", "--seed"},
	    {"inspe", "inspect"},
	    {"zoo mobilenet_v", "mobilenet_v2 mobilenet_v1"},
	    {"tune --strategy gen", "genetic"},
	    {"tune --strategy = gen", "genetic"},
	    {"tune --strategy =", "anneal auto cluster evolve genetic gradient random"},
	    {"tune m --cost n", "none"},
	    {"tune m --rigor c", "cached"},
	    {"tune m --device c", "cpu"},
	    {"run m --device open", "opencl:3"},
	    {"tasks m --device s", ""}, /* no simulator */
	    {"compile m --device c", "cpu"},
	    {"bench m --kernels f", "fallback"},
	    {"explain m -d l", "l"},
	    {"explain m --dump ts", "tslcm"},
	    {"run m --layout nc", "nchw"},
	    {"bench m --runs 1", ""}, /* a number */
	    {"tune two", "two words.onnx"},
	    {"tune fo", "folder"},
	    {"tune m", ""}, /* model.txt is not a model */
	    {"tune x --cache fo", "folder"},
	    {"tune x --cache mo", ""},
	    {"run x -o fo", "folder"},
	    {"run x --input mo", "model.txt"},
	    {"run x --input x = mo", "model.txt"},
	    {"report x -o mo", "model.txt"},
	    {"help tun", "tune"},
	    {"devices mo", ""}, /* it takes no arguments */
	    {"explain net.onnx conv", "conv_a conv_b"},
	    {"explain net.onnx -q --level fp32 conv_b", ""},   /* the model is not the word before */
	    {"explain net.onnx x", "x\\$(touch\\${IFS}made)"}, /* as it is, not expanded */
	    {"explain model.txt conv", ""},                    /* no model */
	    {"explain net", "net.onnx"},
	};
	snprintf(path, sizeof path, "%s", in_dir("completion"));
	REQUIRE_OK(file_write(path, cli_out, strlen(cli_out)));
	REQUIRE_OK(file_mkdirs(in_dir("place/folder"), 0755));
	REQUIRE_OK(file_write(in_dir("place/two words.onnx"), "", 0));
	REQUIRE_OK(file_write(in_dir("place/model.txt"), "", 0));
	REQUIRE_OK(file_write(in_dir("place/net.onnx"), "", 0));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(
		    cmd, sizeof cmd,
		    "cd %s && bash -c '. %s; hone() { case \"$*\" in \"devices --names\") printf "
		    "\"cpu\\nopencl:3\\n\" ;; \"tasks net.onnx --names\") printf \"%%s\\n\" conv_a conv_b "
		    "\"x\\$(touch\\${IFS}made)\" ;; *) echo broken >&2; false ;; esac; }; "
		    "COMP_WORDS=(hone %s); COMP_CWORD=$((${#COMP_WORDS[@]} - "
		    "1)); _hone; [ \"${COMPREPLY[*]}\" = \"%s\" ] || { echo \"%s: ${COMPREPLY[*]}\"; "
		    "false; }'",
		    in_dir("place"), path, cases[i].words, cases[i].reply, cases[i].words);
		CHECK(system(cmd) == 0);
	}
	CHECK(access(in_dir("place/made"), F_OK) < 0);
}

/* What completes the second word of hone explain, which takes each of these names. */
TEST(names_of_tasks)
{
	REQUIRE_OK(file_mkdirs(in_dir("no-names"), 0755));
	CHECK_RUN(0, "zoo steering -o %s", in_dir("steering.onnx"));
	CHECK_RUN(0, "tasks %s --names", in_dir("steering.onnx"));
	char names[4096];
	snprintf(names, sizeof names, "%.4000s", cli_out);
	CHECK(*names && !strchr(names, ' '));
	for (char *name = strtok(names, "\n"); name; name = strtok(NULL, "\n")) {
		CHECK_RUN(0, "explain %s %s --cache %s", in_dir("steering.onnx"), name, in_dir("no-names"));
		CHECK_SAYS(cli_out, "operand ");
	}
	struct onnx_maker k; /* two nodes of one name */
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "2 6");
	mk_node(&k, "Softmax", "x", "a")->name = mk_text("stem");
	mk_node(&k, "Softmax", "a", "y")->name = mk_text("stem");
	mk_output(&k, "y");
	CHECK_RUN(0, "tasks %s --names", write_model(&k, "twice.onnx"));
	CHECK(!strcmp(cli_out, "stem\n"));
	REQUIRE_OK(file_write(in_dir("broken.onnx"), "nonsense", 8));
	CHECK_RUN(1, "tasks %s --names", in_dir("broken.onnx"));
	CHECK(!*cli_out);
}

TEST(zoo_lists_as_json)
{
	CHECK_RUN(0, "zoo --json");
	json_t *j = parse_out();
	CHECK(json_array_size(json_object_get(j, "models")) == 8);
	json_decref(j);
}

TEST(zoo_needs_a_place_and_a_name)
{
	CHECK_RUN(2, "zoo steering");
	CHECK_SAYS(cli_err, "hone zoo steering -o steering.onnx");
	CHECK_RUN(2, "zoo lenet -o %s", in_dir("x.onnx"));
	CHECK_SAYS(cli_err, "hone: error: unknown network 'lenet'; the zoo has");
	CHECK_RUN(1, "zoo steering -o /nowhere/x.onnx");
	CHECK_SAYS(cli_err, "/nowhere/x.onnx");
	CHECK_SAYS(cli_err, "its folder does not exist");
}

TEST(quiet_is_quiet)
{
	steering();
	CHECK(file_exists(in_dir("steering.onnx")));
}

TEST(bad_models_are_named)
{
	static const char *const with_model[] = {"tasks",  "tune",   "bench", "run --output /tmp",
						 "verify", "explain"};
	for (size_t i = 0; i < sizeof with_model / sizeof *with_model; i++) {
		CHECK_RUN(1, "%s /nowhere/m.onnx%s%s", with_model[i], i ? " --cache " : "",
			  i ? in_dir("cache") : "");
		CHECK_SAYS(cli_err, "hone: error: ");
		CHECK_SAYS(cli_err, "/nowhere/m.onnx");
		CHECK_SAYS(cli_err, "No such file");
		CHECK(!cli_out[0]);
		CHECK(strchr(cli_err, '\n') == cli_err + strlen(cli_err) - 1);
	}
}

TEST(rubbish_is_not_a_model)
{
	const char *path = in_dir("rubbish.onnx");
	REQUIRE_OK(file_write(path, "this is not a model", 19));
	CHECK_RUN(1, "tasks %s", path);
	CHECK_SAYS(cli_err, "rubbish.onnx");
}

TEST(tasks_as_json)
{
	CHECK_RUN(0, "tasks --json %s", steering());
	json_t *j = parse_out(), *tasks = json_object_get(j, "tasks");
	CHECK(json_array_size(tasks) >= 5);
	for (size_t i = 0; i < json_array_size(tasks); i++)
		check_keys(json_array_get(tasks, i), "task_key task_text uses gflop");
	json_decref(j);
}

TEST(a_full_disk_is_an_error)
{
	char few[] = "zoo", many[] = "tune --help"; /* more than stdio holds back */
	CHECK(hone_to("/dev/full", few) == 1);
	CHECK_SAYS(cli_err, "standard output: No space left on device");
	CHECK(hone_to("/dev/full", many) == 1);
	CHECK_SAYS(cli_err, "standard output: No space left on device");
}

TEST(a_shape_that_is_none_is_a_usage_error)
{
	CHECK_RUN(2, "tasks %s --shape camera", steering());
	CHECK_SAYS(cli_err, "--shape camera");
	CHECK_SAYS(cli_err, "1x3x320x320");
}

/* Which board's file is used; and mistakes in any of them. */
TEST(files_of_boards)
{
	unsetenv("HONE_BOARDS");
	CHECK_RUN(0, "devices --board");
	static const char own[] = "name = Own\nmachine = x86_64 aarch64\n",
			  odd[] = "name = Odd\nbudget = 3\n";
	REQUIRE_OK(file_mkdirs(in_dir("boards"), 0755));
	REQUIRE_OK(file_write(in_dir("boards/own.conf"), own, strlen(own)));
	setenv("HONE_BOARDS", in_dir("boards"), 1);
	CHECK_RUN(0, "devices --board");
	CHECK_SAYS(cli_out, "board: Own (");
	REQUIRE_OK(file_write(in_dir("boards/odd.conf"), odd, strlen(odd)));
	CHECK_RUN(1, "devices --board");
	CHECK_SAYS(cli_out, "odd.conf:2: unknown key; known are name, like");
	CHECK_SAYS(cli_out, "board: Own (");
	CHECK_SAYS(cli_err, "1 file of boards in");
	unsetenv("HONE_BOARDS");
}

/* Clusters are devices: the machine's own by its name, and no other. */
TEST(clusters_as_devices)
{
	struct clusters c;
	topo_clusters("", NULL, &c);
	CHECK_RUN(1, "tasks %s --device cpu:no-such-core", in_dir("mlp.onnx"));
	CHECK_SAYS(cli_err, "there is no cluster cpu:no-such-core of processors here; there are: cpu:");
	CHECK_SAYS(cli_err, c.of[0].name);
	CHECK_RUN(2, "tasks %s --device cpu:", in_dir("mlp.onnx"));
	CHECK_SAYS(cli_err, "--device cpu: is not supported");
	CHECK_RUN(0, "devices --names");
	for (int i = 0; c.n > 1 && i < c.n; i++)
		CHECK_SAYS(cli_out, c.of[i].name);
}

TEST(devices_as_json)
{
	CHECK_RUN(0, "devices --json --cache %s", in_dir("cache"));
	json_t *j = parse_out();
	check_keys(json_array_get(json_object_get(j, "devices"), 0), "name usable");
	json_decref(j);
}

TEST_MAIN
