/* SPDX-License-Identifier: Apache-2.0 */
/* PNG and JPEG files as inputs of models: decoded, resized, and written to a tensor. A file may be hostile:
 * its size, its pixels and the work of decoding are bounded, and the libraries' errors become ours. Only the
 * `hone` program and its tests link the libraries (picture_png.c, picture_jpeg.c).
 *
 * Decoding: 8 bits per channel, RGB. 16-bit PNGs keep their upper byte, palettes are expanded, grays are
 * spread to three equal channels, alpha and gamma are ignored. CMYK JPEGs are refused. The orientation that a
 * camera notes in EXIF is not applied.
 *
 * Resizing: bilinear with half-pixel centres and without smoothing, as cv2.INTER_LINEAR and ONNX Resize
 * (linear, half_pixel): output pixel x lies at (x + 0.5) * from / to - 0.5, clamped to the picture. Values
 * between pixels are not rounded, unless the tensor has integers.
 *
 * Values: (pixel - mean) * scale, with pixels from 0 to 255. Gray is 0.299 r + 0.587 g + 0.114 b. */
#ifndef TOOLS_PICTURE_H
#define TOOLS_PICTURE_H

#include "kernels/task/tensor.h"
#include "platform/base/file.h"
#include "tools/hone/cmd.h"

enum {
	PICTURE_MOST_SIDE = 16384,
	PICTURE_MOST_PIXELS = 1 << 26, /* 192 MiB when decoded */
	PICTURE_MOST_FILE = 1 << 28,   /* bytes */
	PICTURE_MOST_SCANS = 100       /* of a progressive JPEG: each one visits all pixels */
};

struct picture {
	int w, h;     /* pixels, at least 1 */
	uint8_t *rgb; /* [h][w][3] */
	bool alpha;   /* the file has transparency, which is not in rgb */
	/* The orientation that the file's EXIF notes, 1 to 8, which is not applied; 0: none. */
	int orientation;
};

enum picture_layout { LAYOUT_BY_SHAPE, LAYOUT_NCHW, LAYOUT_NHWC };
enum picture_channels { CHANNELS_BY_SHAPE, CHANNELS_RGB, CHANNELS_BGR, CHANNELS_GRAY };

struct picture_opts {
	/* Size to which the picture is resized; its middle part of the input's size is then taken. 0: the
	 * input's size. -1: it is not resized. */
	int w, h;
	int nmean, nscale;        /* 1 or 3 values; 0: mean 0, scale 1 */
	double mean[3], scale[3]; /* of red, green, blue, whatever the order of the channels; gray: [0] */
	enum picture_layout layout;
	enum picture_channels channels;
};

/* Rows for the table of options: picture_opts_read needs them. */
#define OPT_PICTURE                                                                                          \
	{"resize", OPT_STR, "WxH",                                                                           \
	 "size of a picture before its middle is taken, or none (default: the input's)"},                    \
	    {"mean", OPT_STR, "R,G,B",                                                                       \
	     "subtracted from the pixels of a picture, which are 0 to 255 (default: 0)"},                    \
	    {"scale", OPT_STR, "R,G,B", "then multiplied by this, as 1/255, or 1/STD (default: 1)",          \
	     .also = "std stddev std-dev"},                                                                  \
	    {"layout", OPT_STR, "nchw|nhwc", "axes of a picture's input (default: by its shape)",            \
	     .values = "nchw nhwc"},                                                                         \
	{                                                                                                    \
		"channels", OPT_STR, "rgb|bgr|gray",                                                         \
		    "channels of a picture's input (default: rgb, or gray)", .values = "rgb bgr gray"        \
	}

/* Which of these options is given, by its name; NULL: none. */
const char *picture_opts_given(const struct args *a);
int picture_opts_read(const struct args *a, struct picture_opts *out) MUST_CHECK;
/* Whether a file is read as a picture: by the end of its name, .png, .jpg or .jpeg. */
bool picture_is(const char *path);
/* Decodes a PNG or a JPEG, by its first bytes. */
int picture_decode(struct arena *a, const struct blob *file, struct picture *out) MUST_CHECK;
int picture_read(struct arena *a, const char *path, struct picture *out) MUST_CHECK;
/* Writes the picture to t, whose type and shape are set and whose data is allocated: rank 2 to 4, one
 * picture. */
int picture_put(const struct picture *p, const struct picture_opts *o, struct tensor *t) MUST_CHECK;
/* The size to which picture_put resizes, and that of the input, which is its middle; in pixels. */
struct picture_fit {
	int w, h, in_w, in_h;
};
int picture_fit(const struct picture *p, const struct picture_opts *o, const struct tensor *t,
		struct picture_fit *out) MUST_CHECK;
/* The orientation in the EXIF of a JPEG, 1 to 8; 0: there is none, or the file is damaged before it. */
int picture_orientation(const struct blob *file);
/* The same of the EXIF alone, as PNGs have it. */
int picture_exif_orientation(const uint8_t *exif, size_t n);

/* The decoders. n: at least 8. picture_alloc checks the bounds. */
int picture_png(struct arena *a, const struct blob *file, struct picture *out) MUST_CHECK;
int picture_jpeg(struct arena *a, const struct blob *file, struct picture *out) MUST_CHECK;
int picture_alloc(struct arena *a, uint64_t w, uint64_t h, struct picture *out) MUST_CHECK;

#endif
