/* SPDX-License-Identifier: Apache-2.0 */
/* libpng reports an error by a longjmp to decode(). What decode() uses after it lies in struct png_reader,
 * not in locals, whose values would be undefined. */
#include "tools/hone/picture.h"
#include <stdio.h>
#include <string.h>

#if defined __has_include && !__has_include(<png.h>)
#error "png.h is missing: install libpng-dev (make deps installs all that the build needs)"
#endif
#include <png.h>

struct png_reader {
	struct arena *arena;
	struct blob file;
	size_t at; /* bytes of the file that were read */
	struct picture *out;
	int rc;         /* error of ours; 0: libpng's, or none */
	char why[160];  /* libpng's message */
	png_bytep *row; /* of the picture */
	png_bytep exif; /* libpng's memory */
	png_uint_32 exif_bytes;
};

static void on_error(png_structp png, png_const_charp text)
{
	struct png_reader *r = png_get_error_ptr(png);
	snprintf(r->why, sizeof r->why, "%s", text);
	png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
	(void)png;
	(void)text;
}

static void on_read(png_structp png, png_bytep to, size_t n)
{
	struct png_reader *r = png_get_io_ptr(png);
	if (n > r->file.n - r->at)
		png_error(png, "the file is truncated");
	memcpy(to, (const uint8_t *)r->file.p + r->at, n);
	r->at += n;
}

/* Allocates the picture; false: r->rc. */
static bool make_rows(struct png_reader *r, uint32_t w, uint32_t h)
{
	r->rc = picture_alloc(r->arena, w, h, r->out);
	if (r->rc < 0)
		return false;
	r->row = ARENA_ARRAY(r->arena, png_bytep, h);
	for (uint32_t y = 0; y < h; y++)
		r->row[y] = r->out->rgb + (size_t)y * w * 3;
	return true;
}

static void decode(struct png_reader *r, png_structp png, png_infop info)
{
	if (setjmp(png_jmpbuf(png)))
		return;
	png_set_read_fn(png, r, on_read);
	png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* picture_alloc has the limits */
	png_set_chunk_malloc_max(png, 8 << 20);
	png_set_chunk_cache_max(png, 64);
	png_read_info(png, info);
	if (!make_rows(r, png_get_image_width(png, info), png_get_image_height(png, info)))
		return;
	r->out->alpha =
	    png_get_color_type(png, info) & PNG_COLOR_MASK_ALPHA || png_get_valid(png, info, PNG_INFO_tRNS);
	png_set_expand(png);
	png_set_strip_16(png);
	png_set_strip_alpha(png);
	png_set_gray_to_rgb(png);
	png_set_interlace_handling(png);
	png_read_update_info(png, info);
	if (png_get_rowbytes(png, info) != (size_t)r->out->w * 3)
		png_error(png, "rows are of an unknown form");
	png_read_image(png, r->row);
	png_read_end(png, info); /* EXIF may come behind the pixels */
	if (png_get_eXIf_1(png, info, &r->exif_bytes, &r->exif))
		r->out->orientation = picture_exif_orientation(r->exif, r->exif_bytes);
}

int picture_png(struct arena *a, const struct blob *file, struct picture *out)
{
	struct png_reader r = {.arena = a, .file = *file, .out = out};
	png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning);
	png_infop info = png ? png_create_info_struct(png) : NULL;
	if (info)
		decode(&r, png, info);
	png_destroy_read_struct(&png, &info, NULL);
	if (r.rc < 0)
		return r.rc;
	if (r.why[0])
		return fail(E_CORRUPT, "not a PNG that can be read: %s", r.why);
	return info || r.row ? E_OK : fail(E_NOMEM, "no memory for the PNG decoder");
}
