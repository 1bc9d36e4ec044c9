/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of applications for hone calibrate: what is read, and what is refused with which words. */
#include "agent/calibrate/app.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

#include <math.h>
#include <unistd.h>

#define NET "[network a]\npath = a.onnx\nerror = regression\n"
#define APP "[application]\nevaluator = ./run.sh\n"

static int parse(const char *text, struct app *out)
{
	static struct arena a;
	return app_parse("app.conf", text, strlen(text), &a, out);
}

TEST(everything_that_can_be_said)
{
	struct app app;
	REQUIRE_OK(parse("# a robot\n[application]\n  evaluator = ./run.sh --fast\n"
			 "; a comment\nevaluations = 40\n"
			 "timeout = 1m30s\nwrong = 10 %\npass = 0.5\nrange = 0 1\n"
			 "[network heading]\npath = h.onnx\nerror = regression\nmost = 2.5\n"
			 "[network lane finder]\nerror = segmentation\npath = /l.onnx\noutput = mask\n"
			 "[network c]\nerror = own\n",
			 &app));
	CHECK(!strcmp(app.evaluator, "./run.sh --fast") && app.evaluations == 40);
	CHECK(app.timeout_ns == 90 * NS_PER_S && fabs(app.wrong - 0.1) < 1e-12 && app.pass == 0.5);
	CHECK(app.least == 0 && app.most == 1 && app.nnets == 3);
	CHECK(app.net[0].most == 2.5 && !app.net[0].output && app.net[0].kind == INJECT_REGRESSION);
	CHECK(app.net[1].most == 0.5 && !strcmp(app.net[1].output, "mask"));
	CHECK(app.net[2].kind == INJECT_KINDS && !strcmp(app_kind_name(&app.net[2]), "own"));
	char name[APP_NAME + 16];
	app_variable(&app, 1, name);
	CHECK(!strcmp(name, "HONE_ERROR_LANE_FINDER"));
}

TEST(what_is_left_out_has_a_default)
{
	struct app app;
	REQUIRE_OK(parse(APP NET, &app));
	CHECK(app.evaluations == APP_EVALUATIONS && app.timeout_ns == 600 * NS_PER_S && app.wrong == 0);
	CHECK(app.net[0].most == 1 && app.pass == 0 && isinf(app.least) && isinf(app.most));
}

TEST(mistakes)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
	    {"", "app.conf:1: [application] lacks a line `evaluator = COMMAND`"},
	    {APP, "there is no section [network NAME]"},
	    {APP "[network a]\nerror = own\n[network A]\nerror = own\n",
	     "app.conf:6: the networks a and A would share"},
	    {APP "[network a]\npath = a.onnx\n", "app.conf:4: [network a] lacks a line `error =`"},
	    {APP "[network a]\nerror = regression\n", "lacks a line `path = MODEL.onnx`"},
	    {APP "[network a]\nerror = regresion\n",
	     "app.conf:4: error = regresion is not possible; it takes regression"},
	    {APP "[network a]\nerror = detection\npath = a\nmost = 2\n",
	     "most = 2 is not possible for a share"},
	    {APP "[network a]\nmost = 0\n", "most = 0 is not possible"},
	    {APP "[network a]\nmost = nan\n", "most = nan is not possible"},
	    {APP "evaluation = 3\n" NET,
	     "app.conf:3: [application] has no key 'evaluation'; did you mean 'evaluations'"},
	    {APP "evaluations = 2.5\n",
	     "evaluations = 2.5 is not possible; it takes a number from 1 to 2000"},
	    {APP "evaluations = 0\n", "evaluations = 0 is not possible"},
	    {APP "timeout = 0s\n", "timeout = 0s is not possible"},
	    {APP "wrong = 31%\n", "wrong = 31% is not possible; it takes a share from 0% to 30%"},
	    {APP "range = 1 0\n", "range = 1 0 is not possible"},
	    {APP "range = 1\n", "range = 1 is not possible"},
	    {APP "pass = inf\n", "pass = inf is not possible"},
	    {"[application]\nevaluator = cd sim ; ./run\n", "app.conf:2: a blank and ; begin a comment"},
	    {APP "nothing\n", "app.conf:3: neither a [section] nor key = value"},
	    {"[app]\nevaluator = x\n", "app.conf:2: there is no section [app]"},
	    {APP "[network a]\nerror=own\n[network b]\nerror=own\n[network c]\nerror=own\n[network "
		 "d]\nerror=own\n[network "
		 "e]\nerror=own\n",
	     "app.conf:12: [network e]: there are too many networks; at most 4"},
	    {APP "[network 0123456789012345678901234567890123]\nerror = own\n", "a name has 1 to 31 bytes"},
	};
	struct app app;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(parse(bad[i].text, &app), E_USAGE, bad[i].says);
}

TEST(models_are_read_for_their_keys)
{
	struct arena a = {0};
	struct app app;
	char dir[] = "/tmp/hone-app-XXXXXX", path[64], model[64];
	REQUIRE(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/app.conf", dir);
	snprintf(model, sizeof model, "%s/a.onnx", dir);
	CHECK_OK(file_write(path, APP NET, strlen(APP NET)));
	CHECK_FAILS(app_read(path, &a, &app), E_NOTFOUND, "app.conf:4: ");
	CHECK_OK(file_write(model, "model", 5));
	CHECK_OK(app_read(path, &a, &app));
	CHECK(!strcmp(app.folder, dir) && key_equal(app.net[0].file, hash_bytes("model", 5)));
	const char *twice = APP NET "[network b]\npath = a.onnx\nerror = regression\n";
	CHECK_OK(file_write(path, twice, strlen(twice)));
	CHECK_FAILS(app_read(path, &a, &app), E_USAGE, "the networks a and b are the same model");
	unlink(path);
	unlink(model);
	rmdir(dir);
	arena_free(&a);
}

/* Bytes of any kind are refused or read, and nothing else happens. */
TEST(hostile_text)
{
	static const char whole[] =
	    APP "evaluations = 40\nwrong = 10%\nrange = 0 1\n" NET "most = 0.5\n[network b]\nerror = own\n";
	struct rng g;
	struct app app;
	rng_seed(&g, 11);
	for (int k = 0; k < 5000; k++) {
		struct arena a = {0};
		char text[sizeof whole];
		size_t n = rng_below(&g, 4) ? sizeof whole - 1 : rng_below(&g, sizeof whole);
		memcpy(text, whole, sizeof whole);
		for (int m = (int)rng_below(&g, 4); m >= 0; m--)
			text[rng_below(&g, sizeof whole - 1)] =
			    (char)(rng_below(&g, 2) ? "\n[]= ;#%0e9."[rng_below(&g, 13)]
						    : (char)rng_below(&g, 256));
		int rc = app_parse("app.conf", text, n, &a, &app);
		CHECK(rc == E_OK || rc == E_USAGE);
		CHECK(rc < 0 || (app.nnets >= 1 && app.evaluator && app.evaluations >= 1));
		arena_free(&a);
	}
}

TEST_MAIN
