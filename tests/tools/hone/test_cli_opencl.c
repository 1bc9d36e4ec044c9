/* SPDX-License-Identifier: Apache-2.0 */
/* hone devices on OpenCL drivers that lie, crash or list nothing. The driver is loaded ahead, so that the
 * command finds it by its name. */
#include "tests/lib/cli_terminal.h"
#include "tests/lib/fake_opencl.h"
#include "platform/base/clock.h"
#include "tools/hone/drivers.h"
#include <dlfcn.h>
#include <errno.h>

static json_t *listed(const char *lie)
{
	fake_lie(lie);
	CHECK_RUN(0, "devices --json --cache %s", in_dir("cache"));
	json_t *all = parse_out(), *j = json_incref(json_object_get(all, "opencl"));
	CHECK(json_array_size(json_object_get(all, "devices")) >= 1);
	json_decref(all);
	return j;
}

TEST(devices_of_a_driver_are_listed)
{
	REQUIRE(dlopen(fake_opencl(), RTLD_NOW));
	json_t *j = listed(""), *d = json_array_get(json_object_get(j, "devices"), 0);
	check_keys(d, "name platform vendor opencl_version c_version driver extensions device_kind usable "
		      "units group_items "
		      "local_bytes global_bytes buffer_bytes unified fp16 exact_divide");
	CHECK(!strcmp(json_string_value(json_object_get(d, "name")), "Fake G1"));
	CHECK(json_is_true(json_object_get(d, "usable")));
	CHECK(!*json_string_value(json_object_get(j, "note")));
	json_decref(j);
	CHECK_RUN(0, "devices --cache %s", in_dir("cache"));
	CHECK_SAYS(cli_out, "cpu: ");
	CHECK_SAYS(cli_out, "opencl:0: Fake G1, gpu, OpenCL 1.2 fake, 1 unit at 1 MHz, groups of up to 256");
}

TEST(lies_are_bounded_and_clean)
{
	REQUIRE(dlopen(fake_opencl(), RTLD_NOW));
	static const struct {
		const char *lie;
		size_t devices;
		const char *note;
	} cases[] = {
	    {"platforms-endless", 16, ""},
	    {"devices-endless", 64, ""},
	    {"platforms-null", 1, "NULL"},
	    {"strings-endless", 1, ""},
	    {"strings-dirty", 1, ""},
	    {"numbers-huge", 1, ""},
	    {"numbers-short", 1, ""},
	    {"devices-none", 0, "no device: install the OpenCL driver"},
	    {"platforms-none", 0, "pocl-opencl-icd"},
	    {"fail clGetDeviceIDs", 0, "clGetDeviceIDs: CL_OUT_OF_RESOURCES (-5)"},
	    {"fail clGetPlatformIDs", 0, "clGetPlatformIDs: CL_OUT_OF_RESOURCES (-5)"},
	    {"forge", 1, "????"},
	    {"crash", 0, "an OpenCL driver "}, /* crashed with signal 11; a sanitizer ends the process */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		json_t *j = listed(cases[i].lie);
		const char *note = json_string_value(json_object_get(j, "note"));
		CHECK(json_array_size(json_object_get(j, "devices")) == cases[i].devices);
		CHECK(note && strstr(note, cases[i].note));
		json_decref(j);
		CHECK_RUN(0, "devices --cache %s", in_dir("cache"));
		for (const char *p = cli_out; *p; p++)
			if ((*p < ' ' && *p != '\n') || *p > '~') {
				CHECK(!"a control character");
				break;
			}
	}
}

/* A driver that does not answer costs the time that it is given, not more. */
TEST(a_driver_that_hangs_is_ended)
{
	REQUIRE(dlopen(fake_opencl(), RTLD_NOW));
	fake_lie("hang");
	double start_s = test_now_s();
	json_t *j = drivers_json(DRIVERS_OPENCL, "", NS_PER_S / 5);
	double took_s = test_now_s() - start_s;
	CHECK(took_s > 0.19 && took_s < 2);
	CHECK(json_array_size(json_object_get(j, "devices")) == 0);
	CHECK(!strcmp(json_string_value(json_object_get(j, "note")),
		      "an OpenCL driver did not answer in 0.2 s"));
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	json_decref(j);
}

/* The findings of one check of hone doctor, as "VERDICT WHAT\nREMEDY\n". */
static const char *doctor_says(const char *lie, const char *more)
{
	static char text[8192];
	size_t i, n = 0;
	fake_lie(lie);
	double start_s = test_now_s();
	int status = hone("doctor --json --cache %s %s", in_dir("cache"), more);
	CHECK(status == 0 || status == 1);
	CHECK(test_now_s() - start_s < 12);
	json_t *j = parse_out(), *f;
	*text = 0;
	json_array_foreach(json_object_get(j, "findings"), i, f)
	{
		const char *s[4];
		CHECK(json_unpack(f, "{ss ss ss ss}", "check", &s[0], "severity", &s[1], "what", &s[2],
				  "remedy", &s[3]) == 0);
		if (!test_bad && !strcmp(s[0], "opencl") && n < sizeof text)
			n += (size_t)snprintf(text + n, sizeof text - n, "%s %s\n%s\n", s[1], s[2], s[3]);
	}
	json_decref(j);
	return text;
}

TEST(the_doctor_asks_drivers)
{
	static const struct {
		const char *lie, *says;
	} cases[] = {
	    {"", "ok opencl:0 answers: Fake G1, driver "},
	    {"devices-none", "no OpenCL device answers ("},
	    {"devices-none", "no device: install the OpenCL driver of your GPU"},
	    {"devices-none", "apt-get install pocl-opencl-icd"},
	    {"crash", "an OpenCL driver crashed with signal 11"},
	    {"hang", "an OpenCL driver did not answer in 5 s"},
	    {"numbers-short", "warning opencl:0 (Fake G1) cannot be used: "},
	    {"fail clGetPlatformIDs", "clGetPlatformIDs: CL_OUT_OF_RESOURCES (-5)"},
	};
	REQUIRE(dlopen(fake_opencl(), RTLD_NOW));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		CHECK_SAYS(doctor_says(cases[i].lie, ""), cases[i].says);
}

/* Of another root, nodes are looked at, and no driver is asked. */
TEST(the_doctor_knows_who_may_open_devices)
{
	char more[300], node[256];
	REQUIRE(dlopen(fake_opencl(), RTLD_NOW));
	if (geteuid() != 0)
		SKIP("only root can be somebody else");
	snprintf(more, sizeof more, "--sysroot %s", in_dir("board"));
	snprintf(node, sizeof node, "%s", in_dir("board/dev/mali0"));
	REQUIRE(file_mkdirs(in_dir("board/dev/dri"), 0755) >= 0);
	REQUIRE(chmod(in_dir(""), 0777) == 0);
	CHECK(!*doctor_says("hang", more));
	REQUIRE(file_write(node, "", 0) >= 0 && file_write(in_dir("board/dev/dri/renderD128"), "", 0) >= 0);
	REQUIRE(chmod(node, 0660) == 0 && chown(node, 0, 44) == 0);
	CHECK(!*doctor_says("hang", more)); /* root may */
	nobody = true;
	unlink(in_dir("stdout"));
	unlink(in_dir("stderr"));
	REQUIRE(chmod(in_dir("board/dev/dri/renderD128"), 0666) == 0);
	CHECK_SAYS(doctor_says("", more), "warning this user may not open /dev/mali0: ");
	CHECK_SAYS(doctor_says("", more), "sudo usermod -aG video $USER, then log in again");
	CHECK(!strstr(doctor_says("", more), "renderD128"));
	nobody = false;
}

/* What the child's pipe says is cleaned again, and nobody waits for a child that has said all. */
TEST(forged_lists_are_clean)
{
	REQUIRE(dlopen(fake_opencl(), RTLD_NOW));
	double start_s = test_now_s();
	json_t *j = listed("forge"), *d = json_array_get(json_object_get(j, "devices"), 0);
	const char *name = json_string_value(json_object_get(d, "name")),
		   *note = json_string_value(json_object_get(j, "note"));
	REQUIRE(name && note && json_array_size(json_object_get(j, "devices")) == 1);
	CHECK(strlen(name) == 127 && strspn(name, "?") == 127);
	CHECK(strlen(note) == 599 && strspn(note, "?") == 599);
	CHECK(json_integer_value(json_object_get(d, "units")) == 0);
	CHECK(json_is_true(json_object_get(d, "fp16")) && json_is_false(json_object_get(d, "usable")));
	json_decref(j);
	j = drivers_json(DRIVERS_OPENCL, "", NS_PER_S);
	CHECK(json_array_size(json_object_get(j, "devices")) == 1);
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	json_decref(j);
	CHECK(test_now_s() - start_s < 10);
}

TEST(lines_are_as_wide_as_the_terminal)
{
	REQUIRE(dlopen(fake_opencl(), RTLD_NOW));
	static const char *const lies[] = {"",
					   "strings-endless",
					   "strings-dirty",
					   "numbers-huge",
					   "forge",
					   "devices-none",
					   "fail clGetDeviceIDs",
					   "crash",
					   "devices-null"};
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
		for (int columns = 80; columns >= 60; columns -= 20) {
			fake_lie(lies[i]);
			CHECK(hone_on_terminal(columns, ON_OUT, "devices --cache %s", in_dir("cache")) == 0);
			screen_strip();
			char *save = NULL;
			const char *first = strstr(cli_screen, "opencl:");
			REQUIRE(first);
			for (char *row = strtok_r(cli_screen + (first - cli_screen), "\r\n", &save);
			     row && !strchr(row, '`'); row = strtok_r(NULL, "\r\n", &save))
				if (log_width(row) > columns) {
					printf("%s at %d columns: %s\n", lies[i], columns, row);
					test_bad = 1;
				}
		}
}

/* Names alone, for scripts: what cannot be used is left out, and a note of why is none of them. */
TEST(names_are_listed_for_scripts)
{
	static const struct {
		const char *lie, *out, *err;
	} cases[] = {{"", "cpu\nopencl:0\n", ""},
		     {"devices-none", "cpu\n", "no device: install"},
		     {"crash clGetDeviceInfo", "cpu\n", "crashed with signal 11"},
		     {"numbers-short", "cpu\n", ""}};
	REQUIRE(dlopen(fake_opencl(), RTLD_NOW));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		fake_lie(cases[i].lie);
		CHECK_RUN(0, "devices --names --cache %s", in_dir("no-cache"));
		if (strncmp(cli_out, cases[i].out, strlen(cases[i].out)) ||
		    !strstr(cli_out, "opencl:") != !strstr(cases[i].out, "opencl:") ||
		    !strstr(cli_err, cases[i].err)) {
			printf("%s: %s%s\n", cases[i].lie, cli_out, cli_err);
			test_bad = 1;
		}
		CHECK(!file_exists(in_dir("no-cache")));
	}
	CHECK_RUN(2, "devices --names --json");
}

TEST_MAIN
