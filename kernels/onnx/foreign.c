/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/onnx/foreign.h"
#include "platform/base/file.h"
#include "platform/base/shell.h"
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define TF2ONNX "convert it: python3 -m tf2onnx.convert "
#define TORCH                                                                                                \
	"in the program that defines the model, call torch.onnx.export(model, example_input, 'model.onnx')"
#define IMAGE                                                                                                \
	"give it to a model as its input: hone run MODEL --input %s (hone run --help: --scale, --resize)"
#define CONVERTED "use the ONNX file from which it was converted"
#define SOURCE "export ONNX from the framework that trained it"

struct bytes {
	const unsigned char *p;
	size_t n;
};

static bool has(const struct bytes *b, size_t at, const char *magic, size_t n)
{
	return b->n >= at + n && !memcmp(b->p + at, magic, n);
}

/* Whether the text is among the first bytes. */
static bool mentions(const struct bytes *b, const char *text)
{
	enum { LOOKED_AT = 1 << 16 };
	return memmem(b->p, b->n < LOOKED_AT ? b->n : LOOKED_AT, text, strlen(text)) != NULL;
}

static bool is_torch_zip(const struct bytes *b)
{
	return has(b, 0, "PK\3\4", 4) && (mentions(b, "/data.pkl") || mentions(b, "/version"));
}

static bool is_keras_zip(const struct bytes *b)
{
	return has(b, 0, "PK\3\4", 4) && mentions(b, "metadata.json") && !is_torch_zip(b);
}

static bool is_pickle(const struct bytes *b)
{
	return b->n > 2 && b->p[0] == 0x80 && b->p[1] >= 2 && b->p[1] <= 5;
}

static bool is_safetensors(const struct bytes *b)
{
	return has(b, 8, "{\"", 2) && has(b, 4, "\0\0\0\0", 4);
}

static bool is_openvino(const struct bytes *b)
{
	return b->n && (b->p[0] == '<' || has(b, 0, "\xef\xbb\xbf<", 4)) && mentions(b, "<net ");
}

static bool is_git_lfs(const struct bytes *b)
{
	return has(b, 0, "version https://git-lfs.", 24);
}

static bool is_page(const struct bytes *b)
{
	return b->n && b->p[0] == '<' && (mentions(b, "<html") || mentions(b, "<HTML"));
}

/* SavedModel: schema version, then a MetaGraphDef, whose tags and signatures are names that TensorFlow
 * gives. */
static bool is_saved_model(const struct bytes *b)
{
	return has(b, 0, "\x08\x01\x12", 3) &&
	       (mentions(b, "serve") || mentions(b, "saved_model") || mentions(b, "Placeholder"));
}

/* GraphDef: NodeDefs, each with a name and an operator. */
static bool is_frozen_graph(const struct bytes *b)
{
	static const char *const types[] = {"\x12\x0bPlaceholder",
					    "\x12\x05"
					    "Const",
					    "\x12\x04NoOp", NULL};
	bool node =
	    has(b, 0, "\x0a", 1) && b->n > 4 && (b->p[2] == 0x0a || b->p[3] == 0x0a || b->p[4] == 0x0a);
	for (int i = 0; types[i] && node; i++)
		if (mentions(b, types[i]))
			return true;
	return false;
}

/* Core ML: the version of its specification, then a description. */
static bool is_coreml(const struct bytes *b)
{
	return b->n > 3 && b->p[0] == 8 && b->p[1] >= 1 && b->p[1] <= 12 && b->p[2] == 0x12 &&
	       (mentions(b, "com.github.apple") || mentions(b, "coremltools"));
}

static bool is_caffe(const struct bytes *b)
{
	return mentions(b, "layer {") && (mentions(b, "bottom:") || mentions(b, "top:"));
}

/* `%s` in a remedy is the path. A row has its first bytes at `at`, or a test. */
static const struct format {
	const char *what, *remedy;
	uint8_t at, n;
	char magic[8];
	bool (*test)(const struct bytes *b);
} formats[] = {
    {"a TensorFlow Lite model", TF2ONNX "--tflite %s --output model.onnx", 4, 4, "TFL3"},
    {"a PyTorch file", TORCH, .test = is_torch_zip},
    {"a Keras model", TF2ONNX "--keras %s --output model.onnx", .test = is_keras_zip},
    {"a zip archive", "unpack it: unzip %s", 0, 4, "PK\3\4"},
    {"a Python pickle, as old versions of PyTorch write it", TORCH, .test = is_pickle},
    {"an ncnn model's .param file", SOURCE, 0, 7, "7767517"},
    {"compressed with gzip", "unpack it: gunzip %s", 0, 2, "\x1f\x8b"},
    {"compressed with xz", "unpack it: unxz %s", 0, 6,
     "\xfd"
     "7zXZ\0"},
    {"compressed with zstd", "unpack it: unzstd %s", 0, 4, "\x28\xb5\x2f\xfd"},
    {"a Keras model or weights in HDF5", TF2ONNX "--keras %s --output model.onnx", 0, 8, "\x89HDF\r\n\x1a\n"},
    {"in GGUF, a format of llama.cpp's language models",
     "hone does not run language models of this kind; " SOURCE, 0, 4, "GGUF"},
    {"a TensorRT engine, which runs on one kind of GPU", CONVERTED, 0, 4, "ftrt"},
    {"a TensorRT engine, which runs on one kind of GPU", CONVERTED, 0, 4, "ptrt"},
    {"an RKNN model, which runs on a Rockchip NPU", CONVERTED, 0, 4, "RKNN"},
    {"in ONNX Runtime's own format (.ort)", CONVERTED, 4, 4, "ORTM"},
    {"an ExecuTorch program", TORCH, 4, 2, "ET"},
    {"a pointer of Git LFS, not the file itself", "get the file: git lfs pull", .test = is_git_lfs},
    {"an OpenVINO model", CONVERTED ", or " SOURCE, .test = is_openvino},
    {"a web page", "download the model's file itself (of GitHub: the raw file)", .test = is_page},
    {"a safetensors file, which holds weights and no graph", TORCH, .test = is_safetensors},
    {"a TensorFlow SavedModel",
     TF2ONNX "--saved-model FOLDER --output model.onnx, with the folder that holds %s",
     .test = is_saved_model},
    {"a Core ML model", SOURCE, .test = is_coreml},
    {"a frozen TensorFlow graph", TF2ONNX "--graphdef %s --inputs X:0 --outputs Y:0 --output model.onnx",
     .test = is_frozen_graph},
    {"a PNG image", IMAGE, 0, 8, "\x89PNG\r\n\x1a\n"},
    {"a JPEG image", IMAGE, 0, 3, "\xff\xd8\xff"},
    {"a NumPy array", "give it to a model as its input: hone run MODEL --input %s", 0, 6, "\x93NUMPY"},
    {"a Caffe model's text", SOURCE, .test = is_caffe},
};

static bool fits(const struct format *f, const struct bytes *b)
{
	return f->test ? f->test(b) : has(b, f->at, f->magic, f->n);
}

/* Begins with the version of its format, a number, and then a text or a number of the model. */
static bool is_onnx(const struct bytes *b)
{
	return b->n > 2 && b->p[0] == 8 && b->p[1] >= 1 && b->p[1] <= 20 &&
	       memchr("\x12\x1a\x22\x28\x32\x3a\x42", b->p[2], 7);
}

const char *foreign_name(const void *p, size_t n)
{
	const struct bytes b = {p, n};
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (fits(&formats[i], &b))
			return formats[i].what;
	return is_onnx(&b) ? "an ONNX model" : NULL;
}

/* Writes a remedy with the path for its `%s`, quoted for a shell. */
static void put_remedy(struct buf *out, const char *remedy, const char *path)
{
	const char *at = strstr(remedy, "%s");
	buf_printf(out, "%.*s", at ? (int)(at - remedy) : INT_MAX, remedy);
	if (at) {
		shell_path(out, path ? path : "FILE");
		buf_puts(out, at + 2);
	}
}

static int refuse(const char *path, const char *what, const char *remedy)
{
	struct buf b = {0};
	put_remedy(&b, remedy, path);
	int rc = buf_ok(&b) ? fail(E_CORRUPT, "this is not ONNX: it is %s; %s", what, buf_str(&b))
			    : fail(E_NOMEM, "no memory for the file's format");
	buf_free(&b);
	return rc;
}

int foreign_explain(int rc, const void *p, size_t n, const char *path)
{
	const struct bytes b = {p, n};
	if (!n)
		return fail(E_CORRUPT, "the file is empty, so it is not ONNX");
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (fits(&formats[i], &b))
			return refuse(path, formats[i].what, formats[i].remedy);
	return rc;
}

int foreign_folder(const char *path)
{
	char file[4096];
	int rc = E_OK;
	if (!file_is_dir(path))
		return E_OK;
	snprintf(file, sizeof file, "%.4000s/saved_model.pb", path);
	if (file_exists(file))
		rc = refuse(path, "a TensorFlow SavedModel", TF2ONNX "--saved-model %s --output model.onnx");
	snprintf(file, sizeof file, "%.4000s/Manifest.json", path);
	if (!rc && file_exists(file))
		rc = refuse(path, "a Core ML package", SOURCE);
	return rc < 0 ? fail_in(rc, "%s", path) : E_OK;
}
