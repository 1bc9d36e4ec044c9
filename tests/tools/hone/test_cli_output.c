/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: what an output option names is never a model that the command reads, a device, or a file
 * that the command did not write; a link's target is written. */
#include "agent/cache/cache.h"
#include "tests/lib/cli_model.h"
#include "tests/lib/keys.h"
#include "tests/lib/zoo_values.h"
#include "tools/hone/cut.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static char model[256], out[256];

/* Commands that write a file: the words before and behind its name. */
static const struct writer {
	const char *before, *behind;
	bool model;          /* before the words of `behind` */
	const char *foreign; /* the beginning of a file of nearly the kind that the command writes */
} writers[] = {
    {"report", "--threads 1 -o", true, "<!DOCTYPE html>\n<html lang=\"en\"><head><title>mine</title>"},
    {"bench", "--runs 2 --threads 1 --trace", true, "{\"traceEvents\":[{\"name\":\"mine\"}]}"},
    {"quantize", "--data random --threads 1 -o", true, "\x08\x08\x12\x04hone"},
    {"zoo steering", "-o", false, "\x08\x08\x12\x07pytorch"},
    {"export", "-o", false, "{\"type\":\"FeatureCollection\",\"features\":[]}"},
    {"bugreport", "-o", false, "== Notes ==\n"},
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

/* Makes a file with such bytes, of which the command must say that it did not write it, and checks that it is
 * still there. */
#define CHECK_KEEPS(path, text, other, ...)                                                                  \
	do {                                                                                                 \
		static char kept_[256];                                                                      \
		CHECK_OK(file_write(path, text, strlen(text)));                                              \
		CHECK_RUN(2, __VA_ARGS__);                                                                   \
		CHECK_SAYS(cli_err, strrchr(path, '/'));                                                     \
		CHECK_SAYS(cli_err, " exists and is not a file that `hone ");                                \
		CHECK_SAYS(cli_err, " writes: name another " other);                                         \
		CHECK_SAYS(cli_err, ", or remove it");                                                       \
		slurp(path, kept_, sizeof kept_);                                                            \
		CHECK(!strcmp(kept_, text));                                                                 \
		unlink(path);                                                                                \
	} while (0)

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
TEST(only_own_files_are_replaced)
{
	begin();
	for (int i = 0; i < WRITERS; i++) {
		const struct writer *w = &writers[i];
		char words[600];
		snprintf(words, sizeof words, "%s %s %s %s", w->before, w->model ? model : "", w->behind,
			 out);
		CHECK_KEEPS(out, "weights of a model, say", "file", "%s", words);
		CHECK_KEEPS(out, w->foreign, "file", "%s", words);
		CHECK_OK(file_write(out, "", 0));
		CHECK_RUN(0, "%s", words); /* an empty file */
		CHECK_RUN(0, "%s", words); /* its own */
		unlink(out);
	}
}

TEST(export_replaces_records)
{
	static const char *const kinds[] = {"rec", "choices", "history", "trials"};
	const enum cache_type types[] = {CACHE_REC, CACHE_CHOICES, CACHE_HISTORY, CACHE_TRIALS};
	begin();
	for (int i = 0; i < 4; i++) {
		char at[256], text[64] = "", want[64];
		struct cache *c;
		snprintf(at, sizeof at, "%s-%d", in_dir("exported"), i);
		REQUIRE_OK(cache_open(&c, at, false, 0));
		CHECK_OK(cache_put(c, types[i], (struct key){1, 2}, "text", 4));
		cache_close(c);
		for (int k = 0; k < 2; k++)
			CHECK_RUN(0, "export -o %s --cache %s", out, at);
		slurp(out, text, sizeof text);
		snprintf(want, sizeof want, "{\"type\":\"%s\",\"key\":\"", kinds[i]);
		CHECK(!strncmp(text, want, strlen(want)));
	}
}

/* Its signature, too, which is written beside it. */
TEST(pack_replaces_packs)
{
	char pack[300], sig[310], key[256], words[700];
	begin();
	snprintf(pack, sizeof pack, "%s", in_dir("pack.seg"));
	snprintf(sig, sizeof sig, "%s.sig", pack);
	snprintf(key, sizeof key, "%s", in_dir("pack.key"));
	CHECK_OK(private_key_write(keys(1)->private[0], key));
	snprintf(words, sizeof words, "pack -o %s --key %s", pack, key);
	CHECK_KEEPS(pack, "text", "file", "%s", words);
	CHECK_KEEPS(sig, "-----BEGIN PGP SIGNATURE-----\n", "file", "%s", words);
	CHECK_KEEPS(sig, "hone-signed 1 root ", "file", "%s", words);
	CHECK(!file_exists(pack));
	CHECK_RUN(0, "%s", words);
	CHECK_RUN(0, "%s", words);
}

/* Quantisation keeps a graph's name, so it is the producer's that tells. */
TEST(quantize_and_zoo_keep_models_of_others)
{
	static char before[1 << 21], after[1 << 21];
	begin();
	slurp(model, before, sizeof before);
	CHECK_RUN(0, "zoo steering --seed 2 -q -o %s", in_dir("other.onnx"));
	CHECK_RUN(2, "quantize %s --data random -o %s", in_dir("other.onnx"), model);
	CHECK_SAYS(cli_err, "mine.onnx exists and is not a file that `hone quantize` writes");
	CHECK_RUN(0, "quantize %s --data random --threads 1 -o %s", model, out);
	CHECK_RUN(2, "zoo steering -o %s", out);
	CHECK_SAYS(cli_err, "exists and is not a file that `hone zoo` writes");
	slurp(model, after, sizeof after);
	CHECK(!memcmp(before, after, sizeof after));
}

/* A file of the folder that has an output's name. */
TEST(run_replaces_tensors)
{
	char folder[256], npy[300], pb[300], words[700];
	begin();
	snprintf(folder, sizeof folder, "%s", in_dir("tensors"));
	snprintf(npy, sizeof npy, "%s/angle.npy", folder);
	snprintf(pb, sizeof pb, "%s/angle.pb", folder);
	CHECK_OK(file_mkdirs(folder, 0755));
	snprintf(words, sizeof words, "run %s --random --threads 1 -o %s", model, folder);
	CHECK_KEEPS(npy, "angles that took a week to measure\n", "folder", "%s", words);
	CHECK(!strstr(cli_out, "ran once"));
	CHECK_OK(file_write(npy, "", 0));
	CHECK_RUN(0, "%s", words);
	CHECK_RUN(0, "%s", words);
	CHECK_KEEPS(pb, "angles that took a week to measure\n", "folder", "%s --pb", words);
	CHECK_KEEPS(pb, "\x08\x01\x10\x01\x42\x05other\x4a\x04mine", "folder", "%s --pb", words);
	CHECK_RUN(0, "%s --pb", words);
	CHECK_RUN(0, "%s --pb", words);
	unlink(npy);
	CHECK(mkdir(npy, 0755) == 0);
	CHECK_RUN(1, "%s", words);
	CHECK_SAYS(cli_err, "angle.npy is a folder");
	CHECK(!strstr(cli_out, "ran once"));
}

/* Files that a user's folder may hold, with the beginning of a file of nearly the kind that is written. */
TEST(compile_keeps_files_of_others)
{
	static const struct {
		const char *options, *file, *text;
	} compiled[] = {
	    {"-o D", "plan.hone", "a plan for the summer\n"},
	    {"-o D", "bundle.json", "{\"name\": \"mine\"}"},
	    {"-o D", "bundle.json", "{\n \"version\": 1\n}"},
	    {"--beside", "../mine.onnx.hone", "to sharpen\n"},
	    {"--c -o D", "mine.h", "/* mine: a robot's main program. */\n"},
	    {"--c -o D", "mine.c", "/* Made by hand. */\n"},
	    {"--c -o D", "mine_kernels.o",
	     "\x7f"
	     "ELF of another compiler"},
	    {"--c -o D", "mine_weights.o",
	     "\x7f"
	     "ELF of another compiler"},
	    {"--c --name net -o D", "net.c", "/* Made by hone; mine.h says what it is. */\n"},
	};
	begin();
	CHECK_OK(file_mkdirs(in_dir("D"), 0755));
	for (size_t i = 0; i < sizeof compiled / sizeof *compiled; i++) {
		const char *const path[] = {in_dir("D")};
		char words[1024], file[300];
		fill_words(compiled[i].options, "D", path, words);
		snprintf(file, sizeof file, "%s/%s", in_dir("D"), compiled[i].file);
		CHECK_KEEPS(file, compiled[i].text, "folder", "compile %s %s --threads 1", model, words);
	}
	CHECK(rmdir(in_dir("D")) == 0); /* nothing was written */
}

TEST(compile_replaces_its_own_files)
{
	static const char *const options[] = {"-o D", "--c -o D", "--beside"};
	begin();
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	for (int i = 0; i < 3; i++) {
		const char *const path[] = {in_dir(i ? "own" : "bundle")};
		char words[1024];
		fill_words(options[i], "D", path, words);
		for (int k = 0; k < 2; k++)
			CHECK_RUN(0, "compile %s %s --threads 1", model, words);
	}
	CHECK_OK(file_write(in_dir("own/mine.c"), "int mine;\n", 10));
	CHECK_RUN(2, "compile %s --c -o %s --threads 1", model, in_dir("own"));
	CHECK_SAYS(cli_err, "own/mine.c exists and is not a file that `hone compile` writes");
	CHECK_OK(file_write(in_dir("own/mine.h"), "", 0)); /* so nothing says whose the objects are */
	unlink(in_dir("own/mine.c"));
	CHECK_RUN(2, "compile %s --c -o %s --threads 1", model, in_dir("own"));
	CHECK_SAYS(cli_err, "own/mine_kernels.o exists and is not a file that `hone compile` writes");
}

/* Writes what --bisect writes into the folder, of a network that has a node behind its input. */
static void bisected(const char *folder)
{
	struct arena a = {0};
	struct tensor *t;
	struct graph *piece, *g = zoo_values("steering", &a, &t);
	int *from;
	REQUIRE(!test_bad);
	REQUIRE_OK(cut_graph(g, g->node[1].out[0], ARENA_ARRAY(&a, bool, g->nvalues), &piece, &from));
	REQUIRE_OK(cut_write(piece, from, t, folder));
	graph_free(piece);
	graph_free(g);
	arena_free(&a);
}

static void check_bisect(const char *words, const char *folder)
{
	char file[300], set[300], cmd[400];
	snprintf(file, sizeof file, "%s/model.onnx", folder);
	snprintf(set, sizeof set, "%s/test_data_set_0", folder);
	CHECK_OK(file_mkdirs(folder, 0755));
	CHECK_KEEPS(file, "\x08\x08\x12\x04hone", "folder", "%s", words);
	CHECK(!cli_out[0]); /* nothing was verified */
	CHECK_OK(file_mkdirs(set, 0755));
	CHECK_RUN(2, "%s", words);
	CHECK_SAYS(cli_err, "test_data_set_0 exists, beside no model that `hone verify` wrote");
	bisected(folder);
	CHECK_RUN(0, "%s", words);
	snprintf(cmd, sizeof cmd, "rm -r '%s'", folder);
	CHECK(system(cmd) == 0);
}

TEST(bisect_keeps_folders_of_others)
{
	char folder[256], words[700], to[300], here[4096];
	begin();
	snprintf(folder, sizeof folder, "%s", in_dir("piece"));
	snprintf(words, sizeof words, "verify %s --bisect --kernels fallback --threads 1 -o %s", model,
		 folder);
	check_bisect(words, folder);
	/* the default folder lies in the current one */
	REQUIRE(getcwd(here, sizeof here) && chdir(in_dir("")) == 0);
	snprintf(words, sizeof words, "verify %s --bisect --kernels fallback --threads 1", model);
	check_bisect(words, "./mine-failing");
	CHECK(chdir(here) == 0);
	/* the model may be one that --bisect wrote */
	bisected(folder);
	snprintf(to, sizeof to, "%s/model.onnx", folder);
	CHECK_RUN(2, "verify %s --bisect -o %s", to, folder);
	CHECK_SAYS(cli_err, "is the model itself: write to another folder");
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

static int on_a_full_disk(void)
{
	char disk[256], large[256];
	snprintf(disk, sizeof disk, "%s", in_dir("disk"));
	snprintf(large, sizeof large, "%s", one_node("large.onnx", "Relu", "1 64 64"));
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mkdir(disk, 0755) < 0 || mount("none", disk, "tmpfs", 0, "size=8k") < 0)
		return 77;
	CHECK(mkdir(in_dir("disk/before"), 0755) == 0);
	CHECK_RUN(1, "run %s --random --threads 1 -o %s/a//b/", large, disk);
	CHECK_SAYS(cli_err, "No space left");
	CHECK(!file_exists(in_dir("disk/a")));
	CHECK_RUN(1, "run %s --random --threads 1 -o %s/before", large, disk);
	CHECK(file_exists(in_dir("disk/before")));
	if (worker()) {
		CHECK_RUN(1, "compile %s --threads 1 -o %s/a/b", model, disk);
		CHECK(!file_exists(in_dir("disk/a")));
		CHECK_RUN(1, "compile %s --threads 1 --c -o %s/a", model, disk);
		CHECK(!file_exists(in_dir("disk/a")));
	}
	return test_bad;
}

/* A command that could write nothing leaves no folder behind. */
TEST(no_empty_folder_stays)
{
	int status = -1;
	begin();
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		status = on_a_full_disk();
		fflush(NULL);
		_exit(status);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		SKIP("this process may not mount");
	CHECK(WEXITSTATUS(status) == 0);
}

TEST_MAIN
