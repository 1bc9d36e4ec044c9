/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other programs: the error names the format and the converter. */
#include "kernels/onnx/foreign.h"
#include "tests/lib/onnx_data.h"
#include "tests/lib/onnx_make.h"

#define BYTES(text) text, sizeof text - 1

static const struct {
	const char *bytes;
	size_t n;
	const char *what, *remedy;
} files[] = {
    {BYTES("\x1c\0\0\0TFL3\x14\0\x20\0"), "a TensorFlow Lite model;", "tf2onnx.convert --tflite FILE"},
    {BYTES("PK\3\4\0\0\0\0\0\0archive/data.pkl\x80\2"), "a PyTorch file;", "torch.onnx.export("},
    {BYTES("PK\3\4\0\0\0\0\0\0metadata.json{"), "a Keras model;", "--keras FILE"},
    {BYTES("PK\3\4\0\0\0\0\0\0readme.txt"), "a zip archive;", "unzip FILE"},
    {BYTES("\x80\2\x8a\x0al\xfc\x9c\x46\xf9"), "a Python pickle", "torch.onnx.export("},
    {BYTES("7767517\n84 101\nInput data 0 1 data\n"), "an ncnn model's .param file;", "export ONNX"},
    {BYTES("\x1f\x8b\x08\0\0\0\0\0"), "compressed with gzip;", "gunzip FILE"},
    {BYTES("\xfd"
	   "7zXZ\0\0\4"),
     "compressed with xz;", "unxz FILE"},
    {BYTES("\x28\xb5\x2f\xfd\x24\x01\x09"), "compressed with zstd;", "unzstd FILE"},
    {BYTES("\x89HDF\r\n\x1a\n\0\0\0"), "HDF5;", "--keras FILE"},
    {BYTES("GGUF\3\0\0\0\0\0\0\0"), "in GGUF", "export ONNX"},
    {BYTES("ftrt\0\0\0\0\1"), "a TensorRT engine", "from which it was converted"},
    {BYTES("ptrt\0\0\0\0\1"), "a TensorRT engine", "from which it was converted"},
    {BYTES("RKNN\0\0\0\0\1"), "an RKNN model", "from which it was converted"},
    {BYTES("\x20\0\0\0ORTM\0\0"), "ONNX Runtime's own format", "from which it was converted"},
    {BYTES("\x20\0\0\0ET12\0\0"), "an ExecuTorch program;", "torch.onnx.export("},
    {BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:1\n"), "a pointer of Git LFS",
     "git lfs pull"},
    {BYTES("<?xml version=\"1.0\"?>\n<net name=\"m\" version=\"11\">\n"), "an OpenVINO model;", "ONNX file"},
    {BYTES("<!DOCTYPE html>\n<html lang=\"en\">\n"), "a web page;", "the raw file"},
    {BYTES("\x40\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\""), "a safetensors file", "torch.onnx.export("},
    {BYTES("\x08\x01\x12\x20\x0a\x10\x22\x05serve*\x04"), "a TensorFlow SavedModel;", "--saved-model FOLDER"},
    {BYTES("\x08\x05\x12\x30\x0a\x04x\xa2\x06\x10\x63om.github.apple.coremltools"), "a Core ML model;",
     "export ONNX"},
    {BYTES("\x0a\x20\x0a\x05input\x12\x0bPlaceholder\x2a\x01\x01"), "a frozen TensorFlow graph;",
     "--graphdef FILE"},
    {BYTES("\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), "a PNG image;", "hone run MODEL --input FILE"},
    {BYTES("\xff\xd8\xff\xe0\0\x10JFIF"), "a JPEG image;", "hone run MODEL --input FILE"},
    {BYTES("\x93NUMPY\1\0v\0{'descr'"), "a NumPy array;", "hone run MODEL --input FILE"},
    {BYTES("name: \"m\"\nlayer {\n  name: \"c\"\n  bottom: \"x\"\n"), "a Caffe model's text;", "export ONNX"},
};
enum { FILES = sizeof files / sizeof *files };

TEST(formats_of_others_are_named)
{
	struct graph *g;
	for (size_t i = 0; i < FILES; i++) {
		CHECK_FAILS(import_bytes(files[i].bytes, files[i].n, NULL, NULL, &g), E_CORRUPT,
			    files[i].what);
		CHECK_FAILS(import_bytes(files[i].bytes, files[i].n, NULL, NULL, &g), E_CORRUPT,
			    files[i].remedy);
		CHECK(!strchr(err_text(), '\n'));
	}
	CHECK_FAILS(import_bytes("", 0, NULL, NULL, &g), E_CORRUPT, "the file is empty");
	CHECK_FAILS(import_bytes("what is this?", 13, NULL, NULL, &g), E_CORRUPT,
		    "13 bytes are not a valid ONNX model: the file is damaged, or not ONNX");
}

/* Cut anywhere, and in the way of no valid model. */
TEST(cut_and_lookalike_files)
{
	struct graph *g;
	for (size_t i = 0; i < FILES; i++)
		for (size_t n = 0; n < files[i].n; n++) {
			unsigned char *copy = malloc(n + 1); /* the sanitizer sees what is read behind it */
			memcpy(copy, files[i].bytes, n);
			unsigned char *tight = realloc(copy, n ? n : 1);
			CHECK(import_bytes(tight, n, NULL, NULL, &g) < 0);
			free(tight);
		}
	struct onnx_maker k;
	mk_start(&k, 17, 1);
	k.m.has_ir_version = 0;
	k.m.producer_name = mk_text("TFL3 serve Placeholder <html coremltools");
	mk_input(&k, "x", 1, "2");
	mk_node(&k, "Relu", "x", "y");
	mk_output(&k, "y");
	REQUIRE_OK(mk_import(&k, NULL, NULL, &g));
	graph_free(g);
}

TEST(folders_of_others)
{
	char dir[600], file[700];
	snprintf(dir, sizeof dir, "%s/saved", onnx_tmp_dir());
	snprintf(file, sizeof file, "%s/saved_model.pb", dir);
	CHECK_OK(foreign_folder(dir));
	REQUIRE_OK(file_mkdirs(dir, 0755));
	CHECK_OK(foreign_folder(dir));
	REQUIRE_OK(file_write(file, "x", 1));
	CHECK_FAILS(foreign_folder(dir), E_CORRUPT, "--saved-model ");
}

/* The remedy is a command to be pasted: a shell reads the path as one word, and not as an option. */
TEST(paths_in_remedies_are_quoted)
{
	static const struct {
		const char *path, *word;
	} paths[] = {{"cat 1.png", "--input 'cat 1.png' "},
		     {"-x.png", "--input ./-x.png "},
		     {"it's.png", "--input 'it'\\''s.png' "},
		     {"/a/cat.png", "--input /a/cat.png "}};
	char dir[600], file[700];
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		CHECK_FAILS(foreign_explain(E_CORRUPT, "\x89PNG\r\n\x1a\n", 8, paths[i].path), E_CORRUPT,
			    paths[i].word);
	snprintf(dir, sizeof dir, "%s/core ml", onnx_tmp_dir());
	REQUIRE_OK(file_mkdirs(dir, 0755));
	snprintf(file, sizeof file, "%s/Manifest.json", dir);
	REQUIRE_OK(file_write(file, "x", 1));
	CHECK_FAILS(foreign_folder(dir), E_CORRUPT,
		    "core ml: this is not ONNX: it is a Core ML package; export");
	snprintf(file, sizeof file, "%s/saved_model.pb", dir);
	REQUIRE_OK(file_write(file, "x", 1));
	CHECK_FAILS(foreign_folder(dir), E_CORRUPT, "core ml' --output model.onnx");
}

TEST_MAIN
