/* SPDX-License-Identifier: Apache-2.0 */
/* Makes PNG and JPEG files in memory, for tests of what reads them. */
#ifndef TESTS_PICTURES_H
#define TESTS_PICTURES_H

#include "platform/base/buf.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

/* Sample c of pixel (x, y) of the test picture, 0 to 255; gradients, which survive JPEG. */
static inline int pic_sample(int x, int y, int c)
{
	return c == 0   ? (x * 11 + y * 3) % 256
	       : c == 1 ? (255 - y * 13 + 512) % 256
			: (x * 5 + y * 7 + 40) % 256;
}

static inline void pic_png_write(png_structp png, png_bytep p, size_t n)
{
	buf_add(png_get_io_ptr(png), p, n);
}

static inline void pic_png_flush(png_structp png)
{
	(void)png;
}

/* A PNG of the test picture. Samples of 16 bits have noise in their lower byte; alpha is x; a palette holds
 * the pixels in order (w * h <= 256). */
static inline void pic_png(int w, int h, int type, int depth, bool interlaced, struct buf *out)
{
	png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
	png_infop info = png_create_info_struct(png);
	int channels = type == PNG_COLOR_TYPE_PALETTE      ? 1
		       : type == PNG_COLOR_TYPE_GRAY       ? 1
		       : type == PNG_COLOR_TYPE_GRAY_ALPHA ? 2
		       : type == PNG_COLOR_TYPE_RGB        ? 3
							   : 4;
	uint8_t *row[1024], *all = calloc((size_t)w * (size_t)h * 4, 2), *p = all;
	png_color palette[256];
	if (setjmp(png_jmpbuf(png)))
		abort();
	png_set_write_fn(png, out, pic_png_write, pic_png_flush);
	png_set_IHDR(png, info, (uint32_t)w, (uint32_t)h, depth, type,
		     interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
		     PNG_FILTER_TYPE_DEFAULT);
	for (int y = 0; y < h; y++) {
		row[y] = p;
		for (int x = 0; x < w; x++)
			for (int c = 0; c < channels; c++) {
				bool alpha = (channels == 2 && c == 1) || c == 3;
				int at = y * w + x;
				*p++ = (uint8_t)(type == PNG_COLOR_TYPE_PALETTE ? at
						 : alpha                        ? x
										: pic_sample(x, y, c));
				if (depth == 16)
					*p++ = (uint8_t)(x * 77);
				if (type == PNG_COLOR_TYPE_PALETTE)
					palette[at] = (png_color){(uint8_t)pic_sample(x, y, 0),
								  (uint8_t)pic_sample(x, y, 1),
								  (uint8_t)pic_sample(x, y, 2)};
			}
	}
	if (type == PNG_COLOR_TYPE_PALETTE)
		png_set_PLTE(png, info, palette, w * h);
	png_write_info(png, info);
	png_write_image(png, row);
	png_write_end(png, info);
	png_destroy_write_struct(&png, &info);
	free(all);
}

/* A JPEG of the test picture, quality 100 without subsampling. space: JCS_RGB, JCS_GRAYSCALE or JCS_CMYK.
 * scans: 0, or for gray a multiple of 64: progressive with that many scans. */
static inline void pic_jpeg(int w, int h, J_COLOR_SPACE space, int scans, struct buf *out)
{
	struct jpeg_compress_struct j;
	struct jpeg_error_mgr err;
	unsigned char *bytes = NULL;
	unsigned long n = 0;
	jpeg_scan_info *script = calloc((size_t)scans + 1, sizeof *script);
	j.err = jpeg_std_error(&err);
	jpeg_create_compress(&j);
	jpeg_mem_dest(&j, &bytes, &n);
	j.image_width = (JDIMENSION)w;
	j.image_height = (JDIMENSION)h;
	j.in_color_space = space;
	j.input_components = space == JCS_RGB ? 3 : space == JCS_CMYK ? 4 : 1;
	jpeg_set_defaults(&j);
	jpeg_set_quality(&j, 100, TRUE);
	j.comp_info[0].h_samp_factor = j.comp_info[0].v_samp_factor = 1;
	int passes = scans / 64;
	for (int i = 0; i < scans; i++) { /* one coefficient each, DC first; each pass adds a bit */
		int pass = i / 64;
		script[i] = (jpeg_scan_info){.comps_in_scan = 1,
					     .Ss = i % 64,
					     .Se = i % 64,
					     .Ah = pass ? passes - pass : 0,
					     .Al = passes - 1 - pass};
	}
	if (scans) {
		j.scan_info = script;
		j.num_scans = scans;
	}
	jpeg_start_compress(&j, TRUE);
	for (int y = 0; y < h; y++) {
		uint8_t line[4096] = {0}, *p = line;
		for (int x = 0; x < w; x++)
			for (int c = 0; c < j.input_components; c++)
				*p++ = (uint8_t)pic_sample(x, y, c);
		JSAMPROW row = line;
		jpeg_write_scanlines(&j, &row, 1);
	}
	jpeg_finish_compress(&j);
	jpeg_destroy_compress(&j);
	buf_add(out, bytes, n);
	free(bytes);
	free(script);
}

#endif
