/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: what an output option names is never a model that the command reads, a device, or another
 * network's file; a link's target is written. */
#include "tests/lib/cli.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static char model[256], out[256];

/* Commands that write a file: the words before and behind its name. */
static const struct writer {
	const char *before, *behind;
	bool model; /* before the words of `behind` */
} writers[] = {
    {"report", "--threads 1 -o", true},
    {"bench", "--runs 2 --threads 1 --trace", true},
    {"quantize", "--data random --threads 1 -o", true},
    {"zoo steering", "-o", false},
    {"export", "-o", false},
    {"bugreport", "-o", false},
};

enum { WRITERS = sizeof writers / sizeof *writers };

static int run_writer(const struct writer *w, const char *to)
{
	return w->model ? hone("%s %s %s %s", w->before, model, w->behind, to)
			: hone("%s %s %s", w->before, w->behind, to);
}

static void begin(void)
{
	snprintf(model, sizeof model, "%s", in_dir("mine.onnx"));
	snprintf(out, sizeof out, "%s", in_dir("out"));
	unlink(model);
	unlink(out);
	CHECK_RUN(0, "zoo steering -q -o %s", model);
	CHECK_OK(file_mkdirs(in_dir("cache"), 0755));
	setenv("XDG_CACHE_HOME", in_dir(""), 1);
	CHECK_OK(file_mkdirs(in_dir("hone"), 0755));
}

TEST(a_device_stays_a_device)
{
	struct stat st;
	begin();
	if (mknod(out, S_IFCHR | 0600, makedev(1, 3)) < 0)
		SKIP("no device can be made here");
	for (int i = 0; i < WRITERS; i++) {
		CHECK(run_writer(&writers[i], out) == 1);
		CHECK_SAYS(cli_err, "is a device, not a regular file; name a file");
		CHECK(stat(out, &st) == 0 && S_ISCHR(st.st_mode));
	}
	unlink(out);
}

TEST(a_pipe_stays_a_pipe)
{
	struct stat st;
	begin();
	CHECK(mkfifo(out, 0600) == 0);
	for (int i = 0; i < WRITERS; i++) {
		CHECK(run_writer(&writers[i], out) == 1);
		CHECK_SAYS(cli_err, "is a pipe, not a regular file; name a file");
		CHECK(stat(out, &st) == 0 && S_ISFIFO(st.st_mode));
	}
	unlink(out);
}

static int64_t bytes_of(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 ? (int64_t)st.st_size : -1;
}

TEST(the_model_itself_is_not_written)
{
	char other[300];
	begin();
	int64_t bytes = bytes_of(model);
	snprintf(other, sizeof other, "%s", in_dir("./mine.onnx"));
	for (int i = 0; i < WRITERS && writers[i].model; i++) {
		CHECK(run_writer(&writers[i], model) == 2);
		CHECK_SAYS(cli_err, "is the model itself: write to another file");
		CHECK(run_writer(&writers[i], other) == 2);
		CHECK(run_writer(&writers[i], "-") == 2);
		CHECK_SAYS(cli_err, "'-' is not a file's name here");
		CHECK(bytes_of(model) == bytes);
	}
}

TEST(a_link_leads_to_the_file)
{
	struct stat st;
	char real[256];
	begin();
	snprintf(real, sizeof real, "%s", in_dir("real"));
	CHECK(symlink("real", out) == 0);
	CHECK(run_writer(&writers[0], out) == 1); /* there is no such file */
	CHECK_SAYS(cli_err, "is a link that leads nowhere");
	CHECK_OK(file_write(real, "", 0));
	CHECK(run_writer(&writers[0], out) == 0);
	CHECK(lstat(out, &st) == 0 && S_ISLNK(st.st_mode) && bytes_of(real) > 1000);
	unlink(out);
	unlink(real);
}

/* A wrong name, as of a model's weights or a key, costs nobody a file. */
TEST(only_files_of_the_same_kind_are_replaced)
{
	char pack[300];
	begin();
	for (int i = 0; i < WRITERS; i++) {
		CHECK_OK(file_write(out, "weights of a model, say", 23));
		CHECK(run_writer(&writers[i], out) == 2);
		CHECK_SAYS(cli_err, "exists and is not ");
		CHECK_SAYS(cli_err, ": name another file, or remove it");
		CHECK(bytes_of(out) == 23);
		unlink(out);
		CHECK_OK(file_write(out, "", 0));
		CHECK(run_writer(&writers[i], out) == 0); /* an empty file */
		CHECK(run_writer(&writers[i], out) == 0); /* its own */
		unlink(out);
	}
	snprintf(pack, sizeof pack, "%s", in_dir("pack.seg"));
	CHECK_OK(file_write(pack, "text", 4));
	CHECK_RUN(2, "pack -o %s", pack);
	CHECK_SAYS(cli_err, "pack.seg exists and is not ");
	unlink(pack);
	CHECK_RUN(0, "pack -o %s", pack);
	CHECK_RUN(0, "pack -o %s", pack);
}

/* The examples of help may name a file that a user has. */
TEST(zoo_replaces_only_its_own_network)
{
	begin();
	int64_t bytes = bytes_of(model);
	CHECK_RUN(2, "zoo resnet18 -o %s", model);
	CHECK_SAYS(cli_err, "mine.onnx exists and is not resnet18: name another file, or remove it");
	CHECK(bytes_of(model) == bytes);
	CHECK_RUN(0, "zoo steering -q -o %s", model);
	CHECK_OK(file_write(out, "a text", 6));
	CHECK_RUN(2, "zoo steering -o %s", out);
	CHECK(bytes_of(out) == 6);
}

TEST_MAIN
