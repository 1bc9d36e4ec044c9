/* SPDX-License-Identifier: Apache-2.0 */
/* libjpeg reports an error by a call that must not return: it jumps back to decode(). What is used after the
 * jump lies in struct jpeg_reader, not in locals, whose values would be undefined. */
#include "tools/hone/picture.h"
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#if defined __has_include && !__has_include(<jpeglib.h>)
#error "jpeglib.h is missing: install libjpeg-dev (make deps installs all that the build needs)"
#endif
#include <jerror.h>
#include <jpeglib.h>

struct jpeg_reader {
	struct jpeg_decompress_struct j;
	struct jpeg_error_mgr err;
	struct jpeg_progress_mgr progress;
	jmp_buf back;
	struct arena *arena;
	struct picture *out;
	int rc; /* error of ours; 0: libjpeg's, or none */
	bool failed;
	char why[JMSG_LENGTH_MAX]; /* libjpeg's message */
};

static void leave(j_common_ptr j)
{
	struct jpeg_reader *r = j->client_data;
	r->failed = true;
	longjmp(r->back, 1);
}

static void on_error(j_common_ptr j)
{
	struct jpeg_reader *r = j->client_data;
	j->err->format_message(j, r->why);
	leave(j);
}

/* Warnings are damage, which libjpeg fills with gray, except for three harmless ones. Traces are level 0 and
 * more. */
static void on_message(j_common_ptr j, int level)
{
	int code = j->err->msg_code;
	if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR)
		on_error(j);
}

static void on_progress(j_common_ptr j)
{
	struct jpeg_reader *r = j->client_data;
	if (r->j.input_scan_number <= PICTURE_MOST_SCANS)
		return;
	snprintf(r->why, sizeof r->why, "it has more than %d scans", PICTURE_MOST_SCANS);
	leave(j);
}

/* Chooses RGB as the output and allocates the picture; false: r->rc. */
static bool prepare(struct jpeg_reader *r)
{
	J_COLOR_SPACE space = r->j.jpeg_color_space;
	r->j.out_color_space = JCS_RGB;
	r->j.dct_method = JDCT_ISLOW;
	r->rc = space == JCS_CMYK || space == JCS_YCCK
		    ? fail(E_UNSUPPORTED, "a JPEG with CMYK colours; convert it to RGB")
		    : picture_alloc(r->arena, r->j.image_width, r->j.image_height, r->out);
	return r->rc >= 0;
}

static void decode(struct jpeg_reader *r, const struct blob *file)
{
	if (setjmp(r->back))
		return;
	jpeg_create_decompress(&r->j);
	r->j.client_data = r;
	r->j.progress = &r->progress;
	r->j.mem->max_memory_to_use = 512L << 20;
	jpeg_mem_src(&r->j, file->p, file->n);
	jpeg_read_header(&r->j, TRUE);
	if (!prepare(r))
		return;
	jpeg_start_decompress(&r->j);
	while (r->j.output_scanline < r->j.output_height) {
		JSAMPROW row = r->out->rgb + (size_t)r->j.output_scanline * (size_t)r->out->w * 3;
		jpeg_read_scanlines(&r->j, &row, 1);
	}
	jpeg_finish_decompress(&r->j);
}

int picture_jpeg(struct arena *a, const struct blob *file, struct picture *out)
{
	struct jpeg_reader r = {.arena = a, .out = out, .progress.progress_monitor = on_progress};
	r.j.err = jpeg_std_error(&r.err);
	r.err.error_exit = on_error;
	r.err.emit_message = on_message;
	r.j.client_data = &r; /* jpeg_create_decompress keeps it, and may fail */
	decode(&r, file);
	jpeg_destroy_decompress(&r.j);
	if (r.rc < 0)
		return r.rc;
	out->orientation = r.failed ? 0 : picture_orientation(file);
	return r.failed ? fail(E_CORRUPT, "not a JPEG that can be read: %s", r.why) : E_OK;
}
